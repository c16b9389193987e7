//! The size of a kernel's arguments, and its limit.
//!
//! Input: the signature of a kernel, and its type arguments if they are known. Output: an error if the sum of the
//! parameter sizes exceeds CUDA's limit. Fields of structs and tuples are passed one by one, each aligned to its size;
//! an array is passed as its address and extents. A device may omit arguments that a kernel does not use.

use crate::typed::*;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_ir::def::Ty;

/// The maximum size of the arguments of a launch, in bytes.
pub(crate) const MOST: usize = 4096;
/// The size of an address, in bytes.
const ADDRESS: usize = 8;
const EXTENT: usize = 4;
/// The size of the hidden arguments in bytes: the extents of `threads(…)`, and the addresses of the buffers for faults,
/// `print` and barriers.
const OWN: usize = 4 * EXTENT + 3 * ADDRESS;

/// A function that returns the type argument for a type parameter; `None` if it is not known.
pub(crate) type TypeParamLookup<'g> = &'g dyn std::ops::Fn(u32) -> Option<Type>;

struct ParamSpace<'s> {
    program: &'s Program,
    type_args: TypeParamLookup<'s>,
    used: usize,
}

impl ParamSpace<'_> {
    fn add(&mut self, size: usize, align: usize) {
        self.used = self.used.next_multiple_of(align).saturating_add(size);
    }

    fn array(&mut self, axes: usize) {
        self.add(ADDRESS, ADDRESS);
        self.add(EXTENT * axes, EXTENT);
    }

    fn param(&mut self, ty: &Type) {
        match ty {
            Type::Array(array) => self.array(array.dims.len()),
            value => self.value(value),
        }
    }

    fn value(&mut self, ty: &Type) {
        match ty {
            Type::Scalar(s) => self.add(s.size(), s.size()),
            Type::Vector(s, n) => self.add(Ty::Vector(*s, *n).size(), Ty::Vector(*s, *n).align()),
            Type::Tuple(parts) => parts.iter().for_each(|part| self.value(part)),
            Type::Struct(id) => {
                let fields = self.program.structs.get(*id).map_or(&[][..], |s| &s.fields);
                fields.iter().for_each(|field| self.value(&field.ty));
            }
            Type::Array(array) => {
                let extent = |dim: &Dim| if let Dim::Known(n) = dim { u64::try_from(*n).unwrap_or(0) } else { 0 };
                let elements = array.dims.iter().map(extent).fold(1, u64::saturating_mul);
                // Another check rejects types with more elements.
                (0..elements.min(MOST as u64)).for_each(|_| self.value(&array.element));
            }
            Type::Param(i) => {
                if let Some(ty) = (self.type_args)(*i).filter(|ty| !matches!(ty, Type::Param(_))) {
                    self.value(&ty);
                }
            }
            _ => {}
        }
    }
}

/// Builds the error for a function that is applied elementwise to arrays, if its arguments exceed the limit. A launch
/// passes all arguments except arrays by value. `params` has the type of each parameter, and whether the argument is an
/// array.
pub fn check_map_parameter_limit(
    program: &Program,
    name: &str,
    span: Span,
    params: &[(Type, bool)],
) -> Option<Diagnostic> {
    let mut space = ParamSpace { program, type_args: &|_| None, used: 0 };
    // The array that receives the result.
    space.array(1);
    for (ty, each) in params {
        if *each { space.array(1) } else { space.value(ty) }
    }
    let total = space.used + OWN;
    (total > MOST).then(|| {
        let title = format!("`{name}` applied to arrays would pass {total} bytes, but the limit is {MOST}");
        Diagnostic::error("E0331", title)
            .at(span, "arguments other than arrays are passed by value")
            .help("write it as a kernel, and pass large values in an array")
    })
}

/// Builds the error for a kernel whose arguments exceed the limit.
pub fn check_parameter_limit(program: &Program, kernel: &Kernel, type_args: TypeParamLookup<'_>) -> Option<Diagnostic> {
    let mut space = ParamSpace { program, type_args, used: 0 };
    let mut sizes = Vec::with_capacity(kernel.sig.params.len());
    for param in &kernel.sig.params {
        let before = space.used;
        space.param(&param.ty);
        sizes.push((space.used - before, param));
    }
    let hidden = kernel.sig.hidden_dims().count();
    space.add(EXTENT * hidden, EXTENT);
    let total = space.used + OWN;
    if total <= MOST {
        return None;
    }
    sizes.sort_by_key(|(size, param)| (std::cmp::Reverse(*size), param.span.start));
    let title = format!("a launch of `{}` would pass {total} bytes, but the limit is {MOST}", kernel.name);
    let mut d = Diagnostic::error("E0331", title);
    let size_label = |size: usize, param: &Param| format!("`{}` takes {size} bytes", param.name);
    let is_listed = |&(k, (size, _)): &(usize, (usize, &Param))| k == 0 || k < 6 && size > 64;
    for (k, (size, param)) in sizes.into_iter().enumerate().take_while(is_listed) {
        d = if k == 0 {
            d.at(param.span, size_label(size, param))
        } else {
            d.because(param.span, size_label(size, param))
        };
    }
    Some(
        d.help("pass large values in an array: a launch passes only its address and extents").note(format!(
            "an array takes {ADDRESS} bytes and {EXTENT} for each axis; a launch itself takes up to {OWN}"
        )),
    )
}
