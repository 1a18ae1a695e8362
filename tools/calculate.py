"""Arithmetic for the agent: a small grammar, walked by hand, with bounds on size and time."""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from typing import Any, Final

from core.errors import ToolFailed
from core.tooling import define_tool

_LONGEST: Final = 1_000
_BITS: Final = 8_192
"""Largest whole number: about 2,400 digits."""

_BINARY: Final[dict[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_UNARY: Final[dict[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
}
_FUNCTIONS: Final[dict[str, Callable[..., Any]]] = {
    "abs": abs,
    "ceil": math.ceil,
    "cos": math.cos,
    "exp": math.exp,
    "floor": math.floor,
    "log": math.log,
    "log10": math.log10,
    "log2": math.log2,
    "max": max,
    "min": min,
    "round": round,
    "sin": math.sin,
    "sqrt": math.sqrt,
    "tan": math.tan,
}
_CONSTANTS: Final = {"pi": math.pi, "e": math.e}


@define_tool(group="basics", label="计算器", idempotent=True)
def calculate(expression: str) -> dict[str, Any]:
    """Work out an arithmetic expression exactly.

    Knows + - * / // % ** and parentheses, the functions abs, ceil, cos, exp, floor, log, log10,
    log2, max, min, round, sin, sqrt, tan, and the constants pi and e. No variables.

    Args:
        expression: for example `(3 + 4.5) * sqrt(2)`.
    """
    if len(expression) > _LONGEST:
        raise ToolFailed(f"The expression is longer than {_LONGEST} characters.")
    text = expression.replace("×", "*").replace("÷", "/").replace("^", "**").strip()
    try:
        tree = ast.parse(text, mode="eval")
        value = _value(tree.body)
    except ToolFailed:
        raise
    except (SyntaxError, RecursionError, MemoryError):
        raise ToolFailed("This is not an arithmetic expression.") from None
    except (ArithmeticError, ValueError, TypeError) as problem:
        raise ToolFailed(f"It cannot be worked out: {problem}.") from None
    return {"expression": expression, "value": value}


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return _bounded(number)
        case ast.Name(id=name) if name in _CONSTANTS:
            return _CONSTANTS[name]
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return _UNARY[type(op)](_value(operand))
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            return _power(_value(left), _value(right))
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
            return _bounded(_BINARY[type(op)](_value(left), _value(right)))
        case ast.Call(func=ast.Name(id=name), args=args, keywords=[]) if name in _FUNCTIONS:
            return _bounded(_FUNCTIONS[name](*(_value(arg) for arg in args)))
    raise ToolFailed(f"`{ast.unparse(node)[:80]}` is not arithmetic that this tool knows.")


def _power(base: Any, exponent: Any) -> Any:
    """Raise to a power, after making sure that the result has a size that can be worked out."""
    if isinstance(base, int) and isinstance(exponent, int):
        if abs(base) > 1 and abs(exponent) * base.bit_length() > _BITS:
            raise ToolFailed("The result of this power is too large.")
    elif base < 0:
        raise ToolFailed("A negative number has no real power of that kind.")
    return _bounded(base**exponent)


def _bounded(number: Any) -> Any:
    if isinstance(number, int) and number.bit_length() > _BITS:
        raise ToolFailed("The numbers become too large.")
    if isinstance(number, float) and not math.isfinite(number):
        raise ToolFailed("The result is not a finite number.")
    return number
