//! Lambdas. A lambda is an object of a class with `operator()`, whose fields are its captures: copies, pointers, and
//! references. The body is translated like that of any other method, so a lambda may be passed to templates.
//!
//! `[&](int i) { sum += x[i]; }` becomes a function with the parameters `inout sum`, `x` and `i`.

use super::lower::{Local, Lower};
use super::order::accesses_of;
use super::place::field_path;
use super::translator::{RecordField, RecordInfo};
use super::tree::{Expr, StmtKind};
use super::types::{CType, ClkScalar, RecordId, TemplateArgs, TemplateValue};
use super::value::{
    Closure, CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey, pointer_field_name,
    refuse,
};
use crate::ast::{CaptureKind, CppExprKind, CppFunction, CppLambda, CppTypeKind, Refusal};
use crate::emit::names::clk_name;
use crate::launches::FunctionScan;
use crate::source::SourceSpan;
use rustc_hash::FxHashSet;
use smol_str::SmolStr;
use std::rc::Rc;

/// The field of a lambda that refers to the object of the method around it.
const OBJECT: &str = "this";

/// The value of a field of a lambda.
enum Captured {
    Value(Value),
    /// A pointer, or a reference as a pointer to its object.
    Pointer(Pointer),
    /// A copy of a struct with pointers, such as another lambda.
    Object(CppPlace),
}

#[derive(Default)]
struct Captures<'a> {
    fields: Vec<(RecordField<'a>, Captured)>,
    /// Names that mean the same in the body as outside of it.
    locals: Vec<(SmolStr, Local)>,
    /// Types of the function around the lambda.
    types: TemplateArgs,
}

impl<'a> Lower<'_, 'a> {
    /// Creates the object of a lambda in a variable, and returns the variable.
    pub(crate) fn lambda(&mut self, lambda: &'a CppLambda, name: &str, span: SourceSpan) -> Res<CppPlace> {
        let Some(call) = lambda.call() else { return refuse("a lambda", span, "") };
        check_signature(call)?;
        let key = self.variables.new_key();
        let captures = self.captures(lambda, call, span)?;
        let id = self.closure_class(lambda, call, &captures, name, span)?;
        let has_values = self.t.has_values(id);
        let clk = if has_values { self.fresh(&format!("{name}_object")) } else { SmolStr::from(name) };
        let mut values = vec![];
        for (field, captured) in captures.fields {
            let path = [field.clk.clone()];
            match captured {
                Captured::Value(value) => values.push((field.clk, super::arith::realize(&value))),
                Captured::Pointer(pointer) => {
                    let pointer_key = self.variables.new_key();
                    let to = pointer.to.clone();
                    let local = SmolStr::from(pointer_field_name(key, &path));
                    self.bind_pointer(&local, pointer_key, &to, Some(pointer), span)?;
                }
                Captured::Object(place) => {
                    self.copy_pointers(&place, key, &path, span)?;
                    let CType::Record(inner) = place.ty else { continue };
                    if self.t.has_values(inner) {
                        values.push((field.clk, self.place_expr(&place, span)?));
                    } else if has_values {
                        values.push((field.clk, self.object_without_values(inner, span)?));
                    }
                }
            }
        }
        let ty = CType::Record(id);
        if has_values {
            self.t.emit_fields(id, span)?;
            let value = self.object(id, values, span);
            let kind = StmtKind::Declare {
                name: clk.clone(),
                mutable: self.is_mutated(key),
                ty: self.t.type_text(&ty),
                value: Some(value.expr),
            };
            self.push(kind, span);
        }
        Ok(CppPlace { kind: PlaceKind::Variable { name: clk, key, value: None }, ty, span })
    }

    /// Declares the captures of a lambda in its body. `object` is the lambda.
    pub(crate) fn declare_captures(&mut self, id: RecordId, object: &CppPlace) -> Res<()> {
        let Some(closure) = self.t.record(id).closure.clone() else { return Ok(()) };
        for (name, local) in &closure.locals {
            self.declare(name, local.clone());
        }
        self.this = None;
        for field in self.t.record(id).fields.clone() {
            let span = object.span;
            let local = match &field.ty {
                CType::Reference(to) | CType::Pointer(to) => {
                    let Some(kind) = self.pointer_field(object, std::slice::from_ref(&field.clk)) else {
                        return refuse(format!("the capture `{}`", field.name), span, "pass it as an argument");
                    };
                    let PlaceKind::PointerVariable(key) = kind else { continue };
                    if let CType::Pointer(_) = field.ty {
                        let found = self.find_local(&pointer_name(object, &field.clk)).cloned();
                        let Some(local) = found else { continue };
                        local
                    } else {
                        let pointer = self.load_pointer(key, to, span)?;
                        match self.object_at(pointer, span)? {
                            Denoted::Place(place) if field.name == OBJECT => {
                                self.this = Some(place);
                                continue;
                            }
                            Denoted::Place(place) => Local::Alias(place),
                            _ => continue,
                        }
                    }
                }
                ty => Local::Alias(self.field_place(object.clone(), field.clk.clone(), ty.clone(), span)?),
            };
            self.declare(&field.name, local);
        }
        Ok(())
    }

    // ---- captures ----

    fn captures(&mut self, lambda: &'a CppLambda, call: &'a CppFunction, span: SourceSpan) -> Res<Captures<'a>> {
        let mut captures = Captures::default();
        let mut names: FxHashSet<SmolStr> =
            call.params.iter().filter_map(|param| Some(param.name.as_ref()?.text.clone())).collect();
        for capture in &lambda.captures {
            let name = &capture.name.text;
            let mark = self.mark();
            let (field, captured) = match (&capture.init, name.as_str()) {
                (_, "*this") => return refuse("a copy of `*this` in a lambda", capture.name.span, "capture `this`"),
                (None, "this") => self.captured_object(capture.name.span)?,
                (Some(init), _) => {
                    let denoted = self.denote(init)?;
                    self.captured(name, denoted, capture.kind, init.span)?
                }
                (None, _) => {
                    let Some(local) = self.find_local(name).cloned() else {
                        return refuse(format!("the capture `{name}`"), capture.name.span, "");
                    };
                    match self.captured_local(name, local, capture.kind, capture.name.span)? {
                        Some(field) => field,
                        None => continue,
                    }
                }
            };
            names.insert(name.clone());
            self.settle_captures(&mut captures, mark);
            captures.fields.push((field, captured));
        }
        let used = used_names(call);
        if let Some(kind) = lambda.default_capture {
            for name in &used.names {
                if names.contains(name) {
                    continue;
                }
                let Some(local) = self.find_local(name).cloned() else { continue };
                let mark = self.mark();
                if let Some(field) = self.captured_local(name, local, kind, span)? {
                    names.insert(name.clone());
                    self.settle_captures(&mut captures, mark);
                    captures.fields.push(field);
                }
            }
            if !names.contains(OBJECT) && self.uses_object(&used) {
                captures.fields.push(self.captured_object(span)?);
            }
        }
        self.declare_uncaptured(&mut captures, &names, &used, span)?;
        Ok(captures)
    }

    /// Stores captured values before the statements of a later capture, which may change them.
    fn settle_captures(&mut self, captures: &mut Captures<'a>, mark: usize) {
        if self.mark() == mark {
            return;
        }
        let mut at = mark;
        for (_, captured) in &mut captures.fields {
            if let Captured::Value(value) = captured
                && !value.stable
            {
                *value = self.spill_at(value.clone(), at);
                at += 1;
            }
        }
    }

    /// Declares the names that the body may use without a capture: constants, types and shared memory. Refuses uses of
    /// the other variables of the function, so that their names do not mean variables of the file.
    fn declare_uncaptured(
        &mut self,
        captures: &mut Captures<'a>,
        names: &FxHashSet<SmolStr>,
        used: &LambdaNames,
        span: SourceSpan,
    ) -> Res<()> {
        let mut visible: Vec<SmolStr> = self.locals.iter().flat_map(|scope| scope.keys().cloned()).collect();
        visible.sort();
        visible.dedup();
        for name in visible {
            if names.contains(&name) || name.starts_with('(') {
                continue;
            }
            let Some(local) = self.find_local(&name).cloned() else { continue };
            if let Some(value) = self.constant_of(&local) {
                captures.locals.push((name, Local::Constant(value)));
                continue;
            }
            let local = match local {
                Local::Type(ty) => {
                    captures.types.push((name, TemplateValue::Type(ty)));
                    continue;
                }
                local if used.names.contains(&name) && is_static(&local, &name) => {
                    if let Some(field) = self.captured_local(&name, local, CaptureKind::Reference, span)? {
                        captures.fields.push(field);
                    }
                    continue;
                }
                local @ (Local::Group(_) | Local::Text(_)) => local,
                Local::Refused(refusal) => Local::Refused(refusal),
                _ => {
                    let construct = format!("`{name}` in a lambda that does not capture it");
                    let help = Some(SmolStr::new_static("capture it, or pass it as an argument"));
                    Local::Refused(Box::new(Refusal { construct: construct.into(), span, help }))
                }
            };
            captures.locals.push((name, local));
        }
        Ok(())
    }

    /// Returns the value of a constant, which the body may use without a capture.
    fn constant_of(&self, local: &Local) -> Option<Value> {
        let value = match local {
            Local::Variable { key, known: Some(known), .. } if self.variables.constants.contains(key) => known,
            Local::Constant(value) => value,
            _ => return None,
        };
        value.constant.is_some().then(|| value.clone())
    }

    /// Captures a variable. `None` if the body may use it without a capture.
    fn captured_local(
        &mut self,
        name: &SmolStr,
        local: Local,
        kind: CaptureKind,
        span: SourceSpan,
    ) -> Res<Option<(RecordField<'a>, Captured)>> {
        let is_static = is_static(&local, name);
        let kind = if is_static { CaptureKind::Reference } else { kind };
        if self.constant_of(&local).is_some() {
            return Ok(None);
        }
        let denoted = match local {
            Local::Group(_) | Local::Type(_) | Local::Text(_) | Local::Refused(_) => return Ok(None),
            local => self.denote_local(local, name, span)?,
        };
        if let (Denoted::Place(CppPlace { kind: PlaceKind::PointerVariable(key), .. }), CaptureKind::Reference) =
            (&denoted, kind)
        {
            self.variables.captured_pointers.push((*key, name.clone()));
        }
        self.captured(name, denoted, kind, span).map(Some)
    }

    /// Returns the field for an object that is captured.
    fn captured(
        &mut self,
        name: &SmolStr,
        denoted: Denoted,
        kind: CaptureKind,
        span: SourceSpan,
    ) -> Res<(RecordField<'a>, Captured)> {
        let field = |ty: CType| RecordField { name: name.clone(), clk: clk_name(name), ty, init: None };
        match denoted {
            Denoted::Place(place) if matches!(place.ty, CType::Pointer(_)) => {
                let pointer = self.pointer_of(Denoted::Place(place), span)?;
                Ok((field(CType::Pointer(Box::new(pointer.to.clone()))), Captured::Pointer(pointer)))
            }
            Denoted::Pointer(pointer) => {
                Ok((field(CType::Pointer(Box::new(pointer.to.clone()))), Captured::Pointer(pointer)))
            }
            Denoted::Place(place) if self.has_pointers(&place.ty) || self.is_pure_closure(&place.ty) => {
                if field_path(&place).is_none() {
                    return refuse(format!("the capture `{name}`"), span, "capture its fields");
                }
                // A copy of a lambda without `mutable` has the same meaning as the original.
                let is_constant = match place.ty {
                    CType::Record(id) => self.t.record(id).closure.as_ref().is_some_and(|own| !own.is_mutable),
                    _ => false,
                };
                if kind == CaptureKind::Reference && !is_constant {
                    let construct = format!("`{name}`, a struct with pointers that a lambda captures by reference");
                    return refuse(construct, span, "capture it by value, or capture its pointers");
                }
                Ok((field(place.ty.clone()), Captured::Object(place)))
            }
            Denoted::Place(mut place) if kind == CaptureKind::Reference => {
                self.fix_place(&mut place);
                let ty = place.ty.clone();
                let pointer = Pointer { to: ty.clone(), ..self.address_of(place, span)? };
                Ok((field(CType::Reference(Box::new(ty))), Captured::Pointer(pointer)))
            }
            Denoted::Place(place) if matches!(place.ty, CType::Array(..)) => {
                refuse(format!("a copy of the array `{name}` in a lambda"), span, "capture it by reference")
            }
            denoted => {
                let value = self.value_of(denoted, span)?;
                let value = self.settle(value);
                let is_stored = matches!(value.ty, CType::Record(_) | CType::Vector(..))
                    || value.ty.is_arithmetic()
                    || matches!(value.ty, CType::FunctionPointer(_));
                if !is_stored {
                    return refuse(format!("the capture `{name}`"), span, "pass it as an argument");
                }
                Ok((field(value.ty.clone()), Captured::Value(value)))
            }
        }
    }

    fn captured_object(&mut self, span: SourceSpan) -> Res<(RecordField<'a>, Captured)> {
        let Some(this) = self.this.clone().filter(|this| !self.has_pointers(&this.ty)) else {
            return refuse("the capture `this`", span, "capture the fields");
        };
        let name = SmolStr::new_static(OBJECT);
        let (_, captured) = self.captured(&name, Denoted::Place(this.clone()), CaptureKind::Reference, span)?;
        let ty = CType::Reference(Box::new(this.ty));
        Ok((RecordField { name, clk: SmolStr::new_static("object"), ty, init: None }, captured))
    }

    fn uses_object(&self, used: &LambdaNames) -> bool {
        let Some(CType::Record(id)) = self.this.as_ref().map(|this| this.ty.clone()) else { return false };
        let is_member = |name: &SmolStr| self.t.field(id, name).is_some() || !self.methods(id, name).is_empty();
        used.has_this || used.names.iter().any(|name| self.find_local(name).is_none() && is_member(name))
    }

    /// Returns whether a type is that of a lambda whose captures are all pointers and references. Its objects have no
    /// variable in the text.
    pub(crate) fn is_pure_closure(&self, ty: &CType) -> bool {
        matches!(ty.referent(), CType::Record(id)
            if self.t.record(*id).closure.is_some() && !self.t.has_values(*id))
    }

    pub(crate) fn has_pointers(&self, ty: &CType) -> bool {
        matches!(ty.referent(), CType::Record(id) if !self.t.pointer_fields(*id).is_empty())
    }

    /// Declares the pointers of a struct again, as fields of another object.
    fn copy_pointers(&mut self, from: &CppPlace, key: VariableKey, path: &[SmolStr], span: SourceSpan) -> Res<()> {
        let (CType::Record(id), Some((own, fields))) = (&from.ty, field_path(from)) else { return Ok(()) };
        for (rest, to) in self.t.pointer_fields(*id) {
            let source = pointer_field_name(own, &[fields.clone(), rest.clone()].concat());
            self.note_used_pointer(&source);
            let Some(Local::Pointer { key: pointer_key, .. }) = self.find_local(&source) else {
                return refuse("the pointers in this struct", span, "capture each pointer");
            };
            let pointer = self.load_pointer(*pointer_key, &to, span)?;
            let new_key = self.variables.new_key();
            let local = SmolStr::from(pointer_field_name(key, &[path, &rest].concat()));
            self.bind_pointer(&local, new_key, &to, Some(pointer), span)?;
        }
        Ok(())
    }

    /// Returns the text of a struct that consists of pointers.
    pub(crate) fn object_without_values(&mut self, id: RecordId, span: SourceSpan) -> Res<Expr> {
        self.t.emit_fields(id, span)?;
        let mut fields = vec![];
        for field in self.t.record(id).fields.clone() {
            if let CType::Record(inner) = field.ty {
                fields.push((field.clk, self.object_without_values(inner, span)?));
            }
        }
        if fields.is_empty() {
            fields.push((SmolStr::new_static("empty"), Expr::int(0, ClkScalar::U8, span)));
        }
        Ok(self.object(id, fields, span).expr)
    }

    // ---- the class ----

    fn closure_class(
        &mut self,
        lambda: &'a CppLambda,
        call: &'a CppFunction,
        captures: &Captures<'a>,
        name: &str,
        span: SourceSpan,
    ) -> Res<RecordId> {
        let Some(decl) = self.local_record(&lambda.class) else { return refuse("a lambda", span, "") };
        let env = [self.env.clone(), captures.types.clone()].concat();
        let fields: Vec<RecordField<'a>> = captures.fields.iter().map(|(field, _)| field.clone()).collect();
        let types: Vec<_> = fields.iter().map(|field| (&field.name, &field.ty)).collect();
        let known: Vec<_> = captures.locals.iter().filter(|(_, local)| !matches!(local, Local::Refused(_))).collect();
        let key = format!("{decl} {env:?} {types:?} {known:?}");
        if let Some(id) = self.t.record_keys.get(&key) {
            return Ok(*id);
        }
        let scope = self.t.program.member_scope(decl);
        // A call can change a variable only if it is captured by reference. A copy belongs to the lambda.
        let mut shared: FxHashSet<SmolStr> = FxHashSet::default();
        for field in &fields {
            match &field.ty {
                CType::Reference(_) => drop(shared.insert(field.name.clone())),
                CType::Record(inner) => {
                    if let Some(inner) = &self.t.record(*inner).closure {
                        shared.extend(inner.reads.iter().chain(&inner.writes).cloned());
                    }
                }
                _ => {}
            }
        }
        let accesses = accesses_of(call, &|name| self.closure_of(name));
        let kept = |names: FxHashSet<SmolStr>| names.into_iter().filter(|name| shared.contains(name)).collect();
        let closure = Closure {
            name: SmolStr::from(name),
            locals: captures.locals.clone(),
            function: self.function,
            is_mutable: !call.is_const,
            reads: kept(accesses.reads),
            writes: kept(accesses.writes),
        };
        let id = RecordId(self.t.records.len());
        let clk = self.t.item_name(&format!("{name}_captures"));
        self.t.records.push(RecordInfo {
            decl,
            env,
            args: vec![],
            clk,
            fields,
            scope,
            bases: vec![],
            align: 1,
            packed: false,
            is_union: false,
            field_count: None,
            emitted: false,
            closure: Some(Rc::new(closure)),
        });
        self.t.records[id.0].field_count = Some(self.count_fields(id, span)?);
        self.t.record_keys.insert(key, id);
        Ok(id)
    }

    /// Returns the lambda that a variable holds.
    pub(crate) fn closure_of(&self, name: &str) -> Option<Rc<Closure>> {
        let ty = match self.find_local(name)? {
            Local::Variable { ty, .. } => ty,
            Local::Alias(place) => &place.ty,
            _ => return None,
        };
        match ty {
            CType::Record(id) => self.t.record(*id).closure.clone(),
            _ => None,
        }
    }
}

fn pointer_name(object: &CppPlace, field: &SmolStr) -> String {
    let (key, mut path) = field_path(object).unwrap_or((VariableKey(0), vec![]));
    path.push(field.clone());
    pointer_field_name(key, &path)
}

/// Returns whether a variable is shared memory, which lambdas use without a capture.
fn is_static(local: &Local, name: &str) -> bool {
    match local {
        Local::Array { info, .. } => info.space == Space::Shared,
        Local::Alias(CppPlace { kind: PlaceKind::At(Pointer { base: PointerBase::Array(info), .. }), .. }) => {
            info.space == Space::Shared && info.name == name
        }
        _ => false,
    }
}

fn check_signature(call: &CppFunction) -> Res<()> {
    fn has_decltype(ty: &crate::ast::CppType) -> bool {
        match &ty.kind {
            CppTypeKind::Decltype { .. } => true,
            CppTypeKind::Pointer(to) | CppTypeKind::Reference(to) | CppTypeKind::RvalueReference(to) => {
                has_decltype(to)
            }
            CppTypeKind::Array { element, .. } => has_decltype(element),
            _ => false,
        }
    }
    if let Some(param) = call.params.iter().find(|param| has_decltype(&param.ty)) {
        return refuse("`decltype` in the parameters of a lambda", param.span, "write the type");
    }
    match call.params.iter().find(|param| param.default.is_some()) {
        Some(param) => refuse("a lambda with a default argument", param.span, "pass the argument"),
        None => Ok(()),
    }
}

/// The names that the body of a lambda uses.
struct LambdaNames {
    /// In the order of their first uses.
    names: Vec<SmolStr>,
    has_this: bool,
}

fn used_names(call: &CppFunction) -> LambdaNames {
    let scan = FunctionScan::with_lambdas(&call.body);
    let mut names: Vec<SmolStr> = vec![];
    let mut has_this = false;
    let mut add = |name: &SmolStr| {
        if !names.contains(name) {
            names.push(name.clone());
        }
    };
    for value in &scan.values {
        match &value.kind {
            CppExprKind::Name(name) => {
                if let ([only], false) = (name.segments.as_slice(), name.global) {
                    add(&only.name.text);
                }
            }
            CppExprKind::This => has_this = true,
            CppExprKind::Lambda(lambda) => {
                for capture in lambda.captures.iter().filter(|capture| capture.init.is_none()) {
                    has_this |= capture.name.text == OBJECT;
                    add(&capture.name.text);
                }
            }
            _ => {}
        }
    }
    LambdaNames { names, has_this }
}

/// Returns whether an expression is a lambda.
pub(crate) fn as_lambda(value: &crate::ast::CppExpr) -> Option<&CppLambda> {
    match &value.kind {
        CppExprKind::Lambda(lambda) => Some(lambda),
        _ => None,
    }
}
