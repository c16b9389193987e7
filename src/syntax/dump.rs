//! Formats the syntax tree as indented text, one node per line, for `clk emit --stage ast` and tests.

use crate::ast::*;
use clk_scalar::ops::UnaryOp;
use std::fmt::Write;

/// Formats the tree of a file.
pub(crate) fn dump(file: &SourceFile) -> String {
    let mut out = AstPrinter::default();
    if let Some(doc) = &file.doc {
        out.line(format_args!("doc {doc:?}"));
    }
    file.items.iter().for_each(|item| out.item(item));
    out.text
}

#[derive(Default)]
struct AstPrinter {
    text: String,
    depth: usize,
}

impl AstPrinter {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = writeln!(self.text, "{:1$}{line}", "", self.depth * 2);
    }

    /// Writes a line, then the node's children, indented.
    fn node(&mut self, line: std::fmt::Arguments<'_>, children: impl FnOnce(&mut Self)) {
        self.line(line);
        self.depth += 1;
        children(self);
        self.depth -= 1;
    }

    fn item(&mut self, item: &Item) {
        if let Some(doc) = &item.doc {
            self.line(format_args!("doc {doc:?}"));
        }
        match &item.kind {
            ItemKind::Const(c) => {
                self.node(format_args!("const {}{}", c.name.text, annotation(c.ty.as_ref())), |p| p.expr(&c.value));
            }
            ItemKind::Struct(s) => self.node(format_args!("struct {}", s.name.text), |p| {
                s.fields.iter().for_each(|f| p.line(format_args!("field {}: {}", f.name.text, ty(&f.ty))));
            }),
            ItemKind::Fn(f) => self.node(format_args!("fn {}", f.name.text), |p| {
                p.header(&f.generics, &f.params);
                if let Some(result) = &f.result {
                    p.line(format_args!("result {}", ty(result)));
                }
                p.block("body", &f.body);
            }),
            ItemKind::Kernel(k) => self.node(format_args!("kernel {}", k.name.text), |p| {
                p.header(&k.generics, &k.params);
                p.geometry(&k.geometry);
                if !k.assumes.is_empty() {
                    p.list("assume", &k.assumes);
                }
                if !k.expects.is_empty() {
                    p.list("expect", &k.expects);
                }
                k.tunes.iter().for_each(|t| p.list(&format!("tune {}", t.name.text), std::slice::from_ref(&t.values)));
                p.block("body", &k.body);
            }),
            ItemKind::Import(i) => self.line(format_args!("import {}{}", source(&i.source), import_items(&i.items))),
            ItemKind::Test(s) => self.section("test", s),
            ItemKind::Bench(s) => self.section("bench", s),
            ItemKind::Stmt(stmt) => self.stmt(stmt),
            ItemKind::Error(_) => self.line(format_args!("error")),
        }
    }

    fn header(&mut self, generics: &[Generic], params: &[Param]) {
        for generic in generics {
            let name = &generic.name.text;
            match &generic.kind {
                GenericKind::Type { bound } => {
                    let bound = bound.as_ref().map_or("Any", |b| b.text.as_str());
                    self.line(format_args!("generic {name}: {bound}"));
                }
                GenericKind::Const { ty: of, default } => {
                    self.node(format_args!("generic const {name}: {}", ty(of)), |p| {
                        default.iter().for_each(|d| p.expr(d))
                    });
                }
                GenericKind::Fn { ty: of, default } => {
                    self.node(format_args!("generic {name}: {}", ty(of)), |p| default.iter().for_each(|d| p.expr(d)));
                }
            }
        }
        for param in params {
            let access = match param.access {
                Access::In => "",
                Access::Out => "out ",
                Access::InOut => "inout ",
            };
            self.node(format_args!("param {access}{}: {}", param.name.text, ty(&param.ty)), |p| {
                param.default.iter().for_each(|default| p.expr(default));
            });
        }
    }

    fn geometry(&mut self, geometry: &Geometry) {
        match geometry {
            Geometry::Threads { indices, block, .. } => {
                self.node(format_args!("threads"), |p| {
                    indices.iter().for_each(|(name, extent)| p.node(format_args!("{}", name.text), |p| p.expr(extent)));
                });
                if let Some(block) = block {
                    self.list("block", block);
                }
            }
            Geometry::Grid { grid, block, .. } => {
                self.list("grid", grid);
                self.list("block", block);
            }
            Geometry::Missing(_) => self.line(format_args!("geometry missing")),
        }
    }

    fn section(&mut self, kind: &str, section: &SectionItem) {
        self.node(format_args!("{kind} {:?}", section.title), |p| {
            section.rates.iter().for_each(|(name, rate)| p.node(format_args!("rate {}", name.text), |p| p.expr(rate)));
            p.block("body", &section.body);
        });
    }

    fn list(&mut self, label: &str, exprs: &[Expr]) {
        self.node(format_args!("{label}"), |p| exprs.iter().for_each(|e| p.expr(e)));
    }

    fn block(&mut self, label: &str, block: &Block) {
        self.node(format_args!("{label}"), |p| {
            block.stmts.iter().for_each(|s| p.stmt(s));
            if let Some(tail) = &block.tail {
                p.node(format_args!("value"), |p| p.expr(tail));
            }
        });
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match &stmt.kind {
            StmtKind::Let { mutable, pattern: bound, ty, value } => {
                let word = if *mutable { "var" } else { "let" };
                let head = format!("{word} {}{}", pattern(bound), annotation(ty.as_deref()));
                self.node(format_args!("{head}"), |p| value.iter().for_each(|v| p.expr(v)));
            }
            StmtKind::Shared { name, ty: of } => self.line(format_args!("shared {}: {}", name.text, ty(of))),
            StmtKind::Assign { place, op, value } => {
                let symbol = op.map_or("", |(op, _)| op.symbol());
                self.node(format_args!("assign {symbol}="), |p| {
                    p.expr(place);
                    p.expr(value);
                });
            }
            StmtKind::Expr { expr, quiet } => {
                let word = if *quiet { "do quietly" } else { "do" };
                self.node(format_args!("{word}"), |p| p.expr(expr));
            }
            StmtKind::For { pattern: bound, iter, body, unroll: hint } => {
                self.node(format_args!("for {}{}", pattern(bound), unroll(*hint)), |p| {
                    p.expr(iter);
                    p.block("body", body);
                });
            }
            StmtKind::While { cond, body, unroll: hint } => self.node(format_args!("while{}", unroll(*hint)), |p| {
                p.expr(cond);
                p.block("body", body);
            }),
            StmtKind::Loop { body } => self.block("loop", body),
            StmtKind::Break => self.line(format_args!("break")),
            StmtKind::Continue => self.line(format_args!("continue")),
            StmtKind::Return(value) => self.node(format_args!("return"), |p| value.iter().for_each(|v| p.expr(v))),
            StmtKind::On { device, body } => self.node(format_args!("on"), |p| {
                p.expr(device);
                p.block("body", body);
            }),
            StmtKind::Batch { body } => self.block("batch", body),
            StmtKind::Error => self.line(format_args!("error")),
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Name(name) => self.line(format_args!("{}", name.text)),
            ExprKind::Int { value, suffix } => self.line(format_args!("{value}{}", suffix_of(suffix))),
            ExprKind::Float { text, suffix } => self.line(format_args!("{text}{}", suffix_of(suffix))),
            ExprKind::Bool(value) => self.line(format_args!("{value}")),
            ExprKind::Str(parts) => self.string(parts),
            ExprKind::Field { base, name } => self.node(format_args!(".{}", name.text), |p| p.expr(base)),
            ExprKind::Index { base, args } => self.node(format_args!("index"), |p| {
                p.expr(base);
                args.iter().for_each(|a| p.expr(a));
            }),
            ExprKind::Call { callee, args } => self.node(format_args!("call"), |p| {
                p.expr(callee);
                p.args(args);
            }),
            ExprKind::Launch { callee, grid, block, args } => self.node(format_args!("launch"), |p| {
                p.expr(callee);
                p.node(format_args!("grid"), |p| p.expr(grid));
                p.node(format_args!("block"), |p| p.expr(block));
                p.args(args);
            }),
            ExprKind::Unary { op, expr, .. } => {
                let symbol = match op {
                    UnaryOp::Neg => "-",
                    UnaryOp::Not => "!",
                };
                self.node(format_args!("{symbol}"), |p| p.expr(expr));
            }
            ExprKind::Binary { op, left, right, .. } => self.node(format_args!("{}", op.symbol()), |p| {
                p.expr(left);
                p.expr(right);
            }),
            ExprKind::Range { start, end, inclusive, step } => {
                self.node(format_args!("{}", if *inclusive { "..=" } else { ".." }), |p| {
                    for (label, part) in [("from", start), ("to", end), ("step", step)] {
                        if let Some(part) = part {
                            p.node(format_args!("{label}"), |p| p.expr(part));
                        }
                    }
                });
            }
            ExprKind::If { cond, then, other } => self.node(format_args!("if"), |p| {
                p.expr(cond);
                p.block("then", then);
                if let Some(other) = other {
                    p.node(format_args!("else"), |p| p.expr(other));
                }
            }),
            ExprKind::Block(block) => self.block("block", block),
            ExprKind::Tuple(elements) => self.list("tuple", elements),
            ExprKind::Array(elements) => self.list("array", elements),
            ExprKind::Struct { path, fields } => self.node(format_args!("struct {}", dotted(path)), |p| {
                fields.iter().for_each(|(name, value)| p.node(format_args!("{}", name.text), |p| p.expr(value)));
            }),
            ExprKind::Time(block) => self.block("time", block),
            ExprKind::Paren(inner) => self.node(format_args!("paren"), |p| p.expr(inner)),
            ExprKind::Error => self.line(format_args!("error")),
        }
    }

    fn args(&mut self, args: &[Arg]) {
        for arg in args {
            match &arg.name {
                Some(name) => self.node(format_args!("{} =", name.text), |p| p.expr(&arg.value)),
                None => self.expr(&arg.value),
            }
        }
    }

    fn string(&mut self, parts: &[StrPart]) {
        if let [StrPart::Text(text)] = parts {
            return self.line(format_args!("{text:?}"));
        }
        self.node(format_args!("string"), |p| {
            for part in parts {
                match part {
                    StrPart::Text(text) => p.line(format_args!("{text:?}")),
                    StrPart::Value { expr, format } => {
                        let format = format.as_ref().map_or(String::new(), |f| format!(" :{}", f.text));
                        p.node(format_args!("value{format}"), |p| p.expr(expr));
                    }
                }
            }
        });
    }
}

fn suffix_of(suffix: &Option<Name>) -> &str {
    suffix.as_ref().map_or("", |s| s.text.as_str())
}

fn unroll(hint: Unroll) -> String {
    match hint {
        Unroll::Auto => String::new(),
        Unroll::Full => " unrolled".into(),
        Unroll::By(count) => format!(" unrolled by {count}"),
        Unroll::Never => " never unrolled".into(),
    }
}

fn dotted(path: &[Name]) -> String {
    path.iter().map(|n| n.text.as_str()).collect::<Vec<_>>().join(".")
}

fn source(source: &ImportSource) -> String {
    match source {
        ImportSource::Path(path) => dotted(path),
        ImportSource::File { path, .. } => format!("{path:?}"),
    }
}

fn import_items(items: &ImportItems) -> String {
    let renamed = |(name, alias): &(Name, Option<Name>)| match alias {
        Some(alias) => format!("{} as {}", name.text, alias.text),
        None => name.text.to_string(),
    };
    match items {
        ImportItems::Module { alias: None } => String::new(),
        ImportItems::Module { alias: Some(alias) } => format!(" as {}", alias.text),
        ImportItems::Names(names) => format!(".{{{}}}", names.iter().map(renamed).collect::<Vec<_>>().join(", ")),
    }
}

fn pattern(bound: &Pattern) -> String {
    match bound {
        Pattern::Name(name) => name.text.to_string(),
        Pattern::Tuple(parts, _) => format!("({})", parts.iter().map(pattern).collect::<Vec<_>>().join(", ")),
    }
}

fn annotation(of: Option<&Type>) -> String {
    of.map_or(String::new(), |of| format!(": {}", ty(of)))
}

fn ty(of: &Type) -> String {
    let all = |types: &[Type]| types.iter().map(ty).collect::<Vec<_>>().join(", ");
    match &of.kind {
        TypeKind::Name(path) => dotted(path),
        TypeKind::Array { element, dims } => {
            let dims = dims.iter().map(inline).collect::<Vec<_>>().join(", ");
            format!("[{}; {dims}]", ty(element))
        }
        TypeKind::Tuple(types) => format!("({})", all(types)),
        TypeKind::Fn { params, result } => {
            let result = result.as_ref().map_or(String::new(), |r| format!(" -> {}", ty(r)));
            format!("fn({}){result}", all(params))
        }
        TypeKind::Placed { ty: inner, place } => format!("{} @{}", ty(inner), place.text),
    }
}

/// Formats a dimension on one line.
fn inline(expr: &Expr) -> String {
    let mut printer = AstPrinter::default();
    printer.expr(expr);
    printer.text.split_whitespace().collect::<Vec<_>>().join(" ")
}
