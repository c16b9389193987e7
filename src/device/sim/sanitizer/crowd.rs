//! What the accesses of warps cost: passes of shared memory and sectors of global memory, counted for each access and warp.
//!
//! Input: the events of accesses, in launches of kernels that were prepared for it. Output: for each access of the code its worst warp, as
//! a fault with the number and two of the threads. Arrays count as aligned to whole sectors and banks.

use super::checker::Checker;
use super::text::{element_text, path_text};
use crate::device::sim::code::{Access, MemoryKind};
use crate::device::sim::events::Note;
use crate::device::sim::fault;
use crate::device::sim::geometry;
use crate::device::sim::group::Group;
use crate::device::sim::memory::{self, MemoryRt};
use crate::device::{Crowd, Fault, FaultKind, Output, Who};
use crate::ir::def::Ty;
use crate::ir::warps::{self, SECTOR, Spot};

impl Checker<'_> {
    /// Counts what the warps of a group pay for an access.
    ///
    /// # Safety
    /// The note is one of the group's code, not of a local array.
    pub(super) unsafe fn crowded(&mut self, g: &Group, note: &Note) {
        let Some(tile) = self.code.counted else { return };
        let access = &self.code.accesses[note.access as usize];
        let mut lanes: Vec<(u64, usize, i128)> = vec![];
        // SAFETY: C5: the access and its memory are the code's; active lanes exist (G2).
        let start = unsafe { (*g.memories.add(access.memory as usize)).ptr } as usize;
        for lane in g.active() {
            // SAFETY: as above.
            let Some(addr) = (unsafe { memory::address(g, access, lane) }) else { continue };
            let (warp, at) = geometry::warp(g.shape, g.coordinates(lane), self.code.threads.map(|_| tile));
            lanes.push((warp * 32 + at, lane, (addr as usize - start) as i128));
        }
        lanes.sort_unstable();
        let known = note.access as usize;
        if self.crowds.len() <= known {
            self.crowds.resize(known + 1, None);
        }
        for warp in lanes.chunk_by(|a, b| a.0 / 32 == b.0 / 32) {
            let spots: Vec<Spot> =
                warp.iter().map(|&(at, _, addr)| Spot { lane: (at % 32) as usize, origin: 0, at: addr }).collect();
            let Some(found) = worst(note, access, &spots, self.shares(access)) else { continue };
            if self.crowds[known].as_ref().and_then(Fault::crowd).is_none_or(|old| old.count < found.count) {
                let of = |spot: usize| (warp[spot].1, warp[spot].2);
                self.crowds[known] = Some(self.crowd(g, note, &found, [of(found.pair[0]), of(found.pair[1])]));
            }
        }
    }

    fn shares(&self, access: &Access) -> bool {
        self.code.memories[access.memory as usize].kind == MemoryKind::Shared
    }

    fn crowd(&self, g: &Group, note: &Note, found: &Worst, pair: [(usize, i128); 2]) -> Fault {
        let access = &self.code.accesses[note.access as usize];
        let def = &self.code.memories[access.memory as usize];
        // SAFETY: G4: there is one for each memory of the code.
        let memory: &MemoryRt = unsafe { &*g.memories.add(access.memory as usize) };
        let who = |lane: usize| {
            let [x, y, z, batch] = g.coordinates(lane).map(|c| c as u32);
            let (block, thread, index) =
                fault::terms(self.code, self.watch.extents(), g.block, g.first_index, [x, y, z], batch);
            Who { block, thread, index }
        };
        let place = |at: i128| {
            let within = at as usize % def.layout.size.max(1);
            element_text(&def.name, &memory.axes, at as usize) + &path_text(&def.layout, within, note.components == 1)
        };
        let [(lane, at), (other, other_at)] = pair;
        let (span, trace) = self.code.place(access.span);
        let Who { block, thread, index } = who(lane);
        let crowd = Crowd {
            array: def.name.clone(),
            shared: self.shares(access),
            count: found.count,
            threads: found.threads,
            fewest: found.fewest,
            bank: found.bank,
            place: place(at),
            other: who(other),
            other_place: place(other_at),
        };
        let kind = FaultKind::Crowd(Box::new(crowd));
        Fault { kind, span, trace, block, thread, index, others: 0, output: Output::new() }
    }
}

/// What an access costs one warp.
struct Worst {
    count: u32,
    /// What as many threads need at least.
    fewest: u32,
    bank: u32,
    threads: u32,
    /// Two of the threads, by their place in the list.
    pair: [usize; 2],
}

fn worst(note: &Note, access: &Access, spots: &[Spot], shared: bool) -> Option<Worst> {
    let ty = match note.components {
        0 | 1 => Ty::Scalar(access.scalar),
        lanes => Ty::Vector(access.scalar, lanes),
    };
    let atomic = note.touch.is_atomic();
    let threads = spots.len() as u32;
    let of = |(begin, size): (i128, i128)| {
        let here: Vec<Spot> = spots.iter().map(|spot| Spot { at: spot.at + begin, ..*spot }).collect();
        match shared {
            true => {
                let (count, bank) = warps::passes(&here, size, atomic);
                let pair = meet(&here, size, bank, atomic);
                Worst { count, fewest: 1, bank: bank as u32, threads, pair }
            }
            false => {
                let fewest = (i128::from(threads) * size + SECTOR - 1) / SECTOR;
                let of = |spot: &Spot| spot.at.div_euclid(SECTOR);
                let other = here.iter().position(|spot| of(spot) != of(&here[0])).unwrap_or(0);
                let count = warps::sectors(&here, size);
                Worst { count, fewest: fewest as u32, bank: 0, threads, pair: [0, other] }
            }
        }
    };
    warps::pieces(ty, None).into_iter().map(of).max_by_key(|worst| worst.count)
}

/// Returns two threads that want different words of a bank; the first one twice if there are no two.
fn meet(spots: &[Spot], size: i128, bank: i128, atomic: bool) -> [usize; 2] {
    for (i, a) in spots.iter().enumerate() {
        let other = |b: &Spot| warps::passes(&[*a, *b], size, atomic).0 > 1;
        let wants = |spot: &Spot| warps::wants(spot, size, bank);
        if let Some(j) = spots[i + 1..].iter().position(|b| wants(a) && wants(b) && other(b)) {
            return [i, i + 1 + j];
        }
    }
    [0, 0]
}
