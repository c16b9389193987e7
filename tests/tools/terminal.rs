//! The session in a real terminal (tmux): sends keys and reads the screen.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Timeout, generous even for a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// A terminal of 100 columns and 60 lines that runs `clk`.
struct Terminal {
    socket: String,
    home: tempfile::TempDir,
}

impl Terminal {
    /// Starts a terminal. Without tmux, prints that the test is skipped and returns none.
    fn start() -> Option<Terminal> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("skipped: tmux is not installed");
            return None;
        }
        let home = tempfile::tempdir().expect("a folder");
        let terminal = Terminal { socket: String::new(), home };
        Some(terminal.with_session())
    }

    fn with_session(mut self) -> Terminal {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        self.socket = format!("clk-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let home = self.home.path().display().to_string();
        let clk = env!("CARGO_BIN_EXE_clk");
        let command = format!("env -u NO_COLOR -u XDG_STATE_HOME EDITOR='sed -i s/41/42/' HOME='{home}' '{clk}'");
        let size = ["-x", "100", "-y", "60"];
        self.tmux(&[&["-f", "/dev/null", "new-session", "-d", "-c", &home], &size[..], &[&command]].concat());
        self.wait("clk 1> ");
        self
    }

    /// Ends this session and starts another one of the same user.
    fn restart(self) -> Terminal {
        self.keys(&["C-d"]);
        let gone = Instant::now();
        while self.tmux(&["has-session"]) && gone.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
        self.with_session()
    }

    fn tmux(&self, words: &[&str]) -> bool {
        let output = Command::new("tmux").args(["-u", "-L", &self.socket]).args(words).output().expect("tmux runs");
        output.status.success()
    }

    /// Types a text literally.
    fn text(&self, text: &str) {
        assert!(self.tmux(&["send-keys", "-l", "--", text]), "tmux takes keys");
    }

    /// Presses keys: `Enter`, `C-c`, `Tab`.
    fn keys(&self, keys: &[&str]) {
        assert!(self.tmux(&[&["send-keys"], keys].concat()), "tmux takes keys");
    }

    fn line(&self, text: &str) {
        self.text(text);
        self.keys(&["Enter"]);
    }

    /// Returns the screen; with colors as escape sequences if `colors`.
    fn screen(&self, colors: bool) -> String {
        let mut command = Command::new("tmux");
        command.args(["-u", "-L", &self.socket, "capture-pane", "-p", "-S", "-500"]);
        if colors {
            command.arg("-e");
        }
        String::from_utf8_lossy(&command.output().expect("tmux runs").stdout).into_owned()
    }

    /// Returns the screen with the lines joined that the terminal has wrapped.
    fn joined_screen(&self) -> String {
        let mut command = Command::new("tmux");
        command.args(["-u", "-L", &self.socket, "capture-pane", "-p", "-J", "-S", "-500"]);
        let screen = String::from_utf8_lossy(&command.output().expect("tmux runs").stdout).into_owned();
        // This form keeps blanks at the end of lines.
        screen.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }

    /// Waits until the screen contains a text, and returns the screen.
    #[track_caller]
    fn wait(&self, text: &str) -> String {
        // tmux drops blanks at the end of lines.
        let text = text.trim_end_matches(' ');
        self.wait_until(text, |screen| screen.contains(text))
    }

    /// Waits until the screen contains a text with its colors.
    #[track_caller]
    fn wait_colored(&self, text: &str) {
        self.wait_for(text, || Some(self.screen(true)).filter(|screen| screen.contains(text)).ok_or(self.screen(true)));
    }

    #[track_caller]
    fn wait_until(&self, goal: &str, test: impl Fn(&str) -> bool) -> String {
        self.wait_for(goal, || {
            let screen = self.screen(false);
            if test(&screen) { Ok(screen) } else { Err(screen) }
        })
    }

    /// Polls until `ask` succeeds; after the timeout, fails and shows the last result.
    #[track_caller]
    fn wait_for<T>(&self, what: &str, ask: impl Fn() -> Result<T, String>) -> T {
        let start = Instant::now();
        loop {
            match ask() {
                Ok(found) => return found,
                Err(instead) => assert!(start.elapsed() < PATIENCE, "there never was {what:?} but\n{instead}"),
            }
            std::thread::sleep(Duration::from_millis(15));
        }
    }

    /// Returns the column of the cursor.
    fn cursor(&self) -> String {
        let mut command = Command::new("tmux");
        command.args(["-u", "-L", &self.socket, "display-message", "-p", "#{cursor_x}"]);
        String::from_utf8_lossy(&command.output().expect("tmux runs").stdout).trim().to_owned()
    }

    /// Runs a line, and waits for its expected output and for the next prompt.
    #[track_caller]
    fn run(&self, line: &str, expected: &str) -> String {
        let prompts = |screen: &str| screen.lines().filter(|l| l.starts_with("clk ") && l.contains('>')).count();
        let before = prompts(&self.screen(false));
        let expected = expected.trim_end_matches(' ');
        self.line(line);
        self.wait_until(expected, |screen| screen.contains(expected) && prompts(screen) > before)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

#[test]
fn a_kernel_is_typed_over_several_lines() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.line("kernel twice(x: [f32; N], out y: [f32; N]) threads(i: N) {");
    terminal.line("if x[i] > 0.0 {");
    terminal.line("y[i] = 2.0 * x[i]");
    terminal.line("} else { y[i] = 0.0 }");
    terminal.line("}");
    let screen = terminal.wait("clk 2> ");
    // The session has indented each line automatically, and has dedented `}`.
    for line in ["\n    if x[i] > 0.0 {\n", "\n        y[i] = 2.0 * x[i]\n", "\n    } else { y[i] = 0.0 }\n", "\n}\n"] {
        assert!(screen.contains(line), "{line:?} is not in\n{screen}");
    }
    terminal.run("twice([1.5, -1.0])", "[3. 0.]\n[f32; 2]\n");
    terminal.run("sum(_)", "\n3.0\n");
    terminal.run("_2[0] * 2.0;", "clk 5> ");
    terminal.run("_", "\n6.0\n");
}

#[test]
fn pasted_text_stays_as_it_is() {
    let Some(terminal) = Terminal::start() else { return };
    let text = "fn f(x: f32) -> f32 {\n  x + 1.0\n}";
    assert!(terminal.tmux(&["set-buffer", text]) && terminal.tmux(&["paste-buffer", "-p"]));
    terminal.wait("\n  x + 1.0\n}");
    terminal.keys(&["Enter"]);
    terminal.wait("clk 2> ");
    terminal.run("f(1.0)", "\n2.0\n");
}

#[test]
fn words_are_completed() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run("let wavelength = 3", "clk 2> ");
    terminal.text("wavel");
    terminal.keys(&["Tab"]);
    terminal.wait("clk 2> wavelength");
    terminal.run(" + 1", "\n4\n");
    terminal.text("random_");
    terminal.keys(&["Tab", "Tab"]);
    terminal.wait_until("both completions", |s| s.contains("random_int") && s.contains("random_normal"));
    terminal.keys(&["C-u"]);
    terminal.text(":expl");
    terminal.keys(&["Tab"]);
    terminal.wait(":explain");
}

#[test]
fn words_are_colored_and_calls_show_parameters() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run("fn heavy(mass: f32, count: i32) -> f32 { mass * f32(count) }", "clk 2> ");
    terminal.run("struct Body { weight: f32 }", "clk 3> ");
    terminal.text("let h = heavy(");
    terminal.wait("heavy(mass: f32, count: i32)");
    // The keyword and the function are colored, and the text after them has the default color again.
    terminal.wait_colored("let\u{1b}[39m h = \u{1b}[34mheavy\u{1b}[39m(");
    terminal.text("1.5, ");
    terminal.wait("heavy(1.5, count: i32)");
    terminal.text("2)");
    terminal.keys(&["Enter"]);
    terminal.wait("clk 4> ");
    terminal.run("h", "\n3.0\n");
    // Completes a field name from the type of the variable.
    terminal.run("let b = Body { weight: 2.5 }", "clk 6> ");
    terminal.text("b.w");
    terminal.keys(&["Tab"]);
    terminal.wait("clk 6> b.weight");
    terminal.keys(&["Enter"]);
    terminal.wait("\n2.5\n");
    terminal.text(":lo");
    terminal.wait(":load FILE");
}

#[test]
fn entries_of_several_lines_are_changed() {
    let Some(terminal) = Terminal::start() else { return };
    // Alt-Enter inserts a line break even if the entry is already complete.
    terminal.text("let a = 1");
    terminal.keys(&["M-Enter"]);
    terminal.text("let b = a + 1");
    terminal.wait("\nlet b = a + 1");
    terminal.keys(&["Enter"]);
    terminal.wait("clk 2> ");
    terminal.run("b", "\n2\n");
    terminal.line("fn f(x: i32) -> i32 {");
    terminal.line("x + 40");
    terminal.line("}");
    terminal.wait("clk 4> ");
    // In a recalled entry, Enter in the middle inserts a line; at the end it runs the entry.
    terminal.keys(&["Up"]);
    terminal.wait("clk 4> fn f(x: i32) -> i32 {");
    terminal.keys(&["Up", "End", "Enter"]);
    terminal.text("let y = 2 * x");
    terminal.wait("\n    let y = 2 * x\n}");
    terminal.keys(&["Up", "End", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace", "BSpace"]);
    terminal.text("x + 1");
    terminal.wait("\n    x + 1\n");
    terminal.keys(&["C-c"]);
    terminal.wait_until("the prompt after Ctrl-C", |screen| screen.trim_end().ends_with("\nclk 4>"));
    terminal.run("f(2)", "\n42\n");
}

#[test]
fn completion_depends_on_context() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run("struct Body { weight: f32, place: f32x2 }", "clk 2> ");
    terminal.run("kernel increase(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] }", "clk 3> ");
    terminal.text("let p = Body { we");
    terminal.keys(&["Tab"]);
    terminal.wait("Body { weight: ");
    terminal.keys(&["C-u"]);
    terminal.text(":cuda inc");
    terminal.keys(&["Tab"]);
    terminal.wait(":cuda increase");
    terminal.keys(&["C-u"]);
    terminal.text("?std.his");
    terminal.keys(&["Tab"]);
    terminal.wait("?std.histogram");
    terminal.keys(&["C-u"]);
    // All completions fit the screen, so they are shown in one list, without a question or a pager.
    terminal.text(":explain E06");
    terminal.keys(&["Tab", "Tab"]);
    let screen = terminal.wait("E0610");
    assert!(!screen.contains("--More--") && !screen.contains("possibilities"), "{screen}");
}

#[test]
fn history_persists_between_sessions() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run("let answer = 42", "clk 2> ");
    terminal.run("answer + 1", "\n43\n");
    let terminal = terminal.restart();
    terminal.keys(&["C-r"]);
    terminal.text("let ans");
    terminal.wait("let answer = 42");
    terminal.keys(&["Enter"]);
    terminal.wait("clk 2> ");
    terminal.run("answer", "\n42\n");
}

#[test]
fn a_found_entry_of_several_lines_runs_with_enter() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run("fn twice(x: i32) -> i32 {\n2 * x\n}", "clk 2> ");
    terminal.run("twice(4)", "\n8\n");
    terminal.keys(&["C-r"]);
    terminal.text("fn twice");
    terminal.wait("(reverse-i-search)`fn twice': fn twice(x: i32) -> i32 {");
    terminal.keys(&["Enter"]);
    terminal.wait("clk 4> ");
}

#[test]
fn help_and_completions_fit_narrow_terminals() {
    let Some(terminal) = Terminal::start() else { return };
    assert!(terminal.tmux(&["resize-window", "-x", "60"]), "tmux resizes the window");
    terminal.run(":help", "\nbuiltins, the standard library and keywords.");
    // What stands above the command is wrapped by the terminal. The screen may still change between the two readings.
    let fits = |what: &str, command: &str| {
        let below = |screen: String| screen.rsplit_once(command).map(|(_, text)| text.to_owned());
        terminal.wait_for(what, || {
            let text = below(terminal.screen(false));
            let is_same = text.is_some() && text == below(terminal.joined_screen());
            is_same.then_some(()).ok_or_else(|| terminal.screen(false))
        });
    };
    fits("help in lines that are not wrapped", "clk 1> :help\n");
    terminal.run("let weights_of_the_first_layer_of_the_network = ones(16, 16, 3, type = f64)", "clk 2> ");
    terminal.run("let weights_of_the_second_layer_of_the_network = ones(16, 16, 3, type = f64)", "clk 3> ");
    terminal.keys(&["C-l"]);
    terminal.text("wei");
    terminal.keys(&["Tab", "Tab"]);
    terminal.wait("second_layer");
    fits("completions in lines that are not wrapped", "f64)\nclk 3>");
}

#[test]
fn an_endless_kernel_is_stopped_and_the_session_goes_on() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run(
        "kernel spin(out y: [u32; 99999]) threads(i: 99999) { var n = 0u32; while n != 7 { n = (n + 1) & 3 }; y[i] = n }",
        "clk 2> ",
    );
    terminal.run("var kept = 5", "clk 3> ");
    terminal.line("kept = 6; spin()");
    // The progress bar shows that the kernel runs. Before, Ctrl-C would end the script with E0599.
    terminal.wait("groups of threads");
    terminal.keys(&["C-c"]);
    terminal.wait("E0607");
    terminal.wait("clk 4> ");
    terminal.run("kept", "\n5\n");
    // At the prompt, Ctrl-C discards the line and does not end the session.
    terminal.text("let half = ");
    terminal.wait("let half =");
    terminal.keys(&["C-c"]);
    terminal.wait_until("the prompt once more", |screen| screen.matches("clk 5>").count() == 2);
    terminal.run("1 + 1", "\n2\n");
    // Ctrl-C also ends a loop of the script during which no kernel runs.
    terminal.line("print(\"it loops\"); loop { kept = 7 }");
    terminal.wait("\nit loops");
    terminal.keys(&["C-c"]);
    terminal.wait("E0599");
    terminal.run("kept", "\n5\n");
}

#[test]
fn vi_keys_work() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run(":set vi on", "vi         on");
    terminal.text("1 + 2");
    terminal.wait("1 + 2");
    let before = terminal.cursor();
    terminal.keys(&["Escape"]);
    // In vi mode, Escape ends insertion and moves the cursor one column to the left.
    terminal.wait_for("a cursor one step back", || {
        let current = terminal.cursor();
        if current == before { Err(current) } else { Ok(()) }
    });
    terminal.keys(&["0", "x", "i", "4", "Enter"]);
    terminal.wait("\n6\n");
}

#[test]
fn every_command_in_a_terminal() {
    let Some(terminal) = Terminal::start() else { return };
    let folder = terminal.home.path().to_path_buf();
    std::fs::write(folder.join("lib.clk"), "fn lib_value() -> i32 { 41 }\n").expect("written");
    terminal.run("/// Halved.\nfn half(x: f32) -> f32 { x / 2.0 }", "clk 2> ");
    terminal.run("let x = ones(300)", "clk 3> ");
    terminal.run("kernel inc(x: [f32; N], out y: [f32; N]) threads(i: N) { y[i] = x[i] + 1.0 }", "clk 4> ");
    for (command, expected) in [
        (":help", ":save[!] FILE"),
        (":doc half", "Halved."),
        ("?sqrt", "The square root"),
        (":type half(1.0)", "\nf32\n"),
        (":info x", "mean  1.0"),
        (":vars", "let x: [f32; 300]"),
        (":mem", "1.2 KiB  x"),
        (":time inc(x)", "(median of"),
        (":bench inc(x)", "counted once"),
        (":ir inc", "kernel inc(x: in @x, y: out @y)"),
        (":cuda inc", "void __launch_bounds__("),
        // With NVRTC the output is PTX; without NVRTC it is an error that explains why there is none.
        (":ptx inc", "NVIDIA"),
        (":sass inc", ">"),
        (":check", "checks are on"),
        (":check sum(inc(x))", "\n600.0\n1 launch"),
        (":device", "* sim"),
        (":device sim", "from now on"),
        (":load lib.clk", ">"),
        (":reload", ">"),
        (":edit lib_value", ">"),
        ("lib_value()", "\n42\n"),
        ("nosuch", "E0201"),
        (":explain", "E0201: "),
        (":history half", "fn half"),
        (":set", "workers"),
        (":save session.clk", "wrote session.clk"),
        (":reset", ">"),
        ("half(1.0)", "nothing here is called `half`"),
    ] {
        terminal.run(command, expected);
    }
    let saved = clk_testing::run(&folder, &["run", "session.clk"]);
    assert_eq!((saved.code, saved.out.as_str()), (0, "600.0\n42\n"), "{}", saved.err);
    terminal.line(":quit");
    let start = Instant::now();
    while terminal.tmux(&["has-session"]) {
        assert!(start.elapsed() < PATIENCE, "`:quit` ends the session");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(Path::new(&folder.join(".local/state/clk/history")).is_file());
}

#[test]
fn pictures_are_drawn_in_half_blocks() {
    let Some(terminal) = Terminal::start() else { return };
    terminal.run("heat(reshape(linspace(0.0, 1.0, 64), 8, 8))", "from dark to bright");
    terminal.wait_colored("▀");
}

#[test]
fn animations_are_played_at_their_place() {
    let Some(terminal) = Terminal::start() else { return };
    let screen = terminal.run("plot(reshape(arange(12), 4, 3), fps = 20, xlabel = \"frame\")", "┬");
    assert_eq!(screen.matches('└').count(), 1, "earlier frames are erased:\n{screen}");
    // The first frame has the numbers 0 to 2, the last one 9 to 11, on axes for all frames.
    let chart: Vec<&str> = screen.lines().filter(|line| line.contains('│')).collect();
    let is_drawn = |line: &&str| line.chars().any(|c| ('\u{2801}'..='\u{28ff}').contains(&c));
    let drawn: Vec<usize> = (0..chart.len()).filter(|at| is_drawn(&chart[*at])).collect();
    assert!(!drawn.is_empty() && drawn.iter().all(|row| *row < chart.len() / 2), "{screen}");
}
