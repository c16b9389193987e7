//! Vectorizes the accesses of an index space. A thread processes V adjacent indices of the last axis. The elements that
//! these indices access at `stride * index + k` form a vector group: `V * stride` adjacent elements, which are in
//! registers.
//!
//! Vectorized accesses load the groups before the first of the V indices and store them after the last one. Input: a
//! body without loops. Output: vector groups, and the loop over the V indices. `docs/internals/cuda-vectorization.md`
//! lists the conditions.

use super::generator::CudaGenerator;
use super::tree::{CudaExpr, CudaStmt as Out};
use super::vector_group::{
    Longest, StrideFamily, VectorGroup, VectorGroups, VectorizableAccess, affine, stride_family,
};
use clk_ir::def::*;
use clk_ir::ranges::BodySite;

/// Maximum size in bytes of an access, and of a vector group.
const MAX_ACCESS_BYTES: usize = 16;
const MAX_GROUP_BYTES: usize = 48;
/// Maximum number of statements for all indices of a thread together.
const MAX_STATEMENTS: usize = 640;

/// The array accesses of a body.
#[derive(Default)]
struct BodyAccesses<'a> {
    accesses: Vec<VectorizableAccess<'a>>,
    /// Whether the body may end before its last statement.
    may_end_early: bool,
    /// Whether the body contains a statement that vectorization does not support.
    is_unsupported: bool,
    statements: u32,
}

impl<'a> BodyAccesses<'a> {
    fn block(&mut self, g: &CudaGenerator<'a>, block: &'a [Stmt], plain: bool, always: bool) {
        for stmt in block {
            let site = BodySite::Stmt(self.statements);
            self.statements += 1;
            let mut add = |place, hint: CacheHint, write, site| {
                let guarded = g.options.checked && g.analyses.ranges.guards.contains_key(&site);
                self.may_end_early |= guarded;
                self.accesses.push(VectorizableAccess {
                    place,
                    write,
                    plain,
                    always,
                    guarded,
                    streams: hint != CacheHint::None,
                });
            };
            match &stmt.kind {
                StmtKind::Let(id) => {
                    if let ExprKind::Load { place, hint } = &g.function.exprs[*id].kind {
                        add(place, *hint, false, BodySite::Load(*id));
                    }
                }
                StmtKind::Store { place, hint, .. } => add(place, *hint, true, site),
                StmtKind::If { cond, then, other } => {
                    let plain = plain && depends_only_on_index(g.function, *cond);
                    self.block(g, then, plain, false);
                    self.block(g, other, plain, false);
                }
                StmtKind::Block { body, .. } => self.block(g, body, plain, false),
                StmtKind::Assert { .. } | StmtKind::Return(_) => self.may_end_early = true,
                StmtKind::Write { .. } | StmtKind::Break(_) | StmtKind::Declare(_) => {}
                _ => self.is_unsupported = true,
            }
        }
    }
}

/// Returns whether a value depends only on indices, extents and parameters.
fn depends_only_on_index(f: &Function, id: ExprId) -> bool {
    match &f.exprs[id].kind {
        ExprKind::Read(_) | ExprKind::Load { .. } | ExprKind::Result => false,
        kind => {
            let mut all = true;
            kind.operands(|operand| all &= depends_only_on_index(f, operand));
            all
        }
    }
}

impl CudaGenerator<'_> {
    /// Finds the vector groups of a body with this many statements. Finds none if scalar accesses are as fast.
    pub(super) fn find_vector_groups(&mut self, rank: usize, statements: usize) -> Option<()> {
        let mut body = BodyAccesses::default();
        body.block(self, &self.function.body, true, true);
        body.may_end_early |= self.options.checked && !self.analyses.ranges.zero_divisors.is_empty();
        let mut groups = (!body.is_unsupported).then(|| self.vector_groups_of(&body, rank as u8 - 1))?;
        groups.indices_per_thread = self.indices_per_thread(&groups, rank, statements)?;
        for group in &mut groups.all {
            let array = &self.memories[group.stride_family.memory.index()].name;
            group.name = self.naming.used.fresh(&format!("{array}_piece"));
        }
        self.analyses.vector_groups = groups;
        Some(())
    }

    fn vector_groups_of(&self, body: &BodyAccesses<'_>, last: u8) -> VectorGroups {
        let f = self.function;
        let mut longest = Longest::default();
        for access in &body.accesses {
            for (axis, &index) in access.place.indices.iter().enumerate() {
                if let Some(number) = affine(f, index).and_then(|index| index.as_constant()) {
                    let most = longest.entry((access.place.memory, axis)).or_default();
                    *most = (number as i64).max(*most);
                }
            }
        }
        let mut pieces = VectorGroups::default();
        for (memory, array) in f.memories.iter() {
            if !matches!(array.space, MemorySpace::Global { .. }) {
                continue;
            }
            let accesses: Vec<_> = body.accesses.iter().filter(|access| access.place.memory == memory).collect();
            let written = accesses.iter().any(|access| access.write);
            let mut own = VectorGroups::default();
            let mut all = true;
            for access in &accesses {
                all &= own.add(stride_family(f, access.place, last, &longest), access, written);
            }
            if accesses.iter().all(|access| !access.streams)
                && (!written || all && !body.may_end_early && own.is_fully_written(f))
            {
                let first = pieces.all.len();
                pieces.all.append(&mut own.all);
                pieces.by_place.extend(own.by_place.into_iter().map(|(key, (at, k))| (key, (first + at, k))));
            }
        }
        pieces
    }

    /// Returns the number of indices per thread, or `None` if vectorization is not worthwhile.
    fn indices_per_thread(&self, groups: &VectorGroups, rank: usize, statements: usize) -> Option<u32> {
        let layout = |group: &VectorGroup| &self.function.memories[group.stride_family.memory].layout;
        let pays = |group: &VectorGroup| {
            let small = layout(group).leaves.iter().any(|leaf| leaf.ty.scalar().size() < 4);
            small || rank == 3 && group.elements_before + group.elements_after > 0
        };
        let bytes = |group: &VectorGroup| layout(group).size * group.stride_family.stride() as usize;
        if !groups.all.iter().any(pays) {
            return None;
        }
        let ideal_count = |group: &VectorGroup| {
            MAX_ACCESS_BYTES >> bytes(group).trailing_zeros().min(MAX_ACCESS_BYTES.trailing_zeros())
        };
        let mut each = groups.all.iter().map(ideal_count).max()?;
        let largest = groups.all.iter().map(bytes).max()?;
        while each > 1 && (each * largest > MAX_GROUP_BYTES || each * statements > MAX_STATEMENTS) {
            each /= 2;
        }
        (each > 1 || largest > MAX_ACCESS_BYTES).then_some(each as u32)
    }

    /// If an element belongs to a vector group, returns the expression for its value in the group's registers.
    pub(super) fn vectorized_element(&self, place: &Place, element: CudaExpr) -> CudaExpr {
        let Some(&(group, k)) = self.analyses.vector_groups.by_place.get(&(place.memory, place.indices.clone())) else {
            return element;
        };
        let group = &self.analyses.vector_groups.all[group];
        let at = CudaExpr::Atom(sum("turn", group.stride_family.stride(), k + group.elements_before));
        let group_element = CudaExpr::index(CudaExpr::atom(&group.name), vec![at]);
        // With parentheses, the conditional expression is an lvalue.
        CudaExpr::call("", [CudaExpr::choose(CudaExpr::atom("grouped"), group_element, element)])
    }

    /// Returns the parameters that the body's lambda has in addition to its indices.
    pub(super) fn vector_group_parameters(&self) -> String {
        if self.analyses.vector_groups.indices_per_thread == 0 {
            return String::new();
        }
        ", const int turn, const bool grouped".into()
    }

    /// Declares the register arrays of the vector groups.
    pub(super) fn declare_vector_groups(&self) -> Vec<Out> {
        let each = i64::from(self.analyses.vector_groups.indices_per_thread);
        let declare = |group: &VectorGroup| Out::Declare {
            ty: self.memories[group.stride_family.memory.index()].element.ty.clone(),
            name: group.name.clone(),
            suffix: format!("[{}]", group.elements_before + each * group.stride_family.stride() + group.elements_after),
            value: None,
        };
        self.analyses.vector_groups.all.iter().map(declare).collect()
    }

    /// Emits the loop over a thread's indices. The other indices of the index space have already been declared.
    pub(super) fn vectorized_index_space(&mut self, rank: usize, block: u32) -> Vec<Out> {
        self.preamble.helpers.need("pieces");
        let pieces = std::mem::take(&mut self.analyses.vector_groups);
        let each = pieces.indices_per_thread;
        let (last, extent) = self.naming.indices[rank - 1].clone();
        let (mut aligned, mut inside) = (vec![], vec![format!("first <= {extent} - {each}")]);
        let (mut before, mut behind) = (vec![], vec![]);
        for group in &pieces.all {
            let text = self.vector_group_text(group, each);
            aligned.extend(text.aligned);
            inside.push(text.inside_test);
            before.extend(text.read);
            behind.extend(text.write);
        }
        self.analyses.vector_groups = pieces;
        for list in [&mut aligned, &mut inside] {
            let mut unique = vec![];
            list.retain(|term| {
                !unique.contains(term) && {
                    unique.push(term.clone());
                    true
                }
            });
        }
        let int = |ty: &str, name: &str, value: String| Out::Declare {
            ty: ty.into(),
            name: name.into(),
            suffix: String::new(),
            value: Some(CudaExpr::Atom(value)),
        };
        let call = |index: &str, turn: &str, grouped: &str| {
            let indices = self.naming.indices.iter().map(|(own, _)| if *own == last { index } else { own.as_str() });
            Out::Do(CudaExpr::call("at", indices.chain([turn, grouped]).map(CudaExpr::atom)))
        };
        let unrolled_loop = |unroll: &str, body: Vec<Out>| Out::For {
            unroll: Some(unroll.into()),
            start: Box::new(int("int", "turn", "0".into())),
            test: CudaExpr::binary("<", CudaExpr::atom("turn"), CudaExpr::int(each.into())),
            step: CudaExpr::unary("++", CudaExpr::atom("turn")),
            body,
        };
        let mut statements = before;
        statements.push(unrolled_loop("#pragma unroll", vec![call("first + turn", "turn", "true")]));
        statements.extend(behind);
        let single = unrolled_loop(
            "#pragma unroll 1",
            vec![
                int("const int", &last, "first + step * turn".into()),
                Out::If(CudaExpr::atom(format!("{last} < {extent}")), vec![call(&last, "0", "false")], vec![]),
            ],
        );
        vec![
            int("const bool", "aligned", aligned.join(" && ")),
            int("const int", "step", format!("aligned ? 1 : {block}")),
            int(
                "const int",
                "first",
                format!(
                    "aligned ? (blockIdx.x * {block} + threadIdx.x) * {each} : blockIdx.x * {} + threadIdx.x",
                    block * each
                ),
            ),
            Out::If(CudaExpr::atom(format!("aligned && {}", inside.join(" && "))), statements, vec![single]),
        ]
    }

    fn vector_group_text(&mut self, group: &VectorGroup, each: u32) -> VectorGroupText {
        let StrideFamily { memory, outer, axis_step: steps, trailing } = &group.stride_family;
        let (axis, stride, within) =
            (outer.len(), group.stride_family.stride(), group.stride_family.trailing_elements());
        let layout_size = self.function.memories[*memory].layout.size;
        let bytes = layout_size * stride as usize * each as usize;
        let width = 1usize << bytes.trailing_zeros().min(MAX_ACCESS_BYTES.trailing_zeros());
        let name = self.memories[memory.index()].name.clone();
        let element = self.memories[memory.index()].element.ty.clone();
        let mut extents = vec![];
        for at in 0..=axis {
            extents.push(super::print::expr(&self.extent(*memory, at)));
        }
        let row = if within == 1 { extents[axis].clone() } else { format!("{} * {within}", extents[axis]) };
        let mut aligned = vec![format!("(unsigned long long)({name}) % {width} == 0")];
        if axis > 0 {
            aligned.push(format!("unsigned({row}) * {layout_size} % {width} == 0"));
        }
        for (k, wanted) in trailing.iter().enumerate() {
            if !matches!(self.function.memories[*memory].extents[axis + 1 + k], Extent::Known(_)) {
                let extent = super::print::expr(&self.extent(*memory, axis + 1 + k));
                aligned.push(format!("{extent} == {wanted}"));
            }
        }
        let steps = if *steps == 1 { String::new() } else { format!(" / {steps}") };
        let inside = format!("first <= {}{steps} - {each}", extents[axis]);
        let (mut rows, mut bounds_tests) = (String::new(), vec![]);
        for (at, outer) in outer.iter().enumerate() {
            let index = match outer.terms() {
                &[(k, _)] => sum(&self.naming.indices[k as usize].0, 1, outer.constant() as i64),
                _ => outer.constant().to_string(),
            };
            bounds_tests.push(format!("unsigned({index}) < unsigned({})", extents[at]));
            rows = if at == 0 { index } else { format!("(({rows}) * {} + {index})", extents[at]) };
        }
        let start = match axis {
            0 => sum("first", stride, 0),
            _ => format!("({rows}) * ({row}) + {}", sum("first", stride, 0)),
        };
        let position = sum("first", stride, 0);
        let count = bytes / width;
        let (mut read, mut write) = (vec![], vec![]);
        if group.read {
            let from = format!("take<{width}, {count}>(&{}[{}], &{name}[{start}])", group.name, group.elements_before);
            read.push(Out::Do(CudaExpr::Atom(from)));
            for k in 1..=group.elements_before {
                let element_before = format!("{position} >= {k} ? {name}[{start} - {k}] : {element}{{}}");
                read.push(Out::Assign(
                    CudaExpr::atom(format!("{}[{}]", group.name, group.elements_before - k)),
                    CudaExpr::Atom(element_before),
                ));
            }
            for k in 0..group.elements_after {
                let past = i64::from(each) * stride + k;
                let element_after = format!("{position} < {row} - {past} ? {name}[{start} + {past}] : {element}{{}}");
                read.push(Out::Assign(
                    CudaExpr::atom(format!("{}[{}]", group.name, group.elements_before + past)),
                    CudaExpr::Atom(element_after),
                ));
            }
            if !group.is_in_bounds && !bounds_tests.is_empty() {
                read = vec![Out::If(CudaExpr::Atom(bounds_tests.join(" && ")), read, vec![])];
            }
        }
        if group.written {
            write.push(Out::Do(CudaExpr::Atom(format!("put<{width}, {count}>(&{name}[{start}], {})", group.name))));
        }
        VectorGroupText { aligned, inside_test: inside, read, write }
    }

    /// Returns the note for the user about vectorized accesses.
    pub(super) fn vectorization_note(&self) -> String {
        let mut names: Vec<&str> = vec![];
        for group in &self.analyses.vector_groups.all {
            let name = &self.memories[group.stride_family.memory.index()].name;
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        format!(
            "a thread takes {} adjacent indices, with wide accesses to {}",
            self.analyses.vector_groups.indices_per_thread,
            names.join(", ")
        )
    }
}

/// Returns the simplified C++ text of `name * by + plus`.
fn sum(name: &str, by: i64, plus: i64) -> String {
    let product = if by == 1 { name.to_string() } else { format!("{name} * {by}") };
    match plus {
        0 => product,
        1.. => format!("{product} + {plus}"),
        _ => format!("{product} - {}", -plus),
    }
}

/// The C++ code for one vector group.
struct VectorGroupText {
    aligned: Vec<String>,
    inside_test: String,
    read: Vec<Out>,
    write: Vec<Out>,
}
