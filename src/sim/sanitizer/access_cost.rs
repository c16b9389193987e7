//! The memory costs of warps: bank conflicts of shared memory and sectors of global memory, counted for each execution
//! of an access by a warp.
//!
//! Input: access events of launches whose kernels were compiled for counting. Output: for each access, the most
//! expensive warp as a fault, with the count and two of its threads. Arrays are assumed to start at a sector and at
//! bank 0.

use super::checker::WorkerChecker;
use super::element_names::{element_name, field_path};
use crate::code::{AccessOperands, MemoryKind};
use crate::events::AccessSite;
use crate::fault;
use crate::geometry;
use crate::group::ThreadGroup;
use crate::memory::{self, MemoryRt};
use clk_ir::def::Ty;
use clk_ir::memory_transactions::{self, LaneAddress, SECTOR};
use clk_runtime::{Fault, FaultKind, PrintedText, ThreadId, WarpAccessCost};

impl WorkerChecker<'_> {
    /// Computes the cost of an access for each warp of a group, and keeps the most expensive warp.
    ///
    /// # Safety
    /// The access site belongs to the group's code and is not one of a local array.
    pub(super) unsafe fn count_cost(&mut self, g: &ThreadGroup, site: &AccessSite) {
        let Some(tile) = self.code.events.counted_warps else { return };
        let access = &self.code.accesses[site.access as usize];
        let mut lanes: Vec<(u64, usize, i128)> = vec![];
        // SAFETY: C5: the access and its memory belong to the code; active lanes exist (G2).
        let start = unsafe { (*g.memories.add(access.memory as usize)).ptr } as usize;
        for lane in g.active() {
            // SAFETY: as above.
            let Some(addr) = (unsafe { memory::address(g, access, lane) }) else { continue };
            let (warp, at) = geometry::warp_and_lane(
                g.shape.extents,
                g.shape.coordinates(lane),
                self.code.properties.threads.map(|_| tile),
            );
            lanes.push((warp * 32 + at, lane, (addr as usize - start) as i128));
        }
        lanes.sort_unstable();
        let index = site.access as usize;
        if self.worst_accesses.len() <= index {
            self.worst_accesses.resize(index + 1, None);
        }
        for warp in lanes.chunk_by(|a, b| a.0 / 32 == b.0 / 32) {
            let spots: Vec<LaneAddress> = warp
                .iter()
                .map(|&(at, _, addr)| LaneAddress { lane: (at % 32) as usize, origin: 0, at: addr })
                .collect();
            let Some(cost) = warp_cost(site, access, &spots, self.is_shared(access)) else { continue };
            if self.worst_accesses[index].as_ref().and_then(Fault::access_cost).is_none_or(|old| old.count < cost.count)
            {
                let lane_and_address = |spot: usize| (warp[spot].1, warp[spot].2);
                self.worst_accesses[index] = Some(self.cost_fault(
                    g,
                    site,
                    &cost,
                    [lane_and_address(cost.pair[0]), lane_and_address(cost.pair[1])],
                ));
            }
        }
    }

    fn is_shared(&self, access: &AccessOperands) -> bool {
        self.code.memories[access.memory as usize].kind == MemoryKind::Shared
    }

    fn cost_fault(&self, g: &ThreadGroup, site: &AccessSite, cost: &WarpCost, pair: [(usize, i128); 2]) -> Fault {
        let access = &self.code.accesses[site.access as usize];
        let def = &self.code.memories[access.memory as usize];
        // SAFETY: G4: each memory of the code has an entry.
        let memory: &MemoryRt = unsafe { &*g.memories.add(access.memory as usize) };
        let thread_id = |lane: usize| {
            let [x, y, z, batch] = g.shape.coordinates(lane).map(|c| c as u32);
            let (block, thread, index) = fault::launch_position(
                &self.code.properties,
                self.shared_state.extents(),
                g.position,
                [x, y, z],
                batch,
            );
            ThreadId { block, thread, index }
        };
        let place = |at: i128| {
            let within = at as usize % def.layout.size.max(1);
            element_name(&def.name, &memory.axes, at as usize) + &field_path(&def.layout, within, site.components == 1)
        };
        let [(lane, at), (other, other_at)] = pair;
        let (span, trace) = self.code.source.location(access.span);
        let ThreadId { block, thread, index } = thread_id(lane);
        let access_cost = WarpAccessCost {
            array: def.name.clone(),
            shared: self.is_shared(access),
            count: cost.count,
            threads: cost.threads,
            fewest: cost.min_count,
            bank: cost.bank,
            place: place(at),
            other: thread_id(other),
            other_place: place(other_at),
        };
        let kind = FaultKind::Crowd(Box::new(access_cost));
        Fault { kind, span, trace, block, thread, index, others: 0, output: PrintedText::new() }
    }
}

/// The cost of an access for one warp.
struct WarpCost {
    count: u32,
    /// The minimum number of transactions or sectors for this number of threads.
    min_count: u32,
    bank: u32,
    threads: u32,
    /// Two of the threads, as indices into the list of lane addresses.
    pair: [usize; 2],
}

fn warp_cost(site: &AccessSite, access: &AccessOperands, spots: &[LaneAddress], shared: bool) -> Option<WarpCost> {
    let ty = match site.components {
        0 | 1 => Ty::Scalar(access.scalar),
        lanes => Ty::Vector(access.scalar, lanes),
    };
    let atomic = site.kind.is_atomic();
    let threads = spots.len() as u32;
    let of = |(begin, size): (i128, i128)| {
        let addresses: Vec<LaneAddress> =
            spots.iter().map(|spot| LaneAddress { at: spot.at + begin, ..*spot }).collect();
        match shared {
            true => {
                let (count, bank) = memory_transactions::shared_transactions(&addresses, size, atomic);
                let pair = conflicting_threads(&addresses, size, bank, atomic);
                WarpCost { count, min_count: 1, bank: bank as u32, threads, pair }
            }
            false => {
                let fewest = (i128::from(threads) * size + SECTOR - 1) / SECTOR;
                let of = |spot: &LaneAddress| spot.at.div_euclid(SECTOR);
                let other = addresses.iter().position(|spot| of(spot) != of(&addresses[0])).unwrap_or(0);
                let count = memory_transactions::sector_count(&addresses, size);
                WarpCost { count, min_count: fewest as u32, bank: 0, threads, pair: [0, other] }
            }
        }
    };
    memory_transactions::split_access(ty, None).into_iter().map(of).max_by_key(|worst| worst.count)
}

/// Returns two threads that access different words of the same bank, as indices into `spots`; `[0, 0]` if there are no
/// two such threads.
fn conflicting_threads(spots: &[LaneAddress], size: i128, bank: i128, atomic: bool) -> [usize; 2] {
    for (i, a) in spots.iter().enumerate() {
        let other = |b: &LaneAddress| memory_transactions::shared_transactions(&[*a, *b], size, atomic).0 > 1;
        let wants = |spot: &LaneAddress| memory_transactions::touches_bank(spot, size, bank);
        if let Some(j) = spots[i + 1..].iter().position(|b| wants(a) && wants(b) && other(b)) {
            return [i, i + 1 + j];
        }
    }
    [0, 0]
}
