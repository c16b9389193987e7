//! The compile-time arguments that proofs are about: defaults, those of launches, and launches that a report does not speak of.

use clk_lang::prove::{Property, Report, Verdict};

use super::{letters, report};

fn unexamined(report: &Report) -> Vec<&str> {
    report.unexamined.iter().map(|(text, _)| text.as_str()).collect()
}

/// A kernel with one race: two threads write one element if `K` is 6.
const SIX: &str = "kernel f<const K: i32>(inout y: [i32; N]) threads(i: N) { y[if K == 6 { 0 } else { i }] = i }
    var y = zeros(300, type = i32)\n";

/// Types of launches are examined: indices of one byte meet.
#[test]
fn types() {
    let text = "kernel scatter<T: Int>(x: [T; N], inout y: [i32; N]) threads(i: N) { y[i32(T(i))] = i32(x[i]) + i }
    var y = zeros(300, type = i32)\n";
    assert_eq!(report(text).instance, "T = i32");
    assert_eq!(letters(&report(text)), "pppppp");
    let racy = report(&format!("{text}scatter(full(300, 1u8), y)"));
    assert_eq!((racy.instance.as_str(), unexamined(&racy)), ("T = i32; T = u8", vec![]));
    let Some(Verdict::Refuted { sizes, .. }) = racy.verdict(Property::Order) else { panic!("{:?}", racy.verdicts) };
    assert!(sizes.ends_with(" with T = u8"), "{sizes}");
    assert!(!matches!(racy.verdict(Property::RaceFree), Some(Verdict::Proved { .. })), "{:?}", racy.verdicts);
}

/// Instances beyond those examined are named, each once.
#[test]
fn many() {
    let launches = |all: &[i32]| all.iter().map(|k| format!("f(y, K = {k})\n")).collect::<String>();
    let within = report(&format!("{SIX}{}", launches(&[1, 2, 3, 4, 5, 7, 8, 6, 6, 1])));
    assert_eq!(unexamined(&within), Vec::<&str>::new());
    assert_eq!(letters(&within), "prpppr");
    let beyond = report(&format!("{SIX}{}", launches(&[1, 2, 3, 4, 5, 7, 8, 9, 6, 6, 1])));
    assert_eq!(unexamined(&beyond), ["K = 6"]);
    assert_eq!(letters(&beyond), "pppppp");
}

/// Launches whose arguments only a call or a run tells are named, at each place.
#[test]
fn unknown() {
    let text = format!(
        "fn gen<const J: i32>(inout y: [i32; N]) {{ f(y, K = J) }}
        fn fixed<const J: i32>(inout y: [i32; N]) {{ f(y, K = 3) }}\n{SIX}gen(y, J = 6)\ngen(y, J = 2)\nfixed(y, J = 6)"
    );
    let handed = report(&text);
    assert_eq!((handed.instance.as_str(), unexamined(&handed)), ("K = 3", vec!["K = ?"]));
    let only = report(&text.replace("K = 3", "K = J"));
    assert_eq!(unexamined(&only), ["K = ?", "K = ?"]);
    let Some(Verdict::Unknown { why, .. }) = only.verdict(Property::InBounds) else { panic!("{:?}", only.verdicts) };
    assert_eq!(why, "the compile-time parameter `K` has no default, and no launch gives one that is known");
    // A parameter of the function is not the parameter of the kernel at the same position.
    let text = "kernel g<const A: i32, const K: i32>(inout y: [i32; N]) threads(i: N) { y[i] = A + K }
    fn gen<const J: i32>(inout y: [i32; N]) { g(y, A = 5, K = J) }
    var y = zeros(3, type = i32)
    gen(y, J = 6)";
    assert_eq!(unexamined(&report(text)), ["A = 5, K = ?"]);
}

/// A kernel without defaults is examined with the arguments of its launches; the worst counts, and the report says of which.
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
    let Some(Verdict::Refuted { sizes, .. }) = shift.verdict(Property::InBounds) else {
        panic!("{:?}", shift.verdicts)
    };
    assert_eq!(sizes, "N = 1 with T = i32, K = 1, f = min");
    assert_eq!(letters(&shift), "rppppp");
    // Without a launch nothing is known; with a default, launches come on top.
    let bare = report(text.split("let one").next().unwrap());
    let Some(Verdict::Unknown { why, .. }) = bare.verdict(Property::InBounds) else { panic!("{:?}", bare.verdicts) };
    assert_eq!(why, "the compile-time parameter `K` has no default, and no launch gives it");
    let text = "kernel put<const K: i32 = 3>(out y: [i32; 4]) threads(i: 1) { y[K] = 1 }\nlet y = put(K = 2)";
    assert_eq!(report(text).instance, "K = 3; K = 2");
    assert_eq!(letters(&report(text)), "pprppp");
    // Types that do not fit: others are tried, and left out if a launch has some that do.
    let text = "kernel bits<W: Int>(x: [W; N], out y: [u64; N]) threads(i: N) { y[i] = bitcast(u64, x[i]) }";
    assert_eq!(report(text).instance, "W = i64");
    let launched = format!("{text}\nlet x = [0.5]\nlet y = bits(bitcast(u64, zeros(1, type = f64)))");
    assert_eq!(report(&launched).instance, "W = i64; W = u64");
    let text =
        "kernel bits<W: Num, V: Num>(x: [W; N], out y: [V; N]) threads(i: N) { y[i] = bitcast(V, x[i]) + V(W(0.5)) }
    let y = bits([0.5], V = f32)";
    assert_eq!(report(text).instance, "W = f32, V = f32");
}
