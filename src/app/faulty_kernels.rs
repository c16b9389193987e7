//! Kernels of a CUDA file whose translated text has an error, such as a constant index past the end of an array. They
//! are removed from the text, so that the other kernels of the file can be checked, proved and run.

use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_compile::{NoFiles, Session};
use clk_import::{CudaTranslation, TranslatedKernel};
use clk_syntax::ast::{Item, ItemKind, SourceFile};
use rustc_hash::FxHashSet;
use smol_str::SmolStr;

/// The kernels that are removed, and their errors, at places of the text.
#[derive(Default)]
pub(super) struct FaultyKernels {
    pub kernels: Vec<TranslatedKernel>,
    pub errors: Vec<Diagnostic>,
}

/// Replaces kernels with errors, and functions with errors, by spaces, until the text has no error or only errors
/// outside of them. Places in the rest of the text stay the same. Also returns the session that has compiled the rest.
pub(super) fn remove(translation: &mut CudaTranslation) -> (FaultyKernels, Session) {
    let mut faulty = FaultyKernels::default();
    loop {
        let mut session = Session::default();
        let (tree, mut outcome) = session.read("kernels.clk", &translation.text, &NoFiles);
        if !outcome.failed() {
            outcome.diagnostics.extend(session.examine());
        }
        let errors: Vec<Diagnostic> = outcome.diagnostics.into_iter().filter(Diagnostic::is_error).collect();
        let dropped = items_with_errors(&tree, &translation.text, &errors);
        if dropped.is_empty() {
            return (faulty, session);
        }
        let is_dropped = |place: Span| dropped.iter().any(|(item, _)| place.is_in(item.span));
        faulty.errors.extend(errors.into_iter().filter(|error| error.primary().is_some_and(is_dropped)));
        let mut bytes = std::mem::take(&mut translation.text).into_bytes();
        for (item, _) in &dropped {
            let range = item.span.range();
            bytes[range].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        }
        translation.text = String::from_utf8_lossy(&bytes).into_owned();
        let names: FxHashSet<&SmolStr> = dropped.iter().map(|(_, name)| *name).collect();
        let (removed, kept): (Vec<_>, Vec<_>) =
            std::mem::take(&mut translation.kernels).into_iter().partition(|kernel| names.contains(&kernel.clk_name));
        translation.kernels = kept;
        faulty.kernels.extend(removed);
    }
}

fn item_name(item: &Item) -> Option<&SmolStr> {
    match &item.kind {
        ItemKind::Kernel(kernel) => Some(&kernel.name.text),
        ItemKind::Fn(function) => Some(&function.name.text),
        _ => None,
    }
}

/// Returns whether code outside of comments contains a name.
fn uses(code: &str, name: &str) -> bool {
    let code = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    let mut words = code.flat_map(|line| line.split(|c: char| !c.is_alphanumeric() && c != '_'));
    words.any(|word| word == name)
}

/// Returns the functions and kernels that contain errors, and their direct and indirect callers, with their names.
fn items_with_errors<'a>(tree: &'a SourceFile, text: &str, errors: &[Diagnostic]) -> Vec<(&'a Item, &'a SmolStr)> {
    let code = tree.items.iter().filter_map(|item| Some((item, item_name(item)?)));
    let (mut found, mut others): (Vec<_>, Vec<_>) =
        code.partition(|(item, _)| errors.iter().filter_map(Diagnostic::primary).any(|place| place.is_in(item.span)));
    let mut at = 0;
    while let Some(&(_, name)) = found.get(at) {
        at += 1;
        let (callers, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(item, _)| uses(&text[item.span.range()], name));
        found.extend(callers);
        others = rest;
    }
    found
}
