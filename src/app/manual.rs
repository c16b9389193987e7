//! The user manual: pages from the repository, embedded in the binary. Input: a topic. Output: its page in Markdown. A
//! test checks that the list of pages is complete.

/// The pages of the manual: the path from the root of the repository, and the text.
#[rustfmt::skip]
pub(crate) static PAGES: &[(&str, &str)] = &[
    ("docs/agents.md", include_str!("../../docs/agents.md")),
    ("docs/benchmarks.md", include_str!("../../docs/benchmarks.md")),
    ("docs/commands.md", include_str!("../../docs/commands.md")),
    ("docs/debugging.md", include_str!("../../docs/debugging.md")),
    ("docs/design.md", include_str!("../../docs/design.md")),
    ("docs/faq.md", include_str!("../../docs/faq.md")),
    ("docs/gallery.md", include_str!("../../docs/gallery.md")),
    ("docs/gpu.md", include_str!("../../docs/gpu.md")),
    ("docs/gradients.md", include_str!("../../docs/gradients.md")),
    ("docs/index.md", include_str!("../../docs/index.md")),
    ("docs/install.md", include_str!("../../docs/install.md")),
    ("docs/json.md", include_str!("../../docs/json.md")),
    ("docs/mcp.md", include_str!("../../docs/mcp.md")),
    ("docs/performance.md", include_str!("../../docs/performance.md")),
    ("docs/profiling.md", include_str!("../../docs/profiling.md")),
    ("docs/projects.md", include_str!("../../docs/projects.md")),
    ("docs/proofs.md", include_str!("../../docs/proofs.md")),
    ("docs/cuda-files.md", include_str!("../../docs/cuda-files.md")),
    ("docs/python.md", include_str!("../../docs/python.md")),
    ("docs/races.md", include_str!("../../docs/races.md")),
    ("docs/ranks.md", include_str!("../../docs/ranks.md")),
    ("docs/releasing.md", include_str!("../../docs/releasing.md")),
    ("docs/session.md", include_str!("../../docs/session.md")),
    ("docs/sharding.md", include_str!("../../docs/sharding.md")),
    ("docs/site.md", include_str!("../../docs/site.md")),
    ("docs/tiles.md", include_str!("../../docs/tiles.md")),
    ("docs/tour.md", include_str!("../../docs/tour.md")),
    ("docs/tuning.md", include_str!("../../docs/tuning.md")),
    ("docs/why.md", include_str!("../../docs/why.md")),
    ("docs/book/01-threads.md", include_str!("../../docs/book/01-threads.md")),
    ("docs/book/02-shapes.md", include_str!("../../docs/book/02-shapes.md")),
    ("docs/book/03-pictures.md", include_str!("../../docs/book/03-pictures.md")),
    ("docs/book/04-scripts.md", include_str!("../../docs/book/04-scripts.md")),
    ("docs/book/05-mistakes.md", include_str!("../../docs/book/05-mistakes.md")),
    ("docs/book/06-blocks.md", include_str!("../../docs/book/06-blocks.md")),
    ("docs/book/07-shared.md", include_str!("../../docs/book/07-shared.md")),
    ("docs/book/08-reduction.md", include_str!("../../docs/book/08-reduction.md")),
    ("docs/book/09-atomics.md", include_str!("../../docs/book/09-atomics.md")),
    ("docs/book/10-product.md", include_str!("../../docs/book/10-product.md")),
    ("docs/book/11-tiles.md", include_str!("../../docs/book/11-tiles.md")),
    ("docs/book/12-tuned.md", include_str!("../../docs/book/12-tuned.md")),
    ("docs/howto/files.md", include_str!("../../docs/howto/files.md")),
    ("docs/howto/gpu.md", include_str!("../../docs/howto/gpu.md")),
    ("docs/howto/measure.md", include_str!("../../docs/howto/measure.md")),
    ("docs/howto/modules.md", include_str!("../../docs/howto/modules.md")),
    ("docs/howto/nan.md", include_str!("../../docs/howto/nan.md")),
    ("docs/howto/pictures.md", include_str!("../../docs/howto/pictures.md")),
    ("docs/howto/race.md", include_str!("../../docs/howto/race.md")),
    ("docs/howto/random.md", include_str!("../../docs/howto/random.md")),
    ("docs/howto/tests.md", include_str!("../../docs/howto/tests.md")),
    ("docs/from/cuda.md", include_str!("../../docs/from/cuda.md")),
    ("docs/from/numpy.md", include_str!("../../docs/from/numpy.md")),
    ("docs/from/triton.md", include_str!("../../docs/from/triton.md")),
];

/// Texts that are not part of the manual but are pages of the documentation site.
#[rustfmt::skip]
pub(crate) static OTHERS: &[(&str, &str)] = &[
    ("CONTRIBUTING.md", include_str!("../../CONTRIBUTING.md")),
    ("SECURITY.md", include_str!("../../SECURITY.md")),
    ("grammar/README.md", include_str!("../../grammar/README.md")),
    ("grammar/numpy.md", include_str!("../../grammar/numpy.md")),
    ("grammar/clk.ebnf", include_str!("../../grammar/clk.ebnf")),
    ("docs/internals/affine-forms.md", include_str!("../../docs/internals/affine-forms.md")),
    ("docs/internals/arguments.md", include_str!("../../docs/internals/arguments.md")),
    ("docs/internals/array-expressions.md", include_str!("../../docs/internals/array-expressions.md")),
    ("docs/internals/array-functions.md", include_str!("../../docs/internals/array-functions.md")),
    ("docs/internals/backends.md", include_str!("../../docs/internals/backends.md")),
    ("docs/internals/checks-and-patterns.md", include_str!("../../docs/internals/checks-and-patterns.md")),
    ("docs/internals/cuda-abi.md", include_str!("../../docs/internals/cuda-abi.md")),
    ("docs/internals/cuda-import.md", include_str!("../../docs/internals/cuda-import.md")),
    ("docs/internals/cuda-vectorization.md", include_str!("../../docs/internals/cuda-vectorization.md")),
    ("docs/internals/derivatives.md", include_str!("../../docs/internals/derivatives.md")),
    ("docs/internals/differentiation.md", include_str!("../../docs/internals/differentiation.md")),
    ("docs/internals/execution-context.md", include_str!("../../docs/internals/execution-context.md")),
    ("docs/internals/faults.md", include_str!("../../docs/internals/faults.md")),
    ("docs/internals/files.md", include_str!("../../docs/internals/files.md")),
    ("docs/internals/footprints.md", include_str!("../../docs/internals/footprints.md")),
    ("docs/internals/foreign-names.md", include_str!("../../docs/internals/foreign-names.md")),
    ("docs/internals/glossary.md", include_str!("../../docs/internals/glossary.md")),
    ("docs/internals/gpu-isolation.md", include_str!("../../docs/internals/gpu-isolation.md")),
    ("docs/internals/host-caches.md", include_str!("../../docs/internals/host-caches.md")),
    ("docs/internals/jit.md", include_str!("../../docs/internals/jit.md")),
    ("docs/internals/laneir.md", include_str!("../../docs/internals/laneir.md")),
    ("docs/internals/language-server.md", include_str!("../../docs/internals/language-server.md")),
    ("docs/internals/mcp.md", include_str!("../../docs/internals/mcp.md")),
    ("docs/internals/names.md", include_str!("../../docs/internals/names.md")),
    ("docs/internals/output-formats.md", include_str!("../../docs/internals/output-formats.md")),
    ("docs/internals/plots.md", include_str!("../../docs/internals/plots.md")),
    ("docs/internals/prover.md", include_str!("../../docs/internals/prover.md")),
    ("docs/internals/race-checks.md", include_str!("../../docs/internals/race-checks.md")),
    ("docs/internals/sanitizer.md", include_str!("../../docs/internals/sanitizer.md")),
    ("docs/internals/sharding.md", include_str!("../../docs/internals/sharding.md")),
    ("docs/internals/simulator.md", include_str!("../../docs/internals/simulator.md")),
    ("docs/internals/stepper.md", include_str!("../../docs/internals/stepper.md")),
    ("docs/internals/tileir.md", include_str!("../../docs/internals/tileir.md")),
    ("docs/internals/verifier-rules.md", include_str!("../../docs/internals/verifier-rules.md")),
    ("docs/internals/walks.md", include_str!("../../docs/internals/walks.md")),
];

/// The examples that the site's gallery shows.
#[rustfmt::skip]
pub(crate) static EXAMPLES: &[(&str, &str)] = &[
    ("examples/batched_products.clk", include_str!("../../examples/batched_products.clk")),
    ("examples/bitonic_sort.clk", include_str!("../../examples/bitonic_sort.clk")),
    ("examples/black_scholes.clk", include_str!("../../examples/black_scholes.clk")),
    ("examples/black_scholes_arrays.clk", include_str!("../../examples/black_scholes_arrays.clk")),
    ("examples/blur_slices.clk", include_str!("../../examples/blur_slices.clk")),
    ("examples/conjugate_gradients.clk", include_str!("../../examples/conjugate_gradients.clk")),
    ("examples/convolution.clk", include_str!("../../examples/convolution.clk")),
    ("examples/debugging.clk", include_str!("../../examples/debugging.clk")),
    ("examples/diffusivity.clk", include_str!("../../examples/diffusivity.clk")),
    ("examples/digits.clk", include_str!("../../examples/digits.clk")),
    ("examples/digits_linear.clk", include_str!("../../examples/digits_linear.clk")),
    ("examples/edges.clk", include_str!("../../examples/edges.clk")),
    ("examples/floyd_warshall.clk", include_str!("../../examples/floyd_warshall.clk")),
    ("examples/gaussian_elimination.clk", include_str!("../../examples/gaussian_elimination.clk")),
    ("examples/generic_map.clk", include_str!("../../examples/generic_map.clk")),
    ("examples/grouped_products.clk", include_str!("../../examples/grouped_products.clk")),
    ("examples/heat.clk", include_str!("../../examples/heat.clk")),
    ("examples/histogram.clk", include_str!("../../examples/histogram.clk")),
    ("examples/jacobi_sharded.clk", include_str!("../../examples/jacobi_sharded.clk")),
    ("examples/julia.clk", include_str!("../../examples/julia.clk")),
    ("examples/kalman.clk", include_str!("../../examples/kalman.clk")),
    ("examples/kmeans.clk", include_str!("../../examples/kmeans.clk")),
    ("examples/life.clk", include_str!("../../examples/life.clk")),
    ("examples/life_arrays.clk", include_str!("../../examples/life_arrays.clk")),
    ("examples/logistic_regression.clk", include_str!("../../examples/logistic_regression.clk")),
    ("examples/lynx_and_hares.clk", include_str!("../../examples/lynx_and_hares.clk")),
    ("examples/mandelbrot.clk", include_str!("../../examples/mandelbrot.clk")),
    ("examples/matmul_tiled.clk", include_str!("../../examples/matmul_tiled.clk")),
    ("examples/modular_matvec.clk", include_str!("../../examples/modular_matvec.clk")),
    ("examples/monte_carlo_pi.clk", include_str!("../../examples/monte_carlo_pi.clk")),
    ("examples/nbody.clk", include_str!("../../examples/nbody.clk")),
    ("examples/nbody_arrays.clk", include_str!("../../examples/nbody_arrays.clk")),
    ("examples/nearest_neighbors.clk", include_str!("../../examples/nearest_neighbors.clk")),
    ("examples/network.clk", include_str!("../../examples/network.clk")),
    ("examples/oscillation.clk", include_str!("../../examples/oscillation.clk")),
    ("examples/pca.clk", include_str!("../../examples/pca.clk")),
    ("examples/polynomial.clk", include_str!("../../examples/polynomial.clk")),
    ("examples/readings.clk", include_str!("../../examples/readings.clk")),
    ("examples/reduction.clk", include_str!("../../examples/reduction.clk")),
    ("examples/row_softmax.clk", include_str!("../../examples/row_softmax.clk")),
    ("examples/saxpy.clk", include_str!("../../examples/saxpy.clk")),
    ("examples/scan_sweeps.clk", include_str!("../../examples/scan_sweeps.clk")),
    ("examples/spectrum.clk", include_str!("../../examples/spectrum.clk")),
    ("examples/spheres.clk", include_str!("../../examples/spheres.clk")),
    ("examples/spheres_from_picture.clk", include_str!("../../examples/spheres_from_picture.clk")),
    ("examples/stencil.clk", include_str!("../../examples/stencil.clk")),
    ("examples/three_bodies.clk", include_str!("../../examples/three_bodies.clk")),
    ("examples/transformer.clk", include_str!("../../examples/transformer.clk")),
    ("examples/transpose.clk", include_str!("../../examples/transpose.clk")),
    ("examples/vector_add.clk", include_str!("../../examples/vector_add.clk")),
    ("examples/warp_scan.clk", include_str!("../../examples/warp_scan.clk")),
];

/// The pictures that the pages contain.
#[rustfmt::skip]
pub(crate) static PICTURES: &[(&str, &[u8])] = &[
    ("docs/pictures/caches.png", include_bytes!("../../docs/pictures/caches.png")),
    ("docs/pictures/damped.png", include_bytes!("../../docs/pictures/damped.png")),
    ("docs/pictures/digits_linear.png", include_bytes!("../../docs/pictures/digits_linear.png")),
    ("docs/pictures/edges.png", include_bytes!("../../docs/pictures/edges.png")),
    ("docs/pictures/fit.png", include_bytes!("../../docs/pictures/fit.png")),
    ("docs/pictures/heat.png", include_bytes!("../../docs/pictures/heat.png")),
    ("docs/pictures/julia.png", include_bytes!("../../docs/pictures/julia.png")),
    ("docs/pictures/losses.png", include_bytes!("../../docs/pictures/losses.png")),
    ("docs/pictures/mandel.png", include_bytes!("../../docs/pictures/mandel.png")),
    ("docs/pictures/mandelbrot.png", include_bytes!("../../docs/pictures/mandelbrot.png")),
    ("docs/pictures/normal.png", include_bytes!("../../docs/pictures/normal.png")),
    ("docs/pictures/oscillation.png", include_bytes!("../../docs/pictures/oscillation.png")),
    ("docs/pictures/rings.png", include_bytes!("../../docs/pictures/rings.png")),
    ("docs/pictures/spheres.png", include_bytes!("../../docs/pictures/spheres.png")),
    ("docs/pictures/spheres_from_picture.png", include_bytes!("../../docs/pictures/spheres_from_picture.png")),
    ("docs/pictures/waves.png", include_bytes!("../../docs/pictures/waves.png")),
    ("docs/screens/jupyter.png", include_bytes!("../../docs/screens/jupyter.png")),
    ("docs/screens/playground.png", include_bytes!("../../docs/screens/playground.png")),
];

/// The text of the language reference.
pub(crate) const REFERENCE: &str = include_str!("../../grammar/README.md");

/// Returns the topic of a page: `proofs`, or `book/blocks` for a chapter, whose number is omitted.
fn name_of(path: &str) -> String {
    let name = path.trim_start_matches("docs/").trim_end_matches(".md");
    let (folder, file) = name.rsplit_once('/').map_or(("", name), |(folder, file)| (folder, file));
    let file = file.trim_start_matches(|c: char| c.is_ascii_digit()).trim_start_matches('-');
    if folder.is_empty() { file.to_owned() } else { format!("{folder}/{file}") }
}

fn title_of(text: &str) -> &str {
    text.lines().find_map(|line| line.strip_prefix("# ")).unwrap_or("")
}

/// Returns the page of a topic. The folder part of the topic may be omitted.
pub(crate) fn page(topic: &str) -> Option<&'static str> {
    let exact = PAGES.iter().find(|(path, _)| name_of(path).eq_ignore_ascii_case(topic));
    let is_last = |name: &str| name.rsplit_once('/').is_some_and(|(_, last)| last.eq_ignore_ascii_case(topic));
    exact.or_else(|| PAGES.iter().find(|(path, _)| is_last(&name_of(path)))).map(|(_, text)| *text)
}

/// Returns the topic and the title of each page.
pub(crate) fn titles() -> impl Iterator<Item = (String, &'static str)> {
    PAGES.iter().map(|(path, text)| (name_of(path), title_of(text)))
}

/// Returns the titles of the reference's sections.
pub(crate) fn sections() -> impl Iterator<Item = &'static str> {
    REFERENCE.lines().filter_map(|line| line.strip_prefix("## "))
}

/// Returns a section of the reference by its title.
pub(crate) fn section(topic: &str) -> Option<String> {
    let mut inside = false;
    let mut text = String::new();
    for line in REFERENCE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            inside = title.eq_ignore_ascii_case(topic);
        }
        if inside {
            text += line;
            text.push('\n');
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_sections_are_found() {
        assert_eq!(name_of("docs/book/03-blocks.md"), "book/blocks");
        assert!(page("proofs").is_some() && page("nothing").is_none());
        assert!(section("kernels").is_some_and(|text| text.starts_with("## Kernels\n")));
    }
}
