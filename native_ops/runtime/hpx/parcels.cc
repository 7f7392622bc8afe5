#include "parcels.hpp"

#include <condition_variable>
#include <cstring>
#include <deque>
#include <hpx/actions/actions_fwd.hpp>
#include <hpx/actions_base/plain_action.hpp>
#include <hpx/async_distributed/put_parcel.hpp>
#include <hpx/include/actions.hpp>
#include <hpx/include/runtime.hpp>
#include <hpx/parcelport_tcp/connection_handler.hpp>
#include <hpx/parcelport_tcp/locality.hpp>
#include <hpx/parcelport_tcp/receiver.hpp>
#include <hpx/parcelport_tcp/sender.hpp>
#include <hpx/parcelset/parcelhandler.hpp>
#include <hpx/runtime_distributed.hpp>
#include <hpx/serialization/serialize_buffer.hpp>
#include <hpx/serialization/string.hpp>
#include <hpx/serialization/vector.hpp>
#include <hpx/version.hpp>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <utility>

#include "hpx_runtime.hpp"

namespace tmflow::runtime::parcels {
namespace {

using Buffer = hpx::serialization::serialize_buffer<char>;

constexpr std::size_t kMostTogether = 1 << 20;  // bytes of the frames of one parcel, if there are several

}  // namespace

// A frame within a parcel. HPX sends a large body from where it is.
struct Packet {
  Key key;
  std::uint64_t number = 0;
  std::string head, text, header;
  Buffer body;

  template <class Archive>
  void serialize(Archive& archive, unsigned) {
    archive & key.high & key.low & number & head & text & header & body;
  }
};

void deliver(std::vector<Packet> packets);

}  // namespace tmflow::runtime::parcels

HPX_DEFINE_PLAIN_ACTION(tmflow::runtime::parcels::deliver, tmflow_deliver_action);
HPX_REGISTER_ACTION_DECLARATION(tmflow_deliver_action, tmflow_deliver_action)
// With a fixed number: those that HPX assigns depend on what else a process has registered.
HPX_REGISTER_ACTION_ID(tmflow_deliver_action, tmflow_deliver_action, hpx::actions::last_action_id + 1)

// On the thread that has received the parcel, without waiting for a thread of HPX.
template <>
struct hpx::traits::action_select_direct_execution<tmflow_deliver_action> {
  static hpx::launch call(hpx::launch, hpx::naming::address_type) noexcept { return hpx::launch::sync; }
};

namespace tmflow::runtime::parcels {
namespace {

// The receivers of this process.
class Receivers {
 public:
  static Receivers& of_process() {
    static auto* const receivers = new Receivers;  // parcels may arrive while the process ends
    return *receivers;
  }

  void add(const Key& key, Receiver& receiver) {
    const std::lock_guard lock(mutex_);
    entries_.emplace(key, Entry{&receiver, {}});
  }

  void watch(const Key& key, const Endpoint& other) {
    const std::lock_guard lock(mutex_);
    entries_.at(key).other = other;
  }

  void remove(const Key& key) {
    std::unique_lock lock(mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end()) return;
    it->second.receiver = nullptr;
    idle_.wait(lock, [&] { return it->second.calls == 0; });
    entries_.erase(it);
  }

  // Nobody receives a frame whose key is not, or no longer, known.
  template <class Call>
  void call(const Key& key, Call function) {
    std::unique_lock lock(mutex_);
    const auto it = entries_.find(key);
    if (it == entries_.end() || it->second.receiver == nullptr) return;
    Receiver& receiver = *it->second.receiver;
    ++it->second.calls;
    lock.unlock();
    function(receiver);
    lock.lock();
    if (--it->second.calls == 0) idle_.notify_all();
  }

  std::vector<Key> those_of(const Endpoint& other) {
    const std::lock_guard lock(mutex_);
    std::vector<Key> keys;
    for (const auto& [key, entry] : entries_) {
      if (entry.other == other) keys.push_back(key);
    }
    return keys;
  }

 private:
  struct Entry {
    Receiver* receiver;  // null once it is being removed
    Endpoint other;
    int calls = 0;
  };

  std::mutex mutex_;
  std::condition_variable idle_;
  std::map<Key, Entry> entries_;
};

// What HPX sends and receives with.
hpx::parcelset::parcelport& parcelport() {
  return *hpx::get_runtime_distributed().get_parcel_handler().get_bootstrap_parcelport();
}

// HPX keeps connections for later, and what is written to one whose other end is gone is lost without an
// error. HPX's own function for this waits until nothing is sent to anybody, so this reaches the cache as a
// class that is derived from the parcelport could.
void forget_connections(const hpx::parcelset::locality& to) {
  using Tcp = hpx::parcelset::policies::tcp::connection_handler;
  struct Access : Tcp {
    static auto cache() { return &Access::connection_cache_; }
  };
  (static_cast<Tcp&>(parcelport()).*Access::cache()).clear(to);
}

// The frames of this process to one other. HPX has one parcel of them at a time, and the next has what has
// come meanwhile: HPX would give each of several parcels that it sends together a thread.
class Courier {
 public:
  explicit Courier(Endpoint to) : to_(std::move(to)) {}

  void send(const Key& key, std::uint64_t number, Frame frame, const std::shared_ptr<Sender>& sender) {
    Items lost;
    std::uint64_t generation = 0;
    {
      const std::lock_guard lock(mutex_);
      if (is_lost_) {
        lost.push_back({key, number, std::move(frame), sender});
      } else {
        queue_.push_back({key, number, std::move(frame), sender});
        if (std::exchange(is_sending_, true)) return;
        generation = generation_;
      }
    }
    if (!lost.empty()) return finish(std::move(lost));
    send_next(generation);
  }

  // Called when the process has just been heard from. If it is another one than before, at the same port, or
  // HPX has failed to send to it, nothing that HPX has for it counts any more. From now on the receiver with
  // this key hears of losses: of each, because a loss is reported under the same mutex.
  void meet(const Key& key, const Key& process) {
    const std::lock_guard only(meeting_);  // who meets it second does not send until all is forgotten
    if (is_new(process)) {
      forget_connections(locality());
      tell("another process has its port");
    }
    Receivers::of_process().watch(key, to_);
  }

  void drop(const Key& key) {
    Items dropped;
    {
      const std::lock_guard lock(mutex_);
      std::erase_if(queue_, [&](Item& item) {
        if (item.key != key) return false;
        dropped.push_back(std::move(item));
        return true;
      });
    }
    finish(std::move(dropped));
  }

 private:
  // Whether the process is another one than before, or one to which HPX has failed to send. Then everything
  // that is queued is dropped, and the next generation begins.
  bool is_new(const Key& process) {
    Items dropped;
    {
      const std::lock_guard lock(mutex_);
      if (process == process_ && !is_lost_) return false;
      process_ = process;
      is_lost_ = is_sending_ = false;
      ++generation_;
      dropped = take_queue();
    }
    finish(std::move(dropped));
    return true;
  }

  // HPX has failed to send. Drops all frames from now on: the process has ended, and HPX would try to reach
  // it again and again.
  void lose(std::uint64_t generation, const std::string& why) {
    const std::lock_guard only(meeting_);
    Items dropped;
    {
      const std::lock_guard lock(mutex_);
      if (generation != generation_) return;
      is_lost_ = true;
      dropped = take_queue();
    }
    finish(std::move(dropped));
    tell(why);
  }

  struct Item {
    Key key;
    std::uint64_t number;
    Frame frame;
    std::shared_ptr<Sender> sender;
    std::size_t bytes = frame.size();
  };
  using Items = std::vector<Item>;

  // Only whoever has set `is_sending_` in this generation, or sees that its parcel is sent, calls it.
  void send_next(std::uint64_t generation) {
    const auto items = std::make_shared<Items>();
    {
      const std::lock_guard lock(mutex_);
      if (generation != generation_) return;  // another thread sends, or will
      for (std::size_t bytes = 0; !queue_.empty() && bytes < kMostTogether;) {
        bytes += queue_.front().bytes;
        items->push_back(std::move(queue_.front()));
        queue_.pop_front();
      }
      if (items->empty()) {
        is_sending_ = false;
        return;
      }
    }
    std::vector<Packet> packets;
    packets.reserve(items->size());
    for (Item& item : *items) {
      const std::string_view body = item.frame.message.body;
      packets.push_back({item.key, item.number,
                         std::string(reinterpret_cast<const char*>(&item.frame.head), sizeof(tcp::Head)),
                         item.frame.text, std::move(item.frame.message.header),
                         Buffer(const_cast<char*>(body.data()), body.size(), Buffer::reference)});
    }
    put(std::move(packets),
        [this, items, generation](const std::error_code& error, const hpx::parcelset::parcel&) {
          finish(std::exchange(*items, {}));  // HPX keeps this function longer
          if (error) lose(generation, error.message());
          send_next(generation);
        });
  }

  Items take_queue() {
    Items items(std::make_move_iterator(queue_.begin()), std::make_move_iterator(queue_.end()));
    queue_.clear();
    return items;
  }

  hpx::parcelset::locality locality() const {
    return hpx::parcelset::locality(hpx::parcelset::policies::tcp::locality(to_.address, to_.port));
  }

  template <class Handler>
  void put(std::vector<Packet> packets, Handler handler) {
    using namespace hpx;
    naming::gid_type first = naming::get_gid_from_locality_id(0);
    naming::address address(first, to_int(components::component_enum_type::plain_function), nullptr);
    parcelset::parcel parcel =
        parcelset::detail::create_parcel::call(std::move(first), std::move(address), tmflow_deliver_action(),
                                               hpx::launch::async, std::move(packets));
    parcel.set_source_id(find_here());
    parcelport().put_parcel(locality(), std::move(parcel), std::move(handler));
  }

  static void finish(Items items) {
    for (Item& item : items) {
      item.frame = {};  // what it keeps may be freed before the sender hears of it
      if (item.sender != nullptr) item.sender->sent(item.bytes);
    }
  }

  // Those who send there, or did, hear that frames are missing.
  void tell(const std::string& why) {
    for (const Key& key : Receivers::of_process().those_of(to_)) {
      Receivers::of_process().call(key, [&](Receiver& receiver) { receiver.lose(why); });
    }
  }

  const Endpoint to_;
  std::mutex meeting_;  // taken before the other
  std::mutex mutex_;
  std::deque<Item> queue_;
  bool is_sending_ = false;
  bool is_lost_ = false;
  Key process_;
  std::uint64_t generation_ = 0;  // of processes; handlers of parcels to an earlier one change nothing
};

Courier& courier(const Endpoint& to) {
  static std::mutex mutex;
  static auto* const couriers = new std::map<Endpoint, std::unique_ptr<Courier>>;
  const std::lock_guard lock(mutex);
  auto& one = (*couriers)[to];
  if (one == nullptr) one = std::make_unique<Courier>(to);
  return *one;
}

}  // namespace

void deliver(std::vector<Packet> packets) {
  for (Packet& packet : packets) {
    Frame frame;
    if (packet.head.size() != sizeof frame.head) continue;
    std::memcpy(&frame.head, packet.head.data(), sizeof frame.head);
    frame.text = std::move(packet.text);
    frame.message.header = std::move(packet.header);
    const auto body = std::make_shared<Buffer>(std::move(packet.body));
    frame.message.body = {body->data(), body->size()};
    frame.message.owner = body;
    Receivers::of_process().call(
        packet.key, [&](Receiver& receiver) { receiver.receive(packet.number, std::move(frame)); });
  }
}

Key new_key() {
  std::random_device random;
  const auto half = [&] { return std::uint64_t{random()} << 32 | random(); };
  return {half(), half()};
}

void open(const Key& key, Receiver& receiver) { Receivers::of_process().add(key, receiver); }

void close(const Key& key) { Receivers::of_process().remove(key); }

Key process() {
  static const Key key = new_key();
  return key;
}

void watch(const Key& key, const Endpoint& other, const Key& process) { courier(other).meet(key, process); }

void drop(const Endpoint& to, const Key& key) { courier(to).drop(key); }

void send(const Endpoint& to, const Key& key, std::uint64_t number, Frame frame,
          const std::shared_ptr<Sender>& sender) {
  courier(to).send(key, number, std::move(frame), sender);
}

bool is_loopback(const std::string& ip) { return ip.starts_with("127.") || ip == "::1"; }

std::string version() { return hpx::full_version_as_string(); }

Endpoint start(const std::string& address) {
  try {
    const HpxAddress at = start_hpx_network(address);
    if (is_loopback(at.ip) && !is_loopback(address)) {
      throw tcp::Failure("HPX of this process receives at " + at.ip + ", where other hosts cannot reach it",
                         kInvalid);
    }
    return {at.ip, at.port};
  } catch (const tcp::Failure&) {
    throw;
  } catch (const std::exception& error) {
    throw tcp::Failure(error.what(), kInvalid);
  }
}

}  // namespace tmflow::runtime::parcels
