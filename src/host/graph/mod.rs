//! Array expressions as kernels: what a script writes with operators and functions on arrays is computed by the devices that run
//! its kernels, and a chain of operations is one kernel.
//!
//! # Idea
//! An operation on arrays is checked at once, types and shapes, and then deferred: its result is an [`Array`] whose bytes are yet to
//! be computed, by a [`Node`] of a graph that holds the operands. The first reader of the bytes (a print, an index, a file, a kernel
//! launch, a reduction, a write in place) has the graph below the array computed:
//!
//! ```text
//!  operation ─▶ checks ─▶ Node ─▶ … ─▶ first reader ─▶ Plan ─▶ DeviceIR ─▶ passes ─▶ device ─▶ storage of the array
//!                                                       └─ key ─▶ kernel that is already loaded ──┘
//! ```
//!
//! # Parts
//! - [`node`]: operations, their operands, and what one of them gives for scalars;
//! - [`site`]: the device that stands for the script's expressions, and the kernels it has loaded;
//! - [`plan`]: which operations one kernel computes, what it reads and along which axes;
//! - [`memo`]: the deferred arrays that a kernel computes already;
//! - [`emit`]: the kernel of a plan;
//! - [`run`] and [`compute`]: deferring, and launching a kernel when its result is needed;
//! - [`donate`]: results that are written over an operand;
//! - [`mod@view`]: arrays that are parts of others, or others in another order;
//! - [`mod@pick`] and [`picked`]: elements of an array at positions that are an array;
//! - [`mod@write`]: writing into a part of an array;
//! - [`mask`] and [`put`]: selections by masks, and writing to positions that are an array, on a GPU;
//! - [`stream`]: arrays of the host, part by part on a GPU, as they may be too large for it;
//! - [`mod@sort`]: sorting on a GPU;
//! - [`mod@fold`]: reductions, whose order it defines;
//! - [`rows`]: expressions with reductions of their rows, by one kernel;
//! - [`mod@best`]: positions of the least and the largest elements;
//! - [`mod@scan`]: cumulative sums;
//! - [`product`]: products of matrices and vectors;
//! - [`library`]: kernels of the standard library, which they launch.
//!
//! # Invariants
//! - A node's operands have the scalar types its operation takes and shapes that broadcast to its own; so a graph has no errors but
//!   those of devices and of memory. An operation that may fault (an integer division by an array) is computed as soon as it is
//!   entered, by itself.
//! - A kernel computes no more elements of an operation than its result has; an operand that repeats along an axis is
//!   computed first, as its elements would be computed anew for each repetition.
//! - A view holds the array that it looks at, so that nobody writes that array in place: a writer copies it, or has its views copied.
//! - Reductions of rows along the last axes are deferred, too; other reductions are computed at once, with the expression below them.
//! - Operations without readers are never computed. One that is read by several kernels is computed at most twice: when the second
//!   kernel needs it, it is stored for all others.
//! - A graph has at most [`node::MOST`] operations and [`node::MOST_INPUTS`] inputs: what would exceed that is computed before.
//! - Scalars are parameters, so that a kernel is found again by the structure of its plan whatever their values.
//! - The positions of a selection have been checked when it was deferred. Those that are computed again by its kernel are guarded.
//! - Arithmetic is that of kernels, which is `lang::scalar`'s: a result does not depend on what is fused, nor on where it runs.
//!
//! # Where an expression runs
//! On the device in use where it was entered (`--device`, `on …`), to which operands elsewhere are copied, as for kernels. Two
//! exceptions save copies: a result of a few elements is computed on the host, scalar by scalar, at once if its operands are there, and
//! later unless a kernel of the device reads it; and if the device in use is a GPU that has none of the operands, a result of less than
//! [`run::WORTH_MOVING`] bytes is computed on the processor. Selections by masks, writing to positions and sorting are done on a GPU that has the array, else on the host.
//!
//! # What is not deferred
//! Texts, ranges, literals, single values, and arrays of structs, of which only selections are.

mod ahead;
pub(crate) mod best;
mod compute;
mod donate;
mod emit;
pub(crate) mod fold;
pub(crate) mod integers;
mod library;
pub(crate) mod mask;
mod memo;
pub(crate) mod node;
mod pick;
mod picked;
mod place;
mod plan;
pub(crate) mod product;
pub(crate) mod put;
mod row_kernel;
mod row_plan;
mod rows;
mod run;
pub(crate) mod scan;
pub(crate) mod site;
pub(crate) mod sort;
mod stream;
#[cfg(test)]
mod tests;
pub(crate) mod view;
mod write;

pub(crate) use fold::fold;
pub(crate) use node::{Fold, Op, Operand, Rows};
pub(crate) use pick::{in_rows, pick};
pub(crate) use picked::List;
pub(crate) use place::{prepare, words};
pub(crate) use row_plan::results;
pub(crate) use run::{ZERO, defer, each, failed, problem as faulted};
pub(crate) use site::{Held, Kernels, Site};
pub(crate) use view::{Along, column, component, view, with_lanes};
pub(crate) use write::{joined, write_column, write_element, write_part};

#[cfg(doc)]
use crate::host::array::Array;
#[cfg(doc)]
use node::Node;
