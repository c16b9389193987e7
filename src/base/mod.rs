//! Layer 0: ground that knows nothing of Clk.
pub mod arena;
pub mod diag;
pub mod render;
pub mod source;
