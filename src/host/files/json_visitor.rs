//! Visits the elements of a JSON array, and the members of a JSON object, one at a time and without copies.

use std::fmt;

use serde::Deserializer as _;
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::problem::HostResult;

/// Calls `visit` with each element of the JSON array `raw`, until it returns an error.
pub(super) fn for_each_element<'t>(
    raw: &'t str,
    visit: impl FnMut(&'t RawValue) -> HostResult<()>,
) -> serde_json::Result<HostResult<()>> {
    let mut result = Ok(());
    let visitor = ElementVisitor { visit, result: &mut result };
    let visited = serde_json::Deserializer::from_str(raw).deserialize_seq(visitor);
    if result.is_err() { Ok(result) } else { visited.map(Ok) }
}

/// Calls `visit` with the name and the value of each member of the JSON object `raw`, until it returns an error.
pub(super) fn for_each_member<'t>(
    raw: &'t str,
    visit: impl FnMut(String, &'t RawValue) -> HostResult<()>,
) -> serde_json::Result<HostResult<()>> {
    let mut result = Ok(());
    let visitor = MemberVisitor { visit, result: &mut result };
    let visited = serde_json::Deserializer::from_str(raw).deserialize_map(visitor);
    if result.is_err() { Ok(result) } else { visited.map(Ok) }
}

struct ElementVisitor<'r, F> {
    visit: F,
    /// The error of `visit`, which serde's errors cannot contain.
    result: &'r mut HostResult<()>,
}

impl<'t, F: FnMut(&'t RawValue) -> HostResult<()>> Visitor<'t> for ElementVisitor<'_, F> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'t>>(mut self, mut elements: A) -> Result<(), A::Error> {
        while let Some(element) = elements.next_element()? {
            *self.result = (self.visit)(element);
            if self.result.is_err() {
                return Err(A::Error::custom("the visitor failed"));
            }
        }
        Ok(())
    }
}

struct MemberVisitor<'r, F> {
    visit: F,
    /// The error of `visit`, which serde's errors cannot contain.
    result: &'r mut HostResult<()>,
}

impl<'t, F: FnMut(String, &'t RawValue) -> HostResult<()>> Visitor<'t> for MemberVisitor<'_, F> {
    type Value = ();

    fn expecting(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str("an object")
    }

    fn visit_map<A: MapAccess<'t>>(mut self, mut members: A) -> Result<(), A::Error> {
        while let Some((name, value)) = members.next_entry::<String, &RawValue>()? {
            *self.result = (self.visit)(name, value);
            if self.result.is_err() {
                return Err(A::Error::custom("the visitor failed"));
            }
        }
        Ok(())
    }
}
