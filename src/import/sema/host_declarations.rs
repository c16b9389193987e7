//! Declarations of a file that decide what host code may change: its types, the fields of records, and how functions
//! take their arguments.

use super::host_values::{HostInt, HostTypes, last_name, template_names};
use crate::ast::*;
use clk_base::source::FileId;
use rustc_hash::{FxHashMap, FxHashSet};

/// What a function may do to a variable that is its argument. A later case includes the earlier ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ArgumentUse {
    /// It takes a copy.
    Copied,
    /// It may assign the variable until it returns.
    Changed,
    /// It may keep a reference, through which other code assigns the variable later.
    Kept,
}

/// The functions of a file with the same name.
#[derive(Clone, Debug)]
pub(super) struct HostFunction {
    /// The integer type that all of them return.
    pub(super) result: Option<HostInt>,
    params: Vec<ArgumentUse>,
    /// The use of arguments after the last parameter.
    rest: ArgumentUse,
}

impl HostFunction {
    pub(super) fn argument(&self, at: usize) -> ArgumentUse {
        self.params.get(at).copied().unwrap_or(self.rest)
    }
}

/// The declarations of a file that matter to host code. Names are without scopes, so several declarations may share
/// one; then the most general case applies.
#[derive(Default)]
pub(super) struct HostDeclarations<'a> {
    pub(super) types: HostTypes,
    pub(super) functions: FxHashMap<SmolStr, HostFunction>,
    /// Whether values of these types hold no references.
    is_plain: FxHashMap<SmolStr, bool>,
    /// Whether fields and variables of the file are plain.
    plain_members: FxHashMap<SmolStr, bool>,
    /// Whether an operator of the file may assign an operand or keep a reference to it.
    pub(super) has_assigning_operators: bool,
    /// Whether an operator of the file may return a `dim3`.
    pub(super) has_dim3_operators: bool,
    /// All identifiers of the file, in textual order.
    identifiers: Vec<(FileId, u32, &'a SmolStr)>,
}

/// Types of libraries whose values hold no references.
const PLAIN_TYPES: [&str; 24] = [
    "dim3",
    "string",
    "half",
    "__half",
    "half2",
    "__half2",
    "FILE",
    "ofstream",
    "ifstream",
    "ostringstream",
    "thread",
    "mutex",
    "int8_t",
    "uint8_t",
    "int16_t",
    "uint16_t",
    "uchar",
    "ushort",
    "clock_t",
    "time_t",
    "intptr_t",
    "uintptr_t",
    "timeval",
    "timespec",
];

/// Templates of libraries whose values hold no references if their arguments hold none.
const PLAIN_TEMPLATES: [&str; 16] = [
    "vector",
    "device_vector",
    "host_vector",
    "array",
    "pair",
    "tuple",
    "map",
    "set",
    "unordered_map",
    "list",
    "deque",
    "unique_ptr",
    "shared_ptr",
    "optional",
    "complex",
    "device_ptr",
];

impl<'a> HostDeclarations<'a> {
    pub(super) fn of(unit: &'a TranslationUnit, find_kept: &FindKept<'_, 'a>) -> HostDeclarations<'a> {
        let mut all = HostDeclarations::default();
        for (name, places) in &unit.identifiers {
            all.identifiers.extend(places.iter().map(|place| (place.span.file, place.span.start, name)));
        }
        all.identifiers.sort();
        let mut found = FileDeclarations::default();
        found.list(&unit.decls);
        // An alias may name another one.
        for _ in 0..3 {
            all.types.define(&found.aliases);
        }
        all.types.hide(found.records.iter().flat_map(|record| &record.name).chain(found.enums.iter().copied()));
        for name in found.enums {
            all.is_plain.insert(name.text.clone(), true);
        }
        all.list_types(&found.aliases, &found.records);
        for variable in found.variables {
            if let VariableName::Plain(name) = &variable.name {
                let is_plain = all.is_plain(&variable.ty, &FxHashSet::default());
                *all.plain_members.entry(name.text.clone()).or_insert(true) &= is_plain;
            }
        }
        all.list_functions(&found.functions, find_kept);
        all
    }

    fn list_types(&mut self, aliases: &[&'a CppAlias], records: &[&'a CppRecord]) {
        let none = FxHashSet::default();
        // Later declarations use earlier ones, except through pointers.
        for record in records {
            let Some(name) = &record.name else { continue };
            let is_plain = record.bases.is_empty()
                && record.template.is_none()
                && record.members.iter().flatten().all(|member| match &member.decl.kind {
                    CppDeclKind::Variables(decl) => {
                        decl.variables.iter().all(|variable| self.is_plain(&variable.ty, &none))
                    }
                    CppDeclKind::Function(function) => !matches!(function.name, FunctionName::Constructor(_)),
                    CppDeclKind::Alias(_) | CppDeclKind::Enum(_) => true,
                    _ => false,
                });
            // A declaration without a body says nothing.
            if record.members.is_some() {
                *self.is_plain.entry(name.text.clone()).or_insert(true) &= is_plain;
            }
        }
        for alias in aliases {
            let is_plain = alias.template.is_none() && self.is_plain(&alias.ty, &none);
            *self.is_plain.entry(alias.name.text.clone()).or_insert(true) &= is_plain;
        }
    }

    fn list_functions(&mut self, functions: &[&'a CppFunction], find_kept: &FindKept<'_, 'a>) {
        let mut uses: Vec<Vec<ArgumentUse>> = vec![];
        for function in functions {
            let hidden = template_names(function);
            uses.push(function.params.iter().map(|param| self.use_of_param(param, &hidden)).collect());
        }
        // Until the bodies are examined, a reference is kept.
        let insert = |own: &mut Self, function: &CppFunction, uses: &[ArgumentUse]| {
            let Some(name) = name_of(function) else { return };
            let result = own.types.int_of(&function.result, &template_names(function));
            let rest = if function.variadic { ArgumentUse::Copied } else { ArgumentUse::Kept };
            let known =
                own.functions.entry(name.clone()).or_insert_with(|| HostFunction { result, params: vec![], rest });
            if known.result != result {
                known.result = None;
            }
            known.rest = known.rest.max(rest);
            for (at, used) in uses.iter().enumerate() {
                match known.params.get_mut(at) {
                    Some(known) => *known = (*known).max(*used),
                    None => known.params.push(*used),
                }
            }
        };
        for (function, uses) in functions.iter().zip(&uses) {
            insert(self, function, uses);
        }
        for (function, uses) in functions.iter().zip(&mut uses) {
            self.examine_body(function, uses, find_kept);
        }
        for function in functions {
            let is_for_host = function.attributes.host || !(function.attributes.device || function.attributes.global);
            if let (FunctionName::Operator(_), true) = (&function.name, is_for_host) {
                self.list_operator(function, find_kept);
            }
        }
        // A definition is more precise than a declaration of the same function.
        let is_declared_only = |at: usize| {
            let own = functions[at];
            matches!(own.body, FunctionBody::None)
                && !functions.iter().any(|other| {
                    !matches!(other.body, FunctionBody::None)
                        && name_of(other) == name_of(own)
                        && have_same_params(&self.types, own, other)
                })
        };
        let remain: Vec<usize> = (0..functions.len())
            .filter(|at| !matches!(functions[*at].body, FunctionBody::None) || is_declared_only(*at))
            .collect();
        self.functions.clear();
        for at in remain {
            insert(self, functions[at], &uses[at]);
        }
    }

    fn list_operator(&mut self, function: &'a CppFunction, find_kept: &FindKept<'_, 'a>) {
        let hidden = &template_names(function);
        // A number is kept through a constant reference only if the body does so.
        let is_kept = |param: &CppParam| match (&function.body, &param.name) {
            (FunctionBody::Block(body), Some(name)) => {
                let found = find_kept(self, function, body);
                found.is_unclear || found.kept.contains(&name.text)
            }
            (FunctionBody::Block(_), None) => false,
            _ => true,
        };
        let mut assigns = false;
        let is_tracked = |ty: &CppType| match &ty.kind {
            CppTypeKind::Pointer(_) | CppTypeKind::Auto => true,
            CppTypeKind::Named(name) => {
                let name = last_name(name);
                hidden.contains(name)
                    || self.types.int_of(ty, hidden).is_some()
                    || matches!(name, "dim3" | "vector" | "device_vector" | "host_vector")
            }
            _ => self.types.int_of(ty, hidden).is_some(),
        };
        for param in &function.params {
            match &param.ty.kind {
                CppTypeKind::Reference(target) | CppTypeKind::RvalueReference(target) => {
                    assigns |= is_tracked(target) && (!target.qualifiers.is_const || is_kept(param));
                }
                _ => assigns |= param.pack,
            }
        }
        self.has_assigning_operators |= assigns;
        self.has_dim3_operators |= !matches!(&function.result.kind, CppTypeKind::Basic(_));
    }

    fn use_of_param(&self, param: &CppParam, hidden: &FxHashSet<SmolStr>) -> ArgumentUse {
        match &param.ty.kind {
            _ if param.pack => ArgumentUse::Kept,
            CppTypeKind::Reference(target) if target.qualifiers.is_const => match &target.kind {
                // A constant object is not assigned. A number may be, after a cast.
                CppTypeKind::Named(name)
                    if !hidden.contains(last_name(name)) && self.types.int_of(target, hidden).is_none() =>
                {
                    ArgumentUse::Copied
                }
                CppTypeKind::Basic(basic)
                    if self.types.int_of(target, hidden).is_none() && *basic != BasicType::Void =>
                {
                    ArgumentUse::Copied
                }
                _ => ArgumentUse::Kept,
            },
            CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_) => ArgumentUse::Kept,
            // The type of a template parameter that is deduced from a value is no reference.
            CppTypeKind::Named(name) if hidden.contains(last_name(name)) => ArgumentUse::Copied,
            CppTypeKind::Auto | CppTypeKind::Function { .. } => ArgumentUse::Copied,
            // A conversion to a class may keep a reference.
            _ if self.is_plain(&param.ty, hidden) => ArgumentUse::Copied,
            _ => ArgumentUse::Kept,
        }
    }

    /// Finds the references that a function does not keep.
    fn examine_body(&self, function: &'a CppFunction, uses: &mut [ArgumentUse], find_kept: &FindKept<'_, 'a>) {
        let FunctionBody::Block(body) = &function.body else { return };
        let hidden = template_names(function);
        let is_value = matches!(function.result.kind, CppTypeKind::Basic(_))
            || self.types.int_of(&function.result, &hidden).is_some();
        if !is_value || !matches!(function.name, FunctionName::Plain(_)) || !uses.contains(&ArgumentUse::Kept) {
            return;
        }
        let escapes = find_kept(self, function, body);
        for (param, used) in function.params.iter().zip(uses) {
            let is_reference = matches!(param.ty.kind, CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_));
            let is_kept =
                param.name.as_ref().is_some_and(|name| escapes.is_unclear || escapes.kept.contains(&name.text));
            if *used == ArgumentUse::Kept && is_reference && !param.pack && !is_kept {
                *used = ArgumentUse::Changed;
            }
        }
    }

    /// Returns whether values of a type are copied, and hold no references to the variables from which they are made.
    pub(super) fn is_plain(&self, ty: &CppType, hidden: &FxHashSet<SmolStr>) -> bool {
        match &ty.kind {
            CppTypeKind::Basic(_) | CppTypeKind::Pointer(_) | CppTypeKind::Enum(_) => true,
            // The node of `decltype(auto)`, which may be a reference, is longer.
            CppTypeKind::Auto => ty.span.span.range().len() < "decltype(auto)".len(),
            CppTypeKind::Array { element, .. } => self.is_plain(element, hidden),
            CppTypeKind::Named(name) => self.is_plain_name(name, ty, hidden),
            _ => false,
        }
    }

    fn is_plain_name(&self, name: &QualifiedName, ty: &CppType, hidden: &FxHashSet<SmolStr>) -> bool {
        let own = last_name(name);
        if hidden.contains(own) {
            return false;
        }
        if let Some(known) = self.is_plain.get(own) {
            return *known;
        }
        let args = name.segments.last().and_then(|last| last.args.as_deref());
        if let Some(args) = args {
            return PLAIN_TEMPLATES.contains(&own)
                && args.iter().all(|arg| match arg {
                    CppTemplateArg::Type(ty) => self.is_plain(ty, hidden),
                    _ => true,
                });
        }
        let is_vector = || {
            let base = own.trim_end_matches(|c: char| c.is_ascii_digit());
            own.len() == base.len() + 1
                && matches!(base, "float" | "double" | "int" | "uint" | "char" | "uchar" | "long" | "short")
        };
        self.types.int_of(ty, hidden).is_some()
            || PLAIN_TYPES.contains(&own)
            || ["cuda", "cublas", "curand", "cufft"].iter().any(|prefix| own.starts_with(prefix))
            || is_vector()
    }

    /// Returns whether a field, or a variable of the file, is plain. Names from other files are taken to be fields of
    /// C structs.
    pub(super) fn is_plain_member(&self, name: &str) -> bool {
        self.plain_members.get(name).copied().unwrap_or(true)
    }

    /// Returns the identifiers in a range of the file.
    pub(super) fn identifiers_in(&self, place: clk_base::source::Span) -> impl Iterator<Item = &'a SmolStr> {
        let first = self.identifiers.partition_point(|(file, start, _)| (*file, *start) < (place.file, place.start));
        let inside = self.identifiers[first..].iter();
        inside.take_while(move |(file, start, _)| *file == place.file && *start < place.end).map(|(.., name)| *name)
    }
}

/// The variables of a function to which references are kept, so that any statement may assign them.
#[derive(Default)]
pub(super) struct KeptNames {
    pub(super) kept: FxHashSet<SmolStr>,
    /// Whether a construct is not understood, so that all variables may be assigned.
    pub(super) is_unclear: bool,
}

/// Finds the variables of a function to which references are kept.
pub(super) type FindKept<'f, 'a> = dyn Fn(&HostDeclarations<'a>, &'a CppFunction, &'a CppBlock) -> KeptNames + 'f;

/// All declarations of a file, in textual order.
#[derive(Default)]
struct FileDeclarations<'a> {
    aliases: Vec<&'a CppAlias>,
    records: Vec<&'a CppRecord>,
    enums: Vec<&'a CppName>,
    variables: Vec<&'a CppVariable>,
    functions: Vec<&'a CppFunction>,
}

impl<'a> FileDeclarations<'a> {
    fn list(&mut self, decls: &'a [CppDecl]) {
        for decl in decls {
            match &decl.kind {
                CppDeclKind::Namespace { decls, .. } | CppDeclKind::LinkageBlock(decls) => self.list(decls),
                CppDeclKind::Record(record) => self.record(record),
                CppDeclKind::Enum(own) => self.enums.extend(&own.name),
                CppDeclKind::Alias(alias) => {
                    self.defined_type(&alias.ty);
                    self.aliases.push(alias);
                }
                CppDeclKind::Function(function) => self.functions.push(function),
                CppDeclKind::Friend(Some(decl)) => self.list(std::slice::from_ref(decl)),
                CppDeclKind::Variables(decl) => {
                    for variable in &decl.variables {
                        self.defined_type(&variable.ty);
                        self.variables.push(variable);
                    }
                }
                _ => {}
            }
        }
    }

    fn record(&mut self, record: &'a CppRecord) {
        for member in record.members.iter().flatten() {
            self.list(std::slice::from_ref(&member.decl));
        }
        self.records.push(record);
    }

    /// Lists a type that a declaration defines, as `typedef struct { … } S;` does.
    fn defined_type(&mut self, ty: &'a CppType) {
        match &ty.kind {
            CppTypeKind::Record(record) => self.record(record),
            CppTypeKind::Enum(own) => self.enums.extend(&own.name),
            _ => {}
        }
    }
}

/// Returns the name by which a function is called.
fn name_of(function: &CppFunction) -> Option<&SmolStr> {
    match &function.name {
        FunctionName::Plain(name) | FunctionName::Constructor(name) => Some(name),
        _ => None,
    }
}

fn have_same_params(types: &HostTypes, one: &CppFunction, other: &CppFunction) -> bool {
    let none = FxHashSet::default();
    let is_same = |(one, other): (&CppParam, &CppParam)| {
        let target = |param: &'_ CppParam| match &param.ty.kind {
            CppTypeKind::Reference(target) | CppTypeKind::RvalueReference(target) => {
                (true, types.int_of(target, &none), matches!(target.kind, CppTypeKind::Basic(_)))
            }
            _ => (false, types.int_of(&param.ty, &none), matches!(param.ty.kind, CppTypeKind::Basic(_))),
        };
        target(one) == target(other)
    };
    one.params.len() == other.params.len() && one.params.iter().zip(&other.params).all(is_same)
}
