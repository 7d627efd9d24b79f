//! What the service's runner does with a job's steps: expressions, environment, the files of step outputs, conclusions, and cancellation by
//! signals to the step's entry process alone. Actions of others are replaced by what they do to the file system.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Map, Value, json};

use super::expression::{Contexts, Status, shown};
use super::files::{package, root, yaml};

/// Nothing here takes longer unless it is broken.
const LIMIT: Duration = Duration::from_secs(120);
/// The runner's own waits after a cancellation: INT, then TERM, then KILL.
const INT_TO_TERM: Duration = Duration::from_millis(7500);
const TERM_TO_KILL: Duration = Duration::from_millis(2500);

/// What befalls the machine, and when.
#[derive(Debug, Clone)]
pub enum Fate {
    Lives,
    /// Somebody cancels the run once this file is there.
    CancelledAt(PathBuf),
    /// The machine is gone once this file is there: no step runs any more, nothing says so.
    LostAt(PathBuf),
}

/// What is outside of every machine.
#[derive(Debug)]
pub struct Outside {
    /// Shared with the test; a sink, artifacts, caches.
    pub folder: PathBuf,
    pub api: String,
    pub run_id: String,
    pub run_attempt: u32,
    pub event_name: String,
    pub event: Value,
    pub vars: Map<String, Value>,
    /// Inputs that the test adds to this project's actions: which binary, and no network.
    pub extra_inputs: BTreeMap<String, String>,
}

pub const TOKEN: &str = "ghs_0123456789abcdef";
pub const REPOSITORY: &str = "someone/project";

/// One machine with a job on it.
#[derive(Debug)]
pub struct Machine<'o> {
    pub outside: &'o Outside,
    pub workspace: PathBuf,
    temp: PathBuf,
    pub fate: Fate,
    cancelled: bool,
    pub lost: bool,
    /// GITHUB_ENV and GITHUB_PATH as the steps so far have filled them.
    environment: BTreeMap<String, String>,
    paths: Vec<String>,
    pub log: String,
    pub summary: String,
    /// Where `actions/checkout` takes the project from.
    pub project: Option<PathBuf>,
    /// From the signal to the end of the step that was cancelled.
    pub cancelling_took: Option<Duration>,
    scripts: u32,
}

/// A list of steps with the contexts that they see.
#[derive(Debug)]
pub struct Scope {
    pub contexts: Contexts,
    /// The folder of a composite action.
    action: Option<PathBuf>,
    /// As the service lists them.
    pub listed: Vec<Value>,
}

impl Scope {
    pub fn new(values: Value, action: Option<PathBuf>) -> Self {
        Self { contexts: Contexts { values, status: Status::Success }, action, listed: Vec::new() }
    }

    pub fn output(&self, step: &str, name: &str) -> String {
        shown(&self.contexts.values["steps"][step]["outputs"][name])
    }
}

struct Ended {
    status: Status,
    outputs: Map<String, Value>,
}

impl<'o> Machine<'o> {
    /// `folder` is new: nothing of another machine is on it.
    pub fn new(outside: &'o Outside, folder: &Path, fate: Fate) -> Self {
        let (workspace, temp) = (folder.join("work"), folder.join("temp"));
        fs::create_dir_all(&workspace).unwrap();
        fs::create_dir_all(&temp).unwrap();
        Self {
            outside,
            workspace,
            temp,
            fate,
            cancelled: false,
            lost: false,
            environment: BTreeMap::new(),
            paths: Vec::new(),
            log: String::new(),
            summary: String::new(),
            project: None,
            cancelling_took: None,
            scripts: 0,
        }
    }

    /// The contexts that every job has.
    pub fn contexts(&self) -> Value {
        let outside = self.outside;
        json!({
            "github": {
                "server_url": "https://github.com", "repository": REPOSITORY, "run_id": outside.run_id,
                "run_attempt": outside.run_attempt.to_string(), "workspace": self.workspace, "token": TOKEN, "event_name": outside.event_name,
                "event": outside.event, "ref_name": "main", "sha": "5ca1ab1e",
            },
            "runner": { "os": if cfg!(target_os = "macos") { "macOS" } else { "Linux" }, "temp": self.temp },
            "vars": outside.vars, "secrets": {}, "env": {}, "steps": {}, "inputs": {}, "needs": {}, "matrix": {}, "strategy": {"job-index": 0},
        })
    }

    pub fn run_steps(&mut self, steps: &[Value], scope: &mut Scope) -> Status {
        for step in steps {
            if self.lost {
                scope.listed.push(json!({"name": name_of(step, scope), "status": "pending", "conclusion": null}));
                continue;
            }
            if self.cancelled {
                scope.contexts.status = Status::Cancelled;
            }
            let name = name_of(step, scope);
            let started = chrono::Utc::now().to_rfc3339();
            if !scope.contexts.condition(step.get("if")) {
                scope.listed.push(json!({"name": name, "status": "completed", "conclusion": "skipped", "started_at": started}));
                continue;
            }
            let ended = self.step(step, scope);
            if self.lost {
                scope.listed.push(json!({"name": name, "status": "in_progress", "conclusion": null, "started_at": started}));
                continue;
            }
            let goes_on = step.get("continue-on-error").is_some_and(|value| scope.contexts.scalar(value) == json!(true));
            let conclusion = if goes_on && ended.status == Status::Failure { Status::Success } else { ended.status };
            if let Some(id) = step["id"].as_str() {
                scope.contexts.values["steps"][id] =
                    json!({"outputs": ended.outputs, "outcome": ended.status.word(), "conclusion": conclusion.word()});
            }
            scope.listed.push(json!({"name": name, "status": "completed", "conclusion": conclusion.word(), "started_at": started}));
            if conclusion != Status::Success && scope.contexts.status == Status::Success {
                scope.contexts.status = conclusion;
            }
        }
        if self.cancelled { Status::Cancelled } else { scope.contexts.status }
    }

    fn step(&mut self, step: &Value, scope: &mut Scope) -> Ended {
        match (step["run"].as_str(), step["uses"].as_str()) {
            (Some(run), None) => self.script(run, step, scope),
            (None, Some(uses)) => {
                let given = step["with"].as_object().into_iter().flatten();
                let given = given.map(|(name, value)| (name.clone(), shown(&scope.contexts.scalar(value)))).collect();
                self.uses(uses, given, scope)
            }
            _ => panic!("a step has either run or uses: {step}"),
        }
    }

    fn uses(&mut self, uses: &str, given: BTreeMap<String, String>, scope: &Scope) -> Ended {
        let (action, version) = uses.split_once('@').unwrap_or_else(|| panic!("{uses}: no version"));
        let ours = package("repository").replace("https://github.com/", "");
        if let Some(path) = action.strip_prefix(ours.as_str()) {
            assert_eq!(version, format!("v{}", package("version")), "{uses}");
            return self.composite(&root().join(path.trim_start_matches('/')), given, &scope.contexts.values);
        }
        let path = |key: &str| self.workspace.join(&given[key]);
        let done = match action {
            "actions/checkout" => self.project.as_ref().is_none_or(|project| copy(project, &self.workspace)),
            "actions/upload-artifact" => {
                let from = path("path");
                !from.exists() || copy(&from, &self.outside.folder.join("artifacts").join(&given["name"]))
            }
            "actions/download-artifact" => {
                let from = self.outside.folder.join("artifacts").join(&given["name"]);
                from.exists() && copy(&from, &path("path"))
            }
            "actions/cache/restore" => true,
            "actions/cache/save" => {
                let caches = self.outside.folder.join("caches");
                fs::create_dir_all(&caches).unwrap();
                fs::write(caches.join(&given["key"]), "").is_ok()
            }
            _ => panic!("no stand-in for {uses}"),
        };
        Ended { status: if done { Status::Success } else { Status::Failure }, outputs: Map::new() }
    }

    fn composite(&mut self, folder: &Path, mut given: BTreeMap<String, String>, outer: &Value) -> Ended {
        let action = yaml(&folder.join("action.yml"));
        let declared = action["inputs"].as_object().expect("inputs");
        for (name, value) in &self.outside.extra_inputs {
            if declared.contains_key(name) {
                given.entry(name.clone()).or_insert_with(|| value.clone());
            }
        }
        let unknown: Vec<_> = given.keys().filter(|name| !declared.contains_key(*name)).collect();
        assert!(unknown.is_empty(), "{}: no such inputs: {unknown:?}", folder.display());
        let mut values = self.contexts();
        values["github"] = outer["github"].clone();
        let defaults = Contexts { values: values.clone(), status: Status::Success };
        for (name, input) in declared {
            assert!(input["required"] != json!(true) || given.contains_key(name), "{}: no {name}", folder.display());
            let default = input.get("default").map(|default| shown(&defaults.scalar(default))).unwrap_or_default();
            values["inputs"][name] = json!(given.get(name).unwrap_or(&default));
        }
        let mut scope = Scope::new(values, Some(folder.to_owned()));
        let steps = action["runs"]["steps"].as_array().expect("steps");
        let status = self.run_steps(steps, &mut scope);
        let mut outputs = Map::new();
        for (name, output) in action["outputs"].as_object().expect("outputs") {
            outputs.insert(name.clone(), scope.contexts.scalar(&output["value"]));
        }
        Ended { status, outputs }
    }

    fn script(&mut self, run: &str, step: &Value, scope: &Scope) -> Ended {
        self.scripts += 1;
        let place = self.temp.join(format!("_runner_{}", self.scripts));
        fs::create_dir_all(&place).unwrap();
        let file = |name: &str| {
            let path = place.join(name);
            fs::write(&path, "").unwrap();
            path
        };
        let [output, env, path, summary, log] = ["output", "env", "path", "summary", "log"].map(file);
        let script = place.join("script.sh");
        fs::write(&script, scope.contexts.text(run)).unwrap();
        let mut command = Command::new("bash");
        match step["shell"].as_str() {
            Some("bash") => command.args(["--noprofile", "--norc", "-e", "-o", "pipefail"]),
            None if scope.action.is_none() => command.arg("-e"),
            other => panic!("shell {other:?} in {step}"),
        };
        command.arg(&script).env_clear().envs(self.base_environment()).envs(&self.environment);
        command
            .env("GITHUB_OUTPUT", &output)
            .env("GITHUB_ENV", &env)
            .env("GITHUB_PATH", &path)
            .env("GITHUB_STEP_SUMMARY", &summary);
        if let Some(action) = &scope.action {
            command.env("GITHUB_ACTION_PATH", action);
        }
        for (name, value) in step["env"].as_object().into_iter().flatten() {
            command.env(name, shown(&scope.contexts.scalar(value)));
        }
        let folder = step["working-directory"].as_str().map(|folder| scope.contexts.text(folder)).unwrap_or_default();
        let log_file = fs::File::create(&log).unwrap();
        command.current_dir(self.workspace.join(folder)).stdin(Stdio::null());
        command.stdout(log_file.try_clone().unwrap()).stderr(log_file);
        let status = self.wait(command.spawn().expect("bash"));
        let text = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap()).into_owned();
        self.log.push_str(&text(&log));
        self.summary.push_str(&text(&summary));
        self.environment.extend(pairs(&text(&env)).into_iter().map(|(name, value)| (name, shown(&value))));
        self.paths.extend(text(&path).lines().map(str::to_owned));
        Ended { status, outputs: pairs(&text(&output)).into_iter().collect() }
    }

    fn base_environment(&self) -> Vec<(String, String)> {
        let path = std::env::var("PATH").unwrap_or_default();
        let paths: Vec<&str> = self.paths.iter().rev().map(String::as_str).chain([path.as_str()]).collect();
        let outside = self.outside;
        let attempt = outside.run_attempt.to_string();
        let pairs: [(&str, &str); 14] = [
            ("PATH", &paths.join(":")),
            ("HOME", &self.temp.to_string_lossy()),
            ("CI", "true"),
            ("GITHUB_ACTIONS", "true"),
            ("GITHUB_API_URL", &outside.api),
            ("GITHUB_REPOSITORY", REPOSITORY),
            ("GITHUB_RUN_ID", &outside.run_id),
            ("GITHUB_RUN_ATTEMPT", &attempt),
            ("GITHUB_SHA", "5ca1ab1e"),
            ("GITHUB_EVENT_NAME", &outside.event_name),
            ("GITHUB_WORKSPACE", &self.workspace.to_string_lossy()),
            ("RUNNER_TEMP", &self.temp.to_string_lossy()),
            ("RUNNER_OS", "Linux"),
            ("TMPDIR", &self.temp.to_string_lossy()),
        ];
        pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
    }

    /// Waits for the entry process, and signals it alone.
    fn wait(&mut self, mut child: Child) -> Status {
        let pid = Pid::from_child(&child);
        let began = Instant::now();
        let mut told: Option<Instant> = None;
        let mut signals =
            vec![(TERM_TO_KILL + INT_TO_TERM, Signal::KILL), (INT_TO_TERM, Signal::TERM), (Duration::ZERO, Signal::INT)];
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                self.cancelling_took = told.map(|told| told.elapsed()).or(self.cancelling_took);
                return match (self.cancelled && told.is_some(), status.success()) {
                    (true, _) => Status::Cancelled,
                    (false, true) => Status::Success,
                    (false, false) => Status::Failure,
                };
            }
            match &self.fate {
                Fate::LostAt(sign) if sign.exists() => {
                    kill_process(pid, Signal::KILL).unwrap();
                    child.wait().unwrap();
                    self.lost = true;
                    return Status::Failure;
                }
                Fate::CancelledAt(sign) if sign.exists() && !self.cancelled => {
                    self.cancelled = true;
                    told = Some(Instant::now());
                }
                _ => {}
            }
            if let (Some(told), Some((after, signal))) = (told, signals.last())
                && told.elapsed() >= *after
            {
                kill_process(pid, *signal).unwrap();
                signals.pop();
            }
            if began.elapsed() > LIMIT {
                child.kill().unwrap();
                panic!("a step has not ended in {LIMIT:?}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

fn name_of(step: &Value, scope: &Scope) -> String {
    let written = step["name"].as_str().map(|name| scope.contexts.text(name));
    written.unwrap_or_else(|| {
        format!("Run {}", step["uses"].as_str().or(step["run"].as_str()).unwrap_or_default().lines().next().unwrap_or_default())
    })
}

/// `name=value` and `name<<end` of GITHUB_OUTPUT and GITHUB_ENV.
fn pairs(text: &str) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        match (line.split_once('='), line.split_once("<<")) {
            (plain, Some((name, end))) if plain.is_none_or(|(key, _)| key.len() > name.len()) => {
                let value: Vec<&str> = lines.by_ref().take_while(|line| *line != end).collect();
                found.push((name.to_owned(), json!(value.join("\n"))));
            }
            (Some((name, value)), _) => found.push((name.to_owned(), json!(value))),
            _ => assert!(line.is_empty(), "the runner would refuse this output: {line}"),
        }
    }
    found
}

/// Copies a folder's content.
fn copy(from: &Path, to: &Path) -> bool {
    fs::create_dir_all(to).unwrap();
    Command::new("cp").arg("-R").arg(from.join(".")).arg(to).status().is_ok_and(|status| status.success())
}
