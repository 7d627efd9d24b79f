//! Other users' processes, hidden ones, and sleep that nothing interrupts (cases 11, 15, 16). Most need root, to become nobody.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ci_ledger::core::moment::Secs;
use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::{Fate, ProcessId};
use ci_ledger::core::stop::StopOrder;
use ci_ledger::host::deliver::{Signal, deliver};
use ci_ledger::host::owner::{Owner, OwnerSettings};
use ci_ledger::host::tree::Mechanism;

use super::driver::{ENVIRONMENTS, exited, gone, identify, read_pid, run_with, settings, sh, started, swept};

/// A frozen process of cgroup v1 sleeps uninterruptibly and does not take KILL until it is thawed.
#[tokio::test]
async fn uninterruptible_sleep_is_dirty_with_what_it_waits_on() {
    let group = PathBuf::from(format!("/sys/fs/cgroup/freezer/ledger-test-{}", std::process::id()));
    if std::fs::create_dir(&group).is_err() {
        eprintln!("SKIPPED: no freezer of cgroup v1 that this user may use");
        return;
    }
    let mut owner = Owner::launch(&OwnerSettings { disabled: vec![Mechanism::Cgroup], ..settings() }).unwrap();
    let script = format!("sleep 104 & echo $! > {}/cgroup.procs; echo $!; exit 0", group.display());
    started(&mut owner, sh(&script)).await;
    let stuck = identify(read_pid(owner.stdout.as_mut().unwrap()).await);
    exited(&mut owner).await;
    std::fs::write(group.join("freezer.state"), "FROZEN").unwrap();
    let (swept, _) = swept(&mut owner, StopOrder::at_once()).await;
    std::fs::write(group.join("freezer.state"), "THAWED").unwrap();
    assert!(gone(stuck, Duration::from_secs(5)).await, "KILL was pending");
    owner.close().await;
    std::fs::remove_dir(&group).unwrap();
    assert_eq!(swept.cleanup, Cleanup::Dirty, "{swept:?}");
    let left = &swept.leftovers[0];
    assert_eq!((left.pid, left.fate), (stuck.pid, Fate::Survived), "{swept:?}");
    assert!(left.waits_on.as_deref().unwrap().starts_with('D'), "{swept:?}");
    assert!(swept.took < Secs::from_secs(8), "{swept:?}");
}

/// An owner that runs as nobody, and a program that makes a root process out of one of its children.
struct Unprivileged {
    folder: tempfile::TempDir,
}

impl Unprivileged {
    fn prepare() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: only root can become nobody");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        mode(folder.path(), 0o755);
        std::fs::copy(env!("CARGO_BIN_EXE_ledger"), folder.path().join("ledger")).unwrap();
        let found = ["/usr/bin/setpriv", "/bin/setpriv"].into_iter().find(|path| Path::new(path).exists());
        let Some(setpriv) = found else {
            eprintln!("SKIPPED: setpriv is not installed");
            return None;
        };
        std::fs::copy(setpriv, folder.path().join("become-root")).unwrap();
        mode(&folder.path().join("become-root"), 0o4755);
        Some(Self { folder })
    }

    /// `before` runs as root in front of the owner.
    fn settings(&self, before: &str) -> OwnerSettings {
        let program = self.folder.path().join("owner.sh");
        let ledger = self.folder.path().join("ledger");
        let nobody = "--reuid 65534 --regid 65534 --clear-groups";
        std::fs::write(&program, format!("#!/bin/sh\n{before} setpriv {nobody} {} \"$@\"\n", ledger.display())).unwrap();
        mode(&program, 0o755);
        OwnerSettings { program: Some(program), ..settings() }
    }

    /// A script that leaves a root process behind and prints its number, once it is root in every respect: only then can it write
    /// into root's folder, and how far it has come cannot be read where /proc hides it.
    fn leave_root(&self) -> String {
        let (folder, root) = (self.folder.path().display(), "--reuid 0 --regid 0 --clear-groups");
        format!(
            "{folder}/become-root {root} sh -c ': > {folder}/is-root; exec sleep 103' & \
             until [ -e {folder}/is-root ]; do sleep 0.02; done; echo $!; exit 0"
        )
    }
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

async fn is_unkillable(settings: OwnerSettings, script: &str) {
    let mut owner = Owner::launch(&settings).unwrap();
    started(&mut owner, sh(script)).await;
    let root: ProcessId = identify(read_pid(owner.stdout.as_mut().unwrap()).await);
    exited(&mut owner).await;
    let (swept, _) = swept(&mut owner, StopOrder::ask(Secs::from_millis(100))).await;
    let _ = deliver(root, Signal::Kill);
    assert!(gone(root, Duration::from_secs(5)).await);
    owner.close().await;
    assert_eq!(swept.cleanup, Cleanup::Dirty, "{swept:?}");
    let left = swept.leftovers.iter().find(|left| left.pid == root.pid).expect("it is named");
    assert_eq!(left.fate, Fate::Unkillable, "{swept:?}");
}

const HIDDEN: &str = "exec unshare --mount sh -c 'mount -t proc -o hidepid=2 proc /proc && exec \"$@\"' hidden";

#[tokio::test]
async fn another_users_child_is_unkillable_and_dirty() {
    let _unreadable = ENVIRONMENTS.lock().await;
    if let Some(unprivileged) = Unprivileged::prepare() {
        is_unkillable(unprivileged.settings("exec"), &unprivileged.leave_root()).await;
    }
}

#[tokio::test]
async fn another_users_child_that_cannot_be_seen_is_unkillable_and_dirty() {
    let _unreadable = ENVIRONMENTS.lock().await;
    if let Some(unprivileged) = Unprivileged::prepare() {
        is_unkillable(unprivileged.settings(HIDDEN), &unprivileged.leave_root()).await;
    }
}

/// An ordinary host is full of processes that an ordinary user may not look into. They are nobody's leftovers.
#[tokio::test]
async fn what_cannot_be_looked_at_does_not_spoil_a_clean_file() {
    let Some(unprivileged) = Unprivileged::prepare() else { return };
    for before in ["exec", HIDDEN] {
        // Where nothing holds the tree, nothing is proved; but that is all there is to say, whoever else is on this host.
        for (disabled, cleanup, notes) in
            [(vec![], Cleanup::Clean, 0), (vec![Mechanism::Cgroup, Mechanism::Subreaper], Cleanup::Unknown, 1)]
        {
            let settings = OwnerSettings { disabled, ..unprivileged.settings(before) };
            let (_, swept, _) = run_with(&settings, sh("exit 0")).await;
            let seen = (swept.cleanup, swept.leftovers.len(), swept.notes.len());
            assert_eq!(seen, (cleanup, 0, notes), "{before}: {swept:?}");
        }
    }
}
