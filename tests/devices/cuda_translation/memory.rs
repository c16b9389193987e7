//! Statements of random CUDA kernels about memory: pointers that choose between arrays, unions, `memcpy`, vectors with
//! operators, and arrays of structs that contain arrays.

use super::generator::CppType::*;
use super::generator::{Generator, INTEGERS, Variable, VariableKind};

/// Types and functions that the statements use.
pub const PREAMBLE: &str = "\
__device__ uint2 operator+(uint2 a, uint2 b) { return make_uint2(a.x + b.x, a.y + b.y); }
__device__ uint2 operator*(unsigned a, const uint2& b) { return make_uint2(a * b.x, a * b.y); }
__device__ uint2 operator-(uint2& a) { return make_uint2(-a.x, -a.y); }
__device__ void operator+=(uint2& a, uint2 b) { a.x += b.x; a.y += b.y; }
__device__ uint2& operator^=(uint2& a, unsigned b) { a.x ^= b; a.y ^= b; return a; }
__device__ bool operator==(uint2 a, uint2 b) { return a.x == b.x && a.y == b.y; }
template <typename T> __device__ T spec(T v) { return v; }
template <> __device__ unsigned spec(unsigned v) { return v * 3u; }
template <> __device__ short spec<short>(short v) { return v ^ 5; }
template <typename T> __device__ unsigned only(T v);
template <> __device__ unsigned only(int v) { return v ^ 1; }
template <> __device__ unsigned only<unsigned char>(unsigned char v) { return v + 2; }
struct Cells {
    unsigned a[3];
    unsigned n;
    __device__ unsigned sum() const { return a[0] + 2 * a[1] + n; }
    __device__ void set(int at, unsigned v) { a[at] = v; n++; }
};
__device__ void raise(Cells* c, unsigned by) { c->n += by; c[0].a[2] ^= by; }
";

impl Generator {
    pub fn memory_statement(&mut self) {
        match self.below(8) {
            7 => self.variable_choice(),
            0..=2 => self.pointer_choice(),
            3 => self.union_statement(),
            4 => self.memory_function(),
            5 => self.vector_statement(),
            _ => self.cells_statement(),
        }
    }

    fn array(&mut self, test: impl Fn(&Variable) -> bool) -> Option<Variable> {
        self.pick_variable(|variable| matches!(variable.kind, VariableKind::Elements(..)) && test(variable))
    }

    /// Declares pointers that refer to one of two arrays.
    fn pointer_choice(&mut self) {
        let Some(a) = self.array(|_| true) else { return };
        let VariableKind::Elements(ty, len) = a.kind else { return };
        let other = self.array(|variable| matches!(variable.kind, VariableKind::Elements(own, _) if own == ty));
        let Some(b) = other else { return };
        let VariableKind::Elements(_, other_len) = b.kind else { return };
        let len = len.min(other_len);
        let is_mutable = a.is_mutable && b.is_mutable && self.one_in(2);
        let constant = if is_mutable { "" } else { "const " };
        let (p, q) = (self.name("p"), self.name("q"));
        let pointer = format!("{constant}{}*", ty.name());
        let condition = self.condition(1);
        let (a, b) = (a.name, b.name);
        match self.below(5) {
            0 => self.line(&format!("{pointer} {p} = {condition} ? {a} : {b};")),
            1 => self.line(&format!("{pointer} {p} = {a}; if ({condition}) {p} = {b};")),
            2 => {
                // The buffers are swapped a number of times.
                let rounds = self.below(4);
                self.line(&format!("{pointer} {p} = {a}, *{q} = {b};"));
                self.line(&format!("for (int {p}k = 0; {p}k < {rounds}; {p}k++) {{"));
                self.line(&format!("    {pointer} {p}t = {p}; {p} = {q}; {q} = {p}t;"));
                self.line("}");
                self.declare(&q, VariableKind::Elements(ty, len), is_mutable);
            }
            3 => {
                let Some((sum, _)) = self.changed_variable(ty.is_float()) else { return };
                let at = self.below(len);
                self.line(&format!("{pointer} {p} = nullptr; if ({condition}) {p} = {a};"));
                self.line(&format!("if ({p} != nullptr && {p}[{at}] != 0) {sum} = {p}[{at}];"));
                self.line(&format!("{p} = {p} ? {p} : {b};"));
            }
            _ if len >= 2 => {
                let half = len / 2;
                let Some((sum, _)) = self.changed_variable(ty.is_float()) else { return };
                self.line(&format!("{pointer} {p} = {a} + {half}; {pointer} {q} = {b};"));
                self.line(&format!("if ({condition}) {p} = {q}++;"));
                self.line(&format!("{sum} = {q}[0]; {q} = {condition} ? {q} - 1 + (0 != 0) : {p};"));
                self.line(&format!("{sum} += {p}[{}] == {q}[0];", half - 1));
                self.declare(&p, VariableKind::Elements(ty, half), is_mutable);
                return;
            }
            _ => return,
        }
        self.declare(&p, VariableKind::Elements(ty, len), is_mutable);
    }

    /// Declares a pointer that refers to one of two variables or to an element.
    fn variable_choice(&mut self) {
        let element = self.array(|variable| variable.is_mutable);
        let (ty, element) = match element {
            Some(Variable { kind: VariableKind::Elements(ty, len), name, .. }) if !ty.is_float() && ty != Bool => {
                let at = self.below(len);
                (ty, Some(format!("{name} + {at}")))
            }
            _ => (self.random.pick(INTEGERS), None),
        };
        let (p, a, b) = (self.name("p"), self.name("v"), self.name("v"));
        let (x, y, z) = (self.value(ty, 2), self.value(ty, 1), self.value(ty, 1));
        let (c, d) = (self.condition(1), self.condition(1));
        let name = ty.name();
        self.line(&format!("{name} {a} = ({name})({x}), {b} = ({name})({y});"));
        self.line(&format!("{name}* {p} = {c} ? &{a} : &{b};"));
        self.line(&format!("*{p} ^= ({name})({z});"));
        self.line(&format!("if ({d}) {p} = {};", element.unwrap_or(format!("&{b}"))));
        self.line(&format!("for (int {p}k = 0; {p}k < 2; {p}k++) {{ *{p} |= {a} & {b}; {p} = &{a}; }}"));
        self.line(&format!("{b} = *{p} ^ {b};"));
        self.declare(&a, VariableKind::Value(ty), true);
        self.declare(&b, VariableKind::Value(ty), true);
    }

    fn union_statement(&mut self) {
        let (name, d) = (self.name("u"), 1);
        let Some((sum, _)) = self.changed_variable(false) else { return };
        let (x, y, z) = (self.integer(d), self.integer(d), self.integer(d));
        match self.below(3) {
            0 => {
                self.line(&format!("union {{ unsigned u; int i; unsigned short h[2]; signed char c[4]; }} {name};"));
                self.line(&format!("{name}.u = (unsigned)OPAQUE({x});"));
                self.line(&format!("{name}.h[{y} & 1] = (unsigned short)OPAQUE({z});"));
                self.line(&format!("{sum} = {name}.c[{z} & 3] ^ {name}.i;"));
            }
            1 => {
                let ty = "union { unsigned long long w; unsigned d[2]; short s[4]; }";
                self.line(&format!("{ty} {name} = {{(unsigned long long)OPAQUE({x})}};"));
                self.line(&format!("{name}.s[{y} & 3] ^= 77; {name}.d[1] += {name}.d[0];"));
                self.line(&format!("{sum} = {name}.w;"));
            }
            _ => {
                self.line(&format!("union {{ float f; unsigned u; }} {name};"));
                let small = self.unary_operand(d);
                self.line(&format!("{name}.f = (float)({small} & 255); {name}.u += 3;"));
                self.line(&format!("{sum} = {name}.u >> 3; {sum} ^= (int){name}.f;"));
            }
        }
    }

    fn memory_function(&mut self) {
        if self.one_in(4) {
            let Some((sum, _)) = self.changed_variable(false) else { return };
            let (from, to) = (self.name("f"), self.name("m"));
            let small = self.unary_operand(1);
            self.line(&format!("float {from} = (float)({small} & 255); unsigned {to};"));
            self.line(&format!("memcpy(&{to}, &{from}, sizeof {to}); {sum} = {to} >> 2;"));
            return;
        }
        let Some(source) = self.array(|_| true) else { return };
        let VariableKind::Elements(ty, len) = source.kind else { return };
        let name = self.name("m");
        let byte = match ty {
            _ if ty.is_float() => "0",
            Bool => self.random.pick(&["0", "1"]),
            _ => self.random.pick(&["0", "-1", "3"]),
        };
        self.line(&format!("{} {name}[8]; memset({name}, {byte}, sizeof({name}));", ty.name()));
        let count = match self.below(2) {
            0 => self.below(len.min(4)).to_string(),
            _ => format!("({} & {})", self.unary_operand(1), len.min(4) - 1),
        };
        let size = self.random.pick(&["sizeof(TY)", "sizeof(*NAME)", "sizeof NAME[0]"]);
        let size = size.replace("TY", ty.name()).replace("NAME", &name);
        let first = self.below(4);
        self.line(&format!("memcpy({name} + {first}, {}, {count} * {size});", source.name));
        self.declare(&name, VariableKind::Elements(ty, 8), true);
    }

    fn vector_statement(&mut self) {
        let (v, w) = (self.name("v"), self.name("w"));
        let Some((sum, _)) = self.changed_variable(false) else { return };
        let part = |generator: &mut Self| format!("(unsigned)OPAQUE({})", generator.integer(1));
        let (a, b, c) = (part(self), part(self), part(self));
        self.line(&format!("uint2 {v} = make_uint2({a}, {b}), {w} = {c} * {v} + {v};"));
        let texts = [
            format!("{v} += {w};"),
            format!("{w} = -{v} + 3u * {w};"),
            format!("{v} = ({w} ^= {a}) + {w};"),
            format!("if ({v} == {w}) {v}.x = 1;"),
            format!("{w}.y = ({v} + {w}).x;"),
        ];
        for _ in 0..3 {
            let text = self.random.pick(&texts);
            self.line(&text);
        }
        self.line(&format!("{sum} = {v}.x ^ {w}.y;"));
    }

    fn cells_statement(&mut self) {
        let name = self.name("c");
        let Some((sum, _)) = self.changed_variable(false) else { return };
        let (i, j, x) = (self.unary_operand(1), self.unary_operand(1), self.integer(1));
        self.line(&format!("Cells {name}[4]; memset({name}, 0, sizeof({name}));"));
        self.line(&format!("const int {name}i = {i} & 3, {name}j = {j} & 1; const unsigned {name}x = {x};"));
        let texts = [
            format!("{name}[{name}i].a[{name}j] = {name}x;"),
            format!("{name}[1] = {name}[{name}i];"),
            format!("{{ Cells d = {name}[{name}j]; d.a[1] ^= {name}x; {name}[3] = d; }}"),
            format!("{name}[{name}i].set({name}j, {name}x);"),
            format!("{{ Cells* q = &{name}[1]; q->n += {name}x; (q + {name}j)->a[0] = q[1].a[2]; }}"),
            format!("raise({name} + {name}j, {name}x);"),
            format!("{{ Cells& r = {name}[{name}i]; r.a[2] += r.n; }}"),
            format!("{{ unsigned* e = {name}[{name}j].a; e[{name}j] = {name}x ^ e[2]; }}"),
        ];
        for _ in 0..4 {
            let text = self.random.pick(&texts);
            self.line(&text);
        }
        self.line(&format!("{sum} = {name}[{name}i].sum() ^ {name}[3].a[{name}j] ^ {name}[1].n;"));
    }
}
