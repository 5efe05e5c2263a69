"""Cases of `learning.json`'s form, made up and worked out by enumerating trees in plain Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import exp, fsum, inf, lgamma, log
from typing import Any

Rule = tuple[str, list[str]]
Counts = list[float]


def trees(rules: Sequence[Rule], symbol: str, words: Sequence[str]) -> Iterator[Counts]:
    """How often each rule is used in each tree of some words."""
    for number, (head, body) in enumerate(rules):
        counts = [float(i == number) for i in range(len(rules))]
        if head != symbol:
            continue
        if len(body) == 1 and list(words) == body:
            yield counts
        if len(body) == 2:
            for cut in range(1, len(words)):
                for left in trees(rules, body[0], words[:cut]):
                    for right in trees(rules, body[1], words[cut:]):
                        yield [sum(x) for x in zip(counts, left, right, strict=True)]


def digamma(x: float) -> float:
    """ψ(x), from the recurrence and its asymptotic series."""
    value = 0.0
    while x < 12:
        value -= 1 / x
        x += 1
    y = 1 / (x * x)
    series = y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y * (1 / 240 - y / 132))))
    return value + log(x) - 0.5 / x - series


def expected(derivations: Sequence[Counts], logs: Sequence[float]) -> tuple[float, Counts]:
    """log Z and expected counts, by adding up all derivations."""
    scores = [fsum(n * w for n, w in zip(t, logs, strict=True) if n) for t in derivations]
    top = max(scores)
    weights = [exp(score - top) for score in scores]
    z = fsum(weights)
    columns = zip(*derivations, strict=True)
    counts = [fsum(w * n for w, n in zip(weights, column, strict=True)) / z for column in columns]
    return top + log(z), counts


class Brute:
    """The numbers of EM, VB and CVB for a PCFG in Chomsky normal form."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.rules: list[Rule] = [(head, body) for head, body in data["rules"]]
        self.alpha: Counts = data["alpha"]
        self.theta: Counts = data["theta0"]
        start = data["nonterminals"][0]
        self.trees = [list(trees(self.rules, start, s)) for s in data["corpus"]]

    def sums(self, values: Sequence[float]) -> Counts:
        """The sum over the rules of its left-hand side, for each rule."""
        heads = [head for head, _ in self.rules]
        return [fsum(v for v, h in zip(values, heads, strict=True) if h == lhs) for lhs in heads]

    def once(self, values: Sequence[float], function: Callable[[float], float]) -> float:
        """A function of the sum of each left-hand side, added up over left-hand sides."""
        sums = dict(zip((head for head, _ in self.rules), self.sums(values), strict=True))
        return fsum(map(function, sums.values()))

    def e_step(self, logs: Sequence[float]) -> tuple[float, Counts]:
        """The log-likelihood of the corpus, and its counts."""
        each = [expected(item, logs) for item in self.trees]
        columns = zip(*(counts for _, counts in each), strict=True)
        return fsum(z for z, _ in each), [fsum(column) for column in columns]

    def em(self, iterations: int) -> list[dict[str, Any]]:
        """θ = f / Σ f, kept where there are no counts."""
        theta, sweeps = list(self.theta), []
        for _ in range(iterations):
            log_z, counts = self.e_step(_logs(theta))
            sweeps.append({"theta": theta, "loglik": log_z, "counts": counts})
            sums = self.sums(counts)
            theta = [f / s if s else t for f, s, t in zip(counts, sums, theta, strict=True)]
        return sweeps

    def vb(self, iterations: int) -> list[dict[str, Any]]:
        """θ̃ = exp(ψ(f + α) - ψ(Σ (f + α)))."""
        _, counts = self.e_step(_logs(self.theta))
        sweeps = []
        for _ in range(iterations):
            posterior = [f + a for f, a in zip(counts, self.alpha, strict=True)]
            logs = [
                digamma(x) - digamma(s)
                for x, s in zip(posterior, self.sums(posterior), strict=True)
            ]
            kl = self.once(posterior, lgamma) - self.once(self.alpha, lgamma)
            kl += fsum(
                f * w + lgamma(a) - lgamma(x)
                for f, w, a, x in zip(counts, logs, self.alpha, posterior, strict=True)
            )
            log_z, after = self.e_step(logs)
            sweeps.append(
                {
                    "counts_in": counts,
                    "log_theta_tilde": logs,
                    "sum_log_Z": log_z,
                    "kl": kl,
                    "neg_free_energy": log_z - kl,
                    "counts": after,
                }
            )
            counts = after
        return sweeps

    def cvb(self, sweeps: int) -> list[dict[str, Any]]:
        """f -= f_i; θ = (f + α) / Σ (f + α); f_i anew; f += f_i."""
        local = [expected(item, _logs(self.theta))[1] for item in self.trees]
        iterations: list[dict[str, Any]] = [
            {"sweep": 0, "counts": _added(local), "local": list(local)},
        ]
        for sweep in range(1, sweeps + 1):
            total_z = entropy = 0.0
            for i, item in enumerate(self.trees):
                rest = (
                    _added(local[:i] + local[i + 1 :])
                    if len(local) > 1
                    else [0.0] * len(self.alpha)
                )
                means = [f + a for f, a in zip(rest, self.alpha, strict=True)]
                logs = [log(m / s) for m, s in zip(means, self.sums(means), strict=True)]
                log_z, local[i] = expected(item, logs)
                total_z += log_z
                entropy += log_z - fsum(f * w for f, w in zip(local[i], logs, strict=True))
            counts = _added(local)
            both = [f + a for f, a in zip(counts, self.alpha, strict=True)]
            bound = fsum(map(lgamma, both)) - self.once(both, lgamma)
            bound -= fsum(map(lgamma, self.alpha)) - self.once(self.alpha, lgamma)
            iterations.append(
                {
                    "sweep": sweep,
                    "counts": counts,
                    "local": list(local),
                    "sum_log_Z": total_z,
                    "entropy": entropy,
                    "neg_free_energy_0": bound + entropy,
                }
            )
        return iterations


def _added(tables: Sequence[Counts]) -> Counts:
    return [fsum(column) for column in zip(*tables, strict=True)]


def _logs(theta: Sequence[float]) -> Counts:
    return [log(t) if t else -inf for t in theta]


def worked_out(data: dict[str, Any], iterations: int = 6) -> dict[str, Any]:
    """A case with the numbers of EM, VB and CVB."""
    brute = Brute(data)
    return {
        **data,
        "em": brute.em(iterations),
        "vb": brute.vb(iterations),
        "cvb": brute.cvb(iterations),
    }


MADE_UP: list[dict[str, Any]] = [
    {
        "name": "priors of their own, a symbol that is never used",
        "nonterminals": ["S", "N", "V", "Q"],
        "rules": [
            *(["S", ["N", "V"]], ["S", ["S", "N"]], ["N", ["N", "N"]], ["N", ["x"]], ["N", ["y"]]),
            *(
                ["V", ["V", "N"]],
                ["V", ["y"]],
                ["V", ["z"]],
                ["V", ["Q", "Q"]],
                ["Q", ["p"]],
                ["Q", ["q"]],
            ),
        ],
        "corpus": [["x", "y"], ["x", "y", "z", "x"], ["y", "y", "x"], ["x", "z", "y", "y", "x"]],
        "alpha": [0.5, 2.0, 0.01, 1.0, 0.3, 0.1, 5.0, 0.7, 0.4, 1.5, 0.2],
        "theta0": [0.7, 0.3, 0.2, 0.5, 0.3, 0.4, 0.35, 0.15, 0.1, 0.9, 0.1],
    },
    {
        "name": "one sentence, very sparse",
        "nonterminals": ["S", "A"],
        "rules": [
            ["S", ["S", "A"]],
            ["S", ["A", "S"]],
            ["S", ["a"]],
            ["A", ["A", "A"]],
            ["A", ["a"]],
        ],
        "corpus": [["a", "a", "a", "a"]],
        "alpha": [1e-5] * 5,
        "theta0": [0.3, 0.5, 0.2, 0.45, 0.55],
    },
    {
        "name": "sentences that come again, a rule of weight 0",
        "nonterminals": ["S", "T"],
        "rules": [
            *(["S", ["S", "S"]], ["S", ["T", "S"]], ["S", ["u"]], ["S", ["v"]]),
            *(["T", ["S", "T"]], ["T", ["u"]], ["T", ["v"]]),
        ],
        "corpus": [["u", "v"], ["u", "v"], ["v"], ["u", "u", "v", "u"], ["u", "v"]],
        "alpha": [0.2, 0.2, 0.2, 0.2, 3.0, 3.0, 3.0],
        "theta0": [0.4, 0.3, 0.2, 0.1, 0.0, 0.6, 0.4],
    },
]
