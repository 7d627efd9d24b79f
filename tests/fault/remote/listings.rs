//! Collectors and check runs that list what they do not give: no leg vanishes, and no listing is followed for ever.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Query;
use axum::routing::get;
use ci_ledger::core::moment::Wall;
use ci_ledger::core::outcome::{Conclusion, Terminal};
use ci_ledger::core::row::Summary;
use ci_ledger::report::gate::gate;
use ci_ledger::sink::{self, Backend, Narrow, SinkError, Variables};
use ci_ledger::source::assemble::{Question, assemble};
use ci_ledger::source::{Found, sink as from_sink};
use serde_json::{Value, json};

use super::fake_github::FakeGithub;
use super::lost::wall_now;
use super::servers::Ours;
use super::{batch, context, marker};

/// A collector that answers with these pages, by the number of the question and its cursor, and gives no events.
async fn collector(page: impl Fn(usize, Option<&str>) -> Value + Send + Sync + 'static) -> (Ours, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let (counted, page) = (Arc::clone(&asked), Arc::new(page));
    let legs = move |Query(query): Query<HashMap<String, String>>| {
        let (number, page) = (counted.fetch_add(1, Ordering::SeqCst), Arc::clone(&page));
        async move { page(number, query.get("cursor").map(String::as_str)).to_string() }
    };
    let router = Router::new().route("/legs", get(legs)).route("/events", get(|| async { "" }));
    (Ours::serve(router).await, asked)
}

fn page(legs: Value, next: Option<String>) -> Value {
    json!({ "v": 1, "now": "2026-01-01T00:00:00Z", "legs": legs, "next": next })
}

fn listed(platform: &str, seq: Value) -> Value {
    json!({ "run_id": "7", "attempt": "1", "platform": platform, "target": "stable", "epoch": "e", "seq": seq })
}

async fn report(url: &str, variables: &Variables) -> Result<Summary, SinkError> {
    let mut found = Found::default();
    let narrow = Narrow { variables: variables.clone(), ..Narrow::default() };
    from_sink::read(url, &narrow, wall_now(), &mut found).await?;
    Ok(assemble(found, &Question::everything(Wall(0))))
}

#[tokio::test]
async fn a_leg_that_a_collector_lists_and_does_not_give_is_incomplete() {
    let (server, _) = collector(|_, _| {
        let whole = marker(&context(&Variables::default()), 0, true);
        let mut good = listed("good", json!(0));
        good["marker"] = serde_json::to_value(&whole).unwrap();
        good["marker_at"] = json!("2026-01-01T00:00:00Z");
        page(json!([listed("bad", json!(10)), good, listed("worse", json!("ten")), 5]), None)
    })
    .await;
    let summary = report(&server.url, &Variables::default()).await.unwrap();
    assert_eq!(gate(&summary).exit_code(), 3, "{summary:#?}");
    let row = |platform: &str| summary.legs.iter().find(|row| row.platform.as_str() == platform).unwrap();
    for (platform, why) in [
        ("bad", "it is said to hold event 10, and gives events up to 0"),
        ("worse", "the collector lists it in a form that cannot be read"),
        ("unknown", "the collector lists it in a form that cannot be read"),
    ] {
        let row = row(platform);
        assert_eq!((row.terminal, row.conclusion), (Terminal::AttemptedIncomplete, Some(Conclusion::Incomplete)), "{row:#?}");
        assert!(row.why.contains(why), "{}", row.why);
    }
    assert!(summary.legs.iter().any(|row| row.conclusion == Some(Conclusion::Pass)), "the good one is told as it is");
    assert!(summary.warnings.len() >= 3, "{:?}", summary.warnings);

    let verified = from_sink::verify(&server.url, &Narrow::default(), Wall(0)).await.unwrap();
    let of = |platform: &str| verified.iter().find(|one| one.place.contains(platform)).unwrap();
    assert!(of("bad").broken.as_ref().unwrap().contains("event 10"), "{verified:#?}");
    assert!(of("worse").unreadable.is_some(), "{verified:#?}");
}

#[tokio::test]
async fn a_listing_without_an_end_is_given_up() {
    type Page = fn(usize, Option<&str>) -> Value;
    let cases: [(&str, Page, &str, usize); 4] = [
        ("the same cursor", |_, _| page(json!([listed("p", json!(0))]), Some("again".into())), "given before", 2),
        ("a ring of cursors", |n, _| page(json!([]), Some((n % 3).to_string())), "given before", 4),
        ("new cursors, no legs", |n, _| page(json!([]), Some(n.to_string())), "nothing new", 32),
        ("new cursors, one leg", |n, _| page(json!([listed("p", json!(0))]), Some(n.to_string())), "nothing new", 33),
    ];
    for (what, pages, why, most) in cases {
        let (server, asked) = collector(pages).await;
        let error = report(&server.url, &Variables::default()).await.unwrap_err();
        assert!(error.detail.contains(why) && error.detail.contains("--run-id"), "{what}: {error}");
        assert!(asked.load(Ordering::SeqCst) <= most, "{what}: {asked:?} questions");
    }
    // Pages that a filter has emptied are no fault, and neither is a leg that moved to the next page while it was read.
    let (server, _) = collector(|n, _| match n {
        20 => page(json!([listed("p", json!(1)), listed("q", json!(1))]), Some("21".into())),
        21 => page(json!([listed("q", json!(1)), listed("r", json!(1))]), None),
        n => page(json!([]), Some(n.to_string())),
    })
    .await;
    assert_eq!(report(&server.url, &Variables::default()).await.unwrap().legs.len(), 3);
}

#[tokio::test]
async fn a_check_run_whose_text_somebody_wrote_over_is_an_incomplete_leg() {
    for text in [json!("all is well"), json!(""), Value::Null, json!("```json\n{}\n```\n")] {
        let fake = FakeGithub::start().await;
        let mut made = context(&fake.variables());
        for platform in ["good/1", "bad/1"] {
            made.leg.platform = platform.into();
            let mut sink: Box<dyn Backend> = sink::open("github:", &made).unwrap();
            sink.position().await.unwrap();
            let mut last = batch(&made, 1..=1);
            last.marker = marker(&made, 1, true).render(60_000);
            sink.send(&last).await.unwrap();
        }
        let variables = fake.variables().with("GITHUB_RUN_ID", "77");
        assert_eq!(gate(&report("github:", &variables).await.unwrap()).exit_code(), 0);
        fake.held.lock().unwrap().checks[1]["output"]["text"] = text.clone();
        let summary = report("github:", &variables).await.unwrap();
        assert_eq!(gate(&summary).exit_code(), 3, "{text}: {summary:#?}");
        let row = summary.legs.iter().find(|row| row.platform.as_str() == "bad/1").unwrap();
        assert_eq!((row.leg().to_string(), row.conclusion), (made.leg.to_string(), Some(Conclusion::Incomplete)), "{text}");
        assert!(summary.warnings.iter().any(|warning| warning.contains("check-runs/1001")), "{text}: {:?}", summary.warnings);
        let verified = from_sink::verify("github:", &Narrow { variables, ..Narrow::default() }, Wall(0)).await.unwrap();
        assert!(verified[0].unreadable.is_none() && verified[0].broken.is_none(), "{text}: a sink of markers keeps no events");
        assert!(verified[1].unreadable.is_some(), "{text}: {verified:#?}");
    }
}
