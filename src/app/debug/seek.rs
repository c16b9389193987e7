//! Looks for the next or the last stop of a run.

use super::evaluate::{Evaluator, Look};
use super::frame;
use super::point::{Point, What, is_meant};
use super::table::{Source, Table};
use crate::base::source::Span;
use crate::device::step::timeline::Seeker;
use crate::device::step::{Access, At, Ids, Launch, Observer, Phase, State, Store, Thread, Val};
use crate::ir::def::{Expr, ExprKind, KernelParam, Module, Space};

/// What ends a step of the user.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// Only breakpoints.
    Nothing,
    /// The next statement of this thread, no deeper than so many calls.
    Statement { block: u64, thread: u32, depth: usize },
    /// The thread is in fewer calls than so many.
    Outside { block: u64, thread: u32, depth: usize },
    /// The first step of a block.
    Block(u64),
}

/// Why a run stopped.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stop {
    Point(u32),
    /// A write to a watched element, which a breakpoint stands for.
    Write(u32, Write),
    Nan(u32, Span, At),
    Goal,
    /// The condition of a breakpoint cannot be evaluated.
    Refused(u32, String),
}

/// A write to an element.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub by: At,
    pub array: String,
    pub indices: Vec<usize>,
    /// The part of the element, `.mass`, where that is not all of it.
    pub part: String,
    pub before: Option<Val>,
    pub value: Val,
    pub span: Span,
}

/// The arrays of a module that a name stands for.
fn stores(module: &Module, name: &str) -> Vec<Store> {
    let params = module.kernel.params.iter().enumerate();
    let global = params.filter(|(_, p)| matches!(p, KernelParam::Array { name: own, .. } if own == name));
    let mut found: Vec<Store> = global.map(|(i, _)| Store::Global(i)).collect();
    for (id, function) in module.functions.iter() {
        let shared = function.memories.iter().filter(|(_, m)| m.space == Space::Shared && m.name == name);
        found.extend(shared.map(|(memory, _)| Store::Shared(id, memory)));
    }
    found
}

/// Whether a breakpoint can stop a launch of a module.
pub(crate) fn concerns(point: &Point, source: &Source, module: &Module, table: &Table) -> bool {
    point.enabled
        && match &point.what {
            What::Line { places, .. } => table.has(places),
            What::Item { name } => {
                module.kernel.name == *name || module.functions.iter().any(|(_, f)| source.name_of(f) == name)
            }
            What::Anywhere | What::Nan => true,
            What::Write { array, .. } => !stores(module, array).is_empty(),
        }
}

/// Events of a step, as far as a breakpoint asks for them.
#[derive(Default)]
struct Events {
    writes: Vec<(u32, Write)>,
    nans: Vec<(u32, Span, At)>,
    watched: Vec<(u32, Vec<Store>, Vec<i64>)>,
    nan_points: Vec<u32>,
}

impl Observer for Events {
    fn value(&mut self, at: At, expr: &Expr, span: Span, val: Val) {
        let computes = || {
            use ExprKind::{Binary, Bitcast, Convert, Math, Unary};
            matches!(expr.kind, Unary { .. } | Binary { .. } | Math { .. } | Convert(_) | Bitcast(_))
        };
        if !self.nan_points.is_empty() && computes() && val.values().any(|value| value.is_nan()) {
            self.nans.extend(self.nan_points.iter().map(|&id| (id, span, at)));
        }
    }

    fn access(&mut self, at: At, access: &Access<'_, '_>) {
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
                self.writes.push((*id, Write { by: at, array, indices, part, before, value, span }));
            }
        }
    }
}

/// Looks at each state of a run.
pub(crate) struct Search<'a, 'm> {
    launch: Who<'a, 'm>,
    source: &'a Source,
    table: &'a Table,
    points: Vec<Point>,
    evaluator: &'a mut Evaluator,
    goal: Goal,
    backward: bool,
    events: Events,
    /// The last stop that was found.
    pub stop: Option<Stop>,
}

/// What threads are called.
pub(crate) struct Who<'a, 'm>(pub &'a Launch<'m>);

impl Who<'_, '_> {
    /// Whether the filters of a breakpoint let a thread pass.
    fn passes(&self, point: &Point, at: At) -> bool {
        let Ids { thread, block, index, .. } = self.0.ids(at.block, u64::from(at.thread));
        let of_thread = |given: &Vec<u32>| match index {
            Some((index, rank)) => given.len() == rank && given[..] == index[..rank],
            None => is_meant(given, &thread),
        };
        let of_block = |given: &Vec<u32>| match index {
            // The blocks of a kernel over an index space are its groups of 32.
            Some(_) => is_meant(given, &[at.block as u32]),
            None => is_meant(given, &block),
        };
        point.thread.as_ref().is_none_or(of_thread) && point.block.as_ref().is_none_or(of_block)
    }
}

impl<'a, 'm> Search<'a, 'm> {
    pub fn new(
        launch: &'a Launch<'m>,
        source: &'a Source,
        table: &'a Table,
        points: &[Point],
        evaluator: &'a mut Evaluator,
        (goal, backward): (Goal, bool),
    ) -> Self {
        let points: Vec<Point> = points.iter().filter(|p| p.enabled).cloned().collect();
        let mut events = Events::default();
        for point in &points {
            match &point.what {
                What::Write { array, indices } => {
                    events.watched.push((point.id, stores(launch.module, array), indices.clone()));
                }
                What::Nan => events.nan_points.push(point.id),
                _ => {}
            }
        }
        Search { launch: Who(launch), source, table, points, evaluator, goal, backward, events, stop: None }
    }

    fn found(&mut self, state: &State<'_>) -> Option<Stop> {
        let (writes, nans) = (std::mem::take(&mut self.events.writes), std::mem::take(&mut self.events.nans));
        for (id, write) in writes {
            if let Some(stop) = self.admitted(id, state, write.by, Stop::Write(id, write)) {
                return Some(stop);
            }
        }
        for (id, span, at) in nans {
            if let Some(stop) = self.admitted(id, state, at, Stop::Nan(id, span, at)) {
                return Some(stop);
            }
        }
        let (at, thread) = (state.at(), state.current());
        if let Some(thread) = thread
            && let Some(stop) = self.at_points(state, at, thread)
        {
            return Some(stop);
        }
        self.is_goal(state, at, thread).then_some(Stop::Goal)
    }

    fn at_points(&mut self, state: &State<'_>, at: At, thread: &Thread<'_>) -> Option<Stop> {
        if self.points.is_empty() {
            return None;
        }
        let part = thread.next().and_then(|stmt| self.table.part(stmt))?;
        if !part.begins {
            return None;
        }
        let hit = |point: &&Point| match &point.what {
            What::Line { places, .. } => places.contains(&part.place),
            What::Item { name } => self.enters(thread, at, name),
            What::Anywhere => true,
            What::Nan | What::Write { .. } => false,
        };
        let hits: Vec<u32> = self.points.iter().filter(hit).map(|point| point.id).collect();
        hits.into_iter().find_map(|id| self.admitted(id, state, at, Stop::Point(id)))
    }

    /// Whether a thread is at the first statement of an item: of a kernel only the first thread of a block.
    fn enters(&self, thread: &Thread<'_>, at: At, name: &str) -> bool {
        let Some(frame) = thread.frames.last() else { return false };
        let is_first =
            frame.turns == 0 && frame.is_at_start(&mut |stmt| self.table.part(stmt).is_some_and(|part| part.begins));
        let is_kernel = thread.frames.len() == 1;
        is_first && self.source.name_of(frame.function) == name && (!is_kernel || at.thread == 0)
    }

    /// Returns the stop, if a breakpoint's filters and condition let it pass.
    fn admitted(&mut self, id: u32, state: &State<'_>, at: At, stop: Stop) -> Option<Stop> {
        let point = self.points.iter().find(|point| point.id == id)?;
        if !self.launch.passes(point, at) {
            return None;
        }
        let Some(condition) = point.condition.clone() else { return Some(stop) };
        let block = state.block(at.block)?;
        let thread = block.threads.get(at.thread as usize)?;
        let depth = thread.frames.len().checked_sub(1)?;
        let place = frame::here(self.source, self.table, thread, depth)?;
        let look = Look { state, block, thread, depth, at: place };
        match self.evaluator.holds(&condition, self.source, &look) {
            Ok(true) => Some(stop),
            Ok(false) => None,
            Err(why) => Some(Stop::Refused(id, why)),
        }
    }

    /// Whether a thread has come to its end; backwards, to its start.
    fn is_gone(&self, state: &State<'_>, block: u64, thread: u32) -> bool {
        let found = state.block(block).and_then(|block| block.threads.get(thread as usize));
        found.is_none_or(|thread| !self.backward && matches!(thread.phase, Phase::Done))
    }

    fn is_goal(&self, state: &State<'_>, at: At, thread: Option<&Thread<'_>>) -> bool {
        let begins = |thread: &Thread<'_>| thread.next().and_then(|s| self.table.part(s)).is_some_and(|p| p.begins);
        match self.goal {
            Goal::Nothing => false,
            Goal::Statement { block, thread: number, depth } => {
                let is_there = (at.block, at.thread) == (block, number);
                is_there && thread.is_some_and(|t| t.frames.len() <= depth && begins(t))
                    || self.is_gone(state, block, number)
            }
            Goal::Outside { block, thread: number, depth } => {
                let is_there = (at.block, at.thread) == (block, number);
                is_there && thread.is_some_and(|t| t.frames.len() < depth) || self.is_gone(state, block, number)
            }
            Goal::Block(block) => at.block == block,
        }
    }
}

impl Seeker for Search<'_, '_> {
    fn observer(&mut self) -> &mut dyn Observer {
        &mut self.events
    }

    fn is_here(&mut self, state: &State<'_>) -> bool {
        match self.found(state) {
            Some(stop) => {
                self.stop = Some(stop);
                true
            }
            None => false,
        }
    }
}
