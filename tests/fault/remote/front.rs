//! Something that goes wrong on purpose, in front of a service that does not: a balancer, a proxy, a service under load.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::Method;
use axum::response::Response;

use super::objects::{Onward, pass_on};
use super::servers::Ours;

/// A request as the one in front sees it.
pub struct Seen<'a> {
    /// From 1.
    pub number: usize,
    pub method: &'a Method,
    pub body: &'a [u8],
}

impl Seen<'_> {
    pub fn writes(&self) -> bool {
        *self.method != Method::GET && *self.method != Method::HEAD
    }

    /// Whether a marker in it names this file as the current one. A check run holds its marker as text inside JSON.
    pub fn names_as_current(&self, file: &str) -> bool {
        let text = String::from_utf8_lossy(self.body).replace('\\', "");
        text.contains(&format!("\"current_file\":\"{file}\""))
    }
}

/// What happens to a request instead of its answer.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// Refused with this status, these headers and this message.
    Says(u16, &'static [(&'static str, &'static str)], &'static str),
    /// Done, and the answer breaks off in the middle.
    HalfAnswer,
    /// Done, and the answer never comes.
    DoneAndSilent,
    /// Nothing at all, for ever.
    Silent,
    /// Done in its own time.
    After(Duration),
}

type Plan = Box<dyn Fn(&Seen<'_>) -> Option<Wrong> + Send>;

#[derive(Default)]
pub struct Watched {
    plan: Option<Plan>,
    pub requests: usize,
    /// Requests that were done and never answered.
    pub held: usize,
}

#[derive(Clone)]
struct Shared {
    to: Onward,
    watched: Arc<Mutex<Watched>>,
}

pub struct Front {
    pub server: Ours,
    pub watched: Arc<Mutex<Watched>>,
}

impl Front {
    pub async fn of(url: &str) -> Self {
        let watched = Arc::<Mutex<Watched>>::default();
        let shared = Shared { to: Onward::to(url), watched: Arc::clone(&watched) };
        Self { server: Ours::serve(Router::new().fallback(meet).with_state(shared)).await, watched }
    }

    pub fn goes_wrong(&self, plan: impl Fn(&Seen<'_>) -> Option<Wrong> + Send + 'static) {
        let mut watched = self.watched.lock().unwrap();
        *watched = Watched { plan: Some(Box::new(plan)), ..Watched::default() };
    }
}

async fn meet(State(shared): State<Shared>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 26).await.unwrap();
    let wrong = {
        let mut watched = shared.watched.lock().unwrap();
        watched.requests += 1;
        let seen = Seen { number: watched.requests, method: &parts.method, body: &body };
        watched.plan.as_ref().and_then(|plan| plan(&seen))
    };
    match wrong {
        None => pass_on(&shared.to, parts, body).await,
        Some(Wrong::After(time)) => {
            tokio::time::sleep(time).await;
            pass_on(&shared.to, parts, body).await
        }
        Some(Wrong::Silent) => std::future::pending().await,
        Some(Wrong::DoneAndSilent) => {
            pass_on(&shared.to, parts, body).await;
            shared.watched.lock().unwrap().held += 1;
            std::future::pending().await
        }
        Some(Wrong::HalfAnswer) => {
            let answer = pass_on(&shared.to, parts, body).await;
            let status = answer.status();
            let whole = axum::body::to_bytes(answer.into_body(), 1 << 26).await.unwrap();
            let half: Result<Bytes, std::io::Error> = Ok(whole.slice(..whole.len() / 2));
            let stream = futures_util::stream::iter([half, Err(std::io::Error::other("cut"))]);
            let length = whole.len().max(2);
            Response::builder().status(status).header("content-length", length).body(Body::from_stream(stream)).unwrap()
        }
        Some(Wrong::Says(status, headers, message)) => {
            let mut answer = Response::builder().status(status);
            for (name, value) in headers {
                answer = answer.header(*name, *value);
            }
            answer.body(Body::from(format!("{{\"message\":\"{message}\"}}"))).unwrap()
        }
    }
}
