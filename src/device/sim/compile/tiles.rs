//! Recognizes loops over tiles that can be one op.

use super::*;
use crate::device::sim::copy::MOST_AXES;
use crate::device::sim::product::Held;
use crate::device::sim::tiles::{CopyDef, Fill, Multiply, ProductDef, TakenDef};

impl<'a> Compiler<'a> {
    /// Returns whether there is an op for a loop: it is no part of a region then.
    pub(crate) fn is_of_tiles(&self, stmt: &Stmt) -> bool {
        self.product_of(stmt).is_some() || self.copy_of(stmt).is_some()
    }

    /// Emits, in front of such a loop, the op that does all of it; returns the position of its jump past the loop, to be patched.
    pub(super) fn at_once(&mut self, stmt: &Stmt) -> Option<usize> {
        // Elsewhere not all threads of the block have to be here.
        if self.mask != 0 || self.part != Section::Body {
            return None;
        }
        if let Some(product) = self.product_of(stmt) {
            let y = self.products.len() as u32;
            self.products.push(product);
            self.target();
            return Some(self.emit_jump(plain::<Multiply>(), Op { y, ..nothing() }));
        }
        let copy = self.copy_of(stmt)?;
        let mut place = |e: ExprId| Some(self.regs_of(e)[0]).filter(|&reg| self.is_uniform_reg(reg));
        let mut along = vec![];
        for taken in &copy.along {
            along.push(match *taken {
                Taken::At(index) => TakenDef::At(place(index)?),
                Taken::From { start, extent, step, end } => {
                    let end = end.map_or(Some(NONE), &mut place)?;
                    TakenDef::From { start: place(start)?, count: extent as usize, step: step.into(), end }
                }
            });
        }
        let (to, number) = (&self.f.memories[copy.to], |memory: MemId| memory.index() as u32);
        let extents = |memory: &Memory| match memory.extents[..] {
            [Extent::Known(rows), Extent::Known(columns)] => Some([rows as usize, columns as usize]),
            _ => None,
        };
        let transposed = if copy.transposed { Some(extents(to)?) } else { None };
        let (to, from, size) = (number(copy.to), number(copy.from), to.layout.size);
        let y = self.copies.len() as u32;
        self.copies.push(CopyDef { to, from, along, size, transposed, rounded: copy.rounded });
        self.target();
        Some(self.emit_jump(plain::<Fill>(), Op { y, ..nothing() }))
    }

    fn copy_of<'s>(&self, stmt: &'s Stmt) -> Option<&'s Copied> {
        let StmtKind::For { together: Some(Together::Copy(copy)), .. } = &stmt.kind else { return None };
        let (to, from) = (&self.f.memories[copy.to], &self.f.memories[copy.from]);
        let shared = to.space == Space::Shared && !matches!(from.space, Space::Local | Space::Param { .. });
        let fits = shared && copy.to != copy.from && copy.along.len() <= MOST_AXES && copy.fits(self.f);
        // On the baseline, all is as the threads do it.
        (fits && self.does_at_once(&[copy.to, copy.from])).then_some(copy)
    }

    /// Returns whether ops may stand for loops over these memories: nobody looks at what single threads do with them. Their indices do not
    /// overflow, or the op does nothing.
    fn does_at_once(&self, memories: &[MemId]) -> bool {
        let watched = |id: &MemId| self.watched.get(id.index()).is_none_or(Option::is_some);
        let seen = self.checks.nan || self.checks.memory && memories.iter().any(watched);
        self.isa != Isa::Base && !seen && !self.waits && self.counted.is_none()
    }

    fn product_of(&self, stmt: &Stmt) -> Option<ProductDef> {
        let StmtKind::For { together: Some(Together::Product(factors)), .. } = &stmt.kind else { return None };
        let [rows, columns, inner] = factors.extents(self.f)?.map(|n| n as usize);
        let [sum, left, right] = [factors.sum, factors.left, factors.right].map(|id| &self.f.memories[id]);
        let plain = |memory: &Memory| match memory.layout.leaves.as_slice() {
            [Leaf { ty: Ty::Scalar(scalar), .. }] if memory.space == Space::Shared => Some(*scalar),
            _ => None,
        };
        let scalar = plain(left)?;
        let held = Held { rows, columns, inner, scalar, sums: factors.sums };
        let fits = plain(sum)? == Scalar::F32 && plain(right)? == scalar;
        let apart = factors.sum != factors.left && factors.sum != factors.right;
        let number = |memory: MemId| memory.index() as u32;
        let found = ProductDef {
            sum: number(factors.sum),
            left: number(factors.left),
            right: number(factors.right),
            held,
            isa: self.isa,
        };
        let at_once = self.does_at_once(&[factors.sum, factors.left, factors.right]);
        (fits && apart && at_once && held.is_covered(self.isa)).then_some(found)
    }
}
