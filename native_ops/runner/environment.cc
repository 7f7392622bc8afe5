#include <sched.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cctype>
#include <charconv>
#include <set>
#include <vector>

#include "runner/cpuinfo.hpp"
#include "runner/facts.hpp"
#include "runner/sysfiles.hpp"

namespace tmflow::runner {
namespace {

const std::string kCpu(kCpus);

std::string system_name() {
  utsname names{};
  uname(&names);
  return names.sysname;
}

std::string kernel() {
  utsname names{};
  uname(&names);
  return std::string(names.sysname) + " " + names.release;
}

// The name of the distribution, else of the system.
std::string os(const Files& files) {
  auto release = files.text("etc/os-release");
  if (!release) release = files.text("usr/lib/os-release");
  for (const std::string& line : split_lines(release.value_or(""))) {
    constexpr std::string_view kKey = "PRETTY_NAME=";
    if (!line.starts_with(kKey)) continue;
    std::string name = line.substr(kKey.size());
    if (name.starts_with('"')) name.erase(0, 1);
    name.erase(std::min(name.find('"'), name.size()));
    if (!name.empty()) return name;
  }
  return system_name();
}

// The C library, as "glibc 2.36".
std::optional<std::string> libc() {
  char buffer[64];
  const std::size_t size = confstr(_CS_GNU_LIBC_VERSION, buffer, sizeof buffer);
  if (size == 0 || size > sizeof buffer) return std::nullopt;
  return buffer;
}

// The frequency governor, or several joined by + if the cores differ.
std::optional<std::string> governor(const Files& files) {
  std::set<std::string> governors;
  for (const std::string& path : files.glob(kCpu + "/cpufreq/policy*/scaling_governor")) {
    if (const auto name = files.text(path)) governors.insert(*name);
  }
  std::optional<std::string> all;
  for (const std::string& name : governors) all = all ? *all + "+" + name : name;
  return all;
}

std::optional<bool> is_on(std::optional<std::int64_t> value) {
  if (!value) return std::nullopt;
  return *value != 0;
}

std::optional<bool> turbo(const Files& files) {
  if (const auto no_turbo = files.integer(kCpu + "/intel_pstate/no_turbo")) return *no_turbo == 0;
  return is_on(files.integer(kCpu + "/cpufreq/boost"));
}

// The bracketed word of "always [madvise] never".
std::optional<std::string> chosen(const std::optional<std::string>& text) {
  if (!text) return std::nullopt;
  const std::size_t open = text->find('[');
  const std::size_t close = text->find(']', std::min(open, text->size()));
  if (close == text->npos || close == open + 1) return std::nullopt;
  return text->substr(open + 1, close - open - 1);
}

// The kernel's status of each processor vulnerability; some mitigations switch TSX off.
Json mitigations(const Files& files) {
  Json all;
  for (const std::string& path : files.glob(kCpu + "/vulnerabilities/*")) {
    if (const auto text = files.text(path)) all[path.substr(path.rfind('/') + 1)] = *text;
  }
  return all;
}

std::optional<bool> is_vm(const Files& files, const Processor& cpu) {
  if (cpu.flags) return cpu.has("hypervisor");
  // POWER: PowerNV is the bare machine, pSeries a guest of its hypervisor.
  if (cpu.machine) return !cpu.machine->starts_with("PowerNV");
  if (files.text("proc/device-tree/hypervisor/compatible")) return true;
  return std::nullopt;
}

// Checks for the marker files of Docker, Podman and systemd-nspawn.
bool is_container(const Files& files) {
  for (const char* mark : {".dockerenv", "run/.containerenv", "run/systemd/container"}) {
    if (files.data(mark)) return true;
  }
  return false;
}

// "none", or the layers between this process and the hardware: "vm", "container" or "vm+container".
std::optional<std::string> virtualisation(const Files& files, const Processor& cpu) {
  const auto vm = is_vm(files, cpu);
  if (!vm) return std::nullopt;
  if (!is_container(files)) return *vm ? "vm" : "none";
  return *vm ? "vm+container" : "container";
}

// Address randomisation of this process: the kernel's level 0 to 2, but 0 if `setarch -R` switched it off.
std::optional<std::int64_t> aslr(const Files& files) {
  constexpr unsigned kNoRandomize = 0x0040000;  // ADDR_NO_RANDOMIZE of <sys/personality.h>
  const auto level = files.integer("proc/sys/kernel/randomize_va_space");
  const std::string personality = files.text("proc/self/personality").value_or("");
  unsigned flags = 0;
  std::from_chars(personality.data(), personality.data() + personality.size(), flags, 16);
  if (level && flags & kNoRandomize) return 0;
  return level;
}

}  // namespace

std::optional<int> processors_allowed() {
  for (std::size_t sets = 1; sets <= 64; sets *= 2) {  // each set is of 1,024 CPUs
    std::vector<cpu_set_t> allowed(sets);
    const std::size_t bytes = sets * sizeof(cpu_set_t);
    if (sched_getaffinity(0, bytes, allowed.data()) == 0) return CPU_COUNT_S(bytes, allowed.data());
  }
  return std::nullopt;
}

Json environment_facts(std::optional<bool> tm_enabled, const std::filesystem::path& root) {
  const Files files(root);
  const Processor cpu = parse_cpuinfo(files.text("proc/cpuinfo").value_or(""));
  return Json::Object{
      {"os", os(files)},
      {"kernel", kernel()},
      {"libc", libc()},
      {"microcode", cpu.microcode},
      {"governor", governor(files)},
      {"turbo", turbo(files)},
      {"cpus_allowed", processors_allowed()},
      {"smt", is_on(files.integer(kCpu + "/smt/active"))},
      {"thp", chosen(files.text("sys/kernel/mm/transparent_hugepage/enabled"))},
      {"mitigations", mitigations(files)},
      {"virtualisation", virtualisation(files, cpu)},
      {"aslr", aslr(files)},
      {"tm_enabled", tm_enabled},
  };
}

}  // namespace tmflow::runner
