//! Tests values that share a register: aggregates that are assigned a permutation of themselves, reused components, and
//! conversions that do not change any bit.

use super::*;

const TYPES: [&str; 11] = ["i32", "f32", "i8", "u8", "i16", "u16", "i64", "u64", "f16", "bf16", "f64"];

/// The declaration, the permutation, and the components to compare; `T` is the component type, `X` a component that
/// depends on the thread.
const PERMUTED: &[(&str, &str, [&str; 3])] = &[
    ("var v = Tx2(X, T(100))", "v = v.yx", ["v.x", "v.y", "v.x"]),
    ("var v = Tx3(X, T(2), T(3))", "v = v.yzx", ["v.x", "v.y", "v.z"]),
    ("var v = Tx4(X, T(2), T(3), T(4))", "v = v.wzyx", ["v.x", "v.y", "v.w"]),
    ("var v = Tx4(X, T(2), T(3), T(4))", "v = v.yxwz", ["v.x", "v.z", "v.w"]),
    ("var v = Tx2(X, T(5))", "v = Tx2(v.y, v.x + T(1))", ["v.x", "v.y", "v.x"]),
    ("var v = Tx3(X, T(5), T(7))", "v = Tx3(v.z, v.y + v.x, v.x)", ["v.x", "v.y", "v.z"]),
    ("var v = Tx2(X, T(5))", "v = Tx2(v.y, v.y)", ["v.x", "v.y", "v.x"]),
    ("var v = Tx3(X, T(2), T(3))", "v.x = v.y\nv.y = v.z\nv.z = v.x", ["v.x", "v.y", "v.z"]),
    ("var v = Tx2(X, T(5))", "let h = v.x\nv.x = v.y\nv.y = h", ["v.x", "v.y", "v.y"]),
    ("var v = Tx2(X, T(5))\nvar w = v", "let h = v.yx\nv = w\nw = h", ["v.x", "w.y", "w.x"]),
    ("var v = Tx3(X, T(5), T(9))", "v = turned(v)", ["v.x", "v.y", "v.z"]),
    ("var t = (X, T(5), T(7))", "t = (t.2, t.0, t.1)", ["t.0", "t.1", "t.2"]),
    ("var p = X\nvar q = T(9)", "let t = two(p, q)\np = t.0\nq = t.1", ["p", "q", "p"]),
    (
        "var s = S { a: X, b: T(5), v: Tx2(T(7), X) }",
        "s = S { a: s.v.x, b: s.a, v: Tx2(s.v.y, s.b) }",
        ["s.a", "s.b", "s.v.x"],
    ),
    (
        "var o = O { s: S { a: X, b: T(5), v: Tx2(T(7), X) }, k: T(11) }",
        "o = O { s: S { a: o.k, b: o.s.a, v: o.s.v.yx }, k: o.s.b }",
        ["o.k", "o.s.b", "o.s.v.y"],
    ),
    ("var v = Tx3(X, T(2), T(3))", "v[x[i] % 3] = v[(x[i] + 1) % 3]", ["v.x", "v.y", "v[n % 3]"]),
    (
        "var v = Tx4(X, T(2), T(3), T(4))",
        "let k = (x[i] + n) % 4\nlet h = v[k]\nv[k] = v.x\nv.x = h",
        ["v.x", "v[x[i] % 4]", "v.w"],
    ),
    ("var v = Tx2(X, T(5))", "v.yx[x[i] % 2] = v[n % 2]\nv = v.yx", ["v.x", "v.y", "v[x[i] % 2]"]),
    ("var v = Tx3(X, T(2), T(3))", "v = Tx3(C[x[i] % 3], v.x, C[n % 3])\nv.y = C[1]", ["v.x", "v.y", "v.z"]),
    ("var w: [T; 3] = [X, T(5), T(7)]", "let h = w\nw = [h[2], h[0], h[1]]", ["w[0]", "w[1]", "w[2]"]),
    ("var w: [T; 3] = [X, T(5), T(7)]", "w = [w[1], w[2], w[0]]", ["w[0]", "w[1]", "w[2]"]),
    ("var w: [T; 3] = [X, T(5), T(7)]", "w = shifted(w)", ["w[0]", "w[1]", "w[2]"]),
    ("var w: [T; 3] = [X, T(5), T(7)]", "let h = shifted(shifted(w))\nw[x[i] % 3] = h[0]", ["w[0]", "w[1]", "w[2]"]),
    (
        "var w: [T; 3] = [X, T(5), T(7)]",
        "var u = w\nu[x[i] % 3] = T(9)\nw = if x[i] % 2 == 0 { u } else { shifted(u) }",
        ["w[0]", "w[1]", "w[2]"],
    ),
    (
        "var w: [T; 3] = [X, T(5), T(7)]",
        "let h = table(w[0], x[i] % 11)\nw[n % 3] = h[x[i] % 9]",
        ["w[0]", "w[1]", "w[2]"],
    ),
    ("var w: [T; 3] = [X, T(5), T(7)]", "var u: [T; 3] = [T(1), w[2], w[1]]\nturn(u)\nw = u", ["w[0]", "w[1]", "w[2]"]),
    (
        "var w: [T; 3] = [X, T(5), T(7)]",
        "var u = table(w[1], 4)\nvar t = u\nt[x[i] % 9] = w[2]\nu = t\nw = [u[3], t[4], u[8]]",
        ["w[0]", "w[1]", "w[2]"],
    ),
    (
        "var w: [Tx2; 2] = [Tx2(X, T(1)), Tx2(T(2), X)]",
        "let h = w\nw = [h[1].yx, h[0]]",
        ["w[0].x", "w[1].x", "w[1].y"],
    ),
    (
        "var w: [S; 2] = [S { a: X, b: T(1), v: Tx2(X, T(2)) }, S { a: T(3), b: X, v: Tx2(T(4), X) }]",
        "let h = w\nw[0] = h[1]\nw[1] = h[0]",
        ["w[0].a", "w[1].b", "w[0].v.y"],
    ),
    (
        "var s = A { w: [X, T(5), T(7)], v: Tx2(X, T(1)) }",
        "let h = s\ns.w[x[i] % 3] = h.w[(x[i] + n) % 3]\ns.v = s.v.yx",
        ["s.w[0]", "s.w[x[i] % 3]", "s.v.x"],
    ),
    (
        "var s = A { w: [X, T(5), T(7)], v: Tx2(X, T(1)) }",
        "s.w = [s.w[1], s.w[2], s.w[0]]\ns.v[x[i] % 2] = s.w[n % 3]",
        ["s.w[0]", "s.w[2]", "s.v.y"],
    ),
    (
        "var s = A { w: [X, T(5), T(7)], v: Tx2(X, T(1)) }",
        "s = rolled(s, x[i] % 3)\nif x[i] > 3 { s.w[0] = s.v.x }",
        ["s.w[0]", "s.w[1]", "s.w[2]"],
    ),
    (
        "var s = A { w: [X, T(5), T(7)], v: Tx2(X, T(1)) }",
        "var t = s\nt.w[n % 3] = s.w[x[i] % 3]\ns = if x[i] % 4 == 1 { rolled(t, 1) } else { t }",
        ["s.w[0]", "s.w[1]", "s.w[2]"],
    ),
    (
        "var m: [T; 2, 3] = [[X, T(5), T(7)], [T(1), X, T(2)]]",
        "turn(m[x[i] % 2, ..])\nlet r = m[.., n % 3]\nm[0, 0] = r[1]",
        ["m[0, 0]", "m[1, 1]", "m[x[i] % 2, 2]"],
    ),
    (
        "var m: [T; 2, 3] = [[X, T(5), T(7)], [T(1), X, T(2)]]",
        "if x[i] % 3 == 1 { turn(m[1, ..]) }\nlet u = shifted(m[(x[i] + n) % 2, ..])\nm[1, x[i] % 3] = u[2]",
        ["m[1, 0]", "m[1, 1]", "m[1, 2]"],
    ),
    (
        "var s = A { w: [X, T(5), T(7)], v: Tx2(X, T(1)) }",
        "turn(s.w)\nif x[i] % 2 == 1 { turn(s.w)\ns.w = shifted(s.w) }",
        ["s.w[0]", "s.w[1]", "s.w[2]"],
    ),
    ("var w: [T; 3] = [X, T(5), T(7)]", "let h = w[0]\nw[0] = w[1]\nw[1] = w[2]\nw[2] = h", ["w[0]", "w[1]", "w[2]"]),
    ("var w: [T; 3] = [X, T(5), T(7)]", "let h = w[x[i] % 3]\nw[x[i] % 3] = w[0]\nw[0] = h", ["w[0]", "w[1]", "w[2]"]),
    (
        "var w: [Tx2; 2] = [Tx2(X, T(1)), Tx2(T(2), X)]",
        "let h = w[0].yx\nw[0] = w[1].yx\nw[1] = h",
        ["w[0].x", "w[1].x", "w[1].y"],
    ),
];

/// The control flow around the permutation.
const PLACES: &[&str] = &[
    "for _ in 0..n { B }",
    "for _ in 0..x[i] % 5 { B }",
    "if x[i] % 2 == 0 { B }",
    "if x[i] % 3 == n { B } else { B\nB }",
    "var k = 0\nwhile k < n { if x[i] > k { B }\nk += 1 }",
    "for j in 0..n { if x[i] == j { continue }\nB\nif x[i] == j + 3 { break } }",
];

fn results(n: usize) -> Word {
    Word::Out(vec![0; n])
}

#[test]
fn aggregates_are_permuted_in_place() {
    let mut number = 0;
    for (declared, permutation_operands, looked_at) in PERMUTED {
        for place in PLACES {
            number += 1;
            let ty = TYPES[number % TYPES.len()];
            let body = format!("{declared}\n{}", place.replace('B', permutation_operands));
            let body = body.replace('X', "T(x[i])");
            let [a, b, c] = looked_at;
            let text = format!(
                "const C: [T; 3] = [T(3), T(8), T(11)]
                     struct S {{ a: T, b: T, v: Tx2 }}
                     struct O {{ s: S, k: T }}
                     struct A {{ w: [T; 3], v: Tx2 }}
                     fn rolled(s: A, k: i32) -> A {{
                         var t = s
                         t.w[k] = s.w[0]
                         t.w[0] = s.w[k]
                         t.v = Tx2(s.w[k], s.v.x)
                         t
                     }}
                     fn turned(v: Tx3) -> Tx3 {{ v.zxy }}
                     fn shifted(v: [T; 3]) -> [T; 3] {{ [v[1], v[2], v[0]] }}
                     fn turn(inout v: [T; 3]) {{ v = [v[2], v[1], v[0]] }}
                     fn table(v: T, k: i32) -> [T; 9] {{
                         var t: [T; 9] = v
                         for j in 0..9 {{
                             if j == k {{ return t }}
                             t[j] = T(j)
                         }}
                         t
                     }}
                     fn two(p: T, q: T) -> (T, T) {{ (q, p) }}
                     kernel k(x: [i32; N], out a: [i32; N], out b: [i32; N], out c: [i32; N], n: i32) threads(i: N) {{
                         {body}
                         a[i] = i32({a})
                         b[i] = i32({b})
                         c[i] = i32({c})
                     }}"
            );
            let text = as_type(&text, ty);
            for n in [0, 2, 3] {
                let x = Word::In((0..19).collect());
                let words = [x, results(19), results(19), results(19), Word::Value(n)];
                assert_eq!(agree(&text, LaunchExtents::Threads([19, 1, 1]), &words), None, "{text}");
            }
        }
    }
}

/// Replaces `T` by a type name where it is a word or, as in `Tx2`, the beginning of a vector type.
fn as_type(text: &str, ty: &str) -> String {
    let is_part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let mut out = String::new();
    let mut before = None;
    for (at, c) in text.char_indices() {
        let mut following = text[at + 1..].chars();
        let next = following.next();
        let vector = next == Some('x') && following.next().is_some_and(|c| c.is_ascii_digit());
        if c == 'T' && !is_part(before) && (vector || !is_part(next)) {
            out.push_str(ty)
        } else {
            out.push(c)
        }
        before = Some(c);
    }
    out
}

/// Code that uses a value right after computing it, and whose later values may share its register.
const SHARED: &[&str] = &[
    // The last component of a product is an operand of an addition, and is stored as well.
    "let p = f32x3(f, f + 1.0, f + 2.0) * f32x3(f, f, f)
     a[i] = i32(p.z + 1.0)
     b[i] = i32(p.x) + i32(p.z)
     c[i] = i32(p.y * p.z)",
    "let p = f32x2(f, f + 2.0) * f32x2(f, f)
     let q = p.y - f
     let r = f - p.y
     a[i] = i32(q)
     b[i] = i32(r)
     c[i] = i32(p.y)",
    // A loop writes a value to a component of a vector, and uses the value itself as well.
    "var v = i32x2(x[i], 100)
     var s = 0
     for j in 0..x[i] {
         let q = x[i] + j
         v.y = q
         s += q * 3
         if s > 50 { s = s / 3 }
     }
     a[i] = v.x
     b[i] = v.y
     c[i] = s",
    // One variable has the bits of another, with a different type.
    "var u = u32(7)
     var s = 0
     if x[i] % 3 == 1 {
         let q = x[i] + n
         u = u32(q)
         atomic_add(c[i], q)
         s = q * q
     }
     a[i] = i32(u)
     b[i] = s",
    // The result of a vector comparison is used as a condition, and is stored as well.
    "let m = f32x2(f, 3.0) < f32x2(5.0, f)
     if m.y { a[i] = 1 } else { a[i] = 2 }
     b[i] = i32(m.y)
     if !m.y && n > 1 { c[i] = i32(m.x) } else { c[i] = 4 + i32(m.y) }",
    // Uses a conversion of the thread's index, and a variable that changes after it was read.
    "var u = n
     for k in 0..n { u = u + k }
     let p = u32x2(i32x2(i, 5))
     let q = p.x + u32(u)
     u = u * 2
     a[i] = i32(q)
     b[i] = u
     c[i] = i32(p.y)",
    // Uses a component of the value that the vector had before it changed.
    "var v = i32x3(x[i], 5, 7)
     for k in 0..n {
         let old = v
         v = v.zxy
         a[i] = old.x + v.y * 10
         b[i] = old.z - v.x
         c[i] = old.y
     }",
];

#[test]
fn components_are_reread() {
    for body in SHARED {
        let text = format!(
            "kernel k(x: [i32; N], inout a: [i32; N], inout b: [i32; N], inout c: [i32; N], n: i32) threads(i: N) {{
                 let f = f32(x[i])
                 {body}
             }}"
        );
        for n in [0, 1, 2, 5] {
            let words = [Word::In((0..37).collect()), results(37), results(37), results(37), Word::Value(n)];
            assert_eq!(agree(&text, LaunchExtents::Threads([37, 1, 1]), &words), None, "{text}");
        }
    }
}
