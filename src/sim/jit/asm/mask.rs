//! Encodes instructions on 16-bit mask registers (AVX-512). Input: one call per instruction. Output: bytes with a VEX
//! prefix.

use super::buffer::{AsmOperand, Assembler};
use super::instruction_tables::table;
use super::operand::{Gpr, Kreg, Len, Mem};
use super::vex_encoding::{Instruction, InstructionEncoding, M0F, M3A, NONE, P66, as_vector, mask_as_vector};

const fn kw(opcode: u8) -> InstructionEncoding {
    InstructionEncoding::new(NONE, M0F, opcode).vex_only()
}

table! {
    /// Bitwise operations on two masks.
    Kop {
        And kw(0x41);
        /// Computes `!a & b`.
        Andn kw(0x42);
        Or kw(0x45);
        Xnor kw(0x46);
        Xor kw(0x47);
    }
}

impl Assembler {
    fn mask(&mut self, op: &Instruction) {
        self.needs_evex(op.name);
        self.emit_vex(op);
    }

    /// Computes `d = a`.
    pub(crate) fn kmov(&mut self, d: Kreg, a: Kreg) {
        self.mask(&one(&"kmovw", kw(0x90), d, a));
    }

    /// Sets `d` to the low 16 bits of `a`.
    pub(crate) fn kmov_from(&mut self, d: Kreg, a: Gpr) {
        let a = AsmOperand::Reg(as_vector(a).0);
        self.mask(&one(&"kmovw", kw(0x92), d, d).operand(a));
    }

    /// Computes `d = a`, zero-extended.
    pub(crate) fn kmov_to(&mut self, d: Gpr, a: Kreg) {
        let d = as_vector(d);
        self.mask(&Instruction::new(&"kmovw", kw(0x93), Len::L128, d, mask_as_vector(a)));
    }

    /// Loads two bytes.
    pub(crate) fn kload(&mut self, d: Kreg, from: Mem) {
        self.mask(&one(&"kmovw", kw(0x90), d, d).operand(from));
    }

    /// Stores two bytes.
    pub(crate) fn kstore(&mut self, to: Mem, a: Kreg) {
        self.mask(&one(&"kmovw", kw(0x91), a, a).operand(to));
    }

    /// Computes `d = op(a, b)`.
    pub(crate) fn kop(&mut self, op: Kop, d: Kreg, a: Kreg, b: Kreg) {
        let (d, b) = (mask_as_vector(d), mask_as_vector(b));
        // Mask operations with two sources have the length bit of 256-bit vectors set.
        self.mask(&Instruction::new(&op, op.form(), Len::L256, d, b).after(mask_as_vector(a)));
    }

    /// Computes `d = !a`.
    pub(crate) fn knot(&mut self, d: Kreg, a: Kreg) {
        self.mask(&one(&"knotw", kw(0x44), d, a));
    }

    /// Sets condition E if `a | b` is zero, and condition B if `a | b` is all ones.
    pub(crate) fn kortest(&mut self, a: Kreg, b: Kreg) {
        self.mask(&one(&"kortestw", kw(0x98), a, b));
    }

    /// Computes `d = a >> n`.
    pub(crate) fn kshiftr(&mut self, d: Kreg, a: Kreg, n: u8) {
        self.mask(&one(&"kshiftrw", InstructionEncoding::new(P66, M3A, 0x30).w1().vex_only(), d, a).imm(n));
    }
}

fn one<'a>(name: &'a &'a str, form: InstructionEncoding, d: Kreg, a: Kreg) -> Instruction<'a> {
    Instruction::new(name, form, Len::L128, mask_as_vector(d), mask_as_vector(a))
}
