//! The assembler's buffer. Input: the bytes, labels and constants of instructions. Output: machine code in which all
//! jump and constant distances are filled in.
//!
//! Jumps and references to constants are emitted with a distance of 0 and recorded. [`Assembler::finish`] appends the
//! constants and writes the distances. The distances are relative, so the code is position-independent.

use rustc_hash::FxHashMap;

use super::operand::{CodeLabel, Mem, PoolConst, VecMem};

/// The largest alignment of a constant in bytes: that of a 512-bit register.
const MAX_ALIGN: usize = 64;

/// The padding byte between code and constants: a breakpoint instruction, in case execution runs past the end of the
/// code.
const GAP: u8 = 0xcc;

/// Assembles one function.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    /// Whether vector instructions have an EVEX prefix (AVX-512) or a VEX prefix (AVX2, FMA, F16C).
    pub(super) evex: bool,
    bytes: Vec<u8>,
    /// Positions of the labels that are bound.
    labels: Vec<Option<usize>>,
    jumps: Vec<JumpFixup>,
    constants: Vec<Box<[u8]>>,
    known: FxHashMap<Box<[u8]>, PoolConst>,
    references: Vec<ConstFixup>,
}

/// A jump whose distance must be filled in: four bytes, relative to their end.
#[derive(Debug)]
struct JumpFixup {
    at: usize,
    to: CodeLabel,
}

/// A reference to a constant whose distance must be filled in: four bytes, relative to the end of the instruction.
#[derive(Debug)]
struct ConstFixup {
    at: usize,
    end: usize,
    to: PoolConst,
}

/// An operand that may be a register or a memory address.
#[derive(Clone, Copy, Debug)]
pub(super) enum AsmOperand {
    /// A general-purpose, vector or mask register, by number.
    Reg(u8),
    Mem(AddressOperand),
    Const(PoolConst),
}

/// An address whose index is a general-purpose register or, for gathers and scatters, a vector register.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddressOperand {
    base: u8,
    index: Option<u8>,
    scale: u8,
    disp: i32,
}

impl From<Mem> for AddressOperand {
    fn from(mem: Mem) -> AddressOperand {
        debug_assert!(mem.base.0 < 16, "{mem:?}");
        debug_assert!(mem.index.is_none_or(|(index, _)| index.0 < 16 && index.0 != 4), "{mem:?}: RSP is no index");
        let (index, scale) = mem.index.map_or((None, 1), |(index, scale)| (Some(index.0), scale));
        AddressOperand { base: mem.base.0, index, scale, disp: mem.disp }
    }
}

impl From<VecMem> for AddressOperand {
    fn from(mem: VecMem) -> AddressOperand {
        debug_assert!(mem.base.0 < 16 && mem.index.0 < 32, "{mem:?}");
        AddressOperand { base: mem.base.0, index: Some(mem.index.0), scale: mem.scale, disp: mem.disp }
    }
}

impl From<Mem> for AsmOperand {
    fn from(mem: Mem) -> AsmOperand {
        AsmOperand::Mem(mem.into())
    }
}

impl AsmOperand {
    /// Returns bit 3 of the base or the register, for bit B of the prefix.
    pub(super) fn base_bit(self) -> u8 {
        match self {
            AsmOperand::Reg(register) => register >> 3 & 1,
            AsmOperand::Mem(address) => address.base >> 3 & 1,
            AsmOperand::Const(_) => 0,
        }
    }

    /// Returns bit `n` of the index, for bit X of the prefix, and bit V' if the index is a vector.
    pub(super) fn index_bit(self, n: u8) -> u8 {
        match self {
            AsmOperand::Mem(AddressOperand { index: Some(index), .. }) => index >> n & 1,
            _ => 0,
        }
    }
}

impl Assembler {
    /// Creates an assembler. If `evex` is true, it encodes vector instructions for AVX-512 (F, BW, DQ, VL, CD);
    /// otherwise, for AVX2 with FMA and F16C.
    pub(crate) fn new(evex: bool) -> Assembler {
        Assembler { evex, ..Assembler::default() }
    }

    /// Returns whether vector instructions are encoded for AVX-512.
    pub(crate) fn is_evex(&self) -> bool {
        self.evex
    }

    /// Creates a label that is not bound to a position yet.
    pub(crate) fn label(&mut self) -> CodeLabel {
        self.labels.push(None);
        CodeLabel(self.labels.len() as u32 - 1)
    }

    /// Binds a label to the current position.
    pub(crate) fn bind(&mut self, label: CodeLabel) {
        let position = self.position();
        let old = self.labels[label.0 as usize].replace(position);
        debug_assert!(old.is_none(), "{label:?} is bound twice");
    }

    /// Returns the number of bytes of code so far.
    pub(crate) fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a constant to the pool. Its size must be a power of two of at most 64 bytes. The constant is aligned to its
    /// size.
    pub(crate) fn constant(&mut self, bytes: &[u8]) -> PoolConst {
        debug_assert!(bytes.len().is_power_of_two() && bytes.len() <= MAX_ALIGN, "a constant of {} bytes", bytes.len());
        if let Some(&known) = self.known.get(bytes) {
            return known;
        }
        let new = PoolConst(self.constants.len() as u32);
        self.constants.push(bytes.into());
        self.known.insert(bytes.into(), new);
        new
    }

    /// Appends the constants, fills in all distances, and returns the code. The caller must place the code at an
    /// address that is aligned to 64 bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        for jump in std::mem::take(&mut self.jumps) {
            let target = self.labels[jump.to.0 as usize];
            debug_assert!(target.is_some(), "{:?} is not bound", jump.to);
            self.set_distance(jump.at, jump.at + 4, target.unwrap_or(jump.at + 4));
        }
        let places = self.append_constants();
        for reference in std::mem::take(&mut self.references) {
            self.set_distance(reference.at, reference.end, places[reference.to.0 as usize]);
        }
        self.bytes
    }

    /// Appends the constants, largest first, so that only the first one needs padding. Returns their positions.
    fn append_constants(&mut self) -> Vec<usize> {
        let constants = std::mem::take(&mut self.constants);
        let mut order: Vec<usize> = (0..constants.len()).collect();
        order.sort_by_key(|&i| std::cmp::Reverse(constants[i].len()));
        let mut places = vec![0; constants.len()];
        for i in order {
            self.bytes.resize(self.bytes.len().next_multiple_of(constants[i].len()), GAP);
            places[i] = self.bytes.len();
            self.bytes.extend_from_slice(&constants[i]);
        }
        places
    }

    fn set_distance(&mut self, at: usize, from: usize, to: usize) {
        let distance = i32::try_from(to as i64 - from as i64).expect("less than 2 GB of code");
        self.bytes[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }

    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(super) fn emit_bytes(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Emits the distance to a label, as the last bytes of the instruction.
    pub(super) fn distance(&mut self, to: CodeLabel) {
        self.jumps.push(JumpFixup { at: self.position(), to });
        self.emit_bytes(&[0; 4]);
    }

    /// Emits the ModRM byte, the SIB byte and the displacement. `unit`: the scale of one-byte displacements with an
    /// EVEX prefix, otherwise 1. `behind`: the number of instruction bytes after the displacement.
    pub(super) fn modrm(&mut self, reg: u8, operand: AsmOperand, unit: i32, behind: usize) {
        let reg = (reg & 7) << 3;
        match operand {
            AsmOperand::Reg(register) => self.byte(0xc0 | reg | register & 7),
            AsmOperand::Mem(address) => self.address(reg, address, unit),
            AsmOperand::Const(to) => {
                // An address without a base is relative to the end of the instruction (RIP-relative).
                self.byte(reg | 5);
                let at = self.position();
                self.references.push(ConstFixup { at, end: at + 4 + behind, to });
                self.emit_bytes(&[0; 4]);
            }
        }
    }

    fn address(&mut self, reg: u8, address: AddressOperand, unit: i32) {
        let base = address.base & 7;
        let short = (address.disp % unit == 0).then(|| i8::try_from(address.disp / unit).ok()).flatten();
        // RBP and R13 as the base require a displacement: the encoding without one means "no base".
        let mode = match short {
            Some(0) if base != 5 => 0,
            Some(_) => 0x40,
            None => 0x80,
        };
        match address.index {
            Some(index) => {
                debug_assert!(matches!(address.scale, 1 | 2 | 4 | 8), "{address:?}");
                self.byte(mode | reg | 4);
                self.byte((address.scale.trailing_zeros() as u8) << 6 | (index & 7) << 3 | base);
            }
            // RSP and R12 as the base require a SIB byte, in which RSP as the index means "no index".
            None if base == 4 => self.emit_bytes(&[mode | reg | 4, 0x24]),
            None => self.byte(mode | reg | base),
        }
        match (mode, short) {
            (0, _) => {}
            (_, Some(short)) => self.byte(short as u8),
            (_, None) => self.emit_bytes(&address.disp.to_le_bytes()),
        }
    }
}
