__global__ void add(const float *__restrict__ a, const float *__restrict__ b, float *__restrict__ c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n) return;
    // clk: a[n], b[n], c[n]
    //~ E0601
    c[i] = a[i] + b[i];
}
