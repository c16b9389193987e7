//! Tests of sizes from launches: the `assume` clauses of kernels that host code of their file launches.

use super::tests::translated;

const KERNEL: &str = "__global__ void k(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = 1;
}";

/// Returns the `assume` clause of a kernel that a host function with this body launches.
fn assumed(kernel: &str, params: &str, body: &str) -> String {
    let source = format!("{kernel}\nvoid change(int &n);\nvoid host({params}) {{ float *x; {body} }}");
    let translation = translated(&source);
    assert!(translation.refused.is_empty(), "{:?}", translation.refused);
    let clause = translation.text.lines().find_map(|line| line.trim().strip_prefix("assume "));
    clause.unwrap_or("").to_string()
}

#[track_caller]
fn expect(params: &str, body: &str, clause: &str) {
    assert_eq!(assumed(KERNEL, params, body), clause, "{body}");
}

/// The length that the accesses suggest, if the launch does not tell.
const DERIVED: &str = "block_x == 256, n >= 0, X_LEN >= n";

/// A product of unsigned numbers is taken not to wrap around, and `sizeof(T)` to be the size of an element.
#[test]
fn lengths_of_guards_fit_allocations_that_are_not_exactly_known() {
    let text = |size: &str| {
        let kernel = "template <typename T> __global__ void k(T *y, unsigned h, unsigned w) {
            unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < h * w) y[i] = 1;
        }";
        let host = format!(
            "template <typename T> void run(unsigned h, unsigned w) {{
                T *y;
                cudaMalloc(&y, {size});
                k<T><<<(h * w + 255) / 256, 256>>>(y, h, w);
            }}
            void main_part() {{ run<float>(3, 4); }}"
        );
        translated(&format!("{kernel} {host}")).text
    };
    for enough in ["h * w * sizeof(T)", "sizeof(T) * (size_t)(w * h)", "(h * w + 1) * sizeof(T)"] {
        assert!(text(enough).contains("i64(Y_LEN) >= i64(h) * i64(w)"), "{enough}: {}", text(enough));
    }
    for short in ["h * sizeof(T)", "(h * w - 1) * sizeof(T)", "h * w"] {
        assert!(!text(short).contains("Y_LEN) >="), "{short}: {}", text(short));
    }
}

#[test]
fn allocations_are_lengths() {
    let launch = "k<<<(n + 255) / 256, 256>>>(x, n);";
    let longer = "block_x == 256, n >= 0, X_LEN >= n + 1";
    for allocation in [
        "cudaMalloc(&x, (n + 1) * sizeof(float));",
        "cudaMalloc((void **)&x, sizeof(float) * n + 4);",
        "if (cudaMallocManaged(&x, 4 * (n + 1)) != cudaSuccess) exit(1);",
        "x = (float *)malloc((n + 1) * sizeof(float));",
        "int m = n + 1; size_t bytes = m * sizeof(float); cudaMalloc(&x, bytes);",
        "do { int e = cudaMalloc(&x, (n + 1) * sizeof(float)); check(e); } while (0);",
        "std::vector<float> v(n + 1); x = v.data();",
        "thrust::device_vector<float> v(n + 1); x = thrust::raw_pointer_cast(&v[0]);",
        "typedef float Real; cudaMalloc(&x, (n + 1) * sizeof(Real));",
    ] {
        // A local type may hide one of the file, so its size is unknown, and the length is that of the guard.
        let own = if allocation.contains("Real") { "block_x == 256, n >= 0, X_LEN >= n" } else { longer };
        expect("int n", &format!("{allocation} {launch}"), own);
    }
}

/// The size of a struct is unknown, so a known allocation refutes no guess about lengths, and supports none.
#[test]
fn arrays_of_structs_have_the_lengths_of_guards() {
    let kernel = "struct f32x8 { float a; }; struct A3 { int a; };
        __global__ void k(f32x8 *x, A3 *y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) { x[i].a = 1; y[i].a = 1; }
        }";
    let body = "A3 *y; cudaMalloc(&x, 64 * n); cudaMalloc(&y, 64 * n); k<<<n, 256>>>(x, y, n);";
    assert_eq!(assumed(kernel, "int n", body), "block_x == 256, n >= 0, X_LEN >= n, Y_LEN >= n");
}

/// Each change of a variable between the allocation and the launch makes the length unknown.
#[test]
fn changed_variables_are_unknown() {
    let allocation = "cudaMalloc(&x, (n + 1) * sizeof(float));";
    let launch = "k<<<m, 256>>>(x, n);";
    for change in [
        "n = m;",
        "n += 1;",
        "n--;",
        "if (m) n = m;",
        "while (m--) n *= 2;",
        "change(n);",
        "scanf(\"%d\", &n);",
        "int *p = &n; *p = 1;",
        "int &r = n; r = 1;",
        "auto f = [&] { n = 1; }; f();",
        "switch (m) { case 1: n = 2; }",
        "again: n = 3; goto again;",
        "(m ? n : m) = 4;",
        "std::swap(n, m);",
        "x = other;",
        "x += 1;",
        "if (m) x = other;",
        "swap(x, other);",
        "take(&x);",
    ] {
        let clause = assumed(KERNEL, "int n, int m, float *other", &format!("{allocation} {change} {launch}"));
        assert!(!clause.contains("X_LEN >= n + 1"), "{change}: {clause}");
    }
    // A pointer that a function takes by value stays the same.
    expect(
        "int n, int m",
        &format!("{allocation} cudaMemset(x, 0, n); {launch}"),
        "block_x == 256, n >= 0, X_LEN >= n + 1",
    );
}

#[test]
fn launches_must_agree() {
    let first = "cudaMalloc(&x, (n + 1) * sizeof(float)); k<<<n, 256>>>(x, n);";
    expect("int n", &format!("{first} cudaMalloc(&x, n * sizeof(float)); k<<<n, 256>>>(x, n);"), DERIVED);
    expect("int n", &format!("{first} k<<<n, 128>>>(x, n);"), "n >= 0, X_LEN >= n + 1");
    expect("int n", &format!("{first} int m = n * n; k<<<n, 256>>>(x, m);"), DERIVED);
    let two = format!("{KERNEL} namespace other {{ __global__ void k(float *x, int n) {{ x[0] = n; }} }}");
    assert_eq!(assumed(&two, "int n", first), "n >= 0, X_LEN >= n");
}

/// A number says something about the launch only. It is used if the launch exceeds it.
#[test]
fn numbers_are_compared_with_the_accesses() {
    let body = "cudaMalloc(&x, 4000); k<<<4, 256>>>(x, COUNT);";
    expect("", &body.replace("COUNT", "1000"), DERIVED);
    expect("", &body.replace("COUNT", "1001"), "block_x == 256, n == 1001, X_LEN >= 1000");
    let named = "const int count = 1000; cudaMalloc(&x, count * 4); k<<<4, 256>>>(x, count);";
    expect("", named, DERIVED);
    let plain = "__global__ void k(float *x) { x[blockIdx.x * blockDim.x + threadIdx.x] = 1; }";
    let sizes = |bytes: &str| assumed(plain, "", &format!("cudaMalloc(&x, {bytes}); k<<<4, 256>>>(x);"));
    assert_eq!(sizes("4096"), "block_x == 256, grid_x == 4, X_LEN >= 1024");
    assert_eq!(sizes("4092"), "block_x == 256, grid_x == 4, X_LEN >= 1023");
    // The grid is not known.
    let open = assumed(plain, "int n", "cudaMalloc(&x, 4096); k<<<n + 1, 256>>>(x);");
    assert_eq!(open, "block_x == 256, X_LEN >= grid_x * block_x");
}

/// A number is used for an array whose length the accesses do not give. The proof is then about the launch, so that the
/// other arrays and arguments have the numbers of the launch as well.
#[test]
fn numbers_replace_unknown_lengths() {
    let kernel = "__global__ void k(float *x, float *y, int n, int m) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        for (int b = 0; b < 1024; b += 16) y[(b + threadIdx.x) * 3] += m;
        if (i < n) x[i] = 1;
    }";
    let body = "float *y; cudaMalloc(&x, 8000); cudaMalloc(&y, 4 * 3 * 1024); k<<<4, 16>>>(x, y, 60, 7);";
    let clause = "block_x == 16, grid_x == 4, n == 60, X_LEN >= 2000, m == 7, Y_LEN >= 3072";
    assert_eq!(assumed(kernel, "", body), clause);
    let open = body.replace("(x, y, 60, 7)", "(x, other, 60, 7)");
    assert_eq!(assumed(kernel, "float *other", &open), "block_x == 16, grid_x == 4, n >= 0, X_LEN >= n");
}

#[test]
fn arguments_are_related() {
    let matrix = "__global__ void k(float *x, int h, int w, int total) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < total) x[i] = i % w;
    }";
    let body = "int total = rows * cols; cudaMalloc(&x, total * sizeof(float));
        dim3 grid, block(32, 8); grid.x = 4; k<<<grid, block>>>(x, rows, cols, total);";
    let clause = "block_x == 32, h >= 0, w >= 0, X_LEN >= h * w, total == h * w";
    assert_eq!(assumed(matrix, "int rows, int cols", body), clause);
}

#[test]
fn one_array_for_two_parameters_is_a_warning() {
    let source = "__global__ void k(const float *x, float *y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = x[i]; }
        void host(int n) { float *x; cudaMalloc(&x, n * 4); k<<<n, 1>>>(x, x, n); }";
    let translation = translated(source);
    assert_eq!(translation.warnings.len(), 1);
    assert_eq!(translation.warnings[0].code, "W0854");
    let different =
        source.replace("float *x; cuda", "float *x, *y; cudaMalloc(&y, n * 4); cuda").replace("(x, x", "(x, y");
    assert!(translated(&different).warnings.is_empty());
    let three = source.replace("float *y, int n", "const float *z, float *y, int n").replace("(x, x", "(x, x, x");
    assert_eq!(translated(&three).warnings.len(), 1);
}

/// A use of the kernel that is not an understood launch may be a launch with other sizes.
#[test]
fn launches_that_are_not_understood_say_nothing() {
    let launch = "cudaMalloc(&x, (n + 1) * sizeof(float)); k<<<1, 256>>>(x, n);";
    for other in [
        "auto go = [=](int m) { k<<<1, 512>>>(x, m); }; go(n);",
        "try { k<<<1, 512>>>(x, n); } catch (...) { }",
        "void (*p)(float *, int) = k; p<<<1, 512>>>(x, n);",
        "cudaLaunchKernel((void *)k, dim3(1), dim3(512), args, 0, 0);",
    ] {
        let source = format!("{KERNEL} void host(int n) {{ float *x; {launch} {other} }}");
        let translation = translated(&source);
        assert!(!translation.text.contains("block_x ==") && !translation.text.contains("n + 1"), "{other}");
        assert!(translation.kernels[0].launch_doubt.is_some(), "{other}");
    }
    let query = format!("cudaFuncSetCacheConfig(k, cudaFuncCachePreferL1); {launch}");
    expect("int n", &query, "block_x == 256, n >= 0, X_LEN >= n + 1");
}

#[test]
fn launches_refute_guesses() {
    for body in [
        "cudaMalloc(&x, 4000); k<<<4, 256>>>(x, 1000); k<<<8, 256>>>(x, 2000);",
        "cudaMalloc(&x, m * sizeof(float)); m = 2 * m; k<<<4, 256>>>(x, m);",
    ] {
        expect("int m", body, "block_x == 256");
    }
    let doubt = |block: &str| {
        let source = format!("{KERNEL} dim3 f(); void host(float *x, int n, int t) {{ k<<<4, {block}>>>(x, n); }}");
        translated(&source).kernels[0].launch_doubt.is_some()
    };
    assert!(doubt("dim3(16, 16)") && doubt("f()"));
    assert!(!doubt("t") && !doubt("dim3(16)") && !doubt("t / 2"));
}

#[test]
fn lengths_of_shared_arrays_are_those_of_the_launch() {
    let kernel = "__global__ void k(float *x, int n) {
        extern __shared__ float s[];
        s[threadIdx.x] = n; __syncthreads(); x[threadIdx.x] = s[0];
    }";
    let clause = assumed(kernel, "int n", "k<<<1, 256, 256 * sizeof(float)>>>(x, n);");
    assert!(clause.contains("s_len >= 256"), "{clause}");
    let clause = assumed(&format!("// clk: s[n]\n{kernel}"), "int n", "");
    assert!(clause.contains("s_len >= n"), "{clause}");
}

/// Nothing false is assumed about launches in host code that hides what it changes.
#[test]
fn hidden_changes_are_noticed() {
    let cases = include_str!("hidden_changes.txt").split("\n## ").skip(1);
    let mut count = 0;
    for case in cases {
        let (title, code) = case.split_once('\n').expect("a title and code");
        let (title, forbidden) = title.split_once(": ").expect("words");
        let kernel = if code.starts_with("__global__") { "" } else { KERNEL };
        let translation = translated(&format!("{kernel}\n{code}"));
        let kernel = translation.kernels.iter().find(|kernel| kernel.name == "k").expect("the kernel");
        for words in forbidden.split(" | ") {
            let assumed = kernel.assumptions.iter().find(|assumption| assumption.text.contains(words));
            assert!(assumed.is_none(), "{title}: {assumed:?}\n{code}");
        }
        count += 1;
    }
    assert!(count > 170, "{count}");
}

/// Host code whose sizes are understood although it has constructs that hide changes elsewhere.
#[test]
fn harmless_constructs_keep_sizes() {
    let allocation = "cudaMalloc(&x, (n + 1) * sizeof(float));";
    let launch = "k<<<(n + 255) / 256, 256>>>(x, n);";
    let longer = "block_x == 256, n >= 0, X_LEN >= n + 1";
    for between in [
        "int &r = m; r = 1000;",
        "switch (m) { case 1: m = 2; break; default: printf(\"%d\", n); }",
        "for (int i : list) m += i;",
        "for (auto &one : list) one = n;",
        "float *h = new float[n * 4]; delete[] h;",
        "auto f = [&] { m = 1; }; f();",
        "try { m = f(); } catch (...) { m = 1; }",
        "typedef float Real; Real *r = y;",
        "struct Own { int n; }; Own own = { 3 };",
        "enum { A, B }; m = A;",
        "set(m); set(n * 2);",
        "show(n, m);",
        "Sizes s = { n, m }; s.rows = n;",
        "m && (m = 3); m = m ? n : 0;",
        "if (cudaMalloc(&y, n) != cudaSuccess || cudaMalloc(&z, n) != cudaSuccess) exit(1);",
        "int a = n, b = m; std::swap(a, b);",
        "cudaMemcpyAsync(x, y, n * sizeof(float), cudaMemcpyHostToDevice, stream);",
    ] {
        let source = format!(
            "struct Sizes {{ int rows, columns; }}; void set(int &v) {{ v = 1; }} void show(int a, int b);
            {KERNEL} void host(int n, int m, float *y, float *z) {{ float *x; {allocation} {between} {launch} }}"
        );
        let translation = translated(&source);
        let clause = translation.text.lines().find_map(|line| line.trim().strip_prefix("assume "));
        assert_eq!(clause, Some(longer), "{between}");
    }
    // A function that keeps no reference assigns the variable during the call only.
    let source = format!(
        "void read(int &v) {{ v = 7; }} {KERNEL}
        void host(int n) {{ float *x; read(n); {allocation} {launch} }}"
    );
    assert!(translated(&source).text.contains(longer));
}

#[test]
fn conversions_to_unsigned_are_assumptions() {
    let kernel = "__global__ void k(float *x, unsigned n) {
        unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) x[i] = 1;
    }";
    let has_assumption = |param: &str| {
        let body = "cudaMalloc(&x, (n + 100ull) * sizeof(float)); k<<<64, 256>>>(x, n);";
        let translation = translated(&format!("{kernel} void host({param}) {{ float *x; {body} }}"));
        let assumptions = &translation.kernels[0].assumptions;
        assert!(assumptions.iter().any(|one| one.text.contains("n + 100")), "{assumptions:?}");
        assumptions.iter().any(|one| one.text.contains("no negative number"))
    };
    assert!(has_assumption("int n") && !has_assumption("unsigned n"));
}

/// Host code is that of the host pass of the compiler, where `__CUDA_ARCH__` is undefined.
#[test]
fn host_code_has_no_architecture() {
    let source = format!(
        "#ifdef __CUDA_ARCH__
        #define BLOCK 128
        #else
        #define BLOCK 512
        #endif
        {KERNEL} void host(int n) {{ float *x; cudaMalloc(&x, n * BLOCK * 4); k<<<1, BLOCK>>>(x, n); }}"
    );
    let text = translated(&source).text;
    assert!(text.contains("block_x == 512") && text.contains("512 * n"), "{text}");
}

/// The launches of host code, with the values on which they depend.
#[test]
fn launches_are_described_for_runs() {
    let source = format!(
        "{KERNEL}
        template <typename T> __global__ void t(T *x, float by) {{ x[threadIdx.x] = by; }}
        int main(int argc, char **argv) {{
            int n = atoi(argv[1]);
            float *x;
            cudaMalloc(&x, n * sizeof(float));
            k<<<(n + 255) / 256, 256>>>(x, n);
            cudaMemset(x, 0, n * sizeof(float));
            k<<<1, 64>>>(x, 7);
            cudaMemcpy(x, argv, 8, cudaMemcpyHostToDevice);
            t<float><<<1, 32>>>(x, -0.5f);
            t<double><<<1, 32>>>((double *)x, 2);
            other<<<1, 1>>>();
        }}"
    );
    let translation = translated(&source);
    let launches = &translation.launches;
    let kernels: Vec<_> = launches.iter().map(|launch| launch.kernel.as_deref()).collect();
    assert_eq!(kernels, [Some("k"), Some("k"), Some("t_f32"), Some("t_f64"), None]);
    let unknowns = &translation.unknowns;
    let grid = launches[0].grid[0].as_ref().expect("a grid");
    let [n] = unknowns.of_integer(grid)[..] else { panic!("one unknown") };
    assert_eq!(unknowns.name(n).map(|name| name.as_str()), Some("n"));
    assert_eq!(unknowns.number(grid, &|_| Some(1000)), Some(4));
    assert_eq!(unknowns.number(grid, &|_| None), None);
    let array = |at: usize| match &launches[at].arguments[0] {
        super::LaunchArgument::Array { buffer, contents, bytes } => {
            let bytes = bytes.as_ref().and_then(|bytes| unknowns.number(bytes, &|_| Some(10)));
            (*buffer, contents.version, contents.byte, bytes)
        }
        other => panic!("{other:?}"),
    };
    let (buffer, ..) = array(0);
    assert_eq!(array(0), (buffer, 0, None, Some(40)));
    assert_eq!(array(1), (buffer, 1, Some(0), Some(40)));
    assert_eq!(array(2), (buffer, 2, None, Some(40)));
    assert_eq!(launches[2].arguments[1], super::LaunchArgument::Float(-0.5));
}

#[test]
fn parameters_tell_what_they_stand_for() {
    use super::{InitialValue, ParameterRole};
    let source = "struct View { float *p; int n; };
        __device__ int counts[3] = {1, -2};
        __device__ float set;
        __constant__ float scale;
        __global__ void k(View v, float by) {
            extern __shared__ double s[];
            s[threadIdx.x] = by * scale + set;
            counts[0] += 1;
            if (threadIdx.x < v.n) v.p[threadIdx.x] = s[threadIdx.x];
        }
        void host() { cudaMemcpyToSymbol(set, &other, 4); }";
    let translation = translated(source);
    let [kernel] = &translation.kernels[..] else { panic!("{:?}", translation.refused) };
    let roles: Vec<(&str, &ParameterRole)> =
        kernel.parameters.iter().map(|param| (param.name.as_str(), &param.role)).collect();
    let initial = |name: &str| match roles.iter().find(|(known, _)| *known == name) {
        Some((_, ParameterRole::FileVariable { initial })) => initial.clone(),
        other => panic!("{name}: {other:?}"),
    };
    assert_eq!(
        roles[..3].iter().map(|(_, role)| (*role).clone()).collect::<Vec<_>>(),
        [ParameterRole::Argument(0), ParameterRole::Argument(0), ParameterRole::Argument(1)]
    );
    assert_eq!(initial("counts"), Some(vec![InitialValue::Int(1), InitialValue::Int(-2)]));
    assert_eq!((initial("set"), initial("scale")), (None, None));
    assert!(roles.contains(&("grid_x", &ParameterRole::Grid(0))), "{roles:?}");
    assert!(
        roles.iter().any(|(_, role)| **role == ParameterRole::SharedLength { element_bytes: Some(8) }),
        "{roles:?}"
    );
}
