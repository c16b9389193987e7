//! Prints the translated tree as Clk text, and records for each piece of the text the place in the CUDA file from which
//! it comes.

pub(crate) mod names;
mod print;
mod span_map;

pub(crate) use print::{expr_text, print_file};
pub use span_map::{OriginMap, TextPiece};
