// Promotions, unsigned arithmetic, shifts and conversions.
__global__ void mix(unsigned* h, const unsigned char* bytes, short* s, int n) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned v = bytes[i] << 8 | bytes[i];
    v ^= v >> 16;
    v *= 0x85ebca6bu;
    v = v + -1;
    s[i] = (short)(v % 1000) - bytes[i];
    s[i] += 3;
    h[i] = i < n / 2 ? v : ~v;
    unsigned char small = v;
    small += 200;
    h[i] += small + (n > 3);
}
