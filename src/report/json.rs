//! `--format json`: the shape of DESIGN §12, which is `Summary` itself.

use crate::core::row::Summary;

pub fn render(summary: &Summary) -> String {
    let mut text = serde_json::to_string_pretty(summary).expect("a summary has only string keys and finite numbers");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fixtures;

    #[test]
    fn json_is_the_summary_and_reads_back() {
        for summary in [fixtures::night(), fixtures::hostile(), fixtures::empty()] {
            let text = render(&summary);
            assert!(text.ends_with("}\n"));
            assert_eq!(serde_json::from_str::<Summary>(&text).expect("JSON that fits"), summary);
        }
        insta::assert_snapshot!("night", render(&fixtures::night()));
        insta::assert_snapshot!("hostile", render(&fixtures::hostile()));
    }
}
