//! Tests the information that editors show about a text. `§` in a text marks the cursor.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use clk_base::file_error::FileError;
use clk_check::typed::{ExprKind, NameUse, Program};
use clk_compile::{Files, NoFiles, Session};
use clk_ide::{Analysis, Completion, CompletionKind, HighlightClass, LensKind, SymbolKind, highlight};
use clk_syntax::token::{CONTEXTUAL, Tok};

fn at(marked: &str) -> (Analysis, usize) {
    let offset = marked.find('§').expect("a cursor");
    (Analysis::new("main.clk", &marked.replacen('§', "", 1), &NoFiles), offset)
}

#[track_caller]
fn hover(marked: &str, expected: &[&str]) {
    let (analysis, offset) = at(marked);
    let text = analysis.hover(offset).map_or(String::new(), |h| h.text);
    for part in expected {
        assert!(text.contains(part), "`{part}` is not in\n{text}");
    }
}

const SAXPY: &str = "/// r = a x + y\nkernel saxpy(a: f32, x: [f32; N], y: [f32; N], out r: [f32; N]) threads(i: N) {\n    let s = a * x[i]\n    r[i] = s + y[i]\n}\n\nlet v = saxpy(2.0, ones(8), ones(8))\n";

#[test]
fn hovers() {
    hover(&SAXPY.replace("s + y", "§s + y"), &["let s: f32"]);
    hover(&SAXPY.replace("= a *", "= §a *"), &["a: f32"]);
    hover(&SAXPY.replace("out r", "out §r"), &["out r: [f32; N]"]);
    hover(&SAXPY.replacen("; N]", "; §N]", 1), &["N: i32", "A dimension of `x`, `y`, `r`."]);
    hover(&SAXPY.replace("v = sax", "v = §sax"), &["kernel saxpy(a: f32", "threads(i: N)", "r = a x + y"]);
    hover(&SAXPY.replacen("ones", "on§es", 1), &["ones(dims…", "An array of ones: "]);
    hover(&SAXPY.replace("let v", "let §v"), &["let v: [f32; 8]"]);
    hover(&SAXPY.replace("kernel ", "ke§rnel "), &["many threads"]);
    hover("struct P { x: f32, y: i32 }\nlet p = §P { x: 1.0, y: 2 }\n", &["struct P", "8 bytes in an array"]);
    hover("struct P {\n/// how heavy\nm: f32 }\nlet p = P { m: 1.0 }\nprint(p.§m)\n", &["m: f32", "how heavy", "`P`"]);
    hover("import std.nn.{relu}\nlet y = re§lu(1.0)\n", &["fn relu<T: Float>(x: T) -> T", "max(x, 0)"]);
    hover("import std.nn\nlet y = nn.re§lu(1.0)\n", &["fn relu<T: Float>(x: T) -> T"]);
    hover("const W: i32 = 4 * 8\nlet y = §W\n", &["const W: i32 = 4 * 8"]);
    hover("let x = 1.0 §+ 2.0\n", &["f32"]);
    hover("fn f<const T: i32 = 4>(x: [f32; N]) -> i32 { §T * N }\n", &["const T: i32 = 4"]);
    hover(
        "kernel k() grid(1) block(1) {\n    shared §s: [f32; 4, 64]\n    s[0, 0] = 1.0\n}\n",
        &["[f32; 4, 64]", "1024 bytes"],
    );
}

#[track_caller]
fn defined(marked: &str, file: &str, expected: &str) {
    let (analysis, offset) = at(marked);
    let place = analysis.definition(offset).expect("a definition");
    assert_eq!(place.file, file);
    let source = analysis.session.sources.files().find(|(_, s)| &*s.name == file).expect("a source").1;
    assert_eq!(&source.text[place.range.clone()], expected);
    if file == "main.clk" {
        assert!(place.range.start < offset, "the definition stands before");
    }
}

#[test]
fn definitions() {
    defined(&SAXPY.replace("s + y", "§s + y"), "main.clk", "s");
    defined(&SAXPY.replace("threads(i: N", "threads(i: §N"), "main.clk", "N");
    defined(&SAXPY.replace("v = sax", "v = §sax"), "main.clk", "saxpy");
    defined("fn f(x: f32) -> f32 { x }\nlet x = 1.0\nlet y = f(§x)\n", "main.clk", "x");
    defined("import std.nn.{relu}\nlet y = re§lu(1.0)\n", "std/nn.clk", "relu");
    defined("import std.nn\nlet y = nn.§relu(1.0)\n", "std/nn.clk", "relu");
    defined("struct P { m: f32 }\nlet p = P { m: 1.0 }\nprint(p.§m)\n", "main.clk", "m");
    defined("kernel k(out y: [i32; N]) threads(i: N) { y[i] = i }\nlet y = k(§N = 4)\n", "main.clk", "N");
    let (analysis, offset) = at("let x = §sqrt(2.0)\n");
    assert_eq!(analysis.definition(offset), None);
}

#[track_caller]
fn places(marked: &str, count: usize) {
    let (analysis, offset) = at(marked);
    let references = analysis.references(offset);
    assert_eq!(references.len(), count, "{references:?}");
}

#[test]
fn references() {
    places(&SAXPY.replace("s + y", "§s + y"), 2);
    places(&SAXPY.replacen("; N]", "; §N]", 1), 4);
    places("let x = 1\nif true {\n    let §x = 2\n    print(x)\n}\nprint(x)\n", 2);
    places("let x = §sqrt(2.0) + sqrt(3.0)\n", 2);
    let (analysis, offset) = at("var §x = 1\nx = 2\nx += x\n");
    let writes = analysis.references(offset).iter().filter(|(_, write)| *write).count();
    assert_eq!(writes, 3, "the definition and two assignments");
}

#[track_caller]
fn renamed(marked: &str, new: &str, expected: Result<&str, &str>) {
    let (analysis, offset) = at(marked);
    match (analysis.rename(offset, new, &NoFiles), expected) {
        (Ok(mut places), Ok(expected)) => {
            let mut text = analysis.text.clone();
            places.sort_by_key(|r| std::cmp::Reverse(r.start));
            places.into_iter().for_each(|range| text.replace_range(range, new));
            assert_eq!(text, expected);
        }
        (Err(why), Err(expected)) => assert!(why.to_string().contains(expected), "{why}"),
        (found, _) => panic!("{found:?}, not {expected:?}"),
    }
}

#[test]
fn renames() {
    renamed("let a = 1\nlet b = §a + a\n", "c", Ok("let c = 1\nlet b = c + c\n"));
    renamed("fn f(x: [f32; §N]) -> i32 { N }\n", "M", Ok("fn f(x: [f32; M]) -> i32 { M }\n"));
    renamed(
        "struct P { §m: f32 }\nlet p = P { m: 1.0 }\nprint(p.m)\n",
        "w",
        Ok("struct P { w: f32 }\nlet p = P { w: 1.0 }\nprint(p.w)\n"),
    );
    renamed(
        "kernel f(at: [i32; §N], k: i32, out y: [i32; N]) threads(i: N) assume all(at < N), k < N { y[i] = at[i] }\n",
        "M",
        Ok(
            "kernel f(at: [i32; M], k: i32, out y: [i32; M]) threads(i: M) assume all(at < M), k < M { y[i] = at[i] }\n",
        ),
    );
    renamed(
        "kernel f(§at: [i32; N], out y: [i32; N]) threads(i: N) assume ascending(at), all(0 <= at) { y[i] = at[i] }\n",
        "to",
        Ok(
            "kernel f(to: [i32; N], out y: [i32; N]) threads(i: N) assume ascending(to), all(0 <= to) { y[i] = to[i] }\n",
        ),
    );
    renamed("let a = 1\nlet b = §a\n", "b", Err("already"));
    renamed("let a = 1\nfn f(b: i32) -> i32 { §b }\n", "kernel", Err("keyword"));
    renamed("let §a = 1\n", "1a", Err("is not a valid name"));
    renamed("fn f(§x: [f32; N]) -> i32 { len(x) + N }\n", "N", Err("already"));
    renamed("fn §f() -> i32 { 1 }\nimport std.nn.{relu}\nlet y = f()\n", "relu", Err("already"));
    renamed("let §a = 1\n", "sqrt", Err("part of the language"));
    renamed("let a = §sqrt(1.0)\n", "root", Err("part of the language"));
    renamed("import std.nn.{relu}\nlet a = §relu(1.0)\n", "r", Err("std/nn.clk"));
    renamed("let §a = 1\nif true {\n    let b = 2\n    print(a + b)\n}\n", "b", Err("already"));
}

fn completed(marked: &str) -> Vec<Completion> {
    let (analysis, offset) = at(marked);
    analysis.complete(offset, &NoFiles)
}

#[track_caller]
fn completes(marked: &str, expected: &[&str], missing: &[&str]) {
    let completions = completed(marked);
    let labels: Vec<&str> = completions.iter().map(|c| c.label.as_str()).collect();
    for label in expected {
        assert!(labels.contains(label), "`{label}` is not among {labels:?}");
    }
    for label in missing {
        assert!(!labels.contains(label), "`{label}` is among {labels:?}");
    }
}

#[test]
fn completions() {
    completes("let alpha = 1\nlet b = al§\n", &["alpha", "all"], &["barrier"]);
    completes(
        "struct P { mass: f32, place: f32x3 }\nlet p = P { mass: 1.0, place: f32x3(0.0) }\nlet m = p.§\n",
        &["mass", "place"],
        &["sqrt"],
    );
    completes("struct P { mass: f32 }\nlet p = P { mass: 1.0 }\nlet m = 2.0 * p.ma§ + 1.0\n", &["mass"], &[]);
    completes("let v = f32x3(0.0)\nprint(v.§)\n", &["x", "y", "z"], &["w"]);
    completes(
        "struct P { v: f32x2 }\nkernel k(p: [P; N]) threads(i: N) {\n    let a = p[i].v.§\n}\n",
        &["x", "y"],
        &["z"],
    );
    completes("import std.nn\nlet y = nn.§\n", &["relu", "softmax"], &["sqrt"]);
    completes("import std.§\n", &["nn", "linalg"], &[]);
    completes("import std.nn.{re§}\n", &["relu"], &["softmax"]);
    completes(
        "kernel k<const T: i32 = 4>(out y: [i32; N]) threads(i: N) { y[i] = T }\nlet y = k(§)\n",
        &["T", "N", "ones"],
        &["thread_idx"],
    );
    completes(
        "kernel k(x: [f32; N], out y: [f32; N]) threads(i: N) {\n    y[i] = §\n}\n",
        &["x", "i", "N", "sqrt"],
        &["load"],
    );
    completes("kernel k(x: [f32; N]) grid(1) block(32) {\n    let t = thr§\n", &["thread_idx"], &[]);
    completes("let x: f§\n", &["f32", "f64"], &["floor"]);
    completes("let x = zeros(3, §)\n", &["type"], &[]);
    completes("let §\n", &[], &["sqrt"]);
    completes("let x = 1 // sq§\n", &[], &["sqrt"]);
    completes("let x = \"sq§\"\n", &[], &["sqrt"]);
    completes("let x = 1\nlet s = \"{sq§}\"\n", &["sqrt"], &[]);
    let completions = completed("let y = sqr§\n");
    assert_eq!((completions[0].label.as_str(), completions[0].kind), ("sqrt", CompletionKind::Builtin));
    assert_eq!(completions[0].replace, 8..11);
}

struct Neighbours;

impl Files for Neighbours {
    fn read(&self, _: &Path) -> Result<String, FileError> {
        Err(FileError::Refused("no"))
    }

    fn neighbors(&self, _: &Path) -> Vec<String> {
        vec!["shapes.clk".into(), "notes.txt".into()]
    }
}

#[test]
fn files_are_completed_in_imports() {
    let (analysis, offset) = at("import \"./sh§\"\n");
    let completions = analysis.complete(offset, &Neighbours);
    assert_eq!(completions.iter().map(|c| c.label.as_str()).collect::<Vec<_>>(), ["shapes.clk"]);
}

#[test]
fn completion_in_a_session() {
    let mut session = Session::default();
    assert!(!session.add("<entry 1>", "let matrix = eye(3)", &NoFiles).failed());
    let analysis = Analysis::after(session, "<entry 2>", "print(mat", &NoFiles);
    assert!(analysis.complete(9, &NoFiles).iter().any(|c| c.label == "matrix" && c.detail.contains("[f32; 3, 3]")));
}

#[test]
fn signatures() {
    let (analysis, offset) = at(&SAXPY.replace("saxpy(2.0, ", "saxpy(2.0, §"));
    let signature = analysis.signature(offset).expect("a signature");
    assert!(signature.label.starts_with("kernel saxpy(a: f32, x: [f32; N]"), "{}", signature.label);
    assert_eq!(signature.active.map(|a| &signature.label[signature.parameters[a].clone()]), Some("x: [f32; N]"));
    let (analysis, offset) = at("let x = clamp(1.0, §");
    let signature = analysis.signature(offset).expect("a signature");
    assert_eq!(signature.active.map(|a| &signature.label[signature.parameters[a].clone()]), Some("low: T"));
    let (analysis, offset) = at("fn f(x: f32, k: f32 = 2.0) -> f32 { k * x }\nlet y = f(1.0, k = §3.0)");
    let signature = analysis.signature(offset).expect("a signature");
    assert_eq!(signature.label, "fn f(x: f32, k: f32 = 2.0) -> f32");
    assert_eq!(signature.active.map(|a| &signature.label[signature.parameters[a].clone()]), Some("k: f32 = 2.0"));
    let (analysis, offset) = at("let x = zeros(3, type = §)");
    let signature = analysis.signature(offset).expect("a signature");
    assert_eq!(signature.active.map(|a| &signature.label[signature.parameters[a].clone()]), Some("type = f32"));
}

#[test]
fn outline() {
    let analysis = Analysis::new("main.clk", &(SAXPY.to_owned() + "test \"t\" {\n    assert(true)\n}\n"), &NoFiles);
    let symbols = analysis.symbols();
    let kinds: Vec<_> = symbols.iter().map(|s| (s.name.as_str(), s.kind)).collect();
    assert_eq!(kinds, [("saxpy", SymbolKind::Kernel), ("v", SymbolKind::Variable), ("test \"t\"", SymbolKind::Test)]);
    assert_eq!(analysis.folds().len(), 2);
    let lenses: Vec<_> = analysis.lenses().into_iter().map(|l| l.kind).collect();
    assert_eq!(lenses, [LensKind::Run, LensKind::Prove, LensKind::Profile, LensKind::Emit, LensKind::Test]);
}

#[test]
fn hints() {
    let text = "let x = ones(4)\nlet y: f32 = 1.0\nkernel k() grid(1) block(1) {\n    shared s: [f32; 16, 16] // tile\n    let z = 2\n    s[z, z] = 0.0\n}\n";
    let analysis = Analysis::new("main.clk", text, &NoFiles);
    let hints: Vec<_> = analysis.hints(0..text.len()).into_iter().map(|h| h.text).collect();
    assert_eq!(hints, [": [f32; 4]", "1024 bytes of shared memory", ": i32"]);
}

#[test]
fn highlight_classes_by_tokens() {
    let text = "let x = sqrt(2.0) // root\nprint(\"{x}\")";
    let classes: Vec<(&str, HighlightClass)> = highlight(text).into_iter().map(|(r, c)| (&text[r], c)).collect();
    assert!(classes.contains(&("let", HighlightClass::Keyword)));
    assert!(classes.contains(&("x", HighlightClass::Variable)));
    assert!(classes.contains(&("sqrt", HighlightClass::Builtin)));
    assert!(classes.contains(&("2.0", HighlightClass::Number)));
    assert!(classes.contains(&("// root", HighlightClass::Comment)));
    for broken in ["let x = \"abc", "((((", "/* a", "\u{1F600}", "'a", "#unroll(", "\"{", "\"{a:"] {
        for (range, _) in highlight(broken) {
            assert!(broken.get(range.clone()).is_some(), "{range:?} of {broken}");
        }
    }
}

#[test]
fn highlight_classes_by_name_resolution() {
    let analysis = Analysis::new("main.clk", SAXPY, &NoFiles);
    let highlights = analysis.highlights();
    let class = |name: &str| highlights.iter().find(|h| &SAXPY[h.range.clone()] == name).map(|h| h.class);
    assert_eq!(class("saxpy"), Some(HighlightClass::Kernel));
    assert_eq!(class("N"), Some(HighlightClass::Dimension));
    assert_eq!(class("a"), Some(HighlightClass::Parameter));
    assert_eq!(class("f32"), Some(HighlightClass::Type));
}

/// Returns the Clk files of these folders.
fn clk_files(folders: &[&str]) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in folders {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
        files.extend(entries.filter(|p| p.extension().is_some_and(|e| e == "clk")));
    }
    files.sort();
    files
}

/// Every name in the examples and the library has a definition, a use, or a meaning that the syntax determines.
#[test]
fn every_name_is_resolved() {
    let (mut resolved, mut unresolved) = (0, vec![]);
    for path in clk_files(&["examples", "examples/bench", "stdlib"]) {
        let text = std::fs::read_to_string(&path).expect("a text");
        let analysis = Analysis::new("main.clk", &text, &NoFiles);
        let names = analysis.session.program.names.as_ref().expect("a table").in_file(analysis.file);
        let mut known: HashSet<(u32, u32)> = names.uses.iter().map(|u| (u.span.start, u.span.end)).collect();
        known.extend(names.definitions.iter().map(|d| (d.span.start, d.span.end)));
        let tokens = clk_syntax::lex(analysis.file, &text).tokens;
        for (at, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Tok::Name) {
            let word = token.text(&text);
            if known.contains(&(token.start, token.end)) {
                resolved += 1;
                continue;
            }
            let near = |at: usize| tokens.get(at).map(|t| t.kind);
            let (before, after) = (at.checked_sub(1).and_then(near), near(at + 1));
            let is_known = match (before, after) {
                // A component of a vector, a measured time, or a field of a value whose type is known at run time.
                (Some(Tok::Dot), _) => word.chars().all(|c| "xyzw".contains(c)) || MEMBERS.contains(&word),
                // An argument of a builtin, or a rate of a bench.
                (Some(Tok::LParen | Tok::Comma | Tok::StrEnd), Some(Tok::Assign)) => true,
                (Some(Tok::Import), _) => word == "std",
                // An extent in the type of a function parameter, which stands for any extent.
                (Some(Tok::Semi), Some(Tok::RBracket)) if path.ends_with("optim.clk") => word == "N",
                _ => word == "_" || CONTEXTUAL.contains(&word) || SYNTAX_WORDS.contains(&word),
            };
            let line = text[..token.start as usize].lines().count();
            if !is_known {
                unresolved.push(format!("{}:{line}: `{word}`", path.display()));
            }
        }
    }
    assert!(unresolved.is_empty(), "not resolved:\n{}", unresolved.join("\n"));
    assert!(resolved > 10_000, "{resolved}");
}

/// Measured times, and fields of the files that the examples load, which are known only at run time.
const MEMBERS: [&str; 20] = [
    "median", "min", "max", "runs", "distance", "length", "width", "height", "kind", "place", "value", "digits",
    "places", "heads", "output", "up", "down", "starts", "cols", "vals",
];

/// Words that are names elsewhere: bounds of type parameters, devices, and expectations of kernels.
const SYNTAX_WORDS: [&str; 8] = ["Any", "Num", "Int", "Float", "sim", "gpu", "in_bounds", "race_free"];

/// If every definition of a program gets a new name, the program has the same diagnostics, and every use still refers
/// to the same definition.
#[test]
fn all_definitions_can_be_renamed() {
    let mut renamed = 0;
    for path in clk_files(&["examples", "examples/bench", "stdlib"]) {
        let text = std::fs::read_to_string(&path).expect("a text");
        let before = Analysis::new("main.clk", &text, &NoFiles);
        let names = before.session.program.names.as_ref().expect("a table").in_file(before.file);
        let mut edits: BTreeMap<usize, (usize, String)> = BTreeMap::new();
        for (number, definition) in names.definitions.iter().enumerate() {
            if before.renamable(definition.span.start as usize).is_err() {
                continue;
            }
            // A name that begins with `_` may be unused.
            let fresh = format!("{}fresh_{number}", if definition.name.starts_with('_') { "_" } else { "" });
            for (range, _) in before.references(definition.span.start as usize) {
                let old = edits.insert(range.start, (range.end, fresh.clone()));
                assert!(old.is_none(), "{}: {range:?} refers to two definitions", path.display());
            }
            renamed += 1;
        }
        let mut changed = text.clone();
        for (start, (end, fresh)) in edits.iter().rev() {
            changed.replace_range(*start..*end, fresh);
        }
        let after = Analysis::new("main.clk", &changed, &NoFiles);
        let codes = |analysis: &Analysis| analysis.diagnostics.iter().map(|d| d.code).collect::<Vec<_>>();
        let titles: Vec<&String> = after.diagnostics.iter().map(|d| &d.title).collect();
        assert_eq!(codes(&before), codes(&after), "{}: {titles:?}", path.display());
        let shape = |analysis: &Analysis| {
            let names = analysis.session.program.names.as_ref().expect("a table").in_file(analysis.file);
            let position = |used: &NameUse| names.definitions.iter().position(|d| d.target == used.target);
            names.uses.iter().map(position).collect::<Vec<_>>()
        };
        assert_eq!(shape(&before), shape(&after), "{}", path.display());
    }
    assert!(renamed > 3000, "{renamed}");
}

/// Names in an expression with an error are recorded, and an expression that is checked twice is recorded once.
#[test]
fn names_in_erroneous_programs() {
    places("fn f(§a: f32) -> f32 { f32x3(true, a, a).x }", 3);
    // The block is not checked, so its `j` has no record. It is not the outer `j`.
    places("fn f(§j: f32) -> f32 { f32x3(true, { let j = 2.0\n j }, j).x }", 2);
    places("fn f(§a: f32) -> f32 { g(1.0 + \"text\", a) + \"{a}\" }", 3);
    places("kernel k(x: [f32; N, N], out y: [f32; N]) threads(§i: N) { y[i] = x[i][i] }", 4);
    places("kernel k(x: [f32; N, N], out y: [f32; N]) threads(i: N) { y[i] = x[{ let §j = i\n j }][i] }", 2);
    places("let §v = 1\nfn f() -> i32 { v }\nconst C: i32 = v", 3);
    places("import \"missing.clk\" as §m\nprint(m.f(1))", 2);
    places("kernel k(§x: [i32; N], out y: [i32; N]) threads(i: N) assume permutations(x) { y[i] = x[i] }", 3);
}

/// A session that restores its program after an error also restores the table of names.
#[test]
fn rejected_texts_leave_no_names() {
    let mut session = Session::default();
    session.program.names = Some(Default::default());
    assert!(!session.add("first.clk", "let a = 1\nprint(a)", &NoFiles).failed());
    let rejected = session.add("second.clk", "let b = 2\nprint(a + b + c)", &NoFiles);
    assert!(rejected.failed());
    let names = session.program.names.as_ref().expect("a table").in_file(rejected.file);
    assert!(names.definitions.is_empty() && names.uses.is_empty());
    let accepted = session.add("third.clk", "let b = 2\nprint(a + b)", &NoFiles);
    let names = session.program.names.as_ref().expect("a table").in_file(accepted.file);
    assert_eq!((names.definitions.len(), names.uses.len()), (1, 3));
}

/// In every example and library file, the recorded names agree with the typed tree.
#[test]
fn recorded_names_agree_with_the_typed_tree() {
    let mut compared = 0;
    for path in clk_files(&["examples", "examples/bench", "stdlib"]) {
        let text = std::fs::read_to_string(&path).expect("a text");
        let analysis = Analysis::new("main.clk", &text, &NoFiles);
        for (span, expected) in variables(&analysis.session.program, analysis.file) {
            let actual = analysis.definition(span.0).map(|p| p.range);
            assert_eq!(actual, Some(expected), "{}: `{}`", path.display(), &text[span.0..span.1]);
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// Returns the uses of variables in the typed tree, each with the variable's definition.
fn variables(program: &Program, file: clk_base::source::FileId) -> Vec<((usize, usize), std::ops::Range<usize>)> {
    let mut definitions = Vec::new();
    let bodies = program.fns.iter().filter_map(|(_, f)| f.body.as_deref());
    let bodies = bodies.chain(program.kernels.iter().filter_map(|(_, k)| k.body.as_deref()));
    let bodies = bodies.chain(program.chunks.iter().map(|c| &c.body));
    let bodies = bodies.chain(program.tests.iter().map(|(_, t)| &*t.body));
    for body in bodies.filter(|b| b.root.span.file == file) {
        clk_check::exprs(&body.root, &mut |e| {
            let definition = match e.kind {
                ExprKind::Local(id) => body.locals.get(id).map(|l| l.span),
                ExprKind::Global(id) => program.globals.get(id).map(|g| g.span),
                _ => None,
            };
            // The checker adds variables that have no name in the text. Such a variable has an empty span, or the span
            // of the value that it stands for.
            if let Some(definition) = definition.filter(|span| !span.range().is_empty() && *span != e.span) {
                definitions.push(((e.span.start as usize, e.span.end as usize), definition.range()));
            }
        });
    }
    definitions
}
