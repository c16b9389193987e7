__global__ void spmv(const int *__restrict__ at, const int *__restrict__ cols, const float *__restrict__ values,
                     const float *__restrict__ x, float *__restrict__ y, int rows) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < rows) {
        float sum = 0.0f;
        for (int k = at[row]; k < at[row + 1]; k++) sum += values[k] * x[cols[k]];
        y[row] = sum;
    }
}
