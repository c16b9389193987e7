//! Encodes instructions on general-purpose registers, and jumps. Input: one call per instruction. Output: bytes with a
//! VEX prefix for the shifts of BMI2, and with a REX prefix or none for all other instructions.
//!
//! Instructions with 32-bit results clear the upper half of the register.

use super::buffer::{AsmOperand, Assembler};
use super::operand::{CodeLabel, ConditionCode, Gpr, Len, Masking, Mem, OperandSize, Rm};
use super::vex_encoding::{Instruction, InstructionEncoding, M38, P66, PF2, PF3};

const LOCK: u8 = 0xf0;

/// The arithmetic and logic operations with two operands, in the order of their encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add,
    Or,
    Adc,
    Sbb,
    And,
    Sub,
    Xor,
    Cmp,
}

/// Shifts and rotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShiftOp {
    Shl,
    Shr,
    Sar,
    Rol,
    Ror,
}

/// An instruction without VEX or EVEX prefix.
#[derive(Clone, Copy)]
struct Legacy<'a> {
    /// The prefix byte: 0x66, 0xf2, 0xf3 or [`LOCK`], or 0 for none.
    prefix: u8,
    /// Whether the operands have 64 bits.
    wide: bool,
    opcode: &'a [u8],
    /// Whether a register operand has 8 bits. Without a REX prefix, the register numbers 4 to 7 would mean AH, CH, DH
    /// and BH.
    byte: bool,
}

impl<'a> Legacy<'a> {
    fn new(size: OperandSize, opcode: &'a [u8]) -> Legacy<'a> {
        Legacy { prefix: 0, wide: size == OperandSize::S64, opcode, byte: false }
    }

    fn prefix(self, prefix: u8) -> Legacy<'a> {
        Legacy { prefix, ..self }
    }

    fn byte(self) -> Legacy<'a> {
        Legacy { byte: true, ..self }
    }
}

fn register(register: Gpr) -> AsmOperand {
    debug_assert!(register.0 < 16, "{register:?}");
    AsmOperand::Reg(register.0)
}

/// Returns the immediate operand as a single byte if sign-extending the byte restores it.
fn short(value: i32) -> Option<u8> {
    i8::try_from(value).ok().map(|value| value as u8)
}

impl Assembler {
    fn legacy(&mut self, op: Legacy, reg: u8, operand: AsmOperand) {
        debug_assert!(reg < 16, "register {reg}");
        if op.prefix != 0 {
            self.byte(op.prefix);
        }
        let bits = u8::from(op.wide) << 3 | reg >> 3 << 2 | operand.index_bit(3) << 1 | operand.base_bit();
        let ambiguous = |register: u8| (4..8).contains(&register);
        let forced = op.byte && (ambiguous(reg) || matches!(operand, AsmOperand::Reg(register) if ambiguous(register)));
        if bits != 0 || forced {
            self.byte(0x40 | bits);
        }
        self.emit_bytes(op.opcode);
        self.modrm(reg, operand, 1, 0);
    }

    /// Emits an instruction whose register is encoded in the opcode.
    fn in_opcode(&mut self, wide: bool, opcode: u8, d: Gpr) {
        debug_assert!(d.0 < 16, "{d:?}");
        let bits = u8::from(wide) << 3 | d.0 >> 3;
        if bits != 0 {
            self.byte(0x40 | bits);
        }
        self.byte(opcode | d.0 & 7);
    }

    /// Computes `d = src`. An immediate operand is zero-extended if `s` is 32 bits, and sign-extended if `s` is 64
    /// bits.
    pub(crate) fn mov(&mut self, s: OperandSize, d: Gpr, src: impl Into<Rm>) {
        match src.into() {
            Rm::Reg(a) => self.legacy(Legacy::new(s, &[0x8b]), d.0, register(a)),
            Rm::Mem(from) => self.legacy(Legacy::new(s, &[0x8b]), d.0, from.into()),
            Rm::Imm(value) => {
                match s {
                    OperandSize::S32 => self.in_opcode(false, 0xb8, d),
                    OperandSize::S64 => self.legacy(Legacy::new(s, &[0xc7]), 0, register(d)),
                }
                self.emit_bytes(&value.to_le_bytes());
            }
        }
    }

    /// Computes `d = value` without changing flags.
    pub(crate) fn mov_imm64(&mut self, d: Gpr, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            self.mov(OperandSize::S32, d, value as i32);
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.mov(OperandSize::S64, d, value);
        } else {
            self.in_opcode(true, 0xb8, d);
            self.emit_bytes(&value.to_le_bytes());
        }
    }

    pub(crate) fn store(&mut self, s: OperandSize, to: Mem, from: Gpr) {
        self.legacy(Legacy::new(s, &[0x89]), from.0, to.into());
    }

    /// Stores an immediate operand, which is sign-extended to the operand size.
    pub(crate) fn store_imm(&mut self, s: OperandSize, to: Mem, value: i32) {
        self.legacy(Legacy::new(s, &[0xc7]), 0, to.into());
        self.emit_bytes(&value.to_le_bytes());
    }

    /// Sign-extends 32 bits to 64.
    pub(crate) fn movsxd(&mut self, d: Gpr, src: impl Into<Rm>) {
        self.two(Legacy::new(OperandSize::S64, &[0x63]), d, src.into());
    }

    /// Emits an instruction from a register or memory to a register.
    fn two(&mut self, op: Legacy, d: Gpr, src: Rm) {
        match src {
            Rm::Reg(a) => self.legacy(op, d.0, register(a)),
            Rm::Mem(from) => self.legacy(op, d.0, from.into()),
            Rm::Imm(_) => debug_assert!(false, "opcode {:02x?} has no immediate operand", op.opcode),
        }
    }

    /// Loads one byte, zero-extended to 64 bits.
    pub(crate) fn load_zx8(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(OperandSize::S32, &[0x0f, 0xb6]), d.0, from.into());
    }

    /// Loads one byte, sign-extended to 64 bits.
    pub(crate) fn load_sx8(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(OperandSize::S64, &[0x0f, 0xbe]), d.0, from.into());
    }

    /// Loads two bytes, zero-extended to 64 bits.
    pub(crate) fn load_zx16(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(OperandSize::S32, &[0x0f, 0xb7]), d.0, from.into());
    }

    /// Loads two bytes, sign-extended to 64 bits.
    pub(crate) fn load_sx16(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(OperandSize::S64, &[0x0f, 0xbf]), d.0, from.into());
    }

    pub(crate) fn store8(&mut self, to: Mem, from: Gpr) {
        self.legacy(Legacy::new(OperandSize::S32, &[0x88]).byte(), from.0, to.into());
    }

    pub(crate) fn store16(&mut self, to: Mem, from: Gpr) {
        self.legacy(Legacy::new(OperandSize::S32, &[0x89]).prefix(0x66), from.0, to.into());
    }

    pub(crate) fn lea(&mut self, s: OperandSize, d: Gpr, m: Mem) {
        self.legacy(Legacy::new(s, &[0x8d]), d.0, m.into());
    }

    /// Prefetches the cache line of an address. The address may be invalid. `write`: prefetches the line for writing.
    pub(crate) fn prefetch(&mut self, m: Mem, write: bool) {
        let opcode = if write { 0x0d } else { 0x18 };
        self.legacy(Legacy::new(OperandSize::S32, &[0x0f, opcode]), 1, m.into());
    }

    pub(crate) fn alu(&mut self, op: Alu, s: OperandSize, d: Gpr, src: impl Into<Rm>) {
        match src.into() {
            Rm::Imm(value) => self.alu_imm(op, s, register(d), value),
            src => self.two(Legacy::new(s, &[(op as u8) << 3 | 3]), d, src),
        }
    }

    /// Like [`Assembler::alu`], with a destination in memory. The source is a register or an immediate operand.
    pub(crate) fn alu_mem(&mut self, op: Alu, s: OperandSize, d: Mem, src: impl Into<Rm>) {
        match src.into() {
            Rm::Reg(a) => self.legacy(Legacy::new(s, &[(op as u8) << 3 | 1]), a.0, d.into()),
            Rm::Imm(value) => self.alu_imm(op, s, d.into(), value),
            Rm::Mem(_) => debug_assert!(false, "{op:?} with two addresses"),
        }
    }

    fn alu_imm(&mut self, op: Alu, s: OperandSize, d: AsmOperand, value: i32) {
        let opcode = if short(value).is_some() { 0x83 } else { 0x81 };
        self.legacy(Legacy::new(s, &[opcode]), op as u8, d);
        self.imm(value);
    }

    fn imm(&mut self, value: i32) {
        match short(value) {
            Some(byte) => self.byte(byte),
            None => self.emit_bytes(&value.to_le_bytes()),
        }
    }

    /// Like [`Assembler::alu_mem`] with a register, but atomic (locked).
    pub(crate) fn alu_locked(&mut self, op: Alu, s: OperandSize, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[(op as u8) << 3 | 1]).prefix(LOCK), a.0, d.into());
    }

    /// Atomically adds `a` to memory; `a` receives the old value.
    pub(crate) fn xadd_locked(&mut self, s: OperandSize, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xc1]).prefix(LOCK), a.0, d.into());
    }

    /// Atomic compare-exchange: if the memory operand equals RAX, stores `a` and sets condition E; otherwise, loads the
    /// memory operand into RAX.
    pub(crate) fn cmpxchg_locked(&mut self, s: OperandSize, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xb1]).prefix(LOCK), a.0, d.into());
    }

    /// Atomically exchanges `a` with memory (implicitly locked).
    pub(crate) fn xchg(&mut self, s: OperandSize, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x87]), a.0, d.into());
    }

    pub(crate) fn test(&mut self, s: OperandSize, a: Gpr, b: Gpr) {
        self.legacy(Legacy::new(s, &[0x85]), b.0, register(a));
    }

    /// Computes `d *= src`.
    pub(crate) fn imul(&mut self, s: OperandSize, d: Gpr, src: impl Into<Rm>) {
        match src.into() {
            Rm::Imm(value) => self.imul_imm(s, d, d, value),
            src => self.two(Legacy::new(s, &[0x0f, 0xaf]), d, src),
        }
    }

    /// Computes `d = a * value`.
    pub(crate) fn imul_imm(&mut self, s: OperandSize, d: Gpr, a: Gpr, value: i32) {
        let opcode = if short(value).is_some() { 0x6b } else { 0x69 };
        self.legacy(Legacy::new(s, &[opcode]), d.0, register(a));
        self.imm(value);
    }

    /// Emits one of the one-operand instructions that share an opcode and differ in the opcode extension `digit` (in
    /// the register field).
    fn unary(&mut self, s: OperandSize, digit: u8, d: Gpr) {
        self.legacy(Legacy::new(s, &[0xf7]), digit, register(d));
    }

    pub(crate) fn not(&mut self, s: OperandSize, d: Gpr) {
        self.unary(s, 2, d);
    }

    pub(crate) fn neg(&mut self, s: OperandSize, d: Gpr) {
        self.unary(s, 3, d);
    }

    /// Computes the unsigned product RDX:RAX = RAX * `by`.
    pub(crate) fn mul_wide(&mut self, s: OperandSize, by: Gpr) {
        self.unary(s, 4, by);
    }

    /// Computes the signed product RDX:RAX = RAX * `by`.
    pub(crate) fn imul_wide(&mut self, s: OperandSize, by: Gpr) {
        self.unary(s, 5, by);
    }

    /// Divides the unsigned number RDX:RAX by `by`. RAX becomes the quotient, RDX the remainder.
    pub(crate) fn div(&mut self, s: OperandSize, by: Gpr) {
        self.unary(s, 6, by);
    }

    /// Divides the signed number RDX:RAX by `by`. RAX becomes the quotient, RDX the remainder.
    pub(crate) fn idiv(&mut self, s: OperandSize, by: Gpr) {
        self.unary(s, 7, by);
    }

    /// Fills RDX with the sign of RAX: `cdq` or `cqo`.
    pub(crate) fn cdq(&mut self, s: OperandSize) {
        if s == OperandSize::S64 {
            self.byte(0x48);
        }
        self.byte(0x99);
    }

    pub(crate) fn shift_imm(&mut self, op: ShiftOp, s: OperandSize, d: Gpr, n: u8) {
        let digit = match op {
            ShiftOp::Rol => 0,
            ShiftOp::Ror => 1,
            ShiftOp::Shl => 4,
            ShiftOp::Shr => 5,
            ShiftOp::Sar => 7,
        };
        self.legacy(Legacy::new(s, &[0xc1]), digit, register(d));
        self.byte(n);
    }

    /// Sets `d` to `a` shifted by `count` modulo the operand size, without changing flags (BMI2). `op` must not be a
    /// rotation.
    pub(crate) fn shift(&mut self, op: ShiftOp, s: OperandSize, d: Gpr, a: Gpr, count: Gpr) {
        let prefix = match op {
            ShiftOp::Shl => P66,
            ShiftOp::Shr => PF2,
            ShiftOp::Sar => PF3,
            ShiftOp::Rol | ShiftOp::Ror => {
                debug_assert!(false, "{op:?} by a register");
                return;
            }
        };
        let form = InstructionEncoding::new(prefix, M38, 0xf7).vex_only().w(s);
        self.emit_vex(&Instruction {
            name: &op,
            form,
            len: Len::L128,
            reg: d.0,
            extra: count.0,
            operand: register(a),
            broadcast: false,
            masking: Masking::None,
            imm: None,
        });
    }

    /// Sets the low byte of `d` to 1 or 0, and preserves the other bytes.
    pub(crate) fn setcc(&mut self, c: ConditionCode, d: Gpr) {
        self.legacy(Legacy::new(OperandSize::S32, &[0x0f, 0x90 | c as u8]).byte(), 0, register(d));
    }

    /// Sets `d` to the low byte of `a`, zero-extended to 64 bits.
    pub(crate) fn movzx8(&mut self, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(OperandSize::S32, &[0x0f, 0xb6]).byte(), d.0, register(a));
    }

    /// Sets `d` to `a` if the condition holds.
    pub(crate) fn cmov(&mut self, c: ConditionCode, s: OperandSize, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0x40 | c as u8]), d.0, register(a));
    }

    pub(crate) fn popcnt(&mut self, s: OperandSize, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xb8]).prefix(0xf3), d.0, register(a));
    }

    pub(crate) fn lzcnt(&mut self, s: OperandSize, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xbd]).prefix(0xf3), d.0, register(a));
    }

    pub(crate) fn tzcnt(&mut self, s: OperandSize, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xbc]).prefix(0xf3), d.0, register(a));
    }

    pub(crate) fn push(&mut self, a: Gpr) {
        self.in_opcode(false, 0x50, a);
    }

    pub(crate) fn pop(&mut self, d: Gpr) {
        self.in_opcode(false, 0x58, d);
    }

    pub(crate) fn call(&mut self, a: Gpr) {
        // A call has a 64-bit operand without a REX.W prefix.
        self.legacy(Legacy::new(OperandSize::S32, &[0xff]), 2, register(a));
    }

    pub(crate) fn ret(&mut self) {
        self.byte(0xc3);
    }

    pub(crate) fn jmp(&mut self, to: CodeLabel) {
        self.byte(0xe9);
        self.distance(to);
    }

    pub(crate) fn jcc(&mut self, c: ConditionCode, to: CodeLabel) {
        self.emit_bytes(&[0x0f, 0x80 | c as u8]);
        self.distance(to);
    }

    /// Emits an instruction that always faults.
    pub(crate) fn ud2(&mut self) {
        self.emit_bytes(&[0x0f, 0x0b]);
    }
}
