__global__ void difference(const float *__restrict__ x, float *__restrict__ d, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //~ W0853
        d[i] = x[i + 1] - x[i];
    }
}
