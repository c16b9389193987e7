// Pointers to functions, null pointers, pointers that are assigned, and pointers in structs.
typedef float (*Operation)(float, float);
__device__ float plus(float a, float b) { return a + b; }
__device__ float times(float a, float b) { return a * b; }
__device__ float apply(Operation f, float a, float b) { return (*f)(a, b); }

struct Series {
    float *data;
    int n;
    __device__ float get(int i) const { return i < n ? data[i] : 0.0f; }
    __device__ void set(int i, float value) { if (i < n) data[i] = value; }
    __device__ float &at(int i) { return data[i]; }
};
struct Pair { Series first; Series second; };
__device__ void copy(Series to, const Series &from, int i) { to.set(i, from.get(i)); }

__global__ void operations(float *y, Operation f, int mode) {
    __requires(f == plus | f == times);
    Operation g = mode > 0 ? plus : times, h = plus, none = NULL;
    if (f != g && !none) y[0] = apply(g, y[0], 1.0f);
    y[1] = f(y[1], h(2.0f, 3.0f));
}

__global__ void pointers(float *a, float *b, int mode) {
    float *p = NULL, *q = a + 1, value;
    if (mode > 0) p = b;
    if (p) p[threadIdx.x] = 1.0f;
    q[threadIdx.x] = 2.0f;
    q = b;
    for (int i = 0; i < mode; i++) *q++ = 3.0f;
    float *r = mode > 2 ? a : nullptr;
    if (r != nullptr) *r = 4.0f;
    float *s = &value;
    *s = 5.0f;
    a[0] = value;
}

__global__ void series(Pair p, float *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    copy(p.first, p.second, i);
    Series own;
    own.data = x;
    own.n = n;
    copy(own, p.first, i);
    if (i < n) own.at(i) += 1.0f;
}
