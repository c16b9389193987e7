// Each kernel has a comment with the array that it writes, as a C++ compiler computes it.
const int SIZE = 3;

struct Counter {
    int n;
    __device__ Counter() : n(5) {}
    __device__ Counter(int k) : n(k) {}
    __device__ int next() { return ++n; }
};
struct Range {
    int low{2}, high = low_of(SIZE);
    static __device__ int low_of(int k) { return k * 3; }
    __device__ Range() = default;
    __device__ Range(int SIZE) : low(SIZE) {}
};
struct Limits {
    int low = 1, high = 9;
};
struct Pair {
    Counter a;
    Range b;
    int last;
};
struct Derived : Counter {
    int more = 1;
    __device__ Derived() {}
    __device__ Derived(int k) : more(n + k), Counter(k) {}
};
struct Plain : Counter {
    int more;
};

// y = [5, 29, 34, 9]
__global__ void members(int *y) {
    Pair p;
    Range r, s(3);
    y[0] = p.a.n;
    y[1] = 10 * r.low + r.high;
    y[2] = 10 * s.low + s.high - 5;
    p = {};
    y[3] = p.b.high;
}

// y = [51, 48, 5, 5]
__global__ void bases(int *y) {
    Derived d, e(4);
    Plain p, q = {};
    y[0] = 10 * d.n + d.more;
    y[1] = 10 * e.n + e.more;
    y[2] = p.n;
    y[3] = q.n;
}

// y = [6, 5, 9, 17]
__global__ void arrays(int *y) {
    Counter c[3];
    Pair p[2];
    y[0] = c[threadIdx.x].next();
    y[1] = c[2].n;
    y[2] = p[1].b.high;
    Limits l = {.low = 8};
    y[3] = l.low + l.high;
}

struct Complex {
    int re, im;
    __device__ Complex(int r, int i) : re(r), im(i) {}
    __device__ Complex(const Complex &z) : re(z.re), im(z.im) {}
    __device__ void multiply(const Complex &z) {
        int r = re * z.re - im * z.im;
        im = re * z.im + im * z.re;
        re = r;
    }
    __device__ void add(const int &k) {
        re += k;
        im += k;
    }
};
__device__ void swap_parts(int &a, int &b) {
    a += b;
    b = a - b;
    a -= b;
}
__device__ int add_twice(int &a, int *b) {
    a++;
    (*b)++;
    return a + *b;
}

// y = [3, 4, 6, 6]
__global__ void aliases(int *y) {
    Complex z(2, 1), w = z;
    z.multiply(z);
    y[0] = z.re;
    y[1] = z.im;
    w.add(w.re);
    y[2] = w.re + w.im - 3;
    int k = 3, j = 1;
    swap_parts(k, j);
    swap_parts(j, j);
    y[3] = add_twice(k, &k) + j;
}

struct Scaled {
    int v;
    __device__ Scaled(double x) : v(int(10 * x)) {}
    __device__ explicit Scaled(int x) : v(x) {}
    __device__ Scaled &operator=(int x) { v = x + 100; return *this; }
    __device__ bool operator!() const { return v == 0; }
};
enum Color { RED, GREEN, BLUE };
__device__ Color &operator++(Color &c) { c = Color((c + 1) % 3); return c; }
__device__ Color operator--(Color &c, int) { Color old = c; c = Color((c + 2) % 3); return old; }
__device__ bool operator!(Color c) { return c == BLUE; }

// y = [30, 103, 7, 10]
__global__ void conversions(int *y) {
    Scaled a = 3, b(4);
    y[0] = a.v;
    b = a;
    a = 3;
    y[1] = a.v;
    y[2] = Scaled(7).v;
    y[3] = 10 * !Scaled(0) + !b;
}

// y = [0, 0, 2, 1]
__global__ void enums(int *y) {
    Color c = BLUE;
    ++c;
    y[0] = c;
    Color d = c--;
    y[1] = d;
    y[2] = c;
    y[3] = !c;
}

__device__ int after_barrier(const int &x) {
    __syncthreads();
    return x;
}

// y = [7, 7, 7, 7]
__global__ void references(int *y) {
    __shared__ int s[1];
    if (threadIdx.x == 0) s[0] = 7;
    y[threadIdx.x] = after_barrier(s[0]);
}

int main() {
    int *y;
    cudaMalloc(&y, 4 * sizeof(int));
    members<<<1, 1>>>(y);
    bases<<<1, 1>>>(y);
    arrays<<<1, 1>>>(y);
    aliases<<<1, 1>>>(y);
    conversions<<<1, 1>>>(y);
    enums<<<1, 1>>>(y);
    references<<<1, 4>>>(y);
}
