// Other threads may still change the counter when the thread with the first ticket reads it.
__device__ int tickets = 0;

__global__ void count_threads(int *n) {
    int ticket = atomicAdd(&tickets, 1);
    //~ E0610
    if (ticket == 0) *n = tickets;
}
