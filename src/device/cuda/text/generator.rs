//! The code generator of one kernel: state shared by all of its modules.

use rustc_hash::{FxHashMap, FxHashSet};

use super::abi::{self, Options, Piece};
use super::fences::{self, Fences};
use super::helpers::Helpers;
use super::names::Names;
use super::piece::Pieces;
use super::plan::{self, Plan};
use super::tree::{Expr, Stmt};
use crate::base::source::{Sources, Span};
use crate::ir::def::*;
use crate::ir::ranges::{Ranges, Site};
use crate::ir::variance::Variances;

/// Facts that analysis found about an operation.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// It does not overflow.
    pub(super) exact: bool,
    /// A signed division that may divide the smallest integer by -1.
    pub(super) may_overflow: bool,
    /// A shift by less than the width.
    pub(super) small_shift: bool,
}

/// The target of a `Break` or `Continue`.
pub(crate) struct Target {
    pub(super) label: Label,
    /// It is C's innermost loop for the statements directly in it.
    pub(super) breaks: bool,
    pub(super) continues: bool,
    /// A variable that is set before a `break` which leaves only the inner one of two loops.
    pub(super) flag: Option<String>,
    /// Names of labels behind it and at its end, once there are jumps to them.
    pub(super) done: Option<String>,
    pub(super) next: Option<String>,
}

/// An array in the text.
pub(crate) struct Array {
    pub name: String,
    pub element: Element,
    /// A C array with one subscript per axis, rather than a pointer with one offset.
    pub by_axis: bool,
    /// The names of extents that are computed at the start of the kernel.
    pub computed: Vec<Option<String>>,
}

/// A C++ type, and its members if it is a struct: one per leaf (scalar or vector component).
#[derive(Clone)]
pub(crate) struct Element {
    pub ty: String,
    pub fields: Option<Vec<String>>,
    /// Members that are preceded by explicit padding.
    pub gaps: Vec<bool>,
}

/// A loop whose accesses that are out of bounds are reported behind it.
pub(super) struct Late {
    /// The variable with the number of the site, from 1, of the first such access, and those with its indices.
    pub missed: String,
    pub indices: Vec<String>,
    pub sites: Vec<LateSite>,
}

/// A load in such a loop.
pub(super) struct LateSite {
    pub place: usize,
    pub extents: Vec<Expr>,
}

/// The code generator of one kernel.
pub(super) struct Gen<'a> {
    pub(super) module: &'a Module,
    pub(super) function: &'a Function,
    pub(super) options: &'a Options,
    pub(super) sources: Option<&'a Sources>,
    pub(super) ranges: Ranges,
    pub(super) plan: Plan,
    pub(super) fences: Fences,
    pub(super) helpers: Helpers,
    pub(super) names: Names,
    /// The names of values that have one.
    pub(super) values: FxHashMap<ExprId, String>,
    pub(super) locals: Vec<String>,
    /// Locals that are declared at their first write, and those that are only loop counters.
    pub(super) declared_at_write: FxHashSet<LocalId>,
    pub(super) counters: FxHashSet<LocalId>,
    pub(super) memories: Vec<Array>,
    /// Structs of elements that have been defined.
    pub(super) elements: Vec<(Layout, Element)>,
    /// The names of the kernel's parameters.
    pub(super) params: Vec<String>,
    /// The extents that the text uses: of parameters, by position and axis.
    pub(super) extents: FxHashMap<(usize, usize), String>,
    pub(super) indices: Vec<(String, String)>,
    /// Statements at the start of the kernel, in order.
    pub(super) prologue: Vec<Stmt>,
    /// Declarations of shared arrays, which follow.
    pub(super) prologue_shared: Vec<Stmt>,
    pub(super) identities: FxHashMap<ExprKind, String>,
    pub(super) uses_faults: bool,
    pub(super) uses_prints: bool,
    pub(super) uses_grid: bool,
    pub(super) places: Vec<abi::Place>,
    pub(super) prints: Vec<Vec<Piece>>,
    pub(super) targets: Vec<Target>,
    pub(super) late: Option<Late>,
    pub(super) pieces: Pieces,
    /// The arrays whose elements are not stored, but left to be written later; `None` in other texts.
    pub(super) left: Option<Vec<MemId>>,
    /// Whether a load in such a loop is in bounds, by name.
    pub(super) inside: FxHashMap<ExprId, String>,
    /// How values vary between threads, once that is asked for.
    pub(super) variances: Option<Variances>,
    /// The number of the next statement, as in range analysis.
    pub(super) stmt: u32,
    /// The number of named values and labels so far.
    pub(super) named: u32,
    pub(super) line: Option<(usize, String)>,
    /// The statements of the current block.
    pub(super) out: Vec<Stmt>,
}

impl<'a> Gen<'a> {
    pub(super) fn new(module: &'a Module, options: &'a Options, sources: Option<&'a Sources>, ranges: Ranges) -> Self {
        let function = &module.functions[module.kernel.body];
        let twice = if options.checked { twice(&ranges) } else { FxHashSet::default() };
        let plan = plan::plan(function, &twice);
        Gen {
            module,
            function,
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
            late: None,
            pieces: Pieces::default(),
            left: None,
            inside: FxHashMap::default(),
            variances: None,
            stmt: 0,
            named: 0,
            line: None,
            out: vec![],
        }
    }

    pub(super) fn push(&mut self, stmt: Stmt) {
        self.out.push(stmt);
    }

    /// Returns the statements that `f` emits, as a separate block.
    pub(super) fn within(&mut self, f: impl FnOnce(&mut Self)) -> Vec<Stmt> {
        let outer = std::mem::take(&mut self.out);
        f(self);
        std::mem::replace(&mut self.out, outer)
    }

    /// Returns a new name for a value: `t1`, `t2`, …
    pub(super) fn temporary(&mut self) -> String {
        self.named += 1;
        self.names.fresh(&format!("t{}", self.named))
    }

    pub(super) fn declare(&mut self, ty: &str, name: &str, value: Expr) {
        let ty = format!("const {ty}");
        self.push(Stmt::Declare { ty, name: name.into(), suffix: String::new(), value: Some(value) });
    }

    /// Emits a `#line` directive, if the source line has changed.
    pub(super) fn at(&mut self, span: Span) {
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
