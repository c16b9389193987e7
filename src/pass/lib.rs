//! Layer 3: passes, which transform verified DeviceIR modules into verified modules.
//!
//! [`pipeline::STANDARD`] lists the passes in order. Each pass has its own file, which documents the transformation and
//! why it preserves results and faults.

#![allow(rustdoc::private_intra_doc_links)]

mod cse;
mod dead_code;
pub mod edit;
mod forward_locals;
mod gemm;
mod hoist;
mod if_convert;
mod inline;
pub mod partition;
pub(crate) mod pipeline;
mod remove_unused;
mod scalarize;
mod simplify;
mod structurize;
mod unroll;

pub use dead_code::trip_count;
pub use simplify::is_gradient_barrier;

use std::sync::Arc;

use thiserror::Error;

use clk_base::stop;
use clk_ir::def::{CollectiveLoop, Module, StmtKind};
use clk_ir::text::print;
use clk_ir::tiles::{GemmKernel, TileProgram};
use clk_ir::verify::{Verified, Violation, verify_or_return_module, violations};
use clk_ir::visit::each_stmt_mut;
use clk_ir::{Checks, PreparedKernel};

/// A pass, or the code that built a module, broke the IR: a bug in Clk.
#[derive(Clone, Debug, Error)]
#[error("the IR is invalid after {after}:\n{}\n\n{text}", .violations.join("\n"))]
pub struct InvalidIrError {
    /// The pass, or what built the module.
    pub after: &'static str,
    pub violations: Vec<Violation>,
    /// The text of the module.
    pub text: String,
}

/// Runs the standard pipeline.
pub fn prepare(module: Module) -> Result<PreparedKernel, InvalidIrError> {
    prepare_for(module, Checks::default())
}

/// Like [`prepare`], but for launches with the given checks: the passes preserve everything that the checks report.
pub fn prepare_for(module: Module, checks: Checks) -> Result<PreparedKernel, InvalidIrError> {
    let mut module = verify_after(module, "lowering")?.into_module();
    // The passes change only the body.
    let tile_program = module.kernel.tile_program.take();
    let gemm = tile_program.as_ref().and_then(|tiles| gemm::recognize(&module, tiles));

    for pass in pipeline::passes(checks) {
        stop::poll();
        (pass.run)(&mut module);
        if cfg!(debug_assertions) {
            let violations = violations(&module);
            if !violations.is_empty() {
                return Err(invalid_ir(&module, pass.name, violations));
            }
        }
    }
    // Checks must see every operation, so the body runs then.
    let gemm = gemm.filter(|_| !checks.any()).map(with_prepared_epilogue).transpose()?;
    let tile_program = tile_program.filter(|tiles| tiles.is_supported());
    let tile_program = tile_program.map(|tiles| with_prepared_steps(&tiles, checks)).transpose()?;
    (module.kernel.gemm, module.kernel.tile_program) = (gemm.map(Arc::new), tile_program.map(Arc::new));
    let module = verify_after(module, "the last pass")?;
    Ok(PreparedKernel::new(module, checks))
}

/// Prepares a module that will run exactly as lowered, with its calls: only verifies it.
pub fn verify_only(module: Module) -> Result<PreparedKernel, InvalidIrError> {
    Ok(PreparedKernel {
        is_unoptimized: true,
        ..PreparedKernel::new(verify_after(module, "lowering")?, Checks::default())
    })
}

/// Runs the passes on the epilogue of a matrix product.
fn with_prepared_epilogue(gemm: GemmKernel) -> Result<GemmKernel, InvalidIrError> {
    let epilogue = prepare(gemm.epilogue)?.module.into_module();
    Ok(GemmKernel { epilogue, ..gemm })
}

/// Runs the passes on the element kernels of a tile program. If checks are enabled, the body runs instead, so the steps
/// are dropped; the empty tile program only shows that there was one.
fn with_prepared_steps(tiles: &TileProgram, checks: Checks) -> Result<TileProgram, InvalidIrError> {
    if checks.any() {
        return Ok(TileProgram { steps: vec![], ..tiles.clone() });
    }
    let (mut tiles, mut error) = (tiles.clone(), None);
    tiles.each_module_mut(&mut |element| match prepare(element.clone()) {
        Ok(prepared) => *element = prepared.module.into_module(),
        Err(invalid) => error = error.take().or(Some(invalid)),
    });
    error.map_or(Ok(tiles), Err)
}

/// Inlines and simplifies a kernel before differentiation.
pub fn for_derivative(module: &Module) -> Result<Module, InvalidIrError> {
    run_passes(module, pipeline::DERIVED, "lowering")
}

/// Like [`for_derivative`], but for a kernel that repeats operations of a previously executed kernel, so none of them
/// can fault.
pub fn for_recomputation(module: &Module) -> Result<Module, InvalidIrError> {
    run_passes(module, pipeline::REPEATED, "a derivative")
}

/// Removes dead code from a kernel that repeats operations of a previously executed kernel.
pub fn remove_unneeded(module: &mut Module) {
    dead_code::run_for_recomputation(module);
}

/// Simplifies a kernel so that its printed text is easier to read.
pub fn simplify_for_reading(module: &Module) -> Result<Module, InvalidIrError> {
    run_passes(module, pipeline::READABLE, "a derivative")
}

fn run_passes(module: &Module, passes: &[pipeline::Pass], after: &'static str) -> Result<Module, InvalidIrError> {
    let mut module = verify_after(module.clone(), after)?.into_module();
    // The alternative implementations belong to the original kernel.
    (module.kernel.gemm, module.kernel.tile_program) = (None, None);
    for (_, function) in module.functions.iter_mut() {
        each_stmt_mut(&mut function.body, &mut |stmt| {
            if let StmtKind::For { collective, .. } = &mut stmt.kind {
                collective.take_if(|collective| matches!(collective, CollectiveLoop::Copy(_)));
            }
        });
    }
    for pass in passes {
        stop::poll();
        (pass.run)(&mut module);
    }
    Ok(verify_after(module, "the last pass")?.into_module())
}

fn verify_after(module: Module, after: &'static str) -> Result<Verified, InvalidIrError> {
    verify_or_return_module(module).map_err(|(module, violations)| invalid_ir(&module, after, violations))
}

fn invalid_ir(module: &Module, after: &'static str, violations: Vec<Violation>) -> InvalidIrError {
    InvalidIrError { after, violations, text: print(module) }
}

#[cfg(test)]
mod tests;
