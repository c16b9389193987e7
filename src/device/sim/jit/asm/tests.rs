//! Encoded instructions, decoded again by an independent decoder: names, operands, masks and lengths are what was asked for.
//!
//! [`scalar`], [`vector`], [`transfer`], [`mask`]: every instruction with many operands; [`layout`]: labels and constants; [`run`]:
//! code that is executed.

use iced_x86::{Decoder, DecoderOptions, Instruction, OpKind, Register};

use super::*;

mod layout;
mod mask;
mod run;
mod scalar;
mod transfer;
mod vector;

/// An operand as it is expected or was decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Want {
    /// A register of any kind.
    Reg(Register),
    Mem {
        base: Register,
        index: Register,
        scale: u32,
        disp: i64,
    },
    /// A constant of this many bytes, behind the code.
    Const(usize),
    Imm(u64),
}

/// An instruction as it is expected or was decoded.
#[derive(Debug, PartialEq, Eq)]
struct Wanted {
    /// In lower case.
    name: String,
    operands: Vec<Want>,
    mask: Register,
    zero: bool,
    broadcast: bool,
}

impl Wanted {
    fn new(name: &str, operands: impl Into<Vec<Want>>) -> Wanted {
        Wanted {
            name: name.to_string(),
            operands: operands.into(),
            mask: Register::None,
            zero: false,
            broadcast: false,
        }
    }

    fn masked(self, masking: Masking) -> Wanted {
        let (mask, zero) = match masking {
            Masking::None => (Register::None, false),
            Masking::Merge(k) => (kreg(k), false),
            Masking::Zero(k) => (kreg(k), true),
        };
        Wanted { mask, zero, ..self }
    }

    fn broadcast(self, broadcast: bool) -> Wanted {
        Wanted { broadcast, ..self }
    }

    /// Encodes an instruction, decodes it, and compares.
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
        assert_eq!(wanted(&decoded, code.len()), self, "{code:02x?}");
        let vectors = Register::XMM0..=Register::ZMM31;
        let is_vector = |want: &Want| matches!(want, Want::Reg(register) if vectors.contains(register));
        if self.operands.iter().any(is_vector) {
            let prefix = if evex { "EVEX_" } else { "VEX_" };
            assert!(format!("{:?}", decoded.code()).starts_with(prefix), "{self:?} is encoded as {code:02x?}");
        }
    }
}

fn decode(code: &[u8]) -> Instruction {
    Decoder::with_ip(64, code, 0, DecoderOptions::NONE).decode()
}

/// Returns what was decoded; `end` is where the constant behind the code ends.
fn wanted(decoded: &Instruction, end: usize) -> Wanted {
    let operand = |i: u32| match decoded.op_kind(i) {
        OpKind::Register => Want::Reg(decoded.op_register(i)),
        OpKind::Memory if decoded.memory_base() == Register::RIP => {
            Want::Const(end - decoded.memory_displacement64() as usize)
        }
        OpKind::Memory => Want::Mem {
            base: decoded.memory_base(),
            index: decoded.memory_index(),
            scale: decoded.memory_index_scale(),
            disp: decoded.memory_displacement64() as i64,
        },
        OpKind::Immediate8to32 => Want::Imm(decoded.immediate(i) & 0xffff_ffff),
        _ => Want::Imm(decoded.immediate(i)),
    };
    Wanted {
        name: format!("{:?}", decoded.mnemonic()).to_lowercase(),
        operands: (0..decoded.op_count()).map(operand).collect(),
        mask: decoded.op_mask(),
        zero: decoded.zeroing_masking(),
        broadcast: decoded.is_broadcast(),
    }
}

fn gpr(s: Size, register: Gpr) -> Register {
    let first = if s == Size::S32 { Register::EAX } else { Register::RAX };
    first + u32::from(register.0)
}

fn gpr8(register: Gpr) -> Register {
    // After BL come AH, CH, DH and BH.
    if register.0 < 4 { Register::AL + u32::from(register.0) } else { Register::SPL + u32::from(register.0 - 4) }
}

fn kreg(register: Kreg) -> Register {
    Register::K0 + u32::from(register.0)
}

/// A register of this many bytes, and at least 16.
fn vreg(bytes: usize, register: Vreg) -> Register {
    let first = match bytes {
        0..=16 => Register::XMM0,
        32 => Register::YMM0,
        _ => Register::ZMM0,
    };
    first + u32::from(register.0)
}

fn mem(mem: Mem) -> Want {
    let (index, scale) = mem.index.map_or((Register::None, 1), |(index, scale)| (gpr(Size::S64, index), scale));
    Want::Mem { base: gpr(Size::S64, mem.base), index, scale: scale.into(), disp: mem.disp.into() }
}

/// Pseudo-random operands.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) % n
    }

    fn one<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }

    fn gpr(&mut self) -> Gpr {
        Gpr(self.below(16) as u8)
    }

    fn size(&mut self) -> Size {
        self.one(&[Size::S32, Size::S64])
    }

    fn vreg(&mut self, evex: bool) -> Vreg {
        Vreg(self.below(if evex { 32 } else { 16 }) as u8)
    }

    /// Any mask register.
    fn kreg(&mut self) -> Kreg {
        Kreg(self.below(8) as u8)
    }

    /// A mask register that can mask.
    fn mask(&mut self) -> Kreg {
        Kreg(self.below(7) as u8 + 1)
    }

    fn some_mask(&mut self, evex: bool) -> Option<Kreg> {
        (evex && self.below(2) == 0).then(|| self.mask())
    }

    fn masking(&mut self, evex: bool) -> Masking {
        match self.below(3) {
            1 if evex => Masking::Merge(self.mask()),
            2 if evex => Masking::Zero(self.mask()),
            _ => Masking::None,
        }
    }

    fn imm8(&mut self) -> u8 {
        self.below(256) as u8
    }

    fn imm32(&mut self) -> i32 {
        let any = self.below(1 << 32) as i32;
        self.one(&[0, 1, -1, 127, 128, -128, -129, i32::MAX, i32::MIN, any])
    }

    /// A displacement: none, one that is a multiple of a vector's size or part of it, or any.
    fn disp(&mut self) -> i32 {
        let unit = self.one(&[1, 2, 4, 8, 16, 32, 64]);
        let count = self.below(300) as i32 - 150;
        let any = self.imm32();
        self.one(&[0, 127 * unit, 128 * unit, -128 * unit, -129 * unit, unit * count, unit * count, any])
    }

    /// An address; bases with an encoding of their own come often.
    fn mem(&mut self) -> Mem {
        let any = self.gpr();
        let base = self.one(&[any, any, any, Gpr::RSP, Gpr::R12, Gpr::RBP, Gpr::R13]);
        let index = self.gpr();
        let disp = self.disp();
        match index != Gpr::RSP && self.below(2) == 0 {
            true => Mem::index(base, index, self.one(&[1, 2, 4, 8]), disp),
            false => Mem::at(base, disp),
        }
    }
}
