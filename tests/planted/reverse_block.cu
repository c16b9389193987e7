// Each block reverses its elements in shared memory.
__global__ void reverse(const int *__restrict__ x, int *__restrict__ y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 64 + t];
    __syncthreads(); //- `__syncthreads` `__threadfence`
    y[blockIdx.x * 64 + t] = s[63 - t]; //~ prove E0610
}
