// The location of the variables of a model.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "tmflow/sync/cache_line.hpp"

namespace tmflow::train {

// A vector has one row.
struct VariableShape {
  std::string name;
  std::size_t rows;
  std::size_t columns;

  std::size_t size() const noexcept { return rows * columns; }
};

enum class Layout {
  separate,  // each variable in a separate region
  joined,    // all in one region, one after another
};

struct Place {
  std::size_t region, offset, size;
};

// The regions that hold some variables, and the place of each variable in them.
class Placement {
 public:
  Placement(const std::vector<VariableShape>& shapes, Layout layout) {
    for (const VariableShape& shape : shapes) {
      if (sizes_.empty() || layout == Layout::separate) {
        sizes_.push_back(0);
        names_.push_back(layout == Layout::separate ? shape.name : "joined");
      }
      places_.push_back({sizes_.size() - 1, sizes_.back(), shape.size()});
      sizes_.back() += shape.size();
    }
  }

  const std::vector<Place>& places() const noexcept { return places_; }
  const std::vector<std::size_t>& region_sizes() const noexcept { return sizes_; }
  const std::vector<std::string>& region_names() const noexcept { return names_; }

 private:
  std::vector<Place> places_;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> names_;
};

// Memory for the regions of a placement, each on separate cache lines.
template <class T>
class RegionMemory {
 public:
  explicit RegionMemory(const Placement& placement) : places_(placement.places()) {
    for (const std::size_t size : placement.region_sizes()) memory_.emplace_back(size);
  }

  std::span<T> region(std::size_t region) noexcept { return memory_[region]; }
  std::span<T> variable(std::size_t variable) noexcept {
    const Place& place = places_[variable];
    return std::span<T>(memory_[place.region]).subspan(place.offset, place.size);
  }

 private:
  std::vector<Place> places_;
  std::vector<LinesOf<T>> memory_;
};

}  // namespace tmflow::train
