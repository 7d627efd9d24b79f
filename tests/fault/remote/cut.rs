//! A link that is cut: ledger in a network namespace of its own, and a store on the other side. Needs root and `ip`.
//!
//! A release is measured with `LEDGER_TEST_CUTS=100 LEDGER_TEST_LANES=3`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::lost::{
    FILES, Kind, Random, Running, Sinks, count, each, end_by_force, local_lines, may_be_current, remove_ledger, said, said_in,
    some_moment, suite, was_degraded,
};
use crate::support::has;

/// A namespace with one link to the rest of the world.
struct Island {
    name: String,
    link: String,
    world: String,
}

fn ip(args: &[&str]) -> bool {
    Command::new("ip").args(args).stderr(Stdio::null()).status().unwrap().success()
}

impl Island {
    /// `None` where this machine lets nobody make one.
    fn new() -> Option<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        if !has("ip") {
            return None;
        }
        let number = NUMBER.fetch_add(1, Ordering::SeqCst);
        let name = format!("lg{}x{number}", std::process::id());
        if !ip(&["netns", "add", &name]) {
            assert!(std::env::var_os("CI").is_none(), "no network namespace can be made, and CI needs one");
            eprintln!("SKIPPED: no network namespace can be made here");
            return None;
        }
        let (third, fourth) = ((u64::from(std::process::id()) + number / 60) % 250, number % 60 * 4);
        let [world, inside] = [1, 2].map(|host| format!("10.213.{third}.{}", fourth + host));
        let island = Self { link: format!("{name}a"), world: world.clone(), name };
        let far = format!("{}b", island.name);
        let made = ip(&["link", "add", &island.link, "type", "veth", "peer", "name", &far, "netns", &island.name])
            && ip(&["addr", "add", &format!("{world}/30"), "dev", &island.link])
            && ip(&["link", "set", &island.link, "up"])
            && ip(&["-n", &island.name, "addr", "add", &format!("{inside}/30"), "dev", &far])
            && ip(&["-n", &island.name, "link", "set", "lo", "up"])
            && ip(&["-n", &island.name, "link", "set", &far, "up"]);
        assert!(made, "the link of {} is made", island.name);
        Some(island)
    }

    /// The cable is pulled out: nothing answers any more, and nothing says so.
    fn cut(&self) {
        assert!(ip(&["link", "set", &self.link, "down"]));
    }

    /// The machine's own end goes down: every packet is refused at once.
    fn cut_at_home(&self) {
        assert!(ip(&["-n", &self.name, "link", "set", &format!("{}b", self.name), "down"]));
    }

    fn mend(&self) {
        assert!(ip(&["link", "set", &self.link, "up"]));
    }
}

impl Drop for Island {
    fn drop(&mut self) {
        // Its links go with it.
        let _ = ip(&["netns", "del", &self.name]);
    }
}

fn start(sinks: &Sinks, island: &Island, folder: &Path, run: u64) -> Running {
    let home = sinks.ledger(folder);
    let mut command = Command::new("ip");
    command.current_dir(folder).args(["netns", "exec", &island.name]).arg(home.get_program()).env_clear();
    command.envs(home.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let port = sinks.store_port();
    command.env("AWS_ENDPOINT_URL", format!("http://{}:{port}", island.world)).env("AWS_ALLOW_HTTP", "true");
    sinks.run_args(&mut command, run, &[Kind::Store], &[]);
    said_in(folder, command)
}

fn ends(child: &mut Running, within: Duration) -> Option<i32> {
    let begun = Instant::now();
    while begun.elapsed() < within {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    None
}

/// The link is cut, and stays so: the runner is gone with it, or runs on alone to its own end.
fn cut_for_good(sinks: &Sinks, run: u64, random: &mut Random) {
    let Some(island) = Island::new() else { return };
    let folder = suite();
    let mut child = start(sinks, &island, folder.path(), run);
    some_moment(folder.path(), random);
    let before = said(folder.path());
    let was_on_time = !was_degraded(folder.path());
    if run.is_multiple_of(2) {
        island.cut()
    } else {
        island.cut_at_home()
    }
    let after = said(folder.path());
    if run % 4 < 2 {
        end_by_force(child);
    } else {
        // It notices, says so once, and its own result is what it would have been.
        let code = ends(&mut child, Duration::from_secs(60));
        let words = std::fs::read_to_string(folder.path().join("stderr.log")).unwrap();
        assert_eq!(code, Some(0), "run {run}: {words}");
        assert_eq!(said(folder.path()).lines().filter(|line| line.starts_with("end")).count(), FILES);
    }
    let ledger = local_lines(folder.path());
    remove_ledger(folder.path());
    let what = format!("run {run}");
    let Some(left) = sinks.left(Kind::Store, run).pop() else {
        return assert!(!was_on_time, "{what}: a file began, and nothing is left");
    };
    left.begins(&ledger, &what);
    sinks.keeps_what_it_answered_for(run, &left);
    if was_on_time {
        left.holds_what_was_said(&before, &what);
        // The cut came between two looks: what either of them allows.
        let may_be: Vec<_> = may_be_current(&before).into_iter().chain(may_be_current(&after)).collect();
        sinks.is_lost_after_its_lease(run, Kind::Store, &may_be);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_link_leaves_the_last_fact_outside_and_the_run_unharmed() {
    let Some(sinks) = Sinks::start().await else { return };
    tokio::task::block_in_place(|| {
        each(count("LEDGER_TEST_CUTS", 3), |run, random| cut_for_good(&sinks, run, random));
        if sinks.has_any(Kind::Store) {
            sinks.verify(Kind::Store);
        }
    });
}

/// The link comes back while the leg still runs: the same epoch goes on, and in the end nothing is missing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_that_is_mended_brings_everything_home() {
    let Some(sinks) = Sinks::start().await else { return };
    let mended = |run: u64, random: &mut Random| {
        let Some(island) = Island::new() else { return };
        let folder = suite();
        // The last file waits, so that there is a time after the cut.
        let waits = "echo \"begin 12.sh\" >> said.log\nwhile [ ! -e go ]; do sleep 0.05; done\necho \"end 12.sh\" >> said.log\n";
        std::fs::write(folder.path().join("12.sh"), waits).unwrap();
        let mut child = start(&sinks, &island, folder.path(), run);
        some_moment(folder.path(), random);
        island.cut();
        let begun = Instant::now();
        while !said(folder.path()).contains("begin 12.sh") || !was_degraded(folder.path()) {
            assert!(begun.elapsed() < Duration::from_secs(60), "run {run} goes on alone: {}", said(folder.path()));
            std::thread::sleep(Duration::from_millis(10));
        }
        island.mend();
        while sinks.left(Kind::Store, run).pop().and_then(|left| left.marker?.row.current_file).as_deref() != Some("12.sh") {
            assert!(begun.elapsed() < Duration::from_secs(120), "run {run} is heard of again");
            std::thread::sleep(Duration::from_millis(50));
        }
        eprintln!("run {run}: heard of again after {:?}", begun.elapsed());
        std::fs::write(folder.path().join("go"), "").unwrap();
        assert_eq!(ends(&mut child, Duration::from_secs(60)), Some(0), "run {run}");
        let left = sinks.left(Kind::Store, run);
        assert_eq!(left.len(), 1, "run {run}: one epoch");
        left[0].is_whole(&local_lines(folder.path()), &format!("run {run}: once and in order"));
        let leg = sinks.report(run, Kind::Store, &[]);
        assert_eq!((&leg["terminal"], &leg["conclusion"]), (&"complete".into(), &"pass".into()), "run {run}: {leg:#}");
    };
    tokio::task::block_in_place(|| each(count("LEDGER_TEST_MENDS", 1), mended));
}
