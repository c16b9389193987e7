//! Two compiled versions of a kernel: one that reports all accesses to the checker, and one that omits checks that a
//! proof makes redundant.
//!
//! Input: a kernel and its checked launches. Output: the code for each launch. A proof is valid only for launches that
//! fit the kernel's signature, and takes some milliseconds. So the second version is compiled once such launches have
//! had enough threads in total (`MIN_THREADS`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use super::code::KernelTables;
use super::compile::{self, CompiledKernel};
use super::group::Op;
use super::statistics::SimStatistics;
use super::tiering::{Jit, Tier};
use clk_base::source::SourceMap;
use clk_ir::def::StmtKind;
use clk_ir::visit::each_stmt;
use clk_ir::{MAX_ELEMENTS, PreparedKernel, RaceFreedom};
use clk_runtime::{Isa, SignaturePromise};

/// A compiled kernel.
pub(super) struct CompiledVersion {
    pub ops: Vec<Op>,
    pub code: KernelTables,
    pub tier: Arc<Tier>,
    report: Arc<SimStatistics>,
}

impl CompiledVersion {
    pub fn new(
        CompiledKernel { ops, code }: CompiledKernel,
        names: Vec<String>,
        report: Arc<SimStatistics>,
    ) -> CompiledVersion {
        report.count_regions(&code.regions);
        CompiledVersion { ops, code, tier: Arc::new(Tier::new(names, report.clone())), report }
    }
}

/// Whether checked runs skip accesses that are proved to be correct.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Proofs {
    /// Check all accesses.
    #[default]
    Unused,
    /// Skip proved accesses once enough threads were checked that the skipped checks save more time than the proof
    /// takes.
    Used,
    /// For tests: skip proved accesses from the first launch on.
    Always,
}

/// Number of checked threads after which a kernel's accesses are proved; lower for kernels with loops over tiles, whose
/// threads do more work.
const MIN_THREADS: u64 = 1 << 16;
const MIN_THREADS_WITH_TILES: u64 = 1 << 10;

/// The version without redundant checks, compiled when first needed.
#[derive(Default)]
pub(super) struct ElidedVersion {
    threads: AtomicU64,
    has_tiles: OnceLock<bool>,
    version: OnceLock<Option<Box<CompiledVersion>>>,
}

impl ElidedVersion {
    /// Returns the version without redundant checks for a launch with this many threads. `None` if no proof applies to
    /// the launch, or if too few threads of the kernel have been checked so far.
    pub fn for_launch(
        &self,
        kernel: &PreparedKernel,
        full: &CompiledVersion,
        proofs: Proofs,
        isa: Isa,
        jit: Jit,
        threads: u64,
        declared: Option<SignaturePromise>,
    ) -> Option<&CompiledVersion> {
        let is_proved = |promise: SignaturePromise| promise.largest <= MAX_ELEMENTS && promise.promises;
        // If threads synchronize by fences or poll, the interpreter has to check each access.
        let exact = full.code.properties.has_sync
            || full.code.properties.has_polling
            || full.code.events.counted_warps.is_some();
        if proofs == Proofs::Unused || exact || !declared.is_some_and(is_proved) {
            return None;
        }
        let before = self.threads.fetch_add(threads, Ordering::Relaxed);
        let tiles = || *self.has_tiles.get_or_init(|| has_tiles(kernel));
        let pays = |threads: u64| threads >= MIN_THREADS || threads >= MIN_THREADS_WITH_TILES && tiles();
        if proofs == Proofs::Used && !pays(before.saturating_add(threads)) {
            return None;
        }
        self.version.get_or_init(|| compile_without_proved(kernel, full, isa, jit).map(Box::new)).as_deref()
    }
}

/// Returns whether a kernel has loops over tiles. Without checks, a single op can run such a loop, instead of thousands
/// of ops.
fn has_tiles(kernel: &PreparedKernel) -> bool {
    let mut has_tile_loop = false;
    let bodies = kernel.module.functions.iter().map(|(_, function)| &function.body);
    bodies.for_each(|body| {
        each_stmt(body, &mut |stmt| has_tile_loop |= matches!(stmt.kind, StmtKind::For { collective: Some(_), .. }));
    });
    has_tile_loop
}

/// Compiles a kernel without checks of memories that are proved to be free of races. `None` if no memory with checks is
/// proved to be free of races.
fn compile_without_proved(
    kernel: &PreparedKernel,
    full: &CompiledVersion,
    isa: Isa,
    jit: Jit,
) -> Option<CompiledVersion> {
    let race_freedom = kernel.declared_launches.as_ref()?.race_freedom(&kernel.module);
    let matters = |(watched, race_freedom): (&Option<_>, &RaceFreedom)| watched.is_some() && race_freedom.is_free;
    if !full.code.events.tracked.iter().zip(race_freedom).any(matters) {
        return None;
    }
    let compiled = compile::compile_for(kernel, isa, jit.is_available(isa), race_freedom).ok()?;
    let names = full.report.region_names(&kernel.module.kernel.name, &compiled.code.source, &SourceMap::default());
    Some(CompiledVersion::new(compiled, names, full.report.clone()))
}
