//! `ledger prune`

use std::path::{Path, PathBuf};

use clap::Args;

use super::{Failure, print};
use crate::core::retention::{DEFAULT, Keep, Kept, decide};
use crate::host::clock;
use crate::store::{LedgerFolder, LegDatabase, database_bytes, is_writer_alive, remove_database};

/// Remove old ledgers and their logs; the default suits a laptop
#[derive(Debug, Args)]
#[command(after_help = "\
A ledger is kept while it is inside every bound that is given; the newest one, and one that is being written, are always kept.
Without --keep: the newest 500 legs, at most 90 days old, in at most 2 GiB.

Examples:
  ledger prune --dry-run
  ledger prune --keep 200 --keep 30d")]
pub struct PruneArgs {
    /// A number of legs (200), an age (90d) or a size (2GiB); may be given more than once
    #[arg(long, value_name = "BOUND")]
    keep: Vec<Keep>,

    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,

    /// Folder of ledgers
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,

    /// Folder of per-file logs [default: logs/ in the ledger folder]
    #[arg(long, value_name = "DIR")]
    logs: Option<PathBuf>,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

struct Candidate {
    database: PathBuf,
    logs: Option<PathBuf>,
    kept: Kept,
}

pub fn run(args: &PruneArgs) -> Result<i32, Failure> {
    let folder = LedgerFolder::open(&args.ledger)
        .map_err(|error| Failure::usage(error).hint("--ledger DIR names the folder that `ledger run` wrote"))?;
    let logs = args.logs.clone().unwrap_or_else(|| args.ledger.join("logs"));
    let databases = folder.databases().map_err(Failure::usage)?;
    let candidates: Vec<Candidate> = databases.iter().rev().filter_map(|database| candidate(database, &logs)).collect();
    let ages: Vec<Kept> = candidates.iter().map(|candidate| candidate.kept).collect();
    let bounds = if args.keep.is_empty() { DEFAULT.to_vec() } else { args.keep.clone() };
    let decided = decide(&ages, &bounds, clock::now().wall);
    let mut removed = Vec::new();
    for (candidate, keep) in candidates.iter().zip(decided) {
        if keep || is_writer_alive(&candidate.database) {
            continue;
        }
        if !args.dry_run {
            remove(candidate)?;
        }
        removed.push(candidate);
    }
    tell(args, &removed, candidates.len())
}

fn candidate(database: &LegDatabase, logs: &Path) -> Option<Candidate> {
    // A ledger that cannot be read is nobody's to throw away unseen.
    let identity = database.identity.as_ref().ok()?;
    let logs = own_logs(logs, identity.epoch.as_str());
    let bytes = database_bytes(&database.path).saturating_add(logs.as_deref().map_or(0, folder_bytes));
    Some(Candidate { database: database.path.clone(), logs, kept: Kept { began: identity.created, bytes } })
}

/// The epoch's own folder of logs, where it is there: directly in the folder of logs, and itself, not what a link leads to.
fn own_logs(logs: &Path, epoch: &str) -> Option<PathBuf> {
    let own = logs.join(epoch);
    let is_inside = own.parent() == Some(logs) && own.file_name().is_some_and(|name| name == epoch);
    (is_inside && own.symlink_metadata().is_ok_and(|found| found.is_dir())).then_some(own)
}

fn remove(candidate: &Candidate) -> Result<(), Failure> {
    remove_database(&candidate.database).map_err(Failure::usage)?;
    let beside = ["recovered", "obituary", "pushed"].map(|extension| candidate.database.with_extension(extension));
    for path in beside.iter().filter(|path| path.exists()) {
        std::fs::remove_file(path).map_err(|error| Failure::usage(format!("{}: {error}", path.display())))?;
    }
    if let Some(logs) = &candidate.logs {
        std::fs::remove_dir_all(logs).map_err(|error| Failure::usage(format!("{}: {error}", logs.display())))?;
    }
    Ok(())
}

fn tell(args: &PruneArgs, removed: &[&Candidate], of: usize) -> Result<i32, Failure> {
    let bytes: u64 = removed.iter().map(|candidate| candidate.kept.bytes).sum();
    if args.json {
        let paths: Vec<String> = removed.iter().map(|candidate| candidate.database.display().to_string()).collect();
        let document = serde_json::json!({ "v": 1, "dry_run": args.dry_run, "removed": paths, "removed_bytes": bytes, "legs": of });
        print(&format!("{document:#}\n"))?;
        return Ok(0);
    }
    let word = if args.dry_run { "would be removed" } else { "removed" };
    for candidate in removed {
        print(&format!("{}: {word}\n", candidate.database.display()))?;
    }
    print(&format!("{} of {of} legs {word}, {} KiB\n", removed.len(), bytes / 1024))?;
    Ok(0)
}

fn folder_bytes(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    entries.flatten().filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_folder_directly_in_the_logs_is_an_epochs_own() {
        let folder = tempfile::tempdir().expect("a temp folder");
        let logs = folder.path().join("logs");
        for name in ["logs/e/inner", "other"] {
            std::fs::create_dir_all(folder.path().join(name)).expect("made");
        }
        std::fs::write(logs.join("file"), "").expect("written");
        assert_eq!(own_logs(&logs, "e"), Some(logs.join("e")));
        let outside = folder.path().join("other").display().to_string();
        for epoch in [outside.as_str(), "..", "../other", "../logs/e", ".", "", "e/inner", "e/..", "file", "none"] {
            assert_eq!(own_logs(&logs, epoch), None, "{epoch}");
        }
        #[cfg(unix)]
        {
            std::os::unix::fs::symlink(folder.path().join("other"), logs.join("link")).expect("linked");
            assert_eq!(own_logs(&logs, "link"), None);
        }
    }
}
