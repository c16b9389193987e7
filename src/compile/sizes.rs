//! A launch in symbols: dimensions, extents, parameters and coordinates as linear forms, from the kernel's signature.

use rustc_hash::FxHashMap;

use crate::base::linear::{Formula, Linear, Var};
use crate::check::typed::{self, AssumeKind, Dim, Expr, ExprKind, Geometry, LocalId, Program, Promise, Type};
use crate::ir::def::{ExprKind as IrKind, Id3, KernelParam, Module, Ty};
use crate::ir::footprint::form::*;
use crate::ir::footprint::space::{Promised, Role, Space};
use crate::ir::footprint::{Given, Grid};
use crate::ir::ranges::type_range;
use crate::lang::builtin::Builtin;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::Scalar;
use crate::lower::{self, Argument, Constants, Instance};

/// What the sizes of a launch are.
pub enum Sizes<'a> {
    /// Any, up to a largest dimension, which is also the largest number of elements of an array if it is not [`LARGEST`].
    Any(i128),
    /// These dimensions, by number, and these scalar parameters, by their position in the launch.
    Known { dims: &'a [i128], scalars: &'a FxHashMap<u32, i128> },
}

/// A launch of a kernel.
pub struct Launch {
    pub given: Given,
    /// By number.
    pub dims: Vec<Linear>,
    /// Integer parameters by their position in the launch.
    pub scalars: Vec<(u32, Linear)>,
    /// The extents of a `threads` kernel; the block of a `grid` kernel, then its grid.
    pub space: Vec<Linear>,
}

struct Scope<'a> {
    program: &'a Program,
    arguments: &'a [Argument],
    space: Space,
    dims: Vec<Linear>,
    locals: FxHashMap<LocalId, Linear>,
}

pub const LARGEST: i128 = i32::MAX as i128;

/// Writes down a launch; an error says what cannot be.
pub fn launch(
    program: &Program,
    kernel: &typed::Kernel,
    instance: &Instance,
    module: &Module,
    sizes: &Sizes<'_>,
) -> Result<Launch, String> {
    let mut scope = Scope {
        program,
        arguments: &instance.arguments,
        space: Space::default(),
        dims: vec![],
        locals: FxHashMap::default(),
    };
    for (i, dim) in kernel.sig.dims.iter().enumerate() {
        let form = match sizes {
            Sizes::Any(largest) => variable(scope.space.fresh(dim.name.as_str(), Role::Launch, 0, *largest)),
            Sizes::Known { dims, .. } => number(dims.get(i).copied().unwrap_or(0)),
        };
        scope.dims.push(form);
    }
    let most = if let Sizes::Any(most) = sizes { *most } else { LARGEST };
    let mut given = Given::default();
    let mut scalars = vec![];
    let mut position = 0;
    for (i, param) in kernel.sig.params.iter().enumerate() {
        if matches!(param.ty, Type::Array(_)) {
            position += 1;
        } else {
            let leaves = scope.leaves(&param.ty)?;
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
                    Sizes::Any(_) => {
                        let (low, high) = type_range(*scalar);
                        variable(scope.space.fresh(name.as_str(), Role::Launch, low, high))
                    }
                    Sizes::Known { scalars, .. } => number(scalars.get(&at).copied().unwrap_or(0)),
                };
                if leaves == 1 {
                    scope.locals.insert(LocalId::new(i), form.clone());
                }
                given.params.insert(at, form.clone());
                scalars.push((at, form));
            }
            position += leaves;
        }
    }
    for assume in &kernel.assumes {
        if let AssumeKind::Condition(condition) = &assume.kind {
            scope.assume(condition, matches!(sizes, Sizes::Known { .. }))?;
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
                Dim::Name(dim) => scope.dims.get(*dim as usize).cloned().ok_or("a dimension that is not there")?,
                Dim::Expr(i) => {
                    let expr = kernel.sig.dim_exprs.get(*i as usize).ok_or("an extent that is not there")?;
                    let form = scope.form(expr);
                    scope.limit(&form, 0);
                    form
                }
                Dim::Local(_) | Dim::Unknown => return Err(format!("`{}` has no known shape", param.name)),
            };
            if most < LARGEST {
                count = scope.space.product(&count, &extent);
            }
            given.extents.insert((position, axis as u8), extent);
        }
        if most < LARGEST && array.dims.len() > 1 {
            scope.limit_on_dims(&count, most);
        }
        position += 1;
    }
    for dim in lower::hidden_params(program, instance.kernel) {
        given.params.insert(position, scope.dims[dim as usize].clone());
        position += 1;
    }
    scope.promises(kernel, &given, matches!(sizes, Sizes::Known { .. }))?;
    let space = match &kernel.geometry {
        Geometry::Threads { extents, .. } => {
            let extents: Vec<Linear> = extents.iter().map(|extent| scope.form(extent)).collect();
            for (k, extent) in extents.iter().enumerate() {
                scope.limit(extent, 0);
                let index = scope.coordinate(&format!("index {k}"), Role::Thread, extent);
                given.indices.push(index);
            }
            extents
        }
        Geometry::Grid { grid, block, .. } => {
            let grid: Vec<Linear> = grid.iter().map(|extent| scope.form(extent)).collect();
            let block: Vec<Linear> = block.iter().map(|extent| scope.form(extent)).collect();
            given.grid = Some(scope.grid(&grid, &block, module));
            let all = |extents: &[Linear]| {
                (0..3).map(|k| extents.get(k).cloned().unwrap_or_else(|| number(1))).collect::<Vec<_>>()
            };
            [all(&block), all(&grid)].concat()
        }
    };
    given.variables = scope.space;
    Ok(Launch { given, dims: scope.dims, scalars, space })
}

impl Scope<'_> {
    fn leaves(&self, ty: &Type) -> Result<u32, String> {
        leaves(self.program, self.arguments, ty)
    }

    /// States that a launch has an extent of at least so much.
    fn limit(&mut self, extent: &Linear, least: i128) {
        let facts = [at_most(&number(least), extent), at_most(extent, &number(LARGEST))];
        for &(var, _) in extent.terms() {
            for fact in &facts {
                self.space.learn(var, fact.clone());
            }
        }
    }

    /// States how many elements an array has at most, wherever one of the dimensions occurs.
    fn limit_on_dims(&mut self, count: &Linear, most: i128) {
        let dims: Vec<Var> = self.dims.iter().filter_map(single).collect();
        for var in dims {
            if count.terms().iter().any(|&(of, _)| self.space.depends(of, var)) {
                self.space.learn(var, at_most(count, &number(most)));
            }
        }
    }

    /// States what holds of every launch: as much of a condition as is a formula. Known sizes have to satisfy all of it.
    fn assume(&mut self, condition: &Expr, known: bool) -> Result<(), String> {
        if let ExprKind::Binary { op: BinaryOp::And, left, right } = &condition.kind {
            self.assume(left, known)?;
            return self.assume(right, known);
        }
        let fact = self.formula(condition);
        match fact {
            Some(fact) if known && !is_always(&fact) => Err("a launch that is refused".into()),
            None if known => Err("a condition that is not followed".into()),
            Some(fact) => {
                self.space.narrow(&fact);
                let mut on = vec![];
                // A product is of interest wherever its factors are.
                each_var(&fact, &mut |var| self.space.each_origin(var, &mut |var| on.push(var)));
                on.sort();
                on.dedup();
                on.into_iter().for_each(|var| self.space.learn(var, fact.clone()));
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Notes what is promised of arrays. For known sizes all bounds have to be known.
    fn promises(&mut self, kernel: &typed::Kernel, given: &Given, known: bool) -> Result<(), String> {
        let mut position = 0;
        for (i, param) in kernel.sig.params.iter().enumerate() {
            let Type::Array(array) = &param.ty else {
                position += self.leaves(&param.ty)?;
                continue;
            };
            let mut promised = Promised::default();
            let extent = |axis| given.extents.get(&(position, axis as u8)).cloned().unwrap_or_default();
            promised.extents = (0..array.dims.len()).map(extent).collect();
            for assume in &kernel.assumes {
                match &assume.kind {
                    AssumeKind::Array { param, promise } if *param as usize == i => {
                        self.promise(promise, &mut promised, known)?;
                    }
                    _ => {}
                }
            }
            if promised.ascending || promised.distinct || !promised.all.is_empty() {
                self.space.promised.insert(position, promised);
            }
            position += 1;
        }
        Ok(())
    }

    fn promise(&mut self, promise: &Promise, promised: &mut Promised, known: bool) -> Result<(), String> {
        match promise {
            Promise::Ascending => promised.ascending = true,
            Promise::Distinct => promised.distinct = true,
            Promise::Permutation => {
                promised.distinct = true;
                promised.all.push((BinaryOp::Ge, number(0)));
                promised.all.push((BinaryOp::Lt, promised.extents.first().cloned().unwrap_or_default()));
            }
            Promise::All { op, bound } => match is_plain(bound).then(|| self.known_or_constant(bound)).flatten() {
                Some(bound) if !known || constant(&bound).is_some() => promised.all.push((*op, bound)),
                _ if known => return Err("a bound that is not followed".into()),
                _ => {}
            },
        }
        Ok(())
    }

    /// Returns a condition as a formula. The host computes sums and products in it exactly, all else in 32 bits.
    fn formula(&mut self, condition: &Expr) -> Option<Formula> {
        Some(match &condition.kind {
            ExprKind::Bool(true) => always(),
            ExprKind::Bool(false) => never(),
            ExprKind::Unary { op: UnaryOp::Not, expr } => not(&self.formula(expr)?),
            ExprKind::Binary { op: BinaryOp::And, left, right } => and([self.formula(left)?, self.formula(right)?]),
            ExprKind::Binary { op: BinaryOp::Or, left, right } => or([self.formula(left)?, self.formula(right)?]),
            ExprKind::Binary { op, left, right } if op.is_comparison() => {
                if !is_plain(left) || !is_plain(right) {
                    return None;
                }
                let (a, b) = (self.known_or_constant(left)?, self.known_or_constant(right)?);
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

    /// Returns a coordinate from 0 to an extent.
    fn coordinate(&mut self, name: &str, role: Role, extent: &Linear) -> Linear {
        if constant(extent) == Some(1) {
            return number(0);
        }
        let high = self.space.bounds(extent).1.min(LARGEST);
        let var = self.space.fresh(name, role, 0, (high - 1).max(0));
        self.space.learn(var, at_most(&variable(var).plus(&number(1)), extent));
        variable(var)
    }

    fn grid(&mut self, grid: &[Linear], block: &[Linear], module: &Module) -> Grid {
        let one = || number(1);
        let all = |extents: &[Linear]| std::array::from_fn(|k| extents.get(k).cloned().unwrap_or_else(one));
        let (grid, block): ([Linear; 3], [Linear; 3]) = (all(grid), all(block));
        let names = ["x", "y", "z"];
        for extent in &block {
            self.limit(extent, 1);
            // A block has at most 1024 threads.
            for &(var, _) in extent.terms() {
                self.space.learn(var, at_most(extent, &number(1024)));
            }
        }
        let mut part = |k: usize, kind: &str, role: Role, extents: &[Linear; 3]| {
            self.coordinate(&format!("{kind}_idx.{}", names[k]), role, &extents[k])
        };
        let thread: [Linear; 3] = std::array::from_fn(|k| part(k, "thread", Role::Thread, &block));
        let at: [Linear; 3] = std::array::from_fn(|k| part(k, "block", Role::Block, &grid));
        for extent in &grid {
            self.limit(extent, 0);
        }
        let global: [Linear; 3] = std::array::from_fn(|k| {
            let first = self.space.product(&at[k], &block[k]);
            // A launch of a kernel that reads `global_idx` has at most 2^31 threads along that axis.
            if reads_global(module, k) {
                let threads = self.space.product(&grid[k], &block[k]);
                let first = first.clone();
                let terms: Vec<Var> = at[k].terms().iter().map(|&(var, _)| var).collect();
                for var in terms {
                    self.space.learn(var, at_most(&threads, &number(1 << 31)));
                    self.space.learn(var, at_most(&first.plus(&block[k]), &threads));
                }
            }
            first.plus(&thread[k])
        });
        Grid { thread, at, block, grid, global }
    }

    /// Returns an extent as a form; one that is no form is any number.
    fn form(&mut self, expr: &Expr) -> Linear {
        if let Some(form) = self.known(expr) {
            return form;
        }
        let value =
            Constants::new(self.program, self.arguments).evaluate(expr).ok().and_then(|value| value.as_integer());
        match value {
            Some(value) => number(value),
            None => variable(self.space.fresh("extent", Role::Launch, -LARGEST, LARGEST)),
        }
    }

    fn known(&mut self, expr: &Expr) -> Option<Linear> {
        match &expr.kind {
            ExprKind::Int(n) => Some(number(*n)),
            ExprKind::Dim(i) => self.dims.get(*i as usize).cloned(),
            ExprKind::Local(id) => self.locals.get(id).cloned(),
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.known_or_constant(left)?, self.known_or_constant(right)?);
                Some(match op {
                    BinaryOp::Add => left.plus(&right),
                    BinaryOp::Sub => left.minus(&right),
                    BinaryOp::Mul => self.space.product(&left, &right),
                    BinaryOp::Div => self.space.quotient(&left, &right, false),
                    BinaryOp::Rem => {
                        self.in_range(&left);
                        self.in_range(&right);
                        let quotient = self.space.quotient(&left, &right, false);
                        left.minus(&self.space.product(&quotient, &right))
                    }
                    _ => return None,
                })
            }
            ExprKind::Builtin { builtin: Builtin::CeilDiv, args, .. } => {
                let [x, y] = &args[..] else { return None };
                let (x, y) = (self.operand(x)?, self.operand(y)?);
                if self.space.bounds(&x).0 < 0 || self.space.bounds(&y).0 < 0 {
                    return None;
                }
                Some(self.space.quotient_up(&x, &y))
            }
            ExprKind::Builtin { builtin: Builtin::Math(MathFn::Min), args, .. } => {
                let [x, y] = &args[..] else { return None };
                let (x, y) = (self.operand(x)?, self.operand(y)?);
                Some(self.space.least(&x, &y))
            }
            ExprKind::Builtin { builtin: Builtin::Math(MathFn::Max), args, .. } => {
                let [x, y] = &args[..] else { return None };
                let (x, y) = (self.operand(x)?, self.operand(y)?);
                Some(self.space.greatest(&x, &y))
            }
            ExprKind::Builtin { builtin: Builtin::Math(MathFn::Clamp), args, .. } => {
                let [x, low, high] = &args[..] else { return None };
                let (x, low, high) = (self.operand(x)?, self.operand(low)?, self.operand(high)?);
                let raised = self.space.greatest(&x, &low);
                Some(self.space.least(&raised, &high))
            }
            _ => None,
        }
    }

    /// Returns an operand of an operation that is computed in 32 bits.
    fn operand(&mut self, expr: &Expr) -> Option<Linear> {
        let form = self.known_or_constant(expr)?;
        self.in_range(&form);
        Some(form)
    }

    /// States that a part of an extent is computed without overflow.
    fn in_range(&mut self, form: &Linear) {
        let (low, high) = self.space.bounds(form);
        if low < -LARGEST - 1 || high > LARGEST {
            let facts = [at_most(&number(-LARGEST - 1), form), at_most(form, &number(LARGEST))];
            for &(var, _) in form.terms() {
                facts.iter().for_each(|fact| self.space.learn(var, fact.clone()));
            }
        }
    }

    fn known_or_constant(&mut self, expr: &Expr) -> Option<Linear> {
        self.known(expr).or_else(|| {
            let value = Constants::new(self.program, self.arguments).evaluate(expr).ok()?;
            value.as_integer().map(number)
        })
    }
}

/// Returns the number of launch parameters that a parameter by value takes.
pub fn leaves(program: &Program, arguments: &[Argument], ty: &Type) -> Result<u32, String> {
    let ty = match ty {
        Type::Param(i) => match arguments.get(*i as usize) {
            Some(Argument::Type(ty)) => ty,
            _ => return Err("a parameter without a type".into()),
        },
        ty => ty,
    };
    let layout = lower::layout(program, ty).map_err(|_| "a parameter without a layout")?;
    Ok(layout.leaves.len() as u32)
}

/// Whether an integer is computed as its form says: the operands of what is not a sum or a product are names of 32 bits.
fn is_plain(expr: &Expr) -> bool {
    let is_leaf = |expr: &Expr| {
        use ExprKind::*;
        matches!(expr.kind, Int(_) | Dim(_) | Local(_) | Const(_) | ConstParam(_))
    };
    let is_i32 = |expr: &Expr| expr.ty == Type::Scalar(Scalar::I32);
    let narrow = |expr: &Expr| is_i32(expr) && is_leaf(expr);
    match &expr.kind {
        ExprKind::Binary { op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul, left, right } => {
            is_plain(left) && is_plain(right)
        }
        ExprKind::Binary { left, right, .. } => is_i32(expr) && narrow(left) && narrow(right),
        ExprKind::Builtin { args, .. } => is_i32(expr) && args.iter().all(narrow),
        _ => matches!(&expr.ty, Type::Scalar(scalar) if scalar.is_int()) && is_leaf(expr),
    }
}

fn reads_global(module: &Module, axis: usize) -> bool {
    let reads = |kind: &IrKind| matches!(kind, IrKind::Id(Id3::Global, at) if axis == *at as usize);
    module.functions.get(module.kernel.body).is_some_and(|f| f.exprs.iter().any(|(_, expr)| reads(&expr.kind)))
}
