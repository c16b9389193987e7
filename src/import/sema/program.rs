//! The declarations of a file by name: functions, records, enums, aliases and variables, in their namespaces.

use crate::ast::{
    CppAlias, CppDecl, CppDeclKind, CppEnum, CppExprKind, CppFunction, CppName, CppRecord, CppTemplateArg, CppType,
    CppTypeKind, CppVariable, FunctionBody, FunctionName, NameSegment, QualifiedName, Refusal, VariableDecl,
    VariableName,
};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

/// A namespace or class: the names from the outermost to the innermost.
pub(crate) type ScopePath = Vec<SmolStr>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Symbol {
    Function(usize),
    Record(usize),
    Enum(usize),
    Alias(usize),
    Variable(usize),
    Enumerator(usize, usize),
}

#[derive(Clone, Debug)]
pub(crate) struct FunctionDecl<'a> {
    pub(crate) function: &'a CppFunction,
    pub(crate) scope: ScopePath,
    /// The record whose method it is.
    pub(crate) record: Option<usize>,
    pub(crate) name: SmolStr,
}

#[derive(Clone, Debug)]
pub(crate) struct RecordDecl<'a> {
    pub(crate) record: &'a CppRecord,
    pub(crate) scope: ScopePath,
}

#[derive(Clone, Debug)]
pub(crate) struct VariableEntry<'a> {
    pub(crate) decl: &'a VariableDecl,
    pub(crate) variable: &'a CppVariable,
    pub(crate) name: SmolStr,
    pub(crate) scope: ScopePath,
}

/// All declarations of a file.
#[derive(Default)]
pub(crate) struct Program<'a> {
    pub(crate) functions: Vec<FunctionDecl<'a>>,
    pub(crate) records: Vec<RecordDecl<'a>>,
    pub(crate) enums: Vec<(&'a CppEnum, ScopePath)>,
    pub(crate) aliases: Vec<(&'a CppAlias, ScopePath)>,
    pub(crate) variables: Vec<VariableEntry<'a>>,
    /// Functions that do not parse.
    pub(crate) refused: Vec<(SmolStr, bool, &'a Refusal)>,
    /// Explicit instantiations, `template void f<float>(float*);`.
    pub(crate) instantiations: Vec<(&'a CppFunction, ScopePath)>,
    symbols: FxHashMap<String, Vec<Symbol>>,
    /// Functions and methods by name, whatever their scope.
    named_functions: FxHashMap<SmolStr, Vec<usize>>,
    /// Namespaces whose names are visible everywhere: unnamed ones, inline ones, and operands of `using namespace`.
    open: Vec<String>,
    namespace_aliases: FxHashMap<SmolStr, Vec<SmolStr>>,
    /// Class templates that are declared without a body, by path.
    declared_templates: FxHashMap<String, &'a CppRecord>,
}

fn joined(scope: &[SmolStr], name: &str) -> String {
    let mut path = scope.join("::");
    if !path.is_empty() {
        path.push_str("::");
    }
    path.push_str(name);
    path
}

/// Returns the name by which a function is found.
pub(crate) fn function_key(name: &FunctionName) -> SmolStr {
    match name {
        FunctionName::Plain(name) => name.clone(),
        FunctionName::Operator(op) => SmolStr::from(format!("operator{op}")),
        FunctionName::Conversion => SmolStr::from("operator conversion"),
        FunctionName::Constructor(_) => SmolStr::from("constructor"),
        FunctionName::Destructor(_) => SmolStr::from("destructor"),
    }
}

/// Returns the name if a template argument is a plain name, such as that of a template parameter.
pub(super) fn argument_name(arg: &CppTemplateArg) -> Option<&SmolStr> {
    let name = match arg {
        CppTemplateArg::Type(ty) => match &ty.kind {
            CppTypeKind::Named(name) => name,
            _ => return None,
        },
        CppTemplateArg::Value(expr) => match &expr.kind {
            CppExprKind::Name(name) => name,
            _ => return None,
        },
        CppTemplateArg::Pack(_) => return None,
    };
    match name.segments.as_slice() {
        [only] if only.args.is_none() => Some(&only.name.text),
        _ => None,
    }
}

/// Returns whether two template arguments are written alike. False for forms that it does not know.
fn same_argument(a: &CppTemplateArg, b: &CppTemplateArg) -> bool {
    fn same_type(a: &CppType, b: &CppType) -> bool {
        a.qualifiers == b.qualifiers
            && match (&a.kind, &b.kind) {
                (CppTypeKind::Basic(a), CppTypeKind::Basic(b)) => a == b,
                (CppTypeKind::Pointer(a), CppTypeKind::Pointer(b))
                | (CppTypeKind::Reference(a), CppTypeKind::Reference(b)) => same_type(a, b),
                (CppTypeKind::Named(a), CppTypeKind::Named(b)) => {
                    match (a.segments.as_slice(), b.segments.as_slice()) {
                        ([a], [b]) => {
                            let args = a.args.iter().flatten().zip(b.args.iter().flatten());
                            let count = |segment: &NameSegment| segment.args.as_ref().map(Vec::len);
                            a.name.text == b.name.text
                                && count(a) == count(b)
                                && args.into_iter().all(|(a, b)| same_argument(a, b))
                        }
                        _ => false,
                    }
                }
                _ => false,
            }
    }
    if let (Some(a), Some(b)) = (argument_name(a), argument_name(b)) {
        return a == b;
    }
    match (a, b) {
        (CppTemplateArg::Type(a), CppTemplateArg::Type(b)) => same_type(a, b),
        (CppTemplateArg::Value(a), CppTemplateArg::Value(b)) => match (&a.kind, &b.kind) {
            (CppExprKind::Int(a), CppExprKind::Int(b)) => a.value == b.value,
            (CppExprKind::Bool(a), CppExprKind::Bool(b)) => a == b,
            _ => false,
        },
        _ => false,
    }
}

impl<'a> Program<'a> {
    pub(crate) fn new(decls: &'a [CppDecl]) -> Program<'a> {
        let mut program = Program::default();
        program.add_all(decls, &[], None);
        program
    }

    fn define(&mut self, scope: &[SmolStr], name: &str, symbol: Symbol) {
        self.symbols.entry(joined(scope, name)).or_default().push(symbol);
    }

    /// Returns whether the file declares a name in any scope.
    pub(crate) fn declares(&self, name: &str) -> bool {
        self.symbols.keys().any(|path| path.rsplit("::").next() == Some(name))
    }

    fn add_all(&mut self, decls: &'a [CppDecl], scope: &[SmolStr], record: Option<usize>) {
        for decl in decls {
            self.add(decl, scope, record);
        }
    }

    fn add(&mut self, decl: &'a CppDecl, scope: &[SmolStr], record: Option<usize>) {
        match &decl.kind {
            CppDeclKind::Function(function) => self.add_function(function, scope, record),
            CppDeclKind::Variables(decl) => {
                for variable in &decl.variables {
                    self.add_types_of(&variable.ty.kind, scope);
                    // Fields are found through their record.
                    if record.is_some() && !decl.attributes.is_static && !decl.attributes.constexpr {
                        continue;
                    }
                    if let VariableName::Plain(name) = &variable.name {
                        self.variables.push(VariableEntry {
                            decl,
                            variable,
                            name: name.text.clone(),
                            scope: scope.to_vec(),
                        });
                        self.define(scope, &name.text, Symbol::Variable(self.variables.len() - 1));
                    }
                }
            }
            CppDeclKind::Record(record) => self.add_record(record, scope),
            CppDeclKind::Enum(decl) => self.add_enum(decl, scope),
            CppDeclKind::Alias(alias) => {
                self.add_types_of(&alias.ty.kind, scope);
                self.aliases.push((alias, scope.to_vec()));
                self.define(scope, &alias.name.text, Symbol::Alias(self.aliases.len() - 1));
            }
            CppDeclKind::Namespace { name, inline, decls } => {
                let mut inner = scope.to_vec();
                inner.push(name.as_ref().map_or(SmolStr::from("(unnamed)"), |name| name.text.clone()));
                if name.is_none() || *inline {
                    self.open.push(inner.join("::"));
                }
                self.add_all(decls, &inner, None);
            }
            CppDeclKind::NamespaceAlias { name, target } => {
                let path = target.segments.iter().map(|segment| segment.name.text.clone()).collect();
                self.namespace_aliases.insert(name.text.clone(), path);
            }
            CppDeclKind::LinkageBlock(decls) => self.add_all(decls, scope, record),
            CppDeclKind::UsingNamespace(target) => {
                let path: Vec<_> = target.segments.iter().map(|segment| segment.name.text.clone()).collect();
                self.open.push(path.join("::"));
            }
            CppDeclKind::UsingName(target) => {
                if let [outer @ .., _] = target.segments.as_slice() {
                    let path: Vec<_> = outer.iter().map(|segment| segment.name.text.clone()).collect();
                    self.open.push(path.join("::"));
                }
            }
            CppDeclKind::ExplicitInstantiation(function) => self.instantiations.push((function, scope.to_vec())),
            CppDeclKind::Friend(Some(decl)) => self.add(decl, &scope[..scope.len().saturating_sub(1)], None),
            CppDeclKind::Refused { name, kernel, refusal } => {
                let name = name.as_ref().map_or(SmolStr::from("(unknown)"), |name| name.text.clone());
                self.refused.push((name, *kernel, refusal));
            }
            CppDeclKind::Friend(None) | CppDeclKind::StaticAssert { .. } | CppDeclKind::Skipped => {}
        }
    }

    fn add_function(&mut self, function: &'a CppFunction, scope: &[SmolStr], record: Option<usize>) {
        let name = function_key(&function.name);
        let mut scope = scope.to_vec();
        let mut record = record;
        if let Some(outer) = &function.scope {
            let path: Vec<_> = outer.segments.iter().map(|segment| segment.name.text.clone()).collect();
            if let Some(&Symbol::Record(found)) = self.find(&path, &scope).first() {
                let Some(class) = self.class_of_definition(found, function, outer) else { return };
                record = Some(class);
                scope = self.member_scope(class);
            } else {
                scope.extend(path);
            }
        }
        let id = self.functions.len();
        self.functions.push(FunctionDecl { function, scope: scope.clone(), record, name: name.clone() });
        self.define(&scope, &name, Symbol::Function(id));
        self.named_functions.entry(name).or_default().push(id);
    }

    /// Returns the functions and methods of the whole file with a name, in the order of their declarations.
    pub(crate) fn functions_of_any_scope(&self, name: &str) -> &[usize] {
        self.named_functions.get(name).map_or(&[], Vec::as_slice)
    }

    fn add_types_of(&mut self, ty: &'a CppTypeKind, scope: &[SmolStr]) {
        match ty {
            CppTypeKind::Record(record) => self.add_record(record, scope),
            CppTypeKind::Enum(decl) => self.add_enum(decl, scope),
            CppTypeKind::Pointer(inner) | CppTypeKind::Array { element: inner, .. } => {
                self.add_types_of(&inner.kind, scope);
            }
            _ => {}
        }
    }

    pub(crate) fn add_record(&mut self, record: &'a CppRecord, scope: &[SmolStr]) {
        if let (None, Some(name)) = (&record.members, &record.name) {
            if record.template.is_some() && record.template_args.is_none() {
                self.declared_templates.entry(joined(scope, &name.text)).or_insert(record);
            }
            return;
        }
        if let (Some(_), Some(name)) = (&record.template_args, &record.name) {
            // The class template of a specialization may have no body.
            let is_new = !self.in_namespace(scope, &name.text).iter().any(|own| matches!(own, Symbol::Record(_)));
            if let Some(declared) = self.declared_templates.get(&joined(scope, &name.text)).filter(|_| is_new) {
                self.records.push(RecordDecl { record: declared, scope: scope.to_vec() });
                self.define(scope, &name.text, Symbol::Record(self.records.len() - 1));
            }
        }
        let id = self.records.len();
        self.records.push(RecordDecl { record, scope: scope.to_vec() });
        let name = record.name.as_ref().map_or(SmolStr::from(format!("(record {id})")), |name| name.text.clone());
        self.define(scope, &name, Symbol::Record(id));
        let inner = self.member_scope(id);
        for member in record.members.iter().flatten() {
            self.add(&member.decl, &inner, Some(id));
        }
    }

    /// Returns the scope of the members of a class. Each specialization of a class template has one of its own.
    pub(crate) fn member_scope(&self, id: usize) -> ScopePath {
        let entry = &self.records[id];
        let mut scope = entry.scope.clone();
        scope.push(match &entry.record.name {
            Some(name) if entry.record.template_args.is_some() => format!("{} (specialization {id})", name.text).into(),
            Some(name) => name.text.clone(),
            None => format!("(record {id})").into(),
        });
        scope
    }

    /// Returns the definitions of the class or class template of a definition.
    fn family(&self, id: usize) -> impl Iterator<Item = usize> + '_ {
        let entry = &self.records[id];
        let own = |symbol: &Symbol| match symbol {
            Symbol::Record(other) => Some(*other),
            _ => None,
        };
        let name = entry.record.name.as_ref();
        name.into_iter().flat_map(move |name| self.in_namespace(&entry.scope, &name.text).iter().filter_map(own))
    }

    /// Returns whether a class template of the file has a specialization.
    pub(crate) fn has_specializations(&self) -> bool {
        self.records.iter().any(|entry| entry.record.template_args.is_some())
    }

    /// Returns the specializations of a class template. `id` is the class template or one of its specializations.
    pub(crate) fn specializations(&self, id: usize) -> Vec<usize> {
        self.family(id).filter(|&id| self.records[id].record.template_args.is_some()).collect()
    }

    /// Returns the definition of a class template that is not a specialization.
    pub(crate) fn primary_template(&self, id: usize) -> Option<usize> {
        let is_primary = |id: &usize| self.records[*id].record.template_args.is_none();
        let has_body = |id: &usize| self.records[*id].record.members.is_some();
        self.family(id).filter(is_primary).find(has_body).or_else(|| self.family(id).find(is_primary))
    }

    /// Returns the class of a method that is defined outside of it: `S<T*>` of `S<T*>::f`.
    fn class_of_definition(&self, found: usize, function: &CppFunction, class: &QualifiedName) -> Option<usize> {
        let specializations = self.specializations(found);
        let args = class.segments.last().and_then(|last| last.args.as_deref());
        let (Some(args), false) = (args, specializations.is_empty()) else {
            return self.primary_template(found).or(Some(found));
        };
        let names = function.template.iter().flat_map(|header| &header.params).map(|param| param.name.as_ref());
        let is_own = |(arg, name): (&CppTemplateArg, Option<&CppName>)| {
            name.is_some_and(|name| argument_name(arg).is_some_and(|own| *own == name.text))
        };
        if names.clone().count() == args.len() && args.iter().zip(names).all(is_own) {
            return self.primary_template(found);
        }
        let is_same = |id: &usize| {
            let own = self.records[*id].record.template_args.as_deref().unwrap_or(&[]);
            own.len() == args.len() && own.iter().zip(args).all(|(a, b)| same_argument(a, b))
        };
        specializations.into_iter().find(is_same)
    }

    pub(crate) fn add_enum(&mut self, decl: &'a CppEnum, scope: &[SmolStr]) {
        let Some(enumerators) = &decl.enumerators else { return };
        let id = self.enums.len();
        self.enums.push((decl, scope.to_vec()));
        let mut inner = scope.to_vec();
        if let Some(name) = &decl.name {
            self.define(scope, &name.text, Symbol::Enum(id));
            inner.push(name.text.clone());
        }
        for (at, enumerator) in enumerators.iter().enumerate() {
            if decl.name.is_some() {
                self.define(&inner, &enumerator.name.text, Symbol::Enumerator(id, at));
            }
            if !decl.scoped {
                self.define(scope, &enumerator.name.text, Symbol::Enumerator(id, at));
            }
        }
    }

    /// Returns the id of a record declaration.
    pub(crate) fn record_id(&self, record: &CppRecord) -> Option<usize> {
        self.records.iter().position(|entry| std::ptr::eq(entry.record, record))
    }

    pub(crate) fn enum_id(&self, decl: &CppEnum) -> Option<usize> {
        self.enums.iter().position(|entry| std::ptr::eq(entry.0, decl))
    }

    /// Returns the declarations that a name denotes in a scope; the innermost scope that has the name wins.
    pub(crate) fn find(&self, path: &[SmolStr], scope: &[SmolStr]) -> &[Symbol] {
        let mut resolved = path.to_vec();
        if let [first, rest @ ..] = path
            && !rest.is_empty()
            && let Some(target) = self.namespace_aliases.get(first)
        {
            resolved = target.iter().chain(rest).cloned().collect();
        }
        let name = resolved.join("::");
        for depth in (0..=scope.len()).rev() {
            if let Some(found) = self.symbols.get(&joined(&scope[..depth], &name)) {
                return found;
            }
        }
        for open in &self.open {
            for depth in (0..=scope.len()).rev() {
                let full = joined(&scope[..depth], &format!("{open}::{name}"));
                if let Some(found) = self.symbols.get(&full) {
                    return found;
                }
            }
        }
        &[]
    }

    /// Looks up a name in the namespaces whose names are visible everywhere.
    pub(crate) fn in_open_namespaces(&self, name: &str) -> Vec<Symbol> {
        let found = self.open.iter().filter_map(|open| self.symbols.get(&format!("{open}::{name}")));
        found.flatten().copied().collect()
    }

    /// Looks up a name in a namespace.
    pub(crate) fn in_namespace(&self, namespace: &[SmolStr], name: &str) -> &[Symbol] {
        self.symbols.get(&joined(namespace, name)).map_or(&[], |found| found)
    }

    pub(crate) fn find_name(&self, name: &QualifiedName, scope: &[SmolStr]) -> &[Symbol] {
        let path: Vec<_> = name.segments.iter().map(|segment| segment.name.text.clone()).collect();
        self.find(&path, if name.global { &[] } else { scope })
    }

    /// Returns the definition of a function that was found by its declaration, if another declaration has the body.
    pub(crate) fn has_body(&self, id: usize) -> bool {
        !matches!(self.functions[id].function.body, FunctionBody::None | FunctionBody::Skipped(_))
    }
}
