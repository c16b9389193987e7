//! The template arguments of launches in host code: `kernel<float, 4><<<grid, block>>>(…)`.

use crate::ast::{
    CppBlock, CppCondition, CppDecl, CppDeclKind, CppExpr, CppExprKind, CppInit, CppStmt, CppStmtKind, CppTemplateArg,
    FunctionBody,
};
use smol_str::SmolStr;

/// A launch of a kernel template with explicit arguments.
pub(crate) struct TemplateLaunch<'a> {
    pub(crate) kernel: SmolStr,
    pub(crate) args: &'a [CppTemplateArg],
}

pub(crate) fn template_launches(decls: &[CppDecl]) -> Vec<TemplateLaunch<'_>> {
    let mut all = vec![];
    for decl in decls {
        visit_decl(decl, &mut all);
    }
    all
}

fn visit_decl<'a>(decl: &'a CppDecl, all: &mut Vec<TemplateLaunch<'a>>) {
    match &decl.kind {
        CppDeclKind::Function(function) => {
            if let FunctionBody::Block(body) = &function.body {
                visit_block(body, all);
            }
        }
        CppDeclKind::Namespace { decls, .. } | CppDeclKind::LinkageBlock(decls) => {
            decls.iter().for_each(|decl| visit_decl(decl, all));
        }
        CppDeclKind::Record(record) => {
            record.members.iter().flatten().for_each(|member| visit_decl(&member.decl, all));
        }
        CppDeclKind::Variables(decl) => {
            for variable in &decl.variables {
                match &variable.init {
                    CppInit::Equal(value) => visit_expr(value, all),
                    CppInit::Paren(args) | CppInit::Brace(args) => args.iter().for_each(|arg| visit_expr(arg, all)),
                    CppInit::None => {}
                }
            }
        }
        _ => {}
    }
}

fn visit_block<'a>(block: &'a CppBlock, all: &mut Vec<TemplateLaunch<'a>>) {
    block.stmts.iter().for_each(|stmt| visit_stmt(stmt, all));
}

fn visit_stmt<'a>(stmt: &'a CppStmt, all: &mut Vec<TemplateLaunch<'a>>) {
    match &stmt.kind {
        CppStmtKind::Expr(expr) | CppStmtKind::Return(Some(expr)) => visit_expr(expr, all),
        CppStmtKind::Decl(decl) => visit_decl(decl, all),
        CppStmtKind::Block(block) => visit_block(block, all),
        CppStmtKind::If(statement) => {
            if let CppCondition::Expr(condition) = &statement.condition {
                visit_expr(condition, all);
            }
            visit_stmt(&statement.then, all);
            if let Some(otherwise) = &statement.otherwise {
                visit_stmt(otherwise, all);
            }
        }
        CppStmtKind::While { body, .. } | CppStmtKind::DoWhile { body, .. } | CppStmtKind::RangeFor { body, .. } => {
            visit_stmt(body, all);
        }
        CppStmtKind::For(statement) => visit_stmt(&statement.body, all),
        CppStmtKind::Switch(statement) => {
            for section in &statement.sections {
                section.stmts.iter().for_each(|stmt| visit_stmt(stmt, all));
            }
        }
        _ => {}
    }
}

fn visit_expr<'a>(expr: &'a CppExpr, all: &mut Vec<TemplateLaunch<'a>>) {
    match &expr.kind {
        CppExprKind::Launch { callee, .. } => {
            if let CppExprKind::Name(name) = &callee.kind
                && let Some(last) = name.segments.last()
                && let Some(args) = last.args.as_deref()
            {
                all.push(TemplateLaunch { kernel: last.name.text.clone(), args });
            }
        }
        CppExprKind::Comma { left, right } | CppExprKind::Binary { left, right, .. } => {
            visit_expr(left, all);
            visit_expr(right, all);
        }
        CppExprKind::Call { args, .. } => args.iter().for_each(|arg| visit_expr(arg, all)),
        CppExprKind::Lambda(lambda) => visit_block(&lambda.body, all),
        _ => {}
    }
}
