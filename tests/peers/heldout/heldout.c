/* The programs of this folder as plain C: loops that gcc vectorizes, OpenMP over the cores, no intrinsics.
   Every program gets its buffers in the order of programs.py. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <omp.h>

static int min_int(int a, int b) { return a < b ? a : b; }
static int max_int(int a, int b) { return a > b ? a : b; }

/* ---- hotspot ---- */

static float hotter(float c, float north, float south, float west, float east, float watts) {
  return c + 1.3653333f * (watts + (south + north - 2.0f * c) * 0.1f + (east + west - 2.0f * c) * 0.1f + (80.0f - c) * 4.8828125e-5f);
}

static void hotspot(void **p) {
  enum { N = 1024, STEPS = 24 };
  const float *restrict power = p[0], *start = p[1];
  float *heat = p[2], *heat_next = p[3];
  memcpy(heat, start, sizeof(float) * N * N);
#pragma omp parallel
  for (int step = 0; step < STEPS; step++) {
    const float *restrict from = step % 2 ? heat_next : heat;
    float *restrict to = step % 2 ? heat : heat_next;
#pragma omp for schedule(static)
    for (int y = 0; y < N; y++) {
      const float *restrict c = from + y * N, *restrict w = power + y * N;
      const float *restrict n = y ? c - N : c, *restrict s = y < N - 1 ? c + N : c;
      float *restrict out = to + y * N;
      out[0] = hotter(c[0], n[0], s[0], c[0], c[1], w[0]);
      for (int x = 1; x < N - 1; x++) out[x] = hotter(c[x], n[x], s[x], c[x - 1], c[x + 1], w[x]);
      out[N - 1] = hotter(c[N - 1], n[N - 1], s[N - 1], c[N - 2], c[N - 1], w[N - 1]);
    }
  }
}

/* ---- lud ---- */

enum { LUD = 1024, LUD_BLOCK = 16 };

static void lud_diagonal(float (*m)[LUD], int at) {
  for (int i = at; i < at + LUD_BLOCK - 1; i++) {
    for (int r = i + 1; r < at + LUD_BLOCK; r++) {
      for (int j = at; j < i; j++) m[r][i] -= m[r][j] * m[j][i];
      m[r][i] /= m[i][i];
    }
    for (int j = at; j <= i; j++)
      for (int c = i + 1; c < at + LUD_BLOCK; c++) m[i + 1][c] -= m[i + 1][j] * m[j][c];
  }
}

static void lud(void **p) {
  enum { N = LUD, B = LUD_BLOCK };
  float(*restrict m)[N] = p[1];
  memcpy(m, p[0], sizeof(float) * N * N);
#pragma omp parallel
  for (int at = 0; at < N; at += B) {
#pragma omp single
    lud_diagonal(m, at);
#pragma omp for schedule(static)
    for (int start = at + B; start < N; start += B) {
      for (int i = 1; i < B; i++)
        for (int j = 0; j < i; j++)
          for (int c = start; c < start + B; c++) m[at + i][c] -= m[at + i][j + at] * m[at + j][c];
      for (int r = start; r < start + B; r++)
        for (int i = at; i < at + B; i++) {
          for (int j = at; j < i; j++) m[r][i] -= m[r][j] * m[j][i];
          m[r][i] /= m[i][i];
        }
    }
#pragma omp for schedule(static)
    for (int r = at + B; r < N; r++) {
      float total[N] = {0};
      for (int k = at; k < at + B; k++)
        for (int c = at + B; c < N; c++) total[c] += m[r][k] * m[k][c];
      for (int c = at + B; c < N; c++) m[r][c] -= total[c];
    }
  }
}

/* ---- pathfinder ---- */

static void pathfinder(void **p) {
  enum { ROWS = 201, COLS = 100000 };
  const int(*restrict wall)[COLS] = p[0];
  int *result = p[1], *other = p[2];
  memcpy(result, wall[0], sizeof wall[0]);
#pragma omp parallel
  for (int row = 1; row < ROWS; row++) {
    const int *restrict from = row % 2 ? result : other, *restrict w = wall[row];
    int *restrict to = row % 2 ? other : result;
#pragma omp for schedule(static)
    for (int chunk = 0; chunk < COLS; chunk += 2000) {
      const int first = max_int(chunk, 1), last = min_int(chunk + 2000, COLS - 1);
      if (chunk == 0) to[0] = min_int(from[0], from[1]) + w[0];
      for (int x = first; x < last; x++) to[x] = min_int(min_int(from[x - 1], from[x]), from[x + 1]) + w[x];
      if (last == COLS - 1) to[last] = min_int(from[last - 1], from[last]) + w[last];
    }
  }
}

/* ---- nw ---- */

static void nw(void **p) {
  enum { N = 2048, W = N + 1, B = 64, BLOCKS = N / B, PENALTY = 10 };
  const int(*restrict similar)[W] = p[0];
  int(*restrict score)[W] = p[1];
#pragma omp parallel
  for (int d = 0; d < 2 * BLOCKS - 1; d++) {
#pragma omp for schedule(static)
    for (int b = max_int(0, d - BLOCKS + 1); b <= min_int(d, BLOCKS - 1); b++) {
      const int x = b * B + 1, y = (d - b) * B + 1;
      for (int i = y; i < y + B; i++) {
        int without[B]; /* the gap in this sequence is what depends on the cell before */
        for (int j = 0; j < B; j++)
          without[j] = max_int(score[i - 1][x + j - 1] + similar[i][x + j], score[i - 1][x + j] - PENALTY);
        int left = score[i][x - 1];
        for (int j = 0; j < B; j++) {
          left = max_int(without[j], left - PENALTY);
          score[i][x + j] = left;
        }
      }
    }
  }
}

/* ---- bfs ---- */

static void bfs(void **p) {
  enum { N = 1 << 20 };
  const int *restrict start = p[0], *restrict edges = p[1];
  int *restrict distance = p[2];
  uint8_t *restrict frontier = p[3], *restrict visited = p[4], *restrict reached = p[5];
  memset(distance, 255, sizeof(int) * N);
  memset(frontier, 0, N);
  memset(visited, 0, N);
  frontier[0] = visited[0] = 1;
  distance[0] = 0;
  int more = 1;
  while (more) {
    more = 0;
#pragma omp parallel
    {
#pragma omp for schedule(dynamic, 4096)
      for (int i = 0; i < N; i++)
        if (frontier[i]) {
          frontier[i] = 0;
          for (int k = start[i]; k < start[i + 1]; k++) {
            const int to = edges[k];
            if (!visited[to]) {
              distance[to] = distance[i] + 1;
              reached[to] = 1;
            }
          }
        }
#pragma omp for schedule(static) reduction(| : more)
      for (int i = 0; i < N; i++)
        if (reached[i]) {
          reached[i] = 0;
          frontier[i] = visited[i] = 1;
          more = 1;
        }
    }
  }
}

/* ---- srad ---- */

enum { SRAD = 1024 };
struct srad_pixel { float n, s, w, e, c; };

static inline struct srad_pixel srad_pixel(float q0, float here, float north, float south, float west, float east) {
  const float n = north - here, s = south - here, w = west - here, e = east - here;
  const float gradient = (n * n + s * s + w * w + e * e) / (here * here), laplacian = (n + s + w + e) / here;
  const float above = 0.5f * gradient - 0.0625f * (laplacian * laplacian), below = 1.0f + 0.25f * laplacian;
  const float q = above / (below * below), c = 1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0)));
  return (struct srad_pixel){n, s, w, e, c < 0.0f ? 0.0f : c > 1.0f ? 1.0f : c};
}

static void srad(void **p) {
  enum { N = SRAD, ITERATIONS = 10 };
  float(*restrict image)[N] = p[1], (*restrict dn)[N] = p[2], (*restrict ds)[N] = p[3], (*restrict dw)[N] = p[4], (*restrict de)[N] = p[5],
    (*restrict c)[N] = p[6];
  memcpy(image, p[0], sizeof(float) * N * N);
  float q0 = 0.5f;
  for (int iteration = 0; iteration < ITERATIONS; iteration++, q0 *= 0.9f) {
#pragma omp parallel
    {
#pragma omp for schedule(static)
      for (int y = 0; y < N; y++) {
        const float *restrict above = image[max_int(y - 1, 0)], *restrict row = image[y], *restrict below = image[min_int(y + 1, N - 1)];
        float *restrict n = dn[y], *restrict s = ds[y], *restrict w = dw[y], *restrict e = de[y], *restrict out = c[y];
#define STORE(x, west, east)                                                                     \
  do {                                                                                           \
    const struct srad_pixel r = srad_pixel(q0, row[x], above[x], below[x], row[west], row[east]); \
    n[x] = r.n, s[x] = r.s, w[x] = r.w, e[x] = r.e, out[x] = r.c;                                \
  } while (0)
        STORE(0, 0, 1);
#pragma omp simd
        for (int x = 1; x < N - 1; x++) STORE(x, x - 1, x + 1);
        STORE(N - 1, N - 2, N - 1);
#undef STORE
      }
#pragma omp for schedule(static)
      for (int y = 0; y < N; y++) {
        const float *restrict here = c[y], *restrict south = c[min_int(y + 1, N - 1)];
        for (int x = 0; x < N - 1; x++)
          image[y][x] += 0.25f * 0.5f * (here[x] * dn[y][x] + south[x] * ds[y][x] + here[x] * dw[y][x] + here[x + 1] * de[y][x]);
        const int x = N - 1;
        image[y][x] += 0.25f * 0.5f * (here[x] * dn[y][x] + south[x] * ds[y][x] + here[x] * dw[y][x] + here[x] * de[y][x]);
      }
    }
  }
}

/*MORE*/

/* ---- the entry ---- */

static void (*const PROGRAMS[])(void **) = {hotspot, lud, pathfinder, nw, bfs, srad};

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec + 1e-9 * t.tv_nsec;
}

/* Seconds per run. */
double measure(int program, int runs, void **buffers) {
  const double start = now();
  for (int i = 0; i < runs; i++) PROGRAMS[program](buffers);
  return (now() - start) / runs;
}

/* The largest difference, relative to the expected value or to a thousandth of the largest of them. */
double largest_error(long n, const float *got, const float *expected) {
  double top = 0, worst = 0;
  for (long i = 0; i < n; i++) top = fmax(top, fabs(expected[i]));
  for (long i = 0; i < n; i++) {
    const double error = fabs((double)got[i] - expected[i]) / fmax(fabs(expected[i]), 1e-3 * top);
    if (!(error <= worst)) worst = error;
  }
  return worst;
}
