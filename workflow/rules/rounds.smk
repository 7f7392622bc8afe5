"""The measurement: one job per round, which reserves all cores because nothing else may run meanwhile.

A measured round is not measured again: `update` keeps Snakemake from deleting its run file, `ancient` keeps it from
repeating the round when the library is rebuilt, and the step of a round whose run file is complete ends immediately.
`tmflow study run --fresh` measures everything again.

All rounds are ready from the start; their priorities determine the order (`Plan.rounds_in_order`). The step of a round
stores the previous rounds. It must not store its own run file, because Snakemake deletes the output of a killed step.
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
