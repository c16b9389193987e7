//! Tests the documentation as web pages, which `clk doc --html` generates. The tests read links, anchors, the search
//! index and descriptions from the HTML, independently of the code that generates it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clk_codes as codes;
use clk_compile::library::MODULES;
use clk_scalar::builtin;
use clk_testing::root;
use clk_testing::run;

/// Returns all files below a folder: the path from it, and the content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut contents = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inside)).expect("a folder") {
            let name = format!("{inside}{}", entry.expect("an entry").file_name().to_string_lossy());
            let path = folder.join(&name);
            if path.is_dir() {
                folders.push(format!("{name}/"));
            } else {
                contents.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    contents
}

/// Returns the values of an attribute.
fn attributes<'h>(html: &'h str, name: &str) -> Vec<&'h str> {
    let start = format!(" {name}=\"");
    html.split(&start).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

/// Resolves a relative address of a page.
fn resolved(page: &str, address: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in address.split('/') {
        if part == ".." {
            parts.pop().unwrap_or_else(|| panic!("{page}: {address} leaves the site"));
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// The site of the repository, generated once.
fn site() -> &'static BTreeMap<String, Vec<u8>> {
    static SITE: std::sync::OnceLock<BTreeMap<String, Vec<u8>>> = std::sync::OnceLock::new();
    SITE.get_or_init(|| {
        let folder = tempfile::tempdir().expect("a folder");
        let out = folder.path().join("out");
        let ran = run(root(), &["doc", "--html", &out.to_string_lossy(), "--from", "."]);
        assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
        assert!(ran.err.is_empty() && ran.out.contains("pages; begin with"), "{}{}", ran.out, ran.err);
        files(&out)
    })
}

/// The pages with their text.
fn pages() -> BTreeMap<&'static str, &'static str> {
    let html = site().iter().filter(|(name, _)| name.ends_with(".html"));
    html.map(|(name, bytes)| (name.as_str(), std::str::from_utf8(bytes).expect("UTF-8"))).collect()
}

#[test]
fn every_link_leads_somewhere() {
    let pages = pages();
    let ids: BTreeMap<&str, BTreeSet<&str>> =
        pages.iter().map(|(name, html)| (*name, attributes(html, "id").into_iter().collect())).collect();
    let (mut wrong, mut count, mut anchors) = (Vec::new(), 0, 0);
    for (page, html) in &pages {
        for address in [attributes(html, "href"), attributes(html, "src")].concat() {
            if address.starts_with("data:") || address.starts_with("mailto:") {
                continue;
            }
            if address.contains("://") {
                // A link may lead to another site, but pages load nothing from other sites.
                assert!(!attributes(html, "src").contains(&address), "{page} loads {address}");
                continue;
            }
            count += 1;
            let (path, anchor) = address.split_once('#').map_or((address, None), |(p, a)| (p, Some(a)));
            let target = if path.is_empty() { (*page).to_owned() } else { resolved(page, path) };
            if !site().contains_key(&target) {
                wrong.push(format!("{page}: {address}"));
            } else if let Some(anchor) = anchor {
                anchors += 1;
                if !ids.get(target.as_str()).is_some_and(|ids| ids.contains(anchor)) {
                    wrong.push(format!("{page}: {address} has no such heading"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 5000 && anchors > 100, "{count} links, {anchors} anchors");
}

#[test]
fn every_page_is_complete() {
    for (page, html) in pages() {
        assert_eq!(html.matches("<h1 ").count(), 1, "{page}: one title");
        assert!(
            html.contains("<title>") && html.contains("name=\"viewport\"") && html.contains("lang=\"en\""),
            "{page}"
        );
        assert!(html.trim_end().ends_with("</html>"), "{page}");
        assert!(html.contains("http-equiv=\"Content-Security-Policy\"") && !html.contains(" style=\""), "{page}");
        let ids = attributes(html, "id");
        assert_eq!(ids.len(), ids.iter().collect::<BTreeSet<_>>().len(), "{page}: an id occurs twice");
        for picture in html.split("<img ").skip(1) {
            let tag = picture.split('>').next().expect("a tag");
            let tag = format!(" {tag}");
            let alt = attributes(&tag, "alt");
            assert!(alt.first().is_some_and(|alt| alt.len() > 10), "{page}: a picture without a description: {tag}");
            assert!(tag.contains(" width=") && tag.contains(" height="), "{page}: {tag}");
        }
    }
    let style = std::str::from_utf8(&site()["style.css"]).expect("UTF-8");
    assert!(style.contains("prefers-color-scheme: dark") && !style.contains("http"), "no network, two schemes");
}

#[test]
fn every_item_has_a_page() {
    let pages = pages();
    for page in codes::pages() {
        let name = format!("errors/{}.html", page.code);
        assert!(pages.contains_key(name.as_str()), "{name}");
        assert!(pages["errors/index.html"].contains(&format!("errors/{}.html", page.code)), "{name} is not listed");
    }
    let builtins = attributes(pages["builtins.html"], "id");
    for entry in builtin::TABLE {
        assert!(builtins.contains(&entry.name), "no heading for {}", entry.name);
    }
    let about_reshape = pages["builtins.html"].split("id=\"reshape\"").nth(1).and_then(|rest| rest.split("<h3").next());
    assert!(
        about_reshape.is_some_and(|text| text.contains("expressions of <a href=\"tiles.html\">")),
        "`reshape` is also a builtin of tiles"
    );
    for (module, text) in MODULES {
        let page = pages[format!("std/{module}.html").as_str()];
        assert!(page.contains("<span class=\"k\">"), "std.{module} has programs in colors");
        let public = text.matches("/// ```clk").count();
        assert!(page.matches("class=\"program\"").count() >= public.min(1), "std.{module}");
    }
    for name in ["index", "reference", "gallery", "faq", "performance", "from/cuda", "from/numpy", "from/triton"] {
        assert!(pages.contains_key(format!("{name}.html").as_str()), "{name}");
    }
    assert_eq!(pages.keys().filter(|name| name.starts_with("book/")).count(), 12, "twelve steps");
    // The navigation of the first page has a link to each page of the manual.
    let first = attributes(pages["index.html"], "href");
    for name in pages.keys().filter(|name| !["errors/", "std/", "examples/"].iter().any(|f| name.starts_with(f))) {
        assert!(first.contains(name), "{name} is not in the navigation");
    }
}

/// Returns the search index of the site as JSON.
fn index() -> serde_json::Value {
    let text = std::str::from_utf8(&site()["search-index.js"]).expect("UTF-8");
    let json = text.strip_prefix("window.CLK_INDEX = ").and_then(|rest| rest.trim_end().strip_suffix(';'));
    serde_json::from_str(json.expect("an assignment")).expect("JSON")
}

#[test]
fn the_search_finds_pages_headings_and_names() {
    let index = index();
    let pages = pages();
    let entries = index["entries"].as_array().expect("entries");
    let rows = index["rows"].as_array().expect("rows");
    let places = entries.iter().map(|e| (&e[0], &e[1], &e[2])).chain(rows.iter().map(|r| (&r[0], &r[2], &r[3])));
    for (title, place, address) in places {
        let address = address.as_str().expect("an address");
        let (page, anchor) = address.split_once('#').map_or((address, None), |(p, a)| (p, Some(a)));
        let html = pages.get(page).unwrap_or_else(|| panic!("{title}: {address}"));
        assert!(title.as_str() != Some("") && place.as_str() != Some(""), "{address}");
        assert!(anchor.is_none_or(|anchor| attributes(html, "id").contains(&anchor)), "{title}: {address}");
    }
    for title in ["atomic_add", "std.fft", "E0601: index outside of its array", "What is a fault", "6. Blocks"] {
        assert!(entries.iter().any(|entry| entry[0] == title), "{title}");
    }
}

#[test]
fn the_index_of_the_search_is_small() {
    let size = site()["search-index.js"].len();
    assert!((50_000..700_000).contains(&size), "{size} bytes");
    // A script loads the index, because pages opened from the file system cannot fetch files.
    let search = std::str::from_utf8(&site()["search.js"]).expect("UTF-8");
    assert!(search.contains("search-index.js") && search.contains("rank.js") && !search.contains("fetch("));
}

/// A query, and prefixes of addresses: the first hit must begin with one of them.
const SEARCHES: &[(&str, &[&str])] = &[
    // Names of other languages.
    ("__syncthreads", &["builtins.html#barrier"]),
    ("syncthreads()", &["builtins.html#barrier"]),
    ("__sync", &["builtins.html#barrier", "builtins.html#warp_barrier"]),
    ("threadIdx", &["builtins.html#thread_idx"]),
    ("atomicAdd", &["builtins.html#atomic_add"]),
    ("<<<", &["from/cuda.html#words"]),
    ("extern __shared__", &["from/cuda.html#words"]),
    ("np.where", &["from/numpy.html#rules-that-differ"]),
    ("tl.program_id", &["builtins.html#block_idx"]),
    ("float4", &["reference.html#types"]),
    ("//", &["from/numpy.html#rules-that-differ"]),
    ("floor division", &["from/numpy.html#integers-are-divided-toward-zero"]),
    // Words of the language.
    ("assume", &["reference.html#kernels"]),
    ("inout", &["reference.html#kernels"]),
    ("for loop", &["book/03-pictures.html#loops"]),
    ("operators", &["reference.html#operators"]),
    ("precedence", &["reference.html#operators"]),
    ("reshape", &["builtins.html#reshape"]),
    ("literal", &["book/02-shapes.html#literals-take-the-type-of-their-neighbor"]),
    ("int to float", &["book/02-shapes.html#types-do-not-change-by-themselves", "from/numpy.html#rules-that-differ"]),
    ("max-steps", &["book/05-mistakes.html#a-loop-without-an-end"]),
    // Tasks and mistakes.
    ("guard", &["book/06-blocks.html#the-last-block-is-not-full"]),
    ("halo", &["book/07-shared.html#neighbors-in-other-blocks"]),
    ("missing barrier", &["book/07-shared.html"]),
    ("2d", &["book/03-pictures.html", "book/06-blocks.html"]),
    ("dot product", &["builtins.html#dot", "book/08-reduction.html"]),
    ("prefix sum", &["book/08-reduction.html#sums-up-to-each-element", "std/scan.html"]),
    ("matrix multiplication", &["book/10-product.html"]),
    ("shared memory", &["book/07-shared.html"]),
    ("endless", &["book/05-mistakes.html#a-loop-without-an-end"]),
    ("endless loop", &["book/05-mistakes.html#a-loop-without-an-end"]),
    ("timeout", &["book/05-mistakes.html#a-loop-without-an-end", "tuning.html#measuring"]),
    ("out of bounds", &["book/05-mistakes.html#an-index-out-of-bounds"]),
    ("race", &["races.html", "howto/race.html", "book/07-shared.html"]),
    // Queries that are the title of a page, or a prefix of one.
    ("E0601", &["errors/E0601.html"]),
    ("e0601 outside", &["errors/E0601.html"]),
    ("tiles", &["tiles.html"]),
    ("std.fft", &["std/fft.html"]),
    ("jupy", &["python.html#jupyter"]),
    ("numpy", &["from/numpy.html"]),
    ("cuda", &["from/cuda.html", "cuda-files.html"]),
];

/// The ranking script uses no browser APIs, so the test can run it in Node.
#[test]
fn search_ranks_the_best_match_first() {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["rank.js", "search-index.js"] {
        fs::write(folder.path().join(name), &site()[name]).expect("written");
    }
    let queries: Vec<&str> = SEARCHES.iter().map(|(query, _)| *query).collect();
    let script = format!(
        "global.window = {{}}; require('./rank.js'); require('./search-index.js');\n\
         const found = [...{}, 'zzzz', 'hasOwnProperty', ''].map((query) => window.CLK_FIND(window.CLK_INDEX, query));\n\
         console.log(JSON.stringify(found.map((all) => all.map((hit) => hit.address))));\n",
        serde_json::to_string(&queries).expect("JSON")
    );
    fs::write(folder.path().join("ask.js"), script).expect("written");
    let ran = match std::process::Command::new("node").arg("ask.js").current_dir(folder.path()).output() {
        Ok(ran) => ran,
        Err(error) => return println!("skipped: node does not run: {error}"),
    };
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let results: Vec<Vec<String>> = serde_json::from_slice(&ran.stdout).expect("JSON");
    let mut wrong = Vec::new();
    for ((query, expected), results) in SEARCHES.iter().zip(&results) {
        let first = results.first().map_or("nothing", String::as_str);
        if !expected.contains(&first) {
            wrong.push(format!("{query}: {first}, not {}", expected.join(" or ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let empty = &results[SEARCHES.len()..];
    assert!(empty.len() == 3 && empty.iter().all(Vec::is_empty), "{empty:?}");
}

#[test]
fn a_link_that_leads_nowhere_is_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = |from: &str| {
        for (name, bytes) in files(&root().join(from)) {
            let path = folder.path().join(from).join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            fs::write(path, bytes).expect("written");
        }
    };
    for from in ["docs", "examples", "stdlib"] {
        copy(from);
    }
    fs::create_dir_all(folder.path().join("grammar")).expect("a folder");
    for name in ["CONTRIBUTING.md", "SECURITY.md", "grammar/README.md", "grammar/numpy.md", "grammar/clk.ebnf"] {
        fs::copy(root().join(name), folder.path().join(name)).expect("copied");
    }
    let faq = folder.path().join("docs/faq.md");
    let text = fs::read_to_string(&faq).expect("a page");
    fs::write(&faq, text + "\n[a](nowhere.md) [b](proofs.md#nothing) ![](pictures/none.png)\n").expect("written");
    let ran = run(folder.path(), &["doc", "--html", "out", "--from", "."]);
    assert_eq!(ran.code, 1);
    for words in
        ["`nowhere.md` leads nowhere", "`proofs.html` has no heading for `#nothing`", "no picture `pictures/none.png`"]
    {
        assert!(ran.err.contains(words), "{words}: {}", ran.err);
    }
}

#[test]
fn programs_get_pages_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "/// Shapes.\n\n/// The area of a circle.\n///\n/// ```clk\n/// assert(area(0.0) == 0.0)\n/// ```\nfn area(r: f32) -> f32 { 3.0 * r * r }\n";
    fs::create_dir(folder.path().join("src")).expect("a folder");
    fs::write(folder.path().join("src/shapes.clk"), text).expect("written");
    let ran = run(folder.path(), &["doc", "--html", "out", "src"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let pages = files(&folder.path().join("out"));
    let html = std::str::from_utf8(&pages["programs/src_shapes.html"]).expect("UTF-8");
    assert!(html.contains("id=\"area\"") && html.contains("The area of a circle"), "{html}");
    assert!(pages.contains_key("index.html") && pages.contains_key("style.css"));
    let ran = run(folder.path(), &["doc", "--html", "out", "none.clk"]);
    assert!(ran.code == 1 && ran.err.contains("E0701"), "{}", ran.err);
}

/// Names and texts of a program and its file are escaped.
#[test]
fn program_pages_contain_no_active_content() {
    let folder = tempfile::tempdir().expect("a folder");
    let hostile = [
        "<script>alert(1)</script>",
        "<img src=x onerror=alert(1)>",
        "<iframe src=\"https://example.org\"></iframe>",
        "<a href=\"javascript:alert(1)\">x</a>",
        "<meta http-equiv=\"refresh\" content=\"0; url=https://example.org\">",
        "![x](https://example.org/x.png)",
        "<style>*{}</style>",
        "<b onclick=alert(1)>",
        "\"><script>alert(1)</script>",
    ];
    let text: String = hostile
        .iter()
        .enumerate()
        .map(|(n, html)| format!("/// # a {html}\n///\n/// {html}\n///\n/// | a |\n/// | ---: |\n/// | {html} |\nfn f{n}(x: f32) -> f32 {{ x }}\n"))
        .collect();
    let source = folder.path().join("src");
    fs::create_dir(&source).expect("a folder");
    fs::write(source.join("page.clk"), format!("/// {}\n\n{text}", hostile[0])).expect("written");
    let names =
        ["a\"><script>alert(1)<", "`<img src=x onerror=alert(1)>", "](javascript:alert(1))", "a|b", "*a*_b_", "a\nb"];
    for name in names {
        let name = name.replace('/', "");
        fs::write(source.join(format!("{name}.clk")), "/// A.\nfn g(x: f32) -> f32 { x }\n").expect("written");
    }
    // Missing pictures are reported.
    let ran = run(folder.path(), &["doc", "--html", "out", "src"]);
    assert!(ran.code == 1 && ran.err.contains("there is no picture"), "{}", ran.err);
    let written = files(&folder.path().join("out"));
    let pages: Vec<_> = written.iter().filter(|(name, _)| name.ends_with(".html")).collect();
    assert_eq!(pages.len(), names.len() + 2);
    for (name, html) in pages {
        let html = std::str::from_utf8(html).expect("UTF-8");
        assert!(
            html.contains("http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src 'self';"),
            "{name}"
        );
        assert_eq!(html.matches("<script").count(), 1, "{name}: only the search");
        for tag in html.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
            let is_active = ["img", "iframe", "style", "b ", "object"].iter().any(|name| tag.starts_with(name));
            let attributes = [" on", " style=", "javascript:", "refresh", "srcdoc"];
            assert!(!is_active && !attributes.iter().any(|part| tag.contains(part)), "{name}: {tag}");
        }
    }
    let list = std::str::from_utf8(&written["index.html"]).expect("UTF-8");
    for shown in ["src/*a*_b_.clk", "src/a|b.clk", "src/](javascript:alert(1)).clk", "src/a\\nb.clk"] {
        assert!(list.contains(shown), "{shown}: {list}");
    }
}

#[test]
fn links_of_programs_point_to_pages_or_the_web() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |link: &str| {
        fs::write(folder.path().join("a.clk"), format!("/// See {link}.\n\n/// G.\nfn g(x: f32) -> f32 {{ x }}\n"))
            .expect("written");
        let ran = run(folder.path(), &["doc", "--html", "out", "a.clk"]);
        (ran.code, ran.err, fs::read_to_string(folder.path().join("out/programs/a.html")).expect("a page"))
    };
    for url in ["https://example.org/a?b=c", "http://example.org", "mailto:a@example.org", "#g"] {
        let (code, err, html) = make(&format!("[this]({url})"));
        assert!(code == 0 && html.contains(&format!("<a href=\"{url}\">this</a>")), "{url}: {err}");
    }
    for url in
        ["javascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd", "//example.org", "../../x.html"]
    {
        let (code, err, html) = make(&format!("[this]({url})"));
        assert!(code == 1 && err.contains(url) && html.contains("See this."), "{url}: {err}");
    }
}

#[test]
fn two_programs_have_two_pages() {
    let folder = tempfile::tempdir().expect("a folder");
    let files_of = ["a/b.clk", "a_b.clk", "A_b.clk", "a b.clk", "a.b.clk"];
    for (n, name) in files_of.iter().enumerate() {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, format!("/// Number {n}.\n\nfn f(x: f32) -> f32 {{ x }}\n")).expect("written");
    }
    let ran = run(folder.path(), &[&["doc", "--html", "out"][..], &files_of].concat());
    assert_eq!(ran.code, 0, "{}", ran.err);
    let pages = files(&folder.path().join("out"));
    let list = std::str::from_utf8(&pages["index.html"]).expect("UTF-8");
    let content = list.split("<main").nth(1).and_then(|rest| rest.split("</main").next()).expect("a list");
    let links: BTreeSet<&str> = attributes(content, "href").into_iter().collect();
    assert_eq!(links.len(), files_of.len(), "{links:?}");
    for n in 0..files_of.len() {
        let is_it = |link: &&&str| String::from_utf8_lossy(&pages[**link]).contains(&format!("Number {n}."));
        assert_eq!(links.iter().filter(is_it).count(), 1, "{n}");
    }
}

#[test]
fn files_of_others_are_not_replaced() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a.clk"), "/// A.\nfn g(x: f32) -> f32 { x }\n").expect("written");
    let out = folder.path().join("out");
    let make = || run(folder.path(), &["doc", "--html", "out", "a.clk"]);
    for name in ["index.html", "style.css", "programs/a.html", ".clk-doc"] {
        let path = out.join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(&path, "mine").expect("written");
        let ran = make();
        assert!(ran.code == 1 && ran.err.contains("E0702") && ran.err.contains(name), "{name}: {}", ran.err);
        assert_eq!(files(&out), BTreeMap::from([(name.to_string(), b"mine".to_vec())]), "nothing is changed");
        fs::remove_dir_all(&out).expect("removed");
    }
    // Files of an earlier run are replaced; other files stay.
    assert_eq!(make().code, 0);
    fs::write(out.join("mine.html"), "mine").expect("written");
    fs::write(folder.path().join("a.clk"), "/// Another text.\nfn g(x: f32) -> f32 { x }\n").expect("written");
    assert_eq!(make().code, 0);
    assert!(fs::read_to_string(out.join("programs/a.html")).expect("a page").contains("Another text"));
    assert_eq!(fs::read(out.join("mine.html")).expect("there"), b"mine");
    // A page that is added later may have the name of a file that belongs to the user; this is refused.
    fs::write(folder.path().join("b.clk"), "/// B.\nfn g(x: f32) -> f32 { x }\n").expect("written");
    fs::write(out.join("programs/b.html"), "mine").expect("written");
    let ran = run(folder.path(), &["doc", "--html", "out", "a.clk", "b.clk"]);
    assert!(ran.code == 1 && ran.err.contains("programs/b.html"), "{}", ran.err);
    assert_eq!(fs::read(out.join("programs/b.html")).expect("there"), b"mine");
}

/// If the simulator has been built for browsers, the site has a page that runs programs, the playground. Each complete
/// program in the manual has a link that opens it there.
#[test]
fn the_playground_exists_if_the_simulator_is_built() {
    let folder = tempfile::tempdir().expect("a folder");
    let make = |content: &[u8]| {
        fs::write(folder.path().join("sim.wasm"), content).expect("written");
        run(folder.path(), &["doc", "--html", "out", "--playground", "sim.wasm"])
    };
    let refused = make(b"#!/bin/sh");
    assert!(refused.code == 1 && refused.err.contains("it is not a WebAssembly module"), "{}", refused.err);
    let ran = make(b"\0asm\x01\0\0\0");
    assert_eq!(ran.code, 0, "{}{}", ran.out, ran.err);
    let files = files(&folder.path().join("out"));
    let text = |name: &str| String::from_utf8(files[name].clone()).expect("UTF-8");
    let page = text("playground.html");
    for part in [
        "<option value=\"examples/saxpy.html\">",
        "<option value=\"book/01-threads.html\">",
        "id=\"program\"",
        "kernel rings(",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    for script in attributes(&page, "src") {
        assert!(files.contains_key(script), "{script} is not there");
    }
    let policy =
        attributes(&page, "content").into_iter().find(|content| content.contains("script-src")).expect("a policy");
    for part in
        ["script-src 'self' 'wasm-unsafe-eval';", "worker-src 'self';", "connect-src 'self';", "img-src 'self' blob:"]
    {
        assert!(policy.contains(part), "no {part}: {policy}");
    }
    assert!(files.contains_key("playground-worker.js") && files["playground.wasm"].starts_with(b"\0asm"));
    let mut count = 0;
    for (name, bytes) in files.iter().filter(|(name, _)| name.ends_with(".html")) {
        let html = std::str::from_utf8(bytes).expect("UTF-8");
        let programs: Vec<&str> = html.split("<pre class=\"program").skip(1).collect();
        for (number, program) in programs.iter().enumerate() {
            // The text between this program and the next one describes this program.
            let Some(link) = program.split("class=\"try\" href=\"").nth(1).and_then(|rest| rest.split('"').next())
            else {
                continue;
            };
            let up = "../".repeat(name.matches('/').count());
            assert_eq!(link, format!("{up}playground.html#from={name}&amp;program={}", number + 1));
            count += 1;
        }
    }
    assert!(count > 400, "{count} links");
    for (name, html) in pages() {
        assert!(!html.contains("class=\"try\"") && name != "playground.html", "{name}: there is no playground");
    }
}
