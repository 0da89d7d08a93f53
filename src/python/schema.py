# Turns the signatures and docstrings of a helper file into JSON Schemas, and the arguments of a call into Python values.
import collections.abc
import enum
import inspect
import os
import pathlib
import re
import types
import typing

SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean"}
ARRAYS = (list, tuple, set, frozenset, collections.abc.Sequence, collections.abc.Iterable, collections.abc.Collection)
OPTIONS = ("read_only", "destructive", "network")
SUPPORTED = "str, int, float, bool, Path, list, dict with str keys, Literal, an Enum, a dataclass or a TypedDict"
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}\Z")


class Unsupported(Exception):
    """A type that has no JSON Schema."""


class Invalid(Exception):
    """An argument that does not fit its type."""


def type_name(hint):
    if isinstance(hint, type) and not typing.get_args(hint):
        return hint.__name__
    return str(hint).replace("typing.", "")


def converter(hint, level=0):
    """Returns the JSON Schema of a type, and a function that makes its Python value from a JSON value."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        schema, convert = converter(arguments[0], level)
        texts = [text for text in arguments[1:] if isinstance(text, str)]
        return (dict(schema, description=texts[0]) if texts else schema), convert
    if hint is typing.Any or hint is object:
        return {}, lambda value: value
    if hint is None or hint is type(None):
        return {"type": "null"}, exact(type(None), "null")
    if hint in SIMPLE:
        return {"type": SIMPLE[hint]}, number if hint is float else exact(hint, SIMPLE[hint])
    if isinstance(hint, type) and issubclass(hint, pathlib.PurePath):
        text = exact(str, "string")
        return {"type": "string"}, lambda value: hint(text(value))
    if origin is typing.Union or origin is getattr(types, "UnionType", typing.Union):
        parts = [converter(argument, level) for argument in arguments]
        return {"anyOf": [schema for schema, _ in parts]}, first_of([convert for _, convert in parts])
    if origin is typing.Literal:
        return choice(list(arguments), {value: value for value in arguments}, hint)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return choice([member.value for member in hint], {member.value: member for member in hint}, hint)
    if hint in ARRAYS or origin in ARRAYS:
        return array(hint, origin or hint, arguments, level)
    if (origin or hint) in (dict, collections.abc.Mapping):
        if arguments and arguments[0] is not str:
            raise Unsupported("a dict whose keys are not str")
        schema, convert = converter(arguments[1], level) if arguments else ({}, lambda value: value)
        table = exact(dict, "object")
        shape = {"type": "object", "additionalProperties": schema} if schema else {"type": "object"}
        return shape, lambda value: {key: at(key, convert, item) for key, item in table(value).items()}
    if isinstance(hint, type) and hasattr(hint, "__dataclass_fields__"):
        return record(hint, {n: f for n, f in hint.__dataclass_fields__.items() if f.init}, level)
    if isinstance(hint, type) and hasattr(hint, "__total__"):
        return record(hint, None, level)
    raise Unsupported("the type %s" % type_name(hint))


def array(hint, base, arguments, level):
    if base is tuple and arguments and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        raise Unsupported("the type %s; use tuple[T, ...]" % type_name(hint))
    schema, convert = converter(arguments[0], level) if arguments else ({}, lambda value: value)
    items = exact(list, "array")
    shape = {"type": "array", "items": schema} if schema else {"type": "array"}
    if base in (set, frozenset):
        shape["uniqueItems"] = True
    make = base if base in (tuple, set, frozenset) else list
    return shape, lambda value: make([at(i, convert, item) for i, item in enumerate(items(value))])


def record(hint, fields, level):
    """A dataclass (with fields) or a TypedDict, one level deep."""
    if level:
        raise Unsupported("%s inside another class" % type_name(hint))
    properties, converters, required = {}, {}, []
    for name, kind in typing.get_type_hints(hint, include_extras=True).items():
        if fields is not None and name not in fields:
            continue
        mark = typing.get_origin(kind)
        if mark in field_marks():
            kind = typing.get_args(kind)[0]
        try:
            schema, converters[name] = converter(kind, level + 1)
        except Unsupported as error:
            raise Unsupported("field %s of %s: %s" % (name, type_name(hint), error)) from None
        if fields is None:
            # Python before 3.13 does not see the marks of hints that are text.
            marked = {getattr(typing, "Required", 0): True, getattr(typing, "NotRequired", 0): False}
            is_required = marked.get(mark, name in hint.__required_keys__)
        else:
            import dataclasses

            missing = dataclasses.MISSING
            is_required = fields[name].default is missing and fields[name].default_factory is missing
            if fields[name].default is not missing:
                schema = with_default(schema, fields[name].default)
        properties[name] = schema
        if is_required:
            required.append(name)
    shape = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    table = exact(dict, "object")

    def convert(value):
        return hint(**members(table(value), converters, required))

    return shape, convert


def field_marks():
    return [mark for mark in (getattr(typing, name, None) for name in ("Required", "NotRequired", "ReadOnly")) if mark]


def members(value, converters, required):
    """Converts the members of an object; refuses unknown and missing ones."""
    for name in value:
        if name not in converters:
            raise Invalid("%s is not known; the names are %s" % (name, ", ".join(converters) or "none"))
    for name in required:
        if name not in value:
            raise Invalid("%s is missing" % name)
    return {name: at(name, converters[name], item) for name, item in value.items()}


def choice(values, members_by_value, hint):
    kinds = {SIMPLE.get(type(value)) for value in values}
    if None in kinds:
        raise Unsupported("%s with values that are not str, int, float or bool" % type_name(hint))
    schema = {"enum": values}
    if len(kinds) == 1:
        schema = {"type": kinds.pop(), "enum": values}

    def convert(value):
        for known, member in members_by_value.items():
            # 1 equals True in Python.
            if type(known) is type(value) and known == value:
                return member
        raise Invalid("must be one of %s" % ", ".join(repr(known) for known in members_by_value))

    return schema, convert


def exact(kind, name):
    def convert(value):
        if type(value) is kind:
            return value
        # JSON has one kind of number.
        if kind is int and type(value) is float and value.is_integer():
            return int(value)
        raise Invalid("must be of the type %s" % name)

    return convert


def number(value):
    if type(value) in (int, float):
        return float(value)
    raise Invalid("must be of the type number")


def first_of(converters):
    def convert(value):
        reasons = []
        for one in converters:
            try:
                return one(value)
            except Invalid as error:
                reasons.append(str(error))
        raise Invalid(" or ".join(dict.fromkeys(reasons)))

    return convert


def at(name, convert, value):
    try:
        return convert(value)
    except Invalid as error:
        raise Invalid("%s %s" % (name, error)) from None


def with_default(schema, value):
    if isinstance(value, enum.Enum):
        value = value.value
    if value is None or type(value) in SIMPLE and is_exact(value):
        return dict(schema, default=value)
    return schema


def is_exact(value):
    """Whether a JSON reader with 64-bit numbers keeps a value."""
    if type(value) is int:
        return -(1 << 63) <= value < 1 << 64
    return type(value) is not float or value - value == 0


def hints_of(function):
    return typing.get_type_hints(function, include_extras=True)


def parameters_of(function):
    """Returns the parameters of a function, each with its schema and converter.

    Raises Unsupported, with the parameter and what to do.
    """
    try:
        hints = hints_of(function)
    except Exception as error:
        raise Unsupported("a type hint cannot be evaluated (%s); import or define its name" % error) from None
    found = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind == parameter.VAR_POSITIONAL else "**"
            raise Unsupported("parameter %s%s has no fixed names; name each parameter" % (stars, name))
        if name not in hints:
            raise Unsupported("parameter %s has no type hint; add one, such as %s: str" % (name, name))
        try:
            schema, convert = converter(hints[name])
        except Unsupported as error:
            message = "parameter %s: %s has no JSON Schema; use %s" % (name, error, SUPPORTED)
            raise Unsupported(message) from None
        except Exception as error:
            message = "parameter %s: its type cannot be read (%s); use %s" % (name, error, SUPPORTED)
            raise Unsupported(message) from None
        if parameter.default is not parameter.empty:
            schema = with_default(schema, parameter.default)
        found[name] = (parameter, schema, convert)
    return found


def binding(function):
    """Returns the function, and a function that turns JSON arguments into its arguments."""
    parameters = parameters_of(function)
    converters = {name: convert for name, (_, _, convert) in parameters.items()}
    required = [name for name, (parameter, _, _) in parameters.items() if parameter.default is parameter.empty]
    leading = [name for name, (parameter, _, _) in parameters.items() if parameter.kind == parameter.POSITIONAL_ONLY]

    def bind(arguments):
        try:
            named = members(arguments, converters, required)
        except Invalid as error:
            raise TypeError("argument %s" % error) from None
        positional = []
        for name in leading:
            if name not in named:
                break
            positional.append(named.pop(name))
        return positional, named

    return function, bind


def describe(file, load):
    """Returns the functions of a file as tools, and why others are left out."""
    functions, problems = [], []
    try:
        module = load()
    except BaseException as error:
        return {"functions": [], "problems": ["%s cannot be imported: %s" % (file, import_fault(error))]}
    options = annotations_of(module, file, problems)
    for name, value in list(vars(module).items()):
        if name.startswith("_") or not inspect.isfunction(value) or value.__module__ != module.__name__:
            continue
        try:
            functions.append(tool(name, value, options.get(name, {})))
        except Unsupported as error:
            problems.append("%s: function %s: %s" % (file, name, error))
    known = {name for name, value in vars(module).items() if inspect.isfunction(value)}
    for name in options:
        if name not in known:
            problems.append("%s: __aish__ names %s, which is not a function of the file; correct the name" % (file, name))
    return {"functions": functions, "problems": problems}


def import_fault(error):
    text = "%s: %s" % (type(error).__name__, " ".join(str(error).split()))
    if isinstance(error, SystemExit):
        return "it calls sys.exit; leave that to `if __name__ == \"__main__\"`"
    if isinstance(error, ModuleNotFoundError):
        return "%s; add the package to the dependencies of the file" % text
    return text[:1000]


def annotations_of(module, file, problems):
    given = getattr(module, "__aish__", {})
    found = {}
    example = '{"NAME": {"read_only": True}}'
    if not isinstance(given, dict):
        problems.append("%s: __aish__ is not a dict; write __aish__ = %s" % (file, example))
        return found
    for name, options in given.items():
        is_valid = isinstance(name, str) and isinstance(options, dict)
        if not is_valid or any(key not in OPTIONS or type(value) is not bool for key, value in options.items()):
            what = "%s: __aish__[%r] is not a dict of %s with True or False" % (file, name, ", ".join(OPTIONS))
            problems.append("%s; write %s" % (what, example))
            continue
        found[name] = options
    return found


def tool(name, function, options):
    if not NAME.match(name):
        raise Unsupported("the name is longer than 48 characters or not ASCII; rename it")
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise Unsupported("it is async; make it a plain function, which may call asyncio.run")
    if inspect.isgeneratorfunction(function):
        raise Unsupported("it is a generator; return a list")
    docstring = inspect.getdoc(function) if function.__doc__ else None
    if not docstring or not docstring.strip():
        raise Unsupported("it has no docstring; say in its first line what it does")
    parameters = parameters_of(function)
    description, texts = split_docstring(docstring, parameters)
    properties, required = {}, []
    for key, (parameter, schema, _) in parameters.items():
        if key in texts and "description" not in schema:
            schema = dict(schema, description=texts[key])
        properties[key] = schema
        if parameter.default is parameter.empty:
            required.append(key)
    shape = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    returned = hints_of(function).get("return", str)
    is_text = returned in (str, type(None)) or isinstance(returned, type) and issubclass(returned, os.PathLike)
    return {
        "name": name,
        "description": description,
        "schema": shape,
        "parameters": list(parameters),
        "signature": "%s%s" % (name, inspect.signature(function)),
        "docstring": docstring,
        "returns_text": bool(is_text),
        "read_only": options.get("read_only", False),
        "destructive": options.get("destructive", False),
        "network": options.get("network", False),
    }


SPHINX = re.compile(r":(?:param|parameter|arg|argument)\s+(?:[^:]*\s)?\*{0,2}(\w+):\s*(.*)")
SPHINX_OTHER = re.compile(r":(?:type|rtype|return|returns|raises?)\b.*:")
GOOGLE = re.compile(r"(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
NUMPY = re.compile(r"(\w+)\s*(?::.*)?\Z")


def split_docstring(docstring, parameters):
    """Returns the description without its parameter sections, and the texts of the parameters.

    Understands the forms of Google, NumPy and Sphinx where each parameter begins a line.
    """
    lines = docstring.splitlines()
    kept, texts = [], {}
    at_line = 0
    while at_line < len(lines):
        line = lines[at_line]
        following = lines[at_line + 1].strip() if at_line + 1 < len(lines) else ""
        title = line.strip().lower()
        if title in ("args:", "arguments:", "parameters:", "params:") and line == line.lstrip():
            at_line = google_section(lines, at_line + 1, parameters, texts)
        elif title in ("parameters", "other parameters") and following and not following.strip("-"):
            at_line = numpy_section(lines, at_line + 2, parameters, texts)
        elif SPHINX.match(line.strip()) or SPHINX_OTHER.match(line.strip()):
            match = SPHINX.match(line.strip())
            at_line, text = continued(lines, at_line + 1, len(line) - len(line.lstrip()))
            if match and match.group(1) in parameters:
                texts[match.group(1)] = " ".join([match.group(2), *text]).strip()
        else:
            kept.append(line)
            at_line += 1
    return re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip(), {key: text for key, text in texts.items() if text}


def indent_of(line):
    return len(line) - len(line.lstrip())


def continued(lines, start, indent):
    """Returns the lines below a line that are indented more, and where they end."""
    text = []
    while start < len(lines) and lines[start].strip() and indent_of(lines[start]) > indent:
        text.append(lines[start].strip())
        start += 1
    return start, text


def google_section(lines, at_line, parameters, texts):
    while at_line < len(lines):
        line = lines[at_line]
        if not line.strip():
            at_line += 1
            continue
        if indent_of(line) == 0:
            break
        at_line, text = continued(lines, at_line + 1, indent_of(line))
        match = GOOGLE.match(line.strip())
        if match and match.group(1) in parameters:
            texts[match.group(1)] = " ".join([match.group(2), *text]).strip()
    return at_line


def numpy_section(lines, at_line, parameters, texts):
    while at_line < len(lines):
        line = lines[at_line]
        following = lines[at_line + 1].strip() if at_line + 1 < len(lines) else ""
        if not line.strip():
            at_line += 1
            continue
        if following and not following.strip("-") and indent_of(line) == 0:
            break
        match = NUMPY.match(line.strip())
        if not match or indent_of(line):
            break
        at_line, text = continued(lines, at_line + 1, 0)
        if match.group(1) in parameters:
            texts[match.group(1)] = " ".join(text)
    return at_line
