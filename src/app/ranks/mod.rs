//! The ranks of a script: several processes, on one node or several, that run the same script and exchange arrays.
//!
//! Input: variables of a launcher (`environment`) or `clk run --ranks` (`start`). Output: the [`Group`] of this
//! process (`link`), which the interpreter asks. Idea: every rank has one connection to rank 0, over which calls are compared and values go;
//! rank 0 alone decides what follows from a call (`hub`), and messages are bounded and checked (`wire`).
//!
//! # What holds
//! - A script that calls none of the builtins for ranks does not connect, whatever the variables say.
//! - Ranks run one program and one version of Clk, and know one token; else they do not begin.
//! - Calls that do not fit, a rank that waits in vain, and a rank that fails end all ranks with a message that says why, within seconds. The
//!   message of a failure is that of the rank that failed; the others exit with [`exit::OTHER_RANK`].
//! - A rank that is over waits for nobody, but rank 0 does, since the others need it.
//! - In a process of another language, the end of the ranks is an error of the calls that are under way and of the next ones. The process goes
//!   on.

pub(crate) mod environment;
mod greet;
mod hub;
mod link;
mod start;
mod wire;

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

pub(crate) use environment::is_launched;
use link::LastResort;
pub(crate) use link::Member;
pub(crate) use start::{all, follow_launcher};

use self::environment::WAIT;
use super::context::Context;
use super::exit;
use crate::base::diag::Diagnostic;
use crate::base::source::{FileId, Sources};
use crate::compile::Session;
use crate::device::exchange;
use crate::host::ranks::Group;
use crate::lang::builtin::{self, Builtin};
use crate::syntax;
use crate::syntax::token::Tok;

const USUAL_WAIT: u64 = 300;

/// Returns the place of this process among ranks, as the environment says.
pub(crate) fn place() -> Result<Option<environment::Place>, String> {
    environment::place(|name| std::env::var(name).ok())
}

/// Leaves NVLink's multicast off for NCCL, unless the user wants it: there are machines on which it does not start. To be called before
/// there are threads.
pub(crate) fn prepare() {
    const MULTICAST: &str = "NCCL_NVLS_ENABLE";
    if std::env::var_os(MULTICAST).is_none() && matches!(place(), Ok(Some(_))) {
        // SAFETY: no other thread reads or changes the environment yet.
        unsafe { std::env::set_var(MULTICAST, "0") };
    }
}

/// Joins the other ranks, if there are any and the program has to do with them.
pub(crate) fn enter(session: &Session, context: &Context) -> Result<Option<Arc<Member>>, String> {
    if !concerns(&session.sources) {
        return Ok(None);
    }
    let Some(place) = place()? else { return Ok(None) };
    let program = link::Program { hash: hash(&session.sources), patience: patience()? };
    let stop = context.interrupt.flag();
    let member = link::join(&place, &program, start::listener(), &stop, LastResort::Exit)?;
    // Until the process ends.
    std::mem::forget(member.begin(stop));
    Ok(Some(member))
}

/// Returns how long ranks wait for each other at the start.
fn patience() -> Result<Duration, String> {
    let seconds = match std::env::var(WAIT).ok().filter(|text| !text.is_empty()) {
        Some(text) => text.parse().map_err(|_| format!("{WAIT} is `{text}`, and no number of seconds"))?,
        None => USUAL_WAIT,
    };
    Ok(Duration::from_secs(seconds))
}

/// The rank that this process is for programs that another language runs.
static EMBEDDED: Mutex<Option<Arc<Member>>> = Mutex::new(None);

/// Joins the other ranks for a program that another language runs, if it has to do with them. All such programs of a process are one rank,
/// as which the first of them joins, whose text has to be the same on all. Calls are compared, whichever program makes them.
pub(crate) fn embedded(sources: &Sources, stop: &Arc<AtomicBool>) -> Result<Option<Arc<Member>>, String> {
    if !concerns(sources) {
        return Ok(None);
    }
    let Some(place) = place()? else { return Ok(None) };
    let mut joined = EMBEDDED.lock().unwrap_or_else(PoisonError::into_inner);
    if joined.is_none() {
        let program = link::Program { hash: hash(sources), patience: patience()? };
        *joined = Some(link::join(&place, &program, None, stop, LastResort::Nothing)?);
    }
    Ok(joined.clone())
}

/// Ends the part of a process that runs such programs, at its end: rank 0 waits for the others.
pub(crate) fn part() {
    let joined = EMBEDDED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(member) = joined {
        // How the others end is theirs to say.
        let _ = member.finish();
        member.leave();
    }
}

/// Returns all sources.
fn files(sources: &Sources) -> impl Iterator<Item = &str> {
    (0..).map_while(|file| sources.get(FileId(file)).map(|source| &*source.text))
}

/// Whether a program calls a builtin for ranks. One that gives such a name to a function of its own counts, too.
fn concerns(sources: &Sources) -> bool {
    let names: Vec<&str> =
        builtin::TABLE.iter().filter(|e| matches!(e.builtin, Builtin::Together(_))).map(|e| e.name).collect();
    files(sources).filter(|text| names.iter().any(|name| text.contains(name))).any(|text| {
        let tokens = syntax::lex(FileId(0), text).tokens;
        tokens.windows(2).any(|pair| {
            matches!(pair, [name, open] if name.kind == Tok::Name && open.kind == Tok::LParen && names.contains(&name.text(text)))
        })
    })
}

/// Returns what tells programs apart.
fn hash(sources: &Sources) -> String {
    let sums: Vec<String> = files(sources).map(|text| format!("{:016x}", environment::sum(text))).collect();
    format!("{:016x}", environment::sum(&sums.join("/")))
}

/// Ends the part of this rank: returns the diagnostic to report, if there is one, and the exit code.
pub(crate) fn leave(
    member: &Member,
    failed: Option<Diagnostic>,
    code: u8,
    sources: &Sources,
) -> (Option<Diagnostic>, u8) {
    let ending = match (member.ended(), &failed) {
        // One that fails by itself says that, even if the others have ended meanwhile.
        (Some(_), Some(own)) if !is_of_ending(own) => {
            member.leave();
            return (failed, code);
        }
        (Some(ending), _) => Some(ending),
        (None, Some(own)) => {
            member.fail(&said(own, sources));
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
    let code = if ending.is_of_another() { exit::OTHER_RANK } else { exit::FAILURE };
    (Some(ending.at(at, sources)), code)
}

/// Returns the diagnostic of a failed call from another language. If the end of the ranks caused the failure, it says why they ended.
pub(crate) fn explained(member: &Member, failed: Diagnostic, sources: &Sources) -> Diagnostic {
    match member.ended().filter(|_| is_of_ending(&failed)) {
        Some(ending) => ending.at(failed.primary().unwrap_or_default(), sources),
        None => failed,
    }
}

/// Whether the end of the ranks can have caused a diagnostic: a call got no answer, a script or a kernel was stopped, or a device's exchange
/// was ended.
fn is_of_ending(diagnostic: &Diagnostic) -> bool {
    let codes = ["E0550", "E0551", "E0554", "E0599", "E0607"];
    codes.contains(&diagnostic.code) || diagnostic.title.contains(exchange::ENDED)
}

/// Returns a failure in one line, for other ranks.
fn said(diagnostic: &Diagnostic, sources: &Sources) -> String {
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
        let mut sources = Sources::default();
        sources.add("a.clk", text);
        concerns(&sources)
    }

    #[test]
    fn programs_that_have_nothing_to_do_with_ranks_do_not_connect() {
        assert!(concerned("print(rank())"));
        assert!(concerned("let x = 1\nlet y = all_reduce(x)"));
        assert!(!concerned("let rank = [1, 2]\nprint(rank[0]) // send(x)"));
        assert!(!concerned("print(\"rank()\")"));
    }
}
