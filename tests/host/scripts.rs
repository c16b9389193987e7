//! Runs all programs that the repository shows: examples, tests of the standard library, and code blocks of its
//! documentation, the language reference and the manual. They run with checks on, which must report nothing.

use std::fs;
use std::path::{Path, PathBuf};

use clk_scalar::builtin;
use clk_testing::root;

/// Returns the `.clk` files of a folder, by name.
fn sources(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(root().join(folder)).expect("the folder is there");
    let paths = entries.map(|e| e.expect("an entry").path());
    let mut paths: Vec<PathBuf> = paths.filter(|p| p.extension().is_some_and(|e| e == "clk")).collect();
    paths.sort();
    paths
}

/// Returns the Markdown in the `///` comments of a source.
fn documentation(source: &str) -> String {
    source
        .lines()
        .filter_map(|l| l.trim_start().strip_prefix("///"))
        .map(|l| format!("{}\n", l.trim_start_matches(' ')))
        .collect()
}

/// Returns the ```` ```clk ```` blocks of a Markdown text.
fn blocks(markdown: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut open: Option<String> = None;
    for line in markdown.lines() {
        match (&mut open, line.trim()) {
            (None, "```clk") => open = Some(String::new()),
            (Some(_), "```") => blocks.extend(open.take()),
            (Some(text), _) => {
                text.push_str(line);
                text.push('\n');
            }
            (None, _) => {}
        }
    }
    blocks
}

/// Runs scripts in a temporary folder with the examples' data; reports the ones that fail.
fn all_run(scripts: Vec<(String, String)>) {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let data = scratch.path().join("examples/data");
    fs::create_dir_all(&data).expect("a data folder");
    for entry in fs::read_dir(root().join("examples/data")).expect("the data") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, data.join(path.file_name().expect("a name"))).expect("copied");
    }
    let mut failures = String::new();
    let count = scripts.len();
    for (name, text) in scripts {
        fs::write(scratch.path().join("script.clk"), text).expect("written");
        let ran = clk_testing::run(scratch.path(), &["run", "--check", "script.clk"]);
        if ran.code != 0 {
            failures += &format!("== {name}: exit code {}\n{}\n", ran.code, ran.err);
        } else if ran.err.contains("W0") {
            failures += &format!("== {name}: warns\n{}\n", ran.err);
        }
    }
    assert!(count > 0, "nothing to run");
    assert!(failures.is_empty(), "of {count} scripts:\n{failures}");
}

#[test]
fn every_example_runs_and_asserts_its_own_result() {
    let examples = sources("examples");
    assert!(examples.len() >= 24, "{} examples", examples.len());
    let mut scripts = Vec::new();
    for path in examples {
        let text = fs::read_to_string(&path).expect("a source");
        assert!(text.starts_with("//"), "{} does not begin with a comment about its subject", path.display());
        assert!(text.contains("assert("), "{} checks its own result", path.display());
        scripts.push((path.display().to_string(), text));
    }
    all_run(scripts);
}

#[test]
fn the_standard_library_passes_its_own_tests() {
    let ran = clk_testing::run(root(), &["test", "stdlib"]);
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains(" passed, 0 failed"), "{}", ran.out);
}

#[test]
fn the_standard_library_refuses_what_it_cannot_compute() {
    let refused = [
        ("std.fft", "fft.ifft_rows_f64(full(2, 0, f64x2(1.0f64)))", "a transform of no numbers"),
        ("std.fft", "fft.irfft(full(4, f32x2(1.0)), 8)", "the spectrum of 8 real numbers has 5 numbers, not 4"),
        ("std.linalg", "linalg.solve([[1.0, 2.0], [2.0, 4.0]], [1.0, 1.0])", "the matrix is singular: pivot 1 is zero"),
        ("std.linalg", "linalg.inv_batch(stack(eye(2), zeros(2, 2)))", "matrix 1 of the batch is singular: pivot 0"),
        ("std.linalg", "linalg.cholesky([[1.0, 0.0], [2.0, 1.0]])", "not positive definite: pivot 1 is not positive"),
        ("std.linalg", "linalg.solve_upper([[1.0, 0.0], [0.0, 0.0]], [1.0, 1.0])", "element 1 of the diagonal is zero"),
        ("std.linalg", "linalg.eigh([[1.0, 0.0], [1.0 / 0.0, 1.0]])", "a matrix has elements that are not finite"),
        ("std.linalg", "linalg.svd([[0.0 / 0.0]])", "a matrix has elements that are not finite"),
        ("std.linalg", "linalg.solve(f16(eye(2)), f16([1.0, 2.0]))", "`solve` computes with `f32` and `f64`"),
        ("std.linalg", "linalg.lstsq(zeros(2, 3), zeros(2))", "at least as many rows as columns, not 2 by 3"),
        ("std.linalg", "grad(linalg.det)(zeros(2, 2))", "`the derivative of det`: the matrix is singular"),
        (
            "std.linalg",
            "linalg.conjugate_gradients([[1.0, 0.0], [0.0, -1.0]], [1.0, 2.0], apply = linalg.matvec)",
            "the operator is not positive definite",
        ),
        (
            "std.linalg",
            "linalg.conjugate_gradients([[1.0, 0.0], [0.0, 9.0]], [1.0, 1.0], most = 1, apply = linalg.matvec)",
            "does not converge in 1 iterations",
        ),
        ("std.arrays", "arrays.median(zeros(0))", "a quantile of no elements"),
        ("std.arrays", "arrays.quantile([1.0], 1.5)", "the quantile 1.5 is not from 0 to 1"),
        ("std.arrays", "arrays.quantiles([1.0], [0.5, -0.1])", "a quantile is not from 0 to 1"),
        ("std.arrays", "arrays.tile([1], -1)", "an array -1 times"),
        ("std.arrays", "arrays.repeat_each([1, 2], [1, -1])", "an element less than 0 times"),
        ("std.arrays", "arrays.pad_wrap([1], -1, 0)", "padding by -1 and 0 elements"),
        ("std.arrays", "arrays.pad_edge(zeros(0), 1, 0)", "an empty array has no elements for its padding"),
        ("std.arrays", "arrays.pad([1], -1, 0, 5)", "-1"),
        ("std.arrays", "arrays.bincount([1, -1])", "`bincount` of a negative number"),
        ("std.arrays", "arrays.digitize([1.0], [1.0, 3.0, 2.0])", "neither ascend nor descend"),
        ("std.arrays", "arrays.interp([1.0], [2.0, 1.0], [0.0, 0.0])", "the points of `interp` do not ascend"),
        ("std.arrays", "arrays.interp([1.0], zeros(0), zeros(0))", "`interp` of no points"),
        ("std.arrays", "arrays.nanargmax([0.0 / 0.0])", "no element is a number"),
        ("std.scan", "scan.cumprod([100_000, 100_000])", "a product of the elements so far does not fit their type"),
        ("std.scan", "scan.cumprod([-128i8, -1i8])", "a product of the elements so far does not fit their type"),
        ("std.scan", "scan.cumprod([1u64 << 63, 2u64, 0u64])", "a product of the elements so far does not fit"),
        ("std.random", "random.choice(3, 4)", "a choice of 4 of 3 without replacement"),
        ("std.random", "random.poissons(1, -1.0, N = 2)", "the mean of a Poisson distribution is not between 0"),
        (
            "std.histogram",
            "histogram.of_range([0.0], 0.0, 1e-44, 3)",
            "3 bins from 0.0 to 1e-44 are too narrow for `f32`",
        ),
        (
            "std.histogram",
            "histogram.of_range([0.0], -3e38, 3e38, 3)",
            "the range from -3e38 to 3e38 is too wide for `f32`",
        ),
        ("std.reduce", "reduce.segment_sums([0, 2, 1], [1.0])", "the starts ascend"),
        ("std.reduce", "reduce.segment_sums([0], [1.0])", "no segments, and 1 elements from 0 on"),
        ("std.sparse", "sparse.matvec([0, 2, 1], [0], [1.0], [1.0])", "the starts ascend"),
        ("std.sparse", "sparse.matvec([1, 1, 2], [0, 0], [1.0, 1.0], [1.0])", "from 0 to the number of elements"),
        ("std.sparse", "sparse.matvec([0, 1, 1], [0, 0], [1.0, 1.0], [1.0])", "from 0 to the number of elements"),
        ("std.sparse", "sparse.matvec([0], [0], [1.0], [1.0])", "no segments, and 1 elements from 0 on"),
        (
            "std.sparse",
            "sparse.matvec([0, 2], [0, 1], [1.0, 1.0], [1.0])",
            "index 1 is out of bounds for `x` of length 1",
        ),
        ("std.sparse", "sparse.matvec([0, 1], [-1], [1.0], [1.0])", "index -1 is out of bounds for `x` of length 1"),
    ];
    let scratch = tempfile::tempdir().expect("a scratch folder");
    for (module, call, message) in refused {
        fs::write(scratch.path().join("script.clk"), format!("import {module}\nprint({call})\n")).expect("written");
        let ran = clk_testing::run(scratch.path(), &["run", "script.clk"]);
        assert!(ran.code != 0 && ran.err.contains(message), "{call}: {}{}", ran.out, ran.err);
    }
}

#[test]
fn every_item_of_the_standard_library_is_documented_with_a_running_example() {
    let mut scripts = Vec::new();
    for path in sources("stdlib") {
        let text = fs::read_to_string(&path).expect("a source");
        let examples = blocks(&documentation(&text));
        assert!(!examples.is_empty(), "{} has examples", path.display());
        scripts.extend(examples.into_iter().map(|e| (path.display().to_string(), e)));
    }
    all_run(scripts);
}

#[test]
fn every_block_of_the_language_reference_runs() {
    let text = fs::read_to_string(root().join("grammar/README.md")).expect("the reference");
    all_run(blocks(&text).into_iter().enumerate().map(|(i, b)| (format!("block {}", i + 1), b)).collect());
}

/// Returns the pages for users, whose blocks run: the README, and all of `docs`.
fn pages() -> Vec<String> {
    let mut pages = vec!["README.md".to_string()];
    let mut folders = vec!["docs".to_string()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("the folder is there") {
            let name = format!("{folder}/{}", entry.expect("an entry").file_name().to_string_lossy());
            match root().join(&name).is_dir() {
                true => folders.push(name),
                false => pages.extend(name.ends_with(".md").then_some(name)),
            }
        }
    }
    pages.sort();
    assert!(pages.len() >= 40, "{} pages", pages.len());
    pages
}

fn page(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect("a page")
}

#[test]
fn every_block_of_the_pages_runs() {
    let mut scripts = Vec::new();
    for name in pages() {
        let numbered = blocks(&page(&name)).into_iter().enumerate();
        scripts.extend(numbered.map(|(i, block)| (format!("{name}, block {}", i + 1), block)));
    }
    all_run(scripts);
}

/// The output of a command as a page shows it, after the program that the command runs on.
struct ShownOutput {
    program: String,
    words: String,
    /// A line `…` replaces omitted output.
    text: String,
    /// The range of lines of the text in the page, counted from 0.
    lines: std::ops::Range<usize>,
}

/// Returns the ```` ```text clk WORDS ```` blocks of a Markdown text.
fn shown(markdown: &str) -> Vec<ShownOutput> {
    let mut examples = Vec::new();
    let mut program = String::new();
    let mut open: Option<(String, String, usize)> = None;
    for (at, line) in markdown.lines().enumerate() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(info)) => open = Some((info.to_string(), String::new(), at + 1)),
            (Some((_, text, _)), None) => {
                text.push_str(line);
                text.push('\n');
            }
            (Some(_), Some(_)) => {
                let (info, text, first) = open.take().expect("an open block");
                if info == "clk" || info == "clk fails" {
                    program = text;
                } else if let Some(words) = info.strip_prefix("text clk ") {
                    let (program, words) = (program.clone(), words.to_string());
                    examples.push(ShownOutput { program, words, text, lines: first..at });
                }
            }
            (None, None) => {}
        }
    }
    examples
}

/// Returns the output of a command for a program, in a folder with the examples' data.
fn printed(scratch: &Path, program: &str, words: &str) -> String {
    fs::write(scratch.join("kernels.clk"), program).expect("written");
    // Arguments that contain spaces are in single quotes.
    let parts = words.split('\'').enumerate();
    let mut args: Vec<&str> =
        parts.flat_map(|(i, part)| if i % 2 == 1 { vec![part] } else { part.split_whitespace().collect() }).collect();
    if !args.contains(&"kernels.clk") {
        args.push("kernels.clk");
    }
    let ran = clk_testing::run(scratch, &args);
    format!("{}{}", ran.out, ran.err)
}

/// Removes output that depends on whether NVRTC is installed, and on its version.
fn without_registers(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.contains(" registers a thread, ")).collect()
}

/// `CLK_BLESS=1` rewrites blocks that differ, except blocks in which `…` stands for omitted output.
#[test]
fn command_output_in_pages_is_current() {
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let bless = std::env::var_os("CLK_BLESS").is_some();
    let (mut count, mut failures) = (0, String::new());
    for name in pages() {
        let text = page(&name);
        let mut lines: Vec<&str> = text.lines().collect();
        let blocks = shown(&text);
        count += blocks.len();
        let outputs: Vec<String> =
            blocks.iter().map(|shown| printed(scratch.path(), &shown.program, &shown.words)).collect();
        // Starts with the last block, so that the line numbers of earlier blocks stay valid.
        for (ShownOutput { words, text, lines: at, .. }, printed) in blocks.iter().zip(&outputs).rev() {
            let (shown, said) = (without_registers(text), without_registers(printed));
            let is_true = !shown.is_empty() && shown.split("…\n").all(|part| said.contains(part.trim()));
            if !is_true && bless && !text.contains("…\n") {
                lines.splice(at.clone(), printed.trim_end().lines());
            } else if !is_true {
                failures += &format!("{name}: `clk {words}` does not print\n{text}\nbut\n{printed}\n");
            }
        }
        if bless {
            fs::write(root().join(&name), lines.join("\n") + "\n").expect("written");
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= 75, "{count} commands are shown");
}

/// Compares the pictures of the pages with those that the examples and the code blocks of the pages draw. `CLK_BLESS=1`
/// rewrites them.
#[test]
fn pictures_match_program_output() {
    let folder = root().join("docs/pictures");
    let entries = fs::read_dir(&folder).expect("the pictures").map(|e| e.expect("an entry").file_name());
    let names: Vec<String> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    let examples = sources("examples").into_iter().map(|path| fs::read_to_string(path).expect("a source"));
    let programs: Vec<String> = examples.chain(pages().iter().flat_map(|name| blocks(&page(name)))).collect();
    let scratch = tempfile::tempdir().expect("a scratch folder");
    fs::create_dir_all(scratch.path().join("examples/data")).expect("a folder");
    for entry in fs::read_dir(root().join("examples/data")).expect("the data") {
        let path = entry.expect("an entry").path();
        fs::copy(&path, scratch.path().join("examples/data").join(path.file_name().expect("a name"))).expect("copied");
    }
    let mut failures = Vec::new();
    for name in &names {
        let drawing: Vec<&String> = programs.iter().filter(|text| text.contains(&format!("\"{name}\""))).collect();
        let [program] = drawing[..] else {
            failures.push(format!("{} programs draw {name}", drawing.len()));
            continue;
        };
        // Uses `--deterministic`, since with several workers atomic sums depend on the order of threads.
        printed(scratch.path(), program, "run --deterministic");
        let drawn = fs::read(scratch.path().join(name)).unwrap_or_default();
        if std::env::var_os("CLK_BLESS").is_some() && !drawn.is_empty() {
            fs::write(folder.join(name), drawn).expect("written");
        } else if fs::read(folder.join(name)).expect("a picture") != drawn {
            failures.push(format!("{name} is not what its program draws"));
        }
    }
    assert!(names.len() >= 8 && failures.is_empty(), "of {} pictures: {failures:#?}", names.len());
}

/// The README shows the current output of its first program.
#[test]
fn the_readme_is_current() {
    let text = page("README.md");
    let program = blocks(&text).into_iter().next().expect("a program");
    let promised = program.lines().filter_map(|line| line.split_once("// ")).find(|(code, _)| code.contains("print"));
    let folder = tempfile::tempdir().expect("a folder");
    let said = printed(folder.path(), &program, "run");
    assert_eq!(promised.map(|(_, said)| said), Some(said.trim()));
    let mandelbrot =
        clk_testing::run(folder.path(), &["run", &root().join("examples/mandelbrot.clk").to_string_lossy()]);
    assert!(text.contains(&format!("```text\n{}```", mandelbrot.out)), "{}", mandelbrot.out);
    // The README shows the message of the book's chapter on blocks, without its notes.
    let message =
        text.split("```text\nerror[E0601]").nth(1).and_then(|rest| rest.split("```").next()).expect("a message");
    let chapter = page("docs/book/06-blocks.md");
    let program = chapter.split("```clk fails\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a program");
    let said = printed(folder.path(), program, "run").replace("kernels.clk", "guard.clk");
    assert!(said.contains(message.trim_end()), "{said}");
}

/// Returns the names in a cell of a table: the text in backticks up to the first space or parenthesis.
fn names(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).filter_map(|text| text.split([' ', '(', '[']).next()).collect()
}

#[test]
fn the_list_of_numpy_functions_is_current() {
    let text = fs::read_to_string(root().join("grammar/numpy.md")).expect("the list");
    let rows = text
        .lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| NumPy") && !line.starts_with("| ---"));
    let modules = ["arrays", "complex", "fft", "histogram", "linalg", "math", "random", "scan", "sort"];
    let mut script: String = modules.iter().map(|module| format!("import std.{module}\n")).collect();
    let mut functions = 0;
    for row in rows {
        let cells: Vec<&str> = row.trim_matches('|').splitn(3, " | ").map(str::trim).collect();
        let [name, verdict, example] = cells[..] else { panic!("not three cells: {row}") };
        let is_builtin = |name: &&str| builtin::find(name).is_some();
        functions += names(name).len();
        match verdict {
            "same" => assert!(names(name).iter().any(is_builtin), "nothing here is called so: {row}"),
            "as" => {}
            "no" => {
                assert!(!names(name).iter().any(is_builtin), "there is one: {row}");
                assert!(!example.is_empty(), "no reason: {row}");
                continue;
            }
            _ => panic!("{verdict}: {row}"),
        }
        let example = example.strip_prefix('`').and_then(|text| text.strip_suffix('`'));
        script += &format!("assert({})\n", example.unwrap_or_else(|| panic!("no example: {row}")));
    }
    assert!(functions >= 150, "{functions} functions");
    all_run(vec![("numpy.md".into(), script)]);
}
