//! Not tests: programs that the other tests start.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Longer than any test waits.
const LONG: Duration = Duration::from_secs(300);

/// This program.
pub fn own() -> PathBuf {
    std::env::current_exe().unwrap()
}

/// The words after the program that let it play a file, whose path comes last.
pub const PLAY: [&str; 4] = ["windows::children::plays", "--exact", "--ignored", "--nocapture"];

const SLEEP: [&str; 3] = ["windows::children::sleeps", "--exact", "--ignored"];

/// A process that sleeps and holds nobody's pipes.
pub fn sleeper(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(SLEEP).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
#[ignore = "played by other tests"]
fn sleeps() {
    std::thread::sleep(LONG);
}

/// Does what the lines of the file say: `print WORDS`, `flood KIB`, `exit CODE`, `background`, `tree DEPTH`, `touch FILE`, `await FILE`,
/// `breaks`, `hang`.
#[test]
#[ignore = "played by other tests"]
fn plays() {
    let script = std::env::args_os().next_back().unwrap();
    for line in std::fs::read_to_string(script).unwrap().lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word {
            "print" => println!("{rest}"),
            "flood" => print!("{}", "0123456789abcde\n".repeat(64 * rest.parse::<usize>().unwrap())),
            "exit" => std::process::exit(rest.parse::<i64>().unwrap() as i32),
            "background" => note(sleeper(&own()).spawn().unwrap().id()),
            "tree" => grow(rest.parse().unwrap()),
            "touch" => std::fs::write(rest, "\n").unwrap(),
            "await" => wait_for(Path::new(rest)),
            "breaks" => count_breaks(),
            "hang" => std::thread::sleep(LONG),
            other => panic!("no such word: {other}"),
        }
    }
}

/// A chain of children, each the parent of the next; all of them sleep.
fn grow(depth: u32) {
    note(std::process::id());
    if depth > 0 {
        let script = PathBuf::from(format!("tree-{depth}"));
        std::fs::write(&script, format!("tree {}\nhang\n", depth - 1)).unwrap();
        let mut command = Command::new(own());
        command.args(PLAY).arg(script).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    }
}

/// One number per file, so that nobody reads half a line.
fn note(pid: u32) {
    std::fs::write(format!("pid-{pid}.part"), "").unwrap();
    std::fs::rename(format!("pid-{pid}.part"), format!("pid-{pid}")).unwrap();
}

/// The numbers that were noted in a folder.
pub fn noted(folder: &Path) -> Vec<u32> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_prefix("pid-")?.parse().ok()).collect()
}

/// Counts in the file `beats` meanwhile, so that others see whether it runs.
fn wait_for(file: &Path) {
    for beat in 0_u64.. {
        if file.exists() {
            return;
        }
        std::fs::write("beats", beat.to_string()).unwrap();
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Counts every Ctrl-Break in the file `breaks`, and does not end.
fn count_breaks() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut breaks = tokio::signal::windows::ctrl_break().unwrap();
        for count in 0_u64.. {
            std::fs::write("breaks", count.to_string()).unwrap();
            breaks.recv().await;
        }
    });
}
