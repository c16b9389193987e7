//! Parses functions of Python, C, CUDA and Julia with their parameters.

use super::cursor::ForeignParser;
use super::tokens::ForeignTokenKind;
use super::tree::{
    Dialect, ForeignExpr, ForeignFunction, ForeignParameter, ForeignStmt, FunctionRole, StmtShape, Subscript,
};

/// Qualifiers of CUDA and C that say nothing in Clk.
pub(super) const QUALIFIERS: &[&str] = &[
    "static",
    "inline",
    "extern",
    "__host__",
    "__forceinline__",
    "__inline__",
    "__noinline__",
    "volatile",
    "register",
    "constexpr",
    "__restrict__",
    "__restrict",
    "restrict",
    "__grid_constant__",
    "__global",
    "__kernel",
];

impl ForeignParser<'_> {
    /// Parses a function of Python with its decorators.
    pub(super) fn decorated(&mut self) -> Option<StmtShape> {
        let mut role = FunctionRole::Function;
        while self.eat("@") {
            let decorator = self.expression()?;
            let callee = match &decorator {
                ForeignExpr::Call(callee, _) => callee.path()?,
                other => other.path()?,
            };
            match callee.as_str() {
                "cuda.jit" | "triton.jit" | "wp.kernel" => role = FunctionRole::Kernel,
                "jit" | "njit" | "numba.jit" | "numba.njit" | "jax.jit" | "torch.jit.script" | "vectorize"
                | "wp.func" => {}
                _ => return None,
            }
            self.skip_line_ends();
        }
        self.function(role)
    }

    /// Parses `def f(x, n: int = 3) -> float: …` of Python and `function f(x) … end` of Julia.
    pub(super) fn function(&mut self, role: FunctionRole) -> Option<StmtShape> {
        self.next();
        let name = self.name()?.to_owned();
        self.expect("(")?;
        let mut params = Vec::new();
        loop {
            self.skip_line_ends();
            if self.eat(")") {
                break;
            }
            // `*` and `/` only separate the parameters of Python by the way they are passed.
            if matches!(self.word(), "*" | "/") && matches!(self.word_at(1), "," | ")") {
                self.next();
                self.eat(",");
                continue;
            }
            let mut param = ForeignParameter::untyped(self.name()?);
            if self.eat(":") || self.eat("::") {
                let first = self.at;
                let ty = self.annotation()?;
                // A compile-time constant of Triton.
                param.is_const = (first..self.at).any(|at| self.token_at(at).text == "constexpr");
                match ty.strip_prefix('[') {
                    Some(element) => (param.is_array, param.element) = (true, element.to_owned()),
                    None => param.element = ty,
                }
            }
            if self.eat("=") {
                param.default = Some(self.expression()?);
            }
            params.push(param);
            self.skip_line_ends();
            if !self.eat(",") && self.word() != ")" {
                return None;
            }
        }
        let result = if self.eat("->") { Some(self.annotation()?.trim_start_matches('[').to_owned()) } else { None };
        // `def f (x: f32) : f32 = x * x` of Futhark.
        let is_futhark = self.word() == ":" && self.token_at(self.at + 1).kind != ForeignTokenKind::LineEnd;
        let value = if !is_futhark && self.word() != "=" {
            None
        } else {
            self.attempt(|p| {
                let result = if p.eat(":") { Some(p.annotation()?) } else { None };
                p.expect("=")?;
                Some((result, p.expression()?))
            })
        };
        if let Some((stated, value)) = value {
            return Some(StmtShape::Function(Box::new(ForeignFunction {
                role,
                name,
                generics: vec![],
                params,
                result: stated.or(result),
                geometry: String::new(),
                body: vec![ForeignStmt::new(StmtShape::Return(Some(value)))],
            })));
        }
        let mut body = self.body(&[])?;
        self.end_of_julia()?;
        // The last expression is the result in Julia.
        if self.dialect == Dialect::Julia
            && let Some(ForeignStmt { shape, .. }) = body.last_mut()
            && let StmtShape::Value(value) = shape
        {
            *shape = StmtShape::Return(Some(value.clone()));
        }
        Some(StmtShape::Function(Box::new(ForeignFunction {
            role,
            name,
            generics: vec![],
            params,
            result,
            geometry: String::new(),
            body,
        })))
    }

    /// Parses the type of a parameter in Python or Julia: Clk's type, with a `[` before the elements of an array;
    /// empty if it says nothing about Clk's type.
    pub(super) fn annotation(&mut self) -> Option<String> {
        // `[n]f32` and `[]f32` of Futhark.
        if self.eat("[") {
            if !self.eat("]") {
                self.next();
                self.expect("]")?;
            }
            return Some(format!("[{}", self.type_name().filter(|ty| !ty.is_empty())?));
        }
        let ty = self.range_free_expression()?;
        let (base, element) = match &ty {
            // `wp.array(dtype=float)`
            ForeignExpr::Call(callee, args) => {
                let dtype = args.iter().find(|arg| arg.name.as_deref() == Some("dtype")).map(|arg| &arg.value);
                (callee.path()?, dtype.and_then(ForeignExpr::path).unwrap_or_default())
            }
            ForeignExpr::Index(base, subscripts) => match subscripts.first() {
                Some(Subscript::Element(e)) => (base.path()?, e.path().unwrap_or_default()),
                _ => (base.path()?, String::new()),
            },
            other => (other.path()?, String::new()),
        };
        let last = |path: &str| path.rsplit('.').next().unwrap_or_default().to_owned();
        let scalar = |name: &str| crate::mistakes::c_type(name).filter(|ty| !ty.is_empty()).map(str::to_owned);
        Some(match last(&base).as_str() {
            "ndarray" | "Tensor" | "Array" | "array" | "list" | "List" | "NDArray" | "Sequence" | "ArrayLike" => {
                format!("[{}", scalar(&last(&element)).unwrap_or_else(|| "f32".to_owned()))
            }
            "bool" => "bool".to_owned(),
            "str" => "str".to_owned(),
            name => scalar(name).unwrap_or_default(),
        })
    }

    fn range_free_expression(&mut self) -> Option<ForeignExpr> {
        // A `:` ends the annotation of a result.
        let dialect = std::mem::replace(&mut self.dialect, Dialect::Python);
        let outer = std::mem::replace(&mut self.in_head, true);
        let ty = self.expression();
        (self.dialect, self.in_head) = (dialect, outer);
        ty
    }

    /// Parses a function of C or CUDA, with its qualifiers, or a kernel whose parameters have the syntax of C.
    pub(super) fn c_function(&mut self) -> Option<StmtShape> {
        let mut role = FunctionRole::Function;
        let mut generics = Vec::new();
        loop {
            match self.word() {
                "__global__" | "__kernel" | "kernel" => role = FunctionRole::Kernel,
                "__device__" => {}
                "__launch_bounds__" => {
                    self.next();
                    self.expect("(")?;
                    self.expressions()?;
                    self.expect(")")?;
                    continue;
                }
                "template" => {
                    self.next();
                    self.expect("<")?;
                    self.template_parameters(&mut generics)?;
                    self.skip_line_ends();
                    continue;
                }
                word if QUALIFIERS.contains(&word) => {
                    self.next();
                    if self.kind() == ForeignTokenKind::Text {
                        self.next();
                    }
                    continue;
                }
                _ => break,
            }
            self.next();
        }
        let template_type = generics.iter().any(|generic: &String| generic.starts_with(self.word()));
        let result = match self.type_name() {
            Some(ty) => ty.to_owned(),
            None if template_type => self.name()?.to_owned(),
            // `kernel add(const float *x)`.
            None if role == FunctionRole::Kernel => String::new(),
            None => return None,
        };
        let name = self.name()?.to_owned();
        if self.eat("<") {
            self.template_parameters(&mut generics)?;
        }
        self.expect("(")?;
        let mut params = Vec::new();
        loop {
            self.skip_line_ends();
            if self.eat(")") {
                break;
            }
            params.push(self.c_parameter(&generics)?);
            self.skip_line_ends();
            if !self.eat(",") && self.word() != ")" {
                return None;
            }
        }
        let mut geometry = Vec::new();
        loop {
            let before = self.at;
            self.skip_line_ends();
            let word = self.word();
            if !matches!(word, "threads" | "grid" | "block") || self.word_at(1) != "(" {
                self.at = before;
                break;
            }
            geometry.push(self.clause()?);
        }
        self.skip_line_ends();
        if self.word() != "{" {
            return None;
        }
        let body = self.body(&[])?;
        Some(StmtShape::Function(Box::new(ForeignFunction {
            role,
            name,
            generics,
            params,
            result: Some(result),
            geometry: geometry.join(" "),
            body,
        })))
    }

    /// Takes the source text of `grid(…)`.
    fn clause(&mut self) -> Option<String> {
        let start = self.token().start;
        let mut depth = 0;
        loop {
            match self.next() {
                token if token.kind == ForeignTokenKind::End => return None,
                token if token.text == "(" => depth += 1,
                token if token.text == ")" && depth == 1 => {
                    return self.text.get(start..token.end()).map(str::to_owned);
                }
                token if token.text == ")" => depth -= 1,
                _ => {}
            }
        }
    }

    /// Parses `typename T, int B = 16>`.
    fn template_parameters(&mut self, generics: &mut Vec<String>) -> Option<()> {
        loop {
            if matches!(self.word(), "typename" | "class") {
                self.next();
                generics.push(format!("{}: Num", self.name()?));
            } else if self.eat("const") && self.word_at(1) == ":" {
                let name = self.name()?;
                self.expect(":")?;
                generics.push(format!("const {name}: {}", self.type_name()?));
            } else {
                let ty = self.type_name().filter(|ty| !ty.is_empty())?;
                generics.push(format!("const {}: {ty}", self.name()?));
            }
            if self.eat("=") {
                let value = self.next().text;
                if let Some(generic) = generics.last_mut() {
                    *generic += &format!(" = {value}");
                }
            }
            if self.eat(">") {
                return Some(());
            }
            self.expect(",")?;
        }
    }

    /// Parses `const float *x`, `float m[4][4]`, and `x: [f32; N]` of Clk.
    fn c_parameter(&mut self, generics: &[String]) -> Option<ForeignParameter> {
        let mut param = ForeignParameter::untyped("");
        loop {
            match self.word() {
                "const" => param.is_const = true,
                word if QUALIFIERS.contains(&word) => {}
                _ => break,
            }
            self.next();
        }
        let is_template_type = generics.iter().any(|generic| generic.starts_with(&format!("{}:", self.word())));
        param.element = match is_template_type {
            true => self.name()?.to_owned(),
            false => self.type_name().filter(|ty| !ty.is_empty())?.to_owned(),
        };
        loop {
            match self.word() {
                "*" if param.is_array => return None,
                "*" => param.is_array = true,
                "&" => {}
                "const" => param.is_const |= !param.is_array,
                word if QUALIFIERS.contains(&word) => {}
                _ => break,
            }
            self.next();
        }
        param.name = self.name()?.to_owned();
        while self.eat("[") {
            param.is_array = true;
            if self.eat("]") {
                continue;
            }
            param.extents.push(self.expression()?);
            self.expect("]")?;
        }
        if self.eat("=") {
            param.default = Some(self.expression()?);
        }
        Some(param)
    }
}
