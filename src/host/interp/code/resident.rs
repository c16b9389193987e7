//! Script variables that may be kept in slots. In: a chunk and the values of script variables; out: which ones surely have a value where
//! code names them.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::check::typed::{Body, GlobalId, Pattern, StmtKind};
use crate::host::value::Value;
use crate::lang::scalar::Scalar;

use super::Slot;

/// Script variables: which ones surely have a value when code names them, and which ones have a slot in the loop that is being built.
#[derive(Default)]
pub(super) struct Residents {
    pub settled: FxHashSet<GlobalId>,
    pub slots: FxHashMap<GlobalId, (Slot, Scalar)>,
    /// The region that is being built.
    pub region: Option<u32>,
}

impl Residents {
    /// Of a chunk: variables that have a value when it begins, and those that it declares with one.
    pub fn of_chunk(body: &Body, globals: &[Option<Value>]) -> Residents {
        let is_scalar = |value: &Option<Value>| matches!(value, Some(Value::Scalar(_)));
        let present = globals.iter().enumerate().filter(|(_, value)| is_scalar(value));
        let mut settled: FxHashSet<GlobalId> = present.map(|(at, _)| GlobalId::new(at)).collect();
        for stmt in &body.root.stmts {
            if let StmtKind::Let { pattern: Pattern::Global(id), value, .. } = &stmt.kind {
                match value {
                    Some(_) => settled.insert(*id),
                    None => settled.remove(id),
                };
            }
        }
        Residents { settled, ..Residents::default() }
    }
}
