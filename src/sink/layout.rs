//! Where things lie in a sink that holds objects or files: `{run}/{attempt}/{leg}/{epoch}/{seq:012}.ndjson`.
//!
//! Ids come from the environment. Each becomes one path component that stays inside the root, is bounded, and falls on no other id's,
//! also where names differ in case only. Plan, marker and events say whose they are; names are read back only where none of these can
//! be read.

use crate::core::ids::{Attempt, Digest, Epoch, LegId, Platform, RunId, Seq, Target};

use super::SinkContext;
use super::source::{LegName, Narrow};

pub(super) const PLAN: &str = "plan.json";
pub(super) const MARKER: &str = "marker.json";
const SEGMENT_EXTENSION: &str = ".ndjson";

/// A component that is taken as it is may have this many bytes; the rest of a longer one lives in its digest.
const COMPONENT_BYTES: usize = 80;
/// 64 bits of digest: a run has some thousand legs at most.
const DIGEST_DIGITS: usize = 16;

/// The four components of an epoch's folder.
pub(super) fn epoch_folder(context: &SinkContext) -> [String; 4] {
    let leg = &context.leg;
    [component(leg.run_id.as_str()), component(leg.attempt.as_str()), leg_component(context), component(context.epoch.as_str())]
}

fn leg_component(context: &SinkContext) -> String {
    let leg = &context.leg;
    let platform = component(leg.platform.as_str());
    let target = component(leg.target.as_str());
    match leg.shard {
        None => format!("{platform},{target}"),
        Some(shard) => format!("{platform},{target},{}-of-{}", shard.index, shard.count),
    }
}

/// Whether a leg's folder may be one of those that are asked for.
pub(super) fn leg_fits(name: &str, narrow: &Narrow) -> bool {
    let mut parts = name.split(',');
    let (platform, target) = (parts.next(), parts.next());
    let fits = |wanted: Option<&str>, part: Option<&str>| wanted.is_none_or(|wanted| part == Some(component(wanted).as_str()));
    fits(narrow.platform.as_ref().map(|id| id.as_str()), platform) && fits(narrow.target.as_ref().map(|id| id.as_str()), target)
}

/// Whose a place is by the names of its folders, outermost first: run, attempt, leg, epoch. What a name does not say is what was asked for,
/// and an id that was asked for stands as it was asked for, for its name may not be plain.
pub(super) fn name_of(parts: &[&str], narrow: &Narrow) -> LegName {
    let id = |part: Option<&str>, asked: Option<&str>| match (part, asked) {
        (Some(part), Some(asked)) if part == component(asked) => asked.to_owned(),
        (Some(part), _) if !part.is_empty() => part.to_owned(),
        (_, asked) => asked.unwrap_or("unknown").to_owned(),
    };
    let mut of_leg = parts.get(2).into_iter().flat_map(|leg| leg.split(','));
    let (platform, target) = (of_leg.next(), of_leg.next());
    let shard = of_leg.next().and_then(|shard| shard.replace("-of-", "/").parse().ok());
    let leg = LegId {
        run_id: RunId::new(id(parts.first().copied(), narrow.run_id.as_ref().map(RunId::as_str))),
        attempt: Attempt::new(id(parts.get(1).copied(), narrow.attempt.as_ref().map(Attempt::as_str))),
        platform: Platform::new(id(platform, narrow.platform.as_ref().map(Platform::as_str))),
        target: Target::new(id(target, narrow.target.as_ref().map(Target::as_str))),
        shard,
    };
    LegName { leg, epoch: parts.get(3).map(|epoch| Epoch::tamed(epoch)) }
}

/// The name of the segment that begins with `first`.
pub(super) fn segment_name(first: Seq) -> String {
    format!("{:012}{SEGMENT_EXTENSION}", first.0)
}

/// The first event of a segment, by its name.
pub(super) fn segment_first(name: &str) -> Option<Seq> {
    let digits = name.strip_suffix(SEGMENT_EXTENSION)?;
    let whole = digits.len() >= 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !whole {
        return None;
    }
    digits.parse().ok().map(Seq)
}

/// An id as one path component. Plain ids stay readable; anything else is cut to something plain and told apart by its digest.
pub(super) fn component(id: &str) -> String {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_' | '.');
    let harmless = !id.is_empty() && id.len() <= COMPONENT_BYTES && !id.starts_with('.') && !id.ends_with('.') && !is_device(id);
    if harmless && id.chars().all(plain) {
        return id.to_owned();
    }
    let tamed: String =
        id.to_ascii_lowercase().chars().map(|c| if plain(c) && c != '.' { c } else { '_' }).take(COMPONENT_BYTES / 2).collect();
    format!("{tamed}~{}", &Digest::of(id.as_bytes()).0[..DIGEST_DIGITS])
}

/// Names that Windows keeps for devices, with any extension.
fn is_device(id: &str) -> bool {
    let stem = id.split('.').next().unwrap_or_default().to_ascii_lowercase();
    let numbered =
        |name: &str| stem.strip_prefix(name).is_some_and(|rest| rest.len() == 1 && rest.bytes().all(|b| b.is_ascii_digit()));
    matches!(stem.as_str(), "con" | "prn" | "aux" | "nul") || numbered("com") || numbered("lpt")
}

/// What a segment that is there already is to the one that was to be made under its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Earlier {
    Same,
    /// A write of ours that was given up and has arrived all the same: it holds the same events, fewer or more of them.
    OurOwn,
    /// Another writer's.
    Foreign,
}

pub fn earlier(there: &[u8], ours: &[u8]) -> Earlier {
    let is_part = |part: &[u8], whole: &[u8]| part.ends_with(b"\n") && whole.starts_with(part);
    match () {
        () if there == ours => Earlier::Same,
        () if is_part(there, ours) || is_part(ours, there) => Earlier::OurOwn,
        () => Earlier::Foreign,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_late_write_of_ours_is_told_from_another_writer() {
        for (there, ours, earlier_is) in [
            ("1\n2\n", "1\n2\n", Earlier::Same),
            ("1\n", "1\n2\n", Earlier::OurOwn),
            ("1\n2\n3\n", "1\n2\n", Earlier::OurOwn),
            ("1\n4\n", "1\n2\n", Earlier::Foreign),
            ("1\n", "12\n", Earlier::Foreign),
            ("1", "1\n2\n", Earlier::Foreign),
            ("", "1\n", Earlier::Foreign),
        ] {
            assert_eq!(earlier(there.as_bytes(), ours.as_bytes()), earlier_is, "{there:?} {ours:?}");
        }
    }

    #[test]
    fn plain_ids_stay_and_others_are_told_apart() {
        for plain in ["17384", "macos-x86", "7.20.8", "local-0192f3", "stable"] {
            assert_eq!(component(plain), plain);
        }
        let odd = ["", ".", "..", "a.", ".a", "A", "a/b", "a\\b", "a\0b", "a,b", "con", "nul.txt", "com1", "é", "~", "%2e%2e"];
        let mut seen = std::collections::BTreeSet::new();
        for id in odd {
            let made = component(id);
            assert!(made.contains('~'), "{id:?} became {made:?}");
            assert!(seen.insert(made));
        }
    }

    #[test]
    fn segment_names_sort_as_their_numbers_and_come_back() {
        assert_eq!(segment_name(Seq(7)), "000000000007.ndjson");
        for (name, first) in [
            ("000000000007.ndjson", Some(Seq(7))),
            ("marker.json", None),
            ("7.ndjson", None),
            (".000000000007.ndjson", None),
            ("00000000000x.ndjson", None),
            ("000000000007.ndjson.tmp", None),
        ] {
            assert_eq!(segment_first(name), first, "{name}");
        }
    }

    #[test]
    fn a_place_that_holds_nothing_readable_still_names_its_leg() {
        let mut context = SinkContext::new(
            LegId {
                run_id: "17".into(),
                attempt: "2".into(),
                platform: "macOS x86".into(),
                target: "stable".into(),
                shard: "1/3".parse().ok(),
            },
            Epoch::parse("e").expect("it is well formed"),
        );
        let folder = epoch_folder(&context);
        let parts: Vec<&str> = folder.iter().map(String::as_str).collect();
        let asked = Narrow { platform: Some("macOS x86".into()), ..Narrow::default() };
        assert_eq!(name_of(&parts, &asked), LegName { leg: context.leg.clone(), epoch: Some(context.epoch.clone()) });
        context.leg.platform = Platform::new(component("macOS x86"));
        assert_eq!(name_of(&parts, &Narrow::default()).leg, context.leg, "an id that is not plain is known by its name");
        let short = name_of(&parts[..1], &asked);
        assert_eq!((short.leg.attempt.as_str(), short.leg.platform.as_str(), short.epoch), ("unknown", "macOS x86", None));
    }

    proptest! {
        #[test]
        fn no_id_leaves_its_folder(id in ".*") {
            let made = component(&id);
            prop_assert!(!made.is_empty() && made.len() <= 100);
            prop_assert!(!made.contains(['/', '\\', '\0', ':', ',']) && !made.starts_with('.'));
        }
    }
}
