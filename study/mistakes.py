"""What is wrong with a studies file, in sentences: the rule, the value found, the next step.

Pydantic finds what breaks a declared type; this file says it in the file's own words and with the
line, because "Input should be a valid tuple" helps nobody who wrote YAML.
"""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from pathlib import Path

from pydantic import ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from study import located
from study.located import Located, Mistake, key
from study.located import Path as KeyPath

KnownKeys = Callable[[KeyPath], tuple[str, ...]]
"""Returns the keys that the mapping at a path may have."""


def broken(rule: str, step: str) -> PydanticCustomError:
    """Return what a validator raises: `rule` reads on from the key, `step` is an imperative."""
    return PydanticCustomError("broken", "{rule}", {"rule": rule, "step": step})


def from_pydantic(error: ValidationError, document: Located, known: KnownKeys) -> list[Mistake]:
    """Return a mistake for each of pydantic's errors."""
    return [_mistake(details, document, known) for details in error.errors(include_url=False)]


def message(file: Path, found: Iterable[Mistake]) -> str:
    """Write mistakes in the file's order, one a line; two or more under a heading.

    >>> print(message(Path("s.yaml"), [Mistake(3, "defaults.lr", "must be > 0, got 0; raise it")]))
    s.yaml:3: defaults.lr: must be > 0, got 0; raise it
    """
    ordered = sorted(set(found), key=lambda mistake: (mistake.line, mistake.key, mistake.message))
    lines = [
        f"{file}:{mistake.line}: {mistake.key}: {mistake.message}"
        if mistake.key
        else f"{file}:{mistake.line}: {mistake.message}"
        for mistake in ordered
    ]
    if len(lines) > 1:
        lines.insert(0, f"{len(lines)} mistakes in {file}; nothing was done")
    return "\n".join(lines)


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return `did you mean X? ` with the nearest known word, or nothing.

    >>> suggestion("droput", ["dropout", "hidden"])
    'did you mean dropout? '
    """
    near = _nearest(word, known)
    return f"did you mean {near}? " if near else ""


def shown(value: object) -> str:
    """Write a value the way YAML does, text in quotes, at most 60 characters long.

    >>> shown(("day", 1e-05, None))
    "['day', 1e-05, null]"
    """
    text = _yaml(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def unknown_word(word: object, known: Iterable[str], *, what: str) -> str:
    """Say that a word is none of the known ones, with the nearest as advice."""
    names = tuple(known)
    listed = ", ".join(names) or "none yet"
    return f"{what}, got {shown(word)}; {suggestion(str(word), names)}known: {listed}"


def _mistake(details: ErrorDetails, document: Located, known: KnownKeys) -> Mistake:
    # Pydantic names what is no key of the file in brackets: `[key]`, and the choices of a union.
    path = tuple(part for part in details["loc"] if not str(part).startswith("["))
    line = document.line(path)
    if path not in document.lines and path and isinstance(path[-1], int):
        path = path[:-1]  # a single value where a list may stand: it is the key that was written
    match details["type"]:
        case "extra_forbidden":
            said = _unknown_key(path, known)
        case "missing":
            said = f"this key must be given, it is missing; add {path[-1]}:"
        case _:
            said = sentence(details)
    return Mistake(line, key(path), said)


def sentence(details: ErrorDetails) -> str:
    """Say what is wrong with a value: rule, value; next step."""
    context = details.get("ctx", {})
    value = details["input"]
    rule, step = str(details["msg"]), "change it"
    match details["type"]:
        case "broken":
            rule, step = context["rule"], context["step"]
        case "literal_error":
            words = context["expected"].replace("'", "").replace(" or ", ", ").split(", ")
            near = _nearest(str(value), words)
            rule = f"must be one of {', '.join(words)}"
            step = f"did you mean {near}?" if near else "use one of them"
        case kind if kind in _TYPE_RULES:
            what, step = _TYPE_RULES[kind]
            rule, step = f"must be {what}", _spelling(value, what) or step
        case kind if kind in _BOUND_RULES:
            name, what = _BOUND_RULES[kind]
            rule = f"must be {what} {context[name]:g}"
            step = "lower it" if kind.startswith("less") else "raise it"
    return f"{rule}, got {shown(value)}; {step}"


_TYPE_RULES = {
    "int_type": ("a whole number", "write it in digits, such as 64"),
    "float_type": ("a number", "write it in digits, such as 0.2 or 1e-5"),
    "string_type": ("text", "put it in quotes"),
    "tuple_type": ("a list", "write it in brackets, such as [0, 1, 2]"),
    "dict_type": ("a mapping of keys to values", "write key: value pairs below it"),
    "model_type": ("a mapping of keys to values", "write key: value pairs below it"),
}

_BOUND_RULES = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def _spelling(value: object, rule: str) -> str | None:
    """Advise on a number that was written so that it is not one."""
    if "number" not in rule:
        return None
    if isinstance(value, float) and value.is_integer():
        return f"write {value:.0f}"
    number = located.read(value.lstrip("0") or "0").value if isinstance(value, str) else None
    if isinstance(number, int | float) and not isinstance(number, bool):
        return f"write it without quotes and leading zeros: {number}"
    return None


def _unknown_key(path: KeyPath, known: KnownKeys) -> str:
    *above, name = path
    parent = tuple(above)
    word = str(name)
    here = known(parent)
    if near := _nearest(word, here):
        return f"unknown key; did you mean {near}? known: {', '.join(here)}"
    for child in here:
        if word in known((*parent, child)):
            return f"unknown key here; move {word} under {child}"
    beside = known(parent[:-1]) if parent else ()
    if near := _nearest(word, beside):
        return f"unknown key here; write {near} one level up, beside {parent[-1]}"
    return f"unknown key; remove it, known: {', '.join(here)}"


def _nearest(word: str, known: Iterable[str]) -> str | None:
    lower = {name.lower(): name for name in known}
    wanted = word.lower()
    near = get_close_matches(wanted, lower, n=1, cutoff=0.6)
    if not near and len(wanted) > 2:
        near = [name for name in lower if name.startswith(wanted) or wanted.startswith(name)]
    return lower[near[0]] if near else None


def _yaml(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case tuple() | list():
            return f"[{', '.join(_yaml(item) for item in value)}]"
        case dict():
            return f"{{{', '.join(f'{name}: {_yaml(item)}' for name, item in value.items())}}}"
    return repr(value)
