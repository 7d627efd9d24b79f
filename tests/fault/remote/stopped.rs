//! Runners that stand still and come back, and legs that are started twice: CASE 37.
//!
//! A release is measured with `LEDGER_TEST_STOPS=100 LEDGER_TEST_LANES=3`.

use std::path::Path;
use std::time::{Duration, Instant};

use super::lost::{
    Kind, Random, Running, Sinks, count, each, local_lines, may_be_current, said, some_moment, suite, wall_now, was_degraded,
};
use crate::support::signal;

/// Every thread of it stands still: a signal that is sent is not yet one that was taken.
fn stands_still(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // One that has ended while it was told to stop stands still too.
        stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with(['T', 'Z']))
    })
}

fn ends_well(mut child: Running, folder: &Path, what: &str) {
    let begun = Instant::now();
    loop {
        match child.try_wait().unwrap() {
            Some(status) => {
                let words = || std::fs::read_to_string(folder.join("stderr.log")).unwrap();
                return assert_eq!(status.code(), Some(0), "{what}: {}", words());
            }
            None if begun.elapsed() > Duration::from_secs(60) => {
                child.kill().unwrap();
                panic!("{what} does not end");
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    }
}

fn far_away() -> String {
    (wall_now().0 / 1000 + 86_400).to_string()
}

fn one_zombie(sinks: &Sinks, run: u64, random: &mut Random) {
    let kinds = Kind::of_run(run);
    let (folder, elsewhere) = (suite(), suite());
    let mut zombie = sinks.start_run(folder.path(), run, kinds, &[]);
    some_moment(folder.path(), random);
    signal(zombie.id(), "STOP");
    let begun = Instant::now();
    while !stands_still(zombie.id()) {
        assert!(begun.elapsed() < Duration::from_secs(20), "run {run} stops");
        std::thread::sleep(Duration::from_millis(1));
    }
    // The last moment of the last file may have been its end.
    if zombie.try_wait().unwrap().is_some() {
        eprintln!("run {run} ended before it could be stopped");
        return;
    }
    if !was_degraded(folder.path()) {
        let may_be = may_be_current(&said(folder.path()));
        kinds.iter().for_each(|kind| sinks.is_lost_after_its_lease(run, *kind, &may_be));
    }

    // Another machine takes its place, and is done before it returns.
    ends_well(sinks.start_run(elsewhere.path(), run, kinds, &[]), elsewhere.path(), &format!("run {run}, the second writer"));
    for kind in kinds.iter().filter(|_| !was_degraded(elsewhere.path())) {
        let both = sinks.report(run, *kind, &["--now", &far_away()]);
        let ends = (&both["terminal"], &both["conclusion"], &both["attempts"][0]["terminal"]);
        assert_eq!(ends, (&"complete".into(), &"pass".into(), &"runner-lost".into()), "run {run}, {kind:?}: {both:#}");
    }

    signal(zombie.id(), "CONT");
    ends_well(zombie, folder.path(), &format!("run {run}, the zombie"));
    if [&folder, &elsewhere].iter().any(|folder| was_degraded(folder.path())) {
        eprintln!("run {run}: a sink was over a second late, and need not have everything");
        return;
    }
    for kind in kinds {
        let what = format!("run {run}, {kind:?}");
        let both = sinks.report(run, *kind, &["--now", &far_away()]);
        let first = &both["attempts"][0];
        let ends = (&both["terminal"], &first["terminal"], &first["conclusion"], &first["files_reported"]);
        assert_eq!(ends, (&"complete".into(), &"complete".into(), &"pass".into(), &12.into()), "{what}: {both:#}");
        let left = sinks.left(*kind, run);
        assert_eq!(left.len(), 2, "{what}: both epochs");
        if kind.keeps_events() {
            for (left, folder) in left.iter().zip([&folder, &elsewhere]) {
                left.is_whole(&local_lines(folder.path()), &what);
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_zombie_that_returns_is_kept_apart_and_both_are_whole() {
    let Some(sinks) = Sinks::start().await else { return };
    tokio::task::block_in_place(|| {
        each(count("LEDGER_TEST_STOPS", 2), |run, random| one_zombie(&sinks, run, random));
        let written = Kind::ALL.into_iter().filter(|kind| kind.keeps_events() && sinks.has_any(*kind));
        written.for_each(|kind| sinks.verify(kind));
    });
}

/// The same leg twice at once, and attempt 2 while attempt 1 still runs, into every kind of sink at the same time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_of_one_leg_at_once_are_kept_apart_in_every_sink() {
    let Some(sinks) = Sinks::start().await else { return };
    tokio::task::block_in_place(|| {
        let folders = [suite(), suite(), suite()];
        let attempts = ["1", "1", "2"];
        let start = |at: usize| sinks.start_run(folders[at].path(), 7, &Kind::ALL, &["--attempt", attempts[at]]);
        let writers: Vec<Running> = (0..3).map(start).collect();
        for (at, writer) in writers.into_iter().enumerate() {
            ends_well(writer, folders[at].path(), &format!("writer {at}"));
        }
        for kind in Kind::ALL {
            let left = sinks.left(kind, 7);
            assert_eq!(left.len(), 3, "{kind:?}");
            let leg = sinks.report(7, kind, &[]);
            assert_eq!((&leg["attempt"], &leg["terminal"]), (&"2".into(), &"complete".into()), "{kind:?}: {leg:#}");
            let others = leg["attempts"].as_array().unwrap();
            assert_eq!(others.len(), 2, "{kind:?}: {leg:#}");
            assert!(others.iter().all(|one| one["attempt"] == "1" && one["terminal"] == "complete"), "{kind:?}: {leg:#}");
            if kind.keeps_events() {
                for folder in &folders {
                    let ledger = local_lines(folder.path());
                    let own = left.iter().find(|left| left.lines.first() == ledger.first());
                    own.unwrap().is_whole(&ledger, &format!("{kind:?}: each epoch is its writer's own"));
                }
                sinks.verify(kind);
            }
        }
    });
}
