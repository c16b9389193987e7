//! Programs of tiles on tensor cores. In: a kernel that is one. Out: a text in which the warpgroups of a block hold its tiles in registers.
//!
//! `tiles.cu` is the part that all of them share. `tiles_boxes.cu` has the instructions of sm_90a, and has to be compiled for it;
//! `tiles_sync.cu` those of all GPUs from sm_80 on. What is computed of elements are lambdas, made from the kernels of the program; around
//! them, [`super::steps`] writes the steps.

use super::abi::{BOX_ALIGN, Copies, CudaKernel, Geometry, KernelArgument, NARROW, OfBox, Options};
use super::generator::Gen;
use super::helpers::Helpers;
use super::masks::{Side, mask};
use super::multiple;
use super::names::sanitized;
use super::print;
use super::steps::{Factor, From, Load, Masked, Op, Program, Target, Where};
use super::tree::Stmt;
use crate::base::source::Sources;
use crate::ir::Prepared;
use crate::ir::def::{
    ExprKind, KernelParam, Module, Scalar, Space, StmtKind, TileFactor, TilePart, TileStep, TileTarget, Tiles,
};
use crate::ir::ranges::{self, Bound, Fact, Given, Setting, Symbol};

/// A text that programs share, and what its registers and shared memory hold.
struct Shared {
    text: &'static str,
    gpus: &'static str,
    /// Words of tiles that the registers of a thread hold, by warpgroups, and where parts are turned besides.
    words: [u32; 3],
    words_beside_turns: [u32; 3],
}

const OF_SM90A: Shared = Shared {
    text: concat!(
        "namespace tiles {\n",
        include_str!("boxes.cu"),
        "}\n\n",
        include_str!("tiles.cu"),
        "\n",
        include_str!("tiles_boxes.cu")
    ),
    gpus: "sm_90a",
    words: [208, 208, 136],
    words_beside_turns: [208, 176, 112],
};

const OF_SM80: Shared = Shared {
    text: concat!(
        "namespace tiles {\n",
        include_str!("pieces.cu"),
        "}\n\n",
        include_str!("tiles.cu"),
        "\n",
        include_str!("tiles_sync.cu")
    ),
    gpus: "sm_80 and later",
    words: [216, 216, 136],
    words_beside_turns: [216, 216, 136],
};

impl Target {
    /// Returns what a text reads parts with; `None` if there is none of programs.
    fn of(options: &Options) -> Option<Target> {
        match options.product? {
            Copies::Boxes => Some(Target::Boxes),
            Copies::Pieces { packed: [false, false] } => Some(Target::Pieces { room: options.room }),
            Copies::Pieces { .. } | Copies::Elements => None,
        }
    }

    fn shared(self) -> &'static Shared {
        match self {
            Target::Boxes => &OF_SM90A,
            Target::Pieces { .. } => &OF_SM80,
        }
    }

    /// Returns the bytes of shared memory for parts that are read once.
    fn once(self) -> u32 {
        match self {
            Target::Boxes => 128 * 1024,
            // They have it once, and a part in the ring in each stage.
            Target::Pieces { room } => room / 3 * 2,
        }
    }
}

/// Where the instructions of the products go.
const INSTRUCTIONS: &str = "TILES_INSTRUCTIONS";
/// Bytes of a row of a box.
const BOX_BYTES: u32 = 128;

/// Returns the text of a program of tiles for tensor cores; `None` if the kernel is none, or may report faults or print, or needs more
/// registers or shared memory than there are.
pub(super) fn tiles_text(kernel: &Prepared, options: &Options, sources: Option<&Sources>) -> Option<CudaKernel> {
    let (tiles, target) = (kernel.module.kernel.tiles.as_ref()?, Target::of(options)?);
    let plain = Options { wide: false, block: None, ..options.clone() };
    let mut writer = Writer {
        kernel,
        tiles,
        options: &plain,
        sources,
        helpers: Helpers::default(),
        functions: String::new(),
        count: 0,
        signature: None,
        program: Program::new(tiles, target),
        given: Given {
            from: kernel.module.kernel.params.len() as u32,
            facts: vec![Fact::any(Scalar::I32); tiles.counters.len()],
        },
        multiples: vec![0; tiles.counters.len()],
        assumptions: vec![],
    };
    let ops = writer.ops(&tiles.steps)?;
    writer.program.turns = ops.iter().any(Op::turns);
    writer.laid_out(&ops)?;
    Some(CudaKernel { options: options.clone(), ..writer.finished(&ops)? })
}

/// What the text's function takes.
struct Signature {
    params: Vec<KernelArgument>,
    names: Vec<String>,
    /// Of the block's numbers and the counters.
    variables: Vec<String>,
    /// By parameter, the name of an array and those of its extents.
    arrays: Vec<(String, Vec<String>)>,
}

struct Writer<'a> {
    kernel: &'a Prepared,
    tiles: &'a Tiles,
    options: &'a Options,
    sources: Option<&'a Sources>,
    helpers: Helpers,
    functions: String,
    count: usize,
    signature: Option<Signature>,
    program: Program,
    given: Given,
    /// By counter: the exponent of a power of two that divides it.
    multiples: Vec<u32>,
    assumptions: Vec<Bound>,
}

impl Writer<'_> {
    /// The parameters of the kernel itself.
    fn params(&self) -> usize {
        self.kernel.module.kernel.params.len()
    }

    fn ops(&mut self, steps: &[TileStep]) -> Option<Vec<Op>> {
        let mut ops: Vec<Op> = vec![];
        for step in steps {
            let op = match step {
                TileStep::Each { to, operands, element } => {
                    let zero = is_zero(element);
                    let mask = self.masked(*to, operands, element);
                    let columns = match to {
                        TileTarget::Held(tile) => self.tiles.held[*tile].columns,
                        TileTarget::Array(columns) => *columns,
                    };
                    let function = self.function(element, [self.tiles.rows, columns.unwrap_or(1)])?;
                    Op::Each { to: *to, operands: operands.clone(), function, zero, mask }
                }
                TileStep::Fold { to, of, fold } => Op::Fold { to: *to, of: *of, function: self.number(fold)? },
                TileStep::Product { sum, terms, a, b } => {
                    let a = match a {
                        TileFactor::Held(tile) => Factor::Held(*tile),
                        TileFactor::Part(part) => Factor::Load(self.load(part, !part.transposed)?),
                    };
                    let b = self.load(b, b.transposed)?;
                    // Sums that begin with zeros need none.
                    let fresh = ops.pop_if(|op| op.clears(*sum)).is_some();
                    Op::Product { sum: *sum, terms: *terms, a, b, fresh }
                }
                TileStep::If { cond, then, other } => {
                    let function = self.number(cond)?;
                    Op::If { function, then: self.ops(then)?, other: self.ops(other)? }
                }
                TileStep::Meet => Op::Meet,
                TileStep::Repeat { counter, bounds, step, body } => {
                    let [start, end] = &**bounds;
                    self.given.facts[*counter] = self.counted(start, end);
                    self.multiples[*counter] = self.exponent(start).min(step.trailing_zeros());
                    let bounds = [self.number(start)?, self.number(end)?];
                    Op::Repeat { counter: *counter, bounds, step: *step, body: self.ops(body)? }
                }
            };
            ops.push(op);
        }
        Some(ops)
    }

    /// Returns when a tile's elements have no condition; `None` if they have none, or that is not seen.
    fn masked(&mut self, to: TileTarget, operands: &[usize], element: &Module) -> Option<Masked> {
        let TileTarget::Held(tile) = to else { return None };
        let columns = self.tiles.held[tile].columns?;
        let first = self.params() + 3 + self.tiles.counters.len();
        let found = mask(element, first, [self.tiles.rows, columns])?;
        let nothing = ", 0".repeat(operands.len());
        let mut side = |Side { base, offsets: [low, high] }: &Side| {
            let function = self.number(base)?;
            Some(format!("{function}(0, 0{nothing}), {low}, {high}"))
        };
        let (small, large) = (side(&found.small)?, side(&found.large)?);
        let holds = format!("tiles::ordered({small}, {large}, {})", found.equal);
        let is_itself = found.gives.and_then(|param| operands.get(param.checked_sub(first)?)) == Some(&tile);
        let function = if is_itself { None } else { Some(self.function(&found.within, [self.tiles.rows, columns])?) };
        Some(Masked { holds, function })
    }

    /// Returns how a part is copied. Of tf32, `wgmma` reads what lies along the terms.
    fn load(&mut self, part: &TilePart, along_terms: bool) -> Option<Load> {
        let target = self.program.target;
        let is_turned = target == Target::Boxes && part.scalar == Scalar::F32 && !along_terms;
        let width = BOX_BYTES / part.scalar.size() as u32;
        let counters = self.params() + 3..self.params() + 3 + self.tiles.counters.len();
        let varies = part.axes.iter().any(|axis| uses(&axis.start, &counters));
        // Copies report no faults: there must be none to report.
        let first_column = self.exponent(&part.axes.last()?.start);
        if target == Target::Boxes && (part.scalar.size() as u64) << first_column < BOX_ALIGN {
            return None;
        }
        let written = self.functions.len();
        self.function(&part.element, part.extents())?;
        self.functions.truncate(written);
        let at = part.axes.iter().map(|axis| self.number(&axis.start)).collect::<Option<Vec<String>>>()?;
        let from = match target {
            Target::Boxes => From::Map(self.map(part, width, is_turned)?),
            Target::Pieces { .. } => {
                let (name, extents) = self.signature.as_ref()?.arrays.get(part.param as usize)?.clone();
                From::Array { name, extents, axes: part.axes.iter().map(|axis| [axis.extent, axis.step]).collect() }
            }
        };
        let [length, columns] = match (is_turned, part.extents()) {
            (true, [rows, columns]) => [columns.next_multiple_of(width), rows],
            (false, extents) => extents,
        };
        let (boxes, scalar) = (columns.div_ceil(width), part.scalar);
        let along_terms = along_terms || is_turned;
        let mut load = Load { from, scalar, boxes, length, along_terms, is_turned, at, place: Where::Ring };
        let taken: u32 = self.program.once.iter().map(Load::bytes).sum();
        if !varies && taken + load.bytes() <= target.once() {
            load.place = Where::Once(taken);
            self.program.once.push(load.clone());
        }
        Some(load)
    }

    /// Returns the number of the map for the boxes of a part. Of one that is turned, they are as high as wide, in a matrix along the last two axes.
    fn map(&mut self, part: &TilePart, width: u32, is_turned: bool) -> Option<usize> {
        let mut of_box = OfBox::plane(width, 1);
        for (k, axis) in part.axes.iter().rev().enumerate().skip(1) {
            (of_box.extents[k], of_box.steps[k]) = (axis.extent, axis.step);
        }
        if is_turned {
            if of_box.steps[1] != 1 || of_box.extents[2..].iter().any(|&extent| extent != 1) {
                return None;
            }
            of_box.extents[1] = width;
        }
        let map = (part.param as usize, part.scalar, of_box);
        let maps = &mut self.program.maps;
        Some(maps.iter().position(|known| *known == map).unwrap_or_else(|| {
            maps.push(map);
            maps.len() - 1
        }))
    }

    /// Whether registers hold the tiles, and shared memory the parts.
    fn laid_out(&mut self, ops: &[Op]) -> Option<()> {
        let held: u32 = self.program.held.iter().map(|tile| tile.words()).sum();
        let shared = self.program.target.shared();
        let words = if self.program.turns { shared.words_beside_turns } else { shared.words };
        if held > *words.get(self.program.warpgroups as usize - 1)? {
            return None;
        }
        self.program.lay_out(ops)
    }

    fn setting(&self) -> Setting {
        Setting { largest: NARROW, block: None, assume: self.options.assume }
    }

    /// Returns what is known of a counter between two numbers.
    fn counted(&self, start: &Module, end: &Module) -> Fact {
        let number = |module| ranges::analyze_given(module, self.setting(), Some(&self.given)).1;
        let any = Fact::any(Scalar::I32);
        let (start, end) = (number(start).unwrap_or(any.clone()), number(end).unwrap_or(any.clone()));
        let counter = Fact { low: start.low, ..any.clone() }.limited_by(&end, -1);
        if counter.low <= counter.high { counter } else { any }
    }

    /// Returns the exponent of a power of two that divides a number.
    fn exponent(&self, number: &Module) -> u32 {
        multiple::exponent(number, self.params() + 3, &self.multiples)
    }

    /// As `function`, of what is computed once.
    fn number(&mut self, module: &Module) -> Option<String> {
        self.function(module, [1, 1])
    }

    /// Writes a lambda that is called for so many rows and columns, and returns its name; `None` if it may report a fault or print.
    fn function(&mut self, module: &Module, extents: [u32; 2]) -> Option<String> {
        let (mut ranges, _) = ranges::analyze_given(module, self.setting(), Some(&self.given));
        if self.kernel.in_bounds {
            ranges.vouch();
        }
        let mut g = Gen::new(module, self.options, self.sources, ranges);
        g.helpers = std::mem::take(&mut self.helpers);
        g.names.fresh(&self.kernel.module.kernel.name);
        for param in &module.kernel.params {
            let (KernelParam::Value { name, .. } | KernelParam::Array { name, .. }) = param;
            let name = g.names.fresh(name);
            g.params.push(name);
        }
        g.arrays();
        self.sign(&mut g)?;
        g.name_indices(2);
        let function = g.function;
        let body = g.within(|g| {
            g.local_arrays();
            g.declare_locals();
            g.block(&function.body);
        });
        let has_tables = function.memories.iter().any(|(_, memory)| memory.space == Space::Constant);
        if g.uses_faults || g.uses_prints || g.uses_grid || has_tables || !g.elements.is_empty() {
            return None;
        }
        // A launch has no rows and columns of its own.
        self.assumptions.extend(g.relied_upon().into_iter().map(|bound| match bound.left {
            Some(Symbol::Index(k)) => {
                let extent = extents.get(usize::from(k)).copied().unwrap_or(u32::MAX);
                Bound { left: None, plus: bound.plus + i64::from(extent), ..bound }
            }
            _ => bound,
        }));
        self.count += 1;
        let name = format!("f{}_", self.count);
        self.write_function(&mut g, &name, &body);
        self.helpers = std::mem::take(&mut g.helpers);
        Some(name)
    }

    /// Decides on the parameters of the text, with the first lambda: they have the same names in all.
    fn sign(&mut self, g: &mut Gen<'_>) -> Option<()> {
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
            let variables = g.params[own..own + 3 + self.tiles.counters.len()].to_vec();
            self.signature = Some(Signature { params, names, variables, arrays });
        }
        Some(())
    }

    fn write_function(&mut self, g: &mut Gen<'_>, name: &str, body: &[Stmt]) {
        let prologue = [std::mem::take(&mut g.prologue), std::mem::take(&mut g.prologue_shared)].concat();
        let mut takes: Vec<String> = g.indices.iter().map(|(index, _)| format!("const int {index}")).collect();
        let mut result = None;
        let first = self.params() + 3 + self.tiles.counters.len();
        for (param, declared) in g.module.kernel.params.iter().enumerate().skip(first) {
            match declared {
                KernelParam::Value { ty, .. } => takes.push(format!("const {} {}", g.helpers.ty(*ty), g.params[param])),
                KernelParam::Array { memory, .. } => {
                    result = Some((g.memories[memory.index()].element.ty.clone(), g.params[param].clone()));
                }
            }
        }
        let text = &mut self.functions;
        let takes = takes.join(", ");
        text.push_str(&format!("    const auto {name} = [&]({takes}) __attribute__((always_inline)) {{\n"));
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

    fn finished(mut self, ops: &[Op]) -> Option<CudaKernel> {
        let Signature { mut params, mut names, variables, .. } = self.signature.take()?;
        for (factor, &(param, element, of_box)) in self.program.maps.iter().enumerate() {
            params.push(KernelArgument::Map { factor, param, element, of_box });
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
        // Blocks with high numbers often have the longest loops.
        text.push_str(&format!(
            "    const int {block_x} = gridDim.x - 1 - blockIdx.x, {block_y} = blockIdx.y, {block_z} = blockIdx.z;\n"
        ));
        counters.iter().for_each(|name| text.push_str(&format!("    int {name} = 0;\n")));
        text.push_str(&self.functions);
        self.program.counters = counters.to_vec();
        self.program.write(ops, &mut text);
        text.push_str("}\n");
        Some(CudaKernel {
            text: text.replace("FAULT_WORD", "nullptr"),
            entry,
            options: self.options.clone(),
            params,
            geometry: Geometry::Tiles { threads, shared: self.program.shared() },
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

/// Whether a kernel computes zero, whatever its parameters are.
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

/// Whether a kernel depends on these parameters.
fn uses(module: &Module, params: &std::ops::Range<usize>) -> bool {
    let function = &module.functions[module.kernel.body];
    function.exprs.iter().any(|(_, expr)| matches!(expr.kind, ExprKind::Param(p) if params.contains(&(p as usize))))
}
