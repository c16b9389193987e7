__global__ void place(int *table, int n, int slots) {
    // clk: table[slots], assume slots > 0
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        //~ E0612
        int slot = i * 1000003 % slots;
        atomicAdd(&table[slot], 1);
    }
}
