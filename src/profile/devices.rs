//! What GPUs can do at most, and how many threads of a kernel they hold at once.
//!
//! Input: the name of a GPU; registers, shared memory and threads of a block. Output: a row of the table, and the occupancy. Figures of
//! cards are those of NVIDIA's data sheets and architecture white papers, limits of multiprocessors those of the CUDA C++ Programming Guide
//! (technical specifications per compute capability). Rates that a datasheet does not have are marked below.

/// A GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gpu {
    /// As on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub limits: &'static Limits,
    /// Multiprocessors.
    pub units: u32,
    /// Clock under load, in Hz.
    pub clock: f64,
    /// Bytes a second of memory, as in the datasheet, and of the second-level cache (measured by others, about), and its bytes.
    pub memory: f64,
    pub cache_rate: f64,
    pub cache: u64,
}

impl Gpu {
    /// Returns its title as a sentence has it: `an H200`, `a B200`.
    pub fn with_article(&self) -> String {
        let article = if self.title.starts_with('B') { "a" } else { "an" };
        format!("{article} {}", self.title)
    }
}

/// The limits of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// The compute capability, 90 for 9.0.
    pub architecture: u32,
    /// Operations of each kind in a clock.
    pub f64: u32,
    pub f32: u32,
    pub int: u32,
    pub special: u32,
    pub threads: u32,
    pub blocks: u32,
    /// Bytes of shared memory, and what each block takes beside its own.
    pub shared: u32,
    pub reserved: u32,
}

const AMPERE: Limits = Limits {
    architecture: 80,
    f64: 32,
    f32: 64,
    int: 64,
    special: 16,
    threads: 2048,
    blocks: 32,
    shared: 164 << 10,
    reserved: 1024,
};
const GEFORCE_30: Limits =
    Limits { architecture: 86, f64: 2, f32: 128, threads: 1536, blocks: 16, shared: 100 << 10, ..AMPERE };
const ADA: Limits = Limits { architecture: 89, blocks: 24, ..GEFORCE_30 };
const HOPPER: Limits = Limits { architecture: 90, f64: 64, f32: 128, shared: 228 << 10, ..AMPERE };
const BLACKWELL: Limits = Limits { architecture: 100, int: 128, ..HOPPER };
const GEFORCE_50: Limits = Limits { architecture: 120, int: 128, ..ADA };

/// Of the memory's rate a copy reaches this part (4.27 of 4.8 TB/s were measured on an H200).
pub(crate) const REACHED: f64 = 0.89;
/// Registers of a multiprocessor, and how many a warp takes at a time.
const REGISTERS: u32 = 65_536;
const REGISTER_UNIT: u32 = 256;

macro_rules! gpus {
    ($($name:literal $title:literal $limits:ident $units:literal $clock:literal $memory:literal $rate:literal $cache:literal;)*) => {
        &[$(Gpu {
            name: $name,
            title: $title,
            limits: &$limits,
            units: $units,
            clock: $clock * 1e9,
            memory: $memory * 1e12,
            cache_rate: $rate * 1e12,
            cache: $cache << 20,
        }),*]
    };
}

/// The GPUs that `--for` knows; the first one is the default. The clock is the highest one of the datasheet, less 2.5 % (on an H200
/// multiply-adds reached 65.3 TFLOP/s, which is 1.93 GHz).
pub static GPUS: &[Gpu] = gpus! {
    // Name, multiprocessors, GHz, TB/s of memory, TB/s of the cache, MiB of the cache.
    "h200" "H200" HOPPER 132 1.93 4.8 6.0 50;
    "h100" "H100" HOPPER 132 1.93 3.35 6.0 50;
    "h100-pcie" "H100 PCIe" HOPPER 114 1.71 2.04 5.0 50;
    "a100" "A100" AMPERE 108 1.37 2.04 4.5 40;
    "b200" "B200" BLACKWELL 148 1.80 8.0 9.0 126;
    "l40s" "L40S" ADA 142 2.46 0.864 4.5 96;
    "rtx3090" "RTX 3090" GEFORCE_30 82 1.65 0.936 2.0 6;
    "rtx4090" "RTX 4090" ADA 128 2.46 1.008 4.5 72;
    "rtx5090" "RTX 5090" GEFORCE_50 170 2.35 1.792 5.5 96;
};

/// Returns the GPU of a name.
pub fn find(name: &str) -> Option<&'static Gpu> {
    GPUS.iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
}

/// What keeps a multiprocessor from holding more threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeps {
    Nothing,
    Registers,
    Shared,
    /// The largest number of blocks.
    Blocks,
    /// Blocks of this size do not fill it.
    Threads,
}

/// The threads of a kernel that a multiprocessor holds at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    pub blocks: u32,
    /// Of all threads that it could hold.
    pub part: f64,
    pub keeps: Keeps,
}

/// Returns the occupancy; registers are 0 if they are not known.
pub fn occupancy(limits: &Limits, threads: u32, registers: u32, shared: u64) -> Occupancy {
    let warps = threads.div_ceil(32).max(1);
    let of_registers = match registers {
        0 => u32::MAX,
        n => REGISTERS / ((n * 32).next_multiple_of(REGISTER_UNIT) * warps),
    };
    let of_shared = match shared {
        0 => u32::MAX,
        n => (u64::from(limits.shared) / (n + u64::from(limits.reserved))) as u32,
    };
    let of_threads = limits.threads / (32 * warps);
    let found = [
        (of_threads, Keeps::Threads),
        (limits.blocks, Keeps::Blocks),
        (of_shared, Keeps::Shared),
        (of_registers, Keeps::Registers),
    ];
    let (blocks, keeps) = found.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((0, Keeps::Nothing));
    let part = f64::from(blocks * threads) / f64::from(limits.threads);
    Occupancy { blocks, part, keeps: if part > 0.999 { Keeps::Nothing } else { keeps } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// By hand, as NVIDIA's occupancy calculator has it.
    #[test]
    fn occupancy_is_the_least_of_four_limits() {
        let of = |threads, registers, shared| occupancy(&HOPPER, threads, registers, shared);
        assert_eq!(of(256, 32, 0), Occupancy { blocks: 8, part: 1.0, keeps: Keeps::Nothing });
        // 64 registers: 2048 a warp, 8 warps: 4 blocks of 16384.
        assert_eq!(of(256, 64, 0), Occupancy { blocks: 4, part: 0.5, keeps: Keeps::Registers });
        assert_eq!(of(32, 0, 0), Occupancy { blocks: 32, part: 0.5, keeps: Keeps::Blocks });
        assert_eq!(of(256, 0, 48 << 10), Occupancy { blocks: 4, part: 0.5, keeps: Keeps::Shared });
        assert_eq!(of(768, 0, 0), Occupancy { blocks: 2, part: 0.75, keeps: Keeps::Threads });
        assert_eq!(occupancy(&ADA, 1024, 0, 0).part, 1024.0 / 1536.0);
    }

    #[test]
    fn names_are_found_in_any_case() {
        assert_eq!(find("RTX4090").map(|gpu| gpu.title), Some("RTX 4090"));
        assert_eq!(find("rtx"), None);
        let articles = ["b200", "h100"].map(|name| find(name).map(Gpu::with_article));
        assert_eq!(articles, [Some("a B200".to_string()), Some("an H100".to_string())]);
    }
}
