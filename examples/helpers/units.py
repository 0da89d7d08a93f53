"""A calculator with units."""

import ast
import math
import re

__aish__ = {"calculate": {"read_only": True}}

# Each unit in SI units: the factor, and the powers of metre, kilogram, second, ampere, kelvin, mole, candela and bit.
BASE = ("m", "kg", "s", "A", "K", "mol", "cd", "bit")
PREFIXES = {
    "Q": 1e30, "R": 1e27, "Y": 1e24, "Z": 1e21, "E": 1e18, "P": 1e15, "T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3, "h": 1e2,
    "da": 10.0, "d": 0.1, "c": 1e-2, "m": 1e-3, "u": 1e-6, "µ": 1e-6, "n": 1e-9, "p": 1e-12, "f": 1e-15,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50,
}
WITH_PREFIX = {
    "m": (1, "m"), "g": (1e-3, "kg"), "s": (1, "s"), "A": (1, "A"), "K": (1, "K"), "mol": (1, "mol"), "cd": (1, "cd"),
    "bit": (1, "bit"), "B": (8, "bit"), "Hz": (1, "s-1"), "N": (1, "kg m s-2"), "Pa": (1, "kg m-1 s-2"),
    "J": (1, "kg m2 s-2"), "W": (1, "kg m2 s-3"), "C": (1, "A s"), "V": (1, "kg m2 s-3 A-1"),
    "ohm": (1, "kg m2 s-3 A-2"), "F": (1, "kg-1 m-2 s4 A2"), "Wh": (3600, "kg m2 s-2"), "eV": (1.602176634e-19, "kg m2 s-2"),
    "cal": (4.184, "kg m2 s-2"), "l": (1e-3, "m3"), "L": (1e-3, "m3"), "t": (1e3, "kg"), "bar": (1e5, "kg m-1 s-2"),
}
ALONE = {
    "min": (60, "s"), "h": (3600, "s"), "hour": (3600, "s"), "day": (86400, "s"), "week": (604800, "s"),
    "year": (31557600, "s"), "inch": (0.0254, "m"), "ft": (0.3048, "m"), "yd": (0.9144, "m"), "mi": (1609.344, "m"),
    "nmi": (1852, "m"), "ha": (1e4, "m2"), "acre": (4046.8564224, "m2"), "lb": (0.45359237, "kg"), "oz": (0.028349523125, "kg"),
    "gal": (3.785411784e-3, "m3"), "mph": (0.44704, "m s-1"), "kn": (1852 / 3600, "m s-1"), "atm": (101325, "kg m-1 s-2"),
    "psi": (6894.757293168, "kg m-1 s-2"), "hp": (745.6998715822702, "kg m2 s-3"), "deg": (math.pi / 180, ""), "rad": (1, ""),
    "percent": (0.01, ""), "pi": (math.pi, ""), "e": (math.e, ""), "c": (299792458, "m s-1"), "g0": (9.80665, "m s-2"),
}
FUNCTIONS = {name: getattr(math, name) for name in ("sin", "cos", "tan", "asin", "acos", "atan", "exp", "log", "log10", "log2")}
TEMPERATURES = {"degC": (1.0, 273.15), "degF": (5 / 9, 459.67 * 5 / 9), "K": (1.0, 0.0)}


class _Quantity:
    def __init__(self, value, powers=(0,) * len(BASE)):
        self.value, self.powers = value, powers


def calculate(expression: str, to: str = "") -> str:
    """Calculates with units, exactly by their definitions: "3 km / 20 min to km/h", "2 * 40 GiB / (100 Mbit/s) to min".

    Args:
        expression: Numbers, units, + - * / ^, brackets and functions; "to" and a unit at the end convert the result.
        to: The unit of the result, in place of "to" in the expression.
    """
    if not to and " to " in expression:
        expression, to = expression.rsplit(" to ", 1)
    to = to.strip()
    temperature = re.fullmatch(r"\s*([-+]?[\d.]+(?:[eE][-+]?\d+)?)\s*(degC|degF|K)\s*", expression)
    if temperature and to in TEMPERATURES:
        scale, offset = TEMPERATURES[temperature[2]]
        kelvin = float(temperature[1]) * scale + offset
        scale, offset = TEMPERATURES[to]
        return f"{_shown((kelvin - offset) / scale)} {to}"
    result = _evaluate(expression)
    if not to:
        return f"{_shown(result.value)} {_base_units(result.powers)}".strip()
    unit = _evaluate(to)
    if unit.powers != result.powers:
        ours, theirs = _base_units(result.powers) or "a number", _base_units(unit.powers) or "a number"
        raise ValueError(f"{expression.strip()} is in {ours}, which cannot be converted to {to} ({theirs})")
    return f"{_shown(result.value / unit.value)} {to}"


def _shown(value):
    return f"{value:.12g}"


def _base_units(powers):
    return " ".join(name if power == 1 else f"{name}^{power:g}" for name, power in zip(BASE, powers) if power)


def _evaluate(text):
    if len(text) > 1000:
        raise ValueError("the expression is longer than 1000 characters")
    given = text.strip()
    text = given.replace("^", "**").replace("×", "*").replace("·", "*").replace("Ω", "ohm").replace("%", " percent")
    # `3 km` is one value, also after a division: 3 km / 20 min. `kg m` is a product.
    number = r"(?<![\w.])((?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![\d.]|[eE][-+]?\d)"
    text = re.sub(number + r"\s*([A-Za-zµ]\w*(?:\s*\*\*\s*-?\d+)?)(?!\w|\s*\()", r"(\1*\2)", text)
    text = re.sub(number + r"\s*(?=[A-Za-zµ(])", r"\1*", text)
    text = re.sub(r"([\w)])\s+(?=[A-Za-zµ(])", r"\1*", text)
    try:
        tree = ast.parse(text, mode="eval")
    except SyntaxError:
        raise ValueError(f"{given} is not an expression") from None
    return _value(tree.body)


def _value(node):
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return _Quantity(float(node.value))
    if isinstance(node, ast.Name):
        return _unit(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)):
        inner = _value(node.operand)
        return _Quantity(-inner.value if isinstance(node.op, ast.USub) else inner.value, inner.powers)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1 and not node.keywords:
        inner = _value(node.args[0])
        if node.func.id == "sqrt":
            return _Quantity(math.sqrt(inner.value), tuple(power / 2 for power in inner.powers))
        if node.func.id in FUNCTIONS and not any(inner.powers):
            return _Quantity(FUNCTIONS[node.func.id](inner.value))
        raise ValueError(f"{node.func.id} takes a number without a unit, or is unknown")
    if isinstance(node, ast.BinOp):
        return _operation(node.op, _value(node.left), _value(node.right))
    raise ValueError("only numbers, units, + - * / ^, brackets and functions are understood")


def _operation(operator, left, right):
    if isinstance(operator, (ast.Add, ast.Sub)):
        if left.powers != right.powers:
            raise ValueError(f"{_base_units(left.powers) or 'a number'} and {_base_units(right.powers) or 'a number'} cannot be added")
        sign = 1 if isinstance(operator, ast.Add) else -1
        return _Quantity(left.value + sign * right.value, left.powers)
    if isinstance(operator, ast.Mult):
        return _Quantity(left.value * right.value, tuple(a + b for a, b in zip(left.powers, right.powers)))
    if isinstance(operator, ast.Div):
        return _Quantity(left.value / right.value, tuple(a - b for a, b in zip(left.powers, right.powers)))
    if isinstance(operator, ast.Pow) and not any(right.powers):
        value = left.value**right.value
        if isinstance(value, complex):
            raise ValueError("the root of a negative number is not real")
        return _Quantity(value, tuple(power * right.value for power in left.powers))
    raise ValueError("only + - * / and ^ with a plain exponent are understood")


def _unit(name):
    if name in ALONE:
        return _defined(*ALONE[name])
    for prefix, factor in [("", 1.0), *PREFIXES.items()]:
        if name.startswith(prefix) and name[len(prefix):] in WITH_PREFIX:
            unit = _defined(*WITH_PREFIX[name[len(prefix):]])
            return _Quantity(unit.value * factor, unit.powers)
    raise ValueError(f"{name} is not a known unit")


def _defined(factor, text):
    powers = [0] * len(BASE)
    for part in text.split():
        match = re.fullmatch(r"([A-Za-z]+)(-?\d+)?", part)
        powers[BASE.index(match[1])] += int(match[2] or 1)
    return _Quantity(float(factor), tuple(powers))
