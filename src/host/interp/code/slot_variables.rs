//! Finds the script variables that may be kept in slots. Input: a chunk and the values of script variables. Output: the
//! variables that are definitely initialized.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::value::HostValue;
use clk_check::typed::{Body, GlobalId, Pattern, StmtKind};
use clk_scalar::Scalar;

use super::SlotIndex;

/// Script variables that are definitely initialized, and the slots of those in the current loop.
#[derive(Default)]
pub(super) struct SlotVariables {
    pub initialized: FxHashSet<GlobalId>,
    pub slots: FxHashMap<GlobalId, (SlotIndex, Scalar)>,
    /// Index of the current loop in [`HostCode::scalarized_loops`](super::HostCode::scalarized_loops).
    pub region: Option<u32>,
}

impl SlotVariables {
    /// Returns the initialized variables of a chunk: those with a scalar value at its start, and those that it declares
    /// with a value.
    pub fn from_chunk(body: &Body, globals: &[Option<HostValue>]) -> SlotVariables {
        let is_scalar = |value: &Option<HostValue>| matches!(value, Some(HostValue::Scalar(_)));
        let present = globals.iter().enumerate().filter(|(_, value)| is_scalar(value));
        let mut initialized: FxHashSet<GlobalId> = present.map(|(at, _)| GlobalId::new(at)).collect();
        for stmt in &body.root.stmts {
            if let StmtKind::Let { pattern: Pattern::Global(id), value, .. } = &stmt.kind {
                match value {
                    Some(_) => initialized.insert(*id),
                    None => initialized.remove(id),
                };
            }
        }
        SlotVariables { initialized, ..SlotVariables::default() }
    }
}
