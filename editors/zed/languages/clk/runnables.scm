((kernel_item "kernel" @run) (#set! tag clk-run))
((kernel_item "kernel" @run) (#set! tag clk-profile))
((test_item "test" @run) (#set! tag clk-test))
((bench_item "bench" @run) (#set! tag clk-bench))
