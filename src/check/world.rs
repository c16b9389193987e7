//! Propagates host and device requirements through calls: a function's *world* is the host or the device if it, or anything
//! it calls, uses an operation that only runs there.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::cx::{Needs, Use};
use crate::check::typed::*;
use crate::check::{suggest, walk};
use crate::lang::builtin::Builtin;
use crate::lang::ops::BarrierKind;

/// The reason for a requirement: a use in the function itself, or in a callee.
#[derive(Clone)]
struct Reason {
    span: Span,
    what: SmolStr,
    through: Option<FnId>,
}

impl From<&Use> for Reason {
    fn from(u: &Use) -> Reason {
        Reason { span: u.span, what: u.what.clone(), through: None }
    }
}

/// The requirements of a function, including those of its callees.
#[derive(Clone, Default)]
struct All {
    host: Option<Reason>,
    device: Option<Reason>,
    block: Option<Reason>,
    grid: Option<Reason>,
    /// `print`, which both worlds have, and constants have not.
    print: Option<Reason>,
    recursive: bool,
}

/// The functions of a file with their requirements and calls.
pub(crate) struct Worlds<'p> {
    program: &'p Program,
    calls: FxHashMap<FnId, Vec<(FnId, Span)>>,
    all: FxHashMap<FnId, All>,
    /// Functions of earlier checks whose bodies were examined.
    old: FxHashSet<FnId>,
}

/// Accessor of one kind of requirement in [`All`].
type Field = fn(&mut All) -> &mut Option<Reason>;
const FIELDS: [Field; 5] = [|a| &mut a.host, |a| &mut a.device, |a| &mut a.block, |a| &mut a.grid, |a| &mut a.print];

impl<'p> Worlds<'p> {
    pub fn new(program: &'p Program, fns: &[(FnId, &Needs)], others: &[&Needs]) -> Self {
        let mut worlds =
            Worlds { program, calls: FxHashMap::default(), all: FxHashMap::default(), old: FxHashSet::default() };
        for (id, needs) in fns {
            let mut all = All {
                host: needs.host.as_ref().map(Reason::from),
                device: needs.device.as_ref().map(Reason::from),
                block: needs.block.as_ref().map(Reason::from),
                print: needs.print.as_ref().map(Reason::from),
                ..All::default()
            };
            if needs.grid_barrier {
                all.grid = all.block.clone().or_else(|| all.device.clone());
            }
            worlds.all.insert(*id, all);
            worlds.calls.insert(*id, needs.calls.clone());
        }
        let called = fns.iter().map(|f| f.1).chain(others.iter().copied()).flat_map(|n| &n.calls);
        for (id, _) in called {
            worlds.look_into(*id);
        }
        worlds.spread();
        worlds.find_cycles();
        worlds
    }

    /// Collects the requirements of a function that was checked earlier, and of its callees, from the typed bodies.
    fn look_into(&mut self, first: FnId) {
        let mut todo = vec![first];
        while let Some(id) = todo.pop() {
            if self.all.contains_key(&id) || !self.old.insert(id) {
                continue;
            }
            let Some(f) = self.program.fns.get(id) else { continue };
            let mut all = All::default();
            let reason = |what: &str| Some(Reason { span: f.name_span, what: what.into(), through: None });
            match f.world {
                World::Both => {}
                World::Host => all.host = reason("something of the host"),
                World::Device => all.device = reason("something of the device"),
            }
            let mut calls = Vec::new();
            if let Some(body) = &f.body {
                walk::exprs(&body.root, &mut |e| match &e.kind {
                    ExprKind::Call { callee: FnRef::Fn { id, .. }, .. }
                    | ExprKind::Lift { callee: FnRef::Fn { id, .. }, .. } => {
                        calls.push((*id, e.span));
                    }
                    ExprKind::Builtin { builtin, .. } | ExprKind::Variable(builtin) if needs_block(*builtin) => {
                        let found =
                            Reason { span: e.span, what: format!("`{}`", builtin.name()).into(), through: None };
                        if *builtin == Builtin::Barrier(BarrierKind::Grid) {
                            all.grid.get_or_insert(found.clone());
                        }
                        all.block.get_or_insert(found);
                    }
                    ExprKind::Builtin { builtin: Builtin::Print, .. } => {
                        all.print.get_or_insert(Reason { span: e.span, what: "`print`".into(), through: None });
                    }
                    _ => {}
                });
            }
            todo.extend(calls.iter().map(|c| c.0));
            self.all.insert(id, all);
            self.calls.insert(id, calls);
        }
    }

    /// Propagates every requirement to the callers, breadth-first.
    fn spread(&mut self) {
        let mut callers: FxHashMap<FnId, Vec<(FnId, Span)>> = FxHashMap::default();
        for (caller, calls) in &self.calls {
            for (callee, span) in calls {
                callers.entry(*callee).or_default().push((*caller, *span));
            }
        }
        for list in callers.values_mut() {
            list.sort_unstable();
        }
        let mut ids: Vec<FnId> = self.all.keys().copied().collect();
        ids.sort_unstable();
        for field in FIELDS {
            let has = |id: &FnId, all: &mut FxHashMap<FnId, All>| all.get_mut(id).and_then(|a| field(a).clone());
            let mut todo: VecDeque<FnId> = ids.iter().filter(|id| has(id, &mut self.all).is_some()).copied().collect();
            while let Some(id) = todo.pop_front() {
                let Some(reason) = has(&id, &mut self.all) else { continue };
                for (caller, span) in callers.get(&id).into_iter().flatten() {
                    let Some(all) = self.all.get_mut(caller) else { continue };
                    let slot = field(all);
                    if slot.is_none() {
                        *slot = Some(Reason { span: *span, what: reason.what.clone(), through: Some(id) });
                        todo.push_back(*caller);
                    }
                }
            }
        }
    }

    /// Marks functions that are recursive, directly or mutually.
    fn find_cycles(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum Mark {
            Open,
            Done,
        }
        let mut marks: FxHashMap<FnId, Mark> = FxHashMap::default();
        let mut ids: Vec<FnId> = self.calls.keys().copied().collect();
        ids.sort_unstable();
        for root in ids {
            if marks.contains_key(&root) {
                continue;
            }
            let mut path: Vec<(FnId, usize)> = vec![(root, 0)];
            marks.insert(root, Mark::Open);
            while let Some((id, next)) = path.last_mut() {
                let id = *id;
                let callee = self.calls.get(&id).and_then(|c| c.get(*next)).map(|c| c.0);
                *next += 1;
                let Some(callee) = callee else {
                    marks.insert(id, Mark::Done);
                    path.pop();
                    continue;
                };
                match marks.get(&callee) {
                    Some(Mark::Done) => {}
                    Some(Mark::Open) => {
                        let start = path.iter().position(|p| p.0 == callee).unwrap_or(0);
                        for (id, _) in path.iter().skip(start) {
                            if let Some(all) = self.all.get_mut(id) {
                                all.recursive = true;
                            }
                        }
                    }
                    None => {
                        marks.insert(callee, Mark::Open);
                        path.push((callee, 0));
                    }
                }
            }
        }
    }

    fn name(&self, id: FnId) -> &str {
        self.program.fns.get(id).map_or("?", |f| f.name.as_str())
    }

    /// Returns the world of a function; reports an error if it requires both.
    pub fn of(&self, id: FnId, found: &mut Vec<Diagnostic>) -> World {
        let Some(all) = self.all.get(&id) else { return World::Both };
        match (&all.host, &all.device) {
            (Some(host), Some(device)) => {
                // Report only where the two requirements meet, not in each caller of such a function.
                let inherited = [host, device].iter().all(|r| r.through.is_some() && r.through == host.through);
                if !inherited {
                    let d = Diagnostic::error(
                        "E0407",
                        format!("`{}` needs the host and the device at once", self.name(id)),
                    )
                    .at(host.span, format!("{} belongs to the host", self.chain(host)))
                    .because(device.span, format!("{} belongs to the device", self.chain(device)))
                    .help("split the function in two");
                    found.push(d);
                }
                World::Host
            }
            (Some(_), None) => World::Host,
            (None, Some(device)) => {
                if all.recursive {
                    self.recursion(id, device.span, &format!("{} is of the device", device.what), found);
                }
                World::Device
            }
            (None, None) if all.recursive => World::Host,
            (None, None) => World::Both,
        }
    }

    /// Describes a reason: `` `load` ``, or `` `g`, which uses `load`, ``.
    fn chain(&self, reason: &Reason) -> String {
        match reason.through {
            None => reason.what.to_string(),
            Some(id) => format!("`{}`, which uses {},", self.name(id), reason.what),
        }
    }

    /// Adds notes for the call chain (at most 8 calls) from a function to the use that causes a requirement.
    fn trace(&self, mut d: Diagnostic, id: FnId, field: Field) -> Diagnostic {
        let mut at = id;
        for _ in 0..8 {
            let Some(reason) = self.all.get(&at).cloned().and_then(|mut a| field(&mut a).clone()) else { break };
            match reason.through {
                Some(next) => {
                    d = d.because(reason.span, format!("`{}` calls `{}`", self.name(at), self.name(next)));
                    at = next;
                }
                None => {
                    d = d.because(reason.span, format!("`{}` uses {}", self.name(at), reason.what));
                    break;
                }
            }
        }
        d
    }

    /// Returns a call cycle through a recursive function (at most 8 calls): caller, span of the call, callee.
    fn circle(&self, id: FnId) -> Vec<(FnId, Span, FnId)> {
        let mut steps = Vec::new();
        let mut at = id;
        for _ in 0..8 {
            let calls = self.calls.get(&at).into_iter().flatten();
            let mut inside = calls.filter(|(callee, _)| self.all.get(callee).is_some_and(|a| a.recursive));
            let back = inside.clone().find(|(callee, _)| *callee == id);
            let Some((next, span)) = back.or_else(|| inside.next()).copied() else { break };
            steps.push((at, span, next));
            if next == id {
                break;
            }
            at = next;
        }
        steps
    }

    /// Reports recursion in device code at the calls that form the cycle; `from` is the call in a kernel, or the device
    /// operation, that makes the function device code.
    fn recursion(&self, id: FnId, from: Span, why: &str, found: &mut Vec<Diagnostic>) {
        let steps = self.circle(id);
        let mut d = Diagnostic::error("E0404", "a function that kernels use can't be recursive");
        for (number, (caller, span, callee)) in steps.iter().enumerate() {
            let says = match caller == callee {
                true => format!("`{}` calls itself", self.name(*caller)),
                false => format!("`{}` calls `{}`", self.name(*caller), self.name(*callee)),
            };
            d = if number == 0 { d.at(*span, says) } else { d.because(*span, says) };
        }
        let d = d.because(from, why).help("kernels have no call stack: write it as a loop");
        // Several kernels may call it; report the cycle once.
        if !found.iter().any(|other| other.code == d.code && other.primary() == d.primary()) {
            found.push(d);
        }
    }

    /// Reports calls that a kernel can't make. Returns whether the kernel reaches a `grid_barrier`.
    pub fn kernel(&self, kernel: &Kernel, threads: bool, needs: &Needs, found: &mut Vec<Diagnostic>) -> bool {
        let mut grid = needs.grid_barrier;
        for (id, span) in &needs.calls {
            let Some(all) = self.all.get(id) else { continue };
            grid |= all.grid.is_some();
            if let Some(reason) = &all.host {
                let d = Diagnostic::error("E0401", format!("`{}` can't run in a kernel", self.name(*id)))
                    .at(*span, format!("the kernel `{}` calls it here", kernel.name))
                    .note(format!("It uses {}, which belongs to the host.", reason.what))
                    .help(suggest::in_kernels(&reason.what));
                found.push(self.trace(d, *id, FIELDS[0]));
            } else if let Some(cycle) = self.reaches_cycle(*id) {
                self.recursion(cycle, *span, &format!("the kernel `{}` calls it", kernel.name), found);
            } else if let Some(reason) = all.block.as_ref().filter(|_| threads) {
                let d = Diagnostic::error("E0403", format!("`{}` needs the threads of a block", self.name(*id)))
                    .at(*span, format!("it uses {}", reason.what))
                    .note("`threads(i: N)` runs the body once for every index and leaves open how threads form blocks.")
                    .help("write the geometry as `grid(…) block(…)` instead");
                found.push(self.trace(d, *id, FIELDS[2]));
            }
        }
        grid
    }

    /// Reports host functions that are applied elementwise, since that runs as a kernel.
    pub fn lifts(&self, needs: &Needs, found: &mut Vec<Diagnostic>) {
        for (id, span) in &needs.lifts {
            let Some(reason) = self.all.get(id).and_then(|all| all.host.as_ref()) else { continue };
            let d = Diagnostic::error("E0401", format!("`{}` can't be applied to whole arrays", self.name(*id)))
                .at(*span, "applied element by element here, which runs as a kernel")
                .note(format!("It uses {}, which belongs to the host.", reason.what))
                .help("call it in a loop over the elements");
            found.push(self.trace(d, *id, FIELDS[0]));
        }
    }

    /// Reports calls that a constant can't make: it has one value, which is found when the program is compiled.
    pub fn constant(&self, needs: &Needs, found: &mut Vec<Diagnostic>) {
        for (id, span) in &needs.calls {
            let Some(all) = self.all.get(id) else { continue };
            let refused = [(&all.host, 0), (&all.device, 1), (&all.print, 4)];
            let Some((reason, field)) = refused.into_iter().find_map(|(reason, k)| Some((reason.as_ref()?, FIELDS[k])))
            else {
                continue;
            };
            let d = Diagnostic::error("E0314", format!("`{}` can't be part of a constant", self.name(*id)))
                .at(*span, "called here, where a constant is computed")
                .note(format!("It uses {}, which is there only when the program runs.", reason.what))
                .help("make the value a `let` of the script, and pass it on as an argument");
            found.push(self.trace(d, *id, field));
        }
    }

    fn reaches_cycle(&self, id: FnId) -> Option<FnId> {
        let mut seen = FxHashSet::default();
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
            if !seen.insert(id) {
                continue;
            }
            if self.all.get(&id).is_some_and(|a| a.recursive) {
                return Some(id);
            }
            todo.extend(self.calls.get(&id).into_iter().flatten().map(|c| c.0));
        }
        None
    }

    /// Reports host calls of device functions.
    pub fn host(&self, needs: &Needs, found: &mut Vec<Diagnostic>) {
        for (id, span) in &needs.calls {
            let Some(all) = self.all.get(id) else { continue };
            if let (Some(reason), None) = (&all.device, &all.host) {
                let d = Diagnostic::error("E0402", format!("`{}` can only run in a kernel", self.name(*id)))
                    .at(*span, "the host calls it here")
                    .note(format!("It uses {}, which belongs to the device.", reason.what));
                found.push(self.trace(d, *id, FIELDS[1]));
            }
        }
    }
}

/// Whether a builtin requires the threads of a block, which `threads(…)` kernels do not have.
fn needs_block(b: Builtin) -> bool {
    matches!(
        b,
        Builtin::ThreadIdx
            | Builtin::BlockIdx
            | Builtin::BlockDim
            | Builtin::GridDim
            | Builtin::GlobalIdx
            | Builtin::LaneIdx
            | Builtin::WarpIdx
            | Builtin::Barrier(_)
            | Builtin::Warp(_)
            | Builtin::Mma
    )
}
