//! Host strings: their operators, indexing and slicing, arrays of strings, and the builtins that take them.
//!
//! Input: syntax, and operands that have been checked. Output: typed expressions of [`Type::Str`] and
//! [`Type::Strings`], or diagnostics. An operand of type [`Type::Unknown`] may be a string at run time, so the result
//! of combining it with a string is also of unknown type.

use crate::build::{BOOL, I32, is_text, make};
use crate::builtin_call::BuiltinCall;
use crate::context::Cx;
use crate::infer::array;
use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_scalar::ops::{BinaryOp, TextFn};
use clk_syntax::ast;

/// Returns the type of a rank-1 array whose extent is known only at run time.
fn list_of(element: Type) -> Type {
    match element {
        Type::Str => Type::Strings,
        element => array(element, vec![Dim::Unknown]),
    }
}

/// Returns the minimum and maximum number of arguments, and the result type.
fn signature(f: TextFn) -> (usize, usize, Type) {
    match f {
        TextFn::Split => (1, 2, Type::Strings),
        TextFn::Lines => (1, 1, Type::Strings),
        TextFn::Join => (2, 2, Type::Str),
        TextFn::Trim | TextFn::Upper | TextFn::Lower => (1, 1, Type::Str),
        TextFn::Replace => (3, 3, Type::Str),
        TextFn::Find => (2, 2, I32),
        TextFn::Contains | TextFn::StartsWith | TextFn::EndsWith => (2, 2, BOOL),
    }
}

impl Cx<'_> {
    /// Returns the type of `l op r` if an operand is a string; `None` if neither operand is.
    pub fn text_type(&mut self, op: BinaryOp, op_span: Span, l: &Expr, r: &Expr) -> Option<Type> {
        let (lt, rt) = (self.vars.shallow(&l.ty), self.vars.shallow(&r.ty));
        if !is_text(&lt) && !is_text(&rt) {
            return None;
        }
        Some(match (op, &lt, &rt) {
            (_, Type::Error, _) | (_, _, Type::Error) => Type::Error,
            (_, Type::Unknown, _) | (_, _, Type::Unknown) => Type::Unknown,
            (BinaryOp::Add, Type::Str, Type::Str) => Type::Str,
            (_, Type::Str, Type::Str) if op.is_comparison() => BOOL,
            (_, l, r) if op.is_comparison() && is_text(l) && is_text(r) => list_of(BOOL),
            _ => {
                let d = self.no_text_operator(op, op_span, l, r);
                self.report(d);
                Type::Error
            }
        })
    }

    /// Builds the diagnostic for an operator that strings do not have.
    pub fn no_text_operator(&self, op: BinaryOp, op_span: Span, l: &Expr, r: &Expr) -> Diagnostic {
        let (lt, rt) = (self.ty_text(&l.ty), self.ty_text(&r.ty));
        let other = if self.vars.shallow(&l.ty) == Type::Str { &rt } else { &lt };
        let many = [l, r].iter().any(|e| self.vars.shallow(&e.ty) == Type::Strings);
        let title = match op {
            BinaryOp::Add if !many => format!("`+` joins text with text, not with `{other}`"),
            op if op.is_comparison() => format!("`{}` can't compare `{lt}` and `{rt}`", op.symbol()),
            _ if many => format!("`{}` does not work on arrays of text", op.symbol()),
            _ => format!("`{}` does not work on text", op.symbol()),
        };
        let d = Diagnostic::error("E0303", title)
            .at(op_span, "this operator")
            .because(l.span, format!("this is `{lt}`"))
            .because(r.span, format!("this is `{rt}`"));
        match op {
            BinaryOp::Add if many => {
                d.help("`concat(a, b)` joins arrays, `join(a, \", \")` makes one text of an array")
            }
            BinaryOp::Mul if !many => d.help("a text is repeated in a loop: `for _ in 0..n { s += t }`"),
            BinaryOp::Rem if !many => d.help(
                "values are put into a text between braces, with their format: `\"x = {x:.2}\"` for `\"x = %.2f\" % x`",
            ),
            op if op.is_comparison() && !many => d.help("`parse(i32, text)` reads the number that a text spells"),
            _ => d,
        }
    }

    /// Checks `str(x)`, which returns the text that `print` writes for a value.
    pub fn str_of(&mut self, args: &[ast::Arg], span: Span) -> Expr {
        let Some(arg) = self.one_argument("str", args, span) else { return self.after_error(args, span) };
        self.need_host(span, "text as a value");
        let value = self.printable(&arg.value);
        match self.vars.shallow(&value.ty) {
            Type::Error => return self.bad(span),
            Type::Unit | Type::Never => {
                let d = Diagnostic::error("E0323", "`str` makes text of a value, and this gives none");
                self.report(d.at(value.span, "nothing comes back from here"));
                return self.bad(span);
            }
            _ => {}
        }
        make(ExprKind::Str(vec![StrPart::Value { expr: value, format: None }]), Type::Str, span)
    }

    /// Checks `s[i]` and `names[a..b]`.
    pub fn text_element(&mut self, base: Expr, args: &[ast::Expr], span: Span) -> Expr {
        let whole = self.vars.shallow(&base.ty);
        let [arg] = args else {
            let title = format!("{} indices for `{}`, which takes one", args.len(), self.ty_text(&whole));
            let d = Diagnostic::error("E0306", title).at(span, "one index, or a range");
            self.report(d.because(base.span, format!("this is `{}`", self.ty_text(&whole))));
            return self.bad(span);
        };
        let (index, dim) = self.slice_index(arg, &Dim::Unknown, Some((&base, 0)));
        if let SliceIndex::Of(by) = &index
            && self.array_index_type(by).is_some()
        {
            let d = Diagnostic::error("E0309", "texts can't be selected by an array")
                .at(by.span, "an array as an index")
                .help("one position, or a range: `names[i]`, `names[a..b]`");
            self.report(d);
            return self.bad(span);
        }
        let base = Box::new(base);
        match (index, dim) {
            (SliceIndex::Of(index), None) => {
                make(ExprKind::Slice { base, indices: vec![SliceIndex::Of(index)] }, Type::Unknown, span)
            }
            (SliceIndex::At(index), _) => make(ExprKind::Index { base, indices: vec![index] }, Type::Str, span),
            (index, _) => make(ExprKind::Slice { base, indices: vec![index] }, whole, span),
        }
    }

    /// Checks a write to an element or slice of strings. Reports it and returns false if it is not allowed.
    pub fn text_place(&mut self, place: &Expr) -> bool {
        let (base, slice) = match &place.kind {
            ExprKind::Index { base, .. } => (base, false),
            ExprKind::Slice { base, .. } => (base, true),
            _ => return true,
        };
        let d = match self.vars.shallow(&base.ty) {
            Type::Str => Diagnostic::error("E0319", "the characters of a text never change")
                .at(place.span, "a part of a text")
                .help("make a new text: `s = s[..i] + \"x\" + s[i + 1..]`, or `replace(s, \"a\", \"b\")`"),
            Type::Strings if slice => Diagnostic::error("E0319", "a slice of an array of texts can't be assigned to")
                .at(place.span, "several texts")
                .help("write one at a time: `names[i] = …`, or make a new array with `concat`"),
            _ => return true,
        };
        self.report(d);
        false
    }

    /// Returns the type of an array literal whose elements are strings; `None` if they are not strings.
    pub fn text_literal(&mut self, flat: &[Expr], dims: &[i64], span: Span) -> Option<Type> {
        let text = flat.iter().any(|e| e.ty == Type::Str);
        if !text {
            return None;
        }
        if dims.len() != 1 {
            let d = Diagnostic::error("E0316", "an array of texts has one axis");
            let d = d.at(span, format!("this has {}", dims.len()));
            self.report(d.help("keep the texts of a row in one text, or in an array of their own"));
            return Some(Type::Error);
        }
        let open = flat.iter().any(|e| self.vars.shallow(&e.ty) == Type::Unknown);
        Some(if open { Type::Unknown } else { Type::Strings })
    }

    // Builtins

    pub fn text_call(&mut self, call: BuiltinCall<'_>, f: TextFn) -> Expr {
        let (least, most, result) = signature(f);
        let Some(positional) = self.take_positional(call, least..=most, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some((first, more)) = positional.split_first() else { return self.bad(call.span) };
        let joins = f == TextFn::Join;
        let first = self.expr(first, Some(if joins { &Type::Strings } else { &Type::Str }));
        let ty = match (self.vars.shallow(&first.ty), f) {
            (Type::Error, _) => Type::Error,
            (Type::Unknown, TextFn::Split | TextFn::Lines | TextFn::Join) => result,
            (Type::Unknown, _) => Type::Unknown,
            (Type::Strings, TextFn::Join) => result,
            (Type::Str, f) if f != TextFn::Join => result,
            (Type::Strings, f) if !matches!(f, TextFn::Split | TextFn::Lines) => list_of(result),
            (other, _) => {
                let d = self.not_text(call, &first, &other, joins);
                self.report(d);
                Type::Error
            }
        };
        let mut args = vec![first];
        args.extend(more.iter().map(|e| self.text_argument(e)));
        call.make(args, ty)
    }

    fn not_text(&self, call: BuiltinCall<'_>, e: &Expr, ty: &Type, joins: bool) -> Diagnostic {
        let (name, actual) = (call.entry.name, self.ty_text(ty));
        let expected = if joins { "an array of texts" } else { "text" };
        let d = Diagnostic::error("E0301", format!("`{name}` takes {expected}, but this is `{actual}`"))
            .at(e.span, format!("this is `{actual}`"));
        match ty {
            Type::Strings => d.help("do it to each of them in a loop: `for line in texts { … }`"),
            Type::Str if joins => d.help("`a + b` joins two texts; `split(text, \",\")` makes an array of one"),
            _ => d.help("`str(x)` makes text of a value"),
        }
    }

    /// Checks an argument that must be a single string.
    pub fn text_argument(&mut self, e: &ast::Expr) -> Expr {
        let e = self.expr(e, Some(&Type::Str));
        self.coerce(&e, &Type::Str, None);
        e
    }

    pub fn parse(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=2, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let [ty, text] = positional.as_slice() else { return self.bad(call.span) };
        let ty = self.type_argument(ty);
        if !matches!(ty, Type::Scalar(_) | Type::Error) {
            let actual = self.ty_text(&ty);
            let d = Diagnostic::error("E0323", format!("`parse` can't read a `{actual}`"))
                .at(call.span, "a scalar type is expected");
            self.report(d);
            return self.after_error(&call.args[1..], call.span);
        }
        let text = self.expr(text, Some(&Type::Str));
        match self.vars.shallow(&text.ty) {
            Type::Strings => call.make(vec![text], list_of(ty)),
            // It is known only at run time whether the argument is a string or an array of strings. The call includes
            // the type to parse.
            Type::Unknown => {
                let read = make(ExprKind::Bool(false), ty, call.span);
                call.make_named(vec![text], vec![("type".into(), read)], Type::Unknown)
            }
            _ => {
                self.coerce(&text, &Type::Str, None);
                call.make(vec![text], ty)
            }
        }
    }

    // Files and the script

    /// Checks `keys(table)`.
    pub fn keys(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let Some(table) = positional.first().map(|e| self.expr(e, None)) else { return self.bad(call.span) };
        match self.vars.shallow(&table.ty) {
            Type::Unknown => {}
            Type::Error => return self.bad(call.span),
            other => {
                let actual = self.ty_text(&other);
                let d = Diagnostic::error("E0301", format!("`keys` takes a table, but this is `{actual}`"))
                    .at(table.span, format!("this is `{actual}`"));
                self.report(d.help("a table is what `load` gives of a file with several arrays or columns"));
                return self.bad(call.span);
            }
        }
        call.make(vec![table], Type::Strings)
    }

    pub fn read_text(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 1..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let args = positional.iter().map(|e| self.text_argument(e)).collect();
        call.make(args, Type::Str)
    }

    pub fn write_text(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 2..=2, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let [path, text] = positional.as_slice() else { return self.bad(call.span) };
        let path = self.text_argument(path);
        let text = self.expr(text, Some(&Type::Str));
        if !self.vars.unify(&text.ty, &Type::Str) {
            let actual = self.ty_text(&text.ty);
            let d = Diagnostic::error("E0301", format!("`write_text` writes text, but this is `{actual}`"))
                .at(text.span, format!("this is `{actual}`"));
            self.report(match self.vars.shallow(&text.ty) {
                Type::Strings => d.help("`join(parts, \"\\n\")` makes one text of them"),
                Type::Array(_) => d.help("`save` writes arrays; `str(x)` makes text of one as `print` shows it"),
                _ => d.help("`str(x)` makes text of a value"),
            });
        }
        call.make(vec![path, text], Type::Unit)
    }

    pub fn exit(&mut self, call: BuiltinCall<'_>) -> Expr {
        let Some(positional) = self.take_positional(call, 0..=1, &[]) else {
            return self.after_error(call.args, call.span);
        };
        let args: Vec<Expr> = positional.iter().map(|code| self.expr_as(code, &I32)).collect();
        let exit_code = args.first().and_then(|code| crate::const_eval::int(self, code));
        if let (Some(code), Some(at)) =
            (exit_code.filter(|code| !(0..=255).contains(code)), args.first().map(|a| a.span))
        {
            let d = Diagnostic::error("E0541", format!("{code} is not an exit code")).at(at, "from 0 to 255");
            self.report(d.help("0 means success, and any other code failure"));
        }
        call.make(args, Type::Never)
    }
}
