//! A real QEMU that becomes a daemon (cases 2, 12).

use std::process::Command;

use ci_ledger::core::outcome::Cleanup;
use ci_ledger::core::process::{Exit, Fate};
use ci_ledger::host::identity::is_alive;
use ci_ledger::host::owner::OwnerSettings;
use ci_ledger::host::tree::Mechanism;

use super::driver::{identify, run_with, settings, sh};

const QEMU: &str = "qemu-system-x86_64";

#[tokio::test]
async fn a_daemonised_qemu_is_ours_and_named() {
    if Command::new(QEMU).arg("--version").output().is_err() {
        eprintln!("SKIPPED: {QEMU} is not installed");
        return;
    }
    for disabled in [vec![], vec![Mechanism::Cgroup]] {
        let folder = tempfile::tempdir().unwrap();
        let pid_file = folder.path().join("pid");
        let script = format!("{QEMU} -machine none -display none -nodefaults -daemonize -pidfile {}", pid_file.display());
        let (exit, swept, used) = run_with(&OwnerSettings { disabled, ..settings() }, sh(&script)).await;
        assert_eq!(exit, Exit::Code(0));
        assert_eq!(swept.cleanup, Cleanup::Clean, "{swept:?}");
        let qemu = swept.leftovers.iter().find(|left| left.exe.as_deref() == Some(QEMU)).expect("it is named");
        assert!(matches!(qemu.fate, Fate::Terminated | Fate::Killed), "{qemu:?}");
        assert_eq!(qemu.comm, "qemu-system-x86");
        assert!(qemu.argv.as_deref().unwrap().contains("-daemonize") && qemu.rss_mib.unwrap() > 1.0, "{qemu:?}");
        assert!(used.cpu_s.unwrap() > 0.0, "{used:?}");
    }
}

#[tokio::test]
async fn somebody_elses_qemu_lives_on() {
    let Ok(mut child) = Command::new(QEMU).args(["-machine", "none", "-display", "none", "-nodefaults"]).spawn() else {
        eprintln!("SKIPPED: {QEMU} is not installed");
        return;
    };
    let id = identify(i32::try_from(child.id()).unwrap());
    let (_, swept, _) = run_with(&settings(), sh("exit 0")).await;
    let alive = is_alive(id);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(alive);
    assert!(swept.foreign.iter().any(|foreign| foreign.pid == id.pid), "{swept:?}");
    assert!(swept.leftovers.is_empty(), "{swept:?}");
}
