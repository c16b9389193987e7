__global__ void fill(int *x, int chunk) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * chunk;
    for (int k = 0; k <= chunk; k++) {
        //~ W0601
        x[first + k] = k;
    }
}
