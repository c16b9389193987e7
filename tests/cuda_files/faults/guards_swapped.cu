// clk: image[height * width]
__global__ void invert(unsigned char *image, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    if (x < height && y < width) {
        //~ E0610
        image[y * width + x] = 255 - image[y * width + x];
    }
}
