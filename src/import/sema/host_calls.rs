//! Calls in host code: what functions may do to the variables that are their arguments.

use super::host_declarations::{ArgumentUse, HostDeclarations, HostFunction};
use super::host_values::last_name;
use crate::ast::*;
use rustc_hash::FxHashSet;

/// Functions of libraries that copy their arguments. They do not keep the memory to which an argument points, except
/// that some return it.
const COPYING: [&str; 72] = [
    "printf",
    "fprintf",
    "sprintf",
    "snprintf",
    "puts",
    "putchar",
    "perror",
    "fflush",
    "fopen",
    "fclose",
    "fread",
    "fwrite",
    "fgets",
    "fseek",
    "ftell",
    "memset",
    "memcpy",
    "memcmp",
    "malloc",
    "calloc",
    "free",
    "exit",
    "abort",
    "assert",
    "rand",
    "srand",
    "drand48",
    "srand48",
    "atoi",
    "atol",
    "atoll",
    "atof",
    "strtol",
    "strtoul",
    "strtod",
    "strcmp",
    "strncmp",
    "strlen",
    "strcpy",
    "getenv",
    "time",
    "clock",
    "sqrt",
    "sqrtf",
    "pow",
    "powf",
    "log",
    "log2",
    "exp",
    "expf",
    "sin",
    "cos",
    "sinf",
    "cosf",
    "fabs",
    "fabsf",
    "abs",
    "ceil",
    "ceilf",
    "floor",
    "floorf",
    "round",
    "fmod",
    "fmin",
    "fmax",
    "isnan",
    "isinf",
    "min",
    "max",
    "raw_pointer_cast",
    "usleep",
    "omp_get_wtime",
];

/// Function templates of `std` and `thrust` that copy their arguments.
const ALGORITHMS: [&str; 8] = ["fill", "fill_n", "copy", "copy_n", "sort", "iota", "accumulate", "to_string"];

/// Functions of libraries that return before they use an address that is an argument for the last time.
const READING: [&str; 8] = ["scanf", "fscanf", "sscanf", "gettimeofday", "clock_gettime", "printf", "fprintf", "fread"];

/// Functions of libraries that assign their arguments, and keep no references to them.
const ASSIGNING: [&str; 5] = ["swap", "exchange", "move", "forward", "getline"];
/// Functions that do not write the arrays to which their arguments point.
pub(super) const READERS: [&str; 8] =
    ["printf", "fprintf", "puts", "free", "cudaFree", "cudaFreeAsync", "assert", "cudaMemPrefetchAsync"];

/// Functions that store the address of new memory in their first argument; the second one is the number of bytes.
pub(super) const ALLOCATORS: [&str; 5] =
    ["cudaMalloc", "cudaMallocManaged", "cudaMallocHost", "cudaHostAlloc", "cudaMallocAsync"];

/// Functions that read properties of a kernel.
pub(super) const KERNEL_QUERIES: [&str; 6] = [
    "cudaFuncSetAttribute",
    "cudaFuncSetCacheConfig",
    "cudaFuncSetSharedMemConfig",
    "cudaFuncGetAttributes",
    "cudaOccupancyMaxPotentialBlockSize",
    "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
];

/// Returns whether a method of a container changes nothing and copies its arguments.
fn is_query(name: &str) -> bool {
    let queries =
        ["data", "begin", "end", "cbegin", "cend", "size", "get", "empty", "length", "front", "back", "count", "c_str"];
    queries.contains(&name)
}

/// What a call may do.
pub(super) enum CallEffect<'d> {
    /// A method that changes nothing.
    Query,
    /// A function of the file.
    Own(&'d HostFunction),
    /// A function of a library that copies its arguments, and may keep addresses or not.
    Copies {
        keeps_addresses: bool,
    },
    /// A function of a library that assigns its arguments.
    Assigns,
    Unknown,
}

impl CallEffect<'_> {
    pub(super) fn argument(&self, at: usize) -> ArgumentUse {
        match self {
            CallEffect::Query | CallEffect::Copies { .. } => ArgumentUse::Copied,
            CallEffect::Own(function) => function.argument(at),
            CallEffect::Assigns => ArgumentUse::Changed,
            CallEffect::Unknown => ArgumentUse::Kept,
        }
    }

    pub(super) fn is_own(&self) -> bool {
        matches!(self, CallEffect::Own(_))
    }

    /// Returns whether the function may store an address that is an argument.
    pub(super) fn keeps_addresses(&self) -> bool {
        !matches!(self, CallEffect::Copies { keeps_addresses: false })
    }

    /// Returns whether a method may change its object.
    pub(super) fn changes_object(&self) -> bool {
        !matches!(self, CallEffect::Query)
    }
}

/// Returns the name of a function of a library; `None` if it may be another one. `hidden` contains the names that mean
/// something else in the calling function.
pub(super) fn library_name<'n>(
    name: &'n QualifiedName,
    hidden: &FxHashSet<SmolStr>,
    declarations: &HostDeclarations<'_>,
) -> Option<&'n str> {
    let own = last_name(name);
    let is_library = match &name.segments[..] {
        [_] => true,
        [scope, _] => matches!(scope.name.text.as_str(), "std" | "thrust"),
        _ => false,
    };
    (is_library && !hidden.contains(own) && !declarations.functions.contains_key(own)).then_some(own)
}

/// Returns what a call may do.
pub(super) fn effect<'d>(
    callee: &CppExpr,
    hidden: &FxHashSet<SmolStr>,
    declarations: &'d HostDeclarations<'_>,
) -> CallEffect<'d> {
    let (name, is_method) = match &callee.kind {
        CppExprKind::Name(name) => (name, false),
        CppExprKind::Member { member, .. } => (member, true),
        _ => return CallEffect::Unknown,
    };
    let own = last_name(name);
    let args = name.segments.last().and_then(|last| last.args.as_deref()).unwrap_or_default();
    let is_reference = |arg: &CppTemplateArg| {
        !matches!(arg, CppTemplateArg::Type(ty) if matches!(ty.kind, CppTypeKind::Basic(_) | CppTypeKind::Pointer(_)))
            && !matches!(arg, CppTemplateArg::Value(_))
    };
    // A variable may be called instead. A template argument may make a parameter a reference.
    if (!is_method && hidden.contains(own)) || args.iter().any(is_reference) {
        return CallEffect::Unknown;
    }
    if let Some(function) = declarations.functions.get(own) {
        return CallEffect::Own(function);
    }
    if is_method && is_query(own) {
        return CallEffect::Query;
    }
    let is_qualified = name.segments.len() > 1;
    let library = if is_method { None } else { library_name(name, hidden, declarations) };
    match library {
        // Methods of containers copy what is added.
        None if is_method
            && matches!(own, "resize" | "push_back" | "assign" | "reserve" | "clear" | "at" | "c_str") =>
        {
            CallEffect::Copies { keeps_addresses: true }
        }
        Some(own) if ASSIGNING.contains(&own) && is_qualified => CallEffect::Assigns,
        // The interface of CUDA is that of C.
        Some(name) if is_cuda_function(name) => CallEffect::Copies {
            keeps_addresses: ["Async", "Register", "Launch", "Graph", "Callback", "HostFunc"]
                .iter()
                .any(|word| name.contains(word))
                && name != "cudaMallocAsync",
        },
        Some(name) if READING.contains(&name) => CallEffect::Copies { keeps_addresses: false },
        Some(own) if COPYING.contains(&own) || makes_value(own) || (is_qualified && ALGORITHMS.contains(&own)) => {
            CallEffect::Copies { keeps_addresses: true }
        }
        _ => CallEffect::Unknown,
    }
}

/// Returns whether a function makes a vector of CUDA or a pair from its arguments.
fn makes_value(name: &str) -> bool {
    let made = name.strip_prefix("make_");
    made.is_some_and(|made| matches!(made, "pair" | "tuple") || made.ends_with(|c: char| c.is_ascii_digit()))
}

fn is_cuda_function(name: &str) -> bool {
    name.strip_prefix("cuda").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_uppercase()))
}

/// Returns whether the result of a call may be a reference to an argument that the function does not keep.
pub(super) fn returns_argument(call: &CppExpr) -> bool {
    let CppExprKind::Call { callee, .. } = &call.kind else { return false };
    let CppExprKind::Name(name) = &callee.kind else { return false };
    matches!(last_name(name), "min" | "max" | "move" | "forward" | "swap" | "exchange")
}
