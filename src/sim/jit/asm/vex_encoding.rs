//! Encodes instructions with a VEX or EVEX prefix. Input: operands and an encoding (prefix, map, opcode, W bit,
//! displacement scale). Output: bytes.
//!
//! Most instructions have the same opcode with either prefix, so one encoding describes both. An EVEX prefix adds
//! registers 16 to 31, 512-bit vectors, masks, broadcasts, and one-byte displacements that are scaled by the size of
//! the memory operand.

use std::fmt;

use super::buffer::{AsmOperand, Assembler};
use super::operand::{Gpr, Kreg, Len, Masking, OperandSize, Src, Vreg};

/// Numbers of the legacy prefixes (none, 66, F3, F2) in both encodings.
pub(super) const NONE: u8 = 0;
pub(super) const P66: u8 = 1;
pub(super) const PF3: u8 = 2;
pub(super) const PF2: u8 = 3;

/// Opcode maps, named after their escape bytes: 0F, 0F38 and 0F3A.
pub(super) const M0F: u8 = 1;
pub(super) const M38: u8 = 2;
pub(super) const M3A: u8 = 3;

/// The size of a memory operand, which scales one-byte displacements (Intel: tuple type).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuple {
    /// A full vector, or one element that is broadcast.
    Full,
    /// Half a vector, or one element that is broadcast.
    Half,
    /// The vector's size divided by 2 to this power. Elements cannot be broadcast.
    Part(u8),
    /// A fixed number of bytes, independent of the vector's length.
    Bytes(u8),
}

/// How an instruction is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct InstructionEncoding {
    prefix: u8,
    map: u8,
    opcode: u8,
    /// The W bit of the VEX prefix, or `None` if the instruction has no VEX encoding.
    vex: Option<u8>,
    /// The W bit of the EVEX prefix, or `None` if the instruction has no EVEX encoding. For broadcasts, it is set if
    /// elements have 64 bits.
    evex: Option<u8>,
    tuple: Tuple,
    /// The opcode extension in the destination's field. The destination is then in the field of the first source.
    pub(super) digit: Option<u8>,
    /// The shortest supported vector length.
    least: Len,
}

impl InstructionEncoding {
    /// Returns the encoding of an instruction on 32-bit elements that supports both prefixes.
    pub(super) const fn new(prefix: u8, map: u8, opcode: u8) -> InstructionEncoding {
        let (vex, evex) = (Some(0), Some(0));
        InstructionEncoding { prefix, map, opcode, vex, evex, tuple: Tuple::Full, digit: None, least: Len::L128 }
    }

    /// Sets the W bit of the EVEX prefix, which means 64-bit elements. Most VEX encodings ignore their W bit.
    pub(super) const fn q(self) -> InstructionEncoding {
        InstructionEncoding { evex: Some(1), ..self }
    }

    /// Sets the W bit of both prefixes.
    pub(super) const fn w1(self) -> InstructionEncoding {
        InstructionEncoding { vex: Some(1), evex: Some(1), ..self }
    }

    /// Sets the W bit of both prefixes if the operands have 64 bits.
    pub(super) const fn w(self, size: OperandSize) -> InstructionEncoding {
        let w = size as u8;
        InstructionEncoding {
            vex: if self.vex.is_some() { Some(w) } else { None },
            evex: if self.evex.is_some() { Some(w) } else { None },
            ..self
        }
    }

    pub(super) const fn vex_only(self) -> InstructionEncoding {
        InstructionEncoding { evex: None, ..self }
    }

    pub(super) const fn evex_only(self) -> InstructionEncoding {
        InstructionEncoding { vex: None, ..self }
    }

    pub(super) const fn tuple(self, tuple: Tuple) -> InstructionEncoding {
        InstructionEncoding { tuple, ..self }
    }

    pub(super) const fn digit(self, digit: u8) -> InstructionEncoding {
        InstructionEncoding { digit: Some(digit), ..self }
    }

    /// Excludes 128-bit vectors.
    pub(super) const fn from256(self) -> InstructionEncoding {
        InstructionEncoding { least: Len::L256, ..self }
    }
}

/// A vector instruction with its operands, which are assigned to fields of the encoding.
#[derive(Clone, Copy)]
pub(super) struct Instruction<'a> {
    /// The instruction's name, for panic messages.
    pub(super) name: &'a dyn fmt::Debug,
    pub(super) form: InstructionEncoding,
    pub(super) len: Len,
    /// The operand in the register field, usually the destination.
    pub(super) reg: u8,
    /// The first of two sources; 0 if there is only one source.
    pub(super) extra: u8,
    pub(super) operand: AsmOperand,
    pub(super) broadcast: bool,
    pub(super) masking: Masking,
    pub(super) imm: Option<u8>,
}

impl<'a> Instruction<'a> {
    /// Returns an instruction with a destination and one source, both registers.
    pub(super) fn new(
        name: &'a dyn fmt::Debug,
        form: InstructionEncoding,
        len: Len,
        d: Vreg,
        a: Vreg,
    ) -> Instruction<'a> {
        Instruction {
            name,
            form,
            len,
            reg: d.0,
            extra: 0,
            operand: AsmOperand::Reg(a.0),
            broadcast: false,
            masking: Masking::None,
            imm: None,
        }
    }

    /// Sets the first of two sources.
    pub(super) fn after(self, a: Vreg) -> Instruction<'a> {
        Instruction { extra: a.0, ..self }
    }

    /// Replaces the last source.
    pub(super) fn src(self, src: Src) -> Instruction<'a> {
        let (operand, broadcast) = match src {
            Src::Reg(register) => (AsmOperand::Reg(register.0), false),
            Src::Mem(mem) => (mem.into(), false),
            Src::Broadcast(mem) => (mem.into(), true),
            Src::Const(constant) => (AsmOperand::Const(constant), false),
            Src::ConstBroadcast(constant) => (AsmOperand::Const(constant), true),
        };
        Instruction { operand, broadcast, ..self }
    }

    pub(super) fn operand(self, operand: impl Into<AsmOperand>) -> Instruction<'a> {
        Instruction { operand: operand.into(), ..self }
    }

    pub(super) fn masked(self, masking: Masking) -> Instruction<'a> {
        Instruction { masking, ..self }
    }

    pub(super) fn imm(self, imm: u8) -> Instruction<'a> {
        Instruction { imm: Some(imm), ..self }
    }

    /// Returns bit X of the EVEX prefix: from the index, or bit 4 of a register operand.
    fn x_bit(&self) -> u8 {
        match self.operand {
            AsmOperand::Reg(register) => register >> 4 & 1,
            operand => operand.index_bit(3),
        }
    }

    /// Returns the scale of one-byte displacements with an EVEX prefix, in bytes.
    fn unit(&self) -> i32 {
        let element = 4 << self.form.evex.unwrap_or(0);
        let bytes = self.len.bytes() as i32;
        match self.form.tuple {
            Tuple::Full | Tuple::Half if self.broadcast => element,
            Tuple::Full => bytes,
            Tuple::Half => bytes / 2,
            Tuple::Part(power) => bytes >> power,
            Tuple::Bytes(bytes) => i32::from(bytes),
        }
    }

    /// Panics in debug builds if the instruction violates a constraint that applies to both prefixes.
    fn check(&self) {
        let Instruction { name, form, len, .. } = self;
        debug_assert!(*len >= form.least, "{name:?} with {len:?}");
        let has_broadcast = matches!(form.tuple, Tuple::Full | Tuple::Half);
        debug_assert!(!self.broadcast || has_broadcast, "{name:?} has no broadcast");
    }

    fn check_vex(&self) {
        self.check();
        let Instruction { name, len, masking, .. } = self;
        let highest = match self.operand {
            AsmOperand::Reg(register) => register,
            AsmOperand::Mem(_) | AsmOperand::Const(_) => self.operand.index_bit(4) << 4,
        };
        debug_assert!(highest.max(self.reg).max(self.extra) < 16, "{name:?}: VEX prefixes have 16 registers");
        debug_assert!(*len <= Len::L256, "{name:?}: VEX prefixes have no 512 bits");
        debug_assert!(*masking == Masking::None, "{name:?}: VEX prefixes have no masks");
        debug_assert!(!self.broadcast, "{name:?}: VEX prefixes have no broadcast");
    }

    fn check_evex(&self) {
        self.check();
        let name = self.name;
        let operand = if let AsmOperand::Reg(register) = self.operand { register } else { 0 };
        debug_assert!(operand.max(self.reg).max(self.extra) < 32, "{name:?}: no such register");
        let is_mask = |k: Kreg| (1..8).contains(&k.0);
        let masking = self.masking;
        debug_assert!(
            matches!(masking, Masking::None) || matches!(masking, Masking::Merge(k) | Masking::Zero(k) if is_mask(k)),
            "{name:?} with {masking:?}"
        );
    }
}

impl Assembler {
    /// Emits an instruction with a VEX or EVEX prefix, depending on the assembler.
    pub(super) fn emit(&mut self, op: &Instruction) {
        if self.evex { self.emit_evex(op) } else { self.emit_vex(op) }
    }

    /// Emits an instruction with a VEX prefix, which has a short and a long form.
    pub(super) fn emit_vex(&mut self, op: &Instruction) {
        op.check_vex();
        let InstructionEncoding { prefix, map, opcode, vex, .. } = op.form;
        debug_assert!(vex.is_some(), "{:?} has no VEX encoding", op.name);
        let w = vex.unwrap_or(0);
        let (r, x, b) = (op.reg >> 3 & 1, op.operand.index_bit(3), op.operand.base_bit());
        let last = (!op.extra & 15) << 3 | (op.len as u8) << 2 | prefix;
        if x == 0 && b == 0 && w == 0 && map == M0F {
            self.emit_bytes(&[0xc5, (r ^ 1) << 7 | last]);
        } else {
            self.emit_bytes(&[0xc4, (r ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | map, w << 7 | last]);
        }
        self.byte(opcode);
        self.modrm(op.reg, op.operand, 1, usize::from(op.imm.is_some()));
        if let Some(imm) = op.imm {
            self.byte(imm);
        }
    }

    /// Emits an instruction with an EVEX prefix.
    pub(super) fn emit_evex(&mut self, op: &Instruction) {
        op.check_evex();
        let InstructionEncoding { prefix, map, opcode, evex, .. } = op.form;
        debug_assert!(evex.is_some(), "{:?} has no EVEX encoding", op.name);
        let inverted = |bit: u8, at: u8| (bit & 1 ^ 1) << at;
        let (mask, zero) = match op.masking {
            Masking::None => (0, 0),
            Masking::Merge(k) => (k.0 & 7, 0),
            Masking::Zero(k) => (k.0 & 7, 1),
        };
        let registers = inverted(op.reg >> 3, 7)
            | inverted(op.x_bit(), 6)
            | inverted(op.operand.base_bit(), 5)
            | inverted(op.reg >> 4, 4);
        let sources = evex.unwrap_or(0) << 7 | (!op.extra & 15) << 3 | 1 << 2 | prefix;
        let fourth = inverted(op.extra >> 4 | op.operand.index_bit(4), 3);
        let lanes = zero << 7 | (op.len as u8) << 5 | u8::from(op.broadcast) << 4 | fourth | mask;
        self.emit_bytes(&[0x62, registers | map, sources, lanes, opcode]);
        self.modrm(op.reg, op.operand, op.unit(), usize::from(op.imm.is_some()));
        if let Some(imm) = op.imm {
            self.byte(imm);
        }
    }

    /// Panics in debug builds if the instruction requires AVX-512 and the assembler is for AVX2.
    pub(super) fn needs_evex(&self, name: &dyn fmt::Debug) {
        debug_assert!(self.evex, "{name:?} needs AVX-512");
    }
}

/// Returns a general-purpose register for the field of a vector register.
pub(super) fn as_vector(register: Gpr) -> Vreg {
    debug_assert!(register.0 < 16, "{register:?}");
    Vreg(register.0)
}

/// Returns a mask register for the field of a vector register.
pub(super) fn mask_as_vector(register: Kreg) -> Vreg {
    debug_assert!(register.0 < 8, "{register:?}");
    Vreg(register.0)
}
