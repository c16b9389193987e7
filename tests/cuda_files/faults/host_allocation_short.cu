__global__ void differences(const float *__restrict__ x, float *__restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ W0853
    if (i < n) y[i] = x[i + 1] - x[i];
}

void host(int n) {
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));
    cudaMalloc(&y, n * sizeof(float));
    differences<<<(n + 255) / 256, 256>>>(x, y, n);
}
