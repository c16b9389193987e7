//! Tests the Rust interface to NVRTC: it compiles text to machine code, and returns the log of an invalid text. No GPU
//! is needed; without the library (`pip install nvidia-cuda-nvrtc`, or `CLK_NVRTC`) every test prints that it is
//! skipped.

use clk_cuda::nvrtc::NvrtcError;
use clk_lang::libraries::nvrtc_places;
use clk_testing::nvrtc::nvrtc;

const SAXPY: &str = "extern \"C\" __global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
";

#[test]
fn text_becomes_machine_code() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    assert!(nvrtc.version() >= (11, 1), "{:?}", nvrtc.version());
    assert!(nvrtc.architectures().contains(&90), "{:?}", nvrtc.architectures());
    let compiled = nvrtc.compile(SAXPY, "saxpy.cu", 90, &["-lineinfo".into()]).expect("it is sound");
    assert_eq!(&compiled.cubin[..4], b"\x7fELF");
    assert!(compiled.cubin.windows(5).any(|w| w == b"saxpy"));
    let ptx = nvrtc.ptx(SAXPY, "saxpy.cu", 90, &[]).expect("it is sound");
    assert!(ptx.contains(".visible .entry saxpy"), "{ptx}");
}

#[test]
fn a_wrong_text_is_rejected_with_its_line() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    let wrong = "#line 7 \"wrong.clk\"\nextern \"C\" __global__ void f() { nonsense(); }\n";
    match nvrtc.compile(wrong, "f.cu", 90, &[]) {
        Err(NvrtcError::Rejected { log }) => assert!(log.contains("wrong.clk(7): error"), "{log}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn threads_compile_at_the_same_time() {
    let Some(nvrtc) = nvrtc(&nvrtc_places()) else { return };
    std::thread::scope(|scope| {
        for k in 0..4 {
            let nvrtc = nvrtc.clone();
            scope.spawn(move || {
                let text = SAXPY.replace("saxpy", &format!("saxpy{k}"));
                assert!(nvrtc.compile(&text, "saxpy.cu", 90, &[]).is_ok());
            });
        }
    });
}
