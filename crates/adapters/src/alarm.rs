//! The alarm that holds, and the word of it that publishers get.

/// A resource there is too little of: while that lasts publishers are blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alarm {
    /// Memory.
    Memory,
    /// Free disk.
    Disk,
    /// Both.
    MemoryAndDisk,
}

impl Alarm {
    /// The alarm that holds, if any of the two does.
    pub fn of(memory: bool, disk: bool) -> Option<Alarm> {
        match (memory, disk) {
            (false, false) => None,
            (true, false) => Some(Alarm::Memory),
            (false, true) => Some(Alarm::Disk),
            (true, true) => Some(Alarm::MemoryAndDisk),
        }
    }

    /// The reason that blocked publishers are told, in RabbitMQ's words.
    pub fn reason(self) -> &'static str {
        match self {
            Alarm::Memory => "low on memory",
            Alarm::Disk => "low on disk",
            Alarm::MemoryAndDisk => "low on disk & memory",
        }
    }

    /// Whether disk is among the resources that are low.
    pub fn is_of_disk(self) -> bool {
        self != Alarm::Memory
    }
}
