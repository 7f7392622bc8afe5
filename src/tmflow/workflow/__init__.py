"""Running the study: Snakemake, progress, locks, status, notebooks and the doctor."""
