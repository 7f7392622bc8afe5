# The tests of the strategies' own reads. For ThreadSanitizer they are a separate program, whose accesses to elements are atomic
# (relaxed_kernels.cc explains why). Nothing is suppressed there: a report means a missing order.
set(readers reading_order_test.cc reading_test.cc)
if(TMFLOW_SANITIZE STREQUAL "thread")
  tmflow_add_test_program(relaxed_tests relaxed_kernels.cc ${readers})
  target_link_libraries(relaxed_tests PRIVATE GTest::gtest_main)
  add_test(NAME relaxed COMMAND ${run} $<TARGET_FILE:relaxed_tests>)
else()
  target_sources(core_tests PRIVATE ${readers})
endif()
