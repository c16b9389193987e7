//! A small syntax tree of CUDA C++ for generated kernels.

/// An expression. The generator ensures correct types; the printer adds parentheses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CudaExpr {
    /// A name or a literal.
    Atom(String),
    Unary(&'static str, Box<CudaExpr>),
    Binary(&'static str, Box<CudaExpr>, Box<CudaExpr>),
    Choose(Box<CudaExpr>, Box<CudaExpr>, Box<CudaExpr>),
    /// A call of a function, or a construction of a type, by name.
    Call(String, Vec<CudaExpr>),
    /// A computation on unsigned integers, converted back to a signed type. It wraps on overflow.
    Wrap(&'static str, Box<CudaExpr>),
    Index(Box<CudaExpr>, Vec<CudaExpr>),
    Member(Box<CudaExpr>, String),
    /// A braced initializer with its type, such as `f32x3{…}`.
    Braces(String, Vec<CudaExpr>),
}

impl CudaExpr {
    pub(crate) fn atom(text: impl Into<String>) -> CudaExpr {
        CudaExpr::Atom(text.into())
    }

    pub fn int(n: i128) -> CudaExpr {
        CudaExpr::Atom(n.to_string())
    }

    pub fn unary(op: &'static str, value: CudaExpr) -> CudaExpr {
        CudaExpr::Unary(op, Box::new(value))
    }

    pub fn binary(op: &'static str, left: CudaExpr, right: CudaExpr) -> CudaExpr {
        CudaExpr::Binary(op, Box::new(left), Box::new(right))
    }

    pub(crate) fn choose(cond: CudaExpr, then: CudaExpr, other: CudaExpr) -> CudaExpr {
        CudaExpr::Choose(Box::new(cond), Box::new(then), Box::new(other))
    }

    pub fn call(name: impl Into<String>, args: impl IntoIterator<Item = CudaExpr>) -> CudaExpr {
        CudaExpr::Call(name.into(), args.into_iter().collect())
    }

    pub fn index(array: CudaExpr, indices: Vec<CudaExpr>) -> CudaExpr {
        CudaExpr::Index(Box::new(array), indices)
    }

    pub fn member(value: CudaExpr, name: impl Into<String>) -> CudaExpr {
        CudaExpr::Member(Box::new(value), name.into())
    }

    pub fn address(place: CudaExpr) -> CudaExpr {
        CudaExpr::unary("&", place)
    }

    /// Joins the parts by an operator. Returns `None` if there are no parts.
    pub fn all(op: &'static str, parts: impl IntoIterator<Item = CudaExpr>) -> Option<CudaExpr> {
        parts.into_iter().reduce(|left, right| CudaExpr::binary(op, left, right))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum CudaStmt {
    /// A declaration, such as `const int x = …;`. `suffix` contains the extents of an array.
    Declare {
        ty: String,
        name: String,
        suffix: String,
        value: Option<CudaExpr>,
    },
    Assign(CudaExpr, CudaExpr),
    Do(CudaExpr),
    If(CudaExpr, Vec<CudaStmt>, Vec<CudaStmt>),
    For {
        unroll: Option<String>,
        start: Box<CudaStmt>,
        test: CudaExpr,
        step: CudaExpr,
        body: Vec<CudaStmt>,
    },
    While(Option<String>, CudaExpr, Vec<CudaStmt>),
    Scope(Vec<CudaStmt>),
    /// A lambda: `const auto name = [&](parameters) { … };`.
    Lambda(String, String, Vec<CudaStmt>),
    Break,
    Continue,
    Goto(String),
    Label(String),
    Return,
    /// A `#line` directive, which sets the source line of the following statements.
    Line(usize, String),
}
