//! Local arrays that are written as a whole before anything of them is read.
//!
//! Input: a function. Output: for each memory, whether it is such an array; others may be, too. The idea: behind the declaration, in the
//! same block, stand stores to known elements, or loops over known ranges that only store and compute; until these have covered the
//! array, nothing reads it, and all that reads it stands behind them. A thread that leaves the block earlier reaches none of that.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::ir::def::*;
use crate::ir::visit::each_stmt;
use crate::lang::scalar::Value;

/// The variables of open loops, with first and last value.
type Ranges = Vec<(LocalId, (i64, i64))>;

/// Elements of an array, at most, that are looked at.
const MOST: u64 = 1 << 16;

/// Returns by memory whether it is a local array without reads of what has not been written.
pub fn filled(f: &Function) -> Vec<bool> {
    let mut declared: FxHashMap<MemId, u32> = FxHashMap::default();
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Declare(memory) = stmt.kind {
            *declared.entry(memory).or_default() += 1;
        }
    });
    let mut found = vec![false; f.memories.iter().count()];
    let mut see = |block: &Block| {
        for (at, stmt) in block.iter().enumerate() {
            if let StmtKind::Declare(memory) = stmt.kind
                && declared.get(&memory) == Some(&1)
                && let Some(mut cover) = Cover::of(f, memory)
                && let Some(end) = cover.end(&block[at + 1..])
            {
                found[memory.index()] = reads(f, &block[at + 1 + end..], memory) == reads(f, &f.body, memory);
            }
        }
    };
    see(&f.body);
    each_stmt(&f.body, &mut |stmt| stmt.kind.blocks().for_each(&mut see));
    found
}

/// Counts the reads of a memory.
fn reads(f: &Function, stmts: &[Stmt], memory: MemId) -> usize {
    let mut count = 0;
    each_stmt(stmts, &mut |stmt| {
        count += match &stmt.kind {
            StmtKind::Let(e) => {
                usize::from(matches!(&f.exprs[*e].kind, ExprKind::Load { place, .. } if place.memory == memory))
            }
            StmtKind::Atomic { place, .. } => usize::from(place.memory == memory),
            _ => 0,
        };
    });
    count
}

/// Which scalars of an array have been written.
struct Cover<'a> {
    f: &'a Function,
    memory: MemId,
    extents: Vec<i64>,
    /// Scalars in front of each leaf, and the number of all.
    leaves: Vec<usize>,
    parts: usize,
    done: Vec<bool>,
    left: usize,
    /// What open loops, or earlier ones, compute.
    inside: FxHashSet<ExprId>,
}

impl<'a> Cover<'a> {
    fn of(f: &'a Function, memory: MemId) -> Option<Cover<'a>> {
        let def = &f.memories[memory];
        let known = |extent: &Extent| if let Extent::Known(n) = extent { Some(i64::from(*n)) } else { None };
        let extents = def.extents.iter().map(known).collect::<Option<Vec<_>>>()?;
        let mut parts = 0;
        let leaves = def.layout.leaves.iter().map(|leaf| {
            parts += leaf.ty.lanes() as usize;
            parts - leaf.ty.lanes() as usize
        });
        let leaves = leaves.collect();
        let len = def.known_len().filter(|&len| def.space == Space::Local && len <= MOST)? as usize * parts;
        Some(Cover { f, memory, extents, leaves, parts, done: vec![false; len], left: len, inside: Default::default() })
    }

    /// Returns behind how many statements all has been written, if nothing has been read before.
    fn end(&mut self, stmts: &[Stmt]) -> Option<usize> {
        for (at, stmt) in stmts.iter().enumerate() {
            if self.left == 0 {
                return Some(at);
            }
            if reads(self.f, std::slice::from_ref(stmt), self.memory) > 0 {
                return None;
            }
            self.stmt(stmt, &mut vec![]);
        }
        (self.left == 0).then_some(stmts.len())
    }

    /// Notes what a statement writes for sure, in all iterations of the loops around it.
    fn stmt(&mut self, stmt: &Stmt, ranges: &mut Ranges) {
        match &stmt.kind {
            StmtKind::Let(e) if !ranges.is_empty() => {
                self.inside.insert(*e);
            }
            StmtKind::Store { place, .. } if place.memory == self.memory => self.store(place, ranges),
            StmtKind::For { local, start, end, step, inclusive, body, .. } => {
                let known = [start, end, step].map(|e| self.constant(*e));
                let [Some(start), Some(end), Some(1)] = known else { return };
                let last = if *inclusive { end } else { end - 1 };
                // Nothing in it leaves before its end.
                let straight = |stmt: &Stmt| {
                    use StmtKind::*;
                    matches!(stmt.kind, Let(_) | Store { .. } | Write { .. } | For { .. })
                };
                let mut all = start <= last && ranges.iter().all(|(open, _)| open != local);
                each_stmt(body, &mut |stmt| all &= straight(stmt));
                if all {
                    ranges.push((*local, (start, last)));
                    body.iter().for_each(|stmt| self.stmt(stmt, ranges));
                    ranges.pop();
                }
            }
            _ => {}
        }
    }

    /// Notes a store: each index is known, or the variable of a loop of its own.
    fn store(&mut self, place: &Place, ranges: &Ranges) {
        let mut axes: Vec<(i64, i64)> = vec![];
        let mut used: Vec<LocalId> = vec![];
        for &index in &place.indices {
            let range = match (self.constant(index), &self.f.exprs[index].kind) {
                (Some(at), _) => Some((at, at)),
                (None, ExprKind::Read(local)) if !used.contains(local) && self.inside.contains(&index) => {
                    used.push(*local);
                    ranges.iter().find(|(open, _)| open == local).map(|(_, range)| *range)
                }
                _ => None,
            };
            let Some(range) = range else { return };
            axes.push(range);
        }
        let leaf = place.leaf as usize;
        let lanes = self.f.memories[self.memory].layout.leaves[leaf].ty.lanes() as usize;
        let parts = match place.component {
            Some(component) => {
                self.leaves[leaf] + usize::from(component)..self.leaves[leaf] + usize::from(component) + 1
            }
            None => self.leaves[leaf]..self.leaves[leaf] + lanes,
        };
        self.mark(&axes, 0, 0, &parts);
    }

    fn mark(&mut self, axes: &[(i64, i64)], axis: usize, before: i64, parts: &std::ops::Range<usize>) {
        let Some(&(first, last)) = axes.get(axis) else {
            for part in parts.clone() {
                let done = &mut self.done[before as usize * self.parts + part];
                self.left -= usize::from(!std::mem::replace(done, true));
            }
            return;
        };
        // What is out of bounds ends the launch.
        let extent = self.extents[axis];
        (first.max(0)..=last.min(extent - 1)).for_each(|at| self.mark(axes, axis + 1, before * extent + at, parts));
    }

    fn constant(&self, e: ExprId) -> Option<i64> {
        let expr = &self.f.exprs[e];
        match expr.kind {
            ExprKind::Const(bits) => i64::try_from(Value { ty: expr.ty.scalar(), bits }.as_integer()?).ok(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::filled;
    use crate::ir::text::parse;

    /// Returns whether the local array of a kernel with these statements is filled. Of arrays with two axes, another element is read.
    #[track_caller]
    fn of(array: &str, body: &str) -> bool {
        let body = if array.contains(',') { body.replace("load @a[arg0]", "load @a[arg0, arg0]") } else { body.into() };
        let head = "kernel k(n: i32, y: out @y) threads 1\nfn k() {\n    global 1 out @y: f32[_]\n";
        let text = format!("{head}    local @a: {array}\n    var $i: i32\n    var $j: i32\n{body}\n}}\n");
        let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let module = crate::ir::verify::verify(module).unwrap_or_else(|e| panic!("{e:?}\n{text}")).into_module();
        let f = &module.functions[module.kernel.body];
        let found = filled(f);
        assert!(!found[0], "`y` is no local array");
        found[1]
    }

    const READ: &str = "    %90: f32 = load @a[arg0]\n    store @y[index0] = %90";

    fn stores(at: &[i32]) -> String {
        at.iter().map(|k| format!("    store @a[{k}i32] = 1.0f32\n")).collect()
    }

    #[test]
    fn by_stores_to_known_elements() {
        let all = |before: &str, at: &[i32]| of("f32[3]", &format!("{before}\n    declare @a\n{}{READ}", stores(at)));
        assert!(all("", &[2, 0, 1]));
        assert!(!all("", &[2, 0, 0]));
        assert!(!of("f32[3]", &format!("    declare @a\n{READ}\n{}", stores(&[0, 1, 2]))));
        assert!(!of("f32[3]", &format!("    declare @a\n{}{READ}\n{}", stores(&[0, 1]), stores(&[2]))));
        // What is declared again is unwritten.
        assert!(!of("f32[2]", &format!("    declare @a\n{}    declare @a\n{READ}", stores(&[0, 1]))));
    }

    #[test]
    fn by_loops_over_known_ranges() {
        let body = |array: &str, range: &str, inside: &str| {
            of(
                array,
                &format!(
                    "    declare @a\n    for '0 $i = {range} {{\n        %0: i32 = read $i\n{inside}\n    }}\n{READ}"
                ),
            )
        };
        let store = "        store @a[%0] = 1.0f32";
        assert!(body("f32[8]", "0i32 .. 8i32 step 1i32", store));
        assert!(body("f32[8]", "0i32 ..= 7i32 step 1i32", store));
        assert!(!body("f32[9]", "0i32 .. 8i32 step 1i32", store));
        assert!(!body("f32[8]", "0i32 .. 8i32 step 2i32", store));
        assert!(!body("f32[8]", "0i32 .. arg0 step 1i32", store));
        assert!(!body(
            "f32[8]",
            "0i32 .. 8i32 step 1i32",
            "        if true {\n            store @a[%0] = 1.0f32\n        }"
        ));
        let early = "        %1: f32 = load @a[%0]\n        store @a[%0] = %1";
        assert!(!body("f32[8]", "0i32 .. 8i32 step 1i32", early));
        let nested = |index: &str| {
            let inner = format!(
                "        for '1 $j = 0i32 .. 3i32 step 1i32 {{\n            %1: i32 = read $j\n            store @a[{index}] = 1.0f32\n        }}"
            );
            body("f32[8, 4]", "0i32 .. 8i32 step 1i32", &format!("{inner}\n        store @a[%0, 3i32] = 0.0f32"))
        };
        assert!(nested("%0, %1") && !nested("%0, 1i32"));
    }
}
