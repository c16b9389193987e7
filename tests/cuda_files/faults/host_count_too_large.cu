__global__ void fill(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ E0601
    if (i < n) x[i] = 1;
}

void host() {
    float *x;
    cudaMalloc(&x, 1000 * sizeof(float));
    fill<<<4, 256>>>(x, 1024);
}
