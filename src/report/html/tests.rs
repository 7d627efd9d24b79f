//! The page as text: inert, whole, bounded.

use super::*;
use crate::report::fixtures;

/// Tags and attributes of a page, read the strict way: what is not one of ours came from outside.
fn tags(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = html;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let end = rest.find('>').expect("every tag is closed");
        let tag = &rest[..end];
        found.push(tag.split_whitespace().next().unwrap_or_default().trim_start_matches('/').to_owned());
        rest = &rest[end + 1..];
        if let Some(skipped) = ["script", "style"].iter().find(|name| tag == **name) {
            rest = &rest[rest.find(&format!("</{skipped}>")).expect("it is closed")..];
        }
    }
    found
}

#[test]
fn hostile_text_is_inert() {
    let page = render(&fixtures::hostile());
    assert!(page.chars().all(|c| c == '\n' || !c.is_control()), "a control character is left");
    assert!(!page.contains('\u{202e}'));
    let known: HashSet<&str> = [
        "!doctype", "html", "head", "meta", "title", "style", "body", "a", "header", "h1", "h2", "h3", "ul", "li", "b", "main",
        "p", "span", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "div", "dl", "dt", "dd", "pre", "svg", "g",
        "rect", "path", "text", "circle", "footer", "script", "button",
    ]
    .into();
    for tag in tags(&page) {
        assert!(known.contains(tag.as_str()), "<{tag}>");
    }
    assert_eq!(page.matches("<script>").count(), 1);
    assert!(!page.contains("<img") && !page.contains("\"alert") && page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn the_page_needs_nothing_else() {
    let page = render(&fixtures::night());
    for part in ["src=", "href=\"http", "@import", "url(", "<link", "<img"] {
        assert!(!page.contains(part), "{part}");
    }
    assert!(page.contains("default-src 'none'"));
}

/// Every link has a place, and no place is there twice.
fn check_links(page: &str) {
    let ids: Vec<&str> = page.split(" id=\"").skip(1).filter_map(|part| part.split('"').next()).collect();
    let unique: HashSet<&str> = ids.iter().copied().collect();
    assert_eq!(ids.len(), unique.len());
    for link in page.split("href=\"#").skip(1).filter_map(|part| part.split('"').next()) {
        assert!(unique.contains(link), "#{link}");
    }
}

#[test]
fn links_lead_somewhere_and_ids_are_unique() {
    let mut night = fixtures::night();
    night.legs.push(night.legs[0].clone());
    check_links(&render(&night));
    assert_eq!(leg_id(&night.legs[0]), leg_id(&fixtures::night().legs[0]), "a shared link stays");
}

#[test]
fn missing_results_are_never_called_zero_failures() {
    let mut night = fixtures::night();
    night.legs.retain(|leg| Verdict::of(leg) != Verdict::Fail);
    let page = render(&night);
    assert!(page.contains("none seen, results are missing") && !page.contains("<b>0</b>fail"));
    assert!(render(&fixtures::empty()).contains("There is no leg in this evidence."));
}

#[test]
fn a_night_of_15_legs_is_below_a_megabyte_and_a_thousand_legs_stay_bounded() {
    let page = render(&fixtures::full_night(15, 12));
    assert!(page.len() < 1_000_000, "{} bytes", page.len());
    let page = render(&fixtures::full_night(1000, 12));
    assert!(page.len() < 6_000_000, "{} bytes", page.len());
}

#[test]
fn a_page_of_long_failures_stays_bounded() {
    let mut summary = fixtures::full_night(60, 12);
    for leg in &mut summary.legs {
        let mut failed = leg.files[0].clone();
        failed.outcome = Some(crate::core::outcome::Outcome::TestFailure);
        failed.last_output = Some("<&\n".repeat(5000));
        leg.files = (1..=100).map(|index| crate::core::row::FileRow { index, ..failed.clone() }).collect();
    }
    let page = render(&summary);
    assert!(page.len() < 8_000_000, "{} bytes", page.len());
    assert!(page.contains("more legs without details here"));
    check_links(&page);
}
