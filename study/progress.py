"""The live picture of a launch: done, running, pending, failed, time left, best validation."""

import time
from collections.abc import Callable

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from model.results import selected
from study.durations import duration
from study.execute import Censored, Completed, EpochEnded, Event, Failed, Started
from study.plan import Plan
from study.space import Value
from study.trial import Trial

SHOWN_RUNNING = 8


class Progress:
    """Follows the events of a launch; on a terminal it repaints, elsewhere it prints lines.

    Use as a context manager and pass `progress` itself as the launch's `watch`.

    Args:
        console: where to draw.
        total: trials that the plan asks for.
        complete: trials that were complete before this launch.
        label: names a trial for a person, by its id.
        opening: said when the first trial starts, since a dispatcher may yet refuse.
        slots: how many trials are expected to train at once, for the estimate of time left.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        console: Console,
        *,
        total: int,
        complete: int,
        label: Callable[[str], str],
        opening: str = "",
        slots: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._console = console
        self._total = total
        self._complete_before = complete
        self._label = label
        self._opening = opening
        self._slots = max(1, slots)
        self._clock = clock
        self._started = clock()
        self._running: dict[str, tuple[float, str]] = {}
        self._seconds: list[float] = []
        self._censored = 0
        self._failed: dict[str, Failed] = {}
        self._best: tuple[float, str] | None = None
        self._live: Live | None = None

    def __enter__(self) -> "Progress":
        if self._console.is_terminal:
            self._live = Live(
                get_renderable=self._picture, console=self._console, refresh_per_second=4
            )
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def __call__(self, event: Event) -> None:
        """Take one event into the picture."""
        now = self._clock()
        if self._opening:
            self._console.print(self._opening, markup=False, highlight=False)
            self._opening = ""
        match event:
            case Started(trial_id):
                self._running[trial_id] = (now, "starting")
                self._failed.pop(trial_id, None)
            case EpochEnded(trial_id, report):
                began, _ = self._running.get(trial_id, (now, ""))
                value = selected(report.metrics)
                said = "" if value is None else f", validation NDCG@10 {value:.4f}"
                self._running[trial_id] = (began, f"epoch {report.epoch}{said}")
                if value is not None and (self._best is None or value > self._best[0]):
                    self._best = (value, trial_id)
            case Completed(trial_id, result):
                self._running.pop(trial_id, None)
                self._seconds.append(result.seconds)
                value = selected(result.metrics)
                self._say(
                    f"{self._label(trial_id)}: validation NDCG@10 {value or 0:.4f} at epoch "
                    f"{result.best_epoch} of {result.epochs}, {result.seconds:.1f} s"
                )
            case Censored(trial_id, epoch):
                self._running.pop(trial_id, None)
                self._censored += 1
                self._say(f"{self._label(trial_id)}: stopped early after epoch {epoch}")
            case Failed(trial_id, failure, message):
                self._running.pop(trial_id, None)
                self._failed[trial_id] = event
                self._say(f"{self._label(trial_id)}: {failure}: {message}")

    @property
    def failed(self) -> dict[str, Failed]:
        """The last failure of each trial that has failed and was not begun again."""
        return self._failed

    @property
    def done(self) -> int:
        """Trials that need nothing more, those of earlier launches included."""
        return self._complete_before + len(self._seconds) + self._censored

    @property
    def seconds(self) -> float:
        """Seconds since this launch began to dispatch."""
        return self._clock() - self._started

    @property
    def seconds_left(self) -> float | None:
        """Expected seconds until the last trial ends, from the mean of the finished ones."""
        if not self._seconds:
            return None
        pending = self._total - self.done - len(self._failed)
        mean = sum(self._seconds) / len(self._seconds)
        now = self._clock()
        under_way = sum(min(now - began, mean) for began, _ in self._running.values())
        return max(0.0, pending * mean - under_way) / self._slots

    def _say(self, line: str) -> None:
        self._console.print(f"[{self.done}/{self._total}] {line}", markup=False, highlight=False)

    def _picture(self) -> Group:
        counts = Text()
        pending = self._total - self.done - len(self._running) - len(self._failed)
        counts.append(f"{self.done} done", style="green")
        counts.append(f"  {len(self._running)} running  {max(0, pending)} pending  ")
        counts.append(f"{len(self._failed)} failed", style="red" if self._failed else "")
        left = self.seconds_left
        counts.append("  time left " + ("not known yet" if left is None else duration(left)))
        rows = Table.grid(padding=(0, 2))
        for trial_id, (began, state) in list(self._running.items())[:SHOWN_RUNNING]:
            rows.add_row(Text(self._label(trial_id)), Text(state), duration(self._clock() - began))
        if self._best is not None:
            value, trial_id = self._best
            rows.add_row(Text(f"best validation NDCG@10 so far: {value:.4f}"), "", "")
            rows.add_row(Text("  " + self._label(trial_id)), "", "")
        bar = ProgressBar(total=max(1, self._total), completed=self.done, width=60)
        return Group(bar, counts, rows)


def trial_name(trial: Trial, plan: Plan) -> str:
    """Name a trial by what tells it from the plan's others: `ml-100k Day+Pos hidden=64 seed 1`."""
    factors = trial.factors
    values = (f"{n}={_short(factors[n])}" for n in plan.varying if factors.get(n) is not None)
    return " ".join([trial.dataset, trial.title, *values, f"seed {trial.seed}"])


def _short(value: Value | None) -> str:
    """Write a value in at most four digits: what a search draws has sixteen."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
