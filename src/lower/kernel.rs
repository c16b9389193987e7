//! Lowers a kernel: its parameters in launch order, its geometry and its body.

use std::sync::Arc;

use super::call::access;
use super::context::{BodyLowering, DimSource, LoweredLocal, ModuleLowering};
use super::element_kernel::BodyWithRegions;
use super::emit::ExprEmitter;
use super::error::{Fallible, internal};
use super::instance::{GenericArgument, Instance, hidden_params};
use super::tile_program::{self, TileRefusal};
use super::tile_stmt::{TileRegion, without_regions};
use clk_check::parameter_limit;
use clk_check::typed::{self, Geometry, Type};
use clk_ir::build::build_module;
use clk_ir::def::{ExprKind, LaunchForm, MemorySpace, Module, Scalar, Ty};
use clk_ir::tiles::ArrayShape;

const I32: Ty = Ty::Scalar(Scalar::I32);

/// A kernel that has been lowered.
pub(crate) struct LoweredKernel {
    /// The kernel, and the functions that it calls.
    pub module: Module,
    /// Why the kernel has no tile program; `None` if it has one.
    pub refusal: Option<TileRefusal>,
    /// The regions of the body, which no longer contains them. Tile statements are among them.
    pub regions: Vec<TileRegion>,
}

/// Lowers a kernel.
pub(crate) fn kernel<'a>(
    unit: &mut ModuleLowering<'a>,
    kernel: &'a typed::Kernel,
    instance: &Instance,
) -> Fallible<LoweredKernel> {
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
    if form == LaunchForm::Grid && !body.unit.debug_locals {
        body.regions = Some(vec![]);
    }
    let arrays = body.array_shapes(kernel);
    body.function_body(typed)?;
    let (regions, mut builder) = (body.regions.take().unwrap_or_default(), body.out.into_builder());
    let mut tiles = Err(TileRefusal { span, reason: "it is not a `grid` kernel" });
    if form == LaunchForm::Grid && !unit.has_errors() {
        let (function, block, functions) = (builder.function(), builder.open_block(), &unit.functions);
        let (program, locals) = (unit.program, &typed.locals);
        let lowered =
            BodyWithRegions { program, kernel, locals, instance, function, block, functions, regions: &regions };
        tiles = tile_program::assemble(lowered, arrays);
        if let (Some(block), false) = (builder.open_block_mut(), regions.is_empty()) {
            *block = without_regions(std::mem::take(block));
        }
    }
    let mut module = build_module(std::mem::take(&mut unit.functions), builder, form);
    module.kernel.cooperative |= kernel.cooperative || unit.cooperative;
    module.kernel.span = kernel.name_span;
    let refusal = tiles.as_ref().err().copied();
    module.kernel.tile_program = tiles.ok().map(Arc::new);
    Ok(LoweredKernel { module, refusal, regions })
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

    /// Returns the shapes of the kernel's array parameters.
    fn array_shapes(&self, kernel: &typed::Kernel) -> Vec<ArrayShape> {
        let sig = &kernel.sig;
        let name_of = |dim: &typed::Dim| match dim {
            typed::Dim::Name(dim) => sig.dims.get(*dim as usize).map(|declared| declared.name.to_string()),
            _ => None,
        };
        let shape_of = |(at, declared): (usize, &typed::Param)| {
            let Type::Array(array) = &declared.ty else { return None };
            let Some(LoweredLocal::Array(memory)) = self.slots.get(&typed::LocalId::new(at)) else { return None };
            let memory = &self.out.function().memories[*memory];
            match memory.space {
                MemorySpace::Global { param, .. } if memory.extents.len() == array.dims.len() => {
                    Some(ArrayShape { param, dims: array.dims.iter().map(name_of).collect() })
                }
                _ => None,
            }
        };
        sig.params.iter().enumerate().filter_map(shape_of).collect()
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
