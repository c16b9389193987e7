//! Names of NumPy, Python, CUDA, Triton and other languages, each with its equivalent in Clk. Diagnostics about unknown
//! names, methods and fields, `clk doc`, completion and the search of the site all read this table
//! (`docs/internals/foreign-names.md`).

mod cuda;
mod numpy;
mod python;
mod row;
mod triton;
mod types;

pub use row::{ClkEquivalent, ForeignName, NameOrigin, last_name};

use super::builtin;

/// The prefixes of modules of other languages, each with the module whose rows it stands for.
const MODULES: &[(&str, &str)] = &[
    ("np", "np"),
    ("numpy", "np"),
    ("cp", "np"),
    ("cupy", "np"),
    ("jnp", "np"),
    ("jax", "np"),
    ("scipy", "np"),
    ("torch", "np"),
    ("math", "np"),
    ("cuda", "cuda"),
    ("numba", "cuda"),
    ("cg", "cuda"),
    ("cooperative_groups", "cuda"),
    ("wp", "wp"),
    ("warp", "wp"),
    ("tl", "tl"),
    ("triton", "triton"),
];

/// Returns whether a name is a module of another language: `np`, `tl`.
pub fn is_module(name: &str) -> bool {
    MODULES.iter().any(|(module, _)| *module == name)
}

/// All rows.
pub fn rows() -> impl Iterator<Item = &'static ForeignName> {
    [numpy::ROWS, python::ROWS, cuda::ROWS, triton::ROWS, types::ROWS].into_iter().flatten()
}

fn find_in(mut rows: impl Iterator<Item = &'static ForeignName>, name: &str) -> Option<ForeignName> {
    rows.find(|row| row.names.split(' ').any(|known| known == name)).copied()
}

/// Looks up a name, with or without the prefix of its module: `clip`, `np.clip`, `np.linalg.norm`, `tl.load`.
pub fn find(path: &str) -> Option<ForeignName> {
    if let Some(row) = find_in(rows(), path) {
        return Some(row);
    }
    let (module, member) = path.split_once('.')?;
    let (_, module) = MODULES.iter().find(|(prefix, _)| *prefix == module)?;
    let name = last_name(member);
    let qualified = find_in(rows(), &format!("{module}.{name}"));
    // `cuda.local.array` is a part of `cuda.local`.
    let group = || member.split_once('.').and_then(|(group, _)| find_in(rows(), &format!("{module}.{group}")));
    let qualified = qualified.or_else(group);
    // `triton.language` is usually imported as `tl`.
    let qualified = qualified.or_else(|| find_in(rows(), &format!("tl.{name}")).filter(|_| *module == "triton"));
    let builtin = || builtin::find(name).filter(|entry| entry.signature.starts_with(['(', '<']));
    qualified
        .or_else(|| find_in(rows(), name))
        .or_else(|| builtin().map(|entry| ForeignName::new(NameOrigin::Other, entry.name, ClkEquivalent::Same)))
}

/// Looks up a name of a type in another language.
pub fn find_type(name: &str) -> Option<ForeignName> {
    find_in(types::ROWS.iter(), name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Scalar;

    #[test]
    fn no_name_has_two_rows() {
        let mut names: Vec<&str> = rows().flat_map(|row| row.names.split(' ')).collect();
        names.sort_unstable();
        let twice: Vec<&str> = names.windows(2).filter(|pair| pair[0] == pair[1]).map(|pair| pair[0]).collect();
        assert!(twice.is_empty(), "{twice:?}");
    }

    #[test]
    fn names_that_are_the_same_are_builtins() {
        for row in rows().filter(|row| row.equivalent == ClkEquivalent::Same) {
            for name in row.names.split(' ') {
                let is_type = Scalar::from_name(name).is_some() || name == "str";
                assert!(builtin::find(name).is_some() || is_type, "{name}");
            }
        }
    }

    #[test]
    fn prefixes_of_modules_are_optional() {
        for path in ["clip", "np.clip", "numpy.clip", "torch.clip"] {
            assert_eq!(find(path).and_then(|row| row.replacement(path)), Some("clamp"), "{path}");
        }
        assert_eq!(find("np.linalg.norm").map(|row| row.names), find("norm").map(|row| row.names));
        assert_eq!(find("np.sqrt").map(|row| row.equivalent), Some(ClkEquivalent::Same));
        assert!(find("other.clip").is_none());
    }

    #[test]
    fn the_argument_replaces_the_operand() {
        assert_eq!(find("flatten").and_then(|row| row.unary_code("img")).as_deref(), Some("reshape(img, -1)"));
        assert_eq!(find("ptp").and_then(|row| row.unary_code("t")).as_deref(), Some("max(t) - min(t)"));
        assert_eq!(find("outer").and_then(|row| row.unary_code("t")), None);
    }
}
