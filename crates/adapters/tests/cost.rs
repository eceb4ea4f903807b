//! The memory of an idle connection, as the broker counts it.

mod harness;

use amqp091::method::QueueDeclare;
use base::Now;
use harness::World;
use message::amqp10::Map;
use message::amqp091::Table;

const START: Now = Now { mono_ns: 0, wall_ms: 0 };

/// Connections opened to take a mean of.
const CONNECTIONS: usize = 64;

fn amqp091(world: &mut World) -> amqp091::Connection {
    use amqp091::{Connection, Event, Input, Limits};
    let wire = world.connect(0);
    let mut machine = Connection::client(Limits::default(), START);
    for round in 0..8 {
        let answer = world.exchange(wire, machine.output_mut());
        let mut input = Input::new(&answer);
        while let Some(event) = machine.poll_event(START, &mut input) {
            match event {
                Event::Start(_) => machine.start_ok(Table::EMPTY, b"PLAIN", b"\0guest\0guest", b"en_US"),
                Event::Tune(tune) => _ = machine.tune_ok_and_open(START, tune, b"/"),
                Event::OpenOk => (1..=2).for_each(|channel| machine.channel_open(channel)),
                _ => {}
            }
        }
        assert!(round < 7 || machine.is_open());
    }
    machine
}

fn amqp10(world: &mut World) -> amqp10::Connection {
    use amqp10::{Config, Connection, Event, Input, Open};
    let config = Config { limits: Default::default(), mechanisms: &[], first_id: 0 };
    let wire = world.connect(0);
    let mut machine = Connection::client(config, START);
    for round in 0..8 {
        machine.flush();
        let answer = world.exchange(wire, machine.output_mut());
        let mut input = Input::new(&answer);
        while let Some(event) = machine.poll_event(START, &mut input) {
            match event {
                Event::SaslMechanisms(_) => machine.sasl_init("PLAIN", Some(b"\0guest\0guest"), None),
                Event::SaslOutcome(_) => {
                    machine.open(&Open { hostname: Some("vhost:/"), ..Open::new("client") });
                }
                Event::Open(_) => (0..2).for_each(|_| _ = machine.begin(Map::default())),
                _ => {}
            }
        }
        assert!(round < 7 || machine.is_open());
    }
    machine
}

/// Bytes one more connection costs.
fn mean<T>(open: impl Fn(&mut World) -> T) -> usize {
    let mut world = World::new(1);
    let before = world.fronts[0].heap_bytes();
    let kept: Vec<T> = (0..CONNECTIONS).map(|_| open(&mut world)).collect();
    let rows = world.rows(0);
    assert_eq!(rows.iter().filter(|row| row.channels == 2).count(), kept.len());
    assert!(
        rows.iter().all(|row| (&*row.vhost, &*row.user, row.state) == ("/", "guest", "running")),
        "{rows:?}"
    );
    (world.fronts[0].heap_bytes() - before) / CONNECTIONS
}

#[test]
fn an_idle_connection_with_two_channels_is_small() {
    let bytes = mean(amqp091);
    println!("0-9-1: {bytes} bytes");
    assert!(bytes <= 1138, "{bytes} bytes");
}

#[test]
fn an_idle_connection_with_two_sessions_is_small() {
    let bytes = mean(amqp10);
    println!("1.0: {bytes} bytes");
    // Its client's container id is kept: this one's has six bytes, others' some forty.
    assert!(bytes <= 1360, "{bytes} bytes");
}

#[test]
fn a_channel_that_only_declares_needs_no_memory_for_publishing() {
    let mut world = World::new(1);
    let mut machine = amqp091(&mut world);
    let idle = world.fronts[0].heap_bytes();
    machine.send(1, &QueueDeclare { queue: b"q", ..Default::default() });
    world.exchange(0, machine.output_mut());
    let declared = world.fronts[0].heap_bytes();
    // The name of the queue declared last is all that is kept.
    assert!(declared - idle <= 64, "{idle}, then {declared}");
}
