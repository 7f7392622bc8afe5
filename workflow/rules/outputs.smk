"""The outputs made from run files: the database, figures, tables, the report and notebooks."""


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


rule contributions:
    input:
        bundles(),
    output:
        RESULTS / "ingested/contributions.json",
    log:
        RESULTS / "logs/contributions.log",
    conda:
        "../../envs/conda.yaml"
    shell:
        "tmflow bundle import --json {input} > {output} 2> {log}"


rule figures:
    input:
        ingested,
        contributed(),
        originals="data/figures.yaml",
    output:
        directory(RESULTS / "figures/{experiment}"),
        RESULTS / "tables/{experiment}.html",
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


rule report:
    input:
        all_figures(),
        all_tables(),
        contributed(),
        claims="data/claims.yaml",
        originals="data/figures.yaml",
        platform=ancient(rules.probe_platform.output),
    output:
        RESULTS / "report.html",
    log:
        RESULTS / f"logs/report/{SCALE}.log",
    conda:
        "../../envs/conda.yaml"
    params:
        scale=SCALE,
        questions=[PLAN.study.experiments[name].question for name in PLAN.experiments],
    shell:
        "tmflow step report --scale {params.scale} > {log} 2>&1"


rule notebook:
    input:
        all_ingested(),
        contributed(),
        notebook="notebooks/{notebook}.ipynb",
    output:
        RESULTS / "notebooks/{notebook}.ipynb",
    log:
        RESULTS / "logs/notebooks/{notebook}.log",
    conda:
        "../../envs/conda.yaml"
    shell:
        "tmflow step notebook {input.notebook} {output} > {log} 2>&1"
