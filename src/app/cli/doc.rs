//! `clk doc`, and `:doc` and `?` of a session: documentation of builtins (from their table), modules and files (from their
//! documentation comments), and search.

use std::path::Path;

use crate::app::context::Context;
use crate::app::disk::{self, Disk};
use crate::app::{markdown, names};
use crate::base::render::Style;
use crate::check;
use crate::check::typed::{Binding, Module, Program};
use crate::compile::{Session, library};
use crate::ide;
use crate::lang::builtin::{self, Entry, Group};
use crate::syntax::token::{CONTEXTUAL, KEYWORDS};

pub(crate) fn name(name: Option<&str>, context: &mut Context) -> u8 {
    let found = lookup(name, context.console.style);
    context.show(found)
}

/// Returns the documentation of a name (or the overview), or the reason why there is none. A word that is not a name is
/// searched for.
pub(crate) fn lookup(name: Option<&str>, style: Style) -> Result<String, String> {
    let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else { return Ok(overview(style)) };
    if let Some(entry) = builtin::find(name) {
        return Ok(builtin_page(entry, style));
    }
    if name == "std" {
        return Ok(markdown::render(&modules(), style));
    }
    if name.starts_with("std.") {
        return module(name, style);
    }
    if name.ends_with(".clk") || Path::new(name).is_file() {
        return file(Path::new(name), style);
    }
    if let Some(page) = ide::documentation(name) {
        return Ok(markdown::render(&page, style));
    }
    if library::text(name).is_some() {
        return module(&format!("std.{name}"), style);
    }
    let homes = library::homes(name);
    if !homes.is_empty() {
        let pages: Result<Vec<String>, String> = homes
            .iter()
            .map(|home| Ok(format!("std.{home}\n\n{}", module(&format!("std.{home}.{name}"), style)?)))
            .collect();
        return pages.map(|pages| pages.join("\n"));
    }
    let found = search(name);
    if !found.is_empty() {
        return Ok(markdown::render(&format!("# What speaks of {name}\n\n{found}"), style));
    }
    let members = library::MODULES.iter().flat_map(|(module, _)| library::members(module)).map(|member| member.name);
    let meant = names::did_you_mean(name, builtin::TABLE.iter().map(|e| e.name).chain(members));
    let help = meant.unwrap_or_else(|| "without a name, all builtins, modules and keywords are listed".into());
    Err(format!("error: nothing is documented under `{name}`\n  Help: {help}"))
}

/// Returns a list of the builtins, library members and keywords whose name or documentation contains all of these words.
fn search(words: &str) -> String {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let fits = |name: &str, doc: &str| {
        let text = format!("{name} {doc}").to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    let mut found = String::new();
    let mut add = |name: &str, doc: &str| {
        if fits(name, doc) {
            found += &format!("- `{name}`: {}\n", first_sentence(doc));
        }
    };
    for entry in builtin::TABLE {
        add(entry.name, entry.doc);
    }
    for (module, _) in library::MODULES {
        add(&format!("std.{module}"), library::about(module));
        for member in library::members(module) {
            add(&format!("std.{module}.{}", member.name), &member.about);
        }
    }
    for word in keywords() {
        add(word, ide::keyword(word).unwrap_or(""));
    }
    found
}

fn first_sentence(doc: &str) -> &str {
    let line = doc.lines().next().unwrap_or("");
    line.find(". ").map_or(line, |end| &line[..=end])
}

fn keywords() -> impl Iterator<Item = &'static str> {
    KEYWORDS.iter().map(|(word, _)| *word).chain(CONTEXTUAL.iter().copied())
}

/// Lists the modules of the standard library with their public names.
fn modules() -> String {
    let mut text = String::from("# The standard library\n\n");
    for (module, _) in library::MODULES {
        let names: Vec<&str> = library::members(module).iter().map(|member| member.name).collect();
        text += &format!("- `std.{module}`: {} {}\n", library::about(module), names.join(", "));
    }
    text += "\n`import std.math` brings a module, `import std.math.{lerp}` a name of one.\n";
    text
}

pub(crate) fn group_title(group: Group) -> &'static str {
    match group {
        Group::Arithmetic => "Arithmetic",
        Group::Float => "Floating point",
        Group::Integer => "Integers",
        Group::Value => "Values",
        Group::Index => "Where a thread is",
        Group::Barrier => "Barriers",
        Group::Atomic => "Atomics",
        Group::Warp => "Warps",
        Group::Tiles => "Tiles",
        Group::Memory => "Memory",
        Group::Create => "Making arrays",
        Group::Reduce => "Reducing arrays",
        Group::Rearrange => "Rearranging arrays",
        Group::Text => "Text",
        Group::Files => "Files and pictures",
        Group::Script => "The script",
        Group::Devices => "Several devices",
        Group::Ranks => "Several processes",
        Group::Derivatives => "Derivatives",
    }
}

/// Lists all builtins by group, the library's modules, and the keywords.
fn overview(style: Style) -> String {
    let mut groups: Vec<(Group, Vec<&str>)> = Vec::new();
    for entry in builtin::TABLE {
        match groups.iter_mut().find(|(group, _)| *group == entry.group) {
            Some((_, names)) => names.push(entry.name),
            None => groups.push((entry.group, vec![entry.name])),
        }
    }
    groups.sort_by_key(|(group, _)| *group);
    let mut text = String::new();
    for (group, names) in groups {
        text += &format!("# {}\n{}\n\n", group_title(group), names.join("  "));
    }
    text += &modules();
    text += &format!("\n# Keywords\n{}\n\n", keywords().collect::<Vec<_>>().join("  "));
    text += "A name behind `clk doc`, or behind `:doc` and `?` in a session, tells more about it: `sqrt`, `std.linalg`, \
             `std.math.lerp`, `kernel`. Any other words are looked for.\n";
    markdown::render(&text, style)
}

fn builtin_page(entry: &Entry, style: Style) -> String {
    let elementwise = if entry.elementwise { " Elementwise on vectors, and on arrays in scripts." } else { "" };
    let text = format!("# {}{}\n\n{}\n\n{}{elementwise}\n", entry.name, entry.signature, entry.doc, entry.place());
    markdown::render(&text, style)
}

/// Returns the documentation of a library module or of a member of it.
fn module(name: &str, style: Style) -> Result<String, String> {
    match imported(name) {
        Ok((session, module)) => Ok(module_page(name, &session, &module, style)),
        Err(complaint) => {
            let Some((parent, member)) = name.rsplit_once('.').filter(|(parent, _)| *parent != "std") else {
                return Err(complaint);
            };
            let (session, module) = imported(parent).map_err(|_| complaint)?;
            let Some(&binding) = module.names.get(member) else {
                let meant = names::did_you_mean(member, module.names.keys().map(|k| k.as_str()));
                let help = meant.unwrap_or_else(|| format!("`clk doc {parent}` lists what it has"));
                return Err(format!("error: `{parent}` has no `{member}`\n  Help: {help}"));
            };
            let item = item(member, binding, &session).unwrap_or_default();
            Ok(markdown::render(&item, style))
        }
    }
}

/// Compiles a script that imports a module and returns that module.
pub(crate) fn imported(name: &str) -> Result<(Session, Module), String> {
    let mut session = Session::default();
    let outcome = session.add("<doc>", &format!("import {name} as documented\n"), &Disk);
    if let Some(error) = outcome.diagnostics.iter().find(|d| d.is_error()) {
        return Err(format!("error: {}", error.title));
    }
    let found = session.main.and_then(|main| match session.program.modules.get(main)?.names.get("documented")? {
        Binding::Module(id) => session.program.modules.get(*id).cloned(),
        _ => None,
    });
    let module = found.ok_or_else(|| format!("error: `{name}` is not a module"))?;
    Ok((session, module))
}

/// Returns the documentation of the definitions in a file.
fn file(path: &Path, style: Style) -> Result<String, String> {
    let text = disk::read_source(path).map_err(|why| format!("error: `{}` cannot be read: {why}", path.display()))?;
    let mut session =
        Session { folder: path.parent().map(Path::to_path_buf).unwrap_or_default(), ..Session::default() };
    let outcome = session.add(&path.display().to_string(), &text, &Disk);
    if outcome.failed() {
        return Err(format!("error: `{0}` has mistakes; `clk check {0}` shows them", path.display()));
    }
    let module = session.main.and_then(|main| session.program.modules.get(main)).cloned();
    let module = module.ok_or("error: the file is empty")?;
    Ok(module_page(&path.display().to_string(), &session, &module, style))
}

fn module_page(name: &str, session: &Session, module: &Module, style: Style) -> String {
    let mut text = format!("# {name}\n\n");
    if let Some(doc) = &module.doc {
        text += &format!("{}\n\n", doc.trim());
    }
    let internal = name.strip_prefix("std.").map(library::members);
    for (name, &binding) in &module.names {
        let public = internal.as_ref().is_none_or(|members| members.iter().any(|member| member.name == name));
        if public
            && is_own(binding, &session.program, module)
            && let Some(item) = item(name, binding, session)
        {
            text += &item;
            text.push('\n');
        }
    }
    markdown::render(&text, style)
}

/// Whether the module defines a name rather than importing it.
pub(crate) fn is_own(binding: Binding, program: &Program, module: &Module) -> bool {
    let owner = match binding {
        Binding::Fn(id) => program.fns[id].module,
        Binding::Kernel(id) => program.kernels[id].module,
        Binding::Struct(id) => program.structs[id].module,
        Binding::Const(id) => program.consts[id].module,
        Binding::Module(_) | Binding::Global(_) | Binding::Error => return false,
    };
    program.modules[owner].file == module.file && program.modules[owner].name == module.name
}

/// Returns one item as Markdown: its head as written, and its documentation.
pub(crate) fn item(name: &str, binding: Binding, session: &Session) -> Option<String> {
    let program = &session.program;
    let (span, doc) = match binding {
        Binding::Fn(id) => (program.fns[id].span, &program.fns[id].doc),
        Binding::Kernel(id) => (program.kernels[id].span, &program.kernels[id].doc),
        Binding::Struct(id) => (program.structs[id].span, &program.structs[id].doc),
        Binding::Const(id) => (program.consts[id].span, &program.consts[id].doc),
        Binding::Module(_) | Binding::Global(_) | Binding::Error => return None,
    };
    let source = session.sources.slice(span);
    let head = match binding {
        Binding::Struct(_) => source.to_string(),
        Binding::Const(id) => format!("const {name}: {}", check::show_type(program, None, &program.consts[id].ty)),
        _ => source.split('{').next().unwrap_or(name).to_string(),
    };
    let doc = doc.as_deref().unwrap_or("(not documented)");
    Some(format!("```\n{}\n```\n\n{}\n", head.trim(), doc.trim()))
}
