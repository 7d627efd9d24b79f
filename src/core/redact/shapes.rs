//! Secrets by where they stand, when no variable holds them: behind a flag or in an assignment that is named like a secret, as the password
//! or a query parameter of a URL, in an authorisation. The name stays, so that people see what was there.
//!
//! Only whole text is looked at this way. A stream of output (a log) is searched for known values alone.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::names::{is_plainly_secret, is_secret_name, is_switch};

/// In a tail or an error. What follows a flag there after a blank is mostly prose, and stays unless it looks like a value.
pub(super) fn in_output(text: &str) -> String {
    hide(text, |value| value.len() >= 8 && value.bytes().any(|byte| byte.is_ascii_digit()))
}

pub(super) fn in_command_line(text: &str) -> String {
    hide(text, |_| true)
}

/// In the words of a command, of which each is whole: a value ends with its word, whatever is in it.
pub(super) fn in_words(words: &[String]) -> Vec<String> {
    let mut after_flag = false;
    let mut hidden = Vec::with_capacity(words.len());
    for word in words {
        let flag = word.strip_prefix('-').map(|rest| rest.trim_start_matches('-'));
        hidden.push(match (flag.and_then(|flag| flag.split_once('=')), flag) {
            (Some((name, value)), _) if is_secret_name(name) && !is_switch(value.as_bytes()) => {
                format!("{}***", &word[..word.len() - value.len()])
            }
            (None, None) if after_flag && !is_switch(word.as_bytes()) => "***".to_owned(),
            _ => in_command_line(word),
        });
        after_flag = flag.is_some_and(|flag| !flag.contains('=') && is_secret_name(flag));
    }
    hidden
}

fn hide(text: &str, stands_alone: impl Fn(&str) -> bool) -> String {
    let hidden = URL_PASSWORD.replace_all(text, "${1}***@");
    let hidden = URL_TOKEN.replace_all(&hidden, "${1}***@");
    let named = |found: &Captures<'_>, secret: bool| match secret && !is_switch(found["value"].as_bytes()) {
        true => format!("{}***", &found["before"]),
        false => found[0].to_owned(),
    };
    let hidden = PARAMETER.replace_all(&hidden, |found: &Captures<'_>| {
        let name = &found["name"];
        named(found, is_secret_name(name) || name.eq_ignore_ascii_case("sig"))
    });
    let hidden = AUTHORIZATION.replace_all(&hidden, "${before}***");
    let hidden = BEARER.replace_all(&hidden, "${before}***");
    let hidden = FLAG.replace_all(&hidden, |found: &Captures<'_>| {
        let joined = &found["between"] == "=";
        named(found, is_secret_name(&found["name"]) && (joined || stands_alone(&found["value"])))
    });
    let hidden = ASSIGNMENT.replace_all(&hidden, |found: &Captures<'_>| {
        let name = &found["name"];
        let is_variable = !name.bytes().any(|byte| byte.is_ascii_lowercase());
        named(found, is_plainly_secret(name) || (is_variable && is_secret_name(name)))
    });
    let hidden = FIELD.replace_all(&hidden, |found: &Captures<'_>| named(found, is_plainly_secret(&found["name"])));
    let hidden = HEADER.replace_all(&hidden, |found: &Captures<'_>| named(found, is_secret_name(&found["name"])));
    PASSWORD.replace_all(&hidden, "${before}***").into_owned()
}

fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a pattern that is written here is one")
}

/// `scheme://user:password@host`.
static URL_PASSWORD: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?i)\b([a-z][a-z0-9+.-]*://[^\s/:@?\#'"]*:)[^\s/@'"]+@"#));
/// `https://token@host`: a name of somebody is shorter.
static URL_TOKEN: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?i)\b(https?://)[^\s/:@?\#'"]{16,}@"#));
/// `?name=value&name=value`.
static PARAMETER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?<before>[?&;](?<name>[A-Za-z0-9_.%-]+)=)(?<value>[^&\s\#'"<>]+)"#));
/// The header, however it is quoted, with the kind of credential in front.
static AUTHORIZATION: LazyLock<Regex> = LazyLock::new(|| {
    let kinds = "bearer|basic|token|digest|negotiate|apikey|aws4-hmac-sha256";
    pattern(&format!(r#"(?i)(?<before>\b(?:proxy-)?authorization["']?\s*[:=]\s*["']?(?:(?:{kinds})\s+)?)[^\s"',]+"#))
});
static BEARER: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)(?<before>\bbearer\s+)[a-z0-9._~+/=-]{8,}"));
/// `--name=value`, `--name value`, `-name value`.
static FLAG: LazyLock<Regex> = LazyLock::new(|| {
    let quoted = r#""[^"]*"|'[^']*'"#;
    pattern(&format!(
        r#"(?<before>(?:^|[\s"'\[(,])--?(?<name>[A-Za-z0-9][A-Za-z0-9_.-]*)(?<between>=|["']\s*,\s*["']|\s+))(?<value>{quoted}|[^\s"'-][^\s"']*|-[^\s"'-][^\s"']*)"#
    ))
});
/// `NAME=value`.
static ASSIGNMENT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?<before>\b(?<name>[A-Za-z_][A-Za-z0-9_.-]*)=)(?<value>"[^"]*"|'[^']*'|[^\s"'&;,]+)"#));
/// `"name": "value"`.
static FIELD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?<before>["'](?<name>[A-Za-z_][A-Za-z0-9_.-]*)\\?["']\s*:\s*\\?["'])(?<value>[^"'\\]+)"#));
/// `X-Api-Key: value`.
static HEADER: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?<before>\b(?<name>[A-Za-z]+(?:-[A-Za-z]+)+|(?i:cookie)):\s*)(?<value>[^\s"']+)"#));
static PASSWORD: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?i)(?<before>\b(?:password|passwd|passphrase)\s*:[ \t]*)[^\s"',]+"#));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_command_line() {
        for (line, hidden) in [
            ("curl --password=hunter2 x", "curl --password=*** x"),
            ("tool --api-key=abc --verbose --token X -v", "tool --api-key=*** --verbose --token *** -v"),
            ("tool --token", "tool --token"),
            ("tool --token --verbose", "tool --token --verbose"),
            ("tool -o out --client-secret 'a b' end", "tool -o out --client-secret *** end"),
            ("tool -token abc", "tool -token ***"),
            ("tool --pin=1234 --auth basic --key true", "tool --pin=1234 --auth basic --key true"),
            ("git clone https://bob:pw@host/x?token=abc&depth=1", "git clone https://bob:***@host/x?token=***&depth=1"),
            ("git clone https://ghp_0123456789abcdef@host/x", "git clone https://***@host/x"),
            ("ssh ssh://git@host/x", "ssh ssh://git@host/x"),
            ("curl -H Authorization: Bearer abc.def https://h", "curl -H Authorization: Bearer *** https://h"),
            ("curl -H 'Authorization: Basic dTpw' -H 'X-Api-Key: k1'", "curl -H 'Authorization: Basic ***' -H 'X-Api-Key: ***'"),
            ("env MY_KEY=abc PATH=/bin sh", "env MY_KEY=*** PATH=/bin sh"),
            ("qemu-system-x86_64 -drive file=a.img,if=virtio -m 512", "qemu-system-x86_64 -drive file=a.img,if=virtio -m 512"),
            ("sleep 300", "sleep 300"),
        ] {
            assert_eq!(in_command_line(line), hidden, "{line}");
            assert_eq!(in_command_line(hidden), hidden, "once is enough");
        }
    }

    #[test]
    fn a_word_is_a_whole_value() {
        for (words, hidden) in [
            (&["t", "--password=a b", "--token", "c d", "-v"][..], "t --password=*** --token *** -v"),
            (&["t", "--token", "--verbose", "x"], "t --token --verbose x"),
            (&["curl", "-H", "Authorization: Bearer abc", "https://h"], "curl -H Authorization: Bearer *** https://h"),
            (&["sh", "-c", "run --key=abc; sleep 1"], "sh -c run --key=*** sleep 1"),
            (&["t", "--auth", "basic", "--pin=12"], "t --auth basic --pin=12"),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(in_words(&words).join(" "), hidden);
        }
    }

    #[test]
    fn secrets_of_output() {
        for (text, hidden) in [
            ("connecting to postgres://app:s3cret@db/x", "connecting to postgres://app:***@db/x"),
            ("GET https://b/o?X-Amz-Signature=abc&x=1 and ?sig=abc", "GET https://b/o?X-Amz-Signature=***&x=1 and ?sig=***"),
            (r#"{"password": "a b", "user":"bob"}"#, r#"{"password": "***", "user":"bob"}"#),
            ("password: hunter2\nnext", "password: ***\nnext"),
            ("authorization: token abc", "authorization: token ***"),
            ("sent bearer 0123456789abcdef", "sent bearer ***"),
            ("API_KEY=abc access_token=abc", "API_KEY=*** access_token=***"),
            ("--token is required; cache key=linux, pass=12 fail=0", "--token is required; cache key=linux, pass=12 fail=0"),
            ("--token ghs_0123456789", "--token ***"),
            (r#"spawn ["tool","--token","ghs_0123456789"]"#, r#"spawn ["tool","--token","***"]"#),
            ("unexpected token: ) at 3:14", "unexpected token: ) at 3:14"),
            ("PASS=12 FAIL=0 10:02:33", "PASS=12 FAIL=0 10:02:33"),
        ] {
            assert_eq!(in_output(text), hidden, "{text}");
            assert_eq!(in_output(hidden), hidden, "once is enough");
        }
    }
}
