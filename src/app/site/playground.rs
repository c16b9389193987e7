//! The page in which programs are run in the browser. Input: the simulator as WebAssembly (`editors/playground`), and the pages that have
//! programs. Output: the page, and the files beside it.

use std::fmt::Write as _;

use super::page::Page;
use crate::ide::markup::escape;

pub(super) const OUTPUT: &str = "playground.html";

/// The program that the page begins with.
const FIRST: &str = include_str!("assets/playground.clk");

/// The files of the page, without the simulator.
pub(super) const FILES: &[(&str, &str)] = &[
    ("clk.js", include_str!("assets/clk.js")),
    ("playground.js", include_str!("assets/playground.js")),
    ("playground-worker.js", include_str!("assets/playground-worker.js")),
];

/// Returns the page, with a list of the programs in others.
pub(super) fn page(pages: &[Page]) -> Page {
    let mut list = String::new();
    for (title, folder) in [("Examples", "examples/"), ("Tutorial", "book/")] {
        let _ = write!(list, "<optgroup label=\"{title}\">");
        for page in pages.iter().filter(|page| page.output.starts_with(folder)) {
            let _ = write!(list, "<option value=\"{}\">{}</option>", escape(&page.output), escape(&page.title));
        }
        list += "</optgroup>";
    }
    let markdown = include_str!("assets/playground.md").replace("{examples}", &list).replace("{first}", FIRST);
    Page { source: String::new(), output: OUTPUT.into(), title: "Playground".into(), is_html: true, markdown }
}

/// Returns the link below the `number`th program of a page.
pub(super) fn link(up: &str, output: &str, number: usize) -> String {
    let from = escape(output);
    format!("<a class=\"try\" href=\"{up}{OUTPUT}#from={from}&amp;program={number}\">Run in the playground</a>\n")
}
