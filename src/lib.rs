//! Clk, a small standalone GPU kernel language.

pub mod app;
pub mod base;
pub mod check;
pub mod compile;
pub mod device;
pub mod host;
pub mod ir;
pub mod lang;
pub mod lower;
pub mod pass;
pub mod syntax;
