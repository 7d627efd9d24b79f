//! Slots with real processes (CASES 43-47). The two public failures of DESIGN §9 are the first two tests.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde_json::Value;

/// Nothing here takes longer unless it is broken; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(60);

/// A program in a pool of one slot; more words follow.
const IN_A_SLOT: [&str; 6] = ["pool", "run", "--pool", "vm", "--slots", "1"];

/// A host of its own: one folder for state, one to work in.
struct Host {
    folder: tempfile::TempDir,
}

/// A ledger in the background; what is left of it at the end of a test is killed by its number.
struct Running(Child);

impl Host {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn ledger(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        for name in ["LEDGER_POOLS", "LEDGER_SINK", "LEDGER_DEADLINE", "CI", "GITHUB_ACTIONS", "GITHUB_RUN_ID"] {
            command.env_remove(name);
        }
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.ledger(args).output().unwrap()
    }

    fn start(&self, args: &[&str]) -> Running {
        Running(self.ledger(args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Holds a slot of pool `vm` until the file `name` is there.
    fn hold(&self, slots: &str, name: &str) -> Running {
        let before = self.pool()["held"].as_u64().unwrap_or(0);
        let script = format!("until [ -e {name} ]; do sleep 0.02; done");
        let running = self.start(&["pool", "run", "--pool", "vm", "--slots", slots, "--run-id", name, "--", "sh", "-c", &script]);
        self.until("a slot is held", |pool| pool["held"].as_u64() > Some(before));
        running
    }

    /// Waits for a slot of pool `vm` and then writes its name down.
    fn wait(&self, name: &str) -> Running {
        let before = self.pool()["waiting"].as_u64().unwrap_or(0);
        let script = format!("echo {name} >> order");
        let running = self.start(&["pool", "run", "--pool", "vm", "--run-id", name, "--", "sh", "-c", &script]);
        self.until("it waits", |pool| pool["waiting"].as_u64() > Some(before));
        running
    }

    /// A file of pool `vm`.
    fn record(&self, name: &str) -> PathBuf {
        let pools = fs::read_dir(self.path("state/ledger/pools")).unwrap().map(|entry| entry.unwrap().path());
        let mut vm = pools.filter(|path| path.file_name().unwrap().to_str().unwrap().starts_with("vm-"));
        vm.next().unwrap().join(name)
    }

    fn touch(&self, name: &str) {
        fs::write(self.path(name), "").unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Pool `vm` as `pool status --json` shows it; null where there is none yet.
    fn pool(&self) -> Value {
        let document: Value = serde_json::from_slice(&self.run(&["pool", "status", "--json"]).stdout).unwrap();
        assert_eq!(document["v"], 1);
        let pools = document["pools"].as_array().unwrap();
        pools.iter().find(|pool| pool["name"] == "vm").cloned().unwrap_or(Value::Null)
    }

    fn until(&self, what: &str, reached: impl Fn(&Value) -> bool) {
        let began = Instant::now();
        loop {
            let pool = self.pool();
            if reached(&pool) {
                return;
            }
            assert!(began.elapsed() < LIMIT, "{what} never happens: {pool:#}");
        }
    }

    fn health(&self) -> i32 {
        self.run(&["pool", "status", "--pool", "vm"]).status.code().unwrap()
    }
}

impl Running {
    fn pid(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.0)
    }

    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(self.pid(), signal).unwrap();
    }

    fn ended(mut self) -> i32 {
        let began = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code().unwrap_or(-1);
            }
            assert!(began.elapsed() < LIMIT, "it never ends");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Public failure (a): a provisioning deadline destroyed the VM, the slot stayed held, and the node looked healthy for 28 hours.
#[test]
fn a_deadline_gives_back_the_slot_and_the_next_job_is_admitted() {
    let host = Host::new();
    let boot = ["pool", "run", "--pool", "vm", "--slots", "1", "--deadline", "0.3", "--destroy", "touch destroyed", "--"];
    let stuck = host.run(&[&boot[..], &["sleep", "1000"]].concat());
    assert_eq!(stuck.status.code(), Some(124), "{}", said(&stuck));
    assert!(host.path("destroyed").exists());
    let pool = host.pool();
    assert_eq!((&pool["held"], &pool["quarantined"], host.health()), (&0.into(), &0.into(), 0), "{pool:#}");
    let next = host.run(&["pool", "run", "--pool", "vm", "--slots", "1", "--", "true"]);
    assert_eq!(next.status.code(), Some(0), "{}", said(&next));
    assert!(!said(&next).contains("waiting"), "{}", said(&next));
}

/// Public failure (b): the boot failed, another owner claimed the device before the destroy, and nobody gave the reservation back.
#[test]
fn not_yours_gives_back_the_reservation() {
    let host = Host::new();
    let _other = host.hold("2", "never");
    let boot = ["pool", "run", "--pool", "vm", "--slots", "2", "--destroy", "exit 75", "--", "sh", "-c", "exit 9"];
    let failed = host.run(&boot);
    assert_eq!(failed.status.code(), Some(9), "{}", said(&failed));
    let pool = host.pool();
    assert_eq!((&pool["held"], &pool["quarantined"]), (&1.into(), &0.into()), "{pool:#}");
    let next = host.run(&["pool", "run", "--pool", "vm", "--slots", "2", "--", "true"]);
    assert_eq!(next.status.code(), Some(0));
    assert!(!said(&next).contains("waiting"), "{}", said(&next));
}

#[test]
fn a_destroy_that_fails_or_hangs_puts_the_slot_away_for_everybody_to_see() {
    // Only who is to be late is given little time.
    let cases = [
        ("exit 1", "60", "ended with 1"),
        ("sleep 1000", "0.2", "gave no answer within 200 ms"),
        ("kill -9 $$", "60", "died of signal 9"),
    ];
    for (destroy, timeout, reason) in cases {
        let host = Host::new();
        let boot = ["--destroy", destroy, "--destroy-timeout", timeout, "--quarantine", "3", "--", "false"];
        let failed = host.run(&[&IN_A_SLOT[..], &boot].concat());
        assert_eq!(failed.status.code(), Some(1), "{}", said(&failed));
        assert!(said(&failed).contains("in quarantine until"), "{}", said(&failed));
        let pool = host.pool();
        assert_eq!((&pool["held"], &pool["quarantined"], &pool["black_hole"]), (&0.into(), &1.into(), &true.into()), "{pool:#}");
        assert!(pool["quarantines"][0]["reason"].as_str().unwrap().contains(reason), "{pool:#}");
        // The node says that it admits nothing, which a count of jobs would hide.
        assert_eq!(host.health(), 1);
        // Who comes now is told why it waits, and goes in when the time is over.
        let next = host.run(&["pool", "run", "--pool", "vm", "--slots", "1", "--", "true"]);
        assert_eq!(next.status.code(), Some(0));
        assert!(said(&next).contains("1 in quarantine") && said(&next).contains(reason), "{}", said(&next));
        assert_eq!(host.health(), 0);
    }
}

/// A record that nobody can read ends all the same: its file says since when it stands.
#[test]
fn a_quarantine_whose_record_is_damaged_ends_too() {
    let host = Host::new();
    let boot = ["pool", "run", "--pool", "vm", "--slots", "1", "--destroy", "exit 3", "--quarantine", "2h", "--", "false"];
    assert_eq!(host.run(&boot).status.code(), Some(1));
    let record = host.record("slot-0001.kept");
    let written_at = |when: SystemTime| {
        fs::write(&record, "").unwrap();
        fs::File::options().write(true).open(&record).unwrap().set_modified(when).unwrap();
    };
    let now = SystemTime::now();
    written_at(now - Duration::from_secs(600));
    let first = host.pool();
    let expires = &first["quarantines"][0]["expires"];
    assert!(expires.is_string() && first["quarantines"][0]["reason"] == "its record cannot be read", "{first:#}");
    assert_eq!(&host.pool()["quarantines"][0]["expires"], expires, "each look counts anew");
    let text = String::from_utf8_lossy(&host.run(&["pool", "status"]).stdout).into_owned();
    assert!(text.contains("in quarantine for 19m") || text.contains("in quarantine for 20m"), "{text}");
    // A clock that ran ahead keeps nobody out for longer.
    written_at(now + Duration::from_secs(100_000));
    assert!(String::from_utf8_lossy(&host.run(&["pool", "status"]).stdout).contains("in quarantine for 30m"));
    written_at(now - Duration::from_secs(1801));
    assert_eq!((host.pool()["quarantined"].as_u64(), host.health()), (Some(0), 0));
    let next = host.run(&["pool", "run", "--pool", "vm", "--", "true"]);
    assert!(next.status.code() == Some(0) && !said(&next).contains("waiting"), "{}", said(&next));
    assert!(!record.exists());
}

/// The locks are the pool. A damaged record costs the capacity and nothing else, and everybody is told.
#[test]
fn a_damaged_record_hides_no_pool() {
    let host = Host::new();
    let boot = ["pool", "run", "--pool", "vm", "--slots", "2", "--destroy", "exit 3", "--", "false"];
    assert_eq!(host.run(&boot).status.code(), Some(1));
    let damages: [&dyn Fn(&Path); 2] = [&|record| fs::write(record, "xx").unwrap(), &|record| fs::remove_file(record).unwrap()];
    for damage in damages {
        damage(&host.record("pool.json"));
        for args in [["pool", "status"].as_slice(), &["pool", "status", "--pool", "vm"]] {
            let status = host.run(args);
            let text = String::from_utf8_lossy(&status.stdout).into_owned();
            assert!(text.contains("pool 'vm': 0 of 1 held, 1 in quarantine"), "{text} {}", said(&status));
            assert!(said(&status).contains("warning: the record of pool 'vm' (pool.json) is damaged"), "{}", said(&status));
            assert_eq!(status.status.code(), Some(1), "nothing goes in as long as nobody states a capacity");
        }
        let pool = host.pool();
        assert_eq!((&pool["damaged"], &pool["quarantined"]), (&true.into(), &1.into()), "{pool:#}");
        let next = host.run(&["pool", "run", "--pool", "vm", "--slots", "2", "--", "true"]);
        assert_eq!(next.status.code(), Some(0));
        let told = "warning: the record of pool 'vm' was damaged and is written anew, with 2 slots";
        assert!(said(&next).contains(told), "{}", said(&next));
        let pool = host.pool();
        assert_eq!((&pool["damaged"], &pool["capacity"], host.health()), (&false.into(), &2.into(), 0), "{pool:#}");
        let again = host.run(&["pool", "run", "--pool", "vm", "--", "true"]);
        assert!(!said(&again).contains("damaged"), "{}", said(&again));
    }
}

#[test]
fn a_killed_holder_frees_its_slot_and_its_tree_is_gone() {
    let host = Host::new();
    let holder = host.start(&["pool", "run", "--pool", "vm", "--slots", "1", "--", "sh", "-c", "echo $$ > pid; sleep 1000"]);
    host.until("it runs", |pool| pool["held"] == 1 && host.read("pid").ends_with('\n'));
    let leader = host.read("pid");
    holder.signal(rustix::process::Signal::KILL);
    holder.ended();
    let pool = host.pool();
    assert_eq!((&pool["held"], &pool["quarantined"]), (&0.into(), &0.into()), "{pool:#}");
    let next = host.run(&["pool", "run", "--pool", "vm", "--", "true"]);
    assert!(!said(&next).contains("waiting"), "{}", said(&next));
    host.until("its tree is gone", |_| !Path::new("/proc").join(leader.trim()).join("exe").exists());
}

#[test]
fn a_killed_waiter_costs_nobody_a_place_and_the_rest_goes_in_order() {
    let host = Host::new();
    let holder = host.hold("1", "go");
    let waiters = ["first", "killed", "third", "fourth"].map(|name| host.wait(name));
    let pool = host.pool();
    let names: Vec<&str> = pool["waiters"].as_array().unwrap().iter().map(|waiter| waiter["run_id"].as_str().unwrap()).collect();
    assert_eq!(names, ["first", "killed", "third", "fourth"], "{pool:#}");
    assert_eq!(pool["holders"][0]["pid"], holder.pid().as_raw_nonzero().get(), "{pool:#}");
    assert_eq!(pool["holders"][0]["run_id"], "go", "{pool:#}");
    waiters[1].signal(rustix::process::Signal::KILL);
    host.until("the dead one is gone", |pool| pool["waiting"] == 3);
    host.touch("go");
    assert_eq!(holder.ended(), 0);
    for (waiter, code) in waiters.into_iter().zip([0, -1, 0, 0]) {
        assert_eq!(waiter.ended(), code);
    }
    assert_eq!(host.read("order"), "first\nthird\nfourth\n");
}

#[test]
fn a_cancelled_waiter_gives_way_without_taking_the_slot() {
    let host = Host::new();
    let holder = host.hold("1", "go");
    let cancelled = host.wait("cancelled");
    let next = host.wait("next");
    cancelled.signal(rustix::process::Signal::TERM);
    assert_eq!(cancelled.ended(), 143);
    assert_eq!(host.pool()["waiting"], 1);
    host.touch("go");
    assert_eq!((holder.ended(), next.ended()), (0, 0));
    assert_eq!(host.read("order"), "next\n");
}

#[test]
fn a_cancelled_holder_destroys_and_gives_back() {
    let host = Host::new();
    let holder = host
        .start(&[&IN_A_SLOT[..], &["--destroy", "echo $LEDGER_DESTROY_WHY $LEDGER_SLOT > why", "--", "sleep", "1000"]].concat());
    host.until("it runs", |pool| pool["held"] == 1);
    holder.signal(rustix::process::Signal::INT);
    assert_eq!(holder.ended(), 130);
    assert_eq!(host.read("why"), "cancelled 1\n");
    assert_eq!(host.pool()["held"], 0);
}

/// It used up its deadline and is using up its grace; whoever cancels the job waits for neither.
#[test]
fn a_cancel_cuts_the_grace_of_a_command_that_is_being_ended_already() {
    let host = Host::new();
    let stubborn = "trap 'echo asked > asked' TERM; while :; do sleep 0.1; done";
    let holder = host.start(&[&IN_A_SLOT[..], &["--deadline", "0.3", "--grace", "50", "--", "sh", "-c", stubborn]].concat());
    host.until("it is asked to end", |_| host.path("asked").exists());
    let began = Instant::now();
    holder.signal(rustix::process::Signal::INT);
    assert_eq!(holder.ended(), 124);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(host.pool()["held"], 0);
}

#[test]
fn a_capacity_that_shrinks_counts_those_above_it() {
    let host = Host::new();
    let one = host.hold("2", "one");
    let two = host.hold("2", "two");
    let third = host.start(&["pool", "run", "--pool", "vm", "--slots", "1", "--", "touch", "third"]);
    host.until("it waits", |pool| pool["waiting"] == 1);
    host.touch("one");
    assert_eq!(one.ended(), 0);
    host.until("one is left", |pool| pool["held"] == 1);
    let pool = host.pool();
    assert_eq!((&pool["capacity"], &pool["waiting"]), (&1.into(), &1.into()), "{pool:#}");
    assert!(!host.path("third").exists());
    host.touch("two");
    assert_eq!((two.ended(), third.ended()), (0, 0));
    assert!(host.path("third").exists());
}

#[test]
fn never_more_than_its_slots_and_everybody_has_a_turn() {
    let host = Host::new();
    fs::create_dir(host.path("in")).unwrap();
    let script = "mkdir in/$$; ls in | wc -l >> counts; sleep 0.05; rmdir in/$$";
    let running: Vec<Running> =
        (0..12).map(|_| host.start(&["pool", "run", "--pool", "vm", "--slots", "3", "--", "sh", "-c", script])).collect();
    running.into_iter().for_each(|one| assert_eq!(one.ended(), 0));
    let counts: Vec<u32> = host.read("counts").lines().map(|line| line.trim().parse().unwrap()).collect();
    assert_eq!(counts.len(), 12);
    assert!(counts.iter().all(|&count| (1..=3).contains(&count)), "{counts:?}");
    assert_eq!(host.pool()["held"], 0);
}

#[test]
fn no_child_inherits_the_lock() {
    let host = Host::new();
    let shown = host.run(&["pool", "run", "--pool", "vm", "--slots", "1", "--", "sh", "-c", "ls -l /proc/self/fd /proc/$PPID/fd"]);
    let text = String::from_utf8_lossy(&shown.stdout);
    assert!(text.contains("/fd:") && !text.contains(".lock"), "{text}");
}

#[test]
fn a_pool_name_with_path_characters_stays_inside_and_the_folder_is_the_users_own() {
    let host = Host::new();
    for name in ["../../escaped", "/tmp/escaped", "..", "a/b", "vm"] {
        assert_eq!(host.run(&["pool", "run", "--pool", name, "--slots", "1", "--", "true"]).status.code(), Some(0), "{name}");
        let status = host.run(&["pool", "status", "--pool", name, "--json"]);
        let document: Value = serde_json::from_slice(&status.stdout).unwrap();
        assert_eq!(document["pools"][0]["name"], name);
    }
    let made: Vec<String> =
        fs::read_dir(host.folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    assert_eq!(made, ["state"]);
    let pools = host.path("state/ledger/pools");
    assert_eq!(fs::read_dir(&pools).unwrap().count(), 5);
    for entry in fs::read_dir(&pools).unwrap() {
        let folder = entry.unwrap().path();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        for file in fs::read_dir(folder).unwrap() {
            assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
    }
    assert_eq!(host.run(&["pool", "run", "--pool", "a\nb", "--slots", "1", "--", "true"]).status.code(), Some(2));
    assert_eq!(host.run(&["pool", "run", "--pool", "vm", "--slots", "0", "--", "true"]).status.code(), Some(2));
    assert_eq!(host.run(&["pool", "status", "--pool", "typo"]).status.code(), Some(2));
}

#[test]
fn two_users_share_a_pool_in_a_folder_that_both_may_write() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can be two users");
        return;
    }
    let host = Host::new();
    let open = |path: &Path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap();
    open(host.folder.path());
    fs::create_dir(host.path("pools")).unwrap();
    open(&host.path("pools"));
    // The build's own folder may be closed to other users.
    fs::copy(env!("CARGO_BIN_EXE_ledger"), host.path("ledger")).unwrap();
    let as_user = |uid: u32, args: &[&str]| {
        let mut command = Command::new(host.path("ledger"));
        command.args(args).env_clear().env("PATH", "/usr/bin:/bin").env("LEDGER_POOLS", host.path("pools"));
        command.current_dir(host.folder.path()).uid(uid).gid(uid).stdin(Stdio::null()).stderr(Stdio::null());
        command
    };
    let seen_by = |uid: u32| -> Value {
        let output = as_user(uid, &["pool", "status", "--json"]).output().unwrap();
        serde_json::from_slice::<Value>(&output.stdout).unwrap()["pools"][0].clone()
    };
    let reached = |what: &str, uid: u32, wanted: &dyn Fn(&Value) -> bool| {
        let began = Instant::now();
        while !wanted(&seen_by(uid)) {
            assert!(began.elapsed() < LIMIT, "{what}: {:#}", seen_by(uid));
        }
    };
    let script = "until [ -e go ]; do sleep 0.02; done";
    let holder =
        Running(as_user(65_533, &["pool", "run", "--pool", "vm", "--slots", "1", "--", "sh", "-c", script]).spawn().unwrap());
    let pid = holder.pid().as_raw_nonzero().get();
    reached("the other user sees who holds it", 65_534, &|pool| {
        pool["holders"][0]["pid"] == pid && pool["holders"][0]["tracked"] == true
    });
    let waiter = Running(as_user(65_534, &["pool", "run", "--pool", "vm", "--slots", "1", "--", "touch", "done"]).spawn().unwrap());
    reached("it waits", 65_533, &|pool| pool["waiting"] == 1);
    host.touch("go");
    assert_eq!((holder.ended(), waiter.ended()), (0, 0));
    assert!(host.path("done").exists());
}

#[test]
fn a_run_waits_alive_runs_under_its_slot_and_gives_it_back() {
    let host = Host::new();
    fs::write(host.path("a.test.sh"), "exit 0\n").unwrap();
    let holder = host.hold("1", "go");
    let run = [
        "run",
        "--pool",
        "vm",
        "--slots",
        "1",
        "--heartbeat",
        "0.1",
        "--run-id",
        "77",
        "--platform",
        "linux",
        "a.test.sh",
        "--",
        "sh",
    ];
    let waiting = host.start(&run);
    host.until("the run waits", |pool| pool["waiters"][0]["run_id"] == "77" && pool["waiters"][0]["leg"] == "linux|local");
    let kinds = |of: &[(String, Value)]| of.iter().map(|(kind, _)| kind.clone()).collect::<Vec<_>>();
    host.until("it beats while it waits", |_| kinds(&events(&host)).iter().filter(|kind| *kind == "heartbeat").count() >= 3);
    host.touch("go");
    assert_eq!((holder.ended(), waiting.ended()), (0, 0));
    let events = events(&host);
    let order: Vec<String> =
        kinds(&events).into_iter().filter(|kind| !matches!(kind.as_str(), "heartbeat" | "host-sampled" | "suspended")).collect();
    assert_eq!(
        order,
        [
            "run-started",
            "slot-waiting",
            "slot-acquired",
            "file-started",
            "file-finished",
            "slot-released",
            "loop-finished",
            "run-finished"
        ]
    );
    let said = &events.iter().find(|(kind, _)| kind == "slot-waiting").unwrap().1;
    assert_eq!((&said["held"], &said["capacity"]), (&1.into(), &1.into()), "{said}");
    assert!(said["holders"][0].as_str().unwrap().contains("run go"), "{said}");
    assert_eq!(host.pool()["held"], 0);
}

#[test]
fn a_run_that_is_cancelled_while_it_waits_takes_no_slot_and_runs_no_file() {
    let host = Host::new();
    fs::write(host.path("a.test.sh"), "touch ran\n").unwrap();
    let _holder = host.hold("1", "never");
    let waiting = host.start(&["run", "--pool", "vm", "--slots", "1", "a.test.sh", "--", "sh"]);
    host.until("the run waits", |pool| pool["waiting"] == 1);
    waiting.signal(rustix::process::Signal::TERM);
    assert_eq!(waiting.ended(), 143);
    assert_eq!((&host.pool()["waiting"], host.path("ran").exists()), (&0.into(), false));
    let last = events(&host).pop().unwrap();
    assert_eq!((last.0.as_str(), &last.1["exit_code"]), ("run-finished", &143.into()));
    // A slot that comes too late for any file is not waited for.
    let late = host.run(&[
        "run",
        "--pool",
        "vm",
        "--deadline",
        "+1",
        "--reserve",
        "1",
        "--min-viable",
        "1",
        "--ledger",
        "late",
        "a.test.sh",
        "--",
        "sh",
    ]);
    assert_eq!(late.status.code(), Some(4), "{}", said(&late));
}

/// Kind and body of every event of the one leg there is.
fn events(host: &Host) -> Vec<(String, Value)> {
    let Ok(folder) = ci_ledger::store::LedgerFolder::open(&host.path(".ledger")) else { return Vec::new() };
    let Some(database) = folder.databases().unwrap().pop() else { return Vec::new() };
    let Ok(reader) = ci_ledger::store::Reader::open(&database.path) else { return Vec::new() };
    let lines = reader.lines_after(ci_ledger::core::ids::Seq(0)).map_while(Result::ok);
    lines
        .map(|line| {
            let event: Value = serde_json::from_str(&line.stored().unwrap().line).unwrap();
            (event["kind"].as_str().unwrap().to_owned(), event["body"].clone())
        })
        .collect()
}
