"""`studies.yaml` as frozen values: data sets, defaults and studies, or every mistake at once.

A mistake names file, line, key, the rule, the value found and the next step (`study.mistakes`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError, ValidationInfo, field_validator

from model.config import MODELS, MOST, DatasetConfig, Section, SyntheticConfig
from model.errors import RequestError
from study import located, mistakes
from study.contradictions import contradictions
from study.declared import (
    ByModel,
    Datasets,
    Gpus,
    Grid,
    Name,
    OrEmpty,
    Seeds,
    Settings,
    Subsets,
    Text,
)
from study.mistakes import broken
from study.ranges import RANGE_KEYS, Range
from study.space import FACTORS, READ, Subset, Value
from study.strategy import Asha, Chosen, Confirm, Hyperband, Search, StopEarly


class Resources(Section):
    """What one trial holds while it runs: whole CPUs (its threads) and GPUs, shares allowed.

    `gpus: auto` gives each trial the share of one GPU that its predicted memory asks for.
    """

    cpus: int = Field(default=1, ge=1)
    gpus: Gpus = 0.0


class ModelChoice(Section):
    """What a study declares for one of its models alone.

    Attributes:
        embeddings: MEANTIME's subsets, where the study does not declare them.
        grid: values of factors that replace those of the study's grid.
    """

    embeddings: Subsets | None = None
    grid: Grid = Field(default_factory=dict)


class Retries(Section):
    """How often a launch tries a trial again after a failure of each class.

    Training is deterministic: what diverged diverges again, and an error is most often a bug.
    `oom` is tried on a whole device, `lost` means that a process or node died.
    """

    oom: int = Field(default=1, ge=0, le=MOST)
    diverged: int = Field(default=0, ge=0, le=MOST)
    error: int = Field(default=0, ge=0, le=MOST)
    lost: int = Field(default=3, ge=0, le=MOST)


class Study(Section):
    """A question and the product of choices that is to answer it.

    Attributes:
        name: its key in the file.
        question: what it asks, in a sentence.
        datasets: names of declared data sets.
        models: what each model declares for itself, by name; the study's own is MEANTIME.
        embeddings: MEANTIME's subsets, each in canonical order.
        grid: the values of each factor that the study sets (one) or sweeps (more); a model takes
            those that it reads.
        seeds: replicates of every arm.
        search: how points are chosen: the whole grid, or asked of Optuna.
        stop_early: null: every trial is trained until its own end.
        confirm: null: every trial that is complete enters comparisons.
        screen: settings that hold until points are confirmed, such as fewer epochs.
        resources: what one trial holds while it runs.
        retries: how often a launch tries a trial again, by class of failure.
        storage: a folder or cloud URL for checkpoints; null keeps them beside the results
            database on this machine, and none on a cluster.
    """

    name: str
    question: Text
    datasets: Datasets
    models: ByModel[ModelChoice] = Field(
        default={"meantime": ModelChoice()}, validate_default=False
    )
    embeddings: Subsets | None = None
    grid: Grid = Field(default_factory=dict)
    seeds: Seeds = (0,)
    search: Chosen = Field(default="grid", validate_default=True)
    stop_early: StopEarly | None = None
    confirm: Confirm | None = None
    screen: Settings = Field(default_factory=dict)
    resources: OrEmpty[Resources] = Resources()
    retries: OrEmpty[Retries] = Retries()
    storage: Text | None = None

    def subsets(self, model: str) -> tuple[Subset | None, ...]:
        """Return the subsets that a model is crossed with; for all but MEANTIME one None."""
        if model != "meantime":
            return (None,)
        own = self.models["meantime"].embeddings
        return own or self.embeddings or ()

    def grid_of(self, model: str) -> Grid:
        """Return the values that the study declares for the factors that a model reads."""
        declared = {**self.grid, **self.models[model].grid}
        return {name: values for name, values in declared.items() if name in READ[model]}

    @property
    def searched(self) -> Search | None:
        """How points are asked for; None where every point of the grid is declared."""
        return self.search if isinstance(self.search, Search) else None

    @field_validator("search")
    @classmethod
    def _has_points(cls, search: Chosen, info: ValidationInfo) -> Chosen:
        if "grid" not in info.data or "models" not in info.data:  # a mistake there is said already
            return search
        swept = _swept(info.data)
        ranges = [name for name, values in swept.items() if isinstance(values, Range)]
        if search == "grid" and ranges:
            raise broken(
                f"a range ({', '.join(ranges)}) has no points of its own",
                "add search: {optuna: tpe, trials_per_arm: 16}, or list the values",
            )
        if search != "grid" and not swept:
            raise broken(
                "a search needs a factor with more than one value", "add a list or range to grid"
            )
        return search

    @field_validator("confirm")
    @classmethod
    def _new_seeds(cls, confirm: Confirm | None, info: ValidationInfo) -> Confirm | None:
        known = set(info.data.get("seeds", ()))
        again = [seed for seed in confirm.seeds if seed in known] if confirm else []
        if again:
            raise broken(
                f"seeds that chose the points ({', '.join(map(str, again))}) cannot confirm them",
                "give confirm other seeds",
            )
        return confirm

    @field_validator("screen")
    @classmethod
    def _before_confirmation(cls, screen: Settings, info: ValidationInfo) -> Settings:
        if screen and info.data.get("confirm", screen) is None:
            raise broken(
                "settings for screening need a confirmation in full",
                "add confirm: {best: 2, seeds: [..]}",
            )
        known = {"grid", "models"} <= info.data.keys()
        if known and (swept := [name for name in screen if name in _swept(info.data)]):
            raise broken(
                f"{', '.join(swept)} is swept, so it has no one value while screening",
                "remove it from screen or from grid",
            )
        return screen


def _swept(declared: Mapping[str, Any]) -> Grid:
    """Return the factors that a study, or one of its models, gives more than one value."""
    grids = (declared["grid"], *(choice.grid for choice in declared["models"].values()))
    return {
        name: values
        for grid in grids
        for name, values in grid.items()
        if isinstance(values, Range) or len(values) > 1
    }


class _DeclaredDataset(DatasetConfig):
    defaults: Settings = Field(default_factory=dict)


class _File(Section):
    datasets: dict[Name, _DeclaredDataset]
    defaults: Settings = Field(default_factory=dict)
    studies: dict[Name, Study]


class StudyFile(Section):
    """Everything that one file declares.

    Attributes:
        path: the file, as it was asked for.
        datasets: how each data set is prepared, by name.
        dataset_defaults: factor values that hold on one data set, before `defaults`.
        defaults: factor values that hold where a study and its data set say nothing.
        studies: the studies by name, in the file's order.
    """

    path: Path
    datasets: dict[str, DatasetConfig]
    dataset_defaults: dict[str, dict[str, Value]]
    defaults: dict[str, Value]
    studies: dict[str, Study]


def load_studies(path: Path) -> StudyFile:
    """Read a studies file.

    Raises:
        RequestError: the file cannot be read, or has mistakes; all of them are in the message,
            in the file's order.
    """
    text = _file_text(path)
    document = located.read(text)
    found = list(document.mistakes)
    file: _File | None = None
    if document.value is not None or not found:  # else the text is no YAML: nothing to check
        body = _with_names(document, found)
        try:
            file = _File.model_validate(body)
        except ValidationError as error:
            found += mistakes.from_pydantic(error, document, known_keys)
        found += _undeclared_datasets(document)
        found += _contradictions(document)
    if file is None or found:
        raise RequestError(mistakes.message(path, found))
    fields = tuple(DatasetConfig.model_fields)
    return StudyFile(
        path=path,
        datasets={
            name: DatasetConfig(**{field: getattr(dataset, field) for field in fields})
            for name, dataset in file.datasets.items()
        },
        dataset_defaults={name: dataset.defaults for name, dataset in file.datasets.items()},
        defaults=file.defaults,
        studies=file.studies,
    )


def study_named(file: StudyFile, name: str) -> Study:
    """Return one study of a file.

    Raises:
        RequestError: no study has this name; the message lists the names.
    """
    if name not in file.studies:
        names = ", ".join(file.studies) or "none"
        raise RequestError(
            f"a study must be declared in {file.path}, got {name!r}; "
            f"{mistakes.suggestion(name, file.studies)}declared studies: {names}"
        )
    return file.studies[name]


_SECTIONS: dict[tuple[str | int, ...], type[Section]] = {
    ("resources",): Resources,
    ("search",): Search,
    ("stop_early",): StopEarly,
    ("stop_early", "asha"): Asha,
    ("stop_early", "hyperband"): Hyperband,
    ("confirm",): Confirm,
}
"""Sections of a study, by the keys that lead to them."""


def known_keys(path: located.Path) -> tuple[str, ...]:
    """Return the keys that the mapping at this path may have; none where names are free."""
    known: Iterable[str] = ()
    match path:
        case ():
            known = _File.model_fields
        case ("datasets", _):
            known = _DeclaredDataset.model_fields
        case ("datasets", _, "synthetic"):
            known = SyntheticConfig.model_fields
        case ("studies", _):
            known = Study.model_fields
        case ("studies", _, *below) if tuple(below) in _SECTIONS:
            known = _SECTIONS[tuple(below)].model_fields
        case ("studies", _, "models"):
            known = MODELS
        case ("studies", _, "models", _):
            known = ModelChoice.model_fields
        case ("studies", _, "models", model, "grid"):
            known = READ.get(str(model), tuple(FACTORS))
        case ("studies", _, "grid", _) | ("studies", _, "models", _, "grid", _):
            known = RANGE_KEYS
        case ("studies", _, "retries"):
            known = Retries.model_fields
        case ("defaults",) | ("datasets", _, "defaults") | ("studies", _, "grid" | "screen"):
            known = FACTORS
    # A data set's and a study's name is the key above its body, never a key inside.
    return tuple(name for name in known if name != "name")


def _with_names(document: located.Located, found: list[located.Mistake]) -> object:
    """Put each data set's and study's key into its body, where the frozen values carry it."""
    if not isinstance(document.value, dict):
        return document.value
    body = dict(document.value)
    for section in ("datasets", "studies"):
        declared = body.get(section)
        if not isinstance(declared, dict):
            continue
        body[section] = {}
        for name, fields in declared.items():
            if isinstance(fields, dict) and "name" in fields:
                path = (section, name, "name")
                text = "unknown key: the name is the key above it; remove name"
                found.append(located.Mistake(document.line(path), located.key(path), text))
            bare = {} if fields is None else fields
            body[section][name] = {**bare, "name": name} if isinstance(bare, dict) else bare
    return body


def _undeclared_datasets(document: located.Located) -> list[located.Mistake]:
    """Compare what studies name with what is declared, also where other mistakes stand."""
    body = document.value if isinstance(document.value, dict) else {}
    declared, studies = body.get("datasets"), body.get("studies")
    if not isinstance(declared, dict) or not isinstance(studies, dict):
        return []
    found = []
    for study, fields in studies.items():
        named = fields.get("datasets") if isinstance(fields, dict) else None
        listed = named if isinstance(named, tuple) else (named,)
        for index, name in enumerate(listed):
            if isinstance(name, str) and name not in declared:
                path = ("studies", study, "datasets", *((index,) if named is listed else ()))
                text = mistakes.unknown_word(
                    name, declared, what="a data set must be declared under datasets"
                )
                found.append(located.Mistake(document.line(path), located.key(path), text))
    return found


def _contradictions(document: located.Located) -> list[located.Mistake]:
    """Compare what each study declares for its models with what they read."""
    body = document.value if isinstance(document.value, dict) else {}
    studies = body.get("studies")
    if not isinstance(studies, dict):
        return []
    return [
        located.Mistake(document.line(path), located.key(path), text)
        for study, fields in studies.items()
        if isinstance(fields, dict)
        for inner, text in contradictions(fields)
        for path in [("studies", study, *inner)]
    ]


def _file_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        step = "name the file with -f FILE, or go to the folder that holds it"
        raise RequestError(f"the studies file must exist, there is no {path}; {step}") from None
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{path}: must be text in UTF-8, byte {error.start} is not; save it as UTF-8"
        ) from None
    except OSError as error:
        raise RequestError(
            f"the studies file must be readable, {path} is not ({error.strerror}); "
            "name another file with -f FILE"
        ) from None
