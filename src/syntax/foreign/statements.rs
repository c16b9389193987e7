//! Parses statements and functions of Python, C, CUDA and Julia, and statements of Clk between them.

use super::cursor::ForeignParser;
use super::expressions::whole_expression;
use super::functions::QUALIFIERS;
use super::tokens::ForeignTokenKind;
use super::tree::{
    Dialect, ForeignArgument, ForeignExpr, ForeignFunction, ForeignParameter, ForeignStmt, ForeignVariable,
    FunctionRole, StmtShape, TextPart,
};

/// Assignment operators and their operators in Clk's spelling.
const ASSIGNMENTS: &[(&str, &str)] = &[
    ("=", ""),
    (":=", ""),
    ("+=", "+"),
    ("-=", "-"),
    ("*=", "*"),
    ("/=", "/"),
    ("//=", "//"),
    ("%=", "%"),
    ("**=", "**"),
    ("@=", "@"),
    ("&=", "&"),
    ("|=", "|"),
    ("^=", "^"),
    ("<<=", "<<"),
    (">>=", ">>"),
];

impl<'t> ForeignParser<'t> {
    /// Parses a statement with the comments before it; `None` if no language has it.
    pub fn statement(&mut self) -> Option<ForeignStmt> {
        self.skip_line_ends();
        while self.eat(";") {
            self.skip_line_ends();
        }
        let start = self.token().start;
        let comments = self.take_comments(start);
        let first = self.at;
        let shape = self.nested(|p| p.shape())?;
        if self.at == first {
            return None;
        }
        let end = self.last_end();
        let trailing_comment = self.take_trailing_comment(end);
        let end = end.max(self.comment_end);
        let before = self.text[..start].trim_end_matches([' ', '\t']);
        let is_after_gap =
            before.trim_end_matches([' ', '\t', '\r', '\n']).len() + 1 < before.trim_end_matches('\r').len();
        Some(ForeignStmt { shape, start, end, comments, trailing_comment, is_after_gap })
    }

    fn shape(&mut self) -> Option<StmtShape> {
        if self.kind() == ForeignTokenKind::Directive {
            return self.directive();
        }
        let word = self.word();
        match word {
            "@" if self.dialect == Dialect::Python => return self.decorated(),
            "def" | "function" if self.is_name_at(1) => return self.function(FunctionRole::Function),
            "if" => return self.if_statement(),
            "while" => {
                self.next();
                let condition = self.head()?;
                let body = self.body(&[])?;
                self.end_of_julia()?;
                return Some(StmtShape::While(condition, body));
            }
            "for" => return self.for_statement(),
            "do" if self.word_at(1) == "{" => {
                self.next();
                let body = self.body(&[])?;
                self.skip_line_ends();
                self.expect("while")?;
                let condition = self.expression()?;
                self.end()?;
                return Some(StmtShape::DoWhile(body, condition));
            }
            "switch" if self.word_at(1) == "(" => return self.switch(),
            "loop" if self.word_at(1) == "{" => {
                self.next();
                return Some(StmtShape::Loop(self.body(&[])?));
            }
            "return" => {
                self.next();
                let value = if self.at_end() { None } else { Some(self.expressions()?) };
                self.end()?;
                return Some(StmtShape::Return(value));
            }
            "break" | "continue" => {
                self.next();
                self.end()?;
                return Some(StmtShape::Jump(if word == "break" { "break" } else { "continue" }));
            }
            "pass" => {
                self.next();
                self.end()?;
                return Some(StmtShape::Nothing);
            }
            "import" | "from" | "using" if self.dialect != Dialect::C || word == "using" => return self.import(),
            "assert" if self.word_at(1) != "(" => {
                self.next();
                let condition = self.expression()?;
                let message = if self.eat(",") { Some(self.expression()?) } else { None };
                self.end()?;
                return Some(StmtShape::Assert(condition, message));
            }
            "let" | "var" => return self.binding(),
            "kernel" | "__global__" | "__kernel" | "template" if self.dialect == Dialect::C => {
                return self.attempt(|p| p.c_function()).or_else(|| self.item());
            }
            "fn" | "kernel" | "test" | "bench" if self.dialect == Dialect::Python => return self.item_with_colon(),
            "struct" if self.dialect == Dialect::C => {
                return self.attempt(|p| p.c_struct()).or_else(|| self.item());
            }
            "fn" | "kernel" | "test" | "bench" | "shared" if self.dialect == Dialect::C => {
                return self.item();
            }
            "{" if self.dialect == Dialect::C => return Some(StmtShape::Block(self.body(&[])?)),
            "else" | "elif" | "elseif" | "except" | "finally" | "case" | "default" | "end" | "class" | "try"
            | "with" | "struct" | "union" | "enum" | "typedef" | "goto" => return None,
            _ => {}
        }
        if self.dialect == Dialect::C {
            if let Some(shape) = self.attempt(|p| p.vector()).or_else(|| self.attempt(|p| p.output())) {
                return Some(shape);
            }
            if let Some(shape) = self.attempt(|p| p.c_function()) {
                return Some(shape);
            }
            if let Some(shape) = self.attempt(|p| p.declaration()) {
                return Some(shape);
            }
        }
        self.simple()
    }

    /// Returns whether the statement ends here.
    fn at_end(&self) -> bool {
        matches!(self.kind(), ForeignTokenKind::LineEnd | ForeignTokenKind::End) || matches!(self.word(), ";" | "}")
    }

    /// Takes the end of a statement; fails if something else follows.
    fn end(&mut self) -> Option<()> {
        if self.eat(";") {
            return Some(());
        }
        self.at_end().then_some(())
    }

    /// Parses an assignment, an increment or an expression.
    fn simple(&mut self) -> Option<StmtShape> {
        let shape = self.simple_without_end()?;
        self.end()?;
        Some(shape)
    }

    fn simple_without_end(&mut self) -> Option<StmtShape> {
        if self.kind() == ForeignTokenKind::Text && self.token().text.starts_with(['"', '\'']) {
            // A documentation string of Python.
            let text = self.next().text;
            return (self.dialect == Dialect::Python && text.starts_with("\"\"\"")).then_some(StmtShape::Nothing);
        }
        for (word, op) in [("++", "+"), ("--", "-")] {
            if self.eat(word) {
                let place = self.expression()?;
                return Some(StmtShape::Assign(vec![place], op, ForeignExpr::Number("1".into())));
            }
        }
        let first = self.expressions()?;
        for (word, op) in [("++", "+"), ("--", "-")] {
            if self.eat(word) {
                return Some(StmtShape::Assign(vec![first], op, ForeignExpr::Number("1".into())));
            }
        }
        // `x: float = 1.0` of Python.
        if self.dialect == Dialect::Python && self.word() == ":" && matches!(first, ForeignExpr::Name(_)) {
            self.next();
            // `x: f32 = 1.0` only lacks the `let` of Clk.
            if clk_scalar::Scalar::from_name(self.word()).is_some_and(|ty| ty.name() != "bool") {
                return None;
            }
            self.annotation()?;
            self.expect("=")?;
            return Some(StmtShape::Assign(vec![first], "", self.expressions()?));
        }
        let Some((word, op)) = ASSIGNMENTS.iter().find(|(word, _)| *word == self.word()).copied() else {
            return Some(StmtShape::Value(first));
        };
        self.next();
        self.skip_line_ends();
        let mut places = vec![first];
        let mut value = self.expressions()?;
        while word == "=" && self.eat("=") {
            places.push(value);
            value = self.expressions()?;
        }
        Some(StmtShape::Assign(places, op, value))
    }

    /// Parses a block: braces, an indented block, a block that ends with a word of `ends`, or a single statement.
    pub fn body(&mut self, ends: &[&str]) -> Option<Vec<ForeignStmt>> {
        self.nested(|p| p.any_body(ends))
    }

    fn any_body(&mut self, ends: &[&str]) -> Option<Vec<ForeignStmt>> {
        if self.word() == ":" && self.dialect == Dialect::Python {
            self.next();
            return self.indented();
        }
        let before = self.at;
        self.skip_line_ends();
        if self.eat("{") {
            let mut stmts = Vec::new();
            loop {
                self.skip_line_ends();
                while self.eat(";") {
                    self.skip_line_ends();
                }
                if self.eat("}") {
                    return Some(stmts);
                }
                stmts.push(self.statement()?);
            }
        }
        if self.dialect == Dialect::Julia {
            let mut stmts = Vec::new();
            loop {
                self.skip_line_ends();
                if self.word() == "end" || ends.contains(&self.word()) {
                    return Some(stmts);
                }
                stmts.push(self.statement()?);
            }
        }
        // A single statement of C follows a closing parenthesis.
        let follows_head = before > 0 && self.token_at(before - 1).text == ")"
            || self.token_at(before.saturating_sub(1)).text == "else";
        if self.dialect != Dialect::C || !follows_head {
            return None;
        }
        Some(vec![self.statement()?])
    }

    /// Parses an indented block, or statements after the colon in the same line.
    fn indented(&mut self) -> Option<Vec<ForeignStmt>> {
        let head_indent = self.token_at(self.at - 1).indent;
        let mut stmts = Vec::new();
        if self.kind() != ForeignTokenKind::LineEnd {
            loop {
                stmts.push(self.statement()?);
                if self.kind() == ForeignTokenKind::LineEnd || self.kind() == ForeignTokenKind::End {
                    return Some(stmts);
                }
            }
        }
        self.skip_line_ends();
        let indent = self.token().indent;
        if indent <= head_indent {
            return None;
        }
        while self.kind() != ForeignTokenKind::End && self.token().indent == indent {
            // The end of a surrounding block of Clk.
            if matches!(self.word(), "}" | ")") {
                break;
            }
            stmts.push(self.statement()?);
            self.skip_line_ends();
        }
        (self.token().indent <= head_indent || matches!(self.word(), "}" | "") || self.kind() == ForeignTokenKind::End)
            .then_some(stmts)
    }

    fn if_statement(&mut self) -> Option<StmtShape> {
        let indent = self.token().indent;
        self.expect("if")?;
        let mut branches = Vec::new();
        let condition = self.head()?;
        branches.push((condition, self.body(&["else", "elseif", "elif"])?));
        loop {
            let next = self.attempt(|p| {
                p.skip_line_ends();
                let is_sibling = p.dialect != Dialect::Python || p.token().indent == indent;
                match p.word() {
                    "elif" | "elseif" if is_sibling => {
                        p.next();
                        Some(true)
                    }
                    "else" if is_sibling && p.word_at(1) == "if" => {
                        p.next();
                        p.next();
                        Some(true)
                    }
                    "else" if is_sibling => {
                        p.next();
                        Some(false)
                    }
                    _ => None,
                }
            });
            match next {
                Some(true) => {
                    let condition = self.head()?;
                    branches.push((condition, self.body(&["else", "elseif", "elif"])?));
                }
                Some(false) => {
                    let otherwise = self.body(&[])?;
                    self.end_of_julia()?;
                    return Some(StmtShape::If(branches, otherwise));
                }
                None => {
                    self.end_of_julia()?;
                    return Some(StmtShape::If(branches, vec![]));
                }
            }
        }
    }

    /// Takes the `end` of a block of Julia.
    pub(super) fn end_of_julia(&mut self) -> Option<()> {
        match self.dialect {
            Dialect::Julia => {
                self.skip_line_ends();
                self.expect("end")
            }
            _ => Some(()),
        }
    }

    /// Parses `switch (x) { case 1: …; break; default: … }` as a chain of `if`. Each case must end with a jump.
    fn switch(&mut self) -> Option<StmtShape> {
        self.expect("switch")?;
        let value = self.expression()?;
        if value.contains(|e| matches!(e, ForeignExpr::Call(..))) {
            return None;
        }
        self.skip_line_ends();
        self.expect("{")?;
        let (mut branches, mut otherwise) = (Vec::new(), Vec::new());
        self.skip_line_ends();
        while !self.eat("}") {
            let mut condition: Option<ForeignExpr> = None;
            let mut is_default = false;
            while matches!(self.word(), "case" | "default") {
                match self.next().text {
                    "default" => is_default = true,
                    _ => {
                        let case = ForeignExpr::binary("==", value.clone(), self.expression()?);
                        condition = Some(match condition {
                            Some(before) => ForeignExpr::binary("||", before, case),
                            None => case,
                        });
                    }
                }
                self.expect(":")?;
                self.skip_line_ends();
            }
            let mut body = Vec::new();
            while !matches!(self.word(), "case" | "default" | "}") {
                body.push(self.statement()?);
                self.skip_line_ends();
            }
            match body.last().map(|stmt| &stmt.shape) {
                Some(StmtShape::Jump("break")) => drop(body.pop()),
                Some(StmtShape::Return(_)) => {}
                _ if self.word() == "}" => {}
                _ => return None,
            }
            match (condition, is_default) {
                (Some(condition), false) => branches.push((condition, body)),
                (None, true) => otherwise = body,
                _ => return None,
            }
        }
        (!branches.is_empty()).then_some(StmtShape::If(branches, otherwise))
    }

    fn for_statement(&mut self) -> Option<StmtShape> {
        self.expect("for")?;
        if self.dialect == Dialect::C
            && self.word() == "("
            && let Some(shape) = self.attempt(|p| p.c_for())
        {
            return Some(shape);
        }
        let parenthesized = self.eat("(");
        let mut names = vec![self.name()?.to_owned()];
        while self.eat(",") {
            names.push(self.name()?.to_owned());
        }
        if parenthesized {
            self.expect(")")?;
        }
        self.for_over(names)
    }

    /// Parses `in elements { … }` or `= 1:n … end` after the variables of a loop. `for i in a, j in b` is a loop in a
    /// loop.
    fn for_over(&mut self, names: Vec<String>) -> Option<StmtShape> {
        if !self.eat("=") && !self.eat("∈") {
            self.expect("in")?;
        }
        let elements = self.head()?;
        if self.eat(",") {
            let inner = vec![self.name()?.to_owned()];
            let inner = self.nested(|p| p.for_over(inner))?;
            return Some(StmtShape::For(names, elements, vec![ForeignStmt::new(inner)]));
        }
        let body = self.body(&[])?;
        self.end_of_julia()?;
        Some(StmtShape::For(names, elements, body))
    }

    /// Parses `(int i = 0; i < n; i++) body`, after the `for`.
    fn c_for(&mut self) -> Option<StmtShape> {
        self.expect("(")?;
        let first = match self.eat(";") {
            true => None,
            false => {
                let shape = self.attempt(|p| p.declaration()).or_else(|| self.simple())?;
                Some(ForeignStmt::new(shape))
            }
        };
        let condition = if self.word() == ";" { None } else { Some(self.expression()?) };
        self.expect(";")?;
        let step = match self.word() {
            ")" => None,
            _ => Some(ForeignStmt::new(self.simple_without_end()?)),
        };
        self.expect(")")?;
        Some(StmtShape::CFor(Box::new(first), condition, Box::new(step), self.body(&[])?))
    }

    /// Parses a declaration of C: `const float x = 1, *p;`, `__shared__ float s[16][17];`.
    fn declaration(&mut self) -> Option<StmtShape> {
        let (mut is_constant, mut is_shared) = (false, false);
        loop {
            match self.word() {
                "const" | "constexpr" | "__constant__" => is_constant = true,
                "__shared__" => is_shared = true,
                word if QUALIFIERS.contains(&word) => {}
                _ => break,
            }
            self.next();
        }
        let ty = match self.type_name() {
            Some(ty) => ty,
            // `const N = 3` of Clk.
            None if is_constant => "",
            None => return None,
        };
        self.eat("const");
        if !self.is_name_at(0) && self.word() != "*" {
            return None;
        }
        let mut variables = Vec::new();
        loop {
            let is_pointer = self.eat("*");
            while QUALIFIERS.contains(&self.word()) || self.word() == "const" {
                self.next();
            }
            let name = self.name()?.to_owned();
            let mut ty_of_clk = false;
            if self.word() == ":" && is_constant {
                self.next();
                self.type_name()?;
                ty_of_clk = true;
            }
            let mut extents = Vec::new();
            while self.eat("[") {
                match self.eat("]") {
                    true => extents.push(ForeignExpr::name("")),
                    false => {
                        extents.push(self.expression()?);
                        self.expect("]")?;
                    }
                }
            }
            let value = if self.eat("=") { Some(self.expression()?) } else { None };
            if ty_of_clk && value.is_none() {
                return None;
            }
            variables.push(ForeignVariable { name, is_pointer, extents, value });
            if !self.eat(",") {
                break;
            }
        }
        self.end()?;
        Some(StmtShape::Declare { ty: ty.to_owned(), is_constant, is_shared, variables })
    }

    /// Parses `std::vector<float> v(n, 1.0f)` and `std::vector<int> v = {1, 2}`.
    fn vector(&mut self) -> Option<StmtShape> {
        if self.eat("std") {
            self.expect("::")?;
        }
        self.expect("vector")?;
        self.expect("<")?;
        let ty = self.type_name().filter(|ty| !ty.is_empty())?;
        self.expect(">")?;
        let name = self.name()?.to_owned();
        let value = if self.word() == "(" {
            let ForeignExpr::Call(_, args) = self.call_of("full")? else { return None };
            let mut values = args.into_iter().map(|arg| arg.value);
            let count = values.next()?;
            let value =
                values.next().unwrap_or(ForeignExpr::Number(if ty.starts_with('f') { "0.0" } else { "0" }.into()));
            let args = [count, ForeignExpr::Cast(ty, Box::new(value))];
            let args = args.map(|value| ForeignArgument { name: None, value });
            ForeignExpr::Call(Box::new(ForeignExpr::name("full")), args.to_vec())
        } else {
            self.eat("=");
            self.expression().filter(|value| matches!(value, ForeignExpr::List(_)))?
        };
        self.end()?;
        Some(StmtShape::Bind("var", name, Some(value)))
    }

    /// Parses `std::cout << a << "text" << std::endl`.
    fn output(&mut self) -> Option<StmtShape> {
        if self.eat("std") {
            self.expect("::")?;
        }
        self.expect("cout")?;
        let mut parts = Vec::new();
        while self.eat("<<") {
            match self.shift_operand()? {
                ForeignExpr::Text(text) => parts.extend(text),
                e if e.path().is_some_and(|path| path.ends_with("endl")) => {}
                e => parts.push(TextPart::Value(e, String::new())),
            }
        }
        self.end()?;
        if let Some(TextPart::Literal(last)) = parts.last_mut()
            && let Some(line) = last.strip_suffix("\\n")
        {
            *last = line.to_owned();
        }
        let value = ForeignExpr::Text(parts);
        let args = vec![ForeignArgument { name: None, value }];
        Some(StmtShape::Value(ForeignExpr::Call(Box::new(ForeignExpr::name("print")), args)))
    }

    /// Parses `let x = …`, `var x: f32`, `let (a, b) = …`, `let mut x = …`.
    fn binding(&mut self) -> Option<StmtShape> {
        let word = if self.next().text == "let" && !self.eat("mut") { "let" } else { "var" };
        let first = self.token().start;
        let has_foreign_type = self.is_name_at(1) && crate::mistakes::c_type(self.word()).is_some();
        if has_foreign_type {
            let ty = self.type_name()?;
            let name = self.name()?.to_owned();
            let value = if self.eat("=") { Some(self.expression()?) } else { None };
            self.end()?;
            return Some(StmtShape::Bind(word, format!("{name}: {ty}"), value));
        }
        let mut depth = 0;
        while !(depth == 0 && (self.word() == "=" || self.at_end())) {
            match self.next() {
                token if matches!(token.text, "(" | "[") => depth += 1,
                token if matches!(token.text, ")" | "]") => depth -= 1,
                token if token.kind == ForeignTokenKind::End => return None,
                _ => {}
            }
        }
        let pattern = self.text.get(first..self.last_end())?;
        // `let a, b = …`
        let is_bare = pattern.contains(',') && !pattern.starts_with('(');
        let pattern = if is_bare { format!("({pattern})") } else { pattern.to_owned() };
        let value = if self.eat("=") { Some(self.expressions()?) } else { None };
        // `let y = x in y + 1`
        if self.word() == "in" && value.is_some() {
            self.next();
            self.skip_line_ends();
            self.must_continue = true;
            return Some(StmtShape::Bind(word, pattern, value));
        }
        self.end()?;
        Some(StmtShape::Bind(word, pattern, value))
    }

    /// Parses an item of Clk with a colon and an indented body.
    fn item_with_colon(&mut self) -> Option<StmtShape> {
        let start = self.token().start;
        let mut depth = 0usize;
        loop {
            let token = self.token();
            match token.text {
                ":" if depth == 0 => break,
                "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.checked_sub(1)?,
                "{" | "}" => return None,
                _ if matches!(token.kind, ForeignTokenKind::End | ForeignTokenKind::LineEnd) => return None,
                _ => {}
            }
            self.next();
        }
        let head = self.text.get(start..self.last_end())?.to_owned();
        Some(StmtShape::Item(head, self.body(&[])?))
    }

    /// Takes the source text of an item or a statement of Clk, up to the end of its line or its closing brace.
    fn item(&mut self) -> Option<StmtShape> {
        let start = self.token().start;
        let mut depth = 0usize;
        loop {
            let token = self.token();
            match token.text {
                _ if token.kind == ForeignTokenKind::End => return None,
                "{" | "(" | "[" => depth += 1,
                ")" | "]" => depth = depth.checked_sub(1)?,
                "}" if depth <= 1 => {
                    if depth == 1 {
                        self.next();
                    }
                    break;
                }
                "}" => depth -= 1,
                ";" if depth == 0 => break,
                _ if depth == 0 && token.kind == ForeignTokenKind::LineEnd => break,
                _ => {}
            }
            self.next();
        }
        let text = self.text.get(start..self.last_end())?.to_owned();
        self.eat(";");
        Some(StmtShape::Raw(text))
    }

    /// Parses `struct Particle { float x; float mass; };`. Returns the struct of Clk.
    fn c_struct(&mut self) -> Option<StmtShape> {
        self.expect("struct")?;
        let name = self.name()?;
        self.skip_line_ends();
        self.expect("{")?;
        let mut fields = Vec::new();
        loop {
            self.skip_line_ends();
            if self.eat("}") {
                break;
            }
            let StmtShape::Declare { ty, variables, .. } = self.declaration()? else { return None };
            for variable in variables {
                let extents: Option<Vec<String>> =
                    variable.extents.iter().map(|e| Some(e.integer()?.to_string())).collect();
                let extents = extents.filter(|_| !variable.is_pointer && variable.value.is_none())?;
                let ty = if extents.is_empty() { ty.clone() } else { format!("[{ty}; {}]", extents.join(", ")) };
                fields.push(format!("{}: {ty}", variable.name));
            }
        }
        self.eat(";");
        Some(StmtShape::Raw(format!("struct {name} {{ {} }}", fields.join(", "))))
    }

    fn import(&mut self) -> Option<StmtShape> {
        const LIBRARIES: [&str; 11] =
            ["numpy", "math", "torch", "jax", "cupy", "numba", "triton", "scipy", "typing", "random", "LinearAlgebra"];
        let module = self.word_at(1);
        while !self.at_end() {
            self.next();
        }
        self.end()?;
        (LIBRARIES.contains(&module) || module == "namespace").then_some(StmtShape::Nothing)
    }

    fn directive(&mut self) -> Option<StmtShape> {
        let line = self.next().text;
        let mut words = line.split_whitespace();
        match words.next()? {
            "include" => Some(StmtShape::Nothing),
            "pragma" if words.next() == Some("unroll") => {
                let count =
                    words.next().map(|count| format!("({})", count.trim_matches(['(', ')']))).unwrap_or_default();
                Some(StmtShape::Hint(format!("#unroll{count}")))
            }
            "pragma" => Some(StmtShape::Nothing),
            "define" if line.trim_start().strip_prefix("define").is_some_and(is_macro_head) => {
                self.macro_function(line.trim_start().strip_prefix("define")?)
            }
            "define" => {
                let name = words.next().filter(|name| name.chars().all(|c| c.is_alphanumeric() || c == '_'))?;
                let value = self.macro_value(line.split_once(name)?.1)?;
                let variable =
                    ForeignVariable { name: name.to_owned(), is_pointer: false, extents: vec![], value: Some(value) };
                Some(StmtShape::Declare {
                    ty: String::new(),
                    is_constant: true,
                    is_shared: false,
                    variables: vec![variable],
                })
            }
            word if word.starts_with("unroll") || word.starts_with("nounroll") => {
                Some(StmtShape::Hint(format!("#{}", line.trim())))
            }
            _ => None,
        }
    }

    /// Parses the replacement of a macro.
    fn macro_value(&self, source: &str) -> Option<ForeignExpr> {
        whole_expression(source.split("//").next()?.trim(), self.dialect)
    }

    /// Parses `SQUARE(x) ((x) * (x))`, the rest of a `#define`, as a function.
    fn macro_function(&self, source: &str) -> Option<StmtShape> {
        let (name, rest) = source.trim_start().split_once('(')?;
        let (params, value) = rest.split_once(')')?;
        let params: Vec<&str> = params.split(',').map(str::trim).collect();
        let is_name = |text: &&str| !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_');
        let value = self.macro_value(value).filter(|_| params.iter().all(is_name))?;
        let params = params.into_iter().map(ForeignParameter::untyped).collect();
        Some(StmtShape::Function(Box::new(ForeignFunction::of_value(name, params, value))))
    }
}

/// Returns whether the text after `#define` begins with the head of a macro with parameters.
fn is_macro_head(text: &str) -> bool {
    let name_end = text.trim_start().find(|c: char| !c.is_alphanumeric() && c != '_');
    name_end.is_some_and(|end| end > 0 && text.trim_start()[end..].starts_with('('))
}

/// Returns the argument without a name at a position.
pub(super) fn positional(args: &[ForeignArgument], index: usize) -> Option<&ForeignExpr> {
    args.get(index).filter(|arg| arg.name.is_none()).map(|arg| &arg.value)
}
