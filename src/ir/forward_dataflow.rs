//! Forward dataflow analysis over structured statements.
//!
//! The state at a point joins the states of all paths to it. A loop is visited until the state at its head no longer
//! changes. An analysis collects its results while it visits statements, so a statement of a loop is visited several
//! times, with growing states.

use rustc_hash::FxHashMap;

use crate::def::*;
use crate::visit::each_stmt;

/// An analysis that visits the statements of a function in the order of execution.
pub trait ForwardAnalysis {
    /// The state at a point of the program. Joins only add to it, so that loops reach a fixpoint.
    type State: Clone + PartialEq;

    fn join(state: &mut Self::State, other: &Self::State);

    /// Applies the effect of a statement to the state. `number` is the position of the statement in the order of
    /// [`each_stmt`]. Not called for statements that only contain others or jump.
    fn visit(&mut self, stmt: &Stmt, number: u32, state: &mut Self::State);

    /// Returns a number that changes whenever the results of the analysis change the effect of statements. Loops are
    /// then visited again.
    fn version(&self) -> usize {
        0
    }
}

/// Visits all statements of a body, starting from `state`.
pub fn analyze_forward<A: ForwardAnalysis>(analysis: &mut A, body: &Block, state: A::State) {
    let (breaks, continues) = (FxHashMap::default(), FxHashMap::default());
    ForwardWalk { analysis, number: 0, breaks, continues }.block(body, Some(state));
}

struct ForwardWalk<'a, A: ForwardAnalysis> {
    analysis: &'a mut A,
    /// The number of the next statement.
    number: u32,
    /// For each enclosing statement, the joined states at jumps out of it (`breaks`) and at jumps to its next
    /// iteration.
    breaks: FxHashMap<Label, Option<A::State>>,
    continues: FxHashMap<Label, Option<A::State>>,
}

fn join<A: ForwardAnalysis>(to: &mut Option<A::State>, from: Option<A::State>) {
    match (to, from) {
        (Some(to), Some(from)) => A::join(to, &from),
        (to @ None, from) => *to = from,
        (_, None) => {}
    }
}

impl<A: ForwardAnalysis> ForwardWalk<'_, A> {
    /// Returns the state after a block, or `None` if the end of the block is unreachable.
    fn block(&mut self, block: &Block, mut state: Option<A::State>) -> Option<A::State> {
        for stmt in block {
            state = self.stmt(stmt, state);
        }
        state
    }

    fn stmt(&mut self, stmt: &Stmt, state: Option<A::State>) -> Option<A::State> {
        let number = self.number;
        self.number += 1;
        let Some(mut state) = state else {
            // Advance the statement number past the unreachable statement.
            stmt.kind.blocks().for_each(|inner| each_stmt(inner, &mut |_| self.number += 1));
            return None;
        };
        match &stmt.kind {
            StmtKind::If { then, other, .. } => {
                let mut exit = self.block(then, Some(state.clone()));
                let other = self.block(other, Some(state));
                join::<A>(&mut exit, other);
                exit
            }
            StmtKind::For { label, body, .. } => self.iterations(*label, body, state, true),
            StmtKind::Loop { label, body, .. } => self.iterations(*label, body, state, false),
            StmtKind::Block { label, body } => {
                self.breaks.insert(*label, None);
                let mut exit = self.block(body, Some(state));
                join::<A>(&mut exit, self.breaks.remove(label).flatten());
                exit
            }
            StmtKind::Break(label) => {
                join::<A>(self.breaks.entry(*label).or_default(), Some(state));
                None
            }
            StmtKind::Continue(label) => {
                join::<A>(self.continues.entry(*label).or_default(), Some(state));
                None
            }
            StmtKind::Return(_) => None,
            _ => {
                self.analysis.visit(stmt, number, &mut state);
                Some(state)
            }
        }
    }

    /// Visits a loop until the state at its head reaches a fixpoint. `may_skip`: the loop may run zero times.
    fn iterations(&mut self, label: Label, body: &Block, state: A::State, may_skip: bool) -> Option<A::State> {
        let first = self.number;
        let mut head = Some(state);
        loop {
            self.number = first;
            self.breaks.insert(label, None);
            self.continues.insert(label, None);
            let version = self.analysis.version();
            let mut next = self.block(body, head.clone());
            join::<A>(&mut next, self.continues.remove(&label).flatten());
            let mut exit = self.breaks.remove(&label).flatten();
            let mut next_head = head.clone();
            join::<A>(&mut next_head, next);
            let is_stable = next_head == head && version == self.analysis.version();
            head = next_head;
            if is_stable {
                if may_skip {
                    join::<A>(&mut exit, head);
                }
                return exit;
            }
        }
    }
}
