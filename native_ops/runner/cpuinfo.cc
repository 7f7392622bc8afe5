#include "runner/cpuinfo.hpp"

#include <charconv>
#include <map>

#include "runner/sysfiles.hpp"

namespace tmflow::runner {
namespace {

using Fields = std::map<std::string, std::string>;

const std::map<std::int64_t, std::string> kArmVendors = {
    {0x41, "ARM"},    {0x42, "Broadcom"}, {0x43, "Cavium"},   {0x46, "Fujitsu"}, {0x48, "HiSilicon"},
    {0x4e, "NVIDIA"}, {0x50, "APM"},      {0x51, "Qualcomm"}, {0x61, "Apple"},   {0xc0, "Ampere"}};
const std::map<std::int64_t, std::string> kArmCores = {
    {0xd03, "Cortex-A53"},  {0xd05, "Cortex-A55"},  {0xd07, "Cortex-A57"},
    {0xd08, "Cortex-A72"},  {0xd0b, "Cortex-A76"},  {0xd0c, "Neoverse-N1"},
    {0xd40, "Neoverse-V1"}, {0xd49, "Neoverse-N2"}, {0xd4f, "Neoverse-V2"}};

std::optional<std::string> field(const Fields& fields, const std::string& name) {
  const auto found = fields.find(name);
  if (found == fields.end()) return std::nullopt;
  return found->second;
}

std::optional<std::int64_t> hexadecimal(std::string_view digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number, 16);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

// A decimal number, or a hexadecimal one with 0x; nullopt for anything else ("unknown", "AArch64").
std::optional<std::int64_t> number(const Fields& fields, const std::string& name) {
  const std::string text = field(fields, name).value_or("");
  if (text.starts_with("0x")) return hexadecimal(std::string_view(text).substr(2));
  if (text.size() > 1 && text.starts_with("0")) return std::nullopt;
  return whole_number(text);
}

Processor of_x86(const Fields& fields) {
  Processor cpu{.vendor = field(fields, "vendor_id"),
                .model = field(fields, "model name"),
                .family = number(fields, "cpu family"),
                .model_no = number(fields, "model"),
                .stepping = number(fields, "stepping"),
                .microcode = field(fields, "microcode")};
  if (const auto flags = field(fields, "flags")) {
    const auto words = split_words(*flags);
    cpu.flags.emplace(words.begin(), words.end());
  }
  return cpu;
}

Processor of_arm(const Fields& fields) {
  const auto implementer = number(fields, "CPU implementer"), part = number(fields, "CPU part");
  const auto variant = number(fields, "CPU variant"), revision = number(fields, "CPU revision");
  const auto known_vendor = kArmVendors.find(implementer.value_or(0));
  const auto known_core = kArmCores.find(part.value_or(0));
  const std::string vendor =
      known_vendor == kArmVendors.end() ? fields.at("CPU implementer") : known_vendor->second;
  const bool is_known = implementer == 0x41 && known_core != kArmCores.end();
  Processor cpu{
      .vendor = vendor,
      .model = is_known ? known_core->second : vendor + " part " + field(fields, "CPU part").value_or("None"),
      .family = number(fields, "CPU architecture"),
      .model_no = part};
  if (variant && revision) cpu.stepping = 16 * *variant + *revision;
  return cpu;
}

Processor of_power(const Fields& fields) {
  const std::string& cpu = fields.at("cpu");
  Processor power{.vendor = "IBM",
                  .model = cpu.substr(0, cpu.find(',')),  // drops ", altivec supported"
                  .machine = field(fields, "machine")};
  const std::string& revision = fields.at("revision");
  if (const std::size_t at = revision.find("pvr "); at != revision.npos && revision.size() >= at + 13) {
    power.model_no = hexadecimal(std::string_view(revision).substr(at + 4, 4));
    power.stepping = hexadecimal(std::string_view(revision).substr(at + 9, 4));
  }
  return power;
}

}  // namespace

Processor parse_cpuinfo(std::string_view text) {
  Fields fields;
  for (const std::string& line : split_lines(text)) {
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    fields.emplace(stripped(line.substr(0, colon)), stripped(line.substr(colon + 1)));
  }
  if (fields.contains("vendor_id") && fields.contains("cpu family")) return of_x86(fields);
  if (fields.contains("CPU implementer")) return of_arm(fields);
  if (fields.contains("cpu") && fields.contains("revision")) return of_power(fields);
  return {.model = field(fields, "model name")};
}

}  // namespace tmflow::runner
