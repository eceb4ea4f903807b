//! Any bytes on an open lane between nodes, as they are or as frames with right heads and checksums.
#![no_main]

use base::id::{NodeNo, ShardId};
use base::{Input, Now, Secrets};
use cluster::lane::frame::{self, Next};
use cluster::lane::{
    Bounds, Capabilities, Cookie, Event, Identity, Lane, Limits, Purpose, Role, Trust, Versions,
};
use cluster::names::{FolderId, Incarnation, NodeName};
use libfuzzer_sys::fuzz_target;

const FRAME: u32 = 4096;
const ENTRY: u32 = 20_000;

fn lane(role: Role) -> Lane {
    let number = role as u16 + 1;
    let identity = Identity {
        versions: Versions::SPOKEN,
        cluster: None,
        folder: FolderId(number.into()),
        incarnation: Incarnation(7),
        capabilities: Capabilities::default(),
        number: NodeNo(number),
        name: NodeName::new("rabbit@node").expect("a name"),
    };
    let bounds = Bounds { frame_bytes_max: FRAME, entry_bytes_max: ENTRY, window_bytes: 1 << 16 };
    let limits = Limits { bounds, ..Limits::default() };
    let trust = Trust::Cookie(Cookie::new(b"monster").expect("a cookie"));
    let (mut secrets, now) = (Secrets::simulated(number.into()), Now::default());
    match role {
        Role::Dialer => Lane::dialer(limits, trust, identity, Purpose::Shard(ShardId(1)), &mut secrets, now),
        Role::Listener => Lane::listener(limits, trust, identity, &mut secrets, now),
    }
}

/// Carries all that `from` has to say to `to`, and opens where a peer is met.
fn carry(from: &mut Lane, to: &mut Lane) {
    let bytes = from.output().to_vec();
    from.sent(Now::default(), bytes.len());
    let mut input = Input::new(&bytes);
    while let Some(event) = to.poll_event(Now::default(), &mut input) {
        assert!(matches!(event, Event::Met(_)));
        to.open(Now::default());
    }
}

/// The end of an open lane.
fn open(role: Role) -> Lane {
    let (mut dialer, mut listener) = (lane(Role::Dialer), lane(Role::Listener));
    for _ in 0..2 {
        carry(&mut dialer, &mut listener);
        carry(&mut listener, &mut dialer);
    }
    assert!(dialer.is_open() && listener.is_open());
    match role {
        Role::Dialer => dialer,
        Role::Listener => listener,
    }
}

/// Frames whose kinds, flags, lengths and bodies are the fuzzer's.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let (mut wire, mut sequence) = (Vec::new(), 2);
    while let Some((&[kind, flags, len, fold], rest)) = bytes.split_first_chunk::<4>() {
        let (body, rest) = rest.split_at(rest.len().min(len.into()));
        // A few bytes make a long body.
        let body = if fold % 4 == 0 { body.repeat(1 + usize::from(fold)) } else { body.to_vec() };
        frame::put(&mut wire, kind % 20, flags % 3, sequence, &body);
        sequence += 1;
        bytes = rest;
    }
    wire
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&[mode, pace], bytes)) = bytes.split_first_chunk::<2>() else { return };
    let mut now = Now::default();
    let mut lane = open(if mode & 1 == 0 { Role::Dialer } else { Role::Listener });
    let wire = if mode & 2 == 0 { bytes.to_vec() } else { framed(bytes) };
    if let Ok(Next::Frame(frame)) = frame::split(&wire, 2, FRAME) {
        assert!(frame.wire_bytes() <= wire.len().min(FRAME as usize));
    }
    let (mut kept, mut charges) = (Vec::new(), Vec::new());
    for piece in wire.chunks(1 + usize::from(pace) * 16) {
        kept.extend_from_slice(piece);
        let mut input = Input::new(&kept);
        while let Some(event) = lane.poll_event(now, &mut input) {
            if let Event::Body { body, charge, .. } = event {
                assert!(body.len() <= ENTRY as usize);
                charges.push(charge);
            }
        }
        let left = input.rest().len();
        kept.drain(..kept.len() - left);
        assert!(lane.is_closed() || kept.len() < lane.wanted());
        if mode & 4 == 0 {
            charges.drain(..).for_each(|charge| lane.release(now, charge));
        }
        now = Now::at_ms(now.wall_ms + u64::from(pace));
        if lane.poll_deadline().is_some_and(|deadline| deadline <= now.mono_ns) {
            lane.handle_deadline(now);
        }
        assert!(lane.wanted() <= lane.input_max());
        assert!(lane.capacity() <= 2 * ENTRY as usize + (2 * 4096));
        assert!(lane.output().len() <= 3 * 28 + 600);
    }
});
