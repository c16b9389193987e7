//! The tree of the items of a file, and foldable ranges.

use std::ops::Range;

use super::{Analysis, slice};
use clk_base::source::Span;
use clk_syntax::ast::*;
use clk_syntax::token::Tok;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SymbolKind {
    Fn,
    Kernel,
    Struct,
    Field,
    Const,
    Module,
    Variable,
    Test,
    Bench,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DocumentSymbol {
    pub name: String,
    /// A short text that is shown next to the name, such as `(x: [f32; N])`.
    pub detail: String,
    pub kind: SymbolKind,
    pub range: Range<usize>,
    pub name_range: Range<usize>,
    pub children: Vec<DocumentSymbol>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoldingRange {
    /// From the opening to the closing bracket, or from the first to the last comment.
    pub range: Range<usize>,
    pub comment: bool,
    pub imports: bool,
}

impl Analysis {
    /// Returns the items and the script's variables in textual order.
    pub fn symbols(&self) -> Vec<DocumentSymbol> {
        let mut out = Vec::new();
        for item in &self.tree.items {
            match &item.kind {
                ItemKind::Const(c) => out.push(self.symbol(SymbolKind::Const, &c.name, item.span)),
                ItemKind::Struct(s) => {
                    let mut symbol = self.symbol(SymbolKind::Struct, &s.name, item.span);
                    symbol.children = s.fields.iter().map(|f| self.field(f)).collect();
                    out.push(symbol);
                }
                ItemKind::Fn(f) => {
                    let mut symbol = self.symbol(SymbolKind::Fn, &f.name, item.span);
                    symbol.detail = self.detail(f.name.span, f.body.span);
                    out.push(symbol);
                }
                ItemKind::Kernel(k) => {
                    let mut symbol = self.symbol(SymbolKind::Kernel, &k.name, item.span);
                    symbol.detail = self.detail(k.name.span, k.body.span);
                    symbol.children = self.shared(&k.body);
                    out.push(symbol);
                }
                ItemKind::Test(s) => out.push(section(SymbolKind::Test, s, item.span)),
                ItemKind::Bench(s) => out.push(section(SymbolKind::Bench, s, item.span)),
                ItemKind::Stmt(Stmt { kind: StmtKind::Let { pattern, .. }, span }) => {
                    self.variables(pattern, *span, &mut out)
                }
                ItemKind::Import(_) | ItemKind::Stmt(_) | ItemKind::Error(_) => {}
            }
        }
        out
    }

    fn symbol(&self, kind: SymbolKind, name: &Name, span: Span) -> DocumentSymbol {
        DocumentSymbol {
            name: name.text.to_string(),
            detail: String::new(),
            kind,
            range: span.to(name.span).range(),
            name_range: name.span.range(),
            children: vec![],
        }
    }

    fn field(&self, field: &Field) -> DocumentSymbol {
        let mut symbol = self.symbol(SymbolKind::Field, &field.name, field.name.span.to(field.ty.span));
        symbol.detail = slice(&self.text, field.ty.span.range()).to_owned();
        symbol
    }

    /// Returns the text between a name and the body, on one line.
    fn detail(&self, name: Span, body: Span) -> String {
        let text = slice(&self.text, name.end as usize..body.start as usize);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn shared(&self, body: &Block) -> Vec<DocumentSymbol> {
        let shared = body.stmts.iter().filter_map(|stmt| match &stmt.kind {
            StmtKind::Shared { name, ty } => {
                let mut symbol = self.symbol(SymbolKind::Variable, name, stmt.span);
                symbol.detail = slice(&self.text, ty.span.range()).to_owned();
                Some(symbol)
            }
            _ => None,
        });
        shared.collect()
    }

    fn variables(&self, pattern: &Pattern, span: Span, out: &mut Vec<DocumentSymbol>) {
        match pattern {
            Pattern::Name(name) if name.text != "_" => {
                let mut symbol = self.symbol(SymbolKind::Variable, name, span);
                symbol.detail = self.type_of(name.span.range()).unwrap_or_default();
                out.push(symbol);
            }
            Pattern::Name(_) => {}
            Pattern::Tuple(parts, _) => parts.iter().for_each(|p| self.variables(p, span, out)),
        }
    }

    /// Returns the foldable ranges: brackets that span lines, consecutive comment lines, and consecutive imports.
    pub fn folds(&self) -> Vec<FoldingRange> {
        let mut out = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let lines = |range: &Range<usize>| slice(&self.text, range.clone()).contains('\n');
        for token in clk_syntax::lex(self.file, &self.text).tokens {
            match token.kind {
                Tok::LBrace | Tok::LParen | Tok::LBracket => open.push(token.start as usize),
                Tok::RBrace | Tok::RParen | Tok::RBracket => {
                    let range = open.pop().unwrap_or(token.start as usize)..token.end as usize;
                    if lines(&range) {
                        out.push(FoldingRange { range, comment: false, imports: false });
                    }
                }
                _ => {}
            }
        }
        out.extend(self.comment_folds());
        let imports: Vec<Span> =
            self.tree.items.iter().filter(|i| matches!(i.kind, ItemKind::Import(_))).map(|i| i.span).collect();
        if let [first, .., last] = imports[..] {
            out.push(FoldingRange { range: first.start as usize..last.end as usize, comment: false, imports: true });
        }
        out.sort_by_key(|f| (f.range.start, f.range.end));
        out
    }

    /// Returns ranges of at least two consecutive comment lines.
    fn comment_folds(&self) -> Vec<FoldingRange> {
        let mut out = Vec::new();
        let mut run: Option<(Range<usize>, usize)> = None;
        let mut at = 0;
        let mut finish = |run: &mut Option<(Range<usize>, usize)>| {
            if let Some((range, lines)) = run.take()
                && lines > 1
            {
                out.push(FoldingRange { range, comment: true, imports: false });
            }
        };
        for line in self.text.split_inclusive('\n') {
            let end = at + line.trim_end().len();
            if line.trim_start().starts_with("//") {
                let (range, lines) = run.get_or_insert((at..end, 0));
                (range.end, *lines) = (end, *lines + 1);
            } else {
                finish(&mut run);
            }
            at += line.len();
        }
        finish(&mut run);
        out
    }
}

fn section(kind: SymbolKind, section: &SectionItem, span: Span) -> DocumentSymbol {
    let word = if kind == SymbolKind::Test { "test" } else { "bench" };
    DocumentSymbol {
        name: format!("{word} \"{}\"", section.title),
        detail: String::new(),
        kind,
        range: span.to(section.title_span).range(),
        name_range: section.title_span.range(),
        children: vec![],
    }
}
