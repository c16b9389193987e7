__global__ void add(int *lock, volatile int *total, int n) {
    if (blockIdx.x >= n) return;
    //~ W0858
    while (atomicCAS(&lock[0], 0, 1) != 0) {}
    total[0] = total[0] + 1;
    __threadfence();
    atomicExch(&lock[0], 0);
}
