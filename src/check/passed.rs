//! The size of a kernel's arguments, and its limit.
//!
//! Input: the signature of a kernel, and the types of its type parameters where they are known. Output: the bytes of each
//! parameter, and the diagnostic where their sum exceeds what CUDA passes. Fields of structs and tuples are passed one by one,
//! each aligned to its size; an array is passed as its address and extents. A device may omit arguments that a kernel does not use.

use crate::base::diag::Diagnostic;
use crate::base::source::Span;
use crate::check::typed::*;
use crate::ir::def::Ty;

/// The limit of a launch, in bytes.
pub(crate) const MOST: usize = 4096;
/// An address.
const ADDRESS: usize = 8;
const EXTENT: usize = 4;
/// The extents of `threads(…)`, and the addresses of records that a device keeps of faults, prints and barriers.
const OWN: usize = 4 * EXTENT + 3 * ADDRESS;

/// The types that stand for type parameters, as far as they are known.
pub(crate) type Given<'g> = &'g dyn std::ops::Fn(u32) -> Option<Type>;

struct Space<'s> {
    program: &'s Program,
    given: Given<'s>,
    used: usize,
}

impl Space<'_> {
    fn put(&mut self, size: usize, align: usize) {
        self.used = self.used.next_multiple_of(align).saturating_add(size);
    }

    fn array(&mut self, axes: usize) {
        self.put(ADDRESS, ADDRESS);
        self.put(EXTENT * axes, EXTENT);
    }

    fn param(&mut self, ty: &Type) {
        match ty {
            Type::Array(array) => self.array(array.dims.len()),
            value => self.value(value),
        }
    }

    fn value(&mut self, ty: &Type) {
        match ty {
            Type::Scalar(s) => self.put(s.size(), s.size()),
            Type::Vector(s, n) => self.put(Ty::Vector(*s, *n).size(), Ty::Vector(*s, *n).align()),
            Type::Tuple(parts) => parts.iter().for_each(|part| self.value(part)),
            Type::Struct(id) => {
                let fields = self.program.structs.get(*id).map_or(&[][..], |s| &s.fields);
                fields.iter().for_each(|field| self.value(&field.ty));
            }
            Type::Array(array) => {
                let known = |dim: &Dim| if let Dim::Known(n) = dim { u64::try_from(*n).unwrap_or(0) } else { 0 };
                let elements = array.dims.iter().map(known).fold(1, u64::saturating_mul);
                // More is refused as a type.
                (0..elements.min(MOST as u64)).for_each(|_| self.value(&array.element));
            }
            Type::Param(i) => {
                if let Some(ty) = (self.given)(*i).filter(|ty| !matches!(ty, Type::Param(_))) {
                    self.value(&ty);
                }
            }
            _ => {}
        }
    }
}

/// The message for a function applied element by element to arrays, whose other arguments a launch passes by value.
pub fn too_much_for_map(program: &Program, name: &str, span: Span, params: &[(Type, bool)]) -> Option<Diagnostic> {
    let mut space = Space { program, given: &|_| None, used: 0 };
    // The result.
    space.array(1);
    for (ty, each) in params {
        if *each { space.array(1) } else { space.value(ty) }
    }
    let total = space.used + OWN;
    (total > MOST).then(|| {
        let title = format!("`{name}` applied to arrays would pass {total} bytes, and {MOST} is the most");
        Diagnostic::error("E0331", title)
            .at(span, "what is no array is passed by value")
            .help("write it as a kernel, and pass what is large in an array")
    })
}

/// The message for a kernel to which a launch would pass too much.
pub fn too_much(program: &Program, kernel: &Kernel, given: Given<'_>) -> Option<Diagnostic> {
    let mut space = Space { program, given, used: 0 };
    let mut sizes = Vec::with_capacity(kernel.sig.params.len());
    for param in &kernel.sig.params {
        let before = space.used;
        space.param(&param.ty);
        sizes.push((space.used - before, param));
    }
    let hidden = kernel.sig.hidden_dims().count();
    space.put(EXTENT * hidden, EXTENT);
    let total = space.used + OWN;
    if total <= MOST {
        return None;
    }
    sizes.sort_by_key(|(size, param)| (std::cmp::Reverse(*size), param.span.start));
    let title = format!("a launch of `{}` would pass {total} bytes, and {MOST} is the most", kernel.name);
    let mut d = Diagnostic::error("E0331", title);
    let takes = |size: usize, param: &Param| format!("`{}` takes {size} bytes", param.name);
    let shown = |&(k, (size, _)): &(usize, (usize, &Param))| k == 0 || k < 6 && size > 64;
    for (k, (size, param)) in sizes.into_iter().enumerate().take_while(shown) {
        d = if k == 0 { d.at(param.span, takes(size, param)) } else { d.because(param.span, takes(size, param)) };
    }
    Some(
        d.help("pass what is large in an array: a launch says only where it lies, whatever is in it").note(format!(
            "an array takes {ADDRESS} bytes and {EXTENT} for each axis; a launch itself takes up to {OWN}"
        )),
    )
}
