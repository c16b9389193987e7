//! Tests of the assembler. An independent decoder decodes each encoded instruction, and the tests compare its name,
//! operands, mask and length with the expected ones.
//!
//! [`scalar`], [`vector`], [`transfer`] and [`mask`] test every instruction with many operands. [`labels`] tests labels
//! and constants. [`execution`] runs assembled code.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};

use super::*;

mod execution;
mod labels;
mod mask;
mod scalar;
mod transfer;
mod vector;

/// An expected or decoded operand.
#[derive(Clone, Debug, PartialEq, Eq)]
enum ExpectedOperand {
    /// A register of any kind.
    Reg(Register),
    Mem {
        base: Register,
        index: Register,
        scale: u32,
        disp: i64,
    },
    /// A pool constant of this number of bytes, located after the code.
    Const(usize),
    Imm(u64),
}

/// An expected or decoded instruction.
#[derive(Debug, PartialEq, Eq)]
struct ExpectedInstruction {
    /// The mnemonic in lower case.
    name: String,
    operands: Vec<ExpectedOperand>,
    mask: Register,
    zero: bool,
    broadcast: bool,
}

impl ExpectedInstruction {
    fn new(name: &str, operands: impl Into<Vec<ExpectedOperand>>) -> ExpectedInstruction {
        ExpectedInstruction {
            name: name.to_string(),
            operands: operands.into(),
            mask: Register::None,
            zero: false,
            broadcast: false,
        }
    }

    fn masked(self, masking: Masking) -> ExpectedInstruction {
        let (mask, zero) = match masking {
            Masking::None => (Register::None, false),
            Masking::Merge(k) => (kreg(k), false),
            Masking::Zero(k) => (kreg(k), true),
        };
        ExpectedInstruction { mask, zero, ..self }
    }

    fn broadcast(self, broadcast: bool) -> ExpectedInstruction {
        ExpectedInstruction { broadcast, ..self }
    }

    /// Encodes an instruction, decodes it, and compares it with this expected instruction.
    #[track_caller]
    fn check(self, evex: bool, emit: impl FnOnce(&mut Assembler)) {
        let mut asm = Assembler::new(evex);
        emit(&mut asm);
        self.check_code(asm);
    }

    #[track_caller]
    fn check_code(self, asm: Assembler) {
        let (evex, length) = (asm.is_evex(), asm.position());
        let code = asm.finish();
        let decoded = decode(&code);
        assert!(!decoded.is_invalid(), "{self:?} is encoded as {code:02x?}, which is no instruction");
        assert_eq!(decoded.len(), length, "{self:?} is encoded as {code:02x?}, {decoded:?}");
        assert_eq!(to_expected(&decoded, code.len()), self, "{code:02x?}");
        let vectors = Register::XMM0..=Register::ZMM31;
        let is_vector =
            |want: &ExpectedOperand| matches!(want, ExpectedOperand::Reg(register) if vectors.contains(register));
        if self.operands.iter().any(is_vector) {
            let prefix = if evex { "EVEX_" } else { "VEX_" };
            assert!(format!("{:?}", decoded.code()).starts_with(prefix), "{self:?} is encoded as {code:02x?}");
        }
    }
}

fn decode(code: &[u8]) -> Instruction {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode()
}

/// Converts a decoded instruction to an expected one. `end` is the end of the pool constant after the code.
fn to_expected(decoded: &Instruction, end: usize) -> ExpectedInstruction {
    let operand = |i: u32| match decoded.op_kind(i) {
        OpKind::Register => ExpectedOperand::Reg(decoded.op_register(i)),
        OpKind::Memory if decoded.memory_base() == Register::RIP => {
            ExpectedOperand::Const(end - decoded.memory_displacement64() as usize)
        }
        OpKind::Memory => ExpectedOperand::Mem {
            base: decoded.memory_base(),
            index: decoded.memory_index(),
            scale: decoded.memory_index_scale(),
            disp: decoded.memory_displacement64() as i64,
        },
        OpKind::Immediate8to32 => ExpectedOperand::Imm(decoded.immediate(i) & 0xffff_ffff),
        _ => ExpectedOperand::Imm(decoded.immediate(i)),
    };
    ExpectedInstruction {
        name: format!("{:?}", decoded.mnemonic()).to_lowercase(),
        operands: (0..decoded.op_count()).map(operand).collect(),
        mask: decoded.op_mask(),
        zero: decoded.zeroing_masking(),
        broadcast: decoded.is_broadcast(),
    }
}

fn gpr(s: OperandSize, register: Gpr) -> Register {
    let first = if s == OperandSize::S32 { Register::EAX } else { Register::RAX };
    first + u32::from(register.0)
}

fn gpr8(register: Gpr) -> Register {
    // The decoder's enum has AH, CH, DH and BH between BL and the next low byte register.
    if register.0 < 4 { Register::AL + u32::from(register.0) } else { Register::SPL + u32::from(register.0 - 4) }
}

fn kreg(register: Kreg) -> Register {
    Register::K0 + u32::from(register.0)
}

/// Returns the decoder's name for a vector register of this size in bytes (at least 16).
fn vreg(bytes: usize, register: Vreg) -> Register {
    let first = match bytes {
        0..=16 => Register::XMM0,
        32 => Register::YMM0,
        _ => Register::ZMM0,
    };
    first + u32::from(register.0)
}

fn mem(mem: Mem) -> ExpectedOperand {
    let (index, scale) = mem.index.map_or((Register::None, 1), |(index, scale)| (gpr(OperandSize::S64, index), scale));
    ExpectedOperand::Mem { base: gpr(OperandSize::S64, mem.base), index, scale: scale.into(), disp: mem.disp.into() }
}

/// Generates pseudo-random operands.
struct OperandRandom(u64);

impl OperandRandom {
    fn new(seed: u64) -> OperandRandom {
        OperandRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn next_below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }

    fn one<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.next_below(list.len() as u64) as usize]
    }

    fn gpr(&mut self) -> Gpr {
        Gpr(self.next_below(16) as u8)
    }

    fn size(&mut self) -> OperandSize {
        self.one(&[OperandSize::S32, OperandSize::S64])
    }

    fn vreg(&mut self, evex: bool) -> Vreg {
        Vreg(self.next_below(if evex { 32 } else { 16 }) as u8)
    }

    /// Returns any mask register.
    fn kreg(&mut self) -> Kreg {
        Kreg(self.next_below(8) as u8)
    }

    /// Returns a mask register that can mask instructions, so not `k0`.
    fn mask(&mut self) -> Kreg {
        Kreg(self.next_below(7) as u8 + 1)
    }

    fn some_mask(&mut self, evex: bool) -> Option<Kreg> {
        (evex && self.next_below(2) == 0).then(|| self.mask())
    }

    fn masking(&mut self, evex: bool) -> Masking {
        match self.next_below(3) {
            1 if evex => Masking::Merge(self.mask()),
            2 if evex => Masking::Zero(self.mask()),
            _ => Masking::None,
        }
    }

    fn imm8(&mut self) -> u8 {
        self.next_below(256) as u8
    }

    fn imm32(&mut self) -> i32 {
        let any = self.next_below(1 << 32) as i32;
        self.one(&[0, 1, -1, 127, 128, -128, -129, i32::MAX, i32::MIN, any])
    }

    /// Returns a displacement: 0, a multiple of a vector's size or of a fraction of it, or an arbitrary number.
    fn disp(&mut self) -> i32 {
        let unit = self.one(&[1, 2, 4, 8, 16, 32, 64]);
        let count = self.next_below(300) as i32 - 150;
        let any = self.imm32();
        self.one(&[0, 127 * unit, 128 * unit, -128 * unit, -129 * unit, unit * count, unit * count, any])
    }

    /// Returns an address. It often has a base register with a special encoding.
    fn mem(&mut self) -> Mem {
        let any = self.gpr();
        let base = self.one(&[any, any, any, Gpr::RSP, Gpr::R12, Gpr::RBP, Gpr::R13]);
        let index = self.gpr();
        let disp = self.disp();
        match index != Gpr::RSP && self.next_below(2) == 0 {
            true => Mem::index(base, index, self.one(&[1, 2, 4, 8]), disp),
            false => Mem::at(base, disp),
        }
    }
}
