"""The result of `identify`: a rank, a verdict, and why parameters are not determined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from fgg.runtime.identify.curves import Floats, Move
from fgg.runtime.identify.float_check import Direction, SecondOpinion
from fgg.runtime.identify.gauges import Gauge
from fgg.runtime.identify.prepared_case import Question

SHOWN = 3
ENTRIES = 6


def written(lengths: Mapping[str, int]) -> str:
    """Lengths as text."""
    return ", ".join(f"{name} = {value}" for name, value in lengths.items())


@dataclass(frozen=True, kw_only=True, eq=False)
class Identification:
    """Whether the moments of strings determine the parameters, up to finitely many choices.

    `verdict` is `yes` (the Jacobian has full rank at a random point, so almost everywhere), `no`,
    or `undefined` (strings are too short for these moments; then there is no rank). `error` bounds
    the probability that a `no` is wrong; a `yes` is a proof. `deficiency` is the dimension of the
    set of parameters that have the same moments.
    """

    grammar: str
    query: str | None
    lengths: tuple[Mapping[str, int], ...]
    """The lengths of the strings; several if their moments are known jointly."""
    sizes: Mapping[str, int]
    observed: str
    parameters: int
    moments: int
    rank: int | None
    verdict: str
    error: float = 0.0
    primes: tuple[int, ...] = ()
    """The primes modulo which the rank was computed: one for a `yes`, two for a `no`."""
    second: SecondOpinion | None = None
    undetermined: tuple[str, ...] = ()
    """The factors that null directions move; the others are determined all the same."""
    directions: tuple[Direction, ...] = ()
    point: Mapping[str, Floats] = field(default_factory=dict, repr=False)
    """The weights of the point at which the directions are null."""
    moves: tuple[Move | None, ...] = ()
    """For the first directions, where they lead: another point with the same moments."""
    deficiency_of_all: int | None = None
    """The deficiency from whole strings of this length, where the verdict is `no`."""
    gauges: tuple[Gauge, ...] = ()
    question: Question | None = field(default=None, repr=False)
    """What was asked, with all that is needed to go on from there."""

    @property
    def prime(self) -> int | None:
        """The first of the primes."""
        return self.primes[0] if self.primes else None

    @property
    def deficiency(self) -> int | None:
        """The number of parameters that are not determined."""
        return None if self.rank is None else self.parameters - self.rank

    @property
    def agree(self) -> bool | None:
        """Whether the two rank tests agree; None if float64 was not used or is uncertain."""
        if self.second is None or self.second.verdict == "uncertain":
            return None
        return self.second.rank == self.rank

    def __repr__(self) -> str:
        rank = "" if self.rank is None else f", rank {self.rank} of {self.parameters}"
        return f"Identification({self.grammar!r}, {self.observed!r}: {self.verdict}{rank})"

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_markdown_(self) -> str:
        """The verdict and the numbers behind it, for notebooks."""
        title, *rest = self.lines()
        return "\n".join([f"**{title}**", "", "```", *rest, "```"])

    def as_json(self) -> dict[str, object]:
        """The result as a JSON object."""
        opinion = self.second
        float64 = None if opinion is None else opinion.as_json()
        return {
            "ok": True,
            "name": self.grammar,
            "query": self.query,
            "lengths": [dict(lengths) for lengths in self.lengths],
            "sizes": dict(self.sizes),
            "observed": self.observed,
            "rank": self.rank,
            "parameters": self.parameters,
            "moments": self.moments,
            "deficiency": self.deficiency,
            "verdict": self.verdict,
            "error": self.error,
            "primes": list(self.primes),
            "float64": float64,
            "agree": self.agree,
            "undetermined": list(self.undetermined),
            "directions": [
                {name: array.tolist() for name, array in item.moves.items()}
                for item in self.directions
            ],
            "point": {name: array.tolist() for name, array in self.point.items()},
            "moves": [None if move is None else move.as_json() for move in self.moves],
            "deficiency_of_all": self.deficiency_of_all,
            "gauges": [{"domain": g.domain, "dimension": g.dimension} for g in self.gauges],
        }

    def lines(self) -> list[str]:
        """The result as text."""
        where = " and ".join(map(written, self.lengths))
        lines = [f"{self.grammar}: {self.meaning()}"]
        lines.append(f"  moments {self.observed} of strings with {where}: {self.moments:,}")
        if self.rank is None:
            lines.append(f"  parameters {self.parameters:,}; these moments are not defined")
            return lines
        lines.append(
            f"  parameters {self.parameters:,}, rank {self.rank:,}, deficiency {self.deficiency:,}"
        )
        if self.verdict == "yes":
            where = "these weights" if self.at_weights else "a random point"
            lines.append(f"  exact: full rank at {where} modulo {self.prime}, a proof")
        else:
            primes = " and ".join(map(str, self.primes))
            bound = f"wrong with probability at most {self.error:.1g}"
            where = "these weights" if self.at_weights else "random points"
            lines.append(f"  exact: at {where} modulo {primes}; {bound}")
        lines += self._second()
        if self.verdict == "no":
            lines += self._null()
        return lines

    def meaning(self) -> str:
        """The verdict in words."""
        if self.at_weights:
            first_order = "not identifiable at these weights, to first order"
            return {"yes": "identifiable (locally, at these weights)", "no": first_order}[
                self.verdict
            ]
        return {
            "yes": "identifiable (locally, almost everywhere)",
            "no": "not identifiable",
            "undefined": "undefined",
        }[self.verdict]

    @property
    def at_weights(self) -> bool:
        """Whether the question is about given weights alone."""
        return self.question is not None and self.question.parameters.given is not None

    def _second(self) -> list[str]:
        second = self.second
        if second is None:
            return []
        rows = f"{second.rows:,} {'functionals' if second.sampled else 'moments'}"
        lines = [f"  float64: rank {second.rank:,}, gap {second.gap:.1e} ({rows})"]
        if second.verdict == "uncertain":
            lines[-1] += ": uncertain"
        if second.rank != self.rank:
            sure = "a proof" if self.verdict == "yes" else "wrong almost never"
            lines.append(f"  the two disagree: believe the exact rank, it is {sure}")
        return lines

    def _null(self) -> list[str]:
        lines = []
        if self.deficiency_of_all is not None:
            if self.deficiency_of_all == self.deficiency:
                lines.append("  whole strings of this length tell no more than these moments")
            elif self.deficiency_of_all == 0:
                lines.append("  whole strings of this length determine all parameters")
            else:
                lines.append(f"  from whole strings the deficiency is {self.deficiency_of_all:,}")
        for gauge in self.gauges:
            lines.append(
                f"  {gauge.dimension:,} of the deficiency are a gauge: a change of basis of "
                f"`{gauge.domain}` that no string notices"
            )
        if self.undetermined:
            names = ", ".join(f"`{name}`" for name in self.undetermined)
            lines.append(f"  not determined: {names}")
        for number, item in enumerate(self.directions[:SHOWN], 1):
            names = " and ".join(f"`{name}`" for name in item.moves)
            together = " together" if len(item.moves) > 1 else ""
            lines.append(f"  direction {number}: move {names}{together} along")
            entries = item.largest(ENTRIES)
            text = ", ".join(
                f"{name}[{', '.join(map(str, index))}] {change:+.3g}"
                for name, index, change in entries
            )
            count = sum(int((array != 0).sum()) for array in item.moves.values())
            more = f", … ({count:,} entries)" if count > len(entries) else ""
            lines.append(f"    {text}{more}")
            move = self.moves[number - 1] if number <= len(self.moves) else None
            if move is not None:
                lines.append(
                    f"    followed until an entry has changed by {move.distance:.2g}: all moments "
                    f"stay the same within {move.difference:.0e}"
                )
        if len(self.directions) > SHOWN:
            lines.append(f"  and {len(self.directions) - SHOWN:,} more directions")
        return lines
