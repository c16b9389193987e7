__global__ void warp_sum(const float *__restrict__ x, float *__restrict__ out) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 32 + t];
    __syncwarp();
    if (t < 16) s[t] += s[t + 16];
    //~ E0610
    if (t < 8) s[t] += s[t + 8];
    if (t == 0) out[blockIdx.x] = s[0];
}
