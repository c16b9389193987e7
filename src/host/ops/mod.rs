//! Operations on values: elementwise with broadcasting, reductions, rearrangements, new arrays.

use crate::host::array::{Array, Element, SliceSpec};
use crate::host::problem::{Outcome, Problem};
use crate::host::value::Value;
use crate::lang::ops::{BinaryOp, MathFn, UnaryOp};
use crate::lang::scalar::Scalar;

fn unready<T>() -> Outcome<T> {
    Err(Problem::new("E0505", "this operation is not ready yet"))
}

/// `left op right`, all but the short-circuit ones on non-bools (`&&`, `||` on bools and bool arrays are elementwise).
pub fn binary(_op: BinaryOp, _left: &Value, _right: &Value) -> Outcome<Value> {
    unready()
}
pub fn unary(_op: UnaryOp, _value: &Value) -> Outcome<Value> {
    unready()
}
/// Elementwise functions; `min`/`max` of one array are `reduce`.
pub fn math(_function: MathFn, _args: &[Value]) -> Outcome<Value> {
    unready()
}
pub fn select(_cond: &Value, _then: &Value, _other: &Value) -> Outcome<Value> {
    unready()
}
pub fn ceil_div(_x: &Value, _y: &Value) -> Outcome<Value> {
    unready()
}
pub fn dot(_a: &Value, _b: &Value) -> Outcome<Value> {
    unready()
}
/// `f32(x)`
pub fn convert(_to: Scalar, _value: &Value) -> Outcome<Value> {
    unready()
}
pub fn bitcast(_to: Scalar, _value: &Value) -> Outcome<Value> {
    unready()
}
/// `f32x3(a, b, c)`: parts are scalars or vectors that add up to `lanes`, or one scalar for all.
pub fn compose(_ty: Scalar, _lanes: u8, _parts: &[Value]) -> Outcome<Value> {
    unready()
}
/// `.xyz` of a vector or of an array of vectors.
pub fn swizzle(_value: &Value, _lanes: &[u8]) -> Outcome<Value> {
    unready()
}
/// A field by position, of a record, a tuple, or an array of them (then an array of the field).
pub fn field(_value: &Value, _field: usize) -> Outcome<Value> {
    unready()
}
/// A field by name: of a record, a timing, a table.
pub fn named_field(_value: &Value, _name: &str) -> Outcome<Value> {
    unready()
}
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduce {
    Sum,
    Prod,
    Mean,
    Min,
    Max,
    Argmin,
    Argmax,
    All,
    Any,
}
pub fn reduce(_how: Reduce, _value: &Value, _axis: Option<i64>) -> Outcome<Value> {
    unready()
}
pub fn close(_a: &Value, _b: &Value, _rtol: f64, _atol: f64) -> Outcome<Value> {
    unready()
}
pub fn cumsum(_x: &Value) -> Outcome<Value> {
    unready()
}
pub fn len(_x: &Value) -> Outcome<Value> {
    unready()
}
pub fn shape(_x: &Value, _axis: Option<i64>) -> Outcome<Value> {
    unready()
}
pub fn reshape(_x: &Value, _dims: &[i64]) -> Outcome<Value> {
    unready()
}
pub fn transpose(_x: &Value) -> Outcome<Value> {
    unready()
}
pub fn concat(_parts: &[Value], _axis: i64) -> Outcome<Value> {
    unready()
}
pub fn stack(_parts: &[Value]) -> Outcome<Value> {
    unready()
}
pub fn sort(_x: &Value) -> Outcome<Value> {
    unready()
}
pub fn flip(_x: &Value, _axis: i64) -> Outcome<Value> {
    unready()
}
/// An array literal: elements of one type, nested arrays make more dimensions. `element` settles an empty one's type.
pub fn literal(_items: &[Value], _element: Option<&Element>) -> Outcome<Value> {
    unready()
}
pub fn linspace(_start: &Value, _stop: &Value, _n: i64) -> Outcome<Value> {
    unready()
}
/// `args` as in the call: stop; start, stop; start, stop, step.
pub fn arange(_args: &[Value]) -> Outcome<Value> {
    unready()
}
pub fn zeros(_dims: &[i64], _ty: Scalar) -> Outcome<Value> {
    unready()
}
pub fn ones(_dims: &[i64], _ty: Scalar) -> Outcome<Value> {
    unready()
}
pub fn full(_dims: &[i64], _value: &Value) -> Outcome<Value> {
    unready()
}
pub fn eye(_n: i64, _ty: Scalar) -> Outcome<Value> {
    unready()
}
pub fn random(_dims: &[i64], _seed: u64, _ty: Scalar) -> Outcome<Value> {
    unready()
}
pub fn random_normal(_dims: &[i64], _seed: u64, _ty: Scalar) -> Outcome<Value> {
    unready()
}
pub fn random_int(_low: &Value, _high: &Value, _dims: &[i64], _seed: u64) -> Outcome<Value> {
    unready()
}
/// The number that a text spells.
pub fn parse(_ty: Scalar, _text: &str) -> Outcome<Value> {
    unready()
}
/// `a[i, j]`, `a[0..4, ..]`; of strings too. Fewer specs than axes take the rest whole.
pub fn index(_value: &Value, _specs: &[SliceSpec]) -> Outcome<Value> {
    unready()
}
/// `a[i, j] = value`, `a[0..4, ..] = value` with broadcasting.
pub fn assign(_array: &mut Array, _specs: &[SliceSpec], _value: &Value) -> Outcome<()> {
    unready()
}
