"""From run files to what people look at: the database, figures and tables."""


rule ingest:
    input:
        lambda wildcards: PLAN.run_files(wildcards.experiment),
    output:
        RESULTS / f"ingested/{SCALE}" / "{experiment}-{definition}.json",
    log:
        RESULTS / f"logs/ingest/{SCALE}" / "{experiment}-{definition}.log",
    shell:
        "tmflow ingest --json {input} > {output} 2> {log}"


rule figures:
    input:
        ingested,
    output:
        report(
            expand(RESULTS / "figures/{{experiment}}/{figure}.svg", figure=FIGURES),
            category="{experiment}",
            caption="../report/figure.rst",
        ),
        expand(
            RESULTS / "figures/{{experiment}}/{figure}.{suffix}",
            figure=FIGURES,
            suffix=[suffix for suffix in FORMATS if suffix != "svg"],
        ),
    params:
        definition=lambda wildcards: definition(wildcards.experiment),
    log:
        RESULTS / f"logs/figures/{SCALE}" / "{experiment}.log",
    shell:
        "tmflow step figures {wildcards.experiment} --scale {SCALE} > {log} 2>&1"


rule table:
    input:
        ingested,
    output:
        report(
            RESULTS / "tables/{experiment}.html",
            category="{experiment}",
            caption="../report/table.rst",
        ),
    params:
        definition=lambda wildcards: definition(wildcards.experiment),
    log:
        RESULTS / f"logs/table/{SCALE}" / "{experiment}.log",
    shell:
        "tmflow step table {wildcards.experiment} --scale {SCALE} > {log} 2>&1"
