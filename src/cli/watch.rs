//! `ledger watch`

use std::collections::HashMap;
use std::time::Duration;

use clap::Args;

use super::asked::{LegArgs, summarise};
use super::{Failure, World, print};
use crate::core::outcome::Terminal as TerminalClass;
use crate::core::row::Summary;
use crate::host::{clock, terminal};
use crate::report::style::Style;
use crate::report::watch::{State, screen};
use crate::source::{self, Found};

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
}

/// Between two looks at this machine, and at a sink, which counts requests.
const LOCAL: Duration = Duration::from_secs(1);
const REMOTE: Duration = Duration::from_secs(5);

pub fn run(args: &WatchArgs, world: &World) -> Result<i32, Failure> {
    let style = world.terminal.stdout;
    let redraws = world.terminal.stdout_is_terminal && world.environment.get("TERM") != Some("dumb");
    let pause = if source::is_sink(&args.source) { REMOTE } else { LOCAL };
    let mut view = View { drawn: 0, said: HashMap::new() };
    loop {
        let summary = look(args, world)?;
        if redraws {
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
}

impl View {
    fn redraw(&mut self, summary: &Summary, style: Style) -> Result<(), Failure> {
        let lines = screen(summary, clock::now().wall, style);
        let up = if self.drawn > 0 { format!("\u{1b}[{}F", self.drawn) } else { String::new() };
        self.drawn = lines.len();
        // Each line is cleared as it is drawn: a screen that is cleared whole flickers.
        let text: String = lines.iter().map(|line| format!("{line}\u{1b}[K\n")).collect();
        print(&format!("{up}{text}\u{1b}[J"))
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
