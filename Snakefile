"""The study: probe the platform, build, get the data, run the rounds, store, draw, report."""

from snakemake.utils import min_version

min_version("9.27")  # the oldest version tested with a function as a priority


configfile: "config.yaml"


include: "workflow/rules/common.smk"
include: "workflow/rules/machine.smk"
include: "workflow/rules/rounds.smk"
include: "workflow/rules/outputs.smk"


localrules:
    all,


rule all:
    default_target: True
    input:
        all_rounds(),
        all_figures(),
        all_tables(),
        all_notebooks(),
        RESULTS / "report.html",
