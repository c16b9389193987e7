//! Parses operators, by precedence.

use super::{AngleContext, CppParser, Parsed};
use crate::ast::{CppBinaryOp, CppExpr, CppExprKind, CppUnaryOp, InitItem};
use crate::lex::CppTok;

/// A binary or assignment operator at the current position.
enum InfixOperator {
    Binary(CppBinaryOp),
    Assign(Option<CppBinaryOp>),
}

/// Returns the precedence of an operator; a greater one binds more tightly.
fn precedence(op: CppBinaryOp) -> u8 {
    use CppBinaryOp as B;
    match op {
        B::Or => 1,
        B::And => 2,
        B::BitOr => 3,
        B::BitXor => 4,
        B::BitAnd => 5,
        B::Eq | B::Ne => 6,
        B::Lt | B::Le | B::Gt | B::Ge => 7,
        B::Shl | B::Shr => 8,
        B::Add | B::Sub => 9,
        B::Mul | B::Div | B::Rem => 10,
    }
}

impl CppParser<'_> {
    /// Parses with `>` as an operator, as in parentheses.
    pub(super) fn in_operator_context<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.in_angle(AngleContext::Operator, parse)
    }

    /// Parses an expression, also with commas.
    pub(super) fn expr(&mut self) -> Parsed<CppExpr> {
        let depth = self.depth;
        let start = self.next;
        let mut left = self.assignment()?;
        while self.kind() == CppTok::Comma {
            self.deepen()?;
            self.advance();
            let right = self.assignment()?;
            let kind = CppExprKind::Comma { left: Box::new(left), right: Box::new(right) };
            left = CppExpr { kind, span: self.span_from(start) };
        }
        self.depth = depth;
        Ok(left)
    }

    /// Parses an expression or `{…}`.
    pub(super) fn expr_or_list(&mut self) -> Parsed<CppExpr> {
        if self.kind() == CppTok::LBrace { self.initializer_clause() } else { self.in_operator_context(Self::expr) }
    }

    /// Parses the value of an initializer: an expression without commas, or `{…}`.
    pub(super) fn initializer_clause(&mut self) -> Parsed<CppExpr> {
        if self.kind() != CppTok::LBrace {
            return self.assignment();
        }
        let start = self.next;
        self.nested(|parser| {
            parser.advance();
            let items = parser.in_operator_context(Self::init_items)?;
            Ok(CppExpr { kind: CppExprKind::InitList(items), span: parser.span_from(start) })
        })
    }

    /// Parses the items of `{…}` and the brace at its end.
    fn init_items(&mut self) -> Parsed<Vec<InitItem>> {
        let mut items = Vec::new();
        while self.kind() != CppTok::RBrace {
            let designator = self.designator()?;
            let value = self.argument()?;
            items.push(InitItem { designator, value });
            if !self.accept(CppTok::Comma) {
                break;
            }
        }
        self.expect(CppTok::RBrace, "}")?;
        Ok(items)
    }

    /// Parses `.x =`, `x:` or `[3] =`.
    fn designator(&mut self) -> Parsed<Option<crate::ast::Designator>> {
        use crate::ast::Designator;
        if self.kind() == CppTok::Dot && self.kind_at(1) == CppTok::Ident {
            self.advance();
            let name = self.name()?;
            if self.kind() != CppTok::LBrace {
                self.expect(CppTok::Eq, "=")?;
            }
            return Ok(Some(Designator::Field(name)));
        }
        if self.kind() == CppTok::LBracket {
            return Ok(self.attempt(|parser| {
                parser.advance();
                let index = parser.conditional()?;
                parser.expect(CppTok::RBracket, "]")?;
                parser.expect(CppTok::Eq, "=")?;
                Ok(Designator::Index(index))
            }));
        }
        Ok(None)
    }

    /// Parses an argument: an expression, `{…}`, or a pack expansion.
    fn argument(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        let value = self.initializer_clause()?;
        if !self.accept(CppTok::Ellipsis) {
            return Ok(value);
        }
        Ok(CppExpr { kind: CppExprKind::PackExpansion(Box::new(value)), span: self.span_from(start) })
    }

    /// Parses arguments up to the closing bracket, which is read.
    pub(super) fn arguments(&mut self, close: CppTok, text: &str) -> Parsed<Vec<CppExpr>> {
        self.in_operator_context(|parser| {
            let mut arguments = Vec::new();
            while parser.kind() != close {
                let argument = if parser.kind() == CppTok::Dot || parser.kind() == CppTok::LBracket {
                    parser.designated_argument()?
                } else {
                    parser.argument()?
                };
                arguments.push(argument);
                if !parser.accept(CppTok::Comma) {
                    break;
                }
            }
            parser.expect(close, text)?;
            Ok(arguments)
        })
    }

    /// Parses an argument that may have a designator, `T{.x = 1}`, which becomes a list of one item.
    fn designated_argument(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        let designator = self.designator()?;
        let value = self.argument()?;
        if designator.is_none() {
            return Ok(value);
        }
        let kind = CppExprKind::InitList(vec![InitItem { designator, value }]);
        Ok(CppExpr { kind, span: self.span_from(start) })
    }

    /// Parses an expression without commas.
    pub(super) fn assignment(&mut self) -> Parsed<CppExpr> {
        self.nested(|parser| {
            if parser.word() == "throw" {
                return parser.throw();
            }
            let start = parser.next;
            let target = parser.conditional_level()?;
            let Some((InfixOperator::Assign(op), tokens)) = parser.infix_operator() else { return Ok(target) };
            for _ in 0..tokens {
                parser.advance();
            }
            let value = parser.initializer_clause()?;
            let kind = CppExprKind::Assign { op, target: Box::new(target), value: Box::new(value) };
            Ok(CppExpr { kind, span: parser.span_from(start) })
        })
    }

    fn throw(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        self.advance();
        if !matches!(self.kind(), CppTok::Semi | CppTok::RParen | CppTok::Comma | CppTok::Colon) {
            self.assignment()?;
        }
        let refusal = self.refusal("a `throw` expression", start, None);
        Ok(CppExpr { kind: CppExprKind::Refused(refusal), span: self.span_from(start) })
    }

    /// Parses an expression without commas and assignments.
    pub(super) fn conditional(&mut self) -> Parsed<CppExpr> {
        self.nested(Self::conditional_level)
    }

    fn conditional_level(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        let condition = self.binary(1)?;
        if self.kind() != CppTok::Question {
            return Ok(condition);
        }
        self.advance();
        if self.kind() == CppTok::Colon {
            return Err(self.unsupported("a conditional expression without its second operand"));
        }
        let then = self.in_operator_context(Self::expr)?;
        self.expect(CppTok::Colon, ":")?;
        let otherwise = self.assignment()?;
        let kind = CppExprKind::Conditional {
            condition: Box::new(condition),
            then: Box::new(then),
            otherwise: Box::new(otherwise),
        };
        Ok(CppExpr { kind, span: self.span_from(start) })
    }

    /// Parses operators of at least a precedence.
    fn binary(&mut self, least: u8) -> Parsed<CppExpr> {
        let depth = self.depth;
        let start = self.next;
        let mut left = self.unary()?;
        while let Some((InfixOperator::Binary(op), tokens)) = self.infix_operator() {
            let own = precedence(op);
            if own < least {
                break;
            }
            // The tree nests to the left, so each step makes it deeper.
            self.deepen()?;
            for _ in 0..tokens {
                self.advance();
            }
            if self.kind() == CppTok::Ellipsis {
                return self.fold_expression(start);
            }
            let right = self.binary(own + 1)?;
            let kind = CppExprKind::Binary { op, left: Box::new(left), right: Box::new(right) };
            left = CppExpr { kind, span: self.span_from(start) };
        }
        self.depth = depth;
        Ok(left)
    }

    /// Skips the rest of a fold expression up to its `)`, which is not read.
    pub(super) fn fold_expression(&mut self, start: usize) -> Parsed<CppExpr> {
        while !matches!(self.kind(), CppTok::RParen | CppTok::Semi | CppTok::Eof) {
            if matches!(self.kind(), CppTok::LParen | CppTok::LBracket | CppTok::LBrace) {
                self.expect_brackets()?;
            } else {
                self.advance();
            }
        }
        let refusal = self.refusal("a fold expression", start, Some("write the operations out"));
        Ok(CppExpr { kind: CppExprKind::Refused(refusal), span: self.span_from(start) })
    }

    /// Returns the operator at the current position and the number of its tokens.
    fn infix_operator(&self) -> Option<(InfixOperator, usize)> {
        use CppBinaryOp as B;
        use InfixOperator::{Assign, Binary};
        let one = |operator| Some((operator, 1));
        match self.kind() {
            CppTok::PipePipe => one(Binary(B::Or)),
            CppTok::AmpAmp => one(Binary(B::And)),
            CppTok::Pipe => one(Binary(B::BitOr)),
            CppTok::Caret => one(Binary(B::BitXor)),
            CppTok::Amp => one(Binary(B::BitAnd)),
            CppTok::EqEq => one(Binary(B::Eq)),
            CppTok::NotEq => one(Binary(B::Ne)),
            CppTok::Less => one(Binary(B::Lt)),
            CppTok::LessEq => one(Binary(B::Le)),
            CppTok::GreaterEq => one(Binary(B::Ge)),
            CppTok::Greater => match self.angle {
                AngleContext::Template => None,
                AngleContext::Launch if self.at_launch_close() => None,
                _ if self.adjacent(1, CppTok::Greater) => Some((Binary(B::Shr), 2)),
                _ if self.adjacent(1, CppTok::GreaterEq) => Some((Assign(Some(B::Shr)), 2)),
                _ => one(Binary(B::Gt)),
            },
            CppTok::LessLess => one(Binary(B::Shl)),
            CppTok::Plus => one(Binary(B::Add)),
            CppTok::Minus => one(Binary(B::Sub)),
            CppTok::Star => one(Binary(B::Mul)),
            CppTok::Slash => one(Binary(B::Div)),
            CppTok::Percent => one(Binary(B::Rem)),
            CppTok::Eq => one(Assign(None)),
            CppTok::PlusEq => one(Assign(Some(B::Add))),
            CppTok::MinusEq => one(Assign(Some(B::Sub))),
            CppTok::StarEq => one(Assign(Some(B::Mul))),
            CppTok::SlashEq => one(Assign(Some(B::Div))),
            CppTok::PercentEq => one(Assign(Some(B::Rem))),
            CppTok::AmpEq => one(Assign(Some(B::BitAnd))),
            CppTok::PipeEq => one(Assign(Some(B::BitOr))),
            CppTok::CaretEq => one(Assign(Some(B::BitXor))),
            CppTok::LessLessEq => one(Assign(Some(B::Shl))),
            // The alternative spellings of operators.
            CppTok::Ident => match self.word() {
                "and" => one(Binary(B::And)),
                "or" => one(Binary(B::Or)),
                "bitand" => one(Binary(B::BitAnd)),
                "bitor" => one(Binary(B::BitOr)),
                "xor" => one(Binary(B::BitXor)),
                "not_eq" => one(Binary(B::Ne)),
                _ => None,
            },
            _ => None,
        }
    }

    /// Parses prefix operators and casts.
    pub(super) fn unary(&mut self) -> Parsed<CppExpr> {
        let start = self.next;
        let op = match self.kind() {
            CppTok::Plus => CppUnaryOp::Plus,
            CppTok::Minus => CppUnaryOp::Minus,
            CppTok::Not => CppUnaryOp::Not,
            CppTok::Tilde => CppUnaryOp::BitNot,
            CppTok::Star => CppUnaryOp::Deref,
            CppTok::Amp => CppUnaryOp::AddressOf,
            CppTok::PlusPlus => CppUnaryOp::PreIncrement,
            CppTok::MinusMinus => CppUnaryOp::PreDecrement,
            CppTok::AmpAmp => return Err(self.unsupported("the address of a label")),
            CppTok::ColonColon if matches!(self.word_at(1), "new" | "delete") => {
                self.advance();
                return self.unary();
            }
            CppTok::LParen => {
                if let Some(cast) = self.cast()? {
                    return Ok(cast);
                }
                return self.postfix();
            }
            CppTok::Ident => match self.word() {
                "not" => CppUnaryOp::Not,
                "compl" => CppUnaryOp::BitNot,
                "sizeof" => return self.sizeof(),
                "alignof" | "_Alignof" | "__alignof__" => return self.alignof(),
                "new" => return self.new_expression(),
                "delete" => return self.delete_expression(start),
                "noexcept" => {
                    self.advance();
                    self.expect_brackets()?;
                    let refusal = self.refusal("a `noexcept` expression", start, None);
                    return Ok(CppExpr { kind: CppExprKind::Refused(refusal), span: self.span_from(start) });
                }
                "co_await" => return Err(self.unsupported("a coroutine")),
                "__extension__" => {
                    self.advance();
                    return self.nested(Self::unary);
                }
                _ => return self.postfix(),
            },
            _ => return self.postfix(),
        };
        self.advance();
        let operand = Box::new(self.nested(Self::unary)?);
        Ok(CppExpr { kind: CppExprKind::Unary { op, operand }, span: self.span_from(start) })
    }
}
