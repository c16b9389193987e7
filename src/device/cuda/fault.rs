//! Converts the fault record of a checked kernel to the fault that the simulator would report.

use super::text::abi::{CudaKernel, FAULT_VALUES_AT, Geometry, MAX_FAULT_VALUES, Place, PlaceKind};
use super::text::message;
use crate::device::{Among, Fault, FaultKind, Output};
use crate::ir::def::Ty;
use crate::lang::builtin;
use crate::lang::scalar::Value;

/// The offset of the stop word in the record.
pub(crate) const STOP_WORD: u64 = 4;

/// Returns the fault in a record, if there is one.
pub(crate) fn read(kernel: &CudaKernel, buffer: &[u8], output: &str) -> Option<Box<Fault>> {
    let word = |at: usize| {
        let bytes = buffer.get(4 * at..4 * at + 4).and_then(|b| b.try_into().ok()).unwrap_or([0; 4]);
        u32::from_le_bytes(bytes)
    };
    let place = kernel.places.get(word(0).checked_sub(1)? as usize)?;
    let count = (word(3) as usize).min(MAX_FAULT_VALUES);
    let values = buffer.get(FAULT_VALUES_AT..).unwrap_or(&[]).chunks_exact(8).take(count);
    let values: Vec<u64> = values.map(|v| u64::from_le_bytes(v.try_into().unwrap_or([0; 8]))).collect();
    let (block, thread) = ([word(4), word(5), word(6)], [word(7), word(8), word(9)]);
    let mut fault = Fault {
        kind: kind(place, &values),
        span: place.span,
        trace: vec![],
        block,
        thread,
        index: None,
        others: word(2).into(),
        output: Output::from(output),
    };
    if let Geometry::Threads { rank, .. } = kernel.geometry {
        fault.index = Some(thread[..usize::from(rank).clamp(1, 3)].to_vec());
        (fault.block, fault.thread) = ([0; 3], [0; 3]);
    }
    Some(Box::new(fault))
}

fn kind(place: &Place, values: &[u64]) -> FaultKind {
    match &place.kind {
        PlaceKind::OutOfBounds { array, rank, write } => {
            let (indices, extents) = values.split_at((*rank).min(values.len()));
            let indices: Vec<i64> = indices.iter().map(|&v| v as i64).collect();
            let shape: Vec<u32> = extents.iter().map(|&v| v as u32).collect();
            let outside = |(&i, &n): (&i64, &u32)| i < 0 || i >= i64::from(n);
            let axis = indices.iter().zip(&shape).position(outside).unwrap_or(0);
            FaultKind::OutOfBounds { array: array.clone(), indices, shape, axis, write: *write }
        }
        PlaceKind::DivisionByZero { ty } => {
            let lanes = usize::from(ty.lanes());
            let lane = (0..lanes).find(|&lane| values.get(lanes + lane) == Some(&0)).unwrap_or(0);
            FaultKind::DivisionByZero { left: value(*ty, values.get(lane)) }
        }
        PlaceKind::Assert { message: pieces } => FaultKind::Assert { message: message(pieces, values.iter().copied()) },
        PlaceKind::ZeroStep => FaultKind::ZeroStep,
        PlaceKind::Among { what } => {
            let value = |k: usize| values.get(k).copied().unwrap_or(0) as u32;
            let what = builtin::find(what).map_or("", |entry| entry.name);
            FaultKind::Among { what, mask: value(0), lane: value(1), wrong: Among::Own }
        }
        PlaceKind::Stopped => FaultKind::Interrupted,
    }
}

fn value(ty: Ty, bits: Option<&u64>) -> Value {
    Value::from_bits(ty.scalar(), bits.copied().unwrap_or(0))
}
