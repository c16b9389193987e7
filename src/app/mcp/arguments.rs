//! The parameters of tools: their schemas, and the arguments of a call.

use std::time::Duration;

use serde_json::{Map, Value, json};
use thiserror::Error;

/// A parameter of a tool.
#[derive(Clone, Copy)]
pub(super) struct Parameter {
    pub name: &'static str,
    pub kind: ParameterKind,
    pub is_required: bool,
    pub about: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ParameterKind {
    Text,
    /// One of these texts.
    Choice(&'static [&'static str]),
    Switch,
    /// An integer that is at least this number.
    Whole(u64),
    /// A positive number of seconds.
    Seconds,
    Texts,
    /// One to three indices.
    Coordinates,
}

impl Parameter {
    pub const fn optional(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
        Parameter { name, kind, is_required: false, about }
    }

    pub const fn required(name: &'static str, kind: ParameterKind, about: &'static str) -> Parameter {
        Parameter { name, kind, is_required: true, about }
    }

    fn schema(&self) -> Value {
        let mut schema = match self.kind {
            ParameterKind::Text => json!({ "type": "string" }),
            ParameterKind::Choice(values) => json!({ "type": "string", "enum": values }),
            ParameterKind::Switch => json!({ "type": "boolean" }),
            ParameterKind::Whole(least) => json!({ "type": "integer", "minimum": least }),
            ParameterKind::Seconds => json!({ "type": "number", "exclusiveMinimum": 0 }),
            ParameterKind::Texts => json!({ "type": "array", "items": { "type": "string" } }),
            ParameterKind::Coordinates => json!({
                "type": "array", "items": { "type": "integer", "minimum": 0 }, "minItems": 1, "maxItems": 3,
            }),
        };
        schema["description"] = json!(self.about);
        schema
    }

    fn accepts(&self, value: &Value) -> bool {
        match self.kind {
            ParameterKind::Text => value.is_string(),
            ParameterKind::Choice(values) => value.as_str().is_some_and(|text| values.contains(&text)),
            ParameterKind::Switch => value.is_boolean(),
            ParameterKind::Whole(least) => whole(value).is_some_and(|number| number >= least),
            ParameterKind::Seconds => value.as_f64().is_some_and(|seconds| seconds > 0.0),
            ParameterKind::Texts => value.as_array().is_some_and(|all| all.iter().all(Value::is_string)),
            ParameterKind::Coordinates => coordinates(value).is_some(),
        }
    }

    fn expected(&self) -> String {
        match self.kind {
            ParameterKind::Text => "a string".into(),
            ParameterKind::Choice(values) => format!("one of {}", quoted(values.iter().copied())),
            ParameterKind::Switch => "true or false".into(),
            ParameterKind::Whole(least) => format!("an integer from {least} on"),
            ParameterKind::Seconds => "a positive number of seconds".into(),
            ParameterKind::Texts => "a list of strings".into(),
            ParameterKind::Coordinates => "a list of one to three integers".into(),
        }
    }
}

/// Returns the schema of an object with these parameters.
pub(super) fn input_schema(parameters: &[Parameter]) -> Value {
    let properties: Map<String, Value> = parameters.iter().map(|p| (p.name.to_owned(), p.schema())).collect();
    let required: Vec<&str> = parameters.iter().filter(|p| p.is_required).map(|p| p.name).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

/// Why a tool rejects its arguments.
#[derive(Debug, Error)]
pub(super) enum ArgumentError {
    #[error("the arguments are not an object")]
    NotAnObject,
    #[error("there is no argument `{name}`; this tool has {known}")]
    Unknown { name: String, known: String },
    #[error("the argument `{name}` is missing")]
    Missing { name: &'static str },
    #[error("the argument `{name}` must be {expected}")]
    WrongType { name: &'static str, expected: String },
    #[error("give either `source` (a text) or `path` (a file)")]
    NoProgram,
}

/// The checked arguments of a call, a JSON object.
#[derive(Debug)]
pub(super) struct Arguments(Value);

impl Arguments {
    /// Checks arguments. An argument that is null is treated as missing.
    pub fn check(parameters: &[Parameter], arguments: Value) -> Result<Arguments, ArgumentError> {
        let mut given = match arguments {
            Value::Null => Map::new(),
            Value::Object(given) => given,
            _ => return Err(ArgumentError::NotAnObject),
        };
        given.retain(|_, value| !value.is_null());
        for (name, value) in &given {
            let Some(parameter) = parameters.iter().find(|parameter| parameter.name == name) else {
                let name = name.chars().take(80).collect();
                return Err(ArgumentError::Unknown { name, known: quoted(parameters.iter().map(|p| p.name)) });
            };
            if !parameter.accepts(value) {
                return Err(ArgumentError::WrongType { name: parameter.name, expected: parameter.expected() });
            }
        }
        match parameters.iter().find(|parameter| parameter.is_required && !given.contains_key(parameter.name)) {
            Some(missing) => Err(ArgumentError::Missing { name: missing.name }),
            None => Ok(Arguments(Value::Object(given))),
        }
    }

    pub fn as_json(&self) -> &Value {
        &self.0
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_str()
    }

    pub fn owned_text(&self, name: &str) -> Option<String> {
        self.text(name).map(str::to_owned)
    }

    pub fn switch(&self, name: &str) -> Option<bool> {
        self.0.get(name)?.as_bool()
    }

    pub fn whole(&self, name: &str) -> Option<u64> {
        whole(self.0.get(name)?)
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let texts = self.0.get(name).and_then(Value::as_array).into_iter().flatten();
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    pub fn coordinates(&self, name: &str) -> Option<Vec<u32>> {
        coordinates(self.0.get(name)?)
    }

    /// Returns the time limit of the call, which is at most `most`.
    pub fn time_limit(&self, most: Duration) -> Duration {
        let wanted = self.0.get("time_limit").and_then(Value::as_f64);
        // A number that is no duration is too large.
        wanted.map_or(most, |seconds| Duration::try_from_secs_f64(seconds).map_or(most, |wanted| wanted.min(most)))
    }
}

fn coordinates(value: &Value) -> Option<Vec<u32>> {
    let all = value.as_array().filter(|all| (1..=3).contains(&all.len()))?;
    all.iter().map(|number| whole(number).and_then(|number| u32::try_from(number).ok())).collect()
}

/// Returns a number without a sign and a fraction. Some clients write integers as `3.0`.
fn whole(value: &Value) -> Option<u64> {
    /// From this number on, an `f64` does not represent all integers.
    const END: f64 = (1u64 << 53) as f64;
    let integral = |number: f64| (number.fract() == 0.0 && (0.0..END).contains(&number)).then_some(number as u64);
    value.as_u64().or_else(|| value.as_f64().and_then(integral))
}

fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_checked() {
        const PARAMETERS: &[Parameter] = &[
            Parameter::required("line", ParameterKind::Whole(1), "A line"),
            Parameter::optional("language", ParameterKind::Choice(&["clk", "cuda"]), "The language"),
            Parameter::optional("thread", ParameterKind::Coordinates, "A thread"),
            Parameter::optional("time_limit", ParameterKind::Seconds, "Seconds"),
        ];
        let error = |arguments: Value| Arguments::check(PARAMETERS, arguments).map_err(|why| why.to_string()).err();
        assert_eq!(error(json!({ "line": 1, "language": null })), None);
        for (arguments, expected) in [
            (json!([]), "not an object"),
            (json!(null), "`line` is missing"),
            (json!({ "line": 0 }), "an integer from 1 on"),
            (json!({ "line": 1.5 }), "an integer"),
            (json!({ "line": -1 }), "an integer"),
            (json!({ "line": 1e17 }), "an integer"),
            (json!({ "line": -0.5 }), "an integer"),
            (json!({ "line": "1" }), "an integer"),
            (json!({ "line": 1, "lines": 2 }), "no argument `lines`; this tool has `line`, `language`"),
            (json!({ "line": 1, "language": "c" }), "one of `clk`, `cuda`"),
            (json!({ "line": 1, "thread": [] }), "a list of one to three integers"),
            (json!({ "line": 1, "thread": [5_000_000_000u64] }), "a list of one to three integers"),
            (json!({ "line": 1, "time_limit": 0 }), "a positive number"),
        ] {
            assert!(error(arguments.clone()).is_some_and(|why| why.contains(expected)), "{arguments}");
        }
        let checked = Arguments::check(PARAMETERS, json!({ "line": 3.0, "thread": [1, 2.0], "time_limit": 0.5 }));
        let checked = checked.expect("valid arguments");
        assert_eq!((checked.whole("line"), checked.coordinates("thread")), (Some(3), Some(vec![1, 2])));
        assert_eq!(checked.time_limit(Duration::from_secs(9)), Duration::from_millis(500));
        assert_eq!(checked.time_limit(Duration::from_millis(1)), Duration::from_millis(1));
        for huge in [1e10, 1e300] {
            let checked =
                Arguments::check(PARAMETERS, json!({ "line": 3, "time_limit": huge })).expect("valid arguments");
            assert_eq!(checked.time_limit(Duration::from_secs(9)), Duration::from_secs(9));
        }
    }
}
