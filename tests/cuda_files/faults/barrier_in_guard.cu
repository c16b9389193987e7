__global__ void stage(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float s[128];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        s[t] = x[i];
        //~ E0604
        __syncthreads();
        y[i] = s[t];
    }
}
