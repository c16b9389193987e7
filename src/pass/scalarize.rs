//! Scalar replacement of local arrays whose indices are all constant: one local per element, in registers instead of
//! memory.

use rustc_hash::{FxHashMap, FxHashSet};

use super::edit;
use clk_base::source::Span;
use clk_base::stop;
use clk_ir::def::*;
use clk_ir::typing;
use clk_ir::visit::each_stmt;

/// The maximum size of an array: number of elements times number of leaves (scalar or vector fields) of an element.
const MAX_ELEMENTS: u64 = 256;

pub(crate) fn run(module: &mut Module) {
    for (_, function) in module.functions.iter_mut() {
        let arrays = candidates(function);
        if arrays.is_empty() {
            continue;
        }
        let mut scalarize = ScalarReplacement { function, arrays, locals: FxHashMap::default() };
        let body = std::mem::take(&mut scalarize.function.body);
        let body = scalarize.block(body);
        function.body = body;
    }
}

/// Returns the small local arrays that are accessed only by loads and stores at constant in-bounds indices.
fn candidates(function: &Function) -> FxHashSet<MemId> {
    let is_small = |memory: &Memory| {
        let count = memory.known_len().map(|len| len.saturating_mul(memory.layout.leaves.len() as u64));
        memory.space == MemorySpace::Local && count.is_some_and(|count| count <= MAX_ELEMENTS)
    };
    let mut out: FxHashSet<MemId> = function.memories.iter().filter(|(_, m)| is_small(m)).map(|(id, _)| id).collect();
    each_stmt(&function.body, &mut |stmt| match &stmt.kind {
        StmtKind::Let(id) => match &function.exprs[*id].kind {
            ExprKind::Load { place, .. } if function.const_position(place).is_none() => {
                out.remove(&place.memory);
            }
            _ => {}
        },
        StmtKind::Store { place, .. } if function.const_position(place).is_none() => {
            out.remove(&place.memory);
        }
        StmtKind::Atomic { place, .. } => {
            out.remove(&place.memory);
        }
        StmtKind::Call { memories, .. } => memories.iter().for_each(|memory| {
            out.remove(memory);
        }),
        _ => {}
    });
    out
}

struct ScalarReplacement<'a> {
    function: &'a mut Function,
    arrays: FxHashSet<MemId>,
    /// The local that replaces each element, by memory, linear index and leaf (field).
    locals: FxHashMap<(MemId, u64, u32), LocalId>,
}

impl ScalarReplacement<'_> {
    fn block(&mut self, block: Block) -> Block {
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            stop::poll();
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            let span = stmt.span;
            match &stmt.kind {
                StmtKind::Let(id) => self.replace_load(*id, stmt, &mut out),
                StmtKind::Store { place, value, .. } if self.arrays.contains(&place.memory) => {
                    self.replace_store(&place.clone(), *value, span, &mut out);
                }
                StmtKind::Declare(memory) if self.arrays.contains(memory) => {}
                _ => out.push(stmt),
            }
        }
        out
    }

    /// Returns the local that replaces a memory location.
    fn element_local(&mut self, place: &Place) -> LocalId {
        let memory = &self.function.memories[place.memory];
        let (name, ty) = (memory.name.clone(), memory.layout.leaves[place.leaf as usize].ty);
        let flat = self.function.const_position(place).unwrap_or(0);
        let index = |&index: &ExprId| format!("_{}", self.function.const_integer(index).unwrap_or(0));
        let path: String = place.indices.iter().map(index).collect();
        let (function, span) = (&mut self.function, Span::default());
        let key = (place.memory, flat, place.leaf);
        *self
            .locals
            .entry(key)
            .or_insert_with(|| function.locals.push(Local { name: format!("{name}{path}"), ty, span }))
    }

    fn replace_load(&mut self, id: ExprId, stmt: Stmt, out: &mut Block) {
        let ExprKind::Load { place, .. } = self.function.exprs[id].kind.clone() else { return out.push(stmt) };
        if !self.arrays.contains(&place.memory) {
            return out.push(stmt);
        }
        let local = self.element_local(&place);
        let Some(lane) = place.component else {
            self.function.exprs[id].kind = ExprKind::Read(local);
            return out.push(stmt);
        };
        let value = self.read(local, stmt.span, out);
        self.function.exprs[id].kind = ExprKind::Extract { value, lane };
        out.push(stmt);
    }

    fn read(&mut self, local: LocalId, span: Span, out: &mut Block) -> ExprId {
        let ty = self.function.locals[local].ty;
        self.evaluate(ExprKind::Read(local), ty, span, out)
    }

    fn evaluate(&mut self, kind: ExprKind, ty: Ty, span: Span, out: &mut Block) -> ExprId {
        let id = edit::push(self.function, kind, ty, span);
        out.push(Stmt { kind: StmtKind::Let(id), span });
        id
    }

    fn replace_store(&mut self, place: &Place, value: ExprId, span: Span, out: &mut Block) {
        let local = self.element_local(place);
        let Some(component) = place.component else {
            return out.push(Stmt { kind: StmtKind::Write { local, value }, span });
        };
        let whole = self.read(local, span, out);
        let ty = self.function.locals[local].ty;
        let mut parts = Vec::new();
        for lane in 0..ty.lanes() {
            let scalar = typing::extract(ty, lane).unwrap_or(ty);
            parts.push(match lane == component {
                true => value,
                false => self.evaluate(ExprKind::Extract { value: whole, lane }, scalar, span, out),
            });
        }
        let value = self.evaluate(ExprKind::Compose(parts), ty, span, out);
        out.push(Stmt { kind: StmtKind::Write { local, value }, span });
    }
}
