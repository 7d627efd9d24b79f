//! One file's tree under an owner.

use std::path::Path;
use std::process::Child;
use std::time::Duration;

use ci_ledger::core::moment::Secs;
use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::pattern::Patterns;
use ci_ledger::core::process::{Exit, Fate, OursBy};
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::owner::{Owner, OwnerSettings, Report, SpawnSpec};
use ci_ledger::host::tree::Mechanism;
use tokio::io::AsyncReadExt as _;

use super::children::{PLAY, noted, own, sleeper};
use crate::proc::driver::{self, exited, next, settings, started, swept};
use crate::support::{is_alive, until};

/// A process of the test's own.
struct Foreign(Child);

impl Foreign {
    fn start(program: &Path) -> Self {
        Self(sleeper(program).spawn().unwrap())
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn play(folder: &Path, name: &str, lines: &str) -> SpawnSpec {
    std::fs::write(folder.join(name), lines).unwrap();
    let args = PLAY.iter().map(|word| word.into()).chain([name.into()]).collect();
    SpawnSpec { program: own().into(), args, cwd: Some(folder.to_owned()), env: Vec::new() }
}

fn cmd(line: &str) -> SpawnSpec {
    SpawnSpec { program: "cmd".into(), args: vec!["/d".into(), "/c".into(), line.into()], cwd: None, env: Vec::new() }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_status_is_the_programs_own() {
    let folder = tempfile::tempdir().unwrap();
    for line in ["exit 0", "exit 3"] {
        let (exit, swept, _) = driver::run(cmd(line)).await;
        assert_eq!(exit, Exit::Code(line[5..].parse().unwrap()));
        assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Clean, 0), "{swept:?}");
    }
    for code in [256_i64, 70_000, 0x8000_0000, 0xc000_0005] {
        let (exit, ..) = driver::run(play(folder.path(), "wide", &format!("exit {code}"))).await;
        assert_eq!(exit, Exit::Code(code as i32));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_comes_whole_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::launch(&settings()).unwrap();
    let mut stdout = owner.stdout.take().unwrap();
    let mut stderr = owner.stderr.take().unwrap();
    started(&mut owner, play(folder.path(), "loud", "flood 700\nprint the end\nexit 0")).await;
    let mut text = Vec::new();
    tokio::time::timeout(driver::LIMIT, stdout.read_to_end(&mut text)).await.expect("an end").unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches("0123456789abcde\n").count(), 700 * 64, "{}", text.len());
    assert!(text.ends_with("the end\n"), "{}", text.len());
    assert_eq!(stderr.read(&mut [0; 16]).await.unwrap(), 0);
    assert_eq!(exited(&mut owner).await, Exit::Code(0));
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_secs(1))).await;
    assert_eq!(swept.cleanup, Cleanup::Clean);
    owner.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_green_file_leaves_behind_is_named_and_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (exit, swept, used) = driver::run(play(folder.path(), "leaver", "background\nexit 0")).await;
    assert_eq!((exit, swept.cleanup), (Exit::Code(0), Cleanup::Clean), "{swept:?}");
    let [left] = &swept.leftovers[..] else { panic!("one leftover: {swept:?}") };
    assert_eq!(noted(folder.path()), [left.pid as u32]);
    assert_eq!((left.ours_by, left.fate), (OursBy::Job, Fate::Killed), "{left:?}");
    assert!(left.exe.as_ref().is_some_and(|exe| exe.starts_with("suite")) && left.age_s.is_some(), "{left:?}");
    assert!(!is_alive(left.pid as u32) && swept.escalated);
    eprintln!("used: {used:?}; notes: {:?}; argv: {:?}", swept.notes, left.argv);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_that_hangs_is_ended_as_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, play(folder.path(), "hung", "tree 3\nhang")).await;
    assert_eq!(owner.containment(), "job");
    until("the tree has grown", || noted(folder.path()).len() == 4);
    owner.evidence();
    match next(&mut owner).await {
        // Owners of other tests are threads of this process too, and what they hold is seen along.
        Report::Evidence(seen) => {
            let pids: Vec<u32> = seen.tree.iter().map(|row| row.pid as u32).collect();
            assert!(noted(folder.path()).iter().all(|pid| pids.contains(pid)), "{seen:?}");
        }
        other => panic!("expected evidence: {other:?}"),
    }
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_millis(300))).await;
    assert_eq!(swept.cleanup, Cleanup::Clean, "{swept:?}");
    assert!(noted(folder.path()).into_iter().all(|pid| !is_alive(pid)), "{swept:?}");
    owner.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_at_once_each_end_their_own() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let mut first = Owner::launch(&settings()).unwrap();
    let mut second = Owner::launch(&settings()).unwrap();
    started(&mut first, play(folders[0].path(), "one", "background\nexit 0")).await;
    started(&mut second, play(folders[1].path(), "two", "background\nexit 0")).await;
    exited(&mut first).await;
    exited(&mut second).await;
    let [one, two] = [0, 1].map(|at: usize| noted(folders[at].path())[0]);
    let (ended, _) = swept(&mut first, StopOrder::at_once()).await;
    assert_eq!(ended.leftovers.iter().map(|left| left.pid as u32).collect::<Vec<_>>(), [one]);
    assert!(!is_alive(one) && is_alive(two));
    let (ended, _) = swept(&mut second, StopOrder::at_once()).await;
    assert_eq!(ended.leftovers.iter().map(|left| left.pid as u32).collect::<Vec<_>>(), [two]);
    assert!(!is_alive(two));
    first.close().await;
    second.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_machine_from_before_and_one_from_meanwhile_live() {
    let folder = tempfile::tempdir().unwrap();
    let qemu = folder.path().join("qemu-system-x86_64.exe");
    std::fs::copy(own(), &qemu).unwrap();
    let before = Foreign::start(&qemu);
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, play(folder.path(), "leaver", "background\nexit 0")).await;
    let meanwhile = Foreign::start(&qemu);
    exited(&mut owner).await;
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_secs(1))).await;
    owner.close().await;
    let mut foreign: Vec<u32> = swept.foreign.iter().map(|foreign| foreign.pid as u32).collect();
    foreign.sort_unstable();
    let mut expected = [before.0.id(), meanwhile.0.id()];
    expected.sort_unstable();
    assert_eq!(foreign, expected, "{swept:?}");
    assert!(expected.into_iter().all(is_alive));
    assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Clean, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_allowed_to_stay_outlives_the_owner() {
    let folder = tempfile::tempdir().unwrap();
    let spare = Patterns::new(["suite*"]).unwrap();
    let (_, swept, _) =
        driver::run_with(&OwnerSettings { allow_leftover: spare, ..settings() }, play(folder.path(), "leaver", "background")).await;
    let pid = noted(folder.path())[0];
    assert_eq!(swept.leftovers.iter().map(|left| left.fate).collect::<Vec<_>>(), [Fate::Allowed], "{swept:?}");
    assert!(is_alive(pid));
    let id = driver::identify(pid as i32);
    assert_eq!(
        ci_ledger::host::deliver::deliver(id, ci_ledger::host::deliver::Signal::Kill),
        ci_ledger::host::deliver::Delivery::Sent
    );
    assert!(driver::gone(id, Duration::from_secs(5)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_job_descendants_are_followed_and_the_record_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::launch(&OwnerSettings { disabled: vec![Mechanism::Job], ..settings() }).unwrap();
    started(&mut owner, play(folder.path(), "hung", "tree 2\nhang")).await;
    assert_eq!(owner.containment(), "descendant");
    until("the tree has grown", || noted(folder.path()).len() == 3);
    let (swept, used) = swept(&mut owner, StopOrder::at_once()).await;
    assert_eq!(swept.cleanup, Cleanup::Unknown, "nothing holds the tree: {swept:?}");
    assert!(swept.leftovers.iter().all(|left| left.ours_by == OursBy::Descendant) && !swept.leftovers.is_empty(), "{swept:?}");
    assert_eq!(used.source.as_deref(), Some("sampled"));
    assert!(noted(folder.path()).into_iter().all(|pid| !is_alive(pid)), "{swept:?}");
    owner.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_that_is_let_go_ends_its_tree() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, play(folder.path(), "hung", "tree 1\nhang")).await;
    until("the tree has grown", || noted(folder.path()).len() == 2);
    drop(owner);
    until("the tree is gone", || noted(folder.path()).into_iter().all(|pid| !is_alive(pid)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_not_there_is_a_failed_start() {
    let mut owner = Owner::launch(&settings()).unwrap();
    owner.start(SpawnSpec { program: "no such program".into(), args: Vec::new(), cwd: None, env: Vec::new() });
    assert!(matches!(next(&mut owner).await, Report::SpawnFailed { errno: Some(2), .. } | Report::SpawnFailed { errno: None, .. }));
    let (swept, _) = swept(&mut owner, StopOrder::at_once()).await;
    assert_eq!((swept.cleanup, swept.leftovers.len()), (Cleanup::Clean, 0));
    owner.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tree_pauses_and_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let mut owner = Owner::launch(&settings()).unwrap();
    started(&mut owner, play(folder.path(), "waits", "touch begun\nawait go\nexit 7")).await;
    until("it has begun", || folder.path().join("begun").exists());
    owner.pause();
    let beats = |folder: &Path| std::fs::read_to_string(folder.join("beats")).unwrap_or_default();
    // Told from a tree that only gets no turn on a busy host by a second one that goes on: it beats fifty times, and the first not once.
    let beside = tempfile::tempdir().unwrap();
    let mut other = Owner::launch(&settings()).unwrap();
    started(&mut other, play(beside.path(), "waits", "await go\nexit 0")).await;
    until("it stands still", || {
        let before = beats(folder.path());
        for _ in 0..50 {
            let beat = beats(beside.path());
            until("the other goes on", || beats(beside.path()) != beat);
        }
        before == beats(folder.path())
    });
    std::fs::write(beside.path().join("go"), "").unwrap();
    exited(&mut other).await;
    swept(&mut other, StopOrder::at_once()).await;
    other.close().await;
    std::fs::write(folder.path().join("go"), "").unwrap();
    let paused = tokio::time::timeout(Duration::from_millis(500), owner.next()).await;
    assert!(paused.is_err(), "a tree that is stopped does not end: {paused:?}");
    owner.resume();
    assert_eq!(exited(&mut owner).await, Exit::Code(7));
    swept(&mut owner, StopOrder::at_once()).await;
    owner.close().await;
}
