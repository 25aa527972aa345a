// Compiles the parts of Boost.Asio and Boost.Beast that can be compiled separately.
#include <boost/asio/impl/src.hpp>
#include <boost/beast/src.hpp>
