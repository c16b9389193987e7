//! Generates the source text of a launch, which a user can run to reproduce a race.
//!
//! Input: sizes, array contents, and the text of the original launch, if there is one. Output: the statements of the
//! launch; if there is no short text, a description of the launch.

use clk_check::typed::{Access, Dim, GenericKind, Type};
use clk_compile::trials::LaunchText;
use clk_ir::def::{ElementLayout, Ty};
use clk_runtime::LaunchExtents;
use clk_scalar::Scalar;

use super::replay_case::{ArrayContents, LaunchSize, Refill, ReplayCase, thread_count};

/// Returns a description of the launch: its statements (or its sizes and array contents), and the number of threads.
pub(super) fn launch_text(
    case: &ReplayCase<'_>,
    size: &LaunchSize,
    filled: &Refill,
    written: Option<&LaunchText<'_>>,
) -> String {
    let statements = match written {
        Some(written) => rewrite_launch(case, size, filled, written),
        None => launch_statement(case, size, filled),
    };
    let shown = statements.unwrap_or_else(|| in_words(case, size, filled));
    let sizes = match written {
        Some(written) if hides_sizes(case, filled, written) => sizes_text(case, size),
        _ => String::new(),
    };
    format!("{shown}{sizes}, {}", geometry_text(filled.arguments.extents))
}

/// Returns whether the launch passes a whole array by its name. The text then does not contain the array's size, which
/// may be different in each iteration of a loop.
fn hides_sizes(case: &ReplayCase<'_>, filled: &Refill, written: &LaunchText<'_>) -> bool {
    let whole = |position: usize| {
        let argument = case.launch_arrays.get(position)?.as_ref()?;
        let shape = filled.arguments.storage.get(position)?.as_ref()?.1.as_slice();
        Some(filled.array_contents.get(position)? == &ArrayContents::FromLaunch && argument.shape == shape)
    };
    case.params().unwrap_or_default().into_iter().zip(&written.args).any(|((position, param), range)| {
        let own = range.clone().and_then(|range| written.text.get(range));
        param.access == Access::In && own.is_some_and(is_name) && whole(position) == Some(true)
    })
}

fn sizes_text(case: &ReplayCase<'_>, size: &LaunchSize) -> String {
    let dims = case.kernel.sig.dims.iter().zip(&size.sizes.dims).map(|(dim, n)| format!("{} = {n}", dim.name));
    let dims: Vec<String> = dims.collect();
    if dims.is_empty() { String::new() } else { format!(" with {}", dims.join(", ")) }
}

fn geometry_text(extents: LaunchExtents) -> String {
    let plural = |n: u64, what: &str| if n == 1 { format!("one {what}") } else { format!("{n} {what}s") };
    match extents {
        LaunchExtents::Threads(_) => plural(thread_count(extents), "thread"),
        LaunchExtents::Grid { grid, block } => {
            let count = |n: [u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
            format!("{} of {}", plural(count(grid), "block"), plural(count(block), "thread"))
        }
    }
}

/// Returns the text of the original launch with the smaller sizes substituted. An array that the launch writes is
/// created in a separate statement.
fn rewrite_launch(
    case: &ReplayCase<'_>,
    size: &LaunchSize,
    filled: &Refill,
    written: &LaunchText<'_>,
) -> Option<String> {
    let mut edits: Vec<(std::ops::Range<usize>, String)> = vec![];
    let mut before = vec![];
    for ((position, param), range) in case.params()?.into_iter().zip(&written.args) {
        let Some(range) = range else { continue };
        let argument_text = written.text.get(range.clone())?;
        if matches!(param.ty, Type::Array(_)) {
            let (layout, _) = case.layout(position)?;
            let shape = filled.arguments.storage.get(position)?.as_ref()?.1.as_slice();
            if param.access == Access::In {
                let launch_array = case.launch_arrays.get(position)?.as_ref();
                match filled.array_contents.get(position)? {
                    ArrayContents::FromLaunch
                        if launch_array.is_some_and(|launch_array| launch_array.shape == shape) => {}
                    ArrayContents::FromLaunch => edits.push((range.clone(), slice_text(argument_text, shape))),
                    contents => edits.push((range.clone(), contents_expression(*contents, layout, shape)?)),
                }
            } else {
                let name = if is_name(argument_text) { argument_text } else { param.name.as_str() };
                let contents = match param.access {
                    Access::Out => ArrayContents::Zeros,
                    _ => *filled.array_contents.get(position)?,
                };
                before.push(format!("`var {name} = {}`", contents_expression(contents, layout, shape)?));
                edits.push((range.clone(), name.to_string()));
            }
        } else if let Some(new_value) =
            size.sizes.scalars.get(&(position as u32)).filter(|_| size.free.contains(&(position as u32)))
            && case.values.get(position)?.as_ref()?.first()?.as_integer() != Some(*new_value)
        {
            edits.push((range.clone(), new_value.to_string()));
        }
    }
    for (number, range) in &written.dims {
        edits.push((range.clone(), size.sizes.dims.get(*number as usize)?.to_string()));
    }
    match (&written.geometry, size.geometry) {
        (Some(places), Some(extents)) => {
            for (range, extent) in places.iter().zip(extents) {
                edits.push((range.clone(), extent_text(extent)));
            }
        }
        // The `<<<…>>>` is removed if the grid only has to cover the indices: the launch then chooses it.
        (Some([grid, block]), None) => {
            let (start, end) = (
                written.text.get(..grid.start)?.rfind("<<<")?,
                block.end + written.text.get(block.end..)?.find(">>>")? + 3,
            );
            edits.push((start..end, String::new()));
        }
        (None, _) => {}
    }
    edits.sort_by_key(|(range, _)| range.start);
    let (mut text, mut at) = (String::new(), 0);
    for (range, new) in edits {
        text += written.text.get(at..range.start)?;
        text += &new;
        at = range.end;
    }
    text += written.text.get(at..)?;
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    before.push(format!("`{text}`"));
    Some(before.join(", then "))
}

/// Returns the text of a launch that is generated from the kernel's signature.
fn launch_statement(case: &ReplayCase<'_>, size: &LaunchSize, filled: &Refill) -> Option<String> {
    let kernel = case.kernel;
    if kernel.sig.generics.iter().any(|generic| !matches!(generic.kind, GenericKind::Type { .. })) {
        return None;
    }
    let (mut before, mut args, mut bound) = (vec![], vec![], vec![]);
    for (position, param) in case.params()? {
        let Type::Array(array) = &param.ty else {
            let value = filled.arguments.values.get(position)?;
            let Type::Scalar(scalar) = &param.ty else { return None };
            args.push(number_text(*scalar, value.first()?.as_f64()));
            continue;
        };
        if param.access == Access::Out {
            continue;
        }
        bound.extend(array.dims.iter().filter_map(|dim| if let Dim::Name(dim) = dim { Some(*dim) } else { None }));
        let (layout, _) = case.layout(position)?;
        let shape = filled.arguments.storage.get(position)?.as_ref()?.1.as_slice();
        let expression = contents_expression(*filled.array_contents.get(position)?, layout, shape)?;
        if param.access == Access::In {
            args.push(expression);
        } else {
            before.push(format!("`var {} = {expression}`", param.name));
            args.push(param.name.to_string());
        }
    }
    for (number, dim) in kernel.sig.dims.iter().enumerate().filter(|(number, _)| !bound.contains(&(*number as u32))) {
        args.push(format!("{} = {}", dim.name, size.sizes.dims.get(number)?));
    }
    before.push(format!("`{}({})`", kernel.name, args.join(", ")));
    Some(before.join(", then "))
}

/// Describes the sizes of a launch and the contents of its arrays in words.
fn in_words(case: &ReplayCase<'_>, size: &LaunchSize, filled: &Refill) -> String {
    let mut parts: Vec<String> =
        case.kernel.sig.dims.iter().zip(&size.sizes.dims).map(|(dim, n)| format!("{} = {n}", dim.name)).collect();
    for (position, param) in case.params().unwrap_or_default() {
        if let Some(n) = size.sizes.scalars.get(&(position as u32)).filter(|_| size.free.contains(&(position as u32))) {
            parts.push(format!("{} = {n}", param.name));
        }
        let contents_text = match filled.array_contents.get(position) {
            Some(ArrayContents::FromLaunch) => "the first elements of the argument",
            Some(ArrayContents::Zeros) => "zeros",
            Some(ArrayContents::Ramp) => "0, 1, 2, …",
            Some(ArrayContents::Promised) => "made up as promised",
            _ => continue,
        };
        parts.push(format!("`{}` {contents_text}", param.name));
    }
    if let Some([grid, block]) = size.geometry {
        parts.push(format!("<<<{}, {}>>>", extent_text(grid), extent_text(block)));
    }
    format!("`{}` with {}", case.kernel.name, parts.join(", "))
}

fn extent_text(extent: [u32; 3]) -> String {
    match extent {
        [x, 1, 1] => x.to_string(),
        [x, y, 1] => format!("({x}, {y})"),
        [x, y, z] => format!("({x}, {y}, {z})"),
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the text of a slice of an array expression that contains the first elements along each axis.
fn slice_text(own: &str, shape: &[u32]) -> String {
    let ranges: Vec<String> = shape.iter().map(|n| format!("0..{n}")).collect();
    let postfix = is_name(own) || own.ends_with([')', ']']) && !has_operator(own);
    let own = if postfix { own.to_string() } else { format!("({own})") };
    format!("{own}[{}]", ranges.join(", "))
}

/// Returns whether an expression's text contains an operator that is not inside brackets.
fn has_operator(text: &str) -> bool {
    let mut depth = 0;
    text.chars().any(|c| {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        depth == 0 && !(c.is_alphanumeric() || "_.)]}".contains(c))
    })
}

/// Returns the text of an expression that creates an array with generated contents.
fn contents_expression(contents: ArrayContents, layout: &ElementLayout, shape: &[u32]) -> Option<String> {
    let [leaf] = &layout.leaves[..] else { return None };
    let (Ty::Scalar(scalar), false) = (leaf.ty, shape.is_empty()) else { return None };
    let extents = shape.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match contents {
        ArrayContents::Zeros => Some(match scalar {
            Scalar::F32 => format!("zeros({extents})"),
            scalar => format!("zeros({extents}, type = {})", scalar.name()),
        }),
        ArrayContents::Ramp => {
            let count: u64 = shape.iter().map(|&n| u64::from(n)).product();
            let flat = match scalar {
                Scalar::I32 => format!("arange({count})"),
                Scalar::F32 => format!("arange({count}.0)"),
                scalar => format!("{}(arange({count}))", scalar.name()),
            };
            Some(if shape.len() == 1 { flat } else { format!("reshape({flat}, {extents})") })
        }
        _ => None,
    }
}

fn number_text(scalar: Scalar, value: f64) -> String {
    match scalar {
        Scalar::Bool => (value != 0.0).to_string(),
        scalar if scalar.is_float() => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
