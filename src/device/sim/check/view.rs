//! What a thread knows of others: maps that share what they have in common.
//!
//! A [`View`] says up to which time everything that a thread, a warp or a block did is ordered before a point. Views grow
//! along chains of releases, each a little more than the one before, and are kept by many threads at once: a [`Map`] is a
//! tree that is never changed where others hold it, so that a copy costs nothing, an entry a few nodes, and joining two costs what
//! they differ in.

use std::sync::Arc;

/// From keys to times; absent ones are 0. Times only grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    root: Option<Arc<Node>>,
    /// The root holds keys that begin with this and go on with `level + 1` digits.
    prefix: u64,
    level: u32,
}

const DIGIT: u32 = 4;
const FAN: usize = 1 << DIGIT;

#[derive(Clone, Debug)]
enum Node {
    Inner([Option<Arc<Node>>; FAN]),
    Leaf([u64; FAN]),
}

fn digit(key: u64, level: u32) -> usize {
    (key >> (DIGIT * level)) as usize % FAN
}

fn prefix_of(key: u64, level: u32) -> u64 {
    key.checked_shr(DIGIT * (level + 1)).unwrap_or(0)
}

impl Map {
    pub fn is_empty(&self) -> bool {
        self.root.is_none()
    }

    /// Whether they are one and the same, as far as that can be told at once.
    pub fn is(&self, other: &Map) -> bool {
        match (&self.root, &other.root) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }

    pub fn get(&self, key: u64) -> u64 {
        let Some(root) = &self.root else { return 0 };
        if prefix_of(key, self.level) != self.prefix {
            return 0;
        }
        let (mut node, mut level) = (&**root, self.level);
        loop {
            match node {
                Node::Leaf(times) => return times[digit(key, 0)],
                Node::Inner(children) => match &children[digit(key, level)] {
                    Some(child) => (node, level) = (child, level - 1),
                    None => return 0,
                },
            }
        }
    }

    /// The entry becomes this time if it was less.
    pub fn raise(&mut self, key: u64, time: u64) {
        if time == 0 || self.get(key) >= time {
            return;
        }
        if self.root.is_none() {
            (self.prefix, self.level) = (prefix_of(key, 0), 0);
            self.root = Some(Arc::new(Node::Leaf([0; FAN])));
        }
        while prefix_of(key, self.level) != self.prefix {
            self.grow();
        }
        if let Some(root) = &mut self.root {
            raise(root, self.level, key, time);
        }
    }

    /// One level more.
    fn grow(&mut self) {
        let mut children: [Option<Arc<Node>>; FAN] = Default::default();
        children[self.prefix as usize % FAN] = self.root.take();
        self.root = Some(Arc::new(Node::Inner(children)));
        self.prefix >>= DIGIT;
        self.level += 1;
    }

    /// Takes in another one; whether that brought anything.
    pub fn join(&mut self, other: &Map) -> bool {
        if other.root.is_none() || self.is(other) {
            return false;
        }
        if self.root.is_none() {
            *self = other.clone();
            return true;
        }
        let mut other = other.clone();
        while self.level < other.level {
            self.grow();
        }
        while other.level < self.level {
            other.grow();
        }
        while self.prefix != other.prefix {
            self.grow();
            other.grow();
        }
        let (Some(a), Some(b)) = (&self.root, &other.root) else { return false };
        let joined = match join(a, b) {
            Joined::First => return false,
            Joined::Second => b.clone(),
            Joined::New(both) => both,
        };
        self.root = Some(joined);
        true
    }
}

fn raise(node: &mut Arc<Node>, level: u32, key: u64, time: u64) {
    match Arc::make_mut(node) {
        Node::Leaf(times) => times[digit(key, 0)] = time,
        Node::Inner(children) => {
            let empty = || match level {
                1 => Arc::new(Node::Leaf([0; FAN])),
                _ => Arc::new(Node::Inner(Default::default())),
            };
            raise(children[digit(key, level)].get_or_insert_with(empty), level - 1, key, time);
        }
    }
}

/// What joining two nodes gives.
enum Joined {
    /// The first itself, to which the second brings nothing,
    First,
    /// or the other way round.
    Second,
    New(Arc<Node>),
}

/// Both, of one level. Nothing is copied where one of them has all that the other has.
fn join(a: &Arc<Node>, b: &Arc<Node>) -> Joined {
    if Arc::ptr_eq(a, b) {
        return Joined::First;
    }
    match (&**a, &**b) {
        (Node::Leaf(x), Node::Leaf(y)) => {
            let times: [u64; FAN] = std::array::from_fn(|i| x[i].max(y[i]));
            match (times == *x, times == *y) {
                (true, _) => Joined::First,
                (_, true) => Joined::Second,
                _ => Joined::New(Arc::new(Node::Leaf(times))),
            }
        }
        (Node::Inner(x), Node::Inner(y)) => join_inner(x, y),
        // Nodes of one level are of one kind.
        _ => Joined::First,
    }
}

type Children = [Option<Arc<Node>>; FAN];

fn join_inner(x: &Children, y: &Children) -> Joined {
    let mut new: Option<Children> = None;
    let mut is_second = true;
    for (i, (p, q)) in x.iter().zip(y).enumerate() {
        let child = match (p, q) {
            (_, None) => {
                is_second &= p.is_none();
                continue;
            }
            (None, Some(q)) => q.clone(),
            (Some(p), Some(q)) if Arc::ptr_eq(p, q) => continue,
            (Some(p), Some(q)) => match join(p, q) {
                Joined::First => {
                    is_second = false;
                    continue;
                }
                Joined::Second => q.clone(),
                Joined::New(both) => {
                    is_second = false;
                    both
                }
            },
        };
        new.get_or_insert_with(|| x.clone())[i] = Some(child);
    }
    match new {
        None => Joined::First,
        Some(_) if is_second => Joined::Second,
        Some(children) => Joined::New(Arc::new(Node::Inner(children))),
    }
}

/// What is ordered before a point in the life of a thread, beside what its block's barriers order.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// By [`block`], [`warp`] and [`thread`]: what they did at times below.
    times: Map,
    /// By variable: atomic operations on it up to this version.
    versions: Map,
}

/// Keys of one block lie side by side: the block, its threads, its warps.
const KEYS: u64 = 2048;

pub(crate) fn block(group: u64) -> u64 {
    group * KEYS
}

pub(crate) fn thread(group: u64, lane: usize) -> u64 {
    group * KEYS + 1 + lane as u64
}

pub(crate) fn warp(group: u64, warp: usize) -> u64 {
    group * KEYS + 1056 + warp as u64
}

impl View {
    pub fn is_empty(&self) -> bool {
        self.times.is_empty() && self.versions.is_empty()
    }

    pub fn is(&self, other: &View) -> bool {
        self.times.is(&other.times) && self.versions.is(&other.versions)
    }

    pub fn time(&self, key: u64) -> u64 {
        self.times.get(key)
    }

    pub fn raise(&mut self, key: u64, time: u64) {
        self.times.raise(key, time);
    }

    pub fn version(&self, variable: u64) -> u64 {
        self.versions.get(variable)
    }

    pub fn raise_version(&mut self, variable: u64, version: u64) {
        self.versions.raise(variable, version);
    }

    pub fn join(&mut self, other: &View) -> bool {
        let times = self.times.join(&other.times);
        self.versions.join(&other.versions) | times
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::tests::Dice;
    use super::*;
    use std::collections::BTreeMap;

    fn key(dice: &mut Dice) -> u64 {
        let far = [0, 0, 1 << 9, 1 << 30, 1 << 60][dice.below(5) as usize];
        far + dice.below(40) * [1, 17, 2048][dice.below(3) as usize]
    }

    #[test]
    fn maps_hold_the_largest_of_what_was_put_in_and_joined() {
        let mut dice = Dice(5);
        let mut all: Vec<(Map, BTreeMap<u64, u64>)> = vec![Default::default(); 6];
        for _ in 0..40_000 {
            let (at, from) = (dice.below(6) as usize, dice.below(6) as usize);
            match dice.below(8) {
                0 => all[at] = Default::default(),
                1 | 2 => {
                    let (map, model) = all[from].clone();
                    let before = all[at].1.clone();
                    let changed = all[at].0.join(&map);
                    for (&k, &time) in &model {
                        let old = all[at].1.entry(k).or_default();
                        *old = (*old).max(time);
                    }
                    assert_eq!(changed, before != all[at].1);
                }
                _ => {
                    let (k, time) = (key(&mut dice), 1 + dice.below(50));
                    all[at].0.raise(k, time);
                    let old = all[at].1.entry(k).or_default();
                    *old = (*old).max(time);
                }
            }
            let (map, model) = &all[at];
            let k = key(&mut dice);
            assert_eq!(map.get(k), model.get(&k).copied().unwrap_or(0));
            assert!(model.iter().all(|(&k, &time)| map.get(k) == time));
        }
    }

    #[test]
    fn what_brings_nothing_changes_nothing() {
        let (mut a, mut b) = (Map::default(), Map::default());
        for k in 0..1000 {
            a.raise(k * 7, k + 1);
        }
        b.join(&a);
        assert!(a.is(&b));
        b.raise(70, 500);
        assert!(!a.is(&b) && !b.join(&a));
        assert!(a.join(&b) && a.is(&b));
    }
}
