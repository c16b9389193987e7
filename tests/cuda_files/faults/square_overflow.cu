__global__ void diagonal(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //~ E0612
        x[(size_t)(i * n + i)] = 1.0f;
    }
}
