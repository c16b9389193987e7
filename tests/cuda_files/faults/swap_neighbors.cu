__global__ void odd_even(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i + 1 < n) {
        //~ E0610
        int a = x[i], b = x[i + 1];
        if (a > b) {
            x[i] = b;
            x[i + 1] = a;
        }
    }
}
