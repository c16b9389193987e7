__global__ void transpose(const float *__restrict__ in, float *__restrict__ out, int n) {
    __shared__ float tile[32][33];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    if (x < n && y < n) tile[threadIdx.y][threadIdx.x] = in[y * n + x];
    int tx = blockIdx.y * 32 + threadIdx.x;
    int ty = blockIdx.x * 32 + threadIdx.y;
    if (tx < n && ty < n) {
        //~ E0610
        out[ty * n + tx] = tile[threadIdx.x][threadIdx.y];
    }
}
