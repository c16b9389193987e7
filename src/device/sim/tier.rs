//! When a kernel gets machine code: `off`, `always`, or as soon as it has enough to do.
//!
//! Input: a kernel's regions and the shape of each launch. Output: the machine code for the launch. The idea: how much a kernel has to
//! do is not known before it is done, but how long compiling takes is. So launches start interpreted, and a kernel is compiled as
//! soon as they have taken together as long as that takes, in the middle of a launch if need be.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

#[cfg(not(target_arch = "x86_64"))]
use self::without::{Division, compile};
use super::code::Code;
use super::geometry::Geometry;
use super::group::{Coding, RegionCode};
use super::isa::Isa;
#[cfg(target_arch = "x86_64")]
use super::jit::{compile, division::Division};
use super::report::Report;
use crate::base::clock::Instant;

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
        self.obstacle(isa).is_none()
    }

    /// Returns why a simulator with this instruction set interprets all kernels, if it does.
    pub fn obstacle(self, isa: Isa) -> Option<Obstacle> {
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
pub enum Obstacle {
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

/// The time that compiling takes for each value of a region, as measured.
const COST: Duration = Duration::from_micros(5);

/// Divisions that one kernel is compiled for with code for whole groups, and without.
const MOST: usize = 4;

/// The machine code of a kernel's regions.
type Machines = Arc<Vec<Option<Box<dyn RegionCode>>>>;

/// The machine code of a kernel.
pub(super) struct Tier {
    /// The names of its regions, if somebody listens.
    names: Vec<String>,
    report: Arc<Report>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// How long launches were interpreted.
    spent: Duration,
    compiled: Vec<(Division, Machines)>,
}

/// Returns whether compiling so many values pays after launches were interpreted for this time: once it would have taken as long.
fn pays(jit: Jit, spent: Duration, size: u32) -> bool {
    match jit {
        Jit::Off => false,
        Jit::Auto => spent >= COST * size,
        Jit::Always | Jit::Forced => true,
    }
}

impl Tier {
    pub fn new(names: Vec<String>, report: Arc<Report>) -> Tier {
        Tier { names, report, state: Mutex::default() }
    }

    /// Returns the machine code of a division that is, or now has to be, compiled.
    fn machines(&self, code: &Code, (division, jit): (Division, Jit), running: Duration) -> Option<Machines> {
        // If a worker compiles, the others go on interpreting.
        let mut state = self.state.try_lock().ok()?;
        let known = |division| state.compiled.iter().find(|(known, _)| *known == division);
        let many = known(division).is_none() && state.compiled.len() >= MOST;
        let division = if many { division.general() } else { division };
        if let Some((_, machines)) = known(division) {
            return Some(machines.clone());
        }
        let possible = code.regions.iter().filter(|region| division.has(region));
        let size: usize = possible.map(|region| region.values.len()).sum();
        if !pays(jit, state.spent.saturating_add(running), size as u32) || state.compiled.len() >= 2 * MOST {
            return None;
        }
        let begin = Instant::now();
        let forced = jit == Jit::Forced;
        let machines: Machines = Arc::new(compile(code, (division, forced), (&self.report, &self.names)));
        self.report.announce(&machines, begin.elapsed(), state.compiled.is_empty(), &self.names);
        state.compiled.push((division, machines.clone()));
        Some(machines)
    }
}

/// The machine code of one launch: there from the start, or from the moment at which compiling pays.
pub(super) struct Launching {
    tier: Arc<Tier>,
    division: Division,
    jit: Jit,
    begun: Instant,
    machines: OnceLock<Machines>,
}

impl Launching {
    /// Returns how a launch gets machine code, if it may.
    pub fn of(tier: &Arc<Tier>, (isa, jit): (Isa, Jit), code: &Code, geometry: &Geometry) -> Option<Launching> {
        if jit.obstacle(isa).is_some() || code.regions.is_empty() || geometry.max_lanes == 0 {
            return None;
        }
        let division = Division::of(isa, geometry, &code.regions);
        let coding = Launching { tier: tier.clone(), division, jit, begun: Instant::now(), machines: OnceLock::new() };
        coding.look(code, Duration::ZERO);
        Some(coding)
    }

    /// Compiles the kernel if that pays after the launch has been `running` for this time.
    fn look(&self, code: &Code, running: Duration) {
        if let Some(machines) = self.tier.machines(code, (self.division, self.jit), running) {
            // Another worker may have been quicker, with the same code.
            let _ = self.machines.set(machines);
        }
    }
}

impl Coding for Launching {
    fn machine(&self, region: usize, missed: &mut u32, code: &Code) -> Option<&dyn RegionCode> {
        if self.machines.get().is_none() {
            *missed = missed.wrapping_add(1);
            // The clock costs as much as a short region.
            if missed.is_power_of_two() {
                self.look(code, self.begun.elapsed());
            }
        }
        self.machines.get()?.get(region)?.as_deref()
    }
}

impl Drop for Launching {
    fn drop(&mut self) {
        if self.machines.get().is_none()
            && let Ok(mut state) = self.tier.state.lock()
        {
            state.spent = state.spent.saturating_add(self.begun.elapsed());
        }
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

        pub fn general(self) -> Division {
            self
        }

        pub fn has(self, _: &crate::device::sim::lane::Region) -> bool {
            false
        }
    }

    pub(super) fn compile(
        code: &Code,
        _: (Division, bool),
        _: (&Arc<Report>, &[String]),
    ) -> Vec<Option<Box<dyn RegionCode>>> {
        code.regions.iter().map(|_| None).collect()
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
        tier: Arc<Tier>,
        told: Arc<Mutex<Vec<String>>>,
    }

    impl Kernel {
        fn new() -> Option<Kernel> {
            if let Some(why) = Jit::Always.obstacle(Isa::detect()) {
                println!("skipped: {why}");
                return None;
            }
            let module = verify::verify(text::parse(SAXPY).expect("DeviceIR")).expect("valid");
            let prepared = Prepared::new(module, Default::default());
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
            Some(Kernel { code, tier: Arc::new(Tier::new(names, report)), told })
        }

        fn coding(&self, jit: Jit, threads: u32) -> Option<Launching> {
            let geometry = Geometry::new(&Extents::Threads([threads, 1, 1]), &self.code);
            Launching::of(&self.tier, (Isa::detect(), jit), &self.code, &geometry)
        }

        /// Returns whether a launch of this many threads starts with machine code.
        fn launch(&self, jit: Jit, threads: u32) -> bool {
            let coding = self.coding(jit, threads);
            coding.is_some_and(|coding| coding.machine(0, &mut 2, &self.code).is_some())
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
        assert!(!pays(Jit::Off, Duration::MAX, 1));
    }

    #[test]
    fn auto_compiles_when_compiling_would_have_taken_as_long() {
        assert!(!pays(Jit::Auto, COST * 23 - Duration::from_nanos(1), 23) && pays(Jit::Auto, COST * 23, 23));
        assert!(pays(Jit::Auto, Duration::MAX, u32::MAX));
        // In the middle of a launch.
        let Some(kernel) = Kernel::new() else { return };
        let coding = kernel.coding(Jit::Auto, 4096).expect("there is a region");
        coding.look(&kernel.code, Duration::ZERO);
        assert!(coding.machines.get().is_none());
        coding.look(&kernel.code, COST * kernel.code.regions[0].values.len() as u32);
        assert!(coding.machine(0, &mut 2, &kernel.code).is_some() && kernel.counts().compiled == 1);
        // The next launch has it from the start.
        assert!(kernel.launch(Jit::Auto, 4096));
        // After several launches.
        let Some(kernel) = Kernel::new() else { return };
        let spent = || kernel.tier.state.lock().expect("nobody panics").spent;
        drop(kernel.coding(Jit::Auto, 4096));
        assert!(spent() > Duration::ZERO);
        kernel.tier.state.lock().expect("nobody panics").spent = COST * 1000;
        assert!(kernel.launch(Jit::Auto, 4096) && spent() == COST * 1000);
    }

    #[test]
    fn workers_do_not_wait_for_the_one_that_compiles() {
        let Some(kernel) = Kernel::new() else { return };
        let compiling = kernel.tier.state.lock().expect("nobody panics");
        let coding = kernel.coding(Jit::Always, 4096).expect("there is a region");
        assert!(coding.machine(0, &mut 0, &kernel.code).is_none());
        drop(compiling);
        assert!(coding.machine(0, &mut 1, &kernel.code).is_some());
        assert!(kernel.launch(Jit::Always, 4096));
    }
}
