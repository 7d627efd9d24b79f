//! `ledger trend` as text: the verdict first, then the figures behind it.

use crate::core::trend::{Fit, Trend};
use crate::report::escape;
use crate::report::style::{Ink, Style};

/// A leg with more files than this shows those that cost most beyond their reference.
const FILES_SHOWN: usize = 40;

pub fn render(trends: &[Trend], style: Style) -> String {
    let mut out = String::new();
    for trend in trends {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&one(trend, style));
    }
    style.glyphs(&out)
}

pub fn json(trends: &[Trend]) -> String {
    let document = serde_json::json!({"v": 1, "trends": trends});
    let mut text = serde_json::to_string_pretty(&document).expect("a value has a JSON form");
    text.push('\n');
    text
}

fn one(trend: &Trend, style: Style) -> String {
    let mut out = format!("{}\n", style.paint(Ink::Strong, &escape::name(&trend.leg)));
    for said in &trend.verdict {
        out.push_str(&format!("  {} {}\n", style.bullet(), escape::sentence(said)));
    }
    out.push_str("  not seen:\n");
    for said in &trend.not_seen {
        out.push_str(&format!("  {} {}\n", style.bullet(), escape::sentence(said)));
    }
    if !trend.reference.is_empty() {
        let named: Vec<String> = trend.reference.iter().take(4).map(|leg| escape::name(leg)).collect();
        let more = trend.reference.len().saturating_sub(named.len());
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        out.push_str(&format!("  reference: {}{more}\n", named.join("; ")));
    }
    out.push_str(&slopes(trend));
    out.push_str(&files(trend));
    out.push_str(&resources(trend));
    out
}

fn slopes(trend: &Trend) -> String {
    let rows = [
        ("as measured", &trend.raw),
        ("without no-VM time", &trend.without_idle),
        ("without named parts", &trend.without_components),
    ];
    let known: Vec<_> = rows.iter().filter_map(|(name, fit)| Some((name, fit.as_ref()?))).collect();
    if known.is_empty() {
        return String::new();
    }
    let mut out = format!("\n  {:<22}{:>4}{:>15}{:>10}  95 % interval\n", "SLOPE PER FILE", "N", "LEAST SQUARES", "ROBUST");
    for (name, Fit { n, least_squares, robust, low, high }) in known {
        let interval = low.zip(*high).map_or("–".to_owned(), |(low, high)| format!("{low:+.3} to {high:+.3}"));
        out.push_str(&format!("  {name:<22}{n:>4}{least_squares:>+15.3}{robust:>+10.3}  {interval}\n"));
    }
    out
}

fn files(trend: &Trend) -> String {
    if trend.files.is_empty() {
        return String::new();
    }
    let mut shown: Vec<_> = trend.files.iter().collect();
    if shown.len() > FILES_SHOWN {
        shown.sort_by(|a, b| (b.duration_s - b.reference_s).total_cmp(&(a.duration_s - a.reference_s)));
        shown.truncate(FILES_SHOWN);
        shown.sort_by_key(|file| file.position);
    }
    let mut out = format!("\n  {:>3} {:>9} {:>9} {:>6} {:>8} {:>8}  FILE\n", "#", "SECONDS", "REFER.", "RATIO", "NO VM", "PARTS");
    let span = |seconds: Option<f64>| seconds.map_or("–".to_owned(), |seconds| format!("{seconds:.0}"));
    for file in &shown {
        out.push_str(&format!(
            "  {:>3} {:>9.1} {:>9.1} {:>6.2} {:>8} {:>8}  {}\n",
            file.position,
            file.duration_s,
            file.reference_s,
            file.ratio,
            span(file.idle_s),
            span(Some(file.components_s).filter(|seconds| *seconds > 0.0)),
            escape::name(&file.file)
        ));
    }
    if shown.len() < trend.files.len() {
        out.push_str(&format!("  the {} files that cost most beyond their reference, of {}\n", shown.len(), trend.files.len()));
    }
    out
}

fn resources(trend: &Trend) -> String {
    if trend.resources.is_empty() {
        return String::new();
    }
    let mut out =
        format!("\n  {:<22}{:>10}{:>10}{:>10}{:>12}  95 % interval\n", "AT THE END OF A FILE", "FIRST", "LAST", "NET", "PER FILE");
    for resource in &trend.resources {
        let name = if resource.unit.is_empty() {
            resource.what.words().to_owned()
        } else {
            format!("{}, {}", resource.what.words(), resource.unit)
        };
        let slope = resource.slope.map_or("–".to_owned(), |fit| format!("{:+.1}", fit.robust));
        let bounds = resource.slope.and_then(|fit| fit.low.zip(fit.high));
        let interval = bounds.map_or("–".to_owned(), |(low, high)| format!("{low:+.1} to {high:+.1}"));
        out.push_str(&format!(
            "  {name:<22}{:>10.0}{:>10.0}{:>+10.0}{slope:>12}  {interval}\n",
            resource.first, resource.last, resource.net
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::core::row::LegRow;
    use crate::core::trend::{Question, analyse};
    use crate::report::fixtures::{self, HOSTILE};

    fn long(platform: &str, last: f64) -> LegRow {
        let mut leg = fixtures::leg(platform, "stable", json!({"files_planned": 8, "files_reported": 8}));
        let seconds = |n: u32| if n == 8 { last } else { 20.0 + f64::from(n) };
        leg.files = (1..=8).map(|n| fixtures::file(n, &format!("test/{n}.test.ts"), json!({"duration_s": seconds(n)}))).collect();
        leg
    }

    #[test]
    fn a_leg_against_another() {
        let (judged, reference) = (long("macos-x86", 200.0), long("linux-x86", 28.0));
        let trend = analyse(Question { leg: &judged, reference: &[&reference] });
        insta::assert_snapshot!(render(std::slice::from_ref(&trend), Style::PLAIN));
        let read: serde_json::Value = serde_json::from_str(&json(&[trend])).expect("JSON that fits");
        assert_eq!(read["trends"][0]["lever"]["file"], "test/8.test.ts");
    }

    #[test]
    fn hostile_names_are_inert() {
        let (mut judged, mut reference) = (long(HOSTILE, 200.0), long(HOSTILE, 28.0));
        for leg in [&mut judged, &mut reference] {
            leg.files.iter_mut().for_each(|file| file.file = format!("{HOSTILE}{}", file.index));
        }
        reference.run_id = "other".into();
        let text = render(&[analyse(Question { leg: &judged, reference: &[&reference] })], Style::PLAIN);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
