//! Lowers a kernel: its parameters in launch order, its geometry and its body.

use std::sync::Arc;

use super::call::access;
use super::context::{BodyLowering, DimSource, LoweredLocal, ModuleLowering};
use super::emit::ExprEmitter;
use super::error::{Fallible, internal};
use super::instance::{GenericArgument, Instance, hidden_params};
use clk_check::parameter_limit;
use clk_check::typed::{self, Geometry, Type};
use clk_ir::build::build_module;
use clk_ir::def::{ExprKind, LaunchForm, Module, Scalar, Ty};

const I32: Ty = Ty::Scalar(Scalar::I32);

/// Lowers a kernel to a module that includes the functions it calls.
pub(crate) fn kernel<'a>(
    unit: &mut ModuleLowering<'a>,
    kernel: &'a typed::Kernel,
    instance: &Instance,
) -> Fallible<Module> {
    let span = kernel.name_span;
    let typed = kernel.body.as_deref().ok_or_else(|| internal(span, format!("`{}` has no body", kernel.name)))?;
    let out = ExprEmitter::new(kernel.name.as_str(), kernel.span);
    let type_args = |i: u32| match instance.arguments.get(i as usize) {
        Some(GenericArgument::Type(ty)) => Some(ty.clone()),
        _ => None,
    };
    if let Some(d) = parameter_limit::check_parameter_limit(unit.program, kernel, &type_args) {
        return Err(Box::new(d));
    }
    let mut body = BodyLowering::new(&mut *unit, &instance.arguments, kernel.sig.dims.len(), &typed.locals, out);
    body.launch_parameters(kernel, instance)?;
    let form = body.geometry(kernel)?;
    let body_is_named = body.unit.debug_locals;
    body.function_body(typed)?;
    let builder = body.out.into_builder();
    let mut module = build_module(std::mem::take(&mut unit.functions), builder, form);
    module.kernel.cooperative |= kernel.cooperative || unit.cooperative;
    module.kernel.span = kernel.name_span;
    if body_is_named {
        return Ok(module);
    }

    module.kernel.tile_program = super::tile_program::find(unit.program, kernel, instance).ok().map(Arc::new);
    Ok(module)
}

impl BodyLowering<'_, '_> {
    /// Declares the launch parameters: the parameters of the signature, then the dimensions that are not an extent of
    /// any array parameter.
    pub(super) fn launch_parameters(&mut self, kernel: &typed::Kernel, instance: &Instance) -> Fallible<()> {
        self.parameters(
            &kernel.sig,
            |out, name, ty, span| out.at(span).value(name, ty),
            |out, param, layout, rank| {
                out.at(param.span).array(param.name.as_str(), access(param.access), layout, rank)
            },
        )?;
        self.hidden(kernel, instance);
        self.bind_debug_dims(&kernel.sig)
    }

    /// Adds a value parameter for each dimension that is not an extent of any array parameter.
    fn hidden(&mut self, kernel: &typed::Kernel, instance: &Instance) {
        for dim in hidden_params(self.program, instance.kernel) {
            let Some(declared) = kernel.sig.dims.get(dim as usize) else { continue };
            let value = self.out.at(declared.span).value(declared.name.as_str(), I32);
            if let (Some(slot), ExprKind::Param(position)) =
                (self.dims.get_mut(dim as usize), &self.out.function().exprs[value].kind)
            {
                *slot = Some(DimSource::Param(*position));
            }
        }
    }

    fn geometry(&mut self, kernel: &typed::Kernel) -> Fallible<LaunchForm> {
        Ok(match &kernel.geometry {
            Geometry::Grid { .. } => LaunchForm::Grid,
            Geometry::Threads { indices, span, .. } => {
                for (k, &local) in indices.iter().enumerate() {
                    let value = self.out.at(*span).index(k as u8);
                    let declared = self.local(local, *span)?;
                    self.bind_debug_locals(&declared.name, &Type::Scalar(Scalar::I32), &[value], declared.span)?;
                    self.slots.insert(local, LoweredLocal::Value(vec![value]));
                }
                LaunchForm::Threads { rank: indices.len() as u8 }
            }
        })
    }
}
