//! Where requests stand in their stream.
//!
//! A created stream has offsets, and a request is written only where the stream
//! ends. So what the service says of an offset tells what it has, if one thing is
//! seen to: that a request never stands at an offset where another one of ours may
//! still arrive. A broken call may leave requests behind that the service comes
//! to only later. As long as requests keep their offsets such a late one does what
//! its repetition would have done. But when rows of a request are refused, those
//! behind it move up, and a late one could be written in the wrong place. Where
//! that can happen the stream is given up: it is [`Verdict::Strand`]ed.

use std::collections::VecDeque;

use tonic::Code;

use super::driver::Kept;
use super::status::Refusal;
use crate::error::{Error, Result};

/// Where requests stand.
#[derive(Debug)]
pub(super) enum Place {
    /// In the default stream, which has no offsets.
    Anywhere,
    /// Each at its offset.
    Offsets(Offsets),
}

/// The offsets of a created stream.
#[derive(Debug)]
pub(super) struct Offsets {
    /// Of the next request that has none yet.
    next: i64,
    owner: Owner,
    /// Whether anything was written here.
    confirmed: bool,
    /// The place of the first request of the present call whose rows were refused.
    /// Those behind it are to begin there.
    vacated: Option<i64>,
}

/// Who has appended to a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Owner {
    /// Only who appends now.
    Us,
    /// Somebody before, whose requests may still arrive.
    Another,
}

/// What it says of the requests before one that it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing.
    Unknown,
    /// They are written, or the stream could not have come to its place.
    Written,
    /// There are rows in their places, which may be another's.
    Foreign,
}

/// What a refusal means for a request.
#[derive(Debug)]
pub(super) enum Verdict {
    /// It is written.
    Written,
    /// It was not looked at, because one before it was refused.
    Behind,
    /// It is refused as the error says.
    Refused(Error),
    /// The stream takes no more of ours.
    Strand(Error),
}

impl Place {
    /// At the beginning of a stream that was just created.
    pub(super) fn beginning() -> Self {
        Place::Offsets(Offsets {
            next: 0,
            owner: Owner::Us,
            confirmed: true,
            vacated: None,
        })
    }

    /// Behind so many rows of somebody before.
    pub(super) fn after(rows: i64) -> Self {
        Place::Offsets(Offsets {
            next: rows,
            owner: Owner::Another,
            confirmed: false,
            vacated: None,
        })
    }

    /// Whether a second request may be under way.
    pub(super) fn is_confirmed(&self) -> bool {
        match self {
            Place::Anywhere => true,
            Place::Offsets(offsets) => offsets.confirmed,
        }
    }

    /// Whether requests have to move up before the next one goes out.
    pub(super) fn is_vacated(&self) -> bool {
        matches!(self, Place::Offsets(offsets) if offsets.vacated.is_some())
    }

    /// Gives a request its offset, if it has none and the stream has them.
    pub(super) fn assign<T>(&mut self, request: &mut Kept<T>) {
        if let Place::Offsets(offsets) = self {
            let next = offsets.next;
            let at = *request.offset.get_or_insert(next);
            offsets.next = next.max(at.saturating_add(request.count()));
        }
    }

    /// The service has written a request at `told`.
    ///
    /// # Errors
    /// When that is not where it was to be.
    pub(super) fn written<T>(&mut self, request: &Kept<T>, told: Option<i64>) -> Result<()> {
        let Place::Offsets(offsets) = self else {
            return Ok(());
        };
        if told != request.offset {
            let place = |offset: Option<i64>| {
                offset.map_or("no offset".to_string(), |at| format!("offset {at}"))
            };
            return Err(Error::data(format!(
                "the service has written rows at {}, and they were for {}",
                place(told),
                place(request.offset)
            )));
        }
        if let (Some(vacated), Some(at)) = (offsets.vacated, request.offset)
            && at > vacated
        {
            return Err(Error::data(format!(
                "the service has written rows at offset {at} behind rows at {vacated} that it had \
                 refused"
            )));
        }
        offsets.confirmed = true;
        Ok(())
    }

    /// What a written request says of those before it.
    pub(super) fn before_written(&self) -> Before {
        match self {
            Place::Anywhere => Before::Unknown,
            Place::Offsets(offsets) => match offsets.owner {
                Owner::Us => Before::Written,
                Owner::Another => Before::Foreign,
            },
        }
    }

    /// The service has refused rows of a request, so none of it is written.
    pub(super) fn rejected<T>(&mut self, request: &Kept<T>) {
        if let (Place::Offsets(offsets), Some(at)) = (self, request.offset) {
            let first = offsets.vacated.map_or(at, |vacated| vacated.min(at));
            offsets.vacated = Some(first);
        }
    }

    /// What a refusal means for a request; `follows` one that was refused before it
    /// on the same call.
    pub(super) fn judge<T>(&self, request: &Kept<T>, refusal: Refusal, follows: bool) -> Verdict {
        let Place::Offsets(offsets) = self else {
            return Verdict::Refused(refusal.error);
        };
        let vacated = offsets.vacated.is_some();
        match refusal.code {
            // The stream ended where rows were refused, and nothing of ours can have
            // come there since.
            Code::AlreadyExists if vacated => Verdict::Strand(refusal.error),
            Code::AlreadyExists if offsets.owner == Owner::Us && request.sent => Verdict::Written,
            Code::AlreadyExists => Verdict::Strand(refusal.error),
            Code::OutOfRange if !offsets.confirmed => Verdict::Strand(refusal.error),
            Code::OutOfRange if follows => Verdict::Behind,
            Code::NotFound | Code::InvalidArgument | Code::FailedPrecondition
                if !offsets.confirmed =>
            {
                Verdict::Strand(refusal.error)
            }
            _ => Verdict::Refused(refusal.error),
        }
    }

    /// Moves requests up to where rows were refused. `false` when that is not safe,
    /// because one of them may still arrive where it stood.
    #[must_use]
    pub(super) fn move_up<T>(&mut self, requests: &mut VecDeque<Kept<T>>) -> bool {
        let Place::Offsets(offsets) = self else {
            return true;
        };
        let Some(vacated) = offsets.vacated.take() else {
            return true;
        };
        let behind = |request: &Kept<T>| request.offset.is_some_and(|at| at > vacated);
        if requests
            .iter()
            .any(|request| behind(request) && request.dangling)
        {
            return false;
        }
        for request in requests.iter_mut().filter(|request| behind(request)) {
            request.offset = None;
            request.sent = false;
        }
        offsets.next = vacated;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::write::message::RequestRows;
    use crate::error::ErrorKind;
    use crate::types::encode::Payload;

    /// A request of so many rows.
    fn request(rows: usize) -> Kept<()> {
        let messages = b"\x0A\x03row".repeat(rows);
        Kept::new(
            (),
            RequestRows::new(Payload::Protobuf(messages.into()), rows),
        )
    }

    fn refusal(code: Code) -> Refusal {
        Refusal {
            code,
            error: Error::new(ErrorKind::Internal, "told"),
        }
    }

    /// Requests of three rows each, in their places.
    fn placed(place: &mut Place, count: usize) -> VecDeque<Kept<()>> {
        let mut requests: VecDeque<_> = (0..count).map(|_| request(3)).collect();
        for request in &mut requests {
            place.assign(request);
        }
        requests
    }

    fn offsets(requests: &VecDeque<Kept<()>>) -> Vec<Option<i64>> {
        requests.iter().map(|request| request.offset).collect()
    }

    #[test]
    fn requests_stand_behind_each_other_and_keep_their_places() {
        let mut place = Place::after(5);
        let mut requests = placed(&mut place, 3);
        assert_eq!(offsets(&requests), [Some(5), Some(8), Some(11)]);
        for request in &mut requests {
            place.assign(request);
        }
        assert_eq!(offsets(&requests), [Some(5), Some(8), Some(11)]);
        assert_eq!(offsets(&placed(&mut place, 1)), [Some(14)]);
        let mut anywhere = Place::Anywhere;
        assert_eq!(offsets(&placed(&mut anywhere, 1)), [None]);
    }

    #[test]
    fn an_answer_for_another_place_is_no_answer() {
        let mut place = Place::beginning();
        let requests = placed(&mut place, 2);
        place.written(&requests[0], Some(0)).unwrap();
        for wrong in [Some(0), Some(4), None] {
            let error = place.written(&requests[1], wrong).unwrap_err();
            assert!(error.message().contains("offset 3"), "{error}");
        }
        place.rejected(&requests[0]);
        place.written(&requests[1], Some(3)).unwrap_err();
        Place::Anywhere.written(&requests[0], None).unwrap();
    }

    #[test]
    fn what_was_sent_before_and_is_there_is_written() {
        let mut place = Place::beginning();
        let mut requests = placed(&mut place, 2);
        requests[0].sent = true;
        let judge = |request, code| place.judge(request, refusal(code), false);
        assert!(matches!(
            judge(&requests[0], Code::AlreadyExists),
            Verdict::Written
        ));
        // Somebody else has written there.
        assert!(matches!(
            judge(&requests[1], Code::AlreadyExists),
            Verdict::Strand(_)
        ));
    }

    #[test]
    fn requests_behind_a_refused_one_were_not_looked_at() {
        let mut place = Place::beginning();
        let requests = placed(&mut place, 2);
        let judge = |code, follows| place.judge(&requests[1], refusal(code), follows);
        assert!(matches!(judge(Code::OutOfRange, true), Verdict::Behind));
        assert!(matches!(
            judge(Code::OutOfRange, false),
            Verdict::Refused(_)
        ));
        assert!(matches!(
            judge(Code::Unavailable, true),
            Verdict::Refused(_)
        ));
    }

    #[test]
    fn rows_behind_a_refused_request_are_nobody_elses_and_not_ours() {
        let mut place = Place::beginning();
        let mut requests = placed(&mut place, 2);
        requests[1].sent = true;
        place.rejected(&requests[0]);
        let verdict = place.judge(&requests[1], refusal(Code::AlreadyExists), true);
        assert!(matches!(verdict, Verdict::Strand(_)));
    }

    #[test]
    fn a_written_request_speaks_for_those_before_it_in_a_stream_of_our_own() {
        assert_eq!(Place::Anywhere.before_written(), Before::Unknown);
        assert_eq!(Place::beginning().before_written(), Before::Written);
        assert_eq!(Place::after(3).before_written(), Before::Foreign);
    }

    #[test]
    fn a_stream_of_somebody_before_has_to_prove_itself() {
        let mut place = Place::after(6);
        assert!(!place.is_confirmed());
        let mut requests = placed(&mut place, 2);
        requests[0].sent = true;
        for code in [
            Code::AlreadyExists,
            Code::OutOfRange,
            Code::NotFound,
            Code::InvalidArgument,
        ] {
            let verdict = place.judge(&requests[0], refusal(code), false);
            assert!(matches!(verdict, Verdict::Strand(_)), "{code:?}");
        }
        let verdict = place.judge(&requests[0], refusal(Code::Unavailable), false);
        assert!(matches!(verdict, Verdict::Refused(_)));
        place.written(&requests[0], Some(6)).unwrap();
        assert!(place.is_confirmed());
        let verdict = place.judge(&requests[1], refusal(Code::NotFound), false);
        assert!(matches!(verdict, Verdict::Refused(_)));
        // It may be the other's, whose requests may arrive at any time.
        requests[1].sent = true;
        let verdict = place.judge(&requests[1], refusal(Code::AlreadyExists), false);
        assert!(matches!(verdict, Verdict::Strand(_)));
    }

    #[test]
    fn requests_move_up_to_where_rows_were_refused() {
        let mut place = Place::beginning();
        let mut requests = placed(&mut place, 4);
        let second = requests.remove(1).unwrap();
        place.rejected(&second);
        assert!(place.is_vacated());
        requests[1].sent = true;
        assert!(place.move_up(&mut requests));
        assert!(!place.is_vacated());
        for request in &mut requests {
            place.assign(request);
        }
        assert_eq!(offsets(&requests), [Some(0), Some(3), Some(6)]);
        assert!(!requests[1].sent, "not to this place");
    }

    #[test]
    fn a_request_that_may_still_arrive_does_not_move() {
        for (dangling, safe) in [(0, true), (2, false)] {
            let mut place = Place::beginning();
            let mut requests = placed(&mut place, 4);
            requests[dangling].dangling = true;
            let second = requests.remove(1).unwrap();
            place.rejected(&second);
            requests[0].dangling = dangling == 0;
            assert_eq!(place.move_up(&mut requests), safe);
        }
    }
}
