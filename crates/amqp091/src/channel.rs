//! The channels of a connection: which numbers are open, closing, or in the middle of a message.
//!
//! Sorted by number; sixteen bytes each. The use of a channel (consumers, confirms) is the holder's to know.

use crate::content::Assembly;

/// How far a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChannelState {
    /// `open` went out; `open-ok` did not come yet.
    Opening,
    Open,
    /// We sent `close`: everything is discarded until `close-ok`.
    Closing,
    /// The peer sent `close`: everything is discarded until we answer.
    ClosedByPeer,
}

#[derive(Debug)]
pub(crate) struct Channel {
    pub number: u16,
    pub state: ChannelState,
    pub assembly: Option<Box<Assembly>>,
}

#[derive(Debug, Default)]
pub(crate) struct Channels {
    sorted: Vec<Channel>,
    /// Where the last one asked for was: messages come in runs.
    last: usize,
}

impl Channels {
    pub fn len(&self) -> usize {
        self.sorted.len()
    }

    pub fn is_gathering(&self) -> bool {
        self.sorted
            .iter()
            .any(|channel| channel.assembly.as_ref().is_some_and(|assembly| assembly.has_header()))
    }

    #[inline]
    pub fn get(&mut self, number: u16) -> Option<&mut Channel> {
        if self.sorted.get(self.last).is_none_or(|channel| channel.number != number) {
            self.last = self.sorted.binary_search_by_key(&number, |channel| channel.number).ok()?;
        }
        self.sorted.get_mut(self.last)
    }

    /// Open, and not in the middle of a message.
    #[inline]
    pub fn is_ready(&mut self, number: u16) -> bool {
        self.get(number).is_some_and(|found| found.state == ChannelState::Open && found.assembly.is_none())
    }

    pub fn state(&mut self, number: u16) -> Option<ChannelState> {
        self.get(number).map(|channel| channel.state)
    }

    /// Adds a channel that is not there.
    pub fn insert(&mut self, number: u16, state: ChannelState) {
        let at = self.sorted.partition_point(|channel| channel.number < number);
        self.sorted.insert(at, Channel { number, state, assembly: None });
    }

    pub fn remove(&mut self, number: u16) {
        if let Ok(at) = self.sorted.binary_search_by_key(&number, |channel| channel.number) {
            self.sorted.remove(at);
        }
    }

    pub fn clear(&mut self) {
        *self = Channels::default();
    }

    pub fn capacity(&self) -> usize {
        let assemblies = self.sorted.iter().filter_map(|channel| channel.assembly.as_ref());
        self.sorted.capacity() * size_of::<Channel>()
            + assemblies.map(|assembly| assembly.capacity()).sum::<usize>()
    }
}
