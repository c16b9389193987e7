//! Names and types of the parameters in assumptions about sizes.

use super::tree::{ClkFunction, StmtKind, Struct};
use crate::ast::CppFunction;
use smol_str::SmolStr;

/// The parameters of a kernel that may occur in sizes, and the fields of those that are structs.
#[derive(Clone, Copy)]
pub(super) struct KernelSizes<'a> {
    pub(super) kernel: &'a ClkFunction,
    pub(super) structs: &'a [Struct],
}

impl<'a> KernelSizes<'a> {
    /// Returns the fields of a struct.
    pub(super) fn fields_of(&self, ty: &str) -> Option<&'a [(SmolStr, String)]> {
        self.structs.iter().find(|known| known.name == ty).map(|known| &known.fields[..])
    }

    /// Returns the type of a parameter, or of a field such as `v.n`.
    pub(super) fn type_of(&self, name: &str) -> Option<&'a str> {
        let mut parts = name.split('.');
        let first = parts.next()?;
        let mut ty: &str = &self.kernel.params.iter().find(|param| param.name == first)?.ty;
        for part in parts {
            ty = &self.fields_of(ty)?.iter().find(|(field, _)| field == part)?.1;
        }
        Some(ty)
    }

    /// Returns the type of a size.
    pub(super) fn scalar_of(&self, name: &str) -> &'a str {
        self.type_of(name).unwrap_or("i32")
    }
}

/// Returns the name in C++ of each parameter of the text. A parameter that is a part of a struct has no such name, so
/// its name in the text is used.
pub(super) fn cpp_names(function: &CppFunction, kernel: &ClkFunction) -> Vec<SmolStr> {
    let known: Vec<&SmolStr> = function.params.iter().flat_map(|param| &param.name).map(|name| &name.text).collect();
    let cpp_name = |name: &SmolStr| {
        // Names that Clk reserves have a suffix.
        let base = name.rsplit_once('_').filter(|(_, suffix)| suffix.chars().all(|c| c.is_ascii_digit()));
        match base {
            Some((base, _)) if !known.contains(&name) && known.iter().any(|known| *known == base) => base.into(),
            _ => name.clone(),
        }
    };
    kernel.params.iter().map(|param| cpp_name(&param.name)).collect()
}

/// Returns the name in C++ of a parameter of the text. `names` are those of the kernel's parameters.
pub(super) fn shown(kernel: &ClkFunction, names: &[SmolStr], name: &str) -> String {
    if is_extent(name) {
        return name.replace("grid_", "gridDim.").replace("block_", "blockDim.");
    }
    let at = kernel.params.iter().position(|param| param.name == name);
    at.and_then(|at| names.get(at)).map_or_else(|| name.to_string(), SmolStr::to_string)
}

/// Returns whether a parameter is an extent of the grid or the block.
pub(super) fn is_extent(name: &str) -> bool {
    matches!(name, "grid_x" | "grid_y" | "grid_z" | "block_x" | "block_y" | "block_z")
}

/// Returns the name in the text of an extent of the launch.
pub(super) fn in_clk(name: &str) -> String {
    name.replace("gridDim.", "grid_").replace("blockDim.", "block_")
}

/// Returns the position of the parameter that is the length of a dynamic shared array.
pub(super) fn shared_length(kernel: &ClkFunction, array: &str) -> Option<usize> {
    let ty = kernel.body.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Shared { name, ty } if name == array => Some(ty),
        _ => None,
    })?;
    let (_, extent) = ty.strip_prefix('[')?.strip_suffix(']')?.split_once("; ")?;
    kernel.params.iter().position(|param| param.name == extent)
}
