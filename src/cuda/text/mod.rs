//! Code generation for CUDA: translates DeviceIR to CUDA C++. The kernel becomes a small syntax [`tree`] of C++, which
//! is printed as readable code.
//!
//! | file | contents |
//! | --- | --- |
//! | [`abi`] | the interface to the launcher: parameters, buffers, variants |
//! | `launch` | applies those rules to a launch |
//! | `generator` | state shared by the modules below |
//! | `plan` | which values get a name |
//! | `kernel` | signature, prologue, index space |
//! | `expr`, `scalar` | expressions; operations on scalars and vectors |
//! | `vector_group`, `vectorize` | vectorized accesses for several indices of a thread |
//! | `memory`, `constants` | elements, arrays, shared memory; constant arrays |
//! | `stmt`, `flow`, `effects`, `atomics`, `warp` | statements |
//! | `product` | matrix products on tensor cores, with `product.cu` and `product_sync.cu` |
//! | `tiles`, `steps`, `masks` | tile programs on tensor cores, with `tiles.cu`, `tiles_tma.cu` and `tiles_sync.cu` |
//! | `divisibility` | powers of two that divide offsets |
//! | `deferred_checks` | bounds checks that are reported after a loop |
//! | `fences` | fences and warp barriers that the memory model requires |
//! | `helpers` | types and functions that generated code defines for itself |
//! | `tree`, `print`, `names` | C++ |

pub(crate) mod abi;
mod atomics;
mod constants;
mod deferred_checks;
mod divisibility;
mod effects;
mod expr;
mod fences;
mod flow;
mod generator;
mod helpers;
mod kernel;
mod launch;
mod masks;
mod memory;
mod names;
mod plan;
mod print;
mod product;
mod scalar;
mod steps;
mod stmt;
mod tiles;
mod tree;
mod vector_group;
mod vectorize;
mod warp;

pub use abi::CudaKernel;
pub use abi::{CodegenOptions, OperandStaging, shared_limit_of};
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_ir::def::*;
use clk_ir::ranges::{self, RangeAssumptions};
use generator::CudaGenerator;
pub(crate) use launch::{SharedLayoutReason, is_narrow};
pub(crate) use product::TENSOR_ARCHITECTURE;
pub(crate) use product::{extents as product_extents, most_tiles as most_product_tiles, shared as product_shared};

/// Returns the tensor-core code of a matrix product or a tile program, or `None` if the kernel cannot run on tensor
/// cores.
pub(crate) fn tensor_text(
    kernel: &PreparedKernel,
    options: &CodegenOptions,
    sources: Option<&SourceMap>,
) -> Option<CudaKernel> {
    product::product_text(kernel, options, sources).or_else(|| tiles::tiles_text(kernel, options, sources))
}

/// Returns whether an operand must be rounded before the product, which happens while it is packed.
pub(crate) fn is_rounded(kernel: &PreparedKernel, factor: GemmOperand) -> bool {
    let Kernel { body, params, .. } = &kernel.module.kernel;
    let Some(KernelParam::Array { memory, .. }) = params.get(factor.param as usize) else { return false };
    kernel.module.functions[*body].memories[*memory].layout.size == 4
}

/// Returns the options with which launches of the kernel run on a GPU's tensor cores, if they do. Assumes operands
/// whose rows are multiples of 16 bytes. `relies`: the user has selected a tensor-core model.
pub fn usual_options(
    kernel: &PreparedKernel,
    options: CodegenOptions,
    architecture: u32,
    relies: bool,
) -> CodegenOptions {
    let Kernel { gemm: product, tile_program: tiles, .. } = &kernel.module.kernel;
    let cores = product.as_ref().map(|product| product.cores).or(tiles.as_ref().map(|tiles| tiles.sums.cores()));
    let packed = product.as_ref().is_some_and(|product| is_rounded(kernel, product.a));
    let mut ways = vec![OperandStaging::Boxes, OperandStaging::Pieces { packed: [packed; 2] }];
    ways.retain(|way| !way.requires_sm90a() || architecture == TENSOR_ARCHITECTURE);
    let has_cores = cores.is_some_and(|cores| cores.can_use_gpu(architecture, relies));
    let options = CodegenOptions { room: abi::shared_limit_of(architecture), ..options };
    let with = |way| CodegenOptions { product: Some(way), ..options.clone() };
    let mut usable =
        ways.into_iter().map(with).filter(|options| has_cores && tensor_text(kernel, options, None).is_some());
    usable.next().unwrap_or(options)
}

/// Generates the CUDA C++ of a kernel. If `sources` are given, the code has `#line` directives. A kernel that cannot
/// run on tensor cores gets ordinary code, whatever the options are.
pub fn cuda_text(kernel: &PreparedKernel, options: &CodegenOptions, sources: Option<&SourceMap>) -> CudaKernel {
    if let Some(found) = tensor_text(kernel, options, sources) {
        return found;
    }
    let options = &CodegenOptions { product: None, ..options.clone() };
    let module = &*kernel.module;
    let largest = if options.wide { 0 } else { abi::NARROW };
    let threads = matches!(module.kernel.form, LaunchForm::Threads { .. });
    let block = if threads { None } else { options.block };
    let mut ranges = ranges::analyze(module, RangeAssumptions { largest, block, assume: options.assume });
    if kernel.in_bounds {
        ranges.assume_in_bounds();
    } else if let (Some(declared), true, true) = (&kernel.declared_launches, options.checked, options.declared) {
        ranges.remove_proved_guards(&declared.in_bounds(module).axes);
    }
    let mut generator = CudaGenerator::new(module, options, sources, ranges);
    generator.kernel()
}
