//! The reference that the results of devices are compared with: the stepper of [`clk_step`], which runs
//! DeviceIR one thread at a time in the simplest way possible.

use clk_ir::def::{ElementLayout, Leaf};
use clk_scalar::ScalarValue;

pub use clk_step::launch;

/// Returns whether two values are the same, where all NaNs are equal.
fn same(a: ScalarValue, b: ScalarValue) -> bool {
    a.ty == b.ty && (a.bits == b.bits || a.is_nan() && b.is_nan())
}

/// Returns the first difference between two arrays: the element, its leaf (scalar or vector field), and both values.
/// Padding is ignored.
pub fn first_difference(layout: &ElementLayout, a: &[u8], b: &[u8]) -> Option<String> {
    if a.len() != b.len() {
        return Some(format!("{} and {} bytes", a.len(), b.len()));
    }
    let values = |bytes: &[u8], at: usize, leaf: &Leaf| -> Vec<ScalarValue> {
        let bytes = &bytes[at * layout.size + leaf.offset..][..leaf.ty.size()];
        let scalar = leaf.ty.scalar();
        bytes.chunks(scalar.size()).map(|value| ScalarValue::from_bytes(scalar, value)).collect()
    };
    for at in 0..a.len() / layout.size.max(1) {
        for leaf in &layout.leaves {
            let (a, b) = (values(a, at, leaf), values(b, at, leaf));
            if !a.iter().zip(&b).all(|(&a, &b)| same(a, b)) {
                let show =
                    |values: &[ScalarValue]| values.iter().map(ScalarValue::to_string).collect::<Vec<_>>().join(", ");
                return Some(format!("element {at}, leaf `{}`: {} and {}", leaf.path, show(&a), show(&b)));
            }
        }
    }
    None
}
