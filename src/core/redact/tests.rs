//! Redaction: exact values, encodings, cuts at any place.

use base64::Engine as _;
use proptest::prelude::*;

use super::*;

fn check(values: &[&str], input: &str, expect: &str) {
    let redactor = Redactor::new(values);
    assert_eq!(redactor.text(input), expect, "values {values:?}");
}

#[test]
fn exact_values() {
    check(&["hunter22"], "password is hunter22.", "password is ***.");
    check(&["hunter22"], "hunter2 hunter222", "hunter2 ***2");
    check(&["hunter22"], "hunter22hunter22", "***");
    check(&["abcd", "cdef"], "xabcdefx", "x***x");
    check(&["abcd", "abcdefgh"], "abcdefg abcdefgh", "***efg ***");
    check(&["aaaa"], "baaaaaaab", "b***b");
    check(&["secret\n"], "a secret here", "a *** here");
    check(&[], "nothing", "nothing");
}

/// What a report shows once control sequences are gone must not hold a value that was none with them in it.
#[test]
fn a_value_that_control_sequences_cut_apart() {
    let cut = [
        "\u{1b}[0m",
        "\u{1b}[38;5;12m",
        "\u{1b}]0;title\u{7}",
        "\u{1b}]8;;http://x\u{1b}\\",
        "\u{1b}(B",
        "\u{9b}1m",
        "\u{9d}t\u{7}",
        "\u{1b}c",
    ];
    for sequence in cut {
        check(&["hunter22"], &format!("{sequence}hunt{sequence}er22{sequence}."), &format!("{sequence}***{sequence}."));
        let each: String = "hunter22".chars().map(|c| format!("{sequence}{c}")).collect();
        check(&["hunter22"], &format!("<{each}>"), &format!("<{sequence}***>"));
        check(&["hunter22"], &format!("hunt{sequence}er2{sequence}3"), &format!("hunt{sequence}er2{sequence}3"));
    }
    // Also where the first try was another value's, where a half is shown, and in an encoded form.
    check(&["hunter22", "hunX"], "hunhun\u{1b}[mter22", "hun***");
    check(&["pß£word"], "pß\u{1b}[1m£word", "***");
    check(&["hunter22"], "68756e74\u{1b}[m65723232", "***");
    check(&["hunter22"], "hunt\u{1b}[3\ner22", "hunt\u{1b}[3\ner22");
    // A window behind a cut has this much before it; more than that is no colour.
    let long = format!("hunt\u{1b}]{}\u{7}er22", "x".repeat(5000));
    check(&["hunter22"], &long, &long);
}

#[test]
fn short_values_are_refused_and_said() {
    let redactor = Redactor::new(["", "a", "abc"]);
    assert_eq!(redactor.text("abc a"), "abc a");
    assert_eq!(redactor.refused(), [Refused::TooShort(1), Refused::TooShort(3)]);
}

#[test]
fn a_mask_is_no_secret() {
    check(&["****"], "**** stays", "**** stays");
}

#[test]
fn base64_at_every_alignment() {
    let secret = "s3cr3t/+value?";
    let redactor = Redactor::new([secret]);
    for before in ["", "u", "us", "use", "user:"] {
        for after in ["", "!", "!!", "!!!"] {
            let joined = format!("{before}{secret}{after}");
            for text in [
                base64::engine::general_purpose::STANDARD.encode(&joined),
                base64::engine::general_purpose::URL_SAFE.encode(&joined),
            ] {
                let out = redactor.text(&format!("Basic {text}"));
                assert!(out.contains("***"), "{joined}: {out}");
            }
        }
    }
}

#[test]
fn encodings() {
    let secret = "p@ss \"w/ö\\rd&<";
    let redactor = Redactor::new([secret]);
    for form in [
        "p%40ss%20%22w%2F%C3%B6%5Crd%26%3C",
        "p%40ss%20%22w%2f%c3%b6%5crd%26%3c",
        "p%40ss+%22w%2F%C3%B6%5Crd%26%3C",
        r#"p@ss \"w/ö\\rd&<"#,
        r#"p@ss \"w\/ö\\rd&<"#,
        r#"p@ss \"w/ö\\rd\u0026\u003c"#,
        r#"p@ss \"w/\u00f6\\rd&<"#,
    ] {
        assert_eq!(redactor.text(&format!("[{form}]")), "[***]", "{form}");
    }
}

#[test]
fn hexadecimal_digits_and_base64_that_is_broken_into_lines() {
    check(&["hunter22"], "68756e7465723232 and 68756E7465723232", "*** and ***");
    let secret: String = (0..150).map(|n| char::from(b'!' + (n * 7 % 90) as u8)).collect();
    let redactor = Redactor::new([&secret]);
    let text = base64::engine::general_purpose::STANDARD.encode(&secret);
    for width in [64, 76] {
        let lines: Vec<&str> =
            text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).expect("it is well formed")).collect();
        let shown = redactor.text(&lines.join("\n"));
        assert!(shown.lines().all(|line| line == "***"), "{width}: {shown}");
    }
}

#[test]
fn lines_of_a_key_are_hidden_one_by_one() {
    let key = "-----BEGIN KEY-----\nAAAABBBBCCCC\nDDDDEEEEFFFF\n-----END KEY-----\n";
    let redactor = Redactor::new([key]);
    assert_eq!(redactor.text("tail: DDDDEEEEFFFF\n"), "tail: ***\n");
    assert_eq!(redactor.text(key), "***\n");
}

#[test]
fn names() {
    for name in [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "npm_config_authToken",
        "DB_PASS",
        "MY_PAT",
        "api-key",
        "SSH_PRIVATE_KEY",
        "Password",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in ["PWD", "OLDPWD", "KEYBOARD", "PATH", "LEDGER_TOKEN", "SSH_AUTH_SOCK", "COMPASS_DIR", "MONKEYPATCH", "HOME"] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn masks_of_variables() {
    let variables = [
        ("LEDGER_MASK", "OTHER,literal-value"),
        ("OTHER", "other-value"),
        ("X_TOKEN", "tok-value"),
        ("Y_TOKEN", "true"),
        ("HOME", "/home/me"),
    ];
    let masks: Vec<String> =
        masks_of(&variables).into_iter().map(|mask| String::from_utf8(mask).expect("it is well formed")).collect();
    assert_eq!(masks, ["OTHER,literal-value", "other-value", "literal-value", "tok-value"]);
    assert_eq!(masks_of(&[("LEDGER_MASK", "A"), ("A", "value")]), [b"value".to_vec()]);
}

#[test]
fn a_value_added_while_its_beginning_is_held() {
    let mut redactor = Redactor::new(["abcdefgh"]);
    let mut stream = redactor.stream();
    let mut out = Vec::new();
    stream.push(b"x abcde", &mut out);
    assert_eq!((out.as_slice(), stream.held()), (b"x ".as_slice(), 5));
    assert_eq!(redactor.add([b"cdexyz"]), []);
    let refused = redactor.add([&b"abc"[..], b"cdexyz", b"xy"]);
    assert_eq!(refused, [Refused::TooShort(3), Refused::TooShort(2)]);
    assert_eq!(redactor.add([&b"abc"[..]]), [], "it is said once");
    stream.adopt(&redactor);
    stream.push(b"xyz!", &mut out);
    stream.finish(&mut out);
    assert_eq!(String::from_utf8_lossy(&out), "x ab***!");
}

#[test]
fn large_values_stay_inside_the_budget() {
    let long: String = (0..100_000_u32).map(|n| char::from(b'a' + (n % 251 * n % 23) as u8)).collect();
    let redactor = Redactor::new([long.as_str(), "short-secret"]);
    assert_eq!(redactor.text(&format!("x{long}y short-secret")), "x***y ***");
    assert!(redactor.refused().contains(&Refused::EncodingsLeftOut(100_000)) || redactor.refused().is_empty());
    let wide = Redactor::new((0..8).map(|n| format!("{n}{long}")));
    assert!(wide.refused().iter().any(|refused| matches!(refused, Refused::NoRoom(_))));
}

#[test]
fn a_held_beginning_is_not_shown_so_far() {
    let redactor = Redactor::new(["hunter22"]);
    assert_eq!(redactor.bytes_so_far(b"it is hunte"), b"it is ");
    assert_eq!(redactor.bytes(b"it is hunte"), b"it is hunte");
}

/// Values out of a small alphabet, so that they overlap, repeat and nest.
fn values() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(
        prop::collection::vec(prop_oneof![Just(b'a'), Just(b'b'), Just(0_u8), Just(0xff_u8), Just(b'%'), Just(0x1b_u8)], 4..9),
        0..5,
    )
}

/// Noise with values planted in it, and where to cut it.
fn case() -> impl Strategy<Value = (Vec<Vec<u8>>, Vec<u8>, Vec<usize>)> {
    values().prop_flat_map(|values| {
        let noise = prop::collection::vec(
            prop_oneof![Just(b'a'), Just(b'b'), Just(0_u8), Just(0xff_u8), Just(b'\n'), Just(0x1b_u8), Just(b'['), Just(b']')],
            0..12,
        )
        .boxed();
        let piece = if values.is_empty() { noise } else { prop_oneof![noise, prop::sample::select(values.clone())].boxed() };
        let text = prop::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat());
        (Just(values), text, prop::collection::vec(1_usize..9, 1..40))
    })
}

fn contains(text: &[u8], value: &[u8]) -> bool {
    text.windows(value.len()).any(|window| window == value)
}

proptest! {
    #[test]
    fn no_value_in_any_output_however_it_is_cut((values, text, cuts) in case()) {
        let redactor = Redactor::new(&values);
        let whole = redactor.bytes(&text);
        for value in &values {
            prop_assert!(!contains(&whole, forms::trimmed(value)) || forms::trimmed(value).len() < SHORTEST);
        }
        let mut stream = redactor.stream();
        let (mut out, mut rest, mut cuts) = (Vec::new(), text.as_slice(), cuts.iter().cycle());
        while !rest.is_empty() {
            let cut = (*cuts.next().expect("there is one")).min(rest.len());
            stream.push(&rest[..cut], &mut out);
            prop_assert!(stream.held() < redactor.reach().max(1));
            rest = &rest[cut..];
        }
        stream.finish(&mut out);
        prop_assert_eq!(out, whole);
    }

    #[test]
    fn text_without_a_value_is_unchanged(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let redactor = Redactor::new(["\u{1F512}never-there"]);
        prop_assert_eq!(redactor.bytes(&text), text);
    }
}
