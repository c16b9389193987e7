__global__ void rotate(float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int from = i + 1 < n ? i + 1 : 0;
        float v = x[from];
        //~ E0610
        x[i] = v;
    }
}
