//! ledger's own stdout and stderr: one thread that writes what files print, byte for byte, and what ledger says beside it.
//!
//! A reader that is slow holds back the file that prints, never the loop; a reader that has gone away costs the output and nothing
//! else. A stream that cannot be written, or that nobody reads once ledger wants to end, is given up with one warning on the other. It
//! must not decide what is said.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::host::clock;
use crate::host::outflow::Outflow;
use crate::report::escape;
use crate::report::live::Bar;

/// Pieces of output that may wait for a slow reader: 16 of at most 64 KiB.
const QUEUE: usize = 16;
/// How long a line of ledger's own waits for a reader that stands still.
const READER: Duration = Duration::from_secs(2);
/// How often a stream that nobody reads is asked whether it should be given up.
const LOOK: Duration = Duration::from_millis(100);
/// How long a reader may stand still once everything has run: long enough for one that was held up, and no run hangs on it.
pub const AT_THE_END: Duration = Duration::from_secs(10);
/// The same where somebody wants ledger to end.
pub const IN_A_HURRY: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

enum Message {
    Bytes(Stream, Vec<u8>),
    /// A whole line of ledger's own; it begins on a line of its own.
    Line(Stream, String),
    Bar(Box<Bar>),
    /// Enter was pressed: the bar stands a line higher than it was drawn.
    Entered,
    Flush(oneshot::Sender<()>),
}

/// The handle; clones write to the same thread.
#[derive(Clone)]
pub struct Console {
    queue: mpsc::Sender<Message>,
    patience: Arc<Patience>,
    /// A line of ledger's own found no room in time; the next ones do not wait again.
    stands_still: Arc<AtomicBool>,
    has_bar: bool,
}

impl Console {
    /// `bar` asks for a bar where stderr is a terminal. `kept` says where the output is that cannot be shown.
    pub fn start(bar: bool, kept: String) -> io::Result<Self> {
        let (queue, messages) = mpsc::channel(QUEUE);
        let has_bar = bar && io::stderr().is_terminal();
        let patience = Arc::new(Patience::default());
        let writer = Writer {
            out: Sink::new(Outflow::stdout(), Arc::clone(&patience)),
            err: Sink::new(Outflow::stderr(), Arc::clone(&patience)),
            bar: None,
            kept,
        };
        std::thread::Builder::new().name("ledger-console".to_owned()).spawn(move || writer.serve(messages))?;
        Ok(Self { queue, patience, stands_still: Arc::default(), has_bar })
    }

    /// From now on a stream is given up whose reader stands still for this long. Until this is said, only the file that prints waits.
    pub fn give_up_after(&self, standstill: Duration) {
        self.patience.end_after(standstill);
    }

    /// Bytes of a file, unchanged. Waits while the reader is slow.
    pub async fn bytes(&self, stream: Stream, bytes: Vec<u8>) {
        let _ = self.queue.send(Message::Bytes(stream, bytes)).await;
    }

    /// A workflow command or a result on stdout. A reader that stands still loses it: the loop goes on.
    pub async fn out(&self, line: String) {
        let wait = if self.stands_still.load(Ordering::Relaxed) { Duration::ZERO } else { READER };
        let sent = self.queue.send_timeout(Message::Line(Stream::Stdout, line), wait).await;
        self.stands_still.store(sent.is_err(), Ordering::Relaxed);
    }

    /// Status and warnings on stderr. Never waits: a line that finds no room is lost, as the output itself would be.
    pub fn say(&self, line: String) {
        let _ = self.queue.try_send(Message::Line(Stream::Stderr, line));
    }

    /// As `say`, for what must not be lost.
    pub async fn say_all(&self, line: String) {
        let _ = self.queue.send(Message::Line(Stream::Stderr, line)).await;
    }

    pub fn has_bar(&self) -> bool {
        self.has_bar
    }

    /// Draws the bar anew. Skipped while output is waiting: the bar is the least of it.
    pub fn draw(&self, bar: Bar) {
        if self.has_bar {
            let _ = self.queue.try_send(Message::Bar(Box::new(bar)));
        }
    }

    /// Somebody has pressed Enter at the terminal of the bar.
    pub fn entered(&self) {
        let _ = self.queue.try_send(Message::Entered);
    }

    /// Waits until everything said so far is written, at most this long.
    pub async fn flush(&self, at_most: Duration) {
        let (done, answer) = oneshot::channel();
        let all = async {
            if self.queue.send(Message::Flush(done)).await.is_ok() {
                let _ = answer.await;
            }
        };
        let _ = tokio::time::timeout(at_most, all).await;
    }
}

/// How long a reader may stand still.
#[derive(Debug)]
struct Patience {
    /// On the steady clock: since when there is a limit.
    since_ms: AtomicU64,
    limit_ms: AtomicU64,
}

impl Default for Patience {
    fn default() -> Self {
        Self { since_ms: AtomicU64::new(0), limit_ms: AtomicU64::new(u64::MAX) }
    }
}

impl Patience {
    fn end_after(&self, standstill: Duration) {
        let limit = u64::try_from(standstill.as_millis()).unwrap_or(u64::MAX);
        self.since_ms.store(clock::now().mono_ms, Ordering::Relaxed);
        self.limit_ms.fetch_min(limit, Ordering::Release);
    }

    /// Whether a reader that has stood still since then has had its time.
    fn is_over(&self, still_since_ms: u64) -> bool {
        let limit = self.limit_ms.load(Ordering::Acquire);
        let since = still_since_ms.max(self.since_ms.load(Ordering::Relaxed));
        limit != u64::MAX && clock::now().mono_ms.saturating_sub(since) >= limit
    }
}

struct Writer {
    out: Sink,
    err: Sink,
    bar: Option<crate::report::live::Drawn>,
    kept: String,
}

impl Writer {
    fn serve(mut self, mut messages: mpsc::Receiver<Message>) {
        while let Some(message) = messages.blocking_recv() {
            match message {
                Message::Bytes(stream, bytes) => {
                    self.hide_bar();
                    self.write(stream, &bytes);
                }
                Message::Line(stream, line) => {
                    self.hide_bar();
                    self.begin_line(stream);
                    self.write(stream, format!("{}\n", inert(line)).as_bytes());
                }
                Message::Bar(bar) => self.draw(&bar),
                Message::Entered => {
                    if let Some(drawn) = &self.bar {
                        drawn.entered();
                    }
                    self.hide_bar();
                }
                Message::Flush(done) => {
                    self.hide_bar();
                    let _ = done.send(());
                }
            }
        }
        self.hide_bar();
    }

    fn write(&mut self, stream: Stream, bytes: &[u8]) {
        let written = match stream {
            Stream::Stdout => self.out.write(bytes),
            Stream::Stderr => self.err.write(bytes),
        };
        // What goes wrong with stderr has nowhere to be said: stdout is for data.
        if let (Stream::Stdout, Err(trouble)) = (stream, written) {
            let why = match trouble {
                // It wanted no more of it.
                Trouble::Gone => return,
                Trouble::StandsStill => "nobody reads stdout".to_owned(),
                Trouble::Failed(error) => format!("stdout cannot be written: {error}"),
            };
            self.begin_line(Stream::Stderr);
            let text = format!("ledger: warning: {why}; the rest of the output is not shown; {}", self.kept);
            self.write(Stream::Stderr, format!("{}\n", inert(text)).as_bytes());
        }
    }

    /// One newline is added where a line of ours would follow an unfinished line of a file.
    fn begin_line(&mut self, stream: Stream) {
        let at_line_start = match stream {
            Stream::Stdout => self.out.at_line_start,
            Stream::Stderr => self.err.at_line_start,
        };
        if !at_line_start {
            self.write(stream, b"\n");
        }
    }

    /// A bar behind an unfinished line would overwrite it.
    fn draw(&mut self, bar: &Bar) {
        if self.out.at_line_start && self.err.at_line_start {
            self.bar.get_or_insert_with(crate::report::live::Drawn::on_stderr).draw(bar);
        }
    }

    fn hide_bar(&mut self) {
        if let Some(drawn) = &mut self.bar {
            drawn.hide();
        }
    }
}

/// A line of ours may quote a name; only a command that was made as one is left.
fn inert(line: String) -> String {
    if line.starts_with("::") { line } else { escape::message(&line) }
}

/// Why a stream was given up.
enum Trouble {
    Gone,
    StandsStill,
    Failed(io::Error),
}

struct Sink {
    flow: Outflow,
    patience: Arc<Patience>,
    given_up: bool,
    at_line_start: bool,
}

impl Sink {
    fn new(flow: Outflow, patience: Arc<Patience>) -> Self {
        Self { flow, patience, given_up: false, at_line_start: true }
    }

    /// Waits for a reader that is slow. Trouble is told once; after that everything is dropped.
    fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let Some(last) = bytes.last() else { return Ok(()) };
        self.at_line_start = *last == b'\n';
        if self.given_up {
            return Ok(());
        }
        let all = self.put_all(bytes);
        self.given_up = all.is_err();
        all
    }

    fn put_all(&mut self, mut rest: &[u8]) -> Result<(), Trouble> {
        let mut moved_ms = clock::now().mono_ms;
        while !rest.is_empty() {
            match self.flow.put(rest, LOOK) {
                Ok(0) if self.patience.is_over(moved_ms) => return Err(Trouble::StandsStill),
                Ok(0) => {}
                Ok(count) => {
                    rest = &rest[count..];
                    moved_ms = clock::now().mono_ms;
                }
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Err(Trouble::Gone),
                Err(error) => return Err(Trouble::Failed(error)),
            }
        }
        Ok(())
    }
}
