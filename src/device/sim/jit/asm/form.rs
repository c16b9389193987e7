//! Instructions with a VEX or EVEX prefix. Input: a form (prefix, map, opcode, bit W, what displacements count in) and operands.
//! Output: bytes.
//!
//! Most instructions have the same opcode with either prefix, so one form describes both; an EVEX prefix adds registers 16 to 31,
//! 512 bits, masks, broadcasts, and displacements of one byte that count in the size of the memory operand.

use std::fmt;

use super::buffer::{Assembler, Operand};
use super::operand::{Gpr, Kreg, Len, Masking, Size, Src, Vreg};

/// Prefixes, as both encodings number them.
pub(super) const NONE: u8 = 0;
pub(super) const P66: u8 = 1;
pub(super) const PF3: u8 = 2;
pub(super) const PF2: u8 = 3;

/// Maps of opcodes, by the bytes that once introduced them: 0F, 0F38 and 0F3A.
pub(super) const M0F: u8 = 1;
pub(super) const M38: u8 = 2;
pub(super) const M3A: u8 = 3;

/// The size of the operand in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuple {
    /// The vector, or one element for every lane.
    Full,
    /// Half a vector, or one element for every lane.
    Half,
    /// The vector divided by 2 to this power; there is no broadcast.
    Part(u8),
    /// This many bytes, whatever the vector's length.
    Bytes(u8),
}

/// How an instruction is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Form {
    prefix: u8,
    map: u8,
    opcode: u8,
    /// Bit W with a VEX prefix; `None` if there is no such encoding.
    vex: Option<u8>,
    /// Bit W with an EVEX prefix; `None` if there is no such encoding. With broadcasts: whether elements have 64 bits.
    evex: Option<u8>,
    tuple: Tuple,
    /// The part of the opcode in place of the destination, which takes the place of the first source.
    pub(super) digit: Option<u8>,
    /// The shortest vector.
    least: Len,
}

impl Form {
    /// Returns the form of an instruction on elements of 32 bits that has both encodings.
    pub(super) const fn new(prefix: u8, map: u8, opcode: u8) -> Form {
        let (vex, evex) = (Some(0), Some(0));
        Form { prefix, map, opcode, vex, evex, tuple: Tuple::Full, digit: None, least: Len::L128 }
    }

    /// Sets W with an EVEX prefix: elements of 64 bits. VEX prefixes mostly ignore it.
    pub(super) const fn q(self) -> Form {
        Form { evex: Some(1), ..self }
    }

    /// Sets W with either prefix.
    pub(super) const fn w1(self) -> Form {
        Form { vex: Some(1), evex: Some(1), ..self }
    }

    /// Sets W with either prefix by the size of the operands.
    pub(super) const fn w(self, size: Size) -> Form {
        let w = size as u8;
        Form {
            vex: if self.vex.is_some() { Some(w) } else { None },
            evex: if self.evex.is_some() { Some(w) } else { None },
            ..self
        }
    }

    pub(super) const fn vex_only(self) -> Form {
        Form { evex: None, ..self }
    }

    pub(super) const fn evex_only(self) -> Form {
        Form { vex: None, ..self }
    }

    pub(super) const fn tuple(self, tuple: Tuple) -> Form {
        Form { tuple, ..self }
    }

    pub(super) const fn digit(self, digit: u8) -> Form {
        Form { digit: Some(digit), ..self }
    }

    /// Excludes vectors of 128 bits.
    pub(super) const fn from256(self) -> Form {
        Form { least: Len::L256, ..self }
    }
}

/// A vector instruction with its operands, by their places in the encoding.
#[derive(Clone, Copy)]
pub(super) struct Instruction<'a> {
    /// For messages.
    pub(super) name: &'a dyn fmt::Debug,
    pub(super) form: Form,
    pub(super) len: Len,
    /// The destination, as a rule.
    pub(super) reg: u8,
    /// The first of two sources; 0 if there is only one.
    pub(super) extra: u8,
    pub(super) operand: Operand,
    pub(super) broadcast: bool,
    pub(super) masking: Masking,
    pub(super) imm: Option<u8>,
}

impl<'a> Instruction<'a> {
    /// Returns an instruction with a destination and one source, both registers.
    pub(super) fn new(name: &'a dyn fmt::Debug, form: Form, len: Len, d: Vreg, a: Vreg) -> Instruction<'a> {
        Instruction {
            name,
            form,
            len,
            reg: d.0,
            extra: 0,
            operand: Operand::Reg(a.0),
            broadcast: false,
            masking: Masking::None,
            imm: None,
        }
    }

    /// Inserts the first source.
    pub(super) fn after(self, a: Vreg) -> Instruction<'a> {
        Instruction { extra: a.0, ..self }
    }

    /// Replaces the last source.
    pub(super) fn src(self, src: Src) -> Instruction<'a> {
        let (operand, broadcast) = match src {
            Src::Reg(register) => (Operand::Reg(register.0), false),
            Src::Mem(mem) => (mem.into(), false),
            Src::Broadcast(mem) => (mem.into(), true),
            Src::Const(constant) => (Operand::Const(constant), false),
            Src::ConstBroadcast(constant) => (Operand::Const(constant), true),
        };
        Instruction { operand, broadcast, ..self }
    }

    pub(super) fn operand(self, operand: impl Into<Operand>) -> Instruction<'a> {
        Instruction { operand: operand.into(), ..self }
    }

    pub(super) fn masked(self, masking: Masking) -> Instruction<'a> {
        Instruction { masking, ..self }
    }

    pub(super) fn imm(self, imm: u8) -> Instruction<'a> {
        Instruction { imm: Some(imm), ..self }
    }

    /// The EVEX prefix' bit X: of the index or, as an operand in a register has none, bit 4 of that register.
    fn x_bit(&self) -> u8 {
        match self.operand {
            Operand::Reg(register) => register >> 4 & 1,
            operand => operand.index_bit(3),
        }
    }

    /// Returns the bytes that one unit of a short displacement stands for with an EVEX prefix.
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

    /// Checks what holds with either prefix.
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
            Operand::Reg(register) => register,
            Operand::Mem(_) | Operand::Const(_) => self.operand.index_bit(4) << 4,
        };
        debug_assert!(highest.max(self.reg).max(self.extra) < 16, "{name:?}: VEX prefixes have 16 registers");
        debug_assert!(*len <= Len::L256, "{name:?}: VEX prefixes have no 512 bits");
        debug_assert!(*masking == Masking::None, "{name:?}: VEX prefixes have no masks");
        debug_assert!(!self.broadcast, "{name:?}: VEX prefixes have no broadcast");
    }

    fn check_evex(&self) {
        self.check();
        let name = self.name;
        let operand = if let Operand::Reg(register) = self.operand { register } else { 0 };
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
    /// Emits an instruction with the prefix of this assembler.
    pub(super) fn emit(&mut self, op: &Instruction) {
        if self.evex { self.emit_evex(op) } else { self.emit_vex(op) }
    }

    /// Emits an instruction with a VEX prefix, of which there is a short form.
    pub(super) fn emit_vex(&mut self, op: &Instruction) {
        op.check_vex();
        let Form { prefix, map, opcode, vex, .. } = op.form;
        debug_assert!(vex.is_some(), "{:?} has no VEX encoding", op.name);
        let w = vex.unwrap_or(0);
        let (r, x, b) = (op.reg >> 3 & 1, op.operand.index_bit(3), op.operand.base_bit());
        let last = (!op.extra & 15) << 3 | (op.len as u8) << 2 | prefix;
        if x == 0 && b == 0 && w == 0 && map == M0F {
            self.put(&[0xc5, (r ^ 1) << 7 | last]);
        } else {
            self.put(&[0xc4, (r ^ 1) << 7 | (x ^ 1) << 6 | (b ^ 1) << 5 | map, w << 7 | last]);
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
        let Form { prefix, map, opcode, evex, .. } = op.form;
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
        self.put(&[0x62, registers | map, sources, lanes, opcode]);
        self.modrm(op.reg, op.operand, op.unit(), usize::from(op.imm.is_some()));
        if let Some(imm) = op.imm {
            self.byte(imm);
        }
    }

    /// Stops at an instruction that only AVX-512 has.
    pub(super) fn needs_evex(&self, name: &dyn fmt::Debug) {
        debug_assert!(self.evex, "{name:?} needs AVX-512");
    }
}

/// A general-purpose register in the place of a vector register.
pub(super) fn as_vector(register: Gpr) -> Vreg {
    debug_assert!(register.0 < 16, "{register:?}");
    Vreg(register.0)
}

/// A mask register in the place of a vector register.
pub(super) fn mask_as_vector(register: Kreg) -> Vreg {
    debug_assert!(register.0 < 8, "{register:?}");
    Vreg(register.0)
}
