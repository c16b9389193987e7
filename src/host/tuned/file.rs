//! The text of a file of choices: what `clk tune` measured, to be checked in beside the source.
//!
//! Input and output: a [`File`] and its text. Each line begins with a word that says what it is, so that an edited or merged file
//! is either understood or refused with the number of a line.

use std::fmt::Write;

/// The first line, with the version of the format.
pub(crate) const FIRST: &str = "clk tunings 1";

/// Constants with their values, as written: `BM = 64, FAST = true`.
pub(crate) type Setting = Vec<(String, String)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    pub kernels: Vec<Kernel>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    pub name: String,
    /// Of the kernel's head.
    pub hash: u64,
    pub entries: Vec<Entry>,
    /// The line in the file, from 1.
    pub line: usize,
}

/// What was measured on one device, for launches of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    pub device: String,
    /// Types and sizes: `T = f32, N 513..=1024`; empty for all launches.
    pub class: String,
    pub choice: Setting,
    /// The sizes that were measured.
    pub at: String,
    /// Of the kernel's body when it was measured.
    pub body: Option<u64>,
    /// What was found for each choice, in the order of the source.
    pub found: Vec<Found>,
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    pub setting: Setting,
    /// The time of a launch, or why the choice is refused.
    pub outcome: Result<String, String>,
}

/// Why a text is no file of choices, and in which line.
#[derive(Clone, Debug, PartialEq)]
pub struct Damage {
    pub line: usize,
    pub why: String,
}

/// Writes a setting as `BM = 64, BN = 128`.
pub(crate) fn setting_text(setting: &Setting) -> String {
    setting.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

impl File {
    pub fn text(&self, source: &str) -> String {
        let mut out = format!("{FIRST}\n");
        let _ = writeln!(
            out,
            "// Written by `clk tune {source}`, and read by `clk run` and the other commands. Check it in."
        );
        for kernel in &self.kernels {
            let _ = writeln!(out, "\nkernel {} {:016x}", kernel.name, kernel.hash);
            for entry in &kernel.entries {
                let _ = writeln!(out, "on {}", entry.device);
                let _ = writeln!(out, "  for {}", if entry.class.is_empty() { "all" } else { &entry.class });
                let _ = writeln!(out, "    choose {}", setting_text(&entry.choice));
                if !entry.at.is_empty() {
                    let _ = writeln!(out, "    at {}", entry.at);
                }
                if let Some(body) = entry.body {
                    let _ = writeln!(out, "    body {body:016x}");
                }
                for Found { setting, outcome } in &entry.found {
                    let setting = setting_text(setting);
                    let _ = match outcome {
                        Ok(time) => writeln!(out, "    time {time}: {setting}"),
                        Err(why) => writeln!(out, "    refused {setting}: {}", why.replace(['\n', '\r'], " ")),
                    };
                }
            }
        }
        out
    }

    /// Reads the text of a file.
    pub fn parse(text: &str) -> Result<File, Damage> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = Reader { file: File::default(), device: None };
        let mut first = true;
        for (at, line) in text.lines().enumerate() {
            let (number, line) = (at + 1, line.trim());
            if first && line != FIRST {
                return Err(Damage { line: number, why: format!("it does not begin with `{FIRST}`") });
            }
            if !first && !line.is_empty() && !line.starts_with("//") {
                reader.line(number, line).map_err(|why| Damage { line: number, why })?;
            }
            first = false;
        }
        if first {
            return Err(Damage { line: 1, why: "it is empty".into() });
        }
        reader.complete().map_err(|why| Damage { line: text.lines().count(), why })?;
        Ok(reader.file)
    }
}

struct Reader {
    file: File,
    /// The device that the last `on` named.
    device: Option<String>,
}

impl Reader {
    fn line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "kernel" => {
                self.complete()?;
                let (name, hash) = rest.split_once(' ').ok_or("a kernel has a name and a number")?;
                let hash = digits(hash).ok_or("the number of a kernel has 16 hexadecimal digits")?;
                if self.file.kernels.iter().any(|kernel| kernel.name == name) {
                    return Err(format!("the kernel `{name}` is here twice"));
                }
                self.device = None;
                self.file.kernels.push(Kernel { name: name.into(), hash, entries: vec![], line: number });
            }
            "on" if !rest.is_empty() => {
                self.complete()?;
                self.device = Some(rest.into());
            }
            "for" if !rest.is_empty() => {
                self.complete()?;
                let device = self.device.clone().ok_or("no `on` names the device")?;
                let class = if rest == "all" { String::new() } else { rest.to_string() };
                let kernel = self.file.kernels.last_mut().ok_or("no `kernel` stands above")?;
                if kernel.entries.iter().any(|entry| entry.device == device && entry.class == class) {
                    return Err(format!("`for {rest}` on {device} is here twice"));
                }
                kernel.entries.push(Entry { device, class, line: number, ..Entry::default() });
            }
            "choose" => {
                let entry = self.entry()?;
                if !entry.choice.is_empty() {
                    return Err("a second choice".into());
                }
                entry.choice = setting(rest)?;
            }
            "at" => self.entry()?.at = rest.into(),
            "body" => {
                let body = digits(rest).ok_or("the number of a body has 16 hexadecimal digits")?;
                self.entry()?.body = Some(body);
            }
            "time" => {
                let (time, of) = rest.split_once(": ").ok_or("a time has a colon, and the constants behind it")?;
                let found = Found { setting: setting(of)?, outcome: Ok(time.into()) };
                self.entry()?.found.push(found);
            }
            "refused" => {
                let (of, why) = rest.split_once(": ").ok_or("a refusal has a colon, and the reason behind it")?;
                let found = Found { setting: setting(of)?, outcome: Err(why.into()) };
                self.entry()?.found.push(found);
            }
            _ => return Err(format!("`{word}` says nothing here")),
        }
        Ok(())
    }

    fn entry(&mut self) -> Result<&mut Entry, String> {
        let kernel = self.file.kernels.last_mut();
        kernel.and_then(|kernel| kernel.entries.last_mut()).ok_or_else(|| "no `for` stands above".into())
    }

    /// Returns an error if the last entry lacks its choice.
    fn complete(&self) -> Result<(), String> {
        let last = self.file.kernels.last().and_then(|kernel| kernel.entries.last());
        match last.filter(|entry| entry.choice.is_empty()) {
            Some(entry) => Err(format!("nothing is chosen for the `for` of line {}", entry.line)),
            None => Ok(()),
        }
    }
}

/// Reads 16 hexadecimal digits.
fn digits(text: &str) -> Option<u64> {
    let whole = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| whole)
}

/// Reads `BM = 64, FAST = true`.
fn setting(text: &str) -> Result<Setting, String> {
    let one = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty() && !value.is_empty()).then(|| (name.to_string(), value.to_string()))
    };
    let all: Option<Setting> = text.split(',').map(one).collect();
    let all = all.ok_or_else(|| format!("`{text}` does not read `NAME = VALUE, …`"))?;
    let twice = all.iter().enumerate().find(|(at, (name, _))| all[..*at].iter().any(|(before, _)| before == name));
    match twice {
        Some((_, (name, _))) => Err(format!("`{name}` has two values")),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "clk tunings 1
// Written by `clk tune a.clk`, and read by `clk run` and the other commands. Check it in.

kernel transpose 00000000000000ff
on NVIDIA H200
  for T = f32, M 33..=64
    choose B = 32, FAST = true
    at M = 40
    body 0123456789abcdef
    time 1.50 us: B = 16, FAST = true
    time 1.00 us: B = 32, FAST = true
    refused B = 64, FAST = true: E0521 a block cannot have 4096 threads: no
on sim
  for all
    choose B = 16, FAST = false
";

    #[test]
    fn a_text_is_read_and_written_again() {
        let file = File::parse(TEXT).expect("a file of choices");
        assert_eq!(file.text("a.clk"), TEXT);
        let entry = &file.kernels[0].entries[0];
        assert_eq!((entry.device.as_str(), entry.class.as_str(), entry.line), ("NVIDIA H200", "T = f32, M 33..=64", 6));
        assert_eq!(entry.found[2].outcome, Err("E0521 a block cannot have 4096 threads: no".into()));
        assert_eq!(file.kernels[0].entries[1].class, "");
        // Other ends of lines, blanks and remarks change nothing.
        let edited = format!("\u{feff}{}", TEXT.replace('\n', "\r\n").replace("    ", "\t"));
        assert_eq!(File::parse(&edited).expect("the same"), file);
    }

    #[test]
    fn what_is_no_file_of_choices_is_refused_with_its_line() {
        let damage = |text: &str| File::parse(text).map_err(|d| (d.line, d.why)).expect_err(text);
        assert_eq!(damage("").0, 1);
        assert_eq!(damage("{}").0, 1);
        assert_eq!(damage("clk tunings 2\n").0, 1);
        let with = |lines: &str| damage(&format!("{FIRST}\n{lines}"));
        for (lines, line, word) in [
            ("<<<<<<< HEAD", 2, "says nothing"),
            ("kernel f", 2, "number"),
            ("kernel f 12", 2, "16 hexadecimal"),
            ("kernel f +000000000000001", 2, "16 hexadecimal"),
            ("kernel f 0000000000000001\non sim\nfor all\nbody 1\nchoose B = 1", 5, "16 hexadecimal"),
            ("on sim\nfor all", 3, "no `kernel`"),
            ("kernel f 0000000000000001\nfor all", 3, "no `on`"),
            ("kernel f 0000000000000001\non sim\nchoose B = 1", 4, "no `for`"),
            ("kernel f 0000000000000001\non sim\nfor all", 4, "nothing is chosen"),
            ("kernel f 0000000000000001\non sim\nfor all\nfor N 1..=2\nchoose B = 1", 5, "nothing is chosen"),
            ("kernel f 0000000000000001\non sim\nfor all\nchoose B = 1\nfor all\nchoose B = 2", 6, "twice"),
            ("kernel f 0000000000000001\non sim\nfor all\nchoose B", 5, "NAME = VALUE"),
            ("kernel f 0000000000000001\non sim\nfor all\nchoose B = 1\nchoose B = 2", 6, "second"),
            ("kernel f 0000000000000001\non sim\nfor all\nchoose B = 1, C = 1, B = 2", 5, "`B` has two values"),
            ("kernel f 0000000000000001\nkernel f 0000000000000001", 3, "twice"),
        ] {
            let (at, why) = with(lines);
            assert!(at == line && why.contains(word), "{lines}: {at} {why}");
        }
    }
}
