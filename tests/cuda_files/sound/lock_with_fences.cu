// A lock with a fence after it is taken and before it is released.
__global__ void add(int *lock, volatile int *total, int n) {
    if (blockIdx.x >= n) return;
    if (threadIdx.x == 0) {
        while (atomicCAS(&lock[0], 0, 1) != 0) {}
        __threadfence();
        total[0] = total[0] + 1;
        __threadfence();
        atomicExch(&lock[0], 0);
    }
}

// The last block to finish reads the results of all blocks.
__device__ unsigned count = 0;

__global__ void last_block(const float *x, volatile float *partial, float *total, int n) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        float sum = 0.0f;
        for (int i = blockIdx.x; i < n; i += gridDim.x) sum += x[i];
        partial[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicInc(&count, gridDim.x) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        float sum = 0.0f;
        for (int b = 0; b < gridDim.x; b++) sum += partial[b];
        total[0] = sum;
    }
}
