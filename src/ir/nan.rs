//! Gives NaNs the bits that the language defines where these can be seen: in a store, a `bitcast`, an atomic, a shuffle.
//!
//! A computed NaN has the bits [`Scalar::nan`]; an operation that only moves a value (a load, a store, a `select`, a `bitcast`) keeps
//! them. Hardware agrees with neither rule: the bits depend on the instruction and on the order of its operands. So computed values are
//! *loose* until they are seen, and one comparison and one selection there cost less than two for each operation. Where a `select` or
//! a local joins loose and exact values, the loose ones are made exact before they are joined. A local that is computed from itself, such as
//! the sum of a loop, is loose even if it begins with an exact value: to make it exact would double the latency of the loop. The simulator runs this last; GPUs do not.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::base::stop;
use crate::ir::def::*;
use crate::ir::visit::each_stmt;
use crate::lang::ops::{AtomicOp, MathFn, WarpOp};
use crate::lang::scalar::Scalar;

/// What a value may be if it is a NaN.
type Kinds = u8;
/// Computed: the bits are those of the hardware.
const LOOSE: Kinds = 1;
/// Moved: the bits are to be kept.
const EXACT: Kinds = 2;

/// Changes a function without calls.
pub fn define_bits(function: &mut Function) {
    let has_floats = function.exprs.iter().any(|(_, expr)| expr.ty.scalar().is_float());
    if !has_floats {
        return;
    }
    let writes = writes(function);
    let mut found = Found::default();
    found.analyze(function, &writes);
    let mut seen = vec![];
    each_stmt(&function.body, &mut |stmt| each_seen(function, &stmt.kind, &mut |value| seen.push(value)));
    seen.into_iter().for_each(|value| found.join_exactly(function, &writes, value));
    let body = std::mem::take(&mut function.body);
    let mut rewrite = Rewrite { function, found, known: vec![] };
    let body = rewrite.block(body);
    function.body = body;
}

/// Returns the values that are written to each local.
fn writes(function: &Function) -> FxHashMap<LocalId, Vec<ExprId>> {
    let mut writes: FxHashMap<LocalId, Vec<ExprId>> = FxHashMap::default();
    each_stmt(&function.body, &mut |stmt| {
        if let StmtKind::Write { local, value } = stmt.kind {
            writes.entry(local).or_default().push(value);
        }
    });
    writes
}

/// Calls `f` with the operands of a statement whose bits can be seen.
fn each_seen(function: &Function, kind: &StmtKind, f: &mut dyn FnMut(ExprId)) {
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

/// Returns whether an operation on a local has this value.
fn is_computed_from(function: &Function, value: ExprId, local: LocalId) -> bool {
    let mut seen: FxHashSet<ExprId> = FxHashSet::default();
    // With whether an operation lies between the value and the expression.
    let mut todo = vec![(value, false)];
    while let Some((id, is_computed)) = todo.pop() {
        let kind = &function.exprs[id].kind;
        if is_computed && *kind == ExprKind::Read(local) {
            return true;
        }
        let computes = matches!(kind, ExprKind::Unary { .. } | ExprKind::Binary { .. } | ExprKind::Math { .. });
        if seen.insert(id) {
            kind.operands(|operand| todo.push((operand, is_computed || computes)));
        }
    }
    false
}

/// What is found about a function.
#[derive(Default)]
struct Found {
    exprs: Vec<Kinds>,
    locals: FxHashMap<LocalId, Kinds>,
    /// Locals that are computed from themselves.
    sums: FxHashSet<LocalId>,
    /// Results of statements that compute, and matrices of the block that a loop adds products to.
    loose_results: FxHashSet<ExprId>,
    loose_memories: FxHashSet<MemId>,
    /// `select`s, vectors and changes of signs whose loose operands have to be made exact, and locals to which only exact values are written.
    joins: FxHashSet<ExprId>,
    joining: FxHashSet<LocalId>,
}

impl Found {
    fn analyze(&mut self, function: &Function, writes: &FxHashMap<LocalId, Vec<ExprId>>) {
        each_stmt(&function.body, &mut |stmt| match &stmt.kind {
            StmtKind::Warp { op, result, .. } if is_reduction(*op) => {
                self.loose_results.insert(*result);
            }
            // The simulator may do it at once. Sums of tensor cores have NaNs of their own.
            StmtKind::For { together: Some(Together::Product(factors)), .. } if factors.sums == Sums::Rounded => {
                self.loose_memories.insert(factors.sum);
            }
            _ => {}
        });
        self.sums = writes
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

    fn kinds(&self, function: &Function, id: ExprId) -> Kinds {
        let Expr { kind, ty } = &function.exprs[id];
        if !ty.scalar().is_float() {
            return 0;
        }
        let of = |id: &ExprId| self.exprs[id.index()];
        let signed = |kinds: Kinds| if kinds & LOOSE != 0 { LOOSE | EXACT } else { kinds };
        match kind {
            ExprKind::Const(bits) if !(crate::lang::scalar::Value { ty: ty.scalar(), bits: *bits }).is_nan() => 0,
            ExprKind::Read(local) => match self.locals.get(local).copied().unwrap_or(0) {
                kinds if kinds & LOOSE != 0 && self.sums.contains(local) => LOOSE,
                kinds => kinds,
            },
            // One of the operands is no NaN, and a NaN loses to a number.
            ExprKind::Math { function: MathFn::Min | MathFn::Max, args } if args.iter().any(|arg| of(arg) == 0) => 0,
            ExprKind::Select { then, other, .. } => of(then) | of(other),
            ExprKind::Compose(parts) => parts.iter().fold(0, |kinds, part| kinds | of(part)),
            ExprKind::Extract { value, .. } => of(value),
            ExprKind::Bitcast(value) if function.exprs[*value].ty == *ty => of(value),
            ExprKind::Load { place, .. } if self.loose_memories.contains(&place.memory) => LOOSE,
            ExprKind::Convert(value) if !function.exprs[*value].ty.scalar().is_float() => 0,
            ExprKind::Math { function: MathFn::Tf32, .. } => EXACT,
            // These change the sign alone, so that a loose operand is made exact before if the result is seen.
            ExprKind::Unary { value, .. } => signed(of(value)),
            ExprKind::Math { function: MathFn::Abs | MathFn::Copysign, args } => signed(args.first().map_or(0, of)),
            ExprKind::Binary { .. } | ExprKind::Math { .. } | ExprKind::Convert(_) => LOOSE,
            ExprKind::Result if self.loose_results.contains(&id) => LOOSE,
            _ => EXACT,
        }
    }

    /// Has the joins that a value comes from make their loose operands exact, if the value itself cannot be made exact.
    fn join_exactly(&mut self, function: &Function, writes: &FxHashMap<LocalId, Vec<ExprId>>, value: ExprId) {
        let mut todo = vec![value];
        while let Some(id) = todo.pop() {
            if self.exprs[id.index()] != LOOSE | EXACT {
                continue;
            }
            match &function.exprs[id].kind {
                ExprKind::Read(local) if self.joining.insert(*local) => {
                    todo.extend(writes.get(local).into_iter().flatten())
                }
                ExprKind::Select { then, other, .. } if self.joins.insert(id) => todo.extend([then, other]),
                ExprKind::Compose(parts) if self.joins.insert(id) => todo.extend(parts),
                ExprKind::Unary { value, .. } if self.joins.insert(id) => todo.push(*value),
                ExprKind::Math { args, .. } if self.joins.insert(id) => todo.extend(args.first()),
                ExprKind::Extract { value, .. } | ExprKind::Bitcast(value) => todo.push(*value),
                _ => {}
            }
        }
    }
}

struct Rewrite<'a> {
    function: &'a mut Function,
    found: Found,
    /// By open block, the exact forms of loose values.
    known: Vec<FxHashMap<ExprId, ExprId>>,
}

impl Rewrite<'_> {
    fn block(&mut self, block: Block) -> Block {
        self.known.push(FxHashMap::default());
        let mut out = Vec::with_capacity(block.len());
        for mut stmt in block {
            stop::poll();
            self.stmt(&mut stmt.kind, &mut out);
            for inner in stmt.kind.blocks_mut() {
                *inner = self.block(std::mem::take(inner));
            }
            out.push(stmt);
        }
        self.known.pop();
        out
    }

    fn stmt(&mut self, kind: &mut StmtKind, out: &mut Block) {
        let mut wanted = vec![];
        each_seen(self.function, kind, &mut |value| wanted.push(value));
        match kind {
            StmtKind::Let(id) if self.found.joins.contains(id) => match &self.function.exprs[*id].kind {
                ExprKind::Select { then, other, .. } => wanted.extend([then, other]),
                ExprKind::Compose(parts) => wanted.extend(parts),
                ExprKind::Unary { value, .. } => wanted.push(*value),
                ExprKind::Math { args, .. } => wanted.extend(args.first()),
                _ => {}
            },
            StmtKind::Write { local, value } if self.found.joining.contains(local) => wanted.push(*value),
            _ => {}
        }
        wanted.retain(|value| self.found.exprs.get(value.index()) == Some(&LOOSE));
        for value in wanted {
            let exact = self.exact(value, out);
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

    /// Returns a loose value with the defined bits.
    fn exact(&mut self, value: ExprId, out: &mut Block) -> ExprId {
        if let Some(&exact) = self.known.iter().rev().find_map(|known| known.get(&value)) {
            return exact;
        }
        let ty = self.function.exprs[value].ty;
        let bools = ty.with_scalar(Scalar::Bool);
        let nan = self.all(ty.scalar().nan(), ty, value, out);
        let is_nan = match ty.scalar() {
            Scalar::F32 | Scalar::F64 => {
                self.add(ExprKind::Binary { op: BinOp::Ne, left: value, right: value }, bools, value, out)
            }
            // Integers are compared faster than floats of 16 bits.
            half => {
                let words = ty.with_scalar(Scalar::U16);
                let size = self.all(0x7fff, words, value, out);
                let infinity = self.all(if half == Scalar::F16 { 0x7c00 } else { 0x7f80 }, words, value, out);
                let bits = self.add(ExprKind::Bitcast(value), words, value, out);
                let left = self.add(ExprKind::Binary { op: BinOp::And, left: bits, right: size }, words, value, out);
                self.add(ExprKind::Binary { op: BinOp::Gt, left, right: infinity }, bools, value, out)
            }
        };
        let exact = self.add(ExprKind::Select { cond: is_nan, then: nan, other: value }, ty, value, out);
        if let Some(known) = self.known.last_mut() {
            known.insert(value, exact);
        }
        exact
    }

    /// Adds an expression at the place of another one.
    fn add(&mut self, kind: ExprKind, ty: Ty, at: ExprId, out: &mut Block) -> ExprId {
        let span = self.function.spans[at];
        let is_free = kind.is_free();
        let id = self.function.exprs.push(Expr { kind, ty });
        self.function.spans.push(span);
        if !is_free {
            out.push(Stmt { kind: StmtKind::Let(id), span });
        }
        id
    }

    /// Adds a constant that is the same in all components.
    fn all(&mut self, bits: u64, ty: Ty, at: ExprId, out: &mut Block) -> ExprId {
        let one = self.add(ExprKind::Const(bits), Ty::Scalar(ty.scalar()), at, out);
        match ty {
            Ty::Scalar(_) => one,
            Ty::Vector(_, lanes) => self.add(ExprKind::Compose(vec![one; lanes.into()]), ty, at, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::define_bits;
    use crate::ir::text::{parse, print};
    use crate::ir::verify::violations;

    /// Returns the number of selections after the pass, and of those in loops.
    fn selections(body: &str) -> (usize, usize) {
        let text = format!(
            "kernel k(n: i32, a: f32, x: in @x, r: out @r) grid\nfn k() {{\nglobal 2 in @x: f32[_]\nglobal 3 out @r: f32[_]\n{body}\n}}\n"
        );
        let mut module = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let id = module.kernel.body;
        define_bits(&mut module.functions[id]);
        assert_eq!(violations(&module), Vec::<String>::new(), "{}", print(&module));
        let text = print(&module);
        let all = text.matches("= select").count();
        let inside = text.split("loop").nth(1).and_then(|rest| rest.split("\n    }").next());
        (all, inside.map_or(0, |inside| inside.matches("= select").count()))
    }

    #[test]
    fn computed_values_are_made_exact_where_they_are_stored() {
        assert_eq!(selections("%0: f32 = load @x[0i32]\nstore @r[0i32] = %0"), (0, 0));
        assert_eq!(selections("%0: f32 = arg1 * arg1\n%1: f32 = %0 + arg1\nstore @r[0i32] = %1"), (1, 0));
        // Once for two stores, and not for what is no NaN.
        assert_eq!(selections("%0: f32 = arg1 * arg1\nstore @r[0i32] = %0\nstore @r[1i32] = %0"), (1, 0));
        assert_eq!(selections("%0: f32 = max(arg1, 0.0f32)\nstore @r[0i32] = %0"), (0, 0));
        assert_eq!(selections("%0: f32 = convert arg0\nstore @r[0i32] = %0"), (0, 0));
        assert_eq!(selections("%0: f32 = arg1 * arg1\n%1: u32 = bitcast %0\nprint %1"), (1, 0));
    }

    #[test]
    fn joins_keep_the_bits_of_what_is_moved() {
        let chosen =
            "%0: f32 = load @x[0i32]\n%1: f32 = %0 * arg1\n%2: bool = arg0 > 0i32\n%3: f32 = select %2, %0, %1\n";
        assert_eq!(selections(&format!("{chosen}store @r[0i32] = %3")), (2, 0));
        // Nothing sees the bits of a sum.
        assert_eq!(selections(&format!("{chosen}%4: bool = %3 > 1.0f32\nprint %4")), (1, 0));
        let local = "var $s: f32\n%0: f32 = load @x[0i32]\n$s = %0\n%1: bool = arg0 > 0i32\nif %1 {\n%2: f32 = %0 * arg1\n$s = %2\n}\n\
                     %3: f32 = read $s\nstore @r[0i32] = %3";
        assert_eq!(selections(local), (1, 0));
    }

    #[test]
    fn sums_of_loops_are_made_exact_after_them() {
        let sum = "var $s: f32\n%0: f32 = load @x[0i32]\n$s = %0\nloop '0 {\n%1: f32 = read $s\n%2: f32 = %1 + arg1\n$s = %2\n\
                   %3: bool = %2 > 9.0f32\nif %3 {\nbreak '0\n}\n}\n%4: f32 = read $s\nstore @r[0i32] = %4";
        assert_eq!(selections(sum), (1, 0));
    }
}
