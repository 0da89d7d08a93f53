//! Pairing of browsers: only a browser that the person has confirmed at a terminal may answer questions.
//!
//! `aish-helper web --approve` gets an offer: a ticket for the browser and a handle for itself. The browser trades the ticket for
//! a bearer that is worth nothing yet, and for a code. The terminal shows the same code and asks whether both are equal. A
//! program that has stolen the ticket gets a code too, but not in the person's browser. Pairings are in memory only, as
//! SHA-256: they end with the server, so that a program that listens on its port later gets nothing that is still valid.

use std::sync::Mutex;

use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::history::journal::now_ms;
use crate::safety::redact::global_redactor;
use crate::secret::Secret;
use crate::session::lock;

/// How long a browser has to use its ticket, in milliseconds.
const OFFER_MS: u64 = 60_000;
/// How long the person has to compare the codes, in milliseconds.
const QUESTION_MS: u64 = 120_000;
/// How long a browser stays paired, in milliseconds.
const PAIRED_MS: u64 = 12 * 60 * 60 * 1000;
/// Maximum number of pairings in each stage. The oldest makes room.
const MAX_PAIRINGS: usize = 16;
/// Characters of a code: 32 that are not mistaken for each other.
const CODE_ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";
/// Number of characters in each half of a code.
const CODE_HALF: usize = 4;

/// SHA-256 of a value that proves something. Compared instead of the value, so that the time of a comparison reveals nothing.
pub type Sha = [u8; 32];

/// Returns the SHA-256 of a value.
pub fn sha(value: &str) -> Sha {
    Sha256::digest(value.as_bytes()).into()
}

/// Returns 256 random bits as text.
pub fn random() -> String {
    let half = || uuid::Uuid::new_v4().simple().to_string();
    half() + &half()
}

/// Names a pairing in records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairingId(u32);

impl std::fmt::Display for PairingId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

/// What the terminal gets at the beginning.
#[derive(Debug)]
pub struct PairingOffer {
    /// With it the terminal asks for the code and decides.
    pub handle: Secret,
    /// For the browser.
    pub ticket: Secret,
}

/// What the browser gets for its ticket.
#[derive(Debug)]
pub struct PendingPairing {
    /// Valid once the person has confirmed the pairing.
    pub bearer: Secret,
    /// The page shows it.
    pub code: String,
}

/// The state of a pairing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PairingState {
    /// The browser has not used its ticket.
    Offered,
    /// The person is asked whether the browser shows this code.
    Waiting(String),
    /// The person has confirmed it.
    Paired,
    /// The person has refused it.
    Refused,
}

#[derive(Debug)]
struct Pairing {
    id: PairingId,
    handle: Sha,
    /// The ticket, then the bearer.
    browser: Sha,
    state: PairingState,
    until_ms: u64,
}

impl Pairing {
    fn is_stage_of(&self, other: &PairingState) -> bool {
        std::mem::discriminant(&self.state) == std::mem::discriminant(other)
    }
}

/// All pairings of a running server.
#[derive(Debug, Default)]
pub struct Pairings {
    all: Mutex<Vec<Pairing>>,
    changed: Notify,
}

fn code() -> String {
    let random = uuid::Uuid::new_v4().into_bytes();
    // Bytes 6 and 8 of a UUID have fixed bits.
    let random = random[..6].iter().chain(&random[9..]);
    let characters = random.map(|byte| char::from(CODE_ALPHABET[usize::from(byte % 32)]));
    let characters: String = characters.take(2 * CODE_HALF).collect();
    let (first, second) = characters.split_at(CODE_HALF);
    format!("{first}-{second}")
}

impl Pairings {
    /// Begins a pairing.
    pub fn offer(&self, now_ms: u64) -> PairingOffer {
        let (handle, ticket) = (random(), random());
        global_redactor().add_secret("server-ticket", &ticket);
        let pairing = Pairing {
            id: PairingId(uuid::Uuid::new_v4().as_fields().0),
            handle: sha(&handle),
            browser: sha(&ticket),
            state: PairingState::Offered,
            until_ms: now_ms.saturating_add(OFFER_MS),
        };
        let mut all = self.current(now_ms);
        make_room(&mut all, &pairing.state);
        all.push(pairing);
        PairingOffer {
            handle: Secret::new(handle),
            ticket: Secret::new(ticket),
        }
    }

    /// Takes a ticket of a browser. Returns its bearer and the code.
    pub fn redeem(&self, ticket: &str, now_ms: u64) -> Option<PendingPairing> {
        let ticket = sha(ticket);
        let mut all = self.current(now_ms);
        let is_offered = |p: &Pairing| p.browser == ticket && p.is_stage_of(&PairingState::Offered);
        let at = all.iter().position(is_offered)?;
        let mut pairing = all.remove(at);
        let (bearer, code) = (random(), code());
        global_redactor().add_secret("server-token", &bearer);
        pairing.browser = sha(&bearer);
        pairing.state = PairingState::Waiting(code.clone());
        pairing.until_ms = now_ms.saturating_add(QUESTION_MS);
        make_room(&mut all, &pairing.state);
        all.push(pairing);
        drop(all);
        self.changed.notify_waiters();
        Some(PendingPairing {
            bearer: Secret::new(bearer),
            code,
        })
    }

    /// Returns the id of the pairing with this handle; `None` if it does not wait for a decision.
    pub fn waiting(&self, handle: &str, now_ms: u64) -> Option<PairingId> {
        let handle = sha(handle);
        let all = self.current(now_ms);
        let waits =
            |p: &&Pairing| p.handle == handle && matches!(p.state, PairingState::Waiting(_));
        all.iter().find(waits).map(|pairing| pairing.id)
    }

    /// Decides on the pairing with this handle. Returns its id; `None` if it does not wait for a decision.
    pub fn decide(&self, handle: &str, accepts: bool, now_ms: u64) -> Option<PairingId> {
        let handle = sha(handle);
        let mut all = self.current(now_ms);
        let waits = |p: &Pairing| p.handle == handle && matches!(p.state, PairingState::Waiting(_));
        let at = all.iter().position(waits)?;
        let mut pairing = all.remove(at);
        let id = pairing.id;
        (pairing.state, pairing.until_ms) = match accepts {
            true => (PairingState::Paired, now_ms.saturating_add(PAIRED_MS)),
            // Kept for a while, so that the browser learns of it.
            false => (PairingState::Refused, now_ms.saturating_add(QUESTION_MS)),
        };
        make_room(&mut all, &pairing.state);
        all.push(pairing);
        drop(all);
        self.changed.notify_waiters();
        Some(id)
    }

    /// Returns the pairing of a bearer with this SHA-256, its state, and how long that state is valid.
    pub fn of_bearer(&self, bearer: &Sha, now_ms: u64) -> Option<(PairingId, PairingState, u64)> {
        let all = self.current(now_ms);
        // A ticket is not a bearer.
        let mut traded = all.iter().filter(|p| p.state != PairingState::Offered);
        let found = traded.find(|p| p.browser == *bearer)?;
        Some((found.id, found.state.clone(), found.until_ms))
    }

    /// Returns the state of a pairing, and how long that state is valid.
    pub fn state(&self, id: PairingId, now_ms: u64) -> Option<(PairingState, u64)> {
        let all = self.current(now_ms);
        let found = all.iter().find(|pairing| pairing.id == id)?;
        Some((found.state.clone(), found.until_ms))
    }

    /// Waits until the browser has used its ticket, and returns the code; `None` once it no longer can.
    pub async fn code(&self, handle: &str) -> Option<String> {
        let handle = sha(handle);
        self.wait(OFFER_MS, |all| {
            let found = all.iter().find(|pairing| pairing.handle == handle);
            match found.map(|pairing| &pairing.state) {
                Some(PairingState::Offered) => None,
                Some(PairingState::Waiting(code)) => Some(Some(code.clone())),
                _ => Some(None),
            }
        })
        .await
        .flatten()
    }

    /// Waits for the decision on a pairing, for this time at most.
    pub async fn decided(&self, id: PairingId, limit_ms: u64) {
        let is_decided = |all: &[Pairing]| {
            let mut own = all.iter().filter(|pairing| pairing.id == id);
            let waits = own.any(|pairing| matches!(pairing.state, PairingState::Waiting(_)));
            (!waits).then_some(())
        };
        self.wait(limit_ms, is_decided).await;
    }

    /// Waits until a browser is no longer paired.
    pub async fn ended(&self, id: PairingId) {
        let until_ms = self.state(id, now_ms()).map_or(0, |(_, until_ms)| until_ms);
        let is_gone = |all: &[Pairing]| all.iter().all(|p| p.id != id).then_some(());
        self.wait(until_ms.saturating_sub(now_ms()), is_gone).await;
    }

    async fn wait<T>(&self, limit_ms: u64, find: impl Fn(&[Pairing]) -> Option<T>) -> Option<T> {
        let found = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                // Before `find`, so that a change in between is not missed.
                changed.as_mut().enable();
                if let Some(found) = find(&self.current(now_ms())) {
                    return found;
                }
                changed.await;
            }
        };
        let limit = std::time::Duration::from_millis(limit_ms);
        tokio::time::timeout(limit, found).await.ok()
    }

    /// Returns how many browsers are paired.
    pub fn count(&self, now_ms: u64) -> usize {
        let all = self.current(now_ms);
        all.iter()
            .filter(|p| p.state == PairingState::Paired)
            .count()
    }

    /// Ends a pairing.
    pub fn remove(&self, id: PairingId) {
        lock(&self.all).retain(|pairing| pairing.id != id);
        self.changed.notify_waiters();
    }

    /// Ends all pairings. Returns how many browsers were paired.
    pub fn clear(&self, now_ms: u64) -> usize {
        let count = self.count(now_ms);
        lock(&self.all).clear();
        self.changed.notify_waiters();
        count
    }

    /// Returns the pairings that have not expired.
    fn current(&self, now_ms: u64) -> std::sync::MutexGuard<'_, Vec<Pairing>> {
        let mut all = lock(&self.all);
        all.retain(|pairing| now_ms < pairing.until_ms);
        all
    }
}

/// Removes the oldest pairing of a stage that is full.
fn make_room(all: &mut Vec<Pairing>, stage: &PairingState) {
    let of_stage = |pairing: &&Pairing| pairing.is_stage_of(stage);
    if all.iter().filter(of_stage).count() >= MAX_PAIRINGS
        && let Some(at) = all.iter().position(|pairing| pairing.is_stage_of(stage))
    {
        all.remove(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(pairings: &Pairings, bearer: &str, now_ms: u64) -> Option<PairingState> {
        let found = pairings.of_bearer(&sha(bearer), now_ms);
        found.map(|(_, state, _)| state)
    }

    fn begun(pairings: &Pairings, now_ms: u64) -> (String, String, PendingPairing) {
        let offer = pairings.offer(now_ms);
        let ticket = offer.ticket.expose().to_owned();
        let pending = pairings.redeem(&ticket, now_ms).unwrap();
        (offer.handle.expose().to_owned(), ticket, pending)
    }

    #[test]
    fn a_browser_is_paired_once_the_person_has_confirmed() {
        let pairings = Pairings::default();
        let (handle, ticket, pending) = begun(&pairings, 0);
        let bearer = pending.bearer.expose();
        assert_eq!(
            state(&pairings, bearer, 0),
            Some(PairingState::Waiting(pending.code.clone()))
        );
        assert_eq!(pairings.count(0), 0);
        assert!(pairings.redeem(&ticket, 0).is_none());
        assert!(pairings.decide(&ticket, true, 0).is_none());
        assert!(pairings.decide(bearer, true, 0).is_none());
        assert!(pairings.decide(&handle, true, 0).is_some());
        assert_eq!(state(&pairings, bearer, 1), Some(PairingState::Paired));
        assert_eq!(pairings.count(0), 1);
        for wrong in [&handle, &ticket, "", &bearer[1..], &bearer.to_uppercase()] {
            assert_eq!(state(&pairings, wrong, 0), None, "{wrong}");
        }
        // The decision counts once.
        assert!(pairings.decide(&handle, false, 0).is_none());
        assert_eq!(pairings.clear(0), 1);
        assert_eq!(state(&pairings, bearer, 0), None);
    }

    #[test]
    fn a_ticket_is_no_bearer_and_nothing_is_decided_before_the_code() {
        let pairings = Pairings::default();
        let offer = pairings.offer(0);
        assert_eq!(state(&pairings, offer.ticket.expose(), 0), None);
        assert!(pairings.decide(offer.handle.expose(), true, 0).is_none());
    }

    #[test]
    fn a_refused_pairing_is_told_and_never_becomes_one() {
        let pairings = Pairings::default();
        let (handle, _, pending) = begun(&pairings, 0);
        let (_, _, other) = begun(&pairings, 0);
        pairings.decide(&handle, false, 0);
        let bearer = pending.bearer.expose();
        assert_eq!(state(&pairings, bearer, 0), Some(PairingState::Refused));
        assert!(pairings.decide(&handle, true, 0).is_none());
        // Others are not touched by it.
        let other = state(&pairings, other.bearer.expose(), 0);
        assert!(matches!(other, Some(PairingState::Waiting(_))));
        assert_eq!(state(&pairings, bearer, QUESTION_MS), None);
    }

    #[test]
    fn every_stage_expires() {
        let pairings = Pairings::default();
        let offer = pairings.offer(5);
        let late = 5 + OFFER_MS;
        assert!(pairings.redeem(offer.ticket.expose(), late).is_none());
        let (handle, _, _) = begun(&pairings, 5);
        assert!(pairings.decide(&handle, true, 5 + QUESTION_MS).is_none());
        let (handle, _, pending) = begun(&pairings, 5);
        assert!(pairings.decide(&handle, true, 4 + QUESTION_MS).is_some());
        let end = 4 + QUESTION_MS + PAIRED_MS;
        let bearer = pending.bearer.expose();
        assert_eq!(
            state(&pairings, bearer, end - 1),
            Some(PairingState::Paired)
        );
        assert_eq!(state(&pairings, bearer, end), None);
    }

    #[test]
    fn a_code_has_eight_clear_characters() {
        for _ in 0..1000 {
            let code = code();
            let (first, second) = code.split_once('-').unwrap();
            for half in [first, second] {
                assert_eq!(half.len(), CODE_HALF);
                assert!(half.bytes().all(|b| CODE_ALPHABET.contains(&b)), "{code}");
            }
        }
        let mut sorted = CODE_ALPHABET.to_vec();
        sorted.dedup();
        assert_eq!(sorted.len(), 32);
    }

    #[test]
    fn the_oldest_makes_room() {
        let pairings = Pairings::default();
        let first = pairings.offer(0);
        let second = pairings.offer(0);
        for _ in 1..MAX_PAIRINGS {
            pairings.offer(0);
        }
        assert!(pairings.redeem(first.ticket.expose(), 0).is_none());
        assert!(pairings.redeem(second.ticket.expose(), 0).is_some());
    }
}
