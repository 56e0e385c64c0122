"""Mutants: a module with one change each, an operator, a constant, a condition, a bound, an argument, a statement."""

from __future__ import annotations

import ast
import copy
import re
from collections import Counter
from collections.abc import Iterator
from itertools import takewhile
from typing import Any, NamedTuple

SWAPPED: dict[type[ast.AST], Any] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
PAIRS = [pair.split("/") for pair in "lt/le gt/ge eq/ne any/all min/max".split()]  # functions, and methods of tensors
RENAMED = dict(PAIRS) | {second: first for first, second in PAIRS}
# No types, no decorators; there is one device here, and strict=True only says that lengths cannot differ.
UNTOUCHED = {"annotation", "returns", "decorator_list"}
UNTOUCHED_KEYWORDS = {"device", "strict"}
WORD = re.compile(r"[\w<>=!/*]*")
AROUND = re.compile(r"(\b|^).{0,40}$")
DECIDED = ast.Compare | ast.UnaryOp  # conditions that have a change of their own


class Mutant(NamedTuple):
    """A changed module, and where and how: its key in mutants.toml."""

    name: str
    source: str


def replacements(node: Any, in_raise: bool) -> Iterator[ast.AST]:
    """What may stand in a node's place. How errors are worded is nobody's promise."""

    def but(**fields: Any) -> ast.AST:
        new = copy.copy(node)
        vars(new).update(fields)
        return new

    match node:
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp():
            yield but(op=SWAPPED[type(node.op)]())
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield but(ops=[*ops[:place], SWAPPED[type(op)](), *ops[place + 1 :]])
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert()):
            yield node.operand
        case ast.Constant(value=bool()):
            yield but(value=not node.value)
        case ast.Constant(value=int() | float()):
            yield but(value=node.value + 1)
        case ast.Constant(value=str()) if not in_raise:
            yield but(value="XX" + node.value)
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not isinstance(test, DECIDED):
            yield but(test=ast.UnaryOp(ast.Not(), test))
        case ast.comprehension(ifs=[test]) if not isinstance(test, DECIDED):
            yield but(ifs=[ast.UnaryOp(ast.Not(), test)])
        case ast.Slice():
            yield from (but(**{bound: None}) for bound in ("lower", "upper") if getattr(node, bound) is not None)
        case ast.Call(keywords=keywords):
            for dropped in keywords:
                if dropped.arg not in UNTOUCHED_KEYWORDS:
                    yield but(keywords=[keyword for keyword in keywords if keyword is not dropped])
        case ast.Attribute(attr=name) if name in RENAMED:
            yield but(attr=RENAMED[name])
        case ast.Name(id=name) if name in RENAMED:
            yield but(id=RENAMED[name])
        case ast.Return(value=ast.expr()) if ast.unparse(node) != "return None":
            yield but(value=None)
        case ast.Break():
            yield ast.Continue()
        case ast.Continue():
            yield ast.Break()
    match node:
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def is_untouched(node: Any) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.AnnAssign(annotation=ast.Name(id="TypeAlias")):
            return True
        case ast.keyword(arg=name) if name in UNTOUCHED_KEYWORDS:
            return True
    return not isinstance(node, ast.AST)


def head(statement: ast.stmt) -> str:
    """A statement as one line, without what is inside of it."""
    if hasattr(statement, "body"):
        statement = copy.copy(statement)
        vars(statement).update(body=[], orelse=[], decorator_list=[])
    return " ".join(ast.unparse(statement).split())


def shared(one: str, other: str) -> int:
    """With how many equal characters two texts begin."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))


def difference(before: str, after: str) -> str:
    """What has changed, in whole words, with a little of what stands around it.

    >>> difference("return a.lt(b)", "return a.le(b)")
    'return a.{lt -> le}(b)'
    """
    start = shared(before, after)
    end = shared(before[start:][::-1], after[start:][::-1])
    start -= len(WORD.match(before[:start][::-1])[0])
    end -= len(WORD.match(before[len(before) - end :])[0])
    old, new, rest = before[start : len(before) - end], after[start : len(after) - end], before[len(before) - end :]
    old, new = (text if len(text) < 80 else f"{text[:40]} ... {text[-20:]}" for text in (old, new))
    return f"{AROUND.search(before[:start])[0]}{{{old} -> {new}}}{rest[:20]}"


def mutants(source: str) -> list[Mutant]:
    """All mutants of a module, in the order of its lines. The names of equal ones are numbered."""
    tree = ast.parse(source)
    found: list[Mutant] = []
    seen: Counter[str] = Counter()

    def visit(node: ast.AST, place: str, statement: ast.stmt | None, in_raise: bool) -> None:
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            for index, child in enumerate(children):
                if field in UNTOUCHED or is_untouched(child):
                    continue
                around = child if isinstance(child, ast.stmt) else statement
                inside = in_raise or isinstance(child, ast.Raise)
                for new in replacements(child, inside):
                    before = head(around)
                    changed = [*children[:index], new, *children[index + 1 :]]
                    setattr(node, field, changed if isinstance(value, list) else new)
                    name = f"{place}: {difference(before, head(new if around is child else around))}"
                    seen[name] += 1
                    found.append(Mutant(name if seen[name] == 1 else f"{name} #{seen[name]}", ast.unparse(tree)))
                    setattr(node, field, value)
                named = isinstance(child, ast.FunctionDef | ast.ClassDef)
                visit(child, f"{place}.{child.name}".removeprefix("module.") if named else place, around, inside)

    visit(tree, "module", None, False)
    return found
