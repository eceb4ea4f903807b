//! Places in the body of a message, and many of them as one tree by which a body is read once.

/// Steps of one path at most.
pub const STEPS_MAX: usize = 32;

/// A place in a body: the steps that lead there from its outermost value, one to [`STEPS_MAX`].
///
/// Lists are lax, as in SQL/JSON (ISO 9075-2 section 9.46): a step by name at a list goes to the members of each of its
/// elements, and a path that ends at a list has the values of its elements.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Path {
    steps: Vec<Step>,
}

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// To the member of a map with this name.
    Name(String),
    /// To the element of a list at this place, counted from 0, or to the member of a map with this number.
    Number(u32),
    /// To every element of a list; what is no list is one element.
    Each,
}

impl Path {
    /// A path of these steps; none of no steps, or of more than [`STEPS_MAX`].
    pub fn new(steps: Vec<Step>) -> Option<Path> {
        (1..=STEPS_MAX).contains(&steps.len()).then_some(Path { steps })
    }

    /// Bytes it keeps on the heap.
    pub(crate) fn memory(&self) -> usize {
        let name = |step: &Step| match step {
            Step::Name(name) => name.capacity(),
            Step::Number(_) | Step::Each => 0,
        };
        self.steps.capacity() * size_of::<Step>() + self.steps.iter().map(name).sum::<usize>()
    }

    /// Its steps, from the outermost value on.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

/// The paths that a reader wants, as a tree: what they have in common is looked for once.
#[derive(Clone, Debug)]
pub struct Paths {
    nodes: Vec<Node>,
    /// Nodes that no path leads to any more.
    free_nodes: Vec<usize>,
    slots: usize,
    /// Slots whose paths were removed.
    free_slots: Vec<usize>,
}

/// A value that paths lead to or through.
#[derive(Clone, Debug, Default)]
pub(crate) struct Node {
    /// Members by name, in its order.
    pub(crate) names: Vec<(Box<[u8]>, usize)>,
    /// Elements by their place, or members by number, in its order.
    pub(crate) numbers: Vec<(u32, usize)>,
    /// All elements.
    pub(crate) each: Option<usize>,
    /// The slot of the path that ends here.
    pub(crate) slot: Option<usize>,
    /// Slots of all paths that end here or further on.
    pub(crate) below: Vec<usize>,
    /// Those of them that have several values where a list is here: all but those behind a place in the list.
    pub(crate) several: Vec<usize>,
}

/// Names of a node that are looked through one by one; more are searched.
const NAMES_FEW: usize = 8;

impl Node {
    /// Where among its names one stands.
    #[inline]
    pub(crate) fn named(&self, key: &[u8]) -> Option<usize> {
        if self.names.len() <= NAMES_FEW {
            return self.names.iter().position(|(name, _)| **name == *key);
        }
        self.names.binary_search_by(|(name, _)| (**name).cmp(key)).ok()
    }

    /// The node of an attribute of XML, whose name has an `@` before it here.
    #[inline]
    pub(crate) fn attribute(&self, name: &[u8]) -> Option<usize> {
        let of = |named: &[u8]| named.split_first().map(|(at, named)| (*at, named)).cmp(&Some((b'@', name)));
        let place = match self.names.len() <= NAMES_FEW {
            true => self.names.iter().position(|(named, _)| of(named).is_eq())?,
            false => self.names.binary_search_by(|(named, _)| of(named)).ok()?,
        };
        Some(self.names[place].1)
    }

    fn is_empty(&self) -> bool {
        self.below.is_empty()
    }
}

/// Where among the numbers of a node one stands.
#[inline]
pub(crate) fn numbered(numbers: &[(u32, usize)], number: u32) -> Option<usize> {
    numbers.binary_search_by_key(&number, |(number, _)| *number).ok()
}

impl Paths {
    /// The tree of paths; the place of each in the order given is its slot. Each is given once.
    pub fn new<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Paths {
        let mut tree =
            Paths { nodes: vec![Node::default()], free_nodes: Vec::new(), slots: 0, free_slots: Vec::new() };
        for path in paths {
            tree.insert(path);
        }
        tree
    }

    /// Adds a path that is not there, and says its slot: one that was given up before, otherwise a new one.
    pub(crate) fn insert(&mut self, path: &Path) -> usize {
        let slot = self.free_slots.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        let mut at = 0;
        for step in path.steps() {
            self.nodes[at].below.push(slot);
            if !matches!(step, Step::Number(_)) {
                self.nodes[at].several.push(slot);
            }
            at = self.child(at, step);
        }
        let node = &mut self.nodes[at];
        node.below.push(slot);
        node.several.push(slot);
        node.slot = Some(slot);
        slot
    }

    /// Takes a path out that is there; its slot is given to a path that comes later.
    pub(crate) fn remove(&mut self, path: &Path) {
        let mut way = vec![0];
        for step in path.steps() {
            let at = way[way.len() - 1];
            way.push(self.nodes[at].child(step).expect("a path that is there"));
        }
        let last = way[way.len() - 1];
        let slot = self.nodes[last].slot.take().expect("a path that is there");
        for (depth, at) in way.iter().enumerate().rev() {
            let node = &mut self.nodes[*at];
            node.below.retain(|below| *below != slot);
            node.several.retain(|several| *several != slot);
            if node.is_empty() && depth > 0 {
                self.nodes[*at] = Node::default();
                self.free_nodes.push(*at);
                self.nodes[way[depth - 1]].forget(&path.steps()[depth - 1]);
            }
        }
        self.free_slots.push(slot);
    }

    /// How many paths there are.
    pub(crate) fn len(&self) -> usize {
        self.slots - self.free_slots.len()
    }

    /// Slots of no path.
    pub(crate) fn free(&self) -> &[usize] {
        &self.free_slots
    }

    /// One more than the highest slot of a path.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Bytes it keeps on the heap.
    pub fn memory(&self) -> usize {
        let names = |node: &Node| node.names.iter().map(|(name, _)| name.len()).sum::<usize>();
        let of_node = |node: &Node| {
            names(node)
                + node.names.capacity() * size_of::<(Box<[u8]>, usize)>()
                + node.numbers.capacity() * size_of::<(u32, usize)>()
                + (node.below.capacity() + node.several.capacity()) * size_of::<usize>()
        };
        self.nodes.capacity() * size_of::<Node>()
            + (self.free_nodes.capacity() + self.free_slots.capacity()) * size_of::<usize>()
            + self.nodes.iter().map(of_node).sum::<usize>()
    }

    /// One more than the highest number of a node.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes.len()
    }

    /// The node of this number; that of the outermost value is 0.
    #[inline]
    pub(crate) fn node(&self, number: usize) -> &Node {
        &self.nodes[number]
    }

    /// The node that a step leads to, made if it is not there.
    fn child(&mut self, at: usize, step: &Step) -> usize {
        if let Some(child) = self.nodes[at].child(step) {
            return child;
        }
        let child = self.free_nodes.pop().unwrap_or_else(|| {
            self.nodes.push(Node::default());
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[at];
        match step {
            Step::Name(name) => {
                let place = node.names.partition_point(|(other, _)| **other < *name.as_bytes());
                node.names.insert(place, (name.as_bytes().into(), child));
            }
            Step::Number(number) => {
                let place = node.numbers.partition_point(|(other, _)| other < number);
                node.numbers.insert(place, (*number, child));
            }
            Step::Each => node.each = Some(child),
        }
        child
    }
}

impl Node {
    fn child(&self, step: &Step) -> Option<usize> {
        match step {
            Step::Name(name) => self.named(name.as_bytes()).map(|place| self.names[place].1),
            Step::Number(number) => numbered(&self.numbers, *number).map(|place| self.numbers[place].1),
            Step::Each => self.each,
        }
    }

    /// Nothing is where a step leads.
    fn forget(&mut self, step: &Step) {
        match step {
            Step::Name(name) => self.names.retain(|(other, _)| **other != *name.as_bytes()),
            Step::Number(number) => self.numbers.retain(|(other, _)| other != number),
            Step::Each => self.each = None,
        }
    }
}

/// The number that a key is in decimal digits, without zeros before it.
pub(crate) fn number_of(key: &[u8]) -> Option<u32> {
    let is_canonical = key.first().is_some_and(|first| *first != b'0' || key.len() == 1);
    if !is_canonical || key.len() > 10 || !key.iter().all(u8::is_ascii_digit) {
        return None;
    }
    u32::try_from(key.iter().fold(0u64, |sum, digit| sum * 10 + u64::from(digit - b'0'))).ok()
}
