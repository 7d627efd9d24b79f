//! How long a file may run: the policy that turns history into a cap, and the two bounds that a file gets in the end.
//!
//! Pure arithmetic. Nothing in here reads a caps file or a clock; `core::capfile` is the shape of a caps file, `core::backtest` the
//! replay that chose the default policy.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::history::{Pass, median};
use super::ids::Platform;
use super::moment::Secs;

/// No cap is shorter: what is below a second is a slip (a ratio, a typo), and it would kill everything.
pub const SHORTEST_CAP: Secs = Secs::from_secs(1);

/// The default of [`Estimator::Recent`]: four legs of a project with five platforms. Chosen by the backtest of ci/decisions/0002.
pub const RECENT_PASSES: u32 = 20;

/// What [`Estimator::Recent`] remembers of a worse pass long ago. With a multiplier of 1.25 it means that no cap falls below the worst
/// pass ever, plus the headroom.
const REMEMBERED: f64 = 0.8;

/// What of a file's history counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Estimator {
    /// The worst pass ever seen.
    Max,
    /// The worst of the newest so many passes, and no less than four fifths of the worst pass ever: a file that was made faster gets a
    /// tighter cap, and a rare slow pass is not forgotten.
    Recent(u32),
    /// The pass that this share of all passes stayed below.
    Quantile(f64),
    /// The middle between the worst pass on this platform and the worst anywhere, so that a slow platform does not widen a fast
    /// one's cap by all of its slowness.
    Midway,
}

/// Which passes speak for a leg.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Per {
    /// All passes of the file, wherever they ran.
    File,
    /// Those of the leg's own platform, where there are at least so many; else all.
    FilePlatform { pool_below: u32 },
}

/// A file with few passes is not known yet, and the floor is what protects it. Once it has passed this often, a lower floor holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settled {
    pub passes: u32,
    pub floor: Secs,
}

/// `cap = clamp(estimate × multiplier + headroom, floor, ceiling)`, rounded up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PolicyText", into = "PolicyText")]
pub struct Policy {
    pub estimator: Estimator,
    pub multiplier: f64,
    pub headroom: Secs,
    pub floor: Secs,
    pub settled: Option<Settled>,
    pub ceiling: Secs,
    /// Caps are whole multiples of this; zero leaves them as they are.
    pub round: Secs,
    pub per: Per,
}

/// The default: ten minutes until a file has passed twice; from then on a quarter longer than its worst recent pass, and never less than
/// its worst pass ever, plus 90 s.
impl Default for Policy {
    fn default() -> Self {
        Self {
            estimator: Estimator::Recent(RECENT_PASSES),
            multiplier: 1.25,
            headroom: Secs::from_secs(90),
            floor: Secs::from_secs(600),
            settled: Some(Settled { passes: 2, floor: Secs::from_secs(120) }),
            ceiling: Secs::from_secs(1200),
            round: Secs::from_secs(60),
            per: Per::File,
        }
    }
}

/// What one history says of one file.
#[derive(Debug, Clone, PartialEq)]
pub struct Estimate {
    pub cap: Secs,
    /// How many passes counted, and the worst of them.
    pub n: u32,
    pub worst: Option<Secs>,
    pub median: Option<Secs>,
    /// What the estimator made of them; equal to `worst` for the worst-pass estimators.
    pub base: Option<Secs>,
    pub bound_by: BoundBy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoundBy {
    History,
    Floor,
    Ceiling,
    /// No pass is known.
    NoHistory,
}

impl Policy {
    /// Refuses what could become a zero cap, an endless one or no number at all.
    pub fn check(self) -> Result<Self, PolicyError> {
        let fair = self.multiplier.is_finite() && (1.0..=100.0).contains(&self.multiplier);
        if !fair {
            return Err(PolicyError::Multiplier(self.multiplier));
        }
        let lowest = self.settled.map_or(self.floor, |settled| settled.floor.min(self.floor));
        if lowest < SHORTEST_CAP || self.floor > self.ceiling || self.settled.is_some_and(|s| s.floor > self.ceiling) {
            return Err(PolicyError::Bounds { floor: lowest, ceiling: self.ceiling });
        }
        match self.estimator {
            Estimator::Quantile(share) if !(0.0 < share && share <= 1.0) => Err(PolicyError::Quantile(share)),
            Estimator::Recent(0) => Err(PolicyError::Estimator("recent:0".to_owned())),
            _ => Ok(self),
        }
    }

    /// The cap that these passes alone give. `platform` matters only where the policy asks for it.
    pub fn estimate(&self, passes: &[Pass], platform: Option<&Platform>) -> Estimate {
        let own: Vec<Secs> = passes.iter().filter(|pass| Some(&pass.platform) == platform).map(|pass| pass.duration).collect();
        let all: Vec<Secs> = passes.iter().map(|pass| pass.duration).collect();
        let counted = match self.per {
            Per::FilePlatform { pool_below } if !own.is_empty() && own.len() >= pool_below as usize => &own,
            Per::File | Per::FilePlatform { .. } => &all,
        };
        let Some(base) = self.estimator.of(counted, &own) else {
            let cap = self.rounded(self.floor);
            return Estimate { cap, n: 0, worst: None, median: None, base: None, bound_by: BoundBy::NoHistory };
        };
        let n = u32::try_from(counted.len()).unwrap_or(u32::MAX);
        let floor = match self.settled {
            Some(settled) if n >= settled.passes => settled.floor,
            _ => self.floor,
        };
        let wanted = Secs::from_f64(base.as_f64() * self.multiplier).unwrap_or(self.ceiling).saturating_add(self.headroom);
        let bound_by = if wanted > self.ceiling {
            BoundBy::Ceiling
        } else if wanted < floor {
            BoundBy::Floor
        } else {
            BoundBy::History
        };
        Estimate {
            cap: self.rounded(wanted.clamp(floor.min(self.ceiling), self.ceiling)),
            n,
            worst: counted.iter().max().copied(),
            median: median(&mut counted.clone()),
            base: Some(base),
            bound_by,
        }
    }

    /// Up to the next whole multiple. Rounding may pass the ceiling by less than one step: a cap is never cut below what was asked.
    fn rounded(&self, cap: Secs) -> Secs {
        match self.round.millis() {
            0 => cap,
            step => Secs::from_millis(cap.millis().div_ceil(step).saturating_mul(step)),
        }
    }

    /// The sum in words: ` × 1.25 + 90 s`.
    pub fn sum(&self) -> String {
        let plus = if self.headroom == Secs::ZERO { String::new() } else { format!(" + {}", seconds(self.headroom)) };
        format!(" × {}{plus}", self.multiplier)
    }
}

impl Estimator {
    fn of(self, counted: &[Secs], own: &[Secs]) -> Option<Secs> {
        let worst = counted.iter().max().copied()?;
        Some(match self {
            Estimator::Max => worst,
            Estimator::Recent(newest) => {
                let from = counted.len().saturating_sub(newest as usize);
                let recent = counted[from..].iter().max().copied().unwrap_or(worst);
                recent.max(Secs::from_f64(worst.as_f64() * REMEMBERED).unwrap_or(worst))
            }
            Estimator::Quantile(share) => {
                let mut sorted = counted.to_vec();
                sorted.sort_unstable();
                let rank = (share * sorted.len() as f64).ceil() as usize;
                sorted[rank.clamp(1, sorted.len()) - 1]
            }
            Estimator::Midway => match own.iter().max() {
                Some(own) => Secs::from_millis(own.millis().midpoint(worst.millis())),
                None => worst,
            },
        })
    }

    fn word(self) -> &'static str {
        match self {
            Estimator::Max | Estimator::Recent(_) => "worst",
            Estimator::Quantile(_) => "quantile",
            Estimator::Midway => "midway",
        }
    }
}

impl Estimate {
    /// Where the number came from: `history: worst 168 s of 14 passes × 1.5`.
    pub fn basis(&self, policy: &Policy) -> String {
        let (Some(base), true) = (self.base, self.bound_by != BoundBy::NoHistory) else {
            return "floor: no history".to_owned();
        };
        let passes = format!("{} pass{}", self.n, if self.n == 1 { "" } else { "es" });
        let remembered = self.worst.and_then(|worst| Secs::from_f64(worst.as_f64() * REMEMBERED));
        let of = match (policy.estimator, self.worst) {
            (Estimator::Recent(newest), Some(worst)) if newest < self.n && Some(base) == remembered => {
                let sum = policy.sum();
                return format!("history: worst {} of {passes}, long ago, × {REMEMBERED}{sum}", seconds(worst));
            }
            (Estimator::Recent(newest), _) if newest < self.n => format!("the last {newest} of {passes}"),
            _ => passes,
        };
        let bound = match self.bound_by {
            BoundBy::Floor => ", raised to the floor",
            BoundBy::Ceiling => ", cut at the ceiling",
            BoundBy::History | BoundBy::NoHistory => "",
        };
        format!("history: {} {} of {of}{}{bound}", policy.estimator.word(), seconds(base), policy.sum())
    }
}

/// A cap for one file of a plan, before the deadline is asked.
#[derive(Debug, Clone, PartialEq)]
pub struct CapChoice {
    pub cap: Secs,
    pub basis: String,
    /// The median pass, for the ETA.
    pub expect: Option<Secs>,
}

impl CapChoice {
    /// `--cap` is a lever that can only shorten.
    #[must_use]
    pub fn shortened_by(self, lever: Option<Secs>) -> Self {
        match lever {
            Some(lever) if lever < self.cap => {
                let basis = format!("--cap {} (instead of {}, {})", seconds(lever), seconds(self.cap), self.basis);
                Self { cap: lever, basis, ..self }
            }
            _ => self,
        }
    }
}

/// What a file gets once the deadline has been asked.
#[derive(Debug, Clone, PartialEq)]
#[must_use]
pub enum Bound {
    /// Its own cap fits; `None` is a file without any bound.
    Whole { cap: Option<Secs>, basis: Option<String> },
    /// What is left before the reserve, which is less than it wanted.
    Shortened { cap: Secs, basis: String },
    /// Too little is left to be worth a start. The loop stops.
    NotRun { left: Secs, needed: Secs },
}

/// The nested deadline: `min(cap, remaining − reserve)`. First whether the cap fits whole, then whether the rest is viable.
pub fn bound(choice: Option<&CapChoice>, remaining: Option<Secs>, reserve: Secs, min_viable: Secs) -> Bound {
    let whole = || Bound::Whole { cap: choice.map(|choice| choice.cap), basis: choice.map(|choice| choice.basis.clone()) };
    let Some(remaining) = remaining else {
        return whole();
    };
    let left = remaining.saturating_sub(reserve);
    match choice {
        Some(choice) if choice.cap <= left => whole(),
        _ if left >= min_viable && left >= SHORTEST_CAP => Bound::Shortened { cap: left, basis: "deadline".to_owned() },
        _ => Bound::NotRun { left, needed: choice.map_or(min_viable, |choice| choice.cap.min(min_viable)) },
    }
}

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum PolicyError {
    #[error("a multiplier of {0} is refused: it must lie between 1 and 100")]
    Multiplier(f64),
    #[error("a floor of {floor} with a ceiling of {ceiling} is refused: 1 s <= floor <= ceiling must hold")]
    Bounds { floor: Secs, ceiling: Secs },
    #[error("a quantile of {0} is refused: it must lie above 0 and at most at 1")]
    Quantile(f64),
    #[error("'{0}' is no estimator: max, recent, recent:N, quantile:0.99 or midway")]
    Estimator(String),
    #[error("'{0}' says not which passes count: file, file+platform or file+platform:N")]
    Per(String),
}

impl FromStr for Estimator {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PolicyError::Estimator(text.chars().take(40).collect());
        let (word, argument) = text.split_once(':').map_or((text, None), |(word, argument)| (word, Some(argument)));
        match (word, argument) {
            ("max" | "worst", None) => Ok(Self::Max),
            ("recent", None) => Ok(Self::Recent(RECENT_PASSES)),
            ("recent", Some(newest)) => Ok(Self::Recent(newest.parse().ok().filter(|n| *n > 0).ok_or_else(wrong)?)),
            ("quantile", Some(share)) => {
                let share: f64 = share.parse().map_err(|_| wrong())?;
                if 0.0 < share && share <= 1.0 { Ok(Self::Quantile(share)) } else { Err(PolicyError::Quantile(share)) }
            }
            ("midway", None) => Ok(Self::Midway),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Estimator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Estimator::Max => f.write_str("max"),
            Estimator::Recent(newest) => write!(f, "recent:{newest}"),
            Estimator::Quantile(share) => write!(f, "quantile:{share}"),
            Estimator::Midway => f.write_str("midway"),
        }
    }
}

/// With fewer passes than this on its own platform, a file's passes everywhere count.
const POOL_BELOW: u32 = 5;

impl FromStr for Per {
    type Err = PolicyError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = || PolicyError::Per(text.chars().take(40).collect());
        match text.split_once(':').map_or((text, None), |(word, argument)| (word, Some(argument))) {
            ("file", None) => Ok(Self::File),
            ("file+platform", None) => Ok(Self::FilePlatform { pool_below: POOL_BELOW }),
            ("file+platform", Some(least)) => Ok(Self::FilePlatform { pool_below: least.parse().map_err(|_| wrong())? }),
            _ => Err(wrong()),
        }
    }
}

impl fmt::Display for Per {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Per::File => f.write_str("file"),
            Per::FilePlatform { pool_below } => write!(f, "file+platform:{pool_below}"),
        }
    }
}

impl fmt::Display for Policy {
    /// `max × 1.5 + 90 s, 300..1200 s, whole 60 s, per file`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}, ", self.estimator, self.sum())?;
        if let Some(settled) = self.settled {
            let passes = if settled.passes == 1 { "pass" } else { "passes" };
            write!(f, "{} until {} {passes}, then ", seconds(self.floor), settled.passes)?;
        }
        let floor = self.settled.map_or(self.floor, |settled| settled.floor);
        write!(f, "{}..{}", floor.as_f64(), seconds(self.ceiling))?;
        if self.round != Secs::ZERO {
            write!(f, ", whole {}", seconds(self.round))?;
        }
        write!(f, ", per {}", self.per)
    }
}

/// For a sum: whole seconds stay seconds, however many (`168 s`, not `2m48s`).
fn seconds(span: Secs) -> String {
    format!("{} s", span.as_f64())
}

/// A policy as a caps file writes it (DESIGN §12).
#[derive(Debug, Clone, Serialize, Deserialize)]
struct PolicyText {
    estimator: String,
    multiplier: f64,
    #[serde(default)]
    headroom_s: Secs,
    floor_s: Secs,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled_passes: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled_floor_s: Option<Secs>,
    ceiling_s: Secs,
    #[serde(default)]
    round_s: Secs,
    per: String,
}

impl From<Policy> for PolicyText {
    fn from(policy: Policy) -> Self {
        Self {
            estimator: policy.estimator.to_string(),
            multiplier: policy.multiplier,
            headroom_s: policy.headroom,
            floor_s: policy.floor,
            settled_passes: policy.settled.map(|settled| settled.passes),
            settled_floor_s: policy.settled.map(|settled| settled.floor),
            ceiling_s: policy.ceiling,
            round_s: policy.round,
            per: policy.per.to_string(),
        }
    }
}

impl TryFrom<PolicyText> for Policy {
    type Error = PolicyError;

    fn try_from(text: PolicyText) -> Result<Self, Self::Error> {
        Self {
            estimator: text.estimator.parse()?,
            multiplier: text.multiplier,
            headroom: text.headroom_s,
            floor: text.floor_s,
            settled: text.settled_passes.zip(text.settled_floor_s).map(|(passes, floor)| Settled { passes, floor }),
            ceiling: text.ceiling_s,
            round: text.round_s,
            per: text.per.parse()?,
        }
        .check()
    }
}

#[cfg(test)]
mod tests;
