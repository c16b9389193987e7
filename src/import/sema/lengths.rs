//! Assumptions about the lengths of a kernel's arrays and the size of its blocks, from the bounds of its accesses.
//!
//! `if (i < n) y[i] = x[i];` assumes that `x` and `y` have at least `n` elements. A bound with a constant term, such as
//! `n + 1`, is likely a mistake in the access, so it is not assumed if another access gives `n`.

use super::abduction::{Abduction, BoundedAccess};
use super::polynomial::SizePolynomial;
use super::size_comments::{self, StatedSize};
use super::size_names::{is_extent, scalar_of, shown};
use super::tree::{ClkFile, ClkFunction, Stmt, StmtKind};
use crate::ast::CppComment;
use crate::source::SourceSpan;
use smol_str::SmolStr;

/// The maximum number of lengths that are assumed for one array.
const MAX_LENGTHS: usize = 3;

const AXES: [&str; 3] = ["x", "y", "z"];

/// The conditions that a kernel assumes, and their descriptions.
#[derive(Debug, Default)]
struct SizeAssumptions {
    /// Clauses of `assume`. Later clauses rely on earlier ones.
    conditions: Vec<String>,
    notes: Vec<(SmolStr, SourceSpan)>,
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
struct Length {
    least: SizePolynomial,
    is_guarded: bool,
    source: SourceSpan,
}

/// Adds the assumptions of a kernel to the text; returns their descriptions. `names` are the names in C++ of its
/// parameters, and `comments` those that state sizes. The error is a mistake in a comment.
pub(super) fn assume_sizes(
    file: &mut ClkFile,
    kernel: &str,
    names: &[SmolStr],
    comments: &[&CppComment],
) -> Result<Vec<(SmolStr, SourceSpan)>, (String, SourceSpan)> {
    let Some(at) = file.functions.iter().position(|function| function.name == kernel) else { return Ok(vec![]) };
    let own = &file.functions[at];
    let mut stated = vec![];
    for comment in comments {
        let source = SourceSpan::new(comment.span);
        let sizes = size_comments::parse(comment, own, names).map_err(|why| (why, source))?;
        stated.extend(sizes.into_iter().map(|size| (size, source)));
    }
    let sizes = size_assumptions(own, &file.functions, names, &stated);
    if let Some(geometry) = &mut file.functions[at].geometry {
        geometry.assume.extend(sizes.conditions);
    }
    Ok(sizes.notes)
}

/// Derives the assumptions of a kernel. `functions` contains the functions that it calls.
fn size_assumptions(
    kernel: &ClkFunction,
    functions: &[ClkFunction],
    names: &[SmolStr],
    stated: &[(StatedSize, SourceSpan)],
) -> SizeAssumptions {
    let analysis = Abduction::of_kernel(kernel, functions);
    let mut sizes = SizeAssumptions::default();
    for axis in &analysis.strided_axes {
        let axis = AXES[*axis];
        sizes.conditions.push(format!("grid_{axis} >= 1"));
        sizes.conditions.push(format!("grid_{axis} * block_{axis} <= {}", i32::MAX));
    }
    for (size, source) in stated {
        match size {
            StatedSize::Length(_, length) => assume_nonnegative(kernel, names, length.names(), *source, &mut sizes),
            StatedSize::Condition(condition) => {
                let common = common_type(kernel, condition.names());
                let text = condition.clk_text(&|name| converted(name, scalar_of(kernel, name), common));
                sizes.add(text, format!("`{}`, as the comment states", condition.text), *source);
            }
        }
    }
    block_limits(kernel, &analysis, &mut sizes);
    let mut lengths: Vec<(usize, &str, Length)> = vec![];
    for (at, param) in kernel.params.iter().enumerate() {
        let Some((element, extents)) = array_type(&param.ty) else { continue };
        let [extent] = extents[..] else { continue };
        if extent.parse::<u64>().is_ok() {
            continue;
        }
        let own = stated.iter().filter_map(|(size, source)| match size {
            StatedSize::Length(of, length) if *of == at => Some((length, *source)),
            _ => None,
        });
        let mut is_stated = false;
        for (length, source) in own {
            is_stated = true;
            let common = common_type(kernel, length.names());
            let text = length.clk_text(&|name| converted(name, scalar_of(kernel, name), common));
            let note = format!("`{}` has at least `{}` elements, as the comment states", names[at], length.text);
            sizes.add(format!("{} >= {text}", converted(extent, "i32", common)), note, source);
        }
        if is_stated {
            continue;
        }
        let accesses = analysis.accesses.iter().filter(|access| access.array == param.name);
        let is_offsets = !param.inout && matches!(element, "i32" | "u32" | "i64" | "u64");
        lengths.extend(choose_lengths(&analysis, accesses, is_offsets).into_iter().map(|length| (at, extent, length)));
    }
    for stmt in &kernel.body {
        // The length of a dynamic shared array is a parameter of the launch.
        if let StmtKind::Shared { name, ty } = &stmt.kind
            && let Some((_, extents)) = array_type(ty)
            && let [extent] = extents[..]
            && let Some(at) = kernel.params.iter().position(|param| param.name == extent)
        {
            let accesses = analysis.accesses.iter().filter(|access| access.array == *name);
            let known = choose_lengths(&analysis, accesses, false);
            lengths.extend(known.into_iter().map(|length| (at, extent, length)));
        }
    }
    for (_, _, length) in &lengths {
        let own = length.least.symbols().filter_map(|symbol| analysis.parameter_name(symbol));
        assume_nonnegative(kernel, names, own, length.source, &mut sizes);
    }
    for (at, extent, Length { least, source, .. }) in lengths {
        let common = common_type(kernel, least.symbols().filter_map(|symbol| analysis.parameter_name(symbol)));
        let text = polynomial_text(&analysis, &least, &|name| converted(name, scalar_of(kernel, name), common));
        let condition = format!("{} >= {text}", converted(extent, "i32", common));
        let text = polynomial_text(&analysis, &least, &|name| shown(kernel, names, name));
        let array = names.get(at).unwrap_or(&kernel.params[at].name);
        let note = match array_type(&kernel.params[at].ty) {
            Some(_) => format!("`{array}` has at least `{text}` elements"),
            None => format!("`{extent}` is at least `{text}`"),
        };
        sizes.add(condition, note, source);
    }
    sizes
}

fn assume_nonnegative<'a>(
    kernel: &ClkFunction,
    names: &[SmolStr],
    own: impl Iterator<Item = &'a SmolStr>,
    source: SourceSpan,
    sizes: &mut SizeAssumptions,
) {
    for name in own {
        if matches!(scalar_of(kernel, name), "i32" | "i64") && !is_extent(name) {
            sizes.add(format!("{name} >= 0"), format!("`{}` is not negative", shown(kernel, names, name)), source);
        }
    }
}

/// Returns the type in which parameters are compared with the length of an array, which is an `i32`.
fn common_type<'a>(kernel: &ClkFunction, names: impl Iterator<Item = &'a SmolStr>) -> &'static str {
    let scalars: Vec<&str> = names.map(|name| scalar_of(kernel, name)).collect();
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
    let mut lengths: Vec<Length> = vec![];
    for access in accesses {
        let Some(least) = access.most.plus(&SizePolynomial::number(1)) else { continue };
        if !lengths.iter().any(|known| known.least == least) {
            lengths.push(Length { least, is_guarded: access.is_guarded, source: access.source });
        }
    }
    // A length from a guard is preferred to one from the size of the launch.
    if lengths.iter().any(|length| length.is_guarded) {
        lengths.retain(|length| length.is_guarded);
    }
    let is_sum = |length: &Length| length.least.terms().all(|(monomial, by)| by > 0 || monomial.is_empty());
    lengths.retain(|length| is_sum(length) && length.least.as_number().is_none());
    let exceeds = |length: &Length, by: &Length| {
        let difference = length.least.minus(&by.least).and_then(|difference| difference.as_number());
        difference.is_some_and(|difference| difference > 0)
    };
    // An array of offsets, such as that of a sparse matrix, has one element more than the matrix has rows.
    if is_offsets && lengths.iter().any(|length| length.least.constant() > 0) {
        return vec![];
    }
    // A row more than another access has is likely a mistake, as an element more is.
    let is_row_more = |length: &Length, by: &Length| {
        length.least.minus(&by.least).is_some_and(|difference| {
            difference.degree() > 0
                && difference.degree() < by.least.degree()
                && difference.terms().all(|(_, coefficient)| coefficient > 0)
        })
    };
    let keeps: Vec<bool> =
        lengths.iter().map(|length| !lengths.iter().any(|other| is_row_more(length, other))).collect();
    let mut keeps = keeps.into_iter();
    lengths.retain(|_| keeps.next().unwrap_or(true));
    let has_plain = lengths.iter().any(|length| length.least.constant() == 0);
    lengths.retain(|length| if has_plain { length.least.constant() == 0 } else { length.least.constant() < 0 });
    let is_largest = |length: &Length| !lengths.iter().any(|other| exceeds(other, length));
    let largest: Vec<bool> = lengths.iter().map(is_largest).collect();
    let mut largest = largest.into_iter();
    lengths.retain(|_| largest.next().unwrap_or(true));
    // Lengths without parameters of the launch are those that the author had in mind.
    let is_own = |length: &Length| {
        let names = length.least.symbols().filter_map(|symbol| analysis.parameter_name(symbol));
        names.into_iter().all(|name| !is_extent(name))
    };
    if lengths.iter().any(is_own) {
        lengths.retain(is_own);
    }
    lengths.truncate(MAX_LENGTHS);
    lengths
}

/// Adds limits of the block that keep the thread index within shared arrays.
fn block_limits(kernel: &ClkFunction, analysis: &Abduction<'_>, sizes: &mut SizeAssumptions) {
    let mut limits: Vec<(usize, i128, SourceSpan)> = vec![];
    for access in &analysis.accesses {
        let (Some((axis, offset)), false) = (access.thread_offset, access.is_guarded) else { continue };
        let Some(extent) = shared_extent(&kernel.body, &access.array, access.axis) else { continue };
        // An array with an element for each thread has a multiple of a warp's size; other arrays may have a halo.
        if offset != 0 && extent % 32 == 0 {
            continue;
        }
        let extent = extent - offset.max(0);
        match limits.iter_mut().find(|(known, ..)| *known == axis) {
            Some((_, limit, _)) => *limit = extent.min(*limit),
            None => limits.push((axis, extent, access.source)),
        }
    }
    limits.sort_by_key(|(axis, ..)| *axis);
    for (axis, limit, source) in limits {
        let name = AXES[axis];
        if analysis.block_factors.contains(&(axis, limit)) {
            let note = format!("`blockDim.{name}` is {limit}, as in `blockIdx.{name} * {limit} + threadIdx.{name}`");
            sizes.add(format!("block_{name} == {limit}"), note, source);
        } else if limit < 1024 {
            let note = format!("`blockDim.{name}` is at most {limit}, the length of a shared array");
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
    let mut text = String::new();
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
