//! Verifier rules about paths: on every path, views are redirected and masks are computed before their uses. A forward
//! dataflow analysis computes, for each op, the views and masks that are available before it.

use super::registers::{CodeVerifier, OpEffects, VerifyResult};
use crate::code::{MaskId, Reg};
use crate::op_shape::OperandRole;
use crate::rule_violation::violation;

/// A bit set of views and masks.
type ViewMaskSet = Vec<u64>;

/// The bit positions in a [`ViewMaskSet`]: first the registers that may view memory, then the masks.
struct PathNumbering {
    views: Vec<Reg>,
    masks: usize,
}

impl PathNumbering {
    fn new(verifier: &CodeVerifier<'_>) -> PathNumbering {
        let mut views: Vec<Reg> = verifier.views.iter().copied().collect();
        views.sort_unstable();
        PathNumbering { views, masks: verifier.code.registers.masks.len() }
    }

    fn none(&self) -> ViewMaskSet {
        vec![0; (self.views.len() + self.masks).div_ceil(64)]
    }

    fn view(&self, reg: Reg) -> Option<usize> {
        self.views.binary_search(&reg).ok()
    }

    fn mask(&self, mask: MaskId) -> usize {
        self.views.len() + usize::from(mask)
    }
}

fn set_bit(set: &mut ViewMaskSet, item: usize, present: bool) {
    let bit = 1 << (item % 64);
    if present { set[item / 64] |= bit } else { set[item / 64] &= !bit }
}

fn has_bit(set: &ViewMaskSet, item: usize) -> bool {
    set[item / 64] >> (item % 64) & 1 != 0
}

/// Checks that views are redirected and masks are computed before their uses, on every path. `effects` contains the
/// effects of each op.
pub(super) fn defined(verifier: &CodeVerifier<'_>, effects: &[OpEffects]) -> VerifyResult {
    let items = PathNumbering::new(verifier);
    let before = flow(verifier, effects, &items);
    for (at, (set, effects)) in before.iter().zip(effects).enumerate() {
        // The op is unreachable, so there is nothing to check.
        let Some(set) = set else { continue };
        let name = verifier.shapes[at].name;
        let missing = |reg: &&Reg| items.view(**reg).is_some_and(|item| !has_bit(set, item));
        // The redirection by an `aim` op is one of the op's effects.
        if let Some(reg) = effects.reads.iter().find(missing) {
            return Err(violation(
                "C6 views",
                format!("register {reg} may not have been redirected in op {at}, `{name}`"),
            ));
        }
        if let Some(mask) = effects.masks.iter().find(|&&mask| !has_bit(set, items.mask(mask))) {
            return Err(violation("C2 masks", format!("mask {mask} may not have been computed in op {at}, `{name}`")));
        }
    }
    Ok(())
}

/// Returns, for each op, the views and masks that are available on every path to it; `None` for unreachable ops.
fn flow(verifier: &CodeVerifier<'_>, effects: &[OpEffects], items: &PathNumbering) -> Vec<Option<ViewMaskSet>> {
    let mut before: Vec<Option<ViewMaskSet>> = vec![None; effects.len()];
    let mut start = items.none();
    set_bit(&mut start, items.mask(0), true);
    before[0] = Some(start);
    let mut todo = vec![0];
    while let Some(at) = todo.pop() {
        let Some(mut set) = before[at].clone() else { continue };
        apply(verifier, &effects[at], items, &mut set);
        for next in verifier.next(at) {
            let mut set = set.clone();
            enter(verifier, at, next, items, &mut set);
            if let Some(old) = &before[next] {
                set.iter_mut().zip(old).for_each(|(new, old)| *new &= old);
            }
            if before[next].as_ref() != Some(&set) {
                before[next] = Some(set);
                todo.push(next);
            }
        }
    }
    before
}

fn apply(verifier: &CodeVerifier<'_>, effects: &OpEffects, items: &PathNumbering, set: &mut ViewMaskSet) {
    effects.writes.iter().for_each(|&reg| overwrite(verifier, reg, items, set));
    effects.redirects.iter().filter_map(|&reg| items.view(reg)).for_each(|item| set_bit(set, item, true));
    effects.computes.iter().for_each(|&mask| set_bit(set, items.mask(mask), true));
}

/// Applies a write to a register. If the register contains a mask, the mask is no longer available.
fn overwrite(verifier: &CodeVerifier<'_>, reg: Reg, items: &PathNumbering, set: &mut ViewMaskSet) {
    for (mask, _) in verifier.code.registers.masks.iter().enumerate().filter(|(_, of)| **of == reg) {
        set_bit(set, items.mask(mask as MaskId), false);
    }
}

/// Applies the effects of machine code to `set`, if control reaches `next` from `at` only after the machine code of a
/// region has run. The registers that the region writes then use their own memory.
fn enter(verifier: &CodeVerifier<'_>, at: usize, next: usize, items: &PathNumbering, set: &mut ViewMaskSet) {
    let op = verifier.ops[at];
    if verifier.shapes[at].y != OperandRole::Region || next != op.x as usize {
        return;
    }
    for written in verifier.code.regions.get(op.y as usize).iter().flat_map(|region| &region.writes) {
        overwrite(verifier, written.reg, items, set);
        items.view(written.reg).into_iter().for_each(|item| set_bit(set, item, true));
    }
}
