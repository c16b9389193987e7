// The rows of the tile are 17 floats apart where it is read, and 16 where it is written.
__global__ void tile(float *x) {
    __shared__ float s[17 * 17];
    int row = threadIdx.y, col = threadIdx.x;
    // clk: assume blockDim.x == 17, blockDim.y == 16
    //~ E0610
    s[row * 16 + col] = col;
    __syncthreads();
    x[row * 17 + col] = s[row * 17 + col];
}
