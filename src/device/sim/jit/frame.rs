//! The frame of a compiled region: what the entry hands to machine code, and where that keeps what it has no register for.
//!
//! Input: a region. Output: the offsets of its inputs and outputs. The frame is one aligned piece of memory that machine code
//! addresses through one register: a header, the words of inputs and outputs, and slots of values.

use rustc_hash::FxHashMap;

use crate::device::sim::lane::{Input, Op, REPORT_WORDS, Region, each_inst};

/// The present row, and the one at which to stop.
pub(crate) const ROW: i32 = 0;
pub(crate) const ROW_END: i32 = 8;
/// The lanes of each row that run.
pub(crate) const X_FIRST: i32 = 16;
pub(crate) const X_END: i32 = 24;
/// Lanes of a row, and rows of a plane.
pub(crate) const NX: i32 = 32;
pub(crate) const NY: i32 = 40;
/// The address of the mask of active lanes, or 0 if all are active.
pub(crate) const MASK: i32 = 48;
/// Iterations of loops until the next poll.
pub(crate) const TICKS: i32 = 56;
/// A function that looks whether to stop, and its argument.
pub(crate) const POLL: i32 = 64;
pub(crate) const POLL_ARG: i32 = 72;
/// Which poll to return to.
pub(crate) const RETURN: i32 = 80;
/// The end of the log of stores, and of the room for it.
pub(crate) const LOG: i32 = 88;
pub(crate) const LOG_END: i32 = 96;
/// How many more places at which the code can leave are passed before it does, where that is [forced](super::emit::Exits).
pub(crate) const FORCED: i32 = 104;
/// A function that tells the checker of a region's accesses, and its argument.
pub(crate) const REPORT: i32 = 112;
pub(crate) const REPORT_ARG: i32 = 120;
/// The coordinates of each vector's row.
pub(crate) const COORD_Y: i32 = 128;
pub(crate) const COORD_Z: i32 = 160;
/// Operands and result of a called function.
pub(crate) const CALL: i32 = 192;
/// Registers during a call.
pub(crate) const SAVED_GPRS: i32 = 320;
pub(crate) const SAVED_MASKS: i32 = 448;
/// The address of elements that are stored one after the other.
pub(crate) const ADDRESS: i32 = 512;
/// A function that tells the checker what lanes are about to access; its argument is that of the other one.
pub(crate) const TOUCH: i32 = 520;
/// By memory of the region: not 0 once the checker need not hear of more loads. And what that function returns, where it is not that: 0,
/// or that the code has to leave.
pub(crate) const SETTLED: i32 = 528;
pub(crate) const SETTLED_WORDS: i32 = 12;
pub(crate) const LEAVE: i32 = 2;
/// Of an atomic: its values, its offsets, and what it finds (of a compare-exchange, before that: what it expects).
pub(crate) const VALUES: i32 = 576;
pub(crate) const OFFSETS: i32 = 640;
pub(crate) const FOUND: i32 = 704;
/// Of an operation of warps: the lanes of a batch, which become those of the result, and the lanes that a shuffle asks for. Of accesses
/// that the checker hears of: byte offsets of the lanes of a batch, and the address of each vector.
pub(crate) const WARP: i32 = 768;
pub(crate) const ASKED: i32 = 1024;
pub(crate) const SAVED_VECTORS: i32 = 1280;
const WORDS: i32 = SAVED_VECTORS + 32 * 64;

/// A record of the log: address, mask and element size, old data, byte offsets of the lanes.
pub(crate) const RECORD: i32 = 144;

/// A frame, in words.
#[derive(Clone, Copy)]
pub(crate) struct Words(pub *mut u8);

impl Words {
    /// Writes a word of the header, an input or an output.
    #[inline(always)]
    pub fn put(self, offset: i32, value: u64) {
        // SAFETY: offsets are those of the layout, whose bytes the frame has; its words are aligned.
        unsafe { self.0.add(offset as usize).cast::<u64>().write(value) }
    }

    #[inline(always)]
    pub fn get(self, offset: i32) -> u64 {
        // SAFETY: as above: the frame has a room for the region, or `put` writes what `get` reads.
        unsafe { self.0.add(offset as usize).cast::<u64>().read() }
    }
}

/// Writes the old data of a record back.
///
/// # Safety
/// The record is complete, and of a store to a memory that is still there.
pub(crate) unsafe fn undo_store(record: *const u8) {
    // SAFETY: R9: a complete record of the log, of a store that has been checked: its lanes are within the memory.
    unsafe {
        let address = record.cast::<u64>().read_unaligned() as *mut u8;
        let mask = record.add(8).cast::<u32>().read_unaligned();
        let size = record.add(12).cast::<u32>().read_unaligned() as usize;
        // Narrow elements were extended to 4 bytes.
        let width = size.max(4);
        // An atomic may have updated one element for several lanes: the first one found what was there before.
        for lane in (0..64 / width).rev().filter(|l| mask >> l & 1 != 0) {
            let offset = record.add(80 + 4 * lane).cast::<i32>().read_unaligned();
            std::ptr::copy_nonoverlapping(record.add(16 + width * lane), address.offset(offset as isize), size);
        }
    }
}

/// The layout of a region's frame.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Byte offsets, in the order in which the entry fills them in.
    pub inputs: Vec<Input>,
    pub outputs: i32,
    /// The words of reports.
    pub words: i32,
    /// Where slots begin.
    pub slots: i32,
}

impl Layout {
    pub fn of(region: &Region) -> Layout {
        let mut inputs: Vec<Input> = vec![];
        let mut note = |op: &Op| {
            if let Op::Input(input) | Op::BroadcastInput(input) = op
                && !inputs.contains(input)
            {
                inputs.push(*input);
            }
        };
        region.setup.iter().for_each(|inst| note(&inst.op));
        each_inst(&region.body, &mut |inst| note(&inst.op));
        // Each atomic looks whether others might update the same element meanwhile.
        region.memories.iter().filter(|m| m.updates).for_each(|m| note(&Op::Input(Input::Alone(m.memory))));
        let outputs = WORDS + 8 * inputs.len() as i32;
        let uniform = region.writes.iter().filter(|w| w.uniform).count() as i32;
        let words = outputs + 8 * uniform;
        let slots = (words + 8 * (region.reports.len() as u32 * REPORT_WORDS) as i32 + 63) & !63;
        Layout { inputs, outputs, words, slots }
    }

    /// Returns the offset of input number `number`.
    pub fn input(&self, number: usize) -> i32 {
        WORDS + 8 * number as i32
    }

    /// Returns the offset of an input of the region.
    pub fn offset(&self, input: Input) -> i32 {
        self.input(self.inputs.iter().position(|i| *i == input).unwrap_or(0))
    }

    pub fn offsets(&self) -> FxHashMap<Input, i32> {
        self.inputs.iter().enumerate().map(|(number, &input)| (input, self.input(number))).collect()
    }
}
