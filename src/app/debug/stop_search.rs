//! Searches forward or backward for the next stop of a run.

use super::breakpoint::{Breakpoint, BreakpointKind, matches_coordinates};
use super::evaluate::{Evaluator, InspectedFrame};
use super::frame;
use super::stmt_table::{ProgramSource, StmtTable};
use clk_base::source::Span;
use clk_ir::def::{Expr, ExprKind, KernelParam, MemorySpace, Module};
use clk_step::timeline::Seeker;
use clk_step::{
    AccessEvent, ArrayStorage, LaunchSnapshot, StepLaunch, StepObserver, StepPosition, Thread, ThreadIds, ThreadPhase,
    ThreadValue,
};

/// The target of a movement command.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// No target: only breakpoints, faults and the end stop the run.
    Nothing,
    /// This thread begins a statement with at most `depth` frames on its call stack.
    Statement { block: u64, thread: u32, depth: usize },
    /// This thread has fewer than `depth` frames on its call stack.
    Outside { block: u64, thread: u32, depth: usize },
    /// The first step of a block.
    Block(u64),
}

/// Why the search stopped at a state.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StopReason {
    Point(u32),
    /// A thread wrote an element that the breakpoint with this id watches.
    Write(u32, WriteEvent),
    Nan(u32, Span, StepPosition),
    Goal,
    /// The breakpoint's condition cannot be evaluated, for this reason.
    Refused(u32, String),
}

/// A write to an element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WriteEvent {
    pub by: StepPosition,
    pub array: String,
    pub indices: Vec<usize>,
    /// The path of the written field, such as `.mass`; empty if the whole element was written.
    pub part: String,
    pub before: Option<ThreadValue>,
    pub value: ThreadValue,
    pub span: Span,
}

/// Returns the global and shared arrays of a module with this name.
fn stores(module: &Module, name: &str) -> Vec<ArrayStorage> {
    let params = module.kernel.params.iter().enumerate();
    let global = params.filter(|(_, p)| matches!(p, KernelParam::Array { name: own, .. } if own == name));
    let mut result: Vec<ArrayStorage> = global.map(|(i, _)| ArrayStorage::Global(i)).collect();
    for (id, function) in module.functions.iter() {
        let shared = function.memories.iter().filter(|(_, m)| m.space == MemorySpace::Shared && m.name == name);
        result.extend(shared.map(|(memory, _)| ArrayStorage::Shared(id, memory)));
    }
    result
}

/// Whether a breakpoint can stop some launch of a module.
pub(crate) fn can_stop_in(point: &Breakpoint, source: &ProgramSource, module: &Module, table: &StmtTable) -> bool {
    point.enabled
        && match &point.kind {
            BreakpointKind::Line { places, .. } => table.contains_any(places),
            BreakpointKind::Item { name } => {
                module.kernel.name == *name || module.functions.iter().any(|(_, f)| source.name_of(f) == name)
            }
            BreakpointKind::Anywhere | BreakpointKind::Nan => true,
            BreakpointKind::Write { array, .. } => !stores(module, array).is_empty(),
        }
}

/// Records the writes and NaN computations of a step that breakpoints watch.
#[derive(Default)]
struct StepEvents {
    writes: Vec<(u32, WriteEvent)>,
    nans: Vec<(u32, Span, StepPosition)>,
    watched: Vec<(u32, Vec<ArrayStorage>, Vec<i64>)>,
    nan_points: Vec<u32>,
}

impl StepObserver for StepEvents {
    fn value(&mut self, at: StepPosition, expr: &Expr, span: Span, val: ThreadValue) {
        let computes = || {
            use ExprKind::{Binary, Bitcast, Convert, Math, Unary};
            matches!(expr.kind, Unary { .. } | Binary { .. } | Math { .. } | Convert(_) | Bitcast(_))
        };
        if !self.nan_points.is_empty() && computes() && val.values().any(|value| value.is_nan()) {
            self.nans.extend(self.nan_points.iter().map(|&id| (id, span, at)));
        }
    }

    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        if !access.writes() {
            return;
        }
        for (id, stores, wanted) in &self.watched {
            if !stores.contains(&access.store()) {
                continue;
            }
            let element = access.offset / access.array.layout.size.max(1);
            let indices = frame::indices(element, &access.array.extents);
            if indices.iter().map(|&i| i as i64).eq(wanted.iter().copied()) {
                let (before, value, span) = (access.before, access.value, access.span);
                let (array, part) = (access.array.name.to_string(), access.part());
                self.writes.push((*id, WriteEvent { by: at, array, indices, part, before, value, span }));
            }
        }
    }
}

/// Examines the states of a launch one by one until a breakpoint or the goal stops the search.
pub(crate) struct StateSearch<'a, 'm> {
    launch: ThreadNamer<'a, 'm>,
    source: &'a ProgramSource,
    table: &'a StmtTable,
    points: Vec<Breakpoint>,
    evaluator: &'a mut Evaluator,
    goal: Goal,
    backward: bool,
    events: StepEvents,
    /// Why the search stopped; `None` if it has not.
    pub stop: Option<StopReason>,
}

/// Computes the coordinates and the index tuple of a thread.
pub(crate) struct ThreadNamer<'a, 'm>(pub &'a StepLaunch<'m>);

impl ThreadNamer<'_, '_> {
    /// Whether a thread matches the filters of a breakpoint.
    fn passes(&self, point: &Breakpoint, at: StepPosition) -> bool {
        let ThreadIds { thread, block, index, .. } = self.0.ids(at.block, u64::from(at.thread));
        let of_thread = |given: &Vec<u32>| match index {
            Some((index, rank)) => given.len() == rank && given[..] == index[..rank],
            None => matches_coordinates(given, &thread),
        };
        let of_block = |given: &Vec<u32>| match index {
            // A kernel over an index space has no blocks of its own; its blocks are groups of 32 threads, with one
            // coordinate.
            Some(_) => matches_coordinates(given, &[at.block as u32]),
            None => matches_coordinates(given, &block),
        };
        point.thread.as_ref().is_none_or(of_thread) && point.block.as_ref().is_none_or(of_block)
    }
}

impl<'a, 'm> StateSearch<'a, 'm> {
    pub fn new(
        launch: &'a StepLaunch<'m>,
        source: &'a ProgramSource,
        table: &'a StmtTable,
        points: &[Breakpoint],
        evaluator: &'a mut Evaluator,
        goal: Goal,
        backward: bool,
    ) -> Self {
        let points: Vec<Breakpoint> = points.iter().filter(|p| p.enabled).cloned().collect();
        let mut events = StepEvents::default();
        for point in &points {
            match &point.kind {
                BreakpointKind::Write { array, indices } => {
                    events.watched.push((point.id, stores(launch.module, array), indices.clone()));
                }
                BreakpointKind::Nan => events.nan_points.push(point.id),
                _ => {}
            }
        }
        StateSearch {
            launch: ThreadNamer(launch),
            source,
            table,
            points,
            evaluator,
            goal,
            backward,
            events,
            stop: None,
        }
    }

    fn find_stop(&mut self, state: &LaunchSnapshot<'_>) -> Option<StopReason> {
        let (writes, nans) = (std::mem::take(&mut self.events.writes), std::mem::take(&mut self.events.nans));
        for (id, write) in writes {
            if let Some(stop) = self.if_admitted(id, state, write.by, StopReason::Write(id, write)) {
                return Some(stop);
            }
        }
        for (id, span, at) in nans {
            if let Some(stop) = self.if_admitted(id, state, at, StopReason::Nan(id, span, at)) {
                return Some(stop);
            }
        }
        let (at, thread) = (state.at(), state.current());
        if let Some(thread) = thread
            && let Some(stop) = self.at_points(state, at, thread)
        {
            return Some(stop);
        }
        self.is_goal(state, at, thread).then_some(StopReason::Goal)
    }

    fn at_points(&mut self, state: &LaunchSnapshot<'_>, at: StepPosition, thread: &Thread<'_>) -> Option<StopReason> {
        if self.points.is_empty() {
            return None;
        }
        let part = thread.next().and_then(|stmt| self.table.part(stmt))?;
        if !part.begins {
            return None;
        }
        let hit = |point: &&Breakpoint| match &point.kind {
            BreakpointKind::Line { places, .. } => places.contains(&part.place),
            BreakpointKind::Item { name } => self.enters(thread, at, name),
            BreakpointKind::Anywhere => true,
            BreakpointKind::Nan | BreakpointKind::Write { .. } => false,
        };
        let hits: Vec<u32> = self.points.iter().filter(hit).map(|point| point.id).collect();
        hits.into_iter().find_map(|id| self.if_admitted(id, state, at, StopReason::Point(id)))
    }

    /// Whether a thread is at the first statement of the kernel or function called `name`. For a kernel, this is true
    /// only for thread 0 of each block, so that the run stops once per block.
    fn enters(&self, thread: &Thread<'_>, at: StepPosition, name: &str) -> bool {
        let Some(frame) = thread.frames.last() else { return false };
        let is_first =
            frame.turns == 0 && frame.is_at_start(&mut |stmt| self.table.part(stmt).is_some_and(|part| part.begins));
        let is_kernel = thread.frames.len() == 1;
        is_first && self.source.name_of(frame.function) == name && (!is_kernel || at.thread == 0)
    }

    /// Returns `stop` if the filters and the condition of the breakpoint hold, and a different stop if the condition is
    /// invalid.
    fn if_admitted(
        &mut self,
        id: u32,
        state: &LaunchSnapshot<'_>,
        at: StepPosition,
        stop: StopReason,
    ) -> Option<StopReason> {
        let point = self.points.iter().find(|point| point.id == id)?;
        if !self.launch.passes(point, at) {
            return None;
        }
        let Some(condition) = point.condition.clone() else { return Some(stop) };
        let block = state.block(at.block)?;
        let thread = block.threads.get(at.thread as usize)?;
        let depth = thread.frames.len().checked_sub(1)?;
        let place = frame::current_span(self.source, self.table, thread, depth)?;
        let look = InspectedFrame { state, block, thread, depth, at: place };
        match self.evaluator.holds(&condition, self.source, &look) {
            Ok(true) => Some(stop),
            Ok(false) => None,
            Err(error) => Some(StopReason::Refused(id, error.to_string())),
        }
    }

    /// Whether a thread has ended or, in a backward search, has not started yet.
    fn has_finished(&self, state: &LaunchSnapshot<'_>, block: u64, thread: u32) -> bool {
        let target = state.block(block).and_then(|block| block.threads.get(thread as usize));
        target.is_none_or(|thread| !self.backward && matches!(thread.phase, ThreadPhase::Done))
    }

    fn is_goal(&self, state: &LaunchSnapshot<'_>, at: StepPosition, thread: Option<&Thread<'_>>) -> bool {
        let begins = |thread: &Thread<'_>| thread.next().and_then(|s| self.table.part(s)).is_some_and(|p| p.begins);
        match self.goal {
            Goal::Nothing => false,
            Goal::Statement { block, thread: number, depth } => {
                let is_there = (at.block, at.thread) == (block, number);
                is_there && thread.is_some_and(|t| t.frames.len() <= depth && begins(t))
                    || self.has_finished(state, block, number)
            }
            Goal::Outside { block, thread: number, depth } => {
                let is_there = (at.block, at.thread) == (block, number);
                is_there && thread.is_some_and(|t| t.frames.len() < depth) || self.has_finished(state, block, number)
            }
            Goal::Block(block) => at.block == block,
        }
    }
}

impl Seeker for StateSearch<'_, '_> {
    fn observer(&mut self) -> &mut dyn StepObserver {
        &mut self.events
    }

    fn is_here(&mut self, state: &LaunchSnapshot<'_>) -> bool {
        match self.find_stop(state) {
            Some(stop) => {
                self.stop = Some(stop);
                true
            }
            None => false,
        }
    }
}
