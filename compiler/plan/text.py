"""A plan as a listing: prepared tensors, charts, and the steps of each level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fgg.grammar.domains import domain_size
from fgg.grammar.index import Expr, quote_name
from fgg.grammar.printer import print_rule
from fgg.grammar.slices import Narrow
from fgg.plan import (
    HIGH,
    LEVEL,
    LOW,
    Bound,
    Chart,
    Contract,
    Cut,
    Gather,
    Indicator,
    Loop,
    OneHot,
    Operand,
    Pair,
    Plan,
    PlanStage,
    Potential,
    Preparation,
    Step,
    TokenAxis,
)


def plan_lines(plan: Plan) -> list[str]:
    """The listing of a plan."""
    lines = [f"plan of {quote_name(plan.grammar.name)}"]
    lines += _section("parameters", (_parameter(plan, name) for name in plan.parameters))
    lines += _section("prepared", (preparation_text(p) for p in plan.preparations))
    lines += _section("charts", (chart_text(plan, chart) for chart in plan.charts))
    for stage in plan.stages:
        lines += ["", stage_text(stage)]
        groups: dict[tuple[str, int], str] = {}
        for step in stage.steps:
            first = groups.setdefault((step.head, step.group), step.rule.name)
            lines += [f"  {line}" for line in step_lines(plan, step, first)]
    lines += ["", f"log Z is {cell_text(plan.start.name, plan.start.index)}"]
    return lines


def plan_json(plan: Plan) -> dict[str, object]:
    """The listing as plain data, for JSON."""
    return {
        "parameters": list(plan.parameters),
        "prepared": [
            {"name": p.name, "kind": type(p).__name__.lower(), "text": preparation_text(p)}
            for p in plan.preparations
        ],
        "charts": [
            {
                "family": chart.family,
                "axes": [loop_text(axis) for axis in chart.axes],
                "states": list(chart.states),
                "scales_of": chart.scale_of,
            }
            for chart in plan.charts
        ],
        "stages": [
            {
                "families": list(stage.families),
                "levels": {name: str(form) for name, form in stage.level.items()},
                "steps": [_step_json(plan, step) for step in stage.steps],
            }
            for stage in plan.stages
        ],
        "start": cell_text(plan.start.name, plan.start.index),
    }


def preparation_text(step: Preparation) -> str:
    """How a tensor is prepared."""
    name = quote_name(step.name)
    if isinstance(step, Contract):
        parts = " ".join(f"{quote_name(n)}({', '.join(axes)})" for n, axes in step.operands)
        when = "for a batch" if step.tables else "for a set of weights"
        return f"{name}({', '.join(step.axes)}) = sum of {parts}, once {when}"
    if isinstance(step, Cut):
        return f"{name} = {quote_name(step.source)}{_cut(step.steps)}, a view"
    if isinstance(step, Gather):
        tokens = ", ".join(f"axis {t.axis} at {_token(t)}" for t in step.tokens)
        return f"{name} = {quote_name(step.source)} with {tokens}, gathered"
    if isinstance(step, Indicator):
        return f"{name} = 1 for the block of each value, of {step.blocks}"
    if isinstance(step, OneHot):
        return f"{name} = {_path(step.input, step.path)} as a weight for each of {step.size} values"
    assert isinstance(step, Potential)
    return f"{name} = exp of {quote_name(step.source)}{_cut(step.steps)}, with scales"


def chart_text(plan: Plan, chart: Chart) -> str:
    """A chart's axes and states."""
    family = plan.grammar.nonterminal[chart.family]
    axes = ", ".join(map(loop_text, chart.axes))
    states = " x ".join(map(str, chart.states))
    text = f"{quote_name(chart.family)}[{axes}]" if axes else quote_name(chart.family)
    if states:
        domains = " x ".join(map(quote_name, family.domains))
        text += f" of {domains} ({states})"
    else:
        text += ", a scale alone"
    follows = [f"{name} = {expr_text(e)}" for name, e in chart.followers.items()]
    if follows:
        text += f"; {', '.join(follows)}"
    if chart.scale_of != chart.family:
        text += f"; scales of {quote_name(chart.scale_of)}"
    return text


def stage_text(stage: PlanStage) -> str:
    """The heading of a stage: its families, and its levels."""
    if not stage.has_levels:
        return f"once: {', '.join(map(quote_name, stage.families))}"
    forms = ", ".join(f"{quote_name(n)} at {stage.level[n]}" for n in stage.families)
    first = extreme_text(stage.first, "max", "min")
    last = extreme_text(stage.last, "min", "max")
    return f"for each level from {first} to {last}: {forms}"


def step_lines(plan: Plan, step: Step, first: str) -> Iterator[str]:
    """A step: its rule, its box, what it reads and how, the order of its products.

    `first` is the first rule of those that fill the same cells.
    """
    yield print_rule(plan.grammar, step.rule)
    details = [f"puts {cell_text(step.head, step.head_index)}"]
    if step.rule.name != first:
        details.append(f"added to the result of `{first}`")
    elif step.mode != "write":
        details.append({"add": "added", "mixed": "added if lengths differ"}[step.mode])
    if step.linear:
        details.append("keeps scales")
    yield f"    {', '.join(details)}"
    if step.positions or step.splits:
        box = [f"for {loop_text(loop)}" for loop in step.positions]
        box += [f"summed over {loop_text(loop)}" for loop in step.splits]
        yield f"    {'; '.join(box)}"
    tests = [f"{expr_text(g)} >= 0" for g in step.guards]
    tests += [
        f"{expr_text(m.expr)} >= 0 ({'mask if lengths differ' if m.mixed else 'mask'})"
        for m in step.masks
    ]
    if tests:
        yield f"    where {', '.join(tests)}"
    for number, operand in enumerate(step.operands):
        yield f"    {_value(number)} = {operand_text(operand)}"
    for text in path_texts(step):
        yield f"    {text}"


def operand_text(operand: Operand) -> str:
    """The operands of a step, and whether they are read in place."""
    text = cell_text(operand.name, operand.index) + f"({', '.join(map(quote_name, operand.axes))})"
    if operand.kind == "parameter":
        return f"{text}, a parameter"
    how = "a view of" if operand.view else "gathered from"
    return f"{text}, {how} a {operand.kind}"


def path_texts(step: Step) -> list[str]:
    """The products of a step, in order: `#4(b, c) = sum of #2 #3`."""
    names = [_value(i) for i in range(len(step.operands))]
    texts = []
    for pair in step.path:
        name = _value(len(names))
        texts.append(_product(names, pair, name))
        names.append(name)
    return texts


def _product(names: Sequence[str], pair: Pair, name: str) -> str:
    kept = ", ".join(map(quote_name, pair.keep))
    return f"{name}({kept}) = sum of {names[pair.left]} {names[pair.right]}"


def _step_json(plan: Plan, step: Step) -> dict[str, object]:
    return {
        "rule": step.rule.name,
        "text": print_rule(plan.grammar, step.rule),
        "head": cell_text(step.head, step.head_index),
        "group": step.group,
        "mode": step.mode,
        "linear": step.linear,
        "positions": [loop_text(loop) for loop in step.positions],
        "splits": [loop_text(loop) for loop in step.splits],
        "guards": [f"{expr_text(g)} >= 0" for g in step.guards],
        "masks": [{"test": f"{expr_text(m.expr)} >= 0", "mixed": m.mixed} for m in step.masks],
        "operands": [
            {
                "kind": operand.kind,
                "name": operand.name,
                "index": [expr_text(e) for e in operand.index],
                "axes": list(operand.axes),
                "view": operand.view,
            }
            for operand in step.operands
        ],
        "path": path_texts(step),
    }


def _section(title: str, lines: Iterable[str]) -> list[str]:
    indented = [f"  {line}" for line in lines]
    return ["", title, *indented] if indented else []


def _parameter(plan: Plan, name: str) -> str:
    domains = plan.grammar.factor[name].domains
    shape = " x ".join(str(domain_size(plan.grammar, d)) for d in domains) or "one number"
    return f"{quote_name(name)}({', '.join(map(quote_name, domains))}): {shape}"


def cell_text(name: str, index: Sequence[Expr]) -> str:
    """Cells: `X[i, i + level]`."""
    return f"{quote_name(name)}[{', '.join(map(expr_text, index))}]" if index else quote_name(name)


def loop_text(loop: Loop) -> str:
    """A loop with its ends: `i = 0..max n`."""
    return f"{plain_name(loop.name)} = {_bound(loop.low, 'max')}..{_bound(loop.high, 'min')}"


def _bound(bound: Bound, choice: str) -> str:
    terms = [expr_text(e) if d == 1 else f"({expr_text(e)}) / {d}" for e, d in bound.terms]
    return terms[0] if len(terms) == 1 else f"{choice}({', '.join(terms)})"


def extreme_text(bounds: Sequence[Bound], inner: str, outer: str) -> str:
    """The ends of levels: the `outer` one of bounds, each of which is the `inner` of its terms."""
    texts = list(dict.fromkeys(_bound(bound, inner) for bound in bounds))
    return texts[0] if len(texts) == 1 else f"{outer}({', '.join(texts)})"


def expr_text(expr: Expr) -> str:
    """An index expression in the words of the listing: the level, the greatest length."""
    values: dict[str, int | Expr] = {n: Expr.of(plain_name(n)) for n in expr.names()}
    return str(expr.substitute(values)).replace("`", "")


def plain_name(name: str) -> str:
    """A name in the words of the listing."""
    if name == LEVEL:
        return "level"
    for end, word in ((LOW, "min "), (HIGH, "max ")):
        if name.endswith(end):
            return word + name.removesuffix(end)
    return name


def _token(token: TokenAxis) -> str:
    moved = f"[{', '.join(f'{s:+}' for s in token.shift)}]" if any(token.shift) else ""
    return ".".join([quote_name(token.input) + moved, *map(quote_name, token.path)])


def _path(name: str, path: Sequence[str]) -> str:
    return ".".join(map(quote_name, (name, *path)))


def _cut(steps: Sequence[object]) -> str:
    parts = [
        f" axis {s.axis} from {s.offset}, {s.size} values" for s in steps if isinstance(s, Narrow)
    ]
    return f" at{' and'.join(parts)}" if parts else ""


def _value(number: int) -> str:
    return f"#{number + 1}"
