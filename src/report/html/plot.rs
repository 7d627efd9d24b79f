//! The few shapes that the page's plots are made of: hand-made SVG, numbers rounded to a tenth, colours by class.

use std::fmt::Write as _;

use crate::report::escape;

/// More points than this are not seen apart in a lane of some 600 units.
const POINTS: usize = 160;

/// Text that went through `escape::line` or `block`, as the inside of an element or of a quoted attribute.
pub fn text(inert: &str) -> String {
    escape::html(inert)
}

/// A number without needless digits.
pub fn number(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    if rounded.fract() == 0.0 { format!("{rounded:.0}") } else { format!("{rounded:.1}") }
}

/// Maps a range of values to a range of the plot. A range of no width maps to its middle.
#[derive(Debug, Clone, Copy)]
pub struct Scale {
    pub low: f64,
    pub high: f64,
    pub from: f64,
    pub to: f64,
}

impl Scale {
    pub fn at(self, value: f64) -> f64 {
        let span = self.high - self.low;
        let share = if span > 0.0 { ((value - self.low) / span).clamp(0.0, 1.0) } else { 0.5 };
        self.from + share * (self.to - self.from)
    }
}

/// At most `POINTS` points: the lowest and the highest of each stretch, so that no peak is lost.
pub fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    if points.len() <= POINTS {
        return points.to_vec();
    }
    let stretch = points.len().div_ceil(POINTS / 2);
    let mut kept = Vec::with_capacity(POINTS);
    for part in points.chunks(stretch) {
        let low = (0..part.len()).min_by(|a, b| part[*a].1.total_cmp(&part[*b].1)).unwrap_or(0);
        let high = (0..part.len()).max_by(|a, b| part[*a].1.total_cmp(&part[*b].1)).unwrap_or(0);
        kept.push(part[low.min(high)]);
        if low != high {
            kept.push(part[low.max(high)]);
        }
    }
    kept
}

/// A polyline through the points.
pub fn path(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    for (at, (x, y)) in points.iter().enumerate() {
        let _ = write!(out, "{}{} {}", if at == 0 { "M" } else { "L" }, number(*x), number(*y));
    }
    out
}

/// The same as stairs: each value holds until the next point.
pub fn stairs(points: &[(f64, f64)]) -> String {
    let mut out = String::new();
    for (at, (x, y)) in points.iter().enumerate() {
        let _ = match at {
            0 => write!(out, "M{} {}", number(*x), number(*y)),
            _ => write!(out, "H{}V{}", number(*x), number(*y)),
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peaks_survive_thinning() {
        let mut points: Vec<(f64, f64)> = (0..10_000).map(|x| (f64::from(x), 1.0)).collect();
        points[7777].1 = 99.0;
        let kept = thinned(&points);
        assert!(kept.len() <= POINTS && kept.contains(&(7777.0, 99.0)));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }

    #[test]
    fn shapes() {
        assert_eq!(path(&[(0.0, 1.04), (2.0, 3.06)]), "M0 1L2 3.1");
        assert_eq!(stairs(&[(0.0, 1.0), (2.0, 3.0)]), "M0 1H2V3");
        let scale = Scale { low: 0.0, high: 10.0, from: 100.0, to: 0.0 };
        assert_eq!((scale.at(0.0), scale.at(10.0), scale.at(99.0)), (100.0, 0.0, 0.0));
        assert_eq!(Scale { high: 0.0, ..scale }.at(0.0), 50.0);
    }
}
