"""The measurement: one job per round. A round has the machine to itself, so it takes every core that there is.

What is measured stays measured: `update` keeps Snakemake from deleting a run file, `ancient` from asking again when the
library is rebuilt, and a round whose run file is complete ends at once. `tmflow study run --fresh` measures anew.

All rounds are ready at once. Their priorities make the order: `Plan.rounds_in_order`. The next round's step stores the
rounds before it: Snakemake deletes what a step leaves that was killed, so no step may store its own.
"""


rule round:
    input:
        platform=ancient(rules.probe_platform.output),
        variants=ancient(rules.build.output),
        dataset=rules.data.output,
    output:
        update(RESULTS / f"runs/{SCALE}" / "{experiment}/{definition}/round-{number}.jsonl"),
    log:
        RESULTS / f"logs/rounds/{SCALE}" / "{experiment}-{definition}-{number}.log",
    priority: round_priority
    conda:
        "../../envs/conda.yaml"
    threads: workflow.cores
    params:
        scale=SCALE,
    shell:
        "tmflow step round {wildcards.experiment} {wildcards.definition} {wildcards.number} --scale {params.scale} > {log} 2>&1"
