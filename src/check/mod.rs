//! Layer 3: names, types, dimensions and worlds. In goes a syntax tree, out comes a typed tree and diagnostics.

use std::collections::HashMap;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{ModuleId, Program};
use crate::syntax::ast;

pub mod typed;

/// The modules behind a file's imports, by the span of `Import::span`. A missing entry was reported by the caller.
pub type Imports = HashMap<Span, ModuleId>;

/// Checks a file (or a REPL entry) and adds its items to `module`, which exists already; a name defined again replaces the
/// old one. If the file has script statements, a chunk is added to `program.chunks`.
/// With an error among the diagnostics the program must not run, and the caller restores the one it had.
pub fn check(_program: &mut Program, _module: ModuleId, _file: &ast::File, _imports: &Imports) -> Vec<Diagnostic> {
    unimplemented!()
}

/// The program as indented text, for `clk emit --stage typed`.
pub fn dump(_program: &Program, _module: ModuleId) -> String {
    unimplemented!()
}
