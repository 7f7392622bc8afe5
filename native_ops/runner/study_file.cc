// data/native/study.jsonl, as it is; TMFLOW_STUDY_FILE is its path when this is compiled.
asm(".pushsection .rodata\n"
    ".global tmflow_study_begin, tmflow_study_end\n"
    "tmflow_study_begin: .incbin \"" TMFLOW_STUDY_FILE
    "\"\n"
    "tmflow_study_end:\n"
    ".popsection\n");
