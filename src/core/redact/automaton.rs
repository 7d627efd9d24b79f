//! Aho-Corasick over bytes, written here because a stream needs the depth of a state: how much of the text so far may still become a
//! match decides how little has to be held back, and the published crate keeps that to itself.

const ROOT: u32 = 0;
const NONE: u32 = u32::MAX;

/// One state. Children hang in a linked list: most states have exactly one.
#[derive(Debug, Clone, Copy)]
struct Node {
    first_child: u32,
    sibling: u32,
    /// The state of the longest proper suffix that is a prefix of some pattern.
    fail: u32,
    depth: u32,
    /// Length of the longest pattern that ends here, 0 for none.
    ends: u32,
    byte: u8,
}

#[derive(Debug)]
pub(super) struct Automaton {
    nodes: Vec<Node>,
    /// The root is left with most bytes, so its children are a table.
    root: Box<[u32; 256]>,
    longest: usize,
    used: usize,
}

impl Default for Automaton {
    fn default() -> Self {
        let root = Node { first_child: NONE, sibling: NONE, fail: ROOT, depth: 0, ends: 0, byte: 0 };
        Self { nodes: vec![root], root: Box::new([NONE; 256]), longest: 0, used: 0 }
    }
}

impl Automaton {
    /// Adds a pattern, unless all patterns together would then be longer than `budget`.
    pub(super) fn insert(&mut self, pattern: &[u8], budget: usize) -> bool {
        if self.used + pattern.len() > budget {
            return false;
        }
        self.used += pattern.len();
        self.longest = self.longest.max(pattern.len());
        let mut at = ROOT;
        for byte in pattern {
            at = match self.child(at, *byte) {
                NONE => self.grow(at, *byte),
                child => child,
            };
        }
        let node = &mut self.nodes[at as usize];
        node.ends = node.depth;
        true
    }

    fn grow(&mut self, parent: u32, byte: u8) -> u32 {
        let depth = self.nodes[parent as usize].depth + 1;
        let sibling = self.nodes[parent as usize].first_child;
        let new = u32::try_from(self.nodes.len()).expect("the budget of patterns is far below 2^32 states");
        self.nodes.push(Node { first_child: NONE, sibling, fail: ROOT, depth, ends: 0, byte });
        self.nodes[parent as usize].first_child = new;
        if parent == ROOT {
            self.root[usize::from(byte)] = new;
        }
        new
    }

    /// Computes the suffix links, breadth first. Call once, after the last `insert`.
    pub(super) fn link(&mut self) {
        let mut queue = std::collections::VecDeque::from([ROOT]);
        while let Some(parent) = queue.pop_front() {
            let mut child = self.nodes[parent as usize].first_child;
            while child != NONE {
                let byte = self.nodes[child as usize].byte;
                let fail = if parent == ROOT { ROOT } else { self.next(self.nodes[parent as usize].fail, byte) };
                let inherited = self.nodes[fail as usize].ends;
                let node = &mut self.nodes[child as usize];
                node.fail = fail;
                node.ends = node.ends.max(inherited);
                queue.push_back(child);
                child = node.sibling;
            }
        }
    }

    pub(super) fn longest(&self) -> usize {
        self.longest
    }

    pub(super) fn start(&self) -> u32 {
        ROOT
    }

    pub(super) fn next(&self, mut state: u32, byte: u8) -> u32 {
        loop {
            match self.child(state, byte) {
                NONE if state == ROOT => return ROOT,
                NONE => state = self.nodes[state as usize].fail,
                child => return child,
            }
        }
    }

    /// How many of the last bytes may be the beginning of a match.
    pub(super) fn depth(&self, state: u32) -> usize {
        self.nodes[state as usize].depth as usize
    }

    /// How many of the last bytes are a match, 0 for none.
    pub(super) fn ends(&self, state: u32) -> usize {
        self.nodes[state as usize].ends as usize
    }

    /// How many bytes from the front of `bytes` leave the root where it is.
    pub(super) fn skip(&self, bytes: &[u8]) -> usize {
        bytes.iter().position(|byte| self.root[usize::from(*byte)] != NONE).unwrap_or(bytes.len())
    }

    fn child(&self, state: u32, byte: u8) -> u32 {
        if state == ROOT {
            return self.root[usize::from(byte)];
        }
        let mut child = self.nodes[state as usize].first_child;
        while child != NONE && self.nodes[child as usize].byte != byte {
            child = self.nodes[child as usize].sibling;
        }
        child
    }
}
