//! Layer 3: name resolution, type and dimension checking, and the split into host and device code.
//!
//! Input: the syntax tree of a file. Output: a typed tree ([`typed::Program`]) and diagnostics.
//!
//! A check runs in passes: `items` collects the names of a file, `sigs` reads structs, constants and signatures, `bodies`
//! checks every body independently (on several threads in a large file), `world` propagates host and device requirements
//! along the call graph, and `lints` adds warnings. One [`cx::Cx`] checks one body; its methods are spread over the files of
//! this module by subject.

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

/// Maximum number of errors reported by one check; further errors are mostly consequences of the first ones.
const MAX_ERRORS: usize = 20;
const MAX_WARNINGS: usize = 50;

/// Code of the diagnostic for an erroneous tree node that no other diagnostic explains.
pub(crate) const UNREPORTED: &str = "E0999";

/// Modules that a file's imports resolve to, by `Import::span`. A missing entry has already been reported by the caller.
pub(crate) type Imports = HashMap<Span, ModuleId>;

/// Checks a file (or a REPL entry) and adds its items to the existing module `module`; a name defined again replaces the old
/// one. If the file has script statements, a chunk is added to `program.chunks`.
/// If the diagnostics contain an error, the program must not run, and the caller restores the previous one.
pub fn check(program: &mut Program, module: ModuleId, file: &ast::File, imports: &Imports) -> Vec<Diagnostic> {
    if program.modules.get(module).is_none() {
        return vec![];
    }
    let found = items::check_file(program, module, file, imports);
    let mut found = tidy(found);
    suggest_names(program, &program.modules[module], &mut found);
    found
}

/// Adds a "did you mean" suggestion to each diagnostic about an unresolved name. This searches all names of the module, so it
/// runs after `tidy` has dropped the diagnostics that are not shown.
fn suggest_names(program: &Program, module: &typed::Module, found: &mut [Diagnostic]) {
    for d in found {
        let Some(misspelt) = d.misspelt.take() else { continue };
        let items = module.names.keys().map(|n| n.as_str());
        // Search order: names of the program, the exact name in another module, names of the prelude.
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

/// Sorts diagnostics by source position, removes duplicates, and truncates to the maximum counts.
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

/// Formats a type the way diagnostics do, for tools that show types.
pub(crate) fn show_type(program: &Program, sig: Option<&typed::Signature>, ty: &typed::Type) -> String {
    show::Show { program, sig, vars: None }.ty(ty)
}
