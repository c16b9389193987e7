//! The values to save in a file, and their conversions for the file formats.

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::array::{Array, ElementType};
use crate::files::kind::FileFormat;
use crate::problem::{HostResult, NO_GRAD, RuntimeError};
use crate::value::HostValue;
use clk_base::escape;
use clk_scalar::Scalar;

/// The values to save in a file, by name.
pub(crate) struct SavedItems {
    pub named: IndexMap<SmolStr, HostValue>,
    /// Whether the names were given by the user.
    pub has_names: bool,
}

impl SavedItems {
    pub(crate) fn new(values: &[(Option<&str>, &HostValue)]) -> HostResult<SavedItems> {
        let mut items = SavedItems { named: IndexMap::new(), has_names: false };
        for (position, (name, value)) in values.iter().enumerate() {
            items.has_names |= name.is_some() || matches!(value, HostValue::Table(_));
            match (name, value) {
                (None, HostValue::Table(table)) => {
                    if let Some((name, problem)) = table.unreadable.first() {
                        let title = format!("the member `{}` of this table cannot be saved", escape::name(name));
                        let help = "save the other members by name: `save(\"out.npz\", x = t.x)`";
                        return Err(RuntimeError::new("E0715", title).note(problem.title.clone()).help(help));
                    }
                    for (name, column) in table.iter() {
                        items.add(name.clone(), column.clone())?;
                    }
                }
                (Some(name), _) => items.add(SmolStr::new(name), to_arrays(value)?)?,
                (None, _) => items.add(SmolStr::new(format!("arr_{position}")), to_arrays(value)?)?,
            }
        }
        if items.named.is_empty() {
            return Err(
                RuntimeError::new("E0715", "there is nothing to save").help("name a value: `save(\"out.npy\", x)`")
            );
        }
        Ok(items)
    }

    fn add(&mut self, name: SmolStr, column: HostValue) -> HostResult<()> {
        match self.named.insert(name.clone(), column) {
            None => Ok(()),
            Some(_) => Err(RuntimeError::new("E0715", format!("two of the arrays to save are called `{name}`"))),
        }
    }

    /// Returns all values as arrays of numbers, for a format that cannot store texts.
    pub(crate) fn arrays(&self, format: FileFormat) -> HostResult<IndexMap<SmolStr, Array>> {
        let array = |(name, value): (&SmolStr, &HostValue)| Ok((name.clone(), numeric_array(value, format)?.clone()));
        self.named.iter().map(array).collect()
    }

    pub(crate) fn single(&self, format: FileFormat) -> HostResult<&Array> {
        match (self.named.len(), self.named.first()) {
            (1, Some((_, array))) => numeric_array(array, format),
            (count, _) => {
                let title = format!("a .{} file holds one array, not {count}", format.extension());
                Err(RuntimeError::new("E0715", title).help("save several as .npz: `save(\"out.npz\", x = x, y = y)`"))
            }
        }
    }
}

/// Returns the array in a value. Returns an error for texts, which the format cannot store.
fn numeric_array(value: &HostValue, format: FileFormat) -> HostResult<&Array> {
    match value {
        HostValue::Array(array) => Ok(array),
        _ => {
            let title = format!("a .{} file holds no text", format.extension());
            let help = "columns of text can be saved as .csv; `write_text(path, join(texts, \"\\n\"))` writes lines";
            Err(RuntimeError::new("E0715", title).help(help))
        }
    }
}

/// Converts a value to an array of numbers or of texts.
fn to_arrays(value: &HostValue) -> HostResult<HostValue> {
    match value {
        HostValue::Array(_) | HostValue::Strings(_) => Ok(value.clone()),
        HostValue::Traced(_) => {
            Err(RuntimeError::new("E0715", "a value that is differentiated cannot be saved").help(NO_GRAD))
        }
        _ => {
            let name = value.type_name();
            let plain = crate::array::element_value::element_of(value).is_some();
            let refused = || RuntimeError::new("E0715", format!("a value of type {name} cannot be saved"));
            if plain {
                Array::full(&value.clone().with_default_type(), &[]).map(HostValue::Array)
            } else {
                Err(refused())
            }
        }
    }
}

/// Returns the scalar type and the shape of an array for formats without vectors. The components of vectors are an
/// additional axis. Returns an error for arrays of structs or tuples.
pub(crate) fn scalars_only(array: &Array) -> HostResult<(Scalar, Vec<usize>)> {
    let mut shape = array.shape().to_vec();
    match array.element() {
        ElementType::Scalar(scalar) => Ok((*scalar, shape)),
        ElementType::Vector(scalar, lanes) => {
            shape.push(usize::from(*lanes));
            Ok((*scalar, shape))
        }
        ElementType::Record(record) => {
            Err(RuntimeError::new("E0715", format!("an array of {} cannot be saved in this format", array.element()))
                .help(match record.fields.first() {
                    Some(field) if !record.is_tuple() => {
                        format!("save its fields one by one: `{0} = x.{0}`", field.name)
                    }
                    _ => "save its parts one by one, or the whole as .npy".to_string(),
                }))
        }
    }
}
