//! Assignments: to declared variables, and to undeclared names.

use crate::build::{bare, make};
use crate::context::{BodyKind, Cx, Info, ResolvedName};
use crate::scopes::LocalMeaning;
use crate::suggestions;
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::ops::BinaryOp;
use clk_syntax::ast::{self, ExprKind as Ast};

/// Code of the error for a variable that is introduced without `let`.
pub(crate) const UNDECLARED: &str = "E0116";

impl Cx<'_> {
    pub fn assign(&mut self, place: &ast::Expr, op: Option<(BinaryOp, Span)>, value: &ast::Expr) -> StmtKind {
        if let (Ast::Name(name), None) = (&bare(place).kind, op)
            && self.is_undeclared(name)
        {
            return self.undeclared(name, value);
        }
        let before = self.divergence.varying_reads;
        let hint = self.type_of_variable(place);
        let value = self.as_tile(|cx| cx.expr(value, hint.as_ref()));
        self.assign_checked(place, op, value, before)
    }

    /// Checks an assignment of a checked value. `before` is the number of reads of varying values before the value.
    pub(crate) fn assign_checked(
        &mut self,
        place: &ast::Expr,
        op: Option<(BinaryOp, Span)>,
        value: Expr,
        before: u32,
    ) -> StmtKind {
        let checked = self.as_tile(|cx| cx.place(place, op.is_some()));
        self.record_write(place);
        let place = checked;
        if let Some((op, _)) = op
            && self.initialization.early_reads.last().is_some_and(|read| read.span == place.span)
        {
            let depends_on_thread = self.depends_on_thread_or_block(&place);
            if let Some(read) = self.initialization.early_reads.last_mut() {
                (read.op, read.depends_on_thread) = (Some(op), depends_on_thread);
            }
        }
        let is_tile = self.is_tile(&place);
        if matches!(place.kind, ExprKind::Slice { .. }) && !is_tile {
            self.need_host(place.span, "assigning to a part of an array");
        }
        if is_tile {
            self.require_convergence(place.span, "assignment");
        }
        let varying = self.divergence.varying_reads != before;
        if let (ExprKind::Local(id), true) = (&place.kind, varying || self.divergence.condition().is_some())
            && let Some(info) = self.local_info(*id)
        {
            info.varying = true;
        }
        if is_tile && varying {
            self.differs(&value);
        }
        let result = match op {
            Some((op, op_span)) => {
                let diagnostics_before = self.diagnostics.len();
                let ty = self.as_tile(|cx| cx.binary_type(op, op_span, &place, &value));
                self.no_converted_place(place.span, diagnostics_before);
                make(ExprKind::Error, ty, value.span)
            }
            None => {
                if matches!(place.kind, ExprKind::Slice { .. } | ExprKind::Index { .. })
                    && self.vars.shallow(&place.ty) == Type::Unknown
                {
                    self.leave_literals_open(&[&value]);
                }
                make(ExprKind::Error, value.ty.clone(), value.span)
            }
        };
        self.check_assigned(&place, &result, is_tile || place.is_part());
        StmtKind::Assign { place: Box::new(place), op: op.map(|o| o.0), value }
    }

    /// Returns the type of an expression that is the name of a variable.
    pub(crate) fn type_of_variable(&self, place: &ast::Expr) -> Option<Type> {
        let Ast::Name(name) = &bare(place).kind else { return None };
        let ty = match self.scopes.get(&name.text)? {
            LocalMeaning::Local(id) => &self.locals.get(id)?.ty,
            LocalMeaning::Global(id) => &self.global(id)?.ty,
            _ => return None,
        };
        Some(self.vars.shallow(ty))
    }

    fn check_assigned(&mut self, place: &Expr, value: &Expr, broadcasts: bool) {
        let (expected, actual) = (self.vars.shallow(&place.ty), self.vars.shallow(&value.ty));
        if matches!(expected, Type::Error) || matches!(actual, Type::Error) {
            return;
        }
        // The type of a slice may be unknown because its shape is unknown. The type of its elements may be known.
        if let (Type::Unknown, ExprKind::Slice { base, .. } | ExprKind::Index { base, .. }) = (&expected, &place.kind)
            && let Type::Array(a) = self.vars.shallow(&base.ty)
        {
            let one = match &actual {
                Type::Array(b) => b.element.clone(),
                other => other.clone(),
            };
            let why = Some((place.span, format!("its elements are `{}`", self.ty_text(&a.element))));
            let one = make(ExprKind::Error, one, value.span);
            self.coerce(&one, &a.element, why);
            return;
        }
        let why = Some((place.span, format!("this is `{}`", self.ty_text(&expected))));
        if matches!(actual, Type::Array(_) | Type::Tuple(_)) {
            self.vars.admit_declared(&actual, &expected);
        }
        match (&expected, &actual) {
            // A scalar or a smaller shape broadcasts to a slice or a column.
            (Type::Array(a), Type::Array(b)) if broadcasts => {
                let element = make(ExprKind::Error, b.element.clone(), value.span);
                self.coerce(&element, &a.element, why);
                if b.dims.len() == a.dims.len() {
                    for (axis, (x, y)) in a.dims.iter().zip(&b.dims).enumerate() {
                        if let (Dim::Known(x), Dim::Known(y)) = (x, y)
                            && x != y
                            && *y != 1
                        {
                            let d = Diagnostic::error(
                                "E0305",
                                format!("{y} elements don't fit into {x} along axis {axis}"),
                            )
                            .at(value.span, format!("axis {axis} is {y}"))
                            .because(place.span, format!("axis {axis} is {x}"));
                            self.report(d);
                            return;
                        }
                    }
                }
            }
            (Type::Array(a), _) if broadcasts => {
                self.coerce(value, &a.element.clone(), why);
            }
            _ => {
                self.coerce(value, &expected, why);
            }
        }
    }

    /// Returns whether an assigned name is not a declared variable but undefined, a builtin or a type.
    pub(crate) fn is_undeclared(&mut self, name: &ast::Name) -> bool {
        let later = self.script_names.is_some_and(|names| names.contains_key(name.text.as_str()));
        name.text != "_"
            && !later
            && matches!(self.lookup(&name.text), None | Some(ResolvedName::Builtin(_) | ResolvedName::Type(_)))
    }

    /// Reports `x = …` for an undeclared `x`, and recovers by declaring it.
    fn undeclared(&mut self, name: &ast::Name, value: &ast::Expr) -> StmtKind {
        let before = self.diagnostics.len();
        let is_part = match &bare(value).kind {
            Ast::Index { args, .. } => args.iter().any(|arg| matches!(bare(arg).kind, Ast::Range { .. })),
            _ => false,
        };
        let value = self.expr(value, None);
        let unknown = format!("nothing here is called `{}`", name.text);
        let already_reported = self.diagnostics.iter().skip(before).any(|d| d.title == unknown);
        if !already_reported {
            let near = suggestions::nearest(&name.text, self.variables()).map(str::to_owned);
            let mut d = self.undeclared_message(name, near);
            // A part of an array is a tile in a kernel, which only shared memory holds.
            let is_window = is_part && !self.in_host();
            if is_window && d.code == UNDECLARED {
                d.fixes.clear();
                d = d.help(format!(
                    "a tile is declared before it is set: `shared {}: [f32; 16, 64]`, with the extents of this part",
                    name.text
                ));
            }
            self.report(d);
        }
        let ty = if already_reported { Type::Error } else { value.ty.clone() };
        let pattern = match self.home == BodyKind::Script && self.scopes.is_outermost() {
            true => {
                let id = GlobalId::new(self.program.globals.len() + self.globals.len());
                self.globals.push(Global { name: name.text.clone(), ty, mutable: true, span: name.span });
                self.global_info.push(Info { used: true, ..Info::default() });
                self.scopes.bind(name.text.clone(), LocalMeaning::Global(id));
                self.record_variable(name, DefinitionKind::Var, NameTarget::Item(NameBinding::Global(id)));
                Pattern::Global(id)
            }
            false => Pattern::Local(self.declare(name, ty, true, LocalKind::Var, None)),
        };
        StmtKind::Let { pattern, value: Some(value), declared: None }
    }

    fn undeclared_message(&self, name: &ast::Name, near: Option<String>) -> Diagnostic {
        if let Some(near) = near {
            return Diagnostic::error("E0201", format!("nothing here is called `{}`", name.text))
                .at(name.span, "this name is not defined")
                .help(format!("did you mean `{near}`?"))
                .fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect)
                .help(format!("a new variable begins with `let` or `var`: `let {} = …`", name.text));
        }
        // In a loop or a branch, the fix may be wrong, because a variable declared in it goes out of scope at its end.
        let inner = self.loops.is_inside() || self.divergence.is_nested();
        let sure = if inner { Applicability::MaybeIncorrect } else { Applicability::MachineApplicable };
        let before = Span { end: name.span.start, ..name.span };
        Diagnostic::error(UNDECLARED, "a new variable begins with `let` or `var`")
            .at(name.span, "a new name without `let`")
            .fix("write `let`", before, "let ", sure)
    }

    /// Changes the suggested fix from `let` to `var` for undeclared variables that later statements assign again.
    pub fn update_let_fixes(&mut self) {
        let locals = self.locals.iter().zip(&self.info).map(|((_, local), info)| (local.span, info.assigned));
        let globals = self.globals.iter().zip(&self.global_info).map(|(global, info)| (global.span, info.assigned));
        for (span, _) in locals.chain(globals).filter(|(_, assigned)| *assigned) {
            let is_undeclared_error = |d: &&mut Diagnostic| d.code == UNDECLARED && d.primary() == Some(span);
            for fix in self.diagnostics.iter_mut().find(is_undeclared_error).into_iter().flat_map(|d| &mut d.fixes) {
                fix.title = "write `var`".into();
                fix.edits.iter_mut().for_each(|(_, text)| *text = "var ".into());
            }
        }
    }

    /// Returns the names of the mutable variables in scope.
    fn variables(&self) -> impl Iterator<Item = &str> {
        self.scopes.iter().filter_map(|(name, slot)| {
            let mutable = match slot {
                LocalMeaning::Local(id) => self.locals.get(id).is_some_and(|local| local.mutable),
                LocalMeaning::Global(id) => self.global(id).is_some_and(|global| global.mutable),
                _ => false,
            };
            mutable.then_some(name)
        })
    }
}
