//! The exact checker: compares every access individually with everything that [`trace`](super::trace) has recorded of its
//! element.
//!
//! It checks kernels whose threads synchronize by fences and atomics ([`order`](super::order)), and runs a launch again, on one
//! worker, in which the fast rules have found a race: it identifies both threads and their source lines, which the shadow words
//! of the fast rules do not always determine.

use super::checker::Checker;
use super::event::{Clash, Event, Finding, Other, Party};
use super::exact::{Exact, Left};
use super::locks::{Locks, Step};
use super::order::Own;
use super::text::place_text;
use super::trace::{Entry, Trace, Update, Values};
use crate::device::sim::events::{Form, Touch};
use crate::device::sim::group::{CHUNK, Group};
use crate::device::sim::lanes::slow::read_value;
use crate::device::sim::memory;
use crate::device::{Deed, FaultKind};
use crate::lang::scalar::dynamic;

/// State during one access of all lanes.
struct Walk<'w> {
    trace: &'w mut Trace,
    left: &'w mut Left,
}

impl Checker<'_> {
    /// # Safety
    /// The event's note is one of the group's code.
    pub(super) unsafe fn traced(&mut self, g: &mut Group, e: &Event<'_>) {
        let watch = self.watch;
        let Some(exact) = &watch.exact else { return };
        let mut exact = exact.lock().unwrap_or_else(|e| e.into_inner());
        let memory = e.access.memory as usize;
        let trace = if e.global { exact.traces[memory].take() } else { self.shared_trace(g, e) };
        let Some(mut trace) = trace else { return };
        let atomic = e.note.touch.is_atomic();
        let mut left = if atomic { std::mem::take(&mut self.left) } else { Left::default() };
        left.one = None;
        left.all.clear();
        let mut walk = Walk { trace: &mut trace, left: &mut left };
        let mut one = None;
        let (first, end) = (g.lo * CHUNK, (g.hi * CHUNK).min(g.lanes));
        for k in first..end {
            let lane = if atomic && g.backward { first + end - 1 - k } else { k };
            if !g.is_active(lane) {
                continue;
            }
            // SAFETY: C5: the access is one of the code's, and the lane exists.
            let Some(addr) = one.or_else(|| unsafe { memory::address(g, e.access, lane) }) else { continue };
            if e.note.form == Form::One {
                one = Some(addr);
            }
            for component in 0..e.components() {
                let cell = e.cell(addr) + component * e.pitch();
                if cell < walk.trace.len {
                    let p = Party { lane, cell, component, addr };
                    let right = self.judged(g, e, &p, &mut walk);
                    let plain = e.note.touch == Touch::Store && exact.locks.are_in(e.access.memory);
                    if plain {
                        let element = self.element(e, &p);
                        exact.locks.changed(&mut self.held, lane, element);
                    }
                    if atomic {
                        self.updated(g, e, &p, &mut walk, &mut exact, right);
                    }
                }
            }
        }
        let place = if e.global { &mut exact.traces[memory] } else { &mut self.traces[memory] };
        *place = Some(trace);
        if atomic {
            self.left = left;
        }
        exact.decided |= self.order.decided.get();
    }

    /// Returns the trace of a shared array of this block.
    fn shared_trace(&mut self, g: &Group, e: &Event<'_>) -> Option<Box<Trace>> {
        let memory = e.access.memory as usize;
        // SAFETY: G4: there is one for each memory of the code.
        let bytes = unsafe { (*g.memories.add(memory)).len };
        let fits = |trace: &Trace| trace.len == bytes / e.watched.unit.max(1);
        let mut trace = match self.traces[memory].take() {
            Some(trace) if fits(&trace) => trace,
            _ => Box::new(e.watched.trace(bytes)),
        };
        if trace.group != Some(self.number) {
            trace.clear(self.number);
        }
        Some(trace)
    }

    /// Compares an access with the trace, and records it; reports what is wrong. Returns, for an atomic operation, whether it is
    /// correct.
    fn judged(&mut self, g: &Group, e: &Event<'_>, p: &Party, walk: &mut Walk<'_>) -> bool {
        let touch = e.note.touch;
        if touch == Touch::Atomic && !e.watched.mixed() && !e.watched.fresh {
            return true;
        }
        let looks = touch != Touch::Store && !e.note.traits.overwrites;
        if looks && e.watched.fresh && walk.trace.is_unwritten(p.cell) {
            let place = place_text(g, e, p.addr, p.component);
            let space = if e.global { "out" } else { "shared" };
            let kind = FaultKind::Unwritten { place, space };
            self.find(Finding { kind, lane: p.lane, others: 0, benign: false });
            return false;
        }
        if touch == Touch::Store {
            self.judged_store(g, e, p, walk.trace);
            return true;
        }
        if let Some(clash) = clash(&self.order, e, p, walk.trace) {
            let values = &walk.trace.stored;
            let finding = self.race(g, e, p, clash, &|k| values.get(e.value_at(p, k), e.access.scalar));
            self.find(finding);
            return false;
        }
        match touch {
            Touch::Load => {
                let all = self.stands_for(walk.trace.reads(p.cell), p);
                walk.trace.read(p.cell, &self.entry(e, p.lane), all);
            }
            Touch::Look => {
                let all = self.stands_for(walk.trace.looks(p.cell), p);
                walk.trace.look(p.cell, &self.entry(e, p.lane), all);
            }
            Touch::Store | Touch::Atomic => {}
        }
        true
    }

    /// Compares a plain write with the trace, reports a race, and records the write. A race of two writes of the same value is reported
    /// only if the write conflicts with nothing else.
    fn judged_store(&mut self, g: &Group, e: &Event<'_>, p: &Party, trace: &mut Trace) {
        let (order, scalar) = (&self.order, e.access.scalar);
        let value = |k: usize| e.note.values.get(k).map(|&reg| read_value(g, reg, scalar, p.lane));
        let stores = |values: &Values| e.parts(p).all(|k| values.get(e.value_at(p, k), scalar) == value(k));
        let is_same = stores(&trace.stored);
        let writer = || first(order, p, trace.writes(p.cell), Deed::Writes);
        let replaced =
            || first(order, p, trace.replaced(p.cell), Deed::Writes).filter(|_| !stores(&trace.replaced_values));
        let found = if is_same { None } else { writer() }.or_else(|| clash(order, e, p, trace));
        let (found, values) = match found {
            Some(found) => (Some(found), &trace.stored),
            None => match replaced() {
                Some(found) => (Some(found), &trace.replaced_values),
                None => (writer(), &trace.stored),
            },
        };
        let entry = self.entry(e, p.lane);
        if let Some(found) = found {
            let finding = self.race(g, e, p, found, &|k| values.get(e.value_at(p, k), scalar));
            if finding.benign {
                trace.write_too(p.cell, &entry);
            }
            return self.find(finding);
        }
        let (grid, block) = self.order.phase();
        trace.write(p.cell, &entry, is_same, if e.global { grid } else { block });
        if !is_same {
            e.parts(p).for_each(|k| trace.store(e.value_at(p, k), value(k)));
        }
    }

    /// Returns whether these readers of an element, if they are few, are all ordered before this one, which then subsumes them.
    fn stands_for(&self, mut readers: impl Iterator<Item = Entry>, p: &Party) -> bool {
        let decided = self.order.decided.get();
        let few = readers.by_ref().take(FEW).all(|entry| self.order.unordered(&entry, p.lane).is_none());
        let all = few && readers.next().is_none();
        // Reads do not conflict, so this use of the order does not count.
        self.order.decided.set(decided);
        all
    }

    fn entry(&self, e: &Event<'_>, lane: usize) -> Entry {
        let mask = 1 << (lane % 32);
        Entry { time: self.order.time, group: self.number, warp: lane / 32, mask, site: e.note.number }
    }

    /// Applies a lane's atomic operation: acquires, releases, and is recorded (if it was `right`).
    fn updated(&mut self, g: &Group, e: &Event<'_>, p: &Party, walk: &mut Walk<'_>, exact: &mut Exact, right: bool) {
        let changes = self.changes(g, e, p, walk);
        if changes && exact.locks.are_in(e.access.memory) {
            self.locked(g, e, p, &mut exact.locks);
        }
        let key = (e.access.memory, p.cell);
        let Exact { variables, ids, .. } = exact;
        let variable = if e.global { variables } else { &mut self.variables }.get(key, ids);
        if e.note.traits.decides {
            self.order.acquire(p.lane, variable);
        }
        let version = if changes && self.order.release(p.lane, variable) { variable.version } else { 0 };
        if !right || e.note.touch == Touch::Look {
            return;
        }
        if e.note.traits.overwrites && walk.trace.is_unwritten(p.cell) {
            walk.trace.begin(p.cell);
        }
        if e.watched.mixed() {
            let (id, order) = (variable.id, &self.order);
            let known = order.version(p.lane, id);
            let new = Update { entry: self.entry(e, p.lane), variable: id, version };
            walk.trace.update(p.cell, new, |old| old.version > 0 && old.version <= known);
        }
    }

    /// Handles a lane's atomic update of an element that may be a lock: acquires or releases it.
    fn locked(&mut self, g: &Group, e: &Event<'_>, p: &Party, locks: &mut Locks) {
        let element = self.element(e, p);
        if !e.note.traits.takes {
            return locks.changed(&mut self.held, p.lane, element);
        }
        let (phase, span) = (self.order.phase(), e.access.span);
        let step = Step { group: self.number, lane: p.lane, phase, span };
        locks.taken(&mut self.held, step, element, || place_text(g, e, p.addr, p.component));
    }

    fn element(&self, e: &Event<'_>, p: &Party) -> super::locks::Element {
        (e.access.memory, (!e.global).then_some(self.number), p.cell)
    }

    /// Returns whether a lane's operation changes the element's value. One that does not communicates nothing.
    fn changes(&self, g: &Group, e: &Event<'_>, p: &Party, walk: &mut Walk<'_>) -> bool {
        let Some(def) = self.code.atomics.get(e.note.atomic as usize) else { return true };
        let scalar = e.access.scalar;
        let left = match e.note.form {
            Form::One => walk.left.one,
            _ => walk.left.all.get(&(p.addr as usize)).copied(),
        };
        let old = left.unwrap_or_else(|| super::text::in_memory(p.addr, scalar));
        let value = read_value(g, def.value, scalar, p.lane);
        let compare = (def.compare != super::super::code::NONE).then(|| read_value(g, def.compare, scalar, p.lane));
        let new = dynamic::atomic(def.op, old, value, compare).unwrap_or(old);
        match e.note.form {
            Form::One => walk.left.one = Some(new),
            _ => {
                walk.left.all.insert(p.addr as usize, new);
            }
        }
        new.bits != old.bits
    }

    /// Keeps the first finding, and counts others like it.
    pub(super) fn find(&mut self, finding: Finding) {
        match &mut self.finding {
            None => self.finding = Some(finding),
            Some(first) if first.benign && !finding.benign => *first = finding,
            Some(first) => first.others += u64::from(first.benign == finding.benign),
        }
    }
}

/// The largest number of readers of an element for which the subsumption by a later one is tested.
const FEW: usize = 4;

/// Returns the first of some entries whose thread is not ordered before this one.
fn first(order: &Own, p: &Party, mut entries: impl Iterator<Item = Entry>, deed: Deed) -> Option<Clash> {
    let unordered = |entry: Entry| {
        let lane = order.unordered(&entry, p.lane)?;
        Some(Other { group: entry.group, lane, site: entry.site })
    };
    entries.find_map(unordered).map(|other| Clash { other, deed })
}

/// Returns a conflicting access to the element by a thread that is not ordered before this one. For a plain write, other plain writes
/// are left to the caller.
fn clash(order: &Own, e: &Event<'_>, p: &Party, trace: &Trace) -> Option<Clash> {
    let writers = || first(order, p, trace.writes(p.cell), Deed::Writes);
    let readers = || first(order, p, trace.reads(p.cell), Deed::Reads);
    let lookers = || first(order, p, trace.looks(p.cell), Deed::Looks);
    let updaters = || {
        let unknown = |u: &&Update| {
            let known = u.version > 0 && order.version(p.lane, u.variable) >= u.version;
            if known {
                order.decided.set(true);
            }
            !known
        };
        first(order, p, trace.updates(p.cell).iter().filter(unknown).map(|u| u.entry), Deed::Updates)
    };
    match e.note.touch {
        Touch::Load => writers().or_else(updaters),
        Touch::Store => readers().or_else(updaters).or_else(lookers),
        Touch::Atomic => writers().or_else(readers),
        Touch::Look => writers(),
    }
}
