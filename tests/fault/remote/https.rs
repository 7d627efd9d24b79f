//! `https://` against a collector of our own: CASES 34, 36, 37, 42.

use std::time::Duration;

use ci_ledger::core::ids::{Epoch, Seq};
use ci_ledger::core::moment::{Secs, Wall};
use ci_ledger::sink::{self, Backend, Narrow, SinkContext, Trouble, Variables};

use super::collector::{Collector, TOKEN};
use super::{batch, context, event};

fn variables() -> Variables {
    Variables::of([("LEDGER_HTTPS_TOKEN", TOKEN)])
}

async fn begin(collector: &Collector) -> (SinkContext, Box<dyn Backend>) {
    let context = context(&variables());
    let mut sink = sink::open(&collector.url(), &context).unwrap();
    assert_eq!(sink.position().await.unwrap(), Seq(0));
    (context, sink)
}

#[tokio::test]
async fn a_leg_goes_out_in_batches_and_comes_back_in_pages() {
    let collector = Collector::start().await;
    let (made, mut sink) = begin(&collector).await;
    sink.send(&batch(&made, 1..=4)).await.unwrap();
    sink.send(&batch(&made, 5..=8)).await.unwrap();
    for number in 2..=6 {
        let mut other = made.clone();
        other.leg.run_id = format!("run {number}&é").as_str().into();
        let mut sink = sink::open(&collector.url(), &other).unwrap();
        sink.position().await.unwrap();
        sink.send(&batch(&other, 1..=1)).await.unwrap();
    }
    let source = sink::open_source(&collector.url(), &variables()).unwrap();
    let all = source.legs(&Narrow::default(), Wall(0)).await.unwrap();
    assert_eq!(all.len(), 6, "three pages of two");
    let asked = Narrow { run_id: Some(made.leg.run_id.clone()), ..Narrow::default() };
    let found = source.legs(&asked, Wall(0)).await.unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].marker.as_ref().unwrap().age < Secs::from_secs(30));
    let text = source.segment(&found[0], &found[0].segments[0]).await.unwrap();
    let expected: String = (1..=8).map(|seq| format!("{}\n", event(seq).line)).collect();
    assert_eq!(String::from_utf8(text).unwrap(), expected);
}

#[tokio::test]
async fn a_lost_answer_is_no_lost_event_and_another_writer_is_fenced() {
    let collector = Collector::start().await;
    let (made, mut sink) = begin(&collector).await;
    collector.held.lock().unwrap().forget = true;
    assert!(matches!(sink.send(&batch(&made, 1..=3)).await.unwrap_err().trouble, Trouble::Retryable { after: None }));
    assert_eq!(sink.position().await.unwrap(), Seq(3));
    sink.send(&batch(&made, 1..=3)).await.unwrap();
    sink.send(&batch(&made, 4..=4)).await.unwrap();
    let mut other = batch(&made, 4..=4);
    other.events[0].line = "{\"seq\":4,\"kind\":\"other\"}".into();
    assert_eq!(sink.send(&other).await.unwrap_err().trouble, Trouble::Fenced);
    let mut second = made.clone();
    second.epoch = Epoch::parse("another").unwrap();
    let mut beside = sink::open(&collector.url(), &second).unwrap();
    assert_eq!(beside.position().await.unwrap(), Seq(0));
    beside.send(&batch(&second, 1..=1)).await.unwrap();
    assert_eq!(collector.held.lock().unwrap().epochs.len(), 2);
}

#[tokio::test]
async fn an_answer_for_what_was_never_sent_is_no_delivery() {
    let collector = Collector::start().await;
    let (made, mut sink) = begin(&collector).await;
    collector.held.lock().unwrap().claim = Some(999_999);
    let error = sink.send(&batch(&made, 1..=3)).await.unwrap_err();
    assert!(error.detail.contains("answers for event 999999, which was never sent"), "{error:?}");
    assert_eq!(error.trouble, Trouble::Retryable { after: None });
    assert_eq!(sink.position().await.unwrap(), Seq(3), "what it holds is asked again");
    sink.send(&batch(&made, 4..=4)).await.unwrap();
}

#[tokio::test]
async fn refusals_are_told_apart() {
    let collector = Collector::start().await;
    let (made, mut sink) = begin(&collector).await;
    let after = |seconds| Trouble::Retryable { after: Some(Duration::from_secs(seconds)) };
    for (status, headers, trouble, word) in [
        (401, vec![], Trouble::Refused, "LEDGER_HTTPS_TOKEN"),
        (403, vec![], Trouble::Refused, "may not do this"),
        (404, vec![], Trouble::Refused, "collector.md"),
        (409, vec![], Trouble::Fenced, "409"),
        (413, vec![], Trouble::Refused, "413"),
        (422, vec![], Trouble::Refused, "422"),
        (429, vec![("retry-after", "9".to_owned())], after(9), "9 s"),
        (503, vec![("retry-after", "2".to_owned())], after(2), "2 s"),
        (429, vec![], Trouble::Retryable { after: None }, "429"),
        (500, vec![], Trouble::Retryable { after: None }, "500"),
        (302, vec![("location", "http://127.0.0.2/elsewhere".to_owned())], Trouble::Refused, "elsewhere"),
        (307, vec![("location", "http://127.0.0.2:1/elsewhere".to_owned())], Trouble::Refused, "elsewhere"),
    ] {
        collector.held.lock().unwrap().faults = vec![Some((status, headers))];
        let error = sink.send(&batch(&made, 1..=1)).await.unwrap_err();
        assert!(error.trouble == trouble && error.detail.contains(word), "{status}: {error:?}");
        assert!(!format!("{error:?}").contains(TOKEN));
    }
    let mut without = sink::open(&collector.url(), &context(&Variables::default())).unwrap();
    assert!(without.position().await.unwrap_err().detail.contains("set LEDGER_HTTPS_TOKEN"));
    for url in ["http://example.org/x", "https://user:pass@example.org/x", "https://"] {
        assert_eq!(sink::open(url, &made).map(|_| ()).unwrap_err().trouble, Trouble::Usage, "{url}");
    }
}

#[tokio::test]
async fn a_check_writes_reads_back_and_takes_away() {
    let collector = Collector::start().await;
    let mut made = context(&variables());
    made.leg = sink::check_leg("ledger-check-1");
    let checked = sink::check(&collector.url(), &made, Wall(0)).await.unwrap();
    assert_eq!(checked.removed, Ok(sink::Removed::Gone));
    assert!(collector.held.lock().unwrap().epochs.is_empty());
}

/// A collector need not delete anything, and an answer may be lost on its way: neither leaves a leg that somebody would miss.
#[tokio::test]
async fn what_a_check_leaves_behind_is_nobodys_leg() {
    let collector = Collector::start().await;
    let mut made = context(&variables());
    made.leg = sink::check_leg("ledger-check-0192f3a4-0000-7000-8000-000000000000");
    // Position, batch, legs, events; then the removal.
    collector.held.lock().unwrap().faults = vec![Some((405, vec![])), None, None, None, None];
    let checked = sink::check(&collector.url(), &made, Wall(0)).await.unwrap();
    assert!(matches!(checked.removed, Ok(sink::Removed::Kept(why)) if why.contains("deletes nothing")), "{:?}", checked.removed);
    assert_eq!(collector.held.lock().unwrap().epochs.len(), 1);
    let source = sink::open_source(&collector.url(), &variables()).unwrap();
    assert_eq!(source.legs(&Narrow::default(), Wall(0)).await.unwrap(), []);
    let asked = Narrow { run_id: Some(made.leg.run_id.clone()), ..Narrow::default() };
    assert_eq!(source.legs(&asked, Wall(0)).await.unwrap().len(), 1, "who asks for it is shown it");

    collector.held.lock().unwrap().epochs.clear();
    collector.held.lock().unwrap().forget = true;
    sink::check(&collector.url(), &made, Wall(0)).await.unwrap_err();
    assert!(collector.held.lock().unwrap().epochs.is_empty(), "it takes back what arrived all the same");
}
