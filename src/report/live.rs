//! The bar of a run on a terminal. It draws what it is given and knows nothing of the run.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What the bar shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bar {
    pub done: u64,
    /// `None` for a run with an open end.
    pub planned: Option<u64>,
    pub text: String,
}

/// The bar on stderr.
pub struct Drawn {
    bar: ProgressBar,
    shown: bool,
}

impl Drawn {
    pub fn on_stderr() -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        // A template of our own cannot be malformed; the default style stands in for it all the same.
        let style =
            ProgressStyle::with_template("{bar:16} {pos}/{len} {wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style);
        Self { bar, shown: false }
    }

    pub fn draw(&mut self, bar: &Bar) {
        if !self.shown {
            self.bar.reset();
        }
        if let Some(planned) = bar.planned {
            self.bar.set_length(planned);
        }
        self.bar.set_position(bar.done);
        self.bar.set_message(bar.text.clone());
        self.bar.tick();
        self.shown = true;
    }

    /// Clears the line, so that whatever is written next stands alone.
    pub fn hide(&mut self) {
        if std::mem::take(&mut self.shown) {
            self.bar.finish_and_clear();
        }
    }
}
