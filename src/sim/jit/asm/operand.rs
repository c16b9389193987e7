//! Operands of instructions: registers, addresses, masks, labels and constants. Operands are plain values; the encoders
//! check that they are valid.

/// A general-purpose register, by number (0 to 15).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gpr(pub(crate) u8);

impl Gpr {
    pub(crate) const RAX: Gpr = Gpr(0);
    pub(crate) const RCX: Gpr = Gpr(1);
    pub(crate) const RDX: Gpr = Gpr(2);
    pub(crate) const RBX: Gpr = Gpr(3);
    pub(crate) const RSP: Gpr = Gpr(4);
    pub(crate) const RBP: Gpr = Gpr(5);
    pub(crate) const RSI: Gpr = Gpr(6);
    pub(crate) const RDI: Gpr = Gpr(7);
    pub(crate) const R8: Gpr = Gpr(8);
    pub(crate) const R9: Gpr = Gpr(9);
    pub(crate) const R10: Gpr = Gpr(10);
    pub(crate) const R11: Gpr = Gpr(11);
    pub(crate) const R12: Gpr = Gpr(12);
    pub(crate) const R13: Gpr = Gpr(13);
    pub(crate) const R14: Gpr = Gpr(14);
    pub(crate) const R15: Gpr = Gpr(15);
}

/// A vector register, by number: 0 to 31 with EVEX prefixes, or 0 to 15 with VEX prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Vreg(pub(crate) u8);

/// A mask register, by number (0 to 7). Register 0 cannot be the mask of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kreg(pub(crate) u8);

/// The length of a vector in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Len {
    L128,
    L256,
    L512,
}

impl Len {
    /// Returns the number of bytes.
    pub(crate) fn bytes(self) -> usize {
        16 << self as usize
    }
}

/// The operand size of an integer instruction, or the size of an element, in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OperandSize {
    S32,
    S64,
}

impl OperandSize {
    /// Returns the number of bytes.
    pub(crate) fn bytes(self) -> usize {
        4 << self as usize
    }
}

/// An address: `base + index * scale + disp`. The index can be any register except RSP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mem {
    pub(crate) base: Gpr,
    /// The index register and its scale (1, 2, 4 or 8).
    pub(crate) index: Option<(Gpr, u8)>,
    pub(crate) disp: i32,
}

impl Mem {
    /// Returns the address `base + disp`.
    pub(crate) fn at(base: Gpr, disp: i32) -> Mem {
        Mem { base, index: None, disp }
    }

    /// Returns the address `base + index * scale + disp`.
    pub(crate) fn index(base: Gpr, index: Gpr, scale: u8, disp: i32) -> Mem {
        Mem { base, index: Some((index, scale)), disp }
    }
}

/// One address per lane, for gathers and scatters: `base + index[lane] * scale + disp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct VecMem {
    pub(crate) base: Gpr,
    pub(crate) index: Vreg,
    /// The factor of the index: 1, 2, 4 or 8.
    pub(crate) scale: u8,
    pub(crate) disp: i32,
}

/// The last source of a vector instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Src {
    Reg(Vreg),
    Mem(Mem),
    /// One element of 32 or 64 bits, for every lane (AVX-512).
    Broadcast(Mem),
    Const(PoolConst),
    /// One element of 32 or 64 bits, for every lane (AVX-512).
    ConstBroadcast(PoolConst),
}

impl From<Vreg> for Src {
    fn from(register: Vreg) -> Src {
        Src::Reg(register)
    }
}

impl From<Mem> for Src {
    fn from(address: Mem) -> Src {
        Src::Mem(address)
    }
}

impl From<PoolConst> for Src {
    fn from(constant: PoolConst) -> Src {
        Src::Const(constant)
    }
}

/// The last source of an integer instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Rm {
    Reg(Gpr),
    Mem(Mem),
    /// An immediate operand, which is sign-extended to the operand size.
    Imm(i32),
}

impl From<Gpr> for Rm {
    fn from(register: Gpr) -> Rm {
        Rm::Reg(register)
    }
}

impl From<Mem> for Rm {
    fn from(address: Mem) -> Rm {
        Rm::Mem(address)
    }
}

impl From<i32> for Rm {
    fn from(value: i32) -> Rm {
        Rm::Imm(value)
    }
}

/// What happens to destination lanes whose mask bit is not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Masking {
    /// The instruction has no mask and writes every lane.
    None,
    /// Lanes whose mask bit is not set keep their values.
    Merge(Kreg),
    /// Lanes whose mask bit is not set become zero.
    Zero(Kreg),
}

impl From<Option<Kreg>> for Masking {
    /// Returns the masking of a store, or of a comparison, which clears the result bits outside the mask. Neither
    /// preserves lanes of a destination vector.
    fn from(mask: Option<Kreg>) -> Masking {
        mask.map_or(Masking::None, Masking::Merge)
    }
}

/// A position in the code, by label number. Jumps may refer to a label before it is bound to its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CodeLabel(pub(super) u32);

/// A constant in the pool after the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PoolConst(pub(super) u32);

/// A condition on the processor's flags. The variants are in the order of their encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ConditionCode {
    O,
    No,
    B,
    Ae,
    E,
    Ne,
    Be,
    A,
    S,
    Ns,
    P,
    Np,
    L,
    Ge,
    Le,
    G,
}

impl ConditionCode {
    const ALL: [ConditionCode; 16] = {
        use ConditionCode::*;
        [O, No, B, Ae, E, Ne, Be, A, S, Ns, P, Np, L, Ge, Le, G]
    };

    /// Returns the opposite condition.
    pub(crate) fn not(self) -> ConditionCode {
        ConditionCode::ALL[self as usize ^ 1]
    }
}
