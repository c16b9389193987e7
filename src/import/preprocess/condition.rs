//! Evaluates the constant expressions of `#if`, after macro expansion, in 64-bit integers.

use super::definition::PpToken;
use crate::lex::CppTok;

/// A value of the preprocessor: `intmax_t` or `uintmax_t`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct PpValue {
    bits: u64,
    unsigned: bool,
}

impl PpValue {
    fn signed(value: i64) -> PpValue {
        PpValue { bits: value as u64, unsigned: false }
    }

    fn truth(value: bool) -> PpValue {
        PpValue::signed(i64::from(value))
    }

    fn is_true(self) -> bool {
        self.bits != 0
    }
}

/// What is wrong with a condition.
#[derive(Debug)]
pub(super) struct ConditionError {
    pub message: String,
}

fn fail<T>(message: impl Into<String>) -> Result<T, ConditionError> {
    Err(ConditionError { message: message.into() })
}

/// Maximum nesting of parentheses and unary operators.
const MAX_CONDITION_DEPTH: usize = 100;

/// Evaluates a condition, or returns the error in it.
pub(super) fn evaluate(tokens: &[PpToken]) -> Result<bool, ConditionError> {
    let mut evaluator = ConditionEvaluator { tokens, next: 0, depth: 0 };
    let value = evaluator.conditional(true)?;
    match evaluator.peek() {
        CppTok::Eof => Ok(value.is_true()),
        _ => fail(format!("expected an operator, found `{}`", evaluator.text())),
    }
}

struct ConditionEvaluator<'t> {
    tokens: &'t [PpToken],
    next: usize,
    depth: usize,
}

impl ConditionEvaluator<'_> {
    fn peek(&self) -> CppTok {
        self.tokens.get(self.next).map_or(CppTok::Eof, |token| token.kind)
    }

    fn text(&self) -> &str {
        self.tokens.get(self.next).map_or("the end of the line", |token| &token.text)
    }

    fn accept(&mut self, kind: CppTok) -> bool {
        let found = self.peek() == kind;
        self.next += usize::from(found);
        found
    }

    /// Parses `condition ? then : otherwise`. Parts with `live` unset are parsed without errors of evaluation.
    fn conditional(&mut self, live: bool) -> Result<PpValue, ConditionError> {
        self.depth += 1;
        if self.depth > MAX_CONDITION_DEPTH {
            return fail("this condition is nested too deeply");
        }
        let condition = self.binary(0, live)?;
        let value = if self.accept(CppTok::Question) {
            let then = self.conditional(live && condition.is_true())?;
            if !self.accept(CppTok::Colon) {
                return fail(format!("expected `:`, found `{}`", self.text()));
            }
            let otherwise = self.conditional(live && !condition.is_true())?;
            let chosen = if condition.is_true() { then } else { otherwise };
            PpValue { unsigned: then.unsigned || otherwise.unsigned, ..chosen }
        } else {
            condition
        };
        self.depth -= 1;
        Ok(value)
    }

    /// Returns the operator at the current position with its precedence and its number of tokens.
    fn operator(&self) -> Option<(&'static str, u8, usize)> {
        let adjacent = |kind| {
            let after = self.tokens.get(self.next + 1);
            after.is_some_and(|token| token.kind == kind && !token.space)
        };
        Some(match self.peek() {
            CppTok::PipePipe => ("||", 1, 1),
            CppTok::AmpAmp => ("&&", 2, 1),
            CppTok::Pipe => ("|", 3, 1),
            CppTok::Caret => ("^", 4, 1),
            CppTok::Amp => ("&", 5, 1),
            CppTok::EqEq => ("==", 6, 1),
            CppTok::NotEq => ("!=", 6, 1),
            CppTok::Less => ("<", 7, 1),
            CppTok::LessEq => ("<=", 7, 1),
            CppTok::GreaterEq => (">=", 7, 1),
            CppTok::Greater if adjacent(CppTok::Greater) => (">>", 8, 2),
            CppTok::Greater => (">", 7, 1),
            CppTok::LessLess => ("<<", 8, 1),
            CppTok::Plus => ("+", 9, 1),
            CppTok::Minus => ("-", 9, 1),
            CppTok::Star => ("*", 10, 1),
            CppTok::Slash => ("/", 10, 1),
            CppTok::Percent => ("%", 10, 1),
            CppTok::Ident => match self.text() {
                "or" => ("||", 1, 1),
                "and" => ("&&", 2, 1),
                "not_eq" => ("!=", 6, 1),
                _ => return None,
            },
            _ => return None,
        })
    }

    fn binary(&mut self, least: u8, live: bool) -> Result<PpValue, ConditionError> {
        let mut left = self.unary(live)?;
        while let Some((operator, precedence, tokens)) = self.operator() {
            if precedence < least {
                break;
            }
            self.next += tokens;
            let right_live = match operator {
                "&&" => live && left.is_true(),
                "||" => live && !left.is_true(),
                _ => live,
            };
            let right = self.binary(precedence + 1, right_live)?;
            left = apply(operator, left, right, right_live)?;
        }
        Ok(left)
    }

    fn unary(&mut self, live: bool) -> Result<PpValue, ConditionError> {
        self.depth += 1;
        if self.depth > MAX_CONDITION_DEPTH {
            return fail("this condition is nested too deeply");
        }
        let kind = self.peek();
        let text = self.text().to_string();
        self.next += 1;
        let value = match kind {
            CppTok::Plus => self.unary(live)?,
            CppTok::Minus => {
                let value = self.unary(live)?;
                PpValue { bits: value.bits.wrapping_neg(), ..value }
            }
            CppTok::Tilde => {
                let value = self.unary(live)?;
                PpValue { bits: !value.bits, ..value }
            }
            CppTok::Not => PpValue::truth(!self.unary(live)?.is_true()),
            CppTok::LParen => {
                let value = self.conditional(live)?;
                if !self.accept(CppTok::RParen) {
                    return fail(format!("expected `)`, found `{}`", self.text()));
                }
                value
            }
            CppTok::Number => match crate::literal::integer(&text) {
                Some(literal) => PpValue {
                    bits: literal.value,
                    unsigned: literal.unsigned || (literal.radix != 10 && literal.value > i64::MAX as u64),
                },
                None => return fail(format!("`{text}` is not an integer")),
            },
            CppTok::Char => match crate::literal::character(&text) {
                Some(literal) => PpValue::signed(literal.value as i32 as i64),
                None => return fail(format!("`{text}` is not a character")),
            },
            CppTok::Ident if text == "not" => PpValue::truth(!self.unary(live)?.is_true()),
            // Names that are not macros are zero.
            CppTok::Ident => {
                if self.peek() == CppTok::LParen {
                    return fail(format!("the macro `{text}` is not defined"));
                }
                PpValue::truth(text == "true")
            }
            _ => return fail(format!("expected an integer, found `{text}`")),
        };
        self.depth -= 1;
        Ok(value)
    }
}

/// Applies a binary operator with C's conversions: a signed operand becomes unsigned if the other one is.
fn apply(operator: &str, left: PpValue, right: PpValue, live: bool) -> Result<PpValue, ConditionError> {
    let unsigned = left.unsigned || right.unsigned;
    let (a, b) = (left.bits, right.bits);
    let (x, y) = (a as i64, b as i64);
    let value = |bits: u64| Ok(PpValue { bits, unsigned });
    let compare = |signed: bool, plain: bool| Ok(PpValue::truth(if unsigned { plain } else { signed }));
    match operator {
        "||" => Ok(PpValue::truth(left.is_true() || right.is_true())),
        "&&" => Ok(PpValue::truth(left.is_true() && right.is_true())),
        "|" => value(a | b),
        "^" => value(a ^ b),
        "&" => value(a & b),
        "==" => Ok(PpValue::truth(a == b)),
        "!=" => Ok(PpValue::truth(a != b)),
        "<" => compare(x < y, a < b),
        "<=" => compare(x <= y, a <= b),
        ">=" => compare(x >= y, a >= b),
        ">" => compare(x > y, a > b),
        "<<" | ">>" if live && b > 63 => fail(format!("the distance of this shift is not in 0..63: {y}")),
        "<<" => Ok(PpValue { bits: a.wrapping_shl(b as u32), ..left }),
        ">>" if left.unsigned => Ok(PpValue { bits: a.wrapping_shr(b as u32), ..left }),
        ">>" => Ok(PpValue::signed(x.wrapping_shr(b as u32))),
        "+" => value(a.wrapping_add(b)),
        "-" => value(a.wrapping_sub(b)),
        "*" => value(a.wrapping_mul(b)),
        "/" | "%" if b == 0 => {
            if live {
                return fail("division by zero");
            }
            value(0)
        }
        "/" if unsigned => value(a / b),
        "%" if unsigned => value(a % b),
        "/" => value(x.wrapping_div(y) as u64),
        _ => value(x.wrapping_rem(y) as u64),
    }
}
