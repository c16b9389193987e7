//! Layer 2: DeviceIR, the one form that every device runs.
pub mod build;
pub mod compact;
pub mod def;
pub mod ranges;
pub mod text;
pub mod typing;
pub mod verify;
pub mod visit;

/// What a device is given: a verified kernel, all calls inlined, and what analysis knows of it.
pub struct Prepared {
    pub module: verify::Verified,
    pub facts: def::Facts,
}
