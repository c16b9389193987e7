__global__ void suffix(float *x, int n) {
    // clk: x[n]
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        for (int i = n; i >= 0; i--) {
            //~ E0601
            x[i] = 1.0f;
        }
    }
}
