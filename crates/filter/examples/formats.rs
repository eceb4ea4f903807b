//! Nanoseconds of one evaluation over a body of some 1,000 bytes, the same in every format:
//! `cargo run --profile quick -p filter --example formats`. With the name of a format and a number of rounds behind it, that
//! format alone so often, for tools that count instructions.
//!
//! Five places are read, of which the last decides and comes late.

use ciborium::Value as Cbor;
use filter::{Field, Fields, Format, Found, Limits, Paths, Program, Room, Value};
use rmpv::Value as Pack;
use serde_json::Value as Json;
use std::hint::black_box;

const DOCUMENT: &str = r#"{"header":{"id":"7f3c2a10-9d1e-4f7a-8a55-0c9d3b1e2f44","source":"gateway-3","trace":{"span":"a1b2c3d4e5f60718","sampled":true}},
    "order":{"id":170045,"symbol":"IBM","side":"buy","price":101.25,"qty":300,"account":{"id":"ACC-0001","region":"EU","desk":"rates"},
    "legs":[{"leg":1,"venue":"XNYS","qty":100,"px":101.2},{"leg":2,"venue":"BATS","qty":150,"px":101.25},{"leg":3,"venue":"ARCA","qty":50,"px":101.3}],
    "note":"work it over the day, not above the volume weighted average price, and tell the desk at noon"},
    "tags":["algo","vwap","client-77"],"limits":{"credit":1000000,"used":250431.5,"breaches":[],"reviewed":"2026-11-28T08:00:00Z"},
    "history":[{"at":1795824000000,"state":"new"},{"at":1795824000410,"state":"routed"},{"at":1795824001200,"state":"partly filled"}],
    "comment":"the quick brown fox jumps over the lazy dog and does so again and again until it is tired","seq":90017}"#;

const TYPED: &str = "body.order.symbol = 'IBM' AND body.order.price > 100 AND body.order.qty * body.order.price > 10000 \
    AND body.order.account.region = 'EU' AND body.seq = 1";

const FIX: &str = "/55 = 'IBM' AND /44 > 100 AND /38 * /44 > 10000 AND /1 = 'ACC-0001' AND /34 = 1";

const NVFIX: &str =
    "/symbol = 'IBM' AND /price > 100 AND /qty * /price > 10000 AND /account = 'ACC-0001' AND /seq = 1";

const OF_XML: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<Order id="170045" source="gateway-3">
  <Header><Id>7f3c2a10-9d1e-4f7a-8a55-0c9d3b1e2f44</Id><Trace span="a1b2c3d4e5f60718" sampled="true"/></Header>
  <Symbol>IBM</Symbol><Side>buy</Side><Price ccy="USD">101.25</Price><Qty>300</Qty>
  <Account id="ACC-0001"><Region>EU</Region><Desk>rates</Desk></Account>
  <Leg n="1"><Venue>XNYS</Venue><Qty>100</Qty><Px>101.2</Px></Leg>
  <Leg n="2"><Venue>BATS</Venue><Qty>150</Qty><Px>101.25</Px></Leg>
  <Leg n="3"><Venue>ARCA</Venue><Qty>50</Qty><Px>101.3</Px></Leg>
  <Note>work it over the day, not above the volume weighted average price &amp; tell the desk at noon</Note>
  <Limits credit="1000000" used="250431.5" reviewed="2026-11-28T08:00:00Z"/>
  <History><At state="new">1795824000000</At><At state="routed">1795824000410</At></History>
  <Comment>the quick brown fox jumps over the lazy dog and does so again and again until it is tired</Comment>
  <Seq>90017</Seq>
</Order>
"#;

const XML: &str = "/Order/Symbol = 'IBM' AND /Order/Price > 100 AND /Order/Qty * /Order/Price > 10000 \
    AND /Order/Account/Region = 'EU' AND /Order/Seq = 1";

struct Body(Format, Vec<u8>);

impl Fields for Body {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        self.0.find(&self.1, paths, found)
    }
}

fn pack(json: &Json) -> Pack {
    match json {
        Json::Null => Pack::Nil,
        Json::Bool(truth) => Pack::from(*truth),
        Json::Number(number) => {
            number.as_i64().map_or_else(|| Pack::F64(number.as_f64().expect("a number")), Pack::from)
        }
        Json::String(text) => Pack::from(text.as_str()),
        Json::Array(elements) => Pack::Array(elements.iter().map(pack).collect()),
        Json::Object(members) => Pack::Map(
            members.iter().map(|(name, member)| (Pack::from(name.as_str()), pack(member))).collect(),
        ),
    }
}

fn bodies() -> Vec<(&'static str, &'static str, Body)> {
    let json: Json = serde_json::from_str(DOCUMENT).expect("a document");
    let order = ["header", "order", "tags", "limits", "history", "comment", "seq"];
    // The library sorts members; the order of the document counts.
    let Json::Object(members) = &json else { panic!("a map") };
    let text = order.map(|name| format!("\"{name}\":{}", members[name])).join(",");
    let text = format!("{{{text}}}");
    let pack = Pack::Map(order.iter().map(|name| (Pack::from(*name), pack(&members[*name]))).collect());
    let mut message_pack = Vec::new();
    rmpv::encode::write_value(&mut message_pack, &pack).expect("room");
    let cbor = Cbor::Map(
        order
            .iter()
            .map(|name| (Cbor::from(*name), Cbor::serialized(&members[*name]).expect("a value")))
            .collect(),
    );
    let mut of_cbor = Vec::new();
    ciborium::into_writer(&cbor, &mut of_cbor).expect("room");
    let (mut fix, mut named) =
        (String::from("8=FIX.4.4\x019=1000\x0135=D\x0149=GATEWAY3\x0156=BROKER\x01"), String::new());
    fix += "11=7f3c2a10-9d1e\x0155=IBM\x0154=1\x0144=101.25\x0138=300\x011=ACC-0001\x01453=9\x01";
    named +=
        "header=7f3c2a10-9d1e\x01symbol=IBM\x01side=1\x01price=101.25\x01qty=300\x01account=ACC-0001\x01";
    for party in 0..9 {
        fix += &format!(
            "448=PARTY-{party}\x01447=D\x01452={party}\x012376=24\x01802=1\x01523=desk {party} of the house\x01803=4\x01"
        );
        named += &format!(
            "party{party}=PARTY-{party}\x01source{party}=D\x01role{party}={party}\x01desk{party}=desk {party} of the house\x01"
        );
    }
    fix += "58=the quick brown fox jumps over the lazy dog and does so again\x0134=90017\x0110=092\x01";
    named += "comment=the quick brown fox jumps over the lazy dog and does so again\x01seq=90017\x01";
    vec![
        ("json", TYPED, Body(Format::Json, text.into_bytes())),
        ("msgpack", TYPED, Body(Format::MessagePack, message_pack)),
        ("cbor", TYPED, Body(Format::Cbor, of_cbor)),
        ("fix", FIX, Body(Format::Fix, fix.into_bytes())),
        ("xml", XML, Body(Format::Xml, OF_XML.into())),
        ("nvfix", NVFIX, Body(Format::NameValueFix, named.into_bytes())),
    ]
}

#[allow(clippy::disallowed_methods, reason = "it measures")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let only = arguments.next();
    let rounds: u32 =
        arguments.next().map_or(1_000_000, |rounds| rounds.parse().expect("a number of rounds"));
    for (name, text, body) in bodies() {
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let program = Program::parse(text, &Limits::content()).expect("an expression");
        let mut room = Room::default();
        assert_eq!(program.verdict(&body, &mut room, 0), Some(false), "the last place decides: {name}");
        let units = program.price(0) + room.spent();
        let start = std::time::Instant::now();
        let mut matches = 0;
        for _ in 0..rounds {
            matches += u32::from(black_box(&program).matches(black_box(&body), &mut room, 0));
        }
        let took_ns = start.elapsed().as_nanos() as f64 / f64::from(rounds);
        println!("{name:8} {:5} bytes {took_ns:7.1} ns {units:4} units {matches} matches", body.1.len());
    }
}
