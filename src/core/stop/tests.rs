//! The order of stopping a tree, step by step.

use super::*;

fn id(pid: i32) -> ProcessId {
    ProcessId { pid, start: u64::from(pid.unsigned_abs()) }
}

fn seen(pid: i32, activity: Activity, role: Role) -> Seen {
    Seen { id: id(pid), ours_by: OursBy::Subreaper, activity, role }
}

fn leader() -> Seen {
    seen(1, Activity::Running, Role::Leader)
}

fn other(pid: i32) -> Seen {
    seen(pid, Activity::Running, Role::Other)
}

fn whole(seen: &[Seen]) -> Input {
    Input::Scanned(Scan { seen: seen.to_vec(), ..Scan::default() })
}

fn unsure() -> Input {
    Input::Scanned(Scan { incomplete: Some("no list".to_owned()), ..Scan::default() })
}

/// One step per row: at this time, this input, and what is done then. Only the last effect of a row may be `Done`.
fn check(order: StopOrder, script: &[(u64, Input, &str)]) -> Option<Verdict> {
    let mut stop = Stop::new(order);
    let mut verdict = None;
    for (at, input, wanted) in script {
        let effects = stop.step(*at, input.clone());
        let shown: Vec<String> = effects.iter().map(show).collect();
        assert_eq!(shown.join(" "), *wanted, "at {at} ms after {input:?}");
        if let Some(Effect::Done(done)) = effects.into_iter().last() {
            verdict = Some(done);
        }
    }
    verdict
}

fn show(effect: &Effect) -> String {
    let list = |ids: &[ProcessId]| ids.iter().map(|id| id.pid.to_string()).collect::<Vec<_>>().join(",");
    match effect {
        Effect::Scan => "scan".to_owned(),
        Effect::Term(ids) => format!("term:{}", list(ids)),
        Effect::Freeze(ids, Reach::Whole) => format!("freeze:{}", list(ids)),
        Effect::Freeze(ids, Reach::Named) => format!("freeze-only:{}", list(ids)),
        Effect::Kill(ids, Reach::Whole) => format!("kill:{}", list(ids)),
        Effect::Kill(ids, Reach::Named) => format!("kill-only:{}", list(ids)),
        Effect::WaitUntil(at) => format!("wait:{at}"),
        Effect::Done(verdict) => format!("{:?}", verdict.cleanup).to_lowercase(),
    }
}

fn five_seconds() -> StopOrder {
    StopOrder::ask(Secs::from_secs(5))
}

fn fates(verdict: Option<Verdict>) -> Vec<(i32, Fate)> {
    verdict.expect("it has ended").ends.iter().map(|end| (end.id.pid, end.fate)).collect()
}

#[test]
fn a_clean_file_costs_two_scans_and_no_wait() {
    let verdict = check(five_seconds(), &[(0, Input::Begin, "scan"), (0, whole(&[]), "scan"), (0, whole(&[]), "clean")])
        .expect("it is there");
    assert!(verdict.ends.is_empty() && !verdict.escalated && verdict.notes.is_empty());
}

#[test]
fn somebody_elses_zombie_is_no_survivor() {
    let zombie = seen(9, Activity::Zombie, Role::Other);
    check(five_seconds(), &[(0, Input::Begin, "scan"), (0, whole(&[zombie]), "scan"), (0, whole(&[zombie]), "clean")]);
}

#[test]
fn the_leader_is_asked_first_and_the_rest_when_it_is_gone() {
    let verdict = check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[leader(), other(2)]), "term:1 wait:1"),
            (1, Input::Woke, "scan"),
            (1, whole(&[leader(), other(2)]), "wait:3"),
            (3, Input::Woke, "scan"),
            (3, whole(&[other(2)]), "term:2 wait:4"),
            (4, Input::Woke, "scan"),
            (4, whole(&[]), "scan"),
            (4, whole(&[]), "clean"),
        ],
    );
    assert!(!verdict.as_ref().expect("it is there").escalated);
    assert_eq!(fates(verdict), [(2, Fate::Terminated)]);
}

#[test]
fn half_the_grace_is_the_leaders_and_one_grace_is_all() {
    let all = [leader(), other(2)];
    let verdict = check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&all), "term:1 wait:1"),
            (2499, whole(&all), "wait:2500"),
            (2500, whole(&all), "term:2 wait:2501"),
            (4999, whole(&all), "wait:5000"),
            (5000, whole(&all), "freeze:1,2 scan"),
            (5000, whole(&all), "kill:1,2 wait:5001"),
            (5001, whole(&[]), "scan"),
            (5001, whole(&[]), "clean"),
        ],
    );
    assert!(verdict.as_ref().expect("it is there").escalated);
    assert_eq!(fates(verdict), [(2, Fate::Killed)]);
}

#[test]
fn what_ends_by_itself_right_after_its_leader_is_no_leftover() {
    let verdict = check(
        five_seconds(),
        &[(0, Input::Begin, "scan"), (0, whole(&[other(2)]), "wait:1"), (1, whole(&[]), "scan"), (1, whole(&[]), "clean")],
    );
    assert!(fates(verdict).is_empty());
}

#[test]
fn a_leftover_is_given_a_second_and_no_more() {
    let verdict = check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[other(2)]), "wait:1"),
            (100, whole(&[other(2)]), "term:2 wait:101"),
            (1099, whole(&[other(2)]), "wait:1100"),
            (1100, whole(&[other(2)]), "freeze:2 scan"),
            (1100, whole(&[other(2)]), "kill:2 wait:1101"),
            (1101, whole(&[]), "scan"),
            (1101, whole(&[]), "clean"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Killed)]);
}

#[test]
fn what_all_stand_still_is_owed_no_grace() {
    let stopped = seen(2, Activity::Stopped, Role::Other);
    check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[stopped]), "wait:1"),
            (100, whole(&[stopped]), "freeze:2 scan"),
            (100, whole(&[stopped]), "kill:2 wait:101"),
        ],
    );
}

#[test]
fn what_is_forked_while_it_freezes_is_frozen_and_killed_too() {
    let verdict = check(
        StopOrder::at_once(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[other(2)]), "freeze:2 scan"),
            (0, whole(&[other(2), other(3)]), "freeze:3 scan"),
            (0, whole(&[other(2), other(3)]), "kill:2,3 wait:1"),
            (1, whole(&[other(4)]), "kill:4 wait:3"),
            (3, whole(&[]), "scan"),
            (3, whole(&[other(5)]), "kill:5 wait:7"),
            (7, whole(&[]), "scan"),
            (7, whole(&[]), "clean"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Killed), (3, Fate::Killed), (4, Fate::Killed), (5, Fate::Killed)]);
}

#[test]
fn a_second_signal_ends_the_grace() {
    let all = [leader()];
    check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&all), "term:1 wait:1"),
            (1, Input::KillNow, "scan"),
            (1, whole(&all), "freeze:1 scan"),
            (1, whole(&all), "kill:1 wait:2"),
        ],
    );
}

#[test]
fn uninterruptible_sleep_is_waited_for_and_then_dirty() {
    let stuck = seen(2, Activity::Uninterruptible, Role::Other);
    let verdict = check(
        StopOrder::at_once(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[stuck]), "freeze:2 scan"),
            (0, whole(&[stuck]), "kill:2 wait:1"),
            (50, whole(&[stuck]), "kill-only:2 wait:52"),
            (4999, whole(&[stuck]), "kill-only:2 wait:5003"),
            (5000, whole(&[stuck]), "dirty"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Survived)]);
}

#[test]
fn what_refuses_a_signal_is_unkillable_and_dirty() {
    let refused = || Input::Signalled { refused: vec![id(2)], vanished: Vec::new(), unseen: false };
    let verdict = check(
        StopOrder::at_once(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[other(2)]), "freeze:2 scan"),
            (0, whole(&[other(2)]), "kill:2 wait:1"),
            (0, refused(), ""),
            (100, whole(&[other(2)]), "kill-only:2 wait:102"),
            (100, refused(), ""),
            (2000, whole(&[other(2)]), "dirty"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Unkillable)]);
}

#[test]
fn a_process_that_merely_takes_its_time_is_given_the_whole_bound() {
    let order = StopOrder { verify: Secs::from_secs(4), ..StopOrder::at_once() };
    let verdict = check(
        order,
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[other(2)]), "freeze:2 scan"),
            (0, whole(&[other(2)]), "kill:2 wait:1"),
            (1, whole(&[other(2)]), "wait:3"),
            (3999, whole(&[other(2)]), "kill-only:2 wait:4003"),
            (4000, whole(&[other(2)]), "dirty"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Survived)]);
}

/// On a machine where ledger itself hardly runs: two looks say nothing, and who becomes fewer is waited for anew.
#[test]
fn a_crowd_is_given_up_only_when_looks_have_shown_that_it_stays() {
    let order = StopOrder { verify: Secs::from_secs(4), ..StopOrder::at_once() };
    check(
        order,
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[other(2), other(3)]), "freeze:2,3 scan"),
            (0, whole(&[other(2), other(3)]), "kill:2,3 wait:1"),
            (9000, whole(&[other(2), other(3)]), "kill-only:2,3 wait:9002"),
            (13_000, whole(&[other(3)]), "kill-only:3 wait:13004"),
            (16_990, whole(&[other(3)]), "kill-only:3 wait:16998"),
            (16_999, whole(&[other(3)]), "wait:17015"),
            (17_000, whole(&[other(3)]), "dirty"),
        ],
    );
}

#[test]
fn what_cannot_be_counted_is_unknown_and_never_clean() {
    let verdict = check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[]), "scan"),
            (0, unsure(), "wait:1"),
            (124, unsure(), "wait:126"),
            (126, unsure(), "freeze: wait:130"),
            (249, unsure(), "freeze: wait:257"),
            (257, unsure(), "kill: wait:273"),
            (499, unsure(), "kill: wait:519"),
            // A look that takes so long proves no more than a short one.
            (900, unsure(), "kill: wait:920"),
            (920, unsure(), "unknown"),
        ],
    );
    assert_eq!(verdict.expect("it is there").notes, ["no list"]);
}

#[test]
fn who_is_never_there_when_it_is_looked_at_has_to_stand_still() {
    let verdict = check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, unsure(), "wait:1"),
            (125, unsure(), "freeze: wait:127"),
            (127, whole(&[other(2)]), "freeze:2 scan"),
            (127, whole(&[other(2)]), "kill:2 wait:128"),
            (128, whole(&[]), "scan"),
            (128, whole(&[]), "clean"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Killed)]);
}

#[test]
fn who_does_not_even_then_is_killed_unseen_and_that_is_told() {
    for unseen in [true, false] {
        let verdict = check(
            five_seconds(),
            &[
                (0, Input::Begin, "scan"),
                (0, unsure(), "wait:1"),
                (125, unsure(), "freeze: wait:127"),
                (250, unsure(), "kill: wait:254"),
                (250, Input::Signalled { refused: Vec::new(), vanished: Vec::new(), unseen }, ""),
                (253, unsure(), "kill: wait:261"),
                (253, Input::Signalled { refused: Vec::new(), vanished: Vec::new(), unseen }, ""),
                (254, whole(&[]), "scan"),
                (254, whole(&[]), "clean"),
            ],
        );
        let verdict = verdict.expect("it is there");
        assert_eq!((verdict.escalated, verdict.notes.len()), (unseen, usize::from(unseen)));
    }
}

#[test]
fn who_refused_to_be_asked_is_killed_all_the_same() {
    let refused = || Input::Signalled { refused: vec![id(2)], vanished: Vec::new(), unseen: false };
    let verdict = check(
        StopOrder::ask(Secs::from_millis(50)),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[leader(), other(2)]), "term:1 wait:1"),
            (1, whole(&[other(2)]), "term:2 wait:2"),
            (1, refused(), ""),
            (50, Input::Woke, "freeze:2 scan"),
            (50, whole(&[other(2)]), "kill:2 wait:51"),
            (51, whole(&[]), "scan"),
            (51, whole(&[]), "clean"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Killed)]);
}

#[test]
fn an_empty_scan_that_is_blind_proves_nothing_and_the_dead_are_dead() {
    let blind = |seen: &[Seen]| Input::Scanned(Scan { seen: seen.to_vec(), blind_to: Some("no hold"), ..Scan::default() });
    let verdict = check(
        StopOrder::at_once(),
        &[
            (0, Input::Begin, "scan"),
            (0, blind(&[other(2)]), "freeze:2 scan"),
            (0, blind(&[other(2)]), "kill:2 wait:1"),
            (1, blind(&[]), "scan"),
            (1, blind(&[]), "unknown"),
        ],
    );
    assert_eq!(verdict.as_ref().expect("it is there").notes, ["no hold"]);
    assert_eq!(fates(verdict), [(2, Fate::Killed)]);
}

#[test]
fn one_unsure_scan_does_not_spoil_the_next_two() {
    check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, unsure(), "wait:1"),
            (1, whole(&[]), "scan"),
            (1, unsure(), "wait:3"),
            (3, whole(&[]), "scan"),
            (3, whole(&[]), "clean"),
        ],
    );
}

#[test]
fn the_spared_are_never_signalled_and_nothing_that_hits_all_is_used() {
    let spared = seen(3, Activity::Running, Role::Spared);
    let verdict = check(
        StopOrder::at_once(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[other(2), spared]), "freeze-only:2 scan"),
            (0, whole(&[other(2), spared]), "kill-only:2 wait:1"),
            (1, whole(&[spared]), "scan"),
            (1, whole(&[spared]), "clean"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Killed), (3, Fate::Allowed)]);
}

#[test]
fn what_was_gone_before_our_signal_has_ended_by_itself() {
    let vanished = || Input::Signalled { refused: Vec::new(), vanished: vec![id(2)], unseen: false };
    let verdict = check(
        five_seconds(),
        &[
            (0, Input::Begin, "scan"),
            (0, whole(&[other(2)]), "wait:1"),
            (100, whole(&[other(2)]), "term:2 wait:101"),
            (100, vanished(), ""),
            (101, whole(&[]), "scan"),
            (101, whole(&[]), "clean"),
        ],
    );
    assert_eq!(fates(verdict), [(2, Fate::Exited)]);
}

#[test]
fn nothing_is_done_after_the_end() {
    let mut stop = Stop::new(StopOrder::at_once());
    let _ = stop.step(0, whole(&[]));
    assert!(matches!(stop.step(0, whole(&[])).as_slice(), [Effect::Done(_)]));
    assert!(stop.step(0, whole(&[other(2)])).is_empty());
}
