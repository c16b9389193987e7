//! Collects the kernels that the repository's programs launch.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use clk_base::file_error::FileError;
use clk_base::source::SourceMap;
use clk_compile::{NoFiles, Session};
use clk_host::interp::{HostEffects, Interpreter, ScriptOptions};
use clk_host::picture::shown::ShownPicture;
use clk_ir::{PreparedKernel, text};
use clk_runtime::{Capabilities, Control, Device, DeviceWrapper, Executable};
use clk_sim::Simulator;

/// A kernel, and the program that launches it.
pub struct Kernel {
    pub name: String,
    pub prepared: Arc<PreparedKernel>,
}

/// A simulator that records the kernels that it loads.
#[derive(Default)]
struct Recorder {
    simulator: Simulator,
    seen: Mutex<Vec<Arc<PreparedKernel>>>,
}

impl DeviceWrapper for Recorder {
    fn inner(&self) -> &dyn Device {
        &self.simulator
    }

    /// The host must not compute results itself, because only launched kernels are recorded.
    fn capabilities(&self) -> Capabilities {
        Capabilities::SYNCHRONOUS
    }

    fn load(&self, kernel: Arc<PreparedKernel>, sources: Option<&SourceMap>) -> Arc<dyn Executable> {
        self.seen.lock().expect("the list").push(kernel.clone());
        self.simulator.load(kernel, sources)
    }
}

/// The I/O of a script: reads files, but writes and shows nothing.
struct SilentEffects<'a>(&'a Path);

impl HostEffects for SilentEffects<'_> {
    fn print(&mut self, _: &str) {}

    fn show(&mut self, _: ShownPicture) {}

    fn read(&mut self, path: &str) -> Result<Vec<u8>, FileError> {
        Ok(std::fs::read(self.0.join(path))?)
    }

    fn write(&mut self, _: &str, _: &[u8]) -> Result<(), FileError> {
        Ok(())
    }
}

pub fn sources(root: &Path, folder: &str, ending: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root.join(folder)).expect("the folder is there");
    let mut paths: Vec<PathBuf> = entries.map(|e| e.expect("an entry").path()).collect();
    paths.retain(|p| p.extension().is_some_and(|e| e == ending));
    paths.sort();
    paths
}

/// Returns the ```` ```clk ```` blocks of a text, without the `///` of comments.
fn blocks(text: &str) -> Vec<String> {
    let mut blocks = vec![];
    let mut open: Option<String> = None;
    for line in text.lines() {
        let line = line.trim_start().strip_prefix("///").map_or(line, |l| l.strip_prefix(' ').unwrap_or(l));
        match (&mut open, line.trim()) {
            (None, "```clk") => open = Some(String::new()),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(text), _) => text.push_str(&format!("{line}\n")),
            (None, _) => {}
        }
    }
    blocks
}

/// Runs a program and its tests on a device; returns the number of failed tests. A script that fails intentionally does
/// so at its end, after all its launches.
pub fn run(root: &Path, name: &str, text: &str, device: Arc<dyn Device>, script: bool) -> usize {
    let mut session = Session { folder: root.to_path_buf(), ..Session::default() };
    let outcome = session.add(name, text, &NoFiles);
    if outcome.failed() {
        return 0;
    }
    let options = ScriptOptions { args: vec![], control: Control::default(), seed: None, device };
    let mut interpreter = Interpreter::new(options);
    let mut world = SilentEffects(root);
    if script {
        for chunk in outcome.chunks.clone() {
            if interpreter.run_chunk(&session, chunk, &mut world).is_err() {
                break;
            }
        }
    }
    let own: Vec<_> =
        session.program.tests.iter().filter(|(_, t)| Some(t.module) == session.main).map(|(id, _)| id).collect();
    // A failed test has launched its kernels nevertheless, so it is only counted.
    own.into_iter().filter(|&id| interpreter.run_test(&session, id, &mut world).is_err()).count()
}

/// Returns every kernel that the standard library, the examples, the benches and the documentation launch, each once.
pub fn every_kernel(root: &Path) -> Vec<Kernel> {
    let mut programs = vec![];
    for folder in ["stdlib", "examples", "examples/bench"] {
        for path in sources(root, folder, "clk") {
            let text = std::fs::read_to_string(&path).expect("a source");
            let name = path.strip_prefix(root).expect("inside").display().to_string();
            // The scripts of benches take long and do not run; their tests launch the same kernels.
            programs.push((name.clone(), text.clone(), folder == "examples"));
            let examples = blocks(&text).into_iter().enumerate();
            programs.extend(examples.map(|(i, block)| (format!("{name}, example {}", i + 1), block, true)));
        }
    }
    let reference = std::fs::read_to_string(root.join("grammar/README.md")).expect("the reference");
    programs.extend(
        blocks(&reference).into_iter().enumerate().map(|(i, b)| (format!("reference, block {}", i + 1), b, true)),
    );
    let mut kernels: Vec<Kernel> = vec![];
    let mut printed = std::collections::HashSet::new();
    for (name, text, script) in programs {
        let recorder = Arc::new(Recorder::default());
        run(root, &name, &text, recorder.clone(), script);
        for prepared in recorder.seen.lock().expect("the list").drain(..) {
            if printed.insert(text::print(&prepared.module)) {
                kernels.push(Kernel { name: format!("{name}: {}", prepared.module.kernel.name), prepared });
            }
        }
    }
    kernels
}
