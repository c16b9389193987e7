__global__ void blur(const float *__restrict__ x, float *__restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //~ E0601
        y[i] = 0.5f * (x[i - 1] + x[i]);
    }
}
