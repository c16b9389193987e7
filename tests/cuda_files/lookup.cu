// Each kernel has a comment with the array that it writes, as a C++ compiler computes it.
__device__ int late(double x) { return 1; }
__device__ int before(int x) { return late(x); }
template <typename T> __device__ int before_in_template(T x) { return late(x); }
__device__ int late(int x) { return 2; }

namespace shapes {
struct Box { int v; };
__device__ int area(Box b) { return b.v; }
}
template <typename T> __device__ int area(T x) { return -1; }

// y = [1, 1, 2, 7]
__global__ void order(int *y) {
    shapes::Box b = {7};
    y[0] = before(1);
    y[1] = before_in_template(1);
    y[2] = late(1);
    y[3] = area(b);
}

namespace opened {
__device__ int pick(int x) { return 1; }
}
using namespace opened;
__device__ int pick(double x) { return 2; }
struct Picker {
    __device__ int pick(double x) const { return 5; }
    __device__ int both() const { return 10 * pick(1) + ::pick(1.0); }
};

// y = [1, 2, 52, -1]
__global__ void scopes(int *y) {
    Picker p;
    y[0] = pick(1);
    y[1] = pick(1.0);
    y[2] = p.both();
    y[3] = area(3);
}

int main() {
    int *y;
    cudaMalloc(&y, 4 * sizeof(int));
    order<<<1, 1>>>(y);
    scopes<<<1, 1>>>(y);
}
