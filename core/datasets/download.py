"""Fetching published files into `data.root`, with pooch, which an extra brings.

A file is kept apart until its checksum is right, then moved to its place. A fetch that was interrupted begins again:
pooch does not go on where it stopped.
"""

from __future__ import annotations

import fcntl
import importlib.util
import tarfile
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from core.datasets.options import ImageOptions
from core.errors import ConfigError, DataError


@dataclass(kw_only=True)
class PublishedOptions(ImageOptions):
    """What data sets take whose files are published."""

    root: str | None = None  # folder of the files
    download: bool = False  # fetch what is missing into root
    url: str | None = None  # where the files are fetched; null: where they are published

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.url is not None and not self.download:
            raise ConfigError(
                "'data.url' would be without effect.", received=self.url, remedy="Set data.download=true too."
            )


@dataclass(frozen=True)
class Published:
    """Where files are published.

    Attributes:
        url: What comes before a file's name.
        checksums: By file name, of the file as it is fetched: "sha256:" and the digits.
    """

    url: str
    checksums: Mapping[str, str]


def fetch(name: str, options: PublishedOptions, published: Published, is_there: Callable[[], bool]) -> None:
    """Fetches files into `options.root`; archives (.tar.gz) are unpacked there and removed. One process at a time.

    Args:
        name: What the config calls the data set.
        options: `root` is needed.
        published: The files; those that are there already are not fetched.
        is_there: Whether another process fetched them while this one waited.

    Raises:
        DataError: pooch is not installed, there is no root, a file cannot be fetched, its checksum is wrong, or an
            archive would write outside root.
    """
    if options.root is None:
        raise DataError(f"data={name} has no folder to fetch into.", remedy="Set data.root.")
    if importlib.util.find_spec("pooch") is None:
        raise DataError("data.download needs pooch, which is not installed.", remedy="pip install 'anycard[download]'")
    root = Path(options.root).expanduser().absolute()
    base = (options.url or published.url).rstrip("/")
    try:
        root.mkdir(parents=True, exist_ok=True)
        with (root / ".download.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            for file, checksum in () if is_there() else published.checksums.items():
                _retrieve(f"{base}/{file}", root, file, checksum)
                if file.endswith(".tar.gz"):
                    _unpack(root / file, root)
    except OSError as error:
        raise DataError(
            f"Files of data={name} cannot be fetched.",
            received=f"{type(error).__name__}: {error}",
            remedy="Look at the network and at data.url, or fetch the files by hand and set data.root to their folder.",
        ) from error


def _retrieve(url: str, root: Path, file: str, checksum: str) -> None:
    import pooch  # type: ignore[import-untyped]

    try:
        pooch.retrieve(url, known_hash=checksum, fname=file, path=root)
    except ValueError as error:
        raise DataError(
            f"{url} is not the file that was published; nothing was kept.",
            received=str(error),
            allowed=checksum,
            remedy="Try again; if it stays so, set data.url to another place that has the file.",
        ) from None


def _unpack(archive: Path, root: Path) -> None:
    """Unpacks an archive apart, every member checked to stay there, moves what it holds to `root`, and removes it."""
    try:
        with tarfile.open(archive, "r:gz") as tar, tempfile.TemporaryDirectory(dir=root) as apart:
            tar.extractall(apart, filter="data")
            for path in Path(apart).iterdir():
                if not (root / path.name).exists():
                    path.rename(root / path.name)
    except tarfile.TarError as error:
        raise DataError(f"{archive} cannot be unpacked.", received=f"{type(error).__name__}: {error}") from None
    archive.unlink()
