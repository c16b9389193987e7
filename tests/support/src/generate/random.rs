//! Random choices, determined by a seed.

use clk_ir::def::Ty;
use clk_scalar::philox::Philox;
use clk_scalar::{Scalar, ScalarValue};

pub struct Random {
    stream: Philox,
    next: u64,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random { stream: Philox::new(seed), next: 0 }
    }

    pub fn word(&mut self) -> u64 {
        self.next += 1;
        self.stream.word64(self.next)
    }

    pub fn next_below(&mut self, bound: usize) -> usize {
        (self.word() % bound.max(1) as u64) as usize
    }

    pub fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.next_below(high - low + 1)
    }

    /// Returns true with probability 1 / `n`.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.next_below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.next_below(items.len())]
    }

    pub fn scalar(&mut self) -> Scalar {
        match self.next_below(8) {
            0 | 1 => Scalar::I32,
            2 | 3 => Scalar::F32,
            _ => self.pick(&Scalar::ALL),
        }
    }

    pub fn number(&mut self) -> Scalar {
        match self.scalar() {
            Scalar::Bool => Scalar::I32,
            scalar => scalar,
        }
    }

    pub fn integer(&mut self) -> Scalar {
        use Scalar::*;
        self.pick(&[I32, I32, I32, U32, I8, I16, I64, U8, U16, U64])
    }

    pub fn float(&mut self) -> Scalar {
        use Scalar::*;
        self.pick(&[F32, F32, F32, F64, F16, Bf16])
    }

    pub fn ty(&mut self) -> Ty {
        if self.one_in(5) { Ty::Vector(self.number(), self.between(2, 4) as u8) } else { Ty::Scalar(self.scalar()) }
    }

    /// Returns a random value: small numbers, numbers at the limits of the type, and arbitrary bits.
    pub fn value(&mut self, ty: Scalar) -> ScalarValue {
        match self.next_below(4) {
            0 => ScalarValue::from_bits(ty, self.word()),
            1 => self.edge(ty),
            _ => ScalarValue::of(self.next_below(25) as i32 - 8).to_type(ty),
        }
    }

    fn edge(&mut self, ty: Scalar) -> ScalarValue {
        let word = self.word();
        if ty.is_float() {
            let edges = [0.0, -0.0, 0.5, -0.5, 1.5, 1e-8, 1e4, 3e38, -7.25, f64::INFINITY, f64::NAN, f64::NEG_INFINITY];
            let value = ScalarValue::of(edges[word as usize % edges.len()]).to_type(ty);
            // Sometimes returns a subnormal number next to zero.
            if word >> 60 == 0 { ScalarValue::from_bits(ty, word >> 32 & 3) } else { value }
        } else {
            // Returns integers around 0, and around the middle of the unsigned range.
            let middle = if word & 1 == 0 { 0 } else { 1u64 << (ty.bits() - 1) };
            ScalarValue::from_bits(ty, middle.wrapping_add(word >> 32 & 3).wrapping_sub(2))
        }
    }
}
