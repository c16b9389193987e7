//! Code generation for CUDA: DeviceIR to CUDA C++. The kernel becomes a small [`tree`] of C++, which is printed as readable text.
//!
//! | file | contents |
//! | --- | --- |
//! | [`abi`] | the interface to the launcher: parameters, buffers, variants |
//! | `launch` | those rules applied to a launch |
//! | `plan` | which values get a name |
//! | `kernel` | signature, prologue, index space |
//! | `expr`, `scalar` | expressions; operations on scalars and vectors |
//! | `memory`, `constants` | elements, arrays, shared memory; arrays of constants |
//! | `stmt`, `flow`, `effects`, `atomics`, `warp` | statements |
//! | `fences` | fences and warp barriers that the memory model requires |
//! | `helpers` | types and functions that a text defines for itself |
//! | `tree`, `print`, `names` | C++ |

pub(crate) mod abi;
mod atomics;
mod constants;
mod effects;
mod expr;
mod fences;
mod flow;
mod helpers;
mod kernel;
mod launch;
mod memory;
mod names;
mod plan;
mod print;
mod scalar;
mod stmt;
mod tree;
mod warp;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::source::{Sources, Span};
use crate::ir::Prepared;
use crate::ir::def::*;
use crate::ir::ranges::{self, Ranges, Setting, Site};
pub(crate) use abi::{CudaKernel, Piece};
pub use abi::{LaunchFacts, Options};
use helpers::Helpers;
pub(crate) use launch::{SharedRefusal, is_narrow, message};
use names::Names;
use plan::Plan;
use tree::{Expr, Stmt};

/// Facts that analysis found about an operation.
#[derive(Clone, Copy, Default)]
struct Known {
    /// It does not overflow.
    exact: bool,
    /// A signed division that may divide the smallest integer by -1.
    may_overflow: bool,
    /// A shift by less than the width.
    small_shift: bool,
}

/// Generates the CUDA C++ of a kernel. With sources, `#line` directives refer to their lines.
pub fn cuda_text(kernel: &Prepared, options: &Options, sources: Option<&Sources>) -> CudaKernel {
    let module = &*kernel.module;
    let largest = if options.wide { 0 } else { abi::NARROW };
    let threads = matches!(module.kernel.form, Form::Threads { .. });
    let block = if threads { None } else { options.block };
    let ranges = ranges::analyse(module, Setting { largest, block, assume: options.assume });
    let mut generator = Gen::new(module, &kernel.facts, options, sources, ranges);
    generator.kernel()
}

/// The code generator of one kernel.
struct Gen<'a> {
    module: &'a Module,
    function: &'a Function,
    facts: &'a Facts,
    options: &'a Options,
    sources: Option<&'a Sources>,
    ranges: Ranges,
    plan: Plan,
    fences: fences::Fences,
    helpers: Helpers,
    names: Names,
    /// The names of values that have one.
    values: FxHashMap<ExprId, String>,
    locals: Vec<String>,
    /// Locals that are declared at their first write, and those that are only loop counters.
    declared_at_write: FxHashSet<LocalId>,
    counters: FxHashSet<LocalId>,
    memories: Vec<memory::Array>,
    /// Structs of elements that have been defined.
    elements: Vec<(Layout, memory::Element)>,
    /// The names of the kernel's parameters.
    params: Vec<String>,
    /// The extents that the text uses: of parameters, by position and axis.
    extents: FxHashMap<(usize, usize), String>,
    indices: Vec<(String, String)>,
    /// Statements at the start of the kernel, in order.
    prologue: Vec<Stmt>,
    /// Declarations of shared arrays, which follow.
    prologue_shared: Vec<Stmt>,
    identities: FxHashMap<ExprKind, String>,
    uses_faults: bool,
    uses_prints: bool,
    uses_grid: bool,
    places: Vec<abi::Place>,
    prints: Vec<Vec<Piece>>,
    targets: Vec<flow::Target>,
    /// The number of the next statement, as in range analysis.
    stmt: u32,
    /// The number of named values and labels so far.
    named: u32,
    line: Option<(usize, String)>,
    /// The statements of the current block.
    out: Vec<Stmt>,
}

impl<'a> Gen<'a> {
    fn new(
        module: &'a Module,
        facts: &'a Facts,
        options: &'a Options,
        sources: Option<&'a Sources>,
        ranges: Ranges,
    ) -> Self {
        let function = &module.functions[module.kernel.body];
        let twice = if options.checked { twice(&ranges) } else { FxHashSet::default() };
        let plan = plan::plan(function, &twice);
        Gen {
            module,
            function,
            facts,
            options,
            sources,
            ranges,
            fences: fences::fences(function, &plan),
            plan,
            helpers: Helpers::default(),
            names: Names::new(),
            values: FxHashMap::default(),
            locals: vec![],
            declared_at_write: FxHashSet::default(),
            counters: FxHashSet::default(),
            memories: vec![],
            elements: vec![],
            params: vec![],
            extents: FxHashMap::default(),
            indices: vec![],
            prologue: vec![],
            prologue_shared: vec![],
            identities: FxHashMap::default(),
            uses_faults: false,
            uses_prints: false,
            uses_grid: false,
            places: vec![],
            prints: vec![],
            targets: vec![],
            stmt: 0,
            named: 0,
            line: None,
            out: vec![],
        }
    }

    fn push(&mut self, stmt: Stmt) {
        self.out.push(stmt);
    }

    /// Returns the statements that `f` emits, as a separate block.
    fn within(&mut self, f: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        let outer = std::mem::take(&mut self.out);
        f(self);
        std::mem::replace(&mut self.out, outer)
    }

    /// Returns a new name for a value: `t1`, `t2`, …
    fn temporary(&mut self) -> String {
        self.named += 1;
        self.names.fresh(&format!("t{}", self.named))
    }

    fn declare(&mut self, ty: &str, name: &str, value: Expr) {
        let ty = format!("const {ty}");
        self.push(Stmt::Declare { ty, name: name.into(), suffix: String::new(), value: Some(value) });
    }

    /// Emits a `#line` directive, if the source line has changed.
    fn at(&mut self, span: Span) {
        let Some(sources) = self.sources else { return };
        if sources.get(span.file).is_none() {
            return;
        }
        let line = (sources.line_column(span).0, format!("{:?}", sources.name(span.file)));
        if self.line.as_ref() != Some(&line) {
            self.push(Stmt::Line(line.0, line.1.clone()));
            self.line = Some(line);
        }
    }
}

/// Returns the values and statements whose operands are emitted twice: in their guard and in themselves.
fn twice(ranges: &Ranges) -> FxHashSet<Site> {
    let divisions = ranges.zero_divisors.iter().map(|&id| Site::Load(id));
    ranges.guards.keys().copied().chain(divisions).collect()
}
