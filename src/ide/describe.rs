//! Descriptions of definitions: source line, type and documentation.

use super::types::{self, TypeOwner};
use super::{Analysis, slice};
use clk_base::source::Span;
use clk_check::typed::{Access, Definition, DefinitionKind, NameBinding, NameTarget, Program, Type};
use clk_scalar::builtin::{self, BuiltinEntry, BuiltinSpaces};
use clk_syntax::token::Tok;
use clk_syntax::token::{CONTEXTUAL, KEYWORDS};

/// The description of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Description {
    /// A few lines of Clk.
    pub code: String,
    /// Documentation in Markdown.
    pub doc: String,
}

impl Description {
    fn new(code: impl Into<String>, doc: impl Into<String>) -> Description {
        Description { code: code.into(), doc: doc.into() }
    }

    pub fn markdown(&self) -> String {
        let code = format!("```clk\n{}\n```", self.code);
        if self.doc.is_empty() { code } else { format!("{code}\n\n{}", self.doc) }
    }
}

impl Analysis {
    pub(super) fn describe(&self, target: NameTarget) -> Option<Description> {
        let program = &self.session.program;
        match target {
            NameTarget::Item(binding) => self.describe_binding(binding),
            NameTarget::Field(id, field) => {
                let owner = program.structs.get(id)?;
                let field = owner.fields.get(field as usize)?;
                let ty = types::show_type(program, &field.ty, TypeOwner::None);
                let code = format!("{}: {ty}", field.name);
                let doc = field.doc.clone().unwrap_or_default();
                Some(Description::new(code, join(&doc, &format!("Field of `{}`.", owner.name))))
            }
            NameTarget::Local(span) => match self.names().definition(span) {
                Some(definition) => Some(self.describe_local(definition)),
                None => Some(Description::new(self.parameter(span), "")),
            },
            NameTarget::Builtin(name) => builtin::find(name).map(builtin),
            NameTarget::Type => None,
        }
    }

    fn describe_binding(&self, binding: NameBinding) -> Option<Description> {
        let program = &self.session.program;
        let doc = |doc: &Option<String>| doc.clone().unwrap_or_default();
        Some(match binding {
            NameBinding::Fn(id) => {
                let f = program.fns.get(id)?;
                Description::new(self.header(f.span), doc(&f.doc))
            }
            NameBinding::Kernel(id) => {
                let k = program.kernels.get(id)?;
                Description::new(self.header(k.span), doc(&k.doc))
            }
            NameBinding::Struct(id) => {
                let s = program.structs.get(id)?;
                let field = |f: &clk_check::typed::Field| {
                    format!("    {}: {},\n", f.name, types::show_type(program, &f.ty, TypeOwner::None))
                };
                let fields: String = s.fields.iter().map(field).collect();
                let size = types::element_size(program, &Type::Struct(id)).map(|b| format!("{b} bytes in an array."));
                let code = format!("struct {} {{\n{fields}}}", s.name);
                Description::new(code, join(&doc(&s.doc), &size.unwrap_or_default()))
            }
            NameBinding::Const(id) => {
                let c = program.consts.get(id)?;
                let value = self.session.sources.slice(c.value.span);
                let ty = types::show_type(program, &c.ty, TypeOwner::None);
                Description::new(format!("const {}: {ty} = {value}", c.name), doc(&c.doc))
            }
            NameBinding::Global(id) => {
                let g = program.globals.get(id)?;
                let word = if g.mutable { "var" } else { "let" };
                let ty = types::show_type(program, &g.ty, TypeOwner::None);
                Description::new(format!("{word} {}: {ty}", g.name), "")
            }
            NameBinding::Module(id) => {
                let m = program.modules.get(id)?;
                Description::new(format!("import {}", module_name(program, id)), doc(&m.doc))
            }
            NameBinding::Error => return None,
        })
    }

    /// Describes a variable, parameter or dimension of this file.
    fn describe_local(&self, def: &Definition) -> Description {
        let program = &self.session.program;
        let (ty, owner) = match self.types().get(def.span) {
            Some((ty, owner)) => (types::show_type(program, ty, owner), owner),
            None => ("?".into(), TypeOwner::None),
        };
        let name = &def.name;
        let (code, doc) = match def.kind {
            DefinitionKind::Let => (format!("let {name}: {ty}"), String::new()),
            DefinitionKind::Var => (format!("var {name}: {ty}"), String::new()),
            DefinitionKind::Loop => (format!("for {name}: {ty}"), String::new()),
            DefinitionKind::Shared => (format!("shared {name}: {ty}"), self.shared_bytes(def.span).unwrap_or_default()),
            DefinitionKind::ThreadIndex => {
                (format!("{name}: {ty}"), "The thread's index; the last one varies fastest.".into())
            }
            DefinitionKind::Param(access) => (format!("{}{name}: {ty}", access_word(access)), String::new()),
            DefinitionKind::Field => (format!("{name}: {ty}"), String::new()),
            DefinitionKind::Dimension => {
                let of = owner.signature(program).map(|sig| {
                    let holds = |p: &&clk_check::typed::Param| {
                        let text = types::show_type(program, &p.ty, owner);
                        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
                    };
                    let params: Vec<String> =
                        sig.params.iter().filter(holds).map(|p| format!("`{}`", p.name)).collect();
                    params.join(", ")
                });
                let of = of.filter(|of| !of.is_empty()).map(|of| format!("A dimension of {of}."));
                (format!("{name}: i32"), of.unwrap_or_else(|| "A dimension.".into()))
            }
            DefinitionKind::TypeParam | DefinitionKind::ConstParam | DefinitionKind::FnParam => {
                (self.parameter(def.span).to_owned(), "A compile-time parameter.".into())
            }
            DefinitionKind::Fn
            | DefinitionKind::Kernel
            | DefinitionKind::Struct
            | DefinitionKind::Const
            | DefinitionKind::Import => (slice(&self.text, def.span.range()).to_owned(), String::new()),
        };
        Description::new(code, doc)
    }

    /// Returns the text of the parameter, or compile-time parameter, whose name is at this span.
    fn parameter(&self, name: Span) -> &str {
        let program = &self.session.program;
        let of_kernels = program.kernels.iter().map(|(_, kernel)| &kernel.sig);
        let of_fns = program.fns.iter().map(|(_, function)| &function.sig);
        let spans = of_kernels.chain(of_fns).flat_map(|sig| {
            let generics = sig.generics.iter().map(|generic| (generic.name_span, generic.span));
            generics.chain(sig.params.iter().map(|param| (param.name_span, param.span)))
        });
        let span = spans.into_iter().find(|(own, _)| *own == name).map_or(name, |(_, whole)| whole);
        self.session.sources.slice(span)
    }

    pub(super) fn shared_bytes(&self, span: Span) -> Option<String> {
        let shared = self.types().shared.iter().find(|s| s.span == span)?;
        let one = types::element_size(&self.session.program, &shared.element)?;
        let count = shared.extents.iter().copied().try_fold(1i64, |n, e| n.checked_mul(e?))?;
        let bytes = one.checked_mul(u64::try_from(count).ok()?)?;
        Some(if bytes < 4096 { format!("{bytes} bytes of shared memory") } else { kibibytes(bytes) })
    }

    /// Returns the text of a function or kernel up to its body.
    pub(super) fn header(&self, span: Span) -> String {
        let text = self.session.sources.slice(span);
        let mut depth = 0;
        for token in clk_syntax::lex(span.file, text).tokens {
            match token.kind {
                Tok::LParen | Tok::LBracket => depth += 1,
                Tok::RParen | Tok::RBracket => depth -= 1,
                Tok::LBrace if depth == 0 => {
                    return text.get(..token.start as usize).unwrap_or("").trim_end().to_owned();
                }
                _ => {}
            }
        }
        text.lines().next().unwrap_or("").to_owned()
    }
}

fn kibibytes(bytes: u64) -> String {
    format!("{:.1} KiB of shared memory", bytes as f64 / 1024.0)
}

pub(super) fn access_word(access: Access) -> &'static str {
    match access {
        Access::In => "",
        Access::Out => "out ",
        Access::InOut => "inout ",
    }
}

fn join(a: &str, b: &str) -> String {
    if a.is_empty() || b.is_empty() { format!("{a}{b}") } else { format!("{a}\n\n{b}") }
}

pub(super) fn module_name(program: &Program, id: clk_check::typed::ModuleId) -> String {
    program.modules.get(id).map_or(String::new(), |m| {
        if m.name.starts_with("std.") { m.name.to_string() } else { format!("\"{}\"", m.name) }
    })
}

/// Describes a builtin.
pub(super) fn builtin(entry: &BuiltinEntry) -> Description {
    let availability = match entry.spaces {
        BuiltinSpaces::Both => "",
        BuiltinSpaces::Device => "In kernels only.",
        BuiltinSpaces::Host if entry.in_tiles() => "In scripts, and in expressions of tiles in kernels.",
        BuiltinSpaces::Host => "In scripts only.",
    };
    Description::new(format!("{}{}", entry.name, entry.signature), join(entry.doc, availability))
}

/// Returns the documentation of a word independent of any program (a builtin, a type or a keyword), as Markdown.
pub fn documentation(name: &str) -> Option<String> {
    if let Some(entry) = builtin::find(name) {
        return Some(builtin(entry).markdown());
    }
    if super::is_prelude_type(name) {
        let scalar = clk_scalar::Scalar::from_name(name);
        let description = match scalar {
            Some(s) => format!("A scalar of {} bytes. `{name}(x)` converts.", s.size()),
            None if name == "str" => "Text, on the host only: `len(s)`, `s[i]`, `s[a..b]`, `a + b`, `a < b`. `str(x)` is the text that `print` shows; `[str; _]` is an array of strings.".into(),
            None => format!("A short vector: `{name}(…)` creates one, `.x .y .z .w` are its components."),
        };
        return Some(Description::new(name, description).markdown());
    }
    keyword_doc(name).map(|description| Description::new(name, description).markdown())
}

/// Returns the documentation of a keyword.
pub fn keyword_doc(word: &str) -> Option<&'static str> {
    let is_keyword = KEYWORDS.iter().any(|(k, _)| *k == word) || CONTEXTUAL.contains(&word);
    is_keyword.then_some(match word {
        "kernel" => {
            "A function that many threads run: `kernel name(x: [f32; N], out y: [f32; N]) threads(i: N) { … }`."
        }
        "fn" => "A function, for kernels and scripts alike: `fn name(x: f32) -> f32 { … }`.",
        "struct" => "Named fields: `struct Body { place: f32x3, mass: f32 }`.",
        "const" => "A constant: `const WIDTH: i32 = 32`; in `<…>` a constant parameter.",
        "let" => "A name for a value that never changes.",
        "var" => "A variable that can be assigned to.",
        "shared" => "Memory that the threads of a block share: `shared tile: [f32; 16, 16]`.",
        "if" | "else" => "`if a { … } else { … }`, also as a value.",
        "for" | "in" => "`for i in a..b step s { … }`, or over a fixed array.",
        "while" => "`while condition { … }`",
        "loop" => "Repeats until `break`.",
        "break" => "Leaves the innermost loop.",
        "continue" => "Continues with the next iteration of the innermost loop.",
        "return" => "Returns from the function, with its value.",
        "import" | "as" => "`import std.linalg`, `import std.nn.{relu}`, `import \"./shapes.clk\" as shapes`",
        "test" => "`test \"name\" { assert(…) }`, run by `clk test`.",
        "bench" => "`bench \"name\" bytes = … { … }`, timed by `clk bench`.",
        "out" => "An array that the kernel writes before it reads it. If the launch omits it, it is allocated and returned.",
        "inout" => "An array (or value) that is read and changed in place.",
        "true" | "false" => "A truth value.",
        "threads" => "`threads(row: M, col: N)` runs the body once for every index; the last name varies fastest.",
        "grid" => "`grid(x, y, z) block(x, y, z)`: how many blocks there are, in CUDA's order.",
        "block" => "How many threads a block has.",
        "step" => "`a..b step s`",
        "on" => "`on sim { … }` or `on gpu(0) { … }`: where launches inside run.",
        "assume" => {
            "Conditions that all launches of a kernel meet, after its geometry: `assume N > 0, all(at >= 0), all(at < N)`; for arrays of \
             integers also `ascending(x)`, `distinct(x)`, `permutation(x)`. Conditions are tested at every launch, promises about \
             arrays with `--check`; `clk prove` relies on both."
        }
        "expect" => {
            "Properties that `clk check` must prove for a kernel, after its geometry: `expect in_bounds, race_free, written, barriers, no_overflow, \
             any_order`, and limits on the cost of an access per warp: `bank_ways <= 1`, `sectors <= 4`. A refuted property is an error, an unproved one a warning; `clk test` tests it. \
             `max_ulp <= 2` is always tested: the distance of floats from those of the same kernel in `f64`."
        }
        "tune" => {
            "Candidate values of a kernel's constants, after its geometry: `tune BM in [64, 128], STAGES in [3, 4, 5]`. `clk tune` measures \
             those that meet the conditions of `assume`, and writes the choice to a file next to the source; without the file, the defaults apply. \
             `clk test --tunings` shows that results do not depend on the choice."
        }
        "batch" => "`batch { … }` groups launches: a GPU starts repeated groups as one graph.",
        "time" => "`time { … }` measures the median and the spread, in seconds.",
        _ => "A word of the language.",
    })
}
