//! Resolves syntactic types to checked types, including dimensions.

use std::sync::Arc;

use crate::base::diag::{Applicability, Diagnostic};
use crate::base::source::Span;
use crate::check::cx::{Cx, Home, Meaning, Slot, prelude, with_foreign};
use crate::check::infer::{Kind, array};
use crate::check::typed::*;
use crate::check::{eval, foreign, suggest};
use crate::lang::scalar::Scalar;
use crate::syntax::ast::{self, TypeKind};

/// The context of an array type, which determines what its dimensions may be.
pub(crate) enum Dims<'m> {
    /// A signature: undefined names declare dimensions, expressions are kept in `exprs`.
    Signature { dims: &'m mut Vec<DimName>, exprs: &'m mut Vec<Arc<Expr>> },
    /// A `shared` or local array: the extent of every axis is kept as an expression.
    Extents(&'m mut Vec<Expr>),
    /// A type annotation on the host, where an undefined name is any extent. Extents that are not known numbers are kept.
    Free(&'m mut Vec<Extent>),
}

impl Cx<'_> {
    pub fn ty(&mut self, t: &ast::Type, dims: &mut Dims<'_>) -> Type {
        self.depth += 1;
        let ty = if self.depth > 200 { Type::Error } else { self.ty_inner(t, dims) };
        self.depth -= 1;
        ty
    }

    fn ty_inner(&mut self, t: &ast::Type, dims: &mut Dims<'_>) -> Type {
        match &t.kind {
            TypeKind::Name(path) => self.named_type(path, t.span),
            TypeKind::Array { element, dims: extents } => {
                let element = self.ty(element, dims);
                if element == Type::Str {
                    return self.texts_type(extents, t.span);
                }
                let element = self.element_type(element, t.span);
                let axes: Vec<Dim> = extents.iter().map(|d| self.dim(d, dims)).collect();
                if element == Type::Error { Type::Error } else { array(element, axes) }
            }
            TypeKind::Tuple(parts) if parts.is_empty() => Type::Unit,
            TypeKind::Tuple(parts) => Type::Tuple(parts.iter().map(|p| self.ty(p, dims)).collect()),
            TypeKind::Fn { params, result } => {
                let params = params.iter().map(|p| self.ty(p, dims)).collect();
                let result = result.as_ref().map_or(Type::Unit, |r| self.ty(r, dims));
                Type::Fn(Arc::new(FnType { params, result }))
            }
            TypeKind::Placed { ty, place } => {
                let d = Diagnostic::error("E0411", "a type can't pin where an array lives yet")
                    .at(place.span, "this placement is not supported")
                    .help("leave it off: arrays move to where they are used");
                self.report(d);
                self.ty(ty, dims)
            }
        }
    }

    /// Resolves `[str; _]`: the number of strings is not part of the type.
    fn texts_type(&mut self, extents: &[ast::Expr], span: Span) -> Type {
        if let [ast::Expr { kind: ast::ExprKind::Name(name), .. }] = extents
            && name.text == "_"
        {
            return Type::Strings;
        }
        let d = Diagnostic::error("E0316", "how many texts an array has is no part of its type")
            .at(span, "an array of texts has one axis of any length");
        self.report(d.fix("write `[str; _]`", span, "[str; _]", Applicability::MachineApplicable));
        Type::Strings
    }

    /// Resolves a path of names to a type, or `Error` after a report.
    pub fn named_type(&mut self, path: &[ast::Name], span: Span) -> Type {
        let Some((name, before)) = path.split_last() else { return Type::Error };
        let meaning = if before.is_empty() {
            self.lookup(&name.text)
        } else {
            let Some(module) = self.module_path(before) else { return Type::Error };
            self.program.modules.get(module).and_then(|m| m.names.get(&name.text)).map(|b| Meaning::Item(*b))
        };
        match meaning {
            Some(Meaning::Type(ty)) => ty,
            Some(Meaning::Slot(Slot::TypeParam(i))) => Type::Param(i),
            Some(Meaning::Item(Binding::Struct(id))) => Type::Struct(id),
            Some(Meaning::Item(Binding::Error)) => Type::Error,
            Some(_) => {
                let mut d = Diagnostic::error("E0207", format!("`{}` is not a type", name.text))
                    .at(span, "a type was expected here");
                if matches!(prelude(&name.text), Some(Meaning::Type(_))) {
                    d = d.help(format!(
                        "something here is named `{0}`, as the type is: give it another name",
                        name.text
                    ));
                }
                self.report(d);
                Type::Error
            }
            None => {
                self.unknown_type(name);
                Type::Error
            }
        }
    }

    /// Resolves a path of names to a module.
    pub fn module_path(&mut self, path: &[ast::Name]) -> Option<ModuleId> {
        let (first, rest) = path.split_first()?;
        let mut module = match self.lookup(&first.text) {
            Some(Meaning::Item(Binding::Module(id))) => id,
            Some(Meaning::Item(Binding::Error)) => return None,
            Some(_) => {
                let d = Diagnostic::error("E0207", format!("`{}` is not a module", first.text))
                    .at(first.span, "a module was expected here");
                self.report(d);
                return None;
            }
            None => {
                self.unknown_name(first);
                return None;
            }
        };
        for name in rest {
            match self.program.modules.get(module).and_then(|m| m.names.get(&name.text)) {
                Some(Binding::Module(id)) => module = *id,
                _ => {
                    self.unknown_name(name);
                    return None;
                }
            }
        }
        Some(module)
    }

    fn unknown_type(&mut self, name: &ast::Name) {
        let word = name.text.as_str();
        let mut d = Diagnostic::error("E0204", format!("there is no type `{word}`")).at(name.span, "unknown type");
        if let Some(foreign) = foreign::type_name(word) {
            d = with_foreign(d, name.span, &foreign);
        } else {
            let near = suggest::nearest(word, self.type_names().into_iter()).map(str::to_owned);
            if let Some(near) = near {
                d = d.help(format!("did you mean `{near}`?"));
                d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
            }
        }
        self.report(d);
    }

    fn type_names(&self) -> Vec<&str> {
        let own = self.names.iter().filter(|(_, s)| matches!(s, Slot::TypeParam(_))).map(|(n, _)| n.as_str());
        let items = self.module.names.iter().filter(|(_, b)| matches!(b, Binding::Struct(_))).map(|(n, _)| n.as_str());
        own.chain(items).chain(Scalar::ALL.iter().map(|s| s.name())).collect()
    }

    fn element_type(&mut self, element: Type, span: Span) -> Type {
        match element {
            Type::Scalar(_) | Type::Vector(..) | Type::Param(_) | Type::Struct(_) | Type::Tuple(_) | Type::Error => {
                match self.is_element(&element, span) {
                    Ok(()) => element,
                    Err(_) => Type::Error,
                }
            }
            other => {
                let text = self.ty_text(&other);
                let mut d = Diagnostic::error("E0316", format!("an array can't have elements of type `{text}`"))
                    .at(span, "elements are scalars, vectors, structs or tuples");
                if matches!(other, Type::Array(_)) {
                    d = d.help("write the dimensions side by side: `[f32; M, N]`");
                }
                self.report(d);
                Type::Error
            }
        }
    }

    fn dim(&mut self, e: &ast::Expr, dims: &mut Dims<'_>) -> Dim {
        if let ast::ExprKind::Name(name) = &e.kind
            && let Some(dim) = self.dim_name(name, dims)
        {
            return dim;
        }
        let int = Type::Scalar(Scalar::I32);
        let value = self.expr(e, Some(&int));
        self.require_kind(&value, Kind::Int, "a dimension");
        let known = eval::int(self, &value);
        if let Some(n) = known {
            self.check_extent(n, e.span);
        }
        match dims {
            Dims::Signature { exprs, .. } => match known {
                Some(n) => Dim::Known(n),
                None if matches!(value.kind, ExprKind::Error) => Dim::Unknown,
                None => {
                    let mut value = value;
                    crate::check::finish::expr(self, &mut value);
                    exprs.push(Arc::new(value));
                    Dim::Expr(exprs.len() as u32 - 1)
                }
            },
            Dims::Extents(extents) => {
                let dim = match (known, &value.kind) {
                    (Some(n), _) => Dim::Known(n),
                    (None, ExprKind::Dim(i)) => Dim::Name(*i),
                    (None, _) => Dim::Local(extents.len() as u32),
                };
                extents.push(value);
                dim
            }
            Dims::Free(extents) => match (known, &value.kind) {
                (Some(n), _) => Dim::Known(n),
                (None, ExprKind::Dim(i)) => Dim::Name(*i),
                (None, ExprKind::Error) => Dim::Unknown,
                (None, _) => {
                    extents.push(Extent::Is(value));
                    Dim::Local(extents.len() as u32 - 1)
                }
            },
        }
    }

    /// Resolves a dimension that is a bare name; none if the name is an ordinary value, to be checked as an expression.
    fn dim_name(&mut self, name: &ast::Name, dims: &mut Dims<'_>) -> Option<Dim> {
        let known = self.names.get(name.text.as_str()).copied();
        let is_const = matches!(self.module.names.get(name.text.as_str()), Some(Binding::Const(_) | Binding::Error));
        match (dims, known) {
            (_, Some(Slot::TypeParam(_) | Slot::FnParam(_))) => None,
            (Dims::Signature { .. }, Some(Slot::Dim(i))) => Some(Dim::Name(i)),
            (Dims::Signature { .. }, Some(_)) => None,
            (Dims::Signature { dims, .. }, None) if name.text == "_" => {
                dims.push(DimName { name: name.text.clone(), span: name.span, of_result: false });
                Some(Dim::Name(dims.len() as u32 - 1))
            }
            (Dims::Signature { dims, .. }, None) if !is_const => {
                dims.push(DimName { name: name.text.clone(), span: name.span, of_result: false });
                let i = dims.len() as u32 - 1;
                self.bind(name.text.clone(), Slot::Dim(i));
                Some(Dim::Name(i))
            }
            (Dims::Free(_), None) if name.text == "_" => Some(Dim::Unknown),
            (Dims::Free(extents), None)
                if !is_const && !self.is_global(&name.text) && !self.is_unseen_variable(&name.text) =>
            {
                let same = |e: &Extent| matches!(e, Extent::Named(known) if *known == name.text);
                let at = extents.iter().position(same).unwrap_or_else(|| {
                    extents.push(Extent::Named(name.text.clone()));
                    extents.len() - 1
                });
                Some(Dim::Local(at as u32))
            }
            _ => None,
        }
    }

    /// Whether a name is that of a variable which this place, a constant or a field's type, does not see.
    pub fn is_unseen_variable(&self, name: &str) -> bool {
        matches!(self.home, Home::Const | Home::Signature)
            && self.script_names.is_some_and(|names| names.contains_key(name))
    }

    fn is_global(&self, name: &str) -> bool {
        matches!(self.module.names.get(name), Some(Binding::Global(_)))
    }

    fn check_extent(&mut self, n: i64, span: Span) {
        if n < 0 || n > i64::from(i32::MAX) {
            let d = Diagnostic::error("E0316", format!("an array can't have a dimension of {n}"))
                .at(span, "a dimension is from 0 to 2147483647");
            self.report(d);
        }
    }
}
