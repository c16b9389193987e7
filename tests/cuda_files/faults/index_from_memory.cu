// An index that is read from an array is not compared with the length.
// script: var y = zeros(4)
// script: index_from_memory.gather(arange(8.0), [0, 9, 2, 3], y, i32(4), grid_x = 1, block_x = 4)
__global__ void gather(const float *__restrict__ x, const int *__restrict__ at, float *__restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ run E0601
    if (i < n) y[i] = x[at[i]];
}
