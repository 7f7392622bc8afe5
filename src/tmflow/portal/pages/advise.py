"""The page "Advise": sizes and workers in, a predicted ranking of strategies out, with its error."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from shlex import quote
from typing import cast, get_args

import pandas as pd
import streamlit as st

from tmflow.advice.cases import LOCK, MIN_ROUNDS, MIN_STRATEGIES, Case, cases_of, guaranteeing
from tmflow.advice.cost_model import MIN_CASES, Workers
from tmflow.advice.forecast import Forecast, Forecaster
from tmflow.advice.forecast_text import (
    advice_sentences,
    bounds_of,
    error_sentence,
    left_out_sentence,
    name_workers,
    uncovered_sentence,
    workers_sentence,
)
from tmflow.analysis import stats
from tmflow.base.errors import BadInput
from tmflow.base.text import interval, markdown
from tmflow.charts.captions import REVISION, Caption
from tmflow.charts.dot_plots import draw_predictions
from tmflow.charts.figures import Figure, slug
from tmflow.native.automatic import DEFAULT, Consistency
from tmflow.portal.figure_view import KEPT, show_chart, show_frame
from tmflow.portal.filter_widgets import (
    SENTENCE,
    WIDTH,
    choose,
    go_to,
    share_choices,
    text_box,
    url_parameters,
    warn_unknown,
)
from tmflow.portal.links import show_commands
from tmflow.portal.study_data import Identity, Study
from tmflow.portal.url_state import ALL, Choice, Defaults, Key, resolve
from tmflow.spec.factors import MAX_STEP_US
from tmflow.spec.shapes import Shape, parse_shapes, shapes_text
from tmflow.store import queries
from tmflow.store.run_filter import RunFilter

SCALES = ("full", "adhoc")
SHAPES, STEP_US = "784x512,512,512x10,10", 1000.0
LEAST_US, MOST_US = 0.1, float(MAX_STEP_US)  # as `tmflow advise` allows
LONGEST_SHAPES = 2000  # characters
NEAREST = 8
MEASURE = ".venv/bin/tmflow advise"
CONSISTENCY = Choice(Key.CONSISTENCY, "Consistency", tuple(name for name in get_args(Consistency) if name != "none"))
USUAL: Defaults = {Key.CONSISTENCY: (DEFAULT,)}
TITLE = "Predicted time of a step over that of lock"
OVERSUBSCRIBED = " oversubscribed"


def show_advice(study: Study) -> None:
    """Show the inputs, and the forecast for those of the URL, or why there is none."""
    shapes, step_us = _choose_sizes()
    consistency = cast(
        Consistency, resolve([CONSISTENCY], pd.DataFrame(), url_parameters(), USUAL).one(Key.CONSISTENCY)
    )
    forecasters = _forecasters(study, consistency)
    if not forecasters:
        choose([CONSISTENCY], pd.DataFrame(), defaults=USUAL)
        _show_lack(shapes, step_us, consistency)
        return
    platform, workers = _choose_runs(study, forecasters)
    if shapes is None:
        return
    elements = sum(shape.updated for shape in shapes)
    forecast = forecasters[platform].forecast(elements, step_us, workers)
    _show_forecast(study, forecast, consistency, platform)
    st.header("The measured models nearest to yours")
    _show_nearest(study, forecast)
    st.header("Measure it")
    _show_commands(shapes, step_us, workers, consistency)


def _choose_sizes() -> tuple[list[Shape] | None, float]:
    """Show the boxes for the shapes and the time of a step; None, with an error at the place, for what is no shape."""
    text = st.query_params.get(Key.SHAPES, SHAPES)
    step_us = _requested_us()
    with st.container(horizontal=True):
        text_box(
            Key.SHAPES, "Shapes of the variables", text, width=SENTENCE, max_chars=LONGEST_SHAPES,
            help="Such as 784x512,512 for the weights and the bias of a layer. Of an embedding of which a step updates "
            "64 rows: 100000x16:64.",
        )  # fmt: skip
        _step_box(step_us)
    share_choices({Key.STEP_US: (_text(step_us),)})
    try:
        if len(text) > LONGEST_SHAPES:
            raise BadInput(f"the shapes have {len(text):,} characters, more than {LONGEST_SHAPES:,}.")
        shapes = parse_shapes(text)
    except BadInput as error:
        st.error(markdown(error))
        return None, step_us
    share_choices({Key.SHAPES: (text,)})
    return shapes, step_us


def _requested_us() -> float:
    """The microseconds of the URL, or the default; warn if they are no number in the range."""
    given = st.query_params.get(Key.STEP_US)
    if given is None:
        return STEP_US
    try:
        value = float(given)
    except ValueError:
        value = math.nan
    if LEAST_US <= value <= MOST_US:
        return value
    allowed = f"from {LEAST_US:g} to {MOST_US:,.0f} µs: showing {STEP_US:g}."
    warn_unknown("the time of a step", given, f"but it is a number {allowed}")
    return STEP_US


def _step_box(step_us: float) -> None:
    def write() -> None:
        chosen = st.session_state[Key.STEP_US]
        go_to({} if chosen is None else {Key.STEP_US: [_text(chosen)]}, [Key.STEP_US])

    st.session_state[Key.STEP_US] = step_us
    st.number_input(
        "µs of a step, one worker", LEAST_US, MOST_US, key=Key.STEP_US, format="%g", step=100.0, on_change=write,
        width=WIDTH, help="Microseconds of a training step with one worker. Keras shows ms/step: 2 ms are 2000.",
    )  # fmt: skip


def _choose_runs(study: Study, forecasters: Mapping[str, Forecaster]) -> tuple[str, Workers]:
    """Show the choices of platform, workers and consistency; the platform and the workers."""
    here: Defaults = {Key.PLATFORM: [*study.first.get(Key.PLATFORM, ()), ALL]}
    of_platform = Choice(Key.PLATFORM, "Platform", tuple(forecasters), wide=True)
    platform = resolve([of_platform], pd.DataFrame(), url_parameters(), here).one(Key.PLATFORM)
    numbers = {_option(number): number for number in forecasters[platform].workers}
    parallel = [option for option, number in numbers.items() if number.number > 1 and not number.oversubscribed]
    of_workers = Choice(Key.WORKERS, "Workers", tuple(numbers))
    names = {**study.platform_names, ALL: "all of them together"}
    first: Defaults = {**here, **USUAL, Key.WORKERS: parallel}
    chosen = choose([of_platform, of_workers, CONSISTENCY], pd.DataFrame(), names, defaults=first)
    return chosen.one(Key.PLATFORM), numbers[chosen.one(Key.WORKERS)]


def _option(number: Workers) -> str:
    """The number of workers as a value in the URL."""
    return f"{number.number}{OVERSUBSCRIBED if number.oversubscribed else ''}"


def _show_forecast(study: Study, forecast: Forecast, consistency: Consistency, platform: str) -> None:
    first, *others = advice_sentences(forecast)
    st.markdown(" ".join([f"**{markdown(first)}**", *map(markdown, others)]))
    if forecast.workers.number > 1:
        st.markdown(markdown(workers_sentence(forecast)))
    if forecast.uncovered:
        st.warning(markdown(uncovered_sentence(forecast.uncovered)), icon=":material/warning:")
    table = _table(forecast)
    origin = "all platforms" if platform == ALL else study.platform_names[platform]
    lines = [
        f"{forecast.elements:,.0f} elements updated in a step of {forecast.alone_us:,.12g} µs (one worker), with "
        f"{name_workers(forecast.workers)}; updates guarantee at least the consistency {consistency}.",
        error_sentence(forecast),
        left_out_sentence(forecast),
        f"Runs of {origin}; {REVISION}{study.revision}.",
    ]
    show_chart(
        slug("advise", platform, _option(forecast.workers)),
        _figure(table, [line for line in lines if line], study.revision),
    )
    st.subheader("Predicted times")
    number = st.column_config.NumberColumn
    show_frame(
        table,
        "Table of the predicted times of the strategies",
        placeholder="–",
        column_config={
            "us": number("µs per step", format="%.4g", help="Wall time over the steps of all workers."),
            "ratio": number("time over lock's", format="%.3f"),
            "low": number("error range from", format="%.3f"),
            "high": number("error range to", format="%.3f"),
            "cases": number("cases", format="%d", help="The measured models from which the curve was learnt."),
        },
    )


def _table(forecast: Forecast) -> pd.DataFrame:
    """The ranking with the columns of `draw_predictions`; `lock` itself has no error range."""
    rows = []
    for one in forecast.ranking:
        low, high = (None if one.strategy == LOCK else bounds_of(one.ratio, forecast.error)) or (math.nan, math.nan)
        rows.append((one.strategy, one.us, one.ratio, low, high, one.cases))
    return pd.DataFrame(rows, columns=["strategy", "us", "ratio", "low", "high", "cases"])


def _show_nearest(study: Study, forecast: Forecast) -> None:
    names = study.platform_names
    rows = [
        {
            "model": case.model,
            "fastest": case.fastest,
            "over_lock": _over_lock(case),
            "factors": case.description,
            "driver": case.driver,
            "platform": names.get(case.machine, case.machine),
            "elements": case.elements,
            "us": case.alone_us,
            "density": case.density,
            "rounds": len(case.us[LOCK]),
            "experiment": study.labels.get(case.experiment, case.experiment),
        }
        for case in forecast.nearest(NEAREST)
    ]
    number, text = st.column_config.NumberColumn, st.column_config.TextColumn
    show_frame(
        pd.DataFrame(rows),
        "Table of the measured models that are nearest to yours",
        column_config={
            "factors": text(help="Those that are not the usual ones.", width="medium"),
            "platform": text(width="medium"),
            "elements": number("elements of a step", format="%.4g"),
            "us": number("µs, one worker", format="%.4g"),
            "density": number("elements per µs", format="%.3g"),
            "fastest": text("fastest measured"),
            "over_lock": text("its time over lock's", help="With the 95 % interval, paired by round."),
            "experiment": text(width="medium"),
        },
    )
    st.caption(
        f"Nearest by elements and time of a step, with {name_workers(forecast.workers)}. The fastest of several "
        "strategies is also the luckiest, so its ratio is rather too small."
    )


def _over_lock(case: Case) -> str:
    """The measured time of the fastest strategy over that of lock, paired by round."""
    return "1" if case.fastest == LOCK else interval(*stats.ratio_interval(case.us[case.fastest], case.us[LOCK])[:3])


def _show_lack(shapes: Sequence[Shape] | None, step_us: float, consistency: Consistency) -> None:
    st.info(
        f"No number of workers has {MIN_CASES} cases at consistency {consistency}. A case is a model that was measured "
        f"on one machine with one worker, and under {LOCK} and at least {MIN_STRATEGIES - 1} other strategies in "
        f"{MIN_ROUNDS} common rounds. `make study` measures such cases (`make quick` has too few rounds). "
        "`tmflow advise` needs none: it measures with your model or your sizes."
    )
    if shapes is None:
        return
    show_commands("make study")
    _show_commands(shapes, step_us, Workers(2, oversubscribed=False), consistency)


def _show_commands(shapes: Sequence[Shape], step_us: float, workers: Workers, consistency: Consistency) -> None:
    """Show the commands that measure the same on the reader's machine."""
    options = f"--workers {workers.number}" + ("" if consistency == DEFAULT else f" --consistency {consistency}")
    st.markdown("On your machine, for these sizes (a minute), or with your own Keras model:")
    variables = quote(shapes_text(shapes))
    show_commands(
        f"{MEASURE} --variables {variables} --step-us {_text(step_us)} {options}",
        f"{MEASURE} training.py:build {options}",
    )
    st.caption(
        "`--step-us` is the time between two updates: the time of your step, less that of its update if you know it. "
        "`build` is a function of yours that returns the model and its data."
    )


def _text(number: float) -> str:
    return f"{number:.12g}"


def _forecasters(study: Study, consistency: Consistency) -> dict[str, Forecaster]:
    """The cost models of all platforms together and of each that has enough cases, by the value in the URL."""
    counts = study.counts
    keys = counts.loc[(counts["evidence"] == "measured") & counts["scale"].isin(SCALES), "platform"].unique()
    states = {str(key): study.state(platform=str(key), evidence="measured") for key in keys}
    cases = {key: _cases(study, state, key, consistency) for key, state in states.items()}
    every = [case for of_platform in cases.values() for case in of_platform]
    of_all = _fitted(every, tuple(states.values()), consistency)
    each = {key: _fitted(cases[key], (state,), consistency) for key, state in states.items()}
    return {key: fitted for key, fitted in {ALL: of_all, **each}.items() if fitted.workers}


# Shared by all sessions without a copy: no caller modifies a case.
@st.cache_resource(show_spinner="Reading the runs", max_entries=256)
def _cases(_study: Study, state: Identity, platform: str, consistency: Consistency) -> list[Case]:
    only = RunFilter(scales=SCALES, platforms=[platform], evidences=["measured"], statuses=["ok"], joined=_study.joined)
    return cases_of(guaranteeing(queries.runs(_study.reader(), only), consistency))


@st.cache_resource(show_spinner="Fitting the cost model", max_entries=256)
def _fitted(_cases: Sequence[Case], states: tuple[Identity, ...], consistency: Consistency) -> Forecaster:
    return Forecaster(_cases)


# Shared by all sessions: no caller modifies a figure.
@st.cache_resource(show_spinner=False, max_entries=KEPT)
def _figure(table: pd.DataFrame, lines: list[str], _revision: str) -> Figure:
    return Figure(draw_predictions(table, TITLE), Caption(TITLE, lines), table)
