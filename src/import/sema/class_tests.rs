//! Lambdas and specializations that are refused, with the construct that the message names.

use super::tests::translated;

/// Returns the construct for which a kernel with this body is refused; empty if it is translated.
fn construct(before: &str, body: &str) -> String {
    let source = format!("{before}\n__global__ void k(float *x, float *z, int *y, int n) {{\n{body}\n}}");
    let translation = translated(&source);
    translation.refused.first().map(|refused| refused.construct.to_string()).unwrap_or_default()
}

/// Returns the text of the kernel's body.
fn body_of(before: &str, body: &str) -> String {
    let source = format!("{before}\n__global__ void k(float *x, float *z, int *y, int n) {{\n{body}\n}}");
    let translation = translated(&source);
    assert!(translation.refused.is_empty(), "{:?}", translation.refused);
    let start = translation.text.find("\nkernel k(").expect("the text has the kernel");
    translation.text[start..].to_string()
}

#[test]
fn lambdas_that_escape_are_refused() {
    let copy = "a copy of a lambda that refers to variables";
    assert_eq!(construct("", "auto f = [&](int i) { return n + i; }; auto g = f; y[0] = g(1);"), copy);
    assert_eq!(construct("", "auto f = [&](int i) { y[0] = i; }; decltype(f) all[1] = {f}; all[0](1);"), copy);
    let returned = "__device__ auto make(int *p) { return [=](int i) { return p[i]; }; }";
    assert_eq!(construct(returned, "y[0] = make(y)(1);"), copy);
    let pointer = construct("", "int (*f)(int) = [](int i) { return i; }; y[0] = f(1);");
    assert_eq!(pointer, "a lambda as a pointer to a function");
}

#[test]
fn captures_that_are_not_understood_are_refused() {
    let moved = "an assignment to `p`, which a lambda captures by reference";
    assert_eq!(construct("", "int *p = y; auto f = [&] { return *p; }; p++; y[0] = f();"), moved);
    assert_eq!(construct("", "int *p = y; p++; auto f = [&] { return *p; }; y[0] = f();"), "");
    assert_eq!(construct("", "int *p = y; auto f = [=] { return *p; }; p++; y[0] = f();"), "");
    let pointer = "a function that assigns a pointer in a struct of its caller";
    assert_eq!(construct("", "int *p = y; auto f = [&] { p++; }; f(); *p = 1;"), pointer);
    let array = "a copy of the array `a` in a lambda";
    assert_eq!(construct("", "int a[2] = {1, 2}; auto f = [=](int i) { return a[i]; }; y[0] = f(n);"), array);
    let object = "struct S { int v; __device__ int get() { auto f = [*this] { return v; }; return f(); } };";
    assert_eq!(construct(object, "S s = {n}; y[0] = s.get();"), "a copy of `*this` in a lambda");
    assert_eq!(construct("", "auto f = [&](int i = n) { y[0] = i; }; f();"), "a lambda with a default argument");
    assert_eq!(
        construct("", "auto f = [&](decltype(n) i) { y[0] = i; }; f(1);"),
        "`decltype` in the parameters of a lambda"
    );
}

/// A name that the lambda does not capture never means one of the file.
#[test]
fn uncaptured_variables_do_not_mean_those_of_the_file() {
    let text = construct("__device__ int m = 3;", "int m = n; auto f = [] { return (int)sizeof(m) + m; }; y[0] = f();");
    assert_eq!(text, "`m` in a lambda that does not capture it");
    assert_eq!(construct("", "const int m = 4; auto f = [] { int a[m] = {}; return a[0]; }; y[0] = f();"), "");
}

/// C++ leaves open which operand is evaluated first.
#[test]
fn calls_that_change_other_operands_are_refused() {
    let open = "a change of `s` in an expression that uses it elsewhere";
    assert_eq!(construct("", "int s = n; auto f = [&] { return ++s; }; y[0] = s + f();"), open);
    assert_eq!(construct("", "int s = n; auto f = [&] { return ++s; }; y[0] = f() + f();"), open);
    let each = "template <class F> __device__ int each(F f) { return f() + 1; }";
    assert_eq!(construct(each, "int s = n; auto f = [&] { return ++s; }; y[0] = s * each(f);"), open);
    assert_eq!(construct("", "int s = n; y[0] = s - [&] { return ++s; }();"), open);
    assert_eq!(construct("", "int s = n; auto f = [&] { return s; }; y[0] = s + f();"), "");
}

/// A `const` reference to a variable that the call changes through a capture is not a copy.
#[test]
fn a_reference_to_a_captured_variable_sees_its_changes() {
    // The captured `s` and the argument `v` become one parameter, `inout s`.
    let text = translated(
        "__global__ void k(int *y, int n) {
            int s = n; auto f = [&](const int &v) { s = 5; return v; }; y[0] = f(s);
        }",
    );
    assert!(text.text.contains("fn f(inout s: i32) -> i32 {\n    s = 5\n    return s\n}"), "{}", text.text);
    let object = "struct S { int *p; __device__ int operator()(const int &v) const { *p = 5; return v; } };";
    let text =
        translated(&format!("{object} __global__ void k(int *y, int n) {{ int s = n; S f; f.p = &s; y[0] = f(s); }}"));
    let body = "(inout self_p: i32) -> i32 {\n    self_p = 5\n    return self_p\n}";
    assert!(text.text.contains(body), "{}", text.text);
    let memory = body_of("", "auto f = [&](const int &v) { y[1] = 5; return v; }; y[0] = f(y[1]);");
    assert!(memory.contains("y[0] = f(y, 1i64)"), "{memory}");
}

#[test]
fn specializations_that_are_not_understood_are_refused() {
    let pair = "template <class A, class B> struct P { static const int n = 0; };
        template <class A, class B> struct P<A *, B> { static const int n = 1; };
        template <class A, class B> struct P<A, B *> { static const int n = 2; };";
    assert_eq!(construct(pair, "y[0] = P<int *, int *>::n;"), "an ambiguous partial specialization");
    assert!(body_of(pair, "y[0] = P<int *, int>::n + 10 * P<int, int *>::n;").contains("y[0] = 21"));
    let constant = "template <class T> struct C { static const int n = 0; };
        template <> struct C<float> { static const int n = 1; };";
    assert_eq!(construct(constant, "y[0] = C<const float>::n;"), "a specialization for a type that may be `const`");
    let through = |inner: &str| format!("{constant} {inner}");
    let may_be = "a specialization for a type that may be `const`";
    let outer = through("template <class T> struct O { static const int n = C<T>::n; };");
    assert_eq!(construct(&outer, "y[0] = O<const float>::n;"), may_be);
    assert_eq!(construct(&outer, "y[0] = O<float>::n;"), "");
    let function = through("template <class T> __device__ int of() { return C<T>::n; }");
    assert_eq!(construct(&function, "y[0] = of<const float>();"), may_be);
    assert_eq!(construct(&function, "y[0] = of<float>();"), "");
    let alias = through("template <class T> using A = C<T>;");
    assert_ne!(construct(&alias, "y[0] = A<const float>::n;"), "");
    let pattern = "template <class T> struct C { static const int n = 0; };
        template <class T> struct C<const T *> { static const int n = 1; };";
    assert_eq!(construct(pattern, "y[0] = C<int>::n;"), "a specialization for `const` or `volatile` types");
    let pack = "template <class... T> struct V { static const int n = 0; };
        template <class A, class... T> struct V<A, T...> { static const int n = 1; };";
    assert_eq!(construct(pack, "y[0] = V<int>::n;"), "a parameter pack");
    let missing = "template <class T, int N> struct M; template <class T> struct M<T, 1> { static const int n = 1; };";
    assert_eq!(construct(missing, "y[0] = M<int, 2>::n;"), "a class template without a definition for these arguments");
    let dependent = "template <class T> struct D { typedef T type; static const int n = 0; };
        template <class T> struct D<typename D<T>::type> { static const int n = 1; };";
    assert!(construct(dependent, "y[0] = D<int>::n;").contains("partial specialization"));
}

/// The values of enumerators depend on the arguments of the class template.
#[test]
fn each_instance_of_a_class_template_has_its_own_enumerators() {
    let twice = "template <int N> struct Twice { enum { v = N * 2 }; };";
    assert!(body_of(twice, "y[0] = Twice<3>::v + 10 * Twice<4>::v;").contains("y[0] = 86"));
    let own = "template <int N> struct S { enum { v = N }; __device__ int get() const { return v; } };";
    let text =
        translated(&format!("{own} __global__ void k(int *y) {{ S<3> a; S<4> b; y[0] = a.get(); y[1] = b.get(); }}"));
    assert!(text.text.contains("return 3") && text.text.contains("return 4"), "{}", text.text);
}

/// A method that is defined outside of its class belongs to the specialization that it names.
#[test]
fn methods_outside_of_a_class_belong_to_their_specialization() {
    let class = "template <class T> struct S { T v; __device__ int get() const { return 1; } };
        template <> struct S<float> { int v; __device__ int get() const; };
        template <> struct S<int *> { int v; __device__ int get() const; };
        __device__ int S<int *>::get() const { return v + 2; }
        __device__ int S<float>::get() const { return v + 3; }";
    let text = translated(&format!(
        "{class} __global__ void k(int *y, int n) {{ S<int> a = {{n}}; S<int *> b = {{n}}; S<float> c = {{n}};
            y[0] = a.get(); y[1] = b.get(); y[2] = c.get(); }}"
    ));
    let refused: Vec<_> = text.refused.iter().map(|refused| refused.construct.clone()).collect();
    assert!(refused.is_empty(), "{refused:?}");
    for call in ["y[1] = S_ptr_i32_get(b)", "y[2] = S_f32_get(c)"] {
        assert!(text.text.contains(call), "{}", text.text);
    }
    let body = |name: &str, value: &str| {
        format!("fn {name}(self: {}) -> i32 {{\n    return {value}\n}}", &name[..name.len() - 4])
    };
    assert!(text.text.contains(&body("S_ptr_i32_get", "self.v + 2")), "{}", text.text);
    assert!(text.text.contains(&body("S_f32_get", "self.v + 3")), "{}", text.text);
}

/// `F &&` refers to an object that has a name, so its changes stay.
#[test]
fn a_forwarding_reference_is_no_copy() {
    let later = "template <class F> __device__ int later(F &&f) { return f(); }";
    let text = body_of(later, "int c = n; auto f = [c]() mutable { return ++c; }; later(f); y[0] = later(f);");
    assert!(text.contains("var f_object"), "{text}");
}

/// `T` of a parameter `T &&` is `int &` for a variable, and `int` for a number.
#[test]
fn the_type_of_a_forwarding_reference_is_not_used() {
    let refused = "the type `T` of a parameter `T&&`, which may be a reference";
    let define = |body: &str| format!("template <class T> __device__ int f(T &&t) {{ {body} }}");
    assert_eq!(construct(&define("T u = t; u += 1; return u;"), "int c = n; y[0] = f(c);"), refused);
    assert_eq!(construct(&define("return std::is_integral<T>::value;"), "int c = n; y[0] = f(c);"), refused);
    assert_eq!(construct(&define("return T(t);"), "int c = n; y[0] = f(c);"), refused);
    let class = format!("template <class T> struct S {{ T v; }}; {}", define("S<T> s{t}; return s.v;"));
    assert_eq!(construct(&class, "int c = n; y[0] = f(c);"), refused);
    assert_eq!(construct(&define("T &u = t; auto v = t; u += 1; return u + v;"), "int c = n; y[0] = f(c);"), "");
    assert_eq!(construct(&define("T u = t; return u;"), "y[0] = f<int>(3);"), "");
}

/// Types of Clk do not tell `T &` from `T &&`.
#[test]
fn specializations_for_references_need_a_known_kind() {
    let pair = "template <class T> struct R { static const int n = 1; };
        template <class T> struct R<T &> { static const int n = 2; };
        template <class T> struct R<T &&> { static const int n = 3; };";
    let right = body_of(pair, "y[0] = R<int>::n + 10 * R<int &>::n + 100 * R<int &&>::n;");
    assert!(right.contains("y[0] = 321"), "{right}");
    let one = "template <class T> struct R { static const int n = 1; };
        template <> struct R<int &&> { static const int n = 2; };
        template <class T> struct R<T *&> { static const int n = 3; };";
    let right = body_of(one, "y[0] = R<int &>::n + 10 * R<int &&>::n + 100 * R<int *&>::n + 1000 * R<int *&&>::n;");
    assert!(right.contains("y[0] = 1321"), "{right}");
    let refused = "a specialization for a reference that may be `T&` or `T&&`";
    assert_eq!(construct(&format!("{pair} typedef int &&I;"), "y[0] = R<I>::n;"), refused);
    assert_eq!(construct(&format!("{pair} typedef int &I;"), "y[0] = R<I &&>::n;"), refused);
    let same = "template <class A, class B> struct E { static const int n = 0; };
        template <class A> struct E<A, A> { static const int n = 1; };
        template <class T> struct B { int v; };";
    assert_eq!(construct(same, "y[0] = E<int &, int &&>::n;"), refused);
    assert_eq!(construct(same, "y[0] = E<B<int &>, B<int &&>>::n;"), refused);
    assert!(body_of(same, "y[0] = E<int, int>::n + 10 * E<int &, int>::n;").contains("y[0] = 1"));
}

/// A member hides the function of the file that has its name.
#[test]
fn a_call_of_a_field_calls_the_object_in_it() {
    let head = "__device__ int f(int v) { return v * 7; }
        template <class F> struct Holder { F f; int more; __device__ int run(int v) const { return f(v) + more; } };
        template <class F> __device__ int held(F f, int v) { Holder<F> h{f, 100}; return h.run(v) + h.f(v); }";
    let kernel = "__global__ void k(int *y, int n) { auto add = [n](int v) { return v + n; }; y[0] = held(add, 1); }";
    let text = translated(&format!("{head} {kernel}")).text;
    assert!(text.contains("return add(self.f, v) + self.more") && !text.contains("v * 7"), "{text}");
    let pointer = "__device__ int f(int v) { return v * 7; } __device__ int g(int v) { return v + 1; }
        struct P { int (*f)(int); __device__ int run(int v) const { return f(v); } };";
    let text = translated(&format!("{pointer} __global__ void k(int *y) {{ P p; p.f = g; y[0] = p.run(3); }}"));
    assert!(text.text.contains("self.f == 2"), "{}", text.text);
}

/// `decltype((c))` is `int &`, and `decltype(c)` is `int`.
#[test]
fn decltype_of_a_reference_is_refused() {
    let refused = "`decltype` of a reference";
    assert_eq!(construct("", "int c = n; decltype((c)) d = c; d++; y[0] = c;"), refused);
    assert_eq!(construct("", "int c = n; int &r = c; decltype(r) d = c; d++; y[0] = c;"), refused);
    assert_eq!(construct("", "decltype(y[0]) d = y[1]; d++;"), refused);
    assert_eq!(construct("", "int c = n; auto f = [](auto &&v) { decltype(v) w = v; w++; }; f(c); y[0] = c;"), refused);
    let text =
        body_of("", "int c = n; decltype(c) d = c; d++; decltype(c + 1) e = c; typeof(y[0]) g = c; y[0] = d + e + g;");
    assert!(text.contains("d += 1"), "{text}");
}
