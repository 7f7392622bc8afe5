"""From runs to numbers: intervals, summaries, baselines, pairs, comparability and noise."""
