//! Layer 6: proofs that a kernel is right for every size, and counterexamples that a run confirms.
//!
//! Input: a kernel of a checked program. Output: a [`Report`], which says of each [`Property`] that it is *proved* for all sizes,
//! that it is *refuted* by a run, or that it is *unknown*, with the line and the reason.
//!
//! # Properties
//!
//! | property | what it means |
//! | --- | --- |
//! | in bounds | every access to an array is within its extents |
//! | free of races | no two threads access one element at a time, one of them to write; atomics do not conflict with atomics |
//! | written | every element of every `out` array is written |
//! | barriers | all threads of a block reach the same `barrier()`s; operations of warps are not examined |
//! | no overflow | integer arithmetic that an index or a condition depends on fits its type |
//! | any order | what the kernel leaves in its arrays does not depend on the order of blocks and warps |
//!
//! Two more are examined where a kernel's `expect` clause limits them:
//!
//! | property | what it means |
//! | --- | --- |
//! | `bank_ways <= K` | no access of a warp to a shared array takes more than `K` passes |
//! | `sectors <= K` | no access of a warp to a global array touches more than `K` sectors of 32 bytes |
//!
//! # Method
//!
//! [`sizes`](crate::compile::sizes) writes the launch down in symbols: dimensions are variables from 0 to 2147483647, extents and geometry are forms of
//! them as the kernel's signature says, and so are the coordinates of a thread. [`crate::ir::footprint`] follows the body with
//! these. What remains are questions to the decision procedure [`crate::base::linear`], each of the form "can two threads of one
//! epoch meet in an element?". The answer "no" comes with a certificate, which independent code rechecks before a
//! property counts as proved. An answer "yes" is only a candidate: [`replay`] runs the kernel at these sizes on the simulator with
//! all checks, and what the run reports is the counterexample. A candidate that no run confirms leaves the property unknown.
//!
//! # What a proof rests on
//!
//! A proof is about launches whose geometry is the signature's, computed without overflow; `<<<…>>>` replaces it. It holds for runs in which the kernel
//! is not stopped by a fault of another kind, such as a failed `assert`. Races are about blocks whose threads reach the same
//! barriers, so they are proved only together with these. All else rests on integer arithmetic that does not overflow, which
//! is proved first; an operation that may overflow is treated as an unknown number. Where an operation overflows only for
//! arrays of billions of elements, the proof is for arrays of up to 2^29 elements, and says so ([`Report::largest`]).
//!
//! A kernel without races in which all threads reach the barriers depends on the order of threads by atomic operations alone: each
//! thread sees what the epochs before left. Two operations on one element in one epoch have to commute exactly: integer sums,
//! integer minima, and so on, whose old value nothing depends on. A sum of floats does not, in the language as well (`--deterministic`
//! fixes its order). The counterexample is two runs, one of which starts the blocks and warps from the last one.
//!
//! # Contracts
//!
//! What a kernel's `assume` clauses say of its launches are facts here. Conditions on dimensions and scalar parameters are
//! tested at every launch; a proof that uses them is as good as any other. Promises about arrays are tested with `--check`,
//! so a proof rests on them: [`Report::assuming`] names all clauses.
//!
//! # What warps pay
//!
//! An access is what one line does to an array once; the threads of a warp make it together where they are in the same iterations of all
//! loops. It is one for a scalar or a vector of 2 or 4 (up to 16 bytes), and one for each scalar of a vector of 3. Shared memory has 32 banks of
//! 4 bytes; a pass takes one word from each for all threads that want it. Elements of 8 bytes are taken by half a warp at a time,
//! of 16 by a quarter, and the part that takes the most passes counts. (GPU code may join a thread's accesses to adjacent elements, which then
//! cost as one what they cost apart.) Atomic operations on one word take a pass each. Arrays in global memory
//! begin at a multiple of 256 bytes. A warp is 32 adjacent threads of a block, and in a `threads` kernel 32 adjacent indices along
//! the last axis, from a multiple of 32 on (16 by 2, if it has two indices and a `while` or `loop`, as on GPUs).
//!
//! [`warp`](crate::ir::footprint::warp) puts the coordinates of the lanes into the indices of an access, and counts. That is an upper bound for all
//! sizes: indices are forms of the lane with known coefficients, or nothing is known. After a loop
//! that lanes leave in different iterations, the number of iterations is unknown. Rows of `N` elements may begin anywhere, unless
//! a length or an `assume N % 8 == 0` says that they do not. If the bound is above the limit, runs are counted the same way
//! ([`crate::ir::warps`]); one that is above, too, is the counterexample.
//!
//! # Use
//!
//! GPU code is examined as it runs, after all passes, and access by access: one that range analysis leaves open and that is proved to be in
//! bounds is not guarded ([`crate::ir::footprint::inside`]). Such a text is for launches of up to 2^29 elements whose geometry is the
//! signature's; the host says of each launch whether it is one ([`crate::device::Declared`]), and others run a text with guards. Where
//! a proof uses how elements compare with numbers, launches test that without `--check` as well, by the least and the largest
//! element of each version of an array; how elements compare with each other it does not use.
//!
//! Runs with `--check` tell the checker nothing of arrays on which no two threads race ([`crate::ir::footprint::apart`]), once such launches of a kernel have
//! had many threads; elements that nobody has written are still found, by a mark for each, or a shared array is proved to be written in
//! front of each read. All else that is checked is, and a run that finds something runs again with everything looked at. `--check=everything` is
//! without proofs, and so are the runs here: the simulator leaves out nothing unless it is told to
//! ([`with_proofs`](crate::device::sim::Simulator::with_proofs)).
//!
//! Arrays that the blocks of such a launch write as a whole are neither cleared nor copied to a GPU before it
//! ([`crate::ir::footprint::whole`]). Where that is not so of all launches, each launch of new sizes asks again, with these as further facts.
//!
//! `expect in_bounds` and the like are what `clk check` compares with a report ([`unexpected`]). What is not proved, `clk test` tests ([`Contracts`]): each
//! launch of a test, also one of the script that it uses and one whose derivative is taken, runs on the simulator first, on copies of its arrays, with
//! checks of memory, and counts where the clause limits something. A run forward and one backward tell whether the order matters. An overflow counts if an
//! index or a condition may depend on the operation. What is proved is not tested, unless the launch replaces the geometry (`<<<…>>>`) or the kernel
//! has launches that were not examined. A launch that ends early tests nothing but what it contradicts.
//!
//! `max_ulp <= K` is tested and never proved. A launch runs once as it is and once in `f64`: its kernel is the one of the program's twin
//! ([`widen`](crate::check::widen)), in which all floats are `f64`, with the same numbers as arguments. The floats that both leave in arrays are
//! compared in units in the last place of the element's type, both from runs on the simulator with sums in one order. A twin takes other
//! branches where digits matter; what it computes counts all the same. Elements that are `f64` are their own twins. Kernels that look at the bits of
//! floats have none.
//!
//! An element of an array that the kernel does not write is a function of its indices
//! ([`Element`](crate::ir::footprint::space::Element)), continued beyond the extents by any values. `all(x < N)` is a fact about
//! each element that is read, if its indices are within the extents: an array without elements says nothing. How two
//! elements relate (`ascending`, `distinct`, and that equal indices have equal elements) is stated for each pair of them in
//! a question, where the question is open without.
//!
//! A proof of a kernel with compile-time parameters is about the instances that the report names ([`Report::instance`]), of which the
//! worst counts: one with the defaults, where `f32` or `i32` stands for a type and `max` for a function of two numbers, and those of
//! the launches in the program, up to eight in all. Launches beyond, and launches with arguments that only a run knows or that
//! a function with compile-time parameters hands on, are named as not examined ([`Report::unexamined`]).
//!
//! A kernel is examined in its own file. One with compile-time parameters that another file launches is examined there as well, with
//! the arguments of both. Files that import it are unknown to its own.
//!
//! # From text to certificate
//!
//! ```text
//! kernel scale(x: [f32; N], out y: [f32; N]) grid(ceil_div(N, 64)) block(64) {
//!     let i = global_idx.x
//!     if i < N { y[i] = 2.0 * x[i] }
//! }
//! ```
//!
//! The launch in symbols: `N` from 0 to 2147483647; the grid is `q` with `64 * q - 63 <= N <= 64 * q`; `block_idx.x` is `b` with
//! `0 <= b <= q - 1`, `thread_idx.x` is `t` with `0 <= t <= 63`, and `global_idx.x` is `64 * b + t`. The footprint: under
//! the condition `64 * b + t <= N - 1`, a thread reads `x[64 * b + t]` and writes `y[64 * b + t]`. The question about a race of two
//! blocks: are there `b`, `t` and `b'`, `t'` with `64 * b + t = 64 * b' + t'` and `b + 1 <= b'`? `clk prove --certificate` prints
//! the answer, where each line of the problem has a number, from 0:
//!
//! ```text
//!   64*x0 - 64*x1 + x3 - x4 == 0        line 2: the elements are the same
//!   -x0 + x1 - 1 >= 0                   line 3: the blocks are not
//!   -x3 + 63 >= 0                       line 18
//!   x4 >= 0                             line 19
//!     = 1*2 64*3 1*18 1*19              the sum of these lines: -1 >= 0
//!     !                                 which is never so
//! ```
//!
//! # What is refused, and what to write
//!
//! An index that is read from memory, or computed by another lane, is any number of its type: guard it (`if k >= 0 && k < N`), or
//! promise that it is in range (`assume all(at >= 0), all(at < N)`). Two threads that write at such indices are free of races if
//! they are promised to be `distinct`; atomics always are. An index in a flat array
//! (`i * W + j`) is proved as far as its product fits an `i32`; arrays with as many axes as indices need no product.
//! Warps are not followed: threads of a warp that only `warp_barrier()` or a shuffle keeps apart leave races unknown. A `while`
//! whose variable neither grows by a constant nor has known values is followed by simple invariants only.

mod beyond;
mod contents;
mod evidence;
mod examine;
mod expected;
mod instances;
mod orders;
mod replay;
mod report;
mod trial;
mod twin;

pub use beyond::{Small, settled};
pub use evidence::Witness;
pub use examine::examine;
pub use examine::examine_until;
pub use expected::unexpected;
pub use instances::of_file;
pub use report::{Property, Report, Verdict};
pub use trial::Contracts;
