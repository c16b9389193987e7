// Lambdas that do not escape: they are functions whose first parameters are the captures.

template <class F>
__device__ void each(int n, F f) {
    for (int i = 0; i < n; i++) f(i);
}

template <class F>
__device__ float largest(const float *x, int n, const F &value) {
    float best = value(x[0]);
    for (int i = 1; i < n; i++) {
        float v = value(x[i]);
        if (v > best) best = v;
    }
    return best;
}

// Captures by reference: an array, a sum, and another lambda.
__global__ void sums(const int *x, int *y, int n) {
    int sum = 0;
    auto at = [&](int i) { return i < n ? x[i] : 0; };
    auto add = [&](int i) { sum += at(i); };
    for (int i = threadIdx.x; i < n; i += blockDim.x) add(i);
    each(4, [&](int i) {
        if (i == 2) return;
        sum -= at(i) / 2;
    });
    y[threadIdx.x] = sum;
}

// Copies at the definition, also of an element and of a pointer, and copies that change.
__global__ void copies(const float *x, float *y, int n) {
    int shift = n;
    float first = x[threadIdx.x];
    auto moved = [=](int i) { return i + shift; };
    auto scaled = [first, p = x + 1, by = shift * 2](int i) { return first * p[i] + by; };
    shift = 3;
    int calls = 0;
    auto count = [calls]() mutable { return ++calls; };
    count();
    y[threadIdx.x] = moved(1) + scaled(0) + shift + count() + calls;
}

// Shared memory and constants need no capture.
__global__ void tile(const float *x, float *y) {
    __shared__ float s[64];
    __shared__ int last;
    constexpr int half = 32;
    auto put = [=](int i, float v) {
        s[i] = v;
        if (i == 0) last = half;
    };
    put(threadIdx.x, x[threadIdx.x]);
    __syncthreads();
    auto twice = [](auto v) { return v + v; };
    y[threadIdx.x] = twice(s[threadIdx.x]) + twice(last);
}

struct Line {
    float slope, offset;
    __device__ float area(int n) const {
        float sum = 0;
        auto height = [this](int i) { return slope * i + offset; };
        each(n, [&](int i) { sum += height(i); });
        return sum;
    }
};

__global__ void members(const float *x, float *y, float slope, int n) {
    Line line = {slope, 1.0f};
    y[threadIdx.x] = line.area(n);
    y[threadIdx.x] += largest(x, 8, [slope](float v) -> float {
        if (v < 0) return -v;
        return v * slope;
    });
    y[threadIdx.x] += [&] { return line.offset; }();
}
