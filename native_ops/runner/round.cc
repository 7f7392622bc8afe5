#include "runner/round.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <set>

#include "runner/errors.hpp"
#include "runner/files.hpp"
#include "runner/journal.hpp"
#include "runner/machine.hpp"
#include "runner/machine_lock.hpp"
#include "runner/possible.hpp"
#include "runner/run_line.hpp"
#include "runner/trial.hpp"
#include "runner/watch.hpp"
#include "tmflow/format/clock.hpp"

namespace tmflow::runner {
namespace {

using Points = std::vector<const Point*>;

// The name of the exception in Python.
const char* kind_of(const std::exception& error) {
  if (dynamic_cast<const Diverged*>(&error)) return "Diverged";
  if (dynamic_cast<const std::bad_alloc*>(&error)) return "MemoryError";
  if (dynamic_cast<const std::invalid_argument*>(&error)) return "ValueError";
  return "RuntimeError";
}

// Formats like Python's `:g` for any sensible limit: 120, not 120.0.
std::string seconds(double limit) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", limit);
  return text;
}

class RoundRunner {
 public:
  RoundRunner(const Job& job, Journal& journal, const std::vector<Point>& own)
      : job_(job), journal_(journal), lines_(job, is_resumed(job, journal, own)) {
    for (const Point& point : own) {
      if (journal.holds(point)) continue;
      todo_.push_back(&point);
      why_not_[&point] = why_not(point);
    }
  }

  void run() {
    std::set<int> warm;
    for (const Point* point : todo_) {
      if (!why_not_.at(point) && warm.insert(point->variant).second) warm_up_for(same_variant(*point));
    }
    for (const Point* point : todo_) journal_.append(trial(*point));
  }

 private:
  static bool is_resumed(const Job& job, const Journal& journal, const std::vector<Point>& own) {
    return job.resumed || std::ranges::any_of(own, [&](const Point& point) { return journal.holds(point); });
  }

  // The points to run that have the same variant.
  Points same_variant(const Point& one) const {
    Points found;
    std::ranges::copy_if(todo_, std::back_inserter(found), [&](const Point* other) {
      return other->variant == one.variant && !why_not_.at(other);
    });
    return found;
  }

  // Runs a warm-up per batch size, with the largest number of workers of these points.
  void warm_up_for(const Points& points) {
    std::map<int, Points> by_batch;
    for (const Point* point : points) by_batch[point->whole("batch")].push_back(point);
    for (const auto& [batch, points_of_batch] : by_batch) {
      const auto threads = [](const Point* point) { return point->whole("threads"); };
      const int workers = threads(*std::ranges::max_element(points_of_batch, {}, threads));
      Points with_most;
      std::ranges::copy_if(points_of_batch, std::back_inserter(with_most),
                           [&](const Point* point) { return threads(point) == workers; });
      // If the warm-up hangs or kills the process, these are recorded in its place. The trials meet and
      // record any other error.
      watched(with_most, true, [&] {
        try {
          const TrialData& data = data_of(*points_of_batch.front());
          const double began = sample().monotonic_s;
          warm_up(*points_of_batch.front(), workers, batch, data);
          note_warm_up(sample().monotonic_s - began);
        } catch (const Unsupported&) {
        } catch (const Diverged&) {
        } catch (const BadInput&) {
          throw;
        } catch (const std::exception& error) {
          std::cerr << "tmflow-native: a warm-up failed: " << error.what() << std::endl;
        }
      });
    }
  }

  void note_warm_up(double seconds) const {
    std::filesystem::path path = job_.run_file;
    path.replace_extension(".warm-ups");
    const Json line = Json::Object{{"campaign", job_.campaign.at("uid")}, {"warm_up_s", seconds}};
    const std::size_t size = std::filesystem::exists(path) ? std::filesystem::file_size(path) : 0;
    append_at(path, size, canonical(line) + "\n");
  }

  Json trial(const Point& point) {
    if (const auto& reason = why_not_.at(&point)) {
      return lines_.make(point, utc_now(), {{"status", "unsupported"}, {"reason", *reason}});
    }
    const Sample before = sample();
    const std::string started_at = utc_now();
    Json::Object fields;
    try {
      watched({&point}, false, [&] { fields = run_trial(point, lines_.seed_of(point), data_of(point)); });
    } catch (const Unsupported& error) {
      return lines_.make(point, started_at, {{"status", "unsupported"}, {"reason", error.what()}});
    } catch (const BadInput&) {
      throw;
    } catch (const std::exception& error) {  // a failed trial is a result; the round goes on
      const std::string reason = std::string(kind_of(error)) + ": " + error.what();
      return lines_.make(point, started_at,
                         {{"status", "failed"}, {"reason", reason}, {"machine", between(before, sample())}});
    }
    const Sample after = sample();
    fields["status"] = "ok";
    fields["machine"] = between(before, after);
    fields["total_s"] = after.monotonic_s - before.monotonic_s;
    return lines_.make(point, started_at, std::move(fields));
  }

  // Does the work, which is a trial or a warm-up for trials. If it hangs, they are recorded and the process
  // ends. If it kills the process, `supervise` finds them in the journal.
  void watched(const Points& points, bool is_warm_up, const std::function<void()>& work) {
    const std::string started_at = utc_now();
    const auto ended = [&](const char* status, const std::string& how) {
      Json::Array runs;
      for (const Point* point : points) {
        const std::string reason = is_warm_up ? "its warm-up " + how : how;
        runs.push_back(lines_.make(*point, started_at, {{"status", status}, {"reason", reason}}));
      }
      return runs;
    };
    journal_.begin(Json::Object{{"pid", getpid()},
                                {"trials", ended("failed", "was under way when the process ended")},
                                {"warm_up", is_warm_up}});
    const double limit_s = job_.experiment.trial_timeout_s;
    const Json::Array too_long = ended("timeout", "took longer than " + seconds(limit_s) + " s");
    const Watch watch(limit_s, [&] {
      try {
        for (const Json& run : too_long) journal_.append(run);
      } catch (const std::exception& error) {
        std::cerr << "tmflow-native: " << error.what() << std::endl;
        _exit(2);
      }
      _exit(kTimedOut);
    });
    work();
  }

  const TrialData& data_of(const Point& point) {
    const auto matrix = static_cast<std::size_t>(point.whole("matrix"));
    std::unique_ptr<TrialData>& data = data_[matrix];
    if (data == nullptr) {
      if (mnist_ == nullptr) {
        const std::filesystem::path folder = find_mnist(study().files, job_.data);
        mnist_ = std::make_unique<Mnist>(load_mnist(folder, study().files));
        lines_.note_dataset();
      }
      data = std::make_unique<TrialData>(*mnist_, matrix, lines_.seed_of(point));
    }
    return *data;
  }

  const Job& job_;
  Journal& journal_;
  RunLines lines_;
  Points todo_;
  std::map<const Point*, std::optional<std::string>> why_not_;
  std::unique_ptr<Mnist> mnist_;
  std::map<std::size_t, std::unique_ptr<TrialData>>
      data_;  // by the number of pixels; all points have one seed
};

}  // namespace

void run_process_of_round(const Job& job, std::size_t process) {
  const HeldFile machine = machine_to_itself();
  if (std::filesystem::exists(job.run_file)) return;  // a process that outlived its study finished the round
  Journal journal(job.run_file);
  journal.forget_under_way();
  journal.keep_only(job.points);
  const std::vector<Point> own = job.processes().at(process);
  RoundRunner(job, journal, own).run();
  if (journal.holds_exactly(job.points)) journal.finish();
}

}  // namespace tmflow::runner
