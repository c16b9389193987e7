//! Vector clocks represent the accesses that are ordered before a thread. They are persistent maps, which share parts
//! of their trees.
//!
//! For threads, warps and blocks, a [`VectorClock`] contains the times before which their accesses are ordered before a
//! point in the execution. Each release adds a few times to a clock, and many threads have a clock at the same time. So
//! a [`ClockMap`] is an immutable tree: copying it copies a pointer, an update copies a few nodes, and joining two maps
//! visits only nodes in which they differ. The last few releases to a variable are in a [`ReleaseChain`] instead of the
//! maps. If thousands of threads acquire and release one variable in turn, each adds a link to the chain, and only one
//! of [`LINKS`] releases updates the maps.

use std::sync::Arc;

/// A map from keys to times; a key that is not in the map has time 0. The time of a key never decreases.
#[derive(Clone, Debug, Default)]
pub(crate) struct ClockMap {
    root: ClockTree,
}

const DIGIT: u32 = 4;
const FAN: usize = 1 << DIGIT;

/// A radix tree with path compression: a node exists only where the digits of at least two keys differ.
#[derive(Clone, Debug, Default)]
enum ClockTree {
    #[default]
    Empty,
    /// A key and its time.
    One(u64, u64),
    /// Two or more keys that differ only in the last digit.
    Leaf(Arc<LeafNode>),
    Inner(Arc<InnerNode>),
}

#[derive(Clone, Debug)]
struct LeafNode {
    prefix: u64,
    times: [u64; FAN],
}

/// Two or more keys with a common prefix, which differ in digit `level`.
#[derive(Clone, Debug)]
struct InnerNode {
    prefix: u64,
    level: u32,
    children: [ClockTree; FAN],
}

fn digit(key: u64, level: u32) -> usize {
    (key >> (DIGIT * level)) as usize % FAN
}

fn prefix_of(key: u64, level: u32) -> u64 {
    key.checked_shr(DIGIT * (level + 1)).unwrap_or(0)
}

impl ClockMap {
    const EMPTY: ClockMap = ClockMap { root: ClockTree::Empty };

    pub fn is_empty(&self) -> bool {
        matches!(self.root, ClockTree::Empty)
    }

    /// Returns whether both maps have the same root node. If so, they are equal; equal maps may also have different
    /// root nodes.
    pub fn is_same(&self, other: &ClockMap) -> bool {
        self.root.is_same(&other.root)
    }

    pub fn get(&self, key: u64) -> u64 {
        self.root.get(key)
    }

    /// Raises the time of a key to `time` if it is lower.
    pub fn raise(&mut self, key: u64, time: u64) {
        if self.get(key) < time {
            self.root.raise(key, time);
        }
    }

    /// Joins another map into this one: raises each key to the larger of both times. Returns whether this map changed.
    pub fn join(&mut self, other: &ClockMap) -> bool {
        match join(&self.root, &other.root) {
            JoinResult::First => return false,
            JoinResult::Second => self.root = other.root.clone(),
            JoinResult::New(both) => self.root = both,
        }
        true
    }
}

impl ClockTree {
    fn is_same(&self, other: &ClockTree) -> bool {
        match (self, other) {
            (ClockTree::Empty, ClockTree::Empty) => true,
            (ClockTree::One(k, t), ClockTree::One(key, time)) => (k, t) == (key, time),
            (ClockTree::Leaf(a), ClockTree::Leaf(b)) => Arc::ptr_eq(a, b),
            (ClockTree::Inner(a), ClockTree::Inner(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    fn get(&self, key: u64) -> u64 {
        let mut tree = self;
        loop {
            match tree {
                ClockTree::One(k, time) if *k == key => return *time,
                ClockTree::Leaf(leaf) if leaf.prefix == prefix_of(key, 0) => return leaf.times[digit(key, 0)],
                ClockTree::Inner(node) if node.prefix == prefix_of(key, node.level) => {
                    tree = &node.children[digit(key, node.level)];
                }
                _ => return 0,
            }
        }
    }

    /// Raises the time of a key, whose old time is lower. Nodes that are not shared with other trees are changed in
    /// place.
    fn raise(&mut self, key: u64, time: u64) {
        match self {
            ClockTree::Empty => *self = ClockTree::One(key, time),
            ClockTree::One(k, t) if *k == key => *t = time,
            ClockTree::Leaf(leaf) if leaf.prefix == prefix_of(key, 0) => {
                Arc::make_mut(leaf).times[digit(key, 0)] = time
            }
            ClockTree::Inner(node) if node.prefix == prefix_of(key, node.level) => {
                let node = Arc::make_mut(node);
                node.children[digit(key, node.level)].raise(key, time);
            }
            _ => *self = combine(std::mem::take(self), ClockTree::One(key, time)),
        }
    }

    /// Returns a key with the tree's common prefix, and the level below which the digits of its keys may differ. `None`
    /// if the tree is empty.
    fn key_and_level(&self) -> Option<(u64, u32)> {
        match self {
            ClockTree::Empty => None,
            ClockTree::One(key, _) => Some((*key, 0)),
            ClockTree::Leaf(leaf) => Some((leaf.prefix << DIGIT, 1)),
            ClockTree::Inner(node) => {
                Some((node.prefix.checked_shl(DIGIT * (node.level + 1)).unwrap_or(0), node.level + 1))
            }
        }
    }
}

/// Combines two trees with different prefixes, so that no key belongs into both.
fn combine(a: ClockTree, b: ClockTree) -> ClockTree {
    let (Some((key, _)), Some((other, _))) = (a.key_and_level(), b.key_and_level()) else {
        return if matches!(a, ClockTree::Empty) { b } else { a };
    };
    let level = (key ^ other).checked_ilog2().unwrap_or(0) / DIGIT;
    if let (0, ClockTree::One(k, t), ClockTree::One(key, time)) = (level, &a, &b) {
        let mut times = [0; FAN];
        (times[digit(*k, 0)], times[digit(*key, 0)]) = (*t, *time);
        return ClockTree::Leaf(Arc::new(LeafNode { prefix: prefix_of(*k, 0), times }));
    }
    let mut children: [ClockTree; FAN] = Default::default();
    (children[digit(key, level)], children[digit(other, level)]) = (a, b);
    ClockTree::Inner(Arc::new(InnerNode { prefix: prefix_of(key, level), level, children }))
}

/// The result of joining two trees.
enum JoinResult {
    /// The result is equal to the first tree.
    First,
    /// The result is equal to the second tree.
    Second,
    New(ClockTree),
}

/// Joins two trees. Copies no nodes if the result is equal to one of them.
fn join(a: &ClockTree, b: &ClockTree) -> JoinResult {
    let raised = |tree: &ClockTree, key: u64, time: u64| {
        let mut tree = tree.clone();
        tree.raise(key, time);
        JoinResult::New(tree)
    };
    match (a, b) {
        _ if a.is_same(b) => JoinResult::First,
        (_, ClockTree::Empty) => JoinResult::First,
        (ClockTree::Empty, _) => JoinResult::Second,
        (_, &ClockTree::One(key, time)) if a.get(key) >= time => JoinResult::First,
        (&ClockTree::One(key, time), _) if b.get(key) >= time => JoinResult::Second,
        (_, &ClockTree::One(key, time)) => raised(a, key, time),
        (&ClockTree::One(key, time), _) => raised(b, key, time),
        (ClockTree::Leaf(x), ClockTree::Leaf(y)) if x.prefix == y.prefix => join_leaves(x, y),
        (ClockTree::Inner(x), ClockTree::Inner(y)) if (x.level, x.prefix) == (y.level, y.prefix) => join_inner(x, y),
        _ => join_apart(a, b),
    }
}

fn join_leaves(x: &LeafNode, y: &LeafNode) -> JoinResult {
    let times: [u64; FAN] = std::array::from_fn(|i| x.times[i].max(y.times[i]));
    match (times == x.times, times == y.times) {
        (true, _) => JoinResult::First,
        (_, true) => JoinResult::Second,
        _ => JoinResult::New(ClockTree::Leaf(Arc::new(LeafNode { prefix: x.prefix, times }))),
    }
}

/// Joins two trees that each have several keys and that differ in prefix or level.
fn join_apart(a: &ClockTree, b: &ClockTree) -> JoinResult {
    let (Some((key, level)), Some((other, other_level))) = (a.key_and_level(), b.key_and_level()) else {
        return JoinResult::First;
    };
    match (a, b) {
        (ClockTree::Inner(x), _) if level > other_level && x.prefix == prefix_of(other, x.level) => {
            match join(&x.children[digit(other, x.level)], b) {
                JoinResult::First => JoinResult::First,
                JoinResult::Second => with_child(x, other, b.clone()),
                JoinResult::New(child) => with_child(x, other, child),
            }
        }
        (_, ClockTree::Inner(y)) if other_level > level && y.prefix == prefix_of(key, y.level) => {
            match join(a, &y.children[digit(key, y.level)]) {
                JoinResult::Second => JoinResult::Second,
                JoinResult::First => with_child(y, key, a.clone()),
                JoinResult::New(child) => with_child(y, key, child),
            }
        }
        _ => JoinResult::New(combine(a.clone(), b.clone())),
    }
}

/// Returns a copy of the node in which the child for the key's digit is replaced.
fn with_child(node: &InnerNode, key: u64, child: ClockTree) -> JoinResult {
    let mut node = node.clone();
    node.children[digit(key, node.level)] = child;
    JoinResult::New(ClockTree::Inner(Arc::new(node)))
}

/// Joins two inner nodes with the same prefix and level.
fn join_inner(x: &InnerNode, y: &InnerNode) -> JoinResult {
    let mut new: Option<InnerNode> = None;
    let mut is_second = true;
    for (i, (p, q)) in x.children.iter().zip(&y.children).enumerate() {
        if p.is_same(q) {
            continue;
        }
        let child = match join(p, q) {
            JoinResult::First => {
                is_second = false;
                continue;
            }
            JoinResult::Second => q.clone(),
            JoinResult::New(both) => {
                is_second = false;
                both
            }
        };
        new.get_or_insert_with(|| x.clone()).children[i] = child;
    }
    match new {
        None => JoinResult::First,
        Some(_) if is_second => JoinResult::Second,
        Some(node) => JoinResult::New(ClockTree::Inner(Arc::new(node))),
    }
}

/// A release by a thread. It covers the thread's accesses before `time`, accesses of its block before `block`, and
/// accesses of its warp before `warp`.
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
        [(block_key(group), self.block), (warp_key(group, lane / 32), self.warp), (thread_key(group, lane), self.time)]
    }

    /// Returns whether the release covers an access at time `time` by thread `lane` of the same block.
    fn covers(&self, lane: usize, time: u64) -> bool {
        self.block > time
            || (self.warp > time && self.lane / 32 == lane / 32)
            || (self.time > time && self.lane == lane)
    }
}

/// A link of a release chain: a release, and the link of the previous release. Links are immutable.
#[derive(Debug)]
struct ReleaseLink {
    release: Release,
    before: Option<Arc<ReleaseLink>>,
    /// Number of links from this one to the end of the chain.
    length: u32,
}

/// Maximum number of links in a chain.
const LINKS: u32 = 32;

/// The last releases to a synchronization variable, up to a version. Of two chains for the same variable, the chain
/// with the later version, together with its clock's maps, covers all accesses that the other chain covers.
#[derive(Clone, Debug)]
struct ReleaseChain {
    variable: u64,
    version: u64,
    last: Option<Arc<ReleaseLink>>,
}

impl ReleaseChain {
    fn links(&self) -> impl Iterator<Item = &Release> {
        let first = self.last.as_deref();
        std::iter::successors(first, |link| link.before.as_deref()).map(|link| &link.release)
    }

    fn is_same(&self, other: &ReleaseChain) -> bool {
        let same_links = match (&self.last, &other.last) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_links && (self.variable, self.version) == (other.variable, other.version)
    }
}

/// The accesses that are ordered before a point in a thread's execution. The order that barriers of its block establish
/// is not included.
#[derive(Clone, Debug, Default)]
pub(crate) struct VectorClock {
    /// For each key ([`block_key`], [`warp_key`], [`thread_key`]): accesses before this time are ordered before the
    /// point.
    times: ClockMap,
    /// For each variable: atomic operations up to this version are ordered before the point.
    versions: ClockMap,
    /// Releases that are not in the maps yet.
    chain: Option<ReleaseChain>,
}

/// Number of keys per block: one for the block, then one for each thread, then one for each warp.
const KEYS: u64 = 2048;

pub(crate) fn block_key(group: u64) -> u64 {
    group * KEYS
}

pub(crate) fn thread_key(group: u64, lane: usize) -> u64 {
    group * KEYS + 1 + lane as u64
}

pub(crate) fn warp_key(group: u64, warp: usize) -> u64 {
    group * KEYS + 1056 + warp as u64
}

impl VectorClock {
    pub const EMPTY: VectorClock = VectorClock { times: ClockMap::EMPTY, versions: ClockMap::EMPTY, chain: None };

    pub fn is_empty(&self) -> bool {
        self.times.is_empty() && self.versions.is_empty() && self.chain.is_none()
    }

    pub fn is_same(&self, other: &VectorClock) -> bool {
        let same_chain = match (&self.chain, &other.chain) {
            (Some(a), Some(b)) => a.is_same(b),
            (a, b) => a.is_none() && b.is_none(),
        };
        same_chain && self.times.is_same(&other.times) && self.versions.is_same(&other.versions)
    }

    /// Returns whether an access of a thread at time `time` is ordered before the point that this clock represents.
    pub fn is_ordered_before(&self, group: u64, lane: usize, time: u64) -> bool {
        let keys = [thread_key(group, lane), block_key(group), warp_key(group, lane / 32)];
        let mut links = self.chain.iter().flat_map(ReleaseChain::links).filter(|release| release.group == group);
        keys.into_iter().any(|key| self.times.get(key) > time) || links.any(|release| release.covers(lane, time))
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

    /// Joins another clock into this one. Returns whether this clock changed.
    pub fn join(&mut self, other: &VectorClock) -> bool {
        let times = self.times.join(&other.times);
        let versions = self.versions.join(&other.versions);
        (times | versions) | other.chain.as_ref().is_some_and(|chain| self.join_chain(chain))
    }

    /// Joins the chain of another clock, whose maps have been joined already. Returns whether this clock changed.
    fn join_chain(&mut self, chain: &ReleaseChain) -> bool {
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
            Some(_) => self.write_chain(chain),
        }
        true
    }

    /// Raises the recorded times to those of all release operations in a chain.
    fn write_chain(&mut self, chain: &ReleaseChain) {
        chain.links().for_each(|release| self.raise_release(release));
        self.versions.raise(chain.variable, chain.version);
    }

    /// Raises the recorded times to those of the accesses that precede a release operation.
    pub fn raise_release(&mut self, release: &Release) {
        release.entries().into_iter().for_each(|(key, time)| self.times.raise(key, time));
    }

    /// Adds a release to this clock, which belongs to a variable. `version` is the new version of the variable.
    pub fn release(&mut self, variable: u64, version: u64, release: Release) {
        let chain = self.chain_of(variable);
        let before = chain.last.take();
        let length = before.as_ref().map_or(0, |link| link.length) + 1;
        chain.last = Some(Arc::new(ReleaseLink { release, before, length }));
        chain.version = version;
        if length == LINKS {
            let full = chain.clone();
            chain.last = None;
            self.write_chain(&full);
        }
    }

    /// Makes this clock belong to a variable. Chains of other variables that are joined later will be added to its
    /// maps.
    pub fn claim_for(&mut self, variable: u64) {
        self.chain_of(variable);
    }

    fn chain_of(&mut self, variable: u64) -> &mut ReleaseChain {
        self.chain.get_or_insert(ReleaseChain { variable, version: 0, last: None })
    }
}

#[cfg(test)]
mod tests {
    use super::super::access_pattern::tests::PatternGenerator;
    use super::*;
    use std::collections::BTreeMap;

    fn key(generator: &mut PatternGenerator) -> u64 {
        let far = [0, 0, 1 << 9, 1 << 30, 1 << 60][generator.below(5) as usize];
        far + generator.below(40) * [1, 17, 2048][generator.below(3) as usize]
    }

    #[test]
    fn maps_contain_the_maximum_of_raised_and_joined_times() {
        let mut generator = PatternGenerator(5);
        let mut all: Vec<(ClockMap, BTreeMap<u64, u64>)> = vec![Default::default(); 6];
        for _ in 0..40_000 {
            let (at, from) = (generator.below(6) as usize, generator.below(6) as usize);
            match generator.below(8) {
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
                    let (k, time) = (key(&mut generator), 1 + generator.below(50));
                    all[at].0.raise(k, time);
                    let old = all[at].1.entry(k).or_default();
                    *old = (*old).max(time);
                }
            }
            let (map, model) = &all[at];
            let k = key(&mut generator);
            assert_eq!(map.get(k), model.get(&k).copied().unwrap_or(0));
            assert!(model.iter().all(|(&k, &time)| map.get(k) == time));
        }
    }

    /// The expected contents of a clock: times by key, versions by variable.
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
    fn clocks_match_a_model() {
        let mut generator = PatternGenerator(17);
        const VARIABLES: usize = 3;
        let mut threads: Vec<(VectorClock, Model)> = vec![Default::default(); 40];
        let mut variables: Vec<(VectorClock, Model, u64)> = vec![Default::default(); VARIABLES];
        let mut time = 0;
        for iteration in 0..30_000 {
            let lane = generator.below(40) as usize;
            // Mostly use one variable, so that its chain becomes long.
            let at = if generator.below(3) > 0 { 0 } else { generator.below(VARIABLES as u64) as usize };
            let (clock, model) = &mut threads[lane];
            let (device, released, version) = &mut variables[at];
            match generator.below(40) {
                0 => (*clock, *model) = Default::default(),
                1..20 => {
                    let changed = join_models(model, released);
                    assert!(clock.join(device) >= changed);
                }
                _ => {
                    (time, *version) = (time + 1, *version + 1);
                    let group = lane as u64 / 5;
                    let release = Release { group, lane, time, block: time / 3, warp: time / 2 };
                    device.claim_for(at as u64 + 1);
                    device.join(clock);
                    device.release(at as u64 + 1, *version, release);
                    let entries = release.entries().into_iter().filter(|&(_, time)| time > 0).collect();
                    join_models(released, model);
                    join_models(released, &(entries, BTreeMap::from([(at as u64 + 1, *version)])));
                }
            }
            let views = [(&threads[lane].0, &threads[lane].1), (&variables[at].0, &variables[at].1)];
            for (view, model) in views {
                assert_eq!(view.is_empty(), model.0.is_empty() && model.1.is_empty());
                for lane in (0..40).filter(|_| iteration % 7 == 0 || iteration < 200) {
                    let group = lane as u64 / 5;
                    let keys = [thread_key(group, lane), warp_key(group, lane / 32), block_key(group)];
                    let last = keys.iter().filter_map(|key| model.0.get(key)).max().copied().unwrap_or(0);
                    assert!(last == 0 || view.is_ordered_before(group, lane, last - 1), "turn {iteration}");
                    assert!(!view.is_ordered_before(group, lane, last), "turn {iteration}");
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
    fn joins_without_news_change_nothing() {
        let (mut a, mut b) = (ClockMap::default(), ClockMap::default());
        for k in 0..1000 {
            a.raise(k * 7, k + 1);
        }
        b.join(&a);
        assert!(a.is_same(&b));
        b.raise(70, 500);
        assert!(!a.is_same(&b) && !b.join(&a));
        assert!(a.join(&b) && a.is_same(&b));
    }
}
