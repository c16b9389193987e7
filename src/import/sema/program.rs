//! The declarations of a file by name: functions, records, enums, aliases and variables, in their namespaces.

use crate::ast::{
    CppAlias, CppDecl, CppDeclKind, CppEnum, CppFunction, CppRecord, CppTypeKind, CppVariable, FunctionBody,
    FunctionName, QualifiedName, Refusal, VariableDecl, VariableName,
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
            if let Some(Symbol::Record(found)) = self.find(&path, &scope).first() {
                record = Some(*found);
                scope = self.records[*found].scope.clone();
                scope.push(path.last().cloned().unwrap_or_default());
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
        let Some(members) = &record.members else { return };
        let id = self.records.len();
        self.records.push(RecordDecl { record, scope: scope.to_vec() });
        let name = record.name.as_ref().map_or(SmolStr::from(format!("(record {id})")), |name| name.text.clone());
        self.define(scope, &name, Symbol::Record(id));
        let mut inner = scope.to_vec();
        inner.push(name);
        for member in members {
            self.add(&member.decl, &inner, Some(id));
        }
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
