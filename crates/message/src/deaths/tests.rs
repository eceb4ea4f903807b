use super::*;
use crate::amqp10::{Decoder, Encoder, Header, Map, Message, section};
use crate::amqp091::{NewProperties, Properties, Table, TableWriter, Value};
use crate::convert::{Amqp10, Amqp091};
use crate::record::{NewEnqueue, split};
use base::memory::Buffer;
use proptest::prelude::*;

/// A message as it is stored, owned.
#[derive(Clone)]
struct Stored {
    format: Format,
    flags: u8,
    exchange: String,
    key: Vec<u8>,
    head: Vec<u8>,
}

impl Stored {
    fn amqp091(head: Vec<u8>) -> Stored {
        Stored { format: Format::Amqp091, flags: 1, exchange: "e".into(), key: b"k".to_vec(), head }
    }

    fn amqp10(head: Vec<u8>) -> Stored {
        Stored { format: Format::Amqp10, ..Stored::amqp091(head) }
    }

    /// Dies, and is stored again as the dead letter: the keys it was published with.
    fn die(&mut self, queue: &str, reason: DeathReason, at_ms: u64, key: Option<&str>) -> Vec<String> {
        let mut buffer = Buffer::default();
        let new = NewEnqueue {
            flags: self.flags,
            format: self.format,
            priority: 0,
            received_at_ms: 0,
            expires_at_ms: 0,
            due_at_ms: 0,
            keys: None,
            exchange: self.exchange.as_bytes(),
            routing_key: &self.key,
            head: &[&self.head],
            body: &[],
        };
        new.write(&[], &mut buffer);
        let (_, record, _) = split(buffer.bytes()).unwrap();
        let message = Enqueue::read(record).unwrap();
        let letter = dead_letter(&message, &Death { queue, reason, at_ms }, key.map(str::as_bytes));
        let keys = letter.keys.iter().map(|key| String::from_utf8_lossy(key).into_owned()).collect();
        let key = letter.keys[0].to_vec();
        *self = Stored {
            format: self.format,
            flags: letter.flags,
            exchange: "dlx".into(),
            key,
            head: letter.head,
        };
        keys
    }

    fn is_cycle(&self, target: &str, reason: DeathReason) -> bool {
        History::read(self.format, self.flags, &self.head).is_cycle(target, reason)
    }

    /// All its head says, in words; maps and tables sorted by name.
    fn words(&self) -> String {
        match self.format {
            Format::Amqp091 => {
                let properties = Properties::read(&self.head).unwrap();
                table_words(properties.headers().unwrap_or_default())
            }
            Format::Amqp10 => map_words(Message::read_head(&self.head).unwrap().2),
        }
    }
}

fn sorted(mut fields: Vec<String>) -> String {
    fields.sort();
    format!("{{{}}}", fields.join(" "))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn table_words(table: Table<'_>) -> String {
    fn words(value: Value<'_>) -> String {
        match value {
            Value::Table(table) => table_words(table),
            Value::Array(array) => format!("[{}]", array.iter().map(words).collect::<Vec<_>>().join(" ")),
            Value::Text(bytes) => format!("'{}'", text(bytes)),
            other => format!("{other:?}"),
        }
    }
    sorted(table.iter().map(|(name, value)| format!("{}={}", text(name), words(value))).collect())
}

fn map_words(map: Map<'_>) -> String {
    use crate::amqp10::Value;
    fn words(value: Value<'_>) -> String {
        let join =
            |values: &mut dyn Iterator<Item = Value<'_>>| values.map(words).collect::<Vec<_>>().join(" ");
        match value {
            Value::Map(map) => map_words(map),
            Value::Array(array) => format!("[{}]", join(&mut array.iter())),
            Value::List(list) => format!("({})", join(&mut list.iter())),
            Value::String(text) => format!("'{text}'"),
            other => format!("{other:?}"),
        }
    }
    sorted(map.iter().map(|(name, value)| format!("{}={}", name.as_str().unwrap(), words(value))).collect())
}

fn headers(fill: impl FnOnce(&mut TableWriter<'_>)) -> Vec<u8> {
    let fields = TableWriter::fields(fill);
    let mut head = Vec::new();
    NewProperties { headers: Table::new(&fields).ok(), delivery_mode: Some(2), ..NewProperties::default() }
        .write(&mut head);
    head
}

fn annotations(pairs: &[(&str, crate::amqp10::Value<'_>)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut encoder = Encoder::new(&mut bytes);
    for (name, value) in pairs {
        encoder.symbol(name);
        encoder.value(*value);
    }
    let mut head = Vec::new();
    section::write_map(
        section::descriptor::MESSAGE_ANNOTATIONS,
        Map::new(pairs.len() as u32 * 2, &bytes),
        &mut head,
    );
    head
}

const LAST_EXPIRED: &str = "x-last-death-exchange='e' x-last-death-queue='q' x-last-death-reason='expired'";
const FIRST_EXPIRED: &str =
    "x-first-death-exchange='e' x-first-death-queue='q' x-first-death-reason='expired'";

#[test]
fn a_first_death_is_told_in_headers() {
    let mut head = Vec::new();
    let text = NewProperties { expiration: Some(b"0050"), app_id: Some(b"a"), ..NewProperties::default() };
    text.write(&mut head);
    let mut message = Stored::amqp091(head);
    assert_eq!(message.die("q", DeathReason::Expired, 1_700_000_000_999, None), ["k"]);
    let properties = Properties::read(&message.head).unwrap();
    assert_eq!((properties.expiration(), properties.app_id()), (None, Some(&b"a"[..])));
    let expected = format!(
        "{{x-death=[{{count=I64(1) exchange='e' original-expiration='50' queue='q' reason='expired' \
         routing-keys=['k'] time=Timestamp(1700000000)}}] {FIRST_EXPIRED} {LAST_EXPIRED}}}"
    );
    assert_eq!(message.words(), expected);
    assert_eq!(message.flags, 1 | flag::DEATHS);
}

#[test]
fn a_first_death_is_told_in_annotations() {
    let mut head = Vec::new();
    Header { durable: true, ttl_ms: Some(50), ..Header::default() }.write(&mut head);
    let mut message = Stored::amqp10(head);
    assert_eq!(message.die("q", DeathReason::Expired, 1_700_000_000_999, None), ["k"]);
    let header = Message::read_head(&message.head).unwrap().0;
    assert_eq!(header, Header { durable: true, ..Header::default() });
    let expected = format!(
        "{{{FIRST_EXPIRED} {LAST_EXPIRED} x-opt-deaths=[{{count=Ulong(1) exchange='e' \
         first-time=Timestamp(1700000000999) last-time=Timestamp(1700000000999) queue='q' \
         reason=Symbol(\"expired\") routing-keys=['k'] ttl=Uint(50)}}]}}"
    );
    assert_eq!(message.words(), expected);
}

/// Deaths in queues for reasons, and the deaths its head tells then: `queue reason count`, the newest first.
fn check_deaths(deaths: &[(&str, DeathReason)], expected: &[&str]) {
    let count: u64 = expected[0].rsplit(' ').next().unwrap().parse().unwrap();
    for mut message in [Stored::amqp091(vec![0, 0]), Stored::amqp10(Vec::new())] {
        for (at, (queue, reason)) in deaths.iter().enumerate() {
            message.die(queue, *reason, 1000 * at as u64, None);
        }
        let head = &message.head;
        let told: Vec<String> = match message.format {
            Format::Amqp091 => {
                let headers = Properties::read(head).unwrap().headers().unwrap();
                let deaths = headers.get(b"x-death").and_then(|deaths| deaths.as_array()).unwrap();
                let field = |table: Table<'_>, name| text(table.get(name).unwrap().as_bytes().unwrap());
                let tables = deaths.iter().map(|death| death.as_table().unwrap());
                tables
                    .map(|table| {
                        let count = table.get(b"count").unwrap().as_i64().unwrap();
                        format!("{} {} {count}", field(table, b"queue"), field(table, b"reason"))
                    })
                    .collect()
            }
            Format::Amqp10 => {
                let annotations = Message::read_head(head).unwrap().2;
                let Some(crate::amqp10::Value::Array(deaths)) = annotations.get("x-opt-deaths") else {
                    panic!()
                };
                let maps = deaths.iter().map(|death| match death {
                    crate::amqp10::Value::Map(map) => map,
                    other => panic!("{other:?}"),
                });
                maps.map(|map| {
                    let field = |name| map.get(name).unwrap();
                    let text = |name| field(name).as_str().unwrap().to_owned();
                    format!("{} {} {}", text("queue"), text("reason"), field("count").as_u64().unwrap())
                })
                .collect()
            }
        };
        assert_eq!(told, expected, "{:?}", message.format);
        let first = format!("x-first-death-queue='{}'", deaths[0].0);
        let last = format!("x-last-death-queue='{}'", deaths[deaths.len() - 1].0);
        let words = message.words();
        assert!(words.contains(&first) && words.contains(&last), "{words}");
        let queues: Vec<_> =
            expected.iter().map(|death| death.split(' ').next().unwrap().as_bytes()).collect();
        let history = History::read(message.format, message.flags, head);
        assert_eq!(history.queues().collect::<Vec<_>>(), queues);
        assert_eq!(count_of_newest(message.format, message.flags, head), count);
        // A client's word.
        assert_eq!(count_of_newest(message.format, message.flags & !flag::DEATHS, head), 0);
    }
}

#[test]
fn of_a_head_without_a_count_no_death_is_counted() {
    let odd = headers(|table| table.tables(b"x-death", 0..1, |_, table| table.put(b"count", Value::I64(-1))));
    let text = headers(|table| table.put(b"x-death", Value::Text(b"5")));
    for head in [&[0, 0][..], b"", b"\xff\xff", &odd, &text] {
        for format in [Format::Amqp091, Format::Amqp10] {
            assert_eq!(count_of_newest(format, flag::DEATHS, head), 0, "{format:?} {head:?}");
        }
    }
}

#[test]
fn deaths_are_told_the_newest_first_and_counted() {
    use DeathReason::*;
    check_deaths(&[("a", Rejected)], &["a rejected 1"]);
    check_deaths(&[("a", Rejected), ("b", Expired)], &["b expired 1", "a rejected 1"]);
    check_deaths(&[("a", Rejected), ("a", Rejected)], &["a rejected 2"]);
    check_deaths(&[("a", Rejected), ("a", Expired)], &["a expired 1", "a rejected 1"]);
    check_deaths(&[("a", MaxLength), ("b", Expired), ("a", MaxLength)], &["a maxlen 2", "b expired 1"]);
    check_deaths(&[("a", DeliveryLimit); 300], &["a delivery_limit 300"]);
}

#[test]
fn what_a_client_says_of_deaths_goes_and_all_else_stays() {
    let junk = Value::Text(b"junk");
    let mut message = Stored::amqp091(headers(|table| {
        table.put(b"x-death", junk);
        table.encoding(b"odd", b"t\x07");
        table.put(b"x-first-death-queue", junk);
        table.put(b"x-last-death-reason", junk);
    }));
    message.die("q", DeathReason::Rejected, 0, None);
    let words = message.words();
    assert!(!words.contains("junk") && words.contains("x-first-death-queue='q'"), "{words}");
    assert!(message.head.windows(6).any(|bytes| bytes == b"\x03oddt\x07"), "as it came: {words}");

    let string = crate::amqp10::Value::String("junk");
    let mut message =
        Stored::amqp10(annotations(&[("x-opt-deaths", string), ("x-a", crate::amqp10::Value::Long(1))]));
    message.die("q", DeathReason::Rejected, 0, None);
    let words = message.words();
    assert!(!words.contains("junk") && words.contains("x-a=Long(1)"), "{words}");
}

#[test]
fn deaths_of_a_broker_stay_though_they_are_odd() {
    let head = headers(|table| {
        table.tables(b"x-death", 0..2, |odd, table| table.put(b"odd", Value::I32(odd)));
        table.put(b"x-first-death-queue", Value::Text(b"before"));
    });
    let mut message = Stored { flags: flag::DEATHS, ..Stored::amqp091(head) };
    message.die("q", DeathReason::Rejected, 0, None);
    let words = message.words();
    assert!(words.contains("{odd=I32(0)} {odd=I32(1)}]") && words.contains("queue='before'"), "{words}");
    for (head, format) in [(&b"\0\0junk"[..], Format::Amqp091), (b"junk", Format::Amqp10)] {
        let mut message = Stored { format, ..Stored::amqp091(head.to_vec()) };
        assert_eq!(message.die("q", DeathReason::Rejected, 0, None), ["k"]);
        assert_eq!(message.head, head);
        assert!(!message.is_cycle("q", DeathReason::Expired));
    }
}

#[test]
fn keys_are_its_own_and_those_it_lists_unless_the_queue_demands_one() {
    let cc = headers(|table| table.array(b"CC", [Value::Text(b"c"), Value::Bool(true), Value::Text(b"d")]));
    let list = crate::amqp10::Value::List(crate::amqp10::List::new(2, b"\xa1\x01c\xa1\x01d"));
    for message in [Stored::amqp091(cc), Stored::amqp10(annotations(&[("x-cc", list)]))] {
        let mut again = message.clone();
        assert_eq!(again.die("q", DeathReason::Expired, 0, None), ["k", "c", "d"]);
        assert!(again.words().contains("routing-keys=['k' 'c' 'd']"));
        assert_eq!(again.die("r", DeathReason::Expired, 0, None), ["k", "c", "d"]);
        let mut demanded = message.clone();
        assert_eq!(demanded.die("q", DeathReason::Expired, 0, Some("only")), ["only"]);
        let words = demanded.words();
        assert!(
            words.contains("routing-keys=['k' 'c' 'd']") && words.to_lowercase().contains("cc="),
            "{words}"
        );
        assert_eq!(demanded.die("r", DeathReason::Expired, 0, None), ["only"]);
        assert!(demanded.words().contains("routing-keys=['only']"));
    }
}

#[test]
fn a_message_that_nobody_rejected_does_not_come_back_to_where_it_died() {
    use DeathReason::*;
    let check = |deaths: &[(&str, DeathReason)], target: &str, expected: bool| {
        for mut message in [Stored::amqp091(vec![0, 0]), Stored::amqp10(Vec::new())] {
            let mut newest = Expired;
            for (queue, reason) in deaths {
                message.die(queue, *reason, 0, None);
                newest = *reason;
            }
            assert_eq!(message.is_cycle(target, newest), expected, "{deaths:?} into {target}");
            message.flags = 0;
            assert!(!message.is_cycle(target, newest), "a client's word");
        }
    };
    check(&[], "a", false);
    check(&[("a", Expired)], "a", true);
    check(&[("a", Expired)], "b", false);
    check(&[("a", Rejected)], "a", false);
    check(&[("a", Expired), ("b", MaxLength)], "a", true);
    check(&[("a", Expired), ("b", Rejected), ("c", Expired)], "a", false);
    check(&[("b", Rejected), ("a", Expired), ("c", DeliveryLimit)], "a", true);
    check(&[("b", Rejected), ("a", Expired), ("c", DeliveryLimit)], "b", false);
    check(&[("a", Rejected), ("a", Expired)], "a", true);
}

#[test]
fn only_so_many_deaths_are_kept() {
    for mut message in [Stored::amqp091(vec![0, 0]), Stored::amqp10(Vec::new())] {
        for queue in 0..DEATHS_MAX + 10 {
            message.die(&queue.to_string(), DeathReason::Expired, 0, Some("k"));
        }
        let history = History::read(message.format, message.flags, &message.head);
        let kept = (10..DEATHS_MAX + 10).rev().map(|queue| queue.to_string().into_bytes());
        assert!(history.queues().eq(kept), "{history:?}");
        assert!(message.words().contains("x-first-death-queue='0'"));
    }
}

#[test]
fn only_so_many_bytes_of_deaths_are_kept() {
    let key = "k".repeat(5000);
    for mut message in [Stored::amqp091(vec![0, 0]), Stored::amqp10(Vec::new())] {
        for queue in 0..20 {
            message.die(&queue.to_string(), DeathReason::Expired, 0, Some(&key));
        }
        let history = History::read(message.format, message.flags, &message.head);
        assert_eq!(history.queues().count(), 6, "{:?}", message.format);
        assert!(message.head.len() < HISTORY_MAX + 6000);
        // Of keys that are too long the first few are told.
        message.flags = 0;
        message.key = vec![b'k'; HISTORY_MAX];
        message.die("q", DeathReason::Expired, 0, None);
        assert!(message.words().contains("routing-keys=[]"));
    }
}

/// Whether a message that dies in each queue of a ring, for these reasons in turn, counts as a cycle where it would
/// come to the first again.
fn check_ring(size: usize, name_len: usize, reasons: &[DeathReason], expected: bool) {
    for mut message in [Stored::amqp091(vec![0, 0]), Stored::amqp10(Vec::new())] {
        let name = |at: usize| format!("{at:0>name_len$}");
        let key = "k".repeat(name_len);
        for at in 0..size {
            let reason = reasons[at % reasons.len()];
            if at > 0 && reasons == [DeathReason::Expired] {
                assert!(!message.is_cycle(&name(at), reason), "{at} of {size}, {:?}", message.format);
            }
            message.die(&name(at), reason, 0, Some(&key));
        }
        let reason = reasons[(size - 1) % reasons.len()];
        assert_eq!(message.is_cycle(&name(0), reason), expected, "{size} {name_len} {:?}", message.format);
        assert!(
            message.head.len() < HISTORY_MAX + 8 * FORGOTTEN_MAX + 2000,
            "{size}: {}",
            message.head.len()
        );
    }
}

#[test]
fn rings_of_any_length_are_found() {
    use DeathReason::*;
    for size in [1, 2, 63, 64, 65, 66, 70, 200, FORGOTTEN_MAX + DEATHS_MAX - 1] {
        check_ring(size, 1, &[Expired], true);
    }
    check_ring(70, 1, &[MaxLength, Expired, DeliveryLimit], true);
    for size in [2, 20, 40, 70] {
        check_ring(size, 255, &[Expired], true);
    }
    // A rejection on the way makes none, wherever it is.
    for size in [2, 64, 66, 70, 200] {
        check_ring(size, 1, &[Rejected], false);
        check_ring(size, 255, &[Expired, Rejected], false);
        let mut reasons = vec![Expired; size];
        reasons[size / 2] = Rejected;
        check_ring(size, 1, &reasons, false);
        // One in the very first queue is a death that is left behind, too.
        reasons = vec![Expired; size];
        reasons[0] = Rejected;
        check_ring(size, 1, &reasons, false);
    }
}

#[test]
fn a_rejection_lets_a_message_come_again_to_queues_that_are_forgotten() {
    for mut message in [Stored::amqp091(vec![0, 0]), Stored::amqp10(Vec::new())] {
        for at in 0..200 {
            message.die(&at.to_string(), DeathReason::Expired, 0, None);
        }
        assert!(message.is_cycle("3", DeathReason::Expired));
        message.die("r", DeathReason::Rejected, 0, None);
        assert!(!message.is_cycle("3", DeathReason::Rejected));
        message.die("s", DeathReason::Expired, 0, None);
        assert!(!message.is_cycle("3", DeathReason::Expired));
        assert!(message.is_cycle("s", DeathReason::Expired));
        for at in 0..200 {
            message.die(&at.to_string(), DeathReason::Expired, 0, None);
        }
        assert!(message.is_cycle("s", DeathReason::Expired) && message.is_cycle("3", DeathReason::Expired));
        assert!(!message.is_cycle("r", DeathReason::Expired), "it was rejected there");
    }
}

#[test]
fn a_message_that_cannot_be_followed_comes_nowhere() {
    for mut message in [Stored::amqp091(vec![0, 0]), Stored::amqp10(Vec::new())] {
        let most = FORGOTTEN_MAX + DEATHS_MAX;
        for at in 0..most - 1 {
            message.die(&at.to_string(), DeathReason::Expired, 0, None);
        }
        assert!(!message.is_cycle("elsewhere", DeathReason::Expired));
        for at in most - 1..most + 5 {
            message.die(&at.to_string(), DeathReason::Expired, 0, None);
        }
        assert!(message.is_cycle("elsewhere", DeathReason::Expired));
        let len = message.head.len();
        message.die("one more", DeathReason::Expired, 0, None);
        assert!(message.head.len() < len + 100);
        message.die("one more", DeathReason::Rejected, 0, None);
        assert!(!message.is_cycle("elsewhere", DeathReason::Rejected));
    }
}

#[test]
fn what_a_client_says_it_forgot_goes() {
    let digests = vec![7; 8 * FORGOTTEN_MAX];
    let own = headers(|table| table.put(b"x-death-forgotten", Value::Bytes(&digests)));
    let ten = annotations(&[("x-opt-deaths-forgotten", crate::amqp10::Value::Binary(&digests))]);
    for mut message in [Stored::amqp091(own), Stored::amqp10(ten)] {
        message.die("a", DeathReason::Expired, 0, None);
        assert!(!message.is_cycle("b", DeathReason::Expired));
        assert!(message.head.len() < 1000 && !message.words().contains("forgotten"));
    }
}

/// The same message in the other format, as a consumer gets it.
fn across(from: &Stored) -> Stored {
    match from.format {
        Format::Amqp091 => {
            let mut converted = Amqp10::default();
            converted.convert(&Properties::read(&from.head).unwrap(), b"", from.flags);
            let mut head = Vec::new();
            converted.header.write(&mut head);
            let annotations = Map::new(converted.annotations_count, &converted.annotations);
            section::write_map(section::descriptor::MESSAGE_ANNOTATIONS, annotations, &mut head);
            Stored { head, format: Format::Amqp10, ..from.clone() }
        }
        Format::Amqp10 => {
            let mut converted = Amqp091::default();
            converted.convert(&Message::read_parts(&from.head, b"\0\x53\x75\xa0\x01b").unwrap());
            Stored { head: converted.properties, format: Format::Amqp091, ..from.clone() }
        }
    }
}

#[test]
fn deaths_are_told_across_protocols() {
    let check = |mut message: Stored, mut other: Stored, last_ms: [u64; 2]| {
        let at_ms = 1_700_000_000_000;
        for dies in [&mut message, &mut other] {
            dies.die("q", DeathReason::Expired, at_ms, None);
            dies.die("r", DeathReason::Rejected, at_ms + 1000, Some("d"));
            dies.die("q", DeathReason::Expired, at_ms + 2000, None);
        }
        let [ours, expected] =
            [at_ms + last_ms[0], at_ms + last_ms[1]].map(|ms| format!("last-time=Timestamp({ms})"));
        assert_eq!(across(&message).words().replacen(&ours, &expected, 1), other.words());
        assert_eq!(across(&across(&message)).words(), message.words());
    };
    let mut expires = (Vec::new(), Vec::new());
    NewProperties { expiration: Some(b"50"), ..NewProperties::default() }.write(&mut expires.0);
    Header { ttl_ms: Some(50), ..Header::default() }.write(&mut expires.1);
    let (amqp091, amqp10) = (Stored::amqp091(expires.0), Stored::amqp10(expires.1));
    // When a death came again 0-9-1 does not tell.
    check(amqp091.clone(), amqp10.clone(), [0, 2000]);
    let mut once = amqp10;
    once.die("q", DeathReason::Expired, 1_700_000_000_999, None);
    let mut read = amqp091;
    read.die("q", DeathReason::Expired, 1_700_000_000_999, None);
    assert_eq!(across(&once).words(), read.words());
}

#[test]
fn across_protocols_a_client_is_believed_as_far_as_rabbitmq_does() {
    let mut broker = Stored::amqp10(Vec::new());
    broker.die("q", DeathReason::Expired, 0, None);
    let client = Stored { flags: 0, ..broker };
    assert!(across(&client).words().contains("x-death=[{count=I64(1)"));
    let list = crate::amqp10::Value::List(crate::amqp10::List::new(1, b"\x41"));
    let maps = b"\xe0\x04\x01\xc1\x01\x00";
    let Ok(odd) = Decoder::new(maps).value() else { panic!() };
    for (value, expected) in [(list, "{}"), (odd, "{x-death=[]}")] {
        assert_eq!(across(&Stored::amqp10(annotations(&[(ANNOTATION, value)]))).words(), expected);
    }
    let client = Stored::amqp091(headers(|table| table.array(b"x-death", [Value::Bool(true)])));
    assert_eq!(across(&client).words(), "{x-death=(Boolean(true))}");
    let broker = Stored { flags: flag::DEATHS, ..client };
    assert_eq!(across(&broker).words(), "{x-opt-deaths=[]}");
}

fn reason() -> impl Strategy<Value = DeathReason> {
    use DeathReason::*;
    prop::sample::select(vec![Rejected, Expired, MaxLength, DeliveryLimit])
}

proptest! {
    #[test]
    fn any_head_is_read_and_grows_by_little(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        format in prop::sample::select(vec![Format::Amqp091, Format::Amqp10]),
        flags in any::<u8>(),
        deaths in prop::collection::vec(("[ab]", reason()), 1..4),
    ) {
        let mut message = Stored { format, flags, ..Stored::amqp091(bytes) };
        let before = message.head.len();
        for (queue, reason) in &deaths {
            message.die(queue, *reason, u64::MAX, None);
            message.is_cycle("a", *reason);
        }
        prop_assert!(message.head.len() <= 32 * before + deaths.len() * 600);
    }

    /// Headers of any kind, with our names among them, under either flag.
    #[test]
    fn fields_that_are_not_about_deaths_keep_their_bytes(
        fields in prop::collection::vec(("(x-death|CC|[a-c]|x-first-death-queue|queue)", prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        flags in 0..16_u8,
        deaths in prop::collection::vec(("[ab]", reason()), 1..4),
    ) {
        let mut table = Vec::new();
        for (name, value) in fields {
            let mut field = vec![name.len() as u8];
            field.extend(name.bytes());
            field.extend(&value);
            // Bytes that are no field on their own are put as a byte string.
            if Table::new(&field).is_err() {
                field.truncate(name.len() + 1);
                Value::Bytes(&value).write(&mut field);
            }
            table.extend(field);
        }
        let mut head = Vec::new();
        NewProperties { headers: Table::new(&table).ok(), expiration: Some(b"5"), message_id: Some(b"m"), ..NewProperties::default() }.write(&mut head);
        let mut message = Stored { flags, ..Stored::amqp091(head.clone()) };
        for (queue, reason) in &deaths {
            message.die(queue, *reason, 5, None);
        }
        let others = |head: &[u8]| -> Vec<(Vec<u8>, Vec<u8>)> {
            let headers = Properties::read(head).unwrap().headers().unwrap();
            let others = headers.encodings().filter(|(name, _)| !String::from_utf8_lossy(name).contains("death"));
            others.map(|(name, encoding)| (name.to_vec(), encoding.to_vec())).collect()
        };
        prop_assert_eq!(others(&message.head), others(&head));
        let history = History::read(message.format, message.flags, &message.head);
        prop_assert_eq!(history.queues().next(), deaths.last().map(|(queue, _)| queue.as_bytes()));
        prop_assert!(Properties::read(&message.head).unwrap().expiration().is_none());
    }

    /// A head of annotations of any kind stays one, and annotations that are not about deaths keep their bytes.
    #[test]
    fn annotations_that_are_not_about_deaths_keep_their_bytes(
        pairs in prop::collection::vec(("(x-opt-deaths|x-cc|x-[a-c]|x-last-death-queue)", prop::collection::vec(any::<u8>(), 0..40)), 0..6),
        ttl_ms in any::<Option<u32>>(),
        flags in 0..16_u8,
        deaths in prop::collection::vec(("[ab]", reason()), 1..4),
    ) {
        let mut head = Vec::new();
        Header { ttl_ms, priority: Some(3), ..Header::default() }.write(&mut head);
        let header = head.len();
        let mut bytes = Vec::new();
        for (name, value) in &pairs {
            let mut encoder = Encoder::new(&mut bytes);
            encoder.symbol(name);
            let mut decoder = Decoder::new(value);
            match decoder.check() {
                Ok(()) => encoder.encoding(&value[..value.len() - decoder.rest().len()]),
                Err(_) => encoder.binary(value),
            }
        }
        let map = Map::new(pairs.len() as u32 * 2, &bytes);
        section::write_map(section::descriptor::MESSAGE_ANNOTATIONS, map, &mut head);
        let mut message = Stored { flags, ..Stored::amqp10(head.clone()) };
        for (queue, reason) in &deaths {
            message.die(queue, *reason, 5, None);
        }
        let others = |head: &[u8]| -> Vec<(String, Vec<u8>)> {
            let annotations = Message::read_head(head).unwrap().2;
            let all = annotations.iter().zip(annotations.encodings());
            let named = all.map(|((name, _), (_, encoding))| (name.as_str().unwrap().to_owned(), encoding.to_vec()));
            named.filter(|(name, _)| !name.contains("death")).collect()
        };
        if Message::read_head(&head).is_ok() {
            prop_assert_eq!(others(&message.head), others(&head));
            let read = Message::read_head(&message.head).unwrap().0;
            prop_assert_eq!((read.ttl_ms, read.priority), (None, Some(3)));
            if ttl_ms.is_none() {
                prop_assert_eq!(&message.head[..header], &head[..header]);
            }
            let history = History::read(message.format, message.flags, &message.head);
            prop_assert_eq!(history.queues().next(), deaths.last().map(|(queue, _)| queue.as_bytes()));
        } else {
            prop_assert_eq!(&message.head, &head);
        }
    }
}
