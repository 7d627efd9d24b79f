//! A collector as schema/collector.md asks for: the hundred lines that anybody could write.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use ci_ledger::core::moment::Wall;
use serde_json::{Value, json};

use super::servers::Ours;

pub const TOKEN: &str = "collector-secret-1";

#[derive(Default)]
pub struct Kept {
    pub lines: BTreeMap<u64, String>,
    pub marker: Option<(String, Wall)>,
}

#[derive(Default)]
pub struct Held {
    pub epochs: BTreeMap<Vec<(String, String)>, Kept>,
    pub requests: usize,
    /// Answers given instead, newest last; `None` lets one through.
    pub faults: Vec<Option<(u16, Vec<(&'static str, String)>)>>,
    /// The next batch is kept and its answer is lost.
    pub forget: bool,
    /// The next batch is kept and this event is answered for.
    pub claim: Option<u64>,
    pub events_per_answer: usize,
    pub legs_per_page: usize,
}

pub struct Collector {
    pub held: Arc<Mutex<Held>>,
    pub server: Ours,
}

impl Collector {
    pub async fn start() -> Self {
        let held = Arc::new(Mutex::new(Held { events_per_answer: 3, legs_per_page: 2, ..Held::default() }));
        let router = Router::new()
            .route("/base/position", get(position))
            .route("/base/events", get(events).post(take).delete(remove))
            .route("/base/legs", get(legs))
            .with_state(Arc::clone(&held));
        Self { held, server: Ours::serve(router).await }
    }

    pub fn url(&self) -> String {
        format!("{}/base", self.server.url)
    }
}

type Shared = State<Arc<Mutex<Held>>>;
type Asked = Query<HashMap<String, String>>;

fn gate(held: &Arc<Mutex<Held>>, headers: &HeaderMap) -> Option<Response> {
    let mut held = held.lock().unwrap();
    held.requests += 1;
    if let Some(Some((status, headers))) = held.faults.pop() {
        let mut answer = Response::builder().status(status);
        for (name, value) in headers {
            answer = answer.header(name, value);
        }
        return Some(answer.body(Body::from("goes wrong on purpose")).unwrap());
    }
    let token = headers.get("authorization").and_then(|value| value.to_str().ok());
    (token != Some(&format!("Bearer {TOKEN}"))).then(|| (StatusCode::UNAUTHORIZED, "no token").into_response())
}

fn epoch(asked: &HashMap<String, String>) -> Vec<(String, String)> {
    let names = ["run_id", "attempt", "platform", "target", "shard", "epoch"];
    names.iter().filter_map(|name| Some(((*name).to_owned(), asked.get(*name)?.clone()))).collect()
}

fn now() -> Wall {
    Wall(std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as i64)
}

fn durable(kept: Option<&Kept>) -> Response {
    let seq = kept.and_then(|kept| kept.lines.keys().last().copied()).unwrap_or(0);
    json!({ "v": 1, "seq": seq }).to_string().into_response()
}

async fn position(State(held): Shared, Query(asked): Asked, headers: HeaderMap) -> Response {
    if let Some(refusal) = gate(&held, &headers) {
        return refusal;
    }
    durable(held.lock().unwrap().epochs.get(&epoch(&asked)))
}

async fn take(State(held): Shared, Query(asked): Asked, headers: HeaderMap, body: String) -> Response {
    if let Some(refusal) = gate(&held, &headers) {
        return refusal;
    }
    assert!(headers.contains_key("idempotency-key"));
    let mut held = held.lock().unwrap();
    let kept = held.epochs.entry(epoch(&asked)).or_default();
    let lines: Vec<&str> = body.lines().collect();
    let (marker, events) = lines.split_last().unwrap();
    for line in events {
        let seq = serde_json::from_str::<Value>(line).unwrap()["seq"].as_u64().unwrap();
        if kept.lines.get(&seq).is_some_and(|there| there != line) {
            return (StatusCode::CONFLICT, "another text under this number").into_response();
        }
        if seq == kept.lines.keys().last().copied().unwrap_or(0) + 1 {
            kept.lines.insert(seq, (*line).to_owned());
        }
    }
    kept.marker = Some(((*marker).to_owned(), now()));
    let answer = durable(Some(kept));
    if let Some(seq) = held.claim.take() {
        return json!({ "v": 1, "seq": seq }).to_string().into_response();
    }
    if std::mem::take(&mut held.forget) {
        return (StatusCode::BAD_GATEWAY, "the answer was lost").into_response();
    }
    answer
}

async fn events(State(held): Shared, Query(asked): Asked, headers: HeaderMap) -> Response {
    if let Some(refusal) = gate(&held, &headers) {
        return refusal;
    }
    let held = held.lock().unwrap();
    let after: u64 = asked["after"].parse().unwrap();
    let Some(kept) = held.epochs.get(&epoch(&asked)) else { return StatusCode::NOT_FOUND.into_response() };
    let lines = kept.lines.range(after + 1..).take(held.events_per_answer);
    lines.map(|(_, line)| format!("{line}\n")).collect::<String>().into_response()
}

async fn legs(State(held): Shared, Query(asked): Asked, headers: HeaderMap) -> Response {
    if let Some(refusal) = gate(&held, &headers) {
        return refusal;
    }
    let held = held.lock().unwrap();
    let fits = |name: &[(String, String)]| {
        name.iter().all(|(key, value)| key == "epoch" || asked.get(key).is_none_or(|wanted| wanted == value))
    };
    let all: Vec<_> = held.epochs.iter().filter(|(name, _)| fits(name)).collect();
    let from: usize = asked.get("cursor").map_or(0, |cursor| cursor.parse().unwrap());
    let page = all.iter().skip(from).take(held.legs_per_page).map(|(name, kept)| {
        let mut leg: serde_json::Map<String, Value> = name.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        leg.insert("seq".into(), json!(kept.lines.keys().last().copied().unwrap_or(0)));
        if let Some((marker, at)) = &kept.marker {
            leg.insert("marker".into(), serde_json::from_str(marker).unwrap());
            leg.insert("marker_at".into(), json!(at));
        }
        Value::Object(leg)
    });
    let page: Vec<Value> = page.collect();
    let next = (from + page.len() < all.len()).then(|| (from + page.len()).to_string());
    json!({ "v": 1, "now": now(), "legs": page, "next": next }).to_string().into_response()
}

async fn remove(State(held): Shared, Query(asked): Asked, headers: HeaderMap) -> Response {
    if let Some(refusal) = gate(&held, &headers) {
        return refusal;
    }
    held.lock().unwrap().epochs.remove(&epoch(&asked));
    StatusCode::NO_CONTENT.into_response()
}
