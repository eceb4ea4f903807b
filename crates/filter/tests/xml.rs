//! Bodies of XML: elements, attributes, texts, prefixes, elements that come again, faults; and at random against the tree that
//! another library makes of the same document, also of one that is changed or cut off.

use crate::document;

use document::Body;
use filter::{Expression, Format, Limits, Name, Path, Program, Room, Step, Value, WORK_MAX};
use proptest::prelude::*;
use roxmltree::{Document, Node};

const TRUE: Option<bool> = Some(true);
const FALSE: Option<bool> = Some(false);
const UNKNOWN: Option<bool> = None;

fn verdict(text: &str, body: &[u8]) -> Option<bool> {
    let program = Program::parse(text, &Limits::content()).unwrap_or_else(|error| panic!("{text}: {error}"));
    program.verdict(&Body::Bytes(Format::Xml, body.to_vec()), &mut Room::default(), 1_000)
}

fn check_all(body: &str, rows: &[(&str, Option<bool>)]) {
    for (text, expected) in rows {
        assert_eq!(verdict(text, body.as_bytes()), *expected, "{text} of {body:.400}");
    }
}

const ORDER: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<!-- an order -->
<o:Order xmlns:o="urn:orders" id="170045" o:kind='limit' note="a &lt; b &#x26; 'c'">
  <Symbol>IBM</Symbol>
  <Price ccy="USD"> 101.250 </Price>
  <Qty>00300</Qty><Held>false</Held><Empty/><Blank> </Blank>
  <Leg n="1"><Venue>XNYS</Venue><Qty>100</Qty></Leg>
  <Leg n="2"><Venue>BATS</Venue><Qty>200</Qty><Tag>a</Tag><Tag>b</Tag></Leg>
  <o:Leg n="3"/>
  <Note>good &amp; <![CDATA[<cheap>]]><!-- not so --> enough</Note>
  <Rich>some <b>bold</b> text</Rich>
</o:Order>
"#;

#[test]
fn an_order_is_read_by_its_elements_and_attributes() {
    check_all(
        ORDER,
        &[
            ("/Order/Symbol = 'IBM'", TRUE),
            ("body.Order.Symbol = 'IBM'", TRUE),
            ("/Order/@id = 170045", TRUE),
            ("/Order/@id = '170045'", TRUE),
            ("/Order/@note = 'a < b & ''c'''", TRUE),
            ("/Order/Price/@ccy = 'USD'", TRUE),
            // Spaces are part of a text, and not of a number.
            ("/Order/Price = 101.25", TRUE),
            ("/Order/Price = '101.250'", FALSE),
            ("/Order/Price = ' 101.250 '", TRUE),
            ("TRIM(/Order/Price) = '101.250'", TRUE),
            ("/Order/Qty = 300", TRUE),
            ("/Order/Price * /Order/Qty > 30000", TRUE),
            ("/Order/Held = FALSE AND NOT /Order/Held", TRUE),
            ("/Order/Empty = ''", TRUE),
            ("/Order/Empty IS NULL", FALSE),
            ("/Order/Blank = ' '", TRUE),
            ("/Order/Note = 'good & <cheap> enough'", TRUE),
            ("/Order/None IS NULL", TRUE),
            ("/Order/None = 1", UNKNOWN),
            ("/Order/@none IS NULL", TRUE),
            ("/Order/id IS NULL AND /Order/@Symbol IS NULL", TRUE),
            // Elements that come again, whose prefix counts where the step has one.
            ("/Order/Leg/Venue = 'BATS'", TRUE),
            ("/Order/Leg/Venue = 'XLON'", FALSE),
            ("/Order/Leg/Qty > 150", TRUE),
            ("/Order/Leg/0/Venue = 'XNYS'", TRUE),
            ("/Order/Leg/1/Venue = 'XNYS'", FALSE),
            ("body.Order.Leg[1].Tag[1] = 'b'", TRUE),
            ("body.Order.Leg[*].Tag[1] = 'b'", TRUE),
            ("body.Order.Leg[1]['@n'] = 2", TRUE),
            ("/Order/Leg/@n = 3", TRUE),
            ("ARRAY_LENGTH(/Order/Leg) = 3", TRUE),
            ("ARRAY_SUM(/Order/Leg/Qty) = 300", TRUE),
            ("body.Order['o:Leg']['@n'] = 3", TRUE),
            ("body.Order['o:Leg']['@n'] = 1", FALSE),
            ("body.Order['o:Leg'][0]['@n'] = 3", TRUE),
            ("ARRAY_LENGTH(/Order/Symbol) = 1", TRUE),
            ("body.Order.Symbol[0] = 'IBM'", TRUE),
            ("body.Order.Symbol[1] IS NULL", TRUE),
            ("body.Order.Symbol[*] = 'IBM'", TRUE),
            ("body['o:Order'].Symbol = 'IBM'", TRUE),
            ("body['x:Order'].Symbol IS NULL", TRUE),
            ("body.Order['@o:kind'] = 'limit'", TRUE),
            ("/Order/@kind IS NULL", TRUE),
            ("body.Order['@xmlns:o'] = 'urn:orders'", TRUE),
            ("body[*].Order.Symbol = 'IBM'", TRUE),
            ("EXISTS(body[*])", TRUE),
            ("body[0] IS NULL", TRUE),
            // An element with elements is no value.
            ("/Order = 1", UNKNOWN),
            ("EXISTS(/Order)", TRUE),
            ("/Order/Rich = 'some bold text'", UNKNOWN),
            ("/Order/Rich/b = 'bold'", TRUE),
            ("EXISTS(/Order/Rich)", TRUE),
            ("/Order/Symbol/x IS NULL", TRUE),
            ("/Symbol IS NULL", TRUE),
            ("/order/Symbol IS NULL", TRUE),
        ],
    );
}

/// The rows of the guide: expressions behind the first document of XML, each with its outcome.
#[test]
fn the_guide_is_right() {
    let guide = include_str!("../../../docs/guide/reference/expressions.md");
    let (_, section) = guide.split_once("```xml\n").expect("a document");
    let (document, behind) = section.split_once("```").expect("its end");
    let rows =
        behind.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let mut count = 0;
    for row in rows.skip(2) {
        let (expressions, outcome) = row.trim_matches('|').split_once('|').expect("two columns");
        let outcome = outcome.split(':').next().expect("a word").trim();
        let expected = match outcome {
            "true" => TRUE,
            "false" => FALSE,
            "unknown" => UNKNOWN,
            other => panic!("{other} is no outcome"),
        };
        for expression in expressions.split('`').skip(1).step_by(2) {
            check_all(document, &[(expression, expected)]);
            count += 1;
        }
    }
    assert!(count >= 9, "{count} expressions");
}

#[test]
fn texts_are_meant_as_the_specification_says() {
    for (body, value) in [
        ("<a>x</a>", "x"),
        ("\u{FEFF}<a>x</a>", "x"),
        ("<a\n>x</a\t >", "x"),
        ("<a>&lt;&gt;&amp;&apos;&quot;</a>", "<>&'\""),
        ("<a>&#65;&#x42;&#x1F600;</a>", "AB\u{1F600}"),
        ("<a>1\r\n2\r3\n4&#13;</a>", "1\n2\n3\n4\r"),
        ("<a><![CDATA[]]></a>", ""),
        ("<a><![CDATA[&lt;]]]]><![CDATA[>]]></a>", "&lt;]]>"),
        ("<a>x<!-- -> --- & <b> -->y<?php > ?>z</a>", "xyz"),
        ("<a><!----><?p?></a>", ""),
        ("<?xml version='1.0' encoding='us-ascii' standalone='yes'?><a>x</a><!-- --><?p?> \n", "x"),
        ("<?xml version='1.0'?><a>x</a>", "x"),
        ("<?xml-stylesheet encoding='latin1'?><a>x</a>", "x"),
    ] {
        check_all(body, &[(&format!("/a = '{}'", value.replace('\'', "''")), TRUE)]);
    }
    for (attribute, value) in [
        ("b='x'", "x"),
        ("b = \"x\"", "x"),
        ("c='1' b='>\"'", ">\""),
        ("b='1\t2\r\n3\n4&#10;'", "1 2 3 4\n"),
        ("b='first' b='second'", "first"),
        ("b='&#x41;&amp;&#38;'", "A&&"),
    ] {
        let expected = format!("/a/@b = '{value}'");
        check_all(&format!("<a {attribute}/>"), &[(&expected, TRUE)]);
        check_all(&format!("<a {attribute} ></a>"), &[(&expected, TRUE)]);
    }
}

#[test]
fn nothing_behind_a_fault_counts() {
    let found = |name: &str| ["/r/a = 1".to_owned(), format!("/r/{name} IS NULL")];
    // The fault, and whether it is seen where no path leads into the element.
    for (fault, is_seen) in [
        ("<x><!></x>", true),
        ("<x></y>", true),
        ("</x>", true),
        ("<x><y></z></x>", false),
        ("<x", true),
        ("<x/", true),
        ("<x>", true),
        ("< x/>", true),
        ("<1/>", true),
        ("<x b=1/>", false),
        ("<x b='1/>", true),
        ("<x b='1'c='2'/>", false),
        ("<x b/>", false),
        ("<!DOCTYPE x>", true),
        ("<!ELEMENT x ANY>", true),
        ("<!-- ", true),
        ("<?x ", true),
        ("<![CDATA[ ", true),
        ("<![IGNORE[ ]]>", true),
        ("<", true),
        ("<!", true),
        ("<x>&nbsp;</x>", false),
        ("<x>&amp</x>", false),
        ("<x>&;</x>", false),
        ("<x>&#0;</x>", false),
        ("<x>&#xD800;</x>", false),
        ("<x>\u{1}</x>", false),
        ("<x><![CDATA[\u{1}]]></x>", false),
        ("<x b='<'/>", false),
        ("<x b='&nbsp;'/>", false),
    ] {
        let body = format!("<r><a>1</a>{fault}<z>2</z></r>");
        let [a, z] = found("z");
        check_all(&body, &[(&a, TRUE), ("/r/a = 2", if is_seen { UNKNOWN } else { FALSE })]);
        check_all(&body, &[(&z, if is_seen { UNKNOWN } else { FALSE })]);
        let leads_into = "/r/x = 5 OR /r/x/@b = 5 OR /r/x/y/q = 5 OR /r/z = 2";
        check_all(&body, &[(leads_into, UNKNOWN)]);
    }
    for body in [
        "",
        " ",
        "x",
        "<!-- -->",
        "<!DOCTYPE r><r><a>1</a></r>",
        "<!DOCTYPE r [<!ENTITY a '1'>]><r><a>&a;</a></r>",
        "<!DOCTYPE r SYSTEM 'file:///etc/passwd'><r><a>1</a></r>",
        "<?xml version='1.0' encoding='ISO-8859-1'?><r><a>1</a></r>",
        "<?xml version='1.0' encoding=?><r><a>1</a></r>",
        "\u{FEFF}\u{FEFF}<r><a>1</a></r>",
        "x<r><a>1</a></r>",
        "</r>",
        "<![CDATA[x]]><r><a>1</a></r>",
    ] {
        check_all(body, &[("/r/a = 1", UNKNOWN), ("/r/a IS NULL", UNKNOWN), ("EXISTS(/q)", UNKNOWN)]);
    }
    // In the outermost element all is known when it ends, and of others when the document does.
    for behind in ["x", "<q/>", "</r>", "<!DOCTYPE r>", "<![CDATA[]]>", "<!--"] {
        let body = format!("<r><a>1</a></r>{behind}");
        check_all(
            &body,
            &[("/r/a = 2", FALSE), ("/r/b IS NULL", TRUE), ("/q IS NULL", UNKNOWN), ("/r/a = 1", TRUE)],
        );
    }
    let latin = b"<r><a>1</a><x>\xE9</x><b>2</b></r>";
    for (text, expected) in [("/r/b = 2", TRUE), ("/r/x = 1", UNKNOWN), ("/r/x = 1 OR /r/b = 2", UNKNOWN)] {
        assert_eq!(verdict(text, latin), expected, "{text}");
    }
    let wide: Vec<u8> = "\u{FEFF}<r><a>1</a></r>".encode_utf16().flat_map(u16::to_be_bytes).collect();
    assert_eq!(verdict("/r/a IS NULL", &wide), UNKNOWN);
}

/// A value that is passed over takes neither memory nor stack, and work stays within its bound whatever comes.
#[test]
fn hostile_documents_cost_what_they_are_long() {
    let most = (1 << 20) - 100;
    let fill = |part: &str| part.repeat(most / part.len());
    let deep = |name: &str| {
        let count = most / (2 * name.len() + 5);
        format!("<{name}>").repeat(count) + &format!("</{name}>").repeat(count)
    };
    let long = "n".repeat(most / 2 - 10);
    let attributes: String = (0..).map(|number| format!("b{number}='' ")).take(60_000).collect();
    for (name, inside) in [
        ("deep", deep("x")),
        ("deep on the path", deep("a")),
        ("elements", fill("<x/>")),
        ("elements of the path", fill("<a/>")),
        ("values", fill("<b>1</b>")),
        ("attributes", format!("<a {attributes}/>")),
        ("one attribute", format!("<a {}/>", fill("b='' "))),
        ("a long attribute", format!("<a b='{}'/>", fill("'\"".trim_start_matches('\'')))),
        ("a long name", format!("<{long}></{long}>")),
        ("a name of colons", format!("<a{}/>", fill(":"))),
        ("references", format!("<b>{}</b>", fill("&#65;"))),
        ("short references", format!("<b>{}</b>", fill("&lt;"))),
        ("ends of lines", format!("<b>{}</b>", fill("\r"))),
        ("ampersands", format!("<b>{}</b>", fill("&"))),
        ("pieces", format!("<b>{}</b>", fill("x<?p?>"))),
        ("comments", fill("<!---->")),
        ("one comment", format!("<!--{}-->", fill("->"))),
        ("data", format!("<b>{}</b>", fill("<![CDATA[x]]>"))),
        ("brackets", format!("<b><![CDATA[{}]]></b>", fill("]>"))),
        ("spaces", format!("<a{}/>", fill(" "))),
        ("quotation marks", format!("<x {}/>", fill("'\"'"))),
    ] {
        let body = Body::Bytes(Format::Xml, format!("<r>{inside}<z>1</z></r>").into_bytes());
        let mut dear = 0;
        for text in [
            "/r/z = 1",
            "/r/b = 'y' OR /r/z = 1",
            "/r/a/a/a/@b0 = 5 OR /r/a/@b59999 = 7 OR /r/z = 1",
            "body.r.a[7].a[0] = 1 OR body.r.a[*].a[*] = 1 OR body[*].r[*].b = 5 OR body.r.b[9] = 7 OR /r/z = 1",
        ] {
            let program = Program::parse(text, &Limits::content()).expect("an expression");
            let mut room = Room::default();
            let verdict = program.verdict(&body, &mut room, 0);
            let spent = room.spent();
            // Steps and bytes are counted beside members that are walked to.
            assert!(spent <= 2 * WORK_MAX + most / 8, "{spent} units: {text} of {name}");
            // Not if that is too much work, or if there is a fault in a text that is asked for.
            let is_known = verdict == TRUE || spent >= WORK_MAX || name == "ampersands";
            assert!(is_known, "{verdict:?}, {spent} units: {text} of {name}");
            dear = dear.max(spent);
        }
        assert!(dear >= most / 16, "{dear} units of {name}");
    }
}

#[test]
fn of_a_list_1024_values_count() {
    let many: String = (0..3000).map(|number| format!("<b>{number}</b>")).collect();
    let body = format!("<r>{many}</r>");
    check_all(
        &body,
        &[
            ("/r/b = 1023", TRUE),
            ("/r/b = 1024", UNKNOWN),
            ("body.r.b[*] = 1023", TRUE),
            ("body.r.b[*] = 1024", UNKNOWN),
            ("body.r.b[2000] = 2000", TRUE),
            ("body.r.b[3000] IS NULL", TRUE),
        ],
    );
    let bound = 1 << 20;
    let start = "<r><a>1</a><b>";
    let mut body = format!("{start}{}</b></r>", "x".repeat(bound - start.len() - 8));
    assert_eq!(body.len(), bound);
    check_all(&body, &[("/r/b > 'x' AND /q IS NULL", TRUE)]);
    body.insert(start.len(), 'x');
    check_all(
        &body,
        &[("/r/b > 'x'", TRUE), ("/r/b < 'x'", UNKNOWN), ("/q IS NULL", UNKNOWN), ("/r/a = 1", TRUE)],
    );
    body.insert_str(start.len(), "xxxxxxxx");
    check_all(&body, &[("/r/b > 'x'", UNKNOWN), ("/q IS NULL", UNKNOWN), ("/r/a = 1", TRUE)]);
}

/// The findings of a path: the values, none for one that cannot be read, whether there may be several, and whether it is null.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    leaves: Vec<Option<Leaf>>,
    is_several: bool,
    is_null: Option<bool>,
}

#[derive(Clone, Debug, PartialEq)]
enum Leaf {
    Null,
    Text(String),
    Composite,
}

fn seen(body: &Body, path: &Path) -> Seen {
    let name = Name::Body(path.clone());
    let leaf = |value: &Value<'_>| match value {
        Value::Null => Some(Leaf::Null),
        Value::Untyped(text) => Some(Leaf::Text(String::from_utf8(text.text().to_vec()).expect("a text"))),
        Value::Composite => Some(Leaf::Composite),
        Value::Unreadable => None,
        other => panic!("{other:?} in XML"),
    };
    let room = Room::default();
    let is_null = Program::compile(&Expression::IsNull(name.clone())).expect("one");
    let is_null = match is_null.evaluate(body, &room, 0) {
        Value::Bool(truth) => Some(truth),
        _ => None,
    };
    let field = Program::compile(&Expression::Field(name)).expect("one");
    let (leaves, is_several) = match field.evaluate(body, &room, 0) {
        Value::Several(values) => (values.iter().map(leaf).collect(), true),
        value => (vec![leaf(&value)], false),
    };
    Seen { leaves, is_several, is_null }
}

/// A place in the tree of the other library.
#[derive(Clone)]
enum Item<'t> {
    Document(Node<'t, 't>),
    /// Elements of one name in one element.
    Named(Vec<Node<'t, 't>>),
    /// One of them, as a step by number or to each finds it.
    One(Node<'t, 't>),
    Attribute(&'t str),
    /// The same, as a step to each finds it.
    Value(&'t str),
}

fn written(text: &str, from: usize) -> &str {
    let name = &text[from..];
    let is_end = |character: char| character.is_whitespace() || matches!(character, '>' | '/' | '=');
    &name[..name.find(is_end).unwrap_or(name.len())]
}

fn member<'t>(node: Node<'t, 't>, name: &str) -> Option<Item<'t>> {
    let text = node.document().input_text();
    if let Some(name) = name.strip_prefix('@') {
        let mut attributes = node.attributes();
        return attributes
            .find(|attribute| written(text, attribute.range().start) == name)
            .map(|attribute| Item::Attribute(attribute.value()));
    }
    let is_named = |node: &Node<'_, '_>| {
        let raw = written(text, node.range().start + 1);
        raw == name || raw.split_once(':').is_some_and(|(_, local)| local == name)
    };
    let elements: Vec<_> = node.children().filter(Node::is_element).filter(is_named).collect();
    (!elements.is_empty()).then_some(Item::Named(elements))
}

fn leaf(node: Node<'_, '_>) -> Leaf {
    if node.is_root() || node.children().any(|child| child.is_element()) {
        return Leaf::Composite;
    }
    Leaf::Text(node.children().filter(Node::is_text).filter_map(|text| text.text()).collect())
}

/// The values in a tree, and whether there may be several.
fn look(item: &Item<'_>, steps: &[Step], into: &mut Vec<Leaf>) -> bool {
    let nodes: &[Node<'_, '_>] = match item {
        Item::Document(node) | Item::One(node) => std::slice::from_ref(node),
        Item::Named(nodes) => nodes,
        Item::Attribute(_) | Item::Value(_) => &[],
    };
    let is_list = nodes.len() > 1;
    let Some((step, rest)) = steps.split_first() else {
        match item {
            Item::Attribute(text) | Item::Value(text) => into.push(Leaf::Text((*text).to_owned())),
            _ => into.extend(nodes.iter().map(|node| leaf(*node))),
        }
        return is_list;
    };
    match (step, item) {
        (Step::Each, Item::Named(nodes)) => {
            let mut is_several = is_list;
            nodes.iter().for_each(|node| is_several |= look(&Item::One(*node), rest, into));
            is_several
        }
        (Step::Each | Step::Number(0), Item::Attribute(text)) => look(&Item::Value(text), rest, into),
        (Step::Each, item) => look(item, rest, into),
        (Step::Number(place), Item::Named(nodes)) => {
            nodes.get(*place as usize).is_some_and(|node| look(&Item::One(*node), rest, into))
        }
        (Step::Number(_), _) => false,
        (Step::Name(name), _) => {
            let mut is_several = is_list;
            for item in nodes.iter().filter_map(|node| member(*node, name)) {
                is_several |= look(&item, rest, into);
            }
            is_several
        }
    }
}

fn expected(document: &Document<'_>, path: &Path) -> Seen {
    let mut leaves = Vec::new();
    let is_several = look(&Item::Document(document.root()), path.steps(), &mut leaves);
    let is_null = Some(leaves.is_empty());
    if !is_several && matches!(leaves[..], [] | [Leaf::Composite]) {
        leaves = vec![Leaf::Null];
    }
    Seen { leaves: leaves.into_iter().map(Some).collect(), is_several, is_null }
}

/// A text, escaped in the ways that there are.
fn text() -> impl Strategy<Value = String> {
    let plain = prop::sample::select(
        &["x", "12", " ", "\n", "\r\n", "\t", "\u{e9}", "\u{1F600}", "]]", "'", "\"", "="][..],
    );
    let reference = prop::sample::select(
        &["&lt;", "&gt;", "&amp;", "&quot;", "&apos;", "&#65;", "&#x1f600;", "&#10;", "&#13;"][..],
    );
    prop::collection::vec(prop_oneof![3 => plain, 1 => reference], 0..4).prop_map(|parts| parts.concat())
}

fn attributes() -> impl Strategy<Value = String> {
    let attribute = |name: &'static str| {
        let spaces = prop::sample::select(&["", " ", "\n"][..]);
        prop::option::weighted(0.4, (text(), any::<bool>(), spaces)).prop_map(move |value| {
            let Some((text, is_double, space)) = value else { return String::new() };
            let quote = if is_double { '"' } else { '\'' };
            format!(" {name}{space}={space}{quote}{}{quote}", text.replace(quote, ">"))
        })
    };
    (attribute("id"), attribute("n:id"), attribute("a"), attribute("nn"))
        .prop_map(|(id, prefixed, a, nn)| [nn, prefixed, id, a].concat())
}

const NAMES: [&str; 8] = ["a", "b", "n:a", "m:a", "n:b", "c-d.e_1", "sch\u{f6}n", "aa"];

fn element() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        6 => text(),
        1 => text().prop_map(|text| format!("<![CDATA[<&{}]]>", text.replace("]]", ""))),
        1 => Just("<!-- <a> - & ]]> \" ' -->".to_owned()),
        1 => Just("<?pi <a> & ' ?>".to_owned()),
    ];
    let named = |inside: BoxedStrategy<String>| {
        let name = prop::sample::select(&NAMES[..]);
        let content = prop::collection::vec(inside, 0..7);
        let spaces = prop::sample::select(&["", " ", "\n"][..]);
        (name, attributes(), content, spaces).prop_map(|(name, attributes, content, space)| {
            let content = content.concat();
            match content.is_empty() && space.is_empty() {
                true => format!("<{name}{attributes}/>"),
                false => format!("<{name}{attributes}{space}>{content}</{name}{space}>"),
            }
        })
    };
    leaf.prop_recursive(4, 50, 7, move |inside| named(inside.boxed()))
}

fn document() -> impl Strategy<Value = String> {
    let around = prop::sample::select(&["", "\n", "<!-- -->", "<?pi?> "][..]);
    let declaration = prop::sample::select(
        &["", "\u{FEFF}", "<?xml version=\"1.0\"?>", "<?xml version='1.0' encoding='utf-8'?>\n"][..],
    );
    let root = (prop::sample::select(&NAMES[..]), attributes(), prop::collection::vec(element(), 0..6));
    (declaration, around.clone(), root, around).prop_map(|(declaration, before, (name, attributes, content), behind)| {
        let content = content.concat();
        format!("{declaration}{before}<{name} xmlns:n='urn:n' xmlns:m='urn:m'{attributes}>{content}</{name}>{behind}")
    })
}

fn path() -> impl Strategy<Value = Path> {
    let name = prop::sample::select(
        &["a", "b", "n:a", "m:a", "c-d.e_1", "sch\u{f6}n", "@id", "@n:id", "@a", "aa"][..],
    );
    let step = prop_oneof![
        7 => name.clone().prop_map(|name| Step::Name(name.to_owned())),
        2 => (0..3u32).prop_map(Step::Number),
        1 => Just(Step::Each),
    ];
    let root = prop::sample::select(&NAMES[..]).prop_map(|name| Step::Name(name.to_owned()));
    (prop::option::weighted(0.9, root), prop::collection::vec(step, 1..5))
        .prop_map(|(root, steps)| Path::new(root.into_iter().chain(steps).collect()).expect("a few steps"))
}

/// Paths that begin as the document does, most of them.
fn paths_of(document: &str, paths: &[Path]) -> Vec<Path> {
    let Ok(tree) = Document::parse(document) else { return paths.to_vec() };
    let root = written(document, tree.root_element().range().start + 1).to_owned();
    let of = |path: &Path| {
        let [Step::Name(_), rest @ ..] = path.steps() else { return path.clone() };
        Path::new([&[Step::Name(root.clone())], rest].concat()).expect("as many")
    };
    paths.iter().map(of).chain(paths.iter().take(1).cloned()).collect()
}

fn check(text: &str, paths: &[Path]) -> Result<(), TestCaseError> {
    // That reader leaves the end of a line of old before a reference as it is, against section 2.11.
    let has_old_ends = text.replace("\r\n", "").contains('\r');
    let Some(document) = Document::parse(text).ok().filter(|_| !has_old_ends) else { return Ok(()) };
    let body = Body::Bytes(Format::Xml, text.as_bytes().to_vec());
    for path in paths {
        prop_assert_eq!(seen(&body, path), expected(&document, path), "{:?} in {:?}", path, text);
    }
    Ok(())
}

/// Each path as it is found beside all others.
fn check_beside(text: &str, paths: &[Path]) -> Result<(), TestCaseError> {
    let body = Body::Bytes(Format::Xml, text.as_bytes().to_vec());
    let field = |path: &Path| Expression::Field(Name::Body(path.clone()));
    let all = paths.iter().fold(Expression::Literal(filter::Literal::Bool(false)), |all, path| {
        Expression::Or(Box::new(all), Box::new(Expression::Is(Box::new(field(path)), None)))
    });
    for path in paths {
        let case = Expression::Case(
            vec![(Expression::Is(Box::new(all.clone()), None), Expression::Utc)],
            Some(Box::new(field(path))),
        );
        let (together, alone) =
            (Program::compile(&case).expect("one"), Program::compile(&field(path)).expect("one"));
        let (room, other) = (Room::default(), Room::default());
        let (together, alone) = (together.evaluate(&body, &room, 0), alone.evaluate(&body, &other, 0));
        prop_assert_eq!(format!("{together:?}"), format!("{alone:?}"), "{:?} in {:?}", path, text);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn paths_find_what_is_in_the_tree(text in document(), paths in prop::collection::vec(path(), 1..6)) {
        prop_assert!(Document::parse(&text).is_ok(), "{:?}", Document::parse(&text));
        let paths = paths_of(&text, &paths);
        check(&text, &paths)?;
        check_beside(&text, &paths)?;
    }

    #[test]
    fn what_another_reader_reads_is_found_too(
        text in document(),
        paths in prop::collection::vec(path(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&b"<>/&;'\" =!?-[]ab:x"[..])), 1..4),
    ) {
        let paths = paths_of(&text, &paths);
        let mut bytes = text.into_bytes();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        // The other reader does not look at the encoding.
        if let Ok(text) = String::from_utf8(bytes)
            && (text.contains("encoding='utf-8'") || !text.contains("encod")) {
            check(&text, &paths)?;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn of_documents_that_are_cut_off_nothing_else_is_found(text in document(), paths in prop::collection::vec(path(), 1..3)) {
        let paths = paths_of(&text, &paths);
        // Where a document ends early, paths that are looked for together end as each does alone.
        for cut in (0..text.len()).step_by(11).filter(|cut| text.is_char_boundary(*cut)) {
            check_beside(&text[..cut], &paths)?;
        }
        for path in paths {
            let whole = seen(&Body::Bytes(Format::Xml, text.as_bytes().to_vec()), &path);
            for cut in 0..text.len() {
                let part = seen(&Body::Bytes(Format::Xml, text.as_bytes()[..cut].to_vec()), &path);
                let said = format!("{path:?}: {part:?}, {whole:?}, {cut} bytes of {text:?}");
                prop_assert!(part.is_null.is_none() || part.is_null == whole.is_null, "{}", said);
                if part.is_several {
                    let known = part.leaves.iter().take_while(|leaf| leaf.is_some()).count();
                    // The only one is no value where it has elements.
                    let is_one = !whole.is_several && whole.is_null == Some(false) && whole.leaves == [Some(Leaf::Null)];
                    let of_whole = if is_one { &[Some(Leaf::Composite)][..] } else { &whole.leaves[..] };
                    prop_assert_eq!(&part.leaves[..known], &of_whole[..known.min(of_whole.len())], "{}", said);
                    prop_assert!(part == whole || known + 1 == part.leaves.len(), "{}", said);
                } else if part.leaves != [Some(Leaf::Null)] {
                    prop_assert_eq!(&part.leaves, &whole.leaves, "{}", said);
                }
            }
        }
    }
}
