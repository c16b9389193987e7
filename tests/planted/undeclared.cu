// A name that is declared.
__global__ void add(const float *__restrict__ x, float *__restrict__ y, float alpha, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += alpha * x[i]; //- `alpha` `alhpa` //~ check E0850
}
