//! Tests rules of the repository that the compiler does not check, about import cycles, unneeded `pub`, file sizes,
//! diagnostic codes, and the modules that may use a crate.

mod tidy_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clk_testing::root;
use tidy_support::Strings;
use tidy_support::circles::circles;

/// Every third-party crate in `Cargo.toml`, and the files and folders that may use it.
const OWNERS: &[(&str, &[&str])] = &[
    ("anstream", &["src/app/", "src/base/render/"]),
    ("ariadne", &["src/base/render/"]),
    ("blake3", &["src/runtime/"]),
    (
        "bytemuck",
        &["src/base/", "src/cuda/", "src/sim/product/", "src/host/array/", "src/host/files/", "src/host/graph/"],
    ),
    ("chumsky", &["src/syntax/"]),
    ("clap", &["src/app/cli/"]),
    ("clap_complete", &["src/app/cli/"]),
    ("clap_mangen", &["src/app/cli/install.rs"]),
    ("crc32fast", &["src/host/files/"]),
    ("ctrlc", &["src/app/"]),
    ("cudarc", &["src/cuda/driver/"]),
    ("flate2", &["src/host/files/"]),
    ("half", &["src/scalar/", "src/ir/text/"]),
    ("indexmap", &["src/"]),
    ("indicatif", &["src/app/"]),
    (
        "libc",
        &[
            "src/app/",
            "src/base/aligned.rs",
            "src/base/threads.rs",
            "src/runtime/worker_process/",
            "src/sim/jit/executable_memory.rs",
        ],
    ),
    ("libloading", &["src/cuda/"]),
    ("libm", &["src/scalar/"]),
    ("logos", &["src/import/", "src/syntax/"]),
    ("noto_sans_mono_bitmap", &["src/host/picture/font.rs"]),
    ("png", &["src/host/"]),
    ("postcard", &["src/app/ranks/", "src/cuda/isolate/"]),
    ("pulldown_cmark", &["src/app/site/"]),
    ("rustc_hash", &["src/"]),
    ("rustyline", &["src/app/debug/prompt.rs", "src/app/repl/"]),
    ("safetensors", &["src/host/"]),
    ("serde", &["src/app/ranks/", "src/base/", "src/cuda/", "src/host/files/", "src/host/ranks/", "src/scalar/"]),
    ("serde_bytes", &["src/cuda/isolate/"]),
    ("serde_json", &["src/app/", "src/base/render/", "src/host/files/"]),
    ("smallvec", &["src/app/", "src/cuda/", "src/host/", "src/sim/"]),
    ("smol_str", &["src/"]),
    ("strsim", &["src/app/", "src/check/", "src/compile/", "src/host/ops/"]),
    ("tempfile", &["src/app/"]),
    ("thiserror", &["src/"]),
    ("toml", &["src/app/project/"]),
    ("zune_jpeg", &["src/host/files/"]),
    ("zeno", &["src/host/picture/canvas.rs"]),
];

/// Calls that perform I/O. Only the crate `app` may contain them; the results of all other crates depend on their
/// arguments alone.
const IO: &[&str] = &[
    "std::fs",
    "std::env",
    "std::process",
    "std::net",
    "std::os::unix::net",
    "println!(",
    "eprintln!(",
    "std::io::stdout",
    "std::io::stderr",
    "std::io::stdin",
    "libc::",
];

/// Exceptions outside of the crate `app`: the file, the system interface that it uses, and the reason.
const SYSTEM: &[(&str, &str, &str)] = &[
    ("src/base/aligned.rs", "libc::", "advice on its own memory"),
    ("src/base/threads.rs", "libc::", "the signal mask of its own threads"),
    ("src/cuda/isolate/remote.rs", "std::os::unix::net", "a socket that the app opened"),
    ("src/cuda/isolate/serve.rs", "std::os::unix::net", "a socket that the app opened"),
    ("src/runtime/worker_process/mod.rs", "std::os::unix::net", "a socket that the app opened"),
    ("src/runtime/worker_process/mod.rs", "libc::", "waits for the end of that socket"),
    ("src/runtime/worker_process/segment.rs", "libc::", "memory that two processes share"),
    ("src/sim/jit/executable_memory.rs", "libc::", "memory that holds compiled code"),
];

/// Allowed import cycles, in files that handle recursive data: expressions contain blocks of statements, which contain
/// expressions; a compile-time argument is a constant, whose value may depend on compile-time arguments.
const RECURSIVE: &[&[&str]] = &[
    &[
        "src/syntax/parse/expressions.rs",
        "src/syntax/parse/statements.rs",
        "src/syntax/parse/strings.rs",
        "src/syntax/parse/types.rs",
    ],
    &["src/lower/constant/mod.rs", "src/lower/mono.rs"],
];

/// Type names that are defined more than once, with the reason. Every other name is unique in the workspace.
const SHARED_TYPE_NAMES: &[(&[&str], &str)] = &[
    (
        &["Block", "Expr", "ExprKind", "Kernel", "Stmt", "StmtKind"],
        "levels of the program: syntax tree, typed tree and DeviceIR; qualified where a file uses several",
    ),
    (
        &[
            "Const",
            "Field",
            "Fn",
            "Generic",
            "GenericKind",
            "Geometry",
            "Param",
            "Pattern",
            "StrPart",
            "Struct",
            "Type",
        ],
        "levels of the program: syntax tree and typed tree",
    ),
    (&["Local", "LocalId", "Module"], "levels of the program: typed tree and DeviceIR"),
    (&["Access", "Unroll"], "levels of the program: syntax tree and DeviceIR"),
    (&["Arg"], "an argument of a call in the syntax tree, and of a launch on a device"),
    (&["Notebook", "Program"], "a type of the compiler, and the Python class of this name that wraps it"),
    (&["Result"], "aliases of `std::result::Result` with the error type of a module"),
    (&["VectorDivision"], "the definition with machine code, and its replacement on other processors"),
];

/// Maximum percentage of type names that may be defined more than once.
const MAX_SHARED_PERCENT: usize = 10;

/// How often the code of each crate uses `Result<_, String>`, with the reason. Callers cannot match such an error, and
/// its message is not made in one place, so other crates use error types.
const STRING_ERRORS: &[(&str, usize, &str)] = &[
    ("host", 12, "helpers of the parser of tuning files; saved reasons of rejected configurations"),
    ("import", 3, "the parser of comments about sizes: titles of its diagnostics"),
    ("prove", 2, "reasons of verdicts: titles of diagnostics and faults"),
    ("runtime", 1, "the reason why a lost worker process was not replaced, a note of its diagnostic"),
    ("sim", 2, "the parser of LaneIR, which only tests use"),
];

const MAX_LINES: usize = 1000;

/// Maximum length of a comment line in columns; rustfmt wraps only code.
const MAX_COMMENT_COLUMNS: usize = 120;

/// Collects all files of the repository except build outputs and downloads.
fn files(folder: &Path, paths: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        let built = ["target", ".git", ".venv", "shared", "node_modules", "__pycache__"].contains(&name.as_str());
        if built || path.is_symlink() {
            continue;
        }
        if path.is_dir() { files(&path, paths) } else { paths.push(path) }
    }
}

/// Returns the path from the root (with `/`) and the content of each text file.
fn texts() -> Vec<(String, String)> {
    let mut paths = Vec::new();
    files(root(), &mut paths);
    let relative = |p: &Path| p.strip_prefix(root()).expect("inside").to_string_lossy().replace('\\', "/");
    paths.iter().filter_map(|p| Some((relative(p), fs::read_to_string(p).ok()?))).collect()
}

fn sources() -> Vec<(String, String)> {
    texts().into_iter().filter(|(p, _)| p.starts_with("src/") && p.ends_with(".rs")).collect()
}

/// Removes comments and test items.
fn code(text: &str) -> String {
    tidy_support::code(text, Strings::Kept)
}

/// Returns the layer of a source file: its folder in `src`, which is a separate crate.
fn layer(path: &str) -> &str {
    path.split('/').nth(1).expect("a file in src")
}

/// Returns the name of the function or constant that a line declares `pub`. Ignores types, which may have to be `pub`
/// because they appear in signatures of public functions.
fn published(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest =
        ["const fn ", "unsafe fn ", "fn ", "const ", "static "].iter().find_map(|word| rest.strip_prefix(word))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn items_unused_outside_a_crate_are_not_public() {
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(String::from).collect()
    };
    let mut words_of_layers: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in texts().into_iter().filter(|(path, _)| path.ends_with(".rs")) {
        let place = if path.starts_with("src/") { layer(&path) } else { "outside" };
        words_of_layers.entry(place.into()).or_default().extend(words(&text));
    }
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let own = layer(&path);
        let is_used = |name: &str| words_of_layers.iter().any(|(place, words)| place != own && words.contains(name));
        let names = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, published(line)?)));
        wrong.extend(names.filter(|(_, name)| !is_used(name)).map(|(line, name)| format!("{path}:{line}: {name}")));
    }
    assert!(
        wrong.is_empty(),
        "`pub(crate)` suffices for these, and the compiler then reports unused ones:\n{}",
        wrong.join("\n")
    );
}

/// Returns the third-party crates under a header of a manifest, with the names used in code.
fn dependencies(manifest: &str, header: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
    let mut inside = false;
    let mut names = BTreeSet::new();
    for line in text.lines() {
        match line.strip_prefix('[') {
            Some(title) => inside = title.trim_end_matches(']') == header || title.ends_with(".dependencies]"),
            None if inside => {
                let name = line.split(['=', '#', '.']).next().unwrap_or("").trim();
                let is_other = !name.is_empty() && !name.starts_with("clk-lang");
                names.extend(is_other.then(|| name.replace('-', "_")));
            }
            None => {}
        }
    }
    names
}

/// A layer depends only on crates that its code uses, so that an edit rebuilds as little as possible.
#[test]
fn layers_declare_only_used_dependencies() {
    let sources = sources();
    for folder in fs::read_dir(root().join("src")).expect("src").map(|e| e.expect("entry").path()) {
        let layer = folder.file_name().expect("name").to_string_lossy().into_owned();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let used: String = sources
            .iter()
            .filter(|(path, _)| path.starts_with(&format!("src/{layer}/")))
            .map(|(_, text)| code(text))
            .collect();
        let names = manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or("");
        for name in names.lines().filter_map(|line| line.strip_suffix(".workspace = true")) {
            let word = name.strip_prefix("clk-lang-").map_or(name.replace('-', "_"), |layer| format!("clk_{layer}"));
            assert!(used.contains(&word), "src/{layer}/Cargo.toml depends on `{name}`, which its code does not use");
        }
    }
}

#[test]
fn every_crate_has_its_owners() {
    let owned: BTreeSet<String> = OWNERS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(dependencies("Cargo.toml", "workspace.dependencies"), owned, "Cargo.toml and `OWNERS` differ");
    let mut unused: Vec<(&str, &str)> =
        OWNERS.iter().flat_map(|(name, owners)| owners.iter().map(|owner| (*name, *owner))).collect();
    for (path, text) in sources() {
        let code = code(&text);
        for (name, owners) in OWNERS {
            let is_start = |before: &str| {
                // `::half` is the crate, `scalar::half` is not.
                let before = before.strip_suffix("::").unwrap_or(before);
                !before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            };
            let used = code.match_indices(&format!("{name}::")).any(|(at, _)| is_start(&code[..at]))
                || code.contains(&format!("use {name};"))
                || code.contains(&format!("with = \"{name}\""));
            let owner = owners.iter().find(|owner| path.starts_with(**owner));
            assert!(!used || owner.is_some(), "{path} uses `{name}`, which belongs to {owners:?}");
            unused.retain(|(n, o)| !(used && n == name && Some(o) == owner));
        }
    }
    assert!(unused.is_empty(), "owners that do not use their crate: {unused:?}");
}

#[test]
fn only_the_app_does_io() {
    let mut needed = BTreeSet::new();
    for (path, text) in sources() {
        let is_app = path.starts_with("src/app/")
            || path == "src/main.rs"
            || path.ends_with("tests.rs")
            || path.contains("/tests/");
        let code = code(&text);
        for io in IO.iter().filter(|io| !is_app && code.contains(**io)) {
            let exempt = SYSTEM.iter().position(|(file, system, _)| *file == path && system == io);
            assert!(exempt.is_some(), "{path} uses `{io}`; only `src/app` performs I/O");
            needed.extend(exempt);
        }
    }
    for (position, exemption) in SYSTEM.iter().enumerate() {
        assert!(needed.contains(&position), "the exemption {exemption:?} is no longer needed");
    }
}

#[test]
fn files_of_a_layer_import_in_one_direction() {
    let all = circles(&sources());
    let is_known = |files: &[String]| RECURSIVE.iter().any(|k| files.iter().all(|file| k.contains(&file.as_str())));
    let new: String = all.iter().filter(|c| !is_known(&c.files)).map(|c| format!("{c}\n")).collect();
    assert!(new.is_empty(), "files that import each other; move shared items to a file that both import:\n{new}");
    let in_circles: BTreeSet<&str> = all.iter().flat_map(|c| &c.files).map(String::as_str).collect();
    let gone: Vec<_> = RECURSIVE.iter().flat_map(|k| k.iter()).filter(|file| !in_circles.contains(*file)).collect();
    assert!(gone.is_empty(), "these files are no longer in a cycle; remove them from the list: {gone:#?}");
}

/// Only one module opens files. It enforces rules: no pipes, no links of other users, and no predictable names.
#[test]
fn files_are_opened_and_replaced_in_one_place() {
    const WAYS: [&str; 6] =
        ["fs::write(", "fs::read(", "fs::read_to_string(", "File::open(", "File::create(", "env::temp_dir("];
    // This file opens a folder only to lock it.
    const EXEMPT: [(&str, &str); 1] = [("src/app/launch/socket.rs", "File::open(")];
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with("src/app/")) {
        let code = code(&text);
        for call in WAYS.into_iter().filter(|call| code.contains(call)) {
            let allowed = path.starts_with("src/app/disk/") || EXEMPT.contains(&(path.as_str(), call));
            assert!(allowed, "{path} uses `{call}`: `app::disk` opens, replaces and creates files");
        }
    }
}

#[test]
fn files_are_short() {
    let exempt = |path: &str| path.ends_with("parser.c") || path.ends_with("Cargo.lock");
    let long: Vec<String> = texts()
        .into_iter()
        .filter(|(path, _)| (path.ends_with(".rs") || path.ends_with(".clk") || path.ends_with(".py")) && !exempt(path))
        .map(|(path, text)| (text.lines().count(), path))
        .filter(|(lines, _)| *lines > MAX_LINES)
        .map(|(lines, path)| format!("{path}: {lines} lines"))
        .collect();
    assert!(long.is_empty(), "files over {MAX_LINES} lines:\n{}", long.join("\n"));
}

/// The root file of a module with files of its own is its `mod.rs`.
#[test]
fn module_roots_are_named_mod() {
    let paths: Vec<String> = sources().into_iter().map(|(path, _)| path).collect();
    let has_folder = |path: &&String| {
        let folder = path.trim_end_matches(".rs").to_owned() + "/";
        paths.iter().any(|other| other.starts_with(&folder))
    };
    let misnamed: Vec<&String> = paths.iter().filter(has_folder).collect();
    assert!(misnamed.is_empty(), "move these to `mod.rs` in the folder of their module: {misnamed:?}");
}

#[test]
fn comments_are_wrapped() {
    let mut long = vec![];
    for (path, text) in texts().into_iter().filter(|(path, _)| path.ends_with(".rs")) {
        let mut is_in_code_block = false;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| line.trim_start().starts_with("//")) {
            let comment = line.trim_start_matches(['/', '!', ' ']);
            is_in_code_block ^= comment.starts_with("```");
            // Lines of tables, code blocks and links cannot be wrapped.
            let can_wrap = !is_in_code_block && !comment.starts_with('|') && comment.contains(' ');
            if can_wrap && line.chars().count() > MAX_COMMENT_COLUMNS {
                long.push(format!("{path}:{}", number + 1));
            }
        }
    }
    assert!(long.is_empty(), "comments over {MAX_COMMENT_COLUMNS} columns:\n{}", long.join("\n"));
}

/// Returns the names of the types that a source file defines outside of tests.
fn types_of(path: &str, text: &str) -> Vec<String> {
    if path.ends_with("tests.rs") || path.contains("/tests/") {
        return vec![];
    }
    let mut names = vec![];
    for line in code(text).lines() {
        let mut words = line.split_whitespace().skip_while(|word| word.starts_with("pub") || *word == "unsafe");
        let keyword = words.next().unwrap_or_default();
        // Ignores associated types of traits, which are indented.
        let is_type = ["struct", "enum", "trait", "union"].contains(&keyword)
            || keyword == "type" && !line.starts_with(char::is_whitespace);
        let name = words.next().unwrap_or_default();
        let end = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
        if is_type && name.starts_with(char::is_uppercase) {
            names.push(name[..end].to_string());
        }
    }
    names
}

#[test]
fn type_names_are_unique() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let is_source = |path: &str| {
        path.ends_with(".rs") && ["src/", "python/src/", "editors/"].iter().any(|folder| path.starts_with(folder))
    };
    for (path, text) in texts().into_iter().filter(|(path, _)| is_source(path)) {
        for name in types_of(&path, &text) {
            places.entry(name).or_default().push(path.clone());
        }
    }
    assert!(places.len() > 1500, "only {} types were found", places.len());
    let mut wrong = vec![];
    for (name, paths) in places.iter().filter(|(_, paths)| paths.len() > 1) {
        if paths.iter().collect::<BTreeSet<_>>().len() < paths.len() {
            wrong.push(format!("`{name}` is defined twice in one file: {paths:?}"));
        }
        if !SHARED_TYPE_NAMES.iter().any(|(names, _)| names.contains(&name.as_str())) {
            wrong.push(format!("`{name}` is defined in {}", paths.join(" and ")));
        }
    }
    for name in SHARED_TYPE_NAMES.iter().flat_map(|(names, _)| *names) {
        if places.get(*name).is_none_or(|paths| paths.len() < 2) {
            wrong.push(format!("`{name}` is listed, but defined once at most"));
        }
    }
    assert!(wrong.is_empty(), "rename all but one, or list the name with a reason:\n{}", wrong.join("\n"));
    let shared = SHARED_TYPE_NAMES.iter().map(|(names, _)| names.len()).sum::<usize>();
    assert!(100 * shared <= MAX_SHARED_PERCENT * places.len(), "{shared} of {} type names are shared", places.len());
}

/// Returns the error types of all `Result` types with two arguments in a text without comments and literals.
fn error_types(code: &str) -> Vec<&str> {
    let mut types = vec![];
    for (at, start) in code.match_indices("Result<") {
        let arguments = &code[at + start.len()..];
        let (mut depth, mut last, mut before) = (0, None, ' ');
        for (at, c) in arguments.char_indices() {
            match c {
                '<' | '(' | '[' => depth += 1,
                // `->` in the type of a function.
                '>' if before == '-' => {}
                '>' | ')' | ']' if depth > 0 => depth -= 1,
                '>' => {
                    types.extend(last.map(|from| arguments[from..at].trim().trim_end_matches(',')));
                    break;
                }
                ',' if depth == 0 && !arguments[at + 1..].trim_start().starts_with('>') => last = Some(at + 1),
                ')' | ']' | ';' | '{' if depth == 0 => break,
                _ => {}
            }
            before = c;
        }
    }
    types
}

#[test]
fn error_types_are_found() {
    let types = "fn f(a: Result<(A, B), String>) -> Result<Vec<Result<u8, E>>,\n  String,\n> {} Result<Box<dyn Fn(u8) -> R>, G>";
    assert_eq!(error_types(types), ["String", "String", "E", "G"]);
    assert_eq!(error_types("Result<T> Result<(A, String)> Result<a, b; String>"), Vec::<&str>::new());
}

#[test]
fn errors_have_types() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (path, text) in
        sources().into_iter().filter(|(path, _)| !path.ends_with("tests.rs") && !path.contains("/tests/"))
    {
        let code = tidy_support::code(&text, Strings::Blanked);
        let count = error_types(&code).into_iter().filter(|name| *name == "String").count();
        if count > 0 {
            *counts.entry(layer(&path).to_string()).or_default() += count;
        }
    }
    let listed: BTreeMap<String, usize> =
        STRING_ERRORS.iter().map(|(layer, count, _)| (layer.to_string(), *count)).collect();
    assert_eq!(counts, listed, "uses of `Result<_, String>` (left) and `STRING_ERRORS` (right) differ");
}

#[test]
fn source_files_have_module_docs() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!") || path.ends_with("tests.rs"), "{path} has no module documentation (`//!`)");
    }
}

/// Returns the `CLK_…` names in string literals and in `$…` of shell scripts.
fn variables_in(text: &str) -> BTreeSet<String> {
    let starts =
        text.match_indices("CLK_").filter(|&(at, _)| at > 0 && matches!(text.as_bytes()[at - 1], b'"' | b'$' | b'{'));
    let name = |(at, _): (usize, &str)| {
        text[at..].chars().take_while(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || *c == '_').collect::<String>()
    };
    starts.map(name).filter(|name| name.len() > "CLK_".len()).collect()
}

#[test]
fn variables_are_documented() {
    let page = |name: &str| fs::read_to_string(root().join(name)).expect("a page");
    let pages = page("docs/commands.md") + &page("docs/benchmarks.md") + &page("CONTRIBUTING.md");
    // A test sets this variable for its own child processes. The help page documents the others.
    let private = ["CLK_TEST_CHILD"];
    let read =
        |path: &str| path.ends_with(".rs") || path.ends_with(".sh") || path.ends_with(".py") || path == ".ci/run";
    for (path, text) in texts().into_iter().filter(|(path, _)| read(path) && path != "tests/repository/tidy.rs") {
        for name in variables_in(&text) {
            let is_documented = private.contains(&name.as_str()) || pages.contains(&format!("`{name}"));
            assert!(is_documented, "{path} reads `{name}`, which neither docs/commands.md nor CONTRIBUTING explains");
        }
    }
}

/// Pages about the present code. The others list former names.
fn pages_about_code() -> impl Iterator<Item = (String, String)> {
    let pages = texts().into_iter().filter(|(path, _)| path.starts_with("docs/internals/") && path.ends_with(".md"));
    pages.filter(|(path, _)| !path.ends_with("/glossary.md") && !path.ends_with("/renames.md"))
}

/// Words in code font that are not names of the code: registers, and messages of protocols.
const OTHER_WORDS: &[&str] = &["r12", "r13", "r14", "r15", "Task", "ContentModified", "ServerCancelled"];

#[test]
fn pages_about_code_use_present_names() {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let files: Vec<(String, String)> = texts().into_iter().filter(|(path, _)| !path.ends_with(".md")).collect();
    let mut known: BTreeSet<&str> = OTHER_WORDS.iter().copied().collect();
    for (path, text) in &files {
        known.extend(text.split(|c: char| !is_word(c)));
        known.extend(path.split(['/', '.']));
    }
    let is_file = |name: &str| files.iter().any(|(path, _)| path == name || path.ends_with(&format!("/{name}")));
    let (mut names, mut unknown) = (0, vec![]);
    for (page, text) in pages_about_code() {
        let prose = text.split("```").step_by(2);
        for name in prose.flat_map(|text| text.split('`').skip(1).step_by(2)) {
            let is_path = name.contains('/') && name.ends_with(".rs");
            let parts: Vec<&str> = name.trim_end_matches("()").split("::").collect();
            let is_name = parts.iter().all(|part| !part.is_empty() && part.chars().all(is_word));
            names += usize::from(is_path || is_name);
            if is_path && !is_file(name) || is_name && !parts.iter().all(|part| known.contains(part)) {
                unknown.push(format!("{page}: {name}"));
            }
        }
    }
    assert!(names > 500, "{names} names");
    assert!(unknown.is_empty(), "the code has no such names: {unknown:#?}");
}

#[test]
fn no_machine_specific_paths() {
    let paths = ["/ro@ot/", "/ho@me/", "/Us@ers/", "/wo@rk/", "C:@\\"].map(|p| p.replace('@', ""));
    for (file, text) in texts() {
        for path in &paths {
            assert!(!text.contains(path.as_str()), "{file} holds `{path}`");
        }
    }
}

/// Returns the string literals that look like diagnostic codes.
fn codes_in(text: &str) -> BTreeSet<String> {
    let is_code = |s: &str| s.len() == 5 && s.starts_with(['E', 'W']) && s[1..].bytes().all(|b| b.is_ascii_digit());
    text.split('"').filter(|s| is_code(s)).map(str::to_string).collect()
}

#[test]
fn codes_and_pages_correspond() {
    let mut used = BTreeSet::new();
    let mut without_page = std::collections::BTreeMap::new();
    for (path, text) in sources() {
        if path.starts_with("src/codes/") || path.ends_with("tests.rs") {
            continue;
        }
        let codes = codes_in(&code(&text));
        without_page.extend(codes.iter().filter(|c| clk_codes::find(c).is_none()).map(|c| (c.clone(), path.clone())));
        used.extend(codes);
    }
    assert!(
        without_page.is_empty(),
        "codes without a page in lang/codes, and a file that reports them: {without_page:#?}"
    );
    let unused: Vec<&str> = clk_codes::pages().map(|p| p.code).filter(|c| !used.contains(*c)).collect();
    assert!(unused.is_empty(), "pages of codes that nothing reports: {unused:?}");
}

#[test]
fn pages_are_in_order() {
    let all: Vec<&str> = clk_codes::pages().map(|p| p.code).collect();
    assert!(all.is_sorted_by(|a, b| a < b), "{all:?}");
    for page in clk_codes::pages() {
        assert!(!page.title.ends_with('.'), "{}: a title has no full stop", page.code);
        assert!(page.text.trim().len() > 40, "{}: the page says too little", page.code);
    }
}

/// Returns the lines of a trait in `src/runtime/device.rs`, without its first and last line.
fn trait_lines<'t>(code: &'t str, name: &str) -> Vec<&'t str> {
    let start = format!("pub trait {name}");
    let mut lines = code.lines().skip_while(|line| !line.starts_with(&start));
    assert!(lines.next().is_some(), "there is no trait {name}");
    lines.take_while(|line| *line != "}").collect()
}

/// A back end has to decide about each method. `DeviceWrapper` exists for devices that change few methods.
#[test]
fn interface_of_devices_has_no_default_methods() {
    let code = code(&fs::read_to_string(root().join("src/runtime/device.rs")).expect("the file"));
    for name in ["Device", "DeviceMemory", "Interop", "Executable"] {
        let lines = trait_lines(&code, name);
        assert!(lines.iter().any(|line| line.contains("fn ")), "{name} has methods");
        let bodies: Vec<&&str> = lines.iter().filter(|line| line.contains('{')).collect();
        assert!(bodies.is_empty(), "methods of {name} with a body: {bodies:?}");
    }
}

#[test]
fn tests_of_wrappers_call_all_methods_of_devices() {
    let read = |path: &str| fs::read_to_string(root().join(path)).expect("the file");
    let device = code(&read("src/runtime/device.rs"));
    let words =
        |line: &&str| line.trim_start().strip_prefix("fn ")?.split('(').next().map(|name| name.replace('_', ""));
    let methods: BTreeSet<String> = trait_lines(&device, "Device").iter().filter_map(words).collect();
    let wrappers = read("src/app/devices/tests/wrappers.rs");
    let list = wrappers.split("\nmethods! {").nth(1).and_then(|rest| rest.split('}').next()).expect("the list");
    let called: BTreeSet<String> =
        list.split(',').map(|name| name.trim().to_lowercase()).filter(|name| !name.is_empty()).collect();
    assert_eq!(called, methods);
}
