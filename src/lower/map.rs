//! A kernel that applies a function elementwise, for the host's array expressions.

use std::sync::LazyLock;

use super::emit::Emitter;
use super::error::{Fallible, internal};
use super::instance::Function;
use super::mono::Mono;
use super::unit::{Body, Unit};
use super::{builtin, types};
use crate::base::arena::Arena;
use crate::base::source::Span;
use crate::check::passed;
use crate::check::typed::{self, Program, Type};
use crate::ir::build::module;
use crate::ir::def::{Access, ExprId, Form, Hint, Layout, MemId, Module, Place, StmtKind};

/// The body of the map has no named locals.
static NO_LOCALS: LazyLock<Arena<typed::Local>> = LazyLock::new(Arena::new);

/// The source of a parameter's value.
enum Source {
    Each(MemId),
    Same(Vec<ExprId>),
}

/// Builds the module of a map; see [`super::lower_map`].
pub(crate) fn map(unit: &mut Unit<'_>, function: &Function, params: &[(Type, bool)]) -> Fallible<Module> {
    let (name, span) = describe(unit.program, function);
    if let Some(d) = passed::too_much_for_map(unit.program, &name, span, params) {
        return Err(Box::new(d));
    }
    let result = result_type(unit.program, function, params, span)?;
    let callee = match function {
        Function::Fn { id, arguments } => Some(unit.instance(*id, arguments, span)?),
        Function::Builtin(_) => None,
    };
    let functions = std::mem::take(&mut unit.functions);
    let types = callee.map(|id| functions[id].results.clone());
    let mut body = Body::new(unit, &[], 0, &NO_LOCALS, Emitter::new(format!("map_{name}"), span));
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
            Source::Each(memory) => body.element_at(memory, &[index], span)?,
            Source::Same(leaves) => leaves,
        });
    }
    let leaves = match (function, callee, types) {
        (Function::Builtin(builtin), ..) => body.pure_builtin(*builtin, &args, span)?,
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
        body.out.stmt(StmtKind::Store { place, value, hint: Hint::None }, span);
    }
    Ok(module(functions, body.out.into_builder(), Form::Threads { rank: 1 }))
}

impl Body<'_, '_> {
    fn source(&mut self, position: usize, ty: &Type, each: bool, span: Span) -> Fallible<Source> {
        let leaves = types::leaves(self.program, ty, span)?;
        let name = format!("p{position}");
        if each {
            return Ok(Source::Each(self.out.at(span).array(name, Access::In, Layout::of(leaves), 1)));
        }
        let builder = self.out.at(span);
        Ok(Source::Same(
            leaves.into_iter().map(|(path, ty)| builder.value(types::leaf_name(&name, &path), ty)).collect(),
        ))
    }
}

fn describe(program: &Program, function: &Function) -> (String, Span) {
    match function {
        Function::Fn { id, .. } => match program.fns.get(*id) {
            Some(f) => (f.name.to_string(), f.name_span),
            None => ("unknown".to_string(), Span::default()),
        },
        Function::Builtin(builtin) => (builtin.name().to_string(), Span::default()),
    }
}

fn result_type(program: &Program, function: &Function, params: &[(Type, bool)], span: Span) -> Fallible<Type> {
    match function {
        Function::Fn { id, arguments } => {
            let function =
                program.fns.get(*id).ok_or_else(|| internal(span, "a map of a function that is not there"))?;
            Mono::new(program, arguments).ty(&function.result, span)
        }
        Function::Builtin(builtin) => {
            let types: Vec<Type> = params.iter().map(|(ty, _)| ty.clone()).collect();
            builtin::result_type(*builtin, &types)
                .ok_or_else(|| internal(span, format!("`{}` cannot be mapped", builtin.name())))
        }
    }
}
