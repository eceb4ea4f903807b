//! Two ends of a lane from the first byte on, between which the fuzzer carries, cuts, changes and adds bytes, says
//! bodies, and lets time go by.
#![no_main]

use base::id::{NodeNo, ShardId};
use base::{Input, Now, Secrets};
use cluster::lane::{
    Bounds, Capabilities, Charge, Cookie, Event, Identity, Kind, Lane, Limits, Outgoing, Purpose, Trust,
    Versions,
};
use cluster::names::{ClusterId, FolderId, Incarnation, NodeName};
use libfuzzer_sys::fuzz_target;
use std::num::NonZeroU128;

const ENTRY: u32 = 20_000;
const WINDOW: u32 = 1 << 14;

struct End {
    lane: Lane,
    /// Bytes on the wire to this end, and those it has left in its input.
    wire: Vec<u8>,
    kept: Vec<u8>,
    charges: Vec<Charge>,
    said: Vec<Vec<u8>>,
    heard: Vec<Vec<u8>>,
    has_met: bool,
}

impl End {
    fn new(number: u16, setup: u8) -> End {
        let cluster = if setup & 1 == 0 { NonZeroU128::new(7).map(ClusterId) } else { None };
        let identity = Identity {
            versions: Versions::SPOKEN,
            cluster,
            folder: FolderId(if setup & 2 == 0 { number.into() } else { 1 }),
            incarnation: Incarnation(number.into()),
            capabilities: Capabilities(setup.into()),
            number: NodeNo(number),
            name: NodeName::new("rabbit@node").expect("a name"),
        };
        let bounds = Bounds { frame_bytes_max: 4096, entry_bytes_max: ENTRY, window_bytes: WINDOW };
        let limits = Limits { bounds, waiting_bytes_max: 1 << 15, ..Limits::default() };
        let cookie = if setup & 4 == 0 { "monster" } else { "other" };
        let trust = match setup & 8 {
            0 => Trust::Cookie(Cookie::new(cookie.as_bytes()).expect("a cookie")),
            _ => Trust::Certificates,
        };
        let (mut secrets, now) = (Secrets::simulated(number.into()), Now::default());
        let lane = match number {
            1 => Lane::dialer(limits, trust, identity, Purpose::Shard(ShardId(1)), &mut secrets, now),
            _ => Lane::listener(limits, trust, identity, &mut secrets, now),
        };
        let (wire, kept, charges, said, heard) = Default::default();
        End { lane, wire, kept, charges, said, heard, has_met: false }
    }

    /// Takes so many bytes off the wire.
    fn take(&mut self, now: Now, count: usize) {
        self.kept.extend(self.wire.drain(..count.min(self.wire.len())));
        let mut input = Input::new(&self.kept);
        while let Some(event) = self.lane.poll_event(now, &mut input) {
            match event {
                Event::Met(_) => {
                    self.has_met = true;
                    self.lane.open(now);
                }
                Event::Body { body, charge, .. } => {
                    assert!(self.has_met, "nothing is believed before the proof");
                    self.heard.push(body.to_vec());
                    self.charges.push(charge);
                }
                Event::Room | Event::Refused { .. } | Event::Failed(_) => {}
            }
        }
        let left = input.rest().len();
        self.kept.drain(..self.kept.len() - left);
    }

    fn check(&self) {
        assert!(self.has_met || !self.lane.is_open(), "nobody is taken before the proof");
        assert!(self.lane.wanted() <= self.lane.input_max());
        assert!(self.lane.output().len() <= WINDOW as usize + 2000);
        assert!(self.lane.bytes_held() <= WINDOW.into());
        assert!(self.lane.capacity() <= (2 * ENTRY as usize) + (1 << 17));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[one, other], mut bytes)) = bytes.split_first_chunk::<2>() else { return };
    let mut ends = [End::new(1, one), End::new(2, other)];
    let (mut now, mut is_honest) = (Now::default(), true);
    while let Some((&[what, count], rest)) = bytes.split_first_chunk::<2>() {
        bytes = rest;
        let [one, other] = &mut ends;
        let (end, peer) = if what & 1 == 0 { (one, other) } else { (other, one) };
        let many = usize::from(count) * usize::from(count);
        match what >> 1 & 7 {
            0 | 1 => {
                let said = end.lane.output().to_vec();
                let written = many.min(said.len());
                end.lane.sent(now, written);
                peer.wire.extend_from_slice(&said[..written]);
            }
            2 | 3 => end.take(now, many),
            4 => {
                let body = vec![count; many.min(ENTRY as usize)];
                if end.lane.send(now, Kind::Consensus, Outgoing::new(body.clone())).is_ok() {
                    end.said.push(body);
                }
            }
            5 => end.charges.drain(..).for_each(|charge| end.lane.release(now, charge)),
            6 => {
                now = Now::at_ms(now.wall_ms + u64::from(count) * 10);
                if end.lane.poll_deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
                    end.lane.handle_deadline(now);
                }
            }
            _ => {
                is_honest = false;
                let (added, rest) = bytes.split_at(bytes.len().min(usize::from(count % 64)));
                bytes = rest;
                match what >> 4 & 3 {
                    0 => end.wire.extend_from_slice(added),
                    1 => end.wire.truncate(many),
                    2 => end.wire.iter_mut().zip(added).for_each(|(byte, added)| *byte ^= added),
                    _ => end.wire.splice(..0, added.iter().copied()).for_each(drop),
                }
            }
        }
        ends.iter().for_each(End::check);
    }
    if is_honest {
        assert!(ends[1].said.starts_with(&ends[0].heard) && ends[0].said.starts_with(&ends[1].heard));
    }
});
