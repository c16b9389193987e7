//! When a kernel gets machine code: `off`, `always`, or as soon as it has enough to do.
//!
//! Input: a kernel's regions and the shape of each launch. Output: the machine code for the launch. The idea: compiling costs a fixed
//! time, so a kernel is compiled once its launches together have as much to do as would take that long.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};

#[cfg(not(target_arch = "x86_64"))]
use self::without::{Division, compile};
use super::code::Code;
use super::geometry::Geometry;
use super::group::RegionCode;
use super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::jit::machine::{Division, compile};

/// When regions of kernels are compiled to machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jit {
    /// Never.
    Off,
    /// Where it pays.
    #[default]
    Auto,
    /// Before a kernel first runs.
    Always,
    /// For tests: as `Always`, and the code leaves for no reason, here and there.
    Forced,
}

impl Jit {
    /// All of them.
    pub const ALL: [Jit; 4] = [Jit::Off, Jit::Auto, Jit::Always, Jit::Forced];

    /// Returns its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Jit::Off => "off",
            Jit::Auto => "auto",
            Jit::Always => "always",
            Jit::Forced => "forced",
        }
    }

    /// Returns whether it can have any effect: the machine has the instructions, and the system allows executable memory.
    pub fn is_here(self, isa: Isa) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self != Jit::Off && isa == Isa::Avx512 && super::jit::allowed();
        #[cfg(not(target_arch = "x86_64"))]
        {
            let _ = isa;
            false
        }
    }
}

impl fmt::Display for Jit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Jit {
    type Err = String;

    fn from_str(text: &str) -> Result<Jit, String> {
        let names = Jit::ALL.map(Jit::name).join(", ");
        Jit::ALL
            .into_iter()
            .find(|jit| jit.name() == text)
            .ok_or_else(|| format!("kernels are compiled to machine code {names}; not `{text}`"))
    }
}

/// Instructions of lanes that the interpreter runs in the time that compiling one instruction takes.
const WORTH: u64 = 1 << 17;

/// Divisions that one kernel is compiled for.
const MOST: usize = 4;

/// The machine code of a kernel's regions.
pub(super) type Machines = Arc<Vec<Option<Box<dyn RegionCode>>>>;

/// The machine code of a kernel.
#[derive(Default)]
pub(super) struct Tier {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What launches had to do so far.
    work: u64,
    compiled: Vec<(Division, Machines)>,
}

impl Tier {
    /// Returns the machine code for a launch, if it is to have any.
    pub fn machines(&self, jit: Jit, code: &Code, geometry: &Geometry) -> Option<Machines> {
        if code.regions.is_empty() || geometry.max_lanes == 0 {
            return None;
        }
        let mut state = self.state.lock().ok()?;
        let division = Division::of(geometry);
        if let Some((_, machines)) = state.compiled.iter().find(|(known, _)| *known == division) {
            return Some(machines.clone());
        }
        let weight: u64 = code.regions.iter().map(|region| u64::from(region.weight)).sum();
        let lanes = geometry.units.saturating_mul(geometry.max_lanes as u64);
        state.work = state.work.saturating_add(lanes.saturating_mul(weight));
        let size: u64 = code.regions.iter().map(|region| region.values.len() as u64).sum();
        let pays = matches!(jit, Jit::Always | Jit::Forced) || state.work >= WORTH.saturating_mul(size);
        if !pays || state.compiled.len() >= MOST {
            return None;
        }
        let forced = jit == Jit::Forced;
        let compiled = code.regions.iter().map(|region| compile(region, code, division, forced));
        let machines: Machines = Arc::new(compiled.collect());
        state.compiled.push((division, machines.clone()));
        Some(machines)
    }
}

/// Machines that nothing is compiled for.
#[cfg(not(target_arch = "x86_64"))]
mod without {
    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    pub(super) struct Division;

    impl Division {
        pub fn of(_: &Geometry) -> Division {
            Division
        }
    }

    pub(super) fn compile(
        _: &crate::device::sim::lane::Region,
        _: &Code,
        _: Division,
        _: bool,
    ) -> Option<Box<dyn RegionCode>> {
        None
    }
}
