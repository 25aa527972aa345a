#ifndef CALIBD_SERVER_NET_BYTE_LIST_H_
#define CALIBD_SERVER_NET_BYTE_LIST_H_

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace calibd::server {

// Bytes to be sent: views of received bytes, and bytes that the list owns.
class ByteList {
 public:
  // bytes: must stay valid until the list is cleared.
  void AppendView(std::string_view bytes) {
    if (bytes.empty()) return;
    if (!pieces_.empty() && pieces_.back().data() + pieces_.back().size() == bytes.data()) {
      pieces_.back() = {pieces_.back().data(), pieces_.back().size() + bytes.size()};
    } else {
      pieces_.push_back(bytes);
    }
  }
  void AppendCopy(std::string_view bytes) {
    if (!bytes.empty()) pieces_.emplace_back(copies_.emplace_back(bytes));
  }
  void Append(std::string_view bytes, bool copy) { copy ? AppendCopy(bytes) : AppendView(bytes); }
  void Clear() {
    pieces_.clear();
    copies_.clear();
  }

  [[nodiscard]] const std::vector<std::string_view>& pieces() const noexcept { return pieces_; }

 private:
  std::vector<std::string_view> pieces_;
  // A deque, because it does not move its elements.
  std::deque<std::string> copies_;
};

}  // namespace calibd::server

#endif  // CALIBD_SERVER_NET_BYTE_LIST_H_
