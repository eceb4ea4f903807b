//! Bodies of MessagePack and CBOR at random, written by other libraries: paths find what they find in the tree; of a document that
//! is cut off nothing is found that is not there; and no bytes make a panic.

use filter::{Expression, Field, Fields, Format, Found, Name, Path, Paths, Program, Room, Step, Value};
use proptest::prelude::*;

struct Body(Format, Vec<u8>);

impl Fields for Body {
    fn field(&self, _field: Field<'_>) -> Option<Value<'_>> {
        None
    }

    fn body<'a>(&'a self, paths: &Paths, found: &mut Found<'a>) -> bool {
        self.0.find(&self.1, paths, found)
    }
}

/// A document, as filters are to see it.
#[derive(Clone, Debug, PartialEq)]
enum Tree {
    Leaf(Leaf),
    List(Vec<Tree>),
    Map(Vec<(Tree, Tree)>),
}

#[derive(Clone, Debug, PartialEq)]
enum Leaf {
    Null,
    Bool(bool),
    Integer(i128),
    Float(f64),
    Bytes(Vec<u8>),
    Composite,
}

fn float(number: f64) -> Tree {
    Tree::Leaf(if number.is_finite() { Leaf::Float(number) } else { Leaf::Null })
}

fn leaf(tree: &Tree) -> Leaf {
    match tree {
        Tree::Leaf(leaf) => leaf.clone(),
        Tree::List(_) | Tree::Map(_) => Leaf::Composite,
    }
}

/// The member that a step leads to, the first of several.
fn member<'t>(members: &'t [(Tree, Tree)], step: &Step) -> Option<&'t Tree> {
    let is_it = |key: &Tree| match (key, step) {
        (Tree::Leaf(Leaf::Bytes(key)), Step::Name(name)) => key == name.as_bytes(),
        (Tree::Leaf(Leaf::Bytes(key)), Step::Number(number)) => *key == number.to_string().into_bytes(),
        (Tree::Leaf(Leaf::Integer(key)), Step::Number(number)) => *key == i128::from(*number),
        _ => false,
    };
    members.iter().find(|(key, _)| is_it(key)).map(|(_, member)| member)
}

/// The values in a tree, and whether there may be several.
fn look(tree: &Tree, steps: &[Step], into: &mut Vec<Leaf>) -> bool {
    let Some((step, rest)) = steps.split_first() else {
        return match tree {
            Tree::List(elements) => {
                into.extend(elements.iter().map(leaf));
                true
            }
            tree => {
                into.push(leaf(tree));
                false
            }
        };
    };
    match (step, tree) {
        (Step::Each, Tree::List(elements)) => {
            elements.iter().for_each(|element| _ = look(element, rest, into));
            true
        }
        (Step::Each, tree) => look(tree, rest, into),
        (Step::Number(place), Tree::List(elements)) => {
            elements.get(*place as usize).is_some_and(|element| look(element, rest, into))
        }
        (step, Tree::Map(members)) => member(members, step).is_some_and(|member| look(member, rest, into)),
        (step @ Step::Name(_), Tree::List(elements)) => {
            for element in elements {
                if let Tree::Map(members) = element
                    && let Some(member) = member(members, step)
                {
                    look(member, rest, into);
                }
            }
            true
        }
        _ => false,
    }
}

/// The findings of a path: the values, none for one that cannot be read, whether there may be several, and whether it is null.
#[derive(Clone, Debug, PartialEq)]
struct Seen {
    leaves: Vec<Option<Leaf>>,
    is_several: bool,
    is_null: Option<bool>,
}

fn expected(tree: &Tree, path: &Path) -> Seen {
    let mut leaves = Vec::new();
    let is_several = look(tree, path.steps(), &mut leaves);
    // A list, even an empty one, is there where a path ends at it.
    let mut ends_at_list = false;
    walk_to_end(tree, path.steps(), &mut ends_at_list);
    let is_null = !ends_at_list && leaves.iter().all(|leaf| *leaf == Leaf::Null);
    if !is_several && leaves.is_empty() {
        leaves.push(Leaf::Null);
    }
    if !is_several && leaves == [Leaf::Composite] {
        leaves = vec![Leaf::Null];
    }
    Seen { leaves: leaves.into_iter().map(Some).collect(), is_several, is_null: Some(is_null) }
}

fn walk_to_end(tree: &Tree, steps: &[Step], ends_at_list: &mut bool) {
    let Some((step, rest)) = steps.split_first() else {
        *ends_at_list |= matches!(tree, Tree::List(_));
        return;
    };
    match (step, tree) {
        (Step::Each, Tree::List(elements)) => {
            elements.iter().for_each(|element| walk_to_end(element, rest, ends_at_list))
        }
        (Step::Each, tree) => walk_to_end(tree, rest, ends_at_list),
        (Step::Number(place), Tree::List(elements)) => elements
            .get(*place as usize)
            .into_iter()
            .for_each(|element| walk_to_end(element, rest, ends_at_list)),
        (step, Tree::Map(members)) => {
            member(members, step).into_iter().for_each(|member| walk_to_end(member, rest, ends_at_list))
        }
        (step @ Step::Name(_), Tree::List(elements)) => elements.iter().for_each(|element| {
            if let Tree::Map(members) = element {
                member(members, step).into_iter().for_each(|member| walk_to_end(member, rest, ends_at_list));
            }
        }),
        _ => {}
    }
}

fn leaf_of(value: Value<'_>) -> Option<Leaf> {
    Some(match value {
        Value::Null => Leaf::Null,
        Value::Bool(truth) => Leaf::Bool(truth),
        Value::Integer(number) => Leaf::Integer(number),
        Value::Float(number) => Leaf::Float(number),
        Value::Bytes(bytes) => Leaf::Bytes(bytes.to_vec()),
        Value::Composite => Leaf::Composite,
        Value::Unreadable => return None,
        Value::Several(_) | Value::Untyped(_) => panic!("{value:?} in a format with types"),
    })
}

/// The findings of paths, all of them looked for at once.
fn found(body: &Body, paths: &[Path]) -> Vec<Seen> {
    let field = |path: &Path| Expression::Field(Name::Body(path.clone()));
    let one = |path: &Path| {
        // The others are read too.
        let all = paths.iter().fold(Expression::Literal(filter::Literal::Bool(false)), |all, other| {
            Expression::Or(Box::new(all), Box::new(Expression::Is(Box::new(field(other)), None)))
        });
        let case = Expression::Case(
            vec![(Expression::Is(Box::new(all), None), Expression::Utc)],
            Some(Box::new(field(path))),
        );
        let program = Program::compile(&case).expect("a small one");
        let room = Room::default();
        let (leaves, is_several) = match program.evaluate(body, &room, 0) {
            Value::Several(values) => (values.iter().map(|value| leaf_of(*value)).collect(), true),
            value => (vec![leaf_of(value)], false),
        };
        let is_null = Program::compile(&Expression::IsNull(Name::Body(path.clone()))).expect("one");
        let is_null = match is_null.evaluate(body, &room, 0) {
            Value::Bool(truth) => Some(truth),
            _ => None,
        };
        Seen { leaves, is_several, is_null }
    };
    paths.iter().map(one).collect()
}

const KEYS: [&str; 6] = ["a", "b", "0", "12", "", "sch\u{f6}n \u{1f600} and longer than thirty-one bytes"];

fn path() -> impl Strategy<Value = Path> {
    let step = prop_oneof![
        5 => prop::sample::select(&KEYS[..]).prop_map(|name| Step::Name(name.to_owned())),
        3 => prop::sample::select(vec![0, 1, 2, 12]).prop_map(Step::Number),
        1 => Just(Step::Each),
    ];
    prop::collection::vec(step, 1..5).prop_map(|steps| Path::new(steps).expect("a few steps"))
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        4 => prop::collection::vec(any::<u8>(), 0..40),
        1 => (250..300usize).prop_map(|length| vec![7; length]),
        1 => (65_530..65_540usize).prop_map(|length| vec![7; length]),
    ]
}

mod message_pack {
    use super::*;
    use rmpv::Value as Pack;

    fn key() -> impl Strategy<Value = Pack> {
        prop_oneof![
            6 => prop::sample::select(&KEYS[..]).prop_map(Pack::from),
            2 => prop::sample::select(&KEYS[..]).prop_map(|key| Pack::Binary(key.as_bytes().to_vec())),
            3 => prop::sample::select(&[0, 1, 12, -1, 300, i64::MAX][..]).prop_map(Pack::from),
            1 => any::<bool>().prop_map(Pack::from),
            1 => Just(Pack::Array(vec![Pack::Nil, Pack::from(1)])),
        ]
    }

    pub fn value() -> impl Strategy<Value = Pack> {
        let leaf = prop_oneof![
            Just(Pack::Nil),
            any::<bool>().prop_map(Pack::from),
            any::<i64>().prop_map(Pack::from),
            any::<u64>().prop_map(Pack::from),
            (-70_000..70_000i64).prop_map(Pack::from),
            any::<f32>().prop_map(Pack::from),
            any::<f64>().prop_map(Pack::from),
            bytes().prop_map(Pack::Binary),
            prop::sample::select(&KEYS[..]).prop_map(Pack::from),
            any::<String>().prop_map(Pack::from),
            (any::<i8>(), bytes()).prop_map(|(kind, bytes)| Pack::Ext(kind, bytes)),
            prop::sample::select(&[4, 8, 12][..])
                .prop_flat_map(|length| prop::collection::vec(any::<u8>(), length))
                .prop_map(|bytes| Pack::Ext(-1, bytes)),
        ];
        leaf.prop_recursive(5, 60, 20, |inside| {
            prop_oneof![
                prop::collection::vec(inside.clone(), 0..6).prop_map(Pack::Array),
                prop::collection::vec((key(), inside.clone()), 0..6).prop_map(Pack::Map),
                prop::collection::vec((key(), inside), 14..18).prop_map(Pack::Map),
            ]
        })
    }

    pub fn written(value: &Pack) -> Body {
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, value).expect("room");
        Body(Format::MessagePack, bytes)
    }

    pub fn tree(value: &Pack) -> Tree {
        Tree::Leaf(match value {
            Pack::Nil => Leaf::Null,
            Pack::Boolean(truth) => Leaf::Bool(*truth),
            Pack::Integer(number) => match number.as_i64() {
                Some(number) => Leaf::Integer(number.into()),
                None => Leaf::Integer(number.as_u64().expect("of 64 bits").into()),
            },
            Pack::F32(number) => return float((*number).into()),
            Pack::F64(number) => return float(*number),
            Pack::String(text) => Leaf::Bytes(text.as_bytes().to_vec()),
            Pack::Binary(bytes) => Leaf::Bytes(bytes.clone()),
            Pack::Ext(-1, bytes) => time(bytes).map_or(Leaf::Composite, Leaf::Integer),
            Pack::Ext(..) => Leaf::Composite,
            Pack::Array(elements) => return Tree::List(elements.iter().map(tree).collect()),
            Pack::Map(members) => {
                return Tree::Map(members.iter().map(|(key, member)| (tree(key), tree(member))).collect());
            }
        })
    }

    fn time(bytes: &[u8]) -> Option<i128> {
        let number = |bytes: &[u8]| bytes.iter().fold(0u128, |number, byte| number << 8 | u128::from(*byte));
        let (seconds, nanoseconds) = match bytes.len() {
            4 => (number(bytes) as i128, 0),
            8 => ((number(bytes) % (1 << 34)) as i128, number(bytes) >> 34),
            12 => (i128::from(number(&bytes[4..]) as i64), number(&bytes[..4])),
            _ => return None,
        };
        (nanoseconds <= 999_999_999).then_some(seconds * 1000 + nanoseconds as i128 / 1_000_000)
    }
}

mod cbor {
    use super::*;
    use ciborium::Value as Cbor;

    fn key() -> impl Strategy<Value = Cbor> {
        prop_oneof![
            6 => prop::sample::select(&KEYS[..]).prop_map(Cbor::from),
            2 => prop::sample::select(&KEYS[..]).prop_map(|key| Cbor::Bytes(key.as_bytes().to_vec())),
            3 => prop::sample::select(&[0, 1, 12, -1, 300, i64::MAX][..]).prop_map(Cbor::from),
            1 => Just(Cbor::Tag(32, Box::new(Cbor::from("a")))),
            1 => any::<bool>().prop_map(Cbor::from),
            1 => Just(Cbor::Array(vec![Cbor::Null, Cbor::from(1)])),
        ]
    }

    pub fn value() -> impl Strategy<Value = Cbor> {
        let leaf = prop_oneof![
            Just(Cbor::Null),
            any::<bool>().prop_map(Cbor::from),
            any::<i64>().prop_map(Cbor::from),
            any::<u64>().prop_map(Cbor::from),
            any::<u64>()
                .prop_map(|size| Cbor::Integer((-1 - i128::from(size)).try_into().expect("of 64 bits"))),
            (-70_000..70_000i64).prop_map(Cbor::from),
            any::<f32>().prop_map(|number| Cbor::from(f64::from(number))),
            // They are written with 16 bits.
            (-2048..2048i32).prop_map(|number| Cbor::from(f64::from(number) / 64.0)),
            any::<f64>().prop_map(Cbor::from),
            bytes().prop_map(Cbor::Bytes),
            any::<String>().prop_map(Cbor::from),
            (2..4u64, prop::collection::vec(any::<u8>(), 0..16))
                .prop_map(|(tag, bytes)| Cbor::Tag(tag, Box::new(Cbor::Bytes(bytes)))),
            any::<i32>().prop_map(|seconds| Cbor::Tag(1, Box::new(Cbor::from(seconds)))),
            Just(Cbor::Tag(4, Box::new(Cbor::Array(vec![Cbor::from(-2), Cbor::from(27_315)])))),
        ];
        leaf.prop_recursive(5, 60, 20, |inside| {
            prop_oneof![
                prop::collection::vec(inside.clone(), 0..6).prop_map(Cbor::Array),
                prop::collection::vec(inside.clone(), 22..26).prop_map(Cbor::Array),
                prop::collection::vec((key(), inside.clone()), 0..6).prop_map(Cbor::Map),
                (6..30u64, inside).prop_map(|(tag, value)| Cbor::Tag(tag, Box::new(value))),
            ]
        })
    }

    pub fn written(value: &Cbor) -> Body {
        let mut bytes = Vec::new();
        ciborium::into_writer(value, &mut bytes).expect("room");
        Body(Format::Cbor, bytes)
    }

    pub fn tree(value: &Cbor) -> Tree {
        Tree::Leaf(match value {
            Cbor::Null => Leaf::Null,
            Cbor::Bool(truth) => Leaf::Bool(*truth),
            Cbor::Integer(number) => Leaf::Integer((*number).into()),
            Cbor::Float(number) => return float(*number),
            Cbor::Text(text) => Leaf::Bytes(text.as_bytes().to_vec()),
            Cbor::Bytes(bytes) => Leaf::Bytes(bytes.clone()),
            Cbor::Tag(tag @ (2 | 3), value) => match &**value {
                Cbor::Bytes(bytes) => {
                    let size = bytes.iter().fold(0, |number, byte| number << 8 | i128::from(*byte));
                    Leaf::Integer(if *tag == 2 { size } else { -1 - size })
                }
                other => return tree(other),
            },
            Cbor::Tag(1, value) => match tree(value) {
                Tree::Leaf(Leaf::Integer(seconds)) => Leaf::Integer(seconds * 1000),
                other => return other,
            },
            Cbor::Tag(4 | 5 | 30 | 264 | 265, value) if value.is_array() => Leaf::Composite,
            Cbor::Tag(_, value) => return tree(value),
            Cbor::Array(elements) => return Tree::List(elements.iter().map(tree).collect()),
            Cbor::Map(members) => {
                return Tree::Map(members.iter().map(|(key, member)| (tree(key), tree(member))).collect());
            }
            other => panic!("{other:?}"),
        })
    }
}

fn check(tree: &Tree, body: &Body, paths: &[Path]) -> Result<(), TestCaseError> {
    for (path, found) in paths.iter().zip(found(body, paths)) {
        prop_assert_eq!(
            found,
            expected(tree, path),
            "{:?} in {:02x?}",
            path,
            &body.1[..body.1.len().min(300)]
        );
    }
    Ok(())
}

/// Of a document that is cut off all that is known is so in the whole one.
fn check_cut(body: &Body, paths: &[Path], cut: prop::sample::Index) -> Result<(), TestCaseError> {
    let whole = found(body, paths);
    let cut = Body(body.0, body.1[..cut.index(body.1.len())].to_vec());
    for (path, (whole, part)) in paths.iter().zip(whole.iter().zip(found(&cut, paths))) {
        let said = format!("{path:?}: {part:?}, {whole:?}, {} bytes", cut.1.len());
        prop_assert!(part.is_null.is_none() || part.is_null == whole.is_null, "{}", said);
        if part.is_several {
            let known = part.leaves.iter().take_while(|leaf| leaf.is_some()).count();
            prop_assert_eq!(&part.leaves[..known], &whole.leaves[..known], "{}", said);
            prop_assert!(part == *whole || known + 1 == part.leaves.len(), "{}", said);
        } else if part.leaves != [Some(Leaf::Null)] {
            prop_assert_eq!(&part.leaves, &whole.leaves, "{}", said);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn paths_find_in_message_pack_what_is_in_the_tree(value in message_pack::value(), paths in prop::collection::vec(path(), 1..6)) {
        check(&message_pack::tree(&value), &message_pack::written(&value), &paths)?;
    }

    #[test]
    fn paths_find_in_cbor_what_is_in_the_tree(value in cbor::value(), paths in prop::collection::vec(path(), 1..6)) {
        check(&cbor::tree(&value), &cbor::written(&value), &paths)?;
    }

    #[test]
    fn of_documents_that_are_cut_off_nothing_else_is_found(
        pack in message_pack::value(),
        cbor in cbor::value(),
        paths in prop::collection::vec(path(), 1..6),
        cut in any::<prop::sample::Index>(),
    ) {
        check_cut(&message_pack::written(&pack), &paths, cut)?;
        check_cut(&cbor::written(&cbor), &paths, cut)?;
    }

    #[test]
    fn what_other_readers_read_is_found_too(
        pack in message_pack::value(),
        cbor in cbor::value(),
        paths in prop::collection::vec(path(), 1..4),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let changed = |mut body: Body| {
            changes.iter().for_each(|(at, byte)| { let at = at.index(body.1.len()); body.1[at] = *byte; });
            body
        };
        let body = changed(message_pack::written(&pack));
        // To that reader 0xC1, which is never used, is null.
        let mut rest = &body.1[..];
        if !body.1.contains(&0xC1)
            && let Ok(value) = rmpv::decode::read_value(&mut rest) && rest.is_empty() {
            check(&message_pack::tree(&value), &body, &paths)?;
        }
        let body = changed(cbor::written(&cbor));
        let mut rest = &body.1[..];
        // That reader reads strings of indefinite length in each other, which the RFC forbids.
        let has_chunks = body.1.iter().any(|byte| matches!(byte, 0x5F | 0x7F));
        if !has_chunks && let Ok(value) = ciborium::from_reader::<ciborium::Value, _>(&mut rest) && rest.is_empty() {
            check(&cbor::tree(&value), &body, &paths)?;
        }
    }

    #[test]
    fn no_bytes_make_a_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        paths in prop::collection::vec(path(), 1..6),
        deep in any::<bool>(),
    ) {
        for format in [Format::MessagePack, Format::Cbor, Format::Fix, Format::NameValueFix, Format::Xml] {
            let heads: &[u8] = if deep { &[0x91, 0x9F, 0x81, 0xBF, 0xC6] } else { &[] };
            let body = Body(format, [&heads.repeat(70)[..], &bytes].concat());
            for path in &paths {
                let program = Program::compile(&Expression::Field(Name::Body(path.clone()))).expect("one");
                _ = program.evaluate(&body, &Room::default(), 0);
            }
        }
    }
}
