//! Translates the files in `tests/cuda_files`, and compares the results with the `.clk` files there. `CLK_BLESS=1`
//! rewrites them.

use crate::{ImportOptions, parse, translate};
use clk_base::source::SourceMap;
use std::path::PathBuf;

pub(super) fn translated(text: &str) -> crate::CudaTranslation {
    let mut sources = SourceMap::default();
    let file = sources.add("kernels.cu", text);
    let parsed = parse(&mut sources, file, &ImportOptions::default(), &|_| None);
    translate(&parsed.unit, &parsed.provenance)
}

#[test]
fn files_have_the_expected_translation() {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/cuda_files"));
    let mut count = 0;
    for entry in std::fs::read_dir(&folder).expect("the folder exists") {
        let path = entry.expect("the folder is readable").path();
        if path.extension().is_none_or(|extension| extension != "cu") {
            continue;
        }
        let source = std::fs::read_to_string(&path).expect("the file is readable");
        let translation = translated(&source);
        let refused: Vec<_> = translation.refused.iter().map(|kernel| &kernel.diagnostic.title).collect();
        assert!(refused.is_empty(), "{}: {refused:?}", path.display());
        let expected = path.with_extension("clk");
        if std::env::var_os("CLK_BLESS").is_some() {
            std::fs::write(&expected, &translation.text).expect("the file is writable");
        }
        let known = std::fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(translation.text, known, "{}", path.display());
        count += 1;
    }
    assert!(count >= 4, "only {count} files were compared");
}

#[test]
fn a_piece_of_the_text_leads_to_its_place() {
    let source = "__global__ void k(float* y, int n) { int i = threadIdx.x; if (i < n) y[i] = 2.0f; }";
    let translation = translated(source);
    let at = translation.text.find("y[i] = 2.0").expect("the text has the store");
    let span = translation.map.source_of(at..at + 4).expect("the store has a place").span;
    assert_eq!(&source[span.range()], "y[i]");
}

#[test]
fn a_refusal_names_the_construct_and_keeps_other_kernels() {
    let source = "__global__ void a(float** y) { y[0][0] = 1; }\n__global__ void b(float* y) { y[0] = 1; }";
    let translation = translated(source);
    assert_eq!(translation.kernels.len(), 1);
    assert_eq!(translation.kernels[0].name, "b");
    assert_eq!(translation.refused.len(), 1);
    assert_eq!(translation.refused[0].construct, "a pointer to pointers");
    assert!(translation.refused[0].diagnostic.primary().is_some());
}

#[test]
fn a_store_to_constant_memory_is_refused() {
    let translation = translated("__constant__ int a[4]; __global__ void k(int* x) { a[threadIdx.x] = x[0]; }");
    assert!(translation.kernels.is_empty());
    assert!(translation.refused[0].construct.contains("a store to `a`"), "{}", translation.refused[0].construct);
}

#[test]
fn an_undefined_order_is_refused() {
    let translation = translated("__global__ void k(int* y) { int i = 0; y[i] = i++ + i; }");
    assert!(translation.kernels.is_empty());
    assert!(translation.refused[0].construct.contains("a change of `i`"), "{}", translation.refused[0].construct);
}

#[test]
fn rows_of_arrays_with_two_axes_keep_their_index() {
    let source = "__global__ void k(float* y) { float a[2][3]; a[1][2] = 4; a[0][1] = a[1][2]; y[0] = a[0][1]; }";
    let text = translated(source).text;
    assert!(text.contains("a[1, 2] = 4.0"), "{text}");
    assert!(text.contains("a[0, 1] = a[1, 2]"), "{text}");
}
