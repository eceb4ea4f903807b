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

/// Room for assemblies that nothing bounds.
pub(crate) const UNBOUNDED: isize = isize::MAX / 2;

#[derive(Debug, Default)]
pub(crate) struct Channels {
    sorted: Vec<Channel>,
    /// Bytes granted for the memory of assemblies, less those that they have. Below 0: they have more.
    pub room: isize,
    /// Where the last one asked for was: messages come in runs.
    last: usize,
}

impl Channels {
    /// None yet, with any room.
    pub fn unbounded() -> Channels {
        Channels { room: UNBOUNDED, ..Channels::default() }
    }

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
            let assembly = self.sorted.remove(at).assembly;
            self.room += assembly.map_or(0, |assembly| assembly.capacity() as isize);
        }
    }

    /// Begins a message on a channel.
    pub fn begin(&mut self, number: u16, assembly: Assembly) {
        let bytes = assembly.capacity();
        if let Some(found) = self.get(number) {
            found.assembly = Some(Box::new(assembly));
            self.room -= bytes as isize;
        }
    }

    /// Takes a message that is whole out of its channel.
    pub fn take_complete(&mut self, number: u16) -> Option<Box<Assembly>> {
        let found = self.get(number)?;
        if !found.assembly.as_ref()?.is_complete() {
            return None;
        }
        let assembly = found.assembly.take()?;
        self.room += assembly.capacity() as isize;
        Some(assembly)
    }

    /// Gives up the message that a channel is in the middle of.
    pub fn give_up(&mut self, number: u16) {
        let assembly = self.get(number).and_then(|found| found.assembly.take());
        self.room += assembly.map_or(0, |assembly| assembly.capacity() as isize);
    }

    /// Lets a channel's message grow by `work`; nothing where there is none.
    pub fn grow(&mut self, number: u16, work: impl FnOnce(&mut Assembly)) {
        let Some(assembly) = self.get(number).and_then(|found| found.assembly.as_deref_mut()) else { return };
        let before = assembly.capacity();
        work(assembly);
        let grown = assembly.capacity() - before;
        self.room -= grown as isize;
    }

    pub fn clear(&mut self) {
        let room = self.room + self.assembled() as isize;
        *self = Channels { room, ..Channels::default() };
    }

    /// Bytes of memory of all assemblies.
    fn assembled(&self) -> usize {
        let assemblies = self.sorted.iter().filter_map(|channel| channel.assembly.as_ref());
        assemblies.map(|assembly| assembly.capacity()).sum()
    }

    pub fn capacity(&self) -> usize {
        self.sorted.capacity() * size_of::<Channel>() + self.assembled()
    }
}
