__global__ void rotate(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int from = i + 1 < n ? i + 1 : 0;
        //~ E0610
        float v = x[from];
        x[i] = v;
    }
}
