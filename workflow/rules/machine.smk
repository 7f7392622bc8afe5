"""The requirements of the rounds: facts of the machine, the native strategies, the data."""


rule probe_platform:
    output:
        RESULTS / "platform.json",
    log:
        RESULTS / "logs/probe_platform.log",
    conda:
        "../../envs/conda.yaml"
    shell:
        "tmflow step probe {output} > {log} 2>&1"


rule build:
    input:
        sources=native_sources(),
        lock="envs/requirements.txt",
    output:
        RESULTS / "build/variants.json",
    log:
        RESULTS / "logs/build.log",
    conda:
        "../../envs/conda.yaml"
    threads: workflow.cores
    shell:
        "tmflow step build {output} > {log} 2>&1"


rule data:
    output:
        RESULTS / "data/dataset.json",
    log:
        RESULTS / "logs/data.log",
    conda:
        "../../envs/conda.yaml"
    params:
        dataset=PLAN.study.dataset,
    shell:
        "tmflow step data {params.dataset} {output} 2>&1 | tee {log} >&2"
