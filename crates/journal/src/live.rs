//! The files of a journal that may be needed: what each holds of each log, as batches come.
//!
//! A log may go back: a batch whose base is before the log's end replaces everything of the log from its base on. The tail
//! replaced is void, though its bytes stay in their file, and holds no file back. Invariant: file by file, the spans of a
//! log rise and do not overlap, and the last of them ends where the log does.

use crate::file::{LiveFile, LogSpan};
use crate::group::Entry;
use base::id::LogIndex;
use std::collections::VecDeque;

/// Takes a batch into account that was committed to the last of `files`. Where it goes back, returns the log's end before.
pub(crate) fn note(files: &mut VecDeque<LiveFile>, entry: &Entry) -> Option<LogIndex> {
    let file = files.back_mut().expect("a batch is in a file");
    if entry.bulk != 0 {
        file.bulk.push(entry.bulk);
        file.bulk_bytes += entry.len;
    }
    if entry.mark.is_some()
        && let Err(at) = file.marked.binary_search(&entry.log)
    {
        file.marked.insert(at, entry.log);
    }
    match file.logs.binary_search_by_key(&entry.log, |span| span.log) {
        Ok(at) if file.logs[at].end <= entry.base => {
            file.logs[at].end = entry.end();
            None
        }
        _ => note_first_or_back(files, entry),
    }
}

/// As [`note`], of a log's first batch in the file, or one that goes back.
#[cold]
fn note_first_or_back(files: &mut VecDeque<LiveFile>, entry: &Entry) -> Option<LogIndex> {
    let log = entry.log;
    let end = files.iter().rev().find_map(|file| file.span(log)).map(|span| span.end);
    let void_to = end.filter(|end| *end > entry.base);
    if void_to.is_some() {
        files.iter_mut().for_each(|file| file.take_back(log, entry.base));
    }
    let file = files.back_mut().expect("a batch is in a file");
    match file.logs.binary_search_by_key(&log, |span| span.log) {
        Ok(at) => file.logs[at].end = entry.end(),
        Err(at) => file.logs.insert(at, LogSpan { log, first: entry.base, end: entry.end() }),
    }
    void_to
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::FileId;
    use base::id::LogId;

    /// A span as (log, first, end).
    type Spans<'a> = &'a [(u32, u64, u64)];

    /// The files hold `before`, a batch of log 1 comes to the last: whether it goes back, and what they hold then.
    fn check(before: &[Spans<'_>], batch: (u64, u64), void_to: Option<u64>, after: &[Spans<'_>]) {
        let mut files: VecDeque<LiveFile> =
            (1..).zip(before).map(|(id, _)| LiveFile::new(FileId(id), id, 0, 0)).collect();
        for (file, spans) in files.iter_mut().zip(before) {
            file.logs = spans.iter().map(|(log, first, end)| span(*log, *first, *end)).collect();
        }
        let (base, end) = batch;
        let entry = Entry {
            log: LogId(1),
            crc: 0,
            base: LogIndex(base),
            committed_at_ms: 0,
            offset: 0,
            len: end - base,
            bulk: 0,
            mark: None,
        };
        assert_eq!(note(&mut files, &entry), void_to.map(LogIndex), "{before:?} {batch:?}");
        for (file, spans) in files.iter().zip(after) {
            let expected: Vec<LogSpan> =
                spans.iter().map(|(log, first, end)| span(*log, *first, *end)).collect();
            assert_eq!(file.logs, expected, "{before:?} {batch:?}, file {}", file.id);
        }
    }

    /// A promise stays where it is, though the records before and behind it are void.
    #[test]
    fn a_file_with_marks_says_so_whatever_goes_back() {
        let mut files: VecDeque<LiveFile> = (1..4).map(|id| LiveFile::new(FileId(id), id, 0, 0)).collect();
        let entry = |log, base, len, is_marked: bool| Entry {
            log: LogId(log),
            crc: 0,
            base: LogIndex(base),
            committed_at_ms: 0,
            offset: 0,
            len,
            bulk: 0,
            mark: is_marked.then_some(crate::Mark([1; crate::Mark::LEN])),
        };
        let mut rest = files.split_off(1);
        note(&mut files, &entry(2, 0, 8, true));
        note(&mut files, &entry(1, 0, 8, false));
        files.extend(rest.pop_front());
        note(&mut files, &entry(2, 8, 0, true));
        note(&mut files, &entry(1, 8, 8, true));
        files.append(&mut rest);
        note(&mut files, &entry(2, 0, 0, true));
        let marked: Vec<Vec<u32>> =
            files.iter().map(|file| file.marked.iter().map(|log| log.0).collect()).collect();
        assert_eq!(marked, [vec![2], vec![1, 2], vec![2]]);
        assert!(files[1].span(LogId(2)).is_none(), "what stood there is void");
    }

    fn span(log: u32, first: u64, end: u64) -> LogSpan {
        LogSpan { log: LogId(log), first: LogIndex(first), end: LogIndex(end) }
    }

    #[test]
    fn a_batch_that_follows_makes_its_span_longer() {
        check(&[&[]], (8, 16), None, &[&[(1, 8, 16)]]);
        check(&[&[(1, 8, 16)]], (16, 24), None, &[&[(1, 8, 24)]]);
        check(&[&[(0, 8, 80), (2, 8, 80)]], (16, 24), None, &[&[(0, 8, 80), (1, 16, 24), (2, 8, 80)]]);
        check(&[&[(1, 8, 16)], &[]], (16, 24), None, &[&[(1, 8, 16)], &[(1, 16, 24)]]);
        check(
            &[&[(1, 8, 16)], &[(2, 0, 8)], &[]],
            (16, 16),
            None,
            &[&[(1, 8, 16)], &[(2, 0, 8)], &[(1, 16, 16)]],
        );
        // Something is missing between.
        check(&[&[(1, 8, 16)]], (32, 40), None, &[&[(1, 8, 40)]]);
        // No more than a mark came before.
        check(&[&[(1, 16, 16)]], (16, 24), None, &[&[(1, 16, 24)]]);
    }

    #[test]
    fn a_batch_that_goes_back_takes_what_it_replaces_out_of_all_files() {
        check(&[&[(1, 8, 80)]], (16, 24), Some(80), &[&[(1, 8, 24)]]);
        check(&[&[(1, 8, 80)]], (8, 16), Some(80), &[&[(1, 8, 16)]]);
        check(&[&[(1, 8, 80)]], (16, 16), Some(80), &[&[(1, 8, 16)]]);
        check(&[&[(1, 8, 80), (2, 8, 80)], &[]], (0, 16), Some(80), &[&[(2, 8, 80)], &[(1, 0, 16)]]);
        check(&[&[(1, 8, 80)], &[]], (16, 24), Some(80), &[&[(1, 8, 16)], &[(1, 16, 24)]]);
        check(
            &[&[(1, 8, 40)], &[(1, 40, 64)], &[(1, 64, 80), (2, 8, 80)], &[]],
            (32, 88),
            Some(80),
            &[&[(1, 8, 32)], &[], &[(2, 8, 80)], &[(1, 32, 88)]],
        );
        check(&[&[(1, 8, 40)], &[(1, 40, 80)]], (24, 32), Some(80), &[&[(1, 8, 24)], &[(1, 24, 32)]]);
        // So does a mark without records, and marks behind its place go with the rest.
        check(&[&[(1, 8, 40)], &[(1, 40, 40)]], (24, 24), Some(40), &[&[(1, 8, 24)], &[(1, 24, 24)]]);
    }
}
