//! Finds the variables of a host function that code elsewhere may assign: those whose address is stored, or to which a
//! reference may be kept. Their values are unknown in the whole function. Also finds the variables that an expression
//! assigns.
//!
//! C++ binds references without a mark at the call. So each place that is not known to copy a value counts.

use super::host_calls;
use super::host_declarations::{ArgumentUse, HostDeclarations, KeptNames};
use super::host_values::{address_of, last_name, plain, template_names};
use crate::ast::*;
use crate::launches::FunctionScan;
use clk_base::source::Span;
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the variables of a function to which references are kept.
pub(super) fn kept_names<'a>(
    declarations: &HostDeclarations<'a>,
    function: &'a CppFunction,
    body: &'a CppBlock,
) -> KeptNames {
    let mut code = FunctionScan::default();
    code.block(body);
    let mut scan = EscapeScan {
        declarations,
        hidden: hidden_names(function, &code),
        types: FxHashMap::default(),
        unkept: FxHashSet::default(),
        found: KeptNames::default(),
    };
    scan.found.is_unclear = declarations.has_assigning_operators || code.has_label;
    for param in &function.params {
        if let Some(name) = &param.name {
            scan.types.insert(&name.text, &param.ty);
        }
    }
    for variable in &code.variables {
        if let VariableName::Plain(name) = &variable.name {
            scan.types.insert(&name.text, &variable.ty);
        }
    }
    code.opaque.iter().for_each(|place| scan.opaque(place.span, place.expansion.is_some()));
    code.values.iter().for_each(|value| scan.find_unkept(value));
    code.variables.iter().for_each(|variable| scan.variable(variable));
    code.values.iter().for_each(|value| scan.value(value));
    // A constant keeps its value.
    let variables = code.variables.iter().filter_map(|variable| match &variable.name {
        VariableName::Plain(name) => Some((&name.text, &variable.ty)),
        _ => None,
    });
    let params = function.params.iter().filter_map(|param| Some((&param.name.as_ref()?.text, &param.ty)));
    let all: Vec<(&SmolStr, &CppType)> = variables.chain(params).collect();
    let is_constant = |name: &SmolStr| {
        let mut own = all.iter().filter(|(known, _)| *known == name).peekable();
        own.peek().is_some() && own.all(|(_, ty)| ty.qualifiers.is_const && declarations.is_plain(ty, &scan.hidden))
    };
    scan.found.kept.retain(|name| !is_constant(name));
    scan.found
}

/// Returns the names in a function that hide types and functions of the file.
pub(super) fn hidden_names(function: &CppFunction, code: &FunctionScan<'_>) -> FxHashSet<SmolStr> {
    let mut hidden = template_names(function);
    hidden.extend(code.types.iter().map(|name| name.text.clone()));
    let variables = code.variables.iter().filter_map(|variable| match &variable.name {
        VariableName::Plain(name) => Some(name.text.clone()),
        _ => None,
    });
    hidden.extend(variables);
    hidden.extend(function.params.iter().filter_map(|param| Some(param.name.as_ref()?.text.clone())));
    hidden
}

struct EscapeScan<'a, 'd> {
    declarations: &'d HostDeclarations<'a>,
    hidden: FxHashSet<SmolStr>,
    /// The types of the function's variables. Variables of one name share the last type.
    types: FxHashMap<&'a SmolStr, &'a CppType>,
    /// Operands `&x` that a function uses only until it returns.
    unkept: FxHashSet<*const CppExpr>,
    found: KeptNames,
}

impl<'a> EscapeScan<'a, '_> {
    fn keep(&mut self, value: &CppExpr) {
        self.found.kept.extend(places_of(value).into_iter().cloned());
    }

    /// Code that is not understood may do anything with the variables that it names.
    fn opaque(&mut self, place: Span, is_macro: bool) {
        // The place of a macro says nothing about the names in it.
        self.found.is_unclear |= is_macro;
        self.found.kept.extend(self.declarations.identifiers_in(place).cloned());
    }

    fn find_unkept(&mut self, value: &CppExpr) {
        let CppExprKind::Call { callee, args } = &value.kind else { return };
        if host_calls::effect(callee, &self.hidden, self.declarations).keeps_addresses() {
            return;
        }
        self.unkept.extend(args.iter().filter_map(operand_with_address).map(std::ptr::from_ref));
    }

    fn variable(&mut self, variable: &'a CppVariable) {
        let VariableName::Plain(name) = &variable.name else {
            if let VariableName::Bindings(names) = &variable.name {
                self.found.kept.extend(names.iter().map(|name| name.text.clone()));
            }
            self.inits(variable);
            return;
        };
        match &variable.ty.kind {
            // The variable is another name.
            CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_) => {
                self.found.kept.insert(name.text.clone());
                self.inits(variable);
            }
            _ if self.declarations.is_plain(&variable.ty, &self.hidden) => {}
            CppTypeKind::Named(ty) => self.constructed(last_name(ty), init_values(variable)),
            _ => self.inits(variable),
        }
    }

    fn inits(&mut self, variable: &CppVariable) {
        init_values(variable).iter().for_each(|value| self.keep(value));
    }

    /// Notes the arguments of a constructor that it may keep.
    fn constructed(&mut self, ty: &str, args: &[CppExpr]) {
        let constructor = self.declarations.functions.get(ty).filter(|_| !self.hidden.contains(ty));
        for (at, arg) in args.iter().enumerate() {
            let is_list = matches!(arg.kind, CppExprKind::InitList(_));
            if is_list || constructor.is_none_or(|function| function.argument(at) == ArgumentUse::Kept) {
                self.keep(arg);
            }
        }
    }

    fn value(&mut self, value: &'a CppExpr) {
        match &value.kind {
            CppExprKind::Unary { op: CppUnaryOp::AddressOf, operand } => {
                // An element of an array is not the variable of the array.
                let is_element = matches!(operand.kind, CppExprKind::Index { .. });
                if !is_element && !self.unkept.contains(&std::ptr::from_ref(value)) {
                    self.keep(operand);
                }
            }
            CppExprKind::Call { callee, args } => {
                let effect = host_calls::effect(callee, &self.hidden, self.declarations);
                // An element of a container may keep a reference.
                let has_references = match &callee.kind {
                    CppExprKind::Member { base, .. } if !effect.is_own() => !self.is_plain_target(base),
                    _ => false,
                };
                for (at, arg) in args.iter().enumerate() {
                    if has_references || effect.argument(at) == ArgumentUse::Kept {
                        self.keep(arg);
                    }
                }
            }
            CppExprKind::Construct { ty, args, .. } if !self.declarations.is_plain(ty, &self.hidden) => {
                match &ty.kind {
                    CppTypeKind::Named(name) => self.constructed(last_name(name), args),
                    _ => args.iter().for_each(|arg| self.keep(arg)),
                }
            }
            CppExprKind::Cast { ty, value, .. } => {
                let is_reference = matches!(ty.kind, CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_));
                if !is_reference && !self.declarations.is_plain(ty, &self.hidden) {
                    self.keep(value);
                }
            }
            CppExprKind::Assign { op: None, target, value } if !self.is_plain_target(target) => self.keep(value),
            _ => {}
        }
    }

    /// Returns whether an assignment copies its value.
    fn is_plain_target(&self, target: &CppExpr) -> bool {
        match &target.kind {
            CppExprKind::Name(name) => match plain(name).and_then(|name| self.types.get(name)) {
                Some(ty) => self.is_plain_object(ty),
                None => self.declarations.is_plain_member(last_name(name)),
            },
            CppExprKind::Member { member, .. } => self.declarations.is_plain_member(last_name(member)),
            CppExprKind::Index { base, .. } => self.has_plain_elements(base),
            CppExprKind::Unary { op: CppUnaryOp::Deref, operand } => self.has_plain_elements(operand),
            CppExprKind::Conditional { then, otherwise, .. } => {
                self.is_plain_target(then) && self.is_plain_target(otherwise)
            }
            _ => false,
        }
    }

    fn is_plain_object(&self, ty: &CppType) -> bool {
        match &ty.kind {
            CppTypeKind::Reference(target) | CppTypeKind::RvalueReference(target) => self.is_plain_object(target),
            _ => self.declarations.is_plain(ty, &self.hidden),
        }
    }

    /// Returns whether the elements of an array are plain.
    fn has_plain_elements(&self, base: &CppExpr) -> bool {
        match &base.kind {
            CppExprKind::Name(name) => match plain(name).and_then(|name| self.types.get(name)) {
                Some(ty) => self.is_plain_object(element_type(ty)),
                None => self.declarations.is_plain_member(last_name(name)),
            },
            CppExprKind::Member { member, .. } => self.declarations.is_plain_member(last_name(member)),
            CppExprKind::Index { base, .. } => self.has_plain_elements(base),
            CppExprKind::Cast { ty, .. } => self.is_plain_object(element_type(ty)),
            CppExprKind::Binary { left, right, .. } => {
                // One operand is the pointer. An integer has plain elements.
                self.has_plain_elements(left) && self.has_plain_elements(right)
            }
            CppExprKind::Unary { operand, .. } => self.has_plain_elements(operand),
            CppExprKind::Int(_) | CppExprKind::This | CppExprKind::SizeofType(_) => true,
            _ => false,
        }
    }
}

/// Returns the type of the innermost elements of an array.
fn element_type(ty: &CppType) -> &CppType {
    match &ty.kind {
        CppTypeKind::Pointer(element) | CppTypeKind::Array { element, .. } => element_type(element),
        CppTypeKind::Reference(target) | CppTypeKind::RvalueReference(target) => element_type(target),
        _ => ty,
    }
}

fn init_values(variable: &CppVariable) -> &[CppExpr] {
    match &variable.init {
        CppInit::None => &[],
        CppInit::Equal(value) => std::slice::from_ref(value),
        CppInit::Paren(values) | CppInit::Brace(values) => values,
    }
}

/// Returns the expression `&x` in an argument, also inside of casts.
fn operand_with_address(arg: &CppExpr) -> Option<&CppExpr> {
    match &arg.kind {
        CppExprKind::Cast { value, .. } => operand_with_address(value),
        CppExprKind::Unary { op: CppUnaryOp::AddressOf, .. } => Some(arg),
        _ => None,
    }
}

/// Returns the variables to which a reference may be bound that is initialized with this expression.
pub(super) fn places_of(expr: &CppExpr) -> Vec<&SmolStr> {
    match &expr.kind {
        CppExprKind::Name(name) => plain(name).into_iter().collect(),
        CppExprKind::Conditional { then, otherwise, .. } => [places_of(then), places_of(otherwise)].concat(),
        CppExprKind::Comma { right, .. } => places_of(right),
        CppExprKind::Assign { target, .. } => places_of(target),
        CppExprKind::Unary { op: CppUnaryOp::PreIncrement | CppUnaryOp::PreDecrement, operand } => places_of(operand),
        CppExprKind::Unary { op: CppUnaryOp::Deref, operand } => address_of(operand).map_or_else(Vec::new, places_of),
        CppExprKind::Cast { ty, value, .. } => match ty.kind {
            CppTypeKind::Reference(_) | CppTypeKind::RvalueReference(_) => places_of(value),
            _ => vec![],
        },
        CppExprKind::Member { base, arrow: false, .. } => places_of(base),
        CppExprKind::Member { base, arrow: true, .. } => address_of(base).map_or_else(Vec::new, places_of),
        CppExprKind::InitList(items) => items.iter().flat_map(|item| places_of(&item.value)).collect(),
        // Some functions return a reference to an argument. Others that do so keep it.
        CppExprKind::Call { args, .. } => {
            if host_calls::returns_argument(expr) {
                args.iter().flat_map(places_of).collect()
            } else {
                vec![]
            }
        }
        _ => vec![],
    }
}

/// Returns the variables that expressions assign, other than those to which references are kept.
pub(super) fn assigned_by(
    values: &[&CppExpr],
    hidden: &FxHashSet<SmolStr>,
    declarations: &HostDeclarations<'_>,
) -> FxHashSet<SmolStr> {
    let mut assigned = FxHashSet::default();
    for value in values {
        match &value.kind {
            CppExprKind::Assign { target, .. } => assigned.extend(places_of(target).into_iter().cloned()),
            CppExprKind::Unary {
                op:
                    CppUnaryOp::PreIncrement
                    | CppUnaryOp::PreDecrement
                    | CppUnaryOp::PostIncrement
                    | CppUnaryOp::PostDecrement,
                operand,
            } => assigned.extend(places_of(operand).into_iter().cloned()),
            CppExprKind::Call { callee, args } => {
                assigned.extend(assigned_in_call(callee, args, hidden, declarations));
            }
            _ => {}
        }
    }
    assigned
}

/// Returns the variables that a call assigns, other than those to which references are kept.
pub(super) fn assigned_in_call(
    callee: &CppExpr,
    args: &[CppExpr],
    hidden: &FxHashSet<SmolStr>,
    declarations: &HostDeclarations<'_>,
) -> FxHashSet<SmolStr> {
    let effect = host_calls::effect(callee, hidden, declarations);
    let mut places = vec![];
    if let (CppExprKind::Member { base, .. }, true) = (&callee.kind, effect.changes_object()) {
        places.extend(places_of(base));
    }
    for (at, arg) in args.iter().enumerate() {
        if let Some(target) = address_of(arg) {
            places.extend(places_of(target));
        } else if effect.argument(at) != ArgumentUse::Copied {
            places.extend(places_of(arg));
        }
    }
    places.into_iter().cloned().collect()
}
