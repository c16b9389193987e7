//! Tests of assumptions about lengths: the `assume` clauses of translated kernels.

use super::tests::translated;

/// Returns the `assume` clause of the only kernel of a file.
fn assumed(source: &str) -> String {
    let translation = translated(source);
    let refused: Vec<_> = translation.refused.iter().map(|kernel| &kernel.diagnostic.title).collect();
    assert!(refused.is_empty(), "{refused:?}");
    let clause = translation.text.lines().find_map(|line| line.trim().strip_prefix("assume "));
    clause.unwrap_or("").to_string()
}

const I: &str = "int i = blockIdx.x * blockDim.x + threadIdx.x;";
const ROW_COL: &str =
    "int col = blockIdx.x * blockDim.x + threadIdx.x; int row = blockIdx.y * blockDim.y + threadIdx.y;";

#[track_caller]
fn expect(params: &str, body: &str, clause: &str) {
    let body = body.replace("ROW_COL", ROW_COL).replace("I;", I);
    assert_eq!(assumed(&format!("__global__ void k({params}) {{ {body} }}")), clause, "{body}");
}

#[test]
fn guards_give_lengths() {
    let map = "const float *x, float *y, int n";
    let both = "n >= 0, X_LEN >= n, Y_LEN >= n";
    expect(map, "I; if (i < n) y[i] = x[i];", both);
    expect(map, "I; if (i >= n) return; y[i] = x[i];", both);
    expect(map, "I; if (n > i) { y[i] = x[i]; }", both);
    expect(map, "I; y[i] = i < n ? x[i] : 0;", "n >= 0, X_LEN >= n, Y_LEN >= grid_x * block_x");
    expect(map, "I; if (i < n && x[i] > 0) y[i] = 1;", both);
    expect("float *x, unsigned n", "I; if (i < n) x[i] = 1;", "i64(X_LEN) >= i64(n)");
    expect("float *x, long n", "I; if (i < n) x[i] = 1;", "n >= 0, i64(X_LEN) >= n");
    expect("float *x, size_t n", "I; if (i < n) x[i] = 1;", "u64(X_LEN) >= n");
    expect("int4 *x, int n", "I; if (i < n / 4) x[i].x = 1;", "");
    expect("float *x, int n", "I; if (i < n / 4) { x[i * 4] = 1; x[i * 4 + 3] = 1; }", "n >= 0, X_LEN >= n");
}

#[test]
fn products_give_lengths() {
    let matrix = "const float *x, float *y, int h, int w";
    let both = "h >= 0, w >= 0, X_LEN >= h * w, Y_LEN >= h * w";
    expect(matrix, "ROW_COL if (row < h && col < w) y[row * w + col] = x[row * w + col];", both);
    expect(matrix, "ROW_COL if (row >= h || col >= w) return; y[col * h + row] = x[w * row + col];", both);
    expect(
        "const float *a, const float *b, float *c, int m, int n, int l",
        "ROW_COL if (row < m && col < n) {
            float s = 0; for (int j = 0; j < l; ++j) s += a[row * l + j] * b[j * n + col]; c[row * n + col] = s; }",
        "m >= 0, l >= 0, n >= 0, A_LEN >= m * l, B_LEN >= n * l, C_LEN >= m * n",
    );
    let volume = "ROW_COL if (row < h && col < w) for (int d = 0; d < 3; ++d) y[(d * h + row) * w + col] = 1;";
    expect("float *y, int h, int w", volume, "h >= 0, w >= 0, Y_LEN >= 3 * h * w");
}

/// An assumption never excuses an access past the natural length.
#[test]
fn constants_are_not_assumed() {
    let map = "const float *x, float *y, int n";
    expect(map, "I; if (i < n) y[i] = x[i] + x[i + 1];", "n >= 0, X_LEN >= n, Y_LEN >= n");
    expect(map, "I; if (i < n) y[i] = x[i + 1];", "n >= 0, Y_LEN >= n");
    expect(map, "I; if (i <= n) y[i] = x[i];", "");
    expect(map, "I; if (i > 0 && i < n - 1) y[i] = x[i - 1] + x[i + 1];", "n >= 0, X_LEN >= n, Y_LEN >= n - 1");
    let wrong = "ROW_COL if (row < h && col < w) y[col * w + row] = 1;";
    expect("float *y, int h, int w", wrong, "");
    let below = "ROW_COL if (row < h && col < w) y[row * w + col] = y[(row + 1) * w + col];";
    expect("float *y, int h, int w", below, "h >= 0, w >= 0, Y_LEN >= h * w");
    // Rows of a sparse matrix have `n + 1` offsets.
    let sparse = "I; if (i < n) { float s = 0; for (int j = at[i]; j < at[i + 1]; ++j) s += 1; y[i] = s; }";
    expect("const int *at, float *y, int n", sparse, "n >= 0, Y_LEN >= n");
}

#[test]
fn loops_give_lengths() {
    let map = "float *x, int n";
    let stride = "grid_x >= 1, grid_x * block_x <= 2147483647, n >= 0, X_LEN >= n";
    expect(map, "I; for (; i < n; i += blockDim.x * gridDim.x) x[i] = 1;", stride);
    let stride = "for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) x[i] = 1;";
    expect(map, stride, "grid_x >= 1, grid_x * block_x <= 2147483647, n >= 0, X_LEN >= n");
    expect(map, "for (int i = n - 1; i >= 0; --i) x[i] = 1;", "n >= 0, X_LEN >= n");
    expect(map, "int i = threadIdx.x; while (i < n) { x[i] = 1; i += 32; }", "n >= 0, X_LEN >= n");
    // The guard is about the value before the assignment.
    expect(map, "int i = threadIdx.x; if (i < n) { i = 2 * i; x[i] = 1; }", "n >= 0, X_LEN >= 2 * n - 1");
}

/// Descriptions have the names of the CUDA file.
#[test]
fn names_are_those_of_the_file() {
    let translation = translated("__global__ void k(float *out, int k) { if (threadIdx.x < k) out[threadIdx.x] = 1; }");
    let notes: Vec<_> = translation.kernels[0].assumptions.iter().map(|assumption| assumption.text.as_str()).collect();
    assert!(notes.contains(&"`out` has at least `k` elements"), "{notes:?}");
}

#[test]
fn calls_pass_arrays() {
    let source = "__device__ void put(float *p, int at) { p[at] = 1; }
        __global__ void k(float *x, int n) { int i = threadIdx.x; if (i < n) put(x, i); }";
    assert_eq!(assumed(source), "n >= 0, X_LEN >= n");
}

#[test]
fn shared_arrays_limit_the_block() {
    let body = "__shared__ float s[256]; I; s[threadIdx.x] = x[i]; __syncthreads(); x[i] = s[255 - threadIdx.x];";
    expect("float *x", body, "block_x <= 256, X_LEN >= grid_x * block_x");
    let body =
        "__shared__ float s[258]; s[threadIdx.x + 1] = 1; s[threadIdx.x] = 2; s[threadIdx.x + 2] = 3; x[0] = s[0];";
    assert!(assumed(&format!("__global__ void k(float *x) {{ {body} }}")).starts_with("block_x <= 256"));
    let body = "__shared__ float s[64]; int i = blockIdx.x * 64 + threadIdx.x; s[threadIdx.x] = i; x[i] = s[0];";
    assert!(assumed(&format!("__global__ void k(float *x) {{ {body} }}")).contains("block_x == 64"));
}

#[test]
fn comments_state_lengths() {
    let kernel = "__global__ void k(float *x, int n) { int i = threadIdx.x; if (i < n) x[i + 1] = 1; }";
    let clause = "n >= 0, n > 0, X_LEN >= n + 2";
    assert_eq!(assumed(&format!("// clk: x[n + 2], assume n > 0\n{kernel}")), clause);
    assert_eq!(assumed(&kernel.replace("{ int", "{ // clk: x[n + 2], assume n > 0\n int")), clause);
    let other = format!("__global__ void other() {{ }}\n/* clk: assume blockDim.x == 32 */ {kernel}");
    assert_eq!(assumed(&other), "block_x == 32");
    for (comment, why) in [
        ("clk: z[n]", "`z` is not a parameter"),
        ("clk: x[m]", "`m` is not a parameter"),
        ("clk: n[1]", "`n` is not a pointer"),
        ("clk: x[n +]", "is not an expression"),
        ("clk: whatever", "is neither a length"),
    ] {
        let translation = translated(&format!("// {comment}\n{kernel}"));
        assert!(translation.kernels.is_empty(), "{comment}");
        assert!(translation.refused[0].diagnostic.title.contains(why), "{:?}", translation.refused[0].diagnostic);
        assert!(!translation.text.contains("kernel k"), "{}", translation.text);
    }
}
