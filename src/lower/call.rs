//! Calls, and functions: one DeviceIR function per instance.

use super::constant::Constants;
use super::copy::Row;
use super::emit::Emitter;
use super::error::{Fallible, internal};
use super::instance::{Argument, Function};
use super::place::Target;
use super::types;
use super::unit::{Body, DimSource, Slot, Unit};
use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{self, ArrayType, Dim, Expr, ExprKind, FnId, FnRef, LocalId, Signature, Type};
use crate::check::{parts, solve};
use crate::ir::def::{self, BinOp, ExprId, FunctionId, MemId, Part, StmtKind};

/// Maximum depth of nested instances; it stops an infinite chain of instantiations.
const MAX_DEPTH: usize = 128;

/// The destination that an `inout` argument is copied back to.
enum Lent {
    Value(Target),
    /// A field array, from its copy.
    Field(Target, MemId),
    /// A slice of an array, from its copy.
    Row(Row, MemId),
}

impl Unit<'_> {
    /// Returns the function for this instance, which is lowered at its first call.
    pub fn instance(&mut self, id: FnId, arguments: &[Argument], span: Span) -> Fallible<FunctionId> {
        let key = (id, arguments.to_vec());
        if let Some(&known) = self.instances.get(&key) {
            return Ok(known);
        }
        let program = self.program;
        let function = program.fns.get(id).ok_or_else(|| internal(span, "a call of a function that is not there"))?;
        if self.active.len() >= MAX_DEPTH || self.active.contains(&key) {
            return Err(self.endless(function, span));
        }
        let large = |argument: &&Argument| matches!(argument, Argument::Type(ty) if parts::too_many(program, ty));
        if arguments.iter().any(|argument| large(&argument)) {
            return Err(Box::new(parts::refusal("a type argument of this call", span)));
        }
        self.active.push(key.clone());
        let lowered = self::function(self, id, function, arguments);
        let lowered = lowered.map_err(|error| self.annotated(error));
        self.active.pop();
        let lowered = self.functions.push(lowered?);
        self.instances.insert(key, lowered);
        Ok(lowered)
    }

    fn endless(&self, function: &typed::Fn, span: Span) -> Box<Diagnostic> {
        let cycle: Vec<&str> = self
            .active
            .iter()
            .rev()
            .take(4)
            .rev()
            .filter_map(|(id, _)| self.program.fns.get(*id))
            .map(|f| f.name.as_str())
            .collect();
        let chain = cycle.join("` calls `");
        Box::new(
            Diagnostic::error("E0486", format!("`{}` is called from within itself", function.name))
                .at(span, "this call never comes to an end when it is compiled")
                .because(function.name_span, "the function")
                .note(format!("`{chain}` calls `{}`", function.name))
                .help("device functions are not recursive: write a loop, with an array as a stack where one is needed"),
        )
    }
}

impl Body<'_, '_> {
    pub fn call(&mut self, callee: &FnRef, args: &[Expr], expr: &Expr) -> Fallible<Vec<ExprId>> {
        match self.mono.function(callee, expr.span)? {
            Function::Builtin(builtin) => self.builtin(builtin, args, expr),
            Function::Fn { .. } if matches!(expr.ty, Type::Array(_)) => self.array(expr).map(|_| vec![]),
            Function::Fn { id, arguments } => self.call_instance(id, &arguments, args, None, expr.span),
        }
    }

    /// Emits a call of a function instance. `result` is the memory for an array-typed result.
    pub(crate) fn call_instance(
        &mut self,
        id: FnId,
        arguments: &[Argument],
        args: &[Expr],
        result: Option<MemId>,
        span: Span,
    ) -> Fallible<Vec<ExprId>> {
        let function = self.unit.instance(id, arguments, span)?;
        let (mut values, mut memories, mut lent) = (Vec::new(), Vec::new(), Vec::new());
        for (position, arg) in args.iter().enumerate() {
            match (self.is_array(arg), self.hands_back(id, position)) {
                (true, true) => {
                    let memory = self.lend_array(arg, &mut lent)?;
                    self.check_shared(memory, arg, function, memories.len())?;
                    memories.push(memory);
                }
                (true, false) => memories.push(self.array_before(arg, &args[position + 1..])?),
                (false, true) => {
                    let target = self.target(arg)?;
                    values.extend(self.load(&target)?);
                    lent.push((Lent::Value(target), arg));
                }
                (false, false) => values.extend(self.value(arg)?),
            }
        }
        memories.extend(result);
        let mut results = self.call_lowered(function, values, memories, span)?;
        let mut changed = Vec::with_capacity(lent.len());
        for (place, arg) in lent.into_iter().rev() {
            let count = match &place {
                Lent::Value(_) => self.machine(&self.type_of(arg)?, arg.span)?.len(),
                Lent::Field(..) | Lent::Row(..) => 0,
            };
            changed.push((place, results.split_off(results.len().saturating_sub(count)), arg.span));
        }
        // If two `inout` arguments are the same element, the value of the last parameter remains.
        for (place, values, span) in changed.into_iter().rev() {
            match place {
                Lent::Value(target) => {
                    self.refresh(&target)?;
                    self.store(&target, &values, span)?;
                }
                Lent::Field(target, memory) => {
                    let leaves = self.all_leaves(memory, span)?;
                    self.store(&target, &leaves, span)?;
                }
                Lent::Row(row, memory) => self.row_back(&row, memory, span)?,
            }
        }
        Ok(results)
    }

    /// Returns the memory to pass for an array parameter that the callee modifies: a variable's own memory, or a copy that is
    /// written back.
    fn lend_array<'e>(&mut self, arg: &'e Expr, lent: &mut Vec<(Lent, &'e Expr)>) -> Fallible<MemId> {
        match &arg.kind {
            ExprKind::Slice { base, indices } => {
                let row = self.row(base, indices, arg)?;
                let memory = self.row_copy(&row, arg.span)?;
                lent.push((Lent::Row(row, memory), arg));
                Ok(memory)
            }
            ExprKind::Field { .. } | ExprKind::TupleField { .. } => {
                let home = self.target(arg)?;
                let name = self.vector_name(arg);
                let memory = self.array_at(&name, &home, arg.span)?;
                lent.push((Lent::Field(home, memory), arg));
                Ok(memory)
            }
            _ => self.array(arg),
        }
    }

    /// Whether a function's parameter at `position` is `out` or `inout`.
    fn hands_back(&self, id: FnId, position: usize) -> bool {
        let param = self.program.fns.get(id).and_then(|f| f.sig.params.get(position));
        param.is_some_and(|p| p.access != typed::Access::In)
    }

    /// Returns the final values of `inout` parameters, in order.
    pub(crate) fn values_back(&mut self, span: Span) -> Fallible<Vec<ExprId>> {
        let mut values = Vec::new();
        for id in self.handed_back.clone() {
            let Slot::Variable(locals) = self.slot(id, span)? else {
                return Err(internal(span, "an `inout` parameter that is no variable"));
            };
            values.extend(locals.into_iter().map(|local| self.out.read(local, span)));
        }
        Ok(values)
    }

    pub(crate) fn call_lowered(
        &mut self,
        function: def::FunctionId,
        args: Vec<ExprId>,
        memories: Vec<MemId>,
        span: Span,
    ) -> Fallible<Vec<ExprId>> {
        let callee = &self.unit.functions[function];
        if callee.params.len() != args.len() && !self.out.is_done() {
            return Err(internal(span, "a call with the wrong number of values"));
        }
        let types = callee.results.clone();
        let results: Vec<ExprId> = types.into_iter().map(|ty| self.out.result(ty, span)).collect();
        self.out.stmt(StmtKind::Call { function, args, memories, results: results.clone() }, span);
        Ok(results)
    }

    /// Binds every parameter to its slot: values are created by `value`, arrays by `array`. Then locates the values of the
    /// dimensions.
    pub fn parameters(
        &mut self,
        signature: &Signature,
        mut value: impl FnMut(&mut Emitter, String, def::Ty, Span) -> ExprId,
        mut array: impl FnMut(&mut Emitter, &typed::Param, def::Layout, usize) -> MemId,
    ) -> Fallible<()> {
        for (position, param) in signature.params.iter().enumerate() {
            let slot = match self.mono.ty(&param.ty, param.span)? {
                Type::Array(ty) => {
                    let element = self.mono.ty(&ty.element, param.span)?;
                    let layout = types::layout(self.program, &element, param.span)?;
                    let memory = array(&mut self.out, param, layout, ty.dims.len());
                    self.bind_dims(&ty, memory, signature);
                    Slot::Array(memory)
                }
                ty => {
                    let leaves = types::leaves(self.program, &ty, param.span)?;
                    let named = leaves.into_iter().map(|(path, ty)| (types::leaf_name(&param.name, &path), ty));
                    let values: Vec<ExprId> =
                        named.map(|(name, machine)| value(&mut self.out, name, machine, param.span)).collect();
                    if param.access != typed::Access::In {
                        let id = LocalId::new(position);
                        self.handed_back.push(id);
                        self.variable_slot(id, &ty, values, param.span)?;
                        continue;
                    }
                    let declared = self.local(LocalId::new(position), param.span)?;
                    self.named(&declared.name, &ty, &values, declared.span)?;
                    Slot::Value(values)
                }
            };
            self.slots.insert(LocalId::new(position), slot);
        }
        Ok(())
    }

    fn bind_dims(&mut self, ty: &ArrayType, memory: MemId, signature: &Signature) {
        for (axis, dim) in ty.dims.iter().enumerate() {
            let axis = axis as u8;
            let fixed = match dim {
                Dim::Known(n) => u32::try_from(*n).ok(),
                Dim::Name(name) => {
                    if let Some(source @ None) = self.dims.get_mut(*name as usize) {
                        *source = Some(DimSource::Extent(memory, axis));
                    }
                    None
                }
                Dim::Expr(i) => signature
                    .dim_exprs
                    .get(*i as usize)
                    .and_then(|expr| Constants::new(self.program, &self.mono.arguments).evaluate(expr).ok())
                    .and_then(|known| u32::try_from(known.as_integer()?).ok()),
                Dim::Local(_) | Dim::Unknown => None,
            };
            if let Some(fixed) = fixed {
                self.fixed.insert((memory, axis), fixed);
            }
        }
    }

    /// Computes the dimensions of a function that only dimension expressions name, from their values where the dimension is 0 and 1.
    /// Where no number gives the extent, the function fails.
    fn solve_dims(&mut self, signature: &Signature) -> Fallible<()> {
        for (dim, (param, axis, i)) in solve::order(signature).solved {
            let expr = &signature.dim_exprs[i];
            let Slot::Array(memory) = self.slot(LocalId::new(param), expr.span)? else {
                return Err(internal(expr.span, "an extent of what is no array"));
            };
            let span = signature.params[param].span;
            let extent = self.extent(memory, axis as u8, span);
            let at = |this: &mut Self, value| {
                this.dims[dim as usize] = Some(DimSource::Value(this.out.i32(value, span)));
                this.scalar(expr)
            };
            let (at_0, at_1) = (at(self, 0)?, at(self, 1)?);
            let rest = self.out.binary(BinOp::Sub, extent, at_0, span);
            let slope = self.out.binary(BinOp::Sub, at_1, at_0, span);
            let name = &signature.dims[dim as usize].name;
            let message =
                vec![Part::Text(format!("no `{name}` gives the extent of `{}`", signature.params[param].name))];
            let zero = self.out.i32(0, span);
            let ensure = |this: &mut Self, op, left, right| {
                let cond = this.out.binary(op, left, right, span);
                this.out.stmt(StmtKind::Assert { cond, message: message.clone() }, span);
            };
            ensure(self, BinOp::Ne, slope, zero);
            let value = self.out.binary(BinOp::Div, rest, slope, span);
            let left_over = self.out.binary(BinOp::Rem, rest, slope, span);
            ensure(self, BinOp::Eq, left_over, zero);
            ensure(self, BinOp::Ge, value, zero);
            self.dims[dim as usize] = Some(DimSource::Value(value));
        }
        Ok(())
    }

    /// Writes the dimensions to locals of their names, if the module is to have them.
    pub(super) fn named_dims(&mut self, signature: &Signature) -> Fallible<()> {
        if !self.unit.named {
            return Ok(());
        }
        for (dim, declared) in signature.dims.iter().enumerate() {
            if let Some(Some(_)) = self.dims.get(dim) {
                let value = self.dim(dim as u32, declared.span)?;
                self.named(&declared.name, &Type::Scalar(def::Scalar::I32), &[value], declared.span)?;
            }
        }
        Ok(())
    }

    /// Lowers the body's block and emits the return of its result and final `inout` values.
    pub(crate) fn function_body(&mut self, body: &typed::Body) -> Fallible<()> {
        let span = body.root.tail.as_ref().map_or(body.root.span, |tail| tail.span);
        if let Some(memory) = self.result_array {
            self.block_into(&body.root, memory, true)?;
            let values = self.values_back(span)?;
            self.out.stmt(StmtKind::Return(values), span);
            return Ok(());
        }
        let result = self.result.clone();
        let plain = self.machine(&result, span)?.is_empty();
        if plain && self.handed_back.is_empty() {
            return self.effects(&body.root);
        }
        let mut values = if plain {
            self.effects(&body.root)?;
            vec![]
        } else {
            self.block(&body.root)?
        };
        if values.is_empty() && !plain {
            values = self.unreachable(&result, span)?;
        }
        values.extend(self.values_back(span)?);
        self.out.stmt(StmtKind::Return(values), span);
        Ok(())
    }
}

pub(crate) fn access(access: typed::Access) -> def::Access {
    match access {
        typed::Access::In => def::Access::In,
        typed::Access::Out => def::Access::Out,
        typed::Access::InOut => def::Access::InOut,
    }
}

/// Lowers one instance of a function, which later functions can call.
pub(crate) fn function<'a>(
    unit: &mut Unit<'a>,
    id: FnId,
    function: &'a typed::Fn,
    arguments: &[Argument],
) -> Fallible<def::Function> {
    let span = function.name_span;
    let typed = function.body.as_deref().ok_or_else(|| internal(span, format!("`{}` has no body", function.name)))?;
    let name = format!("{}_{}", function.name, unit.functions.len());
    let mut body = Body::new(unit, arguments, function.sig.dims.len(), &typed.locals, Emitter::new(name, span));
    body.result = body.mono.ty(&function.result, span)?;
    let is_array = matches!(body.result, Type::Array(_));
    let mut results = if is_array { vec![] } else { body.machine(&body.result, span)? };
    for param in function.sig.params.iter().filter(|p| p.access != typed::Access::In) {
        let ty = body.mono.ty(&param.ty, param.span)?;
        if !matches!(ty, Type::Array(_)) {
            results.extend(body.machine(&ty, param.span)?);
        }
    }
    body.out.at(span).results(results);
    body.parameters(
        &function.sig,
        |out, _, ty, span| out.at(span).param(ty),
        |out, param, layout, rank| {
            out.at(param.span).array_param(param.name.as_str(), access(param.access), layout, rank)
        },
    )?;
    body.solve_dims(&function.sig)?;
    body.named_dims(&function.sig)?;
    body.result_parameter(id, arguments, span)?;
    body.function_body(typed)?;
    Ok(body.out.into_builder().finish())
}
