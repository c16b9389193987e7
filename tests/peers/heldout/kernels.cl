/* The programs of this folder in OpenCL C. One -D selects a program, so that the compile time is its own. */
#pragma OPENCL FP_CONTRACT OFF
#define LOCAL_BARRIER barrier(CLK_LOCAL_MEM_FENCE)

#if defined HOTSPOT
#define B 16
#define STEPS 2
#define CORE (B - 2 * STEPS)
__kernel void advance(int h, int w, __global const float *power, __global const float *heat, __global float *heat_next) {
  __local float now[B][B], watts[B][B], later[B][B];
  const int tx = get_local_id(0), ty = get_local_id(1);
  const int x = get_group_id(0) * CORE - STEPS + tx, y = get_group_id(1) * CORE - STEPS + ty;
  const bool inside = x >= 0 && x < w && y >= 0 && y < h;
  if (inside) {
    now[ty][tx] = heat[y * w + x];
    watts[ty][tx] = power[y * w + x];
  }
  LOCAL_BARRIER;
  const int north = y == 0 ? ty : ty - 1, south = y == h - 1 ? ty : ty + 1;
  const int west = x == 0 ? tx : tx - 1, east = x == w - 1 ? tx : tx + 1;
  bool computed = false;
  for (int rim = 1; rim <= STEPS; rim++) {
    computed = inside && tx >= rim && tx < B - rim && ty >= rim && ty < B - rim;
    if (computed) {
      const float c = now[ty][tx];
      later[ty][tx] = c + 1.3653333f * (watts[ty][tx] + (now[south][tx] + now[north][tx] - 2.0f * c) * 0.1f +
                                        (now[ty][east] + now[ty][west] - 2.0f * c) * 0.1f + (80.0f - c) * 4.8828125e-5f);
    }
    LOCAL_BARRIER;
    if (computed) now[ty][tx] = later[ty][tx];
    LOCAL_BARRIER;
  }
  if (computed) heat_next[y * w + x] = now[ty][tx];
}

#elif defined LUD
#define B 16
__kernel void diagonal(int n, int offset, __global float *m) {
  __local float s[B][B];
  const int t = get_local_id(0);
  m += offset * n + offset;
  for (int i = 0; i < B; i++) s[i][t] = m[i * n + t];
  LOCAL_BARRIER;
  for (int i = 0; i < B - 1; i++) {
    if (t > i) {
      for (int j = 0; j < i; j++) s[t][i] -= s[t][j] * s[j][i];
      s[t][i] /= s[i][i];
    }
    LOCAL_BARRIER;
    if (t > i)
      for (int j = 0; j <= i; j++) s[i + 1][t] -= s[i + 1][j] * s[j][t];
    LOCAL_BARRIER;
  }
  for (int i = 1; i < B; i++) m[i * n + t] = s[i][t];
}
__kernel void perimeter(int n, int offset, __global float *m) {
  __local float dia[B][B], row[B][B], col[B][B];
  const int id = get_local_id(0), t = id % B, start = offset + (get_group_id(0) + 1) * B;
  if (id < B) {
    for (int i = 0; i < B / 2; i++) dia[i][t] = m[(offset + i) * n + offset + t];
    for (int i = 0; i < B; i++) row[i][t] = m[(offset + i) * n + start + t];
  } else {
    for (int i = B / 2; i < B; i++) dia[i][t] = m[(offset + i) * n + offset + t];
    for (int i = 0; i < B; i++) col[i][t] = m[(start + i) * n + offset + t];
  }
  LOCAL_BARRIER;
  if (id < B) {
    for (int i = 1; i < B; i++)
      for (int j = 0; j < i; j++) row[i][t] -= dia[i][j] * row[j][t];
  } else {
    for (int i = 0; i < B; i++) {
      for (int j = 0; j < i; j++) col[t][i] -= col[t][j] * dia[j][i];
      col[t][i] /= dia[i][i];
    }
  }
  LOCAL_BARRIER;
  if (id < B)
    for (int i = 1; i < B; i++) m[(offset + i) * n + start + t] = row[i][t];
  else
    for (int i = 0; i < B; i++) m[(start + i) * n + offset + t] = col[i][t];
}
__kernel void internal(int n, int offset, __global float *m) {
  __local float row[B][B], col[B][B];
  const int tx = get_local_id(0), ty = get_local_id(1);
  const int x = offset + (get_group_id(0) + 1) * B + tx, y = offset + (get_group_id(1) + 1) * B + ty;
  row[ty][tx] = m[(offset + ty) * n + x];
  col[ty][tx] = m[y * n + offset + tx];
  LOCAL_BARRIER;
  float total = 0;
  for (int k = 0; k < B; k++) total += col[ty][k] * row[k][tx];
  m[y * n + x] -= total;
}

#elif defined PATHFINDER
#define B 256
#define STEPS 20
#define CORE (B - 2 * STEPS)
__kernel void descend(int cols, int first, int steps, __global const int *wall, __global const int *before, __global int *after) {
  __local int above[B], here[B];
  const int t = get_local_id(0), x = get_group_id(0) * CORE - STEPS + t;
  const bool inside = x >= 0 && x < cols;
  if (inside) above[t] = before[x];
  LOCAL_BARRIER;
  const int left = x == 0 ? t : t - 1, right = x == cols - 1 ? t : t + 1;
  for (int i = 0; i < steps; i++) {
    const bool computed = inside && t > i && t < B - 1 - i;
    if (computed) here[t] = min(min(above[left], above[t]), above[right]) + wall[(first + i) * cols + x];
    LOCAL_BARRIER;
    if (computed) above[t] = here[t];
    LOCAL_BARRIER;
  }
  if (inside && t >= STEPS && t < B - STEPS) after[x] = above[t];
}

#elif defined NW
#define B 16
__kernel void align(int w, int penalty, int diagonal, int first, __global const int *similar, __global int *score) {
  __local int cell[B + 1][B + 1], match[B][B];
  const int t = get_local_id(0), b = first + get_group_id(0), x = b * B, y = (diagonal - b) * B;
  if (t == 0) cell[0][0] = score[y * w + x];
  for (int i = 0; i < B; i++) match[i][t] = similar[(y + 1 + i) * w + x + 1 + t];
  cell[t + 1][0] = score[(y + 1 + t) * w + x];
  cell[0][t + 1] = score[y * w + x + 1 + t];
  LOCAL_BARRIER;
  for (int m = 0; m < B; m++) {
    if (t <= m) {
      const int i = m - t + 1, j = t + 1;
      cell[i][j] = max(cell[i - 1][j - 1] + match[i - 1][j - 1], max(cell[i][j - 1] - penalty, cell[i - 1][j] - penalty));
    }
    LOCAL_BARRIER;
  }
  for (int m = B - 2; m >= 0; m--) {
    if (t <= m) {
      const int i = B - t, j = B - m + t;
      cell[i][j] = max(cell[i - 1][j - 1] + match[i - 1][j - 1], max(cell[i][j - 1] - penalty, cell[i - 1][j] - penalty));
    }
    LOCAL_BARRIER;
  }
  for (int i = 0; i < B; i++) score[(y + 1 + i) * w + x + 1 + t] = cell[i + 1][t + 1];
}

#elif defined BFS
__kernel void expand(int n, __global const int *start, __global const int *edges, __global const uchar *visited,
                     __global uchar *frontier, __global uchar *reached, __global int *distance) {
  const int i = get_global_id(0);
  if (i < n && frontier[i]) {
    frontier[i] = 0;
    for (int k = start[i]; k < start[i + 1]; k++) {
      const int to = edges[k];
      if (!visited[to]) {
        distance[to] = distance[i] + 1;
        reached[to] = 1;
      }
    }
  }
}
__kernel void settle(int n, __global uchar *reached, __global uchar *frontier, __global uchar *visited, __global int *more) {
  const int i = get_global_id(0);
  if (i < n && reached[i]) {
    reached[i] = 0;
    frontier[i] = 1;
    visited[i] = 1;
    more[0] = 1;
  }
}

#elif defined SRAD
#define B 16
__kernel void coefficients(int h, int w, float q0, __global const float *image, __global float *dn, __global float *ds,
                           __global float *dw, __global float *de, __global float *c) {
  __local float tile[B][B];
  const int tx = get_local_id(0), ty = get_local_id(1), x = get_global_id(0), y = get_global_id(1), at = y * w + x;
  tile[ty][tx] = image[at];
  LOCAL_BARRIER;
  const float here = tile[ty][tx];
  const float north = (ty > 0 ? tile[ty - 1][tx] : image[max(y - 1, 0) * w + x]) - here;
  const float south = (ty < B - 1 ? tile[ty + 1][tx] : image[min(y + 1, h - 1) * w + x]) - here;
  const float west = (tx > 0 ? tile[ty][tx - 1] : image[y * w + max(x - 1, 0)]) - here;
  const float east = (tx < B - 1 ? tile[ty][tx + 1] : image[y * w + min(x + 1, w - 1)]) - here;
  const float gradient = (north * north + south * south + west * west + east * east) / (here * here);
  const float laplacian = (north + south + west + east) / here;
  const float above = 0.5f * gradient - 0.0625f * (laplacian * laplacian), below = 1.0f + 0.25f * laplacian;
  const float q = above / (below * below);
  dn[at] = north;
  ds[at] = south;
  dw[at] = west;
  de[at] = east;
  c[at] = clamp(1.0f / (1.0f + (q - q0) / (q0 * (1.0f + q0))), 0.0f, 1.0f);
}
__kernel void diffuse(int h, int w, __global const float *c, __global const float *dn, __global const float *ds,
                      __global const float *dw, __global const float *de, __global float *image) {
  __local float tile[B][B];
  const int tx = get_local_id(0), ty = get_local_id(1), x = get_global_id(0), y = get_global_id(1), at = y * w + x;
  tile[ty][tx] = c[at];
  LOCAL_BARRIER;
  const float here = tile[ty][tx];
  const float south = ty < B - 1 ? tile[ty + 1][tx] : c[min(y + 1, h - 1) * w + x];
  const float east = tx < B - 1 ? tile[ty][tx + 1] : c[y * w + min(x + 1, w - 1)];
  const float d = here * dn[at] + south * ds[at] + here * dw[at] + east * de[at];
  image[at] += 0.25f * 0.5f * d;
}

#elif defined CONVOLUTION
#define RADIUS 8
#define STEPS 8
#define HALO 1
#define ROW_X 16
#define ROW_Y 4
#define COL_X 16
#define COL_Y 8
__constant float WEIGHTS[2 * RADIUS + 1] = {0.002f, 0.005f, 0.011f, 0.022f, 0.041f, 0.065f, 0.092f, 0.115f, 0.125f, 0.118f, 0.094f, 0.067f, 0.042f, 0.023f, 0.012f, 0.006f, 0.003f};
__kernel void rows(int w, __global const float *x, __global float *y) {
  __local float s[ROW_Y][(STEPS + 2 * HALO) * ROW_X];
  const int tx = get_local_id(0), ty = get_local_id(1), first = (get_group_id(0) * STEPS - HALO) * ROW_X + tx;
  x += get_global_id(1) * w;
  y += get_global_id(1) * w;
  for (int i = HALO; i < HALO + STEPS; i++) s[ty][tx + i * ROW_X] = x[first + i * ROW_X];
  for (int i = 0; i < HALO; i++) s[ty][tx + i * ROW_X] = first + i * ROW_X >= 0 ? x[first + i * ROW_X] : 0;
  for (int i = HALO + STEPS; i < STEPS + 2 * HALO; i++) s[ty][tx + i * ROW_X] = first + i * ROW_X < w ? x[first + i * ROW_X] : 0;
  LOCAL_BARRIER;
  for (int i = HALO; i < HALO + STEPS; i++) {
    float total = 0;
#pragma unroll
    for (int j = -RADIUS; j <= RADIUS; j++) total += WEIGHTS[RADIUS - j] * s[ty][tx + i * ROW_X + j];
    y[first + i * ROW_X] = total;
  }
}
__kernel void columns(int h, int w, __global const float *x, __global float *y) {
  __local float s[COL_X][(STEPS + 2 * HALO) * COL_Y + 1];
  const int tx = get_local_id(0), ty = get_local_id(1), first = (get_group_id(1) * STEPS - HALO) * COL_Y + ty;
  x += get_global_id(0);
  y += get_global_id(0);
  for (int i = HALO; i < HALO + STEPS; i++) s[tx][ty + i * COL_Y] = x[(first + i * COL_Y) * w];
  for (int i = 0; i < HALO; i++) s[tx][ty + i * COL_Y] = first + i * COL_Y >= 0 ? x[(first + i * COL_Y) * w] : 0;
  for (int i = HALO + STEPS; i < STEPS + 2 * HALO; i++) s[tx][ty + i * COL_Y] = first + i * COL_Y < h ? x[(first + i * COL_Y) * w] : 0;
  LOCAL_BARRIER;
  for (int i = HALO; i < HALO + STEPS; i++) {
    float total = 0;
#pragma unroll
    for (int j = -RADIUS; j <= RADIUS; j++) total += WEIGHTS[RADIUS - j] * s[tx][ty + i * COL_Y + j];
    y[(first + i * COL_Y) * w] = total;
  }
}

#elif defined FDTD3D
#define R 4
#define BX 32
#define BY 16
#define TX (BX + 2 * R)
#define TY (BY + 2 * R)
__constant float WEIGHTS[R + 1] = {0.25f, 0.06f, 0.03f, 0.02f, 0.015f};
__kernel void sweep(int depth, int h, int w, __global const float *x, __global float *y) {
  __local float plane[TY][TX];
  const int tx = get_local_id(0) + R, ty = get_local_id(1) + R, t = get_local_id(1) * BX + get_local_id(0);
  const int left = get_group_id(0) * BX, top = get_group_id(1) * BY, area = h * w;
  const int at = (get_global_id(1) + R) * w + get_global_id(0) + R;
  float behind[R], ahead[R];
  for (int i = 0; i < R; i++) {
    behind[i] = x[(R - 1 - i) * area + at];
    ahead[i] = x[(R + 1 + i) * area + at];
  }
  float current = x[R * area + at];
  for (int z = R; z < depth - R; z++) {
    for (int k = t; k < TX * TY; k += BX * BY) plane[k / TX][k % TX] = x[z * area + (top + k / TX) * w + left + k % TX];
    LOCAL_BARRIER;
    float value = WEIGHTS[0] * current;
    for (int i = 1; i <= R; i++)
      value += WEIGHTS[i] *
               (ahead[i - 1] + behind[i - 1] + plane[ty - i][tx] + plane[ty + i][tx] + plane[ty][tx - i] + plane[ty][tx + i]);
    y[z * area + at] = value;
    for (int i = R - 1; i > 0; i--) behind[i] = behind[i - 1];
    behind[0] = current;
    current = ahead[0];
    for (int i = 0; i < R - 1; i++) ahead[i] = ahead[i + 1];
    if (z + R + 1 < depth) ahead[R - 1] = x[(z + R + 1) * area + at];
    LOCAL_BARRIER;
  }
}

#elif defined OPTIONS
static float normal_below(float d) {
  const float k = 1.0f / (1.0f + 0.2316419f * fabs(d));
  const float poly = k * (0.31938153f + k * (-0.356563782f + k * (1.781477937f + k * (-1.821255978f + k * 1.330274429f))));
  const float tail = 0.39894228f * exp(-0.5f * d * d) * poly;
  return d > 0 ? 1.0f - tail : tail;
}
__kernel void prices(int n, __global const float *price, __global const float *strike, __global const float *years,
                     __global float *call, __global float *put) {
  const int i = get_global_id(0);
  if (i < n) {
    const float root = sqrt(years[i]), d1 = (log(price[i] / strike[i]) + (0.02f + 0.5f * 0.3f * 0.3f) * years[i]) / (0.3f * root);
    const float d2 = d1 - 0.3f * root, n1 = normal_below(d1), n2 = normal_below(d2), discounted = strike[i] * exp(-0.02f * years[i]);
    call[i] = price[i] * n1 - discounted * n2;
    put[i] = discounted * (1.0f - n2) - price[i] * (1.0f - n1);
  }
}

#elif defined SHA256
__constant uint START[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
__constant uint ROUND[64] = {
  0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5, 0xd807aa98, 0x12835b01, 0x243185be,
  0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174, 0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa,
  0x5cb0a9dc, 0x76f988da, 0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967, 0x27b70a85,
  0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85, 0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3,
  0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070, 0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f,
  0x682e6ff3, 0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
#define ROTATED(x, by) ((x) >> (by) | (x) << (32 - (by)))
__kernel void hash(int n, __global const uint *message, __global uint *digest) {
  const int i = get_global_id(0);
  if (i >= n) return;
  uint w[16] = {0};
  for (int k = 0; k < 8; k++) w[k] = message[i * 8 + k];
  w[8] = 0x80000000u;
  w[15] = 256;
  uint a = START[0], b = START[1], c = START[2], d = START[3], e = START[4], f = START[5], g = START[6], h = START[7];
  for (int k = 0; k < 64; k++) {
    if (k >= 16) {
      const uint w2 = w[(k + 14) & 15], w15 = w[(k + 1) & 15];
      w[k & 15] += (ROTATED(w15, 7) ^ ROTATED(w15, 18) ^ w15 >> 3) + w[(k + 9) & 15] + (ROTATED(w2, 17) ^ ROTATED(w2, 19) ^ w2 >> 10);
    }
    const uint t1 = h + (ROTATED(e, 6) ^ ROTATED(e, 11) ^ ROTATED(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[k] + w[k & 15];
    const uint t2 = (ROTATED(a, 2) ^ ROTATED(a, 13) ^ ROTATED(a, 22)) + ((a & b) ^ (a & c) ^ (b & c));
    h = g, g = f, f = e, e = d + t1, d = c, c = b, b = a, a = t1 + t2;
  }
  const uint sums[8] = {a, b, c, d, e, f, g, h};
  for (int k = 0; k < 8; k++) digest[i * 8 + k] = START[k] + sums[k];
}

#elif defined HASH_TABLE
#define EMPTY 0xffffffffu
static int place(uint h, int slots) {
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return (h ^ h >> 16) & (slots - 1);
}
__kernel void insert(int n, int slots, __global const uint *key, __global const uint *value, __global uint *keys,
                     __global uint *values) {
  const int i = get_global_id(0);
  if (i >= n) return;
  for (int at = place(key[i], slots);; at = (at + 1) & (slots - 1)) {
    const uint before = atomic_cmpxchg(&keys[at], EMPTY, key[i]);
    if (before == EMPTY || before == key[i]) {
      values[at] = value[i];
      return;
    }
  }
}
__kernel void find_all(int n, int slots, __global const uint *query, __global const uint *keys, __global const uint *values,
                       __global uint *found) {
  const int i = get_global_id(0);
  if (i >= n) return;
  int at = place(query[i], slots);
  while (keys[at] != EMPTY && keys[at] != query[i]) at = (at + 1) & (slots - 1);
  found[i] = keys[at] == EMPTY ? EMPTY : values[at];
}

#elif defined ATTENTION
#define DIM 64
#define QUERIES 64
#define TILE 32
__kernel void attention(int n, __global const float *q, __global const float *k, __global const float *v, __global float *o) {
  __local float ks[TILE][DIM], vs[TILE][DIM];
  const int t = get_local_id(0), head = get_group_id(1) * n * DIM, row = head + get_global_id(0) * DIM;
  float mine[DIM], acc[DIM], score[TILE], top = -1.0e30f, total = 0;
  for (int d = 0; d < DIM; d++) mine[d] = 0.125f * q[row + d], acc[d] = 0;
  for (int start = 0; start < n; start += TILE) {
    for (int i = t; i < TILE * DIM; i += QUERIES) {
      ks[i / DIM][i % DIM] = k[head + start * DIM + i];
      vs[i / DIM][i % DIM] = v[head + start * DIM + i];
    }
    LOCAL_BARRIER;
    float high = top;
    for (int j = 0; j < TILE; j++) {
      float s = 0;
      for (int d = 0; d < DIM; d++) s += mine[d] * ks[j][d];
      score[j] = s;
      high = fmax(high, s);
    }
    const float rescale = exp(top - high);
    top = high;
    total *= rescale;
    for (int d = 0; d < DIM; d++) acc[d] *= rescale;
    for (int j = 0; j < TILE; j++) {
      const float p = exp(score[j] - top);
      total += p;
      for (int d = 0; d < DIM; d++) acc[d] += p * vs[j][d];
    }
    LOCAL_BARRIER;
  }
  for (int d = 0; d < DIM; d++) o[row + d] = acc[d] / total;
}

#elif defined DCT8X8
__constant float COS[8][8] = {
  {0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f, 0.35355338f},
  {0.49039263f, 0.4157348f, 0.2777851f, 0.09754516f, -0.09754516f, -0.2777851f, -0.4157348f, -0.49039263f},
  {0.46193975f, 0.19134171f, -0.19134171f, -0.46193975f, -0.46193975f, -0.19134171f, 0.19134171f, 0.46193975f},
  {0.4157348f, -0.09754516f, -0.49039263f, -0.2777851f, 0.2777851f, 0.49039263f, 0.09754516f, -0.4157348f},
  {0.35355338f, -0.35355338f, -0.35355338f, 0.35355338f, 0.35355338f, -0.35355338f, -0.35355338f, 0.35355338f},
  {0.2777851f, -0.49039263f, 0.09754516f, 0.4157348f, -0.4157348f, -0.09754516f, 0.49039263f, -0.2777851f},
  {0.19134171f, -0.46193975f, 0.46193975f, -0.19134171f, -0.19134171f, 0.46193975f, -0.46193975f, 0.19134171f},
  {0.09754516f, -0.2777851f, 0.4157348f, -0.49039263f, 0.49039263f, -0.4157348f, 0.2777851f, -0.09754516f}};
__constant float QUANTUM[8][8] = {
  {16.0f, 11.0f, 10.0f, 16.0f, 24.0f, 40.0f, 51.0f, 61.0f},
  {12.0f, 12.0f, 14.0f, 19.0f, 26.0f, 58.0f, 60.0f, 55.0f},
  {14.0f, 13.0f, 16.0f, 24.0f, 40.0f, 57.0f, 69.0f, 56.0f},
  {14.0f, 17.0f, 22.0f, 29.0f, 51.0f, 87.0f, 80.0f, 62.0f},
  {18.0f, 22.0f, 37.0f, 56.0f, 68.0f, 109.0f, 103.0f, 77.0f},
  {24.0f, 35.0f, 55.0f, 64.0f, 81.0f, 104.0f, 113.0f, 92.0f},
  {49.0f, 64.0f, 78.0f, 87.0f, 103.0f, 121.0f, 120.0f, 101.0f},
  {72.0f, 92.0f, 95.0f, 98.0f, 112.0f, 100.0f, 103.0f, 99.0f}};
__kernel void forward(int w, __global const float *image, __global short *levels) {
  __local float pixels[8][8], half_way[8][8];
  const int tx = get_local_id(0), ty = get_local_id(1), at = get_global_id(1) * w + get_global_id(0);
  pixels[ty][tx] = image[at] - 128.0f;
  LOCAL_BARRIER;
  float total = 0;
  for (int k = 0; k < 8; k++) total += COS[ty][k] * pixels[k][tx];
  half_way[ty][tx] = total;
  LOCAL_BARRIER;
  total = 0;
  for (int k = 0; k < 8; k++) total += half_way[ty][k] * COS[tx][k];
  levels[at] = (short)floor(total / QUANTUM[ty][tx] + 0.5f);
}
__kernel void inverse(int w, __global const short *levels, __global float *image) {
  __local float waves[8][8], half_way[8][8];
  const int tx = get_local_id(0), ty = get_local_id(1), at = get_global_id(1) * w + get_global_id(0);
  waves[ty][tx] = levels[at] * QUANTUM[ty][tx];
  LOCAL_BARRIER;
  float total = 0;
  for (int k = 0; k < 8; k++) total += COS[k][ty] * waves[k][tx];
  half_way[ty][tx] = total;
  LOCAL_BARRIER;
  total = 0;
  for (int k = 0; k < 8; k++) total += half_way[ty][k] * COS[k][tx];
  image[at] = clamp(total + 128.0f, 0.0f, 255.0f);
}

#elif defined PHOTONS
static float uniform_of(uint *state) {
  uint s = *state;
  s ^= s << 13;
  s ^= s >> 17;
  s ^= s << 5;
  *state = s;
  return ((float)(s >> 8) + 0.5f) * 5.9604645e-8f;
}
__kernel void walk(__global const uint *seed, __global uint *counts) {
  __local uint ends[3];
  const int t = get_local_id(0);
  if (t < 3) ends[t] = 0;
  LOCAL_BARRIER;
  uint state = seed[get_global_id(0)];
  for (int photon = 0; photon < 16; photon++) {
    float depth = 0, direction = 1;
    int end = -1;
    while (end < 0) {
      depth -= direction * log(uniform_of(&state));
      if (depth < 0) end = 0;
      else if (depth > 4.0f) end = 1;
      else if (uniform_of(&state) > 0.9f) end = 2;
      else direction = 2.0f * uniform_of(&state) - 1.0f;
    }
    atomic_inc(&ends[end]);
  }
  LOCAL_BARRIER;
  if (t < 3) atomic_add(&counts[t], ends[t]);
}

#elif defined SPMV
__kernel void multiply(int n, __global const int *start, __global const int *cols, __global const float *vals,
                       __global const float *x, __global float *y) {
  const int row = get_global_id(0);
  if (row < n) {
    float total = 0;
    for (int k = start[row]; k < start[row + 1]; k++) total += vals[k] * x[cols[k]];
    y[row] = total;
  }
}

#elif defined BITONIC
#define LENGTH 1024
__kernel void sort_batches(__global const uint *key, __global const uint *value, __global uint *sorted, __global uint *carried) {
  __local uint s[LENGTH], v[LENGTH];
  const int t = get_local_id(0), batch = get_group_id(0) * LENGTH;
  for (int i = t; i < LENGTH; i += LENGTH / 2) s[i] = key[batch + i], v[i] = value[batch + i];
  LOCAL_BARRIER;
  for (int size = 2; size <= LENGTH; size *= 2) {
    const bool up = (t & (size / 2)) == 0;
    for (int stride = size / 2; stride > 0; stride /= 2) {
      const int i = 2 * t - (t & (stride - 1)), j = i + stride;
      if ((s[i] > s[j]) == up) {
        const uint k = s[i], carry = v[i];
        s[i] = s[j], v[i] = v[j];
        s[j] = k, v[j] = carry;
      }
      LOCAL_BARRIER;
    }
  }
  for (int i = t; i < LENGTH; i += LENGTH / 2) sorted[batch + i] = s[i], carried[batch + i] = v[i];
}

#elif defined HISTOGRAM64
#define BINS 64
#define THREADS 64
#define WORDS 60
__kernel void count(__global const uint *data, __global uint *partial) {
  __local uchar counters[BINS][THREADS];
  const int t = get_local_id(0);
  for (int bin = 0; bin < BINS; bin++) counters[bin][t] = 0;
  for (int i = 0; i < WORDS; i++) {
    const uint word = data[(get_group_id(0) * WORDS + i) * THREADS + t];
    counters[word >> 2 & 63][t]++;
    counters[word >> 10 & 63][t]++;
    counters[word >> 18 & 63][t]++;
    counters[word >> 26][t]++;
  }
  LOCAL_BARRIER;
  uint total = 0;
  for (int i = 0; i < THREADS; i++) total += counters[t][(i + t) & (THREADS - 1)];
  partial[get_group_id(0) * BINS + t] = total;
}
__kernel void add_up(int parts, __global const uint *partial, __global uint *bins) {
  __local uint sums[256];
  const int t = get_local_id(0);
  uint total = 0;
  for (int i = t; i < parts; i += 256) total += partial[i * BINS + get_group_id(0)];
  sums[t] = total;
  LOCAL_BARRIER;
  for (int half_way = 128; half_way > 0; half_way /= 2) {
    if (t < half_way) sums[t] += sums[t + half_way];
    LOCAL_BARRIER;
  }
  if (t == 0) bins[get_group_id(0)] = sums[0];
}
#endif
