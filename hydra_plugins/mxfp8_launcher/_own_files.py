"""The folders that Hydra reads: what a user's own files hold is checked before Hydra sees it."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from pathlib import Path

from hydra._internal.core_plugins import file_config_source
from hydra._internal.sources_registry import SourcesRegistry
from hydra.plugins.config_source import ConfigResult

from hydra_plugins.mxfp8_launcher._own_yaml import OwnFile, read_own
from jobs.errors import UsageError

MAX_INCLUDED = 100
_SHIPPED = "main"  # Hydra's word for the folder that a program brings


class FileConfigSource(file_config_source.FileConfigSource):
    """Hydra's folder of files, by its name; one that a user adds is not trusted."""

    def load_config(self, config_path: str) -> ConfigResult:
        """Reads a file.

        Args:
            config_path: Its name below the folder.

        Returns:
            What it holds.

        Raises:
            UsageError: A file of the user's own that cannot be composed.
        """
        path = self._file(config_path)
        if self.provider == _SHIPPED or not path.exists():
            return super().load_config(config_path)
        self._refuse_cycle(config_path)
        own = read_own(path)
        return ConfigResult(
            config=own.config,
            path=f"{self.scheme()}://{self.path}",
            provider=self.provider,
            header=own.header,
        )

    def _file(self, name: str) -> Path:
        return Path(self.path, self._normalize_file_name(name))

    def _refuse_cycle(self, name: str) -> None:
        """Refuses files that include each other in a circle, or too many of them."""
        trails: list[tuple[str, ...]] = [(name,)]
        read = 0
        while trails:
            trail = trails.pop()
            path, chain = self._file(trail[-1]), " -> ".join(trail)
            if trail[-1] in trail[:-1]:
                raise UsageError(f"{path} must not include itself, got {chain}; take one out")
            if not path.is_file():
                continue  # a shipped one, or one that Hydra will miss
            read += 1
            if read > MAX_INCLUDED:
                raise UsageError(
                    f"{self._file(name)} must include at most {MAX_INCLUDED} files, got more"
                )
            trails += [(*trail, other) for other in _absolute(trail[-1], read_own(path))]


def _absolute(name: str, own: OwnFile) -> Iterator[str]:
    """What a file includes, by the names below the folder."""
    for other in own.included:
        joined = posixpath.join("/", posixpath.dirname(name), other)
        yield posixpath.normpath(joined).lstrip("/")


def register() -> None:
    """Reads every folder so; Hydra registers none of the same name over it."""
    SourcesRegistry.instance().types["file"] = FileConfigSource
