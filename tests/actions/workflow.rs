//! Whole workflows: jobs in the order of `needs`, a machine for each job and matrix entry, the listing that the service keeps of them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::expression::{Contexts, Status, shown};
use super::files::yaml;
use super::runner::{Fate, Machine, Outside, Scope};
use super::service::Service;

/// What came of a job, or of one leg of a matrix.
#[derive(Debug)]
pub struct Ran {
    pub name: String,
    /// `success`, `failure`, `cancelled`, `skipped`.
    pub result: &'static str,
    pub log: String,
    pub summary: String,
    pub steps: Value,
}

/// Runs a workflow. `fate` says what befalls the machine of a job of this name.
pub fn run(
    path: &Path,
    outside: &Outside,
    service: &Service,
    project: &Path,
    fate: impl Fn(&str) -> Option<&'static str>,
) -> Vec<Ran> {
    let workflow = yaml(path);
    let jobs = workflow["jobs"].as_object().expect("jobs");
    let mut done: BTreeMap<&str, Value> = BTreeMap::new();
    let mut ran = Vec::new();
    while done.len() < jobs.len() {
        let ready =
            jobs.iter().find(|(id, job)| !done.contains_key(id.as_str()) && needs(job).iter().all(|need| done.contains_key(need)));
        let (id, job) = ready.expect("jobs that need each other");
        let of_needs: Value = needs(job).into_iter().map(|need| (need.to_owned(), done[need].clone())).collect();
        let first = ran.len();
        for (index, matrix) in matrix(job, &of_needs).into_iter().enumerate() {
            let place = Place { outside, service, project, id, index, needs: &of_needs, matrix: &matrix };
            let (leg, outputs) = run_one(job, &place, &fate);
            ran.push(leg);
            done.insert(id, json!({"outputs": outputs}));
        }
        let results: Vec<&str> = ran[first..].iter().map(|leg| leg.result).collect();
        let result = ["failure", "cancelled", "success"].into_iter().find(|result| results.contains(result)).unwrap_or("skipped");
        done.get_mut(id.as_str()).expect("the job ran")["result"] = json!(result);
    }
    ran
}

struct Place<'a> {
    outside: &'a Outside,
    service: &'a Service,
    project: &'a Path,
    id: &'a str,
    index: usize,
    needs: &'a Value,
    matrix: &'a Value,
}

fn needs(job: &Value) -> Vec<&str> {
    match &job["needs"] {
        Value::String(one) => vec![one],
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    }
}

fn matrix(job: &Value, needs: &Value) -> Vec<Value> {
    let written = &job["strategy"]["matrix"];
    // A job that will be skipped has no legs: what they would be read from is not there.
    let failed = needs.as_object().into_iter().flatten().any(|(_, need)| need["result"] != json!("success"));
    if written.is_null() || (failed && job["if"].is_null()) {
        return vec![json!({})];
    }
    let contexts = Contexts { values: json!({"needs": needs}), status: Status::Success };
    let matrix = contexts.scalar(written);
    matrix["include"].as_array().cloned().expect("a matrix of include")
}

fn run_one(job: &Value, place: &Place<'_>, fate: &impl Fn(&str) -> Option<&'static str>) -> (Ran, Value) {
    let folder = place.outside.folder.join("machines").join(format!("{}-{}-{}", place.outside.run_id, place.id, place.index));
    let mut machine = Machine::new(place.outside, &folder, Fate::Lives);
    machine.project = Some(place.project.to_owned());
    let mut values = machine.contexts();
    values["needs"] = place.needs.clone();
    values["matrix"] = place.matrix.clone();
    values["strategy"] = json!({"job-index": place.index});
    let mut scope = Scope::new(values, None);
    let name = job["name"].as_str().map_or(place.id.to_owned(), |name| scope.contexts.text(name));
    let worst = place.needs.as_object().into_iter().flatten().any(|(_, need)| need["result"] != json!("success"));
    scope.contexts.status = if worst { Status::Failure } else { Status::Success };
    if !scope.contexts.condition(job.get("if")) {
        let ran = Ran { name, result: "skipped", log: String::new(), summary: String::new(), steps: json!({}) };
        return (ran, json!({}));
    }
    scope.contexts.status = Status::Success;
    if let Some(sign) = fate(&name) {
        machine.fate = Fate::LostAt(machine.workspace.join(sign));
    }
    let started = chrono::Utc::now().to_rfc3339();
    let status = machine.run_steps(job["steps"].as_array().expect("steps"), &mut scope);
    let result = if machine.lost { "failure" } else { status.word() };
    place.service.list(json!({
        "run_id": place.outside.run_id.parse::<u64>().expect("a number"), "run_attempt": place.outside.run_attempt, "name": name,
        "status": "completed", "conclusion": result, "started_at": started, "completed_at": chrono::Utc::now().to_rfc3339(), "steps": scope.listed,
    }));
    let outputs: Value = job["outputs"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(name, value)| (name.clone(), json!(shown(&scope.contexts.scalar(value)))))
        .collect();
    let steps = scope.contexts.values["steps"].clone();
    let ran = Ran { name, result, log: std::mem::take(&mut machine.log), summary: std::mem::take(&mut machine.summary), steps };
    // Nothing of a machine outlives its job.
    let _ = std::fs::remove_dir_all::<PathBuf>(folder);
    (ran, outputs)
}
