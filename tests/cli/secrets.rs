//! What must not leave the machine: masked values in every report, and what stands where secrets stand.

use crate::support::World;

const FORMATS: [&str; 8] = ["table", "json", "ndjson", "markdown", "html", "junit", "ctrf", "trace"];

#[test]
fn no_report_puts_a_value_together_again() {
    let script = "printf '\\033[31m%s\\033[0m%s\\n' \"${MY_API_TOKEN%????????}\" \"${MY_API_TOKEN#????????}\"\n\
                  printf '%s\\033]0;t\\007%s\\n' \"${MY_API_TOKEN%????????}\" \"${MY_API_TOKEN#????????}\"\nexit 1";
    let world = World::with(&[("a.sh", script)]);
    let token = "tok0123456789abc";
    let mut command = world.ledger(["run", "--sink", &world.sink(), "a.sh", "--", "sh"]);
    command.env("MY_API_TOKEN", token);
    world.finish(command).expect(1);
    let halves = [&token[..8], &token[8..]];
    for source in [".ledger".to_owned(), world.sink()] {
        for format in FORMATS {
            let shown = world.run(["report", &source, "--format", format]).out();
            assert!(halves.iter().all(|half| !shown.contains(half)), "{format}: {shown}");
        }
    }
    let logs = crate::support::files_below(&world.join(".ledger"), "log");
    let log = std::fs::read_to_string(&logs[0]).unwrap();
    assert!(log.contains("***") && halves.iter().all(|half| !log.contains(half)), "{log}");
}

#[test]
fn a_secret_that_no_variable_holds_is_known_by_its_place() {
    let script = "setsid sh -c 'sleep 1000; :' sh --password=hunter2 --token 'ab cd' https://bob:pw77@h/x?token=qq11 'Authorization: Bearer zz99' &\n\
                  echo connecting to postgres://app:s3kr1t@db\nexit 1";
    let world = World::with(&[("a.sh", script)]);
    let ran = world.run(["run", "--sink", &world.sink(), "a.sh", "--", "sh", "{file}", "--api-key", "kk55"]);
    ran.expect(1);
    let hidden = ["hunter2", "ab cd", "pw77", "qq11", "zz99", "s3kr1t", "kk55"];
    for source in [".ledger".to_owned(), world.sink()] {
        let leg = world.only_leg([&source]);
        let argv = leg["files"][0]["leftovers"][0]["argv"].as_str().unwrap();
        assert!(argv.contains("--password=*** --token *** https://bob:***@h/x?token=***"), "{argv}");
        for format in FORMATS {
            let shown = world.run(["report", &source, "--format", format]).out();
            assert!(hidden.iter().all(|secret| !shown.contains(secret)), "{format}: {shown}");
        }
    }
    let stored = crate::support::files_below(&world.join("sink"), "ndjson");
    let stored: String = stored.iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    assert!(hidden.iter().all(|secret| !stored.contains(secret)), "{stored}");
}
