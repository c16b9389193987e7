//! Chooses the numbers of a launch: the grid, the block, integer parameters and lengths of arrays. The host code of the
//! file and the command line determine some of them. The others are chosen so that the assumptions of the kernel hold.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use clk_check::typed::{AssumeKind, Dim, ExprKind, Kernel, LocalId, Program};
use clk_check::visit;
use clk_compile::symbolic_launch::{LaunchSizes, leaf_position, symbolic_launch};
use clk_import::{CudaLaunch, HostInteger, HostUnknown, HostUnknowns, LaunchArgument, ParameterRole, TranslatedKernel};
use clk_ir::def::Module;
use clk_ir::footprint::constant;
use clk_lower::Instance;
use clk_prove::{ReplaySizes, fit_sizes};

use super::parameters::{KernelParameters, ParameterLeaf};
use crate::command_error::{CommandError, CommandResult};

/// Limits of launches whose sizes are chosen: the number of threads and the number of elements of all arrays.
const CHOSEN_LIMITS: (i128, i128) = (1 << 17, 1 << 22);

/// Limits of launches whose sizes the file and the command line determine.
const KNOWN_LIMITS: (i128, i128) = (1 << 22, 1 << 26);

/// The first size, and the difference between two sizes. Sizes differ, so that a wrong order of indices shows.
const SIZES: [(i128, i128); 13] = [
    (1000, -37),
    (1024, 0),
    (256, 0),
    (100, -7),
    (61, -6),
    (64, 0),
    (40, -3),
    (29, -2),
    (32, 0),
    (16, 0),
    (8, 0),
    (4, 0),
    (1, 0),
];

/// Blocks with one to three dimensions, and the number of blocks along an axis.
const BLOCKS: [[i128; 3]; 3] = [[256, 1, 1], [16, 16, 1], [8, 8, 4]];
const GRID: i128 = 4;

/// Values of integers that are no sizes, such as a number of iterations.
const SMALL: [i128; 4] = [3, 2, 5, 1];

/// The length of an array about which nothing is known.
const UNSTATED_LENGTH: i128 = 4096;

/// A number that the file does not determine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChosenNumber {
    pub name: SmolStr,
    pub value: i128,
    /// Whether the command line states it.
    pub is_given: bool,
}

/// Why an array has its length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LengthOrigin {
    /// The launch in the file.
    Launch,
    /// The assumptions of the kernel.
    Assumed,
    /// Nothing says how long the array is.
    Unstated,
}

/// The numbers of a launch.
pub(crate) struct ChosenSizes {
    pub sizes: ReplaySizes,
    /// The grid and the block.
    pub grid: [i128; 3],
    pub block: [i128; 3],
    /// The numbers that the file does not determine, other than the grid and the block.
    pub chosen: Vec<ChosenNumber>,
    /// Whether an extent of the grid or the block is chosen.
    pub has_chosen_geometry: bool,
    /// By dimension of the kernel.
    pub lengths: Vec<LengthOrigin>,
}

/// Values of host code that were chosen for earlier launches.
#[derive(Clone, Debug, Default)]
pub(crate) struct HostNumbers {
    values: BTreeMap<HostUnknown, i128>,
    /// The values of variables, which often do not change between launches even if host code is not understood.
    names: BTreeMap<SmolStr, i128>,
}

impl HostNumbers {
    fn get(&self, unknown: HostUnknown, name: &str) -> Option<i128> {
        self.values.get(&unknown).or_else(|| self.names.get(name)).copied()
    }

    fn insert(&mut self, unknown: HostUnknown, name: &SmolStr, value: i128) {
        self.values.insert(unknown, value);
        self.names.insert(name.clone(), value);
    }
}

/// A choice of unknown numbers: the first size, the difference between two sizes, the numbers other than sizes, and
/// the blocks with one to three dimensions.
#[derive(Clone, Copy, Debug)]
struct NumberChoice {
    first: i128,
    step: i128,
    others: [i128; 4],
    blocks: [[i128; 3]; 3],
}

/// Choices with which a launch is repeated after a fault. Sizes are no multiples of blocks, so that accesses past the
/// last element remain. Other numbers may have to be powers of two, as the bytes of a row are.
const ALTERNATIVES: [NumberChoice; 4] = [
    NumberChoice { first: 100, step: -7, others: [2, 5, 1, 3], blocks: [[512, 1, 1], [32, 16, 1], [8, 8, 8]] },
    NumberChoice { first: 29, step: -2, others: [1, 3, 2, 5], blocks: [[128, 1, 1], [32, 32, 1], [4, 4, 4]] },
    NumberChoice { first: 7, step: -1, others: [1, 3, 2, 5], blocks: [[1024, 1, 1], [8, 8, 1], [16, 8, 8]] },
    NumberChoice { first: 100, step: -7, others: [64, 32, 16, 128], blocks: BLOCKS },
];

/// What is known about a launch whose numbers are chosen.
pub(crate) struct SizeQuestion<'a> {
    pub program: &'a Program,
    pub kernel: &'a Kernel,
    pub instance: &'a Instance,
    pub module: &'a Module,
    pub translated: &'a TranslatedKernel,
    pub parameters: &'a KernelParameters,
    pub launch: Option<&'a CudaLaunch>,
    pub unknowns: &'a HostUnknowns,
    /// The grid and the block of the command line.
    pub grid: Option<[i64; 3]>,
    pub block: Option<[i64; 3]>,
    /// The numbers of the command line, by name.
    pub given: &'a BTreeMap<SmolStr, i128>,
}

/// The source of an integer parameter.
enum IntegerSource {
    /// The command line.
    Given(i128),
    /// An integer of host code, divided by a number.
    Host(HostInteger, i128),
    /// Nothing determines it.
    Free,
}

/// What an unknown number is for. If it is for several purposes, the last one counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum UnknownPurpose {
    Other,
    Size,
    Grid,
    Block(usize),
}

/// An unknown number of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnknownNumber {
    Host(HostUnknown),
    /// An integer parameter, by its position.
    Parameter(u32),
}

/// The length of an array that the launch passes.
struct LaunchLength {
    /// The dimension of the kernel.
    dim: usize,
    bytes: HostInteger,
    element_bytes: i128,
}

/// The sources of the numbers of a launch.
struct NumberSources {
    /// For each integer parameter: its position and its source.
    integers: Vec<(u32, IntegerSource)>,
    lengths: Vec<LaunchLength>,
    /// The unknown numbers, with the name of the parameter for which each was found first.
    unknowns: Vec<(UnknownNumber, UnknownPurpose, SmolStr)>,
    /// The number of dimensions of the grid and the block.
    axes: usize,
}

impl SizeQuestion<'_> {
    /// Chooses the numbers. Unknown values of host code in `known` keep their value; others are added to it. The error
    /// is the reason why the launch cannot be run.
    pub fn answer(&self, known: &mut HostNumbers) -> CommandResult<ChosenSizes> {
        let sources = self.sources();
        let mut why = CommandError::from("no sizes were found that keep the assumptions about the kernel");
        // A grid that is chosen does not depend on the sizes, and should cover them.
        let is_grid = |purpose: &UnknownPurpose| matches!(purpose, UnknownPurpose::Grid);
        let has_chosen_grid = sources.unknowns.iter().any(|(_, purpose, _)| is_grid(purpose));
        let covered = GRID * BLOCKS[sources.axes.clamp(1, 3) - 1][0];
        let has_choice = self.has_choice(&sources, known);
        for size in SIZES.into_iter().filter(|(first, _)| !has_chosen_grid || *first <= covered) {
            let choice = NumberChoice { first: size.0, step: size.1, others: SMALL, blocks: BLOCKS };
            match self.attempt(&sources, choice, known, has_choice) {
                Ok((numbers, new)) => {
                    *known = new;
                    return Ok(numbers);
                }
                Err(new) => why = new,
            }
            if !has_choice {
                break;
            }
        }
        Err(why)
    }

    /// Chooses other numbers for the launch, if any are chosen.
    pub fn alternatives(&self) -> Vec<ChosenSizes> {
        let sources = self.sources();
        if !self.has_choice(&sources, &HostNumbers::default()) {
            return vec![];
        }
        let answer = |choice| self.attempt(&sources, choice, &HostNumbers::default(), true).ok();
        ALTERNATIVES.into_iter().filter_map(answer).map(|(numbers, _)| numbers).collect()
    }

    /// Returns whether some number is neither known nor given.
    fn has_choice(&self, sources: &NumberSources, known: &HostNumbers) -> bool {
        sources.unknowns.iter().any(|(unknown, _, name)| match unknown {
            UnknownNumber::Host(unknown) => known.get(*unknown, name).is_none() && self.given_host(*unknown).is_none(),
            UnknownNumber::Parameter(_) => true,
        })
    }

    /// Returns the names to which the command line may give a value.
    pub fn names(&self) -> Vec<SmolStr> {
        let of_host = self.sources().unknowns.into_iter().map(|(.., name)| name);
        of_host.chain(self.parameters.integers.iter().map(|leaf| leaf.name.clone())).collect()
    }

    fn given_host(&self, unknown: HostUnknown) -> Option<i128> {
        self.given.get(self.unknowns.name(unknown)?).copied()
    }

    fn sources(&self) -> NumberSources {
        let assumed = self.assumed_positions();
        let mut sources = NumberSources { integers: vec![], lengths: vec![], unknowns: vec![], axes: 1 };
        for leaf in &self.parameters.integers {
            let role = self.translated.parameters.get(leaf.param).map(|param| &param.role);
            let (source, purpose) = match role {
                Some(ParameterRole::Grid(axis)) => {
                    sources.axes = sources.axes.max(axis + 1);
                    (self.extent(self.grid, |launch| &launch.grid, *axis), UnknownPurpose::Grid)
                }
                Some(ParameterRole::Block(axis)) => {
                    (self.extent(self.block, |launch| &launch.block, *axis), UnknownPurpose::Block(*axis))
                }
                Some(ParameterRole::SharedLength { element_bytes }) => {
                    let bytes = self.launch.and_then(|launch| launch.shared_bytes.clone()).zip(*element_bytes);
                    let source = bytes.map_or(IntegerSource::Free, |(bytes, of)| IntegerSource::Host(bytes, of.max(1)));
                    (source, UnknownPurpose::Size)
                }
                _ => {
                    let is_size = assumed.contains(&leaf.position);
                    (self.argument(leaf), if is_size { UnknownPurpose::Size } else { UnknownPurpose::Other })
                }
            };
            match &source {
                IntegerSource::Given(_) => {}
                IntegerSource::Free => {
                    sources.unknowns.push((UnknownNumber::Parameter(leaf.position), purpose, leaf.name.clone()));
                }
                IntegerSource::Host(integer, _) => self.add_unknowns(integer, purpose, &leaf.name, &mut sources),
            }
            sources.integers.push((leaf.position, source));
        }
        for array in &self.parameters.arrays {
            let Some(LaunchArgument::Array { bytes: Some(bytes), .. }) = self.launch_argument(array.param) else {
                continue;
            };
            if let [Dim::Name(dim)] = array.dims[..] {
                // A length with other unknown numbers would have no relation to the accesses of the kernel.
                let of_arguments = sources.integers.iter().filter_map(|(_, source)| match source {
                    IntegerSource::Host(integer, _) => Some(self.unknowns.of_integer(integer)),
                    _ => None,
                });
                let of_arguments: Vec<HostUnknown> = of_arguments.flatten().collect();
                let unknowns = self.unknowns.of_integer(bytes);
                if unknowns.iter().all(|unknown| of_arguments.contains(unknown)) {
                    self.add_unknowns(bytes, UnknownPurpose::Size, &array.name, &mut sources);
                    let (dim, bytes, element_bytes) = (dim as usize, bytes.clone(), array.element_bytes as i128);
                    sources.lengths.push(LaunchLength { dim, bytes, element_bytes });
                }
            }
        }
        sources
    }

    fn add_unknowns(&self, integer: &HostInteger, purpose: UnknownPurpose, of: &str, sources: &mut NumberSources) {
        let all = self.unknowns.of_integer(integer);
        // `(n + 255) / 256` blocks are a size.
        let is_itself = self.unknowns.as_unknown(integer).is_some();
        let purpose = if is_itself { purpose } else { purpose.min(UnknownPurpose::Size) };
        for unknown in all {
            let name = self.unknowns.name(unknown).cloned().unwrap_or_else(|| of.into());
            let unknown = UnknownNumber::Host(unknown);
            match sources.unknowns.iter_mut().find(|(known, ..)| *known == unknown) {
                Some((_, known, _)) => *known = purpose.max(*known),
                None => sources.unknowns.push((unknown, purpose, name)),
            }
        }
    }

    /// Returns the argument that the launch passes for a parameter.
    pub fn launch_argument(&self, param: usize) -> Option<&LaunchArgument> {
        match self.translated.parameters.get(param)?.role {
            ParameterRole::Argument(position) => self.launch?.arguments.get(position),
            _ => None,
        }
    }

    fn argument(&self, leaf: &ParameterLeaf) -> IntegerSource {
        if let Some(given) = self.given.get(&leaf.name) {
            return IntegerSource::Given(*given);
        }
        match self.launch_argument(leaf.param) {
            Some(LaunchArgument::Integer(integer)) if leaf.is_whole => IntegerSource::Host(integer.clone(), 1),
            _ => IntegerSource::Free,
        }
    }

    fn extent(
        &self,
        given: Option<[i64; 3]>,
        of: impl Fn(&CudaLaunch) -> &[Option<HostInteger>; 3],
        axis: usize,
    ) -> IntegerSource {
        if let Some(given) = given {
            return IntegerSource::Given(i128::from(given[axis]));
        }
        let known = self.launch.and_then(|launch| of(launch)[axis].clone());
        known.map_or(IntegerSource::Free, |integer| IntegerSource::Host(integer, 1))
    }

    /// Returns the positions of the integer parameters that occur in the assumptions of the kernel.
    fn assumed_positions(&self) -> Vec<u32> {
        let first = |local: LocalId| self.parameters.first_leaf(local.index());
        let mut found = vec![];
        for assume in &self.kernel.assumes {
            let AssumeKind::Condition(condition) = &assume.kind else { continue };
            visit::expr(condition, &mut |part| {
                if matches!(part.kind, ExprKind::Local(_) | ExprKind::Field { .. }) {
                    found.extend(leaf_position(self.program, &self.instance.arguments, part, &first));
                }
            });
        }
        found
    }

    /// Tries a size for the unknown numbers. Returns the numbers of the launch, and the values of host code.
    fn attempt(
        &self,
        sources: &NumberSources,
        NumberChoice { first, step, others: numbers, blocks }: NumberChoice,
        known: &HostNumbers,
        has_choice: bool,
    ) -> CommandResult<(ChosenSizes, HostNumbers)> {
        let mut host = known.clone();
        let mut free: BTreeMap<u32, i128> = BTreeMap::new();
        let mut chosen = vec![];
        let (mut sizes, mut others) = (0, 0);
        for (unknown, purpose, name) in &sources.unknowns {
            let value = match purpose {
                UnknownPurpose::Size => {
                    sizes += 1;
                    (first + step * (sizes - 1)).max(1)
                }
                UnknownPurpose::Other => {
                    others += 1;
                    numbers[(others - 1) % numbers.len()]
                }
                UnknownPurpose::Grid => GRID,
                UnknownPurpose::Block(axis) => blocks[sources.axes.clamp(1, 3) - 1][*axis],
            };
            match unknown {
                UnknownNumber::Host(unknown) => {
                    let given = self.given_host(*unknown);
                    let value = given.or(known.get(*unknown, name)).unwrap_or(value);
                    host.insert(*unknown, name, value);
                    chosen.push(ChosenNumber { name: name.clone(), value, is_given: given.is_some() });
                }
                UnknownNumber::Parameter(position) => drop(free.insert(*position, value)),
            }
        }
        let value_of = |unknown: HostUnknown| host.values.get(&unknown).copied();
        let number = |integer: &HostInteger| self.unknowns.number(integer, &value_of).ok_or("a size is too large");
        let mut sizes = ReplaySizes { dims: vec![0; self.kernel.sig.dims.len()], ..ReplaySizes::default() };
        for (position, source) in &sources.integers {
            let value = match source {
                IntegerSource::Given(value) => *value,
                IntegerSource::Host(integer, divisor) => number(integer)? / divisor,
                IntegerSource::Free => free.get(position).copied().unwrap_or(1),
            };
            sizes.scalars.insert(*position, value);
        }
        let mut lengths = vec![LengthOrigin::Unstated; sizes.dims.len()];
        let before = sizes.clone();
        let is_assumed = fit_sizes(self.program, self.kernel, self.instance, &mut sizes);
        for LaunchLength { dim, bytes, element_bytes } in &sources.lengths {
            let length = number(bytes)? / element_bytes;
            if let (Some(dim), Some(origin)) = (sizes.dims.get_mut(*dim), lengths.get_mut(*dim)) {
                (*dim, *origin) = (length.max(0), LengthOrigin::Launch);
            }
        }
        for (position, source) in &sources.integers {
            let (old, new) = (before.scalars.get(position), sizes.scalars.get(position));
            if old != new && !matches!(source, IntegerSource::Free) {
                return Err(self.broken_assumption(*position, old.copied().unwrap_or(0)));
            }
        }
        let threads: i128 = self.space(&sizes)?.iter().product();
        for (at, origin) in lengths.iter_mut().enumerate().filter(|(_, origin)| **origin == LengthOrigin::Unstated) {
            if is_assumed.get(at).copied().unwrap_or(false) {
                *origin = LengthOrigin::Assumed;
            } else if let Some(length) = sizes.dims.get_mut(at) {
                *length = threads.clamp(UNSTATED_LENGTH, 1 << 20);
            }
        }
        let (most_threads, most_elements) = if has_choice { CHOSEN_LIMITS } else { KNOWN_LIMITS };
        let elements: i128 = sizes.dims.iter().sum();
        if threads > most_threads || elements > most_elements {
            return Err(format!("the launch is too large: {threads} threads, and arrays of {elements} elements").into());
        }
        self.validated(sources, sizes, lengths, chosen, &value_of).map(|numbers| (numbers, host.clone()))
    }

    fn broken_assumption(&self, position: u32, value: i128) -> CommandError {
        let name = self.parameters.integers.iter().find(|leaf| leaf.position == position);
        let name = name.map_or_else(String::new, |leaf| leaf.name.to_string());
        format!("`{name}` is {value}, which the assumptions about the kernel exclude").into()
    }

    /// Returns the extents of the grid and the block.
    fn space(&self, sizes: &ReplaySizes) -> CommandResult<Vec<i128>> {
        let extents = self.parameters.integers.iter().filter(|leaf| {
            let role = self.translated.parameters.get(leaf.param).map(|param| &param.role);
            matches!(role, Some(ParameterRole::Grid(_) | ParameterRole::Block(_)))
        });
        let extents: Vec<i128> = extents.filter_map(|leaf| sizes.scalars.get(&leaf.position).copied()).collect();
        if extents.iter().any(|extent| *extent < 1) {
            return Err("the grid or the block is empty".into());
        }
        Ok(extents)
    }

    /// Tests the assumptions and the limits of a launch.
    fn validated(
        &self,
        sources: &NumberSources,
        sizes: ReplaySizes,
        lengths: Vec<LengthOrigin>,
        mut chosen: Vec<ChosenNumber>,
        value_of: &dyn Fn(HostUnknown) -> Option<i128>,
    ) -> CommandResult<ChosenSizes> {
        let known = LaunchSizes::Known { dims: &sizes.dims, scalars: &sizes.scalars };
        let launch = symbolic_launch(self.program, self.kernel, self.instance, self.module, &known);
        let launch = launch.map_err(|_| "the sizes break the assumptions about the kernel")?;
        let extent = |at: usize| launch.space.get(at).and_then(constant).unwrap_or(1);
        let (block, grid) = ([0, 1, 2].map(extent), [3, 4, 5].map(extent));
        if block.iter().product::<i128>() > 1024 {
            return Err(format!("a block has at most 1024 threads, not {}", block.iter().product::<i128>()).into());
        }
        if let Some(launch) = self.launch {
            let extents = launch.grid.iter().zip(grid).chain(launch.block.iter().zip(block));
            for (at, (stated, used)) in extents.enumerate() {
                let is_given = if at < 3 { self.grid.is_some() } else { self.block.is_some() };
                let stated = stated.as_ref().and_then(|stated| self.unknowns.number(stated, value_of));
                if !is_given && stated.is_some_and(|stated| stated != used) {
                    return Err("the launch has more dimensions than the kernel reads".into());
                }
            }
        }
        let mut has_chosen_geometry = false;
        for (position, source) in &sources.integers {
            let Some(leaf) = self.parameters.integers.iter().find(|leaf| leaf.position == *position) else { continue };
            let role = self.translated.parameters.get(leaf.param).map(|param| &param.role);
            let value = sizes.scalars.get(position).copied().unwrap_or(0);
            match (role, source) {
                (Some(ParameterRole::Grid(_) | ParameterRole::Block(_)), IntegerSource::Free) => {
                    has_chosen_geometry = true;
                }
                (Some(ParameterRole::Grid(_) | ParameterRole::Block(_)), _) | (_, IntegerSource::Host(..)) => {}
                (_, source) => {
                    let is_given = matches!(source, IntegerSource::Given(_));
                    if chosen.iter().all(|known| known.name != leaf.name) {
                        chosen.push(ChosenNumber { name: leaf.name.clone(), value, is_given });
                    }
                }
            }
        }
        Ok(ChosenSizes { sizes, grid, block, chosen, has_chosen_geometry, lengths })
    }
}
