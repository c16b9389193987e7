//! Polynomials with integer coefficients, for sizes and indices.

use std::collections::BTreeMap;

/// The number of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct SizeSymbol(pub(crate) u32);

/// A product of symbols, in ascending order. The empty product is 1.
pub(crate) type Monomial = Vec<SizeSymbol>;

/// Limits on the number of terms and factors, so that work is bounded.
const MAX_TERMS: usize = 32;
const MAX_FACTORS: usize = 6;

/// A sum of products. No coefficient is 0.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct SizePolynomial(BTreeMap<Monomial, i128>);

impl SizePolynomial {
    pub(crate) fn number(value: i128) -> SizePolynomial {
        SizePolynomial::term(vec![], value)
    }

    pub(crate) fn symbol(symbol: SizeSymbol) -> SizePolynomial {
        SizePolynomial::term(vec![symbol], 1)
    }

    pub(crate) fn term(monomial: Monomial, coefficient: i128) -> SizePolynomial {
        let mut terms = BTreeMap::new();
        if coefficient != 0 {
            terms.insert(monomial, coefficient);
        }
        SizePolynomial(terms)
    }

    pub(crate) fn terms(&self) -> impl Iterator<Item = (&Monomial, i128)> {
        self.0.iter().map(|(monomial, coefficient)| (monomial, *coefficient))
    }

    pub(crate) fn coefficient(&self, monomial: &[SizeSymbol]) -> i128 {
        self.0.get(monomial).copied().unwrap_or(0)
    }

    /// Returns the term without symbols.
    pub(crate) fn constant(&self) -> i128 {
        self.coefficient(&[])
    }

    pub(crate) fn as_number(&self) -> Option<i128> {
        self.0.keys().all(Vec::is_empty).then(|| self.constant())
    }

    /// Returns the symbol if the polynomial is only that.
    pub(crate) fn as_symbol(&self) -> Option<SizeSymbol> {
        match self.0.iter().next() {
            Some((monomial, 1)) if self.0.len() == 1 && monomial.len() == 1 => Some(monomial[0]),
            _ => None,
        }
    }

    /// Returns the largest number of symbols in a product.
    pub(crate) fn degree(&self) -> usize {
        self.0.keys().map(Vec::len).max().unwrap_or(0)
    }

    pub(crate) fn symbols(&self) -> impl Iterator<Item = SizeSymbol> {
        self.0.keys().flatten().copied()
    }

    /// Returns the sum of this polynomial and `factor` times the other one.
    pub(crate) fn plus_times(&self, other: &SizePolynomial, factor: i128) -> Option<SizePolynomial> {
        let mut sum = self.0.clone();
        for (monomial, coefficient) in &other.0 {
            let known = sum.entry(monomial.clone()).or_insert(0);
            *known = known.checked_add(coefficient.checked_mul(factor)?)?;
        }
        sum.retain(|_, coefficient| *coefficient != 0);
        (sum.len() <= MAX_TERMS).then_some(SizePolynomial(sum))
    }

    pub(crate) fn plus(&self, other: &SizePolynomial) -> Option<SizePolynomial> {
        self.plus_times(other, 1)
    }

    pub(crate) fn minus(&self, other: &SizePolynomial) -> Option<SizePolynomial> {
        self.plus_times(other, -1)
    }

    pub(crate) fn times(&self, other: &SizePolynomial) -> Option<SizePolynomial> {
        let mut sum = SizePolynomial::default();
        for (left, factor) in &self.0 {
            for (right, other) in &other.0 {
                let mut monomial = [&left[..], right].concat();
                if monomial.len() > MAX_FACTORS {
                    return None;
                }
                monomial.sort();
                sum = sum.plus(&SizePolynomial::term(monomial, factor.checked_mul(*other)?))?;
            }
        }
        Some(sum)
    }

    /// Replaces a symbol.
    pub(crate) fn substitute(&self, symbol: SizeSymbol, by: &SizePolynomial) -> Option<SizePolynomial> {
        let mut sum = SizePolynomial::default();
        for (monomial, coefficient) in &self.0 {
            let mut product = SizePolynomial::number(*coefficient);
            for factor in monomial {
                let own = SizePolynomial::symbol(*factor);
                product = product.times(if *factor == symbol { by } else { &own })?;
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
