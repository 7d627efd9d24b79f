//! Expressions of workflows, as far as this project's files use them; an unknown function is a panic, not a guess.

use serde_json::{Value, json};

/// How the steps before ended, for `success()`, `failure()`, `cancelled()`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Success,
    Failure,
    Cancelled,
}

impl Status {
    pub fn word(self) -> &'static str {
        match self {
            Status::Success => "success",
            Status::Failure => "failure",
            Status::Cancelled => "cancelled",
        }
    }
}

/// The contexts of one place: `github`, `inputs`, `steps` and so on, by name.
#[derive(Debug, Clone)]
pub struct Contexts {
    pub values: Value,
    pub status: Status,
}

impl Contexts {
    /// Replaces every `${{ … }}` of a text.
    pub fn text(&self, template: &str) -> String {
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find("${{") {
            out.push_str(&rest[..at]);
            let end = rest[at..].find("}}").unwrap_or_else(|| panic!("an expression without an end: {template}")) + at;
            out.push_str(&shown(&self.value(&rest[at + 3..end])));
            rest = &rest[end + 2..];
        }
        out + rest
    }

    /// A scalar of the file: a text with expressions, or a plain number or truth value.
    pub fn scalar(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => match text.trim().strip_prefix("${{").and_then(|text| text.strip_suffix("}}")) {
                Some(inner) if !inner.contains("}}") => self.value(inner),
                _ => Value::String(self.text(text)),
            },
            other => other.clone(),
        }
    }

    pub fn value(&self, expression: &str) -> Value {
        let tokens = tokens(expression);
        let mut parser = Parser { tokens: &tokens, at: 0, contexts: self };
        let value = parser.or();
        assert_eq!(parser.at, tokens.len(), "what is after the end of: {expression}");
        value
    }

    /// A step's or job's `if`; without a status function it also asks for success.
    pub fn condition(&self, written: Option<&Value>) -> bool {
        let expression = match written {
            None => "success()".to_owned(),
            Some(Value::String(text)) => text.trim().trim_start_matches("${{").trim_end_matches("}}").to_owned(),
            Some(other) => other.to_string(),
        };
        let asks = ["always(", "success(", "failure(", "cancelled("].iter().any(|word| expression.contains(word));
        (asks || self.status == Status::Success) && truthy(&self.value(&expression))
    }
}

pub fn truthy(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(truth) => *truth,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        _ => true,
    }
}

/// A value where a text is wanted.
pub fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(_) | Value::Object(_) => panic!("a list or an object where a text is wanted: {value}"),
        other => other.to_string(),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Literal(Value),
    Sign(&'static str),
}

fn tokens(text: &str) -> Vec<Token> {
    const SIGNS: [&str; 12] = ["==", "!=", "&&", "||", "!", "(", ")", "[", "]", ".", ",", "*"];
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length;
        if first == '\'' {
            let mut end = 1;
            while let Some(at) = rest[end..].find('\'') {
                end += at + 1;
                if !rest[end..].starts_with('\'') {
                    break;
                }
                end += 1;
            }
            found.push(Token::Literal(Value::String(rest[1..end - 1].replace("''", "'"))));
            length = end;
        } else if first.is_ascii_digit() {
            length = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            found.push(Token::Literal(rest[..length].parse().expect("a number")));
        } else if first.is_alphabetic() || first == '_' {
            length = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '-').unwrap_or(rest.len());
            found.push(match &rest[..length] {
                "true" => Token::Literal(json!(true)),
                "false" => Token::Literal(json!(false)),
                "null" => Token::Literal(Value::Null),
                name => Token::Name(name.to_owned()),
            });
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign)).unwrap_or_else(|| panic!("what is this: {rest}"));
            found.push(Token::Sign(sign));
            length = sign.len();
        }
        rest = rest[length..].trim_start();
    }
    found
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    contexts: &'a Contexts,
}

impl Parser<'_> {
    fn takes(&mut self, sign: &'static str) -> bool {
        let found = self.tokens.get(self.at) == Some(&Token::Sign(sign));
        self.at += usize::from(found);
        found
    }

    /// `a || b` is a where a is true, as the service has it.
    fn or(&mut self) -> Value {
        let mut left = self.and();
        while self.takes("||") {
            let right = self.and();
            left = if truthy(&left) { left } else { right };
        }
        left
    }

    fn and(&mut self) -> Value {
        let mut left = self.equality();
        while self.takes("&&") {
            let right = self.equality();
            left = if truthy(&left) { right } else { left };
        }
        left
    }

    fn equality(&mut self) -> Value {
        let left = self.unary();
        if self.takes("==") {
            return json!(equal(&left, &self.unary()));
        }
        if self.takes("!=") {
            return json!(!equal(&left, &self.unary()));
        }
        left
    }

    fn unary(&mut self) -> Value {
        if self.takes("!") { json!(!truthy(&self.unary())) } else { self.primary() }
    }

    fn primary(&mut self) -> Value {
        if self.takes("(") {
            let inner = self.or();
            assert!(self.takes(")"), "a bracket without an end");
            return inner;
        }
        let token = self.tokens.get(self.at).cloned().expect("an expression ends too early");
        self.at += 1;
        match token {
            Token::Literal(value) => value,
            Token::Name(name) if self.takes("(") => self.call(&name),
            Token::Name(name) => {
                let mut value = self.contexts.values.get(&name).unwrap_or_else(|| panic!("no context '{name}' here")).clone();
                while self.takes(".") {
                    let Some(Token::Name(key)) = self.tokens.get(self.at) else { panic!("no name after a dot") };
                    value = value.get(key).cloned().unwrap_or_default();
                    self.at += 1;
                }
                value
            }
            Token::Sign(sign) => panic!("'{sign}' where a value is wanted"),
        }
    }

    fn call(&mut self, name: &str) -> Value {
        let mut given = Vec::new();
        while !self.takes(")") {
            given.push(self.or());
            self.takes(",");
        }
        let is = |status| json!(self.contexts.status == status);
        match (name, given.as_slice()) {
            ("always", []) => json!(true),
            ("success", []) => is(Status::Success),
            ("failure", []) => is(Status::Failure),
            ("cancelled", []) => is(Status::Cancelled),
            ("fromJSON", [text]) => serde_json::from_str(&shown(text)).expect("fromJSON has JSON"),
            ("toJSON", [value]) => json!(value.to_string()),
            ("contains", [Value::Array(list), item]) => json!(list.iter().any(|entry| equal(entry, item))),
            ("contains", [text, item]) => json!(shown(text).to_lowercase().contains(&shown(item).to_lowercase())),
            ("startsWith", [text, head]) => json!(shown(text).to_lowercase().starts_with(&shown(head).to_lowercase())),
            ("hashFiles", _) => json!("0"),
            _ => panic!("no function {name} with {} arguments here", given.len()),
        }
    }
}

/// Texts are compared without their case, as the service does.
fn equal(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::String(a), Value::String(b)) => a.to_lowercase() == b.to_lowercase(),
        (Value::Null, Value::String(text)) | (Value::String(text), Value::Null) => text.is_empty(),
        (a, b) => a == b,
    }
}

#[test]
fn expressions_are_read_as_the_service_reads_them() {
    let values =
        json!({"steps": {"run": {"outputs": {"loop-finished": "true", "empty": ""}}}, "vars": {}, "runner": {"os": "Linux"}});
    let contexts = Contexts { values, status: Status::Failure };
    for (expression, expect) in [
        ("steps.run.outputs.loop-finished || 'x'", json!("true")),
        ("steps.run.outputs.empty || steps.none.outputs.empty || 'it''s'", json!("it's")),
        ("vars.LEDGER_SINKS || 'github:'", json!("github:")),
        ("runner.os != 'windows' && !(1 == 2)", json!(true)),
        ("fromJSON('[1]')", json!([1])),
        ("contains('a github:', 'GITHUB:')", json!(true)),
    ] {
        assert_eq!(contexts.value(expression), expect, "{expression}");
    }
    assert_eq!(contexts.text("a ${{ runner.os }} b"), "a Linux b");
    for (condition, expect) in
        [(None, false), (Some("always()"), true), (Some("runner.os == 'Linux'"), false), (Some("${{ failure() }}"), true)]
    {
        assert_eq!(contexts.condition(condition.map(|text| json!(text)).as_ref()), expect, "{condition:?}");
    }
}
