__global__ void stage(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float s[258];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        s[t + 1] = x[i];
        //~ E0601
        if (t == 0) s[0] = x[i - 1];
    }
    __syncthreads();
    if (i < n) y[i] = s[t] + s[t + 1];
}
