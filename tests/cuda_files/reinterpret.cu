// Accesses through pointers to other types, in both directions.

__global__ void words_to_bytes(const unsigned int *words, unsigned char *bytes, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned char *view = (const unsigned char *)words;
    if (i < n) bytes[i] = view[i];
}

__global__ void bytes_to_words(const char *bytes, unsigned long *words, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) words[i] = ((const unsigned long *)bytes)[i];
}

__global__ void pairs_to_quads(const float2 *pairs, float4 *quads, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) quads[i] = ((const float4 *)pairs)[i];
}

// A pointer that is cast to bytes and back.
__global__ void there_and_back(const float *x, float *y) {
    const char *bytes = (const char *)x;
    y[threadIdx.x] = *(const float *)(bytes + 4 * threadIdx.x);
}

__global__ void halves_of_a_variable(uint4 *x) {
    uint4 value = x[threadIdx.x];
    unsigned short *parts = (unsigned short *)&value;
    for (int i = 0; i < 8; i++) parts[i] += 1;
    x[threadIdx.x] = value;
}

__global__ void aligned_or_not(const float *x, float *y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float *p = &x[i];
    y[i] = (unsigned long)p % 16 == 0 ? 1.0f : 0.0f;
}
