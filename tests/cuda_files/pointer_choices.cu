// A pointer that a condition sets.
__global__ void pick(const float *a, const float *b, float *y, int n, int second) {
    const float *p = a;
    if (second) p = b + 1;
    const float *q = second ? a : b;
    int i = threadIdx.x;
    if (i < n) y[i] = p[i] + q[i] * *p;
}

// Buffers that are swapped.
__global__ void ping_pong(float *a, float *b, int rounds) {
    float *from = a, *to = b;
    int i = threadIdx.x;
    for (int k = 0; k < rounds; k++) {
        to[i] = from[i] + 1.0f;
        __syncthreads();
        float *other = from;
        from = to;
        to = other;
    }
    std::swap(from, to);
    *from++ = to[0];
    from[i] += 2.0f;
}

// A pointer that may be null.
__global__ void optional(const int *x, int *y, int n) {
    const int *p = nullptr;
    if (n > 3) p = x;
    const int *q = n > 5 ? x + 1 : nullptr;
    int sum = p ? p[0] : 0;
    if (q != nullptr && q[0] > 0) sum += q[1];
    // Null is never tested.
    int *r = NULL;
    r = y;
    r[threadIdx.x] = sum;
}

struct Point { int x; float y; };

// Rows of local arrays, and fields of structs.
__global__ void fields(Point *a, Point *b, int *y) {
    int rows[2][3] = {{1, 2, 3}, {4, 5, 6}}, other[3] = {7, 8, 9};
    Point *p = y[0] ? a : b;
    p->x = 2;
    p[1].y += p->x;
    int *r = rows[1];
    if (y[1]) r = other;
    r[0] = 1;
    y[2] = rows[1][0] + other[0] + r[2];
}

// Atomics and functions for one of several arrays.
__device__ int shifted(int *p, int i) {
    p[i] += 1;
    return p[i] << 1;
}

__device__ int first_or(const int *p, int other) { return p ? p[0] : other; }

__global__ void passed(int *a, int *b, int *y, int c) {
    int *p = c ? a : b;
    atomicAdd(p + threadIdx.x, 1);
    int old = atomicMax(&p[3], 5);
    int *q = c > 1 ? p : nullptr;
    y[threadIdx.x] = old + shifted(p, threadIdx.x) + first_or(q, c);
}
