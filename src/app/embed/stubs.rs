//! Type stubs: the callables of a program as a Python stub file (`.pyi`), for type checkers and editors.

use std::fmt::Write as _;

use super::describe::{Callable, ParamDescription, ParamKind};
use clk_check::typed::Access;

/// The keywords of Python, which parameters cannot have as names.
const RESERVED: [&str; 35] = [
    "False", "None", "True", "and", "as", "assert", "async", "await", "break", "class", "continue", "def", "del",
    "elif", "else", "except", "finally", "for", "from", "global", "if", "import", "in", "is", "lambda", "nonlocal",
    "not", "or", "pass", "raise", "return", "try", "while", "with", "yield",
];

/// Returns the type stubs for the program in the file `name`.
pub fn text(name: &str, callables: &[Callable]) -> String {
    let mut text = format!("# Written by `clk stubs {name}`.\nfrom typing import Any\n\nimport clk\n");
    for callable in callables.iter().filter(|callable| !RESERVED.contains(&callable.name.as_str())) {
        let _ = write!(text, "\n{}", stub(callable));
    }
    for (method, stub) in METHODS {
        if !callables.iter().any(|callable| callable.name == method) {
            let _ = write!(text, "\n{stub}");
        }
    }
    text
}

/// The methods of every module. A callable of the program with the same name replaces the method.
const METHODS: [(&str, &str); 4] = [
    (
        "run",
        "def run(\n    *args: str,\n    device: str | None = None,\n    check: bool | str = False,\n    trap_nan: bool = False,\n    \
         deterministic: bool = False,\n) -> None: ...\n",
    ),
    ("dtype", "def dtype(name: str) -> Any: ...\n"),
    ("stubs", "def stubs() -> str: ...\n"),
    // Allows access to the script's variables, whose types are unknown.
    ("__getattr__", "def __getattr__(name: str) -> Any: ...\n"),
];

fn stub(callable: &Callable) -> String {
    let mut words = vec!["self".to_string()];
    let mut keywords = Vec::new();
    for param in &callable.params {
        // A parameter that is named like a Python keyword gets a suffix.
        let name =
            if RESERVED.contains(&param.name.as_str()) { format!("{}_", param.name) } else { param.name.clone() };
        let default = param.default.as_deref().map_or_else(String::new, |text| format!(" = {}", default_text(text)));
        match param.access {
            Access::Out => keywords.push(format!("{name}: clk.ArrayLike | None = ...")),
            Access::In | Access::InOut => words.push(format!("{name}: {}{default}", input_type(param))),
        }
    }
    keywords.extend(callable.dims.iter().map(|dim| format!("{dim}: int = ...")));
    keywords.extend(callable.generics.iter().map(|(generic, word)| match *word {
        "const" => format!("{generic}: int | bool | float = ..."),
        "fn" => format!("{generic}: clk.Callable | str = ..."),
        _ => format!("{generic}: str = ..."),
    }));
    let is_name_used = |option: &str| {
        let own = callable.params.iter().map(|param| &param.name);
        own.chain(&callable.dims).chain(callable.generics.iter().map(|(name, _)| name)).any(|name| name == option)
    };
    let out = if out_params(callable).len() > 1 { "tuple[clk.ArrayLike | None, ...]" } else { "clk.ArrayLike" };
    let options = [
        ("out", format!("{out} | None = ...")),
        ("device", "str | None = ...".into()),
        ("check", "bool | str = ...".into()),
        ("trap_nan", "bool = ...".into()),
        ("deterministic", "bool = ...".into()),
        ("grid", "int | tuple[int, ...] = ...".into()),
        ("block", "int | tuple[int, ...] = ...".into()),
    ];
    // The options `out`, `grid` and `block` apply only to kernels.
    let of_calls = |option: &str| callable.is_kernel || !matches!(option, "out" | "grid" | "block");
    let options = options.into_iter().filter(|(option, _)| of_calls(option) && !is_name_used(option));
    keywords.extend(options.map(|(option, ty)| format!("{option}: {ty}")));
    words.push("*".into());
    words.extend(keywords);
    let doc = callable.doc.as_deref().map_or_else(String::new, |doc| format!("\n\n{}", doc.trim()));
    let doc = format!("{}{doc}", callable.head).replace('\\', "\\\\").replace("\"\"\"", "\\\"\\\"\\\"");
    let doc = doc.replace('\n', "\n    ");
    let doc = doc.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
    // Each callable gets its own class, because type checkers must know its attributes `using` and `dimensions`.
    format!(
        "class _{0}_callable(clk.Callable):\n    \"\"\"{doc}\"\"\"\n\n    def __call__(\n        {1},\n    ) -> {2}: ...\n\n{0}: _{0}_callable\n",
        callable.name,
        words.join(",\n        "),
        result_type(callable)
    )
}

/// Returns the parameters of a kernel whose arrays the call allocates and returns.
fn out_params(callable: &Callable) -> Vec<&ParamDescription> {
    callable.params.iter().filter(|param| param.access == Access::Out).collect()
}

fn result_type(callable: &Callable) -> String {
    if !callable.is_kernel {
        return callable.result.as_deref().map_or("None", of_result).into();
    }
    match out_params(callable).len() {
        0 => "None".into(),
        1 => "Any".into(),
        several => format!("tuple[{}]", vec!["Any"; several].join(", ")),
    }
}

/// Returns the Python type of a function's result. For arrays it is `Any`, because their library is that of the
/// arguments.
fn of_result(text: &str) -> &'static str {
    match text {
        "bool" => "bool",
        "str" => "str",
        "[str; _]" => "list[str]",
        "f16" | "bf16" | "f32" | "f64" => "float",
        text if text.strip_prefix(['i', 'u']).is_some_and(|bits| bits.parse::<u8>().is_ok()) => "int",
        _ => "Any",
    }
}

/// Converts a default value that is a number or a Boolean to Python syntax. Returns `...` for all others.
fn default_text(text: &str) -> &str {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok();
    // In Python, a decimal integer cannot begin with 0.
    let is_octal = digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "true" => "True",
        "false" => "False",
        text if is_number && !is_octal => text,
        _ => "...",
    }
}

fn input_type(param: &ParamDescription) -> &'static str {
    match &param.kind {
        ParamKind::Array { .. } => "clk.ArrayLike",
        ParamKind::Text => "str",
        ParamKind::Texts => "list[str]",
        ParamKind::Value(_) => match of_result(&param.text) {
            "Any" | "None" => "Any",
            // An integer needs no decimal point, because type checkers accept integers for floats.
            found => found,
        },
        ParamKind::Other => "Any",
    }
}
