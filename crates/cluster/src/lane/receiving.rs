//! Frames of a lane as they come in, and the end of it.

use super::frame::{self, Frame, Kind, Next};
use super::sending::Waiting;
use super::{Error, Event, Input, Lane, Refusal, Role};
use base::Now;

/// How far a lane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    AwaitHello,
    AwaitProof,
    /// A verb is due: `open` or `refuse`.
    Met,
    Open,
    /// The end is still to be told.
    Ending,
    Closed,
}

/// A reason to end, still to be told.
#[derive(Debug)]
pub(super) enum Ending {
    Failed(Error),
    Refused { refusal: Refusal, is_proven: bool },
}

/// The result of one step of reading.
pub(super) enum Step<'i> {
    Event(Event<'i>),
    /// Go on.
    Again,
    /// More input, or a verb, is needed.
    Empty,
}

impl Lane {
    /// The largest frame that is taken now, in bytes.
    pub(super) fn frame_bytes_max(&self) -> u32 {
        match self.state {
            State::AwaitHello | State::AwaitProof => self.limits.opening_frame_bytes_max,
            _ => self.bounds.frame_bytes_max,
        }
    }

    pub(super) fn step<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Result<Step<'i>, Error> {
        match self.state {
            State::Met => return Ok(Step::Empty),
            State::Ending => {
                self.state = State::Closed;
                return Ok(self.ending.take().map_or(Step::Again, |ending| {
                    Step::Event(match ending {
                        Ending::Failed(error) => Event::Failed(error),
                        Ending::Refused { refusal, is_proven } => Event::Refused { refusal, is_proven },
                    })
                }));
            }
            State::Closed => {
                input.consume(usize::MAX);
                return Ok(Step::Empty);
            }
            State::Open if self.waiting.take_room(self.limits.waiting_bytes_max) => {
                return Ok(Step::Event(Event::Room));
            }
            State::AwaitHello | State::AwaitProof | State::Open => {}
        }
        let bytes = input.rest();
        let next = frame::split(bytes, self.sequence_in, self.frame_bytes_max());
        match next.map_err(|error| self.first_fault(error, bytes))? {
            Next::Incomplete { wanted } => {
                self.wanted = wanted;
                Ok(Step::Empty)
            }
            Next::Frame(frame) => {
                input.consume(frame.wire_bytes());
                self.sequence_in += 1;
                self.take(now, frame)
            }
        }
    }

    /// The first bytes of all may be of another protocol, whose beginning is a length beyond the bound.
    fn first_fault(&self, error: Error, bytes: &[u8]) -> Error {
        match (self.state, error) {
            (State::AwaitHello, Error::FrameLength { .. }) => Error::foreign(bytes),
            _ => error,
        }
    }

    fn take<'i>(&mut self, now: Now, frame: Frame<'i>) -> Result<Step<'i>, Error> {
        match (self.state, frame.kind) {
            (
                State::Open,
                kind @ (Kind::Consensus | Kind::State | Kind::Catalog | Kind::News | Kind::Log),
            ) => {
                let entry_bytes_max = self.bounds.entry_bytes_max;
                let whole = self.gathering.take(frame, entry_bytes_max, &mut self.intake)?;
                self.put_control(now);
                Ok(match whole {
                    Some((body, charge)) => Step::Event(Event::Body { kind, body, charge }),
                    None => Step::Again,
                })
            }
            (State::Open, Kind::Taken) => {
                self.allowance.note_taken(number(frame)?)?;
                self.put_bodies(now);
                Ok(Step::Again)
            }
            (State::Open, Kind::Ping) => {
                self.pong = Some(number(frame)?);
                self.put_control(now);
                Ok(Step::Again)
            }
            (State::Open, Kind::Pong) => {
                self.beat.pong(number(frame)?)?;
                Ok(Step::Again)
            }
            (State::AwaitHello, Kind::Hello) => self.take_hello(now, frame.body),
            (State::AwaitProof, Kind::Proof) => self.take_proof(frame.body),
            (_, Kind::Refuse) => {
                let refusal = Refusal::decode(frame.body)?;
                let is_proven = self.is_open();
                self.end(Some(Ending::Refused { refusal, is_proven }));
                Ok(Step::Again)
            }
            (_, kind) => Err(Error::Unexpected(kind)),
        }
    }

    fn take_hello<'i>(&mut self, now: Now, body: &[u8]) -> Result<Step<'i>, Error> {
        let Some(opening) = self.opening.as_mut() else { return Err(Error::Unexpected(Kind::Hello)) };
        (self.version, self.bounds) = opening.hear(body)?;
        self.allowance.window_bytes = self.bounds.window_bytes;
        self.intake.window_bytes = self.bounds.window_bytes;
        let (kind, answer) = match self.role {
            Role::Dialer => (Kind::Proof, opening.prove()),
            Role::Listener => (Kind::Hello, opening.hello().to_vec()),
        };
        self.put_frame(now, kind, &answer);
        self.state = State::AwaitProof;
        Ok(Step::Again)
    }

    fn take_proof<'i>(&mut self, body: &[u8]) -> Result<Step<'i>, Error> {
        let Some(opening) = self.opening.as_mut() else { return Err(Error::Unexpected(Kind::Proof)) };
        let hello = opening.believe(body)?;
        self.state = State::Met;
        Ok(Step::Event(Event::Met(Box::new(hello))))
    }

    /// Ends the lane for a fault, and tells the peer where it would understand.
    #[cold]
    pub(super) fn fail(&mut self, now: Now, error: Error) {
        if matches!(self.state, State::Ending | State::Closed) {
            return;
        }
        self.end(Some(Ending::Failed(error)));
        if let Some(code) = error.code() {
            let refusal = Refusal::new(code, &error.to_string());
            self.put_frame(now, Kind::Refuse, &refusal.encode());
        }
    }

    /// Nothing goes on but the rest of the output, and the ending, if any, is told.
    pub(super) fn end(&mut self, ending: Option<Ending>) {
        self.state = if ending.is_some() { State::Ending } else { State::Closed };
        self.ending = ending;
        self.deadline_ns = u64::MAX;
        self.opening = None;
        self.waiting = Waiting::default();
        self.gathering.clear();
    }
}

/// The number that is the body of a ping, a pong or a count; the length was checked with the head.
fn number(frame: Frame<'_>) -> Result<u64, Error> {
    let bytes = frame.body.try_into().map_err(|_| Error::Unexpected(frame.kind))?;
    Ok(u64::from_le_bytes(bytes))
}
