//! Tests proofs about the cost of warp accesses: limits that are proved, refuted or undecided, and random indices with
//! which runs must not exceed the proved limits.

use clk_check::typed::KernelId;
use clk_prove::{ProofReport, ProofVerdict, Property, prove_kernel};

use super::{compiled, kernels, letter};
use clk_testing::random::Random;

fn report(text: &str) -> ProofReport {
    let session = compiled("warps.clk", text).unwrap_or_else(|| panic!("it has mistakes: {text}"));
    let id: KernelId = kernels(&session).last().expect("a kernel").0;
    prove_kernel(&session.program, id)
}

/// Tests the verdicts on the cost limits of kernels: proved (`p`), refuted (`r`), or undecided (`.`).
#[test]
fn limits() {
    let kernels = [
        // Global memory: accesses that begin at a sector, and accesses that begin within a sector.
        ("p", "(x: [f32; N], inout y: [f32; N]) threads(i: N) expect sectors <= 4 { y[i] = y[i] + x[i] }"),
        ("r", "(x: [f32; N], out y: [f32; N]) threads(i: N) expect sectors <= 3 { y[i] = x[i] }"),
        ("p", "(x: [f64; N], out y: [f64; N]) threads(i: N) expect sectors <= 8 { y[i] = x[i] }"),
        ("r", "(x: [f64; N], out y: [f64; N]) threads(i: N) expect sectors <= 4 { y[i] = x[i] }"),
        ("p", "(x: [u8; N], out y: [u8; N]) threads(i: N) expect sectors <= 1 { y[i] = x[i] }"),
        ("p", "(x: [f32x4; N], out y: [f32; N]) threads(i: N) expect sectors <= 16 { y[i] = x[i].w + x[i].x }"),
        ("r", "(x: [f32; N], out y: [f32; N]) threads(i: N) expect sectors <= 4 { y[i] = x[min(i + 1, N - 1)] }"),
        ("p", "(x: [f32; N], out y: [f32; N]) threads(i: N) expect sectors <= 5 { if i + 1 < N { y[i] = x[i + 1] } }"),
        ("p", "(x: [f32; N], out y: [f32; N]) threads(i: N) expect sectors <= 4 { y[i] = x[i / 2] + x[0] }"),
        ("p", "(x: [f32; N], out y: [f32; N]) threads(i: N) expect sectors <= 8 { if 2 * i < N { y[i] = x[2 * i] } }"),
        // Rows of unknown length begin at any address; rows of known or assumed length do not.
        ("r", "(x: [f32; M, N], out y: [f32; M, N]) threads(r: M, c: N) expect sectors <= 4 { y[r, c] = x[r, c] }"),
        ("p", "(x: [f32; M, N], out y: [f32; M, N]) threads(r: M, c: N) expect sectors <= 5 { y[r, c] = x[r, c] }"),
        ("p", "(x: [f32; M, 64], out y: [f32; M, 64]) threads(r: M, c: 64) expect sectors <= 4 { y[r, c] = x[r, c] }"),
        (
            "p",
            "(x: [f32; M, N], out y: [f32; M, N]) threads(r: M, c: N) assume N % 8 == 0 expect sectors <= 4 {
                y[r, c] = x[r, c]
            }",
        ),
        // An alignment of half a sector is not enough.
        (
            "r",
            "(x: [f32; M, N], out y: [f32; M, N]) threads(r: M, c: N) assume N % 4 == 0 expect sectors <= 4 {
                y[r, c] = x[r, c]
            }",
        ),
        ("r", "(x: [f32; N, N], out y: [f32; N, N]) threads(r: N, c: N) expect sectors <= 5 { y[r, c] = x[c, r] }"),
        // An index from memory.
        (
            ".",
            "(x: [f32; N], at: [i32; M], out y: [f32; M]) threads(i: M) assume all(at == 0), N > 0 expect sectors <= 4 {
                y[i] = x[at[i]]
            }",
        ),
        ("r", "(x: [f32; 64], at: [i32; M], out y: [f32; M]) threads(i: M) assume permutation(at) expect sectors <= 1 {
            y[i] = x[at[i] % 64]
        }"),
        // These kernels run in blocks of 16 by 16 threads, because the number of iterations differs between threads.
        (
            "p",
            "(x: [i32; M, 64], out y: [i32; M, 64]) threads(r: M, c: 64) expect sectors <= 4 {
                var n = x[r, c]
                while n > 1 { n = n / 2 }
                y[r, c] = n
            }",
        ),
        (
            "r",
            "(x: [i32; M, 512], out y: [i32; M, 512]) threads(r: M, c: 512) expect sectors <= 2 {
                var n = x[r, c]
                while n > 1 { n = n / 2 }
                y[r, c] = n
            }",
        ),
        // Accesses to shared memory: columns of a tile, padded and swizzled tiles, elements of 8 bytes, and strided
        // elements.
        ("r", "(out y: [f32; 32]) grid(1) block(32) expect bank_ways <= 1 {
            shared s: [f32; 32, 32]
            for k in 0..32 { s[k, thread_idx.x] = 1.0 }
            barrier()
            y[thread_idx.x] = s[thread_idx.x, 3]
        }"),
        ("p", "(out y: [f32; 32]) grid(1) block(32) expect bank_ways <= 1, sectors <= 4 {
            shared s: [f32; 32, 33]
            for k in 0..32 { s[k, thread_idx.x] = 1.0 }
            barrier()
            y[thread_idx.x] = s[thread_idx.x, 3]
        }"),
        ("p", "(out y: [f32; 32, 32]) grid(1) block(32, 32) expect bank_ways <= 1 {
            shared s: [f32; 32, 32]
            let (a, b) = (thread_idx.x, thread_idx.y)
            s[b, a ^ b] = 1.0
            barrier()
            y[b, a] = s[a, b ^ a]
        }"),
        ("p", "(out y: [f64; 64]) grid(1) block(64) expect bank_ways <= 1, sectors <= 8 {
            shared s: [f64; 64]
            s[thread_idx.x] = 1.0
            barrier()
            y[thread_idx.x] = s[63 - thread_idx.x]
        }"),
        ("p", "(out y: [f32; 64]) grid(1) block(64) expect bank_ways <= 2 {
            shared s: [f32; 128]
            s[2 * thread_idx.x] = 1.0
            s[2 * thread_idx.x + 1] = 1.0
            barrier()
            y[thread_idx.x] = s[2 * thread_idx.x]
        }"),
        ("p", "(out y: [f32; 64]) grid(1) block(64) expect bank_ways <= 1 {
            shared s: [f32; 128]
            if thread_idx.x < 16 { s[2 * thread_idx.x] = 1.0 }
            barrier()
            y[thread_idx.x] = s[0]
        }"),
        // A block of any size, and rows of threads that are not whole warps.
        ("p", "(out y: [f32; N], b: i32) grid(ceil_div(N, b)) block(b) assume b > 0, b <= 1024 expect bank_ways <= 1, sectors <= 5 {
            shared s: [f32; 1024]
            s[thread_idx.x] = 1.0
            if global_idx.x < N { y[global_idx.x] = s[thread_idx.x] }
        }"),
        ("p", "(out y: [f32; 8, 48]) grid(1) block(48, 8) expect bank_ways <= 1, sectors <= 4 {
            shared s: [f32; 8, 48]
            s[thread_idx.y, thread_idx.x] = 1.0
            y[thread_idx.y, thread_idx.x] = s[thread_idx.y, thread_idx.x]
        }"),
        // A grid stride.
        (
            "p",
            "(x: [f32; N], out y: [f32; B, 256]) grid(B) block(256) assume B <= 4096, N <= 1_000_000_000 expect sectors <= 4 {
                var sum = 0.0
                for i in global_idx.x..N step 256 * grid_dim.x { sum += x[i] }
                y[block_idx.x, thread_idx.x] = sum
            }",
        ),
        // Loops that lanes leave in different iterations: by the condition, by `break`, and with an inner loop that all
        // lanes leave together. The inner loop has the same trip count for all lanes.
        (
            "r",
            "(n: [i32; 32], out y: [f32; 32]) grid(1) block(32) expect bank_ways <= 1 {
                shared s: [f32; 32, 32]
                for k in 0..32 { s[k, thread_idx.x] = 1.0 }
                barrier()
                var c = 0
                while c < n[thread_idx.x] && c < 31 { c += 1 }
                y[thread_idx.x] = s[c, 0]
            }",
        ),
        (
            "r.",
            "(n: [i32; N], x: [f32; 100000], out y: [f32; N]) threads(i: N) expect sectors <= 4 {
                var c = 0
                for k in 0..1000 {
                    c = 100 * k
                    if k == n[i] { break }
                }
                y[i] = x[c]
            }",
        ),
        (
            "r.",
            "(n: [i32; N], x: [f32; 100000], out y: [f32; N]) threads(i: N) expect sectors <= 4 {
                var c = 0
                for k in 0..100 {
                    var d = 0
                    while d < 50 * k { d += 1 }
                    c = d
                    if k == n[i] { break }
                }
                y[i] = x[c]
            }",
        ),
        (
            "p",
            "(x: [f32; 100000], m: i32, out y: [f32; N]) threads(i: N) expect sectors <= 5 {
                var c = 0
                while c < m { c += 1 }
                y[i] = if c < 1000 && i < 1000 { x[c + i] } else { 0.0 }
            }",
        ),
        (
            "p",
            "(n: [i32; N], x: [f32; 100000], out y: [f32; N]) threads(i: N) expect sectors <= 5 {
                var sum = 0.0
                for k in 0..100 {
                    if i < 1000 { sum += x[k + i] }
                    if k == n[i] { break }
                }
                y[i] = sum
            }",
        ),
        // Arrays of constants, indexed by the lane.
        (
            "p",
            "(out y: [f32; 32]) grid(1) block(32) expect bank_ways <= 1 {
                shared s: [f32; 32, 32]
                let turned = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5]
                s[turned[thread_idx.x], thread_idx.x] = 1.0
                y[thread_idx.x] = 1.0
            }",
        ),
        (
            "r",
            "(out y: [f32; 32]) grid(1) block(32) expect bank_ways <= 3 {
                shared s: [f32; 32, 32]
                let turned = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4, 6, 2, 6, 4, 3, 3, 8, 3, 2, 7, 9, 5]
                s[turned[thread_idx.x], 0] = 1.0
                y[thread_idx.x] = 1.0
            }",
        ),
        // Atomic operations of a warp on one word are serialized.
        ("r", "(inout y: [i32; 1]) grid(1) block(32) expect bank_ways <= 31 {
            shared s: [i32; 1]
            if thread_idx.x == 0 { s[0] = 0 }
            barrier()
            atomic_add(s[0], 1)
            barrier()
            if thread_idx.x == 0 { y[0] = s[0] }
        }"),
        ("p", "(inout y: [i32; 32]) grid(1) block(32) expect bank_ways <= 1 {
            shared s: [i32; 32]
            s[thread_idx.x] = 0
            barrier()
            atomic_add(s[thread_idx.x], 1)
            barrier()
            y[thread_idx.x] = s[31 - thread_idx.x]
        }"),
    ];
    let mut wrong = String::new();
    for (expected, kernel) in kernels {
        let report = report(&format!("kernel k{kernel}"));
        let own = report.verdicts.iter().filter(|(p, _)| matches!(p, Property::BankWays(_) | Property::Sectors(_)));
        let actual: Vec<char> = own.map(|(property, _)| letter(&report, *property).to_ascii_lowercase()).collect();
        if !actual.iter().all(|c| expected.starts_with(*c)) || actual.is_empty() {
            wrong += &format!("{expected} expected, {actual:?} found: {kernel}\n{:?}\n", report.verdicts.last());
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

/// Returns the access cost of a warp that the counterexample of a refuted limit reports.
fn paid(verdict: Option<&ProofVerdict>) -> Option<u32> {
    let Some(ProofVerdict::Refuted { found, .. }) = verdict else { return None };
    found.title.split(' ').find_map(|word| word.parse().ok())
}

/// With random indices, no run exceeds the proved cost, and the proved cost is close to the measured one.
#[test]
fn warp_costs_stay_within_proved_bounds() {
    let mut stream = Random(0x7a11);
    let mut exact = 0;
    for number in 0..30 {
        let mut pick = |all: &[&str]| stream.pick(all).to_string();
        let ty = pick(&["f32", "f32", "u8", "f64", "i16"]);
        let terms = [
            "t",
            "2 * t",
            "3 * t",
            "t / 4",
            "t % 8",
            "t ^ 5",
            "31 - t % 32",
            "u",
            "17 * u",
            "u * 32",
            "k",
            "8 * k",
            "t ^ u",
            "w",
        ];
        let index = format!("{} + {} + {}", pick(&terms), pick(&terms), pick(&terms));
        let block = pick(&["32", "64", "16, 4", "8, 8", "5, 13"]);
        let guard = pick(&["true", "t % 2 == 0", "u == 0", "t < 10"]);
        let kernel = |limit: &str| {
            format!(
                "kernel k(x: [{ty}; N], out y: [{ty}; 8192]) grid(2) block({block}) expect {limit} {{
                    shared s: [{ty}; 2048]
                    let (t, u, w) = (thread_idx.x, thread_idx.y, block_idx.x)
                    for k in 0..3 {{
                        let at = {index}
                        if {guard} {{
                            s[at] = {ty}(1)
                            if at < N {{ y[at] = x[at] }}
                        }}
                    }}
                }}"
            )
        };
        for (name, wrap) in [("bank_ways", Property::BankWays as fn(u32) -> Property), ("sectors", Property::Sectors)] {
            // The smallest proved limit.
            let is_proved = |most: u32| {
                letter(&report(&kernel(&format!("{name} <= {most}"))), wrap(most)).eq_ignore_ascii_case(&'p')
            };
            let least = (1..=4).chain([8, 16, 32, 64]).find(|&most| is_proved(most));
            let wrap_report = report(&kernel(&format!("{name} <= 1")));
            let paid = paid(wrap_report.verdict(wrap(1))).unwrap_or(1);
            let Some(least) = least else { continue };
            assert!(paid <= least, "program {number}: {paid} paid, {name} <= {least} proved: {}", kernel(name));
            exact += usize::from(least <= paid || least > 4);
        }
    }
    assert!(exact > 30, "{exact} limits are exact");
}
