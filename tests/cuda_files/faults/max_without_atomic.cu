__global__ void largest(const int *__restrict__ x, int *best, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ E0610
    if (i < n && x[i] > *best) *best = x[i];
}
