//! Diagnostics about names of other languages: unknown names (`clip(x, 0, 1)`), paths (`np.clip`), methods
//! (`x.clip(0, 1)`) and fields (`x.T`). The names and their equivalents are in `clk_scalar::foreign_names`.

use crate::build::bare;
use crate::context::{Cx, ErrorReported};
use crate::typed::*;
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_scalar::builtin;
use clk_scalar::foreign_names::{self, ClkEquivalent, ForeignName};
use clk_syntax::ast::{self, ExprKind as Ast};

/// A use of a foreign name.
pub(crate) struct ForeignUse<'a> {
    /// The name as written, possibly with its module: `np.clip`.
    pub name: &'a str,
    pub span: Span,
    /// The arguments if the name is called, and the span of the call.
    pub call: Option<(&'a [ast::Arg], Span)>,
}

/// Adds Clk's equivalent of a foreign name to a diagnostic.
pub(crate) fn explain(d: Diagnostic, row: &ForeignName, usage: &ForeignUse<'_>) -> Diagnostic {
    if let Some(clk) = row.replacement(usage.name) {
        let applicability = match row.is_common_word {
            true => Applicability::MaybeIncorrect,
            false => Applicability::MachineApplicable,
        };
        return d.help(row.help(usage.name)).fix(format!("write `{clk}`"), usage.span, clk, applicability);
    }
    let (args, whole) = usage.call.map_or((&[][..], usage.span), |(args, span)| (args, span));
    let argument = args.first().filter(|arg| arg.name.is_none()).and_then(|arg| variable(&arg.value));
    let d = d.help(row.help_with(usage.name, argument));
    match argument.filter(|_| args.len() == 1).and_then(|argument| row.unary_code(argument)) {
        Some(code) => d.fix(format!("write `{code}`"), whole, code, Applicability::MaybeIncorrect),
        None => d,
    }
}

/// Returns the name of a variable.
fn variable(e: &ast::Expr) -> Option<&str> {
    match &bare(e).kind {
        Ast::Name(name) => Some(&name.text),
        _ => None,
    }
}

/// Returns a path of names, such as `np.linalg.norm`.
fn path(base: &ast::Expr, name: &ast::Name) -> Option<String> {
    let before = match &base.kind {
        Ast::Name(first) => first.text.to_string(),
        Ast::Field { base, name } => path(base, name)?,
        _ => return None,
    };
    Some(format!("{before}.{}", name.text))
}

/// Looks up a method or field of an object in another language. `x.cuda()` and `x.numpy()` have the names of modules
/// but move an array.
pub(crate) fn method(word: &str) -> Option<ForeignName> {
    foreign_names::find(if foreign_names::is_module(word) { "cpu" } else { word })
}

/// Returns the array of `x.iter()`, `x.into_iter()` and the like, which have no equivalent.
pub(crate) fn without_iterators(e: &ast::Expr) -> &ast::Expr {
    let Ast::Call { callee, args } = &bare(e).kind else { return e };
    match &bare(callee).kind {
        Ast::Field { base, name } if args.is_empty() && is_iterator(&name.text) => without_iterators(base),
        _ => e,
    }
}

fn is_iterator(method: &str) -> bool {
    matches!(method, "iter" | "into_iter" | "iter_mut" | "cloned" | "copied" | "collect" | "to_vec" | "clone")
}

/// Returns the type to which a method such as `.to(f16)` or `.astype(float32)` converts.
pub(crate) fn target_type(method: &str, args: &[ast::Arg]) -> Option<&'static str> {
    match args {
        [ast::Arg { name: None, value }] if matches!(method, "to" | "astype" | "type") => scalar_type(value),
        _ => None,
    }
}

/// Returns Clk's name of the type that `float32`, `np.float32` or `f32` names.
pub(crate) fn scalar_type(e: &ast::Expr) -> Option<&'static str> {
    let (Ast::Name(name) | Ast::Field { name, .. }) = &bare(e).kind else { return None };
    let name = name.text.as_str();
    match foreign_names::find_type(name).map(|row| row.equivalent) {
        Some(ClkEquivalent::Name(clk)) => Some(clk),
        _ => Scalar::from_name(name).map(Scalar::name),
    }
}

/// Returns whether a builtin has the name of a foreign function that does something else with an array: `split` is for
/// text, and `shuffle` for warps.
fn differs_for_arrays(row: &ForeignName) -> bool {
    !matches!(row.equivalent, ClkEquivalent::Same | ClkEquivalent::Name(_))
}

impl Cx<'_> {
    /// Reports a path such as `np.sqrt` from a foreign library, if its first name (`np`) is not defined in the program.
    pub fn foreign_member(
        &mut self,
        base: &ast::Expr,
        name: &ast::Name,
        call: Option<(&[ast::Arg], Span)>,
    ) -> Option<ErrorReported> {
        let path = path(base, name)?;
        let row = foreign_names::find(&path)?;
        let module = path.split('.').next().unwrap_or_default();
        if self.lookup(module).is_some() {
            return None;
        }
        let span = base.span.to(name.span);
        let d = Diagnostic::error("E0201", format!("nothing here is called `{path}`"))
            .at(span, "this belongs to another language");
        Some(self.report_error(explain(d, &row, &ForeignUse { name: &path, span, call })))
    }

    /// Reports a foreign type with the prefix of its module, such as `tl.constexpr`.
    pub fn foreign_type(&mut self, path: &[ast::Name]) -> Option<ErrorReported> {
        let (first, last) = (path.first()?, path.last()?);
        let names: Vec<&str> = path.iter().map(|name| name.text.as_str()).collect();
        let text = names.join(".");
        let row = foreign_names::find(&text)?;
        if self.lookup(&first.text).is_some() {
            return None;
        }
        let span = first.span.to(last.span);
        let d = Diagnostic::error("E0201", format!("nothing here is called `{text}`"))
            .at(span, "this belongs to another language");
        Some(self.report_error(explain(d, &row, &ForeignUse { name: &text, span, call: None })))
    }

    /// Adds the equivalent of the method call `base.name(args)`, if it is a method of another language and no function
    /// of Clk. Otherwise returns the diagnostic unchanged, as an error.
    pub fn foreign_method(
        &self,
        d: Diagnostic,
        base: (&ast::Expr, &Type),
        name: &ast::Name,
        call: (&[ast::Arg], Span),
    ) -> Result<Diagnostic, Box<Diagnostic>> {
        let (base, ty) = base;
        let (args, span) = call;
        let word = name.text.as_str();
        let Some(row) = method(word) else { return Err(Box::new(d)) };
        let is_array = matches!(self.vars.shallow(ty), Type::Array(_));
        if is_array && let Some(edits) = append_edits(base, name, call) {
            let d = d.note("an array has a fixed length; if the final one is known, fill `zeros(n)` by index instead");
            return Ok(match self.in_kernel() {
                true => d,
                false => d.fix_all("make a longer array", edits, Applicability::MaybeIncorrect),
            });
        }
        let is_builtin = builtin::find(word).is_some() && !(is_array && differs_for_arrays(&row));
        if is_builtin || matches!(self.module.names.get(word), Some(NameBinding::Fn(_))) {
            return Err(Box::new(d));
        }
        if let Some(clk) = row.replacement(word) {
            // A replacement by an operator or a keyword has no form with arguments.
            if !clk.starts_with(char::is_alphabetic) || matches!(clk, "true" | "false") {
                return Err(Box::new(d));
            }
            let edits = call_edits(clk, base.span, name.span, !args.is_empty());
            return Ok(d.help(format!("Clk's function for it is `{clk}(…)`")).fix_all(
                format!("call the function `{clk}`"),
                edits,
                Applicability::MaybeIncorrect,
            ));
        }
        let d = d.help(row.help_with(word, variable(base)));
        Ok(match variable(base).filter(|_| args.is_empty()).and_then(|base| row.unary_code(base)) {
            Some(code) => d.fix(format!("write `{code}`"), span, code, Applicability::MaybeIncorrect),
            None => d,
        })
    }

    /// Adds the equivalent of the field `base.name` of an array, if it is an attribute in another language.
    pub fn foreign_field(&self, d: Diagnostic, base: &Expr, name: &ast::Name) -> Diagnostic {
        let word = name.text.as_str();
        let Some(row) = method(word) else { return d };
        match row.replacement(word) {
            Some(clk) if builtin::find(clk).is_some() => d.help(format!("Clk's function for it is `{clk}(…)`")),
            Some(clk) if Scalar::from_name(clk).is_some() => d.help(format!("`{clk}(x)` converts")),
            Some(_) => d,
            None => d.help(row.help_with(word, self.variable_of(base))),
        }
    }

    /// Returns the name of a variable in the typed tree.
    pub(crate) fn variable_of(&self, e: &Expr) -> Option<&str> {
        match &e.kind {
            ExprKind::Local(id) => self.locals.get(*id).map(|local| local.name.as_str()),
            ExprKind::Global(id) => self.global(*id).map(|global| global.name.as_str()),
            _ => None,
        }
    }
}

/// Returns the edits that turn `base.name(args)` into `function(base, args)`.
pub(crate) fn call_edits(function: &str, base: Span, name: Span, has_args: bool) -> Vec<(Span, String)> {
    let between = Span { start: base.end, end: name.end + 1, ..name };
    let comma = if has_args { ", " } else { "" };
    vec![(Span { end: base.start, ..base }, format!("{function}(")), (between, comma.to_owned())]
}

/// Returns the edits that turn the statement `x.append(v)` of Python or Rust into `x = concat(x, [v])`.
fn append_edits(base: &ast::Expr, name: &ast::Name, call: (&[ast::Arg], Span)) -> Option<Vec<(Span, String)>> {
    let ([ast::Arg { name: None, value }], span) = call else { return None };
    let variable = variable(base)?;
    let (open, close) = match &*name.text {
        "append" | "push" | "push_back" | "emplace_back" => ("[", "]"),
        "extend" | "extend_from_slice" => ("", ""),
        _ => return None,
    };
    let before = Span { end: value.span.start, ..span };
    let after = Span { start: value.span.end, ..span };
    Some(vec![(before, format!("{variable} = concat({variable}, {open}")), (after, format!("{close})"))])
}
