//! A job as the CI service lists it: the listing's shapes, and which job is a leg's. Nothing is guessed: a name fits or it does not.

use std::collections::HashMap;

use serde_json::Value;

use super::ids::LegId;
use super::moment::Wall;

/// A run has at most 256 jobs of one matrix, 1 KB to 10 KB each; attempts and pages multiply that.
pub const MAX_JOBS_BYTES: usize = 64 << 20;

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Job {
    pub id: Option<u64>,
    /// The run and attempt, where the listing says them.
    pub run_id: Option<String>,
    pub run_attempt: Option<u64>,
    pub name: String,
    /// `queued`, `in_progress`, `completed`.
    pub status: String,
    pub conclusion: Option<String>,
    pub started_at: Option<Wall>,
    pub completed_at: Option<Wall>,
    pub steps: Vec<Step>,
    /// What the service says of the job, where it was read.
    pub annotations: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct Step {
    pub name: String,
    pub status: String,
    pub conclusion: Option<String>,
    pub started_at: Option<Wall>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JobsError {
    #[error("more than {MAX_JOBS_BYTES} bytes")]
    TooLarge,
    #[error("no job listing: {0}; it is an array of jobs, {{\"jobs\":[…]}}, or pages of these one after the other")]
    Shape(String),
}

/// Jobs, and how many entries were no jobs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    pub jobs: Vec<Job>,
    pub skipped: usize,
}

/// Which job is a leg's.
#[derive(Debug, Clone, Copy, PartialEq)]
#[must_use]
pub enum Join<'j> {
    One(&'j Job),
    None,
    /// So many jobs bear the name, and nothing tells them apart.
    Many(usize),
}

impl Job {
    pub fn is_over(&self) -> bool {
        self.status == "completed"
    }

    /// The step that was still running when the job ended or was listed.
    pub fn unfinished_step(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.status == "in_progress")
    }

    /// The step in which a job that is over was lost: still in progress, with no failure before it. A failure after it says nothing, for
    /// the service gives up on what follows.
    pub fn lost_in(&self) -> Option<&Step> {
        let failed = |step: &Step| step.conclusion.as_deref() == Some("failure");
        let before = self.steps.iter().take_while(|step| step.status != "in_progress");
        let is_lost = self.is_over() && !before.into_iter().any(failed);
        self.unfinished_step().filter(|_| is_lost)
    }

    /// A step that failed of itself.
    pub fn failed_step(&self) -> Option<&Step> {
        self.steps.iter().find(|step| step.conclusion.as_deref() == Some("failure"))
    }

    fn from_value(value: &Value) -> Option<Self> {
        let name = text(value, "name")?;
        let status = text(value, "status")?;
        let number = |key| value.get(key).and_then(Value::as_u64);
        let list = |key| value.get(key).and_then(Value::as_array).into_iter().flatten();
        let annotation = |entry: &Value| entry.as_str().map(str::to_owned).or_else(|| text(entry, "message"));
        Some(Self {
            id: number("id"),
            run_id: number("run_id").map(|id| id.to_string()).or_else(|| text(value, "run_id")),
            run_attempt: number("run_attempt"),
            name,
            status,
            conclusion: text(value, "conclusion"),
            started_at: time(value, "started_at"),
            completed_at: time(value, "completed_at"),
            steps: list("steps").filter_map(Step::from_value).collect(),
            annotations: list("annotations").filter_map(annotation).collect(),
        })
    }
}

impl Step {
    /// A skipped step never began, although the service gives it a time.
    pub fn began(&self) -> bool {
        let skipped = matches!(self.conclusion.as_deref(), Some("skipped"));
        !skipped && (self.started_at.is_some() || self.status == "in_progress" || self.conclusion.is_some())
    }

    fn from_value(value: &Value) -> Option<Self> {
        Some(Self {
            name: text(value, "name")?,
            status: text(value, "status").unwrap_or_default(),
            conclusion: text(value, "conclusion"),
            started_at: time(value, "started_at"),
        })
    }
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(|text| text.chars().take(2000).collect())
}

fn time(value: &Value, key: &str) -> Option<Wall> {
    value.get(key).and_then(Value::as_str).and_then(Wall::parse)
}

/// Reads a listing in any of its shapes. A job that stands on two pages counts once, as the later page has it.
pub fn parse_listing(bytes: &[u8]) -> Result<Listing, JobsError> {
    if bytes.len() > MAX_JOBS_BYTES {
        return Err(JobsError::TooLarge);
    }
    let mut listing = Listing::default();
    let mut places = HashMap::new();
    for page in serde_json::Deserializer::from_slice(bytes).into_iter::<Value>() {
        let page = page.map_err(|error| JobsError::Shape(error.to_string().chars().take(200).collect()))?;
        listing.page(&page, &mut places);
    }
    if listing.jobs.is_empty() && (listing.skipped > 0 || bytes.trim_ascii().is_empty()) {
        return Err(JobsError::Shape("no job is in it".to_owned()));
    }
    Ok(listing)
}

impl Listing {
    /// `places` says where the job of a number stands.
    fn page(&mut self, page: &Value, places: &mut HashMap<u64, usize>) {
        match (page.as_array(), page.get("jobs").and_then(Value::as_array)) {
            (Some(list), _) => list.iter().for_each(|entry| match entry.get("jobs") {
                Some(_) => self.page(entry, places),
                None => self.entry(entry, places),
            }),
            (None, Some(list)) => list.iter().for_each(|entry| self.entry(entry, places)),
            (None, None) => self.entry(page, places),
        }
    }

    fn entry(&mut self, entry: &Value, places: &mut HashMap<u64, usize>) {
        let Some(job) = Job::from_value(entry) else {
            self.skipped += 1;
            return;
        };
        match job.id.and_then(|id| places.insert(id, self.jobs.len()).map(|known| (id, known))) {
            Some((id, known)) => {
                places.insert(id, known);
                self.jobs[known] = job;
            }
            None => self.jobs.push(job),
        }
    }
}

/// The job of a leg, by its exact name. Where the listing says run and attempt, these must be the leg's.
pub fn join<'j>(jobs: &'j [Job], leg: &LegId, name: &str) -> Join<'j> {
    let fits = |job: &&Job| {
        job.name == name
            && job.run_id.as_deref().is_none_or(|run| run == leg.run_id.as_str())
            && job.run_attempt.is_none_or(|attempt| attempt == leg.attempt.ordinal())
    };
    let mut fitting = jobs.iter().filter(fits);
    match (fitting.next(), fitting.count()) {
        (None, _) => Join::None,
        (Some(job), 0) => Join::One(job),
        (Some(_), more) => Join::Many(more + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn leg(attempt: &str) -> LegId {
        LegId { run_id: "7".into(), attempt: attempt.into(), platform: "p".into(), target: "t".into(), shard: None }
    }

    #[test]
    fn every_shape_of_a_listing_is_read() {
        let job = |id: u64, status: &str| {
            format!(r#"{{"id":{id},"name":"job {id}","status":"{status}","conclusion":null,"steps":null}}"#)
        };
        let (a, b) = (job(1, "queued"), job(2, "completed"));
        for text in [
            format!("[{a},{b}]"),
            format!(r#"{{"total_count":2,"jobs":[{a},{b}]}}"#),
            format!(r#"{{"jobs":[{a}]}}{{"jobs":[{b}]}}"#),
            format!("[{a}]\n[{b}]"),
            format!(r#"[{{"jobs":[{a}]}},{{"jobs":[{b}]}}]"#),
            format!("{a}\n{b}\n"),
            format!("[{},{b},{a}]", job(1, "in_progress")),
            format!(r#"[{a},{b},{{"odd":1}},3,null]"#),
        ] {
            let listing = parse_listing(text.as_bytes()).expect("it is a listing");
            let names: Vec<&str> = listing.jobs.iter().map(|job| job.name.as_str()).collect();
            assert_eq!(names, ["job 1", "job 2"], "{text}");
            assert_eq!(listing.jobs[0].status, "queued", "the later page counts: {text}");
        }
        for text in ["", "{", "[1,2]", "\"jobs\"", "{}"] {
            assert!(parse_listing(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(parse_listing(b"[]").map(|listing| listing.jobs.len()), Ok(0), "an empty page is a listing");
    }

    #[test]
    fn a_job_is_found_by_its_whole_name_run_and_attempt() {
        let job = |name: &str, run: Option<&str>, attempt: Option<u64>| Job {
            name: name.into(),
            run_id: run.map(str::to_owned),
            run_attempt: attempt,
            ..Job::default()
        };
        let jobs = [
            job("Integration (p · t)", Some("7"), Some(1)),
            job("Integration (p · t)", Some("7"), Some(2)),
            job("Integration (p · t)", Some("8"), Some(1)),
            job("twice", None, None),
            job("twice", None, None),
        ];
        let name = |name: &str, attempt: &str| match join(&jobs, &leg(attempt), name) {
            Join::One(job) => format!("{:?}", job.run_attempt),
            Join::None => "none".to_owned(),
            Join::Many(n) => format!("many {n}"),
        };
        assert_eq!(name("Integration (p · t)", "1"), "Some(1)");
        assert_eq!(name("Integration (p · t)", "2"), "Some(2)");
        assert_eq!(name("Integration (p · t)", "3"), "none");
        assert_eq!(name("Integration (p", "1"), "none");
        assert_eq!(name("twice", "1"), "many 2");
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse_listing(&bytes);
        }
    }
}
