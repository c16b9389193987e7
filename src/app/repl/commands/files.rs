//! The commands `:load`, `:reload`, `:edit` and `:save`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command_error::CommandResult;
use crate::disk;
use crate::disk::temporary::TempFolder;
use crate::repl::state::Repl;
use crate::repl::transcript;
use clk_base::escape;
use clk_base::file_error::FileError;
use clk_compile::Session;

impl Repl<'_> {
    pub(super) fn load(&mut self, file: &str) -> CommandResult {
        if file.is_empty() {
            return Err("`:load` wants a file".into());
        }
        let path = path_of(file);
        let text = match disk::read_source(&path) {
            Ok(text) => text,
            Err(why) => {
                self.report_all(&[disk::unreadable(&path, &why)]);
                return Ok(String::new());
            }
        };
        if self.run_file(&path, &text) && !self.loaded.contains(&path) {
            self.loaded.push(path);
        }
        Ok(String::new())
    }

    /// Repeats all imports from the files on disk, then runs the loaded files again.
    pub(super) fn reload(&mut self) -> CommandResult {
        self.session.forget_files();
        let imports = transcript::file_imports(&self.log);
        let loaded = std::mem::take(&mut self.loaded);
        if imports.is_empty() && loaded.is_empty() {
            return Ok("nothing was loaded or imported from files\n".into());
        }
        for (folder, text) in imports {
            let usual = std::mem::replace(&mut self.session.folder, folder);
            self.run_again(&text);
            self.session.folder = usual;
        }
        self.reloading = true;
        for path in loaded {
            let read = self.load(&path.display().to_string());
            self.reloading = read.is_ok();
            read?;
            if !self.loaded.contains(&path) {
                // The file had errors, so loading has not listed it. The next `:reload` tries it again.
                self.loaded.push(path);
            }
        }
        self.reloading = false;
        Ok(String::new())
    }

    pub(super) fn edit(&mut self, name: &str) -> CommandResult {
        let text = match name {
            "" => self.log.last().map(|kept| kept.text.trim_end().to_string()).unwrap_or_default(),
            name => self.source_of(name).ok_or_else(|| format!("`{name}` is not defined in this session"))?,
        };
        let changed = in_editor(&text)?;
        if changed.trim().is_empty() || changed.trim() == text.trim() {
            return Ok("(unchanged)\n".into());
        }
        self.program(&changed);
        Ok(String::new())
    }

    /// Saves the session as a script. Overwrites a file that this session has not written only if `replace` is set.
    pub(super) fn save(&mut self, file: &str, replace: bool) -> CommandResult {
        if file.is_empty() {
            return Err("`:save` wants a file".into());
        }
        let path = path_of(file);
        if self.log.is_empty() {
            return Err(format!("the session has nothing to save yet; `{}` was not written", path.display()).into());
        }
        if !replace && path.is_file() && !self.has_saved(&path) {
            return Err(format!("`{0}` is there already; `:save! {0}` replaces it", path.display()).into());
        }
        let script = transcript::script(&self.log, self.context.limits.seed, &path);
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        let mut trial = Session { folder, ..Session::default() };
        let outcome = trial.add(&path.display().to_string(), script.as_str(), &disk::Disk);
        if outcome.failed() {
            self.context.console.report_all(&outcome.diagnostics, &trial.sources);
            return Err(format!(
                "`{}` was not written: a script cannot have what is pointed at above; `:history` lists the entries",
                path.display()
            )
            .into());
        }
        disk::write_atomically(&path, script.as_bytes())
            .map_err(|why| format!("`{}` cannot be written: {why}", path.display()))?;
        let (lines, shown) = (script.lines().count(), path.display().to_string());
        let shown = escape::name(&shown);
        self.saved.extend(std::fs::canonicalize(&path).map(|path| (path, script)));
        Ok(format!("wrote {shown} ({lines} lines); `clk run {shown}` does it all again\n"))
    }

    /// Whether a file was saved by this session and has not changed since.
    fn has_saved(&self, path: &Path) -> bool {
        let written = std::fs::canonicalize(path).ok().and_then(|path| self.saved.get(&path));
        written.is_some_and(|written| disk::read_source(path).is_ok_and(|text| text == *written))
    }
}

/// Converts a command's argument to a path; removes quotes around it.
fn path_of(file: &str) -> PathBuf {
    disk::path_of(file.strip_prefix('"').and_then(|f| f.strip_suffix('"')).unwrap_or(file))
}

/// Opens a text in the user's editor; returns the edited text.
fn in_editor(text: &str) -> CommandResult {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let editor = variable("VISUAL").or_else(|| variable("EDITOR")).unwrap_or_else(|| "vi".into());
    let failed = |why: FileError| format!("`:edit` needs a temporary file: {why}");
    let folder = TempFolder::new().map_err(failed)?;
    let path = folder.file("entry.clk", format!("{text}\n").as_bytes()).map_err(failed)?;
    run_editor(&editor, &path)?;
    disk::read_source(&path).map_err(|why| format!("what `{editor}` left cannot be read: {why}").into())
}

/// Runs the editor on a file. The variable that names the editor may include arguments, as in `code --wait`.
fn run_editor(editor: &str, path: &Path) -> CommandResult<()> {
    let mut words = editor.split_whitespace();
    let program = words.next().unwrap_or("vi");
    let status = Command::new(program).args(words).arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(_) => Err(format!("`{editor}` reported a failure; nothing was entered").into()),
        Err(error) => Err(format!("`{editor}` cannot be started: {}; set EDITOR", FileError::from(error)).into()),
    }
}
