//! A disk in memory that does the worst a disk may do. For tests and simulation.
//!
//! # The fault model
//!
//! - **Unsynced writes.** Bytes written since the last successful sync of a file are pending. A crash decides for
//!   every 512-byte sector which of its pending versions, or the synced one, is found afterwards: writes are lost, torn
//!   at sectors, and reordered. Crashes come in several tempers (nothing lost, everything lost, a prefix, each sector
//!   by itself), because each finds other mistakes. A process that is killed loses nothing, and makes nothing durable.
//! - **Power off.** From a planned call on the disk does nothing any more. The bytes of that call are pending: the crash
//!   decides what is found of it.
//! - **Unsynced names.** Names made, changed or removed since the last sync of their folder may each be there or not. A
//!   rename within a folder is one change: file systems with a journal of their own (ext4, xfs) keep it whole.
//!   A file that was never synced may be empty, though its name is there.
//! - **Failed syncs.** A sync that fails loses what was pending for good, while reads still show it until the crash; a
//!   second sync succeeds and brings nothing back.
//! - **Failed writes** may have written some sectors, or none, before they failed.
//! - **Failed reads** return an error now, and may succeed the next time; a *bad sector* always fails.
//! - **No space.** Files cannot take more than the capacity. Setting space aside fails before anything changed; a write
//!   may have written a part first.
//! - **Bit rot.** Bits of synced data change silently.
//! - Synced bytes are not undone by anything but rot and bad sectors. Reads after a crash see what a crash left: there
//!   is no stale cache. Delay is not modelled here: who simulates decides when to call.

use crate::disk::{Disk, DiskError, FileKind, FileName};
use base::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::io::IoSlice;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes that are written whole or not at all.
pub const SECTOR: usize = 512;

type Sector = [u8; SECTOR];

/// The faults that come by chance, while it is running. Each number means: once in so many calls on average; 0: never.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Writes fail.
    pub write_one_in: u64,
    /// Syncs of files and folders fail.
    pub sync_one_in: u64,
    /// Reads fail.
    pub read_one_in: u64,
    /// Making, renaming and removing files fails.
    pub name_one_in: u64,
}

/// A call of [`Disk`], for faults that are planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Disk::create`].
    Create,
    /// [`Disk::read_at`].
    Read,
    /// [`Disk::write_at`].
    Write,
    /// [`Disk::sync`].
    Sync,
    /// [`Disk::sync_folder`].
    SyncFolder,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::remove`].
    Remove,
}

/// The fate of what was not synced in a crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temper {
    /// Nothing is lost, nothing becomes durable: a process was killed, the machine lives on.
    Kill,
    /// None of it survives.
    LoseAll,
    /// The calls up to some moment survive, the one at that moment in part, the later ones not.
    Prefix,
    /// Every sector and every name has its own fate.
    Scatter,
}

/// See the module. Clones share the disk.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    dice: Random,
    files: BTreeMap<u64, File>,
    next_file: u64,
    /// The names a reader sees now.
    names: BTreeMap<FileName, u64>,
    /// The names a crash cannot take.
    synced_names: BTreeMap<FileName, u64>,
    pending_names: Vec<NameChange>,
    faults: Faults,
    planned: Vec<(Call, u64, DiskError)>,
    /// Changing calls until the power goes; 0: it has gone.
    power: Option<u64>,
    capacity: u64,
    clock: u64,
}

#[derive(Clone, Debug)]
struct NameChange {
    at: u64,
    kind: FileKind,
    name: FileName,
    /// The file it stands for from now on; `None`: none.
    file: Option<u64>,
    /// It is the second half of a rename: it shares the fate of the change before it.
    is_second_half: bool,
}

/// How a call goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It fails with this.
    Error(DiskError),
    /// The power goes in its midst.
    Dying,
    /// The power has gone.
    Dead,
}

impl Fault {
    fn error(self) -> DiskError {
        match self {
            Fault::Error(error) => error,
            Fault::Dying | Fault::Dead => DiskError::Io(5),
        }
    }
}

/// A file's sectors; one that is not there is zeros.
type Sectors = BTreeMap<u64, Arc<Sector>>;

#[derive(Clone, Debug, Default)]
struct File {
    now: Sectors,
    len: u64,
    synced: Sectors,
    /// `None`: never synced.
    synced_len: Option<u64>,
    /// Sectors written since the last sync, in order.
    pending: Vec<(u64, u64, Arc<Sector>)>,
    bad: BTreeSet<u64>,
}

impl FaultyDisk {
    /// An empty disk without bound whose faults come from `seed`.
    pub fn new(seed: u64) -> FaultyDisk {
        let state = State {
            dice: Random::new(seed),
            files: BTreeMap::new(),
            next_file: 0,
            names: BTreeMap::new(),
            synced_names: BTreeMap::new(),
            pending_names: Vec::new(),
            faults: Faults::default(),
            planned: Vec::new(),
            power: None,
            capacity: u64::MAX,
            clock: 0,
        };
        FaultyDisk { state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on these go wrong by chance.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// The `nth` call of this kind from now (1: the next) fails with `error`.
    pub fn fail(&self, call: Call, nth: u64, error: DiskError) {
        assert!(nth > 0);
        self.state().planned.push((call, nth, error));
    }

    /// The power goes in the midst of the `nth` call from now that changes something (1: the next): that one and all
    /// others fail until [`FaultyDisk::crash`].
    pub fn power_off(&self, nth: u64) {
        assert!(nth > 0);
        self.state().power = Some(nth);
    }

    /// From now on all files together may have this many bytes.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity = bytes;
    }

    /// Bytes of all files.
    pub fn used_bytes(&self) -> u64 {
        self.state().used()
    }

    /// Loses power, or only the process, in a random temper. Planned faults and faults by chance end with it.
    pub fn crash(&self) -> Temper {
        let temper = match self.state().dice.below(8) {
            0 => Temper::Kill,
            1 => Temper::LoseAll,
            2..=4 => Temper::Prefix,
            _ => Temper::Scatter,
        };
        self.crash_as(temper);
        temper
    }

    /// Loses power, or only the process, in this temper.
    pub fn crash_as(&self, temper: Temper) {
        self.state().crash(temper);
    }

    /// Flips one bit of what is on disk. False where the file has no such byte.
    pub fn rot(&self, name: FileName, byte: u64, bit: u8) -> bool {
        let mut state = self.state();
        let Some(file) = state.names.get(&name).copied().and_then(|id| state.files.get_mut(&id)) else {
            return false;
        };
        if byte >= file.len {
            return false;
        }
        let (sector, at) = (byte / SECTOR as u64, byte as usize % SECTOR);
        for sectors in [&mut file.now, &mut file.synced] {
            let sector = sectors.entry(sector).or_insert_with(|| Arc::new([0; SECTOR]));
            Arc::make_mut(sector)[at] ^= 1 << (bit % 8);
        }
        true
    }

    /// Makes the sector with this byte unreadable until it is written again.
    pub fn ruin(&self, name: FileName, byte: u64) {
        let mut state = self.state();
        if let Some(file) = state.names.get(&name).copied().and_then(|id| state.files.get_mut(&id)) {
            file.bad.insert(byte / SECTOR as u64);
        }
    }

    /// Cuts a file to `len` bytes, as a broken filesystem check may.
    pub fn truncate(&self, name: FileName, len: u64) {
        let mut state = self.state();
        if let Some(file) = state.names.get(&name).copied().and_then(|id| state.files.get_mut(&id)) {
            file.truncate(len);
        }
    }

    /// A copy that shares nothing: what would happen if ...
    pub fn fork(&self) -> FaultyDisk {
        let state = self.state();
        let copy = State {
            dice: state.dice.clone(),
            files: state.files.clone(),
            next_file: state.next_file,
            names: state.names.clone(),
            synced_names: state.synced_names.clone(),
            pending_names: state.pending_names.clone(),
            faults: state.faults,
            planned: state.planned.clone(),
            power: state.power,
            capacity: state.capacity,
            clock: state.clock,
        };
        FaultyDisk { state: Arc::new(Mutex::new(copy)) }
    }
}

impl State {
    fn used(&self) -> u64 {
        let live: BTreeSet<u64> = self.names.values().copied().collect();
        live.iter().filter_map(|id| self.files.get(id)).map(|file| file.len).sum()
    }

    /// The fault this call meets, if any.
    fn fault(&mut self, call: Call) -> Option<Fault> {
        self.clock += 1;
        match &mut self.power {
            Some(0) => return Some(Fault::Dead),
            Some(calls) if call != Call::Read => {
                *calls -= 1;
                if *calls == 0 {
                    return Some(Fault::Dying);
                }
            }
            _ => {}
        }
        for (planned, nth, _) in &mut self.planned {
            if *planned == call {
                *nth = nth.saturating_sub(1);
            }
        }
        if let Some(at) = self.planned.iter().position(|(planned, nth, _)| *planned == call && *nth == 0) {
            return Some(Fault::Error(self.planned.remove(at).2));
        }
        let one_in = match call {
            Call::Write => self.faults.write_one_in,
            Call::Sync | Call::SyncFolder => self.faults.sync_one_in,
            Call::Read => self.faults.read_one_in,
            Call::Create | Call::Rename | Call::Remove => self.faults.name_one_in,
        };
        (one_in > 0 && self.dice.one_in(one_in)).then_some(Fault::Error(DiskError::Io(5)))
    }

    fn id(&self, name: FileName) -> Result<u64, DiskError> {
        self.names.get(&name).copied().ok_or(DiskError::NotFound)
    }

    fn file(&mut self, name: FileName) -> Result<&mut File, DiskError> {
        let id = self.id(name)?;
        Ok(self.files.entry(id).or_default())
    }

    fn change_name(&mut self, name: FileName, file: Option<u64>) {
        match file {
            Some(id) => self.names.insert(name, id),
            None => self.names.remove(&name),
        };
        let change = NameChange { at: self.clock, kind: name.kind, name, file, is_second_half: false };
        self.pending_names.push(change);
    }

    fn crash(&mut self, temper: Temper) {
        self.faults = Faults::default();
        self.planned.clear();
        self.power = None;
        if temper == Temper::Kill {
            return;
        }
        let moment = self.dice.between(0, self.clock);
        let mut survives = false;
        for change in std::mem::take(&mut self.pending_names) {
            survives = match temper {
                Temper::Kill | Temper::LoseAll => false,
                Temper::Prefix => change.at <= moment,
                Temper::Scatter if change.is_second_half => survives,
                Temper::Scatter => self.dice.one_in(2),
            };
            match change.file.filter(|_| survives) {
                Some(id) => {
                    self.synced_names.insert(change.name, id);
                }
                None if survives => {
                    self.synced_names.remove(&change.name);
                }
                None => {}
            }
        }
        self.names = self.synced_names.clone();
        for file in self.files.values_mut() {
            file.crash(temper, moment, &mut self.dice);
        }
        let live: BTreeSet<u64> = self.names.values().copied().collect();
        self.files.retain(|id, _| live.contains(id));
    }
}

impl File {
    fn write(&mut self, at: u64, offset: u64, bytes: &[u8]) {
        let mut offset = offset;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (index, start) = (offset / SECTOR as u64, offset as usize % SECTOR);
            let (part, later) = rest.split_at(rest.len().min(SECTOR - start));
            let mut sector = self.now.get(&index).map_or([0; SECTOR], |sector| **sector);
            sector[start..start + part.len()].copy_from_slice(part);
            let sector = Arc::new(sector);
            self.now.insert(index, sector.clone());
            self.pending.push((at, index, sector));
            self.bad.remove(&index);
            offset += part.len() as u64;
            rest = later;
        }
        self.len = self.len.max(offset);
    }

    fn truncate(&mut self, len: u64) {
        self.len = self.len.min(len);
        self.synced_len = self.synced_len.map(|synced| synced.min(len));
        for sectors in [&mut self.now, &mut self.synced] {
            sectors.retain(|index, _| index * (SECTOR as u64) < len);
        }
    }

    fn sync(&mut self) {
        for (_, index, sector) in self.pending.drain(..) {
            self.synced.insert(index, sector);
        }
        self.synced_len = Some(self.len);
    }

    fn crash(&mut self, temper: Temper, moment: u64, dice: &mut Random) {
        let mut len = match self.synced_len {
            Some(len) => len,
            None if temper != Temper::LoseAll && dice.one_in(2) => self.len,
            None => 0,
        };
        // Scatter: a sector may end as any of its versions, not only as the last that survived.
        if temper == Temper::Scatter {
            for at in (1..self.pending.len()).rev() {
                self.pending.swap(at, dice.below(at as u64 + 1) as usize);
            }
        }
        for (at, index, sector) in std::mem::take(&mut self.pending) {
            let survives = match temper {
                Temper::Kill | Temper::LoseAll => false,
                Temper::Prefix => at < moment || (at == moment && dice.one_in(2)),
                Temper::Scatter => dice.one_in(2),
            };
            if survives {
                let end = (index + 1) * SECTOR as u64;
                len = len.max(end.min(self.len));
                self.synced.insert(index, sector);
            }
        }
        self.now = self.synced.clone();
        self.len = len;
        self.synced_len = Some(len);
        self.now.retain(|index, _| index * (SECTOR as u64) < len);
        self.synced.retain(|index, _| index * (SECTOR as u64) < len);
    }
}

impl Disk for FaultyDisk {
    fn create(&self, file: FileName, len: u64) -> Result<(), DiskError> {
        let mut state = self.state();
        if state.names.contains_key(&file) {
            return Err(DiskError::Exists);
        }
        if let Some(fault) = state.fault(Call::Create) {
            return Err(fault.error());
        }
        if state.used().saturating_add(len) > state.capacity {
            return Err(DiskError::NoSpace);
        }
        let id = state.next_file;
        state.next_file += 1;
        state.files.insert(id, File { len, ..File::default() });
        state.change_name(file, Some(id));
        Ok(())
    }

    fn len(&self, file: FileName) -> Result<u64, DiskError> {
        self.state().file(file).map(|file| file.len)
    }

    fn list(&self, kind: FileKind) -> Result<Vec<FileName>, DiskError> {
        Ok(self.state().names.keys().copied().filter(|name| name.kind == kind).collect())
    }

    fn read_at(&self, file: FileName, offset: u64, into: &mut [u8]) -> Result<usize, DiskError> {
        let mut state = self.state();
        state.id(file)?;
        if let Some(fault) = state.fault(Call::Read) {
            return Err(fault.error());
        }
        let file = state.file(file)?;
        let len = file.len.saturating_sub(offset).min(into.len() as u64) as usize;
        let mut done = 0;
        while done < len {
            let at = offset + done as u64;
            let (index, start) = (at / SECTOR as u64, at as usize % SECTOR);
            if file.bad.contains(&index) {
                return Err(DiskError::Io(5));
            }
            let part = (SECTOR - start).min(len - done);
            match file.now.get(&index) {
                Some(sector) => into[done..done + part].copy_from_slice(&sector[start..start + part]),
                None => into[done..done + part].fill(0),
            }
            done += part;
        }
        Ok(len)
    }

    fn write_at(&self, file: FileName, offset: u64, pieces: &[IoSlice<'_>]) -> Result<(), DiskError> {
        let mut state = self.state();
        state.id(file)?;
        let fault = state.fault(Call::Write);
        let used = state.used();
        let (capacity, at) = (state.capacity, state.clock);
        let bytes: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
        let grows = (offset + bytes.len() as u64).saturating_sub(state.file(file)?.len);
        let is_full = used.saturating_add(grows) > capacity;
        let fault = fault.or(is_full.then_some(Fault::Error(DiskError::NoSpace)));
        // A write that fails has written some of its front.
        let written = match fault {
            None | Some(Fault::Dying) => bytes.len(),
            Some(Fault::Dead) => 0,
            Some(_) if is_full => 0,
            Some(_) => state.dice.between(0, bytes.len() as u64) as usize / SECTOR * SECTOR,
        };
        state.file(file)?.write(at, offset, &bytes[..written]);
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn sync(&self, file: FileName) -> Result<(), DiskError> {
        let mut state = self.state();
        state.id(file)?;
        let fault = state.fault(Call::Sync);
        let file = state.file(file)?;
        match fault {
            None => file.sync(),
            Some(Fault::Error(_)) => file.pending.clear(),
            Some(Fault::Dying | Fault::Dead) => {}
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn sync_folder(&self, kind: FileKind) -> Result<(), DiskError> {
        let mut state = self.state();
        let fault = state.fault(Call::SyncFolder);
        if let Some(Fault::Dying | Fault::Dead) = fault {
            return Err(DiskError::Io(5));
        }
        let folder = kind.folder();
        let (in_folder, elsewhere): (Vec<NameChange>, Vec<NameChange>) =
            std::mem::take(&mut state.pending_names)
                .into_iter()
                .partition(|change| change.kind.folder() == folder);
        state.pending_names = elsewhere;
        if let Some(fault) = fault {
            return Err(fault.error());
        }
        for change in in_folder {
            match change.file {
                Some(id) => state.synced_names.insert(change.name, id),
                None => state.synced_names.remove(&change.name),
            };
        }
        Ok(())
    }

    fn rename(&self, from: FileName, to: FileName) -> Result<(), DiskError> {
        let mut state = self.state();
        let id = state.id(from)?;
        if let Some(fault) = state.fault(Call::Rename) {
            return Err(fault.error());
        }
        state.change_name(to, Some(id));
        state.change_name(from, None);
        if let Some(second) = state.pending_names.last_mut() {
            second.is_second_half = from.kind.folder() == to.kind.folder();
        }
        Ok(())
    }

    fn remove(&self, file: FileName) -> Result<(), DiskError> {
        let mut state = self.state();
        state.id(file)?;
        if let Some(fault) = state.fault(Call::Remove) {
            return Err(fault.error());
        }
        state.change_name(file, None);
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let state = self.state();
        Ok(state.capacity.saturating_sub(state.used()))
    }
}
