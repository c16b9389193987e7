// A loop whose steps are the number of all threads.
__global__ void fill(float *x, float v, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        x[i] = v * i; //- `x[i]` `x[0]` //~ prove E0610
}
