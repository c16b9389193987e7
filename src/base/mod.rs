//! Layer 0: ground that knows nothing of Clk.
pub mod aligned;
pub mod arena;
pub mod diag;
pub mod escape;
pub mod late;
pub mod render;
pub mod room;
pub mod shared;
pub mod source;
pub mod stop;
