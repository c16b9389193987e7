__global__ void rounds(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < 4; k++) {
        if (i + k >= n) break;
        //~ E0604
        __syncthreads();
    }
    if (i < n) x[i] = 1;
}
