// The right border of the tile is never loaded.
__global__ void blur(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float s[130];
    int t = threadIdx.x;
    int i = blockIdx.x * 128 + t;
    s[t + 1] = i < n ? x[i] : 0.0f;
    if (t == 0) s[0] = i > 0 && i <= n ? x[i - 1] : 0.0f;
    __syncthreads();
    //~ E0611
    if (i < n) y[i] = (s[t] + s[t + 1] + s[t + 2]) / 3.0f;
}
