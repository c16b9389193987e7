//! Tests for which compile-time arguments kernels are proved: defaults, and the arguments of launches. Also tests which
//! launches a report names as not examined.

use clk_prove::{ProofReport, ProofVerdict, Property};

use super::{letters, report};

fn unexamined(report: &ProofReport) -> Vec<&str> {
    report.unexamined.iter().map(|(text, _)| text.as_str()).collect()
}

/// A kernel with one race: two threads write one element if `K` is 6.
const SIX: &str = "kernel f<const K: i32>(inout y: [i32; N]) threads(i: N) { y[if K == 6 { 0 } else { i }] = i }
    var y = zeros(300, type = i32)\n";

/// Kernels are also proved with the types of their launches. With `u8`, the indices of two threads may be equal.
#[test]
fn types() {
    let text = "kernel scatter<T: Int>(x: [T; N], inout y: [i32; N]) threads(i: N) { y[i32(T(i))] = i32(x[i]) + i }
    var y = zeros(300, type = i32)\n";
    assert_eq!(report(text).instance, "T = i32");
    assert_eq!(letters(&report(text)), "pppppp");
    let racy = report(&format!("{text}scatter(full(300, 1u8), y)"));
    assert_eq!((racy.instance.as_str(), unexamined(&racy)), ("T = i32; T = u8", vec![]));
    let Some(ProofVerdict::Refuted { sizes, .. }) = racy.verdict(Property::Order) else {
        panic!("{:?}", racy.verdicts)
    };
    assert!(sizes.ends_with(" with T = u8"), "{sizes}");
    assert!(!matches!(racy.verdict(Property::RaceFree), Some(ProofVerdict::Proved { .. })), "{:?}", racy.verdicts);
}

/// The report names each instance (combination of arguments) that was not examined once.
#[test]
fn many_instances() {
    let launches = |all: &[i32]| all.iter().map(|k| format!("f(y, K = {k})\n")).collect::<String>();
    let within = report(&format!("{SIX}{}", launches(&[1, 2, 3, 4, 5, 7, 8, 6, 6, 1])));
    assert_eq!(unexamined(&within), Vec::<&str>::new());
    assert_eq!(letters(&within), "prpppr");
    let beyond = report(&format!("{SIX}{}", launches(&[1, 2, 3, 4, 5, 7, 8, 9, 6, 6, 1])));
    assert_eq!(unexamined(&beyond), ["K = 6"]);
    assert_eq!(letters(&beyond), "pppppp");
}

/// If the arguments of a launch are known only in a call or at run time, the report names the location of the launch.
#[test]
fn unknown_instances() {
    let text = format!(
        "fn gen<const J: i32>(inout y: [i32; N]) {{ f(y, K = J) }}
        fn fixed<const J: i32>(inout y: [i32; N]) {{ f(y, K = 3) }}\n{SIX}gen(y, J = 6)\ngen(y, J = 2)\nfixed(y, J = 6)"
    );
    let handed = report(&text);
    assert_eq!((handed.instance.as_str(), unexamined(&handed)), ("K = 3", vec!["K = ?"]));
    let only = report(&text.replace("K = 3", "K = J"));
    assert_eq!(unexamined(&only), ["K = ?", "K = ?"]);
    let Some(ProofVerdict::Unknown { why, .. }) = only.verdict(Property::InBounds) else {
        panic!("{:?}", only.verdicts)
    };
    assert_eq!(why, "the compile-time parameter `K` has no default, and no launch gives one that is known");
    // The parameter of a function is not confused with the parameter of the kernel at the same position.
    let text = "kernel g<const A: i32, const K: i32>(inout y: [i32; N]) threads(i: N) { y[i] = A + K }
    fn gen<const J: i32>(inout y: [i32; N]) { g(y, A = 5, K = J) }
    var y = zeros(3, type = i32)
    gen(y, J = 6)";
    assert_eq!(unexamined(&report(text)), ["A = 5, K = ?"]);
}

/// A kernel without defaults is examined with the arguments of each launch; the report shows the weakest verdict and
/// its launch.
#[test]
fn instances() {
    let text = "kernel shift<T: Num, const K: i32, f: fn(T, T) -> T>(x: [T; N], out y: [T; N]) threads(i: N) {
        y[i] = f(x[i + K], x[i])
    }
    let one = shift([1.0, 2.0], K = 0, f = max)
    let two = shift([1, 2], K = 0, f = max)
    let three = shift([1, 2], K = 1, f = min)";
    let shift = report(text);
    assert_eq!(shift.instance, "T = f32, K = 0, f = max; T = i32, K = 0, f = max; T = i32, K = 1, f = min");
    let Some(ProofVerdict::Refuted { sizes, .. }) = shift.verdict(Property::InBounds) else {
        panic!("{:?}", shift.verdicts)
    };
    assert_eq!(sizes, "N = 1 with T = i32, K = 1, f = min");
    assert_eq!(letters(&shift), "rppppp");
    // Without a launch the arguments are unknown. If there are defaults, they and the arguments of launches are
    // examined.
    let bare = report(text.split("let one").next().unwrap());
    let Some(ProofVerdict::Unknown { why, .. }) = bare.verdict(Property::InBounds) else {
        panic!("{:?}", bare.verdicts)
    };
    assert_eq!(why, "the compile-time parameter `K` has no default, and no launch gives it");
    let text = "kernel put<const K: i32 = 3>(out y: [i32; 4]) threads(i: 1) { y[K] = 1 }\nlet y = put(K = 2)";
    assert_eq!(report(text).instance, "K = 3; K = 2");
    assert_eq!(letters(&report(text)), "pprppp");
    // If the default types do not fit, the prover tries other types, unless a launch has fitting ones.
    let text = "kernel bits<W: Int>(x: [W; N], out y: [u64; N]) threads(i: N) { y[i] = bitcast(u64, x[i]) }";
    assert_eq!(report(text).instance, "W = i64");
    let launched = format!("{text}\nlet x = [0.5]\nlet y = bits(bitcast(u64, zeros(1, type = f64)))");
    assert_eq!(report(&launched).instance, "W = i64; W = u64");
    let text =
        "kernel bits<W: Num, V: Num>(x: [W; N], out y: [V; N]) threads(i: N) { y[i] = bitcast(V, x[i]) + V(W(0.5)) }
    let y = bits([0.5], V = f32)";
    assert_eq!(report(text).instance, "W = f32, V = f32");
}
