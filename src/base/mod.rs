//! Layer 0: general infrastructure, independent of Clk.
pub(crate) mod aligned;
pub mod arena;
pub mod diag;
pub(crate) mod escape;
pub(crate) mod late;
pub mod linear;
pub(crate) mod render;
pub mod room;
pub(crate) mod shared;
pub mod source;
pub mod stop;
