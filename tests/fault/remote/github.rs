//! `github:` against a service that goes wrong: CASES 34, 35, 37, 38, 42.

use std::time::Duration;

use axum::http::Method;
use ci_ledger::core::ids::{Epoch, RunId, Seq};
use ci_ledger::core::marker::{Described, Marker};
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::sink::{self, Backend, Closing, Narrow, SinkContext, SinkError, Trouble, service_jobs};
use serde_json::{Value, json};

use super::fake_github::{FakeGithub, Fault};
use super::{batch, context, marker};

fn open(url: &str, context: &SinkContext) -> Box<dyn Backend> {
    sink::open(url, context).unwrap()
}

fn payload(check: &Value) -> Marker {
    let text = check["output"]["text"].as_str().unwrap();
    serde_json::from_str(text.strip_prefix("```json\n").unwrap().strip_suffix("\n```\n").unwrap()).unwrap()
}

fn narrow(fake: &FakeGithub) -> Narrow {
    Narrow { variables: fake.variables(), ..Narrow::default() }
}

#[tokio::test]
async fn one_check_run_per_leg_is_made_changed_and_closed() {
    let fake = FakeGithub::start().await;
    let context = context(&fake.variables());
    let mut sink = open("github:", &context);
    assert_eq!(sink.position().await.unwrap(), Seq(0));
    for seq in 1..=3 {
        sink.send(&batch(&context, seq..=seq)).await.unwrap();
    }
    let mut last = batch(&context, 4..=4);
    last.marker = marker(&context, 4, true).render(60_000);
    sink.send(&last).await.unwrap();
    {
        let held = fake.held.lock().unwrap();
        assert_eq!(held.checks.len(), 1);
        let first = &held.bodies[0];
        assert_eq!(
            (&first["name"], &first["external_id"]),
            (&json!("leg: macos x86/é · stable"), &json!("77/1/macos x86/é/stable"))
        );
        assert_eq!((&first["status"], &first["conclusion"]), (&json!("completed"), &json!("neutral")));
        let end = &held.checks[0];
        assert_eq!((&end["status"], &end["conclusion"]), (&json!("completed"), &json!("success")));
        assert_eq!(payload(end), marker(&context, 4, true));
    }
    assert_eq!((fake.count(&Method::GET), fake.count(&Method::POST), fake.count(&Method::PATCH)), (1, 1, 3));
    let found = sink::open_source("github:", &fake.variables()).unwrap().legs(&narrow(&fake), Wall(0)).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].marker.as_ref().unwrap().age < Secs::from_secs(30));
}

#[tokio::test]
async fn an_open_check_run_is_open_until_its_end() {
    let fake = FakeGithub::start().await;
    let context = context(&fake.variables());
    let mut sink = open("github:?state=in-progress&sha=def", &context);
    sink.position().await.unwrap();
    sink.send(&batch(&context, 1..=1)).await.unwrap();
    {
        let held = fake.held.lock().unwrap();
        assert_eq!((&held.checks[0]["status"], &held.checks[0]["head_sha"]), (&json!("in_progress"), &json!("def")));
        assert!(held.checks[0]["conclusion"].is_null());
    }
    // This writer's clock is years slow, and the service dates no check run that is open: the age is by the service's clock all the same.
    let source = sink::open_source("github:?sha=def", &fake.variables()).unwrap();
    let found = source.legs(&narrow(&fake), Wall(0)).await.unwrap();
    assert!(found[0].marker.as_ref().unwrap().age < Secs::from_secs(30), "{:?}", found[0].marker.as_ref().unwrap().age);
}

#[tokio::test]
async fn a_lost_answer_to_the_first_write_makes_no_second_check_run() {
    let fake = FakeGithub::start().await;
    let context = context(&fake.variables());
    let mut sink = open("github:", &context);
    sink.position().await.unwrap();
    fake.goes_wrong(|_, method| (method == Method::POST).then_some(Fault::HalfAnswer));
    assert!(sink.send(&batch(&context, 1..=1)).await.is_err());
    assert_eq!(sink.position().await.unwrap(), Seq(1), "found again by name, external id and epoch");
    sink.send(&batch(&context, 2..=2)).await.unwrap();
    let held = fake.held.lock().unwrap();
    assert_eq!(held.checks.len(), 1);
    assert_eq!(payload(&held.checks[0]).row.head.unwrap().seq, Seq(2));
}

#[tokio::test]
async fn another_epoch_of_the_same_leg_and_another_attempt_have_check_runs_of_their_own() {
    let fake = FakeGithub::start().await;
    let first = context(&fake.variables());
    let mut second = first.clone();
    second.epoch = Epoch::parse("01990000-0000-7000-8000-000000000002").unwrap();
    let mut third = second.clone();
    third.leg.attempt = "2".into();
    for context in [&first, &second, &third, &first] {
        let mut sink = open("github:", context);
        sink.position().await.unwrap();
        sink.send(&batch(context, 5..=5)).await.unwrap();
    }
    assert_eq!(fake.held.lock().unwrap().checks.len(), 3);
    let source = sink::open_source("github:", &fake.variables()).unwrap();
    let all = source.legs(&narrow(&fake), Wall(0)).await.unwrap();
    assert_eq!(all.len(), 3);
    let asked = Narrow { attempt: Some("2".into()), ..narrow(&fake) };
    assert_eq!(source.legs(&asked, Wall(0)).await.unwrap().len(), 1);
}

/// Every refusal, what it comes to, and a word that must be in it.
#[tokio::test]
async fn refusals_are_told_apart_and_no_token_is_told() {
    use Trouble::Retryable;
    let fake = FakeGithub::start().await;
    let after = |seconds: u64| Retryable { after: Some(Duration::from_secs(seconds)) };
    let headers =
        |pairs: &[(&'static str, &str)]| pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect::<Vec<_>>();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let reset = (now + 120).to_string();
    let cases: Vec<(u16, Vec<(&'static str, String)>, &'static str, Trouble, &str)> = vec![
        (401, vec![], "Bad credentials ghs_0123456789abcdef", after(900), "GITHUB_TOKEN is wrong"),
        (403, vec![], "Resource not accessible by integration", after(900), "checks: write"),
        (403, headers(&[("retry-after", "7")]), "secondary rate limit", after(7), "limits requests"),
        (403, vec![], "You have exceeded a secondary rate limit", after(60), "limits requests"),
        (403, headers(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", &reset)]), "API rate limit", after(120), "limits"),
        (429, vec![], "slow down", after(60), "limits requests"),
        (429, headers(&[("retry-after", "3")]), "slow down", after(3), "limits requests"),
        (404, vec![], "Not Found", after(900), "GITHUB_REPOSITORY"),
        (422, vec![], "No commit found for SHA: abc", after(900), "github:?sha="),
        (409, vec![], "Conflict", Retryable { after: None }, "409"),
        (500, vec![], "oops", Retryable { after: None }, "500"),
        (502, vec![], "bad gateway", Retryable { after: None }, "502"),
        (301, vec![], "Moved", after(900), "elsewhere"),
    ];
    for (status, headers, message, trouble, word) in cases {
        let context = context(&fake.variables());
        let mut sink = open("github:", &context);
        fake.goes_wrong(|_, _| None);
        sink.position().await.unwrap();
        fake.goes_wrong(move |_, method| (method == Method::POST).then(|| Fault::Answer(status, headers.clone(), message)));
        let error = sink.send(&batch(&context, 1..=1)).await.unwrap_err();
        let near = match (error.trouble, trouble) {
            // A time that was counted from the start of the test is nearer by now.
            (Retryable { after: Some(got) }, Retryable { after: Some(want) }) => {
                got <= want && got + Duration::from_secs(60) > want
            }
            (got, want) => got == want,
        };
        assert!(near && error.detail.contains(word), "{status}: {error:?}");
        assert!(!format!("{error:?}").contains("ghs_"), "{error:?}");
    }
    let unset = sink::Variables::of([("GITHUB_REPOSITORY", "o/r")]);
    let error: SinkError = open("github:", &context(&unset)).position().await.unwrap_err();
    assert!(error.detail.contains("GITHUB_TOKEN is not set"), "{error}");
}

#[tokio::test]
async fn a_text_at_the_limit_is_cut_as_the_service_counts_with_the_newest_kept() {
    let fake = FakeGithub::start().await;
    let context = context(&fake.variables());
    let mut whole = marker(&context, 1, false);
    for index in 1..=400 {
        let mut file = ci_ledger::core::row::FileRow::not_run(index, 1, format!("test/{}-{index}.ts", "é漢".repeat(30)), None);
        file.outcome = Some(ci_ledger::core::outcome::Outcome::Pass);
        whole.row.files.push(file);
    }
    for limit in [65_535, 20_000] {
        fake.held.lock().unwrap().text_limit = limit;
        let mut sink = open("github:", &context);
        sink.position().await.unwrap();
        let budget = sink.capabilities().marker_bytes;
        let full = ci_ledger::sink::Batch { events: Vec::new(), marker: whole.render(budget) };
        sink.send(&full).await.unwrap();
        let held = fake.held.lock().unwrap();
        let read = payload(held.checks.last().unwrap());
        assert_eq!(read.row.current_file, whole.row.current_file);
        assert_eq!(read.row.files.last(), whole.row.files.last(), "the newest is kept");
        assert!(read.files_omitted > 0 && usize::try_from(read.files_omitted).unwrap() + read.row.files.len() == 400);
    }
}

#[tokio::test]
async fn closing_is_a_fixed_point_and_the_payload_stays_byte_for_byte() {
    for url in ["github:", "github:?state=in-progress"] {
        let fake = FakeGithub::start().await;
        let context = context(&fake.variables());
        let mut sink = open(url, &context);
        sink.position().await.unwrap();
        sink.send(&batch(&context, 3..=3)).await.unwrap();
        let before = fake.held.lock().unwrap().checks[0].clone();
        let source = sink::open_source("github:", &fake.variables()).unwrap();
        let found = source.legs(&narrow(&fake), Wall(0)).await.unwrap().remove(0);
        let verdict = Described { title: "runner-lost in file-3.test".into(), summary: "**runner-lost**".into() };
        for round in 0..5 {
            let expected = if round == 0 { Closing::Closed } else { Closing::ClosedAlready };
            assert_eq!(source.close(&found, &verdict).await.unwrap(), expected, "{url} round {round}");
        }
        let after = fake.held.lock().unwrap().checks[0].clone();
        assert_eq!(after["output"]["text"], before["output"]["text"]);
        assert_eq!((&after["status"], &after["conclusion"]), (&json!("completed"), &json!("neutral")));
        assert_eq!(after["output"]["title"], json!("runner-lost in file-3.test"));
        if before["completed_at"].is_string() {
            assert_eq!(after["completed_at"], before["completed_at"], "a closing is no sign of life");
        }
        // A writer that returns goes on, and its own end wins.
        let mut last = batch(&context, 4..=4);
        last.marker = marker(&context, 4, true).render(60_000);
        sink.send(&last).await.unwrap();
        assert_eq!(source.close(&found, &verdict).await.unwrap(), Closing::ClosedAlready);
        assert_eq!(fake.held.lock().unwrap().checks[0]["conclusion"], json!("success"));
    }
}

#[tokio::test]
async fn check_runs_jobs_and_annotations_come_in_pages() {
    let fake = FakeGithub::start().await;
    let made = context(&fake.variables());
    let mut sink = open("github:", &made);
    sink.position().await.unwrap();
    sink.send(&batch(&made, 1..=1)).await.unwrap();
    {
        let mut held = fake.held.lock().unwrap();
        held.page_limit = 30;
        let ours = held.checks[0].clone();
        held.checks = (0..100).map(|id| json!({ "id": id, "name": "build", "output": { "text": null } })).collect();
        held.checks.push(ours);
        held.jobs = (0..75)
            .map(
                |id| json!({ "id": id, "run_id": 77, "name": format!("job {id}"), "status": "completed", "conclusion": "success" }),
            )
            .collect();
        held.jobs[74]["conclusion"] = json!("failure");
        let mut noise: Vec<Value> = (0..40).map(|n| json!({ "message": format!("test {n} failed") })).collect();
        noise.push(json!({ "message": "The hosted runner lost communication with the server." }));
        held.annotations.insert("74".into(), noise);
    }
    let source = sink::open_source("github:", &fake.variables()).unwrap();
    assert_eq!(source.legs(&narrow(&fake), Wall(0)).await.unwrap().len(), 1);
    let jobs = service_jobs(&fake.variables(), &RunId::from("77")).await.unwrap().unwrap();
    assert_eq!(jobs.len(), 75);
    assert!(jobs[74].annotations[0].contains("lost communication"), "{:?}", jobs[74].annotations.first());
}

#[tokio::test]
async fn the_rate_headers_stretch_the_interval() {
    let fake = FakeGithub::start().await;
    let mut made = context(&fake.variables());
    for (legs, base, burst) in [(1, 12, 40), (15, 180, 13), (60, 720, 3)] {
        made.legs = legs;
        let capabilities = open("github:", &made).capabilities();
        assert_eq!((capabilities.interval, capabilities.burst), (Secs::from_secs(base), burst));
    }
    let reset = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs() + 1000;
    fake.held.lock().unwrap().headers = vec![("x-ratelimit-remaining", "50".to_owned()), ("x-ratelimit-reset", reset.to_string())];
    made.legs = 15;
    let mut sink = open("github:", &made);
    sink.position().await.unwrap();
    let interval = sink.capabilities().interval;
    assert!(interval > Secs::from_secs(360) && interval < Secs::from_secs(380), "1000 s x 15 legs / 40: {interval}");
}
