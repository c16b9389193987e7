//! What is to be saved, as formats ask for it.

use indexmap::IndexMap;
use smol_str::SmolStr;

use crate::base::escape;
use crate::host::array::{Array, Element};
use crate::host::files::kind::Format;
use crate::host::problem::{NO_GRAD, Outcome, Problem};
use crate::host::value::Value;
use crate::lang::scalar::Scalar;

/// The values to save.
pub(crate) struct Items {
    pub named: IndexMap<SmolStr, Value>,
    /// Whether the names were given by the user.
    pub has_names: bool,
}

impl Items {
    pub(crate) fn new(values: &[(Option<&str>, &Value)]) -> Outcome<Items> {
        let mut items = Items { named: IndexMap::new(), has_names: false };
        for (position, (name, value)) in values.iter().enumerate() {
            items.has_names |= name.is_some() || matches!(value, Value::Table(_));
            match (name, value) {
                (None, Value::Table(table)) => {
                    if let Some((name, problem)) = table.unreadable.first() {
                        let title = format!("the member `{}` of this table cannot be saved", escape::name(name));
                        let help = "save the other members by name: `save(\"out.npz\", x = t.x)`";
                        return Err(Problem::new("E0715", title).note(problem.title.clone()).help(help));
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
            return Err(Problem::new("E0715", "there is nothing to save").help("name a value: `save(\"out.npy\", x)`"));
        }
        Ok(items)
    }

    fn add(&mut self, name: SmolStr, column: Value) -> Outcome<()> {
        match self.named.insert(name.clone(), column) {
            None => Ok(()),
            Some(_) => Err(Problem::new("E0715", format!("two of the arrays to save are called `{name}`"))),
        }
    }

    /// Returns all values as arrays, for a format without text.
    pub(crate) fn arrays(&self, format: Format) -> Outcome<IndexMap<SmolStr, Array>> {
        let array = |(name, value): (&SmolStr, &Value)| Ok((name.clone(), numbers(value, format)?.clone()));
        self.named.iter().map(array).collect()
    }

    pub(crate) fn single(&self, format: Format) -> Outcome<&Array> {
        match (self.named.len(), self.named.first()) {
            (1, Some((_, array))) => numbers(array, format),
            (count, _) => {
                let title = format!("a .{} file holds one array, not {count}", format.extension());
                Err(Problem::new("E0715", title).help("save several as .npz: `save(\"out.npz\", x = x, y = y)`"))
            }
        }
    }
}

/// Returns the array in a value, for a format without text.
fn numbers(value: &Value, format: Format) -> Outcome<&Array> {
    match value {
        Value::Array(array) => Ok(array),
        _ => {
            let title = format!("a .{} file holds no text", format.extension());
            let help = "columns of text can be saved as .csv; `write_text(path, join(texts, \"\\n\"))` writes lines";
            Err(Problem::new("E0715", title).help(help))
        }
    }
}

/// Converts a value to an array of numbers or of texts.
fn to_arrays(value: &Value) -> Outcome<Value> {
    match value {
        Value::Array(_) | Value::Strings(_) => Ok(value.clone()),
        Value::Traced(_) => Err(Problem::new("E0715", "a value that is differentiated cannot be saved").help(NO_GRAD)),
        _ => {
            let name = value.type_name();
            let plain = crate::host::array::leaf::element_of(value).is_some();
            let refused = || Problem::new("E0715", format!("a value of type {name} cannot be saved"));
            if plain { Array::full(&value.clone().settled(), &[]).map(Value::Array) } else { Err(refused()) }
        }
    }
}

/// Returns scalar type and shape with vectors as an additional axis, for formats that have only scalars; an error for records.
pub(crate) fn scalars_only(array: &Array) -> Outcome<(Scalar, Vec<usize>)> {
    let mut shape = array.shape().to_vec();
    match array.element() {
        Element::Scalar(scalar) => Ok((*scalar, shape)),
        Element::Vector(scalar, lanes) => {
            shape.push(usize::from(*lanes));
            Ok((*scalar, shape))
        }
        Element::Record(record) => Err(Problem::new(
            "E0715",
            format!("an array of {} cannot be saved in this format", array.element()),
        )
        .help(match record.fields.first() {
            Some(field) if !record.is_tuple() => format!("save its fields one by one: `{0} = x.{0}`", field.name),
            _ => "save its parts one by one, or the whole as .npy".to_string(),
        })),
    }
}
