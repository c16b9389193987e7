//! Operands: from where a copy of a value is read, and where a result goes.

use super::super::alloc::Loc;
use super::*;

impl Emit<'_> {
    pub(super) fn loc(&self, value: Value, copy: usize) -> Loc {
        self.allocation.of(value, copy, self.copies(value))
    }

    pub(super) fn slot(offset: i32) -> Mem {
        Mem::at(FRAME, offset)
    }

    pub(super) fn size(&self, value: Value) -> Size {
        if matches!(self.ty(value), Ty::I64 | Ty::V64) { Size::S64 } else { Size::S32 }
    }

    /// Returns a scalar in a register: its own, or this one.
    pub(super) fn gpr(&mut self, value: Value, copy: usize, scratch: Gpr) -> Gpr {
        match self.loc(value, copy) {
            Loc::Gpr(n) => Gpr(n),
            _ => {
                self.load_gpr(value, copy, scratch);
                scratch
            }
        }
    }

    /// Copies a scalar to a register.
    pub(super) fn load_gpr(&mut self, value: Value, copy: usize, to: Gpr) {
        let size = self.size(value);
        match self.loc(value, copy) {
            Loc::Gpr(n) if n == to.0 => {}
            Loc::Gpr(n) => self.asm.mov(size, to, Gpr(n)),
            Loc::Slot(offset) | Loc::Input(offset) => self.asm.mov(size, to, Self::slot(offset)),
            Loc::Imm(bits) if size == Size::S32 => self.asm.mov_imm64(to, u64::from(bits as u32)),
            Loc::Imm(bits) => self.asm.mov_imm64(to, bits as u64),
            loc => unreachable!("a scalar in {loc:?}"),
        }
    }

    /// Returns a scalar as the last operand of an instruction.
    pub(super) fn rm(&mut self, value: Value, copy: usize, scratch: Gpr) -> Rm {
        match self.loc(value, copy) {
            Loc::Gpr(n) => Rm::Reg(Gpr(n)),
            Loc::Slot(offset) | Loc::Input(offset) => Rm::Mem(Self::slot(offset)),
            Loc::Imm(bits) if i32::try_from(bits).is_ok() => Rm::Imm(bits as i32),
            _ => {
                self.load_gpr(value, copy, scratch);
                Rm::Reg(scratch)
            }
        }
    }

    /// Returns a scalar that is a small constant.
    pub(super) fn imm(&self, value: Value) -> Option<i32> {
        match self.loc(value, 0) {
            Loc::Imm(bits) => i32::try_from(bits).ok(),
            _ => None,
        }
    }

    /// Returns the register for a scalar result: its own, or this one, from which [`Emit::put_gpr`] stores it.
    pub(super) fn gpr_for(&self, value: Value, copy: usize, scratch: Gpr) -> Gpr {
        match self.loc(value, copy) {
            Loc::Gpr(n) => Gpr(n),
            _ => scratch,
        }
    }

    /// Makes a register's content the value.
    pub(super) fn put_gpr(&mut self, value: Value, copy: usize, from: Gpr) {
        let size = self.size(value);
        match self.loc(value, copy) {
            Loc::Gpr(n) if n == from.0 => {}
            Loc::Gpr(n) => self.asm.mov(size, Gpr(n), from),
            // Slots of 32-bit values are read as such.
            Loc::Slot(offset) => self.asm.store(size, Self::slot(offset), from),
            // Nobody reads it, or everybody reads it from where it comes.
            _ => {}
        }
    }

    /// Returns a vector in a register: its own, or this one.
    pub(super) fn vector(&mut self, value: Value, copy: usize, scratch: Vreg) -> Vreg {
        match self.loc(value, copy) {
            Loc::Vector(n) => Vreg(n),
            _ => {
                self.load_vector(value, copy, scratch);
                scratch
            }
        }
    }

    /// Copies a vector to a register.
    pub(super) fn load_vector(&mut self, value: Value, copy: usize, to: Vreg) {
        let (ty, len) = (self.ty(value), self.len(self.ty(value)));
        match self.loc(value, copy) {
            Loc::Vector(n) if n == to.0 => {}
            Loc::Vector(n) => self.asm.v2(V2::Move, len, to, Vreg(n), Masking::None),
            Loc::Slot(offset) => self.asm.v2(V2::Move, len, to, Self::slot(offset), Masking::None),
            loc => self.load_constant(ty, loc, to),
        }
    }

    /// Broadcasts a constant or an input to the lanes of a register.
    pub(super) fn load_constant(&mut self, ty: Ty, from: Loc, to: Vreg) {
        let (len, wide) = (self.len(ty), ty == Ty::V64);
        let broadcast = if wide { V2::BroadcastQ } else { V2::BroadcastD };
        match from {
            Loc::Input(offset) => self.asm.v2(broadcast, len, to, Self::slot(offset), Masking::None),
            Loc::Splat(0) => self.asm.v3(V3::Xor, len, to, to, to, Masking::None),
            Loc::Splat(bits) => {
                let pool = self.element(wide, bits);
                self.asm.v2(broadcast, len, to, pool, Masking::None);
            }
            loc => unreachable!("a vector in {loc:?}"),
        }
    }

    /// Returns one element of the pool.
    pub(super) fn element(&mut self, wide: bool, bits: u64) -> Src {
        let bytes = bits.to_le_bytes();
        Src::Const(self.asm.constant(if wide { &bytes } else { &bytes[..4] }))
    }

    /// Returns one element of the pool for all lanes: with AVX2, it is there for each lane of a whole register.
    pub(super) fn all(&mut self, wide: bool, bits: u64) -> Src {
        let bytes = &bits.to_le_bytes()[..if wide { 8 } else { 4 }];
        if self.evex() {
            Src::ConstBroadcast(self.asm.constant(bytes))
        } else {
            Src::Const(self.asm.constant(&bytes.repeat(32 / bytes.len())))
        }
    }

    /// Returns a vector as the last operand of an instruction with elements of its size; the register may be used for it, and, for what
    /// [folds](super::super::fold) load, `rax` and `rcx`.
    pub(super) fn src(&mut self, value: Value, copy: usize, scratch: Vreg) -> Src {
        if let Some(load) = self.allocation.folds.load(value) {
            return self.loaded(&load, copy);
        }
        match self.loc(value, copy) {
            Loc::Vector(n) => Src::Reg(Vreg(n)),
            Loc::Slot(offset) => Src::Mem(Self::slot(offset)),
            Loc::Input(offset) if self.evex() => Src::Broadcast(Self::slot(offset)),
            Loc::Input(_) => Src::Reg(self.vector(value, copy, scratch)),
            Loc::Splat(bits) => self.all(self.ty(value) == Ty::V64, bits),
            loc => unreachable!("a vector in {loc:?}"),
        }
    }

    /// Returns an operand in a register: its own, or this one.
    pub(super) fn in_register(&mut self, len: Len, src: Src, scratch: Vreg) -> Vreg {
        let Src::Reg(register) = src else {
            self.asm.v2(V2::Move, len, scratch, src, Masking::None);
            return scratch;
        };
        register
    }

    pub(super) fn vector_for(&self, value: Value, copy: usize, scratch: Vreg) -> Vreg {
        match self.loc(value, copy) {
            Loc::Vector(n) => Vreg(n),
            _ => scratch,
        }
    }

    pub(super) fn put_vector(&mut self, value: Value, copy: usize, from: Vreg) {
        let len = self.len(self.ty(value));
        match self.loc(value, copy) {
            Loc::Vector(n) if n == from.0 => {}
            Loc::Vector(n) => self.asm.v2(V2::Move, len, Vreg(n), from, Masking::None),
            Loc::Slot(offset) => self.asm.vstore(false, len, Self::slot(offset), from, None),
            _ => {}
        }
    }

    /// Returns whether a value is kept anywhere.
    pub(super) fn is_kept(&self, value: Value) -> bool {
        matches!(self.loc(value, 0), Loc::Gpr(_) | Loc::Vector(_) | Loc::Mask(_) | Loc::Slot(_))
    }

    /// Returns the registers of all values that live across the present instruction or are read by it.
    pub(super) fn live(&self) -> Vec<Loc> {
        let mut live = vec![];
        for (index, &(start, end)) in self.allocation.spans.iter().enumerate() {
            if start < self.position && end >= self.position && start != u32::MAX {
                for loc in self.allocation.locs[index] {
                    if matches!(loc, Loc::Gpr(_) | Loc::Vector(_) | Loc::Mask(_)) && !live.contains(&loc) {
                        live.push(loc);
                    }
                }
            }
        }
        live
    }
}
