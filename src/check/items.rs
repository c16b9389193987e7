//! A file as a whole: collects its names, which may be used before their definition, and runs the passes over them.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::check::alias::module_alias;
use crate::check::bodies::{self, Checked, Job};
use crate::check::cx::{Needs, ScriptNames};
use crate::check::dropped::Dropped;
use crate::check::report::{Imports, UNREPORTED};
use crate::check::sigs::{self, Constants, Source};
use crate::check::typed::*;
use crate::check::world::Worlds;
use crate::check::{identity, lints, parts, passed, suggest};
use crate::syntax::ast::{self, ItemKind};

/// A file being checked.
struct Pass<'f> {
    module: ModuleId,
    file: &'f ast::File,
    found: Vec<Diagnostic>,
    /// The names that this file defines, with their spans.
    defined: FxHashMap<SmolStr, Span>,
    structs: Vec<(StructId, &'f ast::Struct)>,
    consts: FxHashMap<ConstId, sigs::Def<'f>>,
    /// What the constants call.
    const_needs: Vec<Needs>,
    jobs: Vec<Job<'f>>,
    used: FxHashSet<SmolStr>,
    script_names: ScriptNames,
    /// Span of the first erroneous node.
    hole: Option<Span>,
    /// The number of tests that the program had before.
    tests: usize,
}

pub(crate) fn check_file(
    program: &mut Program,
    module: ModuleId,
    file: &ast::File,
    imports: &Imports,
) -> Vec<Diagnostic> {
    let mut pass = Pass {
        module,
        file,
        found: vec![],
        defined: FxHashMap::default(),
        structs: vec![],
        consts: FxHashMap::default(),
        const_needs: vec![],
        jobs: vec![],
        used: FxHashSet::default(),
        script_names: script_names(file),
        hole: None,
        tests: program.tests.len(),
    };
    if program.modules[module].doc.is_none() {
        program.modules[module].doc = file.doc.clone();
    }
    pass.imports(program, imports);
    pass.names(program);
    pass.signatures(program);
    let checked = bodies::check_all(program, module, &pass.script_names, &pass.jobs);
    pass.finish(program, checked);
    pass.lints(program);
    if let Some(hole) = pass.hole.filter(|_| !pass.found.iter().any(Diagnostic::is_error)) {
        let excused = program.modules[module].names.values().any(|binding| *binding == Binding::Error);
        pass.found.extend((!excused).then(|| unreported(hole)));
    }
    pass.found
}

/// Reports an erroneous node that no diagnostic explains: no program may run with one, even if that is a bug of the checker.
fn unreported(hole: Span) -> Diagnostic {
    Diagnostic::error(UNREPORTED, "internal error: something is wrong here, and Clk cannot say what")
        .at(hole, "this was not understood")
        .note("this is a mistake in Clk; a report with this source helps to mend it")
}

/// Collects the variables that the statements of a file declare.
fn script_names(file: &ast::File) -> ScriptNames {
    fn add(pattern: &ast::Pattern, names: &mut ScriptNames) {
        match pattern {
            ast::Pattern::Name(n) => drop(names.entry(n.text.clone()).or_insert(n.span)),
            ast::Pattern::Tuple(parts, _) => parts.iter().for_each(|p| add(p, names)),
        }
    }
    let mut names = ScriptNames::default();
    for item in &file.items {
        if let ItemKind::Stmt(ast::Stmt { kind: ast::StmtKind::Let { pattern, .. }, .. }) = &item.kind {
            add(pattern, &mut names);
        }
    }
    names
}

impl<'f> Pass<'f> {
    fn define(&mut self, program: &mut Program, name: &SmolStr, span: Span, binding: Binding) {
        if let Some(before) = self.defined.insert(name.clone(), span) {
            let d = Diagnostic::error("E0202", format!("`{name}` is defined twice"))
                .at(span, "again here")
                .because(before, "first here")
                .help("give one of them another name");
            self.found.push(d);
        }
        program.modules[self.module].names.insert(name.clone(), binding);
    }

    fn imports(&mut self, program: &mut Program, imports: &Imports) {
        let file = self.file;
        for item in &file.items {
            let ItemKind::Import(import) = &item.kind else { continue };
            let target = imports.get(&import.span).copied().filter(|m| program.modules.get(*m).is_some());
            match &import.what {
                ast::ImportWhat::Module { .. } => {
                    if let Some(name) = module_alias(import) {
                        let binding = target.map_or(Binding::Error, Binding::Module);
                        self.define(program, &name, import.span, binding);
                    }
                }
                ast::ImportWhat::Names(names) => {
                    for (name, alias) in names {
                        let binding = target.map_or(Binding::Error, |m| self.imported(program, m, name));
                        let local = alias.as_ref().unwrap_or(name);
                        self.define(program, &local.text, local.span, binding);
                    }
                }
            }
        }
    }

    fn imported(&mut self, program: &Program, module: ModuleId, name: &ast::Name) -> Binding {
        let from = &program.modules[module];
        match from.names.get(&name.text) {
            Some(Binding::Global(_)) => {
                let d = Diagnostic::error(
                    "E0203",
                    format!("`{}` is a variable of a script and can't be imported", name.text),
                )
                .at(name.span, "functions, kernels, structs and constants can be imported");
                self.found.push(d);
                Binding::Error
            }
            Some(binding) => *binding,
            None => {
                let mut d = Diagnostic::error("E0203", format!("there is no `{}` in `{}`", name.text, from.name))
                    .at(name.span, "the module has no such name");
                if let Some(near) = suggest::nearest(&name.text, from.names.keys().map(|k| k.as_str())) {
                    d = d.help(format!("did you mean `{near}`?"));
                    d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
                }
                self.found.push(d);
                Binding::Error
            }
        }
    }

    /// Assigns an id to every item, so that bodies may refer to items defined later.
    fn names(&mut self, program: &mut Program) {
        let (file, module) = (self.file, self.module);
        for item in &file.items {
            match &item.kind {
                ItemKind::Struct(def) => {
                    let id = program.structs.push(Struct {
                        name: def.name.text.clone(),
                        module,
                        fields: vec![],
                        span: def.name.span,
                        doc: item.doc.clone(),
                    });
                    self.structs.push((id, def));
                    self.define(program, &def.name.text, def.name.span, Binding::Struct(id));
                }
                ItemKind::Const(def) => {
                    let value = Expr { kind: ExprKind::Error, ty: Type::Error, span: def.value.span };
                    let id = program.consts.push(Const {
                        name: def.name.text.clone(),
                        module,
                        ty: Type::Error,
                        value: Arc::new(value),
                        known: None,
                        span: def.name.span,
                        doc: item.doc.clone(),
                    });
                    self.consts.insert(id, sigs::Def::of(def));
                    self.define(program, &def.name.text, def.name.span, Binding::Const(id));
                }
                ItemKind::Fn(def) => {
                    let id = program.fns.push(Fn {
                        name: def.name.text.clone(),
                        module,
                        sig: Signature::default(),
                        result: Type::Error,
                        result_span: def.result.as_ref().map_or(def.name.span, |ty| ty.span),
                        body: None,
                        world: World::Both,
                        span: item.span,
                        name_span: def.name.span,
                        doc: item.doc.clone(),
                    });
                    self.jobs.push(Job::Fn(id, def));
                    self.define(program, &def.name.text, def.name.span, Binding::Fn(id));
                }
                ItemKind::Kernel(def) => {
                    let id = program.kernels.push(Kernel {
                        name: def.name.text.clone(),
                        module,
                        sig: Signature::default(),
                        geometry: Geometry::Grid { grid: vec![], block: vec![], span: def.name.span },
                        assumes: vec![],
                        expects: vec![],
                        tunes: vec![],
                        body: None,
                        span: item.span,
                        name_span: def.name.span,
                        doc: item.doc.clone(),
                        cooperative: false,
                    });
                    self.jobs.push(Job::Kernel(id, def));
                    self.define(program, &def.name.text, def.name.span, Binding::Kernel(id));
                }
                ItemKind::Error(Some(name)) => {
                    let names = &mut program.modules[module].names;
                    // A definition of the same name that was parsed without errors takes precedence.
                    if !self.defined.contains_key(&name.text) {
                        names.insert(name.text.clone(), Binding::Error);
                    }
                }
                ItemKind::Import(_)
                | ItemKind::Test(_)
                | ItemKind::Bench(_)
                | ItemKind::Stmt(_)
                | ItemKind::Error(None) => {}
            }
        }
    }

    fn signatures(&mut self, program: &mut Program) {
        let module = self.module;
        let mut consts = Constants::new(std::mem::take(&mut self.consts), &self.script_names);
        for (id, def) in &self.structs {
            consts.check_extents(program, module, def, &mut self.found);
            let fields = sigs::fields(program, module, def, &self.script_names, &mut self.found);
            program.structs[*id].fields = fields;
        }
        let ids: Vec<StructId> = self.structs.iter().map(|s| s.0).collect();
        sigs::endless_structs(program, &ids, &mut self.found);
        parts::large_structs(program, &ids, &mut self.found);
        if !self.found.iter().any(Diagnostic::is_error) {
            identity::keep_identities(program, module, &ids);
        }
        consts.check(program, module, false, &mut self.found);
        for job in &self.jobs {
            match job {
                Job::Fn(id, def) => {
                    let src = Source {
                        generics: &def.generics,
                        params: &def.params,
                        result: def.result.as_ref(),
                        kernel: false,
                    };
                    let (mut sig, result) = sigs::signature(program, module, &src, &mut consts, &mut self.found);
                    sigs::defaults(program, module, &def.params, &mut sig, &mut consts, &mut self.found);
                    program.fns[*id].sig = sig;
                    program.fns[*id].result = result;
                }
                Job::Kernel(id, def) => {
                    let src = Source { generics: &def.generics, params: &def.params, result: None, kernel: true };
                    let (mut sig, _) = sigs::signature(program, module, &src, &mut consts, &mut self.found);
                    sigs::defaults(program, module, &def.params, &mut sig, &mut consts, &mut self.found);
                    program.kernels[*id].sig = sig;
                    self.found.extend(passed::too_much(program, &program.kernels[*id], &|_| None));
                }
            }
        }
        consts.check(program, module, true, &mut self.found);
        (self.consts, self.const_needs) = (consts.defs, consts.needs);
    }

    /// Stores the checked bodies, determines their worlds, and checks the script and its tests.
    fn finish(&mut self, program: &mut Program, mut checked: Vec<Checked>) {
        let file = self.file;
        let stmts: Vec<&ast::Stmt> =
            file.items.iter().filter_map(|i| if let ItemKind::Stmt(s) = &i.kind { Some(s) } else { None }).collect();
        let mut script = (!stmts.is_empty()).then(|| bodies::script(program, self.module, &self.script_names, &stmts));
        if let Some(script) = &mut script {
            self.keep_globals(program, script);
        }
        let mut sections: Vec<(&ast::Item, &ast::Section, Checked)> = Vec::new();
        for item in &file.items {
            if let ItemKind::Test(s) | ItemKind::Bench(s) = &item.kind {
                sections.push((
                    item,
                    s,
                    bodies::section(program, self.module, s, matches!(item.kind, ItemKind::Bench(_))),
                ));
            }
        }
        let host: Vec<&Needs> = script.iter().map(|s| &s.needs).chain(sections.iter().map(|s| &s.2.needs)).collect();
        self.worlds(program, &checked, &host);
        for (job, checked) in self.jobs.iter().zip(&mut checked) {
            let body = Some(Arc::new(std::mem::take(&mut checked.body)));
            match job {
                Job::Fn(id, _) => program.fns[*id].body = body,
                Job::Kernel(id, _) => {
                    program.kernels[*id].body = body;
                    if let Some(geometry) = checked.geometry.take() {
                        program.kernels[*id].geometry = geometry;
                        program.kernels[*id].assumes = std::mem::take(&mut checked.assumes);
                        program.kernels[*id].expects = std::mem::take(&mut checked.expects);
                        program.kernels[*id].tunes = std::mem::take(&mut checked.tunes);
                    }
                }
            }
        }
        for mut c in checked {
            self.take(&mut c);
        }
        if let Some(mut script) = script {
            self.take(&mut script);
            program.chunks.push(Arc::new(Chunk { module: self.module, body: script.body }));
        }
        for (item, def, mut c) in sections {
            self.take(&mut c);
            let section = bodies::as_section(self.module, def, item.span, &mut c);
            match item.kind {
                ItemKind::Bench(_) => program.benches.push(section),
                _ => program.tests.push(section),
            };
        }
    }

    fn take(&mut self, checked: &mut Checked) {
        self.found.append(&mut checked.diagnostics);
        self.hole = self.hole.or(checked.hole);
        self.used.extend(checked.used_items.drain());
    }

    fn keep_globals(&mut self, program: &mut Program, script: &mut Checked) {
        for global in std::mem::take(&mut script.globals) {
            if let Some(before) = self.defined.get(&global.name) {
                let d = Diagnostic::error("E0202", format!("`{}` is defined twice", global.name))
                    .at(global.span, "a variable here")
                    .because(*before, "first here")
                    .help("give one of them another name");
                self.found.push(d);
            }
            let name = global.name.clone();
            let id = program.globals.push(global);
            program.modules[self.module].names.insert(name, Binding::Global(id));
        }
    }

    fn worlds(&mut self, program: &mut Program, checked: &[Checked], host: &[&Needs]) {
        let fns = self.jobs.iter().zip(checked).filter_map(|(job, c)| match job {
            Job::Fn(id, _) => Some((*id, &c.needs)),
            Job::Kernel(..) => None,
        });
        let fns: Vec<(FnId, &Needs)> = fns.collect();
        let kernels = self.jobs.iter().zip(checked).filter_map(|(job, c)| match job {
            Job::Kernel(id, def) => Some((*id, *def, &c.needs)),
            Job::Fn(..) => None,
        });
        let kernels: Vec<_> = kernels.collect();
        let others: Vec<&Needs> =
            kernels.iter().map(|k| k.2).chain(host.iter().copied()).chain(&self.const_needs).collect();
        let worlds = Worlds::new(program, &fns, &others);
        let decided: Vec<(FnId, World)> = fns.iter().map(|(id, _)| (*id, worlds.of(*id, &mut self.found))).collect();
        let mut cooperative = Vec::new();
        for (id, def, needs) in &kernels {
            let threads = matches!(def.geometry, ast::Geometry::Threads { .. });
            if worlds.kernel(&program.kernels[*id], threads, needs, &mut self.found) {
                cooperative.push(*id);
            }
        }
        for needs in fns.iter().map(|f| f.1).chain(host.iter().copied()) {
            worlds.lifts(needs, &mut self.found);
        }
        for needs in host {
            worlds.host(needs, &mut self.found);
        }
        for needs in &self.const_needs {
            worlds.constant(needs, &mut self.found);
        }
        for (id, world) in decided {
            program.fns[id].world = world;
        }
        for id in cooperative {
            program.kernels[id].cooperative = true;
        }
    }

    fn lints(&mut self, program: &Program) {
        if self.found.iter().any(Diagnostic::is_error) {
            return;
        }
        // Signatures and constants use names as well.
        for job in &self.jobs {
            let (params, generics, result) = match job {
                Job::Fn(_, def) => (&def.params, &def.generics, def.result.as_ref()),
                Job::Kernel(_, def) => (&def.params, &def.generics, None),
            };
            for ty in params.iter().map(|p| &p.ty).chain(result) {
                type_names(ty, &mut self.used);
            }
            for g in generics {
                if let ast::GenericKind::Const { default: Some(e), .. }
                | ast::GenericKind::Fn { default: Some(e), .. } = &g.kind
                {
                    expr_names(e, &mut self.used);
                }
            }
        }
        for (_, def) in &self.structs {
            for f in &def.fields {
                type_names(&f.ty, &mut self.used);
            }
        }
        for def in self.consts.values() {
            expr_names(def.value, &mut self.used);
        }
        let mut dropped = Dropped::new(program);
        let bodies = self.jobs.iter().filter_map(|job| match job {
            Job::Fn(id, _) => program.fns[*id].body.as_deref(),
            Job::Kernel(id, _) => program.kernels[*id].body.as_deref(),
        });
        let has_script = self.file.items.iter().any(|item| matches!(item.kind, ItemKind::Stmt(_)));
        let script = program.chunks.last().filter(|_| has_script).map(|chunk| &chunk.body);
        let tests = program.tests.iter().skip(self.tests).map(|(_, test)| &*test.body);
        bodies.chain(script).chain(tests).for_each(|body| dropped.body(body, &mut self.found));
        lints::imports(self.file, &self.used, &mut self.found);
        if program.modules[self.module].name.is_empty() {
            lints::consts(self.file, &self.used, &mut self.found);
        }
    }
}

/// Collects the names that a type mentions.
fn type_names(ty: &ast::Type, used: &mut FxHashSet<SmolStr>) {
    match &ty.kind {
        ast::TypeKind::Name(path) => used.extend(path.first().map(|n| n.text.clone())),
        ast::TypeKind::Array { element, dims } => {
            type_names(element, used);
            dims.iter().for_each(|d| expr_names(d, used));
        }
        ast::TypeKind::Tuple(parts) => parts.iter().for_each(|p| type_names(p, used)),
        ast::TypeKind::Fn { params, result } => {
            params.iter().for_each(|p| type_names(p, used));
            result.iter().for_each(|r| type_names(r, used));
        }
        ast::TypeKind::Placed { ty, .. } => type_names(ty, used),
    }
}

fn expr_names(e: &ast::Expr, used: &mut FxHashSet<SmolStr>) {
    crate::check::walk::names(e, &mut |n, _| used.extend([n.text.clone()]));
}
