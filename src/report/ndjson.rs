//! `--format ndjson`: one leg per line.

use crate::core::row::Summary;

pub fn render(summary: &Summary) -> String {
    let mut text = String::new();
    for leg in &summary.legs {
        text.push_str(&serde_json::to_string(leg).expect("a row has only string keys and finite numbers"));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::row::LegRow;
    use crate::report::fixtures;

    #[test]
    fn one_line_per_leg() {
        let summary = fixtures::hostile();
        let text = render(&summary);
        let rows: Vec<LegRow> = text.lines().map(|line| serde_json::from_str(line).expect("JSON that fits")).collect();
        assert_eq!(rows, summary.legs);
        assert_eq!(render(&fixtures::empty()), "");
    }
}
