//! Saves programs as text that does not depend on the generator: the kernel in DeviceIR, after comments that describe
//! the launch.
//!
//! ```text
//! // grid 2 1 1 block 32 1 1
//! // value i32 5
//! // write 64: 00000000…
//! kernel k(…)
//! ```
//!
//! The bytes of an array are repeated if there are too few of them.

use std::fmt::Write;

use clk_ir::def::*;
use clk_ir::text;
use clk_runtime::LaunchExtents;
use clk_scalar::{Scalar, ScalarValue};

use super::{Argument, Bytes, Program};

/// Formats a program whose kernel verifies.
pub fn to_text(program: &Program) -> String {
    let mut out = match program.extents {
        LaunchExtents::Threads(n) => format!("// threads {}\n", words(n)),
        LaunchExtents::Grid { grid, block } => format!("// grid {} block {}\n", words(grid), words(block)),
    };
    for argument in &program.arguments {
        match argument {
            Argument::Value(values) => {
                let scalar = values.first().map_or("i32", |v| v.ty.name());
                let _ = writeln!(out, "// value {scalar} {}", words(values.iter().map(|v| format!("{:x}", v.bits))));
            }
            Argument::Array { shape, bytes, write, .. } => {
                let word = if *write { "write" } else { "read" };
                let bytes: String = bytes.get().iter().map(|b| format!("{b:02x}")).collect();
                let _ = writeln!(out, "// {word} {}: {bytes}", words(shape));
            }
        }
    }
    out + &text::print_spans(&program.module)
}

fn words<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    items.into_iter().map(|item| item.to_string()).collect::<Vec<_>>().join(" ")
}

/// Parses the output of [`to_text`]. The seed selects the checks, the number of workers and the instruction set with
/// which the program runs.
pub fn of_text(text: &str, seed: u64) -> Program {
    let module = text::parse(text).expect("a kernel");
    let mut lines = text.lines().map_while(|line| line.strip_prefix("// "));
    let extents = extents(lines.next().expect("the launch"));
    let arguments =
        module.kernel.params.iter().zip(lines).map(|(param, line)| argument(&module, param, line)).collect();
    Program { seed, module, extents, arguments }
}

fn numbers<'a>(words: impl Iterator<Item = &'a str>) -> Vec<u32> {
    words.map(|word| word.parse().expect("a number")).collect()
}

fn extents(line: &str) -> LaunchExtents {
    let n = numbers(line.split(' ').filter(|word| word.parse::<u32>().is_ok()));
    match *n.as_slice() {
        [x, y, z] => LaunchExtents::Threads([x, y, z]),
        [gx, gy, gz, bx, by, bz] => LaunchExtents::Grid { grid: [gx, gy, gz], block: [bx, by, bz] },
        _ => panic!("no launch: {line}"),
    }
}

fn argument(module: &Module, param: &KernelParam, line: &str) -> Argument {
    let mut fields = line.split(' ');
    match (fields.next(), param) {
        (Some("value"), _) => {
            let name = fields.next().expect("a type");
            let ty = Scalar::ALL.into_iter().find(|s| s.name() == name).expect("the name of a scalar");
            let bits = fields.map(|word| u64::from_str_radix(word, 16).expect("bits"));
            Argument::Value(bits.map(|bits| ScalarValue { ty, bits }).collect())
        }
        (Some(word @ ("read" | "write")), KernelParam::Array { memory, .. }) => {
            let (shape, hex) = line[word.len()..].split_once(':').expect("a shape and bytes");
            let hex = hex.trim();
            let layout = module.functions[module.kernel.body].memories[*memory].layout.clone();
            let shape = numbers(shape.split_whitespace());
            let mut bytes = Bytes::zeros(shape.iter().product::<u32>() as usize * layout.size);
            let repeated =
                (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("a byte"));
            bytes.get_mut().iter_mut().zip(repeated.cycle()).for_each(|(to, byte)| *to = byte);
            Argument::Array { layout, shape, bytes, write: word == "write" }
        }
        _ => panic!("no argument: {line}"),
    }
}
