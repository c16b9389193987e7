//! Warps: which threads of a launch form a warp, and how many memory transactions one access of a warp needs.
//!
//! Input: the addresses of the active lanes. Output: the number of shared-memory transactions (more than necessary if
//! there are bank conflicts), or of sectors of global memory. Shared memory has 32 banks of 4 bytes; a transaction
//! reads at most one 4-byte word from each bank. Accesses of 8 bytes are processed per half-warp, accesses of 16 bytes
//! per quarter-warp. Global memory is transferred in sectors of 32 bytes.

use crate::def::{LaunchForm, Module, StmtKind, Ty};
use crate::visit::each_stmt;

/// Lanes per warp.
pub(crate) const LANES: usize = 32;
/// The size of a sector of global memory, in bytes.
pub const SECTOR: i128 = 32;
const WORD: i128 = 4;
const BANKS: i128 = 32;

/// The address of the element that a lane accesses, relative to a base address. `origin` identifies the base address.
/// Addresses with different `origin` are assumed to be in different sectors and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneAddress {
    pub lane: usize,
    pub origin: u32,
    /// The offset from the base address, in bytes.
    pub at: i128,
}

/// Returns the extents of a warp of a `threads` kernel along the last two axes. In two-dimensional kernels with a loop
/// that `break` ends, a warp is a tile of 16 x 2 indices. Such warps diverge less than 32 x 1 indices if the number of
/// iterations depends on the indices.
pub fn warp_tile(module: &Module) -> [u32; 2] {
    let LaunchForm::Threads { rank: 2 } = module.kernel.form else { return [32, 1] };
    let mut open = false;
    if let Some(body) = module.functions.get(module.kernel.body) {
        each_stmt(&body.body, &mut |stmt| open |= matches!(stmt.kind, StmtKind::Loop { .. }));
    }
    if open { [16, 2] } else { [32, 1] }
}

/// Splits an access of a thread into hardware accesses, as pairs of offset and size in bytes. A vector of 2 or 4 lanes
/// is one access if it has at most 16 bytes.
pub fn split_access(ty: Ty, component: Option<u8>) -> Vec<(i128, i128)> {
    let (size, lanes) = (ty.scalar().size() as i128, i128::from(ty.lanes()));
    if let Some(component) = component {
        return vec![(i128::from(component) * size, size)];
    }
    let piece_size = if lanes == 3 { size } else { (size * lanes).min(16) };
    (0..size * lanes / piece_size).map(|k| (k * piece_size, piece_size)).collect()
}

/// Returns the number of transactions of the slowest group of lanes, and the most contended bank of that group. The
/// lanes of `addresses` are in ascending order. Atomic operations on the same word are serialized.
pub fn shared_transactions(addresses: &[LaneAddress], size: i128, atomic: bool) -> (u32, i128) {
    let mut worst = (0, 0);
    for group in lane_groups(addresses, size) {
        let busiest = busiest(group, size, atomic);
        if busiest.0 > worst.0 {
            worst = busiest;
        }
    }
    worst
}

/// Returns the total number of transactions of all groups of lanes, and the number of groups. Without bank conflicts,
/// both are equal.
pub fn total_shared_transactions(addresses: &[LaneAddress], size: i128, atomic: bool) -> (u32, u32) {
    lane_groups(addresses, size).fold((0, 0), |(all, least), group| (all + busiest(group, size, atomic).0, least + 1))
}

/// Divides the lanes of a warp into the groups that the hardware processes together.
fn lane_groups(addresses: &[LaneAddress], size: i128) -> impl Iterator<Item = &[LaneAddress]> {
    let part = (LANES as i128 * WORD / size.max(WORD)) as usize;
    addresses.chunk_by(move |a, b| a.lane / part == b.lane / part)
}

/// Returns the number of transactions of one group, and the bank that needs the most transactions.
fn busiest(group: &[LaneAddress], size: i128, atomic: bool) -> (u32, i128) {
    let mut words: Vec<(i128, u32, i128, usize)> = vec![];
    for address in group {
        let (first, last) = (address.at.div_euclid(WORD), (address.at + size - 1).div_euclid(WORD));
        let lane = if atomic { address.lane } else { 0 };
        words.extend((first..=last).map(|word| (word.rem_euclid(BANKS), address.origin, word, lane)));
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

/// Returns whether the element at this address contains a word of the bank.
pub fn touches_bank(address: &LaneAddress, size: i128, bank: i128) -> bool {
    let (first, last) = (address.at.div_euclid(WORD), (address.at + size - 1).div_euclid(WORD));
    (first..=last).any(|word| word.rem_euclid(BANKS) == bank)
}

/// Returns the number of sectors of global memory that the access transfers.
pub fn sector_count(addresses: &[LaneAddress], size: i128) -> u32 {
    touched_sectors(addresses, size).len() as u32
}

/// Returns the sectors of global memory that the access transfers, as pairs of origin and sector number in ascending
/// order.
pub fn touched_sectors(addresses: &[LaneAddress], size: i128) -> Vec<(u32, i128)> {
    let sectors = |address: &LaneAddress| {
        let address = *address;
        let last = (address.at + size - 1).div_euclid(SECTOR);
        (address.at.div_euclid(SECTOR)..=last).map(move |sector| (address.origin, sector))
    };
    let mut all: Vec<(u32, i128)> = addresses.iter().flat_map(sectors).collect();
    all.sort_unstable();
    all.dedup();
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(at: impl Fn(i128) -> i128) -> Vec<LaneAddress> {
        (0..32).map(|lane| LaneAddress { lane, origin: 0, at: at(lane as i128) }).collect()
    }

    #[test]
    fn banks_serve_a_word_each() {
        let ways = |size, at: &dyn Fn(i128) -> i128| shared_transactions(&addresses(at), size, false).0;
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
        assert_eq!(shared_transactions(&addresses(|_| 0), 4, true).0, 32, "serialized");
        assert_eq!(shared_transactions(&addresses(|k| 4 * 32 * (k % 2)), 4, false), (2, 0));
    }

    #[test]
    fn sectors_have_32_bytes() {
        assert_eq!(sector_count(&addresses(|k| 4 * k), 4), 4);
        assert_eq!(sector_count(&addresses(|k| 4 * k + 4), 4), 5);
        assert_eq!(sector_count(&addresses(|k| 8 * k), 8), 8);
        assert_eq!(sector_count(&addresses(|_| 100), 4), 1);
        assert_eq!(sector_count(&addresses(|k| 400 * k), 4), 32);
    }

    #[test]
    fn vectors_are_one_access() {
        use clk_scalar::Scalar::{F32, F64};
        assert_eq!(split_access(Ty::Vector(F32, 4), None), [(0, 16)]);
        assert_eq!(split_access(Ty::Vector(F32, 3), None), [(0, 4), (4, 4), (8, 4)]);
        assert_eq!(split_access(Ty::Vector(F64, 4), None), [(0, 16), (16, 16)]);
        assert_eq!(split_access(Ty::Vector(F32, 4), Some(2)), [(8, 4)]);
        assert_eq!(split_access(Ty::Scalar(F64), None), [(0, 8)]);
    }
}
