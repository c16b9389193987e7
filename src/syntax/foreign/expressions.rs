//! Parses expressions of Python, C, Rust and Julia by operator precedence.

use super::cursor::ForeignParser;
use super::tokens::{ForeignTokenKind, clk_number, read_tokens};
use super::tree::{Dialect, ForeignArgument, ForeignExpr, Subscript, TextPart};
use crate::mistakes::{c_type, joined_type};

/// Binding powers, from `or` to the power.
const NOT: u8 = 3;
const COMPARISON: u8 = 4;
const SHIFT: u8 = 9;
const UNARY: u8 = 12;
const POWER: u8 = 13;

/// Returns the binary operator of a word in Clk's spelling, and its binding power.
fn infix(word: &str, dialect: Dialect) -> Option<(&'static str, u8)> {
    // In C, bit operations bind less tightly than comparisons.
    let bits = |python: u8, c: u8| if dialect == Dialect::C { c } else { python };
    Some(match word {
        "||" | "or" => ("||", 1),
        "&&" | "and" => ("&&", 2),
        "==" | "===" | "is" => ("==", if dialect == Dialect::C { COMPARISON + 3 } else { COMPARISON }),
        "!=" | "!==" => ("!=", if dialect == Dialect::C { COMPARISON + 3 } else { COMPARISON }),
        "<" | ".<" => ("<", bits(COMPARISON, 8)),
        "<=" => ("<=", bits(COMPARISON, 8)),
        ">" => (">", bits(COMPARISON, 8)),
        ">=" => (">=", bits(COMPARISON, 8)),
        "|" => ("|", bits(5, 4)),
        "^" if dialect != Dialect::Julia => ("^", bits(6, 5)),
        "&" => ("&", bits(7, 6)),
        "<<" => ("<<", SHIFT),
        ">>" => (">>", SHIFT),
        "+" | ".+" => ("+", 10),
        "-" | ".-" => ("-", 10),
        "*" | ".*" => ("*", 11),
        "/" | "./" if dialect == Dialect::C => ("/", 11),
        "/" | "./" => ("/.", 11),
        "//" => ("//", 11),
        "%" => ("%", 11),
        "@" => ("@", 11),
        "**" | ".^" => ("**", POWER),
        "^" => ("**", POWER),
        _ => return None,
    })
}

/// Returns whether a function takes a function as its first argument.
fn is_higher_order(callee: &ForeignExpr) -> bool {
    ["map", "reduce", "filter"].iter().any(|name| callee.is_name(name))
}

fn is_comparison(op: &str) -> bool {
    matches!(op, "==" | "!=" | "<" | "<=" | ">" | ">=")
}

impl<'t> ForeignParser<'t> {
    /// Parses an expression.
    pub fn expression(&mut self) -> Option<ForeignExpr> {
        self.nested(|p| p.conditional())
    }

    /// Parses the head of an `if` or a loop.
    pub fn head(&mut self) -> Option<ForeignExpr> {
        let outer = std::mem::replace(&mut self.in_head, true);
        let head = self.expression();
        self.in_head = outer;
        head
    }

    /// Parses an expression, or several with commas between them as a tuple.
    pub fn expressions(&mut self) -> Option<ForeignExpr> {
        let first = self.expression()?;
        if self.word() != "," {
            return Some(first);
        }
        let mut parts = vec![first];
        while self.eat(",") {
            if self.kind() == ForeignTokenKind::LineEnd || matches!(self.word(), "=" | ")") {
                break;
            }
            parts.push(self.expression()?);
        }
        Some(ForeignExpr::Tuple(parts))
    }

    fn conditional(&mut self) -> Option<ForeignExpr> {
        let mut value = self.range()?;
        // `x |> f`
        while self.eat("|>") {
            let args = vec![ForeignArgument { name: None, value }];
            value = ForeignExpr::Call(Box::new(self.nested(|p| p.postfix())?), args);
        }
        if self.dialect != Dialect::Python && self.eat("?") {
            self.skip_line_ends();
            let outer = std::mem::replace(&mut self.in_conditional, true);
            let yes = self.expression()?;
            self.in_conditional = outer;
            self.skip_line_ends();
            self.expect(":")?;
            self.skip_line_ends();
            let no = self.expression()?;
            return Some(ForeignExpr::Conditional(Box::new([value, yes, no])));
        }
        if self.word() == "if" && !self.in_head_of_comprehension() {
            let after = self.attempt(|p| {
                p.expect("if")?;
                let condition = p.range()?;
                p.expect("else")?;
                Some((condition, p.expression()?))
            });
            if let Some((condition, no)) = after {
                return Some(ForeignExpr::Conditional(Box::new([condition, value, no])));
            }
        }
        Some(value)
    }

    /// Returns whether the `if` here is the condition of a comprehension, which has no `else`.
    fn in_head_of_comprehension(&self) -> bool {
        self.token().is_first
    }

    /// Parses `a..b step c` of Clk and `a:b` of Julia.
    fn range(&mut self) -> Option<ForeignExpr> {
        let first = if matches!(self.word(), ".." | "..=") { None } else { Some(self.binary(1)?) };
        let inclusive = self.word() == "..=";
        if matches!(self.word(), ".." | "..=") {
            self.next();
            // `0..<n` of Swift.
            self.eat("<");
            let ends =
                matches!(self.word(), "]" | ")" | "," | "{" | "step") || self.kind() == ForeignTokenKind::LineEnd;
            let end = if ends { None } else { Some(self.binary(1)?) };
            let has_step = self.eat("step") || end.is_some() && self.eat("..");
            let step = if has_step { Some(self.binary(1)?) } else { None };
            return Some(ForeignExpr::Range(Box::new([first, end, step]), inclusive));
        }
        let first = first?;
        let is_julia =
            self.dialect == Dialect::Julia || self.dialect == Dialect::C && self.in_head && !self.in_conditional;
        if is_julia && self.eat(":") {
            let second = self.binary(1)?;
            let parts = match self.eat(":") {
                true => [Some(first), Some(self.binary(1)?), Some(second)],
                false => [Some(first), Some(second), None],
            };
            return Some(ForeignExpr::Range(Box::new(parts), true));
        }
        Some(first)
    }

    /// Parses an operand of `<<`.
    pub fn shift_operand(&mut self) -> Option<ForeignExpr> {
        self.binary(SHIFT + 1)
    }

    /// Parses arguments in parentheses as a call of a function.
    pub fn call_of(&mut self, function: &str) -> Option<ForeignExpr> {
        Some(ForeignExpr::Call(Box::new(ForeignExpr::name(function)), self.arguments()?))
    }

    fn binary(&mut self, least: u8) -> Option<ForeignExpr> {
        let mut left = self.unary()?;
        // The right operand of the comparison before, for chains such as `a < b < c`.
        let mut compared: Option<ForeignExpr> = None;
        loop {
            let negated = self.word() == "not" && self.word_at(1) == "in" || self.word() == "in";
            let is_operator = matches!(self.kind(), ForeignTokenKind::Operator | ForeignTokenKind::Name);
            let Some((op, power)) = infix(self.word(), self.dialect).filter(|_| is_operator && !negated) else {
                return Some(left);
            };
            if power < least {
                return Some(left);
            }
            self.next();
            let op = if op == "==" && self.eat("not") { "!=" } else { op };
            self.skip_line_ends();
            // Bit operations bind less tightly than comparisons in C, and more tightly in Clk. Without parentheses, the
            // meaning is unclear.
            let is_bit_operation = matches!(op, "&" | "|" | "^") && self.dialect == Dialect::C;
            let (before, first) = (self.token_at(self.at.saturating_sub(2)), self.token());
            let right = match op {
                "**" => self.nested(|p| p.binary(UNARY))?,
                _ => self.nested(|p| p.binary(power + 1))?,
            };
            let is_open = |e: &ForeignExpr, mark: &str, parenthesis: &str| {
                matches!(e, ForeignExpr::Binary(op, ..) if is_comparison(op)) && mark != parenthesis
            };
            if is_bit_operation && (is_open(&left, before.text, ")") || is_open(&right, first.text, "(")) {
                return None;
            }
            // In C, `a < b == c` compares a truth value.
            let chained = compared
                .take()
                .filter(|_| is_comparison(op) && (self.dialect != Dialect::C || !matches!(op, "==" | "!=")));
            if is_comparison(op) && (self.dialect != Dialect::C || !matches!(op, "==" | "!=")) {
                compared = Some(right.clone());
            }
            left = match chained {
                Some(middle) => ForeignExpr::binary("&&", left, ForeignExpr::binary(op, middle, right)),
                None => ForeignExpr::binary(op, left, right),
            };
        }
    }

    fn unary(&mut self) -> Option<ForeignExpr> {
        let word = if self.kind() == ForeignTokenKind::Text { "" } else { self.word() };
        let op = match word {
            "-" => "-",
            "!" | "~" | ".!" => "!",
            "not" => {
                self.next();
                let operand = self.nested(|p| p.binary(NOT))?;
                return Some(ForeignExpr::Unary("!", Box::new(operand)));
            }
            "+" => {
                self.next();
                return self.nested(|p| p.unary());
            }
            "&" => {
                self.next();
                let operand = self.nested(|p| p.unary())?;
                return Some(ForeignExpr::Address(Box::new(operand)));
            }
            "*" => {
                self.next();
                let operand = self.nested(|p| p.unary())?;
                return Some(ForeignExpr::Pointee(Box::new(operand)));
            }
            "lambda" => return self.lambda(),
            "\\" => {
                self.next();
                return self.arrow_function();
            }
            "|" | "||" => return self.closure(),
            _ if self.is_name_at(0) && matches!(self.word_at(1), "->" | "=>") && !self.is_name_of_pointer() => {
                return self.arrow_function();
            }
            "(" => {
                if let Some(function) = self.attempt(|p| p.arrow_function()) {
                    return Some(function);
                }
                // The head decides: reading the operand again in another way would take exponential time.
                if let Some(ty) = self.attempt(|p| p.cast_head()) {
                    let operand = self.nested(|p| p.unary())?;
                    return Some(ForeignExpr::Cast(ty, Box::new(operand)));
                }
                return self.power();
            }
            _ => return self.power(),
        };
        self.next();
        let operand = self.nested(|p| p.binary(UNARY))?;
        Some(ForeignExpr::Unary(op, Box::new(operand)))
    }

    /// Parses `lambda x, y: value`.
    fn lambda(&mut self) -> Option<ForeignExpr> {
        self.expect("lambda")?;
        let mut params = Vec::new();
        while !self.eat(":") {
            params.push(self.name()?.to_owned());
            self.eat(",");
        }
        let value = self.expression()?;
        Some(ForeignExpr::Closure(params, Box::new(value)))
    }

    /// Parses `x y -> value`, `(x, y) => value`, after the backslash if there is one.
    fn arrow_function(&mut self) -> Option<ForeignExpr> {
        let mut params = Vec::new();
        let is_list = self.eat("(");
        while !matches!(self.word(), "->" | "=>" | ")") {
            params.push(self.name()?.to_owned());
            self.eat(",");
        }
        if is_list {
            self.expect(")")?;
        }
        if !self.eat("->") {
            self.expect("=>")?;
        }
        let value = self.expression()?;
        (!params.is_empty()).then_some(ForeignExpr::Closure(params, Box::new(value)))
    }

    /// Parses `|x, y| value` and `|x: f32| value`.
    fn closure(&mut self) -> Option<ForeignExpr> {
        let mut params = Vec::new();
        if !self.eat("||") {
            self.expect("|")?;
            while !self.eat("|") {
                self.eat("&");
                params.push(self.name()?.to_owned());
                if self.eat(":") {
                    self.name()?;
                }
                self.eat(",");
            }
        }
        let value = match self.word() {
            "{" => {
                self.next();
                self.skip_line_ends();
                let value = self.expression()?;
                self.skip_line_ends();
                self.expect("}")?;
                value
            }
            _ => self.expression()?,
        };
        Some(ForeignExpr::Closure(params, Box::new(value)))
    }

    /// Returns whether `p->x` is an access through a pointer, which is written without spaces.
    fn is_name_of_pointer(&self) -> bool {
        let (name, arrow) = (self.token_at(self.at), self.token_at(self.at + 1));
        arrow.text == "->" && name.end() == arrow.start
    }

    /// Parses `(float)` if an operand follows.
    fn cast_head(&mut self) -> Option<&'static str> {
        if self.dialect == Dialect::Python {
            return None;
        }
        self.expect("(")?;
        let ty = self.type_name()?;
        self.expect(")")?;
        let starts_operand = matches!(self.kind(), ForeignTokenKind::Name | ForeignTokenKind::Number)
            || matches!(self.word(), "(" | "-" | "!" | "~");
        (starts_operand && !ty.is_empty()).then_some(ty)
    }

    /// Parses the name of a type of C, possibly of several words; returns Clk's name.
    pub fn type_name(&mut self) -> Option<&'static str> {
        let mut ty = "";
        let mut found = false;
        while let Some(word) = (self.kind() == ForeignTokenKind::Name).then(|| self.word()) {
            match c_type(word) {
                Some(next) => ty = if found { joined_type(ty, next) } else { next },
                None if matches!(word, "std" | "const") => {
                    self.next();
                    self.eat("::");
                    continue;
                }
                None => break,
            }
            found = true;
            self.next();
        }
        found.then_some(ty)
    }

    fn power(&mut self) -> Option<ForeignExpr> {
        let base = self.postfix()?;
        // `x'` is not lexed, and `x.^2` is an operator.
        if infix(self.word(), self.dialect).is_some_and(|(op, _)| op == "**") {
            self.next();
            let exponent = self.nested(|p| p.unary())?;
            return Some(ForeignExpr::binary("**", base, exponent));
        }
        Some(base)
    }

    /// Parses an operand with the calls, indices and fields after it.
    pub fn postfix(&mut self) -> Option<ForeignExpr> {
        let mut base = self.atom()?;
        loop {
            base = match self.word() {
                "(" if !self.token().is_first => {
                    let mut args = self.arguments()?;
                    if is_higher_order(&base) && args.len() == 1 {
                        args.extend(self.applied_operands()?);
                    }
                    ForeignExpr::Call(Box::new(base), args)
                }
                // `map f xs` of Futhark.
                _ if is_higher_order(&base) && self.begins_operand() => {
                    let args = self.applied_operands()?;
                    ForeignExpr::Call(Box::new(base), args)
                }
                "[" if !self.token().is_first => self.index(base)?,
                "." | "->" if self.is_name_at(1) => {
                    self.next();
                    ForeignExpr::Field(Box::new(base), self.name()?.to_owned())
                }
                "." if self.token_at(self.at + 1).kind == ForeignTokenKind::Number => {
                    self.next();
                    ForeignExpr::Field(Box::new(base), self.next().text.to_owned())
                }
                "'" => {
                    self.next();
                    let arg = ForeignArgument { name: None, value: base };
                    ForeignExpr::Call(Box::new(ForeignExpr::name("transpose")), vec![arg])
                }
                // A macro of Rust.
                "!" if matches!(self.word_at(1), "(" | "[") && self.is_adjacent(1) && self.is_adjacent(0) => {
                    self.next();
                    self.rust_macro(base.path()?)?
                }
                // `f.(x)` of Julia.
                "." if self.word_at(1) == "(" => {
                    self.next();
                    base
                }
                "::" if self.is_name_at(1) => {
                    self.next();
                    ForeignExpr::Field(Box::new(base), self.name()?.to_owned())
                }
                "<<<" => {
                    self.next();
                    let mut extents = Vec::new();
                    while !self.eat(">>>") {
                        extents.push(self.expression()?);
                        self.eat(",");
                    }
                    ForeignExpr::Launch(Box::new(base), extents, self.arguments()?)
                }
                "<" if base.path().is_some_and(|path| path.ends_with("_cast")) => {
                    self.next();
                    let ty = self.type_name().filter(|ty| !ty.is_empty())?;
                    self.expect(">")?;
                    let mut args = self.arguments()?;
                    let value = args.pop().filter(|_| args.is_empty())?.value;
                    return Some(ForeignExpr::Cast(ty, Box::new(value)));
                }
                // The template arguments of C++: `thrust::plus<float>()`.
                "<" if self.dialect == Dialect::C && matches!(base, ForeignExpr::Field(..)) => {
                    match self.attempt(|p| p.template_arguments()) {
                        Some(()) => base,
                        None => return Some(base),
                    }
                }
                _ => return Some(base),
            };
        }
    }

    /// Parses the operands after a function of Futhark, which follow it without commas: `0 xs` in `reduce (+) 0 xs`.
    fn applied_operands(&mut self) -> Option<Vec<ForeignArgument>> {
        let mut args = Vec::new();
        while self.begins_operand() {
            args.push(ForeignArgument { name: None, value: self.nested(|p| p.atom())? });
        }
        Some(args)
    }

    fn begins_operand(&self) -> bool {
        let is_operand = match self.kind() {
            ForeignTokenKind::Number => true,
            ForeignTokenKind::Name => {
                !matches!(self.word(), "if" | "else" | "for" | "in" | "and" | "or" | "then" | "is")
            }
            _ => self.word() == "(",
        };
        is_operand && !self.token().is_first
    }

    /// Skips `<float, 16>` before the arguments of a call.
    fn template_arguments(&mut self) -> Option<()> {
        self.expect("<")?;
        loop {
            // Nested expressions are not read, since a comparison is read again as an operator.
            if self.type_name().is_none() && self.next().kind != ForeignTokenKind::Number {
                return None;
            }
            if self.eat(">") {
                return (self.word() == "(").then_some(());
            }
            self.expect(",")?;
        }
    }

    /// Returns whether no space precedes the token `offset` tokens after the next one.
    fn is_adjacent(&self, offset: usize) -> bool {
        let index = self.at + offset;
        index > 0 && self.token_at(index - 1).end() == self.token_at(index).start
    }

    /// Parses the arguments of `println!`, `assert!`, `vec!` and the like.
    fn rust_macro(&mut self, name: String) -> Option<ForeignExpr> {
        if self.word() == "[" {
            return (name == "vec").then(|| self.brackets())?;
        }
        let args = self.arguments()?;
        let call = |name: &str, args| Some(ForeignExpr::Call(Box::new(ForeignExpr::name(name)), args));
        match name.as_str() {
            "println" | "print" | "eprintln" | "format" => {
                let format = ForeignExpr::Field(Box::new(args.first()?.value.clone()), "format".to_owned());
                let text = ForeignExpr::Call(Box::new(format), args[1..].to_vec());
                match name.as_str() {
                    "format" => Some(text),
                    _ => call("print", vec![ForeignArgument { name: None, value: text }]),
                }
            }
            "assert_eq" | "assert_ne" => {
                let op = if name == "assert_eq" { "==" } else { "!=" };
                let value = ForeignExpr::binary(op, args.first()?.value.clone(), args.get(1)?.value.clone());
                call("assert", vec![ForeignArgument { name: None, value }])
            }
            "assert" | "debug_assert" => call("assert", args),
            // `push!(x, v)` of Julia.
            "push" | "append" if args.len() == 2 => {
                let method = ForeignExpr::Field(Box::new(args[0].value.clone()), "append".to_owned());
                Some(ForeignExpr::Call(Box::new(method), args[1..].to_vec()))
            }
            _ => None,
        }
    }

    /// Parses an operator that is passed as a function: `reduce(+, 0, x)`.
    fn operator_section(&mut self) -> Option<ForeignExpr> {
        let word = self.word();
        let ends = matches!(self.word_at(1), "," | ")");
        let (op, _) = infix(word, self.dialect).filter(|_| ends && !self.is_name_at(0))?;
        self.next();
        let operand = |name| ForeignExpr::name(name);
        Some(ForeignExpr::Closure(
            vec!["a".to_owned(), "b".to_owned()],
            Box::new(ForeignExpr::binary(op, operand("a"), operand("b"))),
        ))
    }

    /// Parses the arguments of a call.
    fn arguments(&mut self) -> Option<Vec<ForeignArgument>> {
        self.expect("(")?;
        let outer = std::mem::take(&mut self.in_head);
        let mut args = Vec::new();
        loop {
            self.skip_line_ends();
            if self.eat(")") {
                break;
            }
            let is_named = self.is_name_at(0) && self.word_at(1) == "=";
            let name = if is_named { Some(self.name()?.to_owned()) } else { None };
            if is_named {
                self.next();
            }
            let value = match self.operator_section() {
                Some(section) => section,
                None => self.expression()?,
            };
            let value = if self.word() == "for" { self.comprehension(value)? } else { value };
            args.push(ForeignArgument { name, value });
            self.skip_line_ends();
            if !self.eat(",") && self.word() != ")" {
                return None;
            }
        }
        self.in_head = outer;
        Some(args)
    }

    fn index(&mut self, base: ForeignExpr) -> Option<ForeignExpr> {
        self.expect("[")?;
        let outer = std::mem::take(&mut self.in_head);
        let mut subscripts = Vec::new();
        loop {
            self.skip_line_ends();
            if self.eat("]") {
                break;
            }
            subscripts.push(self.subscript()?);
            self.skip_line_ends();
            if !self.eat(",") && self.word() != "]" {
                return None;
            }
        }
        self.in_head = outer;
        // `a[i][j]` is `a[i, j]`.
        Some(match base {
            ForeignExpr::Index(base, mut first)
                if first.iter().chain(&subscripts).all(|s| matches!(s, Subscript::Element(_)))
                    && !matches!(*base, ForeignExpr::Field(..)) =>
            {
                first.extend(subscripts);
                ForeignExpr::Index(base, first)
            }
            base => ForeignExpr::Index(Box::new(base), subscripts),
        })
    }

    fn subscript(&mut self) -> Option<Subscript> {
        if self.eat("...") {
            return Some(Subscript::Rest);
        }
        let ends = |p: &Self| matches!(p.word(), ":" | "," | "]" | "::");
        let first = if ends(self) { None } else { Some(self.expression()?) };
        if self.dialect == Dialect::Julia {
            return Some(match first {
                Some(ForeignExpr::Range(parts, true)) => {
                    let [start, end, step] = *parts;
                    Subscript::Range([start.map(Box::new), end.map(Box::new), step.map(Box::new)])
                }
                Some(e) => Subscript::Element(e),
                None => {
                    self.expect(":")?;
                    Subscript::Range([None, None, None])
                }
            });
        }
        if !matches!(self.word(), ":" | "::") {
            return Some(match first? {
                e if e.path().is_some_and(|path| matches!(path.as_str(), "None" | "np.newaxis" | "newaxis")) => {
                    Subscript::NewAxis
                }
                ForeignExpr::Range(parts, false) => {
                    let [start, end, step] = *parts;
                    Subscript::Range([start.map(Box::new), end.map(Box::new), step.map(Box::new)])
                }
                e => Subscript::Element(e),
            });
        }
        let is_double = self.next().text == "::";
        let end = if is_double || ends(self) { None } else { Some(self.expression()?) };
        let has_step = is_double || self.eat(":");
        let step = if !has_step || ends(self) { None } else { Some(self.expression()?) };
        Some(Subscript::Range([first.map(Box::new), end.map(Box::new), step.map(Box::new)]))
    }

    /// Parses `for name in elements if condition`, after the value of a comprehension.
    fn comprehension(&mut self, value: ForeignExpr) -> Option<ForeignExpr> {
        self.expect("for")?;
        let name = self.name()?.to_owned();
        self.expect("in")?;
        let elements = self.range()?;
        let condition = if self.eat("if") { Some(Box::new(self.range()?)) } else { None };
        let (value, elements) = (Box::new(value), Box::new(elements));
        Some(ForeignExpr::Comprehension { value, name, elements, condition })
    }

    fn atom(&mut self) -> Option<ForeignExpr> {
        let token = self.token();
        match token.kind {
            ForeignTokenKind::Number => {
                self.next();
                clk_number(token.text).map(ForeignExpr::Number)
            }
            ForeignTokenKind::Text => {
                self.next();
                let text = self.nested(|p| p.text(token.text))?;
                Some(text)
            }
            ForeignTokenKind::Name => self.name_or_keyword(),
            ForeignTokenKind::Operator => self.brackets(),
            _ => None,
        }
    }

    fn name_or_keyword(&mut self) -> Option<ForeignExpr> {
        const KEYWORDS: [&str; 23] = [
            "for", "while", "def", "return", "class", "let", "var", "fn", "kernel", "import", "elif", "else", "in",
            "end", "try", "except", "with", "yield", "await", "function", "struct", "new", "match",
        ];
        let word = self.word();
        if word == "if" {
            return self.if_expression();
        }
        let is_last_index = word == "end" && self.dialect == Dialect::Julia && !self.token().is_first;
        // A name of a parameter in C.
        let is_name = word == "in" && self.dialect == Dialect::C;
        if KEYWORDS.contains(&word) && !is_last_index && !is_name {
            return None;
        }
        self.next();
        Some(match word {
            "True" => ForeignExpr::name("true"),
            "False" => ForeignExpr::name("false"),
            _ => ForeignExpr::name(word),
        })
    }

    /// Parses `if condition { a } else { b }` of Clk and Rust, and `if condition then a else b`.
    fn if_expression(&mut self) -> Option<ForeignExpr> {
        self.expect("if")?;
        let condition = self.head()?;
        if self.eat("then") {
            self.skip_line_ends();
            let yes = self.expression()?;
            self.skip_line_ends();
            self.expect("else")?;
            self.skip_line_ends();
            return Some(ForeignExpr::Conditional(Box::new([condition, yes, self.expression()?])));
        }
        let mut branch = || {
            self.expect("{")?;
            self.skip_line_ends();
            let value = self.expression()?;
            self.skip_line_ends();
            self.expect("}")?;
            Some(value)
        };
        let yes = branch()?;
        self.expect("else")?;
        let no = match self.word() {
            "if" => self.if_expression()?,
            _ => {
                self.expect("{")?;
                self.skip_line_ends();
                let value = self.expression()?;
                self.skip_line_ends();
                self.expect("}")?;
                value
            }
        };
        Some(ForeignExpr::Conditional(Box::new([condition, yes, no])))
    }

    /// Parses a tuple, a list or an expression in parentheses.
    fn brackets(&mut self) -> Option<ForeignExpr> {
        let open = self.next().text;
        if open == "["
            && let Some(rows) = self.attempt(|p| p.matrix())
        {
            return Some(rows);
        }
        let close = match open {
            "(" => ")",
            "[" => "]",
            "{" if self.dialect == Dialect::C && !self.in_head => "}",
            _ => return None,
        };
        let outer = std::mem::take(&mut self.in_head);
        let mut parts = Vec::new();
        let mut has_comma = false;
        loop {
            self.skip_line_ends();
            if self.eat(close) {
                break;
            }
            let value = self.expression()?;
            if self.word() == "for" {
                let comprehension = self.comprehension(value)?;
                self.expect(close)?;
                self.in_head = outer;
                return Some(comprehension);
            }
            // `[0.0; 8]` of Rust.
            if open == "[" && parts.is_empty() && self.eat(";") {
                let count = self.expression()?;
                self.expect(close)?;
                self.in_head = outer;
                let args = [count, value].map(|value| ForeignArgument { name: None, value });
                return Some(ForeignExpr::Call(Box::new(ForeignExpr::name("full")), args.to_vec()));
            }
            parts.push(value);
            self.skip_line_ends();
            match self.eat(",") {
                true => has_comma = true,
                false if self.word() != close => return None,
                false => {}
            }
        }
        self.in_head = outer;
        Some(match (open, parts.len()) {
            ("(", 1) if !has_comma => parts.remove(0),
            ("(", _) => ForeignExpr::Tuple(parts),
            _ => ForeignExpr::List(parts),
        })
    }

    /// Parses a number or a name, possibly negative. Nested expressions are not read, because a bracket that is not a
    /// matrix is read again.
    fn matrix_element(&mut self) -> Option<ForeignExpr> {
        let is_negative = self.eat("-");
        let element = match self.kind() {
            ForeignTokenKind::Number => ForeignExpr::Number(clk_number(self.next().text)?),
            ForeignTokenKind::Name => ForeignExpr::name(self.name()?),
            _ => return None,
        };
        Some(if is_negative { ForeignExpr::Unary("-", Box::new(element)) } else { element })
    }

    /// Parses `1 2; 3 4]` of MATLAB and Julia, after the bracket.
    fn matrix(&mut self) -> Option<ForeignExpr> {
        let mut rows = Vec::new();
        let mut has_comma = false;
        loop {
            let mut row = Vec::new();
            while !matches!(self.word(), ";" | "]") {
                row.push(self.matrix_element()?);
                has_comma |= self.eat(",");
            }
            self.skip_line_ends();
            rows.push(row);
            if self.eat("]") {
                break;
            }
            self.expect(";")?;
            self.skip_line_ends();
        }
        let columns = rows.first()?.len();
        // In a single row with commas, only some commas are missing.
        let is_list = rows.len() == 1 && has_comma;
        if columns < 2 || is_list || rows.iter().any(|row| row.len() != columns) {
            return None;
        }
        let mut rows: Vec<ForeignExpr> = rows.into_iter().map(ForeignExpr::List).collect();
        Some(if rows.len() == 1 { rows.remove(0) } else { ForeignExpr::List(rows) })
    }

    /// Converts a string with its prefix and quotes.
    fn text(&mut self, text: &str) -> Option<ForeignExpr> {
        let start = text.find(['"', '\''])?;
        let (prefix, quoted) = text.split_at(start);
        let quotes = if quoted.starts_with("\"\"\"") || quoted.starts_with("'''") { 3 } else { 1 };
        let inner = quoted.get(quotes..quoted.len() - quotes)?;
        let is_raw = prefix.contains(['r', 'R']);
        let interpolates = prefix.contains(['f', 'F']) || self.dialect != Dialect::Python && !quoted.starts_with('\'');
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = inner;
        while let Some(c) = rest.chars().next() {
            let mut length = c.len_utf8();
            match c {
                '\\' if is_raw => literal += "\\\\",
                '\\' => {
                    let escaped = rest[1..].chars().next()?;
                    length += escaped.len_utf8();
                    match escaped {
                        'n' | 't' | 'r' | '0' | '\\' | '"' | '\'' | '{' | '}' => literal += &rest[..length],
                        '\n' => {}
                        _ => return None,
                    }
                }
                '"' => literal += "\\\"",
                '\n' => literal += "\\n",
                '{' | '}' if !interpolates => literal.extend([c, c]),
                '{' | '}' if rest[1..].starts_with(c) => {
                    literal.extend([c, c]);
                    length = 2;
                }
                '{' => {
                    let close = closing_brace(rest)?;
                    let (source, format) = split_format(&rest[1..close]);
                    if source.trim().is_empty() {
                        // A place for an argument, as in `println!("{}", x)`.
                        literal += &format!("{{{}}}", &rest[..=close]);
                        rest = &rest[close + 1..];
                        continue;
                    }
                    if !literal.is_empty() {
                        parts.push(TextPart::Literal(std::mem::take(&mut literal)));
                    }
                    if let Some(source) = source.trim_end().strip_suffix('=')
                        && !source.ends_with(['=', '!', '<', '>'])
                    {
                        parts.push(TextPart::Literal(format!("{source}=")));
                        parts.push(TextPart::Value(whole_expression(source, self.dialect)?, format.to_owned()));
                    } else {
                        parts.push(TextPart::Value(whole_expression(source, self.dialect)?, format.to_owned()));
                    }
                    length = close + 1;
                }
                '}' => return None,
                _ => literal.push(c),
            }
            rest = &rest[length..];
        }
        if !literal.is_empty() || parts.is_empty() {
            parts.push(TextPart::Literal(literal));
        }
        Some(ForeignExpr::Text(parts))
    }
}

/// Returns the offset of the `}` that closes the `{` at the beginning of a text.
fn closing_brace(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 1 => return Some(at),
            '}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Splits the inside of braces into the expression and its format.
fn split_format(inner: &str) -> (&str, &str) {
    let mut depth = 0;
    for (at, c) in inner.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ':' if depth == 0 => return (&inner[..at], &inner[at + 1..]),
            '!' if depth == 0 && !inner[at + 1..].starts_with('=') && at > 0 => return (&inner[..at], &inner[at..]),
            _ => {}
        }
    }
    (inner, "")
}

/// Parses a text that is a single expression.
pub(super) fn whole_expression(text: &str, dialect: Dialect) -> Option<ForeignExpr> {
    let out = read_tokens(text, 0, dialect, 1000)?;
    let mut parser = ForeignParser::new(text, dialect, out.tokens, out.comments);
    let e = parser.expression()?;
    parser.skip_line_ends();
    (parser.kind() == ForeignTokenKind::End).then_some(e)
}
