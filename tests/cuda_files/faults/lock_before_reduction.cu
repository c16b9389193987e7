__global__ void add(int *lock, int *count, volatile int *total, int n) {
    if (blockIdx.x >= n) return;
    //~ W0858
    while (atomicCAS(&lock[0], 0, 1) != 0) {}
    atomicAdd(&count[0], 1);
    total[0] = total[0] + 1;
    __threadfence();
    atomicExch(&lock[0], 0);
}
