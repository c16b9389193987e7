__device__ void take(int *lock) {
    bool has_lock = false;
    while (!has_lock) {
        //~ W0858
        has_lock = atomicCAS(lock, 0, 1) == 0;
    }
    __threadfence_block();
}

__global__ void add(int *lock, volatile int *total, int n) {
    if (blockIdx.x >= n) return;
    if (threadIdx.x == 0) {
        take(lock);
        total[0] = total[0] + 1;
        __threadfence();
        atomicExch(lock, 0);
    }
}
