//! Emits reads of operands from the locations of values, and writes of results to them. A value has one copy for all
//! vectors of a batch, or one for each vector.

use super::super::register_allocation::ValueLocation;
use super::*;

impl RegionEmitter<'_> {
    pub(super) fn loc(&self, value: LaneValue, copy: usize) -> ValueLocation {
        self.allocation.of(value, copy, self.copies(value))
    }

    pub(super) fn slot(offset: i32) -> Mem {
        Mem::at(FRAME, offset)
    }

    pub(super) fn size(&self, value: LaneValue) -> OperandSize {
        if matches!(self.ty(value), LaneTy::I64 | LaneTy::V64) { OperandSize::S64 } else { OperandSize::S32 }
    }

    /// Returns the register of a scalar. Loads the scalar into the scratch register if it has no register.
    pub(super) fn gpr(&mut self, value: LaneValue, copy: usize, scratch: Gpr) -> Gpr {
        match self.loc(value, copy) {
            ValueLocation::Gpr(n) => Gpr(n),
            _ => {
                self.load_gpr(value, copy, scratch);
                scratch
            }
        }
    }

    /// Copies a scalar to a register.
    pub(super) fn load_gpr(&mut self, value: LaneValue, copy: usize, to: Gpr) {
        let size = self.size(value);
        match self.loc(value, copy) {
            ValueLocation::Gpr(n) if n == to.0 => {}
            ValueLocation::Gpr(n) => self.asm.mov(size, to, Gpr(n)),
            ValueLocation::Slot(offset) | ValueLocation::Input(offset) => self.asm.mov(size, to, Self::slot(offset)),
            ValueLocation::Imm(bits) if size == OperandSize::S32 => self.asm.mov_imm64(to, u64::from(bits as u32)),
            ValueLocation::Imm(bits) => self.asm.mov_imm64(to, bits as u64),
            loc => unreachable!("a scalar in {loc:?}"),
        }
    }

    /// Returns a scalar as the last operand of an instruction: a register, a memory operand or an immediate.
    pub(super) fn rm(&mut self, value: LaneValue, copy: usize, scratch: Gpr) -> Rm {
        match self.loc(value, copy) {
            ValueLocation::Gpr(n) => Rm::Reg(Gpr(n)),
            ValueLocation::Slot(offset) | ValueLocation::Input(offset) => Rm::Mem(Self::slot(offset)),
            ValueLocation::Imm(bits) if i32::try_from(bits).is_ok() => Rm::Imm(bits as i32),
            _ => {
                self.load_gpr(value, copy, scratch);
                Rm::Reg(scratch)
            }
        }
    }

    /// Returns the value of a scalar that is a 32-bit constant.
    pub(super) fn imm(&self, value: LaneValue) -> Option<i32> {
        match self.loc(value, 0) {
            ValueLocation::Imm(bits) => i32::try_from(bits).ok(),
            _ => None,
        }
    }

    /// Returns the register for a scalar result: its own, or the scratch register, from which
    /// [`RegionEmitter::put_gpr`] stores it.
    pub(super) fn gpr_for(&self, value: LaneValue, copy: usize, scratch: Gpr) -> Gpr {
        match self.loc(value, copy) {
            ValueLocation::Gpr(n) => Gpr(n),
            _ => scratch,
        }
    }

    /// Stores a register to the location of a value.
    pub(super) fn put_gpr(&mut self, value: LaneValue, copy: usize, from: Gpr) {
        let size = self.size(value);
        match self.loc(value, copy) {
            ValueLocation::Gpr(n) if n == from.0 => {}
            ValueLocation::Gpr(n) => self.asm.mov(size, Gpr(n), from),
            // Store only 32 bits of a 32-bit value: its slot is never read as 64 bits.
            ValueLocation::Slot(offset) => self.asm.store(size, Self::slot(offset), from),
            // Nothing to store: the value is unused, or each use rematerializes it.
            _ => {}
        }
    }

    /// Returns the register of a vector. Loads the vector into the scratch register if it has no register.
    pub(super) fn vector(&mut self, value: LaneValue, copy: usize, scratch: Vreg) -> Vreg {
        match self.loc(value, copy) {
            ValueLocation::Vector(n) => Vreg(n),
            _ => {
                self.load_vector(value, copy, scratch);
                scratch
            }
        }
    }

    /// Copies a vector to a register.
    pub(super) fn load_vector(&mut self, value: LaneValue, copy: usize, to: Vreg) {
        let (ty, len) = (self.ty(value), self.len(self.ty(value)));
        match self.loc(value, copy) {
            ValueLocation::Vector(n) if n == to.0 => {}
            ValueLocation::Vector(n) => self.asm.v2(V2::Move, len, to, Vreg(n), Masking::None),
            ValueLocation::Slot(offset) => self.asm.v2(V2::Move, len, to, Self::slot(offset), Masking::None),
            loc => self.load_constant(ty, loc, to),
        }
    }

    /// Broadcasts a constant or an input to the lanes of a register.
    pub(super) fn load_constant(&mut self, ty: LaneTy, from: ValueLocation, to: Vreg) {
        let (len, wide) = (self.len(ty), ty == LaneTy::V64);
        let broadcast = if wide { V2::BroadcastQ } else { V2::BroadcastD };
        match from {
            ValueLocation::Input(offset) => self.asm.v2(broadcast, len, to, Self::slot(offset), Masking::None),
            ValueLocation::Splat(0) => self.asm.v3(V3::Xor, len, to, to, to, Masking::None),
            ValueLocation::Splat(bits) => {
                let pool = self.element(wide, bits);
                self.asm.v2(broadcast, len, to, pool, Masking::None);
            }
            loc => unreachable!("a vector in {loc:?}"),
        }
    }

    /// Returns a single element with these bits in the constant pool.
    pub(super) fn element(&mut self, wide: bool, bits: u64) -> Src {
        let bytes = bits.to_le_bytes();
        Src::Const(self.asm.constant(if wide { &bytes } else { &bytes[..4] }))
    }

    /// Returns an operand all of whose lanes have these bits. With AVX2, the constant pool contains a copy for each
    /// lane of a whole register.
    pub(super) fn all(&mut self, wide: bool, bits: u64) -> Src {
        let bytes = &bits.to_le_bytes()[..if wide { 8 } else { 4 }];
        if self.evex() {
            Src::ConstBroadcast(self.asm.constant(bytes))
        } else {
            Src::Const(self.asm.constant(&bytes.repeat(32 / bytes.len())))
        }
    }

    /// Returns a vector as the last operand of an instruction with elements of the same size. May overwrite the scratch
    /// register, and `rax` and `rcx` for [folded loads](super::super::memory_operands).
    pub(super) fn src(&mut self, value: LaneValue, copy: usize, scratch: Vreg) -> Src {
        if let Some(load) = self.allocation.folds.load(value) {
            return self.folded_operand(&load, copy);
        }
        match self.loc(value, copy) {
            ValueLocation::Vector(n) => Src::Reg(Vreg(n)),
            ValueLocation::Slot(offset) => Src::Mem(Self::slot(offset)),
            ValueLocation::Input(offset) if self.evex() => Src::Broadcast(Self::slot(offset)),
            ValueLocation::Input(_) => Src::Reg(self.vector(value, copy, scratch)),
            ValueLocation::Splat(bits) => self.all(self.ty(value) == LaneTy::V64, bits),
            loc => unreachable!("a vector in {loc:?}"),
        }
    }

    /// Returns the register of an operand. Loads the operand into the scratch register if it is not in a register.
    pub(super) fn in_register(&mut self, len: Len, src: Src, scratch: Vreg) -> Vreg {
        let Src::Reg(register) = src else {
            self.asm.v2(V2::Move, len, scratch, src, Masking::None);
            return scratch;
        };
        register
    }

    pub(super) fn vector_for(&self, value: LaneValue, copy: usize, scratch: Vreg) -> Vreg {
        match self.loc(value, copy) {
            ValueLocation::Vector(n) => Vreg(n),
            _ => scratch,
        }
    }

    pub(super) fn put_vector(&mut self, value: LaneValue, copy: usize, from: Vreg) {
        let len = self.len(self.ty(value));
        match self.loc(value, copy) {
            ValueLocation::Vector(n) if n == from.0 => {}
            ValueLocation::Vector(n) => self.asm.v2(V2::Move, len, Vreg(n), from, Masking::None),
            ValueLocation::Slot(offset) => self.asm.vstore(false, len, Self::slot(offset), from, None),
            _ => {}
        }
    }

    /// Returns whether the register allocator has assigned a location to a value.
    pub(super) fn is_kept(&self, value: LaneValue) -> bool {
        matches!(
            self.loc(value, 0),
            ValueLocation::Gpr(_) | ValueLocation::Vector(_) | ValueLocation::Mask(_) | ValueLocation::Slot(_)
        )
    }

    /// Returns the registers of all values that are live across the current instruction or read by it.
    pub(super) fn live(&self) -> Vec<ValueLocation> {
        let mut live = vec![];
        for (index, &(start, end)) in self.allocation.spans.iter().enumerate() {
            if start < self.position && end >= self.position && start != u32::MAX {
                for loc in self.allocation.locs[index] {
                    if matches!(loc, ValueLocation::Gpr(_) | ValueLocation::Vector(_) | ValueLocation::Mask(_))
                        && !live.contains(&loc)
                    {
                        live.push(loc);
                    }
                }
            }
        }
        live
    }
}
