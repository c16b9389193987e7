//! Layer 3: name resolution, type and dimension checking, and the split into host and device code.
//!
//! Input: the syntax tree of a file. Output: a typed tree ([`typed::Program`]) and diagnostics.
//!
//! A check runs in passes: `items` collects the names of a file, `sigs` reads structs, constants and signatures, `bodies`
//! checks every body independently (on several threads in a large file), `world` propagates host and device requirements
//! along the call graph, and `lints` adds warnings. One [`cx::Cx`] checks one body; its methods are spread over the files of
//! this module by subject.

use crate::base::diag::{self, Diagnostic};
use crate::check::typed::{ModuleId, Program};
use crate::syntax::ast;

mod access;
mod alias;
mod arguments;
mod assign;
mod bodies;
mod builtin_call;
mod builtins;
mod call;
pub mod changes;
pub mod choices;
mod clauses;
mod contracts;
mod cx;
mod derive;
mod dropped;
mod dump;
mod eval;
mod expr;
mod finish;
mod fold;
pub mod foreign;
mod gather;
mod generics;
mod host;
mod identity;
mod infer;
mod items;
mod launch;
pub(crate) mod lend;
mod lints;
pub mod literal;
mod make;
mod meant;
mod ops;
mod order;
pub mod parts;
pub mod passed;
mod ranks;
mod rearrange;
mod report;
mod shards;
pub mod show;
mod sigs;
pub mod solve;
mod stated;
mod stmt;
mod suggest;
mod text;
pub mod tiles;
mod tunes;
pub mod typed;
mod types;
mod vary;
pub mod walk;
pub mod widen;
mod world;

pub use alias::module_alias;
pub use dump::dump;
pub use report::{Imports, UNREPORTED};
pub use walk::exprs;

/// Checks a file (or a REPL entry) and adds its items to the existing module `module`; a name defined again replaces the old
/// one. If the file has script statements, a chunk is added to `program.chunks`.
/// If the diagnostics contain an error, the program must not run, and the caller restores the previous one.
pub fn check(program: &mut Program, module: ModuleId, file: &ast::File, imports: &Imports) -> Vec<Diagnostic> {
    if program.modules.get(module).is_none() {
        return vec![];
    }
    let found = items::check_file(program, module, file, imports);
    let mut found = report::tidy(found);
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

/// Formats a type the way diagnostics do, for tools that show types.
pub fn show_type(program: &Program, sig: Option<&typed::Signature>, ty: &typed::Type) -> String {
    show::Show { program, sig, vars: None }.ty(ty)
}
