//! Launch sizes for replays of kernels whose sizes are parameters, as in CUDA files. Generic sizes rarely satisfy
//! assumptions such as `X_LEN >= h * w, block_x == 256`, so the sizes are adjusted to them.

use rustc_hash::FxHashMap;

use super::replay::ReplaySizes;
use clk_base::linear::AffineForm;
use clk_check::typed::{AssumeKind, Expr, ExprKind, Kernel, LocalId, Program, Type};
use clk_compile::symbolic_launch::{SizedLaunch, leaf_count, leaf_position};
use clk_ir::footprint::constant;
use clk_lower::Instance;
use clk_scalar::ops::BinaryOp;

/// The block and the grid along each axis, the first of the other parameters, and the difference between two of them.
/// Blocks are only partly used.
const UNEVEN: [(i128, i128, i128, i128); 5] =
    [(4, 3, 3, 2), (4, 3, 11, -3), (32, 2, 37, 2), (1024, 2, 300, 2), (8, 2, 64, 2)];

/// Returns sizes in which parameters differ, so that a wrong order of indices shows.
pub(super) fn uneven_sizes(launch: &SizedLaunch) -> Vec<ReplaySizes> {
    let (block, grid) = launch.space.split_at(launch.space.len().min(3));
    let all = UNEVEN.iter().map(|&(threads, blocks, first, step)| {
        let mut scalars = FxHashMap::default();
        let mut next = first;
        for (position, form) in &launch.scalars {
            let value = match constant(form) {
                Some(value) => value,
                None if block.contains(form) => threads,
                None if grid.contains(form) => blocks,
                None => {
                    let value = next.max(1);
                    next += step;
                    value
                }
            };
            scalars.insert(*position, value);
        }
        let dims = launch.dims.iter().map(|form: &AffineForm| constant(form).unwrap_or(first)).collect();
        ReplaySizes { dims, scalars }
    });
    all.collect()
}

/// The usual extents of blocks along x and y.
const BLOCKS: [(i128, i128); 10] =
    [(256, 1), (32, 32), (16, 16), (32, 8), (128, 1), (1024, 1), (64, 1), (8, 8), (512, 1), (32, 4)];

/// The value of all parameters except the geometry in a second launch with each block: larger than most blocks.
const MANY: i128 = 100;

/// For each other block, returns a launch with these sizes and one with larger parameters. The list is empty unless the
/// block is a parameter of the launch.
pub(super) fn with_other_blocks(launch: &SizedLaunch, sizes: &ReplaySizes) -> Vec<Vec<ReplaySizes>> {
    let position = |axis: usize| {
        let extent = launch.space.get(axis).filter(|form| constant(form).is_none())?;
        launch.scalars.iter().find(|(_, form)| form == extent).map(|(position, _)| *position)
    };
    let (x, y) = (position(0), position(1));
    let mut all = vec![];
    for (width, height) in BLOCKS {
        let mut other = sizes.clone();
        for (position, extent) in [(x, width), (y, height)] {
            position.map(|position| other.scalars.insert(position, extent));
        }
        if other == *sizes {
            continue;
        }
        let mut larger = other.clone();
        for (position, form) in &launch.scalars {
            if constant(form).is_none() && !launch.space.contains(form) {
                larger.scalars.insert(*position, MANY);
            }
        }
        all.push(vec![other, larger]);
    }
    all
}

/// Adjusts sizes to the assumptions of a kernel. Lengths become as small as the assumptions allow. Returns for each
/// dimension whether an assumption limits it.
pub fn fit_sizes(program: &Program, kernel: &Kernel, instance: &Instance, sizes: &mut ReplaySizes) -> Vec<bool> {
    let mut positions = vec![];
    let mut position = 0;
    for param in &kernel.sig.params {
        let leaves = match &param.ty {
            Type::Array(_) => 1,
            ty => leaf_count(program, &instance.arguments, ty).unwrap_or(1),
        };
        positions.push(position);
        position += leaves;
    }
    let is_set = vec![false; kernel.sig.dims.len()];
    let mut fitted = SizeFitter { program, instance, positions, sizes, is_set };
    for assume in &kernel.assumes {
        if let AssumeKind::Condition(condition) = &assume.kind {
            fitted.suppose(condition);
        }
    }
    fitted.is_set
}

struct SizeFitter<'a> {
    program: &'a Program,
    instance: &'a Instance,
    /// The position of each parameter.
    positions: Vec<u32>,
    sizes: &'a mut ReplaySizes,
    /// The dimensions that an assumption has set.
    is_set: Vec<bool>,
}

impl SizeFitter<'_> {
    /// Returns the position of a scalar parameter, or of a field of a parameter.
    fn position(&self, expr: &Expr) -> Option<u32> {
        let first = |local: LocalId| self.positions.get(local.index()).copied();
        leaf_position(self.program, &self.instance.arguments, expr, &first)
    }

    fn suppose(&mut self, condition: &Expr) {
        let ExprKind::Binary { op, left, right } = &condition.kind else { return };
        if *op == BinaryOp::And {
            self.suppose(left);
            return self.suppose(right);
        }
        if *op == BinaryOp::Or {
            // The last alternative is a length; those before it are conditions under which it does not matter.
            return self.suppose(right);
        }
        let Some(value) = self.value(right) else { return };
        let mut place = left;
        while let ExprKind::Convert { expr, .. } = &place.kind {
            place = expr;
        }
        match &place.kind {
            ExprKind::Local(_) | ExprKind::Field { .. } => {
                let position = self.position(place);
                let Some(known) = position.and_then(|position| self.sizes.scalars.get_mut(&position)) else { return };
                *known = match op {
                    BinaryOp::Eq => value,
                    BinaryOp::Le => value.min(*known),
                    BinaryOp::Lt => (value - 1).min(*known),
                    BinaryOp::Ge => value.max(*known),
                    BinaryOp::Gt => (value + 1).max(*known),
                    _ => *known,
                };
            }
            ExprKind::Dim(dim) => {
                let least = match op {
                    BinaryOp::Eq | BinaryOp::Ge => value,
                    BinaryOp::Gt => value + 1,
                    _ => return,
                };
                let at = *dim as usize;
                if let (Some(length), Some(is_set)) = (self.sizes.dims.get_mut(at), self.is_set.get_mut(at)) {
                    *length = if *is_set { least.max(*length) } else { least.max(0) };
                    *is_set = true;
                }
            }
            _ => {}
        }
    }

    fn value(&self, expr: &Expr) -> Option<i128> {
        match &expr.kind {
            ExprKind::Int(value) => Some(*value),
            ExprKind::Local(_) | ExprKind::Field { .. } => self.sizes.scalars.get(&self.position(expr)?).copied(),
            ExprKind::Dim(dim) => self.sizes.dims.get(*dim as usize).copied(),
            ExprKind::Convert { expr, .. } => self.value(expr),
            ExprKind::Binary { op, left, right } => {
                let (left, right) = (self.value(left)?, self.value(right)?);
                match op {
                    BinaryOp::Add => left.checked_add(right),
                    BinaryOp::Sub => left.checked_sub(right),
                    BinaryOp::Mul => left.checked_mul(right),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}
