//! Typed ids, arenas and side tables. Graphs are stored as vectors whose nodes refer to each other by id.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;
use std::ops::{Index, IndexMut};

/// The index of a `T` in its [`Arena`].
pub struct Id<T> {
    raw: u32,
    phantom: PhantomData<fn() -> T>,
}

impl<T> Id<T> {
    /// Creates the id with this index. It is valid only for an arena with more than `index` items.
    pub fn new(index: usize) -> Self {
        Id { raw: u32::try_from(index).expect("arena of fewer than 2^32 items"), phantom: PhantomData }
    }

    pub fn index(self) -> usize {
        self.raw as usize
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.raw == other.raw
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.raw.cmp(&other.raw)
    }
}
impl<T> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.raw.hash(state);
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.raw)
    }
}

/// A growing list indexed by typed ids.
#[derive(Clone, Debug, PartialEq)]
pub struct Arena<T> {
    items: Vec<T>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Arena { items: Vec::new() }
    }
}

impl<T> Arena<T> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn push(&mut self, item: T) -> Id<T> {
        let id = Id::new(self.items.len());
        self.items.push(item);
        id
    }

    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn get(&self, id: Id<T>) -> Option<&T> {
        self.items.get(id.index())
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Id<T>, &T)> + ExactSizeIterator {
        self.items.iter().enumerate().map(|(i, item)| (Id::new(i), item))
    }

    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (Id<T>, &mut T)> {
        self.items.iter_mut().enumerate().map(|(i, item)| (Id::new(i), item))
    }

    pub fn ids(&self) -> impl DoubleEndedIterator<Item = Id<T>> + use<T> {
        (0..self.items.len()).map(Id::new)
    }

    /// Drops all but the first `len` items, for instance those that a failed REPL entry added.
    pub fn truncate(&mut self, len: usize) {
        self.items.truncate(len);
    }
}

impl<T> Index<Id<T>> for Arena<T> {
    type Output = T;
    fn index(&self, id: Id<T>) -> &T {
        &self.items[id.index()]
    }
}
impl<T> IndexMut<Id<T>> for Arena<T> {
    fn index_mut(&mut self, id: Id<T>) -> &mut T {
        &mut self.items[id.index()]
    }
}

/// A side table: one value for each item of an arena of `K`.
#[derive(Clone, Debug, PartialEq)]
pub struct SideTable<K, V> {
    values: Vec<V>,
    phantom: PhantomData<fn() -> K>,
}

impl<K, V: Clone> SideTable<K, V> {
    /// Creates a table with `value` for each item that `arena` contains now.
    pub fn filled(arena: &Arena<K>, value: V) -> Self {
        SideTable { values: vec![value; arena.len()], phantom: PhantomData }
    }
}

impl<K, V> Default for SideTable<K, V> {
    fn default() -> Self {
        SideTable { values: Vec::new(), phantom: PhantomData }
    }
}

impl<K, V> SideTable<K, V> {
    /// Appends the value of the item last pushed to the arena. Every push to the arena needs one push to the table.
    pub fn push(&mut self, value: V) {
        self.values.push(value);
    }

    pub fn len(&self) -> usize {
        self.values.len()
    }

    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

impl<K, V> Index<Id<K>> for SideTable<K, V> {
    type Output = V;
    fn index(&self, id: Id<K>) -> &V {
        &self.values[id.index()]
    }
}
impl<K, V> IndexMut<Id<K>> for SideTable<K, V> {
    fn index_mut(&mut self, id: Id<K>) -> &mut V {
        &mut self.values[id.index()]
    }
}
