//! Layer 2: the front end for CUDA C++ files. It translates kernels to Clk text and records where each piece of the
//! text comes from, so that all commands work on the text and report at lines of the CUDA file.
//!
//! `preprocess` and `lex` produce the tokens, `parse` builds the tree of `ast`. Host code never stops a file: a
//! function that does not parse is skipped, or refused alone if it is for the device. `launches` lists the launches of
//! host code. This crate reads no files; the caller passes a [`HeaderReader`].

#![allow(rustdoc::private_intra_doc_links)]

use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, SourceMap};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

pub mod ast;
mod comments;
mod emit;
mod launches;
mod lex;
mod literal;
mod options;
mod parse;
mod preprocess;
mod sema;
pub mod source;

pub use emit::{OriginMap, TextPiece};
pub use options::{HeaderReader, ImportOptions};
pub use sema::{
    Assumption, BufferContents, CudaLaunch, CudaTranslation, DerivedLength, HostInteger, HostUnknown, HostUnknowns,
    InitialValue, KernelParameter, LEFT_OUT, LaunchArgument, LaunchDoubt, ParameterRole, REFUSED, RefusedKernel,
    SuggestedLength, TranslatedKernel, translate,
};

/// A parsed CUDA file.
#[derive(Clone, Debug, Default)]
pub struct ParsedCuda {
    pub unit: ast::TranslationUnit,
    pub provenance: source::Provenance,
    /// Errors of preprocessing, and notes about skipped host code. The translation reports refused device code.
    pub diagnostics: Vec<Diagnostic>,
}

/// Parses a file of `sources` and the local headers that it includes, which are added to `sources`.
pub fn parse(
    sources: &mut SourceMap,
    file: FileId,
    options: &ImportOptions,
    read_header: &HeaderReader<'_>,
) -> ParsedCuda {
    let first_header = sources.len();
    let mut parsed = parse_pass(sources, file, options, read_header);
    let mut files = std::iter::once(file).chain((first_header..sources.len()).map(|number| FileId(number as u32)));
    if options.cuda_arch.is_some() && files.any(|file| sources.text(file).contains("__CUDA_ARCH__")) {
        let options = ImportOptions { cuda_arch: None, ..options.clone() };
        // Messages about both passes are those of the device pass.
        parsed.unit.host = Some(Box::new(parse_pass(sources, file, &options, read_header).unit));
    }
    parsed
}

fn parse_pass(
    sources: &mut SourceMap,
    file: FileId,
    options: &ImportOptions,
    read_header: &HeaderReader<'_>,
) -> ParsedCuda {
    let preprocessed = preprocess::preprocess(sources, file, options, read_header);
    let (decls, diagnostics) = parse::parse(&preprocessed.tokens, &preprocessed.provenance);
    let mut identifiers: FxHashMap<SmolStr, Vec<source::SourceSpan>> = FxHashMap::default();
    let mut is_member = false;
    for token in &preprocessed.tokens {
        if token.kind == lex::CppTok::Ident && !is_member {
            identifiers.entry(token.text.clone()).or_default().push(token.span);
        }
        is_member = matches!(token.text.as_str(), "." | "->");
    }
    let unit = ast::TranslationUnit { decls, comments: preprocessed.comments, identifiers, host: None };
    let diagnostics = [preprocessed.diagnostics, diagnostics].concat();
    ParsedCuda { unit, provenance: preprocessed.provenance, diagnostics }
}
