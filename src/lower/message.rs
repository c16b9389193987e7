//! Lowers `assert` and `print`, whose messages are format strings with values.

use super::context::BodyLowering;
use super::error::{Fallible, internal};
use super::types;
use clk_base::source::Span;
use clk_check::typed::{Expr, ExprKind, StrPart, Type};
use clk_ir::def::{ExprId, MessageSegment, StmtKind};

/// Maximum cost of the values in an `assert` message for evaluating them even if the assertion holds.
const MESSAGE_BUDGET: u32 = 4;

impl BodyLowering<'_, '_> {
    pub fn assert(&mut self, args: &[Expr], span: Span) -> Fallible<()> {
        let cond = args.first().ok_or_else(|| internal(span, "`assert` of nothing"))?;
        let holds = self.condition(cond)?;
        let parts = match args.get(1).map(|message| &message.kind) {
            None => &[],
            Some(ExprKind::Str(parts)) => parts.as_slice(),
            Some(_) => return Err(internal(span, "a message that is not text")),
        };
        let mut budget = MESSAGE_BUDGET;
        let cheap = parts.iter().all(|part| match part {
            StrPart::Text(_) => true,
            StrPart::Value { expr, .. } => self.simple(expr, &mut budget),
        });
        if cheap {
            let message = self.parts(parts)?;
            self.out.stmt(StmtKind::Assert { cond: holds, message }, span);
            return Ok(());
        }
        // The values are evaluated only if the condition fails. If it holds, they may be invalid, such as an element
        // whose index is out of bounds.
        self.out.open();
        let filled = self.parts(parts).map(|message| {
            self.out.stmt(StmtKind::Assert { cond: holds, message }, span);
        });
        let (other, _) = self.out.close();
        filled?;
        self.out.stmt(StmtKind::If { cond: holds, then: vec![], other }, span);
        Ok(())
    }

    /// Lowers a condition to a single bool. For a bool vector, all components must be true.
    fn condition(&mut self, cond: &Expr) -> Fallible<ExprId> {
        let value = self.scalar(cond)?;
        let lanes = self.out.lanes(value, cond.span);
        let and = |this: &mut Self, l, r| this.out.binary(clk_ir::def::BinOp::And, l, r, cond.span);
        let mut all: Option<ExprId> = None;
        for lane in lanes {
            all = Some(match all {
                Some(before) => and(self, before, lane),
                None => lane,
            });
        }
        all.ok_or_else(|| internal(cond.span, "`assert` of nothing"))
    }

    pub fn print(&mut self, args: &[Expr], span: Span) -> Fallible<()> {
        let mut parts = Vec::new();
        for (position, arg) in args.iter().enumerate() {
            if position > 0 {
                push_text(&mut parts, " ");
            }
            self.show(arg, "", &mut parts)?;
        }
        push_text(&mut parts, "\n");
        self.out.stmt(StmtKind::Print { parts }, span);
        Ok(())
    }

    fn parts(&mut self, text: &[StrPart]) -> Fallible<Vec<MessageSegment>> {
        let mut parts = Vec::new();
        self.text(text, &mut parts)?;
        Ok(parts)
    }

    fn text(&mut self, text: &[StrPart], parts: &mut Vec<MessageSegment>) -> Fallible<()> {
        for piece in text {
            match piece {
                StrPart::Text(text) => push_text(parts, text),
                StrPart::Value { expr, format } => {
                    let format = format.as_ref().map_or("", |format| format.text.as_str());
                    self.show(expr, format, parts)?;
                }
            }
        }
        Ok(())
    }

    fn show(&mut self, expr: &Expr, format: &str, parts: &mut Vec<MessageSegment>) -> Fallible<()> {
        if let ExprKind::Str(text) = &expr.kind {
            return self.text(text, parts);
        }
        let ty = self.type_of(expr)?;
        let leaves = self.value(expr)?;
        self.show_leaves(&ty, &leaves, format, expr.span, parts)
    }

    /// Formats structs and tuples in source syntax.
    fn show_leaves(
        &mut self,
        ty: &Type,
        leaves: &[ExprId],
        format: &str,
        span: Span,
        parts: &mut Vec<MessageSegment>,
    ) -> Fallible<()> {
        let (open, close, named) = match ty {
            Type::Struct(id) => {
                let name = self.program.structs.get(*id).map_or("", |s| s.name.as_str());
                (format!("{name} {{ "), " }", true)
            }
            Type::Tuple(_) => ("(".to_string(), ")", false),
            _ => {
                parts.extend(leaves.iter().map(|&leaf| MessageSegment::Value(leaf, format.to_string())));
                return Ok(());
            }
        };
        push_text(parts, &open);
        let fields = types::parts(self.program, ty, span)?.into_iter().map(|(name, _)| name);
        for (position, name) in fields.collect::<Vec<_>>().into_iter().enumerate() {
            if position > 0 {
                push_text(parts, ", ");
            }
            if named {
                push_text(parts, &format!("{name}: "));
            }
            let (range, part) = types::part(self.program, ty, position as u32, span)?;
            self.show_leaves(&part, leaves.get(range).unwrap_or(&[]), format, span, parts)?;
        }
        push_text(parts, close);
        Ok(())
    }
}

/// Appends text. Merges it with preceding text.
fn push_text(parts: &mut Vec<MessageSegment>, text: &str) {
    match parts.last_mut() {
        Some(MessageSegment::Text(before)) => before.push_str(text),
        _ => parts.push(MessageSegment::Text(text.to_string())),
    }
}
