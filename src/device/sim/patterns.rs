//! Which patterns the code of a kernel has: for tests that are about one and have to prove that a kernel takes it.

use super::compile::{self, Compiled};
use super::geometry::Geometry;
use super::isa::Isa;
use crate::device::Extents;
use crate::ir::Prepared;

/// The patterns in the code of a kernel.
#[derive(Clone, Debug, Default)]
pub struct Patterns {
    /// The names of the interpreter's ops; none in builds without debug assertions.
    pub ops: Vec<&'static str>,
    /// The names of the operations of its strips.
    pub strips: Vec<String>,
    /// The number of regions of LaneIR.
    pub regions: usize,
    /// The passes that change one of them.
    pub passes: Vec<&'static str>,
}

/// Returns the patterns in the code for launches with these extents.
pub fn patterns(kernel: &Prepared, isa: Isa, extents: &Extents, jit: bool) -> Patterns {
    let Ok(Compiled { ops, code }) = compile::compile(kernel, isa, jit) else { return Patterns::default() };
    let micros = code.strips.iter().flat_map(|strip| &strip.micros);
    Patterns {
        ops: ops.iter().filter_map(|op| op.run.shape()).map(|shape| shape.name).collect(),
        strips: micros.map(|micro| format!("{:?}", micro.code)).collect(),
        regions: code.regions.len(),
        passes: passes(&Geometry::new(extents, &code), isa, &code),
    }
}

#[cfg(target_arch = "x86_64")]
fn passes(geometry: &Geometry, isa: Isa, code: &super::code::Code) -> Vec<&'static str> {
    let division = super::jit::division::Division::of(isa, geometry, &code.regions);
    let mut passes: Vec<&'static str> =
        code.regions.iter().flat_map(|region| super::jit::passes::effective(region, division, isa)).collect();
    passes.sort_unstable();
    passes.dedup();
    passes
}

#[cfg(not(target_arch = "x86_64"))]
fn passes(_: &Geometry, _: Isa, _: &super::code::Code) -> Vec<&'static str> {
    vec![]
}
