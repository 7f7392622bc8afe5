// Embeds data/native/study.jsonl unchanged; TMFLOW_STUDY_FILE is its path at compile time.
asm(".pushsection .rodata\n"
    ".global tmflow_study_begin, tmflow_study_end\n"
    "tmflow_study_begin: .incbin \"" TMFLOW_STUDY_FILE
    "\"\n"
    "tmflow_study_end:\n"
    ".popsection\n");
