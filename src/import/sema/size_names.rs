//! Names and types of the parameters in assumptions about sizes.

use super::tree::ClkFunction;

/// Returns the type of a parameter of a kernel.
pub(super) fn scalar_of<'a>(kernel: &'a ClkFunction, name: &str) -> &'a str {
    kernel.params.iter().find(|param| param.name == name).map_or("i32", |param| &param.ty)
}

/// Returns the name in C++ of a parameter of the text.
pub(super) fn shown(name: &str) -> &str {
    match name {
        "grid_x" => "gridDim.x",
        "grid_y" => "gridDim.y",
        "grid_z" => "gridDim.z",
        "block_x" => "blockDim.x",
        "block_y" => "blockDim.y",
        "block_z" => "blockDim.z",
        other => other,
    }
}

/// Returns the name in the text of an extent of the launch.
pub(super) fn in_clk(name: &str) -> String {
    name.replace("gridDim.", "grid_").replace("blockDim.", "block_")
}
