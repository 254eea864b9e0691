"""Where interrupted trainings are kept: one file per trial that is not complete, in one place.

The place is a folder, or a cloud URL that Ray's file system layer (pyarrow) reads: s3://, gs://,
hdfs://, file://. A folder is written to directly. For a URL a worker trains beside a local file,
fetched before and put there after epochs. The launch that recorded a result removes the file.
"""

import hashlib
import logging
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from model.errors import RequestError

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_log = logging.getLogger(__name__)

SUFFIX = ".checkpoint"

MOST_OF_TIME = 0.05
"""Share of the time since the last upload that the next one may take."""


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """A folder or cloud URL for the checkpoints of many trials; travels to workers.

    Attributes:
        storage: an absolute path, or a URL with `://`.
    """

    storage: str

    @property
    def _remote(self) -> bool:
        return "://" in self.storage

    def prepare(self) -> None:
        """Make sure that the place can be written to; the launch asks before it dispatches.

        Raises:
            RequestError: it cannot.
        """
        try:
            if not self._remote:
                Path(self.storage).mkdir(parents=True, exist_ok=True)
                with tempfile.TemporaryFile(dir=self.storage):
                    return
            filesystem, folder = _opened(self.storage)
            filesystem.create_dir(folder, recursive=True)
            with filesystem.open_output_stream(f"{folder}/writable") as stream:
                stream.write(b"")
            filesystem.delete_file(f"{folder}/writable")
        except (OSError, ValueError) as error:
            raise RequestError(
                f"checkpoints must go where this machine may write, got {self.storage}: {error}; "
                "give another `storage` in the study, or leave it out"
            ) from error

    def of(self, trial_id: str) -> "Checkpoint":
        """Return the trial's checkpoint, fetched if there is one; close it after training."""
        if not self._remote:
            return Checkpoint(Path(self.storage) / f"{trial_id}{SUFFIX}")
        return _Remote(self.storage, f"{trial_id}{SUFFIX}")

    def remove(self, trial_ids: Iterable[str]) -> None:
        """Remove the checkpoints of these trials, where there are any."""
        if not self._remote:
            for trial_id in trial_ids:
                for name in _names(trial_id):
                    (Path(self.storage) / name).unlink(missing_ok=True)
            return
        filesystem, folder = _opened(self.storage)
        for trial_id in trial_ids:
            for name in _names(trial_id):
                with suppress(FileNotFoundError):
                    filesystem.delete_file(f"{folder}/{name}")

    def kept(self) -> list[str]:
        """Return the ids of the trials that have a checkpoint."""
        if not self._remote:
            names = [path.name for path in Path(self.storage).glob(f"*{SUFFIX}")]
        else:
            from pyarrow.fs import FileSelector  # noqa: PLC0415

            filesystem, folder = _opened(self.storage)
            found = filesystem.get_file_info(FileSelector(folder, allow_not_found=True))
            names = [info.base_name for info in found if info.base_name.endswith(SUFFIX)]
        return sorted(name.removesuffix(SUFFIX) for name in names)


def place(
    storage: str | None, *, database: Path | None, url: str, on_cluster: bool, data: Path
) -> Checkpoints | None:
    """Return where a launch keeps checkpoints, or None if nowhere.

    A launch on this machine keeps them without being asked, so that one that was killed goes on
    from the last epochs, not from the first. The nodes of a cluster need a place that all of them
    reach, and only the study knows one.

    Args:
        storage: what the study declares; relative to the working folder.
        database: the results database's file; they lie beside it.
        url: the results database, where it is no file; then they lie with the data sets.
        on_cluster: whether trials run on other machines.
        data: the folder of data sets.
    """
    if storage is not None:
        return Checkpoints(storage if "://" in storage else str(Path(storage).absolute()))
    if on_cluster:
        return None
    if database is not None:
        return Checkpoints(str(database.with_name(f"{database.name}.checkpoints")))
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    return Checkpoints(str(data.absolute() / "checkpoints" / name))


class Checkpoint:
    """One trial's file, where it is kept itself.

    Attributes:
        path: where the training writes and reads it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def keep(self) -> None:
        """Called after an epoch; the file lies already where it belongs."""

    def close(self) -> None:
        """Called when the attempt ended."""


class _Remote(Checkpoint):
    """A file that is kept elsewhere; the local one lives as long as the attempt."""

    def __init__(
        self, storage: str, name: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="meantime-checkpoint-"))
        super().__init__(self._folder / name)
        self._filesystem, folder = _opened(storage)
        self._place, self._clock = f"{folder}/{name}", clock
        self._kept_version, self._kept_at, self._took = 0, clock(), 0.0
        self._fetch()

    def _fetch(self) -> None:
        try:
            with self._filesystem.open_input_stream(self._place) as stream:
                self.path.write_bytes(stream.read())
        except FileNotFoundError:
            return
        self._kept_version = self.path.stat().st_mtime_ns

    def keep(self) -> None:
        """Put the file to its place, if it is new and the last time was long enough ago.

        Where that fails the training goes on: a checkpoint saves time, no result depends on it.
        """
        try:
            self._put()
        except OSError as error:
            _log.warning("the checkpoint was not put to %s: %s", self._place, error)

    def _put(self) -> None:
        if not self.path.exists() or self.path.stat().st_mtime_ns == self._kept_version:
            return
        started = self._clock()
        if (started - self._kept_at) * MOST_OF_TIME < self._took:
            return
        self._kept_version = self.path.stat().st_mtime_ns
        partial = f"{self._place}.partial"
        with self._filesystem.open_output_stream(partial) as stream:
            stream.write(self.path.read_bytes())
        self._filesystem.move(partial, self._place)
        self._kept_at = self._clock()
        self._took = self._kept_at - started

    def close(self) -> None:
        """Remove the local file."""
        shutil.rmtree(self._folder, ignore_errors=True)


def _opened(storage: str) -> "tuple[FileSystem, str]":
    from pyarrow.fs import FileSystem  # noqa: PLC0415 - slow to import, and seldom needed

    opened: tuple[Any, str] = FileSystem.from_uri(storage)
    filesystem, folder = opened
    return filesystem, folder.rstrip("/")


def _names(trial_id: str) -> tuple[str, str]:
    """Return the names of a trial's checkpoint and of one that a crash left half written."""
    return f"{trial_id}{SUFFIX}", f"{trial_id}{SUFFIX}.partial"
