//! Catches the unwinding of the stack that a stop request or a failed allocation causes. Other panics are resumed.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use crate::problem::out_of_memory;
use clk_base::alloc::AllocError;
use clk_base::diag::Diagnostic;
use clk_base::source::Span;
use clk_base::stop::{self, Stopped};

/// The cause of an unwind.
#[derive(Debug)]
pub enum UnwindReason {
    Stopped,
    /// An allocation of this many bytes failed.
    OutOfMemory(u64),
}

/// Runs `work`, which polls the stop flag `flag`. If the work unwinds because of a stop request or a failed allocation,
/// returns the cause.
pub fn catch_stop<T>(flag: stop::StopFlag, work: impl FnOnce() -> T) -> Result<T, UnwindReason> {
    let done = catch_unwind(AssertUnwindSafe(|| stop::with_flag(Some(flag), work)));
    done.map_err(|payload| match UnwindReason::from_payload(payload) {
        Ok(why) => why,
        Err(panic) => resume_unwind(panic),
    })
}

impl UnwindReason {
    /// Decodes the payload of an unwind. Returns a payload of another panic unchanged, as the error.
    pub fn from_payload(payload: Box<dyn Any + Send>) -> Result<UnwindReason, Box<dyn Any + Send>> {
        let payload = match payload.downcast::<AllocError>() {
            Ok(lacking) => return Ok(UnwindReason::OutOfMemory(lacking.requested)),
            Err(other) => other,
        };
        payload.downcast::<Stopped>().map(|_| UnwindReason::Stopped)
    }

    /// Returns the diagnostic for this cause at a location.
    pub fn at(&self, span: Span) -> Diagnostic {
        match self {
            UnwindReason::Stopped => interrupted(span),
            UnwindReason::OutOfMemory(bytes) => out_of_memory(*bytes).at(span),
        }
    }

    /// Returns the diagnostic for this cause without a location.
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
    use clk_base::alloc;

    #[test]
    fn ended_work_returns_its_reason() {
        let quiet = stop::StopFlag::default;
        assert_eq!(catch_stop(quiet(), || 7).ok(), Some(7));
        let lacking = catch_stop(quiet(), || alloc::vec::<u8>(1 << 60).len()).unwrap_err();
        assert_eq!(lacking.anywhere().title, "there is not enough memory: 1073741824.0 GiB were requested at once");
        let stopped = catch_stop(stop::StopFlag::new(true.into()), stop::poll).unwrap_err();
        assert_eq!((stopped.anywhere().code, stopped.anywhere().labels.len()), ("E0599", 0));
        assert_eq!(stopped.at(Span::default()).labels.len(), 1);
    }

    #[test]
    fn other_panics_propagate() {
        let outer =
            std::panic::catch_unwind(|| catch_stop(stop::StopFlag::default(), || resume_unwind(Box::new(5))).is_ok());
        assert_eq!(outer.unwrap_err().downcast_ref(), Some(&5));
    }
}
