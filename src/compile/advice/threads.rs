//! How values depend on the thread: which variables differ between the threads of a block, which of them number threads, and the text of
//! simple expressions.

use rustc_hash::FxHashSet;

use super::case::Case;
use crate::check::typed::*;
use crate::check::walk;
use crate::lang::builtin::Builtin;
use crate::lang::ops::BinaryOp;

/// The longest expression that is repeated in a message, in characters.
const LONGEST: usize = 32;

/// What counts threads along the first axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    /// In the block.
    Block,
    /// In the grid.
    Grid,
}

impl Case<'_> {
    fn local(&self, id: LocalId) -> Option<&Local> {
        self.body.locals.get(id)
    }

    /// Returns the text of an expression of names, numbers and arithmetic, if it is short.
    pub fn text(&self, e: &Expr) -> Option<String> {
        self.part(e, 0).filter(|text| text.len() <= LONGEST)
    }

    /// As [`Case::text`], for an operand of an operator that binds as tightly as `least`.
    fn part(&self, e: &Expr, least: u8) -> Option<String> {
        match &e.kind {
            ExprKind::Int(n) if *n >= 0 => Some(n.to_string()),
            ExprKind::Local(id) => {
                self.local(*id).filter(|local| !matches!(local.ty, Type::Array(_))).map(|local| local.name.to_string())
            }
            ExprKind::Dim(dim) => self.dim(*dim),
            ExprKind::Const(id) => Some(self.program.consts.get(*id)?.name.to_string()),
            ExprKind::ConstParam(at) => Some(self.kernel.sig.generics.get(*at as usize)?.name.to_string()),
            ExprKind::Swizzle { base, lanes } => {
                let ([lane], ExprKind::Variable(variable)) = (&lanes[..], &base.kind) else { return None };
                Some(format!("{}.{}", coordinate(*variable)?, ["x", "y", "z"].get(usize::from(*lane))?))
            }
            ExprKind::Binary { op, left, right } => {
                let binds = match op {
                    BinaryOp::Add | BinaryOp::Sub => 1,
                    BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => 2,
                    _ => return None,
                };
                let text = format!("{} {} {}", self.part(left, binds)?, op.symbol(), self.part(right, binds + 1)?);
                Some(if binds < least { format!("({text})") } else { text })
            }
            ExprKind::Builtin { builtin: Builtin::CeilDiv, args, .. } => {
                let [a, b] = &args[..] else { return None };
                Some(format!("ceil_div({}, {})", self.part(a, 0)?, self.part(b, 0)?))
            }
            _ => None,
        }
    }

    /// Returns the text of an element of an array, or of a `shared` scalar; an index that is not simple is left out.
    pub fn place(&self, e: &Expr) -> Option<String> {
        let ExprKind::Index { base, indices } = &e.kind else { return None };
        let ExprKind::Local(id) = &base.kind else { return None };
        let name = &self.local(*id)?.name;
        let indices: Vec<String> = indices.iter().map(|index| self.text(index).unwrap_or("…".into())).collect();
        Some(if indices.is_empty() { name.to_string() } else { format!("{name}[{}]", indices.join(", ")) })
    }

    fn dim(&self, dim: u32) -> Option<String> {
        Some(self.kernel.sig.dims.get(dim as usize)?.name.to_string())
    }

    /// Returns the text of an extent of an array in the kernel's signature.
    pub fn extent(&self, dim: &Dim) -> Option<String> {
        match dim {
            Dim::Known(n) => Some(n.to_string()),
            Dim::Name(dim) => self.dim(*dim),
            Dim::Expr(at) => self.text(self.kernel.sig.dim_exprs.get(*at as usize)?),
            Dim::Local(_) | Dim::Unknown => None,
        }
    }

    /// Returns whether an expression is the number of the thread, by itself or as the value of a `let`, and along which axis.
    pub fn number(&self, e: &Expr) -> Option<(Number, u8)> {
        match &e.kind {
            ExprKind::Swizzle { base, lanes } => match (&lanes[..], &base.kind) {
                ([lane], ExprKind::Variable(Builtin::GlobalIdx)) => Some((Number::Grid, *lane)),
                ([lane], ExprKind::Variable(Builtin::ThreadIdx)) => Some((Number::Block, *lane)),
                _ => None,
            },
            ExprKind::Local(id) if !self.local(*id)?.mutable => {
                let mut found = None;
                each_let(&self.body.root, &mut |pattern, value| {
                    let mut one = |pattern: &Pattern, value: &Expr| {
                        if matches!(pattern, Pattern::Local(local) if local == id) {
                            found = found.or(self.number(value));
                        }
                    };
                    match (pattern, &value.kind) {
                        (Pattern::Tuple(names), ExprKind::Tuple(parts)) if names.len() == parts.len() => {
                            names.iter().zip(parts).for_each(|(name, part)| one(name, part));
                        }
                        _ => one(pattern, value),
                    }
                });
                found
            }
            _ => None,
        }
    }

    /// Whether an expression may differ between the threads of a block.
    pub fn varies(&self, e: &Expr) -> bool {
        varies(e, &self.varying())
    }

    fn varying(&self) -> FxHashSet<LocalId> {
        let mut known = FxHashSet::default();
        loop {
            let before = known.len();
            spread(&self.body.root, false, &mut known);
            if known.len() == before {
                return known;
            }
        }
    }
}

fn coordinate(variable: Builtin) -> Option<&'static str> {
    match variable {
        Builtin::ThreadIdx => Some("thread_idx"),
        Builtin::GlobalIdx => Some("global_idx"),
        Builtin::BlockIdx => Some("block_idx"),
        Builtin::BlockDim => Some("block_dim"),
        _ => None,
    }
}

fn each_let(block: &Block, visit: &mut dyn FnMut(&Pattern, &Expr)) {
    for stmt in &block.stmts {
        if let StmtKind::Let { pattern, value: Some(value), .. } = &stmt.kind {
            visit(pattern, value);
        }
    }
    walk::all_inner(block).for_each(|(_, inner)| each_let(inner, visit));
}

/// Adds the variables of a block that get values which may differ between threads.
fn spread(block: &Block, under: bool, known: &mut FxHashSet<LocalId>) {
    for stmt in &block.stmts {
        match &stmt.kind {
            StmtKind::Let { pattern, value: Some(value), .. } => bind(pattern, value, under, known),
            StmtKind::Assign { place, value, .. } if under || varies(value, known) => {
                if let ExprKind::Local(id) = &walk::root(place).kind {
                    known.insert(*id);
                }
            }
            StmtKind::For { var, iter, .. } if under || varies(iter, known) => {
                known.insert(*var);
            }
            _ => {}
        }
    }
    for (cond, inner) in walk::all_inner(block) {
        let under = under || cond.is_some_and(|cond| varies(cond, known));
        spread(inner, under, known);
    }
}

fn bind(pattern: &Pattern, value: &Expr, under: bool, known: &mut FxHashSet<LocalId>) {
    match (pattern, &value.kind) {
        (Pattern::Local(id), _) if under || varies(value, known) => {
            known.insert(*id);
        }
        (Pattern::Tuple(names), ExprKind::Tuple(parts)) if names.len() == parts.len() => {
            names.iter().zip(parts).for_each(|(name, part)| bind(name, part, under, known));
        }
        (Pattern::Tuple(names), _) => names.iter().for_each(|name| bind(name, value, under, known)),
        _ => {}
    }
}

fn varies(e: &Expr, known: &FxHashSet<LocalId>) -> bool {
    let mut found = false;
    walk::expr(e, &mut |e| {
        found |= match &e.kind {
            ExprKind::Local(id) => known.contains(id),
            ExprKind::Variable(variable) => {
                matches!(variable, Builtin::ThreadIdx | Builtin::GlobalIdx | Builtin::LaneIdx)
            }
            // What memory holds, and what a function or an operation of a warp gives, is not followed.
            ExprKind::Index { .. } | ExprKind::Call { .. } => true,
            ExprKind::Builtin { builtin, .. } => !matches!(
                builtin,
                Builtin::Math(_)
                    | Builtin::CeilDiv
                    | Builtin::Select
                    | Builtin::Len
                    | Builtin::Shape
                    | Builtin::Barrier(_)
            ),
            _ => false,
        };
    });
    found
}
