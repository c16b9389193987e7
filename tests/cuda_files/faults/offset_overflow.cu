__global__ void clear(float *x, int pitch, int rows) {
    // clk: assume pitch > 0, rows > 0
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        //~ E0612
        x[(long)(row * pitch)] = 0.0f;
    }
}
