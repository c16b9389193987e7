//! Construction of objects: constructors of the file, implicit constructors, and values of fields without an
//! initializer. Copies are always field by field, so classes with other copies or with destructors are refused.

use super::arith::realize;
use super::host_values::last_name;
use super::lower::Lower;
use super::translator::RecordField;
use super::tree::{Expr, ExprKind, StmtKind};
use super::types::{CType, RecordId};
use super::value::{CppPlace, Denoted, PlaceKind, Res, Value, refuse};
use crate::ast::{
    CppExpr, CppExprKind, CppFunction, CppInit, CppStmt, CppStmtKind, CppType, CppTypeKind, CppUnaryOp, FunctionBody,
    FunctionName, MemberInit,
};
use crate::source::SourceSpan;
use smol_str::SmolStr;

impl<'a> Lower<'_, 'a> {
    /// Returns the constructors of a class that have a body. Constructors of base classes are not among them.
    fn constructors(&self, id: RecordId) -> Vec<usize> {
        let own = self.t.record(id).decl;
        let mut all = self.methods(id, "constructor");
        all.retain(|&function| {
            self.t.program.functions[function].record == Some(own)
                && matches!(self.t.function(function).body, FunctionBody::Block(_) | FunctionBody::Refused(_))
        });
        all
    }

    /// Returns whether a class has constructors with a body.
    pub(crate) fn has_constructor(&self, id: RecordId) -> bool {
        !self.constructors(id).is_empty()
    }

    /// Returns the default constructor with a body of a class, unless it only does what an implicit one does.
    fn default_constructor(&self, id: RecordId) -> Option<usize> {
        self.constructors(id).into_iter().find(|&function| {
            let count = self.t.function(function).params.len();
            let is_empty = match &self.t.function(function).body {
                FunctionBody::Block(body) => body.stmts.is_empty(),
                _ => false,
            };
            (0..count).all(|at| self.default_argument(function, at).is_some())
                && !(is_empty && self.t.function(function).initializers.is_empty())
        })
    }

    /// Returns whether an object without an initializer has no determined fields.
    pub(crate) fn is_indeterminate(&self, ty: &CType) -> bool {
        let CType::Record(id) = ty.leaf() else { return true };
        let record = self.t.record(*id);
        self.default_constructor(*id).is_none()
            && record.fields.iter().all(|field| field.init.is_none() && self.is_indeterminate(&field.ty))
            && record.bases.iter().all(|base| self.is_indeterminate(&CType::Record(*base)))
    }

    /// Returns the initial value of an object without an initializer; `None` if it is indeterminate.
    pub(crate) fn default_value(&mut self, ty: &CType, span: SourceSpan) -> Res<Option<Value>> {
        if self.is_indeterminate(ty) {
            return Ok(None);
        }
        match ty {
            CType::Record(id) if self.default_constructor(*id).is_some() => {
                Ok(Some(self.call_constructor(*id, vec![], span)?))
            }
            CType::Record(id) => Ok(Some(self.implicit_object(*id, span)?)),
            _ => Ok(Some(self.zero_value(ty, span)?)),
        }
    }

    /// Calls the constructor for some arguments.
    pub(crate) fn call_constructor(&mut self, id: RecordId, args: Vec<Denoted>, span: SourceSpan) -> Res<Value> {
        self.call_one_of(&self.constructors(id), id, args, span)
    }

    /// Converts a value to a class by a constructor that is not `explicit`.
    pub(crate) fn convert_by_constructor(&mut self, id: RecordId, value: Value, span: SourceSpan) -> Res<Value> {
        let mut constructors = self.constructors(id);
        constructors.retain(|&function| !self.is_explicit(function));
        let value = self.settle(value);
        self.call_one_of(&constructors, id, vec![Denoted::Value(value)], span)
    }

    /// Returns whether a constructor is `explicit`, or may be: only its declaration in the class says so.
    pub(crate) fn is_explicit(&self, function: usize) -> bool {
        let own = &self.t.program.functions[function];
        own.function.attributes.explicit
            || own.function.scope.is_some()
                && self.t.program.functions_of_any_scope(&own.name).iter().any(|&other| {
                    let other = &self.t.program.functions[other];
                    other.record == own.record
                        && other.function.attributes.explicit
                        && other.function.params.len() == own.function.params.len()
                })
    }

    fn call_one_of(
        &mut self,
        constructors: &[usize],
        id: RecordId,
        args: Vec<Denoted>,
        span: SourceSpan,
    ) -> Res<Value> {
        if args.is_empty() && self.default_constructor(id).is_none() {
            return self.implicit_object(id, span);
        }
        let chosen = self.choose(constructors, None, &args, Some(id), "constructor", span)?;
        let denoted = self.call_chosen(chosen, None, args, span)?;
        self.value_of(denoted, span)
    }

    /// Returns the object that an implicit constructor makes; indeterminate fields are zero.
    pub(crate) fn implicit_object(&mut self, id: RecordId, span: SourceSpan) -> Res<Value> {
        self.t.emit_record(id, span)?;
        let mut values = vec![];
        for base in self.t.record(id).bases.clone() {
            values.extend(self.base_values(base, None, span)?);
        }
        for field in self.t.record(id).fields.clone().into_iter().skip(values.len()) {
            let value = match field.init {
                None => self.default_value(&field.ty, span)?,
                Some(_) => None,
            };
            let value = match value {
                Some(value) => value,
                None => self.value_of_omitted_field(id, &field, span)?,
            };
            let value = self.settle(value);
            values.push((field.clk, realize(&value)));
        }
        if values.is_empty() {
            values.push((SmolStr::from("empty"), Expr::int(0, super::types::ClkScalar::U8, span)));
        }
        Ok(self.object(id, values, span))
    }

    /// Returns an object with these fields.
    pub(crate) fn object(&self, id: RecordId, fields: Vec<(SmolStr, Expr)>, span: SourceSpan) -> Value {
        let name = self.t.record(id).clk.clone();
        Value::new(CType::Record(id), Expr::new(ExprKind::Struct(name, fields), span))
    }

    /// Returns the value of a field that the initializer of an aggregate leaves out.
    pub(crate) fn value_of_omitted_field(
        &mut self,
        id: RecordId,
        field: &RecordField<'a>,
        span: SourceSpan,
    ) -> Res<Value> {
        match field.init {
            Some(init) => self.member_value(id, init, &field.ty, None, span),
            None => self.zero_value(&field.ty, span),
        }
    }

    /// Returns the values of the fields of a base class. They are taken from `object`, or from an object without an
    /// initializer.
    fn base_values(&mut self, base: RecordId, object: Option<Value>, span: SourceSpan) -> Res<Vec<(SmolStr, Expr)>> {
        let ty = CType::Record(base);
        let object = match object {
            None => self.default_value(&ty, span)?,
            object => object,
        };
        let fields = self.t.record(base).fields.clone();
        let object = object.map(|object| self.spill(object));
        let mut values = vec![];
        for field in fields {
            let value = match &object {
                Some(object) => Expr::new(ExprKind::Field(Box::new(object.expr.clone()), field.clk.clone()), span),
                None => realize(&self.zero_value(&field.ty, span)?),
            };
            values.push((field.clk, value));
        }
        Ok(values)
    }

    /// Returns the value of a field's initializer in its class.
    pub(crate) fn member_value(
        &mut self,
        id: RecordId,
        init: &'a CppInit,
        ty: &CType,
        this: Option<CppPlace>,
        span: SourceSpan,
    ) -> Res<Value> {
        let (env, scope) = (self.t.record(id).env.clone(), self.t.record(id).scope.clone());
        self.in_context(env, scope, |lower| {
            lower.this = this;
            match init {
                CppInit::Equal(value) => lower.initial_value(value, ty),
                CppInit::Brace(args) | CppInit::Paren(args) => {
                    let args: Vec<_> = args.iter().collect();
                    lower.construct(ty, &args, true, span)
                }
                CppInit::None => lower.zero_value(ty, span),
            }
        })
    }

    /// Translates a constructor to a function that returns the object. Base classes are initialized first, and
    /// then the fields in the order of their declarations.
    pub(crate) fn constructor_body(&mut self, function: &'a CppFunction, record: RecordId) -> Res<()> {
        let span = function.name_span;
        let ty = CType::Record(record);
        self.t.emit_record(record, span)?;
        let name = self.fresh("self");
        let text = self.t.type_text(&ty);
        self.push(StmtKind::Declare { name: name.clone(), mutable: true, ty: text, value: None }, span);
        let key = self.variables.new_key();
        self.note_mutated(key);
        let this =
            CppPlace { kind: PlaceKind::Variable { name: name.clone(), key, value: None }, ty: ty.clone(), span };
        self.this = Some(this.clone());
        let own_name = match &function.name {
            FunctionName::Constructor(name) => name.clone(),
            _ => SmolStr::default(),
        };
        match function.initializers.as_slice() {
            [delegate] if last_name(&delegate.name) == own_name => {
                let args: Vec<_> = delegate.args.iter().collect();
                let value = self.construct(&ty, &args, delegate.braces, delegate.name.span)?;
                self.store(&this, value, delegate.name.span)?;
            }
            initializers => self.initialize_members(initializers, record, &this, span)?,
        }
        let FunctionBody::Block(body) = &function.body else { return Ok(()) };
        if body.stmts.iter().any(super::function::contains_return) {
            return refuse("a `return` in a constructor", span, "use `if`");
        }
        self.block(body)?;
        self.push(StmtKind::Return(Some(Expr::name(name, span))), span);
        self.result.ty = ty;
        Ok(())
    }

    fn initialize_members(
        &mut self,
        initializers: &'a [MemberInit],
        record: RecordId,
        this: &CppPlace,
        span: SourceSpan,
    ) -> Res<()> {
        let bases = self.t.record(record).bases.clone();
        let fields = self.t.record(record).fields.clone();
        let inherited: usize = bases.iter().map(|base| self.t.record(*base).fields.len()).sum();
        let own = &fields[inherited.min(fields.len())..];
        let base_names: Vec<SmolStr> = bases.iter().map(|base| self.class_name(*base)).collect();
        for init in initializers {
            let name = last_name(&init.name);
            if !base_names.iter().any(|base| base == name) && !own.iter().any(|field| field.name == name) {
                return refuse("the initializer of a base class", init.name.span, "assign the fields in the body");
            }
        }
        let given = |name: &SmolStr| initializers.iter().find(|init| last_name(&init.name) == name);
        let part = |field: &SmolStr, ty: &CType, span: SourceSpan| {
            let kind = PlaceKind::Field(Box::new(this.clone()), field.clone());
            CppPlace { kind, ty: ty.clone(), span }
        };
        for (base, name) in bases.iter().zip(&base_names) {
            let ty = CType::Record(*base);
            let object = match given(name) {
                Some(init) => {
                    let args: Vec<_> = init.args.iter().collect();
                    Some(self.construct(&ty, &args, init.braces, init.name.span)?)
                }
                None if self.is_indeterminate(&ty) => continue,
                None => None,
            };
            let values = self.base_values(*base, object, span)?;
            for ((clk, expr), field) in values.into_iter().zip(self.t.record(*base).fields.clone()) {
                let value = Value::new(field.ty.clone(), expr);
                self.store(&part(&clk, &field.ty, span), value, span)?;
            }
        }
        for field in own {
            let (value, span) = match (given(&field.name), field.init) {
                (Some(init), _) => {
                    let args: Vec<_> = init.args.iter().collect();
                    (self.construct(&field.ty, &args, init.braces, init.name.span)?, init.name.span)
                }
                (None, Some(init)) => (self.member_value(record, init, &field.ty, Some(this.clone()), span)?, span),
                (None, None) => match self.default_value(&field.ty, span)? {
                    Some(value) => (value, span),
                    None => continue,
                },
            };
            self.store(&part(&field.clk, &field.ty, span), value, span)?;
        }
        Ok(())
    }

    /// Returns the name of a class in C++; an empty text if it has none.
    fn class_name(&self, id: RecordId) -> SmolStr {
        let record = self.t.program.records[self.t.record(id).decl].record;
        record.name.as_ref().map(|name| name.text.clone()).unwrap_or_default()
    }

    /// Refuses a class whose objects are not copied field by field, or that has a destructor with an effect.
    pub(crate) fn check_special_members(&self, id: RecordId) -> Res<()> {
        for function in self.special_members(id) {
            if let FunctionName::Destructor(_) = function.name {
                if !matches!(&function.body, FunctionBody::Block(body) if body.stmts.is_empty()) {
                    return refuse("a destructor", function.name_span, "call a method at the end of the block");
                }
            } else if let FunctionName::Constructor(_) = function.name
                && !self.copies_fields(id, function)
            {
                let construct = "a constructor for copies that does not copy each field";
                return refuse(construct, function.name_span, "call a function that returns the copy");
            }
        }
        let record = self.t.record(id);
        let members = record.fields.iter().filter_map(|field| match field.ty.leaf() {
            CType::Record(member) => Some(*member),
            _ => None,
        });
        for member in members.chain(record.bases.iter().copied()) {
            for function in self.special_members(member) {
                if let FunctionName::Operator(_) = function.name
                    && !self.copies_fields(member, function)
                {
                    let construct = "a member whose `operator=` does not copy each field";
                    return refuse(construct, function.name_span, "assign the member by itself");
                }
            }
        }
        Ok(())
    }

    /// Returns the destructor, the constructors for copies and the assignments of copies that device code may call.
    fn special_members(&self, id: RecordId) -> Vec<&'a CppFunction> {
        let decl = self.t.record(id).decl;
        let own: Vec<_> = self.t.program.functions.iter().filter(|function| function.record == Some(decl)).collect();
        let name = self.class_name(id);
        let is_device = |key: &SmolStr| own.iter().any(|other| other.name == *key && other.function.attributes.device);
        own.iter()
            .filter(|function| {
                let body = &function.function.body;
                let has_body = matches!(body, FunctionBody::Block(_) | FunctionBody::Refused(_));
                let is_special = match &function.function.name {
                    FunctionName::Destructor(_) => true,
                    FunctionName::Constructor(_) => takes_copy(function.function, &name),
                    FunctionName::Operator(op) => op == "=" && takes_copy(function.function, &name),
                    _ => false,
                };
                has_body && is_special && is_device(&function.name)
            })
            .map(|function| function.function)
            .collect()
    }

    /// Returns whether a class has an assignment of copies in the file.
    pub(crate) fn assigns_copies(&self, id: RecordId) -> bool {
        self.special_members(id).iter().any(|function| matches!(function.name, FunctionName::Operator(_)))
    }

    /// Returns whether a function with one parameter copies each field from it, and does nothing else.
    fn copies_fields(&self, id: RecordId, function: &CppFunction) -> bool {
        let FunctionBody::Block(body) = &function.body else { return false };
        let Some(from) = function.params.first().and_then(|param| param.name.as_ref()) else { return false };
        let record = self.t.record(id);
        let inherited: usize = record.bases.iter().map(|base| self.t.record(*base).fields.len()).sum();
        let mut copied: Vec<&str> = vec![];
        let copies = |name: &str, value: &CppExpr| match &value.kind {
            CppExprKind::Member { base, arrow: false, member } => {
                is_name(base, &from.text) && last_name(member) == name
            }
            _ => false,
        };
        for init in &function.initializers {
            let [value] = init.args.as_slice() else { return false };
            let name = last_name(&init.name);
            if copies(name, value) {
                copied.push(name);
            } else if !record.bases.iter().any(|base| self.class_name(*base) == name) || !is_name(value, &from.text) {
                return false;
            }
        }
        for stmt in &body.stmts {
            match &stmt.kind {
                CppStmtKind::Expr(CppExpr { kind: CppExprKind::Assign { op: None, target, value }, .. }) => {
                    let name = match &target.kind {
                        CppExprKind::Name(name) => last_name(name),
                        CppExprKind::Member { base, arrow: true, member } if base.kind == CppExprKind::This => {
                            last_name(member)
                        }
                        _ => return false,
                    };
                    if !copies(name, value) {
                        return false;
                    }
                    copied.push(name);
                }
                _ if returns_object(stmt) => {}
                _ => return false,
            }
        }
        let takes_base = |base: &RecordId| {
            let name = self.class_name(*base);
            self.t.record(*base).fields.is_empty()
                || function.initializers.iter().any(|init| last_name(&init.name) == name)
        };
        let (of_bases, own) = record.fields.split_at(inherited.min(record.fields.len()));
        let all_copied = |fields: &[RecordField<'_>]| fields.iter().all(|field| copied.contains(&field.name.as_str()));
        all_copied(own) && (all_copied(of_bases) || record.bases.iter().all(takes_base))
    }
}

fn is_name(expr: &CppExpr, name: &str) -> bool {
    matches!(&expr.kind, CppExprKind::Name(own) if own.segments.len() == 1 && last_name(own) == name)
}

/// Returns whether a statement is `return *this;`.
fn returns_object(stmt: &CppStmt) -> bool {
    matches!(&stmt.kind, CppStmtKind::Return(Some(CppExpr { kind: CppExprKind::Unary { op: CppUnaryOp::Deref, operand }, .. }))
        if operand.kind == CppExprKind::This)
}

/// Returns whether a function takes an object of its class and nothing else, as copies and moves do.
fn takes_copy(function: &CppFunction, class: &str) -> bool {
    let [first, rest @ ..] = function.params.as_slice() else { return false };
    let named = |ty: &CppType| matches!(&ty.kind, CppTypeKind::Named(name) if last_name(name) == class);
    let is_own = match &first.ty.kind {
        CppTypeKind::Reference(inner) | CppTypeKind::RvalueReference(inner) => named(inner),
        _ => named(&first.ty),
    };
    function.template.is_none() && is_own && rest.iter().all(|param| param.default.is_some())
}
