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
  bool by_rows = false;  // a step updates some of its rows, and there is no gradient of the whole variable

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
      row_widths_.resize(sizes_.size(), shape.by_rows ? shape.columns : 0);
    }
  }

  const std::vector<Place>& places() const noexcept { return places_; }
  const std::vector<std::size_t>& region_sizes() const noexcept { return sizes_; }
  const std::vector<std::string>& region_names() const noexcept { return names_; }
  // The length of a row, if a step updates some rows of the region's variable, which then is alone there;
  // else 0.
  std::size_t row_width(std::size_t region) const noexcept { return row_widths_[region]; }

 private:
  std::vector<Place> places_;
  std::vector<std::size_t> sizes_;
  std::vector<std::string> names_;
  std::vector<std::size_t> row_widths_;
};

// Memory for the regions of a placement, each on separate cache lines; for all, or for those that
// `needs(region)` names.
template <class T>
class RegionMemory {
 public:
  explicit RegionMemory(const Placement& placement)
      : RegionMemory(placement, [](std::size_t) { return true; }) {}

  template <class Needs>
  RegionMemory(const Placement& placement, const Needs& needs) : places_(placement.places()) {
    const std::vector<std::size_t>& sizes = placement.region_sizes();
    for (std::size_t region = 0; region < sizes.size(); ++region) {
      memory_.emplace_back(needs(region) ? sizes[region] : 0);
    }
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
