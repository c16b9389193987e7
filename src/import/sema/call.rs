//! Calls of functions, methods, operators and constructors of the file: overload resolution, template argument
//! deduction, and passing of arguments.

use super::arith::realize;
use super::lower::{Local, Lower};
use super::overload::Chosen;
use super::place::field_path;
use super::pointer::same_base;
use super::pointer_choice::refuse_choice;
use super::program::Symbol;
use super::translator::PassMode;
use super::tree::Expr;
use super::types::TemplateValue;
use super::types::{CType, ClkScalar, RecordId};
use super::value::{
    ConstantValue, CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey,
    pointer_field_name, refuse,
};
use crate::ast::{CppExpr, CppExprKind, CppStmtKind, CppTypeKind, FunctionBody, QualifiedName};
use crate::source::SourceSpan;
use smol_str::SmolStr;

/// An argument in the form in which an instance takes it.
struct Passed {
    mode: PassMode,
    /// The arguments of the Clk call.
    exprs: Vec<Expr>,
    /// What the instance may change.
    place: Option<CppPlace>,
}

/// How a function takes a struct with pointers.
#[derive(Clone, Copy, PartialEq)]
enum PassedAs {
    Value,
    Reference,
    Pointer,
}

impl<'a> Lower<'_, 'a> {
    /// Translates an argument without converting it.
    pub(crate) fn argument(&mut self, expr: &'a CppExpr) -> Res<Denoted> {
        let denoted = self.denote(expr)?;
        Ok(match denoted {
            Denoted::Value(value) => Denoted::Value(self.settle(value)),
            other => other,
        })
    }

    /// Translates arguments from left to right.
    pub(crate) fn arguments(&mut self, exprs: &'a [CppExpr]) -> Res<Vec<Denoted>> {
        let refs: Vec<_> = exprs.iter().collect();
        self.check_order(&refs)?;
        let mut all: Vec<Denoted> = vec![];
        for expr in exprs {
            let mark = self.mark();
            let denoted = self.argument(expr)?;
            if self.mark() > mark {
                for earlier in &mut all {
                    let taken = std::mem::replace(earlier, Denoted::Void);
                    *earlier = self.spill_denoted(taken, mark);
                }
            }
            all.push(denoted);
        }
        Ok(all)
    }

    pub(crate) fn call(&mut self, callee: &'a CppExpr, args: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        match &callee.kind {
            CppExprKind::Name(name) => self.call_name(name, args, span),
            CppExprKind::Member { base, arrow, member } => self.call_method(base, *arrow, member, args, span),
            _ => {
                let object = self.denote(callee)?;
                self.call_denoted(object, args, span)
            }
        }
    }

    /// Calls an object with `operator()` or a pointer to a function.
    fn call_denoted(&mut self, object: Denoted, args: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        if let CType::Record(_) = self.type_of_denoted(&object) {
            let args = self.arguments(args)?;
            return self.call_operator("()", object, args, span);
        }
        self.call_pointer(object, args, span)
    }

    fn call_name(&mut self, name: &'a QualifiedName, args: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        let explicit = name.segments.last().and_then(|segment| segment.args.as_deref());
        if let ([only], false) = (name.segments.as_slice(), name.global) {
            if self.find_local(&only.name.text).is_some()
                && !matches!(self.find_local(&only.name.text), Some(Local::Type(_)))
            {
                return self.call_object(&only.name.text, args, span);
            }
            if let Some(ty) = self.type_name(name, span)? {
                return self.construct_call(&ty, args, span);
            }
            // A method of the same class.
            if let Some(this) = self.this.clone()
                && let CType::Record(id) = this.ty
            {
                let methods = self.methods(id, &only.name.text);
                if !methods.is_empty() {
                    let args = self.arguments(args)?;
                    let chosen = self.choose(&methods, explicit, &args, Some(id), &only.name.text, span)?;
                    return self.call_chosen(chosen, Some(this), args, span);
                }
                if self.t.field(id, &only.name.text).is_some() {
                    let object = self.denote_name(name, span)?;
                    return self.call_denoted(object, args, span);
                }
            }
        }
        let symbols = match self.class_member(name)? {
            Some((class, members)) => {
                let functions = self.methods(class, &name.segments[name.segments.len() - 1].name.text);
                match functions.is_empty() {
                    true => members,
                    false => functions.into_iter().map(Symbol::Function).collect(),
                }
            }
            None => self.t.program.find_name(name, &self.scope).to_vec(),
        };
        let functions: Vec<usize> = symbols
            .iter()
            .filter_map(|symbol| match symbol {
                Symbol::Function(id) => Some(*id),
                _ => None,
            })
            .collect();
        let text = name.segments.last().map_or("", |segment| segment.name.text.as_str());
        if functions.is_empty() {
            if let Some(ty) = self.type_name(name, span)? {
                return self.construct_call(&ty, args, span);
            }
            return self.call_builtin(name, args, span);
        }
        // `Class<T>::f()` has the template arguments of the class.
        let is_method = functions.iter().all(|&id| self.t.program.functions[id].record.is_some());
        let class = if is_method { self.class_of(name)? } else { None };
        let mark = self.mark();
        let denoted = self.arguments(args)?;
        let functions = match (name.segments.as_slice(), name.global || is_method) {
            ([only], false) => self.visible_functions(functions, &only.name.text, &denoted),
            _ => functions,
        };
        if let [id] = functions[..]
            && !is_method
            && self.t.function(id).attributes.device
            && matches!(self.t.function(id).body, FunctionBody::None)
        {
            return self.call_external(id, denoted, span);
        }
        match self.choose(&functions, explicit, &denoted, class, text, span) {
            Ok(chosen) => {
                if self.converts_numbers(&chosen, &denoted) && self.is_header_call(name, args, span) {
                    let construct = format!("a call of `{text}`, which may be that of the CUDA headers");
                    return refuse(construct, span, "cast the arguments to the types of the parameters");
                }
                self.call_chosen(chosen, None, denoted, span)
            }
            Err(refusal) => {
                // The file adds overloads to a function of the headers: `make_float4(float3)`.
                if let Some(block) = self.blocks.last_mut() {
                    block.truncate(mark);
                }
                self.call_builtin(name, args, span).map_err(|_| refusal)
            }
        }
    }

    /// Returns whether a function outside of namespaces takes numbers of other types than the arguments.
    fn converts_numbers(&mut self, chosen: &Chosen, args: &[Denoted]) -> bool {
        if !self.t.program.functions[chosen.function].scope.is_empty() {
            return false;
        }
        let types: Vec<CType> = args.iter().map(|arg| self.type_of_denoted(arg)).collect();
        let Ok(params) = self.parameter_types(chosen.function, &chosen.env) else { return false };
        types.iter().all(CType::is_arithmetic)
            && types.iter().zip(&params).any(|(ty, param)| ty.referent() != param.referent())
    }

    /// Returns whether the headers have a function for these arguments.
    fn is_header_call(&mut self, name: &'a QualifiedName, args: &'a [CppExpr], span: SourceSpan) -> bool {
        let (effect, shared, notes) =
            (self.requirements.effect, self.shared.declarations.len(), self.requirements.notes.len());
        let is_known = self.nested(|lower| lower.call_builtin(name, args, span)).is_ok();
        self.requirements.effect = effect;
        self.shared.declarations.truncate(shared);
        self.requirements.notes.truncate(notes);
        is_known
    }

    /// `f(args)` for a variable `f`: an object with `operator()`.
    fn call_object(&mut self, name: &str, args: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        let Some(local) = self.find_local(name).cloned() else { return refuse("this call", span, "") };
        let object = match local {
            Local::Variable { name, key, ty, known } => {
                Denoted::Place(CppPlace { kind: PlaceKind::Variable { name, key, value: known }, ty, span })
            }
            Local::Alias(place) => Denoted::Place(place),
            Local::Constant(value) => Denoted::Value(value),
            _ => return refuse(format!("a call of the variable `{name}`"), span, "call a function directly"),
        };
        if let CType::FunctionPointer(_) = self.type_of_denoted(&object) {
            return self.call_pointer(object, args, span);
        }
        let args = self.arguments(args)?;
        self.call_operator("()", object, args, span)
    }

    fn construct_call(&mut self, ty: &CType, args: &'a [CppExpr], span: SourceSpan) -> Res<Denoted> {
        if let (CType::Record(_) | CType::Vector(..), _) | (_, [] | [_, _, ..]) = (ty, args) {
            let items: Vec<_> = args.iter().collect();
            return self.construct_denoted(ty, &items, false, span);
        }
        let value = self.rvalue(&args[0])?;
        Ok(Denoted::Value(self.convert(value, ty, span)?))
    }

    /// Returns the class of `Class::function`.
    pub(crate) fn class_of(&mut self, name: &'a QualifiedName) -> Res<Option<RecordId>> {
        let [outer @ .., _] = name.segments.as_slice() else { return Ok(None) };
        let Some(last) = outer.last() else { return Ok(None) };
        if let Some(TemplateValue::Type(CType::Record(id))) = self.template_value(&last.name.text) {
            return Ok(Some(*id));
        }
        let path: Vec<_> = outer.iter().map(|segment| segment.name.text.clone()).collect();
        let symbols = self.t.program.find(&path, &self.scope).to_vec();
        for symbol in symbols {
            match symbol {
                Symbol::Record(id) => return Ok(Some(self.named_class(id, last.args.as_deref(), name.span)?)),
                Symbol::Alias(id) => {
                    if let CType::Record(id) = self.aliased_type(id, last.args.as_deref(), name.span)? {
                        return Ok(Some(id));
                    }
                }
                _ => {}
            }
        }
        Ok(None)
    }

    fn call_method(
        &mut self,
        base: &'a CppExpr,
        arrow: bool,
        member: &'a QualifiedName,
        args: &'a [CppExpr],
        span: SourceSpan,
    ) -> Res<Denoted> {
        let Some(segment) = member.segments.last() else { return refuse("this call", span, "") };
        let name = segment.name.text.clone();
        let mut object = self.denote(base)?;
        if let Denoted::Group(group) = object {
            return self.call_group(group, &name, args, span);
        }
        if arrow {
            let pointer = self.pointer_of(object, base.span)?;
            object = self.object_at(pointer, span)?;
        }
        let CType::Record(id) = self.type_of_denoted(&object) else {
            return refuse(format!("the method `{name}`"), span, "");
        };
        let methods = self.methods(id, &name);
        if methods.is_empty()
            && let Some(field) = self.t.field(id, &name).cloned()
        {
            let place = self.object_place(object, span)?;
            let called = self.field_place(place, field.clk, field.ty, span)?;
            return self.call_denoted(Denoted::Place(called), args, span);
        }
        if methods.is_empty() {
            return refuse(format!("the method `{name}`"), span, "define it in this file");
        }
        let args = self.arguments(args)?;
        let chosen = self.choose(&methods, segment.args.as_deref(), &args, Some(id), &name, span)?;
        let this = self.object_place(object, span)?;
        self.call_chosen(chosen, Some(this), args, span)
    }

    /// Returns an object as a place; a temporary object becomes a variable.
    fn object_place(&mut self, object: Denoted, span: SourceSpan) -> Res<CppPlace> {
        match object {
            Denoted::Place(place) => Ok(place),
            other => {
                let value = self.value_of(other, span)?;
                let name = self.fresh("t");
                let ty = self.t.type_text(&value.ty);
                let kind = super::tree::StmtKind::Declare {
                    name: name.clone(),
                    mutable: true,
                    ty,
                    value: Some(realize(&value)),
                };
                self.push(kind, span);
                let key = super::value::VariableKey(usize::MAX);
                Ok(CppPlace { kind: PlaceKind::Variable { name, key, value: None }, ty: value.ty, span })
            }
        }
    }

    /// Calls `operator op` of the file for an object and further operands.
    pub(crate) fn call_operator(
        &mut self,
        op: &str,
        left: Denoted,
        rest: Vec<Denoted>,
        span: SourceSpan,
    ) -> Res<Denoted> {
        let name = format!("operator{op}");
        if let CType::Record(id) = self.type_of_denoted(&left) {
            let methods = self.methods(id, &name);
            if !methods.is_empty() {
                let chosen = self.choose(&methods, None, &rest, Some(id), &name, span)?;
                let this = self.object_place(left, span)?;
                return self.call_chosen(chosen, Some(this), rest, span);
            }
        }
        let functions = self.functions_named(&name);
        if functions.is_empty() {
            return refuse(
                format!("`{op}` of {}", self.t.describe(&self.type_of_denoted(&left))),
                span,
                "define the operator in this file",
            );
        }
        let mut args = vec![left];
        args.extend(rest);
        let chosen = self.choose(&functions, None, &args, None, &name, span)?;
        self.call_chosen(chosen, None, args, span)
    }

    /// Returns all functions with this name outside of classes that the scope sees.
    pub(crate) fn functions_named(&self, name: &str) -> Vec<usize> {
        self.t
            .program
            .find(std::slice::from_ref(&name.into()), &self.scope)
            .iter()
            .filter_map(|symbol| match symbol {
                Symbol::Function(id) => Some(*id),
                _ => None,
            })
            .collect()
    }

    /// Returns the methods of a class with this name. If there are none, returns the methods of its base classes.
    pub(crate) fn methods(&self, id: RecordId, name: &str) -> Vec<usize> {
        let decl = self.t.record(id).decl;
        let mut own = self.t.program.functions_of_any_scope(name).to_vec();
        own.retain(|&function| self.t.program.functions[function].record == Some(decl));
        if !own.is_empty() {
            return own;
        }
        self.t.record(id).bases.clone().into_iter().flat_map(|base| self.methods(base, name)).collect()
    }

    /// Calls a conversion operator of a class, if it has one for the type.
    pub(crate) fn call_conversion(&mut self, value: Value, to: &CType, span: SourceSpan) -> Res<Option<Value>> {
        let CType::Record(id) = value.ty else { return Ok(None) };
        for function in self.methods(id, "operator conversion") {
            let (env, scope) = (self.t.record(id).env.clone(), self.t.record(id).scope.clone());
            let result = &self.t.function(function).result;
            let target = self.in_context(env.clone(), scope, |lower| lower.resolve_type(result))?;
            if target == *to {
                let this = self.object_place(Denoted::Value(value), span)?;
                let chosen = Chosen { function, env, record: Some(id) };
                let denoted = self.call_chosen(chosen, Some(this), vec![], span)?;
                return Ok(Some(self.value_of(denoted, span)?));
            }
        }
        Ok(None)
    }

    /// Calls a function with arguments that are already translated.
    pub(crate) fn call_chosen(
        &mut self,
        chosen: Chosen,
        this: Option<CppPlace>,
        args: Vec<Denoted>,
        span: SourceSpan,
    ) -> Res<Denoted> {
        let function = self.t.function(chosen.function);
        if let FunctionBody::Refused(refusal) = &function.body {
            return Err(Box::new(refusal.clone()));
        }
        let this = if function.attributes.is_static { None } else { this };
        let returns_reference = matches!(function.result.kind, CppTypeKind::Reference(_));
        let returns_pointer = match &function.result.kind {
            CppTypeKind::Pointer(to) => !matches!(to.kind, CppTypeKind::Function { .. }),
            _ => false,
        };
        if (returns_reference || returns_pointer)
            && let Some(denoted) = self.inline_accessor(&chosen, this.as_ref(), &args, span)?
        {
            return Ok(denoted);
        }
        if let Some(denoted) = self.call_with_choice(&chosen, this.as_ref(), &args, span)? {
            return Ok(denoted);
        }
        let mut args = args;
        let reads_memory = function.params.iter().zip(&args).any(|(param, arg)| {
            is_const_reference(&param.ty) && matches!(arg, Denoted::Place(place) if self.is_shared_place(place))
        });
        if reads_memory {
            // The arguments may be passed twice.
            for arg in &mut args {
                if let Denoted::Value(value) = arg {
                    *arg = Denoted::Value(self.settle(value.clone()));
                }
            }
        }
        let object = this.as_ref().map(|this| this.ty.clone());
        let mut passed = self.pass_all(&chosen, this.as_ref(), &args, true, span)?;
        let modes: Vec<_> = passed.iter().map(|one| one.mode.clone()).collect();
        let mut instance = self.instance(&chosen, object.clone(), &modes, span)?;
        if reads_memory && instance.requirements.effect {
            // The function may change the memory, or wait until another thread changes it.
            passed = self.pass_all(&chosen, this.as_ref(), &args, false, span)?;
            let modes: Vec<_> = passed.iter().map(|one| one.mode.clone()).collect();
            instance = self.instance(&chosen, object, &modes, span)?;
        }
        let mut effect = instance.requirements.effect;
        for one in &passed {
            if let Some(place) = &one.place {
                let root = self.root(place);
                self.note_passed(root);
            }
        }
        // A variable that is passed twice would be two variables in the function.
        for (at, (one, mutated)) in passed.iter().zip(&instance.mutated).enumerate() {
            let (Some(place), PassMode::Object { .. }, true) = (&one.place, &one.mode, *mutated) else { continue };
            let root = self.root(place);
            let twice = passed
                .iter()
                .enumerate()
                .any(|(other, two)| other != at && two.place.as_ref().is_some_and(|place| self.root(place) == root));
            if twice {
                return refuse("a variable that is passed twice to a function that changes it", span, "pass a copy");
            }
        }
        for (one, mutated) in passed.iter().zip(&instance.mutated) {
            if *mutated && let Some(place) = &one.place {
                effect = true;
                let root = self.root(place);
                self.note_mutated(root);
                self.requirements.effect |= self.is_shared_place(place);
            }
        }
        self.requirements.add(&instance.requirements);
        for &(position, align, at) in &instance.aligned {
            if let Some(Passed { place: Some(CppPlace { kind: PlaceKind::At(pointer), .. }), .. }) =
                passed.get(position)
                && let PointerBase::Array(info) = &pointer.base
            {
                self.note_aligned(&info.clone(), align, at);
            }
        }
        if let (Some(constant), true) = (instance.constant, passed.is_empty()) {
            let ty = instance.result.clone();
            match constant {
                ConstantValue::Int(number) if ty.is_integer() => {
                    return Ok(Denoted::Value(Value::int(number, ty, span)));
                }
                ConstantValue::Float(number) if ty.is_float() => {
                    return Ok(Denoted::Value(Value::float(number, ty, span)));
                }
                _ => {}
            }
        }
        let roots: Vec<_> = passed.iter().flat_map(|one| &one.place).map(|place| self.root(place)).collect();
        let mut exprs: Vec<Expr> = passed.into_iter().flat_map(|one| one.exprs).collect();
        for (global, mutated) in instance.globals.iter().zip(&instance.globals_mutated) {
            let info = self.file_array(*global);
            if info.space == Space::Constant {
                continue;
            }
            if roots.contains(&info.key) {
                return refuse(
                    format!("a call with `{}`, which the function also uses by its name", info.name),
                    span,
                    "pass it as a parameter only",
                );
            }
            if *mutated {
                self.note_mutated(info.key);
                effect = true;
            }
            exprs.push(Expr { span, ..info.expr.clone() });
        }
        let call = Expr::call(instance.name.clone(), exprs, span);
        if instance.result == CType::Void {
            self.push(super::tree::StmtKind::Expr(call), span);
            let returned = returned_parameter(function).and_then(|at| args.into_iter().nth(at));
            return match (returns_reference, this, returned) {
                (true, Some(this), _) => Ok(Denoted::Place(this)),
                (true, None, Some(Denoted::Place(place))) => Ok(Denoted::Place(place)),
                (true, None, _) => refuse("a function that returns a reference", span, "return a value"),
                _ => Ok(Denoted::Void),
            };
        }
        Ok(Denoted::Value(Value { effect, ..Value::new(instance.result.clone(), call) }))
    }

    /// Passes the object and the arguments of a call. With `copies`, references to `const` are copies if the function
    /// has no parameter through which it may change the original.
    fn pass_all(
        &mut self,
        chosen: &Chosen,
        this: Option<&CppPlace>,
        args: &[Denoted],
        copies: bool,
        span: SourceSpan,
    ) -> Res<Vec<Passed>> {
        let function = self.t.function(chosen.function);
        let scope = self.t.program.functions[chosen.function].scope.clone();
        let changes_object = this.is_some_and(|this| !function.is_const || self.has_pointers(&this.ty));
        let types = self.parameter_types(chosen.function, &chosen.env)?;
        let takes_pointers = types.iter().any(|ty| self.has_pointers(ty));
        let copies = copies && !takes_memory(function) && !takes_pointers && !changes_object;
        let mut passed: Vec<Passed> = vec![];
        if let Some(this) = this
            && !self.pass_pointers(this, PassedAs::Reference, &mut passed, span)?
        {
            let one = self.pass_object(this.clone(), false, &passed, span)?;
            passed.push(one);
        }
        for (at, param) in function.params.iter().enumerate() {
            let env = chosen.env.clone();
            let ty = self.in_context(env.clone(), scope.clone(), |lower| lower.resolve_type(&param.ty))?;
            let arg = match args.get(at) {
                Some(arg) => arg.clone(),
                None => {
                    let Some(default) = self.default_argument(chosen.function, at) else {
                        return refuse("a call with too few arguments", span, "");
                    };
                    let denoted = self.in_context(env, scope.clone(), |lower| lower.denote(default))?;
                    match denoted {
                        Denoted::Value(value) => Denoted::Value(self.settle(value)),
                        other => other,
                    }
                }
            };
            if let Some((place, kind)) = struct_argument(&arg, &ty)
                && self.pass_pointers(&place, kind, &mut passed, span)?
            {
                continue;
            }
            let by_value = copies && is_const_reference(&param.ty);
            let one = self.pass(arg, &ty, by_value, &passed, span)?;
            passed.push(one);
        }
        Ok(passed)
    }

    /// Evaluates a function that returns a reference or a pointer in place, if its body is one `return`, as in
    /// `T& at(int i) { return data[i]; }`.
    fn inline_accessor(
        &mut self,
        chosen: &Chosen,
        this: Option<&CppPlace>,
        args: &[Denoted],
        span: SourceSpan,
    ) -> Res<Option<Denoted>> {
        let function = self.t.function(chosen.function);
        let FunctionBody::Block(body) = &function.body else { return Ok(None) };
        let mut stmts = body.stmts.iter().filter(|stmt| !self.is_ignored(stmt));
        let (Some(only), None) = (stmts.next(), stmts.next()) else { return Ok(None) };
        let CppStmtKind::Return(Some(result)) = &only.kind else { return Ok(None) };
        let scope = self.t.program.functions[chosen.function].scope.clone();
        let mut locals = vec![];
        for (at, param) in function.params.iter().enumerate() {
            let Some(name) = &param.name else { continue };
            let ty = self.in_context(chosen.env.clone(), scope.clone(), |lower| lower.resolve_type(&param.ty))?;
            let Some(arg) = args.get(at).cloned() else { return Ok(None) };
            let local = match (arg, &ty) {
                (Denoted::Place(place), CType::Reference(target)) if place.ty == **target => Local::Alias(place),
                (arg, CType::Pointer(to) | CType::Array(to, _)) => {
                    let pointer = self.pointer_of(arg, span)?;
                    let pointer = self.cast_pointer(pointer, to, span)?;
                    // A parameter that the function assigns is a variable of its own.
                    let key = self.variables.new_key();
                    if self.is_mutated(key) {
                        return Ok(None);
                    }
                    self.pointer_variable(&name.text, key, to, Some(pointer), span)?
                }
                (arg, _) => {
                    let value = self.value_of(arg, span)?;
                    let value = self.convert(value, &ty, span)?;
                    Local::Constant(self.spill(value))
                }
            };
            locals.push((name.text.clone(), local));
        }
        let returned = match &function.result.kind {
            CppTypeKind::Pointer(_) => {
                let env = chosen.env.clone();
                Some(self.in_context(env, scope.clone(), |lower| lower.resolve_type(&function.result))?)
            }
            _ => None,
        };
        // The pointers in the object are variables of the caller, which the expression must not assign.
        let mut pointers: Vec<(VariableKey, SmolStr, Local)> = vec![];
        if let Some(CppPlace { ty: CType::Record(id), .. }) = this
            && let Some((key, path)) = this.and_then(field_path)
        {
            for (fields, _) in self.t.pointer_fields(*id) {
                let local = pointer_field_name(key, &[path.clone(), fields].concat());
                if let Some(pointer @ Local::Pointer { key, .. }) = self.find_local(&local).cloned() {
                    pointers.push((key, local.into(), pointer));
                }
            }
        }
        let this = this.cloned();
        let mutated = self.facts.mutated.clone();
        let denoted = self.in_context(chosen.env.clone(), scope, |lower| -> Res<Denoted> {
            for (_, name, local) in &pointers {
                lower.declare(name, local.clone());
            }
            match (this, chosen.record) {
                (Some(this), Some(id)) if lower.t.record(id).closure.is_some() => lower.declare_captures(id, &this)?,
                (this, _) => lower.this = this,
            }
            for (name, local) in locals {
                lower.declare(&name, local);
            }
            let denoted = lower.denote(result)?;
            match &returned {
                Some(CType::Pointer(to)) => {
                    let pointer = lower.pointer_of(denoted, span)?;
                    Ok(Denoted::Pointer(lower.cast_pointer(pointer, to, span)?))
                }
                _ => Ok(denoted),
            }
        })?;
        if pointers.iter().any(|(key, ..)| self.facts.mutated.contains(key) != mutated.contains(key)) {
            return refuse("a function that assigns a pointer in a struct of its caller", span, "return an index");
        }
        Ok(Some(denoted))
    }

    // ---- passing ----

    fn pass(&mut self, arg: Denoted, ty: &CType, by_value: bool, before: &[Passed], span: SourceSpan) -> Res<Passed> {
        match ty {
            CType::Reference(target) => match arg {
                Denoted::Group(group) => Ok(Passed { mode: PassMode::Group(group), exprs: vec![], place: None }),
                Denoted::Place(place) if place.ty == **target && !by_value => {
                    if let CType::Array(..) = place.ty {
                        let pointer = self.address_of(place, span)?;
                        return self.pass_pointer(pointer, true, before, span);
                    }
                    self.pass_object(place, false, before, span)
                }
                Denoted::Pointer(_) => refuse("a reference to a pointer", span, "pass the pointer by value"),
                Denoted::Place(place) if matches!(place.ty, CType::Pointer(_)) => {
                    refuse("a reference to a pointer", span, "pass the pointer by value")
                }
                other => {
                    let value = self.value_of(other, span)?;
                    let value = self.convert(value, target, span)?;
                    Ok(Passed { mode: PassMode::Value, exprs: vec![realize(&value)], place: None })
                }
            },
            CType::Pointer(to) | CType::Array(to, _) => {
                let pointer = self.pointer_of(arg, span)?;
                let pointer = self.cast_pointer(pointer, to, span)?;
                self.pass_pointer(pointer, false, before, span)
            }
            CType::Group(_) => match arg {
                Denoted::Group(group) => Ok(Passed { mode: PassMode::Group(group), exprs: vec![], place: None }),
                _ => refuse("this group of threads", span, ""),
            },
            _ => {
                let value = self.value_of(arg, span)?;
                let value = self.convert(value, ty, span)?;
                let value = self.settle(value);
                Ok(Passed { mode: PassMode::Value, exprs: vec![realize(&value)], place: None })
            }
        }
    }

    /// Passes a struct with pointers: the struct without them, and each pointer. Returns whether the place is one.
    fn pass_pointers(
        &mut self,
        place: &CppPlace,
        kind: PassedAs,
        passed: &mut Vec<Passed>,
        span: SourceSpan,
    ) -> Res<bool> {
        let CType::Record(id) = place.ty else { return Ok(false) };
        let pointers = self.t.pointer_fields(id);
        let is_passed_apart = !pointers.is_empty() || self.is_pure_closure(&place.ty);
        let Some((key, path)) = field_path(place).filter(|_| is_passed_apart) else { return Ok(false) };
        if self.t.has_values(id) {
            self.t.emit_fields(id, span)?;
        }
        let ty = place.ty.clone();
        let mode = match kind {
            _ if !self.t.has_values(id) => PassMode::Pointers(ty),
            PassedAs::Value => PassMode::Value,
            PassedAs::Reference => PassMode::Object { ty, pointer: false },
            PassedAs::Pointer => PassMode::Object { ty, pointer: true },
        };
        let exprs = match mode {
            PassMode::Pointers(_) => vec![],
            _ => vec![self.place_expr(place, span)?],
        };
        let is_copy = kind == PassedAs::Value;
        passed.push(Passed { mode, exprs, place: (!is_copy).then(|| place.clone()) });
        for (fields, to) in pointers {
            let local = pointer_field_name(key, &[path.clone(), fields].concat());
            self.note_used_pointer(&local);
            let Some(Local::Pointer { key, .. }) = self.find_local(&local) else {
                return refuse("the pointers in this struct", span, "pass each pointer as a parameter");
            };
            let pointer = self.load_pointer(*key, &to, span)?;
            let one = self.pass_pointer(pointer, false, passed, span)?;
            passed.push(one);
        }
        Ok(true)
    }

    fn pass_object(&mut self, place: CppPlace, pointer: bool, before: &[Passed], span: SourceSpan) -> Res<Passed> {
        if let CType::Record(id) = place.ty {
            self.t.emit_record(id, span)?;
        }
        if let PlaceKind::At(at) = &place.kind
            && let PointerBase::Array(_) = at.base
        {
            let at = at.clone();
            return self.pass_pointer(at, !pointer, before, span);
        }
        if let Some(mode) = same_object(&place, pointer, before) {
            return Ok(Passed { mode, exprs: vec![], place: None });
        }
        if self.is_shared_place(&place) {
            return refuse(
                "a reference to a part of an element in memory",
                span,
                "copy the part to a variable, and back after the call",
            );
        }
        let expr = match &place.kind {
            PlaceKind::Variable { value: Some(_), .. } => {
                let value = self.load(&place)?;
                realize(&value)
            }
            _ => self.place_expr(&place, span)?,
        };
        Ok(Passed { mode: PassMode::Object { ty: place.ty.clone(), pointer }, exprs: vec![expr], place: Some(place) })
    }

    fn pass_pointer(&mut self, pointer: Pointer, reference: bool, before: &[Passed], span: SourceSpan) -> Res<Passed> {
        let info = match &pointer.base {
            PointerBase::Null => return Ok(Passed { mode: PassMode::Null, exprs: vec![], place: None }),
            PointerBase::Object(place) if pointer.index.is_none() && place.ty == pointer.to => {
                let place = (**place).clone();
                return self.pass_object(place, !reference, before, span);
            }
            PointerBase::Object(_) => return refuse("a pointer to a part of a variable", span, "use an array"),
            PointerBase::Choice(_) => return refuse_choice(span),
            PointerBase::Array(info) => info.clone(),
        };
        if info.axes > 1 {
            self.note_flat(info.key);
        }
        let place = CppPlace { kind: PlaceKind::At(pointer.clone()), ty: pointer.to.clone(), span };
        let offset = pointer.index.is_some();
        let index = pointer.index.as_deref().map(|index| super::arith::coerce(index, ClkScalar::I64));
        let bare = Pointer { index: None, prefix: vec![], unit: 1, ..pointer.clone() };
        let same = before.iter().position(|one| match &one.place {
            Some(CppPlace { kind: PlaceKind::At(other), .. }) => {
                same_base(&bare, &Pointer { index: None, prefix: vec![], unit: 1, ..other.clone() })
            }
            _ => false,
        });
        let (unit, to) = (pointer.unit, pointer.to.clone());
        if let Some(of) = same {
            let mode = PassMode::SameArray { of, unit, to, offset, reference };
            return Ok(Passed { mode, exprs: index.into_iter().collect(), place: Some(place) });
        }
        let mode = PassMode::Array { element: info.element.clone(), unit, to, offset, reference };
        let mut exprs = vec![Expr { span, ..info.expr.clone() }];
        exprs.extend(index);
        Ok(Passed { mode, exprs, place: Some(place) })
    }
}

/// Returns how a reference or pointer to an object that an earlier parameter has is passed.
fn same_object(place: &CppPlace, pointer: bool, before: &[Passed]) -> Option<PassMode> {
    let (key, path) = field_path(place)?;
    before.iter().enumerate().find_map(|(of, one)| {
        let (PassMode::Object { ty, .. }, Some(other)) = (&one.mode, &one.place) else { return None };
        let (known, outer) = field_path(other)?;
        let inner = path.strip_prefix(outer.as_slice()).filter(|_| known == key)?;
        Some(PassMode::SameObject { of, object: ty.clone(), path: inner.to_vec(), pointer })
    })
}

/// Returns the struct that an argument passes to a parameter of a type.
fn struct_argument(arg: &Denoted, ty: &CType) -> Option<(CppPlace, PassedAs)> {
    let (place, kind) = match (arg, ty) {
        (Denoted::Place(place), CType::Record(_)) => (place, PassedAs::Value),
        (Denoted::Place(place), CType::Reference(_)) => (place, PassedAs::Reference),
        (Denoted::Pointer(Pointer { base: PointerBase::Object(place), index: None, .. }), CType::Pointer(_)) => {
            (&**place, PassedAs::Pointer)
        }
        _ => return None,
    };
    let target = match ty {
        CType::Reference(to) | CType::Pointer(to) => to,
        other => other,
    };
    (place.ty == *target).then(|| (place.clone(), kind))
}

/// Returns the position of the reference parameter that each `return` of a function returns: `return a;`.
pub(crate) fn returned_parameter(function: &crate::ast::CppFunction) -> Option<usize> {
    let FunctionBody::Block(body) = &function.body else { return None };
    let CppStmtKind::Return(Some(CppExpr { kind: CppExprKind::Name(name), .. })) = &body.stmts.last()?.kind else {
        return None;
    };
    let [only] = name.segments.as_slice() else { return None };
    // An inner variable of the same name would be a dangling reference.
    let is_simple = |stmt: &crate::ast::CppStmt| matches!(stmt.kind, CppStmtKind::Expr(_) | CppStmtKind::Return(_));
    let is_last = |at: usize| at + 1 == body.stmts.len();
    let is_return = |stmt: &crate::ast::CppStmt| matches!(stmt.kind, CppStmtKind::Return(_));
    if !body.stmts.iter().enumerate().all(|(at, stmt)| is_simple(stmt) && is_return(stmt) == is_last(at)) {
        return None;
    }
    function.params.iter().position(|param| {
        matches!(param.ty.kind, CppTypeKind::Reference(_))
            && param.name.as_ref().is_some_and(|own| own.text == only.name.text)
    })
}

fn is_const_reference(ty: &crate::ast::CppType) -> bool {
    match &ty.kind {
        CppTypeKind::Reference(inner) => inner.qualifiers.is_const,
        _ => false,
    }
}

/// Returns whether a function has parameters through which it may change memory.
fn takes_memory(function: &crate::ast::CppFunction) -> bool {
    function.params.iter().any(|param| match &param.ty.kind {
        CppTypeKind::Pointer(_) | CppTypeKind::Array { .. } => true,
        CppTypeKind::Reference(inner) | CppTypeKind::RvalueReference(inner) => !inner.qualifiers.is_const,
        _ => false,
    })
}
