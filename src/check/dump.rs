//! Formats the typed tree as indented text.

use std::fmt::Write;

use crate::format_types::Show;
use crate::tune_configs;
use crate::typed::*;
use crate::visit::{self, Visit};

/// Formats the items of a module as indented text, for `clk emit --stage typed`.
pub fn dump(program: &Program, module: ModuleId) -> String {
    let mut out = String::new();
    let Some(m) = program.modules.get(module) else { return out };
    for (name, binding) in &m.names {
        match binding {
            NameBinding::Struct(id) => structure(program, *id, &mut out),
            NameBinding::Const(id) => constant(program, *id, &mut out),
            NameBinding::Fn(id) => function(program, *id, &mut out),
            NameBinding::Kernel(id) => kernel(program, *id, &mut out),
            NameBinding::Global(id) => {
                if let Some(g) = program.globals.get(*id) {
                    let show = Show { program, sig: None, vars: None };
                    let word = if g.mutable { "var" } else { "let" };
                    let _ = writeln!(out, "{word} {name}: {}", show.ty(&g.ty));
                }
            }
            NameBinding::Module(id) => {
                let _ = writeln!(out, "import {name} = {}", program.modules.get(*id).map_or("", |m| &m.name));
            }
            NameBinding::Error => {
                let _ = writeln!(out, "{name}: error");
            }
        }
    }
    for chunk in program.chunks.iter().filter(|c| c.module == module) {
        let _ = writeln!(out, "script");
        body(program, None, &chunk.body, &mut out);
    }
    for (word, sections) in [("test", &program.tests), ("bench", &program.benches)] {
        for (_, s) in sections.iter().filter(|(_, s)| s.module == module) {
            let _ = writeln!(out, "{word} {:?}", s.title);
            body(program, None, &s.body, &mut out);
        }
    }
    out
}

fn structure(program: &Program, id: StructId, out: &mut String) {
    let Some(s) = program.structs.get(id) else { return };
    let show = Show { program, sig: None, vars: None };
    let fields: Vec<String> = s.fields.iter().map(|f| format!("{}: {}", f.name, show.ty(&f.ty))).collect();
    let _ = writeln!(out, "struct {} {{ {} }}", s.name, fields.join(", "));
}

fn constant(program: &Program, id: ConstId, out: &mut String) {
    let Some(c) = program.consts.get(id) else { return };
    let show = Show { program, sig: None, vars: None };
    let _ = writeln!(out, "const {}: {}", c.name, show.ty(&c.ty));
    Dumper { show, locals: None, depth: 1, out }.expr("value", &c.value);
}

fn function(program: &Program, id: FnId, out: &mut String) {
    let Some(f) = program.fns.get(id) else { return };
    let show = Show { program, sig: Some(&f.sig), vars: None };
    let _ = writeln!(out, "{}  // {:?}", show.signature("fn", &f.name, &f.sig, Some(&f.result)), f.space);
    if let Some(b) = &f.body {
        body(program, Some(&f.sig), b, out);
    }
}

fn kernel(program: &Program, id: KernelId, out: &mut String) {
    let Some(k) = program.kernels.get(id) else { return };
    let show = Show { program, sig: Some(&k.sig), vars: None };
    let _ = writeln!(out, "{}", show.signature("kernel", &k.name, &k.sig, None));
    let locals = k.body.as_ref().map(|b| &b.locals);
    let mut d = Dumper { show, locals, depth: 1, out };
    match &k.geometry {
        Geometry::Threads { extents, block, .. } => {
            d.exprs("threads", extents);
            d.exprs("block", block.as_deref().unwrap_or(&[]));
        }
        Geometry::Grid { grid, block, .. } => {
            d.exprs("grid", grid);
            d.exprs("block", block);
        }
    }
    for assume in &k.assumes {
        assume.exprs().for_each(|e| d.expr("assume", e));
    }
    for tunable in &k.tunes {
        let name = k.sig.generics.get(tunable.param as usize).map_or("", |generic| generic.name.as_str());
        let values: Vec<String> = tunable.values.iter().map(|value| tune_configs::text(*value)).collect();
        d.line(&format!("tune {name} in [{}]", values.join(", ")));
    }
    if let Some(b) = &k.body {
        body(program, Some(&k.sig), b, out);
    }
}

fn body(program: &Program, sig: Option<&Signature>, b: &Body, out: &mut String) {
    let show = Show { program, sig, vars: None };
    Dumper { show, locals: Some(&b.locals), depth: 1, out }.visit_block(&b.root);
}

struct Dumper<'d> {
    show: Show<'d>,
    locals: Option<&'d clk_base::arena::Arena<Local>>,
    depth: usize,
    out: &'d mut String,
}

impl Dumper<'_> {
    fn line(&mut self, text: &str) {
        let _ = writeln!(self.out, "{:1$}{text}", "", self.depth * 2);
    }

    fn inside(&mut self, f: impl FnOnce(&mut Self)) {
        self.depth += 1;
        f(self);
        self.depth -= 1;
    }

    fn local(&self, id: LocalId) -> String {
        let local = self.locals.and_then(|l| l.get(id));
        local.map_or("?".into(), |l| format!("{}: {}", l.name, self.show.ty(&l.ty)))
    }

    fn nested(&mut self, word: &str, b: &Block) {
        self.line(word);
        self.inside(|d| d.visit_block(b));
    }

    fn pattern(&self, p: &Pattern) -> String {
        match p {
            Pattern::Local(id) => self.local(*id),
            Pattern::Global(id) => {
                let global = self.show.program.globals.get(*id);
                global.map_or("?".into(), |g| format!("{}: {}", g.name, self.show.ty(&g.ty)))
            }
            Pattern::Discard => "_".into(),
            Pattern::Tuple(parts) => {
                let parts: Vec<String> = parts.iter().map(|p| self.pattern(p)).collect();
                format!("({})", parts.join(", "))
            }
        }
    }

    fn stmt(&mut self, s: &Stmt) {
        match &s.kind {
            StmtKind::Let { pattern, value, .. } => {
                self.line(&format!("let {}", self.pattern(pattern)));
                self.inside(|d| value.iter().for_each(|v| d.expr("", v)));
            }
            StmtKind::LocalArray { local, extents, init } => {
                self.line(&format!("array {}", self.local(*local)));
                self.inside(|d| {
                    d.exprs("extents", extents);
                    match init {
                        ArrayInit::None => {}
                        ArrayInit::Fill(e) => d.expr("fill", e),
                        ArrayInit::Copy(e) => d.expr("copy", e),
                        ArrayInit::Elements(es) => d.exprs("elements", es),
                    }
                });
            }
            StmtKind::Shared { local, extents } => {
                self.line(&format!("shared {}", self.local(*local)));
                self.inside(|d| d.exprs("extents", extents));
            }
            StmtKind::Assign { place, op, value } => {
                self.line(&format!("assign {}=", op.map_or("", |o| o.symbol())));
                self.inside(|d| {
                    d.expr("place", place);
                    d.expr("value", value);
                });
            }
            StmtKind::Expr { expr, quiet } => self.expr(if *quiet { "quiet" } else { "do" }, expr),
            StmtKind::For { var, iter, body, .. } => {
                self.line(&format!("for {}", self.local(*var)));
                self.inside(|d| {
                    d.expr("in", iter);
                    d.nested("body", body);
                });
            }
            StmtKind::While { cond, body, .. } => {
                self.line("while");
                self.inside(|d| {
                    d.expr("cond", cond);
                    d.nested("body", body);
                });
            }
            StmtKind::Loop { body } => self.nested("loop", body),
            StmtKind::Break => self.line("break"),
            StmtKind::Continue => self.line("continue"),
            StmtKind::Return(value) => {
                self.line("return");
                self.inside(|d| value.iter().for_each(|v| d.expr("", v)));
            }
            StmtKind::On { device, body } => {
                let word = match device {
                    OnDevice::Sim(_) => "on sim",
                    OnDevice::Gpu(_) => "on gpu",
                };
                self.nested(word, body);
            }
            StmtKind::Batch { body } => self.nested("batch", body),
        }
    }

    fn exprs(&mut self, label: &str, es: &[Expr]) {
        for e in es {
            self.expr(label, e);
        }
    }

    fn expr(&mut self, label: &str, e: &Expr) {
        let head = self.head(&e.kind);
        let colon = if label.is_empty() { "" } else { ": " };
        let ty = self.show.ty(&e.ty);
        self.line(&format!("{label}{colon}{head} -> {ty}"));
        self.inside(|d| d.operands(e));
    }

    fn fn_ref(&self, f: &FnRef) -> String {
        match f {
            FnRef::Fn { id, generics } => {
                let name = self.show.program.fns.get(*id).map_or("?".to_string(), |f| f.name.to_string());
                if generics.is_empty() { name } else { format!("{name}<{}>", self.generics(generics)) }
            }
            FnRef::Param(i) => {
                self.show.sig.and_then(|s| s.generics.get(*i as usize)).map_or("?".into(), |g| g.name.to_string())
            }
            FnRef::Builtin(b) => b.name().to_string(),
        }
    }

    fn generics(&self, generics: &[GenericArg]) -> String {
        let texts = generics.iter().map(|g| match g {
            GenericArg::Type(ty) => self.show.ty(ty),
            GenericArg::Const(e) => self.head(&e.kind),
            GenericArg::Fn(f) => self.fn_ref(f),
            GenericArg::Error => "error".into(),
            GenericArg::Infer => "_".into(),
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    fn head(&self, kind: &ExprKind) -> String {
        match kind {
            ExprKind::Int(v) => v.to_string(),
            ExprKind::Float(v) => format!("{:?}", v.as_f64()),
            ExprKind::Bool(b) => b.to_string(),
            ExprKind::Str(_) => "text".into(),
            ExprKind::Local(id) => self.locals.and_then(|l| l.get(*id)).map_or("?".into(), |l| l.name.to_string()),
            ExprKind::Global(id) => self.show.program.globals.get(*id).map_or("?".into(), |g| g.name.to_string()),
            ExprKind::Const(id) => {
                self.show.program.consts.get(*id).map_or("?".into(), |c| format!("const {}", c.name))
            }
            ExprKind::ConstParam(i) => {
                self.show.sig.and_then(|s| s.generics.get(*i as usize)).map_or("?".into(), |g| g.name.to_string())
            }
            ExprKind::Dim(i) => self.show.dim(&Dim::Name(*i)),
            ExprKind::Variable(b) => b.name().into(),
            ExprKind::Unary { op, .. } => format!("{op:?}"),
            ExprKind::Binary { op, .. } => op.symbol().into(),
            ExprKind::Convert { to, .. } => format!("convert to {to}"),
            ExprKind::ConvertParam { .. } => "convert".into(),
            ExprKind::Bitcast { .. } => "bitcast".into(),
            ExprKind::Vector { .. } => "vector".into(),
            ExprKind::Swizzle { lanes, .. } => {
                let letters: String = lanes.iter().filter_map(|l| "xyzw".chars().nth(*l as usize)).collect();
                format!(".{letters}")
            }
            ExprKind::Field { field, .. } | ExprKind::TupleField { field, .. } => format!(".{field}"),
            ExprKind::DynField { name, .. } => format!(".{name} when run"),
            ExprKind::Index { .. } => "index".into(),
            ExprKind::Slice { .. } => "slice".into(),
            ExprKind::Call { callee, .. } => format!("call {}", self.fn_ref(callee)),
            ExprKind::Derive(derive) => format!("{:?} by {:?}", derive.kind, derive.wrt),
            ExprKind::CustomVjp(_) => "with a custom derivative".into(),
            ExprKind::Lift { callee, .. } => format!("lift {}", self.fn_ref(callee)),
            ExprKind::Builtin { builtin, .. } => builtin.name().into(),
            ExprKind::Launch(l) => {
                let name = self.show.program.kernels.get(l.kernel).map_or("?".to_string(), |k| k.name.to_string());
                if l.generics.is_empty() {
                    format!("launch {name}")
                } else {
                    format!("launch {name}<{}>", self.generics(&l.generics))
                }
            }
            ExprKind::Range { inclusive, .. } => if *inclusive { "range ..=" } else { "range .." }.into(),
            ExprKind::If { .. } => "if".into(),
            ExprKind::Block(_) => "block".into(),
            ExprKind::Tuple(_) => "tuple".into(),
            ExprKind::Array(_) => "array".into(),
            ExprKind::Struct { .. } => "struct".into(),
            ExprKind::Time(_) => "time".into(),
            ExprKind::Error => "error".into(),
        }
    }

    /// Prints the operands of an expression.
    fn operands(&mut self, e: &Expr) {
        match &e.kind {
            ExprKind::Derive(derive) => {
                self.expr("of", &derive.of);
                derive.seed.iter().for_each(|seed| self.expr("seed", seed));
            }
            ExprKind::Index { base, indices } => {
                self.expr("", base);
                self.exprs("at", indices);
            }
            ExprKind::Slice { base, .. } => self.expr("", base),
            ExprKind::Builtin { args, named, .. } => {
                self.exprs("", args);
                for (name, e) in named {
                    self.expr(name, e);
                }
            }
            ExprKind::Range { start, end, step, .. } => {
                [start, end].into_iter().flatten().for_each(|e| self.expr("", e));
                step.iter().for_each(|e| self.expr("step", e));
            }
            ExprKind::If { cond, then, other } => {
                self.expr("cond", cond);
                self.nested("then", then);
                if let Some(other) = other {
                    self.nested("else", other);
                }
            }
            _ => visit::walk_expr(self, e),
        }
    }
}

impl Visit<'_> for Dumper<'_> {
    fn visit_stmt(&mut self, s: &Stmt) {
        self.stmt(s);
    }

    fn visit_block(&mut self, b: &Block) {
        b.stmts.iter().for_each(|s| self.stmt(s));
        b.tail.iter().for_each(|tail| self.expr("value", tail));
    }

    fn visit_expr(&mut self, e: &Expr) {
        self.expr("", e);
    }

    fn visit_str_part(&mut self, part: &StrPart) {
        match part {
            StrPart::Text(text) => self.line(&format!("{text:?}")),
            StrPart::Value { expr, .. } => self.expr("", expr),
        }
    }

    fn visit_rule(&mut self, rule: &Rule) {
        self.expr("of", &rule.of);
        self.expr("rule", &rule.back);
    }

    fn visit_launch(&mut self, launch: &LaunchExpr) {
        for arg in &launch.args {
            match arg {
                Some(e) => self.expr("", e),
                None => self.line("out"),
            }
        }
        for (i, e) in &launch.dims {
            self.expr(&format!("dim {i}"), e);
        }
        launch.grid.iter().for_each(|e| self.expr("grid", e));
        launch.block.iter().for_each(|e| self.expr("block", e));
    }

    /// The line of the call contains its compile-time arguments.
    fn visit_fn_ref(&mut self, _: &FnRef) {}
}
