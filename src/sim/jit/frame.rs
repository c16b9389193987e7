//! The frame of a compiled region: memory with the inputs and outputs of the machine code, and with its spill slots.
//!
//! Input: a region. Output: the offsets of its inputs and outputs. The frame is one aligned allocation, addressed
//! through one register: a header, the words of inputs and outputs, and the slots of values.

use rustc_hash::FxHashMap;

use crate::lir::{LaneOp, LaneRegion, REPORT_WORDS, RegionInput, for_each_inst};

/// `ROW` is the current row; the code stops at row `ROW_END`.
pub(crate) const ROW: i32 = 0;
pub(crate) const ROW_END: i32 = 8;
/// The range of x coordinates for which the code runs in each row (`X_END` exclusive).
pub(crate) const X_FIRST: i32 = 16;
pub(crate) const X_END: i32 = 24;
/// `NX` is the number of lanes in a row, `NY` the number of rows in a plane.
pub(crate) const NX: i32 = 32;
pub(crate) const NY: i32 = 40;
/// The address of the mask of active lanes, or 0 if all lanes are active.
pub(crate) const MASK: i32 = 48;
/// The number of loop iterations until the next poll of the stop flag.
pub(crate) const TICKS: i32 = 56;
/// The function that polls the stop flag, and its argument.
pub(crate) const POLL: i32 = 64;
pub(crate) const POLL_ARG: i32 = 72;
/// The index of the loop that polls; after the poll, the code jumps back to this loop.
pub(crate) const RETURN: i32 = 80;
/// `LOG` is the address after the last record of the undo log, `LOG_END` the end of the log's buffer.
pub(crate) const LOG: i32 = 88;
pub(crate) const LOG_END: i32 = 96;
/// The number of possible side exits until the code takes a [forced](super::emit::ExitOptions) one.
pub(crate) const FORCED_EXIT: i32 = 104;
/// The function that submits hoisted reports to the sanitizer, and its argument.
pub(crate) const REPORT: i32 = 112;
pub(crate) const REPORT_ARG: i32 = 120;
/// The y and z coordinates of each vector's row.
pub(crate) const COORD_Y: i32 = 128;
pub(crate) const COORD_Z: i32 = 160;
/// Buffer for the operands and the result of a called function.
pub(crate) const CALL: i32 = 192;
/// Space for registers that the code saves before a call.
pub(crate) const SAVED_GPRS: i32 = 320;
pub(crate) const SAVED_MASKS: i32 = 448;
/// The base address of elements that the code accesses one at a time.
pub(crate) const ADDRESS: i32 = 512;
/// The function that reports an access of the active lanes to the sanitizer. Its argument is [`REPORT_ARG`].
pub(crate) const REPORT_ACCESS: i32 = 520;
/// One word for each memory of the region. It is nonzero if further loads from the memory need no report.
pub(crate) const CHECKED_MEMORIES: i32 = 528;
pub(crate) const CHECKED_MEMORY_WORDS: i32 = 12;
pub(crate) const EXIT_RESULT: i32 = 2;
/// Buffers for the values, offsets and results of an atomic. A compare-exchange passes its expected values in the
/// result buffer.
pub(crate) const ATOMIC_VALUES: i32 = 576;
pub(crate) const ATOMIC_OFFSETS: i32 = 640;
pub(crate) const ATOMIC_RESULTS: i32 = 704;
/// Buffers for warp operations. `WARP` has the operand's lanes for the whole batch, which the result overwrites;
/// `SOURCE_LANES` has the source lanes of a shuffle. Access reports pass the byte offsets of the batch's lanes and the
/// address of each vector in these buffers.
pub(crate) const WARP: i32 = 768;
pub(crate) const SOURCE_LANES: i32 = 1024;
pub(crate) const SAVED_VECTORS: i32 = 1280;
const WORDS: i32 = SAVED_VECTORS + 32 * 64;

/// Size in bytes of a record in the undo log. A record contains the address, the mask, the element size, the old data
/// and the byte offsets of the lanes.
pub(crate) const RECORD: i32 = 144;

/// A pointer to a frame, with methods that access its 64-bit words.
#[derive(Clone, Copy)]
pub(crate) struct FrameWords(pub *mut u8);

impl FrameWords {
    /// Writes a word of the header, an input or an output.
    #[inline(always)]
    pub fn write_word(self, offset: i32, value: u64) {
        // SAFETY: the offset comes from the layout, so it is within the frame. Its words are aligned.
        unsafe { self.0.add(offset as usize).cast::<u64>().write(value) }
    }

    #[inline(always)]
    pub fn read_word(self, offset: i32) -> u64 {
        // SAFETY: as above: the frame belongs to the region, and `write_word` has written the word.
        unsafe { self.0.add(offset as usize).cast::<u64>().read() }
    }
}

/// Writes the old data of a log record back to memory.
///
/// # Safety
/// The record is complete, and its memory is still valid.
pub(crate) unsafe fn undo_store(record: *const u8) {
    // SAFETY: R9: the record is complete, and its store has been checked: the lanes are within the memory.
    unsafe {
        let address = record.cast::<u64>().read_unaligned() as *mut u8;
        let mask = record.add(8).cast::<u32>().read_unaligned();
        let size = record.add(12).cast::<u32>().read_unaligned() as usize;
        // The record contains narrow elements extended to 4 bytes.
        let width = size.max(4);
        // Several lanes of an atomic may have updated the same element. The record of the first lane has the original
        // value, so it is restored last.
        for lane in (0..64 / width).rev().filter(|l| mask >> l & 1 != 0) {
            let offset = record.add(80 + 4 * lane).cast::<i32>().read_unaligned();
            std::ptr::copy_nonoverlapping(record.add(16 + width * lane), address.offset(offset as isize), size);
        }
    }
}

/// The layout of a region's frame.
#[derive(Clone, Debug)]
pub(crate) struct FrameLayout {
    /// The inputs, in frame order.
    pub inputs: Vec<RegionInput>,
    pub outputs: i32,
    /// Offset of the words of the hoisted reports, in bytes.
    pub words: i32,
    /// Offset of the first spill slot, in bytes.
    pub slots: i32,
}

impl FrameLayout {
    pub fn of(region: &LaneRegion) -> FrameLayout {
        let mut inputs: Vec<RegionInput> = vec![];
        let mut note = |op: &LaneOp| {
            if let LaneOp::Input(input) | LaneOp::BroadcastInput(input) = op
                && !inputs.contains(input)
            {
                inputs.push(*input);
            }
        };
        region.setup.iter().for_each(|inst| note(&inst.op));
        for_each_inst(&region.body, &mut |inst| note(&inst.op));
        // Each atomic reads the input that says whether other worker threads might access the memory.
        region
            .memories
            .iter()
            .filter(|m| m.updates)
            .for_each(|m| note(&LaneOp::Input(RegionInput::Exclusive(m.memory))));
        let outputs = WORDS + 8 * inputs.len() as i32;
        let uniform = region.writes.iter().filter(|w| w.uniform).count() as i32;
        let words = outputs + 8 * uniform;
        let slots = (words + 8 * (region.reports.len() as u32 * REPORT_WORDS) as i32 + 63) & !63;
        FrameLayout { inputs, outputs, words, slots }
    }

    /// Returns the offset of the input with this number.
    pub fn input(&self, number: usize) -> i32 {
        WORDS + 8 * number as i32
    }

    /// Returns the offset of an input of the region.
    pub fn offset(&self, input: RegionInput) -> i32 {
        self.input(self.inputs.iter().position(|i| *i == input).unwrap_or(0))
    }

    pub fn offsets(&self) -> FxHashMap<RegionInput, i32> {
        self.inputs.iter().enumerate().map(|(number, &input)| (input, self.input(number))).collect()
    }
}
