//! Accesses that the checker hears of.
//!
//! Input: an access to a memory that threads share. Output: words of the frame, which the setup fills in, and from which the entry
//! makes the pattern of all elements that the region's lanes touch, in all iterations of the loops around the access; or, in front of
//! the access, an instruction that tells the checker what the active lanes access there. The idea: who touches what is mostly known
//! without the body, and then one comparison of patterns stands for those of all lanes. It is known of all accesses of a region to a
//! memory or taken for unknown: a read tells whether something has been written before, and so comes behind the thread's own writes
//! of which the checker has heard.

use super::access::{Index, Leaf, View, Wide};
use super::form::{Linear, Sym};
use super::*;
use crate::device::sim::note::Touch;
use crate::ir::def::Place;

impl Builder<'_> {
    /// Writes the words of an access.
    pub(super) fn report(&mut self, place: &Place, indices: &[Index], checks: &[Check], store: bool) -> Option<()> {
        // All checks are made in the setup, so that elements are in bounds.
        let early = |check: &Check| check.op == Op::CheckRange || self.definitions.passes(check);
        if !self.is_steady() || !checks.iter().all(early) {
            return None;
        }
        let mut rows: Vec<(Linear, Wide)> = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let Index::Linear(form, _) = index else { return None };
            rows.push((form.clone(), self.pitch(place.memory, axis as u8)));
        }
        let offset = self.leaf(place)?.offset;
        let parts = self.parts(&rows);
        let of = |sym: Option<Sym>| parts.iter().find(|part| part.0 == sym).map_or(Wide::Imm(0), |part| part.1);
        let base = self.pure(Op::Input(Input::Base(place.memory)), Ty::I64, &[]);
        let offset = self.constant(Ty::I64, offset);
        let start = self.wide_op(Bin::Add, Some(base), offset);
        let constant = self.wide_value(of(None));
        let start = self.wide_op(Bin::Add, Some(start), constant);
        let mut words = vec![start];
        for axis in 0..3 {
            words.push(self.wide_value(of(Some(Sym::Axis(axis)))));
        }
        let counters: Vec<(Value, Value)> = self.loops.iter().filter_map(|l| l.counter).collect();
        if counters.len() > REPORTED_LOOPS {
            return None;
        }
        for &(counter, last) in &counters {
            words.push(last);
            words.push(self.wide_value(of(Some(Sym::Counter(counter)))));
        }
        if words.iter().any(|word| self.levels[word.index()] != 0) {
            return None;
        }
        let first = self.region.reports.len() as u32 * REPORT_WORDS;
        for (number, word) in (first..).zip(words) {
            self.region.setup.push(Inst::new(Op::Word(number), Value::NONE, &[word]));
        }
        if self.loops.is_empty() || self.nest != Some(self.nests) {
            self.nests += 1;
            self.nest = (!self.loops.is_empty()).then_some(self.nests);
        }
        self.region.reports.push(Report {
            memory: place.memory,
            store,
            note: self.region.touches.len() as u32 - 1,
            first,
            loops: counters.len() as u8,
            nest: self.nests,
        });
        Some(())
    }

    /// Tells the checker of an access in front of it.
    pub(super) fn tell(
        &mut self,
        place: &Place,
        indices: &[Index],
        checks: &mut Vec<Check>,
        touch: Touch,
    ) -> Option<()> {
        let Leaf { cell, count, offset, .. } = self.leaf(place)?;
        let target = self.target(place.memory, View::of(place.memory), indices, offset, cell, checks)?;
        // Nothing synchronizes threads within a region: what these lanes, or more of them, have written or read they may read again.
        let kind = |touch: Touch| {
            let op = Op::Touch(cell, target.form, u32::from(count) << 2 | touch as u32);
            (op, Ty::Mask, [target.address, target.offsets, Value::NONE])
        };
        let same: &[Touch] = if touch == Touch::Load { &[Touch::Load, Touch::Store] } else { &[touch] };
        let is_known = |key| self.known.iter().any(|(_, known)| known.contains_key(&key));
        if !touch.is_atomic() && same.iter().any(|&touch| is_known(kind(touch))) {
            return Some(());
        }
        self.remember(self.level(), kind(touch), Value::NONE);
        self.note_access(place.memory, target, checks);
        let number = self.region.touches.len() as u32 - 1;
        let args = [target.address, target.offsets];
        let args = if target.form.has_offsets() { &args[..] } else { &args[..1] };
        self.push(Inst::new(Op::Touch(cell, target.form, number), Value::NONE, args).under(self.mask));
        Some(())
    }

    /// Returns whether all lanes that entered make what comes here, in each iteration of all loops around it.
    fn is_steady(&self) -> bool {
        let always = |(number, scope): (usize, &LoopScope)| match self.loops.get(number + 1) {
            Some(inner) => inner.certain,
            None => self.depth == scope.depth && !scope.broken,
        };
        let first = match self.loops.first() {
            Some(outer) => outer.certain && outer.depth == 0 && outer.mask == self.entered,
            None => self.depth == 0 && self.certain,
        };
        let counted = self.loops.iter().all(|scope| scope.counter.is_some());
        first && counted && self.mask == self.entered && self.loops.iter().enumerate().all(always)
    }

    /// Ends the setup: the checker hears of all accesses. In a loop, loads come first, whose elements then have to be written before.
    pub(super) fn finish_reports(&mut self) {
        if !self.region.reports.is_empty() {
            self.region.reports.sort_by_key(|report| (report.nest, report.store));
            self.region.setup.push(Inst::new(Op::Report, Value::NONE, &[]));
        }
    }
}
