//! Check runs as evidence, and the service's own word on jobs.

use async_trait::async_trait;
use serde_json::{Value, json};

use crate::core::ids::{LegId, RunId, Seq};
use crate::core::job::{Job, parse_listing};
use crate::core::marker::Marker;
use crate::core::moment::{Secs, Wall};

use super::super::error::SinkError;
use super::super::source::{Closing, FoundLeg, FoundMarker, LegName, Narrow, Source};
use super::super::{Described, Variables};
use super::api::{self, Api, Place, URL};
use super::payload::{SERVICE_BYTES, cut, payload_of};
use super::{NAME_PREFIX, check_name, external_id};

/// Jobs whose annotations are read. A matrix has at most 256 jobs; each costs a request.
const MOST_ANNOTATED: usize = 256;

pub struct GithubSource {
    api: Api,
    sha: String,
    /// The run that this process is part of, for a question that names none.
    run: Option<String>,
}

impl GithubSource {
    pub fn new(url: &str, variables: &Variables) -> Result<Self, SinkError> {
        let place = Place::of(url, variables)?;
        let sha = place.sha.clone().or_else(|| variables.get("GITHUB_SHA").map(str::to_owned));
        let sha = sha.ok_or_else(|| api::refused("no commit: set GITHUB_SHA, --sha or github:?sha="))?;
        Ok(Self { api: Api::new(&place, variables)?.for_a_reader(), sha, run: variables.get("GITHUB_RUN_ID").map(str::to_owned) })
    }

    fn found(&self, run: &Value, narrow: &Narrow, now: Wall) -> Option<FoundLeg> {
        let id = run.get("id").and_then(Value::as_u64)?;
        let name = run.get("name").and_then(Value::as_str).filter(|name| name.starts_with(NAME_PREFIX))?;
        let payload = payload_of(run);
        let marker = payload.and_then(|payload| serde_json::from_str::<Marker>(payload).ok());
        let wanted_run = narrow.run_id.as_ref().map(RunId::as_str).or(self.run.as_deref());
        let external = run.get("external_id").and_then(Value::as_str).unwrap_or_default();
        let named = match &marker {
            Some(marker) => LegName { leg: marker.row.leg(), epoch: marker.row.epoch.clone() },
            // Whatever its text has become: the external id is a leg's own, or it is none of ours.
            None => LegName { leg: leg_of(name, external)?, epoch: None },
        };
        let leg = &named.leg;
        let fits = wanted_run.is_none_or(|wanted| leg.run_id.as_str() == wanted)
            && narrow.attempt.as_ref().is_none_or(|wanted| leg.attempt == *wanted)
            && narrow.platform.as_ref().is_none_or(|wanted| leg.platform == *wanted)
            && narrow.target.as_ref().is_none_or(|wanted| leg.target == *wanted);
        // A check run of that name that somebody else made says nothing of a leg.
        let genuine = marker.as_ref().is_none_or(|marker| external_id(&marker.row.leg()) == external);
        if !fits || !genuine {
            return None;
        }
        let completed = run.get("completed_at").and_then(Value::as_str).and_then(Wall::parse);
        let written = completed.or(marker.as_ref().map(|marker| marker.written_at)).unwrap_or(now);
        let age = match narrow.set_clock {
            Some(set) => set.since(written),
            None => self.api.clock.now().map_or_else(|| now.since(written), |now| now.since(written).saturating_sub(ROUNDED)),
        };
        let unreadable = if payload.is_some() { Vec::new() } else { vec!["its text is gone".to_owned()] };
        Some(FoundLeg {
            place: format!("check-runs/{id}"),
            named,
            plan: None,
            marker: payload.map(|payload| FoundMarker { bytes: payload.as_bytes().to_vec(), age }),
            segments: Vec::new(),
            promised: Seq(0),
            unreadable,
        })
    }
}

/// The leg of a check run whose text cannot be read: by its external id, which the name helps to take apart where an id has a slash.
fn leg_of(name: &str, external: &str) -> Option<LegId> {
    by_name(name, external).or_else(|| {
        let mut parts = external.splitn(4, '/').filter(|part| !part.is_empty());
        let (run_id, attempt, platform, target) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
        Some(LegId {
            run_id: run_id.into(),
            attempt: attempt.into(),
            platform: platform.into(),
            target: target.into(),
            shard: None,
        })
    })
}

fn by_name(name: &str, external: &str) -> Option<LegId> {
    let mut parts = name.strip_prefix(NAME_PREFIX)?.split(" · ");
    let (platform, target, shard) = (parts.next()?, parts.next()?, parts.next());
    let shard = shard.map(str::parse).transpose().ok()?;
    let leg = LegId { run_id: "".into(), attempt: "".into(), platform: platform.into(), target: target.into(), shard };
    // Of an empty run and attempt, what is left of the external id is a slash and the rest of the leg.
    let rest = external_id(&leg);
    let (run_id, attempt) = external.strip_suffix(&rest[1..])?.rsplit_once('/')?;
    let is_whole = !run_id.is_empty() && !attempt.is_empty();
    is_whole.then(|| LegId { run_id: run_id.into(), attempt: attempt.into(), ..leg })
}

/// The service keeps whole seconds, and its `Date` too.
const ROUNDED: Secs = Secs::from_secs(1);

#[async_trait]
impl Source for GithubSource {
    fn url(&self) -> &str {
        URL
    }

    fn keeps_events(&self) -> bool {
        false
    }

    async fn legs(&self, narrow: &Narrow, now: Wall) -> Result<Vec<FoundLeg>, SinkError> {
        let runs = self.api.check_runs(&self.sha, None).await?;
        let mut found: Vec<FoundLeg> = runs.iter().filter_map(|run| self.found(run, narrow, now)).collect();
        // A listing that moves while it is read shows one twice.
        found.sort_by(|a, b| a.place.cmp(&b.place));
        found.dedup_by(|a, b| a.place == b.place);
        Ok(found)
    }

    async fn segment(&self, _: &FoundLeg, name: &str) -> Result<Vec<u8>, SinkError> {
        Err(SinkError::new(URL, super::super::Trouble::Usage, format!("a check run holds no segment '{name}'")))
    }

    /// Closes what was left open, and says the verdict where it said "running". The payload stays as it is, byte for byte.
    async fn close(&self, leg: &FoundLeg, verdict: &Described) -> Result<Closing, SinkError> {
        let run = self.api.get(&leg.place, &[]).await?.body;
        let output = |key: &str| run.get("output").and_then(|output| output.get(key)).and_then(Value::as_str).unwrap_or_default();
        let (title, summary) = (cut(&verdict.title, 200), cut(&verdict.summary, SERVICE_BYTES));
        let open = run.get("status").and_then(Value::as_str) != Some("completed");
        if !open && output("title") == title && output("summary") == summary {
            return Ok(Closing::ClosedAlready);
        }
        let marker = payload_of(&run).and_then(|payload| serde_json::from_str::<Marker>(payload).ok());
        // The newest word may be the writer's own end: that one stands.
        if marker.as_ref().is_some_and(|marker| marker.closed) && !open {
            return Ok(Closing::ClosedAlready);
        }
        let last_sign = run.get("completed_at").filter(|at| at.is_string()).cloned();
        let last_sign = last_sign.or_else(|| marker.as_ref().map(|marker| json!(marker.written_at)));
        let conclusion = run.get("conclusion").and_then(Value::as_str).unwrap_or("neutral");
        let mut body = json!({
            "status": "completed",
            "conclusion": conclusion,
            "output": { "title": title, "summary": summary, "text": output("text") },
        });
        if let Some(marker) = &marker {
            body["name"] = json!(check_name(&marker.row.leg()));
        }
        // When it was last heard of, not when it was closed: a closing must not look like a sign of life.
        if let Some(last_sign) = last_sign {
            body["completed_at"] = last_sign;
        }
        self.api.patch(&leg.place, &body).await?;
        Ok(Closing::Closed)
    }
}

/// What the service says of the jobs of a run, with the annotations of those that did not end well. `None` where the variables name no
/// repository or no token.
pub async fn service_jobs(variables: &Variables, run: &RunId) -> Result<Option<Vec<Job>>, SinkError> {
    let place = Place::of(URL, variables)?;
    if place.repository.is_none() || variables.first(&api::TOKENS).is_none() {
        return Ok(None);
    }
    let api = Api::new(&place, variables)?.for_a_reader();
    let listed = api.pages(&format!("actions/runs/{run}/jobs"), &[("filter", "all")], Some("jobs")).await?;
    let text = Value::Array(listed).to_string();
    let mut jobs = parse_listing(text.as_bytes()).map_err(|error| SinkError::retryable(URL, error.to_string()))?.jobs;
    let ended_badly = |job: &&mut Job| job.is_over() && !matches!(job.conclusion.as_deref(), Some("success" | "skipped"));
    for job in jobs.iter_mut().filter(ended_badly).take(MOST_ANNOTATED) {
        let Some(id) = job.id else { continue };
        // Annotations explain; a run is classified without them too.
        let Ok(annotations) = api.pages(&format!("check-runs/{id}/annotations"), &[], None).await else { continue };
        let messages = annotations.iter().filter_map(|one| one.get("message").and_then(Value::as_str).map(str::to_owned));
        job.annotations.extend(messages.map(|text| text.chars().take(2000).collect::<String>()));
        job.annotations.sort_by_key(|text| !speaks_of_the_runner(text));
    }
    Ok((!jobs.is_empty()).then_some(jobs))
}

/// What the service itself says when a runner is gone, told before what tests annotate.
fn speaks_of_the_runner(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    [
        "lost communication",
        "shutdown signal",
        "out of memory",
        "no space left",
        "was canceled",
        "exceeded the maximum execution time",
    ]
    .iter()
    .any(|known| text.contains(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_run_without_its_text_is_known_by_name_and_external_id() {
        for (platform, target, shard) in [("macos-x86", "stable", None), ("a/b", "7.20", Some("2/3")), ("x", "y/z", None)] {
            let shard = shard.map(|shard| shard.parse().expect("it is well formed"));
            let leg = LegId { run_id: "36".into(), attempt: "2".into(), platform: platform.into(), target: target.into(), shard };
            assert_eq!(leg_of(&check_name(&leg), &external_id(&leg)), Some(leg));
        }
        for external in ["", "1", "/a/b", "1/2/a", "//a/b", "1/2/a/"] {
            assert_eq!(leg_of("leg: a · b", external), None, "{external}");
        }
        let named_otherwise = leg_of("leg: a · b", "1/2/a/c").map(|leg| leg.to_string());
        assert_eq!(named_otherwise.as_deref(), Some("run 1 attempt 2 a|c"));
    }
}
