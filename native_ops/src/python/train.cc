// The native driver in the Python module: a trial over NumPy arrays.
#include "train.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "counters.hpp"
#include "tmflow/core/checks.hpp"
#include "tmflow/train/models.hpp"
#include "tmflow/train/trial.hpp"

namespace nb = nanobind;

namespace tmflow::python {
namespace {

template <class T>
using Read = nb::ndarray<const T, nb::numpy, nb::c_contig, nb::device::cpu>;
template <class T>
using Written = nb::ndarray<T, nb::numpy, nb::c_contig, nb::device::cpu>;

template <class Array>
Array cast(nb::handle given, const char* what) {
  Array array;
  if (!nb::try_cast(given, array, false)) throw nb::value_error(what);
  return array;
}

// Converts `given`, which must be one of two words.
template <class T>
T one_of(const char* factor, const std::string& given, const char* first, T as_first, const char* second,
         T as_second) {
  if (given == first) return as_first;
  if (given == second) return as_second;
  throw nb::value_error(
      (std::string(factor) + " is '" + given + "'; allowed: " + first + ", " + second).c_str());
}

std::size_t not_negative(const char* factor, std::int64_t given) {
  if (given < 0) throw nb::value_error((std::string(factor) + " must not be negative").c_str());
  return static_cast<std::size_t>(given);
}

template <class T>
std::span<const T> numbers(const Read<T>& array) {
  return {array.data(), array.size()};
}

// A training set, with the arrays that it refers to.
class TrainingArrays {
 public:
  TrainingArrays(nb::handle images, nb::handle labels)
      : images_(matrix<float>(images,
                              "images must be a C-contiguous NumPy array of float32 with two dimensions")),
        labels_(matrix<float>(labels, kLabels)),
        set_(numbers(images_), numbers(labels_), images_.shape(1), labels_.shape(1)) {}

  // `values`: None if all are 1.
  TrainingArrays(nb::handle features, nb::handle labels, std::int64_t number, nb::handle values)
      : labels_(matrix<float>(labels, kLabels)), set_(of_features(features, labels_, number, values)) {}

  const train::TrainingSet& set() const noexcept { return set_; }

 private:
  static constexpr const char* kLabels =
      "labels must be a C-contiguous NumPy array of float32 with two dimensions";

  template <class T>
  static Read<T> matrix(nb::handle given, const char* what) {
    const auto array = cast<Read<T>>(given, what);
    if (array.ndim() != 2) throw nb::value_error(what);
    return array;
  }

  static train::TrainingSet of_features(nb::handle given, const Read<float>& labels, std::int64_t number,
                                        nb::handle given_values) {
    const auto features = matrix<std::int32_t>(
        given, "features must be a C-contiguous NumPy array of int32 with two dimensions");
    Read<float> values;
    if (!given_values.is_none()) {
      values = matrix<float>(given_values,
                             "values must be a C-contiguous NumPy array of float32 with two dimensions");
      if (values.shape(0) != features.shape(0) || values.shape(1) != features.shape(1)) {
        throw nb::value_error("values must have the shape of features");
      }
    }
    return train::TrainingSet::of_features(
        numbers(features), features.shape(1), numbers(labels), not_negative("number", number),
        labels.shape(1), given_values.is_none() ? std::span<const float>() : numbers(values));
  }

  const Read<float> images_, labels_;
  const train::TrainingSet set_;
};

class NativeTrial {
 public:
  NativeTrial(const std::string& model, std::int64_t matrix, std::optional<std::int64_t> hidden,
              const std::optional<std::string>& activation, const std::string& strategy,
              const std::vector<std::string>& parameters, int workers, const std::string& layout,
              const std::string& reading, const std::string& pinning, const std::string& measures,
              const std::map<std::string, std::int64_t>& numbers, const std::string& optimiser) {
    using train::Layout, train::ReadingOf;
    train::ModelFactors factors{.matrix = not_negative("matrix", matrix)};
    if (hidden) factors.hidden = not_negative("hidden", *hidden);
    if (activation) factors.activation = *activation;
    for (const auto& [name, number] : numbers) {
      factors.numbers[name] = not_negative(name.c_str(), number);
    }
    const train::TrialPlan plan{
        .strategy = strategy,
        .parameters = parameters,
        .workers = workers,
        .layout = one_of("layout", layout, "separate", Layout::separate, "joined", Layout::joined),
        .reading = one_of("reading", reading, "plain", ReadingOf::plain, "consistent", ReadingOf::consistent),
        .optimiser = optimiser_named(optimiser),
        .pinned = one_of("pinning", pinning, "none", false, "cores", true),
        .full_measures = one_of("measures", measures, "usual", false, "full", true)};
    trial_ = std::make_unique<train::Trial>(train::make_model<float>(model, factors), plan);
  }

  void set_variables(const std::vector<nb::object>& given) {
    std::vector<Read<float>> arrays;
    std::vector<std::span<const float>> values;
    for (const nb::object& array : given) {
      arrays.push_back(cast<Read<float>>(array, "values must be C-contiguous NumPy arrays of float32"));
      values.emplace_back(arrays.back().data(), arrays.back().size());
    }
    const std::unique_lock own = alone();
    trial_->set_variables(values);
  }

  double run(const TrainingArrays& data, nb::handle starts, std::int64_t batch, double learning_rate,
             nb::handle losses) {
    const auto start = cast<Read<std::int64_t>>(starts, "starts must be a C-contiguous NumPy array of int64");
    Written<double> loss;
    if (!losses.is_none()) {
      loss = cast<Written<double>>(losses, "losses must be a writable, C-contiguous NumPy array of float64");
    }
    const train::Steps steps{
        .set = data.set(), .starts = {start.data(), start.size()}, .batch = not_negative("batch", batch)};
    const float rate = finite_alpha<float>(learning_rate);
    const std::span<double> kept =
        losses.is_none() ? std::span<double>() : std::span(loss.data(), loss.size());
    if (!losses.is_none() && kept.size() != steps.starts.size()) {
      throw nb::value_error("losses must have one element per step");
    }
    const std::unique_lock own = alone();
    const nb::gil_scoped_release released;
    return trial_->run(steps, rate, kept);
  }

  nb::list variables() {
    nb::list values;
    const std::unique_lock own = alone();
    for (std::size_t i = 0; i < trial_->shapes().size(); ++i) {
      const std::span<const float> now = trial_->variable(i);
      auto copy = std::make_unique<float[]>(now.size());
      std::copy(now.begin(), now.end(), copy.get());
      const nb::capsule owner(copy.get(),
                              [](void* memory) noexcept { delete[] static_cast<float*>(memory); });
      float* const memory = copy.release();
      const std::size_t size[] = {now.size()};
      values.append(nb::cast(nb::ndarray<nb::numpy, float>(memory, 1, size, owner)));
    }
    return values;
  }

  nb::list counters() {
    nb::list rows;
    const std::unique_lock own = alone();
    for (int worker = 0; worker < trial_->workers(); ++worker) {
      for (int region = 0; region < trial_->tracker().variables(); ++region) {
        const ThreadStats& stats = trial_->tracker().stats(worker, region);
        const auto index = static_cast<std::size_t>(region);
        const std::string& name = trial_->region_names()[index];
        rows.append(counters_of_variable(worker, name, stats, trial_->reports_torn_reads(index)));
      }
    }
    return rows;
  }

  nb::list lost() {
    nb::list rows;
    const std::unique_lock own = alone();
    for (std::size_t region = 0; region < trial_->region_names().size(); ++region) {
      const train::Trial::Lost lost = trial_->lost(region);
      nb::dict row;
      row["variable"] = trial_->region_names()[region];
      row["expected"] = lost.expected;
      row["lost"] = lost.lost;
      row["elements"] = lost.inconsistent ? nb::object(nb::int_(lost.elements)) : nb::none();
      row["inconsistent"] = lost.inconsistent;
      rows.append(row);
    }
    return rows;
  }

  nb::list staleness() {
    nb::list rows;
    const std::unique_lock own = alone();
    for (int worker = 0; worker < trial_->workers(); ++worker) {
      for (const auto& [value, count] : trial_->tracker().staleness(worker)) {
        nb::dict row;
        row["worker"] = worker;
        row["staleness"] = value;
        row["steps"] = count;
        rows.append(row);
      }
    }
    return rows;
  }

 private:
  // One call at a time: a run uses the variables exclusively. No thread waits while it holds the interpreter
  // lock, which the running call needs.
  std::unique_lock<std::mutex> alone() {
    const nb::gil_scoped_release released;
    return std::unique_lock(alone_);
  }

  static nb::dict counters_of_variable(int worker, const std::string& variable, const ThreadStats& stats,
                                       bool knows_torn) {
    nb::dict row = counters_of(worker, stats, knows_torn);
    row["variable"] = variable;
    for (const Contention kind : kContentions) {
      nb::dict histogram;
      for (std::int64_t n = 0; n <= ThreadStats::kMost; ++n) {
        if (stats.counted(kind, n) != 0) histogram[nb::int_(n)] = stats.counted(kind, n);
      }
      row[std::string(name_of(kind)).c_str()] = histogram;
    }
    return row;
  }

  std::unique_ptr<train::Trial> trial_;
  std::mutex alone_;
};

}  // namespace

void bind_train(nb::module_& m) {
  nb::class_<TrainingArrays>(m, "TrainingSet",
                             "Examples and labels that trials of the native driver train on.")
      .def(nb::init<nb::handle, nb::handle>(), nb::arg("images"), nb::arg("labels"),
           "Images [n, pixels] and one-hot labels [n, classes], float32, which must not change. If most "
           "pixels are "
           "zero, the others are listed, which takes about as long as reading the images. Raises ValueError "
           "for "
           "other arrays.")
      .def(nb::init<nb::handle, nb::handle, std::int64_t, nb::handle>(), nb::arg("features"),
           nb::arg("labels"), nb::arg("number"), nb::arg("values") = nb::none(),
           "Examples that have a few of `number` features: the features of each, int32 [n, of an example], "
           "each once, and one-hot labels [n, classes]. values: of the features, float32 of the same shape, "
           "where "
           "0 counts as absent; None if all are 1. Features and values are copied. Raises ValueError for "
           "other arrays.");
  nb::class_<NativeTrial>(m, "NativeTrial",
                          "A model's variables, trained by C++ threads under a strategy; no TensorFlow.")
      .def(nb::init<const std::string&, std::int64_t, std::optional<std::int64_t>,
                    const std::optional<std::string>&, const std::string&, const std::vector<std::string>&,
                    int, const std::string&, const std::string&, const std::string&, const std::string&,
                    const std::map<std::string, std::int64_t>&, const std::string&>(),
           nb::arg("model"), nb::arg("matrix"), nb::arg("hidden").none(), nb::arg("activation").none(),
           nb::arg("strategy"), nb::arg("parameters"), nb::arg("workers"), nb::arg("layout") = "separate",
           nb::arg("reading") = "plain", nb::arg("pinning") = "none", nb::arg("measures") = "usual",
           nb::arg("numbers") = std::map<std::string, std::int64_t>(), nb::arg("optimiser") = "sgd",
           "The factors are those of a trial's spec, the parameters \"name=value\". `numbers` has the whole "
           "numbers of a model whose steps update rows. Raises ValueError for unknown values and invalid "
           "combinations.")
      .def("set_variables", &NativeTrial::set_variables, nb::arg("values"),
           "Sets the variables to float32 arrays, one per variable in the model's order, and resets all "
           "counts.")
      .def("run", &NativeTrial::run, nb::arg("data"), nb::arg("starts"), nb::arg("batch"),
           nb::arg("learning_rate"), nb::arg("losses").none() = nb::none(),
           "Runs one step for each of `starts` (int64), the first image of its batch in `data`, a "
           "TrainingSet; worker w of n takes the "
           "steps w, w + n, ... Without the interpreter lock. Returns the seconds of the workers' loop; "
           "`losses` (float64) receives the loss of each step. Raises ValueError, and does nothing, for "
           "invalid "
           "arrays.")
      .def("variables", &NativeTrial::variables, "Copies of the variables, each a flat float32 array.")
      .def("counters", &NativeTrial::counters,
           "One dict per worker and region: worker, variable, updates, attempts, commits, fallbacks, aborts "
           "(by raw status), retries (critical sections by number of aborted attempts), failed_publications "
           "and taken_blocks (updates by number of events), waited_ns, held_ns, reads, torn (None if not "
           "counted).")
      .def("lost", &NativeTrial::lost,
           "One dict per region, with full measures only: variable, expected and lost updates of elements; "
           "the number of elements, and of those that contain other updates than their slots (None without "
           "slots).")
      .def("staleness", &NativeTrial::staleness, "Dicts: worker, staleness, steps.");
}

}  // namespace tmflow::python
