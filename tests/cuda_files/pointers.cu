// Pointer arithmetic, vectors, references and structs.
struct Point {
    float x, y;
    __device__ Point(float a, float b) : x(a), y(b) {}
    __device__ float dot(const Point& other) const { return x * other.x + y * other.y; }
    __device__ void scale(float by) { x *= by; y *= by; }
};
__device__ void add(float* to, const float* from, int n) {
    for (int i = 0; i < n; i++) *to++ += from[i];
}
__device__ void swap2(float& a, float& b) { float t = a; a = b; b = t; }
__global__ void move(float* y, const float* __restrict__ x, float4* v, int n) {
    const float* row = x + blockIdx.x * n;
    float local[2][3] = {{1, 2, 3}, {4, 5, 6}};
    Point p(row[0], local[1][2]);
    p.scale(2.0f);
    swap2(y[0], y[1]);
    add(y + 2, row, n);
    float4 four = reinterpret_cast<const float4*>(x)[threadIdx.x];
    four.x += p.dot(Point(1, 2));
    v[threadIdx.x] = four;
    v[threadIdx.x].y = make_float4(1, 2, 3, 4).w;
}
