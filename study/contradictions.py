"""What a study may not declare for its models together, found whatever else is wrong with it."""

from collections.abc import Iterator, Mapping
from typing import Any

from study.located import Path
from study.space import FACTORS, READ


def contradictions(study: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    """Yield each place in a study's body that contradicts its models, and what is wrong there.

    Args:
        study: as it was written; what has another form than it should is left to its own check.
    """
    choices = _choices(study.get("models", "meantime"))
    if not choices or not READ.keys() >= choices.keys():
        return
    listed = ", ".join(choices)
    declared = "embeddings" in study
    if "meantime" not in choices and declared:
        text = f"belongs to meantime, which is not among the study's models ({listed}); remove it"
        yield ("embeddings",), text
    if "meantime" in choices:
        own = "embeddings" in choices["meantime"]
        if own and declared:
            text = "must be declared once, got it for the study, too; remove one"
            yield ("models", "meantime", "embeddings"), text
        if not own and not declared:
            yield ("embeddings",), "this key must be given, it is missing; add embeddings:"
    for model, choice in choices.items():
        if model != "meantime" and "embeddings" in choice:
            text = f"{model} has no temporal embeddings, only meantime has; remove it"
            yield ("models", model, "embeddings"), text
        for factor in _unread(choice.get("grid"), (model,)):
            text = f"{model} does not read {factor}; remove it, or give it to a model that does"
            yield ("models", model, "grid", factor), text
    for factor in _unread(study.get("grid"), choices):
        readers = ", ".join(FACTORS[factor].defaults)
        text = f"none of the study's models ({listed}) reads it; remove it, it belongs to {readers}"
        yield ("grid", factor), text


def _choices(models: object) -> dict[str, Mapping[str, Any]]:
    match models:
        case str():
            return {models: {}}
        case tuple():
            return {name: {} for name in models if isinstance(name, str)}
        case Mapping():
            return {
                n: choice if isinstance(choice, Mapping) else {} for n, choice in models.items()
            }
    return {}


def _unread(grid: object, models: Mapping[str, Any] | tuple[str, ...]) -> list[str]:
    if not isinstance(grid, Mapping):
        return []
    read = {factor for model in models for factor in READ[model]}
    return [factor for factor in grid if factor in FACTORS and factor not in read]
