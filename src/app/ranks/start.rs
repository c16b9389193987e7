//! `clk run --ranks N`: starts the ranks of a script on this machine and sees them end.
//!
//! Input: the command line, which each rank runs again with variables that say which it is. Output: their lines, and an exit code: that of
//! the first that failed by itself.
//!
//! Lines of standard output are written whole, in the order in which they arrive, and so are those of standard error. The standard input of
//! each rank is a pipe of which this process has the other end: when it is gone, however it ends, the ranks end.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, IsTerminal, Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::environment::{self, LAUNCHED, is_launched};
use crate::app::context::Context;
use crate::app::exit;

/// The environment variable with the descriptor of a socket that listens already.
const LISTENER: &str = "CLK_LISTENER";

/// How long the other ranks may take to end by themselves after one has failed.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long they may take at the user's request.
const MOMENT: Duration = Duration::from_secs(3);
/// The longest part of a line that is written at once.
const LONGEST_LINE: u64 = 1 << 20;

/// Ends this process when its launcher is gone, if it has one.
pub(crate) fn follow_launcher() {
    if !is_launched() {
        return;
    }
    let follow = || {
        let mut rest = [0; 64];
        while !matches!(io::stdin().lock().read(&mut rest), Ok(0) | Err(_)) {}
        crate::app::leftovers::remove();
        exit::end(exit::OTHER_RANK)
    };
    let _ = std::thread::Builder::new().name("clk-launcher".into()).spawn(follow);
}

/// Returns the socket that the launcher has opened for rank 0.
#[cfg(unix)]
pub(super) fn listener() -> Option<TcpListener> {
    use std::os::fd::FromRawFd;
    let descriptor: i32 = std::env::var(LISTENER).ok()?.parse().ok()?;
    if !is_launched() || descriptor <= libc::STDERR_FILENO {
        return None;
    }
    // SAFETY: the launcher has passed this descriptor to this process alone; if it is not open, its first use fails.
    Some(unsafe { TcpListener::from_raw_fd(descriptor) })
}

#[cfg(not(unix))]
pub(super) fn listener() -> Option<TcpListener> {
    None
}

/// Starts all ranks and waits for them; returns the exit code.
pub(crate) fn all(ranks: u32, context: &mut Context) -> u8 {
    let mut children = match start(ranks) {
        Ok(children) => children,
        Err(error) => {
            context.console.error_line(&format!("error: the ranks cannot be started: {error}"));
            return exit::FAILURE;
        }
    };
    let code = watch(&mut children, context);
    let outputs = children.iter_mut().flat_map(|child| child.outputs.drain(..));
    let lost: Vec<io::Error> = outputs.filter_map(|thread| thread.join().ok()?).collect();
    // A closed pipe (`clk run … | head`) is no failure, as with one rank.
    let Some(error) = lost.into_iter().find(|error| error.kind() != io::ErrorKind::BrokenPipe) else { return code };
    context.console.error_line(&format!("error: standard output cannot be written: {error}"));
    if code == exit::OK { exit::FAILURE } else { code }
}

/// A rank.
struct Started {
    process: Child,
    ended: Option<u8>,
    /// The threads that pass its lines on; each returns why standard output did not take them.
    outputs: Vec<std::thread::JoinHandle<Option<io::Error>>>,
}

impl Drop for Started {
    fn drop(&mut self) {
        if self.ended.is_none() {
            let _ = self.process.kill();
            let _ = self.process.wait();
        }
    }
}

fn start(ranks: u32) -> io::Result<Vec<Started>> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let token = token(port);
    // Elsewhere rank 0 opens the port itself.
    #[cfg(not(unix))]
    drop(listener);
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut started = Vec::new();
    for rank in 0..ranks {
        let mut command = program();
        command.args(&arguments);
        let variables = [
            (environment::RANK, rank.to_string()),
            (environment::RANKS, ranks.to_string()),
            (environment::LOCAL, rank.to_string()),
            (environment::HOST, "127.0.0.1".into()),
            (environment::PORT, port.to_string()),
            (environment::TOKEN, token.clone()),
            (LAUNCHED, "1".into()),
        ];
        command.envs(variables).env_remove(LISTENER);
        if io::stdout().is_terminal() && io::stderr().is_terminal() {
            // The ranks write to pipes, but somebody reads what comes out of them.
            command.env("CLICOLOR_FORCE", "1").env("COLUMNS", crate::app::tty::width().to_string());
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        #[cfg(unix)]
        apart(&mut command, (rank == 0).then_some(&listener));
        let mut process = command.spawn()?;
        let mut outputs = Vec::new();
        if let Some(out) = process.stdout.take() {
            outputs.push(std::thread::Builder::new().spawn(move || pass(out, io::stdout))?);
        }
        if let Some(out) = process.stderr.take() {
            outputs.push(std::thread::Builder::new().spawn(move || {
                // There is nowhere to report that standard error cannot be written.
                pass(out, io::stderr);
                None
            })?);
        }
        started.push(Started { process, ended: None, outputs });
    }
    Ok(started)
}

/// Returns the command that starts this program again.
fn program() -> Command {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::process::CommandExt;
        // The running binary itself, even if its file has been replaced.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("clk");
        command
    }
    #[cfg(not(target_os = "linux"))]
    Command::new(std::env::current_exe().unwrap_or_else(|_| "clk".into()))
}

/// Puts a rank into a process group of its own, so that Ctrl-C reaches it once, by this process; and passes it a socket.
#[cfg(unix)]
fn apart(command: &mut Command, socket: Option<&TcpListener>) {
    use std::os::fd::AsRawFd;
    use std::os::unix::process::CommandExt;
    command.process_group(0);
    // A rank that is stopped (SIGSTOP) when this process dies cannot notice that its standard input ends. It goes on, and then it does.
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

/// Returns a word that others do not guess.
fn token(port: u16) -> String {
    use std::hash::{BuildHasher, RandomState};
    // Each state has random keys of the system's.
    let part = |salt: u64| RandomState::new().hash_one((salt, port, std::process::id(), Instant::now()));
    format!("{:016x}{:016x}", part(1), part(2))
}

/// Writes the lines of a rank, each at once; returns the first error.
fn pass<W: Write>(from: impl Read, to: impl Fn() -> W) -> Option<io::Error> {
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    let mut lost = None;
    loop {
        line.clear();
        match from.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return lost,
            Ok(_) => {
                let mut to = to();
                // The ranks go on until they are done, as they may write files.
                let written = to.write_all(&line).and_then(|()| to.flush());
                lost = lost.or(written.err());
            }
        }
    }
}

/// Returns the exit code of a process.
fn code_of(status: ExitStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return exit::SIGNAL.saturating_add(u8::try_from(signal).unwrap_or(0));
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILURE)
}

/// Waits until all ranks have ended; returns the exit code.
fn watch(children: &mut [Started], context: &mut Context) -> u8 {
    let mut first: Option<u8> = None;
    let mut until: Option<Instant> = None;
    let mut asked = false;
    loop {
        for (rank, child) in children.iter_mut().enumerate() {
            if child.ended.is_some() {
                continue;
            }
            let Ok(Some(status)) = child.process.try_wait() else { continue };
            let code = code_of(status);
            child.ended = Some(code);
            if code > exit::SIGNAL && !asked && !matches!(code, exit::INTERRUPTED) {
                let signal = code - exit::SIGNAL;
                context.console.error_line(&format!("error: rank {rank} has ended by signal {signal}"));
            }
            if code != exit::OK {
                // A rank that ends because of another is not the first.
                first = first.filter(|code| *code != exit::OTHER_RANK).or(Some(code));
                until = until.or(Some(Instant::now() + PATIENCE));
            }
        }
        if children.iter().all(|child| child.ended.is_some()) {
            return context.interrupt.exit_code().or(first).unwrap_or(exit::OK);
        }
        if context.interrupt.is_set() && !asked {
            asked = true;
            crate::base::stop::heed();
            until = Some(Instant::now() + MOMENT);
            children.iter().filter(|child| child.ended.is_none()).for_each(|child| ask(&child.process));
        }
        if until.is_some_and(|until| Instant::now() > until) {
            for child in children.iter_mut().filter(|child| child.ended.is_none()) {
                let _ = child.process.kill();
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Asks a rank to stop, as Ctrl-C does.
fn ask(process: &Child) {
    #[cfg(unix)]
    // SAFETY: only sends a signal to a process that was not waited for, so that its number is not another's.
    unsafe {
        libc::kill(process.id() as libc::pid_t, libc::SIGINT);
    }
    #[cfg(not(unix))]
    let _ = process;
}
