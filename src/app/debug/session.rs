//! A launch under the debugger: where in it the user is, which thread is looked at, and how to get elsewhere.
//!
//! The part that the terminal and the protocol share. It prints nothing and reads nothing.

use super::evaluate::{Evaluator, Look};
use super::frame::{self, Held};
use super::point::Point;
use super::seek::{Goal, Search, Stop, concerns};
use super::table::{Name, Source, Table};
use crate::base::source::Span;
use crate::compile::Session;
use crate::device::Fault;
use crate::device::step::timeline::{Interrupted, Timeline};
use crate::device::step::{Array, Block, Bytes, Ids, Phase, State, Thread};
use crate::ir::def::Module;

/// What stays from launch to launch.
pub(crate) struct Settings {
    pub session: Session,
    pub source: Source,
    pub evaluator: Evaluator,
    pub points: Vec<Point>,
    /// Stop at the first statement of the next launch.
    pub stop_at_launch: bool,
    next: u32,
}

impl Settings {
    pub fn new(session: &Session) -> Settings {
        Settings {
            session: session.clone(),
            source: Source::of(&session.program),
            evaluator: Evaluator::new(session),
            points: vec![],
            stop_at_launch: false,
            next: 1,
        }
    }

    /// Adds a breakpoint; returns its number.
    pub fn add(&mut self, mut point: Point) -> u32 {
        point.id = self.next;
        self.next += 1;
        let id = point.id;
        self.points.push(point);
        id
    }

    /// Whether a launch of a module is to be run under the debugger.
    pub fn concern(&self, module: &Module) -> bool {
        let table = Table::of(&self.source, module);
        self.stop_at_launch || self.points.iter().any(|point| concerns(point, &self.source, module, &table))
    }
}

/// Where the user is after a move.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Arrival {
    /// At the start of the launch.
    Start,
    /// As in the breakpoint, or at the goal.
    Stop(Stop),
    Fault(Box<Fault>),
    /// The launch is over.
    End,
    Interrupted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Forward,
    Backward,
}

/// The thread that is looked at, and one of its calls, outermost first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Focus {
    pub block: u64,
    pub thread: u32,
    pub depth: usize,
}

pub(crate) struct Debug<'a, 'm> {
    pub timeline: Timeline<'m>,
    pub settings: &'a mut Settings,
    pub table: Table,
    pub focus: Focus,
    pub arrival: Arrival,
    /// The number of the launch in the run, from 1, and the statement that launches.
    pub number: u64,
    pub launched: Span,
}

impl<'a, 'm> Debug<'a, 'm> {
    pub fn new(timeline: Timeline<'m>, settings: &'a mut Settings, number: u64, launched: Span) -> Self {
        let table = Table::of(&settings.source, timeline.launch.module);
        let focus = Focus::default();
        let mut debug = Debug { timeline, settings, table, focus, arrival: Arrival::Start, number, launched };
        debug.follow();
        debug
    }

    pub fn state(&self) -> &State<'m> {
        self.timeline.now()
    }

    pub fn kernel(&self) -> &'m str {
        &self.timeline.launch.module.kernel.name
    }

    /// Returns what a thread is called.
    pub fn ids(&self, block: u64, thread: u32) -> Ids {
        self.timeline.launch.ids(block, u64::from(thread))
    }

    /// Takes the thread that runs next as the one that is looked at; at the end, stays with the last one.
    fn follow(&mut self) {
        let at = self.state().at();
        let frames = match self.state().current() {
            Some(thread) => thread.frames.len(),
            None => return self.deepest(),
        };
        self.focus = Focus { block: at.block, thread: at.thread, depth: frames.saturating_sub(1) };
    }

    /// Looks at a thread, in its innermost call.
    pub fn look_at(&mut self, block: u64, thread: u32) {
        self.focus = Focus { block, thread, depth: 0 };
        self.deepest();
    }

    fn deepest(&mut self) {
        let depth = self.thread().map_or(0, |thread| thread.frames.len().saturating_sub(1));
        self.focus.depth = depth;
    }

    /// Returns the block that is looked at, if it is in progress.
    pub fn block(&self) -> Option<&Block<'m>> {
        self.state().block(self.focus.block)
    }

    pub fn thread(&self) -> Option<&Thread<'m>> {
        Some(&**self.block()?.threads.get(self.focus.thread as usize)?)
    }

    /// Returns the statement that the thread is at, in the call that is looked at.
    pub fn here(&self) -> Option<Span> {
        frame::here(&self.settings.source, &self.table, self.thread()?, self.focus.depth)
    }

    /// Goes on until something stops it.
    pub fn go(&mut self, way: Way, goal: Goal) {
        self.search(way, goal, true);
    }

    /// Goes to the first step of a block; breakpoints on the way do not count.
    pub fn go_to_block(&mut self, block: u64) {
        self.go_to(0);
        if block > 0 && self.arrival != Arrival::Interrupted {
            self.search(Way::Forward, Goal::Block(block), false);
        }
    }

    fn search(&mut self, way: Way, goal: Goal, stops: bool) {
        let (found, stop) = {
            let Settings { source, evaluator, points, .. } = &mut *self.settings;
            let points: &[Point] = if stops { points } else { &[] };
            let launch = self.timeline.launch.clone();
            let mut search = Search::new(&launch, source, &self.table, points, evaluator, (goal, way == Way::Backward));
            let found = match way {
                Way::Forward => self.timeline.seek(&mut search),
                Way::Backward => self.timeline.seek_back(&mut search),
            };
            (found, search.stop)
        };
        self.arrival = match (found, stop) {
            (Err(Interrupted), _) => Arrival::Interrupted,
            (Ok(true), Some(stop)) => Arrival::Stop(stop),
            _ => self.ending(),
        };
        self.settle();
    }

    /// Returns what there is where nothing was found.
    fn ending(&self) -> Arrival {
        match self.state().faults.first() {
            Some(fault) => Arrival::Fault(Box::new(fault.clone())),
            None if self.state().is_over => Arrival::End,
            None => Arrival::Start,
        }
    }

    /// Looks at the thread that the arrival is about, and counts the stop.
    fn settle(&mut self) {
        let by = match &self.arrival {
            Arrival::Stop(Stop::Write(_, write)) => Some((write.by.block, write.by.thread)),
            Arrival::Stop(Stop::Nan(_, _, at)) => Some((at.block, at.thread)),
            Arrival::Fault(fault) => self.who(fault),
            _ => None,
        };
        if let Arrival::Stop(Stop::Point(id) | Stop::Write(id, _) | Stop::Nan(id, ..)) = &self.arrival
            && let Some(point) = self.settings.points.iter_mut().find(|point| point.id == *id)
        {
            point.hits += 1;
        }
        match by {
            Some((block, thread)) => self.look_at(block, thread),
            None => self.follow(),
        }
    }

    /// Returns the thread of a fault.
    fn who(&self, fault: &Fault) -> Option<(u64, u32)> {
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

    /// To the next statement of the thread, into calls.
    pub fn step(&mut self, way: Way) {
        self.statement(way, usize::MAX);
    }

    /// To the next statement of the thread, over calls.
    pub fn next(&mut self, way: Way) {
        let depth = self.thread().map_or(usize::MAX, |thread| thread.frames.len().max(1));
        self.statement(way, depth);
    }

    fn statement(&mut self, way: Way, depth: usize) {
        let Focus { block, thread, .. } = self.focus;
        // A thread that has ended has no next statement, and a block that is not in progress none at all.
        let ended = |thread: &Thread<'_>| matches!(thread.phase, Phase::Done);
        let lives = self.thread().is_some_and(|thread| way == Way::Backward || !ended(thread));
        let (block, thread) = if lives { (block, thread) } else { (self.state().at().block, self.state().at().thread) };
        self.go(way, Goal::Statement { block, thread, depth });
    }

    /// Until the thread leaves the call that it is in.
    pub fn finish(&mut self, way: Way) {
        let Focus { block, thread, .. } = self.focus;
        let depth = self.thread().map_or(1, |thread| thread.frames.len());
        self.go(way, Goal::Outside { block, thread, depth });
    }

    /// Goes to a position, or to the end.
    pub fn go_to(&mut self, position: u64) {
        self.arrival = match self.timeline.go_to(position) {
            Err(Interrupted) => Arrival::Interrupted,
            Ok(()) if self.timeline.is_at_end() => self.ending(),
            Ok(()) if position == 0 => Arrival::Start,
            Ok(()) => Arrival::Stop(Stop::Goal),
        };
        self.settle();
    }

    /// Whether the launch is at its start and has no breakpoints.
    pub fn is_untouched(&self) -> bool {
        self.timeline.position() == 0 && !self.settings.concern(self.timeline.launch.module)
    }

    /// Runs to the end of the launch, without stops.
    pub fn run_out(&mut self) -> Result<(), Interrupted> {
        self.timeline.go_to(u64::MAX)
    }

    fn look(&self) -> Result<Look<'_, 'm>, String> {
        let block = self.block().ok_or("the block is not in progress")?;
        let thread = self.thread().ok_or("there is no such thread")?;
        let at = self.here().ok_or("the thread is nowhere")?;
        Ok(Look { state: self.state(), block, thread, depth: self.focus.depth, at })
    }

    /// Evaluates an expression in the thread that is looked at.
    pub fn value(&mut self, text: &str) -> Result<String, String> {
        let (block, focus) = (self.timeline.now().block(self.focus.block), self.focus);
        let block = block.ok_or("the block is not in progress")?;
        let thread = block.threads.get(focus.thread as usize).ok_or("there is no such thread")?;
        let at = frame::here(&self.settings.source, &self.table, thread, focus.depth).ok_or("the thread is nowhere")?;
        let look = Look { state: self.timeline.now(), block, thread, depth: focus.depth, at };
        self.settings.evaluator.value(text, &self.settings.source, &look)
    }

    /// Returns the names that the thread sees in its call, and what they hold.
    pub fn names(&self) -> Vec<(&Name, Held<'_>)> {
        let Ok(look) = self.look() else { return vec![] };
        let Some(of) = look.thread.frames.get(look.depth) else { return vec![] };
        let visible = self.settings.source.visible(look.at).into_iter();
        visible.filter_map(|name| Some((name, frame::held(name, of)?))).collect()
    }

    /// Returns the array of this name.
    pub fn array(&self, name: &str) -> Option<Array<'_>> {
        let found = self.names().into_iter().find(|(known, _)| known.name == name)?.1;
        if let Held::Array(array) = found { Some(array.clone()) } else { None }
    }

    /// Returns the bytes of an array that the thread sees.
    pub fn bytes(&self, array: &Array<'_>) -> Option<&Bytes> {
        frame::bytes(self.state(), self.block()?, self.thread()?, array.store)
    }
}
