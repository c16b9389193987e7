//! Recognizes tile programs that are one matrix product, which tensor cores compute in tiles of their own.
//!
//! Such a program clears a tile, adds products of windows of two arrays in a loop, and then computes each element that
//! it stores from the element of the product at the same position. Since such an element depends only on its row and
//! column, a device may divide the work in another way than the kernel.

use super::{edit, inline};
use clk_base::arena::{Arena, Id};
use clk_ir::build::{FunctionBuilder, build_module};
use clk_ir::def::*;
use clk_ir::tiles::{
    ArrayWindow, GemmKernel, GemmOperand, TileGemmOperand, TileProgram, TileStep, TileTarget, accessed_arrays,
};
use clk_ir::typing::{F32, I32};
use clk_ir::visit::{each_stmt, each_stmt_mut};

/// Returns the matrix product that a kernel with this tile program computes, if it is one.
pub(crate) fn recognize(module: &Module, program: &TileProgram) -> Option<GemmKernel> {
    let MmaPrecision::TensorCore(cores) = program.sums else { return None };
    let [clear, TileStep::Repeat { counter, bounds, step, body }, rest @ ..] = program.steps.as_slice() else {
        return None;
    };
    let [TileStep::Mma { sum, terms, a: TileGemmOperand::Window(a), b }] = body.as_slice() else { return None };
    let TileStep::Map { to: TileTarget::Tile(cleared), element: zero, .. } = clear else { return None };
    let [start, end] = &**bounds;
    if cleared != sum || !is_zero(zero) || !is_zero(start) || step != terms {
        return None;
    }
    let columns = program.tiles.get(*sum)?.columns?;
    let (tile, first) = ([program.rows, columns], module.kernel.params.len() as u32);
    let [block_x, block_y] = [first, first + 1];
    // The axes of the operands that run along the sum, and the other ones.
    let (a_terms, b_terms) = (usize::from(!a.transposed), usize::from(b.transposed));
    let counter = first + 3 + *counter as u32;
    let is_operand = |window: &ArrayWindow, along: usize, block: u32, extent: u32| match window.axes.as_slice() {
        [_, _] => {
            let (along, own) = (&window.axes[along], &window.axes[1 - along]);
            let is_plain = [along, own].iter().all(|axis| axis.step == 1 && !axis.is_index);
            let follows_loop = along.extent == *terms && stored(&along.start) == Some(&ExprKind::Param(counter));
            is_plain && follows_loop && own.extent == extent && is_multiple(&own.start, block, extent)
        }
        _ => false,
    };
    let dim_of = |param: u32, axis: usize| {
        let shape = program.arrays.iter().find(|shape| shape.param == param)?;
        shape.dims.get(axis)?.as_deref()
    };
    let dims = [dim_of(a.param, a_terms)?, dim_of(b.param, b_terms)?];
    let ends_with_terms = extent_stored(end).and_then(|(param, axis)| dim_of(param, axis)) == Some(dims[0]);
    let is_product = is_operand(a, a_terms, block_y, tile[0]) && is_operand(b, b_terms, block_x, tile[1]);
    if !is_product || !ends_with_terms || dims[0] != dims[1] || !keeps_faults(end, [a, b], rest) {
        return None;
    }
    let [a, b] = [a, b].map(|window| GemmOperand { param: window.param, transposed: window.transposed });
    Some(GemmKernel { a, b, cores, tile, epilogue: epilogue(module, program, *sum, rest)? })
}

/// Returns the value that an element kernel stores at its end, and its function.
fn stored_value(element: &Module) -> Option<(&Function, ExprId)> {
    let body = element.functions.get(element.kernel.body)?;
    match body.body.last()?.kind {
        StmtKind::Store { value, .. } => Some((body, value)),
        _ => None,
    }
}

/// Returns how many values that an element kernel computes before its store may fault. `None` if the kernel has other
/// statements.
fn faulting_values(element: &Module) -> Option<usize> {
    let body = element.functions.get(element.kernel.body)?;
    let (_, before) = body.body.split_last()?;
    before.iter().try_fold(0, |count, stmt| match stmt.kind {
        StmtKind::Let(value) => Some(count + usize::from(edit::may_fault(body, value))),
        _ => None,
    })
}

/// Returns whether the kernels that a product leaves out have no fault of their own. The steps after the loop repeat
/// the values that are computed before it, but not those in it.
fn keeps_faults(end: &Module, windows: [&ArrayWindow; 2], rest: &[TileStep]) -> bool {
    let Some(before_loop) = faulting_values(end) else { return false };
    let starts = windows.into_iter().flat_map(|window| &window.axes).map(|axis| faulting_values(&axis.start));
    (before_loop == 0 || !rest.is_empty()) && starts.into_iter().all(|n| n.is_some_and(|n| n <= before_loop))
}

fn stored(element: &Module) -> Option<&ExprKind> {
    stored_value(element).map(|(body, value)| &body.exprs[value].kind)
}

/// Returns whether an element kernel stores the number 0 with a positive sign.
fn is_zero(element: &Module) -> bool {
    stored(element) == Some(&ExprKind::Const(0))
}

/// Returns whether an element kernel stores the product of a parameter and a number.
fn is_multiple(element: &Module, param: u32, factor: u32) -> bool {
    let Some((body, value)) = stored_value(element) else { return false };
    let is_param = |id: ExprId| body.exprs[id].kind == ExprKind::Param(param);
    let is_factor = |id: ExprId| body.const_integer(id) == Some(i128::from(factor));
    match body.exprs[value].kind {
        ExprKind::Binary { op: BinOp::Mul, left, right } => {
            is_param(left) && is_factor(right) || is_param(right) && is_factor(left)
        }
        _ => is_param(value) && factor == 1,
    }
}

/// Returns the array parameter and the axis whose extent an element kernel stores.
fn extent_stored(element: &Module) -> Option<(u32, usize)> {
    let (body, value) = stored_value(element)?;
    let ExprKind::Extent(memory, axis) = body.exprs[value].kind else { return None };
    match body.memories[memory].space {
        MemorySpace::Global { param, .. } => Some((param, usize::from(axis))),
        _ => None,
    }
}

/// Joins the steps after the product into a kernel of one element of the product.
fn epilogue(module: &Module, program: &TileProgram, sum: usize, steps: &[TileStep]) -> Option<Module> {
    let (kernel, tile) = (&module.kernel, [program.rows, program.tiles[sum].columns?]);
    let declared = module.functions.get(kernel.body)?;
    let mut out = FunctionBuilder::new(format!("{}_epilogue", kernel.name));
    out.function_span(declared.span);
    let mut arguments = vec![];
    // The array at each position of the parameters.
    let mut arrays = vec![None; kernel.params.len()];
    for (param, array) in kernel.params.iter().zip(&mut arrays) {
        match param {
            KernelParam::Value { name, ty } => arguments.push(out.value(name, *ty)),
            KernelParam::Array { name, access, memory } => {
                let Memory { layout, extents, span, .. } = declared.memories.get(*memory)?;
                out.set_span(*span);
                *array = Some(out.array(name, *access, layout.clone(), extents.len()));
            }
        }
    }
    out.set_span(declared.span);
    let element = out.value("element", F32);
    let at = [out.index(0), out.index(1)];
    let extents = tile.map(|n| out.i32(n as i32));
    let [down, across] = [0, 1].map(|k| out.binary(BinOp::Div, at[k], extents[k]));
    let inside = [0, 1].map(|k| out.binary(BinOp::Rem, at[k], extents[k]));
    let zero = out.i32(0);
    arguments.extend([across, down, zero]);
    arguments.extend(program.counters.iter().map(|_| zero));
    let mut elements = vec![None; program.tiles.len()];
    elements[sum] = Some(element);
    let (mut functions, mut written) = (Arena::new(), vec![]);
    for step in steps {
        let TileStep::Map { to, operands, element } = step else { return None };
        let mut arguments = arguments.clone();
        for &operand in operands {
            arguments.push(elements.get(operand).copied().flatten()?);
        }
        arguments.extend(inside);
        let result = match to {
            TileTarget::Tile(tile) => {
                let target = program.tiles.get(*tile)?;
                let scalar = if target.is_lhs { Scalar::F32 } else { target.scalar };
                (target.columns == program.tiles[sum].columns).then_some(Some(scalar))?
            }
            // Another element of the product may have stored to the same place before.
            TileTarget::Array(columns) => {
                let stores = accessed_arrays(element).stores;
                let is_first = stores.iter().all(|param| !written.contains(param));
                written.extend(stores);
                (is_first && *columns == program.tiles[sum].columns).then_some(None)?
            }
        };
        let (function, params) = add_function(&mut functions, element, result)?;
        let memories = params.iter().map(|&param| arrays.get(param as usize).copied().flatten());
        let memories = memories.collect::<Option<Vec<MemId>>>()?;
        let types: Vec<Ty> = result.into_iter().map(Ty::Scalar).collect();
        let values = out.call(function, &types, &arguments, &memories);
        if let (TileTarget::Tile(tile), Some(value)) = (to, values.first()) {
            elements[*tile] = Some(*value);
        }
    }
    let mut epilogue = build_module(functions, out, LaunchForm::Threads { rank: 2 });
    inline::run(&mut epilogue);
    let body = epilogue.kernel.body;
    join_indices(&mut epilogue.functions[body]);
    Some(epilogue)
}

/// Adds the functions of an element kernel. Its body becomes a function: the row and the column are its last
/// parameters, its arrays are those of the caller, and it returns the value that it stores to its result, if it has
/// one. Also returns the array parameters that the caller passes.
fn add_function(
    functions: &mut Arena<Function>,
    element: &Module,
    result: Option<Scalar>,
) -> Option<(FunctionId, Vec<u32>)> {
    let (first, mut arrays) = (functions.len(), vec![]);
    for (id, function) in element.functions.iter() {
        let mut function = function.clone();
        each_stmt_mut(&mut function.body, &mut |stmt| {
            if let StmtKind::Call { function, .. } = &mut stmt.kind {
                *function = Id::new(first + function.index());
            }
        });
        if id == element.kernel.body {
            (function, arrays) = into_function(function, &element.kernel, result)?;
        }
        functions.push(function);
    }
    Some((Id::new(first + element.kernel.body.index()), arrays))
}

fn into_function(mut body: Function, kernel: &Kernel, result: Option<Scalar>) -> Option<(Function, Vec<u32>)> {
    let mut returns = false;
    each_stmt(&body.body, &mut |stmt| returns |= matches!(stmt.kind, StmtKind::Return(_)));
    if returns {
        return None;
    }
    let mut positions = vec![None; kernel.params.len()];
    for (param, position) in kernel.params.iter().zip(&mut positions) {
        if let KernelParam::Value { ty, .. } = param {
            *position = Some(body.params.len() as u32);
            body.params.push(*ty);
        }
    }
    let row = body.params.len() as u32;
    body.params.extend([I32, I32]);
    for (_, expr) in body.exprs.iter_mut() {
        expr.kind = match expr.kind {
            ExprKind::Param(param) => ExprKind::Param(positions.get(param as usize).copied().flatten()?),
            ExprKind::Index(k) => ExprKind::Param(row + u32::from(k)),
            _ => continue,
        };
    }
    let result_param = (kernel.params.len() as u32).checked_sub(1).filter(|_| result.is_some());
    let (mut arrays, mut result_memory) = (vec![], None);
    for (id, memory) in body.memories.iter_mut() {
        let MemorySpace::Global { param, access } = memory.space else { continue };
        if Some(param) == result_param {
            memory.space = MemorySpace::Local;
            result_memory = Some(id);
        } else {
            memory.space = MemorySpace::Param { position: arrays.len() as u32, access };
            arrays.push(param);
        }
    }
    let Some(scalar) = result else { return Some((body, arrays)) };
    let (ty, span) = (Ty::Scalar(scalar), body.span);
    let local = body.locals.push(Local { name: "result".into(), ty, span });
    each_stmt_mut(&mut body.body, &mut |stmt| match stmt.kind {
        StmtKind::Store { ref place, value, .. } if Some(place.memory) == result_memory => {
            stmt.kind = StmtKind::Write { local, value };
        }
        _ => {}
    });
    let value = edit::push(&mut body, ExprKind::Read(local), ty, span);
    body.body.push(Stmt { kind: StmtKind::Let(value), span });
    body.body.push(Stmt { kind: StmtKind::Return(vec![value]), span });
    body.results.push(ty);
    Some((body, arrays))
}

/// Replaces `index / n * n + index % n` by `index`, so that devices recognize comparisons of indices with extents.
fn join_indices(function: &mut Function) {
    use ExprKind::{Binary, Const, Index};
    let exprs = &function.exprs;
    let known = |id: ExprId| if let Const(bits) = exprs[id].kind { Some(bits) } else { None };
    let of_index = |id: ExprId, wanted: BinOp| match exprs[id].kind {
        Binary { op, left, right } if op == wanted => match exprs[left].kind {
            Index(k) => known(right).map(|n| (k, n)),
            _ => None,
        },
        _ => None,
    };
    let times = |id: ExprId| match exprs[id].kind {
        Binary { op: BinOp::Mul, left, right } => [(left, right), (right, left)]
            .into_iter()
            .find_map(|(quotient, n)| of_index(quotient, BinOp::Div).filter(|&(_, by)| known(n) == Some(by))),
        _ => None,
    };
    let whole = |id: ExprId| match exprs[id].kind {
        Binary { op: BinOp::Add, left, right } => {
            let parts = [(left, right), (right, left)];
            parts.into_iter().find_map(|(a, b)| times(a).filter(|&found| of_index(b, BinOp::Rem) == Some(found)))
        }
        _ => None,
    };
    let found: Vec<(ExprId, u8)> = exprs.iter().filter_map(|(id, _)| whole(id).map(|(k, _)| (id, k))).collect();
    for (id, k) in found {
        function.exprs[id].kind = Index(k);
    }
}
