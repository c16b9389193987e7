//! Converts a stopped lane into a [`Fault`].

use super::code::{KernelProperties, MessagePart, PrintMessage};
pub(crate) use super::group::GroupStop;
use super::group::{GroupPosition, ThreadGroup};
use super::group_registers::GroupRegisters;
use super::lanes::slow::read_value;
use clk_runtime::{Fault, LaunchExtents};
use clk_scalar::format;

/// Formats the message of an assertion or a print statement with the values of one lane.
pub(crate) fn format_message(registers: &GroupRegisters, message: &PrintMessage, lane: usize) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            MessagePart::Text(t) => text.push_str(t),
            MessagePart::Value(regs, scalar, spec) => {
                let show = |&reg| {
                    let value = read_value(registers, reg, *scalar, lane);
                    format::format(value, spec).unwrap_or_else(|_| format::plain(value))
                };
                match regs.as_slice() {
                    [one] => text.push_str(&show(one)),
                    many => {
                        text.push('(');
                        text.push_str(&many.iter().map(show).collect::<Vec<_>>().join(", "));
                        text.push(')');
                    }
                }
            }
        }
    }
    text
}

/// Returns the fault of a stopped group. Its block and thread indices are those of the launch, not of the group.
pub(crate) fn group_fault(g: &ThreadGroup, stop: GroupStop, extents: &LaunchExtents) -> Fault {
    let (span, trace) = g.code().source.location(stop.span);
    let [x, y, z, batch] = g.shape.coordinates(stop.lane).map(|c| c as u32);
    let (block, thread, index) = launch_position(&g.code().properties, extents, g.position, [x, y, z], batch);
    Fault { kind: stop.kind, span, trace, block, thread, index, others: stop.others, output: String::new() }
}

/// Returns a lane's block index, thread index, and index tuple in the launch.
pub(crate) fn launch_position(
    properties: &KernelProperties,
    extents: &LaunchExtents,
    position: GroupPosition,
    [x, y, z]: [u32; 3],
    batch: u32,
) -> ([u32; 3], [u32; 3], Option<Vec<u32>>) {
    let GroupPosition { mut block, first_index: first } = position;
    match extents {
        LaunchExtents::Grid { .. } => {
            block[0] += batch;
            (block, [x, y, z], None)
        }
        LaunchExtents::Threads(_) => {
            let rank = properties.threads.unwrap_or(1) as usize;
            let index = [first[2] + z, first[1] + y, first[0] + x];
            ([0; 3], [0; 3], Some(index[3 - rank.clamp(1, 3)..].to_vec()))
        }
    }
}
