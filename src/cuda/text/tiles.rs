//! Generates code for tile programs on tensor cores. The warpgroups of a block store the program's tiles in registers.
//!
//! The code is based on templates. All programs share `tiles.cu`. `tiles_tma.cu` uses sm_90a instructions and must be
//! compiled for this architecture; `tiles_sync.cu` uses the instructions of all GPUs from sm_80 on. Element-wise
//! computations become lambdas. [`super::steps`] writes the code around them.

use super::abi::{CodegenOptions, CudaGeometry, CudaKernel, KernelArgument, NARROW, OperandStaging, TMA_ALIGN, TmaBox};
use super::divisibility;
use super::generator::CudaGenerator;
use super::helpers::Helpers;
use super::masks::{MaskSide, mask};
use super::names::sanitized;
use super::print;
use super::steps::{
    LoadPlacement, LoadSource, MaskedStep, MmaOperand, TileInstructions, TileLoad, TileStepContext, TileStepOp,
};
use super::tree::CudaStmt;
use clk_base::source::SourceMap;
use clk_ir::PreparedKernel;
use clk_ir::def::{ExprKind, KernelParam, MemorySpace, Module, Scalar, StmtKind};
use clk_ir::ranges::{self, LaunchConstant, ParamFacts, RangeAssumptions, SymbolInequality, ValueBounds};
use clk_ir::tiles::{ArrayWindow, TileGemmOperand, TileProgram, TileStep, TileTarget};

/// The template for an instruction set, and its limits on registers.
struct TileTemplate {
    text: &'static str,
    gpus: &'static str,
    /// Maximum number of 32-bit words of tiles per thread, by the number of warpgroups. `words_beside_turns` is the
    /// limit if windows are transposed.
    words: [u32; 3],
    words_beside_turns: [u32; 3],
}

const OF_SM90A: TileTemplate = TileTemplate {
    text: concat!(
        "namespace tiles {\n",
        include_str!("tma.cu"),
        "}\n\n",
        include_str!("tiles.cu"),
        "\n",
        include_str!("tiles_tma.cu")
    ),
    gpus: "sm_90a",
    words: [208, 208, 136],
    words_beside_turns: [208, 176, 112],
};

const OF_SM80: TileTemplate = TileTemplate {
    text: concat!(
        "namespace tiles {\n",
        include_str!("cp_async.cu"),
        "}\n\n",
        include_str!("tiles.cu"),
        "\n",
        include_str!("tiles_sync.cu")
    ),
    gpus: "sm_80 and later",
    words: [216, 216, 136],
    words_beside_turns: [216, 216, 136],
};

impl TileInstructions {
    /// Returns the instruction set for the options, or `None` if tile programs have no such variant.
    fn of(options: &CodegenOptions) -> Option<TileInstructions> {
        match options.product? {
            OperandStaging::Boxes => Some(TileInstructions::Sm90a),
            OperandStaging::Pieces { packed: [false, false] } => Some(TileInstructions::Sm80 { room: options.room }),
            OperandStaging::Pieces { .. } | OperandStaging::Elements => None,
        }
    }

    fn shared(self) -> &'static TileTemplate {
        match self {
            TileInstructions::Sm90a => &OF_SM90A,
            TileInstructions::Sm80 { .. } => &OF_SM80,
        }
    }

    /// Returns the limit of shared memory in bytes for windows that are copied only once, to dedicated memory.
    fn dedicated_limit(self) -> u32 {
        match self {
            TileInstructions::Sm90a => 128 * 1024,
            // Dedicated windows may use most of the memory: they exist once, while each stage has its own copy of the
            // windows in the ring.
            TileInstructions::Sm80 { room } => room / 3 * 2,
        }
    }
}

/// Placeholder in the template for the definitions of the products' instructions.
const INSTRUCTIONS: &str = "TILES_INSTRUCTIONS";
/// Size of a row of a TMA box in bytes.
const BOX_BYTES: u32 = 128;

/// Returns the tensor-core code of a tile program. Returns `None` if the kernel is not a tile program, may report
/// faults or print, or needs too many registers or too much shared memory.
pub(super) fn tiles_text(
    kernel: &PreparedKernel,
    options: &CodegenOptions,
    sources: Option<&SourceMap>,
) -> Option<CudaKernel> {
    let (tiles, target) = (kernel.module.kernel.tile_program.as_ref()?, TileInstructions::of(options)?);
    let plain = CodegenOptions { wide: false, block: None, ..options.clone() };
    let mut writer = TileTextWriter {
        kernel,
        tiles,
        options: &plain,
        sources,
        helpers: Helpers::default(),
        functions: String::new(),
        count: 0,
        signature: None,
        program: TileStepContext::new(tiles, target),
        symbols: ParamFacts {
            first: kernel.module.kernel.params.len() as u32,
            facts: vec![ValueBounds::any(Scalar::I32); tiles.counters.len()],
        },
        multiples: vec![0; tiles.counters.len()],
        assumptions: vec![],
    };
    let ops = writer.ops(&tiles.steps)?;
    writer.program.has_transposes = ops.iter().any(TileStepOp::has_transposes);
    writer.laid_out(&ops)?;
    Some(CudaKernel { options: options.clone(), ..writer.finished(&ops)? })
}

/// The signature of the CUDA function.
struct CudaSignature {
    params: Vec<KernelArgument>,
    names: Vec<String>,
    /// The names of the block indices and of the loop counters.
    variables: Vec<String>,
    /// For each parameter: the name of the array, and the names of its extents.
    arrays: Vec<(String, Vec<String>)>,
}

struct TileTextWriter<'a> {
    kernel: &'a PreparedKernel,
    tiles: &'a TileProgram,
    options: &'a CodegenOptions,
    sources: Option<&'a SourceMap>,
    helpers: Helpers,
    functions: String,
    count: usize,
    signature: Option<CudaSignature>,
    program: TileStepContext,
    symbols: ParamFacts,
    /// For each loop counter: the exponent of a power of two that divides its values.
    multiples: Vec<u32>,
    assumptions: Vec<SymbolInequality>,
}

impl TileTextWriter<'_> {
    /// Returns the number of the kernel's parameters, without block indices and counters.
    fn params(&self) -> usize {
        self.kernel.module.kernel.params.len()
    }

    fn ops(&mut self, steps: &[TileStep]) -> Option<Vec<TileStepOp>> {
        let mut ops: Vec<TileStepOp> = vec![];
        for step in steps {
            let op = match step {
                TileStep::Map { to, operands, element } => {
                    let zero = is_zero(element);
                    let mask = self.masked_step(*to, operands, element);
                    let columns = match to {
                        TileTarget::Tile(tile) => self.tiles.tiles[*tile].columns,
                        TileTarget::Array(columns) => *columns,
                    };
                    let function = self.function(element, [self.tiles.rows, columns.unwrap_or(1)])?;
                    TileStepOp::Each { to: *to, operands: operands.clone(), function, zero, mask }
                }
                TileStep::Reduce { to, of, combine: fold } => {
                    TileStepOp::Fold { to: *to, of: *of, function: self.number(fold)? }
                }
                TileStep::Mma { sum, terms, a, b } => {
                    let a = match a {
                        TileGemmOperand::Tile(tile) => MmaOperand::Held(*tile),
                        TileGemmOperand::Window(part) => MmaOperand::Load(self.load(part, !part.transposed)?),
                    };
                    let b = self.load(b, b.transposed)?;
                    // If the step before the product only zeroes the accumulator, remove it: the product then sets the
                    // accumulator instead of adding to it.
                    let fresh = ops.pop_if(|op| op.is_clear_of(*sum)).is_some();
                    TileStepOp::Product { sum: *sum, terms: *terms, a, b, fresh }
                }
                TileStep::If { cond, then, other } => {
                    let function = self.number(cond)?;
                    TileStepOp::If { function, then: self.ops(then)?, other: self.ops(other)? }
                }
                TileStep::Barrier => TileStepOp::Meet,
                TileStep::Repeat { counter, bounds, step, body } => {
                    let [start, end] = &**bounds;
                    self.symbols.facts[*counter] = self.counter_range(start, end);
                    self.multiples[*counter] = self.exponent(start).min(step.trailing_zeros());
                    let bounds = [self.number(start)?, self.number(end)?];
                    TileStepOp::Repeat { counter: *counter, bounds, step: *step, body: self.ops(body)? }
                }
            };
            ops.push(op);
        }
        Some(ops)
    }

    /// Returns the test that the condition in an element's function holds for a whole tile. Returns `None` if there is
    /// no condition, or it cannot be analyzed.
    fn masked_step(&mut self, to: TileTarget, operands: &[usize], element: &Module) -> Option<MaskedStep> {
        let TileTarget::Tile(tile) = to else { return None };
        let columns = self.tiles.tiles[tile].columns?;
        let first = self.params() + 3 + self.tiles.counters.len();
        let element_mask = mask(element, first, [self.tiles.rows, columns])?;
        let nothing = ", 0".repeat(operands.len());
        let mut side = |MaskSide { base, offsets: [low, high] }: &MaskSide| {
            let function = self.number(base)?;
            Some(format!("{function}(0, 0{nothing}), {low}, {high}"))
        };
        let (small, large) = (side(&element_mask.small)?, side(&element_mask.large)?);
        let holds = format!("tiles::ordered({small}, {large}, {})", element_mask.equal);
        let is_itself =
            element_mask.result_param.and_then(|param| operands.get(param.checked_sub(first)?)) == Some(&tile);
        let function =
            if is_itself { None } else { Some(self.function(&element_mask.within, [self.tiles.rows, columns])?) };
        Some(MaskedStep { holds, function })
    }

    /// Returns how a window is copied. For tf32, the operands of `wgmma` must be contiguous along the summed axis.
    fn load(&mut self, part: &ArrayWindow, along_terms: bool) -> Option<TileLoad> {
        let target = self.program.target;
        let is_transposed = target == TileInstructions::Sm90a && part.scalar == Scalar::F32 && !along_terms;
        let width = BOX_BYTES / part.scalar.size() as u32;
        let counters = self.params() + 3..self.params() + 3 + self.tiles.counters.len();
        let varies = part.axes.iter().any(|axis| uses(&axis.start, &counters));
        // Copies cannot report faults, so the window must be proved to be in bounds.
        let first_column = self.exponent(&part.axes.last()?.start);
        if target == TileInstructions::Sm90a && (part.scalar.size() as u64) << first_column < TMA_ALIGN {
            return None;
        }
        let written = self.functions.len();
        self.function(&part.element, part.extents())?;
        self.functions.truncate(written);
        let at = part.axes.iter().map(|axis| self.number(&axis.start)).collect::<Option<Vec<String>>>()?;
        let from = match target {
            TileInstructions::Sm90a => LoadSource::Map(self.map(part, width, is_transposed)?),
            TileInstructions::Sm80 { .. } => {
                let (name, extents) = self.signature.as_ref()?.arrays.get(part.param as usize)?.clone();
                LoadSource::Array {
                    name,
                    extents,
                    axes: part.axes.iter().map(|axis| [axis.extent, axis.step]).collect(),
                }
            }
        };
        let [length, columns] = match (is_transposed, part.extents()) {
            (true, [rows, columns]) => [columns.next_multiple_of(width), rows],
            (false, extents) => extents,
        };
        let (boxes, scalar) = (columns.div_ceil(width), part.scalar);
        let along_terms = along_terms || is_transposed;
        let mut load =
            TileLoad { from, scalar, boxes, length, along_terms, is_transposed, at, place: LoadPlacement::Ring };
        let used_bytes: u32 = self.program.dedicated_loads.iter().map(TileLoad::bytes).sum();
        if !varies && used_bytes + load.bytes() <= target.dedicated_limit() {
            load.place = LoadPlacement::Dedicated(used_bytes);
            self.program.dedicated_loads.push(load.clone());
        }
        Some(load)
    }

    /// Returns the number of the tensor map for the boxes of a window. If the window is transposed, the boxes are
    /// squares in the last two axes.
    fn map(&mut self, part: &ArrayWindow, width: u32, is_transposed: bool) -> Option<usize> {
        let mut tma_box = TmaBox::plane(width, 1);
        for (k, axis) in part.axes.iter().rev().enumerate().skip(1) {
            (tma_box.extents[k], tma_box.steps[k]) = (axis.extent, axis.step);
        }
        if is_transposed {
            if tma_box.steps[1] != 1 || tma_box.extents[2..].iter().any(|&extent| extent != 1) {
                return None;
            }
            tma_box.extents[1] = width;
        }
        let map = (part.param as usize, part.scalar, tma_box);
        let maps = &mut self.program.maps;
        Some(maps.iter().position(|known| *known == map).unwrap_or_else(|| {
            maps.push(map);
            maps.len() - 1
        }))
    }

    /// Lays out shared memory. Returns `None` if the tiles do not fit in registers or the windows do not fit in shared
    /// memory.
    fn laid_out(&mut self, ops: &[TileStepOp]) -> Option<()> {
        let register_words: u32 = self.program.held.iter().map(|tile| tile.words()).sum();
        let shared = self.program.target.shared();
        let words = if self.program.has_transposes { shared.words_beside_turns } else { shared.words };
        if register_words > *words.get(self.program.warpgroups as usize - 1)? {
            return None;
        }
        self.program.lay_out(ops)
    }

    fn setting(&self) -> RangeAssumptions {
        RangeAssumptions { largest: NARROW, block: None, assume: self.options.assume }
    }

    /// Returns the value range of a loop counter with these bounds.
    fn counter_range(&self, start: &Module, end: &Module) -> ValueBounds {
        let number = |module| ranges::analyze_with_facts(module, self.setting(), Some(&self.symbols)).1;
        let any = ValueBounds::any(Scalar::I32);
        let (start, end) = (number(start).unwrap_or(any.clone()), number(end).unwrap_or(any.clone()));
        let counter = ValueBounds { low: start.low, ..any.clone() }.limited_by(&end, -1);
        if counter.low <= counter.high { counter } else { any }
    }

    /// Returns the exponent of a power of two that divides the value which a function computes.
    fn exponent(&self, number: &Module) -> u32 {
        divisibility::exponent(number, self.params() + 3, &self.multiples)
    }

    /// Like [`Self::function`], but for a value that is computed once rather than for each element.
    fn number(&mut self, module: &Module) -> Option<String> {
        self.function(module, [1, 1])
    }

    /// Writes a lambda that is called for this many rows and columns, and returns its name. Returns `None` if the
    /// lambda may report a fault or print.
    fn function(&mut self, module: &Module, extents: [u32; 2]) -> Option<String> {
        let (mut ranges, _) = ranges::analyze_with_facts(module, self.setting(), Some(&self.symbols));
        if self.kernel.in_bounds {
            ranges.assume_in_bounds();
        }
        let mut g = CudaGenerator::new(module, self.options, self.sources, ranges);
        g.preamble.helpers = std::mem::take(&mut self.helpers);
        g.naming.used.fresh(&self.kernel.module.kernel.name);
        for param in &module.kernel.params {
            let (KernelParam::Value { name, .. } | KernelParam::Array { name, .. }) = param;
            let name = g.naming.used.fresh(name);
            g.naming.params.push(name);
        }
        g.arrays();
        self.sign(&mut g)?;
        g.name_indices(2);
        let function = g.function;
        let body = g.capture(|g| {
            g.local_arrays();
            g.declare_locals();
            g.block(&function.body);
        });
        let has_tables = function.memories.iter().any(|(_, memory)| memory.space == MemorySpace::Constant);
        if g.records.uses_faults
            || g.records.uses_prints
            || g.records.uses_grid
            || has_tables
            || !g.preamble.elements.is_empty()
        {
            return None;
        }
        // The row and the column are not constants of the launch, so the assumptions contain their maximum, the
        // extent, instead.
        self.assumptions.extend(g.used_assumptions().into_iter().map(|bound| match bound.left {
            Some(LaunchConstant::Index(k)) => {
                let extent = extents.get(usize::from(k)).copied().unwrap_or(u32::MAX);
                SymbolInequality { left: None, plus: bound.plus + i64::from(extent), ..bound }
            }
            _ => bound,
        }));
        self.count += 1;
        let name = format!("f{}_", self.count);
        self.write_function(&mut g, &name, &body);
        self.helpers = std::mem::take(&mut g.preamble.helpers);
        Some(name)
    }

    /// Determines the parameters of the CUDA function while the first lambda is generated. They have the same names in
    /// all lambdas.
    fn sign(&mut self, g: &mut CudaGenerator<'_>) -> Option<()> {
        let (own, mut params, mut arrays) = (self.params(), vec![], vec![]);
        for (param, declared) in g.module.kernel.params.iter().enumerate().take(own) {
            match declared {
                KernelParam::Value { ty, .. } => {
                    params.push(KernelArgument::Value { param, ty: *ty });
                    arrays.push(Default::default());
                }
                KernelParam::Array { memory, .. } => {
                    params.push(KernelArgument::Array { param });
                    let rank = g.function.memories[*memory].extents.len();
                    let extents = (0..rank).map(|axis| g.param_extent(param, axis, rank)).collect();
                    params.extend((0..rank).map(|axis| KernelArgument::Extent { param, axis }));
                    arrays.push((g.memories[memory.index()].name.clone(), extents));
                }
            }
        }
        if self.signature.is_none() {
            let names = params.iter().map(|param| g.parameter(param)).collect();
            let variables = g.naming.params[own..own + 3 + self.tiles.counters.len()].to_vec();
            self.signature = Some(CudaSignature { params, names, variables, arrays });
        }
        Some(())
    }

    fn write_function(&mut self, g: &mut CudaGenerator<'_>, name: &str, body: &[CudaStmt]) {
        let prologue = [std::mem::take(&mut g.preamble.stmts), std::mem::take(&mut g.preamble.shared)].concat();
        let mut parameters: Vec<String> =
            g.naming.indices.iter().map(|(index, _)| format!("const int {index}")).collect();
        let mut result = None;
        let first = self.params() + 3 + self.tiles.counters.len();
        for (param, declared) in g.module.kernel.params.iter().enumerate().skip(first) {
            match declared {
                KernelParam::Value { ty, .. } => {
                    parameters.push(format!("const {} {}", g.preamble.helpers.ty(*ty), g.naming.params[param]))
                }
                KernelParam::Array { memory, .. } => {
                    result = Some((g.memories[memory.index()].element.ty.clone(), g.naming.params[param].clone()));
                }
            }
        }
        let text = &mut self.functions;
        let parameters = parameters.join(", ");
        text.push_str(&format!("    const auto {name} = [&]({parameters}) __attribute__((always_inline)) {{\n"));
        if let Some((ty, name)) = &result {
            text.push_str(&format!("        {ty} {name}[1];\n"));
        }
        print::block(&prologue, 2, text);
        print::block(body, 2, text);
        if let Some((_, name)) = &result {
            text.push_str(&format!("        return {name}[0];\n"));
        }
        text.push_str("    };\n");
    }

    fn finished(mut self, ops: &[TileStepOp]) -> Option<CudaKernel> {
        let CudaSignature { mut params, mut names, variables, .. } = self.signature.take()?;
        for (factor, &(param, element, tma_box)) in self.program.maps.iter().enumerate() {
            params.push(KernelArgument::Map { factor, param, element, tma_box });
            names.push(format!("const __grid_constant__ tiles::Map map{factor}_"));
        }
        let entry = sanitized(&self.kernel.module.kernel.name);
        let threads = self.program.threads();
        let mut text = std::mem::take(&mut self.helpers).into_text();
        let shared = self.program.target.shared();
        text.push_str(&shared.text.replace(INSTRUCTIONS, &self.program.instructions(ops)));
        text.push_str(&format!("\nextern \"C\" __global__ void __launch_bounds__({threads}, 1) {entry}(\n    "));
        text.push_str(&names.join(",\n    "));
        text.push_str(") {\n");
        let [block_x, block_y, block_z, counters @ ..] = variables.as_slice() else { return None };
        // Start with the blocks with the highest numbers, because they often have the longest loops.
        text.push_str(&format!(
            "    const int {block_x} = gridDim.x - 1 - blockIdx.x, {block_y} = blockIdx.y, {block_z} = blockIdx.z;\n"
        ));
        counters.iter().for_each(|name| text.push_str(&format!("    int {name} = 0;\n")));
        text.push_str(&self.functions);
        self.program.counters = counters.to_vec();
        self.program.write(ops, &mut text);
        text.push_str("}\n");
        Some(CudaKernel {
            text,
            entry,
            options: self.options.clone(),
            params,
            geometry: CudaGeometry::Tiles { threads, shared: self.program.shared() },
            max_block: threads,
            static_shared: 0,
            dynamic_shared: vec![],
            cooperative: false,
            places: vec![],
            prints: vec![],
            assumptions: self.assumptions,
            guards: Default::default(),
            notes: vec![format!("tiles in the registers of warpgroups, products on tensor cores of {}", shared.gpus)],
        })
    }
}

/// Returns whether a function computes zero for all arguments.
fn is_zero(module: &Module) -> bool {
    let function = &module.functions[module.kernel.body];
    match function.body.as_slice() {
        [stmt] => match &stmt.kind {
            StmtKind::Store { place, value, .. } => {
                let is_result = place.indices.is_empty();
                let value = &function.exprs[*value];
                is_result && value.kind == ExprKind::Const(0) && value.ty.scalar() == Scalar::F32
            }
            _ => false,
        },
        _ => false,
    }
}

/// Returns whether a function uses one of these parameters.
fn uses(module: &Module, params: &std::ops::Range<usize>) -> bool {
    let function = &module.functions[module.kernel.body];
    function.exprs.iter().any(|(_, expr)| matches!(expr.kind, ExprKind::Param(p) if params.contains(&(p as usize))))
}
