// The product of an index and a stride overflows for large strides, before the guard.
__global__ void gather_column(const float *__restrict__ x, float *__restrict__ y, int rows, int pitch, int n) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    //~ E0612
    int at = row * pitch;
    if (row < rows && at < n) y[row] = x[at];
}
