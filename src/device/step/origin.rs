//! Where an element of an array came from: the statement that wrote it, its operands, and where each of them came from, back to the
//! arguments of the launch.
//!
//! Input: a launch as a line of time, and an element. Output: the nodes of a tree, one level at a time. Idea: values are read off the state
//! in front of the statement that used them, and that statement is found by going backwards, so nothing is recorded.

use super::event::{Access, At};
use super::memory::Store;
use super::order::element;
use super::state::State;
use super::thread::{Ids, Observer, Thread, World};
use super::timeline::{Interrupted, Seeker, Timeline};
use super::value::Val;
use crate::base::source::Span;
use crate::ir::calls::resolve;
use crate::ir::def::{BinOp, Expr, ExprId, ExprKind, KernelParam, LocalId, Module, Stmt, StmtKind, Ty};

/// A thread in front of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moment {
    pub step: u64,
    pub block: u64,
    pub thread: u32,
}

/// An element of an array, or a part of one, as it is in front of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Spot {
    pub name: String,
    pub store: Store,
    /// Whose shared or local array it is.
    pub block: u64,
    pub thread: u32,
    pub offset: usize,
    pub ty: Ty,
    pub before: u64,
}

/// What a value was made of.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// These values of the thread.
    Operands(Vec<ExprId>, Moment),
    /// What was in an array.
    Element(Spot),
    /// An atomic operation: what was there, and a value of the thread.
    Update(Spot, ExprId, Moment),
    /// An argument of the launch, at this position.
    Argument(usize, Spot),
    /// It is not followed further: a constant, an index, what other lanes brought.
    End(&'static str),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// With calls resolved.
    pub span: Span,
    /// The element or the variable.
    pub name: Option<String>,
    pub value: Option<Val>,
    /// Who wrote it, where that is another thread than the one that uses it may be.
    pub who: Option<Ids>,
    pub source: Source,
}

/// A sum that a loop adds up: its terms, from the last one back, and what it began with.
pub struct Sum {
    pub count: usize,
    /// The term that is largest by magnitude.
    pub largest: Node,
}

/// Terms of a sum that are looked at.
const MOST_TERMS: usize = 2_000;

pub struct Origins<'m> {
    timeline: Timeline<'m>,
}

type Followed<T> = Result<T, Interrupted>;

impl<'m> Origins<'m> {
    pub fn new(timeline: Timeline<'m>) -> Self {
        Origins { timeline }
    }

    /// Goes to the end of the launch; returns its number of steps.
    pub fn end(&mut self) -> Followed<u64> {
        self.timeline.go_to(u64::MAX)?;
        Ok(self.timeline.position())
    }

    fn module(&self) -> &'m Module {
        self.timeline.launch.module
    }

    fn line(&self, span: Span) -> Span {
        let module = self.module();
        resolve(&module.functions[module.kernel.body].calls, span).0
    }

    /// Returns what wrote an element last.
    pub fn written(&mut self, spot: &Spot) -> Followed<Node> {
        let mut writer = Writer { spot, hit: false };
        self.timeline.go_to(spot.before)?;
        let Some(moment) = self.last(&mut writer)? else { return self.never_written(spot) };
        let state = self.timeline.now();
        let (who, stmt) = state.current().map_or((None, None), |thread| (Some(thread.ids), thread.next()));
        let (value, source) = match stmt.map(|stmt| &stmt.kind) {
            Some(StmtKind::Store { value, .. }) => (self.evaluate(*value), Source::Operands(vec![*value], moment)),
            Some(StmtKind::Atomic { value, .. }) => {
                let before = Spot { before: moment.step, ..spot.clone() };
                (None, Source::Update(before, *value, moment))
            }
            Some(_) => (None, Source::End("it is new")),
            None => (None, Source::End("unknown")),
        };
        let span = self.line(stmt.map_or(self.module().kernel.span, |stmt| stmt.span));
        let value = if matches!(source, Source::Update(..)) { self.after(spot, moment)? } else { value };
        Ok(Node { span, name: Some(spot.name.clone()), value, who, source })
    }

    /// Returns what an element holds behind a step.
    fn after(&mut self, spot: &Spot, moment: Moment) -> Followed<Option<Val>> {
        self.timeline.go_to(moment.step + 1)?;
        let state = self.timeline.now();
        Ok(match spot.store {
            Store::Global(position) => state.global.get(position).and_then(|bytes| bytes.get(spot.offset, spot.ty)),
            store => state.block(spot.block).and_then(|block| held(block, store, spot)),
        })
    }

    fn never_written(&mut self, spot: &Spot) -> Followed<Node> {
        self.timeline.go_to(0)?;
        let span = self.module().kernel.span;
        let node = |value, source| Node { span, name: Some(spot.name.clone()), value, who: None, source };
        Ok(match spot.store {
            Store::Global(position) => {
                let bytes = self.timeline.now().global.get(position);
                match bytes.and_then(|bytes| bytes.get(spot.offset, spot.ty)) {
                    Some(value) => node(Some(value), Source::Argument(position, spot.clone())),
                    None => node(None, Source::End("nobody has written it")),
                }
            }
            _ => node(None, Source::End("nobody has written it")),
        })
    }

    /// Returns what a value was made of, one level down.
    pub fn parts(&mut self, node: &Node) -> Followed<Vec<Node>> {
        match &node.source {
            Source::Operands(operands, moment) => {
                operands.iter().map(|operand| self.value(*moment, *operand)).collect()
            }
            Source::Element(spot) => Ok(vec![self.written(spot)?]),
            Source::Update(spot, value, moment) => Ok(vec![self.written(spot)?, self.value(*moment, *value)?]),
            Source::Argument(..) | Source::End(_) => Ok(vec![]),
        }
    }

    /// Evaluates an expression where the thread of the next step is.
    fn evaluate(&self, expr: ExprId) -> Option<Val> {
        let state = self.timeline.now();
        let mut thread: Thread<'m> = state.current()?.clone();
        let (mut global, mut shared) = (state.global.clone(), state.block.shared.clone());
        let mut world = World {
            parameters: &self.timeline.launch.parameters,
            global: &mut global,
            shared: &mut shared,
            output: &mut String::new(),
            observer: &mut super::Nobody,
            at: At::default(),
            copied: 0,
        };
        thread.eval(&mut world, expr).ok()
    }

    /// Returns the node of an expression that a statement uses.
    fn value(&mut self, moment: Moment, expr: ExprId) -> Followed<Node> {
        self.timeline.go_to(moment.step)?;
        let value = self.evaluate(expr);
        let Some(frame) = self.timeline.now().current().and_then(|thread| thread.frames.last()) else {
            let span = self.module().kernel.span;
            return Ok(Node { span, name: None, value, who: None, source: Source::End("unknown") });
        };
        let function = frame.function;
        let span = self.line(function.spans[expr]);
        let node = |name, source| Node { span, name, value, who: None, source };
        let operands = |all: Vec<ExprId>| node(None, Source::Operands(all, moment));
        Ok(match &function.exprs[expr].kind {
            ExprKind::Const(_) => node(None, Source::End("a constant")),
            ExprKind::Param(position) => {
                let param = self.module().kernel.params.get(*position as usize);
                let name = param.and_then(|param| match param {
                    KernelParam::Value { name, .. } => Some(name.clone()),
                    KernelParam::Array { .. } => None,
                });
                node(name, Source::End("a parameter"))
            }
            ExprKind::Extent(..) => node(None, Source::End("an extent")),
            ExprKind::Id(..) | ExprKind::Index(_) | ExprKind::LaneIdx | ExprKind::WarpIdx => {
                node(None, Source::End("an index"))
            }
            ExprKind::Unary { value, .. } | ExprKind::Extract { value, .. } => operands(vec![*value]),
            ExprKind::Convert(value) | ExprKind::Bitcast(value) => operands(vec![*value]),
            ExprKind::Binary { left, right, .. } => operands(vec![*left, *right]),
            ExprKind::Math { args, .. } | ExprKind::Compose(args) => operands(args.clone()),
            ExprKind::Select { cond, then, other } => {
                let chosen = self.evaluate(*cond).filter(|cond| cond.ty.lanes() == 1).map(|cond| cond.is_true());
                operands(match chosen {
                    Some(true) => vec![*cond, *then],
                    Some(false) => vec![*cond, *other],
                    None => vec![*cond, *then, *other],
                })
            }
            ExprKind::Read(local) => {
                let name = Some(function.locals[*local].name.clone());
                match self.bound(moment, expr, *local)? {
                    Some((span, operand, at)) => {
                        let span = self.line(span);
                        Node { span, name, value, who: None, source: Source::Operands(vec![operand], at) }
                    }
                    None => Node { span, name, value, who: None, source: Source::End("counted by a loop") },
                }
            }
            ExprKind::Load { .. } => match self.loaded(moment, expr)? {
                Some(spot) => {
                    Node { span, name: Some(spot.name.clone()), value, who: None, source: Source::Element(spot) }
                }
                None => node(None, Source::End("read from an array")),
            },
            ExprKind::Result => match self.old(moment, expr)? {
                Some(spot) => {
                    Node { span, name: Some(spot.name.clone()), value, who: None, source: Source::Element(spot) }
                }
                None => node(None, Source::End("what the threads of its warp or block brought")),
            },
        })
    }

    /// Returns the statement that gave a variable the value which an expression read.
    fn bound(&mut self, moment: Moment, expr: ExprId, local: LocalId) -> Followed<Option<(Span, ExprId, Moment)>> {
        let read = self.before(moment, &|kind| matches!(kind, StmtKind::Let(own) if *own == expr))?.unwrap_or(moment);
        let Some(at) =
            self.before(read, &|kind| matches!(kind, StmtKind::Write { local: own, .. } if *own == local))?
        else {
            return Ok(None);
        };
        let stmt = self.timeline.now().current().and_then(|thread| thread.next());
        Ok(stmt.and_then(|stmt| match stmt.kind {
            StmtKind::Write { value, .. } => Some((stmt.span, value, at)),
            _ => None,
        }))
    }

    /// Returns the element that an expression loaded.
    fn loaded(&mut self, moment: Moment, expr: ExprId) -> Followed<Option<Spot>> {
        let at = self.before(moment, &|kind| matches!(kind, StmtKind::Let(own) if *own == expr))?;
        match at {
            Some(at) => self.touched(at),
            None => Ok(None),
        }
    }

    /// Returns the element whose old value an atomic operation gave.
    fn old(&mut self, moment: Moment, expr: ExprId) -> Followed<Option<Spot>> {
        let gives = |kind: &StmtKind| matches!(kind, StmtKind::Atomic { result: Some(own), .. } if *own == expr);
        match self.before(moment, &gives)? {
            Some(at) => self.touched(at),
            None => Ok(None),
        }
    }

    /// Takes a step, and returns the element that it accesses.
    fn touched(&mut self, at: Moment) -> Followed<Option<Spot>> {
        self.timeline.go_to(at.step)?;
        let mut toucher = Toucher { spot: None };
        self.timeline.step(&mut toucher);
        Ok(toucher.spot.map(|spot| Spot { before: at.step, ..spot }))
    }

    /// Goes to the last statement of a kind that the thread executed before a moment, in the same call.
    fn before(&mut self, moment: Moment, is: &dyn Fn(&StmtKind) -> bool) -> Followed<Option<Moment>> {
        self.timeline.go_to(moment.step)?;
        let depth = self.timeline.now().current().map_or(0, |thread| thread.frames.len());
        let mut executed = Executed { who: (moment.block, moment.thread), depth, is, hit: false };
        self.last(&mut executed)
    }

    /// Goes in front of the last step so far that is looked for.
    fn last(&mut self, seeker: &mut dyn Seeker) -> Followed<Option<Moment>> {
        let position = self.timeline.position();
        if position == 0 {
            return Ok(None);
        }
        self.timeline.go_to(position - 1)?;
        // The step just before is not among those that a search backwards looks at.
        self.timeline.step(seeker.observer());
        let mut found = seeker.is_here(self.timeline.now());
        if !found {
            found = self.timeline.seek_back(seeker)?;
        }
        if !found {
            return Ok(None);
        }
        let step = self.timeline.position() - 1;
        self.timeline.go_to(step)?;
        let At { step, block, thread } = self.timeline.now().at();
        Ok(Some(Moment { step, block, thread }))
    }

    /// Returns the terms of a sum that a loop adds up in a variable, if the node is one of at least three.
    pub fn sum(&mut self, node: &Node) -> Followed<Option<Sum>> {
        let Some((mut at, mut largest)) = self.addition(node)? else { return Ok(None) };
        let size = |node: &Node| node.value.map_or(0.0, |value| value.lane(0).as_f64().abs());
        let (sum, mut count) = (at.1, 1);
        loop {
            let node = self.value(at.0, at.2)?;
            match self.addition(&node)? {
                Some((next, term)) if next.1 == sum && count < MOST_TERMS => {
                    count += 1;
                    if size(&term) > size(&largest) {
                        largest = term;
                    }
                    at = next;
                }
                _ => break,
            }
        }
        Ok((count > 2).then_some(Sum { count, largest }))
    }

    /// Takes a variable apart that was given the sum of itself and a term: the moment, the sum and the variable's old value, and the term.
    fn addition(&mut self, node: &Node) -> Followed<Option<((Moment, ExprId, ExprId), Node)>> {
        let (Source::Operands(operands, moment), Some(name)) = (&node.source, &node.name) else { return Ok(None) };
        let &[sum] = &operands[..] else { return Ok(None) };
        self.timeline.go_to(moment.step)?;
        let Some(frame) = self.timeline.now().current().and_then(|thread| thread.frames.last()) else {
            return Ok(None);
        };
        let function = frame.function;
        let ExprKind::Binary { op: BinOp::Add, left, right } = function.exprs[sum].kind else { return Ok(None) };
        let reads = |expr: ExprId| match function.exprs[expr].kind {
            ExprKind::Read(local) => function.locals[local].name == *name,
            _ => false,
        };
        let (old, term) = match (reads(left), reads(right)) {
            (true, _) => (left, right),
            (_, true) => (right, left),
            _ => return Ok(None),
        };
        Ok(Some(((*moment, sum, old), self.value(*moment, term)?)))
    }

    /// Returns the first value that is not finite although all operands of its operation are, in the order of the run: the node of its
    /// expression.
    pub fn first_not_finite(&mut self) -> Followed<Option<Node>> {
        self.timeline.go_to(0)?;
        let mut seeker = NotFinite { computes: false, hit: None, last: None };
        if !self.timeline.seek(&mut seeker)? {
            return Ok(None);
        }
        let step = self.timeline.position() - 1;
        self.timeline.go_to(step)?;
        let At { step, block, thread } = self.timeline.now().at();
        let stmt = self.timeline.now().current().and_then(|thread| thread.next());
        let who = self.timeline.now().current().map(|thread| thread.ids);
        let Some(StmtKind::Let(expr)) = stmt.map(|stmt| &stmt.kind) else { return Ok(None) };
        let node = self.value(Moment { step, block, thread }, *expr)?;
        // In front of the statement, its expression has the value of the turn of a loop before.
        Ok(Some(Node { who, value: seeker.last, ..node }))
    }
}

fn held(block: &super::Block<'_>, store: Store, spot: &Spot) -> Option<Val> {
    match store {
        Store::Shared(function, memory) => block.shared.get(&(function, memory))?.get(spot.offset, spot.ty),
        Store::Local(index) => block.threads.get(spot.thread as usize)?.local.get(index)?.get(spot.offset, spot.ty),
        Store::Global(_) => None,
    }
}

/// Looks for writes to an element.
struct Writer<'a> {
    spot: &'a Spot,
    hit: bool,
}

impl Observer for Writer<'_> {
    fn access(&mut self, at: At, access: &Access<'_, '_>) {
        let spot = self.spot;
        let own = match spot.store {
            Store::Global(_) => true,
            Store::Shared(..) => at.block == spot.block,
            Store::Local(_) => (at.block, at.thread) == (spot.block, spot.thread),
        };
        let touches = access.writes() && access.store() == spot.store && access.touches(spot.offset, spot.ty.size());
        self.hit |= own && touches;
    }
}

impl Seeker for Writer<'_> {
    fn observer(&mut self) -> &mut dyn Observer {
        self
    }

    fn is_here(&mut self, _: &State<'_>) -> bool {
        std::mem::take(&mut self.hit)
    }
}

/// Looks for statements of a thread.
struct Executed<'a> {
    who: (u64, u32),
    depth: usize,
    is: &'a dyn Fn(&StmtKind) -> bool,
    hit: bool,
}

impl Observer for Executed<'_> {
    fn statement(&mut self, at: At, thread: &Thread<'_>, stmt: &Stmt) {
        self.hit |= (at.block, at.thread) == self.who && thread.frames.len() == self.depth && (self.is)(&stmt.kind);
    }
}

impl Seeker for Executed<'_> {
    fn observer(&mut self) -> &mut dyn Observer {
        self
    }

    fn is_here(&mut self, _: &State<'_>) -> bool {
        std::mem::take(&mut self.hit)
    }
}

/// Takes down the element of an access.
struct Toucher {
    spot: Option<Spot>,
}

impl Observer for Toucher {
    fn access(&mut self, at: At, access: &Access<'_, '_>) {
        let (name, store) = (element(access), access.store());
        let (offset, ty) = (access.offset, access.ty);
        self.spot = Some(Spot { name, store, block: at.block, thread: at.thread, offset, ty, before: at.step });
    }
}

/// Looks for a value that is not finite and whose operands are.
struct NotFinite {
    /// The statement computes a value of finite operands.
    computes: bool,
    hit: Option<Val>,
    /// The value of the last one that was found.
    last: Option<Val>,
}

impl Observer for NotFinite {
    fn statement(&mut self, _: At, thread: &Thread<'_>, stmt: &Stmt) {
        let (StmtKind::Let(expr), Some(frame)) = (&stmt.kind, thread.frames.last()) else {
            self.computes = false;
            return;
        };
        let operands = operands(&frame.function.exprs[*expr].kind);
        let known = |operand: &ExprId| frame.value(*operand).is_none_or(is_finite);
        self.computes = !operands.is_empty() && operands.iter().all(known);
    }

    fn value(&mut self, _: At, _: &Expr, _: Span, value: Val) {
        self.hit = (self.computes && !is_finite(value)).then_some(value);
    }
}

impl Seeker for NotFinite {
    fn observer(&mut self) -> &mut dyn Observer {
        self
    }

    fn is_here(&mut self, _: &State<'_>) -> bool {
        self.last = self.hit.take().or(self.last);
        self.last.is_some()
    }
}

fn is_finite(value: Val) -> bool {
    !value.ty.scalar().is_float() || value.values().all(|lane| lane.as_f64().is_finite())
}

/// Returns the operands of an operation that computes.
fn operands(kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Unary { value, .. } | ExprKind::Convert(value) => vec![*value],
        ExprKind::Binary { left, right, .. } => vec![*left, *right],
        ExprKind::Math { args, .. } => args.clone(),
        _ => vec![],
    }
}
