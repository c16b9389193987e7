#define COUNT 4096

__global__ void clear(double *x) {
    //~ E0601
    x[blockIdx.x * blockDim.x + threadIdx.x] = 0;
}

void host() {
    double *x;
    cudaMalloc(&x, COUNT * sizeof(float));
    clear<<<COUNT / 256, 256>>>(x);
}
