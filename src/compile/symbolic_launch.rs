//! Builds symbolic launches from kernel signatures: the dimensions, extents, parameters and coordinates of a launch as
//! affine forms.

use rustc_hash::FxHashMap;

use thiserror::Error;

use clk_base::linear::{AffineForm, Formula, Var};
use clk_check::typed::{self, ArrayPromise, AssumeKind, Dim, Expr, ExprKind, Geometry, LocalId, Program, Type};
use clk_ir::def::{BuiltinIndex, ExprKind as IrKind, KernelParam, Module, Ty};
use clk_ir::footprint::formula::*;
use clk_ir::footprint::vars::{ArrayPromises, VarRole, VarSpace};
use clk_ir::footprint::{SymbolicGrid, SymbolicLaunch};
use clk_lower::{ConstEvaluator, GenericArgument, Instance};
use clk_scalar::Scalar;
use clk_scalar::builtin::Builtin;
use clk_scalar::exact::limits;
use clk_scalar::ops::{BinaryOp, MathFn, UnaryOp};

/// The launches to be described: all sizes, or particular sizes.
pub enum LaunchSizes<'a> {
    /// All sizes with dimensions up to this number. Unless it is [`MAX_DIMENSION`], it is also the maximum number of
    /// elements of an array.
    Any(i128),
    /// One launch, with these dimensions in the order of the signature, and these integer parameters by position.
    Known { dims: &'a [i128], scalars: &'a FxHashMap<u32, i128> },
}

/// A symbolic launch, with the affine forms of the sizes in the kernel's signature.
pub struct SizedLaunch {
    pub symbolic: SymbolicLaunch,
    /// The dimensions, in the order of the signature.
    pub dims: Vec<AffineForm>,
    /// The integer parameters, each with its position.
    pub scalars: Vec<(u32, AffineForm)>,
    /// The extents of a `threads` kernel; the block of a `grid` kernel, then its grid.
    pub space: Vec<AffineForm>,
}

/// The construct of a signature that cannot be described symbolically.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum UndescribedLaunch {
    #[error("a dimension that does not exist")]
    NoDimension,
    #[error("an extent that does not exist")]
    NoExtent,
    #[error("`{0}` has no known shape")]
    UnknownShape(String),
    #[error("a launch that is rejected")]
    Rejected,
    #[error("a condition that cannot be analyzed")]
    Condition,
    #[error("a bound that cannot be analyzed")]
    Bound,
    #[error("a parameter without a type")]
    NoType,
    #[error("a parameter without a layout")]
    NoLayout,
}

struct SizeScope<'a> {
    program: &'a Program,
    arguments: &'a [GenericArgument],
    space: VarSpace,
    dims: Vec<AffineForm>,
    locals: FxHashMap<LocalId, AffineForm>,
    /// The position of the first leaf of each by-value parameter, and the integer leaves by position.
    first_leaves: FxHashMap<LocalId, u32>,
    leaf_forms: FxHashMap<u32, AffineForm>,
}

pub const MAX_DIMENSION: i128 = i32::MAX as i128;

/// Describes the launches of a kernel symbolically.
pub fn symbolic_launch(
    program: &Program,
    kernel: &typed::Kernel,
    instance: &Instance,
    module: &Module,
    sizes: &LaunchSizes<'_>,
) -> Result<SizedLaunch, UndescribedLaunch> {
    let mut scope = SizeScope {
        program,
        arguments: &instance.arguments,
        space: VarSpace::default(),
        dims: vec![],
        locals: FxHashMap::default(),
        first_leaves: FxHashMap::default(),
        leaf_forms: FxHashMap::default(),
    };
    for (i, dim) in kernel.sig.dims.iter().enumerate() {
        let form = match sizes {
            LaunchSizes::Any(largest) => variable(scope.space.fresh(dim.name.as_str(), VarRole::Launch, 0, *largest)),
            LaunchSizes::Known { dims, .. } => number(dims.get(i).copied().unwrap_or(0)),
        };
        scope.dims.push(form);
    }
    let most = if let LaunchSizes::Any(most) = sizes { *most } else { MAX_DIMENSION };
    let mut symbolic = SymbolicLaunch::default();
    let mut scalars = vec![];
    let mut position = 0;
    for (i, param) in kernel.sig.params.iter().enumerate() {
        if matches!(param.ty, Type::Array(_)) {
            position += 1;
        } else {
            let leaves = scope.leaves(&param.ty)?;
            scope.first_leaves.insert(LocalId::new(i), position);
            for leaf in 0..leaves {
                let at = position + leaf;
                let Some(KernelParam::Value { name, ty: Ty::Scalar(scalar) }) = module.kernel.params.get(at as usize)
                else {
                    continue;
                };
                if !scalar.is_int() {
                    continue;
                }
                let form = match sizes {
                    LaunchSizes::Any(_) => {
                        let (low, high) = limits(*scalar);
                        variable(scope.space.fresh(name.as_str(), VarRole::Launch, low, high))
                    }
                    LaunchSizes::Known { scalars, .. } => number(scalars.get(&at).copied().unwrap_or(0)),
                };
                if leaves == 1 {
                    scope.locals.insert(LocalId::new(i), form.clone());
                }
                symbolic.params.insert(at, form.clone());
                scope.leaf_forms.insert(at, form.clone());
                scalars.push((at, form));
            }
            position += leaves;
        }
    }
    for assume in &kernel.assumes {
        if let AssumeKind::Condition(condition) = &assume.kind {
            scope.add_assumption(condition, matches!(sizes, LaunchSizes::Known { .. }))?;
        }
    }
    let mut position = 0;
    for param in &kernel.sig.params {
        let Type::Array(array) = &param.ty else {
            position += scope.leaves(&param.ty)?;
            continue;
        };
        let mut count = number(1);
        for (axis, dim) in array.dims.iter().enumerate() {
            let extent = match dim {
                Dim::Known(n) => number(i128::from(*n)),
                Dim::Name(dim) => scope.dims.get(*dim as usize).cloned().ok_or(UndescribedLaunch::NoDimension)?,
                Dim::Expr(i) => {
                    let expr = kernel.sig.dim_exprs.get(*i as usize).ok_or(UndescribedLaunch::NoExtent)?;
                    let form = scope.form(expr);
                    scope.add_extent_facts(&form, 0);
                    form
                }
                Dim::Local(_) | Dim::Unknown => return Err(UndescribedLaunch::UnknownShape(param.name.to_string())),
            };
            if most < MAX_DIMENSION {
                count = scope.space.product(&count, &extent);
            }
            symbolic.extents.insert((position, axis as u8), extent);
        }
        let has_product = count.terms().iter().any(|(var, _)| scope.space.products.contains_key(var));
        if most < MAX_DIMENSION && (array.dims.len() > 1 || has_product) {
            scope.add_count_facts(&count, most);
        }
        position += 1;
    }
    for dim in clk_lower::hidden_params(program, instance.kernel) {
        symbolic.params.insert(position, scope.dims[dim as usize].clone());
        position += 1;
    }
    scope.add_promises(kernel, &symbolic, matches!(sizes, LaunchSizes::Known { .. }))?;
    let space = match &kernel.geometry {
        Geometry::Threads { extents, .. } => {
            let extents: Vec<AffineForm> = extents.iter().map(|extent| scope.form(extent)).collect();
            for (k, extent) in extents.iter().enumerate() {
                scope.add_extent_facts(extent, 0);
                let index = scope.new_coordinate(&format!("index {k}"), VarRole::Thread, extent);
                symbolic.indices.push(index);
            }
            extents
        }
        Geometry::Grid { grid, block, .. } => {
            let grid: Vec<AffineForm> = grid.iter().map(|extent| scope.form(extent)).collect();
            let block: Vec<AffineForm> = block.iter().map(|extent| scope.form(extent)).collect();
            symbolic.grid = Some(scope.symbolic_grid(&grid, &block, module));
            let all = |extents: &[AffineForm]| {
                (0..3).map(|k| extents.get(k).cloned().unwrap_or_else(|| number(1))).collect::<Vec<_>>()
            };
            [all(&block), all(&grid)].concat()
        }
    };
    symbolic.variables = scope.space;
    Ok(SizedLaunch { symbolic, dims: scope.dims, scalars, space })
}

impl SizeScope<'_> {
    fn leaves(&self, ty: &Type) -> Result<u32, UndescribedLaunch> {
        leaf_count(self.program, self.arguments, ty)
    }

    /// Adds the facts that an extent is at least `least` and at most the largest `i32`.
    fn add_extent_facts(&mut self, extent: &AffineForm, least: i128) {
        let facts = [at_most(&number(least), extent), at_most(extent, &number(MAX_DIMENSION))];
        for &(var, _) in extent.terms() {
            for fact in &facts {
                self.space.add_fact(var, fact.clone());
            }
        }
    }

    /// Adds the fact that an array has at most `most` elements to the variable of each dimension on which the number of
    /// elements depends.
    fn add_count_facts(&mut self, count: &AffineForm, most: i128) {
        let dims: Vec<Var> = self.dims.iter().filter_map(single).collect();
        for var in dims {
            if count.terms().iter().any(|&(of, _)| self.space.depends_on(of, var)) {
                self.space.add_fact(var, at_most(count, &number(most)));
            }
        }
    }

    /// Adds an `assume` condition to the facts. Operands of `&&` that cannot be expressed as formulas are ignored. If
    /// the sizes are known, they must satisfy the whole condition; otherwise the result is an error.
    fn add_assumption(&mut self, condition: &Expr, known: bool) -> Result<(), UndescribedLaunch> {
        if let ExprKind::Binary { op: BinaryOp::And, left, right } = &condition.kind {
            self.add_assumption(left, known)?;
            return self.add_assumption(right, known);
        }
        let fact = self.formula(condition);
        match fact {
            Some(fact) if known && !is_always(&fact) => Err(UndescribedLaunch::Rejected),
            None if known => Err(UndescribedLaunch::Condition),
            Some(fact) => {
                self.space.narrow(&fact);
                let mut on = vec![];
                // The fact is added to all variables from which those in the fact are computed, for example to the
                // factors of a product.
                each_var(&fact, &mut |var| self.space.each_origin(var, &mut |var| on.push(var)));
                on.sort();
                on.dedup();
                on.into_iter().for_each(|var| self.space.add_fact(var, fact.clone()));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Adds the promises about arrays to the launch. If the sizes are known, all bounds in promises must be known too.
    fn add_promises(
        &mut self,
        kernel: &typed::Kernel,
        launch: &SymbolicLaunch,
        known: bool,
    ) -> Result<(), UndescribedLaunch> {
        let mut position = 0;
        for (i, param) in kernel.sig.params.iter().enumerate() {
            let Type::Array(array) = &param.ty else {
                position += self.leaves(&param.ty)?;
                continue;
            };
            let mut array_promises = ArrayPromises::default();
            let extent = |axis| launch.extents.get(&(position, axis as u8)).cloned().unwrap_or_default();
            array_promises.extents = (0..array.dims.len()).map(extent).collect();
            for assume in &kernel.assumes {
                match &assume.kind {
                    AssumeKind::Array { param, promise } if *param as usize == i => {
                        self.add_promise(promise, &mut array_promises, known)?;
                    }
                    _ => {}
                }
            }
            if array_promises.ascending || array_promises.distinct || !array_promises.all.is_empty() {
                self.space.array_promises.insert(position, array_promises);
            }
            position += 1;
        }
        Ok(())
    }

    fn add_promise(
        &mut self,
        promise: &ArrayPromise,
        array_promises: &mut ArrayPromises,
        known: bool,
    ) -> Result<(), UndescribedLaunch> {
        match promise {
            ArrayPromise::Ascending => array_promises.ascending = true,
            ArrayPromise::Distinct => array_promises.distinct = true,
            ArrayPromise::Permutation => {
                array_promises.distinct = true;
                array_promises.all.push((BinaryOp::Ge, number(0)));
                array_promises.all.push((BinaryOp::Lt, array_promises.extents.first().cloned().unwrap_or_default()));
            }
            ArrayPromise::All { op, bound } => {
                match is_exact(bound).then(|| self.symbolic_or_constant(bound)).flatten() {
                    Some(bound) if !known || constant(&bound).is_some() => array_promises.all.push((*op, bound)),
                    _ if known => return Err(UndescribedLaunch::Bound),
                    _ => {}
                }
            }
        }
        Ok(())
    }

    /// Returns a condition as a formula; `None` if that is not possible. The host evaluates sums and products in
    /// conditions without overflow, and all other operations in 32 bits.
    fn formula(&mut self, condition: &Expr) -> Option<Formula> {
        Some(match &condition.kind {
            ExprKind::Bool(true) => always(),
            ExprKind::Bool(false) => never(),
            ExprKind::Unary { op: UnaryOp::Not, expr } => not(&self.formula(expr)?),
            ExprKind::Binary { op: BinaryOp::And, left, right } => and([self.formula(left)?, self.formula(right)?]),
            ExprKind::Binary { op: BinaryOp::Or, left, right } => or([self.formula(left)?, self.formula(right)?]),
            ExprKind::Binary { op, left, right } if op.is_comparison() => {
                if !is_exact(left) || !is_exact(right) {
                    return None;
                }
                let (a, b) = (self.symbolic_or_constant(left)?, self.symbolic_or_constant(right)?);
                match op {
                    BinaryOp::Eq => equal(&a, &b),
                    BinaryOp::Ne => different(&a, &b),
                    BinaryOp::Lt => less(&a, &b),
                    BinaryOp::Le => at_most(&a, &b),
                    BinaryOp::Gt => less(&b, &a),
                    _ => at_most(&b, &a),
                }
            }
            _ => return None,
        })
    }

    /// Returns a new variable for a coordinate, with the fact that it is at least 0 and less than an extent.
    fn new_coordinate(&mut self, name: &str, role: VarRole, extent: &AffineForm) -> AffineForm {
        if constant(extent) == Some(1) {
            return number(0);
        }
        let high = self.space.bounds(extent).1.min(MAX_DIMENSION);
        let var = self.space.fresh(name, role, 0, (high - 1).max(0));
        self.space.add_fact(var, at_most(&variable(var).plus(&number(1)), extent));
        variable(var)
    }

    fn symbolic_grid(&mut self, grid: &[AffineForm], block: &[AffineForm], module: &Module) -> SymbolicGrid {
        let one = || number(1);
        let all = |extents: &[AffineForm]| std::array::from_fn(|k| extents.get(k).cloned().unwrap_or_else(one));
        let (grid, block): ([AffineForm; 3], [AffineForm; 3]) = (all(grid), all(block));
        let names = ["x", "y", "z"];
        for extent in &block {
            self.add_extent_facts(extent, 1);
            // A block has at most 1024 threads, so each of its extents is at most 1024.
            for &(var, _) in extent.terms() {
                self.space.add_fact(var, at_most(extent, &number(1024)));
            }
        }
        let mut part = |k: usize, kind: &str, role: VarRole, extents: &[AffineForm; 3]| {
            self.new_coordinate(&format!("{kind}_idx.{}", names[k]), role, &extents[k])
        };
        let thread: [AffineForm; 3] = std::array::from_fn(|k| part(k, "thread", VarRole::Thread, &block));
        let block_idx: [AffineForm; 3] = std::array::from_fn(|k| part(k, "block", VarRole::Block, &grid));
        for extent in &grid {
            self.add_extent_facts(extent, 0);
        }
        let global: [AffineForm; 3] = std::array::from_fn(|k| {
            let first = self.space.product(&block_idx[k], &block[k]);
            let factors = single(&grid[k]).zip(single(&block[k]));
            let is_limited = factors.is_some_and(|(grid, block)| self.space.known_product(grid, block).is_some());
            let reads_global = reads_global(module, k);
            if reads_global || is_limited {
                let threads = self.space.product(&grid[k], &block[k]);
                let first = first.clone();
                let terms: Vec<Var> = block_idx[k].terms().iter().map(|&(var, _)| var).collect();
                for var in terms {
                    // A launch of a kernel that reads `global_idx` has at most 2^31 threads along that axis.
                    if reads_global {
                        self.space.add_fact(var, at_most(&threads, &number(1 << 31)));
                    }
                    self.space.add_fact(var, at_most(&first.plus(&block[k]), &threads));
                }
            }
            first.plus(&thread[k])
        });
        SymbolicGrid { thread, block_idx, block, grid, global }
    }

    /// Returns an extent as an affine form. An extent that cannot be expressed becomes an unknown variable.
    fn form(&mut self, expr: &Expr) -> AffineForm {
        if let Some(form) = self.symbolic_value(expr) {
            return form;
        }
        let value =
            ConstEvaluator::new(self.program, self.arguments).evaluate(expr).ok().and_then(|value| value.as_integer());
        match value {
            Some(value) => number(value),
            None => variable(self.space.fresh("extent", VarRole::Launch, -MAX_DIMENSION, MAX_DIMENSION)),
        }
    }

    fn symbolic_value(&mut self, expr: &Expr) -> Option<AffineForm> {
        match &expr.kind {
            ExprKind::Int(n) => Some(number(*n)),
            ExprKind::Dim(i) => self.dims.get(*i as usize).cloned(),
            ExprKind::Local(id) => self.locals.get(id).cloned(),
            ExprKind::Field { .. } => {
                let first = |local| self.first_leaves.get(&local).copied();
                let at = leaf_position(self.program, self.arguments, expr, &first)?;
                self.leaf_forms.get(&at).cloned()
            }
            ExprKind::Convert { to, expr } => {
                let form = self.symbolic_value(expr)?;
                let ((least, most), (low, high)) = (self.space.bounds(&form), limits(*to));
                (to.is_int() && low <= least && most <= high).then_some(form)
            }
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.symbolic_or_constant(left)?, self.symbolic_or_constant(right)?);
                Some(match op {
                    BinaryOp::Add => left.plus(&right),
                    BinaryOp::Sub => left.minus(&right),
                    BinaryOp::Mul => self.space.product(&left, &right),
                    BinaryOp::Div => self.space.quotient(&left, &right, false),
                    BinaryOp::Rem => {
                        self.add_range_facts(&left);
                        self.add_range_facts(&right);
                        let quotient = self.space.quotient(&left, &right, false);
                        left.minus(&self.space.product(&quotient, &right))
                    }
                    _ => return None,
                })
            }
            ExprKind::Builtin { builtin: Builtin::CeilDiv, args, .. } => {
                let [x, y] = &args[..] else { return None };
                let (x, y) = (self.operand_32_bits(x)?, self.operand_32_bits(y)?);
                if self.space.bounds(&x).0 < 0 || self.space.bounds(&y).0 < 0 {
                    return None;
                }
                Some(self.space.ceil_quotient(&x, &y))
            }
            ExprKind::Builtin { builtin: Builtin::Math(MathFn::Min), args, .. } => {
                let [x, y] = &args[..] else { return None };
                let (x, y) = (self.operand_32_bits(x)?, self.operand_32_bits(y)?);
                Some(self.space.min_form(&x, &y))
            }
            ExprKind::Builtin { builtin: Builtin::Math(MathFn::Max), args, .. } => {
                let [x, y] = &args[..] else { return None };
                let (x, y) = (self.operand_32_bits(x)?, self.operand_32_bits(y)?);
                Some(self.space.max_form(&x, &y))
            }
            ExprKind::Builtin { builtin: Builtin::Math(MathFn::Clamp), args, .. } => {
                let [x, low, high] = &args[..] else { return None };
                let (x, low, high) =
                    (self.operand_32_bits(x)?, self.operand_32_bits(low)?, self.operand_32_bits(high)?);
                let raised = self.space.max_form(&x, &low);
                Some(self.space.min_form(&raised, &high))
            }
            _ => None,
        }
    }

    /// Returns the affine form of an operand of an operation that is evaluated in 32 bits, and adds the fact that it
    /// fits 32 bits.
    fn operand_32_bits(&mut self, expr: &Expr) -> Option<AffineForm> {
        let form = self.symbolic_or_constant(expr)?;
        self.add_range_facts(&form);
        Some(form)
    }

    /// Adds the fact that a value fits an `i32`, unless its bounds already imply that.
    fn add_range_facts(&mut self, form: &AffineForm) {
        let (low, high) = self.space.bounds(form);
        if low < -MAX_DIMENSION - 1 || high > MAX_DIMENSION {
            let facts = [at_most(&number(-MAX_DIMENSION - 1), form), at_most(form, &number(MAX_DIMENSION))];
            for &(var, _) in form.terms() {
                facts.iter().for_each(|fact| self.space.add_fact(var, fact.clone()));
            }
        }
    }

    fn symbolic_or_constant(&mut self, expr: &Expr) -> Option<AffineForm> {
        self.symbolic_value(expr).or_else(|| {
            let value = ConstEvaluator::new(self.program, self.arguments).evaluate(expr).ok()?;
            value.as_integer().map(number)
        })
    }
}

/// Returns the number of device parameters for a by-value parameter: one for each scalar or vector field.
pub fn leaf_count(program: &Program, arguments: &[GenericArgument], ty: &Type) -> Result<u32, UndescribedLaunch> {
    let ty = match ty {
        Type::Param(i) => match arguments.get(*i as usize) {
            Some(GenericArgument::Type(ty)) => ty,
            _ => return Err(UndescribedLaunch::NoType),
        },
        ty => ty,
    };
    let layout = clk_lower::layout(program, ty).map_err(|_| UndescribedLaunch::NoLayout)?;
    Ok(layout.leaves.len() as u32)
}

/// Returns the position of a by-value parameter, or of a field of one. `first` is the position of a parameter's first
/// leaf. `None` if the expression is neither.
pub fn leaf_position(
    program: &Program,
    arguments: &[GenericArgument],
    expr: &Expr,
    first: &dyn Fn(LocalId) -> Option<u32>,
) -> Option<u32> {
    match &expr.kind {
        ExprKind::Local(local) => first(*local),
        ExprKind::Field { base, field } => {
            let Type::Struct(id) = base.ty else { return None };
            let before = program.structs.get(id)?.fields.get(..*field as usize)?;
            let mut at = leaf_position(program, arguments, base, first)?;
            for field in before {
                at += leaf_count(program, arguments, &field.ty).ok()?;
            }
            Some(at)
        }
        _ => None,
    }
}

/// Returns whether evaluating an integer expression never overflows: operations other than sums and products have only
/// `i32` names and literals as operands.
fn is_exact(expr: &Expr) -> bool {
    let is_leaf = |expr: &Expr| {
        use ExprKind::*;
        matches!(expr.kind, Int(_) | Dim(_) | Local(_) | Const(_) | ConstParam(_) | Field { .. })
    };
    let is_i32 = |expr: &Expr| expr.ty == Type::Scalar(Scalar::I32);
    let is_i32_leaf = |expr: &Expr| is_i32(expr) && is_leaf(expr);
    match &expr.kind {
        ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, left, right } => {
            is_exact(left) && is_exact(right)
        }
        ExprKind::Binary { left, right, .. } => is_i32(expr) && is_i32_leaf(left) && is_i32_leaf(right),
        ExprKind::Builtin { args, .. } => is_i32(expr) && args.iter().all(is_i32_leaf),
        ExprKind::Convert { expr, .. } => is_leaf(expr),
        _ => matches!(&expr.ty, Type::Scalar(scalar) if scalar.is_int()) && is_leaf(expr),
    }
}

fn reads_global(module: &Module, axis: usize) -> bool {
    let reads = |kind: &IrKind| matches!(kind, IrKind::Id(BuiltinIndex::Global, at) if axis == *at as usize);
    module.functions.get(module.kernel.body).is_some_and(|f| f.exprs.iter().any(|(_, expr)| reads(&expr.kind)))
}
