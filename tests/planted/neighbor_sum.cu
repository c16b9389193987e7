// Each element and its right neighbor.
// clk: x[n]
__global__ void sums(const float *__restrict__ x, float *__restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 1 < n) //- `i + 1` `i + 0`
        y[i] = x[i] + x[i + 1]; //~ prove E0601
}
