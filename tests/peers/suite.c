/* What Clk is measured against: every kernel of examples/bench twice in C.
 *
 * The tuned form uses all cores (OpenMP) and the vector unit; it is what the machine can do. The plain form is the loop
 * of a textbook on one thread, without pragmas and hand-written vectors. The numbers of the kernels and the arguments are those of
 * compare.py.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Of one register. */
#if defined __AVX512F__
#define LANES 16
#elif defined __AVX__
#define LANES 8
#else
#define LANES 4
#endif
typedef float floats __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ints __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

static inline floats load(const float *p) { return *(const floats *)p; }
static inline void store(float *p, floats v) { *(floats *)p = v; }
static inline floats splat(float x) { return (floats){0} + x; }

static inline float add_lanes(floats v) {
  float sum = 0;
  for (int lane = 0; lane < LANES; lane++) sum += v[lane];
  return sum;
}

static inline float max_lanes(floats v) {
  float top = v[0];
  for (int lane = 1; lane < LANES; lane++) top = v[lane] > top ? v[lane] : top;
  return top;
}

/* ---- saxpy ---- */

static void saxpy_tuned(long n, float a, const float *restrict x, float *restrict y) {
#pragma omp parallel for simd schedule(static)
  for (long i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

static void saxpy_plain(long n, float a, const float *restrict x, float *restrict y) {
  for (long i = 0; i < n; i++) y[i] = a * x[i] + y[i];
}

/* ---- mandel ---- */

/* GROUP vectors of neighbouring points advance together, to hide the latency of the arithmetic; whether all have escaped is looked
   at every eighth turn. Points that escaped go on, to infinity or NaN, and are no longer counted. */
#define GROUP 4

static void mandel_strip(float left, float scale, float im, int limit, int32_t *turns) {
  floats re[GROUP], x[GROUP], y[GROUP];
  ints count[GROUP];
  for (int g = 0; g < GROUP; g++) {
    for (int lane = 0; lane < LANES; lane++) re[g][lane] = -2.0f + (left + g * LANES + lane) * scale;
    x[g] = y[g] = splat(0);
    count[g] = (ints){0};
  }
  const floats top = splat(im);
  for (int turn = 0; turn < limit; turn += 8) {
    ints alive;
    for (int step = 0; step < 8; step++) {
      alive = (ints){0};
#pragma GCC unroll 4
      for (int g = 0; g < GROUP; g++) {
        const floats xx = x[g] * x[g], yy = y[g] * y[g], xy = x[g] * y[g];
        const ints inside = xx + yy <= 4.0f; /* -1 where it holds */
        count[g] -= inside;
        alive |= inside;
        x[g] = xx - yy + re[g];
        y[g] = xy + xy + top;
      }
    }
    int any = 0;
    for (int lane = 0; lane < LANES; lane++) any |= alive[lane];
    if (!any) break;
  }
  for (int g = 0; g < GROUP; g++) memcpy(turns + g * LANES, &count[g], sizeof count[g]);
}

/* n is a multiple of the strip or smaller than it. */
static void mandel_tuned(long n, int limit, int32_t *turns) {
  const float scale = 2.5f / n;
#pragma omp parallel for schedule(dynamic, 4)
  for (long row = 0; row < n; row++)
    for (long col = 0; col < n; col += LANES * GROUP) {
      int32_t strip[LANES * GROUP];
      mandel_strip(col, scale, -1.25f + row * scale, limit, strip);
      const long width = n - col < LANES * GROUP ? n - col : LANES * GROUP;
      memcpy(turns + row * n + col, strip, width * sizeof *strip);
    }
}

static void mandel_plain(long n, int limit, int32_t *turns) {
  const float scale = 2.5f / n;
  for (long row = 0; row < n; row++)
    for (long col = 0; col < n; col++) {
      const float cx = -2.0f + col * scale, cy = -1.25f + row * scale;
      float x = 0, y = 0;
      int turn = 0;
      while (turn < limit && x * x + y * y <= 4.0f) {
        const float t = x * x - y * y + cx;
        y = 2.0f * x * y + cy;
        x = t;
        turn++;
      }
      turns[row * n + col] = turn;
    }
}

/* ---- matmul ---- */

enum { TILE_ROWS = LANES == 16 ? 8 : 4, TILE_COLS = 2 * LANES };

/* One tile of the product in half of the registers; `panel` is the tile's columns of b, row after row. */
static inline void matmul_tile(long n, const float *restrict a, const float *restrict panel, float *restrict c) {
  floats left[TILE_ROWS], right[TILE_ROWS];
  for (int r = 0; r < TILE_ROWS; r++) left[r] = right[r] = splat(0);
  for (long k = 0; k < n; k++) {
    const floats b0 = load(panel + k * TILE_COLS), b1 = load(panel + k * TILE_COLS + LANES);
#pragma GCC unroll 8
    for (int r = 0; r < TILE_ROWS; r++) {
      const floats factor = splat(a[r * n + k]);
      left[r] += factor * b0;
      right[r] += factor * b1;
    }
  }
  for (int r = 0; r < TILE_ROWS; r++) {
    store(c + r * n, left[r]);
    store(c + r * n + LANES, right[r]);
  }
}

static void matmul_tuned(long n, const float *restrict a, const float *restrict b, float *restrict c) {
#pragma omp parallel
  {
    float *panel = aligned_alloc(64, n * TILE_COLS * sizeof *panel);
#pragma omp for schedule(static)
    for (long col = 0; col < n; col += TILE_COLS) {
      for (long k = 0; k < n; k++) memcpy(panel + k * TILE_COLS, b + k * n + col, TILE_COLS * sizeof *panel);
      for (long row = 0; row < n; row += TILE_ROWS) matmul_tile(n, a + row * n, panel, c + row * n + col);
    }
    free(panel);
  }
}

static void matmul_plain(long n, const float *restrict a, const float *restrict b, float *restrict c) {
  memset(c, 0, n * n * sizeof *c);
  for (long i = 0; i < n; i++)
    for (long k = 0; k < n; k++)
      for (long j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

/* ---- reduce ---- */

static float reduce_tuned(long n, const float *restrict x) {
  enum { CHUNK = 4096 };
  double total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
  for (long start = 0; start < n; start += CHUNK) {
    const long end = start + CHUNK < n ? start + CHUNK : n;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (long i = start; i < end; i++) sum += x[i];
    total += sum;
  }
  return total;
}

static float reduce_plain(long n, const float *restrict x) {
  double total = 0;
  for (long i = 0; i < n; i++) total += x[i];
  return total;
}

/* ---- hist ---- */

/* Several tables a thread, so that equal neighbours do not wait for each other's increment. n is a multiple of 8. */
static void hist_tuned(long n, const uint8_t *restrict data, uint32_t *restrict bins) {
#pragma omp parallel
  {
    uint32_t table[4][256] = {{0}};
#pragma omp for schedule(static) nowait
    for (long i = 0; i < n; i += 8) {
      uint64_t word;
      memcpy(&word, data + i, sizeof word);
#pragma GCC unroll 8
      for (int k = 0; k < 8; k++) table[k & 3][word >> (8 * k) & 0xff]++;
    }
#pragma omp critical
    for (int b = 0; b < 256; b++) bins[b] += table[0][b] + table[1][b] + table[2][b] + table[3][b];
  }
}

static void hist_plain(long n, const uint8_t *restrict data, uint32_t *restrict bins) {
  for (long i = 0; i < n; i++) bins[data[i]]++;
}

/* ---- nbody: x, y, z, mass ---- */

static void move_body(float dt, const float *p, const float *v, const float *acc, float *p_next, float *v_next) {
  for (int c = 0; c < 3; c++) {
    v_next[c] = v[c] + acc[c] * dt;
    p_next[c] = p[c] + v_next[c] * dt;
  }
  v_next[3] = v[3];
  p_next[3] = p[3];
}

static void nbody_tuned(long n, float dt, float soft, const float *restrict p, const float *restrict v,
                        float *restrict p_next, float *restrict v_next) {
  float *axes = aligned_alloc(64, 4 * n * sizeof *axes);
  float *restrict xs = axes, *restrict ys = axes + n, *restrict zs = axes + 2 * n, *restrict ms = axes + 3 * n;
  for (long i = 0; i < n; i++) {
    xs[i] = p[4 * i];
    ys[i] = p[4 * i + 1];
    zs[i] = p[4 * i + 2];
    ms[i] = p[4 * i + 3];
  }
#pragma omp parallel for schedule(static)
  for (long i = 0; i < n; i++) {
    const float x = xs[i], y = ys[i], z = zs[i];
    float ax = 0, ay = 0, az = 0;
#pragma omp simd reduction(+ : ax, ay, az)
    for (long j = 0; j < n; j++) {
      const float dx = xs[j] - x, dy = ys[j] - y, dz = zs[j] - z;
      const float inverse = 1.0f / sqrtf(dx * dx + dy * dy + dz * dz + soft);
      const float w = ms[j] * inverse * inverse * inverse;
      ax += dx * w;
      ay += dy * w;
      az += dz * w;
    }
    move_body(dt, p + 4 * i, v + 4 * i, (float[]){ax, ay, az}, p_next + 4 * i, v_next + 4 * i);
  }
  free(axes);
}

static void nbody_plain(long n, float dt, float soft, const float *restrict p, const float *restrict v,
                        float *restrict p_next, float *restrict v_next) {
  for (long i = 0; i < n; i++) {
    float acc[3] = {0, 0, 0};
    for (long j = 0; j < n; j++) {
      float d[3], r2 = soft;
      for (int c = 0; c < 3; c++) {
        d[c] = p[4 * j + c] - p[4 * i + c];
        r2 += d[c] * d[c];
      }
      const float inverse = 1.0f / sqrtf(r2), w = p[4 * j + 3] * inverse * inverse * inverse;
      for (int c = 0; c < 3; c++) acc[c] += d[c] * w;
    }
    move_body(dt, p + 4 * i, v + 4 * i, acc, p_next + 4 * i, v_next + 4 * i);
  }
}

/* ---- softmax ---- */

/* e to the power of x <= 0, good to about an ulp: 2^k times a polynomial of the rest. */
static inline floats exp_below_zero(floats x) {
  const ints tiny = x < -87.0f;
  x = (floats)(((ints)x & ~tiny) | ((ints)splat(-87.0f) & tiny));
  const ints k = __builtin_convertvector(x * 1.44269504f - 0.5f, ints);
  const floats whole = __builtin_convertvector(k, floats);
  const floats r = x - whole * 0.693359375f + whole * 2.12194440e-4f; /* ln 2 in two parts */
  static const float coefficients[] = {1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f,
                                       4.1665795894e-2f, 1.6666665459e-1f, 5.0000001201e-1f};
  floats q = splat(coefficients[0]);
  for (int i = 1; i < 6; i++) q = q * r + coefficients[i];
  return (q * r * r + r + 1.0f) * (floats)((k + 127) << 23);
}

/* cols is a multiple of LANES. */
static void softmax_tuned(long rows, long cols, const float *restrict x, float *restrict y) {
#pragma omp parallel for schedule(static)
  for (long row = 0; row < rows; row++) {
    const float *from = x + row * cols;
    float *to = y + row * cols;
    floats tops = load(from);
    for (long i = LANES; i < cols; i += LANES) {
      const floats v = load(from + i);
      const ints more = v > tops;
      tops = (floats)(((ints)v & more) | ((ints)tops & ~more));
    }
    const float top = max_lanes(tops);
    floats sums = splat(0);
    for (long i = 0; i < cols; i += LANES) {
      const floats e = exp_below_zero(load(from + i) - top);
      store(to + i, e);
      sums += e;
    }
    const float inverse = 1.0f / add_lanes(sums);
    for (long i = 0; i < cols; i += LANES) store(to + i, load(to + i) * inverse);
  }
}

static void softmax_plain(long rows, long cols, const float *restrict x, float *restrict y) {
  for (long row = 0; row < rows; row++) {
    const float *from = x + row * cols;
    float *to = y + row * cols, top = from[0], sum = 0;
    for (long i = 1; i < cols; i++) top = from[i] > top ? from[i] : top;
    for (long i = 0; i < cols; i++) sum += to[i] = expf(from[i] - top);
    for (long i = 0; i < cols; i++) to[i] /= sum;
  }
}

/* ---- jacobi ---- */

static inline void jacobi_row(long n, const float *restrict above, const float *restrict here,
                              const float *restrict below, float *restrict to) {
  for (long x = 1; x < n - 1; x++) to[x] = 0.25f * (above[x] + below[x] + here[x - 1] + here[x + 1]);
}

static void jacobi_tuned(long n, int sweeps, float *a, float *b) {
#pragma omp parallel
  for (int sweep = 0; sweep < sweeps; sweep++) {
    const float *from = sweep & 1 ? b : a;
    float *to = sweep & 1 ? a : b;
#pragma omp for schedule(static)
    for (long y = 1; y < n - 1; y++)
      jacobi_row(n, from + (y - 1) * n, from + y * n, from + (y + 1) * n, to + y * n);
  }
}

static void jacobi_plain(long n, int sweeps, float *a, float *b) {
  for (int sweep = 0; sweep < sweeps; sweep++) {
    const float *from = sweep & 1 ? b : a;
    float *to = sweep & 1 ? a : b;
    for (long y = 1; y < n - 1; y++)
      for (long x = 1; x < n - 1; x++)
        to[y * n + x] =
            0.25f * (from[(y - 1) * n + x] + from[(y + 1) * n + x] + from[y * n + x - 1] + from[y * n + x + 1]);
  }
}

/* ---- empty: one call a block, which the compiler may not leave out ---- */

__attribute__((noinline)) static void nothing(long block) { __asm__ volatile("" : : "r"(block)); }

static void empty_tuned(long blocks) {
#pragma omp parallel for schedule(static)
  for (long block = 0; block < blocks; block++) nothing(block);
}

static void empty_plain(long blocks) {
  for (long block = 0; block < blocks; block++) nothing(block);
}

/* ---- the door ---- */

enum kernel { SAXPY, MANDEL, MATMUL, REDUCE, HIST, NBODY, SOFTMAX, JACOBI, EMPTY };

struct arguments {
  long n, m;
  void *p[4];
  float result;
};

static const float ALPHA = 1.0009765625f, DT = 0.01f, SOFT = 1e-3f;
static const int LIMIT = 256, SWEEPS = 10;

static void run_tuned(enum kernel kernel, struct arguments *a) {
  void **p = a->p;
  switch (kernel) {
  case SAXPY: saxpy_tuned(a->n, ALPHA, p[0], p[1]); break;
  case MANDEL: mandel_tuned(a->n, LIMIT, p[0]); break;
  case MATMUL: matmul_tuned(a->n, p[0], p[1], p[2]); break;
  case REDUCE: a->result = reduce_tuned(a->n, p[0]); break;
  case HIST: hist_tuned(a->n, p[0], p[1]); break;
  case NBODY: nbody_tuned(a->n, DT, SOFT, p[0], p[1], p[2], p[3]); break;
  case SOFTMAX: softmax_tuned(a->n, a->m, p[0], p[1]); break;
  case JACOBI: jacobi_tuned(a->n, SWEEPS, p[0], p[1]); break;
  case EMPTY: empty_tuned(a->n); break;
  }
}

static void run_plain(enum kernel kernel, struct arguments *a) {
  void **p = a->p;
  switch (kernel) {
  case SAXPY: saxpy_plain(a->n, ALPHA, p[0], p[1]); break;
  case MANDEL: mandel_plain(a->n, LIMIT, p[0]); break;
  case MATMUL: matmul_plain(a->n, p[0], p[1], p[2]); break;
  case REDUCE: a->result = reduce_plain(a->n, p[0]); break;
  case HIST: hist_plain(a->n, p[0], p[1]); break;
  case NBODY: nbody_plain(a->n, DT, SOFT, p[0], p[1], p[2], p[3]); break;
  case SOFTMAX: softmax_plain(a->n, a->m, p[0], p[1]); break;
  case JACOBI: jacobi_plain(a->n, SWEEPS, p[0], p[1]); break;
  case EMPTY: empty_plain(a->n); break;
  }
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Seconds a run. */
double measure(int kernel, int plain, int runs, struct arguments *a) {
  const double start = now();
  for (int i = 0; i < runs; i++) (plain ? run_plain : run_tuned)(kernel, a);
  return (now() - start) / runs;
}

/* The largest difference, relative to the wanted value or to a thousandth of the largest of them. */
double largest_error(long n, const float *got, const float *wanted) {
  double top = 0, worst = 0;
  for (long i = 0; i < n; i++) top = fmax(top, fabs(wanted[i]));
  for (long i = 0; i < n; i++) {
    const double error = fabs((double)got[i] - wanted[i]) / fmax(fabs(wanted[i]), 1e-3 * top);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}

/* How many of n integers differ. */
long differences(long n, const int32_t *got, const int32_t *wanted) {
  long count = 0;
  for (long i = 0; i < n; i++) count += got[i] != wanted[i];
  return count;
}
