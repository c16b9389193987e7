//! How values depend on the thread: determines which variables vary between the threads of a block, and which are
//! thread numbers. Also returns the text of simple expressions.

use rustc_hash::FxHashSet;

use super::context::FaultContext;
use clk_base::source::Span;
use clk_check::typed::*;
use clk_check::visit;
use clk_scalar::builtin::Builtin;
use clk_scalar::ops::BinaryOp;

/// The maximum length in bytes of an expression that is quoted in a message.
const MAX_LENGTH: usize = 32;

/// The title of a fix by [`FaultContext::exchanged_indices`].
pub(super) const EXCHANGE_INDICES: &str = "`.x` counts along the last axis: exchange `.x` and `.y`";

/// The threads that a thread number distinguishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ThreadCount {
    /// The threads of a block: `thread_idx`.
    Block,
    /// The threads of the grid: `global_idx`.
    Grid,
}

impl FaultContext<'_> {
    fn local(&self, id: LocalId) -> Option<&Local> {
        self.body.locals.get(id)
    }

    /// Returns the text of an expression, if it consists of names, numbers and arithmetic operators and is short.
    pub fn text(&self, e: &Expr) -> Option<String> {
        self.operand_text(e, 0).filter(|text| text.len() <= MAX_LENGTH)
    }

    /// Like [`FaultContext::text`], but for an operand: adds parentheses if the expression's precedence is below
    /// `least`.
    fn operand_text(&self, e: &Expr, least: u8) -> Option<String> {
        match &e.kind {
            ExprKind::Int(n) if *n >= 0 => Some(n.to_string()),
            ExprKind::Local(id) => {
                self.local(*id).filter(|local| !matches!(local.ty, Type::Array(_))).map(|local| local.name.to_string())
            }
            ExprKind::Dim(dim) => self.dim_name(*dim),
            ExprKind::Const(id) => Some(self.program.consts.get(*id)?.name.to_string()),
            ExprKind::ConstParam(at) => Some(self.kernel.sig.generics.get(*at as usize)?.name.to_string()),
            ExprKind::Swizzle { base, lanes } => {
                let ([lane], ExprKind::Variable(variable)) = (&lanes[..], &base.kind) else { return None };
                Some(format!("{}.{}", coordinate(*variable)?, ["x", "y", "z"].get(usize::from(*lane))?))
            }
            ExprKind::Binary { op, left, right } => {
                let precedence = match op {
                    BinaryOp::Add | BinaryOp::Sub => 1,
                    BinaryOp::Mul | BinaryOp::Div | BinaryOp::Rem => 2,
                    _ => return None,
                };
                let text = format!(
                    "{} {} {}",
                    self.operand_text(left, precedence)?,
                    op.symbol(),
                    self.operand_text(right, precedence + 1)?
                );
                Some(if precedence < least { format!("({text})") } else { text })
            }
            ExprKind::Builtin { builtin: Builtin::CeilDiv, args, .. } => {
                let [a, b] = &args[..] else { return None };
                Some(format!("ceil_div({}, {})", self.operand_text(a, 0)?, self.operand_text(b, 0)?))
            }
            _ => None,
        }
    }

    /// Returns the text of an array element or a `shared` scalar. Indices without a short text are omitted.
    pub fn place(&self, e: &Expr) -> Option<String> {
        let ExprKind::Index { base, indices } = &e.kind else { return None };
        let ExprKind::Local(id) = &base.kind else { return None };
        let name = &self.local(*id)?.name;
        let indices: Vec<String> = indices.iter().map(|index| self.text(index).unwrap_or("…".into())).collect();
        Some(if indices.is_empty() { name.to_string() } else { format!("{name}[{}]", indices.join(", ")) })
    }

    fn dim_name(&self, dim: u32) -> Option<String> {
        Some(self.kernel.sig.dims.get(dim as usize)?.name.to_string())
    }

    /// Returns the text of an extent of an array in the kernel's signature.
    pub fn extent(&self, dim: &Dim) -> Option<String> {
        match dim {
            Dim::Known(n) => Some(n.to_string()),
            Dim::Name(dim) => self.dim_name(*dim),
            Dim::Expr(at) => self.text(self.kernel.sig.dim_exprs.get(*at as usize)?),
            Dim::Local(_) | Dim::Unknown => None,
        }
    }

    /// If an expression is a thread number or a variable that `let` binds to one, returns the kind of number and its
    /// axis.
    pub fn number(&self, e: &Expr) -> Option<(ThreadCount, u8)> {
        let lane_of = |e: &Expr, variable: Builtin| match &self.definition(e).kind {
            ExprKind::Swizzle { base, lanes } => match (&lanes[..], &self.definition(base).kind) {
                ([lane], ExprKind::Variable(found)) if *found == variable => Some(*lane),
                _ => None,
            },
            _ => None,
        };
        if let Some(lane) = lane_of(e, Builtin::GlobalIdx) {
            return Some((ThreadCount::Grid, lane));
        }
        if let Some(lane) = lane_of(e, Builtin::ThreadIdx) {
            return Some((ThreadCount::Block, lane));
        }
        // `block_idx.x * block_dim.x + thread_idx.x` of CUDA
        let ExprKind::Binary { op: BinaryOp::Add, left, right } = &self.definition(e).kind else { return None };
        [(left, right), (right, left)].into_iter().find_map(|(first, thread)| {
            let lane = lane_of(thread, Builtin::ThreadIdx)?;
            let ExprKind::Binary { op: BinaryOp::Mul, left, right } = &self.definition(first).kind else { return None };
            let factors = [(left, right), (right, left)];
            let is_first_thread = factors.into_iter().any(|(block, size)| {
                lane_of(block, Builtin::BlockIdx) == Some(lane) && lane_of(size, Builtin::BlockDim) == Some(lane)
            });
            is_first_thread.then_some((ThreadCount::Grid, lane))
        })
    }

    /// Returns the edits that exchange `.x` and `.y` in the definitions of the indices `row` and `column`, or `None` if
    /// the indices are not `global_idx.x` and `global_idx.y` or have no names.
    pub fn exchanged_indices(&self, row: &Expr, column: &Expr, access: Span) -> Option<Vec<(Span, String)>> {
        if (self.number(row), self.number(column)) != (Some((ThreadCount::Grid, 0)), Some((ThreadCount::Grid, 1))) {
            return None;
        }
        let definitions = [row, column].map(|index| self.definition(index).span);
        // An index without a name may be written in many accesses.
        let are_named = definitions.iter().all(|span| !span.is_in(access));
        let edits = definitions.into_iter().zip(["global_idx.y", "global_idx.x"].map(str::to_owned));
        are_named.then(|| edits.collect())
    }

    /// Returns the value that `let` gives a variable; any other expression is returned unchanged.
    pub fn definition<'e>(&'e self, e: &'e Expr) -> &'e Expr {
        let ExprKind::Local(id) = &e.kind else { return e };
        if self.local(*id).is_none_or(|local| local.mutable) {
            return e;
        }
        let mut defined = e;
        visit::stmts(&self.body.root, &mut |stmt| {
            let StmtKind::Let { pattern, value: Some(value), .. } = &stmt.kind else { return };
            match (pattern, &value.kind) {
                (Pattern::Local(local), _) if local == id => defined = value,
                (Pattern::Tuple(names), ExprKind::Tuple(parts)) if names.len() == parts.len() => {
                    let at = names.iter().position(|name| matches!(name, Pattern::Local(local) if local == id));
                    defined = at.and_then(|at| parts.get(at)).unwrap_or(defined);
                }
                _ => {}
            }
        });
        defined
    }

    /// Returns whether an expression may vary between the threads of a block.
    pub fn varies(&self, e: &Expr) -> bool {
        expr_varies(e, &self.varying_locals())
    }

    fn varying_locals(&self) -> FxHashSet<LocalId> {
        let mut varying = FxHashSet::default();
        loop {
            let before = varying.len();
            add_varying_locals(&self.body.root, false, &mut varying);
            if varying.len() == before {
                return varying;
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

/// Adds the variables of a block whose values may vary between threads.
fn add_varying_locals(block: &Block, is_divergent: bool, varying: &mut FxHashSet<LocalId>) {
    for stmt in &block.stmts {
        match &stmt.kind {
            StmtKind::Let { pattern, value: Some(value), .. } => {
                add_varying_pattern(pattern, value, is_divergent, varying)
            }
            StmtKind::Assign { place, value, .. } if is_divergent || expr_varies(value, varying) => {
                if let ExprKind::Local(id) = &visit::root(place).kind {
                    varying.insert(*id);
                }
            }
            StmtKind::For { var, iter, .. } if is_divergent || expr_varies(iter, varying) => {
                varying.insert(*var);
            }
            _ => {}
        }
    }
    for (cond, inner) in visit::all_inner(block) {
        let is_divergent = is_divergent || cond.is_some_and(|cond| expr_varies(cond, varying));
        add_varying_locals(inner, is_divergent, varying);
    }
}

fn add_varying_pattern(pattern: &Pattern, value: &Expr, is_divergent: bool, varying: &mut FxHashSet<LocalId>) {
    match (pattern, &value.kind) {
        (Pattern::Local(id), _) if is_divergent || expr_varies(value, varying) => {
            varying.insert(*id);
        }
        (Pattern::Tuple(names), ExprKind::Tuple(parts)) if names.len() == parts.len() => {
            names.iter().zip(parts).for_each(|(name, part)| add_varying_pattern(name, part, is_divergent, varying));
        }
        (Pattern::Tuple(names), _) => {
            names.iter().for_each(|name| add_varying_pattern(name, value, is_divergent, varying))
        }
        _ => {}
    }
}

fn expr_varies(e: &Expr, varying: &FxHashSet<LocalId>) -> bool {
    let mut is_varying = false;
    visit::expr(e, &mut |e| {
        is_varying |= match &e.kind {
            ExprKind::Local(id) => varying.contains(id),
            ExprKind::Variable(variable) => {
                matches!(variable, Builtin::ThreadIdx | Builtin::GlobalIdx | Builtin::LaneIdx)
            }
            // Values from memory, function calls and warp operations are assumed to vary.
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
    is_varying
}
