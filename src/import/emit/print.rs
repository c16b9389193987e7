//! The printer of translated programs. It writes only the parentheses that Clk's precedence requires, and a suffix at
//! each literal whose type is not the default of Clk.

use super::span_map::OriginMap;
use crate::comments::PlacedComments;
use crate::sema::tree::{ClkFile, ClkFunction, Expr, ExprKind, Stmt, StmtKind};
use crate::sema::types::ClkScalar;
use crate::source::SourceSpan;
use std::fmt::Write;

/// Prints a file. `comments` returns the comments of a function.
pub(crate) fn print_file(file: &ClkFile, comments: &dyn Fn(&ClkFunction) -> PlacedComments) -> (String, OriginMap) {
    let mut printer = Printer::default();
    for item in &file.constants {
        let start = printer.text.len();
        let _ = write!(printer.text, "const {}: {} = ", item.name, item.ty);
        printer.expr(&item.value, 0);
        printer.map.add(start..printer.text.len(), item.span);
        printer.text.push_str("\n\n");
    }
    for item in &file.structs {
        let start = printer.text.len();
        let _ = writeln!(printer.text, "struct {} {{", item.name);
        for (name, ty) in &item.fields {
            let _ = writeln!(printer.text, "    {name}: {ty},");
        }
        printer.text.push('}');
        printer.map.add(start..printer.text.len(), item.span);
        printer.text.push_str("\n\n");
    }
    for function in &file.functions {
        printer.comments = comments(function);
        printer.next_stmt = 0;
        for line in std::mem::take(&mut printer.comments.head) {
            let _ = writeln!(printer.text, "//{line}");
        }
        printer.function(function);
    }
    while printer.text.ends_with("\n\n") {
        printer.text.pop();
    }
    (printer.text, printer.map)
}

/// Returns the text of an expression.
pub(crate) fn expr_text(expr: &Expr) -> String {
    let mut printer = Printer::default();
    printer.expr(expr, 0);
    printer.text
}

#[derive(Default)]
struct Printer {
    text: String,
    map: OriginMap,
    indent: usize,
    /// The comments of the current function.
    comments: PlacedComments,
    /// The number of the next statement of the current function.
    next_stmt: usize,
    /// Whether literals are printed with their type, because nothing else in their expression has a type.
    typed_literals: bool,
}

/// The precedence of a postfix expression or an atom, which never needs parentheses.
const ATOM: u8 = 12;
const UNARY: u8 = 10;

fn precedence(op: &str) -> u8 {
    match op {
        "||" => 1,
        "&&" => 2,
        "==" | "!=" | "<" | "<=" | ">" | ">=" => 3,
        "|" => 4,
        "^" => 5,
        "&" => 6,
        "<<" | ">>" => 7,
        "+" | "-" => 8,
        _ => 9,
    }
}

/// Returns whether the type of an expression follows only from literals without a suffix, which take the type that
/// their context requires.
fn is_untyped(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::Int(_, scalar) => *scalar == ClkScalar::I32,
        ExprKind::Float(value, scalar) => *scalar == ClkScalar::F32 && value.is_finite(),
        ExprKind::Unary(_, operand) => is_untyped(operand),
        ExprKind::Binary(_, left, right) => is_untyped(left) && is_untyped(right),
        ExprKind::If(_, then, otherwise) => is_untyped(then) && is_untyped(otherwise),
        ExprKind::Call(name, args) => !is_conversion(name) && !args.is_empty() && args.iter().all(is_untyped),
        _ => false,
    }
}

/// Returns whether a function is a conversion to a scalar or vector type.
fn is_conversion(name: &str) -> bool {
    super::names::is_type(name)
}

impl Printer {
    fn function(&mut self, function: &ClkFunction) {
        let start = self.text.len();
        let word = if function.geometry.is_some() { "kernel" } else { "fn" };
        let _ = write!(self.text, "{word} {}(", function.name);
        for (at, param) in function.params.iter().enumerate() {
            let comma = if at > 0 { ", " } else { "" };
            let inout = if param.inout { "inout " } else { "" };
            let _ = write!(self.text, "{comma}{inout}{}: {}", param.name, param.ty);
        }
        self.text.push(')');
        if let Some(result) = &function.result {
            let _ = write!(self.text, " -> {result}");
        }
        if let Some(geometry) = &function.geometry {
            let _ = write!(self.text, " grid({}) block({})", geometry.grid.join(", "), geometry.block.join(", "));
            if !geometry.assume.is_empty() {
                let _ = write!(self.text, "\n    assume {}\n", geometry.assume.join(", "));
            } else {
                self.text.push(' ');
            }
        } else {
            self.text.push(' ');
        }
        self.map.add(start..self.text.len(), function.span);
        self.block(&function.body);
        self.map.add(start..self.text.len(), function.span);
        self.text.push_str("\n\n");
    }

    fn line(&mut self) {
        self.text.push('\n');
        for _ in 0..self.indent {
            self.text.push_str("    ");
        }
    }

    fn block(&mut self, stmts: &[Stmt]) {
        self.block_with(vec![], stmts);
    }

    /// Prints a block that begins with comments.
    fn block_with(&mut self, comments: Vec<String>, stmts: &[Stmt]) {
        if stmts.is_empty() && comments.is_empty() {
            self.text.push_str("{ }");
            return;
        }
        self.text.push('{');
        self.indent += 1;
        self.comment_lines(comments);
        for stmt in stmts {
            let at = self.next_stmt;
            let before = self.comments.before.remove(&at).unwrap_or_default();
            self.comment_lines(before);
            self.line();
            self.stmt(stmt);
            if let Some(comment) = self.comments.beside.remove(&at) {
                let _ = write!(self.text, " //{comment}");
            }
            let after = self.comments.after.remove(&at).unwrap_or_default();
            self.comment_lines(after);
        }
        self.indent -= 1;
        self.line();
        self.text.push('}');
    }

    fn comment_lines(&mut self, comments: Vec<String>) {
        for comment in comments {
            self.line();
            let _ = write!(self.text, "//{comment}");
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        self.next_stmt += 1;
        let start = self.text.len();
        match &stmt.kind {
            StmtKind::Declare { name, mutable, ty, value } => {
                let word = if *mutable { "var" } else { "let" };
                let _ = write!(self.text, "{word} {name}: {ty}");
                if let Some(value) = value {
                    self.text.push_str(" = ");
                    self.expr(value, 0);
                }
            }
            StmtKind::Shared { name, ty } => {
                let _ = write!(self.text, "shared {name}: {ty}");
            }
            StmtKind::Assign { place, op, value } => {
                self.expr(place, ATOM);
                let _ = write!(self.text, " {op}= ");
                self.expr(value, 0);
            }
            StmtKind::Expr(value) => self.expr(value, 0),
            StmtKind::If { condition, then, otherwise } => self.conditional(vec![], condition, then, otherwise),
            StmtKind::While { condition, body } => {
                self.text.push_str("while ");
                self.expr(condition, 1);
                self.text.push(' ');
                self.block(body);
            }
            StmtKind::Loop(body) => {
                self.text.push_str("loop ");
                self.block(body);
            }
            StmtKind::For { name, from, to, inclusive, step, body } => {
                let _ = write!(self.text, "for {name} in ");
                // Without a type, the first use of the counter would decide on one.
                self.typed_literals = is_untyped(from) && is_untyped(to) && step.as_ref().is_none_or(is_untyped);
                self.expr(from, 1);
                self.typed_literals = false;
                self.text.push_str(if *inclusive { "..=" } else { ".." });
                self.expr(to, 1);
                if let Some(step) = step {
                    self.text.push_str(" step ");
                    self.expr(step, 1);
                }
                self.text.push(' ');
                self.block(body);
            }
            StmtKind::Break => self.text.push_str("break"),
            StmtKind::Continue => self.text.push_str("continue"),
            StmtKind::Return(None) => self.text.push_str("return"),
            StmtKind::Return(Some(value)) => {
                self.text.push_str("return ");
                self.expr(value, 0);
            }
        }
        self.map.add(start..self.text.len(), stmt.span);
    }

    /// Prints an `if`, whose first block begins with comments.
    fn conditional(&mut self, comments: Vec<String>, condition: &Expr, then: &[Stmt], otherwise: &[Stmt]) {
        self.text.push_str("if ");
        self.expr(condition, 1);
        self.text.push(' ');
        self.block_with(comments, then);
        let at = self.next_stmt;
        let follows = self.comments.beside.contains_key(&at) || self.comments.after.contains_key(&at);
        if let [Stmt { kind: StmtKind::If { condition, then, otherwise }, span }] = otherwise
            && !follows
        {
            self.text.push_str(" else ");
            let start = self.text.len();
            self.next_stmt += 1;
            let comments = self.comments.before.remove(&at).unwrap_or_default();
            self.conditional(comments, condition, then, otherwise);
            self.map.add(start..self.text.len(), *span);
        } else if !otherwise.is_empty() {
            self.text.push_str(" else ");
            self.block(otherwise);
        }
    }

    /// Prints an expression, in parentheses if it binds less tightly than `least`.
    fn expr(&mut self, expr: &Expr, least: u8) {
        let own = match &expr.kind {
            ExprKind::Binary(op, ..) => precedence(op),
            ExprKind::Unary(..) => UNARY,
            ExprKind::Int(value, _) if *value < 0 => UNARY,
            ExprKind::Float(value, _) if value.is_sign_negative() => UNARY,
            // An `if` is complete only at the end of a statement.
            ExprKind::If(..) => 0,
            _ => ATOM,
        };
        let parentheses = own < least;
        if parentheses {
            self.text.push('(');
        }
        let start = self.text.len();
        let typed = self.typed_literals;
        let is_literal = matches!(expr.kind, ExprKind::Int(..) | ExprKind::Float(..));
        self.typed_literals = typed && is_untyped(expr) || !is_literal && is_untyped(expr);
        self.bare(expr, own);
        self.typed_literals = typed;
        self.map.add(start..self.text.len(), expr.span);
        if parentheses {
            self.text.push(')');
        }
    }

    fn bare(&mut self, expr: &Expr, own: u8) {
        match &expr.kind {
            ExprKind::Int(value, scalar) => {
                let plain = *scalar == ClkScalar::I32 && !self.typed_literals;
                let suffix = if plain { "" } else { scalar.name() };
                let _ = write!(self.text, "{value}{suffix}");
            }
            ExprKind::Float(value, scalar) => self.float(*value, *scalar, expr.span),
            ExprKind::Bool(value) => {
                let _ = write!(self.text, "{value}");
            }
            ExprKind::Name(name) => self.text.push_str(name),
            ExprKind::Text(text) => self.text.push_str(text),
            ExprKind::Index(base, indices) => {
                self.expr(base, ATOM);
                self.text.push('[');
                self.list(indices);
                self.text.push(']');
            }
            ExprKind::Field(base, field) => {
                self.expr(base, ATOM);
                let _ = write!(self.text, ".{field}");
            }
            ExprKind::Unary(op, operand) => {
                self.text.push_str(op);
                self.expr(operand, UNARY + 1);
            }
            ExprKind::Binary(op, left, right) => {
                // Comparisons do not chain, so an operand that is one needs parentheses.
                // Operands of bit operations get parentheses for the reader.
                let is_bit = matches!(*op, "&" | "|" | "^" | "<<" | ">>");
                let other = |side: &Expr| matches!(side.kind, ExprKind::Binary(inner, ..) if is_bit && inner != *op);
                let left_least = if other(left) { UNARY } else { own + u8::from(own == 3) };
                self.expr(left, left_least);
                let _ = write!(self.text, " {op} ");
                self.expr(right, if other(right) { UNARY } else { own + 1 });
            }
            ExprKind::Call(name, args) => {
                let _ = write!(self.text, "{name}(");
                // A conversion of a literal would give the literal its own type: `f16(0.1)` must round twice.
                self.typed_literals |= is_conversion(name);
                self.list(args);
                self.text.push(')');
            }
            ExprKind::Named(name, value) => {
                let _ = write!(self.text, "{name} = ");
                self.expr(value, 0);
            }
            ExprKind::If(condition, then, otherwise) => {
                self.text.push_str("if ");
                self.expr(condition, 1);
                self.text.push_str(" { ");
                self.expr(then, 0);
                self.text.push_str(" } else { ");
                self.expr(otherwise, 0);
                self.text.push_str(" }");
            }
            ExprKind::Struct(name, fields) => {
                let _ = write!(self.text, "{name} {{ ");
                for (at, (field, value)) in fields.iter().enumerate() {
                    let comma = if at > 0 { ", " } else { "" };
                    let _ = write!(self.text, "{comma}{field}: ");
                    self.expr(value, 0);
                }
                self.text.push_str(" }");
            }
            ExprKind::List(items) => {
                self.text.push('[');
                self.list(items);
                self.text.push(']');
            }
        }
    }

    fn list(&mut self, items: &[Expr]) {
        for (at, item) in items.iter().enumerate() {
            if at > 0 {
                self.text.push_str(", ");
            }
            self.expr(item, 0);
        }
    }

    fn float(&mut self, value: f64, scalar: ClkScalar, _span: SourceSpan) {
        if !value.is_finite() {
            let (bits, ty) = match scalar {
                ClkScalar::F32 => (u64::from((value as f32).to_bits()), "u32"),
                ClkScalar::F64 => (value.to_bits(), "u64"),
                _ => (u64::from((value as f32).to_bits()), "u32"),
            };
            let _ = match scalar {
                ClkScalar::F32 | ClkScalar::F64 => write!(self.text, "bitcast({}, 0x{bits:x}{ty})", scalar.name()),
                _ => write!(self.text, "{}(bitcast(f32, 0x{bits:x}{ty}))", scalar.name()),
            };
            return;
        }
        let digits = match scalar {
            ClkScalar::F64 => format!("{value:?}"),
            _ => format!("{:?}", value as f32),
        };
        let plain = scalar == ClkScalar::F32 && !self.typed_literals;
        let suffix = if plain { "" } else { scalar.name() };
        self.text.push_str(&digits);
        self.text.push_str(suffix);
    }
}
