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
    let one_block = "grid_x == 1, n >= 0, X_LEN >= n";
    expect(map, "for (int i = n - 1; i >= 0; --i) x[i] = 1;", one_block);
    expect(map, "int i = threadIdx.x; while (i < n) { x[i] = 1; i += 32; }", one_block);
    // The guard is about the value before the assignment.
    expect(map, "int i = blockIdx.x; if (i < n) { i = 2 * i; x[i] = 1; }", "n >= 0, X_LEN >= 2 * n - 1");
}

/// Blocks that use a part of their threads: `a * blockIdx.x` does not wrap around if the launch has few threads.
#[test]
fn parts_of_blocks_limit_the_number_of_threads() {
    let body = "unsigned part = blockDim.x / 4 * 4; unsigned i = part * blockIdx.x + threadIdx.x;
        if (threadIdx.x < part && i < n) x[i] = 1;";
    expect("float *x, unsigned n", body, "grid_x * block_x <= 2147483647, i64(X_LEN) >= i64(n)");
}

/// A signed number is not compared with a parameter of type `u64` in an assumption.
#[test]
fn negative_numbers_are_not_compared_with_unsigned_parameters() {
    let body = "if (42 / -4 != (long long)n) return; x[15] = 1;";
    expect("float *x, unsigned long long n", body, "grid_x == 1");
}

/// A length that only the size of the launch gives is assumed if all threads make the access.
#[test]
fn conditions_that_are_not_understood_give_no_length() {
    let has_length = |body: &str| {
        let params = "float *x, const float *at, int n, float scale";
        assumed(&format!("__global__ void k({params}) {{ {I} {body} }}")).contains("X_LEN")
    };
    assert!(has_length("x[i] = 1;"));
    assert!(has_length("for (int j = 0; j < 3; ++j) x[i] = 1;"));
    // Each block has a first thread.
    assert!(has_length("if (threadIdx.x == 0) x[blockIdx.x] = 1;"));
    assert!(has_length("if (threadIdx.x >= 32) return; x[blockIdx.x] = 1;"));
    assert!(!has_length("if (threadIdx.x == 1) x[blockIdx.x] = 1;"));
    assert!(!has_length("if (threadIdx.x == 0) x[i] = 1;"));
    for body in [
        "if (at[0] > i) x[i] = 1;",
        "if (at[0] > i) return; x[i] = 1;",
        "if (at[0] > i) { if (at[1] > i) return; } x[i] = 1;",
        "for (;;) { if (at[0] > i) break; x[i] = 1; }",
        "for (int j = 0; j < 3; ++j) { if (at[j] > i) continue; x[i] = 1; }",
        "for (int j = 0; j < at[0]; ++j) x[i] = 1;",
        "float v = at[0] > i ? x[i] : 0; if (v > 1) __trap();",
        "bool v = at[0] > i && x[i] > 0; if (v) __trap();",
        "if (scale > 0) x[i] = 1;",
        "while (at[0] > i) { x[i] = 1; }",
        // A thread that leaves inside of a loop makes no later access.
        "for (int j = 0; j < 3; ++j) { if (at[j] > i) return; } x[i] = 1;",
    ] {
        assert!(!has_length(body), "{body}");
    }
}

/// If accesses depend on a condition on parameters, the length of the array depends on it too.
#[test]
fn lengths_have_the_conditions_of_the_accesses() {
    let map = "float *x, float *y, int n, int m, int mode, bool flag, float scale";
    let n = "n >= 0, X_LEN >= n";
    expect(map, "I; if (i < n) { x[i] = 1; if (mode == 1) y[i] = 1; }", &format!("{n}, mode != 1 || Y_LEN >= n"));
    expect(
        map,
        "I; if (i < n) { x[i] = 1; if (mode != 1) return; y[i] = 1; }",
        &format!("{n}, mode != 1 || Y_LEN >= n"),
    );
    expect(
        map,
        "I; if (i < n) { x[i] = 1; for (int j = 0; j < m; ++j) y[i] = j; }",
        &format!("{n}, 0 >= m || Y_LEN >= n"),
    );
    expect(map, "I; if (i < n) { x[i] = 1; if (flag) y[i] = 1; if (scale > 0) y[i] = 1; }", n);
    expect(map, "I; if (n > 0 && i < n) { x[i] = 1; }", n);
    expect(map, "I; if (mode == 1) { x[i] = 1; }", "mode != 1 || X_LEN >= grid_x * block_x");
    // A condition that may wrap around is not the comparison of its operands.
    expect("float *x, unsigned n, unsigned m", "I; if (m - 1 > 3 && i < n) x[i] = 1;", "");
}

#[test]
fn fields_are_sizes() {
    let source = "struct Inner { long cols; }; struct View { float *p; int n; Inner inner; };
        __device__ int size(View v) { return v.n; }
        __global__ void k(View v, float *y) { int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < v.n) v.p[i] = 1; if (i < v.inner.cols) y[i] = 1; }";
    assert_eq!(assumed(source), "v.n >= 0, v.inner.cols >= 0, V_P_LEN >= v.n, i64(Y_LEN) >= v.inner.cols");
    let source = "struct View { float *p; int n; };
        __global__ void k(View v) { // clk: v_p[v.n + 1]
            if (blockIdx.x < v.n) v.p[blockIdx.x] = 1; }";
    assert_eq!(assumed(source), "v.n >= 0, V_P_LEN >= v.n + 1");
}

#[test]
fn numbers_are_lengths_of_constant_indices() {
    expect("float *x, int n", "I; if (i < n) x[i] = x[3];", "n >= 0, X_LEN >= n, X_LEN >= 4");
    expect("float *x, int n", "if (blockIdx.x < n) x[0] = 1;", "X_LEN >= 1");
}

#[test]
fn loops_with_a_number_of_iterations_give_numbers() {
    let one_block = "grid_x == 1";
    expect("float *x", "for (int i = 0; i < 5; ++i) x[2 * i] = 1;", &format!("{one_block}, X_LEN >= 9"));
    expect("float *x, int n", "for (int j = 0; j < n; ++j) x[3] = 1;", &format!("{one_block}, 0 >= n || X_LEN >= 4"));
}

#[test]
fn indices_of_parameters_give_lengths() {
    expect("float *x, int at", "x[at] = 1;", "grid_x == 1, at >= 0, X_LEN >= at + 1");
    // An element more than the guard suggests is likely a mistake.
    expect("float *x, int n", "I; if (i < n) x[i] = x[n];", "n >= 0, X_LEN >= n");
}

#[test]
fn interiors_of_grids_give_lengths() {
    let interior = "ROW_COL if (row < h - 1 && col < w - 1) y[row * w + col] = 1;";
    expect("float *y, int h, int w", interior, "h >= 0, w >= 0, Y_LEN >= h * w - w - 1");
    let pitched = "ROW_COL if (row < w && col < h) y[row * w + col] = 1;";
    expect("float *y, int h, int w", pitched, "");
}

#[test]
fn quotients_give_lengths() {
    let rows = "I; if (i < h * w) { int row = i / w, col = i % w; x[row] = 1; y[row * w + col] = 1; z[col] = 1; }";
    let lengths = "h >= 0, w >= 0, X_LEN >= h, Y_LEN >= h * w, Z_LEN >= w";
    expect("float *x, float *y, float *z, int h, int w", rows, lengths);
    let shares = "I; int size = blockDim.x * gridDim.x;
        for (int j = n * i / size; j < n * (i + 1) / size; ++j) x[j] = 1;";
    assert!(
        assumed(&format!("__global__ void k(float *x, int n) {{ {} }}", shares.replace("I;", I)))
            .ends_with("X_LEN >= n")
    );
}

#[test]
fn counted_variables_give_lengths() {
    let steps = "int at = first; for (int i = 0; i < n; ++i) { x[at] = 1; at += pitch; } y[at] = 1;";
    // The last element of `x` is a difference of products, which may be a mistake.
    let lengths = "grid_x == 1, n >= 0, pitch >= 0, first >= 0, Y_LEN >= n * pitch + first + 1";
    expect("float *x, float *y, int n, int pitch, int first", steps, lengths);
    let nested = "int at = 0; for (int i = 0; i < n; ++i) for (int j = 0; j < 4; ++j) { x[at] = 1; at += 2; }";
    assert!(assumed(&format!("__global__ void k(float *x, int n) {{ {nested} }}")).contains("X_LEN >= 8 * n - 1"));
}

/// Host code decides on a length if it can be compared with that of an allocation.
#[test]
fn launches_are_compared_with_lengths() {
    let length = |host: &str, guard: &str| {
        let kernel = format!("__global__ void k(float *x, int n) {{ {I} {guard} x[i] = 1; }}");
        let source = format!("{kernel} void host(long count, int other, int n) {{ float *p; {host} }}");
        let translation = translated(&source);
        let notes = translation.kernels[0].assumptions.iter().map(|assumption| assumption.text.to_string());
        notes.filter(|note| note.starts_with("`x` has")).collect::<Vec<_>>().join("; ")
    };
    let launched = |bytes: &str, grid: &str, n: &str| format!("cudaMalloc(&p, {bytes}); k<<<{grid}, 256>>>(p, {n});");
    // The conversion of `count` to `int` keeps it, or the launch fails.
    let narrowed = launched("count * 4", "(count + 255) / 256", "count");
    assert_eq!(length(&narrowed, "if (i < n)"), "`x` has at least `n` elements");
    let unclear = launched("other * 4", "8", "n");
    assert_eq!(length(&unclear, "if (i < n)"), "`x` has at least `n` elements; a launch of the file may pass fewer");
    let short = launched("100", "8", "64");
    assert!(!length(&short, "if (i < n)").contains("`n`"));
    // A grid that is rounded down fits, and one that is rounded up may not.
    let whole = launched("other * 4", "other / 256", "n");
    assert_eq!(length(&whole, ""), "`x` has at least `gridDim.x * blockDim.x` elements");
    let rounded = launched("other * 4", "(other + 255) / 256", "n");
    assert_eq!(length(&rounded, ""), "");
}

#[test]
fn kernels_that_read_no_block_have_one() {
    expect("float *x", "x[threadIdx.x] = 1;", "grid_x == 1, X_LEN >= block_x");
    expect("float *x", "x[threadIdx.y * 4 + threadIdx.x % 4] = 1;", "grid_x == 1, grid_y == 1, X_LEN >= 4 * block_y");
    let called = "__device__ int first() { return blockIdx.x; } __global__ void k(float *x) { x[first()] = 1; }";
    assert_eq!(assumed(called), "");
    let launched = "__global__ void k(float *x) { x[threadIdx.x] = 1; } void host(float *x) { k<<<GRID, 32>>>(x); }";
    assert_eq!(assumed(&launched.replace("GRID", "1")), "grid_x == 1, block_x == 32, X_LEN >= block_x");
    assert_eq!(assumed(&launched.replace("GRID", "2")), "block_x == 32, grid_x == 2, X_LEN >= block_x");
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
    assert_eq!(assumed(source), "grid_x == 1, n >= 0, X_LEN >= n");
}

#[test]
fn shared_arrays_limit_the_block() {
    let body = "__shared__ float s[256]; I; s[threadIdx.x] = x[i]; __syncthreads(); x[i] = s[255 - threadIdx.x];";
    expect("float *x", body, "block_x <= 256, X_LEN >= grid_x * block_x");
    let body =
        "__shared__ float s[258]; s[threadIdx.x + 1] = 1; s[threadIdx.x] = 2; s[threadIdx.x + 2] = 3; x[0] = s[0];";
    assert!(assumed(&format!("__global__ void k(float *x) {{ {body} }}")).contains("block_x <= 256"));
    let rows = "__shared__ float s[32][33]; int x = blockIdx.x * 32 + threadIdx.x;
        for (int j = 0; j < 32; j += 8) s[threadIdx.y + j][threadIdx.x] = x; g[x] = s[threadIdx.x][threadIdx.y];";
    assert!(assumed(&format!("__global__ void k(float *g) {{ {rows} }}")).contains("block_x == 32, block_y <= 8"));
    // The loop reads an element more than a block of 256 threads writes.
    let halo = "__shared__ float s[256]; s[threadIdx.x] = 1; float v = 0;
        for (int j = 0; j < 2; ++j) v += s[threadIdx.x + j]; x[threadIdx.x] = v;";
    assert!(assumed(&format!("__global__ void k(float *x) {{ {halo} }}")).contains("block_x <= 256"));
    let body = "__shared__ float s[64]; int i = blockIdx.x * 64 + threadIdx.x; s[threadIdx.x] = i; x[i] = s[0];";
    assert!(assumed(&format!("__global__ void k(float *x) {{ {body} }}")).contains("block_x == 64"));
}

#[test]
fn comments_state_lengths() {
    let kernel = "__global__ void k(float *x, int n) { int i = threadIdx.x; if (i < n) x[i + 1] = 1; }";
    let clause = "grid_x == 1, n >= 0, n > 0, X_LEN >= n + 2";
    assert_eq!(assumed(&format!("// clk: x[n + 2], assume n > 0\n{kernel}")), clause);
    assert_eq!(assumed(&kernel.replace("{ int", "{ // clk: x[n + 2], assume n > 0\n int")), clause);
    let other = format!("__global__ void other() {{ }}\n/* clk: assume blockDim.x == 32 */ {kernel}");
    assert!(translated(&other).text.contains("assume grid_x == 1, block_x == 32\n"));
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

/// A kernel that reads the index of the block along `x` only is for a grid with one row of blocks.
#[test]
fn unread_axes_of_the_grid_have_one_block() {
    let kernel = "__global__ void k(float *y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n && threadIdx.y < 4) y[i * 4 + threadIdx.y] = 1;
    }";
    let notes = |source: &str| {
        let translation = translated(source);
        let texts: Vec<String> = translation.kernels[0].assumptions.iter().map(|own| own.text.to_string()).collect();
        texts.join("\n")
    };
    let note = "`gridDim.y` is 1: the kernel reads neither `blockIdx.y` nor `gridDim.y`";
    assert!(notes(kernel).contains(note), "{}", notes(kernel));
    assert!(translated(kernel).text.contains("grid_y == 1"));
    let launched = format!("{kernel}\nvoid f(float *y) {{ k<<<dim3(4, 2), dim3(8, 4)>>>(y, 32); }}");
    assert!(!notes(&launched).contains(note), "{}", notes(&launched));
    let read = kernel.replace("y[i * 4 + threadIdx.y] = 1", "y[i * 4 + threadIdx.y] = row()");
    let read = format!("__device__ int row() {{ return blockIdx.y; }}\n{read}");
    assert!(!notes(&read).contains("`gridDim.y` is 1"), "{}", notes(&read));
}
