//! How text looks where it goes: colour, width and glyphs, out of the flags, the environment and what stands behind a stream.

use std::ffi::OsString;
use std::io::IsTerminal as _;

use clap::ValueEnum;

use crate::report::style::{Colour, Glyphs, Style};
use crate::settings::Environment;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ColorArg {
    Auto,
    Always,
    Never,
}

/// The two streams of this process.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    pub stdout: Style,
    pub stderr: Style,
    pub stdout_is_terminal: bool,
}

/// What `--color` says on a command line that may be wrong otherwise. Behind `--` it is somebody else's.
pub fn asked_for(arguments: impl IntoIterator<Item = OsString>) -> ColorArg {
    let words = arguments.into_iter().map(|word| word.to_string_lossy().into_owned()).take_while(|word| word != "--");
    let words: Vec<String> = words.collect();
    let value = |at: usize, word: &str| match word.strip_prefix("--color") {
        Some("") => words.get(at + 1).cloned(),
        Some(rest) => rest.strip_prefix('=').map(str::to_owned),
        None => None,
    };
    let values = words.iter().enumerate().filter_map(|(at, word)| value(at, word));
    values.filter_map(|value| ColorArg::from_str(&value, false).ok()).next_back().unwrap_or(ColorArg::Auto)
}

impl Terminal {
    pub fn of_process(color: ColorArg, env: &Environment) -> Self {
        let (stdout, stderr) = (std::io::stdout().is_terminal(), std::io::stderr().is_terminal());
        Self { stdout: style(color, env, stdout), stderr: style(color, env, stderr), stdout_is_terminal: stdout }
    }
}

fn style(color: ColorArg, env: &Environment, is_terminal: bool) -> Style {
    let dumb = env.get("TERM") == Some("dumb");
    let on = match color {
        ColorArg::Always => true,
        ColorArg::Never => false,
        ColorArg::Auto if env.get("NO_COLOR").is_some() => false,
        ColorArg::Auto if env.is_true("CLICOLOR_FORCE") || env.is_true("FORCE_COLOR") => true,
        ColorArg::Auto => is_terminal && !dumb && env.get("CLICOLOR") != Some("0"),
    };
    let utf8 = env
        .first(&["LC_ALL", "LC_CTYPE", "LANG"])
        .is_some_and(|locale| locale.to_ascii_lowercase().replace('-', "").contains("utf8"));
    // Logs and pages are read as UTF-8; a terminal says what it can show.
    let unicode = !is_terminal || utf8 || cfg!(target_os = "macos");
    Style {
        width: width(env, is_terminal),
        colour: if on { Colour::On } else { Colour::Off },
        glyphs: if unicode && !dumb { Glyphs::Unicode } else { Glyphs::Ascii },
    }
}

/// Files and pipes have no width of their own; this one suits a log and a mail.
const NO_TERMINAL: u16 = 120;

fn width(env: &Environment, is_terminal: bool) -> u16 {
    if let Some(columns) = env.get("COLUMNS").and_then(|text| text.parse().ok()) {
        return columns;
    }
    if is_terminal { crate::host::terminal::width().unwrap_or(80) } else { NO_TERMINAL }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_found_on_a_command_line_that_is_wrong() {
        let table: &[(&[&str], ColorArg)] = &[
            (&["ledger", "--color", "always", "nosuch"], ColorArg::Always),
            (&["ledger", "run", "--color=never", "--help"], ColorArg::Never),
            (&["ledger", "run", "a", "--", "x", "--color", "always"], ColorArg::Auto),
            (&["ledger", "--color"], ColorArg::Auto),
            (&["ledger", "--colors=always", "--color=pink"], ColorArg::Auto),
        ];
        for (words, expect) in table {
            assert_eq!(asked_for(words.iter().map(OsString::from)), *expect, "{words:?}");
        }
    }

    #[test]
    fn the_flag_beats_no_color_and_no_color_beats_force() {
        let table = [
            (ColorArg::Auto, Environment::of([]), false, Colour::Off),
            (ColorArg::Auto, Environment::of([]), true, Colour::On),
            (ColorArg::Auto, Environment::of([("NO_COLOR", "1")]), true, Colour::Off),
            (ColorArg::Auto, Environment::of([("NO_COLOR", ""), ("FORCE_COLOR", "1")]), false, Colour::On),
            (ColorArg::Auto, Environment::of([("NO_COLOR", "1"), ("FORCE_COLOR", "1")]), true, Colour::Off),
            (ColorArg::Auto, Environment::of([("CLICOLOR_FORCE", "1")]), false, Colour::On),
            (ColorArg::Auto, Environment::of([("TERM", "dumb")]), true, Colour::Off),
            (ColorArg::Always, Environment::of([("NO_COLOR", "1")]), false, Colour::On),
            (ColorArg::Never, Environment::of([("FORCE_COLOR", "1")]), true, Colour::Off),
        ];
        for (flag, env, is_terminal, expect) in table {
            assert_eq!(style(flag, &env, is_terminal).colour, expect, "{flag:?} {env:?} {is_terminal}");
        }
    }
}
