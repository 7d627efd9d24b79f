//! A caps file: made to be checked in, read with suspicion.
//!
//! The shape is DESIGN §12. A caps file comes from outside: it is bounded in size and depth, a key may be any text, and a cap that
//! would be zero, below a second or no number refuses the file with the place named.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::cap::{CapChoice, Per, Policy, SHORTEST_CAP};
use super::history::{History, Pass, find};
use super::ids::{FilePath, Platform, RunId};
use super::moment::{Secs, Wall};

/// A caps file of a thousand files on five platforms is about 300 KiB.
pub const MAX_CAPS_FILE_BYTES: usize = 16 << 20;

const CAPS_VERSION: u32 = 1;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapsFile {
    #[serde(default = "current_version")]
    pub v: u32,
    #[serde(default)]
    pub derived_at: Option<Wall>,
    #[serde(default)]
    pub window: Window,
    #[serde(default)]
    pub policy: Option<Policy>,
    pub files: BTreeMap<String, FileCap>,
}

/// Where the history came from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Window {
    pub runs: Vec<RunId>,
    pub records: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Wall>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Wall>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FileCap {
    #[serde(default)]
    pub n: u32,
    #[serde(default)]
    pub worst_s: Option<Secs>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_s: Option<Secs>,
    pub cap_s: Secs,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub platforms: BTreeMap<String, PlatformCap>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlatformCap {
    #[serde(default)]
    pub n: u32,
    #[serde(default)]
    pub worst_s: Option<Secs>,
    pub cap_s: Secs,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapsFileError {
    #[error("more than {MAX_CAPS_FILE_BYTES} bytes")]
    TooLarge,
    #[error("no caps file: {0}")]
    Shape(String),
    #[error("version {0} is newer than this ledger knows ({CAPS_VERSION}); update ledger or derive the file again")]
    Newer(u32),
    #[error("the cap of '{file}' is {cap}: at least one second is needed")]
    Cap { file: String, cap: Secs },
}

fn current_version() -> u32 {
    CAPS_VERSION
}

impl CapsFile {
    pub fn parse(bytes: &[u8]) -> Result<Self, CapsFileError> {
        if bytes.len() > MAX_CAPS_FILE_BYTES {
            return Err(CapsFileError::TooLarge);
        }
        // By way of a Value, because there the last of two equal keys counts, at every level.
        let value: serde_json::Value = serde_json::from_slice(bytes).map_err(shape)?;
        if let Some(newer) = value.get("v").and_then(serde_json::Value::as_u64).filter(|v| *v > u64::from(CAPS_VERSION)) {
            return Err(CapsFileError::Newer(u32::try_from(newer).unwrap_or(u32::MAX)));
        }
        let file: Self = serde_json::from_value(value).map_err(shape)?;
        for (name, cap) in &file.files {
            let all = std::iter::once(cap.cap_s).chain(cap.platforms.values().map(|platform| platform.cap_s));
            if let Some(short) = all.into_iter().find(|cap| *cap < SHORTEST_CAP) {
                return Err(CapsFileError::Cap { file: name.chars().take(200).collect(), cap: short });
            }
        }
        Ok(file)
    }

    /// Derives the caps of every file that `history` knows.
    pub fn derive(history: &History, policy: &Policy, window: Window, derived_at: Wall) -> Self {
        let files = history.files().map(|(file, passes)| (file.to_owned(), FileCap::derive(passes, policy))).collect();
        Self { v: CAPS_VERSION, derived_at: Some(derived_at), window, policy: Some(policy.clone()), files }
    }

    fn choice(&self, file: &FilePath, platform: &Platform) -> CapChoice {
        let policy = self.policy.clone().unwrap_or_default();
        let Some(known) = find(&self.files, file.text()) else {
            return CapChoice {
                cap: policy.estimate(&[], None).cap,
                basis: "floor: not in the caps file".to_owned(),
                expect: None,
            };
        };
        let (cap, worst, n, on) = match known.platforms.get(platform.as_str()) {
            Some(own) => (own.cap_s, own.worst_s, own.n, format!(" on {platform}")),
            None => (known.cap_s, known.worst_s, known.n, String::new()),
        };
        let basis = match worst {
            Some(worst) => format!("caps file: worst {} s of {n} passes{on}", worst.as_f64()),
            None => format!("caps file{on}"),
        };
        CapChoice { cap, basis, expect: known.median_s }
    }
}

impl FileCap {
    fn derive(passes: &[Pass], policy: &Policy) -> Self {
        let all = policy.estimate(passes, None);
        let mut platforms = BTreeMap::new();
        if policy.per != Per::File {
            let names: std::collections::BTreeSet<&Platform> = passes.iter().map(|pass| &pass.platform).collect();
            for platform in names {
                let own = policy.estimate(passes, Some(platform));
                platforms.insert(platform.0.clone(), PlatformCap { n: own.n, worst_s: own.worst, cap_s: own.cap });
            }
        }
        Self { n: all.n, worst_s: all.worst, median_s: all.median, cap_s: all.cap, platforms }
    }
}

fn shape(error: serde_json::Error) -> CapsFileError {
    CapsFileError::Shape(error.to_string().chars().take(300).collect())
}

/// The caps of one run, frozen at its start.
#[derive(Debug, Clone)]
pub struct Caps {
    pub source: CapsSource,
    /// `--cap`: it can only shorten.
    pub lever: Option<Secs>,
}

#[derive(Debug, Clone)]
pub enum CapsSource {
    File(Box<CapsFile>),
    History {
        history: Box<History>,
        policy: Policy,
    },
    /// No caps: only a lever and the deadline bound a file.
    None,
}

impl Caps {
    /// The cap of one planned file; `None` is a file that no cap bounds.
    pub fn cap_for(&self, file: &FilePath, platform: &Platform) -> Option<CapChoice> {
        let choice = match &self.source {
            CapsSource::File(caps) => Some(caps.choice(file, platform)),
            CapsSource::History { history, policy } => {
                let estimate = policy.estimate(history.passes(file), Some(platform));
                Some(CapChoice { cap: estimate.cap, basis: estimate.basis(policy), expect: estimate.median })
            }
            CapsSource::None => None,
        };
        match (choice, self.lever) {
            (Some(choice), lever) => Some(choice.shortened_by(lever)),
            (None, Some(lever)) => Some(CapChoice { cap: lever, basis: format!("--cap {} s", lever.as_f64()), expect: None }),
            (None, None) => None,
        }
    }

    /// Whether a file's cap rests on passes of that file. What does not deserves a word at start.
    pub fn knows(&self, file: &FilePath) -> bool {
        match &self.source {
            CapsSource::File(caps) => find(&caps.files, file.text()).is_some(),
            CapsSource::History { history, .. } => !history.passes(file).is_empty(),
            CapsSource::None => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::history::PastLeg;
    use super::*;
    use proptest::prelude::*;

    fn history(seconds: &[u64]) -> History {
        let leg = PastLeg {
            run_id: "1".into(),
            platform: "linux-x86".into(),
            started: Wall(0),
            ended: Wall(1),
            passes: seconds.iter().map(|s| ("exec.test.ts".to_owned(), Secs::from_secs(*s))).collect(),
        };
        History::of(&[leg])
    }

    #[test]
    fn the_shape_of_the_contract_is_read() {
        let text = br#"{"v":1,"derived_at":"2026-08-01T00:00:00.000Z","window":{"runs":["1"],"records":168},
            "policy":{"estimator":"max","multiplier":1.5,"headroom_s":0,"floor_s":300,"ceiling_s":1200,"round_s":60,"per":"file"},
            "files":{"exec.test.ts":{"n":14,"worst_s":149,"cap_s":300,"platforms":{"windows-x86":{"n":3,"worst_s":120,"cap_s":240}}}}}"#;
        let caps =
            Caps { source: CapsSource::File(Box::new(CapsFile::parse(text).expect("it is the contract's example"))), lever: None };
        let cap =
            |file: &str, platform: &str| caps.cap_for(&file.into(), &platform.into()).map(|c| (c.cap.millis() / 1000, c.basis));
        assert_eq!(cap("test/exec.test.ts", "linux-x86"), Some((300, "caps file: worst 149 s of 14 passes".into())));
        assert_eq!(cap("exec.test.ts", "windows-x86"), Some((240, "caps file: worst 120 s of 3 passes on windows-x86".into())));
        assert_eq!(cap("new.test.ts", "linux-x86"), Some((300, "floor: not in the caps file".into())));
        assert!(caps.knows(&"exec.test.ts".into()) && !caps.knows(&"new.test.ts".into()));
    }

    #[test]
    fn hostile_caps_files_are_refused_with_the_place() {
        for text in [
            r#"{"v":1,"files":{"a":{"cap_s":0}}}"#,
            r#"{"v":1,"files":{"a":{"cap_s":0.5}}}"#,
            r#"{"v":1,"files":{"a":{"cap_s":-3}}}"#,
            r#"{"v":1,"files":{"a":{"cap_s":1e300}}}"#,
            r#"{"v":1,"files":{"a":{"cap_s":"300"}}}"#,
            r#"{"v":1,"files":{"a":{}}}"#,
            r#"{"v":1,"files":{"a":{"cap_s":300,"platforms":{"p":{"cap_s":0}}}}}"#,
            r#"{"v":1,"files":[]}"#,
            r#"{"v":1}"#,
            r#"{"v":2,"files":{}}"#,
            r#"{"v":1,"files":{},"policy":{"estimator":"max","multiplier":0,"floor_s":300,"ceiling_s":1200,"per":"file"}}"#,
            r#"{"v":1,"files":{},"policy":{"estimator":"max","multiplier":1.5,"floor_s":0,"ceiling_s":1200,"per":"file"}}"#,
            "[]",
            "",
        ] {
            assert!(CapsFile::parse(text.as_bytes()).is_err(), "{text}");
        }
        let deep = format!(r#"{{"v":1,"files":{{}},"x":{}{}}}"#, "[".repeat(10_000), "]".repeat(10_000));
        assert!(CapsFile::parse(deep.as_bytes()).is_err());
        let data = r#"{"v":1,"files":{"__proto__":{"cap_s":9},"constructor":{"cap_s":1},"constructor":{"cap_s":7}}}"#;
        let read = CapsFile::parse(data.as_bytes()).expect("odd keys are data");
        assert_eq!(read.files["constructor"].cap_s, Secs::from_secs(7), "the last of two equal keys counts");
        assert_eq!(read.files["__proto__"].cap_s, Secs::from_secs(9));
    }

    #[test]
    fn a_lever_only_shortens() {
        let policy = Policy { settled: None, ..Policy::default() };
        let caps = |source, lever: Option<u64>| Caps { source, lever: lever.map(Secs::from_secs) };
        let from_history = || CapsSource::History { history: Box::new(history(&[100])), policy: policy.clone() };
        let cap = |caps: Caps| caps.cap_for(&"exec.test.ts".into(), &"p".into()).map(|choice| choice.cap.millis() / 1000);
        assert_eq!(cap(caps(from_history(), None)), Some(600));
        assert_eq!(cap(caps(from_history(), Some(90))), Some(90));
        assert_eq!(cap(caps(from_history(), Some(9000))), Some(600));
        assert_eq!(cap(caps(CapsSource::None, Some(90))), Some(90));
        assert_eq!(cap(caps(CapsSource::None, None)), None);
    }

    #[test]
    fn derived_and_read_back_it_says_the_same_as_the_history() {
        let history = history(&[100, 149, 120, 90, 80, 700]);
        for per in [Per::File, Per::FilePlatform { pool_below: 2 }] {
            let policy = Policy { per, ..Policy::default() };
            let file = CapsFile::derive(&history, &policy, Window::default(), Wall(0));
            let text = serde_json::to_vec(&file).expect("it has string keys only");
            let read = CapsFile::parse(&text).expect("what was written can be read");
            assert_eq!(read, file);
            let (name, platform) = (FilePath::from("exec.test.ts"), Platform::from("linux-x86"));
            let from_file = Caps { source: CapsSource::File(Box::new(read)), lever: None }.cap_for(&name, &platform);
            let direct = Caps { source: CapsSource::History { history: Box::new(history.clone()), policy }, lever: None }
                .cap_for(&name, &platform);
            assert_eq!(from_file.map(|c| (c.cap, c.expect)), direct.map(|c| (c.cap, c.expect)));
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = CapsFile::parse(&bytes);
        }
    }
}
