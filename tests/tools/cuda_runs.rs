//! Runs, profiles and debugs the launches of CUDA files.

use std::fs;

use clk_testing::{RunOutput, clk, finish, finish_with_input};

const SAXPY: &str = "__global__ void axpy(int n, float a, const float *__restrict__ x, float *__restrict__ y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
__global__ void last(const float *__restrict__ y, float *__restrict__ out, int n) {
    if (threadIdx.x == 0) out[0] = y[n - 1];
}
int main(int argc, char **argv) {
    int n = atoi(argv[1]);
    float *x, *y, *out;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    cudaMalloc(&out, sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    cudaMemset(y, 0, n * sizeof(float));
    axpy<<<(n + 255) / 256, 256>>>(n, 2.0f, x, y);
    last<<<1, 32>>>(y, out, n);
}
";

fn on_text(text: &str, arguments: &[&str]) -> RunOutput {
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(scratch.path().join("k.cu"), text).expect("written");
    finish(clk(scratch.path()).args(["--color", "never"]).args(arguments))
}

/// Returns the records of a kind.
fn records(output: &str, kind: &str) -> Vec<serde_json::Value> {
    let all = output.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("a JSON line"));
    all.filter(|record| record["kind"] == kind).collect()
}

#[test]
fn launches_are_run_with_generated_inputs() {
    let ran = on_text(SAXPY, &["run", "k.cu"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    let first =
        "line 16: axpy<<<4, 256>>>(n = 1000, a = 2.0, x[1000], y[1000]) with n = 1000 (chosen): y = [0.0, 0.0, ";
    assert!(lines[0].starts_with(first), "{}", ran.out);
    assert!(lines[1].starts_with("line 17: last<<<1, 32>>>(y[1000], out[1], n = 1000)"), "{}", ran.out);
    assert_eq!(lines.len(), 2, "{}", ran.out);
    // The same inputs in each run.
    assert_eq!(on_text(SAXPY, &["run", "k.cu"]).out, ran.out);
}

/// The second launch reads what the first one has written, unless the host writes the array in between.
#[test]
fn launches_share_the_arrays_of_host_code() {
    let results = |text: &str| {
        let ran = on_text(text, &["--json", "run", "k.cu"]);
        let launches = records(&ran.out, "launch");
        launches.iter().map(|launch| launch["written"].clone()).collect::<Vec<_>>()
    };
    let text = SAXPY.replace("    cudaMemset(x, 0, n * sizeof(float));\n", "");
    let shared = results(&text);
    assert_ne!(shared[1]["out"]["first"][0], "0.0", "{shared:?}");
    let between = "    cudaMemset(y, 0, n * sizeof(float));\n    last<<<";
    assert_eq!(results(&text.replace("    last<<<", between))[1]["out"]["first"][0], "0.0");
}

#[test]
fn numbers_come_from_the_command_line() {
    let ran = on_text(SAXPY, &["run", "k.cu", "--kernel", "axpy", "--arg", "n=100", "--arg", "a=0.5"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("axpy<<<1, 256>>>(n = 100, a = 0.5, x[100], y[100]) with n = 100 (given)"), "{}", ran.out);
    assert_eq!(ran.out.lines().count(), 1, "{}", ran.out);
    let before = on_text(SAXPY, &["run", "--kernel", "axpy", "--arg", "n=100", "--arg", "a=0.5", "k.cu"]);
    assert_eq!(before.out, ran.out);
    let unknown = on_text(SAXPY, &["run", "k.cu", "--arg", "m=100"]);
    assert!(unknown.code == 1 && unknown.err.contains("no launch depends on `m`"), "{}", unknown.err);
    let missing = on_text(SAXPY, &["run", "k.cu", "--kernel", "axpi"]);
    assert!(missing.code == 1 && missing.err.contains("did you mean `axpy`?"), "{}", missing.err);
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(scratch.path().join("a.clk"), "print(1)\n").expect("written");
    let script = finish(clk(scratch.path()).args(["run", "--arg", "n=1", "a.clk"]));
    assert!(script.code == 2 && script.err.contains("are for CUDA files"), "{}", script.err);
}

/// Kernels are never left out silently.
#[test]
fn kernels_without_a_launch_are_run_or_listed() {
    let text = "__global__ void scale(float *m, int w, int h) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < w && y < h) m[y * w + x] *= 2.0f;
}
__global__ void refused(int *x) { asm(\"trap;\"); }
__global__ void pair(float *a, float *b) { a[threadIdx.x] = b[threadIdx.x]; }
void host(float *p) { other<<<1, 32>>>(p); pair<<<1, 32>>>(p, p); }
";
    let ran = on_text(text, &["--json", "run", "k.cu"]);
    assert_eq!(ran.code, 1, "the refused kernel is an error: {}", ran.err);
    let launches = records(&ran.out, "launch");
    assert_eq!(launches.len(), 1, "{}", ran.out);
    assert_eq!(launches[0]["kernel"], "scale");
    assert_eq!(launches[0]["geometry_chosen"], true);
    let reasons: Vec<(String, String)> = records(&ran.out, "not_run")
        .iter()
        .map(|left| (left["kernel"].as_str().expect("a name").into(), left["why"].as_str().expect("a reason").into()))
        .collect();
    assert_eq!(reasons.len(), 3, "{reasons:?}");
    assert!(reasons.contains(&("refused".into(), "it uses inline assembly".into())), "{reasons:?}");
    assert!(reasons.iter().any(|(name, why)| name == "other" && why.contains("not known which kernel")), "{reasons:?}");
}

#[test]
fn one_array_for_two_parameters_is_not_run() {
    let text = "__global__ void pair(float *a, const float *b, int n) {
    int i = threadIdx.x;
    if (i < n) a[i] = b[n - 1 - i];
}
void host(int n) {
    float *p;
    cudaMalloc(&p, n * sizeof(float));
    pair<<<1, 256>>>(p, p, n);
}
";
    let ran = on_text(text, &["run", "k.cu"]);
    assert!(ran.out.contains("pair is not run: it passes the same array for `a` and `b`"), "{}", ran.out);
}

#[test]
fn faults_of_launches_have_cuda_lines() {
    let racy = SAXPY.replace("y[i] = a * x[i] + y[i];", "y[i / 2] = a * x[i] + y[i];");
    let ran = on_text(&racy, &["run", "k.cu"]);
    assert_eq!(ran.code, 1, "{}", ran.out);
    assert!(ran.err.contains("E0610") && ran.err.contains("k.cu:3:"), "{}", ran.err);
    assert!(ran.err.contains("this launch has n = 1000 (chosen)"), "{}", ran.err);
    assert!(!ran.err.contains("Clk text") && !ran.err.contains("<launch>"), "{}", ran.err);
    assert!(ran.out.contains("stopped by E0610") && ran.out.contains("line 17: last"), "{}", ran.out);
    let short = SAXPY.replace("cudaMalloc(&y, n * sizeof(float));", "cudaMalloc(&y, n / 2 * sizeof(float));");
    let ran = on_text(&short, &["run", "k.cu"]);
    assert_eq!(ran.code, 1, "{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains("is out of bounds for `y` of length 500"), "{}", ran.err);
}

/// A fault that an input may have caused is a warning.
#[test]
fn generated_inputs_cause_no_errors() {
    let gather = "__global__ void gather(const float *x, const int *at, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[2 * at[i]];
}
";
    for arguments in [&["run", "k.cu"][..], &["run", "k.cu", "--arg", "n=100"]] {
        let ran = on_text(gather, arguments);
        assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    }
    let launched = format!(
        "{gather}void host(int n) {{\n    float *x, *y; int *at;\n    cudaMalloc(&x, n * 4); cudaMalloc(&at, n * 4); \
         cudaMalloc(&y, n * 4);\n    gather<<<(n + 255) / 256, 256>>>(x, at, y, n);\n}}\n"
    );
    let ran = on_text(&launched, &["run", "k.cu"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains("W0856") && ran.err.contains("which are generated here"), "{}", ran.err);
    // An index that does not depend on the elements is an error.
    let ran = on_text(&launched.replace("2 * at[i]", "2 * i"), &["run", "k.cu"]);
    assert!(ran.code == 1 && ran.err.contains("E0601"), "{}\n{}", ran.out, ran.err);
}

/// Divisors in arrays and numbers that align accesses are generated, too.
#[test]
fn divisors_and_alignment_are_generated() {
    let text = "__global__ void divide(const int *p, int *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = 100 / p[i];
}
__global__ void rows(float *x, size_t pitch, int w, int h) {
    if (threadIdx.x < w && blockIdx.x < h) ((float *)((char *)x + blockIdx.x * pitch))[threadIdx.x] = 1;
}
int main() {
    int *p, *x;
    float *y;
    size_t pitch;
    cudaMalloc(&p, 32 * sizeof(int));
    cudaMalloc(&x, 32 * sizeof(int));
    cudaMallocPitch(&y, &pitch, 30 * sizeof(float), 20);
    divide<<<1, 32>>>(p, x, 32);
    rows<<<20, 32>>>(y, pitch, 30, 20);
}
";
    let ran = on_text(text, &["run", "k.cu"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains("100 is divided by zero"), "{}", ran.err);
    assert!(ran.err.contains("launches with other chosen numbers have no such fault"), "{}", ran.err);
    // A divisor that does not depend on the elements is an error.
    let ran = on_text(&text.replace("p[i]", "(p[i] - p[i])"), &["run", "k.cu"]);
    assert!(ran.code == 1 && ran.err.contains("E0602"), "{}\n{}", ran.out, ran.err);
}

/// Constructors, copies, operators, references and overloads have the results of C++, which comments in the files
/// state.
#[test]
fn classes_and_overloads_have_the_results_of_cpp() {
    for (file, kernels) in [("classes.cu", 7), ("lookup.cu", 2)] {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cuda_files");
        let text = fs::read_to_string(format!("{folder}/{file}")).expect("the file is readable");
        let ran = on_text(&text, &["run", "k.cu"]);
        assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
        let mut count = 0;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let Some(expected) = line.strip_prefix("// y = ") else { continue };
            let name = lines.next().and_then(|line| line.strip_prefix("__global__ void ")?.split('(').next());
            let name = name.expect("a kernel follows the comment");
            let launch = ran.out.lines().find(|line| line.contains(&format!(": {name}<<<")));
            let result = format!(": y = {expected} (");
            assert!(launch.is_some_and(|launch| launch.contains(&result)), "{name}: {}", ran.out);
            count += 1;
        }
        assert_eq!(count, kernels, "{file}");
    }
}

/// Variables of the file keep their initial values and their contents between launches.
#[test]
fn variables_of_the_file_have_their_initial_values() {
    let text = "__device__ int count = 5;
__device__ float table[4] = {1.0f, 2.0f, 3.0f};
__global__ void step(float *x) {
    if (threadIdx.x == 0) { count += 1; x[0] = count + table[2] + table[3]; }
}
int main() {
    float *x;
    cudaMalloc(&x, sizeof(float));
    step<<<1, 32>>>(x);
    step<<<1, 32>>>(x);
}
";
    let ran = on_text(text, &["run", "k.cu"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[0].contains("x = [9.0]") && lines[1].contains("x = [10.0]"), "{}", ran.out);
}

/// Threads of other blocks do not see atomic functions of block scope, which Clk has with device scope.
#[test]
fn atomics_of_block_scope_prove_nothing_about_other_blocks() {
    let text = "__global__ void count(int *bins) { atomicAdd_block(&bins[0], 1); if (blockIdx.x == 7) bins[1] = 1; }
int main() {
    int *bins;
    cudaMalloc(&bins, 2 * sizeof(int));
    count<<<GRID, 32>>>(bins);
}
";
    let several = text.replace("GRID", "4");
    assert!(on_text(&several, &["run", "k.cu"]).err.contains("W0857"));
    let proved = on_text(&several, &["prove", "k.cu"]);
    assert!(!proved.out.contains("free of races   proved"), "{}", proved.out);
    assert!(!on_text(&text.replace("GRID", "1"), &["run", "k.cu"]).err.contains("W0857"));
    let shared = "__global__ void count(int *x) { __shared__ int s[32]; s[threadIdx.x] = 0; __syncthreads(); \
                  atomicAdd_block(&s[0], 1); __syncthreads(); x[blockIdx.x] = s[0]; }";
    assert!(!on_text(shared, &["prove", "k.cu"]).err.contains("device scope"));
}

#[test]
fn profiles_are_at_lines_of_the_cuda_file() {
    let arguments = ["profile", "k.cu", "--kernel", "axpy", "--grid", "4", "--block", "256", "--arg", "n=1000"];
    let profiled = on_text(SAXPY, &arguments);
    assert_eq!(profiled.code, 0, "{}", profiled.err);
    assert!(profiled.out.contains("axpy: 4 blocks of 256 threads"), "{}", profiled.out);
    assert!(profiled.out.contains("line 3 has 100% of the cost"), "{}", profiled.out);
    assert!(profiled.out.contains("│ k.cu") && !profiled.out.contains("Clk text"), "{}", profiled.out);
    assert!(profiled.err.contains("n = 1000 (given)"), "{}", profiled.err);
    let json = on_text(SAXPY, &["--json", "profile", "k.cu", "--kernel", "axpy"]);
    assert!(json.out.contains("\"file\":\"k.cu\",\"") && !json.out.contains("Clk text"), "{}", json.out);
}

#[test]
fn the_debugger_steps_through_the_cuda_file() {
    let commands = "break 3\nrun\nlist\nprint i\nwhere\nquit\n";
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(scratch.path().join("k.cu"), SAXPY).expect("written");
    let mut command = clk(scratch.path());
    command.args(["--color", "never", "debug", "k.cu", "--kernel", "axpy", "--arg", "n=10"]);
    let debugged = finish_with_input(&mut command, commands);
    assert!(debugged.out.contains("breakpoint 1: k.cu:3"), "{}", debugged.out);
    assert!(debugged.out.contains("thread 0 of block 0 at k.cu:3"), "{}", debugged.out);
    assert!(debugged.out.contains(">    3      if (i < n) y[i] = a * x[i] + y[i];"), "{}", debugged.out);
    assert!(debugged.out.contains("launched at k.cu:16"), "{}", debugged.out);
    assert!(!debugged.out.contains("Clk text"), "{}", debugged.out);
}

const FAULTY: &str = "__global__ void good(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
__device__ float past(float v) {
    float a[4] = {v, 1, 2, 3};
    return a[5];
}
__global__ void bad(float *y) { y[threadIdx.x] = past(1); }
__global__ void unset(float *y, int n) {
    float a[2];
    float b;
    if (n > 100) b = 1;
    y[threadIdx.x] = a[1] + b;
}
void host(float *x, float *y, int n) {
    cudaMalloc(&x, n * 4); cudaMalloc(&y, n * 4);
    good<<<(n + 255) / 256, 256>>>(x, y, n);
    bad<<<1, 32>>>(y);
}
";

/// An error in the text of one kernel does not block the other kernels of the file.
#[test]
fn errors_of_one_kernel_keep_the_others() {
    for command in ["check", "prove", "run"] {
        let ran = on_text(FAULTY, &[command, "k.cu"]);
        assert_eq!(ran.code, 1, "{command}: {}\n{}", ran.out, ran.err);
        assert!(ran.err.contains("E0325") && ran.err.contains("k.cu:7:"), "{command}: {}", ran.err);
        assert_eq!(ran.err.matches("E0325").count(), 1, "{command}: {}", ran.err);
        assert!(ran.err.contains("E0515") && !ran.err.contains("Clk text"), "{command}: {}", ran.err);
    }
    let proved = on_text(FAULTY, &["prove", "k.cu"]);
    assert!(proved.out.contains("good\n") && !proved.out.contains("bad\n"), "{}", proved.out);
    let ran = on_text(FAULTY, &["run", "k.cu"]);
    assert!(ran.out.contains("line 18: good<<<4, 256>>>"), "{}", ran.out);
    assert!(ran.out.contains("line 9: bad is not run: it has an error"), "{}", ran.out);
    // A program imports the other kernels.
    let scratch = tempfile::tempdir().expect("a folder");
    fs::write(scratch.path().join("k.cu"), FAULTY.split("__global__ void unset").next().unwrap_or_default())
        .expect("written");
    let script = "import \"./k.cu\"\nvar y = zeros(2)\nk.good([1.0, 2.0], y, 2, grid_x = 1, block_x = 2)\nprint(y)\n";
    fs::write(scratch.path().join("a.clk"), script).expect("written");
    let ran = finish(clk(scratch.path()).args(["run", "--color", "never", "a.clk"]));
    assert_eq!((ran.code, ran.out.trim()), (0, "[1. 2.]"), "{}", ran.err);
    assert!(ran.err.contains("W0850") && ran.err.contains("k.cu:7:"), "{}", ran.err);
}

/// A file whose kernels all have errors has no kernel to run, and says why.
#[test]
fn a_file_of_faulty_kernels_only_reports_the_errors() {
    let text = "__global__ void bad(float *y) { float a[2] = {1, 2}; y[0] = a[2]; }\n";
    for command in ["check", "prove", "run"] {
        let ran = on_text(text, &[command, "k.cu"]);
        assert_eq!(ran.code, 1, "{command}: {}\n{}", ran.out, ran.err);
        assert!(ran.err.contains("E0325") && !ran.err.contains("has no kernel"), "{command}: {}", ran.err);
    }
}

/// Lints name variables of the CUDA file only, and give no advice about Clk.
#[test]
fn lints_are_about_the_cuda_file() {
    let text = "__global__ void k(int *a, int *b, int *y, int n, int spare) {
    int *p = n ? a : b;
    int unread = y[1];
    atomicAdd(p, 1);
    const int *q = y;
    if (n > 3) q = y + 1;
    y[threadIdx.x] = *q;
    __shared__ float s[32];
    s[threadIdx.x] = 1;
    __syncthreads();
    while (n > 5) y[0] = 1;
}
";
    let ran = on_text(text, &["check", "--no-prove", "k.cu"]);
    for generated in ["_old", "p_in", "q_at", "`var`", "`let`", "Help: call it", "declare `"] {
        assert!(!ran.err.contains(generated), "{generated}: {}", ran.err);
    }
    let json = on_text(text, &["--json", "check", "--no-prove", "k.cu"]);
    for line in json.out.lines().chain(json.err.lines()).filter(|line| line.contains("\"W00")) {
        assert!(!line.contains("\"help\":[\""), "{line}");
    }
    assert!(ran.err.contains("W0009") && ran.err.contains("`n` never changes, so this loop never ends"), "{}", ran.err);
    assert!(ran.err.contains("the parameter `spare` is never used"), "{}", ran.err);
}

/// A race that other integers in arrays avoid is a warning; one that always occurs is an error.
#[test]
fn races_that_need_generated_integers_are_warnings() {
    let scatter = "__global__ void scatter(const int *at, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[at[i]] = i;
}
void host(int n) {
    int *at; float *y;
    cudaMalloc(&at, n * 4); cudaMalloc(&y, n * 4);
    scatter<<<(n + 255) / 256, 256>>>(at, y, n);
}
";
    let ran = on_text(scatter, &["run", "k.cu"]);
    assert_eq!(ran.code, 0, "{}\n{}", ran.out, ran.err);
    assert!(ran.err.contains("W0856") && ran.err.contains("the race depends on the integers"), "{}", ran.err);
    let ran = on_text(&scatter.replace("y[at[i]]", "y[at[i] * 0 + i / 2]"), &["run", "k.cu"]);
    assert!(ran.code == 1 && ran.err.contains("E0610"), "{}\n{}", ran.out, ran.err);
}
