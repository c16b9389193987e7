//! Determines how the reverse sweep obtains the operands of a loop that accumulates a matrix product.
//!
//! Input: a kernel's body, and the memories that it never writes. Output: a [`FactorSource`] for each operand that is
//! needed. If the loop that fills the operand can be repeated anywhere with the same result, the source is that loop;
//! otherwise the operand is recorded on the tape.

use rustc_hash::{FxHashMap, FxHashSet};

use super::activity::Activity;
use clk_ir::def::*;
use clk_ir::visit::each_stmt;

/// How the reverse sweep obtains the contents of an operand.
#[derive(Clone)]
pub(super) enum FactorSource {
    /// The reverse sweep repeats this loop, which fills the operand.
    Refill(Stmt),
    Tape,
}

/// The sources of the left and the right operand; `None` if the reverse sweep does not need the operand.
pub(super) type FactorSources = [Option<FactorSource>; 2];

/// Returns the operand sources for each loop that accumulates a matrix product.
pub(super) fn find_sources(f: &Function, activity: &Activity, constant: &[bool]) -> FxHashMap<Label, FactorSources> {
    let mut sources = FxHashMap::default();
    collect_sources(f, activity, constant, &f.body, &mut sources);
    sources
}

fn collect_sources(
    f: &Function,
    activity: &Activity,
    constant: &[bool],
    block: &[Stmt],
    sources: &mut FxHashMap<Label, FactorSources>,
) {
    for (position, stmt) in block.iter().enumerate() {
        if let StmtKind::For { label, collective: Some(CollectiveLoop::Gemm(product)), .. } = &stmt.kind {
            let source = |own: MemId, other: MemId| {
                activity.memories[other.index()].then(|| source_of(f, constant, &block[..position], own))
            };
            let CollectiveGemm { left, right, .. } = *product;
            sources.insert(*label, [source(left, right), source(right, left)]);
        } else {
            stmt.kind.blocks().for_each(|inner| collect_sources(f, activity, constant, inner, sources));
        }
    }
}

fn source_of(f: &Function, constant: &[bool], before: &[Stmt], memory: MemId) -> FactorSource {
    let mut stores = 0;
    each_stmt(&f.body, &mut |stmt| stores += usize::from(is_write_to(stmt, memory)));
    let fills = |stmt: &&Stmt| {
        let mut has_store = false;
        each_stmt(std::slice::from_ref(*stmt), &mut |stmt| has_store |= is_write_to(stmt, memory));
        has_store
    };
    match before.iter().rev().find(fills) {
        Some(stmt) if stores == 1 && is_repeatable(f, constant, stmt, memory) => FactorSource::Refill(stmt.clone()),
        _ => FactorSource::Tape,
    }
}

fn is_write_to(stmt: &Stmt, memory: MemId) -> bool {
    matches!(&stmt.kind, StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } if place.memory == memory)
}

/// Returns whether a loop has the same result wherever it is repeated: it reads only memory that is never written and
/// values computed inside the loop, and it writes only `memory`.
fn is_repeatable(f: &Function, constant: &[bool], stmt: &Stmt, memory: MemId) -> bool {
    let StmtKind::For { local, collective: None, body, .. } = &stmt.kind else { return false };
    let mut known_locals = FxHashSet::from_iter([*local]);
    body.iter().all(|stmt| {
        let is_repeatable_stmt = can_repeat(f, constant, stmt, memory, &known_locals);
        if let StmtKind::Write { local, .. } = stmt.kind {
            known_locals.insert(local);
        }
        is_repeatable_stmt
    })
}

fn can_repeat(f: &Function, constant: &[bool], stmt: &Stmt, memory: MemId, known: &FxHashSet<LocalId>) -> bool {
    match &stmt.kind {
        StmtKind::Let(id) => match &f.exprs[*id].kind {
            ExprKind::Load { place, .. } => constant[place.memory.index()],
            ExprKind::Read(local) => known.contains(local),
            _ => true,
        },
        StmtKind::Store { place, .. } => place.memory == memory,
        StmtKind::If { .. } => stmt.kind.blocks().flatten().all(|inner| {
            let writes_known_locals = !matches!(&inner.kind, StmtKind::Write { local, .. } if !known.contains(local));
            writes_known_locals && can_repeat(f, constant, inner, memory, known)
        }),
        StmtKind::Write { .. } => true,
        _ => false,
    }
}

/// Returns the operands of a loop that are recorded on the tape.
pub(super) fn taped_operands(
    factors: &FxHashMap<Label, FactorSources>,
    label: Label,
    of: CollectiveGemm,
) -> impl Iterator<Item = MemId> {
    let sources = factors.get(&label).map_or(&[][..], |sources| sources);
    let operands: Vec<MemId> = [of.left, of.right]
        .into_iter()
        .zip(sources)
        .filter(|(_, source_of)| matches!(source_of, Some(FactorSource::Tape)))
        .map(|(memory, _)| memory)
        .collect();
    operands.into_iter()
}

/// Returns the rows and columns of an operand.
pub(super) fn extents(f: &Function, memory: MemId) -> Option<[u32; 2]> {
    match f.memories[memory].extents[..] {
        [Extent::Known(rows), Extent::Known(columns)] => Some([rows, columns]),
        _ => None,
    }
}
