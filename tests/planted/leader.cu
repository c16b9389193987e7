// One thread of the grid writes the result.
__global__ void first(const int *__restrict__ x, int *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i == 0 && n > 0) out[0] = x[i]; //- `==` `>=` //~ prove W0601
}
