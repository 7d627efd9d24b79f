//! Lines through few points: least squares, and the robust slope with its interval.

use serde::{Deserialize, Serialize};

/// 1.96 standard deviations leave 5 % outside.
const Z_95: f64 = 1.959_964;

/// How a value goes with position.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// How many points there were.
    pub n: usize,
    /// Least squares: what one far-off point can make of it is its weakness and its use.
    pub least_squares: f64,
    /// The median of the slopes of all pairs (Theil and Sen): one far-off point hardly moves it.
    pub robust: f64,
    /// The 95 % interval of the robust slope, from the distribution of Kendall's rank statistic. `null` below 5 points.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

/// `None` below 3 points, or where all stand at one position.
pub fn fit(points: &[(f64, f64)]) -> Option<Fit> {
    let least_squares = least_squares(points).filter(|_| points.len() >= 3)?;
    let mut slopes = Vec::with_capacity(points.len() * points.len() / 2);
    for (at, (x0, y0)) in points.iter().enumerate() {
        slopes.extend(points[at + 1..].iter().filter(|(x, _)| x != x0).map(|(x, y)| (y - y0) / (x - x0)));
    }
    slopes.sort_by(f64::total_cmp);
    let robust = median_sorted(&slopes)?;
    let n = points.len() as f64;
    let spread = Z_95 * (n * (n - 1.0) * (2.0 * n + 5.0) / 18.0).sqrt();
    let pairs = slopes.len() as f64;
    // Ranks of the two ends among the sorted slopes. Below 5 points the interval would be all of them and say nothing.
    let rank = |at: f64| slopes.get(at.clamp(0.0, pairs - 1.0) as usize).copied();
    let (low, high) = if points.len() < 5 {
        (None, None)
    } else {
        (rank(((pairs - spread) / 2.0).floor()), rank(((pairs + spread) / 2.0).ceil()))
    };
    Some(Fit { n: points.len(), least_squares, robust, low, high })
}

/// The slope of least squares. `None` below 2 points, or where all stand at one position.
pub fn least_squares(points: &[(f64, f64)]) -> Option<f64> {
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let mean_y = points.iter().map(|(_, y)| y).sum::<f64>() / n;
    let across: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let along: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    (points.len() >= 2 && across > 0.0).then(|| along / across)
}

pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    median_sorted(&sorted)
}

fn median_sorted(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// The 95 % interval of a median, from the sign test: order statistics, no assumption about the distribution. `None` below 6 values.
pub fn median_interval(values: &[f64]) -> Option<(f64, f64)> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let n = sorted.len();
    let (mut term, mut tail, mut cut) = (0.5_f64.powi(i32::try_from(n).ok()?), 0.0, None);
    // The largest number of values that may lie outside at each end with at most 2.5 % there.
    for k in 0..n / 2 {
        tail += term;
        if tail > 0.025 {
            break;
        }
        cut = Some(k);
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    let cut = cut?;
    Some((sorted[cut], sorted[n - 1 - cut]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_lines() {
        let line: Vec<(f64, f64)> = (0..12).map(|x| (f64::from(x), 1.0 + 0.026 * f64::from(x))).collect();
        let fit = fit(&line).expect("it is there");
        assert!((fit.least_squares - 0.026).abs() < 1e-9 && (fit.robust - 0.026).abs() < 1e-9);
        assert!((fit.low.expect("it is there") - 0.026).abs() < 1e-9);
    }

    #[test]
    fn one_far_point_moves_least_squares_only() {
        let mut line: Vec<(f64, f64)> = (0..12).map(|x| (f64::from(x), 1.0)).collect();
        line[10].1 = 3.0;
        let fit = fit(&line).expect("it is there");
        assert!(fit.least_squares > 0.05 && fit.robust.abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn few_points_claim_little() {
        assert_eq!(fit(&[(0.0, 1.0), (1.0, 2.0)]), None);
        assert_eq!(fit(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(fit(&[(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]).expect("it is there").low, None);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(median_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]), Some((1.0, 6.0)));
        assert_eq!(median(&[3.0, 1.0]), Some(2.0));
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_slope(values in prop::collection::vec(-1e6_f64..1e6, 5..60)) {
            let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect();
            let fit = fit(&points).expect("it is there");
            prop_assert!(fit.low.expect("it is there") <= fit.robust && fit.robust <= fit.high.expect("it is there"));
        }
    }
}
