//! Lambdas of random CUDA kernels, and class templates with specializations.

use super::generator::CppType::*;
use super::generator::{CppType, Generator, Variable, VariableKind};

/// Functions that call a lambda.
pub const PREAMBLE: &str = "\
template <class F, class T> __device__ auto twice(F f, T v) { f(v); return f(v); }
template <class F, class T> __device__ auto later(F&& f, const T& v) { T u = v; return f(u); }
template <class F> __device__ void repeat(int n, const F& f) { for (int i = 0; i < n; i++) f(i); }
";

/// The variables that a lambda may use.
enum Captures {
    /// `[&]`
    References,
    /// `[=]`
    Copies,
    /// `[=]` with `mutable`
    MutableCopies,
}

impl Generator {
    /// Declares a lambda, changes some variables, and calls the lambda.
    pub fn lambda(&mut self) {
        let name = self.name("f");
        let params: Vec<CppType> = (0..self.below(3)).map(|_| self.value_type()).collect();
        let result = (!self.one_in(4)).then(|| self.value_type());
        let captures = match self.below(4) {
            0 => Captures::Copies,
            1 => Captures::MutableCopies,
            _ => Captures::References,
        };
        let (list, is_const) = match captures {
            Captures::References => ("&", true),
            Captures::Copies => ("=", true),
            Captures::MutableCopies => ("=", false),
        };
        let outer = self.scopes.clone();
        if !matches!(captures, Captures::References) {
            self.scopes = copied_variables(&outer, !is_const);
        }
        let mut extra = String::new();
        let mut inner: Vec<Variable> = vec![];
        let variable = |name: &str, ty: CppType, is_mutable: bool| Variable {
            name: name.to_owned(),
            kind: VariableKind::Value(ty),
            is_mutable,
            is_aliased: false,
        };
        if self.one_in(3) {
            // The initializer sees the variables of the function.
            let (ty, own) = (self.value_type(), self.name("c"));
            let kept = std::mem::replace(&mut self.scopes, outer.clone());
            let value = self.value(ty, 2);
            self.scopes = kept;
            extra = format!(", {own} = ({})({value})", ty.name());
            inner.push(variable(&own, ty, !is_const));
        }
        let mut texts = vec![];
        for (at, ty) in params.iter().enumerate() {
            let own = format!("{name}x{at}");
            let written = if self.one_in(3) { "auto" } else { ty.name() };
            texts.push(format!("{written} {own}"));
            inner.push(variable(&own, *ty, true));
        }
        let is_mutable = if is_const { "" } else { " mutable" };
        let has_arrow = result.is_some() && self.one_in(2);
        let arrow = result.filter(|_| has_arrow).map_or(String::new(), |ty| format!(" -> {}", ty.name()));
        self.line(&format!("auto {name} = [{list}{extra}]({}){is_mutable}{arrow} {{", texts.join(", ")));
        self.indent += 1;
        self.scopes.push(inner);
        let (labels, in_loop) = (std::mem::take(&mut self.labels), std::mem::replace(&mut self.in_loop, false));
        let around = std::mem::replace(&mut self.result, result);
        let budget = self.budget;
        self.budget = budget.min(3);
        // Without a result type, each `return` would need the same type.
        let statements = if has_arrow || result.is_none() { self.some() } else { 0 };
        for _ in 0..statements {
            self.statement();
        }
        self.full();
        if let Some(ty) = result {
            let value = self.value(ty, 2);
            self.line(&format!("return ({})({value});", ty.name()));
        }
        self.result = around;
        (self.labels, self.in_loop, self.budget) = (labels, in_loop, budget.saturating_sub(1));
        self.indent -= 1;
        self.line("};");
        self.scopes = outer;
        for _ in 0..self.below(3) {
            self.assignment();
        }
        for _ in 0..self.some() {
            self.lambda_call(&name, &params, result);
        }
    }

    fn lambda_call(&mut self, name: &str, params: &[CppType], result: Option<CppType>) {
        self.full();
        let args: Vec<String> = params.iter().map(|ty| format!("({})({})", ty.name(), self.value(*ty, 1))).collect();
        let call = match (params, self.below(3)) {
            ([ty], 0) => format!("twice({name}, ({})({}))", ty.name(), args[0]),
            ([ty], 1) => format!("later({name}, ({})({}))", ty.name(), args[0]),
            ([I32], _) => {
                let n = self.below(4);
                return self.line(&format!("repeat({n}, [&](int i) {{ {name}(i); }});"));
            }
            _ => format!("{name}({})", args.join(", ")),
        };
        self.full();
        let target = if result.is_some() { self.target() } else { None };
        match target {
            Some((target, ty)) if ty != Bool && self.one_in(3) => self.line(&format!("{target} += {call};")),
            // GCC evaluates the target of a plain assignment too early.
            Some((target, _)) => {
                let value = self.name("v");
                self.line(&format!("auto {value} = {call};"));
                self.line(&format!("{target} = {value};"));
            }
            None if self.one_in(3) => {
                let condition = self.condition(1);
                self.line(&format!("if ({condition}) {call};"));
            }
            None => self.line(&format!("{call};")),
        }
    }

    /// Defines a class template with specializations, of which one is the most specialized for all arguments.
    pub fn class_family(&mut self) {
        let name = format!("F{}", self.seed);
        let (has_pointer, has_zero, has_int) = (self.one_in(2), self.one_in(2), self.one_in(2));
        let mut all = vec![];
        if has_pointer {
            all.push(("<class T, int N>", "<T*, N>", "T"));
        }
        if has_zero {
            all.push(("<class T>", "<T, 0>", "T"));
        }
        if has_int {
            all.push(("<int N>", "<int, N>", "int"));
        }
        if has_pointer && has_zero {
            all.push(("<class T>", "<T*, 0>", "T"));
        }
        if has_int && has_zero {
            all.push(("<>", "<int, 0>", "int"));
        }
        self.line(&format!("template <class T, int N> struct {name};"));
        let mut all: Vec<_> = all.into_iter().chain([("<class T, int N>", "", "T")]).collect();
        while !all.is_empty() {
            let at = self.below(all.len());
            let (params, args, ty) = all.swap_remove(at);
            let number = self.below(100);
            let number = if params.contains("int N") { format!("{number} + N") } else { number.to_string() };
            let id = match self.below(2) {
                0 => format!("static constexpr int id = {number};"),
                _ => format!("enum {{ id = {number} }};"),
            };
            let value = self.random.pick(&["x", "(TYPE)(x != 0)", "(TYPE)(x > 3 ? x : 5)", "(TYPE)id"]);
            let value = value.replace("TYPE", ty);
            self.line(&format!("template {params} struct {name}{args} {{"));
            self.line(&format!("    {id} typedef {ty} type; {ty} own;"));
            self.line(&format!("    static __device__ {ty} of({ty} x) {{ return {value}; }}"));
            self.line(&format!("    __device__ int get({ty} x) const {{ return (own != x) + id; }}"));
            self.line("};");
        }
        self.family = Some(name);
    }

    /// A member of an instance of the class template.
    pub fn family_member(&mut self, depth: usize) -> Option<String> {
        let name = self.family.clone()?;
        let (ty, number) = (self.integer_type().name(), self.below(3));
        let pointer = if self.one_in(3) { "*" } else { "" };
        let class = format!("{name}<{ty}{pointer}, {number}>");
        let value = format!("({ty})(OPAQUE({}))", self.integer(depth));
        Some(match self.below(4) {
            0 => format!("{class}::id"),
            // The class template itself takes pointers as they are.
            _ if !pointer.is_empty() => format!("(int)sizeof({class})"),
            1 => format!("{class}::of({value})"),
            2 => format!("(int)sizeof({class}::type)"),
            _ => format!("{class}{{({ty})7}}.get({value})"),
        })
    }
}

/// Returns the variables of a lambda that captures by copy: no arrays, and constants unless it is `mutable`.
fn copied_variables(scopes: &[Vec<Variable>], is_mutable: bool) -> Vec<Vec<Variable>> {
    let copied = |variable: &Variable| {
        let mut variable = variable.clone();
        match variable.kind {
            VariableKind::Value(_) | VariableKind::Record(_) => variable.is_mutable &= is_mutable,
            // A hidden variable of this name must stay hidden, and an array must not be used.
            VariableKind::Elements(..) if !variable.name.starts_with(['x', 'o', 'p']) => return None,
            VariableKind::Elements(..) => {}
        }
        Some(variable)
    };
    scopes.iter().map(|scope| scope.iter().filter_map(copied).collect()).collect()
}
