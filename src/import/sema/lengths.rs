//! Assumptions about the lengths of a kernel's arrays and the size of its blocks, from the bounds of its accesses.
//!
//! `if (i < n) y[i] = x[i];` assumes that `x` and `y` have at least `n` elements. A bound with a constant term, such as
//! `n + 1`, is likely a mistake in the access, so it is not assumed if another access gives `n`. A length that follows
//! only from the size of the launch is assumed for accesses that all threads make.

use super::abduction::{Abduction, BoundedAccess};
use super::launch_sizes::{GridSize, KernelLaunches, LaunchDoubt, LimitTest, SymbolOf};
use super::path_conditions::{SizeCondition, negated};
use super::polynomial::{Monomial, SizePolynomial, SizeSymbol};
use super::size_comments::{self, SizeExpr, StatedSize};
use super::size_names::{self, KernelSizes, is_extent, shown};
use super::tree::{ClkFile, ClkFunction, Expr, ExprKind, Stmt, StmtKind, visit_exprs};
use crate::ast::CppComment;
use crate::source::SourceSpan;
use smol_str::SmolStr;

/// The maximum number of lengths that are assumed for one array.
const MAX_LENGTHS: usize = 6;

/// The maximum number of conditions under which a length is assumed.
const MAX_PREMISES: usize = 4;

const AXES: [&str; 3] = ["x", "y", "z"];

/// The conditions that a kernel assumes, and their descriptions.
#[derive(Debug, Default)]
pub(super) struct SizeAssumptions {
    /// Clauses of `assume`. Later clauses rely on earlier ones.
    conditions: Vec<String>,
    pub(super) notes: Vec<(SmolStr, SourceSpan)>,
    pub(super) derived: Vec<DerivedLength>,
    pub(super) doubt: Option<LaunchDoubt>,
    /// Assumptions without a clause.
    pub(super) unstated: Vec<(SmolStr, SourceSpan)>,
}

/// An array whose assumed length is derived, from the accesses of the kernel or from launches.
#[derive(Clone, Debug, Default)]
pub struct DerivedLength {
    /// The name of the array in the Clk text, and in the CUDA file.
    pub clk_array: SmolStr,
    pub array: SmolStr,
    /// The launch in the file that has the length; `None` if the accesses of the kernel suggest it.
    pub launch: Option<SourceSpan>,
    pub accesses: Vec<SuggestedLength>,
}

/// The length that an access of an array needs.
#[derive(Clone, Debug)]
pub struct SuggestedLength {
    /// The access in the CUDA file.
    pub access: SourceSpan,
    /// The length as a `clk:` comment states it.
    pub length: String,
    /// Whether an array may have such a length: it is a sum of products of parameters.
    pub is_plausible: bool,
}

impl SizeAssumptions {
    fn add(&mut self, condition: String, note: String, source: SourceSpan) {
        if !self.conditions.contains(&condition) {
            self.conditions.push(condition);
            self.notes.push((note.into(), source));
        }
    }
}

/// A lower bound of the length of an array.
#[derive(Clone)]
struct Length {
    least: SizePolynomial,
    is_guarded: bool,
    /// Whether an index is this length less 1, in terms of parameters.
    is_exact: bool,
    /// Whether a launch of the file may pass a shorter array.
    is_open: bool,
    /// The conditions on parameters under which the array needs this length.
    premises: Vec<SizeCondition>,
    source: SourceSpan,
}

impl Length {
    fn is_covered_by(&self, other: &Length) -> bool {
        other.premises.iter().all(|premise| self.premises.contains(premise))
    }

    /// Returns whether this length is the sum of another one and positive terms of a lower degree.
    fn exceeds(&self, other: &Length) -> bool {
        self.least.minus(&other.least).is_some_and(|difference| {
            difference.degree() < self.least.degree().max(1)
                && difference != SizePolynomial::default()
                && difference.terms().all(|(_, coefficient)| coefficient > 0)
        })
    }

    /// Returns whether this length has more rows than another one: `h * w + w` and `h * w`. Accesses of the interior of
    /// a grid may differ by rows.
    fn has_more_rows_than(&self, other: &Length) -> bool {
        !is_interior(&other.least)
            && self.least.minus(&other.least).is_some_and(|difference| {
                difference.degree() > 0
                    && difference.degree() < other.least.degree()
                    && difference.terms().all(|(_, coefficient)| coefficient > 0)
            })
    }

    /// Returns whether this length is a sum of products of parameters, without a constant term.
    fn is_plain(&self) -> bool {
        self.least.constant() == 0 && is_sum(&self.least)
    }

    /// Returns whether this length is a number more than another one.
    fn is_offset_of(&self, other: &Length) -> bool {
        let difference = self.least.minus(&other.least).and_then(|difference| difference.as_number());
        difference.is_some_and(|difference| difference > 0)
    }
}

/// What is known about the length of a parameter that is an array.
struct ArrayLength<'a> {
    /// The position of the parameter.
    at: usize,
    element: &'a str,
    extent: &'a str,
    /// The lengths that comments state. With one of them, nothing else is used.
    stated: Vec<(&'a SizeExpr, SourceSpan)>,
    /// The lengths that the accesses suggest.
    suggested: Vec<Length>,
    launched: Option<LaunchedLength>,
}

impl ArrayLength<'_> {
    fn is_for_numbers(&self) -> bool {
        self.launched.as_ref().is_some_and(|known| known.is_for_numbers)
    }
}

/// The length of an array in the launches of the file.
struct LaunchedLength {
    length: SizePolynomial,
    /// Whether the length is a number, which suffices only with the other numbers that the launches pass.
    is_for_numbers: bool,
}

/// Adds the assumptions of a kernel to the text, and returns them. The kernel's name in C++ is `cpp_kernel`, and that
/// in the text is `kernel`. `names` are the names in C++ of its parameters, and `comments` state sizes. The error is a
/// mistake in a comment.
pub(super) fn assume_sizes(
    file: &mut ClkFile,
    (cpp_kernel, kernel): (&str, &str),
    names: &[SmolStr],
    comments: &[&CppComment],
    launches: &KernelLaunches<'_>,
) -> Result<SizeAssumptions, (String, SourceSpan)> {
    let Some(at) = file.functions.iter().position(|function| function.name == kernel) else {
        return Ok(SizeAssumptions::default());
    };
    let own = KernelSizes { kernel: &file.functions[at], structs: &file.structs };
    let mut stated = vec![];
    for comment in comments {
        let source = SourceSpan::new(comment.span);
        let sizes = size_comments::parse(comment, own, names).map_err(|why| (why, source))?;
        stated.extend(sizes.into_iter().map(|size| (size, source)));
    }
    let mut sizes = size_assumptions(own, cpp_kernel, &file.functions, names, &stated, launches);
    if let Some(geometry) = &mut file.functions[at].geometry {
        geometry.assume.append(&mut sizes.conditions);
    }
    Ok(sizes)
}

/// Derives the assumptions of a kernel. `functions` contains the functions that it calls.
fn size_assumptions(
    own: KernelSizes<'_>,
    cpp_kernel: &str,
    functions: &[ClkFunction],
    names: &[SmolStr],
    stated: &[(StatedSize, SourceSpan)],
    launches: &KernelLaunches<'_>,
) -> SizeAssumptions {
    let kernel = own.kernel;
    let analysis = Abduction::of_kernel(own, functions);
    // The symbol of a parameter by its name in C++.
    let symbol_of = |name: &str| {
        let at = names.iter().position(|known| known == name)?;
        analysis.symbol_of(&kernel.params.get(at)?.name)
    };
    // What a comment assumes takes precedence over what launches say.
    let is_stated = |name: &str| {
        stated.iter().any(|(size, _)| match size {
            StatedSize::Condition(condition) => condition.names().any(|own| own == name),
            StatedSize::Length(..) => false,
        })
    };
    let cpp_name = |symbol: SizeSymbol| {
        let name = analysis.parameter_name(symbol)?;
        Some(if is_extent(name) { name.clone() } else { shown(kernel, names, name).into() })
    };
    let mut sizes = SizeAssumptions::default();
    if let Some(geometry) = &kernel.geometry {
        sizes.doubt = launches.dimensions_doubt(cpp_kernel, geometry.block.len());
    }
    for axis in &analysis.strided_axes {
        let axis = AXES[*axis];
        sizes.conditions.push(format!("grid_{axis} >= 1"));
        sizes.conditions.push(format!("grid_{axis} * block_{axis} <= {}", i32::MAX));
    }
    for axis in &analysis.divided_axes {
        let axis = AXES[*axis];
        let note = format!("a launch has at most {} threads along the axis {axis}", i32::MAX);
        sizes.add(format!("grid_{axis} * block_{axis} <= {}", i32::MAX), note, kernel.span);
    }
    if let Some(geometry) = &kernel.geometry {
        let reads = block_axes(&kernel.body, functions);
        let may_be_one = |at: usize| launches.has_one_block(at) != Some(false);
        let is_one = !reads.contains(&true) && (0..geometry.grid.len()).all(may_be_one);
        for (at, extent) in geometry.grid.iter().enumerate().filter(|(at, _)| !reads[*at]) {
            if is_stated(extent) || !may_be_one(at) {
                continue;
            }
            let axis = AXES[at];
            let note = match is_one {
                true => "the grid has one block: the kernel reads neither `blockIdx` nor `gridDim`".to_string(),
                false => {
                    format!("`gridDim.{axis}` is 1: the kernel reads neither `blockIdx.{axis}` nor `gridDim.{axis}`")
                }
            };
            sizes.add(format!("{extent} == 1"), note, kernel.span);
        }
    }
    for (size, source) in stated {
        match size {
            StatedSize::Length(_, length) => assume_nonnegative(own, names, length.names(), *source, "", &mut sizes),
            StatedSize::Condition(condition) => {
                let common = common_type(own, condition.names());
                let text = condition.clk_text(&|name| converted(name, own.scalar_of(name), common));
                sizes.add(text, format!("`{}`, as the comment states", condition.text), *source);
            }
        }
    }
    let arrays = array_lengths(own, &analysis, names, stated, launches, &symbol_of);
    launch_extents(kernel, &analysis, launches, &symbol_of, &is_stated, &arrays, &mut sizes);
    block_limits(kernel, &analysis, launches, &is_stated, &mut sizes);
    let mut lengths: Vec<(usize, &str, Length)> = vec![];
    let has_launched_length = arrays.iter().any(|array| array.launched.is_some());
    for ArrayLength { at, element, extent, stated, mut suggested, launched } in arrays {
        let param = &kernel.params[at];
        for (length, source) in &stated {
            let note = format!("`{}` has at least `{}` elements, as the comment states", names[at], length.text);
            sizes.add(stated_at_least(own, extent, length), note, *source);
        }
        if !stated.is_empty() {
            continue;
        }
        let is_launched = launched.is_some();
        if let Some(LaunchedLength { length, is_for_numbers }) = launched {
            if is_for_numbers {
                let is_open =
                    |symbol: &SizeSymbol| analysis.parameter_name(*symbol).is_some_and(|name| !is_stated(name));
                let symbols: Vec<SizeSymbol> = match suggested.is_empty() {
                    true => kernel.params.iter().filter_map(|param| analysis.symbol_of(&param.name)).collect(),
                    false => suggested.iter().flat_map(|length| length.least.symbols()).collect(),
                };
                for symbol in symbols.into_iter().filter(is_open) {
                    assume_launch_value(own, &analysis, names, launches, symbol, &mut sizes);
                }
            }
            let source = launches.source().unwrap_or_default();
            let shown = polynomial_text(&analysis, &length, &|name| shown(kernel, names, name));
            let needed = length.symbols().filter_map(|symbol| analysis.parameter_name(symbol));
            assume_nonnegative(own, names, needed, source, "", &mut sizes);
            let note = format!("`{}` has at least `{shown}` elements, from the launch", names[at]);
            sizes.add(at_least(own, &analysis, extent, &length), note, source);
            if is_for_numbers {
                continue;
            }
            suggested.clear();
        }
        let size = element_size(element);
        retain_possible(&mut suggested, |least| launches.test_length(&names[at], size, least, &cpp_name));
        if !suggested.is_empty() || is_launched {
            let (clk_array, array) = (param.name.clone(), names.get(at).unwrap_or(&param.name).clone());
            let launch = launches.source().filter(|_| is_launched);
            let accesses = analysis.accesses.iter().filter(|access| access.array == param.name);
            let accesses = suggested_lengths(own, &analysis, names, accesses, is_launched);
            sizes.derived.push(DerivedLength { clk_array, array, launch, accesses });
        }
        lengths.extend(suggested.into_iter().map(|length| (at, extent, length)));
    }
    if has_launched_length {
        launch_relations(own, &analysis, names, launches, &symbol_of, &is_stated, &mut sizes);
    }
    for stmt in &kernel.body {
        // The length of a dynamic shared array is a parameter of the launch.
        let StmtKind::Shared { name, ty } = &stmt.kind else { continue };
        let (Some(at), Some((element, _))) = (size_names::shared_length(kernel, name), array_type(ty)) else {
            continue;
        };
        let extent = &kernel.params[at].name;
        let size = element_size(element);
        let of_comments = stated.iter().find_map(|(size, source)| match size {
            StatedSize::Length(of, length) if *of == at => {
                let condition = stated_at_least(own, extent, length);
                Some((condition, length.text.to_string(), "as the comment states", *source))
            }
            _ => None,
        });
        let of_launches = || {
            let least = launches.shared_length(size?, &symbol_of)?;
            let shown = polynomial_text(&analysis, &least, &|name| shown(kernel, names, name));
            let condition = at_least(own, &analysis, extent, &least);
            Some((condition, shown, "from the launch", launches.source()?))
        };
        if let Some((condition, shown, origin, source)) = of_comments.or_else(of_launches) {
            sizes.add(condition, format!("`{name}` has at least `{shown}` elements, {origin}"), source);
            continue;
        }
        let accesses = analysis.accesses.iter().filter(|access| access.array == *name);
        let mut known = choose_lengths(&analysis, accesses.clone(), false);
        retain_possible(&mut known, |least| launches.test_shared_length(size, least, &cpp_name));
        let accesses = suggested_lengths(own, &analysis, names, accesses, false);
        sizes.derived.push(DerivedLength { clk_array: name.clone(), array: name.clone(), launch: None, accesses });
        lengths.extend(known.into_iter().map(|length| (at, extent.as_str(), length)));
    }
    // Unconditional lengths come first, because later assumptions may rely on them.
    lengths.sort_by_key(|(.., length)| !length.premises.is_empty());
    for (_, _, length) in &lengths {
        let needed = length.least.symbols().filter_map(|symbol| analysis.parameter_name(symbol));
        let unless = unless_text(own, &analysis, &length.premises);
        assume_nonnegative(own, names, needed, length.source, &unless, &mut sizes);
    }
    for (at, extent, Length { least, premises, source, is_open, .. }) in lengths {
        let condition = unless_text(own, &analysis, &premises) + &at_least(own, &analysis, extent, &least);
        let text = polynomial_text(&analysis, &least, &|name| shown(kernel, names, name));
        let array = names.get(at).unwrap_or(&kernel.params[at].name);
        let note = match array_type(&kernel.params[at].ty) {
            Some(_) if text == "1" => format!("`{array}` has at least one element"),
            Some(_) => format!("`{array}` has at least `{text}` elements"),
            None => format!("`{extent}` is at least `{text}`"),
        };
        let premises: Vec<String> =
            premises.iter().map(|premise| premise_text(own, &analysis, names, premise)).collect();
        let only_if = if premises.is_empty() { String::new() } else { format!(" if `{}`", premises.join(" && ")) };
        let doubt = if is_open { "; a launch of the file may pass fewer" } else { "" };
        sizes.add(condition, note + &only_if + doubt, source);
    }
    // The number of threads of a block does not depend on variables.
    let is_computed = |note: &str| note.ends_with("from the launch") && !note.starts_with("`blockDim");
    if let Some(source) = launches.converted_to_unsigned()
        && sizes.notes.iter().any(|(note, _)| is_computed(note))
    {
        sizes.unstated.push(("host code converts no negative number to an unsigned type".into(), source));
    }
    sizes
}

/// Returns what comments, accesses and launches tell about the lengths of a kernel's arrays. Omits arrays of a fixed
/// length.
fn array_lengths<'a>(
    own: KernelSizes<'a>,
    analysis: &Abduction<'_>,
    names: &[SmolStr],
    stated: &'a [(StatedSize, SourceSpan)],
    launches: &KernelLaunches<'_>,
    symbol_of: &SymbolOf<'_>,
) -> Vec<ArrayLength<'a>> {
    let mut arrays = vec![];
    for (at, param) in own.kernel.params.iter().enumerate() {
        let Some((element, extents)) = array_type(&param.ty) else { continue };
        let [extent] = extents[..] else { continue };
        if extent.parse::<u64>().is_ok() {
            continue;
        }
        let of_comments = |(size, source): &'a (StatedSize, SourceSpan)| match size {
            StatedSize::Length(of, length) if *of == at => Some((length, *source)),
            _ => None,
        };
        let mut array = ArrayLength { at, element, extent, suggested: vec![], launched: None, stated: vec![] };
        array.stated = stated.iter().filter_map(of_comments).collect();
        if array.stated.is_empty() {
            let accesses = analysis.accesses.iter().filter(|access| access.array == param.name);
            let is_offsets = !param.inout && matches!(element, "i32" | "u32" | "i64" | "u64");
            array.suggested = choose_lengths(analysis, accesses, is_offsets);
            let place = (at, element);
            array.launched = launched_length(own, analysis, names, launches, place, symbol_of, &array.suggested);
        }
        arrays.push(array);
    }
    // If one array has a number from the launch, the proof is about this launch, so the others have theirs as well.
    if arrays.iter().any(ArrayLength::is_for_numbers) && has_only_numbers(own, names, launches, symbol_of) {
        for array in arrays.iter_mut().filter(|array| array.stated.is_empty()) {
            let size = element_size(array.element);
            let length = size.and_then(|size| launches.length(&names[array.at], size, symbol_of));
            if let Some(length) = length.filter(|length| length.as_number().is_some()) {
                array.launched = Some(LaunchedLength { length, is_for_numbers: true });
            }
        }
    }
    arrays
}

/// Removes the lengths that a launch of the file does not pass.
fn retain_possible(lengths: &mut Vec<Length>, test: impl Fn((&SizePolynomial, bool)) -> LimitTest) {
    lengths.retain_mut(|length| {
        let result = test((&length.least, !length.is_guarded));
        length.is_open = matches!(result, LimitTest::Open(_));
        result != LimitTest::Broken
    });
}

/// Returns the lengths that accesses need. At a place with several accesses, such as that of a function with several
/// calls, the largest ones remain.
fn suggested_lengths<'a>(
    own: KernelSizes<'_>,
    analysis: &Abduction<'_>,
    names: &[SmolStr],
    accesses: impl Iterator<Item = &'a BoundedAccess>,
    is_launched: bool,
) -> Vec<SuggestedLength> {
    let mut all: Vec<(SourceSpan, SizePolynomial)> = vec![];
    for access in accesses {
        let Some(least) = access.most.plus(&SizePolynomial::number(1)) else { continue };
        let exceeds = |one: &SizePolynomial, other: &SizePolynomial| {
            one.minus(other).is_some_and(|rest| rest.terms().all(|(_, coefficient)| coefficient >= 0))
        };
        if all.iter().any(|(place, known)| *place == access.span && exceeds(known, &least)) {
            continue;
        }
        all.retain(|(place, known)| *place != access.span || !exceeds(&least, known));
        all.push((access.span, least));
    }
    let suggested = |(access, least): (SourceSpan, SizePolynomial)| SuggestedLength {
        access,
        length: polynomial_text(analysis, &least, &|name| shown(own.kernel, names, name)),
        is_plausible: is_launched || is_sum(&least),
    };
    all.into_iter().map(suggested).collect()
}

/// Assumes that parameters are not negative. `unless` is the text of the alternatives.
fn assume_nonnegative<'a>(
    own: KernelSizes<'_>,
    names: &[SmolStr],
    needed: impl Iterator<Item = &'a SmolStr>,
    source: SourceSpan,
    unless: &str,
    sizes: &mut SizeAssumptions,
) {
    for name in needed {
        let condition = format!("{name} >= 0");
        if matches!(own.scalar_of(name), "i32" | "i64") && !is_extent(name) && !sizes.conditions.contains(&condition) {
            let note = format!("`{}` is not negative", shown(own.kernel, names, name));
            let only_if = if unless.is_empty() { "" } else { " where its value matters" };
            sizes.add(format!("{unless}{condition}"), note + only_if, source);
        }
    }
}

/// Returns the clause that an array with this extent has at least some number of elements.
fn at_least(own: KernelSizes<'_>, analysis: &Abduction<'_>, extent: &str, least: &SizePolynomial) -> String {
    let common = common_type(own, least.symbols().filter_map(|symbol| analysis.parameter_name(symbol)));
    let text = polynomial_text(analysis, least, &|name| converted(name, own.scalar_of(name), common));
    format!("{} >= {text}", converted(extent, "i32", common))
}

/// Returns the clause that an array with this extent has at least the number of elements that a comment states.
fn stated_at_least(own: KernelSizes<'_>, extent: &str, length: &SizeExpr) -> String {
    let common = common_type(own, length.names());
    let text = length.clk_text(&|name| converted(name, own.scalar_of(name), common));
    format!("{} >= {text}", converted(extent, "i32", common))
}

/// Returns the negations of conditions, each followed by `||`.
fn unless_text(own: KernelSizes<'_>, analysis: &Abduction<'_>, premises: &[SizeCondition]) -> String {
    let negations = premises.iter().map(|SizeCondition { left, op, right }| {
        let symbols = left.symbols().chain(right.symbols());
        let common = common_type(own, symbols.filter_map(|symbol| analysis.parameter_name(symbol)));
        let side = |side| polynomial_text(analysis, side, &|name| converted(name, own.scalar_of(name), common));
        format!("{} {} {} || ", side(left), negated(op).unwrap_or(op), side(right))
    });
    negations.collect()
}

/// Returns a condition on parameters with the names of the CUDA file.
fn premise_text(own: KernelSizes<'_>, analysis: &Abduction<'_>, names: &[SmolStr], premise: &SizeCondition) -> String {
    let side = |side| polynomial_text(analysis, side, &|name| shown(own.kernel, names, name));
    format!("{} {} {}", side(&premise.left), premise.op, side(&premise.right))
}

/// Returns whether a length is a sum of products of parameters, with a number that may be negative.
fn is_sum(least: &SizePolynomial) -> bool {
    least.terms().all(|(monomial, by)| by > 0 || monomial.is_empty())
}

/// Returns whether a length is that of the interior of a grid, such as `w * h - w - 1`: a product, less products of
/// fewer parameters.
fn is_interior(least: &SizePolynomial) -> bool {
    let mut positive = least.terms().filter(|(_, by)| *by > 0);
    let largest = positive.next().map_or(0, |(monomial, _)| monomial.len());
    let is_smaller = |(monomial, by): (&Monomial, i128)| by > 0 || monomial.len() < largest;
    largest > 1 && positive.next().is_none() && !is_sum(least) && least.terms().all(is_smaller)
}

/// Returns the type in which parameters are compared with the length of an array, which is an `i32`.
fn common_type<'a>(own: KernelSizes<'_>, names: impl Iterator<Item = &'a SmolStr>) -> &'static str {
    let scalars: Vec<&str> = names.map(|name| own.scalar_of(name)).collect();
    match () {
        () if scalars.iter().all(|scalar| *scalar == "i32") => "i32",
        () if scalars.contains(&"u64") => "u64",
        () => "i64",
    }
}

fn converted(name: &str, own: &str, to: &str) -> String {
    if own == to { name.to_string() } else { format!("{to}({name})") }
}

/// Chooses the lengths that are assumed for an array.
fn choose_lengths<'a>(
    analysis: &Abduction<'_>,
    accesses: impl Iterator<Item = &'a BoundedAccess>,
    is_offsets: bool,
) -> Vec<Length> {
    let (numbers, mut lengths): (Vec<_>, Vec<_>) =
        needed_lengths(accesses).into_iter().partition(|length| length.least.as_number().is_some());
    // A length from a guard is preferred to one from the size of the launch.
    if lengths.iter().any(|length| length.is_guarded) {
        lengths.retain(|length| length.is_guarded);
    }
    lengths.retain(|length| is_sum(&length.least) || is_interior(&length.least));
    lengths.extend(numbers);
    lengths.retain(|length| length.least.terms().all(|(_, by)| by.abs() <= i128::from(i32::MAX)));
    // An array of offsets, such as that of a sparse matrix, has one element more than the matrix has rows.
    let has_offset =
        |length: &Length| length.least.as_number().is_none() && length.least.constant() > 0 && !length.is_exact;
    if is_offsets && lengths.iter().any(has_offset) {
        return vec![];
    }
    // An access with one more row than another access is likely a mistake, as is one with one more element.
    retain_compared(&mut lengths, |length, all| !all.iter().any(|other| length.has_more_rows_than(other)));
    let is_part = |length: &Length| length.least.constant() < 0 || is_interior(&length.least);
    let has_plain = lengths.iter().any(Length::is_plain);
    retain_compared(&mut lengths, |length, all| {
        // `x[k]` needs `k + 1` elements. But `x[n]` is likely a mistake if `n` elements suffice for other accesses.
        let is_needed = || length.is_exact && !all.iter().any(|other| other.is_plain() && length.is_offset_of(other));
        let is_number = length.least.as_number().is_some();
        is_number || is_needed() || if has_plain { length.is_plain() } else { is_part(length) }
    });
    retain_compared(&mut lengths, |length, all| {
        !all.iter().any(|other| other.exceeds(length) && length.is_covered_by(other))
    });
    // Lengths without parameters of the launch are those that the author had in mind.
    let is_own = |length: &Length| {
        let mut names = length.least.symbols().filter_map(|symbol| analysis.parameter_name(symbol));
        names.all(|name| !is_extent(name))
    };
    if lengths.iter().any(|length| length.least.as_number().is_none() && is_own(length)) {
        lengths.retain(is_own);
    }
    lengths.truncate(MAX_LENGTHS);
    lengths
}

/// Returns the lengths that accesses of an array need, except those that need too many premises.
fn needed_lengths<'a>(accesses: impl Iterator<Item = &'a BoundedAccess>) -> Vec<Length> {
    let mut lengths: Vec<Length> = vec![];
    for access in accesses {
        let (Some(premises), false) = (&access.premises, access.is_launch_excess) else { continue };
        let Some(least) = access.most.plus(&SizePolynomial::number(1)) else { continue };
        let mut needed: Vec<SizeCondition> = vec![];
        for premise in premises {
            if !premise.follows_from_positive(&least) && !needed.contains(premise) {
                needed.push(premise.clone());
            }
        }
        if needed.len() > MAX_PREMISES {
            continue;
        }
        let is_guarded = access.is_guarded || least.as_number().is_some();
        let is_exact = access.is_exact;
        let length = Length { least, is_guarded, is_exact, is_open: false, premises: needed, source: access.source };
        if !lengths.iter().any(|known| known.least == length.least && length.is_covered_by(known)) {
            lengths.retain(|known| !(known.least == length.least && known.is_covered_by(&length)));
            lengths.push(length);
        }
    }
    lengths
}

/// Keeps the lengths that pass a test, which may compare them with all lengths.
fn retain_compared(lengths: &mut Vec<Length>, test: impl Fn(&Length, &[Length]) -> bool) {
    *lengths = lengths.iter().filter(|length| test(length, lengths)).cloned().collect();
}

/// Assumes the extents of the block if all launches of the file agree on them. Assumes those of the grid as well if a
/// length of one of the arrays depends on them.
fn launch_extents(
    kernel: &ClkFunction,
    analysis: &Abduction<'_>,
    launches: &KernelLaunches<'_>,
    symbol_of: &SymbolOf<'_>,
    is_stated: &dyn Fn(&str) -> bool,
    arrays: &[ArrayLength<'_>],
    sizes: &mut SizeAssumptions,
) {
    let (Some(geometry), Some(source)) = (&kernel.geometry, launches.source()) else { return };
    let name_of = |symbol| {
        analysis
            .parameter_name(symbol)
            .filter(|name| kernel.params.iter().any(|param| param.name == **name && param.ty == "i32"))
    };
    let is_global = |array: &SmolStr| kernel.params.iter().any(|param| param.name == *array);
    let needs_grid = analysis.accesses.iter().any(|access| access.from_launch && is_global(&access.array))
        || arrays.iter().any(|array| array.is_for_numbers() && array.suggested.is_empty());
    for (axis, name) in AXES.iter().enumerate() {
        if let (Some(extent), Some(own)) = (launches.block(axis), geometry.block.get(axis))
            && !is_stated(own)
        {
            sizes.add(format!("{own} == {extent}"), format!("`blockDim.{name}` is {extent}, from the launch"), source);
        }
        let (Some(own), true) = (geometry.grid.get(axis), needs_grid) else { continue };
        if is_stated(own) {
            continue;
        }
        let extent = match launches.grid(axis, symbol_of) {
            Some(GridSize::Number(number)) => number.to_string(),
            Some(GridSize::CeilQuotient(symbol, by)) => match name_of(symbol) {
                Some(name) => format!("ceil_div({name}, {by})"),
                None => continue,
            },
            Some(GridSize::Quotient(symbol, by)) => match name_of(symbol) {
                Some(name) => format!("{name} / {by}"),
                None => continue,
            },
            None => continue,
        };
        sizes.add(format!("{own} == {extent}"), format!("`gridDim.{name}` is `{extent}`, from the launch"), source);
    }
}

/// Returns the length of an array in the launches of the file. A number is returned only if the accesses suggest no
/// length, one that the launches do not pass, or only lengths that the launches determine as well.
fn launched_length(
    own: KernelSizes<'_>,
    analysis: &Abduction<'_>,
    names: &[SmolStr],
    launches: &KernelLaunches<'_>,
    (at, element): (usize, &str),
    symbol_of: &SymbolOf<'_>,
    suggested: &[Length],
) -> Option<LaunchedLength> {
    let length = launches.length(&names[at], element_size(element)?, symbol_of)?;
    let Some(count) = length.as_number() else { return Some(LaunchedLength { length, is_for_numbers: false }) };
    if !is_used(own.kernel, &own.kernel.params[at].name) {
        return None;
    }
    // A number says little about other launches, unless the length that the accesses suggest exceeds it in this one.
    let exceeds = |needed: &Length| {
        let mut least = needed.least.clone();
        loop {
            let Some(symbol) = least.symbols().next() else { break };
            let number = launched_number(own, names, launches, symbol_of, analysis.parameter_name(symbol)?)?;
            least = least.substitute(symbol, &SizePolynomial::number(number))?;
        }
        Some(least.constant() > count)
    };
    let is_number = |needed: &Length| needed.least.as_number().is_some();
    let is_of_launch = |needed: &Length| {
        let mut names = needed.least.symbols().filter_map(|symbol| analysis.parameter_name(symbol));
        names.all(|name| is_extent(name)) && exceeds(needed).is_some()
    };
    // The launch knows more than accesses that suggest numbers.
    let are_numbers = suggested.iter().all(is_number);
    let is_for_numbers = match suggested {
        [] => has_only_numbers(own, names, launches, symbol_of),
        _ => {
            suggested.iter().any(|needed| needed.premises.is_empty() && exceeds(needed) == Some(true))
                || !are_numbers && suggested.iter().all(is_of_launch)
        }
    };
    let is_enough = are_numbers && !suggested.is_empty();
    (is_enough || is_for_numbers).then_some(LaunchedLength { length, is_for_numbers })
}

/// Returns the number that all launches of the file pass for a parameter, or have as an extent.
fn launched_number(
    own: KernelSizes<'_>,
    names: &[SmolStr],
    launches: &KernelLaunches<'_>,
    symbol_of: &SymbolOf<'_>,
    name: &str,
) -> Option<i128> {
    let axis = AXES.iter().position(|axis| name.ends_with(&format!("_{axis}")));
    match (axis.filter(|_| is_extent(name)), name.starts_with("block_")) {
        (Some(axis), true) => launches.block(axis),
        (Some(axis), false) => match launches.grid(axis, symbol_of)? {
            GridSize::Number(number) => Some(number),
            GridSize::CeilQuotient(..) | GridSize::Quotient(..) => None,
        },
        (None, _) => launches.number_of(&shown(own.kernel, names, name)),
    }
}

/// Returns whether all integers of all launches of the file are known: the arguments and the extents.
fn has_only_numbers(
    own: KernelSizes<'_>,
    names: &[SmolStr],
    launches: &KernelLaunches<'_>,
    symbol_of: &SymbolOf<'_>,
) -> bool {
    let is_shared_length = |at: usize| {
        own.kernel.body.iter().any(|stmt| {
            matches!(&stmt.kind, StmtKind::Shared { name, .. } if size_names::shared_length(own.kernel, name) == Some(at))
        })
    };
    let integers = own
        .kernel
        .params
        .iter()
        .enumerate()
        .filter(|(at, param)| matches!(&*param.ty, "i32" | "u32" | "i64" | "u64") && !is_shared_length(*at));
    let mut names_of = integers.map(|(_, param)| &param.name);
    names_of.all(|name| launched_number(own, names, launches, symbol_of, name).is_some())
}

/// Returns whether the body of a kernel contains the name of an array.
fn is_used(kernel: &ClkFunction, array: &str) -> bool {
    let mut is_used = false;
    visit_exprs(&kernel.body, &mut |expr| is_used |= matches!(&expr.kind, ExprKind::Name(name) if name == array));
    is_used
}

/// Assumes the parameters that all launches of the file compute from others: `total == rows * columns`.
fn launch_relations(
    own: KernelSizes<'_>,
    analysis: &Abduction<'_>,
    names: &[SmolStr],
    launches: &KernelLaunches<'_>,
    symbol_of: &SymbolOf<'_>,
    is_stated: &dyn Fn(&str) -> bool,
    sizes: &mut SizeAssumptions,
) {
    for (param, name) in own.kernel.params.iter().zip(names).filter(|(param, _)| !is_stated(&param.name)) {
        let Some(symbol) = analysis.symbol_of(&param.name) else { continue };
        let value = launches.value(name, symbol_of);
        let value = value.filter(|value| value.as_number().is_none() && value.as_symbol() != Some(symbol));
        let (Some(value), Some(source)) = (value, launches.source()) else { continue };
        let parameters = value.symbols().filter_map(|symbol| analysis.parameter_name(symbol));
        let common = common_type(own, parameters.chain([&param.name]));
        let text = polynomial_text(analysis, &value, &|name| converted(name, own.scalar_of(name), common));
        let note = polynomial_text(analysis, &value, &|name| shown(own.kernel, names, name));
        let condition = format!("{} == {text}", converted(&param.name, &param.ty, common));
        sizes.add(condition, format!("`{name}` is `{note}`, from the launch"), source);
    }
}

/// Assumes that a parameter has the number that all launches of the file pass.
fn assume_launch_value(
    own: KernelSizes<'_>,
    analysis: &Abduction<'_>,
    names: &[SmolStr],
    launches: &KernelLaunches<'_>,
    symbol: SizeSymbol,
    sizes: &mut SizeAssumptions,
) {
    let Some(name) = analysis.parameter_name(symbol) else { return };
    let shown = shown(own.kernel, names, name);
    if let (Some(number), Some(source)) = (launches.number_of(&shown), launches.source()) {
        sizes.add(format!("{name} == {number}"), format!("`{shown}` is {number}, from the launch"), source);
    }
}

/// Returns the number of bytes of an element of the shared array whose length is a parameter.
pub(super) fn shared_element_size(body: &[Stmt], extent: &str) -> Option<i128> {
    body.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Shared { ty, .. } => {
            let (element, own) = array_type(ty)?;
            if own == [extent] { element_size(element) } else { None }
        }
        _ => None,
    })
}

/// Returns the number of bytes of an element of an array, if its type is a scalar or a vector of CUDA.
fn element_size(element: &str) -> Option<i128> {
    let (scalar, count) = element.split_once('x').unwrap_or((element, "1"));
    let size = match scalar {
        "i8" | "u8" => 1,
        "i16" | "u16" | "f16" | "bf16" => 2,
        "i32" | "u32" | "f32" => 4,
        "i64" | "u64" | "f64" => 8,
        _ => return None,
    };
    // A struct may have such a name.
    let count: i128 = count.parse().ok().filter(|count| (1..=4).contains(count))?;
    Some(size * count)
}

/// Returns for each axis whether statements, or the functions that they call, read the position of the block or the
/// extent of the grid along it.
fn block_axes(stmts: &[Stmt], functions: &[ClkFunction]) -> [bool; 3] {
    let mut reads = [false; 3];
    let mut called: Vec<SmolStr> = vec![];
    // A field of a position is visited before the position itself.
    let mut fields: Vec<*const Expr> = vec![];
    let is_position = |name: &SmolStr| matches!(name.as_str(), "block_idx" | "global_idx" | "grid_dim");
    visit_exprs(stmts, &mut |expr| match &expr.kind {
        ExprKind::Field(base, field) if matches!(&base.kind, ExprKind::Name(name) if is_position(name)) => {
            fields.push(std::ptr::from_ref(&**base));
            match AXES.iter().position(|axis| axis == field) {
                Some(axis) => reads[axis] = true,
                None => reads = [true; 3],
            }
        }
        ExprKind::Name(name) if is_position(name) && !fields.contains(&std::ptr::from_ref(expr)) => reads = [true; 3],
        ExprKind::Call(name, _) => {
            if name == "grid_barrier" {
                reads = [true; 3];
            }
            called.push(name.clone());
        }
        _ => {}
    });
    for function in called.iter().filter_map(|name| functions.iter().find(|function| function.name == *name)) {
        for (read, inner) in reads.iter_mut().zip(block_axes(&function.body, functions)) {
            *read |= inner;
        }
    }
    reads
}

/// Adds limits of the block that keep the thread index within shared arrays.
fn block_limits(
    kernel: &ClkFunction,
    analysis: &Abduction<'_>,
    launches: &KernelLaunches<'_>,
    is_stated: &dyn Fn(&str) -> bool,
    sizes: &mut SizeAssumptions,
) {
    let mut limits: Vec<(usize, i128, SourceSpan)> = vec![];
    for access in &analysis.accesses {
        let Some(extent) = shared_extent(&kernel.body, &access.array, access.axis) else { continue };
        // `for (j = 0; j < 32; j += 8) s[threadIdx.y + j]` is for a block of 8 threads.
        if let Some((axis, steps)) = access.thread_steps
            && steps.first >= 0
            && steps.step > 1
            && steps.last + steps.step <= extent
        {
            limits.push((axis, steps.step, access.source));
        }
        let (Some((axis, offset)), false) = (access.thread_offset, access.is_guarded) else { continue };
        // An array with an element for each thread has a multiple of a warp's size; other arrays may have a halo.
        if offset != 0 && extent % 32 == 0 {
            continue;
        }
        limits.push((axis, extent - offset.max(0), access.source));
    }
    // The launches tell whether the block exceeds the array.
    limits.retain(|(axis, ..)| launches.block(*axis).is_none() && !is_stated(&format!("block_{}", AXES[*axis])));
    limits.sort_by_key(|(axis, limit, _)| (*axis, *limit));
    limits.dedup_by_key(|(axis, ..)| *axis);
    for (axis, limit, source) in limits {
        let name = AXES[axis];
        let is_factor = analysis.block_factors.contains(&(axis, limit));
        match launches.block_test(axis, &|extent| extent == limit || (!is_factor && extent < limit)) {
            LimitTest::Kept => {}
            LimitTest::Broken => continue,
            LimitTest::Open(place) => {
                let why = format!("this launch may have another `blockDim.{name}` than the kernel seems to need");
                sizes.doubt.get_or_insert(LaunchDoubt { why, place });
            }
        }
        if is_factor {
            let note = format!("`blockDim.{name}` is {limit}, as in `blockIdx.{name} * {limit} + threadIdx.{name}`");
            sizes.add(format!("block_{name} == {limit}"), note, source);
        } else if limit < 1024 {
            let note = format!("`blockDim.{name}` is at most {limit}, as its accesses of a shared array require");
            sizes.add(format!("block_{name} <= {limit}"), note, source);
        }
    }
}

/// Returns the extent of a shared array of the kernel along an axis.
fn shared_extent(body: &[Stmt], array: &str, axis: usize) -> Option<i128> {
    body.iter().find_map(|stmt| match &stmt.kind {
        StmtKind::Shared { name, ty } if name == array => array_type(ty)?.1.get(axis)?.parse().ok(),
        _ => None,
    })
}

/// Returns the element type and the extents of an array type, such as `[f32; N]`.
fn array_type(ty: &str) -> Option<(&str, Vec<&str>)> {
    let (element, extents) = ty.strip_prefix('[')?.strip_suffix(']')?.split_once("; ")?;
    Some((element, extents.split(", ").collect()))
}

/// Returns the text of a polynomial, products before single parameters before numbers.
fn polynomial_text(analysis: &Abduction<'_>, polynomial: &SizePolynomial, name: &dyn Fn(&str) -> String) -> String {
    let mut terms: Vec<_> = polynomial.terms().collect();
    terms.sort_by_key(|(monomial, _)| std::cmp::Reverse(monomial.len()));
    let mut text = if terms.is_empty() { "0".to_string() } else { String::new() };
    for (monomial, coefficient) in terms {
        let mut factors: Vec<String> = vec![];
        if coefficient.abs() != 1 || monomial.is_empty() {
            factors.push(coefficient.abs().to_string());
        }
        let names = monomial.iter().filter_map(|symbol| analysis.parameter_name(*symbol));
        factors.extend(names.map(|symbol| name(symbol)));
        let sign = match (text.is_empty(), coefficient < 0) {
            (true, true) => "-",
            (true, false) => "",
            (false, true) => " - ",
            (false, false) => " + ",
        };
        text += sign;
        text += &factors.join(" * ");
    }
    text
}
