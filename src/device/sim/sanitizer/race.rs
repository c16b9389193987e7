//! Reports of violated rules: threads, locations and values.

use super::checker::Checker;
use super::event::{Clash, Event, Finding, Other, Party, note_cell};
use super::rows::Now;
use super::text::{element_path, in_memory, place_text};
use super::word::{self, KIND, LANE_SHIFT, ONE};
use crate::device::sim::code::Access;
use crate::device::sim::events::Touch;
use crate::device::sim::fault::{self, Stop, stop_at};
use crate::device::sim::group::Group;
use crate::device::sim::lanes::slow::read_value;
use crate::device::sim::memory::{self};
use crate::device::{Deed, FaultKind, Race};
use crate::lang::scalar::Value;

fn deed(touch: Touch) -> Deed {
    match touch {
        Touch::Load => Deed::Reads,
        Touch::Store => Deed::Writes,
        Touch::Atomic => Deed::Updates,
        Touch::Look => Deed::Looks,
    }
}

impl Checker<'_> {
    /// Handles an element for which the fast rules failed.
    pub(super) unsafe fn doubtful(&mut self, g: &Group, e: &Event<'_>, p: &Party) {
        let me = e.now.own | (p.lane as u64) << LANE_SHIFT;
        // SAFETY: the caller's cell is in the planes.
        let words = unsafe { e.planes.words(p.cell) };
        if e.note.touch != Touch::Store && words.0 < e.now.born {
            let place = place_text(g, e, p.addr, p.component);
            let space = if e.global { "out" } else { "shared" };
            let kind = FaultKind::Unwritten { place, space };
            return self.find(Finding { kind, lane: p.lane, others: 0, benign: false });
        }
        let mut benign = None;
        for (word, deed) in self.conflicts(e, p, me, words).into_iter().flatten() {
            let finding = self.race_with(g, e, p, (word, deed));
            if !finding.benign {
                return self.find(finding);
            }
            benign = Some((word, finding));
        }
        match benign {
            Some((word, finding)) => {
                // SAFETY: the cell is that of an element of the event, and below the number of words of its planes.
                unsafe { *e.planes.w.add(p.cell) = e.now.together(word, me) };
                self.find(finding);
            }
            None => {
                // The conflict was with another lane of this access, whose word has been updated meanwhile.
                // SAFETY: the cell is that of an element of the event, and below the number of words of its planes.
                unsafe { note_cell(e, p.cell, me, p.lane, ONE) };
            }
        }
    }

    /// Returns the words of the accesses that are not ordered before this one and conflict with it.
    fn conflicts(&self, e: &Event<'_>, p: &Party, me: u64, (w, r, a): (u64, u64, u64)) -> [Option<(u64, Deed)>; 4] {
        let now: &Now = &e.now;
        let broken = |word: u64, deed: Deed| {
            let same = (word ^ me) & (now.thread | KIND) == 0;
            let ordered = match e.warps {
                true => now.ordered::<true>(word, me, p.lane, ONE),
                false => now.ordered::<false>(word, me, p.lane, ONE),
            };
            (!same && !ordered).then_some((word, deed))
        };
        let writes = broken(w, Deed::Writes);
        match e.note.touch {
            Touch::Load => [writes, broken(a, Deed::Updates), None, None],
            Touch::Store => {
                // SAFETY: the cell is that of an element of the event, and below the number of words of its planes.
                let l = unsafe { e.planes.look(p.cell) };
                [writes, broken(r, Deed::Reads), broken(a, Deed::Updates), broken(l, Deed::Looks)]
            }
            Touch::Look => [writes, None, None, None],
            Touch::Atomic => [writes, broken(r, Deed::Reads), None, None],
        }
    }

    /// Describes the race with the access of a shadow word. The value that a write stored is taken from memory; an atomic operation may
    /// have changed it since.
    fn race_with(&self, g: &Group, e: &Event<'_>, p: &Party, (word, deed): (u64, Deed)) -> Finding {
        let (other, scalar) = (self.other(e, p, word), e.access.scalar);
        let by_other = other.group == self.number && writes_before(g, e, p, other.lane);
        let left = |k: usize| match e.note.values.get(k) {
            Some(&reg) if by_other => Some(read_value(g, reg, scalar, other.lane)),
            _ => Some(in_memory(p.addr.wrapping_add(k * scalar.size()), scalar)),
        };
        self.race(g, e, p, Clash { other, deed }, &left)
    }

    /// Returns the thread of a word. A word of several threads has the last one; if that is the current thread, its neighbor is a
    /// likely other (exact checking knows).
    fn other(&self, e: &Event<'_>, p: &Party, word: u64) -> Other {
        let window = word::GROUP >> word::GROUP_SHIFT;
        let group = if e.global { self.number & !window | word::group(word) } else { self.number };
        let mut lane = word::lane(word);
        if lane == p.lane && group == self.number {
            lane = if lane == 0 { 1 } else { lane - 1 };
        }
        Other { group, lane, site: word::site(word) as u32 }
    }

    /// Describes a race. If the other access is a write, `left` returns the value that it stored in a component.
    pub(super) fn race(
        &self,
        g: &Group,
        e: &Event<'_>,
        p: &Party,
        clash: Clash,
        left: &dyn Fn(usize) -> Option<Value>,
    ) -> Finding {
        let Clash { other, deed: other_deed } = clash;
        let here = other.group == self.number;
        let note = e.watched.sites.get(other.site as usize).map(|&n| &self.code.notes[n as usize]);
        let other_access = note.map(|n| &self.code.accesses[n.access as usize]);
        let span = other_access.map_or(e.access.span, |a| a.span);
        let scalar = e.access.scalar;
        // For component `k`: the value of this thread, and the value that the other one wrote.
        let values = |k: usize| {
            let value = match e.note.touch {
                Touch::Store => e.note.values.get(k).map(|&reg| read_value(g, reg, scalar, p.lane)),
                Touch::Load => Some(in_memory(p.addr.wrapping_add(k * scalar.size()), scalar)),
                Touch::Atomic | Touch::Look => None,
            };
            (value, if other_deed == Deed::Writes { left(k) } else { None })
        };
        // A word may cover all components of a vector: the values are equal if all components are.
        let first = e.parts(p).start;
        let both = e.note.touch == Touch::Store && other_deed == Deed::Writes;
        let differs = e.parts(p).find(|&k| both && !same(values(k)));
        let component = differs.unwrap_or(first);
        let (value, other_value) = values(component);
        let race = Race {
            place: element_path(g, e, p.addr, component, e.note.components == 1 || !e.watched.whole || component > 0),
            shared: !e.global,
            deed: deed(e.note.touch),
            value,
            other: self.watch.who(other.group, other.lane),
            other_deed,
            other_value,
            other_span: self.code.place(span).0,
            same_block: here && self.code.threads.is_none(),
            same_warp: here && other.lane / 32 == p.lane / 32 && self.code.threads.is_none(),
        };
        let benign = race.is_benign();
        Finding { kind: FaultKind::Race(Box::new(race)), lane: p.lane, others: 0, benign }
    }

    /// Stops the group with the finding, or keeps a warning.
    pub(super) fn report(&mut self, g: &mut Group, access: &Access) {
        let Some(Finding { kind, lane, others, benign }) = self.finding.take() else { return };
        if benign {
            let stop = Stop { kind, span: access.span, lane, others };
            self.watch.warn(fault::fault(g, stop, self.watch.extents()));
        } else {
            stop_at(g, kind, access.span, lane, others);
        }
    }
}

/// Returns whether the current access is a write to the same element by another lane before this one, whose value is not in
/// memory yet.
fn writes_before(g: &Group, e: &Event<'_>, p: &Party, other: usize) -> bool {
    if e.note.touch != Touch::Store || other >= p.lane || !g.is_active(other) {
        return false;
    }
    // SAFETY: C5: the access is one of the code's, and the lane exists.
    let addr = unsafe { memory::address(g, e.access, other) };
    addr.is_some_and(|addr| e.cell(addr) == e.cell(p.addr))
}

/// Returns whether both values are known and equal.
fn same((value, other): (Option<Value>, Option<Value>)) -> bool {
    value.is_some_and(|v| other.is_some_and(|o| v.ty == o.ty && v.bits == o.bits))
}
