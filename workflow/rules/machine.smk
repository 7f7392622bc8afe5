"""What the rounds need: facts of the machine, the native strategies, the data."""


rule probe_platform:
    output:
        RESULTS / "platform.json",
    log:
        RESULTS / "logs/probe_platform.log",
    shell:
        "tmflow step probe {output} > {log} 2>&1"


rule build:
    input:
        sources=sorted(path for path in Path("native_ops").rglob("*") if path.is_file()),
        lock="envs/requirements.txt",
    output:
        RESULTS / "build/variants.json",
    log:
        RESULTS / "logs/build.log",
    threads: workflow.cores
    shell:
        "tmflow step build {output} > {log} 2>&1"


rule data:
    output:
        RESULTS / "data/dataset.json",
    params:
        dataset=PLAN.study.dataset,
        source=os.environ.get("TMFLOW_DATA_DIR", ""),
    log:
        RESULTS / "logs/data.log",
    shell:
        "tmflow step data {params.dataset} {output} 2>&1 | tee {log} >&2"
