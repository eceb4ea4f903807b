//! Answers in gzip, for clients that take it (RFC 9110 §12.5.3).
//!
//! Lists shrink to a tenth. What is small gains nothing; and what no cache may keep has secrets in it, whose letters could
//! be guessed from its length when a page has the same answer sent again and again.

use flate2::Compression;
use flate2::write::GzEncoder;
use management::Response;
use std::io::Write;

/// Bytes of an answer for each byte that its short form is thought to have.
const SHRINKS: usize = 8;

/// Whether a client takes gzip, by the values of its headers `accept-encoding`.
pub fn is_taken<'v>(values: impl Iterator<Item = &'v str>) -> bool {
    let (mut named, mut any) = (None, false);
    for one in values.flat_map(|value| value.split(',')) {
        let mut parts = one.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let weight = parts.find_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")));
        let is_wanted = weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0));
        if name.eq_ignore_ascii_case("gzip") || name.eq_ignore_ascii_case("x-gzip") {
            named = Some(is_wanted);
        } else if name == "*" {
            any = is_wanted;
        }
    }
    named.unwrap_or(any)
}

/// The same answer in gzip, if it is one that is compressed.
pub fn compressed(response: Response, bytes_min: usize) -> Response {
    let header = |name: &str| response.headers.iter().find(|(own, _)| *own == name);
    let is_secret = header("cache-control").is_some_and(|(_, value)| value.contains("no-store"));
    // Events come one by one, also where one alone was asked for.
    let is_event = header("content-type").is_some_and(|(_, value)| value.starts_with("text/event-stream"));
    if response.body.len() < bytes_min || response.next.is_some() || is_event || is_secret {
        return response;
    }
    let room = Vec::with_capacity(response.body.len() / SHRINKS);
    let mut encoder = GzEncoder::new(room, Compression::fast());
    // Writing to memory does not fail.
    let Ok(short) = encoder.write_all(&response.body).and_then(|()| encoder.finish()) else {
        return response;
    };
    let mut response = Response { body: short, ..response };
    response.headers.push(("content-encoding", "gzip".to_owned()));
    if !response.headers.iter().any(|(name, _)| *name == "vary") {
        response.headers.push(("vary", "accept-encoding".to_owned()));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn clients_say_whether_they_take_it() {
        let check = |values: &[&str], expected: bool| {
            assert_eq!(is_taken(values.iter().copied()), expected, "{values:?}");
        };
        check(&[], false);
        check(&["identity"], false);
        check(&["gzip"], true);
        check(&["gzip, deflate, br"], true);
        check(&["deflate;q=1.0 , GZIP ;q=0.5"], true);
        check(&["deflate", "x-gzip"], true);
        check(&["gzip;q=0"], false);
        check(&["gzip;q=0.000, *"], false);
        check(&["*"], true);
        check(&["*;q=0"], false);
        check(&["gzip;q=x"], false);
        check(&["gzipped"], false);
    }

    #[test]
    fn what_is_large_and_no_secret_is_compressed() {
        let check = |size: usize, cache: &str, is_short: bool| {
            let body = vec![b'a'; size];
            let headers = vec![("cache-control", cache.to_owned())];
            let response = Response { headers, body: body.clone(), ..Response::empty(200) };
            let told = compressed(response, 1000);
            let is_marked = told.headers.contains(&("content-encoding", "gzip".to_owned()));
            assert_eq!(is_marked, is_short, "{size} {cache}");
            let mut back = Vec::new();
            match is_short {
                true => drop(GzDecoder::new(&told.body[..]).read_to_end(&mut back).unwrap()),
                false => back = told.body,
            }
            assert_eq!(back, body);
        };
        check(999, "no-cache", false);
        check(1000, "no-cache", true);
        check(100_000, "no-cache", true);
        check(100_000, "no-store", false);
    }
}
