//! The names that decide between readings: whether `a * b` declares a pointer, and whether `a < b` starts template
//! arguments.

use crate::ast::{QualifiedName, SmolStr};
use rustc_hash::FxHashMap;

/// The role of a name in the grammar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameRole {
    /// A variable, function, enumerator or other value.
    Value,
    FunctionTemplate,
    Type,
    ClassTemplate,
    Namespace,
    /// A name that no declaration in the file introduces.
    Unknown,
}

type ScopeNames = FxHashMap<SmolStr, NameRole>;

/// The scopes around the current position, and the members of classes and namespaces.
#[derive(Default)]
pub(super) struct NameScopes {
    open: Vec<OpenNames>,
    /// The names of classes and namespaces that are closed, by their own name.
    members: FxHashMap<SmolStr, ScopeNames>,
    /// The namespaces of `using namespace`.
    used: Vec<SmolStr>,
}

#[derive(Default)]
struct OpenNames {
    /// The class or namespace, if it is one.
    owner: Option<SmolStr>,
    names: ScopeNames,
}

impl NameScopes {
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    pub fn push(&mut self) {
        self.open.push(OpenNames::default());
    }

    /// Opens the scope of a class or namespace, which contains what was declared in it before.
    pub fn push_owner(&mut self, owner: &SmolStr) {
        let names = self.members.get(owner).cloned().unwrap_or_default();
        self.open.push(OpenNames { owner: Some(owner.clone()), names });
    }

    pub fn pop(&mut self) {
        if let Some(scope) = self.open.pop()
            && let Some(owner) = scope.owner
        {
            self.members.entry(owner).or_default().extend(scope.names);
        }
    }

    /// Closes scopes until `depth` ones are open.
    pub fn pop_to(&mut self, depth: usize) {
        while self.open.len() > depth {
            self.pop();
        }
    }

    pub fn declare(&mut self, name: &SmolStr, role: NameRole) {
        if let Some(scope) = self.open.last_mut() {
            // A function template and a function may share a name.
            let kept = scope.names.get(name).copied();
            if role == NameRole::Value && kept == Some(NameRole::FunctionTemplate) {
                return;
            }
            scope.names.insert(name.clone(), role);
        }
    }

    /// Declares a name in the scope around the innermost one, as enumerators and members of unnamed namespaces are.
    pub fn declare_outside(&mut self, name: &SmolStr, role: NameRole) {
        if let Some(at) = self.open.len().checked_sub(2) {
            self.open[at].names.insert(name.clone(), role);
        }
    }

    pub fn use_namespace(&mut self, name: &SmolStr) {
        if !self.used.contains(name) {
            self.used.push(name.clone());
        }
    }

    /// Makes the members of a base class or namespace visible in the innermost scope.
    pub fn inherit(&mut self, owner: &SmolStr) {
        if let Some(members) = self.members.get(owner).cloned()
            && let Some(scope) = self.open.last_mut()
        {
            for (name, role) in members {
                scope.names.entry(name).or_insert(role);
            }
        }
    }

    /// Makes an alias of a class or namespace.
    pub fn alias(&mut self, name: &SmolStr, target: &SmolStr) {
        if let Some(members) = self.members.get(target).cloned() {
            self.members.insert(name.clone(), members);
        }
    }

    pub fn find(&self, name: &SmolStr) -> NameRole {
        let open = self.open.iter().rev().find_map(|scope| scope.names.get(name));
        let role = open.or_else(|| self.used.iter().find_map(|owner| self.members.get(owner)?.get(name)));
        match role {
            Some(role) => *role,
            None if is_library_type(name) => NameRole::Type,
            None if LIBRARY_NAMESPACES.contains(&name.as_str()) => NameRole::Namespace,
            None => NameRole::Unknown,
        }
    }

    /// Returns the role of a member of a class or namespace, given by its own name.
    pub fn find_member(&self, owner: &SmolStr, name: &SmolStr) -> NameRole {
        let open = self.open.iter().rev().find(|scope| scope.owner.as_ref() == Some(owner));
        let role = open.and_then(|scope| scope.names.get(name)).or_else(|| self.members.get(owner)?.get(name));
        match role {
            Some(role) => *role,
            None if LIBRARY_NAMESPACES.contains(&owner.as_str()) => library_member(owner, name),
            None => NameRole::Unknown,
        }
    }

    /// Returns the role of a qualified name.
    pub fn find_qualified(&self, name: &QualifiedName) -> NameRole {
        match &name.segments[..] {
            [] => NameRole::Unknown,
            [only] => self.find(&only.name.text),
            [.., owner, last] => self.find_member(&owner.name.text, &last.name.text),
        }
    }
}

/// Namespaces of libraries whose headers are not read.
const LIBRARY_NAMESPACES: &[&str] =
    &["std", "thrust", "cub", "cuda", "cooperative_groups", "nvcuda", "wmma", "experimental", "chrono"];

fn library_member(owner: &str, name: &str) -> NameRole {
    let types = [
        "vector",
        "pair",
        "tuple",
        "array",
        "string",
        "map",
        "unordered_map",
        "set",
        "complex",
        "numeric_limits",
        "function",
        "device_vector",
        "host_vector",
        "device_ptr",
        "fragment",
        "thread_block",
        "thread_group",
        "grid_group",
        "thread_block_tile",
        "coalesced_group",
        "is_same",
        "enable_if",
        "conditional",
        "atomic",
        "optional",
        "variant",
        "BlockReduce",
        "BlockScan",
        "WarpReduce",
        "BlockLoad",
        "BlockStore",
        "unique_ptr",
        "shared_ptr",
        "mt19937",
        "ifstream",
        "ofstream",
        "ostream",
        "istream",
        "stringstream",
        "less",
        "greater",
        "plus",
        "minus",
        "multiplies",
        "maximum",
        "minimum",
        "integral_constant",
        "is_integral",
        "is_floating_point",
        "remove_reference",
        "remove_const",
        "decay",
        "atomic_ref",
        "bfloat16",
        "barrier",
        "pipeline",
        "initializer_list",
        "default_random_engine",
        "uniform_real_distribution",
        "uniform_int_distribution",
        "normal_distribution",
        "time_point",
        "duration",
        "high_resolution_clock",
        "steady_clock",
    ];
    let nested = [
        "chrono",
        "experimental",
        "wmma",
        "placeholders",
        "literals",
        "this_thread",
        "numbers",
        "ranges",
        "filesystem",
        "pipeline",
    ];
    if types.contains(&name) || (name.ends_with("_t") && !name.ends_with("_cast_t")) {
        NameRole::Type
    } else if nested.contains(&name) && owner != name {
        NameRole::Namespace
    } else {
        NameRole::Unknown
    }
}

/// Returns whether the headers of CUDA or of the C library declare a type of this name.
pub(super) fn is_library_type(name: &str) -> bool {
    is_vector_type(name)
        || SCALAR_TYPES.contains(&name)
        || (name.starts_with("cuda")
            && (name.ends_with("_t") || name.ends_with("Prop") || name.ends_with("Attributes")))
        || (name.starts_with("curandState") || name.starts_with("curandStatePhilox"))
        || (name.starts_with("cu") && name.ends_with("Handle_t"))
}

/// The scalar and structure types of the headers that are not read.
#[rustfmt::skip]
const SCALAR_TYPES: &[&str] = &[
    "size_t", "ssize_t", "ptrdiff_t", "intptr_t", "uintptr_t", "intmax_t", "uintmax_t", "off_t", "time_t", "clock_t", "wint_t",
    "int8_t", "int16_t", "int32_t", "int64_t", "uint8_t", "uint16_t", "uint32_t", "uint64_t", "uint", "ushort", "ulong", "uchar",
    "u_int8_t", "u_int16_t", "u_int32_t", "u_int64_t", "int_fast8_t", "int_fast16_t", "int_fast32_t", "int_fast64_t", "uint_fast8_t",
    "uint_fast16_t", "uint_fast32_t", "uint_fast64_t", "int_least8_t", "int_least16_t", "int_least32_t", "int_least64_t",
    "uint_least8_t", "uint_least16_t", "uint_least32_t", "uint_least64_t", "max_align_t", "nullptr_t", "float_t", "double_t",
    "dim3", "half", "half2", "__half", "__half2", "__half_raw", "__half2_raw", "nv_bfloat16", "nv_bfloat162", "__nv_bfloat16",
    "__nv_bfloat162", "__nv_fp8_e4m3", "__nv_fp8_e5m2", "__nv_fp8x2_e4m3", "__nv_fp8x4_e4m3", "__int64", "__uint128_t", "__int128_t",
    "cudaTextureObject_t", "cudaSurfaceObject_t", "cudaDeviceProp", "cudaChannelFormatDesc", "cudaArray", "cudaExtent",
    "cudaPitchedPtr", "cudaResourceDesc", "cudaTextureDesc", "cudaMemcpy3DParms", "cudaPointerAttributes", "cudaFuncAttributes",
    "cuComplex", "cuFloatComplex", "cuDoubleComplex", "cufftComplex", "cufftReal", "cufftDoubleComplex", "cufftDoubleReal",
    "cufftHandle", "cublasHandle_t", "cublasStatus_t", "cublasOperation_t", "cusparseHandle_t", "cusolverDnHandle_t",
    "curandGenerator_t", "curandState", "CUdevice", "CUcontext", "CUmodule", "CUfunction", "CUstream", "CUdeviceptr", "CUresult",
    "FILE", "va_list", "timeval", "timespec", "pthread_t", "pthread_mutex_t", "bool1", "texture", "surface", "jmp_buf",
];

/// Returns whether a name is a vector type of CUDA, such as `float4` or `uchar2`.
pub(super) fn is_vector_type(name: &str) -> bool {
    let Some(last) = name.len().checked_sub(1).filter(|&last| name.is_char_boundary(last)) else { return false };
    let scalar = [
        "char",
        "uchar",
        "short",
        "ushort",
        "int",
        "uint",
        "long",
        "ulong",
        "longlong",
        "ulonglong",
        "float",
        "double",
    ];
    matches!(&name[last..], "1" | "2" | "3" | "4") && scalar.contains(&&name[..last])
}
