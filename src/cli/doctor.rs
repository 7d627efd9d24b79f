//! `ledger doctor`

use std::path::{Path, PathBuf};

use clap::Args;
use serde::Serialize;

use super::{Failure, World, print};
use crate::core::ids::{Token, base_name};
use crate::core::moment::Secs;
use crate::core::outcome::Cleanup;
use crate::core::process::Swept;
use crate::core::stop::StopOrder;
use crate::host::owner::{Owner, OwnerSettings, Report};
use crate::host::sampler::Sampler;
use crate::host::table::SharedTable;
use crate::host::{clock, identity, shell, signals};
use crate::store::LedgerFolder;

/// Say what this host can do: reaping level (proved by a probe), samplers, the ledger folder, signals
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Folder of ledgers to probe
    #[arg(long, value_name = "DIR", default_value = ".ledger")]
    ledger: PathBuf,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Health {
    Good,
    Limited,
    Bad,
}

#[derive(Debug, Serialize)]
struct Finding {
    what: &'static str,
    health: Health,
    text: String,
}

pub fn run(args: &DoctorArgs, world: &World) -> Result<i32, Failure> {
    let runtime = crate::source::runtime().map_err(Failure::usage)?;
    let mut findings = vec![runtime.block_on(reaping())];
    findings.push(sampling());
    findings.push(ledger_folder(&args.ledger));
    findings.push(signals(world));
    findings.push(sinks(world));
    if args.json {
        let document = serde_json::json!({ "v": 1, "host": identity::host_info(), "findings": findings });
        print(&format!("{document:#}\n"))?;
    } else {
        for finding in &findings {
            let word = match finding.health {
                Health::Good => "ok",
                Health::Limited => "limited",
                Health::Bad => "BAD",
            };
            print(&format!("{:<8} {:<14} {}\n", word, finding.what, finding.text))?;
        }
    }
    Ok(i32::from(findings.iter().any(|finding| finding.health == Health::Bad)))
}

async fn reaping() -> Finding {
    let what = "reaping";
    match probe().await {
        Err(text) => Finding { what, health: Health::Bad, text },
        Ok((containment, swept)) => {
            let found = swept.leftovers.len();
            let proved = swept.cleanup == Cleanup::Clean && found == 1;
            let health = if proved { Health::Good } else { Health::Bad };
            let sweep = match swept.cleanup {
                Cleanup::Clean => "clean",
                Cleanup::Dirty => "dirty",
                Cleanup::Unknown => "proves nothing",
            };
            let notes = if swept.notes.is_empty() { String::new() } else { format!(" ({})", swept.notes.join("; ")) };
            let text =
                format!("{containment}; a daemonised probe was started: {found} found, sweep {sweep}, in {}{notes}", swept.took);
            Finding { what, health, text }
        }
    }
}

async fn probe() -> Result<(String, Swept), String> {
    let settings = OwnerSettings::new(Token::new(uuid::Uuid::new_v4().simple().to_string()));
    let mut owner = Owner::launch(&settings).map_err(|error| error.to_string())?;
    let containment = owner.ready().await.to_owned();
    // What it leaves behind must be found and ended by what owns it, not by its name.
    owner.start(shell::leaver());
    let bounded = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        loop {
            match owner.next().await {
                Report::LeaderExited { .. } => owner.sweep(StopOrder::ask(Secs::from_secs(1))),
                Report::Swept(swept, _) => return Ok(swept),
                Report::SpawnFailed { text, .. } => return Err(text),
                Report::OwnerLost => return Err("the owner process ended by itself".to_owned()),
                Report::Started { .. } | Report::Evidence(_) => {}
            }
        }
    });
    let swept = bounded.await.map_err(|_| "the probe did not come to an end within 20 s".to_owned())??;
    owner.close().await;
    Ok((containment, swept))
}

fn sampling() -> Finding {
    let mut sampler = Sampler::new(SharedTable::default(), vec![("work".to_owned(), PathBuf::from("."))]);
    let sample = sampler.sample(clock::now());
    let missing: Vec<String> = sample.missing.iter().map(|(field, reason)| format!("{field}: {reason}")).collect();
    let memory = sample.mem_available_mib.map_or("memory unknown".to_owned(), |free| format!("{free} MiB available"));
    let processes = sample.process_count.map_or("processes unknown".to_owned(), |count| format!("{count} processes"));
    let health = if sample.mem_available_mib.is_none() { Health::Bad } else { Health::Good };
    let unknown = if missing.is_empty() { String::new() } else { format!("; unknown here: {}", missing.join(", ")) };
    Finding { what: "samples", health, text: format!("{memory}, {processes}{unknown}") }
}

fn ledger_folder(path: &Path) -> Finding {
    let what = "ledger folder";
    let existed = path.exists();
    let result = LedgerFolder::create(path);
    if !existed {
        // A doctor leaves nothing behind that was not there before.
        let _ = std::fs::remove_file(path.join(".gitignore"));
        let _ = std::fs::remove_dir(path);
    }
    match result {
        Ok(_) => Finding { what, health: Health::Good, text: format!("'{}' can be written and synced", path.display()) },
        Err(error) => Finding { what, health: Health::Bad, text: error.to_string() },
    }
}

/// A runner signals only the step's entry process: a shell in between must hand its place over.
fn signals(world: &World) -> Finding {
    let what = "signals";
    let parent = identity::parent_program().unwrap_or_default();
    let is_shell = matches!(base_name(&parent), "sh" | "bash" | "dash" | "zsh" | "ksh" | "busybox");
    if is_shell && world.environment.is_ci() {
        let text = format!(
            "ledger was started by {parent}, which is still there: the runner signals only the step's first process, so start it with \
             `exec ledger run …` as the last command of the step"
        );
        return Finding { what, health: Health::Limited, text };
    }
    Finding { what, health: Health::Good, text: signals::HEARD.to_owned() }
}

fn sinks(world: &World) -> Finding {
    let what = "sinks";
    match world.environment.get("LEDGER_SINK") {
        Some(urls) => {
            let urls: Vec<String> = urls.split_whitespace().map(crate::sink::printable).collect();
            Finding { what, health: Health::Good, text: format!("LEDGER_SINK: {}", urls.join(", ")) }
        }
        None => {
            let text = "LEDGER_SINK is not set: a lost machine leaves only what --sink names".to_owned();
            Finding { what, health: Health::Limited, text }
        }
    }
}
