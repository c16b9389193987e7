//! The text form of DeviceIR. [`parse()`] is the inverse of [`print()`].
//!
//! `parse(&print(m))` is `m` with the numbering of [`crate::renumber`], without spans; [`print_spans`] also
//! preserves the spans of statements. Printing never fails, not even for a module that the verifier rejects.
//!
//! ```text
//! kernel saxpy(alpha: f32, x: in @x, r: out @r) threads 1
//! fn saxpy() {
//!     global 1 in @x: f32[_]          // `_`: given by the launch; `(i32: arg0 * 2i32)`: computed when a block starts
//!     global 2 out @r: f32[_]         // other spaces: shared, local, param 0 in
//!     var $acc: f32
//!     %0: f32 = load @x[index0]       // `@bodies[%1]:2.y` is leaf 2, component y
//!     %1: f32 = %0 * arg0
//!     $acc = %1
//!     %2: f32 = read $acc
//!     store @r[index0] = %2
//! }
//! ```
//!
//! A name that is not an identifier is quoted. A name that is not unique is followed by the item's number: `$i.2`. A
//! constant has its type as a suffix (`1.5f32`, `-1i32`); `f32#7fc00000` contains the bits of a NaN. Each statement is
//! one line. [`print_tiles()`] and [`parse_tiles()`] do the same for tile programs (see `docs/internals/tileir.md`).

mod lex;
mod parse;
mod parse_error;
mod print;
mod print_tiles;

pub use parse::{parse, parse_tiles};
pub use parse_error::{IrParseError, IrParseErrorReason};
pub use print::{print, print_memory, print_spans, print_value};
pub use print_tiles::print_tiles;

use crate::def::{Axis, BinOp, BuiltinIndex};

const OPERATORS: [BinOp; 17] = {
    use BinOp::*;
    [Add, Sub, Mul, Div, Rem, Pow, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le, Gt, Ge]
};

const IDS: [(BuiltinIndex, &str); 5] = [
    (BuiltinIndex::Thread, "thread"),
    (BuiltinIndex::Block, "block"),
    (BuiltinIndex::BlockDim, "block_dim"),
    (BuiltinIndex::GridDim, "grid_dim"),
    (BuiltinIndex::Global, "global"),
];

const AXES: [(Axis, &str); 3] = [(Axis::X, "x"), (Axis::Y, "y"), (Axis::Z, "z")];

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// Returns the keyword of a value in a table of (value, keyword) pairs.
fn keyword_of<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(v, _)| v == value).map_or("?", |(_, word)| word)
}

/// Returns the value of a keyword in a table of (value, keyword) pairs.
fn value_of<T: Copy>(table: &[(T, &'static str)], word: &str) -> Option<T> {
    table.iter().find(|(_, w)| *w == word).map(|(v, _)| *v)
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
pub(crate) mod tests;
