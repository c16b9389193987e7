//! Verification of one function: its declarations, then its body.

use rustc_hash::{FxHashMap, FxHashSet};

use super::verifier::{ExprVisibility, FunctionVerifier};
use super::violation::{Violation, is_type};
use crate::def::*;
use crate::renumber::{MAX_TREE_SIZE, tree_size};
use crate::typing;
use crate::visit::each_stmt;

pub(super) fn check(module: &Module, id: FunctionId, function: &Function, out: &mut Vec<Violation>) {
    let mut checker = FunctionVerifier {
        module,
        id,
        function,
        out,
        states: vec![ExprVisibility::Waiting; function.exprs.len()],
        checked: FxHashSet::default(),
        labels: vec![],
        used_labels: FxHashSet::default(),
        counters: FxHashMap::default(),
        depth: 0,
    };
    checker.declarations();
    checker.block(&function.body);
    if !function.results.is_empty() && may_complete(&function.body) {
        checker.report("it may end without returning its results".to_string());
    }
}

impl FunctionVerifier<'_> {
    pub fn report(&mut self, message: String) {
        self.out.push(format!("function `{}`: {message}", self.function.name));
    }

    pub fn require(&mut self, holds: bool, message: impl FnOnce() -> String) -> bool {
        if !holds {
            self.report(message());
        }
        holds
    }

    pub fn is_body(&self) -> bool {
        self.id == self.module.kernel.body
    }

    pub fn is_threads(&self) -> bool {
        matches!(self.module.kernel.form, LaunchForm::Threads { .. })
    }

    fn declarations(&mut self) {
        let function = self.function;
        self.require(function.spans.len() == function.exprs.len(), || {
            format!("{} spans for {} expressions", function.spans.len(), function.exprs.len())
        });
        for &ty in function.params.iter().chain(&function.results) {
            self.require(is_type(ty), || format!("its signature has {ty}"));
        }
        for (_, local) in function.locals.iter() {
            self.require(is_type(local.ty), || format!("local `{}` is {}", local.name, local.ty));
        }
        let mut positions = 0;
        for (_, memory) in function.memories.iter() {
            self.memory(memory, &mut positions);
        }
    }

    fn memory(&mut self, memory: &Memory, positions: &mut u32) {
        let name = &memory.name;
        match memory.space {
            MemorySpace::Global { .. } => {
                let body = self.is_body();
                self.require(body, || format!("global memory `{name}` outside the kernel's body"));
            }
            MemorySpace::Shared => {
                let threads = self.is_threads();
                self.require(!threads, || format!("shared memory `{name}` in a `threads` kernel"));
            }
            MemorySpace::Param { position, .. } => {
                let (body, expected) = (self.is_body(), *positions);
                self.require(!body, || format!("memory `{name}` is a parameter of the kernel's body"));
                self.require(position == expected, || format!("memory `{name}` has position {position}"));
                *positions += 1;
            }
            MemorySpace::Local | MemorySpace::Constant => {}
        }
        self.layout(memory);
        self.values(memory);
        for extent in &memory.extents {
            let is_valid = match (memory.space, extent) {
                (_, Extent::Known(_)) => true,
                (MemorySpace::Global { .. } | MemorySpace::Param { .. }, Extent::Launch) => true,
                (MemorySpace::Shared, Extent::Dynamic(id)) => {
                    self.dynamic(name, *id);
                    true
                }
                _ => false,
            };
            self.require(is_valid, || format!("memory `{name}` has the extent {extent:?}"));
        }
    }

    fn layout(&mut self, memory: &Memory) {
        let ElementLayout { leaves, size, align } = &memory.layout;
        let name = &memory.name;
        let mut end = 0usize;
        let mut is_valid = !leaves.is_empty() && align.is_power_of_two();
        for leaf in leaves {
            let is_known_type = is_type(leaf.ty);
            is_valid &= is_known_type && leaf.offset >= end && leaf.offset.is_multiple_of(leaf.ty.align().max(1));
            is_valid &= is_known_type && align.is_multiple_of(leaf.ty.align().max(1));
            end = leaf.offset.saturating_add(leaf.ty.size());
        }
        is_valid &= end <= *size && size.is_multiple_of((*align).max(1));
        self.require(is_valid, || format!("memory `{name}` has an invalid layout"));
    }

    /// Checks that an array of constants is complete and that no other memory has values.
    fn values(&mut self, memory: &Memory) {
        let scalars = match memory.space {
            MemorySpace::Constant => {
                memory.known_len().map(|len| len.saturating_mul(memory.layout.scalar_count() as u64))
            }
            _ => Some(0),
        };
        self.require(scalars == Some(memory.values.len() as u64), || {
            format!("memory `{}` holds {} constants", memory.name, memory.values.len())
        });
    }

    fn dynamic(&mut self, name: &str, id: ExprId) {
        let Some(expr) = self.function.exprs.get(id) else {
            return self.report(format!("an extent of `{name}` is {id:?}, which does not exist"));
        };
        self.require(expr.ty == typing::I32, || format!("an extent of `{name}` is {}", expr.ty));
        if tree_size(self.function, id).is_none() {
            return self
                .report(format!("an extent of `{name}` is computed from more than {MAX_TREE_SIZE} expressions"));
        }
        self.uniform(name, id);
    }

    fn uniform(&mut self, name: &str, id: ExprId) {
        use ExprKind::*;
        let Some(expr) = self.function.exprs.get(id) else {
            return self.report(format!("an extent of `{name}` uses {id:?}, which does not exist"));
        };
        let is_allowed = match &expr.kind {
            Const(_) | Param(_) | Extent(..) | Id(BuiltinIndex::BlockDim | BuiltinIndex::GridDim, _) => true,
            Id(..) | Index(_) | LaneIdx | WarpIdx | Read(_) | Load { .. } | Result => false,
            Unary { .. }
            | Binary { .. }
            | Math { .. }
            | Select { .. }
            | Convert(_)
            | Bitcast(_)
            | Compose(_)
            | Extract { .. } => true,
        };
        self.require(is_allowed, || format!("an extent of `{name}` is not a launch constant ({id:?})"));
        if self.checked.insert(id) {
            self.expr_type(id);
        }
        expr.kind.operands(|operand| self.uniform(name, operand));
    }
}

/// Returns whether execution may reach the end of a block.
fn may_complete(block: &Block) -> bool {
    block.iter().all(|stmt| match &stmt.kind {
        StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Return(_) => false,
        StmtKind::If { then, other, .. } => may_complete(then) || may_complete(other),
        StmtKind::Loop { label, body, .. } => breaks(body, *label),
        StmtKind::Block { label, body } => may_complete(body) || breaks(body, *label),
        _ => true,
    })
}

fn breaks(block: &Block, label: Label) -> bool {
    let mut has_break = false;
    each_stmt(block, &mut |stmt| has_break |= stmt.kind == StmtKind::Break(label));
    has_break
}
