//! Reads the resource usage of kernels from the compiler's output, an ELF file with NVIDIA-specific sections.

/// The resources that a kernel uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CubinResources {
    pub kernel: String,
    /// Number of registers per thread.
    pub registers: u32,
    /// Bytes of local memory per thread, for arrays that are not in registers, for calls and for spills.
    pub stack: u32,
    /// Bytes of static shared memory per block.
    pub shared: u32,
    /// Bytes of constant memory, including the arguments.
    pub constant: u32,
    /// Bytes of instructions.
    pub code: u64,
}

/// First architecture on which the system reserves shared memory in each block. The compiler includes this memory in
/// the kernel's size.
const RESERVES_SHARED: u32 = 90;
const RESERVED_SHARED: u64 = 1024;

/// Numbers of attribute types in the section `.nv.info`.
const REGISTERS: u8 = 0x2f;
const FRAME: u8 = 0x11;

/// A section of the ELF file.
struct ElfSection<'a> {
    name: &'a str,
    offset: usize,
    size: u64,
}

/// Returns the resources of each kernel in a cubin, in file order. Returns an empty list if the file is malformed.
pub fn resources(file: &[u8], architecture: u32) -> Vec<CubinResources> {
    read(file, architecture).unwrap_or_default()
}

fn read(file: &[u8], architecture: u32) -> Option<Vec<CubinResources>> {
    let sections = sections(file)?;
    let section_named = |name: &str| sections.iter().find(|s| s.name == name);
    let bytes = |s: &ElfSection<'_>| file.get(s.offset..s.offset.checked_add(usize::try_from(s.size).ok()?)?);
    let symbols = bytes(section_named(".symtab")?)?;
    let names = bytes(section_named(".strtab")?)?;
    let symbol = |wanted: &str| {
        symbols.chunks_exact(24).position(|s| text(names, number(s, 0, 4).unwrap_or(0) as usize) == Some(wanted))
    };
    let info = section_named(".nv.info").and_then(bytes).unwrap_or(&[]);
    let mut kernels = Vec::new();
    for section in &sections {
        let Some(kernel) = section.name.strip_prefix(".text.") else { continue };
        let size = |prefix: &str| section_named(&format!("{prefix}{kernel}")).map_or(0, |s| s.size);
        let reserved = if architecture >= RESERVES_SHARED { RESERVED_SHARED } else { 0 };
        let constant: u64 = (0..=5).map(|bank| size(&format!(".nv.constant{bank}."))).sum();
        let of = |attribute| symbol(kernel).and_then(|index| entry(info, attribute, index as u32)).unwrap_or(0);
        kernels.push(CubinResources {
            kernel: kernel.to_string(),
            registers: of(REGISTERS),
            stack: of(FRAME),
            shared: size(".nv.shared.").saturating_sub(reserved) as u32,
            constant: constant as u32,
            code: section.size,
        });
    }
    Some(kernels)
}

fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let part = bytes.get(at..at.checked_add(size)?)?;
    Some(part.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

/// Returns the zero-terminated string at an offset in a string table.
fn text(table: &[u8], at: usize) -> Option<&str> {
    let rest = table.get(at..)?;
    let end = rest.iter().position(|&b| b == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}

fn sections(file: &[u8]) -> Option<Vec<ElfSection<'_>>> {
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let at = usize::try_from(number(file, 0x28, 8)?).ok()?;
    let (size, count, names) = (number(file, 0x3a, 2)?, number(file, 0x3c, 2)?, number(file, 0x3e, 2)?);
    let header = |k: u64| file.get(at.checked_add((k * size) as usize)?..)?.get(..64);
    let table = header(names)?;
    let table = file.get(usize::try_from(number(table, 0x18, 8)?).ok()?..)?;
    let section = |k| {
        let header = header(k)?;
        Some(ElfSection {
            name: text(table, number(header, 0, 4)? as usize)?,
            offset: usize::try_from(number(header, 0x18, 8)?).ok()?,
            size: number(header, 0x20, 8)?,
        })
    };
    (0..count).map(section).collect()
}

/// Returns the value of an attribute for a symbol in `.nv.info`.
fn entry(info: &[u8], attribute: u8, symbol: u32) -> Option<u32> {
    /// Entries of this format consist of four bytes and a payload whose size they state; entries of other formats have
    /// four bytes.
    const SIZED: u8 = 4;
    let mut at = 0;
    while let (Some(&format), Some(&kind)) = (info.get(at), info.get(at + 1)) {
        let size = if format == SIZED { number(info, at + 2, 2)? as usize } else { 0 };
        if format == SIZED && kind == attribute && number(info, at + 4, 4)? == u64::from(symbol) {
            return number(info, at + 8, 4).map(|n| n as u32);
        }
        at += 4 + size;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an ELF file with these sections after the null section.
    fn elf(sections: &[(&str, Vec<u8>)]) -> Vec<u8> {
        let mut names = vec![0u8];
        let mut file = vec![0u8; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        let mut headers = vec![[0u8; 64]];
        let mut all: Vec<(&str, Vec<u8>)> = sections.to_vec();
        all.push((".shstrtab", vec![]));
        for (k, (name, bytes)) in all.iter().enumerate() {
            let mut header = [0u8; 64];
            header[..4].copy_from_slice(&(names.len() as u32).to_le_bytes());
            names.extend(name.bytes().chain([0]));
            let bytes = if k == sections.len() { &names } else { bytes };
            header[0x18..0x20].copy_from_slice(&(file.len() as u64).to_le_bytes());
            header[0x20..0x28].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            file.extend(bytes);
            headers.push(header);
        }
        let at = file.len() as u64;
        file[0x28..0x30].copy_from_slice(&at.to_le_bytes());
        file[0x3a..0x3c].copy_from_slice(&64u16.to_le_bytes());
        file[0x3c..0x3e].copy_from_slice(&(headers.len() as u16).to_le_bytes());
        file[0x3e..0x40].copy_from_slice(&(headers.len() as u16 - 1).to_le_bytes());
        headers.iter().for_each(|header| file.extend(header));
        file
    }

    fn example() -> Vec<u8> {
        let mut symbols = vec![0u8; 24];
        symbols.extend([1, 0, 0, 0].into_iter().chain([0; 20]));
        let attribute = |kind: u8, symbol: u32, value: u32| {
            let mut bytes = vec![4, kind, 8, 0];
            bytes.extend(symbol.to_le_bytes());
            bytes.extend(value.to_le_bytes());
            bytes
        };
        let info =
            [vec![3, 0x1b, 0xff, 0], attribute(REGISTERS, 0, 99), attribute(REGISTERS, 1, 40), attribute(FRAME, 1, 24)];
        elf(&[
            (".symtab", symbols),
            (".strtab", b"\0scan\0".to_vec()),
            (".nv.info", info.concat()),
            (".text.scan", vec![0; 256]),
            (".nv.shared.scan", vec![0; 1024 + 512]),
            (".nv.constant0.scan", vec![0; 560]),
        ])
    }

    #[test]
    fn resources_are_read_from_sections_and_attributes() {
        let expected =
            CubinResources { kernel: "scan".into(), registers: 40, stack: 24, shared: 512, constant: 560, code: 256 };
        assert_eq!(resources(&example(), 90), std::slice::from_ref(&expected));
        assert_eq!(resources(&example(), 80), [CubinResources { shared: 1536, ..expected }]);
    }

    #[test]
    fn other_files_have_no_resources() {
        let file = example();
        assert!(resources(b"", 90).is_empty());
        assert!(resources(b"machine code", 90).is_empty());
        // A truncated or damaged file may yield fewer kernels, but must not cause a panic.
        for end in 0..file.len() {
            resources(&file[..end], 90);
        }
        for at in 0..file.len() {
            let mut damaged = file.clone();
            damaged[at] = 0xff;
            resources(&damaged, 90);
        }
    }
}
