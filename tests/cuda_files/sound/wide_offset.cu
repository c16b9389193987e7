__global__ void clear(float *x, int pitch, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) x[(long)row * pitch] = 0.0f;
}
