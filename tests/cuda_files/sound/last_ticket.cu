// The thread with the last ticket has observed the tickets of all others, so it may access the counter plainly.
__device__ unsigned count = 0;

__global__ void total(int *partial, int *sum) {
    if (threadIdx.x == 0) {
        partial[blockIdx.x] = blockIdx.x + 1;
        __threadfence();
        unsigned ticket = atomicInc(&count, gridDim.x);
        if (ticket == gridDim.x - 1) {
            __threadfence();
            int all = 0;
            for (int i = 0; i < gridDim.x; i++) all += partial[i];
            *sum = all;
            count = 0;
        }
    }
}

__device__ int tickets = 0;

__global__ void count_threads(int *n) {
    int ticket = atomicAdd(&tickets, 1);
    if (ticket == blockDim.x * gridDim.x - 1) *n = tickets;
}
