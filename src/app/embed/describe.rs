//! What can be called in a program: kernels and functions of its main module, with what a caller has to know of their signatures.

use crate::app::launch::form::Item;
use crate::check::show::Show;
use crate::check::typed::{Access, Binding, GenericKind, Kernel, Param, Program, Signature, Type, World};
use crate::compile::Session;
use crate::host::array::Element;
use crate::host::interp::Interpreter;

/// A kernel or a function.
#[derive(Clone, Debug)]
pub struct Callable {
    pub name: String,
    pub is_kernel: bool,
    /// Its documentation comment.
    pub doc: Option<String>,
    /// Its head as in the source, up to the body.
    pub head: String,
    pub params: Vec<Parameter>,
    pub dims: Vec<String>,
    /// Compile-time parameters: name, and `type`, `const` or `fn`.
    pub generics: Vec<(String, &'static str)>,
    /// The type of a function's result.
    pub result: Option<String>,
    pub(super) item: Item,
}

/// A parameter.
#[derive(Clone, Debug)]
pub struct Parameter {
    pub name: String,
    pub access: Access,
    pub kind: Kind,
    /// Its default as in the source.
    pub default: Option<String>,
    /// Its type as in the source.
    pub text: String,
}

/// What a parameter takes. An element is absent where it is a type parameter, whose position is given.
#[derive(Clone, Debug)]
pub enum Kind {
    Array {
        element: Result<Element, usize>,
        rank: usize,
    },
    Value(Result<Element, usize>),
    Text,
    Texts,
    /// A type of which callers cannot make values.
    Other,
}

/// Returns the callables of a program's main module, in the order of the source.
pub(in crate::app) fn callables(session: &Session, interpreter: &mut Interpreter) -> Vec<Callable> {
    let program = &session.program;
    let main = session.main.and_then(|main| program.modules.get(main));
    let mut found: Vec<(u32, Callable)> = Vec::new();
    for (name, binding) in main.into_iter().flat_map(|module| &module.names) {
        let callable = match *binding {
            Binding::Kernel(id) => of_kernel(session, interpreter, name, &program.kernels[id], Item::Kernel(id)),
            Binding::Fn(id) if program.fns[id].world != World::Device => {
                let function = &program.fns[id];
                let parts = Parts { sig: &function.sig, doc: &function.doc, span: function.span };
                let result = (function.result != Type::Unit).then(|| show(program, &function.sig).ty(&function.result));
                let callable = of_parts(session, interpreter, name, parts, Item::Function(id));
                Callable { result, ..callable }
            }
            _ => continue,
        };
        let span = match callable.item {
            Item::Kernel(id) => program.kernels[id].span,
            Item::Function(id) => program.fns[id].span,
        };
        found.push((span.start, callable));
    }
    found.sort_by_key(|(start, _)| *start);
    found.into_iter().map(|(_, callable)| callable).collect()
}

fn of_kernel(session: &Session, interp: &mut Interpreter, name: &str, kernel: &Kernel, item: Item) -> Callable {
    let parts = Parts { sig: &kernel.sig, doc: &kernel.doc, span: kernel.span };
    Callable { is_kernel: true, ..of_parts(session, interp, name, parts, item) }
}

/// What kernels and functions have in common.
struct Parts<'a> {
    sig: &'a Signature,
    doc: &'a Option<String>,
    span: crate::base::source::Span,
}

fn of_parts(session: &Session, interp: &mut Interpreter, name: &str, parts: Parts<'_>, item: Item) -> Callable {
    let sig = parts.sig;
    let head = session.sources.slice(parts.span).split('{').next().unwrap_or(name);
    let generics = sig.generics.iter().map(|generic| {
        let word = match generic.kind {
            GenericKind::Type { .. } => "type",
            GenericKind::Const { .. } => "const",
            GenericKind::Fn { .. } => "fn",
        };
        (generic.name.to_string(), word)
    });
    Callable {
        name: name.to_string(),
        is_kernel: false,
        doc: parts.doc.clone(),
        head: head.split_whitespace().collect::<Vec<_>>().join(" "),
        params: sig.params.iter().map(|param| parameter(session, interp, sig, param)).collect(),
        dims: sig.dims.iter().filter(|dim| !dim.of_result).map(|dim| dim.name.to_string()).collect(),
        generics: generics.collect(),
        result: None,
        item,
    }
}

fn show<'a>(program: &'a Program, sig: &'a Signature) -> Show<'a> {
    Show { program, sig: Some(sig), vars: None }
}

/// Returns the type of a parameter as it is written.
fn written_type(session: &Session, param: &Param) -> Option<String> {
    let text = session.sources.slice(param.span).split_once(':')?.1;
    let text = text.split('=').next().unwrap_or(text).trim();
    (!text.is_empty()).then(|| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the source text of a default.
fn written_default(session: &Session, param: &Param) -> String {
    let text = session.sources.slice(param.span);
    let default = text.split_once(':').and_then(|(_, typed)| typed.split_once('='));
    default.map_or_else(|| "...".into(), |(_, default)| default.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn parameter(session: &Session, interp: &mut Interpreter, sig: &Signature, param: &Param) -> Parameter {
    let program = &session.program;
    let mut element = |ty: &Type| match ty {
        Type::Param(generic) => Some(Err(*generic as usize)),
        Type::Tuple(parts) if parts.iter().any(|part| matches!(part, Type::Param(_))) => None,
        Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) => Some(Ok(interp.element(program, ty))),
        _ => None,
    };
    let kind = match &param.ty {
        Type::Array(array) => element(&array.element).map(|element| Kind::Array { element, rank: array.dims.len() }),
        Type::Str => Some(Kind::Text),
        Type::Strings => Some(Kind::Texts),
        ty => element(ty).map(Kind::Value),
    };
    Parameter {
        name: param.name.to_string(),
        access: param.access,
        kind: kind.unwrap_or(Kind::Other),
        default: param.default.as_ref().map(|_| written_default(session, param)),
        text: written_type(session, param).unwrap_or_else(|| show(program, sig).ty(&param.ty)),
    }
}
