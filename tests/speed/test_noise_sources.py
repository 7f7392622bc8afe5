"""The report of what lowers noise: a setting with twice the noise is found to have it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tests.speed import noise_sources


def times(noise: float, slower: float = 1.0) -> pd.DataFrame:
    """Trials of two points in many rounds, with this noise within a round and five times as much between rounds."""
    random = np.random.default_rng(int(100 * noise))
    rows = [
        {"point": point, "round": number, "step_us": slower * np.exp(log + noise * random.normal())}
        for number in range(200)
        for point, log in (("a", random.normal(0, 5 * noise)), ("b", random.normal(3, 5 * noise)))
        for _ in range(noise_sources.REPEATS)
    ]
    return pd.DataFrame(rows)


def test_noise_is_that_between_the_trials_of_a_round() -> None:
    noise = noise_sources.noise_of_rounds(times(0.02))
    assert len(noise) == 200
    assert np.exp(2 * noise).mean() ** 0.5 == pytest.approx(0.02, rel=0.1)


def test_the_report_compares_noise_and_times_with_the_base() -> None:
    base = times(0.02)
    assert noise_sources.row(base, base)[1:] == ["1", "1"]
    _, noise, time = noise_sources.row(times(0.04, slower=3.0), base)
    assert float(noise.split()[0]) == pytest.approx(2, rel=0.15)
    assert float(time.split()[0]) == pytest.approx(3, rel=0.05)


def test_every_setting_has_points_of_the_drivers_that_it_applies_to() -> None:
    counts = {
        setting.name: len({point for one in noise_sources.WORKLOADS for point in setting.points(one)})
        for setting in noise_sources.SETTINGS
    }
    assert counts.pop("workers pinned to cores") == 4
    assert set(counts.values()) == {12}
