// The values are 0 to 16, but there are 16 bins.
// script: var bins = zeros(16, type = i32)
// script: value_without_bin.histogram(arange(17), bins, i32(17), grid_x = 1, block_x = 32)
__global__ void histogram(const int *__restrict__ x, int *__restrict__ bins, int n) {
    // clk: bins[16]
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ run E0601
    if (i < n) atomicAdd(&bins[x[i]], 1);
}
