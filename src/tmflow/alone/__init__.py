"""`tmflow-native`: the experiments of the native driver where there is nothing beside Python and NumPy.

config.yaml is compiled into data/native/study.jsonl where the whole package is (`tmflow.study.native_plan`); here that
file is carried out, into the run files that `tmflow ingest` reads. What of the package needs no more than NumPy, which
a test looks after, is used as it is: facts, data, order, trials.
"""
