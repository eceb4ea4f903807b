//! Two ends of a lane, and the wire between them.

use base::id::NodeNo;
use base::{Input, Now, Secrets};
use cluster::lane::{
    Capabilities, Charge, Cookie, Error, Event, Identity, Kind, Lane, Limits, Purpose, Refusal, RefusalCode,
    Trust, Versions,
};
use cluster::names::{ClusterId, FolderId, Incarnation, NodeName};
use std::num::NonZeroU128;

/// The frame number that is next in either direction once a lane is open.
pub const NEXT: u64 = 2;

/// An event, without its borrows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    Met(String),
    Body(Vec<u8>),
    Room,
    Refused(RefusalCode, bool),
    Failed(Error),
}

/// One end and its side of the wire.
pub struct End {
    pub lane: Lane,
    pub now: Now,
    /// The holder takes the peer that is met; else it answers with this.
    pub answer: Option<Refusal>,
    /// Bodies are released as they come.
    pub releases: bool,
    pub told: Vec<Told>,
    pub charges: Vec<Charge>,
    /// Kinds of the bodies that came.
    pub kinds: Vec<Kind>,
    /// Everything it ever sent.
    pub said: Vec<u8>,
    kept: Vec<u8>,
}

impl End {
    pub fn new(lane: Lane) -> End {
        let (told, charges, kinds, said, kept) = Default::default();
        End { lane, now: Now::at_ms(0), answer: None, releases: true, told, charges, kinds, said, kept }
    }

    /// Bytes that came, `step` at a time.
    pub fn take(&mut self, bytes: &[u8], step: usize) {
        for piece in bytes.chunks(step) {
            self.kept.extend_from_slice(piece);
            self.poll();
        }
    }

    /// Handles events until there are none.
    pub fn poll(&mut self) {
        let kept = std::mem::take(&mut self.kept);
        let mut input = Input::new(&kept);
        while let Some(event) = self.lane.poll_event(self.now, &mut input) {
            let told = match event {
                Event::Met(hello) => {
                    match &self.answer {
                        None => self.lane.open(self.now),
                        Some(refusal) => self.lane.refuse(self.now, refusal),
                    }
                    Told::Met(format!("{} as {}", hello.identity.name, hello.purpose))
                }
                Event::Body { kind, body, charge } => {
                    self.kinds.push(kind);
                    let told = Told::Body(body.to_vec());
                    match self.releases {
                        true => self.lane.release(self.now, charge),
                        false => self.charges.push(charge),
                    }
                    told
                }
                Event::Room => Told::Room,
                Event::Refused { refusal, is_proven } => Told::Refused(refusal.code, is_proven),
                Event::Failed(error) => Told::Failed(error),
            };
            self.told.push(told);
        }
        self.kept = input.rest().to_vec();
        assert!(self.kept.len() < self.lane.wanted() || self.lane.is_closed(), "what is wanted is looked at");
    }

    /// Everything that is to be written.
    pub fn write(&mut self) -> Vec<u8> {
        let bytes = self.lane.output().to_vec();
        self.lane.sent(self.now, bytes.len());
        self.said.extend(&bytes);
        bytes
    }

    /// Deadlines that are due at `ms`.
    pub fn pass(&mut self, ms: u64) {
        self.now = Now::at_ms(ms);
        if self.lane.poll_deadline().is_some_and(|deadline| deadline <= self.now.mono_ns) {
            self.lane.handle_deadline(self.now);
        }
        self.poll();
    }

    /// Bodies that came.
    pub fn bodies(&self) -> Vec<&[u8]> {
        let bodies = self.told.iter().filter_map(|told| match told {
            Told::Body(body) => Some(body.as_slice()),
            _ => None,
        });
        bodies.collect()
    }
}

/// Carries bytes both ways, `step` at a time, until there are none.
pub fn talk(one: &mut End, other: &mut End, step: usize) {
    loop {
        let (there, back) = (one.write(), other.write());
        if there.is_empty() && back.is_empty() {
            return;
        }
        other.take(&there, step);
        one.take(&back, step);
    }
}

/// All that a test may say of one end.
#[derive(Clone, Debug)]
pub struct Setup {
    pub limits: Limits,
    pub trust: Trust,
    pub identity: Identity,
    pub seed: u64,
}

pub fn cookie(text: &str) -> Trust {
    Trust::Cookie(Cookie::new(text.as_bytes()).unwrap())
}

pub fn cluster(number: u128) -> Option<ClusterId> {
    NonZeroU128::new(number).map(ClusterId)
}

impl Setup {
    /// Node `number` of cluster 1, with the cookie of all.
    pub fn node(number: u16) -> Setup {
        let identity = Identity {
            versions: Versions::SPOKEN,
            cluster: cluster(1),
            folder: FolderId(u128::from(number) << 64),
            incarnation: Incarnation(u64::from(number) << 32),
            capabilities: Capabilities::default(),
            number: NodeNo(number),
            name: NodeName::new(&format!("rabbit@{number}")).unwrap(),
        };
        Setup { limits: Limits::default(), trust: cookie("monster"), identity, seed: number.into() }
    }

    /// The same with a change.
    pub fn with(mut self, change: impl FnOnce(&mut Setup)) -> Setup {
        change(&mut self);
        self
    }

    pub fn dialer(&self) -> End {
        let (trust, identity) = (self.trust.clone(), self.identity.clone());
        let mut secrets = Secrets::simulated(self.seed);
        End::new(Lane::dialer(
            self.limits,
            trust,
            identity,
            Purpose::Shard(base::id::ShardId(3)),
            &mut secrets,
            Now::at_ms(0),
        ))
    }

    pub fn listener(&self) -> End {
        let (trust, identity) = (self.trust.clone(), self.identity.clone());
        let mut secrets = Secrets::simulated(self.seed);
        End::new(Lane::listener(self.limits, trust, identity, &mut secrets, Now::at_ms(0)))
    }
}

/// An open lane between nodes 1 and 2 with these limits.
pub fn open(limits: Limits) -> (End, End) {
    let mut one = Setup::node(1).with(|one| one.limits = limits).dialer();
    let mut other = Setup::node(2).with(|other| other.limits = limits).listener();
    talk(&mut one, &mut other, usize::MAX);
    assert!(one.lane.is_open() && other.lane.is_open());
    one.told.clear();
    other.told.clear();
    (one, other)
}
