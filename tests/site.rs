//! The documentation as web pages: `clk doc --html`. Links, anchors, the search's index and descriptions are looked up in the HTML
//! itself, independently of the code that makes it.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use clk_lang::compile::library::MODULES;
use clk_lang::lang::{builtin, codes};
use common::run;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns all files below a folder: the path from it, and the content.
fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![String::new()];
    while let Some(inside) = folders.pop() {
        for entry in fs::read_dir(folder.join(&inside)).expect("a folder") {
            let name = format!("{inside}{}", entry.expect("an entry").file_name().to_string_lossy());
            let path = folder.join(&name);
            if path.is_dir() {
                folders.push(format!("{name}/"));
            } else {
                found.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    found
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

/// The site of the repository, made once.
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
                // A link may lead out of the site; nothing is loaded from there.
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
fn every_page_is_whole() {
    for (page, html) in pages() {
        assert_eq!(html.matches("<h1 ").count(), 1, "{page}: one title");
        assert!(
            html.contains("<title>") && html.contains("name=\"viewport\"") && html.contains("lang=\"en\""),
            "{page}"
        );
        assert!(html.trim_end().ends_with("</html>"), "{page}");
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
fn all_that_clk_knows_has_a_place() {
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
        "reshape is one of tiles, too"
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
    // Each page of the manual is reached from the navigation of the first one.
    let first = attributes(pages["index.html"], "href");
    for name in pages.keys().filter(|name| !["errors/", "std/", "examples/"].iter().any(|f| name.starts_with(f))) {
        assert!(first.contains(name), "{name} is not in the navigation");
    }
}

#[test]
fn the_search_finds_pages_headings_and_names() {
    let text = std::str::from_utf8(&site()["search-index.js"]).expect("UTF-8");
    let json = text.strip_prefix("window.CLK_INDEX = ").and_then(|rest| rest.trim_end().strip_suffix(';'));
    let entries: Vec<[String; 3]> = serde_json::from_str(json.expect("an assignment")).expect("JSON");
    let pages = pages();
    for [title, place, address] in &entries {
        let (page, anchor) = address.split_once('#').map_or((address.as_str(), None), |(p, a)| (p, Some(a)));
        let html = pages.get(page).unwrap_or_else(|| panic!("{title}: {address}"));
        assert!(!title.is_empty() && !place.is_empty(), "{address}");
        assert!(anchor.is_none_or(|anchor| attributes(html, "id").contains(&anchor)), "{address}");
    }
    for title in ["atomic_add", "std.fft", "E0601: an index outside of its array", "What is a fault", "6. Blocks"] {
        assert!(entries.iter().any(|entry| entry[0] == title), "{title}");
    }
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
    let made = files(&folder.path().join("out"));
    let html = std::str::from_utf8(&made["programs/src_shapes.html"]).expect("UTF-8");
    assert!(html.contains("id=\"area\"") && html.contains("The area of a circle"), "{html}");
    assert!(made.contains_key("index.html") && made.contains_key("style.css"));
    let ran = run(folder.path(), &["doc", "--html", "out", "none.clk"]);
    assert!(ran.code == 1 && ran.err.contains("E0701"), "{}", ran.err);
}
