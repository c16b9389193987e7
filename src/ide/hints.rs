//! Inlay hints and code lenses: inferred types, the size of shared memory, and items that can be run.

use super::{Analysis, slice};
use clk_check::typed::Type;
use clk_syntax::ast::ItemKind;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InlayHint {
    pub offset: usize,
    /// The text, such as `: f32`.
    pub text: String,
    /// Whether the hint is a type. Otherwise it is a remark.
    pub is_type: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LensKind {
    Run,
    Test,
    Bench,
    /// Shows the generated code of a kernel.
    Emit,
    /// Proves properties of a kernel.
    Prove,
    /// Profiles the launches of a kernel in the program.
    Profile,
}

/// An action on an item that the editor shows above the item (a code lens).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lens {
    pub range: std::ops::Range<usize>,
    pub kind: LensKind,
    /// The title of a test or bench, or the name of a kernel.
    pub name: String,
}

impl Analysis {
    /// Returns the hints in a range of the text.
    pub fn hints(&self, range: std::ops::Range<usize>) -> Vec<InlayHint> {
        let inside = |at: usize| range.start <= at && at <= range.end;
        let types = self.types();
        let mut out = Vec::new();
        for span in types.variables.iter().filter(|s| inside(s.end as usize)) {
            let rest = slice(&self.text, span.end as usize..self.text.len());
            if rest.trim_start_matches([' ', '\t']).starts_with(':') {
                continue;
            }
            let Some((ty, _)) = types.get(*span) else { continue };
            let has_type =
                !matches!(ty, Type::Error | Type::Unit | Type::Never | Type::Unknown) && !Analysis::is_host_type(ty);
            if has_type && let Some(shown) = self.type_of(span.range()) {
                out.push(InlayHint { offset: span.end as usize, text: format!(": {shown}"), is_type: true });
            }
        }
        for shared in types.shared.iter().filter(|s| inside(s.span.end as usize)) {
            if let Some(bytes) = self.shared_bytes(shared.span) {
                let rest = slice(&self.text, shared.span.end as usize..self.text.len());
                let line = rest.split('\n').next().unwrap_or("");
                let line = line.split("//").next().unwrap_or("").trim_end();
                let offset = shared.span.end as usize + line.len();
                out.push(InlayHint { offset, text: bytes, is_type: false });
            }
        }
        out.sort_by_key(|h| h.offset);
        out
    }

    pub fn lenses(&self) -> Vec<Lens> {
        let mut out = Vec::new();
        if let Some(first) = self.tree.items.iter().find(|i| matches!(i.kind, ItemKind::Stmt(_))) {
            out.push(Lens { range: first.span.range(), kind: LensKind::Run, name: String::new() });
        }
        for item in &self.tree.items {
            let (kind, name) = match &item.kind {
                ItemKind::Test(s) => (LensKind::Test, s.title.to_string()),
                ItemKind::Bench(s) => (LensKind::Bench, s.title.to_string()),
                ItemKind::Kernel(k) => (LensKind::Emit, k.name.text.to_string()),
                _ => continue,
            };
            if kind == LensKind::Emit {
                for kind in [LensKind::Prove, LensKind::Profile] {
                    out.push(Lens { range: item.span.range(), kind, name: name.clone() });
                }
            }
            out.push(Lens { range: item.span.range(), kind, name });
        }
        out
    }
}
