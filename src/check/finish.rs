//! The last step of checking a body: substitutes type variables, and range-checks literals against their final types.

use crate::const_overflow;
use crate::context::Cx;
use crate::infer::Vars;
use crate::literal::NumberLiteral;
use crate::typed::*;
use crate::visit::{VisitMut, walk_mut};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::decimal::Decimal;
use clk_scalar::format::{self, FormatError, NumberStyle, SYNTAX, Spec};
use clk_scalar::{Scalar, ScalarValue};

struct Finish<'v> {
    vars: &'v Vars,
    program: &'v Program,
    diagnostics: Vec<Diagnostic>,
    /// Span of the first erroneous node, if there is one.
    hole: Option<Span>,
    /// Span of the expression that is being visited.
    span: Span,
}

impl<'v> Finish<'v> {
    fn new(vars: &'v Vars, program: &'v Program, span: Span) -> Self {
        Finish { vars, program, diagnostics: vec![], hole: None, span }
    }
}

/// Substitutes the type variables of a single expression and checks the ranges of its literals.
pub(crate) fn expr(cx: &mut Cx<'_>, e: &mut Expr) {
    let mut f = Finish::new(&cx.vars, cx.program, e.span);
    f.visit_expr(e);
    let (diagnostics, hole) = (f.diagnostics, f.hole);
    cx.diagnostics.extend(diagnostics);
    cx.hole = cx.hole.or(hole);
}

/// Substitutes the type variables of a body, its locals and its new globals, and checks the ranges of its literals.
pub(crate) fn body(cx: &mut Cx<'_>, root: &mut Block) {
    let mut f = Finish::new(&cx.vars, cx.program, root.span);
    f.visit_block(root);
    for (_, local) in cx.locals.iter_mut() {
        f.vars.finish_in(&mut local.ty);
    }
    for global in &mut cx.globals {
        f.vars.finish_in(&mut global.ty);
    }
    let (diagnostics, hole) = (f.diagnostics, f.hole);
    cx.diagnostics.extend(diagnostics);
    cx.hole = cx.hole.or(hole);
}

impl VisitMut for Finish<'_> {
    fn visit_expr(&mut self, e: &mut Expr) {
        let outer = std::mem::replace(&mut self.span, e.span);
        walk_mut::walk_expr(self, e);
        self.span = outer;
        match (&e.kind, &e.ty) {
            (&ExprKind::Int(v), &Type::Scalar(ty)) => {
                self.check_number(NumberLiteral::Int(v), ty, e.span);
                if ty.is_float() {
                    e.kind = ExprKind::Float(Decimal::from_integer(v));
                }
            }
            (&ExprKind::Float(number), &Type::Scalar(ty)) => {
                self.check_number(NumberLiteral::Float(number), ty, e.span);
            }
            (ExprKind::Error, _) => self.hole = self.hole.or(Some(e.span)),
            (ExprKind::Unary { .. } | ExprKind::Binary { .. }, _) => {
                self.diagnostics.extend(const_overflow::overflow(self.program, e));
            }
            _ => {}
        }
    }

    fn visit_type(&mut self, ty: &mut Type) {
        self.vars.finish_in(ty);
    }

    fn visit_str_part(&mut self, part: &mut StrPart) {
        walk_mut::walk_str_part(self, part);
        if let StrPart::Value { expr, format: Some(format) } = part {
            self.format(format, &expr.ty);
        }
    }

    fn visit_generic_arg(&mut self, arg: &mut GenericArg) {
        if let GenericArg::Error = arg {
            self.hole = self.hole.or(Some(self.span));
        }
        walk_mut::walk_generic_arg(self, arg);
    }
}

impl Finish<'_> {
    /// Checks that the format specification after the colon in `{x:.3}` can be used for the type of the value.
    fn format(&mut self, format: &FormatSpec, ty: &Type) {
        let text = format.text.as_str();
        let wrong = match Spec::parse(text) {
            Ok(spec) if !text.is_empty() => format_error(self.program, &spec, ty),
            Ok(_) => None,
            Err(reason) => Some(reason),
        };
        if let Some(reason) = wrong {
            let d = Diagnostic::error("E0545", format!("the format `{text}` {reason}"))
                .at(format.span, "does not fit the value")
                .note(SYNTAX);
            self.diagnostics.push(match format::from_foreign(text).filter(|clk| clk != text) {
                Some(clk) if self.fits(&clk, ty) => {
                    // The colon goes with an empty format.
                    let colon = u32::from(clk.is_empty());
                    let span = Span { start: format.span.start - colon, ..format.span };
                    let title =
                        if clk.is_empty() { "leave the format off".to_owned() } else { format!("write `{clk}`") };
                    d.fix(title, span, clk, Applicability::MachineApplicable)
                }
                _ if text.ends_with('%') => d.help("a percentage is computed: `{100.0 * x:.1}%`"),
                _ => d,
            });
        }
    }

    /// Returns whether a format specification can be used for the type of a value.
    fn fits(&self, format: &str, ty: &Type) -> bool {
        format.is_empty() || Spec::parse(format).is_ok_and(|spec| format_error(self.program, &spec, ty).is_none())
    }

    fn check_number(&mut self, number: NumberLiteral, ty: Scalar, span: Span) {
        if number.to(ty).is_none() {
            self.diagnostics.push(number.out_of_range(ty, span));
        }
    }
}

/// Explains why a format specification can't be used for values of a type. `None` if it can be used, or if that is
/// known only at run time.
fn format_error(program: &Program, spec: &Spec, ty: &Type) -> Option<FormatError> {
    match ty {
        Type::Scalar(s) | Type::Vector(s, _) => format::with_spec(ScalarValue { ty: *s, bits: 0 }, spec).err(),
        Type::Array(array) => format_error(program, spec, &array.element),
        Type::Tuple(parts) => parts.iter().find_map(|part| format_error(program, spec, part)),
        Type::Struct(id) => {
            program.structs.get(*id)?.fields.iter().find_map(|field| format_error(program, spec, &field.ty))
        }
        Type::Str | Type::Strings if spec.style != NumberStyle::Plain || spec.plus || spec.zeros => {
            Some(FormatError::NotANumber("str".into()))
        }
        _ => None,
    }
}
