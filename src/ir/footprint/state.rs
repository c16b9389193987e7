//! The state of a walk: what is known at a point of the program, and where control may go from there.

use rustc_hash::{FxHashMap, FxHashSet};

use super::def::*;
use super::slice::{self, Slice, Taint};
use super::space::Space as Variables;
use crate::base::linear::{Formula, Linear};
use crate::ir::def::*;
use crate::ir::variance::{self, Variances};
use crate::ir::visit::each_stmt;

/// What is known of a value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Int(Linear),
    Bool(Formula),
    /// A float, a vector, or what no index and no condition depends on.
    Other,
}

/// What holds at a point of the program.
#[derive(Clone, Debug)]
pub(super) struct State {
    pub path: Vec<Formula>,
    pub locals: FxHashMap<LocalId, Value>,
    pub clocks: Clocks,
    /// What leads here for sure, if it is known: the path, without what is only known to hold.
    pub sure: Option<Vec<Step>>,
}

/// A statement that jumps may lead to the end of.
pub(super) struct Target {
    pub label: Label,
    pub breaks: Vec<State>,
    pub continues: Vec<State>,
}

/// A loop or condition around the current statement.
pub(super) struct Around {
    /// The iteration, of a loop of which one stands for all.
    pub counter: Option<Linear>,
    /// The iteration, of a loop that is executed.
    pub unrolled: Option<u32>,
    pub meeting: Meeting,
}

/// Which threads surely take the same way at a condition or loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meeting {
    /// Those of a block.
    pub block: bool,
    /// Those of a block, if memory that the kernel writes has no races.
    pub read: bool,
    /// All of the launch.
    pub launch: bool,
}

/// The jumps of a block.
pub(super) struct Jumps {
    pub any: bool,
    /// The conditions of branches that lead to one.
    pub conds: Vec<ExprId>,
}

impl Jumps {
    pub fn of(block: &Block) -> Jumps {
        let mut found = Jumps { any: false, conds: vec![] };
        each_stmt(block, &mut |stmt| {
            found.any |= stmt.kind.leaves();
            if let StmtKind::If { cond, then, other } = &stmt.kind {
                let mut leads = false;
                let mut jump = |stmt: &Stmt| leads |= stmt.kind.leaves();
                each_stmt(then, &mut jump);
                each_stmt(other, &mut jump);
                found.conds.extend(leads.then_some(*cond));
            }
        });
        found
    }
}

pub(super) struct Walk<'a> {
    pub f: &'a Function,
    pub given: &'a Given,
    pub space: Variables,
    pub values: FxHashMap<ExprId, Value>,
    /// `None`: this point is not reached.
    pub state: Option<State>,
    pub targets: Vec<Target>,
    pub around: Vec<Around>,
    pub found: Footprint,
    /// Above 0 while a loop is examined, when nothing is recorded.
    pub muted: u32,
    pub slice: Slice,
    pub used: FxHashSet<ExprId>,
    pub uniform: FxHashSet<LocalId>,
    pub variances: Variances,
    pub taint: Taint,
    /// The contents of local arrays of constants.
    pub tables: FxHashMap<MemId, Vec<u64>>,
    /// Those of the whole kernel.
    pub jumps: Jumps,
    pub opaque: &'a FxHashSet<ExprId>,
    pub unroll: bool,
    /// Statements that may still be executed.
    pub budget: u32,
    pub sites: FxHashMap<(usize, Vec<u32>), u32>,
    /// The numbers of statements, in pre-order.
    pub numbers: FxHashMap<*const Stmt, u32>,
}

/// Statements executed, beyond which the walk gives up.
const BUDGET: u32 = 60_000;

impl<'a> Walk<'a> {
    pub fn new(f: &'a Function, given: &'a Given, opaque: &'a FxHashSet<ExprId>, unroll: bool) -> Self {
        let variances = variance::analyze(f);
        let taint = slice::taint(f);
        let start = || vec![Moment { site: Site::Start, counters: vec![], when: vec![] }];
        Walk {
            f,
            given,
            space: given.variables.clone(),
            values: FxHashMap::default(),
            state: Some(State {
                path: vec![],
                locals: FxHashMap::default(),
                clocks: [start(), start()],
                sure: Some(vec![]),
            }),
            targets: vec![],
            around: vec![],
            found: Footprint::default(),
            muted: 0,
            slice: slice::relevant(f),
            used: slice::used(f),
            uniform: slice::uniform_locals(f, &variances, &taint),
            variances,
            taint,
            tables: slice::tables(f),
            jumps: Jumps::of(&f.body),
            opaque,
            unroll,
            budget: BUDGET,
            sites: FxHashMap::default(),
            numbers: numbers(&f.body),
        }
    }
}

fn numbers(body: &Block) -> FxHashMap<*const Stmt, u32> {
    let mut numbers = FxHashMap::default();
    each_stmt(body, &mut |stmt| {
        let next = numbers.len() as u32;
        numbers.insert(std::ptr::from_ref(stmt), next);
    });
    numbers
}
