//! Generates the pages for builtins, standard library and diagnostic codes, and pages from the documentation comments
//! of programs.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::markdown;
use super::page::SitePage;
use crate::cli;
use crate::disk::Disk;
use clk_base::escape;
use clk_check::typed::Module;
use clk_compile::{Session, library};
use clk_scalar::builtin::{self, BuiltinGroup};

pub(super) fn pages() -> Vec<SitePage> {
    let mut pages = vec![builtins(), modules(), errors()];
    pages.extend(library::MODULES.iter().filter_map(|(name, _)| module(name)));
    pages.extend(clk_codes::pages().map(error));
    pages
}

fn generated_page(output: &str, title: &str, markdown: String) -> SitePage {
    SitePage { source: String::new(), output: output.into(), title: title.into(), is_html: false, markdown }
}

fn builtins() -> SitePage {
    let mut text = String::from(
        "# Builtin functions\n\nThey need no import. `clk doc NAME` shows the same in the terminal. The examples are run by the tests.\n",
    );
    let mut groups: Vec<BuiltinGroup> = builtin::TABLE.iter().map(|entry| entry.group).collect();
    groups.sort();
    groups.dedup();
    for group in groups {
        let _ = write!(text, "\n## {}\n\n", cli::group_title(group));
        for entry in builtin::TABLE.iter().filter(|entry| entry.group == group) {
            let place = entry.availability().replace("expressions of tiles", "expressions of [tiles](tiles.html)");
            let elementwise = if entry.elementwise { " Elementwise on vectors, and on arrays in scripts." } else { "" };
            let doc = entry.doc.trim();
            let _ = write!(
                text,
                "### {0}\n\n```clk signature\n{0}{1}\n```\n\n{doc}\n\n*{place}{elementwise}*\n\n",
                entry.name, entry.signature
            );
        }
    }
    generated_page("builtins.html", "Builtin functions", text)
}

fn modules() -> SitePage {
    let mut text = String::from(
        "# The standard library\n\n`import std.math` brings a module, `import std.math.{lerp}` a name of one. All of it is written in Clk.\n\n\
         | module | about | names |\n| --- | --- | --- |\n",
    );
    for (module, _) in library::MODULES {
        let names: Vec<String> = library::members(module).iter().map(|m| format!("`{}`", m.name)).collect();
        let _ = writeln!(text, "| `std.{module}` | {} | {} |", library::about(module), names.join(", "));
    }
    generated_page("std/index.html", "Standard library", text)
}

fn module(name: &str) -> Option<SitePage> {
    let (session, module) = cli::imported(&format!("std.{name}")).ok()?;
    let members = library::members(name);
    let public = |item: &str| members.iter().any(|member| member.name == item);
    let text = items(&format!("std.{name}"), &session, &module, &public);
    Some(generated_page(&format!("std/{name}.html"), &format!("std.{name}"), text))
}

/// Removes the brackets of links to items, which have a meaning only in the source.
fn plain_names(doc: &str) -> String {
    doc.replace("[`", "`").replace("`]", "`")
}

/// Returns the documentation of the items of a module.
fn items(title: &str, session: &Session, module: &Module, public: &dyn Fn(&str) -> bool) -> String {
    let mut text = format!("# {}\n\n", escape_markdown(title));
    if let Some(doc) = &module.doc {
        let _ = write!(text, "{}\n\n", plain_names(doc.trim()));
    }
    for (name, &binding) in &module.names {
        if public(name)
            && cli::is_own(binding, &session.program, module)
            && let Some(item) = cli::documented_item(name, binding, session)
        {
            let item = plain_names(&item);
            let item =
                item.strip_prefix("```\n").map_or_else(|| item.clone(), |rest| format!("```clk signature\n{rest}"));
            let _ = write!(text, "## {}\n\n{item}\n", escape_markdown(name));
        }
    }
    text
}

/// Returns the pages for a list of programs, created from their documentation comments.
pub(super) fn of_programs(programs: &[(PathBuf, String)]) -> Vec<SitePage> {
    let mut pages = Vec::new();
    let mut list = String::from("# Programs\n\n| file | about |\n| --- | --- |\n");
    let mut outputs = BTreeSet::new();
    for (path, text) in programs {
        let shown = path.display().to_string();
        let folder = path.parent().map(std::path::Path::to_path_buf).unwrap_or_default();
        let mut session = Session { folder, ..Session::default() };
        session.add(&shown, text, &Disk);
        let Some(module) = session.main.and_then(|main| session.program.modules.get(main)).cloned() else { continue };
        let shown = escape::name(&shown);
        let output = unique_output(&shown, &mut outputs);
        // Removes markup from the summary: its links would be relative to the page of the program.
        let about = markdown::plain_text(module.doc.as_deref().and_then(|doc| doc.lines().next()).unwrap_or(""));
        let _ = writeln!(list, "| [{}]({output}) | {} |", escape_markdown(&shown), escape_markdown(&about));
        pages.push(generated_page(&output, &shown, items(&shown, &session, &module, &|_| true)));
    }
    pages.insert(0, generated_page("index.html", "Programs", list));
    pages
}

/// Returns the path of a program's page. The paths differ in more than case, because some file systems ignore case.
fn unique_output(file: &str, used_names: &mut BTreeSet<String>) -> String {
    let name: String =
        file.trim_end_matches(".clk").chars().map(|c| if c.is_alphanumeric() { c } else { '_' }).collect();
    let mut number = 1;
    loop {
        let part = if number == 1 { String::new() } else { format!("-{number}") };
        let output = format!("programs/{name}{part}.html");
        if used_names.insert(output.to_lowercase()) {
            return output;
        }
        number += 1;
    }
}

/// Escapes the characters of a name that are special in Markdown.
fn escape_markdown(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for c in name.chars() {
        if c.is_ascii_punctuation() {
            text.push('\\');
        }
        text.push(c);
    }
    text
}

fn errors() -> SitePage {
    let mut text = String::from(
        "# Messages by code\n\nEvery message has a code. `clk explain E0601` shows its page in the terminal, with an example of the mistake and \
         of correct code; the examples are run by the tests. Codes that begin with W are warnings.\n\n| code | meaning |\n| --- | --- |\n",
    );
    let mut sorted: Vec<_> = clk_codes::pages().collect();
    sorted.sort_by_key(|page| page.code);
    for page in sorted {
        let _ = writeln!(text, "| `{}` | {} |", page.code, page.title.replace('|', "\\|"));
    }
    generated_page("errors/index.html", "Messages by code", text)
}

fn error(page: &clk_codes::Page) -> SitePage {
    let title = format!("{}: {}", page.code, page.title);
    let text = format!("# {title}\n\n{}\n\n[All codes](index.html)\n", page.text.trim());
    generated_page(&format!("errors/{}.html", page.code), &title, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_program_has_its_own_page() {
        let mut used_names = BTreeSet::new();
        let files = ["a/b.clk", "a_b.clk", "A_b.clk", "a_b.clk", "a_b-2.clk", "a b.clk.clk"];
        let outputs: BTreeSet<String> =
            files.iter().map(|file| unique_output(file, &mut used_names).to_lowercase()).collect();
        assert_eq!(outputs.len(), files.len(), "{outputs:?}");
        assert!(outputs.contains("programs/a_b.html"));
    }
}
