//! Ranks: several processes that run the same script, on one or several nodes, and exchange arrays.
//!
//! Input: the variables that a launcher has set (`environment`), or `clk run --ranks` (`launcher`). Output: the
//! [`RankCommunicator`] of this process (`connections`), which the interpreter uses. Each rank has a connection to rank
//! 0, which compares the calls of all ranks and answers them (`coordinator`). The size of messages is limited, and
//! their content is validated (`wire`).
//!
//! # Guarantees
//! - A script that uses no builtin for ranks never connects to other processes.
//! - All ranks must run the same program and the same version of Clk, and know the same token. Otherwise, they do not
//!   start.
//! - Calls that do not match, a deadlock, or the failure of a rank end all ranks within seconds, with an explanation.
//!   The rank that failed reports its error; the others exit with [`exit::OTHER_RANK`].
//! - A rank ends as soon as its script has finished. Rank 0 also waits for the other ranks, because they depend on it.
//! - If another language runs the process, the end of the ranks does not end it. Pending and later calls return an
//!   error.

mod connections;
mod coordinator;
pub(crate) mod environment;
mod handshake;
mod join_error;
mod launcher;
mod wire;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use connections::LastResort;
pub(crate) use connections::RankMember;
pub(crate) use environment::is_launched;
pub(crate) use launcher::{follow_launcher, run_ranks};

use self::environment::{RankEnvironmentError, WAIT};
use self::join_error::JoinError;
use super::context::AppContext;
use super::exit;
use clk_base::diag::Diagnostic;
use clk_base::source::{FileId, SourceMap};
use clk_compile::Session;
use clk_host::ranks::RankCommunicator;
use clk_runtime::exchange;
use clk_scalar::builtin::{self, Builtin};
use clk_syntax::token::Tok;

const USUAL_WAIT: u64 = 300;

/// Determines the rank of this process from the environment.
pub(crate) fn place() -> Result<Option<environment::RankEnvironment>, RankEnvironmentError> {
    environment::rank_environment(|name| std::env::var(name).ok())
}

/// Disables NVLink multicast for NCCL, because NCCL fails to start with it on some machines. Does nothing if the user
/// has set the variable. Must be called before other threads exist.
pub(crate) fn prepare() {
    const MULTICAST: &str = "NCCL_NVLS_ENABLE";
    if std::env::var_os(MULTICAST).is_none() && matches!(place(), Ok(Some(_))) {
        // SAFETY: there are no other threads yet that could read or change the environment.
        unsafe { std::env::set_var(MULTICAST, "0") };
    }
}

/// Connects to the other ranks. Returns `None` if there are none or the program uses no builtin for ranks.
pub(crate) fn join(session: &Session, context: &AppContext) -> Result<Option<Arc<RankMember>>, JoinError> {
    if !uses_ranks(&session.sources) {
        return Ok(None);
    }
    let Some(place) = place()? else { return Ok(None) };
    let program = connections::RankProgram { hash: hash(&session.sources), patience: patience()? };
    let stop = context.interrupt.flag();
    let member = connections::join(&place, &program, launcher::listener(), &stop, LastResort::Exit)?;
    // The registration lasts until the process ends.
    std::mem::forget(member.begin(stop));
    Ok(Some(member))
}

/// Returns how long ranks wait for each other at the start.
fn patience() -> Result<Duration, JoinError> {
    let seconds = match std::env::var(WAIT).ok().filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map_err(|_| JoinError::Wait(text))?,
        None => USUAL_WAIT,
    };
    Ok(Duration::from_secs(seconds))
}

/// The membership of this process, for programs that another language calls.
static EMBEDDED: Mutex<Option<Arc<RankMember>>> = Mutex::new(None);

/// Connects to the other ranks for a program that another language calls, if it uses a builtin for ranks. All such
/// programs of a process are one rank. The first of them connects, so it must be the same on all ranks. The calls of
/// all programs are compared together.
pub(crate) fn join_embedded(sources: &SourceMap, stop: &Arc<AtomicBool>) -> Result<Option<Arc<RankMember>>, JoinError> {
    if !uses_ranks(sources) {
        return Ok(None);
    }
    let Some(place) = place()? else { return Ok(None) };
    let mut joined = EMBEDDED.lock().unwrap_or_else(PoisonError::into_inner);
    if joined.is_none() {
        let program = connections::RankProgram { hash: hash(sources), patience: patience()? };
        *joined = Some(connections::join(&place, &program, None, stop, LastResort::Nothing)?);
    }
    Ok(joined.clone())
}

/// Leaves the communicator at the end of such a process. Rank 0 waits for the other ranks.
pub(crate) fn leave_embedded() {
    let joined = EMBEDDED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(member) = joined {
        // An error is ignored, because the other ranks report it.
        let _ = member.finish();
        member.leave();
    }
}

/// Returns the texts of all sources of a program.
fn files(sources: &SourceMap) -> impl Iterator<Item = &str> {
    (0..).map_while(|file| sources.get(FileId(file)).map(|source| &*source.text))
}

/// Whether a program uses a builtin for ranks. Returns true also if it calls its own function with such a name.
fn uses_ranks(sources: &SourceMap) -> bool {
    let names: Vec<&str> =
        builtin::TABLE.iter().filter(|e| matches!(e.builtin, Builtin::RankFn(_))).map(|e| e.name).collect();
    files(sources).filter(|text| names.iter().any(|name| text.contains(name))).any(|text| {
        let tokens = clk_syntax::lex(FileId(0), text).tokens;
        tokens.windows(2).any(|pair| {
            matches!(pair, [name, open] if name.kind == Tok::Name && open.kind == Tok::LParen && names.contains(&name.text(text)))
        })
    })
}

/// Returns a hash of the sources of a program.
fn hash(sources: &SourceMap) -> String {
    let sums: Vec<String> = files(sources).map(|text| format!("{:016x}", environment::fnv1a(text))).collect();
    format!("{:016x}", environment::fnv1a(&sums.join("/")))
}

/// Leaves the communicator after a run. Returns the diagnostic to report, if any, and the exit code.
pub(crate) fn leave(
    member: &RankMember,
    failed: Option<Diagnostic>,
    code: u8,
    sources: &SourceMap,
) -> (Option<Diagnostic>, u8) {
    let ending = match (member.ended(), &failed) {
        // If this rank failed for a reason of its own, reports that, even if other ranks have ended meanwhile.
        (Some(_), Some(own)) if !may_result_from_end(own) => {
            member.leave();
            return (failed, code);
        }
        (Some(ending), _) => Some(ending),
        (None, Some(own)) => {
            member.fail(&one_line(own, sources));
            return (failed, code);
        }
        (None, None) => member.finish().err(),
    };
    let Some(ending) = ending else {
        member.leave();
        return (None, code);
    };
    member.leave();
    let at = failed.as_ref().and_then(Diagnostic::primary).unwrap_or_default();
    let code = if ending.is_failure_of_another_rank() { exit::OTHER_RANK } else { exit::FAILURE };
    (Some(ending.at(at, sources)), code)
}

/// Returns the diagnostic for a failed call from another language. If the call failed because the ranks have ended,
/// the diagnostic states why they ended.
pub(crate) fn explain_failure(member: &RankMember, failed: Diagnostic, sources: &SourceMap) -> Diagnostic {
    match member.ended().filter(|_| may_result_from_end(&failed)) {
        Some(ending) => ending.at(failed.primary().unwrap_or_default(), sources),
        None => failed,
    }
}

/// Whether the end of the ranks can be the cause of a diagnostic. This is possible if a call got no answer, a script or
/// kernel was stopped, or an exchange between devices was aborted.
fn may_result_from_end(diagnostic: &Diagnostic) -> bool {
    let codes = ["E0550", "E0551", "E0554", "E0599", "E0607"];
    codes.contains(&diagnostic.code) || diagnostic.title.contains(exchange::ENDED)
}

/// Formats a diagnostic on one line, to be sent to the other ranks.
fn one_line(diagnostic: &Diagnostic, sources: &SourceMap) -> String {
    let place = diagnostic.primary().and_then(|span| {
        let source = sources.get(span.file)?;
        let line = source.text.get(..span.start as usize)?.matches('\n').count() + 1;
        Some(format!(" ({}:{line})", source.name))
    });
    format!("{}{}", diagnostic.title, place.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn concerned(text: &str) -> bool {
        let mut sources = SourceMap::default();
        sources.add("a.clk", text);
        uses_ranks(&sources)
    }

    #[test]
    fn programs_without_ranks_do_not_connect() {
        assert!(concerned("print(rank())"));
        assert!(concerned("let x = 1\nlet y = all_reduce(x)"));
        assert!(!concerned("let rank = [1, 2]\nprint(rank[0]) // send(x)"));
        assert!(!concerned("print(\"rank()\")"));
    }
}
