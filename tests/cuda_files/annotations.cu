// Annotations of GPUVerify: preconditions, assertions, and facts that the translation ignores.
__device__ int next(int x) {
    __requires(__implies(__enabled(), x >= 0));
    __ensures(__implies(__enabled(), __return_val_int() == x + 1));
    return x + 1;
}
__device__ float *skip(float *p, int n) {
    __ensures(__return_val_ptr() == p + n);
    return p + n;
}
__device__ void report(int x);
__device__ int choose();
__global__ void annotated(float *y, int n, unsigned mode, int size, void *unused) {
    __requires(n == 100 & size == blockDim.x);
    __requires(mode == 1 | mode == 2);
    __assume(n > 0);
    __shared__ float s[1024];
    for (int i = threadIdx.x;
         __invariant(0 <= i),
         __invariant(__implies(__write(s), __write_offset_bytes(s) % 4 == 0)),
         i < 1024; i += size) {
        s[i] = 0.0f;
    }
    __syncthreads();
    __assert(__all(n < 200));
    int i = next(threadIdx.x);
    if (i < n && choose() > 3) skip(y, 1)[i] = s[i];
    report(i);
}
