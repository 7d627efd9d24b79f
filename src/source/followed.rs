//! Events that become a leg as far as their chain holds: one reader for a database, a sink's segments and an archive.
//!
//! It decides nothing about what a break means; it uses nothing that stands behind one.

use crate::core::chain::{Chain, ChainFault};
use crate::core::event::Envelope;
use crate::core::fold::Leg;
use crate::core::ids::Seq;
use crate::core::row::Head;

/// The leg so far. The newest event waits until the next one has confirmed its digest, because a chain that breaks between two events says
/// that one of the two was changed and not which.
pub struct Followed {
    chain: Chain,
    leg: Option<Leg>,
    waiting: Option<(Envelope, Head)>,
    known: Option<(Head, &'static str)>,
}

impl Followed {
    pub fn new(chain: Chain) -> Self {
        Self { chain, leg: None, waiting: None, known: None }
    }

    /// Compares the chain with the head that somebody else knows of.
    pub fn against(self, known: Option<Head>, who: &'static str) -> Self {
        Self { known: known.map(|head| (head, who)), ..self }
    }

    /// The newest event that the chain has reached.
    pub fn last(&self) -> Seq {
        self.chain.last()
    }

    /// Takes the next line; `None` for one that is no text. After an error nothing more may be taken.
    pub fn take(&mut self, line: Option<&str>, label: Option<&str>) -> Result<(), String> {
        let seq = self.last().next();
        let line = line.ok_or_else(|| format!("event {seq} cannot be read: it is no text, or too long"))?;
        let event: Envelope = serde_json::from_str(line).map_err(|error| format!("event {seq} cannot be read: {error}"))?;
        if let Err(fault) = self.chain.follow_event(&event, line, label) {
            if matches!(fault, ChainFault::Digest { .. }) {
                self.waiting = None;
            }
            return Err(fault.to_string());
        }
        self.confirm()?;
        let head = Head { seq, digest: self.chain.digest().clone() };
        if let Some((known, who)) = self.known.as_ref().filter(|(known, _)| known.seq == seq && known.digest != head.digest) {
            return Err(format!("event {} is not the one that {who} has", known.seq));
        }
        self.waiting = Some((event, head));
        Ok(())
    }

    /// The leg, and whether its end is where it was known to be.
    pub fn end(mut self) -> (Option<Leg>, Result<(), String>) {
        let confirmed = self.confirm();
        let last = self.last();
        let ahead = self.known.filter(|(known, _)| known.seq > last);
        let short =
            ahead.map_or(Ok(()), |(known, who)| Err(format!("it ends with event {last}, {who} has had event {}", known.seq)));
        (self.leg, confirmed.and(short))
    }

    fn confirm(&mut self) -> Result<(), String> {
        let Some((event, head)) = self.waiting.take() else { return Ok(()) };
        let taken = match &mut self.leg {
            Some(leg) => leg.apply(&event, head),
            None => Leg::begin(&event, head).map(|begun| self.leg = Some(begun)),
        };
        taken.map_err(|error| error.to_string())
    }
}
