//! Compares the floats that a launch writes with the results of its `f64` shadow ([`promote_f64`]), in units in the
//! last place (ULP).
//!
//! Input: a launch, both kernels, and the resulting arrays. Output: the element with the largest deviation, if it
//! exceeds a limit. One ULP is the distance between adjacent numbers of the element's type near the shadow value: `f32`
//! has 24 binary digits, `f16` 11, `bf16` 8.

use clk_base::aligned::AlignedBytes;
use clk_base::source::Span;
use clk_check::promote_f64;
use clk_check::typed::{KernelId, Program};
use clk_compile::trials::{TrialArgument, TrialLaunch};
use clk_ir::PreparedKernel;
use clk_ir::def::{ElementLayout, KernelParam, StmtKind};
use clk_ir::visit::each_stmt;
use clk_lower::Instance;
use clk_scalar::{Scalar, ScalarValue, format};

/// An element that deviates too far from its shadow.
pub(super) struct ShadowDeviation {
    pub array: String,
    /// The text of the element, such as `y[3].pos.x`.
    pub place: String,
    pub own: String,
    pub shadow: String,
    pub ty: Scalar,
    /// The deviation in ULP; infinite if only one of the two values is a finite number.
    pub ulps: f64,
    /// The number of values whose deviation exceeds the limit.
    pub exceeding: u64,
    pub compared: u64,
    /// The statements that write the array.
    pub stores: Vec<Span>,
}

/// The maximum number of statements in `ShadowDeviation::stores`.
const MAX_STORES: usize = 3;

/// Returns the location and description of a construct that makes an `f64` shadow of the kernel impossible, if there is
/// one.
pub(super) fn unsupported_construct(program: &Program, id: KernelId) -> Option<(Span, String)> {
    promote_f64::survey_kernel(program, id).obstacle
}

/// Returns the `f64` shadow of an instance.
pub(super) fn shadow_instance(own: &Instance) -> Instance {
    Instance::new(own.kernel, own.arguments.iter().map(|argument| argument.widened()).collect())
}

/// The arrays of a launch, converted to `f64`.
pub(super) struct WidenedArrays {
    arrays: Vec<Option<AlignedBytes>>,
}

impl WidenedArrays {
    /// Converts the arrays of a launch. `None` if there is not enough memory.
    pub fn of(trial: &TrialLaunch<'_>, own: &PreparedKernel, shadow: &PreparedKernel) -> Option<WidenedArrays> {
        let widen_argument = |(position, arg): (usize, &TrialArgument<'_>)| match arg {
            TrialArgument::Value(_) => Some(None),
            TrialArgument::Array { bytes, .. } => {
                let (from, to) = (array_layout(own, position)?, array_layout(shadow, position)?);
                Some(Some(convert_elements(bytes, from, to)?))
            }
        };
        Some(WidenedArrays { arrays: trial.args.iter().enumerate().map(widen_argument).collect::<Option<_>>()? })
    }

    /// Returns the launch of the shadow kernel with these arrays.
    pub fn trial<'a>(&'a self, trial: &TrialLaunch<'a>, shadow: &PreparedKernel) -> TrialLaunch<'a> {
        let arg = |(position, (arg, wide)): (usize, (&TrialArgument<'_>, &'a Option<AlignedBytes>))| match (arg, wide) {
            (TrialArgument::Array { shape, writes, .. }, Some(wide)) => {
                TrialArgument::Array { bytes: wide, shape: shape.clone(), writes: *writes }
            }
            (TrialArgument::Array { shape, writes, .. }, None) => {
                TrialArgument::Array { bytes: &[], shape: shape.clone(), writes: *writes }
            }
            (TrialArgument::Value(lanes), _) => {
                let ty = match shadow.module.kernel.params.get(position) {
                    Some(KernelParam::Value { ty, .. }) => Some(ty.scalar()),
                    _ => None,
                };
                TrialArgument::Value(lanes.iter().map(|lane| lane.to_type(ty.unwrap_or(lane.ty))).collect())
            }
        };
        let args = trial.args.iter().zip(&self.arrays).enumerate().map(arg).collect();
        let (extents, control, declared, span) = (trial.extents, trial.control, trial.declared, trial.span);
        TrialLaunch { instance: shadow_instance(&trial.instance), extents, args, control, declared, span }
    }
}

/// Returns the element layout of an array parameter.
fn array_layout(prepared: &PreparedKernel, position: usize) -> Option<&ElementLayout> {
    let KernelParam::Array { memory, .. } = prepared.module.kernel.params.get(position)? else { return None };
    Some(&prepared.module.functions.get(prepared.module.kernel.body)?.memories.get(*memory)?.layout)
}

/// Returns the type, offset and path of each scalar of an element.
fn element_scalars(layout: &ElementLayout) -> Vec<(Scalar, usize, String)> {
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

fn convert_elements(bytes: &[u8], from: &ElementLayout, to: &ElementLayout) -> Option<AlignedBytes> {
    let count = bytes.len() / from.size.max(1);
    let mut wide = AlignedBytes::zeroed(count.checked_mul(to.size)?)?;
    let (narrow, parts) = (element_scalars(from), element_scalars(to));
    for (element, own) in bytes.chunks_exact(from.size.max(1)).zip(wide.chunks_exact_mut(to.size.max(1))) {
        for ((ty, at, _), (wide, to, _)) in narrow.iter().zip(&parts) {
            let value = ScalarValue::from_bytes(*ty, &element[*at..]).to_type(*wide);
            own[*to..*to + wide.size()].copy_from_slice(&value.bits.to_le_bytes()[..wide.size()]);
        }
    }
    Some(wide)
}

/// Returns the element with the largest deviation, if it exceeds the limit. The arrays are indexed by parameter
/// position.
pub(super) fn max_deviation(
    trial: &TrialLaunch<'_>,
    own: &PreparedKernel,
    own_arrays: &[Option<AlignedBytes>],
    shadow: &PreparedKernel,
    shadow_arrays: &[Option<AlignedBytes>],
    limit: u32,
) -> Option<ShadowDeviation> {
    let mut worst: Option<ShadowDeviation> = None;
    let (mut exceeding, mut compared) = (0, 0);
    for (position, arg) in trial.args.iter().enumerate() {
        let (TrialArgument::Array { shape, .. }, Some(a), Some(b)) =
            (arg, &own_arrays[position], &shadow_arrays[position])
        else {
            continue;
        };
        let (Some(narrow), Some(to)) = (array_layout(own, position), array_layout(shadow, position)) else { continue };
        let (parts, others) = (element_scalars(narrow), element_scalars(to));
        let elements = a.chunks_exact(narrow.size.max(1)).zip(b.chunks_exact(to.size.max(1)));
        for (element, (x, y)) in elements.enumerate() {
            for ((ty, at, path), (wide, to, _)) in parts.iter().zip(&others).filter(|((ty, ..), _)| ty.is_float()) {
                let (x, y) = (ScalarValue::from_bytes(*ty, &x[*at..]), ScalarValue::from_bytes(*wide, &y[*to..]));
                let ulps = distance_in_ulps(x.as_f64(), y.as_f64(), *ty);
                compared += 1;
                exceeding += u64::from(ulps > f64::from(limit));
                if ulps > worst.as_ref().map_or(f64::from(limit), |worst| worst.ulps) {
                    let (array, stores) = array_stores(own, position);
                    let place = format!("{array}[{}]{path}", index_text(element, shape));
                    let (own, shadow) = (format::plain(x), format::plain(y));
                    worst = Some(ShadowDeviation {
                        array,
                        place,
                        own,
                        shadow,
                        ty: *ty,
                        ulps,
                        exceeding: 0,
                        compared: 0,
                        stores,
                    });
                }
            }
        }
    }
    worst.map(|worst| ShadowDeviation { exceeding, compared, ..worst })
}

/// Returns the name of an array parameter, and the statements that write it.
fn array_stores(prepared: &PreparedKernel, position: usize) -> (String, Vec<Span>) {
    let Some(KernelParam::Array { name, memory, .. }) = prepared.module.kernel.params.get(position) else {
        return (String::new(), vec![]);
    };
    let mut stores = vec![];
    if let Some(body) = prepared.module.functions.get(prepared.module.kernel.body) {
        each_stmt(&body.body, &mut |stmt| {
            if let StmtKind::Store { place, .. } | StmtKind::Atomic { place, .. } = &stmt.kind
                && place.memory == *memory
            {
                let (span, _) = clk_ir::inlined_calls::resolve_span(&body.calls, stmt.span);
                if !stores.contains(&span) && stores.len() < MAX_STORES {
                    stores.push(span);
                }
            }
        });
    }
    (name.clone(), stores)
}

fn index_text(element: usize, shape: &[u32]) -> String {
    let mut rest = element;
    let mut all: Vec<String> = vec![];
    for &extent in shape.iter().rev() {
        all.insert(0, (rest % (extent as usize).max(1)).to_string());
        rest /= (extent as usize).max(1);
    }
    all.join(", ")
}

/// Returns the distance of a number from a reference, in units in the last place (of the type `ty`) of the reference. A
/// reference beyond the range of the type is treated as infinite.
fn distance_in_ulps(own: f64, reference: f64, ty: Scalar) -> f64 {
    let (digits, least, most) = match ty {
        Scalar::F16 => (11, -14, 15),
        Scalar::Bf16 => (8, -126, 127),
        Scalar::F32 => (24, -126, 127),
        _ => (53, -1022, 1023),
    };
    // Numbers that exceed the largest finite number by at least half a unit are rounded to infinity.
    let end = 2f64.powi(most) * (2.0 - 2f64.powi(-digits));
    let rounded = if reference.abs() >= end { f64::INFINITY.copysign(reference) } else { reference };
    if own == rounded || own.is_nan() && rounded.is_nan() {
        return 0.0;
    }
    if !own.is_finite() || !rounded.is_finite() {
        return f64::INFINITY;
    }
    let exponent = if rounded == 0.0 { least } else { exponent(rounded).clamp(least, most) };
    // For the smallest `f64` numbers, a unit would underflow, so it is at least `MIN_POSITIVE`.
    (own - rounded).abs() / 2f64.powi(exponent - digits + 1).max(f64::MIN_POSITIVE)
}

/// Returns the binary exponent of a nonzero number: the `e` for which its magnitude is at least `2^e` and less than
/// `2^(e + 1)`.
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
    fn ulps_depend_on_the_type() {
        let f32 = |own: f32, reference: f64| distance_in_ulps(f64::from(own), reference, Scalar::F32);
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
        assert_eq!(distance_in_ulps(1.0, 1.0 + 1.0 / 1024.0, Scalar::F16), 1.0);
        assert_eq!(distance_in_ulps(1.0, 1.0 + 1.0 / 128.0, Scalar::Bf16), 1.0);
    }
}
