"""The table of diagnostic codes. Codes are for ever: a number is never used again.

F0xx: syntax. F1xx: names, arities, domains, indices, values. F2xx: properties of a whole grammar.
F3xx: compiling and grounding. F4xx: files, data and running. Each has a page in `fgg/explain`.
"""

from __future__ import annotations

from typing import NamedTuple


class Code(NamedTuple):
    """What a code stands for."""

    severity: str
    title: str


def _errors(**titles: str) -> dict[str, Code]:
    return {code: Code("error", title) for code, title in titles.items()}


def _warnings(**titles: str) -> dict[str, Code]:
    return {code: Code("warning", title) for code, title in titles.items()}


CODES: dict[str, Code] = {
    **_errors(
        F001="unexpected text",
        F002="the text ends too early",
        F003="unexpected character",
        F004="unclosed string",
        F005="a reserved word used as a name",
        F006="an unknown statement",
        F007="brackets nested too deep",
        F008="the text is too long",
        F009="`=` where `==` is meant",
        F010="a number with too many digits",
        F011="a clause without its factor",
        F012="an unknown escape in a string",
        F013="a clause given twice",
        F014="an expression that is too large",
        F015="a rule without an arrow",
        F016="powers are not part of the language",
        F017="brackets that do not match",
        F018="a query that is not closed",
        F019="a missing comma",
        F020="a name without its colon",
        F021="a statement that cannot stand in a query",
        F101="an unknown name in an expression",
        F102="an unknown domain",
        F103="an unknown edge label",
        F104="an unknown input",
        F105="an unknown part of a node",
        F106="an unknown nonterminal",
        F107="a name declared twice",
        F108="an unknown table",
        F109="sizes that depend on each other",
        F110="domains that depend on each other",
        F111="a node whose domain cannot be inferred",
        F112="an edge that touches the wrong number of nodes",
        F113="a node with two domains",
        F114="the wrong number of indices",
        F115="an index that is not affine",
        F116="an index without bounds",
        F117="conditions that never hold",
        F118="a reference outside a family's range",
        F119="a family whose range cannot be inferred",
        F120="a size that is negative, or too large",
        F121="a domain without values, or with too many",
        F122="a value listed twice",
        F123="a part listed twice",
        F124="a domain expression that mixes domains and sizes",
        F125="a value of the wrong shape",
        F126="a negative weight",
        F127="a weight that is not a finite number",
        F128="a distribution that does not sum to one",
        F129="an unknown domain value",
        F130="a key given twice",
        F131="a value that does not fit the factor",
        F132="an unknown kind of value",
        F133="an unknown attribute",
        F134="an attribute with a wrong value",
        F135="a factor as the head of a rule",
        F136="no start symbol",
        F137="two start symbols",
        F138="an arrow with nothing on its right",
        F139="a rank that makes no sense",
        F140="a part of a node that has none",
        F142="an index variable whose name is taken",
        F143="a query rule that the model does not have",
        F144="a query rule with the wrong number of nonterminals",
        F145="a query rule with the wrong nonterminal",
        F146="a query that speaks of an unknown node",
        F147="a nonterminal indexed in two ways",
        F148="a node fixed to an input of another domain",
        F149="something that does not belong here",
    ),
    **_warnings(
        F201="an unreachable nonterminal",
        F202="an unproductive nonterminal",
        F203="a nonterminal without rules",
        F204="a factor that no rule uses",
        F205="a model rule that a query leaves out",
        F206="a grammar that derives nothing",
        F207="a size that looks like an index variable",
        F208="an attribute that nothing uses",
    ),
    **_errors(
        F301="a length is missing",
        F302="a grammar that would be too large",
        F303="a grammar that must be grounded first",
        F304="grammars that do not fit together",
        F401="a file that cannot be read",
        F402="a file that is not text",
        F403="a vocabulary that cannot be used",
        F404="an array file that cannot be used",
        F405="JSON that cannot be read",
        F406="JSON that does not describe a grammar",
        F407="JSON weights that cannot be used",
        F408="a grammar that is not in the library",
        F409="an unknown query",
        F410="a size that cannot be set",
        F411="an input that does not fit",
        F412="a picture that cannot be drawn",
        F413="an output that cannot be written",
        F414="an unknown code",
        F415="an option that cannot be used",
        F416="weights that are missing",
        F417="weights that do not fit",
        F418="no convergence",
        F419="a semiring that cannot solve this recursion",
        F420="a computation that would need too much memory",
        F421="no best derivation",
        F422="a derivation that grows without end",
        F423="a gradient that is infinite",
        F424="nothing to draw from",
        F425="a grammar that cannot be compiled",
        F426="no best derivation in rank space",
        F440="a factor that cannot be decomposed",
        F490="a map that cannot be read",
        F491="a map that leaves values out",
        F492="a map to a block that does not exist",
        F493="a map of another shape",
        F494="blocks that do not fit",
    ),
    **_warnings(
        F431="a critical recursion",
        F432="a value that is infinite",
        F433="numbers too small for this semiring",
        F434="a grammar that runs on the reference engine",
        F441="a decomposition that has not converged",
        F442="a tolerance that no rank reaches",
        F495="a factor with blocks that nothing ties to one",
    ),
}
