//! ledger's own stdout and stderr: one thread that writes what files print, byte for byte, and what ledger says beside it.
//!
//! A reader that is slow holds back the file that prints, never the loop; a reader that has gone away costs the output and nothing
//! else. It must not decide what is said.

use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};

use crate::report::escape;
use crate::report::live::Bar;

/// Pieces of output that may wait for a slow reader: 16 of at most 64 KiB.
const QUEUE: usize = 16;
/// How long a line of ledger's own waits for a reader that stands still.
const READER: Duration = Duration::from_secs(2);

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
    has_bar: bool,
}

impl Console {
    /// `bar` asks for a bar where stderr is a terminal.
    pub fn start(bar: bool) -> io::Result<Self> {
        let (queue, messages) = mpsc::channel(QUEUE);
        let has_bar = bar && io::stderr().is_terminal();
        std::thread::Builder::new()
            .name("ledger-console".to_owned())
            .spawn(move || Writer { out: Sink::new(io::stdout()), err: Sink::new(io::stderr()), bar: None }.serve(messages))?;
        Ok(Self { queue, has_bar })
    }

    /// Bytes of a file, unchanged. Waits while the reader is slow.
    pub async fn bytes(&self, stream: Stream, bytes: Vec<u8>) {
        let _ = self.queue.send(Message::Bytes(stream, bytes)).await;
    }

    /// A workflow command or a result on stdout. A reader that stands still loses it: the loop goes on.
    pub async fn out(&self, line: String) {
        let sent = self.queue.send_timeout(Message::Line(Stream::Stdout, line), READER);
        let _ = sent.await;
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

struct Writer {
    out: Sink<io::Stdout>,
    err: Sink<io::Stderr>,
    bar: Option<crate::report::live::Drawn>,
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
        match stream {
            Stream::Stdout => self.out.write(bytes),
            Stream::Stderr => self.err.write(bytes),
        }
    }

    /// One newline is added where a line of ours would follow an unfinished line of a file.
    fn begin_line(&mut self, stream: Stream) {
        match stream {
            Stream::Stdout if !self.out.at_line_start => self.out.write(b"\n"),
            Stream::Stderr if !self.err.at_line_start => self.err.write(b"\n"),
            _ => {}
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

struct Sink<W> {
    inner: W,
    closed: bool,
    at_line_start: bool,
}

impl<W: Write> Sink<W> {
    fn new(inner: W) -> Self {
        Self { inner, closed: false, at_line_start: true }
    }

    fn write(&mut self, bytes: &[u8]) {
        let Some(last) = bytes.last() else { return };
        self.at_line_start = *last == b'\n';
        if !self.closed && self.inner.write_all(bytes).and_then(|()| self.inner.flush()).is_err() {
            self.closed = true;
        }
    }
}
