//! Just-in-time compilation of kernels to x86-64 machine code with AVX-512 or AVX2.
//!
//! Input: regions in LaneIR. Output: machine code that runs a region for a group of threads. Main idea: an entry of a
//! region is a transaction. If the code cannot continue, it takes a side exit: all effects are undone, and the
//! interpreter runs the region. The interpreter alone defines faults, messages and counts. `docs/internals/jit.md`
//! describes the pipeline from a kernel to instructions, barriers, atomics and `--check`.

mod block_prefetch;
mod register_allocation;
// Dead code is allowed because the assembler has instructions that only its tests use.
#[allow(dead_code, unused_imports)]
pub(crate) mod asm;
pub(crate) mod batching;
mod code_versions;
mod compiled_region;
mod emit;
mod executable_memory;
mod frame;
mod iteration_prefetch;
mod memory_operands;
pub(crate) mod passes;
mod runtime_functions;
mod scalar_differences;

pub(crate) use self::code_versions::compile;
pub(crate) use self::executable_memory::allowed;
