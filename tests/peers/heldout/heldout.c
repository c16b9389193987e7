/* The programs of this folder as plain C: loops that gcc vectorizes, OpenMP over the cores, no intrinsics.
   Every program gets its buffers in the order of programs.py. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <omp.h>

/* glibc has vectors of these in libmvec, accurate to 4 ulp. */
#pragma omp declare simd notinbranch
float expf(float);
#pragma omp declare simd notinbranch
float logf(float);

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

/* ---- convolution ---- */

static void convolution(void **p) {
  enum { N = 2048, R = 8 };
  static const float weights[2 * R + 1] = {0.002f, 0.005f, 0.011f, 0.022f, 0.041f, 0.065f, 0.092f, 0.115f, 0.125f, 0.118f, 0.094f, 0.067f, 0.042f, 0.023f, 0.012f, 0.006f, 0.003f};
  const float(*restrict x)[N] = p[0];
  float(*restrict between)[N] = p[1], (*restrict y)[N] = p[2];
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int row = 0; row < N; row++) {
      float padded[N + 2 * R] = {0};
      memcpy(padded + R, x[row], sizeof x[row]);
      for (int i = 0; i < N; i++) {
        float total = 0;
#pragma GCC unroll 17
        for (int j = -R; j <= R; j++) total += weights[R - j] * padded[i + R + j];
        between[row][i] = total;
      }
    }
#pragma omp for schedule(static)
    for (int row = 0; row < N; row++) {
      float total[N] = {0};
      for (int j = max_int(-R, -row); j <= min_int(R, N - 1 - row); j++)
        for (int i = 0; i < N; i++) total[i] += weights[R - j] * between[row + j][i];
      memcpy(y[row], total, sizeof total);
    }
  }
}

/* ---- fdtd3d ---- */

static void fdtd3d(void **p) {
  enum { R = 4, N = 160 + 2 * R, SWEEPS = 4 };
  static const float weights[R + 1] = {0.25f, 0.06f, 0.03f, 0.02f, 0.015f};
  float(*volume)[N][N] = p[1], (*other)[N][N] = p[2];
  memcpy(volume, p[0], sizeof(float) * N * N * N);
  memcpy(other, p[0], sizeof(float) * N * N * N);
#pragma omp parallel
  for (int step = 0; step < SWEEPS; step++) {
    const float(*restrict from)[N][N] = step % 2 ? other : volume;
    float(*restrict to)[N][N] = step % 2 ? volume : other;
#pragma omp for schedule(static)
    for (int z = R; z < N - R; z++)
      for (int y = R; y < N - R; y++)
#pragma omp simd
        for (int x = R; x < N - R; x++) {
          float value = weights[0] * from[z][y][x];
#pragma GCC unroll 4
          for (int i = 1; i <= R; i++)
            value += weights[i] * (from[z + i][y][x] + from[z - i][y][x] + from[z][y - i][x] + from[z][y + i][x] + from[z][y][x - i] +
                                   from[z][y][x + i]);
          to[z][y][x] = value;
        }
  }
}

/* ---- options ---- */

static float normal_below(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabsf(d));
  const float poly = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  const float tail = 0.39894228f * expf(-0.5f * d * d) * poly;
  return d > 0 ? 1.0f - tail : tail;
}

static void options(void **p) {
  enum { N = 1 << 21 };
  const float *restrict price = p[0], *restrict strike = p[1], *restrict years = p[2];
  float *restrict call = p[3], *restrict put = p[4];
#pragma omp parallel for simd schedule(static)
  for (int i = 0; i < N; i++) {
    const float root = sqrtf(years[i]), d1 = (logf(price[i] / strike[i]) + (0.02f + 0.5f * 0.3f * 0.3f) * years[i]) / (0.3f * root);
    const float d2 = d1 - 0.3f * root, n1 = normal_below(d1), n2 = normal_below(d2), discounted = strike[i] * expf(-0.02f * years[i]);
    call[i] = price[i] * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - price[i] * (1.0f - n1);
  }
}

/* ---- sha256 ---- */

static uint32_t rotated(uint32_t x, int by) { return x >> by | x << (32 - by); }

static void sha256(void **p) {
  enum { N = 1 << 17 };
  static const uint32_t START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  static const uint32_t ROUND[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
    0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
    0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
    0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
    0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
    0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  const uint32_t(*restrict message)[8] = p[0];
  uint32_t(*restrict digest)[8] = p[1];
#pragma omp parallel for schedule(static)
  for (int i = 0; i < N; i++) {
    uint32_t w[64] = {0};
    memcpy(w, message[i], 32);
    w[8] = 0x80000000u;
    w[15] = 256;
    for (int k = 16; k < 64; k++) {
      const uint32_t s0 = rotated(w[k - 15], 7) ^ rotated(w[k - 15], 18) ^ w[k - 15] >> 3;
      const uint32_t s1 = rotated(w[k - 2], 17) ^ rotated(w[k - 2], 19) ^ w[k - 2] >> 10;
      w[k] = w[k - 16] + s0 + w[k - 7] + s1;
    }
    uint32_t a = START[0], b = START[1], c = START[2], d = START[3], e = START[4], f = START[5], g = START[6], h = START[7];
    for (int k = 0; k < 64; k++) {
      const uint32_t t1 = h + (rotated(e, 6) ^ rotated(e, 11) ^ rotated(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[k] + w[k];
      const uint32_t t2 = (rotated(a, 2) ^ rotated(a, 13) ^ rotated(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
      h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
    }
    const uint32_t sums[8] = {a, b, c, d, e, f, g, h};
    for (int k = 0; k < 8; k++) digest[i][k] = START[k] + sums[k];
  }
}

/* ---- hash_table ---- */

static uint32_t place(uint32_t h, uint32_t slots) {
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return (h ^ h >> 16) & (slots - 1);
}

static void hash_table(void **p) {
  enum { N = 1 << 20, SLOTS = 1 << 21 };
  const uint32_t EMPTY = 0xffffffffu;
  const uint32_t *restrict key = p[0], *restrict value = p[1], *restrict query = p[2];
  uint32_t *restrict keys = p[3], *restrict values = p[4], *restrict found = p[5];
  memset(keys, 255, sizeof(uint32_t) * SLOTS);
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int i = 0; i < N; i++)
      for (uint32_t at = place(key[i], SLOTS);; at = (at + 1) & (SLOTS - 1)) {
        uint32_t before = EMPTY;
        if (__atomic_compare_exchange_n(&keys[at], &before, key[i], 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED) || before == key[i]) {
          values[at] = value[i];
          break;
        }
      }
#pragma omp for schedule(static)
    for (int i = 0; i < N; i++) {
      uint32_t at = place(query[i], SLOTS);
      while (keys[at] != EMPTY && keys[at] != query[i]) at = (at + 1) & (SLOTS - 1);
      found[i] = keys[at] == EMPTY ? EMPTY : values[at];
    }
  }
}

/* ---- attention ---- */

static void attention(void **p) {
  enum { DIM = 64, TILE = 32, HEADS = 4, N = 512 };
  const float(*restrict q)[DIM] = p[0], (*restrict k)[DIM] = p[1], (*restrict v)[DIM] = p[2];
  float(*restrict o)[DIM] = p[3];
#pragma omp parallel for collapse(2) schedule(static)
  for (int head = 0; head < HEADS; head++)
    for (int first = 0; first < N; first += TILE) {
      /* A tile of queries, so that keys are used while they are in the cache; transposed scores let the sums of a tile be vectors. */
      float mine[DIM][TILE], acc[TILE][DIM] = {{0}}, top[TILE], total[TILE] = {0};
      for (int i = 0; i < TILE; i++) {
        top[i] = -1e30f;
        for (int d = 0; d < DIM; d++) mine[d][i] = 0.125f * q[head * N + first + i][d];
      }
      for (int start = 0; start < N; start += TILE) {
        float score[TILE][TILE], high[TILE];
        memcpy(high, top, sizeof top);
        for (int j = 0; j < TILE; j++) {
          float s[TILE] = {0};
          for (int d = 0; d < DIM; d++)
            for (int i = 0; i < TILE; i++) s[i] += mine[d][i] * k[head * N + start + j][d];
          for (int i = 0; i < TILE; i++) high[i] = s[i] > high[i] ? s[i] : high[i];
          memcpy(score[j], s, sizeof s);
        }
        for (int i = 0; i < TILE; i++) {
          const float rescale = expf(top[i] - high[i]);
          top[i] = high[i];
          total[i] *= rescale;
          for (int d = 0; d < DIM; d++) acc[i][d] *= rescale;
          for (int j = 0; j < TILE; j++) {
            const float e = expf(score[j][i] - top[i]);
            total[i] += e;
            for (int d = 0; d < DIM; d++) acc[i][d] += e * v[head * N + start + j][d];
          }
        }
      }
      for (int i = 0; i < TILE; i++)
        for (int d = 0; d < DIM; d++) o[head * N + first + i][d] = acc[i][d] / total[i];
    }
}

/* ---- dct8x8 ---- */

static const float COS[8][8] = {
  {0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f},
  {0.49039263f, 0.4157348f, 0.2777851f, 0.09754516f, -0.09754516f, -0.2777851f, -0.4157348f, -0.49039263f},
  {0.46193975f, 0.19134171f, -0.19134171f, -0.46193975f, -0.46193975f, -0.19134171f, 0.19134171f, 0.46193975f},
  {0.4157348f, -0.09754516f, -0.49039263f, -0.2777851f, 0.2777851f, 0.49039263f, 0.09754516f, -0.4157348f},
  {0.35355338f, -0.35355338f, -0.35355338f, 0.35355338f, 0.35355338f, -0.35355338f, -0.35355338f, 0.35355338f},
  {0.2777851f, -0.49039263f, 0.09754516f, 0.4157348f, -0.4157348f, -0.09754516f, 0.49039263f, -0.2777851f},
  {0.19134171f, -0.46193975f, 0.46193975f, -0.19134171f, -0.19134171f, 0.46193975f, -0.46193975f, 0.19134171f},
  {0.09754516f, -0.2777851f, 0.4157348f, -0.49039263f, 0.49039263f, -0.4157348f, 0.2777851f, -0.09754516f}};
static const float QUANTUM[8][8] = {
  {16.0f, 11.0f, 10.0f, 16.0f, 24.0f, 40.0f, 51.0f, 61.0f},
  {12.0f, 12.0f, 14.0f, 19.0f, 26.0f, 58.0f, 60.0f, 55.0f},
  {14.0f, 13.0f, 16.0f, 24.0f, 40.0f, 57.0f, 69.0f, 56.0f},
  {14.0f, 17.0f, 22.0f, 29.0f, 51.0f, 87.0f, 80.0f, 62.0f},
  {18.0f, 22.0f, 37.0f, 56.0f, 68.0f, 109.0f, 103.0f, 77.0f},
  {24.0f, 35.0f, 55.0f, 64.0f, 81.0f, 104.0f, 113.0f, 92.0f},
  {49.0f, 64.0f, 78.0f, 87.0f, 103.0f, 121.0f, 120.0f, 101.0f},
  {72.0f, 92.0f, 95.0f, 98.0f, 112.0f, 100.0f, 103.0f, 99.0f}};

/* left * x * right, with x = 8 rows of 8. */
static inline void dct_product(const float left[8][8], float x[8][8], const float right[8][8]) {
  float between[8][8] = {{0}};
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 8; k++)
#pragma omp simd
      for (int j = 0; j < 8; j++) between[i][j] += left[i][k] * x[k][j];
  memset(x, 0, sizeof between);
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < 8; k++)
#pragma omp simd
      for (int j = 0; j < 8; j++) x[i][j] += between[i][k] * right[k][j];
}

static void dct8x8(void **p) {
  enum { N = 2048 };
  const float(*restrict image)[N] = p[0];
  int16_t(*restrict levels)[N] = p[1];
  float(*restrict restored)[N] = p[2];
  float transposed[8][8];
  for (int i = 0; i < 64; i++) transposed[i / 8][i % 8] = COS[i % 8][i / 8];
#pragma omp parallel for collapse(2) schedule(static)
  for (int y = 0; y < N; y += 8)
    for (int x = 0; x < N; x += 8) {
      float block[8][8];
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) block[i][j] = image[y + i][x + j] - 128.0f;
      dct_product(COS, block, transposed);
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) levels[y + i][x + j] = (int16_t)floorf(block[i][j] / QUANTUM[i][j] + 0.5f);
    }
#pragma omp parallel for collapse(2) schedule(static)
  for (int y = 0; y < N; y += 8)
    for (int x = 0; x < N; x += 8) {
      float block[8][8];
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) block[i][j] = levels[y + i][x + j] * QUANTUM[i][j];
      dct_product(transposed, block, COS);
      for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++) {
          const float pixel = block[i][j] + 128.0f;
          restored[y + i][x + j] = pixel < 0.0f ? 0.0f : pixel > 255.0f ? 255.0f : pixel;
        }
    }
}

/* ---- photons ---- */

static float uniform(uint32_t *state) {
  uint32_t s = *state;
  s ^= s << 13;
  s ^= s >> 17;
  s ^= s << 5;
  *state = s;
  return ((float)(s >> 8) + 0.5f) * 5.9604645e-8f;
}

static void photons(void **p) {
  enum { N = 1 << 16, EACH = 16 };
  const uint32_t *restrict seed = p[0];
  uint32_t *restrict counts = p[1], ends[3] = {0};
#pragma omp parallel for schedule(static) reduction(+ : ends)
  for (int i = 0; i < N; i++) {
    uint32_t state = seed[i];
    for (int photon = 0; photon < EACH; photon++) {
      float depth = 0, direction = 1;
      int end = -1;
      while (end < 0) {
        depth -= direction * logf(uniform(&state));
        if (depth < 0) end = 0;
        else if (depth > 4.0f) end = 1;
        else if (uniform(&state) > 0.9f) end = 2;
        else direction = 2.0f * uniform(&state) - 1.0f;
      }
      ends[end]++;
    }
  }
  memcpy(counts, ends, sizeof ends);
}

/* ---- spmv ---- */

static void spmv(void **p) {
  enum { N = 1 << 18 };
  const int *restrict start = p[0], *restrict cols = p[1];
  const float *restrict vals = p[2], *restrict x = p[3];
  float *restrict y = p[4];
#pragma omp parallel for schedule(static)
  for (int row = 0; row < N; row++) {
    float total = 0;
    for (int k = start[row]; k < start[row + 1]; k++) total += vals[k] * x[cols[k]];
    y[row] = total;
  }
}

/* ---- bitonic ---- */

static void bitonic(void **p) {
  enum { LENGTH = 1024, BATCHES = 512 };
  uint32_t(*restrict sorted)[LENGTH] = p[2], (*restrict carried)[LENGTH] = p[3];
  memcpy(sorted, p[0], sizeof(uint32_t) * BATCHES * LENGTH);
  memcpy(carried, p[1], sizeof(uint32_t) * BATCHES * LENGTH);
#pragma omp parallel for schedule(static)
  for (int batch = 0; batch < BATCHES; batch++) {
    uint32_t *restrict s = sorted[batch], *restrict v = carried[batch];
    for (int size = 2; size <= LENGTH; size *= 2)
      for (int stride = size / 2; stride > 0; stride /= 2)
        for (int first = 0; first < LENGTH; first += 2 * stride) {
          const int up = (first & size) == 0;
#pragma omp simd
          for (int i = first; i < first + stride; i++) {
            const int j = i + stride, swapped = (s[i] > s[j]) == up;
            const uint32_t low = swapped ? s[j] : s[i], high = swapped ? s[i] : s[j];
            const uint32_t low_value = swapped ? v[j] : v[i], high_value = swapped ? v[i] : v[j];
            s[i] = low, s[j] = high;
            v[i] = low_value, v[j] = high_value;
          }
        }
  }
}

/* ---- histogram64 ---- */

static void histogram64(void **p) {
  enum { BINS = 64, N = 2048 * 64 * 60 };
  const uint32_t *restrict data = p[0];
  uint32_t *restrict bins = p[1];
  memset(bins, 0, sizeof(uint32_t) * BINS);
#pragma omp parallel
  {
    uint32_t own[4][BINS] = {{0}};
#pragma omp for schedule(static) nowait
    for (int i = 0; i < N; i++) {
      own[0][data[i] >> 2 & 63]++;
      own[1][data[i] >> 10 & 63]++;
      own[2][data[i] >> 18 & 63]++;
      own[3][data[i] >> 26]++;
    }
#pragma omp critical
    for (int i = 0; i < BINS; i++) bins[i] += own[0][i] + own[1][i] + own[2][i] + own[3][i];
  }
}

/* ---- the entry ---- */

static void (*const PROGRAMS[])(void **) = {
  hotspot,     lud,    pathfinder, nw,         bfs,       srad,   convolution, fdtd3d, options,
  sha256, hash_table, attention, dct8x8, photons, spmv, bitonic, histogram64,
};

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
