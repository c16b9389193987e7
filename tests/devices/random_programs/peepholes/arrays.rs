//! Tests arrays of small elements at computed indices, and local arrays. Machine code has special instruction sequences
//! for both.

use super::*;

/// Returns `n` random bytes, packed into words.
fn packed(n: usize, seed: u32) -> Vec<u32> {
    noise(n.div_ceil(4), seed)
}

/// A kernel whose blocks have a shared array of small elements, which is filled, changed and read at computed indices.
/// `T` is the element type, `V` a conversion to it.
const SMALL: &str = "kernel small(x: [u32; N], out y: [i32; N], n: i32) grid(3) block(40) {
    shared s: [T; 131]
    shared q: [T; 3, 43]
    let t = thread_idx.x
    let i = block_idx.x * 40 + t
    for k in t..131 step 40 { s[130 - k] = V(x[(i + k) % N]) }
    for k in t..43 step 40 { q[0, k] = V(x[k]); q[1, 42 - k] = V(x[i] >> u32(k % 32)); q[2, k] = V(u32(k)) }
    barrier()
    let r = x[i]
    var sum = 0
    if r % 3 != 0 {
        sum += I(s[i32(r % 131)]) - 3 * I(s[130 - t])
        if r % 5 == 1 { sum += I(s[3 * t + 11]) } else { sum -= I(q[i32(r % 2), t + 2]) }
        sum = sum * 5 + I(q[i32(r % 3), i32(r % 43)]) + I(q[t % 3, 42])
    } else {
        for k in 0..i32(r % 9) { sum = sum * 3 + I(s[(t * k + i32(r >> 8 & 63)) % 131]) }
    }
    barrier()
    if sum % 4 != 1 {
        s[t * 3 + 11] = V(u32(sum))
        if r % 2 == 0 { q[t % 3, t] = V(r) } else { q[t % 3, t] = V(u32(sum >> 3)); s[t * 3 + 12] = V(r + 7) }
    }
    barrier()
    if t > n { s[130] = V(u32(t * 77)) }
    if r % 7 == 3 { q[2, 42] = V(9) }
    barrier()
    for k in 0..131 { sum = sum * 31 + I(s[k]) }
    for k in 0..43 { sum = sum * 31 + I(q[0, k]) - I(q[1, 42 - k]) * I(q[2, k]) }
    y[i] = sum
}";

#[test]
fn small_elements_at_computed_indices() {
    let types = [
        ("bool", "B", "fn B(x: u32) -> bool { x >> 3 & 1 == 1 }", "fn I(x: bool) -> i32 { if x { 5 } else { 2 } }"),
        ("u8", "B", "fn B(x: u32) -> u8 { u8(x & 0xff) }", "fn I(x: u8) -> i32 { i32(x) }"),
        ("i8", "B", "fn B(x: u32) -> i8 { i8(i32(x & 0xff) - 128) }", "fn I(x: i8) -> i32 { i32(x) }"),
        ("u16", "B", "fn B(x: u32) -> u16 { u16(x & 0xffff) }", "fn I(x: u16) -> i32 { i32(x) }"),
        ("i16", "B", "fn B(x: u32) -> i16 { i16(i32(x & 0xffff) - 32768) }", "fn I(x: i16) -> i32 { i32(x) }"),
    ];
    for (ty, convert, to, from) in types {
        let kernel = SMALL.replace("T;", &format!("{ty};")).replace("V(", &format!("{convert}("));
        let text = format!("{to}\n{from}\n{kernel}");
        for n in [17, 50] {
            let words = [Word::In(noise(120, 5)), Word::Out(vec![0; 120]), Word::Value(n)];
            assert_eq!(agree(&text, grid(3, [40, 1]), &words), None);
        }
    }
}

/// Accesses arrays of various lengths up to the last element, and one element past the end.
#[test]
fn ends_of_small_arrays() {
    for (size, ty) in [(1, "u8"), (1, "i8"), (2, "u16"), (2, "i16")] {
        let text = format!(
            "kernel ends(x: [u32; N], b: [{ty}; M], inout c: [{ty}; M], out y: [i32; N], n: i32) grid(2) block(48) {{
                 let i = block_idx.x * 48 + thread_idx.x
                 let k = i32(x[i] % u32(n))
                 var v = b[n - 1 - k]
                 if i % 3 != 1 {{ c[n - 1 - i] = b[k] }}
                 if i % 5 != 2 {{ v = b[k] }}
                 y[i] = i32(v) * 3 + i32(b[n - 1])
             }}"
        );
        for n in [97, 98, 99, 100, 101, 102, 103] {
            for limit in [n, n + 1] {
                let small = |seed| Word::Small(packed(n * size, seed), size, n);
                let words =
                    [Word::In(noise(96, 9)), small(3), small(4), Word::Out(vec![0; 96]), Word::Value(limit as i32)];
                let fault = agree(&text, grid(2, [48, 1]), &words);
                assert_eq!(fault.is_some(), limit > n, "{text}");
            }
        }
    }
}

/// If several lanes store to one element, the last lane wins, also in machine code that stores sequentially.
#[test]
fn lanes_that_store_to_one_element() {
    for ty in ["u8", "i16", "u32"] {
        let text = format!(
            "kernel one(x: [u32; N], out y: [i32; N], n: i32) grid(1) block(64) {{
                 shared s: [{ty}; 9]
                 let t = thread_idx.x
                 if t < 9 {{ s[t] = 0 }}
                 barrier()
                 let mine = {ty}(x[t] & 0x7f)
                 if x[t] % 3 != 2 {{ s[n] = mine }}
                 if t % 5 != n {{ s[8] = {ty}(t) }}
                 barrier()
                 if t == 40 {{ s[n + 4] = mine }}
                 barrier()
                 y[t] = i32(s[n]) * 100 + i32(s[t % 9]) + i32(s[n + 4])
             }}"
        );
        for n in 0..4 {
            let words = [Word::In(noise(64, 11)), Word::Out(vec![0; 64]), Word::Value(n)];
            assert_eq!(agree(&text, grid(1, [64, 1]), &words), None);
        }
    }
}

/// A kernel that accesses local arrays of `T` at constant, uniform and varying indices, in loops, in both branches, and
/// within one loop body.
const LOCAL: &str = "struct P { a: T, k: u8, d: i64, w: i32x3 }
kernel local(x: [u32; N], out y: [i32; N], n: i32) grid(2) block(BLOCK) {
    let i = (block_idx.x * BLOCKY + thread_idx.y) * BLOCKX + thread_idx.x
    let r = x[i]
    var h: [T; 8] = F(0)
    var big: [T; 5, 13] = F(1)
    var p: [P; 3] = P { a: F(2), k: 3, d: 4, w: i32x3(5, 6, 7) }
    for k in 0..8 { h[k] = F(r >> u32(k)) }
    h[3] = F(u32(n))
    h[n % 8] = F(r + 1)
    h[i32(r % 8)] = F(r + 2)
    if r % 3 == 0 {
        for k in 1..8 { h[k] = F(r + U(h[k - 1])) }
        big[n % 5, i32(r % 13)] = h[2]
    } else {
        for k in 0..i32(r % 11) { big[k % 5, k] = h[(k + n) % 8] }
        big[4, 12] = h[7 - i32(r % 4)]
        p[i32(r % 3)].d -= i64(r)
    }
    for k in 0..n {
        var inner: [T; 3] = F(0)
        inner[i32(r >> u32(k)) & 1] = h[k % 8]
        if k % 2 == 0 { inner[2] = big[k % 5, i32(r % 5)] } else { h[k % 8] = inner[1] }
        if U(inner[0]) % 7 == 6 { continue }
        p[k % 3].w.y += i32(U(inner[2]) & 0xff)
        p[i32(r % 3)].a = inner[i32(r % 2)]
    }
    p[2 - i32(r % 3)].k = u8(r & 0xff)
    p[n % 3].w = p[i32(r % 3)].w.zxy
    var sum = 0
    for k in 0..8 { sum = sum * 3 + i32(U(h[k]) & 0xffff) }
    for a in 0..5 { for b in 0..13 { sum = sum * 5 + i32(U(big[a, b]) & 0xffff) } }
    for k in 0..3 { sum = sum * 7 + i32(p[k].k) + i32(p[k].d & 0xfff) + p[k].w.x - 3 * p[k].w.y + p[k].w.z + i32(U(p[k].a) & 0xff) }
    y[i] = sum
}";

#[test]
fn local_arrays() {
    let types = [
        ("bool", "x >> 3 & 1 == 1", "if x { 5 } else { 2 }"),
        ("u8", "u8(x & 0xff)", "u32(x)"),
        ("i16", "i16(i32(x & 0xffff) - 32768)", "u32(i32(x) + 40000)"),
        ("i32", "i32(x & 0xffff_fff)", "u32(x & 0xffff_fff)"),
        ("f32", "f32(x & 0xffff)", "u32(i32(x))"),
        ("u64", "u64(x) << 13 | u64(x)", "u32(x >> 7 & 0xffff_ffff)"),
    ];
    let blocks = [[64, 1], [72, 1], [16, 3], [20, 5]];
    for (number, (ty, to, from)) in types.into_iter().enumerate() {
        for (block, n) in [(blocks[number % 4], [0, 5, 11][number % 3]), (blocks[(number + 2) % 4], 7)] {
            let kernel = LOCAL.replace("T;", &format!("{ty};")).replace("a: T", &format!("a: {ty}"));
            let dims = if block[1] == 1 { block[0].to_string() } else { format!("{}, {}", block[1], block[0]) };
            let kernel = kernel.replace("BLOCKX", &block[0].to_string()).replace("BLOCKY", &block[1].to_string());
            let kernel = kernel.replace("BLOCK", &dims);
            let text = format!("fn F(x: u32) -> {ty} {{ {to} }}\nfn U(x: {ty}) -> u32 {{ {from} }}\n{kernel}");
            let threads = 2 * (block[0] * block[1]) as usize;
            let words = [Word::In(noise(threads, 21)), Word::Out(vec![0; threads]), Word::Value(n)];
            assert_eq!(agree(&text, grid(2, block), &words), None);
        }
    }
}

/// If an index is out of bounds in one lane, the fault and all earlier writes match those of the reference interpreter.
#[test]
fn local_arrays_out_of_bounds() {
    let bad =
        ["h[n] = 1", "h[i32(x[i] % 8) + (if i == 70 { n } else { 0 })] = 1", "y[i] = h[n]", "y[i] = h[t / 8 + n]"];
    for (bad, n, fault) in bad.iter().flat_map(|b| [(b, 0, false), (b, 8, true), (b, -9, true)]) {
        let text = format!(
            "kernel bad(x: [u32; N], out y: [i32; N], n: i32) grid(2) block(64) {{
                 let t = thread_idx.x
                 let i = block_idx.x * 64 + t
                 var h: [i32; 8] = 0
                 for k in 0..8 {{ h[k] = i32(x[i] >> u32(k) & 0xff) }}
                 if t % 2 == 0 {{ h[i32(x[i] % 8)] += 3 }}
                 barrier()
                 for k in 1..8 {{ h[k] += h[k - 1] }}
                 {bad}
                 y[i] = h[7] * 3 + h[1]
             }}"
        );
        let words = [Word::In(noise(128, 31)), Word::Out(vec![0; 128]), Word::Value(n)];
        assert_eq!(agree(&text, grid(2, [64, 1]), &words).is_some(), fault, "{text}");
    }
}
