//! Emits statements without control flow, and the declarations of locals.

use rustc_hash::FxHashMap;

use super::expr::streams;
use super::generator::CudaGenerator;
use super::tree::{CudaExpr, CudaStmt as Out};
use clk_ir::def::*;
use clk_ir::ranges::BodySite;

impl CudaGenerator<'_> {
    pub fn block(&mut self, block: &Block) {
        let mut i = 0;
        while i < block.len() {
            self.stmt(&block[i]);
            i += 1;
        }
    }

    pub fn stmt(&mut self, stmt: &Stmt) {
        let number = self.stmt;
        let site = BodySite::Stmt(number);
        self.stmt += 1;
        let silent = matches!(&stmt.kind, StmtKind::Let(id) if self.analyses.plan.is_inline(*id) || !self.analyses.plan.is_used(*id));
        if !silent {
            self.emit_line(stmt.span);
        }
        if let Some(scope) = self.analyses.fences.before(number) {
            self.fence(scope);
        }
        match &stmt.kind {
            StmtKind::Let(id) => self.evaluate(*id),
            StmtKind::Write { local, value } => self.write(*local, *value),
            StmtKind::Store { place, value, hint } => {
                self.guard_access(site, place, true, stmt.span);
                self.store(place, *value, *hint);
            }
            StmtKind::Atomic { op, place, value, compare, result } => {
                self.guard_access(site, place, true, stmt.span);
                self.atomic(*op, place, *value, *compare, *result);
            }
            StmtKind::Barrier { kind, value, result } => self.barrier(*kind, *value, *result),
            StmtKind::Warp { op, value, lane, among, result } => {
                self.guard_among(*op, *among, stmt.span);
                self.warp(*op, *value, *lane, *among, *result);
                if self.analyses.fences.syncs(number) {
                    self.push(Out::Do(CudaExpr::call("__syncwarp", [])));
                }
            }
            StmtKind::Fence(scope) => self.fence(*scope),
            StmtKind::Assert { cond, message } => self.assert(*cond, message, stmt.span),
            StmtKind::Print { parts } => self.print(parts),
            // A declaration only makes the elements of the array undefined, which needs no code.
            StmtKind::Declare(_) => {}
            // Calls have been inlined, so a `return` in the body ends the thread, and it has no value.
            StmtKind::Return(_) | StmtKind::Call { .. } => self.push(Out::Return),
            StmtKind::If { cond, then, other } => self.if_(*cond, then, other),
            StmtKind::For { .. } => self.for_(&stmt.kind, stmt.span),
            StmtKind::Loop { label, unroll, body } => self.loop_(*label, *unroll, body, stmt.span),
            StmtKind::Block { label, body } => self.labeled_block(*label, body),
            StmtKind::Break(label) => self.leave(*label, true),
            StmtKind::Continue(label) => self.leave(*label, false),
        }
    }

    fn fence(&mut self, scope: FenceScope) {
        let name = if scope == FenceScope::Block { "__threadfence_block" } else { "__threadfence" };
        self.push(Out::Do(CudaExpr::call(name, [])));
    }

    /// Emits the guard of a value, and declares a constant for the value unless it is inlined.
    fn evaluate(&mut self, id: ExprId) {
        let function = self.function;
        let expr = &function.exprs[id];
        let span = function.spans[id];
        match &expr.kind {
            ExprKind::Load { place, .. } => self.guard_access(BodySite::Load(id), place, false, span),
            ExprKind::Binary { op: BinOp::Div | BinOp::Rem, left, right } => {
                self.guard_division(id, *left, *right, span);
            }
            _ => {}
        }
        if self.analyses.plan.is_inline(id) || !self.analyses.plan.is_used(id) {
            return;
        }
        let value = self.build(id, false);
        self.name(id, value);
    }

    /// Declares a constant for a value.
    pub fn name(&mut self, id: ExprId, value: CudaExpr) {
        let ty = self.preamble.helpers.ty(self.function.exprs[id].ty);
        let name = self.temporary();
        self.declare(&ty, &name, value);
        self.naming.values.insert(id, name);
    }

    /// Declares a constant for a statement's result if the result is used; otherwise, emits only the expression.
    pub fn result(&mut self, result: Option<ExprId>, value: CudaExpr) {
        match result {
            Some(id) if self.analyses.plan.is_used(id) => self.name(id, value),
            _ => self.push(Out::Do(value)),
        }
    }

    fn write(&mut self, local: LocalId, value: ExprId) {
        let value = self.value(value);
        let name = self.naming.locals[local.index()].clone();
        if self.analyses.declared_at_write.remove(&local) {
            let ty = self.preamble.helpers.ty(self.function.locals[local].ty);
            self.push(Out::Declare { ty, name, suffix: String::new(), value: Some(value) });
        } else {
            self.push(Out::Assign(CudaExpr::Atom(name), value));
        }
    }

    fn store(&mut self, place: &Place, value: ExprId, hint: CacheHint) {
        let ty = self.function.exprs[value].ty;
        let global = matches!(self.function.memories[place.memory].space, MemorySpace::Global { .. });
        let value = self.value(value);
        if let (true, Some(left)) = (global, &mut self.deferred.stores) {
            left.push(place.memory);
            let array = self.memories[place.memory.index()].name.clone();
            let offset = self.offset(place);
            self.push(Out::Do(CudaExpr::call(format!("left.{array}.put"), [CudaExpr::atom("true"), offset, value])));
            return;
        }
        let place = self.place(place);
        if hint == CacheHint::Streaming && global && streams(ty) {
            self.push(Out::Do(CudaExpr::call("__stcs", [CudaExpr::address(place), value])));
        } else {
            self.push(Out::Assign(place, value));
        }
    }

    /// Chooses the names of all locals. Declares locals at the start of the function, except those that are declared at
    /// their first write.
    pub fn declare_locals(&mut self) {
        let function = self.function;
        for (_, local) in function.locals.iter() {
            let name = self.naming.used.fresh(&local.name);
            self.naming.locals.push(name);
        }
        let mut homes = LocalUseMap::default();
        homes.block(function, &function.body);
        for (id, local) in function.locals.iter() {
            match homes.found.get(&id) {
                None => {}
                Some(home) if home.only_counts => drop(self.analyses.counters.insert(id)),
                Some(home) if home.written_first && home.common.last() == Some(&home.first) => {
                    self.analyses.declared_at_write.insert(id);
                }
                Some(_) => {
                    let (ty, name) = (self.preamble.helpers.ty(local.ty), self.naming.locals[id.index()].clone());
                    // Initialize the local with zero, as the simulator does: a read before the first write is a bug in
                    // the program, but must be deterministic.
                    let value = Some(CudaExpr::Braces(String::new(), vec![]));
                    self.push(Out::Declare { ty, name, suffix: String::new(), value });
                }
            }
        }
    }
}

/// The accesses to a local.
struct LocalUses {
    /// The blocks that enclose all accesses, outermost first.
    common: Vec<u32>,
    /// `first` is the block of the first access. The flag is set if the first access is a write.
    first: u32,
    written_first: bool,
    /// Whether the local is used only as a loop counter and read only in its loops.
    only_counts: bool,
}

#[derive(Default)]
struct LocalUseMap {
    found: FxHashMap<LocalId, LocalUses>,
    path: Vec<u32>,
    blocks: u32,
    counting: Vec<LocalId>,
}

impl LocalUseMap {
    fn block(&mut self, function: &Function, block: &Block) {
        self.path.push(self.blocks);
        self.blocks += 1;
        for stmt in block {
            let mut counter = None;
            match &stmt.kind {
                StmtKind::Let(id) => {
                    if let ExprKind::Read(local) = function.exprs[*id].kind {
                        let counts = self.counting.contains(&local);
                        self.access(local, false, counts);
                    }
                }
                StmtKind::Write { local, .. } => self.access(*local, true, false),
                StmtKind::For { local, .. } => {
                    self.access(*local, false, true);
                    counter = Some(*local);
                }
                _ => {}
            }
            self.counting.extend(counter);
            for inner in stmt.kind.blocks() {
                self.block(function, inner);
            }
            self.counting.truncate(self.counting.len() - usize::from(counter.is_some()));
        }
        self.path.pop();
    }

    fn access(&mut self, local: LocalId, writes: bool, counts: bool) {
        let path = &self.path;
        let home = self.found.entry(local).or_insert_with(|| LocalUses {
            common: path.clone(),
            first: path.last().copied().unwrap_or(0),
            written_first: writes,
            only_counts: true,
        });
        let shared = home.common.iter().zip(path).take_while(|(a, b)| a == b).count();
        home.common.truncate(shared);
        home.only_counts &= counts;
    }
}
