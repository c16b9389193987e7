// A pointer to one of several variables, and to a variable or an element.
__device__ void add_twice(int *sum, int by) {
    *sum += by;
    int twice = 2 * by;
    if (by > 7) sum = &twice;
    *sum -= 1;
}
__global__ void balance(int *y, const int *x, int n) {
    int low = 0, high = 0;
    int *side = x[0] < n ? &low : &high;
    for (int k = 0; k < n; k++) {
        *side += x[k];
        if (low > high) side = &high;
    }
    add_twice(&low, x[0]);
    int *target = n > 9 ? &y[1] : &low;
    *target = high;
    y[0] = low - *side;
}
// Pointers in an array of a struct.
struct Planes {
    float *plane[3];
    const unsigned char *mask[16];
    int n;
};
__global__ void mix(Planes planes, int from) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < planes.n && planes.mask[12][i]) planes.plane[0][i] = planes.plane[from][i] + planes.plane[2][i];
}
