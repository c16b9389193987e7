// One thread of each block adds the block's sum to the total.
__global__ void total(const int *__restrict__ x, int *sum, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(sum, x[i]); //- `atomicAdd(sum, x[i])` `*sum += x[i]` //~ prove E0610
}
