//! Layer 3: transformations of DeviceIR, from verified to verified modules.
//!
//! [`pipeline::STANDARD`] is the list of passes; each is a file that documents the transformation and why it preserves results
//! and faults.

mod cse;
mod dead;
pub mod edit;
mod forward;
mod hoist;
mod if_convert;
mod inline;
pub mod part;
pub(crate) mod pipeline;
mod scalarize;
mod simplify;
mod structure;
mod tidy;
mod unroll;

pub use dead::trip_count;
pub use simplify::is_held;

use std::sync::Arc;

use crate::base::stop;
use crate::ir::def::{Module, Product, StmtKind, TileAxis, TileFactor, TilePart, TileStep, Tiles, Together};
use crate::ir::text::print;
use crate::ir::verify::{Verified, checked, violations};
use crate::ir::visit::each_stmt_mut;
use crate::ir::{Checks, Prepared};

/// Runs the standard pipeline. An error is a bug in Clk: it names the pass and contains the IR.
pub fn prepare(module: Module) -> Result<Prepared, String> {
    prepare_for(module, Checks::default())
}

/// Runs the pipeline that preserves what these checks observe.
pub fn prepare_for(module: Module, checks: Checks) -> Result<Prepared, String> {
    let mut module = valid(module, "lowering")?.into_module();
    for pass in pipeline::passes(checks) {
        stop::poll();
        (pass.run)(&mut module);
        if cfg!(debug_assertions) {
            let violations = violations(&module);
            if !violations.is_empty() {
                return Err(complaint(&module, pass.name, &violations));
            }
        }
    }
    if let Some(product) = module.kernel.product.take() {
        module.kernel.product = with_prepared_epilogue(&product, checks).map(Arc::new);
    }
    if let Some(tiles) = module.kernel.tiles.take() {
        module.kernel.tiles = with_prepared_steps(&tiles, checks).map(Arc::new);
    }
    let module = valid(module, "the last pass")?;
    Ok(Prepared::new(module, checks))
}

/// Verifies a module that is to run as it was lowered, with its calls. An error is a bug in Clk.
pub fn unchanged(module: Module) -> Result<Prepared, String> {
    Ok(Prepared { named: true, ..Prepared::new(valid(module, "lowering")?, Checks::default()) })
}

/// Prepares what a product does with each element; `None` if that is nothing that a kernel `threads(row, column)` can do, or if a run
/// with checks is to see all that the kernel does.
fn with_prepared_epilogue(product: &Product, checks: Checks) -> Option<Product> {
    if checks.any() {
        return None;
    }
    let epilogue = prepare(product.epilogue.clone()).ok()?.module.into_module();
    Some(Product { epilogue, ..product.clone() })
}

/// Prepares what the steps of tiles compute. A run with checks is to see all that the kernel does: what is left is that it has steps.
fn with_prepared_steps(tiles: &Tiles, checks: Checks) -> Option<Tiles> {
    if checks.any() {
        return Some(Tiles { steps: vec![], ..tiles.clone() });
    }
    Some(Tiles { steps: prepared_steps(&tiles.steps)?, ..tiles.clone() })
}

fn prepared_steps(steps: &[TileStep]) -> Option<Vec<TileStep>> {
    let prepared = |module: &Module| Some(prepare(module.clone()).ok()?.module.into_module());
    let part = |part: &TilePart| {
        let axis = |axis: &TileAxis| Some(TileAxis { start: prepared(&axis.start)?, ..axis.clone() });
        let axes = part.axes.iter().map(axis).collect::<Option<Vec<TileAxis>>>()?;
        Some(TilePart { axes, element: prepared(&part.element)?, ..part.clone() })
    };
    let step = |step: &TileStep| {
        Some(match step {
            TileStep::Each { to, operands, element } => {
                TileStep::Each { to: *to, operands: operands.clone(), element: prepared(element)? }
            }
            TileStep::Fold { to, of, fold } => TileStep::Fold { to: *to, of: *of, fold: prepared(fold)? },
            TileStep::Product { sum, terms, a, b } => {
                let a = match a {
                    TileFactor::Held(tile) => TileFactor::Held(*tile),
                    TileFactor::Part(a) => TileFactor::Part(part(a)?),
                };
                TileStep::Product { sum: *sum, terms: *terms, a, b: part(b)? }
            }
            TileStep::If { cond, then, other } => {
                let [then, other] = [then, other].map(|steps| prepared_steps(steps));
                TileStep::If { cond: prepared(cond)?, then: then?, other: other? }
            }
            TileStep::Meet => TileStep::Meet,
            TileStep::Repeat { counter, bounds, step, body } => {
                let [start, end] = &**bounds;
                let bounds = Box::new([prepared(start)?, prepared(end)?]);
                TileStep::Repeat { counter: *counter, bounds, step: *step, body: prepared_steps(body)? }
            }
        })
    };
    steps.iter().map(step).collect()
}

/// Inlines and simplifies a kernel whose derivative is wanted. An error is a bug in Clk.
pub fn for_derivative(module: &Module) -> Result<Module, String> {
    through(module, pipeline::DERIVED, "lowering")
}

/// As [`for_derivative`], of a kernel that does again what another one has done: none of its operations faults.
pub fn repeated(module: &Module) -> Result<Module, String> {
    through(module, pipeline::REPEATED, "a derivative")
}

/// Removes what is not needed of a kernel that does again what another one has done.
pub fn needed(module: &mut Module) {
    dead::run_repeated(module);
}

/// Simplifies a kernel for reading. An error is a bug in Clk.
pub fn simplified(module: &Module) -> Result<Module, String> {
    through(module, pipeline::READABLE, "a derivative")
}

fn through(module: &Module, passes: &[pipeline::Pass], after: &str) -> Result<Module, String> {
    let mut module = valid(module.clone(), after)?.into_module();
    // Another kernel is made of it.
    (module.kernel.product, module.kernel.tiles) = (None, None);
    for (_, function) in module.functions.iter_mut() {
        each_stmt_mut(&mut function.body, &mut |stmt| {
            if let StmtKind::For { together, .. } = &mut stmt.kind {
                together.take_if(|together| matches!(together, Together::Copy(_)));
            }
        });
    }
    for pass in passes {
        stop::poll();
        (pass.run)(&mut module);
    }
    Ok(valid(module, "the last pass")?.into_module())
}

fn valid(module: Module, after: &str) -> Result<Verified, String> {
    checked(module).map_err(|(module, violations)| complaint(&module, after, &violations))
}

fn complaint(module: &Module, after: &str, violations: &[String]) -> String {
    format!("the IR is invalid after {after}:\n{}\n\n{}", violations.join("\n"), print(module))
}

#[cfg(test)]
mod tests;
