//! The lane-vectorised simulator: runs DeviceIR on the CPU, defines what kernels mean, and reports their faults.
//!
//! `compile` turns a kernel into flat [`code`]; a [`frame`] holds the registers of one lane group and runs it; `lanes`,
//! `strip`, `memory`, `local`, `shared`, `atomics`, `warp` and `control` are what its ops do; `geometry` cuts a launch into groups and
//! `sched` spreads them over workers.

// Lane loops count through several arrays at once, and a reference into code that a raw pointer leads to is taken where it
// can be seen.
#![allow(clippy::needless_range_loop, clippy::needless_borrow, clippy::explicit_counter_loop)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Arg, Control, Device, Executable, Extents, Fault, Output};
use crate::ir::Prepared;

mod atomics;
mod code;
mod compare;
mod compile;
mod control;
mod dot;
mod fault;
mod frame;
mod geometry;
mod group;
mod lanes;
mod local;
mod memory;
mod sched;
mod shared;
mod store;
mod strip;
mod tree;
mod warp;

/// The simulator.
#[derive(Clone, Debug)]
pub struct Simulator {
    isa: lanes::Isa,
}

impl Default for Simulator {
    fn default() -> Self {
        Simulator { isa: lanes::Isa::detect() }
    }
}

impl Device for Simulator {
    fn name(&self) -> String {
        "sim".into()
    }

    fn load(&self, kernel: Arc<Prepared>) -> Arc<dyn Executable> {
        Arc::new(Program { code: compile::compile(&kernel, self.isa) })
    }
}

struct Program {
    code: code::Code,
}

impl Executable for Program {
    fn launch(&self, extents: Extents, args: &mut [Arg<'_>], control: &Control) -> Result<Output, Box<Fault>> {
        control.launches.fetch_add(1, Ordering::Relaxed);
        let bindings = args.iter_mut().map(bind).collect();
        let geometry = geometry::Geometry::new(&extents, &self.code);
        let launch = frame::Launch { code: &self.code, geometry, bindings, control };
        sched::run(&launch, &extents)
    }
}

fn bind(arg: &mut Arg<'_>) -> frame::Binding {
    match arg {
        Arg::Value(values) => frame::Binding::Value(values.clone()),
        // Read-only arrays are never written: the verifier sees to it.
        Arg::Read { bytes, shape } => {
            frame::Binding::Array { ptr: bytes.as_ptr().cast_mut(), len: bytes.len(), shape: shape.clone() }
        }
        Arg::Write { bytes, shape } => {
            frame::Binding::Array { ptr: bytes.as_mut_ptr(), len: bytes.len(), shape: shape.clone() }
        }
        Arg::Array { storage, shape } => {
            let bytes = storage.bytes();
            frame::Binding::Array { ptr: bytes.as_ptr().cast_mut(), len: bytes.len(), shape: shape.clone() }
        }
        Arg::ArrayMut { storage, shape } => {
            let bytes = storage.bytes_mut();
            frame::Binding::Array { ptr: bytes.as_mut_ptr(), len: bytes.len(), shape: shape.clone() }
        }
    }
}
