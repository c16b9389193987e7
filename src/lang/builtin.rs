//! The table of builtins: name, group, host or device, signature, documentation. Shared by checker, host, lowering, help,
//! editors and tests.
//!
//! Signatures use the language's own syntax: `T: Num` is a scalar type parameter. If [`Entry::elementwise`] is set, parameters
//! of type `T` also accept vectors, and on the host arrays (elementwise, with broadcasting).

use crate::lang::ops::{AtomicOp, BarrierKind, Family, MathFn, Row, TextFn, WarpOp};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Builtin {
    // Host and device
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
    // Device variables
    ThreadIdx,
    BlockIdx,
    BlockDim,
    GridDim,
    GlobalIdx,
    LaneIdx,
    WarpIdx,
    WarpSize,
    // Device functions
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
    // Host variables
    Args,
    // Host functions
    Load,
    Save,
    Image,
    Plot,
    Heat,
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
    Flip,
    Text(TextFn),
    Parse,
    ReadText,
    WriteText,
    Keys,
    SeedRandom,
    Exit,
    // Arrays on several devices
    Gpus,
    Shard,
    Gather,
    // Host functions of the processes that run a script together
    Together(Together),
    // Derivatives of host functions
    Derive(Derivative),
    NoGrad,
    WithGrad,
}

/// A derivative of a host function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Derivative {
    /// Of a scalar, by parameters.
    Gradient,
    /// The same, with the scalar.
    ValueAndGradient,
    /// The result, and the product of a cotangent with the Jacobian.
    Vjp,
    /// The result, and the product of the Jacobian with a tangent.
    Jvp,
    /// Of an array by an array.
    Jacobian,
    /// The Jacobian of the gradient.
    Hessian,
    /// None: the derivative is compared with differences.
    Check,
}

/// What the processes that run one script do together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Together {
    /// The number of this process.
    Rank,
    /// The number of all.
    Ranks,
    AllReduce,
    AllGather,
    ReduceScatter,
    Broadcast,
    Send,
    Receive,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Worlds {
    Both,
    Device,
    Host,
}

/// The groups of builtins in the reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Group {
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
pub struct Entry {
    pub builtin: Builtin,
    pub name: &'static str,
    pub group: Group,
    pub worlds: Worlds,
    /// Whether parameters of type `T` also accept vectors and, on the host, arrays.
    pub elementwise: bool,
    /// The text after the name; `: type` for a variable.
    pub signature: &'static str,
    /// Documentation in Markdown, one or more sentences.
    pub doc: &'static str,
}

impl Entry {
    /// Whether a function of the host is one of expressions of tiles as well, in kernels.
    pub fn in_tiles(&self) -> bool {
        matches!(self.builtin, Builtin::Sum | Builtin::Transpose | Builtin::Reshape | Builtin::Arange)
    }

    /// Where the builtin can be used, as a sentence.
    pub fn place(&self) -> &'static str {
        match self.worlds {
            Worlds::Both => "On the host and in kernels.",
            Worlds::Device => "In kernels and the functions they call.",
            Worlds::Host if self.in_tiles() => "In scripts; in kernels only in expressions of tiles.",
            Worlds::Host => "In scripts, not in kernels.",
        }
    }
}

/// Returns the entry of a name.
pub fn find(name: &str) -> Option<&'static Entry> {
    TABLE.iter().find(|e| e.name == name)
}

impl Builtin {
    pub fn entry(self) -> &'static Entry {
        TABLE.iter().find(|e| e.builtin == self).expect("every builtin is in the table")
    }

    pub fn name(self) -> &'static str {
        self.entry().name
    }

    /// Whether a call can do something besides giving a value, or gives a value that does not depend on its arguments alone.
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

use Group::*;
use TextFn as T;
use Worlds::*;

const fn item(
    b: Builtin,
    name: &'static str,
    group: Group,
    worlds: Worlds,
    signature: &'static str,
    doc: &'static str,
) -> Entry {
    Entry { builtin: b, name, group, worlds, elementwise: false, signature, doc }
}

const fn text(f: TextFn, name: &'static str, signature: &'static str, doc: &'static str) -> Entry {
    item(Builtin::Text(f), name, Group::Text, Host, signature, doc)
}

const IDX3: &str = ": i32x3";
const ATOMIC_NUM: &str = "<T: Num>(place: T, value: T) -> T";
const ATOMIC_INT: &str = "<T: Int>(place: T, value: T) -> T";
const SHUFFLE: &str = "<T: Any>(v: T, lane: i32, among: u32 = all) -> T";
const VOTE: &str = "(p: bool, among: u32 = all) -> bool";
const REDUCE_NUM: &str = "<T: Num>(v: T, among: u32 = all) -> T";
const REDUCE_INT: &str = "<T: Int>(v: T, among: u32 = all) -> T";

/// All builtins: the mathematical functions, then the others.
pub static TABLE: &[Entry] = &table();

const fn table() -> [Entry; MathFn::TABLE.len() + OTHERS.len()] {
    let functions = MathFn::TABLE.len();
    let mut all = [OTHERS[0]; MathFn::TABLE.len() + OTHERS.len()];
    let mut at = 0;
    while at < all.len() {
        all[at] = if at < functions { math(&MathFn::TABLE[at]) } else { OTHERS[at - functions] };
        at += 1;
    }
    all
}

const fn math(row: &Row) -> Entry {
    let group = match row.family {
        Family::Numbers => Arithmetic,
        Family::Integers => Integer,
        Family::Floats | Family::Tests | Family::Approximations | Family::Powers | Family::Singles => Float,
    };
    let Row { function, name, signature, doc, .. } = *row;
    Entry { builtin: Builtin::Math(function), name, group, worlds: Both, elementwise: true, signature, doc }
}

#[rustfmt::skip]
const OTHERS: &[Entry] = &[
    // Values and shapes
    Entry { builtin: Builtin::Select, name: "select", group: Value, worlds: Both, elementwise: true, signature: "<T: Any>(cond: bool, then: T, other: T) -> T", doc: "`then` where `cond` holds, else `other`; both are evaluated." },
    item(Builtin::CeilDiv, "ceil_div", Integer, Both, "<T: Int>(x: T, y: T) -> T", "`x / y` rounded up, for `x >= 0` and `y > 0`: how many blocks of `y` cover `x`."),
    item(Builtin::Bitcast, "bitcast", Value, Both, "<T>(type, x: T) -> type", "The same bits as another type of the same size: `bitcast(u32, 1.0)`. On the host the elements of a whole array may get another size: `bitcast(f32x4, x)` has a quarter of the last extent."),
    item(Builtin::Len, "len", Value, Both, "(x: array) -> i32", "The extent of the first axis. On the host also the number of characters of a text, of texts in an array of them, and of columns of a table."),
    item(Builtin::Shape, "shape", Value, Both, "(x: array) -> (i32, …)", "The extents of all axes, outermost first, as a tuple. `shape(x, k)` is one of them."),
    item(Builtin::Assert, "assert", Value, Both, "(cond: bool, message: str = \"\")", "Stops with a fault at this line unless `cond` holds. On the host an array of `bool` has to be true throughout; the first element that is not is shown."),
    item(Builtin::Print, "print", Value, Both, "(values…)", "Writes the values, separated by spaces, and a newline. From kernels: block by block, in block order."),
    item(Builtin::Dot, "dot", Value, Both, "(a: vector, b: vector) -> scalar", "The sum of the products of the lanes of two vectors; on the host also of two 1-d arrays (of integers as `sum`)."),
    item(Builtin::Cross, "cross", Value, Both, "(a: vector, b: vector) -> vector", "The cross product of two vectors of three floats."),
    item(Builtin::Length, "length", Value, Both, "(v: vector) -> scalar", "The Euclidean length of a vector of floats: `sqrt(dot(v, v))`. The extent of an array is `len`."),
    item(Builtin::Normalize, "normalize", Value, Both, "(v: vector) -> vector", "The vector of floats divided by its length; NaN where that is 0."),
    // Position of a thread
    item(Builtin::ThreadIdx, "thread_idx", Index, Device, IDX3, "The thread's place in its block (`.x .y .z`; x varies fastest)."),
    item(Builtin::BlockIdx, "block_idx", Index, Device, IDX3, "The block's place in the grid."),
    item(Builtin::BlockDim, "block_dim", Index, Device, IDX3, "The extents of a block."),
    item(Builtin::GridDim, "grid_dim", Index, Device, IDX3, "The extents of the grid, in blocks."),
    item(Builtin::GlobalIdx, "global_idx", Index, Device, IDX3, "`block_idx * block_dim + thread_idx`."),
    item(Builtin::LaneIdx, "lane_idx", Index, Device, ": i32", "The thread's place in its warp, 0 to 31."),
    item(Builtin::WarpIdx, "warp_idx", Index, Device, ": i32", "The warp's place in its block."),
    item(Builtin::WarpSize, "warp_size", Index, Device, ": i32", "32."),
    // Barriers
    item(Builtin::Barrier(BarrierKind::Block), "barrier", Barrier, Device, "()", "Waits until every thread of the block is here; what they wrote before is seen by all after."),
    item(Builtin::Barrier(BarrierKind::BlockAny), "barrier_any", Barrier, Device, "(p: bool) -> bool", "A barrier that tells every thread whether `p` held for any."),
    item(Builtin::Barrier(BarrierKind::BlockAll), "barrier_all", Barrier, Device, "(p: bool) -> bool", "A barrier that tells every thread whether `p` held for all."),
    item(Builtin::Barrier(BarrierKind::BlockCount), "barrier_count", Barrier, Device, "(p: bool) -> i32", "A barrier that tells every thread for how many `p` held."),
    item(Builtin::Barrier(BarrierKind::Warp), "warp_barrier", Barrier, Device, "()", "Waits until every thread of the warp is here."),
    item(Builtin::Barrier(BarrierKind::Grid), "grid_barrier", Barrier, Device, "()", "Waits until every thread of the grid is here. The launch is cooperative: all blocks run at once, so the grid has to fit the device."),
    item(Builtin::Fence, "fence", Barrier, Device, "()", "Writes before it are seen by every thread of the device before writes after it."),
    item(Builtin::FenceBlock, "fence_block", Barrier, Device, "()", "As `fence`, for the threads of the block."),
    // Atomics
    item(Builtin::Atomic(AtomicOp::Add), "atomic_add", Atomic, Device, ATOMIC_NUM, "Adds to a place at once and returns what was there: `atomic_add(hist[b], 1)`."),
    item(Builtin::Atomic(AtomicOp::Sub), "atomic_sub", Atomic, Device, ATOMIC_NUM, "Subtracts at once; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Min), "atomic_min", Atomic, Device, ATOMIC_NUM, "Keeps the smaller one; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Max), "atomic_max", Atomic, Device, ATOMIC_NUM, "Keeps the larger one; returns the old value."),
    item(Builtin::Atomic(AtomicOp::And), "atomic_and", Atomic, Device, ATOMIC_INT, "Bitwise and, of integers and `bool`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Or), "atomic_or", Atomic, Device, ATOMIC_INT, "Bitwise or, of integers and `bool`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Xor), "atomic_xor", Atomic, Device, ATOMIC_INT, "Bitwise exclusive or, of integers and `bool`; returns the old value."),
    item(Builtin::Atomic(AtomicOp::Exchange), "atomic_exchange", Atomic, Device, "<T: Any>(place: T, value: T) -> T", "Stores a value and returns the old one."),
    item(Builtin::Atomic(AtomicOp::CompareExchange), "atomic_compare_exchange", Atomic, Device, "<T: Any>(place: T, expected: T, value: T) -> T", "Stores `value` if the place holds `expected`; returns the old value."),
    item(Builtin::AtomicLoad, "atomic_load", Atomic, Device, "<T: Any>(place: T) -> T", "What a place holds that other threads change by atomic operations meanwhile: `while atomic_load(flag[0]) == 0 { }`. It does not order other memory."),
    item(Builtin::AtomicStore, "atomic_store", Atomic, Device, "<T: Any>(place: T, value: T)", "Stores a value at a place that other threads read or change by atomic operations meanwhile. It does not order other memory: a `fence()` before it does."),
    // Warps
    item(Builtin::Warp(WarpOp::Shuffle), "shuffle", Warp, Device, SHUFFLE, "The value of `v` in lane `lane`. `among` has the bits of the lanes that take part, which all come here; without it all lanes of the warp do."),
    item(Builtin::Warp(WarpOp::ShuffleUp), "shuffle_up", Warp, Device, SHUFFLE, "The value of `v` in the lane `lane` places below; the own one where there is none."),
    item(Builtin::Warp(WarpOp::ShuffleDown), "shuffle_down", Warp, Device, SHUFFLE, "The value of `v` in the lane `lane` places above; the own one where there is none."),
    item(Builtin::Warp(WarpOp::ShuffleXor), "shuffle_xor", Warp, Device, SHUFFLE, "The value of `v` in lane `lane_idx ^ lane`: a butterfly."),
    item(Builtin::Warp(WarpOp::Ballot), "ballot", Warp, Device, "(p: bool, among: u32 = all) -> u32", "Bit l is set where `p` holds in lane l. `ballot(p)` before `if p { … }` says which lanes go there, for the `among` of warp operations inside."),
    item(Builtin::Warp(WarpOp::Any), "warp_any", Warp, Device, VOTE, "Whether `p` holds in any lane."),
    item(Builtin::Warp(WarpOp::All), "warp_all", Warp, Device, VOTE, "Whether `p` holds in every lane."),
    item(Builtin::Warp(WarpOp::ReduceAdd), "warp_reduce_add", Warp, Device, REDUCE_NUM, "The sum over the warp, in the order of a butterfly (xor 16, 8, 4, 2, 1), in every lane; among some lanes in the order of their numbers."),
    item(Builtin::Warp(WarpOp::ReduceMin), "warp_reduce_min", Warp, Device, REDUCE_NUM, "The smallest over the warp, in every lane."),
    item(Builtin::Warp(WarpOp::ReduceMax), "warp_reduce_max", Warp, Device, REDUCE_NUM, "The largest over the warp, in every lane."),
    item(Builtin::Warp(WarpOp::ReduceAnd), "warp_reduce_and", Warp, Device, REDUCE_INT, "Bitwise and over the warp."),
    item(Builtin::Warp(WarpOp::ReduceOr), "warp_reduce_or", Warp, Device, REDUCE_INT, "Bitwise or over the warp."),
    item(Builtin::Warp(WarpOp::ReduceXor), "warp_reduce_xor", Warp, Device, REDUCE_INT, "Bitwise exclusive or over the warp."),
    item(Builtin::Warp(WarpOp::MatchAny), "match_any", Warp, Device, "<T: Any>(v: T, among: u32 = all) -> u32", "The bits of the lanes whose `v` is the same as this one's, bit for bit: the group that the lane belongs to, for the `among` of other warp operations."),
    // Tiles
    item(Builtin::Mma, "mma", Tiles, Device, "<T: Float>(acc: [f32; M, N], a: [T; M, K], b: [T; K, N]) -> [f32; M, N]", "The sum of a tile and the product of two, as tensor cores compute it. `T` is `f16` or `bf16`, or `f32` that is rounded by `tf32`, as in `mma(acc, tf32(a[i..i + 16, ..]), tf32(b[.., j..j + 16]))`. For each element, groups of 16 terms, of `tf32` 8, in the order of `k`: the terms of a group and the sum so far are cut to 25 bits below the largest of them, added exactly, and cut to an `f32`."),
    // Memory hints
    item(Builtin::Cached, "cached", Memory, Device, "<T: Any>(place: T) -> T", "Loads (or stores, on the left of `=`) with the hint that the value will be used again soon."),
    item(Builtin::Streaming, "streaming", Memory, Device, "<T: Any>(place: T) -> T", "Loads (or stores) with the hint that the value will not be used again soon."),
    // Host: creating arrays
    item(Builtin::Linspace, "linspace", Create, Host, "(start: f32, stop: f32, n: i32) -> [f32; n]", "`n` values from `start` to `stop`, both included. `f64` if the ends are."),
    item(Builtin::Arange, "arange", Create, Host, "<T: Num>(stop: T) -> [T; _]", "0, 1, … below `stop`; `arange(start, stop)` and `arange(start, stop, step)`. Element `i` is `start + i * step`, of floats rounded once to their type; all are strictly below `stop`, or above it for a negative step. So `arange(0.0, 0.3, 0.1)` has three elements."),
    item(Builtin::Zeros, "zeros", Create, Host, "(dims…, type = f32) -> array", "An array of zeros: `zeros(3, 4)`, `zeros(n, type = i32)`. Without a `type` the elements are floats, unless a stated type requires integers: `let x: [i32; 3] = zeros(3)`, or an argument for a parameter that is declared as such."),
    item(Builtin::Ones, "ones", Create, Host, "(dims…, type = f32) -> array", "An array of ones: `ones(3, 4)`, `ones(n, type = i32)`. Its elements are floats by the rule of `zeros`."),
    item(Builtin::Full, "full", Create, Host, "<T: Any>(dims…, value: T) -> array", "An array of one value, which comes last: `full(3, 4, 0.5)`."),
    item(Builtin::Eye, "eye", Create, Host, "(n: i32, type = f32) -> [f32; n, n]", "The identity matrix. Its elements are floats by the rule of `zeros`."),
    item(Builtin::Random, "random", Create, Host, "(dims…, seed = next, type = f32) -> array", "Uniform numbers in [0, 1) by Philox 4x32-10. Each call goes on in the script's one stream, whose seed is 0 or `--seed`; a `seed` of its own gives the same numbers every time. They are the same on every machine."),
    item(Builtin::RandomNormal, "random_normal", Create, Host, "(dims…, seed = next, type = f32) -> array", "Normal numbers of mean 0 and deviation 1 (Philox and Box-Muller), from the script's stream as `random` is."),
    item(Builtin::RandomInt, "random_int", Create, Host, "<T: Int>(low: T, high: T, dims…, seed = next) -> array", "Uniform integers from `low` to below `high`, from the script's stream as `random` is."),
    // Host: reducing
    item(Builtin::Sum, "sum", Reduce, Host, "<T: Num>(x: [T; …], axis = all) -> T", "The sum of all elements, or along one axis, or several as in `axis = (0, 1)` (floats in f64, rounded once, in an order that the length alone determines). Of integers it is exact, or an error where it does not fit; of 8- and 16-bit integers it is an `i64` or `u64`."),
    item(Builtin::Prod, "prod", Reduce, Host, "<T: Num>(x: [T; …], axis = all) -> T", "The product; of integers as `sum`."),
    item(Builtin::Mean, "mean", Reduce, Host, "<T: Float>(x: [T; …], axis = all) -> T", "The mean."),
    item(Builtin::Argmin, "argmin", Reduce, Host, "(x: array, axis = all) -> i32", "The position of the first smallest element, in the order of memory, or along an axis."),
    item(Builtin::Argmax, "argmax", Reduce, Host, "(x: array, axis = all) -> i32", "The position of the first largest element."),
    item(Builtin::All, "all", Reduce, Host, "(x: [bool; …], axis = all) -> bool", "Whether every element is true."),
    item(Builtin::Any, "any", Reduce, Host, "(x: [bool; …], axis = all) -> bool", "Whether any element is true."),
    item(Builtin::Close, "close", Reduce, Host, "(a, b, rtol = 1e-5, atol = 1e-8) -> [bool; …]", "Elementwise `abs(a - b) <= atol + rtol * abs(b)`; NaN is close to NaN. `assert(close(a, b))` shows the first that is not."),
    item(Builtin::Cumsum, "cumsum", Reduce, Host, "<T: Num>(x: [T; N], axis = 0) -> [T; N]", "Running sums; of integers as `sum`. An array of several axes needs the `axis`."),
    // Host: rearranging
    item(Builtin::Reshape, "reshape", Rearrange, Host, "(x: array, dims…) -> array", "The same elements in another shape; one dimension may be -1."),
    item(Builtin::Transpose, "transpose", Rearrange, Host, "(x: array) -> array", "The axes in reverse order."),
    item(Builtin::Concat, "concat", Rearrange, Host, "(a: array, b: array, …, axis = 0) -> array", "Arrays joined along an axis."),
    item(Builtin::Stack, "stack", Rearrange, Host, "(a: array, b: array, …) -> array", "Arrays of one shape along a new first axis."),
    item(Builtin::Sort, "sort", Rearrange, Host, "<T: Num>(x: [T; N]) -> [T; N]", "In ascending order, NaN last. Texts go by their characters' numbers in Unicode. `sort(keys, values)` gives the keys and the values, or rows of them, in the order of the keys, as a tuple: `keys[at]` and `values[at]` with `at = argsort(keys)`."),
    item(Builtin::Argsort, "argsort", Rearrange, Host, "<T: Num>(x: [T; N]) -> [i32; N]", "The positions of the elements in ascending order: `x[argsort(x)]` is sorted. Equal elements stay in their order, NaN come last."),
    item(Builtin::Flip, "flip", Rearrange, Host, "(x: array, axis = 0) -> array", "In reverse order along an axis."),
    // Host: text
    text(T::Split, "split", "(text: str, separator: str) -> [str; _]", "The parts of a text between its separators: `split(\"a,b\", \",\")` is `[\"a\", \"b\"]`. `split(text)` gives its words: what stands between white space."),
    text(T::Lines, "lines", "(text: str) -> [str; _]", "The lines of a text, without their ends (`\\n` or `\\r\\n`)."),
    text(T::Join, "join", "(parts: [str; _], separator: str) -> str", "One text of many, with the separator between each two."),
    text(T::Trim, "trim", "(text: str) -> str", "The text without the white space at both ends. As all functions of text but `split`, `lines` and `join`, it works element by element on an array of texts."),
    text(T::Find, "find", "(text: str, part: str) -> i32", "At which character the first `part` begins; -1 if there is none."),
    text(T::Contains, "contains", "(text: str, part: str) -> bool", "Whether `part` is somewhere in the text. Whether a text is one of several is `any(names == \"Ann\")`."),
    text(T::StartsWith, "starts_with", "(text: str, part: str) -> bool", "Whether the text begins with `part`."),
    text(T::EndsWith, "ends_with", "(text: str, part: str) -> bool", "Whether the text ends with `part`."),
    text(T::Replace, "replace", "(text: str, part: str, by: str) -> str", "The text with `by` for each `part`, from left to right."),
    text(T::Upper, "upper", "(text: str) -> str", "The text in capital letters."),
    text(T::Lower, "lower", "(text: str) -> str", "The text in small letters."),
    item(Builtin::Parse, "parse", Group::Text, Host, "(type, text: str) -> type", "The number that a text spells: `parse(i32, args[0])`; an error shows the text. `parse(f64, parts)` reads each of an array of texts."),
    // Host: files and pictures
    item(Builtin::Load, "load", Files, Host, "(path: str) -> array", "Reads .npy, .npz, .safetensors, .csv or .png. Several arrays in one file become fields: `m.weight`, `m[\"weight\"]`, and so do the columns of a .csv file whose first line names them; a column is an array of `f64`, or of texts. Blanks can separate numbers without names, as NumPy's `savetxt` writes them; lines before the first one that begin with `#` are comments. A member of an archive whose type Clk does not have is an error where it is read. The element type is the file's; `let x: [f32; N] = load(…)` checks it."),
    item(Builtin::Save, "save", Files, Host, "(path: str, arrays…)", "Writes .npy, .csv or .png of one array, .npz or .safetensors of named ones: `save(\"out.npz\", y = y)`; .csv of named columns, which may be texts, or of a table. The file appears whole or not at all."),
    item(Builtin::Keys, "keys", Files, Host, "(table) -> [str; _]", "The names of a table's columns or arrays: `for name in keys(t) { print(name, t[name]) }`. A table is what `load` gives of a file with several."),
    item(Builtin::ReadText, "read_text", Files, Host, "(path: str) -> str", "The text of a file in UTF-8, whatever its name ends in: `lines(read_text(\"notes.txt\"))` are its lines. A mark of the byte order at its start is left out."),
    item(Builtin::WriteText, "write_text", Files, Host, "(path: str, text: str)", "Writes a text to a file as it is: `write_text(\"notes.txt\", join(parts, \"\\n\"))`. The file appears whole or not at all."),
    item(Builtin::Image, "image", Files, Host, "(path: str, x: array)", "Writes a picture: [H, W] grey or [H, W, 3 or 4] colour, u8 as it is or floats from 0 to 1, to a PNG or SVG file. `image(x)` shows it in the terminal."),
    item(Builtin::Plot, "plot", Files, Host, "(x: array, y: array, path: str)", "Draws a line to a PNG or SVG file; without a path in the terminal. `plot(y)` counts from 0."),
    item(Builtin::Heat, "heat", Files, Host, "(x: array, path: str)", "Shows a two-dimensional array of any numbers in colors, from the least element (dark) to the greatest (bright), in a PNG or SVG file; without a path in the terminal."),
    // Host: the script
    item(Builtin::Args, "args", Script, Host, ": [str; _]", "The arguments behind the script's name: `args[0]`, `len(args)`."),
    item(Builtin::SeedRandom, "seed_random", Script, Host, "(seed: i64)", "Begins the script's stream of random numbers anew, with this seed: after `seed_random(7)`, `random(3)` gives what it gives first under `clk run --seed 7`. It does not change calls with a `seed` of their own."),
    item(Builtin::Exit, "exit", Script, Host, "(code: i32 = 0)", "Ends the script, with an exit code from 0 to 255 for whoever started it. What was printed is written, and launches that still run are waited for; one that failed is reported and the code is 1."),
    // Host: several devices
    item(Builtin::Gpus, "gpus", Devices, Host, "(n: i32) -> [i32; n]", "The numbers of the first `n` devices: GPUs, or on a simulator the virtual devices of `--device sim:N`. There have to be as many."),
    item(Builtin::Shard, "shard", Devices, Host, "(x: array, devices: [i32; _], axis = 0, halo = 0, granule = even) -> array", "The same array, cut along an axis into one part for each device: `shard(x, gpus(2), axis = 0, halo = 1)`. Each part lives on its device, with `halo` rows of its neighbors. Expressions, reductions and launches on it run on all devices, and give the same bits as on one. The cuts are even, at multiples of `granule` rows."),
    item(Builtin::Gather, "gather", Devices, Host, "(x: array) -> array", "The same array on one device, put together from its parts."),
    // Host: several processes
    item(Builtin::Together(Together::Rank), "rank", Ranks, Host, "() -> i32", "The number of this process among those that run the script together, from 0 on; 0 if it runs alone. `clk run --ranks 2`, torchrun, mpirun and srun start several."),
    item(Builtin::Together(Together::Ranks), "ranks", Ranks, Host, "() -> i32", "The number of processes that run the script together; 1 if it runs alone."),
    item(Builtin::Together(Together::AllReduce), "all_reduce", Ranks, Host, "<T: Num>(x: T, op = \"sum\") -> T", "The sum (or \"prod\", \"min\", \"max\") of the `x` of all ranks, element by element, on each of them. Floats are added in the order of the ranks, on GPUs in NCCL's; a sum of integers is exact, or an error where it does not fit."),
    item(Builtin::Together(Together::AllGather), "all_gather", Ranks, Host, "(x) -> array", "The `x` of all ranks, joined along the first axis in the order of the ranks, on each of them; numbers become an array."),
    item(Builtin::Together(Together::ReduceScatter), "reduce_scatter", Ranks, Host, "<T: Num>(x: [T; …], op = \"sum\") -> [T; …]", "This rank's part of `all_reduce(x)`, which is cut along the first axis into as many equal parts as there are ranks."),
    item(Builtin::Together(Together::Broadcast), "broadcast", Ranks, Host, "<T: Any>(x: T, from = 0) -> T", "The `x` of one rank, on all of them; the others give one of the same type and shape."),
    item(Builtin::Together(Together::Send), "send", Ranks, Host, "(x, to: i32)", "Sends a number or an array to another rank, which has to `receive` it. It does not wait for that."),
    item(Builtin::Together(Together::Receive), "receive", Ranks, Host, "<T: Any>(like: T, from: i32) -> T", "What another rank sends, which has to have the type and the shape of `like`. What one rank sends to another arrives in order."),
    // Host: derivatives
    item(Builtin::Derive(Derivative::Gradient), "grad", Derivatives, Host, "(f, wrt = first)(args…) -> parameter", "The gradient of a function that gives one float, at these arguments: `grad(loss)(w, x, y)` by its first parameter, `grad(loss, wrt = (w, b))(w, b)` by those that are named. Where the derivative would be lost, it is refused at that line."),
    item(Builtin::Derive(Derivative::ValueAndGradient), "value_and_grad", Derivatives, Host, "(f, wrt = first)(args…) -> (result, parameter)", "What the function gives, and its gradient, for the work of the gradient alone."),
    item(Builtin::Derive(Derivative::Vjp), "vjp", Derivatives, Host, "(f, wrt = first)(args…, cotangent: result) -> (result, parameter)", "What the function gives, and a cotangent (one number for each that the function gives) times its Jacobian: the gradient of `sum(cotangent * f(x))`."),
    item(Builtin::Derive(Derivative::Jvp), "jvp", Derivatives, Host, "(f, wrt = first)(args…, tangent: parameter) -> (result, result)", "What the function gives, and its Jacobian times a tangent: the derivative along the tangent, computed along with the result."),
    item(Builtin::Derive(Derivative::Jacobian), "jacobian", Derivatives, Host, "(f, wrt = first)(args…) -> array", "The derivatives of all numbers of the result by all numbers of the parameter; its shape is that of the result followed by that of the parameter."),
    item(Builtin::Derive(Derivative::Hessian), "hessian", Derivatives, Host, "(f, wrt = first)(args…) -> array", "The second derivatives of a function that gives one float."),
    item(Builtin::Derive(Derivative::Check), "gradcheck", Derivatives, Host, "(f, args…, wrt = first)", "Checks the derivative of a function at these arguments, and stops with an error if it is wrong: along random directions that are always the same, forward and reverse mode have to agree with each other, and with differences of the function computed in `f64`. `gradcheck(loss, w, x, y, wrt = (w, b))` checks by the parameters that are named."),
    item(Builtin::NoGrad, "no_grad", Derivatives, Both, "<T>(x: T) -> T", "The value itself, taken as a constant by derivatives; in kernels of numbers, vectors and structs."),
    item(Builtin::WithGrad, "with_grad", Derivatives, Host, "(f, rule)(args…) -> result", "What `f` gives, with a derivative that `rule` states: `rule(args…, cotangent)` is the cotangent times the Jacobian of `f`, for each argument that is a float or consists of floats (or of a type parameter `T: Num`), as a tuple if there are several. `gradcheck` tests it."),
];
