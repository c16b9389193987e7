//! Resolves syntactic types to checked types, including dimensions.

use std::sync::Arc;

use crate::context::{BodyKind, Cx, ResolvedName, prelude};
use crate::foreign_names::{self, ForeignUse};
use crate::infer::{TypeClass, array};
use crate::scopes::LocalMeaning;
use crate::typed::*;
use crate::{const_eval, suggestions};
use clk_base::diag::{Applicability, Diagnostic};
use clk_base::source::Span;
use clk_scalar::Scalar;
use clk_syntax::ast::{self, TypeKind};

/// The context of an array type, which determines the allowed kinds of dimensions.
pub(crate) enum DimContext<'m> {
    /// A signature. Undefined names declare dimensions, and dimension expressions are appended to `exprs`.
    Signature { dims: &'m mut Vec<DimName>, exprs: &'m mut Vec<Arc<Expr>> },
    /// A `shared` or local array. The extents of all axes are appended as expressions.
    Extents(&'m mut Vec<Expr>),
    /// A type annotation on the host. An undefined name can be any extent. Extents that are not known numbers are
    /// appended.
    Free(&'m mut Vec<DeclaredExtent>),
}

/// Returns `[T; N, M]` for the type `[[T; M]; N]`, if its dimensions are names and numbers.
fn nested_array(element: &ast::Type, extents: &[ast::Expr]) -> Option<String> {
    let dim = |e: &ast::Expr| match &e.kind {
        ast::ExprKind::Name(name) => Some(name.text.to_string()),
        ast::ExprKind::Int { value, suffix: None } => Some(value.to_string()),
        _ => None,
    };
    let mut dims = extents.iter().map(dim).collect::<Option<Vec<String>>>()?;
    let mut element = element;
    let mut is_nested = false;
    loop {
        match &element.kind {
            TypeKind::Array { element: inner, dims: extents } => {
                dims.extend(extents.iter().map(dim).collect::<Option<Vec<String>>>()?);
                (element, is_nested) = (&**inner, true);
            }
            TypeKind::Name(path) if is_nested => {
                let path: Vec<&str> = path.iter().map(|name| name.text.as_str()).collect();
                return Some(format!("[{}; {}]", path.join("."), dims.join(", ")));
            }
            _ => return None,
        }
    }
}

impl Cx<'_> {
    pub fn ty(&mut self, t: &ast::Type, dims: &mut DimContext<'_>) -> Type {
        self.depth += 1;
        let ty = if self.depth > 200 { Type::Error } else { self.ty_inner(t, dims) };
        self.depth -= 1;
        ty
    }

    fn ty_inner(&mut self, t: &ast::Type, dims: &mut DimContext<'_>) -> Type {
        match &t.kind {
            TypeKind::Name(path) => self.named_type(path, t.span),
            TypeKind::Array { element, dims: extents } => {
                let nested = nested_array(element, extents);
                let element = self.ty(element, dims);
                if element == Type::Str {
                    return self.texts_type(extents, t.span);
                }
                let element = self.element_type(element, t.span, nested);
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
        let d = Diagnostic::error("E0316", "the number of texts in an array is not part of its type")
            .at(span, "an array of texts has one axis of any length");
        self.report(d.fix("write `[str; _]`", span, "[str; _]", Applicability::MachineApplicable));
        Type::Strings
    }

    /// Resolves a path of names to a type. Reports an error and returns `Type::Error` if there is no such type.
    pub fn named_type(&mut self, path: &[ast::Name], span: Span) -> Type {
        let Some((name, before)) = path.split_last() else { return Type::Error };
        let meaning = if before.is_empty() {
            self.resolve(name)
        } else {
            if self.foreign_type(path).is_some() {
                return Type::Error;
            }
            let Some(module) = self.module_path(before) else { return Type::Error };
            let member = self.program.modules.get(module).and_then(|m| m.names.get(&name.text)).copied();
            member.inspect(|binding| self.record_member(name, *binding)).map(ResolvedName::Item)
        };
        match meaning {
            Some(ResolvedName::Type(ty)) => ty,
            Some(ResolvedName::Slot(LocalMeaning::TypeParam(i))) => Type::Param(i),
            Some(ResolvedName::Item(NameBinding::Struct(id))) => Type::Struct(id),
            Some(ResolvedName::Item(NameBinding::Error)) => Type::Error,
            Some(_) => {
                let mut d = Diagnostic::error("E0207", format!("`{}` is not a type", name.text))
                    .at(span, "a type was expected here");
                if matches!(prelude(&name.text), Some(ResolvedName::Type(_))) {
                    d = d.help(format!("an item here has the same name as the type `{0}`: rename it", name.text));
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
        let mut module = match self.resolve(first) {
            Some(ResolvedName::Item(NameBinding::Module(id))) => id,
            Some(ResolvedName::Item(NameBinding::Error)) => return None,
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
                Some(NameBinding::Module(id)) => {
                    self.record_member(name, NameBinding::Module(*id));
                    module = *id;
                }
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
        if let Some(row) = clk_scalar::foreign_names::find_type(word) {
            d = foreign_names::explain(d, &row, &ForeignUse { name: word, span: name.span, call: None });
        } else {
            let near = suggestions::nearest(word, self.type_names().into_iter()).map(str::to_owned);
            if let Some(near) = near {
                d = d.help(format!("did you mean `{near}`?"));
                d = d.fix(format!("write `{near}`"), name.span, near, Applicability::MaybeIncorrect);
            }
        }
        self.report(d);
    }

    fn type_names(&self) -> Vec<&str> {
        let own = self.scopes.iter().filter(|(_, s)| matches!(s, LocalMeaning::TypeParam(_))).map(|(n, _)| n);
        let items =
            self.module.names.iter().filter(|(_, b)| matches!(b, NameBinding::Struct(_))).map(|(n, _)| n.as_str());
        own.chain(items).chain(Scalar::ALL.iter().map(|s| s.name())).collect()
    }

    fn element_type(&mut self, element: Type, span: Span, nested: Option<String>) -> Type {
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
                    d = match nested {
                        Some(text) => d.fix(format!("write `{text}`"), span, text, Applicability::MachineApplicable),
                        None => d.help("write the dimensions side by side, the outer one first: `[f32; M, N]`"),
                    };
                }
                self.report(d);
                Type::Error
            }
        }
    }

    fn dim(&mut self, e: &ast::Expr, dims: &mut DimContext<'_>) -> Dim {
        if let ast::ExprKind::Name(name) = &e.kind
            && let Some(dim) = self.dim_name(name, dims)
        {
            return dim;
        }
        let int = Type::Scalar(Scalar::I32);
        let value = self.expr(e, Some(&int));
        self.require_kind(&value, TypeClass::Int, "a dimension");
        let extent = const_eval::int(self, &value);
        if let Some(n) = extent {
            self.check_extent(n, e.span);
        }
        match dims {
            DimContext::Signature { exprs, .. } => match extent {
                Some(n) => Dim::Known(n),
                None if matches!(value.kind, ExprKind::Error) => Dim::Unknown,
                None => {
                    let mut value = value;
                    crate::finish::expr(self, &mut value);
                    exprs.push(Arc::new(value));
                    Dim::Expr(exprs.len() as u32 - 1)
                }
            },
            DimContext::Extents(extents) => {
                let dim = match (extent, &value.kind) {
                    (Some(n), _) => Dim::Known(n),
                    (None, ExprKind::Dim(i)) => Dim::Name(*i),
                    (None, _) => Dim::Local(extents.len() as u32),
                };
                extents.push(value);
                dim
            }
            DimContext::Free(extents) => match (extent, &value.kind) {
                (Some(n), _) => Dim::Known(n),
                (None, ExprKind::Dim(i)) => Dim::Name(*i),
                (None, ExprKind::Error) => Dim::Unknown,
                (None, _) => {
                    extents.push(DeclaredExtent::Is(value));
                    Dim::Local(extents.len() as u32 - 1)
                }
            },
        }
    }

    /// Resolves a dimension that is a single name. Returns `None` if the name refers to an ordinary value, which the
    /// caller checks as an expression.
    fn dim_name(&mut self, name: &ast::Name, dims: &mut DimContext<'_>) -> Option<Dim> {
        let meaning = self.scopes.get(&name.text);
        let is_const =
            matches!(self.module.names.get(name.text.as_str()), Some(NameBinding::Const(_) | NameBinding::Error));
        match (dims, meaning) {
            (_, Some(LocalMeaning::TypeParam(_) | LocalMeaning::FnParam(_))) => None,
            (DimContext::Signature { .. }, Some(LocalMeaning::Dim(i))) => {
                self.resolve(name);
                Some(Dim::Name(i))
            }
            (DimContext::Signature { .. }, Some(_)) => None,
            (DimContext::Signature { dims, .. }, None) if name.text == "_" => {
                dims.push(DimName { name: name.text.clone(), span: name.span, of_result: false });
                Some(Dim::Name(dims.len() as u32 - 1))
            }
            (DimContext::Signature { dims, .. }, None) if !is_const => {
                dims.push(DimName { name: name.text.clone(), span: name.span, of_result: false });
                let i = dims.len() as u32 - 1;
                self.scopes.bind(name.text.clone(), LocalMeaning::Dim(i));
                self.record_dim(i as usize, name.span);
                Some(Dim::Name(i))
            }
            (DimContext::Free(_), None) if name.text == "_" => Some(Dim::Unknown),
            (DimContext::Free(extents), None)
                if !is_const && !self.is_global(&name.text) && !self.is_unseen_variable(&name.text) =>
            {
                let same = |e: &DeclaredExtent| matches!(e, DeclaredExtent::Named(meaning) if *meaning == name.text);
                let at = extents.iter().position(same).unwrap_or_else(|| {
                    extents.push(DeclaredExtent::Named(name.text.clone()));
                    extents.len() - 1
                });
                Some(Dim::Local(at as u32))
            }
            _ => None,
        }
    }

    /// Returns whether a name is that of a script variable, which constants and signatures can't use.
    pub fn is_unseen_variable(&self, name: &str) -> bool {
        matches!(self.home, BodyKind::Const | BodyKind::Signature)
            && self.script_names.is_some_and(|names| names.contains_key(name))
    }

    fn is_global(&self, name: &str) -> bool {
        matches!(self.module.names.get(name), Some(NameBinding::Global(_)))
    }

    fn check_extent(&mut self, n: i64, span: Span) {
        if n < 0 || n > i64::from(i32::MAX) {
            let d = Diagnostic::error("E0316", format!("an array can't have a dimension of {n}"))
                .at(span, "a dimension is from 0 to 2147483647");
            self.report(d);
        }
    }
}
