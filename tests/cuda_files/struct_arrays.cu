struct Complex { double re, im; };
struct Matrix { Complex e[2][2]; };
struct Cell { int count; int items[3]; __device__ int first() const { return items[0]; } };

__device__ Complex times(const Complex &a, const Complex &b) {
    Complex c;
    c.re = a.re * b.re - a.im * b.im;
    c.im = a.re * b.im + a.im * b.re;
    return c;
}

__device__ void scale(Matrix *m, double by) {
    for (int k = 0; k < 2; k++) m->e[k][k].re *= by;
}

__global__ void matrices(const Matrix *x, Matrix *y, Cell *cells, int n) {
    int i = threadIdx.x;
    __shared__ Matrix tile[4];
    if (i < n) {
        y[i].e[0][1] = times(x[i].e[0][0], x[i].e[1][1]);
        y[i].e[1][0].im = x[i].e[0][1].re;
        tile[i & 3] = x[i];
        Matrix own = tile[i & 3];
        own.e[1][1].re += 1.0;
        y[i] = own;
        scale(&y[i], 2.0);
        scale(y + i, 0.5);
        cells[i].items[cells[i].count % 3] = cells[i].first();
        Cell *next = &cells[i + 1];
        next->count = next->items[2];
        *next = cells[i];
    }
}

// Memory of numbers as structs.
__global__ void cast(float *x) {
    struct Point { float x, y, z; };
    Point *p = (Point *)x;
    p[threadIdx.x].y = p[threadIdx.x].x;
}
