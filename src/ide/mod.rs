//! Layer 6: queries about a text for editors and sessions. The interface uses byte offsets and strings only; protocols and
//! terminals are handled in `app`.
//!
//! An [`Analysis`] is a text processed by the compiler's own front end, errors included. `names` resolves names and `types` has
//! the types of expressions; both are derived from the trees on demand, so that checking alone costs nothing more. `describe`
//! turns a meaning into text. The other modules answer one kind of query each: `hover`, `complete`, `signature`, `highlight`,
//! `outline`, `rename`, `hints`.

mod complete;
mod describe;
mod highlight;
mod hints;
mod hover;
pub mod markup;
mod names;
mod outline;
mod rename;
mod signature;
mod types;

use std::ops::Range;
use std::sync::OnceLock;

use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Span};
use crate::compile::{Files, Session};
use crate::syntax::ast;

pub use complete::{Completion, CompletionKind};
pub use describe::{documentation, keyword};
pub use highlight::Highlight;
pub use highlight::{Class, highlight};
pub use hints::LensKind;
pub use hints::{Hint, Lens};
pub(crate) use names::{DefKind, Meaning};
pub use outline::SymbolKind;
pub use outline::{Fold, Symbol};

/// A location: the text's [`crate::base::source::Source::name`] and a byte range in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    pub file: String,
    pub range: Range<usize>,
}

/// Maximum size of a text in bytes for which kernels are compiled to find further errors. That takes about as long as checking.
const EXAMINED: usize = 1 << 16;

/// A text with its analysis by the compiler.
pub struct Analysis {
    pub session: Session,
    /// The session before the text was added.
    before: Session,
    pub file: FileId,
    pub text: String,
    pub tree: ast::File,
    pub diagnostics: Vec<Diagnostic>,
    types: OnceLock<types::Types>,
    names: OnceLock<names::Names>,
}

impl Analysis {
    /// Analyzes a text. `name` is its path; `files` provides its imports.
    pub fn new(name: &str, text: &str, files: &dyn Files) -> Analysis {
        Analysis::after(Session::default(), name, text, files)
    }

    /// Analyzes a text as the next entry of a session.
    pub fn after(before: Session, name: &str, text: &str, files: &dyn Files) -> Analysis {
        let mut session = before.clone();
        let (tree, mut outcome) = session.read(name, text, files);
        if !outcome.failed() && text.len() < EXAMINED {
            outcome.diagnostics.extend(session.examine());
        }
        Analysis {
            session,
            before,
            file: outcome.file,
            text: text.to_owned(),
            tree,
            diagnostics: outcome.diagnostics,
            types: OnceLock::new(),
            names: OnceLock::new(),
        }
    }

    fn types(&self) -> &types::Types {
        self.types.get_or_init(|| types::Types::read(&self.session.program, self.file))
    }

    pub(crate) fn names(&self) -> &names::Names {
        let read =
            || names::Names::read(&self.tree, &self.session.program, self.session.main, self.types(), self.text.len());
        self.names.get_or_init(read)
    }

    fn place(&self, span: Span) -> Place {
        Place { file: self.session.sources.name(span.file).to_owned(), range: span.range() }
    }

    /// Returns the location of the definition of the name at an offset. Builtins have none.
    pub fn definition(&self, offset: usize) -> Option<Place> {
        let (_, meaning) = self.names().at(offset as u32)?;
        self.defined(meaning).map(|span| self.place(span))
    }

    /// Returns the span of a definition, in any file.
    fn defined(&self, meaning: Meaning) -> Option<Span> {
        use crate::check::typed::Binding;
        let program = &self.session.program;
        match meaning {
            Meaning::Def(index) => {
                let def = self.names().defs.get(index)?;
                // An import is followed to the imported definition.
                let target = (def.kind == DefKind::Import).then(|| self.binding(&def.name)).flatten();
                target.and_then(|binding| self.defined(Meaning::Bound(binding))).or(Some(def.span))
            }
            Meaning::Bound(binding) => match binding {
                Binding::Fn(id) => program.fns.get(id).map(|f| f.name_span),
                Binding::Kernel(id) => program.kernels.get(id).map(|k| k.name_span),
                Binding::Struct(id) => program.structs.get(id).map(|s| s.span),
                Binding::Const(id) => program.consts.get(id).map(|c| c.span),
                Binding::Global(id) => program.globals.get(id).map(|g| g.span),
                Binding::Module(id) => program.modules.get(id).map(|m| Span::new(m.file, 0, 0)),
                Binding::Error => None,
            },
            Meaning::Field(id, field) => {
                program.structs.get(id).and_then(|s| s.fields.get(field as usize)).map(|f| f.span)
            }
            Meaning::Elsewhere(span) => Some(span),
            Meaning::Builtin(_) | Meaning::Type => None,
        }
    }

    fn binding(&self, name: &str) -> Option<crate::check::typed::Binding> {
        let module = self.session.program.modules.get(self.session.main?)?;
        module.names.get(name).copied()
    }
}

/// Returns where a text that a session has compiled names functions, kernels, structs and constants of the session, including its own
/// definitions. A local variable, a parameter or a field of the same name is not one. `before` is the session before the text, whose
/// definitions a variable of the text may shadow.
pub fn definitions_named(before: &Session, session: &Session, file: FileId, tree: &ast::File) -> Vec<Range<usize>> {
    use crate::check::typed::Binding;
    let types = types::Types::read(&session.program, file);
    let end = session.sources.text(file).len();
    let names = names::Names::read(tree, &session.program, session.main, &types, end);
    let is_item = |kind: DefKind| matches!(kind, DefKind::Fn | DefKind::Kernel | DefKind::Struct | DefKind::Const);
    let main = before.main.and_then(|main| before.program.modules.get(main));
    let is_own = |span: &Span| {
        let binding = main.and_then(|main| main.names.get(session.sources.slice(*span)));
        matches!(binding, Some(Binding::Fn(_) | Binding::Kernel(_) | Binding::Struct(_) | Binding::Const(_)))
    };
    let defs = names.defs.iter().filter(|def| is_item(def.kind)).map(|def| def.span);
    let uses = names.uses.iter().filter(|used| match used.meaning {
        Meaning::Def(index) => names.defs.get(index).is_some_and(|def| is_item(def.kind)),
        Meaning::Bound(_) => is_own(&used.span),
        _ => false,
    });
    let mut found: Vec<Range<usize>> = defs.chain(uses.map(|used| used.span)).map(|span| span.range()).collect();
    found.sort_by_key(|range| (range.start, range.end));
    found.dedup();
    found
}

/// Returns a part of a text; empty if the range is invalid.
fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or("")
}
