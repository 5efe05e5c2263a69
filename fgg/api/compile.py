"""Compile: from a grammar and a query to a program. Joins the compiler to the runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

from fgg.diagnostics import Diagnostic, GrammarError, did_you_mean, refuse, warn
from fgg.grammar import Grammar, Rule
from fgg.grammar.domains import with_domain_size, with_sizes
from fgg.grammar.provenance import traced
from fgg.plan.backend import AUTO, TRITON, Backend, check_backend
from fgg.rewrite.conjoin import conjoin

if TYPE_CHECKING:
    from fgg.compiler.cost.choose import SpaceChoice
    from fgg.plan import Plan
    from fgg.plan.cpp_source import Native
    from fgg.plan.description import PlanDescription
    from fgg.plan.spaces import SpaceWork
    from fgg.runtime.program.program import CompiledProgram, Program


def compile(
    grammar: Grammar,
    query: str | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
    space: str = "auto",
    length: int = 32,
    batch: int = 16,
    fallback: bool = True,
    backend: str = AUTO,
    cuda_graph: bool = False,
) -> Program:
    """The program of a grammar joined with a query (the only one, if none is named).

    `space` decides how the program computes with factors of declared rank: `dense` multiplies them
    out, `state` uses their pieces, `rank` also sums the states out beforehand (and raises
    GrammarError if that is impossible). `auto` takes the cheapest space, and answers questions that
    this space cannot answer in another one. For log Z it chooses anew for each batch, by the
    number of its items and their lengths.

    `length` and `batch` are what the cost model expects; any lengths and batches can be given to
    the program. A grammar that has no schedule gets a program that runs on the reference engine,
    with a warning (F434) that says why; without `fallback` it raises GrammarError (F425).

    `backend` says what carries out the inside and outside passes: `torch`, tensor operations, or
    `cpp`, machine code for the CPU, which a C++ compiler makes when it is first needed. On other
    devices, and where there is no compiler (with a warning, F435), `cpp` means tensor operations
    too. `triton` means Triton kernels on a GPU; it raises GrammarError (F436) where there are none.
    `auto` takes kernels on a GPU where Triton is installed. On a CPU it begins with tensor
    operations and turns to machine code as soon as that pays.

    With `cuda_graph`, passes over batches of one shape on a GPU are captured in CUDA graphs when
    the shape comes for the second time: the launches of a pass become one. On other devices it
    changes nothing; with `cpp`, which has no launches, it is refused (F415).
    `fgg.runtime.native.graphs` lists the conditions.
    """
    if not isinstance(grammar, Grammar):
        raise TypeError("a grammar is expected: `fgg.compile(fgg.load(…))`")
    if not all(hasattr(x, "__index__") and x >= 1 for x in (length, batch)):
        raise ValueError("the expected length and batch must be whole numbers from 1 up")
    if space not in ("auto", "dense", "state", "rank"):
        message = f"there is no space `{space}`"
        help = "spaces are `auto`, `dense`, `state` and `rank`"
        refuse("F415", message, help)
    check_backend(backend, cuda_graph=cuda_graph)
    if backend == TRITON:
        from fgg.runtime.native.triton_engine import require_triton

        require_triton()
    check_sizes(grammar, sizes or {})
    model = with_sizes(grammar, sizes or {})
    return Compilation(
        model=model,
        query=query or only_query(model),
        space=space,
        length=length,
        batch=batch,
        fallback=fallback,
        backend=Backend(backend, cuda_graph=cuda_graph),
    ).program()


@dataclass(frozen=True, kw_only=True, eq=False)
class Compilation:
    """A model, a query and options: makes the program and, when asked, its other plans.

    It is the `fgg.runtime.program.compiler.Compiler` of the programs that it makes. With
    `missing`, plans are for batches with missing tokens: each is one variable of a rule.
    """

    model: Grammar
    query: str | None
    space: str = "auto"
    length: int = 32
    batch: int = 16
    fallback: bool = True
    backend: Backend = field(default_factory=Backend)
    missing: bool = False

    def __getstate__(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @cached_property
    def source(self) -> Grammar:
        """The model joined with the query."""
        return selected(self.model, self.query)

    def program(self) -> Program:
        """The program; one on the reference engine, with a warning, if there is no schedule."""
        try:
            return self.compiled()
        except GrammarError as error:
            refused = error.diagnostics[0]
            if not self.fallback or self.space == "rank" or refused.code != "F425":
                raise
            return self.on_reference(refused.message)

    @cached_property
    def choice(self) -> SpaceChoice:
        """The cheapest space for what is expected, and what the others cost."""
        from fgg.compiler.cost.choose import choose
        from fgg.compiler.driver import Expected

        expected = Expected(self.length, self.batch)
        return choose(self.source, expected, pinned=not self.missing)

    def space_works(self, lengths: Mapping[str, int]) -> Mapping[str, SpaceWork]:
        """The work of each space that `auto` may choose, on items of these lengths."""
        return self.choice.works(lengths) if self.space == "auto" else {}

    def compiled(self) -> CompiledProgram:
        """The compiled program. Raises GrammarError (F425) if the grammar has no schedule."""
        from fgg.compiler.driver import Expected, plan_of
        from fgg.compiler.passes.cpd import cpd
        from fgg.runtime.program.program import CompiledProgram

        source, expected, pinned = self.source, Expected(self.length, self.batch), not self.missing
        with compilable(self.model.name):
            if self.space == "auto":
                space, plan = self.choice.space, self.choice.plan
            else:
                space, plan = self.space, plan_of(source, expected, self.space, pinned=pinned)
        decomposed = cpd(source)
        return CompiledProgram(
            grammar=source,
            decomposed=None if decomposed is source else decomposed,
            compiler=self,
            plan=plan,
            source=self.emit(plan),
            space=space,
        )

    def on_reference(self, reason: str) -> Program:
        """The program on the reference engine, with the warning that it is one (F434)."""
        from fgg.compiler.passes.cpd import cpd
        from fgg.runtime.program.reference_program import ReferenceProgram

        note = Diagnostic(code="F434", message=f"{reason}; it runs on the reference engine")
        warn(note, stacklevel=5)
        decomposed = cpd(self.source)
        return ReferenceProgram(
            grammar=self.source,
            decomposed=None if decomposed is self.source else decomposed,
            compiler=self,
            notes=(note,),
        )

    def for_query(self, query: str) -> Program:
        """The program of another query of the model. Raises GrammarError (F409)."""
        return replace(self, query=query, missing=False).program()

    def for_model(self, model: Grammar) -> Program:
        """The program of the same query of another model."""
        return replace(self, model=model, missing=False).program()

    def resized(self, domain: str, size: int) -> Program:
        """The program of the model with another number of values in a domain."""
        return self.for_model(with_domain_size(self.model, domain, size))

    def in_space(self, space: str) -> CompiledProgram:
        """The program of the same query in another space."""
        return replace(self, space=space).compiled()

    def for_missing(self, space: str) -> CompiledProgram:
        """The program for batches with missing tokens, in a space if that can be.

        Where its rules cannot go to rank space it is in state space, which has the same parameters.
        """
        other = replace(self, space=space, missing=True)
        try:
            return other.compiled()
        except GrammarError:
            if space != "rank":
                raise
            return other.in_space("state")

    def derivation_plan(self, *, known: bool = False) -> Plan:
        """The plan that derivations are read from."""
        from fgg.compiler.passes.close_start import close
        from fgg.compiler.passes.pin import pin
        from fgg.compiler.passes.split import split
        from fgg.compiler.passes.tie import tie
        from fgg.compiler.plan.derivation_plan import plan_of_trees

        with compilable(self.model.name):
            source = traced(self.source)
            closed = close(source)
            # Derivations begin with the user's own start symbol, unless its nodes have to be split.
            trees = split(closed) if closed is source else unclosed(source) or split(closed)
            if known:
                trees = pin(trees, whole=True)
            if self.missing:
                trees = tie(trees)
            return plan_of_trees(trees, length=self.length, batch=self.batch)

    def with_cell_weights(self) -> tuple[CompiledProgram, Mapping[str, str]] | None:
        """The program in which each cell has a log-potential, with their input factors."""
        from fgg.compiler.passes.cell_weights import with_cell_weights

        weighted = with_cell_weights(self.source)
        if weighted is None:
            return None
        return replace(self, model=weighted.grammar, query=None).compiled(), weighted.factors

    def outline(self) -> Plan:
        """The plan of the shapes of derivations, without states."""
        from fgg.compiler.passes.outline import outline
        from fgg.compiler.passes.split import SplitImpossible, split
        from fgg.compiler.plan.derivation_plan import plan_of_trees

        source = traced(self.source)
        with compilable(self.model.name):
            try:
                # First, so that a cell's part of a union still says which rules it can have.
                atomic = outline(split(source))
            except SplitImpossible:
                atomic = split(outline(source))
            return plan_of_trees(atomic, length=self.length, batch=self.batch)

    def described(self, plan: Plan) -> PlanDescription:
        """What a plan costs, for the length and the batch that are expected."""
        from fgg.compiler.cost.cost import cost, description

        return description(cost(plan, {n: self.length for n in plan.lengths}, batch=self.batch))

    def intermediate_bytes(
        self, plan: Plan, lengths: Mapping[str, int], size: int, width: int
    ) -> int:
        """The bytes of the largest intermediate result of tensor operations on a level."""
        from fgg.compiler.cost.cost import cost

        return cost(plan, lengths, batch=size, width=width).intermediate_bytes

    def emit(self, plan: Plan, *, best: bool = False) -> str:
        """A plan as Python; with `best`, maxima stand in place of sums."""
        from fgg.compiler.emit.python import emit

        return emit(plan, best=best)

    def emit_cpp(self, plan: Plan) -> Native:
        """A plan as C++."""
        from fgg.compiler.emit.cpp import native

        return native(plan)

    def emit_triton(self, plan: Plan) -> str:
        """A plan as Python with Triton kernels."""
        from fgg.compiler.emit.triton import emit

        return emit(plan)


def check_sizes(grammar: Grammar, sizes: Mapping[str, int]) -> None:
    """Raise GrammarError (F410) for sizes that the grammar does not have, or bad values."""
    problems = []
    for name, value in sizes.items():
        if name not in grammar.size:
            help = did_you_mean(name, grammar.size)
            message = f"`{grammar.name}` has no size `{name}`"
            problems.append(Diagnostic(code="F410", message=message, help=help))
        elif not isinstance(value, int) or isinstance(value, bool) or value < 1:
            message = f"size `{name}` must be a whole number from 1 up"
            problems.append(Diagnostic(code="F410", message=message))
    if problems:
        raise GrammarError(problems)


def only_query(grammar: Grammar) -> str | None:
    """The name of a grammar's query, if it has one."""
    return grammar.queries[0].name if len(grammar.queries) == 1 else None


def unclosed(grammar: Grammar) -> Grammar | None:
    """The grammar with atomic nodes and its own start symbol, if that can be."""
    from fgg.compiler.passes.split import SplitImpossible, split

    try:
        return split(grammar)
    except SplitImpossible:
        return None


@contextmanager
def compilable(name: str) -> Iterator[None]:
    """Turn refusals of the compiler in this context into GrammarErrors (F425)."""
    from fgg.compiler.passes.split import SplitImpossible
    from fgg.compiler.plan.lower import CannotCompile
    from fgg.compiler.rank.uses import NotRankSpace

    try:
        yield
    except NotRankSpace as error:
        message = f"`{name}` cannot be compiled in rank space: {error}"
        help = "use `--space state`, or `--space auto` for the cheapest space that is possible"
        refuse("F425", message, help)
    except (CannotCompile, SplitImpossible) as error:
        rule = error.rule if isinstance(error, CannotCompile) else None
        refuse(
            "F425",
            f"`{name}` cannot be compiled: {error}",
            f"{order_hint(rule)}`fgg.reference.solve(fgg.rewrite.ground(…))` and `fggc run` use "
            "the reference engine",
            span=None if rule is None else rule.span,
        )


def order_hint(rule: Rule | None) -> str:
    """What to add to a rule that looks up indices in tables, whose order nothing says; or ``."""
    for edge in rule.rhs.edges if rule else ():
        for place, index in enumerate(edge.indices):
            if rule and edge.label == rule.lhs and any(True for _ in index.lookups()):
                order = f"{index} < {rule.indices[place]}"
                return f"say in which order the table's entries come: `for {order}`, or `>`\n"
    return ""


def selected(grammar: Grammar, query: str | None) -> Grammar:
    """The grammar joined with a query, or as it is if it has none."""
    if query is None:
        if len(grammar.queries) > 1:
            names = ", ".join(f"`{q}`" for q in grammar.query)
            message = f"`{grammar.name}` has several queries: say which"
            refuse("F409", message, f"it has {names}")
        if not grammar.queries:
            return grammar
        query = grammar.queries[0].name
    if query not in grammar.query:
        known = ", ".join(f"`{q}`" for q in grammar.query)
        message = f"`{grammar.name}` has no query `{query}`"
        help = did_you_mean(query, grammar.query) or f"it has {known or 'none'}"
        refuse("F409", message, help)
    return conjoin(grammar, grammar.query[query])
