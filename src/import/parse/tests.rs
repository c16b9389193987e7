//! Tests of the parser: small programs and their trees, and random changes of programs.

use super::dump;
use crate::ast::{CppDecl, CppDeclKind};
use crate::{ImportOptions, ParsedCuda, parse};
use clk_base::source::SourceMap;

fn parsed(text: &str) -> ParsedCuda {
    let mut sources = SourceMap::default();
    let file = sources.add("file.cu", text);
    parse(&mut sources, file, &ImportOptions::default(), &|_| None)
}

/// Parses a text without diagnostics, and prints its tree.
#[track_caller]
fn check(text: &str, expected: &str) {
    let result = parsed(text);
    let titles: Vec<&str> = result.diagnostics.iter().map(|diagnostic| diagnostic.title.as_str()).collect();
    assert_eq!(titles, Vec::<&str>::new(), "{text}");
    let dump = dump::decls(&result.unit.decls);
    let lines =
        |text: &str| text.lines().map(str::trim_end).filter(|line| !line.is_empty()).map(String::from).collect();
    let (found, expected): (Vec<String>, Vec<String>) = (lines(&dump), lines(expected));
    assert!(found == expected, "{text}\nfound:\n{dump}");
}

/// Parses statements in the body of a kernel.
#[track_caller]
fn check_body(prelude: &str, body: &str, expected: &str) {
    let text = format!("{prelude}\n__global__ void k(int n, float *x, unsigned u) {{\n{body}\n}}");
    let result = parsed(&text);
    let titles: Vec<&str> = result.diagnostics.iter().map(|diagnostic| diagnostic.title.as_str()).collect();
    assert_eq!(titles, Vec::<&str>::new(), "{text}");
    let dump = dump::decls(&result.unit.decls[result.unit.decls.len() - 1..]);
    let found: Vec<&str> = dump.lines().skip(1).map(|line| line[2..].trim_end()).collect();
    let expected: Vec<&str> = expected.lines().filter(|line| !line.trim().is_empty()).collect();
    assert!(found == expected, "{text}\nfound:\n{}", found.join("\n"));
}

#[test]
fn a_kernel() {
    check(
        "__global__ void __launch_bounds__(256, 2) axpy(int n, float a, const float *__restrict__ x, float *y) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] += a * x[i];
        }",
        "
kernel launch_bounds(256, 2) axpy(n: Int, a: Float, x: restrict *const Float, y: *Float) -> Void
  var i: Int = ((blockIdx.x * blockDim.x) + threadIdx.x)
  if (i < n)
    (y[i] += (a * x[i]))
",
    );
}

#[test]
fn types() {
    check(
        "unsigned long long int a; long long unsigned b; short c; signed char d;",
        "
var a: UnsignedLongLong
var b: UnsignedLongLong
var c: Short
var d: SignedChar",
    );
    check(
        "int a[2][3], *b, *c[4], (*d)[5], (*e)(int, float), &f = a[0][0];",
        "
var a: [[Int; 3]; 2]
var b: *Int
var c: [*Int; 4]
var d: *[Int; 5]
var e: *fn(_: Int, _: Float) -> Int
var f: &Int = a[0][0]",
    );
    check(
        "const float *const p = nullptr; float const volatile *q; char **r;",
        "
var p: const *const Float = nullptr
var q: *const volatile Float
var r: **Char",
    );
    check(
        "typedef float (*op)(float, float); typedef unsigned int u32, *pu32; u32 x; op f;",
        "
alias op = *fn(_: Float, _: Float) -> Float
alias u32 = UnsignedInt
alias pu32 = *UnsignedInt
var x: u32
var f: op",
    );
    check(
        "using T = double; template <typename U> using P = U*; P<int> p; decltype(p) q; auto r = 1;",
        "
alias T = Double
<U> alias P = *U
var p: P<type Int>
var q: decltype(p)
var r: auto = 1",
    );
    check(
        "template <int N> __device__ float sum(const float (&x)[N]);",
        "<N: Int> device sum(x: &[const Float; N]) -> Float;",
    );
    check(
        "__constant__ float c[3] = {1, 2.5f, .5}; extern __shared__ __align__(16) char s[];",
        "
constant var c: [Float; 3] = {1, 2.5f, .5}
shared extern align(16) var s: [Char; ]",
    );
}

#[test]
fn expressions() {
    check_body(
        "",
        "n = 1 + 2 * 3 - 4; n = n << 1 | n >> 2 & 3; n >>= 2; n = n > 1 == n >= 2;",
        "
(n = ((1 + (2 * 3)) - 4))
(n = ((n << 1) | ((n >> 2) & 3)))
(n >>= 2)
(n = ((n > 1) == (n >= 2)))",
    );
    check_body(
        "",
        "x[n++] = -*x; n = u ? 1 : u ? 2 : 3; n = n = 2, ++u; !n && ~u || x;",
        "
(x[(n++)] = (-(*x)))
(n = (u ? 1 : (u ? 2 : 3)))
((n = (n = 2)), (++u))
(((!n) && (~u)) || x)",
    );
    check_body(
        "",
        "u = (unsigned)n; x = (float *)x; n = (n) - 1; n = (n) * (u); n = (int)(u) + (int)-1;",
        "
(u = CStyle<UnsignedInt>(n))
(x = CStyle<*Float>(x))
(n = (n - 1))
(n = (n * u))
(n = (CStyle<Int>(u) + CStyle<Int>((-1))))",
    );
    check_body(
        "",
        "float4 v = *reinterpret_cast<const float4*>(&x[4 * n]); v.x = float(n); v = make_float4(0, 1, 2, 3);",
        "
var v: float4 = (*Reinterpret<*const float4>((&x[(4 * n)])))
(v.x = new Float(n))
(v = make_float4(0, 1, 2, 3))",
    );
    check_body(
        "",
        "n = sizeof(float) + sizeof(n) + sizeof n + sizeof(float4) + alignof(int);",
        "
(n = ((((sizeof(type Float) + sizeof(n)) + sizeof(n)) + sizeof(type float4)) + alignof(type Int)))",
    );
    check_body(
        "",
        "char c = 'a'; printf(\"%d\" \"\\n\", n); double d = 1e-3; n = 0x10 + 010 + 1'000; u = 1uLL;",
        "
var c: Char = '97'
printf(\"%d\\n\", n)
var d: Double = 1e-3
(n = ((16 + 8) + 1000))
(u = 1uLL)",
    );
    check_body("", "n = a < b && c > (d);", "(n = ((a < b) && (c > d)))");
    check_body(
        "",
        "n = f(p.x < float(n), c > (n)); if (std::is_same_v<float, T> && p.x < n) p->~T(); float a[2] __attribute__((aligned(64)));
        void (*fs[])(int) = {g}; n = (char)n < float(n) && u > (n);",
        "
(n = f((p.x < new Float(n)), (c > n)))
if (std::is_same_v<type Float, T> && (p.x < n))
  p->~T()
align(64) var a: [Float; 2]
var fs: [*fn(_: Int) -> Void; ] = {g}
(n = ((CStyle<Char>(n) < new Float(n)) && (u > n)))",
    );
    check_body("", "n = n < u && u > (n);", "(n = ((n < u) && (u > n)))");
    check_body("", "n = std::max<int>(n, 1) + min(n, 2);", "(n = (std::max<type Int>(n, 1) + min(n, 2)))");
    check_body(
        "",
        "auto f = [=](int a) { return a + n; }; f(1);",
        "
var f: auto = lambda[](a: Int){return (a + n)}
f(1)",
    );
}

#[test]
fn statements() {
    check_body(
        "",
        "#pragma unroll 4\nfor (int i = 0, j = n; i < j; i++, --j) continue;",
        "
unroll(4) for var i: Int = 0, var j: Int = n; (i < j); ((i++), (--j))
  continue",
    );
    check_body(
        "",
        "for (;;) { if (n) break; else if (u) return; else; }\ndo n--; while (n);\nwhile (int m = n) { }",
        "
for ; ;
  if n
    break
  else
    if u
      return
    else
      ;
do while n
  (n--)
while var m: Int = n",
    );
    check_body(
        "",
        "switch (n) { case 0: case 1: u = 1; break; default: { u = 2; } case 2 ... 4: return; }",
        "
switch n
  case 0, case 1
    (u = 1)
    break
  default
    block
      (u = 2)
  case 2 ... 4
    return",
    );
    check_body(
        "",
        "goto end; asm volatile(\"bar.sync 0;\" : : \"r\"(n)); end: n = 1; if (int m = n; m > 1) n = m;",
        "
goto end
refused: inline assembly
end:
(n = 1)
if var m: Int = n; (m > 1)
  (n = m)",
    );
    check_body(
        "",
        "dim3 grid(n, 2); float a[4] = {}; unknown_t *p = g(); unknown q; n * u; float v{1};",
        "
var grid: dim3(n, 2)
var a: [Float; 4] = {}
var p: *unknown_t = g()
var q: unknown
(n * u)
var v: Float{1}",
    );
    check_body(
        "",
        "auto [a, b] = f(); for (auto &v : values) v = n;",
        "
var [a, b]: auto = f()
for var v: &auto : values
  (v = n)",
    );
}

#[test]
fn initializers_are_not_parameters() {
    check_body(
        "struct B {}; template <typename T> struct V { V(int n); };",
        "float a(0), b(1); dim3 c(1, 2), d(n); void (*f)(const char *) = g; int(n); float (*t)[4]; V<int> v(n, u), w(4);
        B e(B()); unsigned h(u), i(threadIdx.x * 2); float4 q(make_float4(1, 2, 3, 4)); int j(int(u));",
        "
var a: Float(0)
var b: Float(1)
var c: dim3(1, 2)
var d: dim3(n)
var f: *fn(_: *const Char) -> Void = g
new Int(n)
var t: *[Float; 4]
var v: V<type Int>(n, u)
var w: V<type Int>(4)
var e: B(new B())
var h: UnsignedInt(u)
var i: UnsignedInt((threadIdx.x * 2))
var q: float4(make_float4(1, 2, 3, 4))
var j: Int(new Int(u))",
    );
}

#[test]
fn templates() {
    check(
        "template <typename T, int N = 4, bool B = (N > 2)> __global__ void k(T *x) { if constexpr (B) x[N] = T(1); }
         template <typename T> struct Vec { T v[3]; };
         template <> struct Vec<int> { int v; };
         template __global__ void k<float, 2>(float *);
         template <class... A> void all(A... a) { f(a...); n = sizeof...(A); g((a + ...)); }
         void host(float *p) { k<float, 8><<<dim3(1), (1 << 8) >> 1, 0, s>>>(p); Vec<Vec<float>> v; }",
        "
<T, N: Int = 4, B: Bool = (N > 2)> kernel k(x: *T) -> Void
  if constexpr B
    (x[N] = new T(1))
<T> struct vec
  var v: [T; 3]
<> struct vec<type Int>
  var v: Int
instantiate kernel k<type Float, 2>(_: *Float) -> Void;
<A...> all(a...: A) -> Void
  f(a...)
  (n = sizeof...(A))
  g(refused(a fold expression))
host(p: *Float) -> Void
  k<type Float, 8><<<new dim3(1), ((1 << 8) >> 1), 0, s>>>(p)
  var v: Vec<type Vec<type Float>>
",
    );
    check_body(
        "template <typename T> __device__ T f(T a);",
        "n = f<int>(1) + f<float>(2) > 3; n = f<unsigned>(u) < (n);",
        "
(n = ((f<type Int>(1) + f<type Float>(2)) > 3))
(n = (f<type UnsignedInt>(u) < n))",
    );
    check_body(
        "template <typename T> struct S { using type = T; static const int N = 1; };",
        "
S<int>::type a; typename S<float>::type b = S<int>::N * 2; S<int> *p = (S<int> *)x;",
        "
var a: S<type Int>::type
var b: S<type Float>::type = (S<type Int>::N * 2)
var p: *S<type Int> = CStyle<*S<type Int>>(x)",
    );
}

#[test]
fn classes() {
    check(
        "struct __align__(8) C : B<int> {
            float re, im = 0;
            unsigned flag : 3, : 5;
            enum Kind { A, D = 4 };
            __device__ C(float r) : B<int>(1), re(r), im{0} { set(helper); }
            ~C() = default;
            __host__ __device__ friend bool operator<(const C &a, const C &b) { return a.re < b.re; }
            __device__ C operator+(const C &o) const { return C(re + o.re); }
            __device__ float &operator[](int i) { return i ? im : re; }
            __device__ explicit operator float() const { return re; }
            static constexpr int helper = 2;
            template <typename T> __device__ void set(T t);
        };
        template <typename T> __device__ void C::set(T t) { re = t; }
        __device__ C::operator int() const { return 1; }
        C::C() : re(0) {}",
        "
struct c : B<type Int>
  var re: Float
  var im: Float = 0
  var flag: UnsignedInt : 3
  var _: UnsignedInt : 5
  enum Kind {A, D = 4}
  device constructor C(r: Float) -> Void, B<type Int>(1), re(r), im(0)
    set(helper)
  ~C() -> Void = default
  friend
    device host operator<(a: &const C, b: &const C) -> Bool
      return (a.re < b.re)
  device operator+(o: &const C) -> C const
    return new C((re + o.re))
  device operator[](i: Int) -> &Float
    return (i ? im : re)
  device conversion() -> Float const
    return re
  static constexpr var helper: Int = 2
  <T> device set(t: T) -> Void;
<T> device C::set(t: T) -> Void
  (re = t)
device C::conversion() -> Int const
  return 1
C::constructor C() -> Void, re(0)
",
    );
    check(
        "struct { int x; } a; union U { float f; int i; }; enum class E : unsigned char { X }; struct S s; struct F;",
        "
var a: struct
union u
  var f: Float
  var i: Int
enum class E {X}
var s: S
struct f;",
    );
}

#[test]
fn namespaces() {
    check(
        "namespace a::b { struct S {}; __device__ int f(); } namespace { int x; } using namespace a; using a::b::S;
         namespace cg = cooperative_groups; extern \"C\" { __global__ void k(); } extern \"C\" __global__ void l(); S s; b::S t;",
        "
namespace a
  namespace b
    struct s
    device f() -> Int;
namespace
  var x: Int
using namespace a
using a::b::S
namespace cg = cooperative_groups
kernel k() -> Void;
kernel l() -> Void;
var s: S
var t: b::S
",
    );
}

#[test]
fn forms_in_kernels() {
    check(
        r#"
#define N 16
template <typename T, int M> struct A { typedef T type; static const int v = M; T d[M]; template <int K> __device__ T get() const { return d[K]; } };
template <int I> __device__ int f(int x);
typedef cub::BlockReduce<int, 256> BlockReduce;
namespace cg = cooperative_groups;
template <typename T>
__global__ __launch_bounds__(1024) void k(T *p, float *__restrict__ const q, volatile int *w, A<T, 4> a, int (*cb)(int)) {
  __shared__ typename BlockReduce::TempStorage temp;
  volatile __shared__ float s[32];
  float (&r)[3] = z;
  int (*pp)[4] = (int (*)[4])q;
  cg::thread_block_tile<32> tile = cg::tiled_partition<32>(block);
  wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> frag;
  reinterpret_cast<float4 *>(p)[3] = *(float4 *)&q[4];
  ((float *)p)[1] = (float)a.d[0] / 2 * (N) - (T)1;
  size_t bytes = (size_t)N * sizeof(T) + A<T, 2>::v * 3;
  if (A<T, 1>::v < 3 && UNKNOWN < M1 && K1 > (L1)) q[0] = a.template get<2>() + a.get<1>();
  int x = a.d < q ? -(1) : ~(2);
  x >>= 1; x = x >> 2 > 3; x = w[0]<w[1];
  constexpr int n = sizeof(s) / sizeof(s[0]);
  x = sizeof(UNKNOWN[0]) + (UNKNOWN[1]) - 1 + f<UNKNOWN[2]>(x);
  typename A<T, 4>::type t = typename A<T, 3>::type(1);
  if (x)
    #pragma unroll
    for (int i = 0; i < n; i++) x += i, w[i] ^= i;
  struct P { int a; float b; } pt = {1, 2.f}, *pq = &pt;
  enum { E1, E2 = 3 };
  x = pq->a + (*pq).a + E2 == 1 ? E1 : cg::x;
  switch (x) { case A<T, 4>::v: break; case E1: default: ; }
  unsigned const char c = 'a', d[] = "ab";
  auto f = [&] __device__ (int i) mutable -> float { return i; };
  q[f(1)]++; --*w; x = -x - -x + +x; x = !x & ~x && x || *p;
  half2 h = __floats2half2_rn(1.f, 2); float4 v = float4{1, 2, 3, 4}; v = {1, 2, 3, 4};
  T y(0), u{}; T *g = (T *)(w + 1), **gg; unsigned long long *ll = (unsigned long long int *)w;
}
"#,
        r#"
<T, M: Int> struct a
  alias type = T
  static var v: const Int = M
  var d: [T; M]
  <K: Int> device get() -> T const
    return d[K]
<I: Int> device f(x: Int) -> Int;
alias BlockReduce = cub::BlockReduce<type Int, 256>
namespace cg = cooperative_groups
<T> kernel launch_bounds(1024) k(p: *T, q: const restrict *Float, w: *volatile Int, a: A<type T, 4>, cb: *fn(_: Int) -> Int) -> Void
  shared var temp: BlockReduce::TempStorage
  shared var s: [volatile Float; 32]
  var r: &[Float; 3] = z
  var pp: *[Int; 4] = CStyle<*[Int; 4]>(q)
  var tile: cg::thread_block_tile<32> = cg::tiled_partition<32>(block)
  var frag: wmma::fragment<wmma::matrix_a, 16, 16, 16, type half, wmma::row_major>
  (Reinterpret<*float4>(p)[3] = (*CStyle<*float4>((&q[4]))))
  (CStyle<*Float>(p)[1] = (((CStyle<Float>(a.d[0]) / 2) * 16) - CStyle<T>(1)))
  var bytes: size_t = ((CStyle<size_t>(16) * sizeof(type T)) + (A<type T, 2>::v * 3))
  if (((A<type T, 1>::v < 3) && (UNKNOWN < M1)) && (K1 > L1))
    (q[0] = (a.get<2>() + a.get<1>()))
  var x: Int = ((a.d < q) ? (-1) : (~2))
  (x >>= 1)
  (x = ((x >> 2) > 3))
  (x = (w[0] < w[1]))
  constexpr var n: Int = (sizeof(s) / sizeof(s[0]))
  (x = (((sizeof(UNKNOWN[0]) + UNKNOWN[1]) - 1) + f<UNKNOWN[2]>(x)))
  var t: A<type T, 4>::type = new A<type T, 3>::type(1)
  if x
    unroll for var i: Int = 0; (i < n); (i++)
      ((x += i), (w[i] ^= i))
  var pt: struct p = {1, 2.f}
  var pq: *struct p = (&pt)
  enum  {E1, E2 = 3}
  (x = ((((pq->a + (*pq).a) + E2) == 1) ? E1 : cg::x))
  switch x
    case A<type T, 4>::v
      break
    case E1, default
      ;
  var c: const UnsignedChar = '97'
  var d: [const UnsignedChar; ] = "ab"
  var f: auto = lambda[](i: Int){return i}
  (q[f(1)]++)
  (--(*w))
  (x = (((-x) - (-x)) + (+x)))
  (x = ((((!x) & (~x)) && x) || (*p)))
  var h: half2 = __floats2half2_rn(1.f, 2)
  var v: float4 = new float4{1, 2, 3, 4}
  (v = {1, 2, 3, 4})
  var y: T(0)
  var u: T{}
  var g: *T = CStyle<*T>((w + 1))
  var gg: **T
  var ll: *UnsignedLongLong = CStyle<*UnsignedLongLong>(w)
"#,
    );
}

/// The titles of the diagnostics of a text, with the tree.
fn problems(text: &str) -> (String, Vec<String>) {
    let result = parsed(text);
    let titles = result.diagnostics.iter().map(|d| format!("{} {}", d.code, d.title)).collect();
    (dump::decls(&result.unit.decls), titles)
}

#[test]
fn one_kernel_does_not_stop_the_others() {
    let text = "__global__ void bad(int n) { n = ; }
        void host() { std::cout << 1 <=> 2; @ }
        strange tokens = here ! 5;
        __global__ void good(int n) { n = 1; }
        struct S { void broken() { ) } __device__ int fine() { return 1; } };
        __global__ void worse(int n) { n = 1;";
    let (tree, titles) = problems(text);
    assert_eq!(
        tree.trim(),
        "kernel bad(n: Int) -> Void refused: syntax that is not understood: expected an expression, found `;`
host() -> Void skipped
skipped
kernel good(n: Int) -> Void
  (n = 1)
struct s
  broken() -> Void skipped
  device fine() -> Int
    return 1
kernel worse(n: Int) -> Void refused: syntax that is not understood: expected `}`, found the end of the file"
    );
    assert_eq!(
        titles,
        [
            "W0851 the host function `host` is skipped: expected an expression, found `>`",
            "W0851 this declaration is skipped: expected `;`, found `!`",
            "W0851 the host function `broken` is skipped: expected an expression, found `)`",
        ]
    );
}

#[test]
fn macros_are_explained() {
    let result = parsed("#define BAD(x) x = ;\nvoid host(int n) {\n  BAD(n)\n}");
    let labels: Vec<&str> = result.diagnostics[0].labels.iter().map(|label| label.text.as_str()).collect();
    assert_eq!(labels, ["", "in this macro `BAD`"]);
}

#[test]
fn deep_nesting_is_refused() {
    for (open, close) in
        [("(", ")"), ("{", "}"), ("-", ""), ("f(", ")"), ("x[", "]"), ("n ? 1 : ", ""), ("!(", ")"), ("(int)", "")]
    {
        let body = format!("{}n{}", open.repeat(50_000), close.repeat(50_000));
        let (tree, titles) = problems(&format!("__global__ void k(int n) {{ {body}; }} __global__ void l() {{}}"));
        assert!(
            tree.contains("refused: code that is nested") && tree.ends_with("kernel l() -> Void\n"),
            "{open}: {titles:?}"
        );
    }
    for operator in [" + n", ".n", "(n)", ", n", " = n", " < n", "<n"] {
        let body = format!("n{}", operator.repeat(50_000));
        let (tree, titles) = problems(&format!("__global__ void k(int n) {{ {body}; }} __global__ void l() {{}}"));
        assert!(
            tree.contains("refused: code that is") && tree.ends_with("kernel l() -> Void\n"),
            "{operator}: {titles:?}"
        );
    }
    let types = format!("{}int{} x; __global__ void l() {{}}", "A<".repeat(50_000), ">".repeat(50_000));
    assert!(problems(&types).0.ends_with("kernel l() -> Void\n"));
    let namespaces =
        format!("{} int x; {} __global__ void l() {{}}", "namespace a {".repeat(50_000), "}".repeat(50_000));
    assert!(problems(&namespaces).0.ends_with("kernel l() -> Void\n"));
}

// ---- random changes ----

/// A linear congruential generator with an output function (SplitMix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n.max(1) as u64) as usize
    }
}

const PROGRAMS: [&str; 4] = [
    "#include \"a.h\"\n#define MAX(a, b) ((a) > (b) ? (a) : (b))\n#define CAT(a, ...) a##1, ##__VA_ARGS__\n#if defined(X) && X > 2\nint y;\n\
     #elif 1\nstruct S { float x, y; __device__ S(float a) : x(a), y{0} {} __device__ S operator+(const S &o) const { return S(x + o.x); } };\n\
     #endif\n__global__ void k(const S *__restrict__ s, float *out, int n) {\n  extern __shared__ float tile[];\n  int i = MAX(1, 2);\n\
     #pragma unroll 4\n  for (int j = 0; j < n; ++j) { tile[j] = s[j].x; }\n  __syncthreads();\n  if (i < n) out[i] = (S(1.0f) + s[i]).y;\n}\n",
    "template <typename T, int N> __device__ __forceinline__ T sum(const T (&a)[N]) {\n  T total = T(0);\n  for (const auto &v : a) total += v;\n\
     return total; }\ntemplate <> struct Q<int> : P<float> { enum { A = 1, B }; using type = int; static const int c = 3; friend void f(Q &q) {} };\n\
     int main() { k<float, 4><<<dim3(1, 2), 256 >> 1, 0>>>(p, n); auto f = [&, n](int a) -> int { return a < n ? a : n; }; return f(1); }\n",
    "namespace a { namespace b = std; typedef unsigned int (*fn)(float *, int[4]); __constant__ int table[2][3] = {{1, 2, 3}, {4}}; }\n\
     using namespace a; extern \"C\" { __global__ void g(float4 *v, unsigned long long *c) { switch (threadIdx.x & 3) { case 0: v[0].x = 1e-3f; break;\n\
     case 1 ... 2: { atomicAdd(c, 1ull); } default: *(float2 *)&v[1] = make_float2(0x1p-3f, 'a'); } do { c++; } while (--c[0] > 0u); } }\n",
    "#define R R\"x(a \" b)x\"\nconst char *text = \"\\n\\x41\" R; /* comment */ __device__ int h(int x) { // line \\\n still a comment\n\
     return sizeof(int) * (x << 2) + static_cast<int>(x) - (int)-x + !x; goto l; l: asm(\"\"); try { throw 1; } catch (...) {} delete[] new int[3]; }\n\
     union { int i; float f; } u; enum class E : char { X = 'x' }; class C { public: virtual ~C() = 0; operator bool() const noexcept; };\n",
];

const PIECES: [&str; 40] = [
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "<",
    ">",
    "<<<",
    ">>>",
    ";",
    ",",
    "::",
    "#",
    "##",
    "\"",
    "'",
    "\\\n",
    "/*",
    "*/",
    "template <",
    "operator",
    "#if 1\n",
    "\n#endif\n",
    "#define k x k\n",
    "MAX(",
    "é",
    "\u{feff}",
    "0x",
    "1e",
    "...",
    "~",
    "struct ",
    "auto ",
    "const ",
    "*",
    "&&",
    "__global__ ",
    "typename ",
    "= ",
];

/// Asserts that all spans of a text dump are within the files. Parsing must not panic.
fn check_text(text: &str) {
    let mut sources = SourceMap::default();
    let file = sources.add("file.cu", text);
    let header = |path: &str| (path == "a.h").then(|| "#pragma once\n#define X 3\nstruct H { int a; };\n".to_string());
    let result = parse(&mut sources, file, &ImportOptions::default(), &header);
    let inside = |span: clk_base::source::Span| {
        let length = sources.text(span.file).len() as u32;
        assert!(span.start <= span.end && span.end <= length, "{span:?} of {length}");
        assert!(sources.text(span.file).get(span.range()).is_some(), "{span:?} is within a character");
    };
    for diagnostic in &result.diagnostics {
        diagnostic.labels.iter().for_each(|label| inside(label.span));
    }
    fn visit(decls: &[CppDecl], inside: &impl Fn(clk_base::source::Span)) {
        for decl in decls {
            inside(decl.span.span);
            match &decl.kind {
                CppDeclKind::Namespace { decls, .. } | CppDeclKind::LinkageBlock(decls) => visit(decls, inside),
                CppDeclKind::Function(function) => {
                    inside(function.name_span.span);
                    inside(function.result.span.span);
                    if let crate::ast::FunctionBody::Block(block) = &function.body {
                        block.stmts.iter().for_each(|stmt| inside(stmt.span.span));
                    }
                }
                _ => {}
            }
        }
    }
    visit(&result.unit.decls, &inside);
    result.unit.comments.iter().for_each(|comment| inside(comment.span));
    // The printer visits the whole tree, whose depth is limited.
    dump::decls(&result.unit.decls);
}

/// Programs with random changes do not panic. `CLK_FUZZ_CASES` is their number, `CLK_FUZZ_SEED` the seed.
#[test]
fn changed_programs_do_not_panic() {
    let number =
        |name: &str, default: u64| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    let mut random = Random(number("CLK_FUZZ_SEED", 0));
    for case in 0..number("CLK_FUZZ_CASES", 20_000) {
        let mut chars: Vec<char> = PROGRAMS[random.below(PROGRAMS.len())].chars().collect();
        for _ in 0..=random.below(5) {
            let at = random.below(chars.len() + 1);
            let end = (at + random.below(20)).min(chars.len());
            match random.below(5) {
                0 => drop(chars.drain(at..end)),
                1 => {
                    let other = PROGRAMS[random.below(PROGRAMS.len())];
                    let piece: Vec<char> = other.chars().skip(random.below(900)).take(random.below(80)).collect();
                    drop(chars.splice(at..at, piece));
                }
                2 => chars.truncate(at),
                3 => {
                    let piece: Vec<char> = chars[at..end].to_vec();
                    let to = random.below(chars.len() + 1);
                    drop(chars.splice(to..to, piece));
                }
                _ => drop(chars.splice(at..at, PIECES[random.below(PIECES.len())].chars())),
            }
        }
        let text: String = chars.into_iter().collect();
        let result = std::panic::catch_unwind(|| check_text(&text));
        assert!(result.is_ok(), "case {case}: {text}");
    }
}

/// Every prefix of a program parses without a panic.
#[test]
fn truncated_programs_do_not_panic() {
    for program in PROGRAMS {
        for (at, _) in program.char_indices() {
            check_text(&program[..at]);
        }
    }
}
