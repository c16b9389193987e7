//! Tests the options that select how `mma` adds its products.

use super::{clk, finish, folder_with, run};

#[test]
fn fast_mma_rounds_each_sum_and_says_so() {
    // Adds 1 and fifteen terms of 2^-24, each half a ULP of the sum so far. Tensor cores add all terms exactly and then
    // truncate the sum; one `f32` addition per term loses the small terms.
    const TEXT: &str = "
kernel product(a: [bf16; M, K], b: [bf16; K, N], out c: [f32; M, N]) grid(1) block(32) {
    shared acc: [f32; 16, 16]
    acc = 0.0
    for k in 0..K step 16 { acc = mma(acc, a[..16, k..k + 16], b[k..k + 16, ..16]) }
    c[..16, ..16] = acc
}
kernel rounded(a: [f32; M, K], b: [f32; K, N], out c: [f32; M, N]) grid(1) block(32) {
    shared acc: [f32; 16, 16]
    acc = 0.0
    for k in 0..K step 16 { acc = mma(acc, tf32(a[..16, k..k + 16]), tf32(b[k..k + 16, ..16])) }
    c[..16, ..16] = acc
}
let x = bf16(select(arange(16) == 0, 1.0, exp2(-12.0)))
let (a, b) = (x + bf16(zeros(16, 1)), reshape(x, 16, 1) + bf16(zeros(1, 16)))
print(product(a, b)[15, 15] - 1.0)
let more = 1.0 + exp2(-12.0)
print(rounded(f32(a) * more, f32(b) * more)[15, 15] - 1.0)
";
    let folder = folder_with(&[("mma.clk", TEXT)]);
    let exact = run(folder.path(), &["run", "--device", "sim", "mma.clk"]);
    assert_eq!((exact.code, exact.out.as_str(), exact.err.as_str()), (0, "8.34465e-7\n8.34465e-7\n", ""));
    for arguments in [["run", "--fast-mma", "mma.clk"].as_slice(), &["run", "--fast-mma", "--check", "mma.clk"]] {
        let fast = run(folder.path(), arguments);
        assert_eq!((fast.code, fast.out.as_str()), (0, "0.0\n0.0\n"), "{}", fast.err);
        assert!(fast.err.contains("note: `mma` adds in `f32` (--fast-mma)"), "{}", fast.err);
    }
    // The tiles of this product fit into the registers of a GPU, but not into its shared memory.
    const LARGE: &str = "
kernel large(a: [bf16; 128, 16], b: [bf16; 16, 512], out c: [f32; 128, 512]) grid(1) block(128) {
    shared left: [f32; 128, 256]
    shared right: [f32; 128, 256]
    left = 0.0
    right = 0.0
    left = mma(left, a[..128, ..16], b[..16, ..256])
    right = mma(right, a[..128, ..16], b[..16, 256..512])
    c[..128, ..256] = left
    c[..128, 256..512] = right
}
print(sum(large(bf16(ones(128, 16)), bf16(ones(16, 512)))))
";
    let folder = folder_with(&[("mma.clk", TEXT), ("large.clk", LARGE)]);
    for arguments in [["run", "large.clk"].as_slice(), &["run", "--fast-mma", "large.clk"]] {
        let large = run(folder.path(), arguments);
        assert_eq!((large.code, large.out.as_str()), (0, "1048576.0\n"), "{}", large.err);
    }
    let refused = run(folder.path(), &["run", "--fast-mma", "--device", "gpu", "mma.clk"]);
    assert_eq!(refused.code, 2);
    assert!(refused.err.contains("--fast-mma is for the simulator"), "{}", refused.err);
}

#[test]
fn mma_matches_the_bits_of_the_chosen_tensor_cores() {
    // Adds 1 and fifteen terms of 2^-25. Next to 1, sm_90 tensor cores keep bits down to 2^-25, and sm_80 tensor cores
    // drop this bit.
    const TEXT: &str = "
kernel product(a: [f16; M, K], b: [f16; K, N], out c: [f32; M, N]) grid(1) block(32) {
    shared acc: [f32; 16, 16]
    acc = 0.0
    for k in 0..K step 16 { acc = mma(acc, a[..16, k..k + 16], b[k..k + 16, ..16]) }
    c[..16, ..16] = acc
}
let is_first = arange(16) == 0
let (a, b) = (f16(select(is_first, 1.0, exp2(-12.0))), f16(select(is_first, 1.0, exp2(-13.0))))
print(product(a + f16(zeros(16, 1)), reshape(b, 16, 1) + f16(zeros(1, 16)))[15, 15] - 1.0)
";
    let folder = folder_with(&[("mma.clk", TEXT)]);
    let sm90 = "3.5762787e-7\n";
    let cases: [(&[&str], &str); 3] = [(&[], sm90), (&["--mma", "sm_90"], sm90), (&["--mma", "sm_80"], "0.0\n")];
    for (options, expected) in cases {
        for jit in ["always", "off"] {
            let words = [&["run", "--device", "sim"], options, &["mma.clk"]].concat();
            let ran = finish(clk(folder.path()).args(&words).env("CLK_SIM_JIT", jit));
            assert_eq!((ran.code, ran.out.as_str(), ran.err.as_str()), (0, expected, ""), "{options:?} {jit}");
        }
    }
    let unknown = run(folder.path(), &["run", "--mma", "sm_70", "mma.clk"]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.err.contains("there is no model of tensor cores `sm_70`; models are sm_80 and sm_90"),
        "{}",
        unknown.err
    );
    let both = run(folder.path(), &["run", "--mma", "sm_80", "--fast-mma", "mma.clk"]);
    assert_eq!(both.code, 2, "{}", both.err);
}
