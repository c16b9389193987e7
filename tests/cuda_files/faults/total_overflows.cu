// The number of elements is computed in 32 bits, so the guard is wrong for large batches.
__global__ void fill(float *__restrict__ y, int batch, int channels, int pixels) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    //~ E0612
    int total = batch * channels * pixels;
    if (i >= total) return;
    y[i] = 1.0f;
}
