//! The playground: a page that runs programs in the browser. Input: the simulator as WebAssembly
//! (`editors/playground`), and the pages with programs. Output: the page, and the files that it loads.

use std::fmt::Write as _;

use super::page::SitePage;
use clk_ide::markup::escape;

pub(super) const OUTPUT: &str = "playground.html";

/// The program that the playground shows first.
const FIRST: &str = include_str!("assets/playground.clk");

/// The files that the playground loads, other than the simulator.
pub(super) const FILES: &[(&str, &str)] = &[
    ("clk.js", include_str!("assets/clk.js")),
    ("playground.js", include_str!("assets/playground.js")),
    ("playground-worker.js", include_str!("assets/playground-worker.js")),
];

/// Returns the page of the playground, with a list of the pages that contain programs.
pub(super) fn page(pages: &[SitePage]) -> SitePage {
    let mut list = String::new();
    for (title, folder) in [("Examples", "examples/"), ("Tutorial", "book/")] {
        let _ = write!(list, "<optgroup label=\"{title}\">");
        for page in pages.iter().filter(|page| page.output.starts_with(folder)) {
            let _ = write!(list, "<option value=\"{}\">{}</option>", escape(&page.output), escape(&page.title));
        }
        list += "</optgroup>";
    }
    let markdown = include_str!("assets/playground.md").replace("{examples}", &list).replace("{first}", FIRST);
    SitePage { source: String::new(), output: OUTPUT.into(), title: "Playground".into(), is_html: true, markdown }
}

/// Returns the link that is shown below a program and opens it in the playground. `number` counts the programs of a
/// page.
pub(super) fn link(up: &str, output: &str, number: usize) -> String {
    let from = escape(output);
    format!("<a class=\"try\" href=\"{up}{OUTPUT}#from={from}&amp;program={number}\">Run in the playground</a>\n")
}
