//! Kernels with tree reductions, dot products, and strips (chains of arithmetic on arrays).

use super::*;

/// Returns cases with tree reductions in shared memory.
pub fn trees() -> Vec<Case> {
    let case = |flaw, ty: &str, step: &str, fill: &str, first: u32, x: CaseArgument| Case {
        pattern: Pattern::Op("tree"),
        flaw,
        source: format!(
            "kernel k(x: [{ty}; 256], out y: [{ty}; 1]) grid(1) block(256) {{\n    shared s: [{ty}; 256]\n    \
             let t = thread_idx.x\n    {fill}\n    barrier()\n    var h = {first}\n    while h > 0 {{\n        \
             if t < h {{ s[t] = {step} }}\n        barrier()\n        h /= 2\n    }}\n    if t == 0 {{ y[0] = s[0] }}\n}}"
        ),
        extents: grid(1, 256),
        inputs: vec![x, ones(&[1])],
    };
    let (all, sum) = ("s[t] = x[t]", "s[t] + s[t + h]");
    let mut cases = vec![
        case(None, "i32", sum, all, 128, ones(&[256])),
        case(None, "f32", sum, all, 128, ones(&[256])),
        case(Unwritten, "i32", sum, "if t != 200 { s[t] = x[t] }", 128, ones(&[256])),
        case(Unwritten, "f32", "max(s[t], s[t + h])", "if t != 200 { s[t] = x[t] }", 128, ones(&[256])),
        case(Bounds, "i32", sum, all, 200, ones(&[256])),
        case(NotFinite, "f32", "s[t] * s[t + h]", all, 128, with(&[256], 1.0, &[(0, 1e30), (1, 1e30)])),
    ];
    // One case for each iteration of the reduction loop.
    for distance in [128, 64, 32, 16, 8, 4, 2, 1] {
        let big = |big: f64| with(&[256], 0.0, &[(0, big), (distance, big)]);
        cases.push(case(Overflow, "i32", sum, all, 128, big(2e9)));
        cases.push(case(NotFinite, "f32", sum, all, 128, big(3e38)));
    }
    cases
}

/// Returns cases whose loop is one dot product.
pub fn dots() -> Vec<Case> {
    let case = |flaw, n: f64, a: CaseArgument, b: CaseArgument| Case {
        pattern: Pattern::Op("dot"),
        flaw,
        source: "kernel k(a: [f32; M, K], b: [f32; K, N], n: i32, out c: [f32; M, N]) threads(i: M, j: N) {
            var s = 0.0
            for k in 0..n { s += a[i, k] * b[k, j] }
            c[i, j] = s
        }"
        .into(),
        extents: LaunchExtents::Threads([4, 32, 1]),
        inputs: vec![a, b, CaseArgument::Number(n), ones(&[4, 32])],
    };
    let (a, b) = (|| ones(&[4, 8]), || ones(&[8, 32]));
    vec![
        case(None, 8.0, a(), b()),
        case(NotFinite, 8.0, with(&[4, 8], 1.0, &[(9, 1e30)]), filled(&[8, 32], 1e10)),
        case(NotFinite, 8.0, a(), with(&[8, 32], 1.0, &[(5, 3e38), (37, 3e38)])),
        case(Bounds, 9.0, a(), b()),
    ]
}

/// Returns cases with expressions of four arrays, which the interpreter fuses into strips.
pub fn strips() -> Vec<Case> {
    let case = |pattern, flaw, ty: &str, body: &str, big: [(usize, f64); 1]| Case {
        pattern,
        flaw,
        source: format!(
            "kernel k(p: [{ty}; N], q: [{ty}; N], r: [{ty}; N], w: [{ty}; N], out y: [{ty}; N]) threads(i: N) {{\n    \
             let (a, b, c, d) = (p[i], q[i], r[i], w[i])\n    {body}\n}}"
        ),
        extents: threads(THREADS),
        inputs: (0..5).map(|_| with(&[THREADS], 2.0, if flaw == None { &[] } else { &big })).collect(),
    };
    let floats: &[(&str, &str)] = &[
        ("LoadAdd", "y[i] = (a + b) / c"),
        ("LoadSub", "y[i] = (a * 3.0 - b * b) + (a - b) / c"),
        ("LoadMul", "y[i] = (a * b) / c"),
        ("LoadAddB", "y[i] = (a * b) * (c + d)"),
        ("LoadSubB", "y[i] = (a * b) * (c * d - 1.0 - (c - d))"),
        ("LoadMulB", "y[i] = (a + b) - (c * d)"),
        ("AddAB", "y[i] = (a * b) + (c * d)"),
        ("SubAB", "y[i] = (a * b) * 3.0 - (c * d)"),
        ("MulAB", "y[i] = (a * b) * (c * d)"),
        ("Square", "let v = a * b\n    y[i] = v * v"),
        ("Double", "let v = a * b\n    y[i] = (v + v) * c"),
        ("AddAdd", "y[i] = a * b + c + d"),
        ("AddSub", "y[i] = a * b + c - d"),
        ("AddMul", "y[i] = (a * b + c) * d"),
        ("SubAdd", "y[i] = a * b - c + d"),
        ("SubSub", "y[i] = a * b - c - d"),
        ("SubMul", "y[i] = (a * b - c) * d"),
        ("FromAdd", "y[i] = (c - a * b) + d"),
        ("FromSub", "y[i] = (c - a * b) - d"),
        ("FromMul", "y[i] = (c - a * b) * d"),
        ("MulAdd", "y[i] = (a + b) * c + d"),
        ("MulSub", "y[i] = (a + b) * c - d"),
        ("MulFrom", "y[i] = d - (a + b) * c"),
        ("MulMul", "y[i] = (a + b) * c * d"),
        ("Accumulate", "var s = a\n    for k in 0..len(p) { s = s + b * p[k] }\n    y[i] = s"),
        ("Div", "y[i] = (a * b) / (c + d)"),
        ("Min", "y[i] = min(a * b, c) + d"),
        ("Max", "y[i] = max(a * b, c) + d"),
        ("Select", "y[i] = select(a > b, a * b, c * d)"),
        ("Neg", "y[i] = -(a * b) + c"),
        ("Abs", "y[i] = abs(a * b) + c"),
        ("Sqrt", "y[i] = sqrt(a * b) + c"),
        ("Rsqrt", "y[i] = rsqrt(a * b) + c"),
        ("Fma", "y[i] = fma(a, b, c) + d"),
        ("Lt", "y[i] = select(a * b < c, a, b)"),
        ("Keep", "if a * b > 3.0 { y[i] = c + d * a }"),
    ];
    let ints: &[(&str, &str)] = &[
        ("AddI", "y[i] = (a + b) & c"),
        ("SubI", "y[i] = (a - (0 - b)) & c"),
        ("SubFromI", "y[i] = c - (a & b) * 3"),
        ("MulI", "y[i] = (a * b) ^ c"),
        ("NegI", "y[i] = -(a + b) ^ c"),
        ("LtI", "y[i] = select(a * b < c, a, b)"),
    ];
    let mut cases = vec![];
    for &(code, body) in floats {
        cases.push(case(Pattern::Strip(code), None, "f32", body, [(37, 0.0)]));
        cases.push(case(Pattern::Strip(code), NotFinite, "f32", body, [(37, 3e38)]));
    }
    for &(code, body) in ints {
        cases.push(case(Pattern::Strip(code), None, "i32", body, [(37, 0.0)]));
        cases.push(case(Pattern::Strip(code), Overflow, "i32", body, [(37, 2e9)]));
    }
    cases
}
