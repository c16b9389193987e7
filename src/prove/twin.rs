//! Compares what a launch writes with what the kernel's twin in `f64` writes ([`widen`]), in units in the last place.
//!
//! Input: a launch, both kernels, and the arrays that they left. Output: the element that is furthest from the twin's, if it is further than
//! a limit. A unit is the distance of the numbers of the element's type around the twin's: of `f32` 24 digits, of `f16` 11, of `bf16` 8.

use crate::base::aligned::AlignedBytes;
use crate::base::source::Span;
use crate::check::typed::{KernelId, Program};
use crate::check::widen;
use crate::compile::trial::{Argument, Trial};
use crate::ir::Prepared;
use crate::ir::def::{KernelParam, Layout, StmtKind};
use crate::ir::visit::each_stmt;
use crate::lang::scalar::{Scalar, Value, format};
use crate::lower::Instance;

/// An element that is too far from its twin.
pub(super) struct Gap {
    pub array: String,
    /// `y[3].pos.x`
    pub place: String,
    pub own: String,
    pub twin: String,
    pub ty: Scalar,
    /// How far it is; infinite if only one of the two is a number.
    pub ulps: f64,
    /// Numbers beyond the limit, of all that are written.
    pub beyond: u64,
    pub of: u64,
    /// Where the array is written.
    pub stores: Vec<Span>,
}

/// Lines that are named, at most.
const MAX_STORES: usize = 3;

/// Returns what a kernel has that no twin has, and where.
pub(super) fn obstacle(program: &Program, id: KernelId) -> Option<(Span, String)> {
    widen::survey_kernel(program, id).obstacle
}

/// Returns an instance's twin.
pub(super) fn instance(own: &Instance) -> Instance {
    Instance::new(own.kernel, own.arguments.iter().map(|argument| argument.widened()).collect())
}

/// The arrays of a launch, widened.
pub(super) struct Wide {
    arrays: Vec<Option<AlignedBytes>>,
}

impl Wide {
    /// `None`: there is not enough memory.
    pub fn of(trial: &Trial<'_>, own: &Prepared, twin: &Prepared) -> Option<Wide> {
        let widened = |(position, arg): (usize, &Argument<'_>)| match arg {
            Argument::Value(_) => Some(None),
            Argument::Array { bytes, .. } => {
                let (from, to) = (layout(own, position)?, layout(twin, position)?);
                Some(Some(converted(bytes, from, to)?))
            }
        };
        Some(Wide { arrays: trial.args.iter().enumerate().map(widened).collect::<Option<_>>()? })
    }

    /// Returns the twin of a launch.
    pub fn trial<'a>(&'a self, trial: &Trial<'a>, twin: &Prepared) -> Trial<'a> {
        let arg = |(position, (arg, wide)): (usize, (&Argument<'_>, &'a Option<AlignedBytes>))| match (arg, wide) {
            (Argument::Array { shape, writes, .. }, Some(wide)) => {
                Argument::Array { bytes: wide, shape: shape.clone(), writes: *writes }
            }
            (Argument::Array { shape, writes, .. }, None) => {
                Argument::Array { bytes: &[], shape: shape.clone(), writes: *writes }
            }
            (Argument::Value(lanes), _) => {
                let ty = match twin.module.kernel.params.get(position) {
                    Some(KernelParam::Value { ty, .. }) => Some(ty.scalar()),
                    _ => None,
                };
                Argument::Value(lanes.iter().map(|lane| lane.to_type(ty.unwrap_or(lane.ty))).collect())
            }
        };
        let args = trial.args.iter().zip(&self.arrays).enumerate().map(arg).collect();
        let (extents, control, declared, span) = (trial.extents, trial.control, trial.declared, trial.span);
        Trial { instance: instance(&trial.instance), extents, args, control, declared, span }
    }
}

/// Returns the layout of an array parameter's elements.
fn layout(prepared: &Prepared, position: usize) -> Option<&Layout> {
    let KernelParam::Array { memory, .. } = prepared.module.kernel.params.get(position)? else { return None };
    Some(&prepared.module.functions.get(prepared.module.kernel.body)?.memories.get(*memory)?.layout)
}

/// The scalars of an element: type, offset and path of each.
fn scalars(layout: &Layout) -> Vec<(Scalar, usize, String)> {
    let mut all = vec![];
    for leaf in &layout.leaves {
        let ty = leaf.ty.scalar();
        for lane in 0..usize::from(leaf.ty.lanes()) {
            let component = if leaf.ty.lanes() > 1 { [".x", ".y", ".z", ".w"][lane.min(3)] } else { "" };
            let path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
            all.push((ty, leaf.offset + lane * ty.size(), path + component));
        }
    }
    all
}

fn converted(bytes: &[u8], from: &Layout, to: &Layout) -> Option<AlignedBytes> {
    let count = bytes.len() / from.size.max(1);
    let mut wide = AlignedBytes::zeroed(count.checked_mul(to.size)?)?;
    let (narrow, parts) = (scalars(from), scalars(to));
    for (element, own) in bytes.chunks_exact(from.size.max(1)).zip(wide.chunks_exact_mut(to.size.max(1))) {
        for ((ty, at, _), (wide, to, _)) in narrow.iter().zip(&parts) {
            let value = Value::from_bytes(*ty, &element[*at..]).to_type(*wide);
            own[*to..*to + wide.size()].copy_from_slice(&value.bits.to_le_bytes()[..wide.size()]);
        }
    }
    Some(wide)
}

/// Returns the element that is furthest from its twin, if it is further than the limit. The arrays are by position.
pub(super) fn gap(
    trial: &Trial<'_>,
    (own, left): (&Prepared, &[Option<AlignedBytes>]),
    (twin, wide): (&Prepared, &[Option<AlignedBytes>]),
    limit: u32,
) -> Option<Gap> {
    let mut worst: Option<Gap> = None;
    let (mut beyond, mut of) = (0, 0);
    for (position, arg) in trial.args.iter().enumerate() {
        let (Argument::Array { shape, .. }, Some(a), Some(b)) = (arg, &left[position], &wide[position]) else {
            continue;
        };
        let (Some(narrow), Some(to)) = (layout(own, position), layout(twin, position)) else { continue };
        let (parts, others) = (scalars(narrow), scalars(to));
        let elements = a.chunks_exact(narrow.size.max(1)).zip(b.chunks_exact(to.size.max(1)));
        for (element, (x, y)) in elements.enumerate() {
            for ((ty, at, path), (wide, to, _)) in parts.iter().zip(&others).filter(|((ty, ..), _)| ty.is_float()) {
                let (x, y) = (Value::from_bytes(*ty, &x[*at..]), Value::from_bytes(*wide, &y[*to..]));
                let ulps = distance(x.as_f64(), y.as_f64(), *ty);
                of += 1;
                beyond += u64::from(ulps > f64::from(limit));
                if ulps > worst.as_ref().map_or(f64::from(limit), |worst| worst.ulps) {
                    let (array, stores) = written(own, position);
                    let place = format!("{array}[{}]{path}", index(element, shape));
                    let (own, twin) = (format::plain(x), format::plain(y));
                    worst = Some(Gap { array, place, own, twin, ty: *ty, ulps, beyond: 0, of: 0, stores });
                }
            }
        }
    }
    worst.map(|worst| Gap { beyond, of, ..worst })
}

/// Returns the name of an array parameter, and where it is written.
fn written(prepared: &Prepared, position: usize) -> (String, Vec<Span>) {
    let Some(KernelParam::Array { name, memory, .. }) = prepared.module.kernel.params.get(position) else {
        return (String::new(), vec![]);
    };
    let mut stores = vec![];
    if let Some(body) = prepared.module.functions.get(prepared.module.kernel.body) {
        each_stmt(&body.body, &mut |stmt| {
            if let StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } = &stmt.kind
                && place.memory == *memory
            {
                let (span, _) = crate::ir::calls::resolve(&body.calls, stmt.span);
                if !stores.contains(&span) && stores.len() < MAX_STORES {
                    stores.push(span);
                }
            }
        });
    }
    (name.clone(), stores)
}

fn index(element: usize, shape: &[u32]) -> String {
    let mut rest = element;
    let mut all: Vec<String> = vec![];
    for &extent in shape.iter().rev() {
        all.insert(0, (rest % (extent as usize).max(1)).to_string());
        rest /= (extent as usize).max(1);
    }
    all.join(", ")
}

/// Returns how far a number of a type is from a reference, in units in the last place of the type there. What the type cannot hold
/// is infinite in it.
fn distance(own: f64, reference: f64, ty: Scalar) -> f64 {
    let (digits, least, most) = match ty {
        Scalar::F16 => (11, -14, 15),
        Scalar::Bf16 => (8, -126, 127),
        Scalar::F32 => (24, -126, 127),
        _ => (53, -1022, 1023),
    };
    // Half a unit beyond the largest number begins what is rounded to infinity.
    let end = 2f64.powi(most) * (2.0 - 2f64.powi(-digits));
    let rounded = if reference.abs() >= end { f64::INFINITY.copysign(reference) } else { reference };
    if own == rounded || own.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    if !own.is_finite() || !rounded.is_finite() {
        return f64::INFINITY;
    }
    let exponent = if rounded == 0.0 { least } else { exponent(rounded).clamp(least, most) };
    // A unit of the smallest `f64`s is smaller than any number.
    (own - rounded).abs() / 2f64.powi(exponent - digits + 1).max(f64::MIN_POSITIVE)
}

/// Returns the exponent of a number that is not zero: `e` of a number from `2^e` to `2^(e + 1)`.
fn exponent(number: f64) -> i32 {
    let bits = number.abs().to_bits();
    match (bits >> 52) as i32 {
        0 => 63 - bits.leading_zeros() as i32 - 1074,
        biased => biased - 1023,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_are_those_of_the_type() {
        let f32 = |own: f32, reference: f64| distance(f64::from(own), reference, Scalar::F32);
        assert_eq!(f32(1.0, 1.0), 0.0);
        assert_eq!(f32(1.0 + f32::EPSILON, 1.0), 1.0);
        assert_eq!(f32(1.0, 1.0 + f64::from(f32::EPSILON) / 2.0), 0.5);
        assert_eq!(f32(2.0 + 2.0 * f32::EPSILON, 2.0), 1.0);
        assert_eq!(f32(f32::from_bits(3), 0.0), 3.0, "denormals");
        assert_eq!(f32(f32::NAN, f64::NAN), 0.0);
        assert_eq!(f32(f32::NAN, 1.0), f64::INFINITY);
        assert_eq!(f32(f32::INFINITY, 1e39), 0.0, "the type cannot hold it");
        assert_eq!(f32(f32::MAX, 1e39), f64::INFINITY);
        assert_eq!(f32(f32::MAX, f64::from(f32::MAX)), 0.0);
        assert_eq!(distance(1.0, 1.0 + 1.0 / 1024.0, Scalar::F16), 1.0);
        assert_eq!(distance(1.0, 1.0 + 1.0 / 128.0, Scalar::Bf16), 1.0);
    }
}
