//! LaneIR listings. Input: a prepared kernel. Output: the LaneIR of each region as text, for `clk emit --stage lanes`.

use std::fmt::Write as _;

use super::compile::{self, CompiledKernel};
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_runtime::Isa;

/// Returns the LaneIR of a kernel's regions before machine code is generated. The text is the same on all machines.
pub fn lane_ir_text(kernel: &PreparedKernel, sources: &SourceMap) -> String {
    let name = &kernel.module.kernel.name;
    let Ok(CompiledKernel { code, .. }) = compile::compile(kernel, Isa::Base, true) else {
        return format!("// kernel {name}: too large for the simulator\n");
    };
    let count = code.regions.len();
    if count == 0 {
        return format!("// kernel {name}: no regions, all of it is interpreted\n");
    }
    let mut text = String::new();
    for (number, (region, &span)) in code.regions.iter().zip(&code.source.region_spans).enumerate() {
        let (line, _) = sources.line_column(code.source.location(span).0);
        let separator = if number == 0 { "" } else { "\n" };
        let _ =
            write!(text, "{separator}// kernel {name}: region {} of {count}, from line {line}\n{region}", number + 1);
    }
    text
}
