#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <initializer_list>
#include <memory>
#include <new>
#include <sched.h>
#include <type_traits>
#include <vector>

#ifndef T
#error "the type of numbers is missing: -DT=float or -DT=double"
#endif
#ifdef __FAST_MATH__
#error "infinities mean something here: compile without -ffast-math"
#endif

// A loop whose rounds are independent; loops that sum up or look for extremes.
#if defined(__clang__)
#define LOOP _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define LOOP _Pragma("GCC ivdep")
#else
#define LOOP
#endif
#define PRAGMA(text) _Pragma(#text)
#define SUM(name) PRAGMA(omp simd reduction(+ : name))
#define GREATEST(name, bad) PRAGMA(omp simd reduction(max : name) reduction(| : bad))
#define RANGE(least, most, bad) \
  PRAGMA(omp simd reduction(min : least) reduction(max : most) reduction(| : bad))
#define ENDS(least, most) PRAGMA(omp simd reduction(min : least) reduction(max : most))
#if defined(__GNUC__)
#define ALWAYS __attribute__((always_inline)) inline
#define SEPARATE __attribute__((noinline))
#else
#define ALWAYS inline
#define SEPARATE
#endif

using I = int64_t;
using Bits = std::conditional<sizeof(T) == 4, uint32_t, uint64_t>::type;  // those of a number
static const T SMALLEST = sizeof(T) == 4 ? T(1.17549435e-38) : T(2.2250738585072014e-308);
static const T LARGEST = sizeof(T) == 4 ? T(3.40282347e+38) : T(1.7976931348623157e+308);

// The scale of zero; a number below every other scale, finite, so that differences are numbers.
static const double NEGATIVE = -INFINITY;
static const double FLOOR = -1e300;
// What a table has where it has no entry: outside every chart.
static const I OUTSIDE = -(I(1) << 40);
// A ratio of scales is held below e^LIMIT, which is still a number. It is great only where the
// term's own factors are zero or nearly so.
static const double LIMIT = sizeof(T) == 4 ? 85.0 : 706.0;

static ALWAYS I least(I a, I b) { return a < b ? a : b; }
static ALWAYS I greatest(I a, I b) { return a > b ? a : b; }
static inline I floor_div(I a, I b) { I q = a / b; return q - (a % b != 0 && (a < 0) != (b < 0)); }
static inline I ceil_div(I a, I b) { return -floor_div(-a, b); }

// e^x for x below 709, without branches, so that loops of it can be vectorised; 0 below -708.
static ALWAYS double exp_of(double x) {
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

// What a scale is worth beside a greatest one, and beside that of its cell.
static ALWAYS double worth(double e, double top) { return exp_of(e - (top < FLOOR ? FLOOR : top)); }
static ALWAYS T ratio(double e, double head) {
  const double x = e - head;
  return head > NEGATIVE ? T(exp_of(x > LIMIT ? LIMIT : x)) : T(0);
}
static ALWAYS void raise_to(double& top, double e) { top = e > top ? e : top; }
static inline double log_add(double a, double b) {
  const double top = a > b ? a : b;
  return top == NEGATIVE ? a + b : top + std::log1p(exp_of((a > b ? b : a) - top));
}

// ------------------------------------------------------------------------------- where numbers lie

// Whole numbers from the first to the last, for loops.
struct Span {
  I first, last;
  struct Place {
    I at;
    ALWAYS I operator*() const { return at; }
    ALWAYS void operator++() { ++at; }
    ALWAYS bool operator!=(Place other) const { return at != other.at; }
  };
  ALWAYS I n() const { return last < first ? 0 : last - first + 1; }
  ALWAYS Place begin() const { return {first}; }
  ALWAYS Place end() const { return {first + n()}; }
};

// Cells at R indices, the last of which is mostly that of the item: N numbers each, as a pointer to
// the first of them; or one number, as a reference, if N is 0.
template <class U, int R, I N> struct Cells {
  static constexpr I WIDTH = N ? N : 1;
  U* at = nullptr;
  I shift = 0, stride[R] = {};
  template <class... X> ALWAYS U* cell(X... x) const {
    static_assert(sizeof...(X) == R, "an index for each axis");
    I sum = -shift;
    int r = 0;
    ((sum += I(x) * (r + 1 < R ? stride[r] : WIDTH), ++r), ...);
    return at + sum;
  }
  static ALWAYS decltype(auto) numbers(U* cell) {
    if constexpr (N == 0) return (*cell); else return cell;
  }
  template <class... X> ALWAYS decltype(auto) operator()(X... x) const {
    return numbers(cell(x...));
  }
};

template <I N> ALWAYS void zero(T* cell) { for (I i = 0; i < N; ++i) cell[i] = 0; }
template <I N> ALWAYS void copy(T* to, const T* cell) { std::memcpy(to, cell, sizeof(T) * N); }

// Cells for intermediate results.
template <class U, int R, I N> struct Array : Cells<U, R, N> {
  I count = 0;
  void fill(U number) const { for (I i = 0; i < count; ++i) this->at[i] = number; }
};

// Room for intermediate results: given back as a whole, kept for the next step. Several blocks
// become one as soon as they are empty.
struct Room {
  struct Block { char* at; size_t size, used; Block* next; };
  Block* last = nullptr;
  size_t now = 0;
  I most = 0;
  Room() = default;
  Room(const Room&) = delete;
  ~Room() { clear(); }
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
    most = greatest(most, I(now));
  }
  template <class U> U* some(I count) {
    const size_t bytes = (sizeof(U) * size_t(greatest(count, 1)) + 63) & ~size_t(63);
    if (!last || last->used + bytes > last->size) add(bytes);
    last->used += bytes;
    return reinterpret_cast<U*>(last->at + last->used - bytes);
  }
  template <class U> U* zeros(I count) {
    return static_cast<U*>(std::memset(some<U>(count), 0, sizeof(U) * size_t(greatest(count, 1))));
  }
  // Cells for all values of some loops.
  template <class U, I N = 0, class... S> Array<U, int(sizeof...(S)), N> cells(S... spans) {
    const Span all[] = {spans...};
    Array<U, int(sizeof...(S)), N> array;
    array.count = array.WIDTH;
    for (int r = int(sizeof...(S)); r-- > 0; array.count *= all[r].n()) {
      array.stride[r] = array.count;
      array.shift += all[r].first * array.count;
    }
    array.at = some<U>(array.count);
    return array;
  }
};

// ------------------------------------------------------------------------ whether numbers are lost

// What tells whether numbers became too small, item by item, and how great the values of cells are.
// The room that is handed over has SETTINGS numbers, then for each item the least and the greatest
// of the greatest values of cells (rows for each number of charts in a product), whether a cell is
// zero, how far the terms of a sum are apart at most, and whether terms of the present sum are
// lost. Then comes the least positive value of each chart, and what holds for all items together:
// the ends of the greatest values of cells, 1 if some cell is zero, and the greatest gap.
static const I SETTINGS = 8;
struct Range {
  double* at = nullptr;
  I B = 0, depths = 0, charts = 0;
  double up = 1, gap = 0;
  // Of a lifted pass: what positive values are raised to, and what stands for lost terms.
  T floor = 0, rest = 0;
  bool lifted = false, watched = false;
  double *tops = nullptr, *most = nullptr, *dead = nullptr, *gaps = nullptr, *lost = nullptr;
  double* values = nullptr;
  void open(double* given, I items) {
    at = given, B = items, depths = I(at[0]), charts = I(at[6]);
    up = at[1], floor = T(at[2]), rest = T(at[3]), gap = at[4];
    lifted = at[2] > 0, watched = at[5] != 0;
    tops = at + SETTINGS, most = tops + depths * B, dead = most + depths * B;
    gaps = dead + B, lost = gaps + B, values = lost + B;
    for (I x = 0; x < depths * B; ++x) tops[x] = INFINITY;
    for (I c = 0; c < charts; ++c) values[c] = double(LARGEST);
  }
  // A range like another one, for another thread.
  void open_like(const Range& first, Room& kept) {
    const I rows = 2 * first.depths + 3;
    double* const own = kept.zeros<double>(SETTINGS + rows * first.B + first.charts);
    std::memcpy(own, first.at, sizeof(double) * SETTINGS);
    open(own, first.B);
  }
  // Take over what another thread found.
  void join(const Range& other) {
    for (I x = 0; x < depths * B; ++x) {
      if (other.tops[x] < tops[x]) tops[x] = other.tops[x];
      if (!(other.most[x] <= most[x])) most[x] = other.most[x];
    }
    for (I b = 0; b < B; ++b) {
      dead[b] += other.dead[b];
      if (other.gaps[b] < gaps[b]) gaps[b] = other.gaps[b];
    }
    for (I c = 0; c < charts; ++c) tell(c, other.values[c]);
  }
  // Sum up what was found, for all items together. Where nothing was computed, both ends are 1.
  void conclude() {
    double *to = values + charts, some = 0, gap = 0;
    for (I d = 0; d < depths; ++d) {
      double low = INFINITY, high = 0;
      for (I b = d * B; b < (d + 1) * B; ++b) {
        if (most[b] == 0) tops[b] = 1;
        if (!(most[b] >= tops[b])) most[b] = tops[b];
        low = tops[b] < low ? tops[b] : low;
        if (!(most[b] <= high)) high = most[b];
      }
      *to++ = low, *to++ = high;
    }
    for (I b = 0; b < B; ++b) some += dead[b] != 0, gap = gaps[b] < gap ? gaps[b] : gap;
    *to++ = some, *to++ = gap;
  }
  void begin() { if (lifted) std::memset(lost, 0, sizeof(double) * size_t(B)); }
  // The least positive value of a chart.
  void tell(I chart, double low) { if (low < values[chart] || low != low) values[chart] = low; }
  // The greatest value of a cell that was computed.
  ALWAYS void note(int depth, I b, T top, double scale) {
    double& low = tops[depth * B + b];
    double& high = most[depth * B + b];
    if (top == 0) dead[b] = dead[b] != 0 || scale != NEGATIVE;
    else if (!(double(top) >= low)) low = double(top);
    if (!(double(top) <= high)) high = double(top);
  }
  // A term that is not zero, `below` the greatest one.
  void term(I b, double below) {
    if (below < gaps[b]) gaps[b] = below;
    if (lifted && below < gap) lost[b] = 1;
  }
  T more(int depth, I b) const {
    if (!lifted || lost[b] == 0) return 0;
    return depth > 1 ? T(rest * std::pow(up, depth - 1)) : rest;
  }
  // The logarithm of a number that is a product of so many charts with states.
  double log(T value, double scale, int depth, I b) {
    value += more(depth, b);
    note(depth, b, value, scale);
    return std::log(double(value)) + scale;
  }
};

// ------------------------------------------------------------------------------ threads and passes

// What Python hands over, or null: the matrix product of BLAS; how torch starts threads, which one
// this is and how many there are; how to let others use Python, and whether the user wants to stop.
struct Host {
  void (*multiply)(const char*, const char*, const int*, const int*, const int*, const T*,
                   const T*, const int*, const T*, const int*, const T*, T*, const int*);
  void (*start)(void (*)(void*), void*, unsigned, unsigned);
  int (*place)();
  int (*count)();
  void* (*save)();
  void (*restore)(void*);
  int (*check)();
};
struct Stopped {};

// Threads that compute the same items, each of them some positions, and wait for each other.
struct Team { std::atomic<I> here{0}, turn{0}; };

// What all threads of a call have in common.
struct Crew {
  const I* numbers;
  void* const* pointers;
  const Host& host;
  std::atomic<bool> ended{false};
};

// A matrix whose rows and columns are at strides.
struct Matrix {
  const T* at;
  I row, column;
  T* out = nullptr;
  Matrix(const T* at, I row, I column) : at(at), row(row), column(column) {}
  Matrix(T* out, I row, I column) : at(out), row(row), column(column), out(out) {}
  bool has_lines() const { return row == 1 || column == 1; }
  Matrix turned() const {
    Matrix other(*this);
    other.row = column, other.column = row;
    return other;
  }
};

// One term of a cell: its values (null: there is none), their scale, and how many charts with
// states they are products of.
struct Part { const T* values; double scale; int depth; };

// One thread's part of a pass: some of the items, and if it has mates, some positions of them.
struct Pass {
  Crew& crew;
  const int thread;
  const I* numbers = crew.numbers;
  void* const* pointers = crew.pointers;
  const I B = *numbers++;
  const bool mixed = *numbers++ != 0;
  // How many threads there may be, and the multiply-adds that are worth one.
  const I threads = *numbers++, least_work = *numbers++;
  Span items{0, B - 1};
  I mate = 0, mates = 1;
  Team* team = nullptr;
  Room kept, room;
  Range range;
  // A pass counts the multiply-adds for one item before it starts.
  bool counting = true;
  double work = 0;
  // The gradients of parameters that this thread sums up by itself.
  struct Gradient { T *whole, *own; I count; };
  std::vector<Gradient> gradients;
  T* spare = nullptr;
  I spares = 0;
  double looked = 0;
  void* state = nullptr;

  Pass(Crew& crew, int thread) : crew(crew), thread(thread) {
    double* const told = static_cast<double*>(*pointers++);
    if (told && thread == 0) range.open(told, B);
  }
  virtual ~Pass() {}
  virtual void run() = 0;

  // Whether a step has anything to do in this thread, which then has its share of the positions.
  bool begin(double all) { return opens(all) && mate == 0; }
  // If mates meet within the step, all of them take part.
  bool begin(Span& positions, double each, bool meeting = false) {
    const I count = positions.n(), first = positions.first;
    if (!opens(each * double(count))) return false;
    positions = {first + count * mate / mates, first + count * (mate + 1) / mates - 1};
    return meeting || positions.n() > 0;
  }
  bool opens(double all) {
    if (counting) work += all;
    if (counting || !(all > 0)) return false;
    meet();
    room.reset();
    range.begin();
    return true;
  }
  // Wait for all mates.
  void meet() {
    if (mates == 1 || counting) return;
    const I turn = team->turn.load();
    if (team->here.fetch_add(1) + 1 == mates) {
      team->here.store(0);
      team->turn.store(turn + 1);
      return;
    }
    for (I rounds = 0; team->turn.load() == turn; ++rounds) {
      if (crew.ended.load()) throw Stopped();
      if (rounds > 4096) sched_yield();
    }
  }
  // Once in a while ask Python whether to stop.
  void look() {
    if (counting) return;
    if (crew.ended.load()) throw Stopped();
    if (thread || !state) return;
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    const double seconds = double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
    if (looked == 0) looked = seconds;
    if (seconds - looked < 0.1) return;
    looked = seconds;
    crew.host.restore(state);
    state = nullptr;
    if (crew.host.check()) throw Stopped();
    state = crew.host.save();
  }

  // C = A B, or added to C, where A has m rows and k columns and B has n columns.
  void matmul(I m, I n, I k, Matrix A, Matrix B, Matrix C, bool add = false) const {
    if (C.column != 1 && C.row == 1) {  // the transpose of C has its rows next to each other
      matmul(n, m, k, B.turned(), A.turned(), C.turned(), add);
      return;
    }
    const bool fits = C.column == 1 && A.has_lines() && B.has_lines();
    const I side = greatest(greatest(m, n), k);
    if (crew.host.multiply && fits && m > 0 && n > 0 && k > 0 && side < (1 << 30)) {
      // BLAS has columns next to each other, so it is told C' = B' A'.
      const char ta = A.column == 1 ? 'N' : 'T', tb = B.column == 1 ? 'N' : 'T';
      const int M = int(n), N = int(m), K = int(k);
      const int lda = int(B.column == 1 ? greatest(B.row, n) : greatest(B.column, k));
      const int ldb = int(A.column == 1 ? greatest(A.row, k) : greatest(A.column, m));
      const int ldc = int(greatest(C.row, n));
      const T one = 1, beta = add ? 1 : 0;
      crew.host.multiply(&tb, &ta, &M, &N, &K, &one, B.at, &lda, A.at, &ldb, &beta, C.out, &ldc);
      return;
    }
    for (I i = 0; i < m; ++i) {
      T* const c = C.out + i * C.row;
      if (!add) for (I j = 0; j < n; ++j) c[j * C.column] = 0;
      for (I p = 0; p < k; ++p) {
        const T a = A.at[i * A.row + p * A.column], *const b = B.at + p * B.row;
        LOOP for (I j = 0; j < n; ++j) c[j * C.column] += a * b[j * B.column];
      }
    }
  }
  // Cells one behind the other, for matrix products: where they lie, if they lie so, or a copy.
  // They lie at constant strides, and `cell` tells where.
  template <int R, I N, class F, class... S>
  T* rows(const Array<T, R, N>& packed, F cell, S... spans) {
    const Span all[] = {spans...};
    T* const first = cell(spans.first...);
    I width = N;
    bool behind = true;
    for (int r = R; r-- > 0; width *= all[r].n()) {
      int s = 0;
      auto moved = [&](const Span& span) { return span.first + (s++ == r); };
      const I index[] = {moved(spans)...};
      behind = behind && (all[r].n() < 2 || apply(cell, index) == first + width);
    }
    if (behind) return first;
    each([&](auto... x) { copy<N>(packed(x...), cell(x...)); }, spans...);
    return packed.at;
  }
  template <class F> static T* apply(F f, const I (&x)[1]) { return f(x[0]); }
  template <class F> static T* apply(F f, const I (&x)[2]) { return f(x[0], x[1]); }
  template <class F> static T* apply(F f, const I (&x)[3]) { return f(x[0], x[1], x[2]); }
  template <class F> static T* apply(F f, const I (&x)[4]) { return f(x[0], x[1], x[2], x[3]); }
  template <class F> static ALWAYS void each(F f) { f(); }
  template <class F, class... S> static ALWAYS void each(F f, Span span, S... spans) {
    for (I x : span) each([&](auto... y) { f(x, y...); }, spans...);
  }

  // What each of an item's `count` scales is worth beside the greatest.
  void weigh(I count, const double* e, const double* top, T* w) {
    const I n = items.n();
    if (range.watched)
      for (I q = 0; q < count; ++q)
        for (I b = 0; b < n; ++b)
          if (e[q * n + b] > NEGATIVE) range.term(items.first + b, e[q * n + b] - top[b]);
    if (n == 1) {
      const double most = *top;
      LOOP for (I q = 0; q < count; ++q) w[q] = T(worth(e[q], most));
      return;
    }
    for (I q = 0; q < count; ++q)
      LOOP for (I b = 0; b < n; ++b) w[q * n + b] = T(worth(e[q * n + b], top[b]));
  }
  // The logarithm of the sum of each item's `count` terms, from their scales, which are used up; it
  // takes the place of the greatest of them.
  void log_sum(I count, double* e, double* top) const {
    const I n = items.n();
    if (n == 1) {
      const double most = *top;
      double all = 0;
      SUM(all) for (I q = 0; q < count; ++q) all += worth(e[q], most);
      *top += std::log(all);
      return;
    }
    LOOP for (I b = 0; b < n; ++b) e[b] = worth(e[b], top[b]);
    for (I q = 1; q < count; ++q)
      LOOP for (I b = 0; b < n; ++b) e[b] += worth(e[q * n + b], top[b]);
    for (I b = 0; b < n; ++b) top[b] += std::log(e[b]);
  }

  // Write a cell: the greatest value becomes `up`, the rest of it goes into the scale. What is too
  // large to be a number makes the cell none.
  template <I N> void put(T* v, double& e, Part part, I b) {
    T top = 0;
    const T more = range.more(part.depth, b), *const values = part.values;
    int bad = part.scale != part.scale;
    GREATEST(top, bad) for (I i = 0; i < N; ++i) {
      top = values[i] > top ? values[i] : top;
      bad |= !(values[i] <= LARGEST);
    }
    top += more;
    if (bad && part.scale != NEGATIVE) {
      e = NAN;
      for (I i = 0; i < N; ++i) v[i] = NAN;
      return;
    }
    range.note(part.depth, b, top, part.scale);
    if (top == 0 || part.scale == NEGATIVE) {
      e = NEGATIVE;
      for (I i = 0; i < N; ++i) v[i] = 0;
      return;
    }
    e = std::log(double(top) / range.up) + part.scale;
    const T unit = T(double(top) / range.up);
    LOOP for (I i = 0; i < N; ++i) v[i] = (values[i] + more) / unit;
    if (range.lifted)
      for (I i = 0; i < N; ++i) v[i] = v[i] > 0 && v[i] < range.floor ? range.floor : v[i];
  }
  // Write the sum of several terms.
  template <I N> void put(T* v, double& e, std::initializer_list<Part> parts, I b) {
    double top = NEGATIVE;
    int depth = 0, count = 0;
    Part only{nullptr, NEGATIVE, 0};
    for (const Part& part : parts) {
      if (!part.values) continue;
      only = part;
      ++count;
      top = part.scale > top || part.scale != part.scale ? part.scale : top;
      depth = part.depth > depth ? part.depth : depth;
    }
    if (count == 1) put<N>(v, e, only, b);
    if (count < 2) return;
    if (spares < N) spare = kept.some<T>(spares = N);
    T* const sum = spare;
    for (I i = 0; i < N; ++i) sum[i] = 0;
    for (const Part& part : parts) {
      if (!part.values) continue;
      if (range.watched && part.scale > NEGATIVE) range.term(b, part.scale - top);
      const T share = T(worth(part.scale, top)), *const values = part.values;
      if (share != 0) LOOP for (I i = 0; i < N; ++i) sum[i] += values[i] * share;
    }
    put<N>(v, e, Part{sum, top, depth}, b);
  }

  // A cell of log-potentials as values and their scale; `lost` tells where one is too small.
  template <I N> void potential(T* v, double& e, const T* logs, I b) {
    T top = logs[0];
    for (I i = 1; i < N; ++i) top = logs[i] > top ? logs[i] : top;
    e = double(top);
    const bool live = top > -INFINITY;
    if (N == 1) v[0] = live ? T(1) : T(0);
    else for (I i = 0; i < N; ++i) {
      v[i] = std::exp(logs[i] - (live ? top : T(0)));
      if (v[i] < SMALLEST && logs[i] > -INFINITY) range.lost[b] = 1;
    }
  }
  // The least and the greatest entry of a leaf; infinite where one is no number.
  void ends(I leaf, const T* v, I count) {
    if (counting) return;
    T low = count ? v[0] : T(0), high = low;
    int bad = 0;
    RANGE(low, high, bad) for (I i = 0; i < count; ++i) {
      low = v[i] < low ? v[i] : low;
      high = v[i] > high ? v[i] : high;
      bad |= !(v[i] <= LARGEST);
    }
    range.values[2 * leaf] = double(low);
    range.values[2 * leaf + 1] = bad ? double(INFINITY) : double(high);
  }

  // Tell the least positive value of a chart with states and at most two indices.
  template <class C> void tell(I number, const C& chart) {
    meet();
    if (counting) return;
    // Positive numbers are in the order of their bits; 0 less 1 is the greatest of all.
    Bits low = ~Bits(0), high = 0;
    const I count = items.n() * chart.WIDTH;
    for (I r = mate; r < chart.size[0]; r += mates)
      for (I c = 0; c < chart.size[1]; ++c) {
        const T* const v = chart.cell_at(r, c) + items.first * chart.WIDTH;
        ENDS(low, high) for (I i = 0; i < count; ++i) {
          Bits x;
          std::memcpy(&x, v + i, sizeof(T));
          low = x - 1 < low ? x - 1 : low;
          high = x > high ? x : high;
        }
      }
    ++low;
    T smallest, largest;
    std::memcpy(&smallest, &low, sizeof(T));
    std::memcpy(&largest, &high, sizeof(T));
    const double positive = smallest > 0 ? double(smallest) : double(LARGEST);
    range.tell(number, largest <= LARGEST ? positive : NAN);
  }
};

// ------------------------------------------------------------------------------- tensors of a call

// A length of the items: the least, the greatest, and that of item b.
struct Length {
  const I* at;
  I least, most;
  explicit Length(Pass& pass) {
    at = static_cast<const I*>(*pass.pointers++), least = *pass.numbers++, most = *pass.numbers++;
  }
  ALWAYS I operator[](I b) const { return at[b]; }
};

// The cells of a tensor [indices, item], which begin at `first`. If no strides are given, they lie
// one behind the other.
template <class U, int R, I N, bool LOGS = false> struct Stored : Cells<U, R + 1, N> {
  I first[R + 1] = {}, size[R < 2 ? 2 : R], count = 0;
  void open(const Pass& pass, void* given, const I* sizes, const I* firsts, const I* strides) {
    this->at = static_cast<U*>(given);
    size[0] = size[1] = 1;
    I stride = pass.B * this->WIDTH;
    for (int r = R; r-- > 0; stride *= size[r]) {
      size[r] = sizes[r], first[r] = firsts[r];
      this->stride[r] = strides ? strides[r] : stride;
      this->shift += first[r] * this->stride[r];
    }
    count = stride;
  }
  // The cell of the first item, by places in storage.
  U* cell_at(I r, I c) const {
    return this->at + (R > 0 ? r * this->stride[0] : 0) + (R > 1 ? c * this->stride[R > 1] : 0);
  }
  template <class... X> bool has(X... x) const {
    bool in = true;
    int r = 0;
    ((in = in && (r == R || (I(x) >= first[r] && I(x) < first[r] + size[r])), ++r), ...);
    return in;
  }
  // Cells that there may not be: zero is read in their place, and what is written is lost.
  template <class... X> decltype(auto) find(X... x) const {
    static U zeros[Stored::WIDTH] = {LOGS ? U(NEGATIVE) : U(0)};
    return this->numbers(has(x...) ? this->cell(x...) : zeros);
  }
  template <class... X> decltype(auto) spot(X... x) const {
    thread_local static U nowhere[Stored::WIDTH];
    return this->numbers(has(x...) ? this->cell(x...) : nowhere);
  }
};

// A chart: its values, the scales of its cells, and the gradient of log Z in its values, relative
// to its scales. One without states (N = 0) is its scales.
template <int R, I N> struct Chart : Stored<T, R, N> {
  Stored<double, R, 0, true> scale;
  Stored<T, R, N> adjoint;
  template <class... F> explicit Chart(Pass& pass, F... firsts) {
    const I first[] = {I(firsts)..., 0}, *const sizes = pass.numbers;
    pass.numbers += 3 * R;
    this->open(pass, *pass.pointers++, sizes, first, sizes + R);
    scale.open(pass, *pass.pointers++, sizes, first, nullptr);
    adjoint.open(pass, *pass.pointers++, sizes, first, sizes + 2 * R);
  }
};

// A table over positions, made from parameters and inputs: its values, scales and gradient.
template <int R, I N> struct Table : Stored<T, R, N> {
  Stored<double, R, 0, true> scale;
  Stored<T, R, N> adjoint;
  explicit Table(Pass& pass) {
    const I first[R + 1] = {}, *const sizes = pass.numbers;
    pass.numbers += R;
    this->open(pass, *pass.pointers++, sizes, first, nullptr);
    scale.open(pass, *pass.pointers++, sizes, first, nullptr);
    adjoint.open(pass, *pass.pointers++, sizes, first, nullptr);
  }
};

// A parameter of N weights and its gradient; every thread but the first has a gradient of its own.
template <I N> struct Parameter {
  const T* at;
  T* adjoint;
  explicit Parameter(Pass& pass) {
    at = static_cast<const T*>(*pass.pointers++), adjoint = static_cast<T*>(*pass.pointers++);
    if (!adjoint || !pass.thread) return;
    pass.gradients.push_back({adjoint, pass.kept.zeros<T>(N), N});
    adjoint = pass.gradients.back().own;
  }
  ALWAYS operator const T*() const { return at; }
};

// An input table of whole numbers, [indices, item], for indices that are looked up.
template <int R> struct Lookup {
  const I* at;
  I size[R], B;
  explicit Lookup(Pass& pass) : at(static_cast<const I*>(*pass.pointers++)), B(pass.B) {
    for (I& extent : size) extent = *pass.numbers++;
  }
  template <class... X> I operator()(X... x) const {
    I place = 0, r = 0;
    bool in = true;
    auto move = [&](I index) {
      const I extent = r++ == R ? B : size[r - 1];
      in = in && index >= 0 && index < extent;
      place = place * extent + index;
    };
    (move(I(x)), ...);
    return in ? at[place] : OUTSIDE;
  }
};

// ------------------------------------------------------------------------ what precedes the charts

// The tokens of an input, [item, indices]: -2 is impossible.
template <int R> struct Tokens {
  const I* at;
  I size[R < 1 ? 1 : R];
  explicit Tokens(Pass& pass) : at(static_cast<const I*>(*pass.pointers++)) {
    for (int r = 0; r < R; ++r) size[r] = *pass.numbers++;
  }
  template <class... X> ALWAYS I operator()(X... x) const {
    const I index[] = {I(x)...};
    I place = index[R];
    for (int r = 0; r < R; ++r) place = place * size[r] + index[r];
    return at[place];
  }
  // Impossible where there is no such position.
  template <class... X> I find(X... x) const {
    const I index[] = {I(x)...};
    for (int r = 0; r < R; ++r) if (index[r] < 0 || index[r] >= size[r]) return -2;
    return (*this)(x...);
  }
};
// A token in a part of a union or a component of a product, or in another part; in a block.
static ALWAYS I part_of(I token, I offset, I size, I stride, I period) {
  const I inner = token / stride % period - offset;
  return token < 0 ? token : inner >= 0 && inner < size ? inner : -2;
}
static ALWAYS I block_of(I token, const int32_t* blocks) {
  return token < 0 ? token : blocks[token];
}

// Log-potentials, [item, indices], N in each place, and their gradient.
template <int R, I N> struct Logs {
  struct Places {
    T* at;
    I size[R < 1 ? 1 : R];
    template <class... X> ALWAYS T* operator()(X... x) const {
      const I index[] = {I(x)...};
      I place = index[R];
      for (int r = 0; r < R; ++r) place = place * size[r] + index[r];
      return at + place * N;
    }
    explicit operator bool() const { return at; }
  };
  Places values, adjoint;
  explicit Logs(Pass& pass) {
    values.at = static_cast<T*>(*pass.pointers++), adjoint.at = static_cast<T*>(*pass.pointers++);
    for (int r = 0; r < R; ++r) values.size[r] = adjoint.size[r] = *pass.numbers++;
  }
  template <class... X> ALWAYS const T* operator()(X... x) const { return values(x...); }
};

// A parameter that is made from others, and its gradient.
template <I N> struct Made {
  T *at, *adjoint;
  explicit Made(Pass& pass) {
    at = static_cast<T*>(*pass.pointers++), adjoint = static_cast<T*>(*pass.pointers++);
  }
};

// ---------------------------------------------------------------------------------- a call itself

// The threads of a call: as many as are worth it. Each has some of the items; if there are fewer
// items than threads, and steps can share positions, all have some positions of every item.
struct Call {
  Crew& crew;
  Pass* (*make)(Crew&, int);
  std::vector<std::unique_ptr<Pass>> passes{};
  std::unique_ptr<Team[]> teams{};
  I threads = 1, mates = 1;
  std::atomic<bool> no_memory{false};

  static void start(void* call) {
    Call& own = *static_cast<Call*>(call);
    const I here = own.crew.host.place();
    if (own.crew.host.count() >= own.threads) own.work(here, own.threads, own.mates);
    else if (here == 0) own.work(0, 1, 1);  // there are not so many threads
  }
  void work(I here, I count, I team) {
    try {
      if (here) passes[here].reset(make(crew, int(here)));
      Pass& pass = *passes[here];
      pass.counting = false;
      const I parts = count / team, part = here / team;
      pass.items = {pass.B * part / parts, pass.B * (part + 1) / parts - 1};
      pass.team = &teams[part];
      pass.mate = here % team, pass.mates = team;
      if (here && passes[0]->range.at) pass.range.open_like(passes[0]->range, pass.kept);
      pass.run();
    } catch (const std::bad_alloc&) {
      no_memory = crew.ended = true;
    } catch (const Stopped&) {
      crew.ended = true;
    }
  }
  I run(bool shares) {
    passes.emplace_back(make(crew, 0));
    Pass& first = *passes[0];
    first.run();
    const double worth = first.work * double(first.B) / double(first.least_work);
    threads = crew.host.start ? first.threads : 1;
    if (worth < double(threads)) threads = greatest(I(worth), 1);
    if (shares && first.B < threads) mates = threads;
    if (mates == 1) threads = greatest(least(threads, first.B), 1);
    passes.resize(size_t(threads));
    teams.reset(new Team[size_t(threads)]);
    if (crew.host.save) first.state = crew.host.save();
    if (threads > 1) crew.host.start(start, this, unsigned(threads), 0); else work(0, 1, 1);
    if (first.state) crew.host.restore(first.state);
    if (crew.ended) return no_memory ? -1 : -2;
    I bytes = 0;
    for (I t = 0; t < threads && passes[t]; ++t) {
      Pass& pass = *passes[t];
      bytes += pass.kept.most + pass.room.most;
      for (const auto& gradient : pass.gradients)
        LOOP for (I i = 0; i < gradient.count; ++i) gradient.whole[i] += gradient.own[i];
      if (t && first.range.at) first.range.join(pass.range);
    }
    if (first.range.at) first.range.conclude();
    return bytes;
  }
};

// Run a pass: the bytes that intermediate results took; -1: not enough memory; -2: stopped.
template <class P> I call(const I* numbers, void* const* pointers, const Host* host) {
  Crew crew{numbers, pointers, *host};
  try {
    auto make = [](Crew& own, int thread) -> Pass* { return new P(own, thread); };
    return Call{crew, make}.run(P::SHARED);
  } catch (const std::bad_alloc&) {
    return -1;
  }
}
