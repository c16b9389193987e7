//! Parser of the text form. It accepts regions that the verifier rejects, which tests of the verifier need.

use super::*;
use crate::base::arena::Id;
use crate::lang::builtin::find;

type Parsed<T> = Result<T, String>;

/// Parses a region. The error names the line.
pub(crate) fn parse(text: &str) -> Result<Region, String> {
    let mut reader = Reader { lines: vec![], at: 0, types: vec![] };
    for (number, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or("").trim();
        if !line.is_empty() {
            reader.lines.push((number + 1, line));
        }
    }
    let region = reader.region();
    // A line that was begun is the one that is wrong.
    let last = reader.lines.last().map_or(0, |l| l.0);
    let line = reader.lines.get(reader.at.saturating_sub(1)).map_or(last, |l| l.0);
    region.map_err(|message| format!("line {line}: {message}"))
}

/// Deeper nesting is rejected, to bound the recursion.
const MAX_DEPTH: usize = 200;

/// More values are rejected, to bound the table.
const MAX_VALUES: u32 = 1 << 20;

struct Reader<'a> {
    /// Without comments, indentation and empty lines; with their numbers.
    lines: Vec<(usize, &'a str)>,
    at: usize,
    /// What the definitions say, by value.
    types: Vec<Option<ValueDef>>,
}

impl<'a> Reader<'a> {
    fn line(&mut self) -> Parsed<Line<'a>> {
        let line = self.lines.get(self.at).ok_or("the text ends early")?;
        self.at += 1;
        Ok(Line { rest: line.1 })
    }

    /// Returns the rest of the line after this word, if the line begins with it.
    fn begins(&mut self, word: &str) -> Option<Line<'a>> {
        let mut line = Line { rest: self.lines.get(self.at)?.1 };
        let found = line.eat_word(word);
        self.at += usize::from(found);
        found.then_some(line)
    }

    fn region(&mut self) -> Parsed<Region> {
        let mut line = self.line()?;
        line.expect_word("region")?;
        let together = line.eat_word("together");
        let wide = line.eat_word("wide");
        let mut whole = None;
        if line.eat_word("whole") {
            let mut extents = [0; 3];
            for (axis, extent) in extents.iter_mut().enumerate() {
                if axis > 0 {
                    line.expect(",")?;
                }
                *extent = line.number()?;
            }
            whole = Some(extents);
        }
        line.end()?;
        let mut line = self.line()?;
        line.expect_word("values")?;
        let count: u32 = line.number()?;
        if count > MAX_VALUES {
            return Err("too many values".into());
        }
        line.end()?;
        self.types = vec![None; count as usize];
        let mut region = Region {
            values: vec![],
            setup: vec![],
            body: vec![],
            reads: vec![],
            writes: vec![],
            memories: vec![],
            owned: vec![],
            reports: vec![],
            touches: vec![],
            accesses: vec![],
            wide,
            whole,
            together,
            inner: 0,
            kept: vec![],
            origins: FxHashMap::default(),
        };
        self.tables(&mut region)?;
        self.section("setup")?;
        for node in self.nodes(0)? {
            let Node::Inst(inst) = node else { return Err("the setup has instructions only".into()) };
            region.setup.push(inst);
        }
        self.section("body")?;
        region.body = self.nodes(0)?;
        if self.at < self.lines.len() {
            self.at += 1;
            return Err("expected the end of the text".into());
        }
        let missing = |n: usize| format!("%{n} has no type");
        let types = self.types.iter().enumerate();
        region.values = types.map(|(n, def)| def.ok_or_else(|| missing(n))).collect::<Parsed<_>>()?;
        Ok(region)
    }

    fn tables(&mut self, region: &mut Region) -> Parsed<()> {
        loop {
            if let Some(mut line) = self.begins("value") {
                let value = line.value()?;
                line.expect(":")?;
                let def = line.def()?;
                self.declare(value, def)?;
                line.end()?;
            } else if let Some(mut line) = self.begins("memory") {
                let memory = line.memory()?;
                let (loads, stores) = (line.eat_word("load"), line.eat_word("store"));
                let updates = line.eat_word("update");
                let (own, fresh) = (line.eat_word("own"), line.eat_word("fresh"));
                let restored = line.eat_word("restored");
                region.memories.push(Touched { memory, loads, stores, own, fresh, updates, restored });
                if line.eat_word("private") {
                    region.owned.push((memory, false));
                } else if line.eat_word("marked") {
                    region.owned.push((memory, true));
                }
                line.end()?;
            } else if let Some(mut line) = self.begins("report") {
                let (memory, store) = (line.memory()?, line.eat_word("store"));
                let _ = store || line.eat_word("load");
                let named = |line: &mut Line, name: &str| {
                    line.expect_word(name)?;
                    line.number()
                };
                let (note, first) = (named(&mut line, "note")?, named(&mut line, "first")?);
                let (loops, nest) = (named(&mut line, "loops")? as u8, named(&mut line, "nest")?);
                region.reports.push(Report { memory, store, note, first, loops, nest });
                line.end()?;
            } else if let Some(mut line) = self.begins("access") {
                region.accesses.push(self.access(&mut line)?);
            } else if let Some(mut line) = self.begins("kept") {
                region.kept.push(line.of(&TYPES)?);
                line.end()?;
            } else if let Some(mut line) = self.begins("origin") {
                let value = self.operand(&mut line)?;
                line.expect_word("of")?;
                region.origins.insert(value, self.operand(&mut line)?);
                line.end()?;
            } else if let Some(mut line) = self.begins("read") {
                region.reads.push(line.reg()?);
                line.end()?;
            } else if let Some(mut line) = self.begins("write") {
                let reg = line.reg()?;
                line.expect(":")?;
                let scalar = line.scalar()?;
                let uniform = line.eat_word("uniform");
                if !uniform {
                    line.expect_word("lanes")?;
                }
                region.writes.push(Written { reg, scalar, uniform });
                line.end()?;
            } else {
                return Ok(());
            }
        }
    }

    fn access(&mut self, line: &mut Line<'_>) -> Parsed<Access> {
        let address = self.operand(line)?;
        let columns = if line.eat("+") { line.number()? } else { 0 };
        let offsets = if line.eat(",") { self.operand(line)? } else { Value::NONE };
        line.expect_word("of")?;
        let memory = line.memory()?;
        line.expect(":")?;
        let mut checks = vec![];
        while !line.rest.is_empty() {
            let Inst { op, args, .. } = self.right(line)?;
            checks.push(Check { op, args });
            if !line.eat(";") {
                line.end()?;
            }
        }
        Ok(Access { memory, address, offsets, columns, checks })
    }

    fn section(&mut self, word: &str) -> Parsed<()> {
        let mut line = self.line()?;
        line.expect_word(word)?;
        line.expect("{")?;
        line.end()
    }

    /// Reads nodes up to the closing bracket.
    fn nodes(&mut self, depth: usize) -> Parsed<Vec<Node>> {
        if depth > MAX_DEPTH {
            return Err("blocks are nested too deep".into());
        }
        let mut nodes = vec![];
        loop {
            let mut line = self.line()?;
            if line.eat("}") {
                line.end()?;
                return Ok(nodes);
            }
            nodes.push(self.node(line, depth)?);
        }
    }

    fn node(&mut self, mut line: Line<'_>, depth: usize) -> Parsed<Node> {
        if line.eat_word("block") {
            let exit = line.exit()?;
            line.expect("{")?;
            line.end()?;
            return Ok(Node::Block(exit, self.nodes(depth + 1)?));
        }
        if line.eat_word("loop") {
            line.expect("{")?;
            line.end()?;
            return Ok(Node::Loop(self.nodes(depth + 1)?));
        }
        if line.eat_word("each") {
            line.expect("{")?;
            line.end()?;
            return Ok(Node::Each(self.nodes(depth + 1)?));
        }
        if line.eat_word("branch") {
            let exit = line.exit()?;
            let cond = match line.eat_word("if") {
                false => Cond::Always,
                true if line.eat_word("none") => Cond::None(self.operand(&mut line)?),
                true => {
                    let (rel, elem) = (line.of(&RELATIONS)?, line.element()?);
                    let a = self.operand(&mut line)?;
                    line.expect(",")?;
                    Cond::Scalar(rel, elem, a, self.operand(&mut line)?)
                }
            };
            line.end()?;
            return Ok(Node::Branch(cond, exit));
        }
        let mut dst = Value::NONE;
        if line.rest.starts_with('%') {
            dst = self.operand(&mut line)?;
            if line.eat(":") {
                let def = line.def()?;
                self.declare(dst, def)?;
            } else if self.types[dst.index()].is_none() {
                return Err(format!("the first definition of {dst} has its type"));
            }
            line.expect("=")?;
        }
        let inst = Inst { dst, ..self.right(&mut line)? };
        line.end()?;
        Ok(Node::Inst(inst))
    }

    fn declare(&mut self, value: Value, def: ValueDef) -> Parsed<()> {
        match self.types.get_mut(value.index()) {
            None => Err(format!("there is no {value}")),
            Some(Some(_)) => Err(format!("{value} has a type already")),
            Some(of) => {
                *of = Some(def);
                Ok(())
            }
        }
    }

    fn operand(&self, line: &mut Line<'_>) -> Parsed<Value> {
        let value = line.value()?;
        if value.index() < self.types.len() { Ok(value) } else { Err(format!("there is no {value}")) }
    }

    /// Reads an operation with its operands.
    fn right(&self, line: &mut Line<'_>) -> Parsed<Inst> {
        let op = line.op()?;
        let mut args = vec![];
        if line.rest.starts_with('%') {
            args.push(self.operand(line)?);
            while line.eat(",") {
                args.push(self.operand(line)?);
            }
        }
        if args.len() > 3 {
            return Err("an operation has three operands at most".into());
        }
        let inst = Inst::new(op, Value::NONE, &args);
        Ok(if line.eat_word("under") { inst.under(self.operand(line)?) } else { inst })
    }
}

/// The rest of a line; what is read leaves no space in front of it.
struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest[bytes..].trim_start();
    }

    fn eat(&mut self, punctuation: &str) -> bool {
        let found = self.rest.starts_with(punctuation);
        if found {
            self.advance(punctuation.len());
        }
        found
    }

    fn expect(&mut self, punctuation: &str) -> Parsed<()> {
        if self.eat(punctuation) { Ok(()) } else { Err(format!("expected `{punctuation}` before `{}`", self.rest)) }
    }

    /// Returns the word that comes next, perhaps empty.
    fn peek(&self) -> &'a str {
        let end = self.rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(self.rest.len());
        &self.rest[..end]
    }

    fn word(&mut self) -> &'a str {
        let word = self.peek();
        self.advance(word.len());
        word
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.peek() == word;
        if found {
            self.advance(word.len());
        }
        found
    }

    fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(format!("expected `{word}` before `{}`", self.rest)) }
    }

    fn end(&self) -> Parsed<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("expected the end of the line before `{}`", self.rest)) }
    }

    /// Reads the name of an item of a table.
    fn of<T: Copy>(&mut self, table: &[(T, &'static str)]) -> Parsed<T> {
        let word = self.word();
        item(table, word).ok_or_else(|| format!("unknown name `{word}`"))
    }

    fn number<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = self.rest[sign..].find(|c: char| !c.is_ascii_digit());
        let end = digits.map_or(self.rest.len(), |d| d + sign);
        let number = self.rest[..end].parse().map_err(|_| format!("expected a number before `{}`", self.rest))?;
        self.advance(end);
        Ok(number)
    }

    /// Reads a number in parentheses.
    fn parameter<T: std::str::FromStr>(&mut self) -> Parsed<T> {
        self.expect("(")?;
        let number = self.number()?;
        self.expect(")")?;
        Ok(number)
    }

    fn bits(&mut self) -> Parsed<u64> {
        self.expect("#")?;
        let word = self.word();
        u64::from_str_radix(word, 16).map_err(|_| format!("bits are hexadecimal, unlike `{word}`"))
    }

    fn value(&mut self) -> Parsed<Value> {
        self.expect("%")?;
        Ok(if self.eat_word("none") { Value::NONE } else { Value(self.number()?) })
    }

    fn reg(&mut self) -> Parsed<Reg> {
        let word = self.word();
        let number = word.strip_prefix('r').and_then(|n| n.parse().ok());
        number.ok_or_else(|| format!("expected a register, not `{word}`"))
    }

    fn memory(&mut self) -> Parsed<MemId> {
        Ok(Id::new(self.number::<u32>()? as usize))
    }

    fn exit(&mut self) -> Parsed<Exit> {
        self.expect("'e")?;
        Ok(Exit(self.number()?))
    }

    fn scalar(&mut self) -> Parsed<Scalar> {
        let word = self.word();
        Scalar::from_name(word).ok_or_else(|| format!("unknown type `{word}`"))
    }

    fn def(&mut self) -> Parsed<ValueDef> {
        let mutable = self.eat_word("mut");
        let ty = self.of(&TYPES)?;
        let (by_x, by_row) = self.marks()?;
        Ok(ValueDef { ty, mutable, by_x, by_row })
    }

    fn marks(&mut self) -> Parsed<(bool, bool)> {
        let (mut by_x, mut by_row) = (false, false);
        if self.eat("(") {
            by_x = self.eat_word("x");
            by_row = (!by_x || self.eat(",")) && self.eat_word("row");
            self.expect(")")?;
        }
        Ok((by_x, by_row))
    }

    fn kept(&mut self) -> Parsed<Kept> {
        let (number, (by_x, by_row)) = (self.number()?, self.marks()?);
        Ok(Kept { number, by_x, by_row })
    }

    /// Reads the type after an operation's name.
    fn element(&mut self) -> Parsed<Elem> {
        self.expect(".")?;
        self.of(&ELEMENTS)
    }

    fn input(&mut self) -> Parsed<Option<Input>> {
        let name = self.peek();
        if name == "column" {
            self.advance(name.len());
            return Ok(Some(Input::Column));
        }
        if !["uniform", "lanes", "base", "extent", "pitch", "alone", "marks", "mark", "first", "last"].contains(&name) {
            return Ok(None);
        }
        self.advance(name.len());
        self.expect("(")?;
        let input = match name {
            "uniform" => {
                let reg = self.reg()?;
                self.expect(",")?;
                Input::Uniform(reg, self.scalar()?)
            }
            "lanes" => Input::Lanes(self.reg()?),
            "first" => Input::First(self.of(&AXES)?),
            "last" => Input::Last(self.of(&AXES)?),
            _ => {
                self.expect_word("mem")?;
                let memory = self.memory()?;
                match name {
                    "base" => Input::Base(memory),
                    "alone" => Input::Alone(memory),
                    "marks" => Input::Marks(memory),
                    "mark" => Input::Mark(memory),
                    _ => {
                        self.expect(",")?;
                        self.expect_word("axis")?;
                        let axis = self.number()?;
                        if name == "extent" { Input::Extent(memory, axis) } else { Input::Pitch(memory, axis) }
                    }
                }
            }
        };
        self.expect(")")?;
        Ok(Some(input))
    }

    fn op(&mut self) -> Parsed<Op> {
        if let Some(input) = self.input()? {
            return Ok(Op::Input(input));
        }
        let word = self.word();
        // `trunc` is an operation on scalars, and with a type one on vectors.
        if self.rest.starts_with('.') {
            return self.typed(word);
        }
        Ok(match word {
            "const" => Op::Const(self.number()?),
            "coord" => Op::Coord(self.of(&AXES)?),
            "scalar" => Op::Scalar(self.of(&BINARY)?, self.element()?),
            "set" => Op::Set(self.of(&RELATIONS)?, self.element()?),
            "atomic" => Op::Atomic(self.of(&UPDATES)?, self.element()?),
            "warp" => Op::Warp(self.of(&WARPS)?, self.element()?),
            "compare" => Op::Compare(self.of(&RELATIONS)?, self.element()?),
            "call" => {
                let name = self.word();
                let Some(Builtin::Math(function)) = find(name).map(|entry| entry.builtin) else {
                    return Err(format!("unknown function `{name}`"));
                };
                Op::Call(function, self.element()?)
            }
            "limit" => Op::Limit(self.parameter()?),
            "word" => Op::Word(self.parameter()?),
            "keep" => Op::Keep(self.kept()?),
            "kept" => Op::Kept(self.kept()?),
            "iota" => Op::Iota(self.parameter()?),
            "output" => Op::Output(self.parameter()?),
            "check_row" => Op::CheckRow(self.parameter()?),
            "splat" => Op::Splat(self.bits()?),
            "mask_const" => Op::MaskConst(self.of(&BOOLS)?),
            "broadcast" => match self.input()? {
                Some(input) => Op::BroadcastInput(input),
                None => Op::Broadcast,
            },
            _ => item(&PLAIN, word).ok_or_else(|| format!("unknown operation `{word}`"))?,
        })
    }

    /// Reads what follows the name of an operation on elements of a type.
    fn typed(&mut self, word: &str) -> Parsed<Op> {
        let cell = |line: &mut Self| {
            line.expect(".")?;
            line.of(&CELLS)
        };
        let form = |line: &mut Self| {
            line.expect(".")?;
            match item(&OWN_FORMS, line.peek()) {
                Some(form) => {
                    line.word();
                    line.parameter().map(form)
                }
                None => line.of(&FORMS),
            }
        };
        Ok(match word {
            "load_scalar" => Op::LoadScalar(cell(self)?),
            "load" => Op::Load(cell(self)?, form(self)?),
            "store" => Op::Store(cell(self)?, form(self)?),
            "touch" => Op::Touch(cell(self)?, form(self)?, self.parameter()?),
            "fma" => Op::Fma(self.element()?),
            "convert" => Op::Convert(self.element()?, self.element()?),
            _ => match (item(&BINARY, word), item(&UNARY, word)) {
                (Some(bin), _) => Op::Vector(bin, self.element()?),
                (_, Some(un)) => Op::Unary(un, self.element()?),
                _ => return Err(format!("unknown operation `{word}`")),
            },
        })
    }
}
