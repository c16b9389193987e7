//! Catches unwinding from work on values: a stop request or a failed allocation. Other panics are resumed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::base::diag::Diagnostic;
use crate::base::room::Lacking;
use crate::base::source::Span;
use crate::base::stop::{self, Stopped};
use crate::host::problem::no_room;

/// Why work has unwound.
#[derive(Debug)]
pub enum Unwound {
    Stopped,
    /// An allocation of this many bytes failed.
    Lacking(u64),
}

/// Runs work that polls this stop flag; catches unwinding.
pub fn caught<T>(flag: stop::Flag, work: impl FnOnce() -> T) -> Result<T, Unwound> {
    let done = catch_unwind(AssertUnwindSafe(|| stop::watched(Some(flag), work)));
    done.map_err(|payload| match Unwound::of(payload) {
        Ok(why) => why,
        Err(panic) => resume_unwind(panic),
    })
}

impl Unwound {
    /// Decodes the payload of an unwinding; returns payloads of other kinds unchanged.
    pub fn of(payload: Box<dyn Any + Send>) -> Result<Unwound, Box<dyn Any + Send>> {
        let payload = match payload.downcast::<Lacking>() {
            Ok(lacking) => return Ok(Unwound::Lacking(lacking.wanted)),
            Err(other) => other,
        };
        payload.downcast::<Stopped>().map(|_| Unwound::Stopped)
    }

    /// Returns the diagnostic at a location.
    pub fn at(&self, span: Span) -> Diagnostic {
        match self {
            Unwound::Stopped => interrupted(span),
            Unwound::Lacking(bytes) => no_room(*bytes).at(span),
        }
    }

    /// Returns the diagnostic where no location is known.
    pub fn anywhere(&self) -> Diagnostic {
        let mut diagnostic = self.at(Span::default());
        diagnostic.labels.clear();
        diagnostic
    }
}

/// Returns the diagnostic of an interrupted script.
pub(crate) fn interrupted(at: Span) -> Diagnostic {
    Diagnostic::error("E0599", "interrupted").at(at, "the script was here")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::room;

    #[test]
    fn work_says_why_it_has_ended() {
        let quiet = stop::Flag::default;
        assert_eq!(caught(quiet(), || 7).ok(), Some(7));
        let lacking = caught(quiet(), || room::vec::<u8>(1 << 60).len()).unwrap_err();
        assert_eq!(lacking.anywhere().title, "there is not enough memory: 1073741824.0 GiB were asked for at once");
        let stopped = caught(stop::Flag::new(true.into()), stop::poll).unwrap_err();
        assert_eq!((stopped.anywhere().code, stopped.anywhere().labels.len()), ("E0599", 0));
        assert_eq!(stopped.at(Span::default()).labels.len(), 1);
    }

    #[test]
    fn other_payloads_go_on() {
        let outer = std::panic::catch_unwind(|| caught(stop::Flag::default(), || resume_unwind(Box::new(5))).is_ok());
        assert_eq!(outer.unwrap_err().downcast_ref(), Some(&5));
    }
}
