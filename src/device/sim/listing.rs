//! The regions of a kernel as text. Input: a prepared kernel. Output: the LaneIR of each region, for `clk emit --stage lanes`.

use std::fmt::Write as _;

use super::compile::{self, Compiled};
use super::isa::Isa;
use crate::base::source::Sources;
use crate::ir::Prepared;

/// Returns the LaneIR of a kernel's regions, as it is before machine code is made of it. It is the same on all machines.
pub fn lanes_text(kernel: &Prepared, sources: &Sources) -> String {
    let name = &kernel.module.kernel.name;
    let Ok(Compiled { code, .. }) = compile::compile(kernel, Isa::Base, true) else {
        return format!("// kernel {name}: too large for the simulator\n");
    };
    let count = code.regions.len();
    if count == 0 {
        return format!("// kernel {name}: no regions, all of it is interpreted\n");
    }
    let mut text = String::new();
    for (number, (region, &span)) in code.regions.iter().zip(&code.region_spans).enumerate() {
        let (line, _) = sources.line_column(code.place(span).0);
        let separator = if number == 0 { "" } else { "\n" };
        let _ =
            write!(text, "{separator}// kernel {name}: region {} of {count}, from line {line}\n{region}", number + 1);
    }
    text
}
