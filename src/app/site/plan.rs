//! The structure of the site. Input: the source texts. Output: the pages, and their groups in the navigation.

use super::page::SitePage;
use super::texts::SiteSources;

/// Returns the path in the site for a picture of the repository.
pub(super) fn picture(source: &str) -> String {
    format!("pictures/{}", source.rsplit('/').next().unwrap_or(source))
}

/// Returns the path in the site for a source text; `None` if it does not become a page.
fn output(source: &str) -> Option<String> {
    Some(match source {
        "CONTRIBUTING.md" => "contributing.html".into(),
        "SECURITY.md" => "security.html".into(),
        "grammar/README.md" => "reference.html".into(),
        "grammar/numpy.md" => "numpy-functions.html".into(),
        "grammar/clk.ebnf" => "grammar.html".into(),
        _ => match source.strip_prefix("docs/") {
            Some(page) => page.strip_suffix(".md")?.to_owned() + ".html",
            None => {
                source.strip_prefix("examples/").map(|name| format!("examples/{}", name.replace(".clk", ".html")))?
            }
        },
    })
}

/// Returns the title of a Markdown document.
fn title(markdown: &str) -> String {
    let line = markdown.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("");
    line.replace('`', "")
}

pub(super) fn pages(texts: &SiteSources) -> Vec<SitePage> {
    let mut pages = Vec::new();
    for (source, text) in &texts.texts {
        let Some(output) = output(source) else { continue };
        let markdown = match source.rsplit_once('.') {
            Some((name, "clk")) => {
                let name = name.trim_start_matches("examples/");
                format!("# {name}.clk\n\nFrom [the examples](../gallery.html). `clk run examples/{name}.clk` runs it.\n\n```clk\n{text}```\n")
                    .replace("(../gallery.html)", "(../docs/gallery.md)")
            }
            Some((_, "ebnf")) => format!(
                "# Grammar\n\nThe grammar of Clk in EBNF. The [reference](README.md) explains it.\n\n```ebnf\n{text}```\n"
            ),
            _ => text.clone(),
        };
        pages.push(SitePage { source: source.clone(), output, title: title(&markdown), is_html: false, markdown });
    }
    // `index.md` is the site's version of the repository's README.
    pages
}

/// The groups of the navigation: their titles, and the paths of their pages. A path that ends with `/` includes all
/// pages in that folder.
const GROUPS: &[(&str, &[&str])] = &[
    ("Start", &["index.html", "install.html", "playground.html", "tour.html", "gallery.html", "faq.html"]),
    ("Tutorial", &["book/"]),
    ("How to", &["howto/"]),
    ("Coming from", &["from/cuda.html", "from/numpy.html", "from/triton.html", "numpy-functions.html"]),
    (
        "Guides",
        &[
            "performance.html",
            "debugging.html",
            "races.html",
            "why.html",
            "proofs.html",
            "profiling.html",
            "tuning.html",
            "sharding.html",
            "tiles.html",
            "gradients.html",
            "gpu.html",
            "python.html",
            "mcp.html",
            "projects.html",
            "agents.html",
        ],
    ),
    (
        "Reference",
        &[
            "reference.html",
            "commands.html",
            "json.html",
            "session.html",
            "builtins.html",
            "std/index.html",
            "errors/index.html",
            "grammar.html",
            "benchmarks.html",
        ],
    ),
    ("Internals", &["design.html", "internals/"]),
    ("About", &["security.html", "contributing.html", "site.html", "releasing.html"]),
];

/// The navigation of the site: groups of pages, with titles.
pub(super) struct Navigation {
    pub groups: Vec<(String, Vec<(String, String)>)>,
}

impl Navigation {
    pub fn new(pages: &[SitePage]) -> Navigation {
        let mut groups = Vec::new();
        for (group, names) in GROUPS {
            let mut entries: Vec<(String, String)> = Vec::new();
            for name in *names {
                let is_in_group = |page: &&SitePage| {
                    if name.ends_with('/') { page.output.starts_with(name) } else { page.output == *name }
                };
                entries.extend(pages.iter().filter(is_in_group).map(|page| (page.output.clone(), page.title.clone())));
            }
            if !entries.is_empty() {
                groups.push(((*group).to_owned(), entries));
            }
        }
        if groups.is_empty() {
            let all = pages.iter().map(|page| (page.output.clone(), page.title.clone())).collect();
            groups.push(("Contents".to_owned(), all));
        }
        Navigation { groups }
    }

    /// Returns the pages before and after a page of the tutorial.
    pub fn neighbors(&self, output: &str) -> (Option<&(String, String)>, Option<&(String, String)>) {
        let chapters = self.groups.iter().find(|(_, pages)| pages.iter().any(|(page, _)| page == output));
        let Some((_, pages)) = chapters.filter(|_| output.starts_with("book/")) else { return (None, None) };
        let at = pages.iter().position(|(page, _)| page == output).unwrap_or(0);
        (at.checked_sub(1).and_then(|before| pages.get(before)), pages.get(at + 1))
    }
}
