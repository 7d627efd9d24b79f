//! Scripts of (time, input) against the machine, and every legal script reaches an end.

use proptest::prelude::*;

use super::*;
use crate::core::ids::FilePath;
use crate::core::moment::Wall;

fn at(ms: u64) -> Moment {
    Moment { wall: Wall(i64::try_from(ms).unwrap_or(0)), mono_ms: ms, boot_ms: ms }
}

fn watch(cap_s: Option<u64>) -> Watch {
    let bounds = Bounds {
        at: FileRef::new(1, 1, &FilePath::from("a.sh")),
        cap: cap_s.map(Secs::from_secs),
        cap_basis: None,
        grace: Secs::from_secs(5),
        leftovers_fail: false,
        log: None,
    };
    Watch::begin(bounds, at(0))
}

fn clean() -> Input {
    let swept =
        Swept { cleanup: Cleanup::Clean, leftovers: vec![], foreign: vec![], escalated: false, notes: vec![], took: Secs::ZERO };
    Input::Swept { swept, used: TreeUse::default() }
}

fn started() -> Input {
    Input::Started { id: ProcessId { pid: 2, start: 1 }, containment: "subreaper".into() }
}

fn exited(code: i32) -> Input {
    Input::LeaderExited { exit: Exit::Code(code), signalled: false, oom: false, at_ms: u64::MAX }
}

/// Runs a script and gives back a short word per effect, with the last record.
fn play(watch: &mut Watch, script: Vec<(u64, Input)>) -> (Vec<String>, Option<FileFinished>) {
    let mut words = Vec::new();
    let mut record = None;
    for (ms, input) in script {
        for effect in watch.step(at(ms), input) {
            words.push(match effect {
                Effect::Sweep { term, grace } => format!("{ms}:sweep(term={term},grace={})", grace.as_f64()),
                Effect::Record(body) => {
                    if let Body::FileFinished(finished) = *body.clone() {
                        record = Some(*finished);
                    }
                    format!("{ms}:{}", body.kind())
                }
                Effect::Done { outcome, .. } => format!("{ms}:done({outcome})"),
                Effect::TakeEvidence => format!("{ms}:look"),
                Effect::KillNow => format!("{ms}:kill-now"),
                Effect::PauseTree => format!("{ms}:pause"),
                Effect::ResumeTree => format!("{ms}:resume"),
                Effect::Drain => format!("{ms}:drain"),
            });
        }
    }
    (words, record)
}

fn drained() -> Input {
    Input::Drained(Printed::default())
}

#[test]
fn a_passing_file_is_swept_and_drained() {
    let script = vec![(5, started()), (900, exited(0)), (905, clean()), (906, drained())];
    let (words, record) = play(&mut watch(Some(60)), script);
    assert_eq!(words, ["900:sweep(term=true,grace=1)", "905:drain", "906:file-finished", "906:done(pass)"]);
    let record = record.expect("a record");
    assert_eq!((record.duration_s, record.exit_code, record.cleanup_verified), (Some(Secs::from_millis(900)), Some(0), Some(true)));
}

/// ledger was stopped, or had no processor: the file's time is its own all the same, and the cap is held against that.
#[test]
fn an_end_that_is_heard_of_late_was_when_it_was() {
    let late = Input::LeaderExited { exit: Exit::Code(0), signalled: false, oom: false, at_ms: 3_000 };
    let script = vec![(5, started()), (12_000, late), (12_005, clean()), (12_006, drained())];
    let (words, record) = play(&mut watch(Some(5)), script);
    assert_eq!(words, ["12000:sweep(term=true,grace=1)", "12005:drain", "12006:file-finished", "12006:done(pass)"]);
    assert_eq!(record.expect("a record").duration_s, Some(Secs::from_secs(3)));
}

#[test]
fn a_hung_file_is_looked_at_twice_and_ended_at_its_cap() {
    let script = vec![
        (5, started()),
        (48_000, Input::Tick),
        (48_100, Input::Evidence(Evidence::default())),
        (50_000, Input::Beat { sample: HostSample::default(), last_output: None }),
        (60_000, Input::Tick),
        (60_100, Input::Evidence(Evidence::default())),
        (65_200, Input::LeaderExited { exit: Exit::Code(0), signalled: true, oom: false, at_ms: u64::MAX }),
        (65_300, clean()),
        (65_301, drained()),
    ];
    let (words, record) = play(&mut watch(Some(60)), script);
    let expect = [
        "48000:look",
        "50000:heartbeat",
        "60000:look",
        "60100:cap-expired",
        "60100:sweep(term=true,grace=5)",
        "65300:drain",
        "65301:file-finished",
        "65301:done(file-watchdog-timeout)",
    ];
    assert_eq!(words, expect);
    assert_eq!(record.expect("a record").exit_code, Some(0), "the leader's own status is kept beside the timeout");
}

#[test]
fn a_file_that_ends_at_its_cap_before_our_signal_keeps_its_status() {
    let during_the_look = vec![(5, started()), (60_000, Input::Tick), (60_020, exited(0)), (60_100, clean()), (60_101, drained())];
    let (words, _) = play(&mut watch(Some(60)), during_the_look);
    assert!(words.contains(&"60101:done(pass)".to_owned()), "{words:?}");
    let before_the_signal = vec![
        (5, started()),
        (60_000, Input::Tick),
        (60_100, Input::Evidence(Evidence::default())),
        (60_101, exited(0)),
        (60_200, clean()),
        (60_201, drained()),
    ];
    let (words, _) = play(&mut watch(Some(60)), before_the_signal);
    assert!(words.contains(&"60201:done(pass)".to_owned()), "{words:?}");
}

#[test]
fn evidence_that_never_comes_is_not_waited_for() {
    let script = vec![(5, started()), (60_000, Input::Tick), (61_999, Input::Tick), (62_000, Input::Tick)];
    let (words, _) = play(&mut watch(Some(60)), script);
    assert_eq!(words, ["60000:look", "62000:cap-expired", "62000:sweep(term=true,grace=5)"]);
}

#[test]
fn neither_sleep_nor_a_stop_nor_a_clock_step_counts_against_the_cap() {
    let mut watch = watch(Some(60));
    let _ = watch.step(at(5), started());
    // Asleep for an hour: only the clock that counts through sleep moves on.
    let woken = Moment { wall: Wall(3_610_000), mono_ms: 10_000, boot_ms: 3_610_000 };
    assert_eq!(watch.step(woken, Input::Tick), []);
    // The wall clock steps back by a day.
    let stepped = Moment { wall: Wall(-86_400_000), mono_ms: 20_000, boot_ms: 3_620_000 };
    assert_eq!(watch.step(stepped, Input::Tick), []);
    assert_eq!(watch.step(stepped, Input::Paused), [Effect::PauseTree]);
    let later = Moment { wall: Wall(0), mono_ms: 520_000, boot_ms: 4_120_000 };
    assert_eq!(watch.step(later, Input::Tick), []);
    assert_eq!(watch.step(later, Input::Resumed), [Effect::ResumeTree]);
    assert_eq!(watch.elapsed(later), Secs::from_secs(20));
    let _ = watch.step(later, exited(0));
    let _ = watch.step(later, clean());
    let end = watch.step(later, drained());
    let Some(Effect::Record(body)) = end.first() else { panic!("no record: {end:?}") };
    let Body::FileFinished(finished) = &**body else { panic!("no file-finished") };
    assert_eq!(finished.suspended_s, Secs::from_secs(3_600 + 500));
    assert_eq!(finished.duration_s, Some(Secs::from_secs(20)));
}

#[test]
fn cancellation_has_a_short_grace_and_a_second_signal_none() {
    let script = vec![(5, started()), (100, Input::Cancel), (200, Input::KillNow), (300, clean()), (301, drained())];
    let (words, _) = play(&mut watch(None), script);
    let expect = ["100:sweep(term=true,grace=3)", "200:kill-now", "300:drain", "301:file-finished", "301:done(cancelled)"];
    assert_eq!(words, expect);
}

/// `--grace 60` is for files; whoever cancels the leg while one uses it up does not wait for it.
#[test]
fn a_cancel_cuts_the_grace_of_a_file_that_is_being_ended_already() {
    let mut patient = watch(Some(10));
    patient.bounds.grace = Secs::from_secs(60);
    let look = || Input::Evidence(Evidence::default());
    let script = vec![(5, started()), (10_000, Input::Tick), (10_001, look()), (12_000, Input::Cancel)];
    let (words, _) = play(&mut patient, script);
    assert!(words.iter().any(|word| word == "10001:sweep(term=true,grace=60)"), "{words:?}");
    assert_eq!(patient.wake_in(at(12_000)), Some(Secs::from_secs(3)));
    let script = vec![(14_999, Input::Tick), (15_000, Input::Tick), (15_001, Input::Tick), (15_002, clean()), (15_003, drained())];
    let (words, _) = play(&mut patient, script);
    assert_eq!(words, ["15000:kill-now", "15002:drain", "15003:file-finished", "15003:done(file-watchdog-timeout)"]);
}

#[test]
fn a_cancelled_file_that_had_ended_keeps_its_own_status() {
    let script = vec![(5, started()), (100, exited(1)), (101, Input::Cancel), (300, clean()), (301, drained())];
    let (words, _) = play(&mut watch(None), script);
    assert!(words.contains(&"301:done(test-failure)".to_owned()), "{words:?}");
}

#[test]
fn a_lost_owner_is_swept_from_ledgers_side_whatever_was_under_way() {
    let script = vec![(5, started()), (100, exited(0)), (101, Input::OwnerLost), (300, clean()), (301, drained())];
    let (words, _) = play(&mut watch(None), script);
    assert_eq!(words[..2], ["100:sweep(term=true,grace=1)", "101:sweep(term=false,grace=0)"]);
    assert!(words.contains(&"301:done(pass)".to_owned()), "its status had been seen: {words:?}");
}

#[test]
fn a_failed_spawn_has_no_duration() {
    let failed = Input::SpawnFailed { text: "no such program".into() };
    let (words, record) = play(&mut watch(Some(60)), vec![(5, failed), (6, clean()), (7, drained())]);
    assert_eq!(words.last().map(String::as_str), Some("7:done(spawn-failure)"));
    assert_eq!(record.expect("a record").duration_s, None);
}

fn any_input() -> impl Strategy<Value = Input> {
    prop_oneof![
        Just(started()),
        Just(exited(0)),
        Just(Input::SpawnFailed { text: "x".into() }),
        Just(Input::Tick),
        Just(Input::Cancel),
        Just(Input::KillNow),
        Just(Input::Paused),
        Just(Input::Resumed),
        Just(Input::OwnerLost),
        Just(Input::Evidence(Evidence::default())),
        Just(Input::Beat { sample: HostSample::default(), last_output: None }),
    ]
}

proptest! {
    /// Whatever comes in whatever order, the machine sweeps once it must, and a performer that answers its effects gets one record.
    #[test]
    fn every_script_ends_with_one_record(inputs in prop::collection::vec((0_u64..30_000, any_input()), 0..40)) {
        let mut watch = watch(Some(60));
        let mut now = 0;
        let mut records = 0;
        let mut pending = std::collections::VecDeque::from(inputs);
        // A performer owes an answer to every sweep and every drain; the script is interleaved with these.
        pending.push_back((100_000, Input::Tick));
        pending.push_back((3_000, Input::Tick));
        pending.push_back((1, Input::Cancel));
        pending.push_back((1, Input::Resumed));
        while let Some((wait, input)) = pending.pop_front() {
            now += wait;
            for effect in watch.step(at(now), input) {
                match effect {
                    Effect::Sweep { .. } => pending.push_front((1, clean())),
                    Effect::Drain => pending.push_front((1, drained())),
                    Effect::Record(body) if body.kind() == "file-finished" => records += 1,
                    _ => {}
                }
            }
        }
        prop_assert!(watch.is_over());
        prop_assert_eq!(records, 1);
    }
}
