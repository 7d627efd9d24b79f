//! `ledger schema`

use clap::Args;

use super::{Failure, print};

/// Print the JSON Schemas of events, markers and reports
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Print only this one; without it all are listed by name
    name: Option<String>,
}

pub fn run(args: &SchemaArgs) -> Result<i32, Failure> {
    let schemas = crate::core::schema::all();
    let Some(name) = &args.name else {
        let names: String = schemas.iter().map(|(name, _)| format!("{name}\n")).collect();
        print(&names)?;
        return Ok(0);
    };
    let wanted = name.trim_end_matches(".schema.json");
    match schemas.iter().find(|(name, _)| name.trim_end_matches(".schema.json") == wanted) {
        Some((_, text)) => {
            print(text)?;
            Ok(0)
        }
        None => Err(Failure::usage(format!("there is no schema '{name}'")).hint("`ledger schema` lists them")),
    }
}
