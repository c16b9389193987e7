//! Runs examples, the reference, the standard library, ports of known programs, and correct kernels with `--device
//! both`. No run may report a difference between the simulator and the GPU (E0623).

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::*;

/// Seconds after which a program is assumed to hang.
const LIMIT: u64 = 300;

/// Runs a command, and ends it if it hangs.
fn limited(mut command: Command) -> RunOutput {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("clk starts");
    let id = child.id();
    let ended = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stop = ended.clone();
    let watch = std::thread::spawn(move || {
        let start = Instant::now();
        while !stop.load(Ordering::Relaxed) {
            if start.elapsed() > Duration::from_secs(LIMIT) {
                let _ = Command::new("kill").args(["-9", &id.to_string()]).status();
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    let output = child.wait_with_output().expect("clk ends");
    ended.store(true, Ordering::Relaxed);
    watch.join().expect("a watch");
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    RunOutput { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

/// Runs a program on both devices. Returns a description of its failure, if it fails.
fn failure(name: &str, text: &str) -> Option<String> {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("script.clk"), text).expect("written");
    let ran = limited(clk(folder.path(), &["run", "--device", "both", "script.clk"]));
    // This program asserts which block takes a lock first, which a GPU does not guarantee. It may fail if the run
    // reports that its results depend on the order.
    let by_order = name.ends_with("spin_loops.clk: a lock that is abandoned after several attempts")
        && ran.err.contains("`sim` itself gives other results when blocks and threads come in another order");
    let failed = ran.code != Some(0) && !by_order || ran.err.contains("E0623");
    failed.then(|| format!("== {name}: exit code {:?}\n{}", ran.code, ran.err))
}

/// Runs programs on both devices, several at a time; reports those that fail.
fn agree(what: &str, programs: &[(String, String)]) {
    let failures = Mutex::new(vec![]);
    let next = AtomicUsize::new(0);
    let runners = std::thread::available_parallelism().map_or(1, usize::from).min(8);
    std::thread::scope(|scope| {
        for _ in 0..runners {
            scope.spawn(|| {
                while let Some((name, text)) = programs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failed = failure(name, text);
                    failures.lock().expect("no runner panics").extend(failed);
                }
            });
        }
    });
    let mut failures: Vec<String> = failures.into_inner().expect("no runner panics");
    failures.sort();
    println!("{} of {} {what} agree", programs.len() - failures.len(), programs.len());
    assert!(!programs.is_empty(), "no {what}");
    assert!(failures.is_empty(), "{} of {}:\n{}", failures.len(), programs.len(), failures.join("\n"));
}

/// Returns the programs of a folder by name.
fn programs(folder: &str) -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join(folder)).expect("a folder");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "clk"));
    paths.sort();
    let read = |path: PathBuf| (path.display().to_string(), fs::read_to_string(&path).expect("a source"));
    paths.into_iter().map(read).collect()
}

#[test]
fn examples_and_the_reference_agree_with_the_simulator() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let (count, failures) = run_all(&["--device", "both"]);
    println!("{} of {count} scripts agree", count - failures.len());
    assert!(failures.is_empty(), "{} of {count} scripts:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_standard_library_passes_and_agrees() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let mut failures = String::new();
    for device in ["gpu", "both"] {
        let ran = finish(clk(&root(), &["test", "--device", device, "stdlib"]));
        println!("{device}: {}", ran.out.lines().last().unwrap_or_default());
        if ran.code != Some(0) {
            failures += &format!("== {device}: exit code {:?}\n{}{}", ran.code, ran.out, ran.err);
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

#[test]
fn ported_programs_agree() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    agree("ports", &programs("tests/peers/heldout"));
}

/// The correct kernels of `tests/sound` agree. They include locks and queues, whose results may depend on the order of
/// blocks.
#[test]
fn correct_kernels_agree() {
    let _beside = ALONE.read();
    if gpu().is_none() {
        return;
    }
    let sections = |(name, text): (String, String)| {
        let parts: Vec<&str> = text.split("//#").collect();
        let (_, parts) = parts.split_first().expect("a text");
        let section = |part: &&str| {
            let title = part.lines().next().unwrap_or_default().trim();
            (format!("{name}: {title}"), part.lines().skip(1).collect::<Vec<_>>().join("\n"))
        };
        parts.iter().map(section).collect::<Vec<_>>()
    };
    let kernels: Vec<(String, String)> = programs("tests/sound").into_iter().flat_map(sections).collect();
    agree("correct kernels", &kernels);
}
