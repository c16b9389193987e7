//! Warps: which threads of a launch form one, and what an access that they make together costs a GPU.
//!
//! Input: for each lane of a warp that takes part, the address of its element. Output: passes of shared memory, and sectors of global
//! memory. Shared memory has 32 banks of 4 bytes; a pass takes one word of each, for as many lanes as want it. Wide elements are taken in
//! parts: by half a warp if they have 8 bytes, by a quarter if they have 16. Global memory is moved in sectors of 32 bytes.

use crate::ir::def::{Form, Module, StmtKind, Ty};
use crate::ir::visit::each_stmt;

/// Lanes of a warp.
pub(crate) const LANES: usize = 32;
/// Bytes of a sector, and of a word of a bank.
pub const SECTOR: i128 = 32;
const WORD: i128 = 4;
const BANKS: i128 = 32;

/// Where the element of a lane is: addresses of one `origin` have known distances, those of two are far apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    pub lane: usize,
    pub origin: u32,
    /// In bytes.
    pub at: i128,
}

/// Returns how many adjacent indices of a `threads` kernel form a warp, along the last axis and the one before. Squares diverge less where
/// the number of iterations depends on the index.
pub fn tile(module: &Module) -> [u32; 2] {
    let Form::Threads { rank: 2 } = module.kernel.form else { return [32, 1] };
    let mut open = false;
    if let Some(body) = module.functions.get(module.kernel.body) {
        each_stmt(&body.body, &mut |stmt| open |= matches!(stmt.kind, StmtKind::Loop { .. }));
    }
    if open { [16, 2] } else { [32, 1] }
}

/// Returns the accesses that one of these elements takes: the bytes from the element on where each begins, and its size. A vector of 2 or 4
/// is one, up to 16 bytes.
pub fn pieces(ty: Ty, component: Option<u8>) -> Vec<(i128, i128)> {
    let (size, lanes) = (ty.scalar().size() as i128, i128::from(ty.lanes()));
    if let Some(component) = component {
        return vec![(i128::from(component) * size, size)];
    }
    let each = if lanes == 3 { size } else { (size * lanes).min(16) };
    (0..size * lanes / each).map(|k| (k * each, each)).collect()
}

/// Returns the passes of shared memory that the worst part of a warp takes, and the bank that takes the most; the lanes of `spots` ascend. Atomic
/// operations on one word take a pass each.
pub fn passes(spots: &[Spot], size: i128, atomic: bool) -> (u32, i128) {
    let mut worst = (0, 0);
    for group in parts(spots, size) {
        let busiest = busiest(group, size, atomic);
        if busiest.0 > worst.0 {
            worst = busiest;
        }
    }
    worst
}

/// Returns the passes of shared memory that all parts of a warp take together, and how many parts there are, which is the least that they
/// could take.
pub fn all_passes(spots: &[Spot], size: i128, atomic: bool) -> (u32, u32) {
    parts(spots, size).fold((0, 0), |(all, least), group| (all + busiest(group, size, atomic).0, least + 1))
}

/// Divides the lanes of a warp into parts whose elements may fill all banks.
fn parts(spots: &[Spot], size: i128) -> impl Iterator<Item = &[Spot]> {
    let part = (LANES as i128 * WORD / size.max(WORD)) as usize;
    spots.chunk_by(move |a, b| a.lane / part == b.lane / part)
}

/// Returns the passes of one part, and the bank that takes them.
fn busiest(group: &[Spot], size: i128, atomic: bool) -> (u32, i128) {
    let mut words: Vec<(i128, u32, i128, usize)> = vec![];
    for spot in group {
        let (first, last) = (spot.at.div_euclid(WORD), (spot.at + size - 1).div_euclid(WORD));
        let own = if atomic { spot.lane } else { 0 };
        words.extend((first..=last).map(|word| (word.rem_euclid(BANKS), spot.origin, word, own)));
    }
    words.sort_unstable();
    words.dedup();
    let mut worst = (0, 0);
    for bank in words.chunk_by(|a, b| a.0 == b.0) {
        if bank.len() as u32 > worst.0 {
            worst = (bank.len() as u32, bank[0].0);
        }
    }
    worst
}

/// Returns whether an element has a word of a bank.
pub fn wants(spot: &Spot, size: i128, bank: i128) -> bool {
    let (first, last) = (spot.at.div_euclid(WORD), (spot.at + size - 1).div_euclid(WORD));
    (first..=last).any(|word| word.rem_euclid(BANKS) == bank)
}

/// Returns the number of sectors of global memory.
pub fn sectors(spots: &[Spot], size: i128) -> u32 {
    sectors_of(spots, size).len() as u32
}

/// Returns the sectors of global memory, by origin, in ascending order.
pub fn sectors_of(spots: &[Spot], size: i128) -> Vec<(u32, i128)> {
    let of = |spot: &Spot| {
        let spot = *spot;
        let last = (spot.at + size - 1).div_euclid(SECTOR);
        (spot.at.div_euclid(SECTOR)..=last).map(move |sector| (spot.origin, sector))
    };
    let mut all: Vec<(u32, i128)> = spots.iter().flat_map(of).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spots(at: impl Fn(i128) -> i128) -> Vec<Spot> {
        (0..32).map(|lane| Spot { lane, origin: 0, at: at(lane as i128) }).collect()
    }

    #[test]
    fn banks_serve_a_word_each() {
        let ways = |size, at: &dyn Fn(i128) -> i128| passes(&spots(at), size, false).0;
        assert_eq!(ways(4, &|k| 4 * k), 1);
        assert_eq!(ways(4, &|_| 12), 1, "all lanes read one word");
        assert_eq!(ways(4, &|k| 8 * k), 2);
        assert_eq!(ways(4, &|k| 4 * 32 * k), 32);
        assert_eq!(ways(4, &|k| 4 * 33 * k), 1);
        assert_eq!(ways(1, &|k| k), 1, "four bytes of a word");
        assert_eq!(ways(2, &|k| 64 * 2 * k), 32);
        assert_eq!(ways(8, &|k| 8 * k), 1, "halves of a warp");
        assert_eq!(ways(8, &|k| 8 * 16 * k), 16);
        assert_eq!(ways(16, &|k| 16 * k), 1, "quarters of a warp");
        assert_eq!(passes(&spots(|_| 0), 4, true).0, 32, "one after the other");
        assert_eq!(passes(&spots(|k| 4 * 32 * (k % 2)), 4, false), (2, 0));
    }

    #[test]
    fn sectors_have_32_bytes() {
        assert_eq!(sectors(&spots(|k| 4 * k), 4), 4);
        assert_eq!(sectors(&spots(|k| 4 * k + 4), 4), 5);
        assert_eq!(sectors(&spots(|k| 8 * k), 8), 8);
        assert_eq!(sectors(&spots(|_| 100), 4), 1);
        assert_eq!(sectors(&spots(|k| 400 * k), 4), 32);
    }

    #[test]
    fn vectors_are_taken_at_once() {
        use crate::lang::scalar::Scalar::{F32, F64};
        assert_eq!(pieces(Ty::Vector(F32, 4), None), [(0, 16)]);
        assert_eq!(pieces(Ty::Vector(F32, 3), None), [(0, 4), (4, 4), (8, 4)]);
        assert_eq!(pieces(Ty::Vector(F64, 4), None), [(0, 16), (16, 16)]);
        assert_eq!(pieces(Ty::Vector(F32, 4), Some(2)), [(8, 4)]);
        assert_eq!(pieces(Ty::Scalar(F64), None), [(0, 8)]);
    }
}
