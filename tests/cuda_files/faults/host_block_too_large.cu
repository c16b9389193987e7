__global__ void scale(float *x, int n) {
    __shared__ float s[256];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //~ E0601
        s[threadIdx.x] = x[i];
        x[i] = 2 * s[threadIdx.x];
    }
}

void host(float *x, int n) {
    scale<<<(n + 511) / 512, 512>>>(x, n);
}
