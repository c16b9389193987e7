//! The text format of tuning files. `clk tune` writes its measurements to such a file in the folder of the source, and
//! users check it in.
//!
//! [`TunedFile`] is parsed from the text and formatted as text. Each line begins with a keyword, so a file with invalid
//! edits or merge conflicts is rejected with a line number.

use std::fmt::Write;

use thiserror::Error;

/// The first line, with the version of the format.
pub(crate) const HEADER: &str = "clk tunings 1";

/// A configuration as the file spells it: the names of tuned constants, and their values as text (`BM = 64, FAST =
/// true`).
pub(crate) type WrittenConfig = Vec<(String, String)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TunedFile {
    pub kernels: Vec<TunedKernel>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct TunedKernel {
    pub name: String,
    /// The hash of the kernel's head (the tokens before its body) at the time of the measurement.
    pub hash: u64,
    pub entries: Vec<TunedEntry>,
    /// The line number in the file, from 1.
    pub line: usize,
}

/// The measurements on one device for one class of launches.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TunedEntry {
    pub device: String,
    /// The tuning class: the types and size ranges of the launches, such as `T = f32, N 513..=1024`. Empty for all
    /// launches.
    pub class: String,
    pub choice: WrittenConfig,
    /// The dimensions of the measured launch, such as `M = 40`.
    pub sizes: String,
    /// The hash of the kernel's body at the time of the measurement.
    pub body: Option<u64>,
    /// The measurement of each configuration, in the order of the `tune` clause.
    pub measurements: Vec<MeasuredConfig>,
    pub line: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct MeasuredConfig {
    pub setting: WrittenConfig,
    /// The time of a launch, or the reason why the configuration was rejected.
    pub outcome: Result<String, String>,
}

/// The reason why a text is not a tuning file, with the line of the error.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("line {line}: {why}")]
pub struct ParseError {
    pub line: usize,
    pub why: String,
}

/// Formats a configuration as `BM = 64, BN = 128`.
pub(crate) fn config_text(setting: &WrittenConfig) -> String {
    setting.iter().map(|(name, value)| format!("{name} = {value}")).collect::<Vec<_>>().join(", ")
}

impl TunedFile {
    pub fn text(&self, source: &str) -> String {
        let mut out = format!("{HEADER}\n");
        let _ = writeln!(
            out,
            "// Written by `clk tune {source}`, and read by `clk run` and the other commands. Check it in."
        );
        for kernel in &self.kernels {
            let _ = writeln!(out, "\nkernel {} {:016x}", kernel.name, kernel.hash);
            for entry in &kernel.entries {
                let _ = writeln!(out, "on {}", entry.device);
                let _ = writeln!(out, "  for {}", if entry.class.is_empty() { "all" } else { &entry.class });
                let _ = writeln!(out, "    choose {}", config_text(&entry.choice));
                if !entry.sizes.is_empty() {
                    let _ = writeln!(out, "    at {}", entry.sizes);
                }
                if let Some(body) = entry.body {
                    let _ = writeln!(out, "    body {body:016x}");
                }
                for MeasuredConfig { setting, outcome } in &entry.measurements {
                    let setting = config_text(setting);
                    let _ = match outcome {
                        Ok(time) => writeln!(out, "    time {time}: {setting}"),
                        Err(why) => writeln!(out, "    refused {setting}: {}", why.replace(['\n', '\r'], " ")),
                    };
                }
            }
        }
        out
    }

    /// Parses a tuning file.
    pub fn parse(text: &str) -> Result<TunedFile, ParseError> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut reader = TunedFileReader { file: TunedFile::default(), device: None };
        let mut first = true;
        for (at, line) in text.lines().enumerate() {
            let (number, line) = (at + 1, line.trim());
            if first && line != HEADER {
                return Err(ParseError { line: number, why: format!("it does not begin with `{HEADER}`") });
            }
            if !first && !line.is_empty() && !line.starts_with("//") {
                reader.read_line(number, line).map_err(|why| ParseError { line: number, why })?;
            }
            first = false;
        }
        if first {
            return Err(ParseError { line: 1, why: "it is empty".into() });
        }
        reader.check_complete().map_err(|why| ParseError { line: text.lines().count(), why })?;
        Ok(reader.file)
    }
}

struct TunedFileReader {
    file: TunedFile,
    /// The device in the last `on` line.
    device: Option<String>,
}

impl TunedFileReader {
    fn read_line(&mut self, number: usize, line: &str) -> Result<(), String> {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let rest = rest.trim();
        match word {
            "kernel" => {
                self.check_complete()?;
                let (name, hash) = rest.split_once(' ').ok_or("a kernel has a name and a number")?;
                let hash = parse_hash(hash).ok_or("the number of a kernel has 16 hexadecimal digits")?;
                if self.file.kernels.iter().any(|kernel| kernel.name == name) {
                    return Err(format!("the kernel `{name}` is here twice"));
                }
                self.device = None;
                self.file.kernels.push(TunedKernel { name: name.into(), hash, entries: vec![], line: number });
            }
            "on" if !rest.is_empty() => {
                self.check_complete()?;
                self.device = Some(rest.into());
            }
            "for" if !rest.is_empty() => {
                self.check_complete()?;
                let device = self.device.clone().ok_or("no `on` names the device")?;
                let class = if rest == "all" { String::new() } else { rest.to_string() };
                let kernel = self.file.kernels.last_mut().ok_or("no `kernel` line comes before it")?;
                if kernel.entries.iter().any(|entry| entry.device == device && entry.class == class) {
                    return Err(format!("`for {rest}` on {device} is here twice"));
                }
                kernel.entries.push(TunedEntry { device, class, line: number, ..TunedEntry::default() });
            }
            "choose" => {
                let entry = self.last_entry()?;
                if !entry.choice.is_empty() {
                    return Err("a second choice".into());
                }
                entry.choice = parse_config(rest)?;
            }
            "at" => self.last_entry()?.sizes = rest.into(),
            "body" => {
                let body = parse_hash(rest).ok_or("the number of a body has 16 hexadecimal digits")?;
                self.last_entry()?.body = Some(body);
            }
            "time" => {
                let (time, of) = rest.split_once(": ").ok_or("a time is followed by a colon and the constants")?;
                let measured = MeasuredConfig { setting: parse_config(of)?, outcome: Ok(time.into()) };
                self.last_entry()?.measurements.push(measured);
            }
            "refused" => {
                let (of, why) = rest.split_once(": ").ok_or("a refusal is followed by a colon and the reason")?;
                let measured = MeasuredConfig { setting: parse_config(of)?, outcome: Err(why.into()) };
                self.last_entry()?.measurements.push(measured);
            }
            _ => return Err(format!("`{word}` says nothing here")),
        }
        Ok(())
    }

    fn last_entry(&mut self) -> Result<&mut TunedEntry, String> {
        let kernel = self.file.kernels.last_mut();
        kernel.and_then(|kernel| kernel.entries.last_mut()).ok_or_else(|| "no `for` line comes before it".into())
    }

    /// Returns an error if the last entry (`for` line) has no `choose` line.
    fn check_complete(&self) -> Result<(), String> {
        let last = self.file.kernels.last().and_then(|kernel| kernel.entries.last());
        match last.filter(|entry| entry.choice.is_empty()) {
            Some(entry) => Err(format!("nothing is chosen for the `for` of line {}", entry.line)),
            None => Ok(()),
        }
    }
}

/// Parses a hash of 16 hexadecimal digits.
fn parse_hash(text: &str) -> Option<u64> {
    let whole = text.len() == 16 && text.bytes().all(|digit| digit.is_ascii_hexdigit());
    u64::from_str_radix(text, 16).ok().filter(|_| whole)
}

/// Parses a configuration such as `BM = 64, FAST = true`.
fn parse_config(text: &str) -> Result<WrittenConfig, String> {
    let one = |part: &str| {
        let (name, value) = part.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        (!name.is_empty() && !value.is_empty()).then(|| (name.to_string(), value.to_string()))
    };
    let all: Option<WrittenConfig> = text.split(',').map(one).collect();
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
    fn tuning_files_round_trip() {
        let file = TunedFile::parse(TEXT).expect("a file of choices");
        assert_eq!(file.text("a.clk"), TEXT);
        let entry = &file.kernels[0].entries[0];
        assert_eq!((entry.device.as_str(), entry.class.as_str(), entry.line), ("NVIDIA H200", "T = f32, M 33..=64", 6));
        assert_eq!(entry.measurements[2].outcome, Err("E0521 a block cannot have 4096 threads: no".into()));
        assert_eq!(file.kernels[0].entries[1].class, "");
        // Other line ends, white space and comments do not change the parsed file.
        let edited = format!("\u{feff}{}", TEXT.replace('\n', "\r\n").replace("    ", "\t"));
        assert_eq!(TunedFile::parse(&edited).expect("the same"), file);
    }

    #[test]
    fn errors_name_the_line() {
        let damage = |text: &str| TunedFile::parse(text).map_err(|d| (d.line, d.why)).expect_err(text);
        assert_eq!(damage("").0, 1);
        assert_eq!(damage("{}").0, 1);
        assert_eq!(damage("clk tunings 2\n").0, 1);
        let with = |lines: &str| damage(&format!("{HEADER}\n{lines}"));
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
