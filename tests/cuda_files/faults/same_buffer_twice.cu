__global__ void shift(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > 0 && i < n) y[i] = x[i - 1];
}

void host(int n) {
    float *x;
    cudaMalloc(&x, n * sizeof(float));
    //~ W0854
    shift<<<(n + 255) / 256, 256>>>(x, x, n);
}
