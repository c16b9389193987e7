__global__ void total(const float *__restrict__ x, float *__restrict__ sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //~ E0610
        sum[0] += x[i];
    }
}
