//! Tests `with_grad`: custom derivatives are used in forward and reverse mode and in higher derivatives. A wrong one is
//! reported at its `with_grad`.

use super::gradcheck::{checked, passes, refused};
use super::{run, run_with};

const FUNCTIONS: &str = "
fn plain(x: [f32; N]) -> [f32; N] { log(1.0 + exp(x)) }
fn rule(x: [f32; N], d: [f32; N]) -> [f32; N] { d / (1.0 + exp(-x)) }
fn softplus(x: [f32; N]) -> [f32; N] { with_grad(plain, rule)(x) }
fn energy(x: [f32; N]) -> f32 { sum(softplus(x) ** 2.0) }
kernel scale(x: [f32; N], k: f32, n: i32, out y: [f32; N]) threads(i: N) { y[i] = k * x[i] * f32(n) }
fn scale_rule(x: [f32; N], k: f32, n: i32, d: [f32; N]) -> ([f32; N], f32) { (k * d * f32(n), sum(x * d) * f32(n)) }
fn scaled(x: [f32; N], k: f32) -> [f32; N] { with_grad(scale, scale_rule)(sin(x), k, 3) }
fn pair(x: f64, y: f64) -> (f64, f64) { (x * y, x + y * y) }
fn pair_rule(x: f64, y: f64, d: (f64, f64)) -> (f64, f64) { (d.0 * y + d.1, d.0 * x + 2.0 * y * d.1) }
fn paired(x: f64, y: f64) -> (f64, f64) { with_grad(pair, pair_rule)(x, y) }
struct Line { slope: [f64; 2], start: f64 }
fn at(line: Line, x: f64) -> f64 { line.slope[0] * x + line.slope[1] * x * x + line.start }
fn at_rule(line: Line, x: f64, d: f64) -> (Line, f64) {
    (Line { slope: [d * x, d * x * x], start: d }, d * (line.slope[0] + 2.0 * line.slope[1] * x))
}
fn height(line: Line, x: f64) -> f64 { with_grad(at, at_rule)(line, x) ** 2.0 }
fn cube(x: f64) -> f64 { x * x * x }
fn cube_rule(x: f64, d: f64) -> f64 { 3.0 * x * x * d }
fn cubed(x: f64) -> f64 { with_grad(cube, cube_rule)(x) }
fn each(x: [f64; N]) -> [f64; N] { with_grad(cube, cube_rule)(x) }
fn power<T: Float>(x: T) -> T { x * x }
fn power_rule<T: Float>(x: T, d: T) -> T { T(2) * x * d }
fn powered<T: Float>(x: T) -> T { with_grad(power, power_rule)(x) }
fn nested(x: f64) -> f64 { with_grad(cubed, cube_rule)(x) * cubed(x) }
fn outer<const K: i32, op: fn(f64) -> f64>(x: f64) -> f64 { f64(K) * op(x) }
fn outer_rule<const K: i32, op: fn(f64) -> f64>(x: f64, d: f64) -> f64 { f64(K) * d * grad(op)(x) }
fn composed(x: f64) -> f64 { with_grad(outer, outer_rule)(x, K = 3, op = cubed) }
fn halves(x: [f64; N]) -> ([f64; M], [f64; N]) { (x[..N / 2], x * x) }
fn halves_rule(x: [f64; N], d: ([f64; M], [f64; N])) -> [f64; N] {
    var y = 2.0 * x * d.1
    y[..M] += d.0
    y
}
fn joined(x: [f64; N]) -> f64 {
    let (a, b) = with_grad(halves, halves_rule)(x)
    sum(a) * sum(b)
}
";

#[test]
fn custom_derivatives_are_correct_in_all_modes() {
    for call in [
        "gradcheck(softplus, [0.5, -1.0, 2.0])",
        "gradcheck(energy, [0.5, -1.0, 2.0])",
        "gradcheck(grad(energy), [0.5, -1.0, 2.0])",
        "gradcheck(scaled, [0.5, -1.0, 2.0], 0.7, wrt = (x, k))",
        "gradcheck(paired, 0.5, 2.0, wrt = (x, y))",
        "gradcheck(height, Line { slope: [1.0, 2.0], start: 0.5 }, 3.0, wrt = (line, x))",
        "gradcheck(cubed, 0.5)",
        "gradcheck(grad(cubed), 0.5)",
        "gradcheck(grad(grad(cubed)), 0.5)",
        "gradcheck(each, [0.5, -2.0])",
        "gradcheck(powered, 0.5)",
        "gradcheck(powered, 0.5f16)",
        "gradcheck(nested, 0.5)",
        "gradcheck(grad(nested), 0.5)",
        "gradcheck(composed, 0.5)",
        "gradcheck(grad(composed), 0.5)",
        "gradcheck(joined, [0.5, 1.0, -2.0, 3.0])",
    ] {
        passes(&format!("{FUNCTIONS}{call}"));
    }
    let assertions = "assert(cubed(2.0) == 8.0 && grad(cubed)(2.0) == 12.0 && grad(grad(cubed))(2.0) == 12.0)
assert(grad(grad(grad(cubed)))(2.0) == 6.0 && hessian(cubed)(2.0) == 12.0)
assert(jvp(cubed)(2.0, tangent = 1.0) == (8.0, 12.0) && jacobian(each)([1.0, 2.0])[1, 1] == 12.0)";
    run(&format!("{FUNCTIONS}{assertions}")).expect("known derivatives");
}

#[test]
fn custom_derivatives_replace_the_computed_ones() {
    let text = "fn f(x: [f64; N]) -> f64 { sum(x) }\nfn rule(x: [f64; N], d: f64) -> [f64; N] { x * 0.0 + 7.0 * d }\n\
                fn g(x: [f64; N]) -> f64 { 2.0 * with_grad(f, rule)(x) }\nlet x = [1.0f64, 2.0]\n\
                assert(g(x) == 6.0)\nassert(grad(g)(x) == [14.0, 14.0])\n\
                assert(jvp(g)(x, tangent = [1.0, 3.0]) == (6.0, 56.0))\nassert(vjp(g)(x, cotangent = 0.5).1 == [7.0, 7.0])";
    run(text).expect("the rule, right or wrong");
}

#[test]
fn wrong_custom_derivatives_are_reported_at_their_definition() {
    let wrong = FUNCTIONS.replace("{ d / (1.0 + exp(-x)) }", "{ d / (1.0 + exp(x)) }");
    let error = refused(&format!("{wrong}gradcheck(energy, [0.5, -1.0, 2.0])"));
    assert_eq!((error.code, error.title.as_str()), ("E0721", "the derivative of `energy` by `x` is wrong"));
    let label =
        error.labels.iter().find(|label| label.text == "the rule that is stated here is wrong").expect("a line");
    let place = label.span.start as usize..label.span.end as usize;
    assert_eq!(&wrong[place], "with_grad(plain, rule)(x)");
    // This rule is wrong only with respect to one argument, `k`.
    let wrong = FUNCTIONS.replace("sum(x * d) * f32(n)", "sum(x * d)");
    passes(&format!("{wrong}gradcheck(scaled, [0.5, -1.0, 2.0], 0.7, wrt = x)"));
    refused(&format!("{wrong}gradcheck(scaled, [0.5, -1.0, 2.0], 0.7, wrt = k)"));
    // This rule is correct only at `x = 0.5`.
    let first = FUNCTIONS.replace("{ 3.0 * x * x * d }", "{ 3.0 * x * 0.5 * d }");
    passes(&format!("{first}gradcheck(cubed, 0.5)"));
    refused(&format!("{first}gradcheck(cubed, 0.6)"));
}

#[test]
fn mismatched_custom_derivatives_are_refused() {
    let text = "fn f(x: [f64; N]) -> f64 { sum(x) }\nfn rule(x: [f64; N], d: f64) -> [f64; _] { RULE }\n\
                fn g(x: [f64; N]) -> f64 { with_grad(f, rule)(x) }\nCALL([1.0, 2.0]TANGENT)";
    let outcome = |rule: &str, call: &str, tangent: &str| {
        let text = text.replace("RULE", rule).replace("CALL", call).replace("TANGENT", tangent);
        run_with(&text).0.map_err(|error| (error.code, error.title.clone()))
    };
    let mismatch = Err(("E0722", "a stated derivative does not fit its function".to_string()));
    assert_eq!(outcome("concat(x, x)", "grad(g)", ""), mismatch);
    let nonlinear = "0.0 * concat(x, x)[..len(x)] + clamp(d, -0.5, 0.5)";
    assert!(outcome(nonlinear, "grad(g)", "").is_ok());
    let refused = Err(("E0722", "a stated derivative has no forward mode".to_string()));
    assert_eq!(outcome(nonlinear, "jvp(g)", ", tangent = [1.0, 2.0]"), refused);
    assert!(outcome("0.0 * concat(x, x)[..len(x)] + d", "jvp(g)", ", tangent = [1.0, 2.0]").is_ok());
    assert!(outcome("0.0 * concat(x, x)[..len(x)] + d", "jvp(g)", ", tangent = [1.0, -1.0]").is_ok());
    // The rule returns no derivative for the field `x`, which is differentiable.
    let non_differentiable = "struct Part { count: i32, x: f64 }\nfn f(part: Part, y: f64) -> f64 { part.x * y }\n\
                fn rule(part: Part, y: f64, d: f64) -> f64 { part.x * d }\n\
                fn g(x: f64) -> f64 { with_grad(f, rule)(Part { count: 1, x: x }, 2.0) }\ngrad(g)(1.0)";
    assert_eq!(run(non_differentiable).map_err(|error| error.code), Err("E0720"));
}

#[test]
fn dimensions_of_arrays_in_tuples_are_bound() {
    let function = "fn f(d: ([f64; M, K], ([f64; K], f64))) -> i32 { 10 * M + K }\n";
    run(&format!("{function}assert(f((zeros(2, 3, type = f64), ([1.0f64, 2.0, 3.0], 4.0f64))) == 23)")).expect("bound");
    let error =
        run(&format!("{function}f((zeros(2, 3, type = f64), ([1.0f64, 2.0], 4.0f64)))")).expect_err("K is 3 and 2");
    assert_eq!((error.code, error.title.as_str()), ("E0510", "dimension `K` is 3 and 2 at once"));
    assert!(error.labels.iter().any(|label| label.text.contains("axis 0 of `d.1.0` makes `K` 2")), "{error:?}");
}

#[test]
fn nonlinear_custom_derivatives_are_checked_in_reverse_mode() {
    let text = "fn f(x: f64) -> f64 { x * x }\nfn rule(x: f64, d: f64) -> f64 { FACTOR * x * clamp(d, -0.99, 0.99) }\n\
                fn g(x: f64) -> f64 { with_grad(f, rule)(x) }\ngradcheck(g, 3.0)";
    let (error, warnings) = checked(&text.replace("FACTOR", "2.0"));
    assert!(error.is_none(), "{error:?}");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.title, "the derivative of `g` is compared in reverse mode alone");
    let error = refused(&text.replace("FACTOR", "3.0"));
    assert!(error.labels.iter().any(|label| label.text == "the rule that is stated here is wrong"), "{error:?}");
}
