// What the elements of a product leave, in all texts of products. It is put into the namespace of each of them.

typedef unsigned long long u64;

// What an element leaves to be written to an array, of which no other element writes the same place.
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

// Writes what the first `count` of four elements left: in one access, if that is possible.
template <class T>
__device__ __forceinline__ void write(T *to, int count, const Later<T> &a, const Later<T> &b, const Later<T> &c, const Later<T> &d) {
    // Where nothing is to be written, places mean nothing.
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

// The rows and columns of the product, and how many of them are in all that guards of `at` compare them with: there it need not ask.
struct Edges {
    int rows, columns, open_rows, open_columns;
};
