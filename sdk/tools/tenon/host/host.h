// The host as the tools use it: through tenon_host_open and the interfaces of sdk/tenon/abi, like
// any other program.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include <tenon/abi/host.h>
#include <tenon/abi/package.h>
#include <tenon/abi/session.h>
#include <tenon/cpp/record.hpp>

namespace tenon::tools {

struct Host {
  const tenon_host_t* host = nullptr;
  const tenon_host_session_t* session = nullptr;
  const tenon_host_graph_t* graph = nullptr;
  const tenon_host_registry_t* registry = nullptr;
  const tenon_host_threads_t* threads = nullptr;
  const tenon_host_files_t* files = nullptr;
  const tenon_host_package_t* packages = nullptr;
};

// Starts the host. Returns an exit status; a failure has been printed.
int host_open(Host& host);

inline tenon_str_t str(std::string_view text) {
  return {text.data(), text.size()};
}
inline std::string_view view(tenon_str_t text) {
  return text.size == 0 ? std::string_view() : std::string_view(text.data, text.size);
}

// Collects what an interface writes.
struct Text {
  std::string text;
  tenon_sink_t sink() { return sink_to(&text); }
};

// The exit status for a code.
int status_of(tenon_code_t code);
// Prints this thread's last failure, with its details and `advice`, and returns its exit status.
int report(const Host& host, tenon_code_t code, std::string_view advice = "");

// Owners of the objects of a session.
template <typename T, void (*tenon_host_session_t::*kRelease)(void*, T*)>
class Owned {
 public:
  explicit Owned(const Host& host) : host_(&host) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  ~Owned() {
    if (object_ != nullptr) (host_->session->*kRelease)(host_->session->self, object_);
  }
  T* get() const { return object_; }
  T** out() { return &object_; }

 private:
  const Host* host_;
  T* object_ = nullptr;
};
using Model = Owned<tenon_model_t, &tenon_host_session_t::model_release>;
using Program = Owned<tenon_program_t, &tenon_host_session_t::program_release>;
using Binding = Owned<tenon_binding_t, &tenon_host_session_t::binding_release>;

// One reference to a graph.
class Graph {
 public:
  explicit Graph(const Host& host) : host_(&host) {}
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    if (graph_ != nullptr) host_->graph->release(host_->graph->self, graph_);
  }
  tenon_graph_t* get() const { return graph_; }
  tenon_graph_t** out() { return &graph_; }

 private:
  const Host* host_;
  tenon_graph_t* graph_ = nullptr;
};

// The explain report on `what`, as JSON text. Returns an exit status.
int explain(const Host& host, std::string_view what, std::string_view filter, std::string& json);
// Writes a whole file through the host's file interface. Returns an exit status.
int write_file(const Host& host, std::string_view path, std::string_view bytes);

}  // namespace tenon::tools
