//! Encodes instructions that move vectors: stores, moves between vector and general-purpose registers, extraction and
//! insertion of parts, gathers and scatters. Input: one call per instruction. Output: bytes.

// Allowed because the functions are named for moves: `from_gpr` and `to_gpr` are not conversions of the assembler.
#![allow(clippy::wrong_self_convention)]

use super::buffer::{AddressOperand, AsmOperand, Assembler};
use super::instruction_tables::{i3a, i38, int, part, pd, ps, table};
use super::operand::{Gpr, Kreg, Len, Masking, Mem, OperandSize, VecMem, Vreg};
use super::vex_encoding::{Instruction, InstructionEncoding, M38, PF3, Tuple, as_vector};

/// Placeholder for an operand that is set later.
const LATER: Vreg = Vreg(0);

const fn narrowing(opcode: u8, power: u8) -> InstructionEncoding {
    InstructionEncoding::new(PF3, M38, opcode).tuple(part(power)).evex_only()
}

table! {
    /// Conversions that truncate to narrower integers, named by the sizes before and after (AVX-512).
    Narrow {
        DB narrowing(0x31, 2);
        DW narrowing(0x33, 1);
        QB narrowing(0x32, 3);
        QW narrowing(0x34, 2);
        QD narrowing(0x35, 1);
    }
}

table! {
    /// Gathers, named by the sizes of index and element. The encodings of scatters differ only in the opcode.
    Gather {
        DD i38(0x90).tuple(Tuple::Bytes(4));
        DQ i38(0x90).w1().tuple(Tuple::Bytes(8));
        QD i38(0x91).tuple(Tuple::Bytes(4));
        QQ i38(0x91).w1().tuple(Tuple::Bytes(8));
    }
}

/// Returns the encoding of the scatter that corresponds to this gather.
fn scattering(op: Gather) -> InstructionEncoding {
    match op {
        Gather::DD => i38(0xa0).tuple(Tuple::Bytes(4)),
        Gather::DQ => i38(0xa0).q().tuple(Tuple::Bytes(8)),
        Gather::QD => i38(0xa1).tuple(Tuple::Bytes(4)),
        Gather::QQ => i38(0xa1).q().tuple(Tuple::Bytes(8)),
    }
}

/// Returns the length that the prefix encodes: the longer of the lengths of index and data.
fn with_index(op: Gather, data: Len) -> Len {
    match (op, data) {
        (Gather::QD, Len::L128) => Len::L256,
        (Gather::QD, Len::L256) => Len::L512,
        (Gather::QD, Len::L512) => {
            debug_assert!(false, "{op:?}: the index has at most 512 bits");
            data
        }
        _ => data,
    }
}

impl Assembler {
    /// Stores a vector, or only the lanes in `mask`. `double`: lanes have 64 bits, and the mask has one bit for each of
    /// them.
    pub(crate) fn vstore(&mut self, double: bool, len: Len, to: Mem, a: Vreg, mask: Option<Kreg>) {
        let form = if double { pd(0x11) } else { ps(0x11) }.tuple(part(0));
        self.emit(&Instruction::new(&"vmovup", form, len, a, LATER).operand(to).masked(mask.into()));
    }

    /// Truncates the lanes of `a` to a narrower integer type and stores them. `len`: the length of the source.
    pub(crate) fn vstore_narrow(&mut self, op: Narrow, len: Len, to: Mem, a: Vreg, mask: Option<Kreg>) {
        self.emit(&Instruction::new(&op, op.form(), len, a, LATER).operand(to).masked(mask.into()));
    }

    /// Sets `d` to the lanes of `a`, truncated to a narrower integer type. `len`: the length of the source.
    pub(crate) fn narrow(&mut self, op: Narrow, len: Len, d: Vreg, a: Vreg, m: Masking) {
        self.emit(&Instruction::new(&op, op.form(), len, a, d).masked(m));
    }

    /// Converts 32-bit floats to 16-bit floats. `len`: the length of the source. `imm`: the rounding mode, or 4 for the
    /// processor's current mode.
    pub(crate) fn cvt_ps_ph(&mut self, len: Len, d: Vreg, a: Vreg, imm: u8, m: Masking) {
        self.emit(&Instruction::new(&"vcvtps2ph", i3a(0x1d).tuple(part(1)), len, a, d).masked(m).imm(imm));
    }

    /// Loads the lanes whose sign bit is set in `mask`; other lanes become zero (AVX2).
    pub(crate) fn maskmov_load(&mut self, s: OperandSize, len: Len, d: Vreg, mask: Vreg, from: Mem) {
        let form = i38(0x8c).vex_only().w(s);
        self.emit(&Instruction::new(&"vpmaskmov", form, len, d, LATER).after(mask).operand(from));
    }

    /// Stores the lanes whose sign bit is set in `mask` (AVX2).
    pub(crate) fn maskmov_store(&mut self, s: OperandSize, len: Len, to: Mem, mask: Vreg, a: Vreg) {
        let form = i38(0x8e).vex_only().w(s);
        self.emit(&Instruction::new(&"vpmaskmov", form, len, a, LATER).after(mask).operand(to));
    }

    /// Sets every lane of `d` to `a`. The instruction cannot be masked with AVX2.
    pub(crate) fn broadcast_gpr(&mut self, s: OperandSize, len: Len, d: Vreg, a: Gpr, m: Masking) {
        if self.evex {
            let form = i38(0x7c).w(s).evex_only();
            self.emit(&Instruction::new(&"vpbroadcast", form, len, d, as_vector(a)).masked(m));
        } else {
            self.from_gpr(s, d, a);
            let form = i38(0x58 + s as u8);
            self.emit(&Instruction::new(&"vpbroadcast", form, len, d, d).masked(m));
        }
    }

    /// Sets `d` to the first lane of `a`.
    pub(crate) fn to_gpr(&mut self, s: OperandSize, d: Gpr, a: Vreg) {
        self.emit(&Instruction::new(&"vmovd", int(0x7e).w(s), Len::L128, a, as_vector(d)));
    }

    /// Sets the first lane of `d` to `a`, and the other lanes to 0.
    pub(crate) fn from_gpr(&mut self, s: OperandSize, d: Vreg, a: Gpr) {
        self.emit(&Instruction::new(&"vmovd", int(0x6e).w(s), Len::L128, d, as_vector(a)));
    }

    /// Sets `d` to the `n`-th 128 bits of `a`.
    pub(crate) fn extract128(&mut self, d: Vreg, a: Vreg, n: u8) {
        debug_assert!(n < 4, "vextracti128 of part {n}");
        let len = if n < 2 { Len::L256 } else { Len::L512 };
        self.emit(&Instruction::new(&"vextracti128", i3a(0x39), len, a, d).imm(n));
    }

    /// Sets `d` to the `n`-th 256 bits of `a` (AVX-512).
    pub(crate) fn extract256(&mut self, d: Vreg, a: Vreg, n: u8) {
        debug_assert!(n < 2, "vextracti64x4 of part {n}");
        let form = i3a(0x3b).q().evex_only();
        self.emit(&Instruction::new(&"vextracti64x4", form, Len::L512, a, d).imm(n));
    }

    /// Sets `d` to a copy of `a` (of length `len`) whose `n`-th 128 bits are replaced by `b`.
    pub(crate) fn insert128(&mut self, len: Len, d: Vreg, a: Vreg, b: Vreg, n: u8) {
        debug_assert!(usize::from(n) < len.bytes() / 16, "vinserti128 of part {n}");
        self.emit(&Instruction::new(&"vinserti128", i3a(0x38).from256(), len, d, b).after(a).imm(n));
    }

    /// Sets `d` to a copy of the 512 bits of `a` whose `n`-th half is replaced by `b` (AVX-512).
    pub(crate) fn insert256(&mut self, d: Vreg, a: Vreg, b: Vreg, n: u8) {
        debug_assert!(n < 2, "vinserti64x4 of part {n}");
        let form = i3a(0x3a).q().evex_only();
        self.emit(&Instruction::new(&"vinserti64x4", form, Len::L512, d, b).after(a).imm(n));
    }

    /// Loads the lanes in `k` from their addresses, and clears `k`. `len`: the length of the data (AVX-512).
    pub(crate) fn gather(&mut self, op: Gather, len: Len, d: Vreg, from: VecMem, k: Kreg) {
        self.needs_evex(&op);
        debug_assert!(d != from.index, "{op:?}: the destination is the index");
        self.emit(&indexed(&op, op.form(), with_index(op, len), d, from).masked(Masking::Merge(k)));
    }

    /// Stores the lanes in `k` to their addresses, in lane order, and clears `k`. `len`: the length of the data
    /// (AVX-512).
    pub(crate) fn scatter(&mut self, op: Gather, len: Len, to: VecMem, a: Vreg, k: Kreg) {
        self.needs_evex(&op);
        self.emit(&indexed(&op, scattering(op), with_index(op, len), a, to).masked(Masking::Merge(k)));
    }

    /// Loads the lanes whose sign bit is set in `mask` from their addresses, and clears `mask`. `len`: the length of
    /// the data (AVX2).
    pub(crate) fn gather_vex(&mut self, op: Gather, len: Len, d: Vreg, from: VecMem, mask: Vreg) {
        debug_assert!(!self.evex, "{op:?} by a vector needs AVX2");
        let distinct = d != from.index && d != mask && mask != from.index;
        debug_assert!(distinct, "{op:?}: destination, index and mask are not three registers");
        self.emit(&indexed(&op, op.form(), with_index(op, len), d, from).after(mask));
    }
}

fn indexed<'a>(op: &'a Gather, form: InstructionEncoding, len: Len, data: Vreg, at: VecMem) -> Instruction<'a> {
    Instruction::new(op, form, len, data, LATER).operand(AsmOperand::Mem(AddressOperand::from(at)))
}
