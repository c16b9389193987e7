__global__ void reverse(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = x[n - 1 - i];
        //~ E0610
        x[i] = v;
    }
}
