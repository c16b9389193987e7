//! Information for editors about a text. `§` in a text marks the cursor.

use std::path::Path;

use clk_lang::check::typed::{ExprKind, Program};
use clk_lang::compile::{Files, NoFiles, Session};
use clk_lang::ide::{Analysis, Class, Completion, CompletionKind, LensKind, SymbolKind, highlight};

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
    let found = analysis.references(offset);
    assert_eq!(found.len(), count, "{found:?}");
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
        (Err(why), Err(expected)) => assert!(why.contains(expected), "{why}"),
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
    renamed("let §a = 1\n", "1a", Err("no name"));
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
    let found = completed(marked);
    let labels: Vec<&str> = found.iter().map(|c| c.label.as_str()).collect();
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
    let found = completed("let y = sqr§\n");
    assert_eq!((found[0].label.as_str(), found[0].kind), ("sqrt", CompletionKind::Builtin));
    assert_eq!(found[0].replace, 8..11);
}

struct Neighbours;

impl Files for Neighbours {
    fn read(&self, _: &Path) -> Result<String, String> {
        Err("no".into())
    }

    fn neighbors(&self, _: &Path) -> Vec<String> {
        vec!["shapes.clk".into(), "notes.txt".into()]
    }
}

#[test]
fn files_are_completed_in_imports() {
    let (analysis, offset) = at("import \"./sh§\"\n");
    let found = analysis.complete(offset, &Neighbours);
    assert_eq!(found.iter().map(|c| c.label.as_str()).collect::<Vec<_>>(), ["shapes.clk"]);
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
    let found = analysis.signature(offset).expect("a signature");
    assert!(found.label.starts_with("kernel saxpy(a: f32, x: [f32; N]"), "{}", found.label);
    assert_eq!(found.active.map(|a| &found.label[found.parameters[a].clone()]), Some("x: [f32; N]"));
    let (analysis, offset) = at("let x = clamp(1.0, §");
    let found = analysis.signature(offset).expect("a signature");
    assert_eq!(found.active.map(|a| &found.label[found.parameters[a].clone()]), Some("low: T"));
    let (analysis, offset) = at("fn f(x: f32, k: f32 = 2.0) -> f32 { k * x }\nlet y = f(1.0, k = §3.0)");
    let found = analysis.signature(offset).expect("a signature");
    assert_eq!(found.label, "fn f(x: f32, k: f32 = 2.0) -> f32");
    assert_eq!(found.active.map(|a| &found.label[found.parameters[a].clone()]), Some("k: f32 = 2.0"));
    let (analysis, offset) = at("let x = zeros(3, type = §)");
    let found = analysis.signature(offset).expect("a signature");
    assert_eq!(found.active.map(|a| &found.label[found.parameters[a].clone()]), Some("type = f32"));
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
fn classes_by_tokens() {
    let text = "let x = sqrt(2.0) // root\nprint(\"{x}\")";
    let found: Vec<(&str, Class)> = highlight(text).into_iter().map(|(r, c)| (&text[r], c)).collect();
    assert!(found.contains(&("let", Class::Keyword)));
    assert!(found.contains(&("x", Class::Variable)));
    assert!(found.contains(&("sqrt", Class::Builtin)));
    assert!(found.contains(&("2.0", Class::Number)));
    assert!(found.contains(&("// root", Class::Comment)));
    for broken in ["let x = \"abc", "((((", "/* a", "\u{1F600}", "'a", "#unroll(", "\"{", "\"{a:"] {
        for (range, _) in highlight(broken) {
            assert!(broken.get(range.clone()).is_some(), "{range:?} of {broken}");
        }
    }
}

#[test]
fn classes_by_meaning() {
    let analysis = Analysis::new("main.clk", SAXPY, &NoFiles);
    let found = analysis.highlights();
    let class = |name: &str| found.iter().find(|h| &SAXPY[h.range.clone()] == name).map(|h| h.class);
    assert_eq!(class("saxpy"), Some(Class::Kernel));
    assert_eq!(class("N"), Some(Class::Dimension));
    assert_eq!(class("a"), Some(Class::Parameter));
    assert_eq!(class("f32"), Some(Class::Type));
}

/// In every program of the repository, name resolution agrees with the checker's.
#[test]
fn names_agree_with_the_checker() {
    let mut files = Vec::new();
    for folder in ["examples", "examples/bench", "stdlib"] {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let entries = std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path());
        files.extend(entries.filter(|p| p.extension().is_some_and(|e| e == "clk")));
    }
    let mut compared = 0;
    for path in files {
        let text = std::fs::read_to_string(&path).expect("a text");
        let analysis = Analysis::new("main.clk", &text, &NoFiles);
        for (span, expected) in variables(&analysis.session.program, analysis.file) {
            let found = analysis.definition(span.0).map(|p| p.range);
            assert_eq!(found, Some(expected), "{}: `{}`", path.display(), &text[span.0..span.1]);
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared}");
}

/// Returns the uses of variables in the typed tree, each with the variable's definition.
fn variables(program: &Program, file: clk_lang::base::source::FileId) -> Vec<((usize, usize), std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let bodies = program.fns.iter().filter_map(|(_, f)| f.body.as_deref());
    let bodies = bodies.chain(program.kernels.iter().filter_map(|(_, k)| k.body.as_deref()));
    let bodies = bodies.chain(program.chunks.iter().map(|c| &c.body));
    let bodies = bodies.chain(program.tests.iter().map(|(_, t)| &*t.body));
    for body in bodies.filter(|b| b.root.span.file == file) {
        clk_lang::check::exprs(&body.root, &mut |e| {
            let definition = match e.kind {
                ExprKind::Local(id) => body.locals.get(id).map(|l| l.span),
                ExprKind::Global(id) => program.globals.get(id).map(|g| g.span),
                _ => None,
            };
            // What the checker adds has no name, hence no text.
            if let Some(definition) = definition.filter(|span| !span.range().is_empty()) {
                found.push(((e.span.start as usize, e.span.end as usize), definition.range()));
            }
        });
    }
    found
}
