// Loops, switch with fallthrough, effects inside expressions.
__device__ int classify(int x) {
    switch (x & 3) {
    case 0:
        x += 1;
    case 1:
        x *= 2;
        break;
    case 2:
        return -x;
    default:
        x -= 7;
    }
    return x;
}
__global__ void walk(int* y, const int* x, int n) {
    int i = threadIdx.x, total = 0;
    for (int k = 0; k < n; k++) {
        if (x[k] < 0) continue;
        total += classify(x[k]);
    }
    for (int k = n; k > 0; k /= 2) {
        if (k == 5) continue;
        total += k;
    }
    int k = 0;
    while (k < n && x[k++] != 0) total--;
    do {
        total += i ? k-- : 1;
    } while (k > 0);
    y[i] = total;
}
