//! Builds a kernel that applies a function elementwise, for array expressions on the host.

use std::sync::LazyLock;

use super::context::{BodyLowering, ModuleLowering};
use super::emit::ExprEmitter;
use super::error::{Fallible, internal};
use super::instance::FunctionInstance;
use super::mono::Mono;
use super::{builtin, types};
use clk_base::arena::Arena;
use clk_base::source::Span;
use clk_check::parameter_limit;
use clk_check::typed::{self, Program, Type};
use clk_ir::build::build_module;
use clk_ir::def::{Access, CacheHint, ElementLayout, ExprId, LaunchForm, MemId, Module, Place, StmtKind};

/// The kernel's body has no named locals.
static NO_LOCALS: LazyLock<Arena<typed::Local>> = LazyLock::new(Arena::new);

/// Where the value of a parameter of the function comes from.
enum MapParamSource {
    Each(MemId),
    Same(Vec<ExprId>),
}

/// Builds the module of an elementwise kernel; see [`super::lower_map`].
pub(crate) fn map(
    unit: &mut ModuleLowering<'_>,
    function: &FunctionInstance,
    params: &[(Type, bool)],
) -> Fallible<Module> {
    let (name, span) = describe(unit.program, function);
    if let Some(d) = parameter_limit::check_map_parameter_limit(unit.program, &name, span, params) {
        return Err(Box::new(d));
    }
    let result = result_type(unit.program, function, params, span)?;
    let callee = match function {
        FunctionInstance::Fn { id, arguments } => Some(unit.instance(*id, arguments, span)?),
        FunctionInstance::Builtin(_) => None,
    };
    let functions = std::mem::take(&mut unit.functions);
    let types = callee.map(|id| functions[id].results.clone());
    let mut body = BodyLowering::new(unit, &[], 0, &NO_LOCALS, ExprEmitter::new(format!("map_{name}"), span));
    let mut sources = Vec::with_capacity(params.len());
    for (position, (ty, each)) in params.iter().enumerate() {
        sources.push(body.source(position, ty, *each, span)?);
    }
    let layout = types::layout(body.program, &result, span)?;
    let out = body.out.at(span).array("result", Access::Out, layout, 1);
    let index = body.out.at(span).index(0);
    let mut args = Vec::with_capacity(sources.len());
    for source in sources {
        args.push(match source {
            MapParamSource::Each(memory) => body.element_at(memory, &[index], span)?,
            MapParamSource::Same(leaves) => leaves,
        });
    }
    let leaves = match (function, callee, types) {
        (FunctionInstance::Builtin(builtin), ..) => body.pure_builtin(*builtin, &args, span)?,
        (_, Some(function), Some(types)) => {
            let results: Vec<ExprId> = types.into_iter().map(|ty| body.out.result(ty, span)).collect();
            let args = args.into_iter().flatten().collect();
            let kind = StmtKind::Call { function, args, memories: vec![], results: results.clone() };
            body.out.stmt(kind, span);
            results
        }
        _ => return Err(internal(span, "a map of nothing")),
    };
    for (leaf, value) in leaves.into_iter().enumerate() {
        let place = Place { memory: out, indices: vec![index], leaf: leaf as u32, component: None };
        body.out.stmt(StmtKind::Store { place, value, hint: CacheHint::None }, span);
    }
    Ok(build_module(functions, body.out.into_builder(), LaunchForm::Threads { rank: 1 }))
}

impl BodyLowering<'_, '_> {
    fn source(&mut self, position: usize, ty: &Type, each: bool, span: Span) -> Fallible<MapParamSource> {
        let leaves = types::leaves(self.program, ty, span)?;
        let name = format!("p{position}");
        if each {
            return Ok(MapParamSource::Each(self.out.at(span).array(
                name,
                Access::In,
                ElementLayout::from_leaves(leaves),
                1,
            )));
        }
        let builder = self.out.at(span);
        Ok(MapParamSource::Same(
            leaves.into_iter().map(|(path, ty)| builder.value(types::leaf_name(&name, &path), ty)).collect(),
        ))
    }
}

fn describe(program: &Program, function: &FunctionInstance) -> (String, Span) {
    match function {
        FunctionInstance::Fn { id, .. } => match program.fns.get(*id) {
            Some(f) => (f.name.to_string(), f.name_span),
            None => ("unknown".to_string(), Span::default()),
        },
        FunctionInstance::Builtin(builtin) => (builtin.name().to_string(), Span::default()),
    }
}

fn result_type(program: &Program, function: &FunctionInstance, params: &[(Type, bool)], span: Span) -> Fallible<Type> {
    match function {
        FunctionInstance::Fn { id, arguments } => {
            let function =
                program.fns.get(*id).ok_or_else(|| internal(span, "a map of a function that is not there"))?;
            Mono::new(program, arguments).ty(&function.result, span)
        }
        FunctionInstance::Builtin(builtin) => {
            let types: Vec<Type> = params.iter().map(|(ty, _)| ty.clone()).collect();
            builtin::result_type(*builtin, &types)
                .ok_or_else(|| internal(span, format!("`{}` cannot be mapped", builtin.name())))
        }
    }
}
