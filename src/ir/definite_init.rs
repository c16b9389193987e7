//! Definite initialization of local arrays: finds arrays that are fully written before any element is read.
//!
//! Input: a function. Output: for each memory, whether it is known to be fully written before it is read. The analysis
//! looks at the statements that follow the declaration in the same block: stores to known elements, and loops over
//! known ranges that only store and compute. The array is initialized if these statements write all elements and all
//! reads follow them. A thread that leaves the block early skips the reads too.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::def::*;
use crate::visit::each_stmt;

/// The variable of each enclosing loop, with its first and last value.
type LoopVarRanges = Vec<(LocalId, (i64, i64))>;

/// Larger arrays are not analyzed.
const MAX_ELEMENTS: u64 = 1 << 16;

/// Returns, for each memory, whether it is a local array whose elements are all written before they are read.
pub fn find_initialized_arrays(f: &Function) -> Vec<bool> {
    let mut declared: FxHashMap<MemId, u32> = FxHashMap::default();
    each_stmt(&f.body, &mut |stmt| {
        if let StmtKind::Declare(memory) = stmt.kind {
            *declared.entry(memory).or_default() += 1;
        }
    });
    let mut initialized = vec![false; f.memories.iter().count()];
    let mut visit_block = |block: &Block| {
        for (at, stmt) in block.iter().enumerate() {
            if let StmtKind::Declare(memory) = stmt.kind
                && declared.get(&memory) == Some(&1)
                && let Some(mut cover) = ElementCoverage::new(f, memory)
                && let Some(end) = cover.statements_until_full(&block[at + 1..])
            {
                initialized[memory.index()] =
                    count_reads(f, &block[at + 1 + end..], memory) == count_reads(f, &f.body, memory);
            }
        }
    };
    visit_block(&f.body);
    each_stmt(&f.body, &mut |stmt| stmt.kind.blocks().for_each(&mut visit_block));
    initialized
}

/// Counts the reads of a memory.
fn count_reads(f: &Function, stmts: &[Stmt], memory: MemId) -> usize {
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

/// The scalars of an array that have been written so far.
struct ElementCoverage<'a> {
    f: &'a Function,
    memory: MemId,
    extents: Vec<i64>,
    scalars_per_element: usize,
    written: Vec<bool>,
    unwritten: usize,
    /// Expressions that are evaluated inside the enclosing loops.
    loop_exprs: FxHashSet<ExprId>,
}

impl<'a> ElementCoverage<'a> {
    fn new(f: &'a Function, memory: MemId) -> Option<ElementCoverage<'a>> {
        let def = &f.memories[memory];
        let extents = def.extents.iter().map(|extent| Some(i64::from(extent.known()?))).collect::<Option<Vec<_>>>()?;
        let parts = def.layout.scalar_count();
        let len =
            def.known_len().filter(|&len| def.space == MemorySpace::Local && len <= MAX_ELEMENTS)? as usize * parts;
        Some(ElementCoverage {
            f,
            memory,
            extents,
            scalars_per_element: parts,
            written: vec![false; len],
            unwritten: len,
            loop_exprs: Default::default(),
        })
    }

    /// Returns the number of leading statements after which the whole array is written; `None` if one of them reads it.
    fn statements_until_full(&mut self, stmts: &[Stmt]) -> Option<usize> {
        for (at, stmt) in stmts.iter().enumerate() {
            if self.unwritten == 0 {
                return Some(at);
            }
            if count_reads(self.f, std::slice::from_ref(stmt), self.memory) > 0 {
                return None;
            }
            self.record_stmt(stmt, &mut vec![]);
        }
        (self.unwritten == 0).then_some(stmts.len())
    }

    /// Records the elements that a statement writes, over all iterations of the enclosing loops.
    fn record_stmt(&mut self, stmt: &Stmt, ranges: &mut LoopVarRanges) {
        match &stmt.kind {
            StmtKind::Let(e) if !ranges.is_empty() => {
                self.loop_exprs.insert(*e);
            }
            StmtKind::Store { place, .. } if place.memory == self.memory => self.record_store(place, ranges),
            StmtKind::For { local, start, end, step, inclusive, body, .. } => {
                let bounds = [start, end, step].map(|e| self.constant(*e));
                let [Some(start), Some(end), Some(1)] = bounds else { return };
                let last = if *inclusive { end } else { end - 1 };
                // No statement of the body exits the loop.
                let is_straight_line = |stmt: &Stmt| {
                    use StmtKind::*;
                    matches!(stmt.kind, Let(_) | Store { .. } | Write { .. } | For { .. })
                };
                let mut all = start <= last && ranges.iter().all(|(open, _)| open != local);
                each_stmt(body, &mut |stmt| all &= is_straight_line(stmt));
                if all {
                    ranges.push((*local, (start, last)));
                    body.iter().for_each(|stmt| self.record_stmt(stmt, ranges));
                    ranges.pop();
                }
            }
            _ => {}
        }
    }

    /// Records a store. Each index must be a constant or the variable of a distinct loop.
    fn record_store(&mut self, place: &Place, ranges: &LoopVarRanges) {
        let mut axes: Vec<(i64, i64)> = vec![];
        let mut used: Vec<LocalId> = vec![];
        for &index in &place.indices {
            let range = match (self.constant(index), &self.f.exprs[index].kind) {
                (Some(at), _) => Some((at, at)),
                (None, ExprKind::Read(local)) if !used.contains(local) && self.loop_exprs.contains(&index) => {
                    used.push(*local);
                    ranges.iter().find(|(open, _)| open == local).map(|(_, range)| *range)
                }
                _ => None,
            };
            let Some(range) = range else { return };
            axes.push(range);
        }
        let layout = &self.f.memories[self.memory].layout;
        let first = layout.scalars_before(place.leaf, place.component);
        let count = match place.component {
            Some(_) => 1,
            None => usize::from(layout.leaves[place.leaf as usize].ty.lanes()),
        };
        let parts = first..first + count;
        self.mark_written(&axes, 0, 0, &parts);
    }

    fn mark_written(&mut self, axes: &[(i64, i64)], axis: usize, flat_index: i64, parts: &std::ops::Range<usize>) {
        let Some(&(first, last)) = axes.get(axis) else {
            for part in parts.clone() {
                let was_written = &mut self.written[flat_index as usize * self.scalars_per_element + part];
                self.unwritten -= usize::from(!std::mem::replace(was_written, true));
            }
            return;
        };
        // An index out of bounds is a fault that ends the launch, so only in-bounds indices matter.
        let extent = self.extents[axis];
        (first.max(0)..=last.min(extent - 1))
            .for_each(|at| self.mark_written(axes, axis + 1, flat_index * extent + at, parts));
    }

    fn constant(&self, e: ExprId) -> Option<i64> {
        i64::try_from(self.f.const_integer(e)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::find_initialized_arrays;
    use crate::text::parse;

    /// Returns whether the local array of a kernel with these statements is initialized. For arrays with two axes, the
    /// read in the test program gets a second index.
    #[track_caller]
    fn is_initialized(array: &str, body: &str) -> bool {
        let body = if array.contains(',') { body.replace("load @a[arg0]", "load @a[arg0, arg0]") } else { body.into() };
        let head = "kernel k(n: i32, y: out @y) threads 1\nfn k() {\n    global 1 out @y: f32[_]\n";
        let text = format!("{head}    local @a: {array}\n    var $i: i32\n    var $j: i32\n{body}\n}}\n");
        let module = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        let module = crate::verify::verify(module).unwrap_or_else(|e| panic!("{e:?}\n{text}")).into_module();
        let f = &module.functions[module.kernel.body];
        let initialized = find_initialized_arrays(f);
        assert!(!initialized[0], "`y` is not a local array");
        initialized[1]
    }

    const READ: &str = "    %90: f32 = load @a[arg0]\n    store @y[index0] = %90";

    fn stores(at: &[i32]) -> String {
        at.iter().map(|k| format!("    store @a[{k}i32] = 1.0f32\n")).collect()
    }

    #[test]
    fn stores_to_known_elements_initialize() {
        let all = |before: &str, at: &[i32]| {
            is_initialized("f32[3]", &format!("{before}\n    declare @a\n{}{READ}", stores(at)))
        };
        assert!(all("", &[2, 0, 1]));
        assert!(!all("", &[2, 0, 0]));
        assert!(!is_initialized("f32[3]", &format!("    declare @a\n{READ}\n{}", stores(&[0, 1, 2]))));
        assert!(!is_initialized("f32[3]", &format!("    declare @a\n{}{READ}\n{}", stores(&[0, 1]), stores(&[2]))));
        // A second `declare` marks the elements as unwritten again.
        assert!(!is_initialized("f32[2]", &format!("    declare @a\n{}    declare @a\n{READ}", stores(&[0, 1]))));
    }

    #[test]
    fn loops_over_known_ranges_initialize() {
        let body = |array: &str, range: &str, inside: &str| {
            is_initialized(
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
                "        for '1 $j = 0i32 .. 3i32 step 1i32 {{\n            %1: i32 = read $j\n            \
                 store @a[{index}] = 1.0f32\n        }}"
            );
            body("f32[8, 4]", "0i32 .. 8i32 step 1i32", &format!("{inner}\n        store @a[%0, 3i32] = 0.0f32"))
        };
        assert!(nested("%0, %1") && !nested("%0, 1i32"));
    }
}
