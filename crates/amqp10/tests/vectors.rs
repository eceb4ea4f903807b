//! Bytes captured from real peers: qpid-proton 0.37 as a client, RabbitMQ 4.3.6 as a server.

use amqp10::{
    Attach, Config, Connection, Event, Input, Open, Outcome, Role, SaslCode, SessionId, Source, Target,
};
use base::Now;
use message::amqp10::{Map, Message, Value};

/// Everything a client said that attached a sender, sent a message, attached a receiver, accepted the message and left.
const PROTON: &str = "\
    414d5150030100000000002302010000005341c01602a305504c41494ea00c006775657374006775657374414d515000\
    0100000000004902000000005310c03c0aa12438663135356539382d633762652d343763332d616662622d3235653134\
    64373562386132a1093132372e302e302e3140607fff4040404040400000001a02000000005311c00d044043707fffff\
    ff707fffffff0000008502000000005312c0780ea13738663135356539382d633762652d343763332d616662622d3235\
    653134643735623861322d2f7175657565732f616d717031306c697665434250025000005328c00c0b40434043424040\
    40404040005329c01b07a1122f7175657565732f616d717031306c697665434043424040404043444040400000004a02\
    000000005314c007044343a0013143005370c0020141005373c00f0453074040a1086772656574696e67005374d10000\
    000900000002a1016e5501005375a00568656c6c6f0000008602000000005312c0790ea13738663135356539382d6337\
    62652d343763332d616662622d3235653134643735623861322d2f7175657565732f616d717031306c69766552014150\
    025000005328c01f0ba1122f7175657565732f616d717031306c69766543404342404040404040005329c00807404340\
    43424040404043444040400000002202000000005313c0150943707fffffff5201707fffffff52014352014042000000\
    2402000000005313c017095201707fffffff5201707fffffff52015201520140420000001602000000005315c0090541\
    434041005324450000000c0200000000531845";

/// SASL header and mechanisms, outcome, AMQP header.
const RABBITMQ_LOGIN: &str = "\
    414d5150030100000000003402010000005340c02701e02403b300000005504c41494e00000008414d51504c41494e00\
    000009414e4f4e594d4f55530000001102010000005344c00402500040414d515000010000";

/// The answers to a begin and to the attaches of a sender and a receiver, and credit for the sender.
const RABBITMQ_LINKS: &str = "\
    0000002102000000005311c0140860000043700000019070ffffffff52ff4040400000005902000000005312c04c0ea1\
    03736e64434150025000005328c00c0b4040404040404040404040005329c01b07a1122f7175657565732f616d717031\
    306c6976654040404040404040408000000000010000004040400000002202000000005313c0150770ffffffeb700000\
    01904370ffffffff434352aa000000a902000000005312c09c0ea10372637652014250005000005328c0820ba1122f71\
    75657565732f616d717031306c6976654040404040a3046d6f76654000532645e05a04b300000012616d71703a616363\
    65707465643a6c69737400000012616d71703a72656a65637465643a6c69737400000012616d71703a72656c65617365\
    643a6c69737400000012616d71703a6d6f6469666965643a6c697374404040404340404040";

/// Two deliveries, and the acceptance of two of ours that crossed the wrap of the delivery-id.
const RABBITMQ_DELIVERIES: &str = "\
    0000006d02000000005314c00d06520143a00400000000434242005370c006054140404143005372c12a04a30d782d72\
    6f7574696e672d6b6579a10a616d717031306c697665a30a782d65786368616e6765a100005375a01400000000070707\
    070707070707070707070707070000006e02000000005314c00e0652015201a00400000001434242005370c006054140\
    404143005372c12a04a30d782d726f7574696e672d6b6579a10a616d717031306c697665a30a782d65786368616e6765\
    a100005375a01400000001070707070707070707070707070707070000001e02000000005315c011054170ffffffeb70\
    ffffffec4100532445";

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16).unwrap() as u8;
    hex.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn config() -> Config {
    Config { limits: Default::default(), mechanisms: &["PLAIN"], first_id: 0 }
}

#[test]
fn proton_is_served() {
    let now = Now::default();
    let mut server = Connection::server(config(), now);
    let said = bytes(PROTON);
    let mut input = Input::new(&said);
    let mut told = Vec::new();
    while let Some(event) = server.poll_event(now, &mut input) {
        match event {
            Event::SaslInit { mechanism, initial_response, .. } => {
                assert_eq!((mechanism, initial_response), ("PLAIN", Some(&b"\0guest\0guest"[..])));
                server.sasl_outcome(SaslCode::Ok);
                told.push("login");
            }
            Event::Open(open) => {
                assert_eq!((open.hostname, open.channel_max), (Some("127.0.0.1"), 32_767));
                server.open(&Open::new("server"));
                told.push("open");
            }
            Event::Begin { session, begin } => {
                assert_eq!((session, begin.incoming_window), (SessionId(0), i32::MAX as u32));
                told.push("begin");
            }
            Event::Attach { session, link, attach, .. } => {
                let target = attach.target.and_then(|target| target.address);
                let source = attach.source.and_then(|source| source.address);
                let address = if attach.role == Role::Sender { target } else { source };
                assert_eq!(address, Some("/queues/amqp10live"));
                assert_eq!(attach.max_message_size, Some(0), "proton says 0, which means none");
                assert_eq!(Attach::from_bytes(&attach.to_bytes()), Some(*attach));
                server.answer_attach(session, link, &attach);
                if attach.role == Role::Sender {
                    server.grant(session, link, 10, false);
                }
                told.push("attach");
            }
            Event::Transfer(transfer) => {
                assert_eq!((transfer.delivery_id, transfer.tag, transfer.settled), (0, &b"1"[..], false));
                let message = Message::read(transfer.payload).unwrap();
                assert!(message.header.durable);
                assert_eq!(message.properties.message_id(), Value::Ulong(7));
                assert_eq!(message.properties.subject(), Some("greeting"));
                assert_eq!(message.application_properties.get("n"), Some(Value::Long(1)));
                assert_eq!(message.body.single_data(), Some(&b"hello"[..]));
                server.settle_incoming(transfer.session, 0, 0, &Outcome::Accepted);
                told.push("transfer");
            }
            Event::Flow(flow) => {
                assert_eq!((flow.role, flow.link_credit, flow.drain), (Role::Sender, 1, false));
                told.push("flow");
            }
            Event::Disposition(disposition) => {
                assert_eq!((disposition.first, disposition.last, disposition.settled), (0, 0, true));
                assert_eq!((disposition.role, disposition.outcome), (Role::Sender, Some(Outcome::Accepted)));
                told.push("disposition");
            }
            Event::Close(None) => told.push("close"),
            other => panic!("{other:?}"),
        }
    }
    let expected =
        ["login", "open", "begin", "attach", "transfer", "attach", "flow", "flow", "disposition", "close"];
    assert_eq!(told, expected);
    assert!(server.is_finished());
}

#[test]
fn rabbitmq_is_understood() {
    let now = Now::default();
    let mut client = Connection::client(Config { first_id: u32::MAX - 20, ..config() }, now);
    // Its open is made here: name, frame size, highest channel, idle time-out.
    let open =
        b"\0\0\0\x21\x02\0\0\0\0\x53\x10\xc0\x14\x05\xa1\x06rabbit\x40\x70\0\x02\0\0\x60\0\x3f\x52\x64";
    let said =
        [&bytes(RABBITMQ_LOGIN)[..], open, &bytes(RABBITMQ_LINKS), &bytes(RABBITMQ_DELIVERIES)].concat();
    let mut input = Input::new(&said);
    let mut deliveries = 0;
    let mut accepted = 0;
    while let Some(event) = client.poll_event(now, &mut input) {
        match event {
            Event::SaslMechanisms(mechanisms) => {
                assert_eq!(mechanisms.iter().collect::<Vec<_>>(), ["PLAIN", "AMQPLAIN", "ANONYMOUS"]);
                client.sasl_init("PLAIN", Some(b"\0guest\0guest"), None);
            }
            Event::SaslOutcome(code) => {
                assert_eq!(code, SaslCode::Ok);
                client.open(&Open::new("client"));
            }
            Event::Open(open) => {
                assert_eq!((open.max_frame_size, open.channel_max, open.idle_ms), (131_072, 63, Some(100)));
                let session = client.begin(Map::default()).unwrap();
                let address = Some("/queues/amqp10live");
                let target = Some(Target { address, ..Target::default() });
                let source = Some(Source { address, ..Source::default() });
                client.attach(session, &Attach { target, ..Attach::new("snd", Role::Sender) }).unwrap();
                client.attach(session, &Attach { source, ..Attach::new("rcv", Role::Receiver) }).unwrap();
            }
            Event::Begin { begin, .. } => assert_eq!((begin.incoming_window, begin.handle_max), (400, 255)),
            Event::Attach { session, link, is_answer, attach } => {
                assert!(is_answer);
                if attach.role == Role::Receiver {
                    assert_eq!((link.0, attach.max_message_size), (0, Some(16_777_216)));
                } else {
                    let source = attach.source.unwrap();
                    assert_eq!((link.0, source.outcomes.iter().count()), (1, 4));
                    assert!(source.outcomes.contains("amqp:modified:list"));
                    client.grant(session, link, 100, false);
                }
            }
            Event::Flow(flow) => {
                assert_eq!((flow.link.0, flow.credit), (0, 170));
                for token in 0..2 {
                    let body = amqp10::Body::Bytes(b"\0\x53\x75\xa0\0");
                    let delivery = amqp10::Delivery { tag: b"t", settled: false, token, head: &[], body };
                    client.transfer(flow.session, flow.link, &delivery).unwrap();
                }
            }
            Event::Transfer(transfer) => {
                let message = Message::read(transfer.payload).unwrap();
                assert_eq!(transfer.tag, (transfer.delivery_id).to_be_bytes());
                assert_eq!((message.header.durable, message.header.first_acquirer), (true, true));
                let routing_key = message.message_annotations.get("x-routing-key");
                assert_eq!(routing_key, Some(Value::String("amqp10live")));
                assert_eq!(message.body.single_data().map(|data| data.len()), Some(20));
                deliveries += 1;
            }
            Event::Disposition(disposition) => {
                assert_eq!((disposition.first, disposition.last), (u32::MAX - 20, u32::MAX - 19));
                client.settle(disposition.session, disposition.first, disposition.last, |run| {
                    accepted += run.count
                });
            }
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((deliveries, accepted), (2, 2));
}
