//! A small tree of CUDA C++: what generated kernels are made of.

/// An expression. Types are the generator's business; the tree knows what needs parentheses.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Expr {
    /// A name or a literal.
    Atom(String),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Choose(Box<Expr>, Box<Expr>, Box<Expr>),
    /// A function's or a type's name and what stands in its parentheses.
    Call(String, Vec<Expr>),
    /// An unsigned computation taken back to a signed type: what wraps.
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

    /// Joined by an operator; `None` of nothing.
    pub fn all(op: &'static str, parts: impl IntoIterator<Item = Expr>) -> Option<Expr> {
        parts.into_iter().reduce(|left, right| Expr::binary(op, left, right))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Stmt {
    /// `const int x = …;` — `suffix` is the extents of an array.
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
    /// The line of the source that what follows comes from.
    Line(usize, String),
}
