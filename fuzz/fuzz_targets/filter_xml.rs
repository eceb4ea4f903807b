#![no_main]
//! Bodies of XML: any bytes are looked into, and of those that another library reads elements are what it says they are.

use filter::{Field, Fields, Format, Found, Limits, Paths, Program, Room, Value};
use libfuzzer_sys::fuzz_target;
use roxmltree::{Document, Node};
use std::sync::LazyLock;

struct Body<'b>(&'b [u8]);

impl Fields for Body<'_> {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        Format::Xml.find(self.0, paths, found)
    }
}

fn program(text: &str) -> Program {
    Program::parse(text, &Limits::content()).expect("an expression")
}

static ALL: LazyLock<Program> = LazyLock::new(|| {
    program("/a/b = 1 OR /a/b/@c > /a/@c OR body.a.b[1].c = 'x' OR body['n:a'].b IS NULL OR EXISTS(body[*].a[*].b[0])")
});

/// The second of the elements `b` in the outermost element `a`, and all of them.
static PLACES: LazyLock<[Program; 2]> = LazyLock::new(|| [program("body.a.b[1]"), program("/a/b")]);

/// The text of an element without elements in it.
fn text(node: Node<'_, '_>) -> Option<String> {
    let mut children = node.children();
    (!children.any(|child| child.is_element()))
        .then(|| node.children().filter(Node::is_text).filter_map(|text| text.text()).collect())
}

fuzz_target!(|bytes: &[u8]| {
    let (body, room) = (Body(bytes), Room::default());
    _ = ALL.evaluate(&body, &room, 0);
    let [second, all] = &*PLACES;
    let (second, all) = (second.evaluate(&body, &room, 0), all.evaluate(&body, &room, 0));
    // That library leaves a lone return before a reference as it is, and reads a document whatever its encoding is said to be.
    let is_alike = !bytes.contains(&b'\r') && !bytes.windows(8).any(|part| part == b"encoding");
    let Ok(source) = str::from_utf8(bytes) else { return };
    let Some(document) = Document::parse(source).ok().filter(|_| is_alike) else { return };
    let root = document.root_element();
    if root.tag_name().name() != "a" {
        return;
    }
    let elements: Vec<_> = root.children().filter(|node| node.is_element() && node.tag_name().name() == "b").collect();
    let expected = elements.get(1).and_then(|node| text(*node));
    match (second, expected) {
        (Value::Null, None) => {}
        (Value::Untyped(value), Some(text)) => assert_eq!(value.text(), text.as_bytes()),
        (found, expected) => panic!("{found:?}, {expected:?}"),
    }
    match (all, &elements[..]) {
        (Value::Null, []) => {}
        (Value::Null, [one]) => assert_eq!(text(*one), None),
        (Value::Untyped(value), [one]) => assert_eq!(Some(value.text()), text(*one).as_deref().map(str::as_bytes)),
        (Value::Several(values), elements) => assert_eq!(values.len(), elements.len().min(filter::VALUES_MAX + 1)),
        (found, elements) => panic!("{found:?} of {elements:?}"),
    }
});
