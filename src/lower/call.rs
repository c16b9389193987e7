//! Lowers calls, and the functions that they call: one DeviceIR function per instance (function with compile-time
//! arguments).

use super::array_values::ArraySlice;
use super::constant::ConstEvaluator;
use super::context::{BodyLowering, DimSource, LoweredLocal, ModuleLowering};
use super::emit::ExprEmitter;
use super::error::{Fallible, internal};
use super::instance::{FunctionInstance, GenericArgument};
use super::place::AssignablePlace;
use super::types;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{self, ArrayType, Dim, Expr, ExprKind, FnId, FnRef, LocalId, Signature, Type};
use clk_check::{scalar_count, solve_dims};
use clk_ir::def::{self, BinOp, ExprId, FunctionId, MemId, MessageSegment, StmtKind};

/// Maximum depth of nested instantiations. Without this limit, a generic function that calls itself with new arguments
/// would be instantiated forever.
const MAX_DEPTH: usize = 128;

/// Where an `inout` argument is copied to after the call.
enum CopyBackTarget {
    Value(AssignablePlace),
    /// An array in a field, and the memory of its copy.
    Field(AssignablePlace, MemId),
    /// A slice of an array, and the memory of its copy.
    Row(ArraySlice, MemId),
}

impl ModuleLowering<'_> {
    /// Returns the function for this instance, which is lowered at its first call.
    pub fn instance(&mut self, id: FnId, arguments: &[GenericArgument], span: Span) -> Fallible<FunctionId> {
        let key = (id, arguments.to_vec());
        if let Some(&lowered_before) = self.instances.get(&key) {
            return Ok(lowered_before);
        }
        let program = self.program;
        let function = program.fns.get(id).ok_or_else(|| internal(span, "a call of a function that is not there"))?;
        if self.active.len() >= MAX_DEPTH || self.active.contains(&key) {
            return Err(self.endless_instantiation(function, span));
        }
        let large = |argument: &&GenericArgument| matches!(argument, GenericArgument::Type(ty) if scalar_count::too_many(program, ty));
        if arguments.iter().any(|argument| large(&argument)) {
            return Err(Box::new(scalar_count::too_many_parts_error("a type argument of this call", span)));
        }
        self.active.push(key.clone());
        let lowered = self::function(self, id, function, arguments);
        let lowered = lowered.map_err(|error| self.annotated(error));
        self.active.pop();
        let lowered = self.functions.push(lowered?);
        self.instances.insert(key, lowered);
        Ok(lowered)
    }

    fn endless_instantiation(&self, function: &typed::Fn, span: Span) -> Box<Diagnostic> {
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
                .at(span, "compiling this call would never end")
                .because(function.name_span, "the function")
                .note(format!("`{chain}` calls `{}`", function.name))
                .help("device functions are not recursive: write a loop, with an array as a stack where one is needed"),
        )
    }
}

impl BodyLowering<'_, '_> {
    pub fn call(&mut self, callee: &FnRef, args: &[Expr], expr: &Expr) -> Fallible<Vec<ExprId>> {
        match self.mono.function(callee, expr.span)? {
            FunctionInstance::Builtin(builtin) => self.builtin(builtin, args, expr),
            FunctionInstance::Fn { .. } if matches!(expr.ty, Type::Array(_)) => self.array(expr).map(|_| vec![]),
            FunctionInstance::Fn { id, arguments } => self.call_instance(id, &arguments, args, None, expr.span),
        }
    }

    /// Emits a call of a function instance. `result` is the memory for an array-typed result.
    pub(crate) fn call_instance(
        &mut self,
        id: FnId,
        arguments: &[GenericArgument],
        args: &[Expr],
        result: Option<MemId>,
        span: Span,
    ) -> Fallible<Vec<ExprId>> {
        let function = self.unit.instance(id, arguments, span)?;
        let (mut values, mut memories, mut copied_back) = (Vec::new(), Vec::new(), Vec::new());
        for (position, arg) in args.iter().enumerate() {
            match (self.is_array(arg), self.is_mutable_param(id, position)) {
                (true, true) => {
                    let memory = self.mutable_array_argument(arg, &mut copied_back)?;
                    self.check_shared(memory, arg, function, memories.len())?;
                    memories.push(memory);
                }
                (true, false) => memories.push(self.array_value_before(arg, &args[position + 1..])?),
                (false, true) => {
                    let target = self.target(arg)?;
                    values.extend(self.load(&target)?);
                    copied_back.push((CopyBackTarget::Value(target), arg));
                }
                (false, false) => values.extend(self.value(arg)?),
            }
        }
        memories.extend(result);
        let mut results = self.call_lowered(function, values, memories, span)?;
        let mut changed = Vec::with_capacity(copied_back.len());
        for (place, arg) in copied_back.into_iter().rev() {
            let count = match &place {
                CopyBackTarget::Value(_) => self.machine(&self.type_of(arg)?, arg.span)?.len(),
                CopyBackTarget::Field(..) | CopyBackTarget::Row(..) => 0,
            };
            changed.push((place, results.split_off(results.len().saturating_sub(count)), arg.span));
        }
        // Copy back in parameter order. If two `inout` arguments are the same element, it has the value of the last of
        // these parameters.
        for (place, values, span) in changed.into_iter().rev() {
            match place {
                CopyBackTarget::Value(target) => {
                    self.refresh(&target)?;
                    self.store(&target, &values, span)?;
                }
                CopyBackTarget::Field(target, memory) => {
                    let leaves = self.all_leaves(memory, span)?;
                    self.store(&target, &leaves, span)?;
                }
                CopyBackTarget::Row(row, memory) => self.write_back_slice(&row, memory, span)?,
            }
        }
        Ok(results)
    }

    /// Returns the memory to pass for an array parameter that the callee modifies: the memory of a variable, or a copy
    /// that is written back after the call.
    fn mutable_array_argument<'e>(
        &mut self,
        arg: &'e Expr,
        copied_back: &mut Vec<(CopyBackTarget, &'e Expr)>,
    ) -> Fallible<MemId> {
        match &arg.kind {
            ExprKind::Slice { base, indices } => {
                let row = self.row(base, indices, arg)?;
                let memory = self.copy_slice(&row, arg.span)?;
                copied_back.push((CopyBackTarget::Row(row, memory), arg));
                Ok(memory)
            }
            ExprKind::Field { .. } | ExprKind::TupleField { .. } => {
                let home = self.target(arg)?;
                let name = self.vector_name(arg);
                let memory = self.array_at(&name, &home, arg.span)?;
                copied_back.push((CopyBackTarget::Field(home, memory), arg));
                Ok(memory)
            }
            _ => self.array(arg),
        }
    }

    /// Returns whether a function's parameter at `position` is `out` or `inout`.
    fn is_mutable_param(&self, id: FnId, position: usize) -> bool {
        let param = self.program.fns.get(id).and_then(|f| f.sig.params.get(position));
        param.is_some_and(|p| p.access != typed::Access::In)
    }

    /// Returns the final values of `inout` parameters, in order.
    pub(crate) fn inout_results(&mut self, span: Span) -> Fallible<Vec<ExprId>> {
        let mut values = Vec::new();
        for id in self.inout_params.clone() {
            let LoweredLocal::Variable(locals) = self.slot(id, span)? else {
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

    /// Declares the parameters of the function, with `value` for the leaves of a value and with `array` for an array,
    /// and binds the locals of the body to them. Then determines how the values of the dimensions are computed.
    pub fn parameters(
        &mut self,
        signature: &Signature,
        mut value: impl FnMut(&mut ExprEmitter, String, def::Ty, Span) -> ExprId,
        mut array: impl FnMut(&mut ExprEmitter, &typed::Param, def::ElementLayout, usize) -> MemId,
    ) -> Fallible<()> {
        for (position, param) in signature.params.iter().enumerate() {
            let slot = match self.mono.ty(&param.ty, param.span)? {
                Type::Array(ty) => {
                    let element = self.mono.ty(&ty.element, param.span)?;
                    let layout = types::layout(self.program, &element, param.span)?;
                    let memory = array(&mut self.out, param, layout, ty.dims.len());
                    self.bind_dims(&ty, memory, signature);
                    LoweredLocal::Array(memory)
                }
                ty => {
                    let leaves = types::leaves(self.program, &ty, param.span)?;
                    let named_leaves = leaves.into_iter().map(|(path, ty)| (types::leaf_name(&param.name, &path), ty));
                    let values: Vec<ExprId> =
                        named_leaves.map(|(name, machine)| value(&mut self.out, name, machine, param.span)).collect();
                    if param.access != typed::Access::In {
                        let id = LocalId::new(position);
                        self.inout_params.push(id);
                        self.variable_slot(id, &ty, values, param.span)?;
                        continue;
                    }
                    let declared = self.local(LocalId::new(position), param.span)?;
                    self.bind_debug_locals(&declared.name, &ty, &values, declared.span)?;
                    LoweredLocal::Value(values)
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
                    .and_then(|expr| ConstEvaluator::new(self.program, &self.mono.arguments).evaluate(expr).ok())
                    .and_then(|known| u32::try_from(known.as_integer()?).ok()),
                Dim::Local(_) | Dim::Unknown => None,
            };
            if let Some(fixed) = fixed {
                self.fixed.insert((memory, axis), fixed);
            }
        }
    }

    /// Computes the dimensions of a function that occur only in dimension expressions, from the values of the
    /// expressions at 0 and 1. If no integer solution exists, an assertion fails at run time.
    fn solve_dims(&mut self, signature: &Signature) -> Fallible<()> {
        for (dim, (param, axis, i)) in solve_dims::order(signature).solved {
            let expr = &signature.dim_exprs[i];
            let LoweredLocal::Array(memory) = self.slot(LocalId::new(param), expr.span)? else {
                return Err(internal(expr.span, "the extent of something that is not an array"));
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
            let message = vec![MessageSegment::Text(format!(
                "no `{name}` gives the extent of `{}`",
                signature.params[param].name
            ))];
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

    /// Writes each dimension to a debug local with its name, if the module has debug locals.
    pub(super) fn bind_debug_dims(&mut self, signature: &Signature) -> Fallible<()> {
        if !self.unit.debug_locals {
            return Ok(());
        }
        for (dim, declared) in signature.dims.iter().enumerate() {
            if let Some(Some(_)) = self.dims.get(dim) {
                let value = self.dim(dim as u32, declared.span)?;
                self.bind_debug_locals(&declared.name, &Type::Scalar(def::Scalar::I32), &[value], declared.span)?;
            }
        }
        Ok(())
    }

    /// Lowers the body's block and emits the return of its result and final `inout` values.
    pub(crate) fn function_body(&mut self, body: &typed::Body) -> Fallible<()> {
        let span = body.root.tail.as_ref().map_or(body.root.span, |tail| tail.span);
        if let Some(memory) = self.result_array {
            self.block_into(&body.root, memory, true)?;
            let values = self.inout_results(span)?;
            self.out.stmt(StmtKind::Return(values), span);
            return Ok(());
        }
        let result = self.result.clone();
        let plain = self.machine(&result, span)?.is_empty();
        if plain && self.inout_params.is_empty() {
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
        values.extend(self.inout_results(span)?);
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

/// Lowers one instance of a function and adds it to the module.
pub(crate) fn function<'a>(
    unit: &mut ModuleLowering<'a>,
    id: FnId,
    function: &'a typed::Fn,
    arguments: &[GenericArgument],
) -> Fallible<def::Function> {
    let span = function.name_span;
    let typed = function.body.as_deref().ok_or_else(|| internal(span, format!("`{}` has no body", function.name)))?;
    let name = format!("{}_{}", function.name, unit.functions.len());
    let mut body =
        BodyLowering::new(unit, arguments, function.sig.dims.len(), &typed.locals, ExprEmitter::new(name, span));
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
    body.bind_debug_dims(&function.sig)?;
    body.result_parameter(id, arguments, span)?;
    body.function_body(typed)?;
    Ok(body.out.into_builder().finish())
}
