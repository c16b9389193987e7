//! Variables of the file, and `__shared__` variables of device functions. Kernels have them as parameters or declare
//! them, and pass them to the functions that use them.

use super::decl::refuse_arrays_in_structs;
use super::lower::Lower;
use super::resolve::is_mark;
use super::tree::{ClkConstant, Expr, ExprKind};
use super::types::{CType, TemplateArgs};
use super::understood_launches::InitialValue;
use super::value::{
    ArrayInfo, CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey, refuse,
};
use crate::ast::{CppExpr, CppExprKind, CppInit, CppTypeKind, CppUnaryOp};
use crate::source::SourceSpan;
use smol_str::SmolStr;
use std::rc::Rc;

/// Keys of the file's variables begin here.
const GLOBAL_KEYS: usize = 1 << 32;

/// Identifiers of `__shared__` variables of device functions, and of results of functions in other files, begin here,
/// after those of the file's variables.
pub(crate) const HOISTED: usize = 1 << 24;

/// Returns the key of a variable of the file.
pub(crate) fn array_key(id: usize) -> VariableKey {
    VariableKey(GLOBAL_KEYS + id)
}

impl<'a> Lower<'_, 'a> {
    /// Returns a variable of the file as an array. The current function receives it as a parameter.
    fn global_array(&mut self, id: usize, span: SourceSpan) -> Res<Rc<ArrayInfo>> {
        if let Some(info) = self.t.file_arrays.get(&id).cloned() {
            self.use_file_array(id);
            return Ok(info);
        }
        let entry = self.t.program.variables[id].clone();
        let env = self.env.clone();
        let ty = self.in_context(env, entry.scope.clone(), |lower| lower.resolve_type(&entry.variable.ty))?;
        let element = match ty.leaf() {
            CType::Pointer(_) => {
                return refuse("a pointer in a variable of the file", span, "pass the pointer as a parameter");
            }
            other => other.clone(),
        };
        if ty.count() == Some(0) {
            return refuse(format!("an access of `{}`, which has no elements", entry.name), span, "write the length");
        }
        let element = self.t.stored_element(&element);
        if let CType::Record(record) = element {
            if self.t.has_array(record) {
                return refuse_arrays_in_structs(span);
            }
            self.t.emit_record(record, span)?;
        }
        let clk = self.t.item_name(&entry.name);
        let info = Rc::new(ArrayInfo {
            expr: Expr::name(clk, span),
            element,
            axes: 1,
            space: Space::Global,
            key: array_key(id),
            name: entry.name.clone(),
        });
        self.t.file_arrays.insert(id, info.clone());
        self.use_file_array(id);
        Ok(info)
    }

    /// Refuses a second instance of a static array of a class template, because the text has one array.
    fn check_instance(&mut self, id: usize, env: &TemplateArgs, span: SourceSpan) -> Res<()> {
        let own = format!("{env:?}");
        match *self.t.array_instances.entry(id).or_insert_with(|| own.clone()) == own {
            true => Ok(()),
            false => refuse("a static array of several instances of a class template", span, "pass an array"),
        }
    }

    /// Returns a variable of the file. `env` has the arguments of a variable template, or of the class of a static
    /// member.
    pub(crate) fn denote_global(&mut self, id: usize, env: TemplateArgs, span: SourceSpan) -> Res<Denoted> {
        let entry = self.t.program.variables[id].clone();
        let attributes = &entry.decl.attributes;
        let constant = attributes.constexpr || entry.variable.ty.qualifiers.is_const || is_const_array(entry.variable);
        let scope = entry.scope.clone();
        let env_of_template = env.clone();
        let ty = self.in_context(env.clone(), scope.clone(), |lower| lower.resolve_type(&entry.variable.ty))?;
        let has_init = !matches!(entry.variable.init, CppInit::None);
        if has_init && (constant || attributes.constant) && !matches!(ty, CType::Record(_)) {
            if attributes.constant && !constant {
                self.requirements.note(format!("the host does not change `{}`", entry.name), span);
            }
            if let CType::Array(..) = ty {
                self.check_instance(id, &env, span)?;
                return self.constant_array(id, ty, span);
            }
            let evaluated = (id, format!("{env:?}"));
            if self.t.evaluating.contains(&evaluated) {
                return refuse(format!("`{}`, which depends on itself", entry.name), span, "");
            }
            self.t.evaluating.push(evaluated);
            let init = &entry.variable.init;
            let value = self.in_context(env, scope, |lower| match init {
                CppInit::Equal(value) => lower.initial_value(value, &ty),
                CppInit::Paren(args) | CppInit::Brace(args) => {
                    let args: Vec<_> = args.iter().collect();
                    lower.construct(&ty, &args, true, span)
                }
                CppInit::None => lower.zero_value(&ty, span),
            });
            self.t.evaluating.pop();
            let value = value?;
            if value.constant.is_some() || value.stable {
                return Ok(Denoted::Value(Value { expr: Expr { span, ..value.expr }, ..value }));
            }
            return refuse(format!("`{}`, whose value is not a constant", entry.name), span, "pass it as a parameter");
        }
        if attributes.shared && attributes.is_extern {
            let info = self.hoisted_dynamic(entry.variable, &entry.name, &ty)?;
            let unit = self.t.size_of(&info.element).unwrap_or(1);
            let pointer = Pointer { base: PointerBase::Array(info), prefix: vec![], index: None, unit, to: ty.clone() };
            return Ok(Denoted::Place(CppPlace { kind: PlaceKind::At(pointer), ty, span }));
        }
        if !(attributes.device || attributes.constant || attributes.managed) {
            return refuse(
                format!("the host variable `{}`", entry.name),
                span,
                "pass it as a parameter, or declare it `constexpr`",
            );
        }
        let info = if entry.decl.template.is_some() {
            let array = match &ty {
                CType::Array(..) => ty.clone(),
                other => CType::Array(Box::new(other.clone()), Some(1)),
            };
            self.hoisted_array(&env_of_template, entry.variable, &entry.name, &array, Space::Global)?
        } else {
            self.check_instance(id, &env_of_template, span)?;
            self.global_array(id, span)?
        };
        let unit = self.t.size_of(&info.element).unwrap_or(1);
        let pointer = Pointer { base: PointerBase::Array(info), prefix: vec![], index: None, unit, to: ty.clone() };
        Ok(Denoted::Place(CppPlace { kind: PlaceKind::At(pointer), ty, span }))
    }

    /// A constant array of the file: a `const` of the text.
    fn constant_array(&mut self, id: usize, ty: CType, span: SourceSpan) -> Res<Denoted> {
        let entry = self.t.program.variables[id].clone();
        let key = array_key(id);
        let items = match &entry.variable.init {
            CppInit::Equal(value) => match &value.kind {
                CppExprKind::InitList(items) => items.as_slice(),
                _ => return refuse("this initializer of an array", value.span, "use `= {…}`"),
            },
            CppInit::Brace(args) if args.is_empty() => &[],
            _ => return refuse("this initializer of an array", entry.variable.span, "use `= {…}`"),
        };
        let ty = match ty {
            CType::Array(element, None) => CType::Array(element, Some(items.len() as u64)),
            other => other,
        };
        let info = match self.t.file_arrays.get(&id) {
            Some(info) => info.clone(),
            None => {
                let element = ty.leaf().clone();
                if !element.is_arithmetic() {
                    return refuse(
                        format!("a constant array of {}", self.t.describe(&element)),
                        span,
                        "pass it as a parameter",
                    );
                }
                let scope = entry.scope.clone();
                let all = self.in_context(vec![], scope, |lower| lower.array_items(&ty, items, span))?;
                let clk = self.t.item_name(&entry.name);
                let text = format!("[{}; {}]", self.t.type_text(&element), all.len());
                self.t.file.constants.push(ClkConstant {
                    name: clk.clone(),
                    ty: text,
                    value: Expr::new(ExprKind::List(all), entry.variable.span),
                    span: entry.variable.span,
                });
                let info = Rc::new(ArrayInfo {
                    expr: Expr::name(clk, span),
                    element,
                    axes: 1,
                    space: Space::Constant,
                    key,
                    name: entry.name.clone(),
                });
                self.t.file_arrays.insert(id, info.clone());
                info
            }
        };
        self.use_file_array(id);
        let unit = self.t.size_of(&info.element).unwrap_or(1);
        let pointer = Pointer { base: PointerBase::Array(info), prefix: vec![], index: None, unit, to: ty.clone() };
        Ok(Denoted::Place(CppPlace { kind: PlaceKind::At(pointer), ty, span }))
    }

    /// Returns an array of the file that a called function uses. The current function receives it as a parameter.
    pub(crate) fn file_array(&mut self, id: usize) -> Rc<ArrayInfo> {
        self.use_file_array(id);
        self.t.file_arrays[&id].clone()
    }

    /// Notes that the function uses an array of the file. In the next pass, local names avoid the name of the array.
    fn use_file_array(&mut self, id: usize) {
        if !self.globals.contains(&id) {
            self.globals.push(id);
        }
        self.facts.changed |= self.facts.file_arrays.insert(id);
    }

    /// Returns the Clk type of an array that functions receive from their kernel; `None` for a `const` of the text.
    pub(crate) fn file_array_text(&mut self, id: usize) -> Res<Option<String>> {
        if let Some((_, text)) = id.checked_sub(HOISTED).and_then(|at| self.t.hoisted.get(at)) {
            return Ok(Some(text.clone()));
        }
        let info = self.t.file_arrays[&id].clone();
        if info.space != Space::Global {
            return Ok(None);
        }
        let ty = self.global_type(id)?;
        // An element of the file may be several numbers of the text.
        let size = |ty: &CType| self.t.size_of(ty).unwrap_or(1);
        let count = ty.count().unwrap_or(1) * (size(ty.leaf()) / size(&info.element));
        Ok(Some(format!("[{}; {count}]", self.t.type_text(&info.element))))
    }

    /// Returns a `__shared__` variable of a device function. Its kernel declares it: C++ has one variable for each
    /// block, which all calls of the function use.
    pub(crate) fn hoisted_shared(
        &mut self,
        variable: &'a crate::ast::CppVariable,
        name: &SmolStr,
        ty: &CType,
    ) -> Res<Rc<ArrayInfo>> {
        let env = self.env.clone();
        self.hoisted_array(&env, variable, name, ty, Space::Shared)
    }

    /// Returns the dynamic shared array that a device function or the file declares. Its kernel declares it, with a
    /// parameter for the length.
    pub(crate) fn hoisted_dynamic(
        &mut self,
        variable: &'a crate::ast::CppVariable,
        name: &SmolStr,
        ty: &CType,
    ) -> Res<Rc<ArrayInfo>> {
        let span = variable.span;
        let element = match ty {
            CType::Array(element, None) if !matches!(**element, CType::Array(..)) => (**element).clone(),
            _ => return refuse("`extern __shared__` that is not an array", span, "declare `extern __shared__ T s[];`"),
        };
        // The array has a length only for the check of its elements.
        let sized = CType::Array(Box::new(element), Some(1));
        let info = self.hoisted_array(&vec![], variable, name, &sized, Space::Shared)?;
        let id = info.key.0 - GLOBAL_KEYS;
        if self.t.dynamic_arrays.insert(id)
            && let Some((_, text)) = self.t.hoisted.get_mut(id - HOISTED)
        {
            let element = text.trim_start_matches('[').trim_end_matches("; 1]");
            *text = format!("[{element}; DYNAMIC_{}_LEN]", name.to_uppercase());
        }
        Ok(info)
    }

    /// Returns the array for a variable that has an instance for each list of template arguments.
    fn hoisted_array(
        &mut self,
        env: &TemplateArgs,
        variable: &'a crate::ast::CppVariable,
        name: &SmolStr,
        ty: &CType,
        space: Space,
    ) -> Res<Rc<ArrayInfo>> {
        let span = variable.span;
        // Variables of one macro have the same place, so the node of the tree tells them apart.
        let node: *const crate::ast::CppVariable = variable;
        let args: Vec<_> = env.iter().filter(|(name, _)| !is_mark(name)).collect();
        let identity = format!("{node:?} {args:?}");
        let known = self.t.hoisted.iter().position(|(known, _)| *known == identity);
        let id = HOISTED + known.unwrap_or(self.t.hoisted.len());
        let key = array_key(id);
        if known.is_none() {
            self.facts.flat.insert(key);
            let (text, axes) = self.array_text(ty, key, span)?;
            let clk = self.t.item_name(name);
            let (expr, element) = (Expr::name(clk, span), self.t.stored_element(ty.leaf()));
            let info = ArrayInfo { expr, element, axes, space, key, name: name.clone() };
            self.t.hoisted.push((identity, text));
            self.t.file_arrays.insert(id, Rc::new(info));
        }
        self.use_file_array(id);
        Ok(self.t.file_arrays[&id].clone())
    }

    /// Returns the initial values of a variable's first elements; the others are zero. `None` if they are not literals,
    /// or if host code has to set them.
    pub(crate) fn initial_values(&self, id: usize) -> Option<Vec<InitialValue>> {
        let entry = self.t.program.variables.get(id)?;
        let literals = |values: &[CppExpr]| values.iter().map(literal).collect();
        match &entry.variable.init {
            CppInit::None => (!entry.decl.attributes.constant).then(Vec::new),
            CppInit::Equal(value) => match &value.kind {
                CppExprKind::InitList(items) => items.iter().map(|item| literal(&item.value)).collect(),
                _ => Some(vec![literal(value)?]),
            },
            CppInit::Paren(values) | CppInit::Brace(values) => literals(values),
        }
    }

    fn global_type(&mut self, id: usize) -> Res<CType> {
        let entry = self.t.program.variables[id].clone();
        self.in_context(vec![], entry.scope.clone(), |lower| lower.resolve_type(&entry.variable.ty))
    }
}

fn literal(value: &CppExpr) -> Option<InitialValue> {
    match &value.kind {
        CppExprKind::Int(literal) => Some(InitialValue::Int(i128::from(literal.value))),
        CppExprKind::Bool(value) => Some(InitialValue::Int(i128::from(*value))),
        CppExprKind::Float(literal) => Some(InitialValue::Float(literal.double)),
        CppExprKind::Unary { op: CppUnaryOp::Minus, operand } => match literal(operand)? {
            InitialValue::Int(value) => Some(InitialValue::Int(-value)),
            InitialValue::Float(value) => Some(InitialValue::Float(-value)),
        },
        _ => None,
    }
}

fn is_const_array(variable: &crate::ast::CppVariable) -> bool {
    let mut ty = &variable.ty;
    while let CppTypeKind::Array { element, .. } = &ty.kind {
        if ty.qualifiers.is_const {
            return true;
        }
        ty = element;
    }
    ty.qualifiers.is_const && !matches!(ty.kind, CppTypeKind::Pointer(_))
}
