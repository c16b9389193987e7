//! `clk emit`: what a program is at each stage of the compiler.

use std::path::Path;

use super::Context;
use super::args::Stage;
use crate::app::script::{self, Compiled};
use crate::app::{disk, exit, names};
use crate::base::source::Sources;
use crate::check::typed::{Bound, ExprKind, FnRef, Generic, GenericKind, Kernel, KernelId, Type};
use crate::compile::Session;
use crate::device::cuda::text::cuda_text;
use crate::ir::Prepared;
use crate::lang::scalar::{Scalar, Value};
use crate::lower::{Argument, Function, Instance};
use crate::{check, ir, lower, pass, syntax};

pub fn file(path: &Path, stage: Stage, kernel: Option<&str>, lines: bool, context: &mut Context) -> u8 {
    let options = context.text.clone();
    let done = match stage {
        Stage::Ast => ast(path, context),
        Stage::Typed => typed(path, context),
        Stage::Ir => kernels(path, kernel, context, &|prepared, _| ir::text::print(&prepared.module)),
        Stage::Cuda => kernels(path, kernel, context, &|prepared, session| {
            cuda_text(prepared, &options, lines.then_some(&session.sources)).text
        }),
    };
    context.console.summary();
    if done.is_some() { exit::OK } else { exit::FAILURE }
}

/// The tree is shown even after mistakes: it has nodes for them.
fn ast(path: &Path, context: &mut Context) -> Option<()> {
    let mut sources = Sources::default();
    let text = match disk::read_source(path) {
        Ok(text) => text,
        Err(why) => {
            context.console.report(&disk::unreadable(path, &why), &sources);
            return None;
        }
    };
    let file = sources.add(path.display().to_string(), text.as_str());
    let (tree, diagnostics) = syntax::parse(file, &text);
    context.console.print(&syntax::dump(&tree));
    context.console.report_all(&diagnostics, &sources);
    (!diagnostics.iter().any(|d| d.is_error())).then_some(())
}

fn typed(path: &Path, context: &mut Context) -> Option<()> {
    let Compiled { session, .. } = script::compile_file(path, &mut context.console)?;
    let text = check::dump(&session.program, session.main?);
    context.console.print(&text);
    Some(())
}

/// What a prepared kernel is shown as.
type Shown<'a> = &'a dyn Fn(&Prepared, &Session) -> String;

fn kernels(path: &Path, kernel: Option<&str>, context: &mut Context, shown: Shown<'_>) -> Option<()> {
    let Compiled { session, .. } = script::compile_file(path, &mut context.console)?;
    let own: Vec<(KernelId, &Kernel)> =
        session.program.kernels.iter().filter(|(_, k)| Some(k.module) == session.main).collect();
    let wanted: Vec<_> = own.iter().filter(|(_, k)| kernel.is_none_or(|name| k.name == name)).collect();
    if let (Some(name), true) = (kernel, wanted.is_empty()) {
        let help = names::did_you_mean(name, own.iter().map(|(_, k)| k.name.as_str()))
            .map(|meant| format!("\n  Help: {meant}"))
            .unwrap_or_default();
        context.console.error_line(&format!("error: `{}` has no kernel `{name}`{help}", path.display()));
        return None;
    }
    let mut whole = Some(());
    for (id, kernel) in wanted {
        if one_kernel(*id, kernel, &session, context, shown).is_none() {
            whole = None;
        }
    }
    whole
}

fn one_kernel(id: KernelId, kernel: &Kernel, session: &Session, context: &mut Context, shown: Shown<'_>) -> Option<()> {
    let name = &kernel.name;
    let Some(arguments) = kernel.sig.generics.iter().map(stand_in).collect::<Option<Vec<_>>>() else {
        let text = format!("// kernel {name}: left out, since a compile-time parameter of it has no default");
        context.console.line(&text);
        return Some(());
    };
    let module = match lower::lower(&session.program, &Instance { kernel: id, arguments }) {
        Ok(module) => module,
        Err(diagnostics) => {
            context.console.report_all(&diagnostics, &session.sources);
            return None;
        }
    };
    match pass::prepare(module) {
        Ok(prepared) => {
            context.console.print(&shown(&prepared, session));
            Some(())
        }
        Err(fault) => {
            context.console.error_line(&format!("error: internal error while `{name}` was prepared: {fault}"));
            None
        }
    }
}

/// An argument for a compile-time parameter that nobody gave: its default, or a usual type.
fn stand_in(generic: &Generic) -> Option<Argument> {
    match &generic.kind {
        GenericKind::Type { bound: Bound::Int } => Some(Argument::Type(Type::Scalar(Scalar::I32))),
        GenericKind::Type { bound: Bound::Any | Bound::Num | Bound::Float } => {
            Some(Argument::Type(Type::Scalar(Scalar::F32)))
        }
        GenericKind::Const { ty: Type::Scalar(ty), default: Some(value) } => match value.kind {
            ExprKind::Int(value) if ty.is_int() => {
                let mask = u64::MAX >> (64 - ty.bits());
                Some(Argument::Const(Value { ty: *ty, bits: value as u64 & mask }))
            }
            ExprKind::Bool(value) => Some(Argument::Const(Value { ty: Scalar::Bool, bits: value.into() })),
            _ => None,
        },
        GenericKind::Const { .. } => None,
        GenericKind::Fn { default: Some(FnRef::Builtin(builtin)), .. } => {
            Some(Argument::Fn(Function::Builtin(*builtin)))
        }
        GenericKind::Fn { default: Some(FnRef::Fn { id, generics }), .. } if generics.is_empty() => {
            Some(Argument::Fn(Function::Fn { id: *id, arguments: vec![] }))
        }
        GenericKind::Fn { .. } => None,
    }
}
