// What docs/operations.md promises of exit codes: 2 for a mistake on the
// command line or in a file that it names as configuration, so that a
// supervisor need not try again; 1 for what may be mended elsewhere. The
// trainer's are in tests/trainer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/testing/digits.h"
#include "tests/testing/service.h"
#include "tests/testing/subprocess.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Case {
  std::vector<std::string> command;  // the program first
  int exit_code;
  std::string says;
};

class ExitCodesTest : public ServiceTest {
 protected:
  void SetUp() override {
    const absl::Status written = WriteDigits(digits_, 20);
    ASSERT_TRUE(written.ok()) << written;
    WriteFile(Path("bad.textproto"), "preset: 'mnist'\nbatchsize: 5\n");
    WriteFile(Path("good.textproto"), "preset: 'mnist' batch_size: 5\n");
    WriteFile(Path("other.textproto"),
              "sources { dataset: 'b' } batch_size: 5");
    WriteFile(Path("not.so"), "no library");
    WriteFile(Path("bad.json"), "{");
    WriteFile(Path("cut.mraudit"), std::string("\xFF\xFF\xFF\xFF\x01\0\0\0"
                                               "MRAUDIT1",
                                               16));
  }

  static void Expect(const std::vector<Case>& cases) {
    for (Case one : cases) {
      const std::string words = absl::StrJoin(one.command, " ");
      one.command[0] = ProgramPath(one.command[0]);
      const ProgramResult result = RunProgram(one.command);
      EXPECT_EQ(result.exit_code, one.exit_code) << words << "\n" << result.err;
      EXPECT_THAT(result.err, HasSubstr(one.says)) << words;
      EXPECT_THAT(result.err, Not(HasSubstr("millrace.UsageError"))) << words;
    }
  }

  const std::string digits_ = "lmdb:" + Path("digits.lmdb");
};

TEST_F(ExitCodesTest, Server) {
  const std::string server = "server/millrace-server";
  const std::string dataset = "--dataset=a=" + digits_;
  Expect({
      {{server, "--colour=red"}, 2, "unknown flag --colour"},
      {{server}, 2, "no dataset to serve"},
      {{server, "--config=" + Path("none")}, 2, "No such file"},
      {{server, "--config=" + folder()}, 2, folder()},
      {{server, "--config=" + Path("bad.textproto")}, 2, "bad.textproto:"},
      {{server, dataset, "--operators=" + Path("none.so")}, 2, "none.so"},
      {{server, dataset, "--operators=" + Path("not.so")}, 2, "not.so"},
      {{server, dataset, "--check_config", "--check_pipeline=" + Path("none")},
       2,
       "No such file"},
      {{server, dataset, "--check_config",
        "--check_pipeline=" + Path("bad.textproto")},
       2,
       "bad.textproto:2:"},
      {{server, dataset, "--check_config", "--parse_config"},
       2,
       "--parse_config and --check_config cannot be used together"},
      {{server, "--dataset=a=foo:x"}, 2, "unknown storage format 'foo'"},
      {{server, dataset, "--memory_budget=8MiB"},
       2,
       "the smallest sufficient value is --memory_budget="},
      {{server, dataset, "--check_config",
        "--check_pipeline=" + Path("other.textproto")},
       2,
       "unknown dataset \"b\""},
      // What another machine, or another moment, may have.
      {{server, "--dataset=a=lmdb:" + Path("none")}, 1, "none"},
      {{server, dataset, "--listen=192.0.2.1:7001"}, 1, "192.0.2.1"},
      {{server, dataset, "--listen=127.0.0.1:0", "--port_file=/none/port"},
       1,
       "/none/port"},
  });
}

TEST_F(ExitCodesTest, AnUnknownLogLevel) {
  for (const char* program :
       {"server/millrace-server", "server/data_tool/millrace-data",
        "client/cli/millrace"}) {
    Subprocess started({ProgramPath(program), "--version"},
                       {"MILLRACE_LOG_LEVEL=loud"});
    EXPECT_EQ(started.Wait(), 2) << program;
    EXPECT_THAT(started.Stderr(),
                HasSubstr("MILLRACE_LOG_LEVEL is \"loud\"; set it to debug or "
                          "info"));
  }
}

TEST_F(ExitCodesTest, DataTool) {
  const std::string tool = "server/data_tool/millrace-data";
  const std::string library = "--operators=" + Path("none.so");
  const std::string dataset = "--dataset=" + digits_;
  const std::string good = Path("good.textproto");
  Expect({
      {{tool}, 2, "usage"},
      {{tool, "unpack"}, 2, "unknown command `unpack`"},
      {{tool, "inspect", "--colour", digits_}, 2, "unknown flag --colour"},
      {{tool, "inspect", library, digits_}, 2, "none.so"},
      {{tool, "verify", library, digits_}, 2, "none.so"},
      {{tool, "inspect", Path("digits.lmdb")}, 2, "does not say its format"},
      {{tool, "inspect", "zarr:/x"}, 2, "unknown storage format"},
      {{tool, "verify", "lmdb:"}, 2, "the path is empty"},
      {{tool, "check", dataset, "--dataset=zarr:/x", good}, 2, "zarr"},
      {{tool, "check", dataset, dataset, good}, 2, "names 1 dataset, and 2"},
      {{tool, "preview", dataset, "--preset=mnist", "--field=label",
        "--output=" + Path("sheet.png")},
       2,
       "--field=label is not an image"},
      {{tool, "preview", dataset, "--preset=mnist", "--explain", "--step=99"},
       2,
       "step"},
      {{tool, "pack", "--format=idx", "--input=" + folder(), "--output=lmdb:"},
       2,
       "names no file"},
      {{tool, "check", dataset, library, good}, 2, "none.so"},
      {{tool, "check", Path("none")}, 2, "No such file"},
      {{tool, "check", folder()}, 2, folder()},
      {{tool, "preview", dataset, "--pipeline=" + Path("none"), "--explain"},
       2,
       "No such file"},
      {{tool, "preview", dataset, "--pipeline=" + Path("bad.textproto"),
        "--explain"},
       2,
       "bad.textproto:2:"},
      {{tool, "preview", dataset, "--preset=minst", "--explain"}, 2, "minst"},
      {{tool, "pack", "--format=imagefolder", "--input=" + folder(), library,
        "--output=lmdb:" + Path("out.lmdb")},
       2,
       "none.so"},
      {{tool, "pack", "--format=idx", "--split=dev", "--input=" + folder(),
        "--output=lmdb:" + Path("out.lmdb")},
       2,
       "--split to train or test"},
      // The result of a look at data, or at a file, is no mistake of its use.
      {{tool, "check", Path("bad.textproto")}, 1, "bad.textproto:2:"},
      {{tool, "inspect", "lmdb:" + Path("none")}, 1, "none"},
      {{tool, "verify", "lmdb:" + Path("none")}, 1, "none"},
      {{tool, "check", "--dataset=lmdb:" + Path("none"), good}, 1, "none"},
      {{tool, "preview", "--dataset=lmdb:" + Path("none"), "--preset=mnist",
        "--explain"},
       1,
       "none"},
      {{tool, "pack", "--format=imagefolder", "--input=" + folder(),
        "--output=lmdb:" + Path("out.lmdb")},
       1,
       "contains no folders"},
      {{tool, "pack", "--format=imagefolder", "--input=" + folder(),
        "--output=lmdb:" + Path("none/out.lmdb")},
       1,
       "none"},
      // A path that is to be read or written, and is not what it must be.
      {{tool, "pack", "--format=imagefolder", "--input=" + Path("none"),
        "--output=lmdb:" + Path("out.lmdb")},
       2,
       "there is no folder"},
      {{tool, "pack", "--format=imagefolder", "--input=" + good,
        "--output=lmdb:" + Path("out.lmdb")},
       2,
       "there is no folder"},
      {{tool, "pack", "--format=idx", "--input=" + folder(),
        "--output=lmdb:" + Path("out.lmdb")},
       2,
       "there is no train-images"},
      {{tool, "pack", "--format=imagefolder", "--input=" + folder(),
        "--output=" + digits_},
       2,
       "exists already; "},
  });
}

// A result that is lost is no success.
TEST_F(ExitCodesTest, DataToolOnAFullDisk) {
  const std::string tool = ProgramPath("server/data_tool/millrace-data");
  for (const std::string& words :
       {std::string("--help"), std::string("--version"), "inspect " + digits_,
        "verify " + digits_, "check " + Path("good.textproto"),
        "preview --dataset=" + digits_ + " --preset=mnist --explain"}) {
    for (const char* place : {" > /dev/full", " >&-"}) {
      const ProgramResult result =
          RunProgram({"/bin/sh", "-c", absl::StrCat(tool, " ", words, place)});
      EXPECT_EQ(result.exit_code, 1) << words << place << "\n" << result.err;
      EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"))
          << words << place;
    }
  }
}

TEST_F(ExitCodesTest, Client) {
  const std::string millrace = "client/cli/millrace";
  const std::string closed = "--endpoint=127.0.0.1:1";
  const std::string soon = "--timeout=300ms";
  std::vector<Case> cases = {
      {{millrace}, 2, "usage: millrace COMMAND"},
      {{millrace, "state"}, 2, "unknown command `state`; did you mean status?"},
      {{millrace, "--help", "bench"}, 2, "unexpected argument `bench`"},
      {{millrace, "--version", "--json"}, 2, "unexpected argument `--json`"},
      {{millrace, "status"}, 2, "--endpoint=HOST:PORT is missing"},
      {{millrace, "status", "--endpoint=data-1"}, 2, "no port"},
      {{millrace, "status", closed, soon}, 1, "no data server answers"},
      {{millrace, "doctor"}, 2, "--run=SUMMARY.json is missing"},
      {{millrace, "doctor", "--run=" + Path("none")}, 2, "No such file"},
      {{millrace, "doctor", "--run=" + Path("bad.json")},
       2,
       "is not a summary"},
      {{millrace, "doctor", "--run=" + Path("bad.json"), "--compare="},
       2,
       "flag --compare=: expected a value"},
      {{millrace, "doctor", "--compare", "", Path("bad.json")},
       2,
       "flag --compare=: expected a value"},
      {{millrace, "bench", "--server=/none", "--synthetic"}, 2, "/none"},
      {{millrace, "audit", closed, "--dataset=a", "--compare=3"},
       2,
       "--compare has no effect without --files"},
      {{millrace, "audit", "--files=" + Path("none"), "--world=2"},
       2,
       "--world and --epoch out"},
      {{millrace, "audit", "--files=" + Path("none")}, 2, "No such file"},
      {{millrace, "audit", "--files=" + NewTempDir()},
       2,
       "contains no audit log"},
      {{millrace, "audit", "--files=" + Path("bad.json")},
       2,
       "is not an audit log"},
      {{millrace, "audit", "--files=" + Path("cut.mraudit")},
       1,
       "is cut off or damaged: it has 16 bytes"},
      {{millrace, "doctor", "--compare", "a.json", "b.json", "--run=a.json"},
       2,
       "--compare a.json b.json names both runs: leave --run out"},
      {{millrace, "doctor", "--compare", "a.json"},
       2,
       "--compare names one run, a.json: give the summary of the other run"},
      {{millrace, "bench", closed, "--synthetic", "--batch_size=64",
        "--world=7"},
       2,
       "--world=7: 64 samples of a global batch (--batch_size) cannot be "
       "shared equally by 7 ranks; the nearest sizes that divide it: 4 and 8"},
      {{millrace, "bench", closed, "--synthetic", "--batch_size=1",
        "--world=3"},
       2,
       "--world=3: 1 sample of a global batch (--batch_size) cannot be shared "
       "equally by 3 ranks; the nearest sizes that divide it: 1"},
      {{millrace, "doctor", "--compare=a.json", "--run=a.json"},
       2,
       "--run and --compare both name a.json"},
      {{millrace, "replay", closed, "--dataset=a", "--position=0:0",
        "--output=" + Path("batch"), "--hedge_share=0.5"},
       2,
       "unknown flag --hedge_share"},
      {{millrace, "replay", closed, "--run=" + Path("none"), "--position=0:0",
        "--output=" + Path("batch")},
       2,
       "No such file"},
      {{millrace, "replay", closed, "--run=" + Path("bad.json"),
        "--position=0:0", "--output=" + Path("batch")},
       2,
       "bad.json"},
  };
  // What acts on requests to servers, where there are none.
  for (const char* flag : {"--compare=3", "--timeout=1s", "--step_timeout=1s",
                           "--same_host=auto"}) {
    const std::string name(flag, std::strchr(flag, '=') - flag);
    cases.push_back({{millrace, "audit", "--files=" + folder(), flag},
                     2,
                     name + " has no effect without --endpoint"});
  }
  for (const char* flag : {"--hedge_share=0.1", "--hedge_floor=1s"}) {
    cases.push_back({{millrace, "audit", "--files=" + folder(), closed, flag},
                     2,
                     "has no effect with --files"});
  }
  for (const char* command : {"bench", "audit", "replay"}) {
    const std::vector<std::string> more =
        command == std::string("replay")
            ? std::vector<std::string>{"--position=0:0",
                                       "--output=" + Path("batch")}
            : std::vector<std::string>{};
    const auto add = [&](std::vector<std::string> flags, int exit_code,
                         std::string says) {
      flags.insert(flags.begin(), {millrace, command});
      flags.insert(flags.end(), more.begin(), more.end());
      cases.push_back({std::move(flags), exit_code, std::move(says)});
    };
    add({closed}, 2, "--dataset=NAME is missing");
    add({closed, "--dataset=a", "--dataset=b"}, 2, "--dataset is given twice");
    add({closed, "--pipeline=" + Path("none")}, 2, "No such file");
    add({closed, "--pipeline=" + Path("bad.textproto")}, 2, "bad.textproto:2:");
    add({closed, "--pipeline=" + Path("good.textproto")}, 2,
        "good.textproto: the file names no dataset; give --dataset=NAME");
    add({closed, "--dataset=a", "--preset=mnist", "--world=3"}, 2,
        "--world=3: 64 samples of a global batch");
    add({closed, "--dataset=\xff"}, 2,
        "--dataset=\\377: the value is not UTF-8");
    add({"--endpoint=data-1", "--dataset=a", "--preset=mnist"}, 2, "no port");
    add({closed, "--dataset=a", "--preset=mnist", soon}, 1, "refused");
  }
  Expect(cases);
}

// As `| head -1` does once it has its line, and `>&-`. verify took the first
// for damage of the file.
TEST_F(ExitCodesTest, DataToolWithoutAReaderOfItsOutput) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  close(ends[0]);
  for (const char* name : {"cat", "dog"}) {
    const std::string folder = Path(absl::StrCat("images/", name));
    std::filesystem::create_directories(folder);
    WriteFile(folder + "/1.jpg", absl::StrCat("\xFF\xD8\xFF", name));
  }
  const std::string data = ProgramPath("server/data_tool/millrace-data");
  for (const std::string& to : {absl::StrCat(ends[1]), std::string("-")}) {
    const std::string shell = "exec \"$@\" >&" + to;
    const auto expect = [&](std::vector<std::string> command) {
      command.insert(command.begin(), {"/bin/sh", "-c", shell, "sh", data});
      const ProgramResult result = RunProgram(command);
      EXPECT_EQ(result.exit_code, 1) << command[5] << to << result.err;
      EXPECT_THAT(result.err, HasSubstr("cannot write to standard output"))
          << command[5];
      EXPECT_THAT(result.err, Not(HasSubstr("damage"))) << command[5];
    };
    expect({"verify", digits_});
    expect({"preview", "--dataset=" + digits_, "--preset=mnist", "--explain"});
    expect({"pack", "--format=imagefolder", "--no_decode", "--overwrite",
            "--input=" + Path("images"), "--output=lmdb:" + Path("i.lmdb")});
    // It was packed before the line about it.
    EXPECT_EQ(
        RunProgram({data, "verify", "lmdb:" + Path("i.lmdb"), "--no_decode"})
            .exit_code,
        0);
  }
  close(ends[1]);
}

TEST_F(ExitCodesTest, SyntheticDataThatTheServerRefuses) {
  const auto server = Serve({"--dataset=a=" + digits_, "--refuse_synthetic"});
  Expect({{{"client/cli/millrace", "bench", "--endpoint=" + server->address(),
            "--synthetic"},
           2,
           "refuses requests for synthetic data (--refuse_synthetic)"}});
}

// What a server refuses of a pipeline, whatever the code: it was 1 where this
// version's servers cannot do what the pipeline asks.
TEST_F(ExitCodesTest, APipelineThatNoServerRuns) {
  const auto server = Serve({"--synthetic_only"});
  WriteFile(Path("channels.textproto"),
            "sources { synthetic { samples: 64 fields { name: 'image' "
            "  dtype: DTYPE_UINT8 shape: [1, 1, 16] } } } batch_size: 8 "
            "transforms { resize { height: 4 width: 4 } }");
  const std::string millrace = "client/cli/millrace";
  const std::string endpoint = "--endpoint=" + server->address();
  const std::string pipeline = "--pipeline=" + Path("channels.textproto");
  const std::string says = "has 16 channels";
  Expect({
      {{millrace, "bench", endpoint, pipeline}, 2, says},
      {{millrace, "audit", endpoint, pipeline}, 2, says},
      {{millrace, "replay", endpoint, pipeline, "--position=0:0",
        "--output=" + Path("batch")},
       2,
       says},
  });
}

// They ended with 0.
TEST_F(ExitCodesTest, OutputThatIsLostIsAnError) {
  const std::string millrace = ProgramPath("client/cli/millrace");
  for (const char* arguments :
       {"--help", "--version", "status --help", "bench --help", "audit --help",
        "replay --help", "doctor --help"}) {
    for (const auto& [place, reason] :
         {std::pair(" > /dev/full", "No space left on device"),
          std::pair(" >&-", "Bad file descriptor")}) {
      const ProgramResult result = RunProgram(
          {"/bin/sh", "-c", absl::StrCat(millrace, " ", arguments, place)});
      EXPECT_EQ(result.exit_code, 1) << arguments << place;
      // Also of a long text, which fails before it is flushed.
      EXPECT_THAT(result.err,
                  HasSubstr(absl::StrCat(": cannot write to standard output: ",
                                         reason)))
          << arguments << place;
      EXPECT_THAT(result.err, Not(HasSubstr("DATA_LOSS")));
    }
  }
}

}  // namespace
}  // namespace millrace::testing
