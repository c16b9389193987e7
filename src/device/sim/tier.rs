//! When a kernel gets machine code: `off`, `always`, or as soon as it has enough to do.
//!
//! Input: a kernel's regions and the shape of each launch. Output: the machine code for the launch. The idea: compiling costs a fixed
//! time, so a kernel is compiled once its launches together have as much to do as would take that long.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

#[cfg(not(target_arch = "x86_64"))]
use self::without::{Division, compile};
use super::code::Code;
use super::geometry::Geometry;
use super::group::RegionCode;
use super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::jit::machine::{Division, compile};
use super::report::Report;

/// When regions of kernels are compiled to machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jit {
    /// Never: the default, until a million random programs have run without a difference.
    #[default]
    Off,
    /// Where it pays.
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
        self.obstacle(isa).is_none()
    }

    /// Returns why a simulator with this instruction set interprets all kernels, if it does.
    pub(crate) fn obstacle(self, isa: Isa) -> Option<Obstacle> {
        if self == Jit::Off {
            return Some(Obstacle::Off);
        }
        #[cfg(target_arch = "x86_64")]
        return match isa {
            Isa::Base => Some(Obstacle::Instructions),
            Isa::Avx2 | Isa::Avx512 if super::jit::allowed() => None,
            Isa::Avx2 | Isa::Avx512 => Some(Obstacle::System),
        };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let Isa::Base = isa;
            Some(Obstacle::Instructions)
        }
    }
}

/// Why all kernels are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Obstacle {
    /// The user wants it.
    Off,
    Instructions,
    System,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Obstacle::Off => "machine code is switched off",
            Obstacle::Instructions => "machine code needs AVX2 or AVX-512",
            Obstacle::System => "the system forbids executable memory",
        })
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
        let found = Jit::ALL.into_iter().find(|jit| jit.name() == text);
        found.ok_or_else(|| {
            let names = Jit::ALL.map(Jit::name).join(", ");
            format!("there is no choice `{text}`; kernels get machine code by one of {names}")
        })
    }
}

/// Instructions of lanes that the interpreter runs in the time that compiling one instruction takes.
const WORTH: u64 = 1 << 17;

/// Divisions that one kernel is compiled for.
const MOST: usize = 4;

/// The machine code of a kernel's regions.
pub(super) type Machines = Arc<Vec<Option<Box<dyn RegionCode>>>>;

/// The machine code of a kernel.
pub(super) struct Tier {
    /// The names of its regions, if somebody listens.
    names: Vec<String>,
    report: Arc<Report>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What launches had to do so far.
    work: u64,
    compiled: Vec<(Division, Machines)>,
}

/// Returns whether compiling pays: once launches had as much to do as compiling instructions of this number takes.
fn pays(jit: Jit, work: u64, size: u64) -> bool {
    match jit {
        Jit::Off => false,
        Jit::Auto => work >= WORTH.saturating_mul(size),
        Jit::Always | Jit::Forced => true,
    }
}

impl Tier {
    pub fn new(names: Vec<String>, report: Arc<Report>) -> Tier {
        Tier { names, report, state: Mutex::default() }
    }

    /// Returns the machine code for a launch, if it is to have any.
    pub fn machines(&self, (isa, jit): (Isa, Jit), code: &Code, geometry: &Geometry) -> Option<Machines> {
        if code.regions.is_empty() || geometry.max_lanes == 0 {
            return None;
        }
        let mut state = self.state.lock().ok()?;
        let division = Division::of(isa, geometry, &code.regions);
        if let Some((_, machines)) = state.compiled.iter().find(|(known, _)| *known == division) {
            return Some(machines.clone());
        }
        let weight: u64 = code.regions.iter().map(|region| u64::from(region.weight)).sum();
        let lanes = geometry.units.saturating_mul(geometry.max_lanes as u64);
        state.work = state.work.saturating_add(lanes.saturating_mul(weight));
        let size: u64 = code.regions.iter().map(|region| region.values.len() as u64).sum();
        if !pays(jit, state.work, size) || state.compiled.len() >= MOST {
            return None;
        }
        let begin = Instant::now();
        let forced = jit == Jit::Forced;
        let compiled = code.regions.iter().map(|region| compile(region, code, division, forced));
        let machines: Machines = Arc::new(compiled.collect());
        self.report.announce(&machines, begin.elapsed(), state.compiled.is_empty(), &self.names);
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
        pub fn of(_: Isa, _: &Geometry, _: &[crate::device::sim::lane::Region]) -> Division {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::sim::compile;
    use crate::device::{Extents, MachineCode};
    use crate::ir::{Prepared, text, verify};

    const SAXPY: &str = "\
kernel saxpy(alpha: f32, x: in @x, y: in @y, r: out @r) threads 1
fn saxpy() {
    global 1 in @x: f32[_]
    global 2 in @y: f32[_]
    global 3 out @r: f32[_]
    %0: f32 = load @x[index0]
    %1: f32 = arg0 * %0
    %2: f32 = load @y[index0]
    %3: f32 = %1 + %2
    store @r[index0] = %3
}
";

    /// A kernel with one region, and its tier. None, with a word, where no machine code can be made.
    struct Kernel {
        code: Code,
        tier: Tier,
        told: Arc<Mutex<Vec<String>>>,
    }

    impl Kernel {
        fn new() -> Option<Kernel> {
            if let Some(why) = Jit::Always.obstacle(Isa::detect()) {
                println!("skipped: {why}");
                return None;
            }
            let module = verify::verify(text::parse(SAXPY).expect("DeviceIR")).expect("valid");
            let prepared = Prepared { module, checks: Default::default() };
            let code = compile::compile(&prepared, Isa::detect(), true).expect("a small kernel").code;
            assert_eq!(code.regions.len(), 1);
            let told: Arc<Mutex<Vec<String>>> = Arc::default();
            let list = told.clone();
            let listener = move |symbol: &super::super::Symbol| {
                assert!(symbol.address != 0 && symbol.bytes > 0);
                list.lock().expect("nobody panics").push(symbol.name.clone());
            };
            let report = Arc::new(Report::telling(Box::new(listener)));
            report.count_regions(&code);
            let names = report.names("saxpy", &code, &Default::default());
            Some(Kernel { code, tier: Tier::new(names, report), told })
        }

        /// Returns whether a launch of this many threads gets machine code.
        fn launch(&self, jit: Jit, threads: u32) -> bool {
            let geometry = Geometry::new(&Extents::Threads([threads, 1, 1]), &self.code);
            let machines = self.tier.machines((Isa::detect(), jit), &self.code, &geometry);
            machines.is_some_and(|machines| machines.len() == 1 && machines[0].is_some())
        }

        fn counts(&self) -> MachineCode {
            self.tier.report.statistics().machine_code.expect("the simulator has it")
        }
    }

    #[test]
    fn names_are_read_back() {
        for jit in Jit::ALL {
            assert_eq!(jit.name().parse(), Ok(jit));
        }
        let why = "sometimes".parse::<Jit>().expect_err("no such choice");
        assert!(why.contains("`sometimes`") && why.contains("off, auto, always"), "{why}");
    }

    #[test]
    fn what_stands_in_the_way_is_known() {
        for &isa in Isa::ALL {
            assert_eq!(Jit::Off.obstacle(isa), Some(Obstacle::Off));
            assert_eq!(Jit::Auto.obstacle(isa), Jit::Always.obstacle(isa));
            assert_eq!(Jit::Auto.is_here(isa), Jit::Auto.obstacle(isa).is_none());
        }
        assert_eq!(Jit::Always.obstacle(Isa::Base), Some(Obstacle::Instructions));
    }

    #[test]
    fn always_compiles_at_once_and_once() {
        let Some(kernel) = Kernel::new() else { return };
        assert!(!kernel.launch(Jit::Always, 0), "nothing runs");
        assert_eq!(kernel.counts(), MachineCode { regions: 1, ..MachineCode::default() });
        assert!(kernel.launch(Jit::Always, 1));
        let first = kernel.counts();
        assert!((first.regions, first.compiled) == (1, 1) && first.bytes > 0 && first.seconds > 0.0, "{first:?}");
        assert!(kernel.launch(Jit::Always, 1));
        assert_eq!(kernel.counts(), first);
        // Other code of the same region, for launches that are divided in another way.
        assert!(kernel.launch(Jit::Always, 1 << 20));
        let second = kernel.counts();
        assert!(second.compiled == 1 && second.bytes > first.bytes, "{second:?}");
        assert_eq!(*kernel.told.lock().expect("nobody panics"), ["clk:saxpy#0", "clk:saxpy#0"]);
    }

    #[test]
    fn off_never_compiles() {
        let Some(kernel) = Kernel::new() else { return };
        assert!((0..3).all(|_| !kernel.launch(Jit::Off, u32::MAX)));
        assert_eq!(kernel.counts().compiled, 0);
        assert!(!pays(Jit::Off, u64::MAX, 1));
    }

    #[test]
    fn auto_compiles_after_enough_work() {
        let Some(kernel) = Kernel::new() else { return };
        let threads = 4096;
        let region = &kernel.code.regions[0];
        let enough = WORTH * region.values.len() as u64;
        let launches = enough.div_ceil(u64::from(threads) * u64::from(region.weight));
        assert!(launches > 2, "{launches}");
        for launch in 1..launches {
            assert!(!kernel.launch(Jit::Auto, threads), "launch {launch} of {launches}");
        }
        assert!(kernel.launch(Jit::Auto, threads) && kernel.launch(Jit::Auto, threads));
        // One launch may have enough to do by itself.
        let Some(other) = Kernel::new() else { return };
        assert!(other.launch(Jit::Auto, 1 << 30));
    }

    #[test]
    fn the_limit_of_work_does_not_wrap_around() {
        assert!(!pays(Jit::Auto, u64::MAX - 1, u64::MAX) && pays(Jit::Auto, u64::MAX, u64::MAX));
    }
}
