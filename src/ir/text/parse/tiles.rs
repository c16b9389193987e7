//! Parser of TileIR's text form. It also accepts programs that the verifier rejects.

use super::{IrParseError, IrParseResult, MAX_DEPTH, NameRef, Parser, Reason};
use crate::def::{MmaPrecision, Module, Scalar};
use crate::text::lex::{IrToken, tokens};
use crate::tiles::{ArrayShape, ArrayWindow, TileAxis, TileGemmOperand, TileProgram, TileStep, TileTarget, TileVar};
use clk_scalar::tensor_core_model::TensorCoreModel;

/// Parses a tile program.
pub fn parse_tiles(text: &str) -> Result<TileProgram, IrParseError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    parser.tile_program().map_err(|reason| parser.error(reason))
}

/// The declarations to which steps refer.
#[derive(Default)]
struct TileScope {
    tiles: Vec<NameRef>,
    counters: Vec<NameRef>,
    elements: Vec<Module>,
}

fn position(list: &[NameRef], reference: &NameRef) -> IrParseResult<usize> {
    list.iter().position(|item| item == reference).ok_or_else(|| Reason::Unknown("name", reference.0.clone()))
}

impl Parser {
    fn tile_program(&mut self) -> IrParseResult<TileProgram> {
        self.skip_lines();
        self.expect_word("tiles")?;
        let rows = self.u32()?;
        self.expect_word("rows")?;
        let cores = TensorCoreModel::ALL.into_iter().find(|cores| self.eat_word(cores.name()));
        let sums = match cores {
            Some(cores) => MmaPrecision::TensorCore(cores),
            None if self.eat_word("rounded") => MmaPrecision::Sequential,
            None => return Err(Reason::Expected("a tensor core generation or `rounded`")),
        };
        self.expect("{")?;
        // The steps refer to the element kernels, which follow them.
        let steps_at = self.at;
        self.skip_braces()?;
        let (mut scope, end) = (TileScope::default(), self.at);
        self.element_kernels(&mut scope)?;
        let after = std::mem::replace(&mut self.at, steps_at);
        let (arrays, tiles, counters) = self.tile_declarations(&mut scope)?;
        let steps = self.tile_steps(&scope)?;
        if self.at != end {
            return Err(Reason::Expected("the element kernels"));
        }
        self.at = after;
        Ok(TileProgram { sums, rows, arrays, tiles, counters, steps })
    }

    /// Skips the rest of a block, including its closing brace.
    fn skip_braces(&mut self) -> IrParseResult<()> {
        let mut open = 1_usize;
        while open > 0 {
            match self.next() {
                Some(IrToken::Punctuation("{")) => open += 1,
                Some(IrToken::Punctuation("}")) => open -= 1,
                Some(_) => {}
                None => return Err(Reason::Expected("`}`")),
            }
        }
        Ok(())
    }

    fn element_kernels(&mut self, scope: &mut TileScope) -> IrParseResult<()> {
        loop {
            self.skip_lines();
            if self.peek().is_none() {
                return Ok(());
            }
            if !self.eat_word(&format!("e{}", scope.elements.len())) {
                return Err(self.expected(format!("`e{}`", scope.elements.len())));
            }
            self.expect("{")?;
            let module = self.module()?;
            self.expect("}")?;
            scope.elements.push(module);
        }
    }

    fn tile_declarations(
        &mut self,
        scope: &mut TileScope,
    ) -> IrParseResult<(Vec<ArrayShape>, Vec<TileVar>, Vec<String>)> {
        let (mut arrays, mut tiles, mut counters) = (vec![], vec![], vec![]);
        loop {
            self.skip_lines();
            if self.eat_word("array") {
                let param = self.numbered("arg")?;
                self.expect("[")?;
                let dims = self.list("]", |p| if p.eat_word("_") { Ok(None) } else { p.name().map(Some) })?;
                arrays.push(ArrayShape { param, dims });
                self.end_of_line()?;
                continue;
            }
            if self.eat_word("tile") {
                self.expect("$")?;
                let reference = self.reference()?;
                self.expect(":")?;
                let scalar = self.scalar_type()?;
                let columns = if self.eat("[") { Some(self.u32()?) } else { None };
                if columns.is_some() {
                    self.expect("]")?;
                }
                tiles.push(TileVar { name: reference.0.clone(), scalar, columns, is_lhs: self.eat_word("left") });
                scope.tiles.push(reference);
            } else if self.eat_word("counter") {
                let reference = self.reference()?;
                counters.push(reference.0.clone());
                scope.counters.push(reference);
            } else {
                return Ok((arrays, tiles, counters));
            }
            self.end_of_line()?;
        }
    }

    fn scalar_type(&mut self) -> IrParseResult<Scalar> {
        let word = self.word()?;
        Scalar::from_name(&word).ok_or(Reason::IsNot(word, "a scalar type"))
    }

    /// Parses steps up to and including the closing brace.
    fn tile_steps(&mut self, scope: &TileScope) -> IrParseResult<Vec<TileStep>> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(Reason::TooDeep);
        }
        let mut steps = vec![];
        self.skip_lines();
        while !self.eat("}") {
            steps.push(self.tile_step(scope)?);
            self.end_of_line()?;
            self.skip_lines();
        }
        self.depth -= 1;
        Ok(steps)
    }

    fn tile_step(&mut self, scope: &TileScope) -> IrParseResult<TileStep> {
        if self.next_is("$") {
            return self.tile_assignment(scope);
        }
        Ok(match self.word()?.as_str() {
            "store" => {
                let (element, operands) = self.map(scope)?;
                let columns = if self.eat_word("columns") { Some(self.u32()?) } else { None };
                TileStep::Map { to: TileTarget::Array(columns), operands, element }
            }
            "barrier" => TileStep::Barrier,
            "if" => {
                let cond = self.element(scope)?;
                self.expect("{")?;
                let then = self.tile_steps(scope)?;
                let other = match self.eat_word("else") {
                    true => {
                        self.expect("{")?;
                        self.tile_steps(scope)?
                    }
                    false => vec![],
                };
                TileStep::If { cond, then, other }
            }
            "for" => {
                let counter = position(&scope.counters, &self.reference()?)?;
                self.expect("=")?;
                let start = self.element(scope)?;
                self.expect("..")?;
                let end = self.element(scope)?;
                self.expect_word("step")?;
                let step = self.u32()?;
                self.expect("{")?;
                TileStep::Repeat { counter, bounds: Box::new([start, end]), step, body: self.tile_steps(scope)? }
            }
            other => return Err(Reason::Unknown("step", other.into())),
        })
    }

    fn tile_assignment(&mut self, scope: &TileScope) -> IrParseResult<TileStep> {
        let to = self.tile(scope)?;
        if self.eat("+") {
            self.expect("=")?;
            let a = match self.next_is("$") {
                true => TileGemmOperand::Tile(self.tile(scope)?),
                false => TileGemmOperand::Window(self.window(scope)?),
            };
            self.expect("*")?;
            let b = self.window(scope)?;
            self.expect_word("terms")?;
            return Ok(TileStep::Mma { sum: to, terms: self.u32()?, a, b });
        }
        self.expect("=")?;
        if self.eat_word("reduce") {
            let of = self.tile(scope)?;
            self.expect_word("by")?;
            return Ok(TileStep::Reduce { to, of, combine: self.element(scope)? });
        }
        let (element, operands) = self.map(scope)?;
        Ok(TileStep::Map { to: TileTarget::Tile(to), operands, element })
    }

    /// Parses an element kernel and its operands: `e3($acc, $top)`.
    fn map(&mut self, scope: &TileScope) -> IrParseResult<(Module, Vec<usize>)> {
        let element = self.element(scope)?;
        self.expect("(")?;
        Ok((element, self.list(")", |p| p.tile(scope))?))
    }

    fn tile(&mut self, scope: &TileScope) -> IrParseResult<usize> {
        self.expect("$")?;
        position(&scope.tiles, &self.reference()?)
    }

    /// Parses the name of an element kernel: `e3`.
    fn element(&mut self, scope: &TileScope) -> IrParseResult<Module> {
        let number = self.numbered("e")?;
        scope.elements.get(number as usize).cloned().ok_or(Reason::NoElementKernel(number))
    }

    /// Parses a word that consists of a prefix and a number.
    fn numbered(&mut self, prefix: &str) -> IrParseResult<u32> {
        let word = self.word()?;
        let number = word.strip_prefix(prefix).and_then(|number| number.parse().ok());
        number.ok_or_else(|| Reason::found(format!("`{prefix}` and a number"), format_args!("`{word}`")))
    }

    /// Parses a window: `arg0[128 from e3, 16 from e4 step 2] transposed: f16 by e5`.
    fn window(&mut self, scope: &TileScope) -> IrParseResult<ArrayWindow> {
        let param = self.numbered("arg")?;
        self.expect("[")?;
        let axes = self.list("]", |p| {
            if p.eat_word("at") {
                return Ok(TileAxis { start: p.element(scope)?, extent: 1, step: 1, is_index: true });
            }
            let extent = p.u32()?;
            p.expect_word("from")?;
            let start = p.element(scope)?;
            let step = if p.eat_word("step") { p.u32()? } else { 1 };
            Ok(TileAxis { start, extent, step, is_index: false })
        })?;
        let transposed = self.eat_word("transposed");
        self.expect(":")?;
        let scalar = self.scalar_type()?;
        self.expect_word("by")?;
        Ok(ArrayWindow { param, scalar, transposed, axes, element: self.element(scope)? })
    }
}
