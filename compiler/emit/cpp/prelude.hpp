#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <new>
#include <type_traits>

#ifndef T
#error "the type of numbers is missing: -DT=float or -DT=double"
#endif
#ifdef __FAST_MATH__
#error "infinities mean something here: compile without -ffast-math"
#endif

#if defined(__clang__)
#define LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LOOP _Pragma("GCC ivdep")
#else
#define LOOP
#endif

#if defined(__GNUC__)
#define SEPARATE __attribute__((noinline))
#else
#define SEPARATE
#endif
#define PRAGMA(text) _Pragma(#text)
#define SUM(name) PRAGMA(omp simd reduction(+ : name))
#define GREATEST(name, bad) PRAGMA(omp simd reduction(max : name) reduction(| : bad))
#define ENDS(least, most) PRAGMA(omp simd reduction(min : least) reduction(max : most))

using I = int64_t;

// The scale of zero; a number below every other scale, finite, so that differences are numbers.
static const double NEGATIVE = -INFINITY;
static const double FLOOR = -1e300;
// What a table has where it has no entry: outside every chart.
static const I OUTSIDE = -(I(1) << 40);
// The bits of a number.
using Bits = std::conditional<sizeof(T) == 4, uint32_t, uint64_t>::type;
// The greatest number.
static const T LARGEST = sizeof(T) == 4 ? T(3.40282347e+38) : T(1.7976931348623157e+308);
// A ratio of scales is held below e^LIMIT, which is still a number. It is great only where the
// term's own factors are zero or nearly so.
static const double LIMIT = sizeof(T) == 4 ? 85.0 : 706.0;

static inline I least(I a, I b) { return a < b ? a : b; }
static inline I greatest(I a, I b) { return a > b ? a : b; }
static inline I floor_div(I a, I b) { I q = a / b; return q - (a % b != 0 && (a < 0) != (b < 0)); }
static inline I ceil_div(I a, I b) { return -floor_div(-a, b); }

// e^x for x below 709, without branches, so that loops of it can be vectorised; 0 below -708.
static inline double exp_of(double x) {
  const double magic = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to a whole number
  double held = x < -708.0 ? -708.0 : x;
  double shifted = held * 1.4426950408889634 + magic;
  double k = shifted - magic;
  double r = held - k * 6.93147180369123816490e-01;
  r = r - k * 1.90821492927058770002e-10;
  double p = 1.6059043836821613e-10;
  p = p * r + 2.08767569878681e-9;
  p = p * r + 2.505210838544172e-8;
  p = p * r + 2.755731922398589e-7;
  p = p * r + 2.7557319223985893e-6;
  p = p * r + 2.48015873015873e-5;
  p = p * r + 1.984126984126984e-4;
  p = p * r + 1.388888888888889e-3;
  p = p * r + 8.333333333333333e-3;
  p = p * r + 4.1666666666666664e-2;
  p = p * r + 1.6666666666666666e-1;
  p = p * r + 0.5;
  p = p * r + 1.0;
  p = p * r + 1.0;
  uint64_t bits;
  std::memcpy(&bits, &shifted, 8);
  bits = (bits + 1023) << 52;
  double power;
  std::memcpy(&power, &bits, 8);
  return x < -708.0 ? 0.0 : p * power;
}

// What a scale is worth relative to a greatest one, or to its cell's.
static inline double worth(double e, double top) { return exp_of(e - (top < FLOOR ? FLOOR : top)); }
static inline T weight(double e, double top) { return T(worth(e, top)); }
static inline T ratio(double e, double head) {
  double x = e - head;
  x = x > LIMIT ? LIMIT : x;
  return head > NEGATIVE ? T(exp_of(x)) : T(0);
}

static inline double log_add(double a, double b) {
  double top = a > b ? a : b;
  if (top == NEGATIVE) return NEGATIVE;
  return top + std::log1p(exp_of((a > b ? b : a) - top));
}

// What a program asks of Python: to let others run meanwhile, and whether the user wants it to stop.
struct Python { void* (*save)(); void (*restore)(void*); int (*check)(); };
struct Stopped {};

struct Watch {
  const Python* python;
  void* state = python ? python->save() : nullptr;
  double last = seconds();
  static double seconds() {
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
  }
  void look() {
    const double now = seconds();
    if (!python || now - last < 0.1) return;
    last = now;
    python->restore(state);
    state = nullptr;
    if (python->check()) throw Stopped();
    state = python->save();
  }
  ~Watch() { if (python && state) python->restore(state); }
};

// Room for intermediate results: given back as a whole, kept for the next step. Several blocks
// become one as soon as they are empty.
struct Room {
  struct Block { char* at; size_t size, used; Block* next; };
  Block* last = nullptr;
  size_t now = 0;
  I most = 0;
  void reset() {
    if (last && last->next) {
      size_t used = 0;
      for (Block* b = last; b; b = b->next) used += b->used;
      clear();
      add(used + used / 4);
    }
    if (last) last->used = 0;
  }
  void clear() {
    while (last) { Block* next = last->next; std::free(last->at); std::free(last); last = next; }
    now = 0;
  }
  void add(size_t bytes) {
    const size_t size = bytes > (size_t(1) << 16) ? (bytes + 63) & ~size_t(63) : size_t(1) << 16;
    Block* block = static_cast<Block*>(std::malloc(sizeof(Block)));
    void* memory = nullptr;
    if (!block || posix_memalign(&memory, 64, size)) { std::free(block); throw std::bad_alloc(); }
    *block = {static_cast<char*>(memory), size, 0, last};
    last = block;
    now += size;
    most = I(now) > most ? I(now) : most;
  }
  void* get(size_t bytes) {
    bytes = (bytes + 63) & ~size_t(63);
    if (!last || last->used + bytes > last->size) add(bytes);
    void* found = last->at + last->used;
    last->used += bytes;
    return found;
  }
  template <class U> U* some(I count) { return static_cast<U*>(get(sizeof(U) * (count > 0 ? count : 1))); }
  template <class U> U* zeros(I count) {
    U* found = some<U>(count);
    std::memset(static_cast<void*>(found), 0, sizeof(U) * (count > 0 ? count : 1));
    return found;
  }
  ~Room() { clear(); }
};

// The entry of a table, [*indices, batch].
template <int R>
static inline I look(const I* table, const I* sizes, const I (&index)[R], I b, I count) {
  I at = 0;
  for (int r = 0; r < R; ++r) {
    if (index[r] < 0 || index[r] >= sizes[r]) return OUTSIDE;
    at = at * sizes[r] + index[r];
  }
  return table[at * count + b];
}

// C (m x n) = A (m x k) B (k x n), or added to C. Every matrix has rows and columns at strides.
typedef void (*Product)(const char*, const char*, const int*, const int*, const int*, const T*,
                        const T*, const int*, const T*, const int*, const T*, T*, const int*);

static void matmul(Product blas, I m, I n, I k, const T* A, I ar, I ac, const T* B, I br, I bc,
                   T* C, I cr, I cc, bool add) {
  if (cc != 1 && cr == 1) {  // the transpose of C has its rows next to each other
    matmul(blas, n, m, k, B, bc, br, A, ac, ar, C, cc, cr, add);
    return;
  }
  bool fits = cc == 1 && (ac == 1 || ar == 1) && (bc == 1 || br == 1) && m > 0 && n > 0 && k > 0;
  if (blas && fits && m < (1 << 30) && n < (1 << 30) && k < (1 << 30)) {
    // In columns: C' = B' A'.
    auto lead = [](I a, I b) { return int(a > b ? a : b); };
    const char ta = ac == 1 ? 'N' : 'T', tb = bc == 1 ? 'N' : 'T';
    const int M = int(n), N = int(m), K = int(k);
    const int lda = bc == 1 ? lead(br, n) : lead(bc, k), ldb = ac == 1 ? lead(ar, k) : lead(ac, m);
    const int ldc = lead(cr, n);
    const T one = 1, beta = add ? 1 : 0;
    blas(&tb, &ta, &M, &N, &K, &one, B, &lda, A, &ldb, &beta, C, &ldc);
    return;
  }
  for (I i = 0; i < m; ++i) {
    if (!add) for (I j = 0; j < n; ++j) C[i * cr + j * cc] = 0;
    for (I p = 0; p < k; ++p) {
      const T a = A[i * ar + p * ac];
      LOOP for (I j = 0; j < n; ++j) C[i * cr + j * cc] += a * B[p * br + j * bc];
    }
  }
}

// What tells whether numbers became too small, item by item, and how great the values of cells are.
// The room that is handed over has SETTINGS numbers, then for each item the least and the greatest
// of the greatest values of cells (rows for each number of charts in a product), whether a cell is
// zero, how far the terms of a sum are apart at most, and whether terms of the present sum are lost.
// Then comes the least positive value of each chart.
static const I SETTINGS = 8;
struct Range {
  double* const at;
  const I B;
  const I depths = I(at[0]);
  const double up = at[1];
  // Of a lifted pass: what positive values are raised to, what stands for lost terms, how far terms
  // may be apart.
  const T floor = T(at[2]), rest = T(at[3]);
  const double gap = at[4];
  const bool lifted = at[2] > 0, watched = at[5] != 0;
  double* const tops = at + SETTINGS;
  double* const most = tops + depths * B;
  double* const dead = most + depths * B;
  double* const gaps = dead + B;
  double* const lost = gaps + B;
  double* const values = lost + B;
  void begin() { if (lifted) for (I b = 0; b < B; ++b) lost[b] = 0; }
  // The greatest value of a cell that was computed.
  void note(int depth, I b, T top, double scale) {
    double& least = tops[depth * B + b];
    double& great = most[depth * B + b];
    if (top == 0) dead[b] = dead[b] != 0 || scale != NEGATIVE;
    else if (!(double(top) >= least)) least = double(top);
    if (!(double(top) <= great)) great = double(top);
  }
  // A term that is not zero, `below` the greatest one.
  void term(I b, double below) {
    if (below < gaps[b]) gaps[b] = below;
    if (lifted && below < gap) lost[b] = 1;
  }
  void terms(const double* e, const double* top, I count) {
    for (I q = 0; q < count; ++q)
      for (I b = 0; b < B; ++b)
        if (e[q * B + b] > NEGATIVE) term(b, e[q * B + b] - top[b]);
  }
  // Cells of a chart, `count` values each, `rows` at a stride.
  void chart(I number, const T* at, I rows, I stride, I columns, I step, I count) {
    // Positive numbers are in the order of their bits; 0 less 1 is the greatest of all.
    Bits least = ~Bits(0), most = 0;
    for (I r = 0; r < rows; ++r)
      for (I c = 0; c < columns; ++c) {
        const T* const v = at + r * stride + c * step;
        ENDS(least, most) for (I i = 0; i < count; ++i) {
          Bits x;
          std::memcpy(&x, v + i, sizeof(T));
          least = x - 1 < least ? x - 1 : least;
          most = x > most ? x : most;
        }
      }
    ++least;
    T low, high;
    std::memcpy(&low, &least, sizeof(T));
    std::memcpy(&high, &most, sizeof(T));
    values[number] = high <= LARGEST ? (low > 0 ? double(low) : double(LARGEST)) : NAN;
  }
  T more(int depth, I b) const {
    if (!lifted || lost[b] == 0) return 0;
    return depth > 1 ? T(rest * std::pow(up, depth - 1)) : rest;
  }
  double log(T value, int depth, I b, double scale) {
    value += more(depth, b);
    note(depth, b, value, scale);
    return std::log(double(value)) + scale;
  }
};

// One term of a cell: its values relative to its scale, and how many charts it is a product of.
struct Part { const T* values; double scale; int depth; };

// Write a cell: the greatest value becomes `up`, the rest of it goes into the scale. What is too
// large to be a number makes the cell none.
static inline void put_one(T* v, double* e, const T* values, double scale, I n, Range& range,
                           int depth, I b) {
  T top = 0;
  const T more = range.more(depth, b);
  int bad = scale != scale;
  GREATEST(top, bad) for (I i = 0; i < n; ++i) {
    top = values[i] > top ? values[i] : top;
    bad |= !(values[i] <= LARGEST);
  }
  top += more;
  if (bad && scale != NEGATIVE) {
    *e = NAN;
    for (I i = 0; i < n; ++i) v[i] = NAN;
    return;
  }
  range.note(depth, b, top, scale);
  if (top == 0 || scale == NEGATIVE) {
    *e = NEGATIVE;
    for (I i = 0; i < n; ++i) v[i] = 0;
    return;
  }
  *e = std::log(double(top) / range.up) + scale;
  const T unit = T(double(top) / range.up);
  LOOP for (I i = 0; i < n; ++i) v[i] = (values[i] + more) / unit;
  if (range.lifted)
    for (I i = 0; i < n; ++i) v[i] = v[i] > 0 && v[i] < range.floor ? range.floor : v[i];
}

// Write the sum of several terms.
static inline void put_all(T* v, double* e, const Part* parts, int count, I n, T* sum,
                           Range& range, I b) {
  if (count == 1) {
    put_one(v, e, parts[0].values, parts[0].scale, n, range, parts[0].depth, b);
    return;
  }
  double top = NEGATIVE;
  int depth = 0;
  for (int p = 0; p < count; ++p) {
    const double scale = parts[p].scale;
    top = scale > top || scale != scale ? scale : top;
    depth = parts[p].depth > depth ? parts[p].depth : depth;
  }
  if (range.watched)
    for (int p = 0; p < count; ++p)
      if (parts[p].scale > NEGATIVE) range.term(b, parts[p].scale - top);
  for (I i = 0; i < n; ++i) sum[i] = 0;
  for (int p = 0; p < count; ++p) {
    const T share = weight(parts[p].scale, top);
    if (share == 0) continue;
    const T* values = parts[p].values;
    LOOP for (I i = 0; i < n; ++i) sum[i] += values[i] * share;
  }
  put_one(v, e, sum, top, n, range, depth, b);
}

// A cell, or what stands for cells that there are not.
template <class U> static inline const U* cell(const U* base, I at, const U* none) {
  return at < 0 ? none : base + at;
}
template <class U> static inline U* spot(U* base, I at, U* none) { return at < 0 ? none : base + at; }
