//! The rules of the verifier that hold along paths: what has been computed in front of an op.

use super::base::{Effects, Verdict, Verifier};
use crate::device::sim::code::{MaskId, Reg};
use crate::device::sim::shape::Word;

/// A set of views and masks.
type Set = Vec<u64>;

/// Numbers the registers that may view memory, and the masks.
struct Items {
    views: Vec<Reg>,
    masks: usize,
}

impl Items {
    fn new(verifier: &Verifier<'_>) -> Items {
        let mut views: Vec<Reg> = verifier.views.iter().copied().collect();
        views.sort_unstable();
        Items { views, masks: verifier.code.masks.len() }
    }

    fn none(&self) -> Set {
        vec![0; (self.views.len() + self.masks).div_ceil(64)]
    }

    fn view(&self, reg: Reg) -> Option<usize> {
        self.views.binary_search(&reg).ok()
    }

    fn mask(&self, mask: MaskId) -> usize {
        self.views.len() + usize::from(mask)
    }
}

fn put(set: &mut Set, item: usize, present: bool) {
    let bit = 1 << (item % 64);
    if present { set[item / 64] |= bit } else { set[item / 64] &= !bit }
}

fn has(set: &Set, item: usize) -> bool {
    set[item / 64] >> (item % 64) & 1 != 0
}

/// Checks that views are redirected and masks computed before they are used, on every path. `effects` are those of each op.
pub(super) fn defined(verifier: &Verifier<'_>, effects: &[Effects]) -> Verdict {
    let items = Items::new(verifier);
    let before = flow(verifier, effects, &items);
    for (at, (set, effects)) in before.iter().zip(effects).enumerate() {
        // Control does not get there.
        let Some(set) = set else { continue };
        let name = verifier.shapes[at].name;
        let missing = |reg: &&Reg| items.view(**reg).is_some_and(|item| !has(set, item));
        // What aims a register is among the effects of the op that does so.
        if let Some(reg) = effects.reads.iter().find(missing) {
            return Err(format!("C6 views: register {reg} may not have been redirected in op {at}, `{name}`"));
        }
        if let Some(mask) = effects.masks.iter().find(|&&mask| !has(set, items.mask(mask))) {
            return Err(format!("C2 masks: mask {mask} may not have been computed in op {at}, `{name}`"));
        }
    }
    Ok(())
}

/// Returns what is redirected and computed in front of each op, whichever way control has come.
fn flow(verifier: &Verifier<'_>, effects: &[Effects], items: &Items) -> Vec<Option<Set>> {
    let mut before: Vec<Option<Set>> = vec![None; effects.len()];
    let mut start = items.none();
    put(&mut start, items.mask(0), true);
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

fn apply(verifier: &Verifier<'_>, effects: &Effects, items: &Items, set: &mut Set) {
    effects.writes.iter().for_each(|&reg| overwrite(verifier, reg, items, set));
    effects.redirects.iter().filter_map(|&reg| items.view(reg)).for_each(|item| put(set, item, true));
    effects.computes.iter().for_each(|&mask| put(set, items.mask(mask), true));
}

/// A register has been written: if it is a mask's, that is no mask any more.
fn overwrite(verifier: &Verifier<'_>, reg: Reg, items: &Items, set: &mut Set) {
    for (mask, _) in verifier.code.masks.iter().enumerate().filter(|(_, of)| **of == reg) {
        put(set, items.mask(mask as MaskId), false);
    }
}

/// The effects of machine code, if control gets from an op to another one by it: it gives what it writes the registers' own memory.
fn enter(verifier: &Verifier<'_>, at: usize, next: usize, items: &Items, set: &mut Set) {
    let op = verifier.ops[at];
    if verifier.shapes[at].y != Word::Region || next != op.x as usize {
        return;
    }
    for written in verifier.code.regions.get(op.y as usize).iter().flat_map(|region| &region.writes) {
        overwrite(verifier, written.reg, items, set);
        items.view(written.reg).into_iter().for_each(|item| put(set, item, true));
    }
}
