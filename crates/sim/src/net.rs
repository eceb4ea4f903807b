//! The network between clients and the node: bytes under way in both directions, in order, lost only with their line.

/// A connection's bytes under way.
#[derive(Debug, Default)]
pub struct Line {
    /// From the client, not yet read by the node.
    pub up: Vec<u8>,
    /// The client will send no more: the node reads the end behind what is under way.
    pub up_ended: bool,
    /// From the node, not yet read by the client.
    pub down: Vec<u8>,
    /// The node will send no more.
    pub down_ended: bool,
    /// The node at its end.
    pub home: usize,
}

/// All lines there ever were, by number.
#[derive(Debug, Default)]
pub struct Net {
    lines: Vec<Line>,
}

impl Net {
    /// The number of a new line to a node.
    pub fn open(&mut self, home: usize) -> usize {
        self.lines.push(Line { home, ..Line::default() });
        self.lines.len() - 1
    }

    /// A line.
    pub fn line(&mut self, number: usize) -> &mut Line {
        &mut self.lines[number]
    }

    /// The node went down: nothing that is under way arrives, at neither end.
    pub fn cut_all(&mut self, home: usize) {
        for line in self.lines.iter_mut().filter(|line| line.home == home) {
            *line = Line { up_ended: true, down_ended: true, home, ..Line::default() };
        }
    }

    /// Bytes under way on lines that the other end still reads.
    pub fn under_way(&self) -> usize {
        let up = self.lines.iter().filter(|line| !line.down_ended).map(|line| line.up.len());
        let down = self.lines.iter().filter(|line| !line.up_ended).map(|line| line.down.len());
        up.sum::<usize>() + down.sum::<usize>()
    }
}
