//! Layer 6: queries about a source text, for editors and sessions. The interface uses only byte offsets and strings.
//! `app` implements protocols and terminals.
//!
//! An [`Analysis`] is the result of the compiler's front end for a text, including its errors, and the table of names
//! that the checker records. `types` (types of expressions) is computed on demand. `describe` formats definitions. Each
//! other module answers one kind of query.

#![allow(rustdoc::private_intra_doc_links)]

mod complete;
mod describe;
mod highlight;
mod hints;
mod hover;
pub mod markup;
mod outline;
mod rename;
mod signature;
mod types;

use std::ops::Range;
use std::sync::OnceLock;

use clk_base::diag::Diagnostic;
use clk_base::shared::CopyOnWrite;
use clk_base::source::{FileId, Span};
use clk_check::typed::{DefinitionKind, FileNames, NameBinding, NameTarget};
use clk_compile::{Files, Session, SessionSnapshot};
use clk_scalar::Scalar;
use clk_syntax::ast;

pub use complete::{Completion, CompletionKind};
pub use describe::{documentation, keyword_doc};
pub use highlight::Highlight;
pub use highlight::{HighlightClass, highlight};
pub use hints::LensKind;
pub use hints::{InlayHint, Lens};
pub use outline::SymbolKind;
pub use outline::{DocumentSymbol, FoldingRange};
pub use rename::RenameError;

/// A location: the name of a source text and a byte range in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextLocation {
    pub file: String,
    pub range: Range<usize>,
}

/// Maximum size in bytes of a text whose kernels are compiled to find further errors, which takes about as long as
/// checking.
const MAX_COMPILED_BYTES: usize = 1 << 16;

/// A text and its analysis by the compiler.
pub struct Analysis {
    pub session: Session,
    /// The session before the text was added.
    previous_session: Session,
    pub file: FileId,
    pub text: String,
    pub tree: ast::SourceFile,
    pub diagnostics: Vec<Diagnostic>,
    types: OnceLock<types::Types>,
    names: OnceLock<FileNames>,
}

impl Analysis {
    /// Analyzes a text. `name` is its path; `files` provides its imports.
    pub fn new(name: &str, text: &str, files: &dyn Files) -> Analysis {
        Analysis::after(Session::default(), name, text, files)
    }

    /// Analyzes a text as the next entry of a session.
    pub fn after(previous_session: Session, name: &str, text: &str, files: &dyn Files) -> Analysis {
        let mut session = previous_session.clone();
        session.program.names = Some(CopyOnWrite::default());
        let (tree, outcome) = session.read(name, text, files);
        let mut analysis = Analysis {
            session,
            previous_session,
            file: outcome.file,
            text: text.to_owned(),
            tree,
            diagnostics: outcome.diagnostics,
            types: OnceLock::new(),
            names: OnceLock::new(),
        };
        if !analysis.diagnostics.iter().any(Diagnostic::is_error) && text.len() < MAX_COMPILED_BYTES {
            analysis.diagnostics.extend(analysis.session.examine());
        }
        analysis
    }

    fn types(&self) -> &types::Types {
        self.types.get_or_init(|| types::Types::read(&self.session.program, self.file))
    }

    /// Returns the definitions and uses of names in the text, which the checker recorded.
    pub(crate) fn names(&self) -> &FileNames {
        let read = || self.session.program.names.as_deref().map(|table| table.in_file(self.file)).unwrap_or_default();
        self.names.get_or_init(read)
    }

    /// Returns the location of a span. For a text that was generated from another file, it is the place of origin, if
    /// there is one.
    fn place(&self, span: Span) -> Option<TextLocation> {
        let sources = &self.session.sources;
        let span = sources.original(span);
        let is_file = !sources.is_generated(span.file);
        is_file.then(|| TextLocation { file: sources.name(span.file).to_owned(), range: span.range() })
    }

    /// Returns the location of the definition of the name at an offset. Builtins have none.
    pub fn definition(&self, offset: usize) -> Option<TextLocation> {
        let (_, target) = self.names().at(offset as u32)?;
        self.definition_span(target).and_then(|span| self.place(span))
    }

    /// Returns the span of a definition, in any file.
    fn definition_span(&self, target: NameTarget) -> Option<Span> {
        let program = &self.session.program;
        match target {
            NameTarget::Item(binding) => match binding {
                NameBinding::Fn(id) => program.fns.get(id).map(|f| f.name_span),
                NameBinding::Kernel(id) => program.kernels.get(id).map(|k| k.name_span),
                NameBinding::Struct(id) => program.structs.get(id).map(|s| s.span),
                NameBinding::Const(id) => program.consts.get(id).map(|c| c.span),
                NameBinding::Global(id) => program.globals.get(id).map(|g| g.span),
                NameBinding::Module(id) => program.modules.get(id).map(|m| Span::new(m.file, 0, 0)),
                NameBinding::Error => None,
            },
            NameTarget::Field(id, field) => {
                program.structs.get(id).and_then(|s| s.fields.get(field as usize)).map(|f| f.span)
            }
            NameTarget::Local(span) => Some(span),
            NameTarget::Builtin(_) | NameTarget::Type => None,
        }
    }

    fn binding(&self, name: &str) -> Option<NameBinding> {
        let module = self.session.program.modules.get(self.session.main?)?;
        module.names.get(name).copied()
    }
}

/// Returns the definitions of and references to functions, kernels, structs and constants of the session in a text that
/// it has compiled.
///
/// Local variables, parameters, fields and members of modules that have the same names are excluded. `names` are the
/// names that the checker recorded in the text. `before` is the session before the text, whose definitions a variable
/// of the text may shadow; `after` is the session with the text.
pub fn item_ranges(before: &SessionSnapshot, after: &Session, names: &FileNames, text: &str) -> Vec<Range<usize>> {
    let main = after.main.and_then(|main| after.program.modules.get(main));
    let is_bound_after = |name: &str, binding| main.is_some_and(|main| main.names.get(name) == Some(&binding));
    let is_definition = |kind: DefinitionKind| {
        use DefinitionKind::{Const, Fn, Kernel, Struct};
        matches!(kind, Fn | Kernel | Struct | Const)
    };
    let definitions = names.definitions.iter().filter(|d| is_definition(d.kind)).map(|d| d.span);
    let uses = names.uses.iter().filter(|used| match used.target {
        NameTarget::Item(binding) if is_item(&binding) => {
            let name = slice(text, used.span.range());
            before.binding(name) == Some(binding) || is_bound_after(name, binding)
        }
        _ => false,
    });
    let mut ranges: Vec<Range<usize>> =
        definitions.chain(uses.map(|used| used.span)).map(|span| span.range()).collect();
    ranges.sort_by_key(|range| (range.start, range.end));
    ranges.dedup();
    ranges
}

fn is_item(binding: &NameBinding) -> bool {
    use NameBinding::{Const, Fn, Kernel, Struct};
    matches!(binding, Fn(_) | Kernel(_) | Struct(_) | Const(_))
}

/// Returns whether this is the name of a predefined type.
fn is_prelude_type(name: &str) -> bool {
    let scalar = |text: &str| Scalar::from_name(text);
    let vector = || {
        let (element, lanes) = name.rsplit_once('x')?;
        matches!(lanes, "2" | "3" | "4").then_some(scalar(element)?)
    };
    name == "str" || scalar(name).is_some() || vector().is_some()
}

/// Returns the substring in a range; empty if the range is invalid.
fn slice(text: &str, range: Range<usize>) -> &str {
    text.get(range).unwrap_or("")
}
