//! Layer 6: values, arrays and the script interpreter.
pub mod array;
pub mod ops;
pub mod problem;
pub mod value;
