//! Emits code that reports accesses of shared memory to the sanitizer.
//!
//! Input: an access to a memory that threads share. Output: either setup code that describes all elements that the
//! access reads or writes (a [`HoistedReport`]), or an instruction before the access that reports the active lanes'
//! elements. Main idea: the setup can usually compute the addresses and strides of all accesses. Comparing these
//! patterns once replaces checks in each lane. For one memory, either all accesses are reported in the setup or none;
//! see `docs/internals/jit.md`.

use super::access::{AddressBase, AxisIndex, LeafAccess, WideOperand};
use super::affine_form::{FormSymbol, LaneAffine};
use super::*;
use crate::access_site::AccessKind;
use clk_ir::def::Place;

impl RegionBuilder<'_> {
    /// Emits setup code that writes the words of a hoisted report. Returns `None` if the access cannot be reported in
    /// the setup.
    pub(super) fn hoist_report(
        &mut self,
        place: &Place,
        indices: &[AxisIndex],
        checks: &[LaneCheck],
        store: bool,
    ) -> Option<()> {
        // All bounds checks must be in the setup too, so that the reported elements are in bounds.
        let early = |check: &LaneCheck| check.op == LaneOp::CheckRange || self.definitions.passes(check);
        if !self.flow.is_unconditional() || !checks.iter().all(early) {
            return None;
        }
        let mut rows: Vec<(LaneAffine, WideOperand)> = vec![];
        for (axis, index) in indices.iter().enumerate() {
            let AxisIndex::Affine(form, _) = index else { return None };
            rows.push((form.clone(), self.pitch(place.memory, axis as u8)));
        }
        let offset = self.leaf(place)?.offset;
        let parts = self.parts(&rows);
        let of = |sym: Option<FormSymbol>| {
            parts.iter().find(|part| part.0 == sym).map_or(WideOperand::Imm(0), |part| part.1)
        };
        let base = self.pure(LaneOp::Input(RegionInput::BaseAddress(place.memory)), LaneTy::I64, &[]);
        let offset = self.constant(LaneTy::I64, offset);
        let start = self.wide_op(LaneBinOp::Add, Some(base), offset);
        let constant = self.wide_value(of(None));
        let start = self.wide_op(LaneBinOp::Add, Some(start), constant);
        let mut words = vec![start];
        for axis in 0..3 {
            words.push(self.wide_value(of(Some(FormSymbol::Axis(axis)))));
        }
        let counters: Vec<(LaneValue, LaneValue)> = self.flow.loops.iter().filter_map(|l| l.counter).collect();
        if counters.len() > REPORTED_LOOPS {
            return None;
        }
        for &(counter, last) in &counters {
            words.push(last);
            words.push(self.wide_value(of(Some(FormSymbol::Counter(counter)))));
        }
        if words.iter().any(|word| self.levels[word.index()] != 0) {
            return None;
        }
        let first = self.region.reports.len() as u32 * REPORT_WORDS;
        for (number, word) in (first..).zip(words) {
            self.region.setup.push(LaneInst::new(LaneOp::ReportWord(number), LaneValue::NONE, &[word]));
        }
        let nest = self.nests.nest_of_report(!self.flow.loops.is_empty());
        self.region.reports.push(HoistedReport {
            memory: place.memory,
            store,
            note: self.region.checked_accesses.len() as u32 - 1,
            first,
            loops: counters.len() as u8,
            nest,
        });
        Some(())
    }

    /// Emits an instruction that reports an access to the sanitizer before it happens.
    pub(super) fn report_on_access(
        &mut self,
        place: &Place,
        indices: &[AxisIndex],
        checks: &mut Vec<LaneCheck>,
        touch: AccessKind,
    ) -> Option<()> {
        let LeafAccess { cell, count, offset, .. } = self.leaf(place)?;
        let target =
            self.access_address(place.memory, AddressBase::for_memory(place.memory), indices, offset, cell, checks)?;
        // Nothing in a region synchronizes threads, so a read needs no report if the same lanes have already reported
        // an access to the element.
        let kind = |touch: AccessKind| {
            let op = LaneOp::ReportAccess(cell, target.form, u32::from(count) << 2 | touch as u32);
            (op, LaneTy::Mask, [target.address, target.offsets, LaneValue::NONE])
        };
        let same: &[AccessKind] =
            if touch == AccessKind::Load { &[AccessKind::Load, AccessKind::Store] } else { &[touch] };
        let is_known = |key| self.numbering.iter().any(|(_, known)| known.contains_key(&key));
        if !touch.is_atomic() && same.iter().any(|&touch| is_known(kind(touch))) {
            return Some(());
        }
        self.remember(self.level(), kind(touch), LaneValue::NONE);
        self.add_access_checks(place.memory, target, checks);
        let number = self.region.checked_accesses.len() as u32 - 1;
        let args = [target.address, target.offsets];
        let args = if target.form.has_offsets() { &args[..] } else { &args[..1] };
        self.push(
            LaneInst::new(LaneOp::ReportAccess(cell, target.form, number), LaneValue::NONE, args)
                .with_mask(self.flow.mask),
        );
        Some(())
    }

    /// Ends the setup with the instruction that submits all reports. Within each outermost loop, loads are reported
    /// before stores: their elements must have been written before the loop.
    pub(super) fn finish_reports(&mut self) {
        if !self.region.reports.is_empty() {
            self.region.reports.sort_by_key(|report| (report.nest, report.store));
            self.region.setup.push(LaneInst::new(LaneOp::SubmitReports, LaneValue::NONE, &[]));
        }
    }
}
