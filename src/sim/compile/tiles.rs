//! Recognizes loops over tiles that can be one op.

use super::*;
use crate::product::TileGemm;
use crate::tile_copy::MAX_COPIED_AXES;
use crate::tiles::{CopyDef, MultiplyTiles, ProductDef, TileFill, WindowDef};

impl<'a> KernelCompiler<'a> {
    /// Returns whether there is an op for a loop: it is no part of a region then.
    pub(crate) fn is_of_tiles(&self, stmt: &Stmt) -> bool {
        self.product_of(stmt).is_some() || self.copy_of(stmt).is_some()
    }

    /// Emits, in front of such a loop, the op that does all of it; returns the position of its jump past the loop, to
    /// be patched.
    pub(super) fn at_once(&mut self, stmt: &Stmt) -> Option<usize> {
        // Elsewhere not all threads of the block have to be here.
        if self.flow.mask != 0 || self.writer.section != CodeSection::Body {
            return None;
        }
        if let Some(product) = self.product_of(stmt) {
            let y = self.tables.products.len() as u32;
            self.tables.products.push(product);
            self.target();
            return Some(self.emit_jump(plain::<MultiplyTiles>(), Op { y, ..nothing() }));
        }
        let copy = self.copy_of(stmt)?;
        let mut place = |e: ExprId| Some(self.regs_of(e)[0]).filter(|&reg| self.is_uniform_reg(reg));
        let mut along = vec![];
        for taken in &copy.axes {
            along.push(match *taken {
                AxisWindow::Index(index) => WindowDef::At(place(index)?),
                AxisWindow::Range { start, extent, step, end } => {
                    let end = end.map_or(Some(NONE), &mut place)?;
                    WindowDef::Range { start: place(start)?, count: extent as usize, step: step.into(), end }
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
        let y = self.tables.copies.len() as u32;
        self.tables.copies.push(CopyDef { to, from, windows: along, size, transposed, rounds_to_tf32: copy.rounded });
        self.target();
        Some(self.emit_jump(plain::<TileFill>(), Op { y, ..nothing() }))
    }

    fn copy_of<'s>(&self, stmt: &'s Stmt) -> Option<&'s TileCopy> {
        let StmtKind::For { collective: Some(CollectiveLoop::Copy(copy)), .. } = &stmt.kind else { return None };
        let (to, from) = (&self.f.memories[copy.to], &self.f.memories[copy.from]);
        let shared =
            to.space == MemorySpace::Shared && !matches!(from.space, MemorySpace::Local | MemorySpace::Param { .. });
        let fits = shared && copy.to != copy.from && copy.axes.len() <= MAX_COPIED_AXES && copy.is_consistent(self.f);
        // On the baseline, all is as the threads do it.
        (fits && self.does_at_once(&[copy.to, copy.from])).then_some(copy)
    }

    /// Returns whether ops may stand for loops over these memories: nobody looks at what single threads do with them.
    /// Their indices do not overflow, or the op does nothing.
    fn does_at_once(&self, memories: &[MemId]) -> bool {
        let watched = |id: &MemId| self.tables.events.tracked.get(id.index()).is_none_or(Option::is_some);
        let seen = self.tables.events.checks.nan || self.tables.events.checks.memory && memories.iter().any(watched);
        self.isa != Isa::Base && !seen && !self.facts.waits && self.tables.events.counted_warps.is_none()
    }

    fn product_of(&self, stmt: &Stmt) -> Option<ProductDef> {
        let StmtKind::For { collective: Some(CollectiveLoop::Gemm(factors)), .. } = &stmt.kind else { return None };
        let [rows, columns, inner] = factors.extents(self.f)?.map(|n| n as usize);
        let [sum, left, right] = [factors.sum, factors.left, factors.right].map(|id| &self.f.memories[id]);
        let plain = |memory: &Memory| match memory.layout.leaves.as_slice() {
            [Leaf { ty: Ty::Scalar(scalar), .. }] if memory.space == MemorySpace::Shared => Some(*scalar),
            _ => None,
        };
        let scalar = plain(left)?;
        let held = TileGemm { rows, columns, inner, scalar, sums: factors.precision };
        let fits = plain(sum)? == Scalar::F32 && plain(right)? == scalar;
        let apart = factors.sum != factors.left && factors.sum != factors.right;
        let number = |memory: MemId| memory.index() as u32;
        let found = ProductDef {
            sum: number(factors.sum),
            left: number(factors.left),
            right: number(factors.right),
            gemm: held,
            isa: self.isa,
        };
        let at_once = self.does_at_once(&[factors.sum, factors.left, factors.right]);
        (fits && apart && at_once && held.is_covered(self.isa)).then_some(found)
    }
}
