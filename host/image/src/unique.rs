//! Names that were shortened and must not collide, in time that does not grow with how many are alike.

use std::collections::{BTreeMap, BTreeSet};

/// Numbers up to this one are tried afresh for each name, so that few collisions give small numbers.
const SMALL: u32 = 9;

/// The names of one directory so far.
pub(crate) struct Taken<N> {
    names: BTreeSet<N>,
    /// The next number to try, by the part that all names with large numbers share.
    next: BTreeMap<N, u32>,
}

impl<N> Default for Taken<N> {
    fn default() -> Self {
        Self {
            names: BTreeSet::new(),
            next: BTreeMap::new(),
        }
    }
}

impl<N: Ord + Clone> Taken<N> {
    /// Takes a name; `false` if it is taken already.
    pub(crate) fn take(&mut self, name: N) -> bool {
        self.names.insert(name)
    }

    /// Takes the first free one of the numbered names that `name` makes. `stem` is what of it even the largest number leaves.
    pub(crate) fn take_numbered(&mut self, stem: N, name: impl Fn(u32) -> N) -> N {
        for number in 1..=SMALL {
            let name = name(number);
            if self.names.insert(name.clone()) {
                return name;
            }
        }
        let next = self.next.entry(stem).or_insert(SMALL + 1);
        loop {
            let name = name(*next);
            *next += 1;
            if self.names.insert(name.clone()) {
                return name;
            }
        }
    }
}
