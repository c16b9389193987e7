// Each element from its right neighbor, in another array.
__global__ void shift(const int *__restrict__ x, int *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 1 < n) y[i] = x[i + 1]; //- `x[i` `y[i` //~ prove E0610
}
