__global__ void laplace(const float *__restrict__ u, float *__restrict__ v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= 1 && i < n) {
        //~ W0853
        v[i] = u[i - 1] - 2.0f * u[i] + u[i + 1];
    }
}
