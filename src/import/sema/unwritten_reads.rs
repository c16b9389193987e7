//! Finds variables that are read before a statement has written them.

use super::assigned_names::root;
use super::tree::{Expr, ExprKind, Stmt, StmtKind, visit_expr};
use crate::source::SourceSpan;
use clk_base::diag::Diagnostic;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// The code of the error about a variable that is read before it has a value.
const WITHOUT_VALUE: &str = "E0515";

/// A read of a variable that has no value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct UnwrittenRead {
    /// The name in C++.
    pub(crate) name: SmolStr,
    pub(crate) declared: SourceSpan,
    pub(crate) read: SourceSpan,
}

impl UnwrittenRead {
    pub(crate) fn diagnostic(&self) -> Diagnostic {
        Diagnostic::error(WITHOUT_VALUE, format!("`{}` is read before it has a value", self.name))
            .at(self.read.span, "nothing was written to it yet")
            .because(self.declared.span, "declared without a value")
    }
}

struct Variable {
    declared: SourceSpan,
    is_written: bool,
    /// The first read, and the outermost loop that contains it.
    read: Option<(SourceSpan, Option<usize>)>,
}

#[derive(Default)]
struct Scan {
    /// The variables without an initial value, by name; `None` for other variables.
    scopes: Vec<FxHashMap<SmolStr, Option<usize>>>,
    variables: Vec<Variable>,
    /// The number of the outermost loop around the statement.
    outer_loop: Option<usize>,
    loops: usize,
}

/// Returns the places of the declarations of variables that are read although no statement before the read writes
/// them, with the place of the first read. A write in the same outermost loop may come before the read in an earlier
/// iteration.
pub(crate) fn unwritten_reads(stmts: &[Stmt]) -> Vec<(SourceSpan, SourceSpan)> {
    let mut scan = Scan::default();
    scan.block(stmts);
    scan.variables.iter().filter_map(|variable| Some((variable.declared, variable.read?.0))).collect()
}

impl Scan {
    fn find(&mut self, name: &str) -> Option<&mut Variable> {
        let at = self.scopes.iter().rev().find_map(|scope| scope.get(name))?;
        self.variables.get_mut((*at)?)
    }

    fn declare(&mut self, name: &SmolStr, at: Option<usize>) {
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.clone(), at);
        }
    }

    fn read(&mut self, value: &Expr) {
        visit_expr(value, &mut |expr| {
            let ExprKind::Name(name) = &expr.kind else { return };
            let outer_loop = self.outer_loop;
            if let Some(variable) = self.find(name)
                && !variable.is_written
                && variable.read.is_none()
            {
                variable.read = Some((expr.span, outer_loop));
            }
        });
    }

    fn write(&mut self, place: &Expr) {
        let outer_loop = self.outer_loop;
        let Some(name) = root(place) else { return };
        let Some(variable) = self.find(&name) else { return };
        variable.is_written = true;
        if outer_loop.is_some() && variable.read.is_some_and(|(_, outer)| outer == outer_loop) {
            variable.read = None;
        }
    }

    fn looped(&mut self, f: impl FnOnce(&mut Self)) {
        let outer = self.outer_loop;
        self.loops += 1;
        self.outer_loop = outer.or(Some(self.loops));
        f(self);
        self.outer_loop = outer;
    }

    fn block(&mut self, stmts: &[Stmt]) {
        self.scopes.push(FxHashMap::default());
        for stmt in stmts {
            self.stmt(stmt);
        }
        self.scopes.pop();
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            // Elements of arrays are followed by the checks of the program.
            StmtKind::Declare { name, ty, value: None, .. } if !ty.starts_with('[') => {
                self.variables.push(Variable { declared: stmt.span, is_written: false, read: None });
                self.declare(name, Some(self.variables.len() - 1));
            }
            StmtKind::Declare { name, value, .. } => {
                value.iter().for_each(|value| self.read(value));
                self.declare(name, None);
            }
            StmtKind::Assign { place, op, value } => {
                self.read(value);
                match &place.kind {
                    ExprKind::Name(_) if op.is_empty() => {}
                    ExprKind::Index(_, indices) => indices.iter().for_each(|index| self.read(index)),
                    ExprKind::Field(..) => {}
                    _ => self.read(place),
                }
                self.write(place);
            }
            StmtKind::Expr(value) | StmtKind::Return(Some(value)) => self.read(value),
            StmtKind::If { condition, then, otherwise } => {
                self.read(condition);
                self.block(then);
                self.block(otherwise);
            }
            StmtKind::While { condition, body } => self.looped(|scan| {
                scan.read(condition);
                scan.block(body);
            }),
            StmtKind::Loop(body) => self.looped(|scan| scan.block(body)),
            StmtKind::For { name, from, to, step, body, .. } => {
                [Some(from), Some(to), step.as_ref()].into_iter().flatten().for_each(|value| self.read(value));
                self.looped(|scan| {
                    scan.scopes.push(FxHashMap::default());
                    scan.declare(name, None);
                    scan.block(body);
                    scan.scopes.pop();
                });
            }
            StmtKind::Shared { .. } | StmtKind::Break | StmtKind::Continue | StmtKind::Return(None) => {}
        }
    }
}
