//! Tests operations on host values: their results, shapes and diagnostics.

use clk_host::array::{Array, ElementType, RecordLayout, SliceSpec};
use clk_host::ops::{self, ReduceKind};
use clk_host::problem::RuntimeError;
use clk_host::value::{HostValue, RecordValue, Vector};
use clk_scalar::ops::{BinaryOp, MathFn, TextFn, UnaryOp};
use clk_scalar::{Scalar, f16};
use clk_testing::exec;
use clk_testing::random::Random;
use smol_str::SmolStr;

fn array<T: clk_host::array::ArrayScalar>(items: &[T], shape: &[usize]) -> HostValue {
    HostValue::Array(Array::from_shaped(items, shape).unwrap())
}

fn row<T: clk_host::array::ArrayScalar>(items: &[T]) -> HostValue {
    array(items, &[items.len()])
}

#[track_caller]
fn op(symbol: &str, a: &HostValue, b: &HostValue) -> HostValue {
    try_op(symbol, a, b).unwrap()
}

fn try_op(symbol: &str, a: &HostValue, b: &HostValue) -> Result<HostValue, RuntimeError> {
    use BinaryOp::*;
    let all = [Add, Sub, Mul, Div, Rem, Pow, MatMul, BitAnd, BitOr, BitXor, Shl, Shr, Eq, Ne, Lt, Le, Gt, Ge, And, Or];
    ops::binary(exec(), all.into_iter().find(|op| op.symbol() == symbol).unwrap(), a, b)
}

#[test]
fn operators_broadcast() {
    let x = array(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]);
    assert_eq!(op("+", &x, &x), array(&[2.0f32, 4.0, 6.0, 8.0], &[2, 2]));
    assert_eq!(op("*", &x, &HostValue::Float(0.5)), array(&[0.5f32, 1.0, 1.5, 2.0], &[2, 2]));
    assert_eq!(op("-", &HostValue::Int(1), &x), array(&[0.0f32, -1.0, -2.0, -3.0], &[2, 2]));
    assert_eq!(op("+", &x, &row(&[10.0f32, 20.0])), array(&[11.0f32, 22.0, 13.0, 24.0], &[2, 2]));
    assert_eq!(op("+", &x, &array(&[10.0f32, 20.0], &[2, 1])), array(&[11.0f32, 12.0, 23.0, 24.0], &[2, 2]));
    assert_eq!(op("<", &x, &HostValue::f32(2.5)), array(&[true, true, false, false], &[2, 2]));
    assert_eq!(op("<<", &row(&[1u8, 3]), &HostValue::i32(1)), row(&[2u8, 6]));
    assert_eq!(op("&&", &row(&[true, false]), &HostValue::bool(true)), row(&[true, false]));
    assert_eq!(ops::unary(exec(), UnaryOp::Neg, &x).unwrap(), array(&[-1.0f32, -2.0, -3.0, -4.0], &[2, 2]));
    assert_eq!(ops::unary(exec(), UnaryOp::Not, &row(&[true, false])).unwrap(), row(&[false, true]));
}

#[test]
fn literals_adopt_the_other_operands_type() {
    assert_eq!(op("+", &HostValue::Int(1), &HostValue::Int(2)), HostValue::Int(3));
    assert_eq!(op("/", &HostValue::Int(1), &HostValue::Float(2.0)), HostValue::Float(0.5));
    assert_eq!(op("*", &HostValue::Int(2), &HostValue::of(1.5f64)), HostValue::of(3.0f64));
    assert_eq!(op("==", &HostValue::of(0.1f32), &HostValue::Float(0.1)), HostValue::bool(true));
    assert_eq!(try_op("+", &row(&[1u8]), &HostValue::Int(300)).unwrap_err().code, "E0504");
    assert_eq!(try_op("+", &row(&[1i32]), &HostValue::Float(0.5)).unwrap_err().code, "E0504");
    assert_eq!(HostValue::Int(1 << 40).with_default_type(), HostValue::of(1i64 << 40));
}

#[test]
fn vectors_are_elementwise() {
    let v = ops::compose(Scalar::F32, 3, &[HostValue::Float(1.0), HostValue::Int(2), HostValue::f32(3.0)]).unwrap();
    let twice = op("*", &v, &HostValue::Float(2.0));
    assert_eq!(twice, HostValue::Vector(Vector::new(Scalar::F32, [2.0f32, 4.0, 6.0].map(|x| x.to_bits().into()))));
    assert_eq!(ops::dot(exec(), &v, &v).unwrap(), HostValue::f32(14.0));
    assert_eq!(ops::swizzle(exec(), &v, &[2]).unwrap(), HostValue::f32(3.0));
    let many = HostValue::Array(Array::full(&v, &[2]).unwrap());
    assert_eq!(many.type_name(), "[f32x3; 2]");
    let sums = op("+", &many, &row(&[10.0f32, 20.0]));
    assert_eq!(ops::swizzle(exec(), &sums, &[1]).unwrap(), row(&[12.0f32, 22.0]));
    assert_eq!(ops::reduce(exec(), ReduceKind::Sum, &many, None).unwrap(), twice);
    assert_eq!(ops::named_field(exec(), &many, "zx").unwrap().type_name(), "[f32x2; 2]");
}

#[test]
fn errors_are_explained() {
    let (a, b) = (array(&[0i32; 6], &[2, 3]), array(&[0i32; 4], &[4]));
    let shapes = try_op("+", &a, &b).unwrap_err();
    assert_eq!((shapes.code, shapes.title.as_str()), ("E0501", "arrays of shape (2, 3) and (4,) do not fit together"));
    let types = try_op("+", &a, &row(&[1.0f32])).unwrap_err();
    assert_eq!(types.title, "`+` needs operands of one type, not i32 and f32");
    assert_eq!(types.label, "the operands are `[i32; 2, 3]` and `[f32; 1]`");
    let zero = try_op("/", &a, &array(&[1, 1, 1, 1, 0, 1], &[2, 3])).unwrap_err();
    assert_eq!((zero.code, zero.label.as_str()), ("E0506", "element [1, 1] of the right side is 0"));
    let text = try_op("+", &a, &HostValue::str("x")).unwrap_err();
    assert_eq!(text.title, "`+` does not take `[i32; 2, 3]` and `str`");
    let product = try_op("@", &array(&[0f32; 6], &[2, 3]), &array(&[0f32; 12], &[4, 3])).unwrap_err();
    assert_eq!(product.help, ["transpose the right side: `a @ transpose(b)`"]);
    let axis = ops::reduce(exec(), ReduceKind::Sum, &a, Some(2)).unwrap_err();
    assert_eq!((axis.code, axis.label.as_str()), ("E0507", "it has 2 axes, numbered from 0"));
    assert_eq!(ops::reduce(exec(), ReduceKind::Max, &array::<f32>(&[], &[0]), None).unwrap_err().code, "E0542");
    assert_eq!(ops::zeros(&[-1], Scalar::F32).unwrap_err().code, "E0541");
    assert_eq!(ops::zeros(&[1 << 40], Scalar::F32).unwrap_err().code, "E0509");
    assert_eq!(ops::zeros(&[1 << 30, 1 << 30, 1 << 30], Scalar::F32).unwrap_err().code, "E0509");
}

#[test]
fn functions_are_elementwise() {
    let x = row(&[1.0f32, 4.0, 9.0]);
    let math = |f, args: &[HostValue]| ops::math(exec(), f, args).unwrap();
    assert_eq!(math(MathFn::Sqrt, std::slice::from_ref(&x)), row(&[1.0f32, 2.0, 3.0]));
    assert_eq!(math(MathFn::Max, &[x.clone(), HostValue::Int(4)]), row(&[4.0f32, 4.0, 9.0]));
    assert_eq!(math(MathFn::Clamp, &[x.clone(), HostValue::Int(2), HostValue::Int(5)]), row(&[2.0f32, 4.0, 5.0]));
    assert_eq!(math(MathFn::Fma, &[x.clone(), HostValue::Int(2), HostValue::Int(1)]), row(&[3.0f32, 9.0, 19.0]));
    assert_eq!(math(MathFn::IsNan, &[row(&[f32::NAN, 1.0])]), row(&[true, false]));
    assert_eq!(math(MathFn::Popcount, &[row(&[7u8, 0])]), row(&[3u8, 0]));
    assert_eq!(math(MathFn::Sqrt, &[HostValue::Int(4)]), HostValue::f32(2.0));
    assert_eq!(math(MathFn::Min, &[HostValue::Int(4), HostValue::Int(3)]), HostValue::i32(3));
    assert_eq!(ops::math(exec(), MathFn::Sqrt, &[row(&[1i32])]).unwrap_err().title, "`sqrt` does not take `[i32; 1]`");
    assert_eq!(ops::ceil_div(exec(), &HostValue::i32(10), &HostValue::Int(3)).unwrap(), HostValue::i32(4));
    let cond = row(&[true, false, true]);
    assert_eq!(ops::select(exec(), &cond, &x, &HostValue::Int(0)).unwrap(), row(&[1.0f32, 0.0, 9.0]));
    assert_eq!(ops::select(exec(), &HostValue::bool(false), &x, &HostValue::Int(0)).unwrap(), array(&[0f32; 3], &[3]));
}

#[test]
fn conversions_follow_the_language() {
    assert_eq!(ops::convert(exec(), Scalar::I8, &row(&[1e9f32, -1.9, f32::NAN])).unwrap(), row(&[127i8, -1, 0]));
    assert_eq!(ops::convert(exec(), Scalar::U8, &row(&[-1i32, 256])).unwrap(), row(&[255u8, 0]));
    assert_eq!(ops::convert(exec(), Scalar::F16, &HostValue::Float(0.1)).unwrap(), HostValue::of(f16::from_f32(0.1)));
    assert_eq!(ops::convert(exec(), Scalar::U8, &HostValue::Int(257)).unwrap(), HostValue::of(1u8));
    assert_eq!(ops::bitcast(Scalar::U32, &row(&[1.0f32])).unwrap(), row(&[0x3f80_0000u32]));
    assert!(ops::bitcast(Scalar::U16, &row(&[1.0f32])).is_err());
    assert_eq!(ops::parse(Scalar::I32, &HostValue::str(" 42 ")).unwrap(), HostValue::i32(42));
    assert_eq!(ops::parse(Scalar::I32, &HostValue::str("4.5")).unwrap_err().help, ["parse it as `f64` and convert"]);
}

#[test]
fn reductions() {
    let x = array(&[3i32, 1, 2, 6, 5, 4], &[2, 3]);
    let all = |how| ops::reduce(exec(), how, &x, None).unwrap();
    assert_eq!(all(ReduceKind::Sum), HostValue::i32(21));
    assert_eq!(all(ReduceKind::Prod), HostValue::i32(720));
    assert_eq!((all(ReduceKind::Min), all(ReduceKind::Max)), (HostValue::i32(1), HostValue::i32(6)));
    assert_eq!((all(ReduceKind::Argmin), all(ReduceKind::Argmax)), (HostValue::i32(1), HostValue::i32(3)));
    let reduced = |how, axis| ops::reduce(exec(), how, &x, Some(axis)).unwrap();
    assert_eq!(reduced(ReduceKind::Sum, 0), row(&[9, 6, 6]));
    assert_eq!(reduced(ReduceKind::Sum, 1), row(&[6, 15]));
    assert_eq!(reduced(ReduceKind::Max, 0), row(&[6, 5, 4]));
    assert_eq!(reduced(ReduceKind::Argmin, 1), row(&[1, 2]));
    assert_eq!(ops::reduce(exec(), ReduceKind::Mean, &row(&[1.0f32, 2.0]), None).unwrap(), HostValue::f32(1.5));
    assert_eq!(ops::reduce(exec(), ReduceKind::Min, &row(&[f32::NAN, 2.0]), None).unwrap(), HostValue::f32(2.0));
    assert_eq!(ops::reduce(exec(), ReduceKind::All, &row(&[true, false]), None).unwrap(), HostValue::bool(false));
    assert_eq!(
        ops::reduce(exec(), ReduceKind::Any, &array(&[true, false], &[2, 1]), Some(1)).unwrap(),
        row(&[true, false])
    );
    assert_eq!(ops::cumsum(exec(), &row(&[1u8, 2, 255])).unwrap(), row(&[1u64, 3, 258]));
}

#[test]
fn sums_of_many_floats_are_exact_to_a_rounding() {
    let n = 1 << 20;
    let tenth = HostValue::Array(Array::full(&HostValue::f32(0.1), &[n]).unwrap());
    let exact = (f64::from(0.1f32) * n as f64) as f32;
    assert_eq!(ops::reduce(exec(), ReduceKind::Sum, &tenth, None).unwrap(), HostValue::f32(exact));
    let rows = ops::reshape(&tenth, &[-1, 4]).unwrap();
    let quarter = (f64::from(0.1f32) * (n / 4) as f64) as f32;
    assert_eq!(ops::reduce(exec(), ReduceKind::Sum, &rows, Some(0)).unwrap(), row(&[quarter; 4]));
}

#[test]
fn products_of_matrices() {
    for (m, k, n) in [(1, 1, 1), (2, 3, 4), (5, 7, 9), (17, 16, 15), (4, 0, 3), (0, 2, 2), (3, 2, 0)] {
        let a: Vec<i32> = (0..m * k).map(|i| (i * 7 % 11) as i32 - 5).collect();
        let b: Vec<i32> = (0..k * n).map(|i| (i * 5 % 13) as i32 - 6).collect();
        let term = |i: usize, j: usize, l: usize| a[i * k + l] * b[l * n + j];
        let expected: Vec<i32> = (0..m * n).map(|p| (0..k).map(|l| term(p / n, p % n, l)).sum()).collect();
        let (x, y) = (array(&a, &[m, k]), array(&b, &[k, n]));
        assert_eq!(op("@", &x, &y), array(&expected, &[m, n]), "{m} {k} {n}");
        let floats = |v: &HostValue| ops::convert(exec(), Scalar::F16, v).unwrap();
        assert_eq!(op("@", &floats(&x), &floats(&y)), floats(&array(&expected, &[m, n])));
    }
    let (m, v) = (array(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]), row(&[1.0f32, 10.0]));
    assert_eq!(op("@", &m, &v), row(&[21.0f32, 43.0]));
    assert_eq!(op("@", &v, &m), row(&[31.0f32, 42.0]));
    assert_eq!(op("@", &v, &v), HostValue::f32(101.0));
}

#[test]
fn rearranging() {
    let x = array(&[1i32, 2, 3, 4, 5, 6], &[2, 3]);
    assert_eq!(ops::reshape(&x, &[3, -1]).unwrap(), array(&[1, 2, 3, 4, 5, 6], &[3, 2]));
    assert_eq!(ops::reshape(&x, &[4, -1]).unwrap_err().code, "E0508");
    assert_eq!(ops::reshape(&x, &[5]).unwrap_err().label, "(2, 3) has 6 elements, (5,) has 5");
    assert_eq!(ops::transpose(exec(), &x, None).unwrap(), array(&[1, 4, 2, 5, 3, 6], &[3, 2]));
    let cube = array(&(0..24).collect::<Vec<i32>>(), &[2, 3, 4]);
    let turned = ops::transpose(exec(), &cube, None).unwrap();
    let HostValue::Array(turned) = &turned else { panic!() };
    assert_eq!(turned.shape(), [4, 3, 2]);
    assert_eq!(turned.get(&[3, 1, 0]).unwrap(), HostValue::i32(7));
    assert_eq!(
        ops::concat(exec(), &[x.clone(), x.clone()], 1).unwrap(),
        array(&[1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6], &[2, 6])
    );
    assert_eq!(ops::concat(exec(), &[x.clone(), row(&[1])], 0).unwrap_err().code, "E0501");
    assert_eq!(ops::stack(exec(), &[row(&[1, 2]), row(&[3, 4])], 0).unwrap(), array(&[1, 2, 3, 4], &[2, 2]));
    assert_eq!(ops::flip(exec(), &x, 1).unwrap(), array(&[3, 2, 1, 6, 5, 4], &[2, 3]));
    let HostValue::Array(sorted) =
        ops::sort(exec(), &row(&[f32::NAN, 2.0, -0.0, 0.0, -1.0]), ops::SortOrder::default()).unwrap()
    else {
        panic!()
    };
    let items = sorted.items::<f32>().unwrap();
    assert_eq!(&items[..4], [-1.0, -0.0, 0.0, 2.0]);
    assert!(items[1].is_sign_negative() && items[4].is_nan());
}

#[test]
fn new_arrays() {
    assert_eq!(ops::linspace(&HostValue::Int(0), &HostValue::Int(1), 5).unwrap(), row(&[0.0f32, 0.25, 0.5, 0.75, 1.0]));
    assert_eq!(ops::linspace(&HostValue::of(2.0f64), &HostValue::Int(1), 1).unwrap(), row(&[2.0f64]));
    assert_eq!(ops::arange(&[HostValue::Int(3)]).unwrap(), row(&[0i32, 1, 2]));
    assert_eq!(ops::arange(&[HostValue::Int(3), HostValue::Int(-2), HostValue::Int(-2)]).unwrap(), row(&[3i32, 1, -1]));
    assert_eq!(
        ops::arange(&[HostValue::Float(0.0), HostValue::Int(1), HostValue::Float(0.25)]).unwrap(),
        row(&[0f32, 0.25, 0.5, 0.75])
    );
    assert_eq!(ops::arange(&[HostValue::Int(1), HostValue::Int(2), HostValue::Int(0)]).unwrap_err().code, "E0540");
    assert_eq!(ops::eye(2, Scalar::I8).unwrap(), array(&[1i8, 0, 0, 1], &[2, 2]));
    assert_eq!(ops::full(&[2], &HostValue::Float(0.5)).unwrap(), row(&[0.5f32; 2]));
    let uniform = ops::random(&[2, 3], 7, Scalar::F32).unwrap();
    let longer = ops::random(&[7], 7, Scalar::F32).unwrap();
    let six = SliceSpec::Range { start: None, end: Some(6), inclusive: false, step: None };
    let first = ops::index(exec(), &longer, &[six]).unwrap();
    assert_eq!(ops::reshape(&first, &[2, 3]).unwrap(), uniform);
    let rolls = ops::random_int(&HostValue::Int(1), &HostValue::Int(7), &[1000], 1).unwrap();
    assert_eq!(ops::reduce(exec(), ReduceKind::Min, &rolls, None).unwrap(), HostValue::i32(1));
    assert_eq!(ops::reduce(exec(), ReduceKind::Max, &rolls, None).unwrap(), HostValue::i32(6));
}

#[test]
fn literals_of_arrays() {
    let mixed = ops::literal(exec(), &[HostValue::Int(1), HostValue::Float(2.5)], None).unwrap();
    assert_eq!(mixed, row(&[1.0f32, 2.5]));
    let typed = ops::literal(exec(), &[HostValue::Int(1), HostValue::of(2u8)], None).unwrap();
    assert_eq!(typed, row(&[1u8, 2]));
    assert_eq!(ops::literal(exec(), &[typed.clone(), typed], None).unwrap(), array(&[1u8, 2, 1, 2], &[2, 2]));
    assert!(ops::literal(exec(), &[row(&[1]), row(&[1, 2])], None).is_err());
    assert_eq!(ops::literal(exec(), &[], Some(&ElementType::Scalar(Scalar::F64))).unwrap(), row::<f64>(&[]));
}

#[test]
fn closeness() {
    let (a, b) = (row(&[1.0f32, f32::NAN, f32::INFINITY, 1.0]), row(&[1.000001f32, f32::NAN, f32::INFINITY, 1.1]));
    assert_eq!(ops::close(exec(), &a, &b, 1e-5, 1e-8).unwrap(), row(&[true, true, true, false]));
    assert_eq!(
        ops::close(exec(), &HostValue::f32(0.0), &HostValue::Float(1e-9), 1e-5, 1e-8).unwrap(),
        HostValue::bool(true)
    );
    assert_eq!(
        ops::close(exec(), &HostValue::f32(1e30), &HostValue::f32(f32::INFINITY), 1e-5, 1e-8).unwrap(),
        HostValue::bool(false)
    );
}

#[test]
fn arrays_of_structs() {
    let layout = RecordLayout::new(
        "Body",
        [("pos".into(), ElementType::Vector(Scalar::F32, 3)), ("mass".into(), ElementType::Scalar(Scalar::F32))],
    );
    let pos = ops::compose(Scalar::F32, 3, &[HostValue::Float(1.0)]).unwrap();
    let body = RecordValue { layout: layout.into(), fields: vec![pos.clone(), HostValue::f32(2.0)] };
    let HostValue::Array(mut bodies) =
        ops::literal(exec(), &[HostValue::Record(body.clone()), HostValue::Record(body)], None).unwrap()
    else {
        panic!()
    };
    assert_eq!(bodies.type_name(), "[Body; 2]");
    ops::assign_field(&mut bodies, &[1], &[0, 2], &HostValue::Int(5)).unwrap();
    ops::assign_field(&mut bodies, &[1], &[1], &HostValue::Float(7.0)).unwrap();
    let bodies = HostValue::Array(bodies);
    assert_eq!(ops::named_field(exec(), &bodies, "mass").unwrap(), row(&[2.0f32, 7.0]));
    assert_eq!(ops::swizzle(exec(), &ops::field(exec(), &bodies, 0).unwrap(), &[2]).unwrap(), row(&[1.0f32, 5.0]));
    assert_eq!(
        ops::named_field(exec(), &bodies, "mas").unwrap_err().help,
        ["there is one with a similar name: `mass`"]
    );
    let one = ops::index(exec(), &bodies, &[SliceSpec::At(0)]).unwrap();
    assert_eq!(ops::binary(exec(), BinaryOp::Eq, &one, &one).unwrap(), HostValue::bool(true));
}

/// Returns a random string over a small alphabet of one-byte and multi-byte characters, so that searches for substrings
/// succeed.
fn some_text(random: &mut Random, most: usize) -> String {
    let alphabet =
        ["a", "b", "ß", "é", "漢", "🎈", " ", "\n", "\r\n", "\t", "\u{a0}", "I", "Σ", ",", "\u{0}", "\u{301}"];
    (0..random.next_below(most)).map(|_| random.pick(&alphabet)).collect()
}

fn text_call(f: TextFn, words: &[&str]) -> HostValue {
    ops::text::call(f, &words.iter().copied().map(HostValue::str).collect::<Vec<_>>()).unwrap()
}

fn strings(items: impl IntoIterator<Item = impl Into<SmolStr>>) -> HostValue {
    HostValue::Strings(items.into_iter().map(Into::into).collect())
}

/// String functions agree with Rust's, except that they count characters instead of bytes.
#[test]
fn texts_follow_the_standard_library() {
    let mut random = Random(7);
    for _ in 0..4000 {
        let (text, part, by) = (some_text(&mut random, 12), some_text(&mut random, 3), some_text(&mut random, 3));
        let (text, part, by) = (text.as_str(), part.as_str(), by.as_str());
        assert_eq!(text_call(TextFn::Trim, &[text]), HostValue::str(text.trim()));
        assert_eq!(text_call(TextFn::Upper, &[text]), HostValue::str(text.to_uppercase()));
        assert_eq!(text_call(TextFn::Lower, &[text]), HostValue::str(text.to_lowercase()));
        assert_eq!(text_call(TextFn::Lines, &[text]), strings(text.lines()));
        assert_eq!(text_call(TextFn::Split, &[text]), strings(text.split_whitespace()));
        let place = text.find(part).map_or(-1, |byte| text[..byte].chars().count() as i32);
        assert_eq!(text_call(TextFn::Find, &[text, part]), HostValue::of(place), "{text:?} {part:?}");
        assert_eq!(text_call(TextFn::Contains, &[text, part]), HostValue::of(text.contains(part)));
        assert_eq!(text_call(TextFn::StartsWith, &[text, part]), HostValue::of(text.starts_with(part)));
        assert_eq!(text_call(TextFn::EndsWith, &[text, part]), HostValue::of(text.ends_with(part)));
        if !part.is_empty() {
            assert_eq!(text_call(TextFn::Split, &[text, part]), strings(text.split(part)));
            assert_eq!(text_call(TextFn::Replace, &[text, part, by]), HostValue::str(text.replace(part, by)));
            let parts = text_call(TextFn::Split, &[text, part]);
            assert_eq!(ops::text::call(TextFn::Join, &[parts, HostValue::str(part)]).unwrap(), HostValue::str(text));
        }
        for symbol in ["==", "!=", "<", "<=", ">", ">="] {
            let expected = match symbol {
                "==" => text == part,
                "!=" => text != part,
                "<" => text < part,
                "<=" => text <= part,
                ">" => text > part,
                _ => text >= part,
            };
            assert_eq!(op(symbol, &HostValue::str(text), &HostValue::str(part)), HostValue::of(expected));
        }
        assert_eq!(op("+", &HostValue::str(text), &HostValue::str(part)), HostValue::str(text.to_string() + part));
    }
}

/// A slice of a string selects the same positions as the slice of an array with that many elements.
#[test]
fn text_slices_match_array_slices() {
    let mut random = Random(8);
    let (mut well, mut wrong) = (0, 0);
    for _ in 0..20_000 {
        let text = some_text(&mut random, 8);
        let characters: Vec<char> = text.chars().collect();
        let codes: Vec<u32> = characters.iter().map(|&c| c.into()).collect();
        let mut end = || Some(random.next_below(12) as i64 - 2).filter(|_| random.next_below(4) > 0);
        let (start, last) = (end(), end());
        let step = Some(random.next_below(7) as i64 - 3).filter(|step| *step != 1);
        let spec = match random.next_below(4) {
            0 => SliceSpec::At(random.next_below(12) as i64 - 2),
            _ => SliceSpec::Range { start, end: last, inclusive: random.next_below(2) == 0, step },
        };
        let texts = strings(characters.iter().map(|c| c.to_string()));
        let own =
            [&HostValue::str(text.as_str()), &texts, &row(&codes)].map(|value| ops::index(exec(), value, &[spec]));
        let [of_text, of_texts, of_array] = own;
        match of_array {
            Ok(picked) => {
                well += 1;
                let codes: Vec<u32> = match &picked {
                    HostValue::Array(array) => array.items::<u32>().unwrap().to_vec(),
                    one => vec![one.as_int().unwrap() as u32],
                };
                let picked: String = codes.iter().filter_map(|&c| char::from_u32(c)).collect();
                assert_eq!(of_text.unwrap(), HostValue::str(picked.as_str()), "{text:?} {spec:?}");
                match of_texts.unwrap() {
                    HostValue::Strings(texts) => assert_eq!(texts.concat(), picked),
                    one => assert_eq!(one, HostValue::str(picked.as_str())),
                }
            }
            Err(problem) => {
                wrong += 1;
                assert_eq!(of_texts.unwrap_err(), problem, "{text:?} {spec:?}");
                let of_text = of_text.unwrap_err();
                assert_eq!((of_text.code, of_text.label.contains("element")), (problem.code, false), "{of_text:?}");
            }
        }
    }
    assert!(well > 3000 && wrong > 3000, "{well} {wrong}");
}

#[test]
fn texts_are_bounded_and_shown_over_lines() {
    let long = HostValue::str("x".repeat(1 << 20));
    let many = HostValue::Strings(vec![SmolStr::new("x".repeat(1 << 20)); 3000].into());
    let joined = ops::text::call(TextFn::Join, &[many, HostValue::str("")]).unwrap_err();
    assert_eq!(joined.title, "a text of 3145728000 bytes, and a text has at most 2147483647");
    assert!(ops::parse(Scalar::I32, &long).unwrap_err().title.len() < 100);
    let numbers = strings((0..40).map(|i| i.to_string()));
    let shown = clk_host::format::print(&numbers).unwrap();
    assert!(shown.lines().all(|line| line.len() <= 75) && shown.lines().count() == 4, "{shown}");
    let thousands = strings((0..5000).map(|i| i.to_string()));
    let shown = clk_host::format::print(&thousands).unwrap();
    assert_eq!(shown, "[\"0\", \"1\", \"2\", ..., \"4997\", \"4998\", \"4999\"]");
}
