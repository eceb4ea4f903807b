//! Words between nodes as bodies of a lane. All that depends on which words there are is here.

use base::Output;
use base::id::NodeNo;
use broker::{CatalogWord, word_codec};
use cluster::lane::{Kind, Outgoing};
use consensus::codec::{self, Limits};
use consensus::message::{Body, Request};
use consensus::{Content, Message};
use node::fetch::{self, Fetch, What};
use node::word::Word;

/// Bytes of memory that a word counts for beside its records.
const WORD_BYTES: usize = 256;

/// Whether a word goes by the pulse: it is short, and others wait for it who would do without this node.
pub fn is_urgent(word: &Word) -> bool {
    match word {
        Word::Replica(message) => match &message.body {
            Body::Ask(Request::Append(append)) => append.entries.is_empty(),
            Body::Ask(Request::Install(_)) => false,
            Body::Ask(Request::Vote(_) | Request::PreVote(_) | Request::Transfer(_)) | Body::Answer(_) => {
                true
            }
        },
        Word::Fetch(_) | Word::Catalog(_) | Word::Log(_) => false,
    }
}

/// Bytes of memory that it holds, about.
pub fn weight(word: &Word) -> usize {
    match word {
        Word::Replica(message) => WORD_BYTES + of_records(message),
        Word::Fetch(fetch) => WORD_BYTES + of_state(fetch),
        Word::Catalog(word) => WORD_BYTES + word.bytes(),
        Word::Log(word) => WORD_BYTES + word.bytes(),
    }
}

fn of_records(message: &Message) -> usize {
    match &message.body {
        Body::Ask(Request::Append(append)) => {
            let of = |content: &Content| match content {
                Content::Batch(batch) => batch.len,
                Content::Blank | Content::Members(_) => 0,
            };
            append.entries.iter().map(|entry| WORD_BYTES + of(&entry.content)).sum()
        }
        Body::Ask(Request::Install(install)) => install.manifest.len(),
        Body::Ask(_) | Body::Answer(_) => 0,
    }
}

fn of_state(fetch: &Fetch) -> usize {
    match &fetch.what {
        What::Piece { bytes, .. } => bytes.len(),
        What::Gift(gift) => 24 * gift.segments.len(),
        What::Ask { .. } | What::Read { .. } | What::Gone { .. } => 0,
    }
}

/// The body of a word, and its kind; records are not copied.
///
/// # Errors
/// It has no bytes: a fault of this node.
pub fn write(word: &Word, limits: &Limits) -> Result<(Kind, Outgoing), String> {
    match word {
        Word::Replica(message) => {
            let mut output = Output::default();
            codec::write(message, limits, &mut output).map_err(|fault| fault.to_string())?;
            Ok((Kind::Consensus, Outgoing::of(&output)))
        }
        Word::Fetch(fetch) => {
            let mut bytes = Vec::new();
            fetch::codec::write(fetch, &mut bytes);
            Ok((Kind::State, Outgoing::new(bytes)))
        }
        Word::Catalog(word) => {
            let mut bytes = Vec::new();
            word.encode_to(&mut bytes);
            Ok((Kind::Catalog, Outgoing::new(bytes)))
        }
        Word::Log(word) => {
            let mut output = Output::default();
            word_codec::write(word, &mut output).map_err(|fault| fault.to_string())?;
            Ok((Kind::Log, Outgoing::of(&output)))
        }
    }
}

/// The word in a body of this kind that the first node sent to the second.
///
/// # Errors
/// It is none, or is between others: a fault of that node.
pub fn read(kind: Kind, bytes: &[u8], (from, to): (NodeNo, NodeNo), limits: &Limits) -> Result<Word, String> {
    match kind {
        Kind::State => {
            let fetch = fetch::codec::read(bytes).map_err(|fault| fault.to_string())?;
            return Ok(Word::Fetch(Box::new(fetch)));
        }
        Kind::Catalog => {
            return CatalogWord::decode(bytes).map(Word::Catalog).map_err(|fault| fault.to_string());
        }
        Kind::Log => {
            let word = word_codec::read(bytes).map_err(|fault| fault.to_string())?;
            return Ok(Word::Log(Box::new(word)));
        }
        _ => {}
    }
    let message = codec::read(bytes, limits).map_err(|fault| fault.to_string())?;
    match (message.from.node(), message.to.node()) {
        nodes if nodes == (from, to) => Ok(Word::Replica(Box::new(message))),
        (one, other) => Err(format!("a word of node {one} to node {other}, which are others")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Buffer;
    use base::id::{LogId, LogIndex};
    use broker::{LogWord, Said, Tenure};
    use consensus::message::{Answer, Append, Candidacy, Voted};
    use consensus::{Entry, EntryId, ReplicaId, Vote};
    use journal::Batch;

    fn word(body: Body) -> Word {
        let replica = |node| ReplicaId::new(NodeNo(node), 0);
        let (from, to) = (replica(1), replica(2));
        Word::Replica(Box::new(Message { log: LogId(3), from, to, call: 4, body }))
    }

    fn append(bytes: usize) -> Body {
        let id = EntryId { term: 1, index: 0 };
        let vote = Vote { term: 1, candidate: ReplicaId::new(NodeNo(1), 0), is_won: true };
        let mut batch = Batch::new(LogId(3), LogIndex(0), Buffer::default());
        batch.records().extend_zeroed(bytes).fill(7);
        let content = Content::Batch(batch.seal(1));
        let entries = if bytes > 0 { vec![Entry { id, content }] } else { Vec::new() };
        Body::Ask(Request::Append(Append { vote, before: None, entries, agreed: None }))
    }

    #[test]
    fn words_without_records_go_by_the_pulse() {
        let vote = Vote { term: 1, candidate: ReplicaId::new(NodeNo(1), 0), is_won: false };
        let candidacy = Candidacy { vote, last: None, is_transfer: false };
        let voted = Voted { vote, is_granted: true, last: None };
        let check =
            |body: Body, expected: bool| assert_eq!(is_urgent(&word(body.clone())), expected, "{body:?}");
        check(append(0), true);
        check(append(8), false);
        check(Body::Ask(Request::Vote(candidacy)), true);
        check(Body::Ask(Request::PreVote(candidacy)), true);
        check(Body::Answer(Answer::Vote(voted)), true);
    }

    #[test]
    fn a_word_comes_back_from_the_nodes_it_is_between_alone() {
        let limits = Limits::default();
        let sent = word(append(64 << 10));
        let (kind, body) = write(&sent, &limits).expect("has bytes");
        assert!(weight(&sent) >= 64 << 10 && weight(&word(append(0))) < 1024);
        let mut output = Output::default();
        let Word::Replica(message) = &sent else { panic!("it is of a replica") };
        codec::write(message, &limits, &mut output).expect("has bytes");
        let bytes = output.to_vec();
        assert_eq!(bytes.len(), body.len());
        let check = |from, to, expected: bool| {
            let found = read(kind, &bytes, (NodeNo(from), NodeNo(to)), &limits);
            assert_eq!(found.is_ok(), expected, "{from} {to} {found:?}");
        };
        check(1, 2, true);
        check(2, 1, false);
        check(1, 3, false);
        check(3, 2, false);
        let cut = read(kind, &bytes[1..], (NodeNo(1), NodeNo(2)), &limits);
        assert!(cut.is_err(), "{cut:?}");
    }

    #[test]
    fn words_about_states_have_a_kind_of_their_own() {
        let limits = Limits::default();
        let what = What::Piece { number: 7, part: fetch::Part::State, offset: 3, bytes: vec![7; 5000] };
        let word = Word::Fetch(Box::new(Fetch { log: LogId(3), what }));
        assert!(!is_urgent(&word) && weight(&word) >= 5000);
        let (kind, body) = write(&word, &limits).expect("has bytes");
        let mut bytes = Vec::new();
        let Word::Fetch(sent) = &word else { panic!("it is of a state") };
        fetch::codec::write(sent, &mut bytes);
        assert_eq!((kind, body.len()), (Kind::State, bytes.len()));
        let nodes = (NodeNo(1), NodeNo(2));
        let found = read(kind, &bytes, nodes, &limits);
        assert!(matches!(found, Ok(Word::Fetch(_))), "{found:?}");
        assert!(read(Kind::Consensus, &bytes, nodes, &limits).is_err());
        assert!(read(kind, &bytes[..9], nodes, &limits).is_err());
    }

    #[test]
    fn words_about_a_log_have_a_kind_of_their_own() {
        let limits = Limits::default();
        let sent = LogWord { log: LogId(3), life: 7, visit: 2, tenure: Tenure::default(), said: Said::Come };
        let word = Word::Log(Box::new(sent.clone()));
        assert!(!is_urgent(&word) && weight(&word) < 1024);
        let (kind, body) = write(&word, &limits).expect("has bytes");
        let mut output = Output::default();
        word_codec::write(&sent, &mut output).expect("has bytes");
        let bytes = output.to_vec();
        assert_eq!((kind, body.len()), (Kind::Log, bytes.len()));
        let nodes = (NodeNo(1), NodeNo(2));
        let found = read(kind, &bytes, nodes, &limits);
        let Ok(Word::Log(found)) = found else { panic!("{found:?}") };
        assert_eq!((found.log, found.life, found.visit), (LogId(3), 7, 2));
        assert!(read(Kind::State, &bytes, nodes, &limits).is_err());
        assert!(read(kind, &bytes[1..], nodes, &limits).is_err());
    }

    #[test]
    fn words_about_the_catalog_have_a_kind_of_their_own() {
        let limits = Limits::default();
        let word = Word::Catalog(CatalogWord::Ask { incarnation: 7, call: 3 });
        assert!(!is_urgent(&word) && weight(&word) < 1024);
        let (kind, body) = write(&word, &limits).expect("has bytes");
        let mut bytes = Vec::new();
        CatalogWord::Ask { incarnation: 7, call: 3 }.encode_to(&mut bytes);
        assert_eq!((kind, body.len()), (Kind::Catalog, bytes.len()));
        let nodes = (NodeNo(1), NodeNo(2));
        let found = read(kind, &bytes, nodes, &limits);
        let Ok(Word::Catalog(found)) = found else { panic!("{found:?}") };
        assert_eq!(found, CatalogWord::Ask { incarnation: 7, call: 3 });
        assert!(read(Kind::State, &bytes, nodes, &limits).is_err());
        assert!(read(kind, &bytes[1..], nodes, &limits).is_err());
    }
}
