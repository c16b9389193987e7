//! Moves the declarations of loop counters into their loops: `int i; … for (i = 0; i < n; i++)` becomes
//! `for (int i = 0; i < n; i++)`, which is translated to a Clk `for`.
//!
//! A declaration moves if the variable is used in such loops only, so the meaning is the same.

use crate::ast::{
    BasicType, CppBlock, CppDecl, CppDeclKind, CppExpr, CppExprKind, CppFor, CppIf, CppInit, CppName, CppStmt,
    CppStmtKind, CppSwitch, CppType, CppTypeKind, CppVariable, Qualifiers, VariableAttributes, VariableDecl,
    VariableName,
};
use crate::lex::CppTok;
use crate::preprocess::CppToken;
use clk_base::source::Span;

/// Names of integer types that need no declaration in the file.
const INTEGER_NAMES: [&str; 6] = ["size_t", "uint", "int32_t", "uint32_t", "int64_t", "uint64_t"];

/// Moves the declarations of counters in the body of a function into their loops. `tokens` contains the tokens of the
/// body.
pub(super) fn move_into_loops(body: &mut CppBlock, tokens: &[CppToken]) {
    let has_jump = tokens.iter().any(|token| token.text == "goto");
    if !has_jump && tokens.iter().any(|token| token.text == "for") {
        in_stmts(&mut body.stmts, tokens);
    }
}

fn in_stmts(stmts: &mut Vec<CppStmt>, tokens: &[CppToken]) {
    let mut at = 0;
    while at < stmts.len() {
        let (before, after) = stmts.split_at_mut(at + 1);
        let stmt = &mut before[at];
        if let CppStmtKind::Decl(CppDecl { kind: CppDeclKind::Variables(decl), .. }) = &mut stmt.kind
            && decl.template.is_none()
            && decl.attributes == VariableAttributes::default()
        {
            decl.variables.retain(|variable| !moves(variable, after, tokens));
            if decl.variables.is_empty() {
                stmts.remove(at);
                continue;
            }
        } else {
            in_parts(stmt, tokens);
        }
        at += 1;
    }
}

fn in_parts(stmt: &mut CppStmt, tokens: &[CppToken]) {
    match &mut stmt.kind {
        // A variable that a section declares is visible in the sections after it, so it does not move.
        CppStmtKind::Switch(found) => {
            found.sections.iter_mut().flat_map(|section| &mut section.stmts).for_each(|stmt| in_parts(stmt, tokens));
        }
        _ => each_list(stmt, &mut |inner| in_stmts(inner, tokens)),
    }
}

/// Moves the declaration of a variable into the loops of the statements after it. Returns false if it has other uses.
fn moves(variable: &CppVariable, after: &mut [CppStmt], tokens: &[CppToken]) -> bool {
    let (VariableName::Plain(name), CppInit::None) = (&variable.name, &variable.init) else { return false };
    let Some(end) = after.last().map(|stmt| stmt.span.span) else { return false };
    // Declarators after the own one may use the variable: `int i, *p = &i;`.
    let own = name.span.span;
    if variable.scope.is_some() || variable.bits.is_some() || !is_plain_integer(&variable.ty) {
        return false;
    }
    let mut uses: Vec<Span> = vec![];
    for token in tokens.iter().filter(|token| token.kind == CppTok::Ident && token.text == name.text) {
        // The place of a token of a macro is that of the macro's invocation.
        if token.span.expansion.is_some() {
            return false;
        }
        let place = token.span.span;
        if place.file == end.file && place.start >= own.end && place.end <= end.end {
            uses.push(place);
        }
    }
    let mut loops: Vec<Span> = vec![];
    after.iter_mut().for_each(|stmt| {
        each_loop(stmt, &name.text, &mut |found, place| {
            let CppStmtKind::Expr(init) = &found.init.kind else { return };
            // `i = i + 1` reads the variable.
            if uses.iter().filter(|place| place.is_in(init.span.span)).count() == 1 {
                loops.push(place);
            }
        });
    });
    if loops.is_empty() || !uses.iter().all(|place| loops.iter().any(|own| place.is_in(*own))) {
        return false;
    }
    after.iter_mut().for_each(|stmt| {
        each_loop(stmt, &name.text, &mut |found, _| declare_counter(found, variable));
    });
    true
}

fn is_plain_integer(ty: &CppType) -> bool {
    let is_integer = match &ty.kind {
        CppTypeKind::Basic(BasicType::Void | BasicType::Float | BasicType::Double | BasicType::LongDouble) => false,
        CppTypeKind::Basic(_) => true,
        CppTypeKind::Named(name) => match name.segments.as_slice() {
            [only] => INTEGER_NAMES.contains(&only.name.text.as_str()),
            _ => false,
        },
        _ => false,
    };
    is_integer && ty.qualifiers == Qualifiers::default()
}

/// Calls a function for each `for` that starts with an assignment of the variable and is in no other such loop.
fn each_loop(stmt: &mut CppStmt, name: &str, f: &mut dyn FnMut(&mut CppFor, Span)) {
    let place = stmt.span.span;
    if let CppStmtKind::For(found) = &mut stmt.kind
        && assigned_counter(&found.init).is_some_and(|counter| counter.text == name)
    {
        return f(found, place);
    }
    each_list(stmt, &mut |inner| inner.iter_mut().for_each(|stmt| each_loop(stmt, name, f)));
}

/// Returns the variable that the first statement of a loop assigns.
fn assigned_counter(init: &CppStmt) -> Option<&CppName> {
    let CppStmtKind::Expr(CppExpr { kind: CppExprKind::Assign { op: None, target, .. }, .. }) = &init.kind else {
        return None;
    };
    match &target.kind {
        CppExprKind::Name(name) if !name.global && name.segments.len() == 1 => Some(&name.segments[0].name),
        _ => None,
    }
}

/// Replaces the assignment at the start of a loop by a declaration with this value.
fn declare_counter(found: &mut CppFor, variable: &CppVariable) {
    let span = found.init.span;
    let CppStmtKind::Expr(CppExpr { kind: CppExprKind::Assign { value, .. }, .. }) = &found.init.kind else { return };
    let own = CppVariable { init: CppInit::Equal((**value).clone()), span, ..variable.clone() };
    let decl = VariableDecl { attributes: VariableAttributes::default(), template: None, variables: vec![own] };
    found.init.kind = CppStmtKind::Decl(CppDecl { kind: CppDeclKind::Variables(decl), span });
}

/// Calls a function for each list of statements inside of a statement.
fn each_list(stmt: &mut CppStmt, f: &mut dyn FnMut(&mut Vec<CppStmt>)) {
    let single = |stmt: &mut CppStmt, f: &mut dyn FnMut(&mut Vec<CppStmt>)| {
        let empty = CppStmt { kind: CppStmtKind::Empty, span: stmt.span };
        let mut list = vec![std::mem::replace(stmt, empty)];
        f(&mut list);
        if let Some(only) = list.pop() {
            *stmt = only;
        }
    };
    match &mut stmt.kind {
        CppStmtKind::Block(block) => f(&mut block.stmts),
        CppStmtKind::If(found) => {
            let CppIf { then, otherwise, .. } = &mut **found;
            single(then, f);
            otherwise.iter_mut().for_each(|stmt| single(stmt, f));
        }
        CppStmtKind::While { body, .. } | CppStmtKind::DoWhile { body, .. } => single(body, f),
        CppStmtKind::For(found) => single(&mut found.body, f),
        CppStmtKind::RangeFor { body, .. } => single(body, f),
        CppStmtKind::Switch(found) => {
            let CppSwitch { sections, .. } = &mut **found;
            sections.iter_mut().for_each(|section| f(&mut section.stmts));
        }
        _ => {}
    }
}
