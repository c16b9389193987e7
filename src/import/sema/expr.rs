//! CudaTranslation of expressions. Parts with effects become statements before the current one, in C++17's order of
//! evaluation; the expression that remains is free of effects or is used exactly once.

use super::arith::{coerce, logical, realize};
use super::lower::{Local, Lower};
use super::program::Symbol;
use super::resolve::header_name;
use super::tree::{Expr, ExprKind, Stmt, StmtKind};
use super::types::{CType, ClkScalar, DOUBLE, FLOAT, FloatKind, INT, IntKind, RecordId, SIZE, UINT};
use super::types::{TemplateArgs, TemplateValue};
use super::value::{CppPlace, Denoted, PlaceKind, Pointer, PointerBase, Position, Res, Value, refuse};
use crate::ast::{
    BasicType, CppBinaryOp, CppBlock, CppCastKind, CppDeclKind, CppExpr, CppExprKind, CppStmt, CppStmtKind, CppUnaryOp,
    QualifiedName,
};
use crate::source::SourceSpan;

impl<'a> Lower<'_, 'a> {
    /// Translates an expression to a value.
    pub(crate) fn rvalue(&mut self, expr: &'a CppExpr) -> Res<Value> {
        let denoted = self.denote(expr)?;
        self.value_of(denoted, expr.span)
    }

    /// Like [`Lower::rvalue`], but a value with an effect is stored in a variable first.
    pub(crate) fn operand(&mut self, expr: &'a CppExpr) -> Res<Value> {
        let value = self.rvalue(expr)?;
        Ok(self.settle(value))
    }

    pub(crate) fn settle(&mut self, value: Value) -> Value {
        if value.effect { self.spill(value) } else { value }
    }

    pub(crate) fn value_of(&mut self, denoted: Denoted, span: SourceSpan) -> Res<Value> {
        match denoted {
            Denoted::Value(value) => Ok(value),
            Denoted::Place(place) => match &place.ty {
                CType::Array(..) => refuse("an array as a value", span, "copy the elements in a loop"),
                CType::Pointer(_) => refuse("a pointer as a value", span, "use an index into the array"),
                _ => self.load(&place),
            },
            Denoted::Pointer(Pointer { base: PointerBase::Null, .. }) => Ok(Value::int(0, CType::Null, span)),
            Denoted::Pointer(_) => refuse("a pointer as a number", span, "use an index into the array"),
            Denoted::Group(_) => refuse("a group of threads as a value", span, ""),
            Denoted::Text => refuse("a string", span, "only `printf` and `assert` accept strings"),
            Denoted::Void => refuse("the result of a `void` function", span, ""),
        }
    }

    /// Returns the type of an expression without translating it for execution.
    pub(crate) fn type_of(&mut self, expr: &'a CppExpr) -> Res<CType> {
        let denoted = self.denote_unevaluated(expr)?;
        Ok(self.type_of_denoted(&denoted))
    }

    /// Returns whether an expression denotes a variable, an element or another place.
    pub(crate) fn is_lvalue(&mut self, expr: &'a CppExpr) -> Res<bool> {
        Ok(matches!(self.denote_unevaluated(expr)?, Denoted::Place(_)))
    }

    fn denote_unevaluated(&mut self, expr: &'a CppExpr) -> Res<Denoted> {
        let (effect, shared, notes) =
            (self.requirements.effect, self.shared.declarations.len(), self.requirements.notes.len());
        let (denoted, _) = self.nested(|lower| lower.denote(expr))?;
        self.requirements.effect = effect;
        self.shared.declarations.truncate(shared);
        self.requirements.notes.truncate(notes);
        Ok(denoted)
    }

    pub(crate) fn type_of_denoted(&self, denoted: &Denoted) -> CType {
        match denoted {
            Denoted::Value(value) => value.ty.clone(),
            Denoted::Place(place) => place.ty.clone(),
            Denoted::Pointer(Pointer { base: PointerBase::Null, .. }) => CType::Null,
            Denoted::Pointer(pointer) => CType::Pointer(Box::new(pointer.to.clone())),
            Denoted::Group(group) => CType::Group(*group),
            Denoted::Text => CType::Text,
            Denoted::Void => CType::Void,
        }
    }

    /// Translates operands from left to right. If a later one needs statements, earlier ones are stored before them.
    pub(crate) fn operands(&mut self, exprs: &[&'a CppExpr]) -> Res<Vec<Value>> {
        self.check_order(exprs)?;
        let mut values: Vec<Value> = vec![];
        for expr in exprs {
            let mark = self.mark();
            let value = self.operand(expr)?;
            if self.mark() > mark {
                let mut at = mark;
                for earlier in &mut values {
                    if !earlier.stable {
                        *earlier = self.spill_at(earlier.clone(), at);
                        at += 1;
                    }
                }
            }
            values.push(value);
        }
        Ok(values)
    }

    pub(crate) fn denote(&mut self, expr: &'a CppExpr) -> Res<Denoted> {
        self.enter(expr.span)?;
        let result = self.denote_kind(expr);
        self.leave();
        result
    }

    fn denote_kind(&mut self, expr: &'a CppExpr) -> Res<Denoted> {
        let span = expr.span;
        Ok(match &expr.kind {
            CppExprKind::Int(literal) => Denoted::Value(Value::of_literal(literal, span)),
            CppExprKind::Float(literal) => Denoted::Value(match literal.ty {
                BasicType::Float => Value::float(f64::from(literal.single), FLOAT, span),
                _ => Value::float(literal.double, DOUBLE, span),
            }),
            CppExprKind::Char(literal) => {
                let ty = match literal.ty {
                    BasicType::Char => CType::Int(IntKind::Char),
                    BasicType::Char16 => CType::Int(IntKind::UnsignedShort),
                    _ => INT,
                };
                let number = ClkScalar::I32.wrap(i128::from(literal.value));
                let number = ty.scalar().map_or(number, |scalar| scalar.wrap(number));
                Denoted::Value(Value::int(number, ty, span))
            }
            CppExprKind::String(_) => Denoted::Text,
            CppExprKind::Bool(value) => Denoted::Value(Value::bool(*value, span)),
            CppExprKind::Nullptr => Denoted::Pointer(self.null_pointer(CType::Void)),
            CppExprKind::This => match &self.this {
                Some(this) => {
                    let to = this.ty.clone();
                    Denoted::Pointer(self.object_pointer(this.clone(), to))
                }
                None => return refuse("`this` outside of a method", span, ""),
            },
            CppExprKind::Name(name) => self.denote_name(name, span)?,
            CppExprKind::Unary { op, operand } => self.unary(*op, operand, span)?,
            CppExprKind::Binary { op, left, right } => self.denote_binary(*op, left, right, span)?,
            CppExprKind::Assign { op, target, value } => Denoted::Place(self.assign(*op, target, value, span)?),
            CppExprKind::Conditional { condition, then, otherwise } => {
                self.conditional(condition, then, otherwise, span)?
            }
            CppExprKind::Comma { left, right } => {
                self.refuse_operators(",", &[left, right], span)?;
                self.discard(left)?;
                self.denote(right)?
            }
            CppExprKind::Call { callee, args } => self.call(callee, args, span)?,
            CppExprKind::Launch { .. } => {
                return refuse("a launch in device code", span, "launch the kernel from the host");
            }
            CppExprKind::Index { base, index } => self.index(base, index, span)?,
            CppExprKind::Member { base, arrow, member } => self.member(base, *arrow, member, span)?,
            CppExprKind::Cast { kind, ty, value } => {
                let to = self.resolve_type(ty)?;
                self.cast(*kind, to, value, span)?
            }
            CppExprKind::Construct { ty, args, braces } => {
                let to = self.resolve_type(ty)?;
                match args.as_slice() {
                    [value] if !braces && !matches!(to, CType::Record(_)) => {
                        self.cast(CppCastKind::CStyle, to, value, span)?
                    }
                    _ => {
                        let items: Vec<_> = args.iter().collect();
                        self.construct_denoted(&to, &items, *braces, span)?
                    }
                }
            }
            CppExprKind::InitList(_) => return refuse("an initializer list here", span, "name the type: `T{…}`"),
            CppExprKind::SizeofExpr(value) => {
                let ty = self.type_of(value)?;
                Denoted::Value(self.size_value(&ty, span)?)
            }
            CppExprKind::SizeofType(ty) => {
                let ty = self.resolve_type(ty)?;
                Denoted::Value(self.size_value(ty.referent(), span)?)
            }
            CppExprKind::AlignofType(_) => return refuse("`alignof`", span, "write the number"),
            CppExprKind::SizeofPack(_) => return refuse("`sizeof...`", span, ""),
            CppExprKind::Lambda(lambda) => Denoted::Place(self.lambda(lambda, "lambda", span)?),
            CppExprKind::Statements(block) => self.statements_value(block, span)?,
            CppExprKind::PackExpansion(_) => return refuse("a parameter pack", span, "write the arguments one by one"),
            CppExprKind::Refused(refusal) => return Err(Box::new(refusal.clone())),
        })
    }

    /// Translates `({ …; value; })`.
    fn statements_value(&mut self, block: &'a CppBlock, span: SourceSpan) -> Res<Denoted> {
        let Some((CppStmt { kind: CppStmtKind::Expr(value), .. }, before)) = block.stmts.split_last() else {
            return refuse("statements in an expression that do not end with a value", span, "write a function");
        };
        // `order` knows the accesses of these statements only.
        let simple = |stmt: &CppStmt| match &stmt.kind {
            CppStmtKind::Decl(decl) => matches!(decl.kind, CppDeclKind::Variables(_)),
            kind => matches!(kind, CppStmtKind::Expr(_)),
        };
        if !before.iter().all(simple) {
            return refuse("control flow in an expression", span, "write a function");
        }
        self.scoped(|lower| {
            before.iter().try_for_each(|stmt| lower.stmt(stmt))?;
            let value = lower.rvalue(value)?;
            Ok(Denoted::Value(lower.spill(value)))
        })
    }

    fn size_value(&mut self, ty: &CType, span: SourceSpan) -> Res<Value> {
        match self.t.size_of(ty) {
            Some(size) => Ok(Value::int(i128::from(size), SIZE, span)),
            None => refuse(format!("`sizeof` of {}", self.t.describe(ty)), span, "write the number"),
        }
    }

    // ---- names ----

    pub(crate) fn denote_name(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<Denoted> {
        if let [only] = name.segments.as_slice() {
            if let Some(local) = self.find_local(&only.name.text) {
                let local = local.clone();
                return self.denote_local(local, &only.name.text, span);
            }
            if let Some(value) = self.template_value(&only.name.text) {
                return match value {
                    TemplateValue::Int(number, ty) => Ok(Denoted::Value(Value::int(*number, ty.clone(), span))),
                    TemplateValue::Type(CType::Functor(_)) | TemplateValue::Type(_) => {
                        refuse(format!("the type `{}` as a value", only.name.text), span, "")
                    }
                };
            }
            if let Some(this) = self.this.clone()
                && let CType::Record(id) = this.ty
                && let Some(field) = self.t.field(id, &only.name.text)
            {
                let (clk, ty) = (field.clk.clone(), field.ty.clone());
                if let (CType::Pointer(_), Some(kind)) = (&ty, self.pointer_field(&this, std::slice::from_ref(&clk))) {
                    return Ok(Denoted::Place(CppPlace { kind, ty, span }));
                }
                return Ok(Denoted::Place(self.field_place(this, clk, ty, span)?));
            }
        }
        if let Some((class, members)) = self.class_member(name)?
            && let Some(denoted) = self.class_constant(class, &members, span)?
        {
            return Ok(denoted);
        }
        let symbols = self.t.program.find_name(name, &self.scope).to_vec();
        for &symbol in &symbols {
            match symbol {
                Symbol::Enumerator(id, at) => {
                    let values = self.enum_values(id)?;
                    let Some(value) = values.get(at) else { return refuse("an enumerator before its value", span, "") };
                    // While the enum is being defined, its enumerators are integers.
                    let ty = if self.t.program.enums[id].0.enumerators.as_ref().map(Vec::len) == Some(values.len()) {
                        self.enum_type(id)?
                    } else {
                        INT
                    };
                    return Ok(Denoted::Value(Value::int(*value, ty, span)));
                }
                Symbol::Variable(id) => {
                    self.require_unspecialized(&self.t.program.variables[id].scope, span)?;
                    let is_variable = |symbol: &&Symbol| matches!(symbol, Symbol::Variable(_));
                    let is_template = self.t.program.variables[id].decl.template.is_some();
                    if is_template && symbols.iter().filter(is_variable).count() > 1 {
                        return refuse(
                            "a variable template with specializations",
                            span,
                            "use a constant for each type",
                        );
                    }
                    let header = self.t.program.variables[id].decl.template.as_ref();
                    let args = name.segments.last().and_then(|segment| segment.args.as_deref()).unwrap_or(&[]);
                    let env = match header {
                        Some(header) => self.explicit_args(header, args, span)?,
                        None => self.env_of_member(id, name)?,
                    };
                    return self.denote_global(id, env, span);
                }
                Symbol::Function(id) => {
                    self.require_unspecialized(&self.t.program.functions[id].scope, span)?;
                    return self.function_value(&symbols, span);
                }
                _ => {}
            }
        }
        if let Some(denoted) = self.static_member(name, span)? {
            return Ok(denoted);
        }
        if let Some(value) = self.type_trait(name)? {
            return Ok(Denoted::Value(Value::bool(value, span)));
        }
        if let Some(last) = header_name(name)
            && name.segments.len() == 1
            && let Some(value) = self.known_variable(last, span)
        {
            return Ok(Denoted::Value(value));
        }
        let text: Vec<_> = name.segments.iter().map(|segment| segment.name.text.as_str()).collect();
        refuse(format!("the name `{}`", text.join("::")), span, "define it in this file, or with `-D`")
    }

    /// Returns the template arguments of the class of a static member; nothing for other variables.
    fn env_of_member(&mut self, id: usize, name: &'a QualifiedName) -> Res<TemplateArgs> {
        let scope = self.t.program.variables[id].scope.clone();
        let is_member = self.t.program.find(&scope, &[]).iter().any(|symbol| matches!(symbol, Symbol::Record(_)));
        if !is_member {
            return Ok(vec![]);
        }
        Ok(match self.class_of(name)? {
            Some(class) => self.t.record(class).env.clone(),
            None => self.env.clone(),
        })
    }

    /// A static member of a class template: `Traits<T>::size`.
    fn static_member(&mut self, name: &'a QualifiedName, span: SourceSpan) -> Res<Option<Denoted>> {
        let [outer @ .., last] = name.segments.as_slice() else { return Ok(None) };
        let Some(class) = outer.last() else { return Ok(None) };
        let ty = match self.template_value(&class.name.text) {
            Some(TemplateValue::Type(ty)) => ty.clone(),
            _ => return Ok(None),
        };
        let CType::Record(id) = ty else { return Ok(None) };
        let symbols = self.t.program.find(std::slice::from_ref(&last.name.text), &self.t.record(id).scope).to_vec();
        self.class_constant(id, &symbols, span)
    }

    /// Returns the static variable or the enumerator among the members of a class.
    fn class_constant(&mut self, class: RecordId, members: &[Symbol], span: SourceSpan) -> Res<Option<Denoted>> {
        let (scope, env) = (self.t.record(class).scope.clone(), self.t.record(class).env.clone());
        match members.first() {
            Some(&Symbol::Variable(global)) if self.t.program.variables[global].decl.template.is_none() => {
                let own = env.clone();
                self.in_context(env, scope, |lower| lower.denote_global(global, own, span)).map(Some)
            }
            Some(&Symbol::Enumerator(id, at)) => self.in_context(env, scope, |lower| {
                let Some(&value) = lower.enum_values(id)?.get(at) else {
                    return refuse("an enumerator before its value", span, "");
                };
                let ty = lower.enum_type(id)?;
                Ok(Some(Denoted::Value(Value::int(value, ty, span))))
            }),
            _ => Ok(None),
        }
    }

    pub(crate) fn denote_local(&mut self, local: Local, name: &str, span: SourceSpan) -> Res<Denoted> {
        Ok(match local {
            Local::Variable { name, key, ty, known } => {
                Denoted::Place(CppPlace { kind: PlaceKind::Variable { name, key, value: known }, ty, span })
            }
            Local::Array { info, ty } => {
                let unit = self.t.size_of(&info.element).unwrap_or(1);
                let pointer =
                    Pointer { base: PointerBase::Array(info), prefix: vec![], index: None, unit, to: ty.clone() };
                Denoted::Place(CppPlace { kind: PlaceKind::At(pointer), ty, span })
            }
            Local::Pointer { key, to, .. } => {
                let ty = CType::Pointer(Box::new(to));
                Denoted::Place(CppPlace { kind: PlaceKind::PointerVariable(key), ty, span })
            }
            Local::Alias(place) => Denoted::Place(CppPlace { span, ..place }),
            Local::Constant(value) => {
                let expr = Expr { span, ..value.expr };
                Denoted::Value(Value { expr, ..value })
            }
            Local::Group(group) => Denoted::Group(group),
            Local::Text(_) => Denoted::Text,
            Local::Type(_) => return refuse(format!("the type `{name}` as a value"), span, ""),
            Local::Refused(refusal) => return Err(refusal),
        })
    }

    /// Returns a variable or constant of the CUDA headers and the standard library.
    fn known_variable(&mut self, name: &str, span: SourceSpan) -> Option<Value> {
        if let Some(index) = ["threadIdx", "blockIdx", "blockDim", "gridDim"].iter().position(|known| *known == name) {
            let parts = ["x", "y", "z"].map(|axis| {
                let value = self.position(index, axis, span);
                coerce(&value, ClkScalar::U32)
            });
            let expr = Expr::call("u32x3", parts.to_vec(), span);
            let ty = CType::Vector(super::types::ComponentKind::Int(IntKind::UnsignedInt), 3);
            return Some(Value { stable: true, ..Value::new(ty, expr) });
        }
        let float = |value: f64| Some(Value::float(value, DOUBLE, span));
        let single = |value: f32| Some(Value::float(f64::from(value), FLOAT, span));
        let int = |value: i128, ty: CType| Some(Value::int(value, ty, span));
        match name {
            "warpSize" => int(32, INT),
            "NULL" => int(0, INT),
            "INT_MAX" | "INT32_MAX" => int(i128::from(i32::MAX), INT),
            "INT_MIN" | "INT32_MIN" => int(i128::from(i32::MIN), INT),
            "UINT_MAX" | "UINT32_MAX" => int(i128::from(u32::MAX), UINT),
            "SHRT_MAX" | "INT16_MAX" => int(i128::from(i16::MAX), INT),
            "SHRT_MIN" | "INT16_MIN" => int(i128::from(i16::MIN), INT),
            "USHRT_MAX" | "UINT16_MAX" => int(i128::from(u16::MAX), INT),
            "CHAR_MAX" | "SCHAR_MAX" | "INT8_MAX" => int(127, INT),
            "CHAR_MIN" | "SCHAR_MIN" | "INT8_MIN" => int(-128, INT),
            "UCHAR_MAX" | "UINT8_MAX" => int(255, INT),
            "CHAR_BIT" => int(8, INT),
            "LONG_MAX" | "INT64_MAX" => int(i128::from(i64::MAX), CType::Int(IntKind::Long)),
            "LONG_MIN" | "INT64_MIN" => int(i128::from(i64::MIN), CType::Int(IntKind::Long)),
            "LLONG_MAX" => int(i128::from(i64::MAX), CType::Int(IntKind::LongLong)),
            "LLONG_MIN" => int(i128::from(i64::MIN), CType::Int(IntKind::LongLong)),
            "ULONG_MAX" | "UINT64_MAX" | "SIZE_MAX" => int(i128::from(u64::MAX), SIZE),
            "ULLONG_MAX" => int(i128::from(u64::MAX), CType::Int(IntKind::UnsignedLongLong)),
            "FLT_MAX" | "CUDART_MAX_NORMAL_F" => single(f32::MAX),
            "FLT_MIN" | "CUDART_MIN_NORMAL_F" => single(f32::MIN_POSITIVE),
            "FLT_EPSILON" => single(f32::EPSILON),
            "DBL_MAX" | "CUDART_MAX_NORMAL" => float(f64::MAX),
            "DBL_MIN" => float(f64::MIN_POSITIVE),
            "DBL_EPSILON" => float(f64::EPSILON),
            "INFINITY" | "HUGE_VALF" | "CUDART_INF_F" => single(f32::INFINITY),
            "HUGE_VAL" | "CUDART_INF" => float(f64::INFINITY),
            "NAN" | "CUDART_NAN_F" => single(f32::NAN),
            "CUDART_NAN" => float(f64::NAN),
            "CUDART_PI_F" => single(std::f32::consts::PI),
            "CUDART_PI" | "M_PI" => float(std::f64::consts::PI),
            "M_E" => float(std::f64::consts::E),
            "M_PI_2" => float(std::f64::consts::FRAC_PI_2),
            "M_PI_4" => float(std::f64::consts::FRAC_PI_4),
            "M_1_PI" => float(std::f64::consts::FRAC_1_PI),
            "M_2_PI" => float(std::f64::consts::FRAC_2_PI),
            "M_2_SQRTPI" => float(std::f64::consts::FRAC_2_SQRT_PI),
            "M_SQRT2" => float(std::f64::consts::SQRT_2),
            "M_SQRT1_2" => float(std::f64::consts::FRAC_1_SQRT_2),
            "M_LN2" => float(std::f64::consts::LN_2),
            "M_LN10" => float(std::f64::consts::LN_10),
            "M_LOG2E" => float(std::f64::consts::LOG2_E),
            "M_LOG10E" => float(std::f64::consts::LOG10_E),
            _ => None,
        }
    }

    /// Returns `threadIdx.x` and the like; `which` counts `threadIdx`, `blockIdx`, `blockDim`, `gridDim`.
    pub(crate) fn position(&mut self, which: usize, axis: &str, span: SourceSpan) -> Value {
        const NAMES: [&str; 4] = ["thread_idx", "block_idx", "block_dim", "grid_dim"];
        let number: u8 = match axis {
            "x" => 0,
            "y" => 1,
            _ => 2,
        };
        self.requirements.axes = self.requirements.axes.max(number);
        let threads: i128 = if number == 2 { 64 } else { 1024 };
        let blocks: i128 = if number == 0 { i128::from(i32::MAX) } else { 65_535 };
        let (position, range) = match which {
            0 => (Position::Thread(number), (0, threads - 1)),
            1 => (Position::Block(number), (0, blocks - 1)),
            2 => {
                let stated = self.stated_launch.block[usize::from(number)];
                (Position::BlockExtent(number), stated.map_or((1, threads), |extent| (extent, extent)))
            }
            _ => (Position::GridExtent(number), (1, blocks)),
        };
        let base = Expr::name(NAMES[which], span);
        let expr = Expr::new(ExprKind::Field(Box::new(base), axis.into()), span);
        Value {
            rep: ClkScalar::I32,
            range: Some(range),
            position: Some(position),
            stable: true,
            ..Value::new(UINT, expr)
        }
    }

    // ---- operators ----

    fn unary(&mut self, op: CppUnaryOp, operand: &'a CppExpr, span: SourceSpan) -> Res<Denoted> {
        Ok(match op {
            CppUnaryOp::Plus | CppUnaryOp::Minus | CppUnaryOp::BitNot => {
                let denoted = self.denote(operand)?;
                let ty = self.type_of_denoted(&denoted);
                if let CType::Record(_) = ty {
                    return self.call_operator(op.text(), denoted, vec![], span);
                }
                if let Some(result) = self.call_file_operator(op.text(), std::slice::from_ref(&denoted), span)? {
                    return Ok(result);
                }
                let value = self.value_of(denoted, operand.span)?;
                let value = self.settle(value);
                let text = match op {
                    CppUnaryOp::Plus => "+",
                    CppUnaryOp::Minus => "-",
                    _ => "~",
                };
                Denoted::Value(self.unary_arithmetic(text, value, span)?)
            }
            CppUnaryOp::Not => {
                let denoted = self.denote(operand)?;
                if let Some(result) = self.call_not(&denoted, span)? {
                    return Ok(result);
                }
                let condition = self.condition_of(denoted, operand.span)?;
                Denoted::Value(self.negated(condition))
            }
            CppUnaryOp::Deref => {
                let denoted = self.denote(operand)?;
                if let CType::Record(_) = self.type_of_denoted(&denoted) {
                    return self.call_operator("*", denoted, vec![], span);
                }
                if let CType::FunctionPointer(_) = self.type_of_denoted(&denoted) {
                    return Ok(denoted);
                }
                let pointer = self.pointer_of(denoted, operand.span)?;
                self.object_at(pointer, span)?
            }
            CppUnaryOp::AddressOf => {
                self.refuse_operators("&", &[operand], span)?;
                match self.denote(operand)? {
                    Denoted::Place(place) => Denoted::Pointer(self.address_of(place, span)?),
                    Denoted::Value(value) if is_function_pointer(&value.ty) => Denoted::Value(value),
                    _ => return refuse("the address of a value", span, "store the value in a variable first"),
                }
            }
            CppUnaryOp::PreIncrement | CppUnaryOp::PreDecrement => {
                if let Some(result) = self.call_increment(op, operand, span)? {
                    return Ok(result);
                }
                let place = self.place(operand)?;
                self.increment(op, &place, span)?;
                Denoted::Place(place)
            }
            CppUnaryOp::PostIncrement | CppUnaryOp::PostDecrement => match self.call_increment(op, operand, span)? {
                Some(result) => result,
                None => self.post_increment(op, operand, span)?,
            },
        })
    }

    /// Translates an expression to a condition.
    pub(crate) fn condition(&mut self, expr: &'a CppExpr) -> Res<Value> {
        let denoted = self.denote(expr)?;
        self.condition_of(denoted, expr.span)
    }

    fn condition_of(&mut self, denoted: Denoted, span: SourceSpan) -> Res<Value> {
        let ty = self.type_of_denoted(&denoted);
        if matches!(ty, CType::Pointer(_) | CType::Null) {
            let pointer = self.pointer_of(denoted, span)?;
            return Ok(self.is_not_null(&pointer, span));
        }
        let value = self.value_of(denoted, span)?;
        let value = self.settle(value);
        if let CType::Record(_) = value.ty {
            let converted = self.convert_class(value, &CType::Bool, span)?;
            return Ok(self.truth(converted));
        }
        Ok(self.truth(value))
    }

    fn denote_binary(
        &mut self,
        op: CppBinaryOp,
        left: &'a CppExpr,
        right: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Denoted> {
        if matches!(op, CppBinaryOp::And | CppBinaryOp::Or) {
            return Ok(Denoted::Value(self.short_circuit(op, left, right, span)?));
        }
        self.check_order(&[left, right])?;
        if let Some(value) = self.address_remainder(op, left, right, span)? {
            return Ok(Denoted::Value(value));
        }
        let a = self.denote(left)?;
        let a = self.settle_denoted(a, left.span)?;
        let mark = self.mark();
        let b = self.denote(right)?;
        let b = self.settle_denoted(b, right.span)?;
        let a = if self.mark() > mark { self.spill_denoted(a, mark) } else { a };
        let (ta, tb) = (self.type_of_denoted(&a), self.type_of_denoted(&b));
        if matches!(ta, CType::Record(_)) || matches!(tb, CType::Record(_)) {
            return self.call_operator(op.text(), a, vec![b], span);
        }
        let is_pointer = |ty: &CType| matches!(ty, CType::Pointer(_) | CType::Array(..) | CType::Null);
        let is_function = is_function_pointer(&ta) || is_function_pointer(&tb);
        if !is_function && (is_pointer(&ta) || is_pointer(&tb)) {
            return self.pointer_binary(op, a, b, span);
        }
        let operands = [a, b];
        if let Some(result) = self.call_file_operator(op.text(), &operands, span)? {
            return Ok(result);
        }
        let [a, b] = operands;
        let a = self.value_of(a, left.span)?;
        let b = self.value_of(b, right.span)?;
        Ok(Denoted::Value(self.binary(op, a, b, span)?))
    }

    /// Loads scalars, so that later operands do not change them, and stores values with effects.
    fn settle_denoted(&mut self, denoted: Denoted, span: SourceSpan) -> Res<Denoted> {
        match &denoted {
            Denoted::Value(value) if value.effect => {
                let value = value.clone();
                Ok(Denoted::Value(self.spill(value)))
            }
            Denoted::Place(place) if place.ty.is_arithmetic() => {
                let value = self.value_of(denoted, span)?;
                Ok(Denoted::Value(value))
            }
            _ => Ok(denoted),
        }
    }

    pub(crate) fn spill_denoted(&mut self, denoted: Denoted, mark: usize) -> Denoted {
        match denoted {
            // A sum may still contract the product of its operands.
            Denoted::Value(value) if value.is_product => Denoted::Value(self.spill_product(value, mark)),
            Denoted::Value(value) => Denoted::Value(self.spill_at(value, mark)),
            Denoted::Pointer(mut pointer) => {
                self.spill_pointer(&mut pointer, mark);
                Denoted::Pointer(pointer)
            }
            other => other,
        }
    }

    fn short_circuit(
        &mut self,
        op: CppBinaryOp,
        left: &'a CppExpr,
        right: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Value> {
        self.refuse_operators(op.text(), &[left, right], span)?;
        let a = self.condition(left)?;
        let is_and = op == CppBinaryOp::And;
        if let Some(known) = a.constant_bool()
            && known != is_and
        {
            return Ok(a);
        }
        // The name is taken first, so that no variable in the block hides it.
        let name = self.fresh("t");
        let (b, block) = self.nested(|lower| lower.condition(right))?;
        if block.is_empty() && !b.effect {
            self.release(&name);
            return Ok(logical(op, a, b, span));
        }
        let declare = StmtKind::Declare { name: name.clone(), mutable: true, ty: "bool".into(), value: Some(a.expr) };
        self.push(declare, span);
        let variable = Expr::name(name, span);
        let condition = if is_and { variable.clone() } else { variable.clone().not() };
        let mut then = block;
        then.push(Stmt { kind: StmtKind::Assign { place: variable.clone(), op: "", value: b.expr }, span });
        self.push(StmtKind::If { condition, then, otherwise: vec![] }, span);
        Ok(Value::new(CType::Bool, variable))
    }

    fn conditional(
        &mut self,
        condition: &'a CppExpr,
        then: &'a CppExpr,
        otherwise: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<Denoted> {
        let condition = self.condition(condition)?;
        if let Some(known) = condition.constant_bool() {
            let (chosen, other) = if known { (then, otherwise) } else { (otherwise, then) };
            let chosen = self.denote(chosen)?;
            // Both operands determine the type of the result.
            let ty = self.type_of_denoted(&chosen);
            return match ty.common(&self.type_of(other)?) {
                Some(common) if common != ty => {
                    let value = self.value_of(chosen, span)?;
                    Ok(Denoted::Value(self.convert(value, &common, span)?))
                }
                _ => Ok(chosen),
            };
        }
        // The name is taken first, so that no variable in the blocks hides it.
        let name = self.fresh("t");
        let (a, mut block_a) = self.nested(|lower| lower.denote(then))?;
        let (b, mut block_b) = self.nested(|lower| lower.denote(otherwise))?;
        let (ta, tb) = (self.type_of_denoted(&a), self.type_of_denoted(&b));
        if ta == CType::Void && tb == CType::Void {
            self.release(&name);
            self.push(StmtKind::If { condition: condition.expr, then: block_a, otherwise: block_b }, span);
            return Ok(Denoted::Void);
        }
        let is_pointer = |ty: &CType| matches!(ty, CType::Pointer(_) | CType::Array(..) | CType::Null);
        let is_function = is_function_pointer(&ta) || is_function_pointer(&tb);
        if !is_function && (is_pointer(&ta) || is_pointer(&tb)) {
            if !block_a.is_empty() || !block_b.is_empty() {
                return refuse("`?:` of pointers with effects", span, "use an `if`");
            }
            self.release(&name);
            return Ok(Denoted::Pointer(self.conditional_pointer(condition, a, b, span)?));
        }
        let ty = if ta == tb {
            ta
        } else if let Some(common) = ta.common(&tb) {
            common
        } else if matches!(ta, CType::Record(_) | CType::Vector(..) | CType::FunctionPointer(_)) {
            ta
        } else {
            tb
        };
        let part = |lower: &mut Self, denoted: Denoted, block: &mut Vec<Stmt>, at: SourceSpan| -> Res<Value> {
            lower.blocks.push(std::mem::take(block));
            let result = lower.value_of(denoted, at).and_then(|value| lower.convert(value, &ty, at));
            *block = lower.blocks.pop().unwrap_or_default();
            result
        };
        let a = part(self, a, &mut block_a, then.span)?;
        let b = part(self, b, &mut block_b, otherwise.span)?;
        let range = match (a.range, b.range) {
            (Some(x), Some(y)) => Some((x.0.min(y.0), x.1.max(y.1))),
            _ => None,
        };
        // Both branches need one representation.
        let same_rep = a.rep == b.rep && a.rep != ClkScalar::Bool && ty.is_integer();
        let rep = if same_rep { a.rep } else { ty.scalar().unwrap_or(a.rep) };
        let unify = |value: &Value| if ty.is_integer() { coerce(value, rep) } else { value.expr.clone() };
        let (x, y) = (unify(&a), unify(&b));
        if block_a.is_empty() && block_b.is_empty() && !a.effect && !b.effect {
            let stable = condition.stable && a.stable && b.stable;
            let expr = Expr::new(ExprKind::If(Box::new(condition.expr), Box::new(x), Box::new(y)), span);
            self.release(&name);
            return Ok(Denoted::Value(Value { rep, range, stable, ..Value::new(ty, expr) }));
        }
        let result = Value { rep, range, ..Value::new(ty, Expr::name(name.clone(), span)) };
        let text = self.value_type_text(&result);
        self.push(StmtKind::Declare { name, mutable: true, ty: text, value: None }, span);
        let assign = |value: Expr| Stmt { kind: StmtKind::Assign { place: result.expr.clone(), op: "", value }, span };
        block_a.push(assign(x));
        block_b.push(assign(y));
        self.push(StmtKind::If { condition: condition.expr, then: block_a, otherwise: block_b }, span);
        Ok(Denoted::Value(result))
    }

    // ---- assignments ----

    pub(crate) fn assign(
        &mut self,
        op: Option<CppBinaryOp>,
        target: &'a CppExpr,
        value: &'a CppExpr,
        span: SourceSpan,
    ) -> Res<CppPlace> {
        if let CppExprKind::InitList(items) = &value.kind
            && op.is_none()
        {
            let ty = self.type_of(target)?;
            let values: Vec<_> = items.iter().map(|item| &item.value).collect();
            let value = self.construct(&ty, &values, true, span)?;
            if let CType::Record(id) = ty
                && !self.methods(id, "operator=").is_empty()
            {
                return refuse("`= {…}` of a class with `operator=`", span, "name the type: `T{…}`");
            }
            let place = self.place(target)?;
            self.store(&place, value, span)?;
            return Ok(place);
        }
        // C++17 evaluates the right side first.
        let denoted = self.denote(value)?;
        let denoted = match denoted {
            Denoted::Place(place) if !matches!(place.ty, CType::Pointer(_) | CType::Array(..)) => {
                Denoted::Value(self.load(&place)?)
            }
            other => other,
        };
        let mark = self.mark();
        let place = self.place(target)?;
        let denoted = if self.mark() > mark { self.spill_denoted(denoted, mark) } else { denoted };
        if let CType::Pointer(_) = place.ty {
            let pointer = match op {
                None => self.pointer_of(denoted, value.span)?,
                Some(op @ (CppBinaryOp::Add | CppBinaryOp::Sub)) => {
                    let old = self.pointer_of(Denoted::Place(place.clone()), span)?;
                    let by = self.value_of(denoted, value.span)?;
                    self.offset(old, by, op == CppBinaryOp::Sub, span)?
                }
                Some(op) => return refuse(format!("`{}=` of a pointer", op.text()), span, "use an index"),
            };
            self.assign_pointer(&place, pointer, span)?;
            return Ok(place);
        }
        if let (Some(op), CType::Vector(..) | CType::Enum(..)) = (op, &place.ty) {
            let operands = [Denoted::Place(place.clone()), denoted.clone()];
            match self.call_file_operator(&format!("{}=", op.text()), &operands, span)? {
                Some(Denoted::Value(result)) if result.effect => {
                    self.push(StmtKind::Expr(result.expr), span);
                    return Ok(place);
                }
                Some(_) => return Ok(place),
                None => {}
            }
        }
        if self.assign_object(op, &place, &denoted, span)? {
            return Ok(place);
        }
        let value = self.value_of(denoted, value.span)?;
        match op {
            None => {
                let value = self.convert(value, &place.ty.clone(), span)?;
                self.store(&place, value, span)?;
            }
            Some(op) => {
                let value = self.settle(value);
                let old = self.load(&place)?;
                let result = self.binary(op, old, value, span)?;
                let result = self.convert(result, &place.ty.clone(), span)?;
                self.store(&place, result, span)?;
            }
        }
        Ok(place)
    }

    /// Adds 1 to a place or subtracts it.
    fn increment(&mut self, op: CppUnaryOp, place: &CppPlace, span: SourceSpan) -> Res<()> {
        let subtract = matches!(op, CppUnaryOp::PreDecrement | CppUnaryOp::PostDecrement);
        if let CType::Pointer(_) = place.ty {
            let old = self.pointer_of(Denoted::Place(place.clone()), span)?;
            let by = Value::int(1, INT, span);
            let new = self.offset(old, by, subtract, span)?;
            return self.assign_pointer(place, new, span);
        }
        if let CType::Record(_) = place.ty {
            return refuse("`++` of an object", span, "call a method");
        }
        let old = self.load(place)?;
        let one = match old.ty {
            CType::Float(FloatKind::Double) => Value::float(1.0, DOUBLE, span),
            CType::Float(_) => Value::float(1.0, FLOAT, span),
            _ => Value::int(1, INT, span),
        };
        let binary = if subtract { CppBinaryOp::Sub } else { CppBinaryOp::Add };
        let new = self.binary(binary, old, one, span)?;
        let new = self.convert(new, &place.ty.clone(), span)?;
        self.store(place, new, span)
    }

    fn post_increment(&mut self, op: CppUnaryOp, operand: &'a CppExpr, span: SourceSpan) -> Res<Denoted> {
        let place = self.place(operand)?;
        if let CType::Pointer(_) = place.ty {
            let mut old = self.pointer_of(Denoted::Place(place.clone()), span)?;
            let mark = self.mark();
            self.spill_pointer(&mut old, mark);
            self.increment(op, &place, span)?;
            return Ok(Denoted::Pointer(old));
        }
        let old = self.load(&place)?;
        // The place is about to change, whatever is known about it.
        let old = self.spill(Value { stable: false, ..old });
        self.increment(op, &place, span)?;
        Ok(Denoted::Value(old))
    }

    /// Translates an expression whose value is not used.
    pub(crate) fn discard(&mut self, expr: &'a CppExpr) -> Res<()> {
        let span = expr.span;
        match &expr.kind {
            CppExprKind::Unary {
                op:
                    op @ (CppUnaryOp::PreIncrement
                    | CppUnaryOp::PreDecrement
                    | CppUnaryOp::PostIncrement
                    | CppUnaryOp::PostDecrement),
                operand,
            } => {
                if let Some(result) = self.call_increment(*op, operand, span)? {
                    if let Denoted::Value(value) = result
                        && value.effect
                    {
                        self.push(StmtKind::Expr(value.expr), span);
                    }
                    return Ok(());
                }
                let place = self.place(operand)?;
                self.increment(*op, &place, span)?;
            }
            CppExprKind::Comma { left, right } => {
                self.refuse_operators(",", &[left, right], span)?;
                self.discard(left)?;
                self.discard(right)?;
            }
            CppExprKind::Cast { ty, value, .. }
                if matches!(ty.kind, crate::ast::CppTypeKind::Basic(BasicType::Void)) =>
            {
                self.discard(value)?;
            }
            CppExprKind::Conditional { condition, then, otherwise } => {
                let condition = self.condition(condition)?;
                let ((), then) = self.nested(|lower| lower.discard(then))?;
                let ((), otherwise) = self.nested(|lower| lower.discard(otherwise))?;
                match condition.constant_bool() {
                    Some(known) => {
                        let chosen = if known { then } else { otherwise };
                        if let Some(block) = self.blocks.last_mut() {
                            block.extend(chosen);
                        }
                    }
                    None if then.is_empty() && otherwise.is_empty() => {}
                    None => self.push(StmtKind::If { condition: condition.expr, then, otherwise }, span),
                }
            }
            _ => {
                if let Denoted::Value(value) = self.denote(expr)?
                    && value.effect
                {
                    let expr = match value.expr.kind {
                        // A conversion of an unused result is not needed.
                        ExprKind::Call(name, mut args)
                            if args.len() == 1
                                && super::types::header_type(&name).is_none()
                                && crate::emit::names::is_reserved(&name)
                                && matches!(args[0].kind, ExprKind::Call(..))
                                && name.len() <= 4 =>
                        {
                            args.remove(0)
                        }
                        kind => Expr::new(kind, span),
                    };
                    self.push(StmtKind::Expr(expr), span);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn place(&mut self, expr: &'a CppExpr) -> Res<CppPlace> {
        match self.denote(expr)? {
            Denoted::Place(place) => Ok(place),
            _ => refuse("an assignment to a value", expr.span, "assign to a variable or an element"),
        }
    }

    // ---- casts ----

    fn cast(&mut self, kind: CppCastKind, to: CType, value: &'a CppExpr, span: SourceSpan) -> Res<Denoted> {
        if kind == CppCastKind::Dynamic {
            return refuse("`dynamic_cast`", span, "");
        }
        match &to {
            CType::Void => {
                self.discard(value)?;
                Ok(Denoted::Void)
            }
            CType::Pointer(target) => {
                let denoted = self.denote(value)?;
                let pointer = self.pointer_of(denoted, value.span)?;
                Ok(Denoted::Pointer(self.cast_pointer(pointer, target, span)?))
            }
            CType::Reference(target) => {
                let place = match self.denote(value)? {
                    Denoted::Place(place) => place,
                    other => return Ok(other),
                };
                if place.ty == **target {
                    return Ok(Denoted::Place(place));
                }
                if kind != CppCastKind::Reinterpret {
                    let value = self.load(&place)?;
                    return Ok(Denoted::Value(self.convert(value, target, span)?));
                }
                let pointer = self.address_of(place, span)?;
                let pointer = self.cast_pointer(pointer, target, span)?;
                self.object_at(pointer, span)
            }
            CType::Record(id) if self.has_constructor(*id) => {
                Ok(Denoted::Value(self.construct(&to, &[value], false, span)?))
            }
            _ => {
                let value = self.rvalue(value)?;
                Ok(Denoted::Value(self.convert(value, &to, span)?))
            }
        }
    }

    /// Returns the expression of a value converted to a type, in the Clk type of that type.
    pub(crate) fn converted(&mut self, value: Value, to: &CType, span: SourceSpan) -> Res<Expr> {
        let value = self.convert(value, to, span)?;
        Ok(realize(&value))
    }
}

fn is_function_pointer(ty: &CType) -> bool {
    matches!(ty, CType::FunctionPointer(_))
}
