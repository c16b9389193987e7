//! Resolution of names and types: typedefs, template parameters, records with template arguments, `decltype`.

use super::lower::{Local, Lower};
use super::program::{ScopePath, Symbol};
use super::translator::{RecordField, RecordInfo};
use super::types::{CType, GroupKind, IntKind, RecordId, basic_type, header_type};
use super::types::{TemplateArgs, TemplateValue};
use super::value::{Res, refuse};
use crate::ast::{
    CppDeclKind, CppExpr, CppExprKind, CppTemplateArg, CppType, CppTypeKind, QualifiedName, TemplateHeader,
    TemplateParamKind, VariableName,
};
use crate::emit::names::clk_name;
use crate::source::SourceSpan;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// The maximum number of numbers and pointers in a struct, at all depths.
const MAX_FIELDS: u64 = 10_000;

/// Namespaces whose members this crate knows.
const KNOWN_NAMESPACES: &[&str] = &["std", "cuda", "cooperative_groups", "cg", "thrust", "nvcuda"];

/// Returns the name of the entry in [`TemplateArgs`] that marks a type deduced from a pointer or reference. In C++ the
/// type may be `const`.
pub(crate) fn may_be_const(name: &str) -> SmolStr {
    SmolStr::from(format!("{name}{CONST_MARK}"))
}

/// Returns the name of the entry in [`TemplateArgs`] that marks a type deduced for a parameter of type `T&&`. In C++,
/// `T` is a reference if the argument is an lvalue.
pub(crate) fn may_be_reference(name: &str) -> SmolStr {
    SmolStr::from(format!("{name}{REFERENCE_MARK}"))
}

const CONST_MARK: &str = " (may be const)";
const REFERENCE_MARK: &str = " (may be a reference)";

/// Returns whether an entry in [`TemplateArgs`] is a mark rather than an argument.
pub(crate) fn is_mark(name: &str) -> bool {
    name.ends_with(CONST_MARK) || name.ends_with(REFERENCE_MARK)
}

/// Returns the last part of a name if all other parts are namespaces of the CUDA headers or the standard library.
pub(crate) fn header_name(name: &QualifiedName) -> Option<&SmolStr> {
    let (last, outer) = name.segments.split_last()?;
    outer.iter().all(|segment| KNOWN_NAMESPACES.contains(&segment.name.text.as_str())).then_some(&last.name.text)
}

impl<'a> Lower<'_, 'a> {
    /// Runs a translation step in another scope, with other template arguments and no local variables.
    pub(crate) fn in_context<T>(&mut self, env: TemplateArgs, scope: ScopePath, f: impl FnOnce(&mut Self) -> T) -> T {
        let env = std::mem::replace(&mut self.env, env);
        let scope = std::mem::replace(&mut self.scope, scope);
        let locals = std::mem::replace(&mut self.locals, vec![FxHashMap::default()]);
        let this = self.this.take();
        let result = f(self);
        self.env = env;
        self.scope = scope;
        self.locals = locals;
        self.this = this;
        result
    }

    pub(crate) fn template_value(&self, name: &str) -> Option<&TemplateValue> {
        self.env.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    pub(crate) fn resolve_type(&mut self, ty: &'a CppType) -> Res<CType> {
        self.enter(ty.span)?;
        let result = self.resolve_type_kind(ty);
        self.leave();
        result
    }

    fn resolve_type_kind(&mut self, ty: &'a CppType) -> Res<CType> {
        let span = ty.span;
        Ok(match &ty.kind {
            CppTypeKind::Basic(basic) => match basic_type(*basic) {
                Some(ty) => ty,
                None => return refuse("`__int128`", span, "use two 64-bit integers"),
            },
            CppTypeKind::Named(name) => self.resolve_named_type(name, span)?,
            CppTypeKind::Pointer(to) => match &to.kind {
                CppTypeKind::Function { .. } => self.resolve_type(to)?,
                _ => CType::Pointer(Box::new(self.resolve_type(to)?)),
            },
            CppTypeKind::Reference(to) | CppTypeKind::RvalueReference(to) => {
                let to = match self.deduced_for_reference(to) {
                    Some(ty) => ty,
                    None => self.resolve_type(to)?,
                };
                CType::Reference(Box::new(to.referent().clone()))
            }
            CppTypeKind::Array { element, length } => {
                let element = self.resolve_type(element)?;
                let length = match length {
                    Some(length) => Some(self.array_length(length)?),
                    None => None,
                };
                CType::Array(Box::new(element), length)
            }
            CppTypeKind::Auto => return refuse("`auto` without an initializer", span, "write the type"),
            CppTypeKind::Decltype { value, gives_reference } => self.decltype(value, *gives_reference)?,
            CppTypeKind::Function { result, params } => {
                CType::FunctionPointer(Box::new(self.function_type(result, params)?))
            }
            CppTypeKind::MemberPointer { .. } => return refuse("a pointer to a member", span, ""),
            CppTypeKind::Record(record) => match self.local_record(record) {
                Some(id) => CType::Record(self.instantiate_record(id, vec![], span)?),
                None => return refuse("a record that is defined here", span, "give it a name"),
            },
            CppTypeKind::Enum(decl) => match self.t.program.enum_id(decl) {
                Some(id) => self.enum_type(id)?,
                None => return refuse("an enum that is defined here", span, "define it outside of the function"),
            },
        })
    }

    /// Returns the type that `decltype` gives. References are refused: their variables would be copies.
    fn decltype(&mut self, value: &'a CppExpr, gives_reference: bool) -> Res<CType> {
        let is_reference = match &value.kind {
            CppExprKind::Name(name) if !gives_reference => match name.segments.as_slice() {
                [only] => match self.find_local(&only.name.text) {
                    Some(Local::Alias(_)) => true,
                    Some(Local::Variable { key, .. }) => self.variables.references.contains(key),
                    _ => false,
                },
                _ => false,
            },
            _ => gives_reference && self.is_lvalue(value)?,
        };
        if is_reference {
            return refuse("`decltype` of a reference", value.span, "write the type, or `auto`");
        }
        self.type_of(value)
    }

    pub(crate) fn local_record(&mut self, record: &'a crate::ast::CppRecord) -> Option<usize> {
        if self.t.program.record_id(record).is_none() {
            let scope = self.scope.clone();
            self.t.program.add_record(record, &scope);
        }
        self.t.program.record_id(record)
    }

    fn array_length(&mut self, length: &'a CppExpr) -> Res<u64> {
        let value = self.constant_value(length)?;
        match value {
            Some(n) if (0..=i128::from(u32::MAX)).contains(&n) => Ok(n as u64),
            Some(_) => refuse("an array of this length", length.span, ""),
            None => refuse("an array whose length is not a constant", length.span, "use a constant length"),
        }
    }

    /// Returns the value of an integer constant expression; `None` if it is not constant.
    pub(crate) fn constant_value(&mut self, expr: &'a CppExpr) -> Res<Option<i128>> {
        let (value, _) = self.nested(|lower| lower.rvalue(expr))?;
        Ok(value.constant_int())
    }

    fn resolve_named_type(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<CType> {
        if let [only] = name.segments.as_slice() {
            if let Some(Local::Type(ty)) = self.find_local(&only.name.text) {
                return Ok(ty.clone());
            }
            self.refuse_possible_reference(&only.name.text, span)?;
            match self.template_value(&only.name.text) {
                Some(TemplateValue::Type(ty)) => return Ok(ty.clone()),
                Some(_) => return refuse(format!("`{}` as a type", only.name.text), span, ""),
                None => {}
            }
        }
        if let Some(ty) = self.named_type(name, span)? {
            return Ok(ty);
        }
        if let Some(ty) = self.known_type(name, span)? {
            return Ok(ty);
        }
        let text: Vec<_> = name.segments.iter().map(|segment| segment.name.text.as_str()).collect();
        refuse(format!("the type `{}`", text.join("::")), span, "only types that this file or the CUDA headers define")
    }

    /// Returns the type deduced for a parameter of type `T&&`, if `ty` names it. A reference to it is the same type
    /// whether it is a reference or not.
    fn deduced_for_reference(&self, ty: &CppType) -> Option<CType> {
        let CppTypeKind::Named(name) = &ty.kind else { return None };
        let [only] = name.segments.as_slice() else { return None };
        self.template_value(&may_be_reference(&only.name.text))?;
        match self.template_value(&only.name.text) {
            Some(TemplateValue::Type(ty)) => Some(ty.clone()),
            _ => None,
        }
    }

    /// Refuses a type that is a reference in C++ if the argument of the function is an lvalue. `T u = x` is not a copy
    /// then.
    pub(crate) fn refuse_possible_reference(&self, name: &str, span: SourceSpan) -> Res<()> {
        if self.template_value(&may_be_reference(name)).is_none() {
            return Ok(());
        }
        let construct = format!("the type `{name}` of a parameter `{name}&&`, which may be a reference");
        refuse(construct, span, &format!("use `auto`, or a parameter of type `{name}` or `const {name}&`"))
    }

    pub(crate) fn named_or_known_type(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<Option<CType>> {
        match self.named_type(name, span)? {
            Some(ty) => Ok(Some(ty)),
            None => self.known_type(name, span),
        }
    }

    /// Returns the type that a declaration of the file gives a name; `None` if there is none.
    fn named_type(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<Option<CType>> {
        if let Some((class, members)) = self.class_member(name)? {
            return self.member_type(class, &members, name, span);
        }
        let scope = self.scope.clone();
        let mut symbols = self.t.program.find_name(name, &scope).to_vec();
        // `typedef struct T T;`: the struct is not its own alias.
        symbols.sort_by_key(|symbol| matches!(symbol, Symbol::Alias(_)));
        let args = name.segments.last().and_then(|segment| segment.args.as_deref());
        for symbol in symbols {
            match symbol {
                Symbol::Record(id) => return Ok(Some(CType::Record(self.named_class(id, args, span)?))),
                Symbol::Enum(id) => return Ok(Some(self.enum_type(id)?)),
                Symbol::Alias(id) => return Ok(Some(self.aliased_type(id, args, span)?)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Returns the class that the name of a definition means. `args` are the template arguments after the name. Within
    /// a class template, its own name means the instance.
    pub(crate) fn named_class(
        &mut self,
        id: usize,
        args: Option<&'a [CppTemplateArg]>,
        span: SourceSpan,
    ) -> Res<RecordId> {
        if args.is_none()
            && self.t.program.records[id].record.template.is_some()
            && let Some(CType::Record(own)) = self.this.as_ref().map(|this| &this.ty)
            && self.t.program.primary_template(self.t.record(*own).decl) == self.t.program.primary_template(id)
        {
            return Ok(*own);
        }
        self.require_unspecialized(&self.t.program.records[id].scope, span)?;
        self.class_instance(id, args, span)
    }

    /// Returns the type that an alias means. `args` are the template arguments after its name.
    pub(crate) fn aliased_type(
        &mut self,
        id: usize,
        args: Option<&'a [CppTemplateArg]>,
        span: SourceSpan,
    ) -> Res<CType> {
        let (alias, scope) = self.t.program.aliases[id].clone();
        self.require_unspecialized(&scope, span)?;
        let env = match &alias.template {
            Some(header) => self.marked_args(header, args.unwrap_or(&[]), span)?,
            None => self.env.clone(),
        };
        self.in_context(env, scope, |lower| lower.resolve_type(&alias.ty))
    }

    /// Returns the type that a class declares as a member.
    fn member_type(
        &mut self,
        class: RecordId,
        members: &[Symbol],
        name: &'a QualifiedName,
        span: SourceSpan,
    ) -> Res<Option<CType>> {
        let args = name.segments.last().and_then(|segment| segment.args.as_deref());
        let (env, scope) = (self.t.record(class).env.clone(), self.t.record(class).scope.clone());
        for &symbol in members {
            match symbol {
                Symbol::Alias(id) => {
                    let alias = self.t.program.aliases[id].0;
                    let env = match &alias.template {
                        Some(header) => [env, self.marked_args(header, args.unwrap_or(&[]), span)?].concat(),
                        None => env,
                    };
                    return Ok(Some(self.in_context(env, scope, |lower| lower.resolve_type(&alias.ty))?));
                }
                Symbol::Enum(id) => return Ok(Some(self.in_context(env, scope, |lower| lower.enum_type(id))?)),
                Symbol::Record(id) if env.is_empty() => {
                    return Ok(Some(CType::Record(self.class_instance(id, args, span)?)));
                }
                Symbol::Record(_) => return refuse("a class in a class template", span, "define it outside"),
                _ => {}
            }
        }
        Ok(None)
    }

    /// Refuses a name that means a member of a class template with specializations outside of the class: only a
    /// qualified name tells which one.
    pub(crate) fn require_unspecialized(&self, scope: &[SmolStr], span: SourceSpan) -> Res<()> {
        let Some((class, outer)) = scope.split_last() else { return Ok(()) };
        let is_record = |symbol: &Symbol| match symbol {
            Symbol::Record(id) => self.t.program.records[*id].record.template_args.is_some(),
            _ => false,
        };
        if !self.scope.starts_with(scope) && self.t.program.in_namespace(outer, class).iter().any(is_record) {
            let construct = format!("a member of the class template `{class}`, which has specializations");
            return refuse(construct, span, "use overloaded functions, or classes without a template");
        }
        Ok(())
    }

    /// Returns the value of a type trait: `std::is_same<A, B>::value` or `std::is_same_v<A, B>`.
    pub(crate) fn type_trait(&mut self, name: &'a QualifiedName) -> Res<Option<bool>> {
        let class = match name.segments.as_slice() {
            [.., class, last] if last.name.text == "value" => class,
            [.., class] if class.name.text.ends_with("_v") => class,
            _ => return Ok(None),
        };
        let Some(args) = class.args.as_deref() else { return Ok(None) };
        let mut types = vec![];
        for arg in args {
            let TemplateValue::Type(ty) = self.template_arg(arg)? else { return Ok(None) };
            types.push(ty);
        }
        Ok(match (class.name.text.trim_end_matches("_v"), types.as_slice()) {
            ("is_same", [a, b]) => {
                // Types have no qualifiers here: `const float` and `float` are equal but not the same.
                if a == b && args.iter().any(|arg| self.may_be_qualified(arg)) {
                    return refuse("`std::is_same` of types that may be `const`", name.span, "use `std::remove_cv_t`");
                }
                Some(a == b)
            }
            ("is_integral", [ty]) => Some(matches!(ty, CType::Bool | CType::Int(_))),
            ("is_floating_point", [ty]) => Some(*ty == super::types::FLOAT || *ty == super::types::DOUBLE),
            ("is_arithmetic", [ty]) => Some(
                matches!(ty, CType::Bool | CType::Int(_)) || *ty == super::types::FLOAT || *ty == super::types::DOUBLE,
            ),
            ("is_pointer", [ty]) => Some(matches!(ty, CType::Pointer(_))),
            _ => None,
        })
    }

    fn may_be_qualified(&self, arg: &CppTemplateArg) -> bool {
        match arg {
            CppTemplateArg::Type(ty) => self.type_may_be_qualified(ty),
            CppTemplateArg::Value(expr) => match &expr.kind {
                CppExprKind::Name(name) => self.name_may_be_qualified(name),
                _ => true,
            },
            CppTemplateArg::Pack(_) => true,
        }
    }

    fn type_may_be_qualified(&self, ty: &CppType) -> bool {
        if ty.qualifiers.is_const || ty.qualifiers.volatile {
            return true;
        }
        match &ty.kind {
            CppTypeKind::Basic(_) => false,
            CppTypeKind::Named(name) => self.name_may_be_qualified(name),
            _ => true,
        }
    }

    pub(crate) fn name_may_be_qualified(&self, name: &QualifiedName) -> bool {
        if let [only] = name.segments.as_slice()
            && self.template_value(&only.name.text).is_some()
        {
            return self.template_value(&may_be_const(&only.name.text)).is_some();
        }
        self.t.program.find_name(name, &self.scope).iter().any(|symbol| match symbol {
            Symbol::Alias(id) => self.type_may_be_qualified(&self.t.program.aliases[*id].0.ty),
            _ => false,
        })
    }

    /// Evaluates a template argument.
    pub(crate) fn template_arg(&mut self, arg: &'a CppTemplateArg) -> Res<TemplateValue> {
        match arg {
            CppTemplateArg::Type(ty) => Ok(TemplateValue::Type(self.resolve_type(ty)?)),
            CppTemplateArg::Value(expr) => {
                // A name may be a type that the parser does not know.
                if let CppExprKind::Name(name) = &expr.kind {
                    if let [only] = name.segments.as_slice()
                        && let Some(value) = self.template_value(&only.name.text).cloned()
                    {
                        self.refuse_possible_reference(&only.name.text, expr.span)?;
                        return Ok(value);
                    }
                    if let Some(ty) = self.named_type(name, expr.span)? {
                        return Ok(TemplateValue::Type(ty));
                    }
                    if let Some(ty) = self.known_type(name, expr.span)? {
                        return Ok(TemplateValue::Type(ty));
                    }
                }
                let (value, _) = self.nested(|lower| lower.rvalue(expr))?;
                match value.constant_int() {
                    Some(number) => Ok(TemplateValue::Int(number, value.ty)),
                    None => refuse("a template argument that is not a constant", expr.span, "use a constant"),
                }
            }
            CppTemplateArg::Pack(arg) => self.template_arg(arg),
        }
    }

    /// Binds explicit template arguments, and defaults for the others.
    pub(crate) fn explicit_args(
        &mut self,
        header: &'a TemplateHeader,
        args: &'a [CppTemplateArg],
        span: SourceSpan,
    ) -> Res<TemplateArgs> {
        let mut env: TemplateArgs = vec![];
        for (at, param) in header.params.iter().enumerate() {
            let name = param.name.as_ref().map_or(SmolStr::from(""), |name| name.text.clone());
            if param.pack {
                return refuse("a parameter pack", span, "write the parameters one by one");
            }
            let value = match args.get(at) {
                Some(arg) => self.template_arg(arg)?,
                None => match self.template_default(&param.kind, &env)? {
                    Some(value) => value,
                    None => return refuse(format!("a template without an argument for `{name}`"), span, ""),
                },
            };
            let value = match (&param.kind, value) {
                (TemplateParamKind::Value { ty, .. }, TemplateValue::Int(number, own)) => {
                    let outer = std::mem::replace(&mut self.env, env.clone());
                    let resolved = self.resolve_type(ty);
                    self.env = outer;
                    let ty = resolved.unwrap_or(own);
                    let number = ty.scalar().map_or(number, |scalar| scalar.wrap(number));
                    TemplateValue::Int(number, ty)
                }
                (_, value) => value,
            };
            env.push((name, value));
        }
        Ok(env)
    }

    /// Chooses template arguments for a kernel that no code of the file instantiates: `ty` for types without a
    /// default, 32 for integers, false for bools. Also returns a sentence that states the choice.
    pub(crate) fn representative_args(
        &mut self,
        header: &'a TemplateHeader,
        ty: &CType,
        span: SourceSpan,
    ) -> Res<(TemplateArgs, String)> {
        let mut env: TemplateArgs = vec![];
        let mut texts = vec![];
        for param in &header.params {
            let name = param.name.as_ref().map_or(SmolStr::from(""), |name| name.text.clone());
            if param.pack {
                return refuse("a parameter pack", span, "write the parameters one by one");
            }
            let value = match (self.template_default(&param.kind, &env), &param.kind) {
                (Ok(Some(value)), _) => value,
                (_, TemplateParamKind::Type { .. }) => TemplateValue::Type(ty.clone()),
                (_, TemplateParamKind::Value { ty, .. }) => {
                    let mut before = self.env.clone();
                    before.extend(env.iter().cloned());
                    let scope = self.scope.clone();
                    match self.in_context(before, scope, |lower| lower.resolve_type(ty))? {
                        CType::Bool => TemplateValue::Int(0, CType::Bool),
                        ty if ty.is_integer() => TemplateValue::Int(32, ty),
                        _ => return refuse(format!("the template parameter `{name}`"), span, ""),
                    }
                }
                (_, TemplateParamKind::Template) => {
                    return refuse("a template as a template argument", span, "pass a type");
                }
            };
            let text = match &value {
                TemplateValue::Type(ty) => self.t.type_text(ty),
                TemplateValue::Int(number, CType::Bool) => (*number != 0).to_string(),
                TemplateValue::Int(number, _) => number.to_string(),
            };
            texts.push(format!("`{name} = {text}`"));
            env.push((name, value));
        }
        Ok((env, format!("the template has these arguments, since the file has no launch of it: {}", texts.join(", "))))
    }

    /// Returns the default of a template parameter, which may use the parameters before it.
    pub(crate) fn template_default(
        &mut self,
        kind: &'a TemplateParamKind,
        before: &TemplateArgs,
    ) -> Res<Option<TemplateValue>> {
        let mut env = self.env.clone();
        env.extend(before.iter().cloned());
        let scope = self.scope.clone();
        self.in_context(env, scope, |lower| match kind {
            TemplateParamKind::Type { default: Some(ty) } => Ok(Some(TemplateValue::Type(lower.resolve_type(ty)?))),
            TemplateParamKind::Value { ty, default: Some(value) } => {
                let ty = lower.resolve_type(ty)?;
                let number = lower.constant_value(value)?;
                Ok(number.map(|number| TemplateValue::Int(number, ty)))
            }
            _ => Ok(None),
        })
    }

    pub(crate) fn enum_type(&mut self, id: usize) -> Res<CType> {
        let (decl, scope) = self.t.program.enums[id].clone();
        let kind = match &decl.underlying {
            Some(ty) => {
                let env = self.env.clone();
                match self.in_context(env, scope, |lower| lower.resolve_type(ty))? {
                    CType::Int(kind) => kind,
                    CType::Bool => IntKind::UnsignedChar,
                    _ => IntKind::Int,
                }
            }
            None if decl.scoped => IntKind::Int,
            None => {
                // The type of promoted values. The underlying type of GCC and nvcc may be its unsigned counterpart,
                // but that makes no difference to values that the enum can have.
                let values = self.enum_values(id)?;
                let fits = |kind: &IntKind| {
                    let (low, high) = kind.scalar().limits();
                    values.iter().all(|value| (low..=high).contains(value))
                };
                let kinds = [IntKind::Int, IntKind::UnsignedInt, IntKind::Long];
                kinds.into_iter().find(fits).unwrap_or(IntKind::UnsignedLong)
            }
        };
        Ok(CType::Enum(id, kind))
    }

    /// Returns the values of all enumerators.
    pub(crate) fn enum_values(&mut self, id: usize) -> Res<Vec<i128>> {
        // The values may depend on the arguments of a class template around the enum.
        let key = (id, format!("{:?}", self.env));
        if let Some(values) = self.t.enum_values.get(&key) {
            return Ok(values.clone());
        }
        let (decl, scope) = self.t.program.enums[id].clone();
        let mut values: Vec<i128> = vec![];
        // Enumerators may use those before them.
        self.t.enum_values.insert(key.clone(), vec![]);
        for enumerator in decl.enumerators.iter().flatten() {
            let value = match &enumerator.value {
                Some(expr) => {
                    let env = self.env.clone();
                    let scope = scope.clone();
                    match self.in_context(env, scope, |lower| lower.constant_value(expr))? {
                        Some(value) => value,
                        None => return refuse("an enumerator that is not a constant", expr.span, ""),
                    }
                }
                None => values.last().map_or(0, |last| last + 1),
            };
            values.push(value);
            self.t.enum_values.insert(key.clone(), values.clone());
        }
        Ok(values)
    }

    /// Returns a type of the CUDA headers or the standard library.
    fn known_type(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<Option<CType>> {
        let Some(last) = header_name(name) else { return Ok(None) };
        if let Some(ty) = header_type(last) {
            return Ok(Some(ty));
        }
        let args = name.segments.last().and_then(|segment| segment.args.as_deref()).unwrap_or(&[]);
        Ok(Some(match last.as_str() {
            "thread_block" => CType::Group(GroupKind::Block),
            "grid_group" => CType::Group(GroupKind::Grid),
            "thread_block_tile" => {
                let Some(first) = args.first() else { return Ok(None) };
                match self.template_arg(first)? {
                    TemplateValue::Int(lanes, _) if matches!(lanes, 1 | 2 | 4 | 8 | 16 | 32) => {
                        CType::Group(GroupKind::Tile(lanes as u32))
                    }
                    _ => return refuse("a tile of more than one warp", span, "use tiles of at most 32 threads"),
                }
            }
            "plus" | "less" | "greater" | "bit_and" | "bit_or" | "bit_xor" => CType::Functor(last.clone()),
            "nullptr_t" => CType::Null,
            _ => return Ok(None),
        }))
    }

    /// Returns the instance of a record for template arguments.
    pub(crate) fn instantiate_record(&mut self, decl: usize, env: TemplateArgs, span: SourceSpan) -> Res<RecordId> {
        let values = env.iter().filter(|(name, _)| !is_mark(name));
        let args = values.map(|(_, value)| value.clone()).collect();
        self.specialized_record(decl, env, args, span)
    }

    /// Returns the instance of a specialization. `env` has the arguments of the specialization's own parameters; `args`
    /// are the arguments of the class template. For `S<T*>` and `S<float*>`, these are `float` and `float*`.
    pub(crate) fn specialized_record(
        &mut self,
        decl: usize,
        env: TemplateArgs,
        args: Vec<TemplateValue>,
        span: SourceSpan,
    ) -> Res<RecordId> {
        let key = format!("{decl} {env:?}");
        if let Some(id) = self.t.record_keys.get(&key) {
            return Ok(*id);
        }
        let result = self.new_record(&key, decl, (env, args), span);
        if result.is_err() {
            // The next kernel that uses the record is refused as well.
            self.t.record_keys.remove(&key);
        }
        result
    }

    fn new_record(
        &mut self,
        key: &str,
        decl: usize,
        (env, args): (TemplateArgs, Vec<TemplateValue>),
        span: SourceSpan,
    ) -> Res<RecordId> {
        let entry = self.t.program.records[decl].clone();
        let record = entry.record;
        let is_union = record.kind == crate::ast::RecordKind::Union;
        let align = match &record.align {
            None => 1,
            Some(align) => {
                let (env, scope) = (env.clone(), entry.scope.clone());
                let align = self.in_context(env, scope, |lower| lower.constant_value(align))?;
                match align.and_then(|align| u64::try_from(align).ok()).filter(|align| align.is_power_of_two()) {
                    Some(align) => align,
                    None => return refuse("an alignment that is not a power of two", span, "write the number"),
                }
            }
        };
        let name = record.name.as_ref().map_or(SmolStr::from("Record"), |name| name.text.clone());
        let scope = self.t.program.member_scope(decl);
        let named: TemplateArgs = args.iter().map(|value| (SmolStr::default(), value.clone())).collect();
        let wanted = format!("{name}{}", self.t.template_suffix(if record.template.is_some() { &named } else { &env }));
        let clk = self.t.item_name(&wanted);
        let id = RecordId(self.t.records.len());
        self.t.record_keys.insert(key.to_string(), id);
        self.t.records.push(RecordInfo {
            decl,
            env: env.clone(),
            args,
            clk,
            fields: vec![],
            scope: scope.clone(),
            bases: vec![],
            align,
            packed: record.packed,
            is_union,
            field_count: None,
            emitted: false,
            closure: None,
        });
        let mut fields: Vec<RecordField<'a>> = vec![];
        let mut bases = vec![];
        for base in &record.bases {
            if base.is_virtual {
                return refuse("a virtual base class", span, "");
            }
            let env = env.clone();
            let scope = scope.clone();
            match self.in_context(env, scope, |lower| lower.resolve_named_type(&base.name, base.name.span))? {
                CType::Record(base) => {
                    fields.extend(self.t.record(base).fields.clone());
                    bases.push(base);
                }
                other => return refuse(format!("{} as a base class", self.t.describe(&other)), span, ""),
            }
        }
        for member in record.members.iter().flatten() {
            match &member.decl.kind {
                CppDeclKind::Variables(decl) if !decl.attributes.is_static && !decl.attributes.constexpr => {
                    for variable in &decl.variables {
                        let VariableName::Plain(name) = &variable.name else {
                            return refuse("an unnamed bit field", variable.span, "give it a name");
                        };
                        if variable.bits.is_some() {
                            return refuse("a bit field", variable.span, "use shifts and masks");
                        }
                        let env = env.clone();
                        let scope = scope.clone();
                        let ty = self.in_context(env, scope, |lower| lower.resolve_type(&variable.ty))?;
                        if let CType::Reference(_) = ty {
                            return refuse("a reference in a struct", variable.span, "pass it as a parameter");
                        }
                        let clk = clk_name(&name.text);
                        let init = match &variable.init {
                            crate::ast::CppInit::None => None,
                            init => Some(init),
                        };
                        fields.push(RecordField { name: name.text.clone(), clk, ty, init });
                    }
                }
                CppDeclKind::Record(inner) if inner.name.is_none() => {
                    return refuse("an unnamed struct or union in a struct", inner.span, "give the member a name");
                }
                CppDeclKind::Function(function) if function.attributes.is_virtual => {
                    return refuse("a virtual function", function.name_span, "use templates or an `if`");
                }
                _ => {}
            }
        }
        self.t.records[id.0].fields = fields;
        self.t.records[id.0].bases = bases;
        self.t.records[id.0].field_count = Some(self.count_fields(id, span)?);
        self.check_special_members(id)?;
        Ok(id)
    }

    /// Returns the number of numbers and pointers in an object, at all depths.
    pub(crate) fn count_fields(&self, id: RecordId, span: SourceSpan) -> Res<u64> {
        let record = self.t.record(id);
        let mut count = 0u64;
        let inner = |id: RecordId| match self.t.record(id).field_count {
            Some(count) => Ok(count),
            None => refuse("a struct that contains itself", span, "use an index"),
        };
        for base in &record.bases {
            inner(*base)?;
        }
        for field in &record.fields {
            count = count.saturating_add(match field.ty.leaf() {
                CType::Record(id) => inner(*id)?,
                _ => 1,
            });
        }
        match count > MAX_FIELDS {
            true => refuse(format!("a struct of more than {MAX_FIELDS} fields"), span, "use arrays"),
            false => Ok(count),
        }
    }
}
