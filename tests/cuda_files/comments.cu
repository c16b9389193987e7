// Adds a multiple of one vector to another.
#include <cstdio>
#define BLOCK 256 // threads of a block

/*
 * Scales a vector.
 *   x: the input
 */
__device__ float scaled(float x /* the input */, float a) { // by a factor
    // The product is rounded.
    return a * x; // the result
}

struct Pair { float a, b; }; // two numbers

/// Sums the elements of `x`,
/// one block at a time.
__global__ void sum(const float *x, // the input
                    float *y, int n) {
    // clk: y[gridDim.x]
    int t = threadIdx.x; // position in the block
    // One number for each thread of the block.
    __shared__ float s[BLOCK];
    /* the first element */ int i = blockIdx.x * BLOCK + t;
    float acc = 0; // the sum of a thread
    // grid-stride loop
    for (int k = i; k < n; k += BLOCK * gridDim.x) { // every element once
        // two cases
        if (x[k] > 0) {
            acc += scaled(x[k], 2.0f); // doubled
            // end of the first case
        }
        // negative numbers
        else if (x[k] < -1.0f) {
            acc -= x[k];
        } else /* small */ {
            /* nothing */
        } // if
#if 0
        // not compiled
        acc = 1;
#else
        // compiled
#endif
    } // for
    s[t] = acc +
           // the operand of a sum
           1.0f;
    __syncthreads(); // all sums are stored
    // A tree.
    for (int h = BLOCK / 2; h > 0; h >>= 1) {
        if (t < h) // the lower half
            s[t] += s[t + h];
        __syncthreads();
    }
    const int last = 0; // a constant
    switch (n & 3) {
    // no rest
    case 0:
        acc = 1;
        break; // leave
    case 1: // one
        acc = 2;
    default: acc = 3;
    }
    /* The sum of the block. */
    if (t == last) y[blockIdx.x] = s[0] * acc;
    // done
}
