#include "calibd/client/token.h"

#include <fstream>

namespace calibd::client {

std::function<std::string()> TokenOfFile(const std::string& path) {
  return [path] {
    std::ifstream file(path);
    std::string token;
    file >> token;
    // A token is printable ASCII. Another byte would end the call with an error that repeats it.
    for (const char byte : token) {
      if (byte <= ' ' || byte > '~') return std::string();
    }
    return token;
  };
}

}  // namespace calibd::client
