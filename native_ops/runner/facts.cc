#include "runner/facts.hpp"

#include <sys/utsname.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <set>

#include "runner/cpuinfo.hpp"
#include "runner/sha256.hpp"
#include "runner/sysfiles.hpp"

namespace tmflow::runner {
namespace {

const std::string kCpu(kCpus);

// How many distinct values that file of the topology has over the online CPUs; nullopt if any is unknown
// (-1).
std::optional<std::int64_t> distinct(const Files& files, const std::string& leaf) {
  std::set<std::string> values;
  for (const std::string& path : files.glob(kCpu + "/cpu[0-9]*/topology/" + leaf)) {
    const auto value = files.text(path);
    if (!value || *value == "-1") return std::nullopt;
    values.insert(*value);
  }
  if (values.empty()) return std::nullopt;
  return values.size();
}

// The folder of CPU 0's data or unified cache of that level; a nonexistent path if there is none.
std::string cache(const Files& files, int level) {
  for (const std::string& path : files.glob(kCpu + "/cpu0/cache/index[0-9]*")) {
    if (files.integer(path + "/level") == level && files.text(path + "/type") != "Instruction") return path;
  }
  return kCpu + "/cpu0/cache/none";
}

// The memory in whole GiB, rounded up: the kernel withholds a part that varies from boot to boot.
std::optional<std::int64_t> memory_bytes(const Files& files) {
  for (const std::string& line : split_lines(files.text("proc/meminfo").value_or(""))) {
    const auto words = split_words(line);
    if (words.size() < 2 || words[0] != "MemTotal:") continue;
    const auto kib = whole_number(words[1]);
    if (!kib) return std::nullopt;
    return ((*kib * 1024 + (std::int64_t{1} << 30) - 1) >> 30) << 30;
  }
  return std::nullopt;
}

// The highest frequency that any core can reach.
std::optional<std::int64_t> freq_max_hz(const Files& files) {
  std::optional<std::int64_t> highest;
  for (const std::string& path : files.glob(kCpu + "/cpufreq/policy*/cpuinfo_max_freq")) {
    if (const auto khz = files.size(path)) highest = std::max(highest.value_or(0), 1000 * *khz);
  }
  return highest;
}

// A value of the auxiliary vector: pairs of words in which the kernel reports the features of the processor.
std::optional<std::uint64_t> auxiliary(const std::string& vector, std::uint64_t type) {
  std::uint64_t pair[2];
  std::optional<std::uint64_t> found;
  for (std::size_t at = 0; at + sizeof pair <= vector.size(); at += sizeof pair) {
    std::memcpy(pair, vector.data() + at, sizeof pair);
    if (pair[0] == type) found = pair[1];
  }
  return found;
}

// What the processor reports. Only a probe shows whether a transaction ever commits.
std::string tm_capability(const std::string& isa, const Processor& cpu, const Files& files) {
  constexpr std::uint64_t kHwcap2 = 26, kHtm = 0x40000000;  // from <elf.h> and POWER's <asm/cputable.h>
  if (isa == "x86_64" && cpu.flags) return cpu.has("rtm") ? "rtm" : "none";
  if (isa == "ppc64le") {
    const auto hwcap2 = auxiliary(files.data("proc/self/auxv").value_or(""), kHwcap2);
    if (hwcap2) return *hwcap2 & kHtm ? "htm" : "none";
  }
  return isa == "aarch64" ? "none" : "unknown";  // Linux enables no transactional memory on Arm
}

std::string isa_of(std::string machine) {
  std::ranges::transform(machine, machine.begin(), [](unsigned char letter) { return std::tolower(letter); });
  return machine == "amd64" ? "x86_64" : machine == "arm64" ? "aarch64" : machine;
}

}  // namespace

std::string this_machine() {
  utsname names{};
  uname(&names);
  return names.machine;
}

Json platform_facts(const std::filesystem::path& root, const std::string& machine) {
  const Files files(root);
  const std::string isa = isa_of(machine);
  const Processor cpu = parse_cpuinfo(files.text("proc/cpuinfo").value_or(""));
  const std::string l1d = cache(files, 1), l2 = cache(files, 2), l3 = cache(files, 3);
  return Json::Object{
      {"isa", isa},
      {"cpu_vendor", cpu.vendor},
      {"cpu_model", cpu.model},
      {"cpu_family", cpu.family},
      {"cpu_model_no", cpu.model_no},
      {"cpu_stepping", cpu.stepping},
      {"sockets", distinct(files, "physical_package_id")},
      {"numa_nodes", files.count("sys/devices/system/node/has_cpu")},
      // Switching SMT off takes threads offline; a core still counts because one of its threads remains.
      {"cores_physical", distinct(files, "thread_siblings_list")},
      {"threads_logical", files.count(kCpu + "/present")},
      {"l1d_bytes", files.size(l1d + "/size")},
      {"l1d_ways", files.size(l1d + "/ways_of_associativity")},
      {"l2_bytes", files.size(l2 + "/size")},
      {"l3_bytes", files.size(l3 + "/size")},
      {"cacheline_bytes", files.size(l1d + "/coherency_line_size")},
      {"memory_bytes", memory_bytes(files)},
      {"freq_max_hz", freq_max_hz(files)},
      {"tm_capability", tm_capability(isa, cpu, files)},
  };
}

std::string text_of(const Json& facts, std::string_view fact) {
  const Json* found = facts.find(fact);
  return found == nullptr || found->is_null() ? "" : found->text();
}

std::int64_t count_of(const Json& facts, std::string_view fact) {
  const Json* found = facts.find(fact);
  return found == nullptr || found->is_null() ? 0 : found->integer();
}

std::string platform_sha256(const Json& facts) { return sha256_hex(canonical(facts)); }

std::string display_name(const Json& facts) {
  std::string name = text_of(facts, "cpu_model");
  if (name.empty()) name = text_of(facts, "isa") + " processor";
  constexpr std::pair<const char*, const char*> kCounts[] = {
      {"sockets", "socket"}, {"cores_physical", "core"}, {"threads_logical", "thread"}};
  for (const auto& [fact, unit] : kCounts) {
    const std::int64_t count = count_of(facts, fact);
    if (count != 0) name += ", " + std::to_string(count) + " " + unit + (count == 1 ? "" : "s");
  }
  if (const std::int64_t bytes = count_of(facts, "memory_bytes"); bytes != 0) {
    name += ", " + std::to_string(bytes >> 30) + " GiB";
  }
  return name;
}

}  // namespace tmflow::runner
