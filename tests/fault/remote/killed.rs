//! ledger dies at any moment, the local ledger is gone, and the sinks alone say what it was doing: CASES 18 and 36.
//!
//! A release is measured with `LEDGER_TEST_KILLS=1000 LEDGER_TEST_WAITS=20 LEDGER_TEST_LANES=3`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::lost::{
    Kind, Sinks, count, each, end_by_force, local_lines, may_be_current, remove_ledger, said, some_moment, suite, wall_now,
    was_degraded,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_current_file_is_right_after_any_kill() {
    let Some(sinks) = Sinks::start().await else { return };
    let (judged, slow, held) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    tokio::task::block_in_place(|| {
        each(count("LEDGER_TEST_KILLS", 6), |run, random| {
            let (folder, kinds) = (suite(), Kind::of_run(run));
            let child = sinks.start_run(folder.path(), run, kinds, &[]);
            some_moment(folder.path(), random);
            end_by_force(child);
            let ledger = local_lines(folder.path());
            remove_ledger(folder.path());
            let said = said(folder.path());
            let on_time = !was_degraded(folder.path());
            slow.fetch_add(u64::from(!on_time), Ordering::SeqCst);
            for kind in kinds {
                let what = format!("run {run}, {kind:?}");
                let Some(left) = sinks.left(*kind, run).pop() else {
                    assert!(!on_time, "{what}: a file began, and nothing is left");
                    continue;
                };
                if kind.keeps_events() {
                    left.begins(&ledger, &what);
                    held.fetch_add(left.lines.len() as u64, Ordering::SeqCst);
                }
                if *kind == Kind::Store {
                    sinks.keeps_what_it_answered_for(run, &left);
                }
                if on_time && kind.keeps_events() {
                    left.holds_what_was_said(&said, &what);
                }
                if on_time {
                    sinks.is_lost_after_its_lease(run, *kind, &may_be_current(&said));
                    judged.fetch_add(1, Ordering::SeqCst);
                }
            }
            if run % 50 == 0 {
                eprintln!("{run} kills");
            }
        });
    });
    let (judged, slow, held) = (judged.into_inner(), slow.into_inner(), held.into_inner());
    eprintln!("{judged} sinks of killed runs judged, {held} events in them; {slow} runs had a sink that was over a second late");
    assert!(judged > 0);
    let written = Kind::ALL.into_iter().filter(|kind| kind.keeps_events() && sinks.has_any(*kind));
    tokio::task::block_in_place(|| written.for_each(|kind| sinks.verify(kind)));
}

/// The same with nobody's clock set by hand.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_runner_is_lost_when_its_lease_has_really_run_out() {
    let Some(sinks) = Sinks::start().await else { return };
    let one = |run: u64, random: &mut super::lost::Random| {
        // A check run is written every 12 s at most, so that its lease is 36 s: for a few only.
        let kind = [Kind::File, Kind::Store, Kind::Https][run as usize % 3];
        let kind = if run.is_multiple_of(10) { Kind::Github } else { kind };
        let folder = suite();
        let child = sinks.start_run(folder.path(), run, &[kind], &["--heartbeat", "1"]);
        some_moment(folder.path(), random);
        end_by_force(child);
        let killed = Instant::now();
        remove_ledger(folder.path());
        let Some(marker) = sinks.left(kind, run).pop().and_then(|left| left.marker) else {
            return assert!(was_degraded(folder.path()), "run {run}, {kind:?}: nothing is left");
        };
        let lease = marker.row.lease_s.unwrap().duration();
        assert_eq!(sinks.report(run, kind, &[])["terminal"], "running", "run {run}, {kind:?}");
        let lost = sinks.report(run, kind, &["--wait-lease"]);
        let silent = Duration::from_millis((wall_now().0 - marker.written_at.0) as u64);
        assert_eq!(lost["terminal"], "runner-lost", "run {run}, {kind:?}: {lost:#}");
        assert!(silent >= lease, "run {run}, {kind:?}: lost after {silent:?}, the lease is {lease:?}");
        assert!(killed.elapsed() < lease + Duration::from_secs(20), "run {run}, {kind:?}: told only after {:?}", killed.elapsed());
        let current = lost["current_file"].as_str().map(str::to_owned);
        let may_be = may_be_current(&said(folder.path()));
        assert!(was_degraded(folder.path()) || may_be.contains(&current), "run {run}, {kind:?}: {current:?} of {may_be:?}");
        eprintln!("run {run}, {kind:?}: lost after {silent:?} of silence, lease {lease:?}");
    };
    tokio::task::block_in_place(|| each(count("LEDGER_TEST_WAITS", 1), one));
}
