//! The index of the search: titles, headings, builtins, library members and codes, as JSON in a script, so that it also loads from a
//! local file.

use serde_json::{Value, json};

use super::markdown::Rendered;
use super::page::Page;

/// Returns a script with the entries: title, where it is found, address.
pub(super) fn index(pages: &[Page], rendered: &[Rendered]) -> String {
    let mut entries: Vec<Value> = Vec::new();
    for (page, done) in pages.iter().zip(rendered) {
        entries.push(json!([page.title, kind(&page.output), page.output]));
        for heading in done.headings.iter().filter(|heading| heading.level <= 3) {
            entries.push(json!([heading.text, page.title, format!("{}#{}", page.output, heading.id)]));
        }
    }
    // `</script>` cannot occur: the entries are in a file of their own.
    format!("window.CLK_INDEX = {};\n", Value::Array(entries))
}

fn kind(output: &str) -> &'static str {
    match output.split_once('/').map_or("", |(folder, _)| folder) {
        "book" => "Tutorial",
        "howto" => "How to",
        "from" => "Coming from",
        "errors" => "Error",
        "std" => "Standard library",
        "examples" => "Example",
        _ => "Page",
    }
}
