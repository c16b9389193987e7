//! Tests of the stepper, with kernels whose results are known.

use clk_ir::text::parse;
use clk_runtime::{Arg, FaultKind, LaunchExtents};
use clk_scalar::ScalarValue;
use clk_step::timeline::{Seeker, Timeline};
use clk_step::{AccessEvent, LaunchSnapshot, StepLaunch, StepObserver, StepPosition, launch};

fn grid(grid: u32, block: u32) -> LaunchExtents {
    LaunchExtents::Grid { grid: [grid, 1, 1], block: [block, 1, 1] }
}

/// Runs a kernel with one `inout` array of i32; returns the array, the printed output and the faults.
fn run(text: &str, extents: LaunchExtents, start: &[i32]) -> (Vec<i32>, String, Vec<FaultKind>) {
    let module = parse(text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut bytes: Vec<u8> = start.iter().flat_map(|v| v.to_le_bytes()).collect();
    let arg = Arg::Write { bytes: &mut bytes, shape: vec![start.len() as u32] };
    let outcome = launch(&module, extents, &mut [arg]);
    let array = bytes.chunks(4).map(|c| i32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect();
    (array, outcome.output, outcome.faults.into_iter().map(|f| f.kind).collect())
}

#[test]
fn each_index_tuple_runs_once() {
    let text = "kernel k(r: inout @r) threads 2
fn k() {
    global 0 inout @r: i32[_]
    %0: i32 = index0 * 3i32
    %1: i32 = %0 + index1
    %2: i32 = load @r[%1]
    %3: i32 = %2 + %1
    store @r[%1] = %3
}
";
    assert_eq!(run(text, LaunchExtents::Threads([2, 3, 1]), &[10; 6]).0, [10, 11, 12, 13, 14, 15]);
    assert_eq!(run(text, LaunchExtents::Threads([0, 3, 1]), &[10; 6]).0, [10; 6]);
}

/// A kernel in which one block computes a sum through shared memory, in a loop with barriers.
const SUM: &str = "kernel k(r: inout @r) grid
fn k() {
    global 0 inout @r: i32[_]
    shared @s: i32[(i32: block_dim.x + 0i32)]
    var $d: i32
    %0: i32 = load @r[global.x]
    store @s[thread.x] = %0
    %10: i32 = block_dim.x / 2i32
    $d = %10
    loop '0 {
        %1: i32 = read $d
        %2: bool = %1 == 0i32
        if %2 {
            break '0
        }
        barrier
        %3: bool = thread.x < %1
        if %3 {
            %4: i32 = thread.x + %1
            %5: i32 = load @s[%4]
            %6: i32 = load @s[thread.x]
            %7: i32 = %5 + %6
            store @s[thread.x] = %7
        }
        %8: i32 = %1 / 2i32
        $d = %8
    }
    barrier
    %9: i32 = load @s[0i32]
    store @r[global.x] = %9
}
";

#[test]
fn a_block_sums_through_shared_memory() {
    let start: Vec<i32> = (0..16).collect();
    let sums: Vec<i32> = [28; 8].into_iter().chain([92; 8]).collect();
    assert_eq!(run(SUM, grid(2, 8), &start).0, sums);
}

#[test]
fn warps_shuffle_and_reduce() {
    let kernel = |operation: &str| {
        format!(
            "kernel k(r: inout @r) grid
fn k() {{
    global 0 inout @r: i32[_]
    %0: i32 = load @r[thread.x]
    %1: i32 = {operation}
    store @r[thread.x] = %1
}}
"
        )
    };
    let start: Vec<i32> = (0..64).collect();
    let of = |operation: &str| run(&kernel(operation), grid(1, 64), &start).0;
    assert_eq!(of("shuffle_xor %0, 1i32")[..4], [1, 0, 3, 2]);
    assert_eq!(of("shuffle_up %0, 2i32")[30..36], [28, 29, 32, 33, 32, 33]);
    assert_eq!(of("shuffle_down %0, 2i32")[28..33], [30, 31, 30, 31, 34]);
    assert_eq!(of("shuffle %0, 5i32")[31..33], [5, 37]);
    assert_eq!(of("warp_reduce_add %0")[31..33], [496, 496 + 32 * 32]);
    assert_eq!(of("warp_reduce_max %0")[31..33], [31, 63]);
}

#[test]
fn calls_loops_and_prints() {
    let text = "kernel k(r: inout @r) threads 1
fn triangle(i32) -> i32 {
    var $i: i32
    var $sum: i32
    $sum = 0i32
    for '0 $i = 1i32 ..= arg0 step 1i32 {
        %0: i32 = read $i
        %1: bool = %0 == 3i32
        if %1 {
            continue '0
        }
        %2: bool = %0 > 5i32
        if %2 {
            return -1i32
        }
        %3: i32 = read $sum
        %4: i32 = %3 + %0
        $sum = %4
    }
    %5: i32 = read $sum
    return %5
}
fn k() {
    global 0 inout @r: i32[_]
    %0: i32 = load @r[index0]
    %1: i32 = call triangle(%0)
    store @r[index0] = %1
    print \"is \", %1 \"+4\", \"\\n\"
}
";
    let (array, output, _) = run(text, LaunchExtents::Threads([4, 1, 1]), &[2, 4, 5, 9]);
    assert_eq!(array, [3, 7, 12, -1]);
    assert_eq!(output, "is   +3\nis   +7\nis  +12\nis   -1\n");
}

#[test]
fn faults() {
    let kernel = |statement: &str| {
        format!(
            "kernel k(r: inout @r) grid
fn k() {{
    global 0 inout @r: i32[_]
    var $i: i32
    %0: i32 = thread.x - 1i32
    %1: bool = %0 == 1i32
    {statement}
}}
"
        )
    };
    let of = |statement: &str| run(&kernel(statement), grid(1, 3), &[7; 2]).2;
    let outside = |index: i64| FaultKind::OutOfBounds {
        array: "r".into(),
        indices: vec![index],
        shape: vec![2],
        axis: 0,
        write: true,
    };
    assert_eq!(of("store @r[%0] = 1i32"), [outside(-1)]);
    assert_eq!(of("store @r[thread.x] = 1i32"), [outside(2)]);
    assert_eq!(of("%2: i32 = 5i32 % %0"), [FaultKind::DivisionByZero { left: ScalarValue::of(5i32) }]);
    assert_eq!(of("assert %1, \"got \", %0 \"\""), [-1, 0].map(|i| FaultKind::Assert { message: format!("got {i}") }));
    assert_eq!(of("for '0 $i = 0i32 .. 9i32 step %0 {\n}"), [FaultKind::ZeroStep]);
    assert!(matches!(of("if %1 {\nbarrier\n}")[..], [FaultKind::Divergence { arrived: 1, expected: 3, .. }]));
}

#[test]
fn cooperative_grids_synchronize() {
    let text = "kernel k(r: inout @r) grid cooperative
fn k() {
    global 0 inout @r: i32[_]
    store @r[global.x] = global.x
    grid_barrier
    %0: i32 = 3i32 - global.x
    %1: i32 = load @r[%0]
    grid_barrier
    store @r[global.x] = %1
}
";
    assert_eq!(run(text, grid(2, 2), &[9; 4]).0, [3, 2, 1, 0]);
}

/// Finds the writes to the first element of `r`.
#[derive(Default)]
struct First {
    seen: bool,
    by: Vec<(u64, u32)>,
}

impl StepObserver for First {
    fn access(&mut self, at: StepPosition, access: &AccessEvent<'_, '_>) {
        if access.writes() && access.array.name == "r" && access.touches(0, 4) {
            self.seen = true;
            self.by.push((at.step, at.thread));
        }
    }
}

impl Seeker for First {
    fn observer(&mut self) -> &mut dyn StepObserver {
        self
    }

    fn is_here(&mut self, _: &LaunchSnapshot<'_>) -> bool {
        std::mem::take(&mut self.seen)
    }
}

#[test]
fn time_runs_in_both_directions() {
    let module = parse(SUM).unwrap();
    let mut bytes: Vec<u8> = (0..256i32).flat_map(i32::to_le_bytes).collect();
    let args = [Arg::Write { bytes: &mut bytes, shape: vec![256] }];
    let launch = || StepLaunch::new(&module, grid(4, 64), &args, 0);
    for most in [0, 100_000, u64::MAX] {
        let mut timeline = Timeline::new(launch(), &args, most, Default::default()).unwrap();
        let mut states = vec![timeline.now().clone()];
        while timeline.step(&mut clk_step::NoObserver) {
            states.push(timeline.now().clone());
        }
        let end = timeline.position();
        assert!(end > 10_000, "{end}");
        // Jump to pseudorandom positions.
        let mut to = 1u64;
        for _ in 0..40 {
            to = (to * 6_364_136_223 + 1_442_695) % (end + 1);
            timeline.go_to(to).unwrap();
            assert_eq!(timeline.now().difference(&states[to as usize]), None, "at {to}");
        }
        timeline.go_to(end).unwrap();
        let mut first = First::default();
        assert!(timeline.seek_back(&mut first).unwrap());
        let (written, thread) = (timeline.position(), first.by[0].1);
        assert_eq!((thread, timeline.now().difference(&states[written as usize])), (0, None));
        assert!(!timeline.seek_back(&mut First::default()).unwrap());
        assert_eq!(timeline.position(), 0);
        assert!(timeline.seek(&mut First::default()).unwrap());
        assert_eq!(timeline.position(), written);
        // With a memory limit of zero, only the first and the latest snapshot are kept.
        let (copies, _) = timeline.kept();
        assert!(most > 0 || copies <= 2, "{copies} copies");
    }
}
