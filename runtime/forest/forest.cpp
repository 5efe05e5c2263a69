// Inside values, expected counts and draws over derivation forests, one item at a time.
//
// A node is a sum over alternatives; an alternative is a product of a coefficient, of weights
// (its slots) and of nodes below it. Nodes are in order, children first; the last one is the root.
// Numbers are a mantissa in [1/2, 1) times a power of two, so nothing under- or overflows.

#include <cmath>
#include <cstdint>
#include <vector>

namespace {

struct Wide {
  double m = 0;   // 0, or in [1/2, 1)
  int64_t e = 0;  // the power of two
};

Wide wide(double x) {
  int e = 0;
  const double m = std::frexp(x, &e);
  return {m, e};
}

double log_of(const Wide& x) { return std::log(x.m) + double(x.e) * 0.69314718055994530942; }

// x / y as a plain number; y is not 0.
double ratio(const Wide& x, const Wide& y) {
  const int64_t e = x.e - y.e;
  if (x.m == 0 || e < -1100) return 0;
  return std::ldexp(x.m / y.m, int(e));
}

uint64_t next_bits(uint64_t& state) {  // splitmix64
  uint64_t z = (state += 0x9e3779b97f4a7c15ULL);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
  return z ^ (z >> 31);
}

double uniform(uint64_t& state) { return double(next_bits(state) >> 11) * 0x1p-53; }

}  // namespace

extern "C" {

// Lists of lists are flat, with the place of each list's first element beside them.
struct Forest {
  int64_t nodes, alternatives, slots;
  const int32_t* node_first;   // [nodes + 1] -> alternatives
  const int32_t* child_first;  // [alternatives + 1] -> children
  const int32_t* child;
  const int32_t* use_first;  // [alternatives + 1] -> uses of slots
  const int32_t* use;
  const double* mantissa;   // [alternatives], of coefficients
  const int64_t* exponent;  // [alternatives]
  const int64_t* base;      // [slots]: an entry of the flat weights
  const int32_t* term_first;  // [slots + 1] -> terms
  const int32_t* token;       // [terms]: a place among the item's tokens
  const int64_t* stride;      // [terms]
};

// Weights of entries. Learned ones, the first `size`, are (f + α) / Σ (f + α), or given.
struct Weights {
  int64_t size;
  double* counts;             // f, [size]
  const double* alpha;        // [size]
  const int32_t* group;       // the distribution of each entry, [size]
  double* totals;             // Σ (f + α), [distributions]
  const double* mantissa;     // [size + constants]
  const int64_t* exponent;    // [size + constants]
  int64_t given;              // whether learned weights are the given ones, too
};

}  // extern "C"

namespace {

double mean(const Weights& w, int64_t entry) {
  return w.alpha[entry] > 0 ? (w.counts[entry] + w.alpha[entry]) / w.totals[w.group[entry]] : 0;
}

Wide weight(const Weights& w, int64_t entry) {
  if (entry < w.size && !w.given) return wide(mean(w, entry));
  return {w.mantissa[entry], w.exponent[entry]};
}

struct Pass {
  std::vector<int64_t> entry;  // of each slot; -1: none
  std::vector<Wide> slot, alternative, node;
  std::vector<double> use;  // how often each node, and then each slot, is used
  std::vector<double> count;
  std::vector<int32_t> agenda;
};

Pass& scratch() {
  thread_local Pass pass;
  return pass;
}

void read_slots(const Forest& f, const int64_t* tokens, const Weights& w, Pass& p) {
  p.entry.resize(f.slots);
  p.slot.resize(f.slots);
  for (int64_t s = 0; s < f.slots; ++s) {
    int64_t entry = f.base[s];
    bool live = true;  // a token that is impossible has no entries
    for (int32_t i = f.term_first[s]; i < f.term_first[s + 1]; ++i) {
      const int64_t t = tokens[f.token[i]];
      live = live && t >= 0;
      entry += f.stride[i] * t;
    }
    p.entry[s] = live ? entry : -1;
    p.slot[s] = live ? weight(w, entry) : Wide{};
  }
}

// The inside value of every node [CVB §2.1]; returns that of the root.
Wide inside(const Forest& f, Pass& p) {
  p.alternative.resize(f.alternatives);
  p.node.resize(f.nodes);
  for (int64_t n = 0; n < f.nodes; ++n) {
    Wide sum;
    for (int32_t a = f.node_first[n]; a < f.node_first[n + 1]; ++a) {
      double m = f.mantissa[a];
      int64_t e = f.exponent[a];
      int factors = 0;
      auto multiply = [&](const Wide& x) {
        m *= x.m;
        e += x.e;
        if (++factors % 64 == 0 && m != 0) {
          int shift = 0;
          m = std::frexp(m, &shift);
          e += shift;
        }
      };
      for (int32_t i = f.use_first[a]; i < f.use_first[a + 1]; ++i) multiply(p.slot[f.use[i]]);
      for (int32_t i = f.child_first[a]; i < f.child_first[a + 1]; ++i)
        multiply(p.node[f.child[i]]);
      p.alternative[a] = {m, e};
      if (m == 0) continue;
      if (sum.m == 0) {
        sum = {m, e};
      } else if (e <= sum.e) {
        sum.m += e - sum.e < -1100 ? 0 : std::ldexp(m, int(e - sum.e));
      } else {
        sum.m = m + (sum.e - e < -1100 ? 0 : std::ldexp(sum.m, int(sum.e - e)));
        sum.e = e;
      }
    }
    if (sum.m != 0) {
      int shift = 0;
      sum.m = std::frexp(sum.m, &shift);
      sum.e += shift;
    }
    p.node[n] = sum;
  }
  return p.node[f.nodes - 1];
}

// How often derivations use each slot: on average, or in one that is drawn.
void expect(const Forest& f, Pass& p) {
  p.use.assign(f.nodes, 0);
  p.count.assign(f.slots, 0);
  p.use[f.nodes - 1] = 1;
  for (int64_t n = f.nodes - 1; n >= 0; --n) {
    if (p.use[n] == 0) continue;
    for (int32_t a = f.node_first[n]; a < f.node_first[n + 1]; ++a) {
      const double share = p.use[n] * ratio(p.alternative[a], p.node[n]);
      if (share == 0) continue;
      for (int32_t i = f.use_first[a]; i < f.use_first[a + 1]; ++i) p.count[f.use[i]] += share;
      for (int32_t i = f.child_first[a]; i < f.child_first[a + 1]; ++i) p.use[f.child[i]] += share;
    }
  }
}

void draw(const Forest& f, Pass& p, uint64_t& random) {
  p.count.assign(f.slots, 0);
  p.agenda.assign(1, int32_t(f.nodes - 1));
  while (!p.agenda.empty()) {
    const int32_t n = p.agenda.back();
    p.agenda.pop_back();
    double left = uniform(random);
    int32_t chosen = -1;
    for (int32_t a = f.node_first[n]; a < f.node_first[n + 1]; ++a) {
      if (p.alternative[a].m == 0) continue;
      chosen = a;
      left -= ratio(p.alternative[a], p.node[n]);
      if (left < 0) break;
    }
    for (int32_t i = f.use_first[chosen]; i < f.use_first[chosen + 1]; ++i) p.count[f.use[i]] += 1;
    for (int32_t i = f.child_first[chosen]; i < f.child_first[chosen + 1]; ++i)
      p.agenda.push_back(f.child[i]);
  }
}

// The counts of slots as counts of learned entries, each once. Returns how many there are.
int64_t gather(const Forest& f, const Weights& w, const Pass& p, int64_t* index, double* value) {
  thread_local std::vector<int64_t> place;  // 1 + where an entry stands, or 0
  if (int64_t(place.size()) < w.size) place.resize(w.size, 0);
  int64_t number = 0;
  for (int64_t s = 0; s < f.slots; ++s) {
    const int64_t entry = p.entry[s];
    if (p.count[s] == 0 || entry < 0 || entry >= w.size) continue;
    if (place[entry] == 0) {
      index[number] = entry;
      value[number] = 0;
      place[entry] = ++number;
    }
    value[place[entry] - 1] += p.count[s];
  }
  for (int64_t i = 0; i < number; ++i) place[index[i]] = 0;
  return number;
}

double log_weights(const Weights& w, const int64_t* index, const double* value, int64_t number) {
  double sum = 0;
  for (int64_t i = 0; i < number; ++i) sum += value[i] * log_of(weight(w, index[i]));
  return sum;
}

// log Π B(f + f(t) + α) / B(f + α), for the counts f(t) of one derivation [CVB eq. 5].
double log_target(const Weights& w, const int64_t* index, const double* value, int64_t number) {
  thread_local std::vector<std::pair<int32_t, double>> used;
  used.clear();
  double sum = 0;
  for (int64_t i = 0; i < number; ++i) {
    const double base = w.counts[index[i]] + w.alpha[index[i]];
    for (double j = 0; j < value[i]; ++j) sum += std::log(base + j);
    const int32_t group = w.group[index[i]];
    std::size_t at = 0;
    while (at < used.size() && used[at].first != group) ++at;
    if (at == used.size()) used.push_back({group, 0});
    for (double j = 0; j < value[i]; ++j) sum -= std::log(w.totals[group] + used[at].second++);
  }
  return sum;
}

}  // namespace

extern "C" {

// Subtract counts (the sign is -1) or add them; no count falls below 0.
void add(const Weights* w, const int64_t* index, const double* value, int64_t number, double sign) {
  for (int64_t i = 0; i < number; ++i) {
    const double before = w->counts[index[i]];
    const double after = std::fmax(before + sign * value[i], 0.0);
    w->counts[index[i]] = after;
    w->totals[w->group[index[i]]] += after - before;
  }
}

// Counts of an item's derivations: `random` draws one; without it, they are expected counts.
// Returns how many there are, or -1 if there is no derivation; `result` is log Z and Σ f log θ.
int64_t count(const Forest* f, const int64_t* tokens, const Weights* w, uint64_t* random,
              int64_t* index, double* value, double* result) {
  Pass& p = scratch();
  read_slots(*f, tokens, *w, p);
  const Wide z = inside(*f, p);
  result[0] = z.m == 0 ? -INFINITY : log_of(z);
  result[1] = 0;
  if (z.m == 0) return -1;
  if (random) {
    draw(*f, p, *random);
  } else {
    expect(*f, p);
  }
  const int64_t number = gather(*f, *w, p, index, value);
  result[1] = log_weights(*w, index, value, number);
  return number;
}

// Adds the expected counts of items to those of `w`; `log_z` is that of each item.
void count_all(const Forest* const* forests, const int64_t* const* tokens, int64_t items,
               const Weights* w, double* log_z) {
  Pass& p = scratch();
  for (int64_t i = 0; i < items; ++i) {
    const Forest& f = *forests[i];
    read_slots(f, tokens[i], *w, p);
    const Wide z = inside(f, p);
    log_z[i] = z.m == 0 ? -INFINITY : log_of(z);
    if (z.m == 0) continue;
    expect(f, p);
    for (int64_t s = 0; s < f.slots; ++s) {
      const int64_t entry = p.entry[s];
      if (entry >= 0 && entry < w->size) w->counts[entry] += p.count[s];
    }
  }
}

// log of target over proposal for the counts of one derivation: log r(t) of Hastings' method.
double log_ratio(const Weights* w, const int64_t* index, const double* value, int64_t number) {
  return log_target(*w, index, value, number) - log_weights(*w, index, value, number);
}

}  // extern "C"
