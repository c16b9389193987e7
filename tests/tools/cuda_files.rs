//! Tests `clk` on CUDA files. `tests/cuda_files/*.cu` have their translation beside them; `CLK_BLESS=1 cargo test -p
//! clk-lang-import` rewrites it.

use std::fs;
use std::path::Path;

use clk_testing::{RunOutput, clk, finish, finish_with_input};

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda_files"))
}

fn on_file(arguments: &[&str]) -> RunOutput {
    finish(clk(folder()).args(["--color", "never"]).args(arguments))
}

#[test]
fn import_prints_the_translation() {
    let imported = on_file(&["import", "reduction.cu"]);
    let expected = fs::read_to_string(folder().join("reduction.clk")).expect("the translation");
    assert_eq!(imported.out, expected, "{}", imported.err);
    assert_eq!(imported.code, 0);
}

#[test]
fn a_file_is_checked_like_a_program() {
    let checked = on_file(&["check", "reduction.cu"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
    assert!(checked.err.contains("assumes that"), "{}", checked.err);
}

/// Faults are reported at their lines of the CUDA file.
#[test]
fn a_refuted_property_has_a_line_of_the_cuda_file() {
    let scratch = tempfile::tempdir().expect("a folder");
    let text = "__global__ void shift(float *x) {\n    int i = threadIdx.x;\n    x[i] = x[i + 1];\n}\n";
    fs::write(scratch.path().join("shift.cu"), text).expect("written");
    let proved = finish(clk(scratch.path()).args(["prove", "--color", "never", "shift.cu"]));
    assert_eq!(proved.code, 1, "{}\n{}", proved.out, proved.err);
    assert!(proved.err.contains("shift.cu:3:"), "{}", proved.err);
    assert!(!proved.err.contains("Clk text"), "{}", proved.err);
}

fn on_text(text: &str, arguments: &[&str]) -> RunOutput {
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(scratch.path().join("k.cu"), text).expect("written");
    finish(clk(scratch.path()).args(arguments).args(["--color", "never", "k.cu"]))
}

const BLUR: &str = "__global__ void blur(const float *__restrict__ x, float *__restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (GUARD) y[i] = x[i - 1] + x[i] + x[i + 1];
}
";

/// The guard gives the lengths, and an access past them is refuted at its line.
#[test]
fn bounds_are_decided_with_assumed_lengths() {
    let right = on_text(&BLUR.replace("GUARD", "i > 0 && i < n - 1"), &["prove"]);
    assert_eq!(right.code, 0, "{}\n{}", right.out, right.err);
    assert!(right.out.contains("in bounds       proved"), "{}", right.out);
    assert!(right.err.contains("`x` has at least `n` elements (line 3)"), "{}", right.err);
    let wrong = on_text(&BLUR.replace("GUARD", "i > 0 && i < n"), &["prove"]);
    assert_eq!(wrong.code, 1);
    assert!(wrong.out.contains("in bounds       refuted by X_LEN = 2"), "{}", wrong.out);
    assert!(wrong.err.contains("W0853") && wrong.err.contains("k.cu:3:"), "{}", wrong.err);
    assert!(wrong.err.contains("`// clk: x[n + 1]`"), "{}", wrong.err);
    // For `clk check`, a length that may be wrong is no error.
    assert_eq!(on_text(&BLUR.replace("GUARD", "i > 0 && i < n"), &["check"]).code, 0);
    let stated = BLUR.replace("GUARD", "i > 0 && i < n").replace("int i", "// clk: x[n + 1]\n    int i");
    let stated = on_text(&stated, &["prove"]);
    assert!(stated.out.contains("in bounds       proved"), "{}", stated.out);
}

/// The accesses of a stencil have lengths that differ by rows, of which the largest is assumed.
#[test]
fn a_stencil_needs_the_row_below() {
    let text = "__global__ void f(const float *x, float *y, int w, int h) {
    int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r > 0 && r < h - 1 && c > 0 && c < w - 1)
        y[r * w + c] = x[(r - 1) * w + c] + x[(r + 1) * w + c] + x[r * w + c - 1] + x[r * w + c + 1];
}
";
    let proved = on_text(text, &["prove"]);
    assert!(proved.out.contains("X_LEN >= w * h - 1"), "{}", proved.out);
    assert!(proved.out.contains("in bounds       proved"), "{}\n{}", proved.out, proved.err);
}

/// A counter whose declaration moves into its loop leaves no other use of its name, which would mean an outer variable.
#[test]
fn counters_with_other_uses_stay_outside_of_their_loops() {
    let moved = "for i_2 in 0i32..4";
    let text = |body: &str| format!("__global__ void f(int *x, int i, int n) {{\n    {body}\n}}\n");
    let right = on_text(&text("{ int i, j = 2; for (i = 0; i < 4; i++) x[i + j] = 1; }"), &["import"]);
    assert!(right.out.contains(moved), "{}\n{}", right.out, right.err);
    let others = [
        "{ int i, *p = &i; for (i = 0; i < 4; i++) x[*p] = 1; }",
        "{ int i, &r = i; for (i = 0; i < 4; i++) x[r] = 1; }",
        "{ int i, j = sizeof(i); for (i = 0; i < 4; i++) x[i + j] = 1; }",
        "{ int i; for (i = 0; i < 4; i++) x[i] = 1; x[i] = 2; }",
    ];
    for body in others {
        let kept = on_text(&text(body), &["import"]);
        assert!(!kept.out.contains(moved) && kept.out.contains("while i_2 < 4"), "{}\n{}", kept.out, kept.err);
    }
}

/// A variable of a section of a `switch` is visible in the later sections, which the translation cannot express.
#[test]
fn sections_whose_variables_hide_others_are_refused() {
    let text = "__global__ void f(int *x, int i, int n) {
    switch (n) {
    case 0:
        BEGIN int i;
        for (i = 0; i < 4; i++) x[i] = 1;
        END
    case 1:
        x[i] = 2;
    }
}
";
    let refused = on_text(&text.replace("BEGIN", "").replace("END", ""), &["import"]);
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(refused.err.contains("a section of a `switch` whose variable hides another"), "{}", refused.err);
    let inner = on_text(&text.replace("BEGIN", "{").replace("END", "}"), &["import"]);
    assert_eq!(inner.code, 0, "{}", inner.err);
    assert!(inner.out.contains("out_[i] = 2") || inner.out.contains("x[i] = 2"), "{}", inner.out);
}

/// A length from the size of the launch would reject launches whose last block is partly filled.
#[test]
fn a_guard_that_is_not_understood_gives_no_length() {
    let text = "__global__ void f(float *x, const int *at) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < at[0]) x[i] = 1;
}
";
    let proved = on_text(text, &["prove"]);
    assert!(proved.out.contains("k.cu:3:20: the source does not state the length of `x`"), "{}", proved.out);
    let field = text.replace("const int *at", "View v").replace("at[0]", "v.n");
    let proved = on_text(&format!("struct View {{ int n; }};\n{field}"), &["prove"]);
    assert!(proved.out.contains("in bounds       proved"), "{}", proved.out);
}

/// The kernel is right for one block, which is an assumption.
#[test]
fn kernels_for_one_block_do_not_race() {
    let text = "__global__ void f(float *x) {
    __shared__ float s[256];
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = s[blockDim.x - 1 - threadIdx.x];
}
";
    let proved = on_text(text, &["prove"]);
    assert_eq!(proved.code, 0, "{}", proved.err);
    assert!(proved.out.contains("grid_x == 1") && proved.out.contains("free of races   proved"), "{}", proved.out);
    assert!(proved.err.contains("the grid has one block"), "{}", proved.err);
    let launched = format!("{text}void host(float *x) {{ f<<<4, 256>>>(x); }}\n");
    let raced = on_text(&launched, &["prove"]);
    assert!(raced.out.contains("free of races   refuted"), "{}", raced.out);
}

/// A refutation rests on the length of the launch.
#[test]
fn launches_state_lengths() {
    let text = BLUR.replace("GUARD", "i > 0 && i < n")
        + "void host(int n) {
    float *a, *b;
    cudaMalloc(&a, (n + EXTRA) * sizeof(float));
    cudaMalloc(&b, n * sizeof(float));
    blur<<<(n + 255) / 256, 256>>>(a, b, n);
}
";
    let right = on_text(&text.replace("EXTRA", "1"), &["prove"]);
    assert_eq!(right.code, 0, "{}\n{}", right.out, right.err);
    assert!(right.err.contains("`x` has at least `n + 1` elements, from the launch (line 9)"), "{}", right.err);
    let wrong = on_text(&text.replace("EXTRA", "0"), &["prove"]);
    assert_eq!(wrong.code, 1, "{}", wrong.out);
    assert!(wrong.err.contains("is that of the launch in line 9"), "{}", wrong.err);
}

/// All assumptions of a verdict are in the JSON lines, also those that are no clause of the text.
#[test]
fn json_verdicts_name_all_assumptions() {
    let text = BLUR.replace("__restrict__ ", "").replace("GUARD", "i > 0 && i < n - 1");
    let proved = on_text(&text, &["prove", "--json"]);
    let line = proved.out.lines().find(|line| line.contains("free of races")).expect("a verdict");
    assert!(line.contains("X_LEN >= n") && line.contains("refer to different arrays"), "{line}");
}

/// The object of a functor without fields is unused in the translation, which is no fault of the file.
#[test]
fn functors_without_fields_are_used() {
    let text = "struct Plus { __device__ float operator()(float a, float b) const { return a + b; } };
__global__ void f(float *x) {
    Plus plus;
    x[threadIdx.x] = plus(x[threadIdx.x], 1.0f);
}
";
    let checked = on_text(text, &["check", "--no-prove"]);
    assert!(!checked.err.contains("W0002"), "{}", checked.err);
}

#[test]
fn bounds_of_arrays_without_a_length_are_unknown() {
    let text = "__global__ void f(float *x, int n) {\n    if (threadIdx.x <= n) x[threadIdx.x] = 1;\n}\n";
    let proved = on_text(text, &["prove"]);
    assert!(proved.out.contains("k.cu:2:27: the source does not state the length of `x`"), "{}", proved.out);
    let gather = "__global__ void f(float *x, const int *at) {\n    // clk: x[64], assume blockDim.x == 64\n    \
                  x[threadIdx.x] = x[at[threadIdx.x]];\n}\n";
    let proved = on_text(gather, &["prove"]);
    assert!(!proved.out.contains("in bounds       refuted"), "{}", proved.out);
}

/// Threads with two indices write different elements, whatever the size of the block is.
#[test]
fn rows_and_columns_do_not_race() {
    let text = "__global__ void f(const float *__restrict__ x, float *__restrict__ y, int h, int w) {
    int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < h && col < w) y[row * w + col] = x[row * w + col];
}
";
    let proved = on_text(text, &["prove"]);
    let is_proved = |property: &str| {
        proved.out.lines().any(|line| line.contains(property) && line.contains("proved for all sizes"))
    };
    assert!(is_proved("in bounds") && is_proved("free of races"), "{}", proved.out);
    let racy = on_text(&text.replace("y[row * w + col] =", "y[row * h + col] ="), &["prove"]);
    assert!(!racy.out.contains("free of races   proved"), "{}", racy.out);
}

#[test]
fn check_reports_faults_that_proofs_find() {
    let text = "__global__ void f(float *x) {\n    x[(int)threadIdx.x - 1] = 1;\n}\n";
    let checked = on_text(text, &["check"]);
    assert_eq!(checked.code, 1, "{}", checked.err);
    assert!(checked.err.contains("E0601") && checked.err.contains("k.cu:2:"), "{}", checked.err);
    let checked = on_text(text, &["check", "--no-prove"]);
    assert_eq!(checked.code, 0, "{}", checked.err);
}

/// Diagnostics of a program are not moved to the CUDA file that was read before it.
#[test]
fn files_after_a_cuda_file_keep_their_places() {
    let scratch = tempfile::tempdir().expect("a folder");
    let cuda = fs::read_to_string(folder().join("reduction.cu")).expect("the file");
    fs::write(scratch.path().join("a.cu"), cuda).expect("written");
    fs::write(scratch.path().join("lib.clk"), "fn f(x: f32) -> f32 { x * missing }\n").expect("written");
    fs::write(scratch.path().join("b.clk"), "import \"./lib.clk\" as lib\nprint(lib.f(1.0))\n").expect("written");
    let checked = finish(clk(scratch.path()).args(["check", "--color", "never", "a.cu", "b.clk"]));
    assert_eq!(checked.code, 1);
    assert!(checked.err.contains("lib.clk:1:") && !checked.err.contains("a.cu:"), "{}", checked.err);
}

/// The other kernels of a file are proved.
#[test]
fn a_refused_kernel_leaves_the_others() {
    let scratch = tempfile::tempdir().expect("a folder");
    let text = "__global__ void f(int *x) {\n    asm(\"trap;\");\n}\n\
                __global__ void g(float *x, const float *y, int n) {\n    int i = threadIdx.x;\n    if (i < n) x[i] = y[i];\n}\n";
    fs::write(scratch.path().join("f.cu"), text).expect("written");
    let proved = finish(clk(scratch.path()).args(["prove", "--color", "never", "f.cu"]));
    assert_eq!(proved.code, 1);
    assert!(proved.err.contains("E0850") && proved.out.contains("free of races"), "{}\n{}", proved.out, proved.err);
    assert!(proved.err.contains("refer to different arrays"), "{}", proved.err);
}

#[test]
fn refused_kernels_name_the_construct() {
    let scratch = tempfile::tempdir().expect("a folder");
    let text =
        "__global__ void f(int *x) {\n    asm(\"trap;\");\n}\n__global__ void g(int *x) { x[threadIdx.x] = 1; }\n";
    fs::write(scratch.path().join("f.cu"), text).expect("written");
    let checked = finish(clk(scratch.path()).args(["check", "--color", "never", "f.cu"]));
    assert_eq!(checked.code, 1);
    assert!(checked.err.contains("E0850") && checked.err.contains("f.cu:2:"), "{}", checked.err);
    let missing = finish(clk(scratch.path()).args(["import", "none.cu"]));
    assert_eq!(missing.code, 1);
    assert!(missing.err.contains("none.cu"), "{}", missing.err);
}

#[test]
fn coverage_counts_kernels_and_constructs() {
    let scratch = tempfile::tempdir().expect("a folder");
    let header = "__global__ void shared(int *x) { x[threadIdx.x] = LIMIT; }\n";
    fs::write(scratch.path().join("shared.cuh"), header).expect("written");
    fs::write(scratch.path().join("a.cu"), "#define LIMIT 4\n#include \"shared.cuh\"\n").expect("written");
    let text = "#include \"shared.cuh\"\n__global__ void f(int *x) {\n    asm(\"trap;\");\n}\n";
    fs::write(scratch.path().join("b.cu"), text).expect("written");
    let files = ["a.cu", "b.cu"];
    // `a.cu` defines the macro that `b.cu` lacks.
    let table = finish(clk(scratch.path()).args(["import", "--coverage"]).args(files));
    assert_eq!(table.code, 0, "{}", table.err);
    assert!(table.out.contains("1 of 2 kernels are accepted (50.0 %)"), "{}", table.out);
    assert!(table.out.contains("inline assembly (`f`") && table.out.contains("b.cu:2)"), "{}", table.out);
    let lines = finish(clk(scratch.path()).args(["--json", "import", "--coverage"]).args(files));
    assert_eq!(lines.out.lines().count(), 2, "{}", lines.out);
    assert!(lines.out.contains("\"accepted\":true") && lines.out.contains("\"construct\":null"), "{}", lines.out);
    let two = finish(clk(scratch.path()).arg("import").args(files));
    assert_eq!(two.code, 2, "{}", two.err);
}

#[test]
fn macros_and_folders_of_headers_come_from_the_command_line() {
    let scratch = tempfile::tempdir().expect("a folder");
    fs::create_dir(scratch.path().join("include")).expect("a folder");
    fs::write(scratch.path().join("include/scale.h"), "#define SCALE 3.0f\n").expect("written");
    let text = "#include \"scale.h\"\n__global__ void f(float *x) { x[threadIdx.x] = SCALE * OFFSET; }\n";
    fs::write(scratch.path().join("f.cu"), text).expect("written");
    for command in ["import", "check", "prove"] {
        let without = finish(clk(scratch.path()).args([command, "f.cu"]));
        assert_eq!(without.code, 1, "{command}: {}{}", without.out, without.err);
        let with = finish(clk(scratch.path()).args([command, "-D", "OFFSET=2.0f", "-I", "include", "f.cu"]));
        assert!(!with.err.contains("E0850"), "{command}: {}", with.err);
    }
}

const IMPORTED: &str = "__global__ void blur(const float *x, float *y, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[threadIdx.x] + 1.0f;
}
__global__ void refused(int *x) { asm(\"trap;\"); }
";

/// Scripts launch the kernels of a CUDA file. A kernel that cannot be translated is a warning.
#[test]
fn scripts_import_cuda_files() {
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(scratch.path().join("blur.cu"), IMPORTED).expect("written");
    let script = "import \"./blur.cu\"\nvar y = zeros(3)\n\
                  blur.blur([1.0, 2.0, 3.0], y, 3, grid_x = 1, block_x = 4)\nprint(y)\n";
    fs::write(scratch.path().join("a.clk"), script).expect("written");
    let ran = finish(clk(scratch.path()).args(["run", "--check", "--color", "never", "a.clk"]));
    assert_eq!((ran.code, ran.out.trim()), (0, "[2. 3. 4.]"), "{}", ran.err);
    assert!(ran.err.contains("W0850") && ran.err.contains("blur.cu:8:"), "{}", ran.err);
}

/// Faults of a run are reported at their lines of the CUDA file.
#[test]
fn faults_of_an_imported_kernel_have_cuda_lines() {
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(
        scratch.path().join("blur.cu"),
        IMPORTED.replace("    __syncthreads();\n", "").replace("s[threadIdx.x] + ", "s[threadIdx.x ^ 1] + "),
    )
    .expect("written");
    let script = "import \"./blur.cu\"\nvar y = zeros(3)\n\
                  blur.blur([1.0, 2.0, 3.0], y, 3, grid_x = 1, block_x = 4)\n";
    fs::write(scratch.path().join("a.clk"), script).expect("written");
    let ran = finish(clk(scratch.path()).args(["run", "--check", "--color", "never", "a.clk"]));
    assert_eq!(ran.code, 1, "{}", ran.err);
    assert!(ran.err.contains("E0610") && ran.err.contains("blur.cu:5:"), "{}", ran.err);
    assert!(!ran.err.contains("Clk text"), "{}", ran.err);
    let json = finish(clk(scratch.path()).args(["--json", "run", "--check", "a.clk"]));
    assert!(json.err.contains("blur.cu") && !json.err.contains("Clk text"), "{}", json.err);
}

#[test]
fn a_cuda_kernel_is_launched_for_another_program() {
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(scratch.path().join("blur.cu"), IMPORTED).expect("written");
    let request = r#"{"scalars": {"n": 3, "grid_x": 1, "block_x": 4}, "arrays": {"x": [1, 2, 3], "y": [0, 0, 0]}}"#;
    let launched = finish_with_input(clk(scratch.path()).args(["launch", "blur.cu", "blur"]), request);
    assert_eq!(launched.code, 0, "{}", launched.err);
    let reply: serde_json::Value = serde_json::from_str(&launched.out).expect("JSON");
    assert!(reply.to_string().contains("[2.0,3.0,4.0]"), "{reply}");
}

/// GPUVerify's annotations state preconditions and assertions.
#[test]
fn annotations_are_proved() {
    let text = "__global__ void fill(float *y, int n) {
    __requires(n == 64 * blockDim.x);
    for (int i = threadIdx.x; __invariant(i >= 0), i < n; i += blockDim.x) y[i] = 1.0f;
    __assert(CONDITION);
}
";
    let right = on_text(&text.replace("CONDITION", "n >= 64"), &["prove"]);
    assert_eq!(right.code, 0, "{}\n{}", right.out, right.err);
    assert!(right.out.contains("assertions      proved") && right.out.contains("n == 64 * block_x"), "{}", right.out);
    assert!(right.err.contains("as the kernel states"), "{}", right.err);
    let wrong = on_text(&text.replace("CONDITION", "n < 128"), &["prove"]);
    assert_eq!(wrong.code, 1, "{}\n{}", wrong.out, wrong.err);
    assert!(wrong.err.contains("k.cu:4:") && wrong.err.contains("assertion failed"), "{}", wrong.err);
}

/// A call through a pointer that may be null, or refer to no function of the file, fails.
#[test]
fn calls_through_pointers_are_examined() {
    let text = "typedef float (*F)(float);
__device__ float twice(float x) { return 2.0f * x; }
__device__ float half(float x) { return 0.5f * x; }
__global__ void map(float *y, F f, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = f(y[i]);
}
";
    let open = on_text(text, &["prove"]);
    assert_eq!(open.code, 1, "{}\n{}", open.out, open.err);
    assert!(open.err.contains("refers to no function") && open.err.contains("k.cu:6:"), "{}", open.err);
    let stated = text.replace("    int i", "    __requires(f == twice | f == half);\n    int i");
    let stated = on_text(&stated, &["prove"]);
    assert_eq!(stated.code, 0, "{}\n{}", stated.out, stated.err);
}

/// A comment may state extents of axes that the kernel does not read.
#[test]
fn comments_state_all_axes() {
    let text = "// clk: assume blockDim.x == 8, blockDim.y == 2\n__global__ void f(int *x) { x[threadIdx.x] = threadIdx.x; }\n";
    let proved = on_text(text, &["prove"]);
    assert!(proved.out.contains("free of races   refuted"), "{}\n{}", proved.out, proved.err);
    let one = on_text(&text.replace("y == 2", "y == 1"), &["prove"]);
    assert!(one.out.contains("free of races   proved"), "{}\n{}", one.out, one.err);
}

/// The script makes the arrays that the kernels assume, and runs.
#[test]
fn a_script_launches_the_kernels() {
    let scratch = tempfile::tempdir().expect("a folder");
    let text = "// A stencil.
__global__ void smooth(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // Inner elements only.
    if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1];
}
__global__ void fill(double *y, int *counts, bool all) {
    extern __shared__ int s[];
    s[threadIdx.x] = counts[threadIdx.x];
    y[blockIdx.x * blockDim.x + threadIdx.x] = all ? s[threadIdx.x] : 1.5;
}
";
    fs::write(scratch.path().join("k.cu"), text).expect("written");
    let imported = finish(clk(scratch.path()).args(["import", "--script", "-o", "k.clk", "k.cu"]));
    assert_eq!(imported.code, 0, "{}", imported.err);
    let translation = fs::read_to_string(scratch.path().join("k.clk")).expect("the translation");
    assert!(translation.contains("    // Inner elements only.\n    if i > 0"), "{translation}");
    let ran = finish(clk(scratch.path()).args(["run", "--check", "k.clk"]));
    assert_eq!(ran.code, 0, "{}\n{translation}", ran.err);
    assert!(ran.out.contains("y of smooth:") && ran.out.contains("y of fill: [1.5"), "{}", ran.out);
}

/// `x * x - x * x` is 0 without contraction, and the rounding error of a product with it.
#[test]
fn products_are_contracted_on_demand() {
    let scratch = tempfile::tempdir().expect("a folder");
    let text = "__global__ void f(const float *x, float *y) { y[0] = x[0] * x[0] - x[0] * x[0]; }\n";
    fs::write(scratch.path().join("k.cu"), text).expect("written");
    let script = "import \"./k.cu\"\nvar y = zeros(1)\nk.f([0.1], y, grid_x = 1, block_x = 1)\nprint(y[0] == 0.0)\n";
    fs::write(scratch.path().join("main.clk"), script).expect("written");
    let plain = finish(clk(scratch.path()).args(["run", "main.clk"]));
    assert_eq!(plain.out.trim(), "true", "{}", plain.err);
    let contracted = finish(clk(scratch.path()).args(["run", "--contract", "main.clk"]));
    assert_eq!(contracted.out.trim(), "false", "{}", contracted.err);
    let imported = on_text(text, &["import", "--contract"]);
    assert!(imported.out.contains("fma(x[0], x[0], -(x[0] * x[0]))"), "{}", imported.out);
    let proved = on_text(text, &["prove", "--contract"]);
    assert!(proved.err.contains("products in sums are computed by `fma`"), "{}", proved.err);
}

/// The guard of a `goto` counts, and a barrier that it skips is missed.
#[test]
fn jumps_are_branches_for_proofs() {
    let text = "__global__ void f(float *x, int n) {
    // clk: x[n]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 2; k++) {
        if (i GUARD n) goto next;
        x[i] += k;
    next:;
    }
    if (i == 0) goto end;
    BARRIER
end:
    return;
}
";
    let right = on_text(&text.replace("GUARD", ">=").replace("BARRIER", ";"), &["prove"]);
    assert!(right.out.contains("in bounds       proved"), "{}", right.out);
    assert!(right.out.contains("barriers        proved"), "{}", right.out);
    let wrong = on_text(&text.replace("GUARD", ">").replace("BARRIER", "__syncthreads();"), &["prove"]);
    assert!(wrong.out.contains("in bounds       refuted"), "{}", wrong.out);
    assert!(wrong.out.contains("barriers        refuted"), "{}", wrong.out);
}

/// A variable without a value may have any value, and other kernels of the file are proved.
#[test]
fn variables_without_a_value_are_errors_and_arbitrary() {
    let text = "__global__ void f(float *x) {
    int turn;
    if (turn == 1) x[0] = threadIdx.x;
}
__global__ void g(float *x) { x[threadIdx.x] = 1; }
";
    let proved = on_text(text, &["prove"]);
    assert_eq!(proved.code, 1, "{}", proved.out);
    assert!(proved.err.contains("E0515") && proved.err.contains("k.cu:3:"), "{}", proved.err);
    let (f, g) = proved.out.split_once("\ng\n").expect("two kernels");
    assert!(!f.contains("free of races   proved"), "{f}");
    assert!(g.contains("free of races   proved"), "{g}");
    assert_eq!(on_text(text, &["check", "--no-prove"]).code, 1);
}

/// Pointers to variables and to arrays are different, and an access to a chosen array may race.
#[test]
fn proofs_follow_pointers_to_variables() {
    let text = "__global__ void f(float *x, int n) {
    float own = 1, other = 2, *p = n > 3 ? &own : &other;
    if (n == 7) p = SHARED;
    *p += 1;
    x[threadIdx.x] = *p + own;
}
";
    let right = on_text(&text.replace("SHARED", "&x[threadIdx.x]"), &["prove"]);
    assert!(right.out.contains("free of races   proved"), "{}", right.out);
    let wrong = on_text(&text.replace("SHARED", "x"), &["prove"]);
    assert!(wrong.out.contains("free of races   refuted"), "{}", wrong.out);
}
