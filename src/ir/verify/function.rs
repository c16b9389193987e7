//! Verification of one function: its declarations, and the state of the walk over its body.

use rustc_hash::{FxHashMap, FxHashSet};

use super::checker::{Checker, State};
use super::words::{Violation, describe, is_type};
use crate::ir::compact::{TREE_SIZE, tree_size};
use crate::ir::def::*;
use crate::ir::typing;
use crate::ir::visit::each_stmt;

pub(super) fn check(module: &Module, id: FunctionId, function: &Function, out: &mut Vec<Violation>) {
    let mut checker = Checker {
        module,
        id,
        function,
        out,
        states: vec![State::Waiting; function.exprs.len()],
        checked: FxHashSet::default(),
        labels: vec![],
        used_labels: FxHashSet::default(),
        counters: FxHashMap::default(),
        depth: 0,
    };
    checker.declarations();
    checker.block(&function.body);
    if !function.results.is_empty() && completes(&function.body) {
        checker.report("it may end without returning its results".to_string());
    }
}

impl Checker<'_> {
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
        matches!(self.module.kernel.form, Form::Threads { .. })
    }

    fn declarations(&mut self) {
        let function = self.function;
        self.require(function.spans.len() == function.exprs.len(), || {
            format!("{} spans for {} expressions", function.spans.len(), function.exprs.len())
        });
        for &ty in function.params.iter().chain(&function.results) {
            self.require(is_type(ty), || format!("its signature has {}", describe(ty)));
        }
        for (_, local) in function.locals.iter() {
            self.require(is_type(local.ty), || format!("local `{}` is {}", local.name, describe(local.ty)));
        }
        let mut positions = 0;
        for (_, memory) in function.memories.iter() {
            self.memory(memory, &mut positions);
        }
    }

    fn memory(&mut self, memory: &Memory, positions: &mut u32) {
        let name = &memory.name;
        match memory.space {
            Space::Global { .. } => {
                let body = self.is_body();
                self.require(body, || format!("global memory `{name}` outside the kernel's body"));
            }
            Space::Shared => {
                let threads = self.is_threads();
                self.require(!threads, || format!("shared memory `{name}` in a `threads` kernel"));
            }
            Space::Param { position, .. } => {
                let (body, expected) = (self.is_body(), *positions);
                self.require(!body, || format!("memory `{name}` is a parameter of the kernel's body"));
                self.require(position == expected, || format!("memory `{name}` has position {position}"));
                *positions += 1;
            }
            Space::Local | Space::Constant => {}
        }
        self.layout(memory);
        self.values(memory);
        for extent in &memory.extents {
            let fits = match (memory.space, extent) {
                (_, Extent::Known(_)) => true,
                (Space::Global { .. } | Space::Param { .. }, Extent::Launch) => true,
                (Space::Shared, Extent::Dynamic(id)) => {
                    self.dynamic(name, *id);
                    true
                }
                _ => false,
            };
            self.require(fits, || format!("memory `{name}` has the extent {extent:?}"));
        }
    }

    fn layout(&mut self, memory: &Memory) {
        let Layout { leaves, size, align } = &memory.layout;
        let name = &memory.name;
        let mut end = 0usize;
        let mut fits = !leaves.is_empty() && align.is_power_of_two();
        for leaf in leaves {
            let known = is_type(leaf.ty);
            fits &= known && leaf.offset >= end && leaf.offset.is_multiple_of(leaf.ty.align().max(1));
            fits &= known && align.is_multiple_of(leaf.ty.align().max(1));
            end = leaf.offset.saturating_add(leaf.ty.size());
        }
        fits &= end <= *size && size.is_multiple_of((*align).max(1));
        self.require(fits, || format!("memory `{name}` has a broken layout"));
    }

    /// Checks that an array of constants is complete, and that no other memory has values.
    fn values(&mut self, memory: &Memory) {
        let scalars = match memory.space {
            Space::Constant => memory.known_len().map(|len| len.saturating_mul(memory.layout.scalars() as u64)),
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
        self.require(expr.ty == typing::I32, || format!("an extent of `{name}` is {}", describe(expr.ty)));
        if tree_size(self.function, id).is_none() {
            return self.report(format!("an extent of `{name}` is computed from more than {TREE_SIZE} expressions"));
        }
        self.uniform(name, id);
    }

    fn uniform(&mut self, name: &str, id: ExprId) {
        use ExprKind::*;
        let Some(expr) = self.function.exprs.get(id) else {
            return self.report(format!("an extent of `{name}` uses {id:?}, which does not exist"));
        };
        let fits = match &expr.kind {
            Const(_) | Param(_) | Extent(..) | Id(Id3::BlockDim | Id3::GridDim, _) => true,
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
        self.require(fits, || format!("an extent of `{name}` is not the same throughout a launch ({id:?})"));
        if self.checked.insert(id) {
            self.expr_type(id);
        }
        expr.kind.operands(|operand| self.uniform(name, operand));
    }
}

/// Returns whether control may reach the end of a block.
fn completes(block: &Block) -> bool {
    block.iter().all(|stmt| match &stmt.kind {
        StmtKind::Break(_) | StmtKind::Continue(_) | StmtKind::Return(_) => false,
        StmtKind::If { then, other, .. } => completes(then) || completes(other),
        StmtKind::Loop { label, body, .. } => breaks(body, *label),
        StmtKind::Block { label, body } => completes(body) || breaks(body, *label),
        _ => true,
    })
}

fn breaks(block: &Block, label: Label) -> bool {
    let mut found = false;
    each_stmt(block, &mut |stmt| found |= stmt.kind == StmtKind::Break(label));
    found
}
