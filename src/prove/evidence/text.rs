//! The text of a launch that a user can type.
//!
//! Input: sizes, what the arrays hold, and the text of the launch that was made smaller, if there is one. Output: the statements, or what is
//! to be said of a launch that has no short text.

use crate::check::typed::{Access, Dim, GenericKind, Type};
use crate::compile::trial::Written;
use crate::device::Extents;
use crate::ir::def::{Layout, Ty};
use crate::lang::scalar::Scalar;

use super::case::{Case, Filled, Held, Size, threads};

/// Returns the launch in words: its statements, or its sizes, and how many threads it has.
pub(super) fn of(case: &Case<'_>, size: &Size, filled: &Filled, written: Option<&Written<'_>>) -> String {
    let statements = match written {
        Some(written) => rewritten(case, size, filled, written),
        None => stated(case, size, filled),
    };
    let shown = statements.unwrap_or_else(|| in_words(case, size, filled));
    let sizes = match written {
        Some(written) if hides_sizes(case, filled, written) => sizes(case, size),
        _ => String::new(),
    };
    format!("{shown}{sizes}, {}", geometry(filled.arguments.extents))
}

/// Whether an array stands in a launch by its name and as a whole: in a loop, it may have another size in each turn.
fn hides_sizes(case: &Case<'_>, filled: &Filled, written: &Written<'_>) -> bool {
    let whole = |position: usize| {
        let given = case.given.get(position)?.as_ref()?;
        let shape = filled.arguments.storage.get(position)?.as_ref()?.1.as_slice();
        Some(filled.held.get(position)? == &Held::Own && given.shape == shape)
    };
    case.params().unwrap_or_default().into_iter().zip(&written.args).any(|((position, param), range)| {
        let own = range.clone().and_then(|range| written.text.get(range));
        param.access == Access::In && own.is_some_and(is_name) && whole(position) == Some(true)
    })
}

fn sizes(case: &Case<'_>, size: &Size) -> String {
    let dims = case.kernel.sig.dims.iter().zip(&size.what.dims).map(|(dim, n)| format!("{} = {n}", dim.name));
    let dims: Vec<String> = dims.collect();
    if dims.is_empty() { String::new() } else { format!(" with {}", dims.join(", ")) }
}

fn geometry(extents: Extents) -> String {
    let plural = |n: u64, what: &str| if n == 1 { format!("one {what}") } else { format!("{n} {what}s") };
    match extents {
        Extents::Threads(_) => plural(threads(extents), "thread"),
        Extents::Grid { grid, block } => {
            let count = |n: [u32; 3]| n.iter().map(|&n| u64::from(n)).product::<u64>();
            format!("{} of {}", plural(count(grid), "block"), plural(count(block), "thread"))
        }
    }
}

/// Replaces the parts of a launch that are smaller now; arrays that are written get a statement of their own.
fn rewritten(case: &Case<'_>, size: &Size, filled: &Filled, written: &Written<'_>) -> Option<String> {
    let mut edits: Vec<(std::ops::Range<usize>, String)> = vec![];
    let mut before = vec![];
    for ((position, param), range) in case.params()?.into_iter().zip(&written.args) {
        let Some(range) = range else { continue };
        let own = written.text.get(range.clone())?;
        if matches!(param.ty, Type::Array(_)) {
            let (layout, _) = case.layout(position)?;
            let shape = filled.arguments.storage.get(position)?.as_ref()?.1.as_slice();
            if param.access == Access::In {
                let given = case.given.get(position)?.as_ref();
                match filled.held.get(position)? {
                    Held::Own if given.is_some_and(|given| given.shape == shape) => {}
                    Held::Own => edits.push((range.clone(), sliced(own, shape))),
                    held => edits.push((range.clone(), made(*held, layout, shape)?)),
                }
            } else {
                let name = if is_name(own) { own } else { param.name.as_str() };
                let held = if param.access == Access::Out { Held::Zeros } else { *filled.held.get(position)? };
                before.push(format!("`var {name} = {}`", made(held, layout, shape)?));
                edits.push((range.clone(), name.to_string()));
            }
        } else if let Some(now) =
            size.what.scalars.get(&(position as u32)).filter(|_| size.free.contains(&(position as u32)))
            && case.values.get(position)?.as_ref()?.first()?.as_integer() != Some(*now)
        {
            edits.push((range.clone(), now.to_string()));
        }
    }
    for (number, range) in &written.dims {
        edits.push((range.clone(), size.what.dims.get(*number as usize)?.to_string()));
    }
    match (&written.geometry, size.geometry) {
        (Some(places), Some(extents)) => {
            for (range, extent) in places.iter().zip(extents) {
                edits.push((range.clone(), triple(extent)));
            }
        }
        // A grid that only has to cover the indices is left to the launch.
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

/// Writes a launch from the signature.
fn stated(case: &Case<'_>, size: &Size, filled: &Filled) -> Option<String> {
    let kernel = case.kernel;
    if kernel.sig.generics.iter().any(|generic| !matches!(generic.kind, GenericKind::Type { .. })) {
        return None;
    }
    let (mut before, mut args, mut bound) = (vec![], vec![], vec![]);
    for (position, param) in case.params()? {
        let Type::Array(array) = &param.ty else {
            let value = filled.arguments.values.get(position)?;
            let Type::Scalar(scalar) = &param.ty else { return None };
            args.push(number(*scalar, value.first()?.as_f64()));
            continue;
        };
        if param.access == Access::Out {
            continue;
        }
        bound.extend(array.dims.iter().filter_map(|dim| if let Dim::Name(dim) = dim { Some(*dim) } else { None }));
        let (layout, _) = case.layout(position)?;
        let shape = filled.arguments.storage.get(position)?.as_ref()?.1.as_slice();
        let made = made(*filled.held.get(position)?, layout, shape)?;
        if param.access == Access::In {
            args.push(made);
        } else {
            before.push(format!("`var {} = {made}`", param.name));
            args.push(param.name.to_string());
        }
    }
    for (number, dim) in kernel.sig.dims.iter().enumerate().filter(|(number, _)| !bound.contains(&(*number as u32))) {
        args.push(format!("{} = {}", dim.name, size.what.dims.get(number)?));
    }
    before.push(format!("`{}({})`", kernel.name, args.join(", ")));
    Some(before.join(", then "))
}

/// Returns the sizes of a launch, and what its arrays hold.
fn in_words(case: &Case<'_>, size: &Size, filled: &Filled) -> String {
    let mut parts: Vec<String> =
        case.kernel.sig.dims.iter().zip(&size.what.dims).map(|(dim, n)| format!("{} = {n}", dim.name)).collect();
    for (position, param) in case.params().unwrap_or_default() {
        if let Some(n) = size.what.scalars.get(&(position as u32)).filter(|_| size.free.contains(&(position as u32))) {
            parts.push(format!("{} = {n}", param.name));
        }
        let held = match filled.held.get(position) {
            Some(Held::Own) => "the first elements of the argument",
            Some(Held::Zeros) => "zeros",
            Some(Held::Ramp) => "0, 1, 2, …",
            Some(Held::Promised) => "made up as promised",
            _ => continue,
        };
        parts.push(format!("`{}` {held}", param.name));
    }
    if let Some([grid, block]) = size.geometry {
        parts.push(format!("<<<{}, {}>>>", triple(grid), triple(block)));
    }
    format!("`{}` with {}", case.kernel.name, parts.join(", "))
}

fn triple(extent: [u32; 3]) -> String {
    match extent {
        [x, 1, 1] => x.to_string(),
        [x, y, 1] => format!("({x}, {y})"),
        [x, y, z] => format!("({x}, {y}, {z})"),
    }
}

fn is_name(text: &str) -> bool {
    text.chars().all(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the first elements of an expression along each axis.
fn sliced(own: &str, shape: &[u32]) -> String {
    let ranges: Vec<String> = shape.iter().map(|n| format!("0..{n}")).collect();
    let postfix = is_name(own) || own.ends_with([')', ']']) && !has_operator(own);
    let own = if postfix { own.to_string() } else { format!("({own})") };
    format!("{own}[{}]", ranges.join(", "))
}

/// Whether there is an operator outside of brackets.
fn has_operator(text: &str) -> bool {
    let mut depth = 0;
    text.chars().any(|c| {
        depth += i32::from("([{".contains(c)) - i32::from(")]}".contains(c));
        depth == 0 && !(c.is_alphanumeric() || "_.)]}".contains(c))
    })
}

/// Returns an expression for made-up contents.
fn made(held: Held, layout: &Layout, shape: &[u32]) -> Option<String> {
    let [leaf] = &layout.leaves[..] else { return None };
    let (Ty::Scalar(scalar), false) = (leaf.ty, shape.is_empty()) else { return None };
    let extents = shape.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match held {
        Held::Zeros => Some(match scalar {
            Scalar::F32 => format!("zeros({extents})"),
            scalar => format!("zeros({extents}, type = {})", scalar.name()),
        }),
        Held::Ramp => {
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

fn number(scalar: Scalar, value: f64) -> String {
    match scalar {
        Scalar::Bool => (value != 0.0).to_string(),
        scalar if scalar.is_float() => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}
