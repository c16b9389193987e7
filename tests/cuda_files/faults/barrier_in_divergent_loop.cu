__global__ void steps(int *x) {
    for (int k = 0; k < threadIdx.x; k++) {
        x[threadIdx.x] += k;
        //~ E0604
        __syncthreads();
    }
}
