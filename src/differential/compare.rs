//! Compares the arrays and the printed output of a launch on two devices. Unequal arrays can still be correct. To find
//! out, they are compared with "witnesses": repeated executions on one device that differ only in permitted rounding.

use clk_ir::def::ElementLayout;
use clk_scalar::{Scalar, ScalarValue, format};

/// The first element that differs between two arrays, and the number of elements that differ.
#[derive(Debug)]
pub(crate) struct FirstDifference {
    pub element: usize,
    /// The path of the differing field of a struct, such as `.pos.x`; otherwise empty.
    pub field: String,
    pub values: [String; 2],
    pub differing: u64,
}

/// A scalar component of an array's elements: a scalar field, or one lane of a vector.
struct ScalarPart {
    ty: Scalar,
    /// Byte offset in the element.
    at: usize,
    field: String,
    slack: Option<Slack>,
}

impl ScalarPart {
    fn value(&self, element: &[u8]) -> ScalarValue {
        ScalarValue::from_bytes(self.ty, element.get(self.at..self.at + self.ty.size()).unwrap_or(&[]))
    }
}

/// Returns the scalar components of the elements of array `a`. If small differences are allowed (`approximate`), they
/// have a tolerance.
fn parts(a: &[u8], layout: &ElementLayout, approximate: bool) -> Vec<ScalarPart> {
    let size = layout.size.max(1);
    let mut parts = Vec::new();
    for leaf in &layout.leaves {
        let ty = leaf.ty.scalar();
        let slack = approximate.then(|| slack(a, size, leaf.offset, leaf.ty.lanes(), ty));
        for lane in 0..usize::from(leaf.ty.lanes()) {
            let component = if leaf.ty.lanes() > 1 { [".x", ".y", ".z", ".w"][lane.min(3)] } else { "" };
            let path = if leaf.path.is_empty() { String::new() } else { format!(".{}", leaf.path) };
            parts.push(ScalarPart { ty, at: leaf.offset + lane * ty.size(), field: path + component, slack });
        }
    }
    parts
}

/// Returns the first element that differs, and the number of elements that differ; `None` if all are equal.
pub(crate) fn compare(a: &[u8], b: &[u8], layout: &ElementLayout, approximate: bool) -> Option<FirstDifference> {
    let size = layout.size.max(1);
    let parts = parts(a, layout, approximate);
    let mut difference: Option<FirstDifference> = None;
    for (element, (a, b)) in a.chunks_exact(size).zip(b.chunks_exact(size)).enumerate() {
        if a == b {
            continue;
        }
        let Some(part) = parts.iter().find(|part| !same(part.value(a), part.value(b), part.slack)) else { continue };
        let values = || [a, b].map(|element| format::plain(part.value(element)));
        let first = difference.get_or_insert_with(|| FirstDifference {
            element,
            field: part.field.clone(),
            values: values(),
            differing: 0,
        });
        first.differing += 1;
    }
    difference
}

/// The two devices' results may differ by this multiple of the spread among the witnesses. The spread of few witnesses
/// underestimates the permitted errors of another device.
const SPREAD: f64 = 8.0;

/// Number of further elements that may differ for each element in which the witnesses differ.
const STRAYS: u64 = 4;

/// Returns whether permitted rounding explains the difference between `a` and `b`: in each element, `b` differs from
/// `a` about as much as the witnesses do. A few elements may exceed that, up to the largest spread of any element.
pub(crate) fn is_explained(a: &[u8], b: &[u8], witnesses: &[&[u8]], layout: &ElementLayout) -> bool {
    let size = layout.size.max(1);
    parts(a, layout, true).iter().all(|part| {
        let values = |bytes: &'_ [u8], k: usize| part.value(bytes.get(k * size..(k + 1) * size).unwrap_or(&[]));
        let spread =
            |k: usize, own: ScalarValue| witnesses.iter().map(|w| distance(own, values(w, k))).fold(0.0, f64::max);
        let (mut shown, mut most) = (0u64, 0.0f64);
        for k in 0..a.len() / size {
            let own = values(a, k);
            shown += u64::from(witnesses.iter().any(|w| !same(own, values(w, k), part.slack)));
            most = most.max(spread(k, own));
        }
        let mut strays = 0u64;
        for k in 0..a.len() / size {
            let (own, other) = (values(a, k), values(b, k));
            if same(own, other, part.slack) || distance(own, other) <= SPREAD * spread(k, own) {
                continue;
            }
            strays += 1;
            if distance(own, other) > SPREAD * most || strays > STRAYS * shown {
                return false;
            }
        }
        true
    })
}

/// Returns the absolute difference of two values; infinity if exactly one of them is NaN.
fn distance(a: ScalarValue, b: ScalarValue) -> f64 {
    if a.bits == b.bits {
        return 0.0;
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    match (x.is_nan(), y.is_nan()) {
        (true, true) => 0.0,
        (false, false) if x == y => 0.0,
        (false, false) => (x - y).abs(),
        _ => f64::INFINITY,
    }
}

/// The tolerance for values of a kernel with inexact operations. `relative` is a fraction of the larger value.
/// `absolute` depends on the largest value of the array, because a value may be the small difference of two large ones.
#[derive(Clone, Copy)]
struct Slack {
    relative: f64,
    absolute: f64,
}

fn slack(bytes: &[u8], size: usize, offset: usize, lanes: u8, ty: Scalar) -> Slack {
    let relative = match ty {
        Scalar::F64 => 1e-10,
        Scalar::F32 => 1e-4,
        Scalar::F16 => 1e-2,
        Scalar::Bf16 => 5e-2,
        // No tolerance for integers: an integer that depends on a rounded float may differ only if the witnesses differ
        // too.
        _ => return Slack { relative: 0.0, absolute: 0.0 },
    };
    let values = bytes.chunks_exact(size).filter_map(|e| e.get(offset..offset + ty.size() * usize::from(lanes)));
    let values = values.flat_map(|e| e.chunks_exact(ty.size()).map(|v| ScalarValue::from_bytes(ty, v).as_f64().abs()));
    Slack { relative, absolute: relative * 0.1 * values.filter(|v| v.is_finite()).fold(0.0, f64::max) }
}

fn same(a: ScalarValue, b: ScalarValue, slack: Option<Slack>) -> bool {
    if a.bits == b.bits {
        return true;
    }
    if a.ty == Scalar::Bool {
        return false;
    }
    let (x, y) = (a.as_f64(), b.as_f64());
    // NaNs with different payloads are equal.
    if a.ty.is_float() && x.is_nan() && y.is_nan() {
        return true;
    }
    slack.is_some_and(|s| (x - y).abs() <= s.absolute.max(s.relative * x.abs().max(y.abs())))
}

/// Returns the indices of the element at this row-major position.
pub(crate) fn unravel(mut position: usize, shape: &[u32]) -> Vec<u32> {
    let mut index = vec![0; shape.len()];
    for (place, &extent) in index.iter_mut().zip(shape).rev() {
        let extent = (extent as usize).max(1);
        *place = (position % extent) as u32;
        position /= extent;
    }
    index
}

/// Returns the first pair of lines that differ between two printed outputs. The lines are sorted first, because blocks
/// print in an unspecified order. With `approximate`, numbers in the lines may differ slightly.
pub(crate) fn different_lines(a: &str, b: &str, approximate: bool) -> Option<[String; 2]> {
    if a == b {
        return None;
    }
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
        lines.sort();
        lines
    };
    let (a, b) = (sorted(a), sorted(b));
    let shown = |line: Option<&String>| line.cloned().unwrap_or_else(|| "(nothing more)".into());
    let same = |k: usize| match (a.get(k), b.get(k)) {
        (Some(a), Some(b)) => a == b || (approximate && is_near(a, b)),
        _ => false,
    };
    (0..a.len().max(b.len())).find(|&k| !same(k)).map(|k| [shown(a.get(k)), shown(b.get(k))])
}

/// Returns whether two lines have the same words, except for numbers that are nearly equal.
fn is_near(a: &str, b: &str) -> bool {
    let words = |line: &str| -> Vec<String> {
        line.split(|c: char| c.is_whitespace() || "()[]{},;:=".contains(c)).map(str::to_string).collect()
    };
    let (a, b) = (words(a), words(b));
    a.len() == b.len()
        && a.iter().zip(&b).all(|(a, b)| {
            a == b
                || match (a.parse::<f64>(), b.parse::<f64>()) {
                    (Ok(x), Ok(y)) => (x - y).abs() <= 1e-4 * x.abs().max(y.abs()),
                    _ => false,
                }
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clk_ir::def::Ty;

    fn bytes(values: &[f32]) -> Vec<u8> {
        values.iter().flat_map(|v| v.to_le_bytes()).collect()
    }

    #[test]
    fn differences_are_counted_and_named() {
        let layout = ElementLayout::plain(Ty::Vector(Scalar::F32, 2));
        let a = bytes(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let b = bytes(&[1.0, 2.0, 3.0, 4.5, 7.0, 6.0]);
        assert!(compare(&a, &a, &layout, false).is_none());
        let difference = compare(&a, &b, &layout, false).expect("they differ");
        assert_eq!((difference.element, difference.field.as_str(), difference.differing), (1, ".y", 2));
        assert_eq!(difference.values, ["4.0", "4.5"]);
        assert_eq!(unravel(5, &[2, 3]), [1, 2]);
    }

    #[test]
    fn tolerance_is_small_and_only_for_kernels_that_need_it() {
        let layout = ElementLayout::plain(Ty::Scalar(Scalar::F32));
        let (a, near, far) = (bytes(&[1.0, 1e-8]), bytes(&[1.00001, 1e-7]), bytes(&[1.01, 1e-8]));
        assert!(compare(&a, &near, &layout, false).is_some());
        assert!(compare(&a, &near, &layout, true).is_none());
        assert!(compare(&a, &far, &layout, true).is_some());
        let (nan, other_nan) = (bytes(&[f32::NAN, 0.0]), bytes(&[f32::from_bits(0xffff_ffff), 0.0]));
        assert!(compare(&nan, &other_nan, &layout, false).is_none());
        assert!(compare(&nan, &a, &layout, true).is_some());
    }

    #[test]
    fn witnesses_excuse_only_their_own_differences() {
        let layout = ElementLayout::plain(Ty::Scalar(Scalar::F32));
        let own = bytes(&[1.0, 10.0, 5.0, 7.0]);
        let moved = bytes(&[1.0, 10.1, 5.0, 7.0]);
        let explained = |other: &[f32]| is_explained(&own, &bytes(other), &[&moved], &layout);
        assert!(explained(&[1.0, 9.5, 5.0, 7.0]), "within eight times the spread");
        assert!(!explained(&[1.0, 8.0, 5.0, 7.0]), "far beyond it");
        assert!(explained(&[1.4, 10.0, 5.0, 7.0]), "one that the witness missed, no farther off than another");
        assert!(!explained(&[3.0, 10.0, 5.0, 7.0]), "farther than any");
        assert!(!is_explained(&own, &bytes(&[1.4, 10.0, 5.0, 7.0]), &[&own], &layout), "a witness that shows nothing");
        assert!(!explained(&[f32::NAN, 10.0, 5.0, 7.0]));
    }

    #[test]
    fn printed_lines_may_come_in_any_order() {
        assert_eq!(different_lines("a\nb\n", "b\na\n", false), None);
        assert_eq!(different_lines("a\n", "a\nb\n", false), Some(["(nothing more)".into(), "b".into()]));
        assert_eq!(different_lines("x = 1.00001\n", "x = 1.00002\n", true), None);
        assert!(different_lines("x = 1.00001\n", "x = 1.00002\n", false).is_some());
        assert!(different_lines("x = 1.1\n", "x = 1.2\n", true).is_some());
        assert!(different_lines("x = 1.0\n", "y = 1.0\n", true).is_some());
    }
}
