//! Translation of a stopped lane into a [`Fault`].

use super::code::{Code, Message, MessagePart};
use super::group::Group;
pub(crate) use super::group::{Stop, stop_at};
use super::lanes::slow::read_value;
use crate::device::{Extents, Fault};
use crate::lang::scalar::format;

/// Returns the text of a message for one lane.
pub(crate) fn message(g: &Group, message: &Message, lane: usize) -> String {
    let mut text = String::new();
    for part in &message.parts {
        match part {
            MessagePart::Text(t) => text.push_str(t),
            MessagePart::Value(regs, scalar, spec) => {
                let show = |&reg| {
                    let value = read_value(g, reg, *scalar, lane);
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

/// Returns the fault of a stopped group in terms of the launch.
pub(crate) fn fault(g: &Group, stop: Stop, extents: &Extents) -> Fault {
    let (span, trace) = g.code().place(stop.span);
    let [x, y, z, batch] = g.coordinates(stop.lane).map(|c| c as u32);
    let (block, thread, index) = terms(g.code(), extents, g.block, g.first_index, [x, y, z], batch);
    Fault { kind: stop.kind, span, trace, block, thread, index, others: stop.others, output: String::new() }
}

/// Returns block, thread and index tuple of a lane of a group.
pub(crate) fn terms(
    code: &Code,
    extents: &Extents,
    mut block: [u32; 3],
    first: [u32; 3],
    [x, y, z]: [u32; 3],
    batch: u32,
) -> ([u32; 3], [u32; 3], Option<Vec<u32>>) {
    match extents {
        Extents::Grid { .. } => {
            block[0] += batch;
            (block, [x, y, z], None)
        }
        Extents::Threads(_) => {
            let rank = code.threads.unwrap_or(1) as usize;
            let index = [first[2] + z, first[1] + y, first[0] + x];
            ([0; 3], [0; 3], Some(index[3 - rank.clamp(1, 3)..].to_vec()))
        }
    }
}
