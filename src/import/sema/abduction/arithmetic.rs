//! Arithmetic on polynomials of sizes: quotients and remainders become symbols with limits.

use super::super::index_limits::{IndexBound, LimitOrigin};
use super::super::polynomial::{SizePolynomial, divide};
use super::Abduction;
use crate::source::SourceSpan;

/// The maximum number of quotients of a kernel whose bounds are computed.
const MAX_BOUNDED_QUOTIENTS: u32 = 10_000;

impl Abduction<'_> {
    pub(super) fn arithmetic(
        &mut self,
        op: &str,
        left: &SizePolynomial,
        right: &SizePolynomial,
    ) -> Option<SizePolynomial> {
        match op {
            "+" => left.plus(right),
            "-" => left.minus(right),
            "*" => left.times(right),
            "<<" => left.times(&SizePolynomial::number(1i128.checked_shl(u32::try_from(right.as_number()?).ok()?)?)),
            "/" => self.quotient(left, right),
            ">>" => {
                let power = 1i128.checked_shl(u32::try_from(right.as_number()?).ok()?)?;
                self.quotient(left, &SizePolynomial::number(power))
            }
            "%" | "&" => {
                // `a % b` and `a & m` are at most `b - 1` and `m`.
                let most = if op == "%" { right.plus(&SizePolynomial::number(-1))? } else { right.clone() };
                let is_limit = op == "%" || most.as_number().is_some_and(|most| most >= 0);
                let varies = self.any_varies(&[left, right]);
                let result = is_limit.then(|| self.limited(&[&most], LimitOrigin::Arithmetic, varies))?;
                if op == "%"
                    && let Some(quotient) = self.quotient(left, right)
                {
                    // The dividend is the sum of the remainder and a multiple of the divisor.
                    let whole = quotient.times(right)?.plus(&result)?;
                    self.limit_by(&whole, left);
                }
                Some(result)
            }
            "min" => {
                let varies = self.any_varies(&[left, right]);
                Some(self.limited(&[left, right], LimitOrigin::Arithmetic, varies))
            }
            _ => None,
        }
    }

    /// Returns the quotient of two values, rounded down. `None` if the divisor is not positive for positive sizes.
    fn quotient(&mut self, left: &SizePolynomial, right: &SizePolynomial) -> Option<SizePolynomial> {
        if right == &SizePolynomial::default() || right.terms().any(|(_, by)| by < 0) {
            return None;
        }
        // `n / size` with `int size = blockDim.x * gridDim.x`
        let right = &self.expanded(right)?;
        let key = (left.clone(), right.clone());
        let quotient = match self.quotients.get(&key) {
            Some(known) => *known,
            None => {
                let new = self.new_symbol(None);
                let varies = self.any_varies(&[left, right]);
                let info = self.info(new);
                (info.varies, info.quotient) = (varies, Some(key.clone()));
                self.quotients.insert(key, new);
                self.limit_by(&SizePolynomial::symbol(new).times(right)?, left);
                new
            }
        };
        Some(SizePolynomial::symbol(quotient))
    }

    /// Notes that a value is at most another one, everywhere.
    fn limit_by(&mut self, left: &SizePolynomial, right: &SizePolynomial) {
        let fact = self.inequality(left, right, 0, SourceSpan::default(), LimitOrigin::Arithmetic);
        self.limits.extend(fact);
    }

    /// Replaces a quotient in a bound by the quotient of the dividend's bound. `None` if the bound has no quotient, or
    /// the dividend no bound that is a multiple of the divisor.
    pub(super) fn with_bounded_quotient(&self, mut bound: IndexBound) -> Option<IndexBound> {
        let (symbol, quotient, dividend) = bound.most.symbols().find_map(|symbol| {
            let (dividend, divisor) = self.symbols[symbol.0 as usize].quotient.as_ref()?;
            let count = self.bounded_quotients.get() + 1;
            self.bounded_quotients.set(count);
            let dividend = if count <= MAX_BOUNDED_QUOTIENTS { self.bound(dividend)? } else { return None };
            Some((symbol, floor_quotient(&dividend.most, divisor)?, dividend))
        })?;
        bound.most = bound.most.substitute(symbol, &quotient)?;
        bound.source = bound.source.or(dividend.source);
        bound.used.extend(dividend.used);
        bound.from_launch |= dividend.from_launch;
        bound.from_block |= dividend.from_block;
        Some(bound)
    }
}

/// Returns the quotient of two polynomials, rounded down, for a divisor of one term.
fn floor_quotient(dividend: &SizePolynomial, divisor: &SizePolynomial) -> Option<SizePolynomial> {
    let (factors, by) = divisor.terms().next().filter(|_| divisor.terms().count() == 1)?;
    let (mut quotient, mut rest) = (SizePolynomial::default(), SizePolynomial::default());
    for (monomial, coefficient) in dividend.terms() {
        match divide(monomial, factors) {
            Some(own) if coefficient % by == 0 => {
                quotient = quotient.plus(&SizePolynomial::term(own, coefficient / by))?;
            }
            _ => rest = rest.plus(&SizePolynomial::term(monomial.clone(), coefficient))?,
        }
    }
    if rest.terms().any(|(_, coefficient)| coefficient > 0) {
        return None;
    }
    quotient.plus(&SizePolynomial::number(if rest.constant() < 0 { -1 } else { 0 }))
}
