//! Tests the table of GPU models, and the occupancy that their limits permit.

use clk_profile::gpus::{GpuModel, Occupancy, OccupancyLimit, find_gpu, occupancy};

/// The expected values were computed by hand, and agree with NVIDIA's occupancy calculator.
#[test]
fn occupancy_is_the_least_of_four_limits() {
    let limits = |name| find_gpu(name).expect("a model").limits;
    let occupancy_of = |threads, registers, shared| occupancy(limits("h100"), threads, registers, shared);
    assert_eq!(occupancy_of(256, 32, 0), Occupancy { blocks: 8, part: 1.0, limit: OccupancyLimit::Nothing });
    // With 64 registers per thread, a warp needs 2048 registers and a block of 8 warps 16384, so there are 4 blocks.
    assert_eq!(occupancy_of(256, 64, 0), Occupancy { blocks: 4, part: 0.5, limit: OccupancyLimit::Registers });
    assert_eq!(occupancy_of(32, 0, 0), Occupancy { blocks: 32, part: 0.5, limit: OccupancyLimit::Blocks });
    assert_eq!(occupancy_of(256, 0, 48 << 10), Occupancy { blocks: 4, part: 0.5, limit: OccupancyLimit::Shared });
    assert_eq!(occupancy_of(768, 0, 0), Occupancy { blocks: 2, part: 0.75, limit: OccupancyLimit::Threads });
    assert_eq!(occupancy(limits("rtx4090"), 1024, 0, 0).part, 1024.0 / 1536.0);
}

#[test]
fn names_are_found_in_any_case() {
    assert_eq!(find_gpu("RTX4090").map(|gpu| gpu.title), Some("RTX 4090"));
    assert_eq!(find_gpu("rtx"), None);
    let articles = ["b200", "h100"].map(|name| find_gpu(name).map(GpuModel::with_article));
    assert_eq!(articles, [Some("a B200".to_string()), Some("an H100".to_string())]);
}
