//! Functions of the bytes and halves of integers: `__byte_perm`, `__dp4a`, and the words of a `double`.

use super::arith::bits;
use super::lower::Lower;
use super::tree::Expr;
use super::types::{CType, ClkScalar, DOUBLE, INT, IntKind, UINT};
use super::value::{Res, Value, refuse};
use crate::ast::CppExpr;
use crate::source::SourceSpan;

impl<'a> Lower<'_, 'a> {
    pub(super) fn call_packed(&mut self, name: &str, args: &'a [CppExpr], span: SourceSpan) -> Res<Option<Value>> {
        let count = match name {
            "__double2hiint" | "__double2loint" => 1,
            "__hiloint2double" => 2,
            "__byte_perm" | "__dp4a" => 3,
            _ => return Ok(None),
        };
        if args.len() != count {
            return refuse(format!("`{name}` with {} arguments", args.len()), span, "");
        }
        let refs: Vec<_> = args.iter().collect();
        let values = self.operands(&refs)?;
        let stable = values.iter().all(|value| value.stable);
        let number = |n: i128, scalar| Expr::int(n, scalar, span);
        let binary = |op, a, b| Expr::binary(op, a, b, span);
        let value = match (name, <[Value; 1]>::try_from(values.clone()), values.as_slice()) {
            ("__double2hiint" | "__double2loint", Ok([value]), _) => {
                let whole = bits(self.converted(value, &DOUBLE, span)?, ClkScalar::F64, ClkScalar::U64, span);
                let word =
                    if name == "__double2hiint" { binary(">>", whole, number(32, ClkScalar::U64)) } else { whole };
                Value::new(INT, Expr::call("i32", vec![word], span))
            }
            ("__hiloint2double", _, [high, low]) => {
                let (high, low) =
                    (self.converted(high.clone(), &UINT, span)?, self.converted(low.clone(), &UINT, span)?);
                let wide = |word| Expr::call("u64", vec![word], span);
                let whole = binary("|", binary("<<", wide(high), number(32, ClkScalar::U64)), wide(low));
                Value::new(DOUBLE, bits(whole, ClkScalar::U64, ClkScalar::F64, span))
            }
            ("__byte_perm", _, [x, y, selector]) => {
                let selector = self.convert(selector.clone(), &UINT, span)?;
                // The top bit of a digit would repeat a sign.
                let Some(selector) = selector.constant_int().filter(|selector| selector & 0x8888 == 0) else {
                    return refuse("`__byte_perm` with this selector", span, "use a constant with digits from 0 to 7");
                };
                let x = self.convert(x.clone(), &UINT, span)?;
                let y = self.convert(y.clone(), &UINT, span)?;
                let words = [x, y].map(|word| super::arith::coerce(&word, ClkScalar::U32));
                let words = words.map(|word| self.spill(Value::new(UINT, word)).expr);
                let byte = |at: i128| {
                    let digit = selector >> (4 * at) & 7;
                    let word = words[usize::from(digit >= 4)].clone();
                    let shifted = binary(">>", word, number(8 * (digit & 3), ClkScalar::U32));
                    binary("<<", binary("&", shifted, number(0xff, ClkScalar::U32)), number(8 * at, ClkScalar::U32))
                };
                let halves = [binary("|", byte(0), byte(1)), binary("|", byte(2), byte(3))];
                let [low, high] = halves;
                Value::new(UINT, binary("|", low, high))
            }
            (_, _, [a, b, sum]) => {
                let ty = if a.ty == UINT && b.ty == UINT && sum.ty == UINT { UINT } else { INT };
                if [a, b, sum].iter().any(|value| value.ty != ty) {
                    return refuse("`__dp4a` of these types", span, "use three `int` or three `unsigned int`");
                }
                let (word, byte) = match ty {
                    CType::Int(IntKind::Int) => (ClkScalar::I32, ClkScalar::I8),
                    _ => (ClkScalar::U32, ClkScalar::U8),
                };
                let factors = [a, b].map(|value| super::arith::coerce(value, word));
                let factors = factors.map(|factor| self.spill(Value::new(ty.clone(), factor)).expr);
                let part = |factor: &Expr, at: i128| {
                    let shifted = binary(">>", factor.clone(), number(8 * at, word));
                    Expr::call(word.name(), vec![Expr::call(byte.name(), vec![shifted], span)], span)
                };
                let product = |at| binary("*", part(&factors[0], at), part(&factors[1], at));
                let products = (1..4).fold(product(0), |all, at| binary("+", all, product(at)));
                let sum = super::arith::coerce(sum, word);
                Value::new(ty, Expr::call("wrapping_add", vec![sum, products], span))
            }
            _ => return Ok(None),
        };
        Ok(Some(Value { stable, ..value }))
    }
}
