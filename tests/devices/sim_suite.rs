//! Runs the kernels of `sim_suite/suite.rs` on the simulator: tests them on small inputs and, on request, measures
//! their speed.
//!
//! `cargo test --release --test devices -- sim_suite:: --ignored --nocapture` prints milliseconds per kernel
//! (`CLK_BENCH` selects kernels, `CLK_SIM_ISA` the instruction set).

mod suite;

use clk_runtime::LaunchExtents;
use clk_testing::setting;
use suite::*;

/// Returns deterministic pseudo-random numbers in (0, 1).
fn numbers(n: usize, mut seed: u32) -> Vec<f32> {
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 17;
        seed ^= seed << 5;
        (seed >> 8) as f32 / (1 << 24) as f32
    };
    (0..n).map(|_| next()).collect()
}

fn close(a: &[f32], b: &[f32], tolerance: f32) {
    let top = b.iter().fold(0f32, |m, x| m.max(x.abs()));
    for (i, (x, y)) in a.iter().zip(b).enumerate() {
        assert!((x - y).abs() <= tolerance * top, "at {i}: {x} and should be {y}");
    }
}

#[test]
fn saxpy_adds() {
    for n in [1, 15, 16, 1000, 5000] {
        let (x, mut y) = (numbers(n, 1), numbers(n, 2));
        let expected: Vec<f32> = x.iter().zip(&y).map(|(x, y)| 2.5 * x + y).collect();
        let extents = LaunchExtents::Threads([n as u32, 1, 1]);
        run(&saxpy(), extents, &mut [float(2.5), read(&x, &[n]), write(&mut y, &[n])], 2);
        assert_eq!(y, expected);
    }
}

fn mandel_reference(h: usize, n: usize, max: i32) -> Vec<i32> {
    let mut out = vec![];
    let s = 2.5 / n as f32;
    for py in 0..h {
        for px in 0..n {
            let (cx, cy) = (-2.0 + px as f32 * s, -1.25 + py as f32 * s);
            let (mut x, mut y, mut it) = (0f32, 0f32, 0);
            while it < max && x * x + y * y <= 4.0 {
                (x, y) = (x * x - y * y + cx, 2.0 * x * y + cy);
                it += 1;
            }
            out.push(it);
        }
    }
    out
}

#[test]
fn mandelbrot_counts_iterations() {
    for (h, w) in [(32, 32), (7, 70), (3, 1500)] {
        let mut out = vec![0; h * w];
        run(&mandel(), LaunchExtents::Threads([h as u32, w as u32, 1]), &mut [int(256), write(&mut out, &[h, w])], 2);
        assert_eq!(out, mandel_reference(h, w, 256));
    }
}

#[test]
fn matmul_multiplies() {
    for (m, k, n) in [(32, 32, 32), (17, 33, 50)] {
        let (a, b, mut c) = (numbers(m * k, 1), numbers(k * n, 2), vec![0f32; m * n]);
        let extents = grid([n.div_ceil(16), m.div_ceil(16)], [16, 16]);
        run(&matmul(), extents, &mut [read(&a, &[m, k]), read(&b, &[k, n]), write(&mut c, &[m, n])], 2);
        let dot = |i: usize| (0..k).fold(0f32, |s, j| s + a[i / n * k + j] * b[j * n + i % n]);
        assert_eq!(c, (0..m * n).map(dot).collect::<Vec<_>>());
    }
}

#[test]
fn reduce_sums() {
    let n = 256 * 20;
    let (x, mut part, mut out) = (numbers(n, 3), vec![0f32; 20], vec![0f32]);
    run(&reduce(), grid([20, 1], [256, 1]), &mut [read(&x, &[n]), write(&mut part, &[20])], 2);
    run(&reduce2(), grid([1, 1], [256, 1]), &mut [read(&part, &[20]), write(&mut out, &[1])], 2);
    close(&out, &[x.iter().map(|&v| v as f64).sum::<f64>() as f32], 1e-5);
}

#[test]
fn hist_counts() {
    let n = 4096 * 3;
    let d: Vec<u8> = numbers(n, 4).iter().map(|x| (x * x * 256.0) as u8).collect();
    let mut bins = vec![0u32; 256];
    run(&hist(), grid([3, 1], [256, 1]), &mut [read(&d, &[n]), write(&mut bins, &[256])], 2);
    let mut expected = vec![0u32; 256];
    d.iter().for_each(|&v| expected[v as usize] += 1);
    assert_eq!(bins, expected);
}

#[test]
fn nbody_pulls() {
    let n = 512;
    let (p, v) = (numbers(n * 4, 5), vec![0f32; n * 4]);
    let (mut po, mut vo) = (vec![0f32; n * 4], vec![0f32; n * 4]);
    let arrays = [read(&p, &[n]), read(&v, &[n]), write(&mut po, &[n]), write(&mut vo, &[n])];
    let mut args: Vec<_> = [float(0.01), float(1e-3)].into_iter().chain(arrays).collect();
    run(&nbody(), grid([2, 1], [256, 1]), &mut args, 2);
    drop(args);
    let mut expected = vec![0f32; n * 4];
    for i in 0..n {
        let mut acc = [0f64; 3];
        for j in 0..n {
            let d: Vec<f64> = (0..3).map(|k| p[4 * j + k] as f64 - p[4 * i + k] as f64).collect();
            let r = d.iter().map(|x| x * x).sum::<f64>() + 1e-3;
            (0..3).for_each(|k| acc[k] += d[k] * p[4 * j + 3] as f64 / (r * r.sqrt()));
        }
        (0..3).for_each(|k| expected[4 * i + k] = (acc[k] * 0.01) as f32);
    }
    close(&vo, &expected, 1e-4);
    assert!((0..n).all(|i| po[4 * i + 3] == p[4 * i + 3]));
}

#[test]
fn softmax_sums_to_one() {
    let (rows, cols) = (5, 1000);
    let x: Vec<f32> = numbers(rows * cols, 6).iter().map(|v| v * 20.0 - 10.0).collect();
    let mut y = vec![0f32; rows * cols];
    run(&softmax(), grid([rows, 1], [256, 1]), &mut [read(&x, &[rows, cols]), write(&mut y, &[rows, cols])], 2);
    for (x, y) in x.chunks(cols).zip(y.chunks(cols)) {
        let top = x.iter().fold(f32::NEG_INFINITY, |m, &v| m.max(v));
        let e: Vec<f64> = x.iter().map(|&v| f64::from(v - top).exp()).collect();
        let sum: f64 = e.iter().sum();
        close(y, &e.iter().map(|v| (v / sum) as f32).collect::<Vec<_>>(), 1e-5);
    }
}

#[test]
fn jacobi_averages() {
    let (h, w) = (37, 1300);
    let (a, mut b) = (numbers(h * w, 7), vec![0f32; h * w]);
    run(
        &jacobi(),
        LaunchExtents::Threads([h as u32, w as u32, 1]),
        &mut [read(&a, &[h, w]), write(&mut b, &[h, w])],
        2,
    );
    for i in 0..h * w {
        let (y, x) = (i / w, i % w);
        let inner = x > 0 && y > 0 && x < w - 1 && y < h - 1;
        let expected = if inner { 0.25 * (a[i - w] + a[i + w] + a[i - 1] + a[i + 1]) } else { 0.0 };
        assert_eq!(b[i], expected, "at {y}, {x}");
    }
}

/// Returns the CPU time of this thread in seconds or, with several workers, the wall-clock time.
fn seconds_now() -> f64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let wall = START.get_or_init(std::time::Instant::now).elapsed().as_secs_f64();
    if !std::env::var("CLK_WORKERS").is_ok_and(|w| w == "1") {
        return wall;
    }
    let schedule = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = schedule.split(' ').next().and_then(|n| n.parse::<f64>().ok());
    nanoseconds.map_or(wall, |n| n * 1e-9)
}

/// Measures the median of several runs, in milliseconds.
fn time(name: &str, mut f: impl FnMut()) {
    if std::env::var("CLK_BENCH").is_ok_and(|only| !only.split(',').any(|k| k == name)) {
        return;
    }
    f();
    let mut times: Vec<f64> = (0..9)
        .map(|_| {
            let (start, mut count) = (seconds_now(), 0);
            while count == 0 || seconds_now() - start < 0.03 {
                f();
                count += 1;
            }
            (seconds_now() - start) * 1e3 / f64::from(count)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    println!("{name:10} {:10.4} ms  (best {:.4})", times[4], times[0]);
}

#[test]
#[ignore = "a measurement"]
fn bench() {
    let workers = setting("CLK_WORKERS", 0);
    let n = 1 << 24;
    let (x, mut y) = (numbers(n, 1), numbers(n, 2));
    let k = saxpy();
    time("saxpy", || {
        run_best(
            &k,
            LaunchExtents::Threads([n as u32, 1, 1]),
            &mut [float(1.0009766), read(&x, &[n]), write(&mut y, &[n])],
            workers,
        )
    });
    let n = 1024;
    let mut out = vec![0; n * n];
    let k = mandel();
    time("mandel", || {
        run_best(
            &k,
            LaunchExtents::Threads([n as u32, n as u32, 1]),
            &mut [int(256), write(&mut out, &[n, n])],
            workers,
        )
    });
    let n = 512;
    let (a, b, mut c) = (numbers(n * n, 1), numbers(n * n, 2), vec![0f32; n * n]);
    let k = matmul();
    time("matmul", || {
        let mut args = [read(&a, &[n, n]), read(&b, &[n, n]), write(&mut c, &[n, n])];
        run_best(&k, grid([n / 16, n / 16], [16, 16]), &mut args, workers)
    });
    let n = 1 << 22;
    let (x, mut part, mut out) = (numbers(n, 3), vec![0f32; n / 256], vec![0f32]);
    let (k, k2) = (reduce(), reduce2());
    time("reduce", || {
        run_best(&k, grid([n / 256, 1], [256, 1]), &mut [read(&x, &[n]), write(&mut part, &[n / 256])], workers);
        run_best(&k2, grid([1, 1], [256, 1]), &mut [read(&part, &[n / 256]), write(&mut out, &[1])], workers);
    });
    let d: Vec<u8> = numbers(n, 4).iter().map(|x| (x * x * 256.0) as u8).collect();
    let mut bins = vec![0u32; 256];
    let k = hist();
    time("hist", || {
        run_best(&k, grid([n / 4096, 1], [256, 1]), &mut [read(&d, &[n]), write(&mut bins, &[256])], workers)
    });
    let n = 4096;
    let (p, v) = (numbers(n * 4, 5), vec![0f32; n * 4]);
    let (mut po, mut vo) = (vec![0f32; n * 4], vec![0f32; n * 4]);
    let k = nbody();
    time("nbody", || {
        let arrays = [read(&p, &[n]), read(&v, &[n]), write(&mut po, &[n]), write(&mut vo, &[n])];
        let mut args: Vec<_> = [float(0.01), float(1e-3)].into_iter().chain(arrays).collect();
        run_best(&k, grid([n / 256, 1], [256, 1]), &mut args, workers)
    });
    let (rows, cols) = (4096, 1024);
    let x: Vec<f32> = numbers(rows * cols, 6).iter().map(|v| v * 20.0 - 10.0).collect();
    let mut y = vec![0f32; rows * cols];
    let k = softmax();
    time("softmax", || {
        run_best(&k, grid([rows, 1], [256, 1]), &mut [read(&x, &[rows, cols]), write(&mut y, &[rows, cols])], workers)
    });
    let n = 2048;
    let (mut a, mut b) = (numbers(n * n, 7), vec![0f32; n * n]);
    let k = jacobi();
    time("jacobi", || {
        for _ in 0..5 {
            let extents = LaunchExtents::Threads([n as u32, n as u32, 1]);
            run_best(&k, extents, &mut [read(&a, &[n, n]), write(&mut b, &[n, n])], workers);
            run_best(&k, extents, &mut [read(&b, &[n, n]), write(&mut a, &[n, n])], workers);
        }
    });
    let mut p = vec![0i32; 4];
    let k = empty();
    time("empty1", || run_best(&k, grid([1, 1], [256, 1]), &mut [write(&mut p, &[4])], workers));
    time("empty64k", || run_best(&k, grid([65536, 1], [256, 1]), &mut [write(&mut p, &[4])], workers));
}
