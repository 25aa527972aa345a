#include "token_interceptor.h"

#include <cstdlib>
#include <utility>

#include "calibd/client/token.h"

namespace calibd::client {
namespace {

using grpc::experimental::InterceptionHookPoints;

class TokenInterceptor final : public grpc::experimental::Interceptor {
 public:
  explicit TokenInterceptor(std::string token) : token_(std::move(token)) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    if (methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_INITIAL_METADATA)) {
      methods->GetSendInitialMetadata()->emplace("authorization", "Bearer " + token_);
    }
    methods->Proceed();
  }

 private:
  const std::string token_;
};

class TokenInterceptorFactory final : public grpc::experimental::ClientInterceptorFactoryInterface {
 public:
  explicit TokenInterceptorFactory(TokenSource source) : source_(std::move(source)) {}

  // gRPC takes ownership.
  grpc::experimental::Interceptor* CreateClientInterceptor(
      grpc::experimental::ClientRpcInfo* /*info*/) override {
    std::string token = source_();
    return token.empty() ? nullptr : new TokenInterceptor(std::move(token));
  }

 private:
  const TokenSource source_;
};

}  // namespace

TokenSource TokenSourceOr(TokenSource source) {
  if (source) return source;
  const char* const file = std::getenv("CALIBD_TOKEN_FILE");
  if (file == nullptr || *file == '\0') return nullptr;
  return TokenOfFile(file);
}

std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>>
TokenInterceptors(TokenSource source) {
  std::vector<std::unique_ptr<grpc::experimental::ClientInterceptorFactoryInterface>> interceptors;
  if (source) interceptors.push_back(std::make_unique<TokenInterceptorFactory>(std::move(source)));
  return interceptors;
}

}  // namespace calibd::client
