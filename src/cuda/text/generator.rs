//! The code generator of a kernel: the state that all modules of the generator share.

use rustc_hash::{FxHashMap, FxHashSet};

use super::abi::CodegenOptions;
use super::fences::{self, Fences};
use super::helpers::Helpers;
use super::names::UsedNames;
use super::plan::{self, InliningPlan};
use super::tree::{CudaExpr, CudaStmt};
use super::vector_group::VectorGroups;
use clk_base::source::{SourceMap, Span};
use clk_ir::def::*;
use clk_ir::ranges::{BodySite, RangeAnalysis};
use clk_ir::variance::Variances;
use clk_runtime::fault_record::{FaultSite, RecordedSegment};

/// Facts that range analysis has proved about an operation.
#[derive(Clone, Copy, Default)]
pub(super) struct OpFacts {
    /// Whether the operation cannot overflow.
    pub(super) exact: bool,
    /// Whether the operation is a signed division that may divide the smallest integer by -1.
    pub(super) may_overflow: bool,
    /// Whether the operation is a shift whose amount is less than the width.
    pub(super) small_shift: bool,
}

/// A statement that is the target of `Break` or `Continue`.
pub(crate) struct BranchTarget {
    pub(super) label: Label,
    /// Whether C's `break` (or `continue`) directly inside the statement has the same meaning.
    pub(super) breaks: bool,
    pub(super) continues: bool,
    /// For a polled loop, which consists of two nested C loops: the variable that is set before a `break`, which leaves
    /// only the inner one.
    pub(super) flag: Option<String>,
    /// The names of the C labels after the statement (`done`) and at the end of its body (`next`), if there are jumps
    /// to them.
    pub(super) done: Option<String>,
    pub(super) next: Option<String>,
}

/// An array in the generated code.
pub(crate) struct CudaArray {
    pub name: String,
    pub element: CudaType,
    /// Whether the array is a C array with one subscript per axis, rather than a pointer with one offset.
    pub by_axis: bool,
    /// For each axis, the name of the constant with its extent, if the extent is computed at the start of the kernel.
    pub computed: Vec<Option<String>>,
}

/// A C++ type. If it is a struct, it has one member for each leaf (scalar or vector field) of the element.
#[derive(Clone)]
pub(crate) struct CudaType {
    pub ty: String,
    pub fields: Option<Vec<String>>,
    /// For each member, whether explicit padding precedes it.
    pub gaps: Vec<bool>,
}

/// A loop with deferred bounds checks: out-of-bounds accesses are reported after the loop.
pub(super) struct DeferredBoundsChecks {
    /// `first_site` is the variable with the number, counted from 1, of the site of the first out-of-bounds access.
    /// `indices` are the variables with the indices of this access.
    pub first_site: String,
    pub indices: Vec<String>,
    pub sites: Vec<DeferredSite>,
}

/// A load with a deferred bounds check.
pub(super) struct DeferredSite {
    pub place: usize,
    pub extents: Vec<CudaExpr>,
}

/// The code generator of a kernel.
pub(super) struct CudaGenerator<'a> {
    pub(super) module: &'a Module,
    pub(super) function: &'a Function,
    pub(super) options: &'a CodegenOptions,
    pub(super) sources: Option<&'a SourceMap>,
    pub(super) analyses: Analyses,
    pub(super) naming: GeneratedNames,
    pub(super) preamble: Preamble,
    pub(super) records: LaunchRecords,
    pub(super) deferred: DeferredOperations,
    pub(super) memories: Vec<CudaArray>,
    pub(super) targets: Vec<BranchTarget>,
    /// The number of the next statement, in the numbering of range analysis.
    pub(super) stmt: u32,
    pub(super) line: Option<(usize, String)>,
    /// The statements of the current block.
    pub(super) out: Vec<CudaStmt>,
}

/// What is known about the kernel before its text is generated.
pub(super) struct Analyses {
    pub(super) ranges: RangeAnalysis,
    pub(super) plan: InliningPlan,
    pub(super) fences: Fences,
    pub(super) vector_groups: VectorGroups,
    /// The result of variance analysis (how values vary between threads), computed on demand.
    pub(super) variances: Option<Variances>,
    /// The locals that are declared at their first write.
    pub(super) declared_at_write: FxHashSet<LocalId>,
    /// The locals that are only loop counters.
    pub(super) counters: FxHashSet<LocalId>,
}

/// The names in the generated text.
#[derive(Default)]
pub(super) struct GeneratedNames {
    pub(super) used: UsedNames,
    /// The number of value and label names that have been generated so far.
    pub(super) count: u32,
    /// The names of the values that are declared as constants.
    pub(super) values: FxHashMap<ExprId, String>,
    pub(super) locals: Vec<String>,
    /// The names of the kernel's parameters, by position.
    pub(super) params: Vec<String>,
    /// The names of the extents of parameters that the code uses, by position and axis.
    pub(super) extents: FxHashMap<(usize, usize), String>,
    pub(super) indices: Vec<(String, String)>,
    pub(super) identities: FxHashMap<ExprKind, String>,
    /// For each load with a deferred bounds check, the name of the variable that is true if the load is in bounds.
    pub(super) in_bounds_flags: FxHashMap<ExprId, String>,
}

/// The text before the kernel, and at its start.
#[derive(Default)]
pub(super) struct Preamble {
    pub(super) helpers: Helpers,
    /// The structs for elements that have been defined so far.
    pub(super) elements: Vec<(ElementLayout, CudaType)>,
    /// Statements at the start of the kernel.
    pub(super) stmts: Vec<CudaStmt>,
    /// Declarations of shared arrays, which follow `stmts`.
    pub(super) shared: Vec<CudaStmt>,
}

/// What the kernel reports to its launcher, and whether it needs a cooperative launch.
#[derive(Default)]
pub(super) struct LaunchRecords {
    pub(super) uses_faults: bool,
    pub(super) uses_prints: bool,
    pub(super) uses_grid: bool,
    pub(super) places: Vec<FaultSite>,
    pub(super) prints: Vec<Vec<RecordedSegment>>,
}

/// Operations that the current code performs later.
#[derive(Default)]
pub(super) struct DeferredOperations {
    pub(super) checks: Option<DeferredBoundsChecks>,
    /// The arrays whose stores are deferred, in the epilogue of a product; `None` in other code.
    pub(super) stores: Option<Vec<MemId>>,
}

impl<'a> CudaGenerator<'a> {
    pub(super) fn new(
        module: &'a Module,
        options: &'a CodegenOptions,
        sources: Option<&'a SourceMap>,
        ranges: RangeAnalysis,
    ) -> Self {
        let function = &module.functions[module.kernel.body];
        let guarded_sites = if options.checked { guarded_sites(&ranges) } else { FxHashSet::default() };
        let plan = plan::plan(function, &guarded_sites);
        let analyses = Analyses {
            ranges,
            fences: fences::place_fences(function, &plan),
            plan,
            vector_groups: VectorGroups::default(),
            variances: None,
            declared_at_write: FxHashSet::default(),
            counters: FxHashSet::default(),
        };
        CudaGenerator {
            module,
            function,
            options,
            sources,
            analyses,
            naming: GeneratedNames::default(),
            preamble: Preamble::default(),
            records: LaunchRecords::default(),
            deferred: DeferredOperations::default(),
            memories: vec![],
            targets: vec![],
            stmt: 0,
            line: None,
            out: vec![],
        }
    }

    pub(super) fn push(&mut self, stmt: CudaStmt) {
        self.out.push(stmt);
    }

    /// Returns the statements that `f` emits, instead of adding them to the current block.
    pub(super) fn capture(&mut self, f: impl FnOnce(&mut Self)) -> Vec<CudaStmt> {
        let outer = std::mem::take(&mut self.out);
        f(self);
        std::mem::replace(&mut self.out, outer)
    }

    /// Returns a new name for a value: `t1`, `t2`, and so on.
    pub(super) fn temporary(&mut self) -> String {
        self.naming.count += 1;
        self.naming.used.fresh(&format!("t{}", self.naming.count))
    }

    pub(super) fn declare(&mut self, ty: &str, name: &str, value: CudaExpr) {
        let ty = format!("const {ty}");
        self.push(CudaStmt::Declare { ty, name: name.into(), suffix: String::new(), value: Some(value) });
    }

    /// Emits a `#line` directive if the source line has changed.
    pub(super) fn emit_line(&mut self, span: Span) {
        let Some(sources) = self.sources else { return };
        if sources.get(span.file).is_none() {
            return;
        }
        let line = (sources.line_column(span).0, format!("{:?}", sources.name(span.file)));
        if self.line.as_ref() != Some(&line) {
            self.push(CudaStmt::Line(line.0, line.1.clone()));
            self.line = Some(line);
        }
    }
}

/// Returns the values and statements whose operands are emitted twice: in the guard, and in the value or statement
/// itself.
fn guarded_sites(ranges: &RangeAnalysis) -> FxHashSet<BodySite> {
    let divisions = ranges.zero_divisors.iter().map(|&id| BodySite::Load(id));
    ranges.guards.keys().copied().chain(divisions).collect()
}
