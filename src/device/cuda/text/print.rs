//! Pretty printer: four spaces per level, parentheses where C needs them or for readability.

use std::fmt::Write;

use super::tree::{Expr, Stmt};

/// The precedence of operators; larger binds tighter.
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

/// Returns whether nested operators get parentheses for readability, though C needs none.
fn mixed(outer: &str, inner: &str) -> bool {
    let bits = |op: &str| matches!(op, "&" | "|" | "^" | "<<" | ">>");
    let logic = |op: &str| matches!(op, "&&" | "||");
    (bits(outer) || bits(inner)) && outer != inner && !logic(outer) || (outer == "||" && inner == "&&")
}

pub(crate) fn expr(e: &Expr) -> String {
    let mut out = String::new();
    put(e, 0, &mut out);
    out
}

fn put(e: &Expr, least: u8, out: &mut String) {
    let own = match e {
        Expr::Binary(op, ..) => precedence(op),
        Expr::Choose(..) => CHOICE,
        Expr::Unary(..) => UNARY,
        // A negative literal is a unary operator and its operand.
        Expr::Atom(text) if text.starts_with('-') => UNARY,
        _ => POSTFIX + 1,
    };
    if own < least {
        out.push('(');
        put(e, 0, out);
        out.push(')');
        return;
    }
    match e {
        Expr::Atom(text) => out.push_str(text),
        Expr::Unary(op, value) => {
            out.push_str(op);
            // `- -x` is not `--x`.
            let again = matches!(**value, Expr::Unary(inner, _) if inner == *op && *op != "!")
                || matches!(&**value, Expr::Atom(text) if *op == "-" && text.starts_with('-'));
            put(value, if again { POSTFIX } else { UNARY }, out);
        }
        Expr::Binary(op, left, right) => {
            side(left, op, own, out);
            let _ = write!(out, " {op} ");
            side(right, op, own + 1, out);
        }
        Expr::Choose(cond, then, other) => {
            put(cond, CHOICE + 1, out);
            out.push_str(" ? ");
            put(then, CHOICE + 1, out);
            out.push_str(" : ");
            put(other, CHOICE, out);
        }
        Expr::Call(name, args) => {
            out.push_str(name);
            list('(', args, ')', out);
        }
        Expr::Wrap(ty, value) => {
            out.push_str(ty);
            list('(', std::slice::from_ref(value), ')', out);
        }
        Expr::Index(array, indices) => {
            put(array, POSTFIX, out);
            for index in indices {
                list('[', std::slice::from_ref(index), ']', out);
            }
        }
        Expr::Member(value, name) => {
            put(value, POSTFIX, out);
            let _ = write!(out, ".{name}");
        }
        Expr::Braces(ty, parts) => {
            out.push_str(ty);
            list('{', parts, '}', out);
        }
    }
}

fn side(e: &Expr, outer: &str, least: u8, out: &mut String) {
    match e {
        Expr::Binary(inner, ..) if mixed(outer, inner) => put(e, POSTFIX, out),
        _ => put(e, least, out),
    }
}

fn list(open: char, items: &[Expr], close: char, out: &mut String) {
    out.push(open);
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            out.push_str(", ");
        }
        put(item, 1, out);
    }
    out.push(close);
}

/// Prints statements, indented by `level`.
pub(crate) fn block(stmts: &[Stmt], level: usize, out: &mut String) {
    stmts.iter().for_each(|s| stmt(s, level, out));
}

fn line(level: usize, text: &str, out: &mut String) {
    let _ = writeln!(out, "{:width$}{text}", "", width = 4 * level);
}

/// Returns a declaration, an assignment or an expression, without its semicolon.
fn simple(s: &Stmt) -> Option<String> {
    Some(match s {
        Stmt::Declare { ty, name, suffix, value: Some(value) } => format!("{ty} {name}{suffix} = {}", expr(value)),
        Stmt::Declare { ty, name, suffix, value: None } => format!("{ty} {name}{suffix}"),
        Stmt::Assign(place, value) => assignment(place, value),
        Stmt::Do(value) => expr(value),
        _ => return None,
    })
}

/// Returns an assignment, as `x += y` where possible.
fn assignment(place: &Expr, value: &Expr) -> String {
    match value {
        Expr::Binary(op @ ("+" | "-" | "*" | "/" | "|" | "&" | "^"), left, right) if **left == *place => {
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

fn stmt(s: &Stmt, level: usize, out: &mut String) {
    match s {
        Stmt::If(cond, then, other) => {
            line(level, &format!("if ({}) {{", expr(cond)), out);
            branches(then, other, level, out);
        }
        Stmt::For { unroll, start, test, step, body } => {
            unrolled(unroll, level, out);
            let start = simple(start).unwrap_or_default();
            line(level, &format!("for ({start}; {}; {}) {{", expr(test), expr(step)), out);
            block(body, level + 1, out);
            line(level, "}", out);
        }
        Stmt::While(unroll, test, body) => {
            unrolled(unroll, level, out);
            line(level, &format!("while ({}) {{", expr(test)), out);
            block(body, level + 1, out);
            line(level, "}", out);
        }
        Stmt::Scope(body) => {
            line(level, "{", out);
            block(body, level + 1, out);
            line(level, "}", out);
        }
        Stmt::Lambda(name, params, body) => {
            line(level, &format!("const auto {name} = [&]({params}) {{"), out);
            block(body, level + 1, out);
            line(level, "};", out);
        }
        Stmt::Break => line(level, "break;", out),
        Stmt::Continue => line(level, "continue;", out),
        Stmt::Goto(label) => line(level, &format!("goto {label};"), out),
        Stmt::Label(label) => line(level.saturating_sub(1), &format!("{label}:;"), out),
        Stmt::Return => line(level, "return;", out),
        Stmt::Line(number, file) => {
            let _ = writeln!(out, "#line {number} {file}");
        }
        other => line(level, &format!("{};", simple(other).unwrap_or_default()), out),
    }
}

fn branches(then: &[Stmt], other: &[Stmt], level: usize, out: &mut String) {
    block(then, level + 1, out);
    match other {
        [] => line(level, "}", out),
        [Stmt::If(cond, then, other)] => {
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
