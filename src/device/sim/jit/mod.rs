//! Just-in-time compilation of kernels to x86-64 machine code with AVX-512 or AVX2.
//!
//! The simulator's interpreter runs each op of a kernel for all lanes of a group, which reads and writes registers in memory.
//! Machine code does many ops for a few vectors at once, and keeps values in the registers of the processor. It is an addition:
//! all kernels can be interpreted, and the interpreter alone defines faults, messages and counts.
//!
//! # From a kernel to instructions
//! `compile::region` looks for **regions**: runs of statements from which no thread jumps away, and in which nothing waits or
//! prints. In front of the interpreter's code of a region stands an op `Enter`, which runs machine code and jumps over the
//! interpreted code, if there is any. `lane::build` translates a region to **LaneIR**, in which masks, checks and addresses are
//! explicit. Of
//!
//! ```text
//! kernel saxpy(alpha: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
//!     r[i] = alpha * x[i] + y[i]
//! }
//! ```
//!
//! `clk emit --stage ir` prints the DeviceIR, and `clk emit --stage lanes` the LaneIR (here without much of its setup):
//!
//! ```text
//!     %0: f32 = load @x[index0]
//!     %1: f32 = arg0 * %0
//!     %2: f32 = load @y[index0]
//!     %3: f32 = %1 + %2
//!     store @r[index0] = %3
//! ```
//!
//! ```text
//! setup {
//!     %2: i64 = extent(mem 0, axis 0)
//!     check_range %9, %10, %2
//!     %11: i64 = base(mem 0)
//! }
//! body {
//!     %0: mask = entered
//!     %15: v32(x) = load.w4.row %14 under %0
//!     %19: v32(x) = load.w4.row %18 under %0
//!     %21: v32(x) = mul.f32 %20, %15
//!     %22: v32(x) = add.f32 %21, %19
//!     %23: mask = compare ne.f32 %22, %22
//!     %25: v32(x, row) = select %23, %24, %22
//!     store.w4.row %28, %25 under %0
//! }
//! ```
//!
//! The comparison and the selection give a NaN the defined bits, which `%24` has ([`nan`](crate::ir::nan)).
//!
//! The setup runs once per entry. It checks the lowest and the highest index of the group instead of each one. The body runs for
//! one **batch** of lanes after the other: up to four vectors of 16 lanes (8, where there are 8-byte values), as many as the
//! registers hold; of one row of the group, or, where rows have exactly 8 or 16 lanes, of several rows. With AVX2, vectors have half
//! as many lanes. [`division::Division`] says how a launch is divided, and a kernel has machine code for each division that occurs.
//!
//! Most entries are of **whole groups**: all lanes are active, and batches divide the group. For these a region is
//! [specialized](crate::device::sim::lane::whole) first: it needs no masks but those of its own conditions. Blocks of a `grid` have
//! known extents, which also prove most checks of indices of shared arrays; code that nothing leaves copies no registers when it
//! is entered. Other groups run another [version](versions), compiled when one first enters.
//!
//! With AVX-512, two vectors of saxpy's body become
//!
//! ```text
//! vmulps  zmm3, zmm0, [rsi + 4*r13]           ; %15 and %21, first vector: r13 is the x of the batch
//! vmulps  zmm4, zmm0, [rsi + 4*r13 + 64]      ; second vector
//! vaddps  zmm3, zmm3, [r9 + 4*r13]            ; %19 and %22, not fused: all devices round alike
//! vaddps  zmm4, zmm4, [r9 + 4*r13 + 64]
//! vmovups [r8 + 4*r13], zmm3                  ; the store
//! vmovups [r8 + 4*r13 + 64], zmm4
//! ```
//!
//! In the version for any group, the masks of lanes that exist and entered are operands of each load and store.
//!
//! - [`asm`] encodes instructions; [`exec`] turns the bytes into memory that can be called.
//! - [`fold`] finds the addresses and loads that operands in memory take over, [`alloc`] gives the values of a region their places,
//!   [`frame`] says what lies where in memory, [`emit`] writes the code; [`functions`] are what it calls.
//! - [`ahead`] finds the lines of the cache that the next block accesses, and [`next`] those that the next iteration does; code fetches them in
//!   advance.
//! - [`passes`] runs the passes of LaneIR; [`machine`] compiles a region and runs the code for a group; [`versions`] has that for whole groups and that for others.
//!
//! # AVX2
//! There is one allocator and one emitter for both instruction sets, and what is a region for one is a region for the other. With
//! AVX2 there are 11 vector registers for values instead of 27, and masks share them: a mask is a vector of lanes that are all ones
//! or zero. [`emit`] says what else differs, and where.
//!
//! # An entry is a transaction
//! Where a check fails, or somebody stops the launch, the code **leaves**: stores that could be read again are undone from a
//! log, registers get back their old values, and the interpreter runs the region from its start. It finds the fault, if it is one,
//! and reports it. So machine code needs no messages, may check earlier than the program would, and may refuse whatever it does not
//! know. A region that is left too often is no longer entered.
//!
//! # Barriers
//! Between two barriers all threads of a block run, then all go on. `compile::region` makes regions of statements with barriers at which all
//! threads arrive ([`together`](crate::device::sim::lane::Region::together)): code for a whole kernel, as a rule, which a block enters once.
//! A block that is one batch of lanes needs nothing for a barrier: each instruction runs for all of its lanes. For a block of several
//! batches, the body is divided into [phases](crate::device::sim::lane::phases) at the barriers. Control around barriers is the same for all
//! threads and runs once per block, in scalar registers; a phase is a loop over the batches. What a batch computes in one phase and reads in
//! another one is kept in the frame, where each batch has a place of its own ([`emit`]), or is computed again where that is cheap. For
//!
//! ```text
//! for k in 0..n {
//!     s[t] = x
//!     barrier()
//!     x = x * 0.5 + s[255 - t]
//!     barrier()
//! }
//! ```
//!
//! that is (with `x` as number 0 of what is kept):
//!
//! ```text
//! loop {
//!     each { %20 = kept 0(x, row); store.w4.row %11, %20 }
//!     each { %21 = kept 0(x, row); %22 = mul.f32 %21, %8; …; keep 0(x, row) %25 }
//!     %7 = scalar add.i64 %7, %3
//!     branch 'e1 if ge.i64 %7, %4
//! }
//! ```
//!
//! Leaving undoes all phases at once, as in any other region: the interpreter starts at the region's first statement, so that no state between
//! two batches of a phase ever has to be told to it. The interpreter's code of a region with barriers has regions of its own,
//! between the barriers, with values across these in the interpreter's registers; they run for blocks that vectors do not divide, and where
//! the large region leaves too often.
//!
//! Between two iterations of a loop around phases lie whole phases, and the next tile of an array lies where the processor's prefetcher does
//! not look: phases fetch in advance what the next iteration reads ([`next`]). Phases whose threads all have numbers below a limit end at the first
//! batch above it, as in a reduction by halves.
//!
//! # Atomics
//! An atomic updates the elements of the active lanes one after the other: plainly where no other worker accesses the memory (it is shared
//! by a block, or the launch has one worker, or workers add up in copies of their own), else by locked instructions. Updates
//! that others may have seen cannot be undone: a region that may leave behind an atomic is only entered where its log can undo them.
//! A loop that may wait for what another thread does fills the log at last, and leaves: the interpreter takes turns among threads.
//! Batches change the order in which lanes update an element, as far as threads may come in any order; floats are
//! added up in the interpreter's order, and with `--deterministic`, or backward, no region with atomics is entered. With `--check`, regions end at
//! those on global arrays.
//!
//! # Kernels that run with `--check`
//! The sanitizer's verdicts are the interpreter's too. Code only has to decide quickly that there is nothing to report, and to leave
//! the record of accesses as the interpreter would (or so that no later verdict differs); where it cannot tell, it leaves.
//! - **Arithmetic**: operators that range analysis has not proved correct get an instruction or two that compare and leave. For linear
//!   forms, bounds over all lanes and iterations are compared once per entry, in the setup.
//! - **Arrays whose elements belong to one thread each** (`ir::owner`, which most outputs of kernels are) cannot race, nor can those of
//!   which that is proved (`version`). Code stores and tests
//!   the bytes that say which elements have been written, beside the elements themselves. Launches whose shape does not prove the
//!   ownership do not enter the region.
//! - **Arrays that threads share**: accesses that all lanes make, with linear indices, in loops with the same trip counts for all lanes,
//!   are *reported* in front of the body. The setup computes addresses and distances, and the checker compares the patterns of all
//!   elements (`sanitizer::reach`), or finds them among those of the last entry. If one access might be wrong, nothing has happened yet, and
//!   the interpreter runs the region.
//! - **Other accesses to such arrays**, under conditions, at computed indices, and atomics on shared arrays, are *told* as they happen
//!   ([`Op::Touch`](crate::device::sim::lane::Op::Touch)): code calls the checker in front of an access, with the lanes of a batch that
//!   take part and their addresses, and leaves where the access might be wrong (`sanitizer::places`). Shadow words are compared row by
//!   row if elements are evenly apart. If the region only loads from a shared array, all of which has been written, and nobody has
//!   stored to it since the last barrier, the checker is asked no more until the region ends. It then only knows that there were
//!   loads; where something conflicts with them before the next barrier, the launch is repeated without such records.
//!
//! A region's accesses to one array are all reported, or all told: a read wants to know whether there was a write before, and one
//! that is reported in front of the body would come too early.
//!
//! Reporting early, and all iterations of an access at once, changes no verdict. Nothing in a region synchronizes threads, so that two
//! threads conflict there in whichever order they access. The order of one thread's own accesses only matters where it reads what
//! nobody has written before: the reads of a loop are therefore reported before its writes, and so need elements that were written in
//! front of it. And if the code leaves behind the report, the interpreter records the same accesses again: they are of the
//! same threads at the same time, and conflict with themselves as little as before.
//!
//! What a report of the first run says is not shown anyway, as long as the launch can be repeated: the second run, which names threads
//! and values, is interpreted, and so are runs with individual tracking (`sanitizer::exact`). Kernels whose threads wait for one another by
//! atomics have no regions with `--check`.
//!
//! With `--trap-nan`, code leaves where a result is a NaN or an infinity, also if an operand was one; it is not entered again where that
//! happens often.
//!
//! # When
//! `tier` compiles a kernel once its launches together have taken as long as that takes (`CLK_SIM_JIT=auto`), before it first runs
//! (`always`), or never (`off`). `clk doctor` says whether machine code is possible here, `--stats` what became
//! of it, and with `CLK_SIM_PERF=1` `perf report` names it.
//!
//! # What is missing
//! Machine code needs AVX-512, or AVX2 with FMA: on other processors all is interpreted. Regions end at barriers (but those at which all threads of blocks of
//! whole vectors arrive), warp operations
//! that name the lanes that take part, atomics on elements of 1 and 2 bytes, `print`, and at statements with an operation that has no LaneIR. With `--check` they also
//! end at all barriers if the checker compares accesses, at atomics on global arrays, at signed sums by atomics, and at accesses to local arrays that are not written
//! as a whole in front of all reads. With `--max-steps`, no region with a loop is entered.

mod ahead;
mod alloc;
// Its tests cover instructions that no code uses yet.
#[allow(dead_code, unused_imports)]
pub(crate) mod asm;
pub(crate) mod division;
mod emit;
mod exec;
mod fold;
mod frame;
mod functions;
mod machine;
mod next;
pub(crate) mod passes;
mod versions;

pub(crate) use self::exec::allowed;
pub(crate) use self::versions::compile;
