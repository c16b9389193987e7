//! `clk doc`, and `:doc` and `?` in a session: documentation of builtins (from their table), of modules and files (from
//! their documentation comments), and search.

use std::path::Path;

use crate::command_error::{CommandError, CommandResult};
use crate::context::AppContext;
use crate::disk::{self, Disk};
use crate::{markdown, suggestions};
use clk_base::render::RenderStyle;
use clk_check::typed::{Module, NameBinding, Program};
use clk_compile::{Session, library};
use clk_scalar::builtin::{self, BuiltinEntry, BuiltinGroup};
use clk_scalar::foreign_names::{self, ClkEquivalent, ForeignName};
use clk_syntax::token::{CONTEXTUAL, KEYWORDS};

/// The help for a name that is not documented, if no other name is similar.
pub(super) const LIST_HELP: &str = "without a name, all builtins, modules and keywords are listed";

pub(crate) fn name(name: Option<&str>, context: &mut AppContext) -> u8 {
    let page = lookup(name, context.console.style);
    context.show(page)
}

/// Returns the documentation of a name, or an overview without a name. A word that is not a name is searched for.
pub(crate) fn lookup(name: Option<&str>, style: RenderStyle) -> CommandResult {
    let Some(name) = name.map(str::trim).filter(|name| !name.is_empty()) else { return Ok(overview(style)) };
    let foreign = foreign_names::find(name).filter(|row| row.equivalent != ClkEquivalent::Same || name.contains('.'));
    match (documented(name, style), foreign) {
        (Some(page), None) => page,
        // NumPy's function may do something else than Clk's of the same name.
        (Some(page), Some(row)) => page.map(|page| format!("{page}\n{}", foreign_page(&row, name, style))),
        (None, Some(row)) => Ok(format!("{name}\n\n{}", foreign_page(&row, name, style))),
        (None, None) => found(name, style),
    }
}

/// Returns the documentation of a name of Clk.
fn documented(name: &str, style: RenderStyle) -> Option<CommandResult> {
    if let Some(entry) = builtin::find(name) {
        return Some(Ok(builtin_page(entry, style)));
    }
    if name == "std" {
        return Some(Ok(markdown::render(&modules(), style)));
    }
    if name.starts_with("std.") {
        return Some(module(name, style));
    }
    if name.ends_with(".clk") || (disk::is_visible(Path::new(name)) && Path::new(name).is_file()) {
        return Some(file(Path::new(name), style));
    }
    if let Some(page) = clk_ide::documentation(name) {
        return Some(Ok(markdown::render(&page, style)));
    }
    if library::text(name).is_some() {
        return Some(module(&format!("std.{name}"), style));
    }
    let homes = library::homes(name);
    let pages: CommandResult<Vec<String>> = homes
        .iter()
        .map(|home| Ok(format!("std.{home}\n\n{}", module(&format!("std.{home}.{name}"), style)?)))
        .collect();
    (!homes.is_empty()).then(|| pages.map(|pages| pages.join("\n")))
}

/// Returns Clk's equivalent of a name of another language, with the documentation of the builtin that replaces it.
fn foreign_page(row: &ForeignName, name: &str, style: RenderStyle) -> String {
    let text = markdown::render(&format!("{}.\n", row.help(name)), style);
    match row.replacement(name).and_then(builtin::find) {
        Some(entry) => format!("{text}\n{}", builtin_page(entry, style)),
        None => text,
    }
}

/// Searches for the words of a text that is not a name.
fn found(name: &str, style: RenderStyle) -> CommandResult {
    let hits = search(name);
    if !hits.is_empty() {
        return Ok(markdown::render(&format!("# What speaks of {name}\n\n{hits}"), style));
    }
    let members = library::MODULES.iter().flat_map(|(module, _)| library::members(module)).map(|member| member.name);
    let suggestion = suggestions::did_you_mean(name, builtin::TABLE.iter().map(|e| e.name).chain(members));
    let help = suggestion.unwrap_or_else(|| LIST_HELP.into());
    Err(CommandError::from(format!("error: nothing is documented under `{name}`")).help(help))
}

/// Lists the builtins, library members and keywords whose name or documentation contains all of these words.
fn search(words: &str) -> String {
    let words: Vec<String> = words.split_whitespace().map(str::to_lowercase).collect();
    let matches = |name: &str, doc: &str| {
        let text = format!("{name} {doc}").to_lowercase();
        words.iter().all(|word| text.contains(word.as_str()))
    };
    let mut list = String::new();
    let mut add = |name: &str, doc: &str| {
        if matches(name, doc) {
            list += &format!("- `{name}`: {}\n", first_sentence(doc));
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
        add(word, clk_ide::keyword_doc(word).unwrap_or(""));
    }
    list
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

pub(crate) fn group_title(group: BuiltinGroup) -> &'static str {
    match group {
        BuiltinGroup::Arithmetic => "Arithmetic",
        BuiltinGroup::Float => "Floating point",
        BuiltinGroup::Integer => "Integers",
        BuiltinGroup::Value => "Values",
        BuiltinGroup::Index => "Where a thread is",
        BuiltinGroup::Barrier => "Barriers",
        BuiltinGroup::Atomic => "Atomics",
        BuiltinGroup::Warp => "Warps",
        BuiltinGroup::Tiles => "Tiles",
        BuiltinGroup::Memory => "Memory",
        BuiltinGroup::Create => "Making arrays",
        BuiltinGroup::Reduce => "Reducing arrays",
        BuiltinGroup::Rearrange => "Rearranging arrays",
        BuiltinGroup::Text => "Text",
        BuiltinGroup::Files => "Files and pictures",
        BuiltinGroup::Script => "The script",
        BuiltinGroup::Devices => "Several devices",
        BuiltinGroup::Ranks => "Several processes",
        BuiltinGroup::Derivatives => "Derivatives",
    }
}

/// Lists all builtins by group, the library's modules, and the keywords.
fn overview(style: RenderStyle) -> String {
    let mut groups: Vec<(BuiltinGroup, Vec<&str>)> = Vec::new();
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

fn builtin_page(entry: &BuiltinEntry, style: RenderStyle) -> String {
    let elementwise = if entry.elementwise { " Elementwise on vectors, and on arrays in scripts." } else { "" };
    let text =
        format!("# {}{}\n\n{}\n\n{}{elementwise}\n", entry.name, entry.signature, entry.doc, entry.availability());
    markdown::render(&text, style)
}

/// Returns the documentation of a standard library module or of one of its members.
fn module(name: &str, style: RenderStyle) -> CommandResult {
    match imported(name) {
        Ok((session, module)) => Ok(module_page(name, &session, &module, style)),
        Err(complaint) => {
            let Some((parent, member)) = name.rsplit_once('.').filter(|(parent, _)| *parent != "std") else {
                return Err(complaint);
            };
            let (session, module) = imported(parent).map_err(|_| complaint)?;
            let Some(&binding) = module.names.get(member) else {
                let suggestion = suggestions::did_you_mean(member, module.names.keys().map(|k| k.as_str()));
                let help = suggestion.unwrap_or_else(|| format!("`clk doc {parent}` lists its items"));
                return Err(CommandError::from(format!("error: `{parent}` has no `{member}`")).help(help));
            };
            let item = item(member, binding, &session).unwrap_or_default();
            Ok(markdown::render(&item, style))
        }
    }
}

/// Compiles a script that only imports a library module; returns its session and that module.
pub(crate) fn imported(name: &str) -> CommandResult<(Session, Module)> {
    let mut session = Session::default();
    let outcome = session.add("<doc>", &format!("import {name} as documented\n"), &Disk);
    if let Some(error) = outcome.diagnostics.iter().find(|d| d.is_error()) {
        return Err(format!("error: {}", error.title).into());
    }
    let documented =
        session.main.and_then(|main| match session.program.modules.get(main)?.names.get("documented")? {
            NameBinding::Module(id) => session.program.modules.get(*id).cloned(),
            _ => None,
        });
    let module = documented.ok_or_else(|| format!("error: `{name}` is not a module"))?;
    Ok((session, module))
}

/// Returns the documentation of the definitions in a file.
fn file(path: &Path, style: RenderStyle) -> CommandResult {
    let text = disk::read_source(path).map_err(|why| format!("error: `{}` cannot be read: {why}", path.display()))?;
    let mut session =
        Session { folder: path.parent().map(Path::to_path_buf).unwrap_or_default(), ..Session::default() };
    let outcome = session.add(&path.display().to_string(), &text, &Disk);
    if outcome.failed() {
        return Err(format!("error: `{0}` has mistakes; `clk check {0}` shows them", path.display()).into());
    }
    let module = session.main.and_then(|main| session.program.modules.get(main)).cloned();
    let module = module.ok_or("error: the file is empty")?;
    Ok(module_page(&path.display().to_string(), &session, &module, style))
}

fn module_page(name: &str, session: &Session, module: &Module, style: RenderStyle) -> String {
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

/// Whether a module defines a name, as opposed to importing it.
pub(crate) fn is_own(binding: NameBinding, program: &Program, module: &Module) -> bool {
    let owner = match binding {
        NameBinding::Fn(id) => program.fns[id].module,
        NameBinding::Kernel(id) => program.kernels[id].module,
        NameBinding::Struct(id) => program.structs[id].module,
        NameBinding::Const(id) => program.consts[id].module,
        NameBinding::Module(_) | NameBinding::Global(_) | NameBinding::Error => return false,
    };
    program.modules[owner].file == module.file && program.modules[owner].name == module.name
}

/// Returns one item as Markdown: its signature as written in the source, and its documentation.
pub(crate) fn item(name: &str, binding: NameBinding, session: &Session) -> Option<String> {
    let program = &session.program;
    let (span, doc) = match binding {
        NameBinding::Fn(id) => (program.fns[id].span, &program.fns[id].doc),
        NameBinding::Kernel(id) => (program.kernels[id].span, &program.kernels[id].doc),
        NameBinding::Struct(id) => (program.structs[id].span, &program.structs[id].doc),
        NameBinding::Const(id) => (program.consts[id].span, &program.consts[id].doc),
        NameBinding::Module(_) | NameBinding::Global(_) | NameBinding::Error => return None,
    };
    let source = session.sources.slice(span);
    let head = match binding {
        NameBinding::Struct(_) => source.to_string(),
        NameBinding::Const(id) => {
            format!("const {name}: {}", clk_check::show_type(program, None, &program.consts[id].ty))
        }
        _ => source.split('{').next().unwrap_or(name).to_string(),
    };
    let doc = doc.as_deref().unwrap_or("(not documented)");
    Some(format!("```\n{}\n```\n\n{}\n", head.trim(), doc.trim()))
}
