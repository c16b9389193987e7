//! A small syntax tree of CUDA C++, for generated kernels.

/// An expression. The generator is responsible for types; the tree for parentheses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    /// A name or a literal.
    Atom(String),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    /// Name of a function or a type, and its arguments.
    Call(String, Vec<Expr>),
    /// An unsigned computation converted back to a signed type: wraps.
    Wrap(&'static str, Box<Expr>),
    Index(Box<Expr>, Vec<Expr>),
    Member(Box<Expr>, String),
    /// `f32x3{…}`
    Braces(String, Vec<Expr>),
}

impl Expr {
    pub(crate) fn atom(text: impl Into<String>) -> Expr {
        Expr::Atom(text.into())
    }

    pub fn int(n: i128) -> Expr {
        Expr::Atom(n.to_string())
    }

    pub fn unary(op: &'static str, value: Expr) -> Expr {
        Expr::Unary(op, Box::new(value))
    }

    pub fn binary(op: &'static str, left: Expr, right: Expr) -> Expr {
        Expr::Binary(op, Box::new(left), Box::new(right))
    }

    pub(crate) fn choose(cond: Expr, then: Expr, other: Expr) -> Expr {
        Expr::Choose(Box::new(cond), Box::new(then), Box::new(other))
    }

    pub fn call(name: impl Into<String>, args: impl IntoIterator<Item = Expr>) -> Expr {
        Expr::Call(name.into(), args.into_iter().collect())
    }

    pub fn index(array: Expr, indices: Vec<Expr>) -> Expr {
        Expr::Index(Box::new(array), indices)
    }

    pub fn member(value: Expr, name: impl Into<String>) -> Expr {
        Expr::Member(Box::new(value), name.into())
    }

    pub fn address(place: Expr) -> Expr {
        Expr::unary("&", place)
    }

    /// Joins the parts by an operator; `None` if there are none.
    pub fn all(op: &'static str, parts: impl IntoIterator<Item = Expr>) -> Option<Expr> {
        parts.into_iter().reduce(|left, right| Expr::binary(op, left, right))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `const int x = …;` — `suffix` holds the extents of an array.
    Declare {
        ty: String,
        name: String,
        suffix: String,
        value: Option<Expr>,
    },
    Assign(Expr, Expr),
    Do(Expr),
    If(Expr, Vec<Stmt>, Vec<Stmt>),
    For {
        unroll: Option<String>,
        start: Box<Stmt>,
        test: Expr,
        step: Expr,
        body: Vec<Stmt>,
    },
    While(Option<String>, Expr, Vec<Stmt>),
    Scope(Vec<Stmt>),
    /// `const auto name = [&](parameters) { … };`
    Lambda(String, String, Vec<Stmt>),
    Break,
    Continue,
    Goto(String),
    Label(String),
    Return,
    /// A `#line` directive: the source line of the following statements.
    Line(usize, String),
}
