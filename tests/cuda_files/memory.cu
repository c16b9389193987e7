union Bits { float f; unsigned u; unsigned short halves[2]; };
struct Pair { int a; double b; };

extern __shared__ int scratch[];

__device__ int from_scratch(int i) { return scratch[i]; }

__global__ void copies(float *y, const float *x, Pair *pairs, int n) {
    Bits bits;
    bits.f = x[0];
    bits.u ^= 0x80000000u;
    bits.halves[0] = 3;
    y[0] = bits.f;
    float local[4], other[4];
    memcpy(local, x, sizeof(local));
    memcpy(other + 1, local, 3 * sizeof(float));
    memset(other, 0, sizeof(float));
    int flags[8];
    memset(flags, -1, n * sizeof(int));
    Pair p;
    memset(&p, 0, sizeof(Pair));
    p.a = flags[0];
    pairs[1] = p;
    unsigned u;
    float f = local[1];
    memcpy(&u, &f, sizeof u);
    y[1] = other[3] + __uint_as_float(u);
    scratch[threadIdx.x] = n;
    __syncthreads();
    y[2] = from_scratch(0);
}

__global__ void packed(unsigned *y, double d, int width) {
    y[0] = __byte_perm(y[1], y[2], 0x5140);
    y[3] = __dp4a((int)y[4], (int)y[5], -1);
    y[6] = __double2hiint(d) ^ __double2loint(d);
    y[7] = __hiloint2double(y[8], y[9]) > d;
    y[10] = __shfl_down_sync(0xffffffff, y[11], 1, width);
    __nanosleep(100);
}
