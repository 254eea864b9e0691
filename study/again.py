"""A trial trained once more, for what results do not keep: its weights, and what they look at."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from model.data.prepare import PreparedData
from model.data.split import HeldOut
from model.errors import RequestError
from model.results import EpochReport, Ranks
from study.trial import Trial

if TYPE_CHECKING:
    from model.attention_maps import AttentionMaps


class Looked(NamedTuple):
    """What the second training gave.

    Attributes:
        maps: where the trained network looks.
        ranks: its ranks of both splits, to compare with those of the first training.
    """

    maps: "AttentionMaps"
    ranks: Sequence[Ranks]


def look(
    trial: Trial,
    data: PreparedData,
    *,
    weights: Path,
    split: HeldOut,
    user: str | None,
    threads: int,
    report: Callable[[EpochReport], None],
) -> Looked:
    """Train the trial, or read its weights if the file has them, and see where it looks.

    Args:
        trial: of MEANTIME.
        data: what its data set was prepared into.
        weights: a checkpoint, kept: the second time nothing is trained.
        split: whose inputs are read.
        user: id of the user whose history is mapped; None chooses one that can be read.
        threads: CPU threads; with those of the first training its numbers come out again.
        report: told of every epoch.

    Raises:
        RequestError: another model, or no such user.
    """
    from model.attention_maps import attention_maps  # noqa: PLC0415 - torch takes seconds
    from model.build import build  # noqa: PLC0415
    from model.checkpoint import identity, load  # noqa: PLC0415
    from model.config import MeantimeConfig  # noqa: PLC0415
    from model.meantime import Meantime  # noqa: PLC0415
    from model.train import train  # noqa: PLC0415

    config = trial.config()
    if not isinstance(config.model, MeantimeConfig):
        raise RequestError(
            f"attention maps show the heads of meantime, {trial.id} is a trial of {trial.model}; "
            "name another trial"
        )
    place = _place(data, user)
    weights.parent.mkdir(parents=True, exist_ok=True)
    result = train(config, data, report=report, threads=threads, checkpoint=weights)
    state = load(weights, identity=identity(config, data.fingerprint), device="cpu")
    assert state is not None  # the training has just written or read it
    model = build(config.model, data, seed=config.seed)
    assert isinstance(model, Meantime)
    model.load_state_dict(state["best"])
    maps = attention_maps(
        model,
        data,
        split,
        evaluation=config.evaluation,
        max_len=config.model.max_len,
        user=place,
    )
    return Looked(maps, result.ranks)


def _place(data: PreparedData, user: str | None) -> int | None:
    """Return where a user stands in the prepared data."""
    if user is None:
        return None
    ids = [str(one) for one in data.user_ids]
    if user not in ids:
        raise RequestError(
            f"a history is one of the {len(ids)} users of {data.name} after filtering, got "
            f"{user!r}; name one such as {', '.join(ids[:3])}"
        )
    return ids.index(user)
