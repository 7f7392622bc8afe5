"""From run files to what people look at: the database, figures and tables."""


rule ingest:
    input:
        lambda wildcards: PLAN.run_files(wildcards.experiment),
    output:
        RESULTS / f"ingested/{SCALE}" / "{experiment}-{definition}.json",
    log:
        RESULTS / f"logs/ingest/{SCALE}" / "{experiment}-{definition}.log",
    conda:
        "../../envs/conda.yaml"
    shell:
        "tmflow ingest --json {input} > {output} 2> {log}"


rule figures:
    input:
        ingested,
    output:
        report(
            directory(RESULTS / "figures/{experiment}"),
            patterns=["{figure}.svg"],
            category="{experiment}",
            labels={"figure": "{figure}"},
            caption="../report/figure.rst",
        ),
    log:
        RESULTS / f"logs/figures/{SCALE}" / "{experiment}.log",
    conda:
        "../../envs/conda.yaml"
    params:
        scale=SCALE,
        definition=lambda wildcards: definition(wildcards.experiment),
        shown=shown,
    shell:
        "tmflow step figures {wildcards.experiment} --scale {params.scale} > {log} 2>&1"


rule table:
    input:
        ingested,
    output:
        report(
            RESULTS / "tables/{experiment}.html",
            category="{experiment}",
            labels={"figure": "table"},
            caption="../report/table.rst",
        ),
    log:
        RESULTS / f"logs/table/{SCALE}" / "{experiment}.log",
    conda:
        "../../envs/conda.yaml"
    params:
        scale=SCALE,
        definition=lambda wildcards: definition(wildcards.experiment),
        shown=shown,
    shell:
        "tmflow step table {wildcards.experiment} --scale {params.scale} > {log} 2>&1"
