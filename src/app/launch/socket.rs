//! A server on a Unix socket that only its own user can use.
//!
//! The socket's directory must not be writable by others. The socket has mode 0600 before it appears under its name,
//! and the user ID of each peer is checked. Each connection has its own program and arrays.

#[cfg(unix)]
pub(crate) use unix::serve;

/// Reports that this system has no Unix sockets.
#[cfg(not(unix))]
pub fn serve(_: &super::LaunchJob, _: &std::path::Path, context: &mut crate::context::AppContext) -> u8 {
    context.console.error_line("error: `--socket` needs a Unix system\n  Help: `--serve` alone serves standard input");
    crate::exit::USAGE
}

#[cfg(unix)]
mod unix {
    use std::fmt::Display;
    use std::fs;
    use std::io::{self, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::thread::JoinHandle;
    use std::time::{Duration, Instant};

    use crate::context::AppContext;
    use crate::launch::job::LaunchJob;
    use crate::launch::launch_error::LaunchRequestError;
    use crate::launch::liveness::Pulse;
    use crate::launch::reply::LaunchReply;
    use crate::launch::server::{program, serve_client};
    use crate::launch::shutdown::ShutdownSignals;
    use crate::launch::state::{AsyncClient, ClientState};
    use crate::temp_files::TempFileRegistration;
    use crate::{exit, permissions};
    use clk_base::file_error::FileError;
    use clk_base::source::SourceMap;
    use clk_compile::Session;
    use clk_host::problem::RuntimeError;

    /// Maximum number of concurrent connections.
    const MOST: usize = 64;
    /// At the connection limit, a client may be disconnected after the server has waited this long for it.
    const PATIENCE: Duration = Duration::from_secs(5);
    /// Read timeout of connections. A stalled request is detected when it expires.
    const TICK: Duration = Duration::from_secs(1);
    /// When the server shuts down, how long to wait for the connections to end.
    const GRACE: Duration = Duration::from_secs(2);
    /// Stack size of a connection's thread, in bytes. It is large because nested expressions are processed recursively.
    const STACK: usize = 64 << 20;

    /// Serves the socket at this path until a client sends `stop` or a signal ends the server.
    pub(crate) fn serve(job: &LaunchJob, path: &Path, context: &mut AppContext) -> u8 {
        let Some(session) = program(job, context) else { return exit::FAILURE };
        let socket = match Socket::bind(path) {
            Ok(socket) => socket,
            Err(refusal) => {
                let (diagnostics, sources) = LaunchRequestError::from(refusal).diagnostics("", &SourceMap::default());
                context.console.report_all(&diagnostics, &sources);
                return exit::FAILURE;
            }
        };
        let ending = ShutdownSignals::of(&context.interrupt);
        context.console.error_line(&format!("serving on {}", path.display()));
        let iteration = AsyncClient::default();
        let mut clients: Vec<Client> = Vec::new();
        while !ending.is_set() {
            let accepted = socket.accept();
            // Closes the sockets of connections that have ended, even if no further client connects.
            clients.retain(|client| !client.thread.is_finished());
            let Some(stream) = accepted else { continue };
            make_room(&mut clients);
            if let Err(refusal) = admit(&stream, clients.len()) {
                refuse(stream, refusal);
                continue;
            }
            clients.extend(Client::greet(stream, job, &session, context, &ending, iteration.clone()));
        }
        let deadline = Instant::now() + GRACE;
        // Stops reading requests. Pending replies are still sent.
        clients.iter().for_each(|client| drop(client.stream.shutdown(std::net::Shutdown::Read)));
        while Instant::now() < deadline && clients.iter().any(|client| !client.thread.is_finished()) {
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

    /// At the connection limit, closes the connection for which the server has waited longest, because the client has
    /// sent no request, left one incomplete, or does not read its replies. Does not close connections that are idle
    /// between requests.
    fn make_room(clients: &mut Vec<Client>) {
        if clients.len() < MOST {
            return;
        }
        let stuck = clients.iter().enumerate().filter_map(|(at, client)| Some((client.pulse.stalled_for()?, at)));
        if let Some((_, at)) = stuck.max().filter(|(time, _)| *time >= PATIENCE) {
            // The threads of this connection notice that the socket is shut down, and end.
            let _ = clients.swap_remove(at).stream.shutdown(std::net::Shutdown::Both);
        }
    }

    impl Client {
        fn greet(
            stream: UnixStream,
            job: &LaunchJob,
            session: &Session,
            context: &AppContext,
            ending: &ShutdownSignals,
            iteration: AsyncClient,
        ) -> Option<Client> {
            let (input, output) = (stream.try_clone().ok()?, stream.try_clone().ok()?);
            input.set_read_timeout(Some(TICK)).ok()?;
            let pulse = Arc::new(Pulse::new());
            let beats = pulse.clone();
            let (session, ending, limit) = (session.clone(), ending.clone(), job.max_bytes);
            let (limits, interrupt) = (context.limits.clone(), context.interrupt.clone());
            let talk = move || {
                let interpreter = limits.interpreter(&interrupt, vec![]);
                let mut state = ClientState::new(session, interpreter, limit);
                state.iteration = iteration;
                serve_client(input, &output, &mut state, &ending, beats);
                // Makes the thread that reads requests end.
                let _ = output.shutdown(std::net::Shutdown::Both);
            };
            let thread = std::thread::Builder::new().name("clk-client".into()).stack_size(STACK).spawn(talk).ok()?;
            Some(Client { stream, pulse, thread })
        }
    }

    /// Decides whether to accept a connection: it must be of the same user, and within the limit.
    fn admit(stream: &UnixStream, clients: usize) -> Result<(), RuntimeError> {
        match permissions::peer_user(stream) {
            Ok(user) if user == permissions::effective_user() => {}
            Ok(user) => return Err(RuntimeError::new("E0808", format!("this socket serves another user than {user}"))),
            Err(error) => {
                let why = FileError::from(error);
                return Err(RuntimeError::new(
                    "E0808",
                    format!("the system does not say whose connection this is: {why}"),
                ));
            }
        }
        if clients >= MOST {
            return Err(RuntimeError::new("E0808", format!("{clients} connections are open, and no more are served")));
        }
        Ok(())
    }

    fn refuse(mut stream: UnixStream, problem: RuntimeError) {
        // A peer that does not read must not delay the server.
        let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
        let mut line = Vec::new();
        let _ = LaunchReply::to(None, false).refuse(problem.into(), "", &SourceMap::default()).send(&mut line);
        let _ = stream.write_all(&line);
    }

    /// A listening socket. Its file is removed when this is dropped.
    struct Socket {
        listener: UnixListener,
        path: PathBuf,
        /// Device and inode number of the socket's file.
        file: (u64, u64),
        _leftover: TempFileRegistration,
    }

    impl Socket {
        fn bind(path: &Path) -> Result<Socket, RuntimeError> {
            let cannot = |why: &dyn Display| {
                RuntimeError::new("E0808", format!("`{}` cannot be a socket: {why}", path.display()))
            };
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => Path::new("."),
            };
            let own = "use a folder of your own, such as `$XDG_RUNTIME_DIR/clk`, which is made if it does not exist";
            permissions::create_private_directory(folder)
                .map_err(|why| cannot(&format_args!("of its folder, {why}")).help(own))?;
            path.file_name().ok_or_else(|| cannot(&"it has no name"))?;
            // The lock prevents another server from creating a file of this name between the check and the rename.
            let _lock = lock_folder(folder).map_err(|error| cannot(&FileError::from(error)))?;
            clear(path)?;
            let (listener, file) = Socket::make(folder, path).map_err(|error| cannot(&FileError::from(error)))?;
            Ok(Socket { listener, path: path.to_path_buf(), file, _leftover: TempFileRegistration::new(path) })
        }

        /// Creates the socket under a temporary name. Sets its mode to 0600 and then renames it.
        fn make(folder: &Path, path: &Path) -> io::Result<(UnixListener, (u64, u64))> {
            let bound = tempfile::Builder::new().prefix(".clk-").make_in(folder, |path| UnixListener::bind(path))?;
            fs::set_permissions(bound.path(), fs::Permissions::from_mode(0o600))?;
            bound.as_file().set_nonblocking(true)?;
            let data = fs::symlink_metadata(bound.path())?;
            Ok((bound.persist(path)?, (data.dev(), data.ino())))
        }

        /// Waits at most 50 ms for a connection.
        fn accept(&self) -> Option<UnixStream> {
            permissions::wait_readable(self.listener.as_raw_fd(), Duration::from_millis(50));
            let (stream, _) = self.listener.accept().ok()?;
            stream.set_nonblocking(false).ok()?;
            Some(stream)
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            // Another server may have replaced the file meanwhile. Then it must not be removed.
            if fs::symlink_metadata(&self.path).is_ok_and(|data| (data.dev(), data.ino()) == self.file) {
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// Locks a directory until the result is dropped, so that only one server at a time creates a socket in it. Waits
    /// only for a limited time, because any process that can read the directory can hold the lock.
    fn lock_folder(folder: &Path) -> io::Result<fs::File> {
        let handle = fs::File::open(folder)?;
        let deadline = Instant::now() + GRACE;
        loop {
            match handle.try_lock() {
                Ok(()) => return Ok(handle),
                Err(fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5));
                }
                Err(fs::TryLockError::WouldBlock) => {
                    return Err(io::Error::other("another process holds its folder (by `flock`)"));
                }
                Err(fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    }

    /// Removes a socket to which no server is listening any more. Any other file under this name is an error.
    fn clear(path: &Path) -> Result<(), RuntimeError> {
        let Ok(data) = fs::symlink_metadata(path) else { return Ok(()) };
        let conflict =
            |why: &str| RuntimeError::new("E0808", format!("`{}` cannot be a socket: {why}", path.display()));
        if !data.file_type().is_socket() {
            return Err(conflict("there is something else of this name"));
        }
        if data.uid() != permissions::effective_user() {
            return Err(conflict("there is one of another user"));
        }
        match UnixStream::connect(path) {
            Ok(_) => {
                Err(conflict("a server answers there").help("stop it by `{\"op\": \"stop\"}`, or use another name"))
            }
            Err(_) => fs::remove_file(path).map_err(|error| conflict(&FileError::from(error).to_string())),
        }
    }
}
