"""The published runs: the bundles of a folder of contrib/, in a database that is removed at the end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path

import pandas as pd
from sqlalchemy import Engine

from tmflow.analysis.run_table import Loaded
from tmflow.analysis.versions import origins
from tmflow.base.errors import BadInput
from tmflow.base.text import listed
from tmflow.claims.origins import Judged, verdicts
from tmflow.claims.selection import usable
from tmflow.contributions.importer import import_bundle
from tmflow.spec.trial import Evidence
from tmflow.store import engine, platform_queries, queries
from tmflow.store.run_filter import RunFilter


class Published:
    """The runs of the bundles of one machine, which are pooled: one study may be in several bundles."""

    def __init__(self, source: Engine, platform: str) -> None:
        self.source, self.platform = source, platform
        self._tables: dict[tuple[str, Evidence], Loaded] = {}
        self._verdicts: dict[Evidence, list[Judged]] = {}

    @cached_property
    def runs(self) -> pd.DataFrame:
        """All runs at full scale, of any status and evidence."""
        return queries.runs(self.source, RunFilter(platforms=[self.platform], scales=["full"], joined=True))

    def tables(self, experiment: str, evidence: Evidence) -> Loaded:
        """The runs that a claim on this experiment would use, of any status: at full scale, on MNIST, of one origin."""
        key = (experiment, evidence)
        if key not in self._tables:
            eligible = usable(self.runs[self.runs["experiment"] == experiment], evidence, "any")
            parts = origins(eligible, experiment)
            runs = (parts[0].runs if parts else eligible).reset_index(drop=True)
            only = RunFilter(
                experiments=[experiment], platforms=[self.platform], scales=["full"], evidences=[evidence],
                statuses=["ok"], joined=True,
            )  # fmt: skip
            self._tables[key] = queries.records(self.source, only)._replace(runs=runs)
        return self._tables[key]

    def verdicts(self, evidence: Evidence) -> list[Judged]:
        """The verdict on each claim by this kind of evidence."""
        if evidence not in self._verdicts:
            self._verdicts[evidence] = verdicts(self.source, evidence, self.platform, joined=True)
        return self._verdicts[evidence]


@contextmanager
def published_machines(contrib: Path, machines: Iterable[str]) -> Iterator[dict[str, Published]]:
    """The published runs of each of these folders of contrib/, by its name. Raises BadInput as `published_runs`."""
    with ExitStack() as stack:
        yield {machine: stack.enter_context(published_runs(contrib / machine)) for machine in machines}


@contextmanager
def published_runs(folder: Path) -> Iterator[Published]:
    """Import the bundles of a folder into a temporary database, which is removed on exit.

    Raises BadInput if the folder has no bundle, if the bundles have runs of several machines, and as `import_bundle`.
    """
    bundles = sorted(folder.glob("*.zip"))
    if not bundles:
        raise BadInput(f"{folder} has no bundle (*.zip), and the numbers of the docs pages come from its bundles.")
    with tempfile.TemporaryDirectory(prefix="tmflow-pages-") as temporary:
        url = engine.sqlite_url(Path(temporary) / "published.db")
        for bundle in bundles:
            import_bundle(url, bundle)
        source = engine.open_reader(url)
        try:
            platforms = list(platform_queries.platforms(source, joined=True)["platform"])
            if len(platforms) != 1:
                raise BadInput(
                    f"the bundles of {folder} should have runs of one machine, but have those of {listed(platforms)}."
                )
            yield Published(source, str(platforms[0]))
        finally:
            source.dispose()
