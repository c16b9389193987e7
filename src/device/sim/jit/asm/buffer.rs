//! The assembler's buffer. Input: bytes, labels and constants of the instructions. Output: the code with all distances filled in.
//!
//! Jumps and references to constants are emitted with a distance of 0 and noted; [`Assembler::finish`] appends the constants and
//! writes the distances, which are relative and thus independent of the address where the code will run.

use rustc_hash::FxHashMap;

use super::operand::{Const, Label, Mem, VecMem};

/// The largest alignment of a constant in bytes: a 512-bit register.
const MAX_ALIGN: usize = 64;

/// Fills the gap between code and constants: a breakpoint, for whoever runs past the end.
const GAP: u8 = 0xcc;

/// Assembles one piece of code.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    /// Vector instructions have an EVEX prefix (AVX-512); otherwise a VEX prefix (AVX2, FMA, F16C).
    pub(super) evex: bool,
    bytes: Vec<u8>,
    /// Positions of the labels that are bound.
    labels: Vec<Option<usize>>,
    jumps: Vec<Jump>,
    constants: Vec<Box<[u8]>>,
    known: FxHashMap<Box<[u8]>, Const>,
    references: Vec<Reference>,
}

/// Four bytes of distance from their end to a label.
#[derive(Debug)]
struct Jump {
    at: usize,
    to: Label,
}

/// Four bytes of distance from the end of their instruction to a constant.
#[derive(Debug)]
struct Reference {
    at: usize,
    end: usize,
    to: Const,
}

/// The operand of an instruction that may be a register or in memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operand {
    /// A register of any kind.
    Reg(u8),
    Mem(Address),
    Const(Const),
}

/// An address whose index is a register of any kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct Address {
    base: u8,
    index: Option<u8>,
    scale: u8,
    disp: i32,
}

impl From<Mem> for Address {
    fn from(mem: Mem) -> Address {
        debug_assert!(mem.base.0 < 16, "{mem:?}");
        debug_assert!(mem.index.is_none_or(|(index, _)| index.0 < 16 && index.0 != 4), "{mem:?}: RSP is no index");
        let (index, scale) = mem.index.map_or((None, 1), |(index, scale)| (Some(index.0), scale));
        Address { base: mem.base.0, index, scale, disp: mem.disp }
    }
}

impl From<VecMem> for Address {
    fn from(mem: VecMem) -> Address {
        debug_assert!(mem.base.0 < 16 && mem.index.0 < 32, "{mem:?}");
        Address { base: mem.base.0, index: Some(mem.index.0), scale: mem.scale, disp: mem.disp }
    }
}

impl From<Mem> for Operand {
    fn from(mem: Mem) -> Operand {
        Operand::Mem(mem.into())
    }
}

impl Operand {
    /// Bit 3 of the base or of the register: the prefix' bit B.
    pub(super) fn base_bit(self) -> u8 {
        match self {
            Operand::Reg(register) => register >> 3 & 1,
            Operand::Mem(address) => address.base >> 3 & 1,
            Operand::Const(_) => 0,
        }
    }

    /// Bit `n` of the index: the prefix' bit X, and V' of a vector as the index.
    pub(super) fn index_bit(self, n: u8) -> u8 {
        match self {
            Operand::Mem(Address { index: Some(index), .. }) => index >> n & 1,
            _ => 0,
        }
    }
}

impl Assembler {
    /// Creates an assembler that encodes vector instructions for AVX-512 (F, BW, DQ, VL, CD), or else for AVX2 with FMA and F16C.
    pub(crate) fn new(evex: bool) -> Assembler {
        Assembler { evex, ..Assembler::default() }
    }

    /// Returns whether vector instructions are encoded for AVX-512.
    pub(crate) fn is_evex(&self) -> bool {
        self.evex
    }

    /// Creates a label.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Places a label here.
    pub(crate) fn bind(&mut self, label: Label) {
        let position = self.position();
        let old = self.labels[label.0 as usize].replace(position);
        debug_assert!(old.is_none(), "{label:?} is bound twice");
    }

    /// Returns the number of bytes of code so far.
    pub(crate) fn position(&self) -> usize {
        self.bytes.len()
    }

    /// Returns a constant with these bytes, whose number is a power of two up to 64 and its alignment.
    pub(crate) fn constant(&mut self, bytes: &[u8]) -> Const {
        debug_assert!(bytes.len().is_power_of_two() && bytes.len() <= MAX_ALIGN, "a constant of {} bytes", bytes.len());
        if let Some(&known) = self.known.get(bytes) {
            return known;
        }
        let new = Const(self.constants.len() as u32);
        self.constants.push(bytes.into());
        self.known.insert(bytes.into(), new);
        new
    }

    /// Appends the constants, fills in all distances and returns the code. The code expects an address aligned to 64 bytes.
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

    /// Appends the constants, the largest first, so that only the first one needs a gap for its alignment. Returns their places.
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

    pub(super) fn put(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// Emits the distance to a label, which ends the instruction.
    pub(super) fn distance(&mut self, to: Label) {
        self.jumps.push(Jump { at: self.position(), to });
        self.put(&[0; 4]);
    }

    /// Emits ModRM, SIB and displacement. `unit`: what an EVEX prefix counts displacements of one byte in, otherwise 1.
    /// `behind`: how many bytes of the instruction follow.
    pub(super) fn modrm(&mut self, reg: u8, operand: Operand, unit: i32, behind: usize) {
        let reg = (reg & 7) << 3;
        match operand {
            Operand::Reg(register) => self.byte(0xc0 | reg | register & 7),
            Operand::Mem(address) => self.address(reg, address, unit),
            Operand::Const(to) => {
                // Without a base, an address is relative to the end of the instruction.
                self.byte(reg | 5);
                let at = self.position();
                self.references.push(Reference { at, end: at + 4 + behind, to });
                self.put(&[0; 4]);
            }
        }
    }

    fn address(&mut self, reg: u8, address: Address, unit: i32) {
        let base = address.base & 7;
        let short = (address.disp % unit == 0).then(|| i8::try_from(address.disp / unit).ok()).flatten();
        // The encodings of RBP and R13 without displacement stand for no base.
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
            // The encodings of RSP and R12 as a base stand for a SIB byte; RSP as the index there means none.
            None if base == 4 => self.put(&[mode | reg | 4, 0x24]),
            None => self.byte(mode | reg | base),
        }
        match (mode, short) {
            (0, _) => {}
            (_, Some(short)) => self.byte(short as u8),
            (_, None) => self.put(&address.disp.to_le_bytes()),
        }
    }
}
