//! Layer 6: values, arrays and the script interpreter.
pub mod array;
pub mod value;
