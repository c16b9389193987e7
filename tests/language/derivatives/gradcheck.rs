//! `gradcheck` detects wrong derivatives, accepts correct ones, and reports points without a derivative.

use clk_base::diag::Diagnostic;
use clk_scalar::ops::{MathFamily, MathFn};
use clk_testing::setting;

use super::{random, run_with};

/// Runs a script with gradient checks; returns its error, if any, and the warnings.
pub fn checked(text: &str) -> (Option<Box<Diagnostic>>, Vec<Diagnostic>) {
    let (result, warnings) = run_with(text);
    (result.err(), warnings)
}

pub fn passes(text: &str) {
    let (error, warnings) = checked(text);
    assert!(error.is_none(), "{:?}\n{text}", error);
    assert!(warnings.is_empty(), "{warnings:?}\n{text}");
}

/// Returns the error of a script that must fail.
pub fn refused(text: &str) -> Box<Diagnostic> {
    checked(text).0.unwrap_or_else(|| panic!("it passes:\n{text}"))
}

/// Returns the arguments at which a function is checked, inside its domain.
fn point(name: &str) -> &'static str {
    match name {
        "acosh" => "[1.3, 2.5], ",
        "atanh" | "acos" | "asin" => "[0.3, -0.7], ",
        "sqrt" | "rsqrt" | "log" | "log2" | "log10" | "log1p" => "[0.3, 2.7], ",
        "pow" => "[0.4, 2.2], [1.7, -0.6], ",
        "clamp" => "[0.3, -0.7], [-0.5, -0.6], [0.9, 1.0], ",
        "fma" => "[0.3, -0.7], [-0.5, -0.6], [0.9, 1.0], ",
        _ => "[0.37, -0.64], [-0.81, 0.46], ",
    }
}

#[test]
fn every_function_passes_on_the_host_and_in_kernels() {
    let mut without = vec![];
    for row in MathFn::TABLE.iter().filter(|row| !matches!(row.family, MathFamily::Tests | MathFamily::Integers)) {
        let (name, params) = (row.name, ["x", "y", "z"]);
        let params = &params[..row.arity];
        let typed: Vec<String> = params.iter().map(|param| format!("{param}: [TYPE; N]")).collect();
        let (typed, names) = (typed.join(", "), params.join(", "));
        let elements: Vec<String> = params.iter().map(|param| format!("{param}[i]")).collect();
        let elements = elements.join(", ");
        let point: Vec<&str> = point(name).split_inclusive("], ").take(row.arity).collect();
        let point = point.concat();
        let types = if row.family == MathFamily::Singles { &["f32"][..] } else { &["f32", "f64", "f16", "bf16"] };
        for &ty in types {
            let text = format!(
                "fn f({typed}) -> [TYPE; N] {{ {name}({names}) }}\n\
                 kernel k({typed}, out r: [TYPE; N]) threads(i: N) {{ r[i] = {name}({elements}) }}\n\
                 fn g({typed}) -> [TYPE; N] {{ k({names}) * 2.0 }}\n\
                 gradcheck(f, {point}wrt = ({names}))\ngradcheck(g, {point}wrt = ({names}))"
            );
            let text = typed_literals(&text.replace("TYPE", ty), ty);
            let (error, warnings) = checked(&text);
            match error {
                None => assert!(warnings.is_empty(), "{warnings:?}\n{text}"),
                Some(error) if error.code == "E0720" || error.code == "E0491" => without.push(name),
                Some(error) => panic!("{} {} {:?} {:?}\n{text}", error.code, error.title, error.labels, error.notes),
            }
        }
    }
    without.dedup();
    assert_eq!(without, ["lgamma", "tgamma"], "functions without a derivative");
}

/// Adds a type suffix to the numbers in the calls.
fn typed_literals(text: &str, ty: &str) -> String {
    let (functions, calls) = text.split_at(text.find("gradcheck").unwrap_or(0));
    let mut typed = String::new();
    let mut before = ' ';
    for c in calls.chars() {
        if before.is_ascii_digit() && matches!(c, ',' | ']') {
            typed.push_str(ty);
        }
        typed.push(c);
        before = c;
    }
    format!("{functions}{typed}")
}

#[test]
fn random_functions_pass() {
    let (count, first) = (setting("CLK_RANDOM_PROGRAMS", 60).min(25), setting("CLK_RANDOM_SEED", 1));
    let mut passed_count = 0;
    for seed in first..first + count {
        let function = random::function(seed);
        let text = format!("{function}gradcheck(f, random_normal(3, 4, seed = {seed}, type = f64))");
        match checked(&text).0 {
            None => passed_count += 1,
            Some(error) if error.code == "E0720" => {}
            // An intermediate value overflows.
            Some(error) if error.title.contains("not finite") => {}
            Some(error) => panic!("{seed}: {} {:?} {:?}\n{function}", error.title, error.labels, error.notes),
        }
    }
    assert!(passed_count * 2 >= count, "{passed_count} of {count}");
}

const FUNCTIONS: &str = "
struct Line { slope: [f32; 2], start: f32 }
fn at(line: Line, x: f32) -> (f32, f32) { (line.slope[0] * x + line.start, line.slope[1] * sin(line.start)) }
fn held(x: [f32; N]) -> f32 { sum(x) / no_grad(x[0]) + sum(random(3)) * x[1] }
fn cube(x: f64) -> f64 { x ** 3.0 }
fn narrow(x: [f16; N]) -> f16 { sum(exp(x) * x) }
fn scaled<T: Float>(x: [T; N]) -> T { sum(x * x) * T(0.3) }
kernel lengths(v: [f32x3; N], out y: [f32; N]) threads(i: N) { y[i] = length(v[i]) * v[i].x }
fn vectors(v: [f32x3; N]) -> f32 { sum(lengths(v)) }
fn printing(x: f32) -> f32 { print(\"never\", x); x * x }
kernel rows(x: [f32; M, N], out y: [f32; M]) grid(M) block(64) {
    shared part: [f32; 64]
    var s = 0.0
    for j in thread_idx.x..N step 64 { s += sin(x[block_idx.x, j]) }
    part[thread_idx.x] = s
    barrier()
    var width = 32
    while width > 0 {
        if thread_idx.x < width { part[thread_idx.x] += part[thread_idx.x + width] }
        barrier()
        width /= 2
    }
    if thread_idx.x == 0 { y[block_idx.x] = part[0] }
}
fn by_rows(x: [f32; M, N], k: f32) -> [f32; M] { rows(k * x) * rows(x) }
";

#[test]
fn correct_derivatives_pass() {
    for call in [
        "gradcheck(at, Line { slope: [1.0, 2.0], start: 0.5 }, 3.0, wrt = (line, x))",
        "gradcheck(held, [1.0, 2.0, 3.0])",
        "gradcheck(cube, 2.0)",
        "gradcheck(grad(cube), 2.0)",
        "gradcheck(jacobian(grad(cube)), 2.0)",
        "gradcheck(narrow, [1.0f16, 2.0f16, -0.5f16])",
        "gradcheck(scaled, [1.0, 2.0])",
        "gradcheck(scaled, [1.0bf16, 2.0bf16])",
        "gradcheck(vectors, [f32x3(1.0, 2.0, 3.0), f32x3(-1.0, 0.5, 2.0)])",
        "gradcheck(printing, 1.5)",
        "gradcheck(by_rows, random(3, 70), 0.5, wrt = (x, k))",
        // The arguments are numbers of very different magnitudes.
        "gradcheck(scaled, [1e-12, 1e12, 0.0, -1.0])",
    ] {
        passes(&format!("{FUNCTIONS}{call}"));
    }
}

#[test]
fn gradient_checks_do_not_change_random_numbers() {
    let second =
        "fn f(x: f32) -> f32 { x * sum(random(4)) }\nlet first = random(2)\ngradcheck(f, 1.0)\nlet b = random(2)\nb";
    let plain = run_with("let first = random(2)\nlet b = random(2)\nb").0.expect("a script");
    assert_eq!(run_with(second).0.expect("a script"), plain);
}

/// A function that silently loses a derivative by converting a number to text, which has no derivative.
const LOST: &str = "fn lost(x: [f32; N], y: f32) -> f32 {
    let scale = parse(f32, \"{x[2]}\")
    sum(x * x) * y * scale
}
gradcheck(lost, [1.0, 2.0, 3.0, 4.0], 0.5, wrt = (x, y))";

#[test]
fn wrong_derivatives_are_located() {
    let error = refused(LOST);
    assert_eq!((error.code, error.title.as_str()), ("E0721", "the derivative of `lost` by `x` is wrong"));
    let label = &error.labels[0].text;
    let numbers: Vec<f64> =
        label.split(|c: char| c != '.' && c != '-' && !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
    let [reverse, forward, differences] = numbers[..] else { panic!("{label}") };
    assert!(reverse == forward && (reverse - differences).abs() > 1.0, "{label}");
    assert!(error.notes[0].starts_with("along `x` = ["), "{:?}", error.notes);
    assert!(error.notes[1].starts_with("the largest part of it is by `x[2]`: reverse mode says"), "{:?}", error.notes);
    assert_eq!(refused(LOST), error, "the same each time");
    // The derivative with respect to `y` is correct.
    passes(&LOST.replace("wrt = (x, y)", "wrt = y"));
}

#[test]
fn small_wrong_components_are_detected() {
    let text =
        "fn f(x: [f32; N]) -> f32 { sum(sin(x)) + 0.001 * parse(f32, \"{x[777]}\") }\ngradcheck(f, random(1000))";
    let error = refused(text);
    assert!(error.notes[1].contains("by `x[777]`"), "{:?}", error.notes);
}

#[test]
fn cancellation_is_distinguished_from_wrong_derivatives() {
    let error = refused("fn f(x: f32) -> f32 { log((1.0 + x) - 1.0) }\ngradcheck(f, 1e-7)");
    assert_eq!((error.code, error.title.as_str()), ("E0721", "the derivative of `f` by `x` loses its digits in `f32`"));
    assert!(error.notes[1].contains("its rules are right"), "{:?}", error.notes);
    // In `f64`, the difference quotients lose digits, but the check must not report an error.
    assert_eq!(checked("fn f(x: f64) -> f64 { log((1.0 + x) - 1.0) }\ngradcheck(f, 1e-7)").0, None);
}

#[test]
fn overflow_in_a_narrow_type_is_not_cancellation() {
    let error = refused("fn f(x: f32) -> f32 { log(exp(x)) }\ngradcheck(f, 100.0)");
    assert_eq!(error.title, "the derivative of `f` by `x` is not finite in `f32`");
}

#[test]
fn non_finite_values_are_errors_at_their_line() {
    let error = refused("fn f(x: [f64; N]) -> [f64; N] {\n    x * x * sqrt(x)\n}\ngradcheck(f, [0.0, 1.0, 4.0])");
    assert_eq!((error.code, error.title.as_str()), ("E0721", "the derivative of `f` by `x` is not finite"));
    assert!(error.labels.iter().any(|label| label.text == "this has no derivative there"), "{:?}", error.labels);
}

#[test]
fn kinks_are_warnings_and_skip_only_their_components() {
    for (body, says) in [
        ("sum(max(x, 0.0))", "1 of its numbers is left out, being at a kink"),
        ("sum(abs(x) * x[1])", "1 of its numbers is left out, being at a kink"),
        (
            "var s = 0.0f32\n for i in 0..N { if x[i] > 0.0 { s += x[i] } }\n s",
            "1 of its numbers is left out, being at a kink",
        ),
        ("sum(select(x >= 0.0, x, 3.0 * x))", "1 of its numbers is left out, being at a kink"),
        // Both arguments of `max` change equally with `x[0]`, so only the other three numbers have a kink.
        ("max(x[0], sum(x) - 2.0)", "3 of its numbers are left out, being at kinks"),
        ("max(2.0 * x[0], sum(x) - 2.0)", "differences say nothing in 3 of 3 directions"),
        ("sum(floor(x))", "differences say nothing in 3 of 3 directions"),
    ] {
        let text = format!("fn f(x: [f32; N]) -> f32 {{ {body} }}\ngradcheck(f, [0.0, 1.0, -2.0, 3.0])");
        let (error, warnings) = checked(&text);
        assert!(error.is_none(), "{error:?}\n{text}");
        let [warning] = &warnings[..] else { panic!("{warnings:?}\n{text}") };
        assert_eq!(warning.code, "W0721", "{text}");
        assert_eq!(
            warning.title,
            "the derivative of `f` by `x` is not compared everywhere: it is at a kink or a jump, or lacks digits"
        );
        assert!(warning.labels.iter().any(|label| label.text == says), "{:?}\n{text}", warning.labels);
    }
    // Wrong derivatives of components without a kink are detected.
    refused(
        "fn f(x: [f32; N]) -> f32 { sum(max(x, 0.0)) * parse(f32, \"{x[1]}\") }\ngradcheck(f, [0.0, 1.0, -2.0, 3.0])",
    );
}

#[test]
fn missing_f64_shadows_are_explained() {
    let text = "fn f(x: [f32; N]) -> f32 { sum(x * x) * f32(bitcast(u32, no_grad(x[0])) % 7u32) * FACTOR }\n\
                gradcheck(f, [1.5, -2.0])";
    let (error, warnings) = checked(&text.replace("FACTOR", "2.0"));
    assert!(error.is_none(), "{error:?}");
    let [warning] = &warnings[..] else { panic!("{warnings:?}") };
    assert_eq!(warning.title, "the derivative of `f` is compared in `f32`, with few digits");
    assert!(
        warning.labels.iter().any(|label| label.text.starts_with("a float of another type")),
        "{:?}",
        warning.labels
    );
    let error = refused(&text.replace("FACTOR", "parse(f32, \"{x[0]}\")"));
    assert_eq!(error.title, "the derivative of `f` by `x` is wrong");
}

#[test]
fn non_differentiable_functions_are_refused() {
    let error = refused("fn f(x: f32) -> f32 { x * f32(i32(x)) }\ngradcheck(f, 1.5)");
    assert_eq!(error.code, "E0720");
    let error = refused("fn f(x: f32) -> f32 { assert(x > 2.0); x }\ngradcheck(f, 1.5)");
    assert_eq!(error.code, "E0530");
    // If an assertion holds at the point but fails close to it, smaller step sizes are used.
    passes("fn f(x: f32) -> f32 { assert(x > 1.49999); x * x }\ngradcheck(f, 1.5)");
}

#[test]
fn no_grad_in_kernels_is_not_compared_with_differences() {
    let text = "kernel k(x: [f64; N], out y: [f64; N]) threads(i: N) {\n    y[i] = x[i] * held(x[i])\n}\n\
                fn held(x: f64) -> f64 { no_grad(x) }\nfn f(x: [f64; N]) -> f64 { sum(k(x)) }\n\
                gradcheck(f, [1.0, 2.0])";
    let error = refused(text);
    assert_eq!(error.code, "E0721");
    let place = error.primary().expect("a place").range();
    assert_eq!(&text[place], "no_grad(x)");
    passes("fn held(x: f64) -> f64 { x * no_grad(x) }\ngradcheck(held, 2.0)");
}

/// In functions whose terms cancel, rounding errors may exceed the derivative. The check must tolerate errors that are
/// small compared with the terms.
#[test]
fn rounding_after_cancellation_is_no_error() {
    let own = "fn shares(x: [T; N]) -> [T; N] {\n    let e = exp(x)\n    e / sum(e)\n}\n\
               fn ones(x: [T; N]) -> T { sum(shares(x)) }\n\
               fn centered(x: [T; N]) -> T { sum(x - mean(x)) }\n\
               fn scaled(x: [T; N]) -> T { mean(((x - mean(x)) / sqrt(mean((x - mean(x)) ** 2.0))) ** 2.0) }\n\
               fn circle(x: [T; N]) -> T { sum(sin(x) * sin(x) + cos(x) * cos(x)) }\n\
               fn binomial(x: [T; N]) -> T { sum((x + 3.0) * (x + 3.0) - x * x - 6.0 * x) }\n\
               fn several(x: [T; N]) -> [T; N] { x * 2.0 - x - x + shares(x) }\n";
    for scalar in ["f16", "bf16", "f32", "f64"] {
        for function in ["ones", "centered", "scaled", "circle", "binomial", "several"] {
            for at in ["[1.0, 2.0, 3.0]", "[0.3, -0.7, 0.1, 0.9, -0.2]", "random(100, seed = 4)"] {
                let text = format!("{}gradcheck({function}, {scalar}({at}))", own.replace('T', scalar));
                let (error, warnings) = checked(&text);
                assert!(error.is_none(), "{error:?}\n{text}");
                assert!(warnings.is_empty(), "{warnings:?}\n{text}");
            }
        }
        // Terms that cancel do not hide a wrong derivative.
        let wrong = "fn f(x: [T; N]) -> T { ones(x) + T(0.05) * x[0] * parse(T, \"{x[1]}\") }\ngradcheck(f, T([1.0, 2.0, 3.0]))";
        let error = refused(&format!("{own}{wrong}").replace('T', scalar));
        assert_eq!(error.title, "the derivative of `f` by `x` is wrong", "{scalar}");
    }
}
