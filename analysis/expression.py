"""The language of `--where`: columns, comparisons, `in`, `is null`, `and`, `or`, `not`, embeddings.

    day and not con and hidden >= 32
    state = 'failed' or (test_ndcg@10 > validation_ndcg@10 and seed in (0, 1))
    tau is not null and finished_at >= '2026-03-01'

An expression becomes an SQLAlchemy condition with bound values; nothing of it is executed as text.
It is true or false for every row: a comparison with a missing value is false, so that `not`
selects exactly the rows that an expression leaves out. Mistakes point at their place.
"""

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NoReturn

from sqlalchemy import (
    BigInteger,
    BindParameter,
    Boolean,
    ColumnElement,
    Float,
    Text,
    and_,
    false,
    func,
    literal,
    not_,
    or_,
)
from sqlalchemy.types import TypeEngine

from model.config import EMBEDDINGS
from model.errors import RequestError
from study.column_types import Utc
from study.schema import FAILURES, TRIAL_STATES
from study.space import label

Kind = Literal["number", "text", "flag", "time"]

_NESTING = 50
_KEYWORDS = {"and", "or", "not", "in", "is", "null"}
_WORDS = {"state": TRIAL_STATES, "failure": FAILURES}
_TOKEN = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<name>[A-Za-z_][A-Za-z0-9_@]*)
    | (?P<sign><=|>=|!=|<>|==|[=<>(),])
    )""",
    re.VERBOSE,
)
_COMPARE = {
    "=": lambda left, right: left == right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: not_(left == right),
    "<>": lambda left, right: not_(left == right),
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def condition(text: str, columns: Mapping[str, ColumnElement[Any]]) -> ColumnElement[bool]:
    """Return the condition that an expression states about rows with these columns.

    Args:
        text: the expression.
        columns: name -> column; its type decides what it can be compared with.

    Raises:
        RequestError: with the rule, the expression and a mark under the place.
    """
    parser = _Parser(re.sub(r"\s", " ", text), columns)
    found = parser.either()
    if parser.token.kind != "end":
        parser.refuse("expected `and` or `or` here")
    return found


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int


@dataclass(frozen=True, slots=True)
class _Operand:
    """A column, or a value that takes its SQL form beside the column it is compared with."""

    kind: Kind
    token: _Token
    column: ColumnElement[Any] | None = None
    value: str | float | bool | None = None


class _Parser:
    """Recursive descent, one method a rule of the grammar; `token` is the next one unread."""

    def __init__(self, text: str, columns: Mapping[str, ColumnElement[Any]]) -> None:
        self._text = text
        self._columns = columns
        self._depth = 0
        self.token = self._scan(0)

    def either(self) -> ColumnElement[bool]:
        parts = [self._both()]
        while self._take("or"):
            parts.append(self._both())
        return parts[0] if len(parts) == 1 else or_(*parts)

    def _both(self) -> ColumnElement[bool]:
        parts = [self._negation()]
        while self._take("and"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else and_(*parts)

    def _negation(self) -> ColumnElement[bool]:
        negated = False
        while self._take("not"):
            negated = not negated
        found = self._nested() if self.token.text == "(" else self._comparison()
        return not_(found) if negated else found

    def _nested(self) -> ColumnElement[bool]:
        if self._depth == _NESTING:
            self.refuse(f"parentheses may be nested {_NESTING} deep")
        self._depth += 1
        self._expect("(")
        found = self.either()
        self._expect(")")
        self._depth -= 1
        return found.self_group()

    def _comparison(self) -> ColumnElement[bool]:
        left = self._operand()
        sign = self.token
        if sign.text in _COMPARE:
            self._advance()
            return self._compared(left, sign, self._operand())
        if self._take("is"):
            return self._null(left)
        inverted = self._take("not")
        if self._take("in"):
            found = self._one_of(left)
            return not_(found) if inverted else found
        if inverted:
            self.refuse("expected `in` after `not`")
        if left.column is None:
            self.refuse("expected a comparison with a column after this value", left.token)
        if left.kind != "flag":
            self.refuse(f"{left.token.text} is a {left.kind}: compare it with a value", left.token)
        return func.coalesce(left.column, false())

    def _null(self, left: _Operand) -> ColumnElement[bool]:
        inverted = self._take("not")
        if not self._take("null"):
            self.refuse("expected `null` or `not null` after `is`")
        if left.column is None:
            self.refuse("only a column can be null", left.token)
        return left.column.is_not(None) if inverted else left.column.is_(None)

    def _one_of(self, left: _Operand) -> ColumnElement[bool]:
        self._expect("(")
        parts = [self._equal(left)]
        while self._take(","):
            parts.append(self._equal(left))
        self._expect(")")
        return or_(*parts).self_group() if len(parts) > 1 else parts[0]

    def _equal(self, left: _Operand) -> ColumnElement[bool]:
        right = self._operand()
        return self._compared(left, _Token("sign", "=", right.token.start), right)

    def _compared(self, left: _Operand, sign: _Token, right: _Operand) -> ColumnElement[bool]:
        if left.column is None and right.column is None:
            self.refuse("one side of a comparison must be a column", left.token)
        if left.column is None or right.column is None:
            column, value = (right, left) if left.column is None else (left, right)
            value = self._fitted(value, column)
            left, right = (value, column) if left.column is None else (column, value)
        elif left.kind != right.kind:
            self.refuse(
                f"{left.token.text} is a {left.kind} and {right.token.text} a {right.kind}; "
                "compare columns of one kind",
                right.token,
            )
        if left.kind in {"text", "flag"} and sign.text[0] in "<>" and sign.text != "<>":
            self.refuse(f"a {left.kind} is compared with =, != or in", sign)
        negative = sign.text in {"!=", "<>"}
        found: ColumnElement[bool] = _COMPARE["=" if negative else sign.text](
            left.column, right.column
        )
        if not (_is_never_null(left.column) and _is_never_null(right.column)):
            found = func.coalesce(found, false())  # which no index answers
        return not_(found) if negative else found

    def _fitted(self, value: _Operand, column: _Operand) -> _Operand:
        """Give a value the type of the column beside it, or refuse it."""
        name = column.token.text
        match column.kind, value.value:
            case "flag", bool(flag):
                bound: ColumnElement[Any] = literal(flag, Boolean)
            case "number", int(whole) if not isinstance(whole, bool) and abs(whole) < 2**63:
                bound = literal(whole, BigInteger)
            case "number", (int() | float()) as number if not isinstance(number, bool):
                bound = literal(float(number), Float(53))
            case "time", str(text):
                bound = literal(self._moment(text, value.token), Utc)
            case "text", str(text):
                bound = literal(self._word(text, name, value.token), Text)
            case _:
                forms = {
                    "flag": "true or false",
                    "number": "a number",
                    "text": "text in quotes",
                    "time": "a date in quotes, such as '2026-11-30'",
                }
                self.refuse(f"{name} is compared with {forms[column.kind]}", value.token)
        return _Operand(column.kind, value.token, column=bound)

    def _word(self, text: str, column: str, token: _Token) -> str:
        """Refuse a word that the column can never hold; put a subset into canonical order."""
        if column == "embeddings":
            names = [] if text.lower() == "none" else text.lower().split("+")
            unknown = [name for name in names if name not in EMBEDDINGS]
            if unknown:
                self.refuse(
                    f"no embedding {unknown[0]!r}; a subset is none or a sum of "
                    f"{', '.join(EMBEDDINGS)}, such as 'Day+Pos'",
                    token,
                )
            return label(names)
        allowed = _WORDS.get(column)
        if allowed is not None and text not in allowed:
            self.refuse(f"{column} is one of {', '.join(allowed)}", token)
        return text

    def _moment(self, text: str, token: _Token) -> datetime:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            self.refuse("expected a date or time such as '2026-11-30' or '2026-11-30T12:00'", token)
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment

    def _operand(self) -> _Operand:
        token = self.token
        lowered = token.text.lower()
        if token.kind == "number":
            number = float(token.text)
            whole = re.fullmatch(r"[+-]?\d+", token.text) is not None
            operand = _Operand("number", token, value=int(token.text) if whole else number)
        elif token.kind == "text":
            quote = token.text[0]
            operand = _Operand("text", token, value=token.text[1:-1].replace(quote + quote, quote))
        elif token.kind == "name" and lowered in {"true", "false"}:
            operand = _Operand("flag", token, value=lowered == "true")
        elif token.kind == "name" and lowered not in _KEYWORDS:
            column = self._columns.get(token.text)
            if column is None:
                self._refuse_name(token)
            operand = _Operand(_kind(column.type), token, column=column)
        else:
            self.refuse("expected a column, a number or text in quotes here")
        self._advance()
        return operand

    def _refuse_name(self, token: _Token) -> NoReturn:
        near = difflib.get_close_matches(token.text, self._columns, n=3)
        advice = (
            f"did you mean {' or '.join(near)}?"
            if near
            else f"text stands in quotes: '{token.text}'"
        )
        self.refuse(f"no column {token.text}; {advice}", token)

    def refuse(self, problem: str, token: _Token | None = None) -> NoReturn:
        """Raise the mistake with a mark under a token, by default under the next one."""
        place = (token or self.token).start
        raise RequestError(f"{problem}\n  {self._text}\n  {' ' * place}^")

    def _take(self, word: str) -> bool:
        """Read past the next token if it is this word or sign."""
        if self.token.kind in {"name", "sign"} and self.token.text.lower() == word:
            self._advance()
            return True
        return False

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            self.refuse(f"expected {sign} here")

    def _advance(self) -> None:
        self.token = self._scan(self.token.start + len(self.token.text))

    def _scan(self, start: int) -> _Token:
        found = _TOKEN.match(self._text, start)
        if found is None:
            rest = self._text[start:]
            begin = start + len(rest) - len(rest.lstrip())
            if begin == len(self._text):
                return _Token("end", "", begin)
            what = "this quote is not closed" if self._text[begin] in "'\"" else "no such sign"
            self.refuse(f"{what}: {self._text[begin]}", _Token("sign", "", begin))
        kind = str(found.lastgroup)
        return _Token(kind, found[kind], found.start(kind))


def _is_never_null(side: ColumnElement[Any] | None) -> bool:
    return isinstance(side, BindParameter) or getattr(side, "nullable", True) is False


def _kind(column_type: TypeEngine[Any]) -> Kind:
    match column_type:
        case Boolean():
            return "flag"
        case Utc():
            return "time"
        case Text():
            return "text"
        case _:
            return "number"
