//! Rules of the repository that the compiler does not check: import circles, what is public, file sizes, diagnostic codes, and which module
//! may use which crate.

mod tidy_support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use clk_lang::lang::codes;
use tidy_support::Strings;
use tidy_support::circles::circles;

/// Every dependency of `Cargo.toml`, and the places that may use it.
const OWNERS: &[(&str, &[&str])] = &[
    ("anstream", &["src/app/", "src/base/render/"]),
    ("ariadne", &["src/base/render/"]),
    ("blake3", &["src/device/cuda/"]),
    ("bytemuck", &["src/base/", "src/device/cuda/", "src/device/sim/product/", "src/host/array/", "src/host/graph/"]),
    ("chumsky", &["src/syntax/"]),
    ("clap", &["src/app/cli/"]),
    ("clap_complete", &["src/app/cli/"]),
    ("clap_mangen", &["src/app/cli/install.rs"]),
    ("crc32fast", &["src/host/files/"]),
    ("ctrlc", &["src/app/"]),
    ("cudarc", &["src/device/cuda/driver/"]),
    ("flate2", &["src/host/files/"]),
    ("half", &["src/lang/scalar/", "src/ir/text/"]),
    ("indexmap", &["src/"]),
    ("indicatif", &["src/app/"]),
    (
        "libc",
        &[
            "src/app/",
            "src/base/aligned.rs",
            "src/base/threads.rs",
            "src/device/cuda/isolate/",
            "src/device/sim/jit/exec.rs",
        ],
    ),
    ("libloading", &["src/device/cuda/"]),
    ("libm", &["src/lang/functions.rs", "src/lang/scalar/"]),
    ("logos", &["src/syntax/"]),
    ("png", &["src/host/"]),
    ("pulldown_cmark", &["src/app/site/"]),
    ("rustc_hash", &["src/"]),
    ("rustyline", &["src/app/debug/prompt.rs", "src/app/repl/"]),
    ("safetensors", &["src/host/"]),
    ("serde_json", &["src/app/", "src/base/render/", "src/host/files/"]),
    ("smallvec", &["src/app/", "src/device/", "src/host/"]),
    ("smol_str", &["src/"]),
    ("strsim", &["src/app/", "src/check/", "src/compile/", "src/host/ops/"]),
    ("tempfile", &["src/app/"]),
    ("toml", &["src/app/project/"]),
];

/// I/O, which only the app performs: everything below it is a function of its arguments.
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

/// What is not the app's and yet calls the system, and why.
const SYSTEM: &[(&str, &str, &str)] = &[
    ("src/base/aligned.rs", "libc::", "advice on its own memory"),
    ("src/base/threads.rs", "libc::", "the signal mask of its own threads"),
    ("src/device/cuda/isolate/mod.rs", "std::os::unix::net", "a socket that the app opened"),
    ("src/device/cuda/isolate/remote.rs", "std::os::unix::net", "a socket that the app opened"),
    ("src/device/cuda/isolate/serve.rs", "std::os::unix::net", "a socket that the app opened"),
    ("src/device/cuda/isolate/serve.rs", "libc::", "waits for the end of that socket"),
    ("src/device/cuda/isolate/segment.rs", "libc::", "memory that two processes share"),
    ("src/device/sim/jit/exec.rs", "libc::", "memory that holds compiled code"),
];

/// Circles whose files walk over what is recursive: expressions hold blocks of statements, which hold expressions; a compile-time
/// argument is a constant, whose value may depend on compile-time arguments.
const RECURSIVE: &[&[&str]] = &[
    &[
        "src/syntax/parse/expressions.rs",
        "src/syntax/parse/statements.rs",
        "src/syntax/parse/strings.rs",
        "src/syntax/parse/types.rs",
    ],
    &["src/lower/constant/mod.rs", "src/lower/mono.rs"],
];

const MAX_LINES: usize = 800;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Collects all files of the repository except build outputs and downloads.
fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).expect("folder").map(|e| e.expect("entry").path()).collect();
    entries.sort();
    for path in entries {
        let name = path.file_name().expect("name").to_string_lossy().into_owned();
        let built = ["target", ".git", ".venv", "shared", "node_modules", "__pycache__"].contains(&name.as_str());
        if built || path.is_symlink() {
            continue;
        }
        if path.is_dir() { files(&path, found) } else { found.push(path) }
    }
}

/// Returns the path from the root (with `/`) and the content of each text file.
fn texts() -> Vec<(String, String)> {
    let mut found = Vec::new();
    files(root(), &mut found);
    let relative = |p: &Path| p.strip_prefix(root()).expect("inside").to_string_lossy().replace('\\', "/");
    found.iter().filter_map(|p| Some((relative(p), fs::read_to_string(p).ok()?))).collect()
}

fn sources() -> Vec<(String, String)> {
    texts().into_iter().filter(|(p, _)| p.starts_with("src/") && p.ends_with(".rs")).collect()
}

/// Removes comments and test items.
fn code(text: &str) -> String {
    tidy_support::code(text, Strings::Kept)
}

/// The folder in `src` of a source file: its layer, which is a crate of its own.
fn layer(path: &str) -> &str {
    path.split('/').nth(1).expect("a file in src")
}

/// Returns the function or constant that a line declares `pub`. Types may appear in the signatures of those, so they are left
/// to the compiler.
fn published(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ")?;
    let rest =
        ["const fn ", "unsafe fn ", "fn ", "const ", "static "].iter().find_map(|word| rest.strip_prefix(word))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next()
}

#[test]
fn what_nobody_outside_uses_is_for_the_crate_only() {
    let words = |text: &str| -> BTreeSet<String> {
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(String::from).collect()
    };
    let mut named: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (path, text) in texts().into_iter().filter(|(path, _)| path.ends_with(".rs")) {
        let place = if path.starts_with("src/") { layer(&path) } else { "outside" };
        named.entry(place.into()).or_default().extend(words(&text));
    }
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let own = layer(&path);
        let is_used = |name: &str| named.iter().any(|(place, words)| place != own && words.contains(name));
        let names = text.lines().enumerate().filter_map(|(at, line)| Some((at + 1, published(line)?)));
        wrong.extend(names.filter(|(_, name)| !is_used(name)).map(|(line, name)| format!("{path}:{line}: {name}")));
    }
    assert!(
        wrong.is_empty(),
        "`pub(crate)` is enough for these, and the compiler then says when nobody uses them:\n{}",
        wrong.join("\n")
    );
}

#[test]
fn devices_do_not_know_each_other() {
    for (path, text) in sources() {
        let other = if path.starts_with("src/device/sim/") { "device::cuda" } else { "device::sim" };
        if path.starts_with("src/device/") && path != "src/device/mod.rs" && !path.starts_with("src/device/sim/")
            || other == "device::cuda"
        {
            assert!(!text.contains(other), "{path} names {other}");
        }
    }
}

/// The crates of other people that a manifest names under a header, as code names them.
fn dependencies(manifest: &str, header: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(root().join(manifest)).expect("a manifest");
    let mut inside = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        match line.strip_prefix('[') {
            Some(title) => inside = title.trim_end_matches(']') == header || title.ends_with(".dependencies]"),
            None if inside => {
                let name = line.split(['=', '#', '.']).next().unwrap_or("").trim();
                let is_other = !name.is_empty() && !name.starts_with("clk-lang");
                found.extend(is_other.then(|| name.replace('-', "_")));
            }
            None => {}
        }
    }
    found
}

/// A layer names what its code uses and no more, so that an edit compiles no more than it has to.
#[test]
fn layers_name_what_they_use() {
    let sources = sources();
    for folder in fs::read_dir(root().join("src")).expect("src").map(|e| e.expect("entry").path()) {
        let layer = folder.file_name().expect("name").to_string_lossy().into_owned();
        let Ok(manifest) = fs::read_to_string(folder.join("Cargo.toml")) else { continue };
        let used: String = sources
            .iter()
            .filter(|(path, _)| path.starts_with(&format!("src/{layer}/")) && !path.ends_with("/lib.rs"))
            .map(|(_, text)| code(text))
            .collect();
        let names = manifest.split("[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap_or("");
        for name in names.lines().filter_map(|line| line.strip_suffix(".workspace = true")) {
            let word = name.strip_prefix("clk-lang-").map_or(name.replace('-', "_"), |layer| format!("crate::{layer}"));
            let by_name = used.contains(&name.replace('-', "_"));
            let grouped = name.strip_prefix("clk-lang-").is_some_and(|layer| is_in_group(&used, layer));
            assert!(
                used.contains(&word) || by_name || grouped,
                "src/{layer}/Cargo.toml names `{name}`, which nothing there uses"
            );
        }
    }
}

/// Returns whether a text imports a layer as one of several: `use crate::{check, pass};`.
fn is_in_group(text: &str, layer: &str) -> bool {
    let groups = text.split("use crate::{").skip(1).filter_map(|rest| rest.split(';').next());
    groups.into_iter().any(|group| group.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == layer))
}

#[test]
fn every_crate_has_its_owners() {
    let known: BTreeSet<String> = OWNERS.iter().map(|(name, _)| name.to_string()).collect();
    assert_eq!(dependencies("Cargo.toml", "workspace.dependencies"), known, "Cargo.toml and `OWNERS` differ");
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
                || code.contains(&format!("use {name};"));
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
            let exempt = SYSTEM.iter().position(|(file, what, _)| *file == path && what == io);
            assert!(exempt.is_some(), "{path} uses `{io}`; I/O belongs to the app room");
            needed.extend(exempt);
        }
    }
    for (position, exemption) in SYSTEM.iter().enumerate() {
        assert!(needed.contains(&position), "nothing needs the exemption {exemption:?} any more");
    }
}

#[test]
fn files_of_a_room_import_in_one_direction() {
    let found = circles(&sources());
    let is_known = |files: &[String]| RECURSIVE.iter().any(|k| files.iter().all(|file| k.contains(&file.as_str())));
    let new: String = found.iter().filter(|c| !is_known(&c.files)).map(|c| format!("{c}\n")).collect();
    assert!(new.is_empty(), "files that import each other; what they share belongs in a file below them:\n{new}");
    let in_circles: BTreeSet<&str> = found.iter().flat_map(|c| &c.files).map(String::as_str).collect();
    let gone: Vec<_> = RECURSIVE.iter().flat_map(|k| k.iter()).filter(|file| !in_circles.contains(*file)).collect();
    assert!(gone.is_empty(), "files that are in no circle any more, to be struck from the list: {gone:#?}");
}

/// Opening files follows rules (no pipes, no links of other users, no predictable names), which one module implements.
#[test]
fn files_are_opened_and_replaced_in_one_place() {
    const WAYS: [&str; 6] =
        ["fs::write(", "fs::read(", "fs::read_to_string(", "File::open(", "File::create(", "env::temp_dir("];
    // Opens a folder in order to lock it.
    const EXEMPT: [(&str, &str); 1] = [("src/app/launch/socket.rs", "File::open(")];
    for (path, text) in sources().into_iter().filter(|(path, _)| path.starts_with("src/app/")) {
        let code = code(&text);
        for way in WAYS.into_iter().filter(|way| code.contains(way)) {
            let allowed = path.starts_with("src/app/disk/") || EXEMPT.contains(&(path.as_str(), way));
            assert!(allowed, "{path} uses `{way}`: `app::disk` opens, replaces and makes files");
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

#[test]
fn source_files_say_what_they_are() {
    for (path, text) in sources() {
        assert!(text.starts_with("//!") || path.ends_with("tests.rs"), "{path} opens without a `//!` line");
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
    // Set by a test for its own child processes. The help page documents the others.
    let private = ["CLK_TEST_CHILD"];
    let read =
        |path: &str| path.ends_with(".rs") || path.ends_with(".sh") || path.ends_with(".py") || path == ".ci/run";
    for (path, text) in texts().into_iter().filter(|(path, _)| read(path) && path != "tests/tidy.rs") {
        for name in variables_in(&text) {
            let known = private.contains(&name.as_str()) || pages.contains(&format!("`{name}"));
            assert!(known, "{path} reads `{name}`, which neither docs/commands.md nor CONTRIBUTING explains");
        }
    }
}

#[test]
fn no_paths_of_one_machine() {
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
fn every_code_has_a_page_and_every_page_a_use() {
    let mut used = BTreeSet::new();
    let mut without_page = std::collections::BTreeMap::new();
    for (path, text) in sources() {
        if path.starts_with("src/lang/codes/") || path.ends_with("tests.rs") {
            continue;
        }
        let codes = codes_in(&code(&text));
        without_page.extend(codes.iter().filter(|c| codes::find(c).is_none()).map(|c| (c.clone(), path.clone())));
        used.extend(codes);
    }
    assert!(
        without_page.is_empty(),
        "codes without a page in lang/codes, and a file that reports them: {without_page:#?}"
    );
    let unused: Vec<&str> = codes::pages().map(|p| p.code).filter(|c| !used.contains(*c)).collect();
    assert!(unused.is_empty(), "pages of codes that nothing reports: {unused:?}");
}

#[test]
fn pages_are_in_order() {
    let all: Vec<&str> = codes::pages().map(|p| p.code).collect();
    let twice: Vec<&&str> = all.iter().filter(|c| all.iter().filter(|d| d == c).count() > 1).collect();
    assert!(twice.is_empty(), "codes with two pages: {twice:?}");
    for page in codes::pages() {
        assert!(!page.title.ends_with('.'), "{}: a title has no full stop", page.code);
        assert!(page.text.trim().len() > 40, "{}: the page says too little", page.code);
    }
}
