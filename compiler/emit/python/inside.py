"""The inside of a step, as Python: what the head's cells are."""

from __future__ import annotations

from collections.abc import Iterator

from fgg.compiler.emit.python.contraction import Contraction
from fgg.compiler.emit.python.values import Value, aligned


class InsideWriter(Contraction):
    """Writes how a step fills the head's cells.

    With `terms` its result is kept, to be added to others of its group.
    """

    terms = False

    def linear(self, lines: list[str], values: list[Value | None]) -> None:
        """Writes a step that maps each cell of one chart and keeps its scale."""
        result = self.contract(lines, values).result
        assert result is not None
        result = self.masked(lines, result)
        place = self.head(self.names.get("v_", self.step.head))
        code = self.fitted(result)
        last = f"{code} = "
        if lines[-1].startswith(last) and " @ " in lines[-1]:
            left, right = lines.pop()[len(last) :].split(" @ ")
            lines.append(f"torch.matmul({left}, {right}, out={place})")
        else:
            lines.append(f"{place}.copy_({code}{self.mark(' * ')})")
        if not self.plan.shares_scale(self.step):
            (source,) = (o for o in self.step.operands if o.kind == "chart")
            _, scale, _, origin = self.storage(source)
            own = self.head(self.names.get("e_", self.step.head))
            lines.append(f"{own}.copy_({self.place(scale, source, origin)})")

    def mark(self, sign: str) -> str:
        """What the best derivations are to be judged by besides: a number for each of its cells."""
        return f"{sign}{self.head(self.names.get('m_', self.step.head))}" if self.best else ""

    def inside(self, *, terms: bool = False) -> list[str]:
        """The lines that compute the step and put the result into the head's chart."""
        self.terms = terms
        step, lines = self.step, list[str]()
        chart = self.plan.chart[step.head]
        values, scales = self.read(lines, scales=True)
        if step.linear:
            self.linear(lines, values)
            return lines
        scale = self.scale(lines, scales)
        splits = [d for d in self.split_dims if scale is not None and d in scale.dims]
        cell_scale = scale
        if splits:
            assert scale is not None
            axes = ", ".join(str(scale.dims.index(d)) for d in splits)
            dims = tuple(d for d in scale.dims if d not in splits)
            head = self.names.get("e_", step.head)
            if chart.is_scalar and all(v is None for v in values):
                total = f"torch.logsumexp({scale.code}, ({axes},))"
                lines.append(f"e = {scale.code}.amax(({axes},))" if self.best else f"e = {total}")
                lines += self.put_scale(head, Value("e", dims))
                return lines
            top = self.fresh("top")
            lines.append(f"{top} = {scale.code}.amax(({axes},), keepdim=True)")
            weight = self.fresh("w")
            lines.append(f"{weight} = weights(batch, {scale.code}, {top})")
            flat = f"{top}.squeeze(({axes},))"
            cell_scale = Value(flat, dims)
            self.carry(lines, values, Value(weight, scale.dims))
        result = self.contract(lines, values).result
        if result is None and chart.is_scalar and cell_scale is not None:
            lines += self.put_scale(self.names.get("e_", step.head), cell_scale)
            return lines
        lines += self.put(result or self.ones(), cell_scale)
        return lines

    def cell_scale_code(self, scale: Value) -> str:
        """A scale over all cells of the head."""
        code = aligned(scale, self.cell_dims)
        if set(scale.dims) != set(self.cell_dims):
            sizes = [self.counts[d] for d in self.position_dims] + ["batch.size"]
            code = f"{code}.expand({', '.join(sizes)})"
        return code

    def put_scale(self, head: str, scale: Value) -> Iterator[str]:
        """Puts the logarithms of scalars into the head's cells."""
        code = self.cell_scale_code(scale)
        if self.terms:
            yield f"terms.append({code})"
            return
        yield from self.write_scale(head, code)

    def write_scale(self, head: str, code: str) -> Iterator[str]:
        """Writes logarithms into the head's cells, or adds to what is there."""
        place = self.head(head)
        code += self.mark(" + ")
        if self.step.mode == "write":
            yield f"{place}.copy_({code})"
            return
        yield f"e = {code}"
        yield f"out = {place}"
        more = f"out.copy_(torch.{'maximum' if self.best else 'logaddexp'}(out, e))"
        if self.step.mode == "mixed":
            yield f"{more} if batch.mixed else out.copy_(e)"
        else:
            yield more

    def put(self, result: Value, scale: Value | None) -> Iterator[str]:
        """Puts values with scales into the head's cells."""
        chart = self.plan.chart[self.step.head]
        scale_head = self.names.get("e_", self.step.head)
        scale_code = "None" if scale is None else self.cell_scale_code(scale)
        if chart.is_scalar:
            code = f"log_of(batch, {self.depth}, {self.fitted(result)}, {scale_code})"
            yield from self.put_scale(scale_head, Value(f"({code})", self.cell_dims))
            return
        if self.terms:
            yield f"terms.append(({self.fitted(result)}, {scale_code}))"
            yield f"depth = max(depth, {self.depth})"
        else:
            yield self.write(f"{self.fitted(result)}, {scale_code}", str(self.depth))

    def write(self, what: str, depth: str) -> str:
        """Writes values with scales into the head's cells, or adds to what is there."""
        function = {"write": "put", "add": "put_more"}.get(
            self.step.mode, "(put_more if batch.mixed else put)"
        )
        values = self.head(self.names.get("v_", self.step.head))
        scales = self.head(self.names.get("e_", self.step.head))
        if self.best:
            what = f"*marked({what}{self.mark(', ')})"
        return f"{function}(batch, {depth}, {values}, {scales}, {what})"

    def put_terms(self) -> Iterator[str]:
        """Adds the results of a group and puts the sum into the head's cells."""
        if self.plan.chart[self.step.head].is_scalar:
            yield from self.write_scale(self.names.get("e_", self.step.head), "log_total(terms)")
        else:
            yield self.write(f"*total(batch, terms, {len(self.cell_dims)})", "depth")
