// One thread for each element, and a guard. The host allocates `n` elements.
// clk: x[n]
__global__ void scale(float *x, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { //- `<` `<=`
        x[i] *= a; //~ prove E0601
    }
}
