//! `ledger schema`

use clap::Args;

use super::{Failure, print};
use crate::core::schema;

/// Print the JSON Schemas of events, markers and reports
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Print only this one; without it all are listed by name
    name: Option<String>,

    /// One JSON document: the names as a list, or the one schema, which is JSON anyway
    #[arg(long)]
    json: bool,
}

pub fn run(args: &SchemaArgs) -> Result<i32, Failure> {
    let schemas = schema::documents();
    let Some(name) = &args.name else {
        if args.json {
            let names: Vec<_> = schemas.iter().map(|document| document.name).collect();
            let document = serde_json::json!({ "v": 1, "schemas": names });
            print(&format!("{document:#}\n"))?;
            return Ok(0);
        }
        let names: String = schemas.iter().map(|document| format!("{}\n", document.name)).collect();
        print(&names)?;
        return Ok(0);
    };
    let wanted = name.trim_end_matches(".schema.json");
    match schemas.iter().find(|document| document.name == wanted) {
        Some(document) => {
            print(&document.text)?;
            Ok(0)
        }
        None => Err(Failure::usage(format!("there is no schema '{name}'")).hint("`ledger schema` lists them")),
    }
}
