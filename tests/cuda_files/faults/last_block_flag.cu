__global__ void finish(float *partial, float *total) {
    //~ E0610
    if (threadIdx.x == 0) partial[blockIdx.x] = 1.0f;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int b = 0; b < gridDim.x; b++) sum += partial[b];
        *total = sum;
    }
}
