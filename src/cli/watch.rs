//! `ledger watch`

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;

use super::asked::{LegArgs, summarise};
use super::{Failure, World, print};
use crate::core::moment::{Secs, Wall};
use crate::core::outcome::Terminal as TerminalClass;
use crate::core::row::{LegRow, Summary};
use crate::host::{clock, terminal};
use crate::report::style::Style;
use crate::report::watch::{State, screen};
use crate::sink;
use crate::source::Found;

/// Follow live legs, from this machine or from a sink
///
/// Ends when none of them runs any more. On a terminal the view is drawn again and again; elsewhere each change is a line.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  ledger watch
  ledger watch s3://evidence/ledger --run-id 36531
  ledger watch --platform macos-x86 | tee watched.log")]
pub struct WatchArgs {
    /// A ledger folder, a database, or a sink URL
    #[arg(default_value = ".ledger")]
    source: String,

    #[command(flatten)]
    legs: LegArgs,

    /// A line for each change, also on a terminal
    #[arg(long)]
    plain: bool,

    /// A JSON object for each look at each leg that changed, one a line
    #[arg(long, conflicts_with = "plain")]
    json: bool,
}

/// Between two looks at this machine; a sink may want more.
const LOCAL: Duration = Duration::from_secs(1);

pub fn run(args: &WatchArgs, world: &World) -> Result<i32, Failure> {
    let style = world.terminal.stdout;
    let redraws = !args.plain && !args.json && world.terminal.stdout_is_terminal && world.environment.get("TERM") != Some("dumb");
    let pause = sink::look_again(&args.source).max(LOCAL);
    let mut view = View { drawn: 0, said: HashMap::new(), told: HashMap::new() };
    loop {
        let summary = look(args, world)?;
        if args.json {
            view.tell_changes(&summary)?;
        } else if redraws {
            // Asked each time: a terminal may have been resized.
            view.redraw(&summary, Style { width: terminal::width().unwrap_or(style.width), ..style })?;
        } else {
            view.say_changes(&summary, style)?;
        }
        if !summary.legs.iter().any(|leg| leg.terminal == TerminalClass::Running) {
            return Ok(0);
        }
        std::thread::sleep(pause);
    }
}

fn look(args: &WatchArgs, world: &World) -> Result<Summary, Failure> {
    let question = args.legs.question(world, clock::now().wall);
    let summary = summarise(std::slice::from_ref(&args.source), &question, Found::default())?;
    if summary.legs.is_empty() {
        return Err(
            Failure::usage(format!("{}: there is no leg to follow", args.source)).hint("`ledger report` says what there is")
        );
    }
    Ok(summary)
}

struct View {
    /// Lines of the last screen, to draw over.
    drawn: usize,
    said: HashMap<String, State>,
    /// What was told of a leg last: how far it was, and its class.
    told: HashMap<String, Told>,
}

type Told = (Option<u64>, Option<u64>, TerminalClass);

impl View {
    fn redraw(&mut self, summary: &Summary, style: Style) -> Result<(), Failure> {
        let lines = screen(summary, clock::now().wall, style);
        let up = if self.drawn > 0 { format!("\u{1b}[{}F", self.drawn) } else { String::new() };
        self.drawn = lines.len();
        // Each line is cleared as it is drawn: a screen that is cleared whole flickers.
        let text: String = lines.iter().map(|line| format!("{line}\u{1b}[K\n")).collect();
        print(&format!("{up}{text}\u{1b}[J"))
    }

    fn tell_changes(&mut self, summary: &Summary) -> Result<(), Failure> {
        let now = clock::now().wall;
        for leg in &summary.legs {
            let told = (leg.progress_seq, leg.heartbeat_seq, leg.terminal);
            if self.told.insert(format!("{} {:?}", leg.leg(), leg.epoch), told) != Some(told) {
                print(&format!("{}\n", line(leg, now)))?;
            }
        }
        Ok(())
    }

    fn say_changes(&mut self, summary: &Summary, style: Style) -> Result<(), Failure> {
        let now = clock::now().wall;
        for leg in &summary.legs {
            let state = State::of(summary, leg, now, style);
            let key = format!("{} {:?}", leg.leg(), leg.epoch);
            if state.changed_from(self.said.get(&key)) {
                print(&format!("{now} {}\n", state.line))?;
                self.said.insert(key, state);
            }
        }
        Ok(())
    }
}

/// One look at a leg. Times that need both machines' clocks are counted by the reader's; the lease was judged by the sink's.
fn line(leg: &LegRow, now: Wall) -> serde_json::Value {
    let current = leg.files.iter().find(|file| file.outcome.is_none() && file.started_at.is_some());
    let elapsed = current.and_then(|file| file.started_at).map(|started| now.since(started));
    serde_json::json!({
        "v": 1, "ts": now, "run_id": leg.run_id, "attempt": leg.attempt, "platform": leg.platform, "target": leg.target,
        "shard": leg.shard, "epoch": leg.epoch, "terminal": leg.terminal, "conclusion": leg.conclusion, "why": leg.why,
        "files_planned": leg.files_planned, "files_reported": leg.files_reported, "files_failed": leg.files_failed,
        "last_file": leg.last_file, "current_file": leg.current_file, "elapsed_s": elapsed,
        "cap_s": current.and_then(|file| file.cap_s), "eta_s": left(leg, elapsed), "last_heartbeat_ts": leg.last_heartbeat_ts,
        "heartbeat_age_s": leg.last_heartbeat_ts.map(|beat| now.since(beat)), "progress_seq": leg.progress_seq,
        "heartbeat_seq": leg.heartbeat_seq, "lease_s": leg.lease_s, "last_host": leg.last_host, "last_output": leg.last_output,
    })
}

/// What is left, if the other files take as long as those that have run. `null` before the first.
fn left(leg: &LegRow, elapsed: Option<Secs>) -> Option<Secs> {
    let took: Vec<u64> = leg.files.iter().filter_map(|file| Some(file.duration_s?.millis())).collect();
    let mean = took.iter().sum::<u64>().checked_div(took.len() as u64)?;
    let open = u64::from(leg.files_planned?.saturating_sub(leg.files_reported));
    Some(Secs::from_millis((mean * open).saturating_sub(elapsed.map_or(0, |elapsed| elapsed.millis().min(mean)))))
}
