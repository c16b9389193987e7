//! Propagates host and device requirements through calls: the *execution space* of a function is the host or the device
//! if the function, or one that it calls, uses an operation that runs only there.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

use crate::context::{SpaceRequirements, SpaceUse};
use crate::typed::*;
use crate::{suggestions, visit};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::BarrierKind;

/// The reason for a requirement: a use of an operation in the function itself, or in a callee.
#[derive(Clone)]
struct RequirementReason {
    span: Span,
    operation: SmolStr,
    through: Option<FnId>,
}

impl From<&SpaceUse> for RequirementReason {
    fn from(u: &SpaceUse) -> RequirementReason {
        RequirementReason { span: u.span, operation: u.operation.clone(), through: None }
    }
}

/// The requirements of a function and, transitively, of its callees.
#[derive(Clone, Default)]
struct TransitiveRequirements {
    host: Option<RequirementReason>,
    device: Option<RequirementReason>,
    block: Option<RequirementReason>,
    grid: Option<RequirementReason>,
    /// A use of `print`, which is allowed on the host and on the device, but not in constants.
    print: Option<RequirementReason>,
    recursive: bool,
}

/// The functions of a file with their requirements and calls.
pub(crate) struct SpaceAnalysis<'p> {
    program: &'p Program,
    calls: FxHashMap<FnId, Vec<(FnId, Span)>>,
    all: FxHashMap<FnId, TransitiveRequirements>,
    /// Functions from earlier checks (of other files or entries) whose bodies have been examined.
    old: FxHashSet<FnId>,
}

/// A function that returns the field of [`TransitiveRequirements`] for one kind of requirement.
type RequirementField = fn(&mut TransitiveRequirements) -> &mut Option<RequirementReason>;
const FIELDS: [RequirementField; 5] =
    [|a| &mut a.host, |a| &mut a.device, |a| &mut a.block, |a| &mut a.grid, |a| &mut a.print];

impl<'p> SpaceAnalysis<'p> {
    pub fn new(program: &'p Program, fns: &[(FnId, &SpaceRequirements)], others: &[&SpaceRequirements]) -> Self {
        let mut analysis = SpaceAnalysis {
            program,
            calls: FxHashMap::default(),
            all: FxHashMap::default(),
            old: FxHashSet::default(),
        };
        for (id, needs) in fns {
            let mut all = TransitiveRequirements {
                host: needs.host.as_ref().map(RequirementReason::from),
                device: needs.device.as_ref().map(RequirementReason::from),
                block: needs.block.as_ref().map(RequirementReason::from),
                print: needs.print.as_ref().map(RequirementReason::from),
                ..TransitiveRequirements::default()
            };
            if needs.grid_barrier {
                all.grid = all.block.clone().or_else(|| all.device.clone());
            }
            analysis.all.insert(*id, all);
            analysis.calls.insert(*id, needs.calls.clone());
        }
        let called = fns.iter().map(|f| f.1).chain(others.iter().copied()).flat_map(|n| &n.calls);
        for (id, _) in called {
            analysis.add_earlier_functions(*id);
        }
        analysis.propagate();
        analysis.find_cycles();
        analysis
    }

    /// Collects the requirements of a function that was checked earlier, and of its callees, from the typed bodies.
    fn add_earlier_functions(&mut self, first: FnId) {
        let mut todo = vec![first];
        while let Some(id) = todo.pop() {
            if self.all.contains_key(&id) || !self.old.insert(id) {
                continue;
            }
            let Some(f) = self.program.fns.get(id) else { continue };
            let mut all = TransitiveRequirements::default();
            let reason =
                |what: &str| Some(RequirementReason { span: f.name_span, operation: what.into(), through: None });
            match f.space {
                ExecutionSpace::Both => {}
                ExecutionSpace::Host => all.host = reason("a host-only operation"),
                ExecutionSpace::Device => all.device = reason("a device-only operation"),
            }
            let mut calls = Vec::new();
            if let Some(body) = &f.body {
                visit::exprs(&body.root, &mut |e| match &e.kind {
                    ExprKind::Call { callee: FnRef::Fn { id, .. }, .. }
                    | ExprKind::Lift { callee: FnRef::Fn { id, .. }, .. } => {
                        calls.push((*id, e.span));
                    }
                    ExprKind::Builtin { builtin, .. } | ExprKind::Variable(builtin) if needs_block(*builtin) => {
                        let use_reason = RequirementReason {
                            span: e.span,
                            operation: format!("`{}`", builtin.name()).into(),
                            through: None,
                        };
                        if *builtin == Builtin::Barrier(BarrierKind::Grid) {
                            all.grid.get_or_insert(use_reason.clone());
                        }
                        all.block.get_or_insert(use_reason);
                    }
                    ExprKind::Builtin { builtin: Builtin::Print, .. } => {
                        all.print.get_or_insert(RequirementReason {
                            span: e.span,
                            operation: "`print`".into(),
                            through: None,
                        });
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
    fn propagate(&mut self) {
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
            let requirement = |id: &FnId, all: &mut FxHashMap<FnId, TransitiveRequirements>| {
                all.get_mut(id).and_then(|a| field(a).clone())
            };
            let mut todo: VecDeque<FnId> =
                ids.iter().filter(|id| requirement(id, &mut self.all).is_some()).copied().collect();
            while let Some(id) = todo.pop_front() {
                let Some(reason) = requirement(&id, &mut self.all) else { continue };
                for (caller, span) in callers.get(&id).into_iter().flatten() {
                    let Some(all) = self.all.get_mut(caller) else { continue };
                    let slot = field(all);
                    if slot.is_none() {
                        *slot = Some(RequirementReason {
                            span: *span,
                            operation: reason.operation.clone(),
                            through: Some(id),
                        });
                        todo.push_back(*caller);
                    }
                }
            }
        }
    }

    /// Marks functions that are recursive, directly or mutually.
    fn find_cycles(&mut self) {
        #[derive(Clone, Copy, PartialEq)]
        enum VisitMark {
            Open,
            Done,
        }
        let mut marks: FxHashMap<FnId, VisitMark> = FxHashMap::default();
        let mut ids: Vec<FnId> = self.calls.keys().copied().collect();
        ids.sort_unstable();
        for root in ids {
            if marks.contains_key(&root) {
                continue;
            }
            let mut path: Vec<(FnId, usize)> = vec![(root, 0)];
            marks.insert(root, VisitMark::Open);
            while let Some((id, next)) = path.last_mut() {
                let id = *id;
                let callee = self.calls.get(&id).and_then(|c| c.get(*next)).map(|c| c.0);
                *next += 1;
                let Some(callee) = callee else {
                    marks.insert(id, VisitMark::Done);
                    path.pop();
                    continue;
                };
                match marks.get(&callee) {
                    Some(VisitMark::Done) => {}
                    Some(VisitMark::Open) => {
                        let start = path.iter().position(|p| p.0 == callee).unwrap_or(0);
                        for (id, _) in path.iter().skip(start) {
                            if let Some(all) = self.all.get_mut(id) {
                                all.recursive = true;
                            }
                        }
                    }
                    None => {
                        marks.insert(callee, VisitMark::Open);
                        path.push((callee, 0));
                    }
                }
            }
        }
    }

    fn name(&self, id: FnId) -> &str {
        self.program.fns.get(id).map_or("?", |f| f.name.as_str())
    }

    /// Returns the execution space of a function. Reports an error if it requires both host and device.
    pub fn space_of(&self, id: FnId, diagnostics: &mut Vec<Diagnostic>) -> ExecutionSpace {
        let Some(all) = self.all.get(&id) else { return ExecutionSpace::Both };
        match (&all.host, &all.device) {
            (Some(host), Some(device)) => {
                // The conflict is reported in the function in which the two requirements meet, not in each of its
                // callers.
                let inherited = [host, device].iter().all(|r| r.through.is_some() && r.through == host.through);
                if !inherited {
                    let d = Diagnostic::error(
                        "E0407",
                        format!("`{}` needs the host and the device at once", self.name(id)),
                    )
                    .at(host.span, format!("{} belongs to the host", self.chain(host)))
                    .because(device.span, format!("{} belongs to the device", self.chain(device)))
                    .help("split the function in two");
                    diagnostics.push(d);
                }
                ExecutionSpace::Host
            }
            (Some(_), None) => ExecutionSpace::Host,
            (None, Some(device)) => {
                if all.recursive {
                    self.recursion(
                        id,
                        device.span,
                        &format!("{} belongs to the device", device.operation),
                        diagnostics,
                    );
                }
                ExecutionSpace::Device
            }
            (None, None) if all.recursive => ExecutionSpace::Host,
            (None, None) => ExecutionSpace::Both,
        }
    }

    /// Describes the reason for a requirement: `` `load` ``, or `` `g`, which uses `load`, ``.
    fn chain(&self, reason: &RequirementReason) -> String {
        match reason.through {
            None => reason.operation.to_string(),
            Some(id) => format!("`{}`, which uses {},", self.name(id), reason.operation),
        }
    }

    /// Adds notes for the call chain (at most 8 calls) from a function to the use that causes a requirement.
    fn trace(&self, mut d: Diagnostic, id: FnId, field: RequirementField) -> Diagnostic {
        let mut at = id;
        for _ in 0..8 {
            let Some(reason) = self.all.get(&at).cloned().and_then(|mut a| field(&mut a).clone()) else { break };
            match reason.through {
                Some(next) => {
                    d = d.because(reason.span, format!("`{}` calls `{}`", self.name(at), self.name(next)));
                    at = next;
                }
                None => {
                    d = d.because(reason.span, format!("`{}` uses {}", self.name(at), reason.operation));
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
    fn recursion(&self, id: FnId, from: Span, why: &str, diagnostics: &mut Vec<Diagnostic>) {
        let steps = self.circle(id);
        let mut d = Diagnostic::error("E0404", "a function that kernels use can't be recursive");
        for (number, (caller, span, callee)) in steps.iter().enumerate() {
            let label = match caller == callee {
                true => format!("`{}` calls itself", self.name(*caller)),
                false => format!("`{}` calls `{}`", self.name(*caller), self.name(*callee)),
            };
            d = if number == 0 { d.at(*span, label) } else { d.because(*span, label) };
        }
        let d = d.because(from, why).help("kernels have no call stack: write it as a loop");
        // Several kernels may call the function, but the cycle is reported only once.
        if !diagnostics.iter().any(|other| other.code == d.code && other.primary() == d.primary()) {
            diagnostics.push(d);
        }
    }

    /// Reports calls that a kernel can't make. Returns whether the kernel reaches a `grid_barrier`.
    pub fn kernel(
        &self,
        kernel: &Kernel,
        threads: bool,
        needs: &SpaceRequirements,
        diagnostics: &mut Vec<Diagnostic>,
    ) -> bool {
        let mut grid = needs.grid_barrier;
        for (id, span) in &needs.calls {
            let Some(all) = self.all.get(id) else { continue };
            grid |= all.grid.is_some();
            if let Some(reason) = &all.host {
                let d = Diagnostic::error("E0401", format!("`{}` can't run in a kernel", self.name(*id)))
                    .at(*span, format!("the kernel `{}` calls it here", kernel.name))
                    .note(format!("It uses {}, which belongs to the host.", reason.operation))
                    .help(suggestions::in_kernels(&reason.operation));
                diagnostics.push(self.trace(d, *id, FIELDS[0]));
            } else if let Some(cycle) = self.reaches_cycle(*id) {
                self.recursion(cycle, *span, &format!("the kernel `{}` calls it", kernel.name), diagnostics);
            } else if let Some(reason) = all.block.as_ref().filter(|_| threads) {
                let d = Diagnostic::error("E0403", format!("`{}` needs the threads of a block", self.name(*id)))
                    .at(*span, format!("it uses {}", reason.operation))
                    .note("`threads(i: N)` runs the body once for every index and leaves open how threads form blocks.")
                    .help("write the geometry as `grid(…) block(…)` instead");
                diagnostics.push(self.trace(d, *id, FIELDS[2]));
            }
        }
        grid
    }

    /// Reports host functions that are applied elementwise, because an elementwise application is executed as a kernel.
    pub fn lifts(&self, needs: &SpaceRequirements, diagnostics: &mut Vec<Diagnostic>) {
        for (id, span) in &needs.lifts {
            let Some(reason) = self.all.get(id).and_then(|all| all.host.as_ref()) else { continue };
            let d = Diagnostic::error("E0401", format!("`{}` can't be applied to whole arrays", self.name(*id)))
                .at(*span, "applied element by element here, which runs as a kernel")
                .note(format!("It uses {}, which belongs to the host.", reason.operation))
                .help("call it in a loop over the elements");
            diagnostics.push(self.trace(d, *id, FIELDS[0]));
        }
    }

    /// Reports calls that a constant can't make, since its value is computed at compile time.
    pub fn constant(&self, needs: &SpaceRequirements, diagnostics: &mut Vec<Diagnostic>) {
        for (id, span) in &needs.calls {
            let Some(all) = self.all.get(id) else { continue };
            let refused = [(&all.host, 0), (&all.device, 1), (&all.print, 4)];
            let Some((reason, field)) = refused.into_iter().find_map(|(reason, k)| Some((reason.as_ref()?, FIELDS[k])))
            else {
                continue;
            };
            let d = Diagnostic::error("E0314", format!("`{}` can't be part of a constant", self.name(*id)))
                .at(*span, "called here, where a constant is computed")
                .note(format!("It uses {}, which exists only when the program runs.", reason.operation))
                .help("make the value a `let` of the script, and pass it on as an argument");
            diagnostics.push(self.trace(d, *id, field));
        }
    }

    fn reaches_cycle(&self, id: FnId) -> Option<FnId> {
        let mut visited = FxHashSet::default();
        let mut todo = vec![id];
        while let Some(id) = todo.pop() {
            if !visited.insert(id) {
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
    pub fn host(&self, needs: &SpaceRequirements, diagnostics: &mut Vec<Diagnostic>) {
        for (id, span) in &needs.calls {
            let Some(all) = self.all.get(id) else { continue };
            if let (Some(reason), None) = (&all.device, &all.host) {
                let d = Diagnostic::error("E0402", format!("`{}` can only run in a kernel", self.name(*id)))
                    .at(*span, "the host calls it here")
                    .note(format!("It uses {}, which belongs to the device.", reason.operation));
                diagnostics.push(self.trace(d, *id, FIELDS[1]));
            }
        }
    }
}

/// Returns whether a builtin requires the threads of a block, which `threads(…)` kernels do not have.
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
