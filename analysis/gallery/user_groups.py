"""For whom an embedding helps: its Shapley value among users who differ in history or time.

The same trials and subsets as in the bars of all users; only the users that enter the means are
chosen. Where the target carries the time of the event before it, its own time tells nothing new.
"""

from typing import NamedTuple

import numpy as np
import plotly.graph_objects as go

from analysis.families import OWN_SEEDS
from analysis.gallery.board import LEVEL, METRIC, Board, boards, uncertainty, with_users
from analysis.gallery.contributions import NOT_IDENTIFIED
from analysis.gallery.means import marked
from analysis.layout import Area, NamedFigure, bare, file_name, new_drawing, write
from analysis.material import Material, NotDrawn
from analysis.shapley import attribution, game
from analysis.style import INK, MUTED, SERIES, TIME_MARK
from analysis.traits import UserGroup, UserTraits, user_groups
from model.config import EMBEDDINGS
from model.errors import RequestError

KIND = "user-groups"
_PANEL = 190
_GAP = 70


class GroupEffect(NamedTuple):
    """One embedding among one group of users: its Shapley value with interval."""

    embedding: str
    value: float
    low: float
    high: float


class GroupEffects(NamedTuple):
    """All embeddings among one group.

    Attributes:
        trait: what the users have in common.
        label: its level.
        n_users: users of the group.
        level: mean of the metric over these users and all subsets.
        effects: one for each embedding, in canonical order.
    """

    trait: str
    label: str
    n_users: int
    level: float
    effects: tuple[GroupEffect, ...]


class UserGroupsData(NamedTuple):
    """The groups of one board, by trait, and the caption."""

    title: str
    groups: tuple[GroupEffects, ...]
    notes: tuple[str, ...]


def user_groups_data(of: Board, traits: UserTraits) -> UserGroupsData | None:
    """Return the effects by group, or None where no Shapley value is identified."""
    users = of.arms[0].values.shape[1]
    if len(traits.history) != users:
        raise RequestError(
            f"the results and the data set must have the same users, got {users} and "
            f"{len(traits.history)}; launch the study again on these data"
        )
    groups = user_groups(traits)
    # A trait whose users are all in one group tells nothing.
    split = [one for one in groups if sum(other.trait == one.trait for other in groups) > 1]
    found = tuple(effects for group in split if (effects := _effects(of, group)) is not None)
    if not found:
        return None
    return UserGroupsData(
        title=f"For whom an embedding helps on {of.group.title}",
        groups=found,
        notes=(
            *of.notes,
            "Shapley value of each embedding among the users of a group, with "
            f"{LEVEL:.0%} intervals; each interval stands alone, unadjusted, and overlapping ones "
            "do not prove that two groups are alike.",
            *uncertainty(of._replace(pool=None, pooling=OWN_SEEDS)),
            f"{TIME_MARK} sees the target's time. Thirds by the events before the test target and "
            "by the days that they span; in brackets users. A trait that all users share is left "
            "out.",
        ),
    )


def _effects(of: Board, group: UserGroup) -> GroupEffects | None:
    arms = [arm._replace(values=arm.values[:, group.members]) for arm in of.arms]
    try:
        found = attribution(game(arms), level=LEVEL, pool=None)
    except RequestError:
        return None
    effects = []
    for one in found.of("shapley"):
        if one.comparison is None:
            return None
        low, high, *_ = one.comparison.interval
        effects.append(GroupEffect(one.members[0], one.value, low, high))
    return GroupEffects(
        trait=group.trait,
        label=group.label,
        n_users=int(group.members.sum()),
        level=float(np.mean([arm.mean for arm in arms])),
        effects=tuple(effects),
    )


def area_of(data: UserGroupsData) -> Area:
    """Return the pixels of a panel for each trait, one above the other."""
    traits = len({group.trait for group in data.groups})
    return Area(height=traits * (_PANEL + _GAP) - _GAP, left=62, right=12, above=46, below=36)


def draw(data: UserGroupsData) -> go.Figure:
    """Draw a panel for each trait; within an embedding, groups stand side by side."""
    figure, area = new_drawing(), area_of(data)
    traits = list(dict.fromkeys(group.trait for group in data.groups))
    for place, trait in enumerate(traits):
        suffix = "" if place == 0 else str(place + 1)
        top = 1 - place * (_PANEL + _GAP) / area.height
        groups = [group for group in data.groups if group.trait == trait]
        axes = {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}
        for step, (group, (colour, _, symbol)) in enumerate(zip(groups, SERIES, strict=False)):
            shift = 0.22 * (step - (len(groups) - 1) / 2)
            values = np.array([effect.value for effect in group.effects])
            figure.add_scatter(
                x=[at + shift for at in range(len(values))],
                y=values,
                error_y={
                    "type": "data",
                    "symmetric": False,
                    "array": np.array([effect.high for effect in group.effects]) - values,
                    "arrayminus": values - np.array([effect.low for effect in group.effects]),
                    "color": colour,
                    "thickness": 1.3,
                    "width": 0,
                },
                mode="markers",
                marker={"symbol": symbol, "size": 8, "color": colour},
                name=f"{group.label} ({group.n_users})",
                hovertext=[_hover(effect, group) for effect in group.effects],
                hovertemplate="%{hovertext}<extra></extra>",
                showlegend=False,
                **axes,
            )
        key = "   ".join(
            f'<span style="color:{colour}">{_GLYPHS[symbol]}</span> {group.label} ({group.n_users})'
            for group, (colour, _, symbol) in zip(groups, SERIES, strict=False)
        )
        title = f"<b>{trait}</b>, gain in test NDCG@10"
        write(figure, title, x=0, y=top, down=-33, right=-46, color=INK)
        write(figure, key, x=0, y=top, down=-15, right=-46, size=11)
        figure.add_shape(
            type="line", xref=f"x{suffix} domain", yref=f"y{suffix}", x0=0, x1=1, y0=0, y1=0,
            line={"color": MUTED, "width": 1}, layer="below",
        )  # fmt: skip
        figure.update_layout(
            {
                f"xaxis{suffix}": {
                    "tickvals": list(range(len(EMBEDDINGS))),
                    "ticktext": [marked(name) for name in EMBEDDINGS],
                    "range": [-0.5, len(EMBEDDINGS) - 0.5],
                    "anchor": f"y{suffix}",
                    "ticks": "",
                },
                f"yaxis{suffix}": {
                    "domain": [max(top - _PANEL / area.height, 0.0), top],
                    "anchor": f"x{suffix}",
                    "showgrid": True,
                },
            }
        )
    return bare(figure, area)


_GLYPHS = {"circle": "●", "square": "■", "diamond": "◆"}


def _hover(effect: GroupEffect, group: GroupEffects) -> str:
    return (
        f"<b>{effect.embedding.capitalize()}</b>, {group.trait} {group.label}<br>"
        f"{effect.value:+.4f} [{effect.low:+.4f}, {effect.high:+.4f}]<br>"
        f"{group.n_users} users, NDCG@10 {group.level:.4f} over all subsets"
    )


def figures(material: Material) -> list[NamedFigure]:
    """Return a figure for each data set and problem.

    Raises:
        NotDrawn: no Shapley value is identified, or the data are not on this machine.
    """
    drawn, reasons = [], [NOT_IDENTIFIED]
    for of in boards(material):
        fingerprint = of.group.cells["fingerprint"].dropna()
        try:
            data = user_groups_data(of, material.traits(str(fingerprint.iloc[0])))
        except RequestError as error:
            reasons.append(str(error))
            continue
        if data is None:
            continue
        rows, query = material.rows(of.group, METRIC, "fingerprint")
        drawn.append(
            NamedFigure(
                kind=KIND,
                name=file_name(KIND, of.group.dataset, *(f"{k}-{v}" for k, v in of.group.held)),
                title=data.title,
                caption=data.notes,
                page=draw(data),
                area=area_of(data),
                rows=with_users(rows, material),
                query=query,
            )
        )
    if not drawn:
        raise NotDrawn("; ".join(dict.fromkeys(reasons)))
    return drawn
