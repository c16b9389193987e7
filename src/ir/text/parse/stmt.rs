//! Parser of statements in DeviceIR's text form.

use super::{FunctionParser, IrParseResult, MAX_DEPTH, Parser, Reason, find_reference};
use crate::def::*;
use crate::text::lex::IrToken;
use clk_base::arena::Id;
use clk_base::source::Span;
use clk_scalar::builtin::{Builtin, find};
use clk_scalar::tensor_core_model::TensorCoreModel;

impl Parser {
    /// Parses statements up to and including the closing brace.
    pub(super) fn stmts(&mut self, scope: &mut FunctionParser) -> IrParseResult<Block> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Reason::TooDeep);
        }
        let mut block = vec![];
        self.skip_lines();
        while !self.eat("}") {
            if self.peek().is_none() {
                return Err(Reason::Expected("`}`"));
            }
            block.push(self.stmt(scope)?);
            self.skip_lines();
        }
        self.depth -= 1;
        Ok(block)
    }

    fn body(&mut self, scope: &mut FunctionParser) -> IrParseResult<(Span, Block)> {
        let span = self.span()?;
        self.expect("{")?;
        Ok((span, self.stmts(scope)?))
    }

    fn stmt(&mut self, scope: &mut FunctionParser) -> IrParseResult<Stmt> {
        let word = match self.peek() {
            Some(IrToken::Word(word)) => word.clone(),
            _ => String::new(),
        };
        let (span, kind) = match word.as_str() {
            "if" => self.if_(scope)?,
            "for" => self.for_(scope)?,
            "loop" => {
                self.at += 1;
                let (label, unroll) = (self.label()?, self.unroll()?);
                let (span, body) = self.body(scope)?;
                (span, StmtKind::Loop { label, unroll, body })
            }
            "block" => {
                self.at += 1;
                let label = self.label()?;
                let (span, body) = self.body(scope)?;
                (span, StmtKind::Block { label, body })
            }
            _ if self.next_is("%") => self.definition(scope)?,
            _ => {
                let kind = self.simple(scope)?;
                (self.span()?, kind)
            }
        };
        self.end_of_line()?;
        Ok(Stmt { kind, span })
    }

    fn if_(&mut self, scope: &mut FunctionParser) -> IrParseResult<(Span, StmtKind)> {
        self.at += 1;
        let cond = self.operand(scope)?;
        let (span, then) = self.body(scope)?;
        let other = if self.eat_word("else") { self.body(scope)?.1 } else { vec![] };
        Ok((span, StmtKind::If { cond, then, other }))
    }

    fn for_(&mut self, scope: &mut FunctionParser) -> IrParseResult<(Span, StmtKind)> {
        self.at += 1;
        let label = self.label()?;
        let local = self.local(scope)?;
        self.expect("=")?;
        let start = self.operand(scope)?;
        let inclusive = self.eat("..=");
        if !inclusive {
            self.expect("..")?;
        }
        let end = self.operand(scope)?;
        self.expect_word("step")?;
        let step = self.operand(scope)?;
        let unroll = self.unroll()?;
        let collective = self.collective(scope)?;
        let (span, body) = self.body(scope)?;
        Ok((span, StmtKind::For { label, local, start, end, step, inclusive, unroll, collective, body }))
    }

    /// Parses the rounding of `mma`: `rounded`, or the name of a tensor core generation, or nothing for the default
    /// generation.
    fn mma_precision(&mut self) -> MmaPrecision {
        if self.eat_word("rounded") {
            return MmaPrecision::Sequential;
        }
        let model = TensorCoreModel::ALL.into_iter().find(|cores| self.eat_word(cores.name()));
        model.map_or_else(MmaPrecision::default, MmaPrecision::TensorCore)
    }

    /// Parses the collective operation of a loop, if there is one: `adds @c = @a * @b`, `copies @b = @a[at %1, 32 from
    /// %2 step 1]`.
    fn collective(&mut self, scope: &mut FunctionParser) -> IrParseResult<Option<CollectiveLoop>> {
        if self.eat_word("adds") {
            let sum = self.memory(scope)?;
            self.expect("=")?;
            let left = self.memory(scope)?;
            self.expect("*")?;
            let right = self.memory(scope)?;
            let precision = self.mma_precision();
            return Ok(Some(CollectiveLoop::Gemm(CollectiveGemm { sum, left, right, precision })));
        }
        if !self.eat_word("copies") {
            return Ok(None);
        }
        let to = self.memory(scope)?;
        self.expect("=")?;
        let from = self.memory(scope)?;
        self.expect("[")?;
        let mut axes = vec![];
        while !self.eat("]") {
            if !axes.is_empty() {
                self.expect(",")?;
            }
            axes.push(self.axis_window(scope)?);
        }
        let (transposed, rounded) = (self.eat_word("transposed"), self.eat_word("rounded"));
        Ok(Some(CollectiveLoop::Copy(Box::new(TileCopy { to, from, axes, transposed, rounded }))))
    }

    fn axis_window(&mut self, scope: &mut FunctionParser) -> IrParseResult<AxisWindow> {
        if self.eat_word("at") {
            return Ok(AxisWindow::Index(self.operand(scope)?));
        }
        let extent = self.u32()?;
        self.expect_word("from")?;
        let start = self.operand(scope)?;
        self.expect_word("step")?;
        let step = self.u32()?;
        let end = if self.eat_word("below") { Some(self.operand(scope)?) } else { None };
        Ok(AxisWindow::Range { start, extent, step, end })
    }

    /// Parses `%1: f32 = …`: a `Let` or a statement with results.
    fn definition(&mut self, scope: &mut FunctionParser) -> IrParseResult<(Span, StmtKind)> {
        let targets = self.several(|p| {
            p.expect("%")?;
            let number = p.number()?;
            p.expect(":")?;
            Ok((number, p.ty()?))
        })?;
        self.expect("=")?;
        if let Some(mut kind) = self.effect(scope)? {
            let span = self.span()?;
            let mut results = vec![];
            for (number, ty) in targets {
                results.push(scope.define(number, ExprKind::Result, ty, span)?);
            }
            self.set_results(&mut kind, results)?;
            return Ok((span, kind));
        }
        let [(number, ty)] = targets.as_slice() else { return Err(Reason::SeveralValues) };
        let kind = self.expression(scope)?;
        let span = self.span()?;
        Ok((span, StmtKind::Let(scope.define(*number, kind, *ty, span)?)))
    }

    fn set_results(&self, kind: &mut StmtKind, ids: Vec<ExprId>) -> IrParseResult<()> {
        match kind {
            StmtKind::Atomic { result, .. } | StmtKind::Barrier { result, .. } if ids.len() <= 1 => {
                *result = ids.first().copied();
                Ok(())
            }
            StmtKind::Warp { result, .. } => match ids.as_slice() {
                [one] => {
                    *result = *one;
                    Ok(())
                }
                _ => Err(Reason::WarpResults),
            },
            StmtKind::Call { results, .. } => {
                *results = ids;
                Ok(())
            }
            _ => Err(Reason::Results),
        }
    }

    /// Parses a statement that may have results; `None` if the line does not continue with such a statement. The caller
    /// fills in the results.
    fn effect(&mut self, scope: &mut FunctionParser) -> IrParseResult<Option<StmtKind>> {
        let Some(IrToken::Word(word)) = self.peek().cloned() else { return Ok(None) };
        if word == "call" {
            self.at += 1;
            return self.call(scope).map(Some);
        }
        let kind = match find(&word).map(|entry| entry.builtin) {
            Some(Builtin::Atomic(op)) => {
                self.at += 1;
                let place = self.place(scope)?;
                self.expect(",")?;
                let value = self.operand(scope)?;
                let compare = if self.eat_word("if") { Some(self.operand(scope)?) } else { None };
                StmtKind::Atomic { op, place, value, compare, result: None }
            }
            Some(Builtin::Barrier(kind)) => {
                self.at += 1;
                let ends = self.next_is("!") || matches!(self.peek(), Some(IrToken::Newline) | None);
                let value = if ends { None } else { Some(self.operand(scope)?) };
                StmtKind::Barrier { kind, value, result: None }
            }
            Some(Builtin::Warp(op)) => {
                self.at += 1;
                let value = self.operand(scope)?;
                let lane = if self.eat(",") { Some(self.operand(scope)?) } else { None };
                let among = if self.eat_word("among") { Some(self.operand(scope)?) } else { None };
                StmtKind::Warp { op, value, lane, among, result: Id::new(u32::MAX as usize) }
            }
            _ => return Ok(None),
        };
        Ok(Some(kind))
    }

    fn call(&mut self, scope: &mut FunctionParser) -> IrParseResult<StmtKind> {
        let function = find_reference(&scope.callees, &self.reference()?)?;
        self.expect("(")?;
        let mut args = vec![];
        while !self.next_is(")") && !self.next_is(";") {
            if !args.is_empty() {
                self.expect(",")?;
            }
            args.push(self.operand(scope)?);
        }
        let memories = if self.eat(";") {
            self.list(")", |p| p.memory(scope))?
        } else {
            self.expect(")")?;
            vec![]
        };
        Ok(StmtKind::Call { function, args, memories, results: vec![] })
    }

    /// Parses a statement without results and without nested blocks.
    fn simple(&mut self, scope: &mut FunctionParser) -> IrParseResult<StmtKind> {
        if let Some(kind) = self.effect(scope)? {
            return match kind {
                StmtKind::Warp { .. } => Err(Reason::WarpResults),
                kind => Ok(kind),
            };
        }
        if self.next_is("$") {
            let local = self.local(scope)?;
            self.expect("=")?;
            return Ok(StmtKind::Write { local, value: self.operand(scope)? });
        }
        let word = self.word()?;
        Ok(match word.as_str() {
            "let" => StmtKind::Let(self.operand(scope)?),
            "store" => {
                let place = self.place(scope)?;
                self.expect("=")?;
                let value = self.operand(scope)?;
                StmtKind::Store { place, value, hint: self.hint() }
            }
            "fence" => StmtKind::Fence(FenceScope::Device),
            "fence_block" => StmtKind::Fence(FenceScope::Block),
            "break" => StmtKind::Break(self.label()?),
            "continue" => StmtKind::Continue(self.label()?),
            "return" if self.next_is("!") || self.peek() == Some(&IrToken::Newline) => StmtKind::Return(vec![]),
            "return" => StmtKind::Return(self.operands(scope)?),
            "assert" => {
                let cond = self.operand(scope)?;
                let message = if self.eat(",") { self.parts(scope)? } else { vec![] };
                StmtKind::Assert { cond, message }
            }
            "print" if self.next_is("!") || self.peek() == Some(&IrToken::Newline) => StmtKind::Print { parts: vec![] },
            "print" => StmtKind::Print { parts: self.parts(scope)? },
            "declare" => StmtKind::Declare(self.memory(scope)?),
            other => return Err(Reason::Unknown("statement", other.into())),
        })
    }

    fn parts(&mut self, scope: &mut FunctionParser) -> IrParseResult<Vec<MessageSegment>> {
        self.several(|p| {
            if let Some(IrToken::Text(text)) = p.peek().cloned() {
                p.at += 1;
                return Ok(MessageSegment::Text(text));
            }
            let value = p.operand(scope)?;
            let Some(IrToken::Text(format)) = p.peek().cloned() else {
                return Ok(MessageSegment::Value(value, String::new()));
            };
            p.at += 1;
            Ok(MessageSegment::Value(value, format))
        })
    }
}
