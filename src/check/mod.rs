//! Layer 3: names, types, dimensions and worlds. In goes a syntax tree, out comes a typed tree and diagnostics.
//!
//! The order of a check: `items` collects the names of a file, `sigs` reads structs, constants and signatures, `bodies`
//! checks every body on its own (on several threads in a large file), `world` follows the calls between them, and `lints`
//! adds the warnings. One body is checked by [`cx::Cx`], whose methods are spread over the files by what they are about.

use std::collections::HashMap;

use crate::base::diag::{self, Diagnostic};
use crate::base::source::Span;
use crate::check::typed::{ModuleId, Program};
use crate::syntax::ast;

mod access;
mod assign;
mod bodies;
mod builtins;
mod call;
pub(crate) mod changes;
mod cx;
mod dump;
mod eval;
mod expr;
mod finish;
mod fold;
mod generics;
mod host;
mod infer;
mod items;
mod launch;
pub(crate) mod lend;
mod lints;
mod meant;
mod ops;
pub(crate) mod parts;
mod show;
mod sigs;
mod stmt;
mod suggest;
mod text;
pub mod typed;
mod types;
pub(crate) mod walk;
mod world;

pub use dump::dump;
pub(crate) use items::module_alias;
pub use walk::exprs;

/// More errors than these are not shown: the first ones explain the others.
const MAX_ERRORS: usize = 20;
const MAX_WARNINGS: usize = 50;

/// The code of a hole in a tree that no diagnostic explains.
pub(crate) const UNREPORTED: &str = "E0999";

/// The modules behind a file's imports, by the span of `Import::span`. A missing entry was reported by the caller.
pub(crate) type Imports = HashMap<Span, ModuleId>;

/// Checks a file (or a REPL entry) and adds its items to `module`, which exists already; a name defined again replaces the
/// old one. If the file has script statements, a chunk is added to `program.chunks`.
/// With an error among the diagnostics the program must not run, and the caller restores the one it had.
pub fn check(program: &mut Program, module: ModuleId, file: &ast::File, imports: &Imports) -> Vec<Diagnostic> {
    if program.modules.get(module).is_none() {
        return vec![];
    }
    let found = items::check_file(program, module, file, imports);
    let mut found = tidy(found);
    suggest_names(program, &program.modules[module], &mut found);
    found
}

/// For each name that means nothing, the nearest that means something. It takes a look at all names of the module, so it
/// waits until it is known which messages are shown.
fn suggest_names(program: &Program, module: &typed::Module, found: &mut [Diagnostic]) {
    for d in found {
        let Some(misspelt) = d.misspelt.take() else { continue };
        let items = module.names.keys().map(|n| n.as_str());
        // The program's own names first, then the very name in a module, then what all modules have.
        let own = suggest::nearest(&misspelt.word, misspelt.near.as_deref().into_iter().chain(items));
        if own.is_none()
            && let Some(place) = meant::OfModule::find(program, module, &misspelt.word)
        {
            place.explain(d, misspelt.span, &misspelt.word);
            continue;
        }
        let near = own.or_else(|| suggest::nearest(&misspelt.word, cx::prelude_names().map(|n| -> &str { n })));
        if let Some(near) = near {
            d.help.push(format!("did you mean `{near}`?"));
            let edits = vec![(misspelt.span, near.to_owned())];
            let applicability = diag::Applicability::MaybeIncorrect;
            d.fixes.push(diag::Fix { title: format!("write `{near}`"), edits, applicability });
        }
    }
}

/// In the order of the source, without repetition, and not too many.
fn tidy(mut found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    found.sort_by_key(|d| d.primary().map_or((u32::MAX, 0), |s| (s.file.0, s.start)));
    found.dedup_by(|a, b| a.code == b.code && a.primary() == b.primary());
    let (mut errors, mut warnings) = (0, 0);
    found.retain(|d| {
        let (count, most) = if d.is_error() { (&mut errors, MAX_ERRORS) } else { (&mut warnings, MAX_WARNINGS) };
        *count += 1;
        *count <= most
    });
    if let Some(last) = found.iter_mut().rfind(|d| d.is_error()) {
        last.notes.extend(diag::and_more(errors.saturating_sub(MAX_ERRORS)));
    }
    found
}

/// The type as a message spells it, for tools that show types.
pub(crate) fn show_type(program: &Program, sig: Option<&typed::Signature>, ty: &typed::Type) -> String {
    show::Show { program, sig, vars: None }.ty(ty)
}
