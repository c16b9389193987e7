//! Sets of ids that are cheap to copy. Dataflow analyses keep one per jump target and join them where control flow
//! merges.
//!
//! A set is a list of copy-on-write bit chunks. Cloning takes constant time, the first change of a clone takes time
//! proportional to the number of chunks, and a join processes only the chunks that differ.

use std::marker::PhantomData;
use std::rc::Rc;

use super::arena::Id;

/// Number of words in a chunk, which covers 4096 ids.
const WORDS: usize = 64;
/// Number of bits in a word.
const BITS: usize = 64;

type WordChunk = [u64; WORDS];

/// A set of ids of an arena.
pub struct IdSet<T> {
    chunks: Rc<Vec<Option<Rc<WordChunk>>>>,
    phantom: PhantomData<fn() -> T>,
}

impl<T> Default for IdSet<T> {
    fn default() -> Self {
        IdSet { chunks: Rc::default(), phantom: PhantomData }
    }
}

impl<T> Clone for IdSet<T> {
    fn clone(&self) -> Self {
        IdSet { chunks: self.chunks.clone(), phantom: PhantomData }
    }
}

/// Returns the indices of an id's chunk and word, and its bit mask.
fn place<T>(id: Id<T>) -> (usize, usize, u64) {
    let index = id.index();
    (index / (WORDS * BITS), index / BITS % WORDS, 1 << (index % BITS))
}

impl<T> IdSet<T> {
    pub fn contains(&self, id: Id<T>) -> bool {
        let (chunk, word, bit) = place(id);
        self.chunks.get(chunk).and_then(Option::as_ref).is_some_and(|chunk| chunk[word] & bit != 0)
    }

    pub fn insert(&mut self, id: Id<T>) {
        if self.contains(id) {
            return;
        }
        let (chunk, word, bit) = place(id);
        let chunks = Rc::make_mut(&mut self.chunks);
        if chunks.len() <= chunk {
            chunks.resize(chunk + 1, None);
        }
        let chunk = chunks[chunk].get_or_insert_with(|| Rc::new([0; WORDS]));
        Rc::make_mut(chunk)[word] |= bit;
    }

    /// Removes an id; returns whether the set contained it.
    pub fn remove(&mut self, id: Id<T>) -> bool {
        let was_present = self.contains(id);
        let (chunk, word, bit) = place(id);
        if was_present && let Some(Some(chunk)) = Rc::make_mut(&mut self.chunks).get_mut(chunk) {
            Rc::make_mut(chunk)[word] &= !bit;
        }
        was_present
    }

    /// Adds all ids of another set.
    pub fn join(&mut self, other: &IdSet<T>) {
        if Rc::ptr_eq(&self.chunks, &other.chunks) {
            return;
        }
        if self.chunks.is_empty() {
            *self = other.clone();
            return;
        }
        let chunks = Rc::make_mut(&mut self.chunks);
        if chunks.len() < other.chunks.len() {
            chunks.resize(other.chunks.len(), None);
        }
        for (own, theirs) in chunks.iter_mut().zip(other.chunks.iter()) {
            match (own, theirs) {
                (own @ None, theirs) => own.clone_from(theirs),
                (Some(own), Some(theirs)) if !Rc::ptr_eq(own, theirs) => {
                    let words = Rc::make_mut(own);
                    words.iter_mut().zip(theirs.iter()).for_each(|(own, theirs)| *own |= theirs);
                }
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn copies_change_independently() {
        let mut one = IdSet::<u8>::default();
        one.insert(Id::new(3));
        let mut two = one.clone();
        two.insert(Id::new(9000));
        assert!(two.remove(Id::new(3)) && !two.remove(Id::new(4)));
        assert!(one.contains(Id::new(3)) && !one.contains(Id::new(9000)));
        assert!(!two.contains(Id::new(3)) && two.contains(Id::new(9000)));
    }

    /// Compares random operations with the same operations on a `BTreeSet`.
    #[test]
    fn operations_agree_with_btree_sets() {
        let mut sets: Vec<(IdSet<u8>, BTreeSet<usize>)> = vec![Default::default(); 3];
        let mut state = 1u64;
        let mut random = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % n
        };
        for _ in 0..5000 {
            let (slot, id) = (random(3), random(13_000));
            match random(5) {
                0 | 1 => {
                    sets[slot].0.insert(Id::new(id));
                    sets[slot].1.insert(id);
                }
                2 => assert_eq!(sets[slot].0.remove(Id::new(id)), sets[slot].1.remove(&id)),
                3 => sets[slot] = sets[random(3)].clone(),
                _ => {
                    let (other, model) = sets[random(3)].clone();
                    sets[slot].0.join(&other);
                    sets[slot].1.extend(model);
                }
            }
            for (set, model) in &sets {
                assert!((0..50).all(|i| set.contains(Id::new(i * 260)) == model.contains(&(i * 260))));
                assert_eq!(set.contains(Id::new(id)), model.contains(&id));
            }
        }
    }
}
