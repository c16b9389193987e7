//! Replies to requests. Each is one JSON object, on a line or as the header of a frame.

use std::io::{self, Write};

use super::data::HostArrays;
use super::frame::prefix;
use super::launch_error::{self, LaunchRequestError};
use super::write::{self, ArrayEncoding, string};
use clk_base::diag::Diagnostic;
use clk_base::source::SourceMap;

/// A reply that is being created.
#[derive(Default)]
pub(crate) struct LaunchReply {
    /// The `id` as the request has it.
    id: Option<String>,
    framed: bool,
    /// The fields: the name and the JSON text of each.
    fields: Vec<(&'static str, String)>,
    arrays: Option<HostArrays>,
    encoding: ArrayEncoding,
}

impl LaunchReply {
    /// Creates a reply to the request with this `id`, which is sent as a line or as a frame.
    pub fn to(id: Option<String>, framed: bool) -> LaunchReply {
        LaunchReply { id, framed, ..LaunchReply::default() }
    }

    /// Adds a field with a JSON text.
    pub fn field(mut self, name: &'static str, json: impl Into<String>) -> LaunchReply {
        self.fields.push((name, json.into()));
        self
    }

    /// Adds the arrays that a request asks for or a launch has written.
    pub fn arrays(mut self, arrays: HostArrays, encoding: ArrayEncoding) -> LaunchReply {
        (self.arrays, self.encoding) = (Some(arrays), encoding);
        self
    }

    /// Adds the text that kernels have printed, unless it is empty.
    pub fn output(self, text: &str) -> LaunchReply {
        if text.is_empty() { self } else { self.field("output", string(text)) }
    }

    pub fn warnings(self, warnings: &[Diagnostic], sources: &SourceMap) -> LaunchReply {
        if warnings.is_empty() { self } else { self.field("warnings", launch_error::list(warnings, sources)) }
    }

    /// Turns the reply into one that reports the errors of a failed request.
    pub(crate) fn refuse(self, refusal: LaunchRequestError, request: &str, sources: &SourceMap) -> LaunchReply {
        let (diagnostics, sources) = refusal.diagnostics(request, sources);
        self.field("errors", launch_error::list(&diagnostics, &sources))
    }

    /// Writes the reply to a stream, as a line or as a frame.
    pub fn send(&self, out: &mut dyn Write) -> io::Result<()> {
        if !self.framed {
            self.write(out)?;
            return out.write_all(b"\n");
        }
        let mut header = Vec::new();
        self.write(&mut header)?;
        let blocks =
            || self.arrays.iter().flatten().map(|(_, array)| array).filter(|_| self.encoding == ArrayEncoding::Block);
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
            if self.encoding == ArrayEncoding::Block {
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
