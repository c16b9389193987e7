__global__ void lookup(int *out) {
    int table[4] = {1, 2, 3, 5};
    //~ E0601
    out[threadIdx.x] = table[threadIdx.x];
}
