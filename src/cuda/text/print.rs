//! Pretty printer for generated code. It indents by four spaces, and adds parentheses where C needs them or for
//! readability.

use std::fmt::Write;

use super::tree::{CudaExpr, CudaStmt};

/// Returns the precedence of an operator. Operators with a larger number bind tighter.
fn precedence(op: &str) -> u8 {
    match op {
        "=" | "+=" | "-=" => 1,
        "||" => 3,
        "&&" => 4,
        "|" => 5,
        "^" => 6,
        "&" => 7,
        "==" | "!=" => 8,
        "<" | "<=" | ">" | ">=" => 9,
        "<<" | ">>" => 10,
        "+" | "-" => 11,
        _ => 12,
    }
}

const CHOICE: u8 = 2;
const UNARY: u8 = 13;
const POSTFIX: u8 = 14;

/// Returns whether a nested operator gets parentheses for readability although C does not need them.
fn mixed(outer: &str, inner: &str) -> bool {
    let bits = |op: &str| matches!(op, "&" | "|" | "^" | "<<" | ">>");
    let logic = |op: &str| matches!(op, "&&" | "||");
    (bits(outer) || bits(inner)) && outer != inner && !logic(outer) || (outer == "||" && inner == "&&")
}

pub(crate) fn expr(e: &CudaExpr) -> String {
    let mut out = String::new();
    print_expr(e, 0, &mut out);
    out
}

fn print_expr(e: &CudaExpr, least: u8, out: &mut String) {
    let own = match e {
        CudaExpr::Binary(op, ..) => precedence(op),
        CudaExpr::Choose(..) => CHOICE,
        CudaExpr::Unary(..) => UNARY,
        // A negative literal is a unary operator with its operand.
        CudaExpr::Atom(text) if text.starts_with('-') => UNARY,
        _ => POSTFIX + 1,
    };
    if own < least {
        out.push('(');
        print_expr(e, 0, out);
        out.push(')');
        return;
    }
    match e {
        CudaExpr::Atom(text) => out.push_str(text),
        CudaExpr::Unary(op, value) => {
            out.push_str(op);
            // Negation of a negation needs parentheses, because `--x` is a decrement.
            let needs_parentheses = matches!(**value, CudaExpr::Unary(inner, _) if inner == *op && *op != "!")
                || matches!(&**value, CudaExpr::Atom(text) if *op == "-" && text.starts_with('-'));
            print_expr(value, if needs_parentheses { POSTFIX } else { UNARY }, out);
        }
        CudaExpr::Binary(op, left, right) => {
            side(left, op, own, out);
            let _ = write!(out, " {op} ");
            side(right, op, own + 1, out);
        }
        CudaExpr::Choose(cond, then, other) => {
            print_expr(cond, CHOICE + 1, out);
            out.push_str(" ? ");
            print_expr(then, CHOICE + 1, out);
            out.push_str(" : ");
            print_expr(other, CHOICE, out);
        }
        CudaExpr::Call(name, args) => {
            out.push_str(name);
            list('(', args, ')', out);
        }
        CudaExpr::Wrap(ty, value) => {
            out.push_str(ty);
            list('(', std::slice::from_ref(value), ')', out);
        }
        CudaExpr::Index(array, indices) => {
            print_expr(array, POSTFIX, out);
            for index in indices {
                list('[', std::slice::from_ref(index), ']', out);
            }
        }
        CudaExpr::Member(value, name) => {
            print_expr(value, POSTFIX, out);
            let _ = write!(out, ".{name}");
        }
        CudaExpr::Braces(ty, parts) => {
            out.push_str(ty);
            list('{', parts, '}', out);
        }
    }
}

fn side(e: &CudaExpr, outer: &str, least: u8, out: &mut String) {
    match e {
        CudaExpr::Binary(inner, ..) if mixed(outer, inner) => print_expr(e, POSTFIX, out),
        _ => print_expr(e, least, out),
    }
}

fn list(open: char, items: &[CudaExpr], close: char, out: &mut String) {
    out.push(open);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        print_expr(item, 1, out);
    }
    out.push(close);
}

/// Prints statements, indented by `level` times four spaces.
pub(crate) fn block(stmts: &[CudaStmt], level: usize, out: &mut String) {
    stmts.iter().for_each(|s| stmt(s, level, out));
}

fn line(level: usize, text: &str, out: &mut String) {
    let _ = writeln!(out, "{:width$}{text}", "", width = 4 * level);
}

/// Returns a declaration, an assignment or an expression, without its semicolon.
fn simple(s: &CudaStmt) -> Option<String> {
    Some(match s {
        CudaStmt::Declare { ty, name, suffix, value: Some(value) } => format!("{ty} {name}{suffix} = {}", expr(value)),
        CudaStmt::Declare { ty, name, suffix, value: None } => format!("{ty} {name}{suffix}"),
        CudaStmt::Assign(place, value) => assignment(place, value),
        CudaStmt::Do(value) => expr(value),
        _ => return None,
    })
}

/// Returns an assignment. `x = x + y` becomes `x += y`.
fn assignment(place: &CudaExpr, value: &CudaExpr) -> String {
    match value {
        CudaExpr::Binary(op @ ("+" | "-" | "*" | "/" | "|" | "&" | "^"), left, right) if **left == *place => {
            format!("{} {op}= {}", expr(place), expr(right))
        }
        _ => format!("{} = {}", expr(place), expr(value)),
    }
}

fn unrolled(unroll: &Option<String>, level: usize, out: &mut String) {
    if let Some(pragma) = unroll {
        line(level, pragma, out);
    }
}

fn stmt(s: &CudaStmt, level: usize, out: &mut String) {
    match s {
        CudaStmt::If(cond, then, other) => {
            line(level, &format!("if ({}) {{", expr(cond)), out);
            branches(then, other, level, out);
        }
        CudaStmt::For { unroll, start, test, step, body } => {
            unrolled(unroll, level, out);
            let start = simple(start).unwrap_or_default();
            line(level, &format!("for ({start}; {}; {}) {{", expr(test), expr(step)), out);
            block(body, level + 1, out);
            line(level, "}", out);
        }
        CudaStmt::While(unroll, test, body) => {
            unrolled(unroll, level, out);
            line(level, &format!("while ({}) {{", expr(test)), out);
            block(body, level + 1, out);
            line(level, "}", out);
        }
        CudaStmt::Scope(body) => {
            line(level, "{", out);
            block(body, level + 1, out);
            line(level, "}", out);
        }
        CudaStmt::Lambda(name, params, body) => {
            line(level, &format!("const auto {name} = [&]({params}) {{"), out);
            block(body, level + 1, out);
            line(level, "};", out);
        }
        CudaStmt::Break => line(level, "break;", out),
        CudaStmt::Continue => line(level, "continue;", out),
        CudaStmt::Goto(label) => line(level, &format!("goto {label};"), out),
        CudaStmt::Label(label) => line(level.saturating_sub(1), &format!("{label}:;"), out),
        CudaStmt::Return => line(level, "return;", out),
        CudaStmt::Line(number, file) => {
            let _ = writeln!(out, "#line {number} {file}");
        }
        other => line(level, &format!("{};", simple(other).unwrap_or_default()), out),
    }
}

fn branches(then: &[CudaStmt], other: &[CudaStmt], level: usize, out: &mut String) {
    block(then, level + 1, out);
    match other {
        [] => line(level, "}", out),
        [CudaStmt::If(cond, then, other)] => {
            line(level, &format!("}} else if ({}) {{", expr(cond)), out);
            branches(then, other, level, out);
        }
        _ => {
            line(level, "} else {", out);
            block(other, level + 1, out);
            line(level, "}", out);
        }
    }
}
