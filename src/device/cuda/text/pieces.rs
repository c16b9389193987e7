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
//! - Pieces pay for elements of 1 and 2 bytes and for stencils of three axes. Arrays of `f32x3` are slower with them: 48 bytes a thread, in
//!   three accesses, take 1.18 times as long on an H200.

use super::generator::Gen;
use super::piece::{Access, Family, Longest, Outer, Piece, Pieces, affine, family};
use super::tree::{Expr, Stmt as Out};
use crate::ir::def::*;
use crate::ir::ranges::Site;

/// The largest access in bytes, and the largest piece.
const WIDEST: usize = 16;
const LARGEST: usize = 48;
/// The most statements for all indices of a thread.
const STATEMENTS: usize = 640;

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
            let small = layout(piece).leaves.iter().any(|leaf| leaf.ty.scalar().size() < 4);
            small || rank == 3 && piece.before + piece.behind > 0
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
    pub(super) fn groups(&mut self, rank: usize, block: u32) -> Vec<Out> {
        self.helpers.need("pieces");
        let pieces = std::mem::take(&mut self.pieces);
        let each = pieces.each;
        let (last, extent) = self.indices[rank - 1].clone();
        let (mut aligned, mut inside) = (vec![], vec![format!("first <= {extent} - {each}")]);
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
        let inside = format!("first <= {}{steps} - {each}", extents[axis]);
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
                let there = format!("{along} < {row} - {past} ? {name}[{start} + {past}] : {element}{{}}");
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
