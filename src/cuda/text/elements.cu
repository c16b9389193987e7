// Deferred stores of the elements of a product. This file is included in a namespace.

typedef unsigned long long u64;

// The deferred store of an element to an array: whether it is performed, the offset, and the value. The epilogues of
// other elements do not write to the same offset.
template <class T>
struct Later {
    bool is = false;
    int place = 0;
    T value{};

    __device__ __forceinline__ void put(bool inside, int at, T element) {
        is = inside;
        place = at;
        value = element;
    }
};

template <class T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Four { T values[4]; };

// Performs the deferred stores of the first `count` of four elements, with a single access if possible.
template <class T>
__device__ __forceinline__ void write(T *to, int count, const Later<T> &a, const Later<T> &b, const Later<T> &c, const Later<T> &d) {
    // `place` is undefined if `is` is false.
    const bool all = count >= 4 && a.is && b.is && c.is && d.is;
    if (all && b.place == a.place + 1 && c.place == a.place + 2 && d.place == a.place + 3 && u64(to + a.place) % alignof(Four<T>) == 0) {
        *(Four<T> *)(to + a.place) = Four<T>{{a.value, b.value, c.value, d.value}};
        return;
    }
    if (count > 0 && a.is) to[a.place] = a.value;
    if (count > 1 && b.is) to[b.place] = b.value;
    if (count > 2 && c.is) to[c.place] = c.value;
    if (count > 3 && d.is) to[d.place] = d.value;
}

// The number of rows and columns of the product, and the number of rows and columns that are below every extent with
// which the epilogue `at` compares them. For these rows and columns, the comparisons can be omitted.
struct Edges {
    int rows, columns, open_rows, open_columns;
};
