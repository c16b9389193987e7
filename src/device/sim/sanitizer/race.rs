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

/// A violated rule.
enum Wrong {
    Unwritten,
    /// A race with the access of this shadow word.
    With(u64, Deed),
}

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
        let finding = match self.wrong(e, p, me, words) {
            None => {
                // The conflict was with another lane of this access, whose word has been updated meanwhile.
                // SAFETY: the cell is that of an element of the event, and below the number of words of its planes.
                unsafe { note_cell(e, p.cell, me, p.lane, ONE) };
                return;
            }
            Some(Wrong::Unwritten) => {
                let place = place_text(g, e, p.addr, p.component);
                let space = if e.global { "out" } else { "shared" };
                Finding { kind: FaultKind::Unwritten { place, space }, lane: p.lane, others: 0, benign: false }
            }
            Some(Wrong::With(word, deed)) => {
                let other = self.other(e, p, word);
                let (finding, benign) = self.race(g, e, p, Clash { other, deed });
                if benign {
                    // SAFETY: the cell is that of an element of the event, and below the number of words of its planes.
                    unsafe { *e.planes.w.add(p.cell) = e.now.together(word, me) };
                }
                finding
            }
        };
        self.find(finding);
    }

    /// Returns the first violated rule.
    fn wrong(&self, e: &Event<'_>, p: &Party, me: u64, (w, r, a): (u64, u64, u64)) -> Option<Wrong> {
        let now: &Now = &e.now;
        let broken = |word: u64, deed: Deed| {
            let same = (word ^ me) & (now.thread | KIND) == 0;
            let ordered = match e.warps {
                true => now.ordered::<true>(word, me, p.lane, ONE),
                false => now.ordered::<false>(word, me, p.lane, ONE),
            };
            (!same && !ordered).then_some(Wrong::With(word, deed))
        };
        let unwritten = || (e.note.touch != Touch::Store && w < e.now.born).then_some(Wrong::Unwritten);
        match e.note.touch {
            Touch::Load => unwritten().or_else(|| broken(w, Deed::Writes)).or_else(|| broken(a, Deed::Updates)),
            Touch::Store => {
                // SAFETY: the cell is that of an element of the event, and below the number of words of its planes.
                let l = unsafe { e.planes.look(p.cell) };
                let plain = || broken(w, Deed::Writes).or_else(|| broken(r, Deed::Reads));
                plain().or_else(|| broken(a, Deed::Updates)).or_else(|| broken(l, Deed::Looks))
            }
            Touch::Look => unwritten().or_else(|| broken(w, Deed::Writes)),
            Touch::Atomic => unwritten().or_else(|| broken(w, Deed::Writes)).or_else(|| broken(r, Deed::Reads)),
        }
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

    /// Describes a race; returns also whether both threads write the same value.
    pub(super) fn race(&self, g: &Group, e: &Event<'_>, p: &Party, clash: Clash) -> (Finding, bool) {
        let Clash { other, deed: other_deed } = clash;
        let here = other.group == self.number;
        let note = e.watched.sites.get(other.site as usize).map(|&n| &self.code.notes[n as usize]);
        let other_access = note.map(|n| &self.code.accesses[n.access as usize]);
        let span = other_access.map_or(e.access.span, |a| a.span);
        let scalar = e.access.scalar;
        let stored = |lane: usize, k: usize| e.note.values.get(k).map(|&reg| read_value(g, reg, scalar, lane));
        let by_other = here && writes_before(g, e, p, other.lane);
        // For component `k`: the value of this thread, and the value that the other one wrote.
        let values = |k: usize| {
            let in_place = in_memory(p.addr.wrapping_add(k * scalar.size()), scalar);
            let value = match e.note.touch {
                Touch::Store => stored(p.lane, k),
                Touch::Load => Some(in_place),
                Touch::Atomic | Touch::Look => None,
            };
            let left = if by_other { stored(other.lane, k).unwrap_or(in_place) } else { in_place };
            (value, (other_deed == Deed::Writes).then_some(left))
        };
        // A word may cover all components of a vector: the values are equal if all components are.
        let all = if e.watched.whole { 0..e.note.components.max(1) as usize } else { p.component..p.component + 1 };
        let first = all.start;
        let both = e.note.touch == Touch::Store && other_deed == Deed::Writes;
        let differs = all.into_iter().find(|&k| both && !same(values(k)));
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
        (Finding { kind: FaultKind::Race(Box::new(race)), lane: p.lane, others: 0, benign }, benign)
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
