"""Screenshots of every page, wide and narrow, light and dark: python -m tests.portal.screenshots FOLDER

Uses the database in TMFLOW_DB_URL, or else results/study.db. Look for overlaps, clipped or empty parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from urllib.parse import urlencode

import pandas as pd
from playwright.sync_api import Browser

from tests.portal.chromium import SIZES, chromium, settled
from tests.portal.serving import serve
from tests.support import command_line
from tmflow.base.paths import results_dir
from tmflow.store import queries
from tmflow.store.engine import open_reader, url_from_env
from tmflow.store.run_filter import RunFilter


def views(counts: pd.DataFrame, uid: str) -> dict[str, str]:
    """The address of each view by name; `counts` as `queries.counts`, `uid` of the run to show."""
    platforms = counts.groupby("platform")["n_runs"].sum().sort_values(ascending=False).index
    transactions = counts[counts["evidence"] == "emulated"].nlargest(1, "n_runs")
    evidences = {"metric": "accuracy", "evidence": ["measured", "emulated"]}
    found = {
        "overview": "",
        "figures": "figures",
        "figure": "figures?figure=4.10",
        "figure-aborts": "figures?figure=4.3",
        "explore": "explore",
        "compare": "compare",
        "advise": "advise",
        "trends": "trends",
        "claims": "claims",
        "claim": "claims?claim=deep-htm-over-lock",
        "claim-causes": "claims?claim=softmax-capacity-a-main-cause",
        "platforms": "platforms",
        "platform": f"platforms?{urlencode({'platform': platforms[0]})}",
        "runs": "runs",
        "runs-without-result": "runs?status=failed&status=unsupported",
        "run": f"runs?{urlencode({'run': uid})}",
        "contribute": "contribute",
        "method": "method",
        "method-page": "method?page=protocol",
        "glossary": "method?page=glossary",
        "wrong": "explore?experiment=nope&metric=nope",
    }
    for of in transactions.to_dict("records"):
        view = {"experiment": of["experiment"], "scale": of["scale"], "platform": of["platform"]}
        found["explore-evidences"] = f"explore?{urlencode({**view, **evidences}, doseq=True)}"
        found["explore-causes"] = f"explore?{urlencode({**view, 'metric': 'causes', 'evidence': 'emulated'})}"
    if len(platforms) > 1:
        sides = {"a.platform": platforms[0], "b.platform": platforms[1]}
        found["explore-platforms"] = f"explore?{urlencode({'platform': list(platforms[:3])}, doseq=True)}"
        found["compare-platforms"] = f"compare?{urlencode(sides)}"
    return found


def take(browser: Browser, address: str, shown: Mapping[str, str], folder: Path) -> None:
    """A full-page screenshot of each view, named by view, size and scheme."""
    for (size, viewport), scheme in product(SIZES.items(), ("light", "dark")):
        context = browser.new_context(viewport=viewport, color_scheme=scheme)
        page = context.new_page()
        for name, view in shown.items():
            page.goto(f"{address}/{view}")
            page.get_by_role("heading", level=1).first.wait_for()
            settled(page)
            # Streamlit scrolls inside the window, so the window is made as high as the page.
            height = page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
            page.set_viewport_size({"width": viewport["width"], "height": min(int(height) + 80, 6000)})
            settled(page)
            page.screenshot(path=folder / f"{name}-{size}-{scheme}.png")
            page.set_viewport_size(viewport)
        context.close()


if __name__ == "__main__":
    parser = command_line.parser()
    parser.add_argument("folder", type=command_line.folder, help="where the pictures are written")
    parser.add_argument("views", nargs="*", metavar="VIEW", help="only these")
    asked = parser.parse_args()
    url = url_from_env(results_dir() / "study.db")
    reader = open_reader(url)
    its_views = views(queries.counts(reader), queries.page(reader, RunFilter(statuses=("ok",)), rows=1)["uid"].iloc[0])
    its_views = {name: view for name, view in its_views.items() if name in asked.views or not asked.views}
    with serve(url.render_as_string(hide_password=False)) as portal, chromium() as browser:
        take(browser, portal, its_views, asked.folder)
