//! Parser of LaneIR's text form, for tests. It also accepts invalid regions, which tests of the verifier need.

use super::*;
use clk_base::arena::Id;
use clk_scalar::builtin::find;

type LaneParseResult<T> = Result<T, String>;

/// Parses a region. An error message begins with the line number.
pub(crate) fn parse(text: &str) -> Result<LaneRegion, String> {
    let mut reader = RegionReader { lines: vec![], at: 0, types: vec![] };
    for (number, line) in text.lines().enumerate() {
        let line = line.split("//").next().unwrap_or("").trim();
        if !line.is_empty() {
            reader.lines.push((number + 1, line));
        }
    }
    let region = reader.region();
    // Report the error for the line that was read last.
    let last = reader.lines.last().map_or(0, |l| l.0);
    let line = reader.lines.get(reader.at.saturating_sub(1)).map_or(last, |l| l.0);
    region.map_err(|message| format!("line {line}: {message}"))
}

/// Maximum nesting depth. It bounds the parser's recursion.
const MAX_DEPTH: usize = 200;

/// Maximum number of values. It bounds the size of the value table.
const MAX_VALUES: u32 = 1 << 20;

struct RegionReader<'a> {
    /// The nonempty lines with their line numbers, without comments and indentation.
    lines: Vec<(usize, &'a str)>,
    at: usize,
    /// The type from the first definition of each value.
    types: Vec<Option<ValueDef>>,
}

impl<'a> RegionReader<'a> {
    fn line(&mut self) -> LaneParseResult<LineReader<'a>> {
        let line = self.lines.get(self.at).ok_or("the text ends early")?;
        self.at += 1;
        Ok(LineReader { rest: line.1 })
    }

    /// If the next line begins with this word, returns the rest of the line.
    fn begins(&mut self, word: &str) -> Option<LineReader<'a>> {
        let mut line = LineReader { rest: self.lines.get(self.at)?.1 };
        let matches = line.eat_word(word);
        self.at += usize::from(matches);
        matches.then_some(line)
    }

    fn region(&mut self) -> LaneParseResult<LaneRegion> {
        let mut line = self.line()?;
        line.expect_word("region")?;
        let has_barriers = line.eat_word("together");
        let wide = line.eat_word("wide");
        let mut full_group = None;
        if line.eat_word("whole") {
            let mut extents = [0; 3];
            for (axis, extent) in extents.iter_mut().enumerate() {
                if axis > 0 {
                    line.expect(",")?;
                }
                *extent = line.number()?;
            }
            full_group = Some(extents);
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
        let mut region = LaneRegion {
            values: vec![],
            setup: vec![],
            body: vec![],
            reads: vec![],
            writes: vec![],
            memories: vec![],
            owned: vec![],
            reports: vec![],
            checked_accesses: vec![],
            accesses: vec![],
            wide,
            full_group,
            has_barriers,
            inner: 0,
            phase_slots: vec![],
            phase_origins: FxHashMap::default(),
        };
        self.tables(&mut region)?;
        self.section("setup")?;
        for node in self.nodes(0)? {
            let LaneNode::Inst(inst) = node else { return Err("the setup has instructions only".into()) };
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
        region.values = types.map(|(n, def)| def.ok_or_else(|| missing(n))).collect::<LaneParseResult<_>>()?;
        Ok(region)
    }

    fn tables(&mut self, region: &mut LaneRegion) -> LaneParseResult<()> {
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
                region.memories.push(RegionMemory { memory, loads, stores, own, fresh, updates, restored });
                if line.eat_word("private") {
                    region.owned.push((memory, false));
                } else if line.eat_word("marked") {
                    region.owned.push((memory, true));
                }
                line.end()?;
            } else if let Some(mut line) = self.begins("report") {
                let (memory, store) = (line.memory()?, line.eat_word("store"));
                let _ = store || line.eat_word("load");
                let field_value = |line: &mut LineReader, name: &str| {
                    line.expect_word(name)?;
                    line.number()
                };
                let (note, first) = (field_value(&mut line, "note")?, field_value(&mut line, "first")?);
                let (loops, nest) = (field_value(&mut line, "loops")? as u8, field_value(&mut line, "nest")?);
                region.reports.push(HoistedReport { memory, store, note, first, loops, nest });
                line.end()?;
            } else if let Some(mut line) = self.begins("access") {
                region.accesses.push(self.access(&mut line)?);
            } else if let Some(mut line) = self.begins("kept") {
                region.phase_slots.push(line.table_item(&TYPES)?);
                line.end()?;
            } else if let Some(mut line) = self.begins("origin") {
                let value = self.operand(&mut line)?;
                line.expect_word("of")?;
                region.phase_origins.insert(value, self.operand(&mut line)?);
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
                region.writes.push(WrittenRegister { reg, scalar, uniform });
                line.end()?;
            } else {
                return Ok(());
            }
        }
    }

    fn access(&mut self, line: &mut LineReader<'_>) -> LaneParseResult<AccessChecks> {
        let address = self.operand(line)?;
        let columns = if line.eat("+") { line.number()? } else { 0 };
        let offsets = if line.eat(",") { self.operand(line)? } else { LaneValue::NONE };
        line.expect_word("of")?;
        let memory = line.memory()?;
        line.expect(":")?;
        let mut checks = vec![];
        while !line.rest.is_empty() {
            let LaneInst { op, args, .. } = self.operation(line)?;
            checks.push(LaneCheck { op, args });
            if !line.eat(";") {
                line.end()?;
            }
        }
        Ok(AccessChecks { memory, address, offsets, columns, checks })
    }

    fn section(&mut self, word: &str) -> LaneParseResult<()> {
        let mut line = self.line()?;
        line.expect_word(word)?;
        line.expect("{")?;
        line.end()
    }

    /// Reads nodes up to the closing brace.
    fn nodes(&mut self, depth: usize) -> LaneParseResult<Vec<LaneNode>> {
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

    fn node(&mut self, mut line: LineReader<'_>, depth: usize) -> LaneParseResult<LaneNode> {
        if line.eat_word("block") {
            let exit = line.exit()?;
            line.expect("{")?;
            line.end()?;
            return Ok(LaneNode::Block(exit, self.nodes(depth + 1)?));
        }
        if line.eat_word("loop") {
            line.expect("{")?;
            line.end()?;
            return Ok(LaneNode::Loop(self.nodes(depth + 1)?));
        }
        if line.eat_word("each") {
            line.expect("{")?;
            line.end()?;
            return Ok(LaneNode::Phase(self.nodes(depth + 1)?));
        }
        if line.eat_word("branch") {
            let exit = line.exit()?;
            let cond = match line.eat_word("if") {
                false => BranchCond::Always,
                true if line.eat_word("none") => BranchCond::MaskEmpty(self.operand(&mut line)?),
                true => {
                    let (rel, elem) = (line.table_item(&RELATIONS)?, line.element()?);
                    let a = self.operand(&mut line)?;
                    line.expect(",")?;
                    BranchCond::Scalar(rel, elem, a, self.operand(&mut line)?)
                }
            };
            line.end()?;
            return Ok(LaneNode::Branch(cond, exit));
        }
        let mut dst = LaneValue::NONE;
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
        let inst = LaneInst { dst, ..self.operation(&mut line)? };
        line.end()?;
        Ok(LaneNode::Inst(inst))
    }

    fn declare(&mut self, value: LaneValue, def: ValueDef) -> LaneParseResult<()> {
        match self.types.get_mut(value.index()) {
            None => Err(format!("there is no {value}")),
            Some(Some(_)) => Err(format!("{value} has a type already")),
            Some(of) => {
                *of = Some(def);
                Ok(())
            }
        }
    }

    fn operand(&self, line: &mut LineReader<'_>) -> LaneParseResult<LaneValue> {
        let value = line.value()?;
        if value.index() < self.types.len() { Ok(value) } else { Err(format!("there is no {value}")) }
    }

    /// Reads an operation with its operands.
    fn operation(&self, line: &mut LineReader<'_>) -> LaneParseResult<LaneInst> {
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
        let inst = LaneInst::new(op, LaneValue::NONE, &args);
        Ok(if line.eat_word("under") { inst.with_mask(self.operand(line)?) } else { inst })
    }
}

/// The unread rest of a line. It never starts with a space.
struct LineReader<'a> {
    rest: &'a str,
}

impl<'a> LineReader<'a> {
    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest[bytes..].trim_start();
    }

    fn eat(&mut self, punctuation: &str) -> bool {
        let matches = self.rest.starts_with(punctuation);
        if matches {
            self.advance(punctuation.len());
        }
        matches
    }

    fn expect(&mut self, punctuation: &str) -> LaneParseResult<()> {
        if self.eat(punctuation) { Ok(()) } else { Err(format!("expected `{punctuation}` before `{}`", self.rest)) }
    }

    /// Returns the next word, which may be empty.
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
        let matches = self.peek() == word;
        if matches {
            self.advance(word.len());
        }
        matches
    }

    fn expect_word(&mut self, word: &str) -> LaneParseResult<()> {
        if self.eat_word(word) { Ok(()) } else { Err(format!("expected `{word}` before `{}`", self.rest)) }
    }

    fn end(&self) -> LaneParseResult<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(format!("expected the end of the line before `{}`", self.rest)) }
    }

    /// Reads a name, and returns the item with this name in the table.
    fn table_item<T: Copy>(&mut self, table: &[(T, &'static str)]) -> LaneParseResult<T> {
        let word = self.word();
        item(table, word).ok_or_else(|| format!("unknown name `{word}`"))
    }

    fn number<T: std::str::FromStr>(&mut self) -> LaneParseResult<T> {
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = self.rest[sign..].find(|c: char| !c.is_ascii_digit());
        let end = digits.map_or(self.rest.len(), |d| d + sign);
        let number = self.rest[..end].parse().map_err(|_| format!("expected a number before `{}`", self.rest))?;
        self.advance(end);
        Ok(number)
    }

    /// Reads a number in parentheses.
    fn parameter<T: std::str::FromStr>(&mut self) -> LaneParseResult<T> {
        self.expect("(")?;
        let number = self.number()?;
        self.expect(")")?;
        Ok(number)
    }

    fn bits(&mut self) -> LaneParseResult<u64> {
        self.expect("#")?;
        let word = self.word();
        u64::from_str_radix(word, 16).map_err(|_| format!("bits are hexadecimal, unlike `{word}`"))
    }

    fn value(&mut self) -> LaneParseResult<LaneValue> {
        self.expect("%")?;
        Ok(if self.eat_word("none") { LaneValue::NONE } else { LaneValue(self.number()?) })
    }

    fn reg(&mut self) -> LaneParseResult<Reg> {
        let word = self.word();
        let number = word.strip_prefix('r').and_then(|n| n.parse().ok());
        number.ok_or_else(|| format!("expected a register, not `{word}`"))
    }

    fn memory(&mut self) -> LaneParseResult<MemId> {
        Ok(Id::new(self.number::<u32>()? as usize))
    }

    fn exit(&mut self) -> LaneParseResult<Exit> {
        self.expect("'e")?;
        Ok(Exit(self.number()?))
    }

    fn scalar(&mut self) -> LaneParseResult<Scalar> {
        let word = self.word();
        Scalar::from_name(word).ok_or_else(|| format!("unknown type `{word}`"))
    }

    fn def(&mut self) -> LaneParseResult<ValueDef> {
        let mutable = self.eat_word("mut");
        let ty = self.table_item(&TYPES)?;
        let (depends_on_x, depends_on_row) = self.marks()?;
        Ok(ValueDef { ty, mutable, depends_on_x, depends_on_row })
    }

    fn marks(&mut self) -> LaneParseResult<(bool, bool)> {
        let (mut depends_on_x, mut depends_on_row) = (false, false);
        if self.eat("(") {
            depends_on_x = self.eat_word("x");
            depends_on_row = (!depends_on_x || self.eat(",")) && self.eat_word("row");
            self.expect(")")?;
        }
        Ok((depends_on_x, depends_on_row))
    }

    fn phase_slot(&mut self) -> LaneParseResult<PhaseSlot> {
        let (number, (depends_on_x, depends_on_row)) = (self.number()?, self.marks()?);
        Ok(PhaseSlot { number, depends_on_x, depends_on_row })
    }

    /// Reads the type after an operation's name.
    fn element(&mut self) -> LaneParseResult<LaneElem> {
        self.expect(".")?;
        self.table_item(&ELEMENTS)
    }

    fn input(&mut self) -> LaneParseResult<Option<RegionInput>> {
        let name = self.peek();
        if name == "column" {
            self.advance(name.len());
            return Ok(Some(RegionInput::ColumnBytes));
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
                RegionInput::Uniform(reg, self.scalar()?)
            }
            "lanes" => RegionInput::LaneRegister(self.reg()?),
            "first" => RegionInput::FirstCoord(self.table_item(&AXES)?),
            "last" => RegionInput::LastCoord(self.table_item(&AXES)?),
            _ => {
                self.expect_word("mem")?;
                let memory = self.memory()?;
                match name {
                    "base" => RegionInput::BaseAddress(memory),
                    "alone" => RegionInput::Exclusive(memory),
                    "marks" => RegionInput::InitBytes(memory),
                    "mark" => RegionInput::InitValue(memory),
                    _ => {
                        self.expect(",")?;
                        self.expect_word("axis")?;
                        let axis = self.number()?;
                        if name == "extent" {
                            RegionInput::Extent(memory, axis)
                        } else {
                            RegionInput::Pitch(memory, axis)
                        }
                    }
                }
            }
        };
        self.expect(")")?;
        Ok(Some(input))
    }

    fn op(&mut self) -> LaneParseResult<LaneOp> {
        if let Some(input) = self.input()? {
            return Ok(LaneOp::Input(input));
        }
        let word = self.word();
        // `trunc` is an operation on scalars; `trunc` followed by a type is an operation on vectors.
        if self.rest.starts_with('.') {
            return self.typed(word);
        }
        Ok(match word {
            "const" => LaneOp::Const(self.number()?),
            "coord" => LaneOp::Coord(self.table_item(&AXES)?),
            "scalar" => LaneOp::Scalar(self.table_item(&BINARY)?, self.element()?),
            "set" => LaneOp::CompareScalar(self.table_item(&RELATIONS)?, self.element()?),
            "atomic" => LaneOp::Atomic(self.table_item(&UPDATES)?, self.element()?),
            "warp" => LaneOp::Warp(self.table_item(&WARPS)?, self.element()?),
            "compare" => LaneOp::Compare(self.table_item(&RELATIONS)?, self.element()?),
            "call" => {
                let name = self.word();
                let Some(Builtin::Math(function)) = find(name).map(|entry| entry.builtin) else {
                    return Err(format!("unknown function `{name}`"));
                };
                LaneOp::Call(function, self.element()?)
            }
            "limit" => LaneOp::RowLimit(self.parameter()?),
            "word" => LaneOp::ReportWord(self.parameter()?),
            "keep" => LaneOp::SaveSlot(self.phase_slot()?),
            "kept" => LaneOp::LoadSlot(self.phase_slot()?),
            "iota" => LaneOp::Iota(self.parameter()?),
            "output" => LaneOp::Output(self.parameter()?),
            "check_row" => LaneOp::CheckRow(self.parameter()?),
            "splat" => LaneOp::Splat(self.bits()?),
            "mask_const" => LaneOp::MaskConst(self.table_item(&BOOLS)?),
            "broadcast" => match self.input()? {
                Some(input) => LaneOp::BroadcastInput(input),
                None => LaneOp::Broadcast,
            },
            _ => item(&PLAIN, word).ok_or_else(|| format!("unknown operation `{word}`"))?,
        })
    }

    /// Reads the rest of an operation that is followed by an element type.
    fn typed(&mut self, word: &str) -> LaneParseResult<LaneOp> {
        let cell = |line: &mut Self| {
            line.expect(".")?;
            line.table_item(&CELLS)
        };
        let form = |line: &mut Self| {
            line.expect(".")?;
            match item(&OWN_FORMS, line.peek()) {
                Some(form) => {
                    line.word();
                    line.parameter().map(form)
                }
                None => line.table_item(&FORMS),
            }
        };
        Ok(match word {
            "load_scalar" => LaneOp::LoadScalar(cell(self)?),
            "load" => LaneOp::Load(cell(self)?, form(self)?),
            "store" => LaneOp::Store(cell(self)?, form(self)?),
            "touch" => LaneOp::ReportAccess(cell(self)?, form(self)?, self.parameter()?),
            "fma" => LaneOp::Fma(self.element()?),
            "convert" => LaneOp::Convert(self.element()?, self.element()?),
            _ => match (item(&BINARY, word), item(&UNARY, word)) {
                (Some(bin), _) => LaneOp::Vector(bin, self.element()?),
                (_, Some(un)) => LaneOp::Unary(un, self.element()?),
                _ => return Err(format!("unknown operation `{word}`")),
            },
        })
    }
}
