// Grid barrier: one thread of each block counts its arrival and waits for the other blocks. Returns true if the thread
// must end, because another thread has faulted and its block may never arrive.
__device__ __forceinline__ bool grid_barrier(unsigned *arrivals, const volatile unsigned *fault) {
    __syncthreads();
    if ((threadIdx.x | threadIdx.y | threadIdx.z) == 0) {
        __threadfence();
        const unsigned blocks = gridDim.x * gridDim.y * gridDim.z;
        const unsigned before = atomicAdd(arrivals, 1);
        const unsigned target = before / blocks * blocks + blocks;
        while (int(*(volatile unsigned *)arrivals - target) < 0 && !(fault && *fault)) { }
        __threadfence();
    }
    __syncthreads();
    return fault && *fault;
}

// 4 accesses to memory, none is guarded
// in bounds if 32 <= extent 0 of faults_2
// in bounds if 32 <= extent 0 of y
extern "C" __global__ void __launch_bounds__(32) shifted(
    float FAULT_WORD,
    float MY_FAULT_WORDS,
    float fault_word_2,
    const float *__restrict__ faults_2,
    float *y,
    unsigned *grid_arrivals) {
    const int thread_x = threadIdx.x;
    const volatile unsigned *const fault_word = nullptr;
    y[thread_x] = faults_2[thread_x] + FAULT_WORD;
    if (grid_barrier(grid_arrivals, fault_word)) {
        return;
    }
    const int t1 = 31 - thread_x;
    y[t1] += MY_FAULT_WORDS + fault_word_2;
}
