//! Instructions on general-purpose registers, and jumps. Input: one call per instruction. Output: bytes with at most a REX prefix, or
//! a VEX prefix for the shifts of BMI2.
//!
//! Results of 32 bits clear the upper half of their register.

use super::buffer::{Assembler, Operand};
use super::form::{Form, Instruction, M38, P66, PF2, PF3};
use super::operand::{Cond, Gpr, Label, Len, Masking, Mem, Rm, Size};

const LOCK: u8 = 0xf0;

/// The two-operand operations, in the order of their encodings.
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
pub(crate) enum Shift {
    Shl,
    Shr,
    Sar,
    Rol,
    Ror,
}

/// An instruction without VEX or EVEX prefix.
#[derive(Clone, Copy)]
struct Legacy<'a> {
    /// 0x66, 0xf2, 0xf3 or [`LOCK`], or 0 for none.
    prefix: u8,
    /// The operands have 64 bits.
    wide: bool,
    opcode: &'a [u8],
    /// The register in `reg` or in the operand has 8 bits: without REX prefix, numbers 4 to 7 are AH, CH, DH and BH.
    byte: bool,
}

impl<'a> Legacy<'a> {
    fn new(size: Size, opcode: &'a [u8]) -> Legacy<'a> {
        Legacy { prefix: 0, wide: size == Size::S64, opcode, byte: false }
    }

    fn prefix(self, prefix: u8) -> Legacy<'a> {
        Legacy { prefix, ..self }
    }

    fn byte(self) -> Legacy<'a> {
        Legacy { byte: true, ..self }
    }
}

fn register(register: Gpr) -> Operand {
    debug_assert!(register.0 < 16, "{register:?}");
    Operand::Reg(register.0)
}

/// Returns the one byte that stands for an immediate operand, sign-extended, if one is enough.
fn short(value: i32) -> Option<u8> {
    i8::try_from(value).ok().map(|value| value as u8)
}

impl Assembler {
    fn legacy(&mut self, op: Legacy, reg: u8, operand: Operand) {
        debug_assert!(reg < 16, "register {reg}");
        if op.prefix != 0 {
            self.byte(op.prefix);
        }
        let bits = u8::from(op.wide) << 3 | reg >> 3 << 2 | operand.index_bit(3) << 1 | operand.base_bit();
        let ambiguous = |register: u8| (4..8).contains(&register);
        let forced = op.byte && (ambiguous(reg) || matches!(operand, Operand::Reg(register) if ambiguous(register)));
        if bits != 0 || forced {
            self.byte(0x40 | bits);
        }
        self.put(op.opcode);
        self.modrm(reg, operand, 1, 0);
    }

    /// An instruction whose register is in the opcode.
    fn in_opcode(&mut self, wide: bool, opcode: u8, d: Gpr) {
        debug_assert!(d.0 < 16, "{d:?}");
        let bits = u8::from(wide) << 3 | d.0 >> 3;
        if bits != 0 {
            self.byte(0x40 | bits);
        }
        self.byte(opcode | d.0 & 7);
    }

    /// `d` = `src`. An immediate operand is zero-extended with 32 bits and sign-extended with 64.
    pub(crate) fn mov(&mut self, s: Size, d: Gpr, src: impl Into<Rm>) {
        match src.into() {
            Rm::Reg(a) => self.legacy(Legacy::new(s, &[0x8b]), d.0, register(a)),
            Rm::Mem(from) => self.legacy(Legacy::new(s, &[0x8b]), d.0, from.into()),
            Rm::Imm(value) => {
                match s {
                    Size::S32 => self.in_opcode(false, 0xb8, d),
                    Size::S64 => self.legacy(Legacy::new(s, &[0xc7]), 0, register(d)),
                }
                self.put(&value.to_le_bytes());
            }
        }
    }

    /// `d` = `value`, without changing flags.
    pub(crate) fn mov_imm64(&mut self, d: Gpr, value: u64) {
        if let Ok(value) = u32::try_from(value) {
            self.mov(Size::S32, d, value as i32);
        } else if let Ok(value) = i32::try_from(value as i64) {
            self.mov(Size::S64, d, value);
        } else {
            self.in_opcode(true, 0xb8, d);
            self.put(&value.to_le_bytes());
        }
    }

    pub(crate) fn store(&mut self, s: Size, to: Mem, from: Gpr) {
        self.legacy(Legacy::new(s, &[0x89]), from.0, to.into());
    }

    /// Stores an immediate operand, sign-extended.
    pub(crate) fn store_imm(&mut self, s: Size, to: Mem, value: i32) {
        self.legacy(Legacy::new(s, &[0xc7]), 0, to.into());
        self.put(&value.to_le_bytes());
    }

    /// Sign-extends 32 bits to 64.
    pub(crate) fn movsxd(&mut self, d: Gpr, src: impl Into<Rm>) {
        self.two(Legacy::new(Size::S64, &[0x63]), d, src.into());
    }

    /// An instruction from a register or memory to a register.
    fn two(&mut self, op: Legacy, d: Gpr, src: Rm) {
        match src {
            Rm::Reg(a) => self.legacy(op, d.0, register(a)),
            Rm::Mem(from) => self.legacy(op, d.0, from.into()),
            Rm::Imm(_) => debug_assert!(false, "opcode {:02x?} has no immediate operand", op.opcode),
        }
    }

    /// Loads one byte, zero-extended to 64 bits.
    pub(crate) fn load_zx8(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(Size::S32, &[0x0f, 0xb6]), d.0, from.into());
    }

    /// Loads one byte, sign-extended to 64 bits.
    pub(crate) fn load_sx8(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(Size::S64, &[0x0f, 0xbe]), d.0, from.into());
    }

    /// Loads two bytes, zero-extended to 64 bits.
    pub(crate) fn load_zx16(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(Size::S32, &[0x0f, 0xb7]), d.0, from.into());
    }

    /// Loads two bytes, sign-extended to 64 bits.
    pub(crate) fn load_sx16(&mut self, d: Gpr, from: Mem) {
        self.legacy(Legacy::new(Size::S64, &[0x0f, 0xbf]), d.0, from.into());
    }

    pub(crate) fn store8(&mut self, to: Mem, from: Gpr) {
        self.legacy(Legacy::new(Size::S32, &[0x88]).byte(), from.0, to.into());
    }

    pub(crate) fn store16(&mut self, to: Mem, from: Gpr) {
        self.legacy(Legacy::new(Size::S32, &[0x89]).prefix(0x66), from.0, to.into());
    }

    pub(crate) fn lea(&mut self, s: Size, d: Gpr, m: Mem) {
        self.legacy(Legacy::new(s, &[0x8d]), d.0, m.into());
    }

    /// Fetches the cache line of an address, which need not be valid; also for writing.
    pub(crate) fn prefetch(&mut self, m: Mem, write: bool) {
        let opcode = if write { 0x0d } else { 0x18 };
        self.legacy(Legacy::new(Size::S32, &[0x0f, opcode]), 1, m.into());
    }

    pub(crate) fn alu(&mut self, op: Alu, s: Size, d: Gpr, src: impl Into<Rm>) {
        match src.into() {
            Rm::Imm(value) => self.alu_imm(op, s, register(d), value),
            src => self.two(Legacy::new(s, &[(op as u8) << 3 | 3]), d, src),
        }
    }

    /// The same on a value in memory; the source is a register or an immediate operand.
    pub(crate) fn alu_mem(&mut self, op: Alu, s: Size, d: Mem, src: impl Into<Rm>) {
        match src.into() {
            Rm::Reg(a) => self.legacy(Legacy::new(s, &[(op as u8) << 3 | 1]), a.0, d.into()),
            Rm::Imm(value) => self.alu_imm(op, s, d.into(), value),
            Rm::Mem(_) => debug_assert!(false, "{op:?} with two addresses"),
        }
    }

    fn alu_imm(&mut self, op: Alu, s: Size, d: Operand, value: i32) {
        let opcode = if short(value).is_some() { 0x83 } else { 0x81 };
        self.legacy(Legacy::new(s, &[opcode]), op as u8, d);
        self.imm(value);
    }

    fn imm(&mut self, value: i32) {
        match short(value) {
            Some(byte) => self.byte(byte),
            None => self.put(&value.to_le_bytes()),
        }
    }

    /// As [`Assembler::alu_mem`] with a register, while no other processor accesses the memory.
    pub(crate) fn alu_locked(&mut self, op: Alu, s: Size, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[(op as u8) << 3 | 1]).prefix(LOCK), a.0, d.into());
    }

    /// Adds `a` to memory, locked; `a` becomes what was there.
    pub(crate) fn xadd_locked(&mut self, s: Size, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xc1]).prefix(LOCK), a.0, d.into());
    }

    /// Stores `a` if there is RAX in memory, locked, and sets the flag E; else RAX becomes what is there.
    pub(crate) fn cmpxchg_locked(&mut self, s: Size, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xb1]).prefix(LOCK), a.0, d.into());
    }

    /// Exchanges `a` with memory, locked without being asked.
    pub(crate) fn xchg(&mut self, s: Size, d: Mem, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x87]), a.0, d.into());
    }

    pub(crate) fn test(&mut self, s: Size, a: Gpr, b: Gpr) {
        self.legacy(Legacy::new(s, &[0x85]), b.0, register(a));
    }

    /// `d` *= `src`.
    pub(crate) fn imul(&mut self, s: Size, d: Gpr, src: impl Into<Rm>) {
        match src.into() {
            Rm::Imm(value) => self.imul_imm(s, d, d, value),
            src => self.two(Legacy::new(s, &[0x0f, 0xaf]), d, src),
        }
    }

    /// `d` = `a` * `value`.
    pub(crate) fn imul_imm(&mut self, s: Size, d: Gpr, a: Gpr, value: i32) {
        let opcode = if short(value).is_some() { 0x6b } else { 0x69 };
        self.legacy(Legacy::new(s, &[opcode]), d.0, register(a));
        self.imm(value);
    }

    /// One of the instructions that share an opcode and differ in what would be a register.
    fn unary(&mut self, s: Size, digit: u8, d: Gpr) {
        self.legacy(Legacy::new(s, &[0xf7]), digit, register(d));
    }

    pub(crate) fn not(&mut self, s: Size, d: Gpr) {
        self.unary(s, 2, d);
    }

    pub(crate) fn neg(&mut self, s: Size, d: Gpr) {
        self.unary(s, 3, d);
    }

    /// RDX:RAX = RAX * `by`, unsigned.
    pub(crate) fn mul_wide(&mut self, s: Size, by: Gpr) {
        self.unary(s, 4, by);
    }

    /// RDX:RAX = RAX * `by`, signed.
    pub(crate) fn imul_wide(&mut self, s: Size, by: Gpr) {
        self.unary(s, 5, by);
    }

    /// Divides RDX:RAX, unsigned: RAX is the quotient, RDX the remainder.
    pub(crate) fn div(&mut self, s: Size, by: Gpr) {
        self.unary(s, 6, by);
    }

    /// Divides RDX:RAX, signed: RAX is the quotient, RDX the remainder.
    pub(crate) fn idiv(&mut self, s: Size, by: Gpr) {
        self.unary(s, 7, by);
    }

    /// Fills RDX with the sign of RAX: `cdq` or `cqo`.
    pub(crate) fn cdq(&mut self, s: Size) {
        if s == Size::S64 {
            self.byte(0x48);
        }
        self.byte(0x99);
    }

    pub(crate) fn shift_imm(&mut self, op: Shift, s: Size, d: Gpr, n: u8) {
        let digit = match op {
            Shift::Rol => 0,
            Shift::Ror => 1,
            Shift::Shl => 4,
            Shift::Shr => 5,
            Shift::Sar => 7,
        };
        self.legacy(Legacy::new(s, &[0xc1]), digit, register(d));
        self.byte(n);
    }

    /// `d` = `a` shifted by `count` modulo the operand size, without changing flags (BMI2). There are no rotations.
    pub(crate) fn shift(&mut self, op: Shift, s: Size, d: Gpr, a: Gpr, count: Gpr) {
        let prefix = match op {
            Shift::Shl => P66,
            Shift::Shr => PF2,
            Shift::Sar => PF3,
            Shift::Rol | Shift::Ror => {
                debug_assert!(false, "{op:?} by a register");
                return;
            }
        };
        let form = Form::new(prefix, M38, 0xf7).vex_only().w(s);
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

    /// Sets the low byte of `d` to 1 or 0, and leaves the others.
    pub(crate) fn setcc(&mut self, c: Cond, d: Gpr) {
        self.legacy(Legacy::new(Size::S32, &[0x0f, 0x90 | c as u8]).byte(), 0, register(d));
    }

    /// `d` = the low byte of `a`, zero-extended to 64 bits.
    pub(crate) fn movzx8(&mut self, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(Size::S32, &[0x0f, 0xb6]).byte(), d.0, register(a));
    }

    /// `d` = `a` if the condition holds.
    pub(crate) fn cmov(&mut self, c: Cond, s: Size, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0x40 | c as u8]), d.0, register(a));
    }

    pub(crate) fn popcnt(&mut self, s: Size, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xb8]).prefix(0xf3), d.0, register(a));
    }

    pub(crate) fn lzcnt(&mut self, s: Size, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xbd]).prefix(0xf3), d.0, register(a));
    }

    pub(crate) fn tzcnt(&mut self, s: Size, d: Gpr, a: Gpr) {
        self.legacy(Legacy::new(s, &[0x0f, 0xbc]).prefix(0xf3), d.0, register(a));
    }

    pub(crate) fn push(&mut self, a: Gpr) {
        self.in_opcode(false, 0x50, a);
    }

    pub(crate) fn pop(&mut self, d: Gpr) {
        self.in_opcode(false, 0x58, d);
    }

    pub(crate) fn call(&mut self, a: Gpr) {
        // Calls have 64 bits without being asked.
        self.legacy(Legacy::new(Size::S32, &[0xff]), 2, register(a));
    }

    pub(crate) fn ret(&mut self) {
        self.byte(0xc3);
    }

    pub(crate) fn jmp(&mut self, to: Label) {
        self.byte(0xe9);
        self.distance(to);
    }

    pub(crate) fn jcc(&mut self, c: Cond, to: Label) {
        self.put(&[0x0f, 0x80 | c as u8]);
        self.distance(to);
    }

    /// An instruction that faults.
    pub(crate) fn ud2(&mut self) {
        self.put(&[0x0f, 0x0b]);
    }
}
