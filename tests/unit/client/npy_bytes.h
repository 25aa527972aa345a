#ifndef CALIBD_TESTS_UNIT_CLIENT_NPY_BYTES_H_
#define CALIBD_TESTS_UNIT_CLIENT_NPY_BYTES_H_

#include <cstring>
#include <string>
#include <vector>

namespace calibd::testing {

// Returns a file as NumPy writes it: the header is padded to 64 bytes.
template <typename T>
std::string Npy(const std::string& dict, const std::vector<T>& values, int major = 1) {
  std::string header = dict;
  const std::size_t prefix = major == 1 ? 10 : 12;
  while ((prefix + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string file = "\x93NUMPY";
  file += static_cast<char>(major);
  file += '\0';
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) {
    file += static_cast<char>((header.size() >> (8 * i)) & 0xff);
  }
  file += header;
  const std::size_t at = file.size();
  file.resize(at + values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(file.data() + at, values.data(), values.size() * sizeof(T));
  return file;
}

inline std::string NpyDict(const std::string& descr, const std::string& shape,
                           const std::string& fortran_order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + fortran_order + ", 'shape': " + shape +
         ", }";
}

}  // namespace calibd::testing

#endif  // CALIBD_TESTS_UNIT_CLIENT_NPY_BYTES_H_
