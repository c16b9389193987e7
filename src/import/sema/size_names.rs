//! Names and types of the parameters in assumptions about sizes.

use super::tree::ClkFunction;
use smol_str::SmolStr;

/// Returns the type of a parameter of a kernel.
pub(super) fn scalar_of<'a>(kernel: &'a ClkFunction, name: &str) -> &'a str {
    kernel.params.iter().find(|param| param.name == name).map_or("i32", |param| &param.ty)
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
