"""The user's config folder, and how Hydra reads the files in it and in other added folders."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from hydra._internal.core_plugins import file_config_source
from hydra._internal.sources_registry import SourcesRegistry
from hydra.plugins.config_source import ConfigResult

from hydra_plugins.mxfp8_launcher._config_file import ConfigFile, read_config_file
from jobs.errors import ConfigFileError, InvalidValue

VARIABLE = "MXFP8_CONFIG_DIR"
MAX_INCLUDED = 100
_SHIPPED = "main"  # Hydra's name for the folder of the program itself


def user_config_folder() -> Path | None:
    """Return the folder with the user's own shape/, gpu/, cluster/ and grid/ files.

    It is the folder in MXFP8_CONFIG_DIR, which must exist, or `mxfp8-attention` in the user's
    configuration folder, if that exists.
    """
    variable = os.environ.get(VARIABLE)
    if variable:
        folder = Path(os.path.expanduser(variable))
        if not folder.is_dir():
            remedy = "create it or unset the variable"
            raise InvalidValue(VARIABLE, "name an existing folder", variable, remedy)
        return folder
    home = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    folder = Path(os.path.expanduser(home)) / "mxfp8-attention"
    try:
        return folder if folder.is_dir() else None
    except OSError:  # no permission to look into the home folder
        return None


def check_hidden(shipped: Path, words: Sequence[str]) -> None:
    """Refuse a file of the user that a file of the same name in an earlier folder hides.

    Args:
        shipped: The folder conf/ of the tool, which comes first.
        words: Words for Hydra, of which `--config-dir` is used.
    """
    added = [Path(word.partition("=")[2]) for word in words if word.startswith("--config-dir=")]
    own = user_config_folder()
    groups = ["", *sorted(entry.name for entry in shipped.iterdir() if entry.is_dir())]
    first: dict[tuple[str, str], Path] = {}
    for folder in [shipped, *added, *([own] if own else [])]:
        for group in groups:
            for path in sorted((folder / group).glob("*.yaml")):
                remedy = "give it another name"
                if not group and path.stem.startswith("schema_") and folder != shipped:
                    raise ConfigFileError(path, "schema_ names are reserved", remedy)
                before = first.setdefault((group, path.name), path)
                if before.resolve() != path.resolve():
                    raise ConfigFileError(path, f"hidden by {before}", remedy)


class FileConfigSource(file_config_source.FileConfigSource):
    """A folder of configuration files; those that a user adds are checked before Hydra composes.

    The name is that of Hydra's class, which it replaces.
    """

    def load_config(self, config_path: str) -> ConfigResult:
        """Read the file of that name below the folder."""
        path = self._file(config_path)
        if self.provider == _SHIPPED or not path.exists():
            return super().load_config(config_path)
        self._check_cycle(config_path)
        file = read_config_file(path)
        return ConfigResult(
            config=file.config,
            path=f"{self.scheme()}://{self.path}",
            provider=self.provider,
            header=file.header,
        )

    def _file(self, name: str) -> Path:
        return Path(self.path, self._normalize_file_name(name))

    def _check_cycle(self, name: str) -> None:
        """Refuse files that include each other, or too many of them."""
        trails: list[tuple[str, ...]] = [(name,)]
        read = 0
        while trails:
            trail = trails.pop()
            path = self._file(trail[-1])
            if trail[-1] in trail[:-1]:
                chain = " -> ".join(trail)
                raise ConfigFileError(path, f"includes itself: {chain}", "remove one of them")
            if not path.is_file():
                continue  # a shipped file, or one that Hydra will report as missing
            read += 1
            if read > MAX_INCLUDED:
                problem = f"includes more than {MAX_INCLUDED} files"
                raise ConfigFileError(self._file(name), problem)
            file = read_config_file(path)
            trails += [(*trail, other) for other in _absolute(trail[-1], file)]


def _absolute(name: str, file: ConfigFile) -> Iterator[str]:
    """Yield the included files by their names below the folder."""
    for other in file.included:
        joined = posixpath.join("/", posixpath.dirname(name), other)
        yield posixpath.normpath(joined).lstrip("/")


def register() -> None:
    """Let Hydra read every folder by this class."""
    SourcesRegistry.instance().types["file"] = FileConfigSource
