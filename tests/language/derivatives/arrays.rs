//! Derivatives of functions that rearrange arrays: sorts, transposes, stacks, einsum, and indices with several arrays.

use super::gradcheck::passes;
use super::{numbers, run};

/// Functions of a matrix `x` and an array `c` with three axes. Each is checked in the first and the second derivative.
const FUNCTIONS: &[&str] = &[
    "sum(sort(x, axis = 0) ** 3.0 * w)",
    "sum(sort(x, axis = 1, descending = true) ** 3.0 * w)",
    "sum(sort(c, axis = 1) ** 3.0 * v)",
    "{ let (keys, values) = sort(x[0], x[1], descending = true)\n sum(keys ** 2.0 * values * w[0]) }",
    "sum(transpose(c, axes = (2, 0, 1)) ** 2.0 * transpose(v, axes = (2, 0, 1)))",
    "sum(stack(x ** 2.0, x * w, axis = 1) * stack(w, x, axis = 1))",
    "sum(stack(x, sin(x), axis = 2)[.., .., 1] * w)",
    "sum(einsum(\"ij,kj->ik\", x, x * w) ** 2.0)",
    "einsum(\"ii->\", x[.., ..3]) ** 3.0 + sum(sin(einsum(\"ijj->ji\", c[.., ..2, ..2])))",
    "sum(einsum(\"ijk,lk->jil\", c, x) ** 2.0)",
    "sum(einsum(\"ijk,ik->ij\", c, x) ** 2.0)",
    "einsum(\"i,jk->\", x[0], w) ** 2.0 + einsum(\"ij,ij->\", x, w) * sum(einsum(\"i,j->ij\", x[0], x[1]) ** 2.0)",
    "sum(c[[2, 0, 2], .., [1, 3, 1]] ** 2.0 * v[.., .., 0])",
    "sum(c[[true, false, true], 1, [0, 3]] ** 3.0)",
    "{ var y = c\n y[[1, 0], .., [0, 2]] *= x[0, 0]\n y[[true, false, true], 1, 3] = x[0, ..2]\n sum(y ** 2.0 * v) }",
];

#[test]
fn rearrangements_have_derivatives() {
    for function in FUNCTIONS {
        let text = format!(
            "let w = f64(reshape(arange(12), 3, 4)) - 4.0\nlet v = f64(reshape(arange(24), 3, 2, 4)) / 7.0\n\
             fn f(x: [f64; 3, 4], c: [f64; 3, 2, 4], w: [f64; 3, 4], v: [f64; 3, 2, 4]) -> f64 {{ {function} }}\n\
             fn g(x: [f64; 3, 4], c: [f64; 3, 2, 4], w: [f64; 3, 4], v: [f64; 3, 2, 4]) -> f64 {{\n\
             let (dx, dc) = grad(f, wrt = (x, c))(x, c, w, v)\nsum(sin(dx)) + sum(sin(dc)) }}\n\
             let (x, c) = (random(3, 4, seed = 1, type = f64), random(3, 2, 4, seed = 2, type = f64))\n\
             gradcheck(f, x, c, w, v, wrt = (x, c))\ngradcheck(g, x, c, w, v, wrt = (x, c))"
        );
        passes(&text);
    }
}

#[test]
fn a_sort_gives_the_cotangent_to_the_element_that_moved() {
    let text = "fn f(x: [f64; N]) -> f64 { sum(sort(x) * f64(arange(N))) }\ngrad(f)([2.0, 1.0, 2.0, -1.0])";
    assert_eq!(numbers(text), [2.0, 1.0, 3.0, 0.0], "equal elements keep their order");
    let text =
        "fn f(x: [f64; N]) -> f64 { sum(sort(x, descending = true) * f64(arange(N))) }\ngrad(f)([2.0, 1.0, 2.0, -1.0])";
    assert_eq!(numbers(text), [0.0, 2.0, 1.0, 3.0]);
    assert!(run("fn f(x: [f64; N]) -> f64 { sum(sort(x)) }\ngrad(f)(zeros(0, type = f64))").is_ok(), "of no elements");
}
