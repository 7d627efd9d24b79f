//! `ledger watch`: the legs that are alive, drawn again and again on a terminal, or a line for each change elsewhere.

use crate::core::moment::{Secs, Wall};
use crate::core::row::{FileRow, LegRow, Summary};
use crate::report::escape;
use crate::report::live::{Bar, lines};
use crate::report::progress::{self, Eta};
use crate::report::style::{Ink, Style};
use crate::report::words::{self, Counts, Verdict};

/// Legs shown with all their lines; the others are counted.
const LEGS_SHOWN: usize = 8;
/// Lines of output under a leg.
const OUTPUT_LINES: usize = 4;

/// The whole screen, each line inside the style's width.
pub fn screen(summary: &Summary, now: Wall, style: Style) -> Vec<String> {
    let fit = |text: String| fitted(&style.glyphs(&text), style);
    let mut out = vec![style.paint(Ink::Strong, &fit(Counts::of(summary).sentence()))];
    let mut told: Vec<&LegRow> = words::told_in_order(summary);
    told.sort_by_key(|leg| Verdict::of(leg) != Verdict::Running);
    for leg in told.iter().take(LEGS_SHOWN) {
        out.push(String::new());
        let heading = fit(format!("{}: {}", words::leg_title(leg), words::leg_result(leg)));
        out.push(style.paint(Verdict::of(leg).into(), &heading));
        match bar(summary, leg, now, style) {
            Some(bar) => out.extend(lines(&bar, style.width.saturating_add(1))),
            None => out.push(fit(escape::sentence(&leg.why))),
        }
        if Verdict::of(leg) == Verdict::Running {
            let beat = leg.last_heartbeat_ts.max(leg.last_checkpoint_ts).map(|ts| format!("last heard of {} ago", now.since(ts)));
            out.extend(beat.map(|text| style.paint(Ink::Dim, &fit(text))));
            let output = leg.last_output.as_deref().map(escape::block).unwrap_or_default();
            let shown: Vec<&str> = output.lines().rev().take(OUTPUT_LINES).collect();
            out.extend(shown.into_iter().rev().map(|line| fit(format!("  {}{line}", style.gutter()))));
        }
    }
    if told.len() > LEGS_SHOWN {
        out.push(String::new());
        out.push(fit(format!("and {} more", words::plural(told.len() - LEGS_SHOWN, "leg", "legs"))));
    }
    out
}

/// What a line says of a leg; it is printed when it differs from the last one in more than time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct State {
    key: (String, Option<String>, u32),
    pub line: String,
}

impl State {
    pub fn of(summary: &Summary, leg: &LegRow, now: Wall, style: Style) -> Self {
        let doing = match bar(summary, leg, now, style) {
            Some(bar) => {
                let spent = bar.cap.map_or(bar.elapsed.to_string(), |cap| format!("{} of {cap}", bar.elapsed));
                let mut parts =
                    vec![format!("{} of {} begun, {} {spent}", bar.nth, planned(leg), escape::name(&bar.file)), bar.eta.words()];
                parts.extend(bar.host);
                parts.join(", ")
            }
            None => format!("{} files, {}", words::leg_files(leg), escape::sentence(&leg.why)),
        };
        let line = style.glyphs(&format!("{}: {}: {doing}", words::leg_title(leg), words::leg_result(leg)));
        Self { key: (words::leg_result(leg), leg.current_file.clone(), leg.files_reported), line }
    }

    pub fn changed_from(&self, before: Option<&State>) -> bool {
        before.is_none_or(|before| before.key != self.key)
    }
}

fn planned(leg: &LegRow) -> String {
    leg.files_planned.map_or("?".to_owned(), |planned| planned.to_string())
}

/// The running file of a leg that runs.
fn bar(summary: &Summary, leg: &LegRow, now: Wall, style: Style) -> Option<Bar> {
    let current = leg
        .files
        .iter()
        .find(|file| file.outcome.is_none() && file.started_at.is_some())
        .filter(|_| Verdict::of(leg) == Verdict::Running)?;
    let elapsed = current.started_at.map_or(Secs::ZERO, |started| now.since(started));
    let last = leg.last_output.as_deref().and_then(|output| output.lines().next_back()).unwrap_or_default();
    Some(Bar {
        nth: leg.files_reported + 1,
        planned: leg.files_planned,
        file: current.file.clone(),
        elapsed,
        cap: current.cap_s,
        eta: eta(summary, leg, current, elapsed),
        host: progress::host(leg.last_host.as_ref()),
        last: last.to_owned(),
        style,
    })
}

/// What is left, by the medians of the same files on the same platform in the other legs of this evidence.
fn eta(summary: &Summary, leg: &LegRow, current: &FileRow, elapsed: Secs) -> Eta {
    if leg.files_planned.is_none() {
        return Eta::Open;
    }
    let left = leg.files.iter().filter(|file| !file.reported() && (file.round, file.index) != (current.round, current.index));
    let all = std::iter::once(current).chain(left);
    Eta::of(all.map(|file| usual(summary, leg, &file.file)), Some(elapsed))
}

fn usual(summary: &Summary, leg: &LegRow, file: &str) -> Option<Secs> {
    let others = summary.legs.iter().filter(|other| other.platform == leg.platform);
    let rows = others.flat_map(|other| &other.files).filter(|row| row.file == file && words::passed(row));
    let mut durations: Vec<Secs> = rows.filter_map(|row| row.duration_s).collect();
    crate::core::history::median(&mut durations)
}

fn fitted(text: &str, style: Style) -> String {
    crate::report::live::cut(text, usize::from(style.width.max(20)), style)
}

#[cfg(test)]
mod tests {
    use unicode_width::UnicodeWidthStr as _;

    use serde_json::json;

    use super::*;
    use crate::report::fixtures::{self, NIGHT};
    use crate::report::style::{Colour, Glyphs};

    fn running() -> Summary {
        let mut night = fixtures::night();
        let mut before = night.legs[0].clone();
        before.platform = "freebsd-x86".into();
        before.run_id = "36500".into();
        let leg = night.legs.iter_mut().find(|leg| Verdict::of(leg) == Verdict::Running).expect("there is one");
        leg.files = vec![
            fixtures::file(1, "test/one.test.ts", json!({})),
            fixtures::file(2, "test/two.test.ts", json!({"outcome": null, "status": null, "duration_s": null, "exit_code": null})),
            FileRow::not_run(3, 1, "test/three.test.ts".to_owned(), None),
        ];
        night.legs.retain(|leg| Verdict::of(leg) != Verdict::Fail);
        night.legs.push(before);
        night
    }

    fn style(width: u16) -> Style {
        Style { width, colour: Colour::Off, glyphs: Glyphs::Unicode }
    }

    #[test]
    fn a_leg_that_runs() {
        let now = Wall(NIGHT + 220_000);
        insta::assert_snapshot!("watch-80", screen(&running(), now, style(80)).join("\n"));
        insta::assert_snapshot!("watch-40", screen(&running(), now, style(40)).join("\n"));
    }

    #[test]
    fn lines_stay_inside_the_width_and_nothing_acts() {
        let mut hostile = fixtures::hostile();
        hostile.legs[0].conclusion = None;
        hostile.legs[0].terminal = crate::core::outcome::Terminal::Running;
        hostile.legs[0].files[0].outcome = None;
        for summary in [running(), hostile] {
            for width in [20, 40, 80, 200] {
                for line in screen(&summary, Wall(NIGHT), style(width)) {
                    assert!(line.width() <= usize::from(width), "{width}: {line}");
                    assert!(!line.chars().any(char::is_control), "{line:?}");
                }
            }
        }
    }

    #[test]
    fn a_line_is_said_again_when_more_than_time_has_changed() {
        let mut summary = running();
        let state = |summary: &Summary, at: i64| {
            let leg = summary.legs.iter().find(|leg| Verdict::of(leg) == Verdict::Running).expect("there is one");
            State::of(summary, leg, Wall(NIGHT + at), style(80))
        };
        let first = state(&summary, 220_000);
        assert!(first.changed_from(None));
        assert_eq!(
            first.line,
            "freebsd-x86 · stable: running: 2 of 3 begun, test/two.test.ts 20 s of 5m00s, about 46.8 s left, 9100 MiB free, 0 VMs"
        );
        assert!(!state(&summary, 230_000).changed_from(Some(&first)));
        summary.legs.iter_mut().for_each(|leg| leg.files_reported += 1);
        assert!(state(&summary, 230_000).changed_from(Some(&first)));
    }
}
