//! One row of the table of budgets: a figure with its spread, beside its reference out of the same run.

use std::time::Duration;

/// Measured values of one thing, sorted.
pub struct Figures {
    values: Vec<f64>,
    unit: &'static str,
}

impl Figures {
    pub fn new(mut values: Vec<f64>, unit: &'static str) -> Self {
        assert!(!values.is_empty(), "nothing was measured");
        values.sort_by(f64::total_cmp);
        Self { values, unit }
    }

    pub fn ms(times: &[Duration]) -> Self {
        Self::new(times.iter().map(|time| time.as_secs_f64() * 1000.0).collect(), "ms")
    }

    fn at(&self, share: f64) -> f64 {
        self.values[((self.values.len() - 1) as f64 * share).round() as usize]
    }

    pub fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Median, and the middle eight tenths.
    pub fn words(&self) -> String {
        match self.values.len() {
            1 => format!("{} {}", short(self.values[0]), self.unit),
            _ => format!("{} {} ({} to {})", short(self.median()), self.unit, short(self.at(0.1)), short(self.at(0.9))),
        }
    }
}

fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Prints a row: what, measured, the reference of the same run, measured ÷ reference, budget, whether it is met. `at_most` is the budget
/// as a number in the unit of the figures; a row without one is there for comparison.
pub fn row(what: &str, measured: &Figures, reference: Option<(&str, &Figures)>, budget: &str, at_most: Option<f64>) {
    let (beside, ratio) = match reference {
        Some((name, figures)) => {
            // A figure that is a ratio itself has nothing to be divided by.
            let ratio = (measured.unit == figures.unit).then(|| format!("{:.2}", measured.median() / figures.median()));
            (format!("{name}: {}", figures.words()), ratio.unwrap_or_default())
        }
        None => ("none".to_owned(), String::new()),
    };
    let met = match at_most {
        Some(most) if measured.median() <= most => "yes",
        Some(_) => "NO",
        None => "",
    };
    println!("| {what} | {} | {beside} | {ratio} | {budget} | {met} |", measured.words());
}
