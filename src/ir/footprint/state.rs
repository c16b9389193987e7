//! The state of the footprint analysis: the facts at a program point, and the targets of jumps.

use rustc_hash::{FxHashMap, FxHashSet};

use super::def::*;
use super::slice::{self, Slice, Taint};
use super::vars::VarSpace as Variables;
use crate::def::*;
use crate::variance::{self, Variances};
use crate::visit::each_stmt;
use clk_base::linear::{AffineForm, Formula};

/// The symbolic value of an expression or local.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SymbolicValue {
    Int(AffineForm),
    Bool(Formula),
    /// A value that is not tracked: a float, a vector, or a value on which no index or condition depends.
    Other,
}

/// The facts at a program point.
#[derive(Clone, Debug)]
pub(super) struct SymbolicState {
    pub path: Vec<Formula>,
    /// That the results of operations before this point fit their types, if overflow is undefined.
    pub in_range: Vec<Formula>,
    pub locals: FxHashMap<LocalId, SymbolicValue>,
    pub last_barriers: LastBarriers,
    /// Conditions that suffice to reach this point: every thread that satisfies them gets here. `None` if unknown.
    /// Unlike `path`, it contains no derived facts.
    pub certain_path: Option<Vec<PathStep>>,
}

impl SymbolicState {
    /// Returns all that holds at this point.
    pub fn facts(&self) -> Vec<Formula> {
        self.path.iter().chain(&self.in_range).cloned().collect()
    }
}

/// A labeled statement, with the states at the jumps (`break`, `continue`) to its label.
pub(super) struct SymbolicJumpTarget {
    pub label: Label,
    pub breaks: Vec<SymbolicState>,
    pub continues: Vec<SymbolicState>,
}

/// A loop or condition that encloses the current statement.
pub(super) struct EnclosingScope {
    /// The iteration number, if the scope is a loop that is analyzed once for an arbitrary iteration.
    pub counter: Option<AffineForm>,
    /// The iteration number, if the scope is a loop that is being unrolled.
    pub unrolled: Option<u32>,
    pub convergence: Convergence,
}

/// Which threads are certain to agree on a condition, or on the path through a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Convergence {
    /// All threads of a block agree.
    pub block: bool,
    /// All threads of a block agree, provided that there are no races on memory that the kernel writes.
    pub read: bool,
    /// All threads of the launch agree.
    pub launch: bool,
}

/// The jumps inside a block of statements.
pub(super) struct BlockJumps {
    pub any: bool,
    /// The conditions of branches that contain a jump.
    pub conds: Vec<ExprId>,
}

impl BlockJumps {
    pub fn in_block(block: &Block) -> BlockJumps {
        let mut jumps = BlockJumps { any: false, conds: vec![] };
        each_stmt(block, &mut |stmt| {
            jumps.any |= stmt.kind.is_jump();
            if let StmtKind::If { cond, then, other } = &stmt.kind {
                let mut contains_jump = false;
                let mut jump = |stmt: &Stmt| contains_jump |= stmt.kind.is_jump();
                each_stmt(then, &mut jump);
                each_stmt(other, &mut jump);
                jumps.conds.extend(contains_jump.then_some(*cond));
            }
        });
        jumps
    }
}

pub(super) struct FootprintAnalysis<'a> {
    pub f: &'a Function,
    pub launch: &'a SymbolicLaunch,
    pub space: Variables,
    pub values: FxHashMap<ExprId, SymbolicValue>,
    /// The facts at the current point; `None` if it is unreachable.
    pub state: Option<SymbolicState>,
    pub targets: Vec<SymbolicJumpTarget>,
    pub enclosing: Vec<EnclosingScope>,
    pub footprint: Footprint,
    /// The number of enclosing loops under trial analysis, which only finds a loop's invariants or its number of
    /// iterations. While it is positive, nothing is added to the footprint.
    pub exploring: u32,
    pub slice: Slice,
    pub observed: FxHashSet<ExprId>,
    pub uniform: FxHashSet<LocalId>,
    pub variances: Variances,
    pub taint: Taint,
    /// The contents of local arrays whose elements are constants.
    pub tables: FxHashMap<MemId, Vec<u64>>,
    /// The jumps of the whole kernel.
    pub jumps: BlockJumps,
    pub opaque: &'a FxHashSet<ExprId>,
    pub overflow: SignedOverflow,
    pub unroll: bool,
    /// The number of statements that may still be analyzed before the analysis gives up.
    pub budget: u32,
    pub sites: FxHashMap<(usize, Vec<u32>), u32>,
    /// The pre-order numbers of statements.
    pub numbers: FxHashMap<*const Stmt, u32>,
}

/// The analysis gives up after analyzing this many statements, including repetitions.
const MAX_STMTS: u32 = 60_000;

impl<'a> FootprintAnalysis<'a> {
    pub fn new(
        f: &'a Function,
        launch: &'a SymbolicLaunch,
        opaque: &'a FxHashSet<ExprId>,
        overflow: SignedOverflow,
        unroll: bool,
    ) -> Self {
        let variances = variance::analyze(f);
        let taint = slice::find_taint(f);
        let start = || vec![LastBarrier { site: SyncSite::Start, counters: vec![], conditions: vec![] }];
        FootprintAnalysis {
            f,
            launch,
            space: launch.variables.clone(),
            values: FxHashMap::default(),
            state: Some(SymbolicState {
                path: vec![],
                in_range: vec![],
                locals: FxHashMap::default(),
                last_barriers: [start(), start()],
                certain_path: Some(vec![]),
            }),
            targets: vec![],
            enclosing: vec![],
            footprint: Footprint::default(),
            exploring: 0,
            slice: slice::slice_indices_and_conditions(f),
            observed: slice::observed_exprs(f),
            uniform: slice::uniform_locals(f, &variances, &taint),
            variances,
            taint,
            tables: slice::constant_tables(f),
            jumps: BlockJumps::in_block(&f.body),
            opaque,
            overflow,
            unroll,
            budget: MAX_STMTS,
            sites: FxHashMap::default(),
            numbers: number_stmts(&f.body),
        }
    }
}

fn number_stmts(body: &Block) -> FxHashMap<*const Stmt, u32> {
    let mut numbers = FxHashMap::default();
    each_stmt(body, &mut |stmt| {
        let next = numbers.len() as u32;
        numbers.insert(std::ptr::from_ref(stmt), next);
    });
    numbers
}
