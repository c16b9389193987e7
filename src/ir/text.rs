//! The text form of DeviceIR: [`print()`] and [`parse()`] are inverse to each other.
//!
//! `parse(&print(m))` is `m` with the numbering of [`crate::ir::compact`], without spans; with [`print_spans`] the spans of
//! statements are preserved too. Printing never fails, not even for a module that the verifier rejects.
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
//! A name that is no identifier is quoted, and a name that is not unique is followed by the item's number: `$i.2`. A constant
//! carries its type (`1.5f32`, `-1i32`, `f32#7fc00000` for bits without a decimal form). A statement is one line.

mod lex;
mod parse;
mod print;

pub use parse::parse;
pub use print::print;
pub use print::print_spans;

use crate::ir::def::{Axis, BinOp, Id3};

const OPERATORS: [BinOp; 17] = {
    use BinOp::*;
    [Add, Sub, Mul, Div, Rem, Pow, And, Or, Xor, Shl, Shr, Eq, Ne, Lt, Le, Gt, Ge]
};

const IDS: [(Id3, &str); 5] = [
    (Id3::Thread, "thread"),
    (Id3::Block, "block"),
    (Id3::BlockDim, "block_dim"),
    (Id3::GridDim, "grid_dim"),
    (Id3::Global, "global"),
];

const AXES: [(Axis, &str); 3] = [(Axis::X, "x"), (Axis::Y, "y"), (Axis::Z, "z")];

const COMPONENTS: [&str; 4] = ["x", "y", "z", "w"];

/// Returns the keyword of a value in a table.
fn word_of<T: PartialEq>(table: &[(T, &'static str)], value: &T) -> &'static str {
    table.iter().find(|(v, _)| v == value).map_or("?", |(_, word)| word)
}

/// Returns the value of a keyword in a table.
fn value_of<T: Copy>(table: &[(T, &'static str)], word: &str) -> Option<T> {
    table.iter().find(|(_, w)| *w == word).map(|(v, _)| *v)
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests;
