//! Documents in bytes: small writers, apart from the readers that they test.

use super::Doc;

/// Whether a document goes on.
type Wrote = Option<()>;

pub fn json(doc: &Doc) -> Vec<u8> {
    let mut out = Vec::new();
    _ = json_value(doc, &mut out);
    out
}

fn json_value(doc: &Doc, out: &mut Vec<u8>) -> Wrote {
    match doc {
        Doc::Null => out.extend(b"null"),
        Doc::Bool(truth) => out.extend(truth.to_string().bytes()),
        Doc::Integer(number) => out.extend(number.to_string().bytes()),
        Doc::Float(number) => out.extend(format!("{number:?}").bytes()),
        Doc::Text(text) => json_text(text, out),
        Doc::Fault => out.push(b'!'),
        Doc::Cut => return None,
        Doc::List(elements) => {
            out.push(b'[');
            for (place, element) in elements.iter().enumerate() {
                out.extend(if place > 0 { ", " } else { "" }.bytes());
                json_value(element, out)?;
            }
            out.push(b']');
        }
        Doc::Map(members) => {
            out.push(b'{');
            for (place, (name, member)) in members.iter().enumerate() {
                out.extend(if place > 0 { ", " } else { "" }.bytes());
                json_text(name, out);
                out.push(b':');
                json_value(member, out)?;
            }
            out.push(b'}');
        }
    }
    Some(())
}

fn json_text(text: &str, out: &mut Vec<u8>) {
    out.extend(serde_json::to_string(text).expect("a text").bytes());
}

/// None: it has a number that MessagePack has not.
pub fn message_pack(doc: &Doc) -> Option<Vec<u8>> {
    let is_large = |doc: &Doc| matches!(doc, Doc::Integer(number) if i64::try_from(*number).is_err() && u64::try_from(*number).is_err());
    if doc.holds(&is_large) {
        return None;
    }
    let mut out = Vec::new();
    _ = message_pack_value(doc, &mut out);
    Some(out)
}

fn message_pack_value(doc: &Doc, out: &mut Vec<u8>) -> Wrote {
    match doc {
        Doc::Null => out.push(0xC0),
        Doc::Bool(truth) => out.push(0xC2 + u8::from(*truth)),
        Doc::Integer(number) => match (i8::try_from(*number), i64::try_from(*number)) {
            (Ok(small @ -32..), _) => out.push(small as u8),
            (_, Ok(number)) if i16::try_from(number).is_ok() => {
                out.push(0xD1);
                out.extend((number as i16).to_be_bytes());
            }
            (_, Ok(number)) => {
                out.push(0xD3);
                out.extend(number.to_be_bytes());
            }
            (_, Err(_)) => {
                out.push(0xCF);
                out.extend((*number as u64).to_be_bytes());
            }
        },
        Doc::Float(number) => {
            out.push(0xCB);
            out.extend(number.to_be_bytes());
        }
        Doc::Text(text) => message_pack_text(text, out),
        Doc::Fault => out.push(0xC1),
        Doc::Cut => return None,
        Doc::List(elements) => {
            message_pack_count(elements.len(), 0x90, 0xDC, out);
            elements.iter().try_for_each(|element| message_pack_value(element, out))?;
        }
        Doc::Map(members) => {
            message_pack_count(members.len(), 0x80, 0xDE, out);
            members.iter().try_for_each(|(name, member)| {
                message_pack_text(name, out);
                message_pack_value(member, out)
            })?;
        }
    }
    Some(())
}

fn message_pack_text(text: &str, out: &mut Vec<u8>) {
    match text.len() {
        length @ ..32 => out.push(0xA0 + length as u8),
        length @ ..256 => out.extend([0xD9, length as u8]),
        length => {
            out.push(0xDB);
            out.extend((length as u32).to_be_bytes());
        }
    }
    out.extend(text.bytes());
}

fn message_pack_count(count: usize, few: u8, many: u8, out: &mut Vec<u8>) {
    if count < 16 {
        return out.push(few + count as u8);
    }
    out.push(many);
    out.extend((count as u16).to_be_bytes());
}

/// With every length known beforehand, or none that need not be.
pub fn cbor(doc: &Doc, is_indefinite: bool) -> Vec<u8> {
    let mut out = Vec::new();
    _ = cbor_value(doc, is_indefinite, &mut out);
    out
}

fn cbor_value(doc: &Doc, is_indefinite: bool, out: &mut Vec<u8>) -> Wrote {
    match doc {
        Doc::Null => out.push(0xF6),
        Doc::Bool(truth) => out.push(0xF4 + u8::from(*truth)),
        Doc::Integer(number) => {
            let (is_negative, size) = (*number < 0, if *number < 0 { -1 - number } else { *number } as u128);
            match u64::try_from(size) {
                Ok(size) => cbor_head(u8::from(is_negative), size, out),
                Err(_) => {
                    out.push(0xC2 + u8::from(is_negative));
                    cbor_head(2, 16, out);
                    out.extend(size.to_be_bytes());
                }
            }
        }
        Doc::Float(number) if is_indefinite && f64::from(*number as f32) == *number => {
            out.push(0xFA);
            out.extend((*number as f32).to_be_bytes());
        }
        Doc::Float(number) => {
            out.push(0xFB);
            out.extend(number.to_be_bytes());
        }
        Doc::Text(text) => cbor_text(text, is_indefinite, out),
        Doc::Fault => out.push(0x1C),
        Doc::Cut => return None,
        Doc::List(elements) => {
            cbor_count(4, elements.len(), is_indefinite, out);
            elements.iter().try_for_each(|element| cbor_value(element, is_indefinite, out))?;
            out.extend(is_indefinite.then_some(0xFF));
        }
        Doc::Map(members) => {
            cbor_count(5, members.len(), is_indefinite, out);
            members.iter().try_for_each(|(name, member)| {
                cbor_text(name, is_indefinite, out);
                cbor_value(member, is_indefinite, out)
            })?;
            out.extend(is_indefinite.then_some(0xFF));
        }
    }
    Some(())
}

fn cbor_head(major: u8, number: u64, out: &mut Vec<u8>) {
    match number {
        0..=23 => out.push(major << 5 | number as u8),
        24..=0xFF => out.extend([major << 5 | 24, number as u8]),
        0x100..=0xFFFF => {
            out.push(major << 5 | 25);
            out.extend((number as u16).to_be_bytes());
        }
        _ => {
            out.push(major << 5 | 27);
            out.extend(number.to_be_bytes());
        }
    }
}

fn cbor_count(major: u8, count: usize, is_indefinite: bool, out: &mut Vec<u8>) {
    match is_indefinite {
        true => out.push(major << 5 | 31),
        false => cbor_head(major, count as u64, out),
    }
}

fn cbor_text(text: &str, is_indefinite: bool, out: &mut Vec<u8>) {
    if !is_indefinite {
        cbor_head(3, text.len() as u64, out);
        return out.extend(text.bytes());
    }
    out.push(0x7F);
    for character in text.chars() {
        cbor_text(&character.to_string(), false, out);
    }
    out.push(0xFF);
}

/// A map of scalars and lists of such, each of its own field. None: it is no such.
pub fn name_value(doc: &Doc) -> Option<Vec<u8>> {
    let Doc::Map(members) = doc else { return None };
    let mut out = Vec::new();
    for (name, member) in members {
        let values = match member {
            // Nothing says that a list is there where it has no elements or one.
            Doc::List(elements) if elements.len() > 1 => &elements[..],
            Doc::List(_) | Doc::Map(_) => return None,
            one => std::slice::from_ref(one),
        };
        for value in values {
            out.extend(name.bytes());
            match value {
                // There is no null, so the field is left out.
                Doc::Null if values.len() == 1 => {
                    out.truncate(out.len() - name.len());
                    continue;
                }
                Doc::Null | Doc::List(_) | Doc::Map(_) => return None,
                Doc::Bool(truth) => out.extend(format!("={truth}").bytes()),
                Doc::Integer(number) => out.extend(format!("={number}").bytes()),
                Doc::Float(number) => out.extend(format!("={number:?}").bytes()),
                Doc::Text(text) => out.extend(format!("={text}").bytes()),
                // A name without a value.
                Doc::Fault => {}
                Doc::Cut => return Some(out),
            }
            out.push(1);
        }
    }
    Some(out)
}

/// The reason why an element is the last.
enum Stop {
    Cut,
    /// It is something that XML has no form for, or one that means something else.
    Unfit,
}

/// A map, as the members of an element `r`. None: something in it cannot be written so.
pub fn xml(doc: &Doc) -> Option<Vec<u8>> {
    let Doc::Map(members) = doc else { return None };
    let mut out = b"<r>".to_vec();
    match xml_members(members, false, &mut out) {
        Ok(()) => out.extend(b"</r>"),
        Err(Stop::Cut) => {}
        Err(Stop::Unfit) => return None,
    }
    Some(out)
}

fn xml_members(members: &[(String, Doc)], is_in_list: bool, out: &mut Vec<u8>) -> Result<(), Stop> {
    for (name, member) in members {
        let is_name = name.starts_with(char::is_alphabetic) && name.chars().all(char::is_alphanumeric);
        let is_null = *member == Doc::Null;
        if !is_name || (is_null && is_in_list) {
            return Err(Stop::Unfit);
        }
        match member {
            // There is no null, so the element is left out.
            Doc::Null => {}
            // Nothing says that a list is there where it has no elements or one.
            Doc::List(elements) if elements.len() > 1 => {
                elements.iter().try_for_each(|element| xml_element(name, element, true, out))?;
            }
            member => xml_element(name, member, is_in_list, out)?,
        }
    }
    Ok(())
}

fn xml_element(name: &str, doc: &Doc, is_in_list: bool, out: &mut Vec<u8>) -> Result<(), Stop> {
    out.extend(format!("<{name}>").bytes());
    match doc {
        Doc::Bool(truth) => out.extend(truth.to_string().bytes()),
        Doc::Integer(number) => out.extend(number.to_string().bytes()),
        Doc::Float(number) => out.extend(format!("{number:?}").bytes()),
        Doc::Text(text) => {
            out.extend(text.replace('&', "&amp;").replace('<', "&lt;").replace('\r', "&#13;").bytes());
        }
        Doc::Fault => out.extend(b"<!>"),
        Doc::Cut => return Err(Stop::Cut),
        // One without elements is a text.
        Doc::Map(members) if members.iter().any(|(_, member)| *member != Doc::Null) => {
            xml_members(members, is_in_list, out)?;
        }
        Doc::Null | Doc::List(_) | Doc::Map(_) => return Err(Stop::Unfit),
    }
    out.extend(format!("</{name}>").bytes());
    Ok(())
}
