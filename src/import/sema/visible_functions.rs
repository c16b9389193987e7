//! Finds the functions that a call without an object may mean. They are declared before the call, in a namespace that
//! `using namespace` opens, or in the namespace of an argument.

use super::lower::Lower;
use super::program::Symbol;
use super::types::CType;
use super::value::Denoted;
use smol_str::SmolStr;

impl Lower<'_, '_> {
    /// Returns the functions that a call by an unqualified name may mean, among those that the name denotes in the
    /// scope.
    pub(crate) fn visible_functions(&mut self, named: Vec<usize>, name: &SmolStr, args: &[Denoted]) -> Vec<usize> {
        let mut functions = named;
        let scope = functions.first().map(|&id| self.t.program.functions[id].scope.clone()).unwrap_or_default();
        let mut add = |found: &[Symbol]| {
            for symbol in found {
                if let Symbol::Function(id) = symbol
                    && !functions.contains(id)
                {
                    functions.push(*id);
                }
            }
        };
        if scope.is_empty() {
            add(&self.t.program.in_open_namespaces(name));
        }
        let classes: Vec<_> = args.iter().filter_map(|arg| self.namespace_of(&self.type_of_denoted(arg))).collect();
        for namespace in &classes {
            add(self.t.program.in_namespace(namespace, name));
        }
        // If an argument has a class type, a call in a template also sees functions that are declared after the
        // template.
        match self.function {
            Some(current) if classes.is_empty() => self.declared_before(functions, current),
            _ => functions,
        }
    }

    /// Returns the namespace of the class or enum of an argument.
    fn namespace_of(&self, ty: &CType) -> Option<Vec<SmolStr>> {
        match ty {
            CType::Record(id) => Some(self.t.program.records[self.t.record(*id).decl].scope.clone()),
            CType::Enum(id, _) => Some(self.t.program.enums[*id].1.clone()),
            CType::Vector(..) => Some(vec![]),
            CType::Pointer(inner) | CType::Reference(inner) | CType::Array(inner, _) => self.namespace_of(inner),
            _ => None,
        }
    }

    /// Leaves out functions that are declared after the function with the call, unless all are.
    fn declared_before(&mut self, functions: Vec<usize>, current: usize) -> Vec<usize> {
        let is_before = |id: &usize| *id <= current;
        if functions.iter().all(is_before) || !functions.iter().any(is_before) {
            return functions;
        }
        let mut known = vec![];
        for &id in functions.iter().filter(|id| is_before(id)) {
            known.push((self.t.function(id).params.len(), self.parameter_types(id, &vec![]).ok()));
        }
        let mut visible = vec![];
        for &id in &functions {
            // A template, and a type that depends on one, cannot be compared.
            let count = self.t.function(id).params.len();
            let types = self.parameter_types(id, &vec![]).ok();
            let is_template = self.t.function(id).template.is_some();
            let is_same = |(other, known): &(usize, Option<Vec<CType>>)| {
                *other == count && (is_template || known.is_none() || types.is_none() || *known == types)
            };
            if is_before(&id) || known.iter().any(is_same) {
                visible.push(id);
            }
        }
        visible
    }
}
