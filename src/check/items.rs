//! Checks a whole file: collects the names of its items, which may be used before their definitions, and runs the other
//! passes.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::bodies::{self, BodyJob, CheckedBody};
use crate::context::{ScriptNames, SpaceRequirements};
use crate::execution_space::SpaceAnalysis;
use crate::import_alias::module_alias;
use crate::names::NameRecords;
use crate::report::{Imports, UNREPORTED};
use crate::signatures::{self, ConstChecker, SignatureSyntax};
use crate::typed::*;
use crate::unused_results::UnusedResults;
use crate::{lints, parameter_limit, scalar_count, struct_identity, suggestions};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_syntax::ast::{self, ItemKind};

/// A file being checked.
struct ItemChecker<'f> {
    module: ModuleId,
    file: &'f ast::SourceFile,
    diagnostics: Vec<Diagnostic>,
    /// The names that this file defines, with their spans.
    defined: FxHashMap<SmolStr, Span>,
    structs: Vec<(StructId, &'f ast::Struct)>,
    consts: FxHashMap<ConstId, signatures::ConstDef<'f>>,
    /// The requirements of the constants, including their calls.
    const_needs: Vec<SpaceRequirements>,
    jobs: Vec<BodyJob<'f>>,
    used: FxHashSet<SmolStr>,
    script_names: ScriptNames,
    /// Span of the first erroneous node, if there is one.
    hole: Option<Span>,
    /// The names that the checks of the parts of the file recorded.
    names_found: Vec<NameRecords>,
    /// The number of tests in the program before this file.
    tests: usize,
}

pub(crate) fn check_file(
    program: &mut Program,
    module: ModuleId,
    file: &ast::SourceFile,
    imports: &Imports,
) -> Vec<Diagnostic> {
    let mut pass = ItemChecker {
        module,
        file,
        diagnostics: vec![],
        defined: FxHashMap::default(),
        structs: vec![],
        consts: FxHashMap::default(),
        const_needs: vec![],
        jobs: vec![],
        used: FxHashSet::default(),
        script_names: script_names(file),
        hole: None,
        names_found: vec![],
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
    if let Some(table) = &mut program.names {
        pass.names_found.drain(..).for_each(|records| table.add(records));
    }
    pass.lints(program);
    if let Some(hole) = pass.hole.filter(|_| !pass.diagnostics.iter().any(Diagnostic::is_error)) {
        let excused = program.modules[module].names.values().any(|binding| *binding == NameBinding::Error);
        pass.diagnostics.extend((!excused).then(|| unreported(hole)));
    }
    pass.diagnostics
}

/// Builds the internal error for an erroneous node that no diagnostic explains. This is a bug of the checker, but the
/// program must not run.
fn unreported(hole: Span) -> Diagnostic {
    Diagnostic::error(UNREPORTED, "internal error: there is an error here that Clk did not report")
        .at(hole, "this was not understood")
        .note("this is a bug in Clk; please report it with this source")
}

/// Collects the variables that the statements of a file declare.
fn script_names(file: &ast::SourceFile) -> ScriptNames {
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

impl<'f> ItemChecker<'f> {
    /// Binds a name in the module. An error is reported at `span`.
    fn define(
        &mut self,
        program: &mut Program,
        name: &ast::Name,
        span: Span,
        kind: DefinitionKind,
        binding: NameBinding,
    ) {
        if let Some(table) = &mut program.names {
            let target = match binding {
                NameBinding::Error => NameTarget::Local(name.span),
                binding => NameTarget::Item(binding),
            };
            table.define_item(name, kind, target);
        }
        let name = &name.text;
        if let Some(before) = self.defined.insert(name.clone(), span) {
            let d = Diagnostic::error("E0202", format!("`{name}` is defined twice"))
                .at(span, "again here")
                .because(before, "first here")
                .help("give one of them another name");
            self.diagnostics.push(d);
        }
        program.modules[self.module].names.insert(name.clone(), binding);
    }

    fn imports(&mut self, program: &mut Program, imports: &Imports) {
        let file = self.file;
        for item in &file.items {
            let ItemKind::Import(import) = &item.kind else { continue };
            let target = imports.get(&import.span).copied().filter(|m| program.modules.get(*m).is_some());
            match &import.items {
                ast::ImportItems::Module { .. } => {
                    if let Some(name) = module_alias(import) {
                        let binding = target.map_or(NameBinding::Error, NameBinding::Module);
                        self.define(program, &name, import.span, DefinitionKind::Import, binding);
                    }
                }
                ast::ImportItems::Names(names) => {
                    if let (Some(target), Some(table), ast::ImportSource::Path(path)) =
                        (target, &mut program.names, &import.source)
                        && let Some(module) = path.last()
                    {
                        table.add_use(module.span, NameTarget::Item(NameBinding::Module(target)));
                    }
                    for (name, alias) in names {
                        let binding = target.map_or(NameBinding::Error, |m| self.resolve_import(program, m, name));
                        let local = alias.as_ref().unwrap_or(name);
                        if let (Some(table), true) = (&mut program.names, binding != NameBinding::Error) {
                            table.add_use(name.span, NameTarget::Item(binding));
                        }
                        self.define(program, local, local.span, DefinitionKind::Import, binding);
                    }
                }
            }
        }
    }

    fn resolve_import(&mut self, program: &Program, module: ModuleId, name: &ast::Name) -> NameBinding {
        let from = &program.modules[module];
        match from.names.get(&name.text) {
            Some(NameBinding::Global(_)) => {
                let d = Diagnostic::error(
                    "E0203",
                    format!("`{}` is a variable of a script and can't be imported", name.text),
                )
                .at(name.span, "functions, kernels, structs and constants can be imported");
                self.diagnostics.push(d);
                NameBinding::Error
            }
            Some(binding) => *binding,
            None => {
                let mut d = Diagnostic::error("E0203", format!("there is no `{}` in `{}`", name.text, from.name))
                    .at(name.span, "the module has no such name");
                if let Some(near) = suggestions::nearest(&name.text, from.names.keys().map(|k| k.as_str())) {
                    d = d.help(format!("did you mean `{near}`?"));
                    d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
                }
                self.diagnostics.push(d);
                NameBinding::Error
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
                    self.define(program, &def.name, def.name.span, DefinitionKind::Struct, NameBinding::Struct(id));
                }
                ItemKind::Const(def) => {
                    let value = Expr { kind: ExprKind::Error, ty: Type::Error, span: def.value.span };
                    let id = program.consts.push(Const {
                        name: def.name.text.clone(),
                        module,
                        ty: Type::Error,
                        value: Arc::new(value),
                        const_value: None,
                        span: def.name.span,
                        doc: item.doc.clone(),
                    });
                    self.consts.insert(id, signatures::ConstDef::of(def));
                    self.define(program, &def.name, def.name.span, DefinitionKind::Const, NameBinding::Const(id));
                }
                ItemKind::Fn(def) => {
                    let id = program.fns.push(Fn {
                        name: def.name.text.clone(),
                        module,
                        sig: Signature::default(),
                        result: Type::Error,
                        result_span: def.result.as_ref().map_or(def.name.span, |ty| ty.span),
                        body: None,
                        space: ExecutionSpace::Both,
                        span: item.span,
                        name_span: def.name.span,
                        doc: item.doc.clone(),
                    });
                    self.jobs.push(BodyJob::Fn(id, def));
                    self.define(program, &def.name, def.name.span, DefinitionKind::Fn, NameBinding::Fn(id));
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
                    self.jobs.push(BodyJob::Kernel(id, def));
                    self.define(program, &def.name, def.name.span, DefinitionKind::Kernel, NameBinding::Kernel(id));
                }
                ItemKind::Error(Some(name)) => {
                    let names = &mut program.modules[module].names;
                    // If the file also contains a definition of the same name without syntax errors, the name refers to
                    // that definition.
                    if !self.defined.contains_key(&name.text) {
                        names.insert(name.text.clone(), NameBinding::Error);
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
        let mut consts = ConstChecker::new(std::mem::take(&mut self.consts), &self.script_names);
        for (id, def) in &self.structs {
            consts.check_extents(program, module, def, &mut self.diagnostics);
            let fields = signatures::fields(program, module, def, &mut consts, &mut self.diagnostics);
            program.structs[*id].fields = fields;
            if let Some(table) = &mut program.names {
                for (i, field) in def.fields.iter().enumerate() {
                    table.define_item(&field.name, DefinitionKind::Field, NameTarget::Field(*id, i as u32));
                }
            }
        }
        let ids: Vec<StructId> = self.structs.iter().map(|s| s.0).collect();
        signatures::endless_structs(program, &ids, &mut self.diagnostics);
        scalar_count::large_structs(program, &ids, &mut self.diagnostics);
        if !self.diagnostics.iter().any(Diagnostic::is_error) {
            struct_identity::keep_struct_identities(program, module, &ids);
        }
        consts.check(program, module, false, &mut self.diagnostics);
        for job in &self.jobs {
            match job {
                BodyJob::Fn(id, def) => {
                    let src = SignatureSyntax {
                        generics: &def.generics,
                        params: &def.params,
                        result: def.result.as_ref(),
                        kernel: false,
                    };
                    let (mut sig, result) =
                        signatures::signature(program, module, &src, &mut consts, &mut self.diagnostics);
                    signatures::defaults(program, module, &def.params, &mut sig, &mut consts, &mut self.diagnostics);
                    if let Some(table) = &mut program.names {
                        table.define_signature(program.fns[*id].span, &sig, def.body.span.start);
                    }
                    program.fns[*id].sig = sig;
                    program.fns[*id].result = result;
                }
                BodyJob::Kernel(id, def) => {
                    let src =
                        SignatureSyntax { generics: &def.generics, params: &def.params, result: None, kernel: true };
                    let (mut sig, _) = signatures::signature(program, module, &src, &mut consts, &mut self.diagnostics);
                    signatures::defaults(program, module, &def.params, &mut sig, &mut consts, &mut self.diagnostics);
                    if let Some(table) = &mut program.names {
                        let params_from = def.params.last().map_or(def.name.span.end, |param| param.span.end);
                        table.define_signature(program.kernels[*id].span, &sig, params_from);
                        if let ast::Geometry::Threads { indices, .. } = &def.geometry {
                            let scope = (def.body.span.start, program.kernels[*id].span.end);
                            indices.iter().for_each(|(name, _)| table.define_thread_index(name, scope));
                        }
                    }
                    program.kernels[*id].sig = sig;
                    self.diagnostics.extend(parameter_limit::check_parameter_limit(
                        program,
                        &program.kernels[*id],
                        &|_| None,
                    ));
                }
            }
        }
        consts.check(program, module, true, &mut self.diagnostics);
        (self.consts, self.const_needs) = (consts.defs, consts.needs);
        self.names_found = consts.names_found;
    }

    /// Stores the checked bodies, determines their execution spaces, and checks the script and its tests.
    fn finish(&mut self, program: &mut Program, mut checked: Vec<CheckedBody>) {
        let file = self.file;
        let stmts: Vec<&ast::Stmt> =
            file.items.iter().filter_map(|i| if let ItemKind::Stmt(s) = &i.kind { Some(s) } else { None }).collect();
        let mut script = (!stmts.is_empty()).then(|| bodies::script(program, self.module, &self.script_names, &stmts));
        if let Some(script) = &mut script {
            self.keep_globals(program, script);
        }
        let mut sections: Vec<(&ast::Item, &ast::SectionItem, CheckedBody)> = Vec::new();
        for item in &file.items {
            if let ItemKind::Test(s) | ItemKind::Bench(s) = &item.kind {
                sections.push((
                    item,
                    s,
                    bodies::section(program, self.module, s, matches!(item.kind, ItemKind::Bench(_))),
                ));
            }
        }
        let host: Vec<&SpaceRequirements> =
            script.iter().map(|s| &s.needs).chain(sections.iter().map(|s| &s.2.needs)).collect();
        self.determine_spaces(program, &checked, &host);
        for (job, checked) in self.jobs.iter().zip(&mut checked) {
            let body = Some(Arc::new(std::mem::take(&mut checked.body)));
            match job {
                BodyJob::Fn(id, _) => program.fns[*id].body = body,
                BodyJob::Kernel(id, _) => {
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
            self.collect_results(&mut c);
        }
        if let Some(mut script) = script {
            self.collect_results(&mut script);
            program.chunks.push(Arc::new(ScriptChunk { module: self.module, body: script.body }));
        }
        for (item, def, mut c) in sections {
            self.collect_results(&mut c);
            let section = bodies::as_section(self.module, def, item.span, &mut c);
            match item.kind {
                ItemKind::Bench(_) => program.benches.push(section),
                _ => program.tests.push(section),
            };
        }
    }

    fn collect_results(&mut self, checked: &mut CheckedBody) {
        self.diagnostics.append(&mut checked.diagnostics);
        self.hole = self.hole.or(checked.hole);
        self.used.extend(checked.used_items.drain());
        self.names_found.extend(checked.names_found.take().map(|records| *records));
    }

    fn keep_globals(&mut self, program: &mut Program, script: &mut CheckedBody) {
        for global in std::mem::take(&mut script.globals) {
            if let Some(before) = self.defined.get(&global.name) {
                let d = Diagnostic::error("E0202", format!("`{}` is defined twice", global.name))
                    .at(global.span, "a variable here")
                    .because(*before, "first here")
                    .help("give one of them another name");
                self.diagnostics.push(d);
            }
            let name = global.name.clone();
            let id = program.globals.push(global);
            program.modules[self.module].names.insert(name, NameBinding::Global(id));
        }
    }

    fn determine_spaces(&mut self, program: &mut Program, checked: &[CheckedBody], host: &[&SpaceRequirements]) {
        let fns = self.jobs.iter().zip(checked).filter_map(|(job, c)| match job {
            BodyJob::Fn(id, _) => Some((*id, &c.needs)),
            BodyJob::Kernel(..) => None,
        });
        let fns: Vec<(FnId, &SpaceRequirements)> = fns.collect();
        let kernels = self.jobs.iter().zip(checked).filter_map(|(job, c)| match job {
            BodyJob::Kernel(id, def) => Some((*id, *def, &c.needs)),
            BodyJob::Fn(..) => None,
        });
        let kernels: Vec<_> = kernels.collect();
        let others: Vec<&SpaceRequirements> =
            kernels.iter().map(|k| k.2).chain(host.iter().copied()).chain(&self.const_needs).collect();
        let spaces = SpaceAnalysis::new(program, &fns, &others);
        let decided: Vec<(FnId, ExecutionSpace)> =
            fns.iter().map(|(id, _)| (*id, spaces.space_of(*id, &mut self.diagnostics))).collect();
        let mut cooperative = Vec::new();
        for (id, def, needs) in &kernels {
            let threads = matches!(def.geometry, ast::Geometry::Threads { .. });
            if spaces.kernel(&program.kernels[*id], threads, needs, &mut self.diagnostics) {
                cooperative.push(*id);
            }
        }
        for needs in fns.iter().map(|f| f.1).chain(host.iter().copied()) {
            spaces.lifts(needs, &mut self.diagnostics);
        }
        for needs in host {
            spaces.host(needs, &mut self.diagnostics);
        }
        for needs in &self.const_needs {
            spaces.constant(needs, &mut self.diagnostics);
        }
        for (id, space) in decided {
            program.fns[id].space = space;
        }
        for id in cooperative {
            program.kernels[id].cooperative = true;
        }
    }

    fn lints(&mut self, program: &Program) {
        if self.diagnostics.iter().any(Diagnostic::is_error) {
            return;
        }
        // Names in signatures and constants are used names too.
        for job in &self.jobs {
            let (params, generics, result) = match job {
                BodyJob::Fn(_, def) => (&def.params, &def.generics, def.result.as_ref()),
                BodyJob::Kernel(_, def) => (&def.params, &def.generics, None),
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
        let mut dropped = UnusedResults::new(program);
        let bodies = self.jobs.iter().filter_map(|job| match job {
            BodyJob::Fn(id, _) => program.fns[*id].body.as_deref(),
            BodyJob::Kernel(id, _) => program.kernels[*id].body.as_deref(),
        });
        let has_script = self.file.items.iter().any(|item| matches!(item.kind, ItemKind::Stmt(_)));
        let script = program.chunks.last().filter(|_| has_script).map(|chunk| &chunk.body);
        let tests = program.tests.iter().skip(self.tests).map(|(_, test)| &*test.body);
        bodies.chain(script).chain(tests).for_each(|body| dropped.body(body, &mut self.diagnostics));
        lints::imports(self.file, &self.used, &mut self.diagnostics);
        if program.modules[self.module].name.is_empty() {
            lints::consts(self.file, &self.used, &mut self.diagnostics);
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
    crate::ast_names::names(e, &mut |n, _| used.extend([n.text.clone()]));
}
