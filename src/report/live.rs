//! The live view of a run on a terminal: two lines that are drawn again and again. It draws what it is given and knows nothing of the run.

use std::io::Write as _;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use crate::core::moment::Secs;
use crate::report::escape;
use crate::report::progress::Eta;
use crate::report::style::{Glyphs, Ink, Style};

/// What is shown of the running file.
#[derive(Debug, Clone, PartialEq)]
pub struct Bar {
    /// How many of the plan have begun, this one included.
    pub nth: u32,
    /// `None` for a run with an open end.
    pub planned: Option<u32>,
    pub file: String,
    pub elapsed: Secs,
    pub cap: Option<Secs>,
    pub eta: Eta,
    /// Free memory, running VMs: `progress::host`.
    pub host: Vec<String>,
    /// The last line of output.
    pub last: String,
    /// With the width of this moment: a terminal may have been resized.
    pub style: Style,
}

/// From here on a file is on its way to its cap: the same share at which evidence is taken.
const NEAR_CAP: f64 = 0.8;
const BAR_CELLS: usize = 16;
/// A terminal narrower than this gets no bar, only the words.
const BAR_FITS: usize = 60;

/// The two lines, each inside `width` columns. The name gives way first, then the bar.
pub fn lines(bar: &Bar, width: u16) -> [String; 2] {
    let style = bar.style;
    // The last column stays free: a full line makes some terminals wrap.
    let width = usize::from(width.max(20)) - 1;
    let count = bar.planned.map_or(format!("[{}/?]", bar.nth), |planned| format!("[{}/{planned}]", bar.nth));
    let spent = match bar.cap {
        Some(cap) => format!("{} of {cap}", bar.elapsed),
        None => bar.elapsed.to_string(),
    };
    let drawn = match bar.planned {
        Some(planned) if width >= BAR_FITS && planned > 0 => format!("{} ", cells(bar.nth.saturating_sub(1), planned, style)),
        _ => String::new(),
    };
    let taken = drawn.width() + count.width() + spent.width() + 2;
    let name = shortened(&escape::name(&bar.file), width.saturating_sub(taken), style);
    let first = if name.is_empty() {
        format!(
            "{} {}",
            style.paint(Ink::Strong, &count),
            style.paint(ink(bar), &shortened(&spent, width.saturating_sub(count.width() + 1), style))
        )
    } else {
        format!("{}{} {name} {}", style.paint(Ink::Busy, &drawn), style.paint(Ink::Strong, &count), style.paint(ink(bar), &spent))
    };
    let mut facts = vec![bar.eta.words()];
    facts.extend(bar.host.iter().cloned());
    let last = escape::name(&bar.last);
    if !last.trim().is_empty() {
        facts.push(last.trim().to_owned());
    }
    let second = cut(&style.glyphs(&facts.join(" · ")), width, style);
    [first, style.paint(Ink::Dim, &second)]
}

/// Lines of output that are shown when somebody asks for them.
const LAST_LINES: usize = 12;

/// The answer to somebody who asks what the running file printed last.
pub fn last_lines(bar: &Bar, output: Option<&str>) -> String {
    let style = bar.style;
    let width = usize::from(style.width.max(20)) - 1;
    let file = escape::name(&bar.file);
    let Some(output) = output.map(escape::block).filter(|text| !text.is_empty()) else {
        return format!("ledger: {file} has printed nothing in {}", bar.elapsed);
    };
    let shown = escape::last_lines(&output, LAST_LINES);
    let lines = shown.lines().map(|line| cut(&style.glyphs(&format!("  {line}")), width, style));
    std::iter::once(format!("ledger: {file} after {}, its last lines:", bar.elapsed)).chain(lines).collect::<Vec<_>>().join("\n")
}

fn ink(bar: &Bar) -> Ink {
    let Some(cap) = bar.cap.filter(|cap| *cap > Secs::ZERO) else { return Ink::Good };
    match bar.elapsed.as_f64() / cap.as_f64() {
        share if share >= 1.0 => Ink::Bad,
        share if share >= NEAR_CAP => Ink::Missing,
        _ => Ink::Good,
    }
}

fn cells(done: u32, planned: u32, style: Style) -> String {
    let full = (u64::from(done.min(planned)) * BAR_CELLS as u64 / u64::from(planned.max(1))) as usize;
    match style.glyphs {
        Glyphs::Unicode => format!("{}{}", "━".repeat(full), "┄".repeat(BAR_CELLS - full)),
        Glyphs::Ascii => format!("[{}{}]", "#".repeat(full), "-".repeat(BAR_CELLS - full)),
    }
}

/// The end of a name: what tells files apart stands there.
fn shortened(name: &str, width: usize, style: Style) -> String {
    if name.width() <= width {
        return name.to_owned();
    }
    let mark = style.glyphs("…");
    let Some(room) = width.checked_sub(mark.width()).filter(|room| *room >= 4) else { return String::new() };
    let (mut used, mut from) = (0, name.len());
    for (at, c) in name.char_indices().rev() {
        used += c.width().unwrap_or(0);
        if used > room {
            break;
        }
        from = at;
    }
    format!("{mark}{}", &name[from..])
}

/// The beginning of a text, inside so many columns.
pub fn cut(text: &str, width: usize, style: Style) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mark = style.glyphs("…");
    let room = width.saturating_sub(mark.width());
    let mut used = 0;
    let kept = text.chars().take_while(|c| {
        used += c.width().unwrap_or(0);
        used <= room
    });
    let kept: String = kept.collect();
    format!("{kept}{mark}")
}

/// The view on stderr.
pub struct Drawn {
    bar: ProgressBar,
    shown: bool,
}

impl Drawn {
    pub fn on_stderr() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // A template of our own cannot be malformed; the default style stands in for it all the same.
        bar.set_style(ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_bar()));
        Self { bar, shown: false }
    }

    pub fn draw(&mut self, bar: &Bar) {
        if !self.shown {
            self.bar.reset();
        }
        self.bar.set_message(lines(bar, bar.style.width).join("\n"));
        self.bar.tick();
        self.shown = true;
    }

    /// Somebody has pressed Enter, and the terminal has moved on by a line.
    pub fn entered(&self) {
        if self.shown {
            // A terminal that has gone away needs no cursor.
            let _ = std::io::stderr().write_all(b"\x1b[A");
        }
    }

    /// Clears the lines, so that whatever is written next stands alone.
    pub fn hide(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures::HOSTILE;
    use crate::report::style::Colour;

    fn bar() -> Bar {
        Bar {
            nth: 4,
            planned: Some(12),
            file: "test/integration/provisioning.test.ts".to_owned(),
            elapsed: Secs::from_secs(83),
            cap: Some(Secs::from_secs(300)),
            eta: Eta::Left(Secs::from_secs(750)),
            host: vec!["9000 MiB free".to_owned(), "1 VM".to_owned()],
            last: "boot 7.23.2: waiting for login".to_owned(),
            style: Style { width: 80, colour: Colour::Off, glyphs: Glyphs::Unicode },
        }
    }

    #[test]
    fn wide_and_narrow() {
        assert_eq!(
            lines(&bar(), 100),
            [
                "━━━━┄┄┄┄┄┄┄┄┄┄┄┄ [4/12] test/integration/provisioning.test.ts 1m23s of 5m00s",
                "about 12m30s left · 9000 MiB free · 1 VM · boot 7.23.2: waiting for login"
            ]
        );
        assert_eq!(lines(&bar(), 40), ["[4/12] …isioning.test.ts 1m23s of 5m00s", "about 12m30s left · 9000 MiB free · 1 …"]);
        let ascii = Bar { style: Style { glyphs: Glyphs::Ascii, ..bar().style }, ..bar() };
        assert_eq!(lines(&ascii, 100)[0], "[####------------] [4/12] test/integration/provisioning.test.ts 1m23s of 5m00s");
        assert!(lines(&ascii, 40).iter().all(|line| line.is_ascii()));
        assert_eq!(lines(&Bar { planned: None, cap: None, ..bar() }, 80)[0], "[4/?] test/integration/provisioning.test.ts 1m23s");
    }

    #[test]
    fn nothing_is_wider_than_the_terminal_and_nothing_acts() {
        let hostile = Bar { file: HOSTILE.repeat(3), last: format!("漢字{HOSTILE}"), ..bar() };
        for width in [1, 20, 25, 40, 61, 80, 200] {
            for line in lines(&hostile, width) {
                assert!(line.width() < usize::from(width.max(20)), "{width}: {line}");
                assert!(!line.chars().any(char::is_control));
            }
        }
    }

    #[test]
    fn the_last_lines_are_told_when_asked_for() {
        let text: String = (1..=30).map(|n| format!("line {n}\n")).collect();
        let told = last_lines(&bar(), Some(&text));
        let lines: Vec<&str> = told.lines().collect();
        assert_eq!(lines[0], "ledger: test/integration/provisioning.test.ts after 1m23s, its last lines:");
        assert_eq!((lines.len(), lines[1], lines[13]), (14, "  … 18 lines above", "  line 30"));
        assert_eq!(last_lines(&bar(), None), "ledger: test/integration/provisioning.test.ts has printed nothing in 1m23s");
        let hostile = last_lines(&bar(), Some(&HOSTILE.repeat(40)));
        assert!(hostile.lines().skip(1).all(|line| line.width() < 80 && !line.chars().any(char::is_control)), "{hostile}");
    }

    #[test]
    fn the_colour_tells_how_near_the_cap_is() {
        let at = |seconds| ink(&Bar { elapsed: Secs::from_secs(seconds), ..bar() });
        assert_eq!((at(10), at(239), at(240), at(301)), (Ink::Good, Ink::Good, Ink::Missing, Ink::Bad));
        assert_eq!(ink(&Bar { cap: None, ..bar() }), Ink::Good);
    }
}
