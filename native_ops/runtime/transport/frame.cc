#include "frame.hpp"

#include <utility>

namespace tmflow::runtime::tcp {

bool is_valid(const Head& head, Kind kind) {
  if (head.magic != kMagic || head.kind != kind || head.unused != 0) return false;
  if (head.text > kMostText || head.header > kMostHeader) return false;
  switch (kind) {
    case Kind::kHello:
      return head.text + head.header <= kMostHello && head.body == 0;
    case Kind::kRequest:
      return head.code == 0 && head.text == 0 && head.body == 0;
    case Kind::kAnswer:
      return head.code == 0 || head.body == 0;
    case Kind::kCancel:
      return head.code == 0 && head.text == 0 && head.header == 0 && head.body == 0;
  }
  return false;
}

Frame frame(Head head, std::string text, Message message) {
  if (text.size() > kMostText) text.resize(kMostText);
  head.text = static_cast<std::uint32_t>(text.size());
  head.header = message.header.size();
  head.body = message.body.size();
  return {head, std::move(text), std::move(message)};
}

}  // namespace tmflow::runtime::tcp
