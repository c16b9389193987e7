//! Tests the latency of a session: from its start to the prompt, and from a key press to the change on the screen with
//! 1,000 definitions in scope. The test limits only the time of the analysis at each key; `cargo test --release --test
//! session_speed -- --ignored --nocapture` prints the total times.
#![cfg(target_os = "linux")]

use std::io::Write;
use std::time::{Duration, Instant};

use clk_compile::NoFiles;
use clk_ide::Analysis;
use clk_testing::pty::Session;

fn report(label: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_secs_f64() * 1e3;
    println!("{label}: median {:.2} ms, 9 of 10 within {:.2} ms, most {:.2} ms", at(0.5), at(0.9), at(1.0));
}

/// The analysis at every key takes no longer with 1,000 definitions in scope than with few, since only the entry is
/// analyzed.
#[test]
fn key_presses_do_not_slow_down_with_many_definitions() {
    let entry = "let y = scaled_512(1.0, sqrt(2.0)) + scaled_77(clamp(3.0, 0.0, 1.0), 2.5)";
    let mut session = clk_compile::Session::default();
    let outcome = session.enter("many.clk", &definitions(1000), &NoFiles).outcome;
    assert!(!outcome.failed());
    let mut slowest = Duration::ZERO;
    for end in 1..=entry.len() {
        // Takes the fastest of several runs, since other programs may run on the machine.
        let key_time = || {
            let start = Instant::now();
            let analysis = Analysis::after(session.clone(), "<entry>", &entry[..end], &NoFiles);
            let signature = analysis.signature(end);
            let time = start.elapsed();
            drop(signature);
            time
        };
        slowest = slowest.max((0..7).map(|_| key_time()).min().unwrap_or_default());
    }
    println!("the slowest key: {:.2} ms", slowest.as_secs_f64() * 1e3);
    assert!(slowest < Duration::from_millis(5), "{slowest:?}");
}

fn definitions(count: usize) -> String {
    let one = |i| format!("/// Number {i}.\nfn scaled_{i}(x: f32, y: f32) -> f32 {{ x * {i}.0 + y }}\n");
    (0..count).map(one).collect()
}

#[test]
#[ignore = "prints times"]
fn session_response_times() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut starts = Vec::new();
    for _ in 0..30 {
        let start = Instant::now();
        let mut session = Session::start(folder.path());
        session.wait_for("clk 1> ");
        starts.push(start.elapsed());
    }
    report("from the start to the prompt", starts);
    std::fs::write(folder.path().join("many.clk"), definitions(1000)).expect("written");
    let mut session = Session::start(folder.path());
    session.wait_for("clk 1> ");
    session.type_slowly(":load many.clk");
    session.terminal.write_all(b"\r").expect("typed");
    session.wait_for("clk 1> ");
    let times = session.type_slowly("let y = scaled_512(1.0, sqrt(2.0)) + scaled_77(clamp(3.0, 0.0, 1.0), 2.5)");
    report("a key, with 1,000 definitions", times);
    session.terminal.write_all(b"\r").expect("typed");
    session.wait_for("clk 2> ");
    session.type_slowly("let z = scaled_9");
    let start = Instant::now();
    session.terminal.write_all(b"\t").expect("typed");
    assert!(session.waits(Duration::from_secs(10)), "completions");
    println!("Tab: {:.2} ms", start.elapsed().as_secs_f64() * 1e3);
}
