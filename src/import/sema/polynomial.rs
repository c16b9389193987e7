//! Polynomials with integer coefficients, for sizes and indices.

use clk_base::affine::Affine;

/// The number of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SizeSymbol(pub(crate) u32);

/// A product of symbols, in ascending order. The empty product is 1.
pub(crate) type Monomial = Vec<SizeSymbol>;

/// Limits on the number of terms and factors, so that work is bounded.
const MAX_TERMS: usize = 32;
const MAX_FACTORS: usize = 6;

/// A sum of products: an affine form whose variables are products of symbols. Its constant is the coefficient of the
/// empty product.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SizePolynomial(Affine<Monomial>);

impl SizePolynomial {
    pub(crate) fn number(value: i128) -> SizePolynomial {
        SizePolynomial::term(vec![], value)
    }

    pub(crate) fn symbol(symbol: SizeSymbol) -> SizePolynomial {
        SizePolynomial::term(vec![symbol], 1)
    }

    pub(crate) fn term(monomial: Monomial, coefficient: i128) -> SizePolynomial {
        SizePolynomial(Affine::term(monomial, coefficient))
    }

    pub(crate) fn terms(&self) -> impl Iterator<Item = (&Monomial, i128)> {
        self.0.terms().iter().map(|(monomial, coefficient)| (monomial, *coefficient))
    }

    pub(crate) fn coefficient(&self, monomial: &[SizeSymbol]) -> i128 {
        self.0.coefficient(monomial)
    }

    /// Returns the term without symbols.
    pub(crate) fn constant(&self) -> i128 {
        self.coefficient(&[])
    }

    pub(crate) fn as_number(&self) -> Option<i128> {
        (self.degree() == 0).then(|| self.constant())
    }

    /// Returns the symbol if the polynomial is only that.
    pub(crate) fn as_symbol(&self) -> Option<SizeSymbol> {
        match self.0.as_variable().map(Vec::as_slice) {
            Some(&[symbol]) => Some(symbol),
            _ => None,
        }
    }

    /// Returns whether the terms show that the value is not negative if all symbols are at least 1: each negative term
    /// is covered by positive ones that are multiples of it.
    pub(crate) fn is_nonnegative(&self) -> bool {
        let mut positive: Vec<(&Monomial, i128)> = self.terms().filter(|(_, by)| *by > 0).collect();
        let mut negative = self.terms().filter(|(_, by)| *by < 0);
        negative.all(|(monomial, by)| {
            let mut missing = by;
            for (multiple, left) in &mut positive {
                if missing < 0 && divide(multiple, monomial).is_some() {
                    let used = (*left).min(-missing);
                    *left -= used;
                    missing += used;
                }
            }
            missing >= 0
        })
    }

    /// Returns the largest number of symbols in a product.
    pub(crate) fn degree(&self) -> usize {
        self.terms().map(|(monomial, _)| monomial.len()).max().unwrap_or(0)
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = SizeSymbol> {
        self.terms().flat_map(|(monomial, _)| monomial).copied()
    }

    /// Returns the sum of this polynomial and `factor` times the other one.
    pub(crate) fn plus_times(&self, other: &SizePolynomial, factor: i128) -> Option<SizePolynomial> {
        SizePolynomial::limited(self.0.add_scaled(&other.0, factor)?)
    }

    /// Returns a polynomial unless it has too many terms.
    fn limited(sum: Affine<Monomial>) -> Option<SizePolynomial> {
        (sum.terms().len() <= MAX_TERMS).then_some(SizePolynomial(sum))
    }

    pub(crate) fn plus(&self, other: &SizePolynomial) -> Option<SizePolynomial> {
        self.plus_times(other, 1)
    }

    pub(crate) fn minus(&self, other: &SizePolynomial) -> Option<SizePolynomial> {
        self.plus_times(other, -1)
    }

    pub(crate) fn times(&self, other: &SizePolynomial) -> Option<SizePolynomial> {
        let product = |left: &Monomial, right: &Monomial| {
            let mut product = [&left[..], right].concat();
            product.sort();
            (product.len() <= MAX_FACTORS).then_some(product)
        };
        SizePolynomial::limited(self.0.multiply(&other.0, product)?)
    }

    /// Replaces a symbol.
    pub(crate) fn substitute(&self, symbol: SizeSymbol, by: &SizePolynomial) -> Option<SizePolynomial> {
        self.substitute_all(|own| Some(if own == symbol { by.clone() } else { SizePolynomial::symbol(own) }))
    }

    /// Replaces each symbol `s` by `by(s)`.
    pub(crate) fn substitute_all(&self, by: impl Fn(SizeSymbol) -> Option<SizePolynomial>) -> Option<SizePolynomial> {
        let mut sum = SizePolynomial::default();
        for (monomial, coefficient) in self.terms() {
            let mut product = SizePolynomial::number(coefficient);
            for symbol in monomial {
                product = product.times(&by(*symbol)?)?;
            }
            sum = sum.plus(&product)?;
        }
        Some(sum)
    }
}

/// Returns the quotient of two products of symbols, if the second one divides the first one.
pub(crate) fn divide(dividend: &[SizeSymbol], divisor: &[SizeSymbol]) -> Option<Monomial> {
    let mut rest = dividend.to_vec();
    for symbol in divisor {
        let at = rest.iter().position(|known| known == symbol)?;
        rest.remove(at);
    }
    Some(rest)
}
