//! A broken rule in words: who, where, with which values.

use rustc_hash::FxHashMap;

use super::Checker;
use super::order::Releases;
use super::rows::Now;
use super::touch::{Event, note_cell};
use super::word::{self, KIND, LANE_SHIFT, ONE};
use crate::device::sim::code::{Access, MemoryKind};
use crate::device::sim::fault::{self, Stop, stop_at};
use crate::device::sim::group::Group;
use crate::device::sim::lanes::slow::read_value;
use crate::device::sim::listen::Touch;
use crate::device::sim::memory::{Axis, MemoryRt};
use crate::device::{Deed, FaultKind, Race};
use crate::ir::def::Layout;
use crate::lang::scalar::{Scalar, Value};

/// The first thread's fault of an access, and how many others there are.
pub struct Finding {
    pub kind: FaultKind,
    pub lane: usize,
    pub others: u64,
    pub benign: bool,
}

/// One lane's part in an access.
pub struct Party {
    pub lane: usize,
    pub cell: usize,
    pub component: usize,
    pub addr: *mut u8,
}

/// What lanes have written in this very access: it is not in memory yet.
#[derive(Default)]
pub struct Written {
    lanes: FxHashMap<usize, usize>,
}

impl Written {
    pub fn note(&mut self, cell: usize, lane: usize) {
        self.lanes.insert(cell, lane);
    }
}

/// What is wrong.
enum Wrong {
    Unwritten,
    /// With what this word stands for.
    With(u64, Deed),
}

fn deed(touch: Touch) -> Deed {
    match touch {
        Touch::Load => Deed::Reads,
        Touch::Store => Deed::Writes,
        Touch::Atomic => Deed::Updates,
    }
}

impl Checker<'_> {
    /// An element for which the fast rules do not hold, or that fences may have to do with.
    pub(super) unsafe fn doubtful(&mut self, g: &Group, e: &Event<'_>, p: &Party, written: &mut Written) {
        let me = e.now.own | (p.lane as u64) << LANE_SHIFT;
        let words = unsafe { e.planes.words(p.cell) };
        let wrong = self.wrong(e, p, me, words);
        let Some(wrong) = wrong else { return unsafe { self.right(e, p, me, words, written) } };
        let finding = match wrong {
            Wrong::Unwritten => {
                let place = place_text(g, e, p.addr, p.component);
                let space = if e.global { "out" } else { "shared" };
                Finding { kind: FaultKind::Unwritten { place, space }, lane: p.lane, others: 0, benign: false }
            }
            Wrong::With(other, deed) => {
                let race = self.race(g, e, p, (other, deed), written);
                let benign = race.is_benign();
                if benign {
                    // SAFETY: the cell is in the planes.
                    unsafe { *e.planes.w.add(p.cell) = me };
                    written.note(p.cell, p.lane);
                }
                Finding { kind: FaultKind::Race(Box::new(race)), lane: p.lane, others: 0, benign }
            }
        };
        match &mut self.finding {
            None => self.finding = Some(finding),
            Some(first) if first.benign && !finding.benign => *first = finding,
            Some(first) => first.others += u64::from(first.benign == finding.benign),
        }
    }

    /// The first rule that is broken.
    fn wrong(&self, e: &Event<'_>, p: &Party, me: u64, (w, r, a): (u64, u64, u64)) -> Option<Wrong> {
        let broken = |word: u64, deed: Deed| self.unordered(e, p, me, word, deed).map(|word| Wrong::With(word, deed));
        let unwritten = || (e.note.touch != Touch::Store && w < e.now.born).then_some(Wrong::Unwritten);
        match e.note.touch {
            Touch::Load => unwritten().or_else(|| broken(w, Deed::Writes)).or_else(|| broken(a, Deed::Updates)),
            Touch::Store => {
                broken(w, Deed::Writes).or_else(|| broken(r, Deed::Reads)).or_else(|| broken(a, Deed::Updates))
            }
            Touch::Atomic => unwritten().or_else(|| broken(w, Deed::Writes)).or_else(|| broken(r, Deed::Reads)),
        }
    }

    /// A thread of a word that is not this one and not ordered before it.
    fn unordered(&self, e: &Event<'_>, p: &Party, me: u64, word: u64, deed: Deed) -> Option<u64> {
        let now: &Now = &e.now;
        let same = (word ^ me) & (now.thread | KIND) == 0;
        let ordered = match e.warps {
            true => now.ordered::<true>(word, me, p.lane, ONE),
            false => now.ordered::<false>(word, me, p.lane, ONE),
        };
        if same || ordered {
            return None;
        }
        if !now.listing {
            return Some(word);
        }
        let key = self.key(e, p.cell);
        let releases = self.watch.releases.lock().unwrap_or_else(|e| e.into_inner());
        let listed = if word & KIND == ONE { &[] } else { releases.listed(key, deed) };
        // The word's own thread stands for itself; the others are listed.
        let own = word & !KIND;
        let own = if listed.is_empty() { word } else { own };
        std::iter::once(own).chain(listed.iter().copied()).find(|&w| !self.is_behind(&releases, e, p, me, w, deed))
    }

    /// Whether a word is this thread's own, or ordered before it, be it by fences and atomics.
    fn is_behind(&self, releases: &Releases, e: &Event<'_>, p: &Party, me: u64, word: u64, deed: Deed) -> bool {
        let same = (word ^ me) & (e.now.thread | KIND) == 0;
        same || e.now.ordered::<true>(word, me, p.lane, ONE) || self.released(releases, e, p.lane, word, deed)
    }

    /// All is well after all: notes the access.
    unsafe fn right(&mut self, e: &Event<'_>, p: &Party, me: u64, words: (u64, u64, u64), written: &mut Written) {
        let (key, touch) = (self.key(e, p.cell), e.note.touch);
        let joined = match touch {
            Touch::Load => Some((words.1, e.planes.r, Deed::Reads)),
            Touch::Atomic => Some((words.2, e.planes.a, Deed::Updates)),
            Touch::Store => None,
        };
        let Some((old, plane, deed)) = joined else {
            // SAFETY: the cell is in the planes.
            unsafe { *e.planes.w.add(p.cell) = me };
            if e.now.listing {
                self.watch.releases.lock().unwrap_or_else(|e| e.into_inner()).forget(key);
            }
            return written.note(p.cell, p.lane);
        };
        if plane.is_null() {
            return;
        }
        let (_, new) = match e.warps {
            true => e.now.read::<true, true>((words.0, old, 0), me, p.lane, ONE),
            false => e.now.read::<true, false>((words.0, old, 0), me, p.lane, ONE),
        };
        if e.now.listing && new & KIND != ONE {
            let mut releases = self.watch.releases.lock().unwrap_or_else(|e| e.into_inner());
            let behind = |&word: &u64| self.is_behind(&releases, e, p, me, word, deed);
            // Those who poll are too many to ask each time.
            if touch == Touch::Load && behind(&(old & !KIND)) && releases.listed(key, deed).iter().all(behind) {
                // All of before is ordered before this one, which now stands for all.
                releases.forget_one(key, deed);
                // SAFETY: as above.
                return unsafe { *plane.add(p.cell) = me };
            }
            releases.list(key, deed, old & !KIND);
        }
        // SAFETY: as above.
        unsafe { *plane.add(p.cell) = new };
        if touch == Touch::Atomic && e.note.overwrites && words.0 < e.born {
            unsafe { note_cell(e, p.cell, me, p.lane, ONE) };
        }
    }

    fn race(&self, g: &Group, e: &Event<'_>, p: &Party, (other, other_deed): (u64, Deed), written: &Written) -> Race {
        let group = if e.global { word::group(other) } else { self.number };
        let here = if e.global { word::group(e.now.own) } else { self.number };
        let mut lane = word::lane(other);
        if lane == p.lane && group == here {
            // A word of several threads names the one that came last.
            lane = if lane == 0 { 1 } else { lane - 1 };
        }
        let note = e.watched.sites.get(word::site(other)).map(|&n| &self.code.notes[n as usize]);
        let other_access = note.map(|n| &self.code.accesses[n.access as usize]);
        let span = other_access.map_or(e.access.span, |a| a.span);
        let scalar = e.access.scalar;
        let element = p.addr.wrapping_add(p.component * scalar.size());
        let in_place = in_memory(element, scalar);
        let stored = |lane: usize| e.note.values.get(p.component).map(|&reg| read_value(g, reg, scalar, lane));
        let value = match e.note.touch {
            Touch::Store => stored(p.lane),
            Touch::Load => Some(in_place),
            Touch::Atomic => None,
        };
        let other_value = match other_deed {
            Deed::Writes => Some(match written.lanes.get(&p.cell) {
                Some(&writer) if writer == lane && group == here => stored(writer).unwrap_or(in_place),
                _ => in_place,
            }),
            Deed::Reads | Deed::Updates => None,
        };
        Race {
            place: place_text(g, e, p.addr, p.component),
            shared: !e.global,
            deed: deed(e.note.touch),
            value,
            other: self.watch.who(group, lane),
            other_deed,
            other_value,
            other_span: self.code.place(span).0,
            same_block: group == here && self.code.threads.is_none(),
            same_warp: group == here && lane / 32 == p.lane / 32 && self.code.threads.is_none(),
        }
    }

    /// Stops the group for what was found, or keeps a warning.
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

/// What an element holds.
pub fn in_memory(addr: *const u8, scalar: Scalar) -> Value {
    // SAFETY: the address was checked against the memory's extents. Bytes that others write at the same time are some bytes.
    let bytes = unsafe { std::slice::from_raw_parts(addr, scalar.size()) };
    Value::from_bytes(scalar, bytes)
}

/// `s[3, 4]` for the element at a byte offset.
pub fn element_text(name: &str, axes: &[Axis], offset: usize) -> String {
    if axes.is_empty() {
        return name.to_string();
    }
    let mut rest = offset as i64;
    let mut indices = Vec::with_capacity(axes.len());
    for axis in axes {
        let pitch = axis.pitch.max(1);
        indices.push((rest / pitch).to_string());
        rest %= pitch;
    }
    format!("{name}[{}]", indices.join(", "))
}

/// With the field and the component, where an element has such.
pub fn place_text(g: &Group, e: &Event<'_>, addr: *const u8, component: usize) -> String {
    let number = e.access.memory as usize;
    // SAFETY: there is one for each memory of the code.
    let memory: &MemoryRt = unsafe { &*g.memories.add(number) };
    let def = &g.code().memories[number];
    let offset = addr as usize - memory.ptr as usize;
    let within = offset % def.layout.size.max(1) + component * e.access.scalar.size();
    let one = e.note.components == 1 || !e.watched.whole;
    element_text(&def.name, &memory.axes, offset) + &path_text(&def.layout, within, one)
}

/// `.mass`, `.pos.x`
fn path_text(layout: &Layout, within: usize, one: bool) -> String {
    let Some(leaf) = layout.leaves.iter().rfind(|l| l.offset <= within) else { return String::new() };
    let mut path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
    let component = (within - leaf.offset) / leaf.ty.scalar().size().max(1);
    if leaf.ty.lanes() > 1 && one {
        path.push('.');
        path.push(['x', 'y', 'z', 'w'][component.min(3)]);
    }
    path
}

/// An element of a local array.
pub fn local_text(g: &Group, access: &Access, lane: usize, _component: usize) -> String {
    let number = access.memory as usize;
    debug_assert_eq!(g.code().memories[number].kind, MemoryKind::Local);
    // SAFETY: there is one for each memory of the code, and the access is one of the code's.
    let (memory, addr) = unsafe { (&*g.memories.add(number), crate::device::sim::memory::address(g, access, lane)) };
    let offset = addr.map_or(0, |a| a as usize - memory.ptr as usize);
    element_text(&g.code().memories[number].name, &memory.axes, offset)
}
