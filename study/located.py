"""YAML as plain values, each with the line it was written on; what is ambiguous is refused.

PyYAML's composer gives the nodes; the values are ours, because YAML 1.1 reads `1e-5` as text, `010`
as eight, `1:30` as ninety and a repeated key as its last value. Here a number is written in decimal
digits (`64`, `0.2`, `.2`, `1e-5`, `1E-05`, `1_000`); anything else unquoted stays text, which the
definition refuses, with the line, wherever a number belongs.
"""

import math
import re
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

import yaml

Path = tuple[str | int, ...]
"""Keys and list positions from the top of the file, e.g. `("studies", "quick", "seeds", 1)`."""

_NULL = "tag:yaml.org,2002:null"
_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_FLOAT = "tag:yaml.org,2002:float"
_TEXT = "tag:yaml.org,2002:str"


@dataclass(frozen=True, slots=True)
class Mistake:
    """One thing wrong with the file; `line` counts from 1, `message` is rule, value; next step."""

    line: int
    key: str
    message: str


@dataclass(frozen=True, slots=True)
class Located:
    """The values of a YAML text: dict, tuple, str, int, float, bool or None.

    Attributes:
        value: the whole document.
        lines: line (from 1) of every key and list item by its path.
        mistakes: what could not be read; the rest of the document is still there.
    """

    value: Any
    lines: dict[Path, int] = field(default_factory=dict)
    mistakes: list[Mistake] = field(default_factory=list)

    def line(self, path: Path) -> int:
        """Return the line of a path, or of the nearest key around it that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def key(path: Path) -> str:
    """Write a path the way a reader finds it.

    >>> key(("studies", "quick", "grid", "hidden", 2))
    'studies.quick.grid.hidden[2]'
    """
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def read(text: str) -> Located:
    """Read one YAML document; a text that is no YAML at all gives one mistake and no value."""
    try:
        node = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        problem = error.problem or "cannot be read"
        step = "indent with spaces, not tabs" if "'\\t'" in problem else "mend the line"
        return Located(None, mistakes=[Mistake(line, "", f"not valid YAML: {problem}; {step}")])
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = f"not valid YAML: control characters are not allowed, got {error.character!r}"
        return Located(None, mistakes=[Mistake(line, "", f"{problem}; remove it")])
    except RecursionError:
        problem = "lists or mappings must not nest hundreds of levels deep, got more"
        return Located(None, mistakes=[Mistake(1, "", f"{problem}; flatten them")])
    located = Located(None)
    value = None if node is None else _value(node, (), located, within=())
    return Located(value, located.lines, located.mistakes)


class _Loader(yaml.SafeLoader):
    """PyYAML's parser with the spellings above instead of YAML 1.1's."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012  (PyYAML declares it so)


for _tag, _pattern in (
    (_NULL, r"~|null|Null|NULL|"),
    (_BOOL, r"true|True|TRUE|false|False|FALSE"),
    (_INT, r"[-+]?(0|[1-9]\d*(_\d+)*)"),
    (_FLOAT, r"[-+]?(\d+\.\d*|\.\d+)([eE][-+]?\d+)?|[-+]?\d+[eE][-+]?\d+"),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"(?:{_pattern})\Z", re.ASCII), None)


def _value(node: yaml.Node, path: Path, into: Located, *, within: tuple[int, ...]) -> object:
    if id(node) in within:
        into.mistakes.append(
            Mistake(
                node.start_mark.line + 1,
                key(path),
                "an alias must not stand inside its own anchor; write the value out",
            )
        )
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(node, path, into, within=(*within, id(node)))
    if isinstance(node, yaml.SequenceNode):
        items = []
        for index, item in enumerate(node.value):
            into.lines[*path, index] = item.start_mark.line + 1
            items.append(_value(item, (*path, index), into, within=(*within, id(node))))
        return tuple(items)
    return _scalar(node, path, into)


def _mapping(
    node: yaml.MappingNode, path: Path, into: Located, *, within: tuple[int, ...]
) -> dict[str, Any]:
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            into.mistakes.append(
                Mistake(line, key(path), "a key must be text, got a list or mapping; name it")
            )
            continue
        name = str(key_node.value)
        where = (*path, name)
        if name == "<<":
            into.mistakes.append(
                Mistake(line, key(where), "merge keys are not read; write the keys out")
            )
            continue
        if name in mapping:
            first = into.lines[where]
            into.mistakes.append(
                Mistake(
                    line,
                    key(where),
                    f"a key must be given once, got it again after line {first}; remove one",
                )
            )
            continue
        into.lines[where] = line
        mapping[name] = _value(value_node, where, into, within=within)
    return mapping


def _scalar(node: yaml.Node, path: Path, into: Located) -> Hashable:
    text = str(node.value)
    value: Hashable = text
    if node.tag == _NULL:
        value = None
    elif node.tag == _BOOL:
        value = text.lower() == "true"
    elif node.tag in {_INT, _FLOAT}:
        value = _number(text)
    elif node.tag != _TEXT:
        message = f"YAML tags are not read, got {node.tag}; remove the tag"
        into.mistakes.append(Mistake(node.start_mark.line + 1, key(path), message))
    return value


def _number(text: str) -> int | float | str:
    """Return the number, or the text where there is none: `1e999`, or `!!int` before a word."""
    try:
        if re.fullmatch(r"[-+]?[\d_]+", text):
            return int(text)
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text
