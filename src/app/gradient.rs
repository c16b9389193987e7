//! Prints the derivative of a kernel as source, for `clk emit --stage grad`.

use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;
use clk_check::show_type;
use clk_check::typed::{Dim, Expr, Geometry, Kernel, Program, Type};
use clk_compile::Session;
use clk_derive::{Derived, DerivedParamRole, GatherKernel, KernelHeader, ReductionKernel};
use clk_ir::def::{KernelParam, Module};
use clk_ir::text;
use clk_lower::{Instance, lower};

/// Returns the adjoint kernels of a kernel with respect to all its floating-point parameters.
pub(crate) fn text(session: &Session, instance: &Instance) -> Result<String, Vec<Diagnostic>> {
    let kernel = &session.program.kernels[instance.kernel];
    let module = lower(&session.program, instance)?;
    let active = clk_derive::can_be_active(&module);
    let launches = clk_compile::derivative_launches(&session.program, instance, &module).unwrap_or_default();
    let derived = clk_derive::reverse_mode(&module, &active, &launches).map_err(|lost| vec![lost.diagnostic()])?;
    let head = head(&session.program, &session.sources, kernel, &module);
    let Derived { module, params, counting, gathers, reduction, has_effect, .. } = &derived;
    let mut all = vec![];
    for GatherKernel { module, params, param } in gathers {
        let head = head.as_ref().and_then(|head| over_elements(head, *param));
        all.push(source(module, params, head.as_ref()));
    }
    if let Some(ReductionKernel { module, params, .. }) = reduction {
        all.push(source(module, params, head.as_ref()));
    }
    if *has_effect {
        all.push(source(module, params, head.as_ref()));
    }
    let mut printed = all.join("\n");
    if let Some(counting) = counting {
        printed += "\n// How many slots of its tapes each thread needs.\n";
        printed += &source(&counting.module, &counting.params, head.as_ref());
    }
    Ok(printed)
}

/// Returns the header of a kernel that runs one thread for each element of an array parameter.
fn over_elements(head: &KernelHeader, param: usize) -> Option<KernelHeader> {
    let KernelHeader { params, indices, .. } = head;
    let extents = &params.get(param)?.0;
    let pairs: Vec<String> = indices.iter().zip(extents).map(|(index, extent)| format!("{index}: {extent}")).collect();
    let geometry = format!("threads({})", pairs.join(", "));
    Some(KernelHeader { params: params.clone(), geometry, indices: indices.clone(), threads: extents.clone() })
}

/// Prints a kernel as source text, or as IR if it cannot be written as source.
fn source(module: &Module, roles: &[DerivedParamRole], head: Option<&KernelHeader>) -> String {
    let simple = clk_derive::simplify(module).unwrap_or_else(|_| module.clone());
    let said = head.and_then(|head| clk_derive::print(&simple, roles, head));
    said.unwrap_or_else(|| format!("// This cannot be written as source text.\n{}", text::print(&simple)))
}

/// Returns the header of a kernel as its source has it; `None` if the header depends on compile-time arguments.
fn head(program: &Program, sources: &SourceMap, kernel: &Kernel, module: &Module) -> Option<KernelHeader> {
    if !kernel.sig.generics.is_empty() {
        return None;
    }
    let slices = |exprs: &[Expr]| -> Vec<String> { exprs.iter().map(|e| sources.slice(e.span).to_string()).collect() };
    let dim = |dim: &Dim| match dim {
        Dim::Known(n) => Some(n.to_string()),
        Dim::Name(i) => Some(kernel.sig.dims.get(*i as usize)?.name.to_string()),
        Dim::Expr(i) => Some(sources.slice(kernel.sig.dim_exprs.get(*i as usize)?.span).to_string()),
        Dim::Local(_) | Dim::Unknown => None,
    };
    let param = |param: &KernelParam| match param {
        KernelParam::Value { .. } => Some((vec![], String::new())),
        KernelParam::Array { name, .. } => {
            let typed = kernel.sig.params.iter().find(|typed| typed.name == name.as_str())?;
            let Type::Array(array) = &typed.ty else { return None };
            let extents = array.dims.iter().map(dim).collect::<Option<_>>()?;
            Some((extents, show_type(program, Some(&kernel.sig), &array.element)))
        }
    };
    let params = module.kernel.params.iter().map(param).collect::<Option<_>>()?;
    let (indices, geometry, threads) = match &kernel.geometry {
        Geometry::Threads { indices, extents, block, .. } => {
            let locals = &kernel.body.as_ref()?.locals;
            let names: Vec<String> = indices.iter().map(|local| locals[*local].name.to_string()).collect();
            let threads = slices(extents);
            let pairs: Vec<String> = names.iter().zip(&threads).map(|(name, n)| format!("{name}: {n}")).collect();
            let block = block.as_ref().map(|block| format!(" block({})", slices(block).join(", "))).unwrap_or_default();
            (names, format!("threads({}){block}", pairs.join(", ")), threads)
        }
        Geometry::Grid { grid, block, .. } => {
            let (grid, block) = (slices(grid), slices(block));
            let all: Vec<String> = grid.iter().chain(&block).map(|n| format!("({n})")).collect();
            (vec![], format!("grid({}) block({})", grid.join(", "), block.join(", ")), vec![all.join(" * ")])
        }
    };
    Some(KernelHeader { params, geometry, indices, threads })
}
