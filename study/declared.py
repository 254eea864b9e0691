"""What a value in `studies.yaml` may look like: types that pydantic checks, one for each key.

A check that pydantic does not know says its rule and the next step itself (`mistakes.broken`).
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    PlainSerializer,
    Tag,
    WrapValidator,
)
from pydantic_core import CoreSchema, core_schema

from model.config import MODELS, Embedding
from study.mistakes import broken
from study.ranges import Range, range_of
from study.space import FACTORS, Subset, Value, all_subsets, canonical

_NAME_RULE = "a name must be letters, digits, '.', '_' or '-', and start with a letter or digit"


def _name(name: str) -> str:
    if not name.isascii() or not name[:1].isalnum() or not _letters(name).isalnum():
        raise broken(_NAME_RULE, "rename it")
    return name


def _letters(name: str) -> str:
    return name.translate(str.maketrans("", "", "._-"))


def _text(text: str) -> str:
    if not text.strip():
        raise broken("must not be empty", "write a sentence")
    return text


def _at_least_one(value: object) -> object:
    # Not pydantic's min_length, which counts valid items and so blames a list of bad ones twice.
    if value == () or value is None:
        raise broken("must have at least one value", "add one")
    return value


def _one_or_many(value: object) -> object:
    return _at_least_one(value if isinstance(value, tuple) or value is None else (value,))


def _by_model(value: object) -> object:
    match value:
        case Mapping():
            return _at_least_one(value or None)
        case str():
            return {value: {}}
        case tuple() if all(isinstance(name, str) for name in value):
            if len(set(value)) < len(value):
                raise broken("must name each model once", "remove the repeated one")
            return _at_least_one({name: {} for name in value} or None)
    raise broken(
        "must be a list of models, or a mapping from models to what each of them declares",
        "write for example [meantime, sasrec], or {sasrec: {grid: {heads: [1, 2]}}}",
    )


def _nothing_is_empty(value: object) -> object:
    return {} if value is None else value


def _declared_subsets(value: object) -> object:
    match value:
        case "all-subsets":
            return all_subsets()
        case "all-subsets-and-none":
            return ((), *all_subsets())
        case tuple():
            return _at_least_one(value)
    raise broken(
        "must be all-subsets, all-subsets-and-none or a list of subsets",
        "write for example [[day, pos, sin, log], [pos], none]",
    )


def _subset(value: object) -> object:
    match value:
        case "none":
            return ()
        case tuple():
            return value
    raise broken(
        "each subset must be a list of embeddings, or none",
        "write [[day, pos]] for one subset, [[day], [pos]] for two",
    )


def _in_order(subset: Subset) -> Subset:
    if len(set(subset)) < len(subset):
        raise broken("a subset must name each embedding once", "remove the repeated one")
    return canonical(subset)


def _shares_one_device(gpus: float) -> float:
    if gpus > 1 and not gpus.is_integer():
        raise broken("must be a share up to 1, or a whole number of GPUs", "round it")
    return gpus


def _or_auto(value: object, number: Callable[[object], float]) -> object:
    return value if value == "auto" else number(value)


if TYPE_CHECKING:
    Settings = dict[str, Value]
    Grid = dict[str, tuple[Value, ...] | Range]
else:

    def _listed_or_range(value: object) -> str:
        return "[range]" if isinstance(value, (Mapping, Range)) else "[list]"

    class _ByFactor:
        """Checks a mapping from factor names to one value each, or to a list or range each."""

        def __init__(self, *, many: bool) -> None:
            self._many = many

        def __get_pydantic_core_schema__(
            self, source: object, handler: GetCoreSchemaHandler
        ) -> CoreSchema:
            fields = {}
            for name, factor in FACTORS.items():
                one = factor.annotation
                listed = Annotated[tuple[one, ...], BeforeValidator(_one_or_many)]
                many = Annotated[
                    Annotated[listed, Tag("[list]")]
                    | Annotated[range_of(name, one), Tag("[range]")],
                    Discriminator(_listed_or_range),
                ]
                schema = handler.generate_schema(many if self._many else one)
                fields[name] = core_schema.typed_dict_field(schema, required=False)
            return core_schema.typed_dict_schema(
                fields, extra_behavior="forbid", config=core_schema.CoreConfig(strict=True)
            )

    Settings = Annotated[dict, _ByFactor(many=False), BeforeValidator(_nothing_is_empty)]
    Grid = Annotated[dict, _ByFactor(many=True), BeforeValidator(_nothing_is_empty)]

T = TypeVar("T")
OrEmpty = Annotated[T, BeforeValidator(_nothing_is_empty)]
"""A mapping whose key may stand alone: `ml-1m:` says the same as `ml-1m: {}`."""

Name = Annotated[str, AfterValidator(_name)]
Text = Annotated[str, AfterValidator(_text)]
Datasets = Annotated[tuple[str, ...], BeforeValidator(_one_or_many)]
Subsets = Annotated[
    tuple[
        Annotated[tuple[Embedding, ...], AfterValidator(_in_order), BeforeValidator(_subset)], ...
    ],
    BeforeValidator(_declared_subsets),
]
Seeds = Annotated[tuple[Annotated[int, Field(ge=0, lt=2**63)], ...], BeforeValidator(_at_least_one)]
if TYPE_CHECKING:
    ByModel = dict[str, T]
else:
    ByModel = Annotated[dict[Literal[tuple(MODELS)], OrEmpty[T]], BeforeValidator(_by_model)]
if TYPE_CHECKING:
    Gpus = float | Literal["auto"]
else:
    Gpus = Annotated[
        float,
        Field(ge=0),
        AfterValidator(_shares_one_device),
        WrapValidator(_or_auto),
        PlainSerializer(lambda gpus: gpus),
    ]
