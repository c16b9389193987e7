//! Lowers a kernel: its parameters in launch order, its geometry and its body.

use std::sync::Arc;

use super::call::access;
use super::emit::Emitter;
use super::error::{Fallible, internal};
use super::instance::{Argument, Instance, hidden_params};
use super::unit::{Body, DimSource, Slot, Unit};
use crate::check::passed;
use crate::check::typed::{self, Geometry, Type};
use crate::ir::build::module;
use crate::ir::def::{ExprKind, Form, Module, Scalar, Ty};

const I32: Ty = Ty::Scalar(Scalar::I32);

/// Lowers a kernel to a module that includes the functions it calls.
pub(crate) fn kernel<'a>(unit: &mut Unit<'a>, kernel: &'a typed::Kernel, instance: &Instance) -> Fallible<Module> {
    let span = kernel.name_span;
    let typed = kernel.body.as_deref().ok_or_else(|| internal(span, format!("`{}` has no body", kernel.name)))?;
    let out = Emitter::new(kernel.name.as_str(), kernel.span);
    let given = |i: u32| match instance.arguments.get(i as usize) {
        Some(Argument::Type(ty)) => Some(ty.clone()),
        _ => None,
    };
    if let Some(d) = passed::too_much(unit.program, kernel, &given) {
        return Err(Box::new(d));
    }
    let mut body = Body::new(&mut *unit, &instance.arguments, kernel.sig.dims.len(), &typed.locals, out);
    body.launch_parameters(kernel, instance)?;
    let form = body.geometry(kernel)?;
    let body_is_named = body.unit.named;
    body.function_body(typed)?;
    let builder = body.out.into_builder();
    let mut module = module(std::mem::take(&mut unit.functions), builder, form);
    module.kernel.cooperative |= kernel.cooperative || unit.cooperative;
    module.kernel.span = kernel.name_span;
    if body_is_named {
        return Ok(module);
    }
    module.kernel.product = super::product::product(unit.program, kernel, instance).map(Arc::new);
    module.kernel.tiles = super::program::tiles(unit.program, kernel, instance).map(Arc::new);
    Ok(module)
}

impl Body<'_, '_> {
    /// Declares the launch parameters: those of the signature, and the dimensions that no array has.
    pub(super) fn launch_parameters(&mut self, kernel: &typed::Kernel, instance: &Instance) -> Fallible<()> {
        self.parameters(
            &kernel.sig,
            |out, name, ty, span| out.at(span).value(name, ty),
            |out, param, layout, rank| {
                out.at(param.span).array(param.name.as_str(), access(param.access), layout, rank)
            },
        )?;
        self.hidden(kernel, instance);
        self.named_dims(&kernel.sig)
    }

    /// Adds a value parameter, after those of the signature, for each dimension that no array parameter provides.
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

    fn geometry(&mut self, kernel: &typed::Kernel) -> Fallible<Form> {
        Ok(match &kernel.geometry {
            Geometry::Grid { .. } => Form::Grid,
            Geometry::Threads { indices, span, .. } => {
                for (k, &local) in indices.iter().enumerate() {
                    let value = self.out.at(*span).index(k as u8);
                    let declared = self.local(local, *span)?;
                    self.named(&declared.name, &Type::Scalar(Scalar::I32), &[value], declared.span)?;
                    self.slots.insert(local, Slot::Value(vec![value]));
                }
                Form::Threads { rank: indices.len() as u8 }
            }
        })
    }
}
