//! Sinks that fail, lie, hang and are shared: the run is unharmed, the evidence arrives once, in order.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use ci_ledger::core::chain::{Chain, Stored};
use ci_ledger::core::ids::{Digest, Epoch, Seq};
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::sink::{
    self, Backend, Backlog, Batch, Capabilities, Flusher, FlusherOptions, Narrow, Patience, SinkContext, SinkError, SinkNews,
    Takes, Trouble, Variables,
};
use ci_ledger::store::LedgerFolder;

use super::events::{START, leg, moment, needed, run_finished, writer};

fn context() -> SinkContext {
    SinkContext::new(leg(), Epoch::parse("e").unwrap())
}

fn event(seq: u64) -> Stored {
    let line = format!("{{\"seq\":{seq},\"text\":\"{}\"}}", "x".repeat(100));
    Stored { seq: Seq(seq), digest: Digest::of(line.as_bytes()), line: line.into(), progress: true }
}

fn events(range: std::ops::RangeInclusive<u64>) -> Vec<Stored> {
    range.map(event).collect()
}

/// The ledger of these tests: every event there is.
struct Everything;

impl Backlog for Everything {
    fn read_after(&self, after: Seq, most_events: usize, _: usize) -> Result<Vec<Stored>, String> {
        Ok((after.0 + 1..=after.0 + most_events as u64).map(event).collect())
    }
}

/// What a scripted sink does with a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mood {
    Well,
    /// Takes its time.
    Slow,
    /// Fails before anything is written.
    Fails,
    /// Writes, and the answer is lost.
    Forgets,
    Hangs,
    Fences,
    /// Says no: a permission is missing.
    Refuses,
    /// Wants to be left alone for as long as this, and says so each time.
    Orders(Duration),
}

#[derive(Default)]
struct Held {
    lines: BTreeMap<u64, String>,
    markers: Vec<String>,
    plans: Vec<String>,
    calls: u32,
    sent_twice: u32,
}

struct Scripted {
    url: &'static str,
    held: Arc<Mutex<Held>>,
    mood: Box<dyn Fn(u32) -> Mood + Send + Sync>,
    interval: Secs,
    takes: Takes,
}

impl Scripted {
    fn new(mood: impl Fn(u32) -> Mood + Send + Sync + 'static) -> (Box<Self>, Arc<Mutex<Held>>) {
        let held = Arc::new(Mutex::new(Held::default()));
        let sink = Self {
            url: "test:",
            held: Arc::clone(&held),
            mood: Box::new(mood),
            interval: Secs::ZERO,
            takes: Takes::EventsAndMarker,
        };
        (Box::new(sink), held)
    }

    async fn call(&self) -> Result<Mood, SinkError> {
        let calls = {
            let mut held = self.held.lock().unwrap();
            held.calls += 1;
            held.calls
        };
        match (self.mood)(calls) {
            Mood::Fails => Err(SinkError::retryable(self.url, "scripted failure")),
            Mood::Fences => Err(SinkError::new(self.url, Trouble::Fenced, "scripted fence")),
            Mood::Refuses => Err(SinkError::new(self.url, Trouble::Refused, "scripted refusal")),
            Mood::Orders(after) => {
                Err(SinkError::new(self.url, Trouble::Retryable { after: Some(after) }, "scripted order to wait"))
            }
            Mood::Hangs => std::future::pending().await,
            Mood::Slow => {
                tokio::time::sleep(SECOND / 4).await;
                Ok(Mood::Well)
            }
            mood => Ok(mood),
        }
    }

    fn answer(&self, mood: Mood) -> Result<(), SinkError> {
        if mood == Mood::Forgets { Err(SinkError::retryable(self.url, "scripted loss of the answer")) } else { Ok(()) }
    }
}

#[async_trait]
impl Backend for Scripted {
    fn url(&self) -> &str {
        self.url
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { takes: self.takes, marker_bytes: 1000, interval: self.interval, burst: 0 }
    }

    async fn position(&mut self) -> Result<Seq, SinkError> {
        let mood = self.call().await?;
        self.answer(mood)?;
        Ok(Seq(self.held.lock().unwrap().lines.keys().last().copied().unwrap_or(0)))
    }

    async fn put_plan(&mut self, plan: &[u8]) -> Result<(), SinkError> {
        let mood = self.call().await?;
        self.held.lock().unwrap().plans.push(String::from_utf8(plan.to_vec()).unwrap());
        self.answer(mood)
    }

    async fn send(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mood = self.call().await?;
        {
            let mut held = self.held.lock().unwrap();
            for event in &batch.events {
                let newest = held.lines.keys().last().copied().unwrap_or(0);
                assert!(event.seq.0 <= newest + 1, "event {} was sent after {newest}", event.seq);
                if held.lines.insert(event.seq.0, event.line.to_string()).is_some() {
                    held.sent_twice += 1;
                }
            }
            held.markers.push(String::from_utf8(batch.marker.clone()).unwrap());
        }
        self.answer(mood)
    }
}

fn start(sinks: Vec<Box<dyn Backend>>) -> (Flusher, tokio::sync::mpsc::Receiver<SinkNews>) {
    let render = Arc::new(|lease: Secs, budget: usize| format!("lease {lease} budget {budget}").into_bytes());
    Flusher::start(sinks, FlusherOptions { backlog: Arc::new(Everything), render, heartbeat: Secs::from_secs(30) }).unwrap()
}

fn news_of(received: &mut tokio::sync::mpsc::Receiver<SinkNews>) -> Vec<SinkNews> {
    std::iter::from_fn(|| received.try_recv().ok()).collect()
}

const SECOND: Duration = Duration::from_secs(1);
/// What is granted where nothing may wait that long: whoever waits for it all the same runs into `prompt`.
const HOUR: Duration = Duration::from_secs(3600);

/// The answer of something that must not wait for what it was granted. How fast it is belongs to `cargo bench`; here a bound of an hour is
/// told from no wait at all, on a busy host too.
async fn prompt<T>(what: &str, answer: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(60), answer).await.unwrap_or_else(|_| panic!("{what}: what was granted is waited for"))
}

fn patience(total: u64) -> Patience {
    Patience { silence: Duration::from_secs(total), total: Duration::from_secs(total) }
}

#[tokio::test]
async fn a_boundary_is_one_write_and_the_barrier_waits_for_it() {
    let (sink, held) = Scripted::new(|_| Mood::Well);
    let (flusher, mut news) = start(vec![sink]);
    flusher.offer(&events(1..=3));
    flusher.barrier(Seq(3), SECOND).await;
    assert_eq!(held.lock().unwrap().lines.len(), 3);
    flusher.offer(&events(4..=5));
    flusher.barrier(Seq(5), SECOND).await;
    {
        let held = held.lock().unwrap();
        assert_eq!((held.lines.len(), held.markers.len(), held.plans.len()), (5, 2, 1));
        assert_eq!(held.markers[0], "lease 1m30s budget 1000");
        assert_eq!(held.plans[0], *event(1).line);
    }
    // A marker is refreshed also when nothing could be stored (a full disk drops heartbeats).
    flusher.offer(&[]);
    let states = flusher.finish(patience(5)).await;
    assert_eq!(held.lock().unwrap().markers.len(), 3);
    assert_eq!((states[0].sent, states[0].unsent, states[0].degraded), (5, 0, false));
    assert!(news_of(&mut news).is_empty());
}

#[tokio::test]
async fn whichever_call_fails_everything_arrives_once_and_in_order() {
    for mood in [Mood::Fails, Mood::Forgets] {
        for nth in 1..8 {
            let (sink, held) = Scripted::new(move |call| if call == nth { mood } else { Mood::Well });
            let (flusher, mut news) = start(vec![sink]);
            for seq in 1..=4 {
                flusher.offer(&[event(seq)]);
                flusher.barrier(Seq(seq), SECOND).await;
            }
            let states = flusher.finish(patience(5)).await;
            let held = held.lock().unwrap();
            assert_eq!(held.lines.keys().copied().collect::<Vec<_>>(), [1, 2, 3, 4], "call {nth}");
            assert_eq!(held.sent_twice, 0, "call {nth}");
            assert_eq!((states[0].unsent, states[0].degraded), (0, false), "call {nth}");
            let failed = held.calls >= nth;
            let news = news_of(&mut news);
            let degraded = news.iter().filter(|news| matches!(news, SinkNews::Degraded { .. })).count();
            let recovered = news.iter().filter(|news| matches!(news, SinkNews::Recovered { .. })).count();
            assert_eq!((degraded, recovered), (usize::from(failed), usize::from(failed)), "call {nth}: {news:?}");
        }
    }
}

#[tokio::test]
async fn a_silent_sink_costs_one_second_once_and_starves_no_other() {
    let (silent, _) = Scripted::new(|_| Mood::Hangs);
    let (well, held) = Scripted::new(|_| Mood::Well);
    let (flusher, mut news) = start(vec![silent, well]);
    let begun = Instant::now();
    flusher.offer(&[event(1)]);
    prompt("the first boundary", flusher.barrier(Seq(1), SECOND)).await;
    let first = begun.elapsed();
    assert!(first >= SECOND, "{first:?}");
    for seq in 2..=20 {
        flusher.offer(&[event(seq)]);
        prompt("a later boundary", flusher.barrier(Seq(seq), HOUR)).await;
    }
    assert_eq!(held.lock().unwrap().lines.len(), 20);
    let states = prompt("the end", flusher.settle(Patience { silence: SECOND, total: HOUR })).await;
    assert!(states[0].degraded && states[0].unsent == 20 && !states[1].degraded, "{states:?}");
    // The end waits for a silent sink once, not once per step of the end.
    let states = prompt("the end's second step", flusher.finish(Patience { silence: HOUR, total: HOUR })).await;
    assert_eq!(states[1].unsent, 0);
    assert_eq!(news_of(&mut news).len(), 1);
}

#[tokio::test]
async fn what_memory_could_not_hold_is_read_again_from_the_ledger() {
    let well = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&well);
    let (sink, held) = Scripted::new(move |_| if seen.load(Ordering::SeqCst) { Mood::Well } else { Mood::Fails });
    let (flusher, _news) = start(vec![sink]);
    // More than the queue's bound of 2048 events, so that its beginning is given up.
    for first in (1..=6000).step_by(100) {
        flusher.offer(&events(first..=first + 99));
    }
    flusher.barrier(Seq(6000), SECOND).await;
    well.store(true, Ordering::SeqCst);
    let states = flusher.finish(patience(20)).await;
    assert_eq!((states[0].sent, states[0].unsent), (6000, 0));
    let held = held.lock().unwrap();
    assert_eq!((held.lines.len(), held.sent_twice), (6000, 0));
}

#[tokio::test]
async fn a_fenced_sink_is_left_alone() {
    let (sink, held) = Scripted::new(|call| if call < 3 { Mood::Well } else { Mood::Fences });
    let (flusher, mut news) = start(vec![sink]);
    for seq in 1..=5 {
        flusher.offer(&[event(seq)]);
        flusher.barrier(Seq(seq), SECOND).await;
    }
    let states = flusher.finish(Patience::default()).await;
    assert!(states[0].degraded && states[0].error.as_deref() == Some("scripted fence"), "{states:?}");
    assert_eq!(held.lock().unwrap().calls, 3);
    assert_eq!(news_of(&mut news).len(), 1);
}

#[tokio::test]
async fn a_sink_with_an_interval_gathers_is_not_waited_for_and_gets_the_end_at_once() {
    let (mut sink, held) = Scripted::new(|_| Mood::Well);
    sink.interval = Secs::from_secs(3600);
    sink.takes = Takes::MarkerOnly;
    let (flusher, _news) = start(vec![sink]);
    flusher.reachable(SECOND).await.unwrap();
    for seq in 1..=50 {
        flusher.offer(&[event(seq)]);
        prompt("a boundary", flusher.barrier(Seq(seq), HOUR)).await;
    }
    let states = prompt("the end", flusher.finish(Patience { silence: HOUR, total: HOUR })).await;
    let held = held.lock().unwrap();
    assert!(held.markers.len() <= 2 && held.lines.is_empty(), "{} markers", held.markers.len());
    assert_eq!(held.markers.last().unwrap(), "lease 3h00m budget 1000");
    assert_eq!((states[0].sent, states[0].unsent), (50, 0));
}

/// A write on its way is not one that has arrived: `settle` waits for it, whichever call of it is on its way when the end comes.
#[tokio::test]
async fn the_end_waits_for_the_write_that_is_on_its_way() {
    for nth in 2..=5 {
        let (sink, held) = Scripted::new(move |call| if call >= nth { Mood::Slow } else { Mood::Well });
        let (flusher, _news) = start(vec![sink]);
        flusher.reachable(SECOND).await.unwrap();
        for seq in 1..=3 {
            flusher.offer(&[event(seq)]);
            let begun = Instant::now();
            while held.lock().unwrap().calls < nth && begun.elapsed() < SECOND / 10 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            let states = flusher.settle(patience(5)).await;
            assert_eq!((states[0].sent, states[0].unsent), (seq, 0), "call {nth}");
        }
    }
}

/// Who waits at the end waits for a word that may come. One that has said no gets no second of silence on top, neither at the end of a run
/// nor under `--require-sink`, whose patience is far longer; one that asks for a moment each time does not get a moment each time.
#[tokio::test]
async fn a_sink_that_says_no_is_not_waited_for() {
    for (mood, silence) in [
        (Mood::Refuses, HOUR),
        (Mood::Orders(HOUR * 2), HOUR),
        (Mood::Orders(SECOND / 10), SECOND),
        (Mood::Fails, SECOND),
        (Mood::Hangs, SECOND),
    ] {
        for before_the_end in [false, true] {
            // It can be read and not written: what a fork's token is.
            let (sink, held) = Scripted::new(move |call| if call == 1 { Mood::Well } else { mood });
            let (flusher, _news) = start(vec![sink]);
            flusher.reachable(SECOND).await.unwrap();
            flusher.offer(&[event(1)]);
            if before_the_end {
                flusher.barrier(Seq(1), SECOND).await;
            }
            let states = prompt(&format!("{mood:?}"), flusher.settle(Patience { silence, total: HOUR })).await;
            assert!(states[0].degraded && states[0].unsent == 1, "{mood:?}: {states:?}");
            // It is asked once more at the end, for somebody may have mended it.
            assert!(held.lock().unwrap().calls >= 2 + u32::from(before_the_end && mood == Mood::Refuses), "{mood:?}");
        }
    }
}

#[tokio::test]
async fn reachable_tells_before_anything_runs() {
    let (well, held) = Scripted::new(|_| Mood::Well);
    let (flusher, _news) = start(vec![well]);
    flusher.reachable(SECOND).await.unwrap();
    assert_eq!(held.lock().unwrap().markers.len(), 0);
    for mood in [Mood::Fails, Mood::Hangs] {
        let (sink, _) = Scripted::new(move |_| mood);
        let (flusher, _news) = start(vec![sink]);
        let silent = flusher.reachable(SECOND).await.unwrap_err();
        assert_eq!(silent.len(), 1);
    }
}

#[tokio::test]
async fn a_leg_goes_out_to_a_folder_and_comes_home_whole() {
    let dir = tempfile::tempdir().unwrap();
    let url = url::Url::from_directory_path(dir.path().join("sink")).unwrap().to_string();
    let folder = LedgerFolder::create(&dir.path().join(".ledger")).unwrap();
    let ledger = writer(&folder, "e");
    let (flusher, _news) = start(vec![sink::open(&url, &context()).unwrap()]);
    flusher.reachable(SECOND * 5).await.unwrap();
    let mut lines = Vec::new();
    for number in 0..5 {
        let body = if number == 4 { run_finished() } else { needed(&format!("n{number}\n")) };
        let appended = ledger.append(moment(number), vec![body]).await.unwrap();
        flusher.offer(&appended.stored);
        flusher.barrier(appended.stored[0].seq, SECOND).await;
        lines.push(appended.stored[0].line.to_string());
    }
    let states = flusher.finish(Patience::default()).await;
    assert_eq!((states[0].sent, states[0].unsent, states[0].degraded), (5, 0, false), "{states:?}");
    ledger.close().await.unwrap();

    let source = sink::open_source(&url, &Variables::default()).unwrap();
    let now =
        Wall(std::fs::metadata(dir.path()).unwrap().modified().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis()
            as i64);
    let found = source.legs(&Narrow::default(), now.plus(Secs::from_secs(100))).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].plan.as_deref(), Some(lines[0].as_bytes()));
    let marker = found[0].marker.as_ref().unwrap();
    assert_eq!(marker.bytes, b"lease 1m30s budget 65536");
    assert!(marker.age > Secs::from_secs(80) && marker.age < Secs::from_secs(101), "{:?}", marker.age);
    let mut chain = Chain::default();
    let mut home = Vec::new();
    for name in &found[0].segments {
        for line in String::from_utf8(source.segment(&found[0], name).await.unwrap()).unwrap().lines() {
            chain.follow(line, None).unwrap();
            home.push(line.to_owned());
        }
    }
    assert_eq!(home, lines);
    assert!(chain.ended());
    for (narrow, count) in [
        (Narrow { run_id: Some(leg().run_id), ..Narrow::default() }, 1),
        (Narrow { platform: Some(leg().platform), target: Some(leg().target), ..Narrow::default() }, 1),
        (Narrow { run_id: Some("other".into()), ..Narrow::default() }, 0),
        (Narrow { target: Some("other".into()), ..Narrow::default() }, 0),
    ] {
        assert_eq!(source.legs(&narrow, now).await.unwrap().len(), count, "{narrow:?}");
    }
}

/// A store that was deaf takes a write after its writer has given it up: the next, longer one meets it under the same name.
#[tokio::test]
async fn a_write_that_arrives_late_is_no_second_writer() {
    let dir = tempfile::tempdir().unwrap();
    let url = url::Url::from_directory_path(dir.path()).unwrap().to_string();
    let batch = |range| Batch { events: events(range), marker: b"{}".to_vec() };
    let mut given_up = sink::open(&url, &context()).unwrap();
    let mut sink = sink::open(&url, &context()).unwrap();
    assert_eq!((given_up.position().await.unwrap(), sink.position().await.unwrap()), (Seq(0), Seq(0)));
    given_up.send(&batch(1..=2)).await.unwrap();
    let late = sink.send(&batch(1..=5)).await.unwrap_err();
    assert!(matches!(late.trouble, Trouble::Retryable { .. }), "{late}");
    assert_eq!(sink.position().await.unwrap(), Seq(2));
    sink.send(&batch(3..=5)).await.unwrap();
    assert_eq!(sink.position().await.unwrap(), Seq(5));
}

#[tokio::test]
async fn two_writers_of_one_epoch_are_fenced_and_equal_content_is_success() {
    let dir = tempfile::tempdir().unwrap();
    let url = url::Url::from_directory_path(dir.path()).unwrap().to_string();
    let batch = |text: &str| Batch {
        events: vec![Stored { seq: Seq(1), digest: Digest::genesis(), line: text.into(), progress: true }],
        marker: text.as_bytes().to_vec(),
    };
    let mut first = sink::open(&url, &context()).unwrap();
    let mut second = sink::open(&url, &context()).unwrap();
    assert_eq!((first.position().await.unwrap(), second.position().await.unwrap()), (Seq(0), Seq(0)));
    first.put_plan(b"plan").await.unwrap();
    first.send(&batch("{\"seq\":1}")).await.unwrap();
    second.put_plan(b"plan").await.unwrap();
    second.send(&batch("{\"seq\":1}")).await.unwrap();
    let fenced = second.send(&batch("{\"seq\":1,\"other\":1}")).await.unwrap_err();
    assert_eq!(fenced.trouble, Trouble::Fenced, "{fenced}");
    assert_eq!(second.put_plan(b"another plan").await.unwrap_err().trouble, Trouble::Fenced);
    assert_eq!(second.position().await.unwrap(), Seq(1));
    // Another attempt stands beside it.
    let mut other = context();
    other.leg.attempt = "2".into();
    let mut third = sink::open(&url, &other).unwrap();
    assert_eq!(third.position().await.unwrap(), Seq(0));
    third.send(&batch("{\"seq\":1,\"other\":1}")).await.unwrap();
    let found = sink::open_source(&url, &Variables::default()).unwrap().legs(&Narrow::default(), Wall(0)).await.unwrap();
    assert_eq!(found.len(), 2);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_is_refused_and_one_that_comes_back_is_used_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("share");
    std::fs::write(&path, "no folder").unwrap();
    let url = url::Url::from_directory_path(&path).unwrap().to_string();
    let (flusher, mut news) = start(vec![sink::open(&url, &context()).unwrap()]);
    assert!(flusher.reachable(SECOND).await.is_err());
    flusher.offer(&events(1..=3));
    std::fs::remove_file(&path).unwrap();
    let states = flusher.finish(patience(10)).await;
    assert_eq!((states[0].sent, states[0].unsent, states[0].degraded), (3, 0, false), "{states:?}");
    assert_eq!(news_of(&mut news).len(), 2);
}

#[test]
fn a_url_that_names_no_sink_is_refused() {
    for url in ["", "file:", "file://host/path", "ftp://x", "/tmp/x", "nonsense"] {
        let error = sink::open(url, &context()).map(|_| ()).unwrap_err();
        assert_eq!(error.trouble, Trouble::Usage, "{url}: {error}");
    }
}

#[tokio::test]
async fn a_sink_is_checked_by_writing_and_reading_back() {
    let dir = tempfile::tempdir().unwrap();
    let url = url::Url::from_directory_path(dir.path()).unwrap().to_string();
    let mut check = context();
    check.leg.run_id = "check-1".into();
    let found = sink::check(&url, &check, START).await.unwrap();
    assert_eq!((found.leg.segments.len(), found.removed), (1, Ok(sink::Removed::Gone)));
    assert!(std::fs::read_dir(dir.path()).unwrap().next().is_none(), "a check leaves nothing");
    let file = dir.path().join("file");
    std::fs::write(&file, "").unwrap();
    let url = url::Url::from_directory_path(&file).unwrap().to_string();
    assert!(sink::check(&url, &check, START).await.is_err());
}
