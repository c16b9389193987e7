//! Layer 3: name resolution, type and dimension checking, and the split into host and device code.
//!
//! Input: the syntax tree of a file. Output: a typed tree ([`typed::Program`]) and diagnostics.
//!
//! A check runs in passes: `items` collects the names of a file, `signatures` reads structs, constants and signatures,
//! `bodies` checks every body independently (on several threads in a large file), `execution_space` propagates host and
//! device requirements along the call graph, and `lints` adds warnings. One [`context::Cx`] checks one body. Its
//! methods are defined in the files of this module, one file per subject.

#![allow(rustdoc::private_intra_doc_links)]

use crate::typed::{ModuleId, Program};
use clk_base::diag::{self, Diagnostic};
use clk_syntax::ast;

mod access;
mod arguments;
mod assign;
mod ast_names;
mod bodies;
mod build;
mod builtin_call;
mod builtins;
mod call;
mod const_eval;
mod const_overflow;
mod context;
mod contracts;
mod copies;
mod custom_vjp;
mod derive;
mod divergence;
mod dump;
pub mod einsum;
mod evaluation_order;
pub(crate) mod exclusive_access;
mod execution_space;
mod expr;
mod finish;
mod foreign_names;
pub mod format_types;
mod gather;
mod generics;
mod host_builtins;
mod import_alias;
mod infer;
mod initialization;
mod items;
mod kernel_clauses;
mod launch;
mod lints;
pub mod literal;
pub mod mutations;
pub mod names;
mod ops;
pub mod parameter_limit;
mod pictures;
pub mod promote_f64;
mod ranks;
mod rearrange;
mod record_names;
mod recovery;
mod report;
pub mod scalar_count;
mod scopes;
mod sharding;
mod signatures;
pub mod solve_dims;
mod sort;
mod stmt;
mod struct_identity;
pub mod suggestions;
mod text;
mod thread_varying;
pub mod tiles;
mod tune_clauses;
pub mod tune_configs;
pub mod typed;
mod types;
mod unknown_names;
mod unpacking;
mod unused_results;
mod value_advice;
pub mod visit;

pub use copies::changed_copies_of_script;
pub use dump::dump;
pub use import_alias::module_alias;
pub use report::{Imports, UNREPORTED};
pub use visit::exprs;

/// Checks a file (or a REPL entry) and adds its items to the existing module `module`; a redefinition of a name
/// replaces the old definition. If the file has script statements, a chunk is added to `program.chunks`. If the
/// diagnostics contain an error, the program must not run, and the caller restores the previous program.
pub fn check(program: &mut Program, module: ModuleId, file: &ast::SourceFile, imports: &Imports) -> Vec<Diagnostic> {
    if program.modules.get(module).is_none() {
        return vec![];
    }
    let diagnostics = items::check_file(program, module, file, imports);
    let mut diagnostics = report::tidy(diagnostics);
    suggest_names(program, &program.modules[module], &mut diagnostics);
    diagnostics
}

/// Adds a "did you mean" suggestion to each diagnostic about an unresolved name. This searches all names of the module,
/// so it runs after `tidy` has dropped the diagnostics that are not shown.
fn suggest_names(program: &Program, module: &typed::Module, diagnostics: &mut [Diagnostic]) {
    for d in diagnostics {
        let Some(misspelled) = d.misspelled.take() else { continue };
        let items = module.names.keys().map(|n| n.as_str());
        // Search for a similar name in the program, then for the exact name in another module, then for a similar name
        // in the prelude.
        let own = suggestions::nearest(&misspelled.word, misspelled.near.as_deref().into_iter().chain(items));
        if own.is_none()
            && let Some(place) = recovery::DefiningModule::find(program, module, &misspelled.word)
        {
            place.explain(d, misspelled.span, &misspelled.word);
            continue;
        }
        let near =
            own.or_else(|| suggestions::nearest(&misspelled.word, context::prelude_names().map(|n| -> &str { n })));
        if let Some(near) = near {
            d.help.push(format!("did you mean `{near}`?"));
            let edits = vec![(misspelled.span, near.to_owned())];
            let applicability = diag::Applicability::MaybeIncorrect;
            d.fixes.push(diag::Fix { title: format!("write `{near}`"), edits, applicability });
        }
    }
}

/// Formats a type the way diagnostics do, for tools that show types.
pub fn show_type(program: &Program, sig: Option<&typed::Signature>, ty: &typed::Type) -> String {
    format_types::Show { program, sig, vars: None }.ty(ty)
}
