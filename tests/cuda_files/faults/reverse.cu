__global__ void reverse(const int *__restrict__ in, int *__restrict__ out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        // clk: in[n], out[n]
        //~ E0601
        out[n - i] = in[i];
    }
}
