__global__ void scan(const int *__restrict__ x, int *__restrict__ y) {
    __shared__ int s[128];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 128 + t];
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        //~ E0610
        if (t >= d) s[t] += s[t - d];
        __syncthreads();
    }
    y[blockIdx.x * 128 + t] = s[t];
}
