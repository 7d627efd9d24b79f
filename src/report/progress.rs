//! The one plain line per boundary, where there is no terminal, and the estimate of what is left.

use crate::core::moment::Secs;
use crate::core::outcome::{Cleanup, Outcome};
use crate::core::sample::HostSample;
use crate::report::escape;
use crate::report::style::{Ink, Style};

/// What is left of the plan, from the medians of earlier passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Eta {
    /// No file is left to run.
    Done,
    /// Every file that is left has a history.
    Left(Secs),
    /// This much at least; so many files have no history.
    AtLeast(Secs, u32),
    /// No file that is left has a history.
    NoHistory,
    /// The plan has no end.
    Open,
}

impl Eta {
    /// `spent` is what the running file has used already, `None` between files; it is the first of `left` then.
    pub fn of(left: impl IntoIterator<Item = Option<Secs>>, spent: Option<Secs>) -> Self {
        let (mut known, mut sum, mut unknown) = (0_u32, Secs::ZERO, 0_u32);
        for (at, expected) in left.into_iter().enumerate() {
            let used = spent.filter(|_| at == 0).unwrap_or(Secs::ZERO);
            match expected {
                Some(expect) => {
                    known += 1;
                    sum = sum.saturating_add(expect.saturating_sub(used));
                }
                None => unknown += 1,
            }
        }
        match (known, unknown) {
            (0, 0) => Eta::Done,
            (_, 0) => Eta::Left(sum),
            (0, _) => Eta::NoHistory,
            _ => Eta::AtLeast(sum, unknown),
        }
    }

    pub fn words(self) -> String {
        match self {
            Eta::Done => "the last file".to_owned(),
            Eta::Left(left) => format!("about {left} left"),
            Eta::AtLeast(left, 1) => format!("about {left} left and 1 file without history"),
            Eta::AtLeast(left, files) => format!("about {left} left and {files} files without history"),
            Eta::NoHistory => "no history to tell what is left".to_owned(),
            Eta::Open => "open end".to_owned(),
        }
    }
}

/// A boundary, or the running file.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress<'a> {
    /// How many of the plan had begun, this one included.
    pub nth: u32,
    /// `None` for an open plan.
    pub planned: Option<u32>,
    pub file: &'a str,
    /// `None` while it runs.
    pub outcome: Option<&'a Outcome>,
    /// What the sweep came to; `None` before it.
    pub cleanup: Option<Cleanup>,
    pub elapsed: Option<Secs>,
    pub cap: Option<Secs>,
    pub eta: Eta,
    pub sample: Option<&'a HostSample>,
}

/// `ledger: [3/12] pass test/a.ts 33.4 s of 5m00s, about 12m30s left, 9000 MiB free, 1 VM`.
pub fn line(progress: &Progress<'_>, style: Style) -> String {
    let planned = progress.planned.map_or("?".to_owned(), |planned| planned.to_string());
    let (word, ink) = match progress.outcome {
        None => ("running".to_owned(), Ink::Busy),
        Some(Outcome::Pass) => ("pass".to_owned(), Ink::Good),
        Some(Outcome::NotRun) => ("not-run".to_owned(), Ink::Missing),
        Some(outcome) => (escape::name(outcome.as_str()), Ink::Bad),
    };
    let mut parts = vec![format!(
        "[{}/{planned}] {} {}{}",
        progress.nth,
        style.paint(ink, &word),
        escape::name(progress.file),
        spent(progress)
    )];
    match progress.cleanup {
        Some(Cleanup::Dirty) => parts.push(style.paint(Ink::Bad, "something of it is still alive")),
        Some(Cleanup::Unknown) => parts.push(style.paint(Ink::Missing, "whether anything of it is left is unknown")),
        Some(Cleanup::Clean) | None => {}
    }
    parts.push(progress.eta.words());
    parts.extend(host(progress.sample));
    style.glyphs(&format!("ledger: {}\n", parts.join(", ")))
}

/// ` 33.4 s of 5m00s`, as far as it is known.
fn spent(progress: &Progress<'_>) -> String {
    match (progress.elapsed, progress.cap) {
        (Some(elapsed), Some(cap)) => format!(" {elapsed} of {cap}"),
        (Some(elapsed), None) => format!(" {elapsed}"),
        (None, Some(cap)) => format!(" cap {cap}"),
        (None, None) => String::new(),
    }
}

/// Free memory and running VMs. What could not be had is left out: it is not 0.
pub fn host(sample: Option<&HostSample>) -> Vec<String> {
    let Some(sample) = sample else { return Vec::new() };
    let memory = sample.mem_available_mib.or(sample.mem_free_mib).map(|free| format!("{free} MiB free"));
    let vms = sample.qemu_count.map(|count| if count == 1 { "1 VM".to_owned() } else { format!("{count} VMs") });
    memory.into_iter().chain(vms).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates() {
        let check = |left: &[Option<u64>], spent: Option<u64>, expect: &str| {
            assert_eq!(Eta::of(left.iter().map(|expect| expect.map(Secs::from_secs)), spent.map(Secs::from_secs)).words(), expect);
        };
        check(&[], None, "the last file");
        check(&[Some(30), Some(60)], None, "about 1m30s left");
        check(&[Some(30), Some(60)], Some(10), "about 1m20s left");
        check(&[Some(30), Some(60)], Some(99), "about 1m00s left");
        check(&[Some(30), None], None, "about 30 s left and 1 file without history");
        check(&[None, None], Some(5), "no history to tell what is left");
    }

    #[test]
    fn lines() {
        let sample = HostSample { mem_available_mib: Some(9000), qemu_count: Some(1), ..HostSample::default() };
        let mut progress = Progress {
            nth: 3,
            planned: Some(12),
            file: "test/a\n::error::b.ts",
            outcome: Some(&Outcome::Pass),
            cleanup: Some(Cleanup::Clean),
            elapsed: Some(Secs::from_millis(33_412)),
            cap: Some(Secs::from_secs(300)),
            eta: Eta::Left(Secs::from_secs(750)),
            sample: Some(&sample),
        };
        assert_eq!(
            line(&progress, Style::PLAIN),
            "ledger: [3/12] pass test/a\\n::error::b.ts 33.4 s of 5m00s, about 12m30s left, 9000 MiB free, 1 VM\n"
        );
        for (cleanup, words) in
            [(Cleanup::Dirty, "something of it is still alive"), (Cleanup::Unknown, "whether anything of it is left is unknown")]
        {
            progress.cleanup = Some(cleanup);
            assert!(line(&progress, Style::PLAIN).contains(&format!(" of 5m00s, {words}, about")), "{cleanup:?}");
        }
        progress.cleanup = None;
        progress.outcome = None;
        progress.planned = None;
        progress.cap = None;
        progress.eta = Eta::Open;
        progress.sample = None;
        assert_eq!(line(&progress, Style::PLAIN), "ledger: [3/?] running test/a\\n::error::b.ts 33.4 s, open end\n");
    }
}
