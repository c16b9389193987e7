//! The code patterns that the compiler used for a kernel. A test of a pattern uses this list to verify that its kernel
//! contains the pattern.

use super::compile::{self, CompiledKernel};
use super::geometry::GroupGeometry;
use clk_ir::PreparedKernel;
use clk_runtime::Isa;
use clk_runtime::LaunchExtents;

/// The code patterns in a compiled kernel.
#[derive(Clone, Debug, Default)]
pub struct CodePatterns {
    /// The names of the interpreter's ops; empty in builds without debug assertions.
    pub ops: Vec<&'static str>,
    /// The names of the operations in the code's strips.
    pub strips: Vec<String>,
    /// The number of LaneIR regions.
    pub regions: usize,
    /// The names of the LaneIR passes that changed at least one region.
    pub passes: Vec<&'static str>,
}

/// Returns the code patterns of a kernel for launches with these extents.
pub fn code_patterns(kernel: &PreparedKernel, isa: Isa, extents: &LaunchExtents, jit: bool) -> CodePatterns {
    let Ok(CompiledKernel { ops, code }) = compile::compile(kernel, isa, jit) else { return CodePatterns::default() };
    let micros = code.strips.iter().flat_map(|strip| &strip.micros);
    CodePatterns {
        ops: ops.iter().filter_map(|op| op.run.shape()).map(|shape| shape.name).collect(),
        strips: micros.map(|micro| format!("{:?}", micro.code)).collect(),
        regions: code.regions.len(),
        passes: passes(&GroupGeometry::new(extents, &code), isa, &code),
    }
}

#[cfg(target_arch = "x86_64")]
fn passes(geometry: &GroupGeometry, isa: Isa, code: &super::code::KernelTables) -> Vec<&'static str> {
    let division = super::jit::batching::VectorDivision::of(isa, geometry, &code.regions);
    let mut passes: Vec<&'static str> =
        code.regions.iter().flat_map(|region| super::jit::passes::effective_passes(region, division, isa)).collect();
    passes.sort_unstable();
    passes.dedup();
    passes
}

#[cfg(not(target_arch = "x86_64"))]
fn passes(_: &GroupGeometry, _: Isa, _: &super::code::KernelTables) -> Vec<&'static str> {
    vec![]
}
