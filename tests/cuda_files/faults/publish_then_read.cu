__global__ void scale(const float *__restrict__ x, float *__restrict__ y) {
    __shared__ float factor;
    if (threadIdx.x == 0) factor = x[0];
    //~ E0610
    y[blockIdx.x * blockDim.x + threadIdx.x] = factor * 2.0f;
}
