//! Translation of whole functions: instances of device functions, and kernels.

use super::call::returned_parameter;
use super::decl::refuse_arrays_in_structs;
use super::file_variables::array_key;
use super::lengths::shared_element_size;
use super::lower::{Facts, Local, Lower, SharedDeclarations};
use super::overload::Chosen;
use super::size_comments::StatedExtents;
use super::translator::{CallerRequirements, PassMode, TranslatedFunction};
use super::tree::{ClkFunction, Expr, ExprKind, Geometry, Param, Stmt, StmtKind, visit_exprs};
use super::types::TemplateArgs;
use super::types::{CType, LONG, RecordId};
use super::understood_launches::ParameterRole;
use super::value::{
    ArrayInfo, ConstantValue, CppPlace, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey,
    is_element_path, pointer_field_name, refuse,
};
use crate::ast::{CppExprKind, CppFunction, CppTypeKind, FunctionBody, FunctionName, Refusal};
use crate::emit::expr_text;
use crate::source::SourceSpan;
use smol_str::SmolStr;
use std::rc::Rc;

/// Maximum number of passes over a function until its facts are known.
const MAX_PASSES: usize = 40;

fn constant_of(value: &Expr) -> Option<ConstantValue> {
    match value.kind {
        ExprKind::Int(number, _) => Some(ConstantValue::Int(number)),
        ExprKind::Float(number, _) => Some(ConstantValue::Float(number)),
        ExprKind::Bool(value) => Some(ConstantValue::Int(i128::from(value))),
        _ => None,
    }
}

/// The parts of a translated kernel that are not in the text.
#[derive(Clone, Debug)]
pub(crate) struct KernelInfo {
    pub(crate) clk: SmolStr,
    /// The clauses of `assume` that annotations of the kernel state, in words.
    pub(crate) clauses: Vec<(SmolStr, SourceSpan)>,
    pub(crate) notes: Vec<(SmolStr, SourceSpan)>,
    /// What each parameter stands for.
    pub(crate) roles: Vec<ParameterRole>,
}

/// A parameter of a kernel that is a struct.
struct StructParameter {
    clk: SmolStr,
    /// The keys of the pointers in it.
    keys: Vec<VariableKey>,
}

/// What one pass over a function produces.
struct LoweredBody {
    params: Vec<Param>,
    mutated: Vec<bool>,
    aligned: Vec<(usize, u64, SourceSpan)>,
    stmts: Vec<Stmt>,
}

impl<'a> Lower<'_, 'a> {
    /// Returns the translated copy of a function for these template arguments and ways of passing arguments.
    pub(crate) fn instance(
        &mut self,
        chosen: &Chosen,
        this: Option<CType>,
        modes: &[PassMode],
        span: SourceSpan,
    ) -> Res<Rc<TranslatedFunction>> {
        let key = format!("{} {:?} {:?} {modes:?}", chosen.function, chosen.env, chosen.record);
        if let Some(instance) = self.t.instances.get(&key) {
            return Ok(instance.clone());
        }
        if self.t.in_progress.contains(&key) || self.t.in_progress.len() > 60 {
            return refuse("recursion", span, "write a loop, with an array as a stack if needed");
        }
        self.t.in_progress.push(key.clone());
        let result = self.build_instance(chosen, this, modes);
        self.t.in_progress.pop();
        let instance = Rc::new(result?);
        self.t.instances.insert(key, instance.clone());
        Ok(instance)
    }

    fn build_instance(&mut self, chosen: &Chosen, this: Option<CType>, modes: &[PassMode]) -> Res<TranslatedFunction> {
        let entry = self.t.program.functions[chosen.function].clone();
        let function = entry.function;
        let wanted = match (&function.name, chosen.record) {
            (FunctionName::Plain(name), None) => name.to_string(),
            (name, Some(record)) => {
                let closure = self.t.record(record).closure.as_ref().map(|closure| closure.name.clone());
                let record = self.t.record(record).clk.clone();
                match name {
                    FunctionName::Operator(_) if closure.is_some() => closure.unwrap_or_default().to_string(),
                    FunctionName::Constructor(_) => format!("{record}_new"),
                    FunctionName::Plain(name) => format!("{record}_{name}"),
                    FunctionName::Operator(op) => format!("{record}_{}", operator_name(op)),
                    _ => format!("{record}_convert"),
                }
            }
            (FunctionName::Operator(op), None) => operator_name(op).to_string(),
            _ => "function".to_string(),
        };
        let own: TemplateArgs = match &function.template {
            Some(header) => chosen.env.iter().rev().take(header.params.len()).rev().cloned().collect(),
            None => vec![],
        };
        let wanted = format!("{wanted}{}", self.t.template_suffix(&own));
        let mut facts = Facts::default();
        for _ in 0..MAX_PASSES {
            facts.changed = false;
            let mut lower = Lower::new(self.t, chosen.env.clone(), entry.scope.clone(), facts);
            lower.function = match chosen.record.and_then(|record| lower.t.record(record).closure.clone()) {
                Some(closure) => closure.function,
                None => Some(chosen.function),
            };
            let body = lower.function_body(function, this.clone(), chosen.record, modes);
            facts = std::mem::take(&mut lower.facts);
            facts.end_pass(body.as_ref().ok().map(|body| body.stmts.as_slice()));
            let (result, globals) = (lower.result.ty.clone(), lower.globals.clone());
            let mut requirements = std::mem::take(&mut lower.requirements);
            let unwritten_reads = std::mem::take(&mut lower.unwritten_reads);
            // The next pass may have no error.
            if facts.changed {
                continue;
            }
            let body = body?;
            self.t.unwritten_reads.extend(unwritten_reads);
            let globals_mutated: Vec<bool> = globals.iter().map(|id| facts.mutated.contains(&array_key(*id))).collect();
            let mut body = body;
            for (&id, &inout) in globals.iter().zip(&globals_mutated) {
                if let Some(text) = self.file_array_text(id)? {
                    let info = &self.t.file_arrays[&id];
                    let ExprKind::Name(name) = &info.expr.kind else { continue };
                    body.params.push(Param { name: name.clone(), inout, ty: text });
                }
            }
            if let Some(object) = body.params.first_mut().filter(|param| this.is_some() && param.name == "self") {
                let mut is_used = false;
                visit_exprs(&body.stmts, &mut |expr| is_used |= expr.kind == ExprKind::Name("self".into()));
                if !is_used {
                    object.name = "_self".into();
                }
            }
            let name = self.t.function_name(&wanted);
            let constant = match body.stmts.as_slice() {
                [Stmt { kind: StmtKind::Return(Some(value)), .. }, ..] if body.params.is_empty() => constant_of(value),
                _ => None,
            };
            let result_text = match result {
                CType::Void => None,
                _ => Some(self.t.type_text(&result)),
            };
            self.t.file.functions.push(ClkFunction {
                name: name.clone(),
                params: body.params,
                result: result_text,
                body: body.stmts,
                span: function.name_span,
                geometry: None,
            });
            requirements.effect |= body.mutated.contains(&true);
            return Ok(TranslatedFunction {
                name,
                result,
                mutated: body.mutated,
                requirements,
                constant,
                globals,
                globals_mutated,
                aligned: body.aligned,
            });
        }
        refuse("a function whose pointers cannot be resolved", function.name_span, "use indices")
    }

    /// Translates the parameters and the body of a device function.
    fn function_body(
        &mut self,
        function: &'a CppFunction,
        this: Option<CType>,
        record: Option<RecordId>,
        modes: &[PassMode],
    ) -> Res<LoweredBody> {
        let mut params: Vec<Param> = vec![];
        // For each parameter, the place of its entry in `params`, and the key that tells whether it is changed.
        let mut keys: Vec<(Option<usize>, Option<VariableKey>)> = vec![];
        let mut arrays: Vec<Option<Rc<ArrayInfo>>> = vec![];
        let is_constructor = matches!(function.name, FunctionName::Constructor(_));
        let mut modes = modes.iter();
        let mut copies = vec![];
        // Pointers in structs of the caller, which the function must not assign.
        let mut fields: Vec<(VariableKey, SourceSpan)> = vec![];
        let closure = record.filter(|&id| self.t.record(id).closure.is_some());
        if let Some(ty) = this {
            let Some(mode) = modes.next() else { return refuse("this method", function.name_span, "") };
            let span = function.name_span;
            let key = VariableKey(self.variables.peek_key());
            self.bind_parameter("self", "this", &ty, mode, &mut params, &mut keys, &mut arrays, &mut copies, span)?;
            for (path, to) in self.pointers_after(mode, &ty) {
                let Some(mode) = modes.next() else { return refuse("this method", function.name_span, "") };
                let owner = if closure.is_some() { "" } else { "self_" };
                let (name, local) = (format!("{owner}{}", path.join("_")), pointer_field_name(key, &path));
                fields.push((VariableKey(self.variables.peek_key() + 1), span));
                let ty = CType::Pointer(Box::new(to));
                self.bind_parameter(&name, &local, &ty, mode, &mut params, &mut keys, &mut arrays, &mut copies, span)?;
            }
        }
        if let (Some(id), Some(object)) = (closure, self.this.clone()) {
            self.declare_captures(id, &object)?;
        }
        for param in &function.params {
            let Some(mode) = modes.next() else { return refuse("this call", param.span, "") };
            let ty = self.resolve_type(&param.ty)?;
            let name = param.name.as_ref().map_or(SmolStr::from("unused"), |name| name.text.clone());
            let (key, span) = (VariableKey(self.variables.peek_key()), param.span);
            self.bind_parameter(&name, &name, &ty, mode, &mut params, &mut keys, &mut arrays, &mut copies, span)?;
            for (path, to) in self.pointers_after(mode, &ty) {
                let Some(mode) = modes.next() else { return refuse("this call", span, "") };
                let (name, local) = (format!("{name}_{}", path.join("_")), pointer_field_name(key, &path));
                if !matches!(ty, CType::Record(_)) {
                    fields.push((VariableKey(self.variables.peek_key() + 1), span));
                }
                let ty = CType::Pointer(Box::new(to));
                self.bind_parameter(&name, &local, &ty, mode, &mut params, &mut keys, &mut arrays, &mut copies, span)?;
            }
        }
        self.result.ty = if is_constructor {
            CType::Void
        } else {
            match &function.result.kind {
                CppTypeKind::Auto => {
                    self.result.is_deduced = true;
                    CType::Void
                }
                CppTypeKind::Reference(_) if closure.is_some() => {
                    return refuse("a lambda that returns a reference", function.name_span, "return a value");
                }
                CppTypeKind::Reference(_) if self.this.is_some() || returned_parameter(function).is_some() => {
                    CType::Void
                }
                CppTypeKind::Reference(_) => {
                    return refuse("a function that returns a reference", function.name_span, "return a value");
                }
                _ => self.resolve_type(&function.result)?,
            }
        };
        if let CType::Record(id) = self.result.ty {
            self.t.emit_record(id, function.name_span)?;
        }
        for (name, ty, value, span) in copies {
            self.push(StmtKind::Declare { name, mutable: true, ty, value: Some(value) }, span);
        }
        let FunctionBody::Block(body) = &function.body else {
            return refuse("a function without a body", function.name_span, "include the file with the definition");
        };
        let returns_reference = matches!(function.result.kind, CppTypeKind::Reference(_));
        if returns_reference && !returns_only_this(body) && returned_parameter(function).is_none() {
            return refuse("a function that returns a reference", function.name_span, "return a value");
        }
        if is_constructor && let Some(record) = record {
            self.constructor_body(function, record)?;
        } else if returns_reference {
            self.result.ty = CType::Void;
            self.block(body)?;
        } else {
            self.block(body)?;
        }
        let is_assigned = |key: &VariableKey| self.is_mutated(*key);
        if let Some((_, span)) = fields.iter().find(|(key, _)| is_assigned(key)) {
            return refuse("a function that assigns a pointer in a struct of its caller", *span, "return an index");
        }
        if self.result.ty != CType::Void && !always_leaves(&self.blocks[0]) {
            // C++ leaves the result undefined here, so reaching this point is a fault.
            let span = function.name_span;
            let result = self.result.ty.clone();
            let no = Expr::new(ExprKind::Bool(false), span);
            let text = Expr::new(ExprKind::Text("\"the function ends without a `return`\"".into()), span);
            self.push(StmtKind::Expr(Expr::call("assert", vec![no, text], span)), span);
            let zero = self.zero_value(&result, span)?;
            self.push(StmtKind::Return(Some(super::arith::realize(&zero))), span);
        }
        let stmts = std::mem::take(&mut self.blocks[0]);
        let mut mutated = vec![];
        for (at, key) in &keys {
            let changed = key.is_some_and(|key| self.is_mutated(key));
            if let Some(at) = at {
                params[*at].inout = changed;
            }
            mutated.push(changed);
        }
        let position = |array: VariableKey| keys.iter().position(|(_, key)| *key == Some(array));
        let aligned = self.aligned.iter().filter_map(|&(array, align, span)| Some((position(array)?, align, span)));
        Ok(LoweredBody { params, mutated, aligned: aligned.collect(), stmts })
    }

    /// Returns the pointers that are passed after a struct, as paths of fields with the types of the objects.
    fn pointers_after(&self, mode: &PassMode, ty: &CType) -> Vec<(Vec<SmolStr>, CType)> {
        match (mode, ty) {
            (PassMode::Object { ty: CType::Record(id), .. } | PassMode::Pointers(CType::Record(id)), _)
            | (PassMode::Value, CType::Record(id)) => self.t.pointer_fields(*id),
            _ => vec![],
        }
    }

    #[allow(clippy::too_many_arguments, reason = "the lists of the caller, which grow together")]
    fn bind_parameter(
        &mut self,
        name: &str,
        cpp_name: &str,
        ty: &CType,
        mode: &PassMode,
        params: &mut Vec<Param>,
        keys: &mut Vec<(Option<usize>, Option<VariableKey>)>,
        arrays: &mut Vec<Option<Rc<ArrayInfo>>>,
        copies: &mut Vec<(SmolStr, String, Expr, SourceSpan)>,
        span: SourceSpan,
    ) -> Res<()> {
        let is_this = cpp_name == "this";
        let key = self.variables.new_key();
        // A pointer that is assigned has a key of its own, apart from that of the array.
        let pointer_key = self.variables.new_key();
        if matches!(ty, CType::Reference(_)) {
            self.variables.references.insert(key);
        }
        let target = match ty {
            CType::Reference(to) | CType::Pointer(to) => (**to).clone(),
            CType::Array(to, _) => (**to).clone(),
            other => other.clone(),
        };
        match mode {
            PassMode::Value => {
                if let CType::Record(id) = target {
                    self.t.emit_fields(id, span)?;
                }
                let clk = self.fresh(name);
                let text = self.t.type_text(&target);
                params.push(Param { name: clk.clone(), inout: false, ty: text.clone() });
                keys.push((None, None));
                arrays.push(None);
                if self.is_pointed(key) {
                    copies.push(self.pointed_copy(name, clk, target, key, span));
                    return Ok(());
                }
                let clk = if self.is_mutated(key) {
                    let copy = self.fresh(name);
                    copies.push((copy.clone(), text, Expr::name(clk, span), span));
                    copy
                } else {
                    clk
                };
                self.declare(cpp_name, Local::Variable { name: clk, key, ty: target, known: None });
            }
            PassMode::Object { ty: object, pointer } => {
                if let CType::Record(id) = object {
                    self.t.emit_fields(*id, span)?;
                }
                let clk = self.fresh(name);
                params.push(Param { name: clk.clone(), inout: false, ty: self.t.type_text(object) });
                keys.push((Some(params.len() - 1), Some(key)));
                arrays.push(None);
                let kind = PlaceKind::Variable { name: clk.clone(), key, value: None };
                let place = CppPlace { kind, ty: object.clone(), span };
                if is_this {
                    self.this = Some(place);
                } else if *pointer {
                    let fixed = self.object_pointer(place, object.clone());
                    self.bind_pointer(&SmolStr::from(cpp_name), pointer_key, &target, Some(fixed), span)?;
                } else {
                    self.declare(cpp_name, Local::Variable { name: clk, key, ty: object.clone(), known: None });
                }
            }
            PassMode::SameObject { of, object, path, pointer } => {
                let Some((Some(at), Some(known))) = keys.get(*of).copied() else {
                    return refuse("this call", span, "");
                };
                let kind = PlaceKind::Variable { name: params[at].name.clone(), key: known, value: None };
                let mut place = CppPlace { kind, ty: object.clone(), span };
                for field in path {
                    let CType::Record(id) = place.ty else { return refuse("this call", span, "") };
                    let fields = &self.t.record(id).fields;
                    let Some(own) = fields.iter().find(|own| own.clk == *field) else {
                        return refuse("this call", span, "");
                    };
                    let ty = own.ty.clone();
                    place = CppPlace { kind: PlaceKind::Field(Box::new(place), field.clone()), ty, span };
                }
                keys.push((None, None));
                arrays.push(None);
                if *pointer {
                    let fixed = self.object_pointer(place.clone(), place.ty);
                    self.bind_pointer(&SmolStr::from(cpp_name), pointer_key, &target, Some(fixed), span)?;
                } else {
                    self.declare(cpp_name, Local::Alias(place));
                }
            }
            PassMode::Array { element, unit, to, offset, reference } => {
                let clk = self.fresh(name);
                let length = self.fresh(&format!("{}_LEN", name.to_uppercase()));
                if let CType::Record(id) = element {
                    self.t.emit_record(*id, span)?;
                }
                let text = format!("[{}; {length}]", self.t.type_text(element));
                params.push(Param { name: clk.clone(), inout: false, ty: text });
                keys.push((Some(params.len() - 1), Some(key)));
                let info = Rc::new(ArrayInfo {
                    expr: Expr::name(clk, span),
                    element: element.clone(),
                    axes: 1,
                    space: Space::Parameter,
                    key,
                    name: name.into(),
                });
                arrays.push(Some(info.clone()));
                self.bind_array(
                    cpp_name,
                    name,
                    info,
                    *unit,
                    to,
                    *offset,
                    *reference,
                    &target,
                    pointer_key,
                    params,
                    span,
                )?;
            }
            PassMode::SameArray { of, unit, to, offset, reference } => {
                keys.push((None, None));
                arrays.push(None);
                let Some(Some(info)) = arrays.get(*of).cloned() else { return refuse("this argument", span, "") };
                // A change of this parameter is one of the other.
                if let Some(entry) = keys.last_mut() {
                    *entry = (None, Some(info.key));
                }
                self.bind_array(
                    cpp_name,
                    name,
                    info,
                    *unit,
                    to,
                    *offset,
                    *reference,
                    &target,
                    pointer_key,
                    params,
                    span,
                )?;
            }
            PassMode::Pointers(object) => {
                keys.push((None, None));
                arrays.push(None);
                let kind = PlaceKind::Variable { name: name.into(), key, value: None };
                let place = CppPlace { kind, ty: object.clone(), span };
                match ty {
                    _ if is_this => self.this = Some(place),
                    CType::Pointer(_) => {
                        let fixed = self.object_pointer(place, object.clone());
                        self.bind_pointer(&SmolStr::from(cpp_name), pointer_key, &target, Some(fixed), span)?;
                    }
                    _ => {
                        let local = Local::Variable { name: name.into(), key, ty: object.clone(), known: None };
                        self.declare(cpp_name, local);
                    }
                }
            }
            PassMode::Null => {
                keys.push((None, None));
                arrays.push(None);
                let fixed = self.null_pointer(target.clone());
                self.bind_pointer(&SmolStr::from(cpp_name), pointer_key, &target, Some(fixed), span)?;
            }
            PassMode::Group(group) => {
                keys.push((None, None));
                arrays.push(None);
                self.declare(cpp_name, Local::Group(*group));
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments, reason = "the parts of a parameter")]
    fn bind_array(
        &mut self,
        cpp_name: &str,
        name: &str,
        info: Rc<ArrayInfo>,
        unit: u64,
        to: &CType,
        offset: bool,
        reference: bool,
        target: &CType,
        pointer_key: VariableKey,
        params: &mut Vec<Param>,
        span: SourceSpan,
    ) -> Res<()> {
        let index = if offset {
            let at = self.fresh(&format!("{name}_at"));
            params.push(Param { name: at.clone(), inout: false, ty: "i64".into() });
            Some(Box::new(Value { stable: true, ..Value::new(LONG, Expr::name(at, span)) }))
        } else {
            None
        };
        let pointer = Pointer { base: PointerBase::Array(info), prefix: vec![], index, unit, to: to.clone() };
        if reference {
            let place = CppPlace { kind: PlaceKind::At(pointer), ty: to.clone(), span };
            if cpp_name == "this" {
                self.this = Some(place);
            } else {
                self.declare(cpp_name, Local::Alias(place));
            }
            return Ok(());
        }
        if cpp_name == "this" {
            self.this = Some(CppPlace { kind: PlaceKind::At(pointer), ty: to.clone(), span });
            return Ok(());
        }
        self.bind_pointer(&SmolStr::from(cpp_name), pointer_key, target, Some(pointer), span)
    }

    // ---- kernels ----

    /// Translates a kernel and adds it to the file. Comments state extents of its launches.
    pub(crate) fn kernel(&mut self, id: usize, env: TemplateArgs, stated: StatedExtents) -> Res<KernelInfo> {
        let entry = self.t.program.functions[id].clone();
        let function = entry.function;
        if let FunctionBody::Refused(refusal) = &function.body {
            return Err(Box::new(refusal.clone()));
        }
        let wanted = format!("{}{}", entry.name, self.t.template_suffix(&env));
        let mut facts = Facts::default();
        for _ in 0..MAX_PASSES {
            facts.changed = false;
            let mut lower = Lower::new(self.t, env.clone(), entry.scope.clone(), facts);
            lower.is_kernel = true;
            lower.function = Some(id);
            lower.requirements.axes = stated.axis;
            lower.stated_launch.block = stated.block;
            let body = lower.kernel_body(function);
            facts = std::mem::take(&mut lower.facts);
            facts.end_pass(body.as_ref().ok().map(|(_, _, stmts)| stmts.as_slice()));
            let SharedDeclarations { declarations: mut shared, dynamic_length: mut dynamic, .. } =
                std::mem::take(&mut lower.shared);
            let CallerRequirements { axes, grid_limits, mut notes, .. } = std::mem::take(&mut lower.requirements);
            let globals = lower.globals.clone();
            let unwritten_reads = std::mem::take(&mut lower.unwritten_reads);
            let assumed = std::mem::take(&mut lower.stated_launch.assumed);
            let names: Vec<SmolStr> = ["grid_x", "grid_y", "grid_z", "block_x", "block_y", "block_z"]
                .iter()
                .map(|name| lower.fresh_in_function(name))
                .collect();
            // The next pass may have no error.
            if facts.changed {
                continue;
            }
            let (mut params, positions, stmts) = body?;
            self.t.unwritten_reads.extend(unwritten_reads);
            let mut roles: Vec<ParameterRole> = positions.into_iter().map(ParameterRole::Argument).collect();
            for id in globals {
                let info = self.t.file_arrays[&id].clone();
                let Some(ty) = self.file_array_text(id)? else { continue };
                let ExprKind::Name(name) = &info.expr.kind else { continue };
                let name = name.clone();
                if self.t.dynamic_arrays.contains(&id) {
                    // All of them would begin at the same address.
                    if dynamic.is_some() {
                        return refuse("two dynamic shared arrays", info.expr.span, "use one array");
                    }
                    let mut length = SmolStr::from(format!("{name}_len"));
                    while params.iter().any(|param| param.name == length) {
                        length = SmolStr::from(format!("{length}_"));
                    }
                    let text = ty.rsplit_once("; ").map_or(&*ty, |(element, _)| element);
                    let text = format!("{text}; {length}]");
                    shared.push(Stmt { kind: StmtKind::Shared { name, ty: text }, span: info.expr.span });
                    let note = format!("the length of the dynamic shared array `{}` is `{length}`", info.name);
                    notes.push((note.into(), info.expr.span));
                    dynamic = Some(length);
                    continue;
                }
                if info.space == Space::Shared {
                    shared.push(Stmt { kind: StmtKind::Shared { name, ty }, span: info.expr.span });
                    continue;
                }
                let inout = facts.mutated.contains(&info.key);
                if inout && self.t.program.variables.get(id).is_some_and(|entry| entry.decl.attributes.constant) {
                    let construct = format!("a store to `{}`, which is constant", info.name);
                    return refuse(construct, info.expr.span, "declare it `__device__`");
                }
                params.push(Param { name, inout, ty });
                roles.push(ParameterRole::FileVariable { initial: self.initial_values(id) });
                notes.push((format!("`{}` of the file is passed as an argument", info.name).into(), info.expr.span));
            }
            let axes = usize::from(axes) + 1;
            let mut extra: Vec<SmolStr> = names[..axes].to_vec();
            extra.extend(names[3..3 + axes].iter().cloned());
            extra.extend(dynamic);
            roles.extend((0..axes).map(ParameterRole::Grid));
            roles.extend((0..axes).map(ParameterRole::Block));
            for name in &extra {
                params.push(Param { name: name.clone(), inout: false, ty: "i32".into() });
            }
            let mut assume = vec![];
            for (axis, limit) in grid_limits {
                assume.push(format!("{} <= {limit}", names[usize::from(axis)]));
            }
            let mut clauses = vec![];
            for (condition, span) in assumed {
                let text = expr_text(&condition.with_extents(&names));
                clauses.push((format!("`{text}`, as the kernel states").into(), span));
                if !assume.contains(&text) {
                    assume.push(text);
                }
            }
            if axes < 3 {
                let text = if axes == 1 {
                    "grids and blocks have one dimension: the kernel reads no `.y` and `.z`"
                } else {
                    "grids and blocks have at most two dimensions: the kernel reads no `.z`"
                };
                notes.push((text.into(), function.name_span));
            }
            let mut body = shared;
            body.extend(stmts);
            if let Some(extent) = extra.get(2 * axes) {
                roles.push(ParameterRole::SharedLength { element_bytes: shared_element_size(&body, extent) });
            }
            let name = self.t.item_name(&wanted);
            let geometry = Geometry {
                grid: names[..axes].iter().map(SmolStr::to_string).collect(),
                block: names[3..3 + axes].iter().map(SmolStr::to_string).collect(),
                assume,
            };
            self.t.file.functions.push(ClkFunction {
                name: name.clone(),
                params,
                result: None,
                body,
                span: function.name_span,
                geometry: Some(geometry),
            });
            return Ok(KernelInfo { clk: name, clauses, notes, roles });
        }
        refuse("a kernel whose pointers cannot be resolved", function.name_span, "use indices")
    }

    /// Translates the parameters and the body of a kernel. Returns the parameters of the text, for each of them the
    /// position of the parameter in the CUDA file, and the body.
    fn kernel_body(&mut self, function: &'a CppFunction) -> Res<(Vec<Param>, Vec<usize>, Vec<Stmt>)> {
        let mut params = vec![];
        let mut positions = vec![];
        let mut arrays: Vec<(usize, VariableKey)> = vec![];
        let mut copies = vec![];
        // Pointers in structs are never `__restrict__` for the translation.
        let mut may_alias = false;
        // Structs in memory with pointers, which other threads see as well.
        let mut unchanged: Vec<(VariableKey, SourceSpan)> = vec![];
        for (at, param) in function.params.iter().enumerate() {
            positions.resize(params.len(), at.saturating_sub(1));
            let span = param.span;
            let ty = self.resolve_type(&param.ty)?;
            let key = self.variables.new_key();
            let pointer_key = self.variables.new_key();
            let name = param.name.as_ref().map_or(SmolStr::from("unused"), |name| name.text.clone());
            match &ty {
                CType::Pointer(to) | CType::Array(to, _) => {
                    if let CType::Record(id) = **to
                        && !self.t.pointer_fields(id).is_empty()
                    {
                        let pointers = self.struct_parameter(&name, key, id, &mut params, &mut arrays, span)?;
                        may_alias = true;
                        let kind = PlaceKind::Variable { name: pointers.clk, key, value: None };
                        let object = self.object_pointer(CppPlace { kind, ty: (**to).clone(), span }, (**to).clone());
                        self.bind_pointer(&name, pointer_key, to, Some(object), span)?;
                        unchanged.push((key, span));
                        unchanged.extend(pointers.keys.iter().map(|&key| (key, span)));
                        self.requirements.note(format!("`{name}` points to one struct, which no thread changes"), span);
                        continue;
                    }
                    if let CType::Pointer(_) | CType::Void = to.leaf() {
                        let (construct, help) = match to.leaf() {
                            CType::Void => ("a `void` pointer", "use the type of the elements"),
                            _ => ("a pointer to pointers", "use one array and offsets into it"),
                        };
                        let refusal = Refusal { construct: construct.into(), span, help: Some(help.into()) };
                        self.declare(&name, Local::Refused(Box::new(refusal)));
                        continue;
                    }
                    self.kernel_array(&name, &name, to, (key, pointer_key), &mut params, &mut arrays, span)?;
                }
                CType::Reference(_) => return refuse("a reference parameter of a kernel", span, "pass a pointer"),
                CType::Group(_) | CType::Void | CType::Null | CType::Text | CType::Functor(_) => {
                    return refuse(format!("a parameter of type {}", self.t.describe(&ty)), span, "");
                }
                _ => {
                    let text = self.t.type_text(&ty);
                    let clk = if let CType::Record(id) = ty {
                        let pointers = self.struct_parameter(&name, key, id, &mut params, &mut arrays, span)?;
                        may_alias |= !pointers.keys.is_empty();
                        pointers.clk
                    } else {
                        let clk = self.fresh(&name);
                        params.push(Param { name: clk.clone(), inout: false, ty: text.clone() });
                        clk
                    };
                    if let CType::FunctionPointer(pointee) = &ty {
                        self.note_function_numbers(&name, pointee, span);
                    }
                    let parameter = clk.clone();
                    if self.is_pointed(key) {
                        copies.push(self.pointed_copy(&name, clk, ty, key, span));
                        continue;
                    }
                    let clk = if self.is_mutated(key) {
                        let copy = self.fresh(&name);
                        copies.push((copy.clone(), text, Expr::name(clk, span), span));
                        copy
                    } else {
                        clk
                    };
                    self.stated_launch.values.push((clk.clone(), parameter));
                    self.declare(&name, Local::Variable { name: clk, key, ty, known: None });
                }
            }
        }
        positions.resize(params.len(), function.params.len().saturating_sub(1));
        for (name, ty, value, span) in copies {
            self.push(StmtKind::Declare { name, mutable: true, ty, value: Some(value) }, span);
        }
        let FunctionBody::Block(body) = &function.body else {
            return refuse("a kernel without a body", function.name_span, "");
        };
        self.block(body)?;
        if let Some(&(_, span)) = unchanged.iter().find(|(key, _)| self.is_mutated(*key)) {
            return refuse("a store to a struct in memory that has pointers", span, "pass the pointers as parameters");
        }
        for &(at, key) in &arrays {
            params[at].inout = self.is_mutated(key);
        }
        // `__restrict__` states it in the file.
        let mut pointers = function.params.iter().filter(|param| matches!(param.ty.kind, CppTypeKind::Pointer(_)));
        may_alias |= pointers.any(|param| !param.ty.qualifiers.restrict);
        if may_alias && arrays.len() > 1 && arrays.iter().any(|&(at, _)| params[at].inout) {
            self.requirements
                .notes
                .push(("its pointer parameters refer to different arrays".into(), function.name_span));
        }
        let stmts = std::mem::take(&mut self.blocks[0]);
        Ok((params, positions, stmts))
    }

    /// Declares a struct that is a parameter of a kernel. Each pointer in it becomes a parameter of its own.
    fn struct_parameter(
        &mut self,
        name: &SmolStr,
        key: VariableKey,
        id: RecordId,
        params: &mut Vec<Param>,
        arrays: &mut Vec<(usize, VariableKey)>,
        span: SourceSpan,
    ) -> Res<StructParameter> {
        self.t.emit_fields(id, span)?;
        let mut all = vec![];
        for (path, to) in self.t.pointer_fields(id) {
            let keys = (self.variables.new_key(), self.variables.new_key());
            let array = format!("{name}_{}", path.join("_"));
            let local = pointer_field_name(key, &path);
            if is_element_path(&path) && !self.facts.used_pointers.contains(&local) {
                continue;
            }
            self.kernel_array(&array, &local, &to, keys, params, arrays, span)?;
            all.push(keys.1);
        }
        let clk = self.fresh(name);
        if self.t.pointer_fields(id).is_empty() || self.t.has_values(id) {
            params.push(Param { name: clk.clone(), inout: false, ty: self.t.type_text(&CType::Record(id)) });
        }
        Ok(StructParameter { clk, keys: all })
    }

    /// Declares a pointer of a kernel's parameters as an array.
    #[allow(clippy::too_many_arguments, reason = "the lists of the caller, which grow together")]
    fn kernel_array(
        &mut self,
        name: &str,
        local: &str,
        to: &CType,
        (key, pointer_key): (VariableKey, VariableKey),
        params: &mut Vec<Param>,
        arrays: &mut Vec<(usize, VariableKey)>,
        span: SourceSpan,
    ) -> Res<()> {
        let leaf = to.leaf().clone();
        match &leaf {
            CType::Pointer(_) => {
                return refuse("a pointer to pointers", span, "use one array and offsets into it");
            }
            CType::Void => return refuse("a `void` pointer", span, "use the type of the elements"),
            CType::Record(id) if self.t.has_array(*id) => {
                let Some((number, count)) = self.t.uniform_numbers(&leaf) else {
                    return refuse_arrays_in_structs(span);
                };
                let (number, record) = (self.t.describe(&number), self.t.describe(&leaf));
                self.requirements.note(format!("`{name}` is an array of {number}, {count} for each {record}"), span);
            }
            CType::Record(id) => self.t.emit_record(*id, span)?,
            CType::Vector(..) => {}
            other if other.is_arithmetic() => {}
            other => {
                return refuse(format!("a pointer to {}", self.t.describe(other)), span, "");
            }
        }
        let leaf = self.t.stored_element(&leaf);
        let clk = self.fresh(name);
        let length = self.fresh(&format!("{}_LEN", name.to_uppercase()));
        params.push(Param {
            name: clk.clone(),
            inout: self.is_mutated(key),
            ty: format!("[{}; {length}]", self.t.type_text(&leaf)),
        });
        arrays.push((params.len() - 1, key));
        let unit = self.t.size_of(&leaf).unwrap_or(1);
        let info = ArrayInfo {
            expr: Expr::name(clk, span),
            element: leaf,
            axes: 1,
            space: Space::Global,
            key,
            name: name.into(),
        };
        let pointer =
            Pointer { base: PointerBase::Array(Rc::new(info)), prefix: vec![], index: None, unit, to: to.clone() };
        self.bind_pointer(&SmolStr::from(local), pointer_key, to, Some(pointer), span)
    }
}

/// Returns whether every `return` of a body is `return *this;`.
fn returns_only_this(body: &crate::ast::CppBlock) -> bool {
    fn check(stmt: &crate::ast::CppStmt) -> bool {
        use crate::ast::CppStmtKind as Kind;
        match &stmt.kind {
            Kind::Return(Some(value)) => matches!(
                &value.kind,
                CppExprKind::Unary { op: crate::ast::CppUnaryOp::Deref, operand } if operand.kind == CppExprKind::This
            ),
            Kind::Return(None) => false,
            Kind::Block(block) => block.stmts.iter().all(check),
            Kind::If(statement) => check(&statement.then) && statement.otherwise.as_ref().is_none_or(check),
            Kind::While { body, .. } | Kind::DoWhile { body, .. } => check(body),
            Kind::For(statement) => check(&statement.body),
            Kind::Switch(_) => false,
            _ => true,
        }
    }
    body.stmts.iter().all(check)
}

/// Returns whether control never reaches the end of these statements.
fn always_leaves(stmts: &[Stmt]) -> bool {
    match stmts.last().map(|stmt| &stmt.kind) {
        Some(StmtKind::Return(_)) => true,
        Some(StmtKind::If { then, otherwise, .. }) => always_leaves(then) && always_leaves(otherwise),
        _ => false,
    }
}

pub(crate) fn contains_return(stmt: &crate::ast::CppStmt) -> bool {
    use crate::ast::CppStmtKind as Kind;
    match &stmt.kind {
        Kind::Return(_) => true,
        Kind::Block(block) => block.stmts.iter().any(contains_return),
        Kind::If(statement) => {
            contains_return(&statement.then) || statement.otherwise.as_ref().is_some_and(contains_return)
        }
        Kind::While { body, .. } | Kind::DoWhile { body, .. } => contains_return(body),
        Kind::For(statement) => contains_return(&statement.body),
        Kind::Switch(statement) => statement.sections.iter().any(|section| section.stmts.iter().any(contains_return)),
        _ => false,
    }
}

fn operator_name(op: &str) -> &'static str {
    match op {
        "+" => "add",
        "-" => "sub",
        "*" => "mul",
        "/" => "div",
        "%" => "rem",
        "+=" => "add_assign",
        "-=" => "sub_assign",
        "*=" => "mul_assign",
        "/=" => "div_assign",
        "=" => "assign",
        "==" => "equal",
        "!=" => "not_equal",
        "<" => "less",
        ">" => "greater",
        "<=" => "less_equal",
        ">=" => "greater_equal",
        "()" => "call",
        "[]" => "at",
        "&" => "bit_and",
        "|" => "bit_or",
        "^" => "bit_xor",
        "!" => "not",
        "<<" => "shift_left",
        ">>" => "shift_right",
        _ => "operator",
    }
}
