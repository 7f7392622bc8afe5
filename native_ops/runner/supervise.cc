#include "runner/supervise.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <sstream>

#include "runner/errors.hpp"
#include "runner/journal.hpp"

namespace tmflow::runner {
namespace {

namespace fs = std::filesystem;

// The kill may have come from outside, for instance from a lack of memory: a trial or a warm-up gets a second
// chance.
constexpr int kDeaths = 2;
constexpr int kCannotStart = 127;

// The command of this program. Under an emulator of its processor, $TMFLOW_NATIVE_LAUNCHER is the command of
// the emulator.
std::vector<std::string> this_program() {
  std::vector<std::string> words;
  const char* const launcher = std::getenv("TMFLOW_NATIVE_LAUNCHER");
  std::istringstream said(launcher == nullptr ? "" : launcher);
  for (std::string word; said >> word;) words.push_back(word);
  words.push_back(fs::read_symlink("/proc/self/exe"));
  return words;
}

// Runs a process of the round that dies with this one; returns its status as from waitpid.
int run_process(const Job& job, std::size_t number, const std::map<std::string, std::string>& needed) {
  std::vector<std::string> command = this_program();
  command.insert(command.end(), {"round", job.as_text(), std::to_string(number)});
  std::vector<char*> words;
  for (std::string& word : command) words.push_back(word.data());
  words.push_back(nullptr);
  const pid_t parent = getpid(), child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kCannotStart);  // the parent had already ended
    for (const auto& [name, value] : needed) setenv(name.c_str(), value.c_str(), 1);
    execvp(words[0], words.data());
    _exit(kCannotStart);
  }
  if (child < 0) throw std::runtime_error(std::string("no process can be started: ") + std::strerror(errno));
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string name_of(int signal) { return std::string("SIG") + sigabbrev_np(signal); }

std::string round_of(const Job& job) {
  return "round " + std::to_string(job.number) + " of " + job.experiment.name;
}

void run_until_finished(const Job& job, std::size_t number,
                        const std::map<std::string, std::string>& needed) {
  std::map<std::string, int> deaths;  // by the work in progress
  for (int status; (status = run_process(job, number, needed)) != 0;) {
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
              by = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    if (code == kTimedOut) continue;
    if (code == 2) throw BadInput(round_of(job) + " could not run; the line above says why.");
    Journal journal(job.run_file);
    const std::optional<Json> under_way = journal.under_way();
    if (code != 0 || by == SIGINT || by == SIGTERM || !under_way) {
      const std::string how = code != 0 ? "with code " + std::to_string(code) : "by " + name_of(by);
      throw std::runtime_error("the process of " + round_of(job) + " ended " + how);
    }
    const bool is_warm_up = under_way->at("warm_up").boolean();
    std::string place = is_warm_up ? "warm-up" : "";
    for (const Json& run : under_way->at("trials").array()) place += canonical(run.at("spec"));
    if (++deaths[place] < kDeaths) continue;
    const std::string reason = "its process was ended by " + name_of(by) +
                               (is_warm_up ? " in its warm-up" : "") + ", " + std::to_string(kDeaths) +
                               " times";
    for (Json run : under_way->at("trials").array()) {
      run["reason"] = reason;
      journal.append(run);
    }
  }
}

}  // namespace

bool is_done(const Job& job) {
  if (!fs::exists(job.run_file)) return false;
  const std::vector<Json> runs = read_runs(job.run_file);
  return runs.size() == job.points.size() && std::ranges::all_of(job.points, [&](const Point& point) {
           return std::ranges::any_of(runs, [&](const Json& run) { return is_of(run, point); });
         });
}

void run_round(Job job) {
  if (fs::exists(job.run_file)) {
    if (is_done(job)) return;
    set_aside(job.run_file, read_runs(job.run_file).front());
  }
  Journal journal(job.run_file);
  if (!journal.runs().empty() && journal.runs().front().at("campaign") != job.campaign) journal.set_aside();
  job.resumed = !journal.runs().empty();
  const auto processes = job.processes();
  for (std::size_t number = 0; number < processes.size(); ++number) {
    run_until_finished(job, number, processes[number].front().environment);
  }
}

}  // namespace tmflow::runner
