#include "trainer/launcher.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/logging.h"
#include "common/mutex.h"
#include "common/status_macros.h"
#include "common/usage_error.h"
#include "trainer/ddp/listener.h"

extern char** environ;

namespace millrace::trainer {
namespace {

absl::Status SystemError(absl::string_view what) {
  return absl::InternalError(absl::StrCat(what, ": ", std::strerror(errno)));
}

// Everything that a child needs between fork and exec, created before the fork:
// between the two a child must not allocate.
struct Child {
  std::vector<std::string> environment;
  std::vector<char*> environment_pointers;
  pid_t pid = -1;
  bool running = false;
  int stopped_by = 0;  // signal, such as SIGSTOP; 0: the process runs
};

uint32_t RankOf(const LaunchOptions& options, uint32_t local_rank) {
  return options.node_rank * options.ranks + local_rank;
}

void Prepare(Child* child, uint32_t local_rank, const LaunchOptions& options,
             const ddp::ListeningSocket& listener) {
  static constexpr absl::string_view kOurs[] = {"RANK=",
                                                "WORLD_SIZE=",
                                                "LOCAL_RANK=",
                                                "MASTER_ADDR=",
                                                "MASTER_PORT=",
                                                "LOCAL_WORLD_SIZE=",
                                                "MILLRACE_MASTER_FD=",
                                                "MILLRACE_LAUNCHED="};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    bool ours = false;
    for (absl::string_view name : kOurs) {
      ours |= absl::StartsWith(*variable, name);
    }
    ours |= options.threads_per_rank > 0 &&
            absl::StartsWith(*variable, "OMP_NUM_THREADS=");
    if (!ours) child->environment.push_back(*variable);
  }
  auto add = [child](absl::string_view name, auto value) {
    child->environment.push_back(absl::StrCat(name, "=", value));
  };
  const uint32_t rank = RankOf(options, local_rank);
  const bool own_port = listener.fd.ok();
  add("RANK", rank);
  add("WORLD_SIZE", options.ranks * options.nodes);
  add("LOCAL_RANK", local_rank);
  add("LOCAL_WORLD_SIZE", options.ranks);
  add("MASTER_ADDR", own_port ? "127.0.0.1" : options.master_address);
  add("MASTER_PORT", own_port ? listener.port : options.master_port);
  if (options.threads_per_rank > 0) {
    add("OMP_NUM_THREADS", options.threads_per_rank);
  }
  add("MILLRACE_LAUNCHED", 1);
  if (rank == 0 && own_port) add("MILLRACE_MASTER_FD", listener.fd.get());
  for (std::string& variable : child->environment) {
    child->environment_pointers.push_back(variable.data());
  }
  child->environment_pointers.push_back(nullptr);
}

// Exit code of all programs of this repository for a mistake in their flags.
bool EndedByUsage(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == 2;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    return absl::StrCat("was killed by signal ", signal, " (",
                        strsignal(signal), ")");
  }
  return absl::StrCat("failed with exit code ", WEXITSTATUS(status));
}

// Sets `stopped_by`. A process that is stopped answers no other rank.
void NoteStops(std::vector<Child>& children) {
  for (Child& child : children) {
    siginfo_t info = {};
    while (child.running &&
           waitid(P_PID, static_cast<id_t>(child.pid), &info,
                  WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
           info.si_pid == child.pid) {
      child.stopped_by = info.si_code == CLD_STOPPED ? info.si_status : 0;
      info = {};
    }
  }
}

void SignalAll(const std::vector<Child>& children, int signal) {
  for (const Child& child : children) {
    if (child.running) kill(child.pid, signal);
  }
}

}  // namespace

absl::Status RunRanks(const LaunchOptions& options) {
  if (options.command.empty() || options.ranks < 1) {
    return absl::InvalidArgumentError("no command or no ranks to run");
  }
  if (options.node_rank >= options.nodes) {
    return absl::InvalidArgumentError(
        absl::StrCat("no machine has the number ", options.node_rank, ": the ",
                     options.nodes, " machines are counted from 0"));
  }
  // The socket of the ranks' store, which rank 0 inherits.
  ddp::ListeningSocket listener;
  if (options.master_address.empty()) {
    if (options.nodes > 1) {
      return absl::InvalidArgumentError(
          "a job on several machines needs the address of the first one");
    }
    MR_ASSIGN_OR_RETURN(listener, ddp::ListenOnFreePort(/*loopback=*/true));
  }

  // sigtimedwait() takes the signals one by one: no handler, no race.
  sigset_t signals;
  sigset_t before;
  sigemptyset(&signals);
  for (int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, &before);

  // Everything that a child needs is made before fork(): between fork() and
  // execve() only async-signal-safe functions may be called, because another
  // thread of this process could have held a lock of malloc().
  std::vector<std::string> command = options.command;
  std::vector<char*> arguments;
  for (std::string& argument : command) arguments.push_back(argument.data());
  arguments.push_back(nullptr);

  absl::Status result;
  const pid_t parent = getpid();
  std::vector<Child> children(options.ranks);
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    Prepare(&children[rank], rank, options, listener);
  }
  uint32_t running = 0;
  for (uint32_t rank = 0; rank < options.ranks; ++rank) {
    Child& child = children[rank];
    child.pid = fork();
    if (child.pid == 0) {
      // A group of its own: a terminal's Ctrl-C would reach the ranks as well
      // as the launcher, whose SIGTERM would then be a rank's second signal.
      setpgid(0, 0);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      // A rank whose launcher is gone would run for ever.
      prctl(PR_SET_PDEATHSIG, SIGTERM);
      if (getppid() != parent) _exit(1);
      if (rank == 0 && listener.fd.ok()) fcntl(listener.fd.get(), F_SETFD, 0);
      execve(arguments[0], arguments.data(), child.environment_pointers.data());
      _exit(127);
    }
    if (child.pid < 0) {
      result = SystemError(absl::StrCat("cannot start rank ", rank));
      break;
    }
    child.running = true;
    ++running;
  }

  SteadyTime kill_at = SteadyTime::max();
  bool killed = false;
  // How a rank ended that had a mistake in its flags. It is the cause even when
  // another rank, which missed that rank, ended first.
  absl::Status mistake;
  // The first reason stays: later ranks end because of the first one. The grace
  // time counts from the first request.
  auto stop = [&](absl::Status why) {
    if (result.ok()) result = std::move(why);
    if (kill_at == SteadyTime::max()) kill_at = SteadyDeadline(options.grace);
    SignalAll(children, SIGTERM);
  };
  if (!result.ok()) stop(result);
  while (running > 0) {
    // Wakes each second to compare the time with kill_at.
    const timespec tick = absl::ToTimespec(absl::Seconds(1));
    const int signal = sigtimedwait(&signals, nullptr, &tick);
    if (signal == SIGINT || signal == SIGTERM) {
      stop(absl::CancelledError(absl::StrCat("stopped by signal ", signal, " (",
                                             strsignal(signal), ")")));
    }
    // All children are looked at after each signal: the kernel merges SIGCHLDs
    // that are pending at the same time. A child is not reaped before `running`
    // is false, so its process number cannot belong to another process when it
    // is signalled.
    for (uint32_t rank = 0; rank < options.ranks; ++rank) {
      Child& child = children[rank];
      int status = 0;
      if (!child.running || waitpid(child.pid, &status, WNOHANG) != child.pid) {
        continue;
      }
      child.running = false;
      --running;
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
      absl::Status ended = absl::InternalError(absl::StrCat(
          "rank ", RankOf(options, rank), " of ", options.ranks * options.nodes,
          " (process ", child.pid, ") ", HowItEnded(status),
          "; the other ranks were stopped. See its log above for the reason"));
      // Before SIGTERM is sent to the others, which would change their states.
      NoteStops(children);
      for (uint32_t other = 0; other < options.ranks; ++other) {
        const Child& silent = children[other];
        if (!silent.running || silent.stopped_by == 0) continue;
        ended = absl::InternalError(absl::StrCat(
            "rank ", RankOf(options, other), " of ",
            options.ranks * options.nodes, " (process ", silent.pid,
            ") was paused by signal ", silent.stopped_by, " (",
            strsignal(silent.stopped_by),
            ") and answered no other rank; then rank ", RankOf(options, rank),
            " (process ", child.pid, ") ", HowItEnded(status),
            ". The launcher stopped the other ranks. See the log above"));
        break;
      }
      if (EndedByUsage(status)) mistake.Update(ended);
      if (result.ok()) stop(std::move(ended));
    }
    if (running > 0 && SteadyTime::clock::now() >= kill_at) {
      if (!killed) {
        MR_LOG(ERROR) << running << " rank" << (running == 1 ? "" : "s")
                      << " killed with SIGKILL: still running "
                      << absl::FormatDuration(options.grace)
                      << " after SIGTERM. A checkpoint that was being written "
                         "is lost, the one before it is whole; --stop_grace "
                         "gives more time";
      }
      killed = true;
      SignalAll(children, SIGKILL);
    }
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  return mistake.ok() ? result : UsageError(std::move(mistake));
}

}  // namespace millrace::trainer
