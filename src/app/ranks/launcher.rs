//! `clk run --ranks N`: starts the ranks of a script as processes on this machine, and waits for them.
//!
//! Input: the command line. Each rank runs the same command line, with environment variables that contain its rank.
//! Output: the output of all ranks, and the exit code of the first rank that failed for a reason of its own.
//!
//! Lines of standard output and standard error are forwarded when they are complete, in the order of their arrival. The
//! standard input of each rank is a pipe from this process. When this process ends, even by a crash, the ranks notice
//! it by that pipe.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::environment::{self, LAUNCHED_BY_CLK, is_launched};
use crate::context::AppContext;
use crate::{exit, own_program};

/// The environment variable with the file descriptor of a listening socket.
const LISTENER: &str = "CLK_LISTENER";

/// After one rank has failed, how long the others may take to end by themselves.
const END_TIMEOUT: Duration = Duration::from_secs(15);
/// After Ctrl-C, how long the ranks may take to end.
const INTERRUPT_TIMEOUT: Duration = Duration::from_secs(3);
/// Maximum length of a line in bytes. A longer line is forwarded in several parts.
const LONGEST_LINE: u64 = 1 << 20;

/// Makes this process end when its launcher has ended, if it has one.
pub(crate) fn follow_launcher() {
    if !is_launched() {
        return;
    }
    let follow = || {
        let mut rest = [0; 64];
        while !matches!(io::stdin().lock().read(&mut rest), Ok(0) | Err(_)) {}
        crate::temp_files::remove_all();
        exit::exit_immediately(exit::OTHER_RANK)
    };
    let _ = std::thread::Builder::new().name("clk-launcher".into()).spawn(follow);
}

/// Returns the listening socket that the launcher has passed to rank 0.
#[cfg(unix)]
pub(super) fn listener() -> Option<TcpListener> {
    use std::os::fd::FromRawFd;
    let descriptor: i32 = std::env::var(LISTENER).ok()?.parse().ok()?;
    if !is_launched() || descriptor <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: the launcher passed this descriptor only to this process. If it is not open, its first use fails.
    Some(unsafe { TcpListener::from_raw_fd(descriptor) })
}

#[cfg(not(unix))]
pub(super) fn listener() -> Option<TcpListener> {
    None
}

/// Starts all ranks, and waits until they have ended; returns the exit code.
pub(crate) fn run_ranks(ranks: u32, context: &mut AppContext) -> u8 {
    let mut children = match start(ranks) {
        Ok(children) => children,
        Err(error) => {
            context.console.error_line(&format!("error: the ranks cannot be started: {error}"));
            return exit::FAILURE;
        }
    };
    let code = wait_for_ranks(&mut children, context);
    let outputs = children.iter_mut().flat_map(|child| child.outputs.drain(..));
    let write_errors: Vec<io::Error> = outputs.filter_map(|thread| thread.join().ok()?).collect();
    // A closed pipe, as in `clk run … | head`, is not a failure.
    let Some(error) = write_errors.into_iter().find(|error| error.kind() != io::ErrorKind::BrokenPipe) else {
        return code;
    };
    context.console.error_line(&format!("error: standard output cannot be written: {error}"));
    if code == exit::OK { exit::FAILURE } else { code }
}

/// A rank that was started.
struct StartedRank {
    process: Child,
    ended: Option<u8>,
    /// The threads that forward the rank's output. Each returns the first error that occurred while writing.
    outputs: Vec<std::thread::JoinHandle<Option<io::Error>>>,
}

impl Drop for StartedRank {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

fn start(ranks: u32) -> io::Result<Vec<StartedRank>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let token = token(port);
    // A socket cannot be passed to a child process here, so rank 0 opens the port itself.
    #[cfg(not(unix))]
    drop(listener);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut started = Vec::new();
    for rank in 0..ranks {
        let mut command = own_program::binary();
        command.args(&arguments);
        let variables = [
            (environment::RANK, rank.to_string()),
            (environment::RANKS, ranks.to_string()),
            (environment::LOCAL, rank.to_string()),
            (environment::HOST, "127.0.0.1".into()),
            (environment::PORT, port.to_string()),
            (environment::TOKEN, token.clone()),
            (LAUNCHED_BY_CLK, "1".into()),
        ];
        command.envs(variables).env_remove(LISTENER);
        if io::stdout().is_terminal() && io::stderr().is_terminal() {
            // The ranks write to pipes, but their output appears in a terminal. These variables keep its colors and
            // width.
            command.env("CLICOLOR_FORCE", "1").env("COLUMNS", crate::tty::width().to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        isolate_process(&mut command, (rank == 0).then_some(&listener));
        let mut process = command.spawn()?;
        let mut outputs = Vec::new();
        if let Some(out) = process.stdout.take() {
            outputs.push(std::thread::Builder::new().spawn(move || forward_lines(out, io::stdout))?);
        }
        if let Some(out) = process.stderr.take() {
            outputs.push(std::thread::Builder::new().spawn(move || {
                // An error in writing to standard error cannot be reported anywhere.
                forward_lines(out, io::stderr);
                None
            })?);
        }
        started.push(StartedRank { process, ended: None, outputs });
    }
    Ok(started)
}

/// Puts a rank into a process group of its own. It then receives Ctrl-C only from this process, not also from the
/// terminal. Passes a socket to it, if there is one.
#[cfg(unix)]
fn isolate_process(command: &mut Command, socket: Option<&TcpListener>) {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    // A rank that is suspended (SIGSTOP) cannot notice the end of its standard input. If this process dies, the system
    // resumes it.
    #[cfg(target_os = "linux")]
    // SAFETY: `prctl` may be called between fork and exec, and nothing is allocated.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGCONT);
            Ok(())
        });
    }
    if let Some(socket) = socket {
        let descriptor = socket.as_raw_fd();
        command.env(LISTENER, descriptor.to_string());
        // SAFETY: `fcntl` may be called between fork and exec, and nothing is allocated.
        unsafe {
            command.pre_exec(move || match libc::fcntl(descriptor, libc::F_SETFD, 0) {
                0 => Ok(()),
                _ => Err(io::Error::last_os_error()),
            });
        }
    }
}

/// Returns a random token that other processes cannot guess.
fn token(port: u16) -> String {
    use std::hash::{BuildHasher, RandomState};
    // Each `RandomState` has keys that are random.
    let part = |salt: u64| RandomState::new().hash_one((salt, port, std::process::id(), Instant::now()));
    format!("{:016x}{:016x}", part(1), part(2))
}

/// Forwards the lines of a rank, and flushes after each; returns the first error in writing.
fn forward_lines<W: Write>(from: impl Read, to: impl Fn() -> W) -> Option<io::Error> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut write_error = None;
    loop {
        line.clear();
        match from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return write_error,
            Ok(_) => {
                let mut to = to();
                // After an error in writing, keeps reading: the ranks must not block, because they may still write
                // files.
                let written = to.write_all(&line).and_then(|()| to.flush());
                write_error = write_error.or(written.err());
            }
        }
    }
}

/// Returns the exit code of a process, also if a signal ended it.
fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0));
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILURE)
}

/// Waits until all ranks have ended; returns the exit code for the launcher.
fn wait_for_ranks(children: &mut [StartedRank], context: &mut AppContext) -> u8 {
    let mut first: Option<u8> = None;
    let mut deadline: Option<Instant> = None;
    let mut is_stopping = false;
    loop {
        for (rank, child) in children.iter_mut().enumerate() {
            if child.ended.is_some() {
                continue;
            }
            let Ok(Some(status)) = child.process.try_wait() else { continue };
            let code = code_of(status);
            child.ended = Some(code);
            if code > exit::SIGNAL && !is_stopping && !matches!(code, exit::INTERRUPTED) {
                let signal = code - exit::SIGNAL;
                context.console.error_line(&format!("error: rank {rank} has ended by signal {signal}"));
            }
            if code != exit::OK {
                // The exit code of a rank that ended because of another rank is used only if there is no other.
                first = first.filter(|code| *code != exit::OTHER_RANK).or(Some(code));
                deadline = deadline.or(Some(Instant::now() + END_TIMEOUT));
            }
        }
        if children.iter().all(|child| child.ended.is_some()) {
            return context.interrupt.exit_code().or(first).unwrap_or(exit::OK);
        }
        if context.interrupt.is_set() && !is_stopping {
            is_stopping = true;
            clk_base::stop::acknowledge();
            deadline = Some(Instant::now() + INTERRUPT_TIMEOUT);
            children.iter().filter(|child| child.ended.is_none()).for_each(|child| request_stop(&child.process));
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            for child in children.iter_mut().filter(|child| child.ended.is_none()) {
                let _ = child.process.kill();
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asks a rank to stop, by the signal that Ctrl-C sends.
fn request_stop(process: &Child) {
    #[cfg(unix)]
    // SAFETY: the call only sends a signal. The process has not been waited for, so its process number is still its
    // own.
    unsafe {
        libc::kill(process.id() as libc::pid_t, libc::SIGINT);
    }
    #[cfg(not(unix))]
    let _ = process;
}
