//! Tiering: decides when a kernel gets machine code.
//!
//! Input: a kernel's regions and the shape of each launch. Output: the machine code for the launch. Whether compiling a
//! kernel saves time depends on the work of its future launches, which is unknown; the compile time can be estimated.
//! So launches start in the interpreter. A kernel is compiled once its launches have been interpreted for as long as
//! compiling takes, if necessary in the middle of a launch.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use thiserror::Error;

#[cfg(not(target_arch = "x86_64"))]
use self::without::{VectorDivision, compile};
use super::code::KernelTables;
use super::geometry::GroupGeometry;
use super::group::{RegionCode, RegionCodeSource};
#[cfg(target_arch = "x86_64")]
use super::jit::{batching::VectorDivision, compile};
use super::statistics::SimStatistics;
use clk_base::clock::Instant;
use clk_runtime::Isa;

/// The condition under which the regions of a kernel are compiled to machine code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Jit {
    /// Kernels are never compiled.
    Off,
    /// A kernel is compiled once it has been interpreted for as long as compiling takes.
    #[default]
    Auto,
    /// A kernel is compiled before it first runs.
    Always,
    /// For tests: like `Always`, but the machine code exits early at random.
    Forced,
}

impl Jit {
    /// All values of the type.
    pub const ALL: [Jit; 4] = [Jit::Off, Jit::Auto, Jit::Always, Jit::Forced];

    /// Returns the name of this value on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Jit::Off => "off",
            Jit::Auto => "auto",
            Jit::Always => "always",
            Jit::Forced => "forced",
        }
    }

    /// Returns whether machine code can run: the machine has the instructions, and the system allows executable memory.
    pub fn is_available(self, isa: Isa) -> bool {
        self.no_jit_reason(isa).is_none()
    }

    /// Returns the reason why a simulator with this instruction set cannot use machine code; `None` if it can.
    pub fn no_jit_reason(self, isa: Isa) -> Option<NoJitReason> {
        if self == Jit::Off {
            return Some(NoJitReason::Off);
        }
        #[cfg(target_arch = "x86_64")]
        return match isa {
            Isa::Base => Some(NoJitReason::Instructions),
            Isa::Avx2 | Isa::Avx512 if super::jit::allowed() => None,
            Isa::Avx2 | Isa::Avx512 => Some(NoJitReason::System),
        };
        #[cfg(not(target_arch = "x86_64"))]
        {
            let Isa::Base = isa;
            Some(NoJitReason::Instructions)
        }
    }
}

/// The reason why all kernels are interpreted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoJitReason {
    /// The user switched machine code off.
    Off,
    Instructions,
    System,
}

impl fmt::Display for NoJitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NoJitReason::Off => "machine code is switched off",
            NoJitReason::Instructions => "machine code needs AVX2 or AVX-512",
            NoJitReason::System => "the system forbids executable memory",
        })
    }
}

impl fmt::Display for Jit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not a setting.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown setting `{name}`; choose one of {}", Jit::ALL.map(Jit::name).join(", "))]
pub struct UnknownJit {
    name: String,
}

impl FromStr for Jit {
    type Err = UnknownJit;

    fn from_str(text: &str) -> Result<Jit, UnknownJit> {
        let choice = Jit::ALL.into_iter().find(|jit| jit.name() == text);
        choice.ok_or_else(|| UnknownJit { name: text.into() })
    }
}

/// Compile time per value of a LaneIR region, as measured.
const COMPILE_TIME_PER_VALUE: Duration = Duration::from_micros(5);

/// Maximum number of vector divisions (ways to divide a group into vectors) for which a kernel is compiled with special
/// code for full groups. The same limit applies to versions without that code.
const MAX_DIVISIONS: usize = 4;

/// The machine code of each region of a kernel.
type CompiledRegions = Arc<Vec<Option<Box<dyn RegionCode>>>>;

/// The compiled machine code of a kernel, and the interpretation time so far.
pub(super) struct Tier {
    /// The names of the kernel's regions for the listener; empty without a listener.
    names: Vec<String>,
    report: Arc<SimStatistics>,
    state: Mutex<TierState>,
}

#[derive(Default)]
struct TierState {
    /// Total time for which launches of the kernel were interpreted.
    interpreted_time: Duration,
    compiled: Vec<(VectorDivision, CompiledRegions)>,
}

/// Returns whether to compile regions with `size` values in total. In `Auto` mode, that is the case once the
/// `interpreted` time is at least the estimated compile time.
fn compiling_pays(jit: Jit, interpreted: Duration, size: u32) -> bool {
    match jit {
        Jit::Off => false,
        Jit::Auto => interpreted >= COMPILE_TIME_PER_VALUE * size,
        Jit::Always | Jit::Forced => true,
    }
}

impl Tier {
    pub fn new(names: Vec<String>, report: Arc<SimStatistics>) -> Tier {
        Tier { names, report, state: Mutex::default() }
    }

    /// Returns the machine code for a vector division, and compiles it if [`compiling_pays`] is true. `None` if there
    /// is no machine code yet.
    fn compiled_regions(
        &self,
        code: &KernelTables,
        division: VectorDivision,
        jit: Jit,
        running: Duration,
    ) -> Option<CompiledRegions> {
        // If another worker is compiling, do not wait for it; this worker continues to interpret.
        let mut state = self.state.try_lock().ok()?;
        let existing = |division| state.compiled.iter().find(|(existing, _)| *existing == division);
        let many = existing(division).is_none() && state.compiled.len() >= MAX_DIVISIONS;
        let division = if many { division.general() } else { division };
        if let Some((_, machines)) = existing(division) {
            return Some(machines.clone());
        }
        let possible = code.regions.iter().filter(|region| division.can_compile(region));
        let size: usize = possible.map(|region| region.values.len()).sum();
        if !compiling_pays(jit, state.interpreted_time.saturating_add(running), size as u32)
            || state.compiled.len() >= 2 * MAX_DIVISIONS
        {
            return None;
        }
        let begin = Instant::now();
        let forced = jit == Jit::Forced;
        let machines: CompiledRegions = Arc::new(compile(code, division, forced, &self.report, &self.names));
        self.report.announce(&machines, begin.elapsed(), state.compiled.is_empty(), &self.names);
        state.compiled.push((division, machines.clone()));
        Some(machines)
    }
}

/// The machine code of one launch. It is available from the start, or from the time at which a worker compiles it
/// during the launch.
pub(super) struct LaunchTier {
    tier: Arc<Tier>,
    division: VectorDivision,
    jit: Jit,
    start: Instant,
    machines: OnceLock<CompiledRegions>,
}

impl LaunchTier {
    /// Returns the machine code source of a launch; `None` if the launch cannot use machine code.
    pub fn for_launch(
        tier: &Arc<Tier>,
        isa: Isa,
        jit: Jit,
        code: &KernelTables,
        geometry: &GroupGeometry,
    ) -> Option<LaunchTier> {
        if jit.no_jit_reason(isa).is_some() || code.regions.is_empty() || geometry.max_lanes == 0 {
            return None;
        }
        let division = VectorDivision::of(isa, geometry, &code.regions);
        let coding = LaunchTier { tier: tier.clone(), division, jit, start: Instant::now(), machines: OnceLock::new() };
        coding.compile_if_pays(code, Duration::ZERO);
        Some(coding)
    }

    /// Compiles the kernel if [`compiling_pays`] is true; `running` is the time for which this launch has been
    /// interpreted.
    fn compile_if_pays(&self, code: &KernelTables, running: Duration) {
        if let Some(machines) = self.tier.compiled_regions(code, self.division, self.jit, running) {
            // Another worker may already have set the same machine code.
            let _ = self.machines.set(machines);
        }
    }
}

impl RegionCodeSource for LaunchTier {
    fn region_code(&self, region: usize, missed: &mut u32, code: &KernelTables) -> Option<&dyn RegionCode> {
        if self.machines.get().is_none() {
            *missed = missed.wrapping_add(1);
            // Reading the clock takes as long as interpreting a short region, so do it ever less often.
            if missed.is_power_of_two() {
                self.compile_if_pays(code, self.start.elapsed());
            }
        }
        self.machines.get()?.get(region)?.as_deref()
    }
}

impl Drop for LaunchTier {
    fn drop(&mut self) {
        if self.machines.get().is_none()
            && let Ok(mut state) = self.tier.state.lock()
        {
            state.interpreted_time = state.interpreted_time.saturating_add(self.start.elapsed());
        }
    }
}

/// Replacements for architectures for which there is no machine code.
#[cfg(not(target_arch = "x86_64"))]
mod without {
    use super::*;

    #[derive(Clone, Copy, PartialEq)]
    pub(super) struct VectorDivision;

    impl VectorDivision {
        pub fn of(_: Isa, _: &GroupGeometry, _: &[crate::lir::LaneRegion]) -> VectorDivision {
            VectorDivision
        }

        pub fn general(self) -> VectorDivision {
            self
        }

        pub fn can_compile(self, _: &crate::lir::LaneRegion) -> bool {
            false
        }
    }

    pub(super) fn compile(
        code: &KernelTables,
        _: VectorDivision,
        _: bool,
        _: &Arc<SimStatistics>,
        _: &[String],
    ) -> Vec<Option<Box<dyn RegionCode>>> {
        code.regions.iter().map(|_| None).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile;
    use clk_ir::{PreparedKernel, text, verify};
    use clk_runtime::{LaunchExtents, MachineCode};

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

    /// A kernel with one region, and its tier. If the machine cannot run machine code, [`TestKernel::new`] prints the
    /// reason and returns `None`.
    struct TestKernel {
        code: KernelTables,
        tier: Arc<Tier>,
        announced: Arc<Mutex<Vec<String>>>,
    }

    impl TestKernel {
        fn new() -> Option<TestKernel> {
            if let Some(why) = Jit::Always.no_jit_reason(Isa::detect()) {
                println!("skipped: {why}");
                return None;
            }
            let module = verify::verify(text::parse(SAXPY).expect("DeviceIR")).expect("valid");
            let prepared = PreparedKernel::new(module, Default::default());
            let code = compile::compile(&prepared, Isa::detect(), true).expect("a small kernel").code;
            assert_eq!(code.regions.len(), 1);
            let announced: Arc<Mutex<Vec<String>>> = Arc::default();
            let list = announced.clone();
            let listener = move |symbol: &super::super::CodeSymbol| {
                assert!(symbol.address != 0 && symbol.bytes > 0);
                list.lock().expect("nobody panics").push(symbol.name.clone());
            };
            let report = Arc::new(SimStatistics::with_listener(Box::new(listener)));
            report.count_regions(&code.regions);
            let names = report.region_names("saxpy", &code.source, &Default::default());
            Some(TestKernel { code, tier: Arc::new(Tier::new(names, report)), announced })
        }

        fn coding(&self, jit: Jit, threads: u32) -> Option<LaunchTier> {
            let geometry = GroupGeometry::new(&LaunchExtents::Threads([threads, 1, 1]), &self.code);
            LaunchTier::for_launch(&self.tier, Isa::detect(), jit, &self.code, &geometry)
        }

        /// Returns whether a launch of this many threads starts with machine code.
        fn launch(&self, jit: Jit, threads: u32) -> bool {
            let coding = self.coding(jit, threads);
            coding.is_some_and(|coding| coding.region_code(0, &mut 2, &self.code).is_some())
        }

        fn counts(&self) -> MachineCode {
            self.tier.report.statistics().machine_code.expect("the simulator has it")
        }
    }

    #[test]
    fn names_parse_back() {
        for jit in Jit::ALL {
            assert_eq!(jit.name().parse(), Ok(jit));
        }
        let why = "sometimes".parse::<Jit>().expect_err("no such choice").to_string();
        assert!(why.contains("`sometimes`") && why.contains("off, auto, always"), "{why}");
    }

    #[test]
    fn reasons_to_avoid_machine_code() {
        for &isa in Isa::ALL {
            assert_eq!(Jit::Off.no_jit_reason(isa), Some(NoJitReason::Off));
            assert_eq!(Jit::Auto.no_jit_reason(isa), Jit::Always.no_jit_reason(isa));
            assert_eq!(Jit::Auto.is_available(isa), Jit::Auto.no_jit_reason(isa).is_none());
        }
        assert_eq!(Jit::Always.no_jit_reason(Isa::Base), Some(NoJitReason::Instructions));
    }

    #[test]
    fn always_compiles_once_before_the_first_launch() {
        let Some(kernel) = TestKernel::new() else { return };
        assert!(!kernel.launch(Jit::Always, 0), "nothing runs");
        assert_eq!(kernel.counts(), MachineCode { regions: 1, ..MachineCode::default() });
        assert!(kernel.launch(Jit::Always, 1));
        let first = kernel.counts();
        assert!((first.regions, first.compiled) == (1, 1) && first.bytes > 0 && first.seconds > 0.0, "{first:?}");
        assert!(kernel.launch(Jit::Always, 1));
        assert_eq!(kernel.counts(), first);
        // This launch has another vector division, so the region is compiled again.
        assert!(kernel.launch(Jit::Always, 1 << 20));
        let second = kernel.counts();
        assert!(second.compiled == 1 && second.bytes > first.bytes, "{second:?}");
        assert_eq!(*kernel.announced.lock().expect("nobody panics"), ["clk:saxpy#0", "clk:saxpy#0"]);
    }

    #[test]
    fn off_never_compiles() {
        let Some(kernel) = TestKernel::new() else { return };
        assert!((0..3).all(|_| !kernel.launch(Jit::Off, u32::MAX)));
        assert_eq!(kernel.counts().compiled, 0);
        assert!(!compiling_pays(Jit::Off, Duration::MAX, 1));
    }

    #[test]
    fn auto_compiles_after_the_compile_time() {
        assert!(
            !compiling_pays(Jit::Auto, COMPILE_TIME_PER_VALUE * 23 - Duration::from_nanos(1), 23)
                && compiling_pays(Jit::Auto, COMPILE_TIME_PER_VALUE * 23, 23)
        );
        assert!(compiling_pays(Jit::Auto, Duration::MAX, u32::MAX));
        // The kernel is compiled in the middle of a launch.
        let Some(kernel) = TestKernel::new() else { return };
        let coding = kernel.coding(Jit::Auto, 4096).expect("there is a region");
        coding.compile_if_pays(&kernel.code, Duration::ZERO);
        assert!(coding.machines.get().is_none());
        coding.compile_if_pays(&kernel.code, COMPILE_TIME_PER_VALUE * kernel.code.regions[0].values.len() as u32);
        assert!(coding.region_code(0, &mut 2, &kernel.code).is_some() && kernel.counts().compiled == 1);
        // The next launch uses the machine code from the start.
        assert!(kernel.launch(Jit::Auto, 4096));
        // The kernel is compiled after several launches.
        let Some(kernel) = TestKernel::new() else { return };
        let interpreted = || kernel.tier.state.lock().expect("nobody panics").interpreted_time;
        drop(kernel.coding(Jit::Auto, 4096));
        assert!(interpreted() > Duration::ZERO);
        kernel.tier.state.lock().expect("nobody panics").interpreted_time = COMPILE_TIME_PER_VALUE * 1000;
        assert!(kernel.launch(Jit::Auto, 4096) && interpreted() == COMPILE_TIME_PER_VALUE * 1000);
    }

    #[test]
    fn workers_do_not_wait_for_compilation() {
        let Some(kernel) = TestKernel::new() else { return };
        let compiling = kernel.tier.state.lock().expect("nobody panics");
        let coding = kernel.coding(Jit::Always, 4096).expect("there is a region");
        assert!(coding.region_code(0, &mut 0, &kernel.code).is_none());
        drop(compiling);
        assert!(coding.region_code(0, &mut 1, &kernel.code).is_some());
        assert!(kernel.launch(Jit::Always, 4096));
    }
}
