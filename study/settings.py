"""`--set KEY=VALUE` as a study of one cell, checked by the same rules as `studies.yaml`."""

from collections.abc import Iterable

from pydantic import ValidationError

from model.config import MeantimeConfig
from model.errors import RequestError
from study import located, mistakes
from study.contradictions import contradictions
from study.definition import Study, StudyFile
from study.space import FACTORS

_KEYS = ("dataset", "model", "embeddings", "seed", *FACTORS)

_DECLARED_AS = {"datasets": "dataset", "models": "model", "seeds": "seed"}
"""Keys of a study that hold lists, and what one of their values is called here."""


def single_study(file: StudyFile, settings: Iterable[str]) -> Study:
    """Return the study whose only cell these settings name; the rest comes from the file.

    Args:
        file: declares the data sets and defaults.
        settings: texts such as `dataset=ml-100k`, `model=sasrec`, `embeddings=day+pos`, `seed=3`,
            `lr=1e-3`.

    Raises:
        RequestError: a key is unknown, a value breaks its rule, or the data set is missing; all
            mistakes are in the message.
    """
    values, found = _parsed(settings)
    dataset = values.pop("dataset", None)
    if dataset is None:
        declared = ", ".join(file.datasets)
        found.append(f"dataset: must be given; add --set dataset=NAME, declared: {declared}")
    elif str(dataset) not in file.datasets:
        rule = f"a data set must be declared in {file.path}"
        found.append(f"dataset: {mistakes.unknown_word(dataset, file.datasets, what=rule)}")
    model = values.pop("model", "meantime")
    body: dict[str, object] = {
        "name": "train",
        "question": "What does this one trial give?",
        "datasets": (str(dataset),),
        "models": (model,),
        "seeds": (values.pop("seed", 0),),
    }
    if "embeddings" in values or model == "meantime":
        body["embeddings"] = (_subset(values.pop("embeddings", MeantimeConfig().embeddings)),)
    body["grid"] = values
    found += [f"{_setting(path)}: {text}" for path, text in contradictions(body)]
    try:
        study = Study.model_validate(body)
    except ValidationError as error:
        found += [
            f"{_setting(details['loc'])}: {mistakes.sentence(details)}"
            for details in error.errors(include_url=False)
        ]
    if found:
        raise RequestError("\n".join(f"--set {mistake}" for mistake in found))
    return study


def _parsed(settings: Iterable[str]) -> tuple[dict[str, object], list[str]]:
    values: dict[str, object] = {}
    found: list[str] = []
    for setting in settings:
        name, equals, text = (part.strip() for part in setting.partition("="))
        value = located.read(text).value
        if not equals:
            found.append(f"{name}: must be KEY=VALUE, got no '='; write {name}=VALUE")
        elif name not in _KEYS:
            rule = f"{name}: a key must be dataset, model, embeddings, seed or a factor"
            found.append(mistakes.unknown_word(name, _KEYS, what=rule))
        elif name in values:
            found.append(f"{name}: must be given once, got it again; remove one")
        elif value is None or (name != "embeddings" and isinstance(value, tuple | dict)):
            found.append(f"{name}: must be one value, got {text or 'nothing'}; write {name}=VALUE")
        else:
            values[name] = value
    return values, found


def _subset(value: object) -> object:
    """Read `day+pos` and labels such as `Day+Pos`; lists and `none` are read as in the file."""
    if not isinstance(value, str) or value.lower() == "none":
        return value.lower() if isinstance(value, str) else value
    return tuple(name.strip().lower() for name in value.split("+"))


def _setting(path: tuple[int | str, ...]) -> str:
    name = str(path[1] if path[0] == "grid" else path[0])
    return _DECLARED_AS.get(name, name)
