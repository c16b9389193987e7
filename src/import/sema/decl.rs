//! CudaTranslation of local declarations and of initializers.

use super::arith::realize;
use super::lambdas::as_lambda;
use super::lower::{Local, Lower};
use super::printf::text_of;
use super::translator::RecordField;
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use super::types::{CType, ClkScalar, IntKind, RecordId};
use super::value::{
    ArrayInfo, CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Res, Space, Value, VariableKey, pointer_field_name,
    refuse,
};
use crate::ast::{
    CppExpr, CppExprKind, CppInit, CppLambda, CppType, CppTypeKind, CppVariable, Designator, InitItem, VariableDecl,
    VariableName,
};
use crate::source::SourceSpan;
use smol_str::SmolStr;
use std::rc::Rc;

impl<'a> Lower<'_, 'a> {
    pub(crate) fn declare_variable(&mut self, decl: &'a VariableDecl, variable: &'a CppVariable) -> Res<()> {
        let span = variable.span;
        let key = self.variables.new_key();
        let name = match &variable.name {
            VariableName::Plain(name) => name.text.clone(),
            VariableName::Bindings(_) => return refuse("structured bindings", span, "use the fields of the object"),
            VariableName::Unnamed => return Ok(()),
        };
        let attributes = &decl.attributes;
        if attributes.shared {
            return self.shared_variable(&name, variable, attributes.is_extern, key);
        }
        if attributes.is_extern {
            return Ok(());
        }
        if attributes.is_static && !variable.ty.qualifiers.is_const && !attributes.constexpr {
            return refuse("a `static` variable in device code", span, "use a `__device__` variable of the file");
        }
        if let (CppTypeKind::Auto, Some(lambda)) = (&variable.ty.kind, initial_lambda(&variable.init)) {
            let CppPlace { kind: PlaceKind::Variable { name: clk, key, .. }, ty, .. } =
                self.lambda(lambda, &name, span)?
            else {
                return refuse("a lambda", span, "");
            };
            self.declare(&name, Local::Variable { name: clk, key, ty, known: None });
            return Ok(());
        }
        let ty = self.declared_type(&variable.ty, &variable.init)?;
        if variable.ty.qualifiers.is_const || attributes.constexpr {
            self.variables.constants.insert(key);
        }
        match &ty {
            CType::Reference(target) => self.declare_reference(&name, target, variable, key),
            CType::Pointer(to) => self.declare_pointer(&name, to, variable, key),
            CType::Array(..) => self.declare_array(&name, ty, variable, key),
            CType::Record(id) if self.t.record(*id).is_union => self.declare_union(&name, *id, variable, key),
            CType::Group(group) => {
                self.declare(&name, Local::Group(*group));
                Ok(())
            }
            CType::Void | CType::Null | CType::Text | CType::Functor(_) => {
                refuse(format!("a variable of type {}", self.t.describe(&ty)), span, "")
            }
            _ => self.declare_value(&name, ty, variable, key),
        }
    }

    /// Returns the type of a variable; `auto` takes it from the initializer.
    fn declared_type(&mut self, ty: &'a CppType, init: &'a CppInit) -> Res<CType> {
        if !contains_auto(ty) {
            return self.resolve_type(ty);
        }
        let value = match init {
            CppInit::Equal(value) => value,
            CppInit::Paren(args) | CppInit::Brace(args) if args.len() == 1 => &args[0],
            _ => return refuse("`auto` without an initializer", ty.span, "write the type"),
        };
        let source = self.type_of(value)?;
        self.deduce_auto(ty, &source)
    }

    pub(crate) fn deduce_auto(&mut self, ty: &'a CppType, source: &CType) -> Res<CType> {
        Ok(match &ty.kind {
            CppTypeKind::Auto => match source.referent() {
                CType::Array(element, _) => CType::Pointer(element.clone()),
                other => other.clone(),
            },
            CppTypeKind::Pointer(inner) => match source.referent() {
                CType::Pointer(to) | CType::Array(to, _) => CType::Pointer(Box::new(self.deduce_auto(inner, to)?)),
                other => return refuse(format!("`auto*` for {}", self.t.describe(other)), ty.span, "write the type"),
            },
            CppTypeKind::Reference(inner) | CppTypeKind::RvalueReference(inner) => match &inner.kind {
                CppTypeKind::Auto => CType::Reference(Box::new(source.referent().clone())),
                _ => CType::Reference(Box::new(self.deduce_auto(inner, source)?)),
            },
            _ => return self.resolve_type(ty),
        })
    }

    fn declare_value(&mut self, name: &SmolStr, ty: CType, variable: &'a CppVariable, key: VariableKey) -> Res<()> {
        let span = variable.span;
        self.variables.in_blocks.insert(key);
        if let CType::Record(id) = ty {
            if matches!(variable.init, CppInit::None)
                && !self.t.pointer_fields(id).is_empty()
                && self.is_indeterminate(&ty)
            {
                return self.declare_pointers(name, id, key, span);
            }
            self.t.emit_record(id, span)?;
        }
        let value = match &variable.init {
            CppInit::None => match self.default_value(&ty, span)? {
                // A function that sets the variable takes it as `inout`, which needs a value.
                None if self.facts.passed.contains(&key) => Some(self.zero_value(&ty, span)?),
                None => self.indeterminate_value(name, &ty, span)?,
                value => value,
            },
            CppInit::Equal(value) => Some(self.initial_value(value, &ty)?),
            CppInit::Paren(args) => {
                let args: Vec<_> = args.iter().collect();
                Some(self.construct(&ty, &args, false, span)?)
            }
            CppInit::Brace(args) => {
                let args: Vec<_> = args.iter().collect();
                Some(self.construct(&ty, &args, true, span)?)
            }
        };
        if self.is_pointed(key) {
            return self.declare_pointed(name, ty, value, key, span);
        }
        let mutable = self.is_mutated(key);
        if let Some(value) = &value
            && !mutable
            && value.constant.is_some()
            && (ty.is_arithmetic() || matches!(ty, CType::FunctionPointer(_)))
        {
            // No declaration: the number replaces the name.
            let clk = self.fresh(name);
            let known = Some(Box::new(value.clone()));
            self.declare(name, Local::Variable { name: clk, key, ty, known });
            return Ok(());
        }
        let clk = self.fresh(name);
        let (text, expr, known) = match value {
            None => (self.t.type_text(&ty), None, None),
            Some(value) if mutable => (self.t.type_text(&ty), Some(realize(&value)), None),
            Some(value) => {
                let text = self.value_type_text(&value);
                let expr = value.expr.clone();
                let known = Value { expr: Expr::name(clk.clone(), span), stable: true, effect: false, ..value };
                (text, Some(expr), Some(Box::new(known)))
            }
        };
        let mutable = mutable || expr.is_none();
        self.push(StmtKind::Declare { name: clk.clone(), mutable, ty: text, value: expr }, span);
        self.declare(name, Local::Variable { name: clk, key, ty, known });
        Ok(())
    }

    /// Declares a struct with pointers, each of which is a variable of its own.
    fn declare_pointers(&mut self, name: &SmolStr, id: RecordId, key: VariableKey, span: SourceSpan) -> Res<()> {
        self.t.emit_fields(id, span)?;
        let ty = CType::Record(id);
        let clk = self.fresh(name);
        if self.t.has_values(id) {
            let text = self.t.type_text(&ty);
            self.push(StmtKind::Declare { name: clk.clone(), mutable: true, ty: text, value: None }, span);
        }
        for (path, to) in self.t.pointer_fields(id) {
            let pointer = self.variables.new_key();
            let local = SmolStr::from(pointer_field_name(key, &path));
            self.bind_pointer(&local, pointer, &to, None, span)?;
        }
        self.declare(name, Local::Variable { name: clk, key, ty, known: None });
        Ok(())
    }

    /// Translates an initializer, `= value`, to a value of a type.
    pub(crate) fn initial_value(&mut self, value: &'a CppExpr, ty: &CType) -> Res<Value> {
        let span = value.span;
        match &value.kind {
            CppExprKind::InitList(items) => self.aggregate(ty, items, span),
            _ => {
                if let CType::Array(..) = ty {
                    return refuse("an array that is initialized with an expression", span, "use `{…}`");
                }
                let value = self.rvalue(value)?;
                self.convert(value, ty, span)
            }
        }
    }

    fn declare_reference(
        &mut self,
        name: &SmolStr,
        target: &CType,
        variable: &'a CppVariable,
        key: VariableKey,
    ) -> Res<()> {
        let span = variable.span;
        let value = match &variable.init {
            CppInit::Equal(value) => value,
            CppInit::Paren(args) | CppInit::Brace(args) if args.len() == 1 => &args[0],
            _ => return refuse("a reference without an initializer", span, ""),
        };
        match self.denote(value)? {
            Denoted::Place(mut place) if place.ty == *target => {
                self.fix_place(&mut place);
                self.declare(name, Local::Alias(place));
                Ok(())
            }
            Denoted::Group(group) => {
                self.declare(name, Local::Group(group));
                Ok(())
            }
            // A reference to a temporary object, whose lifetime it extends.
            denoted => {
                let value = self.value_of(denoted, span)?;
                let value = self.convert(value, target, span)?;
                let clk = self.fresh(name);
                let mutable = self.is_mutated(key);
                let ty = self.t.type_text(target);
                self.push(StmtKind::Declare { name: clk.clone(), mutable, ty, value: Some(realize(&value)) }, span);
                self.variables.references.insert(key);
                self.declare(name, Local::Variable { name: clk, key, ty: target.clone(), known: None });
                Ok(())
            }
        }
    }

    /// Stores the indices of a place in variables, so that it keeps denoting the same object.
    pub(crate) fn fix_place(&mut self, place: &mut CppPlace) {
        match &mut place.kind {
            PlaceKind::At(pointer) => {
                let mark = self.mark();
                self.spill_pointer(pointer, mark);
            }
            PlaceKind::Field(base, _) | PlaceKind::Component(base, _) => self.fix_place(base),
            _ => {}
        }
    }

    fn declare_pointer(&mut self, name: &SmolStr, to: &CType, variable: &'a CppVariable, key: VariableKey) -> Res<()> {
        let span = variable.span;
        let pointer = match &variable.init {
            CppInit::None => None,
            CppInit::Equal(value) => Some(value),
            CppInit::Paren(args) | CppInit::Brace(args) => args.first(),
        };
        if let (Some(CppExprKind::String(literal)), CType::Int(IntKind::Char)) = (pointer.map(|value| &value.kind), to)
            && let Some(text) = text_of(literal)
        {
            self.declare(name, Local::Text(text.into()));
            return Ok(());
        }
        let pointer = match pointer {
            None => None,
            Some(value) => {
                let denoted = self.denote(value)?;
                let pointer = self.pointer_of(denoted, value.span)?;
                Some(self.cast_pointer(pointer, to, value.span)?)
            }
        };
        self.bind_pointer(name, key, to, pointer, span)
    }

    /// Declares a pointer variable with its initial value.
    pub(crate) fn bind_pointer(
        &mut self,
        name: &SmolStr,
        key: VariableKey,
        to: &CType,
        pointer: Option<Pointer>,
        span: SourceSpan,
    ) -> Res<()> {
        let local = self.pointer_variable(name, key, to, pointer, span)?;
        self.declare(name, local);
        Ok(())
    }

    /// Creates a pointer variable with its initial value.
    pub(crate) fn pointer_variable(
        &mut self,
        name: &SmolStr,
        key: VariableKey,
        to: &CType,
        pointer: Option<Pointer>,
        span: SourceSpan,
    ) -> Res<Local> {
        let variable = |index, selector, fixed| Local::Pointer { key, to: to.clone(), index, selector, fixed };
        if !self.is_mutated(key)
            && let Some(mut pointer) = pointer.clone()
        {
            if let PointerBase::Array(info) = &pointer.base
                && info.axes > 1
                && !pointer.prefix.is_empty()
            {
                self.note_flat(info.key);
            }
            if let Some(index) = pointer.index.as_deref_mut()
                && !index.stable
            {
                let at = self.fresh(&offset_name(name));
                let ty = self.value_type_text(index);
                let value = Some(index.expr.clone());
                self.push(StmtKind::Declare { name: at.clone(), mutable: false, ty, value }, span);
                *index = Value { expr: Expr::name(at, span), stable: true, effect: false, ..index.clone() };
            }
            let mark = self.mark();
            self.spill_pointer(&mut pointer, mark);
            let fixed = Some(Box::new(pointer));
            return Ok(variable(SmolStr::default(), SmolStr::default(), fixed));
        }
        if let Some(pointer) = &pointer {
            if let PointerBase::Array(info) = &pointer.base
                && info.axes > 1
                && !pointer.prefix.is_empty()
            {
                self.note_flat(info.key);
            }
            self.note_base(key, pointer, span)?;
        }
        // A pointer to one variable has no index.
        let options = self.pointer_options(key);
        if options.iter().any(|option| matches!(option.base, PointerBase::Object(_))) {
            return match pointer.is_some_and(|pointer| pointer.index.is_some()) {
                true => refuse("an index of a pointer to one variable", span, "use an array"),
                false => Ok(variable(SmolStr::default(), SmolStr::default(), None)),
            };
        }
        let index = self.fresh(&offset_name(name));
        let value = match &pointer {
            Some(pointer) => super::pointer::index_of(pointer, span),
            None => Expr::int(0, ClkScalar::I64, span),
        };
        self.push(StmtKind::Declare { name: index.clone(), mutable: true, ty: "i64".into(), value: Some(value) }, span);
        let selector = if options.len() > 1 {
            let selector = self.fresh(&format!("{}_in", name.rsplit('.').next().unwrap_or(name)));
            let value = match &pointer {
                Some(pointer) => self.selected(pointer, &options, span)?,
                None => Expr::int(0, ClkScalar::I32, span),
            };
            let kind =
                StmtKind::Declare { name: selector.clone(), mutable: true, ty: "i32".into(), value: Some(value) };
            self.push(kind, span);
            selector
        } else {
            SmolStr::default()
        };
        Ok(variable(index, selector, None))
    }

    // ---- arrays ----

    /// Returns the Clk type of an array, and the number of its axes.
    pub(crate) fn array_text(&mut self, ty: &CType, key: VariableKey, span: SourceSpan) -> Res<(String, usize)> {
        let leaf = ty.leaf().clone();
        match &leaf {
            CType::Pointer(_) => return refuse("an array of pointers", span, "use an array of indices"),
            CType::Record(id) if self.t.has_array(*id) => {
                let Some((number, count)) = self.t.uniform_numbers(&leaf) else {
                    return refuse_arrays_in_structs(span);
                };
                let Some(total) = ty.count().and_then(|length| length.checked_mul(count)) else {
                    return refuse("an array without a length", span, "write the length");
                };
                return Ok((format!("[{}; {total}]", self.t.type_text(&number)), 1));
            }
            CType::Record(id) => self.t.emit_record(*id, span)?,
            CType::Vector(..) => {}
            other if other.is_arithmetic() => {}
            other => return refuse(format!("an array of {}", self.t.describe(other)), span, ""),
        }
        let mut extents = vec![];
        for extent in ty.extents() {
            match extent {
                Some(0) | None => return refuse("an array without a length", span, "write the length"),
                Some(length) => extents.push(length),
            }
        }
        if self.facts.flat.contains(&key) {
            extents = vec![extents.iter().product()];
        }
        let texts: Vec<_> = extents.iter().map(u64::to_string).collect();
        Ok((format!("[{}; {}]", self.t.type_text(&leaf), texts.join(", ")), extents.len()))
    }

    fn declare_array(&mut self, name: &SmolStr, ty: CType, variable: &'a CppVariable, key: VariableKey) -> Res<()> {
        let span = variable.span;
        let items: Option<&'a [InitItem]> = match &variable.init {
            CppInit::Equal(CppExpr { kind: CppExprKind::InitList(items), .. }) => Some(items),
            CppInit::None => None,
            CppInit::Brace(args) if args.is_empty() => Some(&[]),
            CppInit::Brace(_) | CppInit::Paren(_) | CppInit::Equal(_) => {
                return refuse("this initializer of an array", span, "use `= {…}`");
            }
        };
        let ty = match (&ty, items) {
            (CType::Array(element, None), Some(items)) => CType::Array(element.clone(), Some(items.len() as u64)),
            _ => ty,
        };
        let (text, axes) = self.array_text(&ty, key, span)?;
        let is_stored = self.t.stored_element(ty.leaf()) == *ty.leaf();
        let value = match items {
            // A function that sets an element takes it as `inout`, which needs a value.
            None if !self.is_indeterminate(&ty)
                || self.facts.passed.contains(&key) && matches!(ty.leaf(), CType::Record(_)) && is_stored =>
            {
                if !is_stored {
                    return refuse("an array of objects with initial values", span, "assign the elements");
                }
                let all = self.array_items(&ty, &[], span)?;
                Some(if axes == ty.extents().len() { nested_list(&ty, &all, span) } else { flat_list(&all, span) })
            }
            None if self.facts.passed.contains(&key) && ty.leaf().is_arithmetic() => {
                let zero = self.zero_value(ty.leaf(), span)?;
                Some(realize(&zero))
            }
            None => None,
            Some(_) if !is_stored => {
                return refuse("this initializer of an array", span, "assign the elements");
            }
            Some(items) => {
                let all = self.array_items(&ty, items, span)?;
                Some(if axes == ty.extents().len() { nested_list(&ty, &all, span) } else { flat_list(&all, span) })
            }
        };
        let clk = self.fresh(name);
        let mutable = items.is_none() || self.is_mutated(key);
        self.push(StmtKind::Declare { name: clk.clone(), mutable, ty: text, value }, span);
        let info = ArrayInfo {
            expr: Expr::name(clk, span),
            element: self.t.stored_element(ty.leaf()),
            axes,
            space: Space::Local,
            key,
            name: name.clone(),
        };
        self.declare(name, Local::Array { info: Rc::new(info), ty });
        Ok(())
    }

    /// Returns all innermost elements of an array with an initializer list, zero where the list has none.
    pub(crate) fn array_items(&mut self, ty: &CType, items: &'a [InitItem], span: SourceSpan) -> Res<Vec<Expr>> {
        let CType::Array(element, Some(length)) = ty else { return refuse("this array", span, "") };
        let inner = element.count().unwrap_or(1) as usize;
        let total = (*length as usize).saturating_mul(inner);
        if total > 65_536 {
            return refuse("an initializer of so large an array", span, "fill the array in a loop");
        }
        let mut all = vec![];
        if items.iter().any(|item| item.designator.is_some()) {
            return refuse("a designator in an array", span, "list the elements in order");
        }
        let nested = items.iter().any(|item| matches!(item.value.kind, CppExprKind::InitList(_)));
        if matches!(**element, CType::Array(..)) && nested {
            for item in items {
                let CppExprKind::InitList(inner) = &item.value.kind else {
                    return refuse("a mixed initializer list", span, "put each row in braces");
                };
                all.extend(self.array_items(element, inner, span)?);
            }
        } else {
            let leaf = ty.leaf().clone();
            for item in items {
                let value = self.initial_value(&item.value, &leaf)?;
                let value = self.settle(value);
                all.push(realize(&value));
            }
        }
        if all.len() > total {
            return refuse("more initializers than elements", span, "");
        }
        let zero = self.zero_value(ty.leaf(), span)?;
        while all.len() < total {
            all.push(realize(&zero));
        }
        Ok(all)
    }

    /// Declares a union as an array of the smallest scalars of its members.
    fn declare_union(&mut self, name: &SmolStr, id: RecordId, variable: &'a CppVariable, key: VariableKey) -> Res<()> {
        let span = variable.span;
        let ty = CType::Record(id);
        let mut smallest: Option<CType> = None;
        for field in &self.t.record(id).fields {
            let scalar = match field.ty.leaf() {
                CType::Vector(component, _) => component.ty(),
                other => other.clone(),
            };
            let size = scalar.scalar().filter(|scalar| *scalar != ClkScalar::Bool).map(ClkScalar::size);
            let Some(size) = size else {
                return refuse(format!("{} in a union", self.t.describe(&scalar)), span, "use members of numbers");
            };
            if smallest.as_ref().and_then(CType::scalar).is_none_or(|known| size < known.size()) {
                smallest = Some(scalar);
            }
        }
        let (Some(element), Some(size)) = (smallest, self.t.size_of(&ty)) else {
            return refuse("this union", span, "use members of numbers");
        };
        let unit = self.t.size_of(&element).unwrap_or(1);
        let length = size / unit;
        let zero = self.zero_value(&element, span)?;
        let is_initialized = !matches!(variable.init, CppInit::None);
        let value = (is_initialized || self.facts.passed.contains(&key))
            .then(|| flat_list(&vec![realize(&zero); length as usize], span));
        let clk = self.fresh(name);
        let text = format!("[{}; {length}]", self.t.type_text(&element));
        self.push(StmtKind::Declare { name: clk.clone(), mutable: true, ty: text, value }, span);
        let info =
            ArrayInfo { expr: Expr::name(clk, span), element, axes: 1, space: Space::Local, key, name: name.clone() };
        let info = Rc::new(info);
        let init: &[InitItem] = match &variable.init {
            CppInit::None => &[],
            CppInit::Equal(CppExpr { kind: CppExprKind::InitList(items), .. }) => items,
            CppInit::Brace(args) if args.is_empty() => &[],
            _ => return refuse("this initializer of a union", span, "use `= {…}`"),
        };
        if let [item] = init {
            let named = |field: &&RecordField<'a>| match &item.designator {
                Some(Designator::Field(wanted)) => wanted.text == field.name,
                Some(_) => false,
                None => true,
            };
            let Some(member) = self.t.record(id).fields.iter().find(named).map(|field| field.ty.clone()) else {
                return refuse("this initializer of a union", span, "assign the member");
            };
            let value = self.initial_value(&item.value, &member)?;
            let base = PointerBase::Array(info.clone());
            let pointer = Pointer { base, prefix: vec![], index: None, unit, to: member.clone() };
            let place = CppPlace { kind: PlaceKind::At(pointer), ty: member, span };
            self.store(&place, value, span)?;
        } else if !init.is_empty() {
            return refuse("this initializer of a union", span, "assign the member");
        }
        self.declare(name, Local::Array { info, ty });
        Ok(())
    }

    fn shared_variable(
        &mut self,
        name: &SmolStr,
        variable: &'a CppVariable,
        dynamic: bool,
        key: VariableKey,
    ) -> Res<()> {
        let span = variable.span;
        let ty = self.resolve_type(&variable.ty)?;
        if !self.is_kernel && dynamic {
            let info = self.hoisted_dynamic(variable, name, &ty)?;
            self.declare(name, Local::Array { info, ty });
            return Ok(());
        }
        if dynamic {
            let clk = self.fresh_in_function(name);
            return self.dynamic_shared_array(name, clk, ty, key, span);
        }
        if let CType::Pointer(_) | CType::Reference(_) = ty {
            return refuse("a pointer in shared memory", span, "store an index");
        }
        let array = match &ty {
            CType::Array(..) => ty.clone(),
            other => CType::Array(Box::new(other.clone()), Some(1)),
        };
        let info = if self.is_kernel {
            let clk = self.fresh_in_function(name);
            let (text, axes) = self.array_text(&array, key, span)?;
            self.shared.declarations.push(Stmt { kind: StmtKind::Shared { name: clk.clone(), ty: text }, span });
            Rc::new(ArrayInfo {
                expr: Expr::name(clk, span),
                element: self.t.stored_element(array.leaf()),
                axes,
                space: Space::Shared,
                key,
                name: name.clone(),
            })
        } else {
            self.hoisted_shared(variable, name, &array)?
        };
        if let CType::Array(..) = ty {
            self.declare(name, Local::Array { info, ty });
        } else {
            let unit = self.t.size_of(&info.element).unwrap_or(1);
            let pointer = Pointer {
                base: PointerBase::Array(info),
                prefix: vec![],
                index: Some(Box::new(Value::int(0, super::types::INT, span))),
                unit,
                to: ty.clone(),
            };
            self.declare(name, Local::Alias(CppPlace { kind: PlaceKind::At(pointer), ty, span }));
        }
        Ok(())
    }

    /// `extern __shared__ T s[]`: the length is a parameter of the translated kernel.
    fn dynamic_shared_array(
        &mut self,
        name: &SmolStr,
        clk: SmolStr,
        ty: CType,
        key: VariableKey,
        span: SourceSpan,
    ) -> Res<()> {
        let CType::Array(element, None) = &ty else {
            return refuse("`extern __shared__` that is not an array", span, "declare `extern __shared__ T s[];`");
        };
        if self.shared.dynamic_length.is_some() {
            return refuse("two dynamic shared arrays", span, "use one array, and pointers into it");
        }
        // The declared type is often `char`; the type of the first access through a cast is the real one.
        let element = self.facts.elements.get(&key).cloned().unwrap_or_else(|| (**element).clone());
        if let CType::Array(..) = element {
            return refuse("a dynamic shared array with several axes", span, "use one axis");
        }
        let length = self.fresh_in_function(&format!("{name}_len"));
        self.shared.dynamic_length = Some(length.clone());
        self.shared.dynamic_key = Some(key);
        let element = self.t.stored_element(&element);
        if let CType::Record(id) = element {
            if self.t.has_array(id) {
                return refuse_arrays_in_structs(span);
            }
            self.t.emit_record(id, span)?;
        }
        let text = format!("[{}; {length}]", self.t.type_text(&element));
        self.shared.declarations.push(Stmt { kind: StmtKind::Shared { name: clk.clone(), ty: text }, span });
        self.requirements.note(format!("the length of the dynamic shared array `{name}` is `{length}`"), span);
        let info =
            ArrayInfo { expr: Expr::name(clk, span), element, axes: 1, space: Space::Shared, key, name: name.clone() };
        self.declare(name, Local::Array { info: Rc::new(info), ty });
        Ok(())
    }

    // ---- objects ----

    pub(crate) fn zero_value(&mut self, ty: &CType, span: SourceSpan) -> Res<Value> {
        match ty {
            CType::Float(_) => Ok(Value::float(0.0, ty.clone(), span)),
            CType::Vector(component, _) => {
                let zero = self.zero_value(&component.ty(), span)?;
                let name = self.t.type_text(ty);
                Ok(Value { stable: true, ..Value::new(ty.clone(), Expr::call(name, vec![realize(&zero)], span)) })
            }
            CType::Record(_) => self.construct(ty, &[], true, span),
            CType::Array(..) => {
                let items = self.array_items(ty, &[], span)?;
                Ok(Value::new(ty.clone(), flat_list(&items, span)))
            }
            _ if ty.is_integer() || matches!(ty, CType::FunctionPointer(_)) => Ok(Value::int(0, ty.clone(), span)),
            _ => refuse(format!("a zero of type {}", self.t.describe(ty)), span, ""),
        }
    }

    fn aggregate(&mut self, ty: &CType, items: &'a [InitItem], span: SourceSpan) -> Res<Value> {
        if let CType::Record(id) = ty
            && items.iter().any(|item| item.designator.is_some())
        {
            let id = *id;
            self.t.emit_record(id, span)?;
            let fields = self.t.record(id).fields.clone();
            let mut values: Vec<(SmolStr, Expr)> = vec![];
            for field in fields {
                let given = items
                    .iter()
                    .find(|item| matches!(&item.designator, Some(Designator::Field(name)) if name.text == field.name));
                let value = match given {
                    Some(item) => self.initial_value(&item.value, &field.ty)?,
                    None => self.value_of_omitted_field(id, &field, span)?,
                };
                let value = self.settle(value);
                values.push((field.clk, realize(&value)));
            }
            return Ok(self.object(id, values, span));
        }
        if let CType::Array(..) = ty {
            let all = self.array_items(ty, items, span)?;
            return Ok(Value::new(ty.clone(), flat_list(&all, span)));
        }
        let items: Vec<_> = items.iter().map(|item| &item.value).collect();
        self.construct(ty, &items, true, span)
    }

    /// Constructs an object: `T(a, b)` or `T{a, b}`.
    pub(crate) fn construct(
        &mut self,
        ty: &CType,
        items: &[&'a CppExpr],
        braces: bool,
        span: SourceSpan,
    ) -> Res<Value> {
        match ty {
            CType::Record(id) => {
                let id = *id;
                self.t.emit_record(id, span)?;
                if let [only] = items {
                    let own = self.type_of(only);
                    if matches!(only.kind, CppExprKind::InitList(_)) || own.as_ref().is_ok_and(|own| own == ty) {
                        return self.initial_value(only, ty);
                    }
                }
                if self.has_constructor(id) {
                    let mut args = vec![];
                    for item in items {
                        args.push(self.argument(item)?);
                    }
                    return self.call_constructor(id, args, span);
                }
                if !braces && !items.is_empty() {
                    return refuse(
                        format!("a constructor of {}", self.t.describe(ty)),
                        span,
                        "define the constructor in this file, or use braces",
                    );
                }
                self.aggregate_record(id, items, span)
            }
            CType::Vector(component, count) => {
                if let [only] = items {
                    let value = self.operand(only)?;
                    if value.ty == *ty {
                        return Ok(value);
                    }
                }
                let values = self.operands(items)?;
                let mut parts = vec![];
                for value in values {
                    parts.push(self.converted(value, &component.ty(), span)?);
                }
                let zero = self.zero_value(&component.ty(), span)?;
                while parts.len() < usize::from(*count) {
                    parts.push(realize(&zero));
                }
                let name = self.t.type_text(ty);
                Ok(Value::new(ty.clone(), Expr::call(name, parts, span)))
            }
            _ => match items {
                [] => self.zero_value(ty, span),
                [only] => self.initial_value(only, ty),
                _ => refuse(format!("{} with several initializers", self.t.describe(ty)), span, ""),
            },
        }
    }

    fn aggregate_record(&mut self, id: super::types::RecordId, items: &[&'a CppExpr], span: SourceSpan) -> Res<Value> {
        let record = self.t.record(id);
        let has_object = record.bases.iter().any(|base| !self.is_indeterminate(&CType::Record(*base)));
        if items.is_empty() && has_object {
            return self.implicit_object(id, span);
        }
        if has_object {
            return refuse("an initializer of a class with a constructor in a base", span, "assign the fields");
        }
        let fields = self.t.record(id).fields.clone();
        if items.len() > fields.len() {
            return refuse("more initializers than fields", span, "");
        }
        let mut values = vec![];
        for (at, field) in fields.iter().enumerate() {
            let value = match items.get(at) {
                Some(item) => self.initial_value(item, &field.ty)?,
                None => self.value_of_omitted_field(id, field, span)?,
            };
            let value = self.settle(value);
            values.push((field.clk.clone(), realize(&value)));
        }
        if values.is_empty() {
            values.push((SmolStr::from("empty"), Expr::int(0, ClkScalar::U8, span)));
        }
        Ok(self.object(id, values, span))
    }

    pub(crate) fn construct_denoted(
        &mut self,
        ty: &CType,
        items: &[&'a CppExpr],
        braces: bool,
        span: SourceSpan,
    ) -> Res<Denoted> {
        if let CType::Functor(_) | CType::Group(_) = ty {
            return match ty {
                CType::Group(group) => Ok(Denoted::Group(*group)),
                _ => refuse("a function object here", span, "call the operation directly"),
            };
        }
        Ok(Denoted::Value(self.construct(ty, items, braces, span)?))
    }

    /// Converts a value whose type or target is a class or vector.
    pub(crate) fn convert_class(&mut self, value: Value, to: &CType, span: SourceSpan) -> Res<Value> {
        if value.ty == *to {
            return Ok(value);
        }
        if let CType::Record(id) = to
            && self.has_constructor(*id)
        {
            return self.convert_by_constructor(*id, value, span);
        }
        if let CType::Record(_) = value.ty
            && let Some(converted) = self.call_conversion(value.clone(), to, span)?
        {
            return Ok(converted);
        }
        if let (CType::Vector(a, n), CType::Vector(b, m)) = (&value.ty, to)
            && n == m
            && a.scalar() == b.scalar()
        {
            return Ok(Value { ty: to.clone(), ..value });
        }
        let construct = format!("a conversion from {} to {}", self.t.describe(&value.ty), self.t.describe(to));
        refuse(construct, span, "convert the components one by one")
    }
}

pub(crate) fn refuse_arrays_in_structs<T>(span: SourceSpan) -> Res<T> {
    let help = "use an array with one more axis for each field";
    refuse("an array of structs that contain arrays and numbers of several types", span, help)
}

fn initial_lambda(init: &CppInit) -> Option<&CppLambda> {
    match init {
        CppInit::Equal(value) => as_lambda(value),
        CppInit::Paren(args) | CppInit::Brace(args) => as_lambda(args.first().filter(|_| args.len() == 1)?),
        CppInit::None => None,
    }
}

fn contains_auto(ty: &CppType) -> bool {
    match &ty.kind {
        CppTypeKind::Auto => true,
        CppTypeKind::Pointer(inner) | CppTypeKind::Reference(inner) | CppTypeKind::RvalueReference(inner) => {
            contains_auto(inner)
        }
        _ => false,
    }
}

/// Returns the name of the variable for the offset of a pointer. `name` is that of a variable or, for a field of a
/// parameter, [`pointer_field_name`].
fn offset_name(name: &str) -> String {
    format!("{}_at", name.rsplit('.').next().unwrap_or(name))
}

/// Returns the list of an array with several axes from its elements in order.
pub(crate) fn nested_list(ty: &CType, items: &[Expr], span: SourceSpan) -> Expr {
    match ty {
        CType::Array(element, _) if matches!(**element, CType::Array(..)) => {
            let size = element.count().unwrap_or(1).max(1) as usize;
            let rows = items.chunks(size).map(|row| nested_list(element, row, span)).collect();
            Expr::new(ExprKind::List(rows), span)
        }
        _ => flat_list(items, span),
    }
}

fn flat_list(items: &[Expr], span: SourceSpan) -> Expr {
    Expr::new(ExprKind::List(items.to_vec()), span)
}
