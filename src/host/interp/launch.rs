//! Kernel launches: binding of arguments, dimensions and compile-time arguments; geometry; results.

use std::sync::Arc;

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::{
    Access, ArrayType, AssumeKind, Dim, Expr, ExprKind, GenericArg, Geometry, Kernel, KernelId, Launch, LocalId,
    ModuleId, Type,
};
use crate::check::walk;
use crate::compile;
use crate::device::{Arg, Declared, Executable, Extents};
use crate::host::array::{Array, Element, byte_count};
use crate::host::grad;
use crate::host::graph::{self, Site};
use crate::host::problem::Outcome;
use crate::host::tuned::Mode;
use crate::host::value::{Record, Value};
use crate::ir::{Checks, Counted, Prepared};
use crate::lower::{self, Argument, Instance, Sums};

use super::bind::{Binder, Dims, Given, Origin, Source};
use super::conform::{Misfit, Place};
use super::extent::Exact;
use super::frame::Frame;
use super::geometry::{constant_block, larger, reads_global_idx};
use super::machine::{Eval, Machine, Signal};
use super::site::{self, Kinds, Made, Named};

/// An argument prepared for the device.
pub(super) enum Passed {
    Value(Value),
    /// An array, and whether the kernel may write to it.
    Array(Array, bool),
}

impl Passed {
    /// Returns its value, and whether the kernel may write to it.
    fn value(&self) -> (Value, bool) {
        match self {
            Passed::Value(value) => (value.clone(), false),
            Passed::Array(array, writes) => (Value::Array(array.clone()), *writes),
        }
    }
}

/// A launch whose arguments fit its kernel.
pub(super) struct Bound {
    /// Where dimensions and geometry are evaluated: its locals are the scalar parameters.
    pub inner: Frame,
    pub extents: Extents,
    pub instance: Instance,
    /// The values of the hidden parameters.
    pub hidden: Vec<Value>,
}

impl Machine<'_> {
    pub(crate) fn launch(&mut self, frame: &mut Frame, launch: &Launch, span: Span) -> Eval {
        let program = self.program;
        let kernel = &program.kernels[launch.kernel];
        let mut values = Vec::with_capacity(launch.args.len());
        for arg in &launch.args {
            values.push(arg.as_ref().map(|a| self.eval(frame, a)).transpose()?);
        }
        if values.iter().flatten().any(grad::is_traced) {
            return self.launch_traced(frame, launch, values, span);
        }
        let trials = !kernel.tunes.is_empty() && self.interp.tuning.mode != Mode::Take;
        let last = self.interp.kernels.sites.last(launch, frame, span).filter(|_| !trials);
        // What depends on the caller's compile-time arguments alone is not evaluated again.
        if let Some((site, true)) = &last
            && launch.dims.is_empty()
            && site.has_dims(&[])
            && site.takes(&values)
        {
            return self.launch_again(frame, (launch, kernel), site, values, span);
        }
        let named = self.named(frame, launch, kernel, span)?;
        if let Some((site, _)) = &last
            && site.is_named(&named)
            && site.takes(&values)
        {
            return self.launch_again(frame, (launch, kernel), site, values, span);
        }
        let given = Kinds::of(launch, kernel, &values, &named);
        let bound = self.bound(frame, launch, kernel, &mut values, named, span)?;
        let Bound { mut inner, extents, instance, hidden } = self.tuned(frame, launch, kernel, &values, bound, span)?;
        let executable = self.executable(&instance, span)?;
        self.rely(&mut inner, kernel, &values, &*executable, span)?;
        let made = Made { executable: &executable, extents, hidden: &hidden };
        self.interp.kernels.sites.remember((launch, kernel, frame), given, &values, &inner, made, span);
        let passed = self.run_kernel(frame, launch, kernel, &inner, made, values, span)?;
        self.hand_back(frame, launch, kernel, passed)
    }

    /// Launches a kernel as it was prepared.
    fn launch_again(
        &mut self,
        frame: &mut Frame,
        (launch, kernel): (&Launch, &Kernel),
        site: &site::Site,
        mut values: Vec<Option<Value>>,
        span: Span,
    ) -> Eval {
        for (i, element, shape) in &site.missing {
            values[*i] = Some(Value::Array(self.new_result(element.clone(), shape, span)?));
        }
        if site.is_tested() {
            let mut inner = Frame::new(site.inner.generics.clone(), site.inner.dims.clone());
            place_scalars(&mut inner, kernel, &values);
            let open = site.open.iter().filter_map(|i| kernel.assumes.get(*i));
            self.conditions_of(&mut inner, kernel, open, span)?;
            self.promises(&mut inner, kernel, &values, span)?;
            self.rely(&mut inner, kernel, &values, &*site.executable, span)?;
        }
        let made = Made { executable: &site.executable, extents: site.extents, hidden: &site.hidden };
        let passed = self.run_kernel(frame, launch, kernel, &site.inner, made, values, span)?;
        self.hand_back(frame, launch, kernel, passed)
    }

    /// Evaluates what a launch gives by name.
    pub(super) fn named(&mut self, frame: &mut Frame, launch: &Launch, kernel: &Kernel, span: Span) -> Eval<Named> {
        let mut named = Named { generics: Vec::new(), dims: Vec::with_capacity(launch.dims.len()) };
        if launch.generics.iter().any(|generic| !matches!(generic, GenericArg::Infer)) {
            named.generics.reserve(launch.generics.len());
            for (i, generic) in launch.generics.iter().enumerate() {
                named.generics.push(self.generic(frame, &kernel.sig, i, generic, span)?);
            }
        }
        for (_, expr) in &launch.dims {
            named.dims.push(self.integer(frame, expr)?);
        }
        Ok(named)
    }

    /// Binds a launch to its kernel: dimensions, compile-time arguments and geometry. Contracts are tested, and the `out` arrays that
    /// are omitted are allocated.
    pub(super) fn bound(
        &mut self,
        frame: &mut Frame,
        launch: &Launch,
        kernel: &Kernel,
        values: &mut [Option<Value>],
        named: Named,
        span: Span,
    ) -> Eval<Bound> {
        let (arguments, dims) = self.bind_launch(launch, kernel, values, named, span)?;
        let mut inner = self.kernel_frame(kernel, arguments, dims, values, span)?;
        self.contracts(&mut inner, kernel, values, span)?;
        self.allocate(kernel, launch, &mut inner, values, span)?;
        let extents = self.geometry(frame, &mut inner, launch, kernel, span)?;
        let instance = Instance { sums: self.sums(), ..Instance::new(launch.kernel, inner.generics.to_vec()) };
        let extent = |dim: u32| inner.dims.get(dim as usize).copied().flatten().unwrap_or(0);
        let hidden = lower::hidden_params(self.program, launch.kernel).into_iter();
        let hidden = hidden.map(|dim| Value::i32(extent(dim) as i32)).collect();
        Ok(Bound { inner, extents, instance, hidden })
    }

    /// Binds the arguments to the signature.
    fn bind_launch(
        &mut self,
        launch: &Launch,
        kernel: &Kernel,
        values: &[Option<Value>],
        named: Named,
        span: Span,
    ) -> Eval<(Vec<Argument>, Dims)> {
        let mut given = named.generics;
        given.resize(launch.generics.len(), None);
        let (types, mut dims, late) = {
            let mut binder = Binder::new(&kernel.sig, &self.interp.layouts);
            for (slot, argument) in binder.types.iter_mut().zip(&given) {
                if let Some(Argument::Type(ty)) = argument {
                    *slot = Some(ty.clone());
                }
            }
            for ((i, expr), extent) in launch.dims.iter().zip(named.dims) {
                let (i, span) = (*i as usize, expr.span);
                if let (Some(slot), Some(dim)) = (binder.dims.get_mut(i), kernel.sig.dims.get(i)) {
                    *slot = Some((extent, Origin { what: Source::Named { name: dim.name.clone(), extent }, span }));
                }
            }
            for (i, param) in kernel.sig.params.iter().enumerate() {
                let (Some(Some(value)), Some(Some(arg))) = (values.get(i), launch.args.get(i)) else { continue };
                binder
                    .fit(&Given { name: &param.name, ty: &param.ty, value, span: arg.span })
                    .map_err(|d| Signal::Error(Box::new(d.because(param.span, "the parameter"))))?;
            }
            (binder.types, binder.dims, binder.late)
        };
        let mut arguments = Vec::with_capacity(given.len());
        for (i, argument) in given.into_iter().enumerate() {
            let argument = self.settle(&kernel.sig, i, argument, types[i].clone(), &arguments, span)?;
            arguments.push(argument);
        }
        self.solve_dims(&kernel.sig, &arguments, &mut dims, &late)?;
        Ok((arguments, dims))
    }

    /// Creates the frame in which dimensions and geometry are evaluated: its locals are the scalar parameters.
    fn kernel_frame(
        &mut self,
        kernel: &Kernel,
        arguments: Vec<Argument>,
        dims: Dims,
        values: &[Option<Value>],
        span: Span,
    ) -> Eval<Frame> {
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
        let mut frame = Frame::new(arguments.into(), dims);
        place_scalars(&mut frame, kernel, values);
        Ok(frame)
    }

    /// Allocates the omitted `out` arrays, and checks computed dimensions of those that were given.
    fn allocate(
        &mut self,
        kernel: &Kernel,
        launch: &Launch,
        inner: &mut Frame,
        values: &mut [Option<Value>],
        span: Span,
    ) -> Eval<()> {
        for (i, param) in kernel.sig.params.iter().enumerate() {
            let Type::Array(ty) = &param.ty else { continue };
            let computed = ty.dims.iter().any(|d| matches!(d, Dim::Expr(_)));
            let missing = matches!(values.get(i), Some(None));
            if !missing && !computed {
                continue;
            }
            let shape = self.shape_of(kernel, ty, inner, span)?;
            if missing {
                let element = self.concrete(inner, &ty.element);
                let element = self.interp.layouts.element(self.program, &element);
                let array = self.new_result(element, &shape, span)?;
                values[i] = Some(Value::Array(array));
            } else if let (Some(Some(Value::Array(array))), Some(Some(arg))) = (values.get(i), launch.args.get(i))
                && array.shape() != shape
            {
                let title = format!("`{}` has to have the shape {:?}, not {:?}", param.name, shape, array.shape());
                return Err(self.error(
                    Diagnostic::error("E0511", title)
                        .at(arg.span, format!("this is `{}`", Value::Array(array.clone()).type_name()))
                        .because(param.span, "computed from the other dimensions"),
                ));
            }
        }
        Ok(())
    }

    /// Allocates an array for a kernel to write; its memory is placed where the kernel runs.
    pub(super) fn new_result(&mut self, element: Element, shape: &[usize], span: Span) -> Eval<Array> {
        let bytes = byte_count(&element, shape).map_err(|p| self.problem(p, span))?;
        if let Some(limit) = self.interp.largest.filter(|limit| bytes as u64 > *limit) {
            let title = format!("an array of `{element}` with the shape {shape:?} is too large: {bytes} bytes");
            let diagnostic = Diagnostic::error("E0806", title).at(span, "made by this launch");
            let diagnostic = diagnostic.note(format!("arrays have at most {limit} bytes here"));
            return Err(self.error(diagnostic.help("allow more: `--max-bytes`")));
        }
        let array = match self.interp.options.device.is_remote() {
            true => Array::unplaced(element, shape),
            false => Array::zeros(element, shape),
        };
        array.map_err(|p| self.problem(p, span))
    }

    fn shape_of(&mut self, kernel: &Kernel, ty: &ArrayType, inner: &mut Frame, span: Span) -> Eval<Vec<usize>> {
        let mut shape = Vec::with_capacity(ty.dims.len());
        for dim in &ty.dims {
            let extent = match dim {
                Dim::Known(k) => *k,
                Dim::Name(i) => inner.dims.get(*i as usize).copied().flatten().unwrap_or(0),
                Dim::Expr(i) => {
                    let Some(expr) = kernel.sig.dim_exprs.get(*i as usize).cloned() else { continue };
                    let extent = self.exact(inner, &expr, Exact::Extent)?;
                    if !(0..=i128::from(i32::MAX)).contains(&extent) {
                        let diagnostic = Diagnostic::error("E0520", format!("a dimension cannot be {extent}"));
                        let diagnostic = diagnostic.note("a dimension is at least 0 and at most 2147483647");
                        let diagnostic = diagnostic.at(expr.span, computed(kernel, inner, &expr));
                        return Err(self.error(diagnostic.because(span, "launched here")));
                    }
                    extent as i64
                }
                Dim::Local(_) | Dim::Unknown => {
                    return Err(self.broken(kernel.name_span, "a parameter without a shape"));
                }
            };
            shape.push(extent as usize);
        }
        Ok(shape)
    }

    /// Evaluates grid and block, or the extents of the index space.
    pub(super) fn geometry(
        &mut self,
        frame: &mut Frame,
        inner: &mut Frame,
        launch: &Launch,
        kernel: &Kernel,
        span: Span,
    ) -> Eval<Extents> {
        let extents = match &kernel.geometry {
            Geometry::Threads { extents, .. } => {
                let mut sizes = [1u32; 3];
                for (slot, extent) in sizes.iter_mut().zip(extents) {
                    *slot = self.extent(inner, extent, 0)?;
                }
                if let (Some(grid), Some(block)) = (&launch.grid, &launch.block) {
                    let (grid, block) = (self.triple(frame, grid)?, self.triple(frame, block)?);
                    self.covers(grid, block, sizes, extents.len(), kernel, span)?;
                }
                Extents::Threads(sizes)
            }
            Geometry::Grid { grid, block, .. } => {
                let grid = match &launch.grid {
                    Some(grid) => self.triple(frame, grid)?,
                    None => self.three(inner, grid, 0)?,
                };
                let block = match &launch.block {
                    Some(block) => self.triple(frame, block)?,
                    None => self.three(inner, block, 1)?,
                };
                Extents::Grid { grid, block }
            }
        };
        self.ends(&extents, launch.grid.as_ref().map_or(span, |grid| grid.span))?;
        if let Extents::Grid { grid, block } = extents {
            self.counts(kernel, grid, block, launch.grid.as_ref().map_or(span, |grid| grid.span))?;
        }
        if let Extents::Grid { block, .. } = extents {
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

    /// Checks that the number of threads fits 63 bits; a larger launch would never complete.
    fn ends(&self, extents: &Extents, span: Span) -> Eval<()> {
        let product = |sizes: &[u32; 3]| sizes.iter().map(|&n| u128::from(n)).product::<u128>();
        let threads = match extents {
            Extents::Threads(sizes) => product(sizes),
            Extents::Grid { grid, block } => product(grid) * product(block),
        };
        if threads <= u128::from(u64::MAX) >> 1 {
            return Ok(());
        }
        let diagnostic = Diagnostic::error("E0522", format!("a launch of {threads} threads would not end"));
        Err(self.error(diagnostic.at(span, "launched here").help("have each thread do more")))
    }

    /// Checks that a kernel that reads `global_idx` has at most 2^31 threads along an axis, so that the index fits an `i32`.
    fn counts(&mut self, kernel: &Kernel, grid: [u32; 3], block: [u32; 3], span: Span) -> Eval<()> {
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

    fn extent(&mut self, frame: &mut Frame, expr: &Expr, least: i64) -> Eval<u32> {
        let extent = self.exact(frame, expr, Exact::Extent)?;
        if extent < i128::from(least) || extent > i128::from(i32::MAX) {
            return Err(self.error(
                Diagnostic::error("E0522", format!("an extent of {extent} is out of range"))
                    .at(expr.span, format!("this is {extent}"))
                    .note(format!("extents are at least {least} and at most 2147483647")),
            ));
        }
        Ok(extent as u32)
    }

    fn three(&mut self, frame: &mut Frame, exprs: &[Expr], least: i64) -> Eval<[u32; 3]> {
        let mut sizes = [1u32; 3];
        for (slot, expr) in sizes.iter_mut().zip(exprs) {
            *slot = self.extent(frame, expr, least)?;
        }
        Ok(sizes)
    }

    /// Evaluates an integer or a tuple of up to three.
    fn triple(&mut self, frame: &mut Frame, expr: &Expr) -> Eval<[u32; 3]> {
        let parts = match self.eval(frame, expr)? {
            Value::Tuple(parts) => parts,
            one => vec![one],
        };
        let mut sizes = [1u32; 3];
        for (slot, part) in sizes.iter_mut().zip(&parts) {
            match part.as_int() {
                Some(size) if (0..=i128::from(i32::MAX)).contains(&size) => *slot = size as u32,
                _ => {
                    let diagnostic =
                        Diagnostic::error("E0522", "an extent is out of range").at(expr.span, "in this geometry");
                    return Err(self.error(diagnostic.note("extents are at least 0 and at most 2147483647")));
                }
            }
        }
        Ok(sizes)
    }

    /// Checks that an explicit grid for a `threads` kernel covers the whole index space.
    fn covers(
        &mut self,
        grid: [u32; 3],
        block: [u32; 3],
        sizes: [u32; 3],
        rank: usize,
        kernel: &Kernel,
        span: Span,
    ) -> Eval<()> {
        for axis in 0..rank {
            // Axis x is the last index.
            let wanted = u64::from(sizes[rank - 1 - axis]);
            let threads = u64::from(grid[axis]) * u64::from(block[axis]);
            if threads < wanted {
                let title =
                    format!("the grid is too small for `{}`: {threads} threads for {wanted} indices", kernel.name);
                return Err(self.error(
                    Diagnostic::error("E0523", title)
                        .at(span, format!("along {}", ["x", "y", "z"][axis]))
                        .note(format!("blocks are rounded up: `ceil_div({wanted}, {})`", block[axis]))
                        .help("leave `<<<…>>>` off, and the launch covers all indices by itself"),
                ));
            }
        }
        Ok(())
    }

    /// Returns how `mma` adds: on GPUs, always as tensor cores do.
    pub(super) fn sums(&self) -> Sums {
        // Asked for first: whether there is a GPU is looked up when something needs it.
        match self.interp.sums {
            Sums::Rounded if self.interp.options.device.is_remote() => Sums::default(),
            own => own,
        }
    }

    /// Returns the compiled kernel, compiling it at its first use.
    pub(super) fn executable(&mut self, instance: &Instance, span: Span) -> Eval<Arc<dyn Executable>> {
        if let Some(found) = self.interp.kernels.loaded.get(instance) {
            return Ok(found.clone());
        }
        let compiled = match self.interp.options.device.shows_names() {
            true => compile::named(self.program, instance),
            false => compile::kernel(self.program, instance, self.checks()),
        };
        let mut prepared = compiled.map_err(|d| self.first_of(d, span))?;
        prepared.counted = self.interp.options.control.counting.as_ref().map(|_| Counted::Kernel);
        let executable = self.load(prepared);
        self.interp.kernels.loaded.insert(instance.clone(), executable.clone());
        Ok(executable)
    }

    /// Starts compiling the script's own kernels in the background on devices where that takes long. Errors are reported by the
    /// launches.
    pub(super) fn compile_ahead(&mut self, main: Option<ModuleId>) {
        let program = self.program;
        let own = program.kernels_of(main).filter(|(_, kernel)| kernel.sig.generics.is_empty());
        let waiting: Vec<KernelId> = own.map(|(id, _)| id).collect();
        if waiting.is_empty() || !self.interp.options.device.is_remote() {
            return;
        }
        for id in waiting {
            let instance = Instance { sums: self.sums(), ..Instance::new(id, vec![]) };
            if self.interp.kernels.loaded.contains_key(&instance) {
                continue;
            }
            let kernel = &program.kernels[id];
            if let Ok(executable) = self.executable(&instance, kernel.name_span)
                && let Some(block) = constant_block(program, kernel)
            {
                executable.expect_blocks(block);
            }
        }
    }

    /// Returns the checks of launches on the device in use.
    pub(crate) fn checks(&self) -> Checks {
        let options = &self.interp.options;
        let checks = options.control.checks;
        if checks.any() && options.device.is_watchful() { checks } else { Checks::default() }
    }

    /// Loads a kernel on the device in use.
    pub(crate) fn load(&mut self, prepared: Prepared) -> Arc<dyn Executable> {
        self.interp.options.device.load_named(Arc::new(prepared), self.sources)
    }

    /// Returns the first error of a compilation, with the launch that required it.
    pub(crate) fn first_of(&self, diagnostics: Vec<Diagnostic>, span: Span) -> Signal {
        match diagnostics.into_iter().next() {
            Some(first) if first.primary() != Some(span) => self.error(first.because(span, "compiled for this launch")),
            Some(first) => self.error(first),
            None => self.broken(span, "lowering failed without a reason"),
        }
    }

    #[allow(clippy::too_many_arguments)]
    fn run_kernel(
        &mut self,
        frame: &mut Frame,
        launch: &Launch,
        kernel: &Kernel,
        inner: &Frame,
        Made { executable, extents, hidden }: Made<'_>,
        values: Vec<Option<Value>>,
        span: Span,
    ) -> Eval<Vec<Option<Value>>> {
        self.tried(launch, inner, extents, (&values, hidden), span)?;
        let mut passed = Vec::with_capacity(values.len());
        for (i, (value, param)) in values.into_iter().zip(&kernel.sig.params).enumerate() {
            let writes = param.access != Access::In;
            let Some(value) = value else { return Err(self.broken(span, "a launch without an argument")) };
            passed.push(match value {
                Value::Array(array) => {
                    // The variable releases its reference, so that writing need not copy the array.
                    if writes && let Some(Some(place)) = launch.args.get(i) {
                        self.release(frame, place);
                    }
                    Passed::Array(array, writes)
                }
                value => Passed::Value(self.as_param(inner, &param.ty, value, span)?),
            });
        }
        if self.interp.recorded.is_some() {
            let given = passed.iter().map(Passed::value).collect();
            self.record(launch, inner, extents, (given, hidden), span);
        }
        self.interp.options.control.launched = span;
        if passed.iter().any(Passed::is_sharded) {
            let (arrays, ran) = self.launch_in_parts(launch, kernel, inner, extents, passed, hidden, span);
            self.record_left(&arrays);
            if let Err(signal) = ran {
                self.hand_back(frame, launch, kernel, arrays)?;
                return Err(signal);
            }
            return Ok(arrays);
        }
        if self.interp.hints {
            let larger = larger(self.program, kernel);
            self.interp.small.saw(launch.kernel, extents, larger);
            self.interp.options.control.larger = Some(larger);
        }
        self.interp.options.control.declared = self.as_declared(launch, kernel, inner, &passed, &**executable);
        let control = &self.interp.options.control;
        let result = device_args(&mut passed, hidden).map(|mut args| executable.launch(extents, &mut args, control));
        self.interp.options.control.declared = None;
        let ran = Some((kernel, extents));
        self.take_warnings(ran, span);
        let evidence = match &result {
            Ok(Err(fault)) => {
                let given: Vec<(Value, bool)> = passed.iter().map(Passed::value).collect();
                self.evidence(launch, inner, extents, (&given, hidden), (fault, span))
            }
            _ => vec![],
        };
        let written = |passed| if let Passed::Array(array, true) = passed { Some(Value::Array(array)) } else { None };
        let arrays: Vec<Option<Value>> = passed.into_iter().map(written).collect();
        self.record_left(&arrays);
        match result {
            Ok(Ok(output)) => {
                self.say(&output);
                Ok(arrays)
            }
            Ok(Err(fault)) => {
                // Written arrays are returned to their variables with the partial results.
                self.hand_back(frame, launch, kernel, arrays)?;
                Err(self.fault(&fault, ran, span, evidence))
            }
            Err(problem) => {
                self.hand_back(frame, launch, kernel, arrays)?;
                Err(self.problem(problem, span))
            }
        }
    }

    /// Tests promises about arrays that the device's code rests on, unless they were tested already.
    pub(super) fn rely(
        &mut self,
        inner: &mut Frame,
        kernel: &Kernel,
        values: &[Option<Value>],
        executable: &dyn Executable,
        span: Span,
    ) -> Eval<()> {
        let tested = self.interp.options.control.checks.memory;
        let promises = kernel.assumes.iter().any(|assume| matches!(assume.kind, AssumeKind::Array { .. }));
        let rests = promises && !tested && executable.rests_on_promises();
        if rests { self.ranges_kept(inner, kernel, values, span) } else { Ok(()) }
    }

    /// Returns what is known of a launch whose conditions were tested, with promises if the device's code rests on them.
    pub(super) fn as_declared(
        &self,
        launch: &Launch,
        kernel: &Kernel,
        inner: &Frame,
        passed: &[Passed],
        executable: &dyn Executable,
    ) -> Option<Declared> {
        let counts = passed.iter().filter_map(|item| match item {
            Passed::Array(array, _) => Some(array.count() as u64),
            Passed::Value(_) => None,
        });
        let largest = self.largest(launch, kernel, inner, counts)?;
        let promises = self.interp.options.control.checks.memory || executable.rests_on_promises();
        Some(Declared { largest, promises })
    }

    /// Returns the largest dimension or number of elements of a launch whose geometry is the signature's.
    pub(super) fn largest(
        &self,
        launch: &Launch,
        kernel: &Kernel,
        inner: &Frame,
        counts: impl Iterator<Item = u64>,
    ) -> Option<u64> {
        if launch.grid.is_some() || launch.block.is_some() {
            return None;
        }
        let dims = inner.dims.iter().take(kernel.sig.dims.len()).map(|dim| dim.and_then(|n| u64::try_from(n).ok()));
        dims.chain(counts.map(Some)).try_fold(0, |most: u64, n| Some(most.max(n?)))
    }

    /// Converts a by-value argument to its parameter's type.
    pub(super) fn as_param(&mut self, inner: &Frame, ty: &Type, value: Value, span: Span) -> Eval {
        match (self.concrete(inner, ty), &value) {
            (Type::Scalar(s), Value::Int(_) | Value::Float(_)) => match value.adapt(s) {
                Some(number) => Ok(Value::Scalar(number)),
                None => {
                    let place = Place { code: "E0512", what: format!("a parameter is `{s}`"), declared: None };
                    Err(self.misfit(&Misfit::Type, &place, &value, span))
                }
            },
            _ => Ok(value),
        }
    }

    /// Releases a variable's reference to its array while a kernel writes to it.
    fn release(&mut self, frame: &mut Frame, place: &Expr) {
        match &place.kind {
            ExprKind::Local(local) => {
                if let Some(slot) = frame.locals.get_mut(local.index()) {
                    *slot = Some(Value::Unit);
                }
            }
            ExprKind::Global(global) => {
                if let Some(slot) = self.interp.globals.get_mut(global.index()) {
                    *slot = Some(Value::Unit);
                }
            }
            _ => {}
        }
    }

    /// Returns written arrays to the lvalues that were passed; the others are the launch's value.
    pub(super) fn hand_back(
        &mut self,
        frame: &mut Frame,
        launch: &Launch,
        kernel: &Kernel,
        arrays: Vec<Option<Value>>,
    ) -> Eval {
        let mut results = Vec::new();
        for (i, array) in arrays.into_iter().enumerate() {
            let Some(array) = array else { continue };
            match launch.args.get(i) {
                Some(Some(place)) => self.store(frame, place, array)?,
                _ => results.push(array),
            }
        }
        debug_assert!(results.len() <= kernel.sig.params.len());
        Ok(match results.len() {
            0 => Value::Unit,
            1 => results.remove(0),
            _ => Value::Tuple(results),
        })
    }
}

/// Makes the arguments that are no arrays locals of a frame.
fn place_scalars(frame: &mut Frame, kernel: &Kernel, values: &[Option<Value>]) {
    for (i, (value, param)) in values.iter().zip(&kernel.sig.params).enumerate() {
        if !matches!(param.ty, Type::Array(_)) {
            *frame.place(LocalId::new(i)) = value.clone();
        }
    }
}

/// Returns the arguments of a launch as the device takes them; an error if there is not enough memory for a copy of an array that
/// is written.
pub(super) fn device_args<'a>(passed: &'a mut [Passed], hidden: &[Value]) -> Outcome<Vec<Arg<'a>>> {
    let mut args = Vec::with_capacity(passed.len() + hidden.len());
    for item in passed {
        match item {
            Passed::Value(value) => push_value(&mut args, value)?,
            Passed::Array(array, false) => {
                let shape = array.extents();
                graph::prepare(array, &Site::current())?;
                args.push(Arg::Array { storage: array.storage()?, shape });
            }
            Passed::Array(array, true) => {
                let shape = array.extents();
                args.push(Arg::ArrayMut { storage: array.storage_mut()?, shape });
            }
        }
    }
    hidden.iter().try_for_each(|value| push_value(&mut args, value))?;
    Ok(args)
}

/// Appends a by-value argument: one for a scalar or vector, one per leaf for a struct or tuple.
pub(super) fn push_value(args: &mut Vec<Arg<'_>>, value: &Value) -> Outcome<()> {
    match value {
        Value::Scalar(v) => args.push(Arg::Value(vec![*v])),
        Value::Vector(v) => args.push(Arg::Value(v.values().collect())),
        Value::Record(Record { fields: parts, .. }) | Value::Tuple(parts) => {
            parts.iter().try_for_each(|p| push_value(args, p))?;
        }
        Value::Array(array) => {
            array.items_at(0..array.count()).try_for_each(|item| push_value(args, &item?))?;
        }
        _ => {}
    }
    Ok(())
}

/// Says where an extent was computed, and of which dimensions.
fn computed(kernel: &Kernel, inner: &Frame, expr: &Expr) -> String {
    let mut dims: Vec<u32> = vec![];
    walk::expr(expr, &mut |e| match e.kind {
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
