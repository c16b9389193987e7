//! Pieces of arrays: a thread of an index space takes V adjacent indices of the last axis, and what these read and write of an array
//! at `stride * index + k` is a piece of `V * stride` adjacent elements, kept in registers. Pieces are read by wide accesses before the
//! first of the V indices, and written behind the last one. Input: the body, without loops; output: pieces, and the loop over them.
//!
//! - An array that nobody writes may be read in any pieces: they are aligned, and what neighbors of the V indices read of it is read by
//!   single accesses. Under a condition it is, if the condition depends on indices alone: reading too early is harmless then, and rarely vain.
//! - An array that is written is kept in one piece, if the body writes all of its elements whatever happens. So an index reads what it
//!   wrote; what other indices write it cannot read, since that would be a race.
//! - Guards are those of the usual text, with the same indices. A body that may end early writes as usual.
//! - Pieces need aligned pointers and rows, and trailing axes as long as the body suggests (`p[i, 0]` to `p[i, 2]`: 3): the kernel tests
//!   that, else its threads take indices one by one. So do threads at an edge.

use rustc_hash::{FxHashMap, FxHashSet};

use super::generator::Gen;
use super::kernel::Coarsening;
use super::tree::{Expr, Stmt as Out};
use crate::ir::def::*;
use crate::ir::ranges::Site;

/// The largest access in bytes, and the largest piece.
const WIDEST: usize = 16;
const LARGEST: usize = 48;
/// The most elements on each side of a piece that neighbors read.
const MARGIN: i64 = 4;
/// The most statements for all indices of a thread.
const STATEMENTS: usize = 640;

/// An index that all indices of a thread have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Outer {
    /// That index of the space, plus a constant.
    Index(u8, i64),
    Const(i64),
}

/// Elements `stride * index + k`, by the axis that the index is along.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Family {
    memory: MemId,
    outer: Vec<Outer>,
    /// Steps along the axis for one index.
    steps: i64,
    /// The extents of the axes behind it.
    trailing: Vec<i64>,
}

impl Family {
    fn within(&self) -> i64 {
        self.trailing.iter().product()
    }

    fn stride(&self) -> i64 {
        self.steps * self.within()
    }
}

struct Piece {
    family: Family,
    name: String,
    /// The elements in front of it and behind it that are read as well.
    before: i64,
    behind: i64,
    read: bool,
    written: bool,
    /// Its outer indices are in bounds wherever the body runs.
    sure: bool,
}

/// The pieces of a kernel.
#[derive(Default)]
pub(super) struct Pieces {
    /// Indices per thread.
    pub each: u32,
    all: Vec<Piece>,
    of: FxHashMap<(MemId, Vec<ExprId>), (usize, i64)>,
}

struct Access<'a> {
    place: &'a Place,
    write: bool,
    /// It happens whatever is in memory, and for all indices.
    plain: bool,
    always: bool,
    guarded: bool,
    streams: bool,
}

/// The accesses of a body.
#[derive(Default)]
struct Body<'a> {
    accesses: Vec<Access<'a>>,
    /// The body may end before its last statement.
    ends: bool,
    /// It does what pieces are not made for.
    other: bool,
    statements: u32,
}

impl<'a> Body<'a> {
    fn block(&mut self, g: &Gen<'a>, block: &'a [Stmt], plain: bool, always: bool) {
        for stmt in block {
            let site = Site::Stmt(self.statements);
            self.statements += 1;
            let mut add = |place, hint: Hint, write, site| {
                let guarded = g.options.checked && g.ranges.guards.contains_key(&site);
                self.ends |= guarded;
                self.accesses.push(Access { place, write, plain, always, guarded, streams: hint != Hint::None });
            };
            match &stmt.kind {
                StmtKind::Let(id) => {
                    if let ExprKind::Load { place, hint } = &g.function.exprs[*id].kind {
                        add(place, *hint, false, Site::Load(*id));
                    }
                }
                StmtKind::Store { place, hint, .. } => add(place, *hint, true, site),
                StmtKind::If { cond, then, other } => {
                    let plain = plain && by_index(g.function, *cond);
                    self.block(g, then, plain, false);
                    self.block(g, other, plain, false);
                }
                StmtKind::Block { body, .. } => self.block(g, body, plain, false),
                StmtKind::Assert { .. } | StmtKind::Return(_) => self.ends = true,
                StmtKind::Write { .. } | StmtKind::Break(_) | StmtKind::Declare(_) => {}
                _ => self.other = true,
            }
        }
    }
}

/// Returns whether a value depends on indices, extents and parameters alone.
fn by_index(f: &Function, id: ExprId) -> bool {
    match &f.exprs[id].kind {
        ExprKind::Read(_) | ExprKind::Load { .. } | ExprKind::Result => false,
        kind => {
            let mut all = true;
            kind.operands(|operand| all &= by_index(f, operand));
            all
        }
    }
}

/// Returns an `i32` as a multiple of one index plus a constant.
fn affine(f: &Function, id: ExprId) -> Option<(Option<u8>, i64, i64)> {
    let expr = &f.exprs[id];
    if expr.ty != Ty::Scalar(Scalar::I32) {
        return None;
    }
    // Numbers are small: sums of a few of them are exact.
    let small = |(index, by, plus): (Option<u8>, i64, i64)| {
        (by.abs() <= 64 && plus.abs() <= 1 << 16).then_some((index.filter(|_| by != 0), by, plus))
    };
    match &expr.kind {
        ExprKind::Const(bits) => small((None, 0, i64::from(*bits as u32 as i32))),
        ExprKind::Index(k) => Some((Some(*k), 1, 0)),
        ExprKind::Binary { op, left, right } => {
            let ((i, a, c), (j, b, d)) = (affine(f, *left)?, affine(f, *right)?);
            let index = match (i, j) {
                (Some(i), Some(j)) if i != j => return None,
                _ => i.or(j),
            };
            match op {
                BinOp::Add => small((index, a + b, c + d)),
                BinOp::Sub => small((index, a - b, c - d)),
                BinOp::Mul if j.is_none() => small((index, a * d, c * d)),
                BinOp::Mul if i.is_none() => small((index, b * c, c * d)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The largest constant index along each axis of each array.
type Longest = FxHashMap<(MemId, usize), i64>;

/// Returns the family of an element, and which one it is there.
fn family(f: &Function, place: &Place, last: u8, longest: &Longest) -> Option<(Family, i64)> {
    let indices: Vec<_> = place.indices.iter().map(|&id| affine(f, id)).collect::<Option<_>>()?;
    let axis = indices.iter().position(|(index, ..)| *index == Some(last))?;
    let (_, steps, plus) = indices[axis];
    let mut outer = vec![];
    for &(index, by, plus) in &indices[..axis] {
        outer.push(match (index, by) {
            (None, _) => Outer::Const(plus),
            (Some(index), 1) => Outer::Index(index, plus),
            _ => return None,
        });
    }
    let (mut trailing, mut k) = (vec![], plus);
    for (at, &(index, _, number)) in indices.iter().enumerate().skip(axis + 1) {
        let extent = match f.memories[place.memory].extents[at] {
            Extent::Known(n) => i64::from(n),
            _ => longest.get(&(place.memory, at))? + 1,
        };
        if index.is_some() || !(0..extent).contains(&number) || extent > 16 {
            return None;
        }
        trailing.push(extent);
        k = k * extent + number;
    }
    let found = Family { memory: place.memory, outer, steps, trailing };
    (steps > 0 && found.stride() <= 64).then_some((found, k))
}

impl Gen<'_> {
    /// Finds the pieces of a body with so many statements; there are none where single accesses are as good.
    pub(super) fn find_pieces(&mut self, rank: usize, statements: usize) -> Option<()> {
        let mut body = Body::default();
        body.block(self, &self.function.body, true, true);
        body.ends |= self.options.checked && !self.ranges.zero_divisors.is_empty();
        let mut found = (!body.other).then(|| self.pieces_of(&body, rank as u8 - 1))?;
        found.each = self.indices_per_thread(&found, rank, statements)?;
        for piece in &mut found.all {
            let array = &self.memories[piece.family.memory.index()].name;
            piece.name = self.names.fresh(&format!("{array}_piece"));
        }
        self.pieces = found;
        Some(())
    }

    fn pieces_of(&self, body: &Body<'_>, last: u8) -> Pieces {
        let f = self.function;
        let mut longest = Longest::default();
        for access in &body.accesses {
            for (axis, &index) in access.place.indices.iter().enumerate() {
                if let Some((None, _, number)) = affine(f, index) {
                    let most = longest.entry((access.place.memory, axis)).or_default();
                    *most = number.max(*most);
                }
            }
        }
        let mut pieces = Pieces::default();
        for (memory, array) in f.memories.iter() {
            if !matches!(array.space, Space::Global { .. }) {
                continue;
            }
            let accesses: Vec<_> = body.accesses.iter().filter(|access| access.place.memory == memory).collect();
            let written = accesses.iter().any(|access| access.write);
            let mut own = Pieces::default();
            let mut all = true;
            for access in &accesses {
                all &= own.add(family(f, access.place, last, &longest), access, written);
            }
            if accesses.iter().all(|access| !access.streams) && (!written || all && !body.ends && own.are_whole(f)) {
                let first = pieces.all.len();
                pieces.all.append(&mut own.all);
                pieces.of.extend(own.of.into_iter().map(|(key, (at, k))| (key, (first + at, k))));
            }
        }
        pieces
    }

    /// Returns how many indices a thread takes; `None` if pieces do not pay.
    fn indices_per_thread(&self, pieces: &Pieces, rank: usize, statements: usize) -> Option<u32> {
        let layout = |piece: &Piece| &self.function.memories[piece.family.memory].layout;
        let pays = |piece: &Piece| {
            let (layout, one) = (layout(piece), piece.family.stride() == 1);
            let usual = one && layout.leaves.len() == 1 && [4, 8, 16].contains(&layout.size);
            !usual || rank == 3 && piece.before + piece.behind > 0
        };
        let bytes = |piece: &Piece| layout(piece).size * piece.family.stride() as usize;
        if !pieces.all.iter().any(pays) {
            return None;
        }
        let wanted = |piece: &Piece| WIDEST >> bytes(piece).trailing_zeros().min(WIDEST.trailing_zeros());
        let mut each = pieces.all.iter().map(wanted).max()?;
        let largest = pieces.all.iter().map(bytes).max()?;
        while each > 1 && (each * largest > LARGEST || each * statements > STATEMENTS) {
            each /= 2;
        }
        (each > 1 || largest > WIDEST).then_some(each as u32)
    }

    /// Returns an element as it is in its piece, if it is in one.
    pub(super) fn in_piece(&self, place: &Place, element: Expr) -> Expr {
        let Some(&(piece, k)) = self.pieces.of.get(&(place.memory, place.indices.clone())) else { return element };
        let piece = &self.pieces.all[piece];
        let at = Expr::Atom(sum("turn", piece.family.stride(), k + piece.before));
        let kept = Expr::index(Expr::atom(&piece.name), vec![at]);
        // In parentheses it is an lvalue.
        Expr::call("", [Expr::choose(Expr::atom("grouped"), kept, element)])
    }

    /// Returns the parameters of the body behind its indices.
    pub(super) fn piece_parameters(&self) -> String {
        if self.pieces.each == 0 {
            return String::new();
        }
        ", const int turn, const bool grouped".into()
    }

    /// Declares the pieces.
    pub(super) fn declare_pieces(&self) -> Vec<Out> {
        let each = i64::from(self.pieces.each);
        let declare = |piece: &Piece| Out::Declare {
            ty: self.memories[piece.family.memory.index()].element.ty.clone(),
            name: piece.name.clone(),
            suffix: format!("[{}]", piece.before + each * piece.family.stride() + piece.behind),
            value: None,
        };
        self.pieces.all.iter().map(declare).collect()
    }

    /// Emits the indices of a thread, whose other indices have names.
    pub(super) fn groups(&mut self, coarsening: Coarsening) -> Vec<Out> {
        self.helpers.need("pieces");
        let pieces = std::mem::take(&mut self.pieces);
        let (each, block) = (pieces.each, coarsening.block[0]);
        let (last, extent) = self.indices[coarsening.rank - 1].clone();
        let (mut aligned, mut inside) = (vec![], vec![format!("first + {each} <= {extent}")]);
        let (mut before, mut behind) = (vec![], vec![]);
        for piece in &pieces.all {
            let text = self.piece_texts(piece, each);
            aligned.extend(text.aligned);
            inside.push(text.inside);
            before.extend(text.read);
            behind.extend(text.write);
        }
        self.pieces = pieces;
        for list in [&mut aligned, &mut inside] {
            let mut seen = vec![];
            list.retain(|term| {
                !seen.contains(term) && {
                    seen.push(term.clone());
                    true
                }
            });
        }
        let int = |ty: &str, name: &str, value: String| Out::Declare {
            ty: ty.into(),
            name: name.into(),
            suffix: String::new(),
            value: Some(Expr::Atom(value)),
        };
        let call = |index: &str, turn: &str, grouped: &str| {
            let indices = self.indices.iter().map(|(own, _)| if *own == last { index } else { own.as_str() });
            Out::Do(Expr::call("at", indices.chain([turn, grouped]).map(Expr::atom)))
        };
        let turns = |unroll: &str, body: Vec<Out>| Out::For {
            unroll: Some(unroll.into()),
            start: Box::new(int("int", "turn", "0".into())),
            test: Expr::binary("<", Expr::atom("turn"), Expr::int(each.into())),
            step: Expr::unary("++", Expr::atom("turn")),
            body,
        };
        let mut group = before;
        group.push(turns("#pragma unroll", vec![call("first + turn", "turn", "true")]));
        group.extend(behind);
        let single = turns(
            "#pragma unroll 1",
            vec![
                int("const int", &last, "first + step * turn".into()),
                Out::If(Expr::atom(format!("{last} < {extent}")), vec![call(&last, "0", "false")], vec![]),
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
            Out::If(Expr::atom(format!("aligned && {}", inside.join(" && "))), group, vec![single]),
        ]
    }

    fn piece_texts(&mut self, piece: &Piece, each: u32) -> Texts {
        let Family { memory, outer, steps, trailing } = &piece.family;
        let (axis, stride, within) = (outer.len(), piece.family.stride(), piece.family.within());
        let layout_size = self.function.memories[*memory].layout.size;
        let bytes = layout_size * stride as usize * each as usize;
        let width = 1usize << bytes.trailing_zeros().min(WIDEST.trailing_zeros());
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
        let inside = format!("first + {each} <= {}{steps}", extents[axis]);
        let (mut rows, mut there) = (String::new(), vec![]);
        for (at, outer) in outer.iter().enumerate() {
            let index = match *outer {
                Outer::Const(n) => n.to_string(),
                Outer::Index(k, n) => sum(&self.indices[k as usize].0, 1, n),
            };
            there.push(format!("unsigned({index}) < unsigned({})", extents[at]));
            rows = if at == 0 { index } else { format!("(({rows}) * {} + {index})", extents[at]) };
        }
        let start = match axis {
            0 => sum("first", stride, 0),
            _ => format!("({rows}) * ({row}) + {}", sum("first", stride, 0)),
        };
        let along = sum("first", stride, 0);
        let count = bytes / width;
        let (mut read, mut write) = (vec![], vec![]);
        if piece.read {
            let from = format!("take<{width}, {count}>(&{}[{}], &{name}[{start}])", piece.name, piece.before);
            read.push(Out::Do(Expr::Atom(from)));
            for k in 1..=piece.before {
                let there = format!("{along} >= {k} ? {name}[{start} - {k}] : {element}{{}}");
                read.push(Out::Assign(Expr::atom(format!("{}[{}]", piece.name, piece.before - k)), Expr::Atom(there)));
            }
            for k in 0..piece.behind {
                let past = i64::from(each) * stride + k;
                let there = format!("{along} + {past} < {row} ? {name}[{start} + {past}] : {element}{{}}");
                read.push(Out::Assign(
                    Expr::atom(format!("{}[{}]", piece.name, piece.before + past)),
                    Expr::Atom(there),
                ));
            }
            if !piece.sure && !there.is_empty() {
                read = vec![Out::If(Expr::Atom(there.join(" && ")), read, vec![])];
            }
        }
        if piece.written {
            write.push(Out::Do(Expr::Atom(format!("put<{width}, {count}>(&{name}[{start}], {})", piece.name))));
        }
        Texts { aligned, inside, read, write }
    }

    /// Returns what is said about the pieces.
    pub(super) fn note_of_pieces(&self) -> String {
        let mut names: Vec<&str> = vec![];
        for piece in &self.pieces.all {
            let name = &self.memories[piece.family.memory.index()].name;
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        format!("a thread takes {} adjacent indices, with wide accesses to {}", self.pieces.each, names.join(", "))
    }
}

/// Returns the text of `name * by + plus`.
fn sum(name: &str, by: i64, plus: i64) -> String {
    let product = if by == 1 { name.to_string() } else { format!("{name} * {by}") };
    match plus {
        0 => product,
        1.. => format!("{product} + {plus}"),
        _ => format!("{product} - {}", -plus),
    }
}

/// What a piece contributes to the text.
struct Texts {
    aligned: Vec<String>,
    inside: String,
    read: Vec<Out>,
    write: Vec<Out>,
}

impl Pieces {
    /// Adds an access to its piece. Returns whether it has one.
    fn add(&mut self, found: Option<(Family, i64)>, access: &Access<'_>, written: bool) -> bool {
        let Some((family, k)) = found else { return false };
        let stride = family.stride();
        let (before, behind) = ((-k).max(0), (k - stride + 1).max(0));
        let margin = if written { 0 } else { MARGIN };
        if before > margin || behind > margin || !access.plain && !access.write {
            return false;
        }
        let sure = access.always && !access.guarded && family.outer.iter().all(|o| matches!(o, Outer::Index(_, 0)));
        let at = self.all.iter().position(|piece| piece.family == family).unwrap_or_else(|| {
            let name = String::new();
            self.all.push(Piece { family, name, before: 0, behind: 0, read: false, written, sure: false });
            self.all.len() - 1
        });
        let piece = &mut self.all[at];
        piece.before = piece.before.max(before);
        piece.behind = piece.behind.max(behind);
        piece.read |= !access.write;
        piece.sure |= sure;
        self.of.insert((access.place.memory, access.place.indices.clone()), (at, k));
        true
    }

    /// Returns whether an array that is written has one piece, all of which is written whatever happens.
    fn are_whole(&mut self, f: &Function) -> bool {
        let [piece] = &self.all[..] else { return false };
        let (memory, stride) = (piece.family.memory, piece.family.stride());
        let leaves = f.memories[memory].layout.leaves.len() as u32;
        let written = self.written(memory, &f.body);
        let whole = (0..stride).all(|k| (0..leaves).all(|leaf| written.contains(&(k, leaf))));
        // No access to it is guarded, and all of it is accessed: it is in bounds.
        self.all[0].sure = whole;
        whole
    }

    /// Returns the elements, and their leaves, that a block writes whatever happens.
    fn written(&self, memory: MemId, block: &[Stmt]) -> FxHashSet<(i64, u32)> {
        let mut found = FxHashSet::default();
        for stmt in block {
            match &stmt.kind {
                StmtKind::Store { place, .. } if place.memory == memory && place.component.is_none() => {
                    let known = self.of.get(&(memory, place.indices.clone()));
                    found.extend(known.map(|&(_, k)| (k, place.leaf)));
                }
                StmtKind::If { then, other, .. } => {
                    let other = self.written(memory, other);
                    found.extend(self.written(memory, then).into_iter().filter(|element| other.contains(element)));
                }
                _ => {}
            }
        }
        found
    }
}
