//! Frames of an AMQP 1.0 client: those it may send, in any order, and some it may not.

use crate::judge::{Attached, Judge10};
use base::random::Random;
use message::amqp10::{Encoder, Map, Scope};

/// The login of a client, in pieces that each wait for an answer, and one session.
pub fn login() -> Vec<Vec<u8>> {
    let mut init = Vec::new();
    frame(1, 0, &mut init, |bytes| {
        performative(0x41, bytes, |fields| {
            fields.put(|it| it.symbol("PLAIN"));
            fields.put(|it| it.binary(b"\0guest\0guest"));
        });
    });
    let mut open = Vec::new();
    frame(0, 0, &mut open, |bytes| {
        performative(0x10, bytes, |fields| {
            fields.put(|it| it.string("fuzz"));
            fields.put(|it| it.string("vhost:/"));
            fields.put(|it| it.uint(131_072));
            fields.put(|it| it.ushort(3));
        });
    });
    let mut begin_first = Vec::new();
    begin(0, &mut begin_first);
    vec![b"AMQP\x03\x01\0\0".to_vec(), init, b"AMQP\0\x01\0\0".to_vec(), open, begin_first]
}

fn frame(kind: u8, channel: u16, into: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = into.len();
    into.extend_from_slice(&[0, 0, 0, 0, 2, kind]);
    into.extend_from_slice(&channel.to_be_bytes());
    body(into);
    let size = (into.len() - at) as u32;
    into[at..at + 4].copy_from_slice(&size.to_be_bytes());
}

/// The fields of a list, one after the other.
struct FieldList<'e, 'v> {
    encoder: &'e mut Encoder<'v>,
    scope: Scope,
}

impl<'v> FieldList<'_, 'v> {
    fn put(&mut self, write: impl FnOnce(&mut Encoder<'v>)) {
        write(self.encoder);
        self.scope.field(self.encoder);
    }
}

fn described(descriptor: u64, encoder: &mut Encoder<'_>, write: impl FnOnce(&mut FieldList<'_, '_>)) {
    encoder.descriptor(descriptor);
    let scope = encoder.list();
    let mut fields = FieldList { encoder, scope };
    write(&mut fields);
    let FieldList { encoder, scope } = fields;
    encoder.close(scope);
}

fn performative(descriptor: u64, bytes: &mut Vec<u8>, write: impl FnOnce(&mut FieldList<'_, '_>)) {
    described(descriptor, &mut Encoder::new(bytes), write);
}

fn begin(channel: u16, into: &mut Vec<u8>) {
    frame(0, channel, into, |bytes| {
        performative(0x11, bytes, |fields| {
            fields.put(|it| it.null());
            fields.put(|it| it.uint(0));
            fields.put(|it| it.uint(200));
            fields.put(|it| it.uint(200));
        });
    });
}

const ADDRESSES: [Option<&str>; 18] = [
    Some("/queues/q0"),
    Some("/queues/q0"),
    Some("/queues/q0"),
    Some("/queues/q1"),
    Some("/queues/q1"),
    Some("/queues/q1"),
    Some("/queues/q2"),
    Some("/queues/q2"),
    Some("/exchanges/amq.fanout/k"),
    Some("/exchanges/amq.direct/q0"),
    Some("/exchanges/x0"),
    Some("/exchanges/amq.headers"),
    Some("/management"),
    Some("/queues/absent"),
    Some("/queues/%zz"),
    Some("nonsense"),
    None,
    None,
];

const VERBS: [&str; 5] = ["GET", "PUT", "DELETE", "POST", ""];
const PATHS: [&str; 10] = [
    "/queues/q0",
    "/queues/q1",
    "/queues/q5",
    "/queues/q0/messages",
    "/exchanges/x1",
    "/exchanges/x5",
    "/bindings",
    "/bindings/src=x0;dstq=q0;key=;args=",
    "/bindings?src=x0&dstq=q0&key=",
    "/auth/tokens",
];

fn address(dice: &mut Random) -> Option<&'static str> {
    ADDRESSES[dice.below(ADDRESSES.len() as u64) as usize]
}

fn maybe_string(text: Option<&str>, encoder: &mut Encoder<'_>) {
    match text {
        Some(text) => encoder.string(text),
        None => encoder.null(),
    }
}

/// A handle that is attached for this role, mostly.
fn handle(dice: &mut Random, judge: &Judge10, receives: Option<bool>) -> u32 {
    let fits = |(_, attached): &(&u32, &Attached)| {
        receives.is_none_or(|receives| receives == (**attached == Attached::Receiver))
    };
    let known: Vec<u32> = judge.attached.iter().filter(fits).map(|(handle, _)| *handle).collect();
    if known.is_empty() || dice.below(24) == 0 {
        return dice.below(6) as u32;
    }
    known[dice.below(known.len() as u64) as usize]
}

/// Appends one frame.
pub fn any(dice: &mut Random, judge: &mut Judge10, into: &mut Vec<u8>) {
    if !judge.open.contains(&0) && dice.below(8) > 0 {
        judge.attached.clear();
        judge.next_id = 0;
        return begin(0, into);
    }
    let channel = if dice.below(100) == 0 { dice.below(6) as u16 } else { 0 };
    match dice.below(136) {
        0 => into.extend_from_slice(&[0, 0, 0, 8, 2, 0, 0, 0]),
        1 => {
            let bytes: Vec<u8> = (0..dice.below(40)).map(|_| dice.bits() as u8).collect();
            frame(dice.below(3) as u8, channel, into, |body| body.extend_from_slice(&bytes));
        }
        2 => begin(dice.below(4) as u16, into),
        3..=20 => attach(dice, judge, channel, false, into),
        21..=25 => attach(dice, judge, channel, true, into),
        26..=55 => flow(dice, judge, channel, into),
        56..=90 => transfer(dice, judge, channel, into),
        91..=118 => disposition(dice, channel, into),
        119..=123 => {
            let handle = handle(dice, judge, None);
            judge.attached.remove(&handle);
            frame(0, channel, into, |bytes| {
                performative(0x16, bytes, |fields| {
                    fields.put(|it| it.uint(handle));
                    fields.put(|it| it.boolean(dice.below(3) > 0));
                });
            });
        }
        124 => {
            // A flow of the session alone, with numbers that may not be.
            let (next_in, window) = (dice.below(3) as u32, dice.bits() as u32);
            frame(0, channel, into, |bytes| {
                performative(0x13, bytes, |fields| {
                    [next_in, window, 0, 100].into_iter().for_each(|number| fields.put(|it| it.uint(number)));
                });
            });
        }
        125 | 126 => frame(0, channel, into, |bytes| performative(0x17, bytes, |_| {})),
        127..=132 => pair(dice, judge, into),
        _ if dice.below(8) == 0 => frame(0, 0, into, |bytes| performative(0x18, bytes, |_| {})),
        _ => {
            let code = 0x10 + dice.below(10);
            frame(0, channel, into, |bytes| {
                performative(code, bytes, |fields| {
                    (0..dice.below(9)).for_each(|_| fields.put(|it| it.uint(dice.below(5) as u32)));
                });
            });
        }
    }
}

fn attach(dice: &mut Random, judge: &mut Judge10, channel: u16, is_coordinator: bool, into: &mut Vec<u8>) {
    let is_receiver = !is_coordinator && dice.below(2) == 0;
    let free = (0..).find(|handle| !judge.attached.contains_key(handle)).unwrap_or(0);
    let handle = if dice.below(24) == 0 { dice.below(6) as u32 } else { free };
    let name = ["a", "b", "c", "d", "e", "f", "g", "h"][dice.below(8) as usize];
    let attached = match (is_receiver, is_coordinator) {
        (true, _) => Attached::Receiver,
        (false, true) => Attached::Coordinator,
        (false, false) => Attached::Sender,
    };
    judge.attached.insert(handle, attached);
    let (theirs, is_dynamic) = (address(dice), dice.below(12) == 0);
    let modes = (dice.below(3) as u8, dice.below(2) as u8);
    let terminus = |code: u64, is_theirs: bool| {
        move |encoder: &mut Encoder<'_>| {
            if is_coordinator && code == 0x29 {
                return described(0x30, encoder, |_| {});
            }
            described(code, encoder, |fields| {
                let address = if is_theirs { theirs } else { Some("here") };
                fields.put(|it| maybe_string(if is_dynamic { None } else { address }, it));
                fields.put(|it| it.uint(0));
                fields.put(|it| it.symbol("session-end"));
                fields.put(|it| it.uint(0));
                fields.put(|it| it.boolean(is_dynamic && is_theirs));
            });
        }
    };
    frame(0, channel, into, |bytes| {
        performative(0x12, bytes, |fields| {
            fields.put(|it| it.string(name));
            fields.put(|it| it.uint(handle));
            fields.put(|it| it.boolean(is_receiver));
            fields.put(|it| it.ubyte(modes.0));
            fields.put(|it| it.ubyte(modes.1));
            fields.put(terminus(0x28, is_receiver));
            fields.put(terminus(0x29, !is_receiver));
            fields.put(|it| it.null());
            fields.put(|it| it.boolean(false));
            fields.put(|it| if is_receiver { it.null() } else { it.uint(0) });
        });
    });
}

/// The two links of the management node, and credit for its answers.
fn pair(dice: &mut Random, judge: &mut Judge10, into: &mut Vec<u8>) {
    for is_receiver in [false, true] {
        let handle = (0..).find(|handle| !judge.attached.contains_key(handle)).unwrap_or(0);
        judge.attached.insert(handle, if is_receiver { Attached::Receiver } else { Attached::Asker });
        frame(0, 0, into, |bytes| {
            performative(0x12, bytes, |fields| {
                fields.put(|it| it.string("pair"));
                fields.put(|it| it.uint(handle));
                fields.put(|it| it.boolean(is_receiver));
                fields.put(|it| it.ubyte(1));
                fields.put(|it| it.ubyte(0));
                for code in [0x28, 0x29] {
                    fields.put(|it| described(code, it, |fields| fields.put(|it| it.string("/management"))));
                }
                fields.put(|it| it.null());
                fields.put(|it| it.null());
                fields.put(|it| if is_receiver { it.null() } else { it.uint(0) });
                (0..3).for_each(|_| fields.put(|it| it.null()));
                fields.put(|it| it.whole_map(Map::new(2, b"\xa3\x06paired\x41")));
            });
        });
        if is_receiver && dice.below(4) > 0 {
            frame(0, 0, into, |bytes| {
                performative(0x13, bytes, |fields| {
                    [0, 200, 0, 200, handle, 0, 20]
                        .into_iter()
                        .for_each(|number| fields.put(|it| it.uint(number)));
                });
            });
        }
    }
}

/// The id of a transaction that was declared, perhaps.
fn transaction(dice: &mut Random) -> [u8; 8] {
    dice.below(4).to_be_bytes()
}

fn flow(dice: &mut Random, judge: &Judge10, channel: u16, into: &mut Vec<u8>) {
    let link = u64::from(handle(dice, judge, Some(true)));
    let numbers =
        [dice.below(4), 100 + dice.below(100), dice.below(4), 100, link, dice.below(4), dice.below(20)];
    let (drain, echo) = (dice.below(4) == 0, dice.below(4) == 0);
    frame(0, channel, into, |bytes| {
        performative(0x13, bytes, |fields| {
            numbers.into_iter().for_each(|number| fields.put(|it| it.uint(number as u32)));
            fields.put(|it| it.null());
            fields.put(|it| it.boolean(drain));
            fields.put(|it| it.boolean(echo));
        });
    });
}

fn transfer(dice: &mut Random, judge: &mut Judge10, channel: u16, into: &mut Vec<u8>) {
    let handle = handle(dice, judge, Some(false));
    let id = if dice.below(40) == 0 { dice.below(12) as u32 } else { judge.next_id };
    judge.next_id += 1;
    let (settled, more, aborted) = (dice.below(3) == 0, dice.below(20) == 0, dice.below(40) == 0);
    let (verb, path) = (VERBS[dice.below(5) as usize], PATHS[dice.below(PATHS.len() as u64) as usize]);
    let to = if dice.below(3) == 0 { address(dice) } else { Some(path) };
    let with_header = dice.below(2) == 0;
    let body = match judge.attached.get(&handle) {
        _ if dice.below(30) == 0 => dice.below(8),
        Some(Attached::Coordinator) => 5 + dice.below(2),
        Some(Attached::Asker) => 2 + dice.below(2),
        _ => dice.below(5),
    };
    let (within, id_within) = (dice.below(5) == 0, transaction(dice));
    let noise: Vec<u8> = (0..dice.below(30)).map(|_| dice.bits() as u8).collect();
    frame(0, channel, into, |bytes| {
        performative(0x14, bytes, |fields| {
            fields.put(|it| it.uint(handle));
            fields.put(|it| it.uint(id));
            fields.put(|it| it.binary(b"tag"));
            fields.put(|it| it.uint(0));
            fields.put(|it| it.boolean(settled));
            fields.put(|it| it.boolean(more));
            fields.put(|it| it.null());
            fields.put(|it| match within {
                true => described(0x34, it, |fields| fields.put(|it| it.binary(&id_within))),
                false => it.null(),
            });
            fields.put(|it| it.null());
            fields.put(|it| it.boolean(aborted));
        });
        if with_header {
            bytes.extend_from_slice(&[0, 0x53, 0x70, 0xc0, 2, 1, 0x41]);
        }
        if to.is_some() && body < 4 {
            performative(0x73, bytes, |fields| {
                fields.put(|it| it.uint(7));
                fields.put(|it| it.null());
                fields.put(|it| maybe_string(to, it));
                fields.put(|it| it.string(verb));
                fields.put(|it| it.string("$me"));
            });
        }
        match body {
            0 => bytes.extend_from_slice(b"\0\x53\x75\xa0\x04data"),
            1 => bytes.extend_from_slice(b"\0\x53\x77\xa1\x04text"),
            2 => bytes.extend_from_slice(b"\0\x53\x77\xc1\x01\0"),
            3 => bytes.extend_from_slice(b"\0\x53\x77\x40"),
            4 => bytes.extend_from_slice(b"\0\x53\x75\xa0\x04data\0\x53\x75\xa0\x04more"),
            // Declare and discharge, for a coordinator.
            5 => bytes.extend_from_slice(b"\0\x53\x77\0\x53\x31\x45"),
            6 => {
                bytes.extend_from_slice(b"\0\x53\x77\0\x53\x32\xc0\x0c\x02\xa0\x08");
                bytes.extend_from_slice(&id_within);
                bytes.push(0x41 + u8::from(settled));
            }
            _ => bytes.extend_from_slice(&noise),
        }
    });
}

fn disposition(dice: &mut Random, channel: u16, into: &mut Vec<u8>) {
    let (is_receiver, first) = (dice.below(6) > 0, dice.below(6) as u32);
    let last = first + dice.below(5) as u32;
    let (settled, id_within) = (dice.below(4) > 0, transaction(dice));
    let state = if dice.below(5) == 0 { 0x34 } else { 0x23 + dice.below(6) };
    frame(0, channel, into, |bytes| {
        performative(0x15, bytes, |fields| {
            fields.put(|it| it.boolean(is_receiver));
            fields.put(|it| it.uint(first));
            fields.put(|it| it.uint(last));
            fields.put(|it| it.boolean(settled));
            fields.put(|it| {
                described(state, it, |fields| {
                    if state == 0x34 {
                        fields.put(|it| it.binary(&id_within));
                        fields.put(|it| described(0x24 + u64::from(dice.below(3) == 0), it, |_| {}));
                    }
                    if state == 0x27 {
                        fields.put(|it| it.boolean(true));
                        fields.put(|it| it.boolean(dice.below(2) == 0));
                    }
                });
            });
        });
    });
}
