__device__ float2 operator+(float2 a, float2 b) { return make_float2(a.x + b.x, a.y + b.y); }
__device__ float2 operator*(float s, float2 a) { return make_float2(s * a.x, s * a.y); }
__device__ float2 operator-(float2 &a) { return make_float2(-a.x, -a.y); }
__device__ void operator+=(float2 &a, float2 b) { a.x += b.x; a.y += b.y; }
__device__ float2 &operator*=(float2 &a, float s) { a.x *= s; a.y *= s; return a; }
__device__ bool operator==(int2 a, int2 b) { return a.x == b.x && a.y == b.y; }

enum Mask { NONE = 0, LOW = 1, HIGH = 2 };
__device__ Mask operator|(Mask a, Mask b) { return Mask(int(a) + int(b)); }

__global__ void vectors(float2 *x, const int2 *k, int *y) {
    __shared__ float2 s[2];
    float2 a = x[0] + 2 * x[1];
    a += x[2];
    a *= 3.0f;
    float2 b = -a;
    s[0] = a;
    s[1] = b;
    s[0] += s[1];
    x[3] = (b *= 0.5f) + s[0];
    y[0] = k[0] == k[1];
    y[1] = (LOW | HIGH) + (LOW | 4);
}

// Bodies for some arguments only.
template <typename T> __device__ float to_float(T v);
template <> __device__ float to_float(float v) { return v; }
template <> __device__ float to_float<int>(int v) { return v * 0.5f; }
template <typename T> __device__ T twice(T v) { return v + v; }
template <> __device__ int twice(int v) { return v * 2 + 1; }

__global__ void specializations(float *y, int n) {
    y[0] = to_float(n) + to_float(y[1]);
    y[2] = twice(n) + twice(y[3]);
    y[4] = twice<float>(n);
}
