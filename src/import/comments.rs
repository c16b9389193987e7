//! Finds the statement of the translated text to which a comment of the CUDA file belongs.
//!
//! A comment precedes the next statement of its block. If the text has nothing for that statement, it precedes a later
//! one, follows an earlier one, or precedes the statement around the block. A comment after a statement on its last
//! line stays there. Comments inside a statement, such as those between operands, precede the statement.

use crate::ast::{
    CppComment, CppDecl, CppDeclKind, CppExprKind, CppFunction, CppStmt, CppStmtKind, FunctionBody, TranslationUnit,
};
use crate::launches::FunctionScan;
use crate::sema::tree::{Stmt, StmtKind};
use clk_base::source::Span;
use rustc_hash::FxHashMap;

/// The comments of a function of the text. Statements are numbered in the order in which they are printed, and a
/// statement precedes the statements in it.
#[derive(Debug, Default)]
pub(crate) struct PlacedComments {
    /// The lines before the function, without `//`.
    pub(crate) head: Vec<String>,
    /// The lines before and after a statement.
    pub(crate) before: FxHashMap<usize, Vec<String>>,
    pub(crate) after: FxHashMap<usize, Vec<String>>,
    /// The comment at the end of the last line of a statement.
    pub(crate) beside: FxHashMap<usize, String>,
}

/// A place for a comment, relative to a statement of the CUDA file.
enum SourceAnchor {
    Before(Span),
    After(Span),
    Beside(Span),
}

/// A place for a comment, relative to a statement of the text.
enum TextAnchor {
    Before(usize),
    After(usize),
    Beside(usize),
}

/// The comments of a file, for all of its functions.
pub(crate) struct FileComments<'a> {
    comments: Vec<&'a CppComment>,
    /// The places of all declarations outside of functions.
    decls: Vec<Span>,
}

impl<'a> FileComments<'a> {
    /// Returns the comments of a file that `is_kept` selects.
    pub(crate) fn new(unit: &'a TranslationUnit, is_kept: impl Fn(&CppComment) -> bool) -> Self {
        let mut decls = vec![];
        collect_decls(&unit.decls, &mut decls);
        FileComments { comments: unit.comments.iter().filter(|comment| is_kept(comment)).collect(), decls }
    }

    /// Places the comments before a function and in its body. `body` is the translation of the function.
    pub(crate) fn of_function(&self, function: &CppFunction, body: &[Stmt]) -> PlacedComments {
        let mut placed = PlacedComments::default();
        let FunctionBody::Block(source) = &function.body else { return placed };
        let (name, block) = (function.name_span.span, source.span.span);
        if name.file != block.file || name.start > block.start {
            return placed;
        }
        // The place of a lambda is the whole expression.
        let start = if block.end <= name.end { name.start } else { self.head_start(name) };
        let lambdas: Vec<Span> = FunctionScan::with_lambdas(&function.body)
            .values
            .iter()
            .filter(|value| matches!(value.kind, CppExprKind::Lambda(_)))
            .map(|value| value.span.span)
            .collect();
        let mut text = vec![];
        number_statements(body, &mut text);
        for comment in &self.comments {
            let place = comment.span;
            if place.file != block.file || place.start < start || place.end > block.end {
                continue;
            }
            if lambdas.iter().any(|lambda| lambda.file == place.file && lambda.range().contains(&place.range().start)) {
                continue;
            }
            if place.start < block.start {
                placed.head.extend(lines(comment));
                continue;
            }
            let mut anchors = vec![];
            find_anchors(&source.stmts, comment, &mut anchors);
            match anchors.iter().find_map(|anchor| text_anchor(&text, anchor)) {
                None => placed.head.extend(lines(comment)),
                Some(TextAnchor::Before(at)) => placed.before.entry(at).or_default().extend(lines(comment)),
                Some(TextAnchor::After(at)) => placed.after.entry(at).or_default().extend(lines(comment)),
                Some(TextAnchor::Beside(at)) => {
                    let words = lines(comment).join(" ");
                    let known = placed.beside.entry(at).or_default();
                    known.push_str(&words);
                }
            }
        }
        placed
    }

    /// Returns the place from which comments belong to the function with this name: the end of the declaration before
    /// it, or the start of the declaration around it.
    fn head_start(&self, name: Span) -> u32 {
        let own = |decl: &&Span| decl.file == name.file && decl.start <= name.start && name.end <= decl.end;
        let inner = self.decls.iter().filter(own).min_by_key(|decl| decl.end - decl.start);
        let start = inner.map_or(name.start, |decl| decl.start);
        let outer = self.decls.iter().filter(own).filter(|decl| decl.start < start).map(|decl| decl.start);
        let before = self.decls.iter().filter(|decl| decl.file == name.file && decl.end <= start);
        let line_comments = |end: u32| {
            // A comment after the declaration on its last line belongs to it.
            let beside = self.comments.iter().filter(|comment| {
                comment.span.file == name.file && comment.span.start >= end && comment.line_code == Some(end)
            });
            beside.map(|comment| comment.span.end).max().unwrap_or(end)
        };
        let before = before.map(|decl| decl.end).max().map(line_comments);
        outer.chain(before).max().unwrap_or(0)
    }
}

fn collect_decls(decls: &[CppDecl], found: &mut Vec<Span>) {
    for decl in decls {
        found.push(decl.span.span);
        match &decl.kind {
            CppDeclKind::Namespace { decls, .. } | CppDeclKind::LinkageBlock(decls) => collect_decls(decls, found),
            CppDeclKind::Record(record) => {
                for member in record.members.iter().flatten() {
                    collect_decls(std::slice::from_ref(&member.decl), found);
                }
            }
            _ => {}
        }
    }
}

/// Returns the lines of a comment, without the asterisks and blank lines of a frame.
fn lines(comment: &CppComment) -> Vec<String> {
    if !comment.block {
        // `///` begins a comment of another kind in Clk.
        return vec![comment.text.trim_start_matches('/').trim_end().to_string()];
    }
    let mut lines: Vec<String> = comment
        .text
        .lines()
        .enumerate()
        .map(|(at, line)| {
            let line = line.trim();
            let line = if at > 0 || line.starts_with('*') { line.trim_start_matches('*') } else { line };
            let line = line.trim_end_matches('*').trim_end();
            match line.chars().next() {
                None | Some(' ' | '\t') => line.to_string(),
                Some(_) => format!(" {line}"),
            }
        })
        .collect();
    while lines.last().is_some_and(|line| line.trim().is_empty()) {
        lines.pop();
    }
    let blank = lines.iter().take_while(|line| line.trim().is_empty()).count();
    lines.drain(..blank);
    lines
}

fn is_inside(inner: Span, outer: Span) -> bool {
    inner.file == outer.file && outer.start <= inner.start && inner.end <= outer.end
}

/// Finds the places for a comment among the statements of a block, the best first.
fn find_anchors(stmts: &[CppStmt], comment: &CppComment, anchors: &mut Vec<SourceAnchor>) {
    let place = comment.span;
    let next = stmts.partition_point(|stmt| stmt.span.span.end <= place.start);
    if let Some(stmt) = stmts.get(next).filter(|stmt| stmt.span.span.start < place.start) {
        if let Some(inner) = inner_statements(stmt, comment) {
            find_anchors(inner, comment, anchors);
        }
        anchors.push(SourceAnchor::Before(stmt.span.span));
        return;
    }
    if let Some(previous) = next.checked_sub(1).map(|at| &stmts[at])
        && comment.line_code == Some(previous.span.span.end)
    {
        anchors.push(SourceAnchor::Beside(previous.span.span));
    }
    anchors.extend(stmts[next..].iter().map(|stmt| SourceAnchor::Before(stmt.span.span)));
    anchors.extend(stmts[..next].iter().rev().map(|stmt| SourceAnchor::After(stmt.span.span)));
}

/// Returns the statements inside of a statement among which a comment is.
fn inner_statements<'s>(stmt: &'s CppStmt, comment: &CppComment) -> Option<&'s [CppStmt]> {
    let place = comment.span;
    // The body of a loop or branch, also if it has no braces.
    let body = |body: &'s CppStmt| -> Option<&'s [CppStmt]> {
        let own = body.span.span;
        match &body.kind {
            CppStmtKind::Block(block) if is_inside(place, own) => Some(&block.stmts),
            // `if (…) // comment`
            _ if is_inside(place, own) || place.end <= own.start && !comment.block => Some(std::slice::from_ref(body)),
            _ => None,
        }
    };
    match &stmt.kind {
        CppStmtKind::Block(block) => Some(&block.stmts),
        CppStmtKind::If(statement) => match &statement.otherwise {
            // A comment before `else` is about its branch.
            Some(otherwise) if place.start >= statement.then.span.span.end => {
                body(otherwise).or(Some(std::slice::from_ref(otherwise)))
            }
            _ => body(&statement.then),
        },
        CppStmtKind::While { body: inner, .. }
        | CppStmtKind::DoWhile { body: inner, .. }
        | CppStmtKind::RangeFor { body: inner, .. } => body(inner),
        CppStmtKind::For(statement) => body(&statement.body),
        CppStmtKind::Switch(statement) => {
            // A comment before a label is about the statements after it.
            let mut sections = statement.sections.iter().filter(|section| !section.stmts.is_empty());
            let ends_after = |stmts: &[CppStmt]| stmts.last().is_some_and(|last| last.span.span.end > place.start);
            let is_beside =
                |stmts: &[CppStmt]| stmts.last().is_some_and(|last| comment.line_code == Some(last.span.span.end));
            let section = sections.find(|section| ends_after(&section.stmts) || is_beside(&section.stmts))?;
            Some(&section.stmts)
        }
        _ => None,
    }
}

/// A statement of the text.
struct NumberedStmt {
    span: Span,
    /// The number after those of the statements in it.
    end: usize,
    has_block: bool,
}

fn number_statements(stmts: &[Stmt], numbered: &mut Vec<NumberedStmt>) {
    for stmt in stmts {
        let at = numbered.len();
        numbered.push(NumberedStmt { span: stmt.span.span, end: 0, has_block: false });
        let blocks: [&[Stmt]; 2] = match &stmt.kind {
            StmtKind::If { then, otherwise, .. } => [then, otherwise],
            StmtKind::While { body, .. } | StmtKind::Loop(body) | StmtKind::For { body, .. } => [body, &[]],
            StmtKind::Declare { .. }
            | StmtKind::Shared { .. }
            | StmtKind::Assign { .. }
            | StmtKind::Expr(_)
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(_) => [&[], &[]],
        };
        for block in blocks {
            number_statements(block, numbered);
        }
        let end = numbered.len();
        numbered[at].end = end;
        numbered[at].has_block = matches!(
            stmt.kind,
            StmtKind::If { .. } | StmtKind::While { .. } | StmtKind::Loop(_) | StmtKind::For { .. }
        );
    }
}

/// Returns the place in the text; `None` if the text has nothing for the statement.
fn text_anchor(text: &[NumberedStmt], anchor: &SourceAnchor) -> Option<TextAnchor> {
    let (SourceAnchor::Before(source) | SourceAnchor::After(source) | SourceAnchor::Beside(source)) = *anchor;
    let first = text.iter().position(|stmt| is_inside(stmt.span, source))?;
    let (mut at, mut last, mut count) = (first, first, 0);
    while let Some(stmt) = text.get(at) {
        if is_inside(stmt.span, source) {
            last = at;
            count += 1;
            at = stmt.end;
        } else {
            at += 1;
        }
    }
    Some(match anchor {
        SourceAnchor::Before(_) => TextAnchor::Before(first),
        SourceAnchor::After(_) => TextAnchor::After(last),
        SourceAnchor::Beside(_) if count == 1 || text[last].has_block => TextAnchor::Beside(last),
        SourceAnchor::Beside(_) => TextAnchor::Before(first),
    })
}
