//! Class templates with specializations. C++ takes the most specialized one among those that match the arguments:
//! `S<T*>` rather than `S<T>` for `S<float*>`. A specialization is more specialized than another if the other matches
//! its arguments, but it does not match those of the other: `S<T>` matches `S<U*>`, but `S<T*>` does not match `S<U>`.

use super::lower::Lower;
use super::program::{Symbol, argument_name};
use super::resolve::{is_mark, may_be_const};
use super::types::{CType, RecordId, SIZE, TemplateArgs, TemplateValue};
use super::value::{Res, refuse};
use crate::ast::{
    CppExprKind, CppRecord, CppTemplateArg, CppType, CppTypeKind, QualifiedName, TemplateHeader, TemplateParamKind,
};
use crate::source::SourceSpan;
use smol_str::SmolStr;
use std::iter::repeat;

/// A specialization that matches template arguments.
struct SpecializationMatch {
    id: usize,
    env: TemplateArgs,
    /// Why the match is uncertain: it depends on a property of an argument that [`CType`] lacks.
    doubt: Option<MatchDoubt>,
}

/// Whether a type argument is a reference in C++. [`CType`] has one type for `T&` and `T&&`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ReferenceKind {
    None,
    Lvalue,
    Rvalue,
    /// An argument that is a reference of either kind.
    Unknown,
}

/// Where a type argument may be `const` or `volatile` in C++. [`CType`] has no qualifiers.
#[derive(Clone, Copy, Default)]
struct MayBeConst {
    /// The type itself.
    outside: bool,
    /// A type in it, such as that to which a pointer points.
    inside: bool,
}

impl MayBeConst {
    fn everywhere(may_be: bool) -> MayBeConst {
        MayBeConst { outside: may_be, inside: may_be }
    }
}

/// The construct that is refused if it is unclear whether a specialization matches, and the help.
type MatchDoubt = (&'static str, &'static str);

const CONST_DOUBT: MatchDoubt =
    ("a specialization for a type that may be `const`", "use `std::remove_cv_t` in the argument");
const REFERENCE_DOUBT: MatchDoubt =
    ("a specialization for a reference that may be `T&` or `T&&`", "write `&` or `&&` in the argument");

impl<'a> Lower<'_, 'a> {
    /// Returns the instance of a class template for arguments; `id` is one of its definitions.
    pub(crate) fn class_instance(
        &mut self,
        id: usize,
        args: Option<&'a [CppTemplateArg]>,
        span: SourceSpan,
    ) -> Res<RecordId> {
        let own: &'a CppRecord = self.t.program.records[id].record;
        let specializations = self.t.program.specializations(id);
        if own.template.is_none() && specializations.is_empty() {
            return self.instantiate_record(id, vec![], span);
        }
        let Some(primary) = self.t.program.primary_template(id) else {
            return refuse("a specialization of a class template that is not in this file", span, "include the file");
        };
        let record: &'a CppRecord = self.t.program.records[primary].record;
        let Some(header) = &record.template else { return self.instantiate_record(primary, vec![], span) };
        let args = args.unwrap_or(&[]);
        let env = self.marked_args(header, args, span)?;
        if specializations.is_empty() {
            return self.instantiate_record(primary, env, span);
        }
        let is_value = |(name, _): &&(SmolStr, TemplateValue)| !is_mark(name);
        let values: Vec<TemplateValue> = env.iter().filter(is_value).map(|(_, value)| value.clone()).collect();
        let (mut doubts, mut kinds) = (vec![], vec![]);
        for (value, arg) in values.iter().zip(args.iter().map(Some).chain(repeat(None))) {
            doubts.push(arg.map_or(MayBeConst::default(), |arg| self.may_be_const_arg(arg)));
            kinds.push(reference_kind(arg, value));
        }
        let mut matches: Vec<SpecializationMatch> = vec![];
        for id in specializations {
            matches.extend(self.match_specialization(id, &values, &doubts, &kinds)?);
        }
        if let Some((construct, help)) = matches.iter().find_map(|one| one.doubt) {
            return refuse(construct, span, help);
        }
        match self.most_specialized(&matches)? {
            Some(at) => {
                let chosen = matches.swap_remove(at);
                let mut env = chosen.env;
                if doubts.iter().any(|doubt| doubt.outside || doubt.inside) {
                    let marks = env.iter().map(|(name, _)| (may_be_const(name), TemplateValue::Int(1, CType::Bool)));
                    env = marks.chain(env.iter().cloned()).collect();
                }
                self.specialized_record(chosen.id, env, values, span)
            }
            None if matches.is_empty() && record.members.is_none() => {
                refuse("a class template without a definition for these arguments", span, "define it in this file")
            }
            None if matches.is_empty() => self.instantiate_record(primary, env, span),
            None => refuse("an ambiguous partial specialization", span, "add a specialization for these arguments"),
        }
    }

    /// Returns the position of the match that is more specialized than all others.
    fn most_specialized(&mut self, matches: &[SpecializationMatch]) -> Res<Option<usize>> {
        let mut best: Option<usize> = None;
        for (at, one) in matches.iter().enumerate() {
            let mut is_best = true;
            for other in matches.iter().filter(|other| other.id != one.id) {
                is_best &= self.is_more_specialized_class(one.id, other.id)?;
            }
            if is_best {
                best = Some(at);
            }
        }
        Ok(best)
    }

    /// Like [`Lower::explicit_args`], but marks the arguments that may be `const`. The marks come first.
    pub(crate) fn marked_args(
        &mut self,
        header: &'a TemplateHeader,
        args: &'a [CppTemplateArg],
        span: SourceSpan,
    ) -> Res<TemplateArgs> {
        let mut env: TemplateArgs = vec![];
        for (param, arg) in header.params.iter().zip(args) {
            // Without specializations, no class depends on it, and the classes stay one type.
            let is_marked = self.t.program.has_specializations() && self.may_have_qualifiers(arg);
            if let (Some(name), true) = (&param.name, is_marked) {
                env.push((may_be_const(&name.text), TemplateValue::Int(1, CType::Bool)));
            }
        }
        env.extend(self.explicit_args(header, args, span)?);
        Ok(env)
    }

    /// Returns whether a type argument, or a type in it, may be `const` or `volatile`.
    pub(crate) fn may_have_qualifiers(&self, arg: &CppTemplateArg) -> bool {
        let may_be = self.may_be_const_arg(arg);
        may_be.outside || may_be.inside
    }

    /// Matches the arguments of a specialization with values. Returns `None` if they do not match.
    fn match_specialization(
        &mut self,
        id: usize,
        values: &[TemplateValue],
        doubts: &[MayBeConst],
        kinds: &[ReferenceKind],
    ) -> Res<Option<SpecializationMatch>> {
        let entry = self.t.program.records[id].clone();
        let record: &'a CppRecord = entry.record;
        let no_header = TemplateHeader { params: vec![], span: record.span };
        let header = record.template.as_ref().unwrap_or(&no_header);
        let patterns = record.template_args.as_deref().unwrap_or(&[]);
        if header.params.iter().any(|param| param.pack || matches!(param.kind, TemplateParamKind::Template)) {
            return refuse("a partial specialization with a parameter pack", record.span, "write each specialization");
        }
        if let Some(pattern) = patterns.iter().find(|pattern| has_qualifiers(pattern)) {
            let span = argument_span(pattern).unwrap_or(record.span);
            return refuse("a specialization for `const` or `volatile` types", span, "use another parameter");
        }
        let names = parameter_names(header);
        let mut pattern =
            Pattern { names, found: vec![], kind: ReferenceKind::None, depends_on_kind: false, span: record.span };
        let scope = entry.scope.clone();
        let is_match = self.in_context(vec![], scope, |lower| -> Res<bool> {
            for ((own, value), kind) in patterns.iter().zip(values).zip(kinds) {
                pattern.kind = *kind;
                if !lower.match_argument(own, value, &mut pattern)? {
                    return Ok(false);
                }
            }
            lower.match_defaults(id, patterns.len(), values, &mut pattern)
        })?;
        if !is_match {
            return Ok(None);
        }
        let mut env: TemplateArgs = vec![];
        for param in &header.params {
            let Some(name) = &param.name else { continue };
            match pattern.found.iter().find(|(known, _)| *known == name.text) {
                Some(found) => env.push(found.clone()),
                None => {
                    let construct = format!("the parameter `{}` of a partial specialization", name.text);
                    return refuse(construct, name.span, "use it in the arguments");
                }
            }
        }
        let is_uncertain = patterns.iter().zip(doubts).any(|(own, doubt)| {
            let used = names_in(own, &pattern.names);
            let is_repeated = used.iter().any(|name| {
                patterns.iter().flat_map(|other| names_in(other, &pattern.names)).filter(|own| own == name).count() > 1
            });
            let is_bare = argument_name(own).is_some_and(|name| pattern.names.contains(name));
            doubt.outside && (!is_bare || is_repeated) || doubt.inside && (used.is_empty() || is_repeated)
        });
        let doubt = if pattern.depends_on_kind { Some(REFERENCE_DOUBT) } else { is_uncertain.then_some(CONST_DOUBT) };
        Ok(Some(SpecializationMatch { id, env, doubt }))
    }

    /// Matches the arguments that a specialization leaves out, which are the defaults of the class template.
    fn match_defaults(
        &mut self,
        id: usize,
        written: usize,
        values: &[TemplateValue],
        pattern: &mut Pattern,
    ) -> Res<bool> {
        let Some(primary) = self.t.program.primary_template(id) else { return Ok(false) };
        let record: &'a CppRecord = self.t.program.records[primary].record;
        let Some(header) = &record.template else { return Ok(false) };
        let names = parameter_names(header);
        for (param, value) in header.params.iter().zip(values).skip(written) {
            let is_same = match (&param.kind, value) {
                (TemplateParamKind::Type { default: Some(ty) }, TemplateValue::Type(value))
                    if names_in_type(ty, &names).is_empty() =>
                {
                    pattern.depends_on_kind |= self.contains_reference(value);
                    self.resolve_type(ty)? == *value
                }
                (TemplateParamKind::Value { default: Some(default), .. }, TemplateValue::Int(value, _))
                    if !matches!(default.kind, CppExprKind::Name(_)) =>
                {
                    self.constant_value(default)? == Some(*value)
                }
                _ => return refuse("a specialization that leaves out arguments", pattern.span, "write all arguments"),
            };
            if !is_same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns whether a specialization is more specialized than another one.
    fn is_more_specialized_class(&mut self, one: usize, other: usize) -> Res<bool> {
        Ok(self.is_as_specialized(one, other)? && !self.is_as_specialized(other, one)?)
    }

    /// Matches the arguments of a specialization, with unique types and numbers for its parameters, with another one.
    fn is_as_specialized(&mut self, one: usize, other: usize) -> Res<bool> {
        let entry = self.t.program.records[one].clone();
        let record: &'a CppRecord = entry.record;
        let mut env: TemplateArgs = vec![];
        for (at, param) in record.template.iter().flat_map(|header| &header.params).enumerate() {
            let Some(name) = &param.name else { continue };
            let value = match param.kind {
                TemplateParamKind::Value { .. } => TemplateValue::Int((1 << 80) + at as i128, SIZE),
                _ => TemplateValue::Type(CType::Functor(format!("(parameter {at})").into())),
            };
            env.push((name.text.clone(), value));
        }
        let args = record.template_args.as_deref().unwrap_or(&[]);
        let mut values = vec![];
        for arg in args {
            let (env, scope) = (env.clone(), entry.scope.clone());
            values.push(self.in_context(env, scope, |lower| lower.template_arg(arg))?);
        }
        let header =
            self.t.program.primary_template(one).and_then(|id| self.t.program.records[id].record.template.as_ref());
        for param in header.iter().flat_map(|header| &header.params).skip(values.len()) {
            let scope = entry.scope.clone();
            match self.in_context(vec![], scope, |lower| lower.template_default(&param.kind, &vec![]))? {
                Some(value) => values.push(value),
                None => return Ok(false),
            }
        }
        let doubts = vec![MayBeConst::default(); values.len()];
        let kinds: Vec<_> = values
            .iter()
            .zip(args.iter().map(Some).chain(repeat(None)))
            .map(|(value, arg)| match arg {
                // The unique types are not references.
                Some(arg) if is_rvalue_reference(arg) => ReferenceKind::Rvalue,
                arg => reference_kind(arg, value),
            })
            .collect();
        Ok(self.match_specialization(other, &values, &doubts, &kinds)?.is_some())
    }

    fn match_argument(&mut self, own: &'a CppTemplateArg, value: &TemplateValue, pattern: &mut Pattern) -> Res<bool> {
        match own {
            CppTemplateArg::Pack(_) => refuse("a parameter pack", pattern.span, "write the parameters one by one"),
            CppTemplateArg::Type(ty) => match value {
                TemplateValue::Type(value) => self.match_type(ty, value, pattern),
                TemplateValue::Int(..) => Ok(false),
            },
            CppTemplateArg::Value(expr) => {
                if let CppExprKind::Name(name) = &expr.kind
                    && let [only] = name.segments.as_slice()
                    && pattern.names.contains(&only.name.text)
                {
                    return Ok(self.bind(pattern, &only.name.text, value.clone()));
                }
                match (self.template_arg(own)?, value) {
                    (TemplateValue::Type(own), TemplateValue::Type(value)) => Ok(own == *value),
                    (TemplateValue::Int(own, _), TemplateValue::Int(number, ty)) => {
                        Ok(ty.scalar().map_or(own, |scalar| scalar.wrap(own)) == *number)
                    }
                    _ => Ok(false),
                }
            }
        }
    }

    fn match_type(&mut self, own: &'a CppType, value: &CType, pattern: &mut Pattern) -> Res<bool> {
        if names_in_type(own, &pattern.names).is_empty() {
            let is_same = self.resolve_type(own)? == *value;
            if matches!(value, CType::Reference(_)) {
                return Ok(is_same && pattern.accepts_reference(own));
            }
            pattern.depends_on_kind |= is_same && self.contains_reference(value);
            return Ok(is_same);
        }
        match (&own.kind, value) {
            (CppTypeKind::Named(name), _) => {
                let [only] = name.segments.as_slice() else {
                    return refuse("a partial specialization for a dependent type", own.span, "use its arguments");
                };
                let Some(args) = &only.args else {
                    return Ok(self.bind(pattern, &only.name.text, TemplateValue::Type(value.clone())));
                };
                let CType::Record(id) = value else { return Ok(false) };
                let found = self.t.program.find_name(name, &self.scope).to_vec();
                let class = self.t.program.primary_template(self.t.record(*id).decl);
                let is_same = found.iter().any(|symbol| match symbol {
                    Symbol::Record(id) => class.is_some() && self.t.program.primary_template(*id) == class,
                    _ => false,
                });
                let values = self.t.record(*id).args.clone();
                if !is_same || values.len() != args.len() {
                    return Ok(false);
                }
                for (arg, value) in args.iter().zip(&values) {
                    pattern.kind = reference_kind(None, value);
                    if !self.match_argument(arg, value, pattern)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            (CppTypeKind::Pointer(to), CType::Pointer(value)) => self.match_type(to, value, pattern),
            (CppTypeKind::Reference(to) | CppTypeKind::RvalueReference(to), CType::Reference(value)) => {
                Ok(pattern.accepts_reference(own) && self.match_type(to, value, pattern)?)
            }
            (CppTypeKind::Array { element, length }, CType::Array(value, count)) => {
                let is_same = match (length, count) {
                    (None, None) => true,
                    (Some(length), Some(count)) => match &length.kind {
                        CppExprKind::Name(name) if name.segments.len() == 1 => {
                            let number = TemplateValue::Int(i128::from(*count), SIZE);
                            pattern.bind(&name.segments[0].name.text, number)
                        }
                        _ => self.constant_value(length)? == Some(i128::from(*count)),
                    },
                    _ => false,
                };
                Ok(is_same && self.match_type(element, value, pattern)?)
            }
            (CppTypeKind::Pointer(_) | CppTypeKind::Array { .. }, _)
            | (CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_), _) => Ok(false),
            _ => refuse("a partial specialization for this form of types", own.span, "use its arguments"),
        }
    }

    /// Binds a parameter of a specialization. Returns false if it has another value already.
    fn bind(&self, pattern: &mut Pattern, name: &SmolStr, value: TemplateValue) -> bool {
        if let TemplateValue::Type(ty) = &value {
            let is_repeated = pattern.found.iter().any(|(known, _)| known == name);
            pattern.depends_on_kind |= is_repeated && self.contains_reference(ty);
        }
        pattern.bind(name, value)
    }

    /// Returns whether a type is a reference, or a class with such an argument.
    fn contains_reference(&self, ty: &CType) -> bool {
        match ty {
            CType::Reference(_) => true,
            CType::Pointer(to) | CType::Array(to, _) => self.contains_reference(to),
            CType::Record(id) => self
                .t
                .record(*id)
                .args
                .iter()
                .any(|arg| matches!(arg, TemplateValue::Type(ty) if self.contains_reference(ty))),
            _ => false,
        }
    }

    /// Returns where an argument may be `const` or `volatile`.
    fn may_be_const_arg(&self, arg: &CppTemplateArg) -> MayBeConst {
        match arg {
            CppTemplateArg::Type(ty) => self.may_be_const_type(ty),
            CppTemplateArg::Value(expr) => match &expr.kind {
                CppExprKind::Name(name) => MayBeConst::everywhere(self.name_may_be_qualified(name)),
                _ => MayBeConst::default(),
            },
            CppTemplateArg::Pack(_) => MayBeConst::everywhere(true),
        }
    }

    fn may_be_const_type(&self, ty: &CppType) -> MayBeConst {
        let mut may_be = match &ty.kind {
            CppTypeKind::Named(name) => MayBeConst::everywhere(self.name_may_be_qualified(name)),
            CppTypeKind::Pointer(to) | CppTypeKind::Reference(to) | CppTypeKind::RvalueReference(to) => {
                let to = self.may_be_const_type(to);
                MayBeConst { outside: false, inside: to.outside || to.inside }
            }
            CppTypeKind::Array { element, .. } => self.may_be_const_type(element),
            CppTypeKind::Decltype { .. } | CppTypeKind::Auto => MayBeConst::everywhere(true),
            _ => MayBeConst::default(),
        };
        may_be.outside |= ty.qualifiers.is_const || ty.qualifiers.volatile;
        may_be
    }

    /// Returns the class of a qualified name and the declarations of the member, also of base classes. `None` if the
    /// name is not that of a member.
    pub(crate) fn class_member(&mut self, name: &'a QualifiedName) -> Res<Option<(RecordId, Vec<Symbol>)>> {
        let [_, .., last] = name.segments.as_slice() else { return Ok(None) };
        let class = match self.class_of(name) {
            Ok(Some(class)) => class,
            Ok(None) => return Ok(None),
            Err(refusal) => {
                // A constant of a class needs no object of it.
                let path: Vec<_> =
                    name.segments[..name.segments.len() - 1].iter().map(|own| own.name.text.clone()).collect();
                let is_specialized = self.t.program.find(&path, &self.scope).iter().any(|symbol| match symbol {
                    Symbol::Record(id) => !self.t.program.specializations(*id).is_empty(),
                    _ => false,
                });
                return if is_specialized { Err(refusal) } else { Ok(None) };
            }
        };
        let mut classes = vec![class];
        while let Some(id) = classes.pop() {
            let found = self.t.program.in_namespace(&self.t.record(id).scope, &last.name.text);
            if !found.is_empty() {
                return Ok(Some((id, found.to_vec())));
            }
            classes.extend(self.t.record(id).bases.iter().rev());
        }
        Ok(None)
    }
}

/// The parameters of a partial specialization and the arguments that are found for them.
struct Pattern {
    names: Vec<SmolStr>,
    found: TemplateArgs,
    /// Whether the argument that is being matched is a reference.
    kind: ReferenceKind,
    /// Whether the match depends on the kind of a reference that is not known.
    depends_on_kind: bool,
    span: SourceSpan,
}

impl Pattern {
    /// Returns whether a type in a specialization accepts an argument that is a reference.
    fn accepts_reference(&mut self, own: &CppType) -> bool {
        match (&own.kind, self.kind) {
            (CppTypeKind::Reference(_), ReferenceKind::Lvalue) => true,
            (CppTypeKind::RvalueReference(_), ReferenceKind::Rvalue) => true,
            (CppTypeKind::Reference(_), ReferenceKind::Rvalue) => false,
            (CppTypeKind::RvalueReference(to), ReferenceKind::Lvalue) if !matches!(to.kind, CppTypeKind::Named(_)) => {
                false
            }
            // `T&&` with a parameter `T` is not an lvalue reference. With the name of a reference type, it can be one.
            (CppTypeKind::RvalueReference(to), ReferenceKind::Lvalue) => {
                let is_parameter = !names_in_type(to, &self.names).is_empty();
                self.depends_on_kind |= !is_parameter;
                !is_parameter
            }
            _ => {
                self.depends_on_kind = true;
                true
            }
        }
    }

    /// Binds a parameter. Returns false if it has another value already.
    fn bind(&mut self, name: &SmolStr, value: TemplateValue) -> bool {
        match self.found.iter().find(|(known, _)| known == name) {
            Some((_, TemplateValue::Int(known, _))) => {
                matches!(value, TemplateValue::Int(number, _) if number == *known)
            }
            Some((_, known)) => *known == value,
            None => {
                self.found.push((name.clone(), value));
                true
            }
        }
    }
}

/// Returns whether an argument is a reference. `arg` is its text, if the argument is not a default.
fn reference_kind(arg: Option<&CppTemplateArg>, value: &TemplateValue) -> ReferenceKind {
    if !matches!(value, TemplateValue::Type(CType::Reference(_))) {
        return ReferenceKind::None;
    }
    match arg {
        Some(CppTemplateArg::Type(ty)) => match &ty.kind {
            // A reference to an rvalue reference is an lvalue reference.
            CppTypeKind::Reference(_) => ReferenceKind::Lvalue,
            CppTypeKind::RvalueReference(to) if matches!(to.kind, CppTypeKind::Basic(_) | CppTypeKind::Pointer(_)) => {
                ReferenceKind::Rvalue
            }
            _ => ReferenceKind::Unknown,
        },
        _ => ReferenceKind::Unknown,
    }
}

fn is_rvalue_reference(arg: &CppTemplateArg) -> bool {
    matches!(arg, CppTemplateArg::Type(CppType { kind: CppTypeKind::RvalueReference(_), .. }))
}

fn argument_span(arg: &CppTemplateArg) -> Option<SourceSpan> {
    match arg {
        CppTemplateArg::Type(ty) => Some(ty.span),
        CppTemplateArg::Value(expr) => Some(expr.span),
        CppTemplateArg::Pack(inner) => argument_span(inner),
    }
}

fn has_qualifiers(arg: &CppTemplateArg) -> bool {
    fn in_type(ty: &CppType) -> bool {
        ty.qualifiers.is_const
            || ty.qualifiers.volatile
            || match &ty.kind {
                CppTypeKind::Pointer(to) | CppTypeKind::Reference(to) | CppTypeKind::RvalueReference(to) => in_type(to),
                CppTypeKind::Array { element, .. } => in_type(element),
                CppTypeKind::Named(name) => {
                    name.segments.iter().flat_map(|segment| segment.args.iter().flatten()).any(has_qualifiers)
                }
                _ => false,
            }
    }
    matches!(arg, CppTemplateArg::Type(ty) if in_type(ty))
}

fn parameter_names(header: &TemplateHeader) -> Vec<SmolStr> {
    header.params.iter().filter_map(|param| Some(param.name.as_ref()?.text.clone())).collect()
}

/// Returns the template parameters in an argument, once for each use.
fn names_in(arg: &CppTemplateArg, names: &[SmolStr]) -> Vec<SmolStr> {
    match arg {
        CppTemplateArg::Type(ty) => names_in_type(ty, names),
        CppTemplateArg::Value(expr) => match &expr.kind {
            CppExprKind::Name(name) => names_in_name(name, names),
            _ => vec![],
        },
        CppTemplateArg::Pack(inner) => names_in(inner, names),
    }
}

fn names_in_name(name: &QualifiedName, names: &[SmolStr]) -> Vec<SmolStr> {
    let mut found = vec![];
    for segment in &name.segments {
        found.extend(names.iter().filter(|known| **known == segment.name.text).cloned());
        found.extend(segment.args.iter().flatten().flat_map(|arg| names_in(arg, names)));
    }
    found
}

fn names_in_type(ty: &CppType, names: &[SmolStr]) -> Vec<SmolStr> {
    match &ty.kind {
        CppTypeKind::Named(name) => names_in_name(name, names),
        CppTypeKind::Pointer(to) | CppTypeKind::Reference(to) | CppTypeKind::RvalueReference(to) => {
            names_in_type(to, names)
        }
        CppTypeKind::Array { element, length } => {
            let mut found = names_in_type(element, names);
            if let Some(CppExprKind::Name(name)) = length.as_ref().map(|length| &length.kind) {
                found.extend(names_in_name(name, names));
            }
            found
        }
        CppTypeKind::Function { result, params } => {
            let mut found = names_in_type(result, names);
            found.extend(params.iter().flat_map(|param| names_in_type(&param.ty, names)));
            found
        }
        CppTypeKind::MemberPointer { target, .. } => names_in_type(target, names),
        _ => vec![],
    }
}
