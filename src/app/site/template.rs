//! The HTML template of all pages: a header with the search, the navigation, the content, and a list of the page's
//! headings.

use std::fmt::Write as _;

use super::markdown::{self, RenderedPage};
use super::page::SitePage;
use super::plan::Navigation;
use super::playground;
use clk_ide::markup::escape;

pub(super) const STYLE: &str = include_str!("assets/style.css");
pub(super) const SCRIPT: &str = include_str!("assets/search.js");
pub(super) const RANKING: &str = include_str!("assets/rank.js");

pub(super) fn page(page: &SitePage, done: &RenderedPage, navigation: &Navigation) -> String {
    let up = markdown::path_to_root(&page.output);
    let home = page.output == "index.html";
    let title = if home { "Clk".to_owned() } else { format!("{} · Clk", page.title) };
    let mut groups = String::new();
    for (group, pages) in &navigation.groups {
        let _ = write!(groups, "<h2>{}</h2>\n<ul>\n", escape(group));
        for (output, title) in pages {
            let current = if *output == page.output { " aria-current=\"page\"" } else { "" };
            let (output, title) = (escape(output), escape(title));
            let _ = writeln!(groups, "<li><a href=\"{up}{output}\"{current}>{title}</a></li>");
        }
        groups += "</ul>\n";
    }
    let headings = page_contents(done);
    let (before, behind) = navigation.neighbors(&page.output);
    let mut steps = String::new();
    if let Some((output, title)) = before {
        let _ = write!(steps, "<a class=\"before\" href=\"{up}{}\">← {}</a>", escape(output), escape(title));
    }
    if let Some((output, title)) = behind {
        let _ = write!(steps, "<a class=\"behind\" href=\"{up}{}\">{} →</a>", escape(output), escape(title));
    }
    if !steps.is_empty() {
        steps = format!("<nav class=\"steps\" aria-label=\"Chapters\">{steps}</nav>\n");
    }
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<link rel=\"stylesheet\" href=\"{up}style.css\">\n\
         <link rel=\"icon\" href=\"data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 8 8'%3E%3Cpath fill='%230a7f5a' d='M0 0h3v3H0zM5 0h3v3H5zM0 5h3v3H0zM5 5h3v3H5z'/%3E%3C/svg%3E\">\n\
         <script defer src=\"{up}search.js\" data-root=\"{up}\"></script>\n</head>\n<body{class}>\n\
         <a class=\"skip\" href=\"#content\">Skip to the text</a>\n\
         <header>\n<a class=\"logo\" href=\"{up}index.html\">Clk</a>\n\
         <div class=\"search\"><input id=\"search\" type=\"search\" placeholder=\"Search\" aria-label=\"Search\" autocomplete=\"off\">\
         <ol id=\"found\" hidden></ol></div>\n</header>\n\
         <div class=\"frame\">\n<details class=\"menu\"><summary>Contents</summary>\n<nav aria-label=\"Contents\">\n{groups}</nav>\n</details>\n\
         <nav class=\"side\" aria-label=\"Contents\">\n{groups}</nav>\n\
         <main id=\"content\">\n{body}{steps}</main>\n{headings}</div>\n</body>\n</html>\n",
        policy = policy(page),
        title = escape(&title),
        class = if home { " class=\"home\"" } else { "" },
        body = done.html,
    )
}

/// Returns the content security policy of a page. It allows only files of the site and the icon. The playground may
/// also use WebAssembly and show pictures that programs have created.
fn policy(page: &SitePage) -> &'static str {
    if page.output == playground::OUTPUT {
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self'; \
         img-src 'self' blob: data:; base-uri 'none'; form-action 'none'"
    } else {
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'"
    }
}

/// Returns the list of the page's headings. It is empty if there are too few or too many.
fn page_contents(done: &RenderedPage) -> String {
    let shown: Vec<_> = done.headings.iter().filter(|heading| heading.level == 2).collect();
    if shown.len() < 3 || shown.len() > 40 {
        return String::new();
    }
    let mut list = String::new();
    for heading in shown {
        let _ = writeln!(list, "<li><a href=\"#{}\">{}</a></li>", heading.id, escape(&heading.text));
    }
    format!("<nav class=\"page\" aria-label=\"On this page\">\n<h2>On this page</h2>\n<ul>\n{list}</ul>\n</nav>\n")
}
