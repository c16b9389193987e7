//! Kernel launches: binds arguments, dimensions and compile-time arguments, evaluates the geometry, runs the kernel and
//! returns its outputs.

use std::sync::Arc;

use crate::array::{Array, ElementType, byte_count};
use crate::grad;
use crate::graph::{self, ExecContext};
use crate::problem::HostResult;
use crate::tuned::TuningMode;
use crate::value::{HostValue, RecordValue};
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_check::typed::{
    Access, ArrayType, AssumeKind, Dim, Expr, ExprKind, GenericArg, Geometry, Kernel, KernelId, LaunchExpr, LocalId,
    ModuleId, Type,
};
use clk_check::visit;
use clk_compile::advice::FaultOrigin;
use clk_ir::{Checks, CostCounting, PreparedKernel};
use clk_lower::{GenericArgument, Instance, MmaPrecision};
use clk_runtime::{Arg, Executable, LaunchConfig, LaunchExtents, SignaturePromise};

use super::bind::{Binder, BoundArgument, BoundDims, DimOrigin, DimProvenance};
use super::context::{Eval, EvalContext, Signal};
use super::exact_integers::ExactIntUse;
use super::frame::HostFrame;
use super::geometry::{constant_block, growable_dimensions, reads_global_idx};
use super::launch_cache::{self, ArgumentKinds, LaunchParts, LaunchSite, NamedLaunchArgs};
use super::type_mismatch::{TypeMismatch, ValueDestination};

/// An argument of a launch: a by-value argument converted to its parameter's type, or an array.
pub(super) enum PreparedArgument {
    Value(HostValue),
    /// An array, and whether the kernel may write to it.
    Array(Array, bool),
}

impl PreparedArgument {
    /// Returns the argument's value, and whether the kernel may write to it.
    fn value_and_access(&self) -> (HostValue, bool) {
        match self {
            PreparedArgument::Value(value) => (value.clone(), false),
            PreparedArgument::Array(array, writes) => (HostValue::Array(array.clone()), *writes),
        }
    }
}

/// A launch whose arguments were bound to the parameters of its kernel, with the resulting geometry.
pub(super) struct BoundLaunch {
    /// The frame in which dimensions and geometry are evaluated. Its locals are the by-value parameters.
    pub inner: HostFrame,
    pub extents: LaunchExtents,
    pub instance: Instance,
    /// The values of the hidden parameters: dimensions that are passed to the kernel as additional arguments.
    pub hidden: Vec<HostValue>,
}

impl EvalContext<'_> {
    pub(crate) fn eval_launch(&mut self, frame: &mut HostFrame, launch: &LaunchExpr, span: Span) -> Eval {
        let program = self.program;
        let kernel = &program.kernels[launch.kernel];
        let site = LaunchSite { launch, kernel, span };
        let mut values = Vec::with_capacity(launch.args.len());
        for arg in &launch.args {
            values.push(arg.as_ref().map(|a| self.eval(frame, a)).transpose()?);
        }
        if values.iter().flatten().any(grad::is_traced) {
            return self.launch_traced(frame, launch, values, span);
        }
        let trials = !kernel.tunes.is_empty() && self.interp.tuning.mode != TuningMode::UseRecorded;
        let last = self.interp.device_pool.kernels.launch_cache.find(launch, frame, span).filter(|_| !trials);
        // A fast path: the cached named arguments depend only on the caller's compile-time arguments, which are the
        // same, so they are not evaluated again.
        if let Some((cached, true)) = &last
            && launch.dims.is_empty()
            && cached.matches_dims(&[])
            && cached.matches_arguments(&values)
        {
            return self.launch_cached(frame, site, cached, values);
        }
        let named_args = self.eval_named_args(frame, launch, kernel, span)?;
        if let Some((cached, _)) = &last
            && cached.matches_named(&named_args)
            && cached.matches_arguments(&values)
        {
            return self.launch_cached(frame, site, cached, values);
        }
        let kinds = ArgumentKinds::of(launch, kernel, &values, &named_args);
        let bound = self.bind_and_allocate(frame, launch, kernel, &mut values, named_args, span)?;
        let BoundLaunch { mut inner, extents, instance, hidden } =
            self.apply_tuning(frame, launch, kernel, &values, bound, span)?;
        let executable = self.compiled_kernel(&instance, span)?;
        self.check_required_promises(&mut inner, kernel, &values, &*executable, span)?;
        let parts = LaunchParts { executable: &executable, extents, hidden: &hidden };
        self.interp.device_pool.kernels.launch_cache.insert(site, frame, kinds, &values, &inner, parts);
        let prepared_args = self.run_kernel(frame, site, &inner, parts, values)?;
        self.write_back_outputs(frame, launch, kernel, prepared_args)
    }

    /// Launches with the bindings of a cached launch and new arguments.
    fn launch_cached(
        &mut self,
        frame: &mut HostFrame,
        site: LaunchSite<'_>,
        cached: &launch_cache::LaunchCacheEntry,
        mut values: Vec<Option<HostValue>>,
    ) -> Eval {
        let LaunchSite { launch, kernel, span } = site;
        for (i, element, shape) in &cached.missing {
            values[*i] = Some(HostValue::Array(self.new_result(element.clone(), shape, span)?));
        }
        if cached.needs_checks() {
            let mut inner = HostFrame::new(cached.inner.generics.clone(), cached.inner.dims.clone());
            bind_scalars(&mut inner, kernel, &values);
            let open = cached.open_conditions.iter().filter_map(|i| kernel.assumes.get(*i));
            self.check_assumes(&mut inner, kernel, open, span)?;
            self.check_array_promises(&mut inner, kernel, &values, span)?;
            self.check_required_promises(&mut inner, kernel, &values, &*cached.executable, span)?;
        }
        let parts = LaunchParts { executable: &cached.executable, extents: cached.extents, hidden: &cached.hidden };
        let prepared_args = self.run_kernel(frame, site, &cached.inner, parts, values)?;
        self.write_back_outputs(frame, launch, kernel, prepared_args)
    }

    /// Evaluates the compile-time arguments and dimensions that a launch specifies by name.
    pub(super) fn eval_named_args(
        &mut self,
        frame: &mut HostFrame,
        launch: &LaunchExpr,
        kernel: &Kernel,
        span: Span,
    ) -> Eval<NamedLaunchArgs> {
        let mut named_args = NamedLaunchArgs { generics: Vec::new(), dims: Vec::with_capacity(launch.dims.len()) };
        if launch.generics.iter().any(|generic| !matches!(generic, GenericArg::Infer)) {
            named_args.generics.reserve(launch.generics.len());
            for (i, generic) in launch.generics.iter().enumerate() {
                named_args.generics.push(self.eval_generic(frame, &kernel.sig, i, generic, span)?);
            }
        }
        for (_, expr) in &launch.dims {
            named_args.dims.push(self.eval_integer(frame, expr)?);
        }
        Ok(named_args)
    }

    /// Binds a launch to its kernel: determines compile-time arguments, dimensions and geometry. Checks `assume`
    /// clauses, and allocates omitted `out` arrays.
    pub(super) fn bind_and_allocate(
        &mut self,
        frame: &mut HostFrame,
        launch: &LaunchExpr,
        kernel: &Kernel,
        values: &mut [Option<HostValue>],
        named: NamedLaunchArgs,
        span: Span,
    ) -> Eval<BoundLaunch> {
        let (arguments, dims) = self.bind_launch(launch, kernel, values, named, span)?;
        let mut inner = self.kernel_frame(kernel, arguments, dims, values, span)?;
        self.check_contracts(&mut inner, kernel, values, span)?;
        self.allocate(kernel, launch, &mut inner, values, span)?;
        let extents = self.eval_geometry(frame, &mut inner, launch, kernel, span)?;
        let instance = Instance { sums: self.mma_precision(), ..Instance::new(launch.kernel, inner.generics.to_vec()) };
        let extent = |dim: u32| inner.dims.get(dim as usize).copied().flatten().unwrap_or(0);
        let hidden = clk_lower::hidden_params(self.program, launch.kernel).into_iter();
        let hidden = hidden.map(|dim| HostValue::i32(extent(dim) as i32)).collect();
        Ok(BoundLaunch { inner, extents, instance, hidden })
    }

    /// Binds the arguments to the signature. Returns the compile-time arguments and the dimensions.
    fn bind_launch(
        &mut self,
        launch: &LaunchExpr,
        kernel: &Kernel,
        values: &[Option<HostValue>],
        named: NamedLaunchArgs,
        span: Span,
    ) -> Eval<(Vec<GenericArgument>, BoundDims)> {
        let mut arguments_given = named.generics;
        arguments_given.resize(launch.generics.len(), None);
        let (types, mut dims, late) = {
            let mut binder = Binder::new(&kernel.sig, &self.interp.caches.layouts);
            for (slot, argument) in binder.types.iter_mut().zip(&arguments_given) {
                if let Some(GenericArgument::Type(ty)) = argument {
                    *slot = Some(ty.clone());
                }
            }
            for ((i, expr), extent) in launch.dims.iter().zip(named.dims) {
                let (i, span) = (*i as usize, expr.span);
                if let (Some(slot), Some(dim)) = (binder.dims.get_mut(i), kernel.sig.dims.get(i)) {
                    *slot = Some((
                        extent,
                        DimOrigin { provenance: DimProvenance::Named { name: dim.name.clone(), extent }, span },
                    ));
                }
            }
            for (i, param) in kernel.sig.params.iter().enumerate() {
                let (Some(Some(value)), Some(Some(arg))) = (values.get(i), launch.args.get(i)) else { continue };
                binder
                    .bind_argument(&BoundArgument { name: &param.name, ty: &param.ty, value, span: arg.span })
                    .map_err(|d| Signal::Error(Box::new(d.because(param.span, "the parameter"))))?;
            }
            (binder.types, binder.dims, binder.expr_extents)
        };
        let mut arguments = Vec::with_capacity(arguments_given.len());
        for (i, argument) in arguments_given.into_iter().enumerate() {
            let argument = self.resolve_argument(&kernel.sig, i, argument, types[i].clone(), &arguments, span)?;
            arguments.push(argument);
        }
        self.solve_dims(&kernel.sig, &arguments, &mut dims, &late)?;
        Ok((arguments, dims))
    }

    /// Creates the frame in which dimensions and geometry are evaluated. Its locals are the by-value parameters.
    fn kernel_frame(
        &mut self,
        kernel: &Kernel,
        arguments: Vec<GenericArgument>,
        dims: BoundDims,
        values: &[Option<HostValue>],
        span: Span,
    ) -> Eval<HostFrame> {
        for (i, dim) in dims.iter().enumerate() {
            let name = &kernel.sig.dims[i].name;
            match dim {
                None => {
                    return Err(self.error(
                        Diagnostic::error("E0519", format!("nothing says how large `{name}` is"))
                            .at(span, format!("no argument of `{}` has this dimension", kernel.name))
                            .because(kernel.sig.dims[i].span, "named here")
                            .help(format!("give it by name: `{}(…, {name} = 1024)`", kernel.name)),
                    ));
                }
                Some((extent, origin)) if *extent < 0 || *extent > i64::from(i32::MAX) => {
                    return Err(self.error(
                        Diagnostic::error("E0520", format!("dimension `{name}` cannot be {extent}"))
                            .at(origin.span, "this is its value")
                            .note("a dimension is at least 0 and at most 2147483647"),
                    ));
                }
                Some(_) => {}
            }
        }
        let dims = dims.into_iter().map(|d| d.map(|(extent, _)| extent)).collect();
        let mut frame = HostFrame::new(arguments.into(), dims);
        bind_scalars(&mut frame, kernel, values);
        Ok(frame)
    }

    /// Allocates omitted `out` arrays, and checks that passed arrays have the extents that dimension expressions
    /// specify.
    fn allocate(
        &mut self,
        kernel: &Kernel,
        launch: &LaunchExpr,
        inner: &mut HostFrame,
        values: &mut [Option<HostValue>],
        span: Span,
    ) -> Eval<()> {
        for (i, param) in kernel.sig.params.iter().enumerate() {
            let Type::Array(ty) = &param.ty else { continue };
            let computed = ty.dims.iter().any(|d| matches!(d, Dim::Expr(_)));
            let missing = matches!(values.get(i), Some(None));
            if !missing && !computed {
                continue;
            }
            let shape = self.param_shape(kernel, ty, inner, span)?;
            if missing {
                let element = self.concrete(inner, &ty.element);
                let element = self.interp.caches.layouts.element(self.program, &element);
                let array = self.new_result(element, &shape, span)?;
                values[i] = Some(HostValue::Array(array));
            } else if let (Some(Some(HostValue::Array(array))), Some(Some(arg))) = (values.get(i), launch.args.get(i))
                && array.shape() != shape
            {
                let title = format!("`{}` must have the shape {:?}, not {:?}", param.name, shape, array.shape());
                return Err(self.error(
                    Diagnostic::error("E0511", title)
                        .at(arg.span, format!("this is `{}`", HostValue::Array(array.clone()).type_name()))
                        .because(param.span, "computed from the other dimensions"),
                ));
            }
        }
        Ok(())
    }

    /// Allocates an array for a kernel to write, in the memory of the device on which the kernel runs.
    pub(super) fn new_result(&mut self, element: ElementType, shape: &[usize], span: Span) -> Eval<Array> {
        let bytes = byte_count(&element, shape).map_err(|p| self.problem(p, span))?;
        if let Some(limit) = self.interp.max_array_bytes.filter(|limit| bytes as u64 > *limit) {
            let title = format!("an array of `{element}` with the shape {shape:?} is too large: {bytes} bytes");
            let diagnostic = Diagnostic::error("E0806", title).at(span, "made by this launch");
            let diagnostic = diagnostic.note(format!("arrays have at most {limit} bytes here"));
            return Err(self.error(diagnostic.help("allow more: `--max-bytes`")));
        }
        let array = match self.interp.options.device.memory().is_some() {
            true => Array::unplaced(element, shape),
            false => Array::zeros(element, shape),
        };
        array.map_err(|p| self.problem(p, span))
    }

    fn param_shape(&mut self, kernel: &Kernel, ty: &ArrayType, inner: &mut HostFrame, span: Span) -> Eval<Vec<usize>> {
        let mut shape = Vec::with_capacity(ty.dims.len());
        for dim in &ty.dims {
            let extent = match dim {
                Dim::Known(k) => *k,
                Dim::Name(i) => inner.dims.get(*i as usize).copied().flatten().unwrap_or(0),
                Dim::Expr(i) => {
                    let Some(expr) = kernel.sig.dim_exprs.get(*i as usize).cloned() else { continue };
                    let extent = self.eval_exact(inner, &expr, ExactIntUse::Extent)?;
                    if !(0..=i128::from(i32::MAX)).contains(&extent) {
                        let diagnostic = Diagnostic::error("E0520", format!("a dimension cannot be {extent}"));
                        let diagnostic = diagnostic.note("a dimension is at least 0 and at most 2147483647");
                        let diagnostic = diagnostic.at(expr.span, describe_extent(kernel, inner, &expr));
                        return Err(self.error(diagnostic.because(span, "launched here")));
                    }
                    extent as i64
                }
                Dim::Local(_) | Dim::Unknown => {
                    return Err(self.internal_error(kernel.name_span, "a parameter without a shape"));
                }
            };
            shape.push(extent as usize);
        }
        Ok(shape)
    }

    /// Evaluates the geometry of a launch: grid and block, or the extents of the index space.
    pub(super) fn eval_geometry(
        &mut self,
        frame: &mut HostFrame,
        inner: &mut HostFrame,
        launch: &LaunchExpr,
        kernel: &Kernel,
        span: Span,
    ) -> Eval<LaunchExtents> {
        let launched = (kernel, span);
        let extents = match &kernel.geometry {
            Geometry::Threads { extents, .. } => {
                let mut sizes = [1u32; 3];
                for (slot, extent) in sizes.iter_mut().zip(extents) {
                    *slot = self.eval_extent(inner, extent, 0, launched)?;
                }
                if let (Some(grid), Some(block)) = (&launch.grid, &launch.block) {
                    let grid = self.eval_extent_tuple(frame, grid, launched)?;
                    let block = self.eval_extent_tuple(frame, block, launched)?;
                    self.check_grid_covers(grid, block, sizes, extents.len(), kernel, span)?;
                }
                LaunchExtents::Threads(sizes)
            }
            Geometry::Grid { grid, block, .. } => {
                let grid = match &launch.grid {
                    Some(grid) => self.eval_extent_tuple(frame, grid, launched)?,
                    None => self.eval_extents(inner, grid, 0, launched)?,
                };
                let block = match &launch.block {
                    Some(block) => self.eval_extent_tuple(frame, block, launched)?,
                    None => self.eval_extents(inner, block, 1, launched)?,
                };
                LaunchExtents::Grid { grid, block }
            }
        };
        self.check_thread_count(kernel, &extents, launch.grid.as_ref().map_or(span, |grid| grid.span))?;
        if let LaunchExtents::Grid { grid, block } = extents {
            self.check_global_idx_fits(kernel, grid, block, launch.grid.as_ref().map_or(span, |grid| grid.span))?;
        }
        if let LaunchExtents::Grid { block, .. } = extents {
            let threads: u64 = block.iter().map(|&b| u64::from(b)).product();
            if threads == 0 || threads > 1024 {
                let place = launch.block.as_ref().map_or(span, |b| b.span);
                return Err(self.error(
                    Diagnostic::error("E0521", format!("a block cannot have {threads} threads"))
                        .at(place, format!("the block is {} by {} by {}", block[0], block[1], block[2]))
                        .note("a block has 1 to 1024 threads, on every device")
                        .help("make blocks smaller and the grid larger"),
                ));
            }
        }
        Ok(extents)
    }

    /// Checks that the number of threads fits in 63 bits. A larger launch would never complete.
    fn check_thread_count(&self, kernel: &Kernel, extents: &LaunchExtents, span: Span) -> Eval<()> {
        let product = |sizes: &[u32; 3]| sizes.iter().map(|&n| u128::from(n)).product::<u128>();
        let threads = match extents {
            LaunchExtents::Threads(sizes) => product(sizes),
            LaunchExtents::Grid { grid, block } => product(grid) * product(block),
        };
        if threads <= u128::from(u64::MAX) >> 1 {
            return Ok(());
        }
        let title = format!("a launch of `{}` with {threads} threads would not end", kernel.name);
        let diagnostic = Diagnostic::error("E0522", title);
        Err(self.error(diagnostic.at(span, "launched here").help("have each thread do more")))
    }

    /// For a kernel that reads `global_idx`, checks that each axis has at most 2^31 threads, so that the index fits in
    /// an `i32`.
    fn check_global_idx_fits(&mut self, kernel: &Kernel, grid: [u32; 3], block: [u32; 3], span: Span) -> Eval<()> {
        for (axis, name) in ["x", "y", "z"].into_iter().enumerate() {
            let threads = u64::from(grid[axis]) * u64::from(block[axis]);
            if threads <= 1 << 31 || !reads_global_idx(self.program, kernel, axis as u8) {
                continue;
            }
            let title = format!("`global_idx.{name}` would go up to {}, which is no `i32`", threads - 1);
            let wide = format!("i64(block_idx.{name}) * i64(block_dim.{name}) + i64(thread_idx.{name})");
            let diagnostic = Diagnostic::error("E0522", title)
                .at(span, format!("{} blocks of {} threads along {name}", grid[axis], block[axis]))
                .because(kernel.name_span, format!("`{}` reads it", kernel.name))
                .help("have each thread do more, or use more axes of the grid")
                .help(format!("or compute a wide index: `{wide}`"));
            return Err(self.error(diagnostic));
        }
        Ok(())
    }

    fn eval_extent(&mut self, frame: &mut HostFrame, expr: &Expr, least: i64, launched: (&Kernel, Span)) -> Eval<u32> {
        let extent = self.eval_exact(frame, expr, ExactIntUse::Extent)?;
        if extent < i128::from(least) || extent > i128::from(i32::MAX) {
            return Err(self.error(
                Diagnostic::error("E0522", format!("an extent of {extent} is out of range"))
                    .at(expr.span, format!("this is {extent}"))
                    .because(launched.1, format!("`{}` is launched here", launched.0.name))
                    .note(format!("extents are at least {least} and at most 2147483647")),
            ));
        }
        Ok(extent as u32)
    }

    fn eval_extents(
        &mut self,
        frame: &mut HostFrame,
        exprs: &[Expr],
        least: i64,
        launched: (&Kernel, Span),
    ) -> Eval<[u32; 3]> {
        let mut sizes = [1u32; 3];
        for (slot, expr) in sizes.iter_mut().zip(exprs) {
            *slot = self.eval_extent(frame, expr, least, launched)?;
        }
        Ok(sizes)
    }

    /// Evaluates an integer or a tuple of up to three integers to the extents in x, y and z.
    fn eval_extent_tuple(&mut self, frame: &mut HostFrame, expr: &Expr, launched: (&Kernel, Span)) -> Eval<[u32; 3]> {
        let parts = match self.eval(frame, expr)? {
            HostValue::Tuple(parts) => parts,
            one => vec![one],
        };
        let mut sizes = [1u32; 3];
        for (slot, part) in sizes.iter_mut().zip(&parts) {
            match part.as_int() {
                Some(size) if (0..=i128::from(i32::MAX)).contains(&size) => *slot = size as u32,
                _ => {
                    let diagnostic = Diagnostic::error("E0522", "an extent is out of range")
                        .at(expr.span, "in this geometry")
                        .because(launched.1, format!("`{}` is launched here", launched.0.name));
                    return Err(self.error(diagnostic.note("extents are at least 0 and at most 2147483647")));
                }
            }
        }
        Ok(sizes)
    }

    /// Checks that an explicit grid for a `threads` kernel covers the whole index space.
    fn check_grid_covers(
        &mut self,
        grid: [u32; 3],
        block: [u32; 3],
        sizes: [u32; 3],
        rank: usize,
        kernel: &Kernel,
        span: Span,
    ) -> Eval<()> {
        for axis in 0..rank {
            // The last index of the index space corresponds to axis x.
            let expected = u64::from(sizes[rank - 1 - axis]);
            let threads = u64::from(grid[axis]) * u64::from(block[axis]);
            if threads < expected {
                let title =
                    format!("the grid is too small for `{}`: {threads} threads for {expected} indices", kernel.name);
                return Err(self.error(
                    Diagnostic::error("E0523", title)
                        .at(span, format!("along {}", ["x", "y", "z"][axis]))
                        .note(format!("blocks are rounded up: `ceil_div({expected}, {})`", block[axis]))
                        .help("leave `<<<…>>>` off, and the launch covers all indices by itself"),
                ));
            }
        }
        Ok(())
    }

    /// Returns the summation order of `mma` on the current device. On GPUs, it is always that of the tensor cores.
    pub(super) fn mma_precision(&self) -> MmaPrecision {
        // The option is tested first, because querying the device may initialize the GPU.
        match self.interp.mma_precision {
            MmaPrecision::Sequential if self.interp.options.device.capabilities().fixed_mma_order => {
                MmaPrecision::default()
            }
            own => own,
        }
    }

    /// Returns a compiled kernel, loaded on the current device. Compiles the kernel when it is first used.
    pub(super) fn compiled_kernel(&mut self, instance: &Instance, span: Span) -> Eval<Arc<dyn Executable>> {
        if let Some(found) = self.interp.device_pool.kernels.loaded.get(instance) {
            return Ok(found.clone());
        }
        // Does not query the capabilities, which may initialize a GPU: the kernel may have errors.
        let compiled = match self.interp.options.device.shows_variables() {
            true => clk_compile::compile_unoptimized(self.program, instance),
            false => clk_compile::compile_kernel(self.program, instance, self.active_checks()),
        };
        let mut prepared = compiled.map_err(|d| self.first_error(d, span))?;
        prepared.cost_counting = self.interp.options.control.counting.as_ref().map(|_| CostCounting::Kernel);
        let executable = self.load_kernel(prepared);
        self.interp.device_pool.kernels.loaded.insert(instance.clone(), executable.clone());
        Ok(executable)
    }

    /// If compilation takes long, starts to compile the kernels of module `main` in the background. Errors
    /// are ignored here; the launches report them.
    pub(super) fn compile_ahead(&mut self, main: Option<ModuleId>) {
        let program = self.program;
        let own = program.kernels_of(main).filter(|(_, kernel)| kernel.sig.generics.is_empty());
        let waiting: Vec<KernelId> = own.map(|(id, _)| id).collect();
        if waiting.is_empty() || !self.interp.options.device.capabilities().slow_compilation {
            return;
        }
        for id in waiting {
            let instance = Instance { sums: self.mma_precision(), ..Instance::new(id, vec![]) };
            if self.interp.device_pool.kernels.loaded.contains_key(&instance) {
                continue;
            }
            let kernel = &program.kernels[id];
            if let Ok(executable) = self.compiled_kernel(&instance, kernel.name_span)
                && let Some(block) = constant_block(program, kernel)
            {
                executable.prepare_block_shape(block);
            }
        }
    }

    /// Returns the checks for launches on the current device: none if the device does not support checks.
    pub(crate) fn active_checks(&self) -> Checks {
        let options = &self.interp.options;
        let checks = options.control.checks;
        if checks.any() && options.device.capabilities().checks { checks } else { Checks::default() }
    }

    /// Loads a kernel on the current device.
    pub(crate) fn load_kernel(&mut self, prepared: PreparedKernel) -> Arc<dyn Executable> {
        self.interp.options.device.load(Arc::new(prepared), Some(self.sources))
    }

    /// Returns the first error of a failed compilation, with a label at the launch that needs the kernel.
    pub(crate) fn first_error(&self, diagnostics: Vec<Diagnostic>, span: Span) -> Signal {
        match diagnostics.into_iter().next() {
            Some(first) if first.primary() != Some(span) => self.error(first.because(span, "compiled for this launch")),
            Some(first) => self.error(first),
            None => self.internal_error(span, "lowering failed without a reason"),
        }
    }

    /// Runs the kernel of a launch. Returns the arrays that it wrote, by parameter.
    fn run_kernel(
        &mut self,
        frame: &mut HostFrame,
        site: LaunchSite<'_>,
        inner: &HostFrame,
        parts: LaunchParts<'_>,
        values: Vec<Option<HostValue>>,
    ) -> Eval<Vec<Option<HostValue>>> {
        let LaunchSite { launch, kernel, span } = site;
        let LaunchParts { executable, extents, hidden } = parts;
        self.run_trials(launch, inner, extents, &values, hidden, span)?;
        let mut prepared_args = Vec::with_capacity(values.len());
        for (i, (value, param)) in values.into_iter().zip(&kernel.sig.params).enumerate() {
            let writes = param.access != Access::In;
            let Some(value) = value else { return Err(self.internal_error(span, "a launch without an argument")) };
            prepared_args.push(match value {
                HostValue::Array(array) => {
                    // The variable releases its reference. The launch then has the only one, and writes without
                    // copying.
                    if writes && let Some(Some(place)) = launch.args.get(i) {
                        self.release_variable(frame, place);
                    }
                    PreparedArgument::Array(array, writes)
                }
                value => PreparedArgument::Value(self.convert_to_param(inner, &param.ty, value, span)?),
            });
        }
        if self.interp.observers.recorded_launches.is_some() {
            let prepared = prepared_args.iter().map(PreparedArgument::value_and_access).collect();
            self.record_launch(launch, inner, extents, prepared, hidden, span);
        }
        if prepared_args.iter().any(PreparedArgument::is_sharded) {
            let (arrays, ran) = self.launch_sharded(site, inner, parts, prepared_args);
            self.record_results(&arrays);
            if let Err(signal) = ran {
                self.write_back_outputs(frame, launch, kernel, arrays)?;
                return Err(signal);
            }
            return Ok(arrays);
        }
        let larger = self.interp.observers.coverage_hints.then(|| growable_dimensions(self.program, kernel));
        if let Some(larger) = larger {
            self.interp.observers.coverage.record(launch.kernel, extents, larger);
        }
        let declared = self.signature_promise(launch, kernel, inner, &prepared_args, &**executable);
        let config = LaunchConfig { larger, declared, ..LaunchConfig::new(extents, span) };
        let control = &self.interp.options.control;
        let result = device_args(&self.exec, &mut prepared_args, hidden)
            .map(|mut args| executable.launch(&config, &mut args, control));
        let origin = FaultOrigin::new(self.program, Some((kernel, extents)), span);
        self.collect_device_warnings(origin);
        let evidence = match &result {
            Ok(Err(fault)) => {
                let given: Vec<(HostValue, bool)> =
                    prepared_args.iter().map(PreparedArgument::value_and_access).collect();
                self.race_evidence(launch, inner, parts, &given, fault, span)
            }
            _ => vec![],
        };
        let written = |prepared_args| {
            if let PreparedArgument::Array(array, true) = prepared_args { Some(HostValue::Array(array)) } else { None }
        };
        let arrays: Vec<Option<HostValue>> = prepared_args.into_iter().map(written).collect();
        self.record_results(&arrays);
        match result {
            Ok(Ok(output)) => {
                self.print_output(&output);
                Ok(arrays)
            }
            Ok(Err(fault)) => {
                // After a fault, the variables get the arrays with partial results.
                self.write_back_outputs(frame, launch, kernel, arrays)?;
                Err(self.fault_error(&fault, origin, evidence))
            }
            Err(problem) => {
                self.write_back_outputs(frame, launch, kernel, arrays)?;
                Err(self.problem(problem, span))
            }
        }
    }

    /// Checks promises about arrays if the compiled code depends on them, unless memory checks have already checked
    /// them.
    pub(super) fn check_required_promises(
        &mut self,
        inner: &mut HostFrame,
        kernel: &Kernel,
        values: &[Option<HostValue>],
        executable: &dyn Executable,
        span: Span,
    ) -> Eval<()> {
        let tested = self.interp.options.control.checks.memory;
        let promises = kernel.assumes.iter().any(|assume| matches!(assume.kind, AssumeKind::Array { .. }));
        let rests = promises && !tested && executable.depends_on_promises();
        if rests { self.check_promised_ranges(inner, kernel, values, span) } else { Ok(()) }
    }

    /// Returns the facts from the signature that were checked for a launch: a bound of all extents, and whether the
    /// promises about arrays hold. Returns `None` if the launch specifies its own geometry.
    pub(super) fn signature_promise(
        &self,
        launch: &LaunchExpr,
        kernel: &Kernel,
        inner: &HostFrame,
        prepared_args: &[PreparedArgument],
        executable: &dyn Executable,
    ) -> Option<SignaturePromise> {
        let counts = prepared_args.iter().filter_map(|item| match item {
            PreparedArgument::Array(array, _) => Some(array.count() as u64),
            PreparedArgument::Value(_) => None,
        });
        let largest = self.largest_extent(launch, kernel, inner, counts)?;
        let promises = self.interp.options.control.checks.memory || executable.depends_on_promises();
        Some(SignaturePromise { largest, promises })
    }

    /// Returns the largest dimension or number of elements of an array in a launch. Returns `None` if the launch
    /// specifies its own geometry.
    pub(super) fn largest_extent(
        &self,
        launch: &LaunchExpr,
        kernel: &Kernel,
        inner: &HostFrame,
        counts: impl Iterator<Item = u64>,
    ) -> Option<u64> {
        if launch.grid.is_some() || launch.block.is_some() {
            return None;
        }
        let dims = inner.dims.iter().take(kernel.sig.dims.len()).map(|dim| dim.and_then(|n| u64::try_from(n).ok()));
        dims.chain(counts.map(Some)).try_fold(0, |most: u64, n| Some(most.max(n?)))
    }

    /// Converts a by-value argument to its parameter's type.
    pub(super) fn convert_to_param(&mut self, inner: &HostFrame, ty: &Type, value: HostValue, span: Span) -> Eval {
        match (self.concrete(inner, ty), &value) {
            (Type::Scalar(s), HostValue::Int(_) | HostValue::Float(_)) => match value.adapt(s) {
                Some(number) => Ok(HostValue::Scalar(number)),
                None => {
                    let place = ValueDestination {
                        code: "E0512",
                        description: format!("a parameter is `{s}`"),
                        declared: None,
                    };
                    Err(self.mismatch_error(&TypeMismatch::Type, &place, &value, span))
                }
            },
            _ => Ok(value),
        }
    }

    /// Releases a variable's reference to its array while a kernel writes to it.
    fn release_variable(&mut self, frame: &mut HostFrame, place: &Expr) {
        match &place.kind {
            ExprKind::Local(local) => {
                if let Some(slot) = frame.locals.get_mut(local.index()) {
                    *slot = Some(HostValue::Unit);
                }
            }
            ExprKind::Global(global) => {
                if let Some(slot) = self.interp.globals.get_mut(global.index()) {
                    *slot = Some(HostValue::Unit);
                }
            }
            _ => {}
        }
    }

    /// Stores written arrays in the lvalues that were passed. Returns the arrays of omitted `out` arguments, which are
    /// the value of the launch.
    pub(super) fn write_back_outputs(
        &mut self,
        frame: &mut HostFrame,
        launch: &LaunchExpr,
        kernel: &Kernel,
        arrays: Vec<Option<HostValue>>,
    ) -> Eval {
        let mut results = Vec::new();
        for (i, array) in arrays.into_iter().enumerate() {
            let Some(array) = array else { continue };
            match launch.args.get(i) {
                Some(Some(place)) => self.assign_value(frame, place, array)?,
                _ => results.push(array),
            }
        }
        debug_assert!(results.len() <= kernel.sig.params.len());
        Ok(match results.len() {
            0 => HostValue::Unit,
            1 => results.remove(0),
            _ => HostValue::Tuple(results),
        })
    }
}

/// Stores the by-value arguments as locals of a frame.
fn bind_scalars(frame: &mut HostFrame, kernel: &Kernel, values: &[Option<HostValue>]) {
    for (i, (value, param)) in values.iter().zip(&kernel.sig.params).enumerate() {
        if !matches!(param.ty, Type::Array(_)) {
            *frame.local_mut(LocalId::new(i)) = value.clone();
        }
    }
}

/// Converts the arguments of a launch to device arguments. Copying a written array that is shared may run out of
/// memory, which is an error.
pub(super) fn device_args<'a>(
    exec: &ExecContext,
    prepared_args: &'a mut [PreparedArgument],
    hidden: &[HostValue],
) -> HostResult<Vec<Arg<'a>>> {
    let mut args = Vec::with_capacity(prepared_args.len() + hidden.len());
    for item in prepared_args {
        match item {
            PreparedArgument::Value(value) => push_value(&mut args, value)?,
            PreparedArgument::Array(array, false) => {
                let shape = array.extents();
                graph::materialize_for(array, exec)?;
                args.push(Arg::Array { storage: array.storage()?, shape });
            }
            PreparedArgument::Array(array, true) => {
                let shape = array.extents();
                args.push(Arg::ArrayMut { storage: array.storage_mut()?, shape });
            }
        }
    }
    hidden.iter().try_for_each(|value| push_value(&mut args, value))?;
    Ok(args)
}

/// Appends the device arguments of a by-value argument: one for a scalar or vector, and one for each scalar or vector
/// in a struct or tuple.
pub(super) fn push_value(args: &mut Vec<Arg<'_>>, value: &HostValue) -> HostResult<()> {
    match value {
        HostValue::Scalar(v) => args.push(Arg::Value(vec![*v])),
        HostValue::Vector(v) => args.push(Arg::Value(v.values().collect())),
        HostValue::Record(RecordValue { fields: parts, .. }) | HostValue::Tuple(parts) => {
            parts.iter().try_for_each(|p| push_value(args, p))?;
        }
        HostValue::Array(array) => {
            array.items_at(0..array.count()).try_for_each(|item| push_value(args, &item?))?;
        }
        _ => {}
    }
    Ok(())
}

/// Returns a text with the values of the dimensions in the expression of an extent, for error messages.
fn describe_extent(kernel: &Kernel, inner: &HostFrame, expr: &Expr) -> String {
    let mut dims: Vec<u32> = vec![];
    visit::expr(expr, &mut |e| match e.kind {
        ExprKind::Dim(dim) if !dims.contains(&dim) => dims.push(dim),
        _ => {}
    });
    let value = |dim: u32| {
        let (name, n) = (kernel.sig.dims.get(dim as usize)?, inner.dims.get(dim as usize).copied().flatten()?);
        Some(format!("`{}` is {n}", name.name))
    };
    let values: Vec<String> = dims.into_iter().filter_map(value).collect();
    if values.is_empty() { "computed here".into() } else { format!("computed here, where {}", values.join(", ")) }
}
