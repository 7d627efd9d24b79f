//! A GitHub that enforces what the service enforces, and goes wrong where a test says so.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, patch, post};
use ci_ledger::sink::Variables;
use serde_json::{Value, json};

use super::servers::Ours;

/// What happens to a request instead of its answer.
#[derive(Clone, Debug)]
pub enum Fault {
    Answer(u16, Vec<(&'static str, String)>, &'static str),
    /// It is done, and the answer breaks off in the middle.
    HalfAnswer,
}

type Plan = Box<dyn Fn(usize, &Method) -> Option<Fault> + Send>;

#[derive(Default)]
pub struct Held {
    pub checks: Vec<Value>,
    pub jobs: Vec<Value>,
    pub annotations: HashMap<String, Vec<Value>>,
    pub requests: Vec<(Method, String)>,
    pub bodies: Vec<Value>,
    plan: Option<Plan>,
    /// Headers of every answer.
    pub headers: Vec<(&'static str, String)>,
    /// The service's limit of one text.
    pub text_limit: usize,
    /// Entries on a page at most, whatever is asked for.
    pub page_limit: usize,
}

pub struct FakeGithub {
    pub held: Arc<Mutex<Held>>,
    server: Ours,
}

type Shared = State<Arc<Mutex<Held>>>;

impl FakeGithub {
    pub const IDENTITY: [(&str, &str); 3] =
        [("GITHUB_TOKEN", "ghs_0123456789abcdef"), ("GITHUB_REPOSITORY", "owner/repo"), ("GITHUB_SHA", "abc")];

    pub async fn start() -> Self {
        let held = Arc::new(Mutex::new(Held { text_limit: 65_535, page_limit: 100, ..Held::default() }));
        let router = Router::new()
            .route("/repos/{owner}/{repo}/check-runs", post(create))
            .route("/repos/{owner}/{repo}/check-runs/{id}", patch(update).get(one))
            .route("/repos/{owner}/{repo}/check-runs/{id}/annotations", get(annotations))
            .route("/repos/{owner}/{repo}/commits/{sha}/check-runs", get(list))
            .route("/repos/{owner}/{repo}/actions/runs/{run}/jobs", get(jobs))
            .with_state(Arc::clone(&held));
        Self { held, server: Ours::serve(router).await }
    }

    pub fn variables(&self) -> Variables {
        Variables::of(Self::IDENTITY).with("GITHUB_API_URL", self.server.url.as_str())
    }

    pub fn url(&self) -> &str {
        &self.server.url
    }

    /// `plan` sees the number of a request, from 1, and its method.
    pub fn goes_wrong(&self, plan: impl Fn(usize, &Method) -> Option<Fault> + Send + 'static) {
        let mut held = self.held.lock().unwrap();
        held.requests.clear();
        held.plan = Some(Box::new(plan));
    }

    pub fn count(&self, method: &Method) -> usize {
        self.held.lock().unwrap().requests.iter().filter(|(one, _)| one == method).count()
    }
}

/// Counts the request, says what goes wrong with it, refuses one without a token.
async fn gate(held: &Arc<Mutex<Held>>, method: Method, path: String, headers: &HeaderMap) -> Result<bool, Response> {
    let fault = {
        let mut held = held.lock().unwrap();
        held.requests.push((method.clone(), path));
        held.plan.as_ref().and_then(|plan| plan(held.requests.len(), &method))
    };
    match fault {
        Some(Fault::Answer(status, headers, message)) => {
            let mut answer = Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(name, value);
            }
            return Err(answer.body(Body::from(json!({ "message": message }).to_string())).unwrap());
        }
        Some(Fault::HalfAnswer) => return Ok(true),
        None => {}
    }
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    if token != "Bearer ghs_0123456789abcdef" {
        return Err((StatusCode::UNAUTHORIZED, json!({ "message": "Bad credentials" }).to_string()).into_response());
    }
    Ok(false)
}

fn answer(held: &Held, status: u16, body: &Value, half: bool) -> Response {
    let text = body.to_string();
    let mut answer = Response::builder().status(status).header("content-type", "application/json");
    for (name, value) in &held.headers {
        answer = answer.header(*name, value);
    }
    if half {
        // The length of the whole, and half of it: the connection breaks off.
        let piece: Result<Bytes, std::io::Error> = Ok(Bytes::copy_from_slice(&text.as_bytes()[..text.len() / 2]));
        let broken = Err(std::io::Error::other("cut"));
        let stream = futures_util::stream::iter([piece, broken]);
        return answer.header("content-length", text.len()).body(Body::from_stream(stream)).unwrap();
    }
    answer.body(Body::from(text)).unwrap()
}

fn too_long(held: &Held, body: &Value) -> Option<Response> {
    for key in ["summary", "text"] {
        let bytes = body["output"][key].as_str().unwrap_or_default().len();
        if bytes > held.text_limit {
            let message = format!("Only 65535 characters are allowed; {bytes} were supplied.");
            return Some(answer(held, 422, &json!({ "message": message }), false));
        }
    }
    None
}

async fn create(State(held): Shared, headers: HeaderMap, body: String) -> Response {
    let half = match gate(&held, Method::POST, "check-runs".into(), &headers).await {
        Ok(half) => half,
        Err(refusal) => return refusal,
    };
    let mut body: Value = serde_json::from_str(&body).unwrap();
    let mut held = held.lock().unwrap();
    if let Some(refusal) = too_long(&held, &body) {
        return refusal;
    }
    if body["name"].is_null() || body["head_sha"].is_null() || body["output"]["title"].is_null() {
        return answer(&held, 422, &json!({ "message": "name, head_sha and output.title are required" }), false);
    }
    body["id"] = json!(1000 + held.checks.len());
    held.bodies.push(body.clone());
    held.checks.push(body.clone());
    answer(&held, 201, &body, half)
}

async fn update(State(held): Shared, Path((_, _, id)): Path<(String, String, u64)>, headers: HeaderMap, body: String) -> Response {
    let half = match gate(&held, Method::PATCH, format!("check-runs/{id}"), &headers).await {
        Ok(half) => half,
        Err(refusal) => return refusal,
    };
    let body: Value = serde_json::from_str(&body).unwrap();
    let mut held = held.lock().unwrap();
    if let Some(refusal) = too_long(&held, &body) {
        return refusal;
    }
    held.bodies.push(body.clone());
    let Some(check) = held.checks.iter_mut().find(|check| check["id"] == json!(id)) else {
        return answer(&held, 404, &json!({ "message": "Not Found" }), false);
    };
    // Output is replaced whole, as the service does.
    for (key, value) in body.as_object().unwrap() {
        check[key] = value.clone();
    }
    let check = check.clone();
    answer(&held, 200, &check, half)
}

async fn one(State(held): Shared, Path((_, _, id)): Path<(String, String, u64)>, headers: HeaderMap) -> Response {
    if let Err(refusal) = gate(&held, Method::GET, format!("check-runs/{id}"), &headers).await {
        return refusal;
    }
    let held = held.lock().unwrap();
    match held.checks.iter().find(|check| check["id"] == json!(id)) {
        Some(check) => answer(&held, 200, check, false),
        None => answer(&held, 404, &json!({ "message": "Not Found" }), false),
    }
}

type Asked = Query<HashMap<String, String>>;

fn page(held: &Held, rows: &[Value], asked: &HashMap<String, String>) -> Vec<Value> {
    let number = |key: &str, default: usize| asked.get(key).and_then(|text| text.parse().ok()).unwrap_or(default);
    let per_page = number("per_page", 30).min(held.page_limit);
    rows.iter().skip((number("page", 1) - 1) * per_page).take(per_page).cloned().collect()
}

async fn list(
    State(held): Shared,
    Path((_, _, sha)): Path<(String, String, String)>,
    Query(asked): Asked,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = gate(&held, Method::GET, "commits/check-runs".into(), &headers).await {
        return refusal;
    }
    let held = held.lock().unwrap();
    let of_the_commit = |check: &&Value| check["head_sha"].is_null() || check["head_sha"] == json!(sha);
    let mut rows: Vec<Value> = held.checks.iter().filter(of_the_commit).cloned().collect();
    if asked.get("filter").map(String::as_str) != Some("all") {
        let mut newest: HashMap<String, Value> = HashMap::new();
        rows.iter().for_each(|row| drop(newest.insert(row["name"].to_string(), row.clone())));
        rows = newest.into_values().collect();
    }
    if let Some(name) = asked.get("check_name") {
        rows.retain(|row| row["name"] == json!(name));
    }
    let body = json!({ "total_count": rows.len(), "check_runs": page(&held, &rows, &asked) });
    answer(&held, 200, &body, false)
}

async fn jobs(State(held): Shared, Query(asked): Asked, headers: HeaderMap) -> Response {
    if let Err(refusal) = gate(&held, Method::GET, "jobs".into(), &headers).await {
        return refusal;
    }
    let held = held.lock().unwrap();
    let body = json!({ "total_count": held.jobs.len(), "jobs": page(&held, &held.jobs, &asked) });
    answer(&held, 200, &body, false)
}

async fn annotations(
    State(held): Shared,
    Path((_, _, id)): Path<(String, String, String)>,
    Query(asked): Asked,
    headers: HeaderMap,
) -> Response {
    if let Err(refusal) = gate(&held, Method::GET, "annotations".into(), &headers).await {
        return refusal;
    }
    let held = held.lock().unwrap();
    let rows = held.annotations.get(&id).cloned().unwrap_or_default();
    let body = Value::Array(page(&held, &rows, &asked));
    answer(&held, 200, &body, false)
}
