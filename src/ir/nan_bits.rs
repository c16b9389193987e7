//! Replaces NaNs by NaNs with the bits that the language defines, at the points where a program can observe these bits:
//! stores, `bitcast`s, atomics, shuffles.
//!
//! By definition, a computed NaN has the bits [`Scalar::canonical_nan`], and an operation that only moves a value
//! (load, store, `select`, `bitcast`) preserves the bits. Hardware follows neither rule, so a computed value is *loose*
//! (a NaN may have any bits) until it is converted to an *exact* value, which has the defined bits. Converting only
//! values that are observed costs less than converting after each operation. If a `select` or a local joins loose and
//! exact values, the loose ones are converted first. Accumulators of loops stay loose, because converting them would
//! double the loop's latency. Only the simulator runs this pass, after all others.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::def::*;
use crate::visit::each_stmt;
use clk_base::stop;
use clk_scalar::Scalar;
use clk_scalar::ops::{AtomicOp, MathFn, WarpOp};

/// The kinds of NaN that a value may be: a bit set of [`LOOSE`] and [`EXACT`]. 0 if the value is never a NaN.
type NanKinds = u8;
/// A computed NaN, with the bits that the hardware produced. They must be replaced before they are observed.
const LOOSE: NanKinds = 1;
/// A moved NaN, whose bits must be preserved.
const EXACT: NanKinds = 2;

/// Rewrites a function without calls.
pub fn canonicalize_nans(function: &mut Function) {
    let has_floats = function.exprs.iter().any(|(_, expr)| expr.ty.scalar().is_float());
    if !has_floats {
        return;
    }
    let writes = collect_writes(function);
    let mut analysis = NanAnalysis::default();
    analysis.analyze(function, &writes);
    let mut observed = vec![];
    each_stmt(&function.body, &mut |stmt| {
        each_observed_operand(function, &stmt.kind, &mut |value| observed.push(value))
    });
    observed.into_iter().for_each(|value| analysis.require_exact_joins(function, &writes, value));
    let body = std::mem::take(&mut function.body);
    let mut rewrite = NanRewriter { function, analysis, exact_forms: vec![] };
    let body = rewrite.block(body);
    function.body = body;
}

/// Returns the values written to each local.
fn collect_writes(function: &Function) -> FxHashMap<LocalId, Vec<ExprId>> {
    let mut writes: FxHashMap<LocalId, Vec<ExprId>> = FxHashMap::default();
    each_stmt(&function.body, &mut |stmt| {
        if let StmtKind::Write { local, value } = stmt.kind {
            writes.entry(local).or_default().push(value);
        }
    });
    writes
}

/// Calls `f` with each operand of a statement whose bits the program can observe.
fn each_observed_operand(function: &Function, kind: &StmtKind, f: &mut dyn FnMut(ExprId)) {
    match kind {
        StmtKind::Let(id) => match &function.exprs[*id].kind {
            ExprKind::Bitcast(value) if function.exprs[*value].ty != function.exprs[*id].ty => f(*value),
            ExprKind::Math { function: MathFn::Tf32, args } => args.iter().for_each(|&value| f(value)),
            ExprKind::Math { function: MathFn::Copysign, args } => args.iter().skip(1).for_each(|&value| f(value)),
            _ => {}
        },
        StmtKind::Store { value, .. } => f(*value),
        StmtKind::Atomic { op: AtomicOp::Exchange | AtomicOp::CompareExchange, value, compare, .. } => {
            f(*value);
            compare.iter().for_each(|&value| f(value));
        }
        StmtKind::Warp { op, value, .. } if !is_reduction(*op) => f(*value),
        _ => {}
    }
}

fn is_reduction(op: WarpOp) -> bool {
    matches!(op, WarpOp::ReduceAdd | WarpOp::ReduceMin | WarpOp::ReduceMax)
}

/// Returns whether the value is the result of at least one operation that depends on the local.
fn is_computed_from(function: &Function, value: ExprId, local: LocalId) -> bool {
    let mut visited: FxHashSet<ExprId> = FxHashSet::default();
    // Expressions to visit, each with a flag: whether there is an operation between it and `value`.
    let mut todo = vec![(value, false)];
    while let Some((id, is_computed)) = todo.pop() {
        let kind = &function.exprs[id].kind;
        if is_computed && *kind == ExprKind::Read(local) {
            return true;
        }
        let computes = matches!(kind, ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Math { .. });
        if visited.insert(id) {
            kind.operands(|operand| todo.push((operand, is_computed || computes)));
        }
    }
    false
}

/// The kinds of NaN that each value of a function may be.
#[derive(Default)]
struct NanAnalysis {
    exprs: Vec<NanKinds>,
    locals: FxHashMap<LocalId, NanKinds>,
    /// Locals whose new value is computed from their old value.
    accumulators: FxHashSet<LocalId>,
    /// Results of warp reductions.
    loose_results: FxHashSet<ExprId>,
    /// Matrices of the block to which a collective loop adds products.
    loose_memories: FxHashSet<MemId>,
    /// `select`s, vectors and sign changes whose loose operands must be made exact.
    exact_joins: FxHashSet<ExprId>,
    /// Locals to which only exact values may be written.
    exact_locals: FxHashSet<LocalId>,
}

impl NanAnalysis {
    fn analyze(&mut self, function: &Function, writes: &FxHashMap<LocalId, Vec<ExprId>>) {
        each_stmt(&function.body, &mut |stmt| match &stmt.kind {
            StmtKind::Warp { op, result, .. } if is_reduction(*op) => {
                self.loose_results.insert(*result);
            }
            // The simulator may execute this loop as one operation, so its sums are loose. The emulated tensor cores
            // already produce NaNs with the defined bits.
            StmtKind::For { collective: Some(CollectiveLoop::Gemm(factors)), .. }
                if factors.precision == MmaPrecision::Sequential =>
            {
                self.loose_memories.insert(factors.sum);
            }
            _ => {}
        });
        self.accumulators = writes
            .iter()
            .filter(|&(&local, values)| values.iter().any(|&value| is_computed_from(function, value, local)))
            .map(|(&local, _)| local)
            .collect();
        self.exprs = vec![0; function.exprs.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for (id, _) in function.exprs.iter() {
                let kinds = self.kinds(function, id);
                changed |= std::mem::replace(&mut self.exprs[id.index()], kinds) != kinds;
            }
            for (&local, values) in writes {
                let kinds = values.iter().fold(0, |kinds, value| kinds | self.exprs[value.index()]);
                changed |= self.locals.insert(local, kinds).unwrap_or(0) != kinds;
            }
        }
    }

    fn kinds(&self, function: &Function, id: ExprId) -> NanKinds {
        let Expr { kind, ty } = &function.exprs[id];
        if !ty.scalar().is_float() {
            return 0;
        }
        let kinds_of = |id: &ExprId| self.exprs[id.index()];
        let with_exact_magnitude = |kinds: NanKinds| if kinds & LOOSE != 0 { LOOSE | EXACT } else { kinds };
        match kind {
            ExprKind::Const(bits) if !(clk_scalar::ScalarValue { ty: ty.scalar(), bits: *bits }).is_nan() => 0,
            ExprKind::Read(local) => match self.locals.get(local).copied().unwrap_or(0) {
                kinds if kinds & LOOSE != 0 && self.accumulators.contains(local) => LOOSE,
                kinds => kinds,
            },
            // `min` and `max` return a number if at least one operand is not a NaN.
            ExprKind::Math { function: MathFn::Min | MathFn::Max, args }
                if args.iter().any(|arg| kinds_of(arg) == 0) =>
            {
                0
            }
            ExprKind::Select { then, other, .. } => kinds_of(then) | kinds_of(other),
            ExprKind::Compose(parts) => parts.iter().fold(0, |kinds, part| kinds | kinds_of(part)),
            ExprKind::Extract { value, .. } => kinds_of(value),
            ExprKind::Bitcast(value) if function.exprs[*value].ty == *ty => kinds_of(value),
            ExprKind::Load { place, .. } if self.loose_memories.contains(&place.memory) => LOOSE,
            ExprKind::Convert(value) if !function.exprs[*value].ty.scalar().is_float() => 0,
            ExprKind::Math { function: MathFn::Tf32, .. } => EXACT,
            // A sign change preserves the other bits, so if the result is observed, a loose operand must be made exact
            // first.
            ExprKind::Unary { value, .. } => with_exact_magnitude(kinds_of(value)),
            ExprKind::Math { function: MathFn::Abs | MathFn::Copysign, args } => {
                with_exact_magnitude(args.first().map_or(0, kinds_of))
            }
            ExprKind::Binary { .. } | ExprKind::Math { .. } | ExprKind::Convert(_) => LOOSE,
            ExprKind::Result if self.loose_results.contains(&id) => LOOSE,
            _ => EXACT,
        }
    }

    /// If a value may be both a loose and an exact NaN, marks the `select`s and locals it comes from, so that they
    /// convert their loose operands.
    fn require_exact_joins(&mut self, function: &Function, writes: &FxHashMap<LocalId, Vec<ExprId>>, value: ExprId) {
        let mut todo = vec![value];
        while let Some(id) = todo.pop() {
            if self.exprs[id.index()] != LOOSE | EXACT {
                continue;
            }
            match &function.exprs[id].kind {
                ExprKind::Read(local) if self.exact_locals.insert(*local) => {
                    todo.extend(writes.get(local).into_iter().flatten())
                }
                ExprKind::Select { then, other, .. } if self.exact_joins.insert(id) => todo.extend([then, other]),
                ExprKind::Compose(parts) if self.exact_joins.insert(id) => todo.extend(parts),
                ExprKind::Unary { value, .. } if self.exact_joins.insert(id) => todo.push(*value),
                ExprKind::Math { args, .. } if self.exact_joins.insert(id) => todo.extend(args.first()),
                ExprKind::Extract { value, .. } | ExprKind::Bitcast(value) => todo.push(*value),
                _ => {}
            }
        }
    }
}

struct NanRewriter<'a> {
    function: &'a mut Function,
    analysis: NanAnalysis,
    /// Maps each loose value to the exact value that was computed from it. There is one map per open block.
    exact_forms: Vec<FxHashMap<ExprId, ExprId>>,
}

impl NanRewriter<'_> {
    fn block(&mut self, block: Block) -> Block {
        self.exact_forms.push(FxHashMap::default());
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            stop::poll();
            self.stmt(&mut stmt.kind, &mut out);
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            out.push(stmt);
        }
        self.exact_forms.pop();
        out
    }

    fn stmt(&mut self, kind: &mut StmtKind, out: &mut Block) {
        let mut operands = vec![];
        each_observed_operand(self.function, kind, &mut |value| operands.push(value));
        match kind {
            StmtKind::Let(id) if self.analysis.exact_joins.contains(id) => match &self.function.exprs[*id].kind {
                ExprKind::Select { then, other, .. } => operands.extend([then, other]),
                ExprKind::Compose(parts) => operands.extend(parts),
                ExprKind::Unary { value, .. } => operands.push(*value),
                ExprKind::Math { args, .. } => operands.extend(args.first()),
                _ => {}
            },
            StmtKind::Write { local, value } if self.analysis.exact_locals.contains(local) => operands.push(*value),
            _ => {}
        }
        operands.retain(|value| self.analysis.exprs.get(value.index()) == Some(&LOOSE));
        for value in operands {
            let exact = self.make_exact(value, out);
            let rename = |operand: &mut ExprId| {
                if *operand == value {
                    *operand = exact;
                }
            };
            match &mut *kind {
                StmtKind::Let(id) => self.function.exprs[*id].kind.operands_mut(rename),
                kind => kind.operands_mut(rename),
            }
        }
    }

    /// Emits code that replaces a NaN by the NaN with the defined bits; returns the result.
    fn make_exact(&mut self, value: ExprId, out: &mut Block) -> ExprId {
        if let Some(&exact) = self.exact_forms.iter().rev().find_map(|forms| forms.get(&value)) {
            return exact;
        }
        let ty = self.function.exprs[value].ty;
        let bools = ty.with_scalar(Scalar::Bool);
        let nan = self.splat_constant(ty.scalar().canonical_nan(), ty, value, out);
        let is_nan = match ty.scalar() {
            Scalar::F32 | Scalar::F64 => {
                self.add_expr(ExprKind::Binary { op: BinOp::Ne, left: value, right: value }, bools, value, out)
            }
            // NaNs of 16-bit floats are detected by an integer comparison, which is faster than a comparison of 16-bit
            // floats.
            half => {
                let words = ty.with_scalar(Scalar::U16);
                let size = self.splat_constant(0x7fff, words, value, out);
                let infinity =
                    self.splat_constant(if half == Scalar::F16 { 0x7c00 } else { 0x7f80 }, words, value, out);
                let bits = self.add_expr(ExprKind::Bitcast(value), words, value, out);
                let left =
                    self.add_expr(ExprKind::Binary { op: BinOp::And, left: bits, right: size }, words, value, out);
                self.add_expr(ExprKind::Binary { op: BinOp::Gt, left, right: infinity }, bools, value, out)
            }
        };
        let exact = self.add_expr(ExprKind::Select { cond: is_nan, then: nan, other: value }, ty, value, out);
        if let Some(forms) = self.exact_forms.last_mut() {
            forms.insert(value, exact);
        }
        exact
    }

    /// Adds an expression with the span of the expression `at`.
    fn add_expr(&mut self, kind: ExprKind, ty: Ty, at: ExprId, out: &mut Block) -> ExprId {
        let span = self.function.spans[at];
        let is_free = kind.is_free();
        let id = self.function.exprs.push(Expr { kind, ty });
        self.function.spans.push(span);
        if !is_free {
            out.push(Stmt { kind: StmtKind::Let(id), span });
        }
        id
    }

    /// Adds a constant; all components of a vector are equal.
    fn splat_constant(&mut self, bits: u64, ty: Ty, at: ExprId, out: &mut Block) -> ExprId {
        let one = self.add_expr(ExprKind::Const(bits), Ty::Scalar(ty.scalar()), at, out);
        match ty {
            Ty::Scalar(_) => one,
            Ty::Vector(_, lanes) => self.add_expr(ExprKind::Compose(vec![one; lanes.into()]), ty, at, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::canonicalize_nans;
    use crate::text::{parse, print};
    use crate::verify::violations;

    /// Returns the number of `select`s after the pass, in the whole kernel and in its loop.
    fn selections(body: &str) -> (usize, usize) {
        let text = format!(
            "kernel k(n: i32, a: f32, x: in @x, r: out @r) grid\nfn k() {{\nglobal 2 in @x: f32[_]\nglobal 3 out @r: f32[_]\n{body}\n}}\n"
        );
        let mut module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let id = module.kernel.body;
        canonicalize_nans(&mut module.functions[id]);
        assert_eq!(violations(&module), Vec::<String>::new(), "{}", print(&module));
        let text = print(&module);
        let all = text.matches("= select").count();
        let loop_body = text.split("loop").nth(1).and_then(|rest| rest.split("\n    }").next());
        (all, loop_body.map_or(0, |loop_body| loop_body.matches("= select").count()))
    }

    #[test]
    fn computed_values_are_canonicalized_at_stores() {
        assert_eq!(selections("%0: f32 = load @x[0i32]\nstore @r[0i32] = %0"), (0, 0));
        assert_eq!(selections("%0: f32 = arg1 * arg1\n%1: f32 = %0 + arg1\nstore @r[0i32] = %1"), (1, 0));
        // Both stores use the same `select`. Values that cannot be NaNs need none.
        assert_eq!(selections("%0: f32 = arg1 * arg1\nstore @r[0i32] = %0\nstore @r[1i32] = %0"), (1, 0));
        assert_eq!(selections("%0: f32 = max(arg1, 0.0f32)\nstore @r[0i32] = %0"), (0, 0));
        assert_eq!(selections("%0: f32 = convert arg0\nstore @r[0i32] = %0"), (0, 0));
        assert_eq!(selections("%0: f32 = arg1 * arg1\n%1: u32 = bitcast %0\nprint %1"), (1, 0));
    }

    #[test]
    fn joins_keep_the_bits_of_moved_values() {
        let chosen =
            "%0: f32 = load @x[0i32]\n%1: f32 = %0 * arg1\n%2: bool = arg0 > 0i32\n%3: f32 = select %2, %0, %1\n";
        assert_eq!(selections(&format!("{chosen}store @r[0i32] = %3")), (2, 0));
        // The program does not observe the bits of the sum.
        assert_eq!(selections(&format!("{chosen}%4: bool = %3 > 1.0f32\nprint %4")), (1, 0));
        let local = "var $s: f32\n%0: f32 = load @x[0i32]\n$s = %0\n%1: bool = arg0 > 0i32\nif %1 {\n%2: f32 = %0 * arg1\n$s = %2\n}\n\
                     %3: f32 = read $s\nstore @r[0i32] = %3";
        assert_eq!(selections(local), (1, 0));
    }

    #[test]
    fn loop_sums_are_canonicalized_after_the_loop() {
        let sum = "var $s: f32\n%0: f32 = load @x[0i32]\n$s = %0\nloop '0 {\n%1: f32 = read $s\n%2: f32 = %1 + arg1\n$s = %2\n\
                   %3: bool = %2 > 9.0f32\nif %3 {\nbreak '0\n}\n}\n%4: f32 = read $s\nstore @r[0i32] = %4";
        assert_eq!(selections(sum), (1, 0));
    }
}
