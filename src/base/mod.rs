//! Layer 0: general infrastructure, independent of Clk.
pub mod aligned;
pub mod arena;
pub mod clock;
pub mod diag;
pub mod escape;
pub mod idset;
pub mod late;
pub mod linear;
pub mod render;
pub mod room;
pub mod shared;
pub mod source;
pub mod stop;
pub mod threads;
