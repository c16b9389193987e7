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
use crate::ir::Checks;
use crate::ir::calls::resolve;
use crate::ir::def::{BinOp, ExprId, ExprKind, Function, KernelParam, LocalId, Module, Stmt, StmtKind, Ty};

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
    /// The components of a vector, which different statements wrote.
    Components(Vec<Spot>),
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

/// A sum that a loop adds up in a variable.
pub struct Sum {
    pub count: usize,
    /// What the variable held before the first term.
    pub start: Node,
    /// The term that is largest by magnitude.
    pub largest: Node,
}

pub struct Origins<'m> {
    timeline: Timeline<'m>,
}

/// Values that are followed back to where a number that is not finite was made.
const MOST_HOPS: usize = 4_000;

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
        let mut writer = Writer { spot, hit: None, part: false };
        self.timeline.go_to(spot.before)?;
        let Some(moment) = self.last(&mut writer)? else { return self.never_written(spot) };
        let is_part = writer.part;
        let state = self.timeline.now();
        let (who, stmt) = state.current().map_or((None, None), |thread| (Some(thread.ids), thread.next()));
        let span = self.line(stmt.map_or(self.module().kernel.span, |stmt| stmt.span));
        let (value, source) = match stmt.map(|stmt| &stmt.kind) {
            _ if is_part => (None, Source::Components(components(spot))),
            Some(StmtKind::Store { value, .. }) => {
                let own = self.evaluate(*value).filter(|own| own.ty == spot.ty);
                (own, Source::Operands(vec![*value], moment))
            }
            Some(StmtKind::Atomic { value, .. }) => {
                let before = Spot { before: moment.step, ..spot.clone() };
                (None, Source::Update(before, *value, moment))
            }
            Some(_) => (None, Source::End("it is new")),
            None => (None, Source::End("unknown")),
        };
        let value = if let Some(value) = value { Some(value) } else { self.after(spot, moment)? };
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
            Source::Components(spots) => spots.iter().map(|spot| self.written(spot)).collect(),
            Source::Update(spot, value, moment) => Ok(vec![self.written(spot)?, self.value(*moment, *value)?]),
            Source::Argument(..) | Source::End(_) => Ok(vec![]),
        }
    }

    /// Returns the conditions of the branches in which a value was written, innermost first: those that depend on more than who the thread is,
    /// and how large all is.
    pub fn conditions(&mut self, node: &Node) -> Followed<Vec<Node>> {
        let (Source::Operands(_, moment) | Source::Update(_, _, moment)) = &node.source else { return Ok(vec![]) };
        self.timeline.go_to(moment.step)?;
        let Some(frame) = self.timeline.now().current().and_then(|thread| thread.frames.last()) else {
            return Ok(vec![]);
        };
        let told: Vec<ExprId> = frame.conditions().filter(|cond| depends_on_data(frame.function, *cond)).collect();
        let mut all = vec![];
        for cond in told {
            // As it was when it was computed, so that it is one node for all that stands in the branch.
            let computed = self.before(*moment, &|kind| matches!(kind, StmtKind::Let(own) if *own == cond))?;
            let behind = |at: Moment| Moment { step: at.step + 1, ..at };
            all.push(self.value(computed.map_or(*moment, behind), cond)?);
        }
        Ok(all)
    }

    /// Evaluates an expression where the thread of the next step is.
    fn evaluate(&self, expr: ExprId) -> Option<Val> {
        let state = self.timeline.now();
        let mut thread: Thread<'m> = state.current()?.clone();
        let (mut global, mut shared) = (state.global.clone(), state.block.shared.clone());
        let mut world = World {
            parameters: &self.timeline.launch.parameters,
            checks: Checks::default(),
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

    /// Returns the sum that a loop has added up in a variable, if the node is one of at least three terms.
    pub fn sum(&mut self, node: &Node) -> Followed<Option<Sum>> {
        let Some(Repeated { local, value, old, moment }) = self.repeated(node)? else { return Ok(None) };
        let Some(function) = self.function() else { return Ok(None) };
        let term = match function.exprs[value].kind {
            ExprKind::Binary { op: BinOp::Add, left, right } => {
                if left == old {
                    right
                } else {
                    left
                }
            }
            _ => return Ok(None),
        };
        let mut terms = Turns { who: (moment.block, moment.thread), value, looked_at: term, all: vec![] };
        self.turns(moment, local, &mut terms)?;
        let size = |val: &Option<Val>| val.map_or(0.0, |val| val.lane(0).as_f64().abs());
        let Some((first, _)) = terms.all.first().copied() else { return Ok(None) };
        let mut largest = terms.all[0];
        for turn in &terms.all {
            if size(&turn.1) > size(&largest.1) {
                largest = *turn;
            }
        }
        if terms.all.len() < 3 {
            return Ok(None);
        }
        let (start, largest) = (self.value(first, old)?, self.value(largest.0, term)?);
        Ok(Some(Sum { count: terms.all.len(), start, largest }))
    }

    fn function(&self) -> Option<&'m Function> {
        self.timeline.now().current()?.frames.last().map(|frame| frame.function)
    }

    /// Takes a node apart whose statement computes a variable's value from the one before.
    fn repeated(&mut self, node: &Node) -> Followed<Option<Repeated>> {
        let Source::Operands(operands, moment) = &node.source else { return Ok(None) };
        let &[value] = &operands[..] else { return Ok(None) };
        self.timeline.go_to(moment.step)?;
        let stmt = self.timeline.now().current().and_then(|thread| thread.next());
        let (Some(function), Some(StmtKind::Write { local, value: own })) = (self.function(), stmt.map(|s| &s.kind))
        else {
            return Ok(None);
        };
        let reads = |expr: &ExprId| function.exprs[*expr].kind == ExprKind::Read(*local);
        let old = operands_of(&function.exprs[value].kind).into_iter().find(reads);
        Ok(old.filter(|_| value == *own).map(|old| Repeated { local: *local, value, old, moment: *moment }))
    }

    /// Goes over all turns of a loop up to a moment in which a variable was given this value, and no other.
    fn turns(&mut self, moment: Moment, local: LocalId, turns: &mut Turns) -> Followed<()> {
        let value = turns.value;
        let other = |kind: &StmtKind| match kind {
            StmtKind::Write { local: own, value: written } => *own == local && *written != value,
            _ => false,
        };
        let from = self.before(moment, &other)?.map_or(0, |at| at.step);
        self.timeline.go_to(from)?;
        self.timeline.follow(moment.step + 1, turns)
    }

    /// Follows a number that is not finite back to the operation that made it of finite ones, or to where it came into the launch; returns
    /// also whether it got there.
    pub fn not_finite(&mut self, mut node: Node) -> Followed<(Node, bool)> {
        let mut is_there = false;
        for _ in 0..MOST_HOPS {
            if let Some(first) = self.first_turn(&node)? {
                node = first;
            }
            let parts = self.parts(&node)?;
            match parts.into_iter().find(|part| part.value.is_some_and(|value| !is_finite(value))) {
                Some(part) => node = part,
                None => {
                    is_there = true;
                    break;
                }
            }
        }
        if let (Source::Operands(_, at) | Source::Update(_, _, at), None) = (&node.source, node.who) {
            node.who = Some(self.timeline.launch.ids(at.block, at.thread.into()));
        }
        Ok((node, is_there))
    }

    /// Of a value that is not finite because that of the turn before was not, returns the one of the first such turn.
    fn first_turn(&mut self, node: &Node) -> Followed<Option<Node>> {
        let Some(Repeated { local, value, old, moment }) = self.repeated(node)? else { return Ok(None) };
        if self.evaluate(old).is_none_or(is_finite) {
            return Ok(None);
        }
        let mut all = Turns { who: (moment.block, moment.thread), value, looked_at: value, all: vec![] };
        self.turns(moment, local, &mut all)?;
        let finite = |(_, value): &(Moment, Option<Val>)| value.is_none_or(is_finite);
        let first = all.all.iter().rposition(finite).map_or(0, |last| last + 1);
        match all.all.get(first) {
            Some((at, _)) => self.value(*at, value).map(Some),
            None => Ok(None),
        }
    }
}

/// Returns whether a value depends on what is in arrays or variables.
fn depends_on_data(function: &Function, expr: ExprId) -> bool {
    let mut seen = vec![false; function.exprs.len()];
    let mut open = vec![expr];
    while let Some(expr) = open.pop() {
        if std::mem::replace(&mut seen[expr.index()], true) {
            continue;
        }
        match &function.exprs[expr].kind {
            ExprKind::Load { .. } | ExprKind::Read(_) | ExprKind::Result => return true,
            ExprKind::Select { cond, then, other } => open.extend([cond, then, other]),
            ExprKind::Bitcast(value) | ExprKind::Extract { value, .. } => open.push(*value),
            ExprKind::Compose(parts) => open.extend(parts),
            kind => open.extend(operands_of(kind)),
        }
    }
    false
}

/// A statement that computes a variable's value from the one before: both values, and when.
struct Repeated {
    local: LocalId,
    value: ExprId,
    old: ExprId,
    moment: Moment,
}

fn held(block: &super::Block<'_>, store: Store, spot: &Spot) -> Option<Val> {
    match store {
        Store::Shared(function, memory) => block.shared.get(&(function, memory))?.get(spot.offset, spot.ty),
        Store::Local(index) => block.threads.get(spot.thread as usize)?.local.get(index)?.get(spot.offset, spot.ty),
        Store::Global(_) => None,
    }
}

/// Returns the components of a vector in an array.
fn components(spot: &Spot) -> Vec<Spot> {
    let scalar = spot.ty.scalar();
    let one = |(lane, name): (usize, char)| Spot {
        name: format!("{}.{name}", spot.name),
        offset: spot.offset + lane * scalar.size(),
        ty: Ty::Scalar(scalar),
        ..spot.clone()
    };
    "xyzw".chars().take(spot.ty.lanes().into()).enumerate().map(one).collect()
}

/// Looks for writes to an element.
struct Writer<'a> {
    spot: &'a Spot,
    /// The bytes of the element that the last step has written.
    hit: Option<usize>,
    /// The last write that was found wrote only a part.
    part: bool,
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
        if own && touches {
            let end = (access.offset + access.ty.size()).min(spot.offset + spot.ty.size());
            self.hit = Some(end - access.offset.max(spot.offset));
        }
    }
}

impl Seeker for Writer<'_> {
    fn observer(&mut self) -> &mut dyn Observer {
        self
    }

    fn is_here(&mut self, _: &State<'_>) -> bool {
        std::mem::take(&mut self.hit).is_some_and(|size| {
            self.part = size < self.spot.ty.size();
            true
        })
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
        let (name, store) = (format!("{}{}", element(access), access.part()), access.store());
        let (offset, ty) = (access.offset, access.ty);
        self.spot = Some(Spot { name, store, block: at.block, thread: at.thread, offset, ty, before: at.step });
    }
}

/// Takes down when a thread gives a variable this value, and what an expression is then.
struct Turns {
    who: (u64, u32),
    value: ExprId,
    looked_at: ExprId,
    all: Vec<(Moment, Option<Val>)>,
}

impl Observer for Turns {
    fn statement(&mut self, At { step, block, thread: number }: At, thread: &Thread<'_>, stmt: &Stmt) {
        let (StmtKind::Write { value, .. }, Some(frame)) = (&stmt.kind, thread.frames.last()) else { return };
        if (block, number) == self.who && *value == self.value {
            let looked_at = frame.value(self.looked_at).or_else(|| match frame.function.exprs[self.looked_at].kind {
                ExprKind::Read(local) => frame.local(local),
                _ => None,
            });
            self.all.push((Moment { step, block, thread: number }, looked_at));
        }
    }
}

/// Returns whether all components of a value are finite.
pub fn is_finite(value: Val) -> bool {
    !value.ty.scalar().is_float() || value.values().all(|lane| lane.as_f64().is_finite())
}

/// Returns the operands of an operation that computes.
fn operands_of(kind: &ExprKind) -> Vec<ExprId> {
    match kind {
        ExprKind::Unary { value, .. } | ExprKind::Convert(value) => vec![*value],
        ExprKind::Binary { left, right, .. } => vec![*left, *right],
        ExprKind::Math { args, .. } => args.clone(),
        _ => vec![],
    }
}
