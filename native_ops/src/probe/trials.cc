#include "trials.hpp"

#include <sys/mman.h>

namespace tmflow::probe {

Space::Space(std::size_t bytes) : bytes_(bytes) {
  void* const mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) {
    throw NotMeasured("the system does not provide " + std::to_string(bytes >> 20) + " MiB of address space");
  }
  data_ = static_cast<char*>(mapped);
  // A touched place costs a small page, not a huge one. Where there are no huge pages, this changes nothing.
  static_cast<void>(madvise(mapped, bytes, MADV_NOHUGEPAGE));
}

Space::~Space() { munmap(data_, bytes_); }

Json Share::json() const { return Json::Object{{"places", places}, {"tries", tries}, {"commits", commits}}; }

Share Trials::share(std::size_t places, const Places& walks, int tries) const {
  Share share{.places = places};
  for (; share.tries < tries; ++share.tries) {
    const End end = one(share.tries, walks);
    share.commits += end == End::commit ? 1 : 0;
    share.lacks += end == End::lack ? 1 : 0;
  }
  return share;
}

bool Trials::fit(const Places& walks) const {
  int commits = 0;
  for (int number = 0; number < kTries; ++number) {
    commits += one(number, walks) == End::commit ? 1 : 0;
    if (2 * commits >= kTries) return true;
    if (2 * (number + 1 - commits) > kTries) return false;
  }
  return false;
}

std::size_t Trials::limit(std::size_t most, const SizedPlaces& walks) const {
  const auto sized = [&](std::size_t n) { return [&, n](char* base) { return walks(base, n); }; };
  const std::size_t good = largest(most, [&](std::size_t n) { return fit(sized(n)); });
  if (good == most) return most;
  const std::size_t more = good + (good + 3) / 4;
  const Share beyond = share(more, sized(more));
  if (2 * beyond.lacks < beyond.tries - beyond.commits) {
    throw NotMeasured("half of the transactions of " + std::to_string(good) +
                      " lines commit, and larger ones mostly abort for reasons other than their size");
  }
  return good;
}

Trials::End Trials::one(int number, const Places& walks) const {
  const std::vector<Walk> placed = walks(base_ + static_cast<std::size_t>(number) % kRotations * kRotation);
  if (number < static_cast<int>(kRotations)) {
    for (const Walk& walk : placed) transactor_.prepare(walk);
  }
  for (int retry = 0; retry <= kRetries; ++retry) {
    htm::Ended ended;
    if (attempt(placed, ended)) return End::commit;
    if (ended.hopeless) return End::lack;
  }
  return End::other;
}

bool Trials::attempt(const std::vector<Walk>& walks, htm::Ended& ended) const {
  const auto alone = [&] { return transactor_.attempt(transactor_.first(), walks, ended); };
  while (true) {
    budget_.check();
    const std::optional<bool> committed = beside_ != nullptr ? beside_->beside(alone) : alone();
    if (committed) return *committed;
  }
}

}  // namespace tmflow::probe
