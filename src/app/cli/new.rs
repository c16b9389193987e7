//! `clk new`: creates a small project with a kernel, its tests, a benchmark and a `clk.toml`. The created programs run
//! without changes.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{Arg, Command, value_parser};

use crate::context::AppContext;
use crate::project::{self, MANIFEST};
use crate::{disk, exit};
use clk_base::diag::Diagnostic;
use clk_base::file_error::FileError;
use clk_base::source::SourceMap;

/// The diagnostic code for a project that cannot be created.
const CANNOT_CREATE: &str = "E0732";

pub(crate) fn command() -> Command {
    Command::new("new").about("Make a project: a kernel, its tests, a benchmark, and a `clk.toml`").arg(
        Arg::new("path")
            .value_name("NAME")
            .required(true)
            .value_parser(value_parser!(PathBuf))
            .help("The folder to make; its last part is the project's name"),
    )
}

/// The files of a new project: path and text. `NAME` in a text is replaced by the project's name.
const FILES: &[(&str, &str)] = &[
    (MANIFEST, "name = \"NAME\"\n\n[dependencies]\n"),
    (".gitignore", "*.png\n*.npy\n"),
    ("NAME.clk", LIBRARY),
    ("main.clk", MAIN),
    ("tests.clk", TESTS),
    ("bench.clk", BENCH),
    ("README.md", README),
];

const LIBRARY: &str = "\
/// Kernels that others can import: `import NAME`.

/// Adds a multiple of `x` to `y`, element by element.
kernel axpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {
    r[i] = a * x[i] + y[i]
}
";

const MAIN: &str = "\
// A script: `clk run main.clk`.

import NAME

let x = linspace(0.0, 1.0, 5)
print(NAME.axpy(2.0, x, ones(5)))
";

const TESTS: &str = "\
// `clk test` runs these, with all checks.

import NAME

test \"axpy adds a multiple\" {
    assert(NAME.axpy(2.0, [1.0, 2.0], [0.5, 0.5]) == [2.5, 4.5])
}

test \"axpy of nothing is nothing\" {
    assert(len(NAME.axpy(2.0, zeros(0), zeros(0))) == 0)
}
";

const BENCH: &str = "\
// `clk bench` measures these.

import NAME

let x = random(1 << 20, seed = 1)
let y = random(1 << 20, seed = 2)

bench \"axpy, 2^20\" bytes = 12 * (1 << 20) { NAME.axpy(2.0, x, y) }
";

const README: &str = "\
# NAME

| command | what it does |
| --- | --- |
| `clk run main.clk` | runs the script |
| `clk test` | runs the tests |
| `clk bench` | measures the benchmarks |
| `clk watch main.clk` | runs the script again whenever a file changes |

Kernels are in `NAME.clk`. Other projects that list this one in their `clk.toml` import it with `import NAME`.
";

pub(crate) fn folder(path: &Path, context: &mut AppContext) -> u8 {
    match create_project(path) {
        Ok(name) => {
            let shown = path.display();
            context.console.fact(&format!("made `{shown}`, a project named `{name}`"));
            context.console.fact(&format!("next: `cd {shown}`, `clk run main.clk`, `clk test`"));
            exit::OK
        }
        Err(diagnostic) => {
            context.console.report(&diagnostic, &SourceMap::default());
            exit::FAILURE
        }
    }
}

fn create_project(path: &Path) -> Result<String, Box<Diagnostic>> {
    let refused = |title: String| Diagnostic::error(CANNOT_CREATE, title);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    if let Some(why) = project::project_name_error(&name) {
        let usual = name.to_lowercase().replace(['-', ' ', '.'], "_");
        let refusal = refused(format!("`{name}` cannot be a project's name: {why}"));
        return Err(Box::new(match project::project_name_error(&usual) {
            None => refusal.help(format!("`clk new {}`", path.with_file_name(&usual).display())),
            Some(_) => refusal,
        }));
    }
    if path.exists() && !fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) {
        let refusal = refused(format!("`{}` exists already", path.display()));
        return Err(Box::new(refusal.help("give a name that is free, or add a `clk.toml` with `name = \"…\"` there")));
    }
    fs::create_dir_all(path)
        .map_err(|error| refused(format!("`{}` cannot be made: {}", path.display(), FileError::from(error))))?;
    for (file, text) in FILES {
        let file = path.join(file.replace("NAME", &name));
        disk::write_atomically(&file, text.replace("NAME", &name).as_bytes())
            .map_err(|why| disk::unwritable(&file, &why))?;
    }
    Ok(name)
}
