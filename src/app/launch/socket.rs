//! A server on a Unix socket that only its own user can reach.
//!
//! The socket's directory must not be writable by others, the socket gets mode 0600 before it gets its name, and the user ID of
//! every peer is checked. Each connection has its own program and arrays.

#[cfg(unix)]
pub(crate) use unix::serve;

/// Unix sockets need a Unix system.
#[cfg(not(unix))]
pub fn serve(_: &super::Job, _: &std::path::Path, context: &mut crate::app::context::Context) -> u8 {
    context.console.error_line("error: `--socket` needs a Unix system\n  Help: `--serve` alone serves standard input");
    crate::app::exit::USAGE
}

#[cfg(unix)]
mod unix {
    use std::fs;
    use std::io::{self, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    use crate::app::context::Context;
    use crate::app::launch::ending::Ending;
    use crate::app::launch::job::Job;
    use crate::app::launch::pulse::Pulse;
    use crate::app::launch::refusal::Refusal;
    use crate::app::launch::reply::Reply;
    use crate::app::launch::serve::{converse, program};
    use crate::app::launch::state::{Iteration, State};
    use crate::app::leftovers::Leftover;
    use crate::app::{disk, exit, private};
    use crate::base::source::Sources;
    use crate::compile::Session;
    use crate::host::problem::Problem;

    /// Maximum number of concurrent connections.
    const MOST: usize = 64;
    /// At the connection limit, a client that has made no progress for this long can be disconnected.
    const PATIENCE: Duration = Duration::from_secs(5);
    /// Read timeout, after which a stalled request is detected.
    const TICK: Duration = Duration::from_secs(1);
    /// Time for connections to end when the server ends.
    const GRACE: Duration = Duration::from_secs(2);
    /// Stack size of a connection's thread: expressions are walked recursively.
    const STACK: usize = 64 << 20;

    /// Serves the socket at this path until a client sends `stop`, or until Ctrl-C.
    pub(crate) fn serve(job: &Job, path: &Path, context: &mut Context) -> u8 {
        let Some(session) = program(job, context) else { return exit::FAILURE };
        let socket = match Socket::bind(path) {
            Ok(socket) => socket,
            Err(refusal) => {
                let (diagnostics, sources) = Refusal::from(refusal).diagnostics("", &Sources::default());
                context.console.report_all(&diagnostics, &sources);
                return exit::FAILURE;
            }
        };
        let ending = Ending::of(&context.interrupt);
        context.console.error_line(&format!("serving on {}", path.display()));
        let iteration = Iteration::default();
        let mut clients: Vec<Client> = Vec::new();
        while !ending.is_set() {
            let accepted = socket.accept();
            // Closes the descriptors of connections that have ended, also if no other one follows.
            clients.retain(|client| !client.thread.is_finished());
            let Some(stream) = accepted else { continue };
            make_room(&mut clients);
            if let Err(refusal) = admit(&stream, clients.len()) {
                refuse(stream, refusal);
                continue;
            }
            clients.extend(Client::greet(stream, job, &session, context, &ending, iteration.clone()));
        }
        let until = Instant::now() + GRACE;
        // No more requests are read; pending replies are still sent.
        clients.iter().for_each(|client| drop(client.stream.shutdown(std::net::Shutdown::Read)));
        while Instant::now() < until && clients.iter().any(|client| !client.thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(5));
        }
        ending.exit_code()
    }

    /// A connection and its thread.
    struct Client {
        stream: UnixStream,
        pulse: Arc<Pulse>,
        thread: JoinHandle<()>,
    }

    /// At the connection limit, closes the connection that has stalled longest: one that has never sent a request, is in the middle
    /// of one, or does not read its replies. Clients that are idle between requests stay.
    fn make_room(clients: &mut Vec<Client>) {
        if clients.len() < MOST {
            return;
        }
        let stuck = clients.iter().enumerate().filter_map(|(at, client)| Some((client.pulse.stuck_for()?, at)));
        if let Some((_, at)) = stuck.max().filter(|(time, _)| *time >= PATIENCE) {
            // Its threads notice the shutdown and end.
            let _ = clients.swap_remove(at).stream.shutdown(std::net::Shutdown::Both);
        }
    }

    impl Client {
        fn greet(
            stream: UnixStream,
            job: &Job,
            session: &Session,
            context: &Context,
            ending: &Ending,
            iteration: Iteration,
        ) -> Option<Client> {
            let (input, output) = (stream.try_clone().ok()?, stream.try_clone().ok()?);
            input.set_read_timeout(Some(TICK)).ok()?;
            let pulse = Arc::new(Pulse::new());
            let beats = pulse.clone();
            let (session, ending, limit) = (session.clone(), ending.clone(), job.max_bytes);
            let (limits, interrupt) = (context.limits.clone(), context.interrupt.clone());
            let talk = move || {
                let interpreter = limits.interpreter(&interrupt, vec![]);
                let mut state = State::new(session, interpreter, limit);
                state.iteration = iteration;
                converse(input, &output, &mut state, &ending, beats);
                // Makes the reading thread end, too.
                let _ = output.shutdown(std::net::Shutdown::Both);
            };
            let thread = std::thread::Builder::new().name("clk-client".into()).stack_size(STACK).spawn(talk).ok()?;
            Some(Client { stream, pulse, thread })
        }
    }

    /// Whether to accept a peer.
    fn admit(stream: &UnixStream, clients: usize) -> Result<(), Problem> {
        match private::peer(stream) {
            Ok(user) if user == private::own_user() => {}
            Ok(user) => return Err(Problem::new("E0808", format!("this socket serves another user than {user}"))),
            Err(error) => {
                let why = disk::reason(&error);
                return Err(Problem::new("E0808", format!("the system does not say whose connection this is: {why}")));
            }
        }
        if clients >= MOST {
            return Err(Problem::new("E0808", format!("{clients} connections are open, and no more are served")));
        }
        Ok(())
    }

    fn refuse(mut stream: UnixStream, problem: Problem) {
        // A peer that does not read is not waited for.
        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
        let mut line = Vec::new();
        let _ = Reply::to(None, false).refuse(problem.into(), "", &Sources::default()).send(&mut line);
        let _ = stream.write_all(&line);
    }

    /// A listening socket; its file is removed on drop.
    struct Socket {
        listener: UnixListener,
        path: PathBuf,
        /// Device and inode of its file.
        file: (u64, u64),
        _leftover: Leftover,
    }

    impl Socket {
        fn bind(path: &Path) -> Result<Socket, Problem> {
            let cannot = |why: String| Problem::new("E0808", format!("`{}` cannot be a socket: {why}", path.display()));
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let own = "use a folder of your own, such as `$XDG_RUNTIME_DIR/clk`, which is made if it does not exist";
            private::folder(folder).map_err(|why| cannot(format!("of its folder, {why}")).help(own))?;
            path.file_name().ok_or_else(|| cannot("it has no name".into()))?;
            // The lock keeps other servers from taking the name between the check and the rename.
            let _alone = alone(folder).map_err(|error| cannot(disk::reason(&error)))?;
            clear(path)?;
            let (listener, file) = Socket::make(folder, path).map_err(|error| cannot(disk::reason(&error)))?;
            Ok(Socket { listener, path: path.to_path_buf(), file, _leftover: Leftover::new(path) })
        }

        /// Creates the socket under a temporary name and renames it once its mode is 0600.
        fn make(folder: &Path, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
            let bound = tempfile::Builder::new().prefix(".clk-").make_in(folder, |path| UnixListener::bind(path))?;
            fs::set_permissions(bound.path(), fs::Permissions::from_mode(0o600))?;
            bound.as_file().set_nonblocking(true)?;
            let data = fs::symlink_metadata(bound.path())?;
            Ok((bound.persist(path)?, (data.dev(), data.ino())))
        }

        /// Returns a connection if one arrives within 50 ms.
        fn accept(&self) -> Option<UnixStream> {
            private::wait_readable(self.listener.as_raw_fd(), Duration::from_millis(50));
            let (stream, _) = self.listener.accept().ok()?;
            stream.set_nonblocking(false).ok()?;
            Some(stream)
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            // Another server may have taken the name meanwhile.
            if fs::symlink_metadata(&self.path).is_ok_and(|data| (data.dev(), data.ino()) == self.file) {
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// Locks the directory until the result is dropped: only one server at a time takes a name in it. Anyone who can read the
    /// directory can hold the lock, so waiting is limited.
    fn alone(folder: &Path) -> io::Result<fs::File> {
        let handle = fs::File::open(folder)?;
        let until = Instant::now() + GRACE;
        loop {
            match handle.try_lock() {
                Ok(()) => return Ok(handle),
                Err(fs::TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another process holds its folder (by `flock`)"));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Removes a stale socket, on which no server answers; refuses to remove anything else.
    fn clear(path: &Path) -> Result<(), Problem> {
        let Ok(data) = fs::symlink_metadata(path) else { return Ok(()) };
        let taken = |why: &str| Problem::new("E0808", format!("`{}` cannot be a socket: {why}", path.display()));
        if !data.file_type().is_socket() {
            return Err(taken("there is something else of this name"));
        }
        if data.uid() != private::own_user() {
            return Err(taken("there is one of another user"));
        }
        match UnixStream::connect(path) {
            Ok(_) => Err(taken("a server answers there").help("stop it by `{\"op\": \"stop\"}`, or use another name")),
            Err(_) => fs::remove_file(path).map_err(|error| taken(&disk::reason(&error))),
        }
    }
}
