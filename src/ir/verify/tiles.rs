//! Verification of TileIR: tile programs (rules T1 to T8) and matrix products (rule G).

use super::violation::Violation;
use crate::def::*;
use crate::tiles::{
    ArrayShape, ArrayWindow, GemmKernel, GemmOperand, TERM_GROUP, TileAxis, TileGemmOperand, TileProgram, TileStep,
    TileTarget, TileVar, accessed_arrays, is_elementwise, updates_in_place,
};
use crate::typing::{F32, I32};
use crate::visit::each_stmt;

/// The most elements of a tile or a window.
const MAX_TILE_LEN: u64 = 1 << 24;

/// Checks the alternatives to the body of a kernel. `violations` checks an element kernel as a module of its own.
pub(super) fn check(module: &Module, violations: fn(&Module) -> Vec<Violation>, out: &mut Vec<Violation>) {
    let Kernel { gemm, tile_program, .. } = &module.kernel;
    if let Some(program) = tile_program {
        let mut verifier = TileVerifier {
            module,
            program,
            violations,
            filled: vec![false; program.tiles.len()],
            stored: vec![],
            active: vec![false; program.counters.len()],
            out,
        };
        verifier.declarations();
        verifier.steps(&program.steps);
    }
    if let Some(gemm) = gemm {
        check_gemm(module, violations, gemm, out);
    }
}

/// The state of the walk over a tile program.
struct TileVerifier<'a> {
    module: &'a Module,
    program: &'a TileProgram,
    violations: fn(&Module) -> Vec<Violation>,
    /// For each tile, whether it has values at this point.
    filled: Vec<bool>,
    /// The array parameters to which steps since the last barrier may have stored.
    stored: Vec<u32>,
    /// For each loop counter, whether the walk is in its loop.
    active: Vec<bool>,
    out: &'a mut Vec<Violation>,
}

impl TileVerifier<'_> {
    fn report(&mut self, message: String) {
        self.out.push(format!("tile program of `{}`: {message}", self.module.kernel.name));
    }

    fn require(&mut self, holds: bool, message: impl FnOnce() -> String) -> bool {
        if !holds {
            self.report(message());
        }
        holds
    }

    fn declarations(&mut self) {
        let TileProgram { rows, arrays, tiles, .. } = self.program;
        self.require(self.module.kernel.form == LaunchForm::Grid, || "its kernel is not a `grid` kernel".into());
        self.require(*rows > 0, || "its tiles have no rows".into());
        for (at, ArrayShape { param, dims }) in arrays.iter().enumerate() {
            let rank = array(self.module, *param).map(|(_, memory)| memory.extents.len());
            let is_new = arrays[..at].iter().all(|other| other.param != *param);
            self.require(rank == Some(dims.len()) && is_new, || {
                format!("parameter {param} is not another array with {} axes", dims.len())
            });
        }
        for TileVar { name, scalar, columns, is_lhs } in tiles {
            let len = u64::from(*rows) * columns.map_or(1, u64::from);
            self.require((1..=MAX_TILE_LEN).contains(&len), || format!("tile `{name}` has {len} elements"));
            self.require(!is_lhs || columns.is_some() && is_gemm_scalar(*scalar), || {
                format!("tile `{name}` is not a left operand")
            });
        }
    }

    fn steps(&mut self, steps: &[TileStep]) {
        steps.iter().for_each(|step| self.step(step));
    }

    fn step(&mut self, step: &TileStep) {
        match step {
            TileStep::Map { to, operands, element } => self.map(*to, operands, element),
            TileStep::Reduce { to, of, combine } => self.reduce(*to, *of, combine),
            TileStep::Mma { sum, terms, a, b } => self.mma(*sum, *terms, a, b),
            TileStep::Barrier => self.stored.clear(),
            TileStep::If { cond, then, other } => {
                self.value(cond, &[], I32);
                let before = (self.filled.clone(), self.stored.clone());
                self.steps(then);
                let (filled, stored) = (std::mem::replace(&mut self.filled, before.0), self.stored.clone());
                self.stored = before.1;
                self.steps(other);
                self.filled.iter_mut().zip(filled).for_each(|(own, then)| *own &= then);
                self.stored.extend(stored);
            }
            TileStep::Repeat { counter, bounds, step, body } => {
                bounds.iter().for_each(|bound| self.value(bound, &[], I32));
                let is_known = self.active.get(*counter) == Some(&false);
                self.require(is_known, || format!("a loop counts by {counter}, which is not free"));
                self.require((1..=i32::MAX as u32).contains(step), || format!("a loop has the step {step}"));
                if !is_known {
                    return;
                }
                // The body may run again after its own stores, or never.
                let (filled, stored) = (self.filled.clone(), self.stored.clone());
                body.iter().for_each(|step| collect_stores(step, &mut self.stored));
                self.active[*counter] = true;
                self.steps(body);
                self.active[*counter] = false;
                self.filled = filled;
                self.stored.extend(stored);
            }
        }
    }

    /// Returns a tile, if it exists. It is initialized if `is_read`.
    fn tile(&mut self, tile: usize, is_read: bool) -> Option<TileVar> {
        let Some(found) = self.program.tiles.get(tile).cloned() else {
            self.report(format!("tile {tile} does not exist"));
            return None;
        };
        let is_filled = !is_read || self.filled[tile];
        self.require(is_filled, || format!("tile `{}` is read before it has values", found.name));
        Some(found)
    }

    fn map(&mut self, to: TileTarget, operands: &[usize], element: &Module) {
        let target = match to {
            TileTarget::Tile(tile) => match self.tile(tile, false) {
                Some(target) => Some(target),
                None => return,
            },
            TileTarget::Array(_) => None,
        };
        let columns = match (&target, to) {
            (Some(target), _) => target.columns,
            (None, TileTarget::Array(columns)) => columns,
            (None, TileTarget::Tile(_)) => None,
        };
        let mut types = vec![];
        for &operand in operands {
            let Some(TileVar { name, scalar, columns: own, is_lhs }) = self.tile(operand, true) else { return };
            self.require(!is_lhs, || format!("tile `{name}` is a left operand, but a step reads its elements"));
            self.require(own.is_none() || own == columns, || format!("tile `{name}` has other columns than its step"));
            types.push(Ty::Scalar(scalar));
        }
        match (target, to) {
            (Some(TileVar { scalar, is_lhs, .. }), TileTarget::Tile(tile)) => {
                // The device rounds the elements of left operands.
                let result = if is_lhs { F32 } else { Ty::Scalar(scalar) };
                self.value(element, &types, result);
                self.filled[tile] = true;
            }
            _ => {
                let len = u64::from(self.program.rows) * columns.map_or(1, u64::from);
                self.require((1..=MAX_TILE_LEN).contains(&len), || format!("a step stores {len} elements"));
                self.store(element, &types);
            }
        }
    }

    fn reduce(&mut self, to: usize, of: usize, combine: &Module) {
        let (Some(of), Some(target)) = (self.tile(of, true), self.tile(to, false)) else { return };
        self.require(of.columns.is_some() && !of.is_lhs, || format!("`{}` cannot be reduced", of.name));
        let fits = target.columns.is_none() && !target.is_lhs && target.scalar == of.scalar;
        self.require(fits, || format!("`{}` is not a reduction of `{}`", target.name, of.name));
        let ty = Ty::Scalar(of.scalar);
        self.value(combine, &[ty, ty], ty);
        self.filled[to] = true;
    }

    fn mma(&mut self, sum: usize, terms: u32, a: &TileGemmOperand, b: &ArrayWindow) {
        let Some(TileVar { name, scalar, columns, is_lhs }) = self.tile(sum, true) else { return };
        self.require(scalar == Scalar::F32 && columns.is_some() && !is_lhs, || {
            format!("tile `{name}` cannot accumulate products")
        });
        self.require(terms > 0 && terms.is_multiple_of(TERM_GROUP), || format!("a product has {terms} terms"));
        let (rows, expected) = (self.program.rows, b.scalar);
        let a = match a {
            TileGemmOperand::Tile(tile) => self.tile(*tile, true).map(|tile| {
                let holds = tile.is_lhs && tile.scalar == expected;
                self.require(holds, || format!("tile `{}` is not a left operand of {expected}", tile.name));
                [rows, tile.columns.unwrap_or(1)]
            }),
            TileGemmOperand::Window(window) => {
                self.require(window.scalar == expected, || format!("a product of {} and {expected}", window.scalar));
                self.window(window)
            }
        };
        self.require(a.is_none_or(|extents| extents == [rows, terms]), || format!("a left operand is {a:?}"));
        let b = self.window(b);
        let expected = [Some(terms), columns];
        self.require(b.is_none_or(|extents| extents.map(Some) == expected), || format!("a right operand is {b:?}"));
    }

    /// Checks a window. Returns its extents as an operand, if it has any.
    fn window(&mut self, window: &ArrayWindow) -> Option<[u32; 2]> {
        let ArrayWindow { param, scalar, transposed, axes, element } = window;
        let array = input(self.module, *param);
        let is_array = array.is_some_and(|memory| {
            memory.layout == ElementLayout::plain(Ty::Scalar(*scalar)) && memory.extents.len() == axes.len()
        });
        self.require(is_array && is_gemm_scalar(*scalar), || {
            format!("parameter {param} is not an input of {scalar} with {} axes", axes.len())
        });
        self.require((2..=ArrayWindow::MAX_AXES).contains(&axes.len()), || format!("a window has {} axes", axes.len()));
        for TileAxis { start, extent, step, is_index } in axes {
            self.value(start, &[], I32);
            self.require(*step > 0, || "a window has the step 0".into());
            self.require(!is_index || [*extent, *step] == [1, 1], || format!("an index with the extent {extent}"));
        }
        self.require(axes.last().is_none_or(|axis| axis.step == 1 && !axis.is_index), || {
            "a window's rows are not contiguous".into()
        });
        self.value(element, &[], Ty::Scalar(*scalar));
        let len = axes.iter().map(|axis| u64::from(axis.extent)).fold(1, u64::saturating_mul);
        if !self.require((1..=MAX_TILE_LEN).contains(&len), || format!("a window has {len} elements")) {
            return None;
        }
        let [rows, columns] = window.extents();
        Some(if *transposed { [columns, rows] } else { [rows, columns] })
    }

    // Element kernels

    /// Checks an element kernel that computes a value of a type from these operands.
    fn value(&mut self, element: &Module, operands: &[Ty], result: Ty) {
        let params = self.module.kernel.params.len() + 3 + self.active.len() + operands.len();
        if !self.element_kernel(element, operands, params + 1) {
            return;
        }
        let body = &element.functions[element.kernel.body];
        let array = match element.kernel.params.get(params) {
            Some(KernelParam::Array { access: Access::Out, memory, .. }) => body.memories.get(*memory),
            _ => None,
        };
        let fits =
            array.is_some_and(|memory| memory.layout == ElementLayout::plain(result) && memory.extents.is_empty());
        self.require(fits, || format!("`{}` has no result of {result:?}", element.kernel.name));
        let stores = accessed_arrays(element).stores;
        self.require(stores == [params as u32], || format!("a kernel of a value stores to {stores:?}"));
    }

    /// Checks an element kernel that stores to an array.
    fn store(&mut self, element: &Module, operands: &[Ty]) {
        let params = self.module.kernel.params.len() + 3 + self.active.len() + operands.len();
        if !self.element_kernel(element, operands, params) {
            return;
        }
        let stores = accessed_arrays(element).stores;
        if !self.require(stores.len() <= 1, || format!("a step stores to {stores:?}")) {
            return;
        }
        for param in stores {
            let is_ordered = !self.stored.contains(&param);
            self.require(is_ordered, || format!("two stores to parameter {param} without a barrier between them"));
            self.stored.push(param);
        }
    }

    /// Checks what holds for all element kernels. Returns whether the body exists and the number of parameters is as
    /// expected.
    fn element_kernel(&mut self, element: &Module, operands: &[Ty], params: usize) -> bool {
        let kernel = &element.kernel;
        for violation in element_violations(self.module, self.violations, element) {
            self.report(violation);
        }
        let first = self.module.kernel.params.len();
        if !self.require(kernel.params.len() == params, || {
            format!("`{}` has {} parameters, not {params}", kernel.name, kernel.params.len())
        }) {
            return false;
        }
        let numbers = vec![I32; 3 + self.active.len()];
        for (param, expected) in kernel.params[first..].iter().zip(numbers.iter().chain(operands)) {
            let holds = matches!(param, KernelParam::Value { ty, .. } if ty == expected);
            self.require(holds, || format!("a parameter of `{}` is not {expected:?}", kernel.name));
        }
        let access = accessed_arrays(element);
        for param in access.loads {
            let is_input = input(element, param).is_some();
            let is_update = access.stores == [param] && updates_in_place(element, param);
            self.require(is_input || is_update, || {
                format!("`{}` reads parameter {param}, which is not an input", kernel.name)
            });
        }
        let Some(body) = element.functions.get(kernel.body) else { return false };
        for param in read_params(body) {
            let counter = (param as usize).checked_sub(first + 3);
            let is_active = counter.and_then(|counter| self.active.get(counter).copied()).unwrap_or(true);
            self.require(is_active, || format!("`{}` reads a loop counter outside its loop", kernel.name));
        }
        true
    }
}

/// Returns the positions of the parameters that a body reads.
fn read_params(body: &Function) -> Vec<u32> {
    let mut found = vec![];
    let mut read = |id: ExprId| {
        if let Some(Expr { kind: ExprKind::Param(param), .. }) = body.exprs.get(id) {
            found.push(*param);
        }
    };
    each_stmt(&body.body, &mut |stmt| {
        stmt.kind.operands(&mut read);
        if let StmtKind::Let(id) = stmt.kind {
            read(id);
            if let Some(expr) = body.exprs.get(id) {
                expr.kind.operands(&mut read);
            }
        }
    });
    found
}

/// Adds the array parameters to which a step and the steps in it store.
fn collect_stores(step: &TileStep, stored: &mut Vec<u32>) {
    match step {
        TileStep::Map { to: TileTarget::Array(_), element, .. } => stored.extend(accessed_arrays(element).stores),
        TileStep::If { then, other, .. } => then.iter().chain(other).for_each(|step| collect_stores(step, stored)),
        TileStep::Repeat { body, .. } => body.iter().for_each(|step| collect_stores(step, stored)),
        TileStep::Map { .. } | TileStep::Reduce { .. } | TileStep::Mma { .. } | TileStep::Barrier => {}
    }
}

/// Returns the violations of the rules that element kernels and epilogues share.
fn element_violations(module: &Module, violations: fn(&Module) -> Vec<Violation>, element: &Module) -> Vec<Violation> {
    let kernel = &element.kernel;
    let mut found = vec![];
    let mut report = |message: String| found.push(format!("`{}` {message}", kernel.name));
    if kernel.form != (LaunchForm::Threads { rank: 2 }) {
        report("is not a kernel of a row and a column".into());
    }
    if kernel.gemm.is_some() || kernel.tile_program.is_some() {
        report("has a tile program of its own".into());
        return found;
    }
    let own = module.kernel.params.iter().enumerate();
    if !own.into_iter().all(|(at, param)| is_same_param(module, param, element, kernel.params.get(at))) {
        report("does not begin with the parameters of its kernel".into());
    }
    if !element.functions.iter().all(|(_, function)| is_elementwise(function)) {
        report("does more than compute an element".into());
    }
    found.extend(violations(element));
    found
}

fn is_same_param(module: &Module, param: &KernelParam, element: &Module, own: Option<&KernelParam>) -> bool {
    let memory_of = |module: &Module, memory: MemId| -> Option<(ElementLayout, usize)> {
        let memory = module.functions.get(module.kernel.body)?.memories.get(memory)?.clone();
        Some((memory.layout, memory.extents.len()))
    };
    match (param, own) {
        (KernelParam::Value { ty, .. }, Some(KernelParam::Value { ty: own, .. })) => ty == own,
        (KernelParam::Array { access, memory, .. }, Some(KernelParam::Array { access: own, memory: other, .. })) => {
            // A launch may preserve the elements of an `out` array that it does not write: it is then `inout`.
            (*access == Access::In) == (*own == Access::In) && memory_of(module, *memory) == memory_of(element, *other)
        }
        _ => false,
    }
}

/// Returns an array parameter that the kernel does not write.
fn input(module: &Module, param: u32) -> Option<&Memory> {
    array(module, param).filter(|(access, _)| *access == Access::In).map(|(_, memory)| memory)
}

fn array(module: &Module, param: u32) -> Option<(Access, &Memory)> {
    match module.kernel.params.get(param as usize)? {
        KernelParam::Array { access, memory, .. } => {
            Some((*access, module.functions.get(module.kernel.body)?.memories.get(*memory)?))
        }
        KernelParam::Value { .. } => None,
    }
}

fn is_gemm_scalar(scalar: Scalar) -> bool {
    matches!(scalar, Scalar::F16 | Scalar::Bf16 | Scalar::F32)
}

/// Checks rule G.
fn check_gemm(module: &Module, violations: fn(&Module) -> Vec<Violation>, gemm: &GemmKernel, out: &mut Vec<Violation>) {
    let GemmKernel { a, b, cores: _, tile, epilogue } = gemm;
    let mut report = |message: String| out.push(format!("matrix product `{}`: {message}", module.kernel.name));
    if module.kernel.form != LaunchForm::Grid || tile.contains(&0) {
        report(format!("tiles of {tile:?} elements"));
    }
    let operand = |operand: &GemmOperand| input(module, operand.param).filter(|memory| memory.extents.len() == 2);
    let layouts = [a, b].map(|factor| operand(factor).map(|memory| &memory.layout));
    let is_product = |scalar: Scalar| layouts == [Some(&ElementLayout::plain(Ty::Scalar(scalar))); 2];
    if ![Scalar::F16, Scalar::Bf16, Scalar::F32].into_iter().any(is_product) {
        report("its operands are not two inputs of the same floats with two axes".into());
    }
    element_violations(module, violations, epilogue).into_iter().for_each(&mut report);
    let own = epilogue.kernel.params.get(module.kernel.params.len()..);
    if !matches!(own, Some([KernelParam::Value { ty: F32, .. }])) {
        report("its epilogue does not have an element of the product as its last parameter".into());
    }
}
