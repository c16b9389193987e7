__global__ void sums(const float *__restrict__ x, float *__restrict__ y) {
    __shared__ float s[513];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 256 + t];
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        //~ E0610
        if (t <= half) s[t] += s[t + half];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
