// Threads past the end do not store, but their elements are read.
__global__ void reversed(const float *__restrict__ x, float *__restrict__ y, int n) {
    __shared__ float s[256];
    int t = threadIdx.x;
    int i = blockIdx.x * 256 + t;
    if (i < n) s[t] = x[i];
    __syncthreads();
    //~ E0611
    if (i < n) y[i] = s[255 - t];
}
