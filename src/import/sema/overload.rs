//! Overload resolution and template argument deduction.

use super::lower::Lower;
use super::resolve::{is_mark, may_be_const, may_be_reference};
use super::types::{CType, RecordId};
use super::types::{TemplateArgs, TemplateValue};
use super::value::{Denoted, Res, refuse};
use crate::ast::{
    CppExpr, CppExprKind, CppTemplateArg, CppType, CppTypeKind, FunctionBody, QualifiedName, TemplateHeader,
    TemplateParamKind,
};
use crate::source::SourceSpan;
use smol_str::SmolStr;

/// A function and the template arguments of a call.
#[derive(Clone, Debug)]
pub(crate) struct Chosen {
    pub(crate) function: usize,
    pub(crate) env: TemplateArgs,
    pub(crate) record: Option<RecordId>,
}

/// The costs of converting an argument, as overload resolution ranks them.
const PROMOTION: u32 = 1;
const CONVERSION: u32 = 10;
const USER_CONVERSION: u32 = 100;

impl<'a> Lower<'_, 'a> {
    /// Returns a type that a call like `T(x)` names.
    pub(crate) fn type_name(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<Option<CType>> {
        if let [only] = name.segments.as_slice() {
            if let Some(super::lower::Local::Type(ty)) = self.find_local(&only.name.text) {
                return Ok(Some(ty.clone()));
            }
            if let Some(TemplateValue::Type(ty)) = self.template_value(&only.name.text).cloned() {
                self.refuse_possible_reference(&only.name.text, span)?;
                return Ok(Some(ty));
            }
        }
        self.named_or_known_type(name, span)
    }

    /// Chooses the function that a call means.
    pub(crate) fn choose(
        &mut self,
        functions: &[usize],
        explicit: Option<&'a [CppTemplateArg]>,
        args: &[Denoted],
        record: Option<RecordId>,
        name: &str,
        span: SourceSpan,
    ) -> Res<Chosen> {
        let types: Vec<CType> = args.iter().map(|arg| self.type_of_denoted(arg)).collect();
        let mut best: Option<(u32, Chosen)> = None;
        let mut ambiguous = false;
        let mut error = None;
        let without_body = || {
            let construct = format!("a call of `{name}`, whose body is not in this file");
            refuse(construct, span, "include the file with the definition")
        };
        // A template may have a body for some arguments only.
        let is_candidate = |id: &usize| {
            let header = &self.t.function(*id).template;
            header.as_ref().map_or_else(|| self.t.program.has_body(*id), |header| !header.params.is_empty())
        };
        let candidates: Vec<usize> = functions.iter().copied().filter(is_candidate).collect();
        if candidates.is_empty() {
            return without_body();
        }
        for id in candidates {
            match self.viable(id, explicit, &types, record) {
                Ok(Some((cost, chosen))) => match &best {
                    Some((known, _)) if *known < cost => {}
                    // A declaration of the same template.
                    Some((known, other)) if *known == cost && self.redeclares(&chosen, other) => {
                        if self.t.program.has_body(id) {
                            best = Some((cost, chosen));
                        }
                    }
                    Some((known, other)) if *known == cost && !self.is_more_specialized(id, other.function) => {
                        ambiguous |= !self.is_more_specialized(other.function, id);
                    }
                    _ => {
                        best = Some((cost, chosen));
                        ambiguous = false;
                    }
                },
                Ok(None) => {}
                Err(refusal) => error = Some(refusal),
            }
        }
        match (best, error) {
            (Some(_), _) if ambiguous => refuse(format!("an ambiguous call of `{name}`"), span, "cast the arguments"),
            (Some((cost, chosen)), _) => {
                if self.is_declared_better(functions, &types, record, cost) {
                    return without_body();
                }
                let chosen = self.specialized(chosen, functions)?;
                if self.t.program.has_body(chosen.function) { Ok(chosen) } else { without_body() }
            }
            (None, Some(error)) => Err(error),
            (None, None) => {
                let types: Vec<_> = types.iter().map(|ty| self.t.describe(ty)).collect();
                refuse(format!("a call of `{name}` with {}", types.join(", ")), span, "cast the arguments")
            }
        }
    }

    /// Returns whether a function that is only declared is as good for a call as one that costs `best`.
    fn is_declared_better(
        &mut self,
        functions: &[usize],
        types: &[CType],
        record: Option<RecordId>,
        best: u32,
    ) -> bool {
        let has_body = |lower: &Self, id: usize| lower.t.program.has_body(id);
        for &id in functions {
            if has_body(self, id) || self.t.function(id).template.is_some() {
                continue;
            }
            let Ok(Some((cost, declared))) = self.viable(id, None, types, record) else { continue };
            if cost > best {
                continue;
            }
            let own = self.parameter_types(id, &declared.env).ok();
            let is_defined = functions.iter().any(|&other| {
                has_body(self, other)
                    && self.parameter_types(other, &declared.env).ok().is_some_and(|types| own == Some(types))
            });
            if !is_defined {
                return true;
            }
        }
        false
    }

    /// Returns whether two templates, one of which is only declared, are the same for these arguments.
    fn redeclares(&mut self, one: &Chosen, other: &Chosen) -> bool {
        if self.t.program.has_body(one.function) && self.t.program.has_body(other.function) {
            return false;
        }
        let types = |lower: &mut Self, chosen: &Chosen| {
            let function = lower.t.function(chosen.function);
            function.template.as_ref()?;
            lower.parameter_types(chosen.function, &chosen.env).ok()
        };
        let (a, b) = (types(self, one), types(self, other));
        a.is_some() && a == b
    }

    pub(crate) fn parameter_types(&mut self, id: usize, env: &TemplateArgs) -> Res<Vec<CType>> {
        let function = self.t.function(id);
        let scope = self.t.program.functions[id].scope.clone();
        let resolve = |lower: &mut Self| function.params.iter().map(|param| lower.resolve_type(&param.ty)).collect();
        self.in_context(env.clone(), scope, resolve)
    }

    /// Returns the explicit specialization of a template for the arguments of a call, if there is one.
    fn specialized(&mut self, chosen: Chosen, functions: &[usize]) -> Res<Chosen> {
        let primary = self.t.function(chosen.function);
        if primary.template.is_none() {
            return Ok(chosen);
        }
        let own_types = self.parameter_types(chosen.function, &chosen.env)?;
        let values =
            |env: &TemplateArgs| -> TemplateArgs { env.iter().filter(|(name, _)| !is_mark(name)).cloned().collect() };
        let outer = chosen.record.map_or(vec![], |record| self.t.record(record).env.clone());
        for &id in functions {
            let function = self.t.function(id);
            let is_specialization = function.template.as_ref().is_some_and(|header| header.params.is_empty());
            if !is_specialization || function.params.len() != primary.params.len() {
                continue;
            }
            let types = self.parameter_types(id, &outer)?;
            let scope = self.t.program.functions[chosen.function].scope.clone();
            let referents: Vec<CType> = types.iter().map(|ty| ty.referent().clone()).collect();
            let explicit = function.template_args.as_deref();
            let Some(deduced) = self.deduce_all(primary, explicit, &referents, &outer, &scope)? else { continue };
            let env = [outer.clone(), deduced].concat();
            if types == own_types && values(&env) == values(&chosen.env) {
                return Ok(Chosen { function: id, env: outer, record: chosen.record });
            }
        }
        Ok(chosen)
    }

    /// Returns whether the parameters of a function template are more specialized than those of another template:
    /// `Pair<K, V>` than `T`. Partial ordering decides between templates with equal conversions.
    fn is_more_specialized(&self, id: usize, other: usize) -> bool {
        let (a, b) = (self.t.function(id), self.t.function(other));
        let (Some(own), Some(others)) = (&a.template, &b.template) else { return false };
        let depths = |function: &'a crate::ast::CppFunction, header: &TemplateHeader| -> Vec<Option<u32>> {
            function.params.iter().map(|param| pattern_depth(strip_reference(&param.ty), header)).collect()
        };
        let (x, y) = (depths(a, own), depths(b, others));
        let pairs: Option<Vec<(u32, u32)>> = x.into_iter().zip(y).map(|(x, y)| x.zip(y)).collect();
        pairs.is_some_and(|pairs| pairs.iter().all(|(x, y)| x >= y) && pairs.iter().any(|(x, y)| x > y))
    }

    /// Returns the default of a parameter, which another declaration of the function may have.
    pub(crate) fn default_argument(&self, id: usize, at: usize) -> Option<&'a CppExpr> {
        let own = &self.t.program.functions[id];
        if let Some(default) = own.function.params.get(at).and_then(|param| param.default.as_ref()) {
            return Some(default);
        }
        self.t
            .program
            .functions
            .iter()
            .filter(|other| {
                other.name == own.name
                    && other.scope == own.scope
                    && other.function.params.len() == own.function.params.len()
                    && matches!(other.function.body, FunctionBody::None)
            })
            .find_map(|other| other.function.params.get(at).and_then(|param| param.default.as_ref()))
    }

    /// Calls an operator of the file whose operands are vectors or enums; `None` if the file has none for these
    /// operands.
    pub(crate) fn call_file_operator(
        &mut self,
        op: &str,
        operands: &[Denoted],
        span: SourceSpan,
    ) -> Res<Option<Denoted>> {
        let types: Vec<CType> = operands.iter().map(|operand| self.type_of_denoted(operand)).collect();
        let has_vector = types.iter().any(|ty| matches!(ty, CType::Vector(..)));
        if !has_vector && !types.iter().any(|ty| matches!(ty, CType::Enum(..))) {
            return Ok(None);
        }
        let name = format!("operator{op}");
        let functions = self.functions_named(&name);
        let mut is_known = false;
        for &id in &functions {
            // The operators of the language compete for enums, so the types must be equal.
            let viable = self.viable(id, None, &types, None);
            is_known |= matches!(viable, Ok(Some((cost, _))) if has_vector || cost < 4);
        }
        if !is_known {
            return Ok(None);
        }
        let chosen = self.choose(&functions, None, operands, None, &name, span)?;
        self.call_chosen(chosen, None, operands.to_vec(), span).map(Some)
    }

    pub(crate) fn viable(
        &mut self,
        id: usize,
        explicit: Option<&'a [CppTemplateArg]>,
        types: &[CType],
        record: Option<RecordId>,
    ) -> Res<Option<(u32, Chosen)>> {
        let function = self.t.function(id);
        if types.len() > function.params.len() {
            return Ok(None);
        }
        let missing = types.len()..function.params.len();
        if missing.clone().any(|at| self.default_argument(id, at).is_none()) {
            return Ok(None);
        }
        let scope = self.t.program.functions[id].scope.clone();
        // A method of a base class has the template arguments of that base.
        let record = match (record, self.t.program.functions[id].record) {
            (Some(own), Some(decl)) => self.base_with(own, decl).or(record),
            (own, _) => own,
        };
        let mut env = record.map_or(vec![], |record| self.t.record(record).env.clone());
        let mut cost = 0;
        if let Some(header) = &function.template {
            if header.params.iter().any(|param| param.pack) {
                return refuse("a parameter pack", function.name_span, "write the parameters one by one");
            }
            let Some(deduced) = self.deduce_all(function, explicit, types, &env, &scope)? else {
                return Ok(None);
            };
            env.extend(deduced);
            cost += 1;
        } else if explicit.is_some() && function.template.is_none() {
            return Ok(None);
        }
        cost *= 2;
        for (param, ty) in function.params.iter().zip(types) {
            let context = env.clone();
            let scope = scope.clone();
            let target = match self.in_context(context, scope, |lower| lower.resolve_type(&param.ty)) {
                Ok(target) => target,
                Err(error) if function.template.is_none() => return Err(error),
                Err(_) => return Ok(None),
            };
            let is_const = match &param.ty.kind {
                CppTypeKind::Reference(inner) => inner.qualifiers.is_const,
                _ => true,
            };
            match self.conversion_cost(ty, &target, is_const) {
                Some(one) => cost += 4 * one,
                None => return Ok(None),
            }
        }
        Ok(Some((cost, Chosen { function: id, env, record })))
    }

    fn base_with(&self, id: RecordId, decl: usize) -> Option<RecordId> {
        if self.t.record(id).decl == decl {
            return Some(id);
        }
        self.t.record(id).bases.iter().find_map(|base| self.base_with(*base, decl))
    }

    fn conversion_cost(&mut self, from: &CType, to: &CType, is_const: bool) -> Option<u32> {
        if let CType::Reference(target) = to {
            if from == &**target {
                return Some(0);
            }
            if !is_const {
                return None;
            }
            return self.conversion_cost(from, target, true);
        }
        match (from, to) {
            (a, b) if a == b => Some(0),
            (CType::Array(element, _), CType::Pointer(target)) if element == target => Some(0),
            (CType::Array(a, _), CType::Array(b, _)) if a == b => Some(0),
            (CType::Pointer(a), CType::Array(b, _)) if a == b => Some(0),
            (CType::Null, CType::Pointer(_) | CType::FunctionPointer(_)) => Some(PROMOTION),
            (CType::Pointer(_) | CType::Array(..), CType::Pointer(target)) if **target == CType::Void => {
                Some(CONVERSION)
            }
            (CType::Int(_), CType::Pointer(_)) => Some(USER_CONVERSION),
            (a, b) if a.is_arithmetic() && b.is_arithmetic() => {
                let promoted = a.promoted().is_some_and(|kind| CType::Int(kind) == *b)
                    || *a == super::types::FLOAT && *b == super::types::DOUBLE;
                Some(if promoted { PROMOTION } else { CONVERSION })
            }
            (a, CType::Record(id)) => {
                if let CType::Record(own) = a
                    && self.t.record(*own).bases.contains(id)
                {
                    return Some(CONVERSION);
                }
                let converting = self.methods(*id, "constructor").iter().any(|&function| {
                    if self.is_explicit(function) {
                        return false;
                    }
                    let function = self.t.function(function);
                    !function.params.is_empty() && function.params.iter().skip(1).all(|param| param.default.is_some())
                });
                (converting && !matches!(a, CType::Record(_))).then_some(USER_CONVERSION)
            }
            (CType::Record(id), b) if b.is_arithmetic() => {
                (!self.methods(*id, "operator conversion").is_empty()).then_some(USER_CONVERSION)
            }
            _ => None,
        }
    }

    /// Returns the template arguments of a call; `None` if they cannot be deduced.
    fn deduce_all(
        &mut self,
        function: &'a crate::ast::CppFunction,
        explicit: Option<&'a [CppTemplateArg]>,
        types: &[CType],
        outer: &TemplateArgs,
        scope: &[SmolStr],
    ) -> Res<Option<TemplateArgs>> {
        let Some(header) = &function.template else { return Ok(Some(vec![])) };
        let names: Vec<SmolStr> = header
            .params
            .iter()
            .map(|param| param.name.as_ref().map_or(SmolStr::default(), |name| name.text.clone()))
            .collect();
        let mut found: Vec<Option<TemplateValue>> = vec![None; names.len()];
        let explicit = explicit.unwrap_or(&[]);
        if explicit.len() > names.len() {
            return Ok(None);
        }
        for (at, arg) in explicit.iter().enumerate() {
            let value = self.template_arg(arg)?;
            let matches_kind = matches!(
                (&header.params[at].kind, &value),
                (TemplateParamKind::Type { .. }, TemplateValue::Type(_))
                    | (TemplateParamKind::Value { .. }, TemplateValue::Int(..))
            );
            if !matches_kind {
                return Ok(None);
            }
            found[at] = Some(value);
        }
        for (param, ty) in function.params.iter().zip(types) {
            self.deduce(&param.ty, ty, true, &names, &mut found);
        }
        // The marks come first, because the last entries are the arguments of the header.
        let mut env: TemplateArgs = vec![];
        for (at, name) in names.iter().enumerate() {
            let is_marked = match explicit.get(at) {
                Some(arg) => self.may_have_qualifiers(arg),
                None => !function.params.iter().any(|param| is_plain_name(&param.ty, name)),
            };
            if is_marked {
                env.push((may_be_const(name), TemplateValue::Int(1, CType::Bool)));
                let is_forwarded = function.params.iter().any(|param| is_forwarding_reference(&param.ty, name));
                if is_forwarded && explicit.get(at).is_none() {
                    env.push((may_be_reference(name), TemplateValue::Int(1, CType::Bool)));
                }
            }
        }
        for (at, param) in header.params.iter().enumerate() {
            let value = match found[at].take() {
                Some(value) => value,
                None => {
                    let mut before = outer.clone();
                    before.extend(env.iter().cloned());
                    let scope = scope.to_vec();
                    let kind = &param.kind;
                    match self.in_context(before, scope, |lower| lower.template_default(kind, &vec![]))? {
                        Some(value) => value,
                        None => return Ok(None),
                    }
                }
            };
            let value = match (&param.kind, value) {
                (TemplateParamKind::Value { ty, .. }, TemplateValue::Int(number, own)) => {
                    let mut before = outer.clone();
                    before.extend(env.iter().cloned());
                    let scope = scope.to_vec();
                    let ty = self.in_context(before, scope, |lower| lower.resolve_type(ty)).unwrap_or(own);
                    let number = ty.scalar().map_or(number, |scalar| scalar.wrap(number));
                    TemplateValue::Int(number, ty)
                }
                (_, value) => value,
            };
            env.push((names[at].clone(), value));
        }
        Ok(Some(env))
    }

    fn deduce(
        &self,
        param: &CppType,
        arg: &CType,
        decay: bool,
        names: &[SmolStr],
        found: &mut [Option<TemplateValue>],
    ) {
        match &param.kind {
            CppTypeKind::Named(name) => {
                let [only] = name.segments.as_slice() else { return };
                if let Some(at) = names.iter().position(|known| *known == only.name.text)
                    && only.args.is_none()
                {
                    if found[at].is_none() {
                        let ty = match arg.referent() {
                            CType::Array(element, _) if decay => CType::Pointer(element.clone()),
                            other => other.clone(),
                        };
                        found[at] = Some(TemplateValue::Type(ty));
                    }
                    return;
                }
                let (Some(args), CType::Record(id)) = (&only.args, arg) else { return };
                for (own, value) in args.iter().zip(&self.t.record(*id).args) {
                    match (own, value) {
                        (CppTemplateArg::Type(ty), TemplateValue::Type(value)) => {
                            self.deduce(ty, value, false, names, found);
                        }
                        (CppTemplateArg::Value(expr), value) => {
                            if let CppExprKind::Name(name) = &expr.kind
                                && let [only] = name.segments.as_slice()
                                && let Some(at) = names.iter().position(|known| *known == only.name.text)
                                && found[at].is_none()
                            {
                                found[at] = Some(value.clone());
                            }
                        }
                        _ => {}
                    }
                }
            }
            CppTypeKind::Pointer(inner) => {
                if let CType::Pointer(to) | CType::Array(to, _) = arg {
                    self.deduce(inner, to, false, names, found);
                }
            }
            CppTypeKind::Reference(inner) | CppTypeKind::RvalueReference(inner) => {
                self.deduce(inner, arg, false, names, found);
            }
            CppTypeKind::Array { element, length } => {
                let (CType::Array(to, _) | CType::Pointer(to)) = arg else { return };
                self.deduce(element, to, false, names, found);
                if let (Some(length), CType::Array(_, Some(count))) = (length, arg)
                    && let CppExprKind::Name(name) = &length.kind
                    && let [only] = name.segments.as_slice()
                    && let Some(at) = names.iter().position(|known| *known == only.name.text)
                    && found[at].is_none()
                {
                    found[at] = Some(TemplateValue::Int(i128::from(*count), super::types::SIZE));
                }
            }
            _ => {}
        }
    }
}

fn is_plain_name(ty: &CppType, wanted: &str) -> bool {
    match &ty.kind {
        CppTypeKind::Named(name) => matches!(name.segments.as_slice(), [only] if only.name.text == wanted),
        _ => false,
    }
}

/// Returns whether a type is `T&&` for this template parameter, which also accepts lvalues.
fn is_forwarding_reference(ty: &CppType, wanted: &str) -> bool {
    match &ty.kind {
        CppTypeKind::RvalueReference(to) => {
            !to.qualifiers.is_const && !to.qualifiers.volatile && is_plain_name(to, wanted)
        }
        _ => false,
    }
}

fn strip_reference(ty: &CppType) -> &CppType {
    match &ty.kind {
        CppTypeKind::Reference(inner) | CppTypeKind::RvalueReference(inner) => inner,
        _ => ty,
    }
}

/// Returns 0 for a template parameter, and one more for each pointer or class template around it. `None` for types
/// whose order is not known here.
fn pattern_depth(ty: &CppType, header: &TemplateHeader) -> Option<u32> {
    let is_param =
        |name: &SmolStr| header.params.iter().any(|param| param.name.as_ref().is_some_and(|own| own.text == *name));
    match &ty.kind {
        CppTypeKind::Named(name) => match name.segments.as_slice() {
            [only] => match &only.args {
                None if is_param(&only.name.text) => Some(0),
                None => Some(u32::MAX),
                Some(args) => {
                    let mut least = u32::MAX;
                    for arg in args {
                        let CppTemplateArg::Type(ty) = arg else { return None };
                        least = least.min(pattern_depth(ty, header)?);
                    }
                    Some(least.saturating_add(1))
                }
            },
            _ => None,
        },
        CppTypeKind::Pointer(inner) => pattern_depth(inner, header).map(|depth| depth.saturating_add(1)),
        CppTypeKind::Basic(_) => Some(u32::MAX),
        _ => None,
    }
}
