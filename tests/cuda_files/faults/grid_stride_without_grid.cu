__global__ void add(float *x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x) {
        //~ E0610
        x[i] = x[i] + 1;
    }
}
