//! The format of fault records, in which the generated code of a GPU kernel reports its first fault, and their
//! conversion to the fault that the simulator would report. `docs/internals/cuda-abi.md` describes the layout.

use super::{Fault, FaultKind, PrintedText, WarpMaskError};
use clk_base::source::Span;
use clk_ir::def::Ty;
use clk_scalar::{ScalarValue, builtin, format};

/// Maximum number of values in a record.
pub const MAX_VALUES: usize = 32;
/// Offset of the stop word in a record, in bytes.
pub const STOP_WORD_AT: u64 = 4;
/// Offset of the values in a record, in bytes.
const VALUES_AT: usize = 40;
/// Offset of the data with which a fault notifies the host, in bytes.
pub const NOTICE_AT: usize = VALUES_AT + 8 * MAX_VALUES;
/// Size of a record in bytes.
pub const RECORD_BYTES: usize = NOTICE_AT + 24;

/// A segment of a message that a kernel prints or reports. The generated code stores only the values.
#[derive(Clone, Debug, PartialEq)]
pub enum RecordedSegment {
    /// Text that is the same for all threads.
    Text(String),
    /// A value of this type, for a vector one number per lane, and the format specification after the colon.
    Value(Ty, String),
}

/// A source location at which a thread may report a fault.
#[derive(Clone, Debug, PartialEq)]
pub struct FaultSite {
    /// The faulting expression or statement.
    pub span: Span,
    /// The kind of fault.
    pub kind: FaultSiteKind,
}

/// The kind of fault at a site, which defines the values in the fault record.
#[derive(Clone, Debug, PartialEq)]
pub enum FaultSiteKind {
    /// An access out of bounds. Values: the index along each axis (`i64`), then the extent of each axis.
    OutOfBounds { array: String, rank: usize, write: bool },
    /// An integer division by zero. Values: the lanes of the dividend, then the lanes of the divisor.
    DivisionByZero { ty: Ty },
    /// A failed assertion. Values: the values in the message, in order.
    Assert { message: Vec<RecordedSegment> },
    /// A range with a step of zero. There are no values.
    ZeroStep,
    /// A warp operation whose mask does not include the thread's own lane. Values: the mask and the lane.
    Among { what: String },
    /// The thread ended because the stop word was set. There are no values.
    Stopped,
}

/// Returns the fault in a record, if there is one.
/// `sites` are the fault sites of the kernel. `rank` is the number of indices of a `threads` kernel; such kernels store
/// the index tuple in the words of the thread. `output` is what the kernel printed before the fault.
pub fn read(sites: &[FaultSite], rank: Option<u8>, buffer: &[u8], output: &str) -> Option<Box<Fault>> {
    let word = |at: usize| {
        let bytes = buffer.get(4 * at..4 * at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]);
        u32::from_le_bytes(bytes)
    };
    let site = sites.get(word(0).checked_sub(1)? as usize)?;
    let count = (word(3) as usize).min(MAX_VALUES);
    let values = buffer.get(VALUES_AT..).unwrap_or(&[]).chunks_exact(8).take(count);
    let values: Vec<u64> = values.map(|v| u64::from_le_bytes(v.try_into().unwrap_or([0; 8]))).collect();
    let (block, thread) = ([word(4), word(5), word(6)], [word(7), word(8), word(9)]);
    let mut fault = Fault {
        kind: kind(site, &values),
        span: site.span,
        trace: vec![],
        block,
        thread,
        index: None,
        others: word(2).into(),
        output: PrintedText::from(output),
    };
    if let Some(rank) = rank {
        fault.index = Some(thread[..usize::from(rank).clamp(1, 3)].to_vec());
        (fault.block, fault.thread) = ([0; 3], [0; 3]);
    }
    Some(Box::new(fault))
}

fn kind(site: &FaultSite, values: &[u64]) -> FaultKind {
    match &site.kind {
        FaultSiteKind::OutOfBounds { array, rank, write } => {
            let (indices, extents) = values.split_at((*rank).min(values.len()));
            let indices: Vec<i64> = indices.iter().map(|&v| v as i64).collect();
            let shape: Vec<u32> = extents.iter().map(|&v| v as u32).collect();
            let outside = |(&i, &n): (&i64, &u32)| i < 0 || i >= i64::from(n);
            let axis = indices.iter().zip(&shape).position(outside).unwrap_or(0);
            FaultKind::OutOfBounds { array: array.clone(), indices, shape, axis, write: *write }
        }
        FaultSiteKind::DivisionByZero { ty } => {
            let lanes = usize::from(ty.lanes());
            let lane = (0..lanes).find(|&lane| values.get(lanes + lane) == Some(&0)).unwrap_or(0);
            FaultKind::DivisionByZero { left: value(*ty, values.get(lane)) }
        }
        FaultSiteKind::Assert { message } => {
            FaultKind::Assert { message: format_message(message, values.iter().copied()) }
        }
        FaultSiteKind::ZeroStep => FaultKind::ZeroStep,
        FaultSiteKind::Among { what } => {
            let value = |k: usize| values.get(k).copied().unwrap_or(0) as u32;
            let operation = builtin::find(what).map_or("", |entry| entry.name);
            FaultKind::Among { what: operation, mask: value(0), lane: value(1), wrong: WarpMaskError::Own }
        }
        FaultSiteKind::Stopped => FaultKind::Interrupted,
    }
}

fn value(ty: Ty, bits: Option<&u64>) -> ScalarValue {
    ScalarValue::from_bits(ty.scalar(), bits.copied().unwrap_or(0))
}

/// Formats the segments of a message with its values.
pub fn format_message(segments: &[RecordedSegment], values: impl IntoIterator<Item = u64>) -> String {
    let mut values = values.into_iter();
    let mut text = String::new();
    for segment in segments {
        match segment {
            RecordedSegment::Text(fixed) => text.push_str(fixed),
            RecordedSegment::Value(ty, spec) => {
                let lanes = values.by_ref().take(ty.lanes() as usize).map(|bits| {
                    let value = ScalarValue::from_bits(ty.scalar(), bits);
                    format::format(value, spec).unwrap_or_else(|_| format::plain(value))
                });
                let lanes: Vec<String> = lanes.collect();
                match ty {
                    Ty::Scalar(_) => text.push_str(&lanes.concat()),
                    Ty::Vector(..) => text.push_str(&format!("({})", lanes.join(", "))),
                }
            }
        }
    }
    text
}
