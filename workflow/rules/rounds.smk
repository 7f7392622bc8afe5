"""The measurement: one job per round. A round has the machine to itself, so it takes every core that there is."""


rule round:
    input:
        platform=rules.probe_platform.output,
        variants=rules.build.output,
        dataset=rules.data.output,
    output:
        RESULTS / f"runs/{SCALE}" / "{experiment}/{definition}/round-{number}.jsonl",
    log:
        RESULTS / f"logs/rounds/{SCALE}" / "{experiment}-{definition}-{number}.log",
    conda:
        "../../envs/conda.yaml"
    threads: workflow.cores
    params:
        scale=SCALE,
    shell:
        "tmflow step round {wildcards.experiment} {wildcards.number} --scale {params.scale} > {log} 2>&1"
