//! Describes those kernels and functions of a program's main module that other languages can call.

use crate::launch::compiled_launch::CallableItem;
use clk_check::format_types::Show;
use clk_check::typed::{Access, ExecutionSpace, GenericKind, Kernel, NameBinding, Param, Program, Signature, Type};
use clk_compile::Session;
use clk_host::array::ElementType;
use clk_host::interp::Interpreter;

/// A kernel or function that other languages can call.
#[derive(Clone, Debug)]
pub struct Callable {
    pub name: String,
    pub is_kernel: bool,
    /// The documentation comment.
    pub doc: Option<String>,
    /// The signature as the source has it, up to the body.
    pub head: String,
    pub params: Vec<ParamDescription>,
    pub dims: Vec<String>,
    /// The compile-time parameters: the name, and `type`, `const` or `fn`.
    pub generics: Vec<(String, &'static str)>,
    /// The result type of a function.
    pub result: Option<String>,
    pub(super) item: CallableItem,
}

/// A parameter of a callable.
#[derive(Clone, Debug)]
pub struct ParamDescription {
    pub name: String,
    pub access: Access,
    pub kind: ParamKind,
    /// The default value, as the source has it.
    pub default: Option<String>,
    /// The type, as the source has it.
    pub text: String,
}

/// Which arguments a parameter accepts. If the element type is a type parameter, `Err` is the index of that type
/// parameter.
#[derive(Clone, Debug)]
pub enum ParamKind {
    Array {
        element: Result<ElementType, usize>,
        rank: usize,
    },
    Value(Result<ElementType, usize>),
    Text,
    Texts,
    /// A type whose values other languages cannot construct.
    Other,
}

/// Returns the callables of a program's main module, in source order.
pub(crate) fn callables(session: &Session, interpreter: &mut Interpreter) -> Vec<Callable> {
    let program = &session.program;
    let main = session.main.and_then(|main| program.modules.get(main));
    let mut callables: Vec<(u32, Callable)> = Vec::new();
    for (name, binding) in main.into_iter().flat_map(|module| &module.names) {
        let callable = match *binding {
            NameBinding::Kernel(id) => {
                of_kernel(session, interpreter, name, &program.kernels[id], CallableItem::Kernel(id))
            }
            NameBinding::Fn(id) if program.fns[id].space != ExecutionSpace::Device => {
                let function = &program.fns[id];
                let parts = CallableParts { sig: &function.sig, doc: &function.doc, span: function.span };
                let result =
                    (function.result != Type::Unit).then(|| type_printer(program, &function.sig).ty(&function.result));
                let callable = of_parts(session, interpreter, name, parts, CallableItem::Function(id));
                Callable { result, ..callable }
            }
            _ => continue,
        };
        let span = match callable.item {
            CallableItem::Kernel(id) => program.kernels[id].span,
            CallableItem::Function(id) => program.fns[id].span,
        };
        callables.push((span.start, callable));
    }
    callables.sort_by_key(|(start, _)| *start);
    callables.into_iter().map(|(_, callable)| callable).collect()
}

fn of_kernel(session: &Session, interp: &mut Interpreter, name: &str, kernel: &Kernel, item: CallableItem) -> Callable {
    let parts = CallableParts { sig: &kernel.sig, doc: &kernel.doc, span: kernel.span };
    Callable { is_kernel: true, ..of_parts(session, interp, name, parts, item) }
}

/// Those properties that kernels and functions have in common.
struct CallableParts<'a> {
    sig: &'a Signature,
    doc: &'a Option<String>,
    span: clk_base::source::Span,
}

fn of_parts(
    session: &Session,
    interp: &mut Interpreter,
    name: &str,
    parts: CallableParts<'_>,
    item: CallableItem,
) -> Callable {
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

fn type_printer<'a>(program: &'a Program, sig: &'a Signature) -> Show<'a> {
    Show { program, sig: Some(sig), vars: None }
}

/// Returns the type of a parameter, as the source has it.
fn written_type(session: &Session, param: &Param) -> Option<String> {
    let text = session.sources.slice(param.span).split_once(':')?.1;
    let text = text.split('=').next().unwrap_or(text).trim();
    (!text.is_empty()).then(|| text.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Returns the default value of a parameter, as the source has it.
fn written_default(session: &Session, param: &Param) -> String {
    let text = session.sources.slice(param.span);
    let default = text.split_once(':').and_then(|(_, typed)| typed.split_once('='));
    default.map_or_else(|| "...".into(), |(_, default)| default.split_whitespace().collect::<Vec<_>>().join(" "))
}

fn parameter(session: &Session, interp: &mut Interpreter, sig: &Signature, param: &Param) -> ParamDescription {
    let program = &session.program;
    let mut element = |ty: &Type| match ty {
        Type::Param(generic) => Some(Err(*generic as usize)),
        Type::Tuple(parts) if parts.iter().any(|part| matches!(part, Type::Param(_))) => None,
        Type::Scalar(_) | Type::Vector(..) | Type::Struct(_) | Type::Tuple(_) => Some(Ok(interp.element(program, ty))),
        _ => None,
    };
    let kind = match &param.ty {
        Type::Array(array) => {
            element(&array.element).map(|element| ParamKind::Array { element, rank: array.dims.len() })
        }
        Type::Str => Some(ParamKind::Text),
        Type::Strings => Some(ParamKind::Texts),
        ty => element(ty).map(ParamKind::Value),
    };
    ParamDescription {
        name: param.name.to_string(),
        access: param.access,
        kind: kind.unwrap_or(ParamKind::Other),
        default: param.default.as_ref().map(|_| written_default(session, param)),
        text: written_type(session, param).unwrap_or_else(|| type_printer(program, sig).ty(&param.ty)),
    }
}
