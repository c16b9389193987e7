//! Diagnostics and recovery for common mistakes: names of other modules, strings concatenated with numbers by `+`, a
//! vector as an index, `x[i][j]` for `x[i, j]`, dimensions passed as positional arguments, and too few indices.

use crate::build::{I32, bare, count};
use crate::context::Cx;
use crate::ops::CheckedOperand;
use crate::scopes::LocalMeaning;
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic, Fix};
use clk_base::source::Span;
use clk_scalar::ops::BinaryOp;
use clk_syntax::ast::{self, ExprKind as Ast};

fn before(span: Span) -> Span {
    Span { end: span.start, ..span }
}

/// Returns the span between two spans.
fn between(first: Span, second: Span) -> Span {
    Span { start: first.end, end: second.start, ..first }
}

impl Cx<'_> {
    // Indices

    /// Adds a fix for a vector used as an index, usually `thread_idx` instead of `thread_idx.x`. A variable gets the
    /// type `Error`, so that its other uses are not reported again.
    pub fn component(&mut self, d: Diagnostic, e: &Expr) -> Diagnostic {
        if let ExprKind::Local(id) = e.kind
            && self.locals.get(id).is_some()
        {
            self.locals[id].ty = Type::Error;
        }
        d.help("an index is one of its components: `.x`, `.y` or `.z`").fix(
            "take the first component",
            e.span.after(),
            ".x",
            Applicability::MaybeIncorrect,
        )
    }

    /// Reports a number of indices that differs from the number of axes, or a slice in a kernel.
    pub fn wrong_rank(&mut self, base: &Expr, a: &ArrayType, args: &[ast::Expr], span: Span) -> Expr {
        let rank = a.dims.len();
        let ranged = args.iter().find(|a| matches!(a.kind, Ast::Range { .. }));
        let indices: Vec<Expr> = args
            .iter()
            .filter(|arg| !matches!(arg.kind, Ast::Range { .. }))
            .map(|arg| self.expr(arg, Some(&I32)))
            .collect();
        if let Some(range) = ranged.filter(|_| self.in_kernel()) {
            let d = Diagnostic::error("E0401", "a kernel can't slice an array")
                .at(range.span, "a range as an index belongs to the host")
                .help("loop over the elements: `for i in a..b { … }`");
            let open = matches!(&range.kind, Ast::Range { start: None, end: None, step: None, .. });
            self.report(match open && args.len() == rank {
                true => {
                    d.note("whole axes are values in a kernel only where their extents are numbers: `x: [f32; N, 4]`")
                }
                false => d,
            });
            return self.bad(span);
        }
        let actual = self.ty_text(&base.ty);
        let d = Diagnostic::error(
            "E0306",
            format!("{} for an array of {}", count(args.len(), "index", "indices"), count(rank, "axis", "axes")),
        )
        .at(span, format!("one index per axis: {rank}"))
        .because(base.span, format!("this is `{actual}`"));
        if let [flat] = &indices[..]
            && let Some(edits) = unflattened_index(flat, rank)
        {
            self.report(d.fix_all("give each axis its index", edits, Applicability::MaybeIncorrect));
            return self.bad(span);
        }
        let letters: Vec<&str> = ["i", "j", "k", "l"].into_iter().cycle().take(rank).collect();
        let d = d.help(format!("all indices go in one pair of brackets: `x[{}]`", letters.join(", ")));
        let rest = a.dims.get(args.len()..).unwrap_or(&[]);
        let is_row = !rest.is_empty() && rest.iter().all(|dim| matches!(dim, Dim::Known(1..)));
        self.report(match is_row && self.in_kernel() {
            true => d.help(format!(
                "a row is `x[{}, {}]`",
                letters[..args.len()].join(", "),
                vec![".."; rest.len()].join(", ")
            )),
            false => d,
        });
        self.bad(span)
    }

    /// Checks `x[i][j]` in a kernel, where all indices must be in one pair of brackets. Reports one error and continues
    /// with `x[i, j]`.
    pub fn split_index(&mut self, base: &ast::Expr, args: &[ast::Expr], span: Span, read: bool) -> Option<Expr> {
        if !self.in_kernel() {
            return None;
        }
        let mut root = bare(base);
        let mut brackets = vec![args];
        while let Ast::Index { base, args } = &root.kind {
            brackets.insert(0, args);
            root = bare(base);
        }
        let Ast::Name(name) = &root.kind else { return None };
        let LocalMeaning::Local(id) = self.scopes.get(&name.text)? else { return None };
        let Type::Array(a) = self.vars.shallow(&self.locals.get(id)?.ty) else { return None };
        let ranged = brackets.iter().any(|args| args.iter().any(|arg| matches!(arg.kind, Ast::Range { .. })));
        let count: usize = brackets.iter().map(|args| args.len()).sum();
        if brackets.len() < 2 || count != a.dims.len() || ranged {
            return None;
        }
        let joints = brackets.windows(2).filter_map(|pair| match pair {
            [left, right] => Some((between(left.last()?.span, right.first()?.span), ", ".to_owned())),
            _ => None,
        });
        let actual = self.ty_text(&Type::Array(a));
        let d = Diagnostic::error("E0306", "all indices go in one pair of brackets")
            .at(span, format!("one pair of brackets with {count} indices"))
            .because(root.span, format!("this is `{actual}`"))
            .fix_all("put them into one pair", joints.collect(), Applicability::MachineApplicable);
        self.report(d);
        let args: Vec<ast::Expr> = brackets.concat();
        Some(self.index(root, &args, span, read))
    }

    /// Adds help for a negative index, which counts from the end in other languages.
    pub fn counted_from_the_end(
        &self,
        d: Diagnostic,
        span: Span,
        back: i128,
        dim: &Dim,
        of: Option<(&Expr, usize)>,
    ) -> Diagnostic {
        let Some((base, axis)) = of else { return d };
        let name = match base.kind {
            ExprKind::Local(id) => self.locals.get(id).map(|l| l.name.clone()),
            ExprKind::Global(id) => self.global(id).map(|g| g.name.clone()),
            _ => None,
        };
        let extent = match (dim, name) {
            (Dim::Name(_) | Dim::Known(_), _) if !self.in_host() => self.show().dim(dim),
            (_, Some(name)) if axis == 0 => format!("len({name})"),
            (_, Some(name)) => format!("shape({name}, {axis})"),
            _ => return d,
        };
        d.help(format!("from the end, it is `{extent} - {back}`")).fix(
            format!("write `{extent} - {back}`"),
            span,
            format!("{extent} - {back}"),
            Applicability::MaybeIncorrect,
        )
    }

    // Text

    /// Reports `"n = " + n` and suggests string interpolation. Returns true if it was reported.
    pub fn text_operator(
        &mut self,
        op: BinaryOp,
        op_span: Span,
        left: CheckedOperand<'_>,
        right: CheckedOperand<'_>,
    ) -> bool {
        let (CheckedOperand { ast: left, typed: l }, CheckedOperand { ast: right, typed: r }) = (left, right);
        let is_text = |e: &Expr| e.ty == Type::Str;
        let printed =
            |e: &Expr| !matches!(e.ty, Type::Error | Type::Unknown | Type::Strings | Type::Unit | Type::Never);
        if op != BinaryOp::Add || is_text(l) == is_text(r) || !printed(l) || !printed(r) {
            return false;
        }
        let d = self
            .no_text_operator(op, op_span, l, r)
            .help("values are put into a text between braces: `\"n = {n}\"`; `str(n)` is the text of one");
        let quoted = |e: &ast::Expr| matches!(e.kind, Ast::Str(_));
        let name = |e: &ast::Expr| matches!(e.kind, Ast::Name(_) | Ast::Int { .. });
        // The text `n` in `n + 1` may be a number that was read from a file.
        let (text, number) = if is_text(l) { (left, right) } else { (right, left) };
        let number = match number.kind {
            Ast::Int { .. } => Some("i32"),
            Ast::Float { .. } => Some("f32"),
            _ => None,
        };
        if let Some(number) = number.filter(|_| !quoted(text)) {
            let edits = vec![(before(text.span), format!("parse({number}, ")), (text.span.after(), ")".to_owned())];
            let title = format!("read the number that the text spells: `parse({number}, …)`");
            self.report(d.fix_all(title, edits, Applicability::MaybeIncorrect));
            return true;
        }
        // The closing quote is the last byte of the left span, and the opening quote is the first byte of the right
        // span.
        let (end, start) = (
            Span { start: left.span.end.saturating_sub(1), ..left.span },
            Span { end: right.span.start + 1, ..right.span },
        );
        let edits = match (quoted(left), quoted(right)) {
            (true, false) => vec![(Span { end: right.span.start, ..end }, "{"), (right.span.after(), "}\"")],
            (false, true) => vec![(before(left.span), "\"{"), (Span { start: left.span.end, ..start }, "}")],
            _ => {
                vec![(before(left.span), "\"{"), (between(left.span, right.span), "}{"), (right.span.after(), "}\"")]
            }
        };
        let plain = |e: &ast::Expr| quoted(e) || name(e);
        let applicability =
            if plain(left) && plain(right) { Applicability::MachineApplicable } else { Applicability::MaybeIncorrect };
        let edits = edits.into_iter().map(|(span, text)| (span, text.to_owned())).collect();
        self.report(d.fix_all("put the value into the text", edits, applicability));
        true
    }

    // Launches

    /// Reports `fill(10)` if 10 is a dimension, which must be passed by name. Returns true if it was reported.
    pub fn dimensions_by_place(&mut self, kernel: &Kernel, args: &[ast::Arg]) -> bool {
        let params = &kernel.sig.params;
        let inputs = params.iter().filter(|p| p.access != Access::Out).count();
        let fixed = params.iter().filter(|p| p.access != Access::Out).flat_map(|p| dims_of(&p.ty));
        let fixed: Vec<u32> = fixed.collect();
        let is_named = |name: &str| args.iter().any(|a| a.name.as_ref().is_some_and(|n| n.text == name));
        let open = kernel
            .sig
            .dims
            .iter()
            .enumerate()
            .filter(|(i, dim)| dim.name != "_" && !fixed.contains(&(*i as u32)) && !is_named(&dim.name));
        let open: Vec<&str> = open.map(|(_, dim)| dim.name.as_str()).collect();
        let positional: Vec<&ast::Expr> = args.iter().filter(|a| a.name.is_none()).map(|a| &a.value).collect();
        let surplus = positional.get(inputs..).unwrap_or(&[]);
        let is_number = |e: &ast::Expr| matches!(bare(e).kind, Ast::Int { .. });
        let numbers = surplus.iter().all(|e| is_number(e));
        // With an argument for each parameter, the last ones are numbers of their own: `fill(y, 10)` passes the output.
        let has_all = positional.len() == params.len()
            && params.iter().zip(&positional).all(|(p, e)| p.access != Access::Out || !is_number(e));
        if surplus.is_empty() || !numbers || has_all || surplus.len() > open.len() {
            return false;
        }
        let Some((first, last)) = surplus.first().zip(surplus.last()) else { return false };
        let edits = surplus.iter().zip(&open).map(|(e, dim)| (before(e.span), format!("{dim} = "))).collect();
        let names: Vec<String> = open.iter().map(|dim| format!("`{dim}`")).collect();
        let applicability =
            if open.len() == 1 { Applicability::MachineApplicable } else { Applicability::MaybeIncorrect };
        let d = Diagnostic::error("E0412", format!("the dimensions of `{}` are given by name", kernel.name))
            .at(first.span.to(last.span), format!("a number for {}?", names.join(", ")))
            .because(kernel.name_span, "defined here")
            .fix_all("name the dimension", edits, applicability);
        self.report(d);
        true
    }
}

/// Returns the named dimensions in a parameter's type.
fn dims_of(ty: &Type) -> Vec<u32> {
    let Type::Array(a) = ty else { return vec![] };
    let names = a.dims.iter().filter_map(|dim| match dim {
        Dim::Name(i) => Some(*i),
        _ => None,
    });
    names.collect()
}

/// A module that defines a name which is unknown in the current module.
pub(crate) enum DefiningModule {
    /// A module imported under this alias.
    Imported(SmolStr),
    /// A module of the standard library that is not imported.
    Library(&'static str),
    /// The name is that of a module of the standard library.
    Module,
}

impl DefiningModule {
    pub fn find(program: &Program, module: &Module, word: &str) -> Option<DefiningModule> {
        for (alias, binding) in &module.names {
            let NameBinding::Module(id) = binding else { continue };
            if program.modules.get(*id).is_some_and(|m| m.names.contains_key(word)) {
                return Some(DefiningModule::Imported(alias.clone()));
            }
        }
        let library = program.library?;
        let is_module = || library(&format!("std.{word}")).map(|_| DefiningModule::Module);
        library(word).map(DefiningModule::Library).or_else(is_module)
    }

    /// Adds the module in which an unknown name is defined to its diagnostic, with a fix.
    pub fn explain(self, d: &mut Diagnostic, span: Span, word: &str) {
        let (help, title, edit) = match self {
            DefiningModule::Imported(module) => {
                let whole = format!("{module}.{word}");
                (format!("`{module}` has it: `{whole}`"), format!("write `{whole}`"), (span, whole))
            }
            DefiningModule::Module => {
                let import = format!("import std.{word}");
                let top = Span { start: 0, end: 0, ..span };
                let help = format!("`std.{word}` is a module of the standard library");
                (help, format!("write `{import}` at the top"), (top, format!("{import}\n")))
            }
            DefiningModule::Library(module) => {
                let import = format!("import std.{module}.{{{word}}}");
                let top = Span { start: 0, end: 0, ..span };
                let help = format!("`std.{module}` has it: `{import}`");
                (help, format!("write `{import}` at the top"), (top, format!("{import}\n")))
            }
        };
        d.help.push(help);
        d.fixes.push(Fix { title, edits: vec![edit], applicability: Applicability::MaybeIncorrect });
    }
}

/// Returns the edits that turn the flat index `row * W + col` of an array with two axes into `row, col`, or
/// `(i * H + j) * W + k` into `i, j, k` for three axes.
pub(crate) fn unflattened_index(flat: &Expr, rank: usize) -> Option<Vec<(Span, String)>> {
    let (mut indices, mut rest) = (vec![], flat);
    for _ in 1..rank {
        let ExprKind::Binary { op: BinaryOp::Add, left, right } = &rest.kind else { return None };
        let ExprKind::Binary { op: BinaryOp::Mul, left, right: extent } = &left.kind else { return None };
        if matches!(extent.kind, ExprKind::Binary { .. }) {
            return None;
        }
        indices.push(right.span);
        rest = left;
    }
    indices.push(rest.span);
    indices.reverse();
    let (first, last) = (indices.first()?, indices.last()?);
    let separators = indices.windows(2).map(|pair| (between(pair[0], pair[1]), ", ".to_owned()));
    let ends = [Span { end: first.start, ..flat.span }, Span { start: last.end, ..flat.span }];
    let deleted = ends.into_iter().filter(|span| span.start < span.end).map(|span| (span, String::new()));
    (rank > 1).then(|| deleted.chain(separators).collect())
}
