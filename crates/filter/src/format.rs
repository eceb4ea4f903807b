//! Formats of bodies of bytes, and how one is told.

mod cbor;
mod fix;
mod message_pack;
mod octets;
mod xml;

use crate::found::Found;
use crate::json;
use crate::path::Paths;
use fix::Dialect;

/// Bytes of a body that are looked at, at most: what is beyond is unknown.
pub const BODY_BYTES_MAX: usize = 1 << 20;

/// A format whose bodies can be looked into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// RFC 8259: `application/json`, `text/json`, `+json`; without a content type that is known, a body that begins with
    /// `{` or `[`.
    Json,
    /// `application/msgpack`, `application/x-msgpack`, `application/vnd.msgpack`, `+msgpack`.
    ///
    /// Keys of maps are strings, binaries or integers; a timestamp is milliseconds since 1970; a value of another
    /// extension type is there, and unknown. Strings need not be UTF-8.
    MessagePack,
    /// RFC 8949: `application/cbor`, `+cbor`; without a content type that is known, a body that begins with the tag of
    /// self-described CBOR.
    ///
    /// Keys of maps are texts, byte strings or integers. Tag 1 is milliseconds since 1970, tags 2 and 3 are large integers, a
    /// decimal fraction, bigfloat or rational number is there and unknown, and of other tags the value under the tag counts.
    /// `undefined` is null. Texts need not be UTF-8.
    Cbor,
    /// FIX, `tag=value`: `application/fix`, `application/x-fix`, `application/vnd.fix`, `text/fix`, `text/x-fix`; without a content
    /// type that is known, a body that begins with `8=FIX`.
    ///
    /// Each field ends with SOH (0x01); in a body that begins with `8=` with the byte that ends its first field, SOH or
    /// `|`. Values are [untyped](crate::Untyped). A tag that comes again has several values.
    /// The standard fields of data are as long as the field before them says.
    Fix,
    /// The same with names in place of tags: `application/nvfix`, `application/x-nvfix`, `text/nvfix`, `text/x-nvfix`. SOH may
    /// be left out behind the last field.
    NameValueFix,
    /// XML 1.0: `application/xml`, `text/xml`, `+xml`; without a content type that is known, a body that begins with `<`. Only
    /// in UTF-8, and without a document type.
    ///
    /// An element without elements in it is its text, which is [untyped](crate::Untyped), another one a map of them; an
    /// attribute is a member `@name`. An element that comes again is a list.
    Xml,
}

/// Content types without their parameters, in lower case.
const TYPES: [(&[u8], Format); 17] = [
    (b"application/json", Format::Json),
    (b"text/json", Format::Json),
    (b"application/msgpack", Format::MessagePack),
    (b"application/x-msgpack", Format::MessagePack),
    (b"application/vnd.msgpack", Format::MessagePack),
    (b"application/cbor", Format::Cbor),
    (b"application/fix", Format::Fix),
    (b"application/x-fix", Format::Fix),
    (b"application/vnd.fix", Format::Fix),
    (b"text/fix", Format::Fix),
    (b"text/x-fix", Format::Fix),
    (b"application/nvfix", Format::NameValueFix),
    (b"application/x-nvfix", Format::NameValueFix),
    (b"text/nvfix", Format::NameValueFix),
    (b"text/x-nvfix", Format::NameValueFix),
    (b"application/xml", Format::Xml),
    (b"text/xml", Format::Xml),
];

/// Their suffixes (RFC 6838 section 4.2.8), in lower case.
const SUFFIXES: [(&[u8], Format); 4] = [
    (b"json", Format::Json),
    (b"msgpack", Format::MessagePack),
    (b"cbor", Format::Cbor),
    (b"xml", Format::Xml),
];

impl Format {
    /// The format of a body by what its properties say, and by its first bytes where they say nothing that is known. None: it
    /// cannot be looked into, or is compressed.
    pub fn of(content_type: Option<&[u8]>, content_encoding: Option<&[u8]>, body: &[u8]) -> Option<Format> {
        let is_plain = |encoding: &[u8]| {
            let plain: [&[u8]; 6] = [b"", b"identity", b"utf-8", b"utf8", b"binary", b"8bit"];
            plain.iter().any(|name| name.eq_ignore_ascii_case(encoding))
        };
        if !content_encoding.is_none_or(is_plain) {
            return None;
        }
        let mut said = content_type.unwrap_or_default().split(|byte| *byte == b';');
        let named = Format::named(said.next().unwrap_or_default().trim_ascii());
        let format = named.or_else(|| Format::begun(body))?;
        // The other formats are in UTF-8 whatever is said, or have bytes for letters.
        let is_readable = format != Format::Xml || said.filter_map(charset).all(xml::is_readable);
        is_readable.then_some(format)
    }

    /// The format of a content type.
    fn named(said: &[u8]) -> Option<Format> {
        let of = |names: &[(&[u8], Format)], said: &[u8]| {
            names.iter().find(|(name, _)| name.eq_ignore_ascii_case(said)).map(|(_, format)| *format)
        };
        let suffix = said.iter().rposition(|byte| *byte == b'+').map(|place| &said[place + 1..]);
        of(&TYPES, said).or_else(|| of(&SUFFIXES, suffix?))
    }

    /// The format of a body that begins so.
    fn begun(body: &[u8]) -> Option<Format> {
        if body.starts_with(b"8=FIX") {
            return Some(Format::Fix);
        }
        if body.starts_with(&cbor::SELF_DESCRIBED) {
            return Some(Format::Cbor);
        }
        let text = body.strip_prefix(&xml::BYTE_ORDER_MARK).unwrap_or(body);
        match text.iter().find(|byte| !matches!(byte, b' ' | b'\n' | b'\r' | b'\t'))? {
            b'<' => Some(Format::Xml),
            b'{' | b'[' if text.len() == body.len() => Some(Format::Json),
            _ => None,
        }
    }

    /// Looks for paths in a body. Returns whether all that was needed could be read.
    pub fn find<'a>(self, body: &'a [u8], paths: &Paths, found: &mut Found<'a>) -> bool {
        found.begin();
        let (units, is_whole) = match self {
            Format::Json => {
                let (looked, is_whole) = json::find(body, paths, BODY_BYTES_MAX, found);
                (looked / json::BYTES_A_UNIT, is_whole)
            }
            Format::MessagePack => message_pack::find(body, paths, BODY_BYTES_MAX, found),
            Format::Cbor => cbor::find(body, paths, BODY_BYTES_MAX, found),
            Format::Fix => fix::find(Dialect::Fix, body, paths, BODY_BYTES_MAX, found),
            Format::NameValueFix => fix::find(Dialect::NameValue, body, paths, BODY_BYTES_MAX, found),
            Format::Xml => xml::find(body, paths, BODY_BYTES_MAX, found),
        };
        found.room().spend(units);
        is_whole
    }
}

/// The character set that a parameter of a content type is.
fn charset(parameter: &[u8]) -> Option<&[u8]> {
    let equals = parameter.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (parameter[..equals].trim_ascii(), parameter[equals + 1..].trim_ascii());
    let value = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
    name.eq_ignore_ascii_case(b"charset").then_some(value)
}

#[cfg(test)]
mod tests {
    use super::Format;

    #[test]
    fn a_format_is_told_by_properties_and_else_by_its_first_bytes() {
        let check = |content_type: &str, encoding: &str, body: &[u8], expected: Option<Format>| {
            let said = |text: &'static str| (text != "-").then_some(text.as_bytes());
            let (content_type, encoding) = (content_type.to_owned().leak(), encoding.to_owned().leak());
            let format = Format::of(said(content_type), said(encoding), body);
            assert_eq!(format, expected, "{content_type} {encoding} {body:?}");
        };
        let json = Some(Format::Json);
        check("application/json", "-", b"5", json);
        check("Application/JSON; charset=utf-8", "-", b"", json);
        check("text/json", "-", b"", json);
        check("application/vnd.order+json", "-", b"", json);
        check("-", "-", b"{}", json);
        check("-", "-", b" \r\n\t[1]", json);
        check("text/plain", "-", b"{}", json);
        check("application/octet-stream", "-", b"{}", json);
        check("-", "-", b"5", None);
        check("-", "-", b"", None);
        check("json", "-", b"", None);
        check("application/json", "gzip", b"{}", None);
        check("application/json", "utf-8", b"{}", json);
        check("application/json", "Identity", b"{}", json);
        check("-", "deflate", b"{}", None);
        let message_pack = Some(Format::MessagePack);
        check("application/msgpack", "-", b"{}", message_pack);
        check("application/x-msgpack", "-", b"", message_pack);
        check("application/vnd.msgpack", "-", b"", message_pack);
        check("application/vnd.order+MsgPack;v=1", "-", b"", message_pack);
        check("-", "-", &[0x81, 0xA1, b'a', 1], None);
        let cbor = Some(Format::Cbor);
        check("application/cbor", "-", b"", cbor);
        check("application/senml+cbor", "-", b"", cbor);
        check("application/cbor-seq", "-", b"", None);
        check("-", "-", &[0xD9, 0xD9, 0xF7, 0xA0], cbor);
        check("application/json", "-", &[0xD9, 0xD9, 0xF7, 0xA0], json);
        let fix = Some(Format::Fix);
        for content_type in
            ["application/fix", "application/x-fix", "application/vnd.fix", "text/fix", "text/x-fix"]
        {
            check(content_type, "-", b"55=IBM\x01", fix);
        }
        check("-", "-", b"8=FIX.4.4\x01", fix);
        check("text/plain", "-", b"8=FIXT.1.1|", fix);
        check("-", "gzip", b"8=FIX.4.4\x01", None);
        check("-", "-", b"55=IBM\x01", None);
        check("application/fix+json", "-", b"", json);
        for content_type in ["application/nvfix", "application/x-nvfix", "text/nvfix", "Text/X-NvFix"] {
            check(content_type, "-", b"8=FIX.4.4\x01", Some(Format::NameValueFix));
        }
        let xml = Some(Format::Xml);
        for content_type in [
            "application/xml",
            "Text/XML",
            "application/soap+xml; charset=utf-8",
            "text/xml;charset=\"UTF-8\"",
            "application/xml ; v=1 ; Charset = us-ascii",
        ] {
            check(content_type, "-", b"{}", xml);
        }
        check("application/xml; charset=iso-8859-1", "-", b"<a/>", None);
        check("text/plain; charset=utf-16", "-", b"<a/>", None);
        check("-", "-", b"<a/>", xml);
        check("text/html", "-", b" \n<!-- -->", xml);
        check("-", "-", b"\xEF\xBB\xBF<a/>", xml);
        check("-", "-", b"\xEF\xBB\xBF{}", None);
        check("application/xml", "gzip", b"<a/>", None);
        check("application/json", "-", b"<a/>", json);
        check("application/json; charset=iso-8859-1", "-", b"{}", json);
    }
}
