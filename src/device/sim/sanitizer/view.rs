//! Views: what is ordered before a thread, as persistent maps that share structure.
//!
//! A [`View`] holds times up to which everything that a thread, a warp or a block did is ordered before a point, like a vector
//! clock. Views grow along chains of releases, each a little more than the one before, and many threads hold one at the same
//! time: a [`Map`] is an immutable tree with structural sharing, so that a copy is free, an update copies a few nodes, and a join
//! costs what the two differ in. The last few releases to a variable are not in the maps yet but in a [`Chain`] beside them:
//! where thousands of threads acquire and release one variable in turn, each of them adds a link, and only one in [`LINKS`]
//! updates the maps.

use std::sync::Arc;

/// A map from keys to times; absent ones are 0. Times only grow.
#[derive(Clone, Debug, Default)]
pub(crate) struct Map {
    root: Tree,
}

const DIGIT: u32 = 4;
const FAN: usize = 1 << DIGIT;

/// A radix tree with path compression: digits that only one key has, or that all keys share, have no nodes.
#[derive(Clone, Debug, Default)]
enum Tree {
    #[default]
    Empty,
    /// A key and its time.
    One(u64, u64),
    /// Keys that differ in the last digit.
    Leaf(Arc<Leaf>),
    Inner(Arc<Inner>),
}

#[derive(Clone, Debug)]
struct Leaf {
    prefix: u64,
    times: [u64; FAN],
}

/// At least two keys that share a prefix and differ in digit `level` or lower ones.
#[derive(Clone, Debug)]
struct Inner {
    prefix: u64,
    level: u32,
    children: [Tree; FAN],
}

fn digit(key: u64, level: u32) -> usize {
    (key >> (DIGIT * level)) as usize % FAN
}

fn prefix_of(key: u64, level: u32) -> u64 {
    key.checked_shr(DIGIT * (level + 1)).unwrap_or(0)
}

impl Map {
    const EMPTY: Map = Map { root: Tree::Empty };

    pub fn is_empty(&self) -> bool {
        matches!(self.root, Tree::Empty)
    }

    /// Returns whether both share one root, and so are equal (a fast, conservative test).
    pub fn is(&self, other: &Map) -> bool {
        self.root.is(&other.root)
    }

    pub fn get(&self, key: u64) -> u64 {
        self.root.get(key)
    }

    /// Raises the entry to this time, if it was less.
    pub fn raise(&mut self, key: u64, time: u64) {
        if self.get(key) < time {
            self.root.raise(key, time);
        }
    }

    /// Joins another map into this one; returns whether that changed it.
    pub fn join(&mut self, other: &Map) -> bool {
        match join(&self.root, &other.root) {
            Joined::First => return false,
            Joined::Second => self.root = other.root.clone(),
            Joined::New(both) => self.root = both,
        }
        true
    }
}

impl Tree {
    fn is(&self, other: &Tree) -> bool {
        match (self, other) {
            (Tree::Empty, Tree::Empty) => true,
            (Tree::One(k, t), Tree::One(key, time)) => (k, t) == (key, time),
            (Tree::Leaf(a), Tree::Leaf(b)) => Arc::ptr_eq(a, b),
            (Tree::Inner(a), Tree::Inner(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn get(&self, key: u64) -> u64 {
        let mut tree = self;
        loop {
            match tree {
                Tree::One(k, time) if *k == key => return *time,
                Tree::Leaf(leaf) if leaf.prefix == prefix_of(key, 0) => return leaf.times[digit(key, 0)],
                Tree::Inner(node) if node.prefix == prefix_of(key, node.level) => {
                    tree = &node.children[digit(key, node.level)];
                }
                _ => return 0,
            }
        }
    }

    /// Raises the key, whose time is lower so far. Nodes without other owners are changed in place.
    fn raise(&mut self, key: u64, time: u64) {
        match self {
            Tree::Empty => *self = Tree::One(key, time),
            Tree::One(k, t) if *k == key => *t = time,
            Tree::Leaf(leaf) if leaf.prefix == prefix_of(key, 0) => Arc::make_mut(leaf).times[digit(key, 0)] = time,
            Tree::Inner(node) if node.prefix == prefix_of(key, node.level) => {
                let node = Arc::make_mut(node);
                node.children[digit(key, node.level)].raise(key, time);
            }
            _ => *self = fork(std::mem::take(self), Tree::One(key, time)),
        }
    }

    /// Returns a key that the tree could hold, and the level below which its keys differ; `None` if it is empty.
    fn place(&self) -> Option<(u64, u32)> {
        match self {
            Tree::Empty => None,
            Tree::One(key, _) => Some((*key, 0)),
            Tree::Leaf(leaf) => Some((leaf.prefix << DIGIT, 1)),
            Tree::Inner(node) => Some((node.prefix.checked_shl(DIGIT * (node.level + 1)).unwrap_or(0), node.level + 1)),
        }
    }
}

/// Combines two trees neither of which could hold keys of the other.
fn fork(a: Tree, b: Tree) -> Tree {
    let (Some((key, _)), Some((other, _))) = (a.place(), b.place()) else {
        return if matches!(a, Tree::Empty) { b } else { a };
    };
    let level = (key ^ other).checked_ilog2().unwrap_or(0) / DIGIT;
    if let (0, Tree::One(k, t), Tree::One(key, time)) = (level, &a, &b) {
        let mut times = [0; FAN];
        (times[digit(*k, 0)], times[digit(*key, 0)]) = (*t, *time);
        return Tree::Leaf(Arc::new(Leaf { prefix: prefix_of(*k, 0), times }));
    }
    let mut children: [Tree; FAN] = Default::default();
    (children[digit(key, level)], children[digit(other, level)]) = (a, b);
    Tree::Inner(Arc::new(Inner { prefix: prefix_of(key, level), level, children }))
}

/// The result of joining two trees.
enum Joined {
    /// The first one, to which the second adds nothing.
    First,
    /// The second one, to which the first adds nothing.
    Second,
    New(Tree),
}

/// Joins two trees. Nothing is copied if one of them covers the other.
fn join(a: &Tree, b: &Tree) -> Joined {
    let raised = |tree: &Tree, key: u64, time: u64| {
        let mut tree = tree.clone();
        tree.raise(key, time);
        Joined::New(tree)
    };
    match (a, b) {
        _ if a.is(b) => Joined::First,
        (_, Tree::Empty) => Joined::First,
        (Tree::Empty, _) => Joined::Second,
        (_, &Tree::One(key, time)) if a.get(key) >= time => Joined::First,
        (&Tree::One(key, time), _) if b.get(key) >= time => Joined::Second,
        (_, &Tree::One(key, time)) => raised(a, key, time),
        (&Tree::One(key, time), _) => raised(b, key, time),
        (Tree::Leaf(x), Tree::Leaf(y)) if x.prefix == y.prefix => join_leaves(x, y),
        (Tree::Inner(x), Tree::Inner(y)) if (x.level, x.prefix) == (y.level, y.prefix) => join_inner(x, y),
        _ => join_apart(a, b),
    }
}

fn join_leaves(x: &Leaf, y: &Leaf) -> Joined {
    let times: [u64; FAN] = std::array::from_fn(|i| x.times[i].max(y.times[i]));
    match (times == x.times, times == y.times) {
        (true, _) => Joined::First,
        (_, true) => Joined::Second,
        _ => Joined::New(Tree::Leaf(Arc::new(Leaf { prefix: x.prefix, times }))),
    }
}

/// Joins two trees of several keys each that have different prefixes or levels.
fn join_apart(a: &Tree, b: &Tree) -> Joined {
    let (Some((key, level)), Some((other, other_level))) = (a.place(), b.place()) else { return Joined::First };
    match (a, b) {
        (Tree::Inner(x), _) if level > other_level && x.prefix == prefix_of(other, x.level) => {
            match join(&x.children[digit(other, x.level)], b) {
                Joined::First => Joined::First,
                Joined::Second => with_child(x, other, b.clone()),
                Joined::New(child) => with_child(x, other, child),
            }
        }
        (_, Tree::Inner(y)) if other_level > level && y.prefix == prefix_of(key, y.level) => {
            match join(a, &y.children[digit(key, y.level)]) {
                Joined::Second => Joined::Second,
                Joined::First => with_child(y, key, a.clone()),
                Joined::New(child) => with_child(y, key, child),
            }
        }
        _ => Joined::New(fork(a.clone(), b.clone())),
    }
}

/// Returns the node with another child at the digit of the key.
fn with_child(node: &Inner, key: u64, child: Tree) -> Joined {
    let mut node = node.clone();
    node.children[digit(key, node.level)] = child;
    Joined::New(Tree::Inner(Arc::new(node)))
}

/// Joins two nodes with the same prefix and level.
fn join_inner(x: &Inner, y: &Inner) -> Joined {
    let mut new: Option<Inner> = None;
    let mut is_second = true;
    for (i, (p, q)) in x.children.iter().zip(&y.children).enumerate() {
        if p.is(q) {
            continue;
        }
        let child = match join(p, q) {
            Joined::First => {
                is_second = false;
                continue;
            }
            Joined::Second => q.clone(),
            Joined::New(both) => {
                is_second = false;
                both
            }
        };
        new.get_or_insert_with(|| x.clone()).children[i] = child;
    }
    match new {
        None => Joined::First,
        Some(_) if is_second => Joined::Second,
        Some(node) => Joined::New(Tree::Inner(Arc::new(node))),
    }
}

/// A release by a thread: it covers the thread's own accesses before `time`, its block's before `block` and its warp's before
/// `warp`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Release {
    pub group: u64,
    pub lane: usize,
    pub time: u64,
    pub block: u64,
    pub warp: u64,
}

impl Release {
    fn entries(&self) -> [(u64, u64); 3] {
        let Release { group, lane, .. } = *self;
        [(block(group), self.block), (warp(group, lane / 32), self.warp), (thread(group, lane), self.time)]
    }

    /// Returns whether the release covers an access at this time by a thread of the same block.
    fn tells(&self, lane: usize, time: u64) -> bool {
        self.block > time
            || (self.warp > time && self.lane / 32 == lane / 32)
            || (self.time > time && self.lane == lane)
    }
}

/// A release and its predecessors. Links are immutable.
#[derive(Debug)]
struct Link {
    release: Release,
    before: Option<Arc<Link>>,
    /// The number of links from here on.
    length: u32,
}

/// The largest number of links of a chain.
const LINKS: u32 = 32;

/// The last releases to a variable, up to a version. Of two chains of one variable the later one, together with the maps beside
/// it, covers everything that the other covers.
#[derive(Clone, Debug)]
struct Chain {
    variable: u64,
    version: u64,
    last: Option<Arc<Link>>,
}

impl Chain {
    fn links(&self) -> impl Iterator<Item = &Release> {
        let first = self.last.as_deref();
        std::iter::successors(first, |link| link.before.as_deref()).map(|link| &link.release)
    }

    fn is(&self, other: &Chain) -> bool {
        let same_links = match (&self.last, &other.last) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_links && (self.variable, self.version) == (other.variable, other.version)
    }
}

/// What is ordered before a point in a thread's execution, beyond what its block's barriers order.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    /// By [`block`], [`warp`] and [`thread`]: their accesses at lower times.
    times: Map,
    /// By variable: atomic operations on it up to this version.
    versions: Map,
    /// Releases that are in neither map yet.
    chain: Option<Chain>,
}

/// The number of keys per block, which are adjacent: the block, its threads, its warps.
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
    pub const EMPTY: View = View { times: Map::EMPTY, versions: Map::EMPTY, chain: None };

    pub fn is_empty(&self) -> bool {
        self.times.is_empty() && self.versions.is_empty() && self.chain.is_none()
    }

    pub fn is(&self, other: &View) -> bool {
        let same_chain = match (&self.chain, &other.chain) {
            (Some(a), Some(b)) => a.is(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_chain && self.times.is(&other.times) && self.versions.is(&other.versions)
    }

    /// Returns whether an access of a thread at this time is ordered before this point.
    pub fn knows(&self, group: u64, lane: usize, time: u64) -> bool {
        let keys = [thread(group, lane), block(group), warp(group, lane / 32)];
        let mut links = self.chain.iter().flat_map(Chain::links).filter(|release| release.group == group);
        keys.into_iter().any(|key| self.times.get(key) > time) || links.any(|release| release.tells(lane, time))
    }

    pub fn raise(&mut self, key: u64, time: u64) {
        self.times.raise(key, time);
    }

    pub fn version(&self, variable: u64) -> u64 {
        let in_chain = self.chain.as_ref().filter(|chain| chain.variable == variable).map_or(0, |chain| chain.version);
        in_chain.max(self.versions.get(variable))
    }

    pub fn raise_version(&mut self, variable: u64, version: u64) {
        self.versions.raise(variable, version);
    }

    /// Joins another view into this one; returns whether that changed it.
    pub fn join(&mut self, other: &View) -> bool {
        let times = self.times.join(&other.times);
        let versions = self.versions.join(&other.versions);
        (times | versions) | other.chain.as_ref().is_some_and(|chain| self.take(chain))
    }

    /// Joins a chain whose accompanying maps have been joined already; returns whether that changed the view.
    fn take(&mut self, chain: &Chain) -> bool {
        match &mut self.chain {
            None => self.chain = Some(chain.clone()),
            Some(own) if own.variable == chain.variable => {
                let later = chain.version > own.version;
                if later {
                    *own = chain.clone();
                }
                return later;
            }
            Some(_) if self.versions.get(chain.variable) >= chain.version => return false,
            Some(_) => self.write(chain),
        }
        true
    }

    /// Writes a chain into the maps.
    fn write(&mut self, chain: &Chain) {
        chain.links().for_each(|release| self.raise_all(release));
        self.versions.raise(chain.variable, chain.version);
    }

    /// Raises the entries that a release covers.
    pub fn raise_all(&mut self, release: &Release) {
        release.entries().into_iter().for_each(|(key, time)| self.times.raise(key, time));
    }

    /// Adds a release to this view, which belongs to a variable and now has this version.
    pub fn release(&mut self, variable: u64, version: u64, release: Release) {
        let chain = self.chain_of(variable);
        let before = chain.last.take();
        let length = before.as_ref().map_or(0, |link| link.length) + 1;
        chain.last = Some(Arc::new(Link { release, before, length }));
        chain.version = version;
        if length == LINKS {
            let full = chain.clone();
            chain.last = None;
            self.write(&full);
        }
    }

    /// Makes this view the one of a variable: chains of other variables are written into its maps.
    pub fn is_of(&mut self, variable: u64) {
        self.chain_of(variable);
    }

    fn chain_of(&mut self, variable: u64) -> &mut Chain {
        self.chain.get_or_insert(Chain { variable, version: 0, last: None })
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

    /// The contents of a view: times by key, versions by variable.
    type Model = (BTreeMap<u64, u64>, BTreeMap<u64, u64>);

    fn join_models(own: &mut Model, other: &Model) -> bool {
        let before = own.clone();
        let raise = |own: &mut BTreeMap<u64, u64>, k: u64, time: u64| {
            let old = own.entry(k).or_default();
            *old = (*old).max(time);
        };
        other.0.iter().for_each(|(&k, &time)| raise(&mut own.0, k, time));
        other.1.iter().for_each(|(&k, &version)| raise(&mut own.1, k, version));
        *own != before
    }

    #[test]
    fn views_hold_what_was_released_and_acquired() {
        let mut dice = Dice(17);
        const VARIABLES: usize = 3;
        let mut threads: Vec<(View, Model)> = vec![Default::default(); 40];
        let mut variables: Vec<(View, Model, u64)> = vec![Default::default(); VARIABLES];
        let mut time = 0;
        for iteration in 0..30_000 {
            let lane = dice.below(40) as usize;
            // Mostly one variable, so that its chain gets long.
            let at = if dice.below(3) > 0 { 0 } else { dice.below(VARIABLES as u64) as usize };
            let (known, model) = &mut threads[lane];
            let (device, released, version) = &mut variables[at];
            match dice.below(40) {
                0 => (*known, *model) = Default::default(),
                1..20 => {
                    let brought = join_models(model, released);
                    assert!(known.join(device) >= brought);
                }
                _ => {
                    (time, *version) = (time + 1, *version + 1);
                    let group = lane as u64 / 5;
                    let release = Release { group, lane, time, block: time / 3, warp: time / 2 };
                    device.is_of(at as u64 + 1);
                    device.join(known);
                    device.release(at as u64 + 1, *version, release);
                    let said = release.entries().into_iter().filter(|&(_, time)| time > 0).collect();
                    join_models(released, model);
                    join_models(released, &(said, BTreeMap::from([(at as u64 + 1, *version)])));
                }
            }
            let views = [(&threads[lane].0, &threads[lane].1), (&variables[at].0, &variables[at].1)];
            for (view, model) in views {
                assert_eq!(view.is_empty(), model.0.is_empty() && model.1.is_empty());
                for lane in (0..40).filter(|_| iteration % 7 == 0 || iteration < 200) {
                    let group = lane as u64 / 5;
                    let keys = [thread(group, lane), warp(group, lane / 32), block(group)];
                    let last = keys.iter().filter_map(|key| model.0.get(key)).max().copied().unwrap_or(0);
                    assert!(last == 0 || view.knows(group, lane, last - 1), "turn {iteration}");
                    assert!(!view.knows(group, lane, last), "turn {iteration}");
                }
                for variable in 1..=VARIABLES as u64 {
                    assert_eq!(
                        view.version(variable),
                        model.1.get(&variable).copied().unwrap_or(0),
                        "turn {iteration}"
                    );
                }
            }
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
