//! The translated program: Clk statements and expressions in which every conversion is written out and every pointer is
//! an array with an index. Each node keeps its place in the CUDA file. `emit` prints the tree.

use super::types::ClkScalar;
use crate::source::SourceSpan;
use smol_str::SmolStr;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ExprKind {
    Int(i128, ClkScalar),
    Float(f64, ClkScalar),
    Bool(bool),
    /// A name, or a type as the argument of `bitcast`.
    Name(SmolStr),
    Text(String),
    Index(Box<Expr>, Vec<Expr>),
    Field(Box<Expr>, SmolStr),
    Unary(&'static str, Box<Expr>),
    Binary(&'static str, Box<Expr>, Box<Expr>),
    Call(SmolStr, Vec<Expr>),
    /// `name = value` in a call.
    Named(&'static str, Box<Expr>),
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    Struct(SmolStr, Vec<(SmolStr, Expr)>),
    List(Vec<Expr>),
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, span: SourceSpan) -> Expr {
        Expr { kind, span }
    }

    pub(crate) fn name(name: impl Into<SmolStr>, span: SourceSpan) -> Expr {
        Expr::new(ExprKind::Name(name.into()), span)
    }

    pub(crate) fn call(name: impl Into<SmolStr>, args: Vec<Expr>, span: SourceSpan) -> Expr {
        Expr::new(ExprKind::Call(name.into(), args), span)
    }

    pub(crate) fn binary(op: &'static str, left: Expr, right: Expr, span: SourceSpan) -> Expr {
        Expr::new(ExprKind::Binary(op, Box::new(left), Box::new(right)), span)
    }

    pub(crate) fn int(value: i128, scalar: ClkScalar, span: SourceSpan) -> Expr {
        Expr::new(ExprKind::Int(value, scalar), span)
    }

    /// Returns the expression with the parameters for the extents of the launch, such as `block_x` for `block_dim.x`.
    /// `names` has those of the grid, then those of the block.
    pub(crate) fn with_extents(self, names: &[SmolStr]) -> Expr {
        let on = |expr: Box<Expr>| Box::new(expr.with_extents(names));
        let kind = match self.kind {
            ExprKind::Field(base, axis) => {
                let first = match &base.kind {
                    ExprKind::Name(name) if name == "grid_dim" => Some(0),
                    ExprKind::Name(name) if name == "block_dim" => Some(3),
                    _ => None,
                };
                let at = ["x", "y", "z"].iter().position(|known| *known == axis.as_str());
                match first.zip(at).and_then(|(first, at)| names.get(first + at)) {
                    Some(name) => ExprKind::Name(name.clone()),
                    None => ExprKind::Field(base, axis),
                }
            }
            ExprKind::Unary(op, operand) => ExprKind::Unary(op, on(operand)),
            ExprKind::Binary(op, left, right) => ExprKind::Binary(op, on(left), on(right)),
            ExprKind::Call(name, args) => {
                ExprKind::Call(name, args.into_iter().map(|arg| arg.with_extents(names)).collect())
            }
            kind => kind,
        };
        Expr { kind, span: self.span }
    }

    /// Returns the negation of a condition.
    pub(crate) fn not(self) -> Expr {
        let span = self.span;
        let flipped = |op: &str| match op {
            "==" => Some("!="),
            "!=" => Some("=="),
            _ => None,
        };
        match self.kind {
            ExprKind::Bool(value) => Expr::new(ExprKind::Bool(!value), span),
            ExprKind::Unary("!", inner) => *inner,
            ExprKind::Binary(op, left, right) if flipped(op).is_some() => {
                Expr::new(ExprKind::Binary(flipped(op).unwrap_or(op), left, right), span)
            }
            kind => Expr::new(ExprKind::Unary("!", Box::new(Expr::new(kind, span))), span),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stmt {
    pub(crate) kind: StmtKind,
    pub(crate) span: SourceSpan,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StmtKind {
    /// `let` or, if `mutable`, `var`.
    Declare {
        name: SmolStr,
        mutable: bool,
        ty: String,
        value: Option<Expr>,
    },
    Shared {
        name: SmolStr,
        ty: String,
    },
    /// `place = value`, or `place op= value`.
    Assign {
        place: Expr,
        op: &'static str,
        value: Expr,
    },
    Expr(Expr),
    If {
        condition: Expr,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    While {
        condition: Expr,
        body: Vec<Stmt>,
    },
    Loop(Vec<Stmt>),
    For {
        name: SmolStr,
        from: Expr,
        to: Expr,
        inclusive: bool,
        step: Option<Expr>,
        body: Vec<Stmt>,
    },
    Break,
    Continue,
    Return(Option<Expr>),
}

/// A parameter of a translated function or kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Param {
    pub(crate) name: SmolStr,
    pub(crate) inout: bool,
    pub(crate) ty: String,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClkFunction {
    pub(crate) name: SmolStr,
    pub(crate) params: Vec<Param>,
    pub(crate) result: Option<String>,
    pub(crate) body: Vec<Stmt>,
    pub(crate) span: SourceSpan,
    /// Set for kernels.
    pub(crate) geometry: Option<Geometry>,
}

/// The head of a kernel after its parameters.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Geometry {
    pub(crate) grid: Vec<String>,
    pub(crate) block: Vec<String>,
    /// Conditions after `assume`.
    pub(crate) assume: Vec<String>,
}

impl Geometry {
    /// Returns whether the conditions allow only one block.
    pub(crate) fn has_one_block(&self) -> bool {
        self.grid.iter().all(|extent| self.assume.contains(&format!("{extent} == 1")))
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Struct {
    pub(crate) name: SmolStr,
    pub(crate) fields: Vec<(SmolStr, String)>,
    pub(crate) span: SourceSpan,
}

/// A constant array or value at the top of the file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ClkConstant {
    pub(crate) name: SmolStr,
    pub(crate) ty: String,
    pub(crate) value: Expr,
    pub(crate) span: SourceSpan,
}

/// All items of a translated file, in the order in which they are printed.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ClkFile {
    pub(crate) structs: Vec<Struct>,
    pub(crate) constants: Vec<ClkConstant>,
    pub(crate) functions: Vec<ClkFunction>,
}

/// Calls `f` with the name of each called function.
pub(crate) fn visit_calls(stmts: &[Stmt], f: &mut dyn FnMut(&SmolStr)) {
    visit_exprs(stmts, &mut |expr| {
        if let ExprKind::Call(name, _) = &expr.kind {
            f(name);
        }
    });
}

/// Calls `f` with each expression. An outer expression precedes its operands.
pub(crate) fn visit_exprs(stmts: &[Stmt], f: &mut dyn FnMut(&Expr)) {
    for stmt in stmts {
        match &stmt.kind {
            StmtKind::Declare { value: Some(value), .. } | StmtKind::Expr(value) | StmtKind::Return(Some(value)) => {
                visit_expr(value, f)
            }
            StmtKind::Assign { place, value, .. } => {
                visit_expr(place, f);
                visit_expr(value, f);
            }
            StmtKind::If { condition, then, otherwise } => {
                visit_expr(condition, f);
                visit_exprs(then, f);
                visit_exprs(otherwise, f);
            }
            StmtKind::While { condition, body } => {
                visit_expr(condition, f);
                visit_exprs(body, f);
            }
            StmtKind::Loop(body) => visit_exprs(body, f),
            StmtKind::For { from, to, step, body, .. } => {
                visit_expr(from, f);
                visit_expr(to, f);
                if let Some(step) = step {
                    visit_expr(step, f);
                }
                visit_exprs(body, f);
            }
            StmtKind::Declare { value: None, .. }
            | StmtKind::Shared { .. }
            | StmtKind::Break
            | StmtKind::Continue
            | StmtKind::Return(None) => {}
        }
    }
}

pub(crate) fn visit_expr(expr: &Expr, f: &mut dyn FnMut(&Expr)) {
    f(expr);
    match &expr.kind {
        ExprKind::Index(base, indices) => {
            visit_expr(base, f);
            indices.iter().for_each(|index| visit_expr(index, f));
        }
        ExprKind::Field(base, _) | ExprKind::Unary(_, base) | ExprKind::Named(_, base) => visit_expr(base, f),
        ExprKind::Binary(_, left, right) => {
            visit_expr(left, f);
            visit_expr(right, f);
        }
        ExprKind::Call(_, args) => args.iter().for_each(|arg| visit_expr(arg, f)),
        ExprKind::If(condition, then, otherwise) => {
            visit_expr(condition, f);
            visit_expr(then, f);
            visit_expr(otherwise, f);
        }
        ExprKind::Struct(_, fields) => fields.iter().for_each(|(_, value)| visit_expr(value, f)),
        ExprKind::List(items) => items.iter().for_each(|item| visit_expr(item, f)),
        ExprKind::Int(..) | ExprKind::Float(..) | ExprKind::Bool(_) | ExprKind::Name(_) | ExprKind::Text(_) => {}
    }
}
