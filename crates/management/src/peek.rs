//! Messages that are looked at and not taken: of queues by their place, of streams by their offset.
//!
//! A page begins behind so many messages (`offset`), at a position (`position`), or with the last ones (`last`); of a
//! stream at an offset, at a time or at either end (`from`). What lies before a position costs nothing; what lies before
//! an offset of a queue is read. At most a page is held at once.

use crate::browsers;
use crate::call::Call;
use crate::messages::{message, numbered};
use crate::moment;
use crate::node::{Action, BrowsersSee, Got, Node, Outcome, ReadFrom, Trouble, Which};
use crate::response::{Answer, Response};
use base::id::QueueSeq;
use broker::access::Access;
use broker::catalog::age_ms;
use broker::{Begin, QueueRow, StreamRow};
use serde_json::{Value, json};

/// Messages that are shown where nothing else is asked for.
const PAGE: u32 = 10;

/// How messages are to be shown.
pub(crate) struct Shown {
    is_base64: bool,
    /// Bytes of a payload.
    most: usize,
    /// There is no payload for this client.
    is_bare: bool,
}

/// A page of messages, or those of a stream.
pub(crate) fn peek<N: Node>(call: &Call<'_, N>, vhost: &str, name: &str) -> Answer {
    let shown = Shown::asked(call)?;
    let which = Which::One(call.caller.vhost(vhost)?, name.to_owned());
    let row = call.node.queues(which, false)?.pop().ok_or_else(Response::not_found)?;
    // Where there is nothing to take nobody else asks.
    call.check_access(vhost, Access::Read, name)?;
    match &row.stream {
        Some(stream) => of_stream(call, (vhost, name), stream, StreamBegin::asked(call)?, &shown),
        None => of_queue(call, (vhost, name), &row, QueueBegin::asked(call)?, &shown),
    }
}

impl Shown {
    pub(crate) fn asked<N: Node>(call: &Call<'_, N>) -> Result<Shown, Response> {
        let most = match call.request.asked("truncate") {
            None => usize::MAX,
            Some(_) => asked(call, "truncate", 0, u32::MAX)? as usize,
        };
        let is_base64 = match call.request.asked("encoding") {
            None | Some("auto") => false,
            Some("base64") => true,
            Some(_) => {
                return Err(Response::bad_request("Unsupported encoding. Please use auto or base64."));
            }
        };
        let is_bare = match browsers::seen(call) {
            BrowsersSee::Full => false,
            BrowsersSee::Headers => true,
            BrowsersSee::None => return Err(browsers::not_shown()),
        };
        Ok(Shown { is_base64, most, is_bare })
    }

    /// A message with where it is.
    pub(crate) fn row(&self, got: &Got, places: [(&str, Option<u64>); 2]) -> Value {
        let most = if self.is_base64 { self.most } else { whole(&got.body, self.most) };
        let mut row = message(got, self.is_base64, most);
        if let Some(row) = row.as_object_mut() {
            row.remove("message_count");
            if self.is_bare {
                row.insert("payload".to_owned(), "".into());
                row.insert("payload_encoding".to_owned(), "string".into());
                row.insert("payload_hidden".to_owned(), true.into());
            }
            let told = places.into_iter().filter_map(|(key, place)| Some((key, place?)));
            row.extend(told.map(|(key, place)| (key.to_owned(), place.into())));
        }
        row
    }
}

/// Bytes of a body that are shown: of a text whole characters, for it is none with a part of one.
fn whole(body: &[u8], most: usize) -> usize {
    // A character has four bytes at most.
    let around = &body[..most.saturating_add(3).min(body.len())];
    let text = around.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    if text.len() < most { most } else { text.floor_char_boundary(most) }
}

/// A number of the query, within bounds.
pub(crate) fn asked<N: Node>(
    call: &Call<'_, N>,
    name: &str,
    otherwise: u32,
    most: u32,
) -> Result<u32, Response> {
    let Some(text) = call.request.asked(name) else { return Ok(otherwise) };
    let number = text.parse().ok().filter(|number| *number <= most);
    number.ok_or_else(|| Response::bad_request(format!("{name} is no number of 0 to {most}: {text}")))
}

/// Which key of these says where messages begin: one at most.
pub(crate) fn begin<N: Node>(
    call: &Call<'_, N>,
    keys: &[&'static str],
) -> Result<Option<&'static str>, Response> {
    let is_said = |key: &str| call.request.asked(key).is_some();
    let said: Vec<&'static str> = keys.iter().copied().filter(|key| is_said(key)).collect();
    let others = ["offset", "position", "last", "from"];
    if let Some(other) = others.into_iter().find(|key| !keys.contains(key) && is_said(key)) {
        let why = format!("{other} means nothing here: it can be {}", keys.join(" or "));
        return Err(Response::bad_request(why));
    }
    match said[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(Response::bad_request(format!("{}: either one or another", said.join(" and ")))),
    }
}

/// How many messages are asked for, and which key says where they begin: one of these at most.
fn page<N: Node>(call: &Call<'_, N>, keys: &[&'static str]) -> Result<(u32, Option<&'static str>), Response> {
    let begin = begin(call, keys)?;
    let count = match begin {
        Some("last") if call.request.asked("count").is_some() => {
            return Err(Response::bad_request("last and count: last alone says how many"));
        }
        Some("last") => count(call, "last")?,
        _ => count(call, "count")?,
    };
    Ok((count, begin))
}

/// How many messages are asked for.
pub(crate) fn count<N: Node>(call: &Call<'_, N>, key: &str) -> Result<u32, Response> {
    asked(call, key, PAGE, call.node.about().limits.page_items_max as u32)
}

/// The position in the query.
pub(crate) fn position<N: Node>(call: &Call<'_, N>) -> Result<u64, Response> {
    let Some(text) = call.request.asked("position") else { return Ok(0) };
    let position = text.parse::<u64>().ok().filter(|position| i64::try_from(*position).is_ok());
    position.ok_or_else(|| Response::bad_request(format!("position is no number: {text}")))
}

/// The messages, of what comes of asking for them.
pub(crate) fn got(outcome: Result<Outcome, Trouble>) -> Result<Vec<Got>, Response> {
    match outcome {
        Ok(Outcome::Got(got)) => Ok(got),
        Ok(_) => Ok(Vec::new()),
        Err(Trouble::Refused(refusal)) => Err(numbered(&refusal)),
        Err(trouble) => Err(trouble.into()),
    }
}

/// Where a page of a queue begins, and its size.
#[derive(Clone, Copy)]
enum QueueBegin {
    /// Behind so many messages.
    Offset(u32, u32),
    At(Begin, u32),
}

impl QueueBegin {
    fn asked<N: Node>(call: &Call<'_, N>) -> Result<QueueBegin, Response> {
        let (count, begin) = page(call, &["offset", "position", "last"])?;
        Ok(match begin {
            Some("last") => QueueBegin::At(Begin::Last(count.into()), count),
            Some("position") => QueueBegin::At(Begin::At(QueueSeq(position(call)?)), count),
            _ => QueueBegin::Offset(asked(call, "offset", 0, call.node.about().limits.peek_skip_max)?, count),
        })
    }
}

fn of_queue<N: Node>(
    call: &Call<'_, N>,
    (vhost, name): (&str, &str),
    row: &QueueRow,
    begin: QueueBegin,
    shown: &Shown,
) -> Answer {
    let limits = &call.node.about().limits;
    // No more are waited for than there are, so that no request waits for messages that do not come.
    let (from, skip, count, is_more) = match begin {
        QueueBegin::Offset(skip, count) => {
            let there = row.ready.saturating_sub(skip.into());
            let there = u32::try_from(there).unwrap_or(u32::MAX);
            (0, skip, count.min(there), there > count)
        }
        QueueBegin::At(begin, count) => {
            let id = call.caller.vhost(vhost)?;
            let found = call.node.ready_from(id, name, begin, u64::from(count) + 1)?;
            let (from, there) = found.ok_or_else(Response::not_found)?;
            let there = u32::try_from(there).unwrap_or(u32::MAX);
            (from, 0, count.min(there), there > count)
        }
    };
    let (bytes_max, ms_max) = (limits.get_bytes_max, limits.peek_ms_max);
    let action = Action::Peek { queue: name.to_owned(), from, skip, count, bytes_max, ms_max };
    let got = match count {
        0 => Vec::new(),
        _ => got(call.act(vhost, action))?,
    };
    let is_offset = matches!(begin, QueueBegin::Offset(..));
    let rows = got.iter().zip(u64::from(skip)..).map(|(got, offset)| {
        shown.row(got, [("offset", is_offset.then_some(offset)), ("position", got.position)])
    });
    let mut page = json!({ "messages": rows.collect::<Vec<_>>(), "messages_ready": row.ready });
    // Fewer may be shown than there are, for their bytes or their time.
    let is_more = is_more || got.len() < count as usize;
    let last = got.last().filter(|_| is_more);
    page["next_position"] = last.and_then(|last| Some(last.position? + 1)).into();
    if is_offset {
        let next = u64::from(skip) + got.len() as u64;
        page["next_offset"] = last.filter(|_| next <= limits.peek_skip_max.into()).map(|_| next).into();
    }
    Ok(Response::ok(&page))
}

/// Where a page of a stream begins, and its size.
enum StreamBegin {
    First(u32),
    Next,
    Last(u32),
    From(ReadFrom, u32),
}

impl StreamBegin {
    fn asked<N: Node>(call: &Call<'_, N>) -> Result<StreamBegin, Response> {
        let (count, begin) = page(call, &["from", "last"])?;
        if begin == Some("last") {
            return Ok(StreamBegin::Last(count));
        }
        let from = match call.request.asked("from").unwrap_or("first") {
            "first" => return Ok(StreamBegin::First(count)),
            "next" => return Ok(StreamBegin::Next),
            text => place(text)?,
        };
        Ok(StreamBegin::From(from, count))
    }
}

/// The place in a stream that a text says.
pub(crate) fn place(text: &str) -> Result<ReadFrom, Response> {
    if text == "last" {
        return Ok(ReadFrom::Last);
    }
    match (text.parse::<u64>(), moment::read(text)) {
        (Ok(offset), _) if i64::try_from(offset).is_ok() => Ok(ReadFrom::Offset(offset)),
        (_, Some(ms)) => Ok(ReadFrom::Time(ms / 1000)),
        _ if age_ms(text).is_some() => Ok(ReadFrom::Age(text.to_owned())),
        _ => Err(Response::bad_request(format!(
            "from is none of first, last, next, an offset, a time as 2026-11-27T08:00:00Z or an age as 1h: {text}"
        ))),
    }
}

fn of_stream<N: Node>(
    call: &Call<'_, N>,
    (vhost, name): (&str, &str),
    row: &StreamRow,
    begin: StreamBegin,
    shown: &Shown,
) -> Answer {
    let limits = &call.node.about().limits;
    let (first, end) = (row.first_offset, row.next_offset);
    let (from, count) = match begin {
        StreamBegin::First(count) => (ReadFrom::Offset(first), count),
        StreamBegin::Next => (ReadFrom::Offset(end), 0),
        StreamBegin::Last(count) => (ReadFrom::Offset(end.saturating_sub(count.into()).max(first)), count),
        StreamBegin::From(ReadFrom::Offset(offset), count) => (ReadFrom::Offset(offset.max(first)), count),
        StreamBegin::From(from, count) => (from, count),
    };
    // No more are waited for than there are.
    let there = end.saturating_sub(if let ReadFrom::Offset(offset) = from { offset } else { first });
    let count = count.min(u32::try_from(there).unwrap_or(u32::MAX));
    let otherwise = if let ReadFrom::Offset(offset) = from { offset.min(end) } else { end };
    let (bytes_max, ms_max) = (limits.get_bytes_max, limits.peek_ms_max);
    let action = Action::Read { stream: name.to_owned(), from, count, end, bytes_max, ms_max };
    let got = match count {
        0 => Vec::new(),
        _ => got(call.act(vhost, action))?,
    };
    let rows = got.iter().map(|got| shown.row(got, [("offset", got.position), ("position", None)]));
    let next = got.last().and_then(|last| Some(last.position? + 1)).unwrap_or(otherwise);
    Ok(Response::ok(&json!({
        "messages": rows.collect::<Vec<_>>(),
        "first_offset": first,
        "end_offset": end,
        "next": next,
    })))
}

#[cfg(test)]
mod tests {
    use super::whole;

    #[test]
    fn a_text_is_cut_between_characters() {
        let check = |body: &[u8], most: usize, expected: usize| {
            assert_eq!(whole(body, most), expected, "{body:?} {most}");
        };
        check(b"abc", 2, 2);
        check(b"abc", usize::MAX, usize::MAX);
        check(b"", 0, 0);
        for (most, expected) in [(0, 0), (1, 1), (2, 1), (3, 3), (4, 3), (6, 3), (7, 7), (8, 8)] {
            check("aé😀b".as_bytes(), most, expected);
        }
        // No texts.
        check(b"a\xc3\xa9\xff", 4, 4);
        check(b"a\xc3b", 2, 2);
        check(b"\xff\xfe", 1, 1);
    }
}
