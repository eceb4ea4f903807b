//! A lane: one connection between two nodes, as either end. Bytes and time go in, events and bytes come out.
//!
//! Pull [`Lane::poll_event`] until it answers `None`; the bytes it leaves in the input are an incomplete frame, to be
//! presented again with more bytes behind it. It also answers `None` without reading on where a verb is due first
//! ([`Lane::open`] or [`Lane::refuse`], after [`Event::Met`]): poll again after the verb. Bytes to be written are in
//! [`Lane::output`]; [`Lane::sent`] takes note of those that were. Where input and a deadline are there at once, the
//! input comes first: bytes that wait in the socket are a sign of life.
//!
//! A lane carries bodies in order, checks that none is missing, and holds either end to a window. It does not send
//! again: a lane that ends is replaced by another, and its holder knows from the peer which bodies have arrived.
//!
//! Invariants: before its proof a peer gets the next frame of the opening, or the end of the lane, and its words have no
//! other effect; after [`Event::Refused`], [`Event::Failed`] and [`Lane::refuse`] nothing follows; of pings, pongs and
//! counts at most one of each is in the output, so a peer that does not read costs the window and no more.

pub mod cookie;
pub mod error;
pub mod event;
pub mod frame;
pub mod gathering;
pub mod hello;
pub mod limits;
pub mod outgoing;
pub mod proof;
pub mod refusal;
pub mod role;
pub mod window;

mod beat;
mod opening;
mod receiving;
mod sending;

pub use base::Input;
pub use cookie::{Cookie, NoCookie, Trust};
pub use error::Error;
pub use event::{Event, Unsent};
pub use frame::Kind;
pub use gathering::Body;
pub use hello::{Capabilities, Hello, Identity, Purpose, Versions};
pub use limits::{Bounds, Limits};
pub use outgoing::Outgoing;
pub use refusal::{Refusal, RefusalCode};
pub use role::Role;
pub use window::Charge;

use base::{Now, Output, Secrets};
use beat::Beat;
use frame::HEAD;
use gathering::Gathering;
use opening::Opening;
use receiving::{Ending, State, Step};
use sending::Waiting;
use window::{Allowance, Intake};

/// A lane.
#[derive(Debug)]
pub struct Lane {
    role: Role,
    state: State,
    limits: Limits,
    /// Bounds of this lane; once both hellos are there, the lower of both.
    bounds: Bounds,
    version: u16,
    /// None once the lane is open.
    opening: Option<Box<Opening>>,
    output: Output,
    /// Bytes ever given to the output.
    said: u64,
    /// Bytes given to it up to the end of the last ping, pong or count.
    control_end: u64,
    /// The number of the next frame, of this end and of the peer.
    sequence_out: u64,
    sequence_in: u64,
    waiting: Waiting,
    allowance: Allowance,
    intake: Intake,
    gathering: Gathering,
    beat: Beat,
    /// A ping to be answered.
    pong: Option<u64>,
    /// The deadline of the opening; `u64::MAX`: none.
    deadline_ns: u64,
    /// Bytes of input without which nothing goes on.
    wanted: usize,
    /// Bytes left in the input at the last poll.
    left: usize,
    ending: Option<Ending>,
}

impl Lane {
    /// The end of the node that made the connection, established `now`; its hello is in the output.
    ///
    /// # Panics
    /// When `limits` cannot work together: see their fields.
    pub fn dialer(
        limits: Limits,
        trust: Trust,
        identity: Identity,
        purpose: Purpose,
        secrets: &mut Secrets,
        now: Now,
    ) -> Lane {
        limits.assert_sound();
        let mut opening =
            Opening::new(Role::Dialer, trust, identity, purpose, limits.bounds, secrets.bytes());
        let hello = opening.hello().to_vec();
        let mut lane = Lane::new(Role::Dialer, limits, opening, now);
        lane.put_frame(now, Kind::Hello, &hello);
        lane
    }

    /// The end of the node that accepted the connection `now`. It says nothing before the dialer's hello, and has the
    /// dialer's purpose.
    ///
    /// # Panics
    /// When `limits` cannot work together: see their fields.
    pub fn listener(
        limits: Limits,
        trust: Trust,
        identity: Identity,
        secrets: &mut Secrets,
        now: Now,
    ) -> Lane {
        limits.assert_sound();
        // The purpose is the dialer's once that has said it.
        let purpose = Purpose::Pulse;
        let opening = Opening::new(Role::Listener, trust, identity, purpose, limits.bounds, secrets.bytes());
        Lane::new(Role::Listener, limits, opening, now)
    }

    fn new(role: Role, limits: Limits, opening: Opening, now: Now) -> Lane {
        Lane {
            role,
            state: State::AwaitHello,
            limits,
            bounds: limits.bounds,
            version: 0,
            opening: Some(Box::new(opening)),
            output: Output::default(),
            said: 0,
            control_end: 0,
            sequence_out: 0,
            sequence_in: 0,
            waiting: Waiting::default(),
            allowance: Allowance::default(),
            intake: Intake::default(),
            gathering: Gathering::default(),
            beat: Beat::default(),
            pong: None,
            deadline_ns: now.after_ms(limits.opening_ms_max.into()),
            wanted: HEAD,
            left: 0,
            ending: None,
        }
    }

    /// The next event, read from `input` as far as needed. `None`: more input or a verb is needed first. The event
    /// borrows from the input alone, so verbs can be called while it is looked at.
    pub fn poll_event<'i>(&mut self, now: Now, input: &mut Input<'i>) -> Option<Event<'i>> {
        loop {
            match self.step(now, input) {
                Ok(Step::Event(event)) => return Some(event),
                Ok(Step::Again) => {}
                Ok(Step::Empty) => {
                    let left = input.rest().len();
                    if input.consumed() > 0 || left > self.left {
                        self.beat.note_heard(now);
                    }
                    self.left = left;
                    return None;
                }
                Err(error) => self.fail(now, error),
            }
        }
    }

    /// How many bytes of input, counted from where it stopped reading, are needed for anything to happen. At most
    /// [`Lane::input_max`].
    pub fn wanted(&self) -> usize {
        self.wanted
    }

    /// The most bytes of input that [`Lane::poll_event`] ever wants to see at once, as things are.
    pub fn input_max(&self) -> usize {
        self.frame_bytes_max() as usize
    }

    /// Which end this is.
    pub fn role(&self) -> Role {
        self.role
    }

    /// Both ends are proven and taken, and nothing closes.
    pub fn is_open(&self) -> bool {
        self.state == State::Open
    }

    /// Nothing more will come or go but the rest of the output.
    pub fn is_closed(&self) -> bool {
        self.state == State::Closed
    }

    /// The version that is spoken; 0 before the peer's hello.
    pub fn version(&self) -> u16 {
        self.version
    }

    /// Bounds of this lane: the lower of both ends' once both hellos are there.
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Bytes that this end sent of bodies, and that the peer has not taken yet.
    pub fn bytes_ahead(&self) -> u64 {
        self.allowance.ahead()
    }

    /// Bytes of bodies that came and were not released.
    pub fn bytes_held(&self) -> u64 {
        self.intake.held()
    }

    /// Bytes to be written to the socket.
    pub fn output(&self) -> &Output {
        &self.output
    }

    /// The output, to give it memory or take some back. Bytes that were written are noted by [`Lane::sent`].
    pub fn output_mut(&mut self) -> &mut Output {
        &mut self.output
    }

    /// The first `count` bytes of the output were written. More may be in it afterwards.
    ///
    /// # Panics
    /// When there are not so many.
    pub fn sent(&mut self, now: Now, count: usize) {
        self.output.sent(count);
        self.put_control(now);
    }

    /// Bytes of memory behind it, the output's and shared memory excepted.
    pub fn capacity(&self) -> usize {
        let opening = self.opening.as_ref().map_or(0, |opening| opening.capacity());
        opening + self.waiting.capacity() + self.gathering.capacity()
    }

    /// When [`Lane::handle_deadline`] has something to do, in monotonic nanoseconds.
    pub fn poll_deadline(&self) -> Option<u64> {
        match self.state {
            State::Open => Some(self.beat.deadline()),
            _ => (self.deadline_ns != u64::MAX).then_some(self.deadline_ns),
        }
    }

    /// Handles a deadline that is due: sends a ping, or gives the peer up. Poll events afterwards.
    pub fn handle_deadline(&mut self, now: Now) {
        if now.mono_ns >= self.deadline_ns {
            self.fail(now, Error::OpeningTimeout);
        } else if self.is_open() {
            match self.beat.tick(now) {
                Ok(()) => self.put_control(now),
                Err(error) => self.fail(now, error),
            }
        }
    }

    /// Takes the peer that was met: the lane is open. Nothing happens where it has ended meanwhile.
    ///
    /// # Panics
    /// When no peer was met.
    pub fn open(&mut self, now: Now) {
        if matches!(self.state, State::Ending | State::Closed) {
            return;
        }
        assert!(self.state == State::Met, "a peer was met");
        if let (Role::Listener, Some(opening)) = (self.role, &self.opening) {
            let proof = opening.prove();
            self.put_frame(now, Kind::Proof, &proof);
        }
        self.state = State::Open;
        self.opening = None;
        self.deadline_ns = u64::MAX;
        self.beat.start(&self.limits, now);
    }

    /// Closes the lane, at any time, and tells the peer why. It is closed at once and no event follows; the rest of the
    /// output is to be written. Nothing happens where it ends already.
    pub fn refuse(&mut self, now: Now, refusal: &Refusal) {
        if !matches!(self.state, State::Ending | State::Closed) {
            self.end(None);
            self.put_frame(now, Kind::Refuse, &refusal.encode());
        }
    }

    /// The bytes of an event are done with: the peer may send as many again.
    ///
    /// # Panics
    /// When the charge is of another lane and more than this one was sent.
    pub fn release(&mut self, now: Now, charge: Charge) {
        self.intake.release(charge.0);
        self.put_control(now);
    }
}
