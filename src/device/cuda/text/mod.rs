//! Code generation for CUDA: DeviceIR to CUDA C++. The kernel becomes a small [`tree`] of C++, which is printed as readable text.
//!
//! | file | contents |
//! | --- | --- |
//! | [`abi`] | the interface to the launcher: parameters, buffers, variants |
//! | `launch` | those rules applied to a launch |
//! | `generator` | state shared by the modules below |
//! | `plan` | which values get a name |
//! | `kernel` | signature, prologue, index space |
//! | `expr`, `scalar` | expressions; operations on scalars and vectors |
//! | `piece`, `pieces` | wide accesses for several indices of a thread |
//! | `memory`, `constants` | elements, arrays, shared memory; arrays of constants |
//! | `stmt`, `flow`, `effects`, `atomics`, `warp` | statements |
//! | `product` | products of matrices for tensor cores, with `product.cu` and `product_sync.cu` |
//! | `tiles`, `steps`, `masks` | programs of tiles for tensor cores, with `tiles.cu`, `tiles_boxes.cu` and `tiles_sync.cu` |
//! | `late` | guards that report behind a loop |
//! | `fences` | fences and warp barriers that the memory model requires |
//! | `helpers` | types and functions that a text defines for itself |
//! | `tree`, `print`, `names` | C++ |

pub(crate) mod abi;
mod atomics;
mod constants;
mod effects;
mod expr;
mod fences;
mod flow;
mod generator;
mod helpers;
mod kernel;
mod late;
mod launch;
mod masks;
mod memory;
mod multiple;
mod names;
mod piece;
mod pieces;
mod plan;
mod print;
mod product;
mod scalar;
mod steps;
mod stmt;
mod tiles;
mod tree;
mod warp;

use crate::base::source::Sources;
use crate::ir::Prepared;
use crate::ir::def::*;
use crate::ir::ranges::{self, Setting};
pub use abi::CudaKernel;
pub use abi::{Copies, LaunchFacts, Options, room_of};
use generator::Gen;
pub(crate) use launch::{SharedRefusal, is_narrow, message};
pub(crate) use product::TENSOR_ARCHITECTURE;
pub(crate) use product::{extents as product_extents, most_tiles as most_product_tiles, shared as product_shared};

/// Returns the text for tensor cores of a kernel that is a product or a program of tiles; `None` if there is none.
pub(crate) fn tensor_text(kernel: &Prepared, options: &Options, sources: Option<&Sources>) -> Option<CudaKernel> {
    product::product_text(kernel, options, sources).or_else(|| tiles::tiles_text(kernel, options, sources))
}

/// Whether a factor is rounded, so that it is packed.
pub(crate) fn is_rounded(kernel: &Prepared, factor: Factor) -> bool {
    let Kernel { body, params, .. } = &kernel.module.kernel;
    let Some(KernelParam::Array { memory, .. }) = params.get(factor.param as usize) else { return false };
    kernel.module.functions[*body].memories[*memory].layout.size == 4
}

/// Returns the options of the text for the tensor cores of a GPU, for factors whose rows are multiples of 16 bytes, if the kernel is a product or a
/// program of tiles that launches compute there; `relies` says that the run names the model of tensor cores.
pub fn usual_options(kernel: &Prepared, options: Options, architecture: u32, relies: bool) -> Options {
    let Kernel { product, tiles, .. } = &kernel.module.kernel;
    let cores = product.as_ref().map(|product| product.cores).or(tiles.as_ref().map(|tiles| tiles.cores));
    let packed = product.as_ref().is_some_and(|product| is_rounded(kernel, product.a));
    let mut ways = vec![Copies::Boxes, Copies::Pieces { packed: [packed; 2] }];
    ways.retain(|way| !way.is_of_sm90a() || architecture == TENSOR_ARCHITECTURE);
    let has_cores = cores.is_some_and(|cores| cores.multiply_on(architecture, relies));
    let options = Options { room: abi::room_of(architecture), ..options };
    let with = |way| Options { product: Some(way), ..options.clone() };
    let mut usable =
        ways.into_iter().map(with).filter(|options| has_cores && tensor_text(kernel, options, None).is_some());
    usable.next().unwrap_or(options)
}

/// Generates the CUDA C++ of a kernel. With sources, `#line` directives refer to their lines. What is no product, or cannot be
/// computed on tensor cores, gets the usual text.
pub fn cuda_text(kernel: &Prepared, options: &Options, sources: Option<&Sources>) -> CudaKernel {
    if let Some(found) = tensor_text(kernel, options, sources) {
        return found;
    }
    let options = &Options { product: None, ..options.clone() };
    let module = &*kernel.module;
    let largest = if options.wide { 0 } else { abi::NARROW };
    let threads = matches!(module.kernel.form, Form::Threads { .. });
    let block = if threads { None } else { options.block };
    let mut ranges = ranges::analyze(module, Setting { largest, block, assume: options.assume });
    if kernel.in_bounds {
        ranges.vouch();
    } else if let (Some(declared), true, true) = (&kernel.declared, options.checked, options.declared) {
        ranges.release(&declared.inside(module).axes);
    }
    let mut generator = Gen::new(module, options, sources, ranges);
    generator.kernel()
}
