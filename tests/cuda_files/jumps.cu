// The statements up to a label are a branch.
__global__ void skip_invalid(const int *keys, int *counts, float *sums, float w, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) goto done;
    if (keys[i] < 0) {
        counts[i] = -1;
        goto done;
    }
    int bucket;
    bucket = keys[i] % 16;
    sums[i] = w * bucket;
    if (w > 8.0f) goto large;
    counts[i] = bucket;
    goto done;
large:
    counts[i] = bucket + 16;
done:
    return;
}

// A jump out of two loops, and one to the end of a loop's body.
__global__ void first_match(const float *m, int *found, int rows, int cols, float key) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    int at = -1;
    for (int r = row; r < rows; r += 4) {
        if (m[r] != m[r]) goto next;
        for (int c = 0; c < cols; c++) {
            switch (c & 3) {
            case 0:
                if (m[c] == key) {
                    at = c;
                    goto out;
                }
                break;
            case 1: goto next;
            default: break;
            }
            if (m[c] > key) goto next;
        }
        at--;
    next:;
    }
    at -= 100;
out:
    if (row < rows) found[row] = at;
}

// The declaration of `last` comes before the loops in the translation.
__global__ void jump_over_loops(const int *x, unsigned n, unsigned *y) {
    int i = threadIdx.x;
    {
        if (x[i] > 3) goto end;
    }
    for (int k = 0, left = 6; k < left; k++, left--) {
        for (unsigned c = 0; c < 3; c++) n += c * x[c & 15];
    }
    int last;
end:
    last = n % 5;
    y[i] = n + last;
}
