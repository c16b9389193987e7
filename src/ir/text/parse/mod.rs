//! Parser of DeviceIR's text form. It also accepts modules that the verifier rejects, because the verifier's tests need
//! them.

mod stmt;
mod tiles;

pub use tiles::parse_tiles;

use half::{bf16, f16};
use rustc_hash::FxHashMap;

use super::lex::{IrToken, tokens};
use super::parse_error::{IrParseError, IrParseErrorReason as Reason};
use super::{AXES, COMPONENTS, IDS, OPERATORS, value_of};
use crate::def::*;
use crate::renumber::compact;
use crate::typing;
use clk_base::arena::{Arena, Id, SideTable};
use clk_base::source::{FileId, Span};
use clk_scalar::Scalar;
use clk_scalar::builtin::{Builtin, find};
use clk_scalar::ops::UnaryOp;

/// Parses a module.
pub fn parse(text: &str) -> Result<Module, IrParseError> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0 };
    let module = parser.module().and_then(|module| parser.end().map(|()| module));
    module.map_err(|reason| parser.error(reason))
}

type IrParseResult<T> = Result<T, Reason>;

/// The maximum nesting depth. Bounds the recursion of the parser.
const MAX_DEPTH: usize = 200;

struct Parser {
    tokens: Vec<(IrToken, usize)>,
    at: usize,
    depth: usize,
}

/// A name, and the number that distinguishes items with the same name.
type NameRef = (String, Option<usize>);

/// The function being parsed.
struct FunctionParser {
    function: Function,
    names: FxHashMap<u64, ExprId>,
    defined: FxHashMap<ExprId, ()>,
    /// Functions parsed so far.
    callees: Vec<(NameRef, FunctionId)>,
    locals: Vec<(NameRef, LocalId)>,
    memories: Vec<(NameRef, MemId)>,
}

fn find_reference<T>(list: &[(NameRef, Id<T>)], reference: &NameRef) -> IrParseResult<Id<T>> {
    let id = list.iter().find(|(r, _)| r == reference).map(|(_, id)| *id);
    id.ok_or_else(|| Reason::Unknown("name", reference.0.clone()))
}

impl FunctionParser {
    fn push(&mut self, kind: ExprKind, ty: Ty) -> ExprId {
        self.function.spans.push(Span::default());
        self.function.exprs.push(Expr { kind, ty })
    }

    fn expr_of_number(&mut self, number: u64) -> ExprId {
        if let Some(&id) = self.names.get(&number) {
            return id;
        }
        let id = self.push(ExprKind::Result, typing::I32);
        self.names.insert(number, id);
        id
    }

    fn define(&mut self, number: u64, kind: ExprKind, ty: Ty, span: Span) -> IrParseResult<ExprId> {
        let id = self.expr_of_number(number);
        if self.defined.insert(id, ()).is_some() {
            return Err(Reason::DefinedTwice(number));
        }
        self.function.exprs[id] = Expr { kind, ty };
        self.function.spans[id] = span;
        Ok(id)
    }
}

impl Parser {
    /// Returns the error for the current line.
    fn error(&self, reason: Reason) -> IrParseError {
        let last = self.tokens.len().saturating_sub(1);
        let line = self.tokens.get(self.at.min(last)).map_or(0, |(_, line)| *line);
        IrParseError { line, reason }
    }

    fn peek(&self) -> Option<&IrToken> {
        self.tokens.get(self.at).map(|(token, _)| token)
    }

    fn next(&mut self) -> Option<IrToken> {
        let token = self.peek().cloned();
        self.at += 1;
        token
    }

    fn next_is(&self, punctuation: &str) -> bool {
        matches!(self.peek(), Some(IrToken::Punctuation(p)) if *p == punctuation)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Some(IrToken::Word(w)) if w == word)
    }

    fn eat(&mut self, punctuation: &str) -> bool {
        let is_next = self.next_is(punctuation);
        self.at += is_next as usize;
        is_next
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let is_next = self.is_word(word);
        self.at += is_next as usize;
        is_next
    }

    fn expect(&mut self, punctuation: &str) -> IrParseResult<()> {
        if self.eat(punctuation) { Ok(()) } else { Err(self.expected(format!("`{punctuation}`"))) }
    }

    fn expect_word(&mut self, word: &str) -> IrParseResult<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(format!("`{word}`"))) }
    }

    fn expected(&self, what: String) -> Reason {
        Reason::found(what, format_args!("{:?}", self.peek()))
    }

    fn word(&mut self) -> IrParseResult<String> {
        match self.next() {
            Some(IrToken::Word(word)) => Ok(word),
            other => Err(Reason::found("a word", format_args!("{other:?}"))),
        }
    }

    fn number(&mut self) -> IrParseResult<u64> {
        match self.next() {
            Some(IrToken::Number(text)) => text.parse().map_err(|_| Reason::found("a whole number", text)),
            other => Err(Reason::found("a number", format_args!("{other:?}"))),
        }
    }

    fn u32(&mut self) -> IrParseResult<u32> {
        u32::try_from(self.number()?).map_err(|_| Reason::TooLarge)
    }

    fn u8(&mut self) -> IrParseResult<u8> {
        u8::try_from(self.number()?).map_err(|_| Reason::TooLarge)
    }

    fn end_of_line(&mut self) -> IrParseResult<()> {
        match self.next() {
            Some(IrToken::Newline) | None => Ok(()),
            other => Err(Reason::found("the end of the line", format_args!("{other:?}"))),
        }
    }

    fn skip_lines(&mut self) {
        while self.peek() == Some(&IrToken::Newline) {
            self.at += 1;
        }
    }

    /// Parses items separated by commas, up to and including `close`.
    fn list<T>(&mut self, close: &str, mut item: impl FnMut(&mut Self) -> IrParseResult<T>) -> IrParseResult<Vec<T>> {
        let mut items = Vec::new();
        while !self.eat(close) {
            if !items.is_empty() {
                self.expect(",")?;
            }
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Parses one or more items separated by commas.
    fn several<T>(&mut self, mut item: impl FnMut(&mut Self) -> IrParseResult<T>) -> IrParseResult<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.eat(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn name(&mut self) -> IrParseResult<String> {
        match self.next() {
            Some(IrToken::Word(name) | IrToken::Text(name)) => Ok(name),
            other => Err(Reason::found("a name", format_args!("{other:?}"))),
        }
    }

    fn reference(&mut self) -> IrParseResult<NameRef> {
        let name = self.name()?;
        let number = if self.eat(".") { Some(self.number()? as usize) } else { None };
        Ok((name, number))
    }

    fn ty(&mut self) -> IrParseResult<Ty> {
        let word = self.word()?;
        typing::from_name(&word).ok_or(Reason::IsNot(word, "a type"))
    }

    fn span(&mut self) -> IrParseResult<Span> {
        if !self.eat("!") {
            return Ok(Span::default());
        }
        let file = FileId(self.u32()?);
        self.expect(":")?;
        let start = self.u32()?;
        self.expect("-")?;
        Ok(Span { file, start, end: self.u32()? })
    }

    fn access(&mut self) -> IrParseResult<Access> {
        match self.word()?.as_str() {
            "in" => Ok(Access::In),
            "out" => Ok(Access::Out),
            "inout" => Ok(Access::InOut),
            other => Err(Reason::found("in, out or inout", format_args!("`{other}`"))),
        }
    }

    fn label(&mut self) -> IrParseResult<Label> {
        self.expect("'")?;
        Ok(Label(self.u32()?))
    }

    fn hint(&mut self) -> CacheHint {
        if self.eat_word("cached") {
            CacheHint::Cached
        } else if self.eat_word("streaming") {
            CacheHint::Streaming
        } else {
            CacheHint::None
        }
    }

    fn unroll(&mut self) -> IrParseResult<Unroll> {
        if self.eat_word("nounroll") {
            return Ok(Unroll::Never);
        }
        if !self.eat_word("unroll") {
            return Ok(Unroll::Auto);
        }
        if let Some(IrToken::Number(_)) = self.peek() { Ok(Unroll::By(self.u32()?)) } else { Ok(Unroll::Full) }
    }

    // Modules and functions

    /// Parses a kernel and the functions that follow it.
    fn module(&mut self) -> IrParseResult<Module> {
        self.skip_lines();
        let (mut kernel, arrays, body) = self.kernel()?;
        let mut functions: Arena<Function> = Arena::new();
        let mut names: Vec<(NameRef, FunctionId)> = Vec::new();
        let mut memories = Vec::new();
        self.skip_lines();
        while self.is_word("fn") {
            let (reference, scope) = self.function(names.clone())?;
            memories = scope.memories;
            let id = functions.push(scope.function);
            names.push((reference, id));
            self.skip_lines();
        }
        kernel.body = body.unwrap_or_else(|| Id::new(functions.len().saturating_sub(1)));
        for (param, reference) in kernel.params.iter_mut().zip(arrays) {
            if let (KernelParam::Array { memory, .. }, Some(reference)) = (param, reference) {
                *memory = find_reference(&memories, &reference)?;
            }
        }
        type_params(&kernel, &mut functions);
        let mut module = Module { functions, kernel };
        compact(&mut module);
        Ok(module)
    }

    fn end(&self) -> IrParseResult<()> {
        if self.peek().is_none() { Ok(()) } else { Err(self.expected("`fn`".into())) }
    }

    /// Parses the kernel. Returns the names of the array parameters, and the name of the body function if that is not
    /// the last function.
    #[allow(clippy::type_complexity)]
    fn kernel(&mut self) -> IrParseResult<(Kernel, Vec<Option<NameRef>>, Option<FunctionId>)> {
        self.expect_word("kernel")?;
        let name = self.name()?;
        self.expect("(")?;
        let params = self.list(")", |p| {
            let name = p.name()?;
            p.expect(":")?;
            if !(p.is_word("in") || p.is_word("out") || p.is_word("inout")) {
                return Ok((KernelParam::Value { name, ty: p.ty()? }, None));
            }
            let access = p.access()?;
            p.expect("@")?;
            Ok((KernelParam::Array { name, access, memory: Id::new(0) }, Some(p.reference()?)))
        })?;
        let (params, arrays) = params.into_iter().unzip();
        let form = match self.word()?.as_str() {
            "threads" => LaunchForm::Threads { rank: self.u8()? },
            "grid" => LaunchForm::Grid,
            other => return Err(Reason::found("threads or grid", format_args!("`{other}`"))),
        };
        let cooperative = self.eat_word("cooperative");
        let body = if self.eat_word("body") { Some(Id::new(self.u32()? as usize)) } else { None };
        let span = self.span()?;
        self.end_of_line()?;
        Ok((
            Kernel { name, body: Id::new(0), form, params, cooperative, gemm: None, tile_program: None, span },
            arrays,
            body,
        ))
    }

    fn function(&mut self, callees: Vec<(NameRef, FunctionId)>) -> IrParseResult<(NameRef, FunctionParser)> {
        self.expect_word("fn")?;
        let reference = self.reference()?;
        self.expect("(")?;
        let params = self.list(")", |p| p.ty())?;
        let results = if self.eat("->") { self.several(|p| p.ty())? } else { vec![] };
        let span = self.span()?;
        let function = Function {
            name: reference.0.clone(),
            params,
            results,
            locals: Arena::new(),
            memories: Arena::new(),
            exprs: Arena::new(),
            spans: SideTable::default(),
            body: vec![],
            span,
            calls: vec![],
        };
        let mut scope = FunctionParser {
            function,
            names: FxHashMap::default(),
            defined: FxHashMap::default(),
            callees,
            locals: vec![],
            memories: vec![],
        };
        self.expect("{")?;
        self.skip_lines();
        while self.declaration(&mut scope)? {
            self.end_of_line()?;
            self.skip_lines();
        }
        scope.function.body = self.stmts(&mut scope)?;
        if let Some((number, _)) = scope.names.iter().find(|(_, id)| !scope.defined.contains_key(id)) {
            return Err(Reason::NeverDefined { number: *number, function: reference.0 });
        }
        Ok((reference, scope))
    }

    /// Parses a local or a memory, if the line declares one.
    fn declaration(&mut self, scope: &mut FunctionParser) -> IrParseResult<bool> {
        if self.eat_word("var") {
            self.expect("$")?;
            let reference = self.reference()?;
            self.expect(":")?;
            let (ty, span) = (self.ty()?, self.span()?);
            let id = scope.function.locals.push(Local { name: reference.0.clone(), ty, span });
            scope.locals.push((reference, id));
            return Ok(true);
        }
        let space = if self.eat_word("shared") {
            MemorySpace::Shared
        } else if self.eat_word("local") {
            MemorySpace::Local
        } else if self.eat_word("constant") {
            MemorySpace::Constant
        } else if self.eat_word("global") {
            MemorySpace::Global { param: self.u32()?, access: self.access()? }
        } else if self.eat_word("param") {
            MemorySpace::Param { position: self.u32()?, access: self.access()? }
        } else {
            return Ok(false);
        };
        self.expect("@")?;
        let reference = self.reference()?;
        self.expect(":")?;
        let layout = self.layout()?;
        self.expect("[")?;
        let extents = self.list("]", |p| p.extent(scope))?;
        let values = if self.eat("=") { self.several(Self::scalar)? } else { vec![] };
        let span = self.span()?;
        let (name, values) = (reference.0.clone(), values.into());
        let id = scope.function.memories.push(Memory { name, space, layout, extents, values, span });
        scope.memories.push((reference, id));
        Ok(true)
    }

    /// Parses the bits of a scalar constant.
    fn scalar(&mut self) -> IrParseResult<u64> {
        let negative = self.eat("-");
        match self.next() {
            Some(IrToken::Number(text)) => Ok(constant(&text, negative)?.0),
            Some(IrToken::Word(word)) if word == "true" => Ok(1),
            Some(IrToken::Word(word)) if word == "false" => Ok(0),
            Some(IrToken::Word(word)) if Scalar::from_name(&word).is_some() => match self.next() {
                Some(IrToken::Bits(bits)) => Ok(bits),
                other => Err(Reason::found("`#` and bits", format_args!("{other:?}"))),
            },
            other => Err(Reason::found("a constant", format_args!("{other:?}"))),
        }
    }

    fn layout(&mut self) -> IrParseResult<ElementLayout> {
        if !self.eat("{") {
            return Ok(ElementLayout::plain(self.ty()?));
        }
        let leaves = self.list(";", |p| {
            let path = p.name()?;
            p.expect(":")?;
            let ty = p.ty()?;
            p.expect_word("at")?;
            Ok(Leaf { path, ty, offset: p.number()? as usize })
        })?;
        self.expect_word("size")?;
        let size = self.number()? as usize;
        self.expect(";")?;
        self.expect_word("align")?;
        let align = self.number()? as usize;
        self.expect("}")?;
        Ok(ElementLayout { leaves, size, align })
    }

    fn extent(&mut self, scope: &mut FunctionParser) -> IrParseResult<Extent> {
        if self.eat_word("_") {
            return Ok(Extent::Launch);
        }
        if let Some(IrToken::Number(text)) = self.peek()
            && let Ok(known) = text.parse()
        {
            self.at += 1;
            return Ok(Extent::Known(known));
        }
        Ok(Extent::Dynamic(self.operand(scope)?))
    }

    // Expressions

    fn operands(&mut self, scope: &mut FunctionParser) -> IrParseResult<Vec<ExprId>> {
        self.several(|p| p.operand(scope))
    }

    fn operand(&mut self, scope: &mut FunctionParser) -> IrParseResult<ExprId> {
        if self.eat("%") {
            return Ok(scope.expr_of_number(self.number()?));
        }
        if self.eat("(") {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(Reason::TooDeep);
            }
            let ty = self.ty()?;
            self.expect(":")?;
            let kind = self.expression(scope)?;
            self.expect(")")?;
            self.depth -= 1;
            return Ok(scope.push(kind, ty));
        }
        let negative = self.eat("-");
        match self.next() {
            Some(IrToken::Number(text)) => {
                let (bits, scalar) = constant(&text, negative)?;
                Ok(scope.push(ExprKind::Const(bits), Ty::Scalar(scalar)))
            }
            Some(IrToken::Word(word)) if !negative => {
                let (kind, ty) = self.free(scope, &word)?;
                Ok(scope.push(kind, ty))
            }
            other => Err(Reason::found("an operand", format_args!("{other:?}"))),
        }
    }

    fn free(&mut self, scope: &FunctionParser, word: &str) -> IrParseResult<(ExprKind, Ty)> {
        let counted = |prefix: &str| word.strip_prefix(prefix).and_then(|n| n.parse::<u32>().ok());
        if let Some(id) = value_of(&IDS, word) {
            self.expect(".")?;
            let axis = self.word()?;
            let axis = value_of(&AXES, &axis).ok_or(Reason::IsNot(axis, "an axis"))?;
            return Ok((ExprKind::Id(id, axis), typing::I32));
        }
        if let Some(scalar) = Scalar::from_name(word) {
            return match self.next() {
                Some(IrToken::Bits(bits)) => Ok((ExprKind::Const(bits), Ty::Scalar(scalar))),
                other => Err(Reason::found("`#` and bits", format_args!("{other:?}"))),
            };
        }
        if let Some(i) = counted("arg") {
            return Ok((ExprKind::Param(i), typing::I32));
        }
        if let Some(k) = counted("index") {
            let k = u8::try_from(k).map_err(|_| Reason::TooLarge)?;
            return Ok((ExprKind::Index(k), typing::I32));
        }
        match word {
            "true" => Ok((ExprKind::Const(1), typing::BOOL)),
            "false" => Ok((ExprKind::Const(0), typing::BOOL)),
            "lane" => Ok((ExprKind::LaneIdx, typing::I32)),
            "warp" => Ok((ExprKind::WarpIdx, typing::I32)),
            "extent" => {
                self.expect("(")?;
                let memory = self.memory(scope)?;
                self.expect(",")?;
                let axis = self.u8()?;
                self.expect(")")?;
                Ok((ExprKind::Extent(memory, axis), typing::I32))
            }
            _ => Err(Reason::Unknown("operand", word.into())),
        }
    }

    fn memory(&mut self, scope: &FunctionParser) -> IrParseResult<MemId> {
        self.expect("@")?;
        find_reference(&scope.memories, &self.reference()?)
    }

    fn local(&mut self, scope: &FunctionParser) -> IrParseResult<LocalId> {
        self.expect("$")?;
        find_reference(&scope.locals, &self.reference()?)
    }

    fn place(&mut self, scope: &mut FunctionParser) -> IrParseResult<Place> {
        let memory = self.memory(scope)?;
        self.expect("[")?;
        let indices = self.list("]", |p| p.operand(scope))?;
        let leaf = if self.eat(":") { self.u32()? } else { 0 };
        let component = if self.eat(".") {
            let word = self.word()?;
            let at = COMPONENTS.iter().position(|c| *c == word);
            Some(at.ok_or(Reason::IsNot(word, "a component"))? as u8)
        } else {
            None
        };
        Ok(Place { memory, indices, leaf, component })
    }

    /// Parses the expression on the right side of `=`. Statements with results are parsed elsewhere.
    fn expression(&mut self, scope: &mut FunctionParser) -> IrParseResult<ExprKind> {
        let word = match self.peek() {
            Some(IrToken::Word(word)) => word.clone(),
            _ => return self.infix(scope),
        };
        let at = self.at;
        self.at += 1;
        Ok(match word.as_str() {
            "read" => ExprKind::Read(self.local(scope)?),
            "load" => ExprKind::Load { place: self.place(scope)?, hint: self.hint() },
            "neg" => ExprKind::Unary { op: UnaryOp::Neg, value: self.operand(scope)? },
            "not" => ExprKind::Unary { op: UnaryOp::Not, value: self.operand(scope)? },
            "select" => {
                let cond = self.operand(scope)?;
                self.expect(",")?;
                let then = self.operand(scope)?;
                self.expect(",")?;
                ExprKind::Select { cond, then, other: self.operand(scope)? }
            }
            "convert" => ExprKind::Convert(self.operand(scope)?),
            "bitcast" => ExprKind::Bitcast(self.operand(scope)?),
            "compose" => ExprKind::Compose(self.operands(scope)?),
            "extract" => {
                let value = self.operand(scope)?;
                self.expect(",")?;
                ExprKind::Extract { value, lane: self.u8()? }
            }
            "result" => ExprKind::Result,
            name => match find(name).map(|entry| entry.builtin) {
                Some(Builtin::Math(function)) => {
                    self.expect("(")?;
                    ExprKind::Math { function, args: self.list(")", |p| p.operand(scope))? }
                }
                _ => {
                    self.at = at;
                    return self.infix(scope);
                }
            },
        })
    }

    fn infix(&mut self, scope: &mut FunctionParser) -> IrParseResult<ExprKind> {
        let left = self.operand(scope)?;
        let op = match self.next() {
            Some(IrToken::Punctuation(p)) => OPERATORS.into_iter().find(|op| op.operator().symbol() == p),
            _ => None,
        };
        let op = op.ok_or(Reason::Expected("an operator"))?;
        Ok(ExprKind::Binary { op, left, right: self.operand(scope)? })
    }
}

/// Parses a number with its type suffix.
fn constant(text: &str, negative: bool) -> IrParseResult<(u64, Scalar)> {
    let scalar = Scalar::ALL.into_iter().filter(|s| text.ends_with(s.name())).max_by_key(|s| s.name().len());
    let scalar = scalar.ok_or_else(|| Reason::NoType(text.into()))?;
    let digits = text.strip_suffix(scalar.name()).unwrap_or(text);
    let digits = if negative { format!("-{digits}") } else { digits.to_string() };
    let bad = || Reason::InvalidConstant { digits: digits.clone(), scalar };
    let single = || digits.parse::<f32>().map_err(|_| bad());
    let bits = match scalar {
        Scalar::F16 => f16::from_f32(single()?).to_bits() as u64,
        Scalar::Bf16 => bf16::from_f32(single()?).to_bits() as u64,
        Scalar::F32 => single()?.to_bits() as u64,
        Scalar::F64 => digits.parse::<f64>().map_err(|_| bad())?.to_bits(),
        _ => {
            let value: i128 = digits.parse().map_err(|_| bad())?;
            (value as u64) & (u64::MAX >> (64 - scalar.bits()))
        }
    };
    Ok((bits, scalar))
}

/// Sets the types of parameter expressions from the signatures, because the text form contains these types only there.
fn type_params(kernel: &Kernel, functions: &mut Arena<Function>) {
    for (id, function) in functions.iter_mut() {
        let params = function.params.clone();
        for (_, expr) in function.exprs.iter_mut() {
            let ExprKind::Param(i) = expr.kind else { continue };
            let ty = if id == kernel.body {
                match kernel.params.get(i as usize) {
                    Some(KernelParam::Value { ty, .. }) => Some(*ty),
                    _ => None,
                }
            } else {
                params.get(i as usize).copied()
            };
            expr.ty = ty.unwrap_or(expr.ty);
        }
    }
}
