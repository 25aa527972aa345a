#ifndef CALIBD_CLIENT_SRC_MONITOR_PROCESS_H_
#define CALIBD_CLIENT_SRC_MONITOR_PROCESS_H_

namespace calibd::client {

class Monitor;

// The monitors of the process: what a fork and the end of the process do with them.
//
// A process that is forked while gRPC runs has a child in which gRPC hangs, because the child has
// none of its threads. Therefore all connections of monitors end before a fork, and gRPC ends its
// threads with its last user. Afterwards the connections open again in the parent; the numbers of
// the batches make that exact. In the child, monitors start anew.
class MonitorProcess {
 public:
  static void Add(Monitor& monitor);
  static void Remove(Monitor& monitor);

  // True if the process was forked while gRPC was in use.
  [[nodiscard]] static bool InheritsGrpc();

 private:
  struct State;
  static State& Get();
  static void BeforeFork();
  static void AfterForkInParent();
  static void AfterForkInChild();
  static void CloseAll();
};

}  // namespace calibd::client

#endif  // CALIBD_CLIENT_SRC_MONITOR_PROCESS_H_
