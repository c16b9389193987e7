//! Checks bodies: each function and kernel independently, the statements of the script, tests and benches.

use std::sync::Arc;

use rustc_hash::FxHashSet;

use crate::arguments::{Accepted, by_name};
use crate::context::{BodyKind, Cx, ScriptNames, SpaceRequirements};
use crate::infer::array;
use crate::names::NameRecords;
use crate::typed::*;
use crate::{contracts, finish, lints, signatures, tune_clauses};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_base::stop;
use clk_syntax::ast;

/// A function or kernel whose body is still to be checked.
#[derive(Clone, Copy)]
pub(crate) enum BodyJob<'f> {
    Fn(FnId, &'f ast::Fn),
    Kernel(KernelId, &'f ast::Kernel),
}

/// The result of checking a body.
pub(crate) struct CheckedBody {
    pub body: Body,
    pub geometry: Option<Geometry>,
    pub assumes: Vec<Assume>,
    pub expects: Vec<Expect>,
    pub tunes: Vec<Tunable>,
    pub diagnostics: Vec<Diagnostic>,
    /// Span of an erroneous node in the typed tree, if there is one.
    pub hole: Option<Span>,
    pub needs: SpaceRequirements,
    pub used_items: FxHashSet<SmolStr>,
    pub uses_globals: bool,
    pub globals: Vec<Global>,
    pub names_found: Option<Box<NameRecords>>,
    pub rates: Vec<(SmolStr, Expr)>,
}

/// Minimum number of bodies to check on several threads. For fewer bodies, one thread is faster.
const PARALLEL: usize = 256;

/// Checks all bodies, in parallel if there are many; the results are in the order of the jobs.
pub(crate) fn check_all(
    program: &Program,
    module: ModuleId,
    names: &ScriptNames,
    jobs: &[BodyJob<'_>],
) -> Vec<CheckedBody> {
    let sequential = || jobs.iter().map(|j| check_one(program, module, names, *j)).collect();
    if jobs.len() < PARALLEL {
        return sequential();
    }
    let workers = std::thread::available_parallelism().map_or(1, |n| n.get()).min(8);
    if workers < 2 {
        return sequential();
    }
    let chunk_size = jobs.len().div_ceil(workers);
    let mut out = Vec::with_capacity(jobs.len());
    std::thread::scope(|scope| {
        let mut parts = jobs.chunks(chunk_size);
        let own = parts.next().unwrap_or(&[]);
        let others: Vec<_> = parts
            .map(|part| {
                let flag = stop::flag();
                let all = move || part.iter().map(|j| check_one(program, module, names, *j)).collect::<Vec<_>>();
                let run = move || stop::with_flag(flag, all);
                (part, std::thread::Builder::new().stack_size(32 << 20).spawn_scoped(scope, run))
            })
            .collect();
        out.extend(own.iter().map(|j| check_one(program, module, names, *j)));
        for (part, handle) in others {
            match handle.ok().and_then(|h| h.join().ok()) {
                Some(checked) => out.extend(checked),
                None => out.extend(part.iter().map(|j| check_one(program, module, names, *j))),
            }
        }
    });
    out
}

fn check_one(program: &Program, module: ModuleId, names: &ScriptNames, job: BodyJob<'_>) -> CheckedBody {
    match job {
        BodyJob::Fn(id, def) => function(program, module, names, &program.fns[id], def),
        BodyJob::Kernel(id, def) => kernel(program, module, names, &program.kernels[id], def),
    }
}

fn declare_params(cx: &mut Cx<'_>, sig: &Signature, params: &[ast::Param]) {
    for (p, def) in sig.params.iter().zip(params) {
        cx.declare(&def.name, p.ty.clone(), p.access != Access::In, LocalKind::Param(p.access), None);
    }
}

fn function(program: &Program, module: ModuleId, names: &ScriptNames, f: &Fn, def: &ast::Fn) -> CheckedBody {
    let mut cx = Cx::new(program, module, Some(&f.sig), BodyKind::Fn);
    cx.script_names = Some(names);
    let result = any_extents(&f.result, &f.sig);
    cx.result = Some(result.clone());
    declare_params(&mut cx, &f.sig, &def.params);
    let span = def.result.as_ref().map_or(f.name_span, |r| r.span);
    if cx.vars.holds_array(&f.result) && !cx.is_device_array(&f.result) {
        cx.need_host(span, "an array as a result");
    }
    for p in &f.sig.params {
        if matches!(p.ty, Type::Tuple(_)) && cx.vars.holds_array(&p.ty) {
            cx.need_host(p.span, "a tuple with an array");
        }
        if holds_text(&p.ty) {
            cx.need_host(p.span, "text as a value");
        }
    }
    if def.result.is_none() {
        cx.missing_result = Some(Span { end: def.body.span.start, ..def.body.span });
    }
    let root = cx.function_body(&def.body, &result, span);
    done(cx, root, None)
}

/// Returns a result type in which each extent `_` is replaced by an unknown extent, because the body determines it.
fn any_extents(ty: &Type, sig: &Signature) -> Type {
    let is_any =
        |dim: &Dim| matches!(dim, Dim::Name(i) if sig.dims.get(*i as usize).is_some_and(|dim| dim.name == "_"));
    match ty {
        Type::Array(of) => {
            let dims = of.dims.iter().map(|dim| if is_any(dim) { Dim::Unknown } else { dim.clone() });
            array(of.element.clone(), dims.collect())
        }
        Type::Tuple(parts) => Type::Tuple(parts.iter().map(|part| any_extents(part, sig)).collect()),
        _ => ty.clone(),
    }
}

fn holds_text(ty: &Type) -> bool {
    match ty {
        Type::Str | Type::Strings => true,
        Type::Tuple(parts) => parts.iter().any(holds_text),
        _ => false,
    }
}

fn kernel(program: &Program, module: ModuleId, names: &ScriptNames, k: &Kernel, def: &ast::Kernel) -> CheckedBody {
    let threads = matches!(def.geometry, ast::Geometry::Threads { .. });
    let mut cx = Cx::new(program, module, Some(&k.sig), BodyKind::Kernel { threads });
    cx.script_names = Some(names);
    declare_params(&mut cx, &k.sig, &def.params);
    let mut geometry = signatures::geometry(&mut cx, &def.geometry);
    let geometry_consts = cx.uses.const_params.clone();
    let mut assumes = contracts::assumes(&mut cx, &def.assumes);
    let expects = contracts::expects(&mut cx, &def.expects);
    let tunes = tune_clauses::clauses(&mut cx, &def.tunes);
    // A constant that occurs only in `assume`, `expect` or `tune` clauses is reported as unused.
    cx.uses.const_params = geometry_consts;
    let (root, _) = cx.block(&def.body, false, None);
    let lists: Vec<&mut Vec<Expr>> = match &mut geometry {
        Geometry::Threads { extents, block, .. } => std::iter::once(extents).chain(block).collect(),
        Geometry::Grid { grid, block, .. } => vec![grid, block],
    };
    for list in lists {
        for e in list.iter_mut() {
            finish::expr(&mut cx, e);
        }
    }
    contracts::finish(&mut cx, &mut assumes);
    tune_clauses::check_configs(&mut cx, &k.name, &tunes, &assumes);
    CheckedBody { assumes, expects, tunes, ..done(cx, root, Some(geometry)) }
}

/// Checks the statements of a script, in order.
pub(crate) fn script(program: &Program, module: ModuleId, names: &ScriptNames, stmts: &[&ast::Stmt]) -> CheckedBody {
    let mut cx = Cx::new(program, module, None, BodyKind::Script);
    cx.script_names = Some(names);
    let mut out = Vec::with_capacity(stmts.len());
    for s in stmts {
        cx.stmt(s, &mut out);
    }
    let span = stmts.first().zip(stmts.last()).map_or_else(Default::default, |(a, b)| a.span.to(b.span));
    done(cx, Block { stmts: out, tail: None, span }, None)
}

/// Checks a test or bench.
pub(crate) fn section(program: &Program, module: ModuleId, def: &ast::SectionItem, bench: bool) -> CheckedBody {
    let mut cx = Cx::new(program, module, None, BodyKind::Section);
    let mut rates = Vec::new();
    let accepted = Accepted::new("bench", 0, ["bytes", "flops", "items"].map(by_name).to_vec());
    let bound = cx.bind_arguments(&accepted, def.rates.iter().map(|(name, value)| (Some(name), value)));
    for (named, slot) in accepted.named_params.iter().zip(&bound.by_param) {
        let Some((value, _)) = slot else { continue };
        let mut e = cx.expr(value, None);
        cx.require_kind(&e, crate::infer::TypeClass::Num, "a rate");
        finish::expr(&mut cx, &mut e);
        rates.push((named.name.into(), e));
    }
    let root = if bench { cx.measured(&def.body) } else { cx.block(&def.body, false, None).0 };
    let mut checked = done(cx, root, None);
    checked.rates = rates;
    checked
}

fn done(mut cx: Cx<'_>, mut root: Block, geometry: Option<Geometry>) -> CheckedBody {
    cx.report_early_reads();
    cx.update_let_fixes();
    finish::body(&mut cx, &mut root);
    if cx.failed() {
        cx.diagnostics.retain(Diagnostic::is_error);
    } else {
        lints::body(&mut cx, &root);
    }
    CheckedBody {
        body: Body { locals: cx.locals, root },
        geometry,
        assumes: vec![],
        expects: vec![],
        tunes: vec![],
        diagnostics: cx.diagnostics,
        hole: cx.hole,
        needs: cx.needs,
        used_items: cx.uses.items,
        uses_globals: cx.uses.has_globals,
        globals: cx.globals,
        names_found: cx.names_found,
        rates: vec![],
    }
}

/// Converts a checked test or bench to a [`TestSection`], which the program stores.
pub(crate) fn as_section(
    module: ModuleId,
    def: &ast::SectionItem,
    span: clk_base::source::Span,
    checked: &mut CheckedBody,
) -> TestSection {
    TestSection {
        title: def.title.clone(),
        module,
        span,
        body: Arc::new(std::mem::take(&mut checked.body)),
        rates: std::mem::take(&mut checked.rates),
        uses_globals: checked.uses_globals,
    }
}
