//! Where the mirror image of a loop that adds a product gets its factors from.
//!
//! In: a kernel's body, and what its threads never write. Out: for each factor whose contents matter, the loop that has filled it, if that does
//! the same wherever it runs; else it is taped.

use rustc_hash::{FxHashMap, FxHashSet};

use super::active::Activity;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;

/// How the mirror image gets the contents of a factor.
#[derive(Clone)]
pub(super) enum Source {
    /// This loop fills it.
    Filled(Stmt),
    Taped,
}

/// How a loop gets its left and right factor; none if it does not need it.
pub(super) type Sources = [Option<Source>; 2];

/// Returns the sources of all factors.
pub(super) fn sources(f: &Function, activity: &Activity, constant: &[bool]) -> FxHashMap<Label, Sources> {
    let mut found = FxHashMap::default();
    search(f, activity, constant, &f.body, &mut found);
    found
}

fn search(f: &Function, activity: &Activity, constant: &[bool], block: &[Stmt], found: &mut FxHashMap<Label, Sources>) {
    for (position, stmt) in block.iter().enumerate() {
        if let StmtKind::For { label, together: Some(Together::Product(product)), .. } = &stmt.kind {
            let source = |own: MemId, other: MemId| {
                activity.memories[other.index()].then(|| source(f, constant, &block[..position], own))
            };
            let Factors { left, right, .. } = *product;
            found.insert(*label, [source(left, right), source(right, left)]);
        } else {
            stmt.kind.blocks().for_each(|inner| search(f, activity, constant, inner, found));
        }
    }
}

fn source(f: &Function, constant: &[bool], before: &[Stmt], memory: MemId) -> Source {
    let mut stores = 0;
    each_stmt(&f.body, &mut |stmt| stores += usize::from(writes(stmt, memory)));
    let fills = |stmt: &&Stmt| {
        let mut found = false;
        each_stmt(std::slice::from_ref(*stmt), &mut |stmt| found |= writes(stmt, memory));
        found
    };
    match before.iter().rev().find(fills) {
        Some(stmt) if stores == 1 && is_repeatable(f, constant, stmt, memory) => Source::Filled(stmt.clone()),
        _ => Source::Taped,
    }
}

fn writes(stmt: &Stmt, memory: MemId) -> bool {
    matches!(&stmt.kind, StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } if place.memory == memory)
}

/// Whether a loop does the same wherever it runs: it reads what nobody writes and what it has computed, and writes this memory.
fn is_repeatable(f: &Function, constant: &[bool], stmt: &Stmt, memory: MemId) -> bool {
    let StmtKind::For { local, together: None, body, .. } = &stmt.kind else { return false };
    let mut known = FxHashSet::from_iter([*local]);
    body.iter().all(|stmt| {
        let fits = repeats(f, constant, stmt, memory, &known);
        if let StmtKind::Write { local, .. } = stmt.kind {
            known.insert(local);
        }
        fits
    })
}

fn repeats(f: &Function, constant: &[bool], stmt: &Stmt, memory: MemId, known: &FxHashSet<LocalId>) -> bool {
    match &stmt.kind {
        StmtKind::Let(id) => match &f.exprs[*id].kind {
            ExprKind::Load { place, .. } => constant[place.memory.index()],
            ExprKind::Read(local) => known.contains(local),
            _ => true,
        },
        StmtKind::Store { place, .. } => place.memory == memory,
        StmtKind::If { .. } => stmt.kind.blocks().flatten().all(|inner| {
            let fits = !matches!(&inner.kind, StmtKind::Write { local, .. } if !known.contains(local));
            fits && repeats(f, constant, inner, memory, known)
        }),
        StmtKind::Write { .. } => true,
        _ => false,
    }
}

/// Returns the factors of a loop that are on the tape.
pub(super) fn taped(factors: &FxHashMap<Label, Sources>, label: Label, of: Factors) -> impl Iterator<Item = MemId> {
    let sources = factors.get(&label).map_or(&[][..], |sources| sources);
    let found: Vec<MemId> = [of.left, of.right]
        .into_iter()
        .zip(sources)
        .filter(|(_, source)| matches!(source, Some(Source::Taped)))
        .map(|(memory, _)| memory)
        .collect();
    found.into_iter()
}

/// Returns the rows and columns of a factor.
pub(super) fn extents(f: &Function, memory: MemId) -> Option<[u32; 2]> {
    match f.memories[memory].extents[..] {
        [Extent::Known(rows), Extent::Known(columns)] => Some([rows, columns]),
        _ => None,
    }
}
