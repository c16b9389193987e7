//! Arrays on which the threads of no launch race, so that runs with checks need not look for it.
//!
//! Input: the kernel's body as it runs, and the launches that its signature describes. Output: for each memory, whether it is proved
//! that no two threads conflict there, and of a shared one, that what is read has been written; in launches whose threads reach the
//! same barriers.

use super::claim;
use super::cover;
use super::def::Given;
use super::question::{Answer, Question};
use super::settle::settle;
use crate::base::linear::Budget;
use crate::ir::def::*;

/// The work for an answer, and the answers for a kernel.
const WORK: Budget = Budget { cases: 250, exchanges: 5_000 };
const MAX_QUESTIONS: usize = 600;

/// What is proved of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Apart {
    /// It is global or shared, may be written, and no two threads race there.
    pub is_free: bool,
    /// It is shared, and what is read of it has been written before.
    pub is_filled: bool,
}

/// Returns by memory what is proved of it.
pub(super) fn apart(module: &Module, given: &Given) -> Vec<Apart> {
    let function = &module.functions[module.kernel.body];
    let mut left = MAX_QUESTIONS;
    let mut prove = |question: &Question| {
        left = left.checked_sub(1)?;
        matches!(question.answer(&WORK), Answer::Never(..)).then_some(())
    };
    let settled = settle(module, given, &mut prove).filter(|settled| settled.found.stopped.is_none());
    let Some(found) = settled.map(|settled| settled.found) else {
        return function.memories.iter().map(|_| Apart::default()).collect();
    };
    let mut is_free = |(id, memory): (MemId, &Memory)| {
        let matters = match memory.space {
            Space::Global { access, .. } => access != Access::In,
            Space::Shared => true,
            Space::Local | Space::Constant | Space::Param { .. } => false,
        };
        let asked = matters.then(|| claim::races_in(function, given, &found, &|memory| memory == id)).flatten();
        asked.is_some_and(|asked| asked.iter().all(|question| prove(question).is_some()))
    };
    // All arrays first: of races more depends.
    let free: Vec<bool> = function.memories.iter().map(&mut is_free).collect();
    let mut of = |((id, memory), is_free): ((MemId, &Memory), bool)| {
        let is_asked = is_free && memory.space == Space::Shared;
        let reads = is_asked.then(|| cover::unwritten_before(function, given, &found, id)).flatten();
        let mut is_written = |ways: &Vec<Question>| ways.iter().any(|question| prove(question).is_some());
        Apart { is_free, is_filled: reads.is_some_and(|reads| reads.iter().all(&mut is_written)) }
    };
    function.memories.iter().zip(free).map(&mut of).collect()
}
