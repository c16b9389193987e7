//! Replies: one JSON object each, on a line or in a frame.

use std::io::{self, Write};

use super::data::HostArrays;
use super::frame::prefix;
use super::refusal::{self, Refusal};
use super::write::{self, Encoding, string};
use crate::base::diag::Diagnostic;
use crate::base::source::Sources;

/// A reply under construction.
#[derive(Default)]
pub(crate) struct Reply {
    /// The `id` as the request wrote it.
    id: Option<String>,
    framed: bool,
    /// Field names and JSON texts.
    fields: Vec<(&'static str, String)>,
    arrays: Option<HostArrays>,
    encoding: Encoding,
}

impl Reply {
    /// Creates a reply to the request with this `id`, as a line or as a frame.
    pub fn to(id: Option<String>, framed: bool) -> Reply {
        Reply { id, framed, ..Reply::default() }
    }

    /// Adds a field with a JSON text.
    pub fn field(mut self, name: &'static str, json: impl Into<String>) -> Reply {
        self.fields.push((name, json.into()));
        self
    }

    /// Adds arrays.
    pub fn arrays(mut self, arrays: HostArrays, encoding: Encoding) -> Reply {
        (self.arrays, self.encoding) = (Some(arrays), encoding);
        self
    }

    /// Adds what kernels printed, unless it is empty.
    pub fn output(self, text: &str) -> Reply {
        if text.is_empty() { self } else { self.field("output", string(text)) }
    }

    pub fn warnings(self, warnings: &[Diagnostic], sources: &Sources) -> Reply {
        if warnings.is_empty() { self } else { self.field("warnings", refusal::list(warnings, sources)) }
    }

    /// Adds the errors of a failed request.
    pub(crate) fn refuse(self, refusal: Refusal, request: &str, sources: &Sources) -> Reply {
        let (diagnostics, sources) = refusal.diagnostics(request, sources);
        self.field("errors", refusal::list(&diagnostics, &sources))
    }

    /// Writes the reply as a line or as a frame.
    pub fn send(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.framed {
            self.write(out)?;
            return out.write_all(b"\n");
        }
        let mut header = Vec::new();
        self.write(&mut header)?;
        let blocks =
            || self.arrays.iter().flatten().map(|(_, array)| array).filter(|_| self.encoding == Encoding::Block);
        let payload = blocks().map(|array| array.byte_len() as u64).sum();
        out.write_all(&prefix(header.len(), payload)?)?;
        out.write_all(&header)?;
        blocks().try_for_each(|array| out.write_all(array.bytes()))
    }

    /// Writes the JSON object without a line end.
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        let mut comma = "";
        out.write_all(b"{")?;
        if let Some(id) = &self.id {
            write!(out, "\"id\": {id}")?;
            comma = ", ";
        }
        if let Some(arrays) = &self.arrays {
            write!(out, "{comma}\"arrays\": {{")?;
            for (number, (name, array)) in arrays.iter().enumerate() {
                write!(out, "{}{}: ", if number > 0 { ", " } else { "" }, string(name))?;
                write::array(out, array, self.encoding, number)?;
            }
            out.write_all(b"}")?;
            comma = ", ";
            if self.encoding == Encoding::Block {
                let lengths: Vec<usize> = arrays.values().map(|array| array.byte_len()).collect();
                write!(out, ", \"blocks\": {lengths:?}")?;
            }
        }
        for (name, json) in &self.fields {
            write!(out, "{comma}\"{name}\": {json}")?;
            comma = ", ";
        }
        out.write_all(b"}")
    }
}
