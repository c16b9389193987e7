//! The speed of the front end. `cargo test --release --test language -- front_end_speed:: --nocapture` prints the rate.

use std::time::Instant;

use clk_base::source::FileId;
use clk_syntax::{lex, parse};

/// Returns a function of ten lines of typical code, with the number `n` in its name.
fn function(n: usize) -> String {
    format!(
        "fn step_{n}(x: f32, y: f32, n: i32) -> f32 {{\n    var acc = 0.0\n    let scale = 1 / (1 + exp(-x)) * y\n    \
         for k in 0..n step 2 {{\n        if acc > 4.0 && k < n - 1 {{ break }}\n        \
         acc += scale * x + f32(k) * 0.5e-3 - sqrt(y * y + 1.0)\n    }}\n    // the result\n    max(acc, {n}.0)\n}}\n"
    )
}

#[test]
fn large_files_are_parsed_quickly() {
    let text: String = (0..10_000).map(function).collect();
    let lines = text.lines().count();
    let mut best = f64::INFINITY;
    let mut best_lex = f64::INFINITY;
    for _ in 0..5 {
        let start = Instant::now();
        let lexed = lex(FileId(0), &text);
        best_lex = best_lex.min(start.elapsed().as_secs_f64());
        assert!(lexed.diagnostics.is_empty());
        let start = Instant::now();
        let (file, diagnostics) = parse(FileId(0), &text);
        best = best.min(start.elapsed().as_secs_f64());
        assert!(diagnostics.is_empty(), "{diagnostics:#?}");
        assert_eq!(file.items.len(), 10_000);
    }
    println!(
        "{lines} lines: lex {:.1} ms, lex and parse {:.1} ms, {:.0} lines/s",
        best_lex * 1e3,
        best * 1e3,
        lines as f64 / best
    );
    assert!(best < 5.0, "{best} s for {lines} lines");
}
