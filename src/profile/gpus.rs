//! The peak rates of GPUs, and the occupancy of a kernel.
//!
//! Input: the name of a GPU; registers, shared memory and threads of a block. Output: the GPU's data in [`GPUS`], and
//! the occupancy. The rates of a GPU are from NVIDIA's data sheets and architecture white papers; the limits of
//! multiprocessors are from the CUDA C++ Programming Guide (technical specifications per compute capability). Comments
//! below mark rates from other sources.

/// The data of a GPU model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GpuModel {
    /// The name of the GPU on the command line.
    pub name: &'static str,
    pub title: &'static str,
    pub limits: &'static SmLimits,
    /// The number of multiprocessors.
    pub units: u32,
    /// The clock under load, in Hz.
    pub clock: f64,
    /// Memory bandwidth in bytes per second, from the data sheet.
    pub memory: f64,
    /// L2 bandwidth in bytes per second, approximate, from published measurements.
    pub cache_rate: f64,
    /// Size of the L2 cache in bytes.
    pub cache: u64,
}

impl GpuModel {
    /// Returns the title with its article: `an H200`, `a B200`.
    pub fn with_article(&self) -> String {
        let article = if self.title.starts_with('B') { "a" } else { "an" };
        format!("{article} {}", self.title)
    }
}

/// The limits and rates of a multiprocessor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SmLimits {
    /// The compute capability times ten: 90 for 9.0.
    pub architecture: u32,
    /// Operations per clock, for `f64`, `f32`, integers and special functions.
    pub f64: u32,
    pub f32: u32,
    pub int: u32,
    pub special: u32,
    pub threads: u32,
    pub blocks: u32,
    /// Bytes of shared memory.
    pub shared: u32,
    /// Bytes of shared memory that are reserved for each block.
    pub reserved: u32,
}

const AMPERE: SmLimits = SmLimits {
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
const GEFORCE_30: SmLimits =
    SmLimits { architecture: 86, f64: 2, f32: 128, threads: 1536, blocks: 16, shared: 100 << 10, ..AMPERE };
const ADA: SmLimits = SmLimits { architecture: 89, blocks: 24, ..GEFORCE_30 };
const HOPPER: SmLimits = SmLimits { architecture: 90, f64: 64, f32: 128, shared: 228 << 10, ..AMPERE };
const BLACKWELL: SmLimits = SmLimits { architecture: 100, int: 128, ..HOPPER };
const GEFORCE_50: SmLimits = SmLimits { architecture: 120, int: 128, ..ADA };

/// The fraction of the memory bandwidth that a copy achieves (measured on an H200: 4.27 of 4.8 TB/s).
pub(crate) const ACHIEVED_BANDWIDTH: f64 = 0.89;
/// The number of registers of a multiprocessor.
const REGISTERS: u32 = 65_536;
/// The number of registers of a warp is rounded up to a multiple of this.
const REGISTER_UNIT: u32 = 256;

macro_rules! gpus {
    ($($name:literal $title:literal $limits:ident $units:literal $clock:literal $memory:literal $rate:literal $cache:literal;)*) => {
        &[$(GpuModel {
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

/// The GPUs that `--for` accepts; the first one is the default. The clock is 2.5 % below the maximum clock in the data
/// sheet, because on an H200, multiply-adds reached 65.3 TFLOP/s, which corresponds to 1.93 GHz.
pub static GPUS: &[GpuModel] = gpus! {
    // Columns: name, title, limits, number of multiprocessors, clock in GHz, memory bandwidth in TB/s, L2 bandwidth in
    // TB/s, L2 size in MiB.
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

/// Returns the GPU with this name.
pub fn find_gpu(name: &str) -> Option<&'static GpuModel> {
    GPUS.iter().find(|gpu| gpu.name.eq_ignore_ascii_case(name))
}

/// The resource that limits the occupancy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OccupancyLimit {
    Nothing,
    Registers,
    Shared,
    /// The maximum number of blocks per multiprocessor.
    Blocks,
    /// The block size: whole blocks of this size do not fill a multiprocessor.
    Threads,
}

/// How many blocks and threads of a kernel are resident on a multiprocessor at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Occupancy {
    pub blocks: u32,
    /// The resident threads as a fraction of the maximum.
    pub part: f64,
    pub limit: OccupancyLimit,
}

/// Returns the occupancy for blocks of `threads` threads, with `registers` registers per thread (0 if unknown) and
/// `shared` bytes of shared memory per block.
pub fn occupancy(limits: &SmLimits, threads: u32, registers: u32, shared: u64) -> Occupancy {
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
    let limits_by_resource = [
        (of_threads, OccupancyLimit::Threads),
        (limits.blocks, OccupancyLimit::Blocks),
        (of_shared, OccupancyLimit::Shared),
        (of_registers, OccupancyLimit::Registers),
    ];
    let (blocks, limit) =
        limits_by_resource.into_iter().min_by_key(|(blocks, _)| *blocks).unwrap_or((0, OccupancyLimit::Nothing));
    let part = f64::from(blocks * threads) / f64::from(limits.threads);
    Occupancy { blocks, part, limit: if part > 0.999 { OccupancyLimit::Nothing } else { limit } }
}
