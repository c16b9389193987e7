//! The table of builtins. It has the name, group, signature and documentation of each builtin, and whether the host or
//! devices support it. The checker, the host interpreter, lowering, the help, the language server and tests use this
//! table.
//!
//! Signatures use Clk's syntax; `T: Num` is a scalar type parameter. If [`BuiltinEntry::elementwise`] is set,
//! parameters of type `T` also accept vectors and, on the host, arrays (elementwise, with broadcasting).

use crate::ops::{AtomicOp, BarrierKind, MathFamily, MathFn, MathFnInfo, TextFn, WarpOp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    // Available on the host and in kernels:
    Math(MathFn),
    Select,
    CeilDiv,
    Bitcast,
    Len,
    Shape,
    Assert,
    Print,
    Dot,
    Cross,
    Length,
    Normalize,
    // Variables in kernels:
    ThreadIdx,
    BlockIdx,
    BlockDim,
    GridDim,
    GlobalIdx,
    LaneIdx,
    WarpIdx,
    WarpSize,
    // Functions in kernels:
    Barrier(BarrierKind),
    Atomic(AtomicOp),
    AtomicLoad,
    AtomicStore,
    Warp(WarpOp),
    Mma,
    Fence,
    FenceBlock,
    Cached,
    Streaming,
    // Variables on the host:
    Args,
    // Functions on the host:
    Load,
    Save,
    Image,
    Heat,
    Plot,
    Scatter,
    Bar,
    Hist,
    Linspace,
    Arange,
    Zeros,
    Ones,
    Full,
    Eye,
    Random,
    RandomNormal,
    RandomInt,
    Sum,
    Prod,
    Mean,
    Argmin,
    Argmax,
    All,
    Any,
    Close,
    Cumsum,
    Reshape,
    Transpose,
    Concat,
    Stack,
    Sort,
    Argsort,
    Einsum,
    Flip,
    Text(TextFn),
    Parse,
    ReadText,
    WriteText,
    Keys,
    SeedRandom,
    Exit,
    // Host functions for arrays on several devices:
    Gpus,
    Shard,
    Gather,
    // Communication of the ranks (processes) that execute the same script:
    RankFn(RankFn),
    // Host functions that differentiate a host function:
    Derive(DerivativeKind),
    NoGrad,
    WithGrad,
}

/// A builtin that differentiates a host function. Its variant states what the builtin returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DerivativeKind {
    /// The gradient of a scalar result with respect to parameters.
    Gradient,
    /// The scalar result and its gradient.
    ValueAndGradient,
    /// The result and the vector-Jacobian product: a cotangent times the Jacobian.
    Vjp,
    /// The result and the Jacobian-vector product: the Jacobian times a tangent.
    Jvp,
    /// The Jacobian of an array result with respect to an array parameter.
    Jacobian,
    /// The Hessian of a scalar result: the Jacobian of its gradient.
    Hessian,
    /// Nothing: `gradcheck` compares the derivative with finite differences.
    Check,
}

/// A builtin for the ranks (processes) that execute the same script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RankFn {
    /// The number of this rank.
    Rank,
    /// The number of ranks.
    Ranks,
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Send,
    Receive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BuiltinSpaces {
    Both,
    Device,
    Host,
}

/// A group of builtins, which is a section of the reference manual.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BuiltinGroup {
    Arithmetic,
    Float,
    Integer,
    Value,
    Index,
    Barrier,
    Atomic,
    Warp,
    Tiles,
    Memory,
    Create,
    Reduce,
    Rearrange,
    Text,
    Files,
    Script,
    Devices,
    Ranks,
    Derivatives,
}

#[derive(Clone, Copy)]
pub struct BuiltinEntry {
    pub builtin: Builtin,
    pub name: &'static str,
    pub group: BuiltinGroup,
    pub spaces: BuiltinSpaces,
    /// Whether parameters of type `T` also accept vectors and, on the host, arrays.
    pub elementwise: bool,
    /// The parameters and the result type of a function; `: type` for a variable.
    pub signature: &'static str,
    /// Documentation in Markdown.
    pub doc: &'static str,
}

impl BuiltinEntry {
    /// Returns whether a host function can also be used in tile expressions, which are array expressions in kernels.
    pub fn in_tiles(&self) -> bool {
        matches!(self.builtin, Builtin::Sum | Builtin::Transpose | Builtin::Reshape | Builtin::Arange)
    }

    /// Returns a sentence about where the builtin can be used: on the host, in kernels, or both.
    pub fn availability(&self) -> &'static str {
        match self.spaces {
            BuiltinSpaces::Both => "On the host and in kernels.",
            BuiltinSpaces::Device => "In kernels and the functions they call.",
            BuiltinSpaces::Host if self.in_tiles() => "In scripts; in kernels only in expressions of tiles.",
            BuiltinSpaces::Host => "In scripts, not in kernels.",
        }
    }
}

/// Returns the builtin with this name.
pub fn find(name: &str) -> Option<&'static BuiltinEntry> {
    TABLE.iter().find(|e| e.name == name)
}

impl Builtin {
    pub fn entry(self) -> &'static BuiltinEntry {
        TABLE.iter().find(|e| e.builtin == self).expect("every builtin is in the table")
    }

    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Returns whether a call has a side effect or a result that depends on more than its arguments.
    pub fn has_effect(self) -> bool {
        match self {
            Builtin::Print | Builtin::Assert => true,
            Builtin::Random | Builtin::RandomNormal | Builtin::RandomInt => true,
            Builtin::NoGrad => false,
            _ => match self.entry().group {
                Arithmetic | Float | Integer | Value | Index | Create | Reduce | Rearrange | Text => false,
                Barrier | Atomic | Warp | Tiles | Memory | Files | Script | Devices | Ranks | Derivatives => true,
            },
        }
    }
}

use BuiltinGroup::*;
use BuiltinSpaces::*;
use TextFn as T;

const fn item(
    b: Builtin,
    name: &'static str,
    group: BuiltinGroup,
    spaces: BuiltinSpaces,
    signature: &'static str,
    doc: &'static str,
) -> BuiltinEntry {
    BuiltinEntry { builtin: b, name, group, spaces, elementwise: false, signature, doc }
}

const fn text(f: TextFn, name: &'static str, signature: &'static str, doc: &'static str) -> BuiltinEntry {
    item(Builtin::Text(f), name, BuiltinGroup::Text, Host, signature, doc)
}

const IDX3: &str = ": i32x3";
const ATOMIC_NUM: &str = "<T: Num>(place: T, value: T) -> T";
const ATOMIC_INT: &str = "<T: Int>(place: T, value: T) -> T";
const SHUFFLE: &str = "<T: Any>(v: T, lane: i32, among: u32 = all) -> T";
const VOTE: &str = "(p: bool, among: u32 = all) -> bool";
const REDUCE_NUM: &str = "<T: Num>(v: T, among: u32 = all) -> T";
const REDUCE_INT: &str = "<T: Int>(v: T, among: u32 = all) -> T";

/// All builtins: the mathematical functions, then all others.
pub static TABLE: &[BuiltinEntry] = &table();

const fn table() -> [BuiltinEntry; MathFn::TABLE.len() + OTHERS.len()] {
    let functions = MathFn::TABLE.len();
    let mut all = [OTHERS[0]; MathFn::TABLE.len() + OTHERS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < functions { math(&MathFn::TABLE[at]) } else { OTHERS[at - functions] };
        at += 1;
    }
    all
}

const fn math(row: &MathFnInfo) -> BuiltinEntry {
    let group = match row.family {
        MathFamily::Numbers => Arithmetic,
        MathFamily::Integers => Integer,
        MathFamily::Floats
        | MathFamily::Tests
        | MathFamily::Approximations
        | MathFamily::Powers
        | MathFamily::Singles => Float,
    };
    let MathFnInfo { function, name, signature, doc, .. } = *row;
    BuiltinEntry { builtin: Builtin::Math(function), name, group, spaces: Both, elementwise: true, signature, doc }
}

#[rustfmt::skip]
const OTHERS: &[BuiltinEntry] = &[
    // Values and shapes
    BuiltinEntry { builtin: Builtin::Select, name: "select", group: Value, spaces: Both, elementwise: true, signature: "<T: Any>(cond: bool, then: T, other: T) -> T", doc: "`then` if `cond` is true, else `other`. Both are evaluated." },
    item(Builtin::CeilDiv, "ceil_div", Integer, Both, "<T: Int>(x: T, y: T) -> T", "`x / y` rounded up, for `x >= 0` and `y > 0`: the number of blocks of size `y` that cover `x`."),
    item(Builtin::Bitcast, "bitcast", Value, Both, "<T>(type, x: T) -> type", "The same bits as another type of the same size: `bitcast(u32, 1.0)`. On the host, the elements of a whole array can get another size: `bitcast(f32x4, x)` has a quarter of the last extent."),
    item(Builtin::Len, "len", Value, Both, "(x: array) -> i32", "The extent of the first axis. On the host, also the number of characters in a text, of texts in an array, or of columns in a table."),
    item(Builtin::Shape, "shape", Value, Both, "(x: array) -> (i32, …)", "The extents of all axes, outermost first, as a tuple. `shape(x, k)` is the extent of axis `k`."),
    item(Builtin::Assert, "assert", Value, Both, "(cond: bool, message: str = \"\")", "Stops with a fault at this line if `cond` is false. On the host, all elements of an array of `bool` must be true; the message shows the first one that is not."),
    item(Builtin::Print, "print", Value, Both, "(values…)", "Writes the values, separated by spaces, and a newline. The output of a kernel is in the order of its blocks."),
    item(Builtin::Dot, "dot", Value, Both, "(a: vector, b: vector) -> scalar", "The dot product of two vectors; on the host, also of two arrays with one axis. Integers are added as in `sum`."),
    item(Builtin::Cross, "cross", Value, Both, "(a: vector, b: vector) -> vector", "The cross product of two vectors of three floats."),
    item(Builtin::Length, "length", Value, Both, "(v: vector) -> scalar", "The Euclidean length of a vector of floats: `sqrt(dot(v, v))`. The extent of an array is `len`."),
    item(Builtin::Normalize, "normalize", Value, Both, "(v: vector) -> vector", "A vector of floats divided by its length; NaN if the length is 0."),
    // Position of a thread
    item(Builtin::ThreadIdx, "thread_idx", Index, Device, IDX3, "The position of the thread in its block (`.x .y .z`; x varies fastest)."),
    item(Builtin::BlockIdx, "block_idx", Index, Device, IDX3, "The position of the block in the grid."),
    item(Builtin::BlockDim, "block_dim", Index, Device, IDX3, "The extents of a block."),
    item(Builtin::GridDim, "grid_dim", Index, Device, IDX3, "The extents of the grid, in blocks."),
    item(Builtin::GlobalIdx, "global_idx", Index, Device, IDX3, "`block_idx * block_dim + thread_idx`."),
    item(Builtin::LaneIdx, "lane_idx", Index, Device, ": i32", "The position of the thread in its warp, 0 to 31."),
    item(Builtin::WarpIdx, "warp_idx", Index, Device, ": i32", "The position of the warp in its block."),
    item(Builtin::WarpSize, "warp_size", Index, Device, ": i32", "The number of lanes of a warp: 32."),
    // Barriers
    item(Builtin::Barrier(BarrierKind::Block), "barrier", Barrier, Device, "()", "Waits until every thread of the block has reached the barrier. After it, all of them see the writes that any of them made before it."),
    item(Builtin::Barrier(BarrierKind::BlockAny), "barrier_any", Barrier, Device, "(p: bool) -> bool", "A barrier that tells every thread whether `p` is true in any thread of the block."),
    item(Builtin::Barrier(BarrierKind::BlockAll), "barrier_all", Barrier, Device, "(p: bool) -> bool", "A barrier that tells every thread whether `p` is true in all threads of the block."),
    item(Builtin::Barrier(BarrierKind::BlockCount), "barrier_count", Barrier, Device, "(p: bool) -> i32", "A barrier that tells every thread in how many threads of the block `p` is true."),
    item(Builtin::Barrier(BarrierKind::Warp), "warp_barrier", Barrier, Device, "()", "Waits until every thread of the warp has reached the barrier."),
    item(Builtin::Barrier(BarrierKind::Grid), "grid_barrier", Barrier, Device, "()", "Waits until every thread of the grid has reached the barrier. The launch is cooperative: all blocks run at the same time, so the grid has to fit the device."),
    item(Builtin::Fence, "fence", Barrier, Device, "()", "Orders memory: every thread of the device sees the writes before the fence before it sees the writes after it."),
    item(Builtin::FenceBlock, "fence_block", Barrier, Device, "()", "Like `fence`, but only for the threads of the block."),
    // Atomics
    item(Builtin::Atomic(AtomicOp::Add), "atomic_add", Atomic, Device, ATOMIC_NUM, "Atomically adds to an element and returns its old value: `atomic_add(hist[b], 1)`."),
    item(Builtin::Atomic(AtomicOp::Sub), "atomic_sub", Atomic, Device, ATOMIC_NUM, "Atomically subtracts from an element and returns its old value."),
    item(Builtin::Atomic(AtomicOp::Min), "atomic_min", Atomic, Device, ATOMIC_NUM, "Atomically stores the smaller of an element and `value`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Max), "atomic_max", Atomic, Device, ATOMIC_NUM, "Atomically stores the larger of an element and `value`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::And), "atomic_and", Atomic, Device, ATOMIC_INT, "Atomic bitwise and, for integers and `bool`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Or), "atomic_or", Atomic, Device, ATOMIC_INT, "Atomic bitwise or, for integers and `bool`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Xor), "atomic_xor", Atomic, Device, ATOMIC_INT, "Atomic bitwise exclusive or, for integers and `bool`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Exchange), "atomic_exchange", Atomic, Device, "<T: Any>(place: T, value: T) -> T", "Atomically stores a value and returns the old one."),
    item(Builtin::Atomic(AtomicOp::CompareExchange), "atomic_compare_exchange", Atomic, Device, "<T: Any>(place: T, expected: T, value: T) -> T", "Atomically stores `value` if the element equals `expected`; returns the old value."),
    item(Builtin::AtomicLoad, "atomic_load", Atomic, Device, "<T: Any>(place: T) -> T", "Loads an element that other threads may change by atomic operations at the same time: `while atomic_load(flag[0]) == 0 { }`. It does not order other memory accesses."),
    item(Builtin::AtomicStore, "atomic_store", Atomic, Device, "<T: Any>(place: T, value: T)", "Stores to an element that other threads may read or change by atomic operations at the same time. It does not order other memory accesses: put a `fence()` before it for that."),
    // Warps
    item(Builtin::Warp(WarpOp::Shuffle), "shuffle", Warp, Device, SHUFFLE, "The value of `v` in lane `lane`. `among` is the mask of the participating lanes, all of which must execute this call; by default, it contains all lanes of the warp."),
    item(Builtin::Warp(WarpOp::ShuffleUp), "shuffle_up", Warp, Device, SHUFFLE, "The value of `v` in the lane whose number is smaller by `lane`; the own value if there is no such lane."),
    item(Builtin::Warp(WarpOp::ShuffleDown), "shuffle_down", Warp, Device, SHUFFLE, "The value of `v` in the lane whose number is larger by `lane`; the own value if there is no such lane."),
    item(Builtin::Warp(WarpOp::ShuffleXor), "shuffle_xor", Warp, Device, SHUFFLE, "The value of `v` in lane `lane_idx ^ lane` (a butterfly exchange)."),
    item(Builtin::Warp(WarpOp::Ballot), "ballot", Warp, Device, "(p: bool, among: u32 = all) -> u32", "A mask in which bit l is set if `p` is true in lane l. `ballot(p)` before `if p { … }` gives the lanes that take the branch: use it as `among` for warp operations inside."),
    item(Builtin::Warp(WarpOp::Any), "warp_any", Warp, Device, VOTE, "Whether `p` is true in any lane."),
    item(Builtin::Warp(WarpOp::All), "warp_all", Warp, Device, VOTE, "Whether `p` is true in every lane."),
    item(Builtin::Warp(WarpOp::ReduceAdd), "warp_reduce_add", Warp, Device, REDUCE_NUM, "The sum over the warp, in every lane. The order is that of a butterfly (xor 16, 8, 4, 2, 1), or with `among` that of the lane numbers."),
    item(Builtin::Warp(WarpOp::ReduceMin), "warp_reduce_min", Warp, Device, REDUCE_NUM, "The minimum over the warp, in every lane."),
    item(Builtin::Warp(WarpOp::ReduceMax), "warp_reduce_max", Warp, Device, REDUCE_NUM, "The maximum over the warp, in every lane."),
    item(Builtin::Warp(WarpOp::ReduceAnd), "warp_reduce_and", Warp, Device, REDUCE_INT, "The bitwise and over the warp, in every lane."),
    item(Builtin::Warp(WarpOp::ReduceOr), "warp_reduce_or", Warp, Device, REDUCE_INT, "The bitwise or over the warp, in every lane."),
    item(Builtin::Warp(WarpOp::ReduceXor), "warp_reduce_xor", Warp, Device, REDUCE_INT, "The bitwise exclusive or over the warp, in every lane."),
    item(Builtin::Warp(WarpOp::MatchAny), "match_any", Warp, Device, "<T: Any>(v: T, among: u32 = all) -> u32", "The mask of the lanes whose `v` equals this lane's, bit for bit. Use it as `among` for warp operations within the group of equal lanes."),
    // Tiles
    item(Builtin::Mma, "mma", Tiles, Device, "<T: Float>(acc: [f32; M, N], a: [T; M, K], b: [T; K, N]) -> [f32; M, N]", "`acc + a @ b` for tiles, with the arithmetic of tensor cores. `T` is `f16` or `bf16`, or `f32` rounded by `tf32`, as in `mma(acc, tf32(a[i..i + 16, ..]), tf32(b[.., j..j + 16]))`. For each element, the products are added in groups of 16 (8 for `tf32`), in the order of `k`. The products of a group and the sum so far are truncated to 25 bits below the largest of them and added exactly, and the result is truncated to an `f32`."),
    // Memory hints
    item(Builtin::Cached, "cached", Memory, Device, "<T: Any>(place: T) -> T", "Loads (or stores, on the left of `=`) with the hint that the value will be used again soon."),
    item(Builtin::Streaming, "streaming", Memory, Device, "<T: Any>(place: T) -> T", "Loads (or stores) with the hint that the value will not be used again soon."),
    // Host: creating arrays
    item(Builtin::Linspace, "linspace", Create, Host, "(start: f32, stop: f32, n: i32) -> [f32; n]", "`n` equidistant values from `start` to `stop`, both included. The result is `f64` if `start` and `stop` are."),
    item(Builtin::Arange, "arange", Create, Host, "<T: Num>(stop: T) -> [T; _]", "0, 1, … below `stop`. Other forms are `arange(start, stop)` and `arange(start, stop, step)`. Element `i` is `start + i * step`; floats are rounded once to their type. All elements are strictly below `stop`, or above it for a negative step. For example, `arange(0.0, 0.3, 0.1)` has three elements."),
    item(Builtin::Zeros, "zeros", Create, Host, "(dims…, type = f32) -> array", "An array of zeros: `zeros(3, 4)`, `zeros(n, type = i32)`. Without a `type`, the elements are floats, unless a declared type requires integers: that of a variable, as in `let x: [i32; 3] = zeros(3)`, or that of a parameter."),
    item(Builtin::Ones, "ones", Create, Host, "(dims…, type = f32) -> array", "An array of ones: `ones(3, 4)`, `ones(n, type = i32)`. The element type is chosen as for `zeros`."),
    item(Builtin::Full, "full", Create, Host, "<T: Any>(dims…, value: T) -> array", "An array in which all elements have one value, the last argument: `full(3, 4, 0.5)`."),
    item(Builtin::Eye, "eye", Create, Host, "(n: i32, type = f32) -> [f32; n, n]", "The identity matrix. The element type is chosen as for `zeros`."),
    item(Builtin::Random, "random", Create, Host, "(dims…, seed = next, type = f32) -> array", "Uniform random numbers in [0, 1), generated by Philox 4x32-10. Each call continues the script's single stream, whose seed is 0 or that of `--seed`. A call with its own `seed` gives the same numbers every time. The numbers are the same on every machine."),
    item(Builtin::RandomNormal, "random_normal", Create, Host, "(dims…, seed = next, type = f32) -> array", "Normally distributed random numbers with mean 0 and standard deviation 1 (Philox and Box-Muller), from the same stream as `random`."),
    item(Builtin::RandomInt, "random_int", Create, Host, "<T: Int>(low: T, high: T, dims…, seed = next) -> array", "Uniform random integers from `low` up to but excluding `high`, from the same stream as `random`."),
    // Host: reducing
    item(Builtin::Sum, "sum", Reduce, Host, "<T: Num>(x: [T; …], axis = all) -> T", "The sum of all elements, or along one axis, or along several axes as in `axis = (0, 1)`. Floats are added in `f64`, in an order that only the length determines, and rounded once. A sum of integers is exact, or an error if it does not fit its type. The sum of 8- and 16-bit integers is an `i64` or `u64`."),
    item(Builtin::Prod, "prod", Reduce, Host, "<T: Num>(x: [T; …], axis = all) -> T", "The product of all elements, or along axes. Integers follow the rules of `sum`."),
    item(Builtin::Mean, "mean", Reduce, Host, "<T: Float>(x: [T; …], axis = all) -> T", "The mean of all elements, or along axes."),
    item(Builtin::Argmin, "argmin", Reduce, Host, "(x: array, axis = all) -> i32", "The position of the smallest element, in row-major order or along an axis. If several are equal, it is the first one."),
    item(Builtin::Argmax, "argmax", Reduce, Host, "(x: array, axis = all) -> i32", "The position of the largest element, in row-major order or along an axis. If several are equal, it is the first one."),
    item(Builtin::All, "all", Reduce, Host, "(x: [bool; …], axis = all) -> bool", "Whether every element is true."),
    item(Builtin::Any, "any", Reduce, Host, "(x: [bool; …], axis = all) -> bool", "Whether any element is true."),
    item(Builtin::Close, "close", Reduce, Host, "(a, b, rtol = 1e-5, atol = 1e-8) -> [bool; …]", "Elementwise `abs(a - b) <= atol + rtol * abs(b)`; NaN is close to NaN. `assert(close(a, b))` shows the first element that is not close."),
    item(Builtin::Cumsum, "cumsum", Reduce, Host, "<T: Num>(x: [T; N], axis = 0) -> [T; N]", "The cumulative sums. Integers follow the rules of `sum`. An array with several axes needs the `axis`."),
    // Host: rearranging
    item(Builtin::Reshape, "reshape", Rearrange, Host, "(x: array, dims…) -> array", "The same elements in another shape. One dimension can be -1: it is computed from the others."),
    item(Builtin::Transpose, "transpose", Rearrange, Host, "(x: array, axes = reversed) -> array", "The array with its axes in reverse order, or in the order of `axes`: axis `k` of `transpose(x, axes = (2, 0, 1))` is axis `axes[k]` of `x`. Both are views. In tiles, the order is always reversed."),
    item(Builtin::Concat, "concat", Rearrange, Host, "(a: array, b: array, …, axis = 0) -> array", "Arrays joined along an axis."),
    item(Builtin::Stack, "stack", Rearrange, Host, "(a: array, b: array, …, axis = 0) -> array", "Arrays of the same shape, joined along a new axis, by default the first one: the columns of `stack(x, y, axis = 1)` are `x` and `y`."),
    item(Builtin::Sort, "sort", Rearrange, Host, "<T: Num>(x: [T; …], axis = 0, descending = false) -> [T; …]", "The elements in ascending order, -0 before 0 and NaN last; with `descending = true` in the reverse of this order, NaN first. An array with several axes needs the `axis`, along which each row is sorted. Texts are ordered by the Unicode code points of their characters. `sort(keys, values)` sorts the keys and reorders the values, or rows of values, in the same way. It returns both as a tuple: `keys[at]` and `values[at]` with `at = argsort(keys)`."),
    item(Builtin::Argsort, "argsort", Rearrange, Host, "<T: Num>(x: [T; …], axis = 0, descending = false) -> [i32; …]", "The positions of the elements in ascending order: `x[argsort(x)]` is sorted. With `descending = true`, the order is descending. Equal elements, -0 and 0 among them, keep their order in both directions. NaN are larger than all numbers. An array with several axes needs the `axis`."),
    item(Builtin::Einsum, "einsum", Rearrange, Host, "(subscripts: str, a: array, b: array) -> array", "Einstein's summation: `einsum(\"ij,jk->ik\", a, b)` is `a @ b`. The text names the axes of each operand and of the result; it is a literal. An axis that is not in the result is summed. A letter twice in one operand takes a diagonal: `einsum(\"ii->\", a)` is the trace. Without `->`, the result has the letters that occur once, in alphabetical order. One or two operands are accepted. Axes of one operand alone are summed first, by `sum`; the remaining product is `a * b` if no axis is summed, and otherwise that of `@`, along the summed axes in their order in `a`. A sum of integers has the type of the elements, and is an error if it does not fit."),
    item(Builtin::Flip, "flip", Rearrange, Host, "(x: array, axis = 0) -> array", "The array in reverse order along an axis."),
    // Host: text
    text(T::Split, "split", "(text: str, separator: str) -> [str; _]", "The parts of a text between its separators: `split(\"a,b\", \",\")` is `[\"a\", \"b\"]`. `split(text)` splits at whitespace."),
    text(T::Lines, "lines", "(text: str) -> [str; _]", "The lines of a text, without their ends (`\\n` or `\\r\\n`)."),
    text(T::Join, "join", "(parts: [str; _], separator: str) -> str", "The texts joined into one, with the separator between them."),
    text(T::Trim, "trim", "(text: str) -> str", "The text without the whitespace at both ends. Like all text functions except `split`, `lines` and `join`, it also works elementwise on an array of texts."),
    text(T::Find, "find", "(text: str, part: str) -> i32", "The index of the character at which the first `part` begins; -1 if there is none."),
    text(T::Contains, "contains", "(text: str, part: str) -> bool", "Whether the text contains `part`. To test whether an array of texts contains a text, use `any(names == \"Ann\")`."),
    text(T::StartsWith, "starts_with", "(text: str, part: str) -> bool", "Whether the text begins with `part`."),
    text(T::EndsWith, "ends_with", "(text: str, part: str) -> bool", "Whether the text ends with `part`."),
    text(T::Replace, "replace", "(text: str, part: str, by: str) -> str", "The text with each `part` replaced by `by`, from left to right."),
    text(T::Upper, "upper", "(text: str) -> str", "The text in upper case."),
    text(T::Lower, "lower", "(text: str) -> str", "The text in lower case."),
    item(Builtin::Parse, "parse", BuiltinGroup::Text, Host, "(type, text: str) -> type", "The number that a text contains: `parse(i32, args[0])`. If it is not a number, the error shows the text. `parse(f64, parts)` works elementwise on an array of texts."),
    // Host: files and pictures
    item(Builtin::Load, "load", Files, Host, "(path: str) -> array", "Reads a file; its extension is its format: .npy, .npz, .safetensors, .csv, .txt, .mtx, .json, .png, .apng, .jpg or .wav. If a file contains several arrays, they become fields: `m.weight`, `m[\"weight\"]`. An array of an .npz or .safetensors file is read when it is first used. A .csv file whose first line names its columns has a field for each, an array of `f64` or of texts. A .txt file has numbers between blanks, as NumPy's `savetxt` writes them. A sparse .mtx file has the fields `starts`, `cols`, `vals` and `shape`, as in `std.sparse`; a .wav file has `samples` and `rate`. The element type is that of the file; `let x: [f32; N] = load(…)` checks it."),
    item(Builtin::Save, "save", Files, Host, "(path: str, arrays…)", "Writes one array to a .npy, .csv, .txt, .mtx, .json, .png or .apng file, or named arrays to a .npz, .safetensors or .json file: `save(\"out.npz\", y = y)`. A .csv file can also contain named columns, which can be texts, or a table. `save(\"a.mtx\", starts = s, cols = c, vals = v, shape = [m, n])` writes a sparse matrix, `save(\"a.wav\", samples = x, rate = 44100)` a sound, and `save(\"a.apng\", frames = x, delay = 0.04)` an animation. The file is written completely or not at all."),
    item(Builtin::Keys, "keys", Files, Host, "(table) -> [str; _]", "The names of a table's columns or arrays: `for name in keys(t) { print(name, t[name]) }`. `load` returns a table for a file with several arrays or columns."),
    item(Builtin::ReadText, "read_text", Files, Host, "(path: str) -> str", "The text of a UTF-8 file with any name: `lines(read_text(\"notes.txt\"))` are its lines. A byte order mark at its start is removed."),
    item(Builtin::WriteText, "write_text", Files, Host, "(path: str, text: str)", "Writes a text to a file without changes: `write_text(\"notes.txt\", join(parts, \"\\n\"))`. The file is written completely or not at all."),
    item(Builtin::Image, "image", Files, Host, "(path: str, x: array, fps = none)", "Writes a picture to a PNG or SVG file. Its shape is [H, W] (gray), [H, W, 3] or [H, W, 4] (color); its elements are `u8`, or floats from 0 to 1. `image(x)` shows it in the terminal. With `fps`, the number of frames in a second, the first axis is that of the frames of an animation: `image(x, fps = 20)`."),
    item(Builtin::Heat, "heat", Files, Host, "(path: str, x: array, fps = none)", "Plots a two-dimensional array of numbers as a heat map, from the smallest element (dark) to the largest (bright), to a PNG or SVG file, or without a path in the terminal. With `fps`, the first of three axes is that of the frames of an animation."),
    item(Builtin::Plot, "plot", Files, Host, "(path: str, x: array, y: array…, labels = none, style = \"line\", low = none, high = none, log = none, title = none, xlabel = none, ylabel = none, fps = none)", "Plots curves to a PNG or SVG file, or without a path in the terminal. `plot(y)` has the x values 0, 1, …, and `plot(x, y, z)` two curves; so has `plot(x, y)` with a `y` of two rows. A tuple is a curve with its own x: `plot((t, a), (s, b), labels = [\"a\", \"b\"])`. `style` is \"line\" or \"points\", for all curves or for each. `low` and `high` are the bounds of an error band. `log` is \"x\", \"y\" or \"xy\". With `fps`, the rows of `y` are the frames of an animation."),
    item(Builtin::Scatter, "scatter", Files, Host, "(path: str, x: array, y: array…, labels = none, low = none, high = none, log = none, title = none, xlabel = none, ylabel = none, fps = none)", "Plots points, like `plot` with the style \"points\": `scatter(x, y, title = \"samples\")`. `low` and `high` are the ends of error bars."),
    item(Builtin::Bar, "bar", Files, Host, "(path: str, x: array, y: array…, labels = none, low = none, high = none, log = none, title = none, xlabel = none, ylabel = none, fps = none)", "Plots a bar from zero to each number, in groups if there are several arrays. `x` can be names: `bar([\"a\", \"b\"], [3.0, 5.0])`. `low` and `high` are the ends of error bars."),
    item(Builtin::Hist, "hist", Files, Host, "(path: str, x: array…, labels = none, bins = none, log = none, title = none, xlabel = none, ylabel = none)", "Plots how many numbers of an array are in each of `bins` intervals of equal width. The default number of intervals is 1 + log2(n), rounded up: Sturges' rule. Several arrays share the intervals."),
    // Host: the script
    item(Builtin::Args, "args", Script, Host, ": [str; _]", "The command-line arguments after the script's name: `args[0]`, `len(args)`."),
    item(Builtin::SeedRandom, "seed_random", Script, Host, "(seed: i64)", "Restarts the script's stream of random numbers with this seed: after `seed_random(7)`, `random(3)` returns the same numbers as at the start of `clk run --seed 7`. It does not affect calls with their own `seed`."),
    item(Builtin::Exit, "exit", Script, Host, "(code: i32 = 0)", "Ends the script with an exit code from 0 to 255. All output is written first, and running launches are completed. If one of them fails, the fault is reported and the exit code is 1."),
    // Host: several devices
    item(Builtin::Gpus, "gpus", Devices, Host, "(n: i32) -> [i32; n]", "The numbers of the first `n` devices: GPUs, or on a simulator the virtual devices of `--device sim:N`. At least that many must exist."),
    item(Builtin::Shard, "shard", Devices, Host, "(x: array, devices: [i32; _], axis = 0, halo = 0, granule = even) -> array", "The array divided along an axis into one shard for each device: `shard(x, gpus(2), axis = 0, halo = 1)`. Each shard is in the memory of its device, with `halo` rows of its neighbors on each side. Expressions, reductions and launches on a sharded array run on all devices and give the same bits as on one. The shards have about equal sizes, in multiples of `granule` rows."),
    item(Builtin::Gather, "gather", Devices, Host, "(x: array) -> array", "The sharded array assembled on one device."),
    // Host: several processes
    item(Builtin::RankFn(RankFn::Rank), "rank", Ranks, Host, "() -> i32", "The rank of this process among those that run the script together, counted from 0; 0 if it runs alone. `clk run --ranks 2`, torchrun, mpirun and srun start several."),
    item(Builtin::RankFn(RankFn::Ranks), "ranks", Ranks, Host, "() -> i32", "The number of processes that run the script together; 1 if it runs alone."),
    item(Builtin::RankFn(RankFn::AllReduce), "all_reduce", Ranks, Host, "<T: Num>(x: T, op = \"sum\") -> T", "The elementwise sum (or \"prod\", \"min\", \"max\") of the `x` of all ranks, on each rank. Floats are added in the order of the ranks, or on GPUs in the order of NCCL. A sum of integers is exact, or an error if it does not fit its type."),
    item(Builtin::RankFn(RankFn::AllGather), "all_gather", Ranks, Host, "(x) -> array", "The `x` of all ranks, joined along the first axis in the order of the ranks, on each rank. Numbers become an array."),
    item(Builtin::RankFn(RankFn::ReduceScatter), "reduce_scatter", Ranks, Host, "<T: Num>(x: [T; …], op = \"sum\") -> [T; …]", "This rank's part of `all_reduce(x)`, divided along the first axis into one equal part for each rank."),
    item(Builtin::RankFn(RankFn::Broadcast), "broadcast", Ranks, Host, "<T: Any>(x: T, from = 0) -> T", "The `x` of the rank `from`, on all ranks. The other ranks pass a value of the same type and shape."),
    item(Builtin::RankFn(RankFn::Send), "send", Ranks, Host, "(x, to: i32)", "Sends a number or an array to another rank, which has to `receive` it. `send` does not wait for that."),
    item(Builtin::RankFn(RankFn::Receive), "receive", Ranks, Host, "<T: Any>(like: T, from: i32) -> T", "The value that another rank sends. It must have the type and the shape of `like`. Values from one rank to another arrive in order."),
    // Host: derivatives
    item(Builtin::Derive(DerivativeKind::Gradient), "grad", Derivatives, Host, "(f, wrt = first)(args…) -> parameter", "The gradient of a function that returns one float, at these arguments. `grad(loss)(w, x, y)` differentiates with respect to the first parameter, `grad(loss, wrt = (w, b))(w, b)` with respect to the named ones. If an operation has no derivative, the error shows its line."),
    item(Builtin::Derive(DerivativeKind::ValueAndGradient), "value_and_grad", Derivatives, Host, "(f, wrt = first)(args…) -> (result, parameter)", "The result of the function and its gradient, at the cost of the gradient alone."),
    item(Builtin::Derive(DerivativeKind::Vjp), "vjp", Derivatives, Host, "(f, wrt = first)(args…, cotangent: result) -> (result, parameter)", "The result of the function, and the vector-Jacobian product: a cotangent with the shape of the result, times the Jacobian. This is the gradient of `sum(cotangent * f(x))`."),
    item(Builtin::Derive(DerivativeKind::Jvp), "jvp", Derivatives, Host, "(f, wrt = first)(args…, tangent: parameter) -> (result, result)", "The result of the function, and the Jacobian-vector product: the derivative in the direction of the tangent, computed along with the result."),
    item(Builtin::Derive(DerivativeKind::Jacobian), "jacobian", Derivatives, Host, "(f, wrt = first)(args…) -> array", "The derivatives of all elements of the result with respect to all elements of the parameter. Its shape is that of the result followed by that of the parameter."),
    item(Builtin::Derive(DerivativeKind::Hessian), "hessian", Derivatives, Host, "(f, wrt = first)(args…) -> array", "The second derivatives of a function that returns one float."),
    item(Builtin::Derive(DerivativeKind::Check), "gradcheck", Derivatives, Host, "(f, args…, wrt = first)", "Checks the derivative of a function at these arguments, and stops with an error if it is wrong. Forward and reverse mode have to agree with each other, and with finite differences of the function computed in `f64`. The directions are random but the same in every run. `gradcheck(loss, w, x, y, wrt = (w, b))` checks the derivatives with respect to the named parameters."),
    item(Builtin::NoGrad, "no_grad", Derivatives, Both, "<T>(x: T) -> T", "The value itself, which derivatives treat as a constant. In kernels, it accepts numbers, vectors and structs."),
    item(Builtin::WithGrad, "with_grad", Derivatives, Host, "(f, rule)(args…) -> result", "The result of `f`, with the custom derivative `rule` (a custom VJP). `rule(args…, cotangent)` returns the cotangent times the Jacobian of `f` for each argument that is a float or consists of floats (or of a type parameter `T: Num`), as a tuple if there are several. `gradcheck` tests it."),
];
