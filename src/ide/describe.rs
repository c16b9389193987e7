//! Descriptions of definitions: source line, type and documentation.

use super::names::{Def, DefKind, Meaning};
use super::types::{self, Owner};
use super::{Analysis, slice};
use crate::base::source::Span;
use crate::check::typed::{Access, Binding, Program, Type};
use crate::lang::builtin::{self, Entry, Worlds};
use crate::syntax::token::{CONTEXTUAL, KEYWORDS};
use crate::syntax::{self, token::Tok};

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
    pub(super) fn describe(&self, meaning: Meaning) -> Option<Description> {
        let program = &self.session.program;
        match meaning {
            Meaning::Def(index) => {
                let def = self.names().defs.get(index)?;
                let global = matches!(
                    def.kind,
                    DefKind::Fn | DefKind::Kernel | DefKind::Struct | DefKind::Const | DefKind::Import
                );
                let bound = if global { self.binding(&def.name) } else { None };
                bound.and_then(|b| self.describe(Meaning::Bound(b))).or_else(|| Some(self.own(def)))
            }
            Meaning::Bound(binding) => self.bound(binding),
            Meaning::Field(id, field) => {
                let owner = program.structs.get(id)?;
                let field = owner.fields.get(field as usize)?;
                let ty = types::shown(program, &field.ty, Owner::None);
                let code = format!("{}: {ty}", field.name);
                let doc = field.doc.clone().unwrap_or_default();
                Some(Description::new(code, join(&doc, &format!("Field of `{}`.", owner.name))))
            }
            Meaning::Elsewhere(span) => Some(Description::new(self.session.sources.slice(span), "")),
            Meaning::Builtin(index) => builtin::TABLE.get(index).map(builtin),
            Meaning::Type => None,
        }
    }

    fn bound(&self, binding: Binding) -> Option<Description> {
        let program = &self.session.program;
        let doc = |doc: &Option<String>| doc.clone().unwrap_or_default();
        Some(match binding {
            Binding::Fn(id) => {
                let f = program.fns.get(id)?;
                Description::new(self.header(f.span), doc(&f.doc))
            }
            Binding::Kernel(id) => {
                let k = program.kernels.get(id)?;
                Description::new(self.header(k.span), doc(&k.doc))
            }
            Binding::Struct(id) => {
                let s = program.structs.get(id)?;
                let field = |f: &crate::check::typed::Field| {
                    format!("    {}: {},\n", f.name, types::shown(program, &f.ty, Owner::None))
                };
                let fields: String = s.fields.iter().map(field).collect();
                let size = types::bytes(program, &Type::Struct(id)).map(|b| format!("{b} bytes in an array."));
                let code = format!("struct {} {{\n{fields}}}", s.name);
                Description::new(code, join(&doc(&s.doc), &size.unwrap_or_default()))
            }
            Binding::Const(id) => {
                let c = program.consts.get(id)?;
                let value = self.session.sources.slice(c.value.span);
                let ty = types::shown(program, &c.ty, Owner::None);
                Description::new(format!("const {}: {ty} = {value}", c.name), doc(&c.doc))
            }
            Binding::Global(id) => {
                let g = program.globals.get(id)?;
                let word = if g.mutable { "var" } else { "let" };
                let ty = types::shown(program, &g.ty, Owner::None);
                Description::new(format!("{word} {}: {ty}", g.name), "")
            }
            Binding::Module(id) => {
                let m = program.modules.get(id)?;
                Description::new(format!("import {}", module_name(program, id)), doc(&m.doc))
            }
            Binding::Error => return None,
        })
    }

    /// Describes a definition local to this file.
    fn own(&self, def: &Def) -> Description {
        let program = &self.session.program;
        let (ty, owner) = match self.types().of(def.span) {
            Some((ty, owner)) => (types::shown(program, ty, owner), owner),
            None => ("?".into(), Owner::None),
        };
        let name = &def.name;
        let (code, doc) = match def.kind {
            DefKind::Let => (format!("let {name}: {ty}"), String::new()),
            DefKind::Var => (format!("var {name}: {ty}"), String::new()),
            DefKind::Loop => (format!("for {name}: {ty}"), String::new()),
            DefKind::Shared => (format!("shared {name}: {ty}"), self.shared_bytes(def.span).unwrap_or_default()),
            DefKind::ThreadIndex => {
                (format!("{name}: {ty}"), "The thread's index; the last one varies fastest.".into())
            }
            DefKind::Param(access) => (format!("{}{name}: {ty}", access_word(access)), String::new()),
            DefKind::Field => (format!("{name}: {ty}"), String::new()),
            DefKind::Dimension => {
                let of = owner.signature(program).map(|sig| {
                    let holds = |p: &&crate::check::typed::Param| {
                        let text = types::shown(program, &p.ty, owner);
                        text.split(|c: char| !c.is_alphanumeric() && c != '_').any(|word| word == name)
                    };
                    let params: Vec<String> =
                        sig.params.iter().filter(holds).map(|p| format!("`{}`", p.name)).collect();
                    params.join(", ")
                });
                let of = of.filter(|of| !of.is_empty()).map(|of| format!("A dimension of {of}."));
                (format!("{name}: i32"), of.unwrap_or_else(|| "A dimension.".into()))
            }
            DefKind::TypeParam | DefKind::ConstParam | DefKind::FnParam => {
                (self.generic(def.span).to_owned(), "A compile-time parameter.".into())
            }
            DefKind::Fn | DefKind::Kernel | DefKind::Struct | DefKind::Const | DefKind::Import => {
                (slice(&self.text, def.span.range()).to_owned(), String::new())
            }
        };
        Description::new(code, doc)
    }

    /// Returns the whole compile-time parameter whose name is at this span.
    fn generic(&self, name: Span) -> &str {
        use crate::syntax::ast::ItemKind;
        let generics = self.tree.items.iter().flat_map(|item| match &item.kind {
            ItemKind::Fn(f) => &f.generics[..],
            ItemKind::Kernel(k) => &k.generics[..],
            _ => &[],
        });
        let span = generics.into_iter().find(|g| g.name.span == name).map_or(name, |g| g.span);
        slice(&self.text, span.range())
    }

    pub(super) fn shared_bytes(&self, span: Span) -> Option<String> {
        let shared = self.types().shared.iter().find(|s| s.span == span)?;
        let one = types::bytes(&self.session.program, &shared.element)?;
        let count = shared.extents.iter().copied().try_fold(1i64, |n, e| n.checked_mul(e?))?;
        let bytes = one.checked_mul(u64::try_from(count).ok()?)?;
        Some(if bytes < 4096 { format!("{bytes} bytes of shared memory") } else { kibibytes(bytes) })
    }

    /// Returns the text of a function or kernel before its body.
    pub(super) fn header(&self, span: Span) -> String {
        let text = self.session.sources.slice(span);
        let mut depth = 0;
        for token in syntax::lex(span.file, text).tokens {
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

pub(super) fn module_name(program: &Program, id: crate::check::typed::ModuleId) -> String {
    program.modules.get(id).map_or(String::new(), |m| {
        if m.name.starts_with("std.") { m.name.to_string() } else { format!("\"{}\"", m.name) }
    })
}

/// Describes a builtin by its entry in the table.
pub(super) fn builtin(entry: &Entry) -> Description {
    let world = match entry.worlds {
        Worlds::Both => "",
        Worlds::Device => "In kernels only.",
        Worlds::Host if entry.in_tiles() => "In scripts, and in expressions of tiles in kernels.",
        Worlds::Host => "In scripts only.",
    };
    Description::new(format!("{}{}", entry.name, entry.signature), join(entry.doc, world))
}

/// Returns the documentation of a word independent of any program (a builtin, a type or a keyword), as Markdown.
pub fn documentation(name: &str) -> Option<String> {
    if let Some(entry) = builtin::find(name) {
        return Some(builtin(entry).markdown());
    }
    if super::names::is_prelude_type(name) {
        let scalar = crate::lang::scalar::Scalar::from_name(name);
        let what = match scalar {
            Some(s) => format!("A scalar of {} bytes. `{name}(x)` converts.", s.size()),
            None if name == "str" => "Text, on the host only: `len(s)`, `s[i]`, `s[a..b]`, `a + b`, `a < b`. `str(x)` is what `print` shows of a value; `[str; _]` is an array of texts.".into(),
            None => format!("A short vector: `{name}(…)` makes one, `.x .y .z .w` are its parts."),
        };
        return Some(Description::new(name, what).markdown());
    }
    keyword(name).map(|what| Description::new(name, what).markdown())
}

/// Returns the documentation of a keyword.
pub fn keyword(word: &str) -> Option<&'static str> {
    let known = KEYWORDS.iter().any(|(k, _)| *k == word) || CONTEXTUAL.contains(&word);
    known.then_some(match word {
        "kernel" => {
            "A function that many threads run: `kernel name(x: [f32; N], out y: [f32; N]) threads(i: N) { … }`."
        }
        "fn" => "A function, for kernels and scripts alike: `fn name(x: f32) -> f32 { … }`.",
        "struct" => "Named fields: `struct Body { place: f32x3, mass: f32 }`.",
        "const" => "A constant: `const WIDTH: i32 = 32`; in `<…>` a constant parameter.",
        "let" => "A name for a value, for good.",
        "var" => "A variable that can be assigned to.",
        "shared" => "Memory that the threads of a block share: `shared tile: [f32; 16, 16]`.",
        "if" | "else" => "`if a { … } else { … }`, also as a value.",
        "for" | "in" => "`for i in a..b step s { … }`, or over a fixed array.",
        "while" => "`while condition { … }`",
        "loop" => "Again and again, until `break`.",
        "break" => "Leaves the innermost loop.",
        "continue" => "Goes on with the next turn of the innermost loop.",
        "return" => "Leaves the function, with its value.",
        "import" | "as" => "`import std.linalg`, `import std.nn.{relu}`, `import \"./shapes.clk\" as shapes`",
        "test" => "`test \"name\" { assert(…) }`, run by `clk test`.",
        "bench" => "`bench \"name\" bytes = … { … }`, timed by `clk bench`.",
        "out" => "An array that the kernel writes and does not read before; left off at the launch, it is returned.",
        "inout" => "An array (or value) that is read and changed for the caller.",
        "true" | "false" => "A truth value.",
        "threads" => "`threads(row: M, col: N)` runs the body once for every index; the last name varies fastest.",
        "grid" => "`grid(x, y, z) block(x, y, z)`: how many blocks there are, in CUDA's order.",
        "block" => "How many threads a block has.",
        "step" => "`a..b step s`",
        "on" => "`on sim { … }` or `on gpu(0) { … }`: where launches inside run.",
        "assume" => {
            "What launches of a kernel have in common, behind its geometry: `assume N > 0, all(at >= 0), all(at < N)`; of arrays of \
             integers also `ascending(x)`, `distinct(x)`, `permutation(x)`. Conditions are tested at every launch, promises about \
             arrays with `--check`; `clk prove` rests on both."
        }
        "expect" => {
            "What `clk check` has to prove of a kernel, behind its geometry: `expect in_bounds, race_free, written, barriers, no_overflow, \
             any_order`, and limits of what a warp pays for an access: `bank_ways <= 1`, `sectors <= 4`. What is refuted is an error, what is not proved a warning; `clk test` tests it. \
             `max_ulp <= 2` is always tested: how far floats are from those of the same kernel in `f64`."
        }
        "tune" => {
            "Values of a kernel's constants to choose from, behind its geometry: `tune BM in [64, 128], STAGES in [3, 4, 5]`. `clk tune` measures \
             those that meet the conditions of `assume`, and writes the choice to a file beside the source; without it, the defaults are taken. \
             `clk test --tunings` shows that results do not depend on the choice."
        }
        "batch" => "`batch { … }` groups launches: a GPU starts those that come again as one graph.",
        "time" => "`time { … }` measures: median and spread, in seconds.",
        _ => "A word of the language.",
    })
}
