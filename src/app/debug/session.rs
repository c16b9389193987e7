//! A launch in the debugger: its current step, the focused thread, and movement in both directions.
//!
//! The terminal and the editor protocol share this module. It does no input or output.

use super::breakpoint::Breakpoint;
use super::evaluate::{Evaluator, InspectedFrame};
use super::frame::{self, NamedContents};
use super::stmt_table::{ProgramSource, ScopedName, StmtTable};
use super::stop_search::{Goal, StateSearch, StopReason, can_stop_in};
use crate::command_error::CommandResult;
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, Span};
use clk_compile::Session;
use clk_compile::advice::FaultOrigin;
use clk_ir::def::Module;
use clk_runtime::{Fault, LaunchOrigin};
use clk_step::timeline::{Interrupted, Timeline};
use clk_step::{ArrayRef, BlockState, LaunchSnapshot, PagedBytes, Thread, ThreadIds, ThreadPhase};

/// State of the debugger that persists across launches.
pub(crate) struct DebugSettings {
    pub session: Session,
    pub source: ProgramSource,
    pub evaluator: Evaluator,
    pub points: Vec<Breakpoint>,
    /// Whether to stop at the first statement of the next launch.
    pub stop_at_launch: bool,
    next: u32,
}

impl DebugSettings {
    pub fn new(session: &Session) -> DebugSettings {
        DebugSettings {
            session: session.clone(),
            source: ProgramSource::of(&session.program),
            evaluator: Evaluator::new(session),
            points: vec![],
            stop_at_launch: false,
            next: 1,
        }
    }

    /// Returns the file of the script, or the CUDA file whose launches are debugged.
    pub fn main_file(&self) -> Option<FileId> {
        let Session { program, sources, main, .. } = &self.session;
        let file = program.modules.get((*main)?)?.file;
        let kernel = program.kernels_of(*main).next().filter(|_| sources.is_generated(file));
        Some(kernel.map_or(file, |(_, kernel)| sources.original(kernel.name_span).file))
    }

    /// Adds a breakpoint; returns its id.
    pub fn add(&mut self, mut point: Breakpoint) -> u32 {
        point.id = self.next;
        self.next += 1;
        let id = point.id;
        self.points.push(point);
        id
    }

    /// Whether a launch of a module must run in the stepper, because it can stop.
    pub fn applies_to(&self, module: &Module) -> bool {
        let table = StmtTable::of(&self.source, module);
        self.stop_at_launch || self.points.iter().any(|point| can_stop_in(point, &self.source, module, &table))
    }
}

/// Where and why a movement command stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StopLocation {
    /// The launch is at its start.
    Start,
    /// A breakpoint or the target of the command was reached.
    Stop(StopReason),
    Fault(Box<Fault>),
    /// The launch is over.
    End,
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchDirection {
    Forward,
    Backward,
}

/// The focused thread and frame. `depth` counts frames from the outermost one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Focus {
    pub block: u64,
    pub thread: u32,
    pub depth: usize,
}

pub(crate) struct Debug<'a, 'm> {
    pub timeline: Timeline<'m>,
    pub settings: &'a mut DebugSettings,
    pub table: StmtTable,
    pub focus: Focus,
    pub arrival: StopLocation,
    /// Number of the launch in this run, counted from 1.
    pub number: u64,
    pub launched: Span,
}

impl<'a, 'm> Debug<'a, 'm> {
    pub fn new(timeline: Timeline<'m>, settings: &'a mut DebugSettings, number: u64, launched: Span) -> Self {
        let table = StmtTable::of(&settings.source, timeline.launch.module);
        let focus = Focus::default();
        let mut debug = Debug { timeline, settings, table, focus, arrival: StopLocation::Start, number, launched };
        debug.follow();
        debug
    }

    /// Returns the diagnostic of a fault of this launch.
    pub fn explain(&self, fault: &Fault) -> Diagnostic {
        let (program, launch) = (&self.settings.session.program, &self.timeline.launch);
        let kernel = Some(launch.module.kernel.span);
        let origin = LaunchOrigin { kernel, extents: launch.extents, launched: self.launched };
        FaultOrigin::of_launch(program, &origin).explain(fault)
    }

    pub fn state(&self) -> &LaunchSnapshot<'m> {
        self.timeline.now()
    }

    pub fn kernel(&self) -> &'m str {
        &self.timeline.launch.module.kernel.name
    }

    /// Returns the coordinates and indices of a thread.
    pub fn ids(&self, block: u64, thread: u32) -> ThreadIds {
        self.timeline.launch.ids(block, u64::from(thread))
    }

    /// Focuses the thread that runs next. After the last step of the launch, keeps the focused thread.
    fn follow(&mut self) {
        let at = self.state().at();
        let frames = match self.state().current() {
            Some(thread) => thread.frames.len(),
            None => return self.deepest(),
        };
        self.focus = Focus { block: at.block, thread: at.thread, depth: frames.saturating_sub(1) };
    }

    /// Focuses a thread in its innermost frame.
    pub fn look_at(&mut self, block: u64, thread: u32) {
        self.focus = Focus { block, thread, depth: 0 };
        self.deepest();
    }

    fn deepest(&mut self) {
        let depth = self.thread().map_or(0, |thread| thread.frames.len().saturating_sub(1));
        self.focus.depth = depth;
    }

    /// Returns the focused block, if it is in progress.
    pub fn block(&self) -> Option<&BlockState<'m>> {
        self.state().block(self.focus.block)
    }

    pub fn thread(&self) -> Option<&Thread<'m>> {
        Some(&**self.block()?.threads.get(self.focus.thread as usize)?)
    }

    /// Returns the span of the statement that the focused frame is executing.
    pub fn current_span(&self) -> Option<Span> {
        frame::current_span(&self.settings.source, &self.table, self.thread()?, self.focus.depth)
    }

    /// Moves in a direction until the goal or a breakpoint is reached.
    pub fn go(&mut self, way: SearchDirection, goal: Goal) {
        self.search(way, goal, true);
    }

    /// Moves to the first step of a block, ignoring breakpoints.
    pub fn go_to_block(&mut self, block: u64) {
        self.go_to(0);
        if block > 0 && self.arrival != StopLocation::Interrupted {
            self.search(SearchDirection::Forward, Goal::Block(block), false);
        }
    }

    fn search(&mut self, way: SearchDirection, goal: Goal, stops: bool) {
        let (reached, stop) = {
            let DebugSettings { source, evaluator, points, .. } = &mut *self.settings;
            let points: &[Breakpoint] = if stops { points } else { &[] };
            let launch = self.timeline.launch.clone();
            let mut search = StateSearch::new(
                &launch,
                source,
                &self.table,
                points,
                evaluator,
                goal,
                way == SearchDirection::Backward,
            );
            let reached = match way {
                SearchDirection::Forward => self.timeline.seek(&mut search),
                SearchDirection::Backward => self.timeline.seek_back(&mut search),
            };
            (reached, search.stop)
        };
        self.arrival = match (reached, stop) {
            (Err(Interrupted), _) => StopLocation::Interrupted,
            (Ok(true), Some(stop)) => StopLocation::Stop(stop),
            _ => self.end_of_search(),
        };
        self.finish_move();
    }

    /// Returns where a search ended that reached the first or the last step without a stop.
    fn end_of_search(&self) -> StopLocation {
        match self.state().faults.first() {
            Some(fault) => StopLocation::Fault(Box::new(fault.clone())),
            None if self.state().is_over => StopLocation::End,
            None => StopLocation::Start,
        }
    }

    /// Focuses the thread that caused the stop, and increments the breakpoint's hit count.
    fn finish_move(&mut self) {
        let by = match &self.arrival {
            StopLocation::Stop(StopReason::Write(_, write)) => Some((write.by.block, write.by.thread)),
            StopLocation::Stop(StopReason::Nan(_, _, at)) => Some((at.block, at.thread)),
            StopLocation::Fault(fault) => self.faulting_thread(fault),
            _ => None,
        };
        if let StopLocation::Stop(StopReason::Point(id) | StopReason::Write(id, _) | StopReason::Nan(id, ..)) =
            &self.arrival
            && let Some(point) = self.settings.points.iter_mut().find(|point| point.id == *id)
        {
            point.hits += 1;
        }
        match by {
            Some((block, thread)) => self.look_at(block, thread),
            None => self.follow(),
        }
    }

    /// Finds the thread that faulted, in the current block.
    fn faulting_thread(&self, fault: &Fault) -> Option<(u64, u32)> {
        let block = self.state().block.number;
        let is_it = |thread: &u32| {
            let ids = self.ids(block, *thread);
            match (&fault.index, ids.index) {
                (Some(index), Some((own, rank))) => own[..rank] == index[..],
                _ => (ids.block, ids.thread) == (fault.block, fault.thread),
            }
        };
        (0..self.state().block.threads.len() as u32).find(is_it).map(|thread| (block, thread))
    }

    /// Moves to the focused thread's next statement, in any frame: steps into calls.
    pub fn step(&mut self, way: SearchDirection) {
        self.statement(way, usize::MAX);
    }

    /// Moves to the focused thread's next statement in this frame or an outer one: steps over calls.
    pub fn next(&mut self, way: SearchDirection) {
        let depth = self.thread().map_or(usize::MAX, |thread| thread.frames.len().max(1));
        self.statement(way, depth);
    }

    fn statement(&mut self, way: SearchDirection, depth: usize) {
        let Focus { block, thread, .. } = self.focus;
        // If the focused thread has ended or its block is not in progress, it has no next statement. The thread that
        // runs next is used instead.
        let ended = |thread: &Thread<'_>| matches!(thread.phase, ThreadPhase::Done);
        let lives = self.thread().is_some_and(|thread| way == SearchDirection::Backward || !ended(thread));
        let (block, thread) = if lives { (block, thread) } else { (self.state().at().block, self.state().at().thread) };
        self.go(way, Goal::Statement { block, thread, depth });
    }

    /// Moves until the focused thread leaves its current call.
    pub fn finish(&mut self, way: SearchDirection) {
        let Focus { block, thread, .. } = self.focus;
        let depth = self.thread().map_or(1, |thread| thread.frames.len());
        self.go(way, Goal::Outside { block, thread, depth });
    }

    /// Moves to a step given by its position on the timeline, or to the end if the position is larger.
    pub fn go_to(&mut self, position: u64) {
        self.arrival = match self.timeline.go_to(position) {
            Err(Interrupted) => StopLocation::Interrupted,
            Ok(()) if self.timeline.is_at_end() => self.end_of_search(),
            Ok(()) if position == 0 => StopLocation::Start,
            Ok(()) => StopLocation::Stop(StopReason::Goal),
        };
        self.finish_move();
    }

    /// Whether the launch is at its start and has no breakpoints.
    pub fn is_untouched(&self) -> bool {
        self.timeline.position() == 0 && !self.settings.applies_to(self.timeline.launch.module)
    }

    /// Runs the rest of the launch, ignoring breakpoints.
    pub fn run_to_end(&mut self) -> Result<(), Interrupted> {
        self.timeline.go_to(u64::MAX)
    }

    fn look(&self) -> CommandResult<InspectedFrame<'_, 'm>> {
        let block = self.block().ok_or("the block is not in progress")?;
        let thread = self.thread().ok_or("there is no such thread")?;
        let at = self.current_span().ok_or("the thread is nowhere")?;
        Ok(InspectedFrame { state: self.state(), block, thread, depth: self.focus.depth, at })
    }

    /// Evaluates an expression in the focused frame.
    pub fn value(&mut self, text: &str) -> CommandResult {
        let (block, focus) = (self.timeline.now().block(self.focus.block), self.focus);
        let block = block.ok_or("the block is not in progress")?;
        let thread = block.threads.get(focus.thread as usize).ok_or("there is no such thread")?;
        let at = frame::current_span(&self.settings.source, &self.table, thread, focus.depth)
            .ok_or("the thread is nowhere")?;
        let look = InspectedFrame { state: self.timeline.now(), block, thread, depth: focus.depth, at };
        self.settings.evaluator.value(text, &self.settings.source, &look)
    }

    /// Returns the variables visible in the focused frame, with their contents.
    pub fn names(&self) -> Vec<(&ScopedName, NamedContents<'_>)> {
        let Ok(look) = self.look() else { return vec![] };
        let Some(of) = look.thread.frames.get(look.depth) else { return vec![] };
        let visible = self.settings.source.visible(look.at).into_iter();
        visible.filter_map(|name| Some((name, frame::contents_of(name, of)?))).collect()
    }

    /// Returns the array visible in the focused frame under this name.
    pub fn array(&self, name: &str) -> Option<ArrayRef<'_>> {
        let contents = self.names().into_iter().find(|(known, _)| known.name == name)?.1;
        if let NamedContents::Array(array) = contents { Some(array.clone()) } else { None }
    }

    /// Returns the bytes of an array visible to the focused thread.
    pub fn bytes(&self, array: &ArrayRef<'_>) -> Option<&PagedBytes> {
        frame::stored_bytes(self.state(), self.block()?, self.thread()?, array.store)
    }
}
