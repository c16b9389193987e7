//! Arithmetic of host code with sizes: integers are polynomials in unknown variables.

use super::host_code::HostScan;
use super::host_values::*;
use super::polynomial::SizePolynomial;
use crate::ast::CppBinaryOp;

impl HostScan<'_, '_> {
    pub(super) fn arithmetic(&mut self, op: CppBinaryOp, left: HostCodeValue, right: HostCodeValue) -> HostCodeValue {
        use CppBinaryOp::*;
        let ((left, left_ty), (right, right_ty)) = match (left, right) {
            (HostCodeValue::Int(left, left_ty), HostCodeValue::Int(right, right_ty)) => {
                ((left, left_ty), (right, right_ty))
            }
            // A pointer to another element of the allocation.
            (HostCodeValue::Buffer { id, .. }, HostCodeValue::Int(..)) if matches!(op, Add | Sub) => {
                return HostCodeValue::Buffer { id, bytes: None };
            }
            (HostCodeValue::Int(..), HostCodeValue::Buffer { id, .. }) if op == Add => {
                return HostCodeValue::Buffer { id, bytes: None };
            }
            _ => return HostCodeValue::Unknown,
        };
        let ty = match op {
            Shl | Shr => left_ty,
            And | Or | Eq | Ne | Lt | Le | Gt | Ge => HostInt::INT,
            _ => left_ty.common(right_ty),
        };
        let shifts = matches!(op, Shl | Shr);
        let operands = self.found.converted(&left, left_ty, ty).zip(if shifts {
            Some(right)
        } else {
            self.found.converted(&right, right_ty, ty)
        });
        let Some((left, right)) = operands else { return self.new_int(ty) };
        let number = |value: &SizePolynomial| self.found.number(value);
        let exact = match op {
            Add => left.plus(&right),
            Sub => left.minus(&right),
            Mul => left.times(&right),
            Shl => number(&right)
                .and_then(|by| 1i128.checked_shl(u32::try_from(by).ok().filter(|by| *by < 63)?))
                .and_then(|by| left.times(&SizePolynomial::number(by))),
            Div => match (number(&left), number(&right)) {
                (_, None | Some(..=0)) => None,
                (Some(left), Some(right)) => Some(SizePolynomial::number(left / right)),
                (None, Some(divisor)) => {
                    // If the sum `n + 255` wraps around, the quotient is 0. The quotient is used only as the extent of
                    // a launch, and then the launch fails.
                    let sum = left.as_symbol().and_then(|symbol| self.sums.get(&symbol));
                    let left = sum.filter(|(_, constant)| *constant < divisor).map_or(&left, |(sum, _)| sum);
                    // `(n + 255) / 256` with a variable for 256.
                    let key = (self.found.with_numbers(left), divisor);
                    let symbol = match self.quotients.get(&key) {
                        Some(known) => *known,
                        None => {
                            let symbol = self.new_symbol();
                            if ty.is_signed {
                                self.found.signed.insert(symbol);
                            }
                            symbol
                        }
                    };
                    self.found.quotients.insert(symbol, key.clone());
                    self.quotients.insert(key, symbol);
                    Some(SizePolynomial::symbol(symbol))
                }
            },
            _ => None,
        };
        // Unsigned arithmetic wraps around. Sizes in bytes are taken to have less than 64 bits.
        let is_exact = |value: &SizePolynomial| match self.found.number(value) {
            Some(number) => ty.contains(number),
            None => {
                ty.is_signed || op == Div || {
                    is_natural(&self.found.with_numbers(value)) && (op == Sub || ty.bits == 64)
                }
            }
        };
        match exact {
            Some(value) if is_exact(&value) => HostCodeValue::Int(value, ty),
            Some(exact) => {
                let result = self.new_int(ty);
                let HostCodeValue::Int(value, _) = &result else { return result };
                let Some(symbol) = value.as_symbol() else { return result };
                if let (Add, Some(constant @ 0..)) = (op, self.found.number(&right)) {
                    self.sums.insert(symbol, (exact.clone(), constant));
                }
                self.found.exact_values.insert(symbol, exact);
                result
            }
            None => self.new_int(ty),
        }
    }
}
