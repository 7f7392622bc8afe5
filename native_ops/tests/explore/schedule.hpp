// The schedule of one execution as readable text.
#pragma once

#include <bit>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "explorer.hpp"

namespace tmflow::explore {

class Schedule {
 public:
  struct Step {
    int thread;
    Operation operation;
    const void* address;
    Effect effect;
  };

  void restart() {
    steps_.clear();
    names_.clear();
  }
  void add(const Step& step) { steps_.push_back(step); }
  void name(const void* begin, std::size_t bytes, std::size_t stride, std::string_view name) {
    names_.push_back({static_cast<const char*>(begin), bytes, stride, std::string(name)});
  }

  // One line for each step.
  std::string text() const {
    std::string text;
    int number = 0;
    for (const Step& step : steps_) {
      char line[32];
      std::snprintf(line, sizeof line, "%4d  thread %d  ", ++number, step.thread);
      text += line + describe(step.operation, step.address, &step.effect) + "\n";
    }
    return text;
  }

  std::string describe(const Operation& operation, const void* address, const Effect* effect) const {
    std::string text = verb(operation, effect);
    if (address == nullptr || operation.kind == Kind::fence) return text;
    text += ' ' + name_of(address);
    if (operation.kind == Kind::lock || operation.kind == Kind::unlock) return text;
    if (effect != nullptr) text += (effect->wrote ? " := " : " is ") + value(*effect);
    if (effect != nullptr && effect->age > 0) text += ", though it was stored to since";
    const bool is_element = operation.kind == Kind::read || operation.kind == Kind::write;
    return is_element ? text : text + "  (" + order(operation, effect) + ")";
  }

 private:
  struct Named {
    const char* begin;
    std::size_t bytes, stride;
    std::string name;
  };

  static std::string verb(const Operation& operation, const Effect* effect) {
    switch (operation.kind) {
      case Kind::load:
        return "loads";
      case Kind::store:
        return "stores";
      case Kind::update:
        return "updates";
      case Kind::compare:
        return effect != nullptr && !effect->wrote ? "compares in vain" : "compares and exchanges";
      case Kind::read:
        return "reads";
      case Kind::write:
        return "writes";
      case Kind::lock:
        return "takes";
      case Kind::unlock:
        return "gives back";
      case Kind::fence:
        return "fences";
      case Kind::wait:
        return effect != nullptr ? "goes on" : "waits";
      case Kind::begin:
        break;
    }
    return "begins, alone";
  }

  static const char* order(const Operation& operation, const Effect* effect) {
    const bool failed = operation.kind == Kind::compare && effect != nullptr && !effect->wrote;
    switch (failed ? operation.failed : operation.order) {
      case std::memory_order_relaxed:
        return "relaxed";
      case std::memory_order_consume:
      case std::memory_order_acquire:
        return "acquire";
      case std::memory_order_release:
        return "release";
      case std::memory_order_acq_rel:
        return "acq_rel";
      case std::memory_order_seq_cst:
        break;
    }
    return "seq_cst";
  }

  static std::string value(const Effect& effect) {
    char text[32];
    if (effect.is_float) {
      std::snprintf(text, sizeof text, "%g", std::bit_cast<double>(effect.bits));
    } else {
      std::snprintf(text, sizeof text, effect.bits < 100'000 ? "%llu" : "0x%llx",
                    static_cast<unsigned long long>(effect.bits));
    }
    return text;
  }

  std::string name_of(const void* address) const {
    const auto* const at = static_cast<const char*>(address);
    for (const Named& named : names_) {
      if (at < named.begin || at >= named.begin + named.bytes) continue;
      const auto offset = static_cast<std::size_t>(at - named.begin);
      return named.name + '[' + std::to_string(offset / named.stride) + ']';
    }
    char text[32];
    std::snprintf(text, sizeof text, "%p", address);
    return text;
  }

  std::vector<Step> steps_;
  std::vector<Named> names_;
};

}  // namespace tmflow::explore
