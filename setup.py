"""A wheel carries the sources of the native libraries, which its first use compiles; all else is in pyproject.toml."""

from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

NATIVE = Path("native_ops")
PARTS = ("CMakeLists.txt", "cmake/*", "include/**/*", "src/**/*")  # without the tests, and what belongs to the study


class BuildWithNativeSources(build_py):
    """Copies the sources into the package. An editable installation uses those of the checkout."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            for source in self._native_sources():
                target = Path(self.build_lib, "tmflow", source)
                self.mkpath(str(target.parent))
                self.copy_file(str(source), str(target))

    def get_source_files(self) -> list[str]:
        """For a distribution of the sources."""
        return [*super().get_source_files(), *map(str, self._native_sources())]

    def _native_sources(self) -> list[Path]:
        return sorted(path for part in PARTS for path in NATIVE.glob(part) if path.is_file())


setup(cmdclass={"build_py": BuildWithNativeSources})
