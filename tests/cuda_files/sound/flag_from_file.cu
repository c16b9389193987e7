// The flag is zero at first, so the second block waits until the first one has written the value.
__device__ int flag = 0;

__global__ void pass_on(volatile int *data, int *result) {
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        data[0] = 1;
        __threadfence();
        atomicExch(&flag, 1);
    }
    if (blockIdx.x == 1 && threadIdx.x == 0) {
        while (atomicAdd(&flag, 0) == 0) {}
        __threadfence();
        result[0] = data[0];
    }
}
