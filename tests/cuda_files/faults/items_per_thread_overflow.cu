// The first element of a thread is computed in 32 bits before it is compared with the 64-bit length.
__global__ void fill(float *__restrict__ y, long n, int per_thread) {
    // clk: y[n], assume per_thread >= 0
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ E0612
    int first = i * per_thread;
    if (first < n) y[first] = 1.0f;
}
