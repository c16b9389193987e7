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
#endif
