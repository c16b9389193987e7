//! Whether threads of a block take different paths to the code that is being checked.

use clk_base::source::Span;

/// The kind of statement in which threads may diverge.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fork {
    If,
    While,
    For,
}

/// A condition or range that differs between threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DivergentCondition {
    pub at: Span,
    pub of: Fork,
}

/// The reads of thread-dependent values so far, and the enclosing conditions that depend on them.
#[derive(Default)]
pub(crate) struct Divergence {
    /// Number of reads of thread-dependent values so far. If checking an expression increases this number, the value of
    /// the expression may differ between threads.
    pub varying_reads: u32,
    /// For each enclosing condition and loop: the condition at which threads may diverge, if it depends on the thread.
    conditions: Vec<Option<DivergentCondition>>,
    /// Span of an earlier `return` under a thread-dependent condition.
    pub early_return: Option<Span>,
    /// Whether the blocks of the kernel have one thread.
    pub has_blocks_of_one_thread: bool,
}

impl Divergence {
    /// Enters a condition or loop. `reads` is the number of thread-dependent reads before its condition or range.
    pub fn enter(&mut self, at: Span, of: Fork, reads: u32) {
        self.conditions.push((self.varying_reads != reads).then_some(DivergentCondition { at, of }));
    }

    pub fn leave(&mut self) {
        self.conditions.pop();
    }

    /// Returns whether the code is in a condition or loop.
    pub fn is_nested(&self) -> bool {
        !self.conditions.is_empty()
    }

    /// Returns the outermost enclosing condition at which threads may diverge.
    pub fn condition(&self) -> Option<DivergentCondition> {
        self.conditions.iter().copied().flatten().next()
    }

    /// Records a `return`.
    pub fn record_return(&mut self, span: Span) {
        if self.condition().is_some() {
            self.early_return.get_or_insert(span);
        }
    }
}
