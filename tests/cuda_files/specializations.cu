// Class templates with specializations: the most specialized one that matches is used.

template <class T>
struct Kind {
    static const int depth = 0;
    typedef T type;
    __device__ static T zero() { return T(0); }
};

template <class T>
struct Kind<T *> {
    static const int depth = 1 + Kind<T>::depth;
    typedef typename Kind<T>::type type;
    __device__ static type zero() { return type(1); }
};

template <>
struct Kind<float> {
    enum { depth = 10 };
    typedef double type;
    __device__ static double zero() { return 0.5; }
};

template <class T, int N>
struct Power {
    __device__ static T of(T x) { return x * Power<T, N - 1>::of(x); }
};

template <class T>
struct Power<T, 0> {
    __device__ static T of(T) { return T(1); }
};

template <class A, class B>
struct Same {
    static constexpr bool value = false;
};

template <class A>
struct Same<A, A> {
    static constexpr bool value = true;
};

template <class T, bool IsAdded, class Tag = void>
struct Step;

template <class T>
struct Step<T, true> {
    T by;
    __device__ T operator()(T v) const { return v + by; }
};

template <class T>
struct Step<T, false> {
    T by;
    __device__ T operator()(T v) const;
};

template <class T>
__device__ T Step<T, false>::operator()(T v) const {
    return v - by;
}

template <class T>
__device__ T applied(Step<T, true> step, T v) {
    return step(v);
}

__global__ void kinds(int *y) {
    y[0] = Kind<int>::depth + 2 * Kind<int **>::depth + 4 * Kind<float *>::depth;
    y[1] = sizeof(Kind<float>::type) + Kind<int>::zero() + Kind<int *>::zero() + int(Kind<float *>::zero());
    y[2] = Power<int, 3>::of(y[3]);
    if (Same<int, unsigned>::value) y[4] = 1;
    if (Same<long, long>::value) y[4] = 2;
    Step<int, true> up = {3};
    y[5] = up(y[5]) + applied(up, 4);
}
