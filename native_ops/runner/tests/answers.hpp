// A program that answers the tests' questions. Each input line is a question in JSON; `ask` names its kind.
// Each output line is the answer, {"value": ...} or {"error": "..."}.
#pragma once

#include <functional>
#include <iostream>
#include <map>
#include <string>

#include "tmflow/format/json.hpp"

namespace tmflow::runner {

using Answers = std::map<std::string, std::function<Json(const Json&)>>;

inline Json answer(const Answers& answers, const std::string& line) {
  try {
    const Json question = parse(line);
    return Json::Object{{"value", answers.at(question.at("ask").text())(question)}};
  } catch (const std::exception& error) {
    return Json::Object{{"error", error.what()}};
  }
}

inline int answer_all(const Answers& answers) {
  for (std::string line; std::getline(std::cin, line);) std::cout << canonical(answer(answers, line)) << '\n';
  return 0;
}

}  // namespace tmflow::runner
