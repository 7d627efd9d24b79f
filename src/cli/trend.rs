//! `ledger trend`

use clap::Args;

use super::asked::{LegArgs, summarise, warn};
use super::{Failure, World, print};
use crate::core::row::{LegRow, Summary};
use crate::core::trend::{Question as Asked, Trend, analyse};
use crate::host::clock;
use crate::report::trend;
use crate::sink::Variables;
use crate::source::Found;
use crate::source::assemble::Question;

/// Ask whether cost or resource use climbs with position
///
/// Each file is judged against a reference of the same file: by default the other platforms of the same evidence, else other runs of the same
/// platform. The answer says how many points it rests on, and what was not seen.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ledger trend
  ledger trend ci-data --platform macos-x86 --against linux-x86
  ledger trend long.sqlite --baseline groups/          one long sequence against the same files in groups
  ledger trend --json | jq '.trends[0].verdict'")]
pub struct TrendArgs {
    /// Ledger folders, databases, ci-data folders or files, sink URLs [default: .ledger]
    sources: Vec<String>,

    /// Where the reference is read from, instead of the same sources
    #[arg(long, value_name = "SOURCE")]
    baseline: Vec<String>,

    /// Take the reference from this platform only
    #[arg(long, value_name = "NAME")]
    against: Option<String>,

    /// Take the reference from this run only
    #[arg(long, value_name = "ID")]
    against_run: Option<String>,

    #[command(flatten)]
    judged: LegArgs,

    /// Judge at most so many legs, the newest
    #[arg(long, value_name = "N", default_value_t = 20)]
    legs: usize,

    /// One JSON document
    #[arg(long)]
    json: bool,
}

pub fn run(args: &TrendArgs, world: &World) -> Result<i32, Failure> {
    let sources = if args.sources.is_empty() { vec![".ledger".to_owned()] } else { args.sources.clone() };
    let summary = read(&sources, world)?;
    let baseline = if args.baseline.is_empty() { None } else { Some(read(&args.baseline, world)?) };
    let judged = judged(args, &summary);
    if judged.is_empty() {
        return Err(Failure::usage(format!("{}: no leg with timed files matches", sources.join(", ")))
            .hint("`ledger report SOURCE` lists the legs; --run-id, --platform and --target narrow them"));
    }
    let trends: Vec<Trend> = judged
        .iter()
        .map(|leg| analyse(Asked { leg, reference: &reference(args, baseline.as_ref().unwrap_or(&summary), leg) }))
        .collect();
    print(&if args.json { trend::json(&trends) } else { trend::render(&trends, world.terminal.stdout) })?;
    Ok(0)
}

fn read(sources: &[String], world: &World) -> Result<Summary, Failure> {
    let variables = Variables::of(world.environment.variables());
    let question = Question { samples: true, variables, ..Question::everything(clock::now().wall) };
    let summary = summarise(sources, &question, Found::default())?;
    warn(&summary.warnings);
    Ok(summary)
}

fn judged<'a>(args: &TrendArgs, summary: &'a Summary) -> Vec<&'a LegRow> {
    let asked = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    let mut legs: Vec<&LegRow> = summary
        .legs
        .iter()
        .filter(|leg| asked(&args.judged.run_id, leg.run_id.as_str()) && asked(&args.judged.attempt, leg.attempt.as_str()))
        .filter(|leg| asked(&args.judged.platform, leg.platform.as_str()) && asked(&args.judged.target, leg.target.as_str()))
        .filter(|leg| leg.files.iter().any(|file| file.duration_s.is_some()))
        .collect();
    legs.sort_by_key(|leg| std::cmp::Reverse(leg.started_at.or(leg.ended_at)));
    if legs.len() > args.legs {
        say!("ledger: {} legs match; the newest {} are judged (--legs)", legs.len(), args.legs);
        legs.truncate(args.legs);
    }
    legs
}

/// What the leg is judged against. Without a word about it: other platforms, and where there are none, other runs of this one.
fn reference<'a>(args: &TrendArgs, pool: &'a Summary, leg: &LegRow) -> Vec<&'a LegRow> {
    let asked = |wanted: &Option<String>, is: &str| wanted.as_deref().is_none_or(|wanted| wanted == is);
    let named: Vec<&LegRow> = pool
        .legs
        .iter()
        .filter(|other| asked(&args.against, other.platform.as_str()) && asked(&args.against_run, other.run_id.as_str()))
        .collect();
    if !args.baseline.is_empty() || args.against.is_some() || args.against_run.is_some() {
        return named;
    }
    let (other, same): (Vec<&LegRow>, Vec<&LegRow>) = named.into_iter().partition(|other| other.platform != leg.platform);
    if other.is_empty() { same } else { other }
}
